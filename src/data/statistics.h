/* SPDX-License-Identifier: Apache-2.0 */
/* statistics.h - what is known of the values of a training set: all that normalising needs. */
#ifndef TW_DATA_STATISTICS_H
#define TW_DATA_STATISTICS_H

#include "base/status.h"

#include <stddef.h>

struct tw_data;

/* Of a feature, or of all values of a channel.  In doubles and in the samples' order, so that they
 * are the same bits on every machine. */
struct tw_column_facts {
	double mean, square; /* square: sum of squared distances from the mean */
	float low, high;
};
/* Features are columns, or a run of `run` features shares one (the channels of images). */
struct tw_columns_wanted {
	size_t columns, run;
	struct tw_column_facts *out; /* `columns` of them */
};

/* Of one value that is to be predicted. */
struct tw_target_facts {
	double mean, deviation;
};

/* As a file has them: what was measured when it was written.  A member NULL: it is not known. */
struct tw_statistics {
	const struct tw_column_facts *feature, *channel;
	const struct tw_target_facts *target;
};

/* Measure the training set, for several cuts into columns at once: one walk over bytes, two over
 * floats. */
enum tw_status tw_statistics_measure(const struct tw_data *d, const struct tw_columns_wanted *cut,
				     size_t cuts, struct tw_error *why);
/* Of all targets, in one walk. */
enum tw_status tw_statistics_targets(const struct tw_data *d, struct tw_target_facts *out,
				     struct tw_error *why);

#endif
