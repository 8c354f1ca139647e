/* SPDX-License-Identifier: Apache-2.0 */
/* test_predict.c - what was trained can be used: predict, eval on other rows and standalone exports
 * agree with each other and with what the training did, and say what is wrong with their input. */
#include "cli/spawn.h"
#include "checkpoint/digest.h"

#include <glob.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define REST                                                                                       \
	"train: {epochs: 20}\nupdate: {rate: 0.05}\ncluster: {workers: 1}\n"                       \
	"sim: {compute: {law: constant, mean: 10ms}}\n"

/* One sentence on stderr, nothing on stdout. */
static void refuses(const struct said *s, const char *sentence)
{
	expect(s, 2);
	assert_string_equal(s->out, "");
	has(s->err, sentence);
	assert_ptr_equal(strchr(s->err, '\n'), s->err + strlen(s->err) - 1);
}

/* Run words in which @ stands for the scratch directory. */
static const struct said *run(const char *input, const char *words)
{
	char line[2000];
	size_t at = 0;

	for (; *words; words++)
		at += (size_t)(*words == '@'
				       ? snprintf(line + at, sizeof line - at, "%s", scratch())
				       : snprintf(line + at, sizeof line - at, "%c", *words));
	return thalweg(input, "%s", line);
}

/* What it prints; the caller's to free. */
static char *prints(const char *words)
{
	const struct said *s = run(NULL, words);

	expect(s, 0);
	return strdup(s->out);
}

static void same(const char *one, const char *other)
{
	char *a = prints(one), *b = prints(other);

	assert_string_equal(a, b);
	free(a);
	free(b);
}

static double eval_of(const char *words, const char *figure)
{
	const struct said *s = run(NULL, words);
	json_t *o;
	double v;

	expect(s, 0);
	o = object_of(s);
	v = number_of(o, figure);
	json_decref(o);
	return v;
}

/* --- data: three kinds of flowers, whose values say which they are --- */

static double draw(unsigned *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return (double)(*seed >> 8) / (double)(1 << 24) - 0.5;
}

struct flower {
	double a, b, c;
	int kind;
};

static struct flower flower(int k)
{
	unsigned seed = (unsigned)k * 7919u + 17u;
	const int kind = k % 3;

	return (struct flower){ kind + draw(&seed), 1000 - 40 * kind + 30 * draw(&seed),
				1e-3 * (kind == 1) + 1e-3 * draw(&seed), kind };
}

static const char *const kinds[] = { "iris", "lily, white", "rose" };

/* Rows from..to with columns in this order: a, b, c, k(ind), p (one of a pair), n(umber as an id),
 * y (a value). */
static char *rows(const char *order, int from, int to, bool header)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);

	for (int k = header ? from - 1 : from; k < to; k++) {
		for (const char *o = order; *o; o++) {
			const struct flower v = flower(k);

			if (o > order)
				fputc(',', f);
			if (k < from)
				fputs(*o == 'k' || *o == 'p' ? "kind"
				      : *o == 'n'            ? "id"
				      : *o == 'y'            ? "price"
				      : *o == 'a'            ? "a"
				      : *o == 'b'            ? "b"
							     : "c",
				      f);
			else if (*o == 'k')
				fprintf(f, "\"%s\"", kinds[v.kind]);
			else if (*o == 'p')
				fputs(kinds[v.kind ? 2 : 0], f);
			else if (*o == 'n')
				fprintf(f, "flower %d", k);
			else
				fprintf(f, "%.9g",
					*o == 'a'   ? v.a
					: *o == 'b' ? v.b
					: *o == 'c' ? v.c
						    : 2 * v.a - v.b / 100);
		}
		fputc('\n', f);
	}
	fclose(f);
	return text;
}

static void put_rows(const char *name, const char *order, int from, int to)
{
	char *text = rows(order, from, to, true);

	put_text(name, text);
	free(text);
}

