/* SPDX-License-Identifier: Apache-2.0 */
/* test_snapshot.c - what is read from a run directory is what the run evaluated and digested at its
 * end, bit for bit; and what is damaged, missing or of another model is refused by name. */
#include "base/refusing.h"
#include "checkpoint/digest.h"
#include "checkpoint/files.h"
#include "query/query.h"
#include "run/run.h"
#include "checkpoint/tensors.h"
#include "kit/has.h"
#include "kit/scratch.h"
#include "checkpoint/export.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

static char said[8192]; /* what the log said */

static void listen(void *arg, enum tw_level level, const char *who, const char *line)
{
	const size_t n = strlen(said);

	if (level <= TW_WARNING)
		snprintf(said + n, sizeof said - n, "%s\n", line);
}
static const struct tw_log log_ = { .sink = listen, .level = TW_INFO };

static int make_dir(void **state)
{
	said[0] = 0;
	return scratch_make(state);
}

#define BOWL                                                                                       \
	"model: {quadratic: {dimension: 50, curvature: [0.1, 1], noise: 0.1, start: 1, buffers: "  \
	"7}}\n"                                                                                    \
	"data: {source: none, samples: 512, batch: 1}\n"                                           \
	"sim: {compute: {law: exponential, mean: 100ms}}\n"

#define NET                                                                                        \
	"model: {layers: [conv 4 3x3, batchnorm, relu, maxpool 4, linear 10]}\n"                   \
	"data: {source: digits, samples: 256, batch: 16}\n"

static const char *every = "3s, keep: 3"; /* checkpoints */
static _Atomic int interrupted;           /* train stops where it is */

static const char *strategy_rows(const char *strategy)
{
	static char text[300];

	snprintf(text, sizeof text,
		 "train: {epochs: 1, seed: 3}\nupdate: {rate: 0.02}\n"
		 "cluster: {workers: 4, shards: 3}\nstrategy: %s\n"
		 "checkpoint: {every: %s}\n",
		 strategy, every);
	return text;
}

/* Run it into dir/run; the result is the caller's. */
static json_t *train(const char *what, const char *strategy, enum tw_world_kind world)
{
	struct tw_run_request request = { .dir = path_of("run"),
					  .log = &log_,
					  .interrupted = &interrupted };
	struct tw_error why = { .status = TW_OK };
	struct tw_job *job = NULL;
	json_t *r = NULL;
	char text[1000];

	snprintf(text, sizeof text, "%s%s", what, strategy_rows(strategy));
	if (tw_job_read_text("test", text, strlen(text), NULL, 0, NULL, world, &job, &why) !=
		    TW_OK ||
	    (tw_run(&request, job, &r, &why) != TW_OK && !interrupted))
		print_error("%s: %s\n", strategy, why.text);
	assert_non_null(r);
	tw_job_free(job);
	return r;
}

static struct tw_snapshot *good(const char *path)
{
	struct tw_error why = { .status = TW_OK };
	struct tw_snapshot *s = NULL;

	if (tw_snapshot_open(path, &log_, &s, &why) != TW_OK)
		print_error("%s\n", why.text);
	assert_non_null(s);
	return s;
}

static void refused(const char *path, enum tw_status status, const char *sentence)
{
	struct tw_error why = { .status = TW_OK };
	struct tw_snapshot *s = NULL;

	assert_int_equal(tw_snapshot_open(path, &log_, &s, &why), status);
	assert_null(s);
	has(why.text, sentence);
	assert_null(strchr(why.text, '\n'));
}

/* Its floats, at most 4096; read anew by every call, into two places in turn. */
static const float *vector_of(const struct tw_snapshot *s)
{
	static float place[2][4096];
	static unsigned turn;
	struct tw_error why = { .status = TW_OK };
	float *v = place[turn++ % 2];

	assert_true(s->count <= 4096);
	/* in pieces that cross the borders of shards */
	for (size_t at = 0, n; at < s->count; at += n) {
		n = s->count - at < 11 ? s->count - at : 11;
		assert_int_equal(tw_snapshot_floats(s, at, n, v + at, &why), TW_OK);
	}
	assert_int_equal(tw_snapshot_floats(s, s->count - 1, 2, v, &why), TW_BAD_INPUT);
	return v;
}

static void same_digest(const struct tw_snapshot *s, const json_t *result, const char *name,
			size_t from, size_t to)
{
	char text[TW_DIGEST_TEXT];

	tw_digest_bytes(vector_of(s) + from, (to - from) * sizeof(float), text);
	assert_string_equal(text, json_string_value(json_object_get(result, name)));
}

