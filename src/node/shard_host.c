/* SPDX-License-Identifier: Apache-2.0 */
/* shard_host.c - how a range is taken and given up, and what is told of it: its state and its cuts.
 *
 * Of the rules of a shard (the list is in shard.c) this file sees to
 *
 *  (1) HOST begins a new incarnation, at the version of the cut it is taken from; one that is not
 *      newer than what is hosted changes nothing.
 *  (2) what goes into a cut is one version, unless workers write it lock-free meanwhile. */
#include "node/part.h"
#include "node/shard.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

/* --- memory ------------------------------------------------------------------------------- */

static void *zeros(struct shard *s, size_t bytes)
{
	return tw_heap_zeros(s->heap, bytes ? bytes : 1);
}

/* Everything a hosted shard needs; TW_NO_MEMORY leaves what there is to tw_shard_let_go. */
static enum tw_status furnish(struct shard *s)
{
	const struct tw_plan *p = s->plan;
	const size_t all = p->crew.workers;

	s->from = p->problem.border[s->index];
	s->n = p->problem.border[s->index + 1] - s->from;
	s->trainable = p->problem.trainable <= s->from         ? 0
		       : p->problem.trainable - s->from < s->n ? p->problem.trainable - s->from
							       : s->n;
	s->memory = tw_plan_memory(p);
	s->streams = s->n * sizeof(float) > 1u << 20;
	s->rate_max = tw_schedule_largest(&p->schedule);
	s->pool = tw_pool_new(s->heap, s->n * sizeof(float));
	s->tile = zeros(s, 4 * TW_TILE * sizeof(float));
	s->guest = zeros(s, all * sizeof *s->guest);
	s->clock = zeros(s, all * sizeof *s->clock);
	s->active = zeros(s, all);
	s->idle = zeros(s, all);
	s->queue = zeros(s, all * sizeof *s->queue);
	s->bucket = zeros(s, (all + 1) * sizeof *s->bucket);
	s->last_set = zeros(s, all * sizeof *s->last_set);
	if (!s->pool || !s->tile || !s->guest || !s->clock || !s->active || !s->idle || !s->queue ||
	    !s->bucket || !s->last_set)
		return TW_NO_MEMORY;
	s->clocks = (struct tw_clocks){ .clock = s->clock,
					.active = s->active,
					.slots = p->crew.workers };
	for (uint32_t k = 0; k < p->far.rule->arrays; k++)
		if (!(s->array[k] = zeros(s, s->n * sizeof(float))))
			return TW_NO_MEMORY;
	for (uint32_t k = 0; k < p->staleness->arrays; k++)
		if (!(s->policy[k] = zeros(s, s->n * sizeof(float))))
			return TW_NO_MEMORY;
	s->w = tw_pool_take(s->pool);
	return s->w ? TW_OK : TW_NO_MEMORY;
}

void tw_shard_let_go(struct shard *s)
{
	for (uint32_t k = 0; s->guest && k < s->plan->crew.workers; k++) {
		tw_shard_clear(s, &s->guest[k]);
		tw_shard_unstage(&s->guest[k]);
	}
	for (uint32_t k = 0; s->bucket && k < s->collected; k++)
		tw_block_drop(s->bucket[k].block);
	tw_line_changed(s);
	tw_block_drop(s->w);
	tw_block_drop(s->pin.view);
	for (uint32_t k = 0; k < TW_RULE_ARRAYS; k++)
		s->heap->put(s->heap, s->array[k]);
	for (uint32_t k = 0; k < TW_STALENESS_ARRAYS; k++)
		s->heap->put(s->heap, s->policy[k]);
	void *const plain[] = { s->tile, s->guest, s->clock,  s->active,
				s->idle, s->queue, s->bucket, s->last_set };
	for (size_t k = 0; k < sizeof plain / sizeof plain[0]; k++)
		s->heap->put(s->heap, plain[k]);
	tw_spans_release(&s->applied);
	tw_spans_release(&s->twice);
	tw_pool_free(s->pool);
	*s = (struct shard){ .plan = s->plan,
			     .heap = s->heap,
			     .index = s->index,
			     .generation = s->generation,
			     .term = s->term };
	tw_spans_init(&s->applied, s->heap);
	tw_spans_init(&s->twice, s->heap);
}

/* --- taking the range, from a cut or anew ------------------------------------------------- */

