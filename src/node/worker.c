/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c - who a worker is, whom it talks to, and what it does next.
 *
 *  (1) identity is (slot, incarnation), given by the master; one who was removed is fenced and
 *      joins again as somebody new.
 *  (2) whatever is open (contributions, requests, leases that are done) is kept and sent again when
 *      a connection is made anew; everything said twice is understood once.
 *  (3) a lease of a newer generation makes it forget everything of the older one.
 *  (4) it starts a step only with parameters from every shard and a credit for the push. */
#include "node/worker.h"
#include "vec/vec.h"

#include <string.h>

enum { TIMER_LOST = 1, TIMER_PLACE };

#define ASK_AGAIN TW_SECOND /* for a place in a cluster that is full */

/* --- saying ------------------------------------------------------------------------------ */

struct tw_msg *tw_worker_to_master(struct worker *w, struct tw_context *ctx, enum tw_type type)
{
	struct tw_msg *m = tw_msg_to(ctx, tw_master_addr(), type);

	if (!m)
		return NULL;
	m->h.from = w->slot;
	m->h.incarnation = w->incarnation;
	m->h.view = w->generation;
	return m;
}

/* Fresh: I know nothing.  Otherwise: I am still here, and these leases are mine. */
static void hello(struct worker *w, struct tw_context *ctx, bool fresh)
{
	struct tw_msg *m = tw_worker_to_master(w, ctx, TW_HELLO);
	struct tw_range *tail;

	if (!m)
		return;
	m->h.flags = fresh ? TW_FLAG_FRESH : 0;
	m->b.hello = (struct tw_body_hello){ .role = TW_WORKER,
					     .slot = fresh ? w->index : w->slot,
					     .incarnation = fresh ? 0 : w->incarnation,
					     .seq = w->seq,
					     .lease = w->last_lease,
					     .steps = w->steps,
					     .samples = w->samples,
					     .boot = ctx->boot };
	if (!fresh && w->held_count) {
		tail = tw_msg_tail(ctx, m, w->held_count * sizeof *tail);
		if (!tail)
			return;
		for (uint32_t k = 0; k < w->held_count; k++) {
			const struct held *h = &w->held[k];

			tail[k] = (struct tw_range){ h->from, (uint32_t)(h->to - h->from),
						     (uint32_t)h->id };
		}
	}
	if (!w->full)
		w->since = tw_now(ctx);
	tw_send(ctx, m);
}

void tw_worker_send_push(struct worker *w, struct tw_context *ctx, const struct outgoing *o,
			 uint32_t shard)
{
	struct tw_msg *m = tw_msg_to(ctx, w->link[shard].addr, TW_PUSH);

	if (!m)
		return;
	m->h.from = w->slot;
	m->h.incarnation = w->incarnation;
	m->h.view = w->generation;
	m->h.seq = o->seq;
	m->h.shard = shard;
	m->h.flags = o->flags;
	m->b.push = o->body;
	m->b.push.base = o->base[shard];
	m->b.push.number = o->number[shard];
	m->b.push.rate = o->rate[shard];
	m->b.push.link = o->seq;
	if (o->payload[shard]) {
		m->payload = tw_block_keep(o->payload[shard]);
		m->payload_at = o->at[shard];
		m->h.payload = (uint32_t)o->bytes[shard];
	}
	tw_send(ctx, m);
}

static void send_pull(struct worker *w, struct tw_context *ctx, uint32_t shard, uint64_t round)
{
	struct link *l = &w->link[shard];
	struct tw_msg *m = tw_msg_to(ctx, l->addr, TW_PULL);

	if (!m)
		return;
	m->h.from = w->slot;
	m->h.incarnation = w->incarnation;
	m->h.view = w->generation;
	m->h.shard = shard;
	m->h.flags = l->view ? 0 : TW_FLAG_FRESH;
	m->b.pull = (struct tw_body_pull){ .have = l->version,
					   .round = round,
					   .number = l->number,
					   .clock = w->clock_known ? w->clock : TW_CLOCK_UNKNOWN,
					   .link = l->acked };
	tw_send(ctx, m);
}