static void check_digests(const char *what, const char *strategy, enum tw_world_kind world)
{
	json_t *result = train(what, strategy, world);
	struct tw_snapshot *s = good(path_of("run"));
	struct tw_tensors t;

	assert_int_equal(tw_snapshot_tensors(s, &tw_heap_system, &t), TW_OK);
	assert_int_equal(t.trainable, json_integer_value(json_object_get(result, "parameters")));
	assert_int_equal(s->count, t.trainable + t.buffers);
	assert_true(t.buffers > 0);
	same_digest(s, result, "parameters_digest", 0, t.trainable);
	same_digest(s, result, "buffers_digest", t.trainable, s->count);
	assert_string_equal(s->path, json_string_value(json_object_get(result, "checkpoint")));
	assert_string_equal(s->job->title, strategy);
	assert_int_equal(s->job->world, world);
	assert_true(tw_snapshot_epochs(s) == 1.0);
	tw_tensors_release(&t);
	tw_snapshot_close(s);
	json_decref(result);
	assert_true(folder_remove(path_of("run")));
}

/* dana and nag keep a look-ahead beside what is evaluated: the snapshot has the latter. */
static const char *const strategies[] = { "asgd",      "nag-asgd", "dana",
					  "dana-slim", "ssgd",     "multi-asgd" };

static void the_digest_is_the_result_s(void **state)
{
	for (size_t k = 0; k < sizeof strategies / sizeof strategies[0]; k++) {
		check_digests(BOWL, strategies[k], TW_WORLD_SIM);
		check_digests(BOWL, strategies[k], TW_WORLD_THREADS);
	}
}

static void the_digest_is_the_result_s_for_networks(void **state)
{
	for (size_t k = 0; k < sizeof strategies / sizeof strategies[0]; k++)
		check_digests(NET, strategies[k], TW_WORLD_SIM);
	check_digests(NET, "asgd", TW_WORLD_THREADS);
}

static void every_kind_of_path(void **state)
{
	json_t *result = train(BOWL, "asgd", TW_WORLD_SIM);
	struct tw_snapshot *a = good(path_of("run/")), *b = good(a->path), *c;
	const struct tw_export_request out = { .path = a->path,
					       .to = path_of("out.safetensors"),
					       .log = &log_ };
	struct tw_error why = { .status = TW_OK };
	json_t *r = NULL;
	char cut[40];

	assert_true(a->cut > 1 && a->cut == b->cut && a->count == 57 && b->count == 57);
	assert_memory_equal(vector_of(a), vector_of(b), a->count * sizeof(float));
	/* a checkpoint under another name is still one */
	snprintf(cut, sizeof cut, "run/ckpt-%d", (int)a->cut);
	assert_int_equal(rename(path_of(cut), path_of("best")), 0);
	c = good(path_of("best/"));
	assert_int_equal(c->cut, a->cut);
	tw_snapshot_close(c);
	/* and without it the run has the one before */
	c = good(path_of("run"));
	assert_int_equal(c->cut, a->cut - 1);
	tw_snapshot_close(c);
	assert_int_equal(rename(path_of("best"), path_of(cut)), 0);

	assert_int_equal(tw_export(&out, &r, &why), TW_OK);
	c = good(out.to);
	assert_int_equal(c->cut, 0);
	assert_null(c->manifest);
	assert_null(c->files);
	assert_int_equal(c->safe.tensors, 2);
	assert_memory_equal(tw_safe_find(&c->safe, "parameters")->data, vector_of(a),
			    50 * sizeof(float));
	assert_memory_equal(tw_safe_find(&c->safe, "buffers")->data, vector_of(a) + 50,
			    7 * sizeof(float));
	has(c->safe.metadata, "\"format\":\"pt\"");
	has(c->safe.metadata, "\"strategy\":\"asgd\"");
	tw_snapshot_close(c);
	json_decref(r);
	tw_snapshot_close(a);
	tw_snapshot_close(b);
	json_decref(result);
}

/* --- damage --- */

static void flip(const char *path, long where)
{
	FILE *f = fopen(path, "r+");
	int c;

	assert_non_null(f);
	fseek(f, where, where < 0 ? SEEK_END : SEEK_SET);
	c = fgetc(f);
	fseek(f, -1, SEEK_CUR);
	fputc(c ^ 1, f);
	fclose(f);
}

