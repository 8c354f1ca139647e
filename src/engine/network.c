/* SPDX-License-Identifier: Apache-2.0 */
/* network.c - a network on a data set, behind the table of engines.
 *
 *  (1) a gradient depends on positions, parameters and the seed alone: not on who asks, nor on what
 *      was prefetched, nor on how many threads run.
 *  (2) a program, once in the list of its part, stays there and never changes; a part, once in its
 *      list, stays there; lists only grow at their head. */
#include "engine/network_inner.h"

#include "engine/effort.h"
#include "engine/order.h"
#include "engine/targets.h"
#include "graph/rescale.h"
#include "model/model.h"
#include "vec/vec.h"

#define PORTION_LEAST 64u
#define PORTION_MOST  256u

/* Its list of programs may grow (2). */
static struct part *whole_of(const struct network *n)
{
	return &((struct network *)n)->whole;
}

/* Online, samples stand at their places (base/order.h), so positions are those of the set. */
static enum tw_status network_gradient(const struct tw_engine *e, void *scratch,
				       const struct tw_inputs *in, float *gradient,
				       struct tw_score *score)
{
	const struct network *n = (const struct network *)e;
	struct tw_score predicted = { 0 };
	enum tw_status st = TW_OK;

	if (n->looks)
		st = tw_network_score(e, scratch, &n->facts.data->train, in, NULL, &predicted);
	if (st == TW_OK)
		st = tw_network_profile(e, scratch, in, gradient, score, NULL, NULL);
	if (st == TW_OK && n->looks)
		*score = predicted;
	return st;
}

enum tw_status tw_network_profile(const struct tw_engine *e, void *scratch,
				  const struct tw_inputs *in, float *gradient,
				  struct tw_score *score, int64_t (*clock)(void), int64_t *spent)
{
	const struct network *n = (const struct network *)e;
	struct part *p = whole_of(n);
	double loss = 0, correct = 0;
	struct tw_program_run r = {
		.gradient = gradient,
		.batch = { .position = in->from, .loss = &loss, .correct = &correct },
		.cancel = in->cancel,
		.clock = clock,
		.spent = spent,
	};
	struct bench b;
	struct made *m;
	enum tw_status st;

	if (!tw_order_is_batch(e->samples, in) || in->count > n->facts.most)
		return TW_BAD_INPUT;
	st = tw_part_program(n, p, TW_PROGRAM_TRAIN, in->count, &m);
	if (st != TW_OK)
		return st;
	tw_bench_carve(n, p, (uintptr_t)scratch, &b);
	tw_bench_tensors(n, p, in, &b);
	st = tw_network_fill(n, p, in, false, &b);
	if (st == TW_OK)
		st = tw_network_execute(n, m, &b, &r);
	if (st == TW_OK)
		*score = (struct tw_score){ loss, n->judged ? correct : -1, in->count };
	return st;
}

enum tw_status tw_network_score(const struct tw_engine *e, void *scratch,
				const struct tw_samples *set, const struct tw_inputs *in,
				float *prediction, struct tw_score *score)
{
	const struct network *n = (const struct network *)e;
	struct tw_score sum = { .samples = in->count };
	struct part *p = whole_of(n);
	struct bench b;

	if (in->count == 0 || in->from >= set->count || in->count > set->count - in->from)
		return TW_BAD_INPUT;
	tw_bench_carve(n, p, (uintptr_t)scratch, &b);
	tw_bench_tensors(n, p, in, &b);
	for (uint32_t done = 0; done < in->count;) {
		const uint32_t left = in->count - done;
		const uint32_t count = left < n->portion ? left : n->portion;
		double loss = 0, correct = 0;
		struct tw_program_run r = {
			.batch = { .position = in->from + done,
				   .loss = &loss,
				   .correct = &correct },
			.prediction = prediction ? prediction + (size_t)done * n->outputs : NULL,
			.cancel = in->cancel,
		};
		struct made *m;
		enum tw_status st = tw_part_program(n, p, TW_PROGRAM_EVALUATE, count, &m);

		if (st != TW_OK)
			return st;
		st = tw_network_fill_test(n, p, set, in->from + done, count, &b);
		if (st == TW_OK)
			st = tw_network_execute(n, m, &b, &r);
		if (st != TW_OK)
			return st;
		sum.loss += loss;
		sum.correct = correct < 0 || !n->judged ? -1 : sum.correct + correct;
		done += count;
	}
	*score = sum;
	return TW_OK;
}

