/* SPDX-License-Identifier: Apache-2.0 */
/* worker_state.c - what a worker keeps itself: the near half of the update, memory for its own copy
 * of the parameters (worker_own_steps.c), and its part of a checkpoint.
 *
 *  (1) tw_plan_worker_keeps says whether anything must survive the worker; arrays_of lists it, and
 *      packing, restoring and starting blank walk that list.
 *  (2) a part is taken whole or not at all: one that does not fit leaves everything blank.
 *  (3) borders may be others than those of the part: arrays are over the whole vector, and rates
 *      say from which parameter on they hold. */
#include "node/checkpoint_part.h"
#include "node/half.h"
#include "node/worker/worker.h"
#include "vec/vec.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

/* --- memory ------------------------------------------------------------------------------- */

static float *floats(struct worker *w)
{
	const size_t bytes = tw_worker_total(w) * sizeof(float);

	return tw_heap_zeros(w->heap, bytes ? bytes : 1);
}

enum tw_status tw_kept_open(struct worker *w)
{
	const struct tw_half own = tw_plan_own_steps(w->plan);
	const bool delta = tw_worker_deltas(w);
	struct worker_kept *k = &w->kept;

	if (w->plan->near.rule && !delta && !(k->momentum = floats(w)))
		return TW_NO_MEMORY;
	if (!own.rule)
		return TW_OK;
	if (!(k->parameters = floats(w)))
		return TW_NO_MEMORY;
	if (!w->plan->traffic.cache && !(*(delta ? &k->base : &k->drift) = floats(w)))
		return TW_NO_MEMORY;
	if (delta && tw_rule_shows(own.rule, own.options) && !(k->shown = floats(w)))
		return TW_NO_MEMORY;
	for (uint32_t i = 0; i < own.rule->arrays; i++)
		if (!(k->array[i] = floats(w)))
			return TW_NO_MEMORY;
	if (!w->plan->traffic.average_state)
		return TW_OK;
	k->with_state = tw_pool_new(w->heap, tw_worker_pushes(w) * sizeof(float));
	return k->with_state ? TW_OK : TW_NO_MEMORY;
}

void tw_kept_close(struct worker *w)
{
	struct worker_kept *k = &w->kept;

	void *const plain[] = { k->momentum, k->parameters, k->drift, k->base, k->shown };

	for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
		w->heap->put(w->heap, plain[i]);
	for (uint32_t i = 0; i < TW_RULE_ARRAYS; i++)
		w->heap->put(w->heap, k->array[i]);
	tw_pool_free(k->with_state);
}

void tw_kept_forget_drift(struct worker *w)
{
	if (w->kept.drift)
		tw_vec_fill(w->kept.drift, 0.0f, tw_worker_total(w));
}

/* --- the near half of the update ---------------------------------------------------------- */

/* A slice that is not finite would be in the momentum for good: it goes as it is, and its shard
 * refuses it. */
void tw_kept_prepare(struct worker *w, float *g)
{
	const struct tw_half *near = &w->plan->near;

	for (uint32_t k = 0; k < w->exchange.holders; k++) {
		const struct holder *h = &w->exchange.holder[k];
		const size_t from = h->range.from;
		const struct tw_prepare half = { .v = w->kept.momentum + from,
						 .g = g + from,
						 .u = g + from,
						 .n = h->range.trainable,
						 .rate = h->base.rate,
						 .before = w->shard[k].rate };

		if (!tw_vec_finite(g + from, h->range.n))
			continue;
		tw_half_prepare(near, &half, from);
		w->shard[k].rate = half.rate;
	}
}

/* At the views that the gradient is of. */
void tw_kept_decay(struct worker *w, float *g)
{
	for (uint32_t k = 0; k < w->exchange.holders; k++) {
		const struct tw_holding *r = &w->exchange.holder[k].range;

		tw_vec_axpy(g + r->from, w->plan->decay, tw_block_floats(w->shard[k].using),
			    r->trainable);
	}
}

void tw_kept_forget_momentum(struct worker *w)
{
	if (!w->kept.momentum)
		return;
	tw_vec_fill(w->kept.momentum, 0.0f, tw_worker_total(w));
	for (uint32_t k = 0; k < w->exchange.holders; k++)
		w->shard[k].rate = 0.0f;
}

/* --- the worker's part of a checkpoint ---------------------------------------------------- */

/* (1): arrays of the whole vector's length.  The shards keep a state that is averaged. */
struct keeps {
	char name[40];
	float *at;
};

#define KEEPS_MOST (2 + TW_RULE_ARRAYS)

static size_t arrays_of(struct worker *w, struct keeps list[KEEPS_MOST])
{
	const struct tw_rule *local = tw_plan_own_steps(w->plan).rule;
	size_t count = 0;

	if (w->kept.momentum)
		list[count++] = (struct keeps){ "momentum", w->kept.momentum };
	for (uint32_t k = 0; local && !w->plan->traffic.average_state && k < local->arrays; k++) {
		snprintf(list[count].name, sizeof list[0].name, "local.%u", k);
		list[count++].at = w->kept.array[k];
	}
	if (tw_plan_own_parameters(w->plan) && w->kept.own)
		list[count++] = (struct keeps){ "parameters", w->kept.parameters };
	return count;
}

/* (3): the rate of the momentum, or of the last own step, from parameter `from` on. */
struct part_rate {
	uint64_t from;
	float rate;
	uint32_t zero;
};

