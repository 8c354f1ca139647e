/* SPDX-License-Identifier: Apache-2.0 */
/* status.c - names of statuses, sentences, and the end of a program that broke its own word. */
#include "base/printable.h"
#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>

const char *tw_status_name(enum tw_status status)
{
	static const char *const names[] = {
		[TW_OK] = "ok",
		[TW_NO_MEMORY] = "no memory",
		[TW_BAD_INPUT] = "bad input",
		[TW_BAD_BYTES] = "bad bytes",
		[TW_NO_ROOM] = "no room",
		[TW_IO] = "input/output",
		[TW_REFUSED] = "refused",
		[TW_ABSENT] = "absent",
		[TW_INTERRUPTED] = "interrupted",
		[TW_CANCELLED] = "cancelled",
	};

	if ((unsigned)status >= sizeof names / sizeof names[0])
		return "unknown";
	return names[status];
}

enum tw_status tw_fail(struct tw_error *e, enum tw_status status, const char *format, ...)
{
	va_list args;

	if (!e || e->status != TW_OK)
		return status;
	e->status = status;
	va_start(args, format);
	vsnprintf(e->text, sizeof e->text, format, args);
	va_end(args);
	tw_printable(e->text);
	return status;
}

void tw_bug(const char *file, int line, int number, const char *truth)
{
	fprintf(stderr, "thalweg: broken invariant (%d) at %s:%d: %s\n", number, file, line, truth);
	abort();
}
