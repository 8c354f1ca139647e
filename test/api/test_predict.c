/* SPDX-License-Identifier: Apache-2.0 */
/* test_predict.c - a model that is opened by its path alone predicts what its job evaluated. */
/* labels: numbers */
#include <thalweg.h>
#include "kit/scratch.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define TESTS 90

static float rows[TESTS][2];
static int truth[TESTS];

/* Points on the left are "port", those on the right "starboard"; some are not where they belong. */
static void write_table(const char *name, int n, int seed)
{
	FILE *f = fopen(path_of(name), "w");

	assert_non_null(f);
	fputs("east,north,side\n", f);
	for (int k = 0; k < n; k++) {
		const int right = (k * 7 + seed) % 2;
		const float x = (float)(300 + 40 * right + (k * 37 + seed * 11) % 61);
		const float y = (float)((k * 53 + seed) % 97) / 1000.0f;

		fprintf(f, "%.9g,%.9g,%s\n", (double)x, (double)y, right ? "starboard" : "port");
		if (seed == 1) {
			rows[k][0] = x;
			rows[k][1] = y;
			truth[k] = right;
		}
	}
	fclose(f);
}

static int train(void **state)
{
	static const char job[] = "data: {source: csv, file: %s, test_file: %s, batch: 20}\n"
				  "model: {layers: [linear 6, tanh, linear 2]}\n"
				  "train: {epochs: 20}\nupdate: {rate: 0.1}\n"
				  "cluster: {workers: 1}\n";
	struct thalweg_error why = { 0 };
	struct thalweg_request q = { .verbosity = -1 };
	struct thalweg_job *h = NULL;
	struct thalweg_score *score = calloc(1, sizeof *score);
	char text[1000];

	if (scratch_make(state) || !score)
		return -1;
	write_table("train.csv", 400, 0);
	write_table("test.csv", TESTS, 1);
	snprintf(text, sizeof text, job, path_of("train.csv"), path_of("test.csv"));
	q.text = text;
	if (thalweg_open(&q, &h, &why) != THALWEG_OK ||
	    thalweg_train(h, path_of("run"), 0, NULL, &why) != THALWEG_OK ||
	    thalweg_evaluate(h, score, &why) != THALWEG_OK ||
	    thalweg_save(h, path_of("saved.safetensors"), &why) != THALWEG_OK) {
		print_error("%s\n", why.text);
		return -1;
	}
	thalweg_close(h);
	*state = score;
	return 0;
}

static struct thalweg_model *opened(const char *path)
{
	struct thalweg_error why = { 0 };
	struct thalweg_model *m = NULL;

	if (thalweg_model_open(path, &m, &why) != THALWEG_OK)
		print_error("%s\n", why.text);
	assert_non_null(m);
	return m;
}

static void it_predicts_what_was_evaluated(void **state)
{
	const struct thalweg_score *score = *state;
	struct thalweg_model *m = opened(path_of("run")),
			     *saved = opened(path_of("saved.safetensors"));
	const struct thalweg_model_facts *f = thalweg_model_facts(m);
	float p[TESTS][2], q[TESTS][2];
	double right = 0, loss = 0;

	assert_true(f->inputs == 2 && f->outputs == 2 && f->classes && f->rank == 1);
	assert_string_equal(f->input_names[0], "east");
	assert_string_equal(f->output_names[1], "starboard");
	assert_int_equal(thalweg_predict(m, rows[0], TESTS, p[0], NULL), THALWEG_OK);
	for (int k = 0; k < TESTS; k++) {
		assert_true(fabs((double)p[k][0] + (double)p[k][1] - 1) < 1e-6);
		right += (p[k][1] > p[k][0]) == truth[k];
		loss -= log((double)p[k][truth[k]]);
	}
	assert_true(score->samples == TESTS && right / TESTS == score->accuracy && right > 60);
	assert_true(fabs(loss / TESTS - score->loss) < 1e-5 * score->loss);
	/* what was saved has the same card, and gives the same bits */
	assert_int_equal(thalweg_predict(saved, rows[0], TESTS, q[0], NULL), THALWEG_OK);
	assert_memory_equal(p, q, sizeof p);
	thalweg_model_close(m);
	thalweg_model_close(saved);
}

