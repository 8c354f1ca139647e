/* SPDX-License-Identifier: Apache-2.0 */
/* test_figures.c - cells tell the master what they have done: all of it, and nothing else. */
#include "job/meddler.h"
#include "job/pipes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const char *const schedules[] = { "gate: bsp, pipeline: gpipe",
					 "gate: bsp, pipeline: 1f1b-flush",
					 "gate: async, pipeline: pipedream" };

static struct pipe_run *open_run(enum tw_world_kind world, const char *strategy, uint32_t seed,
				 const char *fault)
{
	return pipe_open(world,
			 "model: {quadratic: {dimension: 12, noise: 0.1, stages: 3}}\n"
			 "data: {source: none, samples: 24, batch: 1, accumulate: 2}\n"
			 "train: {epochs: 3, seed: %u, evaluate: 1}\nupdate: {rate: 0.01}\n"
			 "cluster: {workers: 2, stages: 3, servers: 1}\nstrategy: {%s}\n%s%s%s",
			 seed, strategy,
			 world == TW_WORLD_SIM
				 ? "sim: {compute: {law: exponential, mean: 600ms}, latency: 5ms, "
				   "closed_limit: 50ms, faults: ["
				 : "",
			 fault, world == TW_WORLD_SIM ? "]}\n" : "");
}

/* --- what the master is told is what cells tell themselves -------------------------------- */

/* Notes of the master alone: those of all cells are muted, as if they were elsewhere. */
static void mute_all(struct pipe_run *r)
{
	const struct meddler quiet = { .mute = true };

	for (uint32_t k = 0; k < 6; k++)
		meddle(&r->t, k / 3, k % 3, &quiet);
}

static bool equal(const struct tw_stage_note *x, const struct tw_stage_note *y)
{
	return x->work.forwards == y->work.forwards && x->work.backwards == y->work.backwards &&
	       x->work.forward_time == y->work.forward_time &&
	       x->work.backward_time == y->work.backward_time && x->first == y->first &&
	       x->last == y->last && x->work.sent == y->work.sent &&
	       x->work.depth == y->work.depth && x->work.versions == y->work.versions &&
	       x->work.memory == y->work.memory && y->work.updates >= x->work.updates &&
	       y->work.update_time >= x->work.update_time; /* the last came */
}

static void same_figures(const struct pipe_run *a, const struct pipe_run *b, const char *what,
			 uint32_t seed)
{
	for (uint32_t k = 0; k < 6; k++) {
		const struct tw_stage_note x = tw_stage_figures_of(a->figures, k / 3, k % 3);
		const struct tw_stage_note y = tw_stage_figures_of(b->figures, k / 3, k % 3);

		if (!x.work.backwards || !equal(&x, &y))
			fail_msg("%s, seed %u, cell %u.%u: %llu and %llu backwards, %lld and %lld "
				 "ns, %llu and %llu updates",
				 what, seed, k / 3, k % 3, (unsigned long long)x.work.backwards,
				 (unsigned long long)y.work.backwards,
				 (long long)x.work.backward_time, (long long)y.work.backward_time,
				 (unsigned long long)x.work.updates,
				 (unsigned long long)y.work.updates);
	}
	assert_true(tw_stage_figures_bubble(a->figures) == tw_stage_figures_bubble(b->figures));
}

static void the_master_knows_all_cells(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof schedules / sizeof schedules[0]; k++)
		for (uint32_t seed = 1; seed <= 5; seed++) {
			struct pipe_run *own = open_run(TW_WORLD_SIM, schedules[k], seed, "");
			struct pipe_run *told = open_run(TW_WORLD_SIM, schedules[k], seed, "");

			mute_all(told);
			pipe_go(own);
			pipe_go(told);
			pipe_same(own, told, schedules[k]);
			same_figures(own, told, schedules[k], seed);
			pipe_free(own);
			pipe_free(told);
		}
}

/* In threads the clock is real: counts are the same, and nobody is idle less than never. */
static void threads_tell_as_well(void **state)
{
	struct pipe_run *r = open_run(TW_WORLD_THREADS, schedules[0], 1, "");
	uint64_t micros = 0;

	(void)state;
	mute_all(r);
	pipe_go(r);
	assert_int_equal(r->status, TW_OK);
	for (uint32_t k = 0; k < 6; k++) {
		const struct tw_stage_note n = tw_stage_figures_of(r->figures, k / 3, k % 3);

		assert_int_equal(n.work.forwards, n.work.backwards);
		assert_true(n.work.forward_time >= 0 && n.first <= n.last);
		micros += k % 3 == 0 ? n.work.backwards : 0;
	}
	assert_int_equal(micros, 3 * 24);
	assert_true(tw_stage_figures_bubble(r->figures) >= 0 &&
		    tw_stage_figures_bubble(r->figures) < 1);
	pipe_free(r);
}

