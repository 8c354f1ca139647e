/* SPDX-License-Identifier: Apache-2.0 */
/* test_query.c - eval, inspect, export and data: what they print, and what they refuse. */
/* labels: numbers */
#include "base/skipping.h"
#include "cli/spawn.h"
#include "kit/near.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define REST                                                                                       \
	"data: {source: digits, samples: 300, batch: 20, validation: 0.1}\n"                       \
	"train: {epochs: 2}\nupdate: {rate: 0.01}\ncluster: {workers: 2}\nstrategy: asgd\n"        \
	"checkpoint: {every: 1s, keep: 3}\nsim: {compute: {law: constant, mean: 100ms}}\n"

static const char net[] = "model: {layers: [conv 4 5x5 pad 2 stride 2, batchnorm, relu, maxpool 2, "
			  "linear 10]}\n" REST;
static const char other[] = "model: {layers: [conv 6 5x5, relu, maxpool 4, linear 10]}\n" REST;
static const char table[] = "model: {layers: [linear 10]}\n" REST;
static const char bowl[] = "model: {quadratic: {dimension: 40, buffers: 3}}\n"
			   "data: {source: none, samples: 64, batch: 1}\ntrain: {epochs: 1}\n"
			   "cluster: {workers: 2}\nstrategy: dana\nupdate: {rate: 0.05}\n";

/* One sentence on stderr, nothing on stdout. */
static void refuses(const struct said *s, int code, const char *sentence)
{
	expect(s, code);
	assert_string_equal(s->out, "");
	has(s->err, sentence);
	assert_ptr_equal(strchr(s->err, '\n'), s->err + strlen(s->err) - 1);
}

/* Trained runs of the network and of the quadratic, made once. */
static json_t *trained;

static int train_all(void **state)
{
	const struct said *s;

	if (scratch_make(state))
		return -1;
	put_text("net.yaml", net);
	put_text("other.yaml", other);
	put_text("table.yaml", table);
	put_text("bowl.yaml", bowl);
	s = thalweg(NULL, "sim %s/bowl.yaml --run %s/bowl", scratch(), scratch());
	if (s->code)
		print_error("%s\n", s->err);
	if (s->code)
		return -1;
	s = thalweg(NULL, "sim %s/net.yaml --run %s/net --json", scratch(), scratch());
	if (s->code)
		print_error("%s\n", s->err);
	trained = s->code ? NULL : object_of(s);
	return trained ? 0 : -1;
}

static int forget_all(void **state)
{
	json_decref(trained);
	return scratch_remove(state);
}

static json_t *object(const char *words)
{
	const struct said *s;
	char line[900], *at;

	snprintf(line, sizeof line, "%s", words);
	while ((at = strchr(line, '@'))) { /* @ stands for the scratch directory */
		char rest[900];

		strcpy(rest, at + 1);
		snprintf(at, sizeof line - (size_t)(at - line), "%s%s", scratch(), rest);
	}
	s = thalweg(NULL, "%s", line);
	expect(s, 0);
	return object_of(s);
}

/* --- eval --- */

static void eval_gives_what_the_run_gave(void **state)
{
	json_t *r = object("eval @/net --json");
	const double loss = number_of(trained, "loss");

	assert_string_equal(text_of(r, "parameters_digest"), text_of(trained, "parameters_digest"));
	assert_string_equal(text_of(r, "buffers_digest"), text_of(trained, "buffers_digest"));
	assert_string_equal(text_of(r, "checkpoint"), text_of(trained, "checkpoint"));
	assert_string_equal(text_of(r, "set"), "test");
	/* batches may have other sizes: sums of 25 terms in the convolution, of 196 behind it */
	NEAR(number_of(r, "loss"), loss, ORDERS(25 + 196) * fmax(1, loss));
	assert_true(number_of(r, "accuracy") == number_of(trained, "accuracy"));
	assert_true(number_of(r, "samples") > 0 && number_of(r, "seconds") > 0);
	json_decref(r);
	has(thalweg(NULL, "eval %s/net", scratch())->out, "accuracy");
}

