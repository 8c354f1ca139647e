/* SPDX-License-Identifier: Apache-2.0 */
/* steps.c - the list of steps of a net, and how long each storage lives.
 *
 *  (1) a storage is written at its first step and not read after its last.
 *  (2) a value is overwritten only when no step after it reads it.
 *  (3) a gradient's storage with several holders is only read.
 *
 * Forward steps go through the items in order, backward ones in reverse.  An item's gradient is
 * complete when its turn comes, because all of its readers stand behind it. */
#include "graph/inner.h"

#include <string.h>

static size_t storage_new(struct tw_steps *s, size_t bytes, const char *what, uint32_t node)
{
	struct tw_storage *storage = &s->storage[s->storages];

	*storage = (struct tw_storage){ .what = what, .node = node };
	storage->plan.bytes = (bytes + TW_ALIGN - 1) / TW_ALIGN * TW_ALIGN;
	return s->storages++;
}

static void touch(struct tw_steps *s, size_t place, uint32_t step)
{
	struct tw_storage *storage;

	if (place == TW_PLACE_NONE || place == TW_PLACE_INPUT)
		return;
	storage = &s->storage[place];
	if (!storage->touched)
		storage->plan.first = step;
	storage->touched = true;
	storage->plan.last = step;
}

static void emit(struct tw_steps *s, const struct tw_step *step)
{
	for (uint32_t k = 0; k < TW_OP_INS; k++) {
		touch(s, step->in[k], s->steps);
		touch(s, step->in_gradient[k], s->steps);
	}
	touch(s, step->out, s->steps);
	touch(s, step->out_gradient, s->steps);
	touch(s, step->saved, s->steps);
	touch(s, step->scratch, s->steps);
	s->step[s->steps++] = *step;
}

static struct tw_step empty(enum tw_step_kind kind, uint32_t item)
{
	return (struct tw_step){
		.kind = kind,
		.item = item,
		.primitive = TW_KIT_NONE,
		.in = { TW_PLACE_NONE, TW_PLACE_NONE },
		.out = TW_PLACE_NONE,
		.out_gradient = TW_PLACE_NONE,
		.in_gradient = { TW_PLACE_NONE, TW_PLACE_NONE },
		.saved = TW_PLACE_NONE,
		.scratch = TW_PLACE_NONE,
	};
}

/* Does anybody still read what item r finds in `place` when item i has overwritten it? */
static bool reads_later(const struct tw_lowered *net, uint32_t r, size_t place, uint32_t i)
{
	const struct tw_item *item = &net->item[r];
	const bool back = tw_item_goes_back(net, item);

	for (uint32_t k = 0; k < item->ins; k++)
		if (net->item[item->in[k]].value == place &&
		    (r > i || (back && tw_item_has(net, item, TW_OP_READS_IN))))
			return true;
	return r < i && item->value == place && back && tw_item_has(net, item, TW_OP_READS_OUT);
}

static bool in_place(const struct tw_lowered *net, uint32_t i)
{
	const struct tw_item *item = &net->item[i];
	const size_t place = net->item[item->in[0]].value;

	if (!tw_item_has(net, item, TW_OP_IN_PLACE) || place == TW_PLACE_INPUT)
		return false;
	if (item->ins > 1 && net->item[item->in[1]].value == place)
		return false;
	if (tw_item_floats(net, item) != tw_item_floats(net, &net->item[item->in[0]]))
		return false;
	for (uint32_t r = 1; r < net->items; r++)
		if (reads_later(net, r, place, i))
			return false;
	return true;
}

static size_t value_for(struct tw_steps *s, uint32_t i)
{
	const struct tw_item *item = &s->net->item[i];
	const size_t bytes = tw_item_floats(s->net, item) * sizeof(float);

	if (tw_item_has(s->net, item, TW_OP_LOSS))
		return TW_PLACE_NONE;
	if (in_place(s->net, i))
		return s->net->item[item->in[0]].value;
	return storage_new(s, bytes, item->kind == TW_ITEM_REORDER ? "reordered" : "out",
			   item->node);
}

static size_t memory_for(struct tw_steps *s, size_t bytes, const char *what, uint32_t node)
{
	return bytes ? storage_new(s, bytes, what, node) : TW_PLACE_NONE;
}

static void forward(struct tw_steps *s, uint32_t i)
{
	struct tw_item *item = &s->net->item[i];
	struct tw_step step = empty(TW_STEP_FORWARD, i);

	if (item->passes || item->taken) {
		HOLDS(1, item->memory.saved == 0);
		item->value = s->net->item[item->in[0]].value;
		return;
	}
	if (item->kind == TW_ITEM_REORDER) {
		step.kind = TW_STEP_REORDER;
		step.primitive = item->primitive;
	}
	for (uint32_t k = 0; k < item->ins; k++)
		step.in[k] = s->net->item[item->in[k]].value;
	item->value = step.out = value_for(s, i);
	item->saved = step.saved = memory_for(s, item->memory.saved, "saved", item->node);
	step.scratch = memory_for(s, item->memory.forward, "scratch", item->node);
	emit(s, &step);
}

static void add_up(struct tw_steps *s, uint32_t i, size_t out, size_t x, size_t y)
{
	struct tw_step step = empty(y == TW_PLACE_NONE ? TW_STEP_ADD : TW_STEP_SUM, i);

	step.out = out;
	step.in[0] = x;
	step.in[1] = y;
	step.floats = tw_item_floats(s->net, &s->net->item[i]);
	emit(s, &step);
}

