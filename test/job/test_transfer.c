/* SPDX-License-Identifier: Apache-2.0 */
/* test_transfer.c - whoever joins has the master's job and data, from wherever they come, or is
 * told why not. */
#include "data/forge.h" /* first: it wants all of xxhash */
#include "base/skipping.h"
#include "job/reading.h"
#include "spec/field.h"
#include "checkpoint/run_directory.h"
#include "run/transfer.h"
#include "engine/network.h"
#include "kit/scratch.h"
#include "kit/watch.h"
#include "run/open_engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char fetched[4096]; /* the user's own cache; "": nobody knows */

/* --- files ------------------------------------------------------------------------------------ */

/* How many files, hidden ones too, are in the cache of sets. */
static int cached(void)
{
	DIR *dir = opendir(path_of("cache/thalweg/sets"));
	struct dirent *e;
	int n = 0;

	while (dir && (e = readdir(dir)))
		n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
	if (dir)
		closedir(dir);
	return n;
}

static void empty_cache(void)
{
	folder_remove(path_of("cache/thalweg/sets"));
	assert_int_equal(cached(), 0);
}

static void write_tables(void)
{
	char classes[8000] = "a,b,kind\n", values[8000] = "";
	size_t c = strlen(classes), v = 0;

	for (int k = 0; k < 120; k++) {
		c += (size_t)snprintf(classes + c, sizeof classes - c, "%d.5,%d,%s\n", k * 7 % 11,
				      k * 5 % 13, k % 3 ? "oak" : "elm");
		v += (size_t)snprintf(values + v, sizeof values - v, "%d,%d.25,%d\n", k * 3 % 17,
				      k * 5 % 13, k % 29);
	}
	put("classes.csv", classes, c);
	put("values.csv", values, v);
}

static void write_arrays(void)
{
	static const char x_head[] =
		"{'descr': '<f4', 'fortran_order': False, 'shape': (64, 6), }\n";
	static const char y_head[] = "{'descr': '<i8', 'fortran_order': False, 'shape': (64,), }\n";
	uint8_t bytes[4096] = "\x93NUMPY\x01\x00";
	float x[64 * 6];
	int64_t y[64];

	for (int i = 0; i < 64 * 6; i++)
		x[i] = (float)(i * 37 % 101) / 8 - 5;
	for (int i = 0; i < 64; i++)
		y[i] = i % 4;
	bytes[8] = sizeof x_head - 1;
	memcpy(bytes + 10, x_head, sizeof x_head);
	memcpy(bytes + 9 + sizeof x_head, x, sizeof x);
	put("x.npy", bytes, 9 + sizeof x_head + sizeof x);
	bytes[8] = sizeof y_head - 1;
	memcpy(bytes + 10, y_head, sizeof y_head);
	memcpy(bytes + 9 + sizeof y_head, y, sizeof y);
	put("y.npy", bytes, 9 + sizeof y_head + sizeof y);
}