static void damage_is_named(void **state)
{
	static const char *const files[] = { "manifest.json", "DONE", "master.safetensors",
					     "parameters-0-" };
	json_t *result = train(BOWL, "asgd", TW_WORLD_SIM);
	struct tw_snapshot *s = good(path_of("run"));
	const uint64_t newest = s->cut;
	char cut[300];

	snprintf(cut, sizeof cut, "%s", s->path);
	tw_snapshot_close(s);
	for (size_t k = 0; k < sizeof files / sizeof files[0]; k++) {
		struct dirent *e;
		char path[600] = "";
		DIR *d = opendir(cut);

		assert_non_null(d);
		while ((e = readdir(d)))
			if (strncmp(e->d_name, files[k], strlen(files[k])) == 0)
				snprintf(path, sizeof path, "%s/%s", cut, e->d_name);
		closedir(d);
		assert_true(path[0]);
		flip(path, -9);
		refused(cut, TW_BAD_BYTES, k == 1 ? "manifest.json" : files[k]);
		said[0] = 0;
		s = good(path_of("run"));
		assert_true(s->cut < newest);
		has(said, "is refused");
		has(said, "using the one before it");
		tw_snapshot_close(s);
		flip(path, -9);
		tw_snapshot_close(good(cut));
		assert_int_equal(truncate(path, 3), 0);
		refused(cut, TW_BAD_BYTES, k == 1 ? "manifest.json" : files[k]);
		/* whole again for the next turn: start over */
		json_decref(result);
		assert_true(folder_remove(path_of("run")));
		result = train(BOWL, "asgd", TW_WORLD_SIM);
	}
	json_decref(result);
}

static void nothing_whole_is_left(void **state)
{
	json_t *result = train(BOWL, "asgd", TW_WORLD_SIM);
	struct dirent *e;
	DIR *d = opendir(path_of("run"));

	assert_non_null(d);
	while ((e = readdir(d))) {
		char done[700];

		snprintf(done, sizeof done, "%s/run/%s/DONE", scratch(), e->d_name);
		if (strncmp(e->d_name, "ckpt-", 5) == 0)
			assert_int_equal(unlink(done), 0);
	}
	closedir(d);
	refused(path_of("run"), TW_BAD_BYTES, "DONE is missing; there is no checkpoint before it");
	json_decref(result);
}

static void write_text(const char *name, const char *text, size_t n)
{
	FILE *f = fopen(path_of(name), "w");

	assert_non_null(f);
	fwrite(text, 1, n, f);
	fclose(f);
}

static void what_is_none_of_them(void **state)
{
	refused(path_of("nowhere"), TW_ABSENT, "No such file");
	refused(scratch(), TW_BAD_INPUT, "neither a run directory nor a checkpoint");
	write_text("x.bin", "hello", 5);
	refused(path_of("x.bin"), TW_BAD_BYTES, "is not a safetensors file");
	write_text("empty", "", 0);
	refused(path_of("empty"), TW_BAD_BYTES, "is not a safetensors file");
	refused("/dev/null", TW_BAD_INPUT, "is neither");
	assert_int_equal(mkdir(path_of("ckpt-3"), 0777), 0);
	refused(path_of("ckpt-3"), TW_BAD_BYTES, "DONE is missing");
	assert_int_equal(mkdir(path_of("young"), 0777), 0);
	write_text("young/job.yaml", "", 0);
	refused(path_of("young"), TW_ABSENT, "has no checkpoint yet");
}

/* A run that goes on removes old cuts while somebody reads them.  It goes on until it was read. */
static void *train_on(void *result)
{
	*(json_t **)result = train("model: {quadratic: {dimension: 3000, buffers: 7}}\n"
				   "data: {source: none, samples: 900000000, batch: 1}\n",
				   "asgd", TW_WORLD_THREADS);
	return NULL;
}

#define CUTS 5 /* different ones, read while others were written and removed */

