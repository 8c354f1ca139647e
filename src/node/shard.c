/* SPDX-License-Identifier: Apache-2.0 */
/* shard.c - one contiguous range of the parameters, and the right to change it.
 *
 *  (1) a version is (incarnation, n); n counts applied updates and never goes back; a shard that is
 *      hosted again begins a new incarnation, and a push on another incarnation is refused and
 *      answered with what there is now.
 *  (2) an answer comes from one version: a snapshot is counted, and written by nobody while held.
 *  (3) a contribution (worker, incarnation, seq) is taken once: an older seq is acknowledged again
 *      and not applied, a seq that leaves a gap is left alone until the sender fills the gap, so a
 *      sender may always resend what was not acknowledged, in order.
 *  (4) a slice is applied whole or not at all: it is checked (length, finite values) before.
 *  (5) under round gates only COMMIT applies: what is staged waits for it, whoever dies meanwhile.
 *  (6) what is older than the shard's generation is fenced.
 *  (7) it obeys the newest master only.
 *  (8) while a worker is active, clocks.least is the smallest clock of an active one, and at_least
 *      counts those who stand there.  A worker's clock is its own word and the same on all shards:
 *      clocks that shards count by themselves differ after one of them was lost, and two workers
 *      then wait for each other, each on another shard.
 *  (9) a worker speaks from its own node only.  One that no view has named yet is believed, unless
 *      its incarnation is of a master yet to come, or of one before the master whose full view is
 *      here; a full view has the last word.
 *  (10) a view that the master wants for an evaluation is kept at the first version that has the
 *      rounds and the samples it asked for, and what is told of it is what that version has.
 *
 * The list is the whole shard's.  Here is what comes of a request: pushed, parked, committed, read.
 * shard_members.c sees to (8), (9) and to what a new generation forgets, shard_host.c to what a new
 * incarnation begins with.
 *
 * See docs/RATIONALE.md for why a shard, and not a chunk, is the unit of all this. */
#include "node/shard.h"
#include "vec/vec.h"

#include <math.h>
#include <string.h>

/* --- contributions ------------------------------------------------------------------------ */

/* The slice as floats, checked whole; NULL with *st saying why. */
static struct tw_block *unpacked(struct shard *s, const struct tw_msg *m, const float **at,
				 enum tw_status *st)
{
	const struct tw_codec *c = s->plan->traffic.up;
	const size_t tail = (s->n - s->trainable) * sizeof(float);
	const size_t len = m->h.payload;
	struct tw_block *b;

	*st = TW_BAD_BYTES;
	if (!m->payload || len < tail)
		return NULL;
	if (c->traits & TW_CODEC_IDENTITY) {
		*at = (const float *)tw_msg_payload(m);
		if (len == s->n * sizeof(float))
			*st = tw_line_check(s, &m->b.push, *at);
		return *st == TW_OK ? tw_block_keep(m->payload) : NULL;
	}
	b = tw_pool_take(s->pool);
	if (!b) {
		*st = TW_NO_MEMORY;
		return NULL;
	}
	*st = c->decode(s->plan->traffic.up_options, tw_msg_payload(m), len - tail,
			tw_block_floats(b), s->trainable);
	memcpy(tw_block_floats(b) + s->trainable, tw_msg_payload(m) + len - tail, tail);
	*at = tw_block_floats(b);
	if (*st == TW_OK && !tw_vec_finite(tw_block_floats(b) + s->trainable, s->n - s->trainable))
		*st = TW_BAD_BYTES;
	if (*st == TW_OK)
		return b;
	tw_block_drop(b);
	return NULL;
}

static void have(struct shard *s, struct tw_context *ctx, uint32_t slot, uint32_t flags)
{
	const struct guest *g = &s->guest[slot];
	struct tw_msg *m = tw_msg_to(ctx, tw_master_addr(), TW_HAVE);

	if (!m)
		return;
	m->h.view = s->generation;
	m->h.shard = m->h.from = s->index;
	m->h.flags = flags;
	m->b.have = (struct tw_body_have){ .round = g->push.round,
					   .slot = slot,
					   .incarnation = g->incarnation,
					   .samples = g->push.samples,
					   .steps = g->push.steps,
					   .loss = g->push.loss };
	tw_send(ctx, m);
}

