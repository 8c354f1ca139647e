/* SPDX-License-Identifier: Apache-2.0 */
/* host_shard.c - a shard's side: how a range is taken and given up, and what is told of it.  The
 * numbers in brackets are those of README.md. */
#include "node/duty/host/host.h"
#include "node/duty/eval/eval.h"
#include "node/shard/shard.h"
#include "base/grow.h"
#include "vec/vec.h"

#include <stddef.h>
#include <string.h>

/* Copies that this replica gives when it has applied so many rounds (struct tw_body_give). */
struct host_shard {
	struct tw_body_give *at;
	uint32_t count;
	size_t room;
};

/* --- memory ------------------------------------------------------------------------------- */

/* Everything a hosted shard needs; TW_NO_MEMORY leaves what there is to tw_host_shard_let_go. */
static enum tw_status furnish(struct shard *s)
{
	const uint32_t all = tw_plan_senders(s->plan, s->index);
	enum tw_status st = tw_slice_init(&s->slice);

	if (st == TW_OK)
		st = tw_shard_workers_init(s);
	if (st == TW_OK)
		st = tw_clocks_init(&s->clocks, s->heap, all);
	if (st == TW_OK)
		st = tw_shard_readers_init(s);
	if (st == TW_OK)
		st = tw_bucket_init(s);
	return st == TW_OK ? tw_duties_open(&s->duties) : st;
}

void tw_host_shard_let_go(struct shard *s)
{
	tw_duties_close(&s->duties);
	tw_early_forget(&s->early, s->heap);
	tw_block_drop(s->committed.set);
	s->committed = (struct shard_committed){ .set = NULL };
	tw_shard_workers_release(s);
	tw_bucket_release(s);
	tw_clocks_release(&s->clocks, s->heap);
	tw_eval_shard_forget(s);
	tw_slice_release(&s->slice);
	s->queue = (struct shard_queue){ .first = 0 };
	tw_shard_readers_release(s);
	s->fence = (struct shard_fence){ .generation = s->fence.generation,
					 .term = s->fence.term,
					 .attempt = s->fence.attempt };
	s->hosted = false;
}

/* --- taking the range, from a cut or anew ------------------------------------------------- */

static void hosted(struct shard *s, struct tw_context *ctx, const struct tw_body_host *what,
		   uint32_t flags)
{
	struct tw_msg *m = tw_shard_to_master(s, ctx, TW_HOSTED);

	if (!m)
		return;
	m->h.flags = flags;
	m->b.host.shard = s->index;
	m->b.host.incarnation = what->incarnation;
	m->b.host.cut = flags ? what->cut : 0;
	m->b.host.attempt = what->attempt;
	tw_send(ctx, m);
}

/* From the part that came with HOST, or as the engine begins. */
static enum tw_status take_range(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	struct slice *p = &s->slice;
	enum tw_status st = furnish(s);

	if (st != TW_OK)
		return st;
	memset(tw_block_floats(p->w) + p->n, 0, (p->all - p->n) * sizeof(float));
	if (m->b.host.cut == 0) {
		st = ctx->engine->class->init(ctx->engine, p->from, p->n, tw_block_floats(p->w));
		if (st == TW_OK)
			tw_project(&p->plan->projection, tw_block_floats(p->w), p->trainable);
		return st;
	}
	return tw_slice_restore(p, tw_msg_payload(m), m->h.payload);
}

/* What it should be taken from cannot be used: the master hears of it, and says what follows. */
static void cannot_host(struct shard *s, struct tw_context *ctx, const struct tw_body_host *h,
			enum tw_status st)
{
	if (st == TW_NO_MEMORY) {
		tw_give_up(ctx, st, "no memory for shard %u", s->index);
		return;
	}
	tw_say(ctx, TW_ERROR, "shard %u cannot be restored from checkpoint %llu: %s", s->index,
	       (unsigned long long)h->cut, tw_status_name(st));
	hosted(s, ctx, h, TW_FLAG_REFUSED);
}