static void a_run_in_progress_can_be_read(void **state)
{
	const time_t patience = time(NULL) + 120;
	struct tw_error why = { .status = TW_OK };
	struct tw_snapshot *s;
	json_t *result = NULL;
	uint64_t last = 0;
	pthread_t runner;
	size_t cuts = 0;

	every = "2ms, keep: 1";
	assert_int_equal(pthread_create(&runner, NULL, train_on, &result), 0);
	while (cuts < CUTS && time(NULL) < patience) {
		enum tw_status st;

		s = NULL;
		why = (struct tw_error){ .status = TW_OK };
		st = tw_snapshot_open(path_of("run"), NULL, &s, &why);
		if (st != TW_OK && st != TW_ABSENT &&
		    !strstr(why.text, "neither a run directory")) /* not even a job yet */
			fail_msg("%s", why.text);
		if (s) {
			assert_true(s->cut >= last && s->count == 3007);
			cuts += s->cut > last;
			last = s->cut;
		}
		tw_snapshot_close(s);
	}
	assert_false(exists("run/result.json")); /* all of them were read during the run */
	interrupted = 1;
	pthread_join(runner, NULL);
	interrupted = 0;
	every = "3s, keep: 3";
	assert_int_equal(cuts, CUTS);
	assert_true(json_is_true(json_object_get(result, "interrupted")));
	s = good(path_of("run"));
	assert_true(s->cut >= last);
	tw_snapshot_close(s);
	json_decref(result);
}

/* --- another model --- */

static const struct tw_tensors *wanted(const char *list, struct tw_tensors *out)
{
	json_t *o = json_loads(list, 0, NULL);

	assert_non_null(o);
	assert_int_equal(tw_tensors_read(&tw_heap_system, o, out), TW_OK);
	json_decref(o);
	return out;
}

static void misfit(const struct tw_snapshot *s, const char *list, const char *sentence)
{
	struct tw_error why = { .status = TW_OK };
	struct tw_tensors want;
	float *v = NULL;

	assert_int_equal(tw_snapshot_fit(s, wanted(list, &want), &tw_heap_system, &v, &why),
			 TW_BAD_INPUT);
	assert_null(v);
	has(why.text, sentence);
	tw_tensors_release(&want);
}

static void another_model_is_refused_by_tensor_and_shapes(void **state)
{
	static const char fits[] = "[{\"name\": \"parameters\", \"shape\": [50]},"
				   " {\"name\": \"buffers\", \"shape\": [7], \"buffer\": true}]";
	json_t *result = train(BOWL, "asgd", TW_WORLD_SIM);
	const struct tw_export_request out = { .path = path_of("run"),
					       .to = path_of("x.safetensors"),
					       .log = &log_ };
	struct tw_error why = { .status = TW_OK };
	struct tw_snapshot *s[2] = { good(path_of("run")) };
	json_t *r = NULL;

	assert_int_equal(tw_export(&out, &r, &why), TW_OK);
	s[1] = good(out.to);
	for (size_t k = 0; k < 2; k++) {
		struct tw_tensors want;
		float *v = NULL;

		misfit(s[k], "[{\"name\": \"parameters\", \"shape\": [5, 10]}]",
		       "its tensor parameters is 50, the model's is 5x10");
		misfit(s[k], "[{\"name\": \"0.weight\", \"shape\": [10, 784]}]",
		       "it has no tensor 0.weight, which the model has as 10x784");
		misfit(s[k], "[{\"name\": \"parameters\", \"shape\": [50]}]",
		       "it has a tensor buffers of 7, which the model does not have");
		assert_int_equal(
			tw_snapshot_fit(s[k], wanted(fits, &want), &tw_heap_system, &v, &why),
			TW_OK);
		assert_memory_equal(v, vector_of(s[0]), 57 * sizeof(float));
		tw_heap_system.put(&tw_heap_system, v);
		tw_tensors_release(&want);
	}
	tw_snapshot_close(s[0]);
	tw_snapshot_close(s[1]);
	json_decref(r);
	json_decref(result);
}

/* PyTorch's batch norm has a counter that nothing depends on, and other types of floats. */
static void files_of_others(void **state)
{
	static const double w[2] = { 0.5, -2.0 };
	static const int64_t batches = 7;
	static const uint16_t half[2] = { 0x3c00, 0xc000 }; /* 1 and -2 */
	const struct tw_safe_tensor list[] = {
		{ "0.weight", TW_SAFE_F64, 1, { 2 }, 2, (const uint8_t *)w, 16 },
		{ "1.bias", TW_SAFE_F16, 2, { 1, 2 }, 2, (const uint8_t *)half, 4 },
		{ "2.num_batches_tracked", TW_SAFE_I64, 0, { 0 }, 1, (const uint8_t *)&batches, 8 },
		{ "2.count", TW_SAFE_I64, 0, { 0 }, 1, (const uint8_t *)&batches, 8 },
	};
	static const char fits[] = "[{\"name\": \"0.weight\", \"shape\": [2]},"
				   " {\"name\": \"1.bias\", \"shape\": [1, 2]}]";
	struct tw_error why = { .status = TW_OK };
	struct tw_tensors want;

	wanted(fits, &want);
	for (size_t n = 3; n <= 4; n++) {
		struct tw_block *b = NULL;
		struct tw_snapshot *s;
		float *v = NULL;

		assert_int_equal(tw_safe_write(&tw_heap_system, list, n, NULL, &b), TW_OK);
		assert_int_equal(tw_file_write(AT_FDCWD, path_of("torch"), b->data, b->bytes),
				 TW_OK);
		tw_block_drop(b);
		s = good(path_of("torch"));
		if (n == 3) {
			assert_int_equal(tw_snapshot_fit(s, &want, &tw_heap_system, &v, &why),
					 TW_OK);
			assert_true(v[0] == 0.5f && v[1] == -2.0f && v[2] == 1.0f && v[3] == -2.0f);
			tw_heap_system.put(&tw_heap_system, v);
		} else {
			misfit(s, fits, "it has a tensor 2.count");
			misfit(s,
			       "[{\"name\": \"0.weight\", \"shape\": [2]}, {\"name\": "
			       "\"1.bias\", \"shape\": [1, 2]}, {\"name\": \"2.count\", "
			       "\"shape\": []}]",
			       "is not of floats");
		}
		tw_snapshot_close(s);
	}
	tw_tensors_release(&want);
}

