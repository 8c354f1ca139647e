/* SPDX-License-Identifier: Apache-2.0 */
/* test_engine_threads.c - a caller's gradient function under the library's strategies. */
#include "api/problem.h"
#include "kit/scratch.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static void train(struct thalweg_job *job, struct thalweg_result *r)
{
	struct thalweg_error why = { 0 };

	if (thalweg_train(job, NULL, 0, r, &why) != THALWEG_OK)
		fail_msg("%s", why.text);
}

/* One worker is a serial loop: the same bits as one written here. */
static void equals_a_loop(enum thalweg_world world, const char *shards)
{
	static const char *const text = "data: {batch: 5}\ntrain: {epochs: 3, seed: 4}\n"
					"update: {rate: 0.125}\ncluster: {workers: 1}\n"
					"strategy: asgd\n";
	const char *set[] = { shards };
	float w[PARAMETERS + BUFFERS], g[PARAMETERS + BUFFERS];
	struct thalweg_error why = { 0 };
	struct thalweg_job *job = NULL;
	struct thalweg_result r;
	const float *trained;
	struct problem p;
	size_t n = 0, at = 0;

	problem_init(&p);
	if (thalweg_open(&(struct thalweg_request){ .text = text,
						    .set = set,
						    .sets = 1,
						    .world = world,
						    .engine = &p.engine },
			 &job, &why) != THALWEG_OK)
		fail_msg("%s", why.text);
	train(job, &r);
	assert_int_equal(r.samples, 3 * SAMPLES);
	assert_int_equal(atomic_load(&p.met), 3 * SAMPLES);
	memcpy(w, p.engine.initial, sizeof w);
	for (unsigned call = 0; call < atomic_load(&p.gradients); call++) {
		const size_t count = p.count[call];

		assert_in_range(count, 1, 5);
		assert_true(at % SAMPLES + count <= SAMPLES); /* no batch crosses an epoch */
		problem_gradient(w, p.order + at, count, g);
		for (size_t i = 0; i < PARAMETERS; i++)
			w[i] = fmaf(-0.125f, g[i], w[i]);
		for (size_t i = PARAMETERS; i < PARAMETERS + BUFFERS; i++)
			w[i] += g[i];
		at += count;
	}
	assert_int_equal(at, 3 * SAMPLES);
	trained = thalweg_parameters(job, &n);
	assert_int_equal(n, PARAMETERS + BUFFERS);
	for (size_t i = 0; i < n; i++)
		if (trained[i] != w[i])
			fail_msg("element %zu: %.9g, the loop has %.9g", i, (double)trained[i],
				 (double)w[i]);
	thalweg_close(job);
}

static void one_worker_is_a_loop(void **state)
{
	equals_a_loop(THALWEG_THREADS, "cluster.shards=1");
	equals_a_loop(THALWEG_THREADS, "cluster.shards=3"); /* parameters come in pieces */
	equals_a_loop(THALWEG_SIM, "cluster.shards=3");
}

static void every_sample_once_an_epoch(void **state)
{
	struct thalweg_result r;
	struct thalweg_job *job;
	struct problem p;

	problem_init(&p);
	job = problem_open(&p, THALWEG_THREADS,
			   "data: {batch: 4}\ntrain: {epochs: 2}\ncluster: {workers: 3}\n"
			   "update: {rate: 0.1}\nstrategy: ssgd\n");
	train(job, &r);
	for (size_t k = 0; k < SAMPLES; k++) {
		assert_int_equal(atomic_load(&p.seen[0][k]), 1);
		assert_int_equal(atomic_load(&p.seen[1][k]), 1);
		assert_int_equal(atomic_load(&p.seen[2][k]), 0);
	}
	assert_memory_not_equal(p.order, p.order + SAMPLES, SAMPLES * sizeof p.order[0]);
	assert_int_equal(r.workers, 3);
	assert_true(r.accuracy == 0.25);
	assert_int_equal(atomic_load(&p.evaluated), TESTS);
	thalweg_close(job);
}

static void calls_overlap_or_not(void **state)
{
	for (int alone = 0; alone <= 1; alone++) {
		struct thalweg_result r;
		struct thalweg_job *job;
		struct problem p;

		problem_init(&p);
		p.engine.one_at_a_time = alone;
		atomic_store(&p.meet, alone ? 0 : 2);
		job = problem_open(&p, THALWEG_THREADS,
				   "data: {batch: 1}\ntrain: {epochs: 4}\nupdate: {rate: 0.01}\n"
				   "cluster: {workers: 4}\nstrategy: asgd\n");
		train(job, &r);
		if (alone)
			assert_int_equal(atomic_load(&p.most), 1);
		else
			assert_true(atomic_load(&p.most) >= 2);
		thalweg_close(job);
	}
}

