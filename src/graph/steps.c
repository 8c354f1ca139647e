/* SPDX-License-Identifier: Apache-2.0 */
/* steps.c - the list of steps of a net, and how long each storage lives.
 *
 *  (1) a storage is written at its first step and not read after its last.
 *  (2) a value is overwritten only when no step after it reads it.
 *  (3) a gradient's storage with several holders is only read.
 *  (4) what is at home outside is only read (values that come in, gradients that come back), or is
 *      written there and not changed any more (values that go out, gradients that go back).
 *
 * Forward steps go through the items in order, backward ones in reverse.  An item's gradient is
 * complete when its turn comes, because all of its readers stand behind it.  The gradient that
 * comes back of a value which crosses is the sum over its readers behind the border, and readers
 * before it add theirs to that: the order of addition is the one that it has without a border. */
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

static size_t outside(struct tw_steps *s, enum tw_home home, uint32_t value, uint32_t item,
		      const char *what)
{
	const struct tw_item *whose = &s->net->item[item];
	const size_t place =
		storage_new(s, tw_item_floats(s->net, whose) * sizeof(float), what, whose->node);

	s->storage[place].home = home;
	s->storage[place].value = value;
	return place;
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

/* Is the op's backward called in this list? */
static bool goes_back(const struct tw_steps *s, const struct tw_item *item)
{
	return s->kind != TW_LIST_FORWARD && tw_item_goes_back(s->net, item);
}

/* Does anybody still read what item r finds in `place` when item i has overwritten it? */
static bool reads_later(const struct tw_steps *s, uint32_t r, size_t place, uint32_t i)
{
	const struct tw_lowered *net = s->net;
	const struct tw_item *item = &net->item[r];
	const bool back = goes_back(s, item);

	for (uint32_t k = 0; k < item->ins; k++)
		if (net->item[item->in[k]].value == place &&
		    (r > i || (back && tw_item_has(net, item, TW_OP_READS_IN))))
			return true;
	return r < i && item->value == place && back && tw_item_has(net, item, TW_OP_READS_OUT);
}

static bool goes_out(const struct tw_lowered *net, size_t place)
{
	for (uint32_t v = 0; v < net->out.items; v++)
		if (net->item[net->out.item[v]].value == place)
			return true;
	return false;
}

static bool in_place(const struct tw_steps *s, uint32_t i)
{
	const struct tw_lowered *net = s->net;
	const struct tw_item *item = &net->item[i];
	const size_t place = net->item[item->in[0]].value;

	if (!tw_item_has(net, item, TW_OP_IN_PLACE) || place == TW_PLACE_INPUT)
		return false;
	if (s->storage[place].home != TW_HOME_ARENA || goes_out(net, place)) /* (4) */
		return false;
	if (item->ins > 1 && net->item[item->in[1]].value == place)
		return false;
	if (tw_item_floats(net, item) != tw_item_floats(net, &net->item[item->in[0]]))
		return false;
	for (uint32_t r = net->first; r < net->end; r++)
		if (reads_later(s, r, place, i))
			return false;
	return true;
}

static size_t value_for(struct tw_steps *s, uint32_t i)
{
	const struct tw_item *item = &s->net->item[i];
	const size_t bytes = tw_item_floats(s->net, item) * sizeof(float);

	if (tw_item_has(s->net, item, TW_OP_LOSS))
		return TW_PLACE_NONE;
	if (in_place(s, i))
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

/* Running statistics of a frozen op whose gradient nobody needs. */
static void buffers_back(struct tw_steps *s, uint32_t i)
{
	const struct tw_item *item = &s->net->item[i];
	const struct tw_op_form *form = &s->net->graph->node[item->node].form;
	struct tw_step step = empty(TW_STEP_BACKWARD, i);
	bool keeps = false;

	for (uint32_t k = 0; item->kind == TW_ITEM_OP && k < form->parameters; k++)
		keeps |= form->parameter[k].buffer;
	step.saved = item->saved;
	if (keeps)
		emit(s, &step);
}

static void backward(struct tw_steps *s, uint32_t i)
{
	struct tw_item *item = &s->net->item[i];

	if (!item->needs) {
		buffers_back(s, i);
		return;
	}
	HOLDS(3, item->gradient != TW_PLACE_NONE || tw_item_has(s->net, item, TW_OP_LOSS));
	if (item->gradient != TW_PLACE_NONE)
		s->storage[item->gradient].holders--;
	if (goes_back(s, item)) {
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

	for (uint32_t n = s->net->part.behind + 1; n <= s->net->part.upto; n++) {
		struct tw_step step = empty(TW_STEP_ZERO, n);

		while (i < s->net->items &&
		       (s->net->item[i].kind != TW_ITEM_OP || s->net->item[i].node < n))
			i++;
		if ((i == s->net->items || s->net->item[i].node != n) && g->node[n].form.parameters)
			emit(s, &step);
	}
}

/* --- borders of a part ------------------------------------------------------------------------ */

static void begin(struct tw_steps *s)
{
	struct tw_lowered *net = s->net;

	for (uint32_t i = 0; i < net->items; i++)
		net->item[i].value = net->item[i].saved = net->item[i].gradient = TW_PLACE_NONE;
	net->item[0].value = TW_PLACE_INPUT;
	for (uint32_t v = 0; v < net->in.items; v++)
		net->item[net->in.item[v]].value = outside(s, TW_HOME_IN, v, net->in.item[v], "in");
}

static void copy(struct tw_steps *s, uint32_t item, size_t out, size_t in)
{
	struct tw_step step = empty(TW_STEP_COPY, item);

	step.out = out;
	step.in[0] = in;
	step.floats = tw_item_floats(s->net, &s->net->item[item]);
	emit(s, &step);
}

static void hand_out(struct tw_steps *s)
{
	for (uint32_t v = 0; v < s->net->out.items; v++) {
		const uint32_t p = s->net->out.item[v];

		copy(s, p, outside(s, TW_HOME_OUT, v, p, "out"), s->net->item[p].value);
	}
}

/* A gradient that comes back has one holder more than uses, so (3) it is never written. */
static void take_back(struct tw_steps *s)
{
	for (uint32_t v = 0; v < s->net->out.items; v++) {
		const uint32_t p = s->net->out.item[v];
		struct tw_item *item = &s->net->item[p];

		if (!item->needs)
			continue;
		item->gradient = outside(s, TW_HOME_OUT_GRADIENT, v, p, "gradient");
		s->storage[item->gradient].holders = 2;
	}
}

static void hand_back(struct tw_steps *s)
{
	for (uint32_t v = 0; v < s->net->in.items; v++) {
		const uint32_t p = s->net->in.item[v];

		if (s->net->item[p].needs)
			copy(s, p, outside(s, TW_HOME_IN_GRADIENT, v, p, "gradient"),
			     s->net->item[p].gradient);
	}
}

/* What was in the arena only to be copied out is written there at once. */
static void move_out(struct tw_steps *s)
{
	for (uint32_t k = 0; k < s->steps; k++) {
		const struct tw_step *step = &s->step[k];
		struct tw_storage *from, *to;

		if (step->kind != TW_STEP_COPY || step->in[0] == TW_PLACE_INPUT)
			continue;
		from = &s->storage[step->in[0]];
		to = &s->storage[step->out];
		if (from->home == TW_HOME_ARENA) {
			from->home = to->home;
			from->value = to->value;
		}
	}
}

static bool is_read(const bool *read, size_t place)
{
	return place != TW_PLACE_NONE && place != TW_PLACE_INPUT && read[place];
}

static void note_read(bool *read, size_t place)
{
	if (place != TW_PLACE_NONE && place != TW_PLACE_INPUT)
		read[place] = true;
}

/* Forward steps whose values no step behind them reads.  A backward pass that computes forward
 * again has some, because what goes out is not wanted a second time. */
static enum tw_status drop_unread(struct tw_steps *s, struct tw_arena *work)
{
	bool *read = tw_arena_get(work, s->storages * sizeof *read);
	bool *keep = tw_arena_get(work, s->steps * sizeof *keep);
	const uint32_t steps = s->steps, turn = s->turn;

	if (!read || !keep)
		return TW_NO_MEMORY;
	memset(read, 0, s->storages * sizeof *read);
	for (uint32_t k = steps; k-- > 0;) {
		const struct tw_step *step = &s->step[k];

		keep[k] = k >= turn || is_read(read, step->out) || is_read(read, step->saved);
		for (uint32_t j = 0; keep[k] && j < TW_OP_INS; j++)
			note_read(read, step->in[j]);
		if (keep[k] && k >= turn) {
			note_read(read, step->out);
			note_read(read, step->saved);
		}
	}
	for (uint32_t k = 0; k < s->storages; k++)
		s->storage[k].touched = false;
	s->steps = s->turn = 0;
	for (uint32_t k = 0; k < steps; k++) {
		if (k == turn)
			s->turn = s->steps;
		if (keep[k])
			emit(s, &s->step[k]);
	}
	return TW_OK;
}

static void find_stash(struct tw_steps *s)
{
	for (uint32_t k = 0; k < s->storages; k++) {
		struct tw_storage *storage = &s->storage[k];

		if (storage->home == TW_HOME_ARENA && storage->touched &&
		    storage->plan.first < s->turn && storage->plan.last >= s->turn)
			storage->home = TW_HOME_STASH;
	}
}

enum tw_status tw_steps_make(struct tw_steps *s, struct tw_lowered *net, enum tw_list_kind kind,
			     struct tw_arena *work)
{
	const size_t most = 5 * (size_t)net->items + net->graph->nodes + 2 * TW_CROSSING_MAX;
	const size_t storages = 8 * (size_t)net->items + 4 * TW_CROSSING_MAX;

	*s = (struct tw_steps){ .net = net, .kind = kind };
	s->step = tw_arena_get(work, most * sizeof *s->step);
	s->storage = tw_arena_get(work, storages * sizeof *s->storage);
	if (!s->step || !s->storage)
		return TW_NO_MEMORY;
	begin(s);
	for (uint32_t i = net->first; i < net->end; i++)
		forward(s, i);
	if (kind != TW_LIST_ALL)
		hand_out(s);
	s->turn = s->steps;
	if (kind != TW_LIST_FORWARD) {
		zero_dead(s);
		take_back(s);
		for (uint32_t i = net->end; i-- > net->first;)
			backward(s, i);
		hand_back(s);
	}
	if (kind == TW_LIST_ALL && net->out.items && drop_unread(s, work) != TW_OK)
		return TW_NO_MEMORY;
	if (kind == TW_LIST_TURN)
		find_stash(s);
	move_out(s);
	HOLDS(1, s->steps <= most && s->storages <= storages);
	return TW_OK;
}
