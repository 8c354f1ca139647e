/* SPDX-License-Identifier: Apache-2.0 */
/* test_session_mistakes_threads.c - what callers of a session do wrong: each gets its sentence. */
/* labels: threads */
#include "thalweg.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define PARAMETERS 6
#define SAMPLES    24

static const char text[] = "data: {batch: 2}\ntrain: {epochs: 2}\nupdate: {rate: 0.1}\n"
			   "cluster: {workers: 2, shards: 2}\nstrategy: asgd\n";

static struct thalweg_session_request right(const struct thalweg_request *job)
{
	return (struct thalweg_session_request){
		.size = sizeof(struct thalweg_session_request),
		.job = job,
		.layout = { .parameters = PARAMETERS, .samples = SAMPLES, .tests = 4 },
	};
}

static struct thalweg_session *open_one(enum thalweg_world world)
{
	const struct thalweg_request job = { .text = text, .world = world };
	const struct thalweg_session_request q = right(&job);
	struct thalweg_session *s = NULL;
	struct thalweg_error why = { 0 };

	if (thalweg_session_open(&q, &s, &why) != THALWEG_OK)
		fail_msg("%s", why.text);
	return s;
}

/* The next step; evaluations are answered meanwhile. */
static struct thalweg_task step_of(struct thalweg_session *s)
{
	struct thalweg_error why = { 0 };
	struct thalweg_task t;

	for (;;) {
		const enum thalweg_got got = thalweg_next(s, 1000, NULL, &t, &why);

		if (got == THALWEG_END)
			fail_msg("the run is over: %s", why.text);
		if (got == THALWEG_TASK && t.work == THALWEG_STEP)
			return t;
		if (got == THALWEG_TASK)
			thalweg_done(s, &t, &(struct thalweg_answer){ .loss = 1, .correct = 1 },
				     NULL);
	}
}

static void answer(struct thalweg_session *s, const struct thalweg_task *t)
{
	struct thalweg_error why = { 0 };

	for (size_t i = 0; t->vector && i < PARAMETERS; i++)
		t->vector[i] = t->parameters[i];
	if (thalweg_done(s, t, &(struct thalweg_answer){ .loss = 1, .correct = 1 }, &why) !=
	    THALWEG_OK)
		fail_msg("%s", why.text);
}

/* To its end, as it should be. */
static enum thalweg_status finish(struct thalweg_session *s, struct thalweg_error *why)
{
	struct thalweg_task t;
	enum thalweg_got got;

	while ((got = thalweg_next(s, 100, NULL, &t, why)) != THALWEG_END)
		if (got == THALWEG_TASK)
			answer(s, &t);
	return why->status;
}

static void said(const struct thalweg_error *why, enum thalweg_status status, const char *part)
{
	if (why->status != status || !strstr(why->text, part))
		fail_msg("%s: '%s' lacks '%s'", thalweg_status_name(why->status), why->text, part);
}

/* --- opening ------------------------------------------------------------------------------ */

