/* SPDX-License-Identifier: Apache-2.0 */
/* test_curves.c - the label of an evaluation is what the pinned views have, whoever counts.
 *
 * The applied samples of each shard are counted here from its notes, up to the moment at which it
 * says that it keeps a view; the view itself is compared with the parameters that its next update
 * begins with. */
#include "job/trial.h"

#include "node/checkpoint_part.h"
#include "world/memory_store.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define SHARDS 8
#define NODES  8
#define WIDTH  64
#define CURVE  400

/* --- a run, watched ------------------------------------------------------------------------- */

struct point {
	double samples, steps, updates, loss;
	int64_t at;
	uint64_t bytes;
	bool final;
};

#define KEPT 32 /* views that a shard may keep at a time, and more */

/* What a shard had when it said that it keeps a view. */
struct kept {
	uint64_t pin, samples, updates, commits;
	bool viewed, next; /* `view` was sent; `after` is what the next update began with */
	float view[WIDTH], after[WIDTH];
	size_t width; /* of after: without buffers */
};

/* One shard on one node, as its notes and its messages tell. */
struct counted {
	uint64_t samples, updates, commits; /* applied so far */
	struct kept kept[KEPT];             /* by count % KEPT */
	size_t count;
};

struct curve {
	const struct tw_plan *plan;
	struct counted shard[SHARDS][NODES];
	struct tw_tally base; /* of the cut that a shard is taken from */
	struct point point[CURVE];
	size_t points, rollbacks, back, cuts;
	size_t views;     /* kept, and compared with what came after them */
	bool rolled_back; /* since the last evaluation */
	int64_t pinned;
	uint64_t bytes;
	/* when a worker was first told that nothing is left */
	bool dealt, dry;
	int64_t began, end;
	double steady;
	/* every other PIN to shard 1 is lost, until its connection is made anew */
	bool loses;
	size_t lost, pins; /* pins: that shard 0 kept a view for */
	char wrong[300];
};

static struct curve *now;
static _Thread_local uint32_t node; /* whose handler runs */

