/* SPDX-License-Identifier: Apache-2.0 */
/* test_mixing.c - replicas that differ: serial loops, what is conserved, and how equal they are
 * when nothing is on its way. */
#include "job/serial.h"
#include "job/trial.h"
#include "kit/reduce.h"
#include "node/shard/shard.h"
#include "run/result.h"
#include "vec/vec.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define SIM "sim: {compute: {law: exponential, mean: 100ms}, latency: 5ms, jitter: 3ms}\n"

#define ROUNDS 7
#define PEERS  9
#define DIM    23

static const struct tw_plan *plan;

static const struct tw_mixing *with(bool (*is)(const struct tw_mixing *))
{
	for (size_t k = 0; tw_mixing_all[k]; k++)
		if (is(tw_mixing_all[k]))
			return tw_mixing_all[k];
	fail_msg("no such mixing");
	return NULL;
}

static bool in_rounds(const struct tw_mixing *m)
{
	return m->round;
}

static bool in_pairs(const struct tw_mixing *m)
{
	return m->partner;
}

static bool spreading(const struct tw_mixing *m)
{
	return m->traits & TW_MIXING_SPREADS;
}

/* Every shard is heard by this function instead. */
static void listen(struct trial *t, struct tw_actor_class *class,
		   void (*message)(struct tw_actor *, struct tw_context *, struct tw_msg *))
{
	*class = tw_shard_class;
	class->message = message;
	for (size_t k = 0; k < t->cast.seats; k++)
		if (t->cast.seat[k].class == &tw_shard_class)
			t->cast.seat[k].class = class;
}

/* --- a serial loop of rounds ------------------------------------------------------------------ */

static float pushed[ROUNDS][PEERS][DIM];

static void keep_pushes(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (m->h.type == TW_PUSH) {
		const size_t from = plan->problem.border[m->h.shard];

		assert_true(m->b.push.round < ROUNDS && m->h.from < PEERS);
		memcpy(pushed[m->b.push.round][m->h.from] + from, tw_msg_payload(m), m->h.payload);
	}
	tw_shard_class.message(a, ctx, m);
}

/* out[k] = what replica k comes to, over each slice by itself. */
static void reduce_slices(const struct tw_reduction *r, uint32_t peers, float x[PEERS][DIM])
{
	for (uint32_t s = 0; s < plan->problem.shards; s++) {
		const size_t from = plan->problem.border[s];
		const size_t n = plan->problem.border[s + 1] - from;
		float room[PEERS][DIM], ones[PEERS], weight[PEERS], divide[PEERS], *out[PEERS];
		const float *in[PEERS];

		for (uint32_t k = 0; k < peers; k++) {
			in[k] = x[k] + from;
			out[k] = room[k];
			ones[k] = 1.0f;
		}
		kit_reduce(r, peers, n, in, ones, ones, out, weight, divide);
		for (uint32_t k = 0; k < peers; k++)
			tw_vec_scale_to(x[k] + from, 1.0f / divide[0], room[k], n);
	}
}

static void rounds_are_the_serial_loop(uint32_t peers, uint32_t shards)
{
	const struct tw_mixing *mixing = with(in_rounds);
	struct tw_actor_class class;
	float x[PEERS][DIM];
	struct tw_ran ran;
	struct trial t;

	trial_open(&t, TW_WORLD_SIM,
		   "model: {quadratic: {dimension: %d, noise: 0.1}}\n"
		   "data: {source: none, samples: %u, batch: 2}\n"
		   "train: {epochs: 1, seed: %u}\nupdate: {rate: 0.05}\n"
		   "cluster: {workers: %u, shards: %u}\n"
		   "strategy: {gate: bsp, topology: %s}\n" SIM,
		   DIM, 2 * ROUNDS * peers, 3 + peers, peers, shards, mixing->name);
	plan = &t.job->plan;
	listen(&t, &class, keep_pushes);
	for (uint32_t k = 0; k < peers; k++)
		assert_int_equal(t.engine->class->init(t.engine, 0, DIM, x[k]), TW_OK);
	assert_int_equal(trial_run(&t, &tw_heap_system, NULL, &ran), TW_OK);
	assert_int_equal(ran.totals.status, TW_OK);
	assert_int_equal(ran.totals.samples, 2 * ROUNDS * peers);
	assert_int_equal(ran.totals.steps, ROUNDS * peers);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		reduce_slices(mixing->round, peers, x);
		for (uint32_t k = 0; k < peers; k++)
			tw_vec_sgd(x[k], x[k], pushed[round][k], 0.05f, DIM, false);
	}
	reduce_slices(plan->topology.reduction, peers,
		      x); /* the mean of all, which is the result */
	for (uint32_t s = 0; s < shards; s++) {
		const size_t from = plan->problem.border[s], to = plan->problem.border[s + 1];

		if (memcmp(tw_block_floats(ran.totals.vector[s]), x[0] + from,
			   (to - from) * sizeof **x) != 0)
			fail_msg("%u peers, %u slices: slice %u differs", peers, shards, s);
	}
	tw_totals_release(&ran.totals);
	trial_close(&t);
}

