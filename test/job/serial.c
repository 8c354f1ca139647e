/* SPDX-License-Identifier: Apache-2.0 */
/* serial.c - jobs run in process, and the serial loop that replays their order. */
#include "job/serial.h"

#include "base/rng.h"
#include "run/placement.h"
#include "job/reading.h"
#include "node/checkpoint_part.h"
#include "world/memory_store.h"
#include "world/threads/threads.h"
#include "run/open_engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* --- jobs ------------------------------------------------------------------------------- */

void outcome_open(struct outcome *o, const char *text, const char *const *set,
		  enum tw_world_kind world)
{
	struct tw_error why;

	*o = (struct outcome){ .job = NULL };
	if (read_job(text, set, NULL, world, &o->job, &why) != TW_OK)
		fail_msg("%s\n%s", why.text, text);
	if (tw_job_open_engine(o->job, &tw_heap_system, &o->engine, &why) != TW_OK ||
	    tw_job_finish_plan(o->job, o->engine, &why) != TW_OK)
		fail_msg("%s\n%s", why.text, text);
	o->n = o->engine->trainable + o->engine->buffers;
}

/* Workers that are listened to.  Handlers of the simulator are entered by one thread. */
static const struct watch *listening;
static const struct tw_plan *listening_plan;

static void hears(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	listening->worker_hears(listening->arg, ctx->self.node - 1 - listening_plan->crew.servers,
				m);
	tw_worker_class.message(a, ctx, m);
}

static int64_t start_of(struct tw_store *store)
{
	struct tw_part *parts = NULL;
	size_t count = 0;
	uint64_t cut = 0;
	int64_t at;

	assert_int_equal(store->load(store, &cut, &parts, &count), TW_OK);
	assert_true(cut > 0);
	at = tw_master_release_time(parts, count) - 3600 * TW_SECOND;
	store->loaded_free(store, parts, count);
	return at;
}

static void take_vector(struct outcome *o)
{
	const struct tw_plan *p = &o->job->plan;

	o->vector = calloc(o->n, sizeof(float));
	assert_non_null(o->vector);
	assert_int_equal(o->ran.totals.shards, p->problem.shards);
	for (uint32_t s = 0; s < p->problem.shards; s++)
		memcpy(o->vector + p->problem.border[s], tw_block_floats(o->ran.totals.vector[s]),
		       (p->problem.border[s + 1] - p->problem.border[s]) * sizeof(float));
	assert_int_equal(tw_digest_floats(o->ran.totals.vector, p->problem.border,
					  p->problem.shards, 0, p->problem.trainable,
					  &p->problem.constants, o->digest),
			 TW_OK);
}

void outcome_run(struct outcome *o, const struct watch *watch)
{
	static const struct watch nothing;
	const struct watch *w = watch ? watch : &nothing;
	struct tw_actor_class heard = tw_worker_class;
	struct tw_sim_options options = o->job->sim;
	struct tw_plan *p = &o->job->plan;
	struct tw_store *own = NULL;
	struct tw_placement cast;
	struct tw_cluster cluster;
	enum tw_status st;

	p->checkpoint.stop_after = w->stop_after;
	if (!w->store)
		assert_non_null(own = tw_memory_store_new(&tw_heap_system));
	assert_int_equal(tw_placement_init(&cast, p, w->resume), TW_OK);
	if (w->worker_hears) {
		listening = w;
		listening_plan = p;
		heard.message = hears;
		for (size_t k = 0; k < cast.seats; k++)
			if (cast.seat[k].class == &tw_worker_class)
				cast.seat[k].class = &heard;
	}
	cluster = (struct tw_cluster){ .seat = cast.seat,
				       .seats = cast.seats,
				       .nodes = tw_placement_nodes(p),
				       .seed = p->seed,
				       .engine = o->engine,
				       .store = own ? own : w->store,
				       .heap = &tw_heap_system,
				       .log = &(const struct tw_log){ .sink = NULL },
				       .observer = w->observer,
				       .observer_arg = w->arg };
	if (w->resume)
		options.start = start_of(w->store);
	if (o->job->world == TW_WORLD_SIM)
		st = tw_sim_run(&cluster, &options, o->job->fault, o->job->faults, NULL, 0,
				&o->ran);
	else
		st = tw_threads_run(&cluster,
				    &(const struct tw_threads_options){
					    .lockfree = p->gate->traits & TW_GATE_LOCKFREE },
				    &o->ran);
	if (st != (w->stop_after ? TW_INTERRUPTED : TW_OK))
		fail_msg("the run ended with %s: %s", tw_status_name(st), o->ran.error.text);
	if (st == TW_OK)
		take_vector(o);
	tw_placement_release(&cast);
	if (own)
		tw_memory_store_free(own);
}

void outcome_close(struct outcome *o)
{
	tw_totals_release(&o->ran.totals);
	free(o->vector);
	if (o->engine)
		o->engine->class->close(o->engine);
	tw_job_free(o->job);
	*o = (struct outcome){ .job = NULL };
}

