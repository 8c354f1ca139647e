/* SPDX-License-Identifier: Apache-2.0 */
/* test_zoo.c - every network has exactly the parameters that its formula counts. */
#include "base/arena.h"
#include "base/refusing.h"
#include "model/nets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static struct tw_graph *zoo(const char *name, const char *const *settings,
			    const struct tw_model_site *site)
{
	struct tw_error why = { 0 };
	struct tw_graph *g = NULL;

	if (zoo_build(name, settings, site, &g, &why) != TW_OK)
		fail_msg("%s: %s", name, why.text);
	return g;
}

static size_t trainable(const char *name, const char *const *settings,
			const struct tw_model_site *site)
{
	struct tw_graph *g = zoo(name, settings, site);
	const size_t n = g->trainable;

	tw_graph_free(g);
	return n;
}

static void refused(const char *name, const char *const *settings, const struct tw_model_site *site,
		    const char *sentence)
{
	struct tw_error why = { 0 };
	struct tw_graph *g = NULL;

	assert_int_equal(zoo_build(name, settings, site, &g, &why), TW_BAD_INPUT);
	assert_string_equal(why.text, sentence);
}

#define SET(...)                                                                                   \
	(const char *const[])                                                                      \
	{                                                                                          \
		__VA_ARGS__, NULL                                                                  \
	}

/* Weights and biases of fully connected layers of these sizes. */
static size_t connected(const size_t *size, size_t count)
{
	size_t n = 0;

	for (size_t k = 1; k < count; k++)
		n += (size[k - 1] + 1) * size[k];
	return n;
}

static const struct tw_model_site *images(uint32_t channels, uint32_t side, uint32_t classes)
{
	static struct tw_model_site site;

	site = site_of(channels, side, side, classes);
	return &site;
}

static void mlp(void **state)
{
	const struct tw_model_site flat = site_of(13, 0, 0, 3);
	struct tw_model_site binary = site_of(13, 0, 0, 2);
	const size_t small[] = { 13, 7, 5, 4, 3 };

	assert_int_equal(trainable("mlp", NULL, images(1, 28, 10)), 669706);
	assert_int_equal(trainable("mlp", SET("hidden", "[7, 5, 4]"), &flat), connected(small, 5));
	assert_int_equal(trainable("mlp", SET("hidden", "[]"), &flat), 14 * 3);
	binary.loss = "binary-cross-entropy";
	assert_int_equal(trainable("mlp", SET("hidden", "[]"), &binary), 14);
	assert_int_equal(trainable("mlp", SET("dropout", "0.5", "activation", "leaky-relu"),
				   images(1, 28, 10)),
			 669706);
	/* a linear model beside the hidden layers, whatever the shape of the input */
	assert_int_equal(trainable("mlp", SET("hidden", "[7, 5, 4]", "shortcut", "true"), &flat),
			 connected(small, 5) + 14 * 3);
	assert_int_equal(trainable("mlp", SET("shortcut", "true"), images(1, 28, 10)),
			 669706 + 785 * 10);
	refused("mlp", SET("hidden", "[7, 5.5]"), &flat,
		"hidden: needs whole numbers from 1 to 1000000, such as [512, 512], not 5.5");
}

static void mlp_says_what_it_was_told(void **state)
{
	static const char *const ops[] = { "flatten", "linear",  "gelu",   "dropout",      "linear",
					   "gelu",    "dropout", "linear", "cross-entropy" };
	struct tw_graph *g =
		zoo("mlp", SET("dropout", "0.25", "activation", "gelu"), images(1, 8, 10));

	assert_int_equal(g->nodes, COUNT(ops) + 1);
	for (size_t k = 0; k < COUNT(ops); k++)
		assert_string_equal(g->node[k + 1].op->name, ops[k]);
	assert_int_equal(tensor_of(g, "0.weight")->form.d[1], 64);
	tensor_of(g, "3.weight");
	tensor_of(g, "6.bias");
	tw_graph_free(g);
}

static size_t lenet_count(size_t channels, size_t side, size_t classes)
{
	const size_t last = ((side - 4) / 2 - 4) / 2;
	const size_t size[] = { 50 * last * last, 500, classes };

	return (channels * 25 + 1) * 20 + (20 * 25 + 1) * 50 + connected(size, 3);
}