static uint64_t staleness_of(const struct shard *s, const struct tw_body_push *p)
{
	const uint64_t since = s->version.n - p->base.n;

	return since > p->own ? since - p->own : 0;
}

/* --- contributions, applied ----------------------------------------------------------------- */

void tw_shard_flush(struct shard *s, struct tw_context *ctx)
{
	enum tw_status st = tw_line_update(s, ctx, s->bucket, s->collected);

	for (uint32_t k = 0; k < s->collected; k++)
		tw_block_drop(s->bucket[k].block);
	s->collected = 0;
	if (st != TW_OK)
		tw_give_up(ctx, st, "no memory for an update of %zu parameters", s->n);
	tw_shard_keep_view(s, ctx);
}

/* A gate without rounds found it too late: its samples are done with, and counted. */
static void pass_over(struct shard *s, struct tw_context *ctx, struct contribution *c)
{
	tw_block_drop(c->block);
	s->tally.dropped_pushes++;
	s->tally.dropped_samples += c->push.samples;
	for (uint32_t k = 0; k < c->push.ranges; k++) {
		const uint64_t from = c->push.range[k].from;

		tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_DROP,
						.shard = s->index,
						.slot = c->slot,
						.seq = c->seq,
						.from = from,
						.count = c->push.range[k].count });
		if (tw_spans_add(&s->applied, from, from + c->push.range[k].count, NULL) != TW_OK)
			tw_give_up(ctx, TW_NO_MEMORY, "no memory for a shard's history");
	}
}

/* A contribution that the gate has not seen: through the line now, or into the bucket. */
static void admit(struct shard *s, struct tw_context *ctx, uint32_t slot, struct tw_block *b,
		  const float *at, const struct tw_body_push *push)
{
	const struct tw_gate *gate = s->plan->gate;
	struct guest *g = &s->guest[slot];
	struct contribution *c = &s->bucket[s->collected];

	*c = (struct contribution){ .slot = slot,
				    .incarnation = g->incarnation,
				    .seq = g->seq,
				    .tau = staleness_of(s, push),
				    .block = tw_block_keep(b),
				    .g = at,
				    .push = *push };
	tw_shard_forget_sent(s, g, push->base.n);
	tw_shard_clock(s, slot, push->clock);
	switch (gate->admit(s->plan->gate_options, slot, c->tau)) {
	case TW_DROP:
		pass_over(s, ctx, c);
		return;
	case TW_APPLY:
		s->collected++;
		tw_shard_flush(s, ctx);
		return;
	case TW_ACCUMULATE:
		s->collected++;
		/* the bucket has room for one contribution of every worker */
		if (gate->full(s->plan->gate_options, s->collected) ||
		    s->collected == s->plan->crew.workers)
			tw_shard_flush(s, ctx);
		return;
	}
}

static void note_refused(struct shard *s, struct tw_context *ctx, uint32_t slot,
			 const struct tw_msg *m)
{
	const bool fenced = m->b.push.base.incarnation != s->version.incarnation;

	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_REFUSED,
					.shard = s->index,
					.slot = slot,
					.seq = m->h.seq,
					.value = fenced });
}

static void refuse(struct shard *s, struct tw_context *ctx, uint32_t slot, const struct tw_msg *m)
{
	s->guest[slot].seq = m->h.seq;
	tw_shard_clock(s, slot, m->b.push.clock); /* closed here, too: others must not wait */
	note_refused(s, ctx, slot, m);
	if (m->h.flags & TW_FLAG_ANSWER)
		tw_shard_answer(s, ctx, slot, m->b.push.number, TW_FLAG_REFUSED);
	else
		tw_shard_acknowledge(s, ctx, slot, TW_FLAG_REFUSED);
	if (s->queued && (s->plan->gate->traits & TW_GATE_HOLDS))
		tw_shard_release(s, ctx);
}