static int train_all(void **state)
{
	static const char *const jobs[][2] = {
		{ "flowers", "data: {source: csv, file: flowers.csv, batch: 20}\n"
			     "model: {layers: [linear 8, relu, linear 3]}\n" REST },
		{ "price", "data: {source: csv, file: price.csv, label: price, task: values, "
			   "batch: 20}\nmodel: {layers: [linear 6, tanh, linear 1]}\n"
			   "loss: mean-squared\n" REST },
		{ "pair", "data: {source: csv, file: pair.csv, batch: 20}\n"
			  "model: {layers: [linear 4, tanh, linear 1]}\n"
			  "loss: binary-cross-entropy\n" REST },
		{ "own", "data: {source: csv, file: flowers.csv, batch: 20, predict: input}\n"
			 "model: {layers: [linear 2, linear 3]}\nloss: mean-squared\n" REST },
		{ "image", "data: {source: digits, count: 200, tests: 70, batch: 20}\n"
			   "model: {layers: [conv 3 5x5 pad 2 stride 2, batchnorm, relu, "
			   "{residual: [conv 3 3x3 pad 1, tanh]}, maxpool 2, linear 10]}\n"
			   "train: {epochs: 2}\nupdate: {rate: 0.02}\ncluster: {workers: 1}\n"
			   "sim: {compute: {law: constant, mean: 10ms}}\n" },
	};

	if (scratch_make(state))
		return -1;
	put_rows("flowers.csv", "abck", 0, 300);
	put_rows("price.csv", "abyc", 0, 300);
	put_rows("pair.csv", "abcp", 0, 300);
	for (size_t k = 0; k < sizeof jobs / sizeof jobs[0]; k++) {
		char name[60];
		const struct said *s;

		snprintf(name, sizeof name, "%s.yaml", jobs[k][0]);
		put_text(name, jobs[k][1]);
		s = thalweg(NULL, "sim %s/%s --run %s/%s -q", scratch(), name, scratch(),
			    jobs[k][0]);
		if (s->code)
			print_error("%s: %s\n", name, s->err);
		if (s->code)
			return -1;
	}
	put_rows("new.csv", "abc", 300, 500);
	put_rows("turned.csv", "ncab", 300, 500);
	put_rows("known.csv", "kbac", 300, 500);
	put_rows("one.csv", "abck", 300, 301);
	put_rows("priced.csv", "nyabc", 300, 340);
	return 0;
}

/* --- predict --- */

static void run_checkpoint_and_export_agree(void **state)
{
	static const char *const all[] = { "flowers", "price", "pair", "own" };
	const struct said *said;
	char a[200], b[200];

	for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
		snprintf(a, sizeof a, "export @/%s --to @/%s.safetensors", all[k], all[k]);
		expect(run(NULL, a), 0);
		snprintf(a, sizeof a, "predict @/%s --data @/new.csv", all[k]);
		snprintf(b, sizeof b, "predict @/%s.safetensors --data @/new.csv", all[k]);
		same(a, b);
		snprintf(b, sizeof b, "predict @/%s/ckpt-1 --data @/new.csv", all[k]);
		same(a, b);
		/* an export of an export keeps the card */
		snprintf(b, sizeof b, "export @/%s.safetensors --to @/%s-2.safetensors", all[k],
			 all[k]);
		expect(run(NULL, b), 0);
		snprintf(b, sizeof b, "predict @/%s-2.safetensors --data @/new.csv", all[k]);
		same(a, b);
		/* the first layer does the arithmetic that was done before it */
		snprintf(b, sizeof b, "export @/%s --standalone --to @/%s-3.safetensors", all[k],
			 all[k]);
		said = run(NULL, b);
		expect(said, 0);
		has(said->out, "\n    Affine(");
		has(said->out, ",\n)\nnet.load_state_dict(");
		snprintf(b, sizeof b, "predict @/%s-3.safetensors --data @/new.csv", all[k]);
		same(a, b);
	}
	/* a name is a string in Python, whatever is in it */
	said = run(NULL, "export @/pair --standalone --to @/a\"+'\\b.safetensors");
	expect(said, 0);
	has(said->out, "/a\\\"+'\\\\b.safetensors\"))\nnet.eval()");
}

/* The last n cells of the line before `end`. */
static void last_numbers(const char *end, int n, double *out)
{
	for (const char *at = end - 2; n > 0; at--)
		if (*at == ',')
			out[--n] = strtod(at + 1, NULL);
}

