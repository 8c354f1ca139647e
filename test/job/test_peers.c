/* SPDX-License-Identifier: Apache-2.0 */
/* test_peers.c - rounds without a server: what replicas add up is what a serial loop adds up, and
 * the schedule of a server's fold gives a server's bits. */
#include "job/serial.h"
#include "job/trial.h"
#include "kit/reduce.h"
#include "vec/vec.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define SIM "sim: {compute: {law: exponential, mean: 100ms}, latency: 5ms, jitter: 3ms}\n"

/* --- a serial loop -------------------------------------------------------------------------- */

#define ROUNDS 6
#define PEERS  17
#define DIM    23

/* What workers pushed: the slice of each, by round and slot. */
static struct {
	float v[ROUNDS][PEERS][DIM];
	float weight[ROUNDS][PEERS], divide[ROUNDS][PEERS];
} pushed;
static const struct tw_plan *plan;

static void shard_hears(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (m->h.type == TW_PUSH) {
		const size_t *border = plan->problem.border + m->h.shard;
		const uint64_t r = m->b.push.round;

		assert_int_equal(m->from.node, ctx->self.node); /* its own worker, and no other */
		assert_true(r < ROUNDS && m->h.from < PEERS);
		assert_int_equal(m->h.payload, (border[1] - border[0]) * sizeof(float));
		memcpy(pushed.v[r][m->h.from] + border[0], tw_msg_payload(m), m->h.payload);
		pushed.weight[r][m->h.from] = m->b.push.account.weight;
		pushed.divide[r][m->h.from] = m->b.push.account.divide;
	}
	tw_shard_class.message(a, ctx, m);
}

/* Every slice is reduced by itself, by the moves of the schedule, then subtracted. */
static void step(const struct tw_reduction *r, uint32_t peers, uint64_t round, float *w)
{
	const struct tw_problem *p = &plan->problem;

	for (uint32_t s = 0; s < p->shards; s++) {
		const size_t from = p->border[s], n = p->border[s + 1] - from;
		const float *in[PEERS];
		float room[PEERS][DIM], *out[PEERS], weight[PEERS], divide[PEERS], g[DIM];

		for (uint32_t k = 0; k < peers; k++) {
			in[k] = pushed.v[round][k] + from;
			out[k] = room[k];
		}
		kit_reduce(r, peers, n, in, pushed.weight[round], pushed.divide[round], out, weight,
			   divide);
		for (uint32_t k = 1; k < peers; k++)
			assert_memory_equal(out[0], out[k], n * sizeof(float));
		tw_vec_scale_to(g, 1.0f / divide[0], out[0], n);
		tw_vec_sgd(w + from, w + from, g, 0.01f, n, false);
	}
}

static void one_serial(const struct tw_reduction *r, uint32_t peers, uint32_t shards)
{
	struct tw_actor_class heard = tw_shard_class;
	struct tw_ran ran;
	struct trial t;
	float w[DIM];

	trial_open(&t, TW_WORLD_SIM,
		   "model: {quadratic: {dimension: %d, noise: 0.1}}\n"
		   "data: {source: none, samples: %u, batch: 2}\n"
		   "train: {epochs: 1, seed: %u}\nupdate: {rate: 0.01}\n"
		   "cluster: {workers: %u, shards: %u}\n"
		   "strategy: {gate: bsp, topology: %s}\n" SIM,
		   DIM, 2 * ROUNDS * peers, 3 + peers, peers, shards, r->name);
	plan = &t.job->plan;
	heard.message = shard_hears;
	for (size_t k = 0; k < t.cast.seats; k++)
		if (t.cast.seat[k].class == &tw_shard_class)
			t.cast.seat[k].class = &heard;
	memset(&pushed, 0, sizeof pushed);
	assert_int_equal(t.engine->class->init(t.engine, 0, DIM, w), TW_OK);
	assert_int_equal(trial_run(&t, &tw_heap_system, NULL, &ran), TW_OK);
	assert_int_equal(ran.totals.status, TW_OK);
	assert_int_equal(ran.totals.tally.contributions, (uint64_t)ROUNDS * peers * shards);
	for (uint64_t round = 0; round < ROUNDS; round++)
		step(r, peers, round, w);
	for (uint32_t s = 0; s < shards; s++) {
		const size_t from = plan->problem.border[s], to = plan->problem.border[s + 1];

		if (memcmp(tw_block_floats(ran.totals.vector[s]), w + from,
			   (to - from) * sizeof *w) != 0)
			fail_msg("%s with %u peers and %u slices: slice %u differs", r->name, peers,
				 shards, s);
	}
	tw_totals_release(&ran.totals);
	trial_close(&t);
}