/* The answer to a push that was taken: now, when the gate allows, or an acknowledgement only. */
static void reply(struct shard *s, struct tw_context *ctx, uint32_t slot, const struct tw_msg *m)
{
	uint32_t whom;

	if (!(m->h.flags & TW_FLAG_ANSWER)) {
		tw_shard_acknowledge(s, ctx, slot, 0);
	} else if (tw_shard_may_read(s, slot, m->b.push.round + 1, &whom)) {
		tw_shard_unpark(s, slot);
		tw_shard_answer(s, ctx, slot, m->b.push.number, 0);
	} else {
		tw_shard_park(s, ctx, slot, m->b.push.number, m->b.push.round + 1);
		tw_shard_acknowledge(s, ctx, slot, TW_FLAG_HELD);
	}
}

static void stage(struct shard *s, struct tw_context *ctx, uint32_t slot, struct tw_block *b,
		  const float *at, const struct tw_msg *m)
{
	struct guest *g = &s->guest[slot];

	g->strikes = 0;
	tw_shard_unstage(g);
	g->staged = tw_block_keep(b);
	g->staged_at = at;
	g->staged_incarnation = m->h.incarnation;
	g->push = m->b.push;
	g->staged_seq = m->h.seq;
	tw_shard_forget_sent(s, g, m->b.push.base.n);
	if (m->h.flags & TW_FLAG_ANSWER)
		tw_shard_park(s, ctx, slot, m->b.push.number, m->b.push.round + 1);
	have(s, ctx, slot, 0);
}

void tw_shard_turn_away(struct tw_context *ctx, struct tw_addr whom, uint32_t incarnation)
{
	struct tw_msg *no = tw_msg_to(ctx, whom, TW_REFUSE);

	if (!no)
		return;
	no->h.incarnation = incarnation;
	no->b.refuse.why = TW_REFUSED_FENCED;
	tw_send(ctx, no);
}

/* Somebody who was removed, and has not heard of it. */
static void turn_away(struct tw_context *ctx, const struct tw_msg *m)
{
	if (!(m->h.flags & TW_FLAG_RELAYED))
		tw_shard_turn_away(ctx, m->from, m->h.incarnation);
}

/* (9): may this be a newcomer that the master has named, in a view that is still on its way?  Those
 * whom an earlier master let in are in the full view of this one, or are members no more. */
static bool claimable(const struct shard *s, uint32_t incarnation)
{
	const uint32_t boot = incarnation >> 20;

	return boot <= s->term && boot >= s->view_term;
}

/* Is this message from a worker that may talk to this shard?  Its guest is up to date then. */
static struct guest *admitted(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const uint32_t slot = m->h.from;
	struct tw_addr sender = m->from;
	struct guest *g;

	if (!s->hosted || slot >= s->plan->crew.workers || m->h.view != s->generation) {
		s->tally.fenced++;
		return NULL;
	}
	if (m->h.flags & TW_FLAG_RELAYED)
		memcpy(&sender, m->tail->data, sizeof sender);
	g = &s->guest[slot];
	if (m->h.incarnation < g->incarnation ||
	    (m->h.incarnation == g->incarnation && g->state != TW_LIVE) ||
	    (m->h.incarnation > g->incarnation && !claimable(s, m->h.incarnation))) { /* (9) */
		s->tally.fenced++;
		turn_away(ctx, m);
		return NULL;
	}
	if (m->h.incarnation > g->incarnation) { /* the master's view is on its way */
		tw_shard_claim(s, ctx, slot, m->h.incarnation, sender.node);
	} else if (g->node != sender.node) { /* (9) */
		s->tally.fenced++;
		return NULL;
	}
	g->addr = sender;
	return g;
}

