/* SPDX-License-Identifier: Apache-2.0 */
/* samples_worker.c - a worker asks for the samples of its next steps, while it computes.  The
 * numbers in brackets are those of README.md. */
#include "node/duty/samples/samples.h"
#include "node/worker/worker.h"

#include <stddef.h>

#define STEPS (TW_AHEAD_MOST + 1) /* with the one under way */

/* The samples of a step. */
struct step_samples {
	uint64_t from;
	uint32_t count;         /* 0: of none */
	struct tw_block *block; /* NULL: they are on their way */
	const uint8_t *at;      /* in it */
};

struct samples_worker {
	struct step_samples step[STEPS];
	struct tw_block *using; /* what the computation reads */
	bool waits;             /* for those of the next step */
	/* Rounds (4): the lease after the last one, if it is as far from it as that was from the
	 * one before. */
	struct held last;
	uint64_t apart; /* between the last two */
	bool even;      /* ... and between the two before */
};

static void forget(struct step_samples *s)
{
	tw_block_drop(s->block);
	*s = (struct step_samples){ 0 };
}

/* --- what is wanted --------------------------------------------------------------------------- */

/* Steps that will be made, in order. */
struct wanted {
	struct step_samples step[STEPS];
	uint32_t count, most;
};

static void want_lease(const struct worker *w, const struct held *lease, struct wanted *out)
{
	struct held h = *lease;

	while (out->count < out->most && h.next < h.to) {
		struct step_samples *s = &out->step[out->count++];

		s->count = tw_worker_next_step(w, &h, &s->from);
		h.next += s->count;
	}
}

/* (4) */
static void want_guess(const struct worker *w, struct wanted *out)
{
	const struct samples_worker *s = w->given;
	const uint64_t positions = w->plan->dealing.positions;
	struct held next = s->last;

	if (!s->even || !s->apart || next.to > positions || s->apart > positions - next.to)
		return;
	next.from += s->apart;
	next.to += s->apart;
	next.next = next.from;
	want_lease(w, &next, out);
}

static struct wanted list_wanted(const struct worker *w)
{
	struct wanted out = { .most = w->plan->dealing.ahead + 1 };

	for (uint32_t k = 0; k < w->leases.count; k++)
		if (!w->leases.held[k].over)
			want_lease(w, &w->leases.held[k], &out);
	want_guess(w, &out);
	return out;
}

/* (4) */
void tw_samples_worker_leased(struct worker *w, const struct held *lease)
{
	struct samples_worker *s = w->given;
	uint64_t apart;

	if (!s || !tw_worker_rounds(w))
		return;
	apart = lease->from > s->last.from ? lease->from - s->last.from : 0;
	s->even = apart == s->apart;
	s->apart = apart;
	s->last = *lease;
}

static bool is_same(const struct step_samples *a, const struct step_samples *b)
{
	return a->from == b->from && a->count == b->count;
}

static struct step_samples *find(struct samples_worker *s, const struct step_samples *what)
{
	for (uint32_t k = 0; k < STEPS; k++)
		if (is_same(&s->step[k], what))
			return &s->step[k];
	return NULL;
}

static bool is_wanted(const struct wanted *all, const struct step_samples *s)
{
	for (uint32_t k = 0; k < all->count; k++)
		if (is_same(&all->step[k], s))
			return true;
	return false;
}

/* --- asking ----------------------------------------------------------------------------------- */

static void ask(struct worker *w, struct tw_context *ctx, const struct step_samples *s)
{
	struct tw_msg *m = tw_worker_to_master(w, ctx, TW_FETCH);

	if (!m)
		return;
	m->b.fetch = (struct tw_body_fetch){ .from = s->from, .count = s->count };
	tw_send(ctx, m);
}

void tw_samples_worker_ahead(struct worker *w, struct tw_context *ctx)
{
	struct samples_worker *s = w->given;
	struct wanted all;

	if (!s || !tw_worker_is_member(w))
		return;
	all = list_wanted(w);
	for (uint32_t k = 0; k < STEPS; k++)
		if (!is_wanted(&all, &s->step[k]))
			forget(&s->step[k]);
	for (uint32_t k = 0; k < all.count; k++)
		if (!find(s, &all.step[k])) {
			*find(s, &(struct step_samples){ 0 }) = all.step[k];
			ask(w, ctx, &all.step[k]);
		}
}

bool tw_samples_worker_here(struct worker *w, struct tw_context *ctx, const struct held *lease)
{
	struct step_samples next = { 0 };
	const struct step_samples *s;
	bool here;

	if (!w->given)
		return true;
	next.count = tw_worker_next_step(w, lease, &next.from);
	s = find(w->given, &next);
	here = s && s->block;
	if (!here && !w->given->waits)
		w->since = tw_now(ctx);
	w->given->waits = !here;
	return here;
}

const uint8_t *tw_samples_worker_take(struct worker *w, uint64_t from, uint32_t count)
{
	const struct step_samples *s;

	if (!w->given)
		return NULL;
	s = find(w->given, &(struct step_samples){ .from = from, .count = count });
	tw_block_drop(w->given->using);
	w->given->using = tw_block_keep(s->block);
	return s->at;
}

void tw_samples_worker_reset(struct worker *w)
{
	if (!w->given)
		return;
	for (uint32_t k = 0; k < STEPS; k++)
		if (!w->given->step[k].block)
			forget(&w->given->step[k]);
	w->given->waits = false;
}

void tw_samples_worker_resend(struct worker *w, struct tw_context *ctx)
{
	for (uint32_t k = 0; w->given && k < STEPS; k++)
		if (w->given->step[k].count && !w->given->step[k].block)
			ask(w, ctx, &w->given->step[k]);
}

bool tw_samples_worker_waits(const struct worker *w)
{
	return w->given && w->given->waits;
}

/* --- the duty --------------------------------------------------------------------------------- */

/* What was not asked for, or not like this, is not heard. */
static void arrived(struct samples_worker *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_engine *e = ctx->engine;
	const struct tw_body_fetch *b = &m->b.fetch;
	struct step_samples *mine =
		find(s, &(struct step_samples){ .from = b->from, .count = b->count });

	if (!b->count || !mine || mine->block || !m->h.payload ||
	    m->h.payload != e->class->given_bytes(e, b->count))
		return;
	mine->block = tw_block_keep(m->payload);
	mine->at = tw_msg_payload(m);
}

static void message(void *actor, struct tw_context *ctx, const struct tw_msg *m)
{
	arrived(((struct worker *)actor)->given, ctx, m);
}

static void close_samples(void *actor)
{
	struct samples_worker *s = ((struct worker *)actor)->given;

	for (uint32_t k = 0; k < STEPS; k++)
		forget(&s->step[k]);
	tw_block_drop(s->using);
	*s = (struct samples_worker){ 0 };
}

const struct tw_duty tw_samples_worker = {
	.name = "samples",
	.bytes = sizeof(struct samples_worker),
	.place = offsetof(struct worker, given),
	.hears = TW_HEARS(TW_SAMPLES),
	.wanted = tw_plan_sends_samples,
	.close = close_samples,
	.message = message,
};