static void pull(struct worker *w, struct tw_context *ctx, uint32_t shard, uint64_t round)
{
	struct link *l = &w->link[shard];

	l->wants = l->asked = true;
	l->number = ++w->numbers;
	w->since = tw_now(ctx);
	send_pull(w, ctx, shard, round);
}

/* --- what next ---------------------------------------------------------------------------- */

static void clear_link(struct link *l)
{
	tw_block_drop(l->view);
	l->view = NULL;
	l->wants = l->asked = false;
	l->version = (struct tw_version){ 0 };
	l->round = l->acked = 0;
}

/* (3) */
void tw_worker_reset(struct worker *w, struct tw_context *ctx, uint64_t generation)
{
	w->generation = generation;
	w->held_count = w->done_count = 0;
	w->asked_lease = w->draining = w->dry = false;
	w->clock = 0;
	w->clock_known = false;
	if (w->busy) {
		w->stale = true;
		ctx->world->cancel(ctx, &w->compute);
	}
	tw_step_reset(w);
	for (uint32_t s = 0; s < w->plan->problem.shards; s++) {
		clear_link(&w->link[s]);
		w->link[s].acked = w->seq;
	}
}

static bool has_parameters(struct worker *w, struct tw_context *ctx, const struct held *h)
{
	bool all = true;

	for (uint32_t s = 0; tw_worker_rounds(w) && s < w->plan->problem.shards; s++)
		if (w->link[s].view && w->link[s].round > h->round) { /* its round is over */
			tw_worker_drop_held(w, (uint32_t)(h - w->held));
			tw_worker_advance(w, ctx);
			return false;
		}
	for (uint32_t s = 0; s < w->plan->problem.shards; s++) {
		struct link *l = &w->link[s];
		const bool past = tw_worker_rounds(w) && l->round != h->round;
		const bool old = !l->view || past || w->fetch_due;

		if (old && !l->wants && l->known)
			pull(w, ctx, s, h->round);
		if (l->wants || old)
			all = false;
	}
	w->fetch_due = false;
	return all;
}

void tw_worker_advance(struct worker *w, struct tw_context *ctx)
{
	struct held *h;

	if (!w->welcomed || w->over || w->busy)
		return;
	if (w->draining || w->leaving) {
		tw_worker_give_back(w, ctx);
		return;
	}
	h = tw_worker_current(w);
	if (!h) {
		/* a stripe is pushed whole, or its round is over */
		if (w->dry && !tw_worker_rounds(w))
			tw_step_flush(w, ctx);
		/* in rounds, asking says that nothing of ours is on its way any more */
		if (!tw_worker_rounds(w) || !w->outs)
			tw_worker_want(w, ctx);
		return;
	}
	if (!has_parameters(w, ctx, h) || w->outs >= TW_CREDITS)
		return;
	if (!tw_worker_rounds(w) && tw_worker_positions_left(w) <= h->batch)
		tw_worker_want(w, ctx);
	tw_step_start(w, ctx, h);
}

/* --- hearing the master -------------------------------------------------------------------- */

static void place(struct worker *w, struct tw_context *ctx, const struct tw_place *p)
{
	const struct tw_addr addr = { p->node, TW_SHARD, (uint16_t)p->shard };
	const struct held *h = tw_worker_current(w);
	struct link *l;

	if (p->shard >= w->plan->problem.shards || !tw_plan_is_server(w->plan, p->node))
		return;
	l = &w->link[p->shard];
	if (l->known && l->addr.node == p->node && l->incarnation == p->incarnation)
		return;
	if (l->known && p->incarnation < l->incarnation)
		return;
	l->addr = addr;
	l->incarnation = p->incarnation;
	l->known = true;
	l->down = w->node_down[p->node];
	if (l->down)
		tw_timer(ctx, TIMER_LOST, w->plan->crew.limit);
	for (uint32_t k = 0; k < w->outs; k++)
		if (w->out[k].seq > l->acked)
			tw_worker_send_push(w, ctx, &w->out[k], p->shard);
	if (l->wants && !l->asked && l->acked >= w->seq)
		l->asked = true; /* who took the push, and held the answer, is not there any more */
	if (l->wants && l->asked)
		send_pull(w, ctx, p->shard, h ? h->round : 0);
}

