/* SPDX-License-Identifier: Apache-2.0 */
/* tls.h - TLS 1.3 for the cluster: a key that all share, or certificates for both sides.
 *
 * With a key: psk_dhe_ke, TLS_AES_128_GCM_SHA256 only, no early data, no tickets; who has the key
 * is a member.  With certificates: both sides show one that the cluster's authority has signed;
 * the dialler also checks the name or address it dialled. */
#ifndef TW_WIRE_TLS_H
#define TW_WIRE_TLS_H

#include "base/heap.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TW_KEY_BYTES 32

struct tw_tls_options {
	const uint8_t *key;      /* TW_KEY_BYTES, or NULL: certificates */
	const char *certificate; /* PEM files: ours (with what chains it) ... */
	const char *private_key; /* ... its key, 0600 or stricter ... */
	const char *authority;   /* ... and who signs the others' */
};

/* TW_BAD_INPUT with a sentence (file, reason, what would be accepted) where files are not as they
 * should be. */
struct tw_tls;
enum tw_status tw_tls_new(struct tw_heap *heap, const struct tw_tls_options *o, struct tw_tls **out,
			  struct tw_error *why);
void tw_tls_free(struct tw_tls *tls); /* NULL is allowed; clears keys */

#endif
