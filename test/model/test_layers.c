/* SPDX-License-Identifier: Apache-2.0 */
/* test_layers.c - layer text becomes the graph it says, and what it cannot say is refused with the
 * layer's number, its words and the shapes. */
#include "base/refusing.h"
#include "model/nets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const struct tw_layer lenet[] = {
	L("conv 20 5x5"), L("relu"),       L("maxpool 2"), L("conv 50 5x5"), L("relu"),
	L("maxpool 2"),   L("linear 500"), L("relu"),      L("linear 10"),
};

static void expect_tensors(const struct tw_graph *g, const char *const *names)
{
	for (uint32_t k = 0; k < g->tensors || names[k]; k++) {
		assert_true(k < g->tensors);
		assert_non_null(names[k]);
		assert_string_equal(g->tensor[k].name, names[k]);
	}
}

static void names_are_those_of_sequential(void **state)
{
	static const char *const names[] = { "0.weight", "0.bias",   "3.weight",
					     "3.bias",   "6.weight", "6.bias",
					     "8.weight", "8.bias",   NULL };
	const struct tw_model_site site = site_of(1, 28, 28, 10);
	struct tw_graph *g = net_build(&site, lenet, COUNT(lenet));
	const struct tw_graph_tensor *w = tensor_of(g, "6.weight");

	expect_tensors(g, names);
	assert_int_equal(g->trainable, 431080);
	assert_int_equal(w->form.rank, 2);
	assert_int_equal(w->form.d[0], 500);
	assert_int_equal(w->form.d[1], 800);
	assert_true(g->node[g->nodes - 1].op->traits & TW_OP_LOSS);
	/* nine layers, the input, the loss, and one flatten that nobody wrote */
	assert_int_equal(g->nodes, 12);
	tw_graph_free(g);
}

static void residuals_have_bodies_and_shortcuts(void **state)
{
	static const char *const names[] = { "0.weight",
					     "0.bias",
					     "1.body.0.weight",
					     "1.body.0.bias",
					     "1.body.2.weight",
					     "1.body.2.bias",
					     "2.body.0.weight",
					     "2.body.0.bias",
					     "2.body.1.body.0.weight",
					     "2.body.1.body.0.bias",
					     "2.shortcut.0.weight",
					     "2.shortcut.0.bias",
					     "3.weight",
					     "3.bias",
					     NULL };
	struct tw_layer plain[] = { L("conv 4 3x3 pad 1"), L("relu"), L("conv 4 3x3 pad 1") };
	struct tw_layer inner[] = { L("conv 8 3x3 pad 1") };
	struct tw_layer body[] = { L("conv 8 3x3 pad 1 stride 2"), { .body = inner, .bodies = 1 } };
	struct tw_layer shortcut[] = { L("conv 8 1x1 stride 2") };
	const struct tw_layer all[] = {
		L("conv 4 3x3 pad 1"),
		{ .body = plain, .bodies = 3 },
		{ .body = body, .bodies = 2, .shortcut = shortcut, .shortcuts = 1 },
		L("linear 7"),
	};
	const struct tw_model_site site = site_of(3, 9, 9, 7);
	struct tw_graph *g = net_build(&site, all, COUNT(all));
	uint32_t adds = 0;

	expect_tensors(g, names);
	for (uint32_t k = 1; k < g->nodes; k++)
		if (g->node[k].op->traits & TW_OP_ADDS) {
			const struct tw_graph_node *n = &g->node[k];

			assert_true(tw_shape_same(&g->node[n->in[0]].shape, &n->shape));
			assert_true(tw_shape_same(&g->node[n->in[1]].shape, &n->shape));
			assert_int_not_equal(n->in[0], n->in[1]);
			adds++;
		}
	assert_int_equal(adds, 3);
	assert_int_equal(tensor_of(g, "3.weight")->form.d[1], 8 * 5 * 5);
	tw_graph_free(g);
}

