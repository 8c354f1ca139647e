/* SPDX-License-Identifier: Apache-2.0 */
/* slice_part.c - a slice as a part of a checkpoint, there and back.
 *
 * Responsible for (8) of the rules in slice.h.  What goes into a part is one version, unless
 * workers write it lock-free meanwhile.  The arrays of a part:
 *
 *	shard          struct tw_shard_part: the numbers
 *	applied twice  struct tw_span of positions
 *	parameters     what the rule keeps
 *	rule.<name>    the rule's arrays; staleness.<k> the policy's
 *	state.<name>   averaged arrays of the workers' rule; state.count the steps they have seen
 *	vector.<k>     the optimiser's vectors; vector.lists the number of the last list carried out
 *	kept           the view of the best evaluation so far; kept.of what it is: struct tw_kept
 *	worker.<slot>  the rule's array of this worker; worker.rates the rate of each slot's last
 *	               update, 0 if there was none */
#include "node/checkpoint_part.h"
#include "node/slice.h"
#include "vec/vec.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char rates_name[] = "worker.rates", count_name[] = "state.count",
		  lists_name[] = "vector.lists", kept_name[] = "kept", kept_of[] = "kept.of";

static void rule_name(const struct slice *s, uint32_t k, char *out, size_t room)
{
	snprintf(out, room, "rule.%s", s->plan->far.rule->array_names[k]);
}

static void state_name(const struct slice *s, uint32_t k, char *out, size_t room)
{
	snprintf(out, room, "state.%s", s->plan->near.rule->array_names[k]);
}

static void policy_name(uint32_t k, char *out, size_t room)
{
	snprintf(out, room, "staleness.%u", k);
}

/* --- there ---------------------------------------------------------------------------------- */

static struct tw_array floats(const struct slice *s, const char *name, const float *at)
{
	struct tw_array a = { .from = s->from, .n = s->n, .kind = TW_FLOATS, .at = at };

	snprintf(a.name, sizeof a.name, "%s", name);
	return a;
}

static struct tw_array bytes_of(const char *name, const void *at, size_t bytes)
{
	struct tw_array a = { .n = bytes, .kind = TW_BYTES, .at = at };

	snprintf(a.name, sizeof a.name, "%s", name);
	return a;
}

static size_t list_shared(const struct slice *s, struct tw_array *list)
{
	size_t count = 0;
	char name[40];

	for (uint32_t k = 0; k < s->plan->far.rule->arrays; k++) {
		rule_name(s, k, name, sizeof name);
		list[count++] = floats(s, name, s->array[k]);
	}
	for (uint32_t k = 0; k < s->plan->staleness->arrays; k++) {
		policy_name(k, name, sizeof name);
		list[count++] = floats(s, name, s->policy[k]);
	}
	return count;
}

static size_t list_state(const struct slice *s, const float *w, struct tw_array *list)
{
	const uint32_t arrays = tw_plan_state_arrays(s->plan);
	size_t count = 0;
	char name[40];

	for (uint32_t k = 0; k < arrays; k++) {
		state_name(s, k, name, sizeof name);
		list[count++] = floats(s, name, w + (1 + k) * s->n);
	}
	if (arrays)
		list[count++] = bytes_of(count_name, &s->state_count, sizeof s->state_count);
	return count;
}

static size_t list_vectors(const struct slice *s, struct tw_array *list)
{
	const struct slice_vectors *v = &s->vectors;
	size_t count = 0;
	char name[40];

	for (uint32_t k = 1; k < v->count; k++) {
		snprintf(name, sizeof name, "vector.%u", k);
		list[count++] = floats(s, name, tw_block_floats(v->at[k]));
	}
	if (v->count)
		list[count++] = bytes_of(lists_name, &v->number, sizeof v->number);
	return count;
}

static size_t list_kept(const struct slice *s, struct tw_array *list)
{
	if (!s->kept.view)
		return 0;
	list[0] = floats(s, kept_name, tw_block_floats(s->kept.view));
	list[1] = bytes_of(kept_of, &s->kept.of, sizeof s->kept.of);
	return 2;
}

