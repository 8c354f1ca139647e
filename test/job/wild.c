/* SPDX-License-Identifier: Apache-2.0 */
/* wild.c - simulated clusters drawn from a seed. */
#include "wild.h"

#include "base/rng.h"
#include "engine/score.h"
#include "job/reading.h"
#include "job/trial.h"
#include "run/placement.h"
#include "spec/job.h"
#include "watcher.h"
#include "world/sim/sim.h"
#include "run/open_engine.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- drawing ---------------------------------------------------------------------------------- */

struct draw {
	uint64_t seed, nth;
	char *out;
	size_t at;
	bool state;    /* the rule must keep one */
	bool update;   /* the rule is chosen */
	uint32_t push; /* the most steps of a contribution */
};

/* A whole number from 0 to below n. */
static uint32_t below(struct draw *d, uint32_t n)
{
	const struct tw_rng rng = tw_rng_make(d->seed, TW_RNG_TEST);

	return (uint32_t)(tw_rng_uniform(&rng, 1, d->nth++) * n) % n;
}

/* One of these, by equal chance. */
#define ONE_OF(d, type, ...)                                                                       \
	((const type[]){                                                                           \
		__VA_ARGS__ }[below(d, sizeof((const type[]){ __VA_ARGS__ }) / sizeof(type))])

static void say(struct draw *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct draw *d, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	d->at += (size_t)vsnprintf(d->out + d->at, WILD_TEXT - d->at, format, args);
	va_end(args);
}

struct shape {
	uint32_t workers, servers, shards;
	uint32_t stages, cells; /* of a model that is cut; 0: it is not */
	uint32_t lanes[4];
	bool with_stage;
	double span; /* seconds in which faults happen */
};

static void worker(struct draw *d, const struct shape *c, char out[32])
{
	const uint32_t k = below(d, c->workers);

	if (c->cells)
		snprintf(out, 32, "worker %u.%u", k, below(d, c->cells));
	else
		snprintf(out, 32, "worker %u", k);
}

/* A node, as sim.faults names it. */
static void node(struct draw *d, const struct shape *c, char out[32])
{
	const uint32_t k = below(d, 1 + c->servers + c->workers);

	if (k == 0)
		snprintf(out, 32, "master");
	else if (k <= c->servers)
		snprintf(out, 32, "server %u", k - 1);
	else
		worker(d, c, out);
}

/* Some of them before the run has begun. */
static double moment(struct draw *d, const struct shape *c)
{
	return (below(d, 5) ? c->span : 0.2) * below(d, 1000) / 1000.0;
}

/* All workers leave at about the time at which they join. */
static void all_leave(struct draw *d, const struct shape *c)
{
	for (uint32_t k = 0; k < c->workers; k++)
		say(d, "%s{leave: worker %u%s, at: %.3fs}", k ? ", " : "", k, c->cells ? ".0" : "",
		    0.3 * below(d, 1000) / 1000.0);
}

static void one_fault(struct draw *d, const struct shape *c)
{
	char a[32], b[32], w[32];
	const double at = moment(d, c), lasts = moment(d, c) / 2 + 0.001;

	node(d, c, a);
	node(d, c, b);
	worker(d, c, w);
	switch (below(d, 19) % 7) {
	case 0:
		say(d, "{crash: %s, at: %.3fs, restart: %.3fs}", a, at, lasts / 2);
		break;
	case 1:
		say(d, "{leave: %s, at: %.3fs}", w, at);
		break;
	case 2:
		say(d, "{slow: %s, factor: %u, at: %.3fs, lasts: %.3fs}", a, 2 + below(d, 40), at,
		    lasts);
		break;
	case 3:
		if (strcmp(a, b) != 0) {
			say(d, "{partition: %s, from: %s, at: %.3fs, lasts: %.3fs}", a,
			    below(d, 6) ? b : "everybody", at, lasts);
			break;
		}
		/* fall through */
	case 4:
		say(d, "{crash: %s, at: %.3fs}", w, at);
		break;
	case 5:
		all_leave(d, c);
		break;
	default: /* the master again and again, and somebody who leaves meanwhile */
		say(d, "{crash: master, at: %.3fs, restart: %.3fs}, ", at, lasts / 8);
		say(d, "{crash: master, at: %.3fs, restart: %.3fs}, ", at + lasts / 7, lasts / 9);
		say(d, "{leave: %s, at: %.3fs}", w, at + lasts / 8 * (below(d, 100) / 50.0));
	}
}