/* The books of a contribution that a lock-free worker applied by itself. */
static void count(struct shard *s, struct tw_context *ctx, uint32_t slot,
		  const struct tw_body_push *push)
{
	const struct contribution c = { .slot = slot,
					.incarnation = s->guest[slot].incarnation,
					.seq = s->guest[slot].seq,
					.tau = staleness_of(s, push),
					.push = *push };

	if (tw_line_count(s, ctx, &c) != TW_OK)
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a shard's history");
	tw_shard_keep_view(s, ctx);
}

/* A contribution that came in order, and will not be applied; its seq is closed already. */
static void note_drop(struct shard *s, struct tw_context *ctx, uint32_t slot,
		      const struct tw_body_push *push)
{
	s->tally.dropped_pushes++;
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_DROP,
					.shard = s->index,
					.slot = slot,
					.seq = s->guest[slot].seq,
					.from = push->range[0].from,
					.count = push->samples });
}

/* A share of a batch: far from where dividing by it, or adding it up, leaves the finite. */
static bool is_share(float x)
{
	return x >= 1e-12f && x <= 1e12f;
}

/* What the numbers beside a slice must be, whoever sent them. */
static bool plausible(const struct shard *s, const struct tw_body_push *p)
{
	uint64_t samples = 0;

	if (p->ranges > TW_RANGES || !is_share(p->weight) || !is_share(p->divide))
		return false;
	if (!(p->rate >= 0.0f && p->rate <= 2 * s->rate_max) ||
	    !(p->progress >= 0.0 &&
	      p->progress <= (double)s->plan->dealing.positions / (double)s->plan->problem.samples))
		return false;
	for (uint32_t k = 0; k < p->ranges; k++) {
		if (p->range[k].from > s->plan->dealing.positions || !p->range[k].count ||
		    p->range[k].count > s->plan->dealing.positions - p->range[k].from)
			return false;
		samples += p->range[k].count;
	}
	return p->samples == samples && p->steps <= samples;
}

/* Seen, foreign, malformed, out of order or late: answered as it deserves, and not taken. */
static bool turned_down(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const uint32_t slot = m->h.from;
	struct guest *g = &s->guest[slot];

	if (m->h.seq <= g->seq) { /* (3): seen */
		const bool answers =
			(m->h.flags & TW_FLAG_ANSWER) && !tw_shard_outdated(g, m->b.push.number);

		if (tw_shard_rounds(s) || !answers)
			tw_shard_acknowledge(s, ctx, slot, 0);
		if (answers)
			reply(s, ctx, slot, m);
		return true;
	}
	if (m->b.push.base.incarnation != s->version.incarnation) { /* (1) */
		s->tally.fenced++;
		refuse(s, ctx, slot, m);
		return true;
	}
	if (m->h.seq != g->seq + 1) /* (3): a gap */
		return true;
	if (tw_shard_rounds(s) && m->b.push.round < s->round) { /* too late */
		g->seq = m->h.seq;
		note_drop(s, ctx, slot, &m->b.push);
		tw_shard_answer(s, ctx, slot, m->b.push.number, TW_FLAG_DROPPED);
		return true;
	}
	if (g->staged && g->staged_incarnation == m->h.incarnation) { /* (5): promised already */
		if (m->h.flags & TW_FLAG_ANSWER)
			tw_shard_park(s, ctx, slot, m->b.push.number, m->b.push.round + 1);
		have(s, ctx, slot, 0);
		return true;
	}
	return false;
}

/* A reference to what a push contributes; NULL with *st saying why, TW_OK for a skipped push of a
 * worker whose last gradient is not known here. */
static struct tw_block *brought(struct shard *s, const struct tw_msg *m, const float **at,
				enum tw_status *st)
{
	const struct guest *g = &s->guest[m->h.from];

	*st = TW_OK;
	if (m->h.flags & TW_FLAG_APPLIED)
		return tw_block_keep(s->w);
	if (m->h.flags & TW_FLAG_SKIPPED) {
		*at = g->last_at;
		return tw_block_keep(g->last);
	}
	return unpacked(s, m, at, st);
}

