/* SPDX-License-Identifier: Apache-2.0 */
/* labels.c - class labels are counted and must be below the number of classes. */
#include "data/labels.h"

#include <inttypes.h>

enum tw_status tw_labels_count(const char *values, uint64_t samples, const char *labels,
			       uint64_t count, struct tw_error *why)
{
	if (samples == count)
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT,
		       "%s: has %" PRIu64 " labels, but %s has %" PRIu64
		       " samples; there must be one label for each",
		       labels, count, values, samples);
}

static enum tw_status check_set(const struct tw_samples *s, uint32_t classes, const char *file,
				struct tw_error *why)
{
	for (uint64_t i = 0; i < s->count; i++)
		if (s->label[i] >= classes)
			return tw_fail(why, TW_BAD_INPUT,
				       "%s: label %" PRIu64 " (from 1) is %u, but there are %u "
				       "classes: 0 to %u are accepted",
				       file, i + 1, s->label[i], classes, classes - 1);
	return TW_OK;
}

enum tw_status tw_labels_check(struct tw_data *d, uint32_t given, const char *train,
			       const char *test, struct tw_error *why)
{
	uint32_t most = 0;
	enum tw_status st;

	for (uint64_t i = 0; i < d->train.count; i++)
		most = d->train.label[i] > most ? d->train.label[i] : most;
	if (given == 0 && most >= TW_CLASSES_MAX)
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: a label is %u; there may be at most %u classes, so labels are "
			       "below that",
			       train, most, TW_CLASSES_MAX);
	d->classes = given ? given : most + 1;
	st = check_set(&d->train, d->classes, train, why);
	if (st == TW_OK)
		st = check_set(&d->test, d->classes, test, why);
	return st;
}