void outcome_stops_change_nothing(const struct outcome *whole, const char *text,
				  const char *const *set)
{
	assert_true(whole->ran.totals.cut >= 3);
	for (uint64_t stop = 1; stop <= 3; stop++) {
		struct tw_store *store = tw_memory_store_new(&tw_heap_system);
		struct outcome part, again;

		outcome_open(&part, text, set, TW_WORLD_SIM);
		outcome_run(&part, &(const struct watch){ .store = store, .stop_after = stop });
		outcome_open(&again, text, set, TW_WORLD_SIM);
		outcome_run(&again, &(const struct watch){ .store = store, .resume = true });
		if (strcmp(whole->digest, again.digest) != 0)
			fail_msg("ends elsewhere if stopped after %llu cuts\n%s",
				 (unsigned long long)stop, text);
		assert_int_equal(whole->ran.totals.tally.cached, again.ran.totals.tally.cached);
		outcome_close(&part);
		outcome_close(&again);
		tw_memory_store_free(store);
	}
}

void outcome_of(struct outcome *o, enum tw_world_kind world, const char *format, ...)
{
	char text[4096];
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(text, sizeof text, format, args);
	va_end(args);
	assert_true(len > 0 && (size_t)len < sizeof text);
	outcome_open(o, text, NULL, world);
	outcome_run(o, NULL);
}

/* --- formulas --------------------------------------------------------------------------- */

/* x to the n-th by squaring, in double. */
static double power(double x, uint64_t n)
{
	const double half = n > 1 ? power(x * x, n / 2) : 1.0;

	return n % 2 ? x * half : half;
}

/* The rate / max(tau, 1), so the decay too */
float correct_inverse(const struct formula *f, struct cell *c, float g)
{
	(void)f;
	c->factor = c->tau > 1 ? 1.0f / (float)c->tau : 1.0f;
	return c->factor * g;
}

/* The rate / mean staleness */
float correct_mean(const struct formula *f, struct cell *c, float g)
{
	c->factor = f->mean > 1 ? (float)(1.0 / (double)f->mean) : 1.0f;
	return c->factor * g;
}

/* g + lambda g g (w - sent) */
float correct_delay(const struct formula *f, struct cell *c, float g)
{
	if (f->lambda == 0.0f || c->w == c->sent || g == 0.0f)
		return g;
	return fmaf(f->lambda * g * g, c->w - c->sent, g);
}

/* MS = m MS + (1 - m) g g;  g + lambda / sqrt(MS + 1e-7) g g (w - sent) */
float correct_adaptive(const struct formula *f, struct cell *c, float g)
{
	if (f->lambda == 0.0f)
		return g;
	c->policy[0] = fmaf((float)f->memory, c->policy[0], (float)(1.0 - f->memory) * (g * g));
	if (c->w == c->sent || g == 0.0f)
		return g;
	return fmaf(f->lambda / sqrtf(c->policy[0] + 1e-7f) * g * g, c->w - c->sent, g);
}

/* n, b: means of g g and g; v: mean of sqrt(n - b b + epsilon);
 * the rate / (v max(tau, 1)) */
float correct_fasgd(const struct formula *f, struct cell *c, float g)
{
	const float keep = (float)f->gamma, add = (float)(1.0 - f->gamma);
	const float unbias = f->unbias ? (float)(1.0 / (1.0 - power(f->gamma, c->count))) : 1;
	const float unbias_v = f->unbias ? (float)(1.0 / (1.0 - power(f->beta, c->count))) : 1;
	float mean, spread, by;

	c->policy[0] = fmaf(keep, c->policy[0], add * (g * g));
	c->policy[1] = fmaf(keep, c->policy[1], add * g);
	mean = c->policy[1] * unbias;
	spread = c->policy[0] * unbias - mean * mean;
	c->policy[2] = fmaf((float)f->beta, c->policy[2],
			    (float)(1.0 - f->beta) * sqrtf((spread > 0 ? spread : 0) + f->epsilon));
	by = c->policy[2] * unbias_v * (float)(c->tau > 1 ? c->tau : 1);
	c->factor = 1.0f / by;
	return g / by;
}

/* g / (1 + |w - sent| / C), C = rate_max (sqrt(mean square of the direction) + epsilon) */
float correct_gap(const struct formula *f, struct cell *c, float g)
{
	const float moved = fabsf(c->w - c->sent);
	const float penalty =
		moved > 0 ? 1.0f + moved / (c->rate_max * (sqrtf(c->policy[0]) + f->epsilon)) : 1;

	c->factor = 1.0f / penalty;
	return g / penalty;
}

void observe_gap(const struct formula *f, struct cell *c)
{
	const float part = (float)((1.0 - f->memory) / (1.0 - power(f->memory, c->count)));
	const float d = c->direction, s = c->policy[0], next = fmaf(part, d * d - s, s);

	c->policy[0] = next > 0 ? next : 0;
}

float step_sgd(const struct formula *f, struct cell *c, float g)
{
	(void)f;
	c->direction = g;
	return fmaf(-c->rate, g, c->w);
}

/* v = gamma v + g;  w - rate v */
float step_momentum(const struct formula *f, struct cell *c, float g)
{
	c->rule[0] = fmaf(f->momentum, c->rule[0], g);
	return step_sgd(f, c, c->rule[0]);
}

