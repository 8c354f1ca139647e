/* SPDX-License-Identifier: Apache-2.0 */
/* deal_next.c - which positions are next, and whose turn it is: in a warm start not everybody
 * works.  Subsets of workers are in deal_subsets.c. */
#include "node/duty/deal/deal_state.h"

uint32_t tw_deal_allowed(const struct master *m)
{
	const struct tw_dealing *p = &m->plan->dealing;
	const uint64_t done = p->warm_gradual ? m->count.samples : m->dealing.frontier;
	const uint64_t rest = m->plan->crew.workers - p->warm_workers;

	if (done >= p->warm_until)
		return UINT32_MAX;
	if (!p->warm_gradual)
		return p->warm_workers;
	/* a double, because a product of positions and workers may not fit 64 bits */
	return p->warm_workers + (uint32_t)((double)rest * (double)done / (double)p->warm_until);
}

bool tw_deal_too_early(const struct master *m, uint32_t slot)
{
	return m->plan->dealing.warm_until &&
	       tw_slots_rank(&m->members.live, slot) >= tw_deal_allowed(m);
}

/* In a warm start leases are short, so that it ends, and goes on, when it should. */
static uint64_t warm_most(const struct master *m)
{
	const struct tw_dealing *p = &m->plan->dealing;
	const uint64_t taken = tw_spans_total(&m->dealing.taken);
	const uint64_t rest = m->plan->crew.workers - p->warm_workers;

	if (!p->warm_gradual)
		return taken < p->warm_until ? p->warm_until - taken : UINT64_MAX;
	return m->count.samples < p->warm_until ? (p->warm_until + rest - 1) / rest : UINT64_MAX;
}

bool tw_deal_next_range(struct master *m, uint32_t slot, uint64_t end, uint64_t most,
			struct tw_span *out)
{
	const struct tw_plan *p = m->plan;
	uint64_t border;

	if (p->dealing.warm_until && most > warm_most(m))
		most = warm_most(m);
	if (p->dealing.subsets.count)
		return tw_orphans_next_range(m, slot, end, most, out);
	if (!tw_spans_gap(&m->dealing.taken, 0, end, most, out))
		return false;
	border = tw_plan_crosses_epochs(p)
			 ? UINT64_MAX
			 : (out->from / p->problem.samples + 1) * p->problem.samples;
	if (out->to > border)
		out->to = border;
	return true;
}
