/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.c - links to holders: numbers, requests, resending, answers.  The rules are in
 * exchange.h; exchange_codec.c sees to (7). */
#include "node/exchange.h"

#include <string.h>

/* --- memory ------------------------------------------------------------------------------- */

/* What is pushed is the whole vector; of a stage, its ranges one after the other. */
static struct tw_holding holding_of(const struct tw_plan *plan, uint32_t shard, size_t before)
{
	const struct tw_problem *p = &plan->problem;
	const size_t from = p->border[shard], n = p->border[shard + 1] - from;
	const size_t trainable = p->trainable <= from ? 0 : p->trainable - from;
	const size_t width = 1 + tw_plan_state_arrays(plan);

	const size_t at = tw_plan_is_staged(plan) ? before : width * from;

	return (struct tw_holding){ from, n, trainable < n ? trainable : n, at, width * n };
}

static size_t vector_bytes(const struct tw_plan *p)
{
	return (p->problem.trainable + p->problem.buffers) * sizeof(float);
}

enum tw_status tw_exchange_open(struct exchange *x, struct tw_heap *heap,
				const struct tw_plan *plan, const struct tw_identity *who,
				const uint32_t *shards, uint32_t count)
{
	size_t at = 0;

	*x = (struct exchange){ .plan = plan, .who = who, .lanes = 1, .heap = heap };
	x->holder = tw_heap_zeros(heap, count * sizeof *x->holder);
	x->slices = tw_heap_zeros(heap, (size_t)count * TW_CREDITS * sizeof *x->slices);
	x->node_down = tw_heap_zeros(heap, plan->crew.servers + 1);
	if (plan->traffic.merge == TW_MERGE_ELASTIC)
		x->returned = tw_heap_zeros(heap, vector_bytes(plan));
	if (!x->holder || !x->slices || !x->node_down ||
	    (plan->traffic.merge == TW_MERGE_ELASTIC && !x->returned))
		return TW_NO_MEMORY;
	x->holders = x->blind = x->unchanged = count;
	for (uint32_t k = 0; k < count; k++) {
		const uint32_t shard = shards ? shards[k] : k;

		x->holder[k] =
			(struct holder){ .shard = shard, .range = holding_of(plan, shard, at) };
		at += x->holder[k].range.all;
	}
	for (uint32_t k = 0; k < TW_CREDITS; k++)
		x->out[k].slice = x->slices + (size_t)k * count;
	return tw_exchange_open_codec(x);
}

/* (10) */
static void mark_changed(struct exchange *x, uint32_t from, uint32_t to)
{
	if (from < x->changed)
		x->changed = from;
	if (to > x->unchanged)
		x->unchanged = to;
}

static void put_request(struct exchange *x, struct holder *h, enum tw_request request)
{
	x->asked += (request != TW_REQUEST_NONE) - (uint32_t)(h->request != TW_REQUEST_NONE);
	h->request = request;
}

static void put_down(struct exchange *x, struct holder *h, bool down)
{
	x->downs += down - (uint32_t)h->down;
	h->down = down;
}

static void clear_outgoing(struct exchange *x, struct outgoing *o)
{
	for (uint32_t k = 0; k < x->holders; k++) {
		tw_block_drop(o->slice[k].payload);
		o->slice[k].payload = NULL;
	}
	tw_block_drop(o->vector);
	o->vector = NULL;
}

void tw_exchange_close(struct exchange *x)
{
	if (!x->heap)
		return;
	for (uint32_t k = 0; k < x->outs; k++)
		clear_outgoing(x, &x->out[k]);
	for (uint32_t k = 0; k < x->holders; k++)
		tw_block_drop(x->holder[k].view);
	void *const plain[] = { x->holder,  x->slices, x->node_down,
				x->scratch, x->states, x->returned };
	for (size_t k = 0; k < sizeof plain / sizeof plain[0]; k++)
		x->heap->put(x->heap, plain[k]);
}

/* (6), (7): what is open never was. */
static void drop_open(struct exchange *x)
{
	for (uint32_t k = 0; k < x->outs; k++) {
		for (uint32_t i = 0; i < x->holders; i++)
			if (x->out[k].slice[i].link > x->holder[i].closed)
				tw_exchange_return(x, &x->out[k], i, false);
		clear_outgoing(x, &x->out[k]);
	}
	x->outs = 0;
}

