/* SPDX-License-Identifier: Apache-2.0 */
/* test_op_table.c - the ops' tables: names, help, rows, traits that go together, shapes refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/arena.h"
#include "graph/op.h"

#include <ctype.h>

static bool one_line(const char *text, size_t most)
{
	return text && *text && strlen(text) <= most && !strchr(text, '\n');
}

static bool good_name(const char *name)
{
	if (!name || !islower((unsigned char)name[0]))
		return false;
	for (; *name; name++)
		if (!islower((unsigned char)*name) && !isdigit((unsigned char)*name) &&
		    *name != '-')
			return false;
	return true;
}

static void names_are_good_and_unique(void **state)
{
	const struct tw_op *op, *other;
	size_t k;

	for (k = 0; (op = tw_op_at(k)); k++) {
		if (!good_name(op->name) || !one_line(op->help, 100))
			fail_msg("op %zu (%s): name or help", k, op->name ? op->name : "?");
		for (size_t i = 0; i < k && (other = tw_op_at(i)); i++)
			if (!strcmp(op->name, other->name))
				fail_msg("two ops are called %s", op->name);
		assert_ptr_equal(tw_op_find(op->name), op);
	}
	assert_true(k >= 9);
	assert_null(tw_op_at(k));
	assert_null(tw_op_find("rleu"));
	assert_null(tw_op_find(""));
}

static size_t bytes_of(enum tw_option_type type)
{
	switch (type) {
	case TW_BOOL:
		return sizeof(bool);
	case TW_U32:
	case TW_F32:
	case TW_CHOICE:
		return 4;
	case TW_F64S:
		return sizeof(struct tw_f64s);
	default:
		return 8;
	}
}

static void check_row(const struct tw_op *op, const struct tw_option *row)
{
	const bool number = row->type == TW_U32 || row->type == TW_U64 || row->type == TW_F32 ||
			    row->type == TW_F64;
	char scrap[256] = { 0 };
	struct tw_error why = { 0 };
	struct tw_arena keep;

	if (!good_name(row->name) || !one_line(row->help, 120))
		fail_msg("%s: %s: name or help", op->name, row->name);
	if (number && !(row->min < row->max))
		fail_msg("%s: %s: no range", op->name, row->name);
	if (row->type == TW_CHOICE && (!row->choices || !row->choices[0]))
		fail_msg("%s: %s: no choices", op->name, row->name);
	if (row->offset + bytes_of(row->type) > op->options_bytes)
		fail_msg("%s: %s: outside its struct", op->name, row->name);
	for (const struct tw_option *other = op->options; other != row; other++)
		if (!strcmp(other->name, row->name) || other->offset == row->offset)
			fail_msg("%s: %s: twice", op->name, row->name);
	assert_true(op->options_bytes <= sizeof scrap);
	tw_arena_init(&keep, &tw_heap_system);
	if (row->standard && tw_option_set(row, scrap, row->standard, &keep, &why) != TW_OK)
		fail_msg("%s: default: %s", op->name, why.text);
	tw_arena_release(&keep);
}

static void rows_are_good(void **state)
{
	const struct tw_op *op;

	for (size_t k = 0; (op = tw_op_at(k)); k++) {
		size_t rows = 0;

		for (; op->options && op->options[rows].name; rows++)
			check_row(op, &op->options[rows]);
		if (op->positional > rows || !rows != !op->options_bytes)
			fail_msg("%s: %zu rows, %u positional, %zu bytes", op->name, rows,
				 op->positional, op->options_bytes);
		/* positional rows that must be given come first, or they could not be given */
		for (uint32_t i = 1; i < op->positional; i++)
			if (!op->options[i].standard && op->options[i - 1].standard)
				fail_msg("%s: %s comes too late", op->name, op->options[i].name);
	}
}

