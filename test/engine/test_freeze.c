/* SPDX-License-Identifier: Apache-2.0 */
/* test_freeze.c - frozen layers: everything else has the bits that it has without, stage by stage,
 * too; what is frozen has no gradient, and what only it would need is not computed. */
#include "engine/network.h"
#include "graph/inner.h"
#include "kit/near.h"
#include "model/model.h"
#include "staged.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define BATCH 6u

/* Every op with parameters, with a ReLU that is taken and one behind a pool. */
static const char *const mixed[] = {
	"conv 4 3x3 pad 1", "batchnorm", "relu",      "conv 6 5x5 stride 2",
	"groupnorm 2",      "prelu",     "maxpool 2", "local 3 3x3",
	"batchnorm",        "linear 14", "layernorm", "relu",
	"linear 13",        "tanh",      "linear 10", NULL,
};
/* Nothing bends: its loss can be followed by differences. */
static const char *const smooth[] = { "conv 3 5x5 stride 2", "batchnorm", "tanh",      "linear 9",
				      "layernorm",           "tanh",      "linear 10", NULL };

static struct tw_data *digits(const struct tw_data_options *o, struct tw_arena *keep)
{
	const struct tw_source *s = tw_source_find("digits");
	const struct tw_source_site site = { .heap = &tw_heap_system, .cache = "" };
	void *options = tw_arena_get(keep, s->options_bytes);
	struct tw_error why = { 0 };
	struct tw_data *data = NULL;

	memset(options, 0, s->options_bytes);
	assert_int_equal(tw_option_defaults(s->options, options, keep, &why), TW_OK);
	assert_int_equal(
		tw_option_set(tw_option_find(s->options, "count"), options, "36", keep, &why),
		TW_OK);
	assert_int_equal(
		tw_option_set(tw_option_find(s->options, "tests"), options, "30", keep, &why),
		TW_OK);
	assert_int_equal(tw_data_open(s, options, o, &site, 7, &data, &why), TW_OK);
	return data;
}

/* Bit k of `frozen`: layer k is. */
static struct tw_engine *opened(const char *const *layers, uint32_t frozen)
{
	struct tw_network_facts f = { .seed = 7, .batch = BATCH };
	struct tw_model_site site = { .heap = &tw_heap_system, .loss_place = "" };
	struct tw_layer layer[20] = { { NULL } };
	struct tw_error why = { 0 };
	struct tw_engine *e = NULL;
	struct tw_arena keep;
	size_t n = 0;
	bool node[64] = { false };

	tw_arena_init(&keep, &tw_heap_system);
	assert_int_equal(tw_option_defaults(tw_data_common_rows, &f.options, &keep, &why), TW_OK);
	f.data = digits(&f.options, &keep);
	site.in = (struct tw_shape){ 3, { 1, 28, 28 } };
	site.classes = f.data->classes;
	site.loss = "cross-entropy";
	for (; layers[n]; n++)
		layer[n] = (struct tw_layer){ .text = layers[n], .place = "" };
	if (tw_model_build(&site, layer, n, &f.graph, &why) != TW_OK)
		fail_msg("%s", why.text);
	for (uint32_t k = 1; k < f.graph->nodes; k++)
		node[k] = *f.graph->node[k].name >= '0' && *f.graph->node[k].name <= '9' &&
			  (frozen >> strtoul(f.graph->node[k].name, NULL, 10) & 1);
	tw_graph_freeze(f.graph, node);
	if (tw_network_open(&tw_heap_system, &f, &e, &why) != TW_OK)
		fail_msg("%s", why.text);
	tw_arena_release(&keep);
	return e;
}

static const struct tw_graph_tensor *find(const struct tw_graph *g, const char *name)
{
	for (uint32_t t = 0; t < g->tensors; t++)
		if (strcmp(g->tensor[t].name, name) == 0)
			return &g->tensor[t];
	return NULL;
}

