/* SPDX-License-Identifier: Apache-2.0 */
/* shard.h - a server's shard: a slice of the parameters, its workers, a gate, and waiting requests.
 *
 * The rules of all this are in shard.c.  The parts, who keeps them true and who resets them:
 *
 *	slice      what is trained                       slice.h, slice_update.h; duty/host
 *	fence      whom it obeys, and what is too old    shard.c, shard_members.c
 *	early      what other replicas said too early    shard.c, kernel/early.h
 *	worker      one worker                            shard_members.c
 *	members    all workers                           shard_members.c
 *	clocks     how far workers are                   shard_clocks.h
 *	queue      requests that wait                    shard_queue.c
 *	readers    who computes on which version         shard_readers.c
 *	committed  what was committed last               duty/round, duty/verdict
 *	bucket     contributions on their way            shard_bucket.c
 *	duties     protocols with a folder of their own  kernel/duty.h
 *
 * tw_host_shard_let_go resets all of them; of the fence, generation, term and attempt stay. */
#ifndef TW_NODE_SHARD_SHARD_H
#define TW_NODE_SHARD_SHARD_H

#include "node/kernel/duty.h"
#include "node/kernel/early.h"
#include "node/kernel/taker.h"
#include "node/slice_update.h"
#include "node/shard/shard_clocks.h"

/* A snapshot that a worker was sent, as the worker decodes it. */
struct shard_worker_sent {
	uint64_t n; /* version */
	struct tw_block *block;
};

/* How far the link of an incarnation is closed; bit k of `unapplied`: number link - k was not
 * applied; of `late`: because the gate dropped it. */
struct shard_worker_mark {
	uint32_t incarnation;
	uint16_t unapplied, late;
	float residual; /* as in struct shard_worker: counted as lost, unless it comes back */
	uint64_t link;
};

/* A request that waits.  The list is by slot + 1; 0: none. */
struct shard_worker_request {
	bool parked, aside;     /* not both */
	uint32_t before, after; /* in the queue, while parked */
	uint64_t number, round;
	uint64_t have; /* the version that need not be sent again; NO_VERSION: none */
	int64_t since;
};
#define NO_VERSION UINT64_MAX

/* Contributions that were refused for their numbers. */
struct shard_worker_strikes {
	uint32_t count;  /* in a row ... */
	uint64_t others; /* ... since this many contributions of others were applied */
	uint64_t link;   /* number of the last one; 0 none */
};

enum shard_worker_state {
	SHARD_WORKER_ABSENT,  /* it has not come, or was removed */
	SHARD_WORKER_LEFT,    /* ... or has left, and took all along */
	SHARD_WORKER_CLAIMED, /* here by its own word only: no view has named it yet */
	SHARD_WORKER_MEMBER,  /* a view has named it */
};

/* One worker as this shard knows it.  `sent` and `last` are there only while the worker is here. */
struct shard_worker {
	struct tw_addr addr;
	uint32_t incarnation, node; /* node: only this one speaks for it */
	enum shard_worker_state state;
	uint32_t listed; /* number of the last full view that named it */
	uint64_t link;   /* its last number closed: applied, collected, dropped or refused ... */
	uint64_t seq;    /* ... and the contribution that it carried */
	uint16_t unapplied, late; /* as in struct shard_worker_mark */
	struct shard_worker_mark
		other;    /* of who was here before, in case that the claim is not true */
	uint64_t applied; /* contributions of this slot */
	float residual;   /* norm that it owes after its last contribution that counts */
	struct shard_worker_strikes strikes;
	struct shard_worker_request request;
	struct shard_worker_sent *sent; /* newest first; members.memory of them, or NULL */
	struct contribution *last;      /* its last gradient (B-FASGD's skipped pushes) */
};

/* What is older, or of another master, is fenced. */
struct shard_fence {
	uint64_t generation;
	uint64_t term;      /* boot of the newest master heard of */
	uint64_t view;      /* number of the last full view: what is older says nothing new */
	uint32_t view_term; /* boot of the master that sent it */
	uint32_t attempt;   /* of the newest copy, or formation that adds up rounds */
};