static void a_layer_may_say_its_init(void **state)
{
	const struct tw_layer fine[] = { L("linear 5 init xavier-uniform bias false"),
					 L("linear 4") };
	const struct tw_model_site site = site_of(6, 0, 0, 4);
	struct tw_graph *g = net_build(&site, fine, 2);

	assert_int_equal(tensor_of(g, "0.weight")->init, TW_INIT_XAVIER_UNIFORM);
	assert_int_equal(tensor_of(g, "1.weight")->init, TW_INIT_HE);
	assert_int_equal(g->tensors, 3);
	tw_graph_free(g);
}

/* One wrong layer after a good one. */
static void wrong(const char *text, const char *sentence)
{
	const struct tw_model_site site = site_of(3, 12, 10, 10);
	struct tw_layer all[] = { L("relu"), L("linear 10") };
	char whole[700];

	all[1].text = text;
	all[1].place = "job.yaml:7";
	snprintf(whole, sizeof whole, "job.yaml:7: layer 2 of 2, '%s': %s", text, sentence);
	net_refused(&site, all, 2, whole);
}

static void wrong_words(void **state)
{
	wrong("cnov 3 3x3", "'cnov' is not a known layer; did you mean 'conv'?");
	wrong("Linear 3", "'Linear' is not a known layer; did you mean 'linear'?");
	wrong("dense 3", "'dense' is not a known layer; did you mean 'linear'?");
	wrong("residual", "a residual is written as a list, such as "
			  "residual: [conv 16 3x3 pad 1, relu]");
	wrong("", "is empty; an example is 'linear 10' or 'relu'");
	wrong(" ", "is empty; an example is 'linear 10' or 'relu'");
	wrong("add", "'add' needs two inputs; write residual: [...], which adds the output of "
		     "its layers to its input");
	wrong("cross-entropy", "'cross-entropy' is a loss, not a layer; write it as "
			       "loss: cross-entropy");
	wrong("linear 10 init xaver",
	      "'xaver' is not a known initialisation; did you mean 'xavier'?");
	wrong("linear 10 init",
	      "init needs a value: one of he, he-uniform, xavier, xavier-uniform, "
	      "lecun, torch, normal, zeros");
	wrong("linear 10 init he init he", "init is given twice");
	wrong("relu init he", "has no weights to initialise, so init cannot be given");
}

static void wrong_options(void **state)
{
	const struct tw_model_site site = site_of(3, 12, 10, 10);
	static const char *const texts[] = {
		"linear", "linear x",  "linear 0",  "linear 10 3", "linear 10 bias 7",
		"conv 3", "conv 3 3x", "dropout 2", "relu 3",      "linear 10 linear 10"
	};

	for (size_t k = 0; k < COUNT(texts); k++) {
		const struct tw_layer all[] = { { .text = texts[k], .place = "f:1" } };
		struct tw_error why = { 0 };
		struct tw_graph *g = NULL;
		char front[80];

		assert_int_equal(tw_model_build(&site, all, 1, &g, &why), TW_BAD_INPUT);
		snprintf(front, sizeof front, "f:1: layer 1 of 1, '%s': ", texts[k]);
		assert_memory_equal(why.text, front, strlen(front));
		assert_true(strlen(why.text) > strlen(front));
	}
}

static void impossible_shapes(void **state)
{
	const struct tw_layer all[] = { L("conv 8 8x8"), L("conv 8 9x9"), L("linear 10") };
	const struct tw_model_site site = site_of(3, 12, 12, 10), flat = site_of(30, 0, 0, 10);
	struct tw_error why = { 0 };
	struct tw_graph *g = NULL;

	assert_int_equal(tw_model_build(&site, all, 3, &g, &why), TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "layer 2 of 3, 'conv 8 9x9': "));
	assert_non_null(strstr(why.text, "9x9"));
	assert_non_null(strstr(why.text, "5x5"));
	memset(&why, 0, sizeof why);
	assert_int_equal(tw_model_build(&flat, all, 3, &g, &why), TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "layer 1 of 3, 'conv 8 8x8': "));
	assert_non_null(strstr(why.text, "30"));
}