/* Handlers run on threads of their own, where a test must not fail: it does so afterwards. */
static void complain(struct curve *c, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void complain(struct curve *c, const char *format, ...)
{
	va_list args;

	if (c->wrong[0])
		return;
	va_start(args, format);
	vsnprintf(c->wrong, sizeof c->wrong, format, args);
	va_end(args);
}

/* The view that was kept, and what the next update began with: whichever is known first. */
static void compare(struct curve *c, const struct kept *h)
{
	if (!h->viewed || !h->next)
		return;
	c->views++;
	if (memcmp(h->view, h->after, h->width * sizeof(float)))
		complain(c, "a shard showed another view than the one it kept");
}

static struct kept *kept_as(struct counted *h, uint64_t pin)
{
	for (size_t k = 0; k < KEPT; k++)
		if (h->kept[k].pin == pin)
			return &h->kept[k];
	return NULL;
}

static const struct kept *pinned_by(struct curve *c, uint32_t shard, uint64_t pin)
{
	const struct kept *k = NULL;

	for (uint32_t n = 0; n < NODES && !k; n++)
		k = kept_as(&c->shard[shard][n], pin);
	return k;
}

static void complete(struct curve *c, const struct tw_note *n)
{
	const struct kept *first = pinned_by(c, 0, n->eval.pin);
	const struct tw_point *l = &n->eval.point;
	struct point *p = &c->point[c->points];
	double samples = 0, updates = 0;

	for (uint32_t s = 0; s < c->plan->problem.shards; s++) {
		const struct kept *h = pinned_by(c, s, n->eval.pin);

		if (!h || !first || c->points == CURVE) {
			complain(c, "shard %u keeps no view, or there are too many", s);
			return;
		}
		samples += (double)h->samples;
		updates += (double)h->updates;
		if (h->commits != first->commits)
			complain(c, "shards 0 and %u keep rounds %llu and %llu", s,
				 (unsigned long long)first->commits,
				 (unsigned long long)h->commits);
	}
	*p = (struct point){ l->samples, l->steps, l->updates,   n->eval.loss,
			     c->pinned,  c->bytes, n->eval.final };
	if (p->samples != samples / c->plan->problem.shards ||
	    p->updates != updates / c->plan->problem.shards)
		complain(c, "the label says %g samples and %g updates, the views have %g and %g",
			 p->samples, p->updates, samples / c->plan->problem.shards,
			 updates / c->plan->problem.shards);
	if (c->points && p->samples < p[-1].samples) {
		if (!c->rolled_back)
			complain(c, "the label goes back from %g to %g without a rollback",
				 p[-1].samples, p->samples);
		c->back++;
	}
	c->rolled_back = false;
	c->points++;
}

static void note_of_shard(struct curve *c, struct counted *h, const struct tw_note *n)
{
	switch (n->kind) {
	case TW_NOTE_APPLY:
		for (size_t k = 0; k < KEPT && n->apply.before; k++) {
			struct kept *v = &h->kept[k];

			if (!v->pin || v->next)
				continue;
			memcpy(v->after, n->apply.before, n->apply.n * sizeof(float));
			v->width = n->apply.n;
			v->next = true;
			compare(c, v);
		}
		h->samples += n->count;
		break;
	case TW_NOTE_UPDATE:
		h->updates++;
		break;
	case TW_NOTE_COMMIT:
		h->commits = n->round + 1;
		break;
	case TW_NOTE_HOSTED:
		*h = (struct counted){ .samples = n->hosted.cut ? c->base.samples : 0,
				       .updates = n->hosted.cut ? c->base.updates : 0 };
		break;
	default:
		break;
	}
}

static bool observe(void *arg, const struct tw_note *n)
{
	struct curve *c = arg;

	switch (n->kind) {
	case TW_NOTE_APPLY:
	case TW_NOTE_UPDATE:
	case TW_NOTE_COMMIT:
	case TW_NOTE_HOSTED:
		note_of_shard(c, &c->shard[n->shard][node], n);
		break;
	case TW_NOTE_PINNED:
		c->pinned = n->at;
		c->bytes = n->bytes;
		break;
	case TW_NOTE_EVAL:
		complete(c, n);
		break;
	case TW_NOTE_ROLLBACK:
		c->rolled_back = true;
		c->rollbacks++;
		break;
	case TW_NOTE_CUT:
		c->cuts++;
		break;
	case TW_NOTE_DEAL:
		if (!c->dealt)
			c->began = n->at;
		c->dealt = true;
		break;
	default:
		break;
	}
	return true;
}

/* What shards and the master say, at the moment they say it. */
static const struct tw_world *real;

static void shard_says(const struct tw_context *ctx, const struct tw_msg *m)
{
	struct counted *h = &now->shard[ctx->self.index][ctx->self.node];
	struct kept *v;

	if (m->h.type == TW_PIN && m->b.pin.what == TW_PIN_KEEP && !kept_as(h, m->b.pin.pin)) {
		now->pins += ctx->self.index == 0;
		h->kept[h->count++ % KEPT] = (struct kept){ .pin = m->b.pin.pin,
							    .samples = h->samples,
							    .updates = h->updates,
							    .commits = h->commits };
	}
	v = m->h.type == TW_PARAMS && m->b.params.pin ? kept_as(h, m->b.params.pin) : NULL;
	if (v && !v->viewed) {
		memcpy(v->view, tw_msg_payload(m),
		       m->h.payload < sizeof v->view ? m->h.payload : sizeof v->view);
		v->viewed = true;
		compare(now, v);
	}
}

static void overhear(struct tw_context *ctx, struct tw_msg *m)
{
	if (ctx->self.role == TW_SHARD)
		shard_says(ctx, m);
	if (ctx->self.role == TW_MASTER && m->h.type == TW_PIN && m->b.pin.what == TW_PIN_KEEP &&
	    m->to.index == 1 && now->loses && tw_now(ctx) < 4 * TW_SECOND && now->lost++ % 2 == 0) {
		real->msg_free(ctx, m);
		return;
	}
	if (ctx->self.role == TW_MASTER && m->h.type == TW_LEASE && !m->b.lease.range.count &&
	    !now->dry) {
		now->dry = true;
		now->end = tw_now(ctx);
		for (uint32_t s = 0; s < now->plan->problem.shards; s++)
			for (uint32_t n = 0; n < NODES; n++)
				now->steady += (double)now->shard[s][n].samples /
					       now->plan->problem.shards;
	}
	real->send(ctx, m);
}

/* What a shard had done when the cut was made. */
static void read_base(const struct tw_msg *m)
{
	struct tw_shard_part numbers;
	const struct tw_array *a;
	struct tw_array *list;
	size_t count;

	assert_int_equal(
		tw_part_unpack(tw_msg_payload(m), m->h.payload, &tw_heap_system, &list, &count),
		TW_OK);
	a = tw_part_find(list, count, TW_SHARD_PART);
	assert_true(a && a->n == sizeof numbers);
	memcpy(&numbers, a->at, sizeof numbers);
	now->base = numbers.tally;
	tw_heap_system.put(&tw_heap_system, list);
}

static void listen(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct tw_world heard = *ctx->world;

	real = ctx->world;
	heard.send = overhear;
	ctx->world = &heard;
	node = ctx->self.node;
	if (ctx->self.role == TW_SHARD && m->h.type == TW_HOST && m->payload)
		read_base(m);
	(ctx->self.role == TW_SHARD ? &tw_shard_class : &tw_master_class)->message(a, ctx, m);
	ctx->world = real;
}

/* A trial whose shards and master are listened to; the curve goes on if it has begun. */
static void curve_watch(struct trial *t, struct curve *c)
{
	static struct tw_actor_class shard, master;

	c->plan = &t->job->plan;
	now = c;
	shard = tw_shard_class;
	master = tw_master_class;
	shard.message = master.message = listen;
	for (size_t k = 0; k < t->cast.seats; k++)
		if (t->cast.seat[k].class == &tw_shard_class)
			t->cast.seat[k].class = &shard;
		else if (t->cast.seat[k].class == &tw_master_class)
			t->cast.seat[k].class = &master;
	t->observer = observe;
	t->observer_arg = c;
	t->job->plan.gaps = true;
}

/* Run it, and say what was wrong. */
static enum tw_status curve_run(struct trial *t, struct curve *c, struct tw_store *store,
				struct tw_ran *ran)
{
	const enum tw_status st = trial_run(t, &tw_heap_system, store, ran);

	if (c->wrong[0])
		fail_msg("%s, seed %llu: %s", t->job->title,
			 (unsigned long long)t->job->sim.fault_seed, c->wrong);
	if (st != TW_OK && st != TW_INTERRUPTED)
		fail_msg("%s, seed %llu: %s", t->job->title,
			 (unsigned long long)t->job->sim.fault_seed, ran->error.text);
	return st;
}

/* Run the job from beginning to end. */
static void curve_of(struct curve *c, struct tw_ran *ran, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static void curve_of(struct curve *c, struct tw_ran *ran, const char *format, ...)
{
	struct tw_ran own;
	struct trial t;
	char text[2000];
	va_list args;

	va_start(args, format);
	assert_true(vsnprintf(text, sizeof text, format, args) < (int)sizeof text);
	va_end(args);
	if (!ran)
		ran = &own;
	trial_open(&t, TW_WORLD_SIM, "%s", text);
	memset(c, 0, sizeof *c);
	curve_watch(&t, c);
	assert_int_equal(curve_run(&t, c, NULL, ran), TW_OK);
	assert_true(c->points > 0);
	assert_true(c->point[c->points - 1].final != ran->totals.goal.reached);
	if (!ran->totals.goal.reached)
		assert_true(ran->totals.applied == c->point[c->points - 1].samples);
	tw_totals_release(&ran->totals);
	trial_close(&t);
}

static bool same_points(const struct curve *a, const struct curve *b)
{
	for (size_t k = 0; k < a->points && a->points == b->points; k++) {
		const struct point *x = &a->point[k], *y = &b->point[k];

		if (x->samples != y->samples || x->steps != y->steps || x->updates != y->updates ||
		    x->loss != y->loss)
			return false;
	}
	return a->points == b->points;
}

#define LINK "latency: 4ms, jitter: 9ms"

/* --- labels --------------------------------------------------------------------------------- */

static void labels_are_what_the_views_have(void **state)
{
	static const char *const presets[] = { "ssgd", "asgd",    "downpour", "softsync",
					       "ssp",  "dc-asgd", "dana",     "gap-aware" };
	static const uint32_t batches[] = { 1, 3, 8 }, workers[] = { 1, 4, 32 };
	size_t views = 0;

	for (size_t p = 0; p < 8; p++)
		for (size_t b = 0; b < 3; b++)
			for (size_t w = 0; w < 3; w++) {
				static struct curve c;

				curve_of(&c, NULL,
					 "model: {quadratic: {dimension: 21, noise: 0.3, buffers: "
					 "2}}\n"
					 "data: {source: none, samples: 230, batch: %u}\n"
					 "train: {epochs: 3, evaluate: 0.3, seed: %zu}\n"
					 "update: {rate: 0.002}\n"
					 "cluster: {workers: %u, shards: 3, servers: 2}\n"
					 "strategy: %s\n"
					 "sim: {compute: {law: exponential, mean: 100ms}, " LINK
					 "}\n",
					 batches[b], p + b + w, workers[w], presets[p]);
				views += c.views;
				/* there are nine before the end, unless what is applied at once,
				 * or nearly so, is more than an interval */
				if (c.points > 10 ||
				    c.points < (workers[w] * batches[b] < 60 ? 10 : 3))
					fail_msg("%s, %u x %u: %zu evaluations", presets[p],
						 workers[w], batches[b], c.points);
				for (size_t k = 0; k + 1 < c.points; k++)
					if (c.point[k].samples >= c.point[k + 1].samples &&
					    workers[w] == 1)
						fail_msg("%s: two evaluations at %g", presets[p],
							 c.point[k].samples);
			}
	assert_true(views > 1000);
}

/* backup drops, so that more is dealt than applied. */
static void labels_of_rounds_that_drop(void **state)
{
	static struct curve c;
	struct tw_ran ran;

	curve_of(&c, &ran,
		 "model: {quadratic: {dimension: 21, noise: 0.3}}\n"
		 "data: {source: none, samples: 240, batch: 2}\n"
		 "train: {epochs: 4, evaluate: 0.3}\nupdate: {rate: 0.002}\n"
		 "cluster: {workers: 6, shards: 3}\nstrategy: {name: backup, extra: 2}\n"
		 "sim: {compute: {law: exponential, mean: 100ms}, " LINK "}\n");
	assert_true(ran.totals.dropped > 0);
	assert_true(c.point[c.points - 1].samples + (double)ran.totals.dropped == 960);
	assert_true(c.points >= 8);
}

static const char alone_job[] = "model: {quadratic: {dimension: 21, noise: 0.3}}\n"
				"data: {source: none, samples: 200, batch: 8}\n"
				"train: {epochs: 5, evaluate: 0.3, seed: 4}\nupdate: {rate: 0.01}\n"
				"cluster: {workers: 1, shards: 3, servers: 2}\nstrategy: %s\n"
				"sim: {compute: {law: exponential, mean: 10ms}, %s}\n";

static void alone(struct curve *c, const char *strategy, const char *link)
{
	curve_of(c, NULL, alone_job, strategy, link);
}

/* Whatever the gate deals ahead, and whatever the links do: equal labels, equal losses. */
static void one_worker_has_one_curve(void **state)
{
	static const char *const others[] = { "asgd", "ssp", "{name: softsync, collect: 1}" };
	static const char *const links[] = { "latency: 0s", LINK,
					     "latency: 20ms, jitter: 30ms, bandwidth: 1Mbit/s" };
	static struct curve a, b;

	alone(&a, "ssgd", links[0]);
	assert_int_equal(a.points, 17); /* 16 before the fifth epoch ends, and the end */
	for (size_t k = 0; k < 3; k++)
		for (size_t l = 0; l < 3; l++) {
			alone(&b, l == 2 && k == 2 ? "ssgd" : others[k], links[l]);
			if (!same_points(&a, &b))
				fail_msg("%s, %s: another curve than ssgd", others[k], links[l]);
		}
}

/* ceil(k * evaluate * samples), whatever doubles make of it. */
static void evaluations_are_due_to_the_sample(void **state)
{
	static const char *const every[] = { "0.55", "0.1", "0.07", "0.333" };
	static const uint32_t first[] = { 55, 10, 7, 34 }, third[] = { 165, 30, 21, 100 };
	static struct curve c;

	for (size_t k = 0; k < 4; k++) {
		curve_of(&c, NULL,
			 "model: {quadratic: {dimension: 5}}\n"
			 "data: {source: none, samples: 100, batch: 1}\n"
			 "train: {epochs: 2, evaluate: %s}\nupdate: {rate: 0.01}\n"
			 "cluster: {workers: 1}\nstrategy: asgd\n",
			 every[k]);
		assert_true(c.point[0].samples == first[k] && c.point[2].samples == third[k]);
	}
}

/* PIN takes no time and overtakes COMMIT; it names the round all the same. */
static void round_fifty_is_round_fifty(void **state)
{
	static const char job[] = "model: {quadratic: {dimension: 21, noise: 0.3}}\n"
				  "data: {source: none, samples: 400, batch: 2}\n"
				  "train: {updates: %u, evaluate: 1}\nupdate: {rate: 0.02}\n"
				  "cluster: {workers: 4, shards: 3}\nstrategy: ssgd\n"
				  "sim: {compute: {law: constant, mean: 1ms}, latency: 1ms}\n";
	static struct curve whole, fifty;

	curve_of(&whole, NULL, job, 120);
	curve_of(&fifty, NULL, job, 50);
	assert_int_equal(whole.points, 3);
	assert_int_equal(fifty.points, 1);
	assert_true(whole.point[0].updates == 50 && whole.point[0].samples == 400);
	assert_true(whole.point[1].updates == 100);
	assert_true(whole.point[0].loss == fifty.point[0].loss);
	assert_true(whole.point[1].loss < whole.point[0].loss);
}

/* 570 rows are dealt to one worker in a few leases: its first epochs were those of a network that
 * nobody had trained. */
static void a_small_table_is_learnt_from_the_first_epoch(void **state)
{
	char path[] = "/tmp/tw-curves-XXXXXX.csv";
	const int fd = mkstemps(path, 4);
	static struct curve c, still;
	FILE *f = fdopen(fd, "w");

	assert_non_null(f);
	fprintf(f, "a,b,label\n");
	for (int k = 0; k < 570; k++)
		fprintf(f, "%d,%d,%s\n", k % 19, k % 7, k % 19 > 9 ? "yes" : "no");
	fclose(f);
	for (int turn = 0; turn < 2; turn++)
		curve_of(turn ? &c : &still, NULL,
			 "model: {layers: [linear 2]}\n"
			 "data: {source: csv, file: %s, label: label, test: 0.2, batch: 32}\n"
			 "train: {epochs: 20, evaluate: 1}\nupdate: {rate: %s}\n"
			 "cluster: {workers: 1}\nstrategy: asgd\n",
			 path, turn ? "0.1" : "1e-12");
	unlink(path);
	assert_true(c.points == 20 && still.points == 20);
	assert_true(c.point[0].loss < still.point[0].loss - 0.1);
	for (size_t k = 0; k < 20; k++)
		assert_true(c.point[k].samples == 456.0 * (double)(k + 1));
	for (size_t k = 1; k < 20; k++)
		assert_true(c.point[k].loss < c.point[k - 1].loss);
}

/* --- cuts, reconnects, faults ---------------------------------------------------------------- */

static const char parts_job[] =
	"model: {quadratic: {dimension: 21, noise: 0.3}}\n"
	"data: {source: none, samples: 200, batch: 4}\n"
	"train: {epochs: 4, evaluate: 0.15, seed: 4}\nupdate: {rate: 0.002}\n"
	"cluster: {workers: 4, shards: 3, servers: 2}\nstrategy: %s\n"
	"checkpoint: {every: 700ms}\n"
	"sim: {compute: {law: exponential, mean: 100ms}, " LINK "}\n";

/* Stop at the next cut and come back, until it is done. */
static void in_parts(struct curve *c, const char *strategy, uint64_t stop)
{
	struct tw_store *store = tw_memory_store_new(&tw_heap_system);
	enum tw_status st = TW_INTERRUPTED;
	struct tw_ran ran;

	memset(c, 0, sizeof *c);
	for (unsigned part = 0; st == TW_INTERRUPTED; part++) {
		struct tw_part *parts = NULL;
		struct trial t;
		size_t count;
		uint64_t cut;

		assert_true(part < 60);
		trial_open(&t, TW_WORLD_SIM, parts_job, strategy);
		curve_watch(&t, c);
		t.job->plan.checkpoint.stop_after = stop;
		assert_int_equal(store->load(store, &cut, &parts, &count), TW_OK);
		if (cut) {
			t.resume = true;
			t.job->sim.start = tw_master_release_time(parts, count) - 3600 * TW_SECOND;
		}
		store->loaded_free(store, parts, count);
		st = curve_run(&t, c, store, &ran);
		tw_totals_release(&ran.totals);
		trial_close(&t);
	}
	assert_int_equal(st, TW_OK);
	tw_memory_store_free(store);
}

/* A cut that drains begins a new generation: what was asked of shards before it is asked again.
 * Stopped there and resumed, the curve is the same. */
static void curves_go_on_behind_a_cut(void **state)
{
	static const char *const presets[] = { "ssgd", "asgd", "softsync", "ssp", "downpour" };
	static struct curve whole, parts;

	for (size_t k = 0; k < 5; k++) {
		in_parts(&whole, presets[k], 0);
		in_parts(&parts, presets[k], 1);
		assert_true(whole.cuts > 4 && whole.points > 20);
		assert_true(whole.point[whole.points - 2].samples > 750);
		if (!same_points(&whole, &parts))
			fail_msg("%s: stopped and resumed it has another curve", presets[k]);
		for (size_t i = 0; i < whole.points; i++)
			assert_true(whole.point[i].at == parts.point[i].at);
	}
}

/* Connections that break lose answers; who pins does so at the same number of samples. */
static void curves_go_on_behind_a_reset(void **state)
{
	static const char *const presets[] = { "asgd", "ssgd" };
	static struct curve whole, broken;

	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct tw_ran ran;
		struct trial t;

		memset(&broken, 0, sizeof broken);
		alone(&whole, presets[seed % 2], LINK);
		trial_open(&t, TW_WORLD_SIM, alone_job, presets[seed % 2], LINK);
		curve_watch(&t, &broken);
		t.job->sim.random_resets = 30;
		t.job->sim.fault_seed = seed;
		t.job->sim.fault_span = 3 * TW_SECOND;
		assert_int_equal(curve_run(&t, &broken, NULL, &ran), TW_OK);
		tw_totals_release(&ran.totals);
		trial_close(&t);
		if (!same_points(&whole, &broken))
			fail_msg("%s, resets of seed %llu: another curve, of %zu points",
				 presets[seed % 2], (unsigned long long)seed, broken.points);
	}
}

/* A shard that hears of a PIN too late keeps what it has: labels say so, and under rounds another
 * round is taken, which all have. */
static void labels_are_true_where_pins_are_late(void **state)
{
	static const char *const presets[] = { "asgd", "ssgd", "softsync", "ssp" };
	size_t points = 0, lost = 0, again = 0;

	for (uint64_t seed = 1; seed <= 60; seed++) {
		static struct curve c;
		struct tw_ran ran;
		struct trial t;

		memset(&c, 0, sizeof c);
		trial_open(&t, TW_WORLD_SIM, parts_job, presets[seed % 4]);
		curve_watch(&t, &c);
		c.loses = true;
		/* a PIN is sent again when a connection is made anew, and behind a cut */
		t.job->sim.random_resets = seed / 4 % 2 ? 60 : 0;
		t.job->sim.fault_seed = seed;
		t.job->sim.fault_span = 9 * TW_SECOND;
		assert_int_equal(curve_run(&t, &c, NULL, &ran), TW_OK);
		tw_totals_release(&ran.totals);
		trial_close(&t);
		if (c.points < 12)
			fail_msg("seed %llu: %zu evaluations", (unsigned long long)seed, c.points);
		points += c.points;
		lost += c.lost / 2;
		again += seed % 4 == 1 ? c.pins - c.points : 0;
	}
	print_message("%zu evaluations, %zu pins lost, %zu rounds taken again\n", points, lost,
		      again);
	assert_true(points > 600 && lost > 100 && again > 10);
}

/* A server comes back with shards that lost more than an interval, and never catch up. */
static void curves_go_on_where_updates_are_lost(void **state)
{
	static const char *const presets[] = { "asgd", "softsync", "ssp", "dana" };

	for (size_t k = 0; k < 4; k++) {
		static struct curve c;
		struct tw_ran ran;
		size_t after = 0;

		curve_of(&c, &ran,
			 "model: {quadratic: {dimension: 21, noise: 0.3}}\n"
			 "data: {source: none, samples: 200, batch: 4}\n"
			 "train: {epochs: 8, evaluate: 0.2, seed: 4}\nupdate: {rate: 0.002}\n"
			 "cluster: {workers: 4, shards: 4, servers: 2}\nstrategy: %s\n"
			 "checkpoint: {every: 1s, cut: running}\n"
			 "sim: {compute: {law: exponential, mean: 100ms}, " LINK ", "
			 "save_time: 100s, faults: [{crash: server 1, at: 5s, restart: 100ms}]}\n",
			 presets[k]);
		assert_true(c.rollbacks == 1 && ran.totals.lost_updates > 40);
		for (size_t i = 0; i < c.points; i++)
			after += c.point[i].at > 6 * TW_SECOND;
		if (after < 6)
			fail_msg("%s: %zu evaluations after the crash", presets[k], after);
	}
}

#define TIMER_LEAVE 12 /* not an actor's own */
static int64_t leaves;

static void leaver_start(struct tw_actor *a, struct tw_context *ctx)
{
	tw_server_class.start(a, ctx);
	if (ctx->self.node == 2)
		tw_timer(ctx, TIMER_LEAVE, leaves);
}

static void leaver_timer(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	if (timer == TIMER_LEAVE)
		tw_server_class.interrupt(a, ctx);
	else if (tw_server_class.timer)
		tw_server_class.timer(a, ctx, timer);
}

/* Its shards go elsewhere, and what they kept or waited for does not. */
static void curves_go_on_when_a_server_leaves(void **state)
{
	static const char *const presets[] = { "asgd", "ssgd", "softsync" };
	static struct tw_actor_class server;

	server = tw_server_class;
	server.start = leaver_start;
	server.timer = leaver_timer;
	for (unsigned turn = 0; turn < 60; turn++) {
		static struct curve c;
		struct tw_ran ran;
		struct trial t;

		memset(&c, 0, sizeof c);
		trial_open(&t, TW_WORLD_SIM, parts_job, presets[turn % 3]);
		curve_watch(&t, &c);
		leaves = TW_SECOND / 10 * (turn + 1);
		for (size_t k = 0; k < t.cast.seats; k++)
			if (t.cast.seat[k].class == &tw_server_class)
				t.cast.seat[k].class = &server;
		assert_int_equal(curve_run(&t, &c, NULL, &ran), TW_OK);
		assert_true(ran.totals.lost_updates == 0);
		tw_totals_release(&ran.totals);
		trial_close(&t);
		if (c.points < 24 || c.point[c.points - 2].samples < 750)
			fail_msg("%s, %u: %zu evaluations, the last but one at %g",
				 presets[turn % 3], turn, c.points, c.point[c.points - 2].samples);
	}
}

/* Crashes of everybody, partitions, loss: labels stay true, and go back after a rollback only. */
static void labels_go_back_after_a_rollback_only(void **state)
{
	static const char *const presets[] = { "ssgd",   "asgd", "softsync", "ssp",
					       "backup", "dana", "downpour" };
	size_t points = 0, back = 0, rollbacks = 0;

	for (uint64_t seed = 1; seed <= 420; seed++) {
		static struct curve c;
		struct tw_ran ran;
		struct trial t;

		memset(&c, 0, sizeof c);
		trial_open(&t, TW_WORLD_SIM,
			   "model: {quadratic: {dimension: 13, noise: 0.1}}\n"
			   "data: {source: none, samples: 48, batch: 2}\n"
			   "train: {epochs: 3, evaluate: 0.2, seed: %u}\nupdate: {rate: 0.01}\n"
			   "cluster: {workers: 4, servers: 3, shards: 4, wait: 30s}\n"
			   "strategy: %s\ncheckpoint: {every: %s, cut: %s}\n"
			   "sim: {compute: {law: exponential, mean: 100ms}, latency: 5ms, "
			   "jitter: 8ms}\n",
			   (unsigned)seed, presets[seed % 7], seed % 3 ? "1s" : "500ms",
			   seed % 2 ? "drain" : "running");
		curve_watch(&t, &c);
		t.job->sim.random_crashes = 1 + (uint32_t)seed % 4;
		t.job->sim.random_partitions = (uint32_t)seed % 2;
		t.job->sim.random_resets = (uint32_t)seed % 5;
		t.job->sim.loss = seed % 5 == 0 ? 0.1 : 0.0;
		t.job->sim.fault_seed = seed;
		t.job->sim.fault_span = 4 * TW_SECOND;
		t.job->sim.save_time = TW_SECOND / 50;
		t.job->sim.load_time = TW_SECOND / 40;
		curve_run(&t, &c, NULL, &ran);
		points += c.points;
		back += c.back;
		rollbacks += c.rollbacks;
		tw_totals_release(&ran.totals);
		trial_close(&t);
	}
	print_message("%zu evaluations, %zu rollbacks, %zu labels that went back\n", points,
		      rollbacks, back);
	assert_true(points > 3000 && rollbacks > 100 && back > 20);
}

/* The same where shards and master are entered by many threads at a time. */
static void labels_are_true_in_threads(void **state)
{
	static const char *const presets[] = {
		"asgd", "ssgd", "softsync", "ssp", "downpour", "dana"
	};

	for (unsigned turn = 0; turn < 12; turn++) {
		static struct curve c;
		struct tw_ran ran;
		struct trial t;

		memset(&c, 0, sizeof c);
		trial_open(&t, TW_WORLD_THREADS,
			   "model: {quadratic: {dimension: 21, noise: 0.3}}\n"
			   "data: {source: none, samples: 2000, batch: 2}\n"
			   "train: {epochs: 4, evaluate: 0.3}\nupdate: {rate: 0.001}\n"
			   "cluster: {workers: 3, shards: 3}\nstrategy: %s\n"
			   "checkpoint: {every: 3ms, cut: %s}\n",
			   presets[turn % 6], turn < 6 ? "drain" : "running");
		curve_watch(&t, &c);
		assert_int_equal(curve_run(&t, &c, NULL, &ran), TW_OK);
		/* how many there are is a matter of who gets the processor */
		assert_true(c.points > 0 && c.point[c.points - 1].final);
		assert_true(c.point[c.points - 1].samples == 8000);
		tw_totals_release(&ran.totals);
		trial_close(&t);
	}
}

/* --- goal and throughput --------------------------------------------------------------------- */

static void the_goal_is_the_first_that_reached_it(void **state)
{
	static const char *const presets[] = { "ssgd", "asgd" };
	static struct curve c;
	struct tw_ran ran;

	for (size_t k = 0; k < 2; k++) {
		curve_of(&c, &ran,
			 "model: {quadratic: {dimension: 21, start: 1}}\n"
			 "data: {source: none, samples: 200, batch: 4}\n"
			 "train: {epochs: 40, evaluate: 0.25, until: {loss: 0.01}}\n"
			 "update: {rate: 0.02}\ncluster: {workers: 3, shards: 2}\n"
			 "strategy: %s\nsim: {compute: {law: constant, mean: 50ms}, " LINK "}\n",
			 presets[k]);
		assert_true(c.points > 3 && ran.totals.goal.reached);
		assert_true(c.point[c.points - 1].loss == ran.totals.goal.loss);
		assert_true(c.point[c.points - 1].samples == ran.totals.goal.samples);
		assert_true(c.point[c.points - 1].updates == ran.totals.goal.updates);
		assert_true(c.point[c.points - 1].at == ran.totals.goal.at);
		assert_true(c.point[c.points - 2].loss > 0.01);
		/* what was on its way when it was reached is applied, and no part of the result */
		assert_true(ran.totals.loss == ran.totals.goal.loss);
		assert_true(ran.totals.applied > ran.totals.goal.samples);
	}
}

/* One worker is 20 times slower: at the end everybody waits for it. */
static void throughput_leaves_out_the_tail(void **state)
{
	static const char job[] =
		"model: {quadratic: {dimension: 21, noise: 0.3}}\n"
		"data: {source: none, samples: 400, batch: 4}\n"
		"train: {epochs: 10}\nupdate: {rate: 0.002}\n"
		"cluster: {workers: 4, shards: 3, servers: 2}\nstrategy: %s\n"
		"sim: {compute: {law: constant, mean: 100ms}, stragglers: {count: 1, slower: 20}, "
		"%s}\n";
	static struct curve c;
	struct tw_ran ran;
	double rate;

	curve_of(&c, &ran, job, "asgd", LINK);
	assert_true(c.dry);
	assert_true(ran.totals.steady.samples == c.steady);
	assert_true(ran.totals.steady.lasted == c.end - c.began);
	curve_of(&c, &ran, job, "asgd", "latency: 0s");
	/* three that make 40 samples a second, and one that makes 2 */
	rate = ran.totals.steady.samples / ((double)ran.totals.steady.lasted / 1e9);
	assert_true(rate > 115 && rate < 123);
	assert_true(ran.totals.applied / ((double)ran.virtual_ns / 1e9) < 100);
	/* rounds have no tail: all wait for it all the time */
	curve_of(&c, &ran, job, "ssgd", "latency: 0s");
	assert_true(ran.totals.steady.samples == 4000);
	rate = (double)ran.totals.steady.lasted / 1e9;
	assert_true(rate >= 250 * 2 && rate < 252 * 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(labels_are_what_the_views_have),
		cmocka_unit_test(labels_of_rounds_that_drop),
		cmocka_unit_test(one_worker_has_one_curve),
		cmocka_unit_test(evaluations_are_due_to_the_sample),
		cmocka_unit_test(round_fifty_is_round_fifty),
		cmocka_unit_test(a_small_table_is_learnt_from_the_first_epoch),
		cmocka_unit_test(curves_go_on_behind_a_cut),
		cmocka_unit_test(curves_go_on_behind_a_reset),
		cmocka_unit_test(labels_are_true_where_pins_are_late),
		cmocka_unit_test(curves_go_on_where_updates_are_lost),
		cmocka_unit_test(curves_go_on_when_a_server_leaves),
		cmocka_unit_test(labels_go_back_after_a_rollback_only),
		cmocka_unit_test(labels_are_true_in_threads),
		cmocka_unit_test(the_goal_is_the_first_that_reached_it),
		cmocka_unit_test(throughput_leaves_out_the_tail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