static void eval_takes_any_set(void **state)
{
	json_t *data = object("data check @/net.yaml --json");
	json_t *r = object("eval @/net --on train --json");

	assert_true(number_of(r, "samples") == 300 && number_of(data, "train") == 300);
	json_decref(r);
	r = object("eval @/net --on validation --json");
	assert_true(number_of(data, "validation") > 0);
	assert_true(number_of(r, "samples") == number_of(data, "validation"));
	json_decref(r);
	json_decref(data);
	/* fields of the checkpoint's job can be overridden */
	refuses(thalweg(NULL, "eval %s/net --on validation --set data.validation=0", scratch()), 2,
		"there are no validation samples");
	refuses(thalweg(NULL, "eval %s/net --set data.valdation=0", scratch()), 2, "validation");
}

static void eval_of_a_quadratic(void **state)
{
	json_t *r = object("eval @/bowl --json");

	assert_true(json_is_null(json_object_get(r, "accuracy")));
	assert_true(isfinite(number_of(r, "loss")));
	json_decref(r);
	refuses(thalweg(NULL, "eval %s/bowl --on train", scratch()), 2, "has no train set");
	refuses(thalweg(NULL, "eval %s/bowl --predictions %s/p", scratch(), scratch()), 2,
		"predicts nothing");
}

/* Accuracy can be counted from the predictions, and probabilities explain them. */
static void predictions_are_a_table(void **state)
{
	json_t *r = object("eval @/net --on train --predictions @/p.csv --json");
	char path[300], line[1000];
	size_t right = 0, n = 0;
	FILE *f;

	snprintf(path, sizeof path, "%s/p.csv", scratch());
	f = fopen(path, "r");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof line, f));
	has(line, "row,predicted,truth,probability,p_0,p_1");
	while (fgets(line, sizeof line, f)) {
		unsigned row, label, predicted, best = 0;
		double y[10], most, sum = 0;
		char *at = line;
		int used;

		assert_int_equal(
			sscanf(at, "%u,%u,%u,%lg%n", &row, &predicted, &label, &most, &used), 4);
		assert_int_equal(row, n + 1);
		at += used;
		for (unsigned k = 0; k < 10; k++) {
			assert_int_equal(*at, ',');
			y[k] = strtod(at + 1, &at);
			best = y[k] > y[best] ? k : best;
			sum += y[k];
		}
		assert_int_equal(*at, '\n');
		assert_int_equal(best, predicted);
		assert_true(most == y[best] && fabs(sum - 1) < 1e-5);
		right += label == predicted;
		n++;
	}
	fclose(f);
	assert_int_equal(n, 300);
	assert_true(fabs(number_of(r, "accuracy") - (double)right / 300.0) < 1e-12);
	json_decref(r);
	refuses(thalweg(NULL, "eval %s/net --predictions %s/no/p.csv", scratch(), scratch()), 2,
		"--predictions");
}

static void another_model_is_refused(void **state)
{
	refuses(thalweg(NULL, "eval %s/net --job %s/other.yaml", scratch(), scratch()), 2,
		"its tensor 0.weight is 4x1x5x5, the model's is 6x1x5x5");
	refuses(thalweg(NULL, "eval %s/bowl --job %s/net.yaml", scratch(), scratch()), 2,
		"it has no tensor 0.weight");
	expect(thalweg(NULL, "export %s/net --to %s/again.safetensors", scratch(), scratch()), 0);
	refuses(thalweg(NULL, "eval %s/again.safetensors", scratch()), 2, "--job");
	refuses(thalweg(NULL, "eval %s/again.safetensors --job %s/table.yaml", scratch(),
			scratch()),
		2, "is of another model");
	refuses(thalweg(NULL, "sim %s/other.yaml --set model.weights=%s/again.safetensors",
			scratch(), scratch()),
		2, "0.weight is 4x1x5x5, the model's is 6x1x5x5");
}

/* --- export --- */