static void residuals_that_do_not_fit(void **state)
{
	const struct tw_model_site site = site_of(3, 12, 12, 10), flat = site_of(30, 0, 0, 10);
	struct tw_layer half[] = { L("conv 32 3x3 pad 1 stride 2") },
			wide[] = { L("conv 5 3x3 pad 1") };
	struct tw_layer fifty[] = { L("linear 50") }, typo[] = { L("relu"), L("linaer 5") };
	struct tw_layer all[] = { L("relu"),
				  { .body = half, .bodies = 1, .place = "a:3" },
				  L("linear 10") };

	net_refused(&site, all, 3,
		    "a:3: layer 2 of 3, a residual: its body gives 32x6x6, but its input is "
		    "3x12x12; give it shortcut: [conv 32 1x1 stride 2]");
	all[1].shortcut = wide;
	all[1].shortcuts = 1;
	net_refused(&site, all, 3,
		    "a:3: layer 2 of 3, a residual: its body gives 32x6x6, but its shortcut gives "
		    "5x12x12; only equal shapes can be added");
	all[1].shortcut = typo;
	all[1].shortcuts = 2;
	net_refused(
		&site, all, 3,
		"a:3: layer 2 shortcut 2, 'linaer 5': 'linaer' is not a known layer; did you mean "
		"'linear'?");
	all[1] = (struct tw_layer){ .body = wide, .bodies = 1 };
	net_refused(&site, all, 3,
		    "layer 2 of 3, a residual: its body gives 5x12x12, but its input is 3x12x12; "
		    "give it shortcut: [conv 5 1x1]");
	all[1].body = typo;
	all[1].bodies = 2;
	net_refused(&site, all, 3,
		    "layer 2.2, 'linaer 5': 'linaer' is not a known layer; did you mean 'linear'?");
	all[1].body = fifty;
	all[1].bodies = 1;
	net_refused(&flat, all, 3,
		    "layer 2 of 3, a residual: its body gives 50, but its input is 30; give it "
		    "shortcut: [linear 50]");
	all[1].bodies = 0;
	net_refused(&flat, all, 3,
		    "layer 2 of 3, a residual: has no layers; an example is residual: [conv 16 3x3 "
		    "pad 1, relu]");
}

static void depth_has_an_end(void **state)
{
	const struct tw_model_site site = site_of(6, 0, 0, 6);
	struct tw_layer nest[6] = { L("linear 6") };

	for (int k = 1; k < 6; k++)
		nest[k] = (struct tw_layer){ .body = &nest[k - 1], .bodies = 1 };
	tw_graph_free(net_build(&site, &nest[TW_LAYERS_DEPTH], 1));
	net_refused(&site, &nest[5], 1,
		    "layer 1.1.1.1.1, a residual: residuals can be nested at most 4 deep");
}

/* Shortcuts in shortcuts have names so long that the graph could not keep them. */
static void names_have_an_end(void **state)
{
	const struct tw_model_site site = site_of(6, 0, 0, 6);
	struct tw_layer one[] = { L("linear 6") }, nest[5] = { L("linear 6") };

	for (int k = 1; k < 5; k++)
		nest[k] = (struct tw_layer){
			.body = one, .bodies = 1, .shortcut = &nest[k - 1], .shortcuts = 1
		};
	tw_graph_free(net_build(&site, &nest[3], 1));
	net_refused(&site, &nest[4], 1,
		    "layer 1 shortcut 1 shortcut 1 shortcut 1 shortcut 1, 'linear 6': is inside "
		    "too many residuals: its name would be too long");
}

static void count_has_an_end(void **state)
{
	const struct tw_model_site site = site_of(6, 0, 0, 6);
	static struct tw_layer all[TW_LAYERS_MAX + 1], body[3];

	for (size_t k = 0; k < COUNT(all); k++)
		all[k] = (struct tw_layer)L("relu");
	for (size_t k = 0; k < COUNT(body); k++)
		body[k] = (struct tw_layer)L("relu");
	tw_graph_free(net_build(&site, all, TW_LAYERS_MAX));
	net_refused(&site, all, TW_LAYERS_MAX + 1, "the model has more than 1000 layers");
	all[0] = (struct tw_layer){ .body = body, .bodies = 3 };
	net_refused(&site, all, TW_LAYERS_MAX - 2, "the model has more than 1000 layers");
	net_refused(&site, all, 0,
		    "the model has no layers; an example is layers: [linear 100, relu, linear 10]");
}