static void equal_in_both_worlds(void **state)
{
	static const char text[] = "data: {batch: 2}\ntrain: {epochs: 3}\nupdate: {rate: 0.2}\n"
				   "cluster: {workers: 4, shards: 2}\nstrategy: ssgd\n";
	char digest[3][33];

	for (int k = 0; k < 3; k++) {
		struct thalweg_result r;
		struct thalweg_job *job;
		struct problem p;

		problem_init(&p);
		job = problem_open(&p, k ? THALWEG_SIM : THALWEG_THREADS, text);
		train(job, &r);
		memcpy(digest[k], r.digest, sizeof digest[k]);
		thalweg_close(job);
	}
	assert_string_equal(digest[0], digest[1]);
	assert_string_equal(digest[1], digest[2]);
}

static void a_function_may_say_no(void **state)
{
	struct thalweg_error why = { 0 };
	struct thalweg_score score;
	struct thalweg_result r;
	struct thalweg_job *job;
	struct problem p;

	problem_init(&p);
	job = problem_open(&p, THALWEG_THREADS, "train: {epochs: 1}\nstrategy: asgd\n");
	atomic_store(&p.fail_gradient, 7);
	assert_int_equal(thalweg_train(job, NULL, 0, &r, &why), THALWEG_REFUSED);
	assert_string_equal(why.text, "the engine's function gradient returned 7");
	assert_null(thalweg_parameters(job, NULL));
	atomic_store(&p.fail_gradient, 0);
	train(job, &r); /* and may think better of it */
	atomic_store(&p.fail_evaluate, -3);
	assert_int_equal(thalweg_evaluate(job, &score, &why), THALWEG_REFUSED);
	assert_string_equal(why.text, "the engine's function evaluate returned -3");
	assert_int_equal(thalweg_train(job, NULL, 0, &r, &why), THALWEG_REFUSED);
	assert_string_equal(why.text, "the engine's function evaluate returned -3");
	thalweg_close(job);
}

static void refused(const struct thalweg_engine *e, const char *text, const char *part)
{
	const struct thalweg_request request = { .text = text, .engine = e };
	struct thalweg_error why = { 0 };
	struct thalweg_job *job = NULL;

	assert_int_equal(thalweg_open(&request, &job, &why), THALWEG_BAD_INPUT);
	assert_null(job);
	if (!strstr(why.text, part))
		fail_msg("'%s' lacks '%s'", why.text, part);
}

static void engines_that_cannot_be(void **state)
{
	static const char text[] = "train: {epochs: 1}\n";
	const struct thalweg_tensor tensor[] = {
		{ .name = "weight", .rank = 2, .shape = { 6, 6 } },
		{ .name = "bias", .rank = 1, .shape = { 1 } },
		{ .name = "mean", .rank = 1, .shape = { BUFFERS } },
	};
	struct thalweg_tensor wrong[3];
	struct thalweg_engine e;
	struct problem p;
	float bad[PARAMETERS + BUFFERS] = { [3] = NAN };

	problem_init(&p);
#define BUT(change, part)                                                                          \
	do {                                                                                       \
		e = p.engine;                                                                      \
		e.tensor = tensor;                                                                 \
		e.tensors = 3;                                                                     \
		memcpy(wrong, tensor, sizeof wrong);                                               \
		change;                                                                            \
		refused(&e, text, part);                                                           \
	} while (0)
	BUT(e.gradient = NULL, "no function gradient");
	BUT(e.evaluate = NULL, "no function evaluate");
	BUT(e.parameters = 0, "parameters");
	BUT(e.samples = 0, "samples");
	BUT(e.tests = 0, "tests");
	BUT(e.initial = bad, "initial value 3 (from 0) of tensor weight is not finite");
	BUT(e.tensors = 2, "the tensors have 37 elements in all, the engine 42");
	BUT((e.tensor = wrong, wrong[1].name = "weight"), "two tensors are called weight");
	BUT((e.tensor = wrong, wrong[1].name = "two words"), "tensor 1 needs a name");
	BUT((e.tensor = wrong, wrong[1].name = NULL), "tensor 1 needs a name");
	BUT((e.tensor = wrong, wrong[1].rank = 9), "tensor bias: rank 9 is above 8");
	BUT((e.tensor = wrong, wrong[1].shape[0] = 2), "tensor bias: reaches beyond the 37");
	BUT((e.tensor = wrong, wrong[0].shape[1] = UINT64_MAX), "tensor weight: its shape");
	BUT((e.tensor = wrong, wrong[2].shape[0] = 6), "tensor mean: its shape");
	refused(&p.engine, "model: lenet\n", "model.name: cannot be combined with 'external'");
	refused(&p.engine, "model: {quadratic: {}}\n", "model.external");
	refused(&p.engine, "data: {source: digits}\n", "data.source: a made-up model");
	refused(&p.engine, "data: {samples: 49}\n",
		"job:1: data.samples: the program's own engine "
		"has 48 samples");
	refused(&p.engine, "data: {batch: 49}\n", "data.batch");
	refused(&p.engine, "update: {rule: caller}\nstrategy: local-sgd\n", "or a session");
	refused(&p.engine, "strategy: nonsense\n", "strategy");
}