static void places(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_place *list = m->tail ? (const void *)m->tail->data : NULL;

	for (size_t k = 0; k < m->h.tail / sizeof *list; k++)
		place(w, ctx, &list[k]);
}

static void welcome(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_welcome *b = &m->b.welcome;
	enum tw_status st = TW_OK;

	/* (1): incarnations are never reused; and a master that died may have said this before the
	 * next one took us as we were */
	if (b->incarnation >> 20 < w->term || b->incarnation <= w->incarnation ||
	    b->boot != ctx->boot || b->slot >= w->plan->crew.workers)
		return;
	w->welcomed = true;
	w->full = false;
	w->slot = b->slot;
	w->incarnation = b->incarnation;
	tw_named(ctx, w->slot, w->incarnation);
	w->seq = w->bad_seq = 0;
	w->steps = w->samples = 0; /* the master has counted what the one before did */
	/* as the master that made it counts */
	w->last_lease = (uint64_t)(b->incarnation >> 20) << 20;
	tw_worker_reset(w, ctx, m->h.view);
	if (m->payload && tw_step_has_state(w))
		st = tw_step_restore(w, tw_msg_payload(m), m->h.payload);
	if (st == TW_NO_MEMORY) {
		tw_give_up(ctx, st, "no memory for worker %u's part of a checkpoint", w->slot);
		return;
	}
	if (st != TW_OK) {
		tw_say(ctx, TW_WARNING,
		       "worker %u's part of checkpoint %llu cannot be used (%s): what it kept "
		       "itself, momentum or the state of its local rule, is lost and begins at 0",
		       w->slot, (unsigned long long)b->cut, tw_status_name(st));
		tw_step_blank(w);
	}
	places(w, ctx, m);
	w->asked_lease = true; /* a newcomer is dealt to unasked */
	w->eval_wanted = w->eval_wanted && w->eval_incarnation == w->incarnation;
	tw_worker_ask_pinned(w, ctx);
	tw_worker_advance(w, ctx);
}

static void start_again(struct worker *w, struct tw_context *ctx)
{
	w->welcomed = false;
	tw_worker_reset(w, ctx, 0);
	tw_step_forget_momentum(w);
	w->seq = 0;
	w->last_lease = 0;
	for (uint32_t s = 0; s < w->plan->problem.shards; s++)
		w->link[s].known = false;
	if (w->leaving)
		tw_worker_go(w, ctx);
	else
		hello(w, ctx, true);
}

/* Every slot is taken: somebody may leave or die. */
static void wait_for_place(struct worker *w, struct tw_context *ctx)
{
	if (w->welcomed)
		return;
	if (!w->full)
		tw_say(ctx, TW_WARNING, "the cluster has all its %u workers: waiting for a place",
		       w->plan->crew.workers);
	w->full = true;
	tw_timer(ctx, TIMER_PLACE, ASK_AGAIN);
}

static void stop(struct worker *w, struct tw_context *ctx)
{
	w->over = true;
	if (w->busy)
		ctx->world->cancel(ctx, &w->compute);
}

