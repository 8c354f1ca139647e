/* SPDX-License-Identifier: Apache-2.0 */
/* forward.c - a trained network without the data it was trained on.
 *
 * There is a program for whole batches and one for what is left at the end of the rows. */
#include "engine/forward.h"

#include <stdlib.h>

struct piece {
	struct tw_program *program;
	uint32_t batch;
	void *arena;
};

struct tw_forward {
	struct tw_heap *heap;
	struct tw_forward_facts facts;
	size_t outputs;
	struct piece whole, rest;
	const float **parameter; /* one per tensor */
	float *x, *target;
	uint32_t *label;
	uint64_t *index;
};

static void drop(struct tw_forward *f, struct piece *p)
{
	tw_program_free(p->program);
	f->heap->put(f->heap, p->arena);
	*p = (struct piece){ .program = NULL };
}

static enum tw_status prepare(struct tw_forward *f, struct piece *p, uint32_t batch,
			      struct tw_error *why)
{
	enum tw_status st;

	if (p->batch == batch)
		return TW_OK;
	drop(f, p);
	st = tw_program_new(f->facts.graph, TW_PROGRAM_EVALUATE, batch, 0, &p->program, why);
	if (st != TW_OK)
		return st;
	p->arena = f->heap->get(f->heap, tw_program_bytes(p->program) + TW_ALIGN);
	if (!p->arena) {
		drop(f, p);
		return tw_fail(why, TW_NO_MEMORY, "no memory for a batch of %u", batch);
	}
	p->batch = batch;
	return TW_OK;
}

enum tw_status tw_forward_open(struct tw_heap *heap, const struct tw_forward_facts *facts,
			       struct tw_forward **out, struct tw_error *why)
{
	const struct tw_graph *g = facts->graph;
	const struct tw_data *d = facts->data;
	struct tw_forward *f = tw_heap_zeros(heap, sizeof *f);
	const size_t n = facts->batch;

	if (!f)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the network");
	f->heap = heap;
	f->facts = *facts;
	f->outputs = tw_shape_size(&g->node[g->node[g->nodes - 1].in[0]].shape);
	f->parameter = heap->get(heap, (g->tensors + 1) * sizeof *f->parameter);
	f->x = heap->get(heap, n * d->features * sizeof *f->x);
	f->target = heap->get(heap, (n * d->targets + 1) * sizeof *f->target);
	f->label = heap->get(heap, n * sizeof *f->label);
	f->index = heap->get(heap, n * sizeof *f->index);
	if (!f->parameter || !f->x || !f->target || !f->label || !f->index) {
		tw_forward_close(f);
		return tw_fail(why, TW_NO_MEMORY, "no memory for a batch of %u", facts->batch);
	}
	for (uint32_t t = 0; t < g->tensors; t++)
		f->parameter[t] = facts->vector + g->tensor[t].from;
	*out = f;
	return TW_OK;
}

void tw_forward_close(struct tw_forward *f)
{
	struct tw_heap *heap;

	if (!f)
		return;
	heap = f->heap;
	drop(f, &f->whole);
	drop(f, &f->rest);
	heap->put(heap, f->parameter);
	heap->put(heap, f->x);
	heap->put(heap, f->target);
	heap->put(heap, f->label);
	heap->put(heap, f->index);
	heap->put(heap, f);
}

static enum tw_status some(struct tw_forward *f, const struct tw_samples *set, uint64_t from,
			   uint32_t count, float *prediction, struct tw_score *sum)
{
	const struct tw_forward_facts *a = &f->facts;
	struct piece *p = count == a->batch ? &f->whole : &f->rest;
	const struct tw_batch batch = { set, f->index, count, from };
	double loss = 0, correct = 0;
	struct tw_program_run r = {
		.x = f->x,
		.parameter = f->parameter,
		.batch = { .position = from, .loss = &loss, .correct = &correct },
		.prediction = prediction,
	};
	enum tw_status st = prepare(f, p, count, NULL);

	if (st != TW_OK)
		return st;
	for (uint32_t k = 0; k < count; k++)
		f->index[k] = from + k;
	tw_data_fill(a->data, &batch, NULL, 0, f->x, f->label, f->target);
	if (a->own_input)
		r.batch.target = f->x;
	else if (a->data->targets)
		r.batch.target = f->target;
	else
		r.batch.label = f->label;
	st = tw_program_run(p->program, p->arena, &r);
	sum->loss += loss;
	sum->correct = correct < 0 || sum->correct < 0 ? -1 : sum->correct + correct;
	sum->samples += count;
	return st;
}

enum tw_status tw_forward_run(struct tw_forward *f, const struct tw_samples *set, uint64_t from,
			      uint32_t count, float *prediction, struct tw_score *score)
{
	const uint32_t batch = f->facts.batch;
	struct tw_score sum = { 0 };
	enum tw_status st = TW_OK;

	if (from % batch || from > set->count || count > set->count - from)
		return TW_BAD_INPUT;
	for (uint32_t done = 0; done < count && st == TW_OK;) {
		const uint32_t n = count - done < batch ? count - done : batch;

		st = some(f, set, from + done, n,
			  prediction ? prediction + (size_t)done * f->outputs : NULL, &sum);
		done += n;
	}
	if (score)
		*score = sum;
	return st;
}
