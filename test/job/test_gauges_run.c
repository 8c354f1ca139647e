/* SPDX-License-Identifier: Apache-2.0 */
/* test_gauges_run.c - what is shown of a real run agrees with its result. */
#include "metrics/gauges.h"
#include "job/prometheus.h"
#include "run/run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* A server's process sees no steps, a worker's nothing else. */
struct seen {
	struct tw_gauges *all, *served, *joined;
};

static bool look(void *arg, const struct tw_note *n)
{
	struct seen *s = arg;
	const bool step = n->kind == TW_NOTE_STEP || n->kind == TW_NOTE_GRADIENT;

	tw_gauges_note(s->all, n);
	tw_gauges_note(step ? s->joined : s->served, n);
	return true;
}

static json_t *run(const char *job_text, enum tw_world_kind world, struct seen *s,
		   struct tw_job **job)
{
	struct tw_run_request request = { .observer = look, .observer_arg = s, .threads = 1 };
	struct tw_error why = { 0 };
	json_t *result = NULL;

	if (tw_job_read_text("job.yaml", job_text, strlen(job_text), NULL, 0, NULL, world, job,
			     &why) != TW_OK ||
	    tw_run_check(*job, &why) != TW_OK)
		fail_msg("%s", why.text);
	s->all = tw_gauges_new(&tw_heap_system, &(*job)->plan, "all", "here");
	s->served = tw_gauges_new(&tw_heap_system, &(*job)->plan, "serve", "here");
	s->joined = tw_gauges_new(&tw_heap_system, &(*job)->plan, "worker", "here");
	assert_true(s->all && s->served && s->joined);
	if (tw_run(&request, *job, &result, &why) != TW_OK)
		fail_msg("%s", why.text);
	return result;
}

static void done(struct seen *s, struct tw_job *job, json_t *result)
{
	tw_gauges_free(s->all);
	tw_gauges_free(s->served);
	tw_gauges_free(s->joined);
	tw_job_free(job);
	json_decref(result);
}

static double said(const json_t *result, const char *name)
{
	return json_number_value(json_object_get(result, name));
}

/* Every bucket is the sum of the result's bins up to it; sum and count are those of the mean. */
static void same_staleness(const json_t *result)
{
	const json_t *st = json_object_get(result, "staleness");
	const json_t *bins = json_object_get(st, "histogram");
	double sum = 0, all = 0;

	for (size_t k = 0; k < json_array_size(bins); k++)
		all += json_number_value(json_array_get(bins, k));
	assert_true(all > 0);
	assert_true(prometheus_of("thalweg_staleness_count", "") == all);
	for (size_t k = 0; k < prometheus.samples; k++) {
		const struct sample *s = &prometheus.sample[k];
		double border, want = 0;

		if (sscanf(s->labels, "le=\"%lf\"", &border) != 1 || isinf(border))
			continue;
		for (size_t i = 0; i < json_array_size(bins) && (double)i <= border; i++)
			want += json_number_value(json_array_get(bins, i));
		assert_true(s->value == want);
	}
	sum = prometheus_of("thalweg_staleness_sum", "");
	assert_true(fabs(sum / all - json_number_value(json_object_get(st, "mean"))) < 1e-12);
}

/* Values of applied contributions, and those that were sent: all of them, without a codec. */
static void same_values(const json_t *result, const struct tw_job *job)
{
	const json_t *up = json_object_get(json_object_get(result, "codec"), "up");
	const double all = prometheus_of("thalweg_codec_values_total", "stage=\"raw\"");

	if (job->plan.gate->traits & TW_GATE_LOCKFREE)
		return; /* nothing is pushed */
	assert_true(all > 0);
	assert_true(prometheus_of("thalweg_codec_values_total", "stage=\"sent\"") == all);
	assert_true(json_number_value(json_object_get(up, "density")) == 1.0);
	assert_true(json_number_value(json_object_get(up, "raw")) >= 4 * all);
}

static double mean_updates(uint32_t shards)
{
	double sum = 0;
	char label[40];

	for (uint32_t k = 0; k < shards; k++) {
		snprintf(label, sizeof label, "shard=\"%u\"", k);
		sum += prometheus_of("thalweg_updates_total", label);
	}
	return sum / shards;
}

static void same_as_result(const json_t *result, const struct tw_job *job)
{
	assert_true(prometheus_of("thalweg_steps_total", "") == said(result, "steps"));
	assert_true(prometheus_of("thalweg_samples_total", "") == said(result, "samples"));
	assert_true(mean_updates(job->plan.problem.shards) == said(result, "updates"));
	assert_true(prometheus_of("thalweg_epochs", "") == said(result, "epochs_applied"));
	assert_true(prometheus_of("thalweg_progress_ratio", "") == 1.0);
	assert_true(fabs(prometheus_of("thalweg_loss", "") / said(result, "loss") - 1) < 1e-8);
	assert_true(prometheus_of("thalweg_dropped_total", "") == said(result, "dropped"));
	assert_true(prometheus_of("thalweg_refused_total", "") == said(result, "refused"));
	assert_true(prometheus_of("thalweg_redealt_total", "") == said(result, "redealt"));
	same_staleness(result);
	same_values(result, job);
}

