/* SPDX-License-Identifier: Apache-2.0 */
/* shard_push.c - what comes of a push: taken, staged, refused or dropped, and answered.
 *
 * Of the rules of a shard (the list is in shard.c) this file sees to (1) a push on another
 * incarnation, (3) that a contribution is taken once and in order, and (4) that it is checked
 * before. */
#include "node/shard/shard.h"
#include "vec/vec.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* --- checks --------------------------------------------------------------------------------- */

/* A share of a batch: far from where dividing by it, or adding it up, leaves the finite. */
bool tw_shard_is_share(float x)
{
	return x >= 1e-12f && x <= 1e12f;
}

bool tw_shard_is_account(const struct tw_account *a)
{
	return a->drift >= 0.0f && a->drift <= FLT_MAX && a->residual >= 0.0f &&
	       a->residual <= FLT_MAX && a->own_steps <= a->steps && a->skipped <= a->steps &&
	       a->steps <= a->samples;
}

bool tw_shard_plausible(const struct shard *s, const struct tw_body_push *p)
{
	const uint64_t positions = s->plan->dealing.positions;
	uint64_t samples = 0;

	if (p->ranges > TW_RANGES || !tw_shard_is_share(p->account.weight) ||
	    !tw_shard_is_share(p->account.divide) || !tw_shard_is_account(&p->account))
		return false;
	if (!(p->rate >= 0.0f && p->rate <= 2 * s->slice.rate_max) || p->lanes > s->members.lanes)
		return false;
	for (uint32_t k = 0; k < p->ranges; k++) {
		if (p->range[k].from > positions || !p->range[k].count ||
		    p->range[k].count > positions - p->range[k].from)
			return false;
		samples += p->range[k].count;
	}
	return p->account.samples == samples;
}

uint64_t tw_shard_staleness(const struct shard *s, const struct tw_body_push *p)
{
	const uint64_t since = s->slice.version.n - p->base.n;

	if (tw_shard_is_loose(s) && !tw_plan_spreads(s->plan))
		return s->slice.history.contributions - s->readers.counted;
	return since > p->own ? since - p->own : 0;
}

/* --- what is noted -------------------------------------------------------------------------- */

void tw_shard_push_note_refused(struct shard *s, struct tw_context *ctx,
				const struct contribution *c)
{
	const bool fenced = c->push.base.incarnation != s->slice.version.incarnation;

	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_REFUSED,
					.shard = s->index,
					.slot = tw_shard_slot(s, c->slot),
					.incarnation = c->incarnation,
					.seq = c->seq,
					.refused.fenced = fenced });
}

/* What a message says of a contribution, without its vector. */
struct contribution tw_shard_push_said(uint32_t slot, const struct tw_msg *m)
{
	return (struct contribution){
		.slot = slot, .incarnation = m->h.incarnation, .seq = m->h.seq, .push = m->b.push
	};
}

void tw_shard_note_drop(struct shard *s, struct tw_context *ctx, uint32_t slot,
			const struct tw_body_push *push)
{
	s->slice.tally.dropped_pushes++;
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_DROP,
					.shard = s->index,
					.slot = tw_shard_slot(s, slot),
					.seq = tw_shard_worker(s, slot)->seq,
					.from = push->range[0].from,
					.count = push->account.samples });
}

/* --- replies -------------------------------------------------------------------------------- */

static void release_held(struct shard *s, struct tw_context *ctx)
{
	if (s->plan->gate->traits & TW_GATE_HOLDS)
		tw_shard_release(s, ctx);
}

