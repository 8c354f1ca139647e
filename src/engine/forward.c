/* SPDX-License-Identifier: Apache-2.0 */
/* forward.c - a trained network without the data it was trained on.
 *
 * For each stage there is a program for whole batches and one for what is left at the end of the
 * rows.
 *
 *  (1) stages are in order, and each begins where the one before it ends; with all parameters in
 *      memory there is one.
 *  (2) what crosses a cut is kept batch after batch, each with the room of a whole one: value after
 *      value, from a multiple of 16 floats on.
 *  (3) scores are added up in groups of batches from row 0 on, so that a loss does not depend on
 *      how many rows are asked for at once. */
#include "engine/forward.h"

#include <stdlib.h>

struct piece {
	struct tw_program *program;
	uint32_t batch;
	void *arena;
};

struct stage {
	struct tw_graph_part of;
	struct tw_graph_cut in, out; /* what crosses its borders; of the first and last: nothing */
	size_t floats;               /* of its parameters, with gaps */
	struct piece whole, rest;
};

struct tw_forward {
	struct tw_heap *heap;
	struct tw_forward_facts facts;
	size_t outputs;
	struct stage *stage;
	uint32_t stages;
	uint32_t loaded;         /* the stage whose parameters are in `own`; UINT32_MAX: none */
	float *own;              /* NULL: all are in memory */
	const float **parameter; /* one per tensor */
	float *between[2];       /* (2): what the stage reads, and what it writes */
	size_t room[2];          /* floats */
	float *x, *target;
	uint32_t *label;
	uint64_t *index;
};

/* --- stages --- */

static size_t up(size_t floats)
{
	return (floats + 15) / 16 * 16;
}

static size_t crossing(const struct tw_graph_cut *cut, uint32_t batch)
{
	size_t sum = 0;

	for (uint32_t v = 0; v < cut->values; v++)
		sum += up((size_t)batch * cut->value[v].floats);
	return sum;
}

static bool is_of(const struct tw_graph_part *part, const struct tw_graph_tensor *t)
{
	return t->node > part->behind && t->node <= part->upto;
}

static size_t parameters_of(const struct tw_graph *g, uint32_t behind, uint32_t upto)
{
	const struct tw_graph_part part = { behind, upto };
	size_t sum = 0;

	for (uint32_t t = 0; t < g->tensors; t++)
		if (is_of(&part, &g->tensor[t]))
			sum += up(g->tensor[t].n);
	return sum;
}

/* (1): stages as long as their parameters fit. */
static uint32_t cut_up(const struct tw_forward_facts *facts, const struct tw_graph_cut *cut,
		       uint32_t cuts, struct stage *out)
{
	uint32_t count = 0;

	for (uint32_t a = 0, b; a + 1 < cuts; a = b) {
		for (b = a + 1; b + 1 < cuts; b++)
			if (!facts->vector &&
			    parameters_of(facts->graph, cut[a].after, cut[b + 1].after) *
					    sizeof(float) >
				    facts->memory)
				break;
		out[count++] = (struct stage){
			.of = { cut[a].after, cut[b].after },
			.in = cut[a],
			.out = cut[b],
			.floats = parameters_of(facts->graph, cut[a].after, cut[b].after),
		};
	}
	return count;
}

static enum tw_status find_stages(struct tw_forward *f)
{
	const struct tw_graph *g = f->facts.graph;
	struct tw_graph_cut *cut = f->heap->get(f->heap, g->nodes * sizeof *cut);
	enum tw_status st = TW_NO_MEMORY;
	size_t most = 0;
	uint32_t cuts = 0;

	f->stage = tw_heap_zeros(f->heap, g->nodes * sizeof *f->stage);
	if (cut && f->stage)
		st = tw_graph_cuts(g, cut, &cuts);
	if (st == TW_OK)
		f->stages = cut_up(&f->facts, cut, cuts, f->stage);
	f->heap->put(f->heap, cut);
	for (uint32_t k = 0; k < f->stages; k++)
		most = f->stage[k].floats > most ? f->stage[k].floats : most;
	if (st == TW_OK && !f->facts.vector &&
	    !(f->own = f->heap->get(f->heap, (most + 1) * sizeof *f->own)))
		st = TW_NO_MEMORY;
	f->loaded = UINT32_MAX;
	return st;
}

/* Its parameters are in memory from now on, and those of no other. */
static enum tw_status load(struct tw_forward *f, uint32_t stage)
{
	const struct tw_graph *g = f->facts.graph;
	enum tw_status st = TW_OK;
	float *at = f->own;