static void a_file_is_as_good_as_the_run(void **state)
{
	json_t *r = object("export @/net --to @/net.safetensors --json"), *e;

	assert_string_equal(text_of(r, "format"), "safetensors");
	assert_true(number_of(r, "tensors") == 8);
	json_decref(r);
	e = object("eval @/net.safetensors --job @/net.yaml --json");
	assert_string_equal(text_of(e, "parameters_digest"), text_of(trained, "parameters_digest"));
	assert_string_equal(text_of(e, "buffers_digest"), text_of(trained, "buffers_digest"));
	json_decref(e);
	refuses(thalweg(NULL, "export %s/net --to %s/net.safetensors", scratch(), scratch()), 2,
		"--force");
	expect(thalweg(NULL, "export %s/net --to %s/net.safetensors --force", scratch(), scratch()),
	       0);
	refuses(thalweg(NULL, "export %s/net", scratch()), 2, "--to FILE");
	refuses(thalweg(NULL, "export %s/net --to net.pt", scratch()), 2, "PyTorch's pickle");
	refuses(thalweg(NULL, "export %s/net --to net.onnx", scratch()), 2, ".safetensors");
	refuses(thalweg(NULL, "export %s/net --to net.npy", scratch()), 2, "--format npy");
	refuses(thalweg(NULL, "export %s/net --to %s", scratch(), scratch()), 2, "--format npy");
	refuses(thalweg(NULL, "export %s/net --to %s/net.yaml --format npy", scratch(), scratch()),
		2, "needs a directory");
	expect(thalweg(NULL, "export %s/net --to %s/no/x", scratch(), scratch()), 1);
	refuses(thalweg(NULL, "export %s/net --to x --format nyp", scratch()), 2, "npy");
}

/* The reader is not ours: NumPy, and Python's json for the header of safetensors. */
static void others_read_it(void **state)
{
	static const char script[] =
		"import json, struct, sys, numpy as np\n"
		"d = sys.argv[1]\n"
		"b = open(d + '/py.safetensors', 'rb').read()\n"
		"n = struct.unpack('<Q', b[:8])[0]\n"
		"h = json.loads(b[8:8 + n]); data = b[8 + n:]\n"
		"assert h.pop('__metadata__')['format'] == 'pt'\n"
		"want = {'0.weight': [4, 1, 5, 5], '0.bias': [4], '1.weight': [4], '1.bias': [4],\n"
		"  '1.running_mean': [4], '1.running_var': [4], '4.weight': [10, 196],\n"
		"  '4.bias': [10]}\n"
		"assert {k: v['shape'] for k, v in h.items()} == want, h\n"
		"for k, v in h.items():\n"
		"  a, z = v['data_offsets']; assert v['dtype'] == 'F32'\n"
		"  x = np.frombuffer(data[a:z], '<f4').reshape(v['shape'])\n"
		"  y = np.load(d + '/npy/' + k + '.npy')\n"
		"  assert y.dtype == np.float32 and y.shape == x.shape and (x == y).all(), k\n"
		"  assert np.isfinite(x).all() and (k == '0.bias' or x.std() > 0), k\n";
	char command[600];

	if (system("/usr/bin/python3 -c 'import numpy' >/dev/null 2>&1") != 0)
		SKIP("there is no numpy (./setup --full installs it)");
	put_text("read.py", script);
	expect(thalweg(NULL, "export %s/net --to %s/py.safetensors", scratch(), scratch()), 0);
	expect(thalweg(NULL, "export %s/net --to %s/npy --format npy", scratch(), scratch()), 0);
	snprintf(command, sizeof command, "/usr/bin/python3 %s/read.py %s", scratch(), scratch());
	assert_int_equal(system(command), 0);
	/* and a file becomes npy too, over what is there */
	refuses(thalweg(NULL, "export %s/py.safetensors --to %s/npy --format npy", scratch(),
			scratch()),
		2, "--force");
	expect(thalweg(NULL, "export %s/py.safetensors --to %s/npy --format npy --force", scratch(),
		       scratch()),
	       0);
	assert_int_equal(system(command), 0);
}

/* --- inspect --- */