static bool others_fail(const struct shard *s, uint32_t slot)
{
	for (uint32_t k = 0; k < s->plan->crew.workers; k++)
		if (k != slot && s->guest[k].state == TW_LIVE && s->guest[k].strikes)
			return true;
	return false;
}

/* Its numbers were refused again.  Where those of others are not, it is not the training that goes
 * astray but this worker: the master is told, each time until it listens. */
static void strike(struct shard *s, struct tw_context *ctx, uint32_t slot, uint64_t seq)
{
	struct guest *g = &s->guest[slot];
	const uint64_t others = s->contributions - g->applied;
	struct tw_msg *m;

	g->bad_seq = seq;
	if (g->strikes++ == 0)
		g->others = others;
	/* a run that diverges makes everybody's numbers bad: then nobody is to blame */
	if (g->strikes < TW_STRIKES || others - g->others < g->strikes || others_fail(s, slot))
		return;
	m = tw_msg_to(ctx, tw_master_addr(), TW_REFUSE);
	if (!m)
		return;
	m->h.view = s->generation;
	m->h.shard = m->h.from = s->index;
	m->h.incarnation = g->incarnation;
	m->b.refuse = (struct tw_body_refuse){ TW_REFUSED_NUMBERS, slot };
	tw_send(ctx, m);
}

/* (4): a push that failed its check; under rounds the master is told that it will not come. */
static void reject(struct shard *s, struct tw_context *ctx, uint32_t slot, const struct tw_msg *m)
{
	struct guest *g = &s->guest[slot];

	s->tally.refused++;
	if (!tw_shard_rounds(s)) {
		refuse(s, ctx, slot, m);
		return;
	}
	g->push = m->b.push;
	g->seq = m->h.seq;
	note_refused(s, ctx, slot, m);
	have(s, ctx, slot, TW_FLAG_REFUSED);
	if (m->h.flags & TW_FLAG_ANSWER)
		tw_shard_park(s, ctx, slot, m->b.push.number, m->b.push.round + 1);
}

/* Outside rounds a contribution is closed as soon as it is here. */
static void take(struct shard *s, struct tw_context *ctx, uint32_t slot, struct tw_block *b,
		 const float *at, const struct tw_msg *m)
{
	struct guest *g = &s->guest[slot];
	struct tw_body_push push = m->b.push;

	g->seq = m->h.seq;
	g->strikes = 0;
	if (m->h.flags & TW_FLAG_APPLIED) {
		count(s, ctx, slot, &push);
		return;
	}
	if (m->h.flags & TW_FLAG_SKIPPED) { /* the gradient of then: it is as old, and as large */
		push.base = g->push.base;
		push.weight = g->push.weight;
		push.divide = g->push.divide;
	} else if (s->plan->traffic.skip_push ==
		   s->plan->traffic.skip_push) { /* not NAN: it may skip pushes */
		tw_block_keep(b);
		tw_block_drop(g->last);
		g->last = b;
		g->last_at = at;
		g->push = push;
	}
	admit(s, ctx, slot, b, at, &push);
}

static void push(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const uint32_t slot = m->h.from;
	const float *at = NULL;
	struct tw_block *b;
	enum tw_status st;

	if (!admitted(s, ctx, m) || turned_down(s, ctx, m))
		return;
	if (m->b.push.base.n > s->version.n || !plausible(s, &m->b.push)) { /* (4) */
		strike(s, ctx, slot, m->h.seq);
		reject(s, ctx, slot, m);
		return;
	}
	b = brought(s, m, &at, &st);
	if (st == TW_NO_MEMORY) {
		tw_give_up(ctx, st, "no memory for a contribution");
		return;
	}
	if (!b) {
		if (st != TW_OK)
			strike(s, ctx, slot, m->h.seq);
		reject(s, ctx, slot, m);
		return;
	}
	if (tw_shard_rounds(s)) {
		stage(s, ctx, slot, b, at, m);
		tw_block_drop(b);
		return;
	}
	take(s, ctx, slot, b, at, m);
	tw_line_unprepare(s); /* the gate did not apply it */
	tw_block_drop(b);
	reply(s, ctx, slot, m);
	if (s->queued && (s->plan->gate->traits & TW_GATE_HOLDS))
		tw_shard_release(s, ctx);
}

