/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - makes a line when somebody listens, and one sink for terminals. */
#include "base/log.h"

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
	log->sink(log->arg, level, who, line);
}

/* One write per line, so that lines of several threads or processes never mix. */
void tw_log_stderr(void *arg, enum tw_level level, const char *who, const char *line)
{
	char out[1280];
	int n = snprintf(out, sizeof out, "thalweg: %s%s%s\n", who, *who ? ": " : "", line);
	const char *at = out;
	size_t left;

	if (n < 0)
		return;
	if ((size_t)n >= sizeof out) {
		n = (int)sizeof out - 1;
		out[n - 1] = '\n';
	}
	for (left = (size_t)n; left > 0;) {
		const ssize_t wrote = write(STDERR_FILENO, at, left);

		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote <= 0)
			return; /* nobody is left to tell */
		at += wrote;
		left -= (size_t)wrote;
	}
}
