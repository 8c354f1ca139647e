/* SPDX-License-Identifier: Apache-2.0 */
/* test_program.c - programs against the same graph in slow double, in threads, without memory. */
/* labels: threads */
#include "base/refusing.h"
#include "graph/nets.h"
#include "graph/slow.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define RANDOM_NETS 120

/* ||fast - slow|| / ||slow|| over at most `most` elements of the trainable vector. */
static double gradient_error(const struct net_run *r, struct slow *s, size_t most)
{
	const size_t n = r->graph->trainable, every = n / most + 1;
	double wrong = 0, whole = 0;

	for (size_t i = 0; i < n; i += every) {
		const double truth = slow_gradient(s, i), e = (double)r->gradient[i] - truth;

		wrong += e * e;
		whole += truth * truth;
	}
	return wrong == 0 ? 0 : sqrt(wrong / (whole > 1e-12 ? whole : 1e-12));
}

static void agrees(const struct tw_graph *g, uint32_t batch, uint64_t seed, size_t most)
{
	const struct tw_graph_node *loss = &g->node[g->nodes - 1];
	const size_t size = batch * tw_shape_size(&g->node[loss->in[0]].shape);
	struct net_run r;
	struct slow s;
	double truth;

	net_run_init(&r, g, TW_PROGRAM_TRAIN, batch, seed);
	slow_init(&s, g, TW_PROGRAM_TRAIN, batch, seed, r.x, r.vector, &r.run.batch);
	net_run_go(&r);
	truth = slow_loss(&s);
	assert_true(fabs(r.loss / batch - truth) <= 2e-5 * (1 + fabs(truth)));
	for (size_t i = 0; i < size; i++)
		assert_true(fabs((double)r.prediction[i] - s.value[loss->in[0]][i]) <=
			    2e-4 * (1 + fabs(s.value[loss->in[0]][i])));
	assert_true(gradient_error(&r, &s, most) < 2e-4);
	slow_release(&s);
	net_run_release(&r);
}

static void random_nets_have_their_gradients(void **state)
{
	for (uint64_t seed = 0; seed < RANDOM_NETS; seed++) {
		struct tw_graph *g = net_random(&tw_heap_system, seed);

		agrees(g, seed % 3 == 0 ? 1 : seed % 3 == 1 ? 2 : 5, seed, 60);
		tw_graph_free(g);
	}
}

static void random_images_have_their_gradients(void **state)
{
	for (uint64_t seed = 0; seed < RANDOM_NETS / 2; seed++) {
		struct tw_graph *g = net_random_image(&tw_heap_system, seed);

		agrees(g, 2 + (uint32_t)seed % 3, seed, 20);
		tw_graph_free(g);
	}
}

static struct tw_graph *begin(const struct tw_shape *in)
{
	struct tw_graph *g = tw_graph_new(&tw_heap_system, in);

	assert_non_null(g);
	return g;
}

/* The end of a graph: three numbers of the sum of two flat values, against its slow self. */
static void sum_agrees(struct tw_graph *g, uint32_t a, uint32_t b)
{
	uint32_t sum = net_layer(g, "add", b, a);

	sum = net_layer(g, "linear 3", sum, 0);
	net_layer(g, "mean-squared", sum, 0);
	assert_int_equal(tw_graph_finish(g, NULL), TW_OK);
	agrees(g, 2, 7, 40);
	tw_graph_free(g);
}

/* Two halves of a transformer's block, then both recurrent layers. */
static void sequences_have_their_gradients(void **state)
{
	const struct tw_shape in = { .rank = 1, .d = { 5 } };
	struct tw_graph *g = begin(&in);
	uint32_t a = net_layer(g, "positions", net_layer(g, "embedding 7 6", 0, 0), 0), b;

	b = net_layer(g, "linear 18", net_layer(g, "layernorm", a, 0), 0);
	b = net_layer(g, "linear 6", net_layer(g, "attention 2", b, 0), 0);
	a = net_layer(g, "add", b, a);
	b = net_layer(g, "linear 10", net_layer(g, "rmsnorm", a, 0), 0);
	b = net_layer(g, "linear 6", net_layer(g, "gelu", b, 0), 0);
	a = net_layer(g, "dropout 0.2", net_layer(g, "add", b, a), 0);
	a = net_layer(g, "gru 4", net_layer(g, "lstm 5", a, 0), 0);
	net_layer(g, "cross-entropy smoothing 0.1", net_layer(g, "linear 7", a, 0), 0);
	assert_int_equal(tw_graph_finish(g, NULL), TW_OK);
	for (uint32_t batch = 1; batch <= 3; batch++)
		agrees(g, batch, batch, 60);
	tw_graph_free(g);
}