static void faults(struct draw *d, const struct shape *c)
{
	const uint32_t count = below(d, 4);

	if (below(d, 2))
		say(d,
		    "  random: {crashes: %u, partitions: %u, resets: %u, slow: %u, seed: %u, "
		    "span: %.3fs}\n",
		    below(d, 6), below(d, below(d, 4) ? 3 : 20), below(d, 4), below(d, 3),
		    below(d, 1000000), c->span);
	if (!count)
		return;
	say(d, "  faults: [");
	for (uint32_t k = 0; k < count; k++) {
		say(d, "%s", k ? ", " : "");
		one_fault(d, c);
	}
	say(d, "]\n");
}

/* Parts of the parameters in turn; at least two steps each. */
static void stream(struct draw *d, const struct shape *c)
{
	const uint32_t parts = 1 + below(d, c->shards), steps = 2 + below(d, 2);

	d->push = parts * steps;
	say(d,
	    "strategy: {gate: bsp, send: delta, push: %u, fragments: %u, delay: %u, merge: %s, "
	    "outer: {rule: %s}}\n",
	    parts * steps, parts, below(d, steps), ONE_OF(d, char *, "replace", "mix"),
	    ONE_OF(d, char *, "average", "nesterov"));
}

/* What the workers of a delta method do by themselves. */
static void near_rule(struct draw *d)
{
	d->update = true;
	say(d, "update: {rule: %s, rate: %g, decay: %g, clip: %g}\n",
	    ONE_OF(d, char *, "sgd", "momentum", "nag", "adamw", "rmsprop", "adagrad"),
	    ONE_OF(d, double, 0.001, 0.01), ONE_OF(d, double, 0, 0, 0.01),
	    ONE_OF(d, double, 0, 0, 1));
}

/* Rounds: who merges how, and a switch from steps in common to steps alone. */
static void deltas_in_rounds(struct draw *d, const struct shape *c)
{
	const uint32_t push = 1 + below(d, 5);

	near_rule(d);
	if (below(d, 2) && c->workers > 1)
		say(d, "strategy: {gate: backup, extra: %u, abandon: %s, ", below(d, c->workers),
		    ONE_OF(d, char *, "true", "false"));
	else
		say(d, "strategy: {gate: bsp, ");
	say(d, "send: delta, push: %u, ", push);
	if (push > 1 && below(d, 3) == 0)
		say(d, "push_after: %g, ", ONE_OF(d, double, 0.2, 0.5, 1.1));
	say(d, "%s}\n",
	    ONE_OF(d, char *, "outer: {rule: average, rate: 0.7}",
		   "outer: {rule: bmuf, momentum: 0.4, rate: 0.9, nesterov: true}",
		   "outer: {rule: bmuf, momentum: 0.4, nesterov: false}",
		   "outer: {rule: nesterov, rate: 0.7, momentum: 0.5}",
		   "outer: {rule: add, scale: 0.2}",
		   "merge: mix, alpha: 0.3, outer: {rule: average}",
		   "merge: elastic, alpha: 0.1, outer: {rule: add, scale: 1}"));
}