/* What the worker of another replica owes (tw_plan_gathers): a replica knows its own worker only,
 * but counts what dies with others. */
struct shard_debt {
	uint32_t incarnation; /* its newest life that was heard of */
	bool gone;
	float residual; /* after its last contribution that counts */
};

/* All workers that may be here.  `failing` counts the workers that are here and have strikes.
 *
 * Where the stage of this shard has lanes, each of them is a worker to the shard: of the worker at
 * slot k these are number k * lanes and those behind it (tw_plan_senders), which is what `slot`
 * means in all of a shard's books.  The master counts workers: what is said to it, and noted, is of
 * them. */
struct shard_members {
	struct shard_worker *worker; /* by slot */
	uint32_t senders, lanes;     /* so many slots; of these belong to one of the master's */
	struct shard_debt *debt;     /* by slot; NULL: there are none */
	uint32_t live;               /* as the master counts */
	uint32_t failing;
	uint32_t full_views; /* so many came */
	uint32_t memory;     /* snapshots that are remembered per worker */
	bool at_zero;        /* clocks began here at 0, as they did everywhere */
};

/* Parked requests, oldest first. */
struct shard_queue {
	uint32_t first, last; /* slot + 1; 0: none waits */
	bool due;             /* something has changed that may let one of them go */
};

/* The version that a worker was answered with last.  The list is by slot + 1; 0: none. */
struct shard_reading {
	bool listed;
	uint32_t before, after;
	uint64_t version;
};

/* Workers that compute, the oldest version first. */
struct shard_readers {
	struct shard_reading *of; /* by slot; NULL: the gate stops nobody */
	uint32_t first, last;     /* slot + 1; 0: nobody */
	uint64_t counted;         /* contributions that counted when a worker was last answered */
};

/* What was committed last; the number of rounds committed is the slice's. */
struct shard_committed {
	struct tw_block *set; /* tail of the last COMMIT: struct tw_member, tw_judged ... */
	uint32_t count;       /* ... so many */
	uint64_t verdicts;    /* sets of them carried out in this generation */
};

/* What a gate keeps added up of one worker, or of all. */
struct shard_sum {
	struct contribution *of; /* in the bucket; it holds the sum; NULL: nothing is here */
	uint32_t count;          /* contributions in it */
};

/* Contributions that wait for their update, and those that can be used again. */
struct shard_bucket {
	struct contribution **at; /* collected, not applied yet */
	uint32_t count;
	size_t room;
	struct shard_sum *sum;    /* by slot, or one; NULL: the gate keeps each as it is */
	struct tw_collected kept; /* sums of active workers; only these two fields are kept here */
	struct contribution *spare; /* made and not in use */
};

struct shard {
	const struct tw_plan *plan;
	struct tw_heap *heap;
	uint32_t index;
	bool hosted; /* it has a slice */
	struct shard_fence fence;
	struct tw_early early; /* what other replicas said before the master told of them */
	struct slice slice;
	struct shard_members members;
	struct shard_clocks clocks;
	struct shard_queue queue;
	struct shard_readers readers;
	struct shard_committed committed;
	struct shard_bucket bucket;
	const struct tw_taker *taker;  /* kernel/taker.h */
	struct eval_shard *eval;       /* duty/eval */
	struct host_shard *host;       /* duty/host */
	struct verdict_shard *verdict; /* duty/verdict; NULL: the master does not judge */
	struct round_shard *round;     /* duty/round; NULL: there are no rounds */
	struct reduce_shard *reduce;   /* duty/reduce; NULL: no replicas add up rounds */
	struct mix_shard *mix;         /* duty/mix; NULL: replicas do not differ */
	struct tw_duties duties;
};

static inline bool tw_shard_rounds(const struct shard *s)
{
	return s->plan->gate->traits & TW_GATE_ROUNDS;
}

static inline bool tw_shard_lockfree(const struct shard *s)
{
	return s->plan->gate->traits & TW_GATE_LOCKFREE;
}

static inline bool tw_shard_is_replica(const struct shard *s)
{
	return tw_plan_has_peers(s->plan);
}