static void requests(void **state)
{
	const struct thalweg_request job = { .text = text };
	const struct thalweg_engine engine = { .parameters = 1 };
	const struct thalweg_tensor good[] = {
		{ .name = "weight", .rank = 2, .shape = { 2, 2 } },
		{ .name = "bias", .rank = 1, .shape = { 2 } },
		{ .name = "mean", .rank = 1, .shape = { 2 }, .buffer = 1 },
	};
	const float bad[PARAMETERS] = { [2] = INFINITY };
	struct thalweg_request other;
	struct thalweg_tensor tensor[3];
	struct thalweg_session_request q;
	struct thalweg_session *s;
	struct thalweg_error why;

#define OPENS(change, status, part)                                                                \
	do {                                                                                       \
		other = job;                                                                       \
		q = right(&other);                                                                 \
		memcpy(tensor, good, sizeof tensor);                                               \
		s = NULL;                                                                          \
		why = (struct thalweg_error){ 0 };                                                 \
		change;                                                                            \
		assert_int_equal(thalweg_session_open(&q, &s, &why), status);                      \
		assert_null(s);                                                                    \
		said(&why, status, part);                                                          \
	} while (0)
#define TENSORS (q.layout.tensor = tensor, q.layout.tensors = 3, q.layout.parameters = 0)
	OPENS(q.size = 8, THALWEG_BAD_INPUT, "size is 8");
	OPENS(q.job = NULL, THALWEG_BAD_INPUT, "a job or the address");
	OPENS(q.address = "localhost", THALWEG_BAD_INPUT, "only one of them");
	OPENS(q.size = sizeof q + 8, THALWEG_BAD_INPUT, "compile with the header");
	OPENS((q.address = "mpi", q.job = NULL), THALWEG_BAD_INPUT, "give the job on every rank");
	OPENS(q.address = "mpi", THALWEG_BAD_INPUT, "no MPI launcher has started this process");
	OPENS((q.address = "mpi", other.world = THALWEG_SIM), THALWEG_BAD_INPUT, "simulated");
	OPENS((q.address = "mpi", q.key = "k"), THALWEG_BAD_INPUT, "for a session that joins");
	OPENS(q.key = "k", THALWEG_BAD_INPUT, "for a session that joins");
	OPENS(q.authority = "k", THALWEG_BAD_INPUT, "for a session that joins");
	OPENS(q.keep = 1, THALWEG_BAD_INPUT, "is kept in any case");
	OPENS(other.engine = &engine, THALWEG_BAD_INPUT, "has an engine");
	OPENS(other.text = NULL, THALWEG_BAD_INPUT, "a path or a text");
	OPENS(other.text = "model: lenet\n", THALWEG_BAD_INPUT, "cannot be combined");
	OPENS(other.text = "strategy: gpipe\n", THALWEG_BAD_INPUT, "stages");
	OPENS(other.text = "train: {epocs: 2}\n", THALWEG_BAD_INPUT, "epocs");
	OPENS(other.world = (enum thalweg_world)7, THALWEG_BAD_INPUT, "world number 7");
	OPENS(q.own_steps = 1, THALWEG_BAD_INPUT, "update: {rule: caller} with send: delta");
	OPENS(other.text = "update: {rule: caller}\nstrategy: local-sgd\n", THALWEG_BAD_INPUT,
	      "set own_steps of the request");
	OPENS((other.text = "update: {rule: caller}\n", q.own_steps = 1), THALWEG_BAD_INPUT,
	      "only send: delta");
	OPENS(q.layout.parameters = 0, THALWEG_BAD_INPUT, "no parameters");
	OPENS(q.layout.samples = 0, THALWEG_BAD_INPUT, "no samples");
	OPENS(q.layout.samples = 1, THALWEG_BAD_INPUT, "data.batch");
	OPENS(q.layout.initial = bad, THALWEG_BAD_INPUT, "initial value 2 (from 0)");
	OPENS(q.layout.tensors = 2, THALWEG_BAD_INPUT, "tensor is NULL");
	OPENS((TENSORS, q.layout.parameters = 6), THALWEG_BAD_INPUT, "leave parameters 0");
	OPENS((TENSORS, tensor[0].name = "a b"), THALWEG_BAD_INPUT, "tensor 0 needs a name");
	OPENS((TENSORS, tensor[1].name = "weight"), THALWEG_BAD_INPUT, "two tensors are called");
	OPENS((TENSORS, tensor[0].buffer = 1), THALWEG_BAD_INPUT, "stands behind a buffer");
	OPENS((TENSORS, tensor[0].shape[1] = 0), THALWEG_BAD_INPUT, "dimension 1 of its shape");
	OPENS((TENSORS, tensor[0].rank = 9), THALWEG_BAD_INPUT, "rank 9");
	OPENS(q.directory = "", THALWEG_BAD_INPUT, "path is empty");
	OPENS(q.flags = THALWEG_AGAIN, THALWEG_BAD_INPUT, "needs a directory");
	OPENS(q.flags = 64, THALWEG_BAD_INPUT, "unknown flags");
	assert_int_equal(thalweg_session_open(NULL, &s, &why), THALWEG_BAD_INPUT);
	said(&why, THALWEG_BAD_INPUT, "request is NULL");
	assert_int_equal(thalweg_session_open(&q, NULL, &why), THALWEG_BAD_INPUT);
	said(&why, THALWEG_BAD_INPUT, "out is NULL");
}