/* Probabilities are the softmax of the outputs, and the class is the likeliest. */
static void probabilities_come_from_outputs(void **state)
{
	char *p = prints("predict @/flowers --data @/new.csv");
	char *y = prints("predict @/flowers --data @/new.csv --raw");
	char *a = strchr(p, '\n') + 1, *b = strchr(y, '\n') + 1;
	size_t n = 0;

	assert_memory_equal(p, "row,predicted,probability,p_iris,\"p_lily, white\",p_rose\n", 54);
	assert_memory_equal(y, "row,predicted,output_0,output_1,output_2\n", 41);
	for (; *a; n++) {
		const char *name = strchr(a, ',') + 1;
		double q[4], z[3], sum = 0;
		int best = 0;

		assert_int_equal(strtoul(a, NULL, 10), n + 1);
		a = strchr(a, '\n') + 1;
		last_numbers(a, 4, q);
		b = strchr(b, '\n') + 1;
		last_numbers(b, 3, z);
		for (int k = 0; k < 3; k++) {
			sum += exp(z[k]);
			best = z[k] > z[best] ? k : best;
		}
		for (int k = 0; k < 3; k++)
			assert_true(fabs(q[k + 1] - exp(z[k]) / sum) < 1e-6);
		assert_true(q[0] == q[best + 1]);
		assert_int_equal(strncmp(name + (*name == '"'), kinds[best], strlen(kinds[best])),
				 0);
	}
	assert_int_equal(n, 200);
	free(p);
	free(y);
}

/* Columns go by their names; an id is handed on, an answer becomes the truth. */
/* 3e38 in a column of thousandths is infinite when it is normalised. */
static void outputs_that_are_no_numbers_name_no_class(void **state)
{
	static const char rows[] = "a,b,c\n1,960,0.001\n1,960,3e38\n";
	const struct said *s = run(rows, "predict @/flowers --data -");

	expect(s, 0);
	has(s->out, "\n2,,,nan,nan,nan\n");
	has(s->err, "1 of 2 rows have outputs that are not numbers");
	s = run(rows, "predict @/flowers --data - --format jsonl");
	expect(s, 0);
	has(s->out, "{\"row\":2,\"predicted\":null,\"probability\":null,");
	s = run("a,b,c\n1,960,0.001\n", "predict @/flowers --data -");
	expect(s, 0);
	assert_string_equal(s->err, "");
}

static void columns_go_by_name(void **state)
{
	char *plain = prints("predict @/flowers --data @/new.csv");
	char *turned = prints("predict @/flowers --data @/turned.csv");
	char *known = prints("predict @/flowers --data @/known.csv");
	char *a = plain, *b = turned, *c = known;

	assert_memory_equal(turned, "row,id,predicted,probability,", 29);
	assert_memory_equal(known, "row,predicted,truth,probability,", 32);
	for (int k = 0; k < 200; k++) {
		char id[40];

		a = strchr(a, '\n') + 1;
		b = strchr(b, '\n') + 1;
		c = strchr(c, '\n') + 1;
		snprintf(id, sizeof id, "%d,flower %d,", k + 1, 300 + k);
		assert_memory_equal(b, id, strlen(id));
		assert_memory_equal(b + strlen(id), strchr(a, ',') + 1,
				    strcspn(strchr(a, ',') + 1, "\n"));
		snprintf(id, sizeof id, flower(300 + k).kind == 1 ? ",\"%s\"," : ",%s,",
			 kinds[flower(300 + k).kind]);
		has(c, id);
	}
	free(plain);
	free(turned);
	free(known);
}

/* The same bits from a file, from standard input, and for fewer rows. */
static void how_rows_come_does_not_matter(void **state)
{
	char *all = prints("predict @/flowers --data @/new.csv"), *text;
	const struct said *s;

	text = rows("abc", 300, 500, true);
	s = run(text, "predict @/flowers --data -");
	expect(s, 0);
	assert_string_equal(s->out, all);
	free(text);
	text = rows("abc", 300, 364, true); /* a whole batch of 64 */
	s = run(text, "predict @/flowers --data -");
	expect(s, 0);
	assert_memory_equal(s->out, all, strlen(s->out));
	assert_true(strlen(s->out) > 64 * 10);
	free(text);
	text = rows("abc", 300, 500, true);
	for (char *p = text; *p; p++)
		*p = *p == ',' ? ';' : *p;
	refuses(run(text, "predict @/flowers --data -"), "--separator names another separator");
	refuses(run(text, "predict @/flowers --data - --separator semicolon"), "one character");
	refuses(run(NULL, "eval @/flowers --separator ;"), "needs --data");
	s = run(text, "predict @/flowers --data - --separator ;");
	expect(s, 0);
	assert_string_equal(s->out, all);
	free(text);
	free(all);
}

static char *file_text(const char *name, size_t *bytes)
{
	FILE *f = fopen(path_of(name), "rb");
	char *text = calloc(1, 1 << 20);

	assert_non_null(f);
	*bytes = fread(text, 1, 1 << 20, f);
	fclose(f);
	return text;
}