static inline bool tw_shard_is_loose(const struct shard *s)
{
	return tw_plan_is_loose(s->plan);
}

static inline struct shard_worker *tw_shard_worker(const struct shard *s, uint32_t slot)
{
	return &s->members.worker[slot];
}

/* Who of the shard's books says this PUSH or PULL; UINT32_MAX: nobody. */
static inline uint32_t tw_shard_sender(const struct shard *s, const struct tw_msg *m)
{
	const uint32_t lane = m->h.type == TW_PUSH ? m->b.push.lane : m->b.pull.lane;

	if (s->members.lanes < 2)
		return m->h.from;
	if (m->h.from >= s->plan->crew.workers || lane >= s->members.lanes)
		return UINT32_MAX;
	return m->h.from * s->members.lanes + lane;
}

/* Whom the master knows by this. */
static inline uint32_t tw_shard_slot(const struct shard *s, uint32_t sender)
{
	return sender / s->members.lanes;
}

static inline bool tw_shard_worker_is_here(const struct shard_worker *g)
{
	return g->state >= SHARD_WORKER_CLAIMED;
}

/* Was the last contribution of this worker refused for its numbers? */
static inline bool tw_shard_worker_is_bad(const struct shard_worker *g)
{
	return g->strikes.link && g->strikes.link == g->link;
}

/* Number `link` of this worker's link, which carried contribution `seq`, is closed, and with it all
 * numbers before it: `applied` holds for those that were not closed yet. */
static inline void tw_shard_worker_close(struct shard_worker *g, uint64_t link, uint64_t seq,
					 bool applied)
{
	const uint64_t by = link > g->link ? link - g->link : 0;
	const uint32_t skipped = by < 16 ? (1u << by) - 1 : UINT16_MAX;

	g->unapplied = by < 16 ? (uint16_t)(g->unapplied << by) : 0;
	g->late = by < 16 ? (uint16_t)(g->late << by) : 0;
	if (!applied)
		g->unapplied |= (uint16_t)(by ? skipped : 1);
	g->link = link;
	g->seq = seq;
}

/* The last one was closed because the gate found it late. */
static inline void tw_shard_worker_was_late(struct shard_worker *g)
{
	g->unapplied |= 1;
	g->late |= 1;
}

/* That its numbers were refused, a worker is told with whichever answer reaches it. */
static inline uint32_t tw_shard_worker_flags(const struct shard_worker *g)
{
	return tw_shard_worker_is_bad(g) ? TW_FLAG_REFUSED | TW_FLAG_NUMBERS : 0;
}

/* --- kernel/shard_post.c ------------------------------------------------------------------- */

/* A message to the master with what all of a shard's have in its header; NULL: see tw_msg_to. */
struct tw_msg *tw_shard_to_master(const struct shard *s, struct tw_context *ctx, enum tw_type type);
/* The same to a worker. */
struct tw_msg *tw_shard_to_worker(const struct shard *s, struct tw_context *ctx,
				  const struct shard_worker *g, enum tw_type type);

/* --- shard_push.c --------------------------------------------------------------------------- */

/* Takers of contributions: see kernel/taker.h. */
extern const struct tw_taker tw_taker_bucket;
/* Their `push`, and what they have in common. */
void tw_shard_push_contribution(struct shard *s, struct tw_context *ctx, uint32_t slot,
				const struct tw_msg *m);
/* What a message says of a contribution, without its vector; does it bring one for this shard? */
struct contribution tw_shard_push_said(uint32_t slot, const struct tw_msg *m);
bool tw_shard_push_carries(const struct shard *s, const struct tw_body_push *p);
/* What it brought is counted, and it is to blame for nothing before it. */
void tw_shard_push_counted(struct shard *s, const struct contribution *c, const struct tw_msg *m);
/* Outside rounds it is closed as soon as it is here: to the gate with it. */
enum tw_status tw_shard_push_take(struct shard *s, struct tw_context *ctx, struct contribution *c,
				  const struct tw_msg *m);