static void inspect_a_job(void **state)
{
	json_t *o = object("inspect @/net.yaml --plan --json");
	const json_t *layers = json_object_get(o, "layers"), *m = json_object_get(o, "memory"), *b;
	double sum = 0, end = 0, apart = 0;
	const struct said *s;
	size_t k;

	assert_string_equal(text_of(json_array_get(layers, 0), "text"),
			    "conv 4 5x5 stride 2x2 pad 2x2");
	assert_string_equal(text_of(json_array_get(layers, 0), "output"), "4x14x14");
	assert_true(number_of(json_array_get(layers, 0), "parameters") == 104);
	/* conv | batchnorm with its relu | maxpool | linear */
	assert_string_equal(text_of(json_array_get(layers, 0), "cut"), "1");
	assert_true(number_of(json_array_get(layers, 0), "crosses") == 4 * 14 * 14);
	assert_true(json_is_null(json_object_get(json_array_get(layers, 1), "cut")));
	assert_string_equal(text_of(json_array_get(layers, 3), "cut"), "4");
	assert_true(number_of(json_array_get(layers, 3), "crosses") == 4 * 7 * 7);
	json_array_foreach(layers, k, b) sum += number_of(b, "parameters");
	assert_true(sum == number_of(o, "parameters") && number_of(o, "buffers") == 8);
	assert_true(sum == 104 + 8 + 1970);
	assert_null(json_object_get(o, "stages"));
	json_array_foreach(json_object_get(o, "plan"), k, b)
	{
		const double to = number_of(b, "offset") + number_of(b, "bytes");

		end = to > end ? to : end;
		apart += number_of(b, "bytes");
		assert_true(number_of(b, "first") <= number_of(b, "last"));
	}
	assert_true(end == number_of(m, "arena_bytes"));
	assert_true(apart == number_of(m, "without_reuse_bytes"));
	assert_true(end < apart && end <= number_of(m, "scratch_bytes"));
	assert_true(json_array_size(json_object_get(o, "steps")) > 8);
	json_decref(o);
	s = thalweg(net, "inspect -");
	expect(s, 0);
	has(s->out, "conv 4 5x5 stride 2x2 pad 2x2");
	has(s->out, "batch of 20");
	assert_null(strstr(s->out, "offset"));
	has(thalweg(NULL, "inspect %s/net.yaml --plan", scratch())->out, "offset");
	has(thalweg(NULL, "inspect %s/bowl.yaml", scratch())->out, "quadratic");
	refuses(thalweg(NULL, "inspect %s/bowl.yaml --plan", scratch()), 2, "--plan");
	refuses(thalweg(NULL, "inspect %s/nowhere.yaml", scratch()), 2, "nowhere.yaml");
	refuses(thalweg(NULL, "inspect %s/net.yaml --set data.batch=0", scratch()), 2,
		"data.batch");
}

static void inspect_measures_layers(void **state)
{
	json_t *o = object("inspect @/net.yaml --measure --json");
	double layers = 0;
	const json_t *b;
	size_t k;

	json_array_foreach(json_object_get(o, "layers"), k, b) layers += number_of(b, "ms") / 1e3;
	assert_true(layers > 0);
	/* no more than three of its parts have parameters */
	assert_int_equal(json_array_size(json_object_get(o, "stages")), 2);
	json_array_foreach(json_object_get(o, "stages"), k, b)
	{
		const json_t *seconds = json_object_get(b, "seconds"), *v;
		double sum = 0, most = 0;
		size_t i;

		assert_true(number_of(b, "stages") == (double)k + 2);
		assert_int_equal(json_array_size(json_object_get(b, "borders")), k + 1);
		assert_int_equal(json_array_size(seconds), k + 2);
		json_array_foreach(seconds, i, v)
		{
			sum += json_number_value(v);
			most = json_number_value(v) > most ? json_number_value(v) : most;
		}
		assert_true(fabs(sum / layers - 1) < 1e-6);
		assert_true(fabs(number_of(b, "faster") - sum / most) < 1e-6);
	}
	json_decref(o);
	has(thalweg(NULL, "inspect %s/net.yaml --measure", scratch())->out, "model.stages");
	refuses(thalweg(NULL, "inspect %s/bowl.yaml --measure", scratch()), 2, "--measure");
	refuses(thalweg(NULL, "inspect %s/net --measure", scratch()), 2, "--measure");
}

