/* SPDX-License-Identifier: Apache-2.0 */
/* list.c - a list of steps with places in memory: an arena for one run, a stash between two. */
#include "graph/inner.h"

#include <string.h>

/* From numbers of storages to places in their homes. */
static void settle(const struct tw_steps *s, size_t *place)
{
	const struct tw_storage *storage;

	if (*place == TW_PLACE_NONE || *place == TW_PLACE_INPUT)
		return;
	storage = &s->storage[*place];
	*place = storage->home <= TW_HOME_STASH ? TW_PLACE(storage->home, storage->plan.from)
						: TW_PLACE(storage->home, storage->value);
}

static enum tw_status keep_steps(struct tw_list *l, const struct tw_steps *s, struct tw_arena *keep)
{
	l->step = tw_arena_get(keep, s->steps * sizeof *l->step);
	if (!l->step)
		return TW_NO_MEMORY;
	memcpy(l->step, s->step, s->steps * sizeof *l->step);
	l->steps = s->steps;
	l->turn = s->turn;
	for (uint32_t k = 0; k < l->steps; k++) {
		struct tw_step *step = &l->step[k];

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

/* What is in the arena or the stash, for people. */
static enum tw_status keep_plan(struct tw_list *l, const struct tw_steps *s, struct tw_arena *keep)
{
	struct tw_program_buffer *buffer = tw_arena_get(keep, s->storages * sizeof *buffer);
	size_t count = 0;
	char text[64];

	if (!buffer)
		return TW_NO_MEMORY;
	for (uint32_t k = 0; k < s->storages; k++) {
		const struct tw_storage *from = &s->storage[k];
		struct tw_program_buffer *b = &buffer[count];

		if (from->home > TW_HOME_STASH)
			continue;
		snprintf(text, sizeof text, "%u.%s", from->node, from->what);
		b->what = tw_arena_text(keep, text);
		if (!b->what)
			return TW_NO_MEMORY;
		snprintf(b->name, sizeof b->name, "%s", s->net->graph->node[from->node].name);
		b->from = from->plan.from;
		b->bytes = from->plan.bytes;
		b->first = from->plan.first;
		b->last = from->plan.last;
		b->stash = from->home == TW_HOME_STASH;
		l->plan.no_reuse += from->plan.bytes;
		count++;
	}
	l->plan.buffer = buffer;
	l->plan.buffers = count;
	l->plan.steps = s->steps;
	return TW_OK;
}

/* All of the stash lives at the turn, so nothing in it can share a byte. */
static void place_stash(struct tw_list *l, struct tw_steps *s)
{
	for (uint32_t k = 0; k < s->storages; k++) {
		struct tw_storage *storage = &s->storage[k];

		if (storage->home != TW_HOME_STASH)
			continue;
		storage->plan.from = l->plan.stash;
		l->plan.stash += storage->plan.bytes;
	}
}

static enum tw_status place_arena(struct tw_list *l, struct tw_steps *s, struct tw_heap *heap,
				  struct tw_arena *work)
{
	struct tw_plan_entry *entry = tw_arena_get(work, s->storages * sizeof *entry);
	size_t count = 0;
	enum tw_status st;

	if (!entry)
		return TW_NO_MEMORY;
	for (uint32_t k = 0; k < s->storages; k++)
		if (s->storage[k].home == TW_HOME_ARENA)
			entry[count++] = s->storage[k].plan;
	st = tw_plan_place(heap, entry, count, &l->plan.bytes);
	count = 0;
	for (uint32_t k = 0; k < s->storages; k++)
		if (s->storage[k].home == TW_HOME_ARENA)
			s->storage[k].plan = entry[count++];
	return st;
}

enum tw_status tw_list_make(struct tw_list *list, struct tw_lowered *net, enum tw_list_kind kind,
			    struct tw_heap *heap, struct tw_arena *keep)
{
	struct tw_arena work;
	struct tw_steps s;
	enum tw_status st;

	*list = (struct tw_list){ .steps = 0 };
	tw_arena_init(&work, heap);
	st = tw_steps_make(&s, net, kind, &work);
	if (st == TW_OK) {
		place_stash(list, &s);
		st = place_arena(list, &s, heap, &work);
	}
	if (st == TW_OK)
		st = keep_steps(list, &s, keep);
	if (st == TW_OK)
		st = keep_plan(list, &s, keep);
	tw_arena_release(&work);
	return st;
}
