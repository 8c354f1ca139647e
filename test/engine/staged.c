/* SPDX-License-Identifier: Apache-2.0 */
/* staged.c - runs every stage as another machine would: it has its own elements and nothing else,
 * memory of exactly the length that the engine asked for, and garbage in all of it. */
#include "staged.h"
#include "base/heap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define FENCE  TW_ALIGN
#define POISON 0xff /* as a float it is no number */

const char *const staged_names[] = {
	[STAGED_RECOMPUTES] = "recomputes",
	[STAGED_STASHES] = "stashes",
	[STAGED_FUSES] = "fuses",
};

/* --- memory with fences ----------------------------------------------------------------------- */

struct room {
	uint8_t *at;
	size_t bytes;
};

static struct room room_of(size_t bytes)
{
	struct room r = { aligned_alloc(TW_ALIGN, FENCE + (bytes + FENCE + TW_ALIGN - 1) /
								  TW_ALIGN * TW_ALIGN),
			  bytes };

	assert_non_null(r.at);
	memset(r.at, 0xa5, FENCE);
	memset(r.at + FENCE, POISON, bytes);
	memset(r.at + FENCE + bytes, 0xa5, FENCE);
	return r;
}

static void *inside(const struct room *r)
{
	return r->at ? r->at + FENCE : NULL;
}

static void check_fence(const struct room *r)
{
	for (size_t k = 0; r->at && k < FENCE; k++)
		if (r->at[k] != 0xa5 || r->at[FENCE + r->bytes + k] != 0xa5)
			fail_msg("%zu bytes were not enough", r->bytes);
}

static void drop_room(struct room *r)
{
	check_fence(r);
	free(r->at);
	*r = (struct room){ 0 };
}

/* --- one stage -------------------------------------------------------------------------------- */

struct stage {
	uint32_t first, last;
	struct room scratch;
	size_t trainable, buffers; /* elements */
	struct room own[2];        /* a copy of them */
	struct tw_piece piece[3];
	size_t pieces;
	size_t stash_bytes;
};

static size_t at_cut(const struct tw_engine *e, uint32_t cut, bool buffers)
{
	return buffers ? e->cut[cut].buffers : e->cut[cut].trainable;
}

/* The elements of one section, in one piece or in two that meet inside a tensor. */
static void copy_section(struct stage *s, const struct tw_engine *e, const float *w, bool buffers)
{
	const size_t from = at_cut(e, s->first, buffers), n = at_cut(e, s->last, buffers) - from;
	const size_t half = buffers ? 0 : n / 2;
	float *own;

	if (!n)
		return;
	s->own[buffers] = room_of(n * sizeof(float));
	own = inside(&s->own[buffers]);
	memcpy(own, w + from, n * sizeof *own);
	if (half)
		s->piece[s->pieces++] = (struct tw_piece){ own, from, half };
	s->piece[s->pieces++] = (struct tw_piece){ own + half, from + half, n - half };
}

static struct stage stage_of(const struct staged *all, uint32_t k, const float *w, uint32_t count)
{
	const struct tw_engine *e = all->e;
	struct stage s = { .first = all->cut[k], .last = all->cut[k + 1] };
	struct tw_needs needs = { 0 };

	assert_int_equal(e->class->needs(e, s.first, s.last, count, &needs), TW_OK);
	s.scratch = room_of(needs.scratch);
	s.stash_bytes = needs.stash;
	s.trainable = at_cut(e, s.last, false) - at_cut(e, s.first, false);
	s.buffers = at_cut(e, s.last, true) - at_cut(e, s.first, true);
	copy_section(&s, e, w, false);
	copy_section(&s, e, w, true);
	return s;
}

static void drop_stage(struct stage *s)
{
	drop_room(&s->scratch);
	drop_room(&s->own[0]);
	drop_room(&s->own[1]);
}

static void run_stage(const struct staged *all, struct stage *s, uint64_t from, uint32_t count,
		      const struct tw_pass *io, float *change, struct tw_score *score)
{
	const struct tw_inputs in = {
		.from = from, .count = count, .piece = s->piece, .pieces = s->pieces
	};
	struct tw_pass pass = *io;

	pass.first = s->first;
	pass.last = s->last;
	memset(inside(&s->scratch), POISON, s->scratch.bytes); /* nothing stays from before */
	assert_int_equal(tw_engine_run(all->e, inside(&s->scratch), &in, &pass, change, score),
			 TW_OK);
	check_fence(&s->scratch);
	check_fence(&s->own[0]);
	check_fence(&s->own[1]);
}

