/* SPDX-License-Identifier: Apache-2.0 */
/* test_network.c - the engine of networks keeps its word: the same bits whoever asks, however the
 * parameters are cut, whatever was prefetched; nothing is allocated once it is warm. */
/* labels: threads */
#include "engine/network.h"
#include "base/refusing.h"
#include "data/data_memory.h"
#include "model/model.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define BATCH 12u

static const char *const convolutional[] = {
	"conv 6 5x5 stride 2", "batchnorm", "relu", "maxpool 2",
	"dropout 0.25",        "linear 17", "tanh", "linear 10"
};
static const char *const dense[] = { "linear 33", "relu", "linear 10" };

struct net {
	const char *const *text;
	size_t layers;
	uint32_t shift, prefetch, most;
	double noise;
	bool own;   /* predicts its input */
	bool heavy; /* samples have weights (put_weights) */
};
static const struct net nets[] = {
	{ dense, sizeof dense / sizeof *dense, 0, 0, 0 },
	{ convolutional, sizeof convolutional / sizeof *convolutional, 2, 0, 0 },
};

static enum tw_status open_data(struct tw_heap *heap, const struct tw_data_options *o,
				struct tw_data **out)
{
	const struct tw_source *s = tw_source_find("digits");
	const struct tw_source_site site = { .heap = heap, .cache = "" };
	struct tw_error why = { 0 };
	struct tw_arena keep;
	enum tw_status st;
	void *options = calloc(1, s->options_bytes);

	tw_arena_init(&keep, &tw_heap_system);
	assert_int_equal(tw_option_defaults(s->options, options, &keep, &why), TW_OK);
	assert_int_equal(
		tw_option_set(tw_option_find(s->options, "count"), options, "100", &keep, &why),
		TW_OK);
	assert_int_equal(
		tw_option_set(tw_option_find(s->options, "tests"), options, "90", &keep, &why),
		TW_OK);
	st = tw_data_open(s, options, o, &site, 7, out, &why);
	free(options);
	tw_arena_release(&keep);
	return st;
}

static float weight_of(uint64_t sample)
{
	return (float)(sample * 7 % 5) / 2; /* some weigh nothing */
}

/* As if a source had them; they are d's. */
static void put_weights(struct tw_data *d)
{
	float *weight;
	void *room = NULL;
	struct tw_error why;

	assert_int_equal(tw_data_keep_room(d, d->train.count, sizeof *weight, &room, &why), TW_OK);
	weight = room;
	for (uint64_t i = 0; i < d->train.count; i++)
		weight[i] = weight_of(i);
	d->weight = weight;
	d->weighs = true;
}

static enum tw_status open_net(struct tw_heap *heap, const struct net *net, struct tw_engine **out)
{
	struct tw_layer layer[20] = { 0 };
	struct tw_network_facts f = { .seed = 7, .batch = BATCH, .most = net->most };
	struct tw_model_site site = { .heap = heap, .loss = "cross-entropy", .loss_place = "" };
	struct tw_error why = { 0 };
	struct tw_arena keep;
	enum tw_status st;

	tw_arena_init(&keep, &tw_heap_system);
	assert_int_equal(tw_option_defaults(tw_data_common_rows, &f.options, &keep, &why), TW_OK);
	f.options.shift = net->shift;
	f.options.prefetch = net->prefetch;
	f.options.noise = net->noise;
	f.own_input = net->own;
	st = open_data(heap, &f.options, &f.data);
	tw_arena_release(&keep); /* texts of the options */
	if (st != TW_OK)
		return st;
	if (net->heavy)
		put_weights(f.data);
	site.in = (struct tw_shape){ 3, { f.data->shape[0], f.data->shape[1], f.data->shape[2] } };
	site.classes = net->own ? 0 : f.data->classes;
	site.targets = net->own ? (uint32_t)f.data->features : 0;
	if (net->own)
		site.loss = "mean-squared";
	for (size_t k = 0; k < net->layers; k++)
		layer[k] = (struct tw_layer){ .text = net->text[k], .place = "" };
	st = tw_model_build(&site, layer, net->layers, &f.graph, &why);
	if (st != TW_OK) {
		tw_data_close(f.data);
		return st;
	}
	return tw_network_open(heap, &f, out, &why);
}