static void rounds_mix_as_the_serial_loop_does(void **state)
{
	(void)state;
	for (uint32_t peers = 2; peers <= PEERS; peers++)
		for (uint32_t shards = 1; shards <= 5; shards += 2)
			rounds_are_the_serial_loop(peers, shards);
}

/* Rounds commit full sets, so threads have the bits of the simulator. */
static void worlds_agree_on_rounds(void **state)
{
	struct outcome sim, threads;
	char text[700];

	(void)state;
	snprintf(text, sizeof text,
		 "data: {source: digits, count: 300, tests: 40, batch: 10}\n"
		 "model: {layers: [conv 4 3x3 stride 2, batchnorm, relu, maxpool 4, linear 10]}\n"
		 "update: {rate: 0.05, decay: 0.001}\ntrain: {epochs: 2, seed: 5}\n"
		 "cluster: {workers: 5, shards: 2}\nstrategy: {gate: bsp, topology: %s}\n",
		 with(in_rounds)->name);
	outcome_of(&sim, TW_WORLD_SIM, "%s" SIM, text);
	outcome_of(&threads, TW_WORLD_THREADS, "%s", text);
	assert_string_equal(sim.digest, threads.digest);
	assert_memory_equal(sim.vector, threads.vector, sim.n * sizeof(float));
	assert_string_equal(tw_result_evaluated(&sim.job->plan), "mean of the replicas");
	outcome_close(&sim);
	outcome_close(&threads);
}

/* --- pairs conserve the sum ------------------------------------------------------------------- */

static bool given[PEERS + 2][8];
static uint32_t exchanges;

/* Every replica begins elsewhere, with whole numbers. */
static void scatter(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct shard *s = (struct shard *)a;

	if (m->h.type == TW_FORM && m->b.form.what == TW_FORM_SPREAD &&
	    !given[ctx->self.node][s->index]) {
		struct tw_block *w = tw_block_new(s->heap, s->slice.all * sizeof(float));

		for (size_t i = 0; i < s->slice.n; i++)
			tw_block_floats(w)[i] = (float)((ctx->self.node * 37 + i * 11) % 64);
		tw_slice_replace(&s->slice, w);
		given[ctx->self.node][s->index] = true;
	}
	exchanges += m->h.type == TW_MIX && m->b.mix.answer;
	tw_shard_class.message(a, ctx, m);
}

/* Without gradients the mean of all replicas stays what it was: exactly, as long as halves of whole
 * numbers fit into floats. */