static size_t list_own(const struct slice *s, float *rates, struct tw_array *list)
{
	size_t count = 0;
	char name[40];

	for (uint32_t k = 0; s->own && k < s->plan->crew.workers; k++) {
		rates[k] = s->own[k].array ? s->own[k].before : 0.0f;
		if (!s->own[k].array)
			continue;
		snprintf(name, sizeof name, "worker.%u", k);
		list[count++] = floats(s, name, tw_block_floats(s->own[k].array));
	}
	if (s->own)
		list[count++] = bytes_of(rates_name, rates, s->plan->crew.workers * sizeof *rates);
	return count;
}

/* What a part is made of while it is made. */
struct packing {
	struct tw_array *list;
	float *rates;
	struct tw_span *applied, *twice;
	struct tw_block *w;
};

static bool packing_open(struct packing *p, struct slice *s)
{
	const size_t own = s->own ? s->plan->crew.workers : 0;
	const size_t most = 8 + 2 * TW_RULE_ARRAYS + TW_STALENESS_ARRAYS + own + s->vectors.count;

	p->list = s->heap->get(s->heap, most * sizeof *p->list);
	p->rates = s->heap->get(s->heap, (own + 1) * sizeof *p->rates);
	p->applied = tw_spans_list(&s->history.applied);
	p->twice = tw_spans_list(&s->history.twice);
	p->w = tw_slice_snapshot(s);
	return p->list && p->rates && p->applied && p->twice && p->w;
}

static void packing_close(struct packing *p, struct slice *s)
{
	tw_block_drop(p->w);
	s->heap->put(s->heap, p->twice);
	s->heap->put(s->heap, p->applied);
	s->heap->put(s->heap, p->rates);
	s->heap->put(s->heap, p->list);
}

struct tw_block *tw_slice_pack(struct slice *s)
{
	const struct slice_history *h = &s->history;
	const struct tw_shard_part x = { s->version.n,     s->round,     h->corrections,
					 h->contributions, h->statistic, s->tally };
	struct tw_block *b = NULL;
	struct packing p;
	size_t count = 0;

	if (packing_open(&p, s)) {
		p.list[count++] = bytes_of(TW_SHARD_PART, &x, sizeof x);
		p.list[count++] =
			bytes_of("applied", p.applied, h->applied.count * sizeof *p.applied);
		p.list[count++] = bytes_of("twice", p.twice, h->twice.count * sizeof *p.twice);
		p.list[count++] = floats(s, "parameters", tw_block_floats(p.w));
		count += list_shared(s, p.list + count);
		count += list_state(s, tw_block_floats(p.w), p.list + count);
		count += list_vectors(s, p.list + count);
		count += list_kept(s, p.list + count);
		count += list_own(s, p.rates, p.list + count);
		b = tw_part_pack(s->heap, p.list, count);
	}
	packing_close(&p, s);
	return b;
}

/* --- and back ------------------------------------------------------------------------------- */

/* What a part lists; `look`: it is only looked at, and the slice may be empty. */
struct listed {
	struct tw_array *array;
	size_t count;
	bool look, finite; /* finite: parameters and state must be */
};

static enum tw_status copy_floats(const struct slice *s, const struct listed *l,
				  const struct tw_array *a, float *to)
{
	const size_t *border = s->plan->problem.border;
	const size_t from = border[s->index], n = border[s->index + 1] - from;

	if (!a || a->kind != TW_FLOATS || a->from != from || a->n != n)
		return TW_BAD_BYTES;
	if (!l->look)
		memcpy(to, a->at, n * sizeof(float));
	return TW_OK;
}

static enum tw_status restore_floats(const struct slice *s, const struct listed *l,
				     const char *name, float *to)
{
	return copy_floats(s, l, tw_part_find(l->array, l->count, name), to);
}

/* The parameters, or a part of the state behind them. */
static enum tw_status restore_values(const struct slice *s, const struct listed *l,
				     const char *name, uint32_t place)
{
	const struct tw_array *a = tw_part_find(l->array, l->count, name);
	const enum tw_status st =
		copy_floats(s, l, a, l->look ? NULL : tw_block_floats(s->w) + place * s->n);

	return st == TW_OK && l->finite && !tw_vec_finite(a->at, a->n) ? TW_BAD_BYTES : st;
}