/* The answer to a push that was taken. */
void tw_shard_push_reply(struct shard *s, struct tw_context *ctx, uint32_t slot,
			 const struct tw_msg *m);
/* It is closed without being applied, and answered; `late`: its samples are to be dealt again, if
 * no other shard applies it; `reject`: it has failed its check. */
void tw_shard_push_refuse(struct shard *s, struct tw_context *ctx, uint32_t slot,
			  const struct tw_msg *m);
void tw_shard_push_refuse_late(struct shard *s, struct tw_context *ctx, uint32_t slot,
			       const struct tw_msg *m);
void tw_shard_push_reject(struct shard *s, struct tw_context *ctx, uint32_t slot,
			  const struct tw_msg *m);
void tw_shard_push_note_refused(struct shard *s, struct tw_context *ctx,
				const struct contribution *c);
/* Its numbers were refused again. */
void tw_shard_push_strike(struct shard *s, struct tw_context *ctx, uint32_t slot, uint64_t link);
/* Kept for pushes that are skipped, where some may be. */
void tw_shard_push_keep(struct shard *s, struct tw_context *ctx, const struct contribution *c,
			uint32_t flags);
/* What a push or a SPREAD brings, checked whole, into a contribution that is empty. */
enum tw_status tw_shard_unpack(struct shard *s, const struct tw_msg *m, struct contribution *c);
/* `len` bytes of a slice, as codec.up writes them and the buffers after them, into slice.all
 * floats; *values: how many a sparse codec sent, else it stays.  TW_BAD_BYTES: they are malformed,
 * or not finite; `to` is rubbish then. */
enum tw_status tw_shard_decode(const struct shard *s, const uint8_t *bytes, size_t len, float *to,
			       size_t *values);
/* What the codec made of it is counted: so many values were sent. */
void tw_shard_count_bytes(struct shard *s, const struct tw_msg *m, size_t values);
/* May a contribution have this weight, or be divided by it? */
bool tw_shard_is_share(float x);
/* Can one or several contributions say this of themselves?  Weight and divide are left aside. */
bool tw_shard_is_account(const struct tw_account *a);
/* What the numbers of a slice must be, from any sender. */
bool tw_shard_plausible(const struct shard *s, const struct tw_body_push *p);
/* How many updates of others the slice is behind.  Of a replica that only counts what others apply:
 * how many contributions of others counted since its worker read it. */
uint64_t tw_shard_staleness(const struct shard *s, const struct tw_body_push *p);
/* The master has judged it (enum tw_judgement): it is applied, kept, dropped or refused, closed and
 * answered.  Takes it over. */
void tw_shard_settle(struct shard *s, struct tw_context *ctx, struct contribution *c,
		     enum tw_judgement how, bool flush);
/* A contribution that came in order, and will not be applied; its seq is closed already. */
void tw_shard_note_drop(struct shard *s, struct tw_context *ctx, uint32_t slot,
			const struct tw_body_push *push);

/* --- shard_bucket.c ------------------------------------------------------------------------- */

/* An empty contribution, a used one if there is one; NULL without memory. */
static inline struct contribution *tw_bucket_take(struct shard *s)
{
	struct contribution *c = s->bucket.spare;

	if (!c)
		return tw_heap_zeros(s->heap, sizeof *c);
	s->bucket.spare = c->spare;
	*c = (struct contribution){ .slot = 0 };
	return c;
}
/* It is done with: its reference is dropped.  NULL is allowed. */
void tw_bucket_give_back(struct shard *s, struct contribution *c);
/* Make room for this many more. */
enum tw_status tw_bucket_reserve(struct shard *s, uint32_t more);
/* It will be part of the next update, which takes it over; there is room. */
void tw_bucket_add(struct shard *s, struct contribution *c);
/* It was admitted for an update with others: keep it as the gate wants, and apply all of it if the
 * gate finds that due.  Takes it over; there is room. */
