/* SPDX-License-Identifier: Apache-2.0 */
/* test_null_threads.c - NULL for every pointer of every function: a status and a sentence, and
 * never a crash; and training of which nothing was usable. */
#include "api/problem.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char text[] = "data: {batch: 3}\ntrain: {epochs: 1}\nupdate: {rate: 0.1}\n"
			   "cluster: {workers: 2}\nstrategy: asgd\n";

/* What each function does with NULL; `job` is a good one. */
struct contract {
	const char *name;
	void (*try)(struct thalweg_job *job);
};

/* The status, and a sentence that names function and argument. */
static void bad(enum thalweg_status st, const struct thalweg_error *why, const char *says)
{
	assert_int_equal(st, THALWEG_BAD_INPUT);
	assert_int_equal(why->status, THALWEG_BAD_INPUT);
	assert_string_equal(why->text, says);
}

static void version(struct thalweg_job *job)
{
	assert_string_equal(thalweg_version(), THALWEG_VERSION);
}

static void status_name(struct thalweg_job *job)
{
	assert_true(*thalweg_status_name(THALWEG_REFUSED));
	assert_true(*thalweg_status_name((enum thalweg_status)99));
}

static void open_null(struct thalweg_job *job)
{
	const struct thalweg_request q = { .text = text };
	struct thalweg_error why = { 0 };
	struct thalweg_job *out = job;

	bad(thalweg_open(NULL, &out, &why), &why, "thalweg_open: request is NULL");
	assert_ptr_equal(out, job);
	why = (struct thalweg_error){ 0 };
	bad(thalweg_open(&q, NULL, &why), &why, "thalweg_open: out is NULL");
	assert_int_equal(thalweg_open(NULL, NULL, NULL), THALWEG_BAD_INPUT);
}

static void engine_null(struct thalweg_job *job)
{
	struct problem p;
	struct thalweg_request q = { .text = text, .engine = &p.engine };
	struct thalweg_job *out = NULL;
	struct thalweg_error why;

	problem_init(&p);
	p.engine.gradient = NULL;
	assert_int_equal(thalweg_open(&q, &out, &why), THALWEG_BAD_INPUT);
	assert_non_null(strstr(why.text, "no function gradient"));
	problem_init(&p);
	p.engine.evaluate = NULL;
	assert_int_equal(thalweg_open(&q, &out, &why), THALWEG_BAD_INPUT);
	assert_non_null(strstr(why.text, "no function evaluate"));
	problem_init(&p);
	p.engine.tensor = NULL;
	p.engine.tensors = 2;
	assert_int_equal(thalweg_open(&q, &out, &why), THALWEG_BAD_INPUT);
	assert_non_null(strstr(why.text, "2 tensors, but tensor is NULL"));
	p.engine.tensor = (const struct thalweg_tensor[2]){ { .name = NULL } };
	assert_int_equal(thalweg_open(&q, &out, &why), THALWEG_BAD_INPUT);
	assert_non_null(strstr(why.text, "tensor 0 needs a name"));
	assert_null(out);
}

static void close_null(struct thalweg_job *job)
{
	thalweg_close(NULL);
}

static void train_null(struct thalweg_job *job)
{
	struct thalweg_result r;
	struct thalweg_error why = { 0 };

	bad(thalweg_train(NULL, NULL, 0, &r, &why), &why, "thalweg_train: job is NULL");
	assert_int_equal(thalweg_train(NULL, NULL, 0, NULL, NULL), THALWEG_BAD_INPUT);
	assert_int_equal(thalweg_train(job, NULL, 0, NULL, NULL), THALWEG_OK);
}

static void stop_null(struct thalweg_job *job)
{
	thalweg_stop(NULL);
}

static void tensors_null(struct thalweg_job *job)
{
	const struct thalweg_tensor *t = NULL;

	assert_int_equal(thalweg_tensors(NULL, &t), 0);
	assert_null(t);
	assert_true(thalweg_tensors(job, NULL) > 0);
	assert_int_equal(thalweg_tensors(NULL, NULL), 0);
}

static void parameters_null(struct thalweg_job *job)
{
	size_t count = 7;

	assert_null(thalweg_parameters(NULL, &count));
	assert_int_equal(count, 0);
	assert_null(thalweg_parameters(NULL, NULL));
}

static void load_null(struct thalweg_job *job)
{
	struct thalweg_error why = { 0 };

	bad(thalweg_load(NULL, "x", &why), &why, "thalweg_load: job is NULL");
	bad(thalweg_load(job, NULL, &why), &why, "thalweg_load: path is NULL");
	assert_int_equal(thalweg_load(NULL, NULL, NULL), THALWEG_BAD_INPUT);
	assert_int_not_equal(thalweg_load(job, "/dev/zero", NULL), THALWEG_OK);
}