static void wrong_calls_are_told(void **state)
{
	struct thalweg_model *m = opened(path_of("run"));
	struct thalweg_error why = { 0 };
	float p[2];

	assert_int_equal(thalweg_predict(NULL, rows[0], 1, p, &why), THALWEG_BAD_INPUT);
	assert_string_equal(why.text, "thalweg_predict: model is NULL");
	assert_int_equal(thalweg_predict(m, NULL, 1, p, &why), THALWEG_BAD_INPUT);
	assert_string_equal(why.text, "thalweg_predict: rows is NULL");
	assert_int_equal(thalweg_predict(m, rows[0], 1, NULL, &why), THALWEG_BAD_INPUT);
	assert_int_equal(thalweg_predict(m, NULL, 0, NULL, &why), THALWEG_OK);
	thalweg_model_close(m);
	assert_int_equal(thalweg_model_open(NULL, &m, &why), THALWEG_BAD_INPUT);
	assert_string_equal(why.text, "thalweg_model_open: path is NULL");
	assert_int_equal(thalweg_model_open(path_of("run"), NULL, &why), THALWEG_BAD_INPUT);
	assert_int_equal(thalweg_model_open(path_of("nowhere"), &m, &why), THALWEG_ABSENT);
	assert_int_equal(thalweg_model_open(path_of("train.csv"), &m, &why), THALWEG_BAD_BYTES);
	assert_non_null(strstr(why.text, "it is text"));
	assert_null(thalweg_model_facts(NULL));
	thalweg_model_close(NULL);
}

/* --- cells of a table --- */

static struct thalweg_model *messy(const char *missing)
{
	static const char job[] =
		"data: {source: csv, file: %s, label: kind, batch: 20, missing: %s}\n"
		"model: {layers: [linear 6, tanh, linear 2]}\n"
		"train: {epochs: 2}\nupdate: {rate: 0.1}\ncluster: {workers: 1}\n";
	struct thalweg_request q = { .verbosity = -1 };
	struct thalweg_error why = { 0 };
	struct thalweg_job *h = NULL;
	struct thalweg_model *m;
	FILE *f = fopen(path_of("messy.csv"), "w");
	char text[1000];

	assert_non_null(f);
	fputs("note,size,kind,colour,since\n", f);
	for (int k = 0; k < 100; k++)
		fprintf(f, "text %d,%s%d.5,%s,%s,2024-%02d-%02d\n", k, k % 2 ? "-" : "", k % 17,
			k % 3 ? "on" : "off",
			k % 4 == 0   ? "red"
			: k % 4 == 1 ? "\"light, \"\"blue\"\"\""
			: k % 4 == 2 ? "green"
				     : "",
			1 + k % 12, 1 + k % 28);
	fclose(f);
	snprintf(text, sizeof text, job, path_of("messy.csv"), missing);
	q.text = text;
	assert_int_equal(thalweg_open(&q, &h, &why), THALWEG_OK);
	assert_int_equal(thalweg_train(h, path_of(missing), 0, NULL, &why), THALWEG_OK);
	thalweg_close(h);
	m = opened(path_of(missing));
	assert_true(thalweg_model_facts(m)->columns == 3);
	return m;
}

static void cells_become_inputs(void **state)
{
	static const char *const cells[] = {
		"1.5", "green",           "2024-05-06", /* a Monday */
		NULL,  "purple",          " 6.5.2024 ", /* a word that is not known */
		" NA", "light, \"blue\"", "",
	};
	static const float inputs[] = {
		1.5f, 1, 0, 0, 0, 2024, 5, 6, 0, /* size, green, light, red, others, date */
		0,    0, 0, 0, 1, 2024, 5, 6, 0, /* missing: zero */
		0,    0, 1, 0, 0, 0,    0, 0, 0,
	};
	struct thalweg_model *m = messy("zero");
	const struct thalweg_model_facts *f = thalweg_model_facts(m);
	struct thalweg_error why = { 0 };
	float p[6], q[6];

	assert_true(f->inputs == 9 && f->outputs == 2);
	assert_string_equal(f->column_names[0], "size");
	assert_string_equal(f->column_names[2], "since");
	assert_null(f->column_names[3]);
	assert_string_equal(f->input_names[1], "colour=green");
	assert_int_equal(thalweg_predict_cells(m, cells, 3, p, &why), THALWEG_OK);
	assert_int_equal(thalweg_predict(m, inputs, 3, q, &why), THALWEG_OK);
	assert_memory_equal(p, q, sizeof p);
	assert_true(p[0] != p[2] && p[2] != p[4]);
	thalweg_model_close(m);
}