static void write_images(void)
{
	static uint8_t bytes[16 + 60 * 64] = { 0, 0, 8, 3, 0, 0, 0, 60, 0, 0, 0, 8, 0, 0, 0, 8 };
	uint8_t labels[8 + 60] = { 0, 0, 8, 1, 0, 0, 0, 60 };

	for (size_t i = 16; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(i * 37 + i / 7);
	for (size_t i = 8; i < sizeof labels; i++)
		labels[i] = (uint8_t)(i % 10);
	put("images", bytes, sizeof bytes);
	put("labels", labels, sizeof labels);
}

static int setup(void **state)
{
	if (!tw_data_cache(fetched, sizeof fetched))
		fetched[0] = '\0';
	if (scratch_make(state) || setenv("XDG_CACHE_HOME", path_of("cache"), 1))
		return -1;
	write_tables();
	write_arrays();
	write_images();
	return 0;
}

/* --- one side of a run ------------------------------------------------------------------------ */

struct side {
	struct tw_job *job;
	struct tw_engine *engine;
	struct tw_transfer_facts facts;
};

static void finish(struct side *s)
{
	struct tw_error why = { 0 };

	if (tw_job_finish_plan(s->job, s->engine, &why) != TW_OK ||
	    tw_transfer_facts(s->job, s->engine, &s->facts, &why) != TW_OK)
		fail_msg("%s", why.text);
}

static void side_close(struct side *s)
{
	if (s->engine)
		s->engine->class->close(s->engine);
	tw_job_free(s->job);
}

/* Whose job file is in the folder. */
static struct side master_of(const char *text)
{
	struct side s = { 0 };
	struct tw_error why = { 0 };

	if (tw_job_read_text(path_of("job.yaml"), text, strlen(text), NULL, 0, NULL, TW_WORLD_TCP,
			     &s.job, &why) != TW_OK ||
	    tw_job_open_engine(s.job, &tw_heap_system, &s.engine, &why) != TW_OK)
		fail_msg("%s", why.text);
	finish(&s);
	return s;
}

static void read_shared(const struct side *from, struct side *to)
{
	struct tw_error why = { 0 };
	char *text = NULL;
	size_t bytes = 0;

	*to = (struct side){ 0 };
	if (tw_transfer_text(from->job, &text, &bytes, &why) != TW_OK ||
	    tw_job_read_text("the master's job", text, bytes, NULL, 0, NULL, TW_WORLD_TCP, &to->job,
			     &why) != TW_OK)
		fail_msg("%s", why.text);
	assert_int_equal(bytes, strlen(text));
	assert_int_equal(to->job->warnings, 0);
	free(text);
}

/* Where a joiner's bytes come from, and what happens to them on the way. */
struct line {
	struct tw_transfer_set *set;
	int calls;
	uint64_t bytes;
	uint64_t dead_from, damaged;    /* UINT64_MAX: not */
	const uint8_t *instead;         /* what a liar gives; NULL: the set */
	struct tw_transfer_paths paths; /* what the joiner may open; at first nothing */
};

static const struct tw_transfer_paths everything = { .all = true }, nothing = { .all = false };

static struct line line_of(const struct side *master)
{
	struct line l = { .dead_from = UINT64_MAX, .damaged = UINT64_MAX };
	struct tw_error why = { 0 };

	assert_int_equal(tw_transfer_set_open(master->job, master->engine, &l.set, &why), TW_OK);
	return l;
}

static enum tw_status receive(void *arg, uint64_t from, void *to, size_t bytes,
			      struct tw_error *why)
{
	struct line *l = arg;

	l->calls++;
	l->bytes += bytes;
	if (from + bytes > l->dead_from)
		return tw_fail(why, TW_IO, "the master is gone");
	if (l->instead)
		memcpy(to, l->instead + from, bytes);
	else
		assert_int_equal(tw_transfer_set_read(l->set, from, to, bytes), TW_OK);
	if (l->damaged >= from && l->damaged < from + bytes)
		((uint8_t *)to)[l->damaged - from] ^= 4;
	return TW_OK;
}

struct said {
	char info[600], warning[600];
	int infos, warnings;
};

static void hear(void *arg, enum tw_level level, const char *who, const char *line)
{
	struct said *s = arg;

	assert_string_equal(who, "data");
	snprintf(level == TW_INFO ? s->info : s->warning, sizeof s->info, "%s", line);
	*(level == TW_INFO ? &s->infos : &s->warnings) += 1;
}

static enum tw_status join(struct side *s, const struct side *master, struct line *l,
			   struct said *said, struct tw_error *why)
{
	const struct tw_log log = { hear, said, TW_DEBUG };

	*said = (struct said){ .infos = 0 };
	*why = (struct tw_error){ 0 };
	l->calls = 0;
	l->bytes = 0;
	return tw_transfer_open_engine(s->job, &l->paths, &master->facts.data,
				       tw_transfer_set_bytes(l->set), receive, l, &log, &s->engine,
				       why);
}

/* First values, and a gradient at them, to the bit. */
static void same_engines(const struct tw_engine *a, const struct tw_engine *b)
{
	const size_t all = a->trainable + a->buffers;
	float *w = calloc(all, 4), *v = calloc(all, 4), *g = calloc(all, 4), *h = calloc(all, 4);
	void *one = tw_heap_zeros(&tw_heap_system, a->scratch_bytes);
	void *other = tw_heap_zeros(&tw_heap_system, b->scratch_bytes);
	const struct tw_piece at = { w, 0, all };
	const struct tw_inputs in = { .from = 0, .count = 4, .piece = &at, .pieces = 1 };
	struct tw_score s = { 0 }, t = { 0 };

	assert_true(b->trainable + b->buffers == all && w && v && g && h && one && other);
	assert_true(a->samples == b->samples && a->tests == b->tests);
	assert_int_equal(a->class->init(a, 0, all, w), TW_OK);
	assert_int_equal(b->class->init(b, 0, all, v), TW_OK);
	assert_memory_equal(w, v, all * 4);
	assert_int_equal(a->class->gradient(a, one, &in, g, &s), TW_OK);
	assert_int_equal(b->class->gradient(b, other, &in, h, &t), TW_OK);
	assert_memory_equal(g, h, all * 4);
	assert_true(s.loss == t.loss && s.correct == t.correct);
	assert_int_equal(a->class->evaluate(a, one, &in, &s), TW_OK);
	assert_int_equal(b->class->evaluate(b, other, &in, &t), TW_OK);
	assert_true(s.loss == t.loss && s.correct == t.correct);
	free(w);
	free(v);
	free(g);
	free(h);
	tw_heap_system.put(&tw_heap_system, one);
	tw_heap_system.put(&tw_heap_system, other);
}

static void same_facts(const struct side *a, const struct side *b)
{
	char *one = explained(a->job), *other = explained(b->job);

	assert_string_equal(one, other);
	assert_true(!tw_sha_none(&a->facts.job) && tw_sha_same(&a->facts.job, &b->facts.job));
	assert_true(!tw_sha_none(&a->facts.layout));
	assert_true(tw_sha_same(&a->facts.layout, &b->facts.layout));
	assert_true(tw_sha_same(&a->facts.data, &b->facts.data));
	assert_true(a->job->plan.dealing.positions == b->job->plan.dealing.positions);
	assert_true(a->job->plan.dealing.warm_until == b->job->plan.dealing.warm_until);
	assert_true(a->job->cluster.heartbeat == b->job->cluster.heartbeat);
	assert_true(a->job->cluster.suspect == b->job->cluster.suspect);
	assert_int_equal(a->job->plan.problem.shards, b->job->plan.problem.shards);
	assert_memory_equal(a->job->plan.problem.border, b->job->plan.problem.border,
			    (a->job->plan.problem.shards + 1) *
				    sizeof *a->job->plan.problem.border);
	free(one);
	free(other);
}

/* A run whose data is where the job says. */
static void agrees(struct side *master)
{
	struct side joiner;
	struct tw_error why = { 0 };

	read_shared(master, &joiner);
	if (tw_transfer_open_engine(joiner.job, &everything, &master->facts.data, 0, NULL, NULL,
				    &(struct tw_log){ 0 }, &joiner.engine, &why) != TW_OK)
		fail_msg("%s", why.text);
	finish(&joiner);
	same_facts(master, &joiner);
	side_close(&joiner);
}

/* --- the job as text -------------------------------------------------------------------------- */

/* The user's own cache, by the variable that stands for it. */
static void use_fetched(void)
{
	char above[sizeof fetched];
	char *slash;

	snprintf(above, sizeof above, "%s", fetched);
	slash = strrchr(above, '/');
	if (slash)
		*slash = '\0';
	setenv("XDG_CACHE_HOME", above, 1);
}

/* Does `thalweg data fetch` get its data? */
static bool is_fetched(const char *path)
{
	return strstr(path, "mnist") || strstr(path, "moby-dick");
}

static void examples_travel(void **state)
{
	size_t seen = 0;
	glob_t all;

	assert_int_equal(glob("examples/*.yaml", 0, NULL, &all), 0);
	for (size_t k = 0; k < all.gl_pathc; k++) {
		static const char *const with[] = { "train.seed=7", "cluster.limit=6s",
						    "cluster.servers=2" };
		static const char *const env[] = { "THALWEG_UPDATE_RATE=0.03125",
						   "THALWEG_TRAIN_SEED=9", NULL };
		const char *path = all.gl_pathv[k];
		struct tw_job *plain = NULL;
		bool peers, optimises;

		assert_true(tw_job_read(path, NULL, 0, NULL, TW_WORLD_THREADS, &plain, NULL) ==
			    TW_OK);
		peers = tw_plan_holds_by_workers(&plain->plan); /* there are no servers */
		optimises = tw_plan_optimises(&plain->plan);    /* it has no update.rate */
		tw_job_free(plain);
		for (int turn = 0; turn < 2; turn++) {
			struct side s = { 0 };
			struct tw_error why = { 0 };
			const enum tw_status st = tw_job_read(path, with, turn ? 3 - peers : 0,
							      turn ? env + optimises : NULL,
							      TW_WORLD_TCP, &s.job, &why);

			if (strstr(path, "hogwild")) {
				assert_int_equal(st, TW_BAD_INPUT);
				assert_non_null(strstr(why.text, "strategy.gate: hogwild needs "
								 "threads that"));
				continue;
			}
			if (st != TW_OK)
				fail_msg("%s", why.text);
			if (turn) {
				assert_int_equal(s.job->train.seed, 7);
				assert_true(s.job->cluster.suspect == 2000000000);
				assert_true(s.job->cluster.heartbeat == 400000000);
			}
			if (is_fetched(path))
				use_fetched();
			if (tw_job_open_engine(s.job, &tw_heap_system, &s.engine, &why) == TW_OK) {
				finish(&s);
				agrees(&s);
				seen++;
			} else if (!is_fetched(path)) { /* that may not have been */
				fail_msg("%s", why.text);
			}
			side_close(&s);
			setenv("XDG_CACHE_HOME", path_of("cache"), 1);
		}
	}
	assert_true(seen > 40);
	globfree(&all);
}

static void presets_travel(void **state)
{
	for (const struct tw_preset *p = tw_presets; p->name; p++)
		for (int k = 0; k < 2; k++) {
			const bool stages = strstr(p->fields, "pipeline:");
			char text[600];
			struct side s;

			if (strcmp(p->name, "hogwild") == 0)
				continue; /* no processes */
			snprintf(text, sizeof text,
				 "%s"
				 "cluster: {workers: %d}\nstrategy: %s\n",
				 k ? "data: {source: digits, count: 200, tests: 40, batch: 8}\n"
				     "model: {layers: [linear 12, relu, linear 10]}\n"
				 : stages ? "model: {quadratic: {dimension: 12, stages: 3}}\n"
					    "data: {source: none, samples: 64, batch: 4, "
					    "accumulate: 2}\n"
					  : SMALL,
				 stages ? 1 : 4, short_strategy(p));
			s = master_of(text);
			agrees(&s);
			side_close(&s);
		}
}

/* What finishing the plan changes (a loss that the data chose, a warm start that did not fit) and
 * what needs quotes. */
static void unusual_jobs_travel(void **state)
{
	static const char *const texts[] = {
		"data: {source: csv, file: %s/values.csv, task: values, test: 0.25}\n"
		"model: {layers: [linear 8, tanh, linear 1]}\n",
		"data: {source: csv, file: '%s/classes.csv', separator: ','}\n"
		"model: {layers: [linear 8, {residual: [linear 8, relu]}, linear 2]}\n"
		"train: {epochs: 0.1}\nstrategy: rudra\ncluster: {workers: 3}\n",
		"data: {source: npy, x: \"%s/x.npy\", y: 'y''s: # %% file', batch: 8}\n"
		"model: {name: mlp}\nupdate: {schedule: {kind: step, at: [0.5, 0.75]}}\n",
	};

	assert_int_equal(symlink(path_of("y.npy"), path_of("y's: # % file")), 0);
	for (size_t k = 0; k < 3; k++) {
		char text[1000];
		struct side s;

		snprintf(text, sizeof text, texts[k], scratch());
		s = master_of(text);
		if (k < 2) {
			agrees(&s);
		} else { /* its path begins at the job file: here it is only read */
			struct side joiner;

			read_shared(&s, &joiner);
			assert_string_equal(tw_field_text(tw_job_field(joiner.job, "data.y")->row,
							  tw_job_field(joiner.job, "data.y")->base,
							  &joiner.job->arena),
					    "y's: # % file");
			side_close(&joiner);
		}
		side_close(&s);
	}
}

static void other_jobs_have_other_facts(void **state)
{
	struct side a = master_of(SMALL), b = master_of(SMALL "train: {seed: 2}\n");
	struct side c = master_of("data: {samples: 4096, batch: 4}\n"
				  "model: {quadratic: {dimension: 20, tensors: 3}}\n");
	struct side d = master_of(SMALL "cluster: {heartbeat: 100ms, suspect: 2s, limit: 9s}\n");

	assert_false(tw_sha_same(&a.facts.job, &b.facts.job));
	assert_true(tw_sha_same(&a.facts.layout, &b.facts.layout));
	assert_false(tw_sha_same(&a.facts.layout, &c.facts.layout));
	/* a cluster may differ on resuming */
	assert_true(tw_sha_same(&a.facts.job, &d.facts.job));
	assert_true(tw_sha_none(&a.facts.data));
	side_close(&a);
	side_close(&b);
	side_close(&c);
	side_close(&d);
}

static void what_cannot_travel_is_said(void **state)
{
	struct tw_job *job = good_job(SMALL, NULL, TW_WORLD_THREADS);
	struct tw_error why = { 0 };
	char *text = NULL;
	size_t bytes;

	assert_int_equal(tw_transfer_text(job, &text, &bytes, &why), TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "threads"));
	tw_job_free(job);
	job = good_job("data: {source: csv, file: x}\nmodel: {layers: [linear 2]}\n",
		       "data.file=two\nlines", TW_WORLD_TCP);
	why = (struct tw_error){ 0 };
	assert_int_equal(tw_transfer_text(job, &text, &bytes, &why), TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "cannot be passed on"));
	assert_true(is_sentence(why.text));
	assert_null(text);
	tw_job_free(job);
}