/* A cell is lost, and comes back: what was done before is not forgotten, nor counted twice. */
static void lives_are_added(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 5; seed++) {
		struct pipe_run *r = open_run(TW_WORLD_SIM, schedules[2], seed,
					      "{crash: worker 0.1, at: 12s, restart: 200ms}");
		uint64_t micros = 0;

		mute_all(r);
		pipe_go(r);
		assert_int_equal(r->status, TW_OK);
		for (uint32_t slot = 0; slot < 2; slot++)
			micros += tw_stage_figures_of(r->figures, slot, 2).work.backwards;
		/* what a cell has done in the second before it was fenced is not told */
		if (micros < 3 * 24 - 8 || micros > r->ran.totals.samples + 8)
			fail_msg("seed %u: %llu micro-batches of %llu samples", seed,
				 (unsigned long long)micros,
				 (unsigned long long)r->ran.totals.samples);
		pipe_free(r);
	}
}

/* --- who lies ----------------------------------------------------------------------------- */

enum lie { HUGE, OVERFLOW, LATER, MORE_BACK, BUSIER, OTHER_SLOT, OLD_LIFE, SILENT, LIES };

static bool tell_lies(void *arg, struct tw_context *ctx, struct tw_msg *m)
{
	struct tw_body_figures *f = &m->b.figures;

	if (m->h.type != TW_FIGURES)
		return false;
	switch (*(const enum lie *)arg) {
	case HUGE:
		memset(f, 0xff, sizeof *f);
		break;
	case OVERFLOW: /* their sum is small again */
		f->work.forward_time = f->work.backward_time = INT64_MIN;
		break;
	case LATER:
		f->ended = f->began + 1;
		break;
	case MORE_BACK:
		f->work.backwards = f->work.forwards + 1;
		break;
	case BUSIER:
		f->work.forward_time = (int64_t)f->began;
		f->work.backward_time = 1;
		f->ended = 0;
		break;
	case OTHER_SLOT:
		m->h.from ^= 1;
		break;
	case OLD_LIFE:
		m->h.incarnation--;
		break;
	default:
		ctx->world->msg_free(ctx, m);
		return true;
	}
	meddler_send(ctx, m);
	return true;
}

static uint32_t warned;

static void count_warnings(void *arg, enum tw_level level, const char *who, const char *text)
{
	(void)arg, (void)level, (void)who;
	warned += strstr(text, "worker 0.1 says figures of itself that cannot be") != NULL;
}

/* Its figures are missing; those of others, and the run, are as they were. */
static void a_lie_is_passed_over(void **state)
{
	static const struct tw_log log = { .sink = count_warnings, .level = TW_DEBUG };

	(void)state;
	for (enum lie lie = HUGE; lie < LIES; lie++) {
		struct pipe_run *honest = open_run(TW_WORLD_SIM, schedules[0], 7, "");
		struct pipe_run *r = open_run(TW_WORLD_SIM, schedules[0], 7, "");
		const struct meddler liar = { .send = tell_lies, .arg = &lie, .mute = true };

		warned = 0;
		meddle(&r->t, 0, 1, &liar);
		r->t.log = &log;
		pipe_go(honest);
		pipe_go(r);
		if (lie != OTHER_SLOT && lie != OLD_LIFE)
			pipe_same(honest, r, "a lie of figures");
		else /* who speaks as somebody else is fenced */
			assert_int_equal(r->status, TW_OK);
		for (uint32_t k = 0; k < 6; k++) {
			const struct tw_stage_note n =
				tw_stage_figures_of(r->figures, k / 3, k % 3);

			if (k == 1 && lie != OTHER_SLOT && lie != OLD_LIFE)
				assert_int_equal(n.work.forwards, 0);
			if (k >= 3)
				assert_true(n.work.backwards > 0 && n.work.backwards <= 72);
		}
		assert_int_equal(warned, lie <= BUSIER ? 1 : 0);
		pipe_free(honest);
		pipe_free(r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_master_knows_all_cells),
		cmocka_unit_test(threads_tell_as_well),
		cmocka_unit_test(lives_are_added),
		cmocka_unit_test(a_lie_is_passed_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