static void pairs_conserve_the_sum(void **state)
{
	(void)state;
	for (uint32_t peers = 2; peers <= 8; peers *= 2)
		for (uint32_t seed = 1; seed <= 20; seed++) {
			struct tw_actor_class class;
			struct tw_ran ran;
			struct trial t;

			memset(given, 0, sizeof given);
			exchanges = 0;
			trial_open(&t, TW_WORLD_SIM,
				   "model: {quadratic: {dimension: %d}}\n"
				   "data: {source: none, samples: %u, batch: 1}\n"
				   "train: {epochs: 1, seed: %u}\nupdate: {rate: 0}\n"
				   "cluster: {workers: %u, shards: 2}\n"
				   "strategy: {gate: async, topology: %s}\n"
				   "sim: {compute: {law: exponential, mean: 10ms}, latency: 5ms, "
				   "jitter: 20ms}\n",
				   DIM, 6 * peers, seed, peers, with(in_pairs)->name);
			plan = &t.job->plan;
			listen(&t, &class, scatter);
			assert_int_equal(trial_run(&t, &tw_heap_system, NULL, &ran), TW_OK);
			assert_int_equal(ran.totals.status, TW_OK);
			assert_true(exchanges > 0 && exchanges <= 2 * 3 * peers);
			for (uint32_t sh = 0; sh < 2; sh++) {
				const size_t from = plan->problem.border[sh];
				const size_t n = plan->problem.border[sh + 1] - from;

				for (size_t i = 0; i < n; i++) {
					double sum = 0;

					for (uint32_t node = 1; node <= peers; node++)
						sum += (double)((node * 37 + i * 11) % 64);
					if (tw_block_floats(ran.totals.vector[sh])[i] !=
					    (float)(sum / peers))
						fail_msg("%u peers, seed %u: %g is not %g", peers,
							 seed,
							 (double)tw_block_floats(
								 ran.totals.vector[sh])[i],
							 sum / peers);
				}
			}
			tw_totals_release(&ran.totals);
			trial_close(&t);
		}
}

/* --- a mesh ----------------------------------------------------------------------------------- */

static struct {
	double moved[DIM]; /* rate times everything that was pushed, as it is decoded */
	float replica[PEERS + 2][DIM];
	uint32_t pushes, settled;
} mesh;

static void add_up(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct shard *s = (struct shard *)a;
	const size_t from = s->slice.from, n = s->slice.n;
	float g[DIM];

	if (m->h.type == TW_PUSH) {
		assert_int_equal(m->from.node, ctx->self.node); /* its own worker, and no other */
		assert_int_equal(tw_codec_decode(plan->traffic.up, plan->traffic.up_options,
						 tw_msg_payload(m), m->h.payload, g, n),
				 TW_OK);
		for (size_t i = 0; i < n; i++)
			mesh.moved[from + i] += (double)0.05f * (double)g[i];
		mesh.pushes++;
	}
	/* the first of these comes when all have all: nothing was averaged yet */
	if (m->h.type == TW_FORM && m->b.form.what == TW_FORM_PARAMETERS) {
		memcpy(mesh.replica[ctx->self.node] + from, tw_block_floats(s->slice.w),
		       n * sizeof(float));
		mesh.settled++;
	}
	tw_shard_class.message(a, ctx, m);
}

/* Every contribution is in every replica, once: w0 - rate * sum, to rounding; so replicas are equal
 * to 1e-6 when nothing is on its way. */
