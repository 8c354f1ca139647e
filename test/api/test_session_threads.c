/* SPDX-License-Identifier: Apache-2.0 */
/* test_session_threads.c - a caller's loop: the same run as with the built-in engine, in every
 * strategy. */
/* labels: threads */
#include "thalweg.h"

#include "kit/caller.h"
#include "kit/scratch.h"
#include "run/open_engine.h"
#include "spec/job.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define DIMENSION 20
#define SAMPLES   60
#define WORKERS   3

#define BOWL "model: {quadratic: {dimension: 20, noise: 0.05}}\n"

/* The engine of the job with that model. */
static struct tw_engine *engine_of(const char *text, enum thalweg_world world)
{
	char whole[1200];
	struct tw_engine *e = NULL;
	struct tw_job *job = NULL;
	struct tw_error why = { 0 };

	snprintf(whole, sizeof whole, BOWL "%s", text);
	if (tw_job_read_text("job", whole, strlen(whole), NULL, 0, NULL,
			     world == THALWEG_SIM ? TW_WORLD_SIM : TW_WORLD_THREADS, &job,
			     &why) != TW_OK ||
	    tw_job_open_engine(job, &tw_heap_system, &e, &why) != TW_OK)
		fail_msg("%s: %s", whole, why.text);
	tw_job_free(job);
	return e;
}

/* The optimiser of a caller that takes its own steps: one for each worker. */
struct optimiser {
	float momentum;
	float velocity[WORKERS][DIMENSION];
};

enum place { IN_TASK, IN_OURS, IN_LENT }; /* where answers are */

struct service {
	struct thalweg_session *s;
	const struct tw_engine *engine;
	struct optimiser *steps; /* NULL: gradients are answered */
	bool into;               /* parameters come into memory of ours */
	enum place place;
	enum thalweg_status ended;
	char text[600];
};

/* w - rate v, v = momentum v + g; without momentum w - rate g: as the built-in rules round it. */
static void take_step(struct optimiser *o, const struct thalweg_task *t, float *g)
{
	float *v = o->velocity[t->worker];
	const float rate = (float)t->rate;

	for (size_t i = 0; i < DIMENSION; i++) {
		v[i] = o->momentum != 0.0f ? fmaf(o->momentum, v[i], g[i]) : g[i];
		g[i] = fmaf(-rate, v[i], t->parameters[i]);
	}
}

/* Vectors of one thread; those that were lent and are not read any more come first. */
struct vectors {
	struct thalweg_vector *one[64];
	size_t count;
};

static struct thalweg_vector *take_vector(struct thalweg_session *s, struct vectors *v)
{
	size_t k = 0;

	while (k < v->count && thalweg_vector_busy(v->one[k]))
		k++;
	assert_true(k < 64);
	if (k == v->count)
		assert_int_equal(thalweg_vector_new(s, &v->one[v->count++], NULL), THALWEG_OK);
	return v->one[k];
}

/* The loop that a program writes. */
static void *serve(void *arg)
{
	struct service *v = arg;
	float room[DIMENSION], answer[DIMENSION];
	struct vectors lent = { .count = 0 };
	struct thalweg_error why;
	struct thalweg_task t;
	enum thalweg_got got;

	while ((got = thalweg_next(v->s, 100, v->into ? room : NULL, &t, &why)) != THALWEG_END) {
		struct thalweg_answer a = { .vector = v->place == IN_OURS ? answer : NULL };
		struct thalweg_vector *vector = NULL;
		float *to = v->place == IN_OURS ? answer : t.vector;

		if (got != THALWEG_TASK)
			continue;
		if (t.work == THALWEG_STEP && v->place == IN_LENT) {
			vector = take_vector(v->s, &lent);
			to = thalweg_vector_floats(vector);
			assert_int_equal((uintptr_t)to % 64, 0);
		}
		if (t.work == THALWEG_SCORE)
			a.loss = caller_score(v->engine, t.sample[0], t.count, t.parameters,
					      &a.correct);
		else
			a.loss = caller_gradient(v->engine, t.sample, t.count, t.epoch,
						 t.parameters, to);
		if (t.work == THALWEG_STEP && v->steps)
			take_step(v->steps, &t, to);
		if (vector)
			thalweg_done_with(v->s, &t, &a, vector, &why);
		else
			thalweg_done(v->s, &t, &a, &why);
	}
	while (lent.count)
		thalweg_vector_free(lent.one[--lent.count]);
	v->ended = why.status;
	memcpy(v->text, why.text, sizeof v->text);
	return NULL;
}

