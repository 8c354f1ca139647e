/* SPDX-License-Identifier: Apache-2.0 */
/* test_text.c - a small gpt on a text as a user meets it: worlds that agree, stages, figures,
 * exported files, generated text, and what is refused. */
#include "cli/spawn.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define GPT  "model: {name: gpt, layers: 2, heads: 2, width: 16}\n"
#define DATA "data: {source: text, file: novel.txt, length: 12, batch: 10, test: 0.2"
#define TAIL                                                                                       \
	"train: {epochs: 2, seed: 3}\n"                                                            \
	"update: {rule: adam, rate: 0.01}\n"

static const char job[] = DATA "}\n" GPT TAIL "cluster: {workers: 2, servers: 2, shards: 3}\n"
			       "strategy: ssgd\n";

/* 200 samples and a byte. */
static int setup(void **state)
{
	char novel[200 * 12 + 1];

	if (scratch_make(state) != 0)
		return -1;
	for (size_t k = 0; k < sizeof novel; k++)
		novel[k] = "the whale and the sea; a ship.\n"[(k + k / 97) % 31];
	put("novel.txt", novel, sizeof novel);
	put("other.txt", novel + 5, 12 * 20 + 1);
	return 0;
}

static void all_worlds_and_files_agree(void **state)
{
	char *file = strdup(put_job(job)), *dir = path_kept("run"),
	     *safe = path_kept("m.safetensors");
	char *wanted = digest_after("train %s --run %s", file, dir);

	same_digest(strdup(wanted), digest_after("train %s --processes --run %s-2", file, dir));
	same_digest(strdup(wanted), digest_after("sim %s --run %s-3", file, dir));
	same_digest(strdup(wanted), digest_after("eval %s%s", dir, ""));
	expect(thalweg(NULL, "export %s --to %s -q", dir, safe), 0);
	same_digest(wanted, digest_after("eval %s --job %s", safe, file));
	free(safe);
	free(dir);
	free(file);
}

/* Wherever it is cut, inside a residual too, it is one worker that accumulates. */
static void stages_are_one_worker_that_accumulates(void **state)
{
	static const char *const stages[] = { "[3]", "[3, 5]", "[3.2, 4.3]" };
	char *file = strdup(put_job(DATA ", accumulate: 4}\n" GPT TAIL
					 "cluster: {workers: 1}\nstrategy: ssgd\n"));
	char *wanted = digest_after("train %s --run %s", file, path_of("whole")), text[600];

	free(file);
	for (size_t k = 0; k < sizeof stages / sizeof stages[0]; k++) {
		snprintf(text, sizeof text,
			 DATA
			 ", accumulate: 4}\n"
			 "model: {name: gpt, layers: 2, heads: 2, width: 16, stages: %s}\n" TAIL
			 "cluster: {workers: 1, stages: %d}\nstrategy: gpipe\n",
			 stages[k], k ? 3 : 2);
		file = strdup(put_job(text));
		snprintf(text, sizeof text, "stages-%zu", k);
		same_digest(strdup(wanted), digest_after("sim %s --run %s", file, path_of(text)));
		strcat(text, "-t");
		same_digest(strdup(wanted), digest_after("train %s --run %s", file, path_of(text)));
		free(file);
	}
	free(wanted);
}

static double number(const json_t *o, const char *name)
{
	const json_t *v = json_object_get(o, name);

	if (!json_is_number(v))
		fail_msg("no number %s", name);
	return json_number_value(v);
}

static void figures_are_of_tokens(void **state)
{
	const struct said *s = thalweg(NULL, "eval %s --json", path_of("run"));
	json_t *o;

	expect(s, 0);
	o = object_of(s);
	assert_int_equal(number(o, "tokens"), 40 * 12);
	assert_int_equal(number(o, "samples"), 40);
	/* two ways to the same number: the loss of the network, and its outputs in doubles */
	assert_true(fabs(number(o, "nats") - number(o, "loss")) < 1e-6 * number(o, "loss"));
	assert_true(fabs(number(o, "bits_per_byte") * log(2) - number(o, "nats")) < 1e-12);
	assert_true(fabs(log(number(o, "perplexity")) - number(o, "nats")) < 1e-12);
	assert_true(number(o, "nats") < log(256) && number(o, "accuracy") > 0.05);
	assert_null(json_object_get(o, "classes"));
	json_decref(o);
	s = thalweg(NULL, "eval %s", path_of("run"));
	has(s->out, "bits/byte");
	has(s->out, "perplexity");
	s = thalweg(NULL, "eval %s --set data.test_file=other.txt", path_of("run"));
	expect(s, 0);
	has(s->out, "20 of the test set");
	s = thalweg(NULL, "data check %s", put_job(job));
	has(s->out, "the next of 256 tokens, at each position");
	has(s->out, "the first 160 samples of 12 tokens train, the last 40 test");
	has(thalweg(NULL, "inspect %s", put_job(job))->out, "attention 2 causal");
	has(thalweg(NULL, "inspect %s", path_of("run"))->out, "normalised: none");
	expect(thalweg(NULL, "plan %s", put_job(job)), 0);
}

