/* SPDX-License-Identifier: Apache-2.0 */
/* line.c - the one line that every method runs through on a shard:
 *
 *	correct → add → divide → weight decay → rule.apply → rule.view
 *
 * tile by tile, so that a tile stays in cache from the first hook to the last.
 *
 *  (1) an update reads the version before and writes the next one beside it, unless nobody else
 *      holds the version before: then it is changed in place.
 *  (2) nothing is written before all memory is there: an update happens whole or not at all.
 *  (3) a stage that has nothing to do (weight 1, no decay, no correction) is left out and does not
 *      change a bit by being left out.
 *  (4) what all workers see is made once per version; where each sees another vector, it is made
 *      from the array of that worker, which is there as long as the worker lives. */
#include "node/shard.h"
#include "vec/vec.h"

#include <math.h>
#include <string.h>

float tw_line_rate(const struct shard *s)
{
	return tw_schedule_rate(&s->plan->schedule, s->progress);
}

void tw_line_changed(struct shard *s)
{
	tw_block_drop(s->shown);
	tw_block_drop(s->wire);
	tw_block_drop(s->decoded);
	s->shown = s->wire = s->decoded = NULL;
}

/* The rule's view, in a new block; `mine` is of the worker that will see it, or NULL. */
static struct tw_block *make_view(struct shard *s, float *mine)
{
	const struct tw_rule *rule = s->plan->far.rule;
	struct tw_apply a = { .rate = tw_line_rate(s) };
	struct tw_block *b = tw_pool_take(s->pool);

	if (!b)
		return NULL;
	for (size_t at = 0; at < s->trainable; at += TW_TILE) {
		a.n = s->trainable - at < TW_TILE ? s->trainable - at : TW_TILE;
		a.w = tw_block_floats(s->w) + at;
		a.mine = mine ? mine + at : NULL;
		for (uint32_t k = 0; k < rule->arrays; k++)
			a.array[k] = s->array[k] + at;
		rule->view(s->plan->far.options, &a, tw_block_floats(b) + at);
	}
	tw_vec_copy(tw_block_floats(b) + s->trainable, tw_block_floats(s->w) + s->trainable,
		    s->n - s->trainable);
	return b;
}

bool tw_line_shows_each(const struct shard *s)
{
	const struct tw_plan *p = s->plan;

	return (p->far.rule->traits & TW_RULE_VIEW_MINE) &&
	       tw_rule_shows(p->far.rule, p->far.options);
}

struct tw_block *tw_line_shown_to(struct shard *s, const struct guest *g)
{
	/* without it there was no memory for it */
	return g->mine ? make_view(s, tw_block_floats(g->mine)) : NULL;
}

struct tw_block *tw_line_shown(struct shard *s)
{
	const struct tw_plan *p = s->plan;

	HOLDS(4, !tw_line_shows_each(s));
	if (s->shown)
		return s->shown;
	if (!tw_rule_shows(p->far.rule, p->far.options))
		return s->shown = tw_block_keep(s->w);
	return s->shown = make_view(s, NULL);
}

static const float *sent_to(const struct shard *s, const struct contribution *c)
{
	const struct guest *g = &s->guest[c->slot];

	if (!g->sent)
		return tw_block_floats(s->w);
	for (uint32_t k = 0; k < s->memory; k++)
		if (g->sent[k].block && g->sent[k].n == c->push.base.n)
			return tw_block_floats(g->sent[k].block);
	/* its worker has gone, or an answer was sent twice: no distance is known */
	return tw_block_floats(s->w);
}

/* What one update needs to know in every tile. */
struct update {
	const struct contribution *c;
	uint32_t count;
	bool in_turn, total, decays, observes;
	float rate, weight; /* weight: collected */
	struct tw_block *next;
};

