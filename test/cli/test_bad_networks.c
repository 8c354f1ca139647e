/* SPDX-License-Identifier: Apache-2.0 */
/* test_bad_networks.c - wrong networks, data and checkpoints, through the program: one sentence,
 * the right exit code, nothing on stdout, and what was kept before stays good. */
#include "cli/spawn.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define DIGITS "data: {source: digits, count: 200, tests: 50, batch: 10}\n"

/* --- helpers ---------------------------------------------------------------------------------- */

/* One sentence on one line, as the error of the program: nothing else is said, to anybody. */
static void refused(const struct said *s, int code, const char *const *parts)
{
	expect(s, code);
	assert_string_equal(s->out, "");
	if (strncmp(s->err, "thalweg: ", 9) != 0 ||
	    strchr(s->err, '\n') != s->err + strlen(s->err) - 1)
		print_error("not one line: '%s'\n", s->err);
	assert_int_equal(strncmp(s->err, "thalweg: ", 9), 0);
	assert_ptr_equal(strchr(s->err, '\n'), s->err + strlen(s->err) - 1);
	for (; *parts; parts++)
		has(s->err, *parts);
}
#define SAYS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* What a job says that must be refused with 2 before anything is made. */
struct wrong {
	const char *job;
	const char *says[6]; /* ends with NULL */
};

static void all_refused(const struct wrong *w, size_t count)
{
	for (size_t k = 0; k < count; k++) {
		const char *job = put_job(w[k].job);

		refused(thalweg(NULL, "train %s --run %s/run", job, scratch()), 2, w[k].says);
		assert_false(exists("run"));
	}
}
#define ALL_REFUSED(list) all_refused(list, sizeof(list) / sizeof(list)[0])

/* --- networks --------------------------------------------------------------------------------- */

static void wrong_networks(void **state)
{
	static const struct wrong list[] = {
		{ DIGITS "model:\n  layers:\n    - conv 4 3x3\n    - rellu\n    - linear 10\n",
		  { "job.yaml:5: ", "layer 2 of 3", "'rellu' is not a known layer",
		    "did you mean 'relu'?" } },
		{ DIGITS "model:\n  layers: [conv 4 3x3 padd 1, relu, linear 10]\n",
		  { "job.yaml:3: ", "layer 1 of 3", "'padd' is not one of its options",
		    "did you mean 'pad'?" } },
		{ DIGITS "model:\n  layers: [conv 4 3x, relu, linear 10]\n",
		  { "job.yaml:3: ", "layer 1 of 3", "size: needs height and width", "not '3x'" } },
		{ DIGITS "model:\n  layers:\n    - conv 4 24x24\n    - conv 4 9x9\n"
			 "    - linear 10\n",
		  { "job.yaml:5: ", "layer 2 of 3, 'conv 4 9x9'", "9x9 does not fit into 4x5x5" } },
		{ DIGITS "model:\n  layers:\n    - conv 4 3x3\n"
			 "    - residual: [conv 8 3x3 pad 1, relu]\n    - linear 10\n",
		  { "job.yaml:5: ", "layer 2 of 3, a residual", "gives 8x26x26", "input is 4x26x26",
		    "shortcut: [conv 8 1x1]" } },
		{ DIGITS "model:\n  layers: [linear 20, relu, linear 11]\n",
		  { "job.yaml:3: ", "10 classes", "layer 3 of 3, 'linear 11', gives 11",
		    "'linear 10'" } },
		{ DIGITS "model: {layers: [linear 10]}\nloss: mean-squared\n",
		  { "job.yaml:3: ", "loss 'mean-squared'", "labels of 10 classes",
		    "write loss: cross-entropy" } },
		{ DIGITS "model: {layers: [linear 10]}\nloss: cross-entropie\n",
		  { "job.yaml:3: loss", "'cross-entropie'", "did you mean 'cross-entropy'?" } },
		{ DIGITS "model: lenett\n",
		  { "job.yaml:2: model", "'lenett'", "did you mean 'lenet'?" } },
		{ DIGITS "model: {name: mlp, hiden: [10]}\n",
		  { "job.yaml:2: model.hiden: ", "did you mean 'hidden'?" } },
		{ DIGITS "model: {name: mlp, hidden: [ten]}\n",
		  { "job.yaml:2: model.hidden: ", "list of numbers", "[ten]" } },
		{ DIGITS "model: {name: mlp, layers: [linear 10]}\n",
		  { "job.yaml:2: model.layers: ", "leave one out" } },
		{ DIGITS "model: {layers: []}\n",
		  { "job.yaml:2: model.layers: ", "needs a list of layers" } },
		{ DIGITS, { "job.yaml: model: must be given", "model: lenet" } },
	};

	ALL_REFUSED(list);
}

