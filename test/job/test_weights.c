/* SPDX-License-Identifier: Apache-2.0 */
/* test_weights.c - model.weights from files of other programs: by name, by order and shape, in
 * part; what is said of it, and what is refused. */
#include "engine/network.h"
#include "kit/scratch.h"
#include "model/model.h"
#include "model/safetensors.h"
#include "run/open_engine.h"
#include "run/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MOST 24

/* A tensor of the file; its elements are 100 * value, 100 * value + 1, ... */
struct tensor {
	const char *name;
	int value;
	uint32_t rank, a, b;
	bool counter; /* of I64 */
};

static size_t elements(const struct tensor *t)
{
	return t->rank == 0 ? 1 : t->rank == 1 ? t->a : (size_t)t->a * t->b;
}

static void write_file(const char *name, const struct tensor *list)
{
	struct tw_safe_tensor t[MOST] = { { NULL } };
	float value[MOST][64] = { { 0 } };
	struct tw_block *bytes = NULL;
	size_t n = 0;

	for (; list[n].name; n++) {
		t[n] = (struct tw_safe_tensor){
			.name = list[n].name,
			.type = list[n].counter ? TW_SAFE_I64 : TW_SAFE_F32,
			.rank = list[n].rank,
			.d = { list[n].a, list[n].b },
			.count = elements(&list[n]),
			.data = (const uint8_t *)value[n],
			.bytes = elements(&list[n]) * (list[n].counter ? 8 : 4),
		};
		for (size_t i = 0; i < t[n].count && !list[n].counter; i++)
			value[n][i] = (float)(100 * list[n].value + (int)i);
	}
	assert_int_equal(tw_safe_write(&tw_heap_system, t, n, NULL, &bytes), TW_OK);
	put(name, bytes->data, bytes->bytes);
	tw_block_drop(bytes);
}

static int make_files(void **state)
{
	char rows[2000] = "";
	size_t at = 0;

	if (scratch_make(state))
		return -1;
	for (int k = 0; k < 40; k++)
		at += (size_t)snprintf(rows + at, sizeof rows - at, "%d,%d,%d\n", k * 7 % 11,
				       k * 5 % 13, k % 2);
	put("rows.csv", rows, at);
	return 0;
}

#define FOUR "linear 4, relu, linear 4, relu, linear 4, relu, linear 2"

struct opened {
	enum tw_status st;
	struct tw_error why;
	float v[200];
	size_t n;
	char said[2000];
};

static struct opened open_with(const char *layers, const char *model)
{
	struct opened o = { .st = TW_OK };
	struct tw_engine *e = NULL;
	struct tw_job *job = NULL;
	char text[600], file[200];

	snprintf(text, sizeof text,
		 "data: {source: csv, file: rows.csv, batch: 10}\nmodel: {layers: [%s]%s}\n"
		 "train: {epochs: 1}\nupdate: {rate: 0.01}\n",
		 layers, model);
	snprintf(file, sizeof file, "%s", path_of("job.yaml"));
	o.st = tw_job_read_text(file, text, strlen(text), NULL, 0, NULL, TW_WORLD_THREADS, &job,
				&o.why);
	if (o.st == TW_OK)
		o.st = tw_job_open_engine(job, &tw_heap_system, &e, &o.why);
	if (o.st == TW_OK) {
		const struct tw_warnings *w = tw_network_data(e)->warnings;

		o.n = e->trainable + e->buffers;
		assert_true(o.n <= 200);
		assert_int_equal(e->class->init(e, 0, o.n, o.v), TW_OK);
		for (unsigned k = 0; k < w->count; k++)
			strcat(strcat(o.said, w->text[k]), "\n");
		e->class->close(e);
	}
	tw_job_free(job);
	return o;
}

static void says(const char *text, const char *wanted)
{
	if (!strstr(text, wanted))
		fail_msg("'%s' lacks '%s'", text, wanted);
}

/* The model's elements from `at` on are those of tensor `value`. */
static size_t is(const struct opened *o, size_t at, int value, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (o->v[at + i] != (float)(100 * value + (int)i))
			fail_msg("element %zu is %g, not %d", at + i, (double)o->v[at + i],
				 100 * value + (int)i);
	return at + n;
}

/* 1..8 are the tensors in the model's order. */
static void is_whole(const struct opened *o)
{
	static const size_t n[] = { 8, 4, 16, 4, 16, 4, 8, 2 };
	size_t at = 0;

	if (o->st != TW_OK)
		fail_msg("%s", o->why.text);
	for (int k = 0; k < 8; k++)
		at = is(o, at, k + 1, n[k]);
	assert_int_equal(at, o->n);
}