static struct thalweg_session *open_session(const char *text, enum thalweg_world world,
					    const struct tw_engine *e, bool own_steps)
{
	float initial[DIMENSION];
	const struct thalweg_request job = { .text = text, .world = world };
	const struct thalweg_session_request request = {
		.size = sizeof request,
		.job = &job,
		.layout = { .parameters = DIMENSION,
			    .initial = initial,
			    .samples = e->samples,
			    .tests = e->tests },
		.own_steps = own_steps,
	};
	struct thalweg_error why = { 0 };
	struct thalweg_session *s = NULL;

	assert_int_equal(e->class->init(e, 0, DIMENSION, initial), TW_OK);
	if (thalweg_session_open(&request, &s, &why) != THALWEG_OK)
		fail_msg("%s: %s", text, why.text);
	return s;
}

/* Train it with so many threads at the session, and close it.  `like` has the samples that the
 * caller computes with. */
static void outside_with(const char *text, const char *like, enum thalweg_world world, int threads,
			 bool into, struct optimiser *steps, struct thalweg_result *r)
{
	struct tw_engine *e = engine_of(like, world);
	struct thalweg_session *s = open_session(text, world, e, steps);
	struct service v[4];
	pthread_t thread[4];
	struct thalweg_error why = { 0 };

	for (int k = 0; k < threads; k++) {
		v[k] = (struct service){
			.s = s,
			.engine = e,
			.steps = steps,
			.into = into,
			.place = (enum place)((k + (into ? IN_LENT : IN_TASK)) % 3),
		};
		assert_int_equal(pthread_create(&thread[k], NULL, serve, &v[k]), 0);
	}
	for (int k = 0; k < threads; k++) {
		pthread_join(thread[k], NULL);
		if (v[k].ended != THALWEG_OK)
			fail_msg("%s: %s", text, v[k].text);
	}
	if (thalweg_session_result(s, r, &why) != THALWEG_OK)
		fail_msg("%s", why.text);
	r->json = r->checkpoint = NULL;
	assert_int_equal(thalweg_session_close(s, &why), THALWEG_OK);
	e->class->close(e);
}

static void outside(const char *text, enum thalweg_world world, int threads, bool into,
		    struct thalweg_result *r)
{
	outside_with(text, text, world, threads, into, NULL, r);
}

static void inside(const char *text, enum thalweg_world world, struct thalweg_result *r)
{
	char whole[1200];
	const struct thalweg_request request = { .text = whole, .world = world };
	struct thalweg_error why = { 0 };
	struct thalweg_job *job = NULL;

	snprintf(whole, sizeof whole, BOWL "%s", text);
	if (thalweg_open(&request, &job, &why) != THALWEG_OK ||
	    thalweg_train(job, NULL, 0, r, &why) != THALWEG_OK)
		fail_msg("%s: %s", whole, why.text);
	thalweg_close(job);
}

static const char *job_of(const struct tw_preset *p)
{
	static char text[1000];
	const bool optimises = strstr(p->fields, "optimiser:");
	const bool deltas = strstr(p->fields, "send: delta");
	const bool servers = !strstr(p->fields, "topology:");

	snprintf(text, sizeof text,
		 "data: {samples: 60, batch: 2}\ntrain: {%s, seed: 3}\n%s"
		 "cluster: {workers: 3, servers: %d, shards: 3}\n"
		 "strategy: {name: %s%s%s}\n",
		 optimises ? "time: 1h" : "epochs: 2, evaluate: 0.5",
		 optimises ? "" : "update: {rate: 0.02}\n", servers ? 2 : 0, p->name,
		 deltas ? ", push: 2" : "",
		 strstr(p->fields, "fragments:") ? ", fragments: 1, delay: 1" : "");
	return text;
}

