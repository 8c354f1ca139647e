/* SPDX-License-Identifier: Apache-2.0 */
/* slice_update.c - the one line that every method runs through, over one slice:
 *
 *	correct → add → divide → weight decay → rule.apply → projection → rule.view
 *
 * tile by tile, so that a tile stays in cache from the first hook to the last; only a projection
 * walks over the whole slice after that.  The rules are in slice_update.h. */
#include "node/slice_update.h"
#include "node/half.h"
#include "vec/vec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What one update needs to know in every tile. */
struct update {
	struct contribution *const *c;
	uint32_t count, live; /* count: of those that have a vector */
	bool together;        /* all are of one version, as if one worker had accumulated them */
	bool in_turn, total, decays, observes;
	bool plain;         /* w - rate * share * g of one contribution, and nothing else */
	float trims;        /* below 0: a mean by weight */
	float rate, weight; /* weight: collected */
	float factor;       /* of the rate, in this tile */
	struct tw_block *next;
};

static const struct slice_part *part_at(const struct contribution *c, size_t at)
{
	uint32_t low = 0, high = c->parts - 1;

	while (low < high) {
		const uint32_t mid = low + (high - low) / 2;

		if (at < c->part[mid].from + c->part[mid].n)
			high = mid;
		else
			low = mid + 1;
	}
	return &c->part[low];
}

/* What the contribution has from `at` on, as far as tile_from says. */
static const float *values(const struct contribution *c, size_t at)
{
	const struct slice_part *p = c->g ? NULL : part_at(c, at);

	return p ? p->at + (at - p->from) : c->g + at;
}

/* How many values from `at` on go through the line together: up to the next border of tiles (one
 * pass needs none), and only what lies together in every contribution. */
static size_t tile_from(const struct update *u, size_t at, size_t end)
{
	size_t to = u->plain ? end : at - at % TW_TILE + TW_TILE;

	to = to < end ? to : end;
	for (uint32_t j = 0; j < u->count; j++)
		if (u->c[j]->parts) {
			const struct slice_part *p = part_at(u->c[j], at);

			to = p->from + p->n < to ? p->from + p->n : to;
		}
	return to - at;
}

/* The same, as far as the rate has one factor, which is set. */
static size_t tile_of_one_rate(const struct slice *s, struct update *u, size_t at, size_t end)
{
	return tw_half_run(&s->plan->far, s->from + at, tile_from(u, at, end), &u->factor);
}

/* The corrected mean gradient of contribution j at tile `at`, in scratch or in place. */
static const float *corrected(struct slice *s, const struct update *u, uint32_t j, const float *w,
			      size_t at, size_t n, float *scratch, float *decay)
{
	const struct tw_staleness *policy = s->plan->staleness;
	const struct contribution *c = u->c[j];
	const float *raw = values(c, at);
	struct tw_correction k = { .g = scratch, .w = w, .n = n, .tau = c->tau };

	if (!policy->correct)
		return raw;
	if (c->push.account.divide == 1.0f)
		tw_vec_copy(scratch, raw, n);
	else
		tw_vec_scale_to(scratch, 1.0f / c->push.account.divide, raw, n);
	if (policy->traits & TW_STALENESS_SENT)
		k.sent = (c->sent ? c->sent : tw_block_floats(s->w)) + at;
	if (u->decays && (policy->traits & TW_STALENESS_DECAY))
		k.decay = decay;
	for (uint32_t i = 0; i < policy->arrays; i++)
		k.array[i] = s->policy[i] + at;
	k.count = s->history.corrections + j + 1;
	k.rate_max = s->rate_max * u->factor;
	policy->correct(s->plan->staleness_options, &k);
	if (policy->traits & TW_STALENESS_STATISTIC)
		s->history.statistic += k.statistic;
	return scratch;
}

/* The vector will not be read soon: it may be written past the caches. */
static bool streams(const struct slice *s, const struct update *u)
{
	return s->streams && u->next != s->w && !u->observes;
}

/* What the values of the only contribution of an update count. */
static float share_of(const struct update *u, float divide)
{
	return u->total ? u->c[0]->push.account.weight / divide : 1.0f / divide;
}