/* (5): a set names workers whose slice for this round is here, each once. */
static bool all_staged(const struct shard *s, const struct tw_member *set, uint32_t count,
		       size_t bytes)
{
	if (count > s->plan->crew.workers || count * sizeof *set != bytes)
		return false;
	for (uint32_t k = 0; k < count; k++) {
		const struct guest *g;

		if (set[k].slot >= s->plan->crew.workers || (k && set[k].slot <= set[k - 1].slot))
			return false;
		g = &s->guest[set[k].slot];
		if (!g->staged || g->push.round != s->round ||
		    g->staged_incarnation != set[k].incarnation)
			return false;
	}
	return true;
}

static void commit(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const uint32_t count = m->b.commit.count;
	const struct tw_member *set = m->tail ? (const void *)m->tail->data : NULL;

	if (!s->hosted || m->h.view != s->generation || m->b.commit.round != s->round)
		return;
	if (!all_staged(s, set, count, m->h.tail)) {
		s->tally.refused++;
		tw_say(ctx, TW_ERROR,
		       "shard %u cannot commit round %llu: what it needs is not staged", s->index,
		       (unsigned long long)s->round);
		return;
	}
	for (uint32_t k = 0; k < count; k++) {
		struct guest *g = &s->guest[set[k].slot];

		s->bucket[k] = (struct contribution){ .slot = set[k].slot,
						      .incarnation = set[k].incarnation,
						      .seq = g->staged_seq,
						      .tau = staleness_of(s, &g->push),
						      .block = g->staged,
						      .g = g->staged_at,
						      .push = g->push };
		g->staged = NULL;
		if (g->staged_incarnation == g->incarnation)
			g->seq = g->staged_seq;
	}
	s->collected = count;
	tw_shard_flush(s, ctx);
	if (count)
		memcpy(s->last_set, set, m->h.tail);
	s->last_count = count;
	s->round++;
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_COMMIT,
					.shard = s->index,
					.round = s->round - 1,
					.count = count,
					.version = s->version.n });
	tw_shard_keep_view(s, ctx);
	for (uint32_t k = 0; k < s->plan->crew.workers; k++) { /* staged, but not in the set */
		struct guest *g = &s->guest[k];

		if (!g->staged)
			continue;
		tw_shard_unstage(g);
		if (g->staged_incarnation == g->incarnation)
			g->seq = g->staged_seq;
		note_drop(s, ctx, k, &g->push);
	}
	tw_shard_release(s, ctx);
}

/* --- reading ------------------------------------------------------------------------------ */

static void pull(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_pull *p = &m->b.pull;
	struct guest *g = admitted(s, ctx, m);
	const uint32_t slot = m->h.from;
	uint32_t whom;

	if (!g)
		return;
	if (p->pin) {
		struct tw_msg *a;

		if (p->pin != s->pin.want.pin || !s->pin.view)
			return;
		a = tw_msg_to(ctx, g->addr, TW_PARAMS);
		if (!a)
			return;
		tw_shard_fill(s, g, a, p->number);
		a->b.params.pin = p->pin;
		a->h.flags = TW_FLAG_FREE;
		a->payload = tw_block_keep(s->pin.view);
		a->h.payload = (uint32_t)(s->n * sizeof(float));
		tw_send(ctx, a);
		return;
	}
	if (tw_shard_outdated(g, p->number))
		return;
	if (m->h.seq > g->seq)
		g->seq = m->h.seq;
	tw_shard_clock(s, slot, p->clock);
	if (!tw_shard_may_read(s, slot, p->round, &whom)) {
		tw_shard_park(s, ctx, slot, p->number, p->round);
		return;
	}
	tw_shard_unpark(s, slot);
	if (!(m->h.flags & TW_FLAG_FRESH) && p->have.incarnation == s->version.incarnation &&
	    p->have.n == s->version.n && !tw_shard_lockfree(s) && !s->moved) {
		struct tw_msg *a = tw_msg_to(ctx, g->addr, TW_UNCHANGED);

		if (!a)
			return;
		tw_shard_fill(s, g, a, p->number);
		tw_send(ctx, a);
		return;
	}
	tw_shard_answer(s, ctx, slot, p->number, 0);
}

