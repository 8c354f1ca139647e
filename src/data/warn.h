/* SPDX-License-Identifier: Apache-2.0 */
/* warn.h - warnings about what is probably a mistake: a bounded list of sentences. */
#ifndef TW_DATA_WARN_H
#define TW_DATA_WARN_H

#define TW_WARNINGS_MOST 8
#define TW_WARNING_ROOM  280

struct tw_warnings {
	unsigned count; /* at most TW_WARNINGS_MOST; what comes after is dropped */
	char text[TW_WARNINGS_MOST][TW_WARNING_ROOM];
};

/* Add a sentence: what is odd (file, line, column), and what to write instead.  It becomes
 * printable UTF-8.  `w` may be NULL: warnings are dropped. */
void tw_warn(struct tw_warnings *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