static struct tw_engine *opened(const struct net *net)
{
	struct tw_engine *e = NULL;

	assert_int_equal(open_net(&tw_heap_system, net, &e), TW_OK);
	return e;
}

static void *room_for(const struct tw_engine *e)
{
	void *scratch = tw_heap_system.get(&tw_heap_system, e->scratch_bytes);

	assert_non_null(scratch);
	memset(scratch, 0x5a, e->scratch_bytes);
	return scratch;
}

static float *first_values(const struct tw_engine *e)
{
	const size_t all = e->trainable + e->buffers;
	float *w = tw_heap_system.get(&tw_heap_system, all * sizeof *w);

	assert_int_equal(e->class->init(e, 0, all, w), TW_OK);
	return w;
}

static struct tw_score gradient(const struct tw_engine *e, void *scratch, const float *w,
				uint64_t from, uint32_t count, float *out)
{
	const struct tw_piece whole = { w, 0, e->trainable + e->buffers };
	const struct tw_inputs in = { .from = from, .count = count, .piece = &whole, .pieces = 1 };
	struct tw_score score;

	assert_int_equal(e->class->gradient(e, scratch, &in, out, &score), TW_OK);
	return score;
}

static float *vector(const struct tw_engine *e)
{
	return tw_heap_system.get(&tw_heap_system, (e->trainable + e->buffers) * sizeof(float));
}

static void put(void *memory)
{
	tw_heap_system.put(&tw_heap_system, memory);
}

/* Cut anywhere, also inside tensors: the same bits. */
static void pieces_do_not_matter(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof nets / sizeof *nets; k++) {
		struct tw_engine *e = opened(&nets[k]);
		const size_t all = e->trainable + e->buffers;
		float *w = first_values(e), *a = vector(e), *b = vector(e);
		void *scratch = room_for(e);
		const struct tw_score one = gradient(e, scratch, w, 24, BATCH, a);

		for (size_t pieces = 2; pieces < 9; pieces++) {
			struct tw_piece piece[9];
			float *copy[9];
			struct tw_score score;
			struct tw_inputs in = { 24, BATCH, piece, pieces, NULL };

			for (size_t p = 0; p < pieces; p++) {
				const size_t from = all * p / pieces, to = all * (p + 1) / pieces;

				copy[p] = vector(e);
				memcpy(copy[p], w + from, (to - from) * sizeof *w);
				piece[p] = (struct tw_piece){ copy[p], from, to - from };
			}
			assert_int_equal(e->class->gradient(e, scratch, &in, b, &score), TW_OK);
			assert_memory_equal(a, b, all * sizeof *a);
			assert_true(score.loss == one.loss && score.correct == one.correct);
			for (size_t p = 0; p < pieces; p++)
				put(copy[p]);
		}
		put(w), put(a), put(b), put(scratch);
		e->class->close(e);
	}
}

/* Any size of batch, in any order, after others: the same bits as in a fresh engine. */
static void sizes_are_made_when_met(void **state)
{
	static const uint32_t size[] = { 12, 1, 7, 12, 3, 1, 11 };

	(void)state;
	for (size_t k = 0; k < sizeof nets / sizeof *nets; k++) {
		struct tw_engine *e = opened(&nets[k]);
		const size_t all = e->trainable + e->buffers;
		float *w = first_values(e), *a = vector(e), *b = vector(e);
		void *scratch = room_for(e);

		for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
			struct tw_engine *fresh = opened(&nets[k]);
			void *other = room_for(fresh);
			const struct tw_score x = gradient(e, scratch, w, 100 + i, size[i], a);
			const struct tw_score y = gradient(fresh, other, w, 100 + i, size[i], b);

			assert_memory_equal(a, b, all * sizeof *a);
			assert_true(x.loss == y.loss && x.samples == size[i]);
			put(other);
			fresh->class->close(fresh);
		}
		put(w), put(a), put(b), put(scratch);
		e->class->close(e);
	}
}

