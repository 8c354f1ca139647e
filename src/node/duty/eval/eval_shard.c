/* SPDX-License-Identifier: Apache-2.0 */
/* eval_shard.c - the shard's side of an evaluation: it keeps views, and tells the master what is in
 * them.  See (4) and (10) of README.md. */
#include "node/duty/eval/eval.h"
#include "base/grow.h"
#include "node/kernel/duty.h"
#include "node/shard/shard.h"

#include <stddef.h>
#include <xxhash.h>

enum pin_state {
	PIN_NONE,
	PIN_AWAITED, /* round or samples of `want` are not there yet */
	PIN_KEPT,
};

/* A view that is kept for an evaluation, or will be. */
struct shard_pin {
	enum pin_state state;
	struct tw_body_pin want; /* as the master said it */
	struct tw_body_pin has;  /* KEPT: what the view has */
	struct tw_block *view;   /* KEPT: a reference; else NULL */
};

/* All of them, in the order of their numbers; the first is of the evaluation under way. */
struct eval_shard {
	struct shard_pin *at;
	size_t count, room;
};

/* What is in the parameters now. */
static struct tw_body_pin in_view(const struct shard *s, uint64_t number, uint32_t what)
{
	const struct tw_tally *t = &s->slice.tally;

	return (struct tw_body_pin){ .pin = number,
				     .what = what,
				     .round = s->slice.round,
				     .samples = t->samples,
				     .steps = t->steps,
				     .updates = t->updates,
				     .staleness_sum = t->staleness_sum,
				     .staleness_count = t->staleness_count,
				     .rate = tw_slice_rate(&s->slice) };
}

static void tell_pin(struct shard *s, struct tw_context *ctx, const struct tw_body_pin *what)
{
	struct tw_msg *m = tw_shard_to_master(s, ctx, TW_PIN);

	if (!m)
		return;
	m->h.flags = TW_FLAG_FREE;
	m->b.pin = *what;
	tw_send(ctx, m);
}

static struct shard_pin *find(const struct shard *s, uint64_t pin)
{
	for (size_t k = 0; k < s->eval->count; k++)
		if (s->eval->at[k].want.pin == pin)
			return &s->eval->at[k];
	return NULL;
}

struct tw_block *tw_eval_shard_view(const struct shard *s, uint64_t pin)
{
	const struct shard_pin *p = find(s, pin);

	return p && p->state == PIN_KEPT ? p->view : NULL;
}

/* The run is over, and what was applied after this view does not count. */
enum tw_status tw_eval_shard_deliver(struct shard *s, uint64_t pin)
{
	struct tw_block *view = pin ? tw_eval_shard_view(s, pin) : NULL;

	if (pin && s->slice.kept.of.pin == pin)
		return tw_slice_take_kept(&s->slice);
	if (view && view != s->slice.w)
		tw_slice_replace(&s->slice, tw_block_keep(view));
	return TW_OK;
}

struct tw_block *tw_eval_shard_first_view(const struct shard *s)
{
	return s->eval->count ? s->eval->at[0].view : NULL;
}

void tw_eval_shard_replace(struct shard *s, struct tw_block *mean)
{
	if (!tw_eval_shard_first_view(s)) { /* nobody evaluates it any more */
		tw_block_drop(mean);
		return;
	}
	tw_block_drop(s->eval->at[0].view);
	s->eval->at[0].view = mean;
}

/* Those up to this number go, and whatever another master has asked for. */
static void release(struct shard *s, uint64_t pin)
{
	size_t left = 0;

	for (size_t k = 0; k < s->eval->count; k++) {
		struct shard_pin *p = &s->eval->at[k];

		if (p->want.pin > pin && p->want.pin >> 32 == pin >> 32)
			s->eval->at[left++] = *p;
		else
			tw_block_drop(p->view);
	}
	s->eval->count = left;
}

void tw_eval_shard_forget(struct shard *s)
{
	for (size_t k = 0; k < s->eval->count; k++)
		tw_block_drop(s->eval->at[k].view);
	s->heap->put(s->heap, s->eval->at);
	*s->eval = (struct eval_shard){ .at = NULL };
}

