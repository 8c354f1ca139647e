/* SPDX-License-Identifier: Apache-2.0 */
/* shard_members.c - whom a shard knows: the workers of the master's view, and how far each is.
 *
 * Of the rules of a shard (the list is in shard.c) this file sees to
 *
 *  (5) a worker that leaves, leaves what it staged; a new generation throws it away.
 *  (6) a new generation forgets what was parked, staged and sent under the old one, and starts the
 *      clocks anew.
 *  (8) every change of a clock, or of who is active, leaves least and at_least true.
 *  (9) a worker that no view has named yet is believed only until a full view says otherwise; views
 *      of one worker that are older than it may just be slower than its own words. */
#include "node/shard.h"

#include <string.h>

/* --- clocks ------------------------------------------------------------------------------- */

static void find_least(struct shard *s)
{
	struct tw_clocks *c = &s->clocks;

	c->active_count = 0;
	s->at_least = 0;
	for (uint32_t k = 0; k < c->slots; k++) {
		if (!s->active[k])
			continue;
		c->active_count++;
		if (s->at_least == 0 || s->clock[k] < c->least) {
			c->least = s->clock[k];
			c->least_slot = k;
			s->at_least = 1;
		} else if (s->clock[k] == c->least) {
			s->at_least++;
		}
	}
}

static void set_active(struct shard *s, uint32_t slot)
{
	struct guest *g = &s->guest[slot];
	const bool on = g->state == TW_LIVE && !s->idle[slot] && g->clock_from != CLOCK_UNKNOWN;

	if (on == s->active[slot])
		return;
	/* a joiner, or one that comes back from idleness, starts at the smallest live clock */
	if (on && s->clocks.active_count && s->clock[slot] < s->clocks.least) {
		s->clock[slot] = s->clocks.least;
		g->clock_from = CLOCK_GUESSED;
	}
	s->active[slot] = on;
	find_least(s);
}

/* Nobody has said the clock of this worker: it is where the slowest is. */
static void guess_clock(struct shard *s, uint32_t slot)
{
	struct guest *g = &s->guest[slot];

	if (g->clock_from != CLOCK_UNKNOWN)
		return;
	s->clock[slot] = s->clocks.active_count ? s->clocks.least : 0;
	g->clock_from = CLOCK_GUESSED;
}

/* (8): an active worker's clock was `before`. */
static void moved(struct shard *s, uint32_t slot, uint64_t before)
{
	const struct tw_clocks *c = &s->clocks;

	if (s->clock[slot] == c->least)
		s->at_least++;
	if (s->clock[slot] < c->least ||
	    (before == c->least && (--s->at_least == 0 || c->least_slot == slot)))
		find_least(s);
}

void tw_shard_clock(struct shard *s, uint32_t slot, uint64_t clock)
{
	struct guest *g = &s->guest[slot];
	const uint64_t before = s->clock[slot];

	if (!(s->plan->gate->traits & TW_GATE_HOLDS))
		return;
	if (clock >= TW_CLOCK_MOST) {
		guess_clock(s, slot);
	} else if (g->clock_from != CLOCK_SAID || clock > before) { /* not an older word */
		g->clock_from = CLOCK_SAID;
		s->clock[slot] = clock;
	}
	if (!s->active[slot])
		set_active(s, slot);
	else if (s->clock[slot] != before)
		moved(s, slot, before);
}

/* --- members ------------------------------------------------------------------------------ */

void tw_shard_clear(struct shard *s, struct guest *g)
{
	for (uint32_t k = 0; g->sent && k < s->memory; k++)
		tw_block_drop(g->sent[k].block);
	if (g->sent)
		s->heap->put(s->heap, g->sent);
	tw_block_drop(g->mine);
	tw_block_drop(g->last);
	g->sent = NULL;
	g->mine = g->last = NULL;
	g->before = 0;
}

void tw_shard_unstage(struct guest *g)
{
	tw_block_drop(g->staged);
	g->staged = NULL;
}

static void forget(struct shard *s, uint32_t slot)
{
	struct guest *g = &s->guest[slot];

	tw_shard_unpark(s, slot);
	if (g->mine && s->plan->far.rule->leave) {
		s->plan->far.rule->leave(s->plan->far.options, s->array, tw_block_floats(g->mine),
					 s->trainable);
		tw_line_changed(s);
		s->moved = true; /* what workers see changed without an update */
	}
	tw_shard_clear(s, g);
}

enum tw_status tw_shard_make_mine(struct shard *s, struct guest *g)
{
	if (!(s->plan->far.rule->traits & TW_RULE_PER_WORKER) || g->mine)
		return TW_OK;
	g->mine = tw_block_new(s->heap, s->n * sizeof(float));
	if (!g->mine)
		return TW_NO_MEMORY;
	memset(g->mine->data, 0, g->mine->bytes);
	return TW_OK;
}

/* Somebody else has this slot now.  How far the one before was is kept: if one of the two was only
 * claimed, the other may come back, and what it pushed must not be taken twice. */