/* Sample after sample in batches of one adds up to the batch, where no op looks across it. */
static void a_batch_is_the_mean_of_its_samples(void **state)
{
	struct tw_engine *e = opened(&nets[0]);
	const size_t all = e->trainable;
	float *w = first_values(e), *a = vector(e), *b = vector(e);
	double *sum = calloc(all, sizeof *sum), loss = 0, length = 0, off = 0;
	void *scratch = room_for(e);
	const struct tw_score one = gradient(e, scratch, w, 36, BATCH, a);

	(void)state;
	for (uint32_t k = 0; k < BATCH; k++) {
		loss += gradient(e, scratch, w, 36 + k, 1, b).loss;
		for (size_t i = 0; i < all; i++)
			sum[i] += (double)b[i] / BATCH;
	}
	for (size_t i = 0; i < all; i++) {
		length += sum[i] * sum[i];
		off += (sum[i] - (double)a[i]) * (sum[i] - (double)a[i]);
	}
	assert_true(length > 0 && off <= 1e-11 * length);
	assert_true(loss - one.loss < 1e-5 * loss && one.loss - loss < 1e-5 * loss);
	free(sum);
	put(w), put(a), put(b), put(scratch);
	e->class->close(e);
}

/* A sample's gradient counts as often as its weight says; its loss counts once.  The losses are
 * one for classes and one for values. */
static void weights_multiply_gradients(void **state)
{
	for (int own = 0; own < 2; own++) {
		static const char *const values[] = { "linear 20", "relu", "linear 784" };
		struct net net = own ? (struct net){ values, 3, .own = true } : nets[0];
		struct tw_engine *plain = opened(&net), *heavy;
		const size_t all = plain->trainable;
		float *w = first_values(plain), *a = vector(plain), *b = vector(plain);
		double *sum = calloc(all, sizeof *sum), length = 0, off = 0;
		void *scratch = room_for(plain), *other;
		struct tw_score once, weighed;

		(void)state;
		net.heavy = true;
		heavy = opened(&net);
		other = room_for(heavy);
		assert_int_equal(heavy->trainable, all);
		for (uint32_t k = 0; k < BATCH; k++) {
			const float by = weight_of(tw_order_sample(&plain->order, 36 + k));

			gradient(plain, scratch, w, 36 + k, 1, b);
			for (size_t i = 0; i < all; i++)
				sum[i] += (double)by * (double)b[i] / BATCH;
		}
		once = gradient(plain, scratch, w, 36, BATCH, b);
		weighed = gradient(heavy, other, w, 36, BATCH, a);
		for (size_t i = 0; i < all; i++) {
			length += sum[i] * sum[i];
			off += (sum[i] - (double)a[i]) * (sum[i] - (double)a[i]);
		}
		assert_true(length > 0 && off <= 1e-11 * length);
		assert_memory_not_equal(a, b, all * sizeof *a);
		assert_true(once.loss == weighed.loss);
		free(sum);
		put(w), put(a), put(b), put(scratch), put(other);
		plain->class->close(plain);
		heavy->class->close(heavy);
	}
}

struct asker {
	const struct tw_engine *e;
	const float *w;
	float *out[8];
	uint64_t first;
	pthread_t thread;
};

static void *ask(void *arg)
{
	struct asker *me = arg;
	void *scratch = room_for(me->e);

	for (size_t i = 0; i < 8; i++)
		gradient(me->e, scratch, me->w, me->first + i * BATCH, i == 5 ? 4 : BATCH,
			 me->out[i]);
	put(scratch);
	return NULL;
}