/* --- data ------------------------------------------------------------------------------------- */

#define ANY_MODEL "model: {layers: [linear 2]}\n"

static void missing_data(void **state)
{
	static const struct wrong list[] = {
		{ "data: {source: digit, batch: 10}\n" ANY_MODEL,
		  { "job.yaml:1: data.source: ", "'digit'", "did you mean 'digits'?" } },
		{ "data: {source: csv, file: none.csv, batch: 10}\n" ANY_MODEL,
		  { "job.yaml:1: data", "none.csv", "No such file" } },
		{ "data: {source: csv, batch: 10}\n" ANY_MODEL,
		  { "job.yaml:1: data.file: must be given" } },
		{ "data: {source: npy, x: none.npy, y: no.npy, batch: 10}\n" ANY_MODEL,
		  { "job.yaml:1: data", "none.npy", "No such file" } },
		{ "data: {source: idx, images: gone, labels: gone, batch: 10}\n" ANY_MODEL,
		  { "job.yaml:1: data", "gone", "No such file" } },
		{ "data:\n  source: mnist\n  path: nowhere\n" ANY_MODEL,
		  { "job.yaml:3: data.path: ", "nowhere has no train-images-idx3-ubyte",
		    "a folder with the four IDX files" } },
	};

	ALL_REFUSED(list);
}

/* An IDX file of `count` things of `rank` - 1 more dimensions of 5, with `bytes` bytes behind. */
static void put_idx(const char *name, uint8_t rank, uint8_t count, size_t bytes)
{
	uint8_t at[1000] = { 0, 0, 8, rank, 0, 0, 0, count };
	const size_t head = 4 + 4u * rank;

	for (uint8_t k = 1; k < rank; k++)
		at[4 + 4 * k + 3] = 5;
	for (size_t k = 0; k < bytes; k++)
		at[head + k] = (uint8_t)(k % 10);
	put(name, at, head + bytes);
}

static void damaged_idx(void **state)
{
	static const struct wrong list[] = {
		{ "data: {source: idx, images: short, labels: labels, batch: 10}\n" ANY_MODEL,
		  { "job.yaml:1: data", "short: ends before byte 516", "20 samples" } },
		{ "data: {source: idx, images: whole, labels: fewer, batch: 10}\n" ANY_MODEL,
		  { "job.yaml:1: data", "fewer: has 19 labels", "whole has 20 samples",
		    "one label for each" } },
		{ "data: {source: idx, images: whole, labels: job.yaml, batch: 10}\n" ANY_MODEL,
		  { "job.yaml:1: data", "job.yaml: begins with bytes 64 61 74 61",
		    "an IDX file" } },
	};

	put_idx("short", 3, 20, 300);
	put_idx("whole", 3, 20, 500);
	put_idx("labels", 1, 20, 20);
	put_idx("fewer", 1, 19, 19);
	ALL_REFUSED(list);
}

static void damaged_csv(void **state)
{
	static const struct wrong list[] = {
		{ "data: {source: csv, file: ragged.csv, batch: 1}\n" ANY_MODEL,
		  { "job.yaml:1: data", "ragged.csv:4: has 2 columns", "first row has 3" } },
		{ "data: {source: csv, file: nan.csv, missing: refuse, batch: 1}\n" ANY_MODEL,
		  { "job.yaml:1: data", "nan.csv:3: column 2 (b): 'nan' is not accepted",
		    "missing values are refused here" } },
		{ "data: {source: csv, file: word.csv, batch: 1}\n" ANY_MODEL,
		  { "job.yaml:1: data", "word.csv:3: column 1", "'three'" } },
	};

	put_text("ragged.csv", "a,b,c\n1,2,0\n3,4,1\n5,6\n7,8,0\n");
	put_text("nan.csv", "a,b,c\n1,2,0\n3,nan,1\n5,6,0\n");
	put_text("word.csv", "a,b,c\n1,2,0\nthree,4,1\n5,6,0\n");
	ALL_REFUSED(list);
}

