/* SPDX-License-Identifier: Apache-2.0 */
/* test_vectors.c - the vectors of a slice (src/node/slice_vectors.h): lists of commands against
 * plain loops, portions in any order, parts there and back, and lists that must be refused. */
#include "base/rng.h"
#include "node/slice.h"
#include "node/small_plan.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define N       5001 /* more than one part, and not a whole number of them */
#define SAMPLES 100
#define PORTION 7 /* 15 portions, the last of 2 samples */
#define COUNT   15

static struct slice *open_slice(struct small_plan *p, struct tw_heap *heap)
{
	static struct slice s;

	small_plan_open(p, N, 0, "bsp", "none", "sgd");
	p->plan.gate = &tw_gate_portions;
	p->plan.optimising = (struct tw_optimising){ .method = tw_optimiser_all[0],
						     .options = "\0\0\0\0\0\0\0\0",
						     .batch = SAMPLES,
						     .portion = PORTION };
	tw_slice_empty(&s, &p->plan, heap, 0);
	return &s;
}

static float *vector(const struct slice *s, uint32_t k)
{
	return tw_block_floats(s->vectors.at[k]);
}

static void fill(struct slice *s)
{
	assert_int_equal(tw_slice_init(s), TW_OK);
	assert_int_equal(s->vectors.count, TW_VECTOR_OWN);
	draw_floats(tw_block_floats(s->w), N, 1);
	for (uint32_t k = 1; k < s->vectors.count; k++)
		draw_floats(vector(s, k), N, 1 + k);
}

/* --- lists ---------------------------------------------------------------------------------- */

static void lists_are_plain_loops(void **state)
{
	const struct tw_command list[] = {
		{ TW_COMMAND_COPY, 2, 0, 0, 0 },       { TW_COMMAND_AXPY, 2, 1, 0, 0.5 },
		{ TW_COMMAND_DOT, 0, 2, 1, 0 },        { TW_COMMAND_SCALE, 1, 0, 0, -3 },
		{ TW_COMMAND_MULTIPLY, 3, 1, 2, 0 },   { TW_COMMAND_DOT, 0, 3, 3, 0 },
		{ TW_COMMAND_FILL, 4, 0, 0, 2.5 },     { TW_COMMAND_COPY, 0, 4, 0, 0 },
		{ TW_COMMAND_AXPY, 0, 3, 0, 1.0 / 3 }, { TW_COMMAND_DOT, 0, 0, 0, 0 },
	};
	const size_t count = sizeof list / sizeof list[0];
	struct small_plan p;
	struct slice *s = open_slice(&p, &tw_heap_system);
	double dots[3] = { 0 };
	struct tw_block *held;
	float *before;

	(void)state;
	fill(s);
	held = tw_block_keep(s->w); /* somebody reads the version before */
	before = malloc(N * sizeof *before);
	memcpy(before, tw_block_floats(s->w), N * sizeof *before);
	float one[N];
	memcpy(one, vector(s, 1), sizeof one);
	assert_true(tw_vectors_valid(s, list, count));
	assert_int_equal(tw_vectors_run(s, list, count, 1), TW_OK);
	assert_int_equal(s->vectors.results, 3);
	assert_int_equal(s->version.n, 1);
	for (size_t i = 0; i < N; i++) {
		const float two = fmaf(0.5f, one[i], before[i]), scaled = -3.0f * one[i];
		const float three = scaled * two;
		const float point = fmaf((float)(1.0 / 3), three, 2.5f);

		dots[0] += (double)two * (double)one[i];
		dots[1] += (double)three * (double)three;
		dots[2] += (double)point * (double)point;
		assert_true(vector(s, 2)[i] == two && vector(s, 1)[i] == scaled);
		assert_true(vector(s, 3)[i] == three && vector(s, 4)[i] == 2.5f);
		assert_true(tw_block_floats(s->w)[i] == point);
	}
	for (int k = 0; k < 3; k++)
		assert_true(fabs(s->vectors.result[k] - dots[k]) <= 1e-10 * fabs(dots[k]) + 1e-10);
	assert_memory_equal(before, tw_block_floats(held), N * sizeof *before); /* not torn */
	tw_block_drop(held);
	free(before);
	tw_slice_release(s);
	small_plan_close(&p);
}