/* Images: layouts that differ between neighbours, and a value that is read in two of them. */
static void images_have_their_gradients(void **state)
{
	const struct tw_shape in = { .rank = 3, .d = { 3, 9, 9 } };
	struct tw_graph *g;
	uint32_t a, b, c;

	g = net_line(&tw_heap_system, &in,
		     "conv 16 3x3 pad 1; relu; maxpool 2; conv 32 3x3; relu; flatten; linear 5; "
		     "cross-entropy");
	for (uint32_t batch = 1; batch <= 3; batch++)
		agrees(g, batch, batch, 40);
	tw_graph_free(g);

	g = begin(&in);
	a = net_layer(g, "conv 16 3x3 pad 1", 0, 0);
	b = net_layer(g, "tanh", a, 0);
	c = net_layer(g, "conv 16 3x3 pad 1", b, 0);
	b = net_layer(g, "add", c, b);
	b = net_layer(g, "tanh", b, 0);
	a = net_layer(g, "flatten", a, 0);
	b = net_layer(g, "flatten", b, 0);
	sum_agrees(g, a, b);
}

/* Planes of one value, or a single plane, are the same bytes in several layouts. */
static void layouts_that_are_the_same_have_their_gradients(void **state)
{
	static const char *const lines[] = {
		"conv 16 3x3; tanh; maxpool 7; flatten; linear 4; cross-entropy",
		"conv 5 9x9; relu; flatten; linear 4; cross-entropy",
		"conv 5 9x9; batchnorm; tanh; conv 7 1x1; flatten; linear 4; cross-entropy",
		"maxpool 9; conv 8 1x1; tanh; flatten; linear 4; cross-entropy",
		"conv 1 3x3; tanh; conv 6 3x3; avgpool 5; flatten; cross-entropy",
		"conv 1 3x3; tanh; flatten; linear 3; mean-squared",
	};
	const struct tw_shape in = { .rank = 3, .d = { 3, 9, 9 } };
	struct tw_graph *g;
	uint32_t a, b;

	(void)state;
	for (size_t k = 0; k < sizeof lines / sizeof *lines; k++) {
		g = net_line(&tw_heap_system, &in, lines[k]);
		for (uint32_t batch = 1; batch <= 3; batch += 2)
			agrees(g, batch, k, 40);
		tw_graph_free(g);
	}
	g = begin(&in);
	a = net_layer(g, "conv 6 9x9", 0, 0);
	b = net_layer(g, "conv 6 1x1", a, 0);
	b = net_layer(g, "tanh", b, 0);
	b = net_layer(g, "add", b, a);
	a = net_layer(g, "flatten", a, 0);
	b = net_layer(g, "flatten", b, 0);
	b = net_layer(g, "tanh", b, 0);
	sum_agrees(g, a, b);
}

static struct tw_graph *small(struct tw_heap *heap)
{
	const struct tw_shape in = { .rank = 1, .d = { 33 } };

	return net_line(heap, &in, "linear 40; relu; linear 17; tanh; linear 10; cross-entropy");
}

static void evaluation_is_the_forward_half(void **state)
{
	struct tw_graph *g = small(&tw_heap_system);
	struct net_run train, evaluate;

	for (uint32_t batch = 1; batch < 70; batch += 23) {
		net_run_init(&train, g, TW_PROGRAM_TRAIN, batch, 3);
		net_run_init(&evaluate, g, TW_PROGRAM_EVALUATE, batch, 3);
		net_run_go(&train);
		net_run_go(&evaluate);
		assert_memory_equal(&train.loss, &evaluate.loss, sizeof train.loss);
		assert_true(train.correct == evaluate.correct);
		assert_memory_equal(train.prediction, evaluate.prediction, batch * 10 * 4);
		assert_true(tw_program_bytes(evaluate.program) <= tw_program_bytes(train.program));
		net_run_release(&train);
		net_run_release(&evaluate);
	}
	tw_graph_free(g);
}

static void predictions_are_counted(void **state)
{
	struct tw_graph *g = small(&tw_heap_system);
	struct net_run r;
	double right = 0;

	net_run_init(&r, g, TW_PROGRAM_EVALUATE, 64, 11);
	net_run_go(&r);
	for (uint32_t b = 0; b < 64; b++) {
		uint32_t best = 0;

		for (uint32_t i = 1; i < 10; i++)
			if (r.prediction[b * 10 + i] > r.prediction[b * 10 + best])
				best = i;
		right += best == r.label[b];
	}
	assert_true(r.correct == right && right > 0);
	net_run_release(&r);
	tw_graph_free(g);
}

struct runner {
	struct net_run *from;
	pthread_t thread;
	bool same;
};

