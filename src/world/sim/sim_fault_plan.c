/* SPDX-License-Identifier: Apache-2.0 */
/* sim_fault_plan.c - which faults a run will have: those that were given, and those drawn at
 * random; a plan that cannot be is refused. */
#include "world/sim/sim_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DRAW_WHO = 1, DRAW_WHOM, DRAW_AT, DRAW_LASTS, DRAW_HOW, DRAW_FACTOR };

static double draw(const struct tw_rng *r, const struct tw_fault *f, uint32_t nth, uint64_t what)
{
	return tw_rng_uniform(r, (uint64_t)f->kind << 32 | nth, what);
}

/* From 0.1 to 10 s, as often below 1 s as above. */
static int64_t while_draw(double u)
{
	return llround(pow(10.0, 2.0 * u - 1.0) * 1e9);
}

/* Crashed nodes come back, but for one in eight workers or servers; half of each kind always
 * does, and the master does. */
static int64_t crash_draw(const struct sim *s, const struct tw_fault *f, double u, uint32_t gone[2])
{
	const uint32_t kinds = s->cast.node[f->a].kinds;
	const uint32_t kind = (kinds & NODE_SERVER) != 0;
	const uint32_t all = kind ? s->cast.servers : s->cast.workers;

	if (!(kinds & NODE_MASTER) && u < 0.125 && 2 * (gone[kind] + 1) <= all) {
		gone[kind]++;
		return -1;
	}
	return while_draw((u - 0.125) / 0.875 > 0.0 ? (u - 0.125) / 0.875 : u * 8.0);
}

static void fault_draw(const struct sim *s, struct tw_fault *f, uint32_t nth, uint32_t gone[2])
{
	const struct tw_rng r = tw_rng_make(s->options->fault_seed, TW_RNG_FAULT);
	const double lasts = draw(&r, f, nth, DRAW_LASTS);
	const double limit = (double)s->options->silent_limit;

	f->a = (uint32_t)(draw(&r, f, nth, DRAW_WHO) * s->cast.nodes);
	f->b = (uint32_t)(draw(&r, f, nth, DRAW_WHOM) * s->cast.nodes);
	for (uint32_t i = 0; i < s->cast.nodes && !tw_sim_linked(s, f->a, f->b); i++)
		f->b = (f->b + 1) % s->cast.nodes;
	f->at = (int64_t)(draw(&r, f, nth, DRAW_AT) * (double)s->options->fault_span);
	f->lasts = while_draw(lasts);
	if (f->kind == TW_FAULT_CRASH)
		f->lasts = crash_draw(s, f, lasts, gone);
	if (f->kind == TW_FAULT_PARTITION) { /* half of them heal in time, half do not */
		f->lasts = (int64_t)(lasts < 0.5 ? 2.0 * lasts * limit : 2.0 * lasts * limit + 1.0);
		if (draw(&r, f, nth, DRAW_HOW) < 0.25)
			f->b = TW_EVERYBODY;
	}
	f->factor = 2.0 + 8.0 * draw(&r, f, nth, DRAW_FACTOR);
}

static void faults_draw(struct sim *s)
{
	const struct tw_sim_options *o = s->options;
	const struct {
		enum tw_fault_kind kind;
		uint32_t count;
	} wanted[] = {
		{ TW_FAULT_CRASH, o->random_crashes },
		{ TW_FAULT_PARTITION, o->random_partitions },
		{ TW_FAULT_RESET, o->random_resets },
		{ TW_FAULT_SLOW, o->random_slow },
	};
	uint32_t gone[2] = { 0, 0 };

	for (size_t k = 0; k < sizeof wanted / sizeof wanted[0]; k++)
		for (uint32_t i = 0; i < wanted[k].count; i++) {
			struct tw_fault *f = &s->faults.all[s->faults.count++];

			*f = (struct tw_fault){ .kind = wanted[k].kind };
			fault_draw(s, f, i, gone);
		}
}

static enum tw_status fault_check(const struct sim *s, size_t i)
{
	const struct tw_fault *f = &s->faults.all[i];
	const bool two = f->kind == TW_FAULT_PARTITION || f->kind == TW_FAULT_RESET;

	if (f->a >= s->cast.nodes || (two && f->b >= s->cast.nodes && f->b != TW_EVERYBODY))
		return tw_fail(&s->ran->error, TW_BAD_INPUT, "fault %zu: there are only %u nodes",
			       i, s->cast.nodes);
	if (f->kind == TW_FAULT_LEAVE && !(s->cast.node[f->a].kinds & NODE_WORKER))
		return tw_fail(&s->ran->error, TW_BAD_INPUT, "fault %zu: only workers can leave",
			       i);
	if (f->kind == TW_FAULT_SLOW && !(f->factor > 0.0 && isfinite(f->factor)))
		return tw_fail(&s->ran->error, TW_BAD_INPUT,
			       "fault %zu: a slow node needs a factor above 0", i);
	return TW_OK;
}

/* A run that was resumed meets the faults that still last, and those to come. */
static bool schedule(struct sim *s, struct tw_fault *f)
{
	const bool stays = f->kind == TW_FAULT_PARTITION || f->kind == TW_FAULT_SLOW;
	int64_t at = f->at;

	if (f->kind == TW_FAULT_KILL_AT) {
		s->faults.kill_at[s->faults.kills++] = f;
		return true;
	}
	if (at < s->now) {
		if (!stays || (f->lasts >= 0 && at + f->lasts <= s->now))
			return true;
		at = s->now;
	}
	return tw_sim_event(s, at, EVENT_FAULT, NULL, f) != NULL;
}

static int by_event(const void *a, const void *b)
{
	const struct tw_fault *x = *(const struct tw_fault *const *)a;
	const struct tw_fault *y = *(const struct tw_fault *const *)b;

	return x->event < y->event ? -1 : x->event > y->event;
}

enum tw_status tw_sim_faults_open(struct sim *s, const struct tw_fault *given, size_t count)
{
	const struct tw_sim_options *o = s->options;
	const size_t all = count + o->random_crashes + o->random_partitions + o->random_resets +
			   o->random_slow;

	if (!all)
		return TW_OK;
	s->faults.kill = tw_sim_kill;
	s->faults.all = s->heap->get(s->heap, all * sizeof *s->faults.all);
	s->faults.kill_at = s->heap->get(s->heap, all * sizeof *s->faults.kill_at);
	if (!s->faults.all || !s->faults.kill_at)
		return tw_fail(&s->ran->error, TW_NO_MEMORY, "no memory for %zu faults", all);
	if (count)
		memcpy(s->faults.all, given, count * sizeof *given);
	s->faults.count = count;
	for (size_t i = 0; i < count; i++)
		if (fault_check(s, i) != TW_OK)
			return s->ran->error.status;
	faults_draw(s);
	for (size_t i = 0; i < s->faults.count; i++)
		if (!schedule(s, &s->faults.all[i]))
			return s->ran->error.status;
	qsort(s->faults.kill_at, s->faults.kills, sizeof *s->faults.kill_at, by_event);
	if (s->faults.kills)
		s->faults.next_kill = s->faults.kill_at[0]->event;
	return TW_OK;
}

void tw_sim_faults_close(struct sim *s)
{
	s->heap->put(s->heap, s->faults.all);
	s->heap->put(s->heap, s->faults.kill_at);
}