static void save_null(struct thalweg_job *job)
{
	struct thalweg_error why = { 0 };

	bad(thalweg_save(NULL, "x", &why), &why, "thalweg_save: job is NULL");
	bad(thalweg_save(job, NULL, &why), &why, "thalweg_save: path is NULL");
	assert_int_equal(thalweg_save(NULL, NULL, NULL), THALWEG_BAD_INPUT);
	assert_int_equal(thalweg_train(job, NULL, 0, NULL, NULL), THALWEG_OK);
	assert_int_equal(thalweg_save(job, "/dev/null", &why), THALWEG_BAD_INPUT);
	assert_non_null(strstr(why.text, "it is a device, not a regular file"));
}

static void evaluate_null(struct thalweg_job *job)
{
	struct thalweg_error why = { 0 };
	struct thalweg_score score;

	bad(thalweg_evaluate(NULL, &score, &why), &why, "thalweg_evaluate: job is NULL");
	bad(thalweg_evaluate(job, NULL, &why), &why, "thalweg_evaluate: score is NULL");
	assert_int_equal(thalweg_evaluate(NULL, NULL, NULL), THALWEG_BAD_INPUT);
}

static void model_open_null(struct thalweg_job *job)
{
	struct thalweg_model *m = NULL;
	struct thalweg_error why = { 0 };

	bad(thalweg_model_open(NULL, &m, &why), &why, "thalweg_model_open: path is NULL");
	bad(thalweg_model_open("x", NULL, &why), &why, "thalweg_model_open: out is NULL");
	assert_int_equal(thalweg_model_open(NULL, NULL, NULL), THALWEG_BAD_INPUT);
	assert_int_not_equal(thalweg_model_open("/dev/zero", &m, NULL), THALWEG_OK);
	assert_null(m);
}

static void model_facts_null(struct thalweg_job *job)
{
	assert_null(thalweg_model_facts(NULL));
}

/* api_test_predict has the other arguments, with a model. */
static void predict_null(struct thalweg_job *job)
{
	struct thalweg_error why = { 0 };
	float x = 0;

	bad(thalweg_predict(NULL, &x, 1, &x, &why), &why, "thalweg_predict: model is NULL");
	assert_int_equal(thalweg_predict(NULL, NULL, 0, NULL, NULL), THALWEG_BAD_INPUT);
}

static void predict_cells_null(struct thalweg_job *job)
{
	const char *const cell = "1";
	struct thalweg_error why = { 0 };
	float x = 0;

	bad(thalweg_predict_cells(NULL, &cell, 1, &x, &why), &why,
	    "thalweg_predict_cells: model is NULL");
	assert_int_equal(thalweg_predict_cells(NULL, NULL, 0, NULL, NULL), THALWEG_BAD_INPUT);
}

static void model_close_null(struct thalweg_job *job)
{
	thalweg_model_close(NULL);
}

/* What a session that is open says to NULL: test_session_mistakes_threads.c. */
static void session_null(struct thalweg_job *job)
{
	struct thalweg_session_request q = { .size = sizeof q };
	struct thalweg_session *out = NULL;
	struct thalweg_error why = { 0 };
	struct thalweg_task task = { 0 };
	size_t count = 3;

	bad(thalweg_session_open(NULL, &out, &why), &why, "thalweg_session_open: request is NULL");
	why = (struct thalweg_error){ 0 };
	bad(thalweg_session_open(&q, NULL, &why), &why, "thalweg_session_open: out is NULL");
	bad(thalweg_session_facts(NULL, NULL, &why), &why,
	    "thalweg_session_facts: the session is NULL");
	assert_int_equal(thalweg_next(NULL, 1, NULL, &task, NULL), THALWEG_END);
	assert_int_equal(thalweg_done(NULL, NULL, NULL, NULL), THALWEG_BAD_INPUT);
	assert_int_equal(thalweg_done_with(NULL, NULL, NULL, NULL, NULL), THALWEG_BAD_INPUT);
	assert_int_equal(thalweg_vector_new(NULL, NULL, NULL), THALWEG_BAD_INPUT);
	assert_null(thalweg_vector_floats(NULL));
	assert_int_equal(thalweg_vector_busy(NULL), 0);
	thalweg_vector_free(NULL);
	assert_int_equal(thalweg_fail(NULL, NULL, NULL, NULL), THALWEG_BAD_INPUT);
	thalweg_session_stop(NULL);
	assert_int_equal(thalweg_session_result(NULL, NULL, NULL), THALWEG_BAD_INPUT);
	assert_int_equal(thalweg_session_save(NULL, NULL, NULL), THALWEG_BAD_INPUT);
	assert_null(thalweg_session_parameters(NULL, &count));
	assert_int_equal(count, 0);
	assert_int_equal(thalweg_session_close(NULL, &why), THALWEG_OK);
	assert_int_equal(why.status, THALWEG_OK);
	assert_true(strncmp(thalweg_abi(), "thalweg ", 8) == 0);
}

