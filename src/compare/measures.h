/* SPDX-License-Identifier: Apache-2.0 */
/* measures.h - what a finished run came to, as numbers that can be compared. */
#ifndef TW_COMPARE_MEASURES_H
#define TW_COMPARE_MEASURES_H

#include "compare/cells.h"
#include "compare/curve.h"
#include "compare/verdict.h"

#include <jansson.h>

enum tw_measure {
	TW_MEASURE_ACCURACY,
	TW_MEASURE_LOSS,
	TW_MEASURE_BEST_ACCURACY,
	TW_MEASURE_BEST_LOSS,
	TW_MEASURE_ACCURACY_AT_TIME,
	TW_MEASURE_LOSS_AT_TIME,
	TW_MEASURE_ACCURACY_AT_EPOCHS,
	TW_MEASURE_LOSS_AT_EPOCHS,
	TW_MEASURE_TIME_TO_TARGET,
	TW_MEASURE_SPEED,
	TW_MEASURE_SECONDS,
	TW_MEASURE_EPOCHS,
	TW_MEASURE_UPDATES,
	TW_MEASURE_BYTES,
	TW_MEASURE_STALENESS,
	TW_MEASURE_GAP,
	TW_MEASURE_IDLE,
	TW_MEASURE_EFFORT,
	TW_MEASURE_BURST,
	TW_MEASURES
};

enum tw_measure_unit {
	TW_UNIT_PERCENT, /* a share */
	TW_UNIT_PLAIN,
	TW_UNIT_SECONDS,
	TW_UNIT_PER_SECOND,
	TW_UNIT_BYTES,
};

struct tw_measure_kind {
	const char *name;  /* in report.json, and of compare.measure where that has it */
	const char *title; /* for people: "accuracy", "time to target" */
	enum tw_measure_unit unit;
	bool more; /* more is better */
	/* What a run that diverged, or did not reach the target, counts as in a mean. */
	enum tw_measure_worst {
		TW_WORST_SEEN, /* the worst value of any run */
		TW_WORST_ZERO,
		TW_WORST_LOSS, /* the greatest of all evaluations of runs that did not diverge */
		TW_WORST_TIME, /* the length of the longest run */
	} worst;
};
extern const struct tw_measure_kind tw_measure_kinds[TW_MEASURES];
/* The measure that compare.measure names by this number; not for 0, auto. */
enum tw_measure tw_measure_of(uint32_t option);
/* "97.31 %", "12.3 s", "1.2 MB"; "-" for NAN. */
const char *tw_measure_text(enum tw_measure_unit unit, double value, char *out, size_t room);

/* "97.31 ± 0.12 %", "0.00182 ± 0.00056": two digits of the deviation, and as many of the mean as it
 * leaves sure; NAN deviation: the mean alone.  `bare`: without the unit of percents and seconds. */
const char *tw_spread_text(enum tw_measure_unit unit, double mean, double deviation, bool bare,
			   char *out, size_t room);

/* One run, read. */
struct tw_compare_run {
	const struct tw_compare_cell *cell;
	const char *failure; /* NULL: it finished */
	bool diverged;
	double value[TW_MEASURES]; /* NAN: there is none */
	struct tw_curve curve;
	json_t *result; /* NULL: it failed */
};

/* All runs of all rows that are compared, and those that tuned them. */
struct tw_compare_runs {
	const struct tw_comparison *comparison;
	double equal_time, equal_epochs; /* where curves are compared; NAN: nowhere */
	struct tw_compare_run *run;      /* seeds for each row */
	struct tw_compare_run **tuning;  /* of each row: tune_seeds for each of its tries; those of
					    a try that was refused have no cell.  NULL: none */
};

/* Read what cells kept.  `chosen`: the try of each row; NULL: only the runs of tuning. */
enum tw_status tw_compare_runs_read(const struct tw_comparison *c, const struct tw_cells *cells,
				    const size_t *chosen, struct tw_compare_runs *out,
				    struct tw_error *why);
void tw_compare_runs_release(struct tw_compare_runs *r);

/* What a run came to, for one measure; see verdict.h. */
struct tw_mark tw_mark_of(const struct tw_compare_run *run, enum tw_measure m);
/* What a lost run counts as among these; NAN: there is nothing to go by. */
double tw_measure_worst_of(const struct tw_compare_run *run, size_t n, enum tw_measure m);

/* How good some runs of one method are, for ranking. */
struct tw_standing {
	size_t values; /* runs that have one */
	double mean;   /* with lost runs counted as the worst; NAN: no run says anything */
	double loss;   /* decides where means are equal: nobody reached the target */
};
struct tw_standing tw_standing_of(const struct tw_compare_run *run, size_t n, enum tw_measure m,
				  double worst);
/* Does a stand before b? */
bool tw_standing_before(const struct tw_standing *a, const struct tw_standing *b,
			enum tw_measure m);
/* What values are chosen by: as rows are ranked, but for equal time, which tuning has not. */
enum tw_measure tw_measure_tuned(const struct tw_comparison *c);
/* The best try of each row, by the runs of tuning; 0 where nothing is tuned.  Of equally good ones
 * the first combination is chosen. */
void tw_compare_choose(const struct tw_compare_runs *r, size_t *chosen);

#endif
