/* SPDX-License-Identifier: Apache-2.0 */
/* spawn.h - start the program as a user would, and look at what it says. */
#ifndef TW_TEST_CLI_SPAWN_H
#define TW_TEST_CLI_SPAWN_H

#include "kit/has.h"
#include "kit/scratch.h"

#include <jansson.h>
#include <stddef.h>
#include <sys/types.h>

struct said {
	int code;        /* exit code, or -signal */
	char *out, *err; /* never NULL */
};

/* Run `thalweg` with words split at blanks ("sim examples/asgd.yaml --json"), `input` (may be NULL)
 * on its standard input.  The result is of static storage and lives until the next call. */
const struct said *thalweg(const char *input, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Start it and do not wait; `finish` waits and gives what it said. */
pid_t thalweg_start(const char *format, ...) __attribute__((format(printf, 1, 2)));
const struct said *thalweg_finish(pid_t child);

/* Several at the same time: begun with "NAME=value" words (may be NULL) in the environment ... */
struct running {
	pid_t pid;
	void *files[2]; /* of its stdout and stderr */
};
void thalweg_begin(struct running *r, const char *environment, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* ... looked at: what it has said on stderr, the caller's to free ... */
char *thalweg_err(const struct running *r);
/* ... awaited until it has said a line with `before` there, the rest of which goes to `out` (the
 * test fails after half a minute) ... */
void await_line(const struct running *r, const char *before, char *out, size_t room);
/* ... and waited for.  *out is the caller's: said_free. */
void thalweg_end(struct running *r, struct said *out);
void said_free(struct said *s);

/* The one JSON object on stdout; fails the test if it is anything else.  The caller's reference. */
json_t *object_of(const struct said *s);
/* Its parameters' digest; the caller's to free. */
char *digest_of(const struct said *s);
/* That of a command which must end well; format has two %s. */
char *digest_after(const char *format, const char *a, const char *b);
/* They must be equal; both are freed. */
void same_digest(char *a, char *b);
/* The path of a file in the folder; the caller's to free. */
char *path_kept(const char *name);

/* The command, with these words in its environment (may be NULL), must end with exit code 2, a
 * sentence with `why` in it, and nothing on stdout. */
void thalweg_refuses(const char *environment, const char *why, const char *command);

void pause_ms(long ms);

/* Or fail the test, and say what there was instead. */
void expect(const struct said *s, int code);

/* A job file; its path lives until the next one is written. */
const char *put_job(const char *text);

#endif
