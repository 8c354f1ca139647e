/* SPDX-License-Identifier: Apache-2.0 */
/* network.c - a network on a data set, behind the table of engines.
 *
 *  (1) a gradient depends on positions, parameters and the seed alone: not on who asks, nor on what
 *      was prefetched, nor on how many threads run.
 *  (2) a program, once in the list, stays there and never changes; the list only grows at its head.
 *
 * Scratch of one computation: the program's arena, the batch, pointers to the tensors, and room to
 * gather tensors that a shard's border cuts in two. */
#include "engine/network.h"

#include "engine/effort.h"
#include "engine/order.h"
#include "engine/targets.h"
#include "model/model.h"
#include "vec/vec.h"

#include <pthread.h>
#include <string.h>

#define PORTION_LEAST 64u
#define PORTION_MOST  256u

struct made {
	struct tw_program *program;
	enum tw_program_kind kind;
	uint32_t batch;
	struct tw_pool *arenas; /* where its arena is larger than the scratch has; else NULL */
	struct made *next;
};

struct network {
	struct tw_engine e; /* must stay first */
	struct tw_heap *heap;
	struct tw_network_facts facts;
	struct tw_prefetch *prefetch;
	size_t *tensor; /* starts */
	const struct tw_samples *test;
	uint32_t portion;  /* samples evaluated at once */
	uint32_t room;     /* samples of the largest batch of any kind */
	size_t arena_room; /* bytes of scratch for a program */
	size_t outputs;
	bool judged; /* predictions are right or wrong */
	pthread_mutex_t making;
	_Atomic(struct made *) list;
};

/* --- programs --------------------------------------------------------------------------------- */

static struct made *find(const struct network *n, enum tw_program_kind kind, uint32_t batch)
{
	struct made *m =
		atomic_load_explicit((_Atomic(struct made *) *)&n->list, memory_order_acquire);

	while (m && (m->kind != kind || m->batch != batch))
		m = m->next;
	return m;
}

static enum tw_status make(struct network *n, enum tw_program_kind kind, uint32_t batch,
			   struct made **out, struct tw_error *why)
{
	struct made *m = tw_heap_zeros(n->heap, sizeof *m);
	enum tw_status st;
	size_t bytes;

	if (!m)
		return tw_fail(why, TW_NO_MEMORY, "no memory for a program");
	*m = (struct made){ .kind = kind, .batch = batch };
	st = tw_program_new(n->facts.graph, kind, batch, n->facts.seed, &m->program, why);
	if (st != TW_OK)
		goto out_put;
	bytes = tw_program_bytes(m->program);
	if (n->arena_room && bytes > n->arena_room) {
		m->arenas = tw_pool_new(n->heap, bytes);
		if (!m->arenas) {
			st = tw_fail(why, TW_NO_MEMORY, "no memory for a program's arena");
			goto out_free;
		}
	}
	m->next = atomic_load_explicit(&n->list, memory_order_relaxed);
	atomic_store_explicit(&n->list, m, memory_order_release);
	*out = m;
	return TW_OK;

out_free:
	tw_program_free(m->program);
out_put:
	n->heap->put(n->heap, m);
	return st;
}

/* The program for this batch, made by whoever needs it first. */
static enum tw_status program_of(const struct network *n, enum tw_program_kind kind, uint32_t batch,
				 struct made **out)
{
	struct network *mine = (struct network *)n; /* the list grows under its lock */
	enum tw_status st = TW_OK;

	*out = find(n, kind, batch);
	if (*out)
		return TW_OK;
	pthread_mutex_lock(&mine->making);
	*out = find(n, kind, batch);
	if (!*out)
		st = make(mine, kind, batch, out, NULL);
	pthread_mutex_unlock(&mine->making);
	return st;
}

/* --- scratch ---------------------------------------------------------------------------------- */

struct bench {
	uint8_t *arena;
	float *x, *target;
	float *clean; /* the inputs without their noise, where they are to be predicted */
	uint32_t *label;
	uint64_t *index;
	const float **parameter;
	float *gathered;
};

static size_t up(size_t bytes)
{
	return (bytes + TW_ALIGN - 1) / TW_ALIGN * TW_ALIGN;
}

/* Does it predict what its inputs were before the noise? */
static bool denoises(const struct network *n)
{
	return n->facts.own_input && n->facts.options.noise > 0;
}

