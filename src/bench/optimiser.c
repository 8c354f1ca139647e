/* SPDX-License-Identifier: Apache-2.0 */
/* optimiser.c - one iteration of every optimiser on the shards: the lists of commands that the
 * master would send, carried out on slices, against the passes over memory of the textbook.
 *
 * The textbook makes one pass for each product and each sum of vectors: with m pairs of history,
 * 2 m products and 2 m sums for the direction, and 3 products and 7 sums besides (products of the
 * gradient and of the newest pair; s, y, the direction's start, its scale, what is remembered, the
 * new point).  Both are timed in the same rounds, on one thread, as CPU time. */
#include "bench/bench.h"

#include "base/arena.h"
#include "bench/harness/timed_engine.h"
#include "node/slice.h"
#include "vec/vec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define VALUES   ((size_t)14600000)
#define SHARDS   16
#define ROUNDS   9
#define PRODUCTS 3
#define SUMS     7

struct work {
	struct tw_plan plan;
	struct tw_arena arena;
	size_t border[SHARDS + 1];
	struct slice slice[SHARDS];
	uint32_t slices; /* that are there */
	struct tw_descent descent;
	struct tw_descender d;
	struct tw_commands list;
	double *result;
	uint64_t number;
	double busy; /* seconds in lists */
};

static double seconds_since(int64_t began)
{
	return (double)(tw_timed_cpu() - began) / (double)TW_SECOND;
}

static double curvature_of(size_t i)
{
	return 0.05 + (double)(i * 2654435761u % 1000) / 1000;
}

/* The gradient of a quadratic, as one portion of each slice. */
static enum tw_status evaluate(struct work *k)
{
	double loss = 0;

	for (uint32_t s = 0; s < SHARDS; s++) {
		struct slice *p = &k->slice[s];
		struct tw_block *b = tw_block_new(&tw_heap_system, p->n * sizeof(float));
		const float *w = tw_block_floats(p->w);

		if (!b)
			return TW_NO_MEMORY;
		for (size_t i = 0; i < p->n; i++) {
			const double a = curvature_of(p->from + i);

			tw_block_floats(b)[i] = (float)(a * (double)w[i]);
			loss += a * (double)w[i] * (double)w[i] / 2;
		}
		tw_vectors_open(p);
		tw_vectors_fold(p, 0, b, tw_block_floats(b), 0);
		tw_block_drop(b);
	}
	k->slice[0].vectors.loss = loss;
	return TW_OK;
}

/* Until the next point is accepted. */
static enum tw_status iterate(struct work *k)
{
	for (;;) {
		const enum tw_descent_turn turn = tw_descent_next(&k->d, k->result, &k->list);
		const uint32_t last = k->list.count - 1;
		int64_t began;

		if (turn != TW_DESCENT_COMMANDS)
			return turn == TW_DESCENT_ACCEPTED ? TW_OK : TW_CANCELLED;
		began = tw_timed_cpu();
		memset(k->result, 0, k->list.room * sizeof *k->result);
		k->number++;
		for (uint32_t s = 0; s < SHARDS; s++) {
			struct slice *p = &k->slice[s];

			if (tw_vectors_run(p, k->list.at, k->list.count, k->number) != TW_OK)
				return TW_NO_MEMORY;
			for (uint32_t i = 0; i < p->vectors.results; i++)
				k->result[i] += p->vectors.result[i];
		}
		k->busy += seconds_since(began);
		if (k->list.at[last].kind == TW_COMMAND_EVALUATE && evaluate(k) != TW_OK)
			return TW_NO_MEMORY;
	}
}

/* What the textbook's passes take: the floor.  A pass goes over all slices before the next begins,
 * as the textbook's do: of one slice, the second pass would find the vectors in the cache. */
static double passes(struct work *k, uint32_t pairs)
{
	double seconds[2];
	volatile double keep = 0;

	for (int sums = 0; sums < 2; sums++) {
		const int64_t began = tw_timed_cpu();

		for (uint32_t s = 0; s < SHARDS; s++) {
			struct slice_vectors *v = &k->slice[s].vectors;
			float *x = tw_block_floats(v->at[TW_VECTOR_BASE]);
			float *y = tw_block_floats(v->at[TW_VECTOR_BEFORE]);

			if (sums)
				tw_vec_axpy(y, 0.0f, x, k->slice[s].n);
			else
				keep += tw_vec_dot(x, y, k->slice[s].n);
		}
		seconds[sums] = seconds_since(began);
	}
	return (2 * pairs + PRODUCTS) * seconds[0] + (2 * pairs + SUMS) * seconds[1];
}

