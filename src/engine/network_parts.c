/* SPDX-License-Identifier: Apache-2.0 */
/* network_parts.c - parts of a network: where it is cut, their programs, and their scratch.
 *
 * Scratch of one computation: the program's arena, the batch as far as the part reads it, pointers
 * to the tensors, and room for those of the part that a shard's border cuts in two and that their
 * ops want whole.  Those are small: ops with large weights take them in pieces. */
#include "engine/network_inner.h"

#include "model/model.h"

_Static_assert(TW_MODEL_CUT_VALUES == TW_CROSSING_MAX, "what crosses a cut of a graph");

/* --- cuts ------------------------------------------------------------------------------------- */

/* Elements of the vector and operations before the cut. */
static void count_before(const struct tw_graph *g, uint32_t after, struct tw_model_cut *cut)
{
	cut->buffers = g->trainable;
	for (uint32_t t = 0; t < g->tensors; t++)
		if (g->tensor[t].node <= after && !g->tensor[t].frozen)
			*(g->tensor[t].form.buffer ? &cut->buffers : &cut->trainable) +=
				g->tensor[t].n;
	for (uint32_t k = 1; k <= after; k++)
		cut->flops += g->node[k].form.flops;
}

/* Does somebody know the place by a layer's number?  A cut between the last layer and the loss
 * would only move the loss. */
static bool is_listed(const struct tw_graph *g, const struct tw_graph_cut *c, char *number)
{
	const uint32_t last = g->nodes - 1;
	uint32_t node = g->node[last].in[0];

	*number = '\0';
	if (c->after == 0 || c->after == last)
		return true;
	while (node > 0 && !tw_model_number(g->node[node].name, number, TW_MODEL_CUT_NAME))
		node = g->node[node].in[0]; /* flattened on its way to the loss */
	return c->after < node &&
	       tw_model_number(g->node[c->after].name, number, TW_MODEL_CUT_NAME);
}

static void add_cut(struct network *n, const struct tw_graph_cut *from)
{
	struct tw_model_cut *cut = &n->cut[n->e.cuts];

	*cut = (struct tw_model_cut){ .values = from->values };
	if (!is_listed(n->facts.graph, from, cut->after))
		return;
	for (uint32_t v = 0; v < from->values; v++)
		cut->value[v] = (struct tw_model_cut_value){ .floats = from->value[v].floats,
							     .back = from->value[v].back };
	count_before(n->facts.graph, from->after, cut);
	n->after[n->e.cuts++] = from->after;
}

enum tw_status tw_network_cuts(struct network *n, struct tw_error *why)
{
	const struct tw_graph *g = n->facts.graph;
	struct tw_graph_cut *all = n->heap->get(n->heap, g->nodes * sizeof *all);
	enum tw_status st = TW_NO_MEMORY;
	uint32_t count = 0;

	n->cut = n->heap->get(n->heap, g->nodes * sizeof *n->cut);
	n->after = n->heap->get(n->heap, g->nodes * sizeof *n->after);
	n->e.cuts = 0;
	if (all && n->cut && n->after)
		st = tw_graph_cuts(g, all, &count);
	for (uint32_t k = 0; k < count; k++)
		add_cut(n, &all[k]);
	n->heap->put(n->heap, all);
	if (st != TW_OK)
		return tw_fail(why, st, "no memory for the network");
	n->e.cut = n->cut;
	n->cut[n->e.cuts - 1].values = 1; /* the predictions */
	n->cut[n->e.cuts - 1].value[0].floats = (uint32_t)n->outputs;
	return TW_OK;
}

/* --- programs --------------------------------------------------------------------------------- */

static struct made *find(struct part *p, enum tw_program_kind kind, uint32_t batch)
{
	struct made *m = atomic_load_explicit(&p->list, memory_order_acquire);

	while (m && (m->kind != kind || m->batch != batch))
		m = m->next;
	return m;
}