static void inspect_a_checkpoint(void **state)
{
	json_t *o = object("inspect @/net --json");
	const json_t *t, *files = json_object_get(o, "files");
	const struct said *s;
	size_t k, bad = 0;

	assert_string_equal(text_of(o, "kind"), "checkpoint");
	assert_string_equal(text_of(o, "strategy"), "asgd");
	assert_string_equal(text_of(o, "isa"), text_of(trained, "isa"));
	assert_true(number_of(o, "epochs") == 2.0);
	assert_true(json_array_size(files) >= 2 &&
		    json_array_size(json_object_get(o, "tensors")) == 8);
	json_array_foreach(json_object_get(o, "tensors"), k, t)
	{
		bad += number_of(t, "not_finite") != 0;
		assert_true(number_of(t, "min") <= number_of(t, "mean"));
		assert_true(number_of(t, "mean") <= number_of(t, "max"));
	}
	assert_int_equal(bad, 0);
	json_decref(o);
	s = thalweg(NULL, "inspect %s/net", scratch());
	expect(s, 0);
	has(s->out, "1.running_mean");
	has(s->out, "parameters-0-");
	refuses(thalweg(NULL, "inspect %s/net --plan", scratch()), 2, "--plan");
	refuses(thalweg(NULL, "inspect %s/nowhere", scratch()), 2, "No such file");
	refuses(thalweg(NULL, "inspect %s", scratch()), 2, "neither");
}

/* Statistics of known numbers, one of them no number. */
static void inspect_a_file(void **state)
{
	static const char head[] =
		"{\"x\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
		"\"__metadata__\":{\"by\":\"hand\"}}";
	const float v[4] = { 1.0f, 3.0f, NAN, -4.0f };
	const uint64_t n = strlen(head);
	char path[300];
	const json_t *t;
	json_t *o;
	FILE *f;

	snprintf(path, sizeof path, "%s/hand.safetensors", scratch());
	f = fopen(path, "w");
	assert_non_null(f);
	fwrite(&n, 8, 1, f);
	fwrite(head, 1, n, f);
	fwrite(v, sizeof v, 1, f);
	fclose(f);
	o = object("inspect @/hand.safetensors --json");
	t = json_array_get(json_object_get(o, "tensors"), 0);
	assert_string_equal(text_of(json_object_get(o, "metadata"), "by"), "hand");
	assert_string_equal(text_of(t, "name"), "x");
	assert_true(number_of(t, "mean") == 0.0 && number_of(t, "not_finite") == 1);
	assert_true(number_of(t, "min") == -4.0 && number_of(t, "max") == 3.0);
	assert_true(fabs(number_of(t, "deviation") - sqrt(26.0 / 3.0)) < 1e-12);
	json_decref(o);
	assert_int_equal(truncate(path, 60), 0);
	refuses(thalweg(NULL, "inspect %s", path), 2, "hand.safetensors");
}

/* A checkpoint remembers where its job file was: paths in it begin there, not where we are. */
static void paths_of_a_job_begin_at_its_file(void **state)
{
	char rows[4000] = "a,b,value\n";
	json_t *r, *e;

	for (int k = 0; k < 100; k++)
		snprintf(rows + strlen(rows), sizeof rows - strlen(rows), "%d,%d,%d\n", k % 7,
			 k % 11, k % 7 - 2 * (k % 11));
	put_text("rows.csv", rows);
	put_text("rows.yaml", "model: {layers: [linear 1]}\nloss: mean-squared\n"
			      "data: {source: csv, file: rows.csv, task: values, batch: 5}\n"
			      "train: {epochs: 3}\nupdate: {rate: 0.05}\ncluster: {workers: 1}\n");
	r = object("sim @/rows.yaml --run @/rows --json");
	e = object("eval @/rows --predictions @/rows-out.csv --json");
	/* sums of three terms, whose sizes are at most 26 together */
	NEAR(number_of(e, "loss"), number_of(r, "loss"),
	     2 * sqrt(number_of(r, "loss")) * 26 * ORDERS(3));
	assert_true(json_is_null(json_object_get(e, "accuracy")));
	json_decref(r);
	json_decref(e);
	/* a value is named after its target */
	{
		char path[300], line[200];
		FILE *f;

		snprintf(path, sizeof path, "%s/rows-out.csv", scratch());
		f = fopen(path, "r");
		assert_non_null(f);
		assert_non_null(fgets(line, sizeof line, f));
		assert_string_equal(line, "row,predicted,truth\n");
		fclose(f);
	}
	refuses(thalweg(NULL, "data show %s/rows.yaml", scratch()), 2, "not images");
	refuses(thalweg(NULL, "eval %s/rows --set data.file=other.csv", scratch()), 2, "other.csv");
}