static void a_list_that_reads_does_not_make_a_version(void **state)
{
	const struct tw_command list[] = { { TW_COMMAND_DOT, 0, 0, 1, 0 } };
	struct small_plan p;
	struct slice *s = open_slice(&p, &tw_heap_system);

	(void)state;
	fill(s);
	assert_int_equal(tw_vectors_run(s, list, 1, 1), TW_OK);
	assert_int_equal(s->version.n, 0);
	tw_slice_release(s);
	small_plan_close(&p);
}

/* --- drawn lists ---------------------------------------------------------------------------- */

#define VECTORS TW_VECTOR_OWN
#define LENGTH  9 /* commands of a list */
#define LISTS   400

/* In 16 lanes over 2048 elements, part after part: the order that slice_steps.h promises. */
static double dot_by_hand(const float *a, const float *b)
{
	double all = 0;

	for (size_t from = 0; from < N; from += 2048) {
		double lane[16] = { 0 }, sum = 0;

		for (size_t i = from; i < N && i < from + 2048; i++)
			lane[i % 16] += (double)a[i] * (double)b[i];
		for (size_t k = 0; k < 16; k++)
			sum += lane[k];
		all += sum;
	}
	return all;
}

/* Carried out on copies, command after command; returns the results. */
static size_t by_hand(float (*x)[N], const struct tw_command *list, double *result)
{
	size_t results = 0;

	for (size_t k = 0; k < LENGTH; k++) {
		const struct tw_command *c = &list[k];
		float *to = x[c->to];

		if (c->kind == TW_COMMAND_DOT)
			result[results++] = dot_by_hand(x[c->a], x[c->b]);
		for (size_t i = 0; i < N && c->kind != TW_COMMAND_DOT; i++)
			to[i] = c->kind == TW_COMMAND_COPY    ? x[c->a][i]
				: c->kind == TW_COMMAND_FILL  ? (float)c->x
				: c->kind == TW_COMMAND_SCALE ? (float)c->x * to[i]
				: c->kind == TW_COMMAND_AXPY  ? fmaf((float)c->x, x[c->a][i], to[i])
							      : x[c->a][i] * x[c->b][i];
	}
	return results;
}

static void draw_list(uint64_t seed, struct tw_command *list)
{
	static const double scale[] = { 0.5, -1, 0.75, 0 };
	static const uint16_t kind[] = { TW_COMMAND_COPY,     TW_COMMAND_COPY, TW_COMMAND_FILL,
					 TW_COMMAND_SCALE,    TW_COMMAND_AXPY, TW_COMMAND_AXPY,
					 TW_COMMAND_MULTIPLY, TW_COMMAND_DOT };
	const struct tw_rng r = tw_rng_make(seed, TW_RNG_TEST);

	for (uint64_t k = 0; k < LENGTH; k++) {
		const uint64_t x = tw_rng_u64(&r, k, 0);

		list[k] = (struct tw_command){ kind[x % 8], x / 8 % VECTORS, x / 128 % VECTORS,
					       x / 1024 % VECTORS, scale[x / 16384 % 4] };
	}
}

/* Before all is 0 or infinite. */
static void draw_again(struct slice *s, float (*x)[N], uint64_t seed)
{
	for (uint32_t k = 0; k < VECTORS; k++) {
		struct tw_block **at = k ? &s->vectors.at[k] : &s->w;

		tw_block_drop(*at);
		*at = tw_pool_take(s->pool);
		assert_non_null(*at);
		draw_floats(x[k], N, 1000 + VECTORS * seed + k);
		memcpy((*at)->data, x[k], sizeof x[k]);
	}
}