/* What numpy.save writes for `rows` rows of `columns` (0: one dimension) values of this type. */
static void put_npy(const char *name, const char *type, unsigned rows, unsigned columns,
		    size_t value)
{
	uint8_t at[128 + 20 * 4 * 16] = "\x93NUMPY\1\0\x76\0";
	const size_t bytes = (size_t)rows * (columns ? columns : 1) * value;
	char text[119], shape[30];

	snprintf(shape, sizeof shape, columns ? "(%u, %u)" : "(%u,)", rows, columns);
	snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type,
		 shape);
	memset(at + 10, ' ', 117);
	memcpy(at + 10, text, strlen(text));
	at[127] = '\n';
	for (size_t k = 0; k < rows && !columns; k++)
		at[128 + k * value] = (uint8_t)(k % 2);
	assert_true(128 + bytes <= sizeof at);
	put(name, at, 128 + bytes);
}

static void wrong_npy_and_sizes(void **state)
{
#define NPY "data: {source: npy, x: x.npy, y: y.npy, batch: 10"
	static const struct wrong list[] = {
		{ "data: {source: npy, x: c.npy, y: y.npy, batch: 10}\n" ANY_MODEL,
		  { "job.yaml:1: data", "c.npy", "a type other than", "numpy.save" } },
		{ "data: {source: npy, x: x.npy, y: fewer.npy, batch: 10}\n" ANY_MODEL,
		  { "job.yaml:1: data", "fewer.npy: has 19 labels", "x.npy has 20 samples" } },
		{ NPY ", test: 0}\n" ANY_MODEL,
		  { "job.yaml:1: data.evaluate: ", "no test samples" } },
		{ NPY ", evaluate: validation}\n" ANY_MODEL,
		  { "job.yaml:1: data.evaluate: ", "set data.validation above 0" } },
		{ NPY ", samples: 100}\n" ANY_MODEL,
		  { "job.yaml:1: data.samples: there are ", " for training, not 100" } },
		{ NPY ", shift: 1}\n" ANY_MODEL, { "job.yaml:1: data.shift: needs images" } },
		{ "data:\n  source: digits\n  count: 100\n  batch: 101\n" ANY_MODEL,
		  { "job.yaml:4: data.batch: ", "101 samples", "100 of an epoch", "use fewer" } },
	};

	put_npy("x.npy", "<f4", 20, 4, 4);
	put_npy("y.npy", "<i8", 20, 0, 8);
	put_npy("c.npy", "<c8", 20, 4, 8);
	put_npy("fewer.npy", "<i8", 19, 0, 8);
	/* they are good files: only what is said of them is wrong */
	expect(thalweg(NULL, "sim %s", put_job(NPY "}\n" ANY_MODEL)), 0);
	ALL_REFUSED(list);
}

/* --- weights ---------------------------------------------------------------------------------- */