static void refused(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	const bool master = m->from.role == TW_MASTER;

	if (m->h.incarnation != w->incarnation)
		return;
	if (m->b.refuse.why == TW_REFUSED_FENCED) {
		start_again(w, ctx);
	} else if (m->b.refuse.why == TW_REFUSED_FULL && master) {
		wait_for_place(w, ctx);
	} else if (m->b.refuse.why == TW_REFUSED_NUMBERS && master && w->welcomed) {
		stop(w, ctx);
		tw_give_up(ctx, TW_CANCELLED,
			   "its contributions were not finite %d times in a row, while those of "
			   "others were: check this machine's memory, its processor and its data; "
			   "it may join again",
			   TW_STRIKES);
	} else if (m->b.refuse.why == TW_REFUSED_STUCK && master) {
		stop(w, ctx);
		tw_give_up(ctx, TW_CANCELLED,
			   "it made no progress for so long that the master removed it: is this "
			   "machine overloaded, or much slower than the others?  Start it again to "
			   "join again, or use a longer cluster.stuck");
	}
}

static void resend_to_master(struct worker *w, struct tw_context *ctx)
{
	tw_worker_resend_leases(w, ctx);
	tw_worker_ask_pinned(w, ctx);
}

static void view(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	if (!w->welcomed || m->h.view < w->generation || m->b.view.number < w->view_number)
		return;
	w->view_number = m->b.view.number;
	if (m->h.view > w->generation) {
		tw_worker_reset(w, ctx, m->h.view);
		w->asked_lease = true; /* a new generation deals to everybody unasked */
	} else {
		resend_to_master(w, ctx); /* a master that took over has not heard it */
	}
	places(w, ctx, m);
	tw_worker_ask_pinned(w, ctx); /* the places it needs may only be known now */
	if (m->h.view == w->generation)
		w->draining = !m->b.view.running && !tw_worker_rounds(w); /* rounds just end */
	tw_worker_advance(w, ctx);
}

static void snap(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	struct tw_msg *out;

	if (!w->welcomed || m->h.view != w->generation)
		return;
	out = tw_worker_to_master(w, ctx, TW_PART);
	if (!out)
		return;
	out->b.part = (struct tw_body_part){ .cut = m->b.snap.cut, .slot = w->slot };
	out->payload = tw_step_part(w);
	if (!out->payload) {
		ctx->world->msg_free(ctx, out);
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for worker %u's part of a cut", w->slot);
		return;
	}
	out->h.payload = (uint32_t)out->payload->bytes;
	tw_send(ctx, out);
}

/* --- hearing the shards -------------------------------------------------------------------- */

static void acked(struct worker *w, uint32_t shard, uint64_t seq)
{
	if (seq > w->link[shard].acked)
		w->link[shard].acked = seq;
}

enum tw_status tw_worker_take_view(struct worker *w, uint32_t shard, const struct tw_msg *m,
				   struct tw_block **place)
{
	const struct tw_plan *p = w->plan;
	const size_t n = p->problem.border[shard + 1] - p->problem.border[shard];
	const size_t t = tw_worker_trainable(w, shard);
	const size_t tail = (n - t) * sizeof(float);
	struct tw_block *b;

