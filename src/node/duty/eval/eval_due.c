/* SPDX-License-Identifier: Apache-2.0 */
/* eval_due.c - the master's side of an evaluation: when one is due.  The numbers in brackets are
 * those of README.md. */
#include "node/duty/eval/eval.h"
#include "node/duty/eval/eval_state.h"
#include "node/kernel/ledger.h"
#include "node/kernel/phase.h"

#include <math.h>

/* (5); 0.55 of 100 samples are 55, although a double makes a little more of it. */
uint64_t tw_eval_due_threshold(const struct master *m, uint64_t k)
{
	const double x = (double)k * (m->plan->evaluate_every * (double)m->plan->problem.samples);

	return (uint64_t)ceil(x * (1 - 1e-12));
}

uint64_t tw_eval_due_reached(const struct master *m, uint64_t samples)
{
	const double step = m->plan->evaluate_every * (double)m->plan->problem.samples;
	uint64_t k;

	if (samples > (uint64_t)1 << 53) /* a shard said so: no run has as many */
		samples = (uint64_t)1 << 53;
	k = (uint64_t)((double)samples / step);
	while (k && tw_eval_due_threshold(m, k) > samples) /* doubles round */
		k--;
	while (tw_eval_due_threshold(m, k + 1) <= samples)
		k++;
	return k;
}

void tw_eval_master_agreed(struct master *m, bool adopted)
{
	/* the master before us has evaluated what it could */
	if (adopted && m->plan->evaluate_every > 0 &&
	    tw_eval_due_reached(m, m->count.samples) > m->eval->scores.evaluated_at)
		m->eval->scores.evaluated_at = tw_eval_due_reached(m, m->count.samples);
	if (m->eval->now.state == EVAL_OFF)
		m->eval->scores.told = m->eval->scores.evaluated_at;
}

bool tw_eval_due_has(const struct master *m, uint64_t k)
{
	return tw_eval_due_threshold(m, k) < m->plan->dealing.positions + m->count.redealt;
}

bool tw_eval_due_tells_ahead(const struct master *m)
{
	return m->eval->now.state != EVAL_OFF && m->eval->now.number && !tw_master_rounds(m) &&
	       !tw_wishes(m, TW_WISH_GOAL);
}

uint64_t tw_eval_master_room(const struct master *m, uint64_t unit)
{
	const uint64_t most = m->count.samples + m->dealing.open_samples + 1;
	const uint64_t k = m->eval->now.number + m->eval->scores.pins;
	uint64_t room;

	if (!tw_eval_due_tells_ahead(m) || m->plan->instant_evaluations || !tw_eval_due_has(m, k))
		return UINT64_MAX;
	room = tw_eval_due_threshold(m, k) > most ? tw_eval_due_threshold(m, k) - most : 0;
	/* where the threshold awaited is not reached by what is out, more must be dealt */
	if (room < unit && !m->dealing.open_leases &&
	    (m->eval->now.state == EVAL_AWAITED || m->eval->now.state == EVAL_HURRIED))
		return unit;
	return room;
}

/* Views that are not kept yet are not waited for: what a shard says of them comes before it has the
 * next round, unless it was lost. */
bool tw_eval_master_holds(const struct master *m)
{
	return m->eval->now.state >= EVAL_VIEWING && m->eval->now.number &&
	       !tw_wishes(m, TW_WISH_GOAL) &&
	       tw_eval_due_reached(m, m->count.samples) > m->eval->now.number;
}

bool tw_eval_due_is_last_round(const struct master *m)
{
	const bool ahead = m->rounds.open || (m->dealer->is_ahead && m->dealer->is_ahead(m));

	return tw_deal_exhausted(m) && (!ahead || tw_wishes(m, TW_WISH_GOAL));
}