static void lenet(void **state)
{
	struct tw_graph *g;

	assert_int_equal(trainable("lenet", NULL, images(1, 28, 10)), 431080);
	assert_int_equal(trainable("lenet", NULL, images(3, 32, 100)), lenet_count(3, 32, 100));
	assert_int_equal(trainable("lenet", NULL, images(1, 16, 2)), lenet_count(1, 16, 2));
	g = zoo("lenet", SET("activation", "tanh", "pool", "average"), images(1, 28, 10));
	assert_string_equal(g->node[2].op->name, "tanh");
	assert_string_equal(g->node[3].op->name, "avgpool");
	assert_int_equal(g->trainable, 431080);
	tw_graph_free(g);
	refused("lenet", NULL, images(1, 15, 10),
		"lenet needs images of at least 16x16, but a sample of the data is 1x15x15");
}

static void autoencoder(void **state)
{
	struct tw_model_site site = site_of(1, 28, 28, 0);
	const size_t size[] = { 784, 512, 64, 512, 784 }, one[] = { 784, 9, 784 };
	struct tw_graph *g;

	refused("autoencoder", NULL, images(1, 28, 10),
		"an autoencoder predicts its input of 784 values, but the data asks it to predict "
		"10 classes");
	site.loss = "mean-squared";
	site.targets = 784;
	assert_int_equal(trainable("autoencoder", NULL, &site), connected(size, 5));
	site.loss = "binary-cross-entropy";
	assert_int_equal(trainable("autoencoder", SET("hidden", "[9]"), &site), connected(one, 3));
	site.in = (struct tw_shape){ .rank = 1, .d = { 784 } };
	assert_true(tw_zoo_find("autoencoder")->predicts_input);
	site.loss = NULL; /* that of values */
	g = zoo("autoencoder", NULL, &site);
	assert_int_equal(tensor_of(g, "2.weight")->form.d[0], 64);
	assert_int_equal(tensor_of(g, "4.weight")->form.d[0], 512);
	tw_graph_free(g);
	refused("autoencoder", SET("hidden", "[]"), &site,
		"hidden: an autoencoder needs at least one size, such as [512, 64]");
	site.targets = 5;
	refused("autoencoder", NULL, &site,
		"an autoencoder predicts its input of 784 values, but the data asks it to predict "
		"5 target values");
}

/* Convolutions without bias, two numbers of each normalisation per filter; running mean and
 * variance beside. */
static void resnet_count(size_t channels, size_t width, size_t blocks, size_t classes,
			 size_t *train, size_t *statistics)
{
	size_t in = width, filters = width;

	*train = channels * 9 * width;
	for (size_t stage = 0; stage < 3; stage++, in = width << (stage - 1)) {
		const size_t out = width << stage;

		for (size_t k = 0; k < blocks; k++) {
			*train += (k ? out : in) * 9 * out + out * 9 * out;
			filters += 2 * out;
		}
		if (stage) {
			*train += in * out;
			filters += out;
		}
	}
	*statistics = 2 * filters;
	*train += 2 * filters + (4 * width + 1) * classes;
}

static void resnet(const char *width, const char *blocks, size_t w, size_t b, uint32_t channels,
		   uint32_t side, uint32_t classes)
{
	struct tw_graph *g = zoo("resnet20", SET("width", width, "blocks", blocks),
				 images(channels, side, classes));
	size_t train, statistics;

	resnet_count(channels, w, b, classes, &train, &statistics);
	assert_int_equal(g->trainable, train);
	assert_int_equal(g->buffers, statistics);
	tw_graph_free(g);
}