static enum tw_status restore_bytes(const struct listed *l, const char *name, void *to, size_t n)
{
	const struct tw_array *a = tw_part_find(l->array, l->count, name);

	if (!a || a->kind != TW_BYTES || a->n != n)
		return TW_BAD_BYTES;
	if (!l->look)
		memcpy(to, a->at, n);
	return TW_OK;
}

static enum tw_status restore_spans(const struct listed *l, const char *name,
				    struct tw_spans *spans)
{
	const struct tw_array *a = tw_part_find(l->array, l->count, name);

	if (!a || a->kind != TW_BYTES || a->n % sizeof(struct tw_span))
		return TW_BAD_BYTES;
	for (size_t k = 0; k < a->n / sizeof(struct tw_span); k++) {
		struct tw_span one;
		enum tw_status st;

		memcpy(&one, (const uint8_t *)a->at + k * sizeof one, sizeof one);
		if (one.from >= one.to)
			return TW_BAD_BYTES;
		st = l->look ? TW_OK : tw_spans_add(spans, one.from, one.to, NULL);
		if (st != TW_OK)
			return st;
	}
	return TW_OK;
}

static enum tw_status restore_numbers(struct slice *s, const struct listed *l)
{
	struct slice_history *h = &s->history;
	struct tw_shard_part x;
	const enum tw_status st = restore_bytes(l, TW_SHARD_PART, &x, sizeof x);

	if (st != TW_OK || l->look)
		return st;
	s->version.n = x.version;
	s->round = x.round;
	s->tally = x.tally;
	h->corrections = x.corrections;
	h->contributions = x.contributions;
	h->statistic = x.statistic;
	return TW_OK;
}

static enum tw_status restore_shared(struct slice *s, const struct listed *l)
{
	enum tw_status st = restore_values(s, l, "parameters", 0);
	char name[40];

	for (uint32_t k = 0; k < s->plan->far.rule->arrays && st == TW_OK; k++) {
		rule_name(s, k, name, sizeof name);
		st = restore_floats(s, l, name, s->array[k]);
	}
	for (uint32_t k = 0; k < s->plan->staleness->arrays && st == TW_OK; k++) {
		policy_name(k, name, sizeof name);
		st = restore_floats(s, l, name, s->policy[k]);
	}
	return st;
}

static enum tw_status restore_state(struct slice *s, const struct listed *l)
{
	const uint32_t arrays = tw_plan_state_arrays(s->plan);
	enum tw_status st = TW_OK;
	char name[40];

	if (!arrays)
		return TW_OK;
	for (uint32_t k = 0; k < arrays && st == TW_OK; k++) {
		state_name(s, k, name, sizeof name);
		st = restore_values(s, l, name, 1 + k);
	}
	return st == TW_OK ? restore_bytes(l, count_name, &s->state_count, sizeof s->state_count)
			   : st;
}

static enum tw_status restore_vectors(struct slice *s, const struct listed *l)
{
	const struct tw_optimising *o = &s->plan->optimising;
	const uint32_t count =
		tw_plan_optimises(s->plan) ? tw_descent_vectors(o->method, o->options) : 0;
	struct slice_vectors *v = &s->vectors;
	enum tw_status st = TW_OK;
	char name[40];

	if (!count)
		return TW_OK;
	for (uint32_t k = 1; k < count && st == TW_OK; k++) {
		snprintf(name, sizeof name, "vector.%u", k);
		st = restore_floats(s, l, name, l->look ? NULL : tw_block_floats(v->at[k]));
	}
	return st == TW_OK ? restore_bytes(l, lists_name, &v->number, sizeof v->number) : st;
}

/* There may be none, and a run that keeps none lets it go. */
static enum tw_status restore_kept(struct slice *s, const struct listed *l)
{
	const struct tw_array *a = tw_part_find(l->array, l->count, kept_name);
	struct tw_block *view = NULL;
	struct tw_kept of;
	enum tw_status st;