void tw_exchange_reset(struct exchange *x)
{
	drop_open(x);
	x->agains = 0;
	x->outdated = false;
	x->clock = 0;
	x->clock_known = false;
	for (uint32_t k = 0; k < x->holders; k++) {
		struct holder *h = &x->holder[k];

		tw_block_drop(h->view);
		h->view = NULL;
		put_request(x, h, TW_REQUEST_NONE);
		h->seen.version = (struct tw_version){ 0 };
		h->round = 0;
		h->closed = h->sent;
	}
	x->blind = x->holders;
	mark_changed(x, 0, x->holders);
}

void tw_exchange_renew(struct exchange *x)
{
	tw_exchange_reset(x);
	tw_exchange_blank(x);
	if (x->has_returned)
		memset(x->returned, 0, vector_bytes(x->plan));
	x->has_returned = false;
	x->seq = 0;
	for (uint32_t k = 0; k < x->holders; k++)
		x->holder[k].sent = x->holder[k].closed = 0;
}

struct holder *tw_exchange_find(struct exchange *x, uint32_t shard)
{
	uint32_t from = 0, to = x->holders; /* the list is in order */

	if (shard < to && x->holder[shard].shard == shard)
		return &x->holder[shard];
	while (from < to) {
		const uint32_t k = from + (to - from) / 2;

		if (x->holder[k].shard < shard)
			from = k + 1;
		else
			to = k;
	}
	return from < x->holders && x->holder[from].shard == shard ? &x->holder[from] : NULL;
}

/* --- saying ------------------------------------------------------------------------------- */

static struct tw_msg *message_to(struct exchange *x, struct tw_context *ctx, const struct holder *h,
				 enum tw_type type)
{
	struct tw_msg *m = tw_msg_to(ctx, h->addr, type);

	if (!m)
		return NULL;
	m->h.from = x->who->slot;
	m->h.incarnation = x->who->incarnation;
	m->h.view = x->who->generation;
	m->h.shard = h->shard;
	return m;
}

static void send_slice(struct exchange *x, struct tw_context *ctx, const struct outgoing *o,
		       uint32_t k)
{
	const struct carried *s = &o->slice[k];
	struct tw_msg *m = message_to(x, ctx, &x->holder[k], TW_PUSH);

	if (!m)
		return;
	m->h.seq = o->seq;
	m->h.flags = o->flags | (s->plain ? TW_FLAG_PLAIN : 0);
	m->b.push = o->body;
	m->b.push.base = s->base.version;
	m->b.push.rate = s->base.rate;
	m->b.push.number = s->number;
	m->b.push.link = s->link;
	m->b.push.lane = x->lane;
	if (s->payload) {
		m->payload = tw_block_keep(s->payload);
		m->payload_at = s->at;
		m->h.payload = (uint32_t)s->bytes;
	}
	tw_send(ctx, m);
}

static void send_pull(struct exchange *x, struct tw_context *ctx, struct holder *h, uint64_t round)
{
	struct tw_msg *m = message_to(x, ctx, h, TW_PULL);

	if (!m)
		return;
	m->h.flags = (uint16_t)((h->view ? 0 : TW_FLAG_FRESH) | (x->leaves ? TW_FLAG_LEAVE : 0));
	m->b.pull = (struct tw_body_pull){ .have = h->seen.version,
					   .round = round,
					   .number = h->number,
					   .clock = x->clock_known ? x->clock : TW_CLOCK_UNKNOWN,
					   .link = h->closed,
					   .lane = x->lane };
	tw_send(ctx, m);
}

void tw_exchange_pull(struct exchange *x, struct tw_context *ctx, struct holder *h, uint64_t round)
{
	put_request(x, h, TW_REQUEST_PULL);
	h->number = ++x->requests;
	send_pull(x, ctx, h, round);
}

void tw_exchange_withdraw(struct exchange *x)
{
	for (uint32_t k = 0; k < x->holders; k++)
		if (x->holder[k].request == TW_REQUEST_PULL)
			put_request(x, &x->holder[k], TW_REQUEST_NONE);
	mark_changed(x, 0, x->holders);
}