/* Lay the scratch out from `base`; returns its length.  With base 0 only the length counts. */
static size_t carve(const struct network *n, uintptr_t base, struct bench *b)
{
	const struct tw_data *d = n->facts.data;
	const size_t all = n->e.trainable + n->e.buffers;
	uintptr_t at = base;

	b->arena = (uint8_t *)at;
	at += up(n->arena_room);
	b->x = (float *)at;
	at += up(n->room * d->features * sizeof(float));
	b->target = (float *)at;
	at += up(n->room * d->targets * sizeof(float));
	b->clean = (float *)at;
	at += up(denoises(n) ? n->room * d->features * sizeof(float) : 0);
	b->label = (uint32_t *)at;
	at += up(n->room * sizeof(uint32_t));
	b->index = (uint64_t *)at;
	at += up(n->room * sizeof(uint64_t));
	b->parameter = (const float **)at;
	at += up(n->e.tensors * sizeof *b->parameter);
	b->gathered = (float *)at;
	at += up(all * sizeof(float)) + n->e.tensors * TW_ALIGN;
	return at - base;
}

/* A pointer per tensor: into the piece that holds it, or to a gathered copy. */
static void find_tensors(const struct network *n, const struct tw_inputs *in, struct bench *b)
{
	float *room = b->gathered;
	size_t k = 0;

	for (size_t t = 0; t < n->e.tensors; t++) {
		const size_t from = n->tensor[t], to = n->tensor[t + 1];

		while (k + 1 < in->pieces && in->piece[k].from + in->piece[k].n <= from)
			k++;
		if (in->piece[k].from + in->piece[k].n >= to) {
			b->parameter[t] = in->piece[k].at + (from - in->piece[k].from);
			continue;
		}
		b->parameter[t] = room;
		for (size_t i = k, at = from; at < to; i++) {
			const struct tw_piece *p = &in->piece[i];
			const size_t end = p->from + p->n < to ? p->from + p->n : to;

			tw_vec_copy(room + (at - from), p->at + (at - p->from), end - at);
			at = end;
		}
		room += up((to - from) * sizeof(float)) / sizeof(float);
	}
}

/* --- batches ---------------------------------------------------------------------------------- */

static bool augments(const struct tw_data_options *o)
{
	return o->shift > 0 || o->flip || o->noise > 0;
}

static void fill_training(const struct network *n, uint64_t from, uint32_t count, struct bench *b)
{
	const struct tw_network_facts *f = &n->facts;
	const struct tw_batch batch = { &f->data->train, b->index, count, from };
	struct tw_data_options clean = f->options;
	const bool ready = n->prefetch &&
			   tw_prefetch_take(n->prefetch, from, count, b->x, b->label, b->target);

	if (ready && !denoises(n))
		return;
	for (uint32_t k = 0; k < count; k++)
		b->index[k] = tw_order_sample(&n->e.order, from + k);
	if (!ready)
		tw_data_fill(f->data, &batch, augments(&f->options) ? &f->options : NULL, f->seed,
			     b->x, b->label, b->target);
	clean.noise = 0; /* moved and mirrored as they are, by the same draws */
	if (denoises(n))
		tw_data_fill(f->data, &batch, augments(&clean) ? &clean : NULL, f->seed, b->clean,
			     b->label, b->target);
}

/* What is to be predicted; an evaluation has no noise. */
static const float *wanted(const struct network *n, const struct made *m, const struct bench *b)
{
	if (n->facts.own_input)
		return m->kind == TW_PROGRAM_TRAIN && denoises(n) ? b->clean : b->x;
	return n->facts.data->targets ? b->target : NULL;
}

static enum tw_status run(const struct network *n, struct made *m, struct bench *b,
			  struct tw_program_run *r)
{
	struct tw_block *own = NULL;
	void *arena = b->arena;
	enum tw_status st;

	if (m->arenas) {
		own = tw_pool_take(m->arenas);
		if (!own)
			return TW_NO_MEMORY;
		arena = own->data;
	}
	r->x = b->x;
	r->parameter = b->parameter;
	r->batch.label = n->facts.data->classes && !n->facts.own_input ? b->label : NULL;
	r->batch.target = wanted(n, m, b);
	st = tw_program_run(m->program, arena, r);
	tw_block_drop(own);
	return st;
}

static enum tw_status network_gradient(const struct tw_engine *e, void *scratch,
				       const struct tw_inputs *in, float *gradient,
				       struct tw_score *score)
{
	const struct network *n = (const struct network *)e;
	double loss = 0, correct = 0;
	struct tw_program_run r = {
		.gradient = gradient,
		.batch = { .position = in->from, .loss = &loss, .correct = &correct },
		.cancel = in->cancel,
	};
	struct bench b;
	struct made *m;
	enum tw_status st;

	if (!tw_order_is_batch(e->samples, in) || in->count > n->facts.most)
		return TW_BAD_INPUT;
	st = program_of(n, TW_PROGRAM_TRAIN, in->count, &m);
	if (st != TW_OK)
		return st;
	carve(n, (uintptr_t)scratch, &b);
	find_tensors(n, in, &b);
	fill_training(n, in->from, in->count, &b);
	st = run(n, m, &b, &r);
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
	struct bench b;