float step_multi(const struct formula *f, struct cell *c, float g)
{
	*c->mine = fmaf(f->momentum, *c->mine, g);
	return step_sgd(f, c, *c->mine);
}

/* s = s + g g;  w - rate g / (sqrt(s) + epsilon) */
float step_adagrad(const struct formula *f, struct cell *c, float g)
{
	const float s = c->rule[0] = fmaf(g, g, c->rule[0]), by = sqrtf(s) + f->epsilon;

	return step_sgd(f, c, by > 0 ? g / by : 0);
}

/* s = a s + (1 - a) g g;  w - rate g / (sqrt(s) + epsilon) */
float step_rmsprop(const struct formula *f, struct cell *c, float g)
{
	c->rule[0] = fmaf((float)f->beta, c->rule[0], (float)(1.0 - f->beta) * (g * g));
	return step_sgd(f, c, g / (sqrtf(c->rule[0]) + f->epsilon));
}

/* w (1 - rate decay) - rate m' / (sqrt(s') + epsilon), m' and s' without bias */
float step_adam(const struct formula *f, struct cell *c, float g)
{
	const float unbias1 = (float)(1.0 / (1.0 - power(f->beta, c->count)));
	const float unbias2 = (float)(1.0 / sqrt(1.0 - power(f->beta2, c->count)));

	c->rule[0] = fmaf((float)f->beta, c->rule[0], (float)(1.0 - f->beta) * g);
	c->rule[1] = fmaf((float)f->beta2, c->rule[1], (float)(1.0 - f->beta2) * (g * g));
	c->w = fmaf(-(c->rate * c->decay), c->w, c->w);
	return step_sgd(f, c, c->rule[0] * unbias1 / fmaf(sqrtf(c->rule[1]), unbias2, f->epsilon));
}

/* *sum + *rest += x, exactly but for the rounding of *rest (Knuth's two-sum). */
static void add_exactly(float *sum, float *rest, float x)
{
	const float old = *sum, both = old + x, part = both - old;

	*sum = both;
	*rest += (old - (both - part)) + (x - part);
}

/* How much the rate has grown since this worker's push before; 0 if that was at rate 0. */
static float growth(float rate, float before)
{
	return before > 0 ? rate / before : 0;
}

/* v' = gamma r v + rate g;  S += v' - v;  w - v' */
float step_dana(const struct formula *f, struct cell *c, float g)
{
	const float old = *c->mine, ratio = growth(c->rate, c->before);
	const float next = fmaf(f->momentum * ratio, old, c->rate * g);
	float s = c->rule[0], r = c->rule[1];

	add_exactly(&s, &r, -old);
	add_exactly(&s, &r, next);
	c->rule[0] = s + r;
	c->rule[1] = r - (c->rule[0] - s);
	*c->mine = next;
	return c->w - next;
}

float step_minus(const struct formula *f, struct cell *c, float g)
{
	(void)f;
	return c->w - g;
}

float view_nag(const struct formula *f, struct cell *c)
{
	return fmaf(-(c->rate * f->momentum), c->rule[0], c->w);
}

float view_multi(const struct formula *f, struct cell *c)
{
	return fmaf(-(c->rate * f->momentum), *c->mine, c->w);
}

float view_dana(const struct formula *f, struct cell *c)
{
	return fmaf(-f->momentum, c->rule[0], c->w);
}

/* v' = gamma r v + rate g;  u = (1 + gamma) v' - gamma v = gamma v' + (gamma (r - 1) v + rate g) */
float prepare_slim(const struct formula *f, float *v, float g, float rate, float before)
{
	const float old = *v, r = growth(rate, before);

	*v = fmaf(f->momentum * r, old, rate * g);
	return fmaf(f->momentum, *v, fmaf(f->momentum * (r - 1), old, rate * g));
}

static double lanes_sum(const float *x, size_t n, bool squares)
{
	double lane[16] = { 0 }, sum = 0;

	for (size_t i = 0; i < n; i++)
		lane[i % 16] += squares ? (double)x[i] * (double)x[i] : (double)x[i];
	for (size_t k = 0; k < 16; k++)
		sum += lane[k];
	return sum;
}

static float through_half(float x)
{
	return (float)(_Float16)x;
}

static float through_brain(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof bits);
	bits += 0x7fff + (bits >> 16 & 1);
	bits &= 0xffff0000;
	memcpy(&x, &bits, sizeof x);
	return x;
}

/* What is left of x behind a codec. */
static float through(const struct tw_codec *codec, float x)
{
	if (!strcmp(codec->name, "fp16"))
		return through_half(x);
	return strcmp(codec->name, "bf16") ? x : through_brain(x);
}

