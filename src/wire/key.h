/* SPDX-License-Identifier: Apache-2.0 */
/* key.h - the cluster's key: made, written as text, read from a file that only its owner can read.
 * */
#ifndef TW_WIRE_KEY_H
#define TW_WIRE_KEY_H

#include "base/status.h"
#include "wire/tls.h"

/* Text of a key, one line: "thalweg-key-1 " and 64 hex digits; room for it with newline and 0. */
#define TW_KEY_TEXT 96

/* A new random key as text with newline. */
enum tw_status tw_key_make(char out[TW_KEY_TEXT], struct tw_error *why);
/* From its text (spaces and newline around it are allowed). */
enum tw_status tw_key_parse(const char *text, uint8_t key[TW_KEY_BYTES], struct tw_error *why);
/* From a file: refused with a sentence when others may read it (chmod 600), when it is missing,
 * not a key, or not a file. */
enum tw_status tw_key_read(const char *path, uint8_t key[TW_KEY_BYTES], struct tw_error *why);

#endif
