/* SPDX-License-Identifier: Apache-2.0 */
/* test_stages.c - a network in stages gives the bits of the whole: gradients, buffers, losses and
 * counts, wherever it is cut, with a stash and without, however many batches are on their way. */
/* labels: threads */
#include "engine/network.h"
#include "engine/forward.h"
#include "base/refusing.h"
#include "kit/isas.h"
#include "kit/scratch.h"
#include "model/model.h"
#include "staged.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define BATCH  3u
#define MICROS 4u

/* A network by name with options, or a list of layers. */
struct net {
	const char *what, *zoo;
	const char *options[6]; /* name, value, ... */
	const char *layers[12];
	const char *loss;
	uint32_t shift;
	double noise;
	bool text; /* of a text, not of digits */
};

static const struct net nets[] = {
	{ .what = "mlp", .zoo = "mlp", .options = { "hidden", "[19, 16, 8]", "dropout", "0.3" } },
	{ .what = "lenet", .zoo = "lenet" },
	{ .what = "resnet20", .zoo = "resnet20", .options = { "width", "4" } },
	{ .what = "resnet20 with tanh",
	  .zoo = "resnet20",
	  .options = { "width", "2", "blocks", "1", "activation", "tanh" } },
	{ .what = "vgg-small", .zoo = "vgg-small", .options = { "width", "4", "hidden", "16" } },
	{ .what = "vgg-small with batch norm",
	  .zoo = "vgg-small",
	  .options = { "width", "4", "batchnorm", "true", "dropout", "0.4" },
	  .loss = "cross-entropy smoothing 0.1",
	  .shift = 2 },
	{ .what = "autoencoder", .zoo = "autoencoder", .options = { "hidden", "[23, 7]" } },
	{ .what = "autoencoder without its noise",
	  .zoo = "autoencoder",
	  .options = { "hidden", "[23, 7]" },
	  .noise = 0.2 },
	{ .what = "odd layers",
	  .layers = { "avgpool 2", "conv 6 3x3", "relu", "dropout 0.2", "layernorm", "local 4 3x3",
		      "maxpool 2", "flatten", "batchnorm", "linear 11", "gelu", "linear 10" },
	  .loss = "cross-entropy smoothing 0.2" },
	{ .what = "gpt",
	  .zoo = "gpt",
	  .options = { "layers", "2", "heads", "3", "width", "12" },
	  .text = true },
	{ .what = "gpt with dropout",
	  .zoo = "gpt",
	  .options = { "layers", "1", "width", "8", "dropout", "0.2" },
	  .text = true },
	{ .what = "other layers of sequences",
	  .layers = { "embedding 256 6", "positions", "rmsnorm", "linear 12", "relu",
		      "attention 2 none", "silu", "lstm 7", "gru 8", "layernorm", "linear 256" },
	  .loss = "cross-entropy smoothing 0.1",
	  .text = true },
};
#define NETS (sizeof nets / sizeof nets[0])

/* --- opening ---------------------------------------------------------------------------------- */

#define LENGTH 9 /* of a sample of the text */

/* 40 samples to train, 150 to test, and one byte. */
static void put_novel(void)
{
	char novel[190 * LENGTH + 1];

	for (size_t k = 0; k < sizeof novel; k++)
		novel[k] = (char)("the sea, a ship. "[k * k % 17] + (k % 50 == 0));
	put("novel.txt", novel, sizeof novel);
}

static int setup(void **state)
{
	if (scratch_make(state) != 0)
		return -1;
	put_novel();
	return 0;
}

static struct tw_data *novel(struct tw_heap *heap, struct tw_data_options *o, struct tw_arena *keep)
{
	const struct tw_source *s = tw_source_find("text");
	const struct tw_source_site site = { .heap = heap, .cache = "" };
	struct tw_error why = { 0 };
	struct tw_data *data = NULL;
	void *options = calloc(1, s->options_bytes);

