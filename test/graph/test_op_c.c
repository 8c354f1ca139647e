/* SPDX-License-Identifier: Apache-2.0 */
/* test_op_c.c - the C source of every op that has one, compiled, gives what its reference gives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/skipping.h"
#include "graph/truth.h"
#include "kit/scratch.h"

#include <dlfcn.h>
#include <math.h>

#define CASES 400

typedef void layer(const float *x, const float *z, const float *p0, const float *p1,
		   const float *p2, const float *p3, const float *p4, const float *p5,
		   const float *p6, const float *p7, float *y);

struct sample {
	struct truth truth;
	struct tw_arena keep;
	void *options;
};

static struct sample sample[CASES];
static size_t samples;

static bool has_source(const struct tw_op *op)
{
	return op->c && !(op->traits & (TW_OP_LOSS | TW_OP_PASSES));
}

static void write_sample(const struct tw_op *op, const struct tw_op_sample *from, FILE *out)
{
	struct sample *s = &sample[samples];
	struct tw_error why = { 0 };

	assert_true(samples < CASES);
	tw_arena_init(&s->keep, &tw_heap_system);
	s->options = calloc(1, op->options_bytes + 1);
	assert_int_equal(tw_op_parse(op, from->text, s->options, &s->keep, &why), TW_OK);
	truth_make(&s->truth, op, from, s->options, 1, false);
	fprintf(out,
		"void layer_%zu(const float *x, const float *z, const float *p0, const float *p1,\n"
		"\tconst float *p2, const float *p3, const float *p4, const float *p5,\n"
		"\tconst float *p6, const float *p7, float *y);\n"
		"void layer_%zu(const float *x, const float *z, const float *p0, const float *p1,\n"
		"\tconst float *p2, const float *p3, const float *p4, const float *p5,\n"
		"\tconst float *p6, const float *p7, float *y)\n{\n",
		samples, samples);
	tw_op_c_write(op, &s->truth.site, out);
	fputs("}\n\n", out);
	samples++;
}

static void check_sample(const struct sample *s, layer *f)
{
	const struct truth *t = &s->truth;
	float *const *p = t->value + TW_OP_INS, *y = malloc((t->outs + 1) * sizeof *y);

	y[t->outs] = 1234;
	f(t->value[0], t->value[1], p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], y);
	for (size_t i = 0; i < t->outs; i++)
		if (!(fabs((double)y[i] - t->out[i]) <= 1e-5 * fmax(1, fabs(t->out[i]))))
			fail_msg("%s '%s': value %zu is %.9g in C, %.9g in the reference",
				 t->op->name, t->text, i, (double)y[i], t->out[i]);
	assert_true(y[t->outs] == 1234); /* nothing is written behind the end */
	free(y);
}

static void sources_give_the_reference(void **state)
{
	char path[500], command[1500];
	const struct tw_op *op;
	void *library;
	FILE *out;

	if (system("cc --version >/dev/null 2>&1") != 0)
		SKIP("there is no cc");
	snprintf(path, sizeof path, "%s/layers.c", scratch());
	out = fopen(path, "w");
	assert_non_null(out);
	fputs("#include <math.h>\n\n", out);
	for (size_t k = 0; (op = tw_op_at(k)); k++)
		for (const struct tw_op_sample *s = op->samples; has_source(op) && s->text; s++)
			write_sample(op, s, out);
	assert_int_equal(fclose(out), 0);
	assert_true(samples > 50);
	snprintf(command, sizeof command,
		 "cc -std=c99 -O1 -Wall -Wextra -Wno-unused-parameter -Werror -shared -fPIC -o "
		 "%s/layers.so %s -lm",
		 scratch(), path);
	assert_int_equal(system(command), 0);
	snprintf(path, sizeof path, "%s/layers.so", scratch());
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	assert_non_null(library);
	for (size_t k = 0; k < samples; k++) {
		char name[40];
		layer *f;

		snprintf(name, sizeof name, "layer_%zu", k);
		*(void **)&f = dlsym(library, name);
		assert_non_null(f);
		check_sample(&sample[k], f);
		truth_free(&sample[k].truth);
		free(sample[k].options);
		tw_arena_release(&sample[k].keep);
	}
	dlclose(library);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sources_give_the_reference),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