static void files_are_what_is_printed(void **state)
{
	char *out = prints("predict @/flowers --data @/known.csv"), *text, *line, *save = NULL;
	json_t *r;
	size_t n, k = 0;

	r = object_of(run(NULL, "predict @/flowers --data @/known.csv --to @/out.csv --json"));
	assert_true(number_of(r, "rows") == 200 && number_of(r, "answers") == 200);
	json_decref(r);
	text = file_text("out.csv", &n);
	assert_string_equal(text, out);
	free(text);
	free(out);
	expect(run(NULL, "predict @/flowers --data @/known.csv --to @/out.jsonl"), 0);
	text = file_text("out.jsonl", &n);
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save), k++) {
		r = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
		assert_non_null(r);
		assert_true(number_of(r, "row") == (double)(k + 1));
		assert_string_equal(text_of(r, "truth"), kinds[flower(300 + (int)k).kind]);
		assert_true(fabs(number_of(r, "p_iris") + number_of(r, "p_lily, white") +
				 number_of(r, "p_rose") - 1) < 1e-6);
		json_decref(r);
	}
	assert_int_equal(k, 200);
	free(text);
	expect(run(NULL, "predict @/flowers --data @/known.csv --to @/out.npy"), 0);
	text = file_text("out.npy", &n);
	assert_int_equal(n, 128 + 200 * 3 * 4);
	assert_memory_equal(text, "\x93NUMPY\x01", 7);
	has(text + 10, "'descr': '<f4', 'fortran_order': False, 'shape': (200, 3)");
	free(text);
	/* what is there stays */
	refuses(run(NULL, "predict @/flowers --data @/new.csv --to @/out.csv"),
		"out.csv exists already; --force overwrites it");
	expect(run(NULL, "predict @/flowers --data @/new.csv --to @/out.csv --force"), 0);
	text = file_text("out.csv", &n);
	assert_null(strstr(text, "truth"));
	free(text);
}

/* Files of others are not used on the way, whatever they are called. */
static void what_is_beside_a_new_file_stays(void **state)
{
	char *text;
	size_t n;

	put_text("mine", "mine");
	put_text("out-2.csv.new", "mine");
	assert_int_equal(symlink("mine", path_of("beside.safetensors.new")), 0);
	assert_int_equal(mkdir(path_of("beside.new"), 0777), 0);
	put_text("beside.new/mine", "mine");
	expect(run(NULL, "export @/flowers --to @/beside.safetensors"), 0);
	expect(run(NULL, "export @/flowers --to @/beside --format npy"), 0);
	expect(run(NULL, "predict @/flowers --data @/new.csv --to @/out-2.csv"), 0);
	text = file_text("mine", &n);
	assert_string_equal(text, "mine");
	free(text);
	text = file_text("out-2.csv.new", &n);
	assert_string_equal(text, "mine");
	free(text);
	assert_true(exists("beside.new/mine") && exists("beside/0.weight.npy"));
}

/* Has it a file of the scratch directory open for writing? */
static bool is_writing(pid_t child)
{
	char pattern[60], path[500] = "";
	glob_t fds = { 0 };
	bool is = false;

	snprintf(pattern, sizeof pattern, "/proc/%d/fd/*", (int)child);
	glob(pattern, GLOB_NOSORT, NULL, &fds);
	for (size_t k = 0; k < fds.gl_pathc; k++) {
		const ssize_t n = readlink(fds.gl_pathv[k], path, sizeof path - 1);
		struct stat st;

		path[n > 0 ? n : 0] = '\0';
		is = is || (strstr(path, scratch()) && !strstr(path, "many.csv") &&
			    !lstat(fds.gl_pathv[k], &st) && (st.st_mode & S_IWUSR));
	}
	globfree(&fds);
	return is;
}

/* Until a file is whole it has no name, so that nothing stays behind whatever ends the program. */
static void nothing_half_written_has_a_name(void **state)
{
	const char *const half = path_of("half.csv*");
	char pattern[400];
	glob_t found = { 0 };
	pid_t child;
	int status;

	snprintf(pattern, sizeof pattern, "%s", half);
	put_rows("many.csv", "abc", 0, 200000);
	child = thalweg_start("predict %s/flowers --data %s/many.csv --to %s/half.csv", scratch(),
			      scratch(), scratch());
	do {
		assert_int_equal(glob(pattern, GLOB_NOSORT, NULL, &found), GLOB_NOMATCH);
		globfree(&found);
		usleep(1000);
		/* it is killed when it writes: it takes longer to read */
	} while (!is_writing(child));
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(glob(pattern, GLOB_NOSORT, NULL, &found), GLOB_NOMATCH);
	globfree(&found);
}

