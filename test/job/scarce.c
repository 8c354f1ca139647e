/* SPDX-License-Identifier: Apache-2.0 */
/* scarce.c - clusters without memory: every request refused in turn. */
#include "job/scarce.h"
#include "job/reading.h"

#include "base/refusing.h"
#include "job/trial.h"
#include "world/memory_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <cmocka.h>

/* What a run came across, so that a loop that misses the paths it is for fails. */
struct seen {
	unsigned cuts, evaluations, hostings, joins;
};

static bool look(void *arg, const struct tw_note *note)
{
	struct seen *seen = arg;

	seen->cuts += note->kind == TW_NOTE_CUT;
	seen->evaluations += note->kind == TW_NOTE_EVAL;
	seen->hostings += note->kind == TW_NOTE_HOSTED;
	seen->joins += note->kind == TW_NOTE_VIEW && note->view.state == TW_LIVE;
	return true;
}

/* Worlds recycle messages, so that a heap refuses few of them: a world between the actors and
 * theirs refuses the nth itself. */
static struct {
	const struct tw_world *real;
	struct tw_world world;
	struct tw_actor_class class[TW_ROLES];
	_Atomic unsigned calls;
	unsigned refuse;
	bool onwards;
} post;

static struct tw_msg *post_new(struct tw_context *ctx)
{
	const unsigned nth = atomic_fetch_add(&post.calls, 1) + 1;

	if (nth == post.refuse || (post.onwards && post.refuse && nth > post.refuse))
		return NULL;
	return post.real->msg_new(ctx);
}

static const struct tw_actor_class *const real_class[TW_ROLES] = {
	[TW_MASTER] = &tw_master_class,
	[TW_SERVER] = &tw_server_class,
	[TW_SHARD] = &tw_shard_class,
	[TW_WORKER] = &tw_worker_class,
};

/* Worlds start the actors of a node one after the other, and all before anything else happens. */
static void post_start(struct tw_actor *a, struct tw_context *ctx)
{
	const struct tw_actor_class *class = real_class[ctx->self.role];

	if (ctx->world != &post.world) {
		if (post.real != ctx->world) {
			post.real = ctx->world;
			post.world = *ctx->world;
			post.world.msg_new = post_new;
		}
		ctx->world = &post.world;
	}
	if (class->start)
		class->start(a, ctx);
}

static void post_between(struct trial *t)
{
	for (int role = 0; role < TW_ROLES; role++) {
		post.class[role] = *real_class[role];
		post.class[role].start = post_start;
	}
	post.real = NULL;
	for (size_t k = 0; k < t->cast.seats; k++)
		t->cast.seat[k].class = &post.class[t->cast.seat[k].addr.role];
}

/* A store that keeps nothing and always has the same cut, so that every run resumes the same. */
struct frozen {
	struct tw_store store; /* must stay first */
	struct tw_store *inner;
};

static enum tw_status frozen_save(struct tw_store *s, uint64_t cut, const struct tw_part *parts,
				  size_t count)
{
	return TW_OK;
}

static enum tw_status frozen_put(struct tw_store *s, uint64_t cut, const struct tw_part *part)
{
	return TW_OK;
}

static enum tw_status frozen_load(struct tw_store *s, uint64_t *cut, struct tw_part **parts,
				  size_t *count)
{
	struct tw_store *inner = ((struct frozen *)s)->inner;

	return inner->load(inner, cut, parts, count);
}

static void frozen_loaded_free(struct tw_store *s, struct tw_part *parts, size_t count)
{
	struct tw_store *inner = ((struct frozen *)s)->inner;

	inner->loaded_free(inner, parts, count);
}

/* Refuse the nth message, or the nth request for anything else. */
enum what { MEMORY, MESSAGES, WHATS };

struct loop {
	const struct scarce *s;
	struct trial t;
	struct tw_store *store; /* NULL: a new one for every run */
	enum what what;
	bool onwards;
	unsigned nth, runs;
};

static enum tw_status run(const struct loop *l, struct refusing *heap, struct tw_ran *ran)
{
	const enum tw_status st = trial_run(&l->t, &heap->heap, l->store, ran);

	tw_totals_release(&ran->totals);
	return st;
}

static void wrong(const struct loop *l, const char *what)
{
	fail_msg("%s, %u workers, %u shards: %s %u%s refused: %s", l->s->preset, l->s->workers,
		 l->s->shards, l->what == MEMORY ? "request" : "message", l->nth,
		 l->onwards ? " and all after it" : "", what);
}

/* Was anything refused? */
static bool one(struct loop *l)
{
	struct refusing heap = REFUSING(l->what == MEMORY ? l->nth : 0);
	const bool threads = l->t.job->world == TW_WORLD_THREADS;
	struct tw_ran ran;
	enum tw_status st;
	bool refused;

	heap.onwards = post.onwards = l->onwards;
	post.calls = 0;
	post.refuse = l->what == MESSAGES ? l->nth : 0;
	st = run(l, &heap, &ran);
	l->runs++;
	refused = (l->what == MEMORY ? heap.calls : post.calls) >= l->nth;
	if (st != TW_OK && (st != TW_NO_MEMORY || !refused))
		wrong(l, ran.error.text);
	if (st == TW_OK && refused && !threads) /* in threads it may be after the end */
		wrong(l, "the run does not say so");
	if (heap.live != 0)
		wrong(l, "memory leaked");
	return refused;
}

