/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - the only way anything below cli/ speaks to people while it works. */
#ifndef TW_BASE_LOG_H
#define TW_BASE_LOG_H

#include <stdarg.h>
#include <stdint.h>

enum tw_level { TW_ERROR, TW_WARNING, TW_INFO, TW_DEBUG };

/* Takes one line without newline.  `who` names role, id and host ("worker 3"), never NULL.  May
 * be called from any thread. */
typedef void (*tw_log_sink)(void *arg, enum tw_level level, const char *who, const char *line);

struct tw_log {
	tw_log_sink sink; /* NULL: silence */
	void *arg;
	enum tw_level level; /* lines above this level are not made */
};

/* What came from outside is made printable (base/printable.h). */
void tw_log_line(const struct tw_log *log, enum tw_level level, const char *who, const char *format,
		 ...) __attribute__((format(printf, 4, 5)));
/* A sink that writes "thalweg: who: line" to stderr, one write per line. */
void tw_log_stderr(void *arg, enum tw_level level, const char *who, const char *line);

#endif