/* Words in any order: a network or a sentence, and nothing else. */
static void words_at_random_do_no_harm(void **state)
{
	static const char *const words[] = { "3",      "5x5",   "0",        "-1",   "4294967296",
					     "1x0",    "bias",  "false",    "pad",  "stride",
					     "groups", "init",  "torch",    "nan",  "0.5",
					     "65536",  "1e300", "\xff\xfe", "%s%n", "255x255" };
	const struct tw_rng rng = tw_rng_make(4, TW_RNG_TEST);
	const struct tw_model_site site = site_of(3, 9, 8, 5);
	unsigned built = 0, all = 20000;
	size_t ops = 0;

	while (tw_op_at(ops))
		ops++;
	for (unsigned k = 0; k < all; k++) {
		char text[3][200];
		struct tw_layer layer[] = { L(text[0]), L(text[1]), L(text[2]), L("linear 5") };
		struct tw_error why = { 0 };
		struct tw_graph *g = NULL;
		enum tw_status status;

		for (size_t i = 0; i < 3; i++) {
			const uint64_t r = tw_rng_u64(&rng, k, i);
			int at = snprintf(text[i], 200, "%s", tw_op_at(r % ops)->name);

			for (uint64_t w = (r >> 32) % 5, b = 0; b < w; b++)
				at += snprintf(
					text[i] + at, 200 - (size_t)at, " %s",
					words[tw_rng_u64(&rng, k, 8 * (i + 1) + b) % COUNT(words)]);
		}
		layer[1].body = &layer[2];
		layer[1].bodies = 1;
		if (tw_rng_u64(&rng, k, 99) % 2)
			layer[1].text = NULL;
		status = tw_model_build(&site, layer, COUNT(layer), &g, &why);
		assert_true(status == TW_OK || status == TW_BAD_INPUT);
		assert_int_equal(status == TW_OK, why.text[0] == 0);
		built += status == TW_OK;
		tw_graph_free(g);
	}
	assert_true(built > all / 1000 && built < all / 2);
}

static void without_memory(void **state)
{
	struct tw_model_site site = site_of(1, 28, 28, 10);
	struct tw_layer body[] = { L("linear 10 init torch") };
	struct tw_layer all[COUNT(lenet) + 1];
	unsigned refusals = 0;

	memcpy(all, lenet, sizeof lenet);
	all[COUNT(lenet)] = (struct tw_layer){ .body = body, .bodies = 1 };
	for (unsigned nth = 1;; nth++) {
		struct refusing r = REFUSING(nth);
		struct tw_error why = { 0 };
		struct tw_graph *g = NULL;
		enum tw_status status;

		site.heap = &r.heap;
		status = tw_model_build(&site, all, COUNT(all), &g, &why);
		if (status == TW_OK) {
			tw_graph_free(g);
			assert_int_equal(r.live, 0);
			break;
		}
		assert_int_equal(status, TW_NO_MEMORY);
		assert_int_equal(why.status, TW_NO_MEMORY);
		assert_null(g);
		assert_int_equal(r.live, 0);
		refusals++;
	}
	assert_true(refusals > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_those_of_sequential),
		cmocka_unit_test(residuals_have_bodies_and_shortcuts),
		cmocka_unit_test(a_layer_may_say_its_init),
		cmocka_unit_test(wrong_words),
		cmocka_unit_test(wrong_options),
		cmocka_unit_test(impossible_shapes),
		cmocka_unit_test(residuals_that_do_not_fit),
		cmocka_unit_test(depth_has_an_end),
		cmocka_unit_test(names_have_an_end),
		cmocka_unit_test(count_has_an_end),
		cmocka_unit_test(words_at_random_do_no_harm),
		cmocka_unit_test(without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