/* rate * shape * warm-up, in double */
static float rate_at(const struct tw_schedule *s, double progress)
{
	const double done = s->epochs > 0 && progress < s->epochs ? progress / s->epochs : 1;
	double shape = 1, warm = 1;

	for (double at = s->every; s->kind == TW_SCHEDULE_STEP && s->every > 0; at += s->every) {
		if (at > progress + 1e-9)
			break;
		shape *= s->factor;
	}
	if (s->kind == TW_SCHEDULE_STEP && s->every == 0)
		for (size_t k = 0; k < s->at.count && s->at.at[k] <= progress; k++)
			shape *= s->factor;
	if (s->kind == TW_SCHEDULE_COSINE)
		shape = s->final + (1 - s->final) * 0.5 * (1 + cos(M_PI * done));
	if (s->kind == TW_SCHEDULE_LINEAR)
		shape = 1 + (s->final - 1) * done;
	if (progress < s->warmup)
		warm = s->warmup_from + (1 - s->warmup_from) * (progress / s->warmup);
	return (float)(s->rate * shape * warm);
}

/* --- the loop --------------------------------------------------------------------------- */

/* What one worker pushes. */
struct gift {
	float *g; /* everything, as the shards decode it; where skipped, its last again */
	uint64_t *base;
	uint64_t own;
	float weight, divide, *rate;
	uint32_t samples;
};

/* A version as it was shown; where each worker sees another vector, slot after slot. */
struct shown {
	float *at;
	float rate;
	double statistic;
};

struct piece_of {
	size_t from, n, trainable;
	float *w, *rule, *policy, *mine; /* mine: slot after slot */
	float *before;                   /* by slot: the rate of its last update */
	struct shown *shown;             /* by version */
	uint64_t version, corrections;
	uint64_t applied, arrived; /* samples: in w, and in the bucket */
	double statistic;
	struct {
		uint32_t slot;
		uint64_t seq, tau;
	} bucket[64];
	uint32_t collected;
};

struct hand {          /* a worker */
	uint64_t *has; /* version per shard */
	bool fresh, stepping;
	float *local, *drift, *momentum, *gradient, *group, *sum, *last;
	float *before; /* per shard: the rate of the last contribution */
	uint64_t kept; /* the gift whose gradient is `last` */
	uint64_t from, *base, *group_base, cycle, own;
	uint32_t count, micros, summed, samples;
	double first;
	float weight;
	bool transmitted;
	struct gift gift[512]; /* by seq - 1 */
	uint64_t gifts;
};

struct serial {
	const struct tw_plan *p;
	const struct tw_engine *engine;
	const struct formula *f;
	size_t n;
	struct piece_of *shard;
	struct hand *hand;
	struct seen seen;
	char complaint[200];
};

#define MOST_VERSIONS 4096