/* What was generated; the caller's to free. */
static char *generated(const char *more)
{
	const struct said *s =
		thalweg(NULL, "generate %s --prompt whale --length 40 %s", path_of("run"), more);

	expect(s, 0);
	return strdup(s->out);
}

static void generated_text_is_the_seeds(void **state)
{
	char *text = generated("--seed 5"), *again = generated("--seed 5");
	char *other = generated("--seed 6"), *likely = generated("--temperature 0 --seed 5");
	char *one = generated("--top-k 1 --seed 9 --temperature 2");

	assert_int_equal(strlen(text), 5 + 40 + (text[44] != '\n'));
	assert_memory_equal(text, "whale", 5);
	assert_string_equal(text, again);
	assert_string_not_equal(text, other);
	assert_string_equal(likely, one); /* the likeliest, however hot */
	expect(thalweg(NULL, "generate %s --prompt whale --length 40 --seed 5",
		       path_of("m.safetensors")),
	       0);
	assert_string_equal(thalweg(NULL, "generate %s --prompt whale --length 40 --seed 5",
				    path_of("m.safetensors"))
				    ->out,
			    text);
	free(text);
	free(again);
	free(other);
	free(likely);
	free(one);
}

/* A text that has no room is no text. */
static void a_full_standard_output_is_said(void **state)
{
	char command[1200], *err = path_kept("full-err"), said[400] = "";
	FILE *f;
	int code;

	snprintf(command, sizeof command,
		 "%s/thalweg generate %s --prompt a --length 20 >/dev/full 2>%s",
		 getenv("TW_BUILD"), path_of("run"), err);
	code = system(command);
	assert_true(WIFEXITED(code));
	assert_int_equal(WEXITSTATUS(code), 1);
	f = fopen(err, "r");
	assert_true(f && fread(said, 1, sizeof said - 1, f) > 0);
	has(said, "the result cannot be written: No space left on device");
	fclose(f);
	free(err);
}

/* It learns the text by heart, and tells it. */
static void recurrent_networks_generate(void **state)
{
	static const char line[] = "the cat sat on a mat; ";
	const struct said *s;
	char song[30 * (sizeof line - 1)];

	for (size_t k = 0; k < sizeof song; k++)
		song[k] = line[k % (sizeof line - 1)];
	put("song.txt", song, sizeof song);
	s = thalweg(
		NULL, "train %s --run %s -q",
		put_job("data: {source: text, file: song.txt, length: 20, batch: 8, test: 0.2}\n"
			"model: {name: char-lstm, layers: 2, width: 24}\n"
			"train: {epochs: 300, seed: 3}\nupdate: {rule: adam, rate: 0.01}\n"
			"cluster: {workers: 1}\n"),
		path_of("song"));
	expect(s, 0);
	s = thalweg(NULL, "generate %s --prompt the --length 40 --temperature 0", path_of("song"));
	expect(s, 0);
	assert_string_equal(s->out, "the cat sat on a mat; the cat sat on a mat;\n");
}

/* The line with the largest number, of so many lines. */
static int likeliest(const char *text, int lines)
{
	double most = -INFINITY;
	int best = -1, n = 0;

	for (char *end; *text; text = end + 1, n++) {
		const double y = strtod(text, &end);

		assert_int_equal(*end, '\n');
		if (y > most) {
			most = y;
			best = n;
		}
	}
	assert_int_equal(n, lines);
	return best;
}