/* No rounds: pushes and fetches of different periods, too. */
static void deltas_at_once(struct draw *d, const struct shape *c)
{
	const uint32_t push = 1 + below(d, 4);

	near_rule(d);
	switch (below(d, 3)) {
	case 0:
		say(d, "strategy: {gate: ssp, lead: %u, ", below(d, 4));
		break;
	case 1:
		say(d, "strategy: {gate: softsync, collect: %u, ", 1 + below(d, c->workers));
		break;
	default:
		say(d, "strategy: {gate: async, ");
	}
	say(d, "send: delta, push: %u, ", push);
	if (below(d, 3) == 0)
		say(d, "fetch: %u, ", push * (1 + below(d, 3)));
	say(d, "%s}\n",
	    ONE_OF(d, char *,
		   "staleness: polynomial, power: 0.5, outer: {rule: average, rate: 0.6}",
		   "outer: {rule: add, scale: 0.3}",
		   "outer: {rule: delayed-nesterov, rate: 0.7, momentum: 0.9}",
		   "outer: {rule: bmuf, momentum: 0.4, rate: 0.4}",
		   "merge: mix, alpha: 0.4, outer: {rule: average, rate: 0.5}",
		   "merge: elastic, alpha: 0.2, outer: {rule: add, scale: 1}"));
}

/* A model that is cut: several workers, or one whose nodes hold the parameters, too. */
static void pipeline(struct draw *d, const struct shape *c)
{
	const char *alone = ONE_OF(d, char *, "name: gpipe", "name: pipedream",
				   "name: pipedream-flush", "name: pipedream-2bw",
				   "gate: async, pipeline: {schedule: pipedream, vertical: true}");

	d->push = 1;
	say(d, "strategy: {%s}\n",
	    c->with_stage
		    ? alone
		    : ONE_OF(d, char *, "name: gpipe", "name: pipedream", "name: pipedream-flush",
			     "gate: async, pipeline: gpipe",
			     "gate: backup, extra: 1, pipeline: 1f1b-flush",
			     "gate: ssp, lead: 1, pipeline: pipedream",
			     "gate: ssp, lead: 0, pipeline: 1f1b-flush",
			     "gate: softsync, collect: 2, pipeline: pipedream",
			     "gate: async, pipeline: {schedule: pipedream, stash: false}, codec: "
			     "{act: int8}"));
}

/* A preset as it is, or with options that change who waits for whom. */
static void strategy(struct draw *d, const struct shape *c)
{
	size_t count = 0;

	if (c->cells) {
		pipeline(d, c);
		return;
	}
	for (const struct tw_preset *p = tw_presets; p->name; p++)
		count += has_servers(p) && !has_optimiser(p) && !has_stages(p);
	d->push = 5;
	switch (below(d, 26)) {
	case 6:
	case 7:
		deltas_in_rounds(d, c);
		return;
	case 8:
	case 9:
		deltas_at_once(d, c);
		return;
	default:
		break;
	}
	switch (below(d, 21)) {
	case 0:
		say(d, "strategy: {name: backup, extra: %u, abandon: %s}\n", below(d, c->workers),
		    ONE_OF(d, char *, "true", "false"));
		return;
	case 1:
		say(d, "strategy: {name: ssp, lead: %u}\n", below(d, 4));
		return;
	case 2:
		say(d, "strategy: {name: softsync, collect: %u}\n", 1 + below(d, c->workers));
		return;
	case 3:
		say(d, "strategy: {name: downpour, push: %u, fetch: %u}\n", 1 + below(d, 3),
		    1 + below(d, 3));
		return;
	case 4:
		say(d, "strategy: {gate: %s, send: delta, push: %u, outer: {rule: %s}}\n",
		    ONE_OF(d, char *, "bsp", "backup", "async", "ssp", "softsync"), 1 + below(d, 4),
		    ONE_OF(d, char *, "average", "add", "bmuf", "nesterov"));
		return;
	case 5:
		say(d,
		    "strategy: {gate: %s, send: delta, push: %u, merge: %s, outer: {rule: add}}\n",
		    ONE_OF(d, char *, "bsp", "async", "ssp"), 1 + below(d, 4),
		    /* springs that are too strong for the workers together diverge */
		    ONE_OF(d, char *, "elastic, elasticity: 0.8", "mix"));
		return;
	case 6:
		say(d,
		    "strategy: {gate: softsync, fresh: true, collect: %u, stop: %s, fetch: %u}\n",
		    1 + below(d, 3 * c->workers), ONE_OF(d, char *, "true", "false"),
		    1 + below(d, 2));
		return;
	case 7:
		say(d, "strategy: {gate: malenia, collect: %u, stop: %s, push: %u}\n",
		    1 + below(d, 3 * c->workers), ONE_OF(d, char *, "true", "false"),
		    1 + below(d, 2));
		return;
	case 8:
		say(d, "strategy: {gate: ringmaster, limit: %u, stop: %s, push: %u, fetch: %u}\n",
		    1 + below(d, 2 * c->workers), ONE_OF(d, char *, "true", "false"),
		    1 + below(d, 2), 1 + below(d, 2));
		return;
	case 9:
		d->state = true;
		say(d,
		    "strategy: {gate: %s, send: delta, push: %u, average_state: true, outer: "
		    "{rule: %s}}\n",
		    ONE_OF(d, char *, "bsp", "backup"), 1 + below(d, 4),
		    ONE_OF(d, char *, "average", "add", "bmuf", "nesterov"));
		return;
	case 10:
		stream(d, c);
		return;
	case 11:
		say(d,
		    "strategy: {gate: %s, send: delta, push: %u, adaptive: true, outer: {rule: "
		    "average}}\n",
		    ONE_OF(d, char *, "async", "ssp", "softsync"), 2 + below(d, 4));
		return;
	default:
		say(d, "strategy: %s\n", trial_preset(TW_WORLD_THREADS, below(d, (uint32_t)count)));
	}
}

