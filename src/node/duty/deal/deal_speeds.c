/* SPDX-License-Identifier: Apache-2.0 */
/* deal_speeds.c - how fast workers compute, and how many steps they take between two pushes
 * (strategy.adaptive; DyLU).
 *
 * A worker says with every lease that it has done how long its gradients took.  Waiting for answers
 * is not in that, so a speed does not depend on the period that follows from it.  A member of speed
 * v takes max(1, floor(push * v / v_ref)) steps, v_ref being the 0.9 quantile of all live members
 * whose speed is known; one whose speed is not known takes `push`.
 *
 *  (1) `speeds` has exactly the live members whose speed is known.
 *  (2) speeds that differ by less than a millionth count as equal: rounding makes nobody slower.
 *  (3) a period goes along with a lease, and holds for the steps in it. */
#include "node/duty/deal/deal_state.h"

#include <math.h>
#include <string.h>

#define QUANTILE     900        /* per mille */
#define ALIKE        1e-6       /* (2) */
#define STEPS_MOST   1e6        /* as strategy.push */
#define SAMPLES_MOST (1u << 26) /* of one contribution */
#define UNITS_MOST   4          /* pushes in a lease */
#define FADES        0.5        /* how much what was told before counts */

enum tw_status tw_speeds_open(struct master *m)
{
	struct deal_master *d = m->deal;

	if (!m->plan->traffic.adaptive)
		return TW_OK;
	d->speed = tw_heap_zeros(m->heap, m->plan->crew.workers * sizeof *d->speed);
	return d->speed ? tw_quantile_init(&d->speeds, m->heap, m->plan->crew.workers, QUANTILE)
			: TW_NO_MEMORY;
}

void tw_speeds_close(struct master *m)
{
	tw_quantile_release(&m->deal->speeds);
	m->heap->put(m->heap, m->deal->speed);
}

static double speed_of(const struct speed *s)
{
	return s->busy > 0 ? s->samples / s->busy : 0.0;
}

void tw_speed_seat(struct master *m, uint32_t slot, bool in)
{
	if (!m->deal->speed)
		return;
	if (in && speed_of(&m->deal->speed[slot]) > 0)
		tw_quantile_put(&m->deal->speeds, slot, speed_of(&m->deal->speed[slot]));
	else
		tw_quantile_drop(&m->deal->speeds, slot);
}

void tw_speed_forget(struct master *m, uint32_t slot)
{
	if (!m->deal->speed)
		return;
	m->deal->speed[slot].samples = m->deal->speed[slot].busy = 0;
	tw_speed_seat(m, slot, false);
}

void tw_speed_told(struct master *m, uint32_t slot, uint64_t samples, uint64_t busy)
{
	struct speed *s;

	if (!m->deal->speed || !samples || !busy)
		return;
	s = &m->deal->speed[slot];
	s->samples = FADES * s->samples + (double)samples;
	s->busy = FADES * s->busy + (double)busy;
	tw_speed_seat(m, slot, m->member[slot].live);
}

uint64_t tw_speed_units(const struct master *m, uint32_t slot)
{
	if (!m->deal->speed)
		return UINT64_MAX;
	return m->deal->speed[slot].busy > 0 ? UNITS_MOST : 1;
}

uint32_t tw_speed_period(const struct master *m, uint32_t slot)
{
	const struct tw_plan *p = m->plan;
	const double v = m->deal->speed ? speed_of(&m->deal->speed[slot]) : 0;
	const double group = (double)tw_deal_batch(m, slot) * p->dealing.accumulate;
	double steps = p->traffic.push;

	if (v <= 0 || tw_quantile_value(&m->deal->speeds) <= 0)
		return p->traffic.push;
	steps = floor(steps * (v / tw_quantile_value(&m->deal->speeds)) * (1 + ALIKE)); /* (2) */
	if (group > 0 && steps * group > SAMPLES_MOST)
		steps = floor(SAMPLES_MOST / group);
	return steps < 1 ? 1 : (uint32_t)fmin(steps, STEPS_MOST);
}

uint32_t tw_speed_tell(struct master *m, uint32_t slot)
{
	const uint32_t period = tw_speed_period(m, slot);
	struct speed *s;

	if (!m->deal->speed)
		return 0;
	s = &m->deal->speed[slot];
	if (!s->least || period < s->least)
		s->least = period;
	if (period > s->most)
		s->most = period;
	return period;
}

void tw_speed_range(const struct master *m, uint32_t *least, uint32_t *most)
{
	*least = *most = 0;
	for (uint32_t k = 0; m->deal->speed && k < m->plan->crew.workers; k++) {
		const struct speed *s = &m->deal->speed[k];

		if (s->least && (!*least || s->least < *least))
			*least = s->least;
		if (s->most > *most)
			*most = s->most;
	}
}

void *tw_speeds_list(const struct master *m, size_t *bytes)
{
	struct speed *list;

	*bytes = m->plan->crew.workers * sizeof *list;
	if (!m->deal->speed)
		return NULL;
	list = m->heap->get(m->heap, *bytes);
	if (list)
		memcpy(list, m->deal->speed, *bytes);
	return list;
}

void tw_speeds_restore(struct master *m, const void *list, size_t bytes)
{
	const uint32_t slots = m->plan->crew.workers;

	if (!m->deal->speed || bytes != slots * sizeof(struct speed))
		return;
	for (uint32_t k = 0; k < slots; k++) {
		struct speed one;

		memcpy(&one, (const char *)list + k * sizeof one, sizeof one);
		if (!(one.samples >= 0 && one.samples < HUGE_VAL && one.busy >= 0 &&
		      one.busy < HUGE_VAL))
			one.samples = one.busy = 0;
		m->deal->speed[k] = one;
		tw_speed_seat(m, k, m->member[k].live);
	}
}