	if (in->count == 0 || in->from >= set->count || in->count > set->count - in->from)
		return TW_BAD_INPUT;
	carve(n, (uintptr_t)scratch, &b);
	find_tensors(n, in, &b);
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
		const struct tw_batch batch = { set, b.index, count, in->from + done };
		struct made *m;
		enum tw_status st = program_of(n, TW_PROGRAM_EVALUATE, count, &m);

		if (st != TW_OK)
			return st;
		for (uint32_t k = 0; k < count; k++)
			b.index[k] = in->from + done + k;
		tw_data_fill(n->facts.data, &batch, NULL, n->facts.seed, b.x, b.label, b.target);
		st = run(n, m, &b, &r);
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

	return tw_network_score(e, scratch, n->test, in, NULL, score);
}

static enum tw_status network_init(const struct tw_engine *e, size_t from, size_t count, float *out)
{
	const struct network *n = (const struct network *)e;
	const size_t all = e->trainable + e->buffers;

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
	for (struct made *m = atomic_load(&n->list), *next; m; m = next) {
		next = m->next;
		tw_program_free(m->program);
		tw_pool_free(m->arenas);
		n->heap->put(n->heap, m);
	}
	pthread_mutex_destroy(&n->making);
	n->heap->put(n->heap, n->tensor);
	n->heap->put(n->heap, n->facts.weights);
	tw_graph_free(n->facts.graph);
	tw_data_close(n->facts.data);
	n->heap->put(n->heap, n);
}

static double network_effort(const struct tw_engine *e, const struct tw_inputs *in)
{
	const struct network *n = (const struct network *)e;

	return tw_effort_mean(e, n->facts.data->train.label, in);
}

static const struct tw_engine_class network_class = {
	.name = "network",
	.init = network_init,
	.gradient = network_gradient,
	.evaluate = network_evaluate,
	.effort = network_effort,
	.close = network_close,
};

static enum tw_status choose_test(struct network *n, struct tw_error *why)
{
	const struct tw_data *d = n->facts.data;
	const enum tw_data_set set = (enum tw_data_set)n->facts.options.evaluate;

	n->test = tw_data_set(d, set);
	if (n->test->count)
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT, "there are no %s samples to evaluate on",
		       set == TW_SET_VALIDATION ? "validation" : "test");
}

/* The programs that every run needs; the arena's room follows from them. */
static enum tw_status make_usual(struct network *n, struct tw_error *why)
{
	struct made *m;
	size_t most;
	enum tw_status st = make(n, TW_PROGRAM_TRAIN, n->facts.batch, &m, why);

	if (st != TW_OK)
		return st;
	most = tw_program_bytes(m->program);
	st = make(n, TW_PROGRAM_EVALUATE, n->portion, &m, why);
	if (st != TW_OK)
		return st;
	if (tw_program_bytes(m->program) > most)
		most = tw_program_bytes(m->program);
	n->arena_room = most;
	return TW_OK;
}

static enum tw_status fill_in(struct network *n, struct tw_error *why)
{
	const struct tw_graph *g = n->facts.graph;
	const struct tw_data *d = n->facts.data;
	const uint32_t batch = n->facts.batch;
	struct bench unused;
	enum tw_status st = choose_test(n, why);

	if (st != TW_OK)
		return st;
	n->portion = batch < PORTION_LEAST ? PORTION_LEAST : batch;
	n->portion = n->portion > PORTION_MOST ? PORTION_MOST : n->portion;
	n->room = n->facts.most > n->portion ? n->facts.most : n->portion;
	n->judged = tw_targets_judged(&n->facts);
	n->outputs = tw_shape_size(&g->node[g->node[g->nodes - 1].in[0]].shape);
	n->tensor = n->heap->get(n->heap, ((size_t)g->tensors + 1) * sizeof *n->tensor);
	if (!n->tensor)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the network");
	for (uint32_t t = 0; t < g->tensors; t++)
		n->tensor[t] = g->tensor[t].from;
	n->tensor[g->tensors] = g->trainable + g->buffers;
	n->e = (struct tw_engine){
		.class = &network_class,
		.trainable = g->trainable,
		.buffers = g->buffers,
		.tensor = n->tensor,
		.tensors = g->tensors,
		.samples = d->train.count,
		.tests = n->test->count,
		.cost = 3 * g->flops,
		.order = tw_order_make(n->facts.seed, d->train.count),
	};
	st = make_usual(n, why);
	if (st != TW_OK)
		return st;
	n->e.scratch_bytes = carve(n, 0, &unused);
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
	struct made *m;

	return program_of(network_of(e), kind, batch, &m) == TW_OK ? m->program : NULL;
}

uint32_t tw_network_portion(const struct tw_engine *e)
{
	return network_of(e)->portion;
}