	assert_int_equal(tw_option_defaults(s->options, options, keep, &why), TW_OK);
	assert_int_equal(tw_option_set(tw_option_find(s->options, "file"), options,
				       path_of("novel.txt"), keep, &why),
			 TW_OK);
	assert_int_equal(
		tw_option_set(tw_option_find(s->options, "length"), options, "9", keep, &why),
		TW_OK);
	o->test = 150.0 / 190;
	if (tw_data_open(s, options, o, &site, 7, &data, &why) != TW_OK)
		fail_msg("%s", why.text);
	assert_int_equal(data->train.count, 40);
	free(options);
	return data;
}

static struct tw_data *digits(struct tw_heap *heap, const struct tw_data_options *o,
			      struct tw_arena *keep)
{
	const struct tw_source *s = tw_source_find("digits");
	const struct tw_source_site site = { .heap = heap, .cache = "" };
	struct tw_error why = { 0 };
	struct tw_data *data = NULL;
	void *options = calloc(1, s->options_bytes);

	assert_int_equal(tw_option_defaults(s->options, options, keep, &why), TW_OK);
	assert_int_equal(
		tw_option_set(tw_option_find(s->options, "count"), options, "40", keep, &why),
		TW_OK);
	assert_int_equal(
		tw_option_set(tw_option_find(s->options, "tests"), options, "150", keep, &why),
		TW_OK);
	assert_int_equal(tw_data_open(s, options, o, &site, 7, &data, &why), TW_OK);
	free(options);
	return data;
}

static void write_layers(const struct net *net, const struct tw_model_site *site,
			 struct tw_arena *keep, struct tw_layer **layer, size_t *layers)
{
	const struct tw_zoo *zoo = net->zoo ? tw_zoo_find(net->zoo) : NULL;
	struct tw_error why = { 0 };
	void *options;

	if (!zoo) {
		*layer = tw_arena_get(keep, 12 * sizeof **layer);
		for (*layers = 0; *layers < 12 && net->layers[*layers]; ++*layers)
			(*layer)[*layers] =
				(struct tw_layer){ .text = net->layers[*layers], .place = "" };
		return;
	}
	options = tw_arena_get(keep, zoo->options_bytes);
	memset(options, 0, zoo->options_bytes);
	assert_int_equal(tw_option_defaults(zoo->options, options, keep, &why), TW_OK);
	for (size_t k = 0; k < 6 && net->options[k]; k += 2)
		assert_int_equal(tw_option_set(tw_option_find(zoo->options, net->options[k]),
					       options, net->options[k + 1], keep, &why),
				 TW_OK);
	assert_int_equal(zoo->layers(options, site, keep, layer, layers, &why), TW_OK);
}

static bool predicts_input(const struct net *net)
{
	return net->zoo && tw_zoo_find(net->zoo)->predicts_input;
}

static struct tw_engine *opened_in(struct tw_heap *heap, const struct net *net)
{
	struct tw_network_facts f = { .seed = 7, .batch = BATCH, .most = BATCH + 2 };
	struct tw_model_site site = { .heap = heap, .loss_place = "" };
	struct tw_error why = { 0 };
	struct tw_engine *e = NULL;
	struct tw_layer *layer;
	struct tw_arena keep;
	size_t layers;

	tw_arena_init(&keep, &tw_heap_system);
	assert_int_equal(tw_option_defaults(tw_data_common_rows, &f.options, &keep, &why), TW_OK);
	f.options.shift = net->shift;
	f.options.noise = net->noise;
	f.own_input = predicts_input(net);
	f.data = net->text ? novel(heap, &f.options, &keep) : digits(heap, &f.options, &keep);
	site.in = net->text ? (struct tw_shape){ 1, { LENGTH } }
			    : (struct tw_shape){ 3, { 1, 28, 28 } };
	site.tokens = net->text;
	site.classes = f.own_input ? 0 : f.data->classes;
	site.targets = f.own_input ? (uint32_t)f.data->features : 0;
	site.loss = net->loss ? net->loss : f.own_input ? "mean-squared" : "cross-entropy";
	write_layers(net, &site, &keep, &layer, &layers);
	if (tw_model_build(&site, layer, layers, &f.graph, &why) != TW_OK ||
	    tw_network_open(heap, &f, &e, &why) != TW_OK)
		fail_msg("%s: %s", net->what, why.text);
	tw_arena_release(&keep);
	return e;
}

