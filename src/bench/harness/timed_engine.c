/* SPDX-License-Identifier: Apache-2.0 */
/* timed_engine.c - an engine around another that notes when it was asked, and a heap that counts.
 * */
#include "bench/harness/timed_engine.h"

#include "metrics/progress.h"

#include <stdlib.h>
#include <time.h>

/* --- the engine --- */

/* Which engine this thread asked last, and its CPU time when that answered. */
static _Thread_local struct {
	const struct tw_timed *of;
	int64_t cpu;
} last;

int64_t tw_timed_cpu(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * TW_SECOND + t.tv_nsec;
}

static enum tw_status timed_gradient(const struct tw_engine *engine, void *scratch,
				     const struct tw_inputs *in, float *gradient,
				     struct tw_score *score)
{
	struct tw_timed *t = (struct tw_timed *)engine;
	const size_t call = atomic_fetch_add_explicit(&t->calls, 1, memory_order_relaxed);
	const int64_t began = tw_clock(), cpu = tw_timed_cpu();
	enum tw_status status;

	if (call < t->room)
		t->at[call] = began;
	if (last.of == t) {
		atomic_fetch_add_explicit(&t->between_ns, cpu - last.cpu, memory_order_relaxed);
		atomic_fetch_add_explicit(&t->betweens, 1, memory_order_relaxed);
	}
	status = t->inner->class->gradient(t->inner, scratch, in, gradient, score);
	last.of = t;
	last.cpu = tw_timed_cpu();
	atomic_fetch_add_explicit(&t->cpu_ns, last.cpu - cpu, memory_order_relaxed);
	atomic_fetch_add_explicit(&t->wall_ns, tw_clock() - began, memory_order_relaxed);
	return status;
}

static enum tw_status timed_start(const struct tw_engine *engine, size_t from, size_t n, float *out)
{
	const struct tw_engine *inner = ((const struct tw_timed *)engine)->inner;

	return inner->class->init(inner, from, n, out);
}

static enum tw_status timed_evaluate(const struct tw_engine *engine, void *scratch,
				     const struct tw_inputs *in, struct tw_score *score)
{
	const struct tw_engine *inner = ((const struct tw_timed *)engine)->inner;

	return inner->class->evaluate(inner, scratch, in, score);
}

static void timed_close(struct tw_engine *engine) {}

static const struct tw_engine_class timed_class = {
	.name = "timed",
	.init = timed_start,
	.gradient = timed_gradient,
	.evaluate = timed_evaluate,
	.close = timed_close,
};

void tw_timed_init(struct tw_timed *t, const struct tw_engine *inner, int64_t *at, size_t room)
{
	*t = (struct tw_timed){ .engine = *inner, .inner = inner, .at = at, .room = room };
	t->engine.class = &timed_class;
	t->engine.cuts = 0; /* it knows only everything at once */
}

static int ascending(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y ? 1 : 0;
}

double tw_timed_rate(struct tw_timed *t, size_t warm, size_t tail)
{
	size_t n = atomic_load(&t->calls), end;

	if (n > t->room)
		n = t->room;
	if (n < warm + tail + 2)
		return 0.0;
	qsort(t->at, n, sizeof t->at[0], ascending);
	end = n - 1 - tail;
	return (double)(end - warm) * (double)TW_SECOND / (double)(t->at[end] - t->at[warm]);
}

double tw_timed_between(const struct tw_timed *t)
{
	const size_t n = atomic_load(&t->betweens);

	return n ? (double)atomic_load(&t->between_ns) / (double)n / (double)TW_SECOND : 0.0;
}

/* --- the heap --- */

/* In front of what is handed out, as long as the alignment. */
struct front {
	_Alignas(TW_ALIGN) size_t bytes;
};

static void *counted_get(struct tw_heap *heap, size_t bytes)
{
	struct tw_counted *c = (struct tw_counted *)heap;
	struct front *f = bytes < SIZE_MAX - sizeof *f
				  ? tw_heap_system.get(&tw_heap_system, sizeof *f + bytes)
				  : NULL;
	size_t now, most;

	if (!f)
		return NULL;
	f->bytes = bytes;
	now = atomic_fetch_add(&c->now, bytes) + bytes;
	most = atomic_load(&c->most);
	while (now > most && !atomic_compare_exchange_weak(&c->most, &most, now))
		;
	return f + 1;
}

static void counted_put(struct tw_heap *heap, void *memory)
{
	struct tw_counted *c = (struct tw_counted *)heap;
	struct front *f = memory;

	if (!f)
		return;
	f--;
	atomic_fetch_sub(&c->now, f->bytes);
	tw_heap_system.put(&tw_heap_system, f);
}

void tw_counted_init(struct tw_counted *c)
{
	*c = (struct tw_counted){ .heap = { .get = counted_get, .put = counted_put } };
}