static enum tw_status open_slices(struct work *k)
{
	for (uint32_t s = 0; s < SHARDS; s++) {
		struct slice *p = &k->slice[s];

		tw_slice_empty(p, &k->plan, &tw_heap_system, s);
		k->slices++;
		if (tw_slice_init(p) != TW_OK)
			return TW_NO_MEMORY;
		for (size_t i = 0; i < p->n; i++)
			tw_block_floats(p->w)[i] = (float)(1 + (p->from + i) % 3);
	}
	return TW_OK;
}

static enum tw_status prepare(struct work *k, const struct tw_optimiser *o, struct tw_error *why)
{
	struct tw_descent_options *how = tw_arena_get(&k->arena, sizeof *how);
	void *options = tw_arena_get(&k->arena, o->options_bytes + 1);

	if (!how || !options)
		return TW_NO_MEMORY;
	if (o->options && tw_option_defaults(o->options, options, &k->arena, why) != TW_OK)
		return why->status;
	*how = (struct tw_descent_options){ .sufficient = 1e-3, .trials = 20 };
	k->list.room = tw_descent_commands(o, options);
	k->list.at = tw_arena_get(&k->arena, k->list.room * sizeof *k->list.at);
	k->result = tw_arena_get(&k->arena, k->list.room * sizeof *k->result);
	k->d = (struct tw_descender){ o, options, how, &k->descent,
				      tw_arena_get(&k->arena, tw_optimiser_bytes(o, options) + 1) };
	if (!k->list.at || !k->result || !k->d.own)
		return TW_NO_MEMORY;
	memset(k->d.own, 0, tw_optimiser_bytes(o, options) + 1);
	tw_descent_begin(&k->descent);
	k->plan.gate = &tw_gate_portions;
	k->plan.staleness = tw_staleness_all[0];
	k->plan.far.rule = &tw_rule_subtract;
	k->plan.problem = (struct tw_problem){
		.trainable = VALUES, .shards = SHARDS, .border = k->border, .samples = 1
	};
	k->plan.optimising = (struct tw_optimising){
		.method = o, .options = options, .how = *how, .batch = 1, .portion = 1
	};
	for (uint32_t s = 0; s <= SHARDS; s++)
		k->border[s] = VALUES / SHARDS * s;
	k->border[SHARDS] = VALUES;
	for (size_t p = 0; tw_staleness_all[p]; p++) /* one that keeps nothing */
		if (!tw_staleness_all[p]->arrays)
			k->plan.staleness = tw_staleness_all[p];
	return open_slices(k);
}

static enum tw_status measure(struct work *k, const struct tw_optimiser *o, json_t *cases,
			      struct tw_error *why)
{
	const uint32_t pairs = tw_optimiser_vectors(o, k->d.options) / 2;
	double time[ROUNDS], floor[ROUNDS];
	char name[60];

	for (uint32_t i = 0; i < pairs + 2; i++) /* until the history is full */
		if (iterate(k) != TW_OK)
			return tw_fail(why, TW_NO_MEMORY, "no memory for optimiser %s", o->name);
	for (int r = 0; r < ROUNDS; r++) {
		k->busy = 0;
		if (iterate(k) != TW_OK)
			return tw_fail(why, TW_NO_MEMORY, "no memory for optimiser %s", o->name);
		time[r] = k->busy;
		floor[r] = passes(k, pairs);
	}
	snprintf(name, sizeof name, "%s-iteration", o->name);
	return tw_bench_paired(cases, name, tw_median(time, ROUNDS), "s", tw_median(floor, ROUNDS),
			       tw_paired(time, floor, ROUNDS), NULL, why);
}

static enum tw_status optimisers(const struct tw_bench_how *how, json_t *cases,
				 struct tw_error *why)
{
	enum tw_status st = TW_OK;

	for (size_t i = 0; tw_optimiser_all[i] && st == TW_OK; i++) {
		struct work k = { .slices = 0 };

		tw_log_line(how->log, TW_DEBUG, "bench", "optimiser %s", tw_optimiser_all[i]->name);
		tw_arena_init(&k.arena, &tw_heap_system);
		st = prepare(&k, tw_optimiser_all[i], why);
		if (st == TW_NO_MEMORY)
			tw_fail(why, st, "no memory for optimiser %s", tw_optimiser_all[i]->name);
		if (st == TW_OK)
			st = measure(&k, tw_optimiser_all[i], cases, why);
		for (uint32_t s = 0; s < k.slices; s++)
			tw_slice_release(&k.slice[s]);
		tw_arena_release(&k.arena);
	}
	return st;
}

const struct tw_bench tw_bench_optimiser = {
	.name = "optimiser",
	.help = "one iteration of every optimiser on the shards",
	.run = optimisers,
};