static float *initial(const struct tw_engine *e)
{
	float *v = malloc(tw_engine_floats(e) * sizeof *v);

	assert_non_null(v);
	assert_int_equal(e->class->init(e, 0, tw_engine_floats(e), v), TW_OK);
	return v;
}

/* All cuts of a small list, with one batch on its way. */
static void stages_agree(const struct tw_engine *e, const float *w, const float *g)
{
	float *apart = malloc(tw_engine_moving(e) * sizeof *apart);
	const float *const same[] = { w, w };
	struct tw_score score;

	assert_non_null(apart);
	for (uint32_t k = 1; k + 1 < e->cuts; k++)
		for (enum staged_way way = 0; way < STAGED_WAYS; way++) {
			const struct staged s = staged_once(e, k, way);

			staged_gradients(&s, same, 0, BATCH, 1, apart, &score);
			same_floats(apart, g, tw_engine_moving(e), "cut %u, %s", k,
				    staged_names[way]);
		}
	free(apart);
}

static void everything_else_is_the_same(uint32_t frozen)
{
	struct tw_engine *all = opened(mixed, 0), *some = opened(mixed, frozen);
	const struct tw_graph *a = tw_network_graph(all), *b = tw_network_graph(some);
	float *wa = initial(all), *wb = initial(some);
	float *ga = malloc(tw_engine_moving(all) * sizeof *ga);
	float *gb = malloc(tw_engine_moving(some) * sizeof *gb);
	size_t left = 0;

	assert_true(ga && gb);
	same_score(fused_gradient(all, wa, 0, BATCH, ga), fused_gradient(some, wb, 0, BATCH, gb),
		   "frozen");
	for (uint32_t t = 0; t < b->tensors; t++) {
		const struct tw_graph_tensor *y = &b->tensor[t], *x = find(a, y->name);

		same_floats(wb + y->from, wa + x->from, y->n, "%s at first", y->name);
		if (y->frozen) {
			assert_true(y->from >= tw_engine_moving(some));
			continue;
		}
		same_floats(gb + y->from, ga + x->from, y->n, "frozen %x: %s", frozen, y->name);
		left += y->n;
	}
	assert_int_equal(left, tw_engine_moving(some));
	assert_int_equal(tw_engine_floats(some), tw_engine_floats(all));
	stages_agree(some, wb, gb);
	free(wa);
	free(wb);
	free(ga);
	free(gb);
	all->class->close(all);
	some->class->close(some);
}

static void test_everything_else_is_the_same(void **state)
{
	static const uint32_t frozen[] = {
		0x1,    0x3,    0x1b,   0x1bb,  0x7bb, 0x17bb, /* from the first on */
		0x4000, 0x1000, 0x0400, 0x0100, 0x082, 0x0020, 0x4bb8, 0x2210,
	};

	for (size_t k = 0; k < sizeof frozen / sizeof frozen[0]; k++)
		everything_else_is_the_same(frozen[k]);
}

/* The values of the model are those of the vector with the frozen ones in their places. */
static void append(void *arg, const float *values, size_t n)
{
	float **to = arg;

	memcpy(*to, values, n * sizeof **to);
	*to += n;
}

static void test_the_model_is_put_together_again(void **state)
{
	static const uint32_t frozen[] = { 0x1, 0x4000, 0x17bb, 0x0682 };
	struct tw_engine *all = opened(mixed, 0);
	const size_t n = tw_engine_floats(all);
	float *model = initial(all), *made = malloc(n * sizeof *made);

	assert_non_null(made);
	for (size_t k = 0; k < sizeof frozen / sizeof frozen[0]; k++)
		for (size_t piece = 1; piece < n; piece = piece * 7 + 1) {
			struct tw_engine *e = opened(mixed, frozen[k]);
			struct tw_mingling m = { .of = e->constants };
			const size_t moving = tw_engine_moving(e);
			float *w = initial(e), *to = made;

			for (size_t at = 0; at < moving; at += piece)
				tw_mingle(&m, w + at, moving - at < piece ? moving - at : piece,
					  append, &to);
			assert_int_equal(to - made, n);
			same_floats(made, model, n, "frozen %x", frozen[k]);
			tw_constants_leave_out(&e->constants, made, n, made);
			same_floats(made, w, moving, "frozen %x: taken apart", frozen[k]);
			free(w);
			e->class->close(e);
		}
	free(model);
	free(made);
	all->class->close(all);
}