static void replicas_add_up_as_the_schedule_says(void **state)
{
	static const uint32_t slices[] = { 1, 2, 5 };

	(void)state;
	for (size_t r = 0; kit_reduction_at(r); r++)
		for (uint32_t peers = 1; peers <= PEERS; peers++)
			for (size_t k = 0; k < sizeof slices / sizeof slices[0]; k++)
				one_serial(kit_reduction_at(r), peers, slices[k]);
}

/* --- a server's rounds ---------------------------------------------------------------------- */

/* Jobs whose rounds differ in what is added up: short rounds, decay, state of the rule, several
 * batches, deltas, running statistics. */
static const char *const jobs[] = {
	"model: {quadratic: {dimension: 100, noise: 0.1}}\n"
	"data: {source: none, samples: 1003, batch: 3}\nupdate: {rate: 0.02}\n",
	"model: {quadratic: {dimension: 61, noise: 0.1}}\n"
	"data: {source: none, samples: 500, batch: 2, accumulate: 3}\n"
	"update: {rule: momentum, rate: 0.01, decay: 0.01}\n",
	"model: {quadratic: {dimension: 30, noise: 0.1}}\n"
	"data: {source: none, samples: 700, batch: 2}\nupdate: {rule: adam, rate: 0.01}\n",
	"data: {source: digits, count: 300, tests: 40, batch: 10}\n"
	"model: {layers: [conv 4 3x3 stride 2, batchnorm, tanh, avgpool 4, linear 10]}\n"
	"update: {rate: 0.05}\n",
	"data: {source: digits, count: 300, tests: 40, batch: 10}\n"
	"model: {layers: [conv 4 3x3 stride 2, batchnorm, relu, maxpool 4, linear 10]}\n"
	"update: {rate: 0.05}\n",
};
#define JOBS (sizeof jobs / sizeof jobs[0])

/* The gradient of a network with relu and maxpool jumps: where a rounding takes a value to the
 * other side, runs differ by much more than a rounding.  They are compared after one update. */
static const char *length_of(const char *job)
{
	return strstr(job, "relu") ? "updates: 1" : "epochs: 2";
}

static void as_server(struct outcome *o, enum tw_world_kind world, const char *job,
		      const char *length, const char *strategy, const char *topology,
		      uint32_t workers, uint32_t shards)
{
	outcome_of(o, world,
		   "%strain: {%s, seed: 5}\ncluster: {workers: %u, shards: %u}\n"
		   "strategy: {%s, topology: %s}\n%s",
		   job, length, workers, shards, strategy, topology,
		   world == TW_WORLD_SIM ? SIM : "");
}

/* The largest difference, relative to the largest parameter. */
static double apart(const struct outcome *a, const struct outcome *b)
{
	double most = 0, largest = 0;

	assert_int_equal(a->n, b->n);
	for (size_t i = 0; i < a->n; i++) {
		most = fmax(most, fabs((double)a->vector[i] - (double)b->vector[i]));
		largest = fmax(largest, fabs((double)a->vector[i]));
	}
	return most / largest;
}

