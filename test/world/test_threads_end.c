/* SPDX-License-Identifier: Apache-2.0 */
/* test_threads_end.c - the threads world with small actors: how runs end, stores, waits, memory. */
#include "base/refusing.h"
#include "world/scene.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* The end: computations under way stop, totals arrive, the first cause is kept, nothing leaks. */

static void busy_start(struct tw_actor *a, struct tw_context *ctx)
{
	ctx->world->compute(ctx, &a->compute[0]);
	scene_say(ctx, scene_shard(0), TW_PUSH, a->number, 0);
}

static void ending_start(struct tw_actor *a, struct tw_context *ctx)
{
	tw_timer(ctx, 0, 30 * MS);
}

static void ending_timer(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	struct tw_totals t = { .steps = 5, .shards = 1, .vector_heap = ctx->heap };

	for (uint32_t k = 0; k < a->scene->workers; k++)
		scene_say(ctx, scene_worker(k), TW_BYE, 0, 0); /* nobody may get it */
	t.vector = ctx->heap->get(ctx->heap, sizeof *t.vector);
	t.vector[0] = tw_block_new(ctx->heap, 64);
	ctx->world->finish(ctx, TW_OK, &t);
	/* a second end changes nothing, and what it brings is dropped */
	t.steps = 6;
	t.vector = ctx->heap->get(ctx->heap, sizeof *t.vector);
	t.vector[0] = tw_block_new(ctx->heap, 64);
	ctx->world->finish(ctx, TW_IO, &t);
}

static void late_done(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	atomic_fetch_add(&a->scene->wrong, 1);
}

static void the_end_stops_computations(void **state)
{
	const int64_t before = scene_clock();
	struct refusing heap = REFUSING(0);
	struct scene s = {
		.master = { .start = ending_start, .timer = ending_timer },
		.worker = { .start = busy_start, .computed = late_done },
		.workers = 3,
		.shards = 1,
		.heap = &heap.heap,
		.engine = { .gradient = scene_until_cancelled },
	};

	assert_int_equal(scene_run(&s), TW_OK);
	assert_true(scene_clock() - before < 10 * TW_SECOND);
	assert_int_equal(s.wrong, 0);
	assert_int_equal(s.ran.totals.steps, 5);
	assert_int_equal(s.ran.error.status, TW_OK);
	assert_string_equal(s.ran.error.text, "");
	assert_int_equal(heap.live, 2);
	tw_totals_release(&s.ran.totals);
	assert_int_equal(heap.live, 0);
}

static void failing_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	tw_give_up(ctx, TW_REFUSED, "worker %u was wrong", m->h.from);
	tw_give_up(ctx, TW_IO, "too late");
}

static void the_first_failure_is_kept(void **state)
{
	struct scene s = {
		.shard = { .message = failing_message },
		.worker = { .start = busy_start, .computed = late_done },
		.workers = 4,
		.shards = 1,
		.engine = { .gradient = scene_until_cancelled },
	};

	assert_int_equal(scene_run(&s), TW_REFUSED);
	assert_int_equal(s.ran.totals.status, TW_REFUSED);
	assert_int_equal(strncmp(s.ran.error.text, "shard 0: worker ", 16), 0);
	assert_non_null(strstr(s.ran.error.text, " was wrong"));
}

/* The store: saving happens outside the actor, while messages go on; loading gives it back. */

struct fake_store {
	struct tw_store store;
	struct scene *scene;
	struct tw_heap *heap;
	struct tw_part part;
	uint64_t cut;
	int inside;
};

static enum tw_status fake_save(struct tw_store *store, uint64_t cut, const struct tw_part *parts,
				size_t count)
{
	struct fake_store *f = (struct fake_store *)store;
	const int64_t until = scene_clock() + 10 * TW_SECOND;
	const uint64_t from = atomic_load(&f->scene->total);

	f->inside++;
	/* the master is entered again and again meanwhile */
	while (atomic_load(&f->scene->total) < from + 100 && scene_clock() < until)
		sched_yield();
	if (atomic_load(&f->scene->total) < from + 100)
		return TW_IO;
	tw_block_drop(f->part.bytes);
	f->part = parts[0];
	tw_block_keep(f->part.bytes);
	f->cut = cut;
	f->inside--;
	return count == 1 ? TW_OK : TW_IO;
}

static enum tw_status fake_load(struct tw_store *store, uint64_t *cut, struct tw_part **parts,
				size_t *count)
{
	struct fake_store *f = (struct fake_store *)store;

	*cut = f->cut;
	*count = f->cut ? 1 : 0;
	*parts = f->cut ? f->heap->get(f->heap, sizeof **parts) : NULL;
	if (f->cut && !*parts)
		return TW_NO_MEMORY;
	if (f->cut) {
		**parts = f->part;
		tw_block_keep(f->part.bytes);
	}
	return TW_OK;
}