void tw_bucket_collect(struct shard *s, struct tw_context *ctx, struct contribution *c);
/* This worker has become active, or is not any more. */
void tw_bucket_active(struct shard *s, uint32_t slot, bool active);
/* A worker has left or has nothing to do: is the update due that waited for it? */
void tw_bucket_check(struct shard *s, struct tw_context *ctx);
/* Memory for what the gate keeps added up. */
enum tw_status tw_bucket_init(struct shard *s);
/* Apply what is collected as one update. */
void tw_bucket_flush(struct shard *s, struct tw_context *ctx);
void tw_bucket_release(struct shard *s);

/* --- shard_answer.c ------------------------------------------------------------------------- */

/* Send the worker what it sees now, as the answer to its request `number`, and remember it. */
void tw_shard_answer(struct shard *s, struct tw_context *ctx, uint32_t slot, uint64_t number,
		     uint32_t flags);
/* Send it the view of an evaluation, if it is kept. */
void tw_shard_answer_view(struct shard *s, struct tw_context *ctx, uint32_t slot,
			  const struct tw_body_pull *p);
/* Say that the worker has what it would be sent. */
void tw_shard_answer_unchanged(struct shard *s, struct tw_context *ctx, uint32_t slot,
			       uint64_t number);
/* Say only how far its contributions are closed. */
void tw_shard_acknowledge(struct shard *s, struct tw_context *ctx, uint32_t slot, uint32_t flags);
/* --- shard_pull.c --------------------------------------------------------------------------- */

/* TW_PULL: a worker that may speak (tw_shard_admitted) wants to read. */
void tw_shard_pull(struct shard *s, struct tw_context *ctx, const struct tw_msg *m);

/* --- shard_sent.c --------------------------------------------------------------------------- */

/* This block, which is decoded, is what it is sent of the version of now. */
enum tw_status tw_shard_keep_sent(struct shard *s, struct shard_worker *g, struct tw_block *b);
/* What this worker computed on, if it is remembered; else NULL.  It was sent something. */
const float *tw_shard_find_sent(const struct shard *s, const struct shard_worker *g,
				uint64_t version);
static inline const float *tw_shard_sent(const struct shard *s, uint32_t slot, uint64_t version)
{
	const struct shard_worker *g = tw_shard_worker(s, slot);

	return g->sent ? tw_shard_find_sent(s, g, version) : NULL;
}
/* A worker that computes on `base` will never again compute on what it was sent before. */
void tw_shard_forget_older(struct shard *s, struct shard_worker *g, uint64_t base);
static inline void tw_shard_forget_sent(struct shard *s, struct shard_worker *g, uint64_t base)
{
	if (g->sent && !s->plan->delay.steps)
		tw_shard_forget_older(s, g, base);
}
/* What it was sent is of no use any more. */
void tw_shard_forget_all_sent(struct shard *s, struct shard_worker *g);

/* --- shard_queue.c -------------------------------------------------------------------------- */

/* Is this request older than the one the worker has parked here?  It was late on its way. */
bool tw_shard_outdated(const struct shard_worker *g, uint64_t number);
/* May the worker read when `round` rounds are committed, and if not, which worker does it wait
 * for?  *whom is UINT32_MAX when it is the master. */
bool tw_shard_may_read(const struct shard *s, uint32_t slot, uint64_t round, uint32_t *whom);
/* Keep the request until it may be answered. */
void tw_shard_park(struct shard *s, struct tw_context *ctx, uint32_t slot, uint64_t number,
		   uint64_t round);
/* The request of this worker, if one is parked, will not be answered. */
void tw_shard_unpark(struct shard *s, uint32_t slot);
/* Its worker is in no view any more; if the same one is in a view again, so is the request. */
void tw_shard_put_aside(struct shard *s, uint32_t slot);
void tw_shard_park_again(struct shard *s, struct tw_context *ctx, uint32_t slot);
/* Answer every parked request that may go now, oldest first. */
void tw_shard_release(struct shard *s, struct tw_context *ctx);
/* For whom does this shard wait?  False: for nobody. */
bool tw_shard_waits(const struct shard *s, struct tw_wait *out);
/* TW_ASK: tell the master who holds up this attempt of a round, or everybody. */
void tw_shard_tell_wait(struct shard *s, struct tw_context *ctx, const struct tw_msg *m);