static void *run_often(void *arg)
{
	struct runner *w = arg;
	const size_t n = w->from->graph->trainable * sizeof(float);
	struct tw_program_run run = w->from->run;
	double loss, correct;
	void *arena = tw_heap_system.get(&tw_heap_system, w->from->arena_bytes + 1);
	float *gradient = malloc(n);

	run.gradient = gradient;
	run.prediction = NULL;
	run.batch.loss = &loss;
	run.batch.correct = &correct;
	w->same = arena && gradient;
	for (int k = 0; w->same && k < 50; k++)
		w->same = tw_program_run(w->from->program, arena, &run) == TW_OK &&
			  loss == w->from->loss && !memcmp(gradient, w->from->gradient, n);
	tw_heap_system.put(&tw_heap_system, arena);
	free(gradient);
	return NULL;
}

static void threads_share_a_program(void **state)
{
	struct tw_graph *g = small(&tw_heap_system);
	struct runner w[4];
	struct net_run r;

	net_run_init(&r, g, TW_PROGRAM_TRAIN, 9, 5);
	net_run_go(&r);
	for (size_t k = 0; k < 4; k++) {
		w[k] = (struct runner){ .from = &r };
		assert_int_equal(pthread_create(&w[k].thread, NULL, run_often, &w[k]), 0);
	}
	for (size_t k = 0; k < 4; k++) {
		pthread_join(w[k].thread, NULL);
		assert_true(w[k].same);
	}
	net_run_release(&r);
	tw_graph_free(g);
}

static enum tw_status build_and_run(struct tw_heap *heap)
{
	static const char *const layers[] = { "linear 7", "relu", "linear 7", "linear 3" };
	const struct tw_shape in = { .rank = 1, .d = { 5 } };
	struct tw_graph *g = tw_graph_new(heap, &in);
	enum tw_status st = g ? TW_OK : TW_NO_MEMORY;
	struct tw_program *p = NULL;
	float x[2 * 5] = { 1 }, vector[200] = { 0 }, gradient[200];
	const float *parameter[6];
	double loss, correct;
	uint32_t id = 0, label[2] = { 0, 1 };
	struct tw_program_run run = { .x = x, .parameter = parameter, .gradient = gradient };

	run.batch = (struct tw_op_batch){ .label = label, .loss = &loss, .correct = &correct };
	for (size_t k = 0; st == TW_OK && k < 4; k++)
		st = net_try(g, layers[k], id, 0, &id, NULL);
	if (st == TW_OK)
		st = net_try(g, "cross-entropy", id, 0, &id, NULL);
	if (st == TW_OK)
		st = tw_graph_finish(g, NULL);
	if (st == TW_OK)
		st = tw_program_new(g, TW_PROGRAM_TRAIN, 2, 1, &p, NULL);
	if (st == TW_OK) {
		void *arena = tw_heap_system.get(&tw_heap_system, tw_program_bytes(p));

		for (uint32_t t = 0; t < g->tensors; t++)
			parameter[t] = vector + g->tensor[t].from;
		st = tw_program_run(p, arena, &run);
		tw_heap_system.put(&tw_heap_system, arena);
	}
	tw_program_free(p);
	tw_graph_free(g);
	return st;
}

static void every_allocation_may_fail(void **state)
{
	for (unsigned nth = 1;; nth++) {
		struct refusing heap = REFUSING(nth);
		const enum tw_status st = build_and_run(&heap.heap);

		assert_int_equal(heap.live, 0);
		if (heap.calls < nth) {
			assert_int_equal(st, TW_OK);
			assert_true(nth > 10);
			return;
		}
		assert_int_equal(st, TW_NO_MEMORY);
	}
}

static void only_the_first_run_allocates(void **state)
{
	struct refusing heap = REFUSING(0);
	struct tw_graph *g = net_random(&heap.heap, 17);
	struct net_run r;
	unsigned calls;

	net_run_init(&r, g, TW_PROGRAM_TRAIN, 4, 17);
	net_run_go(&r);
	calls = heap.calls;
	for (int k = 0; k < 20; k++)
		net_run_go(&r);
	assert_int_equal(heap.calls, calls);
	net_run_release(&r);
	tw_graph_free(g);
	assert_int_equal(heap.live, 0);
}

static void a_run_can_be_cancelled(void **state)
{
	struct tw_graph *g = small(&tw_heap_system);
	_Atomic bool cancel = true;
	struct net_run r;

	net_run_init(&r, g, TW_PROGRAM_TRAIN, 4, 1);
	r.run.cancel = &cancel;
	assert_int_equal(tw_program_run(r.program, r.arena, &r.run), TW_CANCELLED);
	cancel = false;
	net_run_go(&r);
	net_run_release(&r);
	tw_graph_free(g);
}