static void compare(enum tw_world_kind world, const char *job, const char *length,
		    const char *strategy, uint32_t workers, uint32_t shards)
{
	struct outcome server, peers;

	as_server(&server, TW_WORLD_SIM, job, length, strategy, "server", workers, shards);
	for (size_t r = 0; kit_reduction_at(r); r++) {
		const char *name = kit_reduction_at(r)->name;

		as_server(&peers, world, job, length, strategy, name, workers, shards);
		assert_int_equal(peers.ran.totals.samples, server.ran.totals.samples);
		assert_int_equal(peers.ran.totals.steps, server.ran.totals.steps);
		assert_float_equal(peers.ran.totals.updates, server.ran.totals.updates, 0);
		assert_int_equal(peers.ran.totals.tally.contributions,
				 server.ran.totals.tally.contributions);
		assert_true(fabs(peers.ran.totals.tally.drift_most -
				 server.ran.totals.tally.drift_most) <=
			    1e-5 * server.ran.totals.tally.drift_most);
		if (strcmp(name, "direct") == 0)
			assert_memory_equal(peers.vector, server.vector, server.n * sizeof(float));
		else if (strcmp(length, length_of(job)) == 0 && !(apart(&server, &peers) < 1e-6))
			fail_msg("%s with %u peers and %u slices is %g away\n%s", name, workers,
				 shards, apart(&server, &peers), job);
		outcome_close(&peers);
	}
	outcome_close(&server);
}

/* Other orders of addition: the parameters differ by roundings, over two epochs of up to 335
 * updates, or after one update where gradients jump. */
static void others_are_a_server_to_rounding(void **state)
{
	static const uint32_t slices[] = { 1, 2, 5 };

	(void)state;
	for (size_t k = 0; k < JOBS; k++)
		for (uint32_t peers = 1; peers <= PEERS; peers++)
			for (size_t s = 0; s < sizeof slices / sizeof slices[0]; s++)
				compare(TW_WORLD_SIM, jobs[k], length_of(jobs[k]), "gate: bsp",
					peers, slices[s]);
}

static void direct_is_a_server_bit_for_bit(void **state)
{
	(void)state;
	for (size_t k = 0; k < JOBS; k++) {
		compare(TW_WORLD_SIM, jobs[k], "epochs: 2", "gate: bsp", 1 + (uint32_t)k, 1);
		compare(TW_WORLD_SIM, jobs[k], "epochs: 2", "gate: bsp", 7, 2);
		compare(TW_WORLD_SIM, jobs[k], "epochs: 2", "gate: bsp", 4, 5);
		compare(TW_WORLD_THREADS, jobs[k], "epochs: 2", "gate: bsp", 5, 3);
	}
	compare(TW_WORLD_SIM, jobs[0], "epochs: 2", "gate: bsp, sum: total", 4, 2);
	compare(TW_WORLD_SIM, jobs[0], "epochs: 2", "name: diloco, push: 4", 5, 2);
	compare(TW_WORLD_SIM, jobs[1], "epochs: 2", "name: bmuf, push: 3", 3, 1);
	compare(TW_WORLD_THREADS, jobs[4], "epochs: 2", "name: averaging, push: 2", 3, 2);
}

static void gathers(enum tw_world_kind world, const char *job, const char *strategy,
		    uint32_t workers, uint32_t shards)
{
	struct outcome server, peers;

	as_server(&server, TW_WORLD_SIM, job, "epochs: 2", strategy, "server", workers, shards);
	as_server(&peers, world, job, "epochs: 2", strategy, "direct", workers, shards);
	assert_int_equal(peers.ran.totals.samples, server.ran.totals.samples);
	if (memcmp(peers.vector, server.vector, server.n * sizeof(float)) != 0)
		fail_msg("%s with %u peers and %u slices differs\n%s", strategy, workers, shards,
			 job);
	assert_true(fabs(peers.ran.totals.tally.residual / server.ran.totals.tally.residual - 1) <
		    1e-12);
	assert_true(peers.ran.totals.tally.residual_most == server.ran.totals.tally.residual_most);
	assert_int_equal(peers.ran.totals.tally.residuals_lost, 0);
	outcome_close(&peers);
	outcome_close(&server);
}