/* --- shard_readers.c ------------------------------------------------------------------------ */

enum tw_status tw_shard_readers_init(struct shard *s);
void tw_shard_readers_release(struct shard *s);
/* The worker is being answered with this version (gates that stop only). */
void tw_shard_reads(struct shard *s, uint32_t slot);
/* It computes on nothing of this shard any more, or will be answered. */
void tw_shard_reads_no_more(struct shard *s, uint32_t slot);
/* After an update: tell those whose version has become too old. */
void tw_shard_stop_late(struct shard *s, struct tw_context *ctx);

/* --- shard_members.c ------------------------------------------------------------------------ */

/* A sender that is not known as this worker speaks: a newcomer's worker, or NULL. */
struct shard_worker *tw_shard_admit_unknown(struct shard *s, struct tw_context *ctx, uint32_t slot,
					    const struct tw_msg *m);
/* The door: is this message from a worker that may talk to this shard, as this slot?  Its worker is
 * up to date then; else NULL, and it was answered as it deserves. */
static inline struct shard_worker *tw_shard_admitted(struct shard *s, struct tw_context *ctx,
						     uint32_t slot, const struct tw_msg *m)
{
	struct shard_worker *g;

	if (!s->hosted || slot >= s->members.senders || m->h.view != s->fence.generation ||
	    (m->h.flags & TW_FLAG_RELAYED))
		return tw_shard_admit_unknown(s, ctx, slot, m);
	g = tw_shard_worker(s, slot);
	if (m->h.incarnation != g->incarnation || !tw_shard_worker_is_here(g) ||
	    g->node != m->from.node)
		return tw_shard_admit_unknown(s, ctx, slot, m);
	g->addr = m->from;
	return g;
}
/* The worker says its clock (gates that ask who is active only). */
static inline void tw_shard_clock(struct shard *s, uint32_t slot, uint64_t clock)
{
	const struct shard_worker *g = tw_shard_worker(s, slot);
	bool was;

	if (!tw_plan_shards_know_active(s->plan))
		return;
	was = s->clocks.of[slot].place;
	tw_clocks_say(&s->clocks, slot, clock, tw_shard_worker_is_here(g));
	if (was != (s->clocks.of[slot].place != 0))
		tw_bucket_active(s, slot, !was);
	if (g->request.parked)
		s->queue.due = true;
}
void tw_shard_view(struct shard *s, struct tw_context *ctx, const struct tw_msg *m);
void tw_shard_idle(struct shard *s, struct tw_context *ctx, const struct tw_msg *m);
/* So many of its contributions in a row were refused for their numbers. */
void tw_shard_worker_strike(struct shard *s, struct shard_worker *g, uint32_t count);
/* A worker died, and what it owed with it: the norm `is`, where `was` has been counted so far. */
void tw_shard_lose(struct shard *s, float was, float is);
/* What a worker owes after a contribution that counts; one that was promised may outlive it. */
static inline void tw_shard_worker_owes(struct shard *s, struct shard_worker *g, float residual)
{
	if (!tw_shard_worker_is_here(g))
		tw_shard_lose(s, g->residual, residual);
	g->residual = residual;
}
/* The same, after one that may be of a life that is over. */
static inline void tw_shard_owes(struct shard *s, struct shard_worker *g,
				 const struct contribution *c)
{
	if (c->incarnation == g->incarnation) {
		tw_shard_worker_owes(s, g, c->push.account.residual);
	} else if (c->incarnation == g->other.incarnation) {
		tw_shard_lose(s, g->other.residual, c->push.account.residual);
		g->other.residual = c->push.account.residual;
	}
}
/* What this life of another replica's worker owes after a contribution that counts. */
void tw_shard_other_owes(struct shard *s, uint32_t slot, uint32_t incarnation, float residual);
enum tw_status tw_shard_workers_init(struct shard *s);
void tw_shard_workers_release(struct shard *s);

/* --- shard_lockfree.c ----------------------------------------------------------------------- */

/* A message to a lock-free shard, entered by many threads at a time. */
void tw_shard_shared(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m);

#endif