/* All that vectors may share, and blocks that somebody reads meanwhile: same bits as by hand. */
static void drawn_lists_have_the_bits_of_plain_loops(void **state)
{
	static float x[VECTORS][N], seen[N];
	struct small_plan p;
	struct slice *s = open_slice(&p, &tw_heap_system);
	struct tw_command list[LENGTH];
	double result[LENGTH];

	(void)state;
	fill(s);
	for (uint32_t k = 0; k < VECTORS; k++)
		memcpy(x[k], k ? vector(s, k) : tw_block_floats(s->w), sizeof x[k]);
	for (uint64_t l = 0; l < LISTS; l++) {
		const uint32_t read = l % VECTORS;
		struct tw_block *held = tw_block_keep(read ? s->vectors.at[read] : s->w);
		size_t results;

		memcpy(seen, held->data, sizeof seen);
		draw_list(1 + l, list);
		assert_true(tw_vectors_valid(s, list, LENGTH));
		assert_int_equal(tw_vectors_run(s, list, LENGTH, 1 + l), TW_OK);
		results = by_hand(x, list, result);
		assert_int_equal(s->vectors.results, results);
		assert_memory_equal(s->vectors.result, result, results * sizeof *result);
		for (uint32_t k = 0; k < VECTORS; k++)
			assert_memory_equal(k ? vector(s, k) : tw_block_floats(s->w), x[k],
					    sizeof x[k]);
		assert_memory_equal(seen, held->data, sizeof seen); /* not torn */
		tw_block_drop(held);
		if (l % 4 == 3)
			draw_again(s, x, l);
	}
	tw_slice_release(s);
	small_plan_close(&p);
}

static void hostile_lists_are_refused(void **state)
{
	static const struct tw_command bad[] = {
		{ 0, 0, 0, 0, 0 },
		{ TW_COMMAND_KINDS, 0, 0, 0, 0 },
		{ TW_COMMAND_COPY, TW_VECTOR_OWN, 0, 0, 0 },
		{ TW_COMMAND_AXPY, 1, 999, 0, 1 },
		{ TW_COMMAND_DOT, 0, 1, 65535, 0 },
		{ TW_COMMAND_SCALE, 1, 0, 0, (double)INFINITY },
		{ TW_COMMAND_FILL, 1, 0, 0, (double)NAN },
		{ TW_COMMAND_GATHER, 1, 0, 0, 0 }, /* nothing was evaluated */
	};
	const struct tw_command late[] = { { TW_COMMAND_EVALUATE, 0, 0, 0, 0 },
					   { TW_COMMAND_COPY, 1, 2, 0, 0 } };
	struct tw_command many[200];
	struct small_plan p;
	struct slice *s = open_slice(&p, &tw_heap_system);

	(void)state;
	fill(s);
	for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++)
		assert_false(tw_vectors_valid(s, &bad[k], 1));
	assert_false(tw_vectors_valid(s, late, 2));
	for (int kind = 0; kind < 2; kind++) { /* more than there is room for */
		for (size_t k = 0; k < 200; k++)
			many[k] = (struct tw_command){ kind ? TW_COMMAND_DOT : TW_COMMAND_FILL, 1,
						       1, 1, 0 };
		assert_false(tw_vectors_valid(s, many, 200));
		assert_false(tw_vectors_valid(s, many, s->vectors.room + 1));
		assert_true(tw_vectors_valid(s, many, s->vectors.room));
	}
	tw_slice_release(s);
	small_plan_close(&p);
}

/* --- portions ------------------------------------------------------------------------------- */

static void bring(struct slice *s, uint64_t k, double loss)
{
	struct tw_block *b = tw_block_new(&tw_heap_system, N * sizeof(float));

	draw_floats(tw_block_floats(b), N, 500 + k);
	assert_true(tw_vectors_wants(s, k));
	tw_vectors_fold(s, k, b, tw_block_floats(b), loss);
	assert_false(tw_vectors_wants(s, k)); /* never twice */
	tw_block_drop(b);
}

static void gather(struct slice *s, uint64_t number)
{
	const struct tw_command list[] = { { TW_COMMAND_GATHER, 1, 0, 0, 0 } };

	assert_true(tw_vectors_valid(s, list, 1));
	assert_int_equal(tw_vectors_run(s, list, 1, number), TW_OK);
	assert_false(tw_vectors_valid(s, list, 1)); /* the evaluation is over */
}