static const char *const rates_name = "worker.rates"; /* of each slot's last update; 0: none */

static void policy_name(char *out, size_t room, uint32_t k)
{
	snprintf(out, room, "staleness.%u", k);
}

static enum tw_status restore_array(struct shard *s, const struct tw_array *list, size_t count,
				    const char *name, float *to)
{
	const struct tw_array *a = tw_part_find(list, count, name);

	if (!a || a->kind != TW_FLOATS || a->from != s->from || a->n != s->n)
		return TW_BAD_BYTES;
	memcpy(to, a->at, s->n * sizeof(float));
	return TW_OK;
}

static enum tw_status restore_spans(struct tw_spans *spans, const struct tw_array *list,
				    size_t count, const char *name)
{
	const struct tw_array *a = tw_part_find(list, count, name);

	if (!a || a->kind != TW_BYTES || a->n % sizeof(struct tw_span))
		return TW_BAD_BYTES;
	for (size_t k = 0; k < a->n / sizeof(struct tw_span); k++) {
		struct tw_span one;
		enum tw_status st;

		memcpy(&one, (const uint8_t *)a->at + k * sizeof one, sizeof one);
		if (one.from >= one.to)
			return TW_BAD_BYTES;
		st = tw_spans_add(spans, one.from, one.to, NULL);
		if (st != TW_OK)
			return st;
	}
	return TW_OK;
}

static bool keeps_rates(const struct tw_plan *p)
{
	return p->far.rule->traits & TW_RULE_PER_WORKER;
}

/* Velocities without their rates would be of no use; a cut of other workers has neither. */
static enum tw_status restore_rates(struct shard *s, const struct tw_array *list, size_t count)
{
	const struct tw_array *a = tw_part_find(list, count, rates_name);
	bool any = false;

	for (uint32_t k = 0; k < s->plan->crew.workers; k++)
		any = any || s->guest[k].mine;
	if (!any || !keeps_rates(s->plan))
		return TW_OK;
	if (!a || a->kind != TW_BYTES || a->n != s->plan->crew.workers * sizeof(float))
		return TW_BAD_BYTES;
	for (uint32_t k = 0; k < s->plan->crew.workers; k++) {
		float rate;

		memcpy(&rate, (const uint8_t *)a->at + k * sizeof rate, sizeof rate);
		if (!(rate >= 0.0f && rate <= FLT_MAX))
			return TW_BAD_BYTES;
		s->guest[k].before = s->guest[k].mine ? rate : 0.0f;
	}
	return TW_OK;
}

static enum tw_status restore(struct shard *s, const struct tw_array *list, size_t count)
{
	const struct tw_array *a = tw_part_find(list, count, TW_SHARD_PART);
	enum tw_status st = restore_array(s, list, count, "parameters", tw_block_floats(s->w));
	struct tw_shard_part x;
	char name[40];

	if (!a || a->n != sizeof x)
		return TW_BAD_BYTES;
	memcpy(&x, a->at, sizeof x);
	s->version.n = x.version;
	s->round = x.round;
	s->corrections = x.corrections;
	s->contributions = x.contributions;
	s->progress = x.progress;
	s->statistic = x.statistic;
	s->tally = x.tally;
	for (uint32_t k = 0; k < s->plan->far.rule->arrays && st == TW_OK; k++) {
		snprintf(name, sizeof name, "rule.%s", s->plan->far.rule->array_names[k]);
		st = restore_array(s, list, count, name, s->array[k]);
	}
	for (uint32_t k = 0; k < s->plan->staleness->arrays && st == TW_OK; k++) {
		policy_name(name, sizeof name, k);
		st = restore_array(s, list, count, name, s->policy[k]);
	}
	for (uint32_t k = 0; k < s->plan->crew.workers && st == TW_OK; k++) {
		snprintf(name, sizeof name, "worker.%u", k);
		if (!tw_part_find(list, count, name))
			continue;
		st = tw_shard_make_mine(s, &s->guest[k]);
		if (st == TW_OK && s->guest[k].mine)
			st = restore_array(s, list, count, name, tw_block_floats(s->guest[k].mine));
	}
	if (st == TW_OK)
		st = restore_rates(s, list, count);
	if (st == TW_OK)
		st = restore_spans(&s->applied, list, count, "applied");
	return st == TW_OK ? restore_spans(&s->twice, list, count, "twice") : st;
}