/* The corrected mean gradient of contribution c at tile `at`, in *g (scratch or in place). */
static const float *corrected(struct shard *s, const struct update *u, const struct contribution *c,
			      const float *w, size_t at, size_t n, float *scratch, float *decay)
{
	const struct tw_staleness *policy = s->plan->staleness;
	const float *raw = c->g + at;
	struct tw_correction k = { .g = scratch, .w = w, .n = n, .tau = c->tau };

	if (!policy->correct)
		return raw;
	if (c->push.divide == 1.0f)
		tw_vec_copy(scratch, raw, n);
	else
		tw_vec_scale_to(scratch, 1.0f / c->push.divide, raw, n);
	if (policy->traits & TW_STALENESS_SENT)
		k.sent = sent_to(s, c) + at;
	if (u->decays && (policy->traits & TW_STALENESS_DECAY))
		k.decay = decay;
	for (uint32_t i = 0; i < policy->arrays; i++)
		k.array[i] = s->policy[i] + at;
	k.count = s->corrections + (uint64_t)(c - u->c) + 1;
	k.rate_max = s->rate_max;
	policy->correct(s->plan->staleness_options, &k);
	if (policy->traits & TW_STALENESS_STATISTIC)
		s->statistic += k.statistic;
	return scratch;
}

/* The only contribution of an update: a mean, which counts `weight` in a total. */
static const float *single(struct shard *s, const struct update *u, size_t at, size_t n)
{
	const struct tw_body_push *p = &u->c->push;
	const float *w = tw_block_floats(s->w) + at;
	const float divide = s->plan->staleness->correct ? 1.0f : p->divide;
	const float share = u->total ? p->weight / divide : 1.0f / divide;
	float *sum = s->tile, *factors = s->tile + 3 * TW_TILE;
	const float *g = corrected(s, u, u->c, w, at, n, sum, factors);

	if (share != 1.0f) {
		tw_vec_scale_to(sum, share, g, n);
		g = sum;
	}
	if (u->total && u->weight != 1.0f && u->decays &&
	    (s->plan->staleness->traits & TW_STALENESS_DECAY))
		tw_vec_scale(factors, u->weight, n);
	return g;
}

/* The mean of all contributions, or their total: *g is read only.  tile[0], tile[1] are scratch;
 * factors for the decay end in tile[3]. */
static const float *summed(struct shard *s, const struct update *u, size_t at, size_t n)
{
	float *sum = s->tile, *one = s->tile + TW_TILE, *factor = s->tile + 2 * TW_TILE;
	float *factors = s->tile + 3 * TW_TILE;
	const bool corrects = s->plan->staleness->correct != NULL;
	const bool varies = u->decays && (s->plan->staleness->traits & TW_STALENESS_DECAY);
	const float all = u->total ? 1.0f : u->weight;
	const float *w = tw_block_floats(s->w) + at, *g;

	if (u->count == 1)
		return single(s, u, at, n);
	for (uint32_t j = 0; j < u->count; j++) {
		const struct tw_body_push *p = &u->c[j].push;
		const float share = corrects ? p->weight : p->weight / p->divide;

		g = corrected(s, u, &u->c[j], w, at, n, one, factor);
		if (j == 0 && share == 1.0f)
			tw_vec_copy(sum, g, n);
		else if (j == 0)
			tw_vec_scale_to(sum, share, g, n);
		else if (share == 1.0f)
			tw_vec_add(sum, g, n);
		else
			tw_vec_axpy(sum, share, g, n);
		if (varies && j == 0)
			tw_vec_scale_to(factors, p->weight / all, factor, n);
		else if (varies)
			tw_vec_axpy(factors, p->weight / all, factor, n);
	}
	if (all != 1.0f)
		tw_vec_scale(sum, 1.0f / all, n);
	return sum;
}

