/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - makes a line when somebody listens, and one sink for terminals. */
#include "base/machine/log.h"
#include "base/printable.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void tw_log_line(const struct tw_log *log, enum tw_level level, const char *who, const char *format,
		 ...)
{
	char line[1024];
	va_list args;

	if (!log || !log->sink || level > log->level)
		return;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	tw_printable(line);
	log->sink(log->arg, level, who, line);
}

/* One write per line, so that lines of several threads or processes never mix. */
void tw_log_stderr(void *arg, enum tw_level level, const char *who, const char *line)
{
	char out[1280];
	const char *at = out;
	size_t left;

	snprintf(out, sizeof out - 1, "thalweg: %s%s%s", who, *who ? ": " : "", line);
	tw_printable(out); /* `who` may have a host's name in it */
	left = strlen(out);
	out[left++] = '\n';
	while (left > 0) {
		const ssize_t wrote = write(STDERR_FILENO, at, left);

		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote <= 0)
			return; /* nobody is left to tell */
		at += wrote;
		left -= (size_t)wrote;
	}
}
