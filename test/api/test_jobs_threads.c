/* SPDX-License-Identifier: Apache-2.0 */
/* test_jobs_threads.c - jobs through the public header: results, events, stopping, parameters. */
#include "checkpoint/digest.h"
#include "thalweg.h"
#include "kit/has.h"
#include "kit/scratch.h"

#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* In the simulator and in rounds: the same bits every time, and by way of a checkpoint. */
static const char quadratic[] =
	"model: {quadratic: {dimension: 50, noise: 0.1, buffers: 3}}\n"
	"data: {source: none, samples: 256, batch: 2}\n"
	"train: {epochs: 4, seed: 3, evaluate: 1}\nupdate: {rate: 0.05}\n"
	"cluster: {workers: 4, shards: 2}\nstrategy: ssgd\ncheckpoint: {every: 1s}\n";

static struct thalweg_job *open_as(const struct thalweg_request *request)
{
	struct thalweg_error why = { 0 };
	struct thalweg_job *job = NULL;

	if (thalweg_open(request, &job, &why) != THALWEG_OK)
		fail_msg("%s", why.text);
	return job;
}

static void good(enum thalweg_status status, const struct thalweg_error *why)
{
	if (status != THALWEG_OK)
		fail_msg("%s", why->text);
}

static void versions(void **state)
{
	char text[32];

	snprintf(text, sizeof text, "%d.%d.%d", THALWEG_VERSION_MAJOR, THALWEG_VERSION_MINOR,
		 THALWEG_VERSION_PATCH);
	assert_string_equal(text, THALWEG_VERSION);
	assert_string_equal(text, TW_VERSION);
	assert_string_equal(thalweg_version(), text);
	assert_string_equal(thalweg_status_name(THALWEG_OK), "ok");
}

static void result_in_both_forms(void **state)
{
	struct thalweg_job *job =
		open_as(&(struct thalweg_request){ .text = quadratic, .world = THALWEG_SIM });
	struct thalweg_error why = { 0 };
	struct thalweg_score score;
	struct thalweg_result r;
	const float *w;
	char digest[33];
	json_t *all;
	size_t n;

	assert_null(thalweg_parameters(job, &n));
	assert_int_equal(n, 0);
	good(thalweg_train(job, NULL, 0, &r, &why), &why);
	all = json_loads(r.json, 0, NULL);
	assert_non_null(all);
	assert_true(json_real_value(json_object_get(all, "loss")) == r.loss);
	assert_true(json_is_null(json_object_get(all, "accuracy")) && isnan(r.accuracy));
	assert_int_equal(json_integer_value(json_object_get(all, "steps")), r.steps);
	assert_int_equal(json_integer_value(json_object_get(all, "samples")), r.samples);
	assert_true(json_real_value(json_object_get(all, "updates")) == r.updates);
	assert_string_equal(json_string_value(json_object_get(all, "parameters_digest")), r.digest);
	assert_int_equal(r.samples, 1024);
	assert_int_equal(r.steps, 512);
	assert_true(r.epochs == 4 && r.updates == 128 && r.workers == 4 && !r.interrupted);
	assert_null(r.checkpoint);
	json_decref(all);

	w = thalweg_parameters(job, &n);
	assert_int_equal(n, 53);
	tw_digest_bytes(w, 50 * sizeof *w, digest);
	assert_string_equal(digest, r.digest);
	good(thalweg_evaluate(job, &score, &why), &why);
	assert_true(score.loss == r.loss && isnan(score.accuracy));
	good(thalweg_train(job, NULL, 0, &r, &why), &why); /* again from the beginning */
	assert_string_equal(digest, r.digest);
	thalweg_close(job);
}

struct heard {
	unsigned kind[4];
	unsigned stop_at; /* evaluation after which it is enough */
	double loss, epochs;
	uint64_t checkpoint;
	char log[400];
	_Atomic int inside;
};

static int hear(void *user, const struct thalweg_event *e)
{
	struct heard *h = user;

	assert_int_equal(atomic_fetch_add(&h->inside, 1), 0);
	h->kind[e->kind]++;
	if (e->kind == THALWEG_EVALUATION) {
		h->loss = e->loss;
		h->epochs = e->epochs;
	} else if (e->kind == THALWEG_CHECKPOINT) {
		h->checkpoint = e->checkpoint;
	} else if (e->kind == THALWEG_LOG) {
		snprintf(h->log, sizeof h->log, "%s: %s", e->who, e->line);
	}
	atomic_fetch_sub(&h->inside, 1);
	return h->stop_at && h->kind[THALWEG_EVALUATION] >= h->stop_at;
}

