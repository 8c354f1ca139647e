/* SPDX-License-Identifier: Apache-2.0 */
/* base64.c - three bytes are four letters. */
#include "checkpoint/base64.h"

#include <stdint.h>
#include <string.h>

static const char letter[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void tw_base64_write(const void *bytes, size_t n, char *out)
{
	const uint8_t *b = bytes;

	for (size_t at = 0; at < n; at += 3) {
		const size_t left = n - at;
		const uint32_t v = (uint32_t)b[at] << 16 |
				   (left > 1 ? (uint32_t)b[at + 1] << 8 : 0) |
				   (left > 2 ? b[at + 2] : 0);

		*out++ = letter[v >> 18];
		*out++ = letter[v >> 12 & 63];
		*out++ = left > 1 ? letter[v >> 6 & 63] : '=';
		*out++ = left > 2 ? letter[v & 63] : '=';
	}
	*out = '\0';
}

static bool value(char c, uint32_t *v)
{
	const char *at = c ? strchr(letter, c) : NULL;

	if (!at)
		return false;
	*v = *v << 6 | (uint32_t)(at - letter);
	return true;
}

bool tw_base64_read(const char *text, size_t letters, void *out, size_t n)
{
	uint8_t *b = out;

	if (letters != TW_BASE64_LETTERS(n))
		return false;
	for (size_t at = 0; at < n; at += 3, text += 4) {
		const size_t left = n - at < 3 ? n - at : 3;
		uint32_t v = 0;

		for (size_t k = 0; k < 4; k++)
			if (k <= left ? !value(text[k], &v) : (v <<= 6, text[k] != '='))
				return false;
		/* bits behind the last byte are 0: every value is written in one way only */
		if (v & (left == 1 ? 0xFFFFu : left == 2 ? 0xFFu : 0))
			return false;
		for (size_t k = 0; k < left; k++)
			b[at + k] = (uint8_t)(v >> (16 - 8 * k));
	}
	return true;
}