static void begin_hosting(struct shard *s, struct tw_context *ctx, const struct tw_body_host *h,
			  bool fresh)
{
	s->hosted = true;
	s->members.at_zero = fresh;
	s->slice.version.incarnation = h->incarnation;
	/* of rounds that all replicas apply, the master tells */
	s->slice.quiet = tw_shard_is_replica(s) && tw_shard_rounds(s);
	if (!h->attempt) /* else it is a copy of one that was told */
		tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_HOSTED,
						.shard = s->index,
						.life = h->incarnation,
						.version = s->slice.version.n,
						.hosted = { .cut = h->cut,
							    .from = s->slice.from,
							    .n = s->slice.n,
							    .w = tw_block_floats(s->slice.w) } });
	hosted(s, ctx, h, 0);
}

void tw_host_shard_host(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_host *h = &m->b.host;
	enum tw_status st;

	if (s->hosted && s->slice.version.incarnation >= h->incarnation) { /* sent again */
		if (s->slice.version.incarnation == h->incarnation && !h->unhost)
			hosted(s, ctx, h, 0);
		return;
	}
	if (h->cut && !h->unhost) { /* (7) */
		st = tw_slice_look(&s->slice, tw_msg_payload(m), m->h.payload, false);
		if (st != TW_OK) {
			cannot_host(s, ctx, h, st);
			return;
		}
	}
	tw_host_shard_let_go(s);
	if (h->unhost)
		return;
	s->fence.generation = m->h.view;
	s->members.live = h->live;
	if (h->attempt > s->fence.attempt)
		s->fence.attempt = h->attempt;
	st = take_range(s, ctx, m);
	if (st != TW_OK) {
		tw_host_shard_let_go(s); /* the engine has no such values */
		cannot_host(s, ctx, h, st);
		return;
	}
	begin_hosting(s, ctx, h, m->h.flags & TW_FLAG_FRESH);
}

/* --- replicas ----------------------------------------------------------------------------- */

static void give(struct shard *s, struct tw_context *ctx, const struct tw_body_give *b,
		 uint64_t generation)
{
	const struct tw_addr to = { b->node, TW_SERVER, 0 };
	struct tw_msg *out = tw_msg_to(ctx, to, TW_COPY);

	if (!out)
		return;
	out->h.view = generation;
	out->h.incarnation = (uint32_t)s->fence.term;
	out->h.shard = out->h.from = s->index;
	out->b.copy = (struct tw_body_copy){ .shard = s->index,
					     .incarnation = s->slice.version.incarnation,
					     .attempt = b->attempt,
					     .live = s->members.live };
	out->payload = tw_slice_pack(&s->slice);
	if (!out->payload) {
		ctx->world->msg_free(ctx, out);
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a copy of shard %u", s->index);
		return;
	}
	out->h.payload = (uint32_t)out->payload->bytes;
	tw_send(ctx, out);
}

void tw_host_shard_give(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	struct host_shard *g = s->host;

	/* a generation that is about to begin has not been told to anybody */
	if (!s->hosted || !tw_shard_is_replica(s) || m->h.view < s->fence.generation)
		return;
	if (m->b.give.round <= s->slice.round) {
		give(s, ctx, &m->b.give, m->h.view);
		return;
	}
	/* the COMMIT before it is on its way */
	if (!TW_GROW(s->heap, g->at, g->room, g->count, (size_t)g->count + 1)) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a copy of shard %u", s->index);
		return;
	}
	g->at[g->count++] = m->b.give;
}

void tw_host_shard_give_late(struct shard *s, struct tw_context *ctx)
{
	struct host_shard *g = s->host;
	uint32_t left = 0;

	for (uint32_t k = 0; k < g->count; k++)
		if (g->at[k].round <= s->slice.round)
			give(s, ctx, &g->at[k], s->fence.generation);
		else
			g->at[left++] = g->at[k];
	g->count = left;
}

void tw_host_shard_copy(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_copy *b = &m->b.copy;
	const struct tw_body_host what = { .shard = s->index,
					   .incarnation = b->incarnation,
					   .attempt = b->attempt };
	enum tw_status st;

	if (!tw_shard_is_replica(s) || b->shard != s->index || b->attempt <= s->fence.attempt)
		return;
	st = tw_slice_look(&s->slice, tw_msg_payload(m), m->h.payload, true); /* (7) */
	if (st == TW_OK) {
		tw_host_shard_let_go(s);
		s->fence.term = m->h.incarnation;
		s->fence.attempt = b->attempt;
		s->fence.generation = m->h.view;
		s->members.live = b->live;
		st = furnish(s);
	}
	if (st == TW_OK)
		st = tw_slice_restore(&s->slice, tw_msg_payload(m), m->h.payload);
	if (st == TW_OK) {
		begin_hosting(s, ctx, &what, false);
	} else if (st == TW_NO_MEMORY) {
		tw_host_shard_let_go(s);
		tw_give_up(ctx, st, "no memory for shard %u", s->index);
	} else {
		s->slice.tally.refused++;
		tw_say(ctx, TW_ERROR, "the copy of shard %u is malformed", s->index);
	}
}