static void events_are_heard(void **state)
{
	struct heard h = { .loss = NAN };
	struct thalweg_job *job = open_as(&(struct thalweg_request){
		.text = quadratic, .world = THALWEG_SIM, .listen = hear, .user = &h });
	struct thalweg_error why = { 0 };
	struct thalweg_result r;

	good(thalweg_train(job, path_of("heard"), 0, &r, &why), &why);
	assert_true(h.kind[THALWEG_EVALUATION] >= 4);
	assert_true(h.kind[THALWEG_PROGRESS] >= 1);
	assert_true(h.kind[THALWEG_CHECKPOINT] >= 2);
	assert_true(h.loss == r.loss && h.epochs == 4);
	assert_non_null(r.checkpoint);
	has(r.checkpoint, "heard/ckpt-");
	assert_int_equal(strtoull(strrchr(r.checkpoint, '-') + 1, NULL, 10), h.checkpoint);
	assert_int_equal(thalweg_train(job, path_of("heard"), 0, &r, &why), THALWEG_BAD_INPUT);
	good(thalweg_train(job, path_of("heard"), THALWEG_AGAIN, &r, &why), &why);
	h = (struct heard){ .loss = NAN };
	good(thalweg_train(job, NULL, 0, &r, &why), &why);
	assert_int_equal(h.kind[THALWEG_CHECKPOINT], 0); /* none is kept */
	assert_true(h.loss == r.loss);
	thalweg_close(job);
}

/* Stopped by the listener, gone on with by another job: as if nothing had been. */
static void stopped_and_resumed(void **state)
{
	struct heard h = { .stop_at = 2 };
	struct thalweg_job *job =
		open_as(&(struct thalweg_request){ .text = quadratic, .world = THALWEG_SIM });
	struct thalweg_error why = { 0 };
	struct thalweg_result whole, part;
	char digest[33];

	good(thalweg_train(job, NULL, 0, &whole, &why), &why);
	memcpy(digest, whole.digest, sizeof digest);
	thalweg_close(job);

	job = open_as(&(struct thalweg_request){
		.text = quadratic, .world = THALWEG_SIM, .listen = hear, .user = &h });
	assert_int_equal(thalweg_train(job, path_of("stopped"), 0, &part, &why),
			 THALWEG_INTERRUPTED);
	assert_true(part.interrupted && part.epochs < 4 && !*part.digest);
	assert_true(part.loss == h.loss); /* of the evaluation that stopped it */
	has(why.text, "train again to resume");
	assert_null(thalweg_parameters(job, NULL));
	good(thalweg_load(job, path_of("stopped"), &why), &why);
	assert_non_null(thalweg_parameters(job, NULL));
	h.stop_at = 0;
	good(thalweg_train(job, path_of("stopped"), 0, &part, &why), &why);
	assert_string_equal(part.digest, digest);
	thalweg_close(job);
}

static void *stop_soon(void *arg)
{
	usleep(50000);
	thalweg_stop(arg);
	return NULL;
}

static void stopped_from_outside(void **state)
{
	struct thalweg_error why = { 0 };
	struct thalweg_result r;
	struct thalweg_job *job = open_as(&(struct thalweg_request){
		.text = "model: {quadratic: {}}\ndata: {source: none}\n"
			"train: {epochs: 100000000}\nstrategy: asgd\n" });
	pthread_t other;

	assert_int_equal(pthread_create(&other, NULL, stop_soon, job), 0);
	assert_int_equal(thalweg_train(job, NULL, 0, &r, &why), THALWEG_INTERRUPTED);
	pthread_join(other, NULL);
	assert_true(r.interrupted && r.samples > 0);
	has(why.text, "stopped as asked");
	thalweg_stop(job); /* before it begins */
	assert_int_equal(thalweg_train(job, NULL, 0, &r, NULL), THALWEG_INTERRUPTED);
	thalweg_close(job);
}