static void data(struct draw *d, const struct shape *c)
{
	const uint32_t samples = ONE_OF(d, uint32_t, 48, 64, 100, 256);
	/* rounds of stages need as many as there are lanes */
	const uint32_t accumulate = c->cells ? ONE_OF(d, uint32_t, 1, 4, 4) : below(d, 4) ? 1 : 2;

	if (below(d, 6) == 0)
		say(d, "data: {samples: %u, global_batch: %u, accumulate: %u}\n", samples,
		    c->workers + below(d, 3 * c->workers), accumulate);
	else {
		const uint32_t batch = ONE_OF(d, uint32_t, 1, 3, 8, 16);
		const bool divides =
			d->seed % 3 == 0 && d->push * batch * accumulate * c->workers <= samples;

		say(d, "data: {samples: %u, batch: %u, accumulate: %u%s}\n", samples, batch,
		    accumulate, divides ? ", deal: partition" : "");
	}
}

static bool accepted(const char *text)
{
	static const char *const nothing[] = { NULL };
	struct tw_error why = { 0 };
	struct tw_job *job = NULL;
	const bool yes = tw_job_read_text("wild", text, strlen(text), NULL, 0, nothing,
					  TW_WORLD_SIM, &job, &why) == TW_OK;

	tw_job_free(job);
	return yes;
}

/* Half of them get a codec as well, unless their strategy takes none of this kind. */
static void codec(struct draw *d)
{
	static const char head[] = "strategy: ";
	const char *what =
		ONE_OF(d, char *, "", "", "", "", "", "", "", "", "up: topk, up_share: 0.2",
		       "up: randomk, up_share: 0.3", "up: threshold, up_tau: 0.01",
		       "up: threshold, up_density: 0.1, up_coding: rice",
		       "up: onebit, up_tile: 8, down: int8", "up: dgc, up_share: 0.1",
		       "up: sparseloco, up_keep: 8", "up: int8, down: bf16");
	const char *from = strstr(d->out, head) + strlen(head), *rest = strchr(from, '\n');
	const bool mapping = *from == '{'; /* or a name */
	char with[WILD_TEXT];

	if (!*what)
		return;
	snprintf(with, sizeof with, "%.*s%s%.*s, codec: {%s}}%s", (int)(from - d->out), d->out,
		 mapping ? "" : "{name: ", (int)(rest - from) - mapping, from, what, rest);
	if (accepted(with))
		memcpy(d->out, with, sizeof with);
}