/* --- the world -------------------------------------------------------------------------------- */

static void the_world_has_its_fields(void **state)
{
	struct tw_job *job = good_job(SMALL "sim: {latency: 1ms}\n", NULL, TW_WORLD_TCP);
	char *text = explained(job);

	assert_int_equal(job->warnings, 1);
	assert_string_equal(job->warning[0],
			    "section sim: is ignored by processes; only thalweg sim uses it");
	assert_false(job->plan.checkpoint.drain);
	assert_non_null(strstr(text, "\n  heartbeat: 1s\n"));
	assert_non_null(strstr(text, "\n  suspect: 5s\n"));
	assert_null(strstr(text, "sim:"));
	free(text);
	tw_job_free(job);
	job = good_job(SMALL "cluster: {heartbeat: 1s}\n", NULL, TW_WORLD_THREADS);
	assert_int_equal(job->warnings, 1);
	assert_string_equal(job->warning[0],
			    "cluster.heartbeat: is ignored here; only serve and join use it");
	text = explained(job);
	assert_null(strstr(text, "heartbeat"));
	free(text);
	tw_job_free(job);
	job = good_job(SMALL "cluster: {limit: 60s}\n", NULL, TW_WORLD_TCP);
	assert_true(job->cluster.suspect == 5000000000 && job->cluster.heartbeat == 1000000000);
	tw_job_free(job);
	job = good_job(SMALL "cluster: {limit: 1ms}\n", NULL, TW_WORLD_TCP);
	text = explained(job);
	tw_job_free(job);
	tw_job_free(good_job(text, NULL, TW_WORLD_TCP));
	free(text);
}

static void the_world_refuses(void **state)
{
	static const struct {
		const char *text, *says[2];
	} cases[] = {
		{ SMALL "cluster: {suspect: 15s}\n",
		  { "job.yaml:3: cluster.suspect: 15s", "cluster.limit (15s)" } },
		{ SMALL "cluster: {limit: 4s, suspect: 5s}\n", { "cluster.suspect: 5s", "4s" } },
		{ SMALL "cluster: {heartbeat: 5s}\n",
		  { "cluster.heartbeat: 5s between heartbeats", "5s" } },
		{ SMALL "cluster: {heartbeat: 0s}\n", { "cluster.heartbeat:", "from" } },
		{ SMALL "strategy: {gate: hogwild}\n",
		  { "job.yaml:3: strategy.gate: hogwild needs threads that ", "gate: async" } },
		{ SMALL "strategy: hogwild\n",
		  { "strategy.gate: hogwild needs threads that ", "" } },
		{ "data: {source: none}\nmodel: {external: {parameters: 5}}\n",
		  { "model.external.parameters:", "libthalweg" } },
	};

	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		struct tw_job *job = NULL;
		struct tw_error why;

		assert_int_equal(read_job(cases[k].text, NULL, NULL, TW_WORLD_TCP, &job, &why),
				 TW_BAD_INPUT);
		assert_true(is_sentence(why.text));
		for (int i = 0; i < 2; i++)
			if (!strstr(why.text, cases[k].says[i]))
				fail_msg("'%s' does not say '%s'", why.text, cases[k].says[i]);
	}
}

