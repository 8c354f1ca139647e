/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_parts.c - a part for a shard from parts that were made at other borders, or by other
 * workers (8).  The numbers in brackets are those of README.md. */
#include "node/duty/checkpoint/checkpoint_state.h"

#include <string.h>

static bool starts_with(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* --- opening them ----------------------------------------------------------------------------- */

enum tw_status tw_checkpoint_open(struct tw_heap *heap, const struct tw_part *parts, size_t count,
				  struct tw_checkpoint_sources *out)
{
	*out = (struct tw_checkpoint_sources){ .at = tw_heap_zeros(heap,
								   (count + 1) * sizeof *out->at) };
	if (!out->at)
		return TW_NO_MEMORY;
	for (size_t k = 0; k < count; k++) {
		struct tw_checkpoint_source *one = &out->at[out->count];
		enum tw_status st;

		if (!starts_with(parts[k].name, "shard "))
			continue;
		st = tw_part_unpack_head(parts[k].bytes->data, parts[k].bytes->bytes, heap,
					 &one->list, &one->count);
		if (st != TW_OK)
			return st;
		one->part = parts[k].bytes;
		out->count++;
	}
	return out->count ? TW_OK : TW_BAD_BYTES;
}

void tw_checkpoint_close(struct tw_heap *heap, struct tw_checkpoint_sources *s)
{
	for (size_t k = 0; k < s->count; k++)
		heap->put(heap, s->at[k].list);
	heap->put(heap, s->at);
}

/* --- looking into them ------------------------------------------------------------------------ */

/* Parameters [from, to). */
struct range {
	uint64_t from, to;
};

static struct range overlap(const struct tw_array *a, struct range r)
{
	const struct range both = { a->from > r.from ? a->from : r.from,
				    a->from + a->n < r.to ? a->from + a->n : r.to };

	return both.from < both.to ? both : (struct range){ 0, 0 };
}

/* The floats of the array `name` in this range, from whichever parts hold them. */
static enum tw_status collect_floats(const struct tw_checkpoint_sources *s, const char *name,
				     struct range r, float *out)
{
	uint64_t covered = 0;

	for (size_t k = 0; k < s->count; k++) {
		const struct tw_array *a = tw_part_find(s->at[k].list, s->at[k].count, name);
		struct range both;

		if (!a || a->kind != TW_FLOATS || !a->at)
			continue;
		both = overlap(a, r);
		if (both.from == both.to)
			continue;
		memcpy(out + (both.from - r.from), (const float *)a->at + (both.from - a->from),
		       (both.to - both.from) * sizeof(float));
		covered += both.to - both.from;
	}
	return covered == r.to - r.from ? TW_OK : TW_BAD_BYTES;
}

enum tw_status tw_checkpoint_spans(const struct tw_array *list, size_t count, const char *name,
				   struct tw_spans *to)
{
	const struct tw_array *a = tw_part_find(list, count, name);
	enum tw_status st = TW_OK;

	if (!a || a->n % sizeof(struct tw_span))
		return TW_BAD_BYTES;
	for (size_t k = 0; k < a->n / sizeof(struct tw_span) && st == TW_OK; k++) {
		struct tw_span one;

		memcpy(&one, (const uint8_t *)a->at + k * sizeof one, sizeof one);
		st = one.from < one.to ? tw_spans_add(to, one.from, one.to, NULL) : TW_BAD_BYTES;
	}
	return st;
}

/* The part that covers most of this range; *exact if it covers just that. */
static const struct tw_checkpoint_source *nearest(const struct tw_checkpoint_sources *s,
						  struct range r, bool *exact)
{
	const struct tw_checkpoint_source *best = &s->at[0];
	uint64_t most = 0;

	*exact = false;
	for (size_t k = 0; k < s->count; k++) {
		const struct tw_array *a =
			tw_part_find(s->at[k].list, s->at[k].count, "parameters");
		const struct range both = a ? overlap(a, r) : (struct range){ 0, 0 };

		if (both.to - both.from > most) {
			most = both.to - both.from;
			best = &s->at[k];
			*exact = a->from == r.from && a->n == r.to - r.from;
		}
	}
	return best;
}

/* --- what is applied -------------------------------------------------------------------------- */

/* Positions that are applied, and those that are applied twice, as arrays of a part. */
struct applied {
	struct tw_spans once, twice;
	struct tw_span *once_list, *twice_list;
};

static void applied_init(struct applied *h, struct tw_heap *heap)
{
	*h = (struct applied){ .once_list = NULL };
	tw_spans_init(&h->once, heap);
	tw_spans_init(&h->twice, heap);
}

static void applied_release(struct applied *h, struct tw_heap *heap)
{
	tw_spans_release(&h->once);
	tw_spans_release(&h->twice);
	heap->put(heap, h->once_list);
	heap->put(heap, h->twice_list);
}

static enum tw_status add_source(struct applied *h, struct tw_heap *heap,
				 const struct tw_checkpoint_source *one, bool first)
{
	struct tw_spans spans;
	enum tw_status st;

	tw_spans_init(&spans, heap);
	st = tw_checkpoint_spans(one->list, one->count, "applied", &spans);
	if (st == TW_OK)
		st = first ? tw_spans_copy(&h->once, &spans) : tw_spans_intersect(&h->once, &spans);
	tw_spans_clear(&spans);
	if (st == TW_OK)
		st = tw_checkpoint_spans(one->list, one->count, "twice", &spans);
	if (st == TW_OK)
		st = tw_spans_unite(&h->twice, &spans);
	tw_spans_release(&spans);
	return st;
}

/* What all of them have applied: what a shard with other borders may rely on. */
static enum tw_status common_applied(struct applied *h, struct tw_heap *heap,
				     const struct tw_checkpoint_sources *s)
{
	enum tw_status st = TW_OK;

	for (size_t k = 0; k < s->count && st == TW_OK; k++)
		st = add_source(h, heap, &s->at[k], k == 0);
	if (st != TW_OK)
		return st;
	h->once_list = tw_spans_list(&h->once);
	h->twice_list = tw_spans_list(&h->twice);
	return h->once_list && h->twice_list ? TW_OK : TW_NO_MEMORY;
}

/* --- a new part ------------------------------------------------------------------------------- */

/* A part that is put together: arrays like those of `first`, and room for their floats. */
struct making {
	const struct tw_plan *plan;
	const struct tw_checkpoint_sources *from;
	struct range range;
	bool others;
	const struct applied *history; /* NULL: that of `first` */
	struct tw_array *list;
	size_t count;
	float *room;
};

static enum tw_status add_floats(struct making *k, struct tw_array *to)
{
	const uint64_t n = k->range.to - k->range.from;
	const enum tw_status st = collect_floats(k->from, to->name, k->range, k->room);

	/* the sum of velocities that belong to nobody any more */
	if (k->others && (k->plan->far.rule->traits & TW_RULE_PER_WORKER) &&
	    starts_with(to->name, "rule."))
		memset(k->room, 0, n * sizeof(float));
	to->from = k->range.from;
	to->n = n;
	to->at = k->room;
	k->room += n;
	return st;
}

static enum tw_status add_array(struct making *k, const struct tw_array *a)
{
	struct tw_array *to;

	if (k->others && starts_with(a->name, "worker."))
		return TW_OK;
	to = &k->list[k->count++];
	*to = *a;
	if (a->kind == TW_FLOATS)
		return add_floats(k, to);
	if (k->history && strcmp(a->name, "applied") == 0) {
		to->at = k->history->once_list;
		to->n = k->history->once.count * sizeof *k->history->once_list;
	} else if (k->history && strcmp(a->name, "twice") == 0) {
		to->at = k->history->twice_list;
		to->n = k->history->twice.count * sizeof *k->history->twice_list;
	}
	return TW_OK;
}

static size_t float_arrays(const struct tw_checkpoint_source *s)
{
	size_t count = 0;

	for (size_t k = 0; k < s->count; k++)
		count += s->list[k].kind == TW_FLOATS;
	return count;
}

enum tw_status tw_checkpoint_assemble(struct tw_heap *heap, const struct tw_plan *plan,
				      const struct tw_checkpoint_sources *s, uint32_t shard,
				      bool others, struct tw_block **out)
{
	const struct range r = { plan->problem.border[shard], plan->problem.border[shard + 1] };
	bool exact;
	const struct tw_checkpoint_source *first = nearest(s, r, &exact);
	struct making k = { .plan = plan, .from = s, .range = r, .others = others };
	struct applied common;
	enum tw_status st;
	float *floats;

	if (exact && !others) {
		*out = tw_block_keep(first->part);
		return TW_OK;
	}
	applied_init(&common, heap);
	k.list = tw_heap_zeros(heap, first->count * sizeof *k.list);
	k.room = floats =
		heap->get(heap, float_arrays(first) * (r.to - r.from) * sizeof(float) + 1);
	st = k.list && floats ? TW_OK : TW_NO_MEMORY;
	if (st == TW_OK && !exact) {
		st = common_applied(&common, heap, s);
		k.history = &common;
	}
	for (size_t i = 0; i < first->count && st == TW_OK; i++)
		st = add_array(&k, &first->list[i]);
	if (st == TW_OK) {
		*out = tw_part_pack(heap, k.list, k.count);
		st = *out ? TW_OK : TW_NO_MEMORY;
	}
	applied_release(&common, heap);
	heap->put(heap, k.list);
	heap->put(heap, floats);
	return st;
}
