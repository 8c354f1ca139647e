/* SPDX-License-Identifier: Apache-2.0 */
/* test_events_threads.c - events that wait for somebody who asks: order, texts, room, a training
 * that another thread watches; and what a session says of its job, and a join that is cancelled. */
/* labels: threads */
#include "thalweg.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

static void say(struct thalweg_events *e, enum thalweg_event_kind kind, double loss)
{
	char line[20];

	snprintf(line, sizeof line, "line %g", loss);
	thalweg_events_listen(
		e, &(struct thalweg_event){
			   .kind = kind, .loss = loss, .line = line, .who = kind ? "me" : NULL });
}

static void hears(struct thalweg_events *e, enum thalweg_event_kind kind, double loss)
{
	struct thalweg_event got;
	char line[20];

	snprintf(line, sizeof line, "line %g", loss);
	assert_int_equal(thalweg_events_next(e, 0, &got), 1);
	assert_int_equal(got.kind, kind);
	assert_true(got.loss == loss);
	assert_string_equal(got.line, line);
	assert_true(kind ? strcmp(got.who, "me") == 0 : !got.who);
}

static void order_and_room(void **state)
{
	struct thalweg_events *e = NULL;
	struct thalweg_event got;

	assert_int_equal(thalweg_events_open(3, &e, NULL), THALWEG_OK);
	for (int k = 1; k <= 5; k++)
		say(e, THALWEG_EVALUATION, k);
	for (int k = 3; k <= 5; k++) /* the oldest are dropped */
		hears(e, THALWEG_EVALUATION, k);
	assert_int_equal(thalweg_events_next(e, 0, &got), 0);
	say(e, THALWEG_LOG, 1);
	say(e, THALWEG_PROGRESS, 2);
	say(e, THALWEG_PROGRESS, 3);
	say(e, THALWEG_LOG, 4);
	hears(e, THALWEG_LOG, 1);
	hears(e, THALWEG_PROGRESS, 3); /* of progress the last */
	hears(e, THALWEG_LOG, 4);
	say(e, THALWEG_LOG, 5); /* nobody takes it */
	thalweg_events_close(e);
}

struct trained {
	struct thalweg_job *job;
	enum thalweg_status st;
	_Atomic bool over;
};

static void *train(void *arg)
{
	struct trained *t = arg;

	t->st = thalweg_train(t->job, NULL, 0, NULL, NULL);
	t->over = true;
	return NULL;
}

static void another_thread_watches(void **state)
{
	struct thalweg_request q = { .text = "model: {quadratic: {}}\ndata: {batch: 2}\n"
					     "train: {epochs: 8, evaluate: 1}\n"
					     "update: {rate: 0.01}\nstrategy: ssgd\n",
				     .listen = thalweg_events_listen };
	struct thalweg_events *e = NULL;
	struct trained t = { .job = NULL };
	struct thalweg_event got;
	struct thalweg_error why = { 0 };
	unsigned evaluations = 0;
	double epochs = 0;
	pthread_t thread;

	assert_int_equal(thalweg_events_open(1000, &e, NULL), THALWEG_OK);
	q.user = e;
	if (thalweg_open(&q, &t.job, &why) != THALWEG_OK)
		fail_msg("%s", why.text);
	pthread_create(&thread, NULL, train, &t);
	for (bool over = false; !over;) {
		over = t.over; /* before looking: what it said is there */
		while (thalweg_events_next(e, 20, &got))
			if (got.kind == THALWEG_EVALUATION) {
				assert_true(got.epochs > epochs);
				epochs = got.epochs;
				evaluations++;
			}
	}
	pthread_join(thread, NULL);
	assert_int_equal(t.st, THALWEG_OK);
	assert_int_equal(evaluations, 8);
	thalweg_close(t.job);
	thalweg_events_close(e);
}

static void facts_of_a_session(void **state)
{
	const struct thalweg_request job = { .text = "data: {batch: 3}\ntrain: {epochs: 1}\n"
						     "cluster: {workers: 5}\nstrategy: asgd\n",
					     .world = THALWEG_SIM };
	const struct thalweg_tensor tensor[] = {
		{ .name = "a", .rank = 1, .shape = { 4 } },
		{ .name = "b", .rank = 1, .shape = { 2 }, .buffer = 1 },
	};
	const struct thalweg_session_request q = {
		.size = sizeof q,
		.job = &job,
		.layout = { .tensor = tensor, .tensors = 2, .samples = 30 },
	};
	struct thalweg_session *s = NULL;
	struct thalweg_session_facts f = { 0 };
	struct thalweg_error why = { 0 };

	if (thalweg_session_open(&q, &s, &why) != THALWEG_OK)
		fail_msg("%s", why.text);
	assert_int_equal(thalweg_session_facts(s, NULL, &why), THALWEG_BAD_INPUT);
	assert_non_null(strstr(why.text, "facts is NULL"));
	assert_int_equal(thalweg_session_facts(s, &f, &why), THALWEG_OK);
	assert_int_equal(f.parameters, 4);
	assert_int_equal(f.buffers, 2);
	assert_int_equal(f.samples, 30);
	assert_int_equal(f.tests, 0);
	assert_int_equal(f.batch, 3);
	assert_int_equal(f.workers, 5);
	assert_true(f.simulated && !f.own_steps);
	assert_int_equal(thalweg_session_close(s, NULL), THALWEG_OK);
}

/* A request that takes both kinds of steps learns which from the job. */
static void steps_as_the_job_says(void **state)
{
	static const char *const text[] = { "data: {batch: 3}\nstrategy: asgd\n",
					    "data: {batch: 3}\nupdate: {rule: caller}\n"
					    "strategy: local-sgd\n" };

	for (int own = 0; own < 2; own++) {
		const struct thalweg_request job = { .text = text[own] };
		const struct thalweg_session_request q = {
			.size = sizeof q,
			.job = &job,
			.layout = { .parameters = 2, .samples = 30 },
			.own_steps = -1,
		};
		struct thalweg_session_facts f = { 0 };
		struct thalweg_session *s = NULL;
		struct thalweg_error why = { 0 };

		if (thalweg_session_open(&q, &s, &why) != THALWEG_OK)
			fail_msg("%s", why.text);
		assert_int_equal(thalweg_session_facts(s, &f, &why), THALWEG_OK);
		assert_int_equal(f.own_steps, own);
		assert_int_equal(thalweg_session_close(s, NULL), THALWEG_OK);
	}
}

static volatile int enough;

static void *cancel_soon(void *arg)
{
	usleep(100000);
	__atomic_store_n(&enough, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Nobody listens at port 1, and it would try for ten minutes. */
static void a_join_is_cancelled(void **state)
{
	const struct thalweg_session_request q = {
		.size = sizeof q,
		.address = "127.0.0.1:1",
		.layout = { .parameters = 3, .samples = 9 },
		.cancel = &enough,
	};
	struct thalweg_session *s = NULL;
	struct thalweg_error why = { 0 };
	pthread_t thread;

	pthread_create(&thread, NULL, cancel_soon, NULL);
	assert_int_equal(thalweg_session_open(&q, &s, &why), THALWEG_INTERRUPTED);
	assert_string_equal(why.text, "the join was cancelled");
	assert_null(s);
	pthread_join(thread, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order_and_room),      cmocka_unit_test(another_thread_watches),
		cmocka_unit_test(facts_of_a_session),  cmocka_unit_test(steps_as_the_job_says),
		cmocka_unit_test(a_join_is_cancelled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