/* One in five has a model that is cut into stages, most of these with lanes. */
static void cut(struct draw *d, struct shape *c)
{
	if (below(d, 5))
		return;
	c->stages = 2 + below(d, 3);
	c->with_stage = below(d, 2);
	c->workers = c->with_stage ? 1 : ONE_OF(d, uint32_t, 1, 2, 2, 3);
	c->servers = c->with_stage ? 0 : c->servers;
	c->shards = c->stages + 1 + below(d, 4);
	for (uint32_t k = 0; k < c->stages; k++) {
		c->lanes[k] = ONE_OF(d, uint32_t, 1, 1, 2, 3);
		c->cells += c->lanes[k];
	}
}

static void cluster(struct draw *d, const struct shape *c)
{
	say(d, "cluster: {workers: %u, shards: %u, ", c->workers, c->shards);
	if (c->with_stage)
		say(d, "place: with-stage, ");
	else
		say(d, "servers: %u, ", c->servers);
	for (uint32_t k = 0; k < c->stages; k++)
		say(d, "%s%u%s", k ? ", " : "lanes: [", c->lanes[k],
		    k + 1 < c->stages ? "" : "], ");
}

static struct shape shape(struct draw *d)
{
	const uint32_t many = 20 + below(d, 300);
	const uint32_t shards = below(d, 50) ? ONE_OF(d, uint32_t, 1, 2, 3, 5, 7) : many;
	struct shape c = { .workers = 1 + below(d, 8),
			   .servers = 1 + below(d, shards < 3 ? shards : 3),
			   .shards = shards,
			   .span = ONE_OF(d, double, 0.6, 2, 8, 30) };

	cut(d, &c);
	return c;
}

/* Drawn apart, so that the rest of a seed's job is what it always was. */
static void evaluations(struct draw *d)
{
	const double every = ONE_OF(d, double, 0, 0.3, 1);
	struct draw apart = { .seed = d->seed + 1000000007 };
	const bool keeps = every > 0 && below(&apart, 2);

	say(d, "evaluate: %g%s}\n", keeps ? ONE_OF(&apart, double, 0.07, 0.3, 1) : every,
	    keeps ? ", keep: best" : "");
}

void wild_describe(uint64_t seed, char out[WILD_TEXT])
{
	struct draw d = { .seed = seed, .out = out };
	const struct shape c = shape(&d);
	const uint32_t least = below(&d, 3) ? 1 : 1 + below(&d, c.workers);

	out[0] = '\0';
	strategy(&d, &c);
	if (!d.update)
		say(&d, "update: {rate: 0.01%s}\n", d.state ? ", rule: adam" : "");
	data(&d, &c);
	say(&d, "model: {quadratic: {dimension: %u, noise: 0.1, buffers: %u%s}}\n",
	    ONE_OF(&d, uint32_t, 8, 13, 50, 200) + c.shards, below(&d, 3) || c.stages ? 0 : 5,
	    c.stages ? ", stages: 5" : "");
	say(&d, "train: {epochs: %g, seed: %u, ", ONE_OF(&d, double, 0.5, 1, 2, 2.7),
	    1 + below(&d, 1000));
	evaluations(&d);
	cluster(&d, &c);
	say(&d, "min: %u, wait: %us, limit: %us, stuck: %us}\n", least,
	    ONE_OF(&d, uint32_t, 5, 30, 60), ONE_OF(&d, uint32_t, 3, 15),
	    ONE_OF(&d, uint32_t, 0, 0, 0, 2));
	say(&d, "checkpoint: {every: %gs, cut: %s}\n", ONE_OF(&d, double, 0, 0.5, 1, 5, 60),
	    c.with_stage ? "drain" : ONE_OF(&d, char *, "drain", "running"));
	say(&d, "sim:\n  compute: {law: %s, mean: 100ms}\n",
	    ONE_OF(&d, char *, "constant", "uniform", "exponential"));
	say(&d, "  latency: %s\n", ONE_OF(&d, char *, "0s", "100us", "5ms", "50ms"));
	say(&d, "  jitter: %s\n", ONE_OF(&d, char *, "0s", "0s", "3ms", "300ms", "4s"));
	say(&d, "  loss: %g\n", ONE_OF(&d, double, 0, 0, 0.1, 0.5));
	say(&d, "  save_time: %s\n", ONE_OF(&d, char *, "0s", "20ms", "300ms", "2s"));
	say(&d, "  load_time: %s\n", ONE_OF(&d, char *, "0s", "25ms", "300ms", "1s"));
	say(&d, "  local: %s\n", ONE_OF(&d, char *, "0s", "2ms", "60ms"));
	say(&d, "  bandwidth: %s\n",
	    ONE_OF(&d, char *, "0bit/s", "10Gbit/s", "1Mbit/s", "100kbit/s"));
	say(&d, "  apply_rate: %s\n", ONE_OF(&d, char *, "0", "1e6", "100"));
	faults(&d, &c);
	codec(&d);
}