static struct tw_engine *opened(const struct net *net)
{
	return opened_in(&tw_heap_system, net);
}

/* --- rows through stages that are loaded one after another ------------------------------------ */

struct shelf {
	const float *vector;
	size_t now; /* floats that were read */
};

static enum tw_status take(void *arg, size_t from, size_t n, float *out)
{
	struct shelf *s = arg;

	memcpy(out, s->vector + from, n * sizeof *out);
	s->now += n;
	return TW_OK;
}

/* All test samples in the blocks that it asks for; predictions and score. */
static void forward_all(const struct tw_forward_facts *facts, uint32_t outputs, float *y,
			struct tw_score *score)
{
	const struct tw_samples *set = &facts->data->test;
	struct tw_forward *f = NULL;
	struct tw_error why = { 0 };

	*score = (struct tw_score){ 0 };
	assert_int_equal(tw_forward_open(&tw_heap_system, facts, &f, &why), TW_OK);
	for (uint64_t from = 0; from < set->count;) {
		const uint32_t block = tw_forward_block(f);
		const uint32_t n =
			set->count - from < block ? (uint32_t)(set->count - from) : block;

		assert_int_equal(tw_forward_run(f, set, from, n, y + from * outputs, score), TW_OK);
		from += n;
	}
	tw_forward_close(f);
}

static void loaded_stages_predict_the_same(void **state)
{
	static const uint64_t memories[] = { 0, 4000, 40000, UINT64_MAX };

	(void)state;
	for (size_t k = 0; k < NETS; k++) {
		struct tw_engine *e = opened(&nets[k]);
		const struct tw_graph *g = tw_network_graph(e);
		const struct tw_data *d = tw_network_data(e);
		const uint32_t outputs =
			(uint32_t)tw_shape_size(&g->node[g->node[g->nodes - 1].in[0]].shape);
		const size_t all = e->trainable + e->buffers;
		const size_t room = d->test.count * outputs;
		float *w = malloc(all * sizeof *w), *y = malloc(2 * room * sizeof *y);
		struct tw_forward_facts facts = { .graph = g,
						  .vector = w,
						  .data = d,
						  .batch = BATCH,
						  .own_input = predicts_input(&nets[k]) };
		struct tw_score whole, parts;

		assert_int_equal(e->class->init(e, 0, all, w), TW_OK);
		forward_all(&facts, outputs, y, &whole);
		for (size_t m = 0; m < 4; m++) {
			struct shelf shelf = { .vector = w };

			facts.vector = NULL;
			facts.load = take;
			facts.load_arg = &shelf;
			facts.memory = memories[m];
			memset(y + room, 0, room * sizeof *y);
			forward_all(&facts, outputs, y + room, &parts);
			if (memcmp(y, y + room, room * sizeof *y) != 0 ||
			    memcmp(&whole, &parts, sizeof whole) != 0)
				fail_msg("%s with %llu bytes: loss %.17g, not %.17g", nets[k].what,
					 (unsigned long long)memories[m], parts.loss, whole.loss);
			assert_true(shelf.now % all == 0 && shelf.now > 0);
		}
		free(w);
		free(y);
		e->class->close(e);
	}
}

/* --- gradients -------------------------------------------------------------------------------- */