/* A directory belongs to a world; its own goes on. */
static void directories_know_the_world(void **state)
{
	const struct tw_log quiet = { 0 };
	const char *path = path_of("run");
	struct tw_job *tcp = good_job(SMALL, NULL, TW_WORLD_TCP);
	struct tw_job *threads = good_job(SMALL, NULL, TW_WORLD_THREADS);
	struct tw_run_directory *r = NULL;
	struct tw_error why = { 0 };

	assert_true(
		tw_sha_same(&tcp->plan.checkpoint.job_hash, &threads->plan.checkpoint.job_hash));
	assert_int_equal(tw_run_directory_open(path, tcp, false, &quiet, &r, &why), TW_OK);
	tw_run_directory_close(r);
	assert_int_equal(tw_run_directory_open(path, threads, false, &quiet, &r, &why),
			 TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "holds a run of `thalweg serve`"));
	why = (struct tw_error){ 0 };
	assert_int_equal(tw_run_directory_open(path, tcp, false, &quiet, &r, &why), TW_OK);
	assert_true(tw_run_directory_resumes(r));
	tw_run_directory_close(r);
	tw_job_free(tcp);
	tw_job_free(threads);
}

/* --- data ------------------------------------------------------------------------------------- */

#define LAYERS "model: {layers: [linear 8, relu, linear 2]}\n"
#define CSV    "data: {source: csv, file: classes.csv, batch: 8}\n" LAYERS

/* The paths are relative, and joiners are elsewhere. */
static const char *const jobs[] = {
	CSV,
	"data: {source: csv, file: values.csv, task: values, batch: 8, validation: 0.1}\n"
	"model: {layers: [linear 8, relu, linear 1]}\n",
	"data: {source: npy, x: x.npy, y: y.npy, batch: 8, normalise: unit}\n"
	"model: {layers: [linear 8, relu, linear 4]}\n",
	"data: {source: idx, images: images, labels: labels, batch: 8, samples: 30, shift: 1}\n"
	"model: {layers: [conv 4 3x3, batchnorm, relu, flatten, linear 10]}\n",
};
#define JOBS (sizeof jobs / sizeof jobs[0])

static void data_is_received_once(void **state)
{
	for (size_t k = 0; k < JOBS; k++) {
		struct side master = master_of(jobs[k]);
		struct line l = line_of(&master);

		for (int turn = 0; turn < 2; turn++) {
			struct side s;
			struct said said;
			struct tw_error why;

			read_shared(&master, &s);
			if (join(&s, &master, &l, &said, &why) != TW_OK)
				fail_msg("%s", why.text);
			assert_int_equal(l.bytes, turn ? 0 : tw_transfer_set_bytes(l.set));
			assert_int_equal(said.infos, 1);
			assert_int_equal(said.warnings, 0);
			assert_non_null(strstr(said.info, turn ? "is in the cache: " : "received"));
			assert_int_equal(cached(), (int)k + 1);
			finish(&s);
			same_facts(&master, &s);
			same_engines(master.engine, s.engine);
			side_close(&s);
		}
		tw_transfer_set_close(l.set);
		side_close(&master);
	}
	empty_cache();
}

static void mnist_travels(void **state)
{
	static const char nowhere[] = "data: {source: mnist, path: nowhere}\nmodel: lenet\n";
	char text[4300];
	struct side master, s = { 0 };
	struct line l;
	struct said said;
	struct tw_error why;

	snprintf(text, sizeof text, "%s/mnist/train-images-idx3-ubyte", fetched);
	if (access(text, R_OK) != 0)
		SKIP("MNIST is not here (thalweg data fetch mnist)");
	snprintf(text, sizeof text, "data: {source: mnist, path: %s/mnist}\nmodel: lenet\n",
		 fetched);
	master = master_of(text);
	l = line_of(&master);
	for (int turn = 0; turn < 2; turn++) {
		assert_int_equal(read_job(nowhere, NULL, NULL, TW_WORLD_TCP, &s.job, &why), TW_OK);
		if (join(&s, &master, &l, &said, &why) != TW_OK)
			fail_msg("%s", why.text);
		assert_int_equal(l.bytes, turn ? 0 : tw_transfer_set_bytes(l.set));
		same_engines(master.engine, s.engine);
		side_close(&s);
		s = (struct side){ .job = NULL };
	}
	tw_transfer_set_close(l.set);
	side_close(&master);
	empty_cache();
}

static void made_up_data_needs_nobody(void **state)
{
	struct side master = master_of("data: {source: digits, count: 200, tests: 40, batch: 8}\n"
				       "model: {layers: [linear 8, relu, linear 10]}\n");
	struct side s, small = master_of(SMALL);
	struct line l;
	struct said said;
	struct tw_error why = { 0 };
	struct tw_transfer_set *none = NULL;

	l = line_of(&master);
	read_shared(&master, &s);
	assert_int_equal(join(&s, &master, &l, &said, &why), TW_OK);
	assert_int_equal(l.calls, 0);
	assert_string_equal(said.info, "the data set that the job names is on this machine");
	finish(&s);
	same_facts(&master, &s);
	same_engines(master.engine, s.engine);
	side_close(&s);
	assert_int_equal(cached(), 0);
	tw_transfer_set_close(l.set);

	assert_int_equal(tw_transfer_set_open(small.job, small.engine, &none, &why), TW_ABSENT);
	assert_null(none);
	tw_transfer_set_close(none);
	read_shared(&small, &s);
	why = (struct tw_error){ 0 };
	assert_int_equal(tw_transfer_open_engine(s.job, &nothing, &(struct tw_sha){ { 5 } }, 0,
						 NULL, NULL, &(struct tw_log){ 0 }, &s.engine,
						 &why),
			 TW_BAD_INPUT);
	assert_true(is_sentence(why.text));
	side_close(&s);
	side_close(&small);
	side_close(&master);
}