/* --- running ---------------------------------------------------------------------------------- */

static void log_line(void *arg, enum tw_level level, const char *who, const char *line)
{
	(void)arg, (void)level;
	fprintf(stderr, "%s: %s\n", who, line);
}

/* What everybody hears, for the one who reads a failure. */

static const struct tw_actor_class *const classes[TW_ROLES] = {
	[TW_MASTER] = &tw_master_class,
	[TW_SERVER] = &tw_server_class,
	[TW_SHARD] = &tw_shard_class,
	[TW_WORKER] = &tw_worker_class,
};

static void hear(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	fprintf(stderr,
		"%.4f node %u.%u (role %u, index %u) hears %s from node %u: slot %u.%x view %llx "
		"seq %llu flags %x\n",
		(double)tw_now(ctx) / 1e9, ctx->self.node, ctx->boot, ctx->self.role,
		ctx->self.index, tw_type_name(m->h.type), m->from.node, m->h.from, m->h.incarnation,
		(unsigned long long)m->h.view, (unsigned long long)m->h.seq, m->h.flags);
	classes[ctx->self.role]->message(a, ctx, m);
}

static void up(struct tw_actor *a, struct tw_context *ctx, uint32_t node, uint32_t boot)
{
	fprintf(stderr, "%.4f node %u.%u (role %u, index %u): node %u.%u is up\n",
		(double)tw_now(ctx) / 1e9, ctx->self.node, ctx->boot, ctx->self.role,
		ctx->self.index, node, boot);
	classes[ctx->self.role]->up(a, ctx, node, boot);
}

static void listen(const struct tw_placement *cast, struct tw_actor_class loud[TW_ROLES])
{
	for (int r = 0; r < TW_ROLES; r++) {
		loud[r] = *classes[r];
		loud[r].message = hear;
		if (loud[r].up)
			loud[r].up = up;
	}
	for (size_t k = 0; k < cast->seats; k++)
		cast->seat[k].class = &loud[cast->seat[k].addr.role];
}

/* Somebody may go for good, or stay away for so long that the run may stop and wait for better
 * times: then it may end as interrupted. */
static bool may_stop(const struct tw_job *job)
{
	const struct tw_plan *p = &job->plan;

	if (job->sim.random_crashes || job->sim.random_partitions || p->crew.min > 1 ||
	    p->crew.stuck)
		return true;
	for (size_t k = 0; k < job->faults; k++) {
		const struct tw_fault *f = &job->fault[k];

		if (f->kind == TW_FAULT_LEAVE || (f->kind == TW_FAULT_CRASH && f->lasts < 0) ||
		    f->lasts + 2 * p->crew.limit >= p->crew.wait)
			return true;
	}
	/* messages that take as long as somebody is waited for */
	return job->sim.jitter >= TW_SECOND || job->sim.bandwidth == 1e5;
}

static struct tw_job *read_wild(const char *text, struct tw_engine **engine, struct tw_error *why)
{
	static const char *const nothing[] = { NULL };
	struct tw_job *job = NULL;

