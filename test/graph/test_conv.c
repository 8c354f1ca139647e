/* SPDX-License-Identifier: Apache-2.0 */
/* test_conv.c - convolutions by hand, in layouts that this machine would not choose, with kernels
 * that are compiled for it, and what does not fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>

#include "graph/inner.h"
#include "graph/layouts.h"
#include "graph/nets.h"
#include "graph/oproom.h"
#include "base/machine/isa.h"

static const struct oproom_way usual = { .garbage = 0xff };

static void *parsed(const struct tw_op *op, const char *text)
{
	void *options = calloc(1, op->options_bytes);
	struct tw_error why = { 0 };

	if (tw_op_parse(op, text, options, NULL, &why) != TW_OK)
		fail_msg("%s %s: %s", op->name, text, why.text);
	return options;
}

static bool with_relu;

/* One sample through `text` by plain numbers; the caller frees. */
static float *by_hand(const char *name, const char *text, const struct tw_shape *in, const float *x,
		      const float *weight, const float *bias)
{
	const struct tw_op *op = tw_op_find(name);
	struct oproom room;
	struct oproom_result r;
	struct tw_op_site site[3];
	struct truth t;
	void *options = parsed(op, text);
	float *out;

	truth_make(&t, op, &(struct tw_op_sample){ text, *in }, options, 1, true);
	assert_int_equal(t.form.parameters, bias ? 2 : 1);
	memcpy(t.value[0], x, t.n[0] * sizeof *x);
	memcpy(t.value[TW_OP_INS], weight, t.n[TW_OP_INS] * sizeof *weight);
	if (bias)
		memcpy(t.value[TW_OP_INS + 1], bias, t.n[TW_OP_INS + 1] * sizeof *bias);
	assert_true(oproom_layouts(&t, site) > 0);
	site[0].relu = with_relu;
	oproom_make(&room, &t, &site[0]);
	r = oproom_run(&room, &usual);
	assert_null(r.wrong);
	out = malloc(t.outs * sizeof *out);
	memcpy(out, r.out, t.outs * sizeof *out);
	oproom_result_free(&r);
	oproom_free(&room);
	truth_free(&t);
	free(options);
	return out;
}

static void filters_are_not_turned_round(void **state)
{
	const struct tw_shape in = { 3, { 1, 2, 3 } };
	const float x[] = { 1, 2, 3, 4, 5, 6 };
	const float weight[] = { 1, 10, 100, 1000 };
	const float bias[] = { 0.5f };
	float *out = by_hand("conv", "1 2x2", &in, x, weight, bias);

	assert_true(out[0] == 5421.5f && out[1] == 6532.5f);
	free(out);
	out = by_hand("conv", "1 2x2 pad 0x1 stride 1x3 bias false", &in, x, weight, NULL);
	assert_true(out[0] == 4010 && out[1] == 603);
	free(out);
}

/* A ReLU that a layer takes makes 0 of what is negative, and of nothing else. */
static void what_is_not_a_number_stays(void **state)
{
	static const char *const names[] = { "conv", "local" };
	static const struct tw_shape in = { 3, { 1, 1, 4 } };
	const float x[] = { 1, (float)NAN, -3, 4 }, weight[] = { 1, 1, 1, 1 };

	(void)state;
	with_relu = true;
	for (size_t k = 0; k < 2; k++) {
		float *y = by_hand(names[k], "1 1x1 bias false", &in, x, weight, NULL);

		assert_true(y[0] == 1 && isnan(y[1]) && y[2] == 0 && y[3] == 4);
		free(y);
	}
	with_relu = false;
}