static void fake_loaded_free(struct tw_store *store, struct tw_part *parts, size_t count)
{
	struct fake_store *f = (struct fake_store *)store;

	f->inside++;
	for (size_t k = 0; k < count; k++)
		tw_block_drop(parts[k].bytes);
	f->heap->put(f->heap, parts);
	f->inside--;
}

static void saver_start(struct tw_actor *a, struct tw_context *ctx)
{
	ctx->world->look(ctx, 0, UINT64_MAX);
}

static void saver_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	a->count++;
	atomic_store(&a->scene->total, a->count);
	if (!a->scene->flag)
		scene_say(ctx, m->from, TW_ACK, 0, 0);
}

static void saver_saves(struct tw_actor *a, struct tw_context *ctx, uint64_t cut)
{
	struct tw_part part = { .name = "master", .bytes = tw_block_new(ctx->heap, 8) };

	if (!part.bytes) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a part");
		return;
	}
	memset(part.bytes->data, (int)cut, 8);
	ctx->world->save(ctx, cut, &part, 1);
	tw_block_drop(part.bytes);
}

static void saver_loaded(struct tw_actor *a, struct tw_context *ctx, uint64_t cut,
			 const struct tw_part *parts, size_t count, enum tw_status status)
{
	struct scene *s = a->scene;

	s->statuses[s->ordered] = status;
	s->order[s->ordered++] = (uint32_t)cut;
	if (cut == 0) {
		if (count)
			atomic_fetch_add(&s->wrong, 1);
		saver_saves(a, ctx, 7);
	} else {
		if (count != 1 || strcmp(parts[0].name, "master") || parts[0].bytes->data[7] != cut)
			atomic_fetch_add(&s->wrong, 1);
		if (cut == 7)
			saver_saves(a, ctx, 8);
		else
			scene_finish(ctx);
	}
}

static void saver_saved(struct tw_actor *a, struct tw_context *ctx, uint64_t cut,
			enum tw_status status)
{
	struct scene *s = a->scene;

	s->statuses[s->ordered] = status;
	s->order[s->ordered++] = 100 + (uint32_t)cut;
	ctx->world->look(ctx, 0, UINT64_MAX);
}

static void chatter_start(struct tw_actor *a, struct tw_context *ctx)
{
	scene_say(ctx, scene_master(), TW_HAVE, a->number, 0);
}

static void chatter_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	scene_say(ctx, scene_master(), TW_HAVE, a->number, 0);
}

static void saving_stops_nobody(void **state)
{
	static const uint32_t order[] = { 0, 107, 7, 108, 8 };
	struct refusing heap = REFUSING(0);
	struct fake_store store = { .store = { fake_save, fake_load, fake_loaded_free },
				    .heap = &heap.heap };
	struct scene s = {
		.master = { .start = saver_start,
			    .message = saver_message,
			    .saved = saver_saved,
			    .loaded = saver_loaded },
		.worker = { .start = chatter_start, .message = chatter_message },
		.workers = 2,
		.heap = &heap.heap,
		.store = &store.store,
	};

	store.scene = &s;
	assert_int_equal(scene_run(&s), TW_OK);
	assert_int_equal(s.wrong, 0);
	assert_int_equal(s.ordered, 5);
	assert_memory_equal(s.order, order, sizeof order);
	for (int k = 0; k < 5; k++)
		assert_int_equal(s.statuses[k], TW_OK);
	tw_block_drop(store.part.bytes);
	assert_int_equal(heap.live, 0);
}

/* Every allocation refused in turn: a clean end each time, and nothing left behind. */

static void thrifty_start(struct tw_actor *a, struct tw_context *ctx)
{
	for (uint32_t k = 0; k < 10; k++)
		tw_timer(ctx, k, TW_SECOND);
	for (uint64_t k = 0; k < 40; k++) {
		struct tw_msg *m =
			tw_msg_to(ctx, scene_shard((uint32_t)k % a->scene->shards), TW_PUSH);

		if (!m || !tw_msg_tail(ctx, m, 16))
			return;
		memset(m->tail->data, 1, 16);
		m->payload = tw_block_new(ctx->heap, 32);
		if (!m->payload) {
			ctx->world->msg_free(ctx, m);
			tw_give_up(ctx, TW_NO_MEMORY, "no memory for a payload");
			return;
		}
		m->h.payload = 32;
		memset(m->payload->data, 2, 32);
		tw_send(ctx, m);
	}
}

