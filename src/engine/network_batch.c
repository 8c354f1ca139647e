/* SPDX-License-Identifier: Apache-2.0 */
/* network_batch.c - a batch of a network: its samples are filled in, a program runs on it. */
#include "engine/network_inner.h"

#include "engine/order.h"

static bool augments(const struct tw_data_options *o)
{
	return o->shift > 0 || o->flip || o->noise > 0;
}

static enum tw_status fill(const struct network *n, const struct tw_batch *batch,
			   const struct tw_data_options *augment, struct bench *b, float *x)
{
	return tw_data_fill(n->facts.data, batch, augment && augments(augment) ? augment : NULL,
			    n->facts.seed, x, b->label, b->target);
}

/* What is to be predicted, where the inputs of the batch were not read, or are not it. */
static enum tw_status find_wanted(const struct network *n, const struct tw_batch *batch,
				  const struct tw_data_options *augment, struct bench *b)
{
	if (n->facts.own_input) {
		b->wanted = b->clean;
		return fill(n, batch, augment, b, b->clean);
	}
	b->wanted = n->facts.data->targets ? b->target : NULL;
	return tw_data_answers(n->facts.data, batch, b->label, b->target);
}

static void number_samples(const struct network *n, uint64_t from, uint32_t count, struct bench *b)
{
	for (uint32_t k = 0; k < count; k++)
		b->index[k] = tw_order_sample(&n->e.order, from + k);
}

/* Weights of the samples that are numbered, or came with them. */
static void find_weights(const struct network *n, const struct tw_batch *batch, struct bench *b)
{
	const struct tw_data *d = n->facts.data;
	const float *packed =
		batch->packed ? tw_data_packed_weights(d, batch->packed, batch->count) : NULL;

	for (uint32_t k = 0; k < batch->count; k++)
		b->weight[k] = packed ? packed[k] : d->weight[b->index[k]];
}

enum tw_status tw_network_fill(const struct network *n, const struct part *p,
			       const struct tw_inputs *in, bool again, struct bench *b)
{
	const uint64_t from = in->from;
	const uint32_t count = in->count;
	const struct tw_batch batch = { &n->facts.data->train, b->index, count, from, in->given };
	const bool begins = tw_part_begins(p), ends = tw_part_ends(n, p);
	const bool apart = ends && (!begins || tw_network_denoises(n));
	const bool ready = begins && !again && n->prefetch && !in->given &&
			   tw_prefetch_take(n->prefetch, from, count, b->x, b->label, b->target);
	struct tw_data_options clean = n->facts.options;
	enum tw_status st = TW_OK;

	if (!in->given && !tw_samples_lend(&n->facts.data->train))
		return TW_ABSENT;
	b->weighs = ends && n->facts.data->weighs;
	if (!in->given && (apart || (begins && !ready) || b->weighs))
		number_samples(n, from, count, b);
	if (b->weighs)
		find_weights(n, &batch, b);
	if (begins && !ready)
		st = fill(n, &batch, &n->facts.options, b, b->x);
	b->wanted = n->facts.own_input ? b->x : n->facts.data->targets ? b->target : NULL;
	clean.noise = 0; /* moved and mirrored as they are, by the same draws */
	if (st == TW_OK && apart)
		st = find_wanted(n, &batch, &clean, b);
	return st;
}

enum tw_status tw_network_fill_test(const struct network *n, const struct part *p,
				    const struct tw_samples *set, uint64_t from, uint32_t count,
				    struct bench *b)
{
	const struct tw_batch batch = { set, b->index, count, from };
	const bool begins = tw_part_begins(p), ends = tw_part_ends(n, p);
	enum tw_status st = TW_OK;

	b->weighs = false;
	for (uint32_t k = 0; (begins || ends) && k < count; k++)
		b->index[k] = from + k;
	if (begins)
		st = fill(n, &batch, NULL, b, b->x);
	b->wanted = n->facts.own_input ? b->x : n->facts.data->targets ? b->target : NULL;
	if (ends && !begins)
		st = find_wanted(n, &batch, NULL, b);
	return st;
}

size_t tw_network_given_bytes(const struct tw_engine *e, uint32_t count)
{
	return tw_data_pack_bytes(((const struct network *)e)->facts.data, count);
}

enum tw_status tw_network_give(const struct tw_engine *e, uint64_t from, uint32_t count,
			       uint8_t *out)
{
	const struct network *n = (const struct network *)e;
	const struct tw_inputs in = { .from = from, .count = count };
	struct tw_batch batch = { &n->facts.data->train, NULL, count, from, NULL };
	uint64_t *index;
	enum tw_status st;

	if (!tw_order_is_batch(e->samples, &in) || count > n->facts.most)
		return TW_BAD_INPUT;
	if (!tw_samples_lend(&n->facts.data->train))
		return TW_ABSENT;
	index = n->heap->get(n->heap, count * sizeof *index);
	if (!index)
		return TW_NO_MEMORY;
	for (uint32_t k = 0; k < count; k++)
		index[k] = tw_order_sample(&e->order, from + k);
	batch.index = index;
	st = tw_data_pack(n->facts.data, &batch, out);
	n->heap->put(n->heap, index);
	return st;
}

enum tw_status tw_network_execute(const struct network *n, struct made *m, struct bench *b,
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
	r->piece = b->piece;
	r->pieces = b->pieces;
	r->batch.label = n->facts.data->classes && !n->facts.own_input ? b->label : NULL;
	r->batch.target = b->wanted;
	r->batch.weight = b->weighs ? b->weight : NULL;
	r->batch.share = n->share;
	st = tw_program_run(m->program, arena, r);
	tw_block_drop(own);
	return st;
}

const struct tw_samples *tw_network_scored(const struct network *n, uint64_t *from)
{
	if (!n->held || *from < n->test->count)
		return n->test;
	*from -= n->test->count;
	return n->held;
}
