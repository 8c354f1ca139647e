/* SPDX-License-Identifier: Apache-2.0 */
/* test_series.c - series of unequal lengths as a user meets them: worlds that agree, stages, a
 * worker that is killed, rows to predict, exports, tied weights, and what is refused. */
#include "cli/spawn.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define USUAL ", file: s.csv, group: who, time: when, label: way"
#define BAD   ", file: bad.csv, group: who, time: when, label: way"
#define MODEL "{name: lstm-classifier, width: 5, layers: 2, both: true}"
#define WIDE                                                                                       \
	"{layers: [series 2, linear 6, residual: [layernorm, linear 18, rotary 1, attention 1 "    \
	"none, linear 6], conv1d 6 3 pad 1, gru 4, summary max, linear 2]}"
#define TAIL "train: {epochs: 3, seed: 3}\nupdate: {rule: adam, rate: 0.01}\n"

/* 60 series of 1 to 8 rows, in no order: one up, one down. */
static void put_series(const char *name, unsigned seed)
{
	char text[60 * 8 * 40] = "when,who,a,way,b\n";
	size_t n = strlen(text);

	for (unsigned k = 0; k < 60 * 8; k++) {
		const unsigned g = k * 7 % 60, t = (k / 60 + g) % 8, rows = 1 + (g * 5 + seed) % 8;
		const int way = g % 2 ? 1 : -1;

		if (t < rows)
			n += (size_t)snprintf(text + n, sizeof text - n, "%u,s%u,%d.%u,%s,%u\n",
					      10 * t, g, way, (g * t + seed) % 10,
					      way > 0 ? "up" : "down", 100 + (g + t) % 9);
	}
	put(name, text, n);
}

static int setup(void **state)
{
	if (scratch_make(state) != 0)
		return -1;
	put_series("s.csv", 1);
	put_series("more.csv", 4);
	return 0;
}

static char *job_of(const char *data, const char *model, const char *rest)
{
	char text[1200];

	snprintf(text, sizeof text, "data: {source: csv, batch: 10%s%s}\nmodel: %s\n" TAIL "%s",
		 strstr(data, "file:") ? "" : USUAL, data, model, rest);
	return strdup(put_job(text));
}

static void all_worlds_agree(void **state)
{
	static const char *const models[] = { MODEL, WIDE };

	for (size_t k = 0; k < 2; k++) {
		char *file =
			job_of("", models[k],
			       "cluster: {workers: 2, servers: 2, shards: 3}\nstrategy: ssgd\n");
		char name[20], *dir, *wanted;

		snprintf(name, sizeof name, "run%zu", k);
		dir = path_kept(name);
		wanted = digest_after("train %s --run %s", file, dir);
		same_digest(strdup(wanted),
			    digest_after("train %s --processes --run %s-p", file, dir));
		same_digest(strdup(wanted), digest_after("sim %s --run %s-s", file, dir));
		same_digest(wanted, digest_after("eval %s%s", dir, ""));
		free(dir);
		free(file);
	}
}

/* The lengths cross every cut. */
static void stages_are_one_worker_that_accumulates(void **state)
{
	static const char *const stages[] = { "[3]", "[2, 5]" };
	char *file = job_of(", accumulate: 2", WIDE, "cluster: {workers: 1}\nstrategy: ssgd\n");
	char *wanted = digest_after("train %s --run %s", file, path_of("whole"));

	free(file);
	for (size_t k = 0; k < 2; k++) {
		char model[400], rest[100], name[20];

		snprintf(model, sizeof model, "%.*s, stages: %s}", (int)strlen(WIDE) - 1, WIDE,
			 stages[k]);
		snprintf(rest, sizeof rest, "cluster: {workers: 1, stages: %zu}\nstrategy: gpipe\n",
			 k + 2);
		snprintf(name, sizeof name, "stages-%zu", k);
		file = job_of(", accumulate: 2", model, rest);
		same_digest(strdup(wanted), digest_after("sim %s --run %s", file, path_of(name)));
		strcat(name, "t");
		same_digest(strdup(wanted), digest_after("train %s --run %s", file, path_of(name)));
		free(file);
	}
	free(wanted);
}

