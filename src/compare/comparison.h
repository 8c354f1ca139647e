/* SPDX-License-Identifier: Apache-2.0 */
/* comparison.h - what is run side by side: methods, seeds, values to choose from.
 *
 * A *row* is one method: a job file, the fields of a named method, and one value of each varied
 * field.  A *cell* is one run: a row with a seed, and with one combination of tuned values.
 *
 *  (1) every cell was read, and its plan made, before the first one runs: nothing is refused later.
 *  (2) cells of one row differ in seed, tuned values and, for tuning, the set that is scored.
 *  (3) tuning never sees the test set of a data set, nor a seed of the comparison. */
#ifndef TW_COMPARE_COMPARISON_H
#define TW_COMPARE_COMPARISON_H

#include "base/arena.h"
#include "base/log.h"
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
	struct tw_job_change *change;
	size_t changes;
	uint32_t workers;
	double until_loss, until_accuracy; /* of train.until; NAN: none */
	/* Settings that differ from those of another row: a text for each of the comparison's
	 * `differs`; NULL: the row has no such field. */
	const char **setting;
	struct tw_compare_cell *cell; /* first those of tuning, by combination and seed; then one
					 of each combination and seed, of which one combination
					 runs */
	size_t tuning, finals;
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
	size_t combinations; /* of tuned values; 1 without any */
	struct tw_compare_row *row;
	size_t rows;
	const char **differs; /* paths of the settings that differ between rows */
	size_t differing;
	const char **note; /* what people must know about the comparison itself */
	size_t notes;
	char isa[16];
	struct tw_sha program; /* this very program */
};

/* Read and check everything.  *out is the caller's (tw_comparison_free).  TW_BAD_INPUT with one
 * sentence for anything that the user can mend. */
enum tw_status tw_comparison_read(const struct tw_compare_request *q, struct tw_comparison **out,
				  struct tw_error *why);
void tw_comparison_free(struct tw_comparison *c);

/* The number of the measure of that name. */
uint32_t tw_compare_measure(const char *name);
/* Value number k of the tuned field in a combination: the first field changes slowest. */
size_t tw_comparison_value(const struct tw_comparison *c, size_t combination, size_t tune);
/* Is there something to choose? */
static inline bool tw_comparison_tunes(const struct tw_comparison *c)
{
	return c->combinations > 1;
}

#endif