static enum tw_status make(const struct network *n, struct part *p, enum tw_program_kind kind,
			   uint32_t batch, struct made **out, struct tw_error *why)
{
	struct made *m = tw_heap_zeros(n->heap, sizeof *m);
	enum tw_status st;
	size_t bytes;

	if (!m)
		return tw_fail(why, TW_NO_MEMORY, "no memory for a program");
	*m = (struct made){ .kind = kind, .batch = batch };
	st = tw_program_of_part(n->facts.graph, kind, &p->of, batch, n->facts.seed, &m->program,
				why);
	if (st != TW_OK)
		goto out_put;
	bytes = tw_program_bytes(m->program);
	if (p->arena_room && bytes > p->arena_room) {
		m->arenas = tw_pool_new(n->heap, bytes);
		if (!m->arenas) {
			st = tw_fail(why, TW_NO_MEMORY, "no memory for a program's arena");
			goto out_free;
		}
	}
	m->next = atomic_load_explicit(&p->list, memory_order_relaxed);
	atomic_store_explicit(&p->list, m, memory_order_release);
	*out = m;
	return TW_OK;

out_free:
	tw_program_free(m->program);
out_put:
	n->heap->put(n->heap, m);
	return st;
}

enum tw_status tw_part_program(const struct network *n, struct part *p, enum tw_program_kind kind,
			       uint32_t batch, struct made **out)
{
	pthread_mutex_t *making = &((struct network *)n)->making; /* lists grow under it */
	enum tw_status st = TW_OK;

	*out = find(p, kind, batch);
	if (*out)
		return TW_OK;
	pthread_mutex_lock(making);
	*out = find(p, kind, batch);
	if (!*out)
		st = make(n, p, kind, batch, out, NULL);
	pthread_mutex_unlock(making);
	return st;
}

/* --- parts ------------------------------------------------------------------------------------ */

static size_t up(size_t bytes)
{
	return (bytes + TW_ALIGN - 1) / TW_ALIGN * TW_ALIGN;
}

/* Is the tensor one of the part's? */
static bool is_own(const struct network *n, const struct part *p, uint32_t tensor)
{
	const uint32_t node = n->facts.graph->tensor[tensor].node;

	return node > p->of.behind && node <= p->of.upto;
}

static size_t gathered_bytes(const struct network *n, const struct part *p)
{
	const struct tw_graph *g = n->facts.graph;
	size_t sum = 0;

	for (uint32_t t = 0; t < g->tensors; t++)
		if (is_own(n, p, t) && !g->tensor[t].frozen && !tw_graph_in_pieces(g, t))
			sum += up(g->tensor[t].n * sizeof(float));
	return sum;
}

enum tw_status tw_part_init(struct network *n, struct part *p, uint32_t first, uint32_t last,
			    enum tw_program_kind trains, struct tw_error *why)
{
	const struct tw_model_cut *a = &n->cut[first], *b = &n->cut[last];
	struct made *m;
	size_t most;
	enum tw_status st;

	*p = (struct part){ .first = first, .last = last, .trains = trains };
	p->of = (struct tw_graph_part){ n->after[first], n->after[last] };
	p->elements = b->trainable - a->trainable + b->buffers - a->buffers;
	p->gathered = gathered_bytes(n, p);
	st = make(n, p, trains, n->facts.batch, &m, why);
	if (st != TW_OK)
		return st;
	most = tw_program_bytes(m->program);
	st = make(n, p, TW_PROGRAM_EVALUATE, n->portion, &m, why);
	if (st != TW_OK)
		return st;
	if (tw_program_bytes(m->program) > most)
		most = tw_program_bytes(m->program);
	p->arena_room = most;
	return TW_OK;
}

void tw_part_release(struct network *n, struct part *p)
{
	for (struct made *m = atomic_load(&p->list), *next; m; m = next) {
		next = m->next;
		tw_program_free(m->program);
		tw_pool_free(m->arenas);
		n->heap->put(n->heap, m);
	}
}