static void memory_may_be_refused(void **state)
{
	json_t *result = train(BOWL, "asgd", TW_WORLD_SIM);
	struct tw_snapshot *s = good(path_of("run"));
	struct tw_tensors want;

	assert_int_equal(tw_snapshot_tensors(s, &tw_heap_system, &want), TW_OK);
	for (unsigned nth = 1;; nth++) {
		struct refusing heap = REFUSING(nth);
		struct tw_error why = { .status = TW_OK };
		float *v = NULL;
		enum tw_status st;

		st = tw_snapshot_fit(s, &want, &heap.heap, &v, &why);
		if (st == TW_OK) {
			heap.heap.put(&heap.heap, v);
			assert_int_equal(heap.live, 0);
			assert_true(nth > 2);
			break;
		}
		assert_int_equal(st, TW_NO_MEMORY);
		has(why.text, "no memory");
		assert_int_equal(heap.live, 0);
	}
	tw_tensors_release(&want);
	tw_snapshot_close(s);
	json_decref(result);
}

/* Names and shapes come back as they were; nonsense does not. */
static void tensors_as_json(void **state)
{
	static const char *const wrong[] = {
		"{}",
		"[3]",
		"[{\"shape\": [1]}]",
		"[{\"name\": \"a\"}]",
		"[{\"name\": \"a\", \"shape\": [0]}]",
		"[{\"name\": \"a\", \"shape\": [-1]}]",
		"[{\"name\": \"a\", \"shape\": [1, 1, 1, 1, 1, 1, 1, 1, 1]}]",
		"[{\"name\": \"a\", \"shape\": [4611686018427387904, 4]}]",
		"[{\"name\": \"a\", \"shape\": [2], \"buffer\": true}, {\"name\": \"b\", "
		"\"shape\": "
		"[2]}]",
	};
	static const char right[] = "[{\"name\": \"a\", \"shape\": [2, 3], \"buffer\": false},"
				    " {\"name\": \"b\", \"shape\": [], \"buffer\": true}]";
	json_t *o = json_loads(right, 0, NULL), *back;
	struct tw_tensors t;

	assert_int_equal(tw_tensors_read(&tw_heap_system, o, &t), TW_OK);
	assert_true(t.tensors == 2 && t.trainable == 6 && t.buffers == 1);
	assert_true(t.tensor[1].from == 6 && t.tensor[1].n == 1);
	back = tw_tensors_json(&t);
	assert_true(json_equal(o, back));
	json_decref(back);
	json_decref(o);
	tw_tensors_release(&t);
	for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
		o = json_loads(wrong[k], 0, NULL);
		assert_non_null(o);
		assert_int_equal(tw_tensors_read(&tw_heap_system, o, &t), TW_BAD_BYTES);
		assert_null(t.tensor);
		json_decref(o);
	}
}

#define T(f) cmocka_unit_test_setup_teardown(f, make_dir, scratch_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(the_digest_is_the_result_s),
		T(the_digest_is_the_result_s_for_networks),
		T(every_kind_of_path),
		T(damage_is_named),
		T(nothing_whole_is_left),
		T(a_run_in_progress_can_be_read),
		T(memory_may_be_refused),
		T(files_of_others),
		T(what_is_none_of_them),
		T(another_model_is_refused_by_tensor_and_shapes),
		T(tensors_as_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