/* --- lock-free workers -------------------------------------------------------------------- */

/* w = fmaf(a, x, w) while others do the same; what x leaves alone is not touched. */
static void add_shared(_Atomic uint32_t *w, const float *x, float a, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		union {
			uint32_t bits;
			float value;
		} one;

		if (x[i] == 0.0f)
			continue;
		one.bits = atomic_load_explicit(&w[i], memory_order_relaxed);
		one.value = fmaf(a, x[i], one.value);
		atomic_store_explicit(&w[i], one.bits, memory_order_relaxed);
	}
}

/* HOGWILD: many threads at a time.  Only elements with a gradient are written, so workers whose
 * samples touch different elements never overwrite each other. */
static void shard_shared(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct shard *s = (struct shard *)a;
	const float *g;
	float rate;
	_Atomic uint32_t *w;
	struct tw_addr *sender;
	struct tw_msg *note;

	m->h.flags &= ~(uint32_t)(TW_FLAG_RELAYED | TW_FLAG_APPLIED);
	if (m->h.type == TW_PUSH && s->hosted && m->payload &&
	    m->h.payload == s->n * sizeof(float) && plausible(s, &m->b.push) &&
	    tw_vec_finite((const float *)tw_msg_payload(m), s->n)) {
		g = (const float *)tw_msg_payload(m);
		w = (_Atomic uint32_t *)s->w->data;
		rate = tw_schedule_rate(&s->plan->schedule, m->b.push.progress);
		add_shared(w, g, -rate / m->b.push.divide, s->trainable);
		add_shared(w + s->trainable, g + s->trainable,
			   1.0f / (m->b.push.divide * (float)(s->plan->crew.workers)),
			   s->n - s->trainable);
		m->h.flags |= TW_FLAG_APPLIED;
	}
	note = tw_msg_to(ctx, ctx->self, (enum tw_type)m->h.type);
	if (!note)
		return;
	note->h = m->h;
	note->b = m->b;
	note->payload = m->h.flags & TW_FLAG_APPLIED ? NULL : tw_block_keep(m->payload);
	note->payload_at = m->payload_at;
	note->h.payload = note->payload ? m->h.payload : 0;
	note->h.flags |= TW_FLAG_RELAYED;
	sender = tw_msg_tail(ctx, note, sizeof *sender);
	if (!sender)
		return;
	*sender = m->from;
	tw_send(ctx, note);
}

/* --- the actor ---------------------------------------------------------------------------- */

static struct tw_actor *shard_new(struct tw_heap *heap, const void *arg)
{
	const struct tw_role_arg *a = arg;
	struct shard *s = tw_heap_zeros(heap, sizeof *s);

	if (!s)
		return NULL;
	s->plan = a->plan;
	s->heap = heap;
	s->index = a->index;
	tw_spans_init(&s->applied, heap);
	tw_spans_init(&s->twice, heap);
	return (struct tw_actor *)s;
}

static void shard_free(struct tw_actor *a)
{
	struct shard *s = (struct shard *)a;

	if (!s)
		return;
	tw_shard_let_go(s);
	s->heap->put(s->heap, s);
}

static void shard_start(struct tw_actor *a, struct tw_context *ctx)
{
	(void)a;
	(void)ctx;
}

