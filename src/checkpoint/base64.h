/* SPDX-License-Identifier: Apache-2.0 */
/* base64.h - bytes as text, and back (RFC 4648: A-Z a-z 0-9 + /, padded with =). */
#ifndef TW_BASE_BASE64_H
#define TW_BASE_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* Letters of n bytes, without the zero behind them. */
#define TW_BASE64_LETTERS(n) (((n) + 2) / 3 * 4)

/* Write TW_BASE64_LETTERS(n) letters and a zero. */
void tw_base64_write(const void *bytes, size_t n, char *out);
/* Read text of exactly TW_BASE64_LETTERS(n) letters into n bytes; false for anything else. */
bool tw_base64_read(const char *text, size_t letters, void *out, size_t n);

#endif