static void tensors_have_names(void **state)
{
	const struct thalweg_tensor tensor[] = {
		{ .name = "weight", .rank = 2, .shape = { 6, 6 } },
		{ .name = "bias" },
		{ .name = "mean", .rank = 1, .shape = { BUFFERS } },
	};
	char path[64], file[100], other[100];
	const struct thalweg_tensor *t;
	struct thalweg_error why = { 0 };
	struct thalweg_score score;
	struct thalweg_result r;
	struct thalweg_job *job;
	float kept[PARAMETERS + BUFFERS];
	struct problem p;

	folder_make(path);
	snprintf(file, sizeof file, "%s/a.safetensors", path);
	snprintf(other, sizeof other, "%s/run", path);
	problem_init(&p);
	p.engine.tensor = tensor;
	p.engine.tensors = 3;
	job = problem_open(&p, THALWEG_SIM, "train: {epochs: 2}\nstrategy: asgd\n");
	assert_int_equal(thalweg_tensors(job, &t), 3);
	assert_string_equal(t[1].name, "bias");
	assert_int_equal(t[1].from, 36);
	assert_int_equal(t[1].count, 1);
	assert_int_equal(t[1].buffer, 0);
	assert_int_equal(t[2].buffer, 1);
	assert_int_equal(t[0].shape[1], 6);
	assert_int_equal(thalweg_save(job, file, &why), THALWEG_ABSENT);
	assert_int_equal(thalweg_evaluate(job, &score, &why), THALWEG_ABSENT);
	assert_int_equal(thalweg_train(job, other, 0, &r, NULL), THALWEG_OK);
	memcpy(kept, thalweg_parameters(job, NULL), sizeof kept);
	assert_int_equal(thalweg_save(job, file, &why), THALWEG_OK);
	thalweg_close(job);

	job = problem_open(&p, THALWEG_SIM, "train: {epochs: 2}\nstrategy: asgd\n");
	for (int k = 0; k < 2; k++) { /* the file, then the run directory */
		if (thalweg_load(job, k ? other : file, &why) != THALWEG_OK)
			fail_msg("%s", why.text);
		assert_memory_equal(thalweg_parameters(job, NULL), kept, sizeof kept);
		assert_int_equal(thalweg_evaluate(job, &score, &why), THALWEG_OK);
		assert_true(score.loss == r.loss && score.accuracy == r.accuracy);
		assert_int_equal(score.samples, TESTS);
	}
	thalweg_close(job);

	p.engine.tensor = NULL; /* other names: another model */
	p.engine.tensors = 0;
	job = problem_open(&p, THALWEG_SIM, "train: {epochs: 2}\nstrategy: asgd\n");
	assert_int_equal(thalweg_load(job, file, &why), THALWEG_BAD_INPUT);
	assert_non_null(strstr(why.text, "is of another model"));
	assert_null(thalweg_parameters(job, NULL));
	thalweg_close(job);
	assert_true(folder_remove(path));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_worker_is_a_loop),
		cmocka_unit_test(every_sample_once_an_epoch),
		cmocka_unit_test(calls_overlap_or_not),
		cmocka_unit_test(equal_in_both_worlds),
		cmocka_unit_test(a_function_may_say_no),
		cmocka_unit_test(engines_that_cannot_be),
		cmocka_unit_test(tensors_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