/* One more part of item p's gradient, held once by the caller, who hands that on. */
static void contribute(struct tw_steps *s, uint32_t p, size_t part)
{
	struct tw_item *item = &s->net->item[p];
	const size_t there = item->gradient;

	if (there == TW_PLACE_NONE) {
		item->gradient = part;
		return;
	}
	s->storage[there].holders--;
	s->storage[part].holders--;
	if (there != part && s->storage[there].holders == 0) {
		add_up(s, p, there, part, TW_PLACE_NONE);
	} else if (there != part && s->storage[part].holders == 0) {
		add_up(s, p, part, there, TW_PLACE_NONE);
		item->gradient = part;
	} else {
		item->gradient = storage_new(s, tw_item_floats(s->net, item) * sizeof(float),
					     "gradient", item->node);
		add_up(s, p, item->gradient, there, part);
	}
	s->storage[item->gradient].holders++;
}

/* A storage for the gradient of item i's input k. */
static size_t part_for(struct tw_steps *s, const struct tw_item *item, uint32_t k)
{
	const struct tw_item *from = &s->net->item[item->in[k]];
	const size_t own = item->gradient;
	size_t place;

	if (k == 0 && tw_item_has(s->net, item, TW_OP_BACK_IN_PLACE) && own != TW_PLACE_NONE &&
	    s->storage[own].holders == 0 &&
	    tw_item_floats(s->net, from) == tw_item_floats(s->net, item))
		place = own;
	else
		place = storage_new(s, tw_item_floats(s->net, from) * sizeof(float), "gradient",
				    from->node);
	s->storage[place].holders++;
	return place;
}

static void op_back(struct tw_steps *s, uint32_t i)
{
	struct tw_item *item = &s->net->item[i];
	struct tw_step step = empty(TW_STEP_BACKWARD, i);

	for (uint32_t k = 0; k < item->ins; k++) {
		if (tw_item_has(s->net, item, TW_OP_READS_IN | TW_OP_LOSS))
			step.in[k] = s->net->item[item->in[k]].value;
		if (item->site.wants[k])
			step.in_gradient[k] = part_for(s, item, k);
	}
	if (tw_item_has(s->net, item, TW_OP_READS_OUT))
		step.out = item->value;
	step.out_gradient = item->gradient;
	step.saved = item->saved;
	step.scratch = memory_for(s, item->memory.backward, "scratch", item->node);
	emit(s, &step);
	for (uint32_t k = 0; k < item->ins; k++)
		if (item->site.wants[k])
			contribute(s, item->in[k], step.in_gradient[k]);
}

static void reorder_back(struct tw_steps *s, uint32_t i)
{
	struct tw_item *item = &s->net->item[i];
	struct tw_step step = empty(TW_STEP_REORDER, i);

	step.primitive = item->back;
	step.in[0] = item->gradient;
	step.out = part_for(s, item, 0);
	step.scratch = memory_for(s, item->memory.backward, "scratch", item->node);
	emit(s, &step);
	contribute(s, item->in[0], step.out);
}

static void backward(struct tw_steps *s, uint32_t i)
{
	struct tw_item *item = &s->net->item[i];

	if (!item->needs)
		return;
	HOLDS(3, item->gradient != TW_PLACE_NONE || tw_item_has(s->net, item, TW_OP_LOSS));
	if (item->gradient != TW_PLACE_NONE)
		s->storage[item->gradient].holders--;
	if (tw_item_goes_back(s->net, item)) {
		op_back(s, i);
	} else if (item->kind == TW_ITEM_REORDER && !item->passes) {
		reorder_back(s, i);
	} else { /* passes or adds: the same gradient for each input */
		for (uint32_t k = 0; k < item->ins; k++)
			s->storage[item->gradient].holders += item->site.wants[k];
		for (uint32_t k = 0; k < item->ins; k++)
			if (item->site.wants[k])
				contribute(s, item->in[k], item->gradient);
	}
}

/* Parameters of nodes that nothing depends on do not change. */
static void zero_dead(struct tw_steps *s)
{
	const struct tw_graph *g = s->net->graph;
	uint32_t i = 1;

	for (uint32_t n = 1; n < g->nodes; n++) {
		struct tw_step step = empty(TW_STEP_ZERO, n);

		while (i < s->net->items &&
		       (s->net->item[i].kind != TW_ITEM_OP || s->net->item[i].node < n))
			i++;
		if ((i == s->net->items || s->net->item[i].node != n) && g->node[n].form.parameters)
			emit(s, &step);
	}
}

enum tw_status tw_steps_make(struct tw_steps *s, struct tw_lowered *net, struct tw_arena *work)
{
	const size_t most = 5 * (size_t)net->items + net->graph->nodes;

	*s = (struct tw_steps){ .net = net };
	s->step = tw_arena_get(work, most * sizeof *s->step);
	s->storage = tw_arena_get(work, 8 * (size_t)net->items * sizeof *s->storage);
	if (!s->step || !s->storage)
		return TW_NO_MEMORY;
	for (uint32_t i = 0; i < net->items; i++)
		net->item[i].value = net->item[i].saved = net->item[i].gradient = TW_PLACE_NONE;
	net->item[0].value = TW_PLACE_INPUT;
	for (uint32_t i = 1; i < net->items; i++)
		forward(s, i);
	if (net->kind == TW_PROGRAM_TRAIN) {
		zero_dead(s);
		for (uint32_t i = net->items - 1; i > 0; i--)
			backward(s, i);
	}
	HOLDS(1, s->steps <= most && s->storages <= 8 * net->items);
	return TW_OK;
}