bool tw_exchange_is_spread(struct exchange *x, struct tw_context *ctx)
{
	if (x->leaves || x->asked)
		return !x->asked;
	for (uint32_t k = 0; k < x->holders; k++)
		if (!x->holder[k].known)
			return true; /* nothing was contributed there */
	x->leaves = true;
	for (uint32_t k = 0; k < x->holders; k++)
		tw_exchange_pull(x, ctx, &x->holder[k], 0);
	return false;
}

bool tw_exchange_pull_pinned(struct exchange *x, struct tw_context *ctx, const struct holder *h,
			     uint64_t pin)
{
	struct tw_msg *m = message_to(x, ctx, h, TW_PULL);

	if (!m)
		return false;
	m->h.flags = TW_FLAG_FREE;
	m->b.pull.pin = pin;
	m->b.pull.lane = x->lane;
	tw_send(ctx, m);
	return true;
}

/* Senders start at different holders, or the last to come would do all the work alone.  Peers start
 * at the same one: the sum of a shard needs the slices of all of them. */
static void send_slices(struct exchange *x, struct tw_context *ctx, const struct outgoing *o)
{
	const uint32_t senders = (x->plan->crew.workers ? x->plan->crew.workers : 1) * x->lanes;
	const uint32_t sender = x->who->slot * x->lanes + x->lane;
	const uint32_t apart = (uint32_t)((uint64_t)sender * x->holders / senders);
	const uint32_t first = tw_plan_has_peers(x->plan) ? 0 : apart;

	for (uint32_t k = 0; k < x->holders; k++)
		if (o->slice[(first + k) % x->holders].link)
			send_slice(x, ctx, o, (first + k) % x->holders);
}

static enum tw_status encode_slice(struct exchange *x, struct outgoing *o,
				   const struct tw_offer *offer, uint32_t k)
{
	const bool identity = x->plan->traffic.up->traits & TW_CODEC_IDENTITY;

	/* to the replica of its own node it needs no codec, unless it goes on from there as it is:
	 * replicas have one among themselves */
	if (!identity &&
	    (!tw_plan_has_peers(x->plan) || tw_plan_spreads(x->plan) || tw_plan_gathers(x->plan)))
		return tw_exchange_encode(x, o, offer, k);
	o->slice[k].plain = !identity;
	tw_exchange_refer(&o->slice[k], offer->vector, &x->holder[k].range);
	return TW_OK;
}

static bool brings(const struct exchange *x, const struct tw_offer *offer, const struct holder *h)
{
	return !offer->skips &&
	       (!offer->in_part || tw_plan_carries(x->plan, h->shard, offer->body.round));
}

enum tw_status tw_exchange_push(struct exchange *x, struct tw_context *ctx,
				const struct tw_offer *offer)
{
	struct outgoing *o = &x->out[x->outs];
	const uint32_t count = offer->count ? offer->count : x->holders - offer->first;

	HOLDS(2, tw_exchange_has_credit(x));
	memset(o->slice, 0, x->holders * sizeof *o->slice);
	o->open = count;
	x->outs++;
	o->seq = ++x->seq;
	o->flags = (offer->reads ? TW_FLAG_ANSWER : 0) | (offer->skips ? TW_FLAG_SKIPPED : 0);
	o->body = offer->body;
	o->body.clock = ++x->clock;
	if (x->returned) /* (9) */
		o->vector = tw_block_keep(offer->vector);
	for (uint32_t k = offer->first; k < offer->first + count; k++) {
		struct holder *h = &x->holder[k];

		o->slice[k] = (struct carried){ .link = ++h->sent, .base = h->base };
		if (brings(x, offer, h) && encode_slice(x, o, offer, k) != TW_OK)
			return TW_NO_MEMORY;
		if (!offer->reads)
			continue;
		o->slice[k].number = h->number = ++x->requests;
		put_request(x, h, TW_REQUEST_PUSH);
	}
	if (x->scratch) /* (7): what is lost if nothing comes after it */
		o->body.account.residual = tw_exchange_owed(x);
	send_slices(x, ctx, o);
	return TW_OK;
}

/* --- holders that move, vanish and come back ---------------------------------------------- */

/* Does the holder have to see this slice again?  Where the master judges, also one that a life of
 * it has closed: others wait until it says that it cannot apply it, and it may have died before. */
static bool must_see(const struct exchange *x, const struct holder *h, const struct carried *s)
{
	return s->link > h->closed || (s->link && tw_plan_judges(x->plan));
}

