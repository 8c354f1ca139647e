/* SPDX-License-Identifier: Apache-2.0 */
/* program.c - makes a program from a graph, runs it, and says what it is.
 *
 *  (1) after tw_program_new nothing of a program changes but its kit's list of hands.
 *  (2) a run writes only into its arena, its gradient, its prediction, its batch's results, its
 *      stash, and where values and gradients leave a part.
 *  (3) only programs of passes have forward and backward apart. */
#include "graph/inner.h"
#include "vec/clone.h"
#include "vec/vec.h"

#include <string.h>

static enum tw_status make_lists(struct tw_program *p)
{
	static const bool has[][TW_LISTS] = {
		[TW_PROGRAM_TRAIN] = { [TW_LIST_ALL] = true },
		[TW_PROGRAM_EVALUATE] = { [TW_LIST_FORWARD] = true },
		[TW_PROGRAM_PASSES] = { true, true, true },
	};
	enum tw_status st = TW_OK;

	for (uint32_t k = 0; st == TW_OK && k < TW_LISTS; k++)
		if (has[p->net.kind][k])
			st = tw_list_make(&p->list[k], &p->net, (enum tw_list_kind)k, p->heap,
					  &p->keep);
	return st;
}

/* A part's gradient begins with its first trainable tensor; its buffers follow without a gap. */
static void find_places(struct tw_program *p)
{
	const struct tw_graph *g = p->net.graph;
	size_t before[2] = { 0, g->trainable }, own = 0;

	for (uint32_t t = 0; t < g->tensors; t++) {
		if (g->tensor[t].frozen)
			continue;
		if (g->tensor[t].node <= p->net.part.behind)
			before[g->tensor[t].form.buffer] += g->tensor[t].n;
		else if (g->tensor[t].node <= p->net.part.upto && !g->tensor[t].form.buffer)
			own += g->tensor[t].n;
	}
	p->before[0] = before[0];
	p->before[1] = before[1] - own;
}

static double count_products(const struct tw_lowered *net)
{
	double sum = 0;

	for (uint32_t i = net->first; i < net->end; i++) {
		const struct tw_item *item = &net->item[i];
		const struct tw_op_form *form = &net->graph->node[item->node].form;
		uint32_t times = 1;

		if (item->kind != TW_ITEM_OP)
			continue;
		if (tw_item_goes_back(net, item))
			times +=
				tw_node_learns(&net->graph->node[item->node]) + item->site.wants[0];
		sum += times * form->products * net->batch;
	}
	return sum;
}

enum tw_status tw_program_new(const struct tw_graph *g, enum tw_program_kind kind, uint32_t batch,
			      uint64_t seed, struct tw_program **out, struct tw_error *why)
{
	const struct tw_graph_part all = { 0, g->nodes - 1 };

	return tw_program_of_part(g, kind, &all, batch, seed, out, why);
}

enum tw_status tw_program_of_part(const struct tw_graph *g, enum tw_program_kind kind,
				  const struct tw_graph_part *part, uint32_t batch, uint64_t seed,
				  struct tw_program **out, struct tw_error *why)
{
	struct tw_program *p = tw_heap_zeros(g->heap, sizeof *p);
	enum tw_status st = TW_NO_MEMORY;
	uint32_t threads;

	if (!p)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the program");
	HOLDS(1, batch > 0);
	threads = tw_onednn_threads(1); /* the calling program may use OpenMP, too */
	p->heap = g->heap;
	tw_arena_init(&p->keep, p->heap);
	p->net = (struct tw_lowered){
		.graph = g, .kind = kind, .part = *part, .batch = batch, .seed = seed
	};
	p->kit = tw_onednn_new(p->heap);
	if (p->kit)
		st = tw_lowered_make(&p->net, &p->keep, why);
	if (st == TW_OK)
		st = tw_lowered_prepare(&p->net, p->kit, &p->keep, why);
	if (st == TW_OK)
		st = make_lists(p);
	tw_onednn_threads(threads);
	if (st != TW_OK) {
		tw_program_free(p);
		return tw_fail(why, st, "no memory for the program");
	}
	find_places(p);
	p->products = count_products(&p->net);
	*out = p;
	return TW_OK;
}