static void other_tasks_are_predicted(void **state)
{
	char *text = prints("predict @/price --data @/priced.csv"), *at = text;
	double worst = 0;

	assert_memory_equal(text, "row,id,predicted,truth\n", 23);
	for (int k = 0; k < 40; k++) {
		double said, truth;

		at = strchr(at, '\n') + 1;
		assert_int_equal(sscanf(at, "%*d,flower %*d,%lg,%lg", &said, &truth), 2);
		assert_true(fabs(truth - (2 * flower(300 + k).a - flower(300 + k).b / 100)) < 1e-5);
		worst = fabs(said - truth) > worst ? fabs(said - truth) : worst;
	}
	assert_true(worst < 2.0); /* it was trained: values are around -8 */
	free(text);
	text = prints("predict @/pair --data @/new.csv");
	assert_memory_equal(text, "row,predicted,probability,p_iris,p_rose\n", 40);
	for (at = strchr(text, '\n') + 1; *at; at = strchr(at, '\n') + 1) {
		char name[8];
		double p, q[2];

		assert_int_equal(sscanf(at, "%*d,%7[a-z],%lg,%lg,%lg", name, &p, &q[0], &q[1]), 4);
		assert_true(fabs(q[0] + q[1] - 1) < 1e-6 && p == fmax(q[0], q[1]));
		assert_string_equal(name, q[1] > q[0] ? "rose" : "iris");
	}
	free(text);
	text = prints("predict @/own --data @/new.csv");
	assert_memory_equal(text, "row,a,b,c\n", 10);
	free(text);
}

/* The card has everything: neither the training file nor the job file is read. */
static void the_training_data_is_not_needed(void **state)
{
	char *before = prints("predict @/flowers --data @/new.csv"), *after;
	char one[300], other[300];

	snprintf(one, sizeof one, "%s", path_of("flowers.csv"));
	snprintf(other, sizeof other, "%s", path_of("away.csv"));
	assert_int_equal(rename(one, other), 0);
	after = prints("predict @/flowers --data @/new.csv");
	assert_string_equal(before, after);
	assert_true(eval_of("eval @/flowers --json --set data.test_file=known.csv", "accuracy") ==
		    eval_of("eval @/flowers --json --data @/known.csv", "accuracy"));
	refuses(run(NULL, "eval @/flowers"), "flowers.csv");
	assert_int_equal(rename(other, one), 0);
	free(before);
	free(after);
}

/* --- eval --- */

static void a_file_is_scored(void **state)
{
	const double accuracy = eval_of("eval @/flowers --data @/known.csv --json", "accuracy");
	char *text = prints("predict @/flowers --data @/known.csv");
	size_t right = 0;
	char *at = text;

	for (int k = 0; k < 200; k++) {
		char want[100];
		const char *name = kinds[flower(300 + k).kind];
		const char *quote = strchr(name, ',') ? "\"" : "";

		at = strchr(at, '\n') + 1;
		snprintf(want, sizeof want, "%d,%s%s%s,%s%s%s,", k + 1, quote, name, quote, quote,
			 name, quote);
		right += strncmp(at, want, strlen(want)) == 0;
	}
	assert_true(fabs(accuracy - (double)right / 200.0) < 1e-12 && accuracy > 0.9);
	free(text);
	assert_true(eval_of("eval @/flowers --data @/one.csv --json", "samples") == 1);
	expect(run(NULL, "export @/flowers --to @/scored.safetensors"), 0);
	assert_true(eval_of("eval @/scored.safetensors --data @/known.csv --json", "accuracy") ==
		    accuracy);
	assert_true(eval_of("eval @/price --data @/priced.csv --json", "loss") < 1.0);
	expect(run(NULL, "eval @/price --data @/priced.csv --predictions @/scored.csv"), 0);
	text = prints("predict @/price --data @/priced.csv");
	at = file_text("scored.csv", &right);
	assert_string_equal(at, text);
	free(at);
	free(text);
	refuses(run(NULL, "eval @/price --data @/priced.csv --predictions @/scored.csv"),
		"exists already; --force overwrites it");
}