/* What `doctor` says of the optional tools if PATH is this folder only. */
static json_t *extras_with(const char *folder)
{
	struct running r;
	struct said s;
	char path[300];
	json_t *o, *extras;

	snprintf(path, sizeof path, "PATH=%s", folder);
	thalweg_begin(&r, path, "doctor --json");
	thalweg_end(&r, &s);
	expect(&s, 0);
	o = object_of(&s);
	extras = json_incref(json_object_get(o, "extras"));
	json_decref(o);
	said_free(&s);
	return extras;
}

static void the_doctor_looks_at_what_networks_need(void **state)
{
	json_t *o = object("doctor --json"), *with, *without;
	const json_t *libraries = json_object_get(o, "libraries");

	assert_true(strtod(text_of(libraries, "onednn"), NULL) >= 2.0);
	has(text_of(libraries, "onednn"), "will use ");
	text_of(libraries, "zlib");
	has(text_of(json_object_get(o, "extras"), "mnist"), "in the cache");
	json_decref(o);

	assert_int_equal(mkdir(path_of("tools"), 0755), 0);
	without = extras_with(path_of("tools"));
	has(text_of(without, "npm"), "not found; `thalweg data fetch` needs it");
	text_of(without, "pytorch"); /* python3 need not be in PATH */
	put_text("tools/npm", "#!/bin/sh\n");
	assert_int_equal(chmod(path_of("tools/npm"), 0755), 0);
	with = extras_with(path_of("tools"));
	assert_string_equal(text_of(with, "npm"), "there");
	json_decref(with);
	json_decref(without);
}

/* --- damage --- */

static void a_damaged_checkpoint_is_refused(void **state)
{
	char cut[300], path[400];
	const struct said *s;
	FILE *f;

	expect(thalweg(NULL, "sim %s/net.yaml --run %s/hurt", scratch(), scratch()), 0);
	snprintf(cut, sizeof cut, "%s/hurt%s", scratch(),
		 strrchr(text_of(trained, "checkpoint"), '/'));
	snprintf(path, sizeof path, "%s/master.safetensors", cut);
	f = fopen(path, "r+");
	assert_non_null(f);
	fseek(f, -1, SEEK_END);
	fputc('x', f);
	fclose(f);
	refuses(thalweg(NULL, "eval %s", cut), 2,
		"is damaged: master.safetensors does not match its hash");
	refuses(thalweg(NULL, "inspect %s", cut), 2, "is damaged");
	refuses(thalweg(NULL, "export %s --to %s/hurt.safetensors", cut, scratch()), 2,
		"is damaged");
	snprintf(path, sizeof path, "%s/hurt.safetensors", scratch());
	assert_int_not_equal(access(path, F_OK), 0);
	s = thalweg(NULL, "inspect %s/hurt --json", scratch());
	expect(s, 0);
	has(s->err, "using the one before it");
	json_decref(object_of(s));
}

/* --- data --- */