/* --- batches ---------------------------------------------------------------------------------- */

/* What one batch has between two stages, and the stage's stash of it. */
struct flight {
	struct room value[STAGES_MAX + 1], gradient[STAGES_MAX + 1], stash[STAGES_MAX];
};

static struct room crossing(const struct staged *s, uint32_t k, uint32_t count, bool back)
{
	if (k == 0 || k == s->stages)
		return (struct room){ 0 };
	return room_of(tw_model_cut_floats(&s->e->cut[s->cut[k]], count, back) * sizeof(float));
}

static bool is_both(const struct staged *s, uint32_t k)
{
	return s->way == STAGED_FUSES && k + 1 == s->stages;
}

static void go_forward(const struct staged *s, struct stage *stage, struct flight *f, uint64_t from,
		       uint32_t count, struct tw_score *score)
{
	for (uint32_t k = 0; k < s->stages; k++) {
		struct tw_score one = { -1, -1, 1 };

		f->value[k + 1] = crossing(s, k + 1, count, false);
		if (s->way != STAGED_RECOMPUTES)
			f->stash[k] = room_of(stage[k].stash_bytes);
		if (is_both(s, k))
			return;
		run_stage(s, &stage[k], from, count,
			  &(struct tw_pass){ .kind = TW_PASS_FORWARD,
					     .x = inside(&f->value[k]),
					     .stash = inside(&f->stash[k]),
					     .y = inside(&f->value[k + 1]) },
			  NULL, &one);
		if (k + 1 == s->stages)
			*score = one;
		else
			assert_true(one.loss == 0 && one.correct == 0 && one.samples == 0);
	}
}

/* A stash may be moved: so it is. */
static void move_stash(struct room *r)
{
	struct room moved;

	if (!r->at)
		return;
	moved = room_of(r->bytes);
	memcpy(inside(&moved), inside(r), r->bytes);
	drop_room(r);
	*r = moved;
}

/* A stage's change becomes part of the whole vector. */
static void put_change(const struct staged *s, const struct stage *stage, const float *change,
		       float *g)
{
	const struct tw_pass pass = { .first = stage->first, .last = stage->last };

	for (int section = 0; section < 2; section++) {
		const size_t from = at_cut(s->e, stage->first, section);

		for (size_t i = from; i < at_cut(s->e, stage->last, section); i++)
			g[i] = change[tw_pass_place(s->e, &pass, i)];
	}
}

static void go_back(const struct staged *s, struct stage *stage, struct flight *f, uint64_t from,
		    uint32_t count, float *g, struct tw_score *score)
{
	for (uint32_t k = s->stages; k-- > 0;) {
		struct room change =
			room_of((stage[k].trainable + stage[k].buffers) * sizeof(float));
		struct tw_score one = { -1, -1, 1 };

		f->gradient[k] = crossing(s, k, count, true);
		move_stash(&f->stash[k]);
		run_stage(s, &stage[k], from, count,
			  &(struct tw_pass){ .kind = is_both(s, k) ? TW_PASS_GRADIENT
								   : TW_PASS_BACKWARD,
					     .x = inside(&f->value[k]),
					     .dy = inside(&f->gradient[k + 1]),
					     .stash = inside(&f->stash[k]),
					     .dx = inside(&f->gradient[k]) },
			  inside(&change), &one);
		if (is_both(s, k))
			*score = one;
		else
			assert_true(one.loss == 0 && one.correct == 0 && one.samples == 0);
		put_change(s, &stage[k], inside(&change), g);
		drop_room(&change);
	}
}

static void land(const struct staged *s, struct flight *f)
{
	for (uint32_t k = 0; k <= s->stages; k++) {
		drop_room(&f->value[k]);
		drop_room(&f->gradient[k]);
		if (k < s->stages)
			drop_room(&f->stash[k]);
	}
}