/* Rows that were added change the split: some of the test set would have been trained on. */
static void changed_data_is_refused(void **state)
{
	size_t n;
	char *text = file_text("flowers.csv", &n), *more = rows("abck", 600, 610, false), *all;

	assert_true(eval_of("eval @/flowers --json", "samples") == 60);
	assert_true(asprintf(&all, "%s%s", text, more) > 0);
	put_text("flowers.csv", all);
	refuses(run(NULL, "eval @/flowers"), "differs from what");
	refuses(run(NULL, "eval @/flowers"), "would contain training samples; name a file");
	refuses(run(NULL, "eval @/flowers --on train"), "differs from what");
	expect(run(NULL, "eval @/flowers --data @/known.csv"), 0);
	put_text("flowers.csv", text);
	refuses(run(NULL, "eval @/flowers --set data.split=7"), "how it is split");
	refuses(run(NULL, "eval @/flowers --set data.normalise=none"), "from the model card");
	refuses(run(NULL, "eval @/flowers --set update.rate=1"), "from the model card");
	expect(run(NULL, "export @/flowers --to @/carded.safetensors"), 0);
	refuses(run(NULL, "eval @/carded.safetensors --job @/flowers.yaml --set "
			  "data.normalise=none"),
		"from the model card");
	assert_true(eval_of("eval @/flowers --json", "samples") == 60);
	free(text);
	free(more);
	free(all);
}

/* Other data that somebody names is scored, but not in silence. */
static void other_data_is_told(void **state)
{
	const struct said *s;
	char *text = rows("abck", 300, 500, true), *at;

	put_rows("others.csv", "abck", 300, 500);
	put_text("others.yaml", "data: {source: csv, file: others.csv, batch: 20}\n"
				"model: {layers: [linear 8, relu, linear 3]}\n" REST);
	s = run(NULL, "eval @/flowers --job @/others.yaml");
	expect(s, 0);
	has(s->err, "differs from what");
	has(s->err, "the figures are not those of the training");
	/* digits draws its test samples apart from those that are trained on */
	s = run(NULL, "eval @/image --set data.tests=40");
	expect(s, 0);
	has(s->err, "the figures are not those of the training");
	assert_null(strstr(run(NULL, "eval @/image")->err, "differs from what"));
	for (at = text; (at = strstr(at, "rose")); at++)
		memcpy(at, "aloe", 4);
	put_text("others.csv", text);
	refuses(run(NULL, "eval @/flowers --job @/others.yaml"),
		"classes of the data are not those that the network was trained on");
	free(text);
	/* a job reads columns as they come: in another order they are others */
	put_rows("others.csv", "back", 300, 500);
	refuses(run(NULL, "eval @/flowers --job @/others.yaml"),
		"column 1 of the data (without the one to predict) is 'b', but was 'a'");
	/* "back" has b, a and c; with --data they go by name */
	expect(run(NULL, "eval @/flowers --data @/others.csv"), 0);
}

/* Its own test file, with its columns in another order, is read by name. */
static void a_test_file_goes_by_name(void **state)
{
	const double accuracy = eval_of("eval @/flowers --data @/known.csv --json", "accuracy");

	assert_true(eval_of("eval @/flowers --set data.test_file=known.csv --json", "accuracy") ==
		    accuracy);
	refuses(run(NULL, "eval @/flowers --set data.test_file=nowhere.csv"), "nowhere.csv");
	refuses(run(NULL, "eval @/flowers --set data.test_file=new.csv"), "kind");
}

/* --- what is refused --- */

static void wrong_paths_are_named(void **state)
{
	put("net.pt", "PK\x03\x04 torch", 10);
	put("net.pkl", "\x80\x04\x95 pickle", 10);
	put("net.png", "\x89PNG\r\n\x1a\n", 8);
	put("net.h5", "\x89HDF\r\n\x1a\n", 8);
	put("net.npy", "\x93NUMPY\x01", 8);
	put("none.bin", "", 0);
	refuses(run(NULL, "predict @/flowers.yaml --data @/new.csv"), "is a job file");
	refuses(run(NULL, "eval @/flowers.yaml"), "give the run directory");
	refuses(run(NULL, "export @/flowers.yaml --to @/x"), "is a job file");
	refuses(run(NULL, "eval @/net.pt"), "torch.save writes (.pt); make a safetensors file");
	refuses(run(NULL, "inspect @/net.pkl"), "a pickle of Python");
	refuses(run(NULL, "predict @/net.png --data @/new.csv"), "is an image");
	refuses(run(NULL, "export @/net.h5 --to @/x"), "HDF5");
	refuses(run(NULL, "eval @/net.npy"), "is a NumPy array");
	refuses(run(NULL, "eval @/none.bin"), "it is empty");
	refuses(run(NULL, "predict @/new.csv --data @/new.csv"), "it is text");
	refuses(run(NULL, "predict @ --data @/new.csv"), "neither a run directory");
}

