/* SPDX-License-Identifier: Apache-2.0 */
/* test_network_fits.c - data, network and loss that do not go together are refused before anything
 * runs, with the field that is wrong; what goes together goes on, whoever leaves. */
/* labels: numbers */
#include "run/run.h"
#include "kit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* Rows of two values and what is to be predicted: 0 and 1 in turn, `last` in the last `odd`. */
static void write_rows(const char *name, int rows, int odd, const char *last)
{
	char text[8192] = "";
	size_t at = 0;

	for (int k = 0; k < rows; k++)
		at += (size_t)snprintf(text + at, sizeof text - at, "%d,%d,%s\n", k * 7 % 11,
				       k * 5 % 13,
				       k >= rows - odd ? last
				       : k % 2         ? "1"
						       : "0");
	put(name, text, at);
}

static int make_files(void **state)
{
	/* one tensor, `0.bias`, whose second value is not a number */
	static const char header[] = "{\"0.bias\":{\"dtype\":\"F32\",\"shape\":[10],"
				     "\"data_offsets\":[0,40]},\"0.weight\":{\"dtype\":\"F32\","
				     "\"shape\":[10,784],\"data_offsets\":[40,31400]}}";
	const uint64_t length = sizeof header - 1;
	uint8_t *bytes = calloc(1, 8 + length + 31400);
	const uint32_t nan = 0x7fc00000;

	if (scratch_make(state) || !bytes)
		return -1;
	memcpy(bytes, &length, 8);
	memcpy(bytes + 8, header, length);
	memcpy(bytes + 8 + length + 4, &nan, 4);
	put("nan.safetensors", bytes, 8 + length + 31400);
	free(bytes);
	write_rows("hard.csv", 100, 0, "");
	write_rows("mixed.csv", 100, 3, "0.5");
	write_rows("far.csv", 100, 1, "2");
	return 0;
}

static enum tw_status run(const char *text, enum tw_world_kind world, json_t **result,
			  struct tw_error *why)
{
	const struct tw_run_request request = { .threads = 1 };
	struct tw_job *job = NULL;
	enum tw_status st;
	char file[100];

	*result = NULL;
	snprintf(file, sizeof file, "%s", path_of("job.yaml"));
	st = tw_job_read_text(file, text, strlen(text), NULL, 0, NULL, world, &job, why);
	if (st != TW_OK)
		return st;
	st = tw_run(&request, job, result, why);
	tw_job_free(job);
	return st;
}

#define DIGITS "data: {source: digits, count: 100, tests: 20, batch: 10, "
#define RATE   "train: {epochs: 1}\nupdate: {rate: 0.01}\n"
#define TABLE  "data: {source: csv, task: values, batch: 10, "

static void what_does_not_fit_is_refused(void **state)
{
	static const struct {
		const char *text, *said;
	} bad[] = {
		{ DIGITS "normalise: standard}\nmodel: autoencoder\nloss: "
			 "binary-cross-entropy\n" RATE,
		  "loss.name: binary-cross-entropy needs targets from 0 to 1, but test sample 1 " },
		{ TABLE "file: far.csv}\nmodel: {layers: [linear 1]}\nloss: "
			"binary-cross-entropy\n" RATE,
		  "has 2; use loss: mean-squared" },
		{ TABLE "file: hard.csv, test_file: hard.csv, test: 0.3}\nmodel: {layers: [linear "
			"1]}\nloss: mean-squared\n" RATE,
		  "data.test: cannot be combined with data.test_file, which gives a test set" },
		{ TABLE "file: hard.csv, test: 0}\nmodel: {layers: [linear 1]}\nloss: "
			"mean-squared\n" RATE,
		  "data.evaluate: there are no test samples to evaluate on" },
		{ DIGITS "predict: input}\nmodel: {layers: [tanh]}\nloss: mean-squared\n" RATE,
		  "nothing to train" },
		{ DIGITS "normalise: unit}\nmodel: {layers: [linear 10], weights: "
			 "nan.safetensors}\n" RATE,
		  "model.weights: value 2 (from 1) of tensor 0.bias in nan.safetensors is not a "
		  "finite number" },
	};

	(void)state;
	for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
		struct tw_error why = { 0 };
		json_t *result;

		assert_int_equal(run(bad[k].text, TW_WORLD_THREADS, &result, &why), TW_BAD_INPUT);
		assert_null(result);
		if (!strstr(why.text, bad[k].said))
			fail_msg("'%s' lacks '%s'", why.text, bad[k].said);
	}
}

