/* SPDX-License-Identifier: Apache-2.0 */
/* test_threads_port.c - the thread of a gateway goes on with what it has received for a worker that
 * sleeps: short computations, each once and in order; long ones are left to the worker's thread. */
#include "base/skipping.h"
#include "actor/message_pool.h"
#include "world/gateway_kit.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <cmocka.h>

#define ROUNDS 20000
#define WINDOW 3  /* messages on their way */
#define EVERY  97 /* of so many messages, one asks for a long computation */
#define SHORT  4  /* samples */
#define LONG   1000
#define MS     (TW_SECOND / 1000)

/* Nothing is asserted in other threads: they cannot leave a test. */
struct scene {
	pthread_t thread;
	struct tw_port *port;
	uint64_t rounds, timer_at;
	bool longs;
	_Atomic bool closed, rang;
	_Atomic uint64_t answered, wrong;
	_Atomic uint64_t by_port, by_port_long, computed;
	_Atomic bool inside;
};
static struct scene *scene;

struct tw_actor {
	struct tw_heap *heap;
	struct tw_compute compute[WINDOW + 1];
	float gradient[4];
	uint64_t asked, done;
};

static struct tw_actor *actor_new(struct tw_heap *heap, const void *arg)
{
	struct tw_actor *a = tw_heap_zeros(heap, sizeof *a);

	(void)arg;
	if (a)
		a->heap = heap;
	return a;
}

static void actor_free(struct tw_actor *a)
{
	a->heap->put(a->heap, a);
}

/* An alarm that is far away, so that one that a visitor sets is sooner. */
static void start(struct tw_actor *a, struct tw_context *ctx)
{
	(void)a;
	tw_timer(ctx, 1, 3600 * TW_SECOND);
}

static void timer(struct tw_actor *a, struct tw_context *ctx, uint32_t id)
{
	(void)a;
	(void)ctx;
	atomic_store(&scene->rang, id == 2);
}

static void message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct tw_compute *c = &a->compute[a->asked % (WINDOW + 1)];

	if (m->h.seq != a->asked++)
		atomic_fetch_add(&scene->wrong, 1);
	if (m->h.seq == scene->timer_at)
		tw_timer(ctx, 2, MS);
	*c = (struct tw_compute){
		.in = { .from = m->h.seq,
			.count = scene->longs && m->h.seq % EVERY == EVERY - 1 ? LONG : SHORT },
		.gradient = a->gradient
	};
	ctx->world->compute(ctx, c);
}

static void computed(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	struct tw_msg *m = tw_msg_to(ctx, (struct tw_addr){ 0, TW_MASTER, 0 }, TW_DONE);

	if (c->in.from != a->done++ || c->status != TW_OK || !m)
		atomic_fetch_add(&scene->wrong, 1);
	if (!m)
		return;
	m->h.seq = c->in.from;
	tw_send(ctx, m);
}

static const struct tw_actor_class worker_class = {
	.name = "worker",
	.new = actor_new,
	.free = actor_free,
	.start = start,
	.message = message,
	.timer = timer,
	.computed = computed,
};

static enum tw_status gradient(const struct tw_engine *e, void *scratch, const struct tw_inputs *in,
			       float *out, struct tw_score *score)
{
	const bool port = pthread_equal(pthread_self(), scene->thread);

	(void)e, (void)out;
	if (atomic_exchange(&scene->inside, true))
		atomic_fetch_add(&scene->wrong, 1);
	*(uint64_t *)scratch = in->from;
	if (in->count == LONG)
		nanosleep(&(struct timespec){ .tv_nsec = MS }, NULL);
	if (*(uint64_t *)scratch != in->from) /* somebody else has it, too */
		atomic_fetch_add(&scene->wrong, 1);
	atomic_fetch_add(in->count == LONG ? &scene->by_port_long : &scene->by_port, port);
	atomic_fetch_add(&scene->computed, 1);
	*score = (struct tw_score){ .samples = in->count };
	atomic_store(&scene->inside, false);
	return TW_OK;
}

/* --- the gateway --- */