/* What is under the job's own path may be older: it is passed over, not trained on. */
static void another_file_is_passed_over(void **state)
{
	char text[700], other[2000] = "a,b,kind\n";
	struct side master = master_of(CSV), s;
	struct line l = line_of(&master);
	struct said said;
	struct tw_error why;
	size_t at = strlen(other);

	for (int k = 0; k < 40; k++)
		at += (size_t)snprintf(other + at, sizeof other - at, "%d,1,%s\n", k,
				       k % 2 ? "oak" : "elm");
	put("other.csv", other, at);
	l.paths = everything;
	snprintf(text, sizeof text, "data: {source: csv, file: %s/other.csv, batch: 8}\n" LAYERS,
		 scratch());
	s = (struct side){ .job = NULL };
	assert_int_equal(read_job(text, NULL, NULL, TW_WORLD_TCP, &s.job, &why), TW_OK);
	assert_int_equal(join(&s, &master, &l, &said, &why), TW_OK);
	assert_true(tw_sha_same(&tw_network_data(s.engine)->fingerprint, &master.facts.data));
	assert_true(l.bytes == tw_transfer_set_bytes(l.set));
	side_close(&s);
	empty_cache();

	/* and where nobody gives the right one, both are named */
	s = (struct side){ .job = NULL };
	assert_int_equal(read_job(text, NULL, NULL, TW_WORLD_TCP, &s.job, &why), TW_OK);
	assert_int_equal(tw_transfer_open_engine(s.job, &everything, &master.facts.data, 0, receive,
						 &l, &(struct tw_log){ 0 }, &s.engine, &why),
			 TW_BAD_INPUT);
	tw_sha_short(&master.facts.data, text);
	assert_non_null(strstr(why.text, text));
	assert_non_null(strstr(why.text, "differs here"));
	assert_null(s.engine);
	side_close(&s);
	tw_transfer_set_close(l.set);
	side_close(&master);
}

static void nobody_has_it(void **state)
{
	struct side master = master_of(CSV), s;
	struct tw_error why = { 0 };

	read_shared(&master, &s);
	assert_int_equal(tw_transfer_open_engine(s.job, &nothing, &master.facts.data, 0, NULL, NULL,
						 &(struct tw_log){ 0 }, &s.engine, &why),
			 TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "neither here nor in the cache"));
	assert_non_null(strstr(why.text, "classes.csv: is named by the master, and not opened"));
	side_close(&s);
	side_close(&master);
}

static void a_dead_line_leaves_nothing(void **state)
{
	struct side master = master_of(jobs[3]);
	struct line l = line_of(&master);
	const uint64_t all = tw_transfer_set_bytes(l.set);

	for (uint64_t k = 0; k < 40; k++) {
		struct side s;
		struct said said;
		struct tw_error why;
		enum tw_status st;

		l.dead_from = k % 2 ? UINT64_MAX : k * all / 40;
		l.damaged = k % 2 ? k * all / 40 : UINT64_MAX;
		read_shared(&master, &s);
		st = join(&s, &master, &l, &said, &why);
		assert_int_equal(st, k % 2 ? TW_BAD_BYTES : TW_IO);
		assert_non_null(strstr(why.text, k % 2 ? "received: is " : "the master is gone"));
		assert_null(s.engine);
		assert_int_equal(said.infos + said.warnings, 0);
		assert_int_equal(cached(), 0);
		side_close(&s);
	}
	tw_transfer_set_close(l.set);
	side_close(&master);
}

static void another_set_is_refused(void **state)
{
	struct side master = master_of(jobs[2]), other = master_of(CSV), s;
	struct line l = line_of(&master);
	struct said said;
	struct tw_error why;
	char text[40];

	read_shared(&other, &s);
	assert_int_equal(join(&s, &other, &l, &said, &why), TW_BAD_BYTES);
	tw_sha_short(&master.facts.data, text);
	assert_non_null(strstr(why.text, text));
	tw_sha_short(&other.facts.data, text);
	assert_non_null(strstr(why.text, text));
	assert_int_equal(cached(), 0);
	side_close(&s);
	tw_transfer_set_close(l.set);
	side_close(&other);
	side_close(&master);
}

/* Where the cache has a master's set. */
static void set_name(const struct side *master, const char *before, const char *behind, char *out)
{
	char text[TW_SHA_TEXT];

	snprintf(out, 120, "cache/thalweg/sets/%s%s.tws%s", before,
		 tw_sha_text(&master->facts.data, text), behind);
}

/* What is in the cache is looked at like anything from outside, and replaced. */
static void a_damaged_cache_is_mended(void **state)
{
	struct side master = master_of(CSV), s;
	struct line l = line_of(&master);
	struct said said;
	struct tw_error why;
	char name[120];

	set_name(&master, "", "", name);
	for (int how = 0; how < 5; how++) {
		uint8_t bytes[4096] = { 0 };
		size_t n = 0;

		for (int turn = 0; turn < 2; turn++) {
			read_shared(&master, &s);
			assert_int_equal(join(&s, &master, &l, &said, &why), TW_OK);
			assert_int_equal(l.bytes, turn || how ? 0 : tw_transfer_set_bytes(l.set));
			side_close(&s);
		}
		n = (size_t)tw_transfer_set_bytes(l.set);
		assert_true(n < sizeof bytes - 1);
		assert_int_equal(tw_transfer_set_read(l.set, 0, bytes, n), TW_OK);
		bytes[n / 2] ^= how == 0;
		put(name, bytes, how == 1 ? 0 : how == 2 ? n - 1 : how == 3 ? n + 1 : n);
		if (how == 4) { /* not even a file */
			assert_int_equal(unlink(path_of(name)), 0);
			assert_int_equal(mkfifo(path_of(name), 0600), 0);
		}
		read_shared(&master, &s);
		assert_int_equal(join(&s, &master, &l, &said, &why), TW_OK);
		assert_int_equal(said.warnings, 1);
		assert_non_null(strstr(said.warning, "not taken from the cache"));
		assert_int_equal(l.bytes, n);
		same_engines(master.engine, s.engine);
		side_close(&s);
		assert_int_equal(cached(), 1);
	}
	empty_cache();
	tw_transfer_set_close(l.set);
	side_close(&master);
}

/* --- forgery ---------------------------------------------------------------------------------- */

#define IMAGES                                                                                     \
	"data: {source: idx, images: photos, labels: labels, test_images: images, "                \
	"test_labels: labels, batch: 8}\n"                                                         \
	"model: {layers: [flatten, linear 10]}\n"

/* The same file names, other pictures, and the same XXH3-64: `forged` is what a liar has. */
static void make_twins(struct side *honest, struct side *forged)
{
	static const uint8_t head[16] = { 0, 0, 8, 3, 0, 0, 0, 60, 0, 0, 0, 8, 0, 0, 0, 8 };
	uint8_t file[16 + 60 * 64];
	const struct tw_data *a, *b;
	size_t other = 0;

	memcpy(file, head, sizeof head);
	for (size_t i = 16; i < sizeof file; i++)
		file[i] = (uint8_t)(i * 31 + i / 5);
	put("photos", file, sizeof file);
	*honest = master_of(IMAGES);
	assert_int_equal(forge_values(file + 16, 60 * 64), 2 * FORGE_BLOCK);
	put("photos", file, sizeof file);
	*forged = master_of(IMAGES);
	a = tw_network_data(honest->engine);
	b = tw_network_data(forged->engine);
	for (size_t i = 0; i < 60 * 64; i++)
		other += ((const uint8_t *)a->train.value)[i] !=
			 ((const uint8_t *)b->train.value)[i];
	assert_true(other > FORGE_BLOCK); /* most pixels of 32 pictures */
	assert_true(forge_xxh(a) == forge_xxh(b));
	assert_false(tw_sha_same(&a->fingerprint, &b->fingerprint));
}

