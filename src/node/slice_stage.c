/* SPDX-License-Identifier: Apache-2.0 */
/* slice_stage.c - what comes is checked, and where one pass can do both, applied to another block:
 * the next version, which is staged until it is committed.  The rules are in slice_update.h. */
#include "node/slice_update.h"
#include "vec/vec.h"

#include <math.h>

/* One gradient, applied at once as it is by the plain rule, and nobody looks on. */
static bool is_plain_update(const struct tw_plan *p, const struct tw_body_push *push)
{
	return (p->far.rule->traits & TW_RULE_PLAIN) && !p->far.layers &&
	       !(p->gate->traits & (TW_GATE_ROUNDS | TW_GATE_COLLECTS | TW_GATE_LOCKFREE)) &&
	       !p->staleness->correct && !p->staleness->observe && p->decay == 0.0f &&
	       push->account.divide == 1.0f;
}

bool tw_slice_update_takes_sparse(const struct slice *s, const struct tw_body_push *push)
{
	return s->plan->traffic.up->add && is_plain_update(s->plan, push) &&
	       isnan(s->plan->traffic.skip_push);
}

enum tw_status tw_slice_update_verify_and_stage(struct slice *s, const struct tw_body_push *push,
						const float *g)
{
	struct tw_block *next;

	if (!(s->plan->gate->traits & TW_GATE_ROUNDS)) /* there, only sums are staged */
		tw_slice_update_unstage(s);
	/* one pass that checks and writes another block costs less than two over the same one */
	if (!is_plain_update(s->plan, push) || tw_plan_judges(s->plan))
		return tw_vec_finite(g, s->all) ? TW_OK : TW_BAD_BYTES;
	next = tw_pool_take(s->pool);
	if (!next)
		return TW_NO_MEMORY;
	if (!tw_vec_sgd_finite(tw_block_floats(next), tw_block_floats(s->w), g, tw_slice_rate(s),
			       s->trainable, false) ||
	    !tw_vec_finite(g + s->trainable, s->n - s->trainable)) {
		tw_block_drop(next);
		return TW_BAD_BYTES;
	}
	s->next = (struct slice_next){ .w = next, .g = g };
	return TW_OK;
}

void tw_slice_update_unstage(struct slice *s)
{
	tw_block_drop(s->next.w);
	s->next = (struct slice_next){ .w = NULL };
}