/* Batches that are on their way together against the same ones, each computed at once. */
static void check(const struct net *net, const struct staged *s, const float *w, uint64_t from,
		  uint32_t count, uint32_t micros)
{
	const size_t all = s->e->trainable + s->e->buffers;
	const float *each[STAGES_MAX] = { w, w, w, w, w, w, w, w };
	float *truth = malloc(all * sizeof *truth), *g = malloc(micros * all * sizeof *g);
	struct tw_score score[MICROS_MAX];
	char what[160];

	staged_gradients(s, each, from, count, micros, g, score);
	snprintf(what, sizeof what, "%s in %u stages, cut after layer %s (%s)", net->what,
		 s->stages, s->e->cut[s->cut[1]].after, staged_names[s->way]);
	for (uint32_t m = 0; m < micros; m++) {
		const struct tw_score one = fused_gradient(s->e, w, from + m * count, count, truth);

		same_floats(truth, g + m * all, all, "%s, batch %u", what, m);
		same_score(one, score[m], what);
	}
	free(truth);
	free(g);
}

static void every_single_cut(void **state)
{
	for (size_t k = 0; k < NETS; k++) {
		struct tw_engine *e = opened(&nets[k]);
		float *w = some_parameters(e);

		assert_true(e->cuts > 3);
		for (uint32_t c = 1; c + 1 < e->cuts; c++)
			for (enum staged_way way = 0; way < STAGED_WAYS; way++) {
				const struct staged s = staged_once(e, c, way);

				check(&nets[k], &s, w, 40 + 7, BATCH, 1);
			}
		free(w);
		e->class->close(e);
	}
}

/* K stages at cuts that lie evenly, or next to each other at one end. */
static struct staged several(const struct tw_engine *e, uint32_t stages, uint32_t where,
			     enum staged_way way)
{
	const uint32_t last = (uint32_t)e->cuts - 1;
	struct staged s = { .e = e, .stages = stages, .way = way };

	for (uint32_t k = 1; k < stages; k++)
		s.cut[k] = where == 0 ? last * k / stages : where == 1 ? k : last - stages + k;
	s.cut[stages] = last;
	return s;
}

static void several_cuts_and_batches(void **state)
{
	for (size_t k = 0; k < NETS; k++) {
		struct tw_engine *e = opened(&nets[k]);
		float *w = some_parameters(e);

		for (uint32_t stages = 1; stages <= 5 && stages < e->cuts; stages++)
			for (uint32_t where = 0; where < 3; where++) {
				const enum staged_way way = (stages + where) % STAGED_WAYS;
				const struct staged s = several(e, stages, where, way);

				check(&nets[k], &s, w, 3, BATCH, MICROS);
			}
		free(w);
		e->class->close(e);
	}
}

/* Batches that are shorter or longer than usual. */
static void other_sizes(void **state)
{
	struct tw_engine *e = opened(&nets[2]);
	float *w = some_parameters(e);

	for (uint32_t count = 1; count <= BATCH + 2; count++)
		for (enum staged_way way = 0; way < STAGED_WAYS; way++) {
			const struct staged s = several(e, 3, 0, way);

			check(&nets[2], &s, w, 80, count, 2);
		}
	free(w);
	e->class->close(e);
}

/* --- evaluation ------------------------------------------------------------------------------- */

static void evaluates_by_stages(void **state)
{
	for (size_t k = 0; k < NETS; k++) {
		struct tw_engine *e = opened(&nets[k]);
		float *w = some_parameters(e);
		const size_t outputs = e->cut[e->cuts - 1].value[0].floats;
		const struct tw_piece piece = { w, 0, e->trainable + e->buffers };
		const struct tw_inputs in = { 9, 137, &piece, 1, NULL };
		float *truth = malloc(in.count * outputs * sizeof *truth);
		float *said = malloc((in.count * outputs + 15) / 16 * 16 * sizeof *said);
		void *scratch = malloc(e->scratch_bytes);
		struct tw_score one = { 0 };

		assert_int_equal(e->class->evaluate(e, scratch, &in, &one), TW_OK);
		for (uint32_t c = 1; c + 1 < e->cuts; c++) {
			const struct staged s = staged_once(e, c, STAGED_FUSES);

			same_score(one, staged_score(&s, w, in.from, in.count, NULL), nets[k].what);
		}
		assert_int_equal(tw_network_score(e, scratch,
						  tw_data_set(tw_network_data(e), TW_SET_TEST), &in,
						  truth, &one),
				 TW_OK);
		for (uint32_t stages = 1; stages <= 4; stages++) {
			const struct staged s = several(e, stages, 0, STAGED_FUSES);

			same_score(one, staged_score(&s, w, in.from, in.count, said), nets[k].what);
			same_floats(truth, said, in.count * outputs, "%s: predictions",
				    nets[k].what);
		}
		free(truth);
		free(said);
		free(scratch);
		free(w);
		e->class->close(e);
	}
}