static struct part *find_part(const struct network *n, uint32_t first, uint32_t last)
{
	struct part *p =
		atomic_load_explicit((_Atomic(struct part *) *)&n->parts, memory_order_acquire);

	while (p && (p->first != first || p->last != last))
		p = p->next;
	return p;
}

static enum tw_status make_part(struct network *n, uint32_t first, uint32_t last, struct part **out)
{
	struct part *p = n->heap->get(n->heap, sizeof *p);
	enum tw_status st;

	if (!p)
		return TW_NO_MEMORY;
	st = tw_part_init(n, p, first, last, TW_PROGRAM_PASSES, NULL);
	if (st != TW_OK) {
		tw_part_release(n, p);
		n->heap->put(n->heap, p);
		return st;
	}
	p->next = atomic_load_explicit(&n->parts, memory_order_relaxed);
	atomic_store_explicit(&n->parts, p, memory_order_release);
	*out = p;
	return TW_OK;
}

enum tw_status tw_part_of(const struct network *n, uint32_t first, uint32_t last, struct part **out)
{
	struct network *mine = (struct network *)n; /* the list grows under its lock */
	enum tw_status st = TW_OK;

	if (first >= last || last >= n->e.cuts)
		return TW_BAD_INPUT;
	*out = find_part(n, first, last);
	if (*out)
		return TW_OK;
	pthread_mutex_lock(&mine->making);
	*out = find_part(n, first, last);
	if (!*out)
		st = make_part(mine, first, last, out);
	pthread_mutex_unlock(&mine->making);
	return st;
}

/* --- scratch ---------------------------------------------------------------------------------- */

size_t tw_bench_carve(const struct network *n, const struct part *p, uintptr_t base,
		      struct bench *b)
{
	const struct tw_data *d = n->facts.data;
	const bool begins = tw_part_begins(p), ends = tw_part_ends(n, p);
	const size_t inputs = n->room * d->features * sizeof(float);
	const size_t samples = begins || ends ? n->room : 0;
	uintptr_t at = base;

	*b = (struct bench){ .arena = (uint8_t *)at };
	at += up(p->arena_room);
	b->x = (float *)at;
	at += up(begins ? inputs : 0);
	b->target = (float *)at;
	at += up(samples * d->targets * sizeof(float));
	b->clean = (float *)at;
	at += up(ends && n->facts.own_input && (tw_network_denoises(n) || !begins) ? inputs : 0);
	b->label = (uint32_t *)at;
	at += up(samples * tw_data_labels(d) * sizeof(uint32_t));
	b->index = (uint64_t *)at;
	at += up(samples * sizeof(uint64_t));
	b->weight = (float *)at;
	at += up(ends && d->weighs ? samples * sizeof(float) : 0);
	b->parameter = (const float **)at;
	at += up(n->facts.graph->tensors * sizeof *b->parameter);
	b->gathered = (float *)at;
	at += p->gathered;
	return at - base;
}

void tw_bench_tensors(const struct network *n, const struct part *p, const struct tw_inputs *in,
		      struct bench *b)
{
	const struct tw_graph *g = n->facts.graph;
	float *room = b->gathered;

	b->piece = in->piece;
	b->pieces = in->pieces;
	for (uint32_t t = 0; t < g->tensors; t++) {
		const size_t from = g->tensor[t].from, length = g->tensor[t].n;

		if (!is_own(n, p, t))
			continue;
		if (g->tensor[t].frozen) {
			b->parameter[t] = n->frozen + (from - tw_graph_moving(g));
			continue;
		}
		b->parameter[t] = tw_piece_of(in->piece, in->pieces, from, length);
		if (b->parameter[t] || tw_graph_in_pieces(g, t))
			continue;
		b->parameter[t] = tw_pieces_at(in->piece, in->pieces, from, length, room);
		room += up(length * sizeof(float)) / sizeof(float);
	}
}