/* A codec with a residual: contributions go to all as they were encoded, and the sum is the one
 * that a server makes of them.  Fast and slow links, and worlds, change no bit. */
static void codecs_with_a_residual_give_a_servers_bits(void **state)
{
	static const uint32_t slices[] = { 1, 2, 5 };
	uint32_t seen = 0;

	(void)state;
	for (size_t c = 0; tw_codec_all[c]; c++) {
		const struct tw_codec *codec = tw_codec_all[c];
		const bool fades = codec->traits & TW_CODEC_FADES;
		char strategy[120];

		if (!(codec->traits & TW_CODEC_REMEMBERS))
			continue;
		snprintf(strategy, sizeof strategy, "%s, codec: {up: %s}",
			 fades ? "name: diloco, push: 2" : "gate: bsp", codec->name);
		for (uint32_t peers = 1; peers <= PEERS; peers += 1 + peers / 5)
			for (size_t s = 0; s < sizeof slices / sizeof slices[0]; s++) {
				const char *job = jobs[seen++ % 2 ? 0 : JOBS - 1];

				gathers(TW_WORLD_SIM, job, strategy, peers, slices[s]);
				if (peers == 4 || peers == 5)
					gathers(TW_WORLD_THREADS, job, strategy, peers, slices[s]);
			}
	}
	assert_true(seen > 100);
	gathers(TW_WORLD_SIM, jobs[1], "gate: bsp, codec: {up: topk}", 5, 2); /* decay, momentum */
	gathers(TW_WORLD_SIM, jobs[0], "gate: bsp, sum: total, codec: {up: threshold}", 7, 2);
}

/* Two runs of the same seed, whatever the messages' times are: the same bits in every world. */
static void worlds_agree(void **state)
{
	static const char *const codecs[] = { "fp32", "fp16", "bf16", "int8" };

	(void)state;
	for (size_t r = 0; kit_reduction_at(r); r++)
		for (size_t c = 0; c < sizeof codecs / sizeof codecs[0]; c++) {
			struct outcome sim, threads;
			char strategy[80];

			snprintf(strategy, sizeof strategy, "gate: bsp, codec: {up: %s}",
				 codecs[c]);
			as_server(&sim, TW_WORLD_SIM, jobs[4], "epochs: 2", strategy,
				  kit_reduction_at(r)->name, 5, 2);
			as_server(&threads, TW_WORLD_THREADS, jobs[4], "epochs: 2", strategy,
				  kit_reduction_at(r)->name, 5, 2);
			assert_string_equal(sim.digest, threads.digest);
			assert_memory_equal(sim.vector, threads.vector, sim.n * sizeof(float));
			outcome_close(&sim);
			outcome_close(&threads);
		}
}

static void stopping_changes_nothing(void **state)
{
	(void)state;
	for (size_t r = 0; kit_reduction_at(r); r++)
		for (uint32_t workers = 2; workers <= 5; workers += 3) {
			struct outcome whole;
			char text[800];

			snprintf(text, sizeof text,
				 "%strain: {epochs: 3, seed: 5}\n"
				 "cluster: {workers: %u, shards: 2}\n"
				 "checkpoint: {every: 2s}\n"
				 "strategy: {gate: bsp, topology: %s}\n" SIM,
				 jobs[1], workers, kit_reduction_at(r)->name);
			outcome_open(&whole, text, NULL, TW_WORLD_SIM);
			outcome_run(&whole, NULL);
			outcome_stops_change_nothing(&whole, text, NULL);
			outcome_close(&whole);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replicas_add_up_as_the_schedule_says),
		cmocka_unit_test(direct_is_a_server_bit_for_bit),
		cmocka_unit_test(others_are_a_server_to_rounding),
		cmocka_unit_test(codecs_with_a_residual_give_a_servers_bits),
		cmocka_unit_test(worlds_agree),
		cmocka_unit_test(stopping_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