static void wrong_weights(void **state)
{
	static const struct wrong list[] = {
		{ DIGITS "model:\n  layers: [linear 10]\n  weights: gone.safetensors\n",
		  { "job.yaml:4: model.weights: ", "gone.safetensors", "No such file" } },
		{ DIGITS "model:\n  layers: [linear 10]\n  weights: text.safetensors\n",
		  { "job.yaml:4: model.weights: ", "text.safetensors is not a safetensors file" } },
		{ DIGITS "model:\n  layers: [linear 10]\n  weights: torn.safetensors\n",
		  { "job.yaml:4: model.weights: ", "torn.safetensors is not a safetensors file" } },
		{ DIGITS "model:\n  layers: [linear 8, relu, linear 10]\n"
			 "  weights: good.safetensors\n",
		  { "job.yaml:4: model.weights: ", "good.safetensors is of another model" } },
		{ DIGITS "model:\n  layers: [linear 10]\n  weights: kept\n",
		  { "job.yaml:4: model.weights: ", "kept is a directory",
		    "thalweg export DIR --to" } },
	};
	const char *job = put_job(DIGITS "model: {layers: [linear 10]}\n");
	struct stat st;

	expect(thalweg(NULL, "train %s --run %s/kept -q", job, scratch()), 0);
	expect(thalweg(NULL, "export %s/kept --to %s/good.safetensors", scratch(), scratch()), 0);
	expect(thalweg(NULL, "export %s/kept --to %s/torn.safetensors", scratch(), scratch()), 0);
	assert_int_equal(stat(path_of("torn.safetensors"), &st), 0);
	assert_int_equal(truncate(path_of("torn.safetensors"), st.st_size - 100), 0);
	put_text("text.safetensors", "hello, I am a text and no tensors\n");
	ALL_REFUSED(list);
	/* and the good ones are taken */
	expect(thalweg(NULL, "train %s --run %s/run -q --set model.weights=good.safetensors", job,
		       scratch()),
	       0);
}

/* --- divergence ------------------------------------------------------------------------------- */

/* The evaluation says it, or the shards that refuse everything, whichever is there. */
static void divergence_is_said(void **state)
{
	const char *job = put_job(DIGITS "model: {layers: [linear 32, linear 32, linear 10]}\n"
					 "train: {epochs: 1000000}\nupdate: {rate: 1e6}\n");
	static const char *const ways[] = { "1", "2", "2 --set train.evaluate=0",
					    "2 --set cluster.shards=5" };

	for (size_t k = 0; k < sizeof ways / sizeof ways[0]; k++) {
		refused(thalweg(NULL, "train %s --run %s/run -q --again --set cluster.workers=%s",
				job, scratch(), ways[k]),
			1,
			SAYS("training diverged", "the loss is not a number", "a lower rate",
			     "1e+06", "--set update.rate=0.1", "it starts over"));
		assert_false(exists("run/result.json"));
		/* what is no use is not taken for the newest checkpoint */
		refused(thalweg(NULL, "inspect %s/run --json", scratch()), 2,
			SAYS("diverged and has no usable checkpoint"));
	}
	assert_null(strstr(thalweg(NULL, "sim %s -v", job)->err, "-nan"));
	refused(thalweg(NULL, "sim %s -q", job), 1,
		SAYS("training diverged", "a lower rate", "update.rate=0.1"));
	refused(thalweg(NULL, "train %s --run %s/other -q --set update.rate=1e30", job, scratch()),
		2, SAYS("update.rate: ", "from 0 to 1000000", "1e30"));
	assert_false(exists("other"));
}

/* --- checkpoints ------------------------------------------------------------------------------ */

/* One worker and cuts that drain: stopped and gone on with, it ends with the bits of one that was
 * not.  In the simulator, whose clock is virtual: how many checkpoints there are before the end
 * does not depend on how fast the machine or its disk is. */
#define KEPT(model)                                                                                \
	DIGITS "model: " model "\n"                                                                \
	       "train: {epochs: 5}\nupdate: {rate: 0.05}\ncluster: {workers: 1}\n"                 \
	       "sim: {compute: {mean: 1ms}}\ncheckpoint: {every: 20ms, cut: drain}\n"

static const char *kept_job(void)
{
	return put_job(KEPT("{layers: [linear 64, relu, linear 10]}"));
}

static char *uninterrupted(const char *verb, const char *job)
{
	const struct said *s =
		thalweg(NULL, "%s %s --run %s/whole --json -q", verb, job, scratch());

	expect(s, 0);
	return digest_of(s);
}

/* Stop after `cuts` checkpoints; the number of the last. */
static unsigned stop_after(const char *job, unsigned cuts)
{
	const struct said *s = thalweg(NULL, "sim %s --run %s/run --json -q --checkpoints %u", job,
				       scratch(), cuts);
	unsigned number = 0;
	json_t *r;

	expect(s, 75);
	r = object_of(s);
	assert_int_equal(sscanf(strrchr(text_of(r, "checkpoint"), '/'), "/ckpt-%u", &number), 1);
	json_decref(r);
	assert_true(number >= cuts);
	return number;
}