static void thrifty_shard(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	tw_block_drop(a->block);
	a->block = tw_block_keep(m->payload);
	scene_say(ctx, m->from, TW_ACK, a->number, 0);
}

static void thrifty_worker(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (++a->count == 40)
		ctx->world->compute(ctx, &a->compute[0]);
}

static void thrifty_done(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	if (c->status == TW_NO_MEMORY)
		tw_give_up(ctx, c->status, "no memory for scratch");
	scene_say(ctx, scene_master(), TW_DONE, a->number, 0);
}

static void thrifty_master(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	saver_saves(a, ctx, 3);
}

static void thrifty_saved(struct tw_actor *a, struct tw_context *ctx, uint64_t cut,
			  enum tw_status status)
{
	if (status == TW_OK)
		scene_finish(ctx);
	else
		tw_give_up(ctx, status, "could not save");
}

static enum tw_status save_nothing(struct tw_store *s, uint64_t cut, const struct tw_part *parts,
				   size_t count)
{
	return TW_OK;
}

static enum tw_status ready_gradient(const struct tw_engine *e, void *scratch,
				     const struct tw_inputs *in, float *gradient,
				     struct tw_score *score)
{
	return TW_OK;
}

static void thrifty_timer(struct tw_actor *a, struct tw_context *ctx, uint32_t timer) {}

static void every_allocation_may_fail(void **state)
{
	struct tw_store store = { .save = save_nothing };

	for (unsigned nth = 1;; nth++) {
		struct refusing heap = REFUSING(nth);
		struct scene s = {
			.master = { .message = thrifty_master, .saved = thrifty_saved },
			.shard = { .message = thrifty_shard },
			.worker = { .start = thrifty_start,
				    .message = thrifty_worker,
				    .timer = thrifty_timer,
				    .computed = thrifty_done },
			.workers = 1,
			.shards = 3,
			.scratch = 10,
			.heap = &heap.heap,
			.store = &store,
			.options = { .hash = true },
			.engine = { .gradient = ready_gradient },
		};
		const enum tw_status status = scene_run(&s);

		assert_int_equal(heap.live, 0);
		if (heap.calls < nth) {
			assert_int_equal(status, TW_OK);
			assert_true(nth > 100);
			return;
		}
		assert_int_equal(status, TW_NO_MEMORY);
		assert_non_null(strstr(s.ran.error.text, "no memory for"));
	}
}

/* Interrupts and observers. */

static void interrupted(struct tw_actor *a, struct tw_context *ctx)
{
	atomic_fetch_add(&a->scene->seen, 1);
	if (a->scene->rounds)
		tw_give_up(ctx, TW_INTERRUPTED, "stopped");
}

static void an_interrupt_reaches_the_master(void **state)
{
	_Atomic int signals = 1;
	struct scene s = { .master = { .interrupt = interrupted },
			   .workers = 2,
			   .rounds = 1,
			   .interrupted = &signals };

	assert_int_equal(scene_run(&s), TW_INTERRUPTED);
	assert_int_equal(s.seen, 1);
	assert_string_equal(s.ran.error.text, "stopped");
}

static void *interrupt_again(void *arg)
{
	struct scene *s = arg;

	while (!atomic_load(&s->seen))
		sched_yield();
	atomic_store((_Atomic int *)s->interrupted, 2);
	return NULL;
}

static void a_second_interrupt_ends_at_once(void **state)
{
	_Atomic int signals = 1;
	pthread_t other;
	struct scene s = { .master = { .interrupt = interrupted },
			   .interrupted = &signals,
			   .worker = { .start = busy_start },
			   .workers = 2,
			   .shards = 1,
			   .engine = { .gradient = scene_until_cancelled } };

	assert_int_equal(pthread_create(&other, NULL, interrupt_again, &s), 0);
	assert_int_equal(scene_run(&s), TW_INTERRUPTED);
	pthread_join(other, NULL);
	assert_int_equal(s.seen, 1);
}

static bool watch(void *arg, const struct tw_note *note)
{
	struct scene *s = arg;

	s->notes++;
	if (note->at < s->last_note || note->seq != s->notes_by[note->slot]++)
		atomic_fetch_add(&s->wrong, 1);
	s->last_note = note->at;
	return s->notes < s->rounds * s->workers;
}

static void noting_start(struct tw_actor *a, struct tw_context *ctx)
{
	for (uint64_t k = 0; k < a->scene->rounds; k++)
		tw_note(ctx, &(struct tw_note){ .slot = a->number, .seq = k });
}

