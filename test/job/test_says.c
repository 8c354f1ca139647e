/* SPDX-License-Identifier: Apache-2.0 */
/* test_says.c - the table of message kinds and the actors agree: what a run says the table allows,
 * and what the table forbids no actor obeys.
 *
 * Runs of every preset are watched through the actors' own handlers.  Before each genuine message
 * its receiver is given copies of it that say to come from actors of other roles.  An actor that
 * obeyed one of them would ask its world for something, which is noticed, or do something twice or
 * early, and the run would have other parameters than the run that nobody disturbed. */
#include "checkpoint/digest.h"
#include "job/reading.h"
#include "job/trial.h"
#include "node/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const struct tw_actor_class *const classes[TW_ROLES] = {
	[TW_MASTER] = &tw_master_class,
	[TW_SERVER] = &tw_server_class,
	[TW_SHARD] = &tw_shard_class,
	[TW_WORKER] = &tw_worker_class,
};

#define SERVERS 2

static bool forging;
static uint64_t said[TW_TYPES], forged[TW_TYPES][TW_ROLES];
static size_t slice_most, part_most;

static void check(const struct tw_context *ctx, const struct tw_msg *m)
{
	said[m->h.type]++;
	if (!tw_hears(ctx, m))
		fail_msg("%s from role %u to role %u is forbidden, and said",
			 tw_type_name(m->h.type), m->from.role, ctx->self.role);
	if (m->h.payload > tw_payload_most(m->h.type, slice_most, part_most))
		fail_msg("%s has a payload of %u bytes", tw_type_name(m->h.type), m->h.payload);
}

/* The first thing that an actor which obeys asks for: a message, a timer, a note, ... */

static struct tw_msg *no_message(struct tw_context *ctx)
{
	fail_msg("role %u obeyed a forged message", ctx->self.role);
	return NULL;
}

static void no_timer(struct tw_context *ctx, uint32_t timer, int64_t after)
{
	fail_msg("role %u obeyed a forged message and set timer %u", ctx->self.role, timer);
}

static void no_finish(struct tw_context *ctx, enum tw_status status, struct tw_totals *totals)
{
	fail_msg("role %u obeyed a forged message and ended", ctx->self.role);
}

static void disobeys(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	const struct tw_world *world = ctx->world;
	struct tw_world deaf = *world;

	deaf.msg_new = no_message;
	deaf.timer = no_timer;
	deaf.finish = no_finish;
	ctx->world = &deaf;
	classes[ctx->self.role]->message(a, ctx, m);
	ctx->world = world;
}

/* As if it came from another actor of the same node, of the receiver's own, of a server's or of a
 * worker's. */
static void forge(struct tw_actor *a, struct tw_context *ctx, const struct tw_msg *m)
{
	const uint32_t node[] = { m->from.node, ctx->self.node, 1, SERVERS + 1 };

	for (uint32_t k = 0; k < 4 * TW_ROLES; k++) {
		struct tw_msg copy = *m;

		copy.from.role = (uint16_t)(k % TW_ROLES);
		copy.from.node = node[k / TW_ROLES];
		copy.from.index = copy.from.role == TW_SHARD ? (uint16_t)m->h.shard : 0;
		if (tw_may_say(m->h.type, copy.from.role, ctx->self.role,
			       copy.from.node == ctx->self.node))
			continue;
		forged[m->h.type][copy.from.role]++;
		disobeys(a, ctx, &copy);
	}
}

static void hear(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	check(ctx, m);
	if (forging)
		forge(a, ctx, m);
	classes[ctx->self.role]->message(a, ctx, m);
}

static const char gradients[] = "model: {quadratic: {dimension: 21, noise: 0.3, buffers: 3}}\n"
				"data: {source: none, samples: 60, batch: 3}\n"
				"update: {rate: 0.02}\n",
		  fetched[] = "model: {quadratic: {dimension: 21}}\n"
			      "data: {source: none, samples: 60, batch: 3, placement: on-demand}\n"
			      "update: {rate: 0.02}\n",
		  staged[] = "model: {quadratic: {dimension: 21, noise: 0.3, stages: 2}}\n"
			     "data: {source: none, samples: 60, batch: 3}\n"
			     "update: {rate: 0.02}\n",
		  optimised[] = "model: {quadratic: {dimension: 21}}\n"
				"data: {source: none, samples: 60, batch: 3}\n";