/* Go on in the same directory: it says that it does, from there, and ends like the whole one. */
static void goes_on(const char *verb, const char *job, const char *from, const char *refusal,
		    const char *digest)
{
	const struct said *s = thalweg(NULL, "%s %s --run %s/run --json", verb, job, scratch());
	char *got;

	expect(s, 0);
	has(s->err, from);
	if (refusal)
		has(s->err, refusal);
	else
		assert_null(strstr(s->err, "refused"));
	got = digest_of(s);
	assert_string_equal(got, digest);
	free(got);
}

static void flip_byte(const char *name)
{
	FILE *f = fopen(path_of(name), "r+b");
	int c;

	assert_non_null(f);
	fseek(f, -40, SEEK_END);
	c = fgetc(f);
	fseek(f, -40, SEEK_END);
	fputc(c ^ 0x10, f);
	fclose(f);
}

static void damage(unsigned cut)
{
	char name[100];

	snprintf(name, sizeof name, "run/ckpt-%u/parameters-0-50890.safetensors", cut);
	flip_byte(name);
}

static void a_damaged_checkpoint_is_passed_over(void **state)
{
	const char *job = kept_job();
	char *whole = uninterrupted("sim", job), from[60], refusal[200];
	const unsigned last = stop_after(job, 2);

	damage(last);
	snprintf(from, sizeof from, "/ckpt-%u\n", last - 1);
	snprintf(refusal, sizeof refusal,
		 "ckpt-%u is refused: parameters-0-50890.safetensors does not match its hash; "
		 "using the one before it",
		 last);
	goes_on("sim", job, from, refusal, whole);
	free(whole);
}

/* Nothing is left to go on from: it is said, of each, and the run begins again. */
static void without_a_good_checkpoint_it_starts_over(void **state)
{
	const char *job = kept_job();
	char *whole = uninterrupted("sim", job), refusal[200];
	const unsigned last = stop_after(job, 2);

	damage(last);
	damage(last - 1);
	snprintf(refusal, sizeof refusal,
		 "ckpt-%u is refused: parameters-0-50890.safetensors does not match its hash; "
		 "there is none before it",
		 last - 1);
	goes_on("sim", job, "starting from the beginning", refusal, whole);
	free(whole);
}

static void a_checkpoint_of_another_model_is_refused(void **state)
{
	const char *job = kept_job();
	char *whole = uninterrupted("sim", job);

	stop_after(job, 1);
	put_text("other.yaml", KEPT("{layers: [linear 64, tanh, linear 10]}"));
	refused(thalweg(NULL, "sim %s --run %s/run -q", path_of("other.yaml"), scratch()), 2,
		SAYS("run holds a run of another job", "model.layers: ", "'- tanh' here",
		     "give another --run DIR, or --again"));
	put_text("other.yaml", KEPT("{layers: [linear 65, relu, linear 10]}"));
	refused(thalweg(NULL, "sim %s --run %s/run -q", path_of("other.yaml"), scratch()), 2,
		SAYS("run holds a run of another job", "model.layers: ", "'- linear 65' here"));
	put_text("other.yaml", KEPT("{name: mlp, hidden: [64]}"));
	refused(thalweg(NULL, "sim %s --run %s/run -q", path_of("other.yaml"), scratch()), 2,
		SAYS("run holds a run of another job", "(model."));
	/* and it is there to be gone on with */
	goes_on("sim", job, "resuming from", NULL, whole);
	free(whole);
}