/* The answer to a push that was taken: now, when the gate allows, or an acknowledgement only. */
static void reply(struct shard *s, struct tw_context *ctx, uint32_t slot, uint32_t flags,
		  const struct tw_body_push *p)
{
	uint32_t whom;

	if (!(flags & TW_FLAG_ANSWER)) {
		tw_shard_acknowledge(s, ctx, slot, 0);
	} else if (s->bucket.sum && p->base.n == s->slice.version.n && !s->slice.view.moved) {
		tw_shard_answer_unchanged(s, ctx, slot, p->number); /* it computed on that */
	} else if (tw_shard_may_read(s, slot, p->round + 1, &whom)) {
		tw_shard_unpark(s, slot);
		tw_shard_answer(s, ctx, slot, p->number, 0);
	} else {
		tw_shard_park(s, ctx, slot, p->number, p->round + 1);
		tw_shard_acknowledge(s, ctx, slot, TW_FLAG_HELD);
	}
}

/* Does it bring something for this shard? */
bool tw_shard_push_carries(const struct shard *s, const struct tw_body_push *p)
{
	return !tw_shard_rounds(s) || tw_plan_carries(s->plan, s->index, p->round);
}

static void answer_refused(struct shard *s, struct tw_context *ctx, uint32_t slot, uint32_t flags,
			   uint64_t number)
{
	if (flags & TW_FLAG_ANSWER)
		tw_shard_answer(s, ctx, slot, number, TW_FLAG_REFUSED);
	else
		tw_shard_acknowledge(s, ctx, slot, TW_FLAG_REFUSED);
}

/* `late`: its samples are to be dealt again, if no other shard applies it. */
static void refuse(struct shard *s, struct tw_context *ctx, uint32_t slot, const struct tw_msg *m,
		   bool late)
{
	const struct contribution c = tw_shard_push_said(slot, m);

	tw_shard_worker_close(tw_shard_worker(s, slot), m->b.push.link, m->h.seq, false);
	if (late)
		tw_shard_worker_was_late(tw_shard_worker(s, slot));
	tw_shard_clock(s, slot, m->b.push.clock); /* closed here, too: others must not wait */
	tw_shard_push_note_refused(s, ctx, &c);
	answer_refused(s, ctx, slot, m->h.flags, m->b.push.number);
	release_held(s, ctx);
}

void tw_shard_push_refuse(struct shard *s, struct tw_context *ctx, uint32_t slot,
			  const struct tw_msg *m)
{
	refuse(s, ctx, slot, m, false);
}

void tw_shard_push_refuse_late(struct shard *s, struct tw_context *ctx, uint32_t slot,
			       const struct tw_msg *m)
{
	refuse(s, ctx, slot, m, true);
}

void tw_shard_push_reject(struct shard *s, struct tw_context *ctx, uint32_t slot,
			  const struct tw_msg *m)
{
	s->slice.tally.refused++;
	refuse(s, ctx, slot, m, false);
}

/* --- not taken ------------------------------------------------------------------------------ */

/* Seen, foreign, malformed, out of order or late: answered as it deserves, and not taken. */
static bool turned_down(struct shard *s, struct tw_context *ctx, uint32_t slot,
			const struct tw_msg *m)
{
	const struct shard_worker *g = tw_shard_worker(s, slot);
	uint32_t open;

	if (m->b.push.link <= g->link) { /* (3): seen */
		const bool answers =
			(m->h.flags & TW_FLAG_ANSWER) && !tw_shard_outdated(g, m->b.push.number);

		if (s->taker->seen)
			s->taker->seen(s, ctx, slot, m);
		if (s->taker->acknowledges || !answers)
			tw_shard_acknowledge(s, ctx, slot, 0);
		if (answers)
			reply(s, ctx, slot, m->h.flags, &m->b.push);
		return true;
	}
	open = s->taker->open ? s->taker->open(s, slot) : 0;
	if (m->b.push.link <= g->link + open) /* (3): it waits for its verdict */
		return true;
	if (m->b.push.base.incarnation != s->slice.version.incarnation) { /* (1) */
		s->slice.tally.fenced++;
		s->taker->fenced(s, ctx, slot, m);
		return true;
	}
	if (m->b.push.link != g->link + open + 1) /* (3): a gap */
		return true;
	return s->taker->is_late && s->taker->is_late(s, ctx, slot, m);
}