	if (f->facts.vector || f->loaded == stage)
		return TW_OK;
	f->loaded = UINT32_MAX;
	for (uint32_t t = 0; t < g->tensors && st == TW_OK; t++) {
		if (!is_of(&f->stage[stage].of, &g->tensor[t]))
			continue;
		st = f->facts.load(f->facts.load_arg, g->tensor[t].from, g->tensor[t].n, at);
		f->parameter[t] = at;
		at += up(g->tensor[t].n);
	}
	if (st == TW_OK)
		f->loaded = stage;
	return st;
}

/* --- programs --- */

static void drop(struct tw_forward *f, struct piece *p)
{
	tw_program_free(p->program);
	f->heap->put(f->heap, p->arena);
	*p = (struct piece){ .program = NULL };
}

static enum tw_status prepare(struct tw_forward *f, const struct stage *s, struct piece *p,
			      uint32_t batch)
{
	enum tw_status st;

	if (p->batch == batch)
		return TW_OK;
	drop(f, p);
	st = tw_program_of_part(f->facts.graph, TW_PROGRAM_EVALUATE, &s->of, batch, 0, &p->program,
				NULL);
	if (st != TW_OK)
		return st;
	p->arena = f->heap->get(f->heap, tw_program_bytes(p->program) + TW_ALIGN);
	if (!p->arena) {
		drop(f, p);
		return TW_NO_MEMORY;
	}
	p->batch = batch;
	return TW_OK;
}

/* --- opening and closing --- */

enum tw_status tw_forward_open(struct tw_heap *heap, const struct tw_forward_facts *facts,
			       struct tw_forward **out, struct tw_error *why)
{
	const struct tw_graph *g = facts->graph;
	const struct tw_data *d = facts->data;
	struct tw_forward *f = tw_heap_zeros(heap, sizeof *f);
	const size_t n = facts->batch;
	enum tw_status st;

	if (!f)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the network");
	f->heap = heap;
	f->facts = *facts;
	f->outputs = tw_shape_size(&g->node[g->node[g->nodes - 1].in[0]].shape);
	f->parameter = tw_heap_zeros(heap, (g->tensors + 1) * sizeof *f->parameter);
	f->x = heap->get(heap, n * d->features * sizeof *f->x);
	f->target = heap->get(heap, (n * d->targets + 1) * sizeof *f->target);
	f->label = heap->get(heap, n * tw_data_labels(d) * sizeof *f->label);
	f->index = heap->get(heap, n * sizeof *f->index);
	if (!f->parameter || !f->x || !f->target || !f->label || !f->index) {
		tw_forward_close(f);
		return tw_fail(why, TW_NO_MEMORY, "no memory for a batch of %u", facts->batch);
	}
	for (uint32_t t = 0; facts->vector && t < g->tensors; t++)
		f->parameter[t] = facts->vector + g->tensor[t].from;
	st = find_stages(f);
	if (st != TW_OK) {
		tw_forward_close(f);
		return tw_fail(why, st, "no memory for the parameters of the network");
	}
	*out = f;
	return TW_OK;
}

void tw_forward_close(struct tw_forward *f)
{
	struct tw_heap *heap;

	if (!f)
		return;
	heap = f->heap;
	for (uint32_t k = 0; k < f->stages; k++) {
		drop(f, &f->stage[k].whole);
		drop(f, &f->stage[k].rest);
	}
	void *const memory[] = { f->stage, f->own,    f->parameter, f->between[0], f->between[1],
				 f->x,     f->target, f->label,     f->index };
	for (size_t k = 0; k < sizeof memory / sizeof memory[0]; k++)
		heap->put(heap, memory[k]);
	heap->put(heap, f);
}

/* Batches whose scores are added up before they are added to the rest (3): outputs of a few
 * megabytes. */
static uint32_t group_of(const struct tw_forward *f)
{
	const uint64_t fits = ((uint64_t)1 << 20) / ((uint64_t)f->facts.batch * f->outputs);

	return fits < 1 ? 1 : fits > 16 ? 16 : (uint32_t)fits;
}

uint32_t tw_forward_block(const struct tw_forward *f)
{
	const uint32_t group = group_of(f), batch = f->facts.batch;
	uint64_t widest = (uint64_t)batch * f->outputs, groups;

	if (f->stages == 1)
		return batch * group;
	for (uint32_t k = 0; k + 1 < f->stages; k++)
		if (crossing(&f->stage[k].out, batch) > widest)
			widest = crossing(&f->stage[k].out, batch);
	groups = f->facts.memory / (2 * widest * sizeof(float)) / group;
	groups = groups < 1 ? 1 : groups > 64 ? 64 : groups;
	return (uint32_t)(batch * group * groups);
}

