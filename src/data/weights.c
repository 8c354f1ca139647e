/* SPDX-License-Identifier: Apache-2.0 */
/* weights.c - how much each training sample counts: by a column of the table, by its class. */
#include "data/data.h"
#include "data/data_memory.h"
#include "data/warn.h"

/* What a sample of each class weighs, so that all classes weigh the same. */
static enum tw_status balance(const struct tw_data *d, double *weight, struct tw_error *why)
{
	const struct tw_samples *s = &d->train;
	double *sum = tw_heap_zeros(d->heap, d->classes * sizeof *sum);

	if (!sum)
		return tw_data_keep_no_memory(why, "class_weights", d->classes * sizeof *sum);
	for (uint64_t i = 0; i < s->count; i++)
		sum[s->label[i]] += weight[i];
	for (uint64_t i = 0; i < s->count; i++)
		if (sum[s->label[i]] > 0)
			weight[i] /= sum[s->label[i]];
	d->heap->put(d->heap, sum);
	return TW_OK;
}

/* A class that has less than half of the samples that it would have if all had the same. */
static void note_rare(const struct tw_data *d, struct tw_warnings *notes)
{
	uint64_t *count = tw_heap_zeros(d->heap, d->classes * sizeof *count);
	uint32_t rare = 0;
	char number[TW_NAME_NUMBER];

	if (!count)
		return;
	for (uint64_t i = 0; i < d->train.count; i++)
		count[d->train.label[i]]++;
	for (uint32_t k = 1; k < d->classes; k++)
		rare = count[k] < count[rare] ? k : rare;
	if (2 * count[rare] * d->classes < d->train.count)
		tw_warn(notes,
			"class '%.60s' is rare, with %.2g %% of the training samples: all classes "
			"weigh the same, so it is predicted more often than it is seen "
			"(class_weights: none weighs all samples the same)",
			tw_name_answer(&d->names, rare, number),
			100.0 * (double)count[rare] / (double)d->train.count);
	d->heap->put(d->heap, count);
}

enum tw_status tw_data_weigh(struct tw_data *d, enum tw_class_weights how,
			     struct tw_warnings *notes, struct tw_error *why)
{
	const bool balanced = how != TW_CLASSES_AS_THEY_ARE && d->classes && !d->tokens;
	const uint64_t n = d->train.count;
	double *weight, mean = 0;
	void *room = NULL;
	enum tw_status st;

	if (!balanced && !d->train.weight)
		return TW_OK;
	weight = d->heap->get(d->heap, n * sizeof *weight);
	if (!weight)
		return tw_data_keep_no_memory(why, "weights", n * sizeof *weight);
	for (uint64_t i = 0; i < n; i++)
		weight[i] = d->train.weight ? (double)d->train.weight[i] : 1;
	st = balanced ? balance(d, weight, why) : TW_OK;
	for (uint64_t i = 0; i < n; i++)
		mean += weight[i] / (double)n;
	if (st == TW_OK && !(mean > 0))
		st = tw_fail(why, TW_BAD_INPUT,
			     "weight: all samples of the training set weigh nothing; at least one "
			     "weight must be above 0");
	if (st == TW_OK)
		st = tw_data_keep_room(d, n, sizeof(float), &room, why);
	for (uint64_t i = 0; st == TW_OK && i < n; i++)
		((float *)room)[i] = (float)(weight[i] / mean);
	d->weight = room;
	if (st == TW_OK && balanced && how == TW_CLASSES_AUTO)
		note_rare(d, notes);
	d->heap->put(d->heap, weight);
	return st;
}