/* Its numbers were refused again.  Where those of others are not, it is not the training that goes
 * astray but this worker: the master is told, each time until it listens. */
void tw_shard_push_strike(struct shard *s, struct tw_context *ctx, uint32_t slot, uint64_t link)
{
	struct shard_worker *g = tw_shard_worker(s, slot);
	const uint64_t others = s->slice.history.contributions - g->applied;
	struct tw_msg *m;

	if (g->strikes.count == 0)
		g->strikes.others = others;
	tw_shard_worker_strike(s, g, g->strikes.count + 1);
	g->strikes.link = link;
	/* a run that diverges makes everybody's numbers bad: then nobody is to blame */
	if (g->strikes.count < TW_STRIKES || others - g->strikes.others < g->strikes.count ||
	    s->members.failing > 1)
		return;
	m = tw_shard_to_master(s, ctx, TW_REFUSE);
	if (!m)
		return;
	m->h.incarnation = g->incarnation;
	m->b.refuse = (struct tw_body_refuse){ TW_REFUSED_NUMBERS, tw_shard_slot(s, slot) };
	tw_send(ctx, m);
}

/* --- what a push brings --------------------------------------------------------------------- */

/* The push of a sparse codec as it came: checked, not decoded. */
static enum tw_status keep_sparse(struct shard *s, const struct tw_msg *m, struct contribution *c)
{
	const struct tw_traffic *t = &s->plan->traffic;
	const size_t buffers = s->slice.n - s->slice.trainable, tail = buffers * sizeof(float);
	const size_t len = m->h.payload - tail;
	const uint8_t *bytes = tw_msg_payload(m);

	if (t->up->check(t->up_options, bytes, len, s->slice.trainable, &c->values) != TW_OK)
		return TW_BAD_BYTES;
	c->coded_bytes = len;
	if (!tail) {
		c->block = tw_block_keep(m->payload);
		c->coded = bytes;
		return TW_OK;
	}
	c->block = tw_block_new(s->heap, tail + len);
	if (!c->block)
		return TW_NO_MEMORY;
	memcpy(c->block->data, bytes + len, tail);
	memcpy(c->block->data + tail, bytes, len);
	c->coded = c->block->data + tail;
	return tw_vec_finite(tw_block_floats(c->block), buffers) ? TW_OK : TW_BAD_BYTES;
}

enum tw_status tw_shard_decode(const struct shard *s, const uint8_t *bytes, size_t len, float *to,
			       size_t *values)
{
	const struct tw_traffic *t = &s->plan->traffic;
	const size_t trainable = s->slice.trainable, rest = s->slice.all - trainable;
	const size_t tail = rest * sizeof(float);
	enum tw_status st;

	if (len < tail || (t->up->check && t->up->check(t->up_options, bytes, len - tail, trainable,
							values) != TW_OK))
		return TW_BAD_BYTES;
	st = tw_codec_decode(t->up, t->up_options, bytes, len - tail, to, trainable);
	memcpy(to + trainable, bytes + len - tail, tail);
	if (st == TW_OK && !tw_vec_finite(to + trainable, rest))
		return TW_BAD_BYTES;
	return st;
}

static enum tw_status decode_slice(struct shard *s, const struct tw_msg *m, struct contribution *c)
{
	c->block = tw_pool_take(s->slice.pool);
	if (!c->block)
		return TW_NO_MEMORY;
	c->g = tw_block_floats(c->block);
	if (tw_plan_gathers(s->plan)) {
		c->wire = tw_block_keep(m->payload);
		c->wire_at = m->payload_at;
		c->wire_bytes = m->h.payload;
	}
	return tw_shard_decode(s, tw_msg_payload(m), m->h.payload, tw_block_floats(c->block),
			       &c->values);
}

/* The slice, checked whole. */
enum tw_status tw_shard_unpack(struct shard *s, const struct tw_msg *m, struct contribution *c)
{
	const size_t n = s->slice.all;