/* --- answering ---------------------------------------------------------------------------- */

static void answers(void **state)
{
	struct thalweg_session *s = open_one(THALWEG_THREADS), *other = open_one(THALWEG_SIM);
	const struct thalweg_answer one = { .loss = 1 };
	struct thalweg_error why = { 0 };
	struct thalweg_result r;
	struct thalweg_task t = step_of(s), u = step_of(other), v;

	assert_int_equal(thalweg_done(other, &t, &one, &why), THALWEG_BAD_INPUT);
	said(&why, THALWEG_BAD_INPUT, "is not an open task of this session");
	assert_int_equal(thalweg_done(s, NULL, &one, &why), THALWEG_BAD_INPUT);
	said(&why, THALWEG_BAD_INPUT, "task is NULL");
	assert_int_equal(thalweg_done(s, &t, NULL, &why), THALWEG_BAD_INPUT);
	said(&why, THALWEG_BAD_INPUT, "answer is NULL");
	assert_int_equal(thalweg_next(s, 1, NULL, NULL, &why), THALWEG_END);
	said(&why, THALWEG_BAD_INPUT, "task is NULL");
	assert_int_equal(thalweg_session_result(s, &r, &why), THALWEG_ABSENT);
	said(&why, THALWEG_ABSENT, "not over");
	assert_int_equal(thalweg_session_save(s, "/dev/null", &why), THALWEG_ABSENT);
	said(&why, THALWEG_ABSENT, "not over");
	assert_null(thalweg_session_parameters(s, NULL));
	answer(s, &t);
	assert_int_equal(thalweg_done(s, &t, &one, &why), THALWEG_BAD_INPUT);
	said(&why, THALWEG_BAD_INPUT, "answered already");
	assert_int_equal(thalweg_fail(s, &t, "late", &why), THALWEG_BAD_INPUT);
	said(&why, THALWEG_BAD_INPUT, "answered already");

	/* one that is not finite is passed on and refused where it is applied */
	t = step_of(s);
	for (size_t i = 0; i < PARAMETERS; i++)
		t.vector[i] = NAN;
	assert_int_equal(thalweg_done(s, &t, &(struct thalweg_answer){ .loss = NAN }, &why),
			 THALWEG_REFUSED);
	said(&why, THALWEG_REFUSED, "not finite");
	for (v.work = THALWEG_STEP; v.work == THALWEG_STEP;) {
		while (thalweg_next(s, 1000, NULL, &v, &why) != THALWEG_TASK)
			assert_int_equal(why.status, THALWEG_OK);
		if (v.work == THALWEG_STEP)
			answer(s, &v);
	}
	assert_int_equal(
		thalweg_done(s, &v, &(struct thalweg_answer){ .loss = 1, .correct = 99 }, &why),
		THALWEG_BAD_INPUT);
	said(&why, THALWEG_BAD_INPUT, "correct is 99");
	answer(s, &v);
	assert_int_equal(finish(s, &why), THALWEG_OK);
	assert_int_equal(thalweg_session_result(s, NULL, &why), THALWEG_BAD_INPUT);
	assert_int_equal(thalweg_session_result(s, &r, &why), THALWEG_OK);
	assert_non_null(strstr(r.json, "\"refused\":")); /* counted by each shard */
	assert_int_equal(thalweg_session_save(s, NULL, &why), THALWEG_BAD_INPUT);
	assert_int_equal(thalweg_session_save(s, "/nowhere/at/all", &why), THALWEG_IO);
	said(&why, THALWEG_IO, "/nowhere/at/all");
	assert_int_equal(thalweg_done(s, &v, &one, &why), THALWEG_BAD_INPUT);
	assert_int_equal(thalweg_next(s, 1, NULL, &v, &why), THALWEG_END); /* and again */
	assert_int_equal(why.status, THALWEG_OK);
	thalweg_session_stop(s); /* too late, and no harm */

	/* a task of a session that ends is void */
	assert_int_equal(thalweg_session_close(other, &why), THALWEG_OK);
	assert_int_equal(thalweg_done(other, &u, &one, &why), THALWEG_BAD_INPUT);
	said(&why, THALWEG_BAD_INPUT, "no open session");
	assert_int_equal(thalweg_session_close(s, &why), THALWEG_OK);
}

