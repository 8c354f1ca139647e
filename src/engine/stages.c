/* SPDX-License-Identifier: Apache-2.0 */
/* stages.c - cuts by name, and cuts by cost. */
#include "engine/stages.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- by name ---------------------------------------------------------------------------------- */

/* Order of layers: by their numbers from left to right; inside comes before the layer itself is
 * done ("4.2" before "4"), a shortcut after the body. */
static int compare(const char *a, const char *b)
{
	for (;;) {
		const size_t n = strcspn(a, "."), m = strcspn(b, ".");
		const bool a_word = *a && (*a < '0' || *a > '9');
		const bool b_word = *b && (*b < '0' || *b > '9');

		if (!*a || !*b)
			return (*a == '\0') - (*b == '\0'); /* the shorter one ends later */
		if (a_word != b_word)
			return a_word ? 1 : -1;
		if (!a_word && strtoul(a, NULL, 10) != strtoul(b, NULL, 10))
			return strtoul(a, NULL, 10) < strtoul(b, NULL, 10) ? -1 : 1;
		a += n + (a[n] == '.');
		b += m + (b[m] == '.');
	}
}

static bool is_layer(const char *name)
{
	return strspn(name, "0123456789.shortcu") == strlen(name) && *name >= '1' && *name <= '9';
}

/* "after 3 or 5": the nearest on both sides. */
static void nearest(const struct tw_engine *e, const char *name, char *text, size_t room)
{
	const char *before = NULL, *behind = NULL;

	for (size_t k = 1; k + 1 < e->cuts; k++) {
		if (compare(e->cut[k].after, name) < 0)
			before = e->cut[k].after;
		else if (!behind)
			behind = e->cut[k].after;
	}
	snprintf(text, room, "the nearest layers after which it can be cut: %s%s%s",
		 before ? before : "", before && behind ? " and " : "", behind ? behind : "");
}

static enum tw_status refuse(const struct tw_engine *e, const char *name, struct tw_error *why)
{
	char text[160];

	if (!is_layer(name))
		return tw_fail(why, TW_BAD_INPUT,
			       "'%.40s' is not the number of a layer, such as 3, or 4.2 for the "
			       "second layer of the residual that is layer 4",
			       name);
	if (e->cuts <= 2)
		return tw_fail(why, TW_BAD_INPUT, "this model cannot be cut into stages");
	nearest(e, name, text, sizeof text);
	return tw_fail(why, TW_BAD_INPUT,
		       "the model cannot be cut after layer %.40s (there is none such, it is the "
		       "last, or the layer applies the ReLU that follows it); %s",
		       name, text);
}

enum tw_status tw_stages_find(const struct tw_engine *e, const char *const *after, size_t count,
			      uint32_t *cut, struct tw_error *why)
{
	for (size_t k = 0; k < count; k++) {
		uint32_t c = 1;

		while (c + 1 < e->cuts && strcmp(e->cut[c].after, after[k]) != 0)
			c++;
		if (c + 1 >= e->cuts)
			return refuse(e, after[k], why);
		if (k > 0 && c <= cut[k - 1])
			return tw_fail(why, TW_BAD_INPUT,
				       "layer %s does not come after layer %s; list each layer "
				       "once, in order, such as [3, 7]",
				       after[k], after[k - 1]);
		cut[k] = c;
	}
	return TW_OK;
}

/* --- by cost ---------------------------------------------------------------------------------- */

/* Sums over the parts before each cut, and best ways for what is behind it. */
struct table {
	const struct tw_stage_costs *c;
	double *before;    /* compute */
	uint32_t *counted; /* parts that count */
	double *best;      /* [s * (parts + 1) + from]: of s stages from there on; INFINITY: none */
	uint32_t *next;    /* where the first of these stages ends */
};

