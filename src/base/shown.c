/* SPDX-License-Identifier: Apache-2.0 */
/* shown.c - a text from outside, short and printable, for a sentence about it. */
#include "base/shown.h"

#include <stddef.h>
#include <string.h>

struct tw_shown tw_show(const char *text)
{
	struct tw_shown s;
	size_t n = 0;

	for (; n < sizeof s.text - 1 && text[n]; n++)
		s.text[n] = text[n] < ' ' || text[n] > '~' ? '?' : text[n];
	s.text[n] = 0;
	if (text[n])
		memcpy(s.text + n - 3, "...", 3);
	return s;
}