/* Tokens in 16 bits: other files, other prompts, the same network. */
static void tokens_are_numbers(void **state)
{
	uint16_t token[200 * 12 + 1];
	const struct said *s;

	for (size_t k = 0; k < sizeof token / sizeof token[0]; k++)
		token[k] = (uint16_t)(k % 7 * 50);
	put("tokens.bin", token, sizeof token);
	s = thalweg(NULL, "train %s --run %s -q",
		    put_job("data: {source: tokens, file: tokens.bin, vocabulary: 301, length: 12, "
			    "batch: 10}\nmodel: {name: gpt, layers: 1, heads: 2, width: 16}\n"
			    "train: {epochs: 8, seed: 3}\nupdate: {rule: adam, rate: 0.02}\n"
			    "cluster: {workers: 1}\n"),
		    path_of("tokens"));
	expect(s, 0);
	has(thalweg(NULL, "eval %s", path_of("tokens"))->out, "bits/token");
	s = thalweg(NULL, "generate %s --prompt 0_50_100 --length 3", path_of("tokens"));
	assert_int_equal(s->code, 2);
	has(s->err, "'0_50_100' is no number");
	s = thalweg(NULL, "generate %s --prompt 1+2", path_of("tokens"));
	assert_int_equal(s->code, 2);
	has(s->err, "'1+2' is no number");
	s = thalweg(NULL, "generate %s --length 3", path_of("tokens"));
	assert_int_equal(s->code, 2);
	has(s->err, "--prompt: must be given for a network of tokens");
	s = thalweg(NULL, "generate %s --prompt 301", path_of("tokens"));
	has(s->err, "301 is no token; the vocabulary has 301, from 0 to 300");
	s = thalweg(NULL, "generate %s --prompt 150 --length 3 --temperature 0", path_of("tokens"));
	expect(s, 0);
	assert_string_equal(s->out, "150 200 250 300\n"); /* it has learned to count */
	s = thalweg(NULL, "generate %s --prompt 150 --logits", path_of("tokens"));
	expect(s, 0);
	assert_int_equal(likeliest(s->out, 301), 200);
}

static void refused(const char *model, const char *data, const char *why)
{
	char text[700], command[700];

	snprintf(text, sizeof text,
		 "data: {source: text, file: novel.txt, batch: 10%s%s}\nmodel: %s\n" TAIL,
		 strstr(data, "length") ? "" : ", length: 12", data, model);
	snprintf(command, sizeof command, "inspect %s", put_job(text));
	thalweg_refuses(NULL, why, command);
}

static void networks_that_do_not_fit_are_refused(void **state)
{
	refused("{layers: [linear 256]}", "", "needs a prediction for each of 12 positions");
	refused("{layers: [embedding 256 8, linear 100]}", "",
		"needs 256 outputs at each position");
	refused("{layers: [embedding 50 30, linear 256]}", "",
		"layer 1 of 2, 'embedding 50 30': the data has 256 tokens; write embedding 256 30");
	refused("{layers: [embedding 255 8, linear 256]}", "", "write embedding 256 8");
	refused("{layers: [embedding 256 8, flatten, linear 256]}", "",
		"use no flatten, and end with 'linear 256'");
	refused("{layers: [linear 8, embedding 256 8, linear 256]}", "",
		"so it must be the first layer");
	refused("{layers: [embedding 256 8, attention 4, linear 256]}", "",
		"so a multiple of 12 features, not 8");
	refused("{layers: [embedding 256 8, conv 4 3x3, linear 256]}", "",
		"takes no sequence, but gets 12 positions of 8 features");
	refused("{layers: [embedding 256 8, batchnorm, linear 256]}", "", "takes no sequence");
	refused("{layers: [embedding 256 8, softmax, linear 256]}", "",
		"leave it out where each position is predicted, as of a text");
	refused("{layers: [positions, linear 256]}", "", "needs a sequence, not 12");
	refused("{layers: [embedding 256 8 init he, linear 256]}", "",
		"always draws its weights with the deviation 0.02");
	refused("{layers: [embedding 256 8, residual: [linear 9], linear 256]}", "",
		"give it shortcut: [linear 9]");
	refused("{layers: [transformer, linear 256]}", "", "instead use `attention 4`");
	refused("{name: gpt, heads: 5}", "", "heads: 5 do not divide the width 128");
	refused("{name: gpt, layers: [linear 3]}", "", "cannot be combined with model.name");
	refused("{name: mlp, layers: 3}", "", "is no option of this network");
	refused("mlp\nloss: binary-cross-entropy", "", "does not take a label for each position");
	refused("gpt", ", predict: input", "the next tokens are predicted; leave this out");
	refused("gpt", ", normalise: unit", "never normalised; leave this out");
	refused("gpt", ", noise: 0.1", "the samples of text are tokens");
	refused("gpt", ", flip: true", "needs images");
	refused("gpt", ", class_weights: balanced", "a sample of text has many labels");
	refused("gpt", ", samples: 10", "a text is trained on whole");
	refused("gpt", ", fold: 1/3", "has no folds");
	refused("gpt", ", length: 0", "1 to 65536");
	refused("gpt", ", length: 1200, test: 0.9", "hold out all of 2 samples");
	refused("gpt", ", length: 2401", "the one after it need 2402 tokens");
}