static void wrong_requests_are_refused(void **state)
{
	expect(run(NULL, "export @/own --standalone --to @/own-alone.safetensors"), 0);
	refuses(run(NULL, "predict @/flowers"), "needs --data FILE");
	refuses(run(NULL, "predict @/flowers --data @/new.csv --json"), "--to FILE");
	refuses(run(NULL, "predict @/flowers --data @/new.csv --force"), "--to FILE");
	refuses(run(NULL, "predict @/flowers --data @/new.csv --to @/out.txt"),
		"neither .csv nor .jsonl nor .npy");
	refuses(run(NULL, "predict @/flowers --data @/new.csv --to @"), "is a directory");
	refuses(run(NULL, "predict @/flowers --data @/new.csv --to /dev/null --force"),
		"is not a regular file");
	refuses(run(NULL, "predict @/flowers --data @/new.csv --to @/no/out.csv"),
		"cannot be written");
	refuses(run(NULL, "predict @/flowers --data @/new.csv --format parquet"), "format");
	refuses(run(NULL, "predict @/flowers --data @/new.csv --set data.batch=2"), "--job");
	refuses(run(NULL, "predict @/flowers --data @/nowhere.csv"), "nowhere.csv");
	refuses(run(NULL, "eval @/flowers --data @/new.csv"), "kind");
	refuses(run(NULL, "eval @/flowers --data @/known.csv --on train"), "leave --on out");
	refuses(run(NULL, "eval @/flowers --data @/known.csv --set data.batch=2"), "--set");
	refuses(run(NULL, "eval @/flowers --answers @/known.csv"), "--answers needs --data");
	refuses(run(NULL, "eval @/own-alone.safetensors --data @/new.csv"), "--standalone");
	refuses(run(NULL, "export @/own-alone.safetensors --standalone --to @/x"),
		"already contains its normalisation");
	expect(run(NULL, "predict @/own-alone.safetensors --data @/new.csv"), 0);
	expect(run(NULL, "export @/flowers --to @/homeless.safetensors"), 0);
	refuses(run(NULL, "eval @/homeless.safetensors"), "not where its data is");
}

/* Rows that do not fit leave no file behind. */
static void wrong_rows_are_named(void **state)
{
	glob_t left = { 0 };

	put_text("short.csv", "a,b\n1,2\n");
	put_text("text.csv", "a,b,c\n1,2,3\n1,two,3\n");
	put_text("class.csv", "a,b,c,kind\n1,2,3,tulip\n");
	refuses(run(NULL, "predict @/flowers --data @/short.csv --to @/bad.csv"), "short.csv");
	refuses(run(NULL, "predict @/flowers --data @/text.csv --to @/bad.csv"), "text.csv:3");
	refuses(run(NULL, "eval @/flowers --data @/class.csv"), "tulip");
	assert_int_equal(glob(path_of("bad.csv*"), 0, NULL, &left), GLOB_NOMATCH);
	globfree(&left);
}

/* --- checkpoints from before there were cards --- */

/* Take the card out of a checkpoint, as an earlier version would have written it. */
static void forget_card(const char *folder)
{
	char name[100], hash[TW_DIGEST_TEXT + 1];
	json_t *m;
	char *text;

	snprintf(name, sizeof name, "%s/manifest.json", folder);
	m = json_load_file(path_of(name), 0, NULL);
	assert_int_equal(json_object_del(m, "card"), 0);
	text = json_dumps(m, 0);
	put_text(name, text);
	tw_digest_bytes(text, strlen(text), hash);
	strcat(hash, "\n");
	snprintf(name, sizeof name, "%s/DONE", folder);
	put_text(name, hash);
	free(text);
	json_decref(m);
}