static struct thalweg_session *open_rounds(size_t parameters)
{
	const struct thalweg_request job = {
		.text = "data: {batch: 2}\nupdate: {rate: 0.1}\ncluster: {workers: 2, shards: 2}\n"
			"strategy: ssgd\n"
	};
	const struct thalweg_session_request q = {
		.size = sizeof q,
		.job = &job,
		.layout = { .parameters = parameters, .samples = SAMPLES },
	};
	struct thalweg_session *s = NULL;
	struct thalweg_error why = { 0 };

	if (thalweg_session_open(&q, &s, &why) != THALWEG_OK)
		fail_msg("%s", why.text);
	return s;
}

/* A vector has one size and is lent for one answer at a time.  It outlives its session. */
static void lent_vectors(void **state)
{
	struct thalweg_session *s = open_rounds(PARAMETERS), *other = open_rounds(PARAMETERS + 1);
	const struct thalweg_answer one = { .loss = 1 };
	struct thalweg_vector *v = NULL, *longer = NULL;
	struct thalweg_error why = { 0 };
	struct thalweg_task t = step_of(s), u = step_of(s);

	assert_int_equal(thalweg_vector_new(s, NULL, &why), THALWEG_BAD_INPUT);
	said(&why, THALWEG_BAD_INPUT, "out is NULL");
	assert_int_equal(thalweg_vector_new(s, &v, &why), THALWEG_OK);
	assert_int_equal(thalweg_vector_new(other, &longer, &why), THALWEG_OK);
	memset(thalweg_vector_floats(v), 0, PARAMETERS * sizeof(float));
	assert_int_equal(thalweg_done_with(s, NULL, &one, v, &why), THALWEG_BAD_INPUT);
	said(&why, THALWEG_BAD_INPUT, "task is NULL");
	assert_int_equal(thalweg_done_with(s, &t, NULL, v, &why), THALWEG_BAD_INPUT);
	said(&why, THALWEG_BAD_INPUT, "answer is NULL");
	assert_int_equal(thalweg_done_with(s, &t, &one, NULL, &why), THALWEG_BAD_INPUT);
	said(&why, THALWEG_BAD_INPUT, "vector is NULL");
	assert_int_equal(thalweg_done_with(s, &t, &one, longer, &why), THALWEG_BAD_INPUT);
	said(&why, THALWEG_BAD_INPUT, "another number of floats");
	assert_int_equal(thalweg_vector_busy(v), 0);
	assert_int_equal(thalweg_done_with(s, &t, &one, v, &why), THALWEG_OK);
	assert_int_not_equal(thalweg_vector_busy(v), 0); /* the round waits for the other worker */
	assert_int_equal(thalweg_done_with(s, &u, &one, v, &why), THALWEG_BAD_INPUT);
	said(&why, THALWEG_BAD_INPUT, "the vector is busy");
	answer(s, &u);
	t = step_of(s);
	u = step_of(s);
	assert_int_equal(thalweg_vector_busy(v), 0);
	assert_int_equal(thalweg_done_with(s, &u, &one, v, &why), THALWEG_OK);
	assert_int_equal(thalweg_session_close(s, &why), THALWEG_OK);
	assert_int_equal(thalweg_vector_busy(v), 0);
	thalweg_vector_floats(v)[PARAMETERS - 1] = 1.0f;
	thalweg_vector_free(v);

	/* one that is freed while it is lent */
	t = step_of(other);
	u = step_of(other);
	memset(thalweg_vector_floats(longer), 0, (PARAMETERS + 1) * sizeof(float));
	assert_int_equal(thalweg_done_with(other, &t, &one, longer, &why), THALWEG_OK);
	thalweg_vector_free(longer);
	u.vector[PARAMETERS] = 0.0f;
	answer(other, &u);
	step_of(other);
	assert_int_equal(thalweg_session_close(other, &why), THALWEG_OK);
}