/* Workers that leave without a word, in rounds: what is left ends with the same parameters in every
 * run. */
static void killed_workers_are_outlived(void **state)
{
	char *file = job_of("", WIDE,
			    "cluster: {workers: 4}\nstrategy: ssgd\n"
			    "sim: {faults: [{crash: worker 1, at: 100ms}, {crash: worker 2, at: "
			    "200ms, restart: 100ms}]}\n");
	char *wanted = digest_after("sim %s --run %s", file, path_of("killed"));

	same_digest(wanted, digest_after("sim %s --run %s", file, path_of("killed-again")));
	has(thalweg(NULL, "sim %s", file)->out, "3 epochs");
	free(file);
}

/* Rows come as the data has them, of series in their order; what is unknown is handed on. */
static void rows_are_predicted_by_series(void **state)
{
	static const char bare[] = "b,a,who,when\n101,1.0,x,20\n100,1.5,x,10\n";
	const struct said *s =
		thalweg(NULL, "predict %s --data %s --to -", path_of("run0"), path_of("more.csv"));
	char *first;

	expect(s, 0);
	has(s->out, "row,who,predicted,truth,probability,p_down,p_up\n1,s0,");
	has(s->out, "\n60,s");
	first = strdup(s->out);
	/* rows without a label, in another order of columns */
	put("bare.csv", bare, strlen(bare));
	s = thalweg(NULL, "predict %s --data %s --to -", path_of("run0"), path_of("bare.csv"));
	expect(s, 0);
	has(s->out, "row,who,predicted,");
	has(s->out, "\n1,x,");
	free(first);
	expect(thalweg(NULL, "eval %s --data %s", path_of("run0"), path_of("more.csv")), 0);
	has(thalweg(NULL, "eval %s --data %s", path_of("run0"), path_of("more.csv"))->out,
	    "samples      60");
}

static void exports_have_it(void **state)
{
	char command[700];

	has(thalweg(NULL, "export %s --standalone --to %s", path_of("run0"),
		    path_of("n.safetensors"))
		    ->out,
	    "LSTM(10, 5, batch_first=True, bidirectional=True)");
	expect(thalweg(NULL, "export %s --to %s -q", path_of("run0"), path_of("n.c")), 0);
	snprintf(command, sizeof command, "export %s --to %s", path_of("run1"), path_of("m.c"));
	thalweg_refuses(NULL, "has no C source", command);
	snprintf(command, sizeof command, "generate %s", path_of("run0"));
	thalweg_refuses(NULL, "predicts classes, not the next token", command);
}

/* --- tied weights ----------------------------------------------------------------------------- */

#define TEXT "data: {source: text, file: s.csv, length: 12, batch: 10, test: 0.2%s}\n"
#define TIED "model: {name: gpt, layers: 1, heads: 2, width: 16, tied: true%s}\n"

static char *tied_job(const char *data, const char *model, const char *rest)
{
	char text[800];

	snprintf(text, sizeof text, TEXT TIED TAIL "%s", data, model, rest);
	return strdup(put_job(text));
}

