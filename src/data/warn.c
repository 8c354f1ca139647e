/* SPDX-License-Identifier: Apache-2.0 */
/* warn.c - a bounded list of sentences. */
#include "data/warn.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

void tw_warn(struct tw_warnings *w, const char *format, ...)
{
	va_list args;

	if (!w || w->count == TW_WARNINGS_MOST)
		return;
	va_start(args, format);
	vsnprintf(w->text[w->count++], TW_WARNING_ROOM, format, args);
	va_end(args);
}
