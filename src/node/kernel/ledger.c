/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.c - which positions are dealt, and whether any are left. */
#include "node/kernel/ledger.h"

uint32_t tw_deal_unit(const struct master *m)
{
	const struct tw_plan *p = m->plan;
	const uint32_t batch =
		p->dealing.global_batch
			? (p->dealing.global_batch + p->crew.workers - 1) / p->crew.workers
			: p->dealing.batch;

	return batch * p->dealing.accumulate * p->traffic.push;
}

uint32_t tw_deal_batch(const struct master *m, uint32_t slot)
{
	const uint64_t g = m->plan->dealing.global_batch, n = tw_master_live(m);
	uint64_t k;

	if (!g)
		return m->plan->dealing.batch;
	k = tw_slots_rank(&m->members.live, slot);
	return (uint32_t)(g * (k + 1) / n - g * k / n);
}

bool tw_deal_exhausted(const struct master *m)
{
	struct tw_span gap;

	if (m->wish.time_up || m->wish.finish || m->wish.over)
		return true;
	if (tw_master_rounds(m) && m->plan->ends.updates &&
	    m->rounds.number >= m->plan->ends.updates)
		return true;
	return !tw_spans_gap(&m->dealing.taken, 0, m->plan->dealing.positions, 1, &gap);
}

/* Some member has something to do since `since`. */
void tw_master_may_be_due(struct master *m, int64_t since)
{
	if (since + m->plan->crew.stuck < m->watch.earliest)
		m->watch.earliest = since + m->plan->crew.stuck;
}

double tw_master_updates(const struct master *m, double updates, double contributions)
{
	return tw_plan_counts_others(m->plan) ? contributions / m->plan->crew.workers : updates;
}