/* Does a next step depend on the rate of the last one: by momentum correction, or by what the rule
 * shows? */
static bool has_rates(const struct worker *w)
{
	return w->kept.momentum || w->kept.shown;
}

static void pack_rates(struct worker *w, struct part_rate *rates)
{
	for (uint32_t k = 0; k < w->exchange.holders; k++)
		rates[k] =
			(struct part_rate){ w->exchange.holder[k].range.from, w->shard[k].rate, 0 };
}

/* Each holder takes the rate that its first parameter had. */
static enum tw_status restore_rates(struct worker *w, const struct tw_array *a)
{
	if (!a || a->kind != TW_BYTES || a->n == 0 || a->n % sizeof(struct part_rate))
		return TW_BAD_BYTES;
	for (uint32_t k = 0; k < w->exchange.holders; k++)
		for (size_t i = 0; i < a->n / sizeof(struct part_rate); i++) {
			struct part_rate one;

			memcpy(&one, (const uint8_t *)a->at + i * sizeof one, sizeof one);
			if (!(one.rate >= 0.0f && one.rate <= FLT_MAX))
				return TW_BAD_BYTES;
			if (one.from <= w->exchange.holder[k].range.from)
				w->shard[k].rate = one.rate;
		}
	return TW_OK;
}

struct tw_block *tw_kept_part(struct worker *w)
{
	const uint32_t holders = w->exchange.holders;
	struct keeps arrays[KEEPS_MOST];
	const size_t kept = arrays_of(w, arrays);
	struct tw_array *list = tw_heap_zeros(w->heap, (4 + kept + holders) * sizeof *list);
	struct part_rate *rates = tw_heap_zeros(w->heap, holders * sizeof *rates);
	float *owed = NULL;
	struct tw_block *b = NULL;
	size_t count = 0;

	if (!list || !rates)
		goto out;
	tw_kept_take_back(w);
	list[count++] = (struct tw_array){
		.name = "worker", .n = sizeof w->kept.count, .kind = TW_BYTES, .at = &w->kept.count
	};
	for (size_t k = 0; k < kept; k++) {
		list[count] = (struct tw_array){ .n = tw_worker_total(w),
						 .kind = TW_FLOATS,
						 .at = arrays[k].at };
		memcpy(list[count++].name, arrays[k].name, sizeof arrays[k].name);
	}
	pack_rates(w, rates);
	if (has_rates(w))
		list[count++] = (struct tw_array){
			.name = "rates", .n = holders * sizeof *rates, .kind = TW_BYTES, .at = rates
		};
	if (tw_exchange_pack(&w->exchange, list, &count, &owed) == TW_OK)
		b = tw_part_pack(w->heap, list, count);
out:
	w->heap->put(w->heap, owed);
	w->heap->put(w->heap, rates);
	w->heap->put(w->heap, list);
	return b;
}

void tw_kept_blank(struct worker *w)
{
	struct keeps arrays[KEEPS_MOST];
	const size_t kept = arrays_of(w, arrays);

	w->kept.count = 0;
	w->kept.own = false;
	for (uint32_t k = 0; k < w->exchange.holders; k++)
		w->shard[k].rate = 0.0f;
	tw_kept_forget_momentum(w);
	for (size_t k = 0; k < kept; k++)
		tw_vec_fill(arrays[k].at, 0.0f, tw_worker_total(w));
	tw_exchange_blank(&w->exchange);
}

static enum tw_status restore_array(struct worker *w, const struct tw_array *list, size_t count,
				    const struct keeps *to)
{
	const struct tw_array *a = tw_part_find(list, count, to->name);

	if (!a || a->kind != TW_FLOATS || a->n != tw_worker_total(w))
		return TW_BAD_BYTES;
	memcpy(to->at, a->at, a->n * sizeof(float));
	return TW_OK;
}

static enum tw_status restore_list(struct worker *w, const struct tw_array *list, size_t count)
{
	const struct tw_array *a = tw_part_find(list, count, "worker");
	struct keeps arrays[KEEPS_MOST];
	enum tw_status st = TW_OK;
	size_t kept;

	/* one that had fetched nothing yet has no parameters in its part */
	w->kept.own = tw_part_find(list, count, "parameters") != NULL;
	kept = arrays_of(w, arrays);
	if (!a || a->n != sizeof w->kept.count)
		return TW_BAD_BYTES;
	memcpy(&w->kept.count, a->at, sizeof w->kept.count);
	for (size_t k = 0; k < kept && st == TW_OK; k++)
		st = restore_array(w, list, count, &arrays[k]);
	if (st == TW_OK && w->kept.own && w->kept.base)
		tw_vec_copy(w->kept.base, w->kept.parameters, tw_worker_total(w));
	if (st == TW_OK && has_rates(w))
		st = restore_rates(w, tw_part_find(list, count, "rates"));
	return st == TW_OK ? tw_exchange_restore(&w->exchange, list, count) : st;
}

enum tw_status tw_kept_restore(struct worker *w, const uint8_t *bytes, size_t len)
{
	struct tw_array *list;
	enum tw_status st;
	size_t count;

	st = tw_part_unpack(bytes, len, w->heap, &list, &count);
	if (st == TW_OK) {
		st = restore_list(w, list, count);
		w->heap->put(w->heap, list);
	}
	if (st != TW_OK)
		tw_kept_blank(w); /* (2) */
	return st;
}