static void other_data_is_refused(void **state)
{
	static const char table[] = "data: {source: csv, file: t.csv, batch: 1, test: 0.25}\n"
				    "model: {layers: [linear 2]}\ntrain: {epochs: 5}\n"
				    "sim: {compute: {mean: 1ms}}\n"
				    "checkpoint: {every: 5ms, cut: drain}\n";
	const char *job = kept_job();

	stop_after(job, 1);
	refused(thalweg(NULL, "sim %s --run %s/run -q --set data.seed=2", job, scratch()), 2,
		SAYS("run holds a run of another job", "data.seed: 'seed: 1' there",
		     "'seed: 2' here"));
	refused(thalweg(NULL, "sim %s --run %s/run -q --set data.count=300", job, scratch()), 2,
		SAYS("run holds a run of another job", "data.count: 'count: 200' there"));

	/* the same words, but the file says something else */
	job = put_job(table);
	put_text("t.csv", "1,2,0\n3,4,1\n5,6,0\n7,8,1\n9,1,0\n2,3,1\n4,5,0\n6,7,1\n");
	expect(thalweg(NULL, "sim %s --run %s/table -q --checkpoints 1", job, scratch()), 75);
	put_text("t.csv", "1,2,0\n3,4,1\n5,6,0\n7,8,1\n9,1,0\n2,3,1\n4,5,0\n6,9,1\n");
	refused(thalweg(NULL, "sim %s --run %s/table -q", job, scratch()), 2,
		SAYS("table holds a run of another job", "the data has changed",
		     "give another --run DIR, or --again"));
	put_text("t.csv", "1,2,0\n3,4,1\n5,6,0\n7,8,1\n9,1,0\n2,3,1\n4,5,0\n6,7,1\n");
	expect(thalweg(NULL, "sim %s --run %s/table -q", job, scratch()), 0);
}

/* The disk fills up while a checkpoint is written: the file is named, what was kept stays. */
static void a_full_disk_leaves_the_checkpoint_before(void **state)
{
	const char *job = kept_job();
	char *whole = uninterrupted("sim", job), from[60];
	const unsigned last = stop_after(job, 1);
	struct rlimit before, full;
	const struct said *s;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	full = before;
	full.rlim_cur = 64 << 10; /* room for all but the 200 KB of parameters */
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
	s = thalweg(NULL, "sim %s --run %s/run --json -q", job, scratch());
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	expect(s, 1);
	assert_string_equal(s->out, "");
	has(s->err, "cannot be written to ");
	has(s->err, "parameters-0-50890.safetensors: File too large");
	has(s->err, "what was saved before it is intact");
	assert_false(exists("run/result.json"));
	snprintf(from, sizeof from, "/ckpt-%u\n", last);
	goes_on("sim", job, from, NULL, whole);
	free(whole);
}

/* --- other ways in, and out ------------------------------------------------------------------- */

static void layers_come_from_everywhere(void **state)
{
	static const char job[] = DIGITS "model: {layers: [linear 10]}\n";
	const struct said *s = thalweg(job, "train - --run %s/stdin --json -q", scratch());
	json_t *r;

	expect(s, 0);
	r = object_of(s);
	assert_true(number_of(r, "parameters") == 7850);
	json_decref(r);
	/* a tab, since words end at blanks here */
	s = thalweg(job, "sim - --json -q --set model.layers=[linear\t5,relu,linear\t10]");
	expect(s, 0);
	r = object_of(s);
	assert_true(number_of(r, "parameters") == 785 * 5 + 60);
	json_decref(r);
	setenv("THALWEG_MODEL_LAYERS", "[linear 5, relu, linear 10]", 1);
	s = thalweg(job, "sim - --json -q");
	expect(s, 0);
	r = object_of(s);
	assert_true(number_of(r, "parameters") == 785 * 5 + 60);
	json_decref(r);
	setenv("THALWEG_MODEL_LAYERS", "[linear 5, rellu, linear 10]", 1);
	refused(thalweg(job, "sim - -q"), 2,
		SAYS("THALWEG_MODEL_LAYERS", "layer 2 of 3", "did you mean 'relu'?"));
	unsetenv("THALWEG_MODEL_LAYERS");
	s = thalweg(job, "sim - --json -q --set model.layers=[flatten,relu,softmax]");
	refused(s, 2, SAYS("10 classes", "layer 3 of 3", "gives 784", "'linear 10'"));
	refused(thalweg(DIGITS "model: {layers: [lineer 10]}\n", "sim - -q"), 2,
		SAYS("2: layer 1 of 1", "did you mean 'linear'?"));
}