/* --- rows --- */

/* Where the values of batch number k lie (2). */
static void point(const struct tw_graph_cut *cut, float *base, uint32_t batch, uint32_t k,
		  float **to)
{
	base += k * crossing(cut, batch);
	for (uint32_t v = 0; v < cut->values; v++) {
		to[v] = base;
		base += up((size_t)batch * cut->value[v].floats);
	}
}

/* What the first stage reads of a batch, and the last. */
static enum tw_status fill(struct tw_forward *f, const struct tw_samples *set, uint64_t from,
			   uint32_t count, struct tw_program_run *r)
{
	const struct tw_forward_facts *a = &f->facts;
	const struct tw_batch batch = { set, f->index, count, from };

	for (uint32_t k = 0; k < count; k++)
		f->index[k] = from + k;
	r->x = f->x;
	if (a->own_input)
		r->batch.target = f->x;
	else if (a->data->targets)
		r->batch.target = f->target;
	else
		r->batch.label = f->label;
	return tw_data_fill(a->data, &batch, NULL, 0, f->x, f->label, f->target);
}

static void add_score(struct tw_score *to, const struct tw_score *s)
{
	to->loss += s->loss;
	to->correct = s->correct < 0 || to->correct < 0 ? -1 : to->correct + s->correct;
	to->samples += s->samples;
}

/* One batch, the k-th of its block, through one stage. */
static enum tw_status some(struct tw_forward *f, uint32_t stage, const struct tw_samples *set,
			   uint64_t from, uint32_t k, uint32_t count, float *prediction,
			   struct tw_score *sum)
{
	const bool begins = stage == 0, ends = stage + 1 == f->stages;
	const uint32_t batch = f->facts.batch;
	struct stage *s = &f->stage[stage];
	struct piece *p = count == batch ? &s->whole : &s->rest;
	double loss = 0, correct = 0;
	struct tw_program_run r = {
		.parameter = f->parameter,
		.batch = { .position = from, .loss = &loss, .correct = &correct },
		.prediction = ends ? prediction : NULL,
	};
	enum tw_status st = prepare(f, s, p, count);

	if (st != TW_OK)
		return st;
	if (begins || ends)
		st = fill(f, set, from, count, &r);
	if (st != TW_OK)
		return st;
	if (!begins)
		point(&s->in, f->between[0], batch, k, (float **)r.in);
	if (!ends)
		point(&s->out, f->between[1], batch, k, r.out);
	st = tw_program_run(p->program, p->arena, &r);
	if (st != TW_OK || !ends)
		return st;
	add_score(sum, &(struct tw_score){ loss, correct, count });
	return TW_OK;
}

/* Room for what this stage writes; what it reads is what the one before wrote. */
static enum tw_status turn(struct tw_forward *f, uint32_t stage, uint32_t batches)
{
	const size_t floats = batches * crossing(&f->stage[stage].out, f->facts.batch);
	float *before = f->between[0];
	const size_t room = f->room[0];

	f->between[0] = f->between[1];
	f->room[0] = f->room[1];
	f->between[1] = before;
	f->room[1] = room;
	if (stage + 1 == f->stages || floats <= room)
		return TW_OK;
	f->heap->put(f->heap, before);
	f->between[1] = f->heap->get(f->heap, floats * sizeof(float));
	f->room[1] = f->between[1] ? floats : 0;
	return f->between[1] ? TW_OK : TW_NO_MEMORY;
}

enum tw_status tw_forward_run(struct tw_forward *f, const struct tw_samples *set, uint64_t from,
			      uint32_t count, float *prediction, struct tw_score *score)
{
	const uint32_t batch = f->facts.batch, batches = (count + batch - 1) / batch;
	const uint32_t group = group_of(f);
	struct tw_score sum = { 0 }, unread = { 0 };
	enum tw_status st = TW_OK;

	if (from % batch || from > set->count || count > set->count - from)
		return TW_BAD_INPUT;
	for (uint32_t s = 0; s < f->stages && st == TW_OK; s++) {
		st = load(f, s);
		if (st == TW_OK)
			st = turn(f, s, batches);
		for (uint32_t k = 0; k < batches && st == TW_OK; k++) {
			const uint32_t done = k * batch;
			const uint32_t n = count - done < batch ? count - done : batch;

			st = some(f, s, set, from + done, k, n,
				  prediction ? prediction + (size_t)done * f->outputs : NULL, &sum);
			if (s + 1 == f->stages && (k % group == group - 1 || k + 1 == batches)) {
				add_score(score ? score : &unread, &sum);
				sum = (struct tw_score){ 0 };
			}
		}
	}
	return st;
}