/* Keep it if the time has come; false: it has not. */
static bool keep_view(struct shard *s, struct tw_context *ctx, struct shard_pin *p)
{
	if (s->slice.round < p->want.round || s->slice.tally.samples < p->want.samples)
		return false;
	p->view = tw_slice_snapshot(&s->slice);
	if (!p->view) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory to pin a version");
		return false;
	}
	p->state = PIN_KEPT;
	p->has = in_view(s, p->want.pin, TW_PIN_KEEP);
	if (tw_shard_is_replica(s)) /* seeded, so that shards do not cancel each other out */
		p->has.digest = XXH3_64bits_withSeed(p->view->data, s->slice.n * sizeof(float),
						     s->index + 1);
	tell_pin(s, ctx, &p->has);
	return true;
}

static void keep_views(struct shard *s, struct tw_context *ctx)
{
	for (size_t k = 0; k < s->eval->count; k++) {
		struct shard_pin *p = &s->eval->at[k];

		if (p->state == PIN_AWAITED && !keep_view(s, ctx, p))
			return; /* those after it want more */
	}
}

static void keep(struct shard *s, struct tw_context *ctx, const struct tw_body_pin *b)
{
	struct shard_pin *p = find(s, b->pin);
	size_t k = s->eval->count;

	if (p && p->state == PIN_KEPT) { /* the answer was lost, or came too early */
		tell_pin(s, ctx, &p->has);
		return;
	}
	if (!p) {
		if (k && s->eval->at[0].want.pin >> 32 != b->pin >> 32)
			tw_eval_shard_forget(s); /* of a master before this one */
		k = s->eval->count;
		if (!TW_GROW(s->heap, s->eval->at, s->eval->room, k, k + 1)) {
			tw_give_up(ctx, TW_NO_MEMORY, "no memory to pin a version");
			return;
		}
		for (; k && s->eval->at[k - 1].want.pin > b->pin; k--)
			s->eval->at[k] = s->eval->at[k - 1];
		s->eval->count++;
		p = &s->eval->at[k];
	}
	*p = (struct shard_pin){
		.state = PIN_AWAITED,
		.want = { .pin = b->pin, .what = b->what, .round = b->round, .samples = b->samples }
	};
	keep_view(s, ctx, p);
}

/* (11): what is kept, and on request the vector itself. */
static void tell_kept(struct shard *s, struct tw_context *ctx, const struct tw_body_pin *b)
{
	const struct slice_kept *kept = &s->slice.kept;
	struct tw_body_pin now = { .pin = b->pin, .what = TW_PIN_BEST, .kept = kept->of };
	struct tw_msg *m;

	if (!b->round || !kept->view || !tw_kept_same(&kept->of, &b->kept)) {
		tell_pin(s, ctx, &now);
		return;
	}
	m = tw_shard_to_master(s, ctx, TW_PART);
	if (!m)
		return;
	m->h.flags = TW_FLAG_FREE;
	m->h.seq = kept->of.pin;
	m->b.part.round = s->slice.round;
	m->payload = tw_block_keep(kept->view);
	m->h.payload = (uint32_t)(s->slice.n * sizeof(float));
	tw_send(ctx, m);
}

/* (10) */
static void keep_best(struct shard *s, struct tw_context *ctx, const struct tw_body_pin *b)
{
	struct tw_block *view = tw_eval_shard_view(s, b->kept.pin);

	if (!b->kept.pin)
		tw_slice_keep(&s->slice, NULL, NULL);
	else if (view && !tw_kept_same(&s->slice.kept.of, &b->kept))
		tw_slice_keep(&s->slice, tw_block_keep(view), &b->kept);
	tell_kept(s, ctx, b);
}

static void hear_pin(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_pin *b = &m->b.pin;
	struct tw_body_pin now;

	switch (b->what) {
	case TW_PIN_COUNT:
		now = in_view(s, b->pin, TW_PIN_COUNT);
		tell_pin(s, ctx, &now);
		return;
	case TW_PIN_RELEASE:
		release(s, b->pin);
		return;
	case TW_PIN_KEEP:
		keep(s, ctx, b);
		return;
	case TW_PIN_BEST:
		keep_best(s, ctx, b);
		return;
	case TW_PIN_ASK:
		tell_kept(s, ctx, b);
		return;
	default:
		s->slice.tally.refused++;
	}
}

/* --- the duty -------------------------------------------------------------------------------- */

static void message(void *actor, struct tw_context *ctx, const struct tw_msg *m)
{
	hear_pin(actor, ctx, m);
}

static void updated(void *actor, struct tw_context *ctx)
{
	keep_views(actor, ctx);
}

const struct tw_duty tw_eval_shard = {
	.name = "eval",
	.bytes = sizeof(struct eval_shard),
	.place = offsetof(struct shard, eval),
	.hears = TW_HEARS(TW_PIN),
	.message = message,
	.updated = updated,
};