static void data_is_listed_and_checked(void **state)
{
	json_t *o = object("data list --json --cache @/cache"), *c;
	const json_t *list = json_object_get(o, "fetchable"), *n;
	double sum = 0;
	size_t k;

	assert_string_equal(text_of(json_array_get(list, 0), "name"), "mnist");
	assert_string_equal(text_of(json_array_get(list, 0), "state"), "absent");
	json_decref(o);
	has(thalweg(NULL, "data list")->out, "digits");
	c = object("data check @/net.yaml --json");
	assert_true(number_of(c, "train") == 300);
	assert_true(number_of(c, "classes") == 10);
	json_array_foreach(json_object_get(json_object_get(c, "occurrences"), "train"), k, n) sum +=
		json_number_value(n);
	assert_true(k == 10 && sum == 300);
	assert_int_equal(strlen(text_of(c, "fingerprint")), 64);
	json_decref(c);
	has(thalweg(NULL, "data check %s/net.yaml", scratch())->out, "fingerprint");
	has(thalweg(NULL, "data show %s/net.yaml --count 2", scratch())->out, "sample 1, label ");
	c = object("data show @/net.yaml --count 2 --json");
	assert_int_equal(json_array_size(json_object_get(c, "samples")), 2);
	json_decref(c);
}

/* Names, and what is probably not meant: checked and trained all the same. */
static void names_and_warnings_of_a_table(void **state)
{
	json_t *c;
	const struct said *s;

	put_text("odd.csv", "id,width,kind\n1,2.5,oak\n2,3.5,elm\n3,1.5,oak\n4,7,elm\n5,1,oak\n");
	put_text("odd.yaml", "data: {source: csv, file: odd.csv, batch: 1}\n"
			     "model: {layers: [linear 2]}\ntrain: {epochs: 1}\n"
			     "cluster: {workers: 1}\n");
	s = thalweg(NULL, "data check %s/odd.yaml", scratch());
	expect(s, 0);
	has(s->out, "\n  1   id                   identifier: not read\n  2   width    ");
	has(s->out, "\nclasses      elm, oak\n");
	has(s->out, "\nnote         odd.csv: column 1 (id) numbers or names the rows");
	c = object("data check @/odd.yaml --json");
	assert_string_equal(text_of(c, "label"), "kind");
	assert_int_equal(json_array_size(json_object_get(c, "columns")), 1);
	assert_int_equal(json_array_size(json_object_get(c, "types")), 2);
	assert_int_equal(json_array_size(json_object_get(c, "answers")), 2);
	assert_int_equal(json_array_size(json_object_get(c, "notes")), 2);
	assert_int_equal(json_array_size(json_object_get(c, "warnings")), 0);
	json_decref(c);
	s = thalweg(NULL, "train %s/odd.yaml --run %s/odd", scratch(), scratch());
	expect(s, 0);
	has(s->err, "data: odd.csv: column 1 (id) numbers or names the rows");
	/* where the network does not fit the data, one of the two is meant in another way */
	put_text("odd.yaml", "data: {source: csv, file: odd.csv, batch: 1}\n"
			     "model: {layers: [linear 3]}\n");
	s = thalweg(NULL, "train %s/odd.yaml --run %s/odd2", scratch(), scratch());
	refuses(s, 2, "end with 'linear 2'; or the data is not read as intended: predicts classes");
}