bool tw_exchange_place(struct exchange *x, struct tw_context *ctx, const struct tw_place *p,
		       const uint64_t *round)
{
	struct holder *h = tw_exchange_find(x, p->shard);
	uint32_t k;

	if (!h || !tw_plan_holds(x->plan, p->node) ||
	    (tw_plan_has_peers(x->plan) && p->node != ctx->self.node)) /* its own replica only */
		return false;
	if (h->known && h->addr.node == p->node && h->incarnation == p->incarnation)
		return false;
	if (h->known && p->incarnation < h->incarnation)
		return false;
	h->addr = (struct tw_addr){ p->node, TW_SHARD, (uint16_t)p->shard };
	h->incarnation = p->incarnation;
	h->known = true;
	put_down(x, h, p->node <= x->plan->crew.servers && x->node_down[p->node]);
	k = tw_exchange_index(x, h);
	mark_changed(x, k, k + 1);
	for (uint32_t i = 0; i < x->outs; i++)
		if (must_see(x, h, &x->out[i].slice[k]))
			send_slice(x, ctx, &x->out[i], k);
	/* who took the push, and held the answer, is not there any more */
	if (h->request == TW_REQUEST_PUSH && h->closed >= h->sent)
		put_request(x, h, TW_REQUEST_PULL);
	if (h->request == TW_REQUEST_PULL)
		send_pull(x, ctx, h, round ? *round : 0);
	return true;
}

void tw_exchange_forget_places(struct exchange *x)
{
	for (uint32_t k = 0; k < x->holders; k++)
		x->holder[k].known = false;
}

bool tw_exchange_is_down(const struct exchange *x, uint32_t node)
{
	for (uint32_t k = 0; x->downs && k < x->holders; k++)
		if (x->holder[k].known && x->holder[k].down &&
		    (node == UINT32_MAX || x->holder[k].addr.node == node))
			return true;
	return false;
}

void tw_exchange_down(struct exchange *x, uint32_t node)
{
	if (node <= x->plan->crew.servers)
		x->node_down[node] = true;
	for (uint32_t k = 0; k < x->holders; k++)
		if (x->holder[k].known && x->holder[k].addr.node == node)
			put_down(x, &x->holder[k], true);
}

static void resend(struct exchange *x, struct tw_context *ctx, struct holder *h,
		   const uint64_t *round)
{
	const uint32_t k = tw_exchange_index(x, h);

	for (uint32_t i = 0; i < x->outs; i++)
		if (must_see(x, h, &x->out[i].slice[k]) ||
		    (x->out[i].slice[k].link && h->request == TW_REQUEST_PUSH))
			send_slice(x, ctx, &x->out[i], k);
	if (h->request == TW_REQUEST_PULL)
		send_pull(x, ctx, h, round ? *round : 0);
	if (h->request == TW_REQUEST_PUSH && h->closed >= h->sent) {
		/* the push was taken; only its answer was lost */
		put_request(x, h, TW_REQUEST_PULL);
		send_pull(x, ctx, h, round ? *round : h->round + 1);
	}
}

bool tw_exchange_unknown_to(const struct holder *h, const struct tw_body_params *b)
{
	return h->request == TW_REQUEST_PULL && b->number == h->number && b->link < h->closed &&
	       b->version.incarnation != h->seen.version.incarnation;
}

void tw_exchange_ask_again(struct exchange *x, struct tw_context *ctx, struct holder *h,
			   const uint64_t *round)
{
	resend(x, ctx, h, round);
}

bool tw_exchange_up(struct exchange *x, struct tw_context *ctx, uint32_t node,
		    const uint64_t *round)
{
	bool any = false;

	if (node <= x->plan->crew.servers)
		x->node_down[node] = false;
	for (uint32_t k = 0; k < x->holders; k++)
		if (x->holder[k].known && x->holder[k].addr.node == node) {
			put_down(x, &x->holder[k], false);
			resend(x, ctx, &x->holder[k], round);
			any = true;
		}
	return any;
}

/* --- hearing ------------------------------------------------------------------------------ */

uint64_t tw_exchange_seq_at(const struct exchange *x, const struct holder *h, uint64_t link)
{
	const uint32_t k = tw_exchange_index(x, h);

	for (uint32_t i = 0; i < x->outs; i++)
		if (x->out[i].slice[k].link == link)
			return x->out[i].seq;
	return 0;
}

