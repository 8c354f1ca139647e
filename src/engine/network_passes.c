/* SPDX-License-Identifier: Apache-2.0 */
/* network_passes.c - one stage of a network: forward, backward, both, or evaluated. */
#include "engine/network_inner.h"

#include "engine/order.h"

#include <string.h>

static size_t rounded(size_t floats)
{
	return (floats + 15) / 16 * 16;
}

/* What crosses a cut with `all` samples lies at `base`: where the values of sample `done` begin.
 * Those that do not come back have no place among gradients. */
static void point(const struct tw_model_cut *cut, float *base, uint32_t all, uint32_t done,
		  bool back, float **to)
{
	for (uint32_t v = 0; v < cut->values; v++) {
		const size_t floats = cut->value[v].floats;

		to[v] = NULL;
		if (!base || (back && !cut->value[v].back))
			continue;
		to[v] = base + done * floats;
		base += rounded(all * floats);
	}
}

static void clear_gaps(const struct tw_model_cut *cut, float *base, uint32_t count, bool back)
{
	for (uint32_t v = 0; base && v < cut->values; v++) {
		const size_t floats = (size_t)count * cut->value[v].floats;

		if (back && !cut->value[v].back)
			continue;
		memset(base + floats, 0, (rounded(floats) - floats) * sizeof *base);
		base += rounded(floats);
	}
}

static bool comes_back(const struct tw_model_cut *cut)
{
	return tw_model_cut_floats(cut, 1, true) > 0;
}

/* Is everything there that the pass reads and writes? */
static bool is_whole(const struct network *n, const struct part *p, const struct tw_pass *pass,
		     const float *change)
{
	const struct tw_model_cut *in = &n->cut[p->first], *out = &n->cut[p->last];
	const bool begins = tw_part_begins(p), ends = tw_part_ends(n, p);
	const bool back = pass->kind == TW_PASS_BACKWARD || pass->kind == TW_PASS_GRADIENT;

	if (!begins && !pass->x)
		return false;
	if (!back)
		return ends || pass->y;
	if (pass->kind == TW_PASS_GRADIENT && !ends)
		return false;
	if (!ends && comes_back(out) && !pass->dy)
		return false;
	return (change || !p->elements) && (begins || !comes_back(in) || pass->dx);
}

static enum tw_program_way way_of(const struct tw_pass *pass)
{
	if (pass->kind == TW_PASS_FORWARD)
		return pass->stash ? TW_WAY_STASHING : TW_WAY_FORWARD;
	return pass->kind == TW_PASS_BACKWARD && pass->stash ? TW_WAY_STASHED : TW_WAY_ALL;
}

/* Pointers to what crosses the borders of the part, from sample `done` on. */
static void bind(const struct network *n, const struct part *p, const struct tw_pass *pass,
		 uint32_t all, uint32_t done, struct tw_program_run *r)
{
	const struct tw_model_cut *in = &n->cut[p->first], *out = &n->cut[p->last];

	if (!tw_part_begins(p)) {
		point(in, (float *)(uintptr_t)pass->x, all, done, false, (float **)r->in);
		point(in, pass->dx, all, done, true, r->in_gradient);
	}
	if (tw_part_ends(n, p)) {
		r->prediction = pass->y ? pass->y + done * n->outputs : NULL;
		return;
	}
	point(out, pass->y, all, done, false, r->out);
	point(out, (float *)(uintptr_t)pass->dy, all, done, true, (float **)r->out_gradient);
}

static enum tw_status train(const struct network *n, struct part *p, struct bench *b,
			    const struct tw_inputs *in, const struct tw_pass *pass, float *change,
			    struct tw_score *score)
{
	double loss = 0, correct = 0;
	struct tw_program_run r = {
		.way = way_of(pass),
		.gradient = pass->kind == TW_PASS_FORWARD ? NULL : change,
		.batch = { .position = in->from, .loss = &loss, .correct = &correct },
		.stash = pass->stash,
		.cancel = in->cancel,
	};
	struct made *m;
	enum tw_status st;