static void become(struct shard *s, uint32_t slot, uint32_t incarnation)
{
	struct guest *g = &s->guest[slot];
	const struct mark before = { g->incarnation, g->seq };

	if (g->state == TW_LIVE)
		forget(s, slot);
	g->seq = g->other.incarnation == incarnation ? g->other.seq : 0;
	g->other = before;
	g->incarnation = incarnation;
	g->state = TW_GONE;
	g->claimed = false;
	g->clock_from = CLOCK_UNKNOWN;
	g->bad_seq = g->strikes = 0;
	s->idle[slot] = false;
}

static void make_live(struct shard *s, struct tw_context *ctx, struct guest *g)
{
	g->state = TW_LIVE;
	if (tw_shard_make_mine(s, g) != TW_OK)
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a worker's arrays");
}

/* (9): the master does not know of this claim.  If it is true, the worker joins again. */
static void disclaim(struct shard *s, struct tw_context *ctx, uint32_t slot, uint32_t incarnation)
{
	struct guest *g = &s->guest[slot];

	s->tally.fenced++;
	if (g->state == TW_LIVE)
		tw_shard_turn_away(ctx, g->addr, g->incarnation);
	become(s, slot, incarnation);
}

void tw_shard_claim(struct shard *s, struct tw_context *ctx, uint32_t slot, uint32_t incarnation,
		    uint32_t node)
{
	struct guest *g = &s->guest[slot];

	become(s, slot, incarnation);
	g->claimed = true;
	g->node = node;
	make_live(s, ctx, g);
	set_active(s, slot); /* its clock comes with its word */
}

static void member(struct shard *s, struct tw_context *ctx, const struct tw_member *m, bool full)
{
	struct guest *g = &s->guest[m->slot];

	if (m->incarnation < g->incarnation && !(g->claimed && full))
		return;
	if (m->incarnation < g->incarnation)
		disclaim(s, ctx, m->slot, m->incarnation);
	else if (m->incarnation > g->incarnation)
		become(s, m->slot, m->incarnation);
	g->claimed = false;
	g->node = m->node;
	if (m->state == TW_LIVE && g->state != TW_LIVE) {
		make_live(s, ctx, g);
	} else if (m->state != TW_LIVE && g->state == TW_LIVE) {
		forget(s, m->slot);
		g->state = (uint8_t)m->state;
	}
	/* of those who worked before this shard was taken anew nothing is known */
	if (!full || s->at_zero)
		guess_clock(s, m->slot);
	set_active(s, m->slot);
}

void tw_shard_view(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_member *list = m->tail ? (const void *)m->tail->data : NULL;
	const size_t count = m->h.tail / sizeof *list;

	if (!s->hosted || m->h.view < s->generation || m->b.view.number < s->view)
		return;
	if (m->h.flags & TW_FLAG_FULL) {
		s->view = m->b.view.number;
		s->view_term = m->h.incarnation;
		memset(s->idle, 0, s->plan->crew.workers); /* who is idle is said after it */
	}
	if (m->h.view > s->generation) { /* (6): everybody starts anew from here */
		s->generation = m->h.view;
		for (uint32_t k = 0; k < s->plan->crew.workers; k++) {
			struct guest *g = &s->guest[k];

			tw_shard_unstage(g);
			tw_shard_unpark(s, k);
			for (uint32_t i = 0; g->sent && i < s->memory; i++) {
				tw_block_drop(g->sent[i].block);
				g->sent[i].block = NULL;
			}
			tw_block_drop(g->last);
			g->last = NULL;
			g->bad_seq = 0;
			g->clock_from = CLOCK_UNKNOWN;
			s->active[k] = false;
		}
		s->at_zero = true;
		find_least(s);
	}
	if (m->h.flags & TW_FLAG_FULL)
		for (uint32_t k = 0; k < s->plan->crew.workers; k++) {
			size_t i = 0;

			while (i < count && list[i].slot != k)
				i++;
			if (i < count)
				continue;
			if (s->guest[k].claimed)
				disclaim(s, ctx, k, s->guest[k].other.incarnation);
			if (s->guest[k].state == TW_LIVE || s->guest[k].mine)
				forget(s, k);
			s->guest[k].state = TW_GONE;
			set_active(s, k);
		}
	for (size_t k = 0; k < count; k++)
		if (list[k].slot < s->plan->crew.workers && list[k].state <= TW_LEFT)
			member(s, ctx, &list[k], m->h.flags & TW_FLAG_FULL);
	s->live = m->b.view.live;
	if (s->queued)
		tw_shard_release(s, ctx);
}

void tw_shard_idle(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_idle *i = &m->b.idle;

	if (!s->hosted || m->h.view != s->generation || i->slot >= s->plan->crew.workers ||
	    s->guest[i->slot].incarnation != i->incarnation)
		return;
	s->idle[i->slot] = i->idle;
	set_active(s, i->slot);
	if (s->queued)
		tw_shard_release(s, ctx);
}