static void wait_until_answered(uint64_t number)
{
	while (atomic_load(&scene->answered) < number && !atomic_load(&scene->closed)) {
		tw_port_work(scene->port);
		nanosleep(&(struct timespec){ .tv_nsec = 1000 }, NULL);
	}
}

static void *speak(void *arg)
{
	(void)arg;
	for (uint64_t k = 0; k < scene->rounds && !atomic_load(&scene->closed); k++) {
		struct tw_msg *m = tw_heap_zeros(&tw_heap_system, tw_port_msg_bytes());

		if (!m)
			break;
		m->to = (struct tw_addr){ 1, TW_WORKER, 0 };
		m->h.type = TW_LEASE;
		m->h.seq = k;
		tw_port_deliver(scene->port, m);
		if (k % WINDOW == 0)
			tw_port_work(scene->port);
		wait_until_answered(k + 1 < WINDOW ? 0 : k + 1 - WINDOW);
	}
	wait_until_answered(scene->rounds);
	while (scene->timer_at < scene->rounds && !atomic_load(&scene->rang))
		nanosleep(&(struct timespec){ .tv_nsec = MS }, NULL);
	tw_port_end(scene->port, TW_OK, "");
	return NULL;
}

static enum tw_status opened(void *arg, struct tw_port *port, struct tw_error *why)
{
	(void)arg, (void)why;
	scene->port = port;
	return pthread_create(&scene->thread, NULL, speak, NULL) ? TW_NO_MEMORY : TW_OK;
}

static void send(void *arg, struct tw_msg *m)
{
	(void)arg;
	if (m->h.seq != atomic_fetch_add(&scene->answered, 1))
		atomic_fetch_add(&scene->wrong, 1);
	tw_msg_discard(&tw_heap_system, 0, m);
}

static void closing(void *arg)
{
	(void)arg;
	atomic_store(&scene->closed, true);
	pthread_join(scene->thread, NULL);
}

static void run(struct scene *s, uint32_t helpers)
{
	static const size_t tensor[] = { 0, 4 };
	static const struct tw_engine_class class = { .name = "test", .gradient = gradient };
	const struct tw_gateway gateway = { .opened = opened,
					    .send = send,
					    .sent = gateway_sent,
					    .bytes = gateway_bytes,
					    .name = gateway_name,
					    .closing = closing };
	const struct tw_threads_options options = { .gateway = &gateway, .helpers = helpers };
	const struct tw_engine engine = { .class = &class,
					  .trainable = 4,
					  .tensor = tensor,
					  .tensors = 1,
					  .samples = 10,
					  .tests = 1,
					  .scratch_bytes = 64 };
	const struct tw_seat seat = { { 1, TW_WORKER, 0 }, &worker_class, NULL };
	struct tw_store store = { .save = NULL };
	const struct tw_cluster cluster = { .seat = &seat,
					    .seats = 1,
					    .nodes = 2,
					    .engine = &engine,
					    .store = &store,
					    .heap = &tw_heap_system };
	struct tw_ran ran;

	scene = s;
	assert_int_equal(tw_threads_run(&cluster, &options, &ran), TW_OK);
	assert_int_equal(s->answered, s->rounds);
	assert_int_equal(s->computed, s->rounds);
	assert_int_equal(s->wrong, 0);
	assert_int_equal(s->by_port_long, 0);
}

static void short_ones_run_where_they_arrive(void **state)
{
	struct scene s = { .rounds = ROUNDS, .timer_at = ROUNDS / 2 };

	(void)state;
	run(&s, 0);
	print_message("%llu of %d on the gateway's thread\n", (unsigned long long)s.by_port,
		      ROUNDS);
	assert_true(s.by_port > 0);
}

static void long_ones_never_do(void **state)
{
	struct scene s = { .rounds = ROUNDS / 10, .timer_at = UINT64_MAX, .longs = true };

	(void)state;
	run(&s, 0);
}

static void with_helpers_the_gateway_enters_nothing(void **state)
{
	struct scene s = { .rounds = ROUNDS / 10, .timer_at = UINT64_MAX };

	(void)state;
	run(&s, 1);
	assert_int_equal(s.by_port, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(short_ones_run_where_they_arrive),
		cmocka_unit_test(long_ones_never_do),
		cmocka_unit_test(with_helpers_the_gateway_enters_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