	if (tw_job_read_text("wild", text, strlen(text), NULL, 0, nothing, TW_WORLD_SIM, &job,
			     why) == TW_OK &&
	    tw_job_open_engine(job, &tw_heap_system, engine, why) == TW_OK &&
	    tw_job_finish_plan(job, *engine, why) == TW_OK)
		return job;
	if (*engine)
		(*engine)->class->close(*engine);
	tw_job_free(job);
	return NULL;
}

/* May all workers go without a word, before they have joined? */
static bool may_vanish(const struct tw_job *job)
{
	for (size_t k = 0; k < job->faults; k++)
		if (job->fault[k].kind == TW_FAULT_CRASH && job->fault[k].lasts < 0)
			return true;
	return job->sim.random_crashes;
}

/* Everybody but one may be gone, steps and messages may be slow, and each fault costs time: the
 * work of the run by one worker, and what one may wait for whom. */
static int64_t longest(const struct tw_job *job)
{
	const struct tw_plan *p = &job->plan;
	const struct tw_sim_options *s = &job->sim;
	const double bytes = 4.0 * (double)(p->problem.trainable + p->problem.buffers) +
			     400.0 * p->problem.shards;
	const double send = s->bandwidth > 0 ? 8.0 * bytes * p->crew.workers / s->bandwidth : 0.0;
	const double apply =
		s->apply_rate > 0 ? (double)p->problem.trainable * p->crew.workers / s->apply_rate
				  : 0;
	const double way = (double)(s->latency + s->jitter + s->local) / 1e9 +
			   /* the unluckiest of a message to each shard */
			   (double)s->retransmit / 1e9 * s->loss / (1.0 - s->loss) *
				   (1.0 + 0.5 * p->problem.shards);
	/* in rounds each step may be followed by a checkpoint, for which all shards send a part */
	const double parts =
		s->bandwidth > 0 ? 8.0 * (10.0 * bytes + 1500.0 * p->problem.shards) / s->bandwidth
				 : 0.0;
	const double cut = p->checkpoint.drain && p->checkpoint.every
				   ? (double)s->save_time / 1e9 + 0.2 + parts
				   : 0.0;
	/* where the model is cut, a batch passes all its stages, there and back */
	const uint32_t cells = tw_plan_cells(p);
	const double step = (0.5 + cut + 2 * send + apply + 4 * way) * cells;
	const double steps =
		(double)p->dealing.positions / (p->dealing.batch ? p->dealing.batch : 1) + 20;
	const double faults = (double)(s->random_crashes + s->random_partitions + s->random_resets +
				       s->random_slow + job->faults + 2);
	const double wait = (double)(p->crew.wait + 2 * p->crew.limit + s->fault_span) / 1e9;

	return (int64_t)(2.0 * (steps * step + faults * (wait + 20 * step)) * 1e9);
}

/* Scored by hand, the result is as good as it says; if nothing went wrong, it is the best. */
static void judge_best(struct watcher *w, const struct tw_job *job, const struct tw_engine *e,
		       const struct tw_totals *t)
{
	const struct tw_problem *p = &job->plan.problem;
	const bool calm = !job->faults && !job->sim.random_crashes && !job->sim.random_partitions &&
			  !job->sim.random_resets && !job->plan.crew.stuck;
	struct tw_score score;
	float *vector;
	void *scratch;

	if (!job->plan.keeping.best || !t->vector)
		return;
	vector = malloc((e->trainable + e->buffers) * sizeof *vector);
	scratch = malloc(e->scratch_bytes + 1);
	if (!vector || !scratch)
		abort();
	for (uint32_t s = 0; s < p->shards; s++)
		memcpy(vector + p->border[s], t->vector[s]->data,
		       (p->border[s + 1] - p->border[s]) * sizeof *vector);
	if (tw_score_all(e, vector, scratch, &score) != TW_OK ||
	    fabs(score.loss / score.samples - t->loss) > 1e-6 * fabs(t->loss))
		watcher_complain(w, "the result has loss %.9g, the run says %.9g",
				 score.loss / score.samples, t->loss);
	if (calm && t->loss > watcher_least(w))
		watcher_complain(w, "the result has loss %.9g, and an evaluation had %.9g", t->loss,
				 watcher_least(w));
	free(vector);
	free(scratch);
}