static void events_null(struct thalweg_job *job)
{
	const struct thalweg_event event = { .kind = THALWEG_LOG };
	struct thalweg_events *e = NULL;
	struct thalweg_event got;
	struct thalweg_error why = { 0 };

	bad(thalweg_events_open(1, NULL, &why), &why, "thalweg_events_open: out is NULL");
	assert_int_equal(thalweg_events_open(0, &e, &why), THALWEG_BAD_INPUT);
	assert_non_null(strstr(why.text, "room is 0; use 1 to"));
	assert_null(e);
	assert_int_equal(thalweg_events_listen(NULL, &event), 0);
	assert_int_equal(thalweg_events_next(NULL, 0, &got), 0);
	assert_int_equal(thalweg_events_open(1, &e, NULL), THALWEG_OK);
	assert_int_equal(thalweg_events_listen(e, NULL), 0);
	assert_int_equal(thalweg_events_next(e, 0, NULL), 0);
	assert_int_equal(thalweg_events_next(e, 0, &got), 0);
	thalweg_events_close(e);
	thalweg_events_close(NULL);
}

static const struct contract contracts[] = {
	{ "thalweg_version", version },
	{ "thalweg_status_name", status_name },
	{ "thalweg_open", open_null },
	{ "thalweg_open", engine_null },
	{ "thalweg_close", close_null },
	{ "thalweg_train", train_null },
	{ "thalweg_stop", stop_null },
	{ "thalweg_tensors", tensors_null },
	{ "thalweg_parameters", parameters_null },
	{ "thalweg_load", load_null },
	{ "thalweg_save", save_null },
	{ "thalweg_evaluate", evaluate_null },
	{ "thalweg_model_open", model_open_null },
	{ "thalweg_model_facts", model_facts_null },
	{ "thalweg_predict", predict_null },
	{ "thalweg_predict_cells", predict_cells_null },
	{ "thalweg_model_close", model_close_null },
	{ "thalweg_session_open", session_null },
	{ "thalweg_session_facts", session_null },
	{ "thalweg_events_open", events_null },
	{ "thalweg_events_listen", events_null },
	{ "thalweg_events_next", events_null },
	{ "thalweg_events_close", events_null },
	{ "thalweg_next", session_null },
	{ "thalweg_done", session_null },
	{ "thalweg_done_with", session_null },
	{ "thalweg_vector_new", session_null },
	{ "thalweg_vector_floats", session_null },
	{ "thalweg_vector_busy", session_null },
	{ "thalweg_vector_free", session_null },
	{ "thalweg_fail", session_null },
	{ "thalweg_session_stop", session_null },
	{ "thalweg_session_result", session_null },
	{ "thalweg_session_save", session_null },
	{ "thalweg_session_parameters", session_null },
	{ "thalweg_session_close", session_null },
	{ "thalweg_abi", session_null },
};

static void every_function_takes_null(void **state)
{
	for (size_t k = 0; k < sizeof contracts / sizeof contracts[0]; k++) {
		struct problem p;
		struct thalweg_job *job;

		problem_init(&p);
		job = problem_open(&p, THALWEG_THREADS, text);
		contracts[k].try(job);
		thalweg_close(job);
	}
}

/* A function that the header has and this file does not is one that nobody tried. */
static void no_function_is_left_out(void **state)
{
	FILE *f = fopen("include/thalweg.h", "r");
	char line[300];
	size_t found = 0;

	assert_non_null(f);
	while (fgets(line, sizeof line, f)) {
		const char *at =
			strncmp(line, "THALWEG_API ", 12) ? NULL : strstr(line, "thalweg_");
		char name[60];
		size_t k = 0;

		while (at && sscanf(at, "%59[a-z_]", name) == 1 && at[strlen(name)] != '(')
			at = strstr(at + 1, "thalweg_");
		if (!at)
			continue;
		while (k < sizeof contracts / sizeof contracts[0] &&
		       strcmp(contracts[k].name, name) != 0)
			k++;
		if (k == sizeof contracts / sizeof contracts[0])
			fail_msg("%s is in the header and not in this test", name);
		found++;
	}
	fclose(f);
	assert_int_equal(found, 36);
}

/* --- nothing was usable --- */

static int not_finite(void *user, const struct thalweg_batch *batch, float *gradient, double *loss)
{
	for (size_t i = 0; i < PARAMETERS + BUFFERS; i++)
		gradient[i] = NAN;
	*loss = 1.0;
	return 0;
}

/* Too few refusals to be called a divergence on the way: the end must say it all the same. */
static void all_refused_is_refused(void **state)
{
	for (int world = THALWEG_THREADS; world <= THALWEG_SIM; world++) {
		struct thalweg_result r = { .loss = 7.0 };
		struct thalweg_error why = { 0 };
		struct thalweg_job *job;
		struct problem p;

		problem_init(&p);
		p.engine.gradient = not_finite;
		job = problem_open(&p, (enum thalweg_world)world,
				   "data: {batch: 12}\ntrain: {epochs: 1}\nupdate: {rate: 0.1}\n"
				   "cluster: {workers: 2}\nstrategy: asgd\n");
		assert_int_equal(thalweg_train(job, NULL, 0, &r, &why), THALWEG_REFUSED);
		assert_non_null(strstr(why.text, "all 4 gradients were refused"));
		assert_null(thalweg_parameters(job, NULL));
		assert_true(r.loss == 7.0);
		thalweg_close(job);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_function_takes_null),
		cmocka_unit_test(no_function_is_left_out),
		cmocka_unit_test(all_refused_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