static void compare(const char *job_text, enum tw_world_kind world)
{
	struct seen s;
	struct tw_job *job;
	json_t *result = run(job_text, world, &s, &job);
	char label[60];

	prometheus_read(s.all);
	same_as_result(result, job);
	for (uint32_t k = 0; k < job->plan.crew.workers; k++) {
		snprintf(label, sizeof label, "worker=\"%u\",host=\"here\"", k);
		assert_true(prometheus_of("thalweg_worker_step_seconds_mean", label) > 0);
		prometheus_of("thalweg_worker_step_seconds", label);
		prometheus_of("thalweg_worker_up", label);
	}
	prometheus_read(s.served);
	same_as_result(result, job);
	assert_true(prometheus_has("thalweg_worker_step_seconds"));
	prometheus_read(s.joined);
	assert_true(prometheus_of("thalweg_steps_total", "") == said(result, "steps"));
	assert_true(prometheus_of("thalweg_samples_total", "") == said(result, "samples"));
	assert_true(isfinite(prometheus_of("thalweg_loss", "")));
	assert_true(prometheus_of("thalweg_workers", "") == job->plan.crew.workers);
	assert_false(prometheus_has("thalweg_epochs") || prometheus_has("thalweg_updates_total"));
	done(&s, job, result);
}

#define JOB(rest, name)                                                                            \
	"data: {source: none, samples: 1003, batch: 4}\n"                                          \
	"model: {quadratic: {dimension: 20}}\n"                                                    \
	"train: {epochs: 3, evaluate: 1}\n"                                                        \
	"update: {rate: 0.01}\n" rest "strategy: {" name "}\n"

static void as_the_result_says_in_threads(void **state)
{
	compare(JOB("cluster: {workers: 3, shards: 2}\n", "name: asgd"), TW_WORLD_THREADS);
	compare(JOB("cluster: {workers: 3, servers: 2, shards: 4}\n", "name: ssgd"),
		TW_WORLD_THREADS);
	compare(JOB("cluster: {workers: 4}\n", "name: hogwild"), TW_WORLD_THREADS);
}

static void as_the_result_says_in_the_simulator(void **state)
{
	compare(JOB("cluster: {workers: 5, shards: 3}\n", "name: asgd"), TW_WORLD_SIM);
	/* contributions of several steps, hence of several ranges */
	compare(JOB("cluster: {workers: 3, shards: 2}\n", "name: asgd, push: 3, fetch: 3"),
		TW_WORLD_SIM);
}

/* What contributions tell of themselves; the master alone does not know it. */
static void deltas_are_as_the_result_says(void **state)
{
	static const char *const strategies[] = { "name: averaging, push: 3",
						  "name: easgd, push: 2",
						  "name: fedbuff, push: 4, collect: 2" };
	static const char *const same[][2] = { { "thalweg_push_period", "period" },
					       { "thalweg_delta_pushes_total", "pushes" },
					       { "thalweg_skipped_gradients_total", "skipped" },
					       { "thalweg_drift_mean", "drift_mean" },
					       { "thalweg_drift_max", "drift_max" } };

	for (size_t k = 0; k < sizeof strategies / sizeof strategies[0]; k++) {
		struct tw_job *job;
		struct seen s;
		char text[400];
		json_t *result, *d;
		double steps;

		snprintf(text, sizeof text,
			 "data: {source: none, samples: 1000, batch: 4}\n"
			 "model: {quadratic: {dimension: 20}}\ntrain: {epochs: 3}\n"
			 "update: {rule: sgd, rate: 0.01}\ncluster: {workers: 3, shards: 4}\n"
			 "strategy: {%s}\n",
			 strategies[k]);
		result = run(text, k % 2 ? TW_WORLD_SIM : TW_WORLD_THREADS, &s, &job);
		d = json_object_get(result, "deltas");
		assert_non_null(d);
		prometheus_read(s.served);
		for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
			assert_true(fabs(prometheus_of(same[i][0], "") - said(d, same[i][1])) <
				    1e-8 * (1 + said(d, same[i][1])));
		steps = prometheus_of("thalweg_delta_steps_total", "");
		assert_true(steps == 750 && said(d, "drift_mean") > 0);
		assert_true(fabs(steps / said(d, "pushes") - said(d, "steps_per_push")) < 1e-12);
		done(&s, job, result);
	}
}