static void failing(void **state)
{
	for (int world = 0; world < 2; world++) {
		struct thalweg_session *s = open_one(world ? THALWEG_SIM : THALWEG_THREADS);
		struct thalweg_task t = step_of(s);
		struct thalweg_error why = { 0 };
		struct thalweg_result r;

		assert_int_equal(thalweg_fail(s, NULL, "x", &why), THALWEG_BAD_INPUT);
		assert_int_equal(thalweg_fail(s, &t, NULL, &why), THALWEG_BAD_INPUT);
		said(&why, THALWEG_BAD_INPUT, "reason is NULL");
		assert_int_equal(thalweg_fail(s, &t, "the file is gone", &why), THALWEG_OK);
		assert_int_equal(finish(s, &why), THALWEG_REFUSED);
		said(&why, THALWEG_REFUSED, "could not be computed: the file is gone");
		assert_int_equal(thalweg_session_result(s, &r, &why), THALWEG_ABSENT);
		said(&why, THALWEG_ABSENT, "the file is gone");
		thalweg_session_close(s, NULL);
	}
}

/* --- closing ------------------------------------------------------------------------------ */

static void closed(void **state)
{
	const struct thalweg_answer one = { .loss = 1 };
	struct thalweg_session *s = open_one(THALWEG_THREADS);
	struct thalweg_task t = step_of(s);
	struct thalweg_error why = { 0 };
	struct thalweg_result r;

	assert_int_equal(thalweg_session_close(s, &why), THALWEG_OK); /* with an open task */
	assert_int_equal(thalweg_next(s, 1, NULL, &t, &why), THALWEG_END);
	said(&why, THALWEG_BAD_INPUT, "it was closed");
	assert_int_equal(thalweg_done(s, &t, &one, &why), THALWEG_BAD_INPUT);
	assert_int_equal(thalweg_fail(s, &t, "x", &why), THALWEG_BAD_INPUT);
	assert_int_equal(thalweg_session_result(s, &r, &why), THALWEG_BAD_INPUT);
	assert_int_equal(thalweg_session_save(s, "x", &why), THALWEG_BAD_INPUT);
	assert_null(thalweg_session_parameters(s, NULL));
	assert_int_equal(thalweg_session_close(s, &why), THALWEG_BAD_INPUT);
	said(&why, THALWEG_BAD_INPUT, "it was closed");
	thalweg_session_stop(s);
	thalweg_session_stop(NULL);
	assert_int_equal(thalweg_session_close(NULL, &why), THALWEG_OK);
	assert_int_equal(thalweg_next(NULL, 1, NULL, &t, &why), THALWEG_END);
	said(&why, THALWEG_BAD_INPUT, "is NULL");
	assert_int_equal(thalweg_done(NULL, &t, &one, NULL), THALWEG_BAD_INPUT);
}

static void *wait_for_end(void *arg)
{
	struct thalweg_task t;
	enum thalweg_got got;

	while ((got = thalweg_next(arg, 60000, NULL, &t, NULL)) != THALWEG_END)
		;
	return NULL;
}

