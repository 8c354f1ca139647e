/* SPDX-License-Identifier: Apache-2.0 */
/* cells.h - runs the cells of a comparison as processes, and keeps what they came to.
 *
 *	DIR/lock           held (flock) while a comparison uses the directory
 *	DIR/cells/<key>/   one finished run: job.yaml, result.json, log.jsonl
 *	DIR/cells/.<key>/  one that has not finished: removed when it runs again
 *
 *  (1) a cell is there as a whole or not at all: its folder gets its name when it is complete.
 *  (2) a key is the SHA-256 of the resolved job, the fingerprint of its data, this program, its
 *      instruction set and the world: whatever has the same key has the same result.
 *  (3) a run that diverges is a result, and kept.  One that fails is not.
 *  (4) DIR may be a symbolic link; nothing in it is followed, and only the names above, and those
 *      of a run, are removed. */
#ifndef TW_COMPARE_CELLS_H
#define TW_COMPARE_CELLS_H

#include "compare/comparison.h"

#include <stdatomic.h>

struct tw_cells;

/* How far a comparison is. */
struct tw_cells_progress {
	size_t done, all, running, kept; /* kept: of those done, found from an earlier time */
	size_t diverged, failed;
	double left;       /* seconds, a guess; negative: unknown */
	const char *label; /* of the row that a process was started for last */
};
typedef void (*tw_cells_show)(void *arg, const struct tw_cells_progress *p);

struct tw_cells_how {
	const char *dir;
	uint32_t jobs; /* processes at a time */
	const _Atomic int *interrupted;
	const struct tw_log *log;
	tw_cells_show show; /* may be NULL */
	void *show_arg;
};

/* Make or enter the directory.  TW_REFUSED: another comparison uses it. */
enum tw_status tw_cells_open(const struct tw_comparison *c, const struct tw_cells_how *how,
			     struct tw_cells **out, struct tw_error *why);
void tw_cells_close(struct tw_cells *s); /* NULL is allowed */
/* Run those of `n` cells that are not there yet.  `later`: cells that will follow in another call,
 * for the estimate.  TW_INTERRUPTED: some were not run.  Cells that fail do not stop the others. */
enum tw_status tw_cells_run(struct tw_cells *s, const struct tw_compare_cell *const *cell, size_t n,
			    size_t later, struct tw_error *why);
/* The file of a finished cell: "result.json", to be read.
 * -1 with errno (base/machine/regular_file.h). */
int tw_cells_file(const struct tw_cells *s, const struct tw_compare_cell *cell, const char *file);
/* Its path, for sentences; out has room for 4,200 bytes. */
void tw_cells_path(const struct tw_cells *s, const struct tw_compare_cell *cell, const char *file,
		   char *out);
/* Why a cell failed: the last line that it said; NULL: it did not. */
const char *tw_cells_failure(const struct tw_cells *s, const struct tw_compare_cell *cell);

#endif