static void tied_weights_are_one_tensor(void **state)
{
	char *file =
		tied_job("", "", "cluster: {workers: 2, servers: 2, shards: 3}\nstrategy: ssgd\n");
	char *dir = path_kept("tied"), *wanted = digest_after("train %s --run %s", file, dir);

	same_digest(strdup(wanted), digest_after("train %s --processes --run %s-p", file, dir));
	same_digest(wanted, digest_after("sim %s --run %s-s", file, dir));
	/* 256 rows of 16 once, 12 places, one block, the last norm: no second table, no bias */
	has(thalweg(NULL, "train %s --run %s-3", file, dir)->out, "7600 parameters");
	has(thalweg(NULL, "export %s --standalone --to %s", dir, path_of("t.safetensors"))->out,
	    "net.get_submodule(\"5\").to = [net.get_submodule(\"0\")]");
	free(dir);
	free(file);
	file = tied_job(", accumulate: 2", ", stages: [3]",
			"cluster: {workers: 1, stages: 2}\nstrategy: gpipe\n");
	expect(thalweg(NULL, "sim %s", file), 2);
	has(thalweg(NULL, "sim %s", file)->err, "which can be cut in 0 places");
	free(file);
	file = tied_job("", ", freeze: [5]", "cluster: {workers: 1}\n");
	has(thalweg(NULL, "train %s", file)->err,
	    "the weight of layer 5 is that of layer 0 (tied); name layer 0");
	free(file);
	file = tied_job("", ", freeze: [0]", "cluster: {workers: 1}\n");
	expect(thalweg(NULL, "train %s -q --run %s", file, path_of("frozen")), 0);
	free(file);
}

/* --- refusals --------------------------------------------------------------------------------- */

static void refused(const char *data, const char *model, const char *why)
{
	char *file = job_of(data, model, "cluster: {workers: 1}\n"), command[700];

	snprintf(command, sizeof command, "train %s --run %s", file, path_of("never"));
	thalweg_refuses(NULL, why, command);
	free(file);
}

static void networks_that_do_not_fit_are_refused(void **state)
{
	refused("", "{layers: [series 3, summary, linear 2]}",
		"layer 1 of 3, 'series 3': needs a length and then positions of 3 features");
	refused("", "{layers: [series 4, summary, linear 2]}",
		"the series of the data have 2 features; write series 2");
	refused("", "{layers: [linear 4, series 2, summary, linear 2]}",
		"so it must be the first layer");
	refused("", "{layers: [lstm 4, summary, linear 2]}", "needs a sequence, not 17");
	refused("", "{layers: [summary, linear 2]}", "needs a sequence, not 17");
	refused("", "{layers: [series 2, summary first, linear 2]}", "'first'");
	refused("", "{layers: [series 2, lstm 4 backward, summary, linear 2]}", "'backward'");
	refused("", "{layers: [series 2, attention 1, summary, linear 2]}",
		"so a multiple of 3 features, not 2");
	refused("", "{layers: [series 2, linear 9, rotary 2, attention 1, summary, linear 2]}",
		"needs a multiple of 12 features, not 9");
	refused("", "{layers: [series 2, linear 9, swiglu, summary, linear 2]}",
		"multiplies the halves of its features, and 9 are odd");
	refused("", "{layers: [series 2, conv1d 4 9, summary, linear 2]}",
		"9 neighbours do not fit into 8 positions with pad 0");
	refused("", "{layers: [series 2, conv1d 4 3 pad 3, summary, linear 2]}",
		"pad 3 is not below the size 3");
	refused("", "{layers: [series 2, conv1d 4 3, summary, linear 2]}",
		"makes 6 positions of 8, but the series have lengths of their own");
	refused("", "{layers: [series 2, conv1d 4 3 pad 1 stride 2, summary, linear 2]}",
		"makes 4 positions of 8");
	refused("", "{layers: [series 2, batchnorm, summary, linear 2]}", "takes no sequence");
	refused("", "{layers: [series 2, linear 2 bias false tied true, summary, linear 2]}",
		"is tied to the embedding that the network begins with, and there is none");
	refused("", "{layers: [series 2, linear 2 tied true, summary, linear 2]}",
		"write bias false");
	refused("", "{layers: [series 2, sinusoidal, conv1d 4 3 pad 1]}",
		"needs one output for each of 2 classes, but layer 3 of 3");
	refused("", "char-lstm", "the data has no tokens");
	refused("", "{layers: [bilstm 4, linear 2]}", "instead use `lstm 64 both`");
}