const char *wild_run(const char *text, bool loud, struct wild_end *end)
{
	static char said[400];
	const struct tw_log log = { loud ? log_line : NULL, NULL, TW_DEBUG };
	struct tw_ran ran = { 0 };
	struct tw_error why = { 0 };
	struct tw_engine *engine = NULL;
	struct tw_job *job = read_wild(text, &engine, &why);
	struct tw_sim_options sim;
	struct tw_placement cast = { 0 };
	struct tw_cluster c;
	struct tw_actor_class heard[TW_ROLES];
	struct watcher *w;
	bool right;

	*end = (struct wild_end){ .status = TW_BAD_INPUT };
	if (!job) {
		snprintf(said, sizeof said, "no run: %.350s", why.text);
		return said;
	}
	if (tw_placement_init(&cast, &job->plan, false) != TW_OK)
		abort();
	if (loud)
		listen(&cast, heard);
	w = watcher_new(&job->plan, loud);
	sim = job->sim;
	sim.threads = 1;
	c = (struct tw_cluster){ .seat = cast.seat,
				 .seats = cast.seats,
				 .nodes = tw_placement_nodes(&job->plan),
				 .cells = tw_plan_cells(&job->plan),
				 .seed = job->plan.seed,
				 .engine = engine,
				 .store = watcher_store(w),
				 .heap = &tw_heap_system,
				 .log = &log,
				 .observer = watcher_note,
				 .observer_arg = w };
	tw_sim_run(&c, &sim, job->fault, job->faults, NULL, longest(job), &ran);
	*end = (struct wild_end){ .status = ran.error.status != TW_OK ? ran.error.status
								      : ran.totals.status,
				  .events = ran.events,
				  .virtual_ns = ran.virtual_ns };
	if (end->status == TW_OK) {
		watcher_judge(w, &ran.totals);
		judge_best(w, job, engine, &ran.totals);
	} else if (!may_stop(job) ||
		   /* the first master waits for its first worker as long as it takes */
		   (end->status != TW_INTERRUPTED && (watcher_saw_worker(w) || !may_vanish(job))))
		watcher_complain(w, "it ended as %s at %.3f s: %.200s", tw_status_name(end->status),
				 (double)end->virtual_ns / 1e9, ran.error.text);
	right = !watcher_wrong(w);
	if (!right)
		snprintf(said, sizeof said, "%s: %s", job->title, watcher_wrong(w));
	watcher_free(w);
	tw_totals_release(&ran.totals);
	tw_placement_release(&cast);
	engine->class->close(engine);
	tw_job_free(job);
	return right ? NULL : said;
}

unsigned long wild_seeds(uint64_t first, uint64_t count)
{
	unsigned long failures = 0, interrupted = 0, refused = 0;
	uint64_t events = 0;

	for (uint64_t seed = first; seed < first + count && failures < 20; seed++) {
		char text[WILD_TEXT];
		struct wild_end end;
		const char *wrong;

		wild_describe(seed, text);
		wrong = wild_run(text, false, &end);
		events += end.events;
		interrupted += end.status == TW_INTERRUPTED;
		refused += end.status == TW_BAD_INPUT;
		if (!wrong || end.status == TW_BAD_INPUT)
			continue;
		failures++;
		fprintf(stderr, "FAILED %s\n  replay: build/test/job_test_full_wild --seed %llu\n",
			wrong, (unsigned long long)seed);
	}
	printf("%llu clusters, %lu interrupted, %lu jobs refused, %llu events\n",
	       (unsigned long long)count, interrupted, refused, (unsigned long long)events);
	/* a job whose fields do not go together tests nothing: they must stay few */
	if (refused * 4 > count) {
		fprintf(stderr, "FAILED: %lu of %llu jobs were refused\n", refused,
			(unsigned long long)count);
		failures++;
	}
	return failures;
}