void staged_gradients(const struct staged *s, const float *const *w, uint64_t from, uint32_t count,
		      uint32_t micros, float *g, struct tw_score *score)
{
	const size_t all = s->e->trainable + s->e->buffers;
	struct flight flight[MICROS_MAX] = { 0 };
	struct stage stage[STAGES_MAX];

	assert_true(s->stages <= STAGES_MAX && micros <= MICROS_MAX);
	for (uint32_t k = 0; k < s->stages; k++)
		stage[k] = stage_of(s, k, w[k], count);
	memset(g, POISON, micros * all * sizeof *g);
	for (uint32_t m = 0; m < micros; m++)
		go_forward(s, stage, &flight[m], from + m * count, count, &score[m]);
	for (uint32_t m = 0; m < micros; m++) {
		go_back(s, stage, &flight[m], from + m * count, count, g + m * all, &score[m]);
		land(s, &flight[m]);
	}
	for (uint32_t k = 0; k < s->stages; k++)
		drop_stage(&stage[k]);
}

struct tw_score staged_score(const struct staged *s, const float *w, uint64_t from, uint32_t count,
			     float *prediction)
{
	struct tw_score score = { 0 };
	struct room x = { 0 };

	for (uint32_t k = 0; k < s->stages; k++) {
		struct stage stage = stage_of(s, k, w, 1);
		struct room y = crossing(s, k + 1, count, false);
		const bool last = k + 1 == s->stages;

		run_stage(s, &stage, from, count,
			  &(struct tw_pass){ .kind = TW_PASS_EVALUATE,
					     .x = inside(&x),
					     .y = last ? prediction : inside(&y) },
			  NULL, &score);
		if (!last)
			assert_true(score.samples == 0);
		drop_room(&x);
		x = y;
		drop_stage(&stage);
	}
	drop_room(&x);
	return score;
}

/* --- what they are compared with -------------------------------------------------------------- */

struct staged staged_whole(const struct tw_engine *e, enum staged_way way)
{
	return (struct staged){
		.e = e, .cut = { 0, (uint32_t)e->cuts - 1 }, .stages = 1, .way = way
	};
}

struct staged staged_once(const struct tw_engine *e, uint32_t k, enum staged_way way)
{
	return (struct staged){
		.e = e, .cut = { 0, k, (uint32_t)e->cuts - 1 }, .stages = 2, .way = way
	};
}

struct tw_score fused_gradient(const struct tw_engine *e, const float *w, uint64_t from,
			       uint32_t count, float *g)
{
	const struct tw_piece piece = { .at = w, .n = e->trainable + e->buffers };
	const struct tw_inputs in = { .from = from, .count = count, .piece = &piece, .pieces = 1 };
	struct tw_score score = { 0 };
	struct room scratch = room_of(e->scratch_bytes);

	assert_int_equal(e->class->gradient(e, inside(&scratch), &in, g, &score), TW_OK);
	drop_room(&scratch);
	return score;
}

void same_floats(const float *a, const float *b, size_t n, const char *format, ...)
{
	char what[200];
	va_list list;

	va_start(list, format);
	vsnprintf(what, sizeof what, format, list);
	va_end(list);
	for (size_t i = 0; i < n; i++)
		if (memcmp(&a[i], &b[i], sizeof a[i]))
			fail_msg("%s: element %zu of %zu is %.9g instead of %.9g", what, i, n,
				 (double)b[i], (double)a[i]);
}

void same_score(struct tw_score a, struct tw_score b, const char *what)
{
	if (a.loss != b.loss || a.correct != b.correct || a.samples != b.samples)
		fail_msg("%s: loss %.17g correct %g of %llu instead of %.17g, %g of %llu", what,
			 b.loss, b.correct, (unsigned long long)b.samples, a.loss, a.correct,
			 (unsigned long long)a.samples);
}

float *some_parameters(const struct tw_engine *e)
{
	const size_t n = e->trainable + e->buffers;
	float *w = aligned_alloc(TW_ALIGN, (n + 16) / 16 * TW_ALIGN);

	assert_non_null(w);
	assert_int_equal(e->class->init(e, 0, n, w), TW_OK);
	for (size_t i = 0; i < n; i++)
		w[i] += 0.001f * (float)((int)(i * 7 % 13) - 6) + (i >= e->trainable ? 0.5f : 0);
	return w;
}