void tw_program_free(struct tw_program *p)
{
	if (!p)
		return;
	tw_onednn_free(p->kit);
	tw_arena_release(&p->keep);
	p->heap->put(p->heap, p);
}

size_t tw_program_bytes(const struct tw_program *p)
{
	size_t most = 0;

	for (uint32_t k = 0; k < TW_LISTS; k++)
		if (p->list[k].plan.bytes > most)
			most = p->list[k].plan.bytes;
	return most;
}

size_t tw_program_stash_bytes(const struct tw_program *p)
{
	return p->list[TW_LIST_TURN].plan.stash;
}

const struct tw_program_plan *tw_program_plan(const struct tw_program *p)
{
	return &tw_program_list(p)->plan;
}

double tw_program_products(const struct tw_program *p)
{
	return p->products;
}

TW_CLONED_STATIC(void, sum, (float *out, const float *x, const float *y, size_t n), (out, x, y, n))
{
	_Pragma("GCC ivdep") for (size_t i = 0; i < n; i++) out[i] = x[i] + y[i];
}

/* One run: what the places of steps mean in it. */
struct running {
	const struct tw_program *p;
	const struct tw_program_run *run;
	uint8_t *arena;
	struct tw_hand *hand;
};

static float *at_home(const struct running *r, enum tw_home home, size_t k)
{
	switch (home) {
	case TW_HOME_STASH:
		return (float *)(void *)((uint8_t *)r->run->stash + k);
	case TW_HOME_IN: /* steps only read these two */
		return (float *)(uintptr_t)r->run->in[k];
	case TW_HOME_OUT_GRADIENT:
		return (float *)(uintptr_t)r->run->out_gradient[k];
	case TW_HOME_OUT:
		return r->run->out[k];
	default:
		return r->run->in_gradient[k];
	}
}

static float *at(const struct running *r, size_t place)
{
	if (place == TW_PLACE_NONE)
		return NULL;
	if (place == TW_PLACE_INPUT)
		return (float *)(uintptr_t)r->run->x; /* steps only read it */
	if (place >> TW_HOME_SHIFT == TW_HOME_ARENA)
		return (float *)(void *)(r->arena + place);
	return at_home(r, (enum tw_home)(place >> TW_HOME_SHIFT), place & (TW_PLACE(1, 0) - 1));
}

/* NULL: it is frozen. */
static float *change_of(const struct running *r, const struct tw_graph_tensor *t)
{
	return t->frozen ? NULL : r->run->gradient + (t->from - r->p->before[t->form.buffer]);
}

static void bind(const struct running *r, const struct tw_step *step, struct tw_op_run *op)
{
	const struct tw_graph *g = r->p->net.graph;
	const struct tw_graph_node *node = &g->node[r->p->net.item[step->item].node];

	for (uint32_t k = 0; k < TW_OP_INS; k++) {
		op->in[k] = at(r, step->in[k]);
		op->in_gradient[k] = at(r, step->in_gradient[k]);
	}
	op->out = at(r, step->out);
	op->out_gradient = at(r, step->out_gradient);
	op->saved = at(r, step->saved);
	op->scratch = at(r, step->scratch);
	op->hand = r->hand;
	op->batch = &r->run->batch;
	op->piece = r->run->piece;
	op->pieces = r->run->pieces;
	op->adds = g->tied && node == &g->node[g->table];
	for (uint32_t k = 0; k < node->form.parameters; k++) {
		const uint32_t t = node->tensor[k];

		op->parameter[k] = r->run->parameter[t];
		op->from[k] = g->tensor[t].from;
		if (r->run->gradient)
			op->change[k] = change_of(r, &g->tensor[t]);
	}
}