static void resnet20(void **state)
{
	const struct tw_model_site flat = site_of(3072, 0, 0, 10);
	struct tw_graph *g = zoo("resnet20", NULL, images(3, 32, 10));
	uint32_t layers = 0;

	assert_int_equal(g->trainable, 272474);
	for (uint32_t k = 0; k < g->tensors; k++)
		layers += !g->tensor[k].form.buffer && g->tensor[k].form.rank > 1;
	assert_int_equal(layers, 20 + 2); /* and those in two shortcuts */
	assert_int_equal(tensor_of(g, "3.body.0.weight")->form.d[0], 16);
	assert_int_equal(tensor_of(g, "9.shortcut.0.weight")->form.d[0], 32);
	assert_int_equal(tensor_of(g, "9.shortcut.1.running_mean")->form.d[0], 32);
	assert_int_equal(tensor_of(g, "15.body.4.running_var")->form.d[0], 64);
	assert_int_equal(tensor_of(g, "22.weight")->form.d[1], 64);
	tw_graph_free(g);
	resnet("16", "3", 16, 3, 3, 32, 10);
	resnet("16", "3", 16, 3, 1, 28, 10);
	resnet("8", "1", 8, 1, 2, 8, 4);
	resnet("5", "9", 5, 9, 1, 17, 3);
	resnet("2", "40", 2, 40, 1, 9, 3);
	g = zoo("resnet20", SET("activation", "tanh", "pool", "max"), images(3, 32, 10));
	assert_string_equal(g->node[3].op->name, "tanh");
	assert_int_equal(g->trainable, 272474);
	tw_graph_free(g);
	g = zoo("resnet20", SET("pool", "max"), images(3, 17, 10));
	assert_string_equal(g->node[g->nodes - 4].op->name, "maxpool");
	assert_int_equal(g->node[g->nodes - 4].shape.d[1], 1);
	assert_int_equal(g->trainable, 272474);
	tw_graph_free(g);
	refused("resnet20", NULL, images(3, 7, 10),
		"resnet20 needs images of at least 8x8, but a sample of the data is 3x7x7");
	refused("resnet20", NULL, &flat,
		"resnet20 needs images of at least 8x8, but a sample of the data is 3072 values "
		"without height and width");
}

static size_t vgg_count(size_t channels, size_t side, size_t width, size_t hidden, size_t classes,
			size_t extra)
{
	const size_t size[] = { 2 * width * (side / 4) * (side / 4), hidden, classes };

	return (channels * 9 + extra) * width + (width * 9 + extra) * width +
	       (width * 9 + extra) * 2 * width + (2 * width * 9 + extra) * 2 * width +
	       connected(size, 3);
}

static void vgg_small(void **state)
{
	struct tw_graph *g;

	assert_int_equal(trainable("vgg-small", NULL, images(1, 28, 10)), 870634);
	assert_int_equal(trainable("vgg-small", NULL, images(3, 32, 10)),
			 vgg_count(3, 32, 32, 256, 10, 1));
	assert_int_equal(trainable("vgg-small", SET("width", "3", "hidden", "11", "dropout", "0.5"),
				   images(1, 5, 2)),
			 vgg_count(1, 5, 3, 11, 2, 1));
	g = zoo("vgg-small", SET("batchnorm", "true", "pool", "average"), images(3, 32, 10));
	assert_int_equal(g->trainable, vgg_count(3, 32, 32, 256, 10, 2));
	assert_int_equal(g->buffers, 2 * (32 + 32 + 64 + 64));
	tw_graph_free(g);
	refused("vgg-small", NULL, images(1, 3, 10),
		"vgg-small needs images of at least 4x4, but a sample of the data is 1x3x3");
}

static void strom_dnn(void **state)
{
	const struct tw_model_site speech = site_of(360, 0, 0, 3000), few = site_of(9, 0, 0, 2);
	const size_t size[] = { 360, 1536, 1536, 1536, 1536, 1536, 3000 }, two[] = { 9, 4, 4, 2 };
	struct tw_graph *g = zoo("strom-dnn", NULL, &speech);

	assert_int_equal(g->trainable, connected(size, 7));
	assert_true(g->trainable > 14550000 && g->trainable < 14650000);
	assert_string_equal(g->node[2].op->name, "sigmoid");
	tw_graph_free(g);
	assert_int_equal(trainable("strom-dnn", SET("layers", "2", "width", "4"), &few),
			 connected(two, 4));
}

/* Whoever adds a network has these for nothing. */
static void all_of_them(void **state)
{
	size_t count = 0;

	for (size_t k = 0; tw_zoo_all[k]; k++, count++) {
		const struct tw_zoo *z = tw_zoo_all[k];
		struct tw_model_site site = site_of(3, 32, 32, 10);
		unsigned refusals = 0;

		assert_ptr_equal(tw_zoo_find(z->name), z);
		assert_true(*z->help);
		if (z->predicts_input) {
			site.classes = 0;
			site.targets = 3 * 32 * 32;
			site.loss = NULL;
		}
		if (z->takes_tokens) {
			site = site_of(64, 0, 0, 256);
			site.tokens = true;
		}
		if (z->takes_series) {
			site = site_of(1 + 3 * 20, 0, 0, 4);
			site.series = 3;
		}
		for (unsigned nth = 1;; nth++) {
			struct refusing r = REFUSING(nth);
			struct tw_error why = { 0 };
			struct tw_graph *g = NULL;
			enum tw_status status;

			site.heap = &r.heap;
			status = zoo_build(z->name, NULL, &site, &g, &why);
			if (status == TW_OK)
				tw_graph_free(g);
			assert_int_equal(r.live, 0);
			if (status == TW_OK)
				break;
			assert_int_equal(status, TW_NO_MEMORY);
			refusals++;
		}
		assert_true(refusals > 5);
	}
	assert_true(count >= 6);
	assert_null(tw_zoo_find("resnet"));
}