static enum tw_status network_evaluate(const struct tw_engine *e, void *scratch,
				       const struct tw_inputs *in, struct tw_score *score)
{
	const struct network *n = (const struct network *)e;
	struct tw_inputs at = *in;
	const struct tw_samples *set = tw_network_scored(n, &at.from);

	return tw_network_score(e, scratch, set, &at, NULL, score);
}

static enum tw_status network_init(const struct tw_engine *e, size_t from, size_t count, float *out)
{
	const struct network *n = (const struct network *)e;
	const size_t all = tw_engine_floats(e);

	if (from > all || count > all - from)
		return TW_BAD_INPUT;
	if (n->facts.weights)
		tw_vec_copy(out, n->facts.weights + from, count);
	else
		tw_model_init(n->facts.graph, n->facts.seed, from, count, out);
	return TW_OK;
}

/* --- opening and closing ---------------------------------------------------------------------- */

static void network_close(struct tw_engine *e)
{
	struct network *n = (struct network *)e;

	if (!n)
		return;
	tw_prefetch_stop(n->prefetch);
	tw_part_release(n, &n->whole);
	for (struct part *p = atomic_load(&n->parts), *next; p; p = next) {
		next = p->next;
		tw_part_release(n, p);
		n->heap->put(n->heap, p);
	}
	pthread_mutex_destroy(&n->making);
	n->heap->put(n->heap, n->tensor);
	n->heap->put(n->heap, n->drawn);
	n->heap->put(n->heap, n->constant);
	n->heap->put(n->heap, n->cut);
	n->heap->put(n->heap, n->after);
	n->heap->put(n->heap, n->share);
	n->heap->put(n->heap, n->facts.weights);
	tw_graph_free(n->facts.graph);
	tw_data_close(n->facts.data);
	n->heap->put(n->heap, n);
}

static double network_effort(const struct tw_engine *e, const struct tw_inputs *in)
{
	const struct network *n = (const struct network *)e;

	return tw_effort_mean(e, n->facts.data, in);
}

static void network_arrived(const struct tw_engine *e, uint64_t want, int64_t wait,
			    struct tw_arrived *out)
{
	struct tw_supply *s = ((const struct network *)e)->facts.data->train.supply;

	s->arrived(s, want, wait, out);
}

static void network_forget(const struct tw_engine *e, uint64_t below)
{
	struct tw_supply *s = ((const struct network *)e)->facts.data->train.supply;

	s->forget(s, below);
}

static const struct tw_engine_class network_class = {
	.name = "network",
	.init = network_init,
	.gradient = network_gradient,
	.evaluate = network_evaluate,
	.run = tw_network_pass,
	.needs = tw_network_needs,
	.given_bytes = tw_network_given_bytes,
	.give = tw_network_give,
	.effort = network_effort,
	.arrived = network_arrived,
	.forget = network_forget,
	.close = network_close,
};

static enum tw_status choose_test(struct network *n, struct tw_error *why)
{
	const struct tw_data *d = n->facts.data;
	const enum tw_data_set set = (enum tw_data_set)n->facts.options.evaluate;

	n->test = tw_data_set(d, set);
	if (set != TW_SET_TEST && d->test.count)
		n->held = &d->test;
	if (n->test->count)
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT, "there are no %s samples to evaluate on",
		       set == TW_SET_VALIDATION ? "validation" : "test");
}

/* Where outputs are rescaled to the units of the targets, gradients are those of scaled targets. */
static enum tw_status find_share(struct network *n, struct tw_error *why)
{
	const struct tw_graph *g = n->facts.graph;
	const struct tw_graph_node *last = &g->node[g->node[g->nodes - 1].in[0]];
	const struct tw_rescale_options *o = last->options;