static void complain(struct serial *z, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void complain(struct serial *z, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (!z->complaint[0])
		vsnprintf(z->complaint, sizeof z->complaint, format, args);
	va_end(args);
}

static void *made(size_t count, size_t each)
{
	void *p = calloc(count ? count : 1, each);

	assert_non_null(p);
	return p;
}

struct serial *serial_new(const struct outcome *o, const struct formula *f)
{
	struct serial *z = made(1, sizeof *z);
	const struct tw_plan *p = &o->job->plan;

	z->p = p;
	z->engine = o->engine;
	z->f = f;
	z->n = o->n;
	z->shard = made(p->problem.shards, sizeof *z->shard);
	z->hand = made(p->crew.workers, sizeof *z->hand);
	for (uint32_t s = 0; s < p->problem.shards; s++) {
		struct piece_of *h = &z->shard[s];

		h->from = p->problem.border[s];
		h->n = p->problem.border[s + 1] - h->from;
		h->trainable = p->problem.trainable <= h->from ? 0 : p->problem.trainable - h->from;
		h->trainable = h->trainable < h->n ? h->trainable : h->n;
		h->w = made(h->n, sizeof(float));
		h->rule = made(4 * h->n, sizeof(float));
		h->policy = made(3 * h->n, sizeof(float));
		h->mine = made(p->crew.workers * h->n, sizeof(float));
		h->before = made(p->crew.workers, sizeof(float));
		h->shown = made(MOST_VERSIONS, sizeof *h->shown);
	}
	for (uint32_t k = 0; k < p->crew.workers; k++) {
		struct hand *w = &z->hand[k];
		float **const vectors[] = { &w->local, &w->drift, &w->momentum, &w->gradient,
					    &w->group, &w->sum,   &w->last };

		for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
			*vectors[i] = made(z->n, sizeof(float));
		w->before = made(p->problem.shards, sizeof *w->before);
		w->has = made(p->problem.shards, sizeof *w->has);
		w->base = made(p->problem.shards, sizeof *w->base);
		w->group_base = made(p->problem.shards, sizeof *w->group_base);
	}
	return z;
}

void serial_free(struct serial *z)
{
	for (uint32_t s = 0; s < z->p->problem.shards; s++) {
		struct piece_of *h = &z->shard[s];

		for (uint64_t v = 0; v < MOST_VERSIONS; v++)
			free(h->shown[v].at);
		free(h->w), free(h->rule), free(h->policy), free(h->mine), free(h->shown);
		free(h->before);
	}
	for (uint32_t k = 0; k < z->p->crew.workers; k++) {
		struct hand *w = &z->hand[k];

		for (uint64_t i = 0; i < w->gifts; i++)
			free(w->gift[i].g), free(w->gift[i].base), free(w->gift[i].rate);
		free(w->local), free(w->drift), free(w->momentum), free(w->gradient);
		free(w->group), free(w->sum), free(w->last), free(w->has), free(w->base);
		free(w->group_base), free(w->before);
	}
	free(z->shard);
	free(z->hand);
	free(z);
}

const char *serial_complaint(const struct serial *z)
{
	return z->complaint[0] ? z->complaint : NULL;
}

void serial_vector(const struct serial *z, float *out)
{
	for (uint32_t s = 0; s < z->p->problem.shards; s++)
		memcpy(out + z->shard[s].from, z->shard[s].w, z->shard[s].n * sizeof(float));
}

void serial_shown(const struct serial *z, float *out)
{
	for (uint32_t s = 0; s < z->p->problem.shards; s++)
		memcpy(out + z->shard[s].from, z->shard[s].shown[z->shard[s].version].at,
		       z->shard[s].n * sizeof(float));
}

/* The schedule runs on what is applied here, whoever computed it and when. */
static float rate_now(const struct serial *z, const struct piece_of *h)
{
	return rate_at(&z->p->schedule, (double)h->applied / (double)z->p->problem.samples);
}

/* Keep what is shown of the version there is now. */
static void show(struct serial *z, struct piece_of *h)
{
	struct shown *x = &h->shown[h->version];

	assert_true(h->version < MOST_VERSIONS);
	free(x->at);
	x->at = made(h->n * (z->f->each ? z->p->crew.workers : 1), sizeof(float));
	x->rate = rate_now(z, h);
	x->statistic = h->statistic;
	for (uint32_t k = 0; k < (z->f->each ? z->p->crew.workers : 1); k++) {
		float *at = x->at + k * h->n;

		memcpy(at, h->w, h->n * sizeof(float));
		for (size_t i = 0; i < h->trainable; i++) {
			struct cell c = { .w = h->w[i],
					  .rule = h->rule + 4 * i,
					  .mine = h->mine + k * h->n + i,
					  .rate = x->rate };

			if (z->f->view)
				at[i] = z->f->view(z->f, &c);
			at[i] = through(z->p->traffic.down, at[i]);
		}
	}
}

/* What a worker was shown of a version. */
static const float *shown_to(const struct serial *z, const struct piece_of *h, uint64_t version,
			     uint32_t slot)
{
	return h->shown[version].at + (z->f->each ? slot * h->n : 0);
}

/* --- workers --- */

static bool tosses(struct serial *z, uint32_t slot, double c, uint64_t draw)
{
	const struct tw_rng rng = tw_rng_make(z->p->seed, TW_RNG_SKIP);
	struct hand *w = &z->hand[slot];
	double mean = 0;

	if (isnan(c) || !w->transmitted)
		return true;
	for (uint32_t s = 0; s < z->p->problem.shards; s++)
		mean += z->shard[s].shown[w->has[s]].statistic;
	mean /= (double)z->p->problem.trainable;
	return tw_rng_uniform(&rng, 1, draw) < 1.0 / (1.0 + c / (mean + 1e-4));
}

/* The vector x leaves the worker. */
static void give(struct serial *z, uint32_t slot, const float *x, float weight, float divide)
{
	const struct tw_plan *p = z->p;
	struct hand *w = &z->hand[slot];
	struct gift *c = &w->gift[w->gifts];

	assert_true(w->gifts < sizeof w->gift / sizeof w->gift[0]);
	const float mean = z->f->prepare ? 1.0f / divide : 1.0f; /* momentum is of means */

	*c = (struct gift){ .g = made(z->n, sizeof(float)),
			    .base = made(p->problem.shards, sizeof *c->base),
			    .rate = made(p->problem.shards, sizeof *c->rate),
			    .own = p->local.rule ? w->own : 0,
			    .weight = weight,
			    .divide = z->f->prepare ? 1.0f : divide,
			    .samples = w->samples };
	for (size_t i = 0; i < z->n; i++)
		c->g[i] = mean * x[i];
	memcpy(c->base, w->group_base, p->problem.shards * sizeof *c->base);
	for (uint32_t s = 0; s < p->problem.shards; s++) {
		const struct piece_of *h = &z->shard[s];

		c->rate[s] = h->shown[c->base[s]].rate;
		for (size_t i = h->from; i < h->from + h->trainable; i++) {
			if (z->f->prepare)
				c->g[i] = z->f->prepare(z->f, &w->momentum[i], c->g[i], c->rate[s],
							w->before[s]);
			c->g[i] = through(p->traffic.up, c->g[i]);
		}
		w->before[s] = c->rate[s];
	}
	if (tosses(z, slot, p->traffic.skip_push, 2 * (uint64_t)w->first)) {
		memcpy(w->last, c->g, z->n * sizeof(float));
		w->kept = w->gifts;
	} else { /* the gradient of then, with its timestamp */
		const struct gift *then = &w->gift[w->kept];

		memcpy(c->g, w->last, z->n * sizeof(float));
		memcpy(c->base, then->base, p->problem.shards * sizeof *c->base);
		c->weight = then->weight;
		c->divide = then->divide;
		z->seen.skipped++;
	}
	w->gifts++;
	w->own++;
	w->transmitted = true;
	w->samples = 0;
	memset(w->drift, 0, z->n * sizeof(float));
}

static void add_weighed(float *sum, uint32_t before, float weight, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sum[i] = before ? fmaf(weight, x[i], sum[i]) : weight * x[i];
}

static void one_gradient(struct serial *z, uint32_t slot, float *g, float weight, float divide)
{
	struct hand *w = &z->hand[slot];

	w->cycle++;
	if (z->p->traffic.push == 1) {
		give(z, slot, g, weight, divide);
		return;
	}
	for (size_t i = 0; i < z->n && divide != 1.0f; i++)
		g[i] *= 1.0f / divide;
	add_weighed(w->sum, w->summed++, 1.0f, g, z->n);
	if (w->cycle % z->p->traffic.push == 0) {
		w->summed = 0;
		give(z, slot, w->sum, 1.0f, 1.0f);
	}
}

/* What is open goes: an epoch's or a round's last batches, or the end of the run. */
static void flush(struct serial *z, uint32_t slot)
{
	struct hand *w = &z->hand[slot];

	if (w->micros) {
		w->micros = 0;
		one_gradient(z, slot, w->group, w->weight, w->weight);
	}
	if (w->summed) {
		w->summed = 0;
		give(z, slot, w->sum, 1.0f, 1.0f);
	}
}

static void begin(struct serial *z, const struct tw_note *note)
{
	const struct tw_plan *p = z->p;
	struct hand *w = &z->hand[note->slot];
	struct tw_piece *piece = made(p->problem.shards, sizeof *piece);
	struct tw_inputs in = { .from = note->from, .count = note->count, .piece = piece };
	struct tw_score score;

	if (note->step.clock > w->gifts)
		flush(z, note->slot);
	else if (z->f->rounds && w->micros && note->from != w->from + w->count)
		w->micros = w->samples = 0; /* of a stripe that was given up */
	if (note->step.clock != w->gifts)
		complain(z, "worker %u has made %llu contributions, not %llu", note->slot,
			 (unsigned long long)note->step.clock, (unsigned long long)w->gifts);
	for (uint32_t s = 0; s < p->problem.shards; s++) {
		const struct piece_of *h = &z->shard[s];
		const float *view = shown_to(z, h, w->has[s], note->slot);

		w->base[s] = w->has[s];
		piece[in.pieces++] = (struct tw_piece){ view, h->from, h->n };
		if (w->fresh)
			memcpy(w->local + h->from, view, h->n * sizeof(float));
	}
	if (w->fresh) {
		w->own = 0;
		if (p->traffic.merge != TW_MERGE_KEEP)
			memset(w->drift, 0, z->n * sizeof(float));
		for (size_t i = 0; i < p->problem.trainable; i++)
			w->local[i] += w->drift[i];
	}
	z->seen.given_up += w->stepping;
	w->stepping = true;
	w->fresh = false;
	if (p->local.rule) {
		piece[0] = (struct tw_piece){ w->local, 0, z->n };
		in.pieces = 1;
	}
	w->from = note->from;
	w->count = note->count;
	void *scratch = made(z->engine->scratch_bytes, 1);

	assert_int_equal(z->engine->class->gradient(z->engine, scratch, &in, w->gradient, &score),
			 TW_OK);
	free(scratch);
	free(piece);
}

/* The local steps of Downpour are plain descent. */
static void step_locally(struct serial *z, struct hand *w)
{
	for (size_t i = 0; z->p->local.rule && i < z->p->problem.trainable; i++) {
		const float before = w->local[i];

		w->local[i] = fmaf(-z->p->local.rate, w->gradient[i], before);
		w->drift[i] = (w->drift[i] - before) + w->local[i];
	}
}

static void computed(struct serial *z, const struct tw_note *note)
{
	const struct tw_plan *p = z->p;
	struct hand *w = &z->hand[note->slot];
	const double nominal = p->dealing.global_batch
				       ? (double)p->dealing.global_batch / p->crew.workers
				       : (double)p->dealing.batch;
	const float weight = (float)(w->count / nominal);
	const double norm = sqrt(lanes_sum(w->gradient, p->problem.trainable, true));

	w->stepping = false;
	z->seen.small += weight < 1.0f;
	if (note->from != w->from)
		complain(z, "worker %u computed what it did not begin", note->slot);
	for (size_t i = 0; i < p->problem.trainable && p->clip > 0 && norm > p->clip; i++)
		w->gradient[i] *= (float)(p->clip / norm);
	for (uint32_t s = 0; s < p->problem.shards && z->f->prepare && p->decay != 0.0f; s++) {
		const struct piece_of *h = &z->shard[s]; /* at what it was sent */

		for (size_t i = 0; i < h->trainable; i++)
			w->gradient[h->from + i] =
				fmaf(p->decay, shown_to(z, h, w->base[s], note->slot)[i],
				     w->gradient[h->from + i]);
	}
	if (!w->micros && !w->summed) {
		memcpy(w->group_base, w->base, p->problem.shards * sizeof *w->base);
		w->first = (double)w->from;
	}
	w->samples += w->count;
	step_locally(z, w);
	if (p->dealing.accumulate == 1) {
		one_gradient(z, note->slot, w->gradient, weight, 1.0f);
		return;
	}
	add_weighed(w->group, w->micros, weight, w->gradient, z->n);
	w->weight = w->micros ? w->weight + weight : weight;
	if (++w->micros == p->dealing.accumulate) {
		w->micros = 0;
		one_gradient(z, note->slot, w->group, w->weight, w->weight);
	}
}

void serial_hears(void *arg, uint32_t slot, const struct tw_msg *m)
{
	struct serial *z = arg;

	if ((m->h.type != TW_PARAMS && m->h.type != TW_UNCHANGED) || m->b.params.pin)
		return;
	z->hand[slot].has[m->h.shard] = m->b.params.version.n;
	z->hand[slot].fresh = true;
}

/* --- shards --- */

static void arrives(struct serial *z, const struct tw_note *note)
{
	struct piece_of *h = &z->shard[note->shard];
	struct hand *w = &z->hand[note->slot];
	const struct gift *c;
	uint64_t since, tau;

	h->arrived += note->count;
	if (h->collected && h->bucket[h->collected - 1].slot == note->slot &&
	    h->bucket[h->collected - 1].seq == note->seq)
		return; /* another range of the same */
	if (note->seq > w->gifts)
		flush(z, note->slot);
	if (note->seq == 0 || note->seq > w->gifts || h->collected == 64) {
		complain(z, "shard %u applies contribution %llu of worker %u, which made %llu",
			 note->shard, (unsigned long long)note->seq, note->slot,
			 (unsigned long long)w->gifts);
		return;
	}
	c = &w->gift[note->seq - 1];
	since = h->version - c->base[note->shard];
	z->seen.stale += since > 0;
	tau = since > c->own ? since - c->own : 0;
	if (note->version != h->version || note->apply.tau != tau)
		complain(z, "shard %u: staleness %llu at version %llu, not %llu at %llu",
			 note->shard, (unsigned long long)note->apply.tau,
			 (unsigned long long)note->version, (unsigned long long)tau,
			 (unsigned long long)h->version);
	if (z->f->rounds && tau != 0)
		complain(z, "shard %u: a round takes what was computed %llu versions ago",
			 note->shard, (unsigned long long)tau);
	h->bucket[h->collected].slot = note->slot;
	h->bucket[h->collected].seq = note->seq;
	h->bucket[h->collected++].tau = tau;
}

static const struct gift *gift_of(struct serial *z, const struct piece_of *h, uint32_t j)
{
	return &z->hand[h->bucket[j].slot].gift[h->bucket[j].seq - 1];
}

/* Element i of contribution j, a corrected mean. */
static float corrected(struct serial *z, struct piece_of *h, uint32_t j, size_t i, struct cell *c)
{
	const struct gift *x = gift_of(z, h, j);
	const float g =
		x->divide == 1.0f ? x->g[h->from + i] : 1.0f / x->divide * x->g[h->from + i];

	c->policy = h->policy + 3 * i;
	c->rule = h->rule + 4 * i;
	c->mine = h->mine + h->bucket[j].slot * h->n + i;
	c->before = h->before[h->bucket[j].slot];
	c->sent = shown_to(z, h, x->base[h - z->shard], h->bucket[j].slot)[i];
	c->tau = h->bucket[j].tau;
	c->count = h->corrections + j + 1;
	c->factor = 1.0f;
	return z->f->correct ? z->f->correct(z->f, c, g) : g;
}

static float descended(struct serial *z, struct piece_of *h, struct cell *c, float g)
{
	const struct tw_plan *p = z->p;
	float next;

	if (p->decay != 0.0f && !z->f->own_decay && !z->f->prepare)
		g = fmaf(p->decay * c->factor, c->w, g);
	c->count = h->version + 1;
	c->decay = z->f->own_decay ? p->decay : 0.0f;
	next = z->f->step(z->f, c, g);
	if (z->f->observe)
		z->f->observe(z->f, c);
	return next;
}

/* One element of the update: the whole line. */
static float updated(struct serial *z, struct piece_of *h, size_t i, float rate)
{
	struct cell c = { .w = h->w[i], .rate = rate, .rate_max = (float)z->p->schedule.rate };
	float sum = 0, weight = 0, all, factor = 0;

	for (uint32_t j = 0; z->f->in_turn && j < h->collected; j++) {
		const float g = corrected(z, h, j, i, &c);

		c.w = descended(z, h, &c, g);
	}
	if (z->f->in_turn)
		return c.w;
	for (uint32_t j = 0; j < h->collected; j++)
		weight += gift_of(z, h, j)->weight;
	if (h->collected == 1) {
		const struct gift *x = gift_of(z, h, 0);

		sum = corrected(z, h, 0, i, &c);
		if (z->f->total && z->f->correct)
			sum *= weight;
		else if (z->f->total)
			sum = weight / x->divide * x->g[h->from + i];
		if (z->f->total)
			c.factor *= weight;
		return descended(z, h, &c, sum);
	}
	all = z->f->total ? 1.0f : weight;
	for (uint32_t j = 0; j < h->collected; j++) {
		const struct gift *x = gift_of(z, h, j);
		float g = corrected(z, h, j, i, &c), share = x->weight;

		if (!z->f->correct) { /* a sum of batches is weighed and divided in one */
			g = x->g[h->from + i];
			share = x->weight / x->divide;
		}
		sum = j ? fmaf(share, g, sum) : share * g;
		factor = j ? fmaf(x->weight / all, c.factor, factor) : x->weight / all * c.factor;
	}
	if (!z->f->correct)
		factor = z->f->total ? weight : 1.0f;
	c.factor = factor;
	return descended(z, h, &c, 1.0f / all * sum);
}

/* Statistics: the mean by samples in a round, elsewhere the change ÷ workers. */
static void move_buffers(struct serial *z, struct piece_of *h)
{
	for (size_t i = h->trainable; i < h->n; i++) {
		float sum = 0, weight = 0;

		for (uint32_t j = 0; j < h->collected; j++) {
			const struct gift *x = gift_of(z, h, j);
			const float g = x->g[h->from + i], share = x->weight / x->divide;

			if (!z->f->rounds)
				h->w[i] = fmaf(1.0f / (x->divide * (float)z->p->crew.workers), g,
					       h->w[i]);
			sum = j ? fmaf(share, g, sum) : share * g;
			weight += x->weight;
		}
		if (z->f->rounds)
			h->w[i] += 1.0f / weight * sum;
	}
}

static void update(struct serial *z, const struct tw_note *note)
{
	struct piece_of *h = &z->shard[note->shard];
	const uint32_t shard = note->shard;
	float rate;

	if (!h->collected) {
		complain(z, "shard %u updates with nothing", shard);
		return;
	}
	rate = z->f->stamped ? gift_of(z, h, 0)->rate[shard] : rate_now(z, h);
	if (z->f->in_turn && !z->f->total)
		rate /= (float)h->collected;
	if ((float)note->update.rate != rate)
		complain(z, "shard %u: rate %g, not %g", shard, note->update.rate, (double)rate);
	for (size_t i = 0; i < h->trainable; i++)
		h->w[i] = updated(z, h, i, rate);
	move_buffers(z, h);
	for (uint32_t j = 0; j < h->collected; j++)
		h->before[h->bucket[j].slot] = rate;
	if (z->f->statistic) {
		float *v = made(h->n, sizeof *v);
		const double beta =
			z->f->unbias ? power(z->f->beta, h->corrections + h->collected) : 0;

		for (size_t i = 0; i < h->trainable; i++)
			v[i] = h->policy[3 * i + 2];
		h->statistic = 1.0 / (1.0 - beta) * lanes_sum(v, h->trainable, false);
		free(v);
	}
	h->corrections += h->collected;
	h->collected = 0;
	h->applied += h->arrived;
	h->arrived = 0;
	h->version++;
	z->seen.updates++;
	if (note->version != h->version)
		complain(z, "shard %u is at version %llu, not %llu", shard,
			 (unsigned long long)note->version, (unsigned long long)h->version);
	show(z, h);
}

bool serial_note(void *arg, const struct tw_note *note)
{
	struct serial *z = arg;

	if (z->complaint[0])
		return true; /* what follows would only be noise */
	switch (note->kind) {
	case TW_NOTE_HOSTED:
		memcpy(z->shard[note->shard].w, note->hosted.w, note->hosted.n * sizeof(float));
		show(z, &z->shard[note->shard]);
		break;
	case TW_NOTE_STEP:
		begin(z, note);
		break;
	case TW_NOTE_GRADIENT:
		computed(z, note);
		break;
	case TW_NOTE_APPLY:
		arrives(z, note);
		break;
	case TW_NOTE_UPDATE:
		update(z, note);
		break;
	case TW_NOTE_DROP:
		z->seen.dropped++;
		break;
	default:
		break;
	}
	return true;
}

void serial_agrees(const char *label, const char *text, const struct formula *f, struct seen *seen)
{
	struct outcome o;
	struct serial *z;
	float *mine;

	outcome_open(&o, text, NULL, TW_WORLD_SIM);
	z = serial_new(&o, f);
	outcome_run(&o, &(const struct watch){
				.observer = serial_note, .worker_hears = serial_hears, .arg = z });
	if (z->complaint[0])
		fail_msg("%s: %s\n%s", label, z->complaint, text);
	mine = made(o.n, sizeof *mine);
	serial_vector(z, mine);
	for (size_t i = 0; i < o.n; i++)
		if (memcmp(&mine[i], &o.vector[i], sizeof mine[i]) != 0)
			fail_msg("%s: element %zu of %zu is %.9g, the serial loop has %.9g\n%s",
				 label, i, o.n, (double)o.vector[i], (double)mine[i], text);
	seen->runs++;
	seen->updates += z->seen.updates;
	seen->stale += z->seen.stale;
	seen->skipped += z->seen.skipped;
	seen->dropped += z->seen.dropped;
	seen->given_up += z->seen.given_up;
	seen->small += z->seen.small;
	free(mine);
	serial_free(z);
	outcome_close(&o);
}
