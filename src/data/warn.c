/* SPDX-License-Identifier: Apache-2.0 */
/* warn.c - a bounded list of sentences. */
#include "data/warn.h"
#include "data/names.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void tw_warn(struct tw_warnings *w, const char *format, ...)
{
	char *text;
	va_list args;

	if (!w || w->count == TW_WARNINGS_MOST)
		return;
	text = w->text[w->count++];
	va_start(args, format);
	vsnprintf(text, TW_WARNING_ROOM, format, args);
	va_end(args);
	tw_name_print(text, strlen(text)); /* a path may be anything, and a name may be cut */
}