static void names_that_are_the_models(void **state)
{
	write_file("named.safetensors", (const struct tensor[]){ { "6.bias", 8, 1, 2, 0 },
								 { "0.weight", 1, 2, 4, 2 },
								 { "0.bias", 2, 1, 4, 0 },
								 { "4.weight", 5, 2, 4, 4 },
								 { "2.weight", 3, 2, 4, 4 },
								 { "2.bias", 4, 1, 4, 0 },
								 { "4.bias", 6, 1, 4, 0 },
								 { "6.weight", 7, 2, 2, 4 },
								 { NULL } });
	const struct opened o = open_with(FOUR, ", weights: named.safetensors");

	is_whole(&o);
	assert_string_equal(o.said, "");
}

static void other_names_in_the_files_order(void **state)
{
	write_file("order.safetensors", (const struct tensor[]){ { "stem.weight", 1, 2, 4, 2 },
								 { "stem.bias", 2, 1, 4, 0 },
								 { "mid.weight", 3, 2, 4, 4 },
								 { "mid.bias", 4, 1, 4, 0 },
								 { "late.bias", 6, 1, 4, 0 },
								 { "late.weight", 5, 2, 4, 4 },
								 { "head.weight", 7, 2, 2, 4 },
								 { "head.bias", 8, 1, 2, 0 },
								 { NULL } });
	const struct opened o = open_with(FOUR, ", weights: order.safetensors");

	is_whole(&o);
	says(o.said,
	     "model.weights: 8 tensors are taken by order and shape, because their names "
	     "differ: stem.weight as 0.weight, stem.bias as 0.bias, mid.weight as 2.weight");
}

/* As the safetensors library writes: sorted by letters, so that fc10 is before fc2. */
static void other_names_in_the_order_of_numbers(void **state)
{
	write_file("numbers.safetensors",
		   (const struct tensor[]){ { "net.fc1.bias", 2, 1, 4, 0 },
					    { "net.fc1.weight", 1, 2, 4, 2 },
					    { "net.fc10.bias", 8, 1, 2, 0 },
					    { "net.fc10.weight", 7, 2, 2, 4 },
					    { "net.fc2.bias", 4, 1, 4, 0 },
					    { "net.fc2.weight", 3, 2, 4, 4 },
					    { "net.fc9.bias", 6, 1, 4, 0 },
					    { "net.fc9.weight", 5, 2, 4, 4 },
					    { NULL } });
	const struct opened o = open_with(FOUR, ", weights: numbers.safetensors");

	is_whole(&o);
	says(o.said, "by order and shape");
}

static void buffers_belong_to_their_module(void **state)
{
	write_file("bn.safetensors",
		   (const struct tensor[]){ { "bn.bias", 4, 1, 3, 0 },
					    { "bn.num_batches_tracked", 0, 0, 0, 0, true },
					    { "bn.running_mean", 7, 1, 3, 0 },
					    { "bn.running_var", 8, 1, 3, 0 },
					    { "bn.weight", 3, 1, 3, 0 },
					    { "a.bias", 2, 1, 3, 0 },
					    { "a.weight", 1, 2, 3, 2 },
					    { "head.bias", 6, 1, 2, 0 },
					    { "head.weight", 5, 2, 2, 3 },
					    { NULL } });
	const struct opened o =
		open_with("linear 3, batchnorm, linear 2", ", weights: bn.safetensors");
	static const struct {
		int value;
		size_t n;
	} wanted[] = { { 1, 6 }, { 2, 3 }, { 3, 3 }, { 4, 3 },
		       { 5, 6 }, { 6, 2 }, { 7, 3 }, { 8, 3 } };
	size_t at = 0;

	if (o.st != TW_OK)
		fail_msg("%s", o.why.text);
	for (size_t k = 0; k < 8; k++)
		at = is(&o, at, wanted[k].value, wanted[k].n);
	assert_int_equal(at, o.n);
}

static void what_could_be_either_is_refused(void **state)
{
	write_file("either.safetensors", (const struct tensor[]){ { "a.weight", 1, 2, 4, 2 },
								  { "a.bias", 2, 1, 4, 0 },
								  { "c.weight", 3, 2, 4, 4 },
								  { "c.bias", 4, 1, 4, 0 },
								  { "b.weight", 5, 2, 4, 4 },
								  { "b.bias", 6, 1, 4, 0 },
								  { "d.weight", 7, 2, 2, 4 },
								  { "d.bias", 8, 1, 2, 0 },
								  { NULL } });
	for (int partial = 0; partial < 2; partial++) {
		const struct opened o =
			open_with(FOUR, partial ? ", weights: either.safetensors, partial: true"
						: ", weights: either.safetensors");

		assert_int_equal(o.st, TW_BAD_INPUT);
		says(o.why.text, "model.weights: ");
		says(o.why.text, "fit both in the order of the file and in that of their names; "
				 "rename them to the model's, such as 0.weight");
	}
}