/* Start, wait for the first lines of the log, Ctrl-C. */
static const struct said *started_and_interrupted(const char *job)
{
	struct stat st = { .st_size = 0 };
	const pid_t child = thalweg_start("train %s --run %s/run --json -q", job, scratch());

	for (int k = 0; k < 5000 && st.st_size < 400; k++) {
		usleep(1000);
		if (stat(path_of("run/log.jsonl"), &st))
			st.st_size = 0;
	}
	assert_int_equal(kill(child, SIGINT), 0);
	return thalweg_finish(child);
}

/* Ctrl-C in the middle of an epoch, and on: the same bits as without.  Where we were kept from
 * looking until the run was over, it is tried again. */
static void interrupted_training_ends_with_the_same_bits(void **state)
{
	const char *job = put_job("data: {source: digits, count: 2000, tests: 50, batch: 10}\n"
				  "model: {layers: [linear 64, relu, linear 10]}\n"
				  "train: {epochs: 60}\nupdate: {rate: 0.01}\n"
				  "cluster: {workers: 1}\n");
	char *whole = uninterrupted("train", job);
	const struct said *s = started_and_interrupted(job);
	json_t *r;

	for (int turn = 0; turn < 10 && s->code == 0; turn++) {
		assert_true(folder_remove(path_of("run")));
		s = started_and_interrupted(job);
	}
	expect(s, 75);
	r = object_of(s);
	assert_true(json_is_true(json_object_get(r, "interrupted")));
	assert_true(number_of(r, "steps") > 0 && number_of(r, "steps") < 12000);
	json_decref(r);
	assert_false(exists("run/result.json"));
	goes_on("train", job, "resuming from", NULL, whole);
	free(whole);
}

/* Ctrl-C while the store still writes a checkpoint: the one that is asked for comes after it, and
 * is what the result tells of. */
static void a_signal_during_a_save_stops_after_it(void **state)
{
	const char *job = put_job(DIGITS "model: {name: mlp, hidden: [1000, 1000]}\n"
					 "train: {epochs: 1000000, evaluate: 1000}\n"
					 "cluster: {workers: 1}\ncheckpoint: {every: 10ms}\n");

	for (int k = 0; k < 3; k++) {
		const pid_t child =
			thalweg_start("train %s --run %s/run --json -q", job, scratch());
		const struct said *s;
		json_t *r, *m;
		char path[400];

		for (int left = 60000; left && !exists("run/log.jsonl"); left--)
			usleep(1000); /* now it trains */
		usleep(500000 + 70000 * (unsigned)k);
		assert_int_equal(kill(child, SIGINT), 0);
		s = thalweg_finish(child);
		expect(s, 75);
		r = object_of(s);
		snprintf(path, sizeof path, "%s/manifest.json", text_of(r, "checkpoint"));
		m = json_load_file(path, 0, NULL);
		assert_true(number_of(r, "steps") == number_of(m, "steps"));
		json_decref(m);
		json_decref(r);
		assert_true(folder_remove(path_of("run")));
	}
}

int main(void)
{
#define IN_SCRATCH(f) cmocka_unit_test_setup_teardown(f, scratch_make, scratch_remove)
	const struct CMUnitTest tests[] = {
		IN_SCRATCH(wrong_networks),
		IN_SCRATCH(missing_data),
		IN_SCRATCH(damaged_idx),
		IN_SCRATCH(damaged_csv),
		IN_SCRATCH(wrong_npy_and_sizes),
		IN_SCRATCH(wrong_weights),
		IN_SCRATCH(divergence_is_said),
		IN_SCRATCH(a_damaged_checkpoint_is_passed_over),
		IN_SCRATCH(without_a_good_checkpoint_it_starts_over),
		IN_SCRATCH(a_checkpoint_of_another_model_is_refused),
		IN_SCRATCH(other_data_is_refused),
		IN_SCRATCH(a_full_disk_leaves_the_checkpoint_before),
		IN_SCRATCH(layers_come_from_everywhere),
		IN_SCRATCH(interrupted_training_ends_with_the_same_bits),
		IN_SCRATCH(a_signal_during_a_save_stops_after_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