static void wrong_requests(void **state)
{
	static const char *const set[] = { "train.seed" }, *const null[] = { NULL };
	const struct {
		struct thalweg_request request;
		const char *part;
	} wrong[] = {
		{ { 0 }, "path or a text: give one of them" },
		{ { .text = "{}", .path = "a" }, "give only one of them" },
		{ { .path = "-" }, "does not read standard input" },
		{ { .path = "no/such/job.yaml" }, "no/such/job.yaml: cannot be opened" },
		{ { .text = quadratic, .world = (enum thalweg_world)7 }, "no world number 7" },
		{ { .text = quadratic, .sets = 1 }, "set is NULL" },
		{ { .text = quadratic, .set = null, .sets = 1 }, "override number 0 is NULL" },
		{ { .text = quadratic, .set = set, .sets = 1 }, "--set train.seed: needs" },
		{ { .text = "" }, "job: is empty" },
		{ { .text = "modle: lenet\n" }, "job:1: modle" },
		{ { .text = "model: {external: {}}\ndata: {samples: 1}\n" },
		  "model.external.parameters: is a model of a program" },
	};
	struct thalweg_error why;
	struct thalweg_job *job = NULL;

	for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
		why = (struct thalweg_error){ 0 };
		assert_int_equal(thalweg_open(&wrong[k].request, &job, &why), THALWEG_BAD_INPUT);
		assert_int_equal(why.status, THALWEG_BAD_INPUT);
		has(why.text, wrong[k].part);
		assert_null(job);
		assert_int_equal(thalweg_open(&wrong[k].request, &job, NULL), THALWEG_BAD_INPUT);
	}
	job = open_as(&(struct thalweg_request){ .text = quadratic });
	assert_int_equal(thalweg_train(job, NULL, 2, NULL, &why), THALWEG_BAD_INPUT);
	assert_int_equal(thalweg_train(job, NULL, THALWEG_AGAIN, NULL, &why), THALWEG_BAD_INPUT);
	assert_int_equal(thalweg_train(job, "", 0, NULL, &why), THALWEG_BAD_INPUT);
	assert_int_equal(thalweg_load(job, path_of("nothing"), &why), THALWEG_ABSENT);
	has(why.text, "nothing");
	assert_null(thalweg_parameters(job, NULL));
	good(thalweg_train(job, NULL, 0, NULL, NULL), &why);
	assert_int_equal(thalweg_save(job, "", &why), THALWEG_BAD_INPUT);
	assert_int_equal(thalweg_save(job, path_of("no/such/file"), &why), THALWEG_IO);
	has(why.text, "no/such/file cannot be written: No such file or directory");
	thalweg_close(job);
	thalweg_close(NULL);
}

/* A real network: its tensors by name, and the same score after a file. */
static void networks(void **state)
{
	static const char text[] =
		"data: {source: digits, samples: 600, batch: 20}\n"
		"model: {layers: [flatten, linear 16, relu, linear 10]}\n"
		"train: {epochs: 2}\nupdate: {rate: 0.1}\ncluster: {workers: 2}\nstrategy: asgd\n";
	struct thalweg_job *job = open_as(&(struct thalweg_request){ .text = text });
	const struct thalweg_tensor *t;
	struct thalweg_error why = { 0 };
	struct thalweg_score score;
	struct thalweg_result r;
	size_t n;

	n = thalweg_tensors(job, &t);
	assert_int_equal(n, 4);
	assert_string_equal(t[0].name, "1.weight");
	assert_int_equal(t[0].rank, 2);
	assert_int_equal(t[0].shape[0], 16);
	good(thalweg_train(job, NULL, 0, &r, &why), &why);
	assert_true(r.accuracy > 0.1);
	good(thalweg_save(job, path_of("net.safetensors"), &why), &why);
	thalweg_close(job);

	job = open_as(&(struct thalweg_request){ .text = text });
	good(thalweg_load(job, path_of("net.safetensors"), &why), &why);
	good(thalweg_evaluate(job, &score, &why), &why);
	assert_true(score.loss == r.loss && score.accuracy == r.accuracy);
	thalweg_close(job);
}

static void *train_one(void *arg)
{
	struct thalweg_result *r = arg;
	struct thalweg_job *job = NULL;

	if (thalweg_open(&(struct thalweg_request){ .text = quadratic, .world = THALWEG_SIM }, &job,
			 NULL) == THALWEG_OK)
		thalweg_train(job, NULL, 0, r, NULL);
	thalweg_close(job);
	return NULL;
}

static void jobs_side_by_side(void **state)
{
	struct thalweg_result r[3] = { { .steps = 0 } };
	pthread_t thread[3];

	for (int k = 0; k < 3; k++)
		assert_int_equal(pthread_create(&thread[k], NULL, train_one, &r[k]), 0);
	for (int k = 0; k < 3; k++)
		pthread_join(thread[k], NULL);
	assert_int_equal(strlen(r[0].digest), 32);
	assert_string_equal(r[0].digest, r[1].digest);
	assert_string_equal(r[0].digest, r[2].digest);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(versions),
		cmocka_unit_test(result_in_both_forms),
		cmocka_unit_test(events_are_heard),
		cmocka_unit_test(stopped_and_resumed),
		cmocka_unit_test(stopped_from_outside),
		cmocka_unit_test(wrong_requests),
		cmocka_unit_test(networks),
		cmocka_unit_test(jobs_side_by_side),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