static void what_does_not_fit_is_refused(void **state)
{
	write_file("three.safetensors", (const struct tensor[]){ { "x.weight", 1, 2, 4, 2 },
								 { "x.bias", 2, 1, 4, 0 },
								 { "y.weight", 3, 2, 9, 4 },
								 { "y.bias", 4, 1, 9, 0 },
								 { NULL } });
	write_file("alien.safetensors", (const struct tensor[]){ { "x.weight", 1, 2, 5, 5 },
								 { "x.bias", 2, 1, 5, 0 },
								 { NULL } });
	write_file("half.safetensors", (const struct tensor[]){ { "0.weight", 1, 2, 4, 2 },
								{ "0.bias", 2, 1, 4, 0 },
								{ NULL } });
	static const char *const bad[][2] = {
		{ ", weights: three.safetensors",
		  "do not fit by order and shape either; model.partial: true takes what fits" },
		{ ", weights: alien.safetensors, partial: true", "nothing of it can be taken" },
		{ ", weights: half.safetensors", "it has no tensor 2.weight" },
		{ ", partial: true", "model.partial: says what is taken of a file of weights, and "
				     "there is none; give model.weights" },
	};

	for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
		const struct opened o = open_with(FOUR, bad[k][0]);

		assert_int_equal(o.st, TW_BAD_INPUT);
		says(o.why.text, bad[k][1]);
	}
}

/* What is not taken is what it would be without the file. */
static void a_part_is_taken(void **state)
{
	const struct opened plain = open_with(FOUR, "");

	write_file("part.safetensors", (const struct tensor[]){ { "2.weight", 3, 2, 4, 4 },
								{ "0.weight", 1, 2, 4, 2 },
								{ "0.bias", 2, 1, 4, 0 },
								{ "6.weight", 9, 2, 9, 4 },
								{ "more", 9, 1, 3, 0 },
								{ NULL } });
	write_file("body.safetensors", (const struct tensor[]){ { "c1.weight", 1, 2, 4, 2 },
								{ "c1.bias", 2, 1, 4, 0 },
								{ "c2.weight", 3, 2, 4, 4 },
								{ "c2.bias", 4, 1, 4, 0 },
								{ "c3.weight", 5, 2, 4, 4 },
								{ "c3.bias", 6, 1, 4, 0 },
								{ "c4.weight", 7, 2, 11, 4 },
								{ "c4.bias", 8, 1, 11, 0 },
								{ NULL } });
	struct opened o = open_with(FOUR, ", weights: part.safetensors, partial: true");

	assert_int_equal(o.st, TW_OK);
	assert_int_equal(is(&o, is(&o, is(&o, 0, 1, 8), 2, 4), 3, 16), 28);
	assert_memory_equal(o.v + 28, plain.v + 28, (plain.n - 28) * sizeof(float));
	says(o.said, "model.partial: 5 of 8 tensors are drawn as without the file: 2.bias (4), "
		     "4.weight (4x4), 4.bias (4), 6.weight (2x4), 6.bias (2)");
	says(o.said, "model.partial: 2 tensors of the file are left out: 6.weight, more");

	o = open_with(FOUR, ", weights: body.safetensors, partial: true");
	assert_int_equal(o.st, TW_OK);
	is(&o, 12, 3, 16);
	is(&o, 32, 5, 16);
	assert_memory_equal(o.v + 52, plain.v + 52, (plain.n - 52) * sizeof(float));
	says(o.said, "6 tensors are taken by order and shape");
	says(o.said, "2 of 8 tensors are drawn as without the file: 6.weight (2x4), 6.bias (2)");
	says(o.said, "2 tensors of the file are left out: c4.weight, c4.bias");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_that_are_the_models),
		cmocka_unit_test(other_names_in_the_files_order),
		cmocka_unit_test(other_names_in_the_order_of_numbers),
		cmocka_unit_test(buffers_belong_to_their_module),
		cmocka_unit_test(what_could_be_either_is_refused),
		cmocka_unit_test(what_does_not_fit_is_refused),
		cmocka_unit_test(a_part_is_taken),
	};

	return cmocka_run_group_tests(tests, make_files, scratch_remove);
}