	if (!a || !s->plan->keeping.best)
		return TW_OK;
	if (!l->look && !(view = tw_block_new(s->heap, s->n * sizeof(float))))
		return TW_NO_MEMORY;
	st = copy_floats(s, l, a, view ? tw_block_floats(view) : NULL);
	if (st == TW_OK && l->finite && !tw_vec_finite(a->at, a->n))
		st = TW_BAD_BYTES;
	if (st == TW_OK)
		st = restore_bytes(l, kept_of, &of, sizeof of);
	if (st == TW_OK && view && (!of.pin || isnan(of.loss)))
		st = TW_BAD_BYTES;
	if (st == TW_OK && view)
		tw_slice_keep(s, view, &of);
	else
		tw_block_drop(view);
	return st;
}

/* The slot that an array is of; UINT32_MAX if it is no worker's. */
static uint32_t slot_of(const char *name)
{
	static const char prefix[] = "worker.";
	const char *digits = name + sizeof prefix - 1;
	unsigned long slot;
	char again[40];
	char *end;

	if (strncmp(name, prefix, sizeof prefix - 1) != 0 || *digits < '0' || *digits > '9')
		return UINT32_MAX;
	slot = strtoul(digits, &end, 10);
	snprintf(again, sizeof again, "worker.%lu", slot);
	return slot < UINT32_MAX && strcmp(again, name) == 0 ? (uint32_t)slot : UINT32_MAX;
}

static enum tw_status restore_rates(struct slice *s, const struct listed *l)
{
	const struct tw_array *a = tw_part_find(l->array, l->count, rates_name);

	if (!a || a->kind != TW_BYTES || a->n != s->plan->crew.workers * sizeof(float))
		return TW_BAD_BYTES;
	for (uint32_t k = 0; k < s->plan->crew.workers; k++) {
		float rate;

		memcpy(&rate, (const uint8_t *)a->at + k * sizeof rate, sizeof rate);
		if (!(rate >= 0.0f && rate <= FLT_MAX))
			return TW_BAD_BYTES;
		if (!l->look)
			s->own[k].before = s->own[k].array ? rate : 0.0f;
	}
	return TW_OK;
}

/* Velocities without their rates would be of no use; a cut of other workers has neither. */
static enum tw_status restore_own(struct slice *s, const struct listed *l)
{
	const bool keeps = s->plan->far.rule->traits & TW_RULE_PER_WORKER;
	bool any = false;

	for (size_t k = 0; keeps && k < l->count; k++) {
		const uint32_t slot = slot_of(l->array[k].name);
		enum tw_status st;

		if (slot >= s->plan->crew.workers || (!l->look && s->own[slot].array))
			continue;
		st = l->look ? TW_OK : tw_slice_welcome(s, slot);
		if (st == TW_OK)
			st = copy_floats(s, l, &l->array[k],
					 l->look ? NULL : tw_block_floats(s->own[slot].array));
		if (st != TW_OK)
			return st;
		any = true;
	}
	return any ? restore_rates(s, l) : TW_OK;
}

static enum tw_status restore(struct slice *s, const uint8_t *bytes, size_t len, struct listed *l)
{
	enum tw_status st = tw_part_unpack(bytes, len, s->heap, &l->array, &l->count);

	if (st != TW_OK)
		return st;
	st = restore_numbers(s, l);
	if (st == TW_OK)
		st = restore_shared(s, l);
	if (st == TW_OK)
		st = restore_state(s, l);
	if (st == TW_OK)
		st = restore_vectors(s, l);
	if (st == TW_OK)
		st = restore_kept(s, l);
	if (st == TW_OK)
		st = restore_own(s, l);
	if (st == TW_OK)
		st = restore_spans(l, "applied", &s->history.applied);
	if (st == TW_OK)
		st = restore_spans(l, "twice", &s->history.twice);
	s->heap->put(s->heap, l->array);
	return st;
}

enum tw_status tw_slice_look(struct slice *s, const uint8_t *bytes, size_t len, bool finite)
{
	return restore(s, bytes, len, &(struct listed){ .look = true, .finite = finite });
}

enum tw_status tw_slice_restore(struct slice *s, const uint8_t *bytes, size_t len)
{
	return restore(s, bytes, len, &(struct listed){ .look = false });
}