static bool has_stages(const struct tw_preset *p)
{
	return strstr(p->fields, "pipeline:");
}

/* Gates with rounds have one result, whenever things happen. */
static bool has_rounds(const struct tw_preset *p)
{
	return strcmp(p->name, "ssgd") == 0 || strcmp(p->name, "ring") == 0 ||
	       strcmp(p->name, "local-sgd") == 0 || strcmp(p->name, "diloco") == 0;
}

static void every_preset_in_sim(void **state)
{
	for (const struct tw_preset *p = tw_presets; p->name; p++) {
		struct thalweg_result ours, theirs;

		if (has_stages(p) || strcmp(p->name, "hogwild") == 0)
			continue;
		inside(job_of(p), THALWEG_SIM, &ours);
		for (int lent = 0; lent < 2; lent++) {
			outside(job_of(p), THALWEG_SIM, 1, lent, &theirs);
			if (strcmp(ours.digest, theirs.digest) != 0)
				fail_msg("%s: digest %s, the built-in engine's is %s", p->name,
					 theirs.digest, ours.digest);
			assert_int_equal(ours.steps, theirs.steps);
			assert_true(fabs(ours.loss - theirs.loss) <= 1e-12 * fabs(ours.loss));
		}
	}
}

static void every_preset_in_threads(void **state)
{
	for (const struct tw_preset *p = tw_presets; p->name; p++) {
		struct thalweg_result ours, theirs;

		if (has_stages(p))
			continue;
		outside(job_of(p), THALWEG_THREADS, 3, true, &theirs);
		assert_true(isfinite(theirs.loss));
		if (!has_rounds(p))
			continue;
		inside(job_of(p), THALWEG_THREADS, &ours);
		assert_string_equal(ours.digest, theirs.digest);
	}
}

/* A caller that does what a built-in rule does comes to the same bits, at a rate that changes with
 * every step. */
static void steps_like(const char *strategy, bool rounds, bool heavy)
{
	static const char *const rules[] = { "rule: sgd", "rule: momentum, momentum: 0.8" };
	static const char job[] = "data: {samples: 60, batch: 2}\n"
				  "train: {epochs: 2, evaluate: 0.5, seed: 3}\n"
				  "update: {rate: 0.02, schedule: {kind: cosine}, %s}\n"
				  "cluster: {workers: 3, servers: 1, shards: %d}\n"
				  "strategy: {push: 2, %s}\n";
	struct optimiser own = { .momentum = heavy ? 0.8f : 0.0f };
	struct thalweg_result ours, theirs;
	char with[1000], text[1000];
	const int shards = rounds ? 3 : 1; /* elsewhere each shard has a rate of its own */

	snprintf(with, sizeof with, job, rules[heavy], shards, strategy);
	snprintf(text, sizeof text, job, "rule: caller", shards, strategy);
	inside(with, THALWEG_SIM, &ours);
	outside_with(text, with, THALWEG_SIM, 1, heavy, &own, &theirs);
	if (strcmp(ours.digest, theirs.digest) != 0)
		fail_msg("%s, %s: digest %s, the built-in rule's is %s", strategy, rules[heavy],
			 theirs.digest, ours.digest);
	if (!rounds)
		return;
	memset(own.velocity, 0, sizeof own.velocity);
	outside_with(text, with, THALWEG_THREADS, 3, true, &own, &theirs);
	assert_string_equal(ours.digest, theirs.digest);
}

static void own_steps(void **state)
{
	static const struct {
		const char *strategy;
		bool rounds;
	} cases[] = {
		{ "name: local-sgd", true },
		{ "name: averaging", true },
		{ "name: update-based", true },
		{ "name: diloco", true },
		{ "name: bmuf", true },
		{ "name: streaming-diloco, fragments: 1, delay: 1", true },
		{ "name: async-diloco", false },
		{ "name: fedbuff", false },
		{ "name: fedasync", false },
		{ "gate: async, send: delta, merge: elastic, elasticity: 0.9, "
		  "outer: {rule: add, scale: 1}",
		  false },
		{ "gate: ssp, lead: 2, send: delta, outer: {rule: add, per_worker: 1}", false },
	};

	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++)
		for (int heavy = 0; heavy < 2; heavy++)
			steps_like(cases[k].strategy, cases[k].rounds, heavy);
}