static void hosted(struct shard *s, struct tw_context *ctx, const struct tw_body_host *what,
		   uint32_t flags)
{
	struct tw_msg *m = tw_msg_to(ctx, tw_master_addr(), TW_HOSTED);

	if (!m)
		return;
	m->h.view = s->generation;
	m->h.shard = m->h.from = s->index;
	m->h.flags = flags;
	m->b.host.shard = s->index;
	m->b.host.incarnation = what->incarnation;
	m->b.host.cut = flags ? what->cut : 0;
	tw_send(ctx, m);
}

/* From the part that came with HOST, or as the engine begins. */
static enum tw_status take(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	struct tw_array *list;
	enum tw_status st = furnish(s);
	size_t count;

	if (st != TW_OK)
		return st;
	if (m->b.host.cut == 0)
		return ctx->engine->class->init(ctx->engine, s->from, s->n, tw_block_floats(s->w));
	if (!m->payload)
		return TW_BAD_BYTES;
	st = tw_part_unpack(tw_msg_payload(m), m->h.payload, s->heap, &list, &count);
	if (st != TW_OK)
		return st;
	st = restore(s, list, count);
	s->heap->put(s->heap, list);
	return st;
}

/* What it should be taken from cannot be used: the master hears of it, and says what follows. */
static void cannot_host(struct shard *s, struct tw_context *ctx, const struct tw_body_host *h,
			enum tw_status st)
{
	tw_shard_let_go(s);
	if (st == TW_NO_MEMORY) {
		tw_give_up(ctx, st, "no memory for shard %u", s->index);
		return;
	}
	tw_say(ctx, TW_ERROR, "shard %u cannot be taken from checkpoint %llu: %s", s->index,
	       (unsigned long long)h->cut, tw_status_name(st));
	hosted(s, ctx, h, TW_FLAG_REFUSED);
}

void tw_shard_host(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_host *h = &m->b.host;
	enum tw_status st;

	if (s->hosted && s->version.incarnation >= h->incarnation) { /* sent again */
		if (s->version.incarnation == h->incarnation && !h->unhost)
			hosted(s, ctx, h, 0);
		return;
	}
	tw_shard_let_go(s);
	if (h->unhost)
		return;
	s->generation = m->h.view;
	if (m->h.incarnation > s->term)
		s->term = m->h.incarnation;
	s->live = h->live;
	st = take(s, ctx, m);
	if (st != TW_OK) {
		cannot_host(s, ctx, h, st);
		return;
	}
	s->hosted = true;
	s->at_zero = m->h.flags & TW_FLAG_FRESH;
	s->version.incarnation = h->incarnation;
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_HOSTED,
					.shard = s->index,
					.incarnation = h->incarnation,
					.version = s->version.n,
					.seq = h->cut,
					.before = tw_block_floats(s->w),
					.n = s->n,
					.from = s->from });
	hosted(s, ctx, h, 0);
}

/* --- what the master asks for ------------------------------------------------------------- */

/* What is applied, and what is collected and will be; and what is, or will be, applied twice. */
static enum tw_status in_hand(const struct shard *s, struct tw_spans *out, struct tw_spans *twice)
{
	enum tw_status st = tw_spans_copy(out, &s->applied);

	if (st == TW_OK)
		st = tw_spans_copy(twice, &s->twice);

	for (uint32_t k = 0; k < s->collected; k++)
		for (uint32_t r = 0; r < s->bucket[k].push.ranges && st == TW_OK; r++) {
			const struct tw_range *range = &s->bucket[k].push.range[r];

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
	struct tw_msg *m = tw_msg_to(ctx, tw_master_addr(), TW_STATE);
	struct tw_span *tail;

	if (!m)
		return;
	m->h.view = s->generation;
	m->h.shard = m->h.from = s->index;
	m->h.flags = flags;
	m->b.state = (struct tw_body_state){ .version = s->version,
					     .round = s->round,
					     .contributions = s->contributions,
					     .asked = asked,
					     .spans = (uint32_t)a,
					     .twice = (uint32_t)t,
					     .members = s->last_count,
					     .progress = s->progress };
	tail = tw_msg_tail(ctx, m, (a + t + s->last_count) * sizeof *tail);
	if (!tail)
		return;
	tw_spans_write(hand, tail);
	tw_spans_write(twice, tail + a);
	if (s->last_count)
		memcpy(tail + a + t, s->last_set, s->last_count * sizeof *tail);
	m->payload = tw_block_new(ctx->heap, sizeof s->tally);
	if (!m->payload) {
		ctx->world->msg_free(ctx, m);
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a shard's state");
		return;
	}
	memcpy(m->payload->data, &s->tally, sizeof s->tally);
	m->h.payload = sizeof s->tally;
	tw_send(ctx, m);
}

void tw_shard_state(struct shard *s, struct tw_context *ctx, uint64_t asked, uint32_t flags)
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

/* --- parts of a cut ----------------------------------------------------------------------- */

static struct tw_array floats(const struct shard *s, const char *name, const float *at)
{
	struct tw_array a = { .from = s->from, .n = s->n, .kind = TW_FLOATS, .at = at };