/* The forged set as bytes that claim to be the honest one. */
static size_t lie(const struct side *honest, const struct side *forged, uint8_t *out, size_t room)
{
	struct line l = line_of(forged);
	const size_t n = (size_t)tw_transfer_set_bytes(l.set);

	assert_true(n <= room);
	assert_int_equal(tw_transfer_set_read(l.set, 0, out, n), TW_OK);
	forge_head(out, &honest->facts.data);
	tw_transfer_set_close(l.set);
	return n;
}

static void a_forged_cache_is_not_used(void **state)
{
	static uint8_t bytes[16384];
	struct side honest, forged, s;
	struct said said;
	struct tw_error why;
	struct line l;
	char name[120];
	size_t n;

	make_twins(&honest, &forged);
	l = line_of(&honest);
	n = lie(&honest, &forged, bytes, sizeof bytes);
	mkdir(path_of("cache"), 0700);
	mkdir(path_of("cache/thalweg"), 0700);
	mkdir(path_of("cache/thalweg/sets"), 0700);
	set_name(&honest, "", "", name);
	put(name, bytes, n);
	read_shared(&honest, &s);
	assert_int_equal(join(&s, &honest, &l, &said, &why), TW_OK);
	assert_int_equal(said.warnings, 1);
	assert_non_null(strstr(said.warning, "is damaged or forged"));
	assert_int_equal(l.bytes, tw_transfer_set_bytes(l.set)); /* the honest one came instead */
	finish(&s);
	same_facts(&honest, &s);
	same_engines(honest.engine, s.engine);
	side_close(&s);
	/* ... and is in the cache now */
	read_shared(&honest, &s);
	assert_int_equal(join(&s, &honest, &l, &said, &why), TW_OK);
	assert_int_equal(l.calls, 0);
	same_engines(honest.engine, s.engine);
	side_close(&s);
	empty_cache();
	tw_transfer_set_close(l.set);
	side_close(&forged);
	side_close(&honest);
}

static void a_forged_set_is_not_taken(void **state)
{
	static uint8_t bytes[16384];
	struct side honest, forged, s;
	struct said said;
	struct tw_error why;
	struct line l;

	make_twins(&honest, &forged);
	l = line_of(&honest);
	lie(&honest, &forged, bytes, sizeof bytes);
	l.instead = bytes;
	read_shared(&honest, &s);
	assert_int_equal(join(&s, &honest, &l, &said, &why), TW_BAD_BYTES);
	assert_non_null(strstr(why.text, "is damaged or forged"));
	assert_null(s.engine);
	assert_int_equal(cached(), 0);
	side_close(&s);
	tw_transfer_set_close(l.set);
	side_close(&forged);
	side_close(&honest);
}

static void a_run_does_not_go_on_with_forged_data(void **state)
{
	const struct tw_log quiet = { 0 };
	const char *path = path_of("forged-run");
	struct side honest, forged;
	struct tw_run_directory *r = NULL;
	struct tw_error why = { 0 };

	make_twins(&honest, &forged);
	assert_false(tw_sha_same(&honest.facts.job, &forged.facts.job));
	assert_true(tw_sha_same(&honest.facts.layout, &forged.facts.layout));
	assert_int_equal(tw_run_directory_open(path, honest.job, false, &quiet, &r, &why), TW_OK);
	tw_run_directory_close(r);
	assert_int_equal(tw_run_directory_open(path, forged.job, false, &quiet, &r, &why),
			 TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "the data has changed"));
	why = (struct tw_error){ 0 };
	assert_int_equal(tw_run_directory_open(path, honest.job, false, &quiet, &r, &why), TW_OK);
	assert_true(tw_run_directory_resumes(r));
	tw_run_directory_close(r);
	side_close(&forged);
	side_close(&honest);
}

/* What an earlier version wrote is refused by name, not by a riddle. */
static void an_earlier_run_is_named(void **state)
{
	static const char old[] = "# A run of thalweg; world tcp; job 05923f958cd003a6.\ndata:\n";
	struct tw_job *job = good_job(SMALL, NULL, TW_WORLD_TCP);
	struct tw_run_directory *r = NULL;
	struct tw_error why = { 0 };

	mkdir(path_of("old-run"), 0700);
	put("old-run/job.yaml", old, sizeof old - 1);
	assert_int_equal(tw_run_directory_open(path_of("old-run"), job, false,
					       &(struct tw_log){ 0 }, &r, &why),
			 TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "earlier version of thalweg"));
	tw_job_free(job);
}

static void without_a_cache_memory_will_do(void **state)
{
	struct side master = master_of(CSV), s;
	struct line l = line_of(&master);
	struct said said;
	struct tw_error why;

	put("plain", "x", 1);
	for (int k = 0; k < 2; k++) {
		setenv("XDG_CACHE_HOME", path_of(k ? "plain" : "plain/deeper"), 1);
		for (int turn = 0; turn < 2; turn++) {
			read_shared(&master, &s);
			assert_int_equal(join(&s, &master, &l, &said, &why), TW_OK);
			assert_int_equal(l.bytes, tw_transfer_set_bytes(l.set));
			assert_non_null(strstr(said.info, "in memory only"));
			same_engines(master.engine, s.engine);
			side_close(&s);
		}
	}
	setenv("XDG_CACHE_HOME", path_of("cache"), 1);
	tw_transfer_set_close(l.set);
	side_close(&master);
}

/* One process at a time puts a set there; what one left that died is no hindrance. */
static void only_one_writes(void **state)
{
	struct side master = master_of(CSV), s;
	struct line l = line_of(&master);
	struct said said;
	struct tw_error why;
	char name[120];
	int fd;

	empty_cache();
	mkdir(path_of("cache"), 0700);
	mkdir(path_of("cache/thalweg"), 0700);
	mkdir(path_of("cache/thalweg/sets"), 0700);
	set_name(&master, ".", ".new", name);
	put(name, "half of something that was longer than the set", 46);
	fd = open(path_of(name), O_RDWR);
	assert_true(fd >= 0 && flock(fd, LOCK_EX) == 0);
	for (int turn = 0; turn < 3; turn++) {
		if (turn == 1)
			close(fd);
		read_shared(&master, &s);
		assert_int_equal(join(&s, &master, &l, &said, &why), TW_OK);
		assert_non_null(strstr(said.info, turn == 0   ? "another process is putting it"
						  : turn == 1 ? "is in the cache now"
							      : "is in the cache: "));
		assert_int_equal(cached(), 1);
		side_close(&s);
	}
	tw_transfer_set_close(l.set);
	side_close(&master);
	empty_cache();
}