	c->values = s->slice.trainable;
	if (!m->payload || m->h.payload < (n - s->slice.trainable) * sizeof(float))
		return TW_BAD_BYTES;
	if (!(s->plan->traffic.up->traits & TW_CODEC_IDENTITY) && !(m->h.flags & TW_FLAG_PLAIN))
		return tw_slice_update_takes_sparse(&s->slice, &m->b.push) ? keep_sparse(s, m, c)
									   : decode_slice(s, m, c);
	if (m->h.payload != n * sizeof(float))
		return TW_BAD_BYTES;
	c->block = tw_block_keep(m->payload);
	c->g = (const float *)tw_msg_payload(m);
	/* in rounds: piece by piece, as they are made use of */
	c->unchecked = tw_shard_is_replica(s) && tw_shard_rounds(s);
	if (c->unchecked)
		return TW_OK;
	return tw_slice_update_verify_and_stage(&s->slice, &m->b.push, c->g);
}

/* What the push contributes.  TW_ABSENT: it was skipped, and the worker's last gradient is not
 * known here. */
static enum tw_status bring(struct shard *s, uint32_t slot, const struct tw_msg *m,
			    struct contribution *c)
{
	const struct shard_worker *g = tw_shard_worker(s, slot);

	c->slot = slot;
	c->incarnation = m->h.incarnation;
	c->seq = m->h.seq;
	c->push = m->b.push;
	if (m->h.flags & TW_FLAG_APPLIED)
		return TW_OK;
	if (!tw_shard_push_carries(
		    s, &m->b.push)) /* it is counted here, so that all shards count the same */
		return m->payload ? TW_BAD_BYTES : TW_OK;
	if (!(m->h.flags & TW_FLAG_SKIPPED))
		return tw_shard_unpack(s, m, c);
	if (!g->last)
		return TW_ABSENT;
	c->block = tw_block_keep(g->last->block);
	c->g = g->last->g;
	/* the gradient of then: it is as old, and as large */
	c->push.base = g->last->push.base;
	c->push.account.weight = g->last->push.account.weight;
	c->push.account.divide = g->last->push.account.divide;
	return TW_OK;
}

/* Keep it for pushes that are skipped. */
static enum tw_status keep_last(struct shard *s, struct shard_worker *g,
				const struct contribution *c)
{
	if (!g->last)
		g->last = tw_bucket_take(s);
	if (!g->last)
		return TW_NO_MEMORY;
	tw_block_drop(g->last->block);
	*g->last = *c;
	tw_block_keep(c->block);
	return TW_OK;
}

/* So it is with every push, where some may be. */
void tw_shard_push_keep(struct shard *s, struct tw_context *ctx, const struct contribution *c,
			uint32_t flags)
{
	if (isnan(s->plan->traffic.skip_push) || (flags & TW_FLAG_SKIPPED))
		return;
	if (keep_last(s, tw_shard_worker(s, c->slot), c) != TW_OK)
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a worker's last gradient");
}

/* --- taken ---------------------------------------------------------------------------------- */

/* A gate without rounds found it too late: it is counted, and its worker gives its samples back. */
static void pass_over(struct shard *s, struct tw_context *ctx, struct contribution *c)
{
	for (uint32_t k = 0; k < c->push.ranges; k++)
		tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_DROP,
						.shard = s->index,
						.life = s->slice.version.incarnation,
						.slot = tw_shard_slot(s, c->slot),
						.seq = c->seq,
						.from = c->push.range[k].from,
						.count = c->push.range[k].count });
	s->slice.tally.dropped_pushes++;
	s->slice.tally.dropped_samples += c->push.account.samples;
	tw_bucket_give_back(s, c);
}

/* A contribution that the gate has not seen, or (`said`) that the master has judged: through the
 * line now, or into the bucket.  Takes it over. */
