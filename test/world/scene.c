/* SPDX-License-Identifier: Apache-2.0 */
/* scene.c - see scene.h. */
#include "world/scene.h"

#include <sched.h>
#include <time.h>

struct tw_actor *scene_actor_new(struct tw_heap *heap, const void *arg)
{
	const struct part *p = arg;
	struct tw_actor *a = tw_heap_zeros(heap, sizeof *a);

	if (!a)
		return NULL;
	a->heap = heap;
	a->scene = p->scene;
	a->number = p->number;
	return a;
}

void scene_actor_free(struct tw_actor *a)
{
	tw_block_drop(a->block);
	a->heap->put(a->heap, a);
}

struct tw_addr scene_master(void)
{
	return (struct tw_addr){ 0, TW_MASTER, 0 };
}
struct tw_addr scene_shard(uint32_t k)
{
	return (struct tw_addr){ 1, TW_SHARD, (uint16_t)k };
}
struct tw_addr scene_worker(uint32_t k)
{
	return (struct tw_addr){ 2 + k, TW_WORKER, 0 };
}

void scene_say(struct tw_context *ctx, struct tw_addr to, enum tw_type type, uint32_t from,
	       uint64_t seq)
{
	struct tw_msg *m = tw_msg_to(ctx, to, type);

	if (!m)
		return;
	m->h.from = from;
	m->h.seq = seq;
	tw_send(ctx, m);
}

static void scene_ignore(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m) {}

void scene_finish(struct tw_context *ctx)
{
	struct tw_totals t = { .steps = 77 };

	ctx->world->finish(ctx, TW_OK, &t);
}

void scene_master_counts(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (m->h.type == TW_DONE && ++a->count == a->scene->workers)
		scene_finish(ctx);
}

int64_t scene_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * TW_SECOND + t.tv_nsec;
}

void scene_busy(int64_t ns)
{
	const int64_t until = scene_clock() + ns;

	while (scene_clock() < until)
		;
}

enum tw_status scene_until_cancelled(const struct tw_engine *e, void *scratch,
				     const struct tw_inputs *in, float *gradient,
				     struct tw_score *score)
{
	const int64_t until = scene_clock() + 20 * TW_SECOND;

	while (scene_clock() < until) {
		if (atomic_load(in->cancel))
			return TW_CANCELLED;
		sched_yield();
	}
	return TW_OK;
}

static enum tw_status no_save(struct tw_store *s, uint64_t cut, const struct tw_part *parts,
			      size_t count)
{
	return TW_IO;
}

static void computes_nothing(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	(void)a, (void)ctx, (void)c;
}

enum tw_status scene_run(struct scene *s)
{
	static const size_t tensor[] = { 0, 4 };
	struct part part[1 + SHARDS_MAX + WORKERS_MAX];
	struct tw_seat seat[1 + SHARDS_MAX + WORKERS_MAX];
	struct tw_store nothing = { .save = no_save };
	struct tw_engine engine = { .class = &s->engine,
				    .trainable = 4,
				    .tensor = tensor,
				    .tensors = 1,
				    .samples = 10,
				    .tests = 1,
				    .scratch_bytes = s->scratch };
	struct tw_cluster cluster = {
		.seat = seat,
		.seats = 1 + s->shards + s->workers,
		.nodes = 2 + s->workers,
		.engine = &engine,
		.store = s->store ? s->store : &nothing,
		.heap = s->heap ? s->heap : &tw_heap_system,
		.log = s->log,
		.observer = s->observer,
		.observer_arg = s,
		.interrupted = s->interrupted,
	};
	struct tw_actor_class *class[] = { &s->master, &s->shard, &s->worker };
	size_t k = 0;

	for (int c = 0; c < 3; c++) {
		class[c]->new = scene_actor_new;
		class[c]->free = scene_actor_free;
		if (!class[c] -> message)
			class[c]->message = scene_ignore;
	}
	if (!s->worker.computed) /* it has a thread of its own, whether it computes or not */
		s->worker.computed = computes_nothing;
	seat[k++] = (struct tw_seat){ scene_master(), &s->master, NULL };
	for (uint32_t j = 0; j < s->shards; j++)
		seat[k++] = (struct tw_seat){ scene_shard(j), &s->shard, NULL };
	for (uint32_t j = 0; j < s->workers; j++)
		seat[k++] = (struct tw_seat){ scene_worker(j), &s->worker, NULL };
	for (k = 0; k < cluster.seats; k++) {
		part[k].scene = s;
		part[k].number = (uint32_t)(k <= s->shards ? k - 1 : k - 1 - s->shards);
		seat[k].arg = &part[k];
	}
	return tw_threads_run(&cluster, &s->options, &s->ran);
}