/* Parts from..to as one stage; INFINITY: it cannot be one. */
static double stage_cost(const struct table *t, size_t from, size_t to)
{
	const struct tw_stage_costs *c = t->c;

	if (from >= to || t->counted[from] == t->counted[to])
		return INFINITY;
	return t->before[to] - t->before[from] + (c->cross && from > 0 ? c->cross[from] : 0) +
	       (c->cross && to < c->parts ? c->cross[to] : 0);
}

/* The least of what the dearest stage costs or, where no stage may cost more than `limit`, of what
 * all crossing costs in sum.  A first stage that ends earlier is tried earlier and stays when later
 * ones are no better. */
static double fill_table(const struct table *t, uint32_t stages, double limit)
{
	const struct tw_stage_costs *c = t->c;
	const size_t wide = c->parts + 1;

	for (size_t from = 0; from < wide; from++)
		t->best[from] = from == c->parts ? 0 : INFINITY;
	for (uint32_t s = 1; s <= stages; s++)
		for (size_t from = 0; from < wide; from++) {
			const size_t here = s * wide + from;
			const double lanes = (c->lanes ? c->lanes[stages - s] : 1) *
					     (c->speed ? c->speed[stages - s] : 1);

			t->best[here] = INFINITY;
			for (size_t to = from + 1; to < wide; to++) {
				const double own = stage_cost(t, from, to) / lanes;
				const double rest = t->best[(s - 1) * wide + to];
				double way = fmax(own, rest);

				if (limit < INFINITY)
					way = own > limit ? INFINITY
							  : rest + (c->cross && to < c->parts
									    ? c->cross[to]
									    : 0);
				if (way >= t->best[here])
					continue;
				t->best[here] = way;
				t->next[here] = (uint32_t)to;
			}
		}
	return t->best[stages * wide];
}

static void sum_up(const struct table *t)
{
	const struct tw_stage_costs *c = t->c;

	t->before[0] = 0;
	t->counted[0] = 0;
	for (size_t k = 0; k < c->parts; k++) {
		t->before[k + 1] = t->before[k] + c->compute[k];
		t->counted[k + 1] = t->counted[k] + (!c->counts || c->counts[k]);
	}
}

enum tw_status tw_stages_balance(struct tw_heap *heap, const struct tw_stage_costs *costs,
				 uint32_t stages, uint32_t *cut)
{
	const size_t wide = costs->parts + 1, cells = (stages + (size_t)1) * wide;
	struct table t = { .c = costs };
	uint32_t at = 0;
	double limit;

	if (stages == 0 || stages > costs->parts)
		return TW_ABSENT;
	t.before = heap->get(heap, (wide + cells) * (sizeof(double) + sizeof(uint32_t)));
	if (!t.before)
		return TW_NO_MEMORY;
	t.best = t.before + wide;
	t.counted = (uint32_t *)(t.best + cells);
	t.next = t.counted + wide;
	sum_up(&t);
	limit = fill_table(&t, stages, INFINITY);
	if (limit < INFINITY)
		fill_table(&t, stages, limit);
	for (uint32_t s = stages; limit < INFINITY && s > 1; s--)
		*cut++ = at = t.next[s * wide + at];
	heap->put(heap, t.before);
	return limit < INFINITY ? TW_OK : TW_ABSENT;
}

#define FLOPS_OF_A_MOVE 20

void tw_stages_flops(const struct tw_engine *e, double *compute, double *cross, bool *counts)
{
	for (size_t k = 0; k < e->cuts; k++) {
		const struct tw_model_cut *a = &e->cut[k], *b = a + 1;

		cross[k] = 0;
		for (uint32_t v = 0; v < a->values; v++)
			cross[k] += (double)FLOPS_OF_A_MOVE * a->value[v].floats *
				    (1 + a->value[v].back);
		if (k + 1 == e->cuts)
			break;
		compute[k] = 3 * (b->flops - a->flops); /* backward costs twice as much */
		counts[k] = b->trainable > a->trainable || b->buffers > a->buffers;
	}
}
