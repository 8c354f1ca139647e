/* SPDX-License-Identifier: Apache-2.0 */
/* test_threads_own_mail.c - a worker's thread finds its own actor in the list of actors that have
 * mail, handles some of it, and must first do what that gave others to do. */
#include "base/skipping.h"
#include "actor/message_pool.h"
#include "world/gateway_kit.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <cmocka.h>

#define LIMIT 20 /* seconds; without the fault it takes milliseconds */

enum { BEGIN, FIRST, SECOND, OCCUPY, WORK }; /* what a message asks for: h.seq */

static const struct tw_addr worker_at = { 1, TW_WORKER, 0 };
static const struct tw_addr busy_at = { 1, TW_SHARD, 0 }, other_at = { 1, TW_SHARD, 1 };

/* Nothing is asserted in other threads: they cannot leave a test. */
static struct scene {
	pthread_t thread;
	struct tw_port *port;
	_Atomic bool computing, occupied, first, second, work; /* it has come to that */
	_Atomic bool compute_on, helper_on, posted;            /* it may go on */
	_Atomic bool closed;
} scene;

/* False: it did not come to that. */
static bool await(_Atomic bool *flag)
{
	const time_t end = time(NULL) + LIMIT;

	while (!atomic_load(flag) && !atomic_load(&scene.closed)) {
		if (time(NULL) > end)
			return false;
		nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
	}
	return atomic_load(flag);
}

struct tw_actor {
	struct tw_heap *heap;
	struct tw_compute compute;
	float gradient[4];
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

static void message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct tw_msg *on;

	switch (m->h.seq) {
	case BEGIN:
		a->compute = (struct tw_compute){ .in = { .count = 1 }, .gradient = a->gradient };
		ctx->world->compute(ctx, &a->compute);
		break;
	case FIRST:
		on = tw_msg_to(ctx, other_at, TW_PULL);
		if (!on)
			return;
		on->h.seq = WORK;
		tw_send(ctx, on);
		atomic_store(&scene.first, true);
		await(&scene.posted); /* there is more mail when this handler returns */
		break;
	case SECOND:
		atomic_store(&scene.second, true);
		break;
	case OCCUPY:
		atomic_store(&scene.occupied, true);
		await(&scene.helper_on);
		break;
	default:
		atomic_store(&scene.work, true);
	}
}

static void computed(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	(void)a, (void)ctx, (void)c;
}

static const struct tw_actor_class worker_class = {
	.name = "worker",
	.new = actor_new,
	.free = actor_free,
	.message = message,
	.computed = computed,
};

/* Without a thread of its own. */
static const struct tw_actor_class passive_class = {
	.name = "passive",
	.new = actor_new,
	.free = actor_free,
	.message = message,
};

static enum tw_status gradient(const struct tw_engine *e, void *scratch, const struct tw_inputs *in,
			       float *out, struct tw_score *score)
{
	(void)e, (void)scratch, (void)out;
	atomic_store(&scene.computing, true);
	await(&scene.compute_on);
	*score = (struct tw_score){ .samples = in->count };
	return TW_OK;
}

/* --- the gateway --- */

static void post(struct tw_addr to, uint64_t what)
{
	struct tw_msg *m = tw_heap_zeros(&tw_heap_system, tw_port_msg_bytes());

	if (!m)
		return;
	m->to = to;
	m->h.type = to.role == TW_WORKER ? TW_LEASE : TW_PULL;
	m->h.seq = what;
	tw_port_deliver(scene.port, m);
	tw_port_work(scene.port);
}

static void *speak(void *arg)
{
	(void)arg;
	post(worker_at, BEGIN);
	if (await(&scene.computing)) {
		post(busy_at, OCCUPY); /* the helper has something else to do */
		await(&scene.occupied);
		post(worker_at, FIRST); /* anybody may handle it while the worker computes */
		atomic_store(&scene.compute_on, true);
		await(&scene.first);
		post(worker_at, SECOND);
		atomic_store(&scene.posted, true);
		await(&scene.work);
		await(&scene.second);
	}
	atomic_store(&scene.helper_on, true);
	tw_port_end(scene.port, TW_OK, "");
	return NULL;
}

static enum tw_status opened(void *arg, struct tw_port *port, struct tw_error *why)
{
	(void)arg, (void)why;
	scene.port = port;
	return pthread_create(&scene.thread, NULL, speak, NULL) ? TW_NO_MEMORY : TW_OK;
}

static void send(void *arg, struct tw_msg *m)
{
	(void)arg;
	tw_msg_discard(&tw_heap_system, 0, m);
}

static void closing(void *arg)
{
	(void)arg;
	atomic_store(&scene.closed, true);
	pthread_join(scene.thread, NULL);
}

static void own_mail_waits_for_work_outside(void **state)
{
	static const size_t tensor[] = { 0, 4 };
	static const struct tw_engine_class maths = { .name = "test", .gradient = gradient };
	const struct tw_gateway gateway = { .opened = opened,
					    .send = send,
					    .sent = gateway_sent,
					    .bytes = gateway_bytes,
					    .name = gateway_name,
					    .closing = closing };
	const struct tw_threads_options options = { .gateway = &gateway, .helpers = 1 };
	const struct tw_engine engine = { .class = &maths,
					  .trainable = 4,
					  .tensor = tensor,
					  .tensors = 1,
					  .samples = 10,
					  .tests = 1,
					  .scratch_bytes = 64 };
	const struct tw_seat seat[] = { { worker_at, &worker_class, NULL },
					{ busy_at, &passive_class, NULL },
					{ other_at, &passive_class, NULL } };
	struct tw_store store = { .save = NULL };
	const struct tw_cluster cluster = { .seat = seat,
					    .seats = 3,
					    .nodes = 2,
					    .engine = &engine,
					    .store = &store,
					    .heap = &tw_heap_system };
	struct tw_ran ran;

	(void)state;
	assert_int_equal(tw_threads_run(&cluster, &options, &ran), TW_OK);
	assert_true(scene.occupied);
	assert_true(scene.first);
	assert_true(scene.work);
	assert_true(scene.second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_mail_waits_for_work_outside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