/* The job that is written trains, and so does one that names the data alone: the same. */
static void jobs_are_written_for_tables(void **state)
{
	char text[4000], *p = text;
	const struct said *s;

	p += sprintf(p, "id,colour,width,price\n");
	for (int i = 0; i < 80; i++)
		p += sprintf(p, "%d,%s,%s%d,%d.25\n", i + 1, i % 2 ? "red" : "blue",
			     i % 7 ? "" : "-", i, 100000 + 1000 * i);
	put_text("house.csv", text);
	s = thalweg(NULL, "init %s/house.csv --label price --quick", scratch());
	expect(s, 0);
	has(s->out, "note         predicts values, because column 4 (price) has decimals");
	has(s->out, "house.yaml; train it with: thalweg train ");
	refuses(thalweg(NULL, "init %s/house.csv", scratch()), 2, "exists already; --force");
	refuses(thalweg(NULL, "init %s/house.csv --label cost --force", scratch()), 2,
		"init: data.label: "); /* no line of a job that is not written */
	refuses(thalweg(NULL, "init %s/house.csv --label cost --force", scratch()), 2,
		"has no column 'cost'");
	refuses(thalweg(NULL, "init %s/house.txt", scratch()), 2, "is not the name of a table");
	refuses(thalweg(NULL, "train %s/house.csv", scratch()), 2, "thalweg init ");
	s = thalweg(NULL, "train %s/house.yaml --run %s/house -q --json", scratch(), scratch());
	expect(s, 0);
	snprintf(text, sizeof text, "%s", s->out);
	put_text("only.yaml", "data: {source: csv, file: house.csv, label: price}\n");
	s = thalweg(NULL, "train %s/only.yaml --run %s/only --json", scratch(), scratch());
	expect(s, 0);
	has(s->err, "names no model, and trains the usual one: mlp with adamw");
	p = strstr(text, "\"parameters_digest\"");
	assert_non_null(p);
	p[60] = 0;
	has(s->out, p);
	has(s->out, "\"kept\": {");
	has(s->out, "\"test\": {");
	/* losses are in the units of the price, however wrong they are */
	s = thalweg(NULL, "predict %s/house --data %s/house.csv", scratch(), scratch());
	expect(s, 0);
	has(s->out, "row,id,predicted,truth\n1,1,1");
}

/* Fewer rows than a usual batch has. */
static void a_job_for_a_few_rows(void **state)
{
	char text[400], *p = text;
	const struct said *s;

	p += sprintf(p, "a,b,y\n");
	for (int i = 0; i < 20; i++)
		p += sprintf(p, "%d,%d,%s\n", i + 1, i % 3, i % 2 ? "on" : "off");
	put_text("few.csv", text);
	put_text("usual.yaml", "data: {source: csv, file: few.csv, label: y}\n");
	expect(thalweg(NULL, "init %s/few.csv --label y", scratch()), 0);
	expect(thalweg(NULL, "train %s/few.yaml --run %s/few -q", scratch(), scratch()), 0);
	s = thalweg(NULL, "train %s/usual.yaml --run %s/usual", scratch(), scratch());
	expect(s, 0);
	has(s->err, "batch: 32 samples are more than the 14 training rows");
}

static void wrong_requests_about_data(void **state)
{
	refuses(thalweg(NULL, "data check mnist --cache %s/cache", scratch()), 2,
		"thalweg data fetch mnist");
	refuses(thalweg(NULL, "data fetch minst --cache %s/cache", scratch()), 2,
		"did you mean mnist?");
	refuses(thalweg(NULL, "data check %s/bowl.yaml", scratch()), 2, "generates its samples");
	refuses(thalweg(NULL, "data lsit"), 2, "did you mean list");
	refuses(thalweg(NULL, "data fetch"), 2, "thalweg data fetch NAME");
	refuses(thalweg(NULL, "data list mnist"), 2, "thalweg data list");
	refuses(thalweg(NULL, "data"), 2, "data needs WHAT");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(eval_gives_what_the_run_gave),
		cmocka_unit_test(eval_takes_any_set),
		cmocka_unit_test(eval_of_a_quadratic),
		cmocka_unit_test(predictions_are_a_table),
		cmocka_unit_test(another_model_is_refused),
		cmocka_unit_test(a_file_is_as_good_as_the_run),
		cmocka_unit_test(others_read_it),
		cmocka_unit_test(inspect_a_job),
		cmocka_unit_test(inspect_measures_layers),
		cmocka_unit_test(inspect_a_checkpoint),
		cmocka_unit_test(inspect_a_file),
		cmocka_unit_test(paths_of_a_job_begin_at_its_file),
		cmocka_unit_test(the_doctor_looks_at_what_networks_need),
		cmocka_unit_test(a_damaged_checkpoint_is_refused),
		cmocka_unit_test(data_is_listed_and_checked),
		cmocka_unit_test(names_and_warnings_of_a_table),
		cmocka_unit_test(jobs_are_written_for_tables),
		cmocka_unit_test(a_job_for_a_few_rows),
		cmocka_unit_test(wrong_requests_about_data),
	};

	return cmocka_run_group_tests(tests, train_all, forget_all);
}