/* Of what a shard may say to itself, it hears what was relayed. */
static bool may_say(const struct tw_msg *m, const struct tw_context *ctx)
{
	return tw_hears(ctx, m) && (m->from.role != TW_SHARD || (m->h.flags & TW_FLAG_RELAYED));
}

static void shard_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct shard *s = (struct shard *)a;

	/* only a lock-free shard may say these, and only to itself */
	if (!tw_shard_lockfree(s) || m->from.node != ctx->self.node || m->from.role != TW_SHARD ||
	    m->from.index != ctx->self.index || m->h.tail != sizeof(struct tw_addr))
		m->h.flags &= ~(uint32_t)(TW_FLAG_RELAYED | TW_FLAG_APPLIED);
	if (!may_say(m, ctx)) {
		s->tally.refused++;
		return;
	}
	/* (7): what an earlier master said may still be on its way when a later one has asked */
	if (m->from.role == TW_MASTER) {
		if (m->h.incarnation < s->term)
			return;
		s->term = m->h.incarnation;
	}
	switch (m->h.type) {
	case TW_PUSH:
		push(s, ctx, m);
		break;
	case TW_PULL:
		pull(s, ctx, m);
		break;
	case TW_COMMIT:
		commit(s, ctx, m);
		break;
	case TW_VIEW:
		tw_members(ctx, m->tail ? (const void *)m->tail->data : NULL,
			   m->h.tail / sizeof(struct tw_member));
		tw_shard_view(s, ctx, m);
		break;
	case TW_IDLE:
		tw_shard_idle(s, ctx, m);
		break;
	case TW_HOST:
		tw_shard_host(s, ctx, m);
		break;
	case TW_ASK:
		tw_shard_state(s, ctx, m->b.ask.number, m->h.flags & TW_FLAG_FREE);
		break;
	case TW_PIN:
		tw_shard_pin(s, ctx, m);
		break;
	case TW_SNAP:
		tw_shard_snap(s, ctx, m);
		break;
	default:
		s->tally.refused++;
	}
}

static void shard_up(struct tw_actor *a, struct tw_context *ctx, uint32_t node, uint32_t boot)
{
	struct shard *s = (struct shard *)a;

	if (node != 0)
		return;
	if (boot > s->term)
		s->term = boot;
	if (!s->hosted)
		return;
	tw_shard_state(s, ctx, 0, 0);
	for (uint32_t k = 0; k < s->plan->crew.workers; k++)
		if (s->guest[k].staged)
			have(s, ctx, k, 0);
		else if (tw_shard_rounds(s) && tw_guest_is_bad(&s->guest[k]) &&
			 s->guest[k].push.round == s->round)
			have(s, ctx, k, TW_FLAG_REFUSED);
}

static void shard_timer(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	(void)a;
	(void)ctx;
	(void)timer;
}

static void shard_down(struct tw_actor *a, struct tw_context *ctx, uint32_t node)
{
	(void)a;
	(void)ctx;
	(void)node;
}

static bool shard_waiting(const struct tw_actor *a, struct tw_wait *out)
{
	const struct shard *s = (const struct shard *)a;
	const struct guest *g;
	uint32_t whom;

	if (!s->queued)
		return false;
	g = &s->guest[s->queue[0]];
	tw_shard_may_read(s, s->queue[0], g->round, &whom);
	*out = (struct tw_wait){ .slot = whom,
				 .step = s->round,
				 .since = g->since,
				 .whom = { whom == UINT32_MAX ? 0 : s->guest[whom].addr.node,
					   whom == UINT32_MAX ? TW_MASTER : TW_WORKER, 0 },
				 .why = whom == UINT32_MAX ? "the commit of the round"
							   : "its next contribution" };
	return true;
}

const struct tw_actor_class tw_shard_class = {
	.name = "shard",
	.new = shard_new,
	.free = shard_free,
	.start = shard_start,
	.message = shard_message,
	.timer = shard_timer,
	.down = shard_down,
	.up = shard_up,
	.waiting = shard_waiting,
	.shared = shard_shared,
};