static void without_a_card_the_data_makes_one(void **state)
{
	char *before = prints("predict @/flowers --data @/new.csv"), one[300], other[300];
	const struct said *s;

	expect(run(NULL, "sim @/flowers.yaml --run @/old -q"), 0);
	forget_card("old/ckpt-1");
	s = run(NULL, "predict @/old --data @/new.csv");
	expect(s, 0);
	assert_string_equal(s->out, before);
	has(s->err, "has no model card: values are normalised by the data as it is now");
	refuses(run(NULL, "export @/old --standalone --to @/x"), "has no model card");
	expect(run(NULL, "export @/old --to @/old.safetensors"), 0);
	refuses(run(NULL, "predict @/old.safetensors --data @/new.csv"),
		"name its job with --job JOB");
	s = run(NULL, "predict @/old.safetensors --data @/new.csv --job @/flowers.yaml");
	expect(s, 0);
	assert_string_equal(s->out, before);
	{ /* fields of its job can be overridden, and a job may come from standard input */
		size_t n;
		char *job = file_text("flowers.yaml", &n), at[1000];

		assert_true(eval_of("eval @/old --json --set data.test=0.5", "samples") == 150);
		snprintf(at, sizeof at, "%s", strchr(strchr(job, '}'), '\n'));
		snprintf(job, 1 << 20, "data: {source: csv, file: %s, batch: 20}%s",
			 path_of("flowers.csv"), at);
		expect(run(job, "eval @/old.safetensors --job - --json"), 0);
		free(job);
	}
	/* and without the data nothing does */
	snprintf(one, sizeof one, "%s", path_of("flowers.csv"));
	snprintf(other, sizeof other, "%s", path_of("away.csv"));
	assert_int_equal(rename(one, other), 0);
	refuses(run(NULL, "predict @/old --data @/new.csv"), "flowers.csv");
	assert_int_equal(rename(other, one), 0);
	free(before);
}

/* Processes: the master has the data, and so the card. */
static void a_run_of_processes_has_the_card(void **state)
{
	expect(run(NULL, "train @/flowers.yaml --processes --run @/cluster -q"), 0);
	expect(run(NULL, "export @/cluster --to @/cluster.safetensors"), 0);
	same("predict @/cluster --data @/turned.csv",
	     "predict @/cluster.safetensors --data @/turned.csv");
	assert_true(eval_of("eval @/cluster --data @/known.csv --json", "accuracy") > 0.9);
	assert_true(eval_of("eval @/cluster --json", "samples") == 60);
}

/* --- images and PyTorch's weights --- */

static void a_standalone_network_of_images_agrees(void **state)
{
	const double loss = eval_of("eval @/image --json", "loss");
	json_t *r =
		object_of(run(NULL, "export @/image --standalone --to @/image-alone.safetensors "
				    "--json"));
	double alone;

	has(text_of(r, "pytorch"), "Affine(1, 1, 1),\n    nn.Conv2d(1, 3, (5, 5), stride=(2, 2), "
				   "padding=(2, 2), groups=1),\n    nn.BatchNorm2d(3, ");
	has(text_of(r, "pytorch"), "Residual([\n        nn.Conv2d(3, 3, (3, 3),");
	has(text_of(r, "pytorch"), "flat(nn.Linear)(147, 10),\n)\n");
	assert_true(number_of(r, "tensors") == 12);
	json_decref(r);
	/* the job's network has one layer less: that of the card counts */
	put_text("alone.yaml",
		 "data: {source: digits, count: 200, tests: 70, batch: 20, normalise: none}\n"
		 "model: {layers: [affine, conv 3 5x5 pad 2 stride 2, batchnorm, relu, "
		 "{residual: [conv 3 3x3 pad 1, tanh]}, maxpool 2, linear 10]}\n" REST);
	alone = eval_of("eval @/image-alone.safetensors --job @/alone.yaml --json", "loss");
	assert_true(fabs(alone - loss) <= 1e-5 * loss);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(run_checkpoint_and_export_agree),
		cmocka_unit_test(probabilities_come_from_outputs),
		cmocka_unit_test(outputs_that_are_no_numbers_name_no_class),
		cmocka_unit_test(columns_go_by_name),
		cmocka_unit_test(how_rows_come_does_not_matter),
		cmocka_unit_test(files_are_what_is_printed),
		cmocka_unit_test(what_is_beside_a_new_file_stays),
		cmocka_unit_test(nothing_half_written_has_a_name),
		cmocka_unit_test(other_tasks_are_predicted),
		cmocka_unit_test(the_training_data_is_not_needed),
		cmocka_unit_test(a_file_is_scored),
		cmocka_unit_test(changed_data_is_refused),
		cmocka_unit_test(other_data_is_told),
		cmocka_unit_test(a_test_file_goes_by_name),
		cmocka_unit_test(wrong_paths_are_named),
		cmocka_unit_test(wrong_requests_are_refused),
		cmocka_unit_test(wrong_rows_are_named),
		cmocka_unit_test(without_a_card_the_data_makes_one),
		cmocka_unit_test(a_run_of_processes_has_the_card),
		cmocka_unit_test(a_standalone_network_of_images_agrees),
	};

	return cmocka_run_group_tests(tests, train_all, scratch_remove);
}