static void groups_see_their_own_channels(void **state)
{
	const struct tw_shape in = { 3, { 4, 1, 1 } };
	const float x[] = { 1, 10, 100, 1000 };
	const float weight[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	const float bias[] = { 0, 0, 0, 0 };
	const float want[] = { 21, 43, 6500, 8700 };
	float *out = by_hand("conv", "4 1 groups 2", &in, x, weight, bias);

	assert_memory_equal(out, want, sizeof want);
	free(out);
}

static void places_have_their_own_filters(void **state)
{
	const struct tw_shape in = { 3, { 2, 1, 2 } };
	const float x[] = { 1, 10, 100, 1000 }; /* channel, column */
	/* place, filter, channel */
	const float weight[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	const float bias[] = { 0.5f, 0.25f, 0.125f, 0 }; /* place, filter */
	const float want[] = { 201.5f, 6050.125f, 403.25f, 8070 };
	float *out = by_hand("local", "2 1", &in, x, weight, bias);

	assert_memory_equal(out, want, sizeof want);
	free(out);
}

/* The other instruction sets' layouts, and those that nobody chooses, give the same values. */
static void right_in_every_layout(void **state)
{
	const struct tw_op *op = tw_op_find("conv");

	for (const struct tw_op_sample *s = op->samples; s->in.rank; s++)
		for (uint32_t k = 0; k < 3; k++) {
			void *options = parsed(op, s->text);
			struct oproom room;
			struct oproom_result r;
			struct truth t;

			truth_make(&t, op, s, options, 2, true);
			t.site.in_layout[0] = t.site.out_layout = (enum tw_layout)k;
			t.site.wants[0] = true;
			snprintf(truth_where, sizeof truth_where, "conv %s in %s", s->text,
				 tw_layout_name((enum tw_layout)k));
			if (k != TW_LAYOUT_BLOCK16 ||
			    (s->in.d[0] % 16 == 0 && t.site.out.d[0] % 16 == 0)) {
				truth_differences(&t);
				oproom_make(&room, &t, &t.site);
				r = oproom_run(&room, &usual);
				oproom_near_truth(&room, &r, "in that layout");
				oproom_result_free(&r);
				oproom_free(&room);
			}
			truth_free(&t);
			free(options);
		}
}

/* Kernels that oneDNN compiles are hundreds of times as fast as its plain loops ("ref"), which it
 * takes without a word where a layout has nothing better. */
static void kernels_are_compiled(void **state)
{
	static const struct {
		const char *text;
		struct tw_shape in;
	} net[] = {
		{ "20 5x5", { 3, { 1, 28, 28 } } },
		{ "50 5x5", { 3, { 20, 12, 12 } } },
		{ "16 3x3 pad 1", { 3, { 3, 32, 32 } } },
		{ "16 3x3 pad 1 bias false", { 3, { 16, 32, 32 } } },
		{ "32 3x3 pad 1 stride 2", { 3, { 16, 32, 32 } } },
		{ "32 1x1 stride 2", { 3, { 16, 32, 32 } } },
		{ "64 3x3 pad 1", { 3, { 64, 8, 8 } } },
		{ "7 3x3", { 3, { 5, 9, 7 } } },
		{ "40 3x3 groups 2", { 3, { 20, 9, 9 } } },
		{ "24 3x3 groups 24 pad 1", { 3, { 24, 9, 9 } } },
		{ "32 7x7 stride 2 pad 3", { 3, { 3, 40, 40 } } },
	};
	const struct tw_op *op = tw_op_find("conv");

	for (size_t n = 0; n < sizeof net / sizeof *net; n++)
		for (uint32_t relu = 0; relu < 2; relu++) {
			void *options = parsed(op, net[n].text);
			struct tw_op_site site[3];
			struct oproom room;
			struct truth t;

			truth_make(&t, op, &(struct tw_op_sample){ net[n].text, net[n].in },
				   options, 2, true);
			assert_true(oproom_layouts(&t, site) > 0);
			site[0].relu = relu;
			site[0].wants[0] = true;
			oproom_make(&room, &t, &site[0]);
			for (uint32_t k = 0; k < tw_onednn_count(room.kit); k++)
				if (strstr(tw_onednn_implementation(room.kit, k), "ref"))
					fail_msg("conv %s: primitive %u is %s", net[n].text, k,
						 tw_onednn_implementation(room.kit, k));
			oproom_free(&room);
			truth_free(&t);
			free(options);
		}
}

static void the_table_of_layouts(void **state)
{
	enum tw_layout in, out;

	tw_layout_conv(1, 20, 1, &in, &out);
	assert_int_equal(in, TW_LAYOUT_PLAIN); /* one channel: nothing to move */
	assert_int_equal(out, tw_isa() == TW_ISA_PLAIN ? TW_LAYOUT_PLAIN : TW_LAYOUT_LAST);
	tw_layout_conv(20, 20, 20, &in, &out);
	assert_int_equal(in, TW_LAYOUT_LAST);
	assert_int_equal(out, TW_LAYOUT_LAST);
}

static void what_does_not_fit(void **state)
{
	static const struct {
		const char *layer, *says;
		struct tw_shape in;
	} bad[] = {
		{ "conv 4 5x5", "5x5 does not fit into 3x4x9", { 3, { 3, 4, 9 } } },
		{ "conv 4 3x3", "not 12 values in a row", { 1, { 12 } } },
		{ "conv 4 3x3 groups 3", "3 groups do not divide 4 channels", { 3, { 4, 9, 9 } } },
		{ "conv 4 3x3 groups 2", "2 groups do not divide 3 channels", { 3, { 3, 9, 9 } } },
		{ "conv 4 3x3 pad 3", "pad 3x3 must be smaller", { 3, { 3, 9, 9 } } },
		{ "conv 4 0x3", "size", { 3, { 3, 9, 9 } } },
		{ "conv 0 3", "filters", { 3, { 3, 9, 9 } } },
		{ "local 4 5x5", "5x5 does not fit", { 3, { 3, 4, 9 } } },
		{ "maxpool 3 pad 2", "more than half of the window", { 3, { 3, 9, 9 } } },
		{ "maxpool 10", "10x10 does not fit into 3x9x9", { 3, { 3, 9, 9 } } },
		{ "avgpool 2", "not 9 values in a row", { 1, { 9 } } },
		{ "globalpool", "not 9 values in a row", { 1, { 9 } } },
	};

	for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
		struct tw_graph *g = tw_graph_new(&tw_heap_system, &bad[k].in);
		struct tw_error why = { 0 };
		uint32_t id;

		assert_int_equal(net_try(g, bad[k].layer, 0, 0, &id, &why), TW_BAD_INPUT);
		if (!strstr(why.text, bad[k].says))
			fail_msg("%s: %s", bad[k].layer, why.text);
		tw_graph_free(g);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(filters_are_not_turned_round),
		cmocka_unit_test(what_is_not_a_number_stays),
		cmocka_unit_test(groups_see_their_own_channels),
		cmocka_unit_test(places_have_their_own_filters),
		cmocka_unit_test(right_in_every_layout),
		cmocka_unit_test(kernels_are_compiled),
		cmocka_unit_test(the_table_of_layouts),
		cmocka_unit_test(what_does_not_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