static void a_mesh_applies_everything_everywhere(void **state)
{
	static const char *const codecs[] = { "up: fp32", "up: threshold, up_tau: 0.03",
					      "up: topk, up_share: 0.2", "up: onebit" };

	(void)state;
	for (size_t c = 0; c < sizeof codecs / sizeof codecs[0]; c++)
		for (uint32_t peers = 2; peers <= PEERS; peers += 3) {
			struct tw_actor_class class;
			struct tw_ran ran;
			struct trial t;
			float w[DIM];

			memset(&mesh, 0, sizeof mesh);
			trial_open(&t, TW_WORLD_SIM,
				   "model: {quadratic: {dimension: %d, noise: 0.2}}\n"
				   "data: {source: none, samples: %u, batch: 2}\n"
				   "train: {epochs: 3, seed: %u}\nupdate: {rate: 0.05}\n"
				   "cluster: {workers: %u, shards: 3}\n"
				   "strategy: {gate: async, topology: %s, codec: {%s}}\n" SIM,
				   DIM, 20 * peers, 7 + peers, peers, with(spreading)->name,
				   codecs[c]);
			plan = &t.job->plan;
			listen(&t, &class, add_up);
			assert_int_equal(t.engine->class->init(t.engine, 0, DIM, w), TW_OK);
			assert_int_equal(trial_run(&t, &tw_heap_system, NULL, &ran), TW_OK);
			assert_int_equal(ran.totals.status, TW_OK);
			assert_int_equal(ran.totals.samples, 60 * peers);
			assert_int_equal(mesh.pushes, 3 * 30 * peers);
			assert_int_equal(mesh.settled, 3 * peers);
			assert_float_equal(ran.totals.updates, 30 * peers, 0);
			for (size_t i = 0; i < DIM; i++)
				for (uint32_t k = 1; k <= peers; k++) {
					const double want = (double)w[i] - mesh.moved[i];
					const double has = (double)mesh.replica[k][i];
					const double first = (double)mesh.replica[1][i];
					const double scale = fmax(1, fabs((double)w[i]));

					/* floats round in every update, the sum does not */
					if (!(fabs(has - want) <= 1e-5 * scale) ||
					    !(fabs(has - first) <= 1e-6 * scale))
						fail_msg("%s, %u peers: replica %u has %.9g at "
							 "%zu, not %.9g; the first has %.9g",
							 codecs[c], peers, k, has, i, want, first);
				}
			tw_totals_release(&ran.totals);
			trial_close(&t);
		}
}

/* Without delays, as many contributions of others come between reading and applying as with a
 * server: N - 1 in the mean. */
static void replicas_are_as_stale_as_a_server(void **state)
{
	(void)state;
	for (uint32_t k = 0; k < 6; k++) {
		const uint32_t peers = 2u << k / 2;
		struct outcome o;

		outcome_of(&o, TW_WORLD_SIM,
			   "model: {quadratic: {dimension: 10}}\n"
			   "data: {source: none, samples: 4000, batch: 1}\n"
			   "train: {epochs: 1, seed: 3}\nupdate: {rate: 0.001}\n"
			   "cluster: {workers: %u}\nstrategy: {gate: async, topology: %s}\n"
			   "sim: {compute: {law: exponential, mean: 100ms}, latency: 0s}\n",
			   peers, with(k % 2 ? in_pairs : spreading)->name);
		assert_float_equal((double)o.ran.totals.tally.staleness_sum /
					   (double)o.ran.totals.tally.staleness_count,
				   peers - 1, 0.03 * peers);
		outcome_close(&o);
	}
}

/* --- figures and evaluations ------------------------------------------------------------------ */

static const char *const everywhere[] = { "gossip", "{gate: async, topology: gossip}",
					  "strom",  "{gate: async, topology: mesh}",
					  "d-psgd", "{gate: bsp, topology: neighbours}",
					  "ring",   "asgd",
					  "ssgd" };

/* Who evaluates reads a view and computes nothing on it: no figure knows how often that was. */
static void figures_are_the_same_however_often_one_evaluates(void **state)
{
	static const char *const every[] = { "0", "0.4", "0.03", "0.002" };

	(void)state;
	for (size_t k = 0; k < sizeof everywhere / sizeof everywhere[0]; k++)
		for (uint32_t seed = 1; seed <= 3; seed++) {
			struct outcome first = { .n = 0 };

			for (size_t e = 0; e < sizeof every / sizeof every[0]; e++) {
				const struct tw_totals *a = &first.ran.totals, *b;
				struct outcome o;

				outcome_of(&o, TW_WORLD_SIM,
					   "model: {quadratic: {dimension: 8, noise: 1}}\n"
					   "data: {source: none, samples: 600, batch: 1}\n"
					   "train: {epochs: 1, seed: %u, evaluate: %s}\n"
					   "update: {rate: 0.01}\n"
					   "cluster: {workers: %u, shards: %u}\n"
					   "checkpoint: {every: %s}\nstrategy: %s\n"
					   "sim: {compute: {law: gamma, mean: 100ms, shape: 100}, "
					   "latency: %s}\n",
					   seed, every[e], 2 + 3 * seed, seed,
					   seed == 3 ? "2s" : "0s", everywhere[k],
					   seed == 2 ? "7ms" : "100us");
				b = &o.ran.totals;
				if (!e) {
					first = o;
					continue;
				}
				if (memcmp(&a->tally, &b->tally, sizeof a->tally) ||
				    a->updates != b->updates || a->steps != b->steps ||
				    a->applied != b->applied || a->loss != b->loss ||
				    a->steady.samples != b->steady.samples ||
				    strcmp(first.digest, o.digest) != 0)
					fail_msg("%s, seed %u: staleness %llu of %llu, updates %g "
						 "with evaluate: %s, not %llu of %llu and %g",
						 everywhere[k], seed,
						 (unsigned long long)b->tally.staleness_sum,
						 (unsigned long long)b->tally.staleness_count,
						 b->updates, every[e],
						 (unsigned long long)a->tally.staleness_sum,
						 (unsigned long long)a->tally.staleness_count,
						 a->updates);
				outcome_close(&o);
			}
			outcome_close(&first);
		}
}

