/* SPDX-License-Identifier: Apache-2.0 */
/* printable.c - text from outside as it may stand on a terminal and in a log. */
#include "base/printable.h"

#include <stdint.h>
#include <string.h>

/* Bytes of the character of UTF-8 that begins here; 0: it is none.  Neither longer forms than
 * needed nor halves of pairs are characters. */
static size_t decode(const unsigned char *s, size_t left, uint32_t *out)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const size_t n = s[0] < 0x80             ? 1
			 : (s[0] & 0xe0) == 0xc0 ? 2
			 : (s[0] & 0xf0) == 0xe0 ? 3
			 : (s[0] & 0xf8) == 0xf0 ? 4
						 : 0;
	uint32_t c = n > 1 ? s[0] & (0x7fu >> n) : s[0];

	if (!n || n > left)
		return 0;
	for (size_t k = 1; k < n; k++) {
		if ((s[k] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[k] & 0x3f);
	}
	*out = c;
	return c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : n;
}

static bool is_harmless(uint32_t c)
{
	if (c < 0x20 || (c >= 0x7f && c < 0xa0))
		return false;
	/* marks and overrides of direction; separators of lines and paragraphs */
	return c != 0x61c && c != 0x200e && c != 0x200f && !(c >= 0x2028 && c <= 0x202e) &&
	       !(c >= 0x2066 && c <= 0x2069);
}

static bool is_blank(unsigned char c)
{
	return c >= '\t' && c <= '\r';
}

/* One character from *at, which moves on: its bytes in out, and how many.  blanks: white space is
 * one. */
static size_t next(const unsigned char **at, size_t *left, bool blanks, char out[4])
{
	uint32_t c = 0;
	size_t n = decode(*at, *left, &c);
	const bool good = n && is_harmless(c);

	if (good)
		memmove(out, *at, n);
	else
		out[0] = blanks && is_blank(**at) ? ' ' : '?';
	*at += n ? n : 1;
	*left -= n ? n : 1;
	return good ? n : 1;
}

size_t tw_harmless(const char *text, size_t left)
{
	uint32_t c = 0;
	const size_t n = decode((const unsigned char *)text, left, &c);

	return is_harmless(c) ? n : 0;
}

bool tw_is_printable(const char *text)
{
	size_t left = strlen(text);

	while (left) {
		const size_t n = tw_harmless(text, left);

		if (!n)
			return false;
		text += n;
		left -= n;
	}
	return true;
}

void tw_printable(char *text)
{
	const unsigned char *at = (const unsigned char *)text;
	size_t left = strlen(text);
	char one[4];

	while (left) {
		const size_t n = next(&at, &left, true, one);

		memcpy(text, one, n);
		text += n;
	}
	*text = 0;
}

const char *tw_show_in(const char *text, size_t bytes, char *out, size_t room)
{
	const unsigned char *at = (const unsigned char *)text;
	size_t used = 0, whole = 0; /* whole: what fits before "..." */
	char one[4];

	while (bytes) {
		const size_t n = next(&at, &bytes, false, one);

		if (used + n >= room) {
			memcpy(out + whole, "...", 4);
			return out;
		}
		memcpy(out + used, one, n);
		used += n;
		if (used + 4 <= room)
			whole = used;
	}
	out[used] = 0;
	return out;
}

struct tw_printable tw_show(const char *text)
{
	struct tw_printable s = { "" };

	tw_show_in(text, strlen(text), s.text, sizeof s.text);
	return s;
}