	if (!m->payload || m->h.payload < tail)
		return TW_BAD_BYTES;
	if (m->b.params.pin || (p->traffic.down->traits & TW_CODEC_IDENTITY)) {
		if (m->h.payload != n * sizeof(float))
			return TW_BAD_BYTES;
		b = tw_block_keep(m->payload);
	} else {
		b = tw_block_new(w->heap, n * sizeof(float));
		if (!b)
			return TW_NO_MEMORY;
		if (p->traffic.down->decode(p->traffic.down_options, tw_msg_payload(m),
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

/* What was dropped came late: the leases of rounds that are over are void. */
static void void_leases(struct worker *w, uint64_t round)
{
	for (uint32_t k = w->held_count; k-- > 0;)
		if (w->held[k].round < round && (!w->busy || w->held[k].id != w->compute.id))
			tw_worker_drop_held(w, k);
}

static bool all_fetched(const struct worker *w)
{
	for (uint32_t s = 0; s < w->plan->problem.shards; s++)
		if (w->link[s].wants || !w->link[s].view)
			return false;
	return true;
}

/* A shard did not take the numbers of a contribution; every other shard may say the same. */
static void was_bad(struct worker *w, struct tw_context *ctx, const struct tw_msg *m, uint64_t seq)
{
	if (!(m->h.flags & TW_FLAG_NUMBERS) || seq <= w->bad_seq)
		return;
	w->bad_seq = seq;
	if (w->bad++ % 100 == 0)
		tw_say(ctx, TW_WARNING,
		       "contribution %llu was refused by shard %u: it is not finite (%llu so far)",
		       (unsigned long long)seq, m->h.shard, (unsigned long long)w->bad);
}

static void params(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_params *b = &m->b.params;
	const uint32_t shard = m->h.shard;
	enum tw_status st = TW_OK;
	struct link *l;

	if (!w->welcomed || shard >= w->plan->problem.shards || m->h.view != w->generation ||
	    m->h.incarnation != w->incarnation)
		return;
	l = &w->link[shard];
	if (b->pin) {
		tw_worker_pinned(w, ctx, m);
		return;
	}
	if (b->version.incarnation < l->incarnation)
		return;
	acked(w, shard, b->link);
	was_bad(w, ctx, m, b->link);
	if (tw_worker_rounds(w) && (m->h.flags & TW_FLAG_DROPPED))
		void_leases(w, b->round);
	tw_worker_closings(w, ctx);
	if (!l->wants || b->number != l->number) {
		tw_worker_advance(w, ctx);
		return;
	}
	if (m->h.type == TW_PARAMS)
		st = tw_worker_take_view(w, shard, m, &l->view);
	if (st == TW_NO_MEMORY) {
		tw_give_up(ctx, st, "no memory for an answer of shard %u", shard);
		return;
	}
	if (st != TW_OK) { /* the request stays open */
		tw_say(ctx, TW_WARNING, "an answer of shard %u is malformed", shard);
		return;
	}
	l->wants = l->asked = false;
	l->version = b->version;
	l->round = b->round;
	l->least = b->least;
	l->rate = b->rate;
	l->statistic = b->statistic;
	if (all_fetched(w))
		tw_step_fetched(w, ctx);
	tw_worker_advance(w, ctx);
}

static void ack(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	if (!w->welcomed || m->h.shard >= w->plan->problem.shards || m->h.view != w->generation ||
	    m->h.incarnation != w->incarnation ||
	    m->b.ack.version.incarnation < w->link[m->h.shard].incarnation)
		return;
	acked(w, m->h.shard, m->b.ack.link);
	was_bad(w, ctx, m, m->b.ack.link);
	tw_worker_closings(w, ctx);
	tw_worker_advance(w, ctx);
}

/* --- the actor ---------------------------------------------------------------------------- */

static struct tw_actor *worker_new(struct tw_heap *heap, const void *arg)
{
	const struct tw_role_arg *a = arg;
	struct worker *w = tw_heap_zeros(heap, sizeof *w);

	if (!w)
		return NULL;
	w->plan = a->plan;
	w->heap = heap;
	w->index = w->slot = a->index;
	w->link = tw_heap_zeros(heap, a->plan->problem.shards * sizeof *w->link);
	w->node_down = tw_heap_zeros(heap, a->plan->crew.servers + 1);
	if (w->link && w->node_down && tw_step_open(w) == TW_OK)
		return (struct tw_actor *)w;
	tw_worker_class.free((struct tw_actor *)w);
	return NULL;
}

static void worker_free(struct tw_actor *a)
{
	struct worker *w = (struct worker *)a;

	if (!w)
		return;
	for (uint32_t s = 0; w->link && s < w->plan->problem.shards; s++)
		tw_block_drop(w->link[s].view);
	tw_step_close(w);
	w->heap->put(w->heap, w->link);
	w->heap->put(w->heap, w->node_down);
	w->heap->put(w->heap, w->held);
	w->heap->put(w->heap, w->done);
	w->heap->put(w->heap, w);
}

static void worker_start(struct tw_actor *a, struct tw_context *ctx)
{
	hello((struct worker *)a, ctx, true);
}

/* The master counts us among its members although we have left: our last word was lost, or was
 * overtaken by an earlier one. */
static void still_member(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_welcome *b = &m->b.welcome;
	const bool invited = m->h.type == TW_WELCOME && b->boot == ctx->boot;

	if (invited && b->incarnation > w->incarnation) {
		w->slot = b->slot;
		w->incarnation = b->incarnation;
		w->generation = m->h.view;
		w->done_count = 0;
	} else if (!invited && m->h.incarnation != w->incarnation) {
		return;
	}
	w->bye = TW_FLAG_LEAVE;
	tw_worker_leave_again(w, ctx);
}

static void worker_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct worker *w = (struct worker *)a;

	if (w->over || !tw_hears(ctx, m))
		return;
	if (w->left) {
		if (m->h.type == TW_WELCOME || m->h.type == TW_VIEW || m->h.type == TW_LEASE)
			still_member(w, ctx, m);
		return;
	}
	switch (m->h.type) {
	case TW_WELCOME:
		welcome(w, ctx, m);
		break;
	case TW_REFUSE:
		refused(w, ctx, m);
		break;
	case TW_VIEW:
		view(w, ctx, m);
		break;
	case TW_LEASE:
		tw_worker_lease(w, ctx, m);
		break;
	case TW_PARAMS:
	case TW_UNCHANGED:
		params(w, ctx, m);
		break;
	case TW_ACK:
		ack(w, ctx, m);
		break;
	case TW_EVAL:
		tw_worker_evaluate(w, ctx, m);
		break;
	case TW_SNAP:
		snap(w, ctx, m);
		break;
	case TW_BYE:
		stop(w, ctx);
		break;
	default:
		break;
	}
}

static void worker_computed(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	struct worker *w = (struct worker *)a;

	if (c == &w->eval) {
		tw_worker_evaluated(w, ctx);
		return;
	}
	tw_step_computed(w, ctx);
	tw_worker_advance(w, ctx);
}

static void worker_down(struct tw_actor *a, struct tw_context *ctx, uint32_t node)
{
	struct worker *w = (struct worker *)a;

	if (node == 0) {
		w->since = tw_now(ctx);
		return;
	}
	if (node <= w->plan->crew.servers)
		w->node_down[node] = true;
	for (uint32_t s = 0; s < w->plan->problem.shards; s++)
		if (w->link[s].known && w->link[s].addr.node == node) {
			w->link[s].down = true;
			tw_timer(ctx, TIMER_LOST, w->plan->crew.limit);
		}
}

/* A server is silent for us, and the master has not moved its shards: others must not wait for
 * us.  Leave, and ask again later, or as soon as the server can be reached. */
static void worker_timer(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	struct worker *w = (struct worker *)a;
	struct tw_msg *m;
	bool lost = false;

	if (w->over || w->left)
		return;
	if (!w->welcomed) {
		hello(w, ctx, true);
		return;
	}
	if (timer != TIMER_LOST)
		return;
	for (uint32_t s = 0; s < w->plan->problem.shards; s++)
		lost = lost || (w->link[s].known && w->link[s].down);
	if (!lost)
		return;
	m = tw_worker_to_master(w, ctx, TW_BYE);
	if (!m)
		return;
	tw_send(ctx, m);
	w->welcomed = false;
	tw_worker_reset(w, ctx, 0);
	for (uint32_t s = 0; s < w->plan->problem.shards; s++)
		w->link[s].known = false;
	if (w->leaving)
		tw_worker_go(w, ctx);
	else
		tw_timer(ctx, TIMER_LOST, w->plan->crew.limit);
}

/* Its connection was made anew: what is open with it is said again (2). */
static void resend_to_shard(struct worker *w, struct tw_context *ctx, uint32_t shard)
{
	struct link *l = &w->link[shard];
	const struct held *h = tw_worker_current(w);

	for (uint32_t k = 0; k < w->outs; k++)
		if (w->out[k].seq > l->acked || (l->wants && !l->asked))
			tw_worker_send_push(w, ctx, &w->out[k], shard);
	if (l->wants && l->asked)
		send_pull(w, ctx, shard, h ? h->round : 0);
	if (l->wants && !l->asked && l->acked >= w->seq) {
		/* the push was taken; only its answer was lost */
		l->asked = true;
		send_pull(w, ctx, shard, h ? h->round : l->round + 1);
	}
}

static void worker_up(struct tw_actor *a, struct tw_context *ctx, uint32_t node, uint32_t boot)
{
	struct worker *w = (struct worker *)a;

	if (w->left && node == 0) /* (2) */
		tw_worker_leave_again(w, ctx);
	if (w->left)
		return;
	if (w->over && node == 0 && boot > w->incarnation >> 20) { /* it had stopped, and goes on */
		w->over = false;
		start_again(w, ctx);
		return;
	}
	if (w->over)
		return;
	if (node == 0) {
		/* leases of a master before this one, still on their way, are void */
		w->term = boot;
		if (w->last_lease < (uint64_t)boot << 20)
			w->last_lease = (uint64_t)boot << 20;
		hello(w, ctx, !w->welcomed);
		if (w->welcomed)
			resend_to_master(w, ctx);
		return;
	}
	if (node <= w->plan->crew.servers)
		w->node_down[node] = false;
	for (uint32_t s = 0; s < w->plan->problem.shards; s++)
		if (w->link[s].known && w->link[s].addr.node == node) {
			w->link[s].down = false;
			resend_to_shard(w, ctx, s);
		}
	if (!w->welcomed)
		hello(w, ctx, true);
	else
		tw_worker_ask_pinned(w, ctx);
}

static void worker_interrupt(struct tw_actor *a, struct tw_context *ctx)
{
	struct worker *w = (struct worker *)a;

	if (w->left)
		return;
	w->leaving = true;
	if (w->welcomed && !w->over)
		tw_worker_advance(w, ctx);
	else
		tw_worker_go(w, ctx);
}

/* The first shard that keeps it from going on; NULL: none.  *why says how. */
static const struct link *held_up(const struct worker *w, const char **why)
{
	for (uint32_t s = 0; s < w->plan->problem.shards; s++) {
		const struct link *l = &w->link[s];

		if (!l->known) {
			if (!w->held_count)
				continue;
			*why = "a server to host it";
			return l;
		}
		if (l->wants || l->acked < w->seq) {
			*why = l->down    ? "its server, which cannot be reached"
			       : l->asked ? "its parameters"
					  : "its answer to push";
			return l;
		}
	}
	return NULL;
}

static bool worker_waiting(const struct tw_actor *a, struct tw_wait *out)
{
	const struct worker *w = (const struct worker *)a;
	const struct link *l;

	if (w->over || w->left || w->busy)
		return false;
	*out = (struct tw_wait){ .slot = w->slot, .since = w->since };
	if (w->welcomed && (l = held_up(w, &out->why))) {
		const uint16_t shard = (uint16_t)(l - w->link);

		out->whom = l->known ? l->addr : (struct tw_addr){ UINT32_MAX, TW_SHARD, shard };
		if (l->known && !l->down && !l->asked)
			out->step = w->seq; /* behind the words "its answer to push" */
		return true;
	}
	out->whom = tw_master_addr();
	out->why = w->welcomed ? "work to do" : w->full ? "a free place" : "a welcome";
	return true;
}

const struct tw_actor_class tw_worker_class = {
	.name = "worker",
	.new = worker_new,
	.free = worker_free,
	.start = worker_start,
	.message = worker_message,
	.timer = worker_timer,
	.computed = worker_computed,
	.down = worker_down,
	.up = worker_up,
	.interrupt = worker_interrupt,
	.waiting = worker_waiting,
};