/* (8): was it dropped, and applied by nobody?  One that lost its memory has not applied it, too. */
static bool was_late(const struct exchange *x, const struct outgoing *o)
{
	bool late = false;

	for (uint32_t k = 0; k < x->holders; k++) {
		if (o->slice[k].link && !o->slice[k].unmade)
			return false;
		late = late || o->slice[k].late;
	}
	return late;
}

static void let_go(struct exchange *x)
{
	while (x->outs && !x->out[0].open) {
		struct carried *const slice = x->out[0].slice;
		const struct tw_body_push *b = &x->out[0].body;

		const bool late = was_late(x, &x->out[0]);

		x->landed = x->landed || !late;
		for (uint32_t k = 0; k < b->ranges && late; k++)
			x->again[x->agains++] = b->range[k];

		clear_outgoing(x, &x->out[0]);
		memmove(x->out, x->out + 1, (TW_CREDITS - 1) * sizeof x->out[0]);
		x->out[TW_CREDITS - 1] = (struct outgoing){ .slice = slice };
		x->outs--;
	}
}

void tw_exchange_acked(struct exchange *x, struct holder *h, uint64_t link, uint32_t unapplied,
		       uint32_t late, uint32_t incarnation)
{
	const uint32_t k = tw_exchange_index(x, h);

	if (link > h->sent)
		link = h->sent;
	if (link <= h->closed)
		return;
	for (uint32_t i = 0; i < x->outs; i++) {
		struct carried *s = &x->out[i].slice[k];

		if (s->link <= h->closed || s->link > link)
			continue;
		x->out[i].open--;
		if (link - s->link >= 16)
			continue;
		s->late = late >> (link - s->link) & 1;
		s->unmade = unapplied >> (link - s->link) & 1;
		x->outdated = x->outdated || (s->late && !(x->out[i].flags & TW_FLAG_ANSWER));
		if (s->unmade)
			tw_exchange_return(x, &x->out[i], k,
					   s->base.version.incarnation != incarnation);
	}
	h->closed = link;
	let_go(x);
}

enum tw_status tw_exchange_decode(struct exchange *x, const struct holder *h,
				  const struct tw_msg *m, struct tw_block **place)
{
	const struct tw_traffic *c = &x->plan->traffic;
	const size_t n = m->b.params.pin ? h->range.n : h->range.all, t = h->range.trainable;
	const size_t tail = (n - t) * sizeof(float);
	struct tw_block *b;

	if (!m->payload || m->h.payload < tail)
		return TW_BAD_BYTES;
	if (m->b.params.pin || (c->down->traits & TW_CODEC_IDENTITY)) {
		if (m->h.payload != n * sizeof(float))
			return TW_BAD_BYTES;
		b = tw_block_keep(m->payload);
	} else {
		b = tw_block_new(x->heap, n * sizeof(float));
		if (!b)
			return TW_NO_MEMORY;
		if (tw_codec_decode(c->down, c->down_options, tw_msg_payload(m),
				    m->h.payload - tail, tw_block_floats(b), t) != TW_OK) {
			tw_block_drop(b);
			return TW_BAD_BYTES;
		}
		memcpy(tw_block_floats(b) + t, tw_msg_payload(m) + m->h.payload - tail, tail);
	}
	tw_block_drop(*place);
	*place = b;
	return TW_OK;
}

enum tw_status tw_exchange_answered(struct exchange *x, struct holder *h, const struct tw_msg *m)
{
	const struct tw_body_params *b = &m->b.params;
	enum tw_status st = TW_OK;

	if (h->request == TW_REQUEST_NONE || b->number != h->number)
		return TW_ABSENT;
	x->blind -= !h->view;
	if (m->h.type == TW_PARAMS)
		st = tw_exchange_decode(x, h, m, &h->view);
	x->blind += !h->view;
	if (st != TW_OK)
		return st;
	put_request(x, h, TW_REQUEST_NONE);
	mark_changed(x, tw_exchange_index(x, h), tw_exchange_index(x, h) + 1);
	h->seen = (struct tw_stamp){ b->version, b->applied, tw_plan_rate(x->plan, b->applied) };
	h->round = b->round;
	h->least = b->least;
	h->count = b->count;
	h->statistic = b->statistic;
	return TW_OK;
}