/* g + decay * factor * w, in scratch; factor NULL: 1, or in a total as often as all weigh. */
static const float *decayed(struct shard *s, const struct update *u, const float *g, const float *w,
			    const float *factor, size_t n)
{
	const float decay = s->plan->decay;
	float *const scratch = s->tile;

	if (g != scratch)
		tw_vec_copy(scratch, g, n);
	if (!factor) {
		tw_vec_axpy(scratch, u->total && !u->in_turn ? decay * u->weight : decay, w, n);
		return scratch;
	}
	for (size_t i = 0; i < n; i++)
		scratch[i] = fmaf(decay * factor[i], w[i], scratch[i]);
	return scratch;
}

static void apply(struct shard *s, const struct update *u, const struct contribution *c,
		  const float *w, const float *g, size_t at, size_t n)
{
	const struct tw_plan *p = s->plan;
	struct tw_apply a = { .w = w,
			      .out = tw_block_floats(u->next) + at,
			      .g = g,
			      .n = n,
			      .rate = u->rate,
			      .count = s->version.n + 1,
			      .stream = s->streams && u->next != s->w && !u->observes };

	for (uint32_t k = 0; k < p->far.rule->arrays; k++)
		a.array[k] = s->array[k] + at;
	if (p->far.rule->traits & TW_RULE_PER_WORKER) {
		a.mine = tw_block_floats(s->guest[c->slot].mine) + at;
		a.before = s->guest[c->slot].before;
	}
	if (p->far.rule->traits & TW_RULE_OWN_DECAY)
		a.decay = p->decay;
	if (u->observes)
		a.direction = s->tile + TW_TILE;
	p->far.rule->apply(p->far.options, &a);
	if (u->observes) {
		float *policy[TW_STALENESS_ARRAYS];

		for (uint32_t k = 0; k < TW_STALENESS_ARRAYS; k++)
			policy[k] = s->policy[k] ? s->policy[k] + at : NULL;
		p->staleness->observe(p->staleness_options, policy, a.direction, n,
				      s->version.n + 1);
	}
}

static void one_tile(struct shard *s, const struct update *u, size_t at, size_t n)
{
	const bool varies = s->plan->staleness->traits & TW_STALENESS_DECAY;
	const float *w = tw_block_floats(s->w) + at;
	const float *g;

	if (!u->in_turn) {
		g = summed(s, u, at, n);
		if (u->decays)
			g = decayed(s, u, g, w, varies ? s->tile + 3 * TW_TILE : NULL, n);
		apply(s, u, u->c, w, g, at, n);
		return;
	}
	for (uint32_t j = 0; j < u->count; j++) {
		g = corrected(s, u, &u->c[j], w, at, n, s->tile, s->tile + 3 * TW_TILE);
		if (!s->plan->staleness->correct && u->c[j].push.divide != 1.0f) {
			tw_vec_scale_to(s->tile, 1.0f / u->c[j].push.divide, g, n);
			g = s->tile;
		}
		if (u->decays)
			g = decayed(s, u, g, w, varies ? s->tile + 3 * TW_TILE : NULL, n);
		apply(s, u, &u->c[j], w, g, at, n);
		w = tw_block_floats(u->next) + at;
	}
}

/* Running statistics: averaged by samples in a round, the change ÷ live workers elsewhere.  A round
 * adds them like gradients, so that N workers and one that accumulates N batches give the same
 * bits; `divide` makes a sum of batches a mean here too. */
static void buffers(struct shard *s, const struct update *u)
{
	const bool rounds = s->plan->gate->traits & TW_GATE_ROUNDS;
	const float live = (float)(s->live ? s->live : 1);
	float *out = tw_block_floats(u->next), *sum = s->tile;

	if (u->next != s->w)
		tw_vec_copy(out + s->trainable, tw_block_floats(s->w) + s->trainable,
			    s->n - s->trainable);
	for (size_t at = s->trainable; at < s->n; at += TW_TILE) {
		const size_t n = s->n - at < TW_TILE ? s->n - at : TW_TILE;

		for (uint32_t j = 0; j < u->count; j++) {
			const struct tw_body_push *p = &u->c[j].push;
			const float *g = u->c[j].g + at;

			if (!rounds)
				tw_vec_axpy(out + at, 1.0f / (p->divide * live), g, n);
			else if (j == 0)
				tw_vec_scale_to(sum, p->weight / p->divide, g, n);
			else
				tw_vec_axpy(sum, p->weight / p->divide, g, n);
		}
		if (rounds) {
			tw_vec_scale(sum, 1.0f / u->weight, n);
			tw_vec_add(out + at, sum, n);
		}
	}
}

