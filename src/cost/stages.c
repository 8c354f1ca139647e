/* SPDX-License-Identifier: Apache-2.0 */
/* stages.c - the memory of a cell, from the plan of its stage. */
#include "cost/stages.h"

struct tw_stage_memory tw_cost_stage_memory(const struct tw_plan *p, uint32_t stage)
{
	const struct tw_stage *s = &p->staging.stage[stage];
	const struct tw_stage *before = stage ? s - 1 : NULL;
	const size_t input = before ? before->sends * sizeof(float) : 0;
	const double waiting = before && before->keeps.depth > s->keeps.depth
				       ? before->keeps.depth - s->keeps.depth
				       : 0;
	const bool codes = !(p->traffic.act->traits & TW_CODEC_IDENTITY);
	const double vector = (double)s->floats * sizeof(float);

	const double sent = (double)((s->sends + s->returns) * sizeof(float)) +
			    (codes ? (double)(s->send_bytes + s->return_bytes) : 0);

	return (struct tw_stage_memory){
		.versions = s->keeps.versions * vector,
		.gradients = (p->dealing.accumulate > 1 ? 2 : 1) * vector,
		.activations = s->keeps.depth * ((double)input + (double)s->stash),
		.waiting = waiting * (double)input,
		.scratch = (double)s->scratch + sent,
	};
}
