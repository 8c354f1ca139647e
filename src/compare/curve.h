/* SPDX-License-Identifier: Apache-2.0 */
/* curve.h - the evaluations of one run, from its log, and fewer of them for a picture. */
#ifndef TW_COMPARE_CURVE_H
#define TW_COMPARE_CURVE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

enum tw_curve_column {
	TW_CURVE_EPOCHS,
	TW_CURVE_UPDATES,
	TW_CURVE_TIME, /* seconds of the world's clock */
	TW_CURVE_BYTES,
	TW_CURVE_LOSS,
	TW_CURVE_ACCURACY, /* NAN: the task has none */
	TW_CURVE_COLUMNS
};
extern const char *const tw_curve_names[TW_CURVE_COLUMNS];

struct tw_curve {
	size_t n, room;
	double (*point)[TW_CURVE_COLUMNS]; /* in the order of the log */
};

/* The events "evaluation" of a log.jsonl, an open file that is closed here; people call it `path`.
 * A value that is null is NAN.  TW_IO, also where fd is -1: errno says why. */
enum tw_status tw_curve_read(int fd, const char *path, struct tw_curve *out, struct tw_error *why);
void tw_curve_release(struct tw_curve *c);

/* The value of column y at the last point whose column x is at most `at`; NAN: there is none. */
double tw_curve_at(const struct tw_curve *c, enum tw_curve_column x, double at,
		   enum tw_curve_column y);
/* Where column y is at most (least: at least) `goal` for the first time: the value of column x. */
double tw_curve_first(const struct tw_curve *c, enum tw_curve_column x, enum tw_curve_column y,
		      double goal, bool least);

/* Choose at most `most` points (at least 8) for a picture: of every stretch of equal length the
 * ones with the least and the greatest loss and accuracy, so that spikes survive, and both ends.
 * `keep` has room for c->n numbers; returns how many were chosen, in ascending order. */
size_t tw_curve_thin(const struct tw_curve *c, size_t most, size_t *keep);

#endif
