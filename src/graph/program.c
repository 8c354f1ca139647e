/* SPDX-License-Identifier: Apache-2.0 */
/* program.c - makes a program from a graph, runs it, and says what it is.
 *
 *  (1) after tw_program_new nothing of a program changes but its kit's list of hands.
 *  (2) a run writes only into its arena, its gradient, its prediction and its batch's results. */
#include "graph/inner.h"
#include "vec/clone.h"
#include "vec/vec.h"

#include <string.h>

/* From numbers of storages to offsets. */
static void settle(const struct tw_steps *s, size_t *place)
{
	if (*place != TW_PLACE_NONE && *place != TW_PLACE_INPUT)
		*place = s->storage[*place].plan.from;
}

static enum tw_status keep_steps(struct tw_program *p, const struct tw_steps *s)
{
	p->step = tw_arena_get(&p->keep, s->steps * sizeof *p->step);
	if (!p->step)
		return TW_NO_MEMORY;
	memcpy(p->step, s->step, s->steps * sizeof *p->step);
	p->steps = s->steps;
	for (uint32_t k = 0; k < p->steps; k++) {
		struct tw_step *step = &p->step[k];

		for (uint32_t j = 0; j < TW_OP_INS; j++) {
			settle(s, &step->in[j]);
			settle(s, &step->in_gradient[j]);
		}
		settle(s, &step->out);
		settle(s, &step->out_gradient);
		settle(s, &step->saved);
		settle(s, &step->scratch);
	}
	return TW_OK;
}

static enum tw_status keep_plan(struct tw_program *p, const struct tw_steps *s)
{
	struct tw_program_buffer *buffer = tw_arena_get(&p->keep, s->storages * sizeof *buffer);
	char text[64];

	if (!buffer)
		return TW_NO_MEMORY;
	for (uint32_t k = 0; k < s->storages; k++) {
		const struct tw_storage *from = &s->storage[k];

		snprintf(text, sizeof text, "%u.%s", from->node, from->what);
		buffer[k].what = tw_arena_text(&p->keep, text);
		if (!buffer[k].what)
			return TW_NO_MEMORY;
		snprintf(buffer[k].name, sizeof buffer[k].name, "%s",
			 p->net.graph->node[from->node].name);
		buffer[k].from = from->plan.from;
		buffer[k].bytes = from->plan.bytes;
		buffer[k].first = from->plan.first;
		buffer[k].last = from->plan.last;
		p->plan.no_reuse += from->plan.bytes;
	}
	p->plan.buffer = buffer;
	p->plan.buffers = s->storages;
	p->plan.steps = s->steps;
	return TW_OK;
}

static enum tw_status place_storages(struct tw_program *p, struct tw_steps *s,
				     struct tw_arena *work)
{
	struct tw_plan_entry *entry = tw_arena_get(work, s->storages * sizeof *entry);
	enum tw_status st;

	if (!entry)
		return TW_NO_MEMORY;
	for (uint32_t k = 0; k < s->storages; k++)
		entry[k] = s->storage[k].plan;
	st = tw_plan_place(p->heap, entry, s->storages, &p->plan.bytes);
	for (uint32_t k = 0; k < s->storages; k++)
		s->storage[k].plan = entry[k];
	return st;
}

static enum tw_status make_steps(struct tw_program *p)
{
	struct tw_arena work;
	struct tw_steps s;
	enum tw_status st;

	tw_arena_init(&work, p->heap);
	st = tw_steps_make(&s, &p->net, &work);
	if (st == TW_OK)
		st = place_storages(p, &s, &work);
	if (st == TW_OK)
		st = keep_steps(p, &s);
	if (st == TW_OK)
		st = keep_plan(p, &s);
	tw_arena_release(&work);
	return st;
}

static double count_products(const struct tw_lowered *net)
{
	double sum = 0;

	for (uint32_t i = 1; i < net->items; i++) {
		const struct tw_item *item = &net->item[i];
		const struct tw_op_form *form = &net->graph->node[item->node].form;
		uint32_t times = 1;

		if (item->kind != TW_ITEM_OP)
			continue;
		if (tw_item_goes_back(net, item))
			times += (form->parameters > 0) + item->site.wants[0];
		sum += times * form->products * net->batch;
	}
	return sum;
}

enum tw_status tw_program_new(const struct tw_graph *g, enum tw_program_kind kind, uint32_t batch,
			      uint64_t seed, struct tw_program **out, struct tw_error *why)
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
	p->net = (struct tw_lowered){ .graph = g, .kind = kind, .batch = batch, .seed = seed };
	p->kit = tw_onednn_new(p->heap);
	if (p->kit)
		st = tw_lowered_make(&p->net, &p->keep, why);
	if (st == TW_OK)
		st = tw_lowered_prepare(&p->net, p->kit, &p->keep, why);
	if (st == TW_OK)
		st = make_steps(p);
	tw_onednn_threads(threads);
	if (st != TW_OK) {
		tw_program_free(p);
		return tw_fail(why, st, "no memory for the program");
	}
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
	return p->plan.bytes;
}

const struct tw_program_plan *tw_program_plan(const struct tw_program *p)
{
	return &p->plan;
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

static float *at(const struct running *r, size_t place)
{
	if (place == TW_PLACE_NONE)
		return NULL;
	if (place == TW_PLACE_INPUT)
		return (float *)(uintptr_t)r->run->x; /* steps only read it */
	return (float *)(void *)(r->arena + place);
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
	for (uint32_t k = 0; k < node->form.parameters; k++) {
		const uint32_t t = node->tensor[k];

		op->parameter[k] = r->run->parameter[t];
		if (r->p->net.kind == TW_PROGRAM_TRAIN)
			op->change[k] = r->run->gradient + g->tensor[t].from;
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

		tw_vec_fill(r->run->gradient + t->from, 0, t->n);
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
	}
	return TW_OK;
}

enum tw_status tw_program_run(struct tw_program *p, void *arena, const struct tw_program_run *run)
{
	struct running r = { .p = p, .run = run, .arena = arena };
	enum tw_status st = TW_OK;

	r.hand = tw_onednn_take(p->kit);
	if (!r.hand)
		return TW_NO_MEMORY;
	for (uint32_t k = 0; st == TW_OK && k < p->steps; k++) {
		if (run->cancel && atomic_load_explicit(run->cancel, memory_order_relaxed))
			st = TW_CANCELLED;
		else
			st = run_step(&r, &p->step[k]);
	}
	tw_onednn_give(p->kit, r.hand);
	return st;
}