/* --- cuts ------------------------------------------------------------------------------------- */

static bool is_tensor_border(const struct tw_engine *e, size_t at)
{
	for (size_t t = 0; t <= e->tensors; t++)
		if (e->tensor[t] == at)
			return true;
	return false;
}

static void cuts_say_what_they_are(void **state)
{
	for (size_t k = 0; k < NETS; k++) {
		struct tw_engine *e = opened(&nets[k]);
		const struct tw_model_cut *last = &e->cut[e->cuts - 1];

		assert_true(e->cut[0].flops == 0 && e->cut[0].trainable == 0);
		assert_true(e->cut[0].buffers == e->trainable && e->cut[0].values == 0);
		assert_true(3 * last->flops == e->cost && last->trainable == e->trainable);
		assert_true(last->buffers == e->trainable + e->buffers && !last->after[0]);
		for (size_t c = 1; c < e->cuts; c++) {
			const struct tw_model_cut *cut = &e->cut[c];

			assert_true(cut->flops >= cut[-1].flops);
			assert_true(cut->trainable >= cut[-1].trainable);
			assert_true(cut->buffers >= cut[-1].buffers);
			assert_true(is_tensor_border(e, cut->trainable));
			assert_true(is_tensor_border(e, cut->buffers));
			assert_true(cut->values > 0);
			assert_true((c + 1 < e->cuts) == (cut->after[0] != '\0'));
		}
		e->class->close(e);
	}
}

static const struct tw_model_cut *cut_after(const struct tw_engine *e, const char *layer)
{
	for (size_t c = 1; c + 1 < e->cuts; c++)
		if (!strcmp(e->cut[c].after, layer))
			return &e->cut[c];
	return NULL;
}

static void cuts_are_where_they_should_be(void **state)
{
	struct tw_engine *e = opened(&nets[2]); /* conv, batchnorm, relu, residual, relu, ... */
	const struct tw_model_cut *inside;

	assert_non_null(cut_after(e, "1"));
	assert_null(cut_after(e, "2")); /* the batch norm applies the ReLU behind it */
	assert_int_equal(cut_after(e, "3")->values, 1);
	assert_int_equal(cut_after(e, "3")->value[0].floats, 4 * 28 * 28);
	assert_int_equal(cut_after(e, "3")->trainable, 4 * 9 + 2 * 4);
	inside = cut_after(e, "4.1"); /* what goes around crosses, too */
	assert_int_equal(inside->values, 2);
	assert_true(inside->value[0].back && inside->value[1].back);
	inside = cut_after(e, "10.5"); /* around it is a convolution, which reads the input */
	assert_int_equal(inside->values, 2);
	assert_int_equal(inside->value[0].floats, 4 * 28 * 28);
	assert_int_equal(inside->value[1].floats, 8 * 14 * 14);
	assert_int_equal(cut_after(e, "10.shortcut.1")->values, 2);
	assert_null(cut_after(e, "23")); /* the last layer */
	e->class->close(e);
	e = opened(&nets[8]);
	assert_false(cut_after(e, "1")->value[0].back); /* nothing before it is trained */
	assert_int_equal(tw_model_cut_floats(cut_after(e, "1"), 1, true), 0);
	assert_int_equal(cut_after(e, "1")->trainable, 0);
	e->class->close(e);
}