/* Threads that wait are let go. */
static void closed_meanwhile(void **state)
{
	for (int world = 0; world < 2; world++)
		for (int k = 0; k < 8; k++) {
			struct thalweg_session *s = open_one(world ? THALWEG_SIM : THALWEG_THREADS);
			pthread_t thread[2];

			for (int i = 0; i < 2; i++)
				pthread_create(&thread[i], NULL, wait_for_end, s);
			usleep((useconds_t)k * 700);
			assert_int_equal(thalweg_session_close(s, NULL), THALWEG_OK);
			for (int i = 0; i < 2; i++)
				pthread_join(thread[i], NULL);
		}
}

static void forked(void **state)
{
	struct thalweg_session *s = open_one(THALWEG_THREADS);
	struct thalweg_task t = step_of(s);
	struct thalweg_error why = { 0 };
	const pid_t child = fork();
	int code = 0;

	if (child == 0) {
		const bool refused = thalweg_next(s, 1, NULL, &t, &why) == THALWEG_END &&
				     why.status == THALWEG_REFUSED && strstr(why.text, "child") &&
				     thalweg_done(s, &t, &(struct thalweg_answer){ 0 }, &why) ==
					     THALWEG_REFUSED &&
				     thalweg_session_close(s, &why) == THALWEG_REFUSED;

		_exit(refused ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &code, 0), child);
	assert_int_equal(code, 0);
	answer(s, &t); /* the parent's is as it was */
	assert_int_equal(finish(s, &why), THALWEG_OK);
	thalweg_session_close(s, NULL);
}

static void too_many(void **state)
{
	const struct thalweg_request job = { .text = text, .world = THALWEG_SIM };
	const struct thalweg_session_request q = right(&job);
	struct thalweg_session *s[65] = { NULL };
	struct thalweg_error why = { 0 };
	int k = 0;

	while (k < 65 && thalweg_session_open(&q, &s[k], &why) == THALWEG_OK)
		k++;
	assert_int_equal(k, 64);
	said(&why, THALWEG_NO_ROOM, "64 sessions");
	while (k-- > 0)
		assert_int_equal(thalweg_session_close(s[k], NULL), THALWEG_OK);
}

/* --- without tests ------------------------------------------------------------------------ */

static void nothing_is_evaluated(void **state)
{
	const struct thalweg_request job = { .text = text, .world = THALWEG_SIM };
	struct thalweg_session_request q = right(&job);
	struct thalweg_session *s = NULL;
	struct thalweg_error why = { 0 };
	struct thalweg_result r;
	struct thalweg_task t;
	enum thalweg_got got;
	double last = -1;

	q.layout.tests = 0;
	assert_int_equal(thalweg_session_open(&q, &s, &why), THALWEG_OK);
	while ((got = thalweg_next(s, 100, NULL, &t, &why)) != THALWEG_END) {
		if (got != THALWEG_TASK)
			continue;
		assert_int_equal(t.work, THALWEG_STEP);
		assert_true(t.progress >= 0 && t.progress <= 1 && t.rate == (double)0.1f);
		assert_true(t.now >= last); /* by virtual time */
		last = t.now;
		memset(t.vector, 0, PARAMETERS * sizeof(float));
		assert_int_equal(
			thalweg_done(s, &t, &(struct thalweg_answer){ .loss = 0.75 }, NULL),
			THALWEG_OK);
	}
	assert_int_equal(thalweg_session_result(s, &r, &why), THALWEG_OK);
	assert_true(r.loss == 0.75 && isnan(r.accuracy));
	thalweg_session_close(s, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests),
		cmocka_unit_test(answers),
		cmocka_unit_test(lent_vectors),
		cmocka_unit_test(failing),
		cmocka_unit_test(closed),
		cmocka_unit_test(closed_meanwhile),
		cmocka_unit_test(forked),
		cmocka_unit_test(too_many),
		cmocka_unit_test(nothing_is_evaluated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