static void wrong_cells_are_told(void **state)
{
	static const char *const word[] = { "1", "red", "2024-01-01", "many", "red", "2024-01-01" };
	static const char *const day[] = { "1", "red", "2024-02-30" };
	static const char *const none[] = { "", "red", "2024-02-03" };
	struct thalweg_model *m = messy("drop");
	struct thalweg_error why = { 0 };
	float p[4];

	assert_int_equal(thalweg_predict_cells(m, word, 2, p, &why), THALWEG_BAD_INPUT);
	assert_non_null(strstr(why.text, "cells:2: column 2"));
	assert_non_null(strstr(why.text, "'many' is not accepted; a finite number"));
	assert_int_equal(thalweg_predict_cells(m, day, 1, p, &why), THALWEG_BAD_INPUT);
	assert_non_null(strstr(why.text, "'2024-02-30' is not accepted; a date such as"));
	assert_int_equal(thalweg_predict_cells(m, none, 1, p, &why), THALWEG_BAD_INPUT);
	assert_non_null(strstr(why.text, "was trained without rows that lack a value"));
	assert_int_equal(thalweg_predict_cells(m, NULL, 1, p, &why), THALWEG_BAD_INPUT);
	assert_string_equal(why.text, "thalweg_predict_cells: cells is NULL");
	assert_int_equal(thalweg_predict_cells(m, day, 1, NULL, &why), THALWEG_BAD_INPUT);
	assert_string_equal(why.text, "thalweg_predict_cells: out is NULL");
	assert_int_equal(thalweg_predict_cells(m, NULL, 0, NULL, &why), THALWEG_OK);
	thalweg_model_close(m);
}

/* --- a model of the caller's own --- */

static int gradient(void *user, const struct thalweg_batch *b, float *out, double *loss)
{
	out[0] = b->parameters[0] - 3;
	*loss = out[0] * out[0] / 2;
	return 0;
}

static int evaluate(void *user, const struct thalweg_batch *b, double *loss, double *correct)
{
	*loss = 1;
	return 0;
}

static void a_model_of_its_own_cannot_be_known(void **state)
{
	const struct thalweg_engine engine = {
		.parameters = 1,
		.samples = 20,
		.tests = 1,
		.gradient = gradient,
		.evaluate = evaluate,
	};
	const struct thalweg_request q = { .text = "data: {batch: 5}\ntrain: {epochs: 2}\n"
						   "cluster: {workers: 1}\n",
					   .engine = &engine,
					   .verbosity = -1 };
	struct thalweg_error why = { 0 };
	struct thalweg_model *m = NULL;
	struct thalweg_job *h = NULL;

	assert_int_equal(thalweg_open(&q, &h, &why), THALWEG_OK);
	assert_int_equal(thalweg_train(h, path_of("own"), 0, NULL, &why), THALWEG_OK);
	assert_int_equal(thalweg_save(h, path_of("own.safetensors"), &why), THALWEG_OK);
	thalweg_close(h);
	assert_int_equal(thalweg_model_open(path_of("own"), &m, &why), THALWEG_BAD_INPUT);
	assert_non_null(strstr(why.text, "a model of its own"));
	assert_int_equal(thalweg_model_open(path_of("own.safetensors"), &m, &why),
			 THALWEG_BAD_INPUT);
	assert_non_null(strstr(why.text, "a model of its own"));
}

static int finish(void **state)
{
	free(*state);
	return scratch_remove(state);
}

/* Every function that takes *why clears it when it succeeds. */
static void success_clears_the_error(void **state)
{
	static const struct thalweg_error old = { .status = THALWEG_IO, .text = "old" };
	const struct thalweg_request q = { .text = "data: {samples: 30, batch: 3}\n"
						   "model: {quadratic: {dimension: 4}}\n"
						   "train: {epochs: 1}\nupdate: {rate: 0.1}\n"
						   "cluster: {workers: 1}\n",
					   .verbosity = -1 };
	struct thalweg_job *h = NULL;
	struct thalweg_model *m = NULL;
	struct thalweg_score score;
	struct thalweg_error why;
	float out[2];

#define CLEARS(call)                                                                               \
	do {                                                                                       \
		why = old;                                                                         \
		assert_int_equal(call, THALWEG_OK);                                                \
		assert_int_equal(why.status, THALWEG_OK);                                          \
		assert_string_equal(why.text, "");                                                 \
	} while (0)
	CLEARS(thalweg_open(&q, &h, &why));
	CLEARS(thalweg_train(h, NULL, 0, NULL, &why));
	CLEARS(thalweg_evaluate(h, &score, &why));
	CLEARS(thalweg_save(h, path_of("quadratic.safetensors"), &why));
	CLEARS(thalweg_load(h, path_of("quadratic.safetensors"), &why));
	thalweg_close(h);
	CLEARS(thalweg_model_open(path_of("saved.safetensors"), &m, &why));
	CLEARS(thalweg_predict(m, rows[0], 1, out, &why));
	CLEARS(thalweg_predict(m, NULL, 0, NULL, &why));
	thalweg_model_close(m);
	assert_int_equal(thalweg_open(&q, &h, NULL), THALWEG_OK); /* nobody asks */
	thalweg_close(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_predicts_what_was_evaluated),
		cmocka_unit_test(wrong_calls_are_told),
		cmocka_unit_test(cells_become_inputs),
		cmocka_unit_test(wrong_cells_are_told),
		cmocka_unit_test(success_clears_the_error),
		cmocka_unit_test(a_model_of_its_own_cannot_be_known),
	};

	return cmocka_run_group_tests(tests, train, finish);
}