static float rate_of(struct shard *s, const struct contribution *c, uint32_t count)
{
	const bool rounds = s->plan->gate->traits & TW_GATE_ROUNDS;
	double progress = c[0].push.progress;

	/* a round is where its first stripe is, as for one worker that accumulates all of them;
	 * stripes dealt again do not take it back */
	for (uint32_t j = 1; j < count; j++)
		progress = rounds ? fmin(progress, c[j].push.progress)
				  : fmax(progress, c[j].push.progress);
	if (rounds)
		progress = fmax(progress, s->progress);
	if (progress > s->progress)
		s->progress = progress;
	if (s->plan->far.rule->traits & TW_RULE_STAMPED)
		return c[0].push.rate;
	return tw_schedule_rate(&s->plan->schedule, progress);
}

static void count_in(struct shard *s, struct tw_context *ctx, const struct contribution *c)
{
	const uint64_t tau = c->tau;

	s->contributions++;
	s->guest[c->slot].applied++;
	s->tally.contributions++;
	s->tally.steps += c->push.steps;
	s->tally.samples += c->push.samples;
	s->tally.staleness_sum += tau;
	s->tally.staleness_count++;
	if (tau > s->tally.staleness_max)
		s->tally.staleness_max = tau;
	s->tally.histogram[tau < TW_HISTOGRAM - 1 ? tau : TW_HISTOGRAM - 1]++;
	for (uint32_t k = 0; ctx->noting && k < c->push.ranges; k++) {
		struct tw_note note = { .kind = TW_NOTE_APPLY,
					.shard = s->index,
					.slot = c->slot,
					.incarnation = c->incarnation,
					.seq = c->seq,
					.tau = tau,
					.version = s->version.n,
					.round = s->round,
					.from = c->push.range[k].from,
					.value = s->version.incarnation,
					.count = c->push.range[k].count };

		if (s->plan->gaps && k == 0) {
			note.before = tw_block_floats(s->w);
			note.sent = sent_to(s, c);
			note.n = s->trainable;
		}
		tw_note(ctx, &note);
	}
}

static enum tw_status note_twice(struct shard *s, uint64_t from, uint64_t to)
{
	enum tw_status st = TW_OK;
	struct tw_span a;

	for (uint64_t at = from; st == TW_OK && tw_spans_next(&s->applied, at, &a) && a.from < to;
	     at = a.to)
		st = tw_spans_add(&s->twice, a.from > from ? a.from : from, a.to < to ? a.to : to,
				  NULL);
	return st;
}

/* Positions go into the history after the arithmetic; a failed allocation here is reported by the
 * caller, which gives the run up. */
static enum tw_status remember(struct shard *s, const struct contribution *c)
{
	for (uint32_t k = 0; k < c->push.ranges; k++) {
		const uint64_t from = c->push.range[k].from, to = from + c->push.range[k].count;
		enum tw_status st = TW_OK;

		if (tw_spans_within(&s->applied, from, to))
			st = note_twice(s, from, to);
		if (st == TW_OK)
			st = tw_spans_add(&s->applied, from, to, NULL);
		if (st != TW_OK)
			return st;
	}
	return TW_OK;
}

/* One gradient, applied at once as it is by the plain rule, and nobody looks on. */
static bool is_plain(const struct tw_plan *p, const struct tw_body_push *push)
{
	return (p->far.rule->traits & TW_RULE_PLAIN) &&
	       !(p->gate->traits & (TW_GATE_ROUNDS | TW_GATE_COLLECTS | TW_GATE_LOCKFREE)) &&
	       !p->staleness->correct && !p->staleness->observe && p->decay == 0.0f &&
	       push->divide == 1.0f;
}