/* That its parts lie together is no reason why a layer does not fit. */
static void a_layer_that_does_not_fit_is_no_doubt_about_the_text(void **state)
{
	const struct said *s = thalweg(
		NULL, "inspect %s",
		put_job(DATA
			"}\nmodel: {layers: [embedding 256 8, batchnorm, linear 256]}\n" TAIL));

	assert_int_equal(s->code, 2);
	has(s->err, "layer 2 of 3, 'batchnorm'");
	assert_null(strstr(s->err, "not read as intended"));
	assert_null(strstr(s->err, "lie together"));
}

/* Numbers of a table are ones of a vocabulary only as they are. */
static void numbers_that_are_normalised_are_refused(void **state)
{
	static const char *const rows = "a,b,label\n0,2,x\n1,1,y\n2,0,x\n1,2,y\n0,0,x\n2,1,y\n";
	static const char *const table =
		"data: {source: csv, file: rows.csv, batch: 2, test: 0.4%s}\n"
		"model: {layers: [embedding 3 4, flatten, linear 2]}\n"
		"train: {epochs: 1}\ncluster: {workers: 1}\n";
	char text[300], command[700];

	put("rows.csv", rows, strlen(rows));
	snprintf(text, sizeof text, table, "");
	snprintf(command, sizeof command, "inspect %s", put_job(text));
	thalweg_refuses(NULL,
			"data.normalise: embedding reads whole numbers, and data.normalise is "
			"standard; set data.normalise: none",
			command);
	snprintf(text, sizeof text, table, ", normalise: unit");
	snprintf(command, sizeof command, "train %s", put_job(text));
	thalweg_refuses(NULL, "data.normalise is unit; set", command);
	snprintf(text, sizeof text, table, ", normalise: none");
	expect(thalweg(NULL, "train %s -q --run %s", put_job(text), path_of("numbers")), 0);
}

static void what_needs_rows_is_refused(void **state)
{
	char command[700];

	snprintf(command, sizeof command, "predict %s --data %s", path_of("run"),
		 path_of("novel.txt"));
	thalweg_refuses(NULL, "takes no rows; use thalweg generate", command);
	snprintf(command, sizeof command, "eval %s --data %s", path_of("run"),
		 path_of("novel.txt"));
	thalweg_refuses(NULL, "takes no rows; use thalweg generate", command);
	snprintf(command, sizeof command, "eval %s --worst 3", path_of("run"));
	thalweg_refuses(NULL, "--worst: the network predicts a token", command);
	snprintf(command, sizeof command, "export %s --to %s", path_of("run"), path_of("m.c"));
	thalweg_refuses(NULL, "has no C source", command);
	snprintf(command, sizeof command, "generate %s --top-k -1", path_of("run"));
	thalweg_refuses(NULL, "top-k", command);
}

static void networks_that_cannot_generate_are_refused(void **state)
{
	char command[700];

	expect(thalweg(NULL, "train %s --run %s -q",
		       put_job(DATA "}\nmodel: {layers: [embedding 256 9, attention 1 none, "
				    "linear 256]}\n" TAIL),
		       path_of("sees-all")),
	       0);
	snprintf(command, sizeof command, "generate %s --prompt a", path_of("sees-all"));
	thalweg_refuses(NULL, "looks at tokens behind the one it predicts", command);
	expect(thalweg(NULL, "train %s --run %s -q",
		       put_job("data: {source: digits, count: 40, tests: 10, batch: 10}\n"
			       "model: {layers: [linear 10]}\ntrain: {epochs: 1}\n"),
		       path_of("digits")),
	       0);
	snprintf(command, sizeof command, "generate %s", path_of("digits"));
	thalweg_refuses(NULL, "predicts classes, not the next token", command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_worlds_and_files_agree),
		cmocka_unit_test(stages_are_one_worker_that_accumulates),
		cmocka_unit_test(figures_are_of_tokens),
		cmocka_unit_test(generated_text_is_the_seeds),
		cmocka_unit_test(a_full_standard_output_is_said),
		cmocka_unit_test(recurrent_networks_generate),
		cmocka_unit_test(tokens_are_numbers),
		cmocka_unit_test(networks_that_do_not_fit_are_refused),
		cmocka_unit_test(a_layer_that_does_not_fit_is_no_doubt_about_the_text),
		cmocka_unit_test(numbers_that_are_normalised_are_refused),
		cmocka_unit_test(what_needs_rows_is_refused),
		cmocka_unit_test(networks_that_cannot_generate_are_refused),
	};

	return cmocka_run_group_tests(tests, setup, scratch_remove);
}