static void portions_add_up_in_any_order(void **state)
{
	struct small_plan p;
	struct slice *s = open_slice(&p, &tw_heap_system);
	static float first[N];

	(void)state;
	fill(s);
	assert_false(tw_vectors_wants(s, 0)); /* no evaluation is open */
	for (uint64_t order = 0; order < 5; order++) {
		static const uint64_t stride[] = { 1, 14, 2, 7, 4 }; /* prime to 15 */

		tw_vectors_open(s);
		for (uint64_t k = 0; k < COUNT; k++)
			bring(s, k * stride[order] % COUNT, (double)(k * stride[order] % COUNT));
		assert_int_equal(s->vectors.folded, COUNT);
		assert_false(tw_vectors_wants(s, COUNT));
		gather(s, 1 + order);
		assert_true(s->vectors.result[0] == 105.0 / SAMPLES);
		if (order == 0)
			memcpy(first, vector(s, 1), sizeof first);
		assert_memory_equal(first, vector(s, 1), sizeof first);
	}
	for (size_t i = 0; i < N; i += 97) {
		double sum = 0;
		float g[N];

		for (uint64_t k = 0; k < COUNT; k++) {
			draw_floats(g, N, 500 + k);
			sum += (k == COUNT - 1 ? 2 : PORTION) * (double)g[i];
		}
		assert_true(first[i] == (float)(sum * (1.0 / SAMPLES)));
	}
	tw_slice_release(s);
	small_plan_close(&p);
}

static void values_that_are_not_finite_are_told(void **state)
{
	struct small_plan p;
	struct slice *s = open_slice(&p, &tw_heap_system);

	(void)state;
	fill(s);
	for (int what = 0; what < 3; what++) {
		struct tw_block *b = tw_block_new(&tw_heap_system, N * sizeof(float));

		tw_vectors_open(s);
		draw_floats(tw_block_floats(b), N, 3);
		if (what == 0)
			tw_block_floats(b)[N - 1] = NAN;
		if (what == 1)
			tw_block_floats(b)[0] = INFINITY;
		tw_vectors_fold(s, 3, b, tw_block_floats(b), what == 2 ? (double)NAN : 1);
		tw_block_drop(b);
		for (uint64_t k = 0; k < COUNT; k++)
			if (k != 3)
				bring(s, k, 1);
		gather(s, 1);
		assert_true(isnan(s->vectors.result[0]));
	}
	tw_vectors_open(s); /* the next evaluation knows nothing of it */
	for (uint64_t k = 0; k < COUNT; k++)
		bring(s, k, 1);
	gather(s, 2);
	assert_true(s->vectors.result[0] == (double)COUNT / SAMPLES);
	tw_slice_release(s);
	small_plan_close(&p);
}

/* --- parts ---------------------------------------------------------------------------------- */

static void a_part_has_all_vectors(void **state)
{
	struct small_plan p;
	struct slice *s = open_slice(&p, &tw_heap_system), back;
	struct tw_block *part;

	(void)state;
	fill(s);
	s->vectors.number = 17;
	part = tw_slice_pack(s);
	assert_non_null(part);
	tw_slice_empty(&back, &p.plan, &tw_heap_system, 0);
	assert_int_equal(tw_slice_init(&back), TW_OK);
	assert_int_equal(tw_slice_restore(&back, part->data, part->bytes), TW_OK);
	assert_int_equal(back.vectors.number, 17);
	for (uint32_t k = 1; k < s->vectors.count; k++)
		assert_memory_equal(vector(s, k), vector(&back, k), N * sizeof(float));
	tw_slice_release(&back);
	tw_slice_release(s);
	/* a plan without an optimiser does not look for them; the other way round is refused */
	p.plan.optimising.method = NULL;
	tw_slice_empty(&back, &p.plan, &tw_heap_system, 0);
	assert_int_equal(tw_slice_init(&back), TW_OK);
	tw_block_drop(part);
	part = tw_slice_pack(&back);
	p.plan.optimising.method = tw_optimiser_all[0];
	tw_slice_empty(s, &p.plan, &tw_heap_system, 0);
	assert_int_equal(tw_slice_init(s), TW_OK);
	assert_int_equal(tw_slice_restore(s, part->data, part->bytes), TW_BAD_BYTES);
	tw_block_drop(part);
	tw_slice_release(s);
	tw_slice_release(&back);
	small_plan_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_are_plain_loops),
		cmocka_unit_test(a_list_that_reads_does_not_make_a_version),
		cmocka_unit_test(drawn_lists_have_the_bits_of_plain_loops),
		cmocka_unit_test(hostile_lists_are_refused),
		cmocka_unit_test(portions_add_up_in_any_order),
		cmocka_unit_test(values_that_are_not_finite_are_told),
		cmocka_unit_test(a_part_has_all_vectors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