static enum tw_status run_op(const struct running *r, const struct tw_step *step)
{
	const struct tw_item *item = &r->p->net.item[step->item];
	const struct tw_op *op = r->p->net.graph->node[item->node].op;
	struct tw_op_run run = { 0 };
	enum tw_status st;

	bind(r, step, &run);
	if (step->kind == TW_STEP_BACKWARD)
		return op->backward(&item->site, item->kernel, &run);
	st = op->forward(&item->site, item->kernel, &run);
	if (st == TW_OK && (op->traits & TW_OP_LOSS) && r->run->prediction)
		tw_vec_copy(r->run->prediction, run.in[0],
			    item->site.batch * tw_shape_size(&item->site.in[0]));
	return st;
}

static void run_zero(const struct running *r, uint32_t n)
{
	const struct tw_graph *g = r->p->net.graph;

	for (uint32_t k = 0; k < g->node[n].form.parameters; k++) {
		const struct tw_graph_tensor *t = &g->tensor[g->node[n].tensor[k]];

		if (!t->frozen)
			tw_vec_fill(change_of(r, t), 0, t->n);
	}
}

static enum tw_status run_step(const struct running *r, const struct tw_step *step)
{
	switch (step->kind) {
	case TW_STEP_FORWARD:
	case TW_STEP_BACKWARD:
		return run_op(r, step);
	case TW_STEP_REORDER: {
		void *const data[] = { at(r, step->in[0]), at(r, step->out) };

		return tw_hand_run(r->hand, step->primitive, data, at(r, step->scratch));
	}
	case TW_STEP_ADD:
		tw_vec_add(at(r, step->out), at(r, step->in[0]), step->floats);
		return TW_OK;
	case TW_STEP_SUM:
		sum(at(r, step->out), at(r, step->in[0]), at(r, step->in[1]), step->floats);
		return TW_OK;
	case TW_STEP_ZERO:
		run_zero(r, step->item);
		return TW_OK;
	case TW_STEP_COPY:
		if (step->in[0] != step->out)
			tw_vec_copy(at(r, step->out), at(r, step->in[0]), step->floats);
		return TW_OK;
	}
	return TW_OK;
}

static enum tw_status run_timed(const struct running *r, const struct tw_step *step)
{
	const uint32_t node = step->kind == TW_STEP_ZERO ? step->item /* which is a node */
							 : r->p->net.item[step->item].node;
	const int64_t began = r->run->clock();
	const enum tw_status st = run_step(r, step);

	r->run->spent[node] += r->run->clock() - began;
	return st;
}

/* The steps of a way: from..to of one list. */
struct stretch {
	const struct tw_list *list;
	uint32_t from, to;
};

static struct stretch stretch_of(const struct tw_program *p, enum tw_program_way way)
{
	const struct tw_list *l = tw_program_list(p);
	struct stretch all = { l, 0, l->steps };

	if (way == TW_WAY_ALL)
		return all;
	l = &p->list[way == TW_WAY_FORWARD ? TW_LIST_FORWARD : TW_LIST_TURN];
	if (way == TW_WAY_STASHED)
		return (struct stretch){ l, l->turn, l->steps };
	return (struct stretch){ l, 0, l->turn };
}

enum tw_status tw_program_run(struct tw_program *p, void *arena, const struct tw_program_run *run)
{
	const struct stretch s = stretch_of(p, run->way);
	struct running r = { .p = p, .run = run, .arena = arena };
	enum tw_status st = TW_OK;

	HOLDS(3, run->way == TW_WAY_ALL || p->net.kind == TW_PROGRAM_PASSES);
	r.hand = tw_onednn_take(p->kit);
	if (!r.hand)
		return TW_NO_MEMORY;
	for (uint32_t k = s.from; st == TW_OK && k < s.to; k++) {
		if (run->cancel && atomic_load_explicit(run->cancel, memory_order_relaxed))
			st = TW_CANCELLED;
		else if (run->clock)
			st = run_timed(&r, &s.list->step[k]);
		else
			st = run_step(&r, &s.list->step[k]);
	}
	tw_onednn_give(p->kit, r.hand);
	return st;
}