/* A stage needs less than the model: that is what stages are for. */
static void stages_need_less_memory(void **state)
{
	struct tw_engine *e = opened(&nets[2]);
	const struct staged s = several(e, 4, 0, STAGED_STASHES);
	struct tw_needs all = { 0 }, one = { 0 };
	size_t stashes = 0;

	assert_int_equal(e->class->needs(e, 0, 0, BATCH, &all), TW_OK);
	for (uint32_t k = 0; k < s.stages; k++) {
		assert_int_equal(e->class->needs(e, s.cut[k], s.cut[k + 1], BATCH, &one), TW_OK);
		assert_true(one.scratch < all.scratch && one.stash < all.stash);
		stashes += one.stash;
	}
	assert_true(stashes > all.stash / 2 && stashes <= all.stash);
	e->class->close(e);
}

static void refuses_what_cannot_be(void **state)
{
	struct tw_engine *e = opened(&nets[0]);
	const uint32_t last = (uint32_t)e->cuts - 1;
	float *w = some_parameters(e), x[4096] = { 0 }, g[32768];
	const struct tw_piece piece = { w, 0, e->trainable + e->buffers };
	const struct tw_inputs in = { 0, BATCH, &piece, 1, NULL },
			       many = { 0, BATCH + 3, &piece, 1, NULL };
	const struct tw_pass bad[] = {
		{ TW_PASS_FORWARD, 2, 2, x, .y = x },
		{ TW_PASS_FORWARD, 3, 2, x, .y = x },
		{ TW_PASS_FORWARD, 0, last + 1, x, .y = x },
		{ TW_PASS_FORWARD, 1, 2, .y = x },     /* nothing comes in */
		{ TW_PASS_FORWARD, 0, 2 },             /* nowhere to go */
		{ TW_PASS_GRADIENT, 0, 2, .dy = x },   /* without the loss */
		{ TW_PASS_BACKWARD, 0, 2 },            /* nothing comes back */
		{ TW_PASS_BACKWARD, 1, last, .x = x }, /* nowhere to go back */
		{ TW_PASS_EVALUATE, 1, last },
	};
	struct tw_needs needs;
	struct tw_score score;
	void *scratch = malloc(e->scratch_bytes);

	assert_true(e->trainable + e->buffers < 32768);
	for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++)
		assert_int_equal(tw_engine_run(e, scratch, &in, &bad[k], g, &score), TW_BAD_INPUT);
	assert_int_equal(tw_engine_run(e, scratch, &many,
				       &(struct tw_pass){ TW_PASS_FORWARD, 0, 1, .y = x }, g,
				       &score),
			 TW_BAD_INPUT);
	assert_int_equal(e->class->needs(e, 1, 1, BATCH, &needs), TW_BAD_INPUT);
	assert_int_equal(e->class->needs(e, 0, last + 1, BATCH, &needs), TW_BAD_INPUT);
	assert_int_equal(e->class->needs(e, 0, 1, BATCH + 3, &needs), TW_BAD_INPUT);
	assert_int_equal(e->class->needs(e, 0, 1, 0, &needs), TW_BAD_INPUT);
	free(scratch);
	free(w);
	e->class->close(e);
}

static void stops_when_cancelled(void **state)
{
	struct tw_engine *e = opened(&nets[1]);
	float *w = some_parameters(e), *y;
	const _Atomic bool stop = true;
	const struct tw_piece piece = { w, 0, e->trainable + e->buffers };
	const struct tw_inputs in = { 0, BATCH, &piece, 1, &stop };
	struct tw_score score;
	void *scratch = malloc(e->scratch_bytes);

	y = aligned_alloc(TW_ALIGN, tw_model_cut_floats(&e->cut[2], BATCH, false) * sizeof(float));
	assert_int_equal(tw_engine_run(e, scratch, &in,
				       &(struct tw_pass){ TW_PASS_FORWARD, 0, 2, .y = y }, NULL,
				       &score),
			 TW_CANCELLED);
	free(y);
	free(scratch);
	free(w);
	e->class->close(e);
}