/* Four threads at once, with and without prefetching: the bits of one thread alone. */
static void threads_do_not_matter(void **state)
{
	(void)state;
	for (uint32_t prefetch = 0; prefetch < 4; prefetch += 3) {
		struct net net = nets[1];
		struct tw_engine *alone = opened(&net), *e;
		float *w = first_values(alone), *b = vector(alone);
		void *scratch = room_for(alone);
		struct asker asker[4];

		net.prefetch = prefetch;
		e = opened(&net);
		for (size_t t = 0; t < 4; t++) {
			asker[t] = (struct asker){ .e = e, .w = w, .first = 100 * t };
			for (size_t i = 0; i < 8; i++)
				asker[t].out[i] = vector(e);
			assert_int_equal(pthread_create(&asker[t].thread, NULL, ask, &asker[t]), 0);
		}
		for (size_t t = 0; t < 4; t++)
			pthread_join(asker[t].thread, NULL);
		for (size_t t = 0; t < 4; t++)
			for (size_t i = 0; i < 8; i++) {
				gradient(alone, scratch, w, asker[t].first + i * BATCH,
					 i == 5 ? 4 : BATCH, b);
				assert_memory_equal(b, asker[t].out[i],
						    (e->trainable + e->buffers) * sizeof *b);
				put(asker[t].out[i]);
			}
		put(w), put(b), put(scratch);
		e->class->close(e);
		alone->class->close(alone);
	}
}

/* A network of zeros predicts 0, so its loss is the mean square of what it should predict: the
 * same with noise in its inputs as without, with the images moved by the same draws. */
static void noise_is_not_to_be_predicted(void **state)
{
	static const char *const one[] = { "linear 784 init zeros" };
	double loss[3];

	(void)state;
	for (size_t k = 0; k < 3; k++) {
		const struct net net = { .text = one,
					 .layers = 1,
					 .shift = 2,
					 .prefetch = k == 2 ? 2 : 0,
					 .noise = k ? 0.5 : 0,
					 .own = true };
		struct tw_engine *e = opened(&net);
		float *w = first_values(e), *g = vector(e);
		void *scratch = room_for(e);

		gradient(e, scratch, w, 0, BATCH, g);
		loss[k] = gradient(e, scratch, w, BATCH, BATCH, g).loss;
		put(w), put(g), put(scratch);
		e->class->close(e);
	}
	assert_true(loss[0] > 1 && loss[1] == loss[0] && loss[2] == loss[0]);
}

static void evaluation_adds_up(void **state)
{
	struct tw_engine *e = opened(&nets[1]);
	float *w = first_values(e);
	void *scratch = room_for(e);
	const struct tw_piece whole = { w, 0, e->trainable + e->buffers };
	struct tw_inputs in = { .from = 0, .count = 90, .piece = &whole, .pieces = 1 };
	struct tw_score all, part, sum = { 0 };

	(void)state;
	assert_int_equal(e->tests, 90);
	assert_int_equal(e->class->evaluate(e, scratch, &in, &all), TW_OK);
	for (uint64_t from = 0; from < 90; from += 30) {
		in.from = from;
		in.count = 30;
		assert_int_equal(e->class->evaluate(e, scratch, &in, &part), TW_OK);
		sum.loss += part.loss;
		sum.correct += part.correct;
	}
	assert_true(sum.correct == all.correct);
	assert_true(sum.loss - all.loss < 1e-4 && all.loss - sum.loss < 1e-4);
	in.from = 80;
	assert_int_equal(e->class->evaluate(e, scratch, &in, &part), TW_BAD_INPUT);
	put(w), put(scratch);
	e->class->close(e);
}

static void who_is_cancelled_says_so(void **state)
{
	struct tw_engine *e = opened(&nets[1]);
	float *w = first_values(e), *a = vector(e);
	void *scratch = room_for(e);
	const struct tw_piece whole = { w, 0, e->trainable + e->buffers };
	const _Atomic bool yes = true;
	const struct tw_inputs in = { 0, BATCH, &whole, 1, &yes };
	struct tw_score score;

	(void)state;
	assert_int_equal(e->class->gradient(e, scratch, &in, a, &score), TW_CANCELLED);
	put(w), put(a), put(scratch);
	e->class->close(e);
}