static void loop(struct loop *l)
{
	post_between(&l->t);
	for (int k = 0; k < 2 * WHATS; k++) {
		l->what = k / 2;
		l->onwards = k % 2;
		for (l->nth = 1; one(l); l->nth += l->nth < l->s->first ? 1 : l->s->stride)
			;
	}
}

static const char *text(const char *may)
{
	return may ? may : "";
}

static void open_sim(struct trial *t, const struct scarce *s, uint32_t workers, uint32_t shards)
{
	trial_open(t, TW_WORLD_SIM,
		   "data: {source: none, samples: 32, batch: 2}\n"
		   "model: {quadratic: {dimension: 6}}\n"
		   "%s"
		   "cluster: {workers: %u, servers: %u, shards: %u, min: 1, wait: 5s, limit: 1s}\n"
		   "checkpoint: {every: 350ms%s}\n"
		   "strategy: %s\n"
		   "sim: {closed_limit: 100ms, save_time: 10ms%s, faults: ["
		   "{crash: worker 1, at: 250ms, restart: 200ms}, "
		   "{crash: server 0, at: 800ms, restart: 300ms}, "
		   "{crash: master, at: 1300ms, restart: 200ms}, "
		   "{reset: worker 0, to: server 0, at: 150ms}]}\n",
		   s->optimises ? "train: {epochs: 9, evaluate: 2}\n"
				: "train: {epochs: 2, evaluate: 0.5}\nupdate: {rate: 0.01}\n",
		   workers, s->servers, shards, text(s->checkpoint),
		   with_fields(s->preset, s->strategy), text(s->sim));
}

/* A cut of another cluster. */
static void make_cut(const struct scarce *s, struct tw_store *store)
{
	struct tw_ran ran;
	struct trial t;

	open_sim(&t, s, s->from_workers, s->from_shards);
	t.job->plan.checkpoint.stop_after = 1;
	if (trial_run(&t, &tw_heap_system, store, &ran) != TW_INTERRUPTED)
		fail_msg("%s: %s", s->preset, ran.error.text);
	tw_totals_release(&ran.totals);
	trial_close(&t);
}

unsigned scarce_sim(const struct scarce *s)
{
	struct refusing heap = REFUSING(0);
	struct frozen frozen = { .store = { frozen_save, frozen_load, frozen_loaded_free,
					    frozen_put } };
	struct loop l = { .s = s };
	struct seen seen = { 0 };
	struct tw_ran ran;

	if (s->from_workers) {
		frozen.inner = tw_memory_store_new(&tw_heap_system);
		make_cut(s, frozen.inner);
		l.store = &frozen.store;
	}
	open_sim(&l.t, s, s->workers, s->shards);
	l.t.resume = s->from_workers != 0;
	l.t.observer = look;
	l.t.observer_arg = &seen;
	if (run(&l, &heap, &ran) != TW_OK)
		fail_msg("%s: %s", s->preset, ran.error.text);
	assert_int_equal(heap.live, 0);
	assert_true(seen.evaluations > 0 && seen.hostings > s->shards && seen.joins > s->workers);
	assert_true(seen.cuts > 0);
	l.t.observer = NULL;
	loop(&l);
	print_message("%s: %u requests, %u messages, %u runs\n", s->preset, (unsigned)heap.calls,
		      (unsigned)post.calls, l.runs);
	trial_close(&l.t);
	tw_memory_store_free(frozen.inner);
	return l.runs;
}

unsigned scarce_threads(const struct scarce *s)
{
	struct refusing heap = REFUSING(0);
	struct loop l = { .s = s };
	struct tw_ran ran;

	trial_open(&l.t, TW_WORLD_THREADS,
		   "data: {source: none, samples: 32, batch: 2}\n"
		   "model: {quadratic: {dimension: 6}}\n"
		   "train: {epochs: 2, evaluate: 0.5}\n"
		   "update: {rate: 0.01}\n"
		   "cluster: {workers: %u, servers: %u, shards: %u}\n"
		   "checkpoint: {every: 1ms%s}\n"
		   "strategy: %s\n",
		   s->workers, s->servers, s->shards, text(s->checkpoint),
		   with_fields(s->preset, s->strategy));
	if (run(&l, &heap, &ran) != TW_OK)
		fail_msg("%s: %s", s->preset, ran.error.text);
	assert_int_equal(heap.live, 0);
	loop(&l);
	print_message("%s: about %u requests, %u messages, %u runs\n", s->preset,
		      (unsigned)heap.calls, (unsigned)post.calls, l.runs);
	trial_close(&l.t);
	return l.runs;
}