/* A safetensors file for `linear 2` on two columns, filled from `seed`. */
static void write_weights(const char *name, float seed)
{
	static const char header[] = "{\"0.bias\":{\"dtype\":\"F32\",\"shape\":[2],"
				     "\"data_offsets\":[0,8]},\"0.weight\":{\"dtype\":\"F32\","
				     "\"shape\":[2,2],\"data_offsets\":[8,24]}}";
	const uint64_t length = sizeof header - 1;
	uint8_t bytes[400];
	float v[6];

	for (int k = 0; k < 6; k++)
		v[k] = seed + (float)k / 8;
	memcpy(bytes, &length, 8);
	memcpy(bytes + 8, header, length);
	memcpy(bytes + 8 + length, v, sizeof v);
	put(name, bytes, 8 + length + sizeof v);
}

/* --- paths that the master names ------------------------------------------------------------- */

static void copy_file(const char *from, const char *to)
{
	uint8_t bytes[16384];
	FILE *f = fopen(path_of(from), "rb");
	const size_t n = f ? fread(bytes, 1, sizeof bytes, f) : 0;

	assert_true(n > 0 && n < sizeof bytes);
	fclose(f);
	put(to, bytes, n);
}

/* The same job in a joiner's hands, with another path in it. */
static void read_named(const char *format, const char *path, struct side *to)
{
	struct tw_error why = { 0 };
	char text[1400];

	snprintf(text, sizeof text, format, path, path);
	*to = (struct side){ .job = NULL };
	if (read_job(text, NULL, NULL, TW_WORLD_TCP, &to->job, &why) != TW_OK)
		fail_msg("%s", why.text);
}

/* A master names files of the joiner's machine; the right ones even, so that nothing but leave is
 * missing.  The kernel tells whether anybody opens them. */
static void named_paths_stay_closed(void **state)
{
	static const char *const named[] = {
		"data: {source: csv, file: %s/classes.csv, batch: 8}\n" LAYERS,
		"data: {source: csv, file: %s/classes.csv, batch: 8}\n"
		"model: {layers: [linear 2], weights: %s/first.safetensors}\n",
		"data: {source: npy, x: %s/x.npy, y: %s/y.npy, batch: 8, normalise: unit}\n"
		"model: {layers: [linear 8, relu, linear 4]}\n",
		"data: {source: idx, images: %s/images, labels: %s/labels, batch: 8}\n"
		"model: {layers: [flatten, linear 10]}\n",
	};
	static const char *const files[] = { "classes.csv", "x.npy",  "y.npy",
					     "images",      "labels", "first.safetensors" };
	char path[600];
	int watch;

	write_weights("first.safetensors", 1);
	snprintf(path, sizeof path, "%s/secret", scratch());
	assert_int_equal(mkdir(path, 0700), 0);
	for (size_t k = 0; k < sizeof files / sizeof files[0]; k++) {
		char to[100];

		snprintf(to, sizeof to, "secret/%s", files[k]);
		copy_file(files[k], to);
	}
	watch = watch_on(path, ANYTHING);
	for (size_t k = 0; k < sizeof named / sizeof named[0]; k++) {
		char text[1400];
		struct side master, s;
		struct line l;
		struct said said;
		struct tw_error why;

		snprintf(text, sizeof text, named[k], path, path);
		master = master_of(text);
		assert_true(was_touched(watch)); /* the watch sees what is opened */
		l = line_of(&master);
		for (int turn = 0; turn < 2; turn++) { /* received, and from the cache */
			read_shared(&master, &s);
			if (join(&s, &master, &l, &said, &why) != TW_OK)
				fail_msg("%s", why.text);
			assert_false(was_touched(watch));
			finish(&s);
			same_facts(&master, &s);
			same_engines(master.engine, s.engine);
			side_close(&s);
		}
		/* nobody gives anything: still closed, and the sentence says so */
		empty_cache();
		read_shared(&master, &s);
		why = (struct tw_error){ 0 };
		assert_int_equal(tw_transfer_open_engine(s.job, &nothing, &master.facts.data, 0,
							 NULL, NULL, &(struct tw_log){ 0 },
							 &s.engine, &why),
				 TW_BAD_INPUT);
		assert_non_null(strstr(why.text, "is named by the master, and not opened here"));
		assert_false(was_touched(watch));
		side_close(&s);
		/* with leave it is opened */
		l.paths = everything;
		read_shared(&master, &s);
		assert_int_equal(join(&s, &master, &l, &said, &why), TW_OK);
		assert_string_equal(said.info,
				    "the data set that the job names is on this machine");
		assert_true(was_touched(watch));
		side_close(&s);
		tw_transfer_set_close(l.set);
		side_close(&master);
	}
	close(watch);
}

/* --data DIR: by its name in that folder, wherever the job says it is. */
static void data_is_found_by_name(void **state)
{
	static const char format[] = "data: {source: csv, file: '%s', batch: 8}\n" LAYERS;
	static const struct {
		const char *path;
		bool here;
	} cases[] = {
		{ "classes.csv", true },
		{ "/nowhere/classes.csv", true },
		{ "../../classes.csv", true },
		{ "near.csv", true },
		{ "far.csv", false },
		{ "other.csv", false },
		{ "../classes.csv/..", false },
		{ "/etc/passwd", false },
		{ "deep/../../values.csv", false },
	};
	struct side master = master_of(CSV), s;
	struct line l = line_of(&master);
	struct said said;
	struct tw_error why;
	int watch;

	mkdir(path_of("sets"), 0700);
	copy_file("classes.csv", "sets/classes.csv");
	copy_file("values.csv", "sets/other.csv"); /* another data set */
	assert_int_equal(symlink("classes.csv", path_of("sets/near.csv")), 0);
	mkdir(path_of("away"), 0700);
	copy_file("classes.csv", "away/classes.csv");
	assert_int_equal(symlink("../away/classes.csv", path_of("sets/far.csv")), 0);
	watch = watch_on(path_of("away"), ANYTHING);
	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		char where[600];

		snprintf(where, sizeof where, "%s/sets", scratch());
		l.paths = (struct tw_transfer_paths){ .data = where };
		read_named(format, cases[k].path, &s);
		if (join(&s, &master, &l, &said, &why) != TW_OK)
			fail_msg("%s: %s", cases[k].path, why.text);
		if ((l.calls == 0) != cases[k].here)
			fail_msg("%s: %s", cases[k].path, said.info);
		same_engines(master.engine, s.engine);
		side_close(&s);
		empty_cache();
	}
	assert_false(was_touched(watch));
	close(watch);
	tw_transfer_set_close(l.set);
	side_close(&master);
}

