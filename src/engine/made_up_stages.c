/* SPDX-License-Identifier: Apache-2.0 */
/* made_up_stages.c - cuts of the made-up models, and which passes there are. */
#include "engine/made_up_stages.h"
#include "engine/order.h"

#include <stdio.h>

struct tw_model_cut *tw_made_up_cuts(struct tw_heap *heap, const struct tw_engine *e,
				     uint64_t stages)
{
	struct tw_model_cut *cut = heap->get(heap, (stages + 1) * sizeof *cut);

	for (uint64_t k = 0; cut && k <= stages; k++) {
		cut[k] = (struct tw_model_cut){
			.flops = e->cost / 3 * (double)k / (double)stages,
			.trainable = tw_made_up_border(e->trainable, stages, k),
			.buffers = e->trainable + tw_made_up_border(e->buffers, stages, k),
			.value[0] = { .floats = 1, .back = k < stages },
			.values = k > 0,
		};
		if (k > 0 && k < stages)
			snprintf(cut[k].after, sizeof cut[k].after, "%u", (unsigned)k);
	}
	return cut;
}

bool tw_made_up_pass(const struct tw_engine *e, const struct tw_inputs *in,
		     const struct tw_pass *pass, const float *change, struct tw_made_up_pass *out)
{
	const bool evaluates = pass->kind == TW_PASS_EVALUATE;
	const uint64_t all = evaluates ? e->tests : e->samples;

	*out = (struct tw_made_up_pass){
		.first = pass->first,
		.last = pass->last ? pass->last : (uint32_t)e->cuts - 1,
		.begins = pass->first == 0,
		.forward = pass->kind != TW_PASS_BACKWARD,
		.back = pass->kind == TW_PASS_BACKWARD || pass->kind == TW_PASS_GRADIENT,
	};
	out->ends = out->last + 1 == e->cuts;
	if (out->first >= out->last || out->last >= e->cuts)
		return false;
	if (evaluates ? in->count == 0 || in->from >= all || in->count > all - in->from
		      : !tw_order_is_batch(all, in))
		return false;
	if ((!out->begins && !pass->x) || (pass->kind == TW_PASS_GRADIENT && !out->ends))
		return false;
	if (!out->back)
		return out->ends || pass->y;
	return change && (out->ends || pass->dy) && (out->begins || pass->dx);
}

void tw_made_up_gap(float *at, uint32_t count)
{
	for (size_t i = count; at && i % 16; i++)
		at[i] = 0;
}
