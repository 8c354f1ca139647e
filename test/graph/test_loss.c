/* SPDX-License-Identifier: Apache-2.0 */
/* test_loss.c - what is peculiar to losses: extremes, ties, what is right, what is refused. */
#include "graph/op.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct result {
	enum tw_status status;
	double loss, correct;
	float gradient[8];
};

/* One batch of `n` outputs each through the loss `name`. */
static struct result lose(const char *name, const char *text, uint32_t batch, uint32_t n,
			  const float *z, const uint32_t *label, const float *target)
{
	const struct tw_op *op = tw_op_find(name);
	_Alignas(8) char options[64];
	struct result r = { .correct = -7 };
	struct tw_op_site site = { .options = options, .batch = batch, .ins = 1, .train = true };
	struct tw_op_memory need = { 0 };
	struct tw_op_batch facts = { .label = label, .target = target };
	struct tw_op_run run = { .in = { z }, .batch = &facts };
	float saved[8];

	assert_non_null(op);
	assert_true(batch * n <= 8 && op->options_bytes <= sizeof options);
	assert_int_equal(tw_op_parse(op, text, options, NULL, NULL), TW_OK);
	site.in[0] = (struct tw_shape){ .rank = 1, .d = { n } };
	site.wants[0] = true;
	assert_int_equal(op->prepare(&site, NULL, NULL, &need), TW_OK);
	assert_true(need.saved <= sizeof saved);
	facts.loss = &r.loss;
	facts.correct = &r.correct;
	run.saved = saved;
	run.in_gradient[0] = r.gradient;
	r.status = op->forward(&site, NULL, &run);
	if (r.status == TW_OK)
		assert_int_equal(op->backward(&site, NULL, &run), TW_OK);
	return r;
}

static bool near(double a, double b)
{
	return fabs(a - b) <= 1e-6 * (1 + fabs(b));
}

static void huge_logits_stay_finite(void **state)
{
	const float z[] = { 1000, -1000, 0, -3e38f, 3e38f, 0 };
	const uint32_t label[] = { 1, 1 };
	const struct result r = lose("cross-entropy", "", 1, 3, z, label, NULL);

	assert_true(near(r.loss, 2000) && r.correct == 0);
	assert_true(near((double)r.gradient[0], 1) && near((double)r.gradient[1], -1));
	assert_true(r.gradient[2] == 0);
	assert_true(near(lose("cross-entropy", "", 1, 3, z + 3, label, NULL).loss, 0));
}

static void nan_is_seen(void **state)
{
	const float z[] = { NAN, 1, 2 }, p[] = { 1, NAN, 2 }, t[] = { 0, 0, 0 };
	const uint32_t label[] = { 0 };

	assert_true(isnan(lose("cross-entropy", "", 1, 3, z, label, NULL).loss));
	assert_true(isnan(lose("cross-entropy", "", 1, 3, p, label, NULL).loss));
	assert_true(lose("cross-entropy", "", 1, 3, z, label, NULL).correct == 0);
	assert_true(isnan(lose("mean-squared", "", 1, 3, p, NULL, t).loss));
	assert_true(isnan(lose("binary-cross-entropy", "", 1, 3, p, NULL, t).loss));
}

static void the_first_maximum_wins(void **state)
{
	const float z[] = { 1, 5, 5, 0, 5, 5, 5, 5 };
	const uint32_t first[] = { 1, 0 }, second[] = { 2, 3 };

	assert_true(lose("cross-entropy", "", 2, 4, z, first, NULL).correct == 2);
	assert_true(lose("cross-entropy", "", 2, 4, z, second, NULL).correct == 0);
}

/* Two samples of three classes by hand; smoothing as PyTorch's label_smoothing. */
static void losses_by_hand(void **state)
{
	const float z[] = { 0, 0, 0, 0, 0, 0 }, even[] = { 1, 2, 3, 4 }, t[] = { 0, 2, 1, 8 };
	const uint32_t label[] = { 2, 0 };
	struct result r = lose("cross-entropy", "", 2, 3, z, label, NULL);

	assert_true(near(r.loss, 2 * log(3)));
	assert_true(near((double)r.gradient[2], (1.0 / 3 - 1) / 2));
	r = lose("cross-entropy", "smoothing 0.3", 2, 3, z, label, NULL);
	assert_true(near(r.loss, 2 * log(3)));
	assert_true(near((double)r.gradient[2], (1.0 / 3 - 0.8) / 2));
	assert_true(near((double)r.gradient[0], (1.0 / 3 - 0.1) / 2));
	r = lose("mean-squared", "", 2, 2, even, NULL, t);
	assert_true(near(r.loss, 0.5 + 10) && r.correct == -1);
	assert_true(near((double)r.gradient[3], 2.0 * -4 / 4));
}

static void binary_sides(void **state)
{
	const float z[] = { 3, -2, -1, 4 }, t[] = { 1, 0, 0, 0 }, soft[] = { 1, 0.5f, 0, 0 };
	const uint32_t label[] = { 1, 0, 1, 1 };
	struct result r = lose("binary-cross-entropy", "", 2, 2, z, NULL, t);

	assert_true(r.correct == 1);
	assert_true(
		near(r.loss,
		     (log1p(exp(-3)) + log1p(exp(-2)) + log1p(exp(-1)) + 4 + log1p(exp(-4))) / 2));
	assert_true(lose("binary-cross-entropy", "", 2, 2, z, NULL, soft).correct == -1);
	assert_true(lose("binary-cross-entropy", "", 4, 1, z, label, NULL).correct == 3);
}

static void what_cannot_be_judged_is_refused(void **state)
{
	const float z[] = { 0, 1, 2, 3 }, t[] = { 0, 1, 1.5f, 0 };
	const uint32_t label[] = { 0, 2 };

	assert_int_equal(lose("cross-entropy", "", 2, 2, z, label, NULL).status, TW_BAD_INPUT);
	assert_int_equal(lose("cross-entropy", "", 2, 2, z, NULL, t).status, TW_BAD_INPUT);
	assert_int_equal(lose("mean-squared", "", 2, 2, z, label, NULL).status, TW_BAD_INPUT);
	assert_int_equal(lose("binary-cross-entropy", "", 2, 2, z, NULL, t).status, TW_BAD_INPUT);
	assert_int_equal(lose("binary-cross-entropy", "", 2, 2, z, label, NULL).status,
			 TW_BAD_INPUT);
	assert_int_equal(lose("binary-cross-entropy", "", 2, 1, z, label, NULL).status,
			 TW_BAD_INPUT);
}

static void classes_are_needed(void **state)
{
	const struct tw_op *op = tw_op_find("cross-entropy");
	const struct tw_shape one = { .rank = 1, .d = { 1 } };
	const struct tw_shape image = { .rank = 3, .d = { 2, 3, 4 } };
	struct tw_op_form form;
	struct tw_error why = { 0 };

	assert_int_equal(op->form(NULL, &one, &form, &why), TW_BAD_INPUT);
	why = (struct tw_error){ 0 };
	assert_int_equal(op->form(NULL, &image, &form, &why), TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "2x3x4"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(huge_logits_stay_finite),
		cmocka_unit_test(nan_is_seen),
		cmocka_unit_test(the_first_maximum_wins),
		cmocka_unit_test(losses_by_hand),
		cmocka_unit_test(binary_sides),
		cmocka_unit_test(what_cannot_be_judged_is_refused),
		cmocka_unit_test(classes_are_needed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