static void nothing_is_allocated_once_warm(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof nets / sizeof *nets; k++) {
		struct refusing r = REFUSING(0);
		struct tw_engine *e = NULL;
		float *w, *a;
		void *scratch;
		unsigned calls;

		assert_int_equal(open_net(&r.heap, &nets[k], &e), TW_OK);
		w = first_values(e);
		a = vector(e);
		scratch = room_for(e);
		gradient(e, scratch, w, 0, BATCH, a);
		calls = r.calls;
		for (uint64_t i = 1; i < 8; i++)
			gradient(e, scratch, w, i * BATCH, BATCH, a);
		assert_int_equal(r.calls, calls);
		put(w), put(a), put(scratch);
		e->class->close(e);
		assert_int_equal(r.live, 0);
	}
}

/* What lay in the scratch and in the gradient before is nobody's input. */
static void leftovers_do_not_matter(void **state)
{
	static const char *const all[] = {
		"conv 6 5x5 stride 2", "batchnorm",   "relu",      "conv 33 3x3 pad 1",
		"leaky-relu",          "local 5 3x3", "gelu",      "avgpool 3x2",
		"layernorm",           "dropout 0.3", "linear 19", "sigmoid",
		"batchnorm",           "linear 11",   "softmax",   "linear 10"
	};
	const struct net net = { all, sizeof all / sizeof *all, 1, 0, 0 };
	struct tw_engine *e = opened(&net);
	float *w = first_values(e), *a = vector(e), *b = vector(e);
	const size_t bytes = (e->trainable + e->buffers) * sizeof *a;
	void *scratch = room_for(e);
	struct tw_score x, y;

	(void)state;
	for (uint32_t count = 1; count <= BATCH; count += BATCH - 1) {
		memset(scratch, 0, e->scratch_bytes);
		memset(a, 0, bytes);
		x = gradient(e, scratch, w, 3, count, a);
		memset(scratch, 0xff, e->scratch_bytes);
		memset(b, 0xff, bytes);
		y = gradient(e, scratch, w, 3, count, b);
		assert_memory_equal(a, b, bytes);
		assert_true(x.loss == y.loss && x.correct == y.correct);
	}
	put(w), put(a), put(b), put(scratch);
	e->class->close(e);
}

/* Others are gone: one gets more samples than usual, and no more than were agreed. */
static void larger_batches_are_met(void **state)
{
	const struct net net = { .text = dense,
				 .layers = sizeof dense / sizeof *dense,
				 .most = 40 };
	struct tw_engine *e = opened(&net);
	float *w = first_values(e), *a = vector(e);
	const struct tw_piece whole = { w, 0, e->trainable + e->buffers };
	const struct tw_inputs in = { .count = 41, .piece = &whole, .pieces = 1 };
	void *scratch = room_for(e);
	struct tw_score score;

	(void)state;
	score = gradient(e, scratch, w, 0, 40, a);
	assert_int_equal(score.samples, 40);
	assert_int_equal(e->class->gradient(e, scratch, &in, a, &score), TW_BAD_INPUT);
	put(w), put(a), put(scratch);
	e->class->close(e);
}

static void memory_may_be_refused(void **state)
{
	(void)state;
	for (unsigned nth = 1;; nth++) {
		struct refusing r = REFUSING(nth);
		struct tw_engine *e = NULL;
		const enum tw_status st = open_net(&r.heap, &nets[1], &e);

		if (st == TW_OK) {
			e->class->close(e);
			assert_int_equal(r.live, 0);
			assert_true(r.calls < nth);
			return;
		}
		assert_int_equal(st, TW_NO_MEMORY);
		assert_int_equal(r.live, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_do_not_matter),
		cmocka_unit_test(sizes_are_made_when_met),
		cmocka_unit_test(a_batch_is_the_mean_of_its_samples),
		cmocka_unit_test(weights_multiply_gradients),
		cmocka_unit_test(threads_do_not_matter),
		cmocka_unit_test(noise_is_not_to_be_predicted),
		cmocka_unit_test(evaluation_adds_up),
		cmocka_unit_test(who_is_cancelled_says_so),
		cmocka_unit_test(nothing_is_allocated_once_warm),
		cmocka_unit_test(leftovers_do_not_matter),
		cmocka_unit_test(larger_batches_are_met),
		cmocka_unit_test(memory_may_be_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