static bool on_demand;

static void run(const char *strategy, int servers, const char *more, bool disturbed,
		char out[TW_DIGEST_TEXT])
{
	struct tw_actor_class watched[TW_ROLES];
	const struct tw_plan *p;
	struct trial t;
	struct tw_ran ran;

	trial_open(&t, TW_WORLD_SIM,
		   "%s"
		   "train: {epochs: %d, seed: 5, evaluate: 0.5}\n"
		   "cluster: {workers: 4, shards: 3, servers: %d}\nstrategy: %s\n"
		   "checkpoint: {every: 300ms}\n"
		   "sim: {compute: {law: exponential, mean: 20ms}, latency: 1ms%s}\n",
		   on_demand                  ? fetched
		   : *strategy == '"'         ? optimised
		   : strstr(strategy, "pipe") ? staged
					      : gradients,
		   *strategy == '"' ? 6 : 2, servers, strategy, more);
	p = &t.job->plan;
	slice_most = (size_t)24 * 8 + 64; /* whatever the codec: 24 floats, and what it adds */
	part_most = 1u << 20;
	for (int r = 0; r < TW_ROLES; r++) {
		watched[r] = *classes[r];
		watched[r].message = hear;
	}
	for (size_t k = 0; k < t.cast.seats; k++)
		t.cast.seat[k].class = &watched[t.cast.seat[k].addr.role];
	forging = disturbed;
	if (trial_run(&t, &tw_heap_system, NULL, &ran) != TW_OK)
		fail_msg("%s: %s", strategy, ran.error.text);
	assert_int_equal(tw_digest_floats(ran.totals.vector, p->problem.border, p->problem.shards,
					  0, p->problem.trainable, NULL, out),
			 TW_OK);
	tw_totals_release(&ran.totals);
	trial_close(&t);
}

static void obeys_nobody(const char *strategy, int servers, const char *fault)
{
	char still[TW_DIGEST_TEXT], disturbed[TW_DIGEST_TEXT];

	run(strategy, servers, fault, false, still);
	run(strategy, servers, fault, true, disturbed);
	if (strcmp(still, disturbed) != 0)
		fail_msg("%s%s: somebody obeyed a forged message", strategy, fault);
}

static void what_is_said_is_allowed_and_what_is_forbidden_ignored(void **state)
{
	static const char *const faults[] = {
		"", ", faults: [{crash: server 1, at: 150ms, restart: 100ms}]",
		", faults: [{crash: worker 2, at: 150ms, restart: 100ms}]",
		", faults: [{crash: master, at: 150ms, restart: 100ms}]",
		", faults: [{leave: worker 2, at: 150ms}]"
	};
	const char *name;

	(void)state;
	for (size_t k = 0; (name = trial_preset(TW_WORLD_SIM, k)); k++) {
		obeys_nobody(name, SERVERS, faults[0]);
		obeys_nobody(name, SERVERS, faults[1 + k % 4]);
	}
	for (const struct tw_preset *p = tw_presets; p->name; p++)
		for (size_t f = 0; f < 5 && !has_servers(p); f++)
			if (f != 1)
				obeys_nobody(p->name, 0, faults[f]);
	for (const struct tw_preset *p = tw_presets; p->name; p++)
		for (size_t f = 0; f < 5 && has_optimiser(p); f++) {
			char quoted[60];

			snprintf(quoted, sizeof quoted, "\"%s\"", p->name);
			obeys_nobody(quoted, SERVERS, faults[f]);
		}
	for (size_t f = 0; f < 4; f++) {
		obeys_nobody("gpipe", SERVERS, faults[f]);
		obeys_nobody("pipedream", SERVERS, faults[f]);
	}
	on_demand = true;
	for (size_t f = 0; f < 5; f++)
		obeys_nobody("asgd", SERVERS, faults[f]);
	on_demand = false;
	/* these two are rare */
	for (uint16_t t = TW_HELLO; t < TW_GREET; t++) {
		uint64_t forgeries = 0;

		for (uint32_t r = 0; r < TW_ROLES; r++)
			forgeries += forged[t][r];
		if ((!said[t] || !forgeries) && t != TW_REFUSE && t != TW_UNCHANGED)
			fail_msg("%s was never said, or never forged", tw_type_name(t));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_said_is_allowed_and_what_is_forbidden_ignored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
