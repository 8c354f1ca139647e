/* SPDX-License-Identifier: Apache-2.0 */
/* json_lines.h - JSON lines: one compact object per line, for programs that read as we write.
 *
 *  (1) a line is given to the file whole, and flushed: a reader never waits for the rest of one.
 *  (2) what cannot be written never stops a run.  It is said on the log, once; a reader who left
 *      (EPIPE) is not even that. */
#ifndef TW_BASE_JSON_LINES_H
#define TW_BASE_JSON_LINES_H

#include "base/machine/log.h"
#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* All zeros: nobody reads, and lines go nowhere. */
struct tw_json_lines {
	FILE *file;
	char name[300];           /* for the sentence: "--log", "runs/a/log.jsonl" */
	const struct tw_log *log; /* may be NULL */
	bool patient;             /* try again with every line; else the first failure ends it */
	bool failed;
};

/* One line, '\n' included, for free(); NULL without memory. */
char *tw_json_line(const json_t *object);

/* Append to the file of --log, "-" and the like included: TW_BAD_INPUT with a sentence. */
enum tw_status tw_json_lines_open(struct tw_json_lines *l, const char *path,
				  const struct tw_log *log, struct tw_error *why);
/* Write a line; NULL is none.  The object stays the caller's. */
void tw_json_lines_put(struct tw_json_lines *l, const json_t *object);
void tw_json_lines_close(struct tw_json_lines *l);

#endif