/* By differences of the loss of the same batch. */
static void test_gradients_by_differences(void **state)
{
	static const uint32_t frozen[] = { 0x1, 0x3, 0x8, 0x1a, 0x40 };

	for (size_t k = 0; k < sizeof frozen / sizeof frozen[0]; k++) {
		struct tw_engine *e = opened(smooth, frozen[k]);
		const size_t n = e->trainable;
		float *w = initial(e), *g = malloc(tw_engine_moving(e) * sizeof *g);
		float *unused = malloc(tw_engine_moving(e) * sizeof *unused);

		assert_true(g && unused);
		fused_gradient(e, w, 0, BATCH, g);
		for (size_t i = 0; i < n; i += 1 + n / 60) {
			const float was = w[i], step = 1e-2f;
			double up, down;

			w[i] = was + step;
			up = fused_gradient(e, w, 0, BATCH, unused).loss / BATCH;
			w[i] = was - step;
			down = fused_gradient(e, w, 0, BATCH, unused).loss / BATCH;
			w[i] = was;
			if (fabs((up - down) / (2 * (double)step) - (double)g[i]) > 2e-3)
				fail_msg("frozen %x: element %zu: %g, not %g", frozen[k], i,
					 (double)g[i], (up - down) / (2 * (double)step));
		}
		free(w);
		free(g);
		free(unused);
		e->class->close(e);
	}
}

/* Steps backward of the program by the layers that they are of. */
static uint32_t backward_of(const struct tw_engine *e, uint32_t *with_gradient)
{
	const struct tw_program *p = tw_network_program(e, TW_PROGRAM_TRAIN, BATCH);
	const struct tw_list *l = tw_program_list(p);
	uint32_t layers = 0;

	*with_gradient = 0;
	for (uint32_t k = l->turn; k < l->steps; k++) {
		const struct tw_item *item = &p->net.item[l->step[k].item];
		const char *name = p->net.graph->node[item->node].name;

		if (l->step[k].kind != TW_STEP_BACKWARD || *name < '0' || *name > '9')
			continue;
		layers |= 1u << strtoul(name, NULL, 10);
		if (l->step[k].out_gradient != TW_PLACE_NONE)
			*with_gradient |= 1u << strtoul(name, NULL, 10);
	}
	return layers;
}

/* Up to the lowest layer that is trained; below it only running statistics. */
static void test_nothing_is_computed_below(void **state)
{
	struct tw_engine *all = opened(mixed, 0), *head = opened(mixed, 0x17bb);
	struct tw_engine *middle = opened(mixed, 0x0203);
	uint32_t with = 0;

	assert_int_equal(backward_of(head, &with), 0x4000 | 1u << 8 | 1u << 1);
	assert_int_equal(with, 0x4000);
	backward_of(middle, &with);
	assert_int_equal(with & 0x7, 0);         /* conv, batchnorm, relu */
	assert_int_equal(with & 0x7208, 0x7208); /* through linear 14, which is frozen */
	assert_true(tw_program_products(tw_network_program(head, TW_PROGRAM_TRAIN, BATCH)) <
		    0.4 * tw_program_products(tw_network_program(all, TW_PROGRAM_TRAIN, BATCH)));
	assert_true(head->cost < 0.4 * all->cost);
	assert_true(middle->cost < all->cost && middle->cost > head->cost);
	all->class->close(all);
	head->class->close(head);
	middle->class->close(middle);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_everything_else_is_the_same),
		cmocka_unit_test(test_the_model_is_put_together_again),
		cmocka_unit_test(test_gradients_by_differences),
		cmocka_unit_test(test_nothing_is_computed_below),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
