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

	for (uint64_t i = 0; i < set->count; i++) {
		const struct tw_batch one = { set, &i, 1, 0 };

		tw_data_fill(d, &one, NULL, 0, x, &label, x + d->features);
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

enum tw_status tw_targets_check(const struct tw_network_facts *f, struct tw_error *why)
{
	if (!(tw_graph_loss(f->graph)->takes & TW_LOSS_UNIT))
		return TW_OK;
	if (f->own_input)
		return check_own(f, why);
	for (size_t k = 0; f->data->targets && k < SETS; k++) {
		const struct tw_samples *set = tw_data_set(f->data, (enum tw_data_set)k);

		for (uint64_t i = 0; i < set->count * f->data->targets; i++)
			if (!within(set->target[i]))
				return beyond(f, (enum tw_data_set)k, i / f->data->targets,
					      set->target[i], why);
	}
	return TW_OK;
}

bool tw_targets_judged(const struct tw_network_facts *f)
{
	if (f->own_input)
		return false;
	for (size_t k = 0; f->data->targets && k < SETS; k++) {
		const struct tw_samples *set = tw_data_set(f->data, (enum tw_data_set)k);

		for (uint64_t i = 0; i < set->count * f->data->targets; i++)
			if (set->target[i] != 0 && set->target[i] != 1)
				return false;
	}
	return true;
}