/* Whatever the number of threads, and wherever parameters and answers are. */
static void threads_do_not_show(void **state)
{
	static const char text[] = "data: {samples: 60, batch: 3}\ntrain: {epochs: 3, seed: 3}\n"
				   "update: {rate: 0.1}\ncluster: {workers: 4, shards: 3}\n"
				   "strategy: ssgd\n";
	struct thalweg_result first, r;

	outside(text, THALWEG_THREADS, 1, false, &first);
	for (int threads = 1; threads <= 4; threads++)
		for (int world = 0; world < 2; world++) {
			outside(text, world ? THALWEG_SIM : THALWEG_THREADS, threads, threads % 2,
				&r);
			assert_string_equal(r.digest, first.digest);
			assert_int_equal(r.samples, 3 * SAMPLES);
		}
}

static void places_passed(const char *json, uint64_t *unreachable, uint64_t *vacant)
{
	const char *own = strstr(json, "\"own\":{");

	assert_non_null(own);
	assert_int_equal(sscanf(own, "\"own\":{\"unreachable\":%" SCNu64 ",\"vacant\":%" SCNu64 "}",
				unreachable, vacant),
			 2);
}

/* data.placement own: each worker's samples are asked of it alone, once in an epoch.  One worker
 * may be lost for good in the first epoch: what was left of its samples there is unreachable, and
 * later epochs are without it. */
static void own_samples(const char *strategy, enum thalweg_world world, bool loses)
{
	unsigned times[5][3][11] = { 0 };
	char text[300];
	const struct thalweg_request job = { .text = text, .world = world };
	const struct thalweg_session_request q = {
		.size = sizeof q,
		.job = &job,
		.layout = { .parameters = 3, .samples = 53 }, /* 11, 11, 11, 10 and 10 */
	};
	struct thalweg_session *s = NULL;
	struct thalweg_error why = { 0 };
	struct thalweg_result r;
	struct thalweg_task t;
	enum thalweg_got got;
	uint64_t unreachable, vacant;
	const bool rounds = !strstr(strategy, "fed") && strcmp(strategy, "asgd") != 0;

	snprintf(text, sizeof text,
		 "data: {batch: 2, placement: own}\ntrain: {epochs: 3}\nupdate: {rate: 0.1}\n"
		 "cluster: {workers: 5, min: 1}\nstrategy: %s\n%s",
		 strategy,
		 loses ? "sim: {compute: {law: constant, mean: 1s}, faults: [{crash: worker 4, "
			 "at: 2500ms}]}\n"
		       : "");
	if (thalweg_session_open(&q, &s, &why) != THALWEG_OK)
		fail_msg("%s", why.text);
	while ((got = thalweg_next(s, 100, NULL, &t, &why)) != THALWEG_END) {
		if (got != THALWEG_TASK)
			continue;
		for (uint64_t k = 0; k < t.count; k++) {
			assert_true(t.worker < 5 && t.epoch < 3 && t.sample[k] < 11);
			times[t.worker][t.epoch][t.sample[k]]++;
		}
		for (int i = 0; i < 3; i++)
			t.vector[i] = t.parameters[i] - (float)t.worker;
		thalweg_done(s, &t, &(struct thalweg_answer){ .loss = 1 }, NULL);
	}
	if (why.status != THALWEG_OK)
		fail_msg("%s", why.text);
	assert_int_equal(thalweg_session_result(s, &r, &why), THALWEG_OK);
	places_passed(r.json, &unreachable, &vacant);
	if (!loses)
		assert_true(unreachable == 0 && vacant == 0);
	else if (rounds)
		assert_true(unreachable >= 4 && unreachable <= 10 && vacant == 20);
	else /* it may hold a lease of the second epoch already */
		assert_true(unreachable >= 4 && vacant % 10 == 0 && vacant >= 10 &&
			    unreachable + vacant <= 30);
	if (rounds)
		assert_int_equal(r.samples + unreachable + vacant, 3 * 53);
	thalweg_session_close(s, NULL);
	for (uint32_t w = 0; w < (loses ? 4 : 5); w++)
		for (int e = 0; e < 3; e++)
			for (uint32_t i = 0; i < 11; i++)
				assert_int_equal(times[w][e][i], i < (w < 3 ? 11 : 10));
}