	snprintf(a.name, sizeof a.name, "%s", name);
	return a;
}

static struct tw_array bytes_of(const char *name, const void *at, size_t bytes)
{
	struct tw_array a = { .n = bytes, .kind = TW_BYTES, .at = at };

	snprintf(a.name, sizeof a.name, "%s", name);
	return a;
}

static struct tw_block *packed(struct shard *s)
{
	const struct tw_plan *p = s->plan;
	const size_t most = 5 + TW_RULE_ARRAYS + TW_STALENESS_ARRAYS + p->crew.workers;
	struct tw_array *list = s->heap->get(s->heap, most * sizeof *list);
	float *rates = s->heap->get(s->heap, p->crew.workers * sizeof *rates);
	struct tw_span *applied = tw_spans_list(&s->applied), *twice = tw_spans_list(&s->twice);
	struct tw_block *w = tw_shard_snapshot(s);
	struct tw_shard_part x = { s->version.n, s->round,     s->corrections, s->contributions,
				   s->progress,  s->statistic, s->tally };
	struct tw_block *b = NULL;
	size_t count = 0;
	char name[40];

	if (!list || !rates || !applied || !twice || !w)
		goto out;
	list[count++] = bytes_of(TW_SHARD_PART, &x, sizeof x);
	list[count++] = bytes_of("applied", applied, s->applied.count * sizeof *applied);
	list[count++] = bytes_of("twice", twice, s->twice.count * sizeof *twice);
	list[count++] = floats(s, "parameters", tw_block_floats(w));
	for (uint32_t k = 0; k < p->far.rule->arrays; k++) {
		snprintf(name, sizeof name, "rule.%s", p->far.rule->array_names[k]);
		list[count++] = floats(s, name, s->array[k]);
	}
	for (uint32_t k = 0; k < p->staleness->arrays; k++) {
		policy_name(name, sizeof name, k);
		list[count++] = floats(s, name, s->policy[k]);
	}
	for (uint32_t k = 0; k < p->crew.workers; k++) {
		const bool kept = s->guest[k].mine && s->guest[k].state == TW_LIVE;

		rates[k] = kept ? s->guest[k].before : 0.0f;
		if (!kept)
			continue;
		snprintf(name, sizeof name, "worker.%u", k);
		list[count++] = floats(s, name, tw_block_floats(s->guest[k].mine));
	}
	if (keeps_rates(p))
		list[count++] = bytes_of(rates_name, rates, p->crew.workers * sizeof *rates);
	b = tw_part_pack(s->heap, list, count);
out:
	tw_block_drop(w);
	s->heap->put(s->heap, twice);
	s->heap->put(s->heap, applied);
	s->heap->put(s->heap, rates);
	s->heap->put(s->heap, list);
	return b;
}

void tw_shard_snap(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	struct tw_msg *out;

	if (!s->hosted || m->h.view != s->generation)
		return;
	if (m->b.snap.flush && s->collected)
		tw_shard_flush(s, ctx);
	if (!m->b.snap.part)
		return;
	out = tw_msg_to(ctx, tw_master_addr(), TW_PART);
	if (!out)
		return;
	out->h.view = s->generation;
	out->h.shard = out->h.from = s->index;
	out->b.part.cut = m->b.snap.cut;
	out->b.part.round = s->round;
	out->payload = m->b.snap.cut ? packed(s) : tw_shard_snapshot(s);
	if (!out->payload) {
		ctx->world->msg_free(ctx, out);
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a cut of shard %u", s->index);
		return;
	}
	out->h.payload = (uint32_t)out->payload->bytes;
	out->h.flags = m->h.flags & TW_FLAG_FREE;
	tw_send(ctx, out);
}