#define NODES (PEERS + 2)

/* What every replica applied, from its notes, up to the moment at which it kept its view. */
static struct {
	uint64_t updates[NODES], pinned[NODES], pin[NODES];
	size_t evaluations;
	double worst; /* updates of all replicas, of a label less those of the views */
	double last;
} views;
static const struct tw_world *real;
static uint32_t node; /* whose handler runs; there is one thread */

static void overhear(struct tw_context *ctx, struct tw_msg *m)
{
	if (m->h.type == TW_PIN && m->b.pin.what == TW_PIN_KEEP &&
	    views.pin[node] != m->b.pin.pin) {
		views.pin[node] = m->b.pin.pin;
		views.pinned[node] = views.updates[node];
	}
	real->send(ctx, m);
}

static void overheard(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct tw_world heard = *ctx->world;

	real = ctx->world;
	heard.send = overhear;
	ctx->world = &heard;
	node = ctx->self.node;
	tw_shard_class.message(a, ctx, m);
	ctx->world = real;
}

static bool count_views(void *arg, const struct tw_note *n)
{
	const struct tw_point *p = &n->eval.point;
	double sum = 0;

	(void)arg;
	if (n->kind == TW_NOTE_UPDATE)
		views.updates[node]++;
	if (n->kind != TW_NOTE_EVAL)
		return true;
	for (uint32_t k = 0; k < NODES; k++)
		sum += (double)views.pinned[k];
	views.evaluations++;
	views.last = p->updates;
	views.worst = fmax(views.worst, fabs(plan->crew.workers * p->updates - sum));
	/* batches of 2, one step for each contribution */
	if (p->samples != 2 * p->steps || fabs(p->updates * plan->crew.workers - p->steps) > 1e-9)
		fail_msg("%g updates, %g steps, %g samples", p->updates, p->steps, p->samples);
	return true;
}

/* The mean of all replicas is evaluated: its label says what they have made on average, not what
 * one of them has.  What was told and has not arrived yet may be missing; without latency there is
 * no such thing. */
static void labels_of_pairs_are_of_all_replicas(void **state)
{
	(void)state;
	for (uint32_t peers = 2; peers <= PEERS; peers += 3)
		for (uint32_t late = 0; late < 2; late++) {
			struct tw_actor_class class;
			struct tw_ran ran;
			struct trial t;

			memset(&views, 0, sizeof views);
			trial_open(&t, TW_WORLD_SIM,
				   "model: {quadratic: {dimension: %d, noise: 0.1}}\n"
				   "data: {source: none, samples: 400, batch: 2}\n"
				   "train: {epochs: 2, seed: %u, evaluate: 0.07}\n"
				   "update: {rate: 0.01}\ncluster: {workers: %u}\n"
				   "strategy: {gate: async, topology: %s}\n"
				   "sim: {compute: {law: exponential, mean: 100ms}, latency: %s, "
				   "speeds: [1, 2]}\n",
				   DIM, peers, peers, with(in_pairs)->name, late ? "4ms" : "0s");
			plan = &t.job->plan;
			listen(&t, &class, overheard);
			t.observer = count_views;
			assert_int_equal(trial_run(&t, &tw_heap_system, NULL, &ran), TW_OK);
			assert_true(views.evaluations > 20);
			if (!(views.worst <= (late ? peers : 1e-9)))
				fail_msg("%u peers: a label is %g updates off", peers, views.worst);
			assert_true(views.last == 400.0 / peers);
			assert_true(ran.totals.updates == views.last);
			tw_totals_release(&ran.totals);
			trial_close(&t);
		}
}

