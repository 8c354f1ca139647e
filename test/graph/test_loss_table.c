/* SPDX-License-Identifier: Apache-2.0 */
/* test_loss_table.c - every loss of the registry keeps loss.h's word: it computes on what it says
 * that it takes and refuses the rest, and it counts what is right where it says so.  (Values and
 * gradients: test_ops.c, which has every loss among the ops.) */
#include "graph/loss.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define BATCH 3
#define MOST  4 /* outputs */

struct given {
	const uint32_t *label;
	const float *target;
};

struct outcome {
	enum tw_status status;
	double loss, correct;
};

/* A batch of `n` outputs each through the loss, as in training. */
static struct outcome lose(const struct tw_loss *l, uint32_t n, const struct given *given)
{
	static const float z[BATCH * MOST] = { 0.5f, -1, 2,     0.25f, -3, 1,
					       1.5f, 0,  -0.5f, 0.75f, 2,  -2 };
	_Alignas(16) char options[256] = { 0 };
	float saved[BATCH * MOST];
	struct outcome o = { .loss = NAN, .correct = -7 };
	const struct tw_op_batch facts = { .label = given->label,
					   .target = given->target,
					   .loss = &o.loss,
					   .correct = &o.correct };
	struct tw_op_site site = { .options = options, .batch = BATCH, .ins = 1, .train = true };
	const struct tw_op_run run = { .in = { z }, .batch = &facts, .saved = saved };
	struct tw_op_memory need = { 0 };

	assert_true(l->op.options_bytes <= sizeof options);
	assert_int_equal(tw_op_parse(&l->op, "", options, NULL, NULL), TW_OK);
	site.in[0] = (struct tw_shape){ .rank = 1, .d = { n } };
	assert_int_equal(l->op.prepare(&site, NULL, NULL, &need), TW_OK);
	assert_true(need.saved <= sizeof saved);
	o.status = l->op.forward(&site, NULL, &run);
	return o;
}

static void expect(const struct tw_loss *l, const char *what, bool taken, uint32_t n,
		   const struct given *given)
{
	const struct outcome o = lose(l, n, given);

	if (o.status != (taken ? TW_OK : TW_BAD_INPUT) || (taken && !isfinite(o.loss)))
		fail_msg("%s says %s to %s, loss %g", l->op.name, tw_status_name(o.status), what,
			 o.loss);
}

static const uint32_t two[BATCH] = { 0, 1, 1 }, three[BATCH] = { 0, 2, 1 };
static const float sides[BATCH * MOST] = { 0, 1, 1, 0, 0, 1, 0, 0, 1, 1, 0, 1 };
static const float within[BATCH * MOST] = { 0.5f, 1, 0.25f, 0, 0, 1, 0, 0, 1, 1, 0, 1 };
static const float beyond[BATCH * MOST] = { 0, 1, 1, 0, 0, -2, 0, 0, 1, 1, 3, 1 };

static void what_it_takes_is_computed_and_nothing_else(void **state)
{
	for (size_t k = 0; tw_loss_all[k]; k++) {
		const struct tw_loss *l = tw_loss_all[k];
		const bool labels = l->takes & TW_LOSS_LABELS, pair = l->takes & TW_LOSS_PAIR;
		const bool targets = l->takes & TW_LOSS_TARGETS, unit = l->takes & TW_LOSS_UNIT;

		expect(l, "neither labels nor targets", false, 3, &(struct given){ NULL, NULL });
		expect(l, "labels of 3 classes", labels, 3, &(struct given){ three, NULL });
		expect(l, "a label beyond the outputs", false, 2, &(struct given){ three, NULL });
		if (!labels)
			expect(l, "labels of 2 classes", pair, 1, &(struct given){ two, NULL });
		expect(l, "targets of 0 and 1", targets, 4, &(struct given){ NULL, sides });
		expect(l, "targets within 0 and 1", targets, 4, &(struct given){ NULL, within });
		expect(l, "targets beyond", targets && !unit, 4, &(struct given){ NULL, beyond });
	}
}

static void what_is_right_is_counted_where_it_says_so(void **state)
{
	for (size_t k = 0; tw_loss_all[k]; k++) {
		const struct tw_loss *l = tw_loss_all[k];
		const bool labels = l->takes & TW_LOSS_LABELS;

		if (labels || (l->takes & TW_LOSS_PAIR)) {
			const struct given g = { labels ? three : two, NULL };
			const double c = lose(l, labels ? 3 : 1, &g).correct;

			if (l->judges ? !(c >= 0 && c <= BATCH) : c != -1)
				fail_msg("%s: %g of %d labels are right", l->op.name, c, BATCH);
		}
		if (l->takes & TW_LOSS_TARGETS) {
			const double c = lose(l, 4, &(struct given){ NULL, sides }).correct;

			if (l->judges ? !(c >= 0 && c <= BATCH) : c != -1)
				fail_msg("%s: %g of %d samples are right", l->op.name, c, BATCH);
			assert_true(lose(l, 4, &(struct given){ NULL, within }).correct == -1);
		}
	}
}

static void tables_are_whole(void **state)
{
	size_t usual[2] = { 0 };

	for (size_t k = 0; tw_loss_all[k]; k++) {
		const struct tw_loss *l = tw_loss_all[k];
		const bool values = l->takes & TW_LOSS_TARGETS;

		assert_true(l->op.traits & TW_OP_LOSS);
		assert_true(l->takes & (TW_LOSS_LABELS | TW_LOSS_PAIR | TW_LOSS_TARGETS));
		assert_true(values || !(l->takes & TW_LOSS_UNIT));
		assert_ptr_equal(tw_loss_find(l->op.name), l);
		assert_ptr_equal(tw_op_find(l->op.name), &l->op);
		assert_ptr_equal(tw_loss_of(&l->op), l);
		usual[0] += l->usual && (l->takes & TW_LOSS_LABELS);
		usual[1] += l->usual && values && !(l->takes & TW_LOSS_UNIT);
		assert_true(!l->usual || !(l->takes & TW_LOSS_UNIT));
	}
	assert_true(usual[0] == 1 && usual[1] == 1);
	assert_true(tw_loss_usual(true)->takes & TW_LOSS_LABELS);
	assert_true(tw_loss_usual(false)->takes & TW_LOSS_TARGETS);
	assert_null(tw_loss_find("relu"));
	assert_null(tw_loss_find(""));
}

/* All losses are ops, and all ops that are losses are in this registry. */
static void ops_that_are_losses_are_here(void **state)
{
	const struct tw_op *op;
	size_t losses = 0, count = 0;

	for (size_t k = 0; (op = tw_op_at(k)); k++)
		losses += (op->traits & TW_OP_LOSS) != 0;
	while (tw_loss_all[count])
		count++;
	assert_int_equal(losses, count);
	assert_true(count >= 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_it_takes_is_computed_and_nothing_else),
		cmocka_unit_test(what_is_right_is_counted_where_it_says_so),
		cmocka_unit_test(tables_are_whole),
		cmocka_unit_test(ops_that_are_losses_are_here),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