static void admit_contribution(struct shard *s, struct tw_context *ctx, struct contribution *c,
			       const enum tw_verdict *said)
{
	const enum tw_verdict verdict =
		said ? *said : tw_gate_admit(s->plan->gate, s->plan->gate_options, c->slot, c->tau);

	if (verdict == TW_DROP) {
		if (!said)
			tw_shard_worker_was_late(tw_shard_worker(s, c->slot));
		pass_over(s, ctx, c);
		return;
	}
	if (tw_bucket_reserve(s, 1) != TW_OK) {
		tw_bucket_give_back(s, c);
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a contribution");
		return;
	}
	tw_shard_owes(s, tw_shard_worker(s, c->slot), c);
	if (verdict == TW_ACCUMULATE) {
		tw_bucket_collect(s, ctx, c);
		return;
	}
	tw_bucket_add(s, c);
	tw_bucket_flush(s, ctx);
}

/* The books of a contribution that a lock-free worker applied by itself. */
static void count(struct shard *s, struct tw_context *ctx, struct contribution *c)
{
	if (tw_slice_update_count(&s->slice, ctx, c) != TW_OK)
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a shard's history");
	tw_shard_worker(s, c->slot)->applied++;
	tw_bucket_give_back(s, c);
	tw_duties_updated(&s->duties, ctx);
}

/* Outside rounds a contribution is closed as soon as it is here. */
static void take_contribution(struct shard *s, struct tw_context *ctx, struct contribution *c,
			      uint32_t flags)
{
	struct shard_worker *g = tw_shard_worker(s, c->slot);

	tw_shard_worker_close(g, c->push.link, c->seq, true);
	c->tau = tw_shard_staleness(s, &c->push);
	if (flags & TW_FLAG_APPLIED) {
		count(s, ctx, c);
		return;
	}
	tw_shard_push_keep(s, ctx, c, flags);
	tw_shard_forget_sent(s, g, c->push.base.n);
	tw_shard_clock(s, c->slot, c->push.clock);
	admit_contribution(s, ctx, c, NULL);
}

/* Number `link` of the life that a contribution is of is closed.  It may be a life that is over, if
 * the claim of the one after it is true. */
static void close_judged(struct shard_worker *g, const struct contribution *c, bool applied,
			 bool late)
{
	struct shard_worker_mark *o = &g->other;

	if (c->incarnation == g->incarnation && c->push.link > g->link) {
		tw_shard_worker_close(g, c->push.link, c->seq, applied);
		if (late)
			tw_shard_worker_was_late(g);
	} else if (c->incarnation == o->incarnation && c->push.link == o->link + 1) {
		o->link++;
		o->unapplied = (uint16_t)(o->unapplied << 1 | !applied);
		o->late = (uint16_t)(o->late << 1 | late);
	}
}

static const enum tw_verdict verdicts[] = { [TW_JUDGED_APPLY] = TW_APPLY,
					    [TW_JUDGED_COLLECT] = TW_ACCUMULATE,
					    [TW_JUDGED_DROP] = TW_DROP };

void tw_shard_settle(struct shard *s, struct tw_context *ctx, struct contribution *c,
		     enum tw_judgement how, bool flush)
{
	struct shard_worker *g = tw_shard_worker(s, c->slot);
	const bool answers = !c->closed && c->incarnation == g->incarnation;
	const struct contribution said = { .slot = c->slot, .flags = c->flags, .push = c->push };
	/* what the others apply is refused by one that cannot */
	const bool refuses = how > TW_JUDGED_DROP || (how < TW_JUDGED_DROP && c->fault);