static void observers_see_all_and_may_stop(void **state)
{
	struct scene s = { .master = { .interrupt = interrupted },
			   .worker = { .start = noting_start },
			   .workers = 4,
			   .rounds = 3000,
			   .observer = watch };

	assert_int_equal(scene_run(&s), TW_INTERRUPTED);
	assert_int_equal(s.notes, s.rounds * s.workers);
	assert_int_equal(s.wrong, 0);
	assert_int_equal(s.seen, 1);
}

/* Waiting: a sentence, once. */

static bool waits_long(const struct tw_actor *a, struct tw_wait *out)
{
	*out = (struct tw_wait){ .whom = scene_shard(1),
				 .why = "its answer to push",
				 .step = 41,
				 .since = -7 * TW_SECOND };
	return true;
}

static void hear(void *arg, enum tw_level level, const char *who, const char *line)
{
	struct scene *s = arg;

	s->lines++;
	snprintf(s->line, sizeof s->line, "%s", line);
}

static void slow_start(struct tw_actor *a, struct tw_context *ctx)
{
	tw_timer(ctx, 0, 2300 * MS);
}

static void slow_timer(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	scene_finish(ctx);
}

static void long_waits_are_said_once(void **state)
{
	struct scene s = { .master = { .start = slow_start, .timer = slow_timer },
			   .worker = { .waiting = waits_long },
			   .workers = 1 };
	struct tw_log log = { hear, &s, TW_INFO };
	double seconds = 0.0;

	s.log = &log;
	assert_int_equal(scene_run(&s), TW_OK);
	assert_int_equal(s.lines, 1);
	assert_int_equal(s.ran.waits, 1);
	assert_int_equal(sscanf(s.line,
				"worker 0 has waited %lf s for shard 1: its answer to push 41",
				&seconds),
			 1);
	assert_true(seconds >= 8.0 && seconds < 10.0);
	assert_non_null(strstr(s.line, " for shard 1: its answer to push 41"));
}

/* With `hash`, a payload that changes on its way is noticed. */

static void twice_start(struct tw_actor *a, struct tw_context *ctx)
{
	a->block = tw_block_new(ctx->heap, 16);
	memset(a->block->data, 0, 16);
	for (int k = 0; k < 2; k++) { /* to itself: both are on their way before one arrives */
		struct tw_msg *m = tw_msg_to(ctx, ctx->self, TW_PUSH);

		m->payload = tw_block_keep(a->block);
		m->h.payload = 16;
		tw_send(ctx, m);
	}
}

static void scribbling_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	m->payload->data[3]++;
	if (++a->count == 2)
		scene_finish(ctx);
}

static void changed_payloads_are_noticed(void **state)
{
	struct scene s = {
		.shard = { .start = twice_start, .message = scribbling_message },
		.workers = 1,
		.shards = 1,
	};

	assert_int_equal(scene_run(&s), TW_OK);
	s.options.hash = true;
	assert_int_equal(scene_run(&s), TW_BAD_BYTES);
}

static void impossible_seats_are_refused(void **state)
{
	struct scene s = { .workers = 1 };
	struct tw_actor_class class = { .new = scene_actor_new, .free = scene_actor_free };
	struct part part = { &s, 0 };
	struct tw_seat seat[] = { { scene_master(), &class, &part },
				  { scene_master(), &class, &part } };
	struct tw_cluster cluster = {
		.seat = seat, .seats = 2, .nodes = 1, .heap = &tw_heap_system
	};

	assert_int_equal(tw_threads_run(&cluster, NULL, &s.ran), TW_BAD_INPUT);
	assert_non_null(strstr(s.ran.error.text, "same address"));
	seat[1].addr = scene_shard(0);
	assert_int_equal(tw_threads_run(&cluster, NULL, &s.ran), TW_BAD_INPUT);
	assert_non_null(strstr(s.ran.error.text, "node 1"));
	cluster.seat = &seat[1];
	cluster.seats = 1;
	cluster.nodes = 2;
	assert_int_equal(tw_threads_run(&cluster, NULL, &s.ran), TW_BAD_INPUT);
	assert_non_null(strstr(s.ran.error.text, "no master"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_end_stops_computations),
		cmocka_unit_test(the_first_failure_is_kept),
		cmocka_unit_test(saving_stops_nobody),
		cmocka_unit_test(every_allocation_may_fail),
		cmocka_unit_test(an_interrupt_reaches_the_master),
		cmocka_unit_test(a_second_interrupt_ends_at_once),
		cmocka_unit_test(observers_see_all_and_may_stop),
		cmocka_unit_test(long_waits_are_said_once),
		cmocka_unit_test(changed_payloads_are_noticed),
		cmocka_unit_test(impossible_seats_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