	if (!last->op || !(last->op->traits & TW_OP_RESCALES))
		return TW_OK;
	n->share = n->heap->get(n->heap, o->by.count * sizeof *n->share);
	if (!n->share)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the network");
	for (size_t k = 0; k < o->by.count; k++)
		n->share[k] = (float)(1 / (o->by.at[k] * o->by.at[k]));
	return TW_OK;
}

/* Values of the frozen tensors, and their places in the model. */
static enum tw_status find_constants(struct network *n)
{
	const struct tw_graph *g = n->facts.graph;
	size_t at = 0, count = 0;

	if (!g->frozen)
		return TW_OK;
	n->constant = n->heap->get(n->heap, g->tensors * sizeof *n->constant);
	if (!n->facts.weights)
		n->drawn = n->heap->get(n->heap, g->frozen * sizeof *n->drawn);
	if (!n->constant || (!n->facts.weights && !n->drawn))
		return TW_NO_MEMORY;
	if (n->drawn)
		tw_model_init(g, n->facts.seed, tw_graph_moving(g), g->frozen, n->drawn);
	n->frozen = n->drawn ? n->drawn : n->facts.weights + tw_graph_moving(g);
	for (uint32_t t = 0; t < g->tensors; t++) {
		const struct tw_graph_tensor *one = &g->tensor[t];

		if (one->frozen)
			n->constant[count++] =
				(struct tw_piece){ n->frozen + (one->from - tw_graph_moving(g)), at,
						   one->n };
		at += one->n;
	}
	n->e.constants = (struct tw_constants){ n->constant, count, g->frozen };
	return TW_OK;
}

/* Of a step: products forward, those for the gradients of inputs that somebody below needs, and
 * those for the gradients of weights. */
static double step_cost(const struct tw_graph *g, bool *needs)
{
	double sum = 0;

	if (!g->frozen)
		return 3 * g->flops;
	needs[0] = false;
	for (uint32_t k = 1; k < g->nodes; k++) {
		const struct tw_graph_node *node = &g->node[k];
		const bool learns = node->form.parameters > 0 && !node->frozen;
		bool below = false;

		for (uint32_t i = 0; i < node->ins; i++)
			below |= needs[node->in[i]];
		needs[k] = learns || below;
		sum += node->form.flops * (1 + learns + below);
	}
	return sum;
}

static enum tw_status find_tensors(struct network *n)
{
	const struct tw_graph *g = n->facts.graph;
	bool *needs = n->heap->get(n->heap, g->nodes * sizeof *needs);
	size_t count = 0;

	n->tensor = n->heap->get(n->heap, ((size_t)g->tensors + 1) * sizeof *n->tensor);
	if (!n->tensor || !needs) {
		n->heap->put(n->heap, needs);
		return TW_NO_MEMORY;
	}
	for (uint32_t t = 0; t < g->tensors; t++)
		if (!g->tensor[t].frozen)
			n->tensor[count++] = g->tensor[t].from;
	n->tensor[count] = tw_graph_moving(g);
	n->e.tensor = n->tensor;
	n->e.tensors = count;
	n->e.cost = step_cost(g, needs);
	n->heap->put(n->heap, needs);
	return find_constants(n);
}

/* While it trains it computes something else than its predictions. */
static bool trains_otherwise(const struct network *n)
{
	const struct tw_graph *g = n->facts.graph;
	const struct tw_data_options *o = &n->facts.options;
	bool other = n->facts.data->weight || o->shift || o->flip || o->noise > 0;

	for (uint32_t k = 0; k < g->nodes; k++)
		other = other || (g->node[k].op &&
				  (g->node[k].op->traits & (TW_OP_DRAWS | TW_OP_RANDOM_BATCH)));
	return other;
}