/* n blocks of width w behind an embedding of v rows and t positions. */
static size_t gpt_count(size_t v, size_t t, size_t n, size_t w)
{
	const size_t norm = 2 * w, attention = connected((size_t[]){ w, 3 * w }, 2);
	const size_t hidden = connected((size_t[]){ w, 4 * w, w }, 3);

	return v * w + t * w + n * (norm + attention + (w + 1) * w + norm + hidden) + norm +
	       (w + 1) * v;
}

static void gpt(void **state)
{
	struct tw_model_site text = site_of(64, 0, 0, 256);
	struct tw_graph *g;
	struct tw_error why = { 0 };

	text.tokens = true;
	assert_int_equal(trainable("gpt", NULL, &text), gpt_count(256, 64, 4, 128));
	assert_int_equal(trainable("gpt", SET("layers", "2", "heads", "3", "width", "12"), &text),
			 gpt_count(256, 64, 2, 12));
	assert_int_equal(trainable("gpt", SET("dropout", "0.1", "layers", "1"), &text),
			 gpt_count(256, 64, 1, 128));
	g = zoo("gpt", SET("layers", "1", "width", "8"), &text);
	assert_int_equal(tensor_of(g, "0.weight")->form.d[0], 256);
	assert_int_equal(tensor_of(g, "1.weight")->form.d[0], 64);
	assert_int_equal(tensor_of(g, "2.body.1.weight")->form.d[0], 24);
	assert_int_equal(tensor_of(g, "3.body.3.weight")->form.d[1], 32);
	assert_int_equal(tensor_of(g, "5.weight")->form.d[0], 256);
	assert_true(g->node[g->nodes - 2].shape.rank == 2);
	assert_int_equal(g->node[g->nodes - 2].shape.d[0], 64);
	/* products: embedding none, then each position through every weight, and attention */
	assert_true(g->products ==
		    2.0 * 64 * (8 * 24 + 8 * 8 + 8 * 32 + 32 * 8 + 8 * 256) + 4.0 * 64 * 64 * 8);
	tw_graph_free(g);
	refused("gpt", SET("heads", "5"), &text,
		"heads: 5 do not divide the width 128; use, for example, width: 130");
	text.tokens = false;
	assert_int_equal(zoo_build("gpt", NULL, &text, &g, &why), TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "the data has no tokens"));
}

static void char_lstm(void **state)
{
	struct tw_model_site text = site_of(64, 0, 0, 256);
	struct tw_error why = { 0 };
	struct tw_graph *g;

	text.tokens = true;
	/* each of four gates: weights for what comes in and what came before, two biases */
	assert_int_equal(trainable("char-lstm", NULL, &text),
			 256 * 128 + 4 * 128 * (128 + 128 + 2) + 129 * 256);
	assert_int_equal(trainable("char-lstm", SET("layers", "3", "width", "10"), &text),
			 256 * 10 + 3 * 4 * 10 * (10 + 10 + 2) + 11 * 256);
	g = zoo("char-lstm", SET("layers", "2", "width", "8", "dropout", "0.5"), &text);
	assert_int_equal(tensor_of(g, "1.weight_ih_l0")->form.d[0], 32);
	assert_int_equal(tensor_of(g, "3.bias_hh_l0")->form.d[0], 32);
	tw_graph_free(g);
	text.tokens = false;
	assert_int_equal(zoo_build("char-lstm", NULL, &text, &g, &why), TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "the data has no tokens"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mlp),       cmocka_unit_test(mlp_says_what_it_was_told),
		cmocka_unit_test(lenet),     cmocka_unit_test(autoencoder),
		cmocka_unit_test(resnet20),  cmocka_unit_test(vgg_small),
		cmocka_unit_test(strom_dnn), cmocka_unit_test(gpt),
		cmocka_unit_test(char_lstm), cmocka_unit_test(all_of_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