enum tw_status tw_line_check(struct shard *s, const struct tw_body_push *push, const float *g)
{
	struct tw_block *next;

	/* one pass that checks and writes another block costs less than two over the same one */
	if (!is_plain(s->plan, push))
		return tw_vec_finite(g, s->n) ? TW_OK : TW_BAD_BYTES;
	next = tw_pool_take(s->pool);
	if (!next)
		return TW_NO_MEMORY;
	if (!tw_vec_sgd_finite(tw_block_floats(next), tw_block_floats(s->w), g,
			       tw_schedule_rate(&s->plan->schedule, push->progress), s->trainable,
			       false) ||
	    !tw_vec_finite(g + s->trainable, s->n - s->trainable)) {
		tw_block_drop(next);
		return TW_BAD_BYTES;
	}
	tw_line_unprepare(s);
	s->prepared = next;
	return TW_OK;
}

void tw_line_unprepare(struct shard *s)
{
	tw_block_drop(s->prepared);
	s->prepared = NULL;
}

/* Where the next version goes: over this one if nobody else has it. */
static struct tw_block *next_block(struct shard *s, bool *ready)
{
	struct tw_block *next = s->prepared;

	*ready = next != NULL;
	s->prepared = NULL;
	if (next)
		return next;
	return atomic_load_explicit(&s->w->refs, memory_order_acquire) == 1 ? s->w
									    : tw_pool_take(s->pool);
}

enum tw_status tw_line_update(struct shard *s, struct tw_context *ctx, const struct contribution *c,
			      uint32_t count)
{
	const struct tw_plan *p = s->plan;
	struct update u = { .c = c, .count = count };
	enum tw_status st = TW_OK;
	bool ready;

	if (count == 0)
		return TW_OK;
	tw_line_changed(s);
	u.next = next_block(s, &ready);
	if (!u.next)
		return TW_NO_MEMORY;
	u.in_turn = p->gate->in_turn && p->gate->in_turn(p->gate_options);
	u.total = p->gate->totals && p->gate->totals(p->gate_options);
	u.decays = p->decay != 0.0f && !(p->far.rule->traits & TW_RULE_OWN_DECAY);
	u.observes = p->staleness->observe != NULL;
	for (uint32_t j = 0; j < count; j++) {
		u.weight += c[j].push.weight;
		count_in(s, ctx, &c[j]);
	}
	u.rate = rate_of(s, c, count);
	if (u.in_turn && !u.total)
		u.rate /= (float)count;
	s->statistic = 0;
	for (size_t at = 0; at < s->trainable && !ready; at += TW_TILE)
		one_tile(s, &u, at, s->trainable - at < TW_TILE ? s->trainable - at : TW_TILE);
	buffers(s, &u);
	if (p->far.rule->traits & TW_RULE_PER_WORKER)
		for (uint32_t j = 0; j < count; j++)
			s->guest[c[j].slot].before = u.rate;
	s->corrections += count;
	if (u.next != s->w) {
		tw_block_drop(s->w);
		s->w = u.next;
	}
	s->version.n++;
	s->moved = false;
	s->tally.updates++;
	s->statistic /= count;
	for (uint32_t j = 0; j < count && st == TW_OK; j++)
		st = remember(s, &c[j]);
	if (ctx->noting)
		tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_UPDATE,
						.shard = s->index,
						.version = s->version.n,
						.value = u.rate });
	return st;
}

enum tw_status tw_line_count(struct shard *s, struct tw_context *ctx, const struct contribution *c)
{
	count_in(s, ctx, c);
	if (c->push.progress > s->progress)
		s->progress = c->push.progress;
	s->version.n++;
	s->tally.updates++;
	return remember(s, c);
}
