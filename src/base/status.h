/* SPDX-License-Identifier: Apache-2.0 */
/* status.h - how a function says what went wrong, and the sentence for people. */
#ifndef TW_BASE_STATUS_H
#define TW_BASE_STATUS_H

#include <stdarg.h>

enum tw_status {
	TW_OK = 0,
	TW_NO_MEMORY,   /* an allocation failed */
	TW_BAD_INPUT,   /* the user's request is wrong: exit code 2 */
	TW_BAD_BYTES,   /* bytes from a wire or a file that are not what they claim */
	TW_NO_ROOM,     /* the caller's buffer is too small */
	TW_IO,          /* the outside world refused: disk, socket */
	TW_REFUSED,     /* a peer or a policy said no */
	TW_ABSENT,      /* what was asked for does not exist */
	TW_INTERRUPTED, /* stopped on request after a clean checkpoint: exit code 75 */
	TW_CANCELLED,   /* given up because nobody wants the result any more */
};

/* A status with its sentence.  `text` is "" while the status is TW_OK. */
struct tw_error {
	enum tw_status status;
	char text[600];
};

/* What pthread_create's EAGAIN means, for a sentence. */
#define TW_NO_THREAD "no memory for another thread, or too many threads (ulimit -v, ulimit -u)"

/* One word for a status, never NULL. */
const char *tw_status_name(enum tw_status status);

/* Fill *e (which may be NULL) with the sentence and return `status`.  The first cause is kept:
 * an error that is already set is not overwritten.  What came from outside is made printable. */
enum tw_status tw_fail(struct tw_error *e, enum tw_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* An invariant of ours does not hold: say which on stderr and abort. */
_Noreturn void tw_bug(const char *file, int line, int number, const char *truth);

#define HOLDS(number, truth) ((truth) ? (void)0 : tw_bug(__FILE__, __LINE__, number, #truth))

#endif