static void caches_are_as_the_result_says(void **state)
{
	for (int k = 0; k < 2; k++) {
		struct tw_job *job;
		struct seen s;
		json_t *result = run(JOB("cluster: {workers: 3, shards: 2}\n",
					 "name: ssp, lead: 4, cache: true"),
				     k ? TW_WORLD_SIM : TW_WORLD_THREADS, &s, &job);
		const json_t *cache = json_object_get(result, "cache");

		prometheus_read(s.served);
		assert_true(said(cache, "saved") > 0);
		assert_true(prometheus_of("thalweg_cache_saved_total", "") == said(cache, "saved"));
		assert_true(prometheus_of("thalweg_cache_fetches_total", "") ==
			    said(cache, "fetches"));
		done(&s, job, result);
	}
}

#define CRASH                                                                                      \
	"cluster: {workers: 3, shards: 2, min: 1, wait: 5s, limit: 1s}\n"                          \
	"sim: {faults: [{crash: worker 1, at: 4s, restart: 10s}]}\n"

static void a_worker_dies_and_returns(void **state)
{
	struct seen s;
	struct tw_job *job;
	json_t *result = run(JOB(CRASH, "name: asgd"), TW_WORLD_SIM, &s, &job);

	prometheus_read(s.served);
	assert_true(said(result, "redealt") > 0);
	assert_true(prometheus_of("thalweg_redealt_total", "") == said(result, "redealt"));
	assert_true(mean_updates(2) == said(result, "updates"));
	assert_false(prometheus_has("thalweg_last_checkpoint_seconds"));
	same_staleness(result);
	same_values(result, job);
	done(&s, job, result);

	result = run(JOB(CRASH "checkpoint: {every: 2s}\n", "name: asgd"), TW_WORLD_SIM, &s, &job);
	prometheus_read(s.served);
	/* what is handed back for a checkpoint is dealt again, too, but not for a fault */
	assert_true(said(result, "redealt") > 0);
	assert_true(prometheus_of("thalweg_redealt_total", "") > said(result, "redealt"));
	assert_true(prometheus_of("thalweg_checkpoints_total", "") > 1);
	assert_true(prometheus_of("thalweg_last_checkpoint_seconds", "") >= 0);
	assert_true(prometheus_of("thalweg_rollbacks_total", "") == 0);
	assert_true(mean_updates(2) == said(result, "updates"));
	same_staleness(result);
	same_values(result, job);
	done(&s, job, result);
}

/* A server that is lost: everything goes back to the checkpoint, and no counter falls. */
static void a_rollback_is_counted(void **state)
{
	struct seen s;
	struct tw_job *job;
	json_t *result = run(JOB("cluster: {workers: 3, servers: 2, shards: 2, limit: 1s}\n"
				 "checkpoint: {every: 2s}\n"
				 "sim: {faults: [{crash: server 1, at: 5s, restart: 2s}]}\n",
				 "name: ssgd"),
			     TW_WORLD_SIM, &s, &job);

	prometheus_read(s.served);
	assert_true(prometheus_of("thalweg_rollbacks_total", "") >= 1);
	assert_true(prometheus_of("thalweg_samples_total", "") >= said(result, "samples"));
	assert_true(mean_updates(2) >= said(result, "updates"));
	assert_true(prometheus_of("thalweg_epochs", "") == said(result, "epochs_applied"));
	done(&s, job, result);
}

/* Print what of the text the wall clock does not decide. */
static void print_untimed(char *text, const char *ends)
{
	char *save = NULL;

	for (char *line = strtok_r(text, ends, &save); line; line = strtok_r(NULL, ends, &save))
		if (*line == '#' || !strstr(line, "second"))
			puts(line);
	tw_heap_system.put(&tw_heap_system, text);
}

/* /metrics and /health of a job in the simulator, for test/outputs.py. */
static int print_pages(const char *path)
{
	static char yaml[65536];
	FILE *f = fopen(path, "r");
	struct tw_job *job;
	struct seen s;
	json_t *result;

	assert_true(f && fread(yaml, 1, sizeof yaml - 1, f) > 0);
	fclose(f);
	result = run(yaml, TW_WORLD_SIM, &s, &job);
	for (int k = 0; k < 3; k++) {
		struct tw_gauges *g = k == 0 ? s.all : k == 1 ? s.served : s.joined;
		char *text;
		size_t len;
		int status;

		assert_int_equal(tw_gauges_text(g, &text, &len), TW_OK);
		print_untimed(text, "\n");
		assert_int_equal(tw_gauges_health(g, &text, &len, &status), TW_OK);
		print_untimed(text, ",");
	}
	done(&s, job, result);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "--pages") == 0)
		return print_pages(argv[2]);

	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_the_result_says_in_threads),
		cmocka_unit_test(as_the_result_says_in_the_simulator),
		cmocka_unit_test(deltas_are_as_the_result_says),
		cmocka_unit_test(caches_are_as_the_result_says),
		cmocka_unit_test(a_worker_dies_and_returns),
		cmocka_unit_test(a_rollback_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
