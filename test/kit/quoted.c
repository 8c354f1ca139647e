/* SPDX-License-Identifier: Apache-2.0 */
/* quoted.c - what a sentence quotes. */
#include "kit/quoted.h"

#include <stdio.h>
#include <string.h>

bool quoted(const char **at, char *out, size_t room)
{
	const char *from = strchr(*at, '`'), *to = from ? strchr(from + 1, '`') : NULL;

	if (!to)
		return false;
	snprintf(out, room, "%.*s", (int)(to - from - 1), from + 1);
	*at = to + 1;
	return true;
}