/* --- leaving ---------------------------------------------------------------------------------- */

/* Contributions take long on the links and goodbyes do not: a worker whose goodbye overtook its
 * contributions would take them along, and their samples would be dealt again. */
static void a_clean_leave_loses_nothing(void **state)
{
	unsigned tried = 0;

	(void)state;
	for (size_t k = 0; tw_mixing_all[k]; k++)
		for (int at = 1; at < 12 && !tw_mixing_all[k]->round; at++, tried++) {
			struct tw_ran ran;
			struct trial t;

			trial_open(&t, TW_WORLD_SIM,
				   "model: {quadratic: {dimension: 2000, noise: 0.1}}\n"
				   "data: {source: none, samples: 512, batch: 1}\n"
				   "update: {rate: 0.01}\ncluster: {workers: 4}\n"
				   "strategy: {gate: async, topology: %s}\n"
				   "sim: {compute: {law: log-normal, median: 10ms, sigma: 0.2}, "
				   "latency: 100us, bandwidth: 1Mbit/s, "
				   "faults: [{leave: worker 1, at: %d.5s}]}\n",
				   tw_mixing_all[k]->name, at);
			assert_int_equal(trial_run(&t, &tw_heap_system, NULL, &ran), TW_OK);
			if (ran.totals.redealt || ran.totals.lost_updates || ran.totals.repeated)
				fail_msg("%s, leave at %d.5 s: %llu samples dealt again, %llu "
					 "updates lost",
					 tw_mixing_all[k]->name, at,
					 (unsigned long long)ran.totals.redealt,
					 (unsigned long long)ran.totals.lost_updates);
			tw_totals_release(&ran.totals);
			trial_close(&t);
		}
	assert_true(tried >= 22);
}

/* --- stopped and resumed ---------------------------------------------------------------------- */

static void stopping_changes_nothing(void **state)
{
	(void)state;
	for (size_t k = 0; tw_mixing_all[k]; k++)
		for (uint32_t workers = 2; workers <= 5; workers += 3) {
			const struct tw_mixing *m = tw_mixing_all[k];
			struct outcome whole;
			char text[800];

			snprintf(text, sizeof text,
				 "model: {quadratic: {dimension: 61, noise: 0.1}}\n"
				 "data: {source: none, samples: 500, batch: 2}\n"
				 "update: {rate: 0.01}\n"
				 "train: {epochs: 3, seed: 5, evaluate: 0.3}\n"
				 "cluster: {workers: %u, shards: 2}\n"
				 "checkpoint: {every: 2s}\n"
				 "strategy: {gate: %s, topology: %s%s}\n" SIM,
				 workers, m->round ? "bsp" : "async", m->name,
				 spreading(m) ? ", codec: {up: threshold, up_tau: 0.02}" : "");
			outcome_open(&whole, text, NULL, TW_WORLD_SIM);
			outcome_run(&whole, NULL);
			outcome_stops_change_nothing(&whole, text, NULL);
			outcome_close(&whole);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rounds_mix_as_the_serial_loop_does),
		cmocka_unit_test(worlds_agree_on_rounds),
		cmocka_unit_test(pairs_conserve_the_sum),
		cmocka_unit_test(a_mesh_applies_everything_everywhere),
		cmocka_unit_test(replicas_are_as_stale_as_a_server),
		cmocka_unit_test(figures_are_the_same_however_often_one_evaluates),
		cmocka_unit_test(labels_of_pairs_are_of_all_replicas),
		cmocka_unit_test(a_clean_leave_loses_nothing),
		cmocka_unit_test(stopping_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