	if (!c->closed)
		close_judged(g, c, how < TW_JUDGED_DROP && !refuses,
			     how == TW_JUDGED_DROP || how == TW_JUDGED_VOID);
	if (answers) {
		tw_shard_forget_sent(s, g, c->push.base.n);
		tw_shard_clock(s, c->slot, c->push.clock);
	}
	c->tau = c->fault ? 0 : tw_shard_staleness(s, &c->push);
	if (refuses) {
		s->slice.tally.refused += how == TW_JUDGED_REFUSE;
		if (!c->closed)
			tw_shard_push_note_refused(s, ctx, c);
		tw_bucket_give_back(s, c);
	} else {
		admit_contribution(s, ctx, c, &verdicts[how]);
	}
	if (flush && s->bucket.count)
		tw_bucket_flush(s, ctx);
	if (answers && refuses)
		answer_refused(s, ctx, said.slot, said.flags, said.push.number);
	else if (answers)
		reply(s, ctx, said.slot, said.flags, &said.push);
}

/* What the codec made of it; a push without a payload brings nothing. */
void tw_shard_count_bytes(struct shard *s, const struct tw_msg *m, size_t values)
{
	struct tw_tally *t = &s->slice.tally;

	if (m->h.flags & (TW_FLAG_APPLIED | TW_FLAG_SKIPPED))
		return;
	t->up_slices++;
	t->up_raw += s->slice.n * sizeof(float);
	t->up_encoded += m->h.payload;
	t->up_values += s->slice.trainable;
	t->up_sent += values;
}

void tw_shard_push_counted(struct shard *s, const struct contribution *c, const struct tw_msg *m)
{
	struct shard_worker *g = tw_shard_worker(s, c->slot);

	tw_shard_count_bytes(s, m, c->values);
	if (g->strikes.count)
		tw_shard_worker_strike(s, g, 0);
	if (!tw_shard_rounds(s) && (m->h.flags & TW_FLAG_ANSWER) && s->readers.of)
		tw_shard_reads_no_more(s, c->slot);
}

enum tw_status tw_shard_push_take(struct shard *s, struct tw_context *ctx, struct contribution *c,
				  const struct tw_msg *m)
{
	tw_shard_push_counted(s, c, m);
	take_contribution(s, ctx, c, m->h.flags);
	tw_slice_update_unstage(&s->slice); /* the gate did not apply it */
	return TW_OK;
}

void tw_shard_push_reply(struct shard *s, struct tw_context *ctx, uint32_t slot,
			 const struct tw_msg *m)
{
	reply(s, ctx, slot, m->h.flags, &m->b.push);
	release_held(s, ctx);
}

void tw_shard_push_contribution(struct shard *s, struct tw_context *ctx, uint32_t slot,
				const struct tw_msg *m)
{
	struct contribution *c;
	enum tw_status st;

	if (turned_down(s, ctx, slot, m))
		return;
	if (m->b.push.base.n > s->slice.version.n || !tw_shard_plausible(s, &m->b.push)) { /* (4) */
		tw_shard_push_strike(s, ctx, slot, m->b.push.link);
		s->taker->reject(s, ctx, slot, m);
		return;
	}
	c = tw_bucket_take(s);
	st = c ? bring(s, slot, m, c) : TW_NO_MEMORY;
	if (st == TW_OK)
		st = s->taker->take(s, ctx, c, m);
	if (st == TW_OK || st == TW_REFUSED)
		return;
	tw_bucket_give_back(s, c);
	if (st == TW_NO_MEMORY) {
		tw_give_up(ctx, st, "no memory for a contribution");
		return;
	}
	if (st != TW_ABSENT)
		tw_shard_push_strike(s, ctx, slot, m->b.push.link);
	s->taker->reject(s, ctx, slot, m);
}

/* --- the bucket ----------------------------------------------------------------------------- */

static enum tw_status take(struct shard *s, struct tw_context *ctx, struct contribution *c,
			   const struct tw_msg *m)
{
	const uint32_t slot = c->slot;

	tw_shard_push_take(s, ctx, c, m);
	tw_shard_push_reply(s, ctx, slot, m);
	return TW_OK;
}

const struct tw_taker tw_taker_bucket = {
	.name = "bucket",
	.push = tw_shard_push_contribution,
	.fenced = tw_shard_push_refuse,
	.take = take,
	.reject = tw_shard_push_reject,
};