	if (!tw_order_is_batch(n->e.samples, in) || in->count > n->facts.most)
		return TW_BAD_INPUT;
	st = tw_part_program(n, p, TW_PROGRAM_PASSES, in->count, &m);
	if (st != TW_OK)
		return st;
	st = tw_network_fill(n, p, in, pass->kind == TW_PASS_BACKWARD, b);
	if (st != TW_OK)
		return st;
	bind(n, p, pass, in->count, 0, &r);
	st = tw_network_execute(n, m, b, &r);
	if (st == TW_OK && tw_part_ends(n, p) && pass->kind != TW_PASS_BACKWARD)
		*score = (struct tw_score){ loss, n->judged ? correct : -1, in->count };
	return st;
}

/* In the portions of an evaluation of everything, so that its bits are the same. */
static enum tw_status evaluate(const struct network *n, struct part *p, struct bench *b,
			       const struct tw_inputs *in, const struct tw_pass *pass,
			       struct tw_score *score)
{
	struct tw_score sum = { .samples = in->count };
	uint64_t from = in->from;
	const struct tw_samples *set = tw_network_scored(n, &from);
	enum tw_status st = TW_OK;

	if (in->count == 0 || from >= set->count || in->count > set->count - from)
		return TW_BAD_INPUT;
	for (uint32_t done = 0; st == TW_OK && done < in->count;) {
		const uint32_t left = in->count - done;
		const uint32_t count = left < n->portion ? left : n->portion;
		double loss = 0, correct = 0;
		struct tw_program_run r = {
			.batch = { .position = from + done, .loss = &loss, .correct = &correct },
			.cancel = in->cancel,
		};
		struct made *m;

		st = tw_part_program(n, p, TW_PROGRAM_EVALUATE, count, &m);
		if (st != TW_OK)
			return st;
		st = tw_network_fill_test(n, p, set, from + done, count, b);
		if (st != TW_OK)
			return st;
		bind(n, p, pass, in->count, done, &r);
		st = tw_network_execute(n, m, b, &r);
		sum.loss += loss;
		sum.correct = correct < 0 || !n->judged ? -1 : sum.correct + correct;
		done += count;
	}
	if (st == TW_OK && tw_part_ends(n, p))
		*score = sum;
	return st;
}

enum tw_status tw_network_pass(const struct tw_engine *e, void *scratch, const struct tw_inputs *in,
			       const struct tw_pass *pass, float *change, struct tw_score *score)
{
	const struct network *n = (const struct network *)e;
	const uint32_t last = pass->last ? pass->last : (uint32_t)e->cuts - 1;
	struct tw_score sum = { 0 };
	struct bench b;
	struct part *p;
	enum tw_status st;

	if (pass->kind == TW_PASS_GRADIENT && tw_pass_is_whole(e, pass))
		return e->class->gradient(e, scratch, in, change, score);
	st = tw_part_of(n, pass->first, last, &p);
	if (st != TW_OK)
		return st;
	if (!is_whole(n, p, pass, change))
		return TW_BAD_INPUT;
	tw_bench_carve(n, p, (uintptr_t)scratch, &b);
	tw_bench_tensors(n, p, in, &b);
	if (pass->kind == TW_PASS_EVALUATE)
		st = evaluate(n, p, &b, in, pass, &sum);
	else
		st = train(n, p, &b, in, pass, change, &sum);
	if (st != TW_OK)
		return st;
	if (pass->kind == TW_PASS_FORWARD || pass->kind == TW_PASS_EVALUATE)
		clear_gaps(&n->cut[last], pass->y, in->count, false);
	else
		clear_gaps(&n->cut[pass->first], pass->dx, in->count, true);
	*score = sum;
	return TW_OK;
}

enum tw_status tw_network_needs(const struct tw_engine *e, uint32_t first, uint32_t last,
				uint32_t count, struct tw_needs *out)
{
	const struct network *n = (const struct network *)e;
	struct bench unused;
	struct made *m;
	struct part *p;
	enum tw_status st;

	if (count == 0 || count > n->facts.most)
		return TW_BAD_INPUT;
	st = tw_part_of(n, first, last ? last : (uint32_t)e->cuts - 1, &p);
	if (st == TW_OK)
		st = tw_part_program(n, p, TW_PROGRAM_PASSES, count, &m);
	if (st != TW_OK)
		return st;
	out->scratch = tw_bench_carve(n, p, 0, &unused);
	if (tw_part_begins(p) && tw_part_ends(n, p) && out->scratch < e->scratch_bytes)
		out->scratch = e->scratch_bytes; /* of the gradient of everything */
	out->stash = tw_program_stash_bytes(m->program);
	return TW_OK;
}