static void wrong_labels_are_refused(void **state)
{
	struct tw_graph *g = small(&tw_heap_system);
	struct net_run r;

	net_run_init(&r, g, TW_PROGRAM_TRAIN, 4, 1);
	r.label[2] = 10;
	assert_int_equal(tw_program_run(r.program, r.arena, &r.run), TW_BAD_INPUT);
	r.run.batch.label = NULL;
	assert_int_equal(tw_program_run(r.program, r.arena, &r.run), TW_BAD_INPUT);
	net_run_release(&r);
	tw_graph_free(g);
}

static void what_nothing_depends_on_does_not_change(void **state)
{
	const struct tw_shape in = { .rank = 1, .d = { 4 } };
	struct tw_graph *g = tw_graph_new(&tw_heap_system, &in);
	struct net_run r;
	uint32_t last;

	assert_non_null(g);
	net_layer(g, "linear 3", 0, 0);
	last = net_layer(g, "linear 3", 0, 0);
	net_layer(g, "cross-entropy", last, 0);
	assert_int_equal(tw_graph_finish(g, NULL), TW_OK);
	net_run_init(&r, g, TW_PROGRAM_TRAIN, 4, 1);
	net_run_go(&r);
	for (size_t i = 0; i < g->tensor[2].from; i++)
		assert_true(r.gradient[i] == 0);
	assert_true(r.gradient[g->tensor[2].from] != 0);
	net_run_release(&r);
	tw_graph_free(g);
}

/* A linear layer applies the ReLU behind it, and no gradient of the input is computed. */
static void steps_are_what_they_should_be(void **state)
{
	struct tw_graph *g = small(&tw_heap_system);
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);
	struct net_run r;

	net_run_init(&r, g, TW_PROGRAM_TRAIN, 8, 1);
	assert_non_null(out);
	tw_program_describe(r.program, out);
	fclose(out);
	assert_non_null(strstr(text, "0 linear 33 -> 40 with relu by "));
	assert_null(strstr(text, "forward       1 relu"));
	assert_non_null(strstr(text, "backward      1 relu 40 -> 40 in place"));
	assert_non_null(strstr(text, "forward       3 tanh 17 -> 17 in place"));
	/* 5 forward, 6 backward */
	assert_int_equal(tw_program_plan(r.program)->steps, 11);
	/* 3 products of each layer, but no gradient of the input */
	assert_true(tw_program_products(r.program) ==
		    8 * 2.0 * (2 * 33 * 40 + 3 * 40 * 17 + 3 * 17 * 10));
	free(text);
	net_run_release(&r);
	tw_graph_free(g);
}

static void shapes_that_do_not_fit_are_named(void **state)
{
	const struct tw_shape in = { .rank = 3, .d = { 3, 4, 5 } };
	struct tw_graph *g = tw_graph_new(&tw_heap_system, &in);
	struct tw_error why = { 0 };
	uint32_t id;

	assert_non_null(g);
	assert_int_equal(net_try(g, "linear 5", 0, 0, &id, &why), TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "3x4x5"));
	assert_int_equal(g->nodes, 1);
	assert_int_equal(g->tensors, 0);
	why = (struct tw_error){ 0 };
	assert_int_equal(tw_graph_finish(g, &why), TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "loss"));
	tw_graph_free(g);
}

static void the_vector_is_laid_out(void **state)
{
	struct tw_graph *g = small(&tw_heap_system);
	size_t from = 0;

	assert_int_equal(g->tensors, 6);
	for (uint32_t t = 0; t < g->tensors; t++) {
		assert_int_equal(g->tensor[t].from, from);
		assert_int_equal(g->node[g->tensor[t].node].tensor[g->tensor[t].index], t);
		from += g->tensor[t].n;
	}
	assert_int_equal(from, g->trainable + g->buffers);
	assert_string_equal(g->tensor[0].name, "0.weight");
	assert_string_equal(g->tensor[3].name, "2.bias");
	tw_graph_free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_nets_have_their_gradients),
		cmocka_unit_test(random_images_have_their_gradients),
		cmocka_unit_test(images_have_their_gradients),
		cmocka_unit_test(sequences_have_their_gradients),
		cmocka_unit_test(layouts_that_are_the_same_have_their_gradients),
		cmocka_unit_test(evaluation_is_the_forward_half),
		cmocka_unit_test(predictions_are_counted),
		cmocka_unit_test(threads_share_a_program),
		cmocka_unit_test(every_allocation_may_fail),
		cmocka_unit_test(only_the_first_run_allocates),
		cmocka_unit_test(a_run_can_be_cancelled),
		cmocka_unit_test(wrong_labels_are_refused),
		cmocka_unit_test(what_nothing_depends_on_does_not_change),
		cmocka_unit_test(steps_are_what_they_should_be),
		cmocka_unit_test(shapes_that_do_not_fit_are_named),
		cmocka_unit_test(the_vector_is_laid_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
