/* SPDX-License-Identifier: Apache-2.0 */
/* schedule_csv.h - lists of moves as text, as torch.distributed.pipelining reads and writes them.
 *
 * One line per cell (rank), cells of the table separated by commas: "2F0" is the forward of stage 2
 * on micro-batch 0, "0B2" a backward, "1I3" and "1W3" its two halves.  An empty cell is a pause and
 * says nothing.  Updates are not written: there is one after the last move. */
#ifndef TW_QUERY_SCHEDULE_CSV_H
#define TW_QUERY_SCHEDULE_CSV_H

#include "strategy/pipeline.h"

#include <stdio.h>

struct tw_schedule_row {
	struct tw_pipe_move *move;
	uint32_t *column; /* where each move stands in its line, from 1 on */
	size_t count;
};

struct tw_schedule_table {
	struct tw_schedule_row *row;
	uint32_t cells, stages;
	uint64_t micros;
};

#define TW_SCHEDULE_STAGES 4096    /* at most */
#define TW_SCHEDULE_MICROS 1000000 /* at most */

/* Read and check it: each move is well formed, and the lists are whole and never wait in a circle.
 * TW_BAD_INPUT with file, line, column and reason.  *out is the caller's, also on failure. */
enum tw_status tw_schedule_read(const char *path, struct tw_schedule_table *out,
				struct tw_error *why);
/* The same of text in memory; `name` is what errors call it. */
enum tw_status tw_schedule_parse(const char *name, const char *text, size_t bytes,
				 struct tw_schedule_table *out, struct tw_error *why);
void tw_schedule_release(struct tw_schedule_table *t);
/* TW_IO: it could not be written. */
enum tw_status tw_schedule_write(const struct tw_pipe_lists *l, FILE *out);

#endif
