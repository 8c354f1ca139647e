/* SPDX-License-Identifier: Apache-2.0 */
/* targets.c - looks through all targets once, before anything is computed. */
#include "engine/targets.h"
#include "graph/loss.h"

#include <inttypes.h>

static const char *const set_names[] = {
	[TW_SET_TEST] = "test",
	[TW_SET_VALIDATION] = "validation",
	[TW_SET_TRAIN] = "training",
};
#define SETS (sizeof set_names / sizeof set_names[0])

static bool within(float v)
{
	return v >= 0 && v <= 1;
}

static enum tw_status beyond(const struct tw_network_facts *f, enum tw_data_set set,
			     uint64_t sample, float v, struct tw_error *why)
{
	return tw_fail(why, TW_BAD_INPUT,
		       "%s needs targets from 0 to 1, but %s sample %" PRIu64
		       " (from 1) has %g; use %sloss: %s",
		       tw_graph_loss(f->graph)->op.name, set_names[set], sample + 1, (double)v,
		       f->own_input ? "data.normalise: unit, or " : "",
		       tw_loss_usual(false)->op.name);
}

/* The input as the network will see it, without what augmentation does to it. */
static enum tw_status check_inputs(const struct tw_network_facts *f, enum tw_data_set which,
				   float *x, struct tw_error *why)
{
	const struct tw_data *d = f->data;
	const struct tw_samples *set = tw_data_set(d, which);
	uint32_t label;

	if (set->count == TW_ENDLESS || (set->count && !tw_samples_lend(set)))
		return TW_OK; /* they are not here */
	for (uint64_t i = 0; i < set->count; i++) {
		const struct tw_batch one = { set, &i, 1, 0 };

		enum tw_status st = tw_data_fill(d, &one, NULL, 0, x, &label, x + d->features);

		if (st != TW_OK)
			return tw_fail(why, st, "a sample cannot be read");
		for (size_t k = 0; k < d->features; k++)
			if (!within(x[k]))
				return beyond(f, which, i, x[k], why);
	}
	return TW_OK;
}

/* The border behind a moved image is predicted, too; noise is not. */
static enum tw_status check_augmented(const struct tw_network_facts *f, struct tw_error *why)
{
	for (size_t k = 0; f->options.shift && k < f->data->features; k++)
		if (!within(f->data->shift[k]))
			return tw_fail(why, TW_BAD_INPUT,
				       "%s needs inputs from 0 to 1 to predict, but data.shift "
				       "fills the border of shifted images with %g; leave shift "
				       "out, or use loss: %s",
				       tw_graph_loss(f->graph)->op.name, (double)f->data->shift[k],
				       tw_loss_usual(false)->op.name);
	return TW_OK;
}

static enum tw_status check_own(const struct tw_network_facts *f, struct tw_error *why)
{
	const struct tw_data *d = f->data;
	float *x = d->heap->get(d->heap, (d->features + d->targets) * sizeof *x);
	enum tw_status st = TW_OK;

	if (!x)
		return tw_fail(why, TW_NO_MEMORY, "no memory for a sample");
	for (size_t k = 0; st == TW_OK && k < SETS; k++)
		st = check_inputs(f, (enum tw_data_set)k, x, why);
	d->heap->put(d->heap, x);
	return st == TW_OK ? check_augmented(f, why) : st;
}

/* A walk over the targets of a set. */
struct look {
	const struct tw_network_facts *facts;
	enum tw_data_set set;
};

static enum tw_status look_within(void *arg, uint64_t i, const struct tw_sample *s,
				  struct tw_error *why)
{
	const struct look *l = arg;

	for (uint32_t k = 0; k < l->facts->data->targets; k++)
		if (!within(s->target[k]))
			return beyond(l->facts, l->set, i, s->target[k], why);
	return TW_OK;
}

static enum tw_status look_judged(void *arg, uint64_t i, const struct tw_sample *s,
				  struct tw_error *why)
{
	const struct look *l = arg;

	(void)i;
	(void)why;
	for (uint32_t k = 0; k < l->facts->data->targets; k++)
		if (s->target[k] != 0 && s->target[k] != 1)
			return TW_BAD_INPUT;
	return TW_OK;
}

static enum tw_status look(const struct tw_network_facts *f, tw_samples_visit visit,
			   struct tw_error *why)
{
	enum tw_status st = TW_OK;

	for (size_t k = 0; st == TW_OK && f->data->targets && k < SETS; k++) {
		const struct tw_samples *set = tw_data_set(f->data, (enum tw_data_set)k);
		struct look l = { f, (enum tw_data_set)k };

		st = set->count == TW_ENDLESS || (set->count && !tw_samples_lend(set))
			     ? TW_OK
			     : tw_samples_walk(f->data, set, 0, UINT64_MAX, visit, &l, why);
	}
	return st;
}

enum tw_status tw_targets_check(const struct tw_network_facts *f, struct tw_error *why)
{
	if (!(tw_graph_loss(f->graph)->takes & TW_LOSS_UNIT))
		return TW_OK;
	return f->own_input ? check_own(f, why) : look(f, look_within, why);
}

bool tw_targets_judged(const struct tw_network_facts *f)
{
	struct tw_error quiet = { 0 };

	return !f->own_input && look(f, look_judged, &quiet) == TW_OK;
}