/* One target that is neither 0 nor 1, and nobody can say which predictions are right. */
static void accuracy_is_there_or_not(void **state)
{
	static const struct {
		const char *tests;
		bool there;
	} trials[] = { { "hard.csv", true }, { "mixed.csv", false } };

	(void)state;
	for (size_t k = 0; k < 2; k++) {
		struct tw_error why = { 0 };
		char text[500];
		json_t *result;

		snprintf(text, sizeof text,
			 TABLE "file: hard.csv, test_file: %s}\nmodel: {layers: [linear 1]}\n"
			       "loss: binary-cross-entropy\n" RATE,
			 trials[k].tests);
		if (run(text, TW_WORLD_THREADS, &result, &why) != TW_OK)
			fail_msg("%s", why.text);
		assert_int_equal(json_is_number(json_object_get(result, "accuracy")),
				 trials[k].there);
		json_decref(result);
	}
}

/* Those who are left share the batch of those who are gone. */
static void a_global_batch_outlives_workers(void **state)
{
	static const char text[] =
		"data: {source: digits, count: 400, tests: 50, global_batch: 64}\n"
		"model: {layers: [linear 12, relu, linear 10]}\n"
		"train: {epochs: 3}\nupdate: {rate: 0.05}\ncluster: {workers: 4}\n"
		"strategy: {gate: bsp}\n"
		"sim: {faults: [{crash: worker 3, at: 1s}, {crash: worker 1, at: 2s}]}\n";
	struct tw_error why = { 0 };
	json_t *result;

	(void)state;
	if (run(text, TW_WORLD_SIM, &result, &why) != TW_OK)
		fail_msg("%s", why.text);
	assert_int_equal(json_integer_value(json_object_get(result, "samples")), 1200);
	json_decref(result);
}

/* The job as it is once its data is known. */
static struct tw_job *settled(const char *text)
{
	struct tw_error why = { 0 };
	struct tw_job *job = NULL;
	char file[100];

	snprintf(file, sizeof file, "%s", path_of("job.yaml"));
	if (tw_job_read_text(file, text, strlen(text), NULL, 0, NULL, TW_WORLD_SIM, &job, &why) !=
		    TW_OK ||
	    tw_run_check(job, &why) != TW_OK)
		fail_msg("%s", why.text);
	return job;
}

/* Values are predicted by mean-squared unless the job says otherwise; the explained job says so and
 * is explained to itself. */
static void the_data_chooses_the_loss(void **state)
{
	static const char text[] = "data: {source: csv, file: far.csv, task: values, batch: 4}\n"
				   "model: {layers: [linear 1]}\ntrain: {epochs: 1}\n";
	struct tw_job *job = settled(text), *again;
	char *said[2] = { NULL, NULL };
	size_t bytes;

	(void)state;
	assert_string_equal(job->loss.name, "mean-squared");
	for (size_t k = 0; k < 2; k++) {
		FILE *out = open_memstream(&said[k], &bytes);

		assert_non_null(out);
		tw_job_explain(job, out);
		fclose(out);
		again = k == 0 ? settled(said[0]) : NULL;
		tw_job_free(job);
		job = again;
	}
	assert_non_null(strstr(said[0], "name: mean-squared"));
	assert_string_equal(said[0], said[1]);
	free(said[0]);
	free(said[1]);
}

/* A softmax before a loss that has its own is allowed, and said. */
static void twice_is_said(void **state)
{
	struct tw_job *once = settled("data: {source: digits, count: 64, tests: 8}\n"
				      "model: {layers: [linear 10]}\n");
	struct tw_job *twice = settled("data: {source: digits, count: 64, tests: 8}\n"
				       "model: {layers: [linear 10, softmax]}\n");

	(void)state;
	assert_int_equal(once->warnings, 0);
	assert_int_equal(twice->warnings, 1);
	assert_non_null(strstr(twice->warning[0], "softmax"));
	tw_job_free(once);
	tw_job_free(twice);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_does_not_fit_is_refused),
		cmocka_unit_test(accuracy_is_there_or_not),
		cmocka_unit_test(a_global_batch_outlives_workers),
		cmocka_unit_test(the_data_chooses_the_loss),
		cmocka_unit_test(twice_is_said),
	};

	return cmocka_run_group_tests(tests, make_files, scratch_remove);
}