/* The only contribution of an update: a mean, which counts `weight` in a total. */
static const float *single(struct slice *s, const struct update *u, size_t at, size_t n)
{
	const struct tw_account *p = &u->c[0]->push.account;
	const float *w = tw_block_floats(s->w) + at;
	const float divide = s->plan->staleness->correct ? 1.0f : p->divide;
	const float share = share_of(u, divide);
	float *sum = s->tile, *factors = s->tile + 3 * s->stride;
	const float *g = corrected(s, u, 0, w, at, n, sum, factors);

	if (share != 1.0f) {
		tw_vec_scale_to(sum, share, g, n);
		g = sum;
	}
	if (u->total && u->weight != 1.0f && u->decays &&
	    (s->plan->staleness->traits & TW_STALENESS_DECAY))
		tw_vec_scale(factors, u->weight, n);
	return g;
}

static int by_value(const void *a, const void *b)
{
	const float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

/* Values of one parameter, smallest first: a few are put in place one by one. */
static void sort(float *x, uint32_t n)
{
	if (n > 32) {
		qsort(x, n, sizeof *x, by_value);
		return;
	}
	for (uint32_t i = 1; i < n; i++) {
		const float v = x[i];
		uint32_t k = i;

		for (; k && x[k - 1] > v; k--)
			x[k] = x[k - 1];
		x[k] = v;
	}
}

/* The mean of what is left when a share is cut off at each end; the median where that would leave
 * nothing, or where the share is a half. */
static void trimmed(struct slice *s, const struct update *u, float *out, size_t at, size_t n)
{
	const uint32_t cut = (uint32_t)(u->trims * (float)u->count);
	const uint32_t most = (u->count - 1) / 2, off = cut < most ? cut : most;

	for (size_t i = 0; i < n; i++) {
		double sum = 0.0;

		for (uint32_t j = 0; j < u->count; j++)
			s->sorted[j] = u->c[j]->g[at + i] / u->c[j]->push.account.divide;
		sort(s->sorted, u->count);
		for (uint32_t j = off; j < u->count - off; j++)
			sum += s->sorted[j];
		out[i] = (float)(sum / (double)(u->count - 2 * off));
	}
}

/* The mean of all contributions, or their total: *g is read only.  tile[0], tile[1] are scratch;
 * factors for the decay end in tile[3]. */
static const float *summed(struct slice *s, const struct update *u, size_t at, size_t n)
{
	float *sum = s->tile, *one = s->tile + s->stride, *factor = s->tile + 2 * s->stride;
	float *factors = s->tile + 3 * s->stride;
	const bool corrects = s->plan->staleness->correct != NULL;
	const bool varies = u->decays && (s->plan->staleness->traits & TW_STALENESS_DECAY);
	const float all = u->total ? 1.0f : u->weight;
	const float *w = tw_block_floats(s->w) + at, *g;

	if (u->count == 1)
		return single(s, u, at, n);
	if (u->trims >= 0.0f) {
		trimmed(s, u, sum, at, n);
		return sum;
	}
	for (uint32_t j = 0; j < u->count; j++) {
		const struct tw_account *p = &u->c[j]->push.account;
		const float share = corrects ? p->weight : p->weight / p->divide;

		g = corrected(s, u, j, w, at, n, one, factor);
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
static const float *decayed(struct slice *s, const struct update *u, const float *g, const float *w,
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

static void apply(struct slice *s, const struct update *u, uint32_t j, const float *w,
		  const float *g, size_t at, size_t n)
{
	const struct tw_plan *p = s->plan;
	struct tw_apply a = { .w = w,
			      .out = tw_block_floats(u->next) + at,
			      .g = g,
			      .n = n,
			      .rate = u->rate * u->factor,
			      .count = s->version.n + 1,
			      .workers = p->crew.workers,
			      .stream = streams(s, u) };

	for (uint32_t k = 0; k < p->far.rule->arrays; k++)
		a.array[k] = s->array[k] + at;
	if (p->far.rule->traits & TW_RULE_PER_WORKER) {
		const struct slice_own *own = &s->own[u->c[j]->slot];

		a.mine = tw_block_floats(own->array) + at;
		a.before = own->before * u->factor;
	}
	if (p->far.rule->traits & TW_RULE_OWN_DECAY)
		a.decay = p->decay;
	if (u->observes)
		a.direction = s->tile + s->stride;
	p->far.rule->apply(p->far.options, &a);
	if (u->observes) {
		float *policy[TW_STALENESS_ARRAYS];

		for (uint32_t k = 0; k < TW_STALENESS_ARRAYS; k++)
			policy[k] = s->policy[k] ? s->policy[k] + at : NULL;
		p->staleness->observe(p->staleness_options, policy, a.direction, n,
				      s->version.n + 1);
	}
}

static void one_tile(struct slice *s, const struct update *u, size_t at, size_t n)
{
	const bool varies = s->plan->staleness->traits & TW_STALENESS_DECAY;
	const float *w = tw_block_floats(s->w) + at;
	const float *g;

	if (u->plain) {
		tw_vec_sgd_share(tw_block_floats(u->next) + at, w, values(u->c[0], at),
				 share_of(u, u->c[0]->push.account.divide), u->rate * u->factor, n,
				 streams(s, u));
		return;
	}
	if (!u->in_turn) {
		g = summed(s, u, at, n);
		if (u->decays)
			g = decayed(s, u, g, w, varies ? s->tile + 3 * s->stride : NULL, n);
		apply(s, u, 0, w, g, at, n);
		return;
	}
	for (uint32_t j = 0; j < u->count; j++) {
		const float divide = u->c[j]->push.account.divide;

		g = corrected(s, u, j, w, at, n, s->tile, s->tile + 3 * s->stride);
		if (!s->plan->staleness->correct && divide != 1.0f) {
			tw_vec_scale_to(s->tile, 1.0f / divide, g, n);
			g = s->tile;
		}
		if (u->decays)
			g = decayed(s, u, g, w, varies ? s->tile + 3 * s->stride : NULL, n);
		apply(s, u, j, w, g, at, n);
		w = tw_block_floats(u->next) + at;
	}
}

/* The floats of the buffers in a contribution, from `at` on. */
static const float *buffers_at(const struct slice *s, const struct contribution *c, size_t at)
{
	return c->coded ? tw_block_floats(c->block) + (at - s->trainable) : values(c, at);
}

/* Running statistics: averaged by samples where contributions belong together, the change ÷ live
 * workers elsewhere.  A round adds them like gradients, so that N workers and one that
 * accumulates N batches give the same
 * bits; `divide` makes a sum of batches a mean here too. */
static void update_buffers(struct slice *s, const struct update *u)
{
	const float live = (float)(u->live ? u->live : 1);
	float *out = tw_block_floats(u->next), *sum = s->tile;

	if (s->n == s->trainable)
		return;
	if (u->next != s->w)
		tw_vec_copy(out + s->trainable, tw_block_floats(s->w) + s->trainable,
			    s->n - s->trainable);
	for (size_t at = s->trainable, n; at < s->n; at += n) {
		n = tile_from(u, at, s->n);
		for (uint32_t j = 0; j < u->count; j++) {
			const struct tw_account *p = &u->c[j]->push.account;
			const float *g = buffers_at(s, u->c[j], at);

			if (!u->together)
				tw_vec_axpy(out + at, 1.0f / (p->divide * live), g, n);
			else if (j == 0)
				tw_vec_scale_to(sum, p->weight / p->divide, g, n);
			else
				tw_vec_axpy(sum, p->weight / p->divide, g, n);
		}
		if (u->together) {
			tw_vec_scale(sum, 1.0f / u->weight, n);
			tw_vec_add(out + at, sum, n);
		}
	}
}

/* The state of the workers' rule is a mean of values, by samples: a mean of second moments is never
 * negative.  It has seen as many steps as the one of them that has seen most. */
static void update_state(struct slice *s, const struct update *u)
{
	float *const out = tw_block_floats(u->next);
	double samples = 0;

	for (uint32_t j = 0; j < u->count; j++)
		samples += u->c[j]->push.account.samples;
	for (size_t at = s->n; at < s->all; at += TW_TILE) {
		const size_t n = s->all - at < TW_TILE ? s->all - at : TW_TILE;

		if (u->count == 1)
			tw_vec_copy(out + at, u->c[0]->g + at, n);
		else if (u->trims >= 0.0f)
			trimmed(s, u, out + at, at, n);
		for (uint32_t j = 0; j < u->count && u->count > 1 && u->trims < 0.0f; j++) {
			const float share = (float)(u->c[j]->push.account.samples / samples);

			if (j == 0)
				tw_vec_scale_to(out + at, share, u->c[j]->g + at, n);
			else
				tw_vec_axpy(out + at, share, u->c[j]->g + at, n);
		}
	}
	for (uint32_t j = 0; j < u->count; j++)
		if (u->c[j]->push.count > s->state_count)
			s->state_count = u->c[j]->push.count;
}

/* The rate of an update: that of what is applied before it. */
static float update_rate(const struct slice *s, const struct update *u)
{
	const float rate = tw_plan_update(s->plan)->rule->traits & TW_RULE_STAMPED
				   ? u->c[0]->push.rate
				   : tw_slice_rate(s);

	return u->in_turn && !u->total ? rate / (float)u->count : rate;
}

/* --- a part of a sum ------------------------------------------------------------------------ */

/* How the plan wants contributions to be added and applied. */
static void describe(const struct slice *s, struct update *u)
{
	const struct tw_plan *p = s->plan;

	u->together = (p->gate->traits & TW_GATE_ROUNDS) ||
		      tw_gate_keeps(p->gate, p->gate_options) != TW_KEEP_EACH;
	u->in_turn = tw_gate_is_in_turn(p->gate, p->gate_options);
	u->total =
		(p->far.rule->traits & TW_RULE_TOTAL) || tw_gate_totals(p->gate, p->gate_options);
	u->trims = tw_gate_trims(p->gate, p->gate_options);
	u->decays = p->decay != 0.0f && !(p->far.rule->traits & TW_RULE_OWN_DECAY);
	u->observes = p->staleness->observe != NULL;
	u->plain = u->count == 1 && (p->far.rule->traits & TW_RULE_PLAIN) && !u->in_turn &&
		   !u->decays && !u->observes && !p->staleness->correct && u->trims < 0.0f;
	for (uint32_t j = 0; j < u->count; j++)
		u->weight += u->c[j]->push.account.weight;
}

/* Does the next version follow from this one and the sum alone, part by part? */
static bool stages_sums(const struct slice *s, const struct update *u)
{
	const struct tw_rule *rule = s->plan->far.rule;

	return !rule->arrays && !(rule->traits & (TW_RULE_PER_WORKER | TW_RULE_STAMPED)) &&
	       !s->plan->staleness->correct && !u->observes && !u->in_turn && u->trims < 0.0f;
}

bool tw_slice_update_stage_part(struct slice *s, struct contribution *c)
{
	const struct slice_part *p = c->part;
	const size_t end = p->from + p->n < s->trainable ? p->from + p->n : s->trainable;
	struct update u = { .c = &c, .count = 1 };
	struct slice_next *next = &s->next;

	describe(s, &u);
	if (p->from >= end || !stages_sums(s, &u))
		return false;
	u.rate = tw_slice_rate(s);
	if (!next->w && !next->none) {
		next->w = tw_pool_take(s->pool);
		next->none = !next->w;
	}
	if (!next->w)
		return false;
	u.next = next->w;
	for (size_t at = p->from, n; at < end; at += n) {
		n = tile_of_one_rate(s, &u, at, end);
		one_tile(s, &u, at, n);
	}
	next->values += end - p->from;
	return p->from + p->n == end;
}

/* --- commit --------------------------------------------------------------------------------- */

/* Where the next version goes: what is staged, or over this one if nobody else has it. */
static struct tw_block *next_block(struct slice *s)
{
	if (s->next.w)
		return tw_block_keep(s->next.w);
	return atomic_load_explicit(&s->w->refs, memory_order_acquire) == 1 ? tw_block_keep(s->w)
									    : tw_pool_take(s->pool);
}

/* (4): is what is staged what this update would make? */
static bool is_staged(const struct slice *s, const struct update *u)
{
	const struct slice_next *next = &s->next;

	if (!next->w || next->g)
		return next->w;
	return u->count == 1 && u->c[0]->parts && next->values == s->trainable;
}

/* (5): a sparse contribution, which is alone in its update. */
static void add_sparse(struct slice *s, const struct update *u)
{
	const struct tw_traffic *t = &s->plan->traffic;
	const struct contribution *c = u->c[0];
	float *out = tw_block_floats(u->next);

	HOLDS(5, u->count == 1);
	if (u->next != s->w)
		tw_vec_copy(out, tw_block_floats(s->w), s->trainable);
	t->up->add(t->up_options, c->coded, c->coded_bytes, -u->rate, out, s->trainable);
}

static void run_tiles(struct slice *s, struct update *u)
{
	s->history.statistic = 0;
	if (u->c[0]->coded)
		add_sparse(s, u);
	else
		for (size_t at = 0, n; at < s->trainable && !s->next.w; at += n) {
			n = tile_of_one_rate(s, u, at, s->trainable);
			one_tile(s, u, at, n);
		}
	update_buffers(s, u);
	if (s->all > s->n)
		update_state(s, u);
	s->history.statistic /= u->count;
}

static void finish_update(struct slice *s, struct tw_context *ctx, const struct update *u)
{
	for (uint32_t j = 0; s->own && j < u->count; j++)
		s->own[u->c[j]->slot].before = u->rate;
	s->history.corrections += u->count;
	tw_slice_update_unstage(s);
	tw_block_drop(s->w);
	s->w = u->next;
	s->view.moved = false;
	s->version.n++;
	s->tally.updates++;
	if (ctx->noting && !s->quiet)
		tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_UPDATE,
						.shard = s->index,
						.version = s->version.n,
						.update.rate = u->rate });
}

enum tw_status tw_slice_update_fold(struct slice *s, struct contribution *into,
				    struct contribution *c)
{
	const float share = c->push.account.weight / c->push.account.divide;
	struct tw_block *sum = into->block;

	if (into->g != tw_block_floats(sum) ||
	    into->push.account.divide != into->push.account.weight ||
	    atomic_load_explicit(&sum->refs, memory_order_acquire) != 1) {
		sum = tw_pool_take(s->pool);
		if (!sum)
			return TW_NO_MEMORY;
		tw_vec_scale_to(tw_block_floats(sum),
				into->push.account.weight / into->push.account.divide, into->g,
				s->n);
		tw_block_drop(into->block);
		into->block = sum;
		into->g = tw_block_floats(sum);
	}
	if (share == 1.0f)
		tw_vec_add(tw_block_floats(sum), c->g, s->n);
	else
		tw_vec_axpy(tw_block_floats(sum), share, c->g, s->n);
	into->push.account.weight += c->push.account.weight;
	into->push.account.divide = into->push.account.weight;
	tw_block_drop(c->block);
	c->block = NULL;
	c->g = NULL;
	return TW_OK;
}

static bool has_vector(const struct contribution *c)
{
	return c->g || c->parts || c->coded;
}

/* How many have a vector of their own. */
static uint32_t leading(struct contribution *const *c, uint32_t count)
{
	uint32_t k = count;

	while (k && !has_vector(c[k - 1]))
		k--;
	return k;
}

enum tw_status tw_slice_update_commit(struct slice *s, struct tw_context *ctx,
				      struct contribution *const *c, uint32_t count, uint32_t live)
{
	struct update u = { .c = c, .count = leading(c, count), .live = live };

	HOLDS(4, !s->next.g || (count == 1 && c[0]->g == s->next.g));
	if (count == 0)
		return TW_OK;
	if (!u.count) /* they bring nothing for this slice: the version stays */
		return tw_slice_record(s, ctx, c, count);
	tw_slice_hide(s);
	describe(s, &u);
	if (!is_staged(s, &u))
		tw_slice_update_unstage(s);
	u.next = next_block(s);
	if (!u.next)
		return TW_NO_MEMORY;
	u.rate = update_rate(s, &u);
	if (tw_slice_record(s, ctx, c, count) != TW_OK) {
		tw_block_drop(u.next);
		return TW_NO_MEMORY;
	}
	run_tiles(s, &u);
	tw_project(&s->plan->projection, tw_block_floats(u.next), s->trainable);
	finish_update(s, ctx, &u);
	return TW_OK;
}

enum tw_status tw_slice_update_count(struct slice *s, struct tw_context *ctx,
				     struct contribution *c)
{
	if (tw_slice_record(s, ctx, &c, 1) != TW_OK)
		return TW_NO_MEMORY;
	s->version.n++;
	s->tally.updates++;
	return TW_OK;
}