static void data_that_is_none_is_refused(void **state)
{
	static const char *const one = "when,who,a,b,way\n";
	char text[300];

	refused(", file: s.csv, group: who", MODEL, "needs both group and time");
	refused(", file: s.csv, group: whom, time: when", MODEL,
		"group: s.csv has no column 'whom'");
	refused(", file: s.csv, group: who, time: who", MODEL, "must be three columns");
	refused(", file: s.csv, group: who, time: when, label: who", MODEL,
		"must be three columns");
	refused(", file: s.csv, group: who, time: when, label: [a, b]", MODEL,
		"a series has one label");
	refused(", drop: [c]", MODEL, "drop: s.csv has no column 'c'");
	refused(", drop: [a, b]", MODEL, "there is nothing to learn from");
	refused(", drop: [a]", WIDE, "the series of the data have 1 features; write series 1");
	refused(", columns: [a]", MODEL, "columns: is of tables whose rows are samples");
	refused(", weight: a", MODEL, "weight: is of tables whose rows are samples");
	refused(", hold: {by: time, column: when}", MODEL, "hold.by: is of tables");
	refused(", positions: 5", MODEL, "has 8 rows, and data.positions allows at most 5");
	refused(USUAL ", test_file: more.csv", MODEL, "positions: must be given beside test_file");
	refused(", noise: 0.1", MODEL, "begin with their lengths, which noise would change");
	snprintf(text, sizeof text, "%s1,x,1,2,up\n1,x,2,2,up\n", one);
	put("bad.csv", text, strlen(text));
	refused(BAD, MODEL,
		"bad.csv:3: column when: '1' is the time of another row of this series");
	snprintf(text, sizeof text, "%s1,x,1,2,up\n2,x,2,2,down\n", one);
	put("bad.csv", text, strlen(text));
	refused(BAD, MODEL, "bad.csv:3: column way: 'down' is another label");
	snprintf(text, sizeof text, "%s1,x,1,,up\n", one);
	put("bad.csv", text, strlen(text));
	refused(BAD, MODEL, "bad.csv:2: column b: '' is no finite number");
	snprintf(text, sizeof text, "%s1,,1,2,up\n", one);
	put("bad.csv", text, strlen(text));
	refused(BAD, MODEL, "names no series");
	snprintf(text, sizeof text, "%s1,x,1,2\n", one);
	put("bad.csv", text, strlen(text));
	refused(BAD, MODEL, "bad.csv:2: has 4 columns, but the first row has 5");
	put("bad.csv", one, strlen(one));
	refused(BAD, MODEL, "has no rows behind its names");
}

static void rows_that_are_none_are_refused(void **state)
{
	char text[400] = "who,when,a,b\n", command[700];
	size_t n = strlen(text);

	for (unsigned t = 0; t < 9; t++)
		n += (size_t)snprintf(text + n, sizeof text - n, "x,%u,1,2\n", t);
	put("long.csv", text, n);
	snprintf(command, sizeof command, "predict %s --data %s", path_of("run0"),
		 path_of("long.csv"));
	thalweg_refuses(NULL, "series 'x' has 9 rows, and the model takes at most 8", command);
	put("long.csv", "who,when,a\nx,1,2\n", strlen("who,when,a\nx,1,2\n"));
	thalweg_refuses(NULL, "data: ", command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_worlds_agree),
		cmocka_unit_test(stages_are_one_worker_that_accumulates),
		cmocka_unit_test(killed_workers_are_outlived),
		cmocka_unit_test(rows_are_predicted_by_series),
		cmocka_unit_test(exports_have_it),
		cmocka_unit_test(tied_weights_are_one_tensor),
		cmocka_unit_test(networks_that_do_not_fit_are_refused),
		cmocka_unit_test(data_that_is_none_is_refused),
		cmocka_unit_test(rows_that_are_none_are_refused),
	};

	return cmocka_run_group_tests(tests, setup, scratch_remove);
}
