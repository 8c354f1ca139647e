/* SPDX-License-Identifier: Apache-2.0 */
/* weights.c - how much each training sample counts: by a column of the table, by its class. */
#include "data/data.h"
#include "data/data_memory.h"
#include "data/warn.h"

/* What classes are made of. */
struct classes {
	double *sum, *weight; /* of each class, of each sample */
	uint64_t *count;
};

static enum tw_status add_weight(void *arg, uint64_t i, const struct tw_sample *sample,
				 struct tw_error *why)
{
	const struct classes *c = arg;

	(void)why;
	c->sum[*sample->label] += c->weight[i];
	c->count[*sample->label]++;
	return TW_OK;
}

static enum tw_status divide_weight(void *arg, uint64_t i, const struct tw_sample *sample,
				    struct tw_error *why)
{
	const struct classes *c = arg;

	(void)why;
	if (c->sum[*sample->label] > 0)
		c->weight[i] /= c->sum[*sample->label];
	return TW_OK;
}

/* What a sample of each class weighs, so that all classes weigh the same. */
static enum tw_status balance(const struct tw_data *d, const struct classes *c,
			      struct tw_error *why)
{
	enum tw_status st =
		tw_samples_walk(d, &d->train, 0, UINT64_MAX, add_weight, (void *)c, why);

	return st == TW_OK
		       ? tw_samples_walk(d, &d->train, 0, UINT64_MAX, divide_weight, (void *)c, why)
		       : st;
}

/* A class that has less than half of the samples that it would have if all had the same. */
static void note_rare(const struct tw_data *d, const uint64_t *count, struct tw_warnings *notes)
{
	uint32_t rare = 0;
	char number[TW_NAME_NUMBER];

	for (uint32_t k = 1; k < d->classes; k++)
		rare = count[k] < count[rare] ? k : rare;
	if (2 * count[rare] * d->classes < d->train.count)
		tw_warn(notes,
			"class '%.60s' is rare, with %.2g %% of the training samples: all classes "
			"weigh the same, so it is predicted more often than it is seen "
			"(class_weights: none weighs all samples the same)",
			tw_name_answer(&d->names, rare, number),
			100.0 * (double)count[rare] / (double)d->train.count);
}

enum tw_status tw_data_weigh(struct tw_data *d, enum tw_class_weights how,
			     struct tw_warnings *notes, struct tw_error *why)
{
	const bool balanced = how != TW_CLASSES_AS_THEY_ARE && d->classes && !d->tokens;
	const uint64_t n = d->train.count;
	struct classes c = { 0 };
	double mean = 0;
	void *room = NULL;
	enum tw_status st = TW_OK;

	if (!balanced && !d->train.weight)
		return TW_OK;
	c.weight = d->heap->get(d->heap, n * sizeof *c.weight);
	c.sum = tw_heap_zeros(d->heap, (d->classes + 1) * sizeof *c.sum);
	c.count = tw_heap_zeros(d->heap, (d->classes + 1) * sizeof *c.count);
	if (!c.weight || !c.sum || !c.count)
		st = tw_data_keep_no_memory(why, "class_weights", n * sizeof *c.weight);
	for (uint64_t i = 0; st == TW_OK && i < n; i++)
		c.weight[i] = d->train.weight ? (double)d->train.weight[i] : 1;
	if (st == TW_OK && balanced)
		st = balance(d, &c, why);
	for (uint64_t i = 0; st == TW_OK && i < n; i++)
		mean += c.weight[i] / (double)n;
	if (st == TW_OK && !(mean > 0))
		st = tw_fail(why, TW_BAD_INPUT,
			     "weight: all samples of the training set weigh nothing; at least one "
			     "weight must be above 0");
	if (st == TW_OK)
		st = tw_data_keep_room(d, n, sizeof(float), &room, why);
	for (uint64_t i = 0; st == TW_OK && i < n; i++)
		((float *)room)[i] = (float)(c.weight[i] / mean);
	d->weight = room;
	d->weighs = room;
	if (st == TW_OK && balanced && how == TW_CLASSES_AUTO)
		note_rare(d, c.count, notes);
	d->heap->put(d->heap, c.count);
	d->heap->put(d->heap, c.sum);
	d->heap->put(d->heap, c.weight);
	return st;
}