/* Whatever request for memory fails, the engine says so and is as good as before. */
static void memory_may_be_refused(void **state)
{
	struct refusing r = REFUSING(0);
	struct tw_engine *e = opened_in(&r.heap, &nets[4]);
	const uint32_t last = (uint32_t)e->cuts - 1;
	struct tw_needs needs = { 0 };
	enum tw_status st;

	for (unsigned nth = 1;; nth++) {
		const int live = r.live;

		r.refuse = r.calls + nth;
		st = e->class->needs(e, 2, last, BATCH + 1, &needs);
		if (st == TW_OK)
			break;
		assert_int_equal(st, TW_NO_MEMORY);
		assert_true(r.live >= live); /* what was made before stays */
	}
	assert_true(needs.scratch && needs.stash);
	r.refuse = 0;
	e->class->close(e);
	assert_int_equal(r.live, 0);
}

/* Nothing is allocated through our heap when stages are warm. */
static void warm_stages_allocate_nothing(void **state)
{
	struct refusing r = REFUSING(0);
	struct tw_engine *e = opened_in(&r.heap, &nets[2]);
	float *w = some_parameters(e);
	unsigned calls;

	for (int again = 0; again < 2; again++) {
		calls = r.calls;
		for (enum staged_way way = 0; way < STAGED_WAYS; way++) {
			const struct staged s = several(e, 3, 0, way);

			check(&nets[2], &s, w, 0, BATCH, 2);
		}
	}
	assert_int_equal(r.calls, calls);
	free(w);
	e->class->close(e);
}

/* Some part of a network as people read it. */
static char *described(const struct tw_engine *e, uint32_t behind, uint32_t upto)
{
	const struct tw_graph_part part = { behind, upto };
	struct tw_program *p = NULL;
	char *text = NULL;
	size_t n;
	FILE *out = open_memstream(&text, &n);

	assert_int_equal(tw_program_of_part(tw_network_graph(e), TW_PROGRAM_PASSES, &part, BATCH, 1,
					    &p, NULL),
			 TW_OK);
	tw_program_describe(p, out);
	fclose(out);
	tw_program_free(p);
	return text;
}

/* Computing forward again stops at the last value that somebody reads. */
static void recomputes_only_what_is_read(void **state)
{
	static const struct net net = { .what = "linear",
					.layers = { "linear 9", "linear 8", "tanh", "linear 10" } };
	struct tw_engine *e = opened(&net);
	char *text = described(e, 2, 3); /* behind the flattening and the first: one product */

	assert_null(strstr(text, "forward"));
	assert_non_null(strstr(text, "backward"));
	free(text);
	text = described(e, 2, 4); /* tanh reads its output, which needs the product */
	assert_non_null(strstr(text, "forward"));
	free(text);
	e->class->close(e);
}

static int run_all(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_single_cut),
		cmocka_unit_test(several_cuts_and_batches),
		cmocka_unit_test(other_sizes),
		cmocka_unit_test(evaluates_by_stages),
		cmocka_unit_test(loaded_stages_predict_the_same),
		cmocka_unit_test(cuts_say_what_they_are),
		cmocka_unit_test(cuts_are_where_they_should_be),
		cmocka_unit_test(stages_need_less_memory),
		cmocka_unit_test(refuses_what_cannot_be),
		cmocka_unit_test(stops_when_cancelled),
		cmocka_unit_test(memory_may_be_refused),
		cmocka_unit_test(warm_stages_allocate_nothing),
		cmocka_unit_test(recomputes_only_what_is_read),
	};

	return cmocka_run_group_tests(tests, setup, scratch_remove);
}

int main(void)
{
	return in_isas(run_all);
}