#define CHECK(truth)                                                                               \
	do {                                                                                       \
		if (!(truth))                                                                      \
			fail_msg("%s: not %s", op->name, #truth);                                  \
	} while (0)

static void traits_go_together(void **state)
{
	const struct tw_op *op;

	for (size_t k = 0; (op = tw_op_at(k)); k++) {
		const uint32_t t = op->traits;
		const bool never_runs = (t & TW_OP_PASSES) && !(t & TW_OP_DRAWS);

		CHECK(op->ins >= 1 && op->ins <= TW_OP_INS);
		CHECK(op->form && op->reference && op->samples);
		CHECK(op->forward || never_runs);
		CHECK(op->backward || never_runs || (t & TW_OP_ADDS));
		CHECK(!op->kernel_bytes || op->prepare);
		CHECK(!(t & TW_OP_IN_PLACE) || !(t & TW_OP_READS_IN));
		CHECK(!(t & TW_OP_IS_RELU) || ((t & TW_OP_IN_PLACE) && !op->options));
		CHECK(!(t & TW_OP_ADDS) || op->ins == 2);
		CHECK(!(t & TW_OP_PASSES) || op->ins == 1);
		CHECK(!(t & TW_OP_READS_NUMBERS) || op->ins == 1);
		CHECK(!(t & TW_OP_FLATTENS) || ((t & TW_OP_PASSES) && !op->options));
		for (const char *const *name = op->elsewhere; name && *name; name++)
			CHECK(!tw_op_find(*name));
		CHECK(!(t & TW_OP_LOSS) || !(t & (TW_OP_IN_PLACE | TW_OP_FOLLOWS_LAYOUT |
						  TW_OP_TAKES_RELU | TW_OP_PASSES)));
	}
}

/* The model puts these into a network by itself; there is one of each. */
static void structure_is_found_by_traits(void **state)
{
	static const enum tw_op_trait one[] = { TW_OP_FLATTENS, TW_OP_ADDS };

	for (size_t i = 0; i < sizeof one / sizeof one[0]; i++) {
		const struct tw_op *op;
		size_t count = 0;

		for (size_t k = 0; (op = tw_op_at(k)); k++)
			count += (op->traits & one[i]) != 0;
		assert_int_equal(count, 1);
		assert_true(tw_op_with(one[i])->traits & one[i]);
	}
}

static void samples_are_odd_enough(void **state)
{
	const struct tw_op *op;

	for (size_t k = 0; (op = tw_op_at(k)); k++) {
		bool odd = false, single = op->traits & TW_OP_RANDOM_BATCH;
		size_t count = 0;

		for (const struct tw_op_sample *s = op->samples; s->in.rank; s++, count++) {
			CHECK(s->text && s->in.rank <= 3);
			CHECK(s->in.rank != 2 || (op->traits & TW_OP_BY_POSITION));
			for (uint32_t d = 0; d < s->in.rank; d++)
				CHECK(s->in.d[d] > 0);
			odd |= s->in.d[0] % 16 != 0;
			single |= s->batch <= 1;
		}
		CHECK(count >= 2);
		CHECK(odd);
		CHECK(single);
	}
}

/* Taken with a possible shape, or refused with a sentence. */
static void form_one(const struct tw_op *op, const void *options, const struct tw_shape *in,
		     bool must_refuse)
{
	struct tw_op_form form = { 0 };
	struct tw_error why = { 0 };
	char first[40];
	const enum tw_status st = op->form(options, in, &form, &why);

	tw_shape_text(&in[0], first);
	if (st == TW_BAD_INPUT) {
		if (!one_line(why.text, sizeof why.text - 1) || strlen(why.text) < 10)
			fail_msg("%s on %s: '%s' is no sentence", op->name, first, why.text);
		return;
	}
	if (st != TW_OK || must_refuse)
		fail_msg("%s on %s: says %s", op->name, first, tw_status_name(st));
	assert_int_equal(why.text[0], '\0');
	if (op->traits & TW_OP_LOSS)
		return;
	CHECK(form.out.rank >= 1 && form.out.rank <= 3);
	for (uint32_t d = 0; d < form.out.rank; d++)
		CHECK(form.out.d[d] > 0);
	CHECK(form.parameters <= TW_OP_PARAMETERS);
	CHECK(form.flops >= form.products && form.products >= 0);
	for (uint32_t k = 0; k < form.parameters; k++) {
		const struct tw_op_parameter *p = &form.parameter[k];

		CHECK(p->name && p->rank >= 1 && p->rank <= 5);
		for (uint32_t d = 0; d < p->rank; d++)
			CHECK(p->d[d] > 0);
	}
}

static void check_forms(const struct tw_op *op, const void *options)
{
	static const struct tw_shape shapes[] = {
		{ 1, { 1 } },
		{ 1, { 2147483647 } },
		{ 2, { 1, 1 } },
		{ 2, { 7, 300000000 } },
		{ 2, { 2147483647, 1 } },
		{ 3, { 1, 1, 1 } },
		{ 3, { 2, 1, 3 } },
		{ 3, { 7, 1000000, 1 } },
		{ 3, { 46340, 1, 46340 } },
		{ 3, { 1, 3, 2147483 } },
	};
	const size_t count = sizeof shapes / sizeof *shapes;

	for (size_t i = 0; i < count; i++) {
		const struct tw_shape same[TW_OP_INS] = { shapes[i], shapes[i] };
		const struct tw_shape other[TW_OP_INS] = { shapes[i], shapes[(i + 1) % count] };

		if (shapes[i].rank == 2 && !(op->traits & TW_OP_BY_POSITION))
			continue; /* the graph refuses it */
		form_one(op, options, same, false);
		if (op->ins == 2)
			form_one(op, options, other, op->traits & TW_OP_ADDS);
	}
}

static void impossible_shapes_are_refused(void **state)
{
	const struct tw_op *op;

	for (size_t k = 0; (op = tw_op_at(k)); k++)
		for (const struct tw_op_sample *s = op->samples; s->in.rank; s++) {
			void *options = calloc(1, op->options_bytes + 1);
			struct tw_error why = { 0 };
			struct tw_arena keep;

			tw_arena_init(&keep, &tw_heap_system);
			assert_int_equal(tw_op_parse(op, s->text, options, &keep, &why), TW_OK);
			check_forms(op, options);
			tw_arena_release(&keep);
			free(options);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_good_and_unique),
		cmocka_unit_test(rows_are_good),
		cmocka_unit_test(traits_go_together),
		cmocka_unit_test(structure_is_found_by_traits),
		cmocka_unit_test(samples_are_odd_enough),
		cmocka_unit_test(impossible_shapes_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