/* First values are the master's, also where the data and a file of that name are here. */
static void first_values_are_the_masters(void **state)
{
	static const char job[] = "data: {source: csv, file: classes.csv, batch: 8}\n"
				  "model: {layers: [linear 2], weights: first.safetensors}\n";
	struct side master, s;
	struct line l;
	struct said said;
	struct tw_error why;
	char where[600];

	write_weights("first.safetensors", 3);
	master = master_of(job);
	l = line_of(&master);
	snprintf(where, sizeof where, "%s/sets", scratch());
	write_weights("sets/first.safetensors", 7);
	l.paths = (struct tw_transfer_paths){ .data = where };
	read_shared(&master, &s);
	assert_int_equal(join(&s, &master, &l, &said, &why), TW_OK);
	assert_string_equal(said.info, "the data set that the job names is on this machine");
	assert_int_equal(l.bytes, 56 + 6 * 4);
	same_engines(master.engine, s.engine);
	side_close(&s);
	/* and nobody's where nobody gives them */
	read_shared(&master, &s);
	why = (struct tw_error){ 0 };
	assert_int_equal(tw_transfer_open_engine(s.job, &l.paths, &master.facts.data, 0, NULL, NULL,
						 &(struct tw_log){ 0 }, &s.engine, &why),
			 TW_BAD_INPUT);
	assert_non_null(
		strstr(why.text, "model.weights: no process sends the run's initial weights"));
	side_close(&s);
	tw_transfer_set_close(l.set);
	side_close(&master);
}

/* --- first values ----------------------------------------------------------------------------- */

#define FIRST (56 + 6 * 4) /* bytes of the head and of six values */

static void first_values_travel(void **state)
{
	struct side master, s;
	struct line l;
	struct said said;
	struct tw_error why;
	uint64_t data;

	write_weights("first.safetensors", 1);
	master = master_of("data: {source: csv, file: classes.csv, batch: 8}\n"
			   "model: {layers: [linear 2], weights: first.safetensors}\n");
	l = line_of(&master);
	data = tw_transfer_set_bytes(l.set) - FIRST;
	for (int turn = 0; turn < 2; turn++) { /* with the data received, and in the cache */
		read_shared(&master, &s);
		if (join(&s, &master, &l, &said, &why) != TW_OK)
			fail_msg("%s", why.text);
		assert_int_equal(l.bytes, turn ? FIRST : data + FIRST);
		finish(&s);
		same_facts(&master, &s);
		same_engines(master.engine, s.engine);
		side_close(&s);
	}
	/* every byte of them counts */
	for (l.damaged = data; l.damaged < data + FIRST; l.damaged++) {
		read_shared(&master, &s);
		assert_int_equal(join(&s, &master, &l, &said, &why), TW_BAD_BYTES);
		assert_non_null(strstr(why.text, "model.weights: "));
		side_close(&s);
	}
	l.damaged = UINT64_MAX;
	/* where the user allows it, a file of the same name with other values is passed over */
	l.paths = everything;
	{
		char text[700];

		write_weights("older.safetensors", 2);
		for (int same = 0; same < 2; same++) {
			snprintf(text, sizeof text,
				 "data: {source: csv, file: classes.csv, batch: 8}\n"
				 "model: {layers: [linear 2], weights: %s/%s.safetensors}\n",
				 scratch(), same ? "first" : "older");
			s = (struct side){ .job = NULL };
			assert_int_equal(read_job(text, NULL, NULL, TW_WORLD_TCP, &s.job, &why),
					 TW_OK);
			assert_int_equal(join(&s, &master, &l, &said, &why), TW_OK);
			assert_int_equal(l.bytes, same ? FIRST - 6 * 4 : FIRST);
			same_engines(master.engine, s.engine);
			side_close(&s);
		}
	}
	/* where nobody gives any, there are none */
	read_shared(&master, &s);
	why = (struct tw_error){ 0 };
	assert_int_equal(tw_transfer_open_engine(s.job, &nothing, &master.facts.data, 0, NULL, NULL,
						 &(struct tw_log){ 0 }, &s.engine, &why),
			 TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "model.weights: "));
	side_close(&s);
	tw_transfer_set_close(l.set);
	side_close(&master);
	empty_cache();
}

static void any_piece_is_of_the_whole(void **state)
{
	struct side master = master_of("data: {source: csv, file: classes.csv, batch: 8}\n"
				       "model: {layers: [linear 2], weights: "
				       "first.safetensors}\n");
	struct line l = line_of(&master);
	const uint64_t n = tw_transfer_set_bytes(l.set);
	uint8_t *all = malloc(n), *piece = malloc(n);

	assert_int_equal(tw_transfer_set_read(l.set, 0, all, n), TW_OK);
	for (uint64_t from = 0; from <= n; from += from < n - 80 ? 61 : 1)
		for (size_t k = 0; k <= n - from; k += 1 + k / 4) {
			assert_int_equal(tw_transfer_set_read(l.set, from, piece, k), TW_OK);
			assert_memory_equal(piece, all + from, k);
		}
	assert_int_equal(tw_transfer_set_read(l.set, n, piece, 1), TW_BAD_INPUT);
	assert_int_equal(tw_transfer_set_read(l.set, UINT64_MAX, piece, 2), TW_BAD_INPUT);
	free(all);
	free(piece);
	tw_transfer_set_close(l.set);
	side_close(&master);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(presets_travel),
		cmocka_unit_test(unusual_jobs_travel),
		cmocka_unit_test(other_jobs_have_other_facts),
		cmocka_unit_test(what_cannot_travel_is_said),
		cmocka_unit_test(the_world_has_its_fields),
		cmocka_unit_test(the_world_refuses),
		cmocka_unit_test(directories_know_the_world),
		cmocka_unit_test(data_is_received_once),
		cmocka_unit_test(mnist_travels),
		cmocka_unit_test(made_up_data_needs_nobody),
		cmocka_unit_test(another_file_is_passed_over),
		cmocka_unit_test(nobody_has_it),
		cmocka_unit_test(a_dead_line_leaves_nothing),
		cmocka_unit_test(another_set_is_refused),
		cmocka_unit_test(a_damaged_cache_is_mended),
		cmocka_unit_test(a_forged_cache_is_not_used),
		cmocka_unit_test(a_forged_set_is_not_taken),
		cmocka_unit_test(a_run_does_not_go_on_with_forged_data),
		cmocka_unit_test(an_earlier_run_is_named),
		cmocka_unit_test(without_a_cache_memory_will_do),
		cmocka_unit_test(only_one_writes),
		cmocka_unit_test(named_paths_stay_closed),
		cmocka_unit_test(data_is_found_by_name),
		cmocka_unit_test(first_values_are_the_masters),
		cmocka_unit_test(first_values_travel),
		cmocka_unit_test(any_piece_is_of_the_whole),
		cmocka_unit_test(examples_travel),
	};

	return cmocka_run_group_tests(tests, setup, scratch_remove);
}
