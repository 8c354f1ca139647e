/* SPDX-License-Identifier: Apache-2.0 */
/* comparison.h - what is run side by side: methods, seeds, values to choose from.
 *
 * A *row* is one method: a job file, the fields of a named method, and one value of each varied
 * field.  A *cell* is one run: a row with a seed, and with one combination of tuned values.
 *
 * Where the best of tuned values is the first or the last of a grid, the grid widens: the row tries
 * further values, which are known from the start, until the best one has neighbours on both sides.
 *
 *  (1) every cell that was asked for was read, and its plan made, before the first one runs:
 *      nothing is refused later.  A value beyond a grid that the job refuses ends the grid there.
 *  (2) cells of one row differ in seed, tuned values and, for tuning, the set that is scored.
 *  (3) tuning never sees the test set of a data set, nor a seed of the comparison. */
#ifndef TW_COMPARE_COMPARISON_H
#define TW_COMPARE_COMPARISON_H

#include "base/arena.h"
#include "base/machine/log.h"
#include "base/sha256.h"
#include "spec/job.h"

#define TW_COMPARE_CELLS_MAX 20000
#define TW_COMPARE_TUNE_SEED 1000 /* how far seeds of tuning are from those of the comparison */

/* How cells run. */
enum tw_compare_world { TW_COMPARE_SIM, TW_COMPARE_THREADS, TW_COMPARE_PROCESSES };
extern const char *const tw_compare_worlds[]; /* NULL at the end */

struct tw_compare_request {
	const char *const *job; /* paths */
	size_t jobs;
	const char *const *set, *const *vary, *const *tune; /* "path=value", "path=value,value" */
	size_t sets, varies, tunes;
	const char *const *environ_;
	enum tw_compare_world world;
	const struct tw_log *log;
};

/* A field and the values that it takes. */
struct tw_compare_axis {
	const char *path;
	struct tw_compare_value {
		const char *text;           /* for people: "16", "backup, extra 2" */
		const struct tw_tree *node; /* while it is read */
	} * value;
	size_t count;
	/* Those that were given are value[first] and the following; the others lie beyond them, and
	 * a grid that has such is in ascending order. */
	size_t first, given;
	const char *narrow; /* why it has none, for a sentence; NULL: it has */
};

struct tw_compare_cell {
	size_t row, combination;
	uint64_t seed;
	bool tuning;
	const char *text; /* the job with everything spelled out */
	struct tw_sha key;
};

struct tw_compare_row {
	const char *label;
	size_t file;   /* of request.job */
	bool baseline; /* one worker */
	bool accurate; /* its task has an accuracy */
	bool effort;   /* its samples take different times (sim.compute.by_label, by_sample) */
	struct tw_job_change *change;
	size_t changes;
	uint32_t workers;
	double until_loss, until_accuracy; /* of train.until; NAN: none */
	/* Settings that differ from those of another row: a text for each of the comparison's
	 * `differs`; NULL: the row has no such field. */
	const char **setting;
	/* The combinations of tuned values that it has tried, or will; one without tuning. */
	struct tw_compare_try *try_;
	size_t tries, room;
	double apart; /* epochs between its evaluations; 0: as its job has it */
};

/* One combination of tuned values, and its runs. */
struct tw_compare_try {
	size_t combination;
	const char *refused;            /* why there is no such job; NULL: there is */
	struct tw_compare_cell *tuning; /* compare.tune_seeds of them; NULL: nothing is tuned */
	struct tw_compare_cell *final;  /* compare.seeds, of which those of one try run */
};

struct tw_comparison {
	struct tw_arena arena;
	const char *title;
	enum tw_compare_world world;
	struct tw_job_compare options; /* of the job that has them */
	uint32_t measure;              /* what rows are ranked by: never 0, which is auto */
	const char **folder;           /* of each job file: where its relative paths begin */
	struct tw_compare_axis *vary, *tune;
	size_t varies, tunes;
	size_t combinations; /* of tuned values that were given; 1 without any */
	struct tw_compare_row *row;
	size_t rows;
	const char **differs; /* paths of the settings that differ between rows */
	size_t differing;
	const char **note; /* what people must know about the comparison itself */
	size_t notes;
	char isa[16];
	struct tw_sha program;              /* this very program */
	struct tw_compare_reading *reading; /* for values beyond the grid */
};

/* Read and check everything.  *out is the caller's (tw_comparison_free).  TW_BAD_INPUT with one
 * sentence for anything that the user can mend. */
enum tw_status tw_comparison_read(const struct tw_compare_request *q, struct tw_comparison **out,
				  struct tw_error *why);
void tw_comparison_free(struct tw_comparison *c);

/* The number of the measure of that name. */
uint32_t tw_compare_measure(const char *name);
/* Which value a tuned field has in a combination: the first field changes slowest. */
size_t tw_comparison_value(const struct tw_comparison *c, size_t combination, size_t tune);
/* The same combination with another value of that field. */
size_t tw_comparison_with(const struct tw_comparison *c, size_t combination, size_t tune,
			  size_t value);
/* The row's try of that combination; NULL: it has none. */
const struct tw_compare_try *tw_comparison_tried(const struct tw_compare_row *row,
						 size_t combination);
/* Let rows try combinations that they have not tried: each is read as those of the beginning were,
 * and one that its job refuses is kept with the reason. */
struct tw_compare_wish {
	size_t row, combination;
};
enum tw_status tw_comparison_widen(struct tw_comparison *c, const struct tw_compare_wish *wish,
				   size_t n, struct tw_error *why);
/* Is there something to choose? */
static inline bool tw_comparison_tunes(const struct tw_comparison *c)
{
	return c->combinations > 1;
}

#endif