/* --- what the master asks for ------------------------------------------------------------- */

/* What is applied, and what is collected and will be; and what is, or will be, applied twice. */
static enum tw_status in_hand(const struct shard *s, struct tw_spans *out, struct tw_spans *twice)
{
	enum tw_status st = tw_spans_copy(out, &s->slice.history.applied);

	if (st == TW_OK)
		st = tw_spans_copy(twice, &s->slice.history.twice);

	for (uint32_t k = 0; k < s->bucket.count; k++)
		for (uint32_t r = 0; r < s->bucket.at[k]->push.ranges && st == TW_OK; r++) {
			const struct tw_range *range = &s->bucket.at[k]->push.range[r];

			if (tw_spans_within(out, range->from, range->from + range->count))
				st = tw_spans_add(twice, range->from, range->from + range->count,
						  NULL);
			if (st == TW_OK)
				st = tw_spans_add(out, range->from, range->from + range->count,
						  NULL);
		}
	return st;
}

static void send_state(struct shard *s, struct tw_context *ctx, uint64_t asked, uint32_t flags,
		       const struct tw_spans *hand, const struct tw_spans *twice)
{
	const size_t a = hand->count, t = twice->count;
	struct tw_msg *m = tw_shard_to_master(s, ctx, TW_STATE);
	struct tw_span *tail;

	if (!m)
		return;
	m->h.flags = flags;
	m->b.state =
		(struct tw_body_state){ .version = s->slice.version,
					.round = tw_plan_judges(s->plan) ? s->committed.verdicts
									 : s->slice.round,
					.contributions = s->slice.history.contributions,
					.asked = asked,
					.spans = (uint32_t)a,
					.twice = (uint32_t)t,
					.members = s->committed.count };
	tail = tw_msg_tail(ctx, m, (a + t + s->committed.count) * sizeof *tail);
	if (!tail)
		return;
	tw_spans_write(hand, tail);
	tw_spans_write(twice, tail + a);
	if (s->committed.count)
		memcpy(tail + a + t, s->committed.set->data, s->committed.count * sizeof *tail);
	m->payload = tw_block_new(ctx->heap, sizeof s->slice.tally);
	if (!m->payload) {
		ctx->world->msg_free(ctx, m);
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a shard's state");
		return;
	}
	memcpy(m->payload->data, &s->slice.tally, sizeof s->slice.tally);
	m->h.payload = sizeof s->slice.tally;
	tw_send(ctx, m);
}

void tw_host_shard_tell(struct shard *s, struct tw_context *ctx, uint64_t asked, uint32_t flags)
{
	struct tw_spans hand, twice;

	if (!s->hosted)
		return;
	tw_spans_init(&hand, s->heap);
	tw_spans_init(&twice, s->heap);
	if (in_hand(s, &hand, &twice) == TW_OK)
		send_state(s, ctx, asked, flags, &hand, &twice);
	else
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a shard's state");
	tw_spans_release(&hand);
	tw_spans_release(&twice);
}

/* --- the duty ------------------------------------------------------------------------------- */

static void close_gives(void *actor)
{
	struct shard *s = actor;

	s->heap->put(s->heap, s->host->at);
	*s->host = (struct host_shard){ .at = NULL };
}

/* Those of an earlier generation are asked for again. */
static void begin(void *actor, struct tw_context *ctx)
{
	const struct shard *s = actor;

	(void)ctx;
	s->host->count = 0;
}

const struct tw_duty tw_host_shard = {
	.name = "host",
	.bytes = sizeof(struct host_shard),
	.place = offsetof(struct shard, host),
	.close = close_gives,
	.begin = begin,
};