static void own_samples_of_every_worker(void **state)
{
	static const char *const strategies[] = { "{name: fedbuff, push: 2}",
						  "{name: fedasync, push: 3}",
						  "{name: averaging, push: 2}", "ssgd", "asgd" };

	for (size_t k = 0; k < sizeof strategies / sizeof strategies[0]; k++) {
		own_samples(strategies[k], THALWEG_SIM, false);
		own_samples(strategies[k], THALWEG_SIM, true);
		own_samples(strategies[k], THALWEG_THREADS, false);
	}
}

/* A run that is stopped resumes, and comes to what one run comes to. */
static void stopped_and_resumed(void **state)
{
	static const char text[] = "data: {samples: 60, batch: 2}\ntrain: {epochs: 4, seed: 3}\n"
				   "update: {rate: 0.1}\ncluster: {workers: 3, shards: 2}\n"
				   "strategy: ssgd\n";
	struct tw_engine *e = engine_of(text, THALWEG_THREADS);
	const struct thalweg_request job = { .text = text };
	struct thalweg_session_request request = {
		.size = sizeof request,
		.job = &job,
		.layout = { .parameters = DIMENSION, .samples = SAMPLES, .tests = 1 },
	};
	struct thalweg_result whole, r;
	struct thalweg_error why = { 0 };
	float initial[DIMENSION];
	char folder[64];
	int times = 0;

	outside(text, THALWEG_THREADS, 2, false, &whole);
	folder_make(folder);
	request.directory = folder;
	e->class->init(e, 0, DIMENSION, initial);
	request.layout.initial = initial;
	for (enum thalweg_status st = THALWEG_INTERRUPTED; st != THALWEG_OK; times++) {
		struct thalweg_session *s = NULL;
		struct thalweg_task t;
		enum thalweg_got got;
		uint64_t steps = 0;

		assert_true(times < 20);
		if (thalweg_session_open(&request, &s, &why) != THALWEG_OK)
			fail_msg("%s", why.text);
		while ((got = thalweg_next(s, 100, NULL, &t, &why)) != THALWEG_END) {
			struct thalweg_answer a = { 0 };

			if (got != THALWEG_TASK)
				continue;
			if (t.work == THALWEG_SCORE)
				a.loss = caller_score(e, t.sample[0], t.count, t.parameters,
						      &a.correct);
			else
				a.loss = caller_gradient(e, t.sample, t.count, t.epoch,
							 t.parameters, t.vector);
			thalweg_done(s, &t, &a, NULL);
			if (times < 3 && ++steps == 20)
				thalweg_session_stop(s);
			if (times < 3 && steps > 20) /* so that it is heard before the end */
				usleep(2000);
		}
		st = why.status;
		if (st != THALWEG_OK && st != THALWEG_INTERRUPTED)
			fail_msg("%s", why.text);
		assert_int_equal(thalweg_session_result(s, &r, NULL), THALWEG_OK);
		assert_int_equal(r.interrupted, st == THALWEG_INTERRUPTED);
		if (st == THALWEG_OK)
			assert_string_equal(r.digest, whole.digest);
		else
			assert_null(thalweg_session_parameters(s, NULL));
		thalweg_session_close(s, NULL);
	}
	assert_in_range(times, 2, 6);
	assert_true(folder_remove(folder));
	e->class->close(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_preset_in_sim),
		cmocka_unit_test(every_preset_in_threads),
		cmocka_unit_test(own_steps),
		cmocka_unit_test(threads_do_not_show),
		cmocka_unit_test(own_samples_of_every_worker),
		cmocka_unit_test(stopped_and_resumed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