static enum tw_status fill_in(struct network *n, struct tw_error *why)
{
	const struct tw_graph *g = n->facts.graph;
	const struct tw_data *d = n->facts.data;
	const uint32_t batch = n->facts.batch;
	struct bench unused;
	uint64_t all;
	enum tw_status st = choose_test(n, why);

	if (st != TW_OK)
		return st;
	n->portion = batch < PORTION_LEAST ? PORTION_LEAST : batch;
	n->portion = n->portion > PORTION_MOST ? PORTION_MOST : n->portion;
	n->room = n->facts.most > n->portion ? n->facts.most : n->portion;
	n->judged = tw_targets_judged(&n->facts);
	n->outputs = tw_shape_size(&g->node[g->node[g->nodes - 1].in[0]].shape);
	st = find_share(n, why);
	if (st != TW_OK)
		return st;
	all = d->train.count == TW_ENDLESS ? TW_STREAM_SAMPLES : d->train.count;
	n->e = (struct tw_engine){
		.class = &network_class,
		.trainable = g->trainable,
		.buffers = g->buffers,
		.samples = all,
		.keeps = d->train.supply ? d->train.supply->keeps : 0,
		.tests = n->test->count,
		.held = n->held ? n->held->count : 0,
		.order = tw_order_make(n->facts.seed, all),
	};
	st = find_tensors(n);
	if (st != TW_OK)
		return tw_fail(why, st, "no memory for the network");
	n->looks = n->facts.online && trains_otherwise(n);
	if (n->looks)
		n->e.cost += g->flops;
	st = tw_network_cuts(n, why);
	if (st == TW_OK)
		st = tw_part_init(n, &n->whole, 0, (uint32_t)n->e.cuts - 1, TW_PROGRAM_TRAIN, why);
	if (st != TW_OK)
		return st;
	n->e.scratch_bytes = tw_bench_carve(n, &n->whole, 0, &unused);
	if (n->facts.options.prefetch)
		st = tw_prefetch_start(n->heap,
				       &(struct tw_prefetch_facts){
					       .data = d,
					       .options = &n->facts.options,
					       .order = &n->e.order,
					       .seed = n->facts.seed,
					       .batch_max = batch,
					       .ahead = n->facts.options.prefetch,
				       },
				       &n->prefetch, why);
	return st;
}

enum tw_status tw_network_open(struct tw_heap *heap, const struct tw_network_facts *facts,
			       struct tw_engine **out, struct tw_error *why)
{
	struct network *n = tw_heap_zeros(heap, sizeof *n);
	enum tw_status st;

	if (!n) {
		heap->put(heap, facts->weights);
		tw_graph_free(facts->graph);
		tw_data_close(facts->data);
		return tw_fail(why, TW_NO_MEMORY, "no memory for the network");
	}
	n->heap = heap;
	n->facts = *facts;
	if (n->facts.most < facts->batch)
		n->facts.most = facts->batch;
	pthread_mutex_init(&n->making, NULL);
	st = fill_in(n, why);
	if (st != TW_OK) {
		network_close(&n->e);
		return st;
	}
	*out = &n->e;
	return TW_OK;
}

/* --- for those who look in -------------------------------------------------------------------- */

static const struct network *network_of(const struct tw_engine *e)
{
	return e->class == &network_class ? (const struct network *)e : NULL;
}

const struct tw_graph *tw_network_graph(const struct tw_engine *e)
{
	return network_of(e) ? network_of(e)->facts.graph : NULL;
}

const struct tw_data *tw_network_data(const struct tw_engine *e)
{
	return network_of(e) ? network_of(e)->facts.data : NULL;
}

struct tw_program *tw_network_program(const struct tw_engine *e, enum tw_program_kind kind,
				      uint32_t batch)
{
	const struct network *n = network_of(e);
	struct made *m;

	return tw_part_program(n, whole_of(n), kind, batch, &m) == TW_OK ? m->program : NULL;
}

uint32_t tw_network_cut_node(const struct tw_engine *e, size_t cut)
{
	return network_of(e)->after[cut];
}

uint32_t tw_network_portion(const struct tw_engine *e)
{
	return network_of(e)->portion;
}
