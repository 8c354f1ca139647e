/* SPDX-License-Identifier: Apache-2.0 */
/* test_hostile_actors.c - no peer can make a process crash, allocate without bound or wait forever.
 *
 * A cluster of real actors in a small world of its own: messages are delivered in order, timers
 * fire when nothing else is left to do, computations are done between the messages.  Between
 * genuine messages come hostile ones, each of which went through one_frame_write and
 * one_frame_read, so that only what passes the check of frames arrives. */
#include "actor/cluster.h"
#include "base/rng.h"
#include "job/trial.h"
#include "node/duty/mix/mix_state.h"
#include "node/duty/reduce/reduce_state.h"
#include "node/master/master.h"
#include "node/reducer/reducer_state.h"
#include "node/shard/shard.h"
#include "node/worker/worker.h"
#include "vec/vec.h"
#include "kit/one_frame.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#define TIMERS 12
#define FRAME  (1u << 16)

/* --- memory that is counted --------------------------------------------------------------- */

struct counting {
	struct tw_heap heap; /* must stay first */
	size_t blocks, bytes, most;
};

#define ROOM 64 /* in front of what is handed out; keeps the alignment */

static void *counting_get(struct tw_heap *heap, size_t bytes)
{
	struct counting *c = (struct counting *)heap;
	uint8_t *p = tw_heap_system.get(&tw_heap_system, bytes + ROOM);

	if (!p)
		return NULL;
	memcpy(p, &bytes, sizeof bytes);
	c->blocks++;
	c->bytes += bytes;
	if (c->bytes > c->most)
		c->most = c->bytes;
	return p + ROOM;
}

static void counting_put(struct tw_heap *heap, void *memory)
{
	struct counting *c = (struct counting *)heap;
	size_t bytes;

	if (!memory)
		return;
	memcpy(&bytes, (uint8_t *)memory - ROOM, sizeof bytes);
	c->blocks--;
	c->bytes -= bytes;
	tw_heap_system.put(&tw_heap_system, (uint8_t *)memory - ROOM);
}

/* --- the world ---------------------------------------------------------------------------- */

struct stage;

struct player {
	struct tw_context ctx; /* must stay first */
	struct stage *stage;
	const struct tw_seat *seat;
	struct tw_actor *actor;
	int64_t timer[TIMERS]; /* when; 0: not set */
	struct tw_compute *computing[2];
	bool loading, saved;
	uint64_t saving;
	uint32_t ended, gone; /* calls of finish, of gone */
};

struct stage {
	struct trial trial;
	struct counting memory;
	struct player *player;
	size_t players;
	struct tw_msg *first, **last;
	size_t queued;
	struct tw_msg *sample[TW_TYPES][8]; /* genuine ones of each type, to be spoiled */
	size_t sampled[TW_TYPES];
	int64_t now;
	void *scratch;
	struct tw_rng rng;
	uint64_t draws;
	const struct tw_msg *under;   /* the message being handled */
	bool over;                    /* the master has finished its run well */
	const struct player *traitor; /* does nothing genuine any more */
	bool peers;                   /* there are no servers */
	bool stray;                   /* a message went to a seat that is not there */
	uint32_t liar;                /* node whose replica's values are made not finite; 0: none */
	enum { LIE_BEFORE, LIE_AFTER, LIE_INSTEAD } lie;
	uint64_t lies[TW_TYPES][2]; /* told; [1]: of the mean of replicas */
	uint64_t hostile, delivered, pushes, evaluations, diverged, cuts;
};

static struct stage *stage_of(struct tw_context *ctx)
{
	return ((struct player *)ctx)->stage;
}

static uint64_t draw(struct stage *s)
{
	return tw_rng_u64(&s->rng, 0, s->draws++);
}

static void drop(struct stage *s, struct tw_msg *m)
{
	tw_block_drop(m->tail);
	tw_block_drop(m->payload);
	s->memory.heap.put(&s->memory.heap, m);
}

static struct tw_msg *world_new(struct tw_context *ctx)
{
	return tw_heap_zeros(ctx->heap, sizeof(struct tw_msg));
}

static void world_free(struct tw_context *ctx, struct tw_msg *m)
{
	drop(stage_of(ctx), m);
}

static struct player *player_at(struct stage *s, struct tw_addr to)
{
	for (size_t k = 0; k < s->players; k++)
		if (memcmp(&s->player[k].seat->addr, &to, sizeof to) == 0)
			return &s->player[k];
	return NULL;
}

static void keep_sample(struct stage *s, const struct tw_msg *m)
{
	const size_t at = s->sampled[m->h.type]++ % 8;
	struct tw_msg **place = &s->sample[m->h.type][at];

	if (*place)
		drop(s, *place);
	*place = s->memory.heap.get(&s->memory.heap, sizeof **place);
	assert_non_null(*place);
	**place = *m;
	tw_block_keep(m->tail);
	tw_block_keep(m->payload);
}

/* Where the other replicas are, a shard believes its master. */
static bool is_for_a_replica(const struct tw_msg *m)
{
	return m->h.type == TW_REDUCE || m->h.type == TW_SPREAD || m->h.type == TW_HEARD ||
	       m->h.type == TW_MIX || m->h.type == TW_COPY;
}

static void enqueue(struct stage *s, struct tw_msg *m)
{
	m->next = NULL;
	*s->last = m;
	s->last = &m->next;
	s->queued++;
}

/* A whole sum of a round may be too large for a float: there nobody can tell a lie. */
static bool is_too_large_perhaps(const struct tw_msg *m)
{
	return m->h.type == TW_REDUCE && m->b.reduce.whole && m->b.reduce.what == TW_FORM_ROUND;
}

/* The same with values that are not finite. */
static struct tw_msg *lie_like(struct stage *s, const struct tw_msg *m)
{
	const bool mean = m->h.type == TW_REDUCE && m->b.reduce.what != TW_FORM_ROUND;
	const uint64_t count = s->lies[m->h.type][mean]++;
	const float bad = count % 3 == 0 ? NAN : count % 3 == 1 ? INFINITY : -INFINITY;
	struct tw_msg *out = s->memory.heap.get(&s->memory.heap, sizeof *out);

	assert_non_null(out);
	*out = *m;
	tw_block_keep(out->tail);
	out->payload = tw_block_new(&s->memory.heap, m->h.payload);
	assert_non_null(out->payload);
	memcpy(out->payload->data, m->payload->data + m->payload_at, m->h.payload);
	out->payload_at = 0;
	for (size_t k = 0; k + 4 <= m->h.payload; k += 4)
		if (m->h.type == TW_SPREAD || k / 4 % 7 == count % 7 || k + 8 > m->h.payload)
			memcpy(out->payload->data + k, &bad, 4);
	return out;
}

/* It goes to another replica, and so does a lie of this replica. */
static void send_with_lie(struct stage *s, struct tw_msg *m)
{
	const bool whole = m->h.type == TW_REDUCE && m->b.reduce.whole;

	if (s->lie != LIE_AFTER)
		enqueue(s, lie_like(s, m));
	if (s->lie != LIE_INSTEAD || whole) /* who never sends the sum holds up all */
		enqueue(s, m);
	if (s->lie == LIE_AFTER)
		enqueue(s, lie_like(s, m));
	if (s->lie == LIE_INSTEAD && !whole)
		drop(s, m);
}

static void world_send(struct tw_context *ctx, struct tw_msg *m)
{
	struct stage *s = stage_of(ctx);

	if (!player_at(s, m->to) && s->peers && is_for_a_replica(m)) {
		drop(s, m);
		return;
	}
	if (!player_at(s, m->to)) {
		/* the simulator would end the run */
		print_error("%s to node %u, role %u, index %u, after %s\n", tw_type_name(m->h.type),
			    m->to.node, m->to.role, m->to.index,
			    s->under ? tw_type_name(s->under->h.type) : "no message");
		s->stray = true;
		drop(s, m);
		return;
	}
	keep_sample(s, m);
	if (m->from.node == s->liar && is_for_a_replica(m) && m->payload && m->h.type != TW_COPY &&
	    !is_too_large_perhaps(m))
		send_with_lie(s, m);
	else
		enqueue(s, m);
}

static void world_timer(struct tw_context *ctx, uint32_t timer, int64_t after)
{
	struct player *p = (struct player *)ctx;

	assert_true(timer < TIMERS);
	p->timer[timer] = after < 0 ? 0 : p->stage->now + after + 1;
}

static int64_t world_now(struct tw_context *ctx)
{
	return stage_of(ctx)->now;
}

static void world_compute(struct tw_context *ctx, struct tw_compute *c)
{
	struct player *p = (struct player *)ctx;
	const bool evaluates = c->pass.kind == TW_PASS_EVALUATE;

	assert_null(p->computing[evaluates]);
	p->computing[evaluates] = c;
}

static void world_cancel(struct tw_context *ctx, struct tw_compute *c)
{
	(void)ctx;
	atomic_store(&c->cancel, true);
}

static void world_save(struct tw_context *ctx, uint64_t cut, const struct tw_part *parts,
		       size_t count)
{
	struct player *p = (struct player *)ctx;

	(void)parts;
	(void)count;
	p->saved = true;
	p->saving = cut;
	p->stage->cuts++;
}

static void world_put(struct tw_context *ctx, uint64_t cut, const struct tw_part *part)
{
	struct player *p = (struct player *)ctx;

	(void)part;
	p->saved = true;
	p->saving = cut;
}

static void world_look(struct tw_context *ctx, uint64_t from, uint64_t to)
{
	(void)from;
	(void)to;
	((struct player *)ctx)->loading = true;
}

static void world_note(struct tw_context *ctx, struct tw_note *note)
{
	struct stage *s = stage_of(ctx);

	if (note->kind == TW_NOTE_APPLY)
		s->pushes++;
	if (note->kind == TW_NOTE_EVAL) {
		s->evaluations++;
		s->diverged += !isfinite(note->eval.loss);
	}
}

static void world_log(struct tw_context *ctx, enum tw_level level, const char *line)
{
	(void)ctx;
	(void)level;
	(void)line;
}

static void world_finish(struct tw_context *ctx, enum tw_status status, struct tw_totals *totals)
{
	struct player *p = (struct player *)ctx;
	struct stage *s = p->stage;

	p->ended++;
	if (status == TW_OK || status == TW_INTERRUPTED) {
		assert_int_equal(ctx->self.role, TW_MASTER);
		s->over = true;
		if (totals)
			tw_totals_release(totals);
		return;
	}
	/* the master may let a worker go, and a checkpoint's damaged part ends the run */
	if (s->under && s->under->from.role == TW_MASTER && ctx->self.role == TW_WORKER &&
	    s->under->h.type == TW_REFUSE)
		return;
	if (s->under && s->under->from.role == TW_SHARD && ctx->self.role == TW_MASTER &&
	    s->under->h.type == TW_HOSTED)
		return;
	fail_msg("%s (node %u) gave up after %s of role %u: %s", p->seat->class->name,
		 ctx->self.node, s->under ? tw_type_name(s->under->h.type) : "no message",
		 s->under ? s->under->from.role : 0, totals ? totals->text : "?");
}

static void world_gone(struct tw_context *ctx)
{
	((struct player *)ctx)->gone++;
}

static void world_named(struct tw_context *ctx, uint32_t slot, uint32_t incarnation)
{
	assert_true(slot < stage_of(ctx)->trial.job->plan.crew.workers && incarnation);
}

static void world_members(struct tw_context *ctx, const struct tw_member *list, size_t count)
{
	assert_true(!count || list);
}

static const struct tw_world world = {
	.name = "hostile",
	.msg_new = world_new,
	.msg_free = world_free,
	.send = world_send,
	.timer = world_timer,
	.now = world_now,
	.compute = world_compute,
	.cancel = world_cancel,
	.save = world_save,
	.put = world_put,
	.look = world_look,
	.note = world_note,
	.log = world_log,
	.finish = world_finish,
	.gone = world_gone,
	.named = world_named,
	.members = world_members,
};

/* Without servers all of its node is. */
static bool betrays(const struct stage *s, const struct player *p)
{
	return s->traitor &&
	       (p == s->traitor || (s->peers && p->seat->addr.node == s->traitor->seat->addr.node));
}

/* --- genuine events ----------------------------------------------------------------------- */

static void deliver(struct stage *s, struct player *p, struct tw_msg *m)
{
	const bool open = (s->trial.job->plan.gate->traits & TW_GATE_LOCKFREE) &&
			  p->seat->class->shared && m->from.role == TW_WORKER;

	s->delivered++;
	if (open && (m->h.type == TW_PUSH || m->h.type == TW_PULL))
		p->seat->class->shared(p->actor, &p->ctx, m);
	else
		p->seat->class->message(p->actor, &p->ctx, m);
}

static void compute(struct stage *s, struct player *p, bool evaluate)
{
	const struct tw_engine *e = s->trial.engine;
	struct tw_compute *c = p->computing[evaluate];
	const uint64_t most = evaluate ? e->tests : s->trial.job->plan.dealing.positions;

	p->computing[evaluate] = NULL;
	/* nobody may be made to compute for ever, or nothing for ever */
	if (c->in.count == 0 || c->in.from >= most || c->in.count > most - c->in.from)
		fail_msg("a computation of %u samples from %llu", c->in.count,
			 (unsigned long long)c->in.from);
	if (atomic_load(&c->cancel))
		c->status = TW_CANCELLED;
	else if (evaluate)
		c->status = e->class->evaluate(e, s->scratch, &c->in, &c->score);
	else
		c->status = e->class->gradient(e, s->scratch, &c->in, c->gradient, &c->score);
	p->seat->class->computed(p->actor, &p->ctx, c);
}

static bool outside_event(struct stage *s, struct player *p)
{
	for (int k = 0; k < 2 && !betrays(s, p); k++)
		if (p->computing[k]) {
			compute(s, p, k);
			return true;
		}
	if (p->loading) {
		p->loading = false;
		p->seat->class->loaded(p->actor, &p->ctx, 0, NULL, 0, TW_OK);
		return true;
	}
	if (p->saved) {
		p->saved = false;
		p->seat->class->saved(p->actor, &p->ctx, p->saving, TW_OK);
		return true;
	}
	return false;
}

/* The next timer, if there is one up to `upto`. */
static bool fire_timer(struct stage *s, int64_t upto)
{
	struct player *who = NULL;
	uint32_t which = 0;

	for (size_t k = 0; k < s->players; k++)
		for (uint32_t t = 0; t < TIMERS; t++)
			if (s->player[k].timer[t] && !betrays(s, &s->player[k]) &&
			    (!who || s->player[k].timer[t] < who->timer[which])) {
				who = &s->player[k];
				which = t;
			}
	if (!who || who->timer[which] > upto)
		return false;
	if (who->timer[which] > s->now)
		s->now = who->timer[which];
	who->timer[which] = 0;
	who->seat->class->timer(who->actor, &who->ctx, which);
	return true;
}

/* One genuine event; false: there is none left. */
static bool step(struct stage *s)
{
	struct tw_msg *m = s->first;
	const size_t start = (size_t)(draw(s) % s->players);

	s->under = NULL;
	s->now += 1000;
	if (fire_timer(s, s->now))
		return true;
	if (m && draw(s) % 4) {
		s->first = m->next;
		if (!s->first)
			s->last = &s->first;
		s->queued--;
		s->under = m;
		if (!betrays(s, player_at(s, m->to)))
			deliver(s, player_at(s, m->to), m);
		s->under = NULL;
		drop(s, m);
		return true;
	}
	for (size_t k = 0; k < s->players; k++)
		if (outside_event(s, &s->player[(start + k) % s->players]))
			return true;
	return m ? step(s) : fire_timer(s, INT64_MAX);
}

/* The master's process dies, and another takes over. */
static void take_over(struct stage *s)
{
	struct player *p = &s->player[0];

	s->under = NULL;
	p->seat->class->free(p->actor);
	memset(p->timer, 0, sizeof p->timer);
	p->loading = p->saved = false;
	p->ctx.boot++;
	p->actor = p->seat->class->new (&s->memory.heap, p->seat->arg);
	assert_non_null(p->actor);
	p->seat->class->start(p->actor, &p->ctx);
	for (size_t k = 1; k < s->players; k++)
		s->player[k].seat->class->up(s->player[k].actor, &s->player[k].ctx, 0, p->ctx.boot);
}

/* Two peers lose their connection and make it anew. */
static void reconnect_peers(struct stage *s)
{
	struct player *p = &s->player[1 + draw(s) % (s->players - 1)];
	const uint32_t node = s->player[1 + draw(s) % (s->players - 1)].seat->addr.node;

	s->under = NULL;
	if (p->seat->addr.node != node && p->seat->class->up)
		p->seat->class->up(p->actor, &p->ctx, node, 1);
}

/* A node is out of the master's reach for a moment. */
static void reconnect(struct stage *s)
{
	struct player *p = &s->player[0];
	const uint32_t node = s->player[1 + draw(s) % (s->players - 1)].seat->addr.node;

	s->under = NULL;
	p->seat->class->down(p->actor, &p->ctx, node);
	p->seat->class->up(p->actor, &p->ctx, node, 1);
	for (size_t k = 1; k < s->players && !s->over; k++)
		if (s->player[k].seat->addr.node == node)
			s->player[k].seat->class->up(s->player[k].actor, &s->player[k].ctx, 0,
						     p->ctx.boot);
}

/* --- hostile messages --------------------------------------------------------------------- */

static uint64_t odd_number(struct stage *s)
{
	static const uint64_t edges[] = {
		0,           1,
		2,           3,
		4,           5,
		6,           7,
		8,           100,
		255,         256,
		4095,        4096,
		1u << 20,    1048577,
		INT32_MAX,   0x80000000u,
		UINT32_MAX,  1ull << 32,
		4294967297,  1ull << 33,
		INT64_MAX,   1ull << 63,
		UINT64_MAX,  UINT64_MAX - 1,
		0x7fc00000u, 0x7f800000u,
		0xff800000u, 0x7ff8000000000000u,
	};
	const uint64_t d = draw(s);

	return d % 5 ? edges[(d >> 8) % (sizeof edges / sizeof edges[0])] : draw(s);
}

static float odd_float(struct stage *s)
{
	static const float edges[] = { 0,        -0.0f,     1,       -1,       NAN,
				       INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, FLT_MIN,
				       1e-45f,   1e-30f,    1e30f,   0.5f,     2 };

	return edges[draw(s) % (sizeof edges / sizeof edges[0])];
}

static double odd_double(struct stage *s)
{
	static const double edges[] = {
		0, -1, NAN, INFINITY, -INFINITY, DBL_MAX, 1e-320, 1e300, 3
	};

	return edges[draw(s) % (sizeof edges / sizeof edges[0])];
}

/* Some four or eight bytes of it become something else. */
static void spoil(struct stage *s, uint8_t *at, size_t bytes)
{
	const uint64_t d = draw(s);
	const uint64_t number = odd_number(s);

	if (bytes < 4)
		return;
	if (d % 2 && bytes >= 8)
		memcpy(at + (d >> 8) % (bytes / 8) * 8, &number, 8);
	else
		memcpy(at + (d >> 8) % (bytes / 4) * 4, &number, 4);
}

static void spoil_push(struct stage *s, struct tw_body_push *p)
{
	switch (draw(s) % 8) {
	case 0:
		p->account.weight = odd_float(s);
		break;
	case 1:
		p->account.divide = odd_float(s);
		break;
	case 2:
		p->rate = odd_float(s);
		break;
	case 3:
		p->account.drift = odd_float(s);
		break;
	case 4:
		p->ranges = (uint32_t)odd_number(s);
		break;
	case 5:
		p->range[draw(s) % TW_RANGES].from = odd_number(s);
		break;
	case 6:
		p->range[draw(s) % TW_RANGES].count = (uint32_t)odd_number(s);
		break;
	default:
		p->account.loss = odd_double(s);
	}
}

static struct tw_block *odd_bytes(struct stage *s, const struct tw_block *like, size_t at,
				  size_t bytes, size_t unit, uint32_t *count, bool small)
{
	const uint64_t kind = draw(s) % 6;
	const size_t most = bytes > 4096 ? bytes : 4096;
	size_t n = kind < 3 && like ? bytes : (size_t)(draw(s) % most) / unit * unit;
	struct tw_block *b;

	*count = 0;
	if (kind == 5 || n == 0)
		return NULL;
	b = tw_block_new(&s->memory.heap, n);
	assert_non_null(b);
	for (size_t k = 0; k < n; k += 8) {
		const uint64_t x = draw(s);

		memcpy(b->data + k, &x, n - k < 8 ? n - k : 8);
	}
	if (like && kind != 4)
		memcpy(b->data, like->data + at, n < bytes ? n : bytes);
	if (kind == 4 && small) /* finite and of a size that a gradient has, or not finite */
		for (size_t k = 0; k + 4 <= n; k += 4) {
			float x = (float)((double)(draw(s) % 2001) / 1000 - 1);

			memcpy(b->data + k, &x, 4);
		}
	if (kind > 0 && small && n >= 4) {
		const float bad = draw(s) % 2 ? NAN : INFINITY;

		if (draw(s) % 2)
			memcpy(b->data + draw(s) % (n / 4) * 4, &bad, 4);
	} else if (kind > 0) {
		for (uint64_t k = 1 + draw(s) % 3; k; k--)
			spoil(s, b->data, n);
	}
	*count = (uint32_t)n;
	return b;
}

static struct tw_addr odd_sender(struct stage *s, const struct tw_addr *to)
{
	const struct tw_addr *a;

	do {
		a = &s->player[draw(s) % s->players].seat->addr;
	} while (memcmp(a, to, sizeof *a) == 0);
	return *a;
}

/* Vectors are checked for being finite, not for being small: what is sent is small. */
static bool carries_floats(uint16_t type)
{
	return type == TW_PUSH || type == TW_PARAMS || type == TW_REDUCE || type == TW_SPREAD ||
	       type == TW_MIX;
}

static void make_sums_finite(struct tw_msg *m)
{
	const float zero = 0.0f;
	float x;

	if (!m->payload || !is_too_large_perhaps(m))
		return;
	for (size_t k = 0; k + 4 <= m->h.payload; k += 4) {
		memcpy(&x, m->payload->data + k, 4);
		if (!isfinite(x))
			memcpy(m->payload->data + k, &zero, 4);
	}
}

static bool passes(struct stage *s, struct tw_msg *m, struct tw_msg *got)
{
	static uint8_t frame[FRAME];
	const struct tw_header whole = m->h;
	size_t len;

	make_sums_finite(m);
	/* as it is, or without what its type may not carry */
	for (int k = 0; k < 4; k++) {
		m->h.tail = k & 1 ? 0 : whole.tail;
		m->h.payload = k & 2 ? 0 : whole.payload;
		if (one_frame_write(m, frame, sizeof frame, &len) == TW_OK &&
		    one_frame_read(frame, len, &s->memory.heap, got) == TW_OK)
			return true;
	}
	return false;
}

/* Make one up and deliver it, if its frame passes. */
static void attack(struct stage *s, struct player *p)
{
	const uint16_t type = (uint16_t)(1 + draw(s) % (TW_TYPES - 1));
	const size_t have = s->sampled[type] < 8 ? s->sampled[type] : 8;
	const struct tw_msg *like = have ? s->sample[type][draw(s) % have] : NULL;
	struct tw_msg m = { 0 }, got;

	if (like && draw(s) % 8) {
		m = *like;
	} else {
		for (size_t k = 0; k < sizeof m.b; k += 8) {
			const uint64_t x = odd_number(s);

			memcpy((uint8_t *)&m.b + k, &x, 8);
		}
		m.h = (struct tw_header){ .view = odd_number(s),
					  .from = (uint32_t)odd_number(s),
					  .incarnation = (uint32_t)odd_number(s),
					  .seq = odd_number(s),
					  .shard = (uint32_t)odd_number(s),
					  .flags = (uint32_t)odd_number(s) };
	}
	m.h.magic = TW_WIRE_MAGIC;
	m.h.major = TW_WIRE_MAJOR;
	m.h.type = type;
	m.tail = odd_bytes(s, m.tail, 0, m.h.tail, 16, &m.h.tail, false);
	m.payload = odd_bytes(s, m.payload, m.payload_at, m.h.payload, carries_floats(type) ? 4 : 1,
			      &m.h.payload, carries_floats(type));
	m.payload_at = 0;
	for (uint64_t k = draw(s) % 3; k; k--)
		spoil(s, (uint8_t *)&m.b, sizeof m.b);
	if ((type == TW_PUSH || type == TW_SPREAD) && draw(s) % 2)
		spoil_push(s, &m.b.push);
	switch (draw(s) % 16) {
	case 0:
		m.h.view = odd_number(s);
		break;
	case 1:
		m.h.from = (uint32_t)odd_number(s);
		break;
	case 2:
		m.h.incarnation = (uint32_t)odd_number(s);
		break;
	case 3:
		m.h.seq = odd_number(s);
		break;
	case 4:
		m.h.shard = (uint32_t)odd_number(s);
		break;
	case 5:
		m.h.flags = (uint32_t)draw(s);
		break;
	case 6:
		m.h.seq++;
		break;
	}
	if (like && draw(s) % 2) /* to whom it would go */
		p = player_at(s, like->to);
	if (passes(s, &m, &got)) {
		got.to = p->seat->addr;
		got.from = like && draw(s) % 2 ? like->from : odd_sender(s, &got.to);
		if (memcmp(&got.from, &got.to, sizeof got.to) == 0)
			got.from = odd_sender(s, &got.to);
		s->hostile++;
		s->under = &got;
		deliver(s, p, &got);
		s->under = NULL;
		tw_block_drop(got.tail);
		tw_block_drop(got.payload);
	}
	tw_block_drop(m.tail);
	tw_block_drop(m.payload);
}

/* --- the cluster -------------------------------------------------------------------------- */

static void open_player(struct stage *s, struct player *p, const struct tw_seat *seat)
{
	*p = (struct player){ .ctx = { .world = &world,
				       .self = seat->addr,
				       .boot = 1,
				       .noting = true,
				       .heap = &s->memory.heap,
				       .engine = s->trial.engine },
			      .stage = s,
			      .seat = seat };
	p->actor = seat->class->new (&s->memory.heap, seat->arg);
	assert_non_null(p->actor);
}

struct method {
	const char *strategy, *update, *data;
	bool peers; /* there are no servers */
};

static void stage_open(struct stage *s, const struct method *m, uint64_t seed, uint32_t epochs,
		       const char *every)
{
	const bool threads = strstr(m->strategy, "hogwild") != NULL;
	/* replicas that differ are made equal for a checkpoint */
	const bool drain = seed % 2 || (m->peers && !strstr(m->strategy, "ssgd"));

	*s = (struct stage){ .memory = { .heap = { counting_get, counting_put } },
			     .peers = m->peers,
			     .rng = tw_rng_make(seed, TW_RNG_TEST) };
	s->last = &s->first;
	trial_open(&s->trial, threads ? TW_WORLD_THREADS : TW_WORLD_SIM,
		   "data: {source: none, samples: 64, batch: 4%s}\n"
		   "model: {quadratic: {dimension: 40}}\n"
		   "cluster: {workers: 3, min: 1, %sshards: 2}\n"
		   "checkpoint: {every: %s, cut: %s}\n"
		   "train: {epochs: %u, evaluate: 0.5}\n"
		   "update: %s\nstrategy: %s\n",
		   m->data, m->peers ? "" : "servers: 2, ", every, drain ? "drain" : "running",
		   epochs, m->update, m->strategy);
	s->players = s->trial.cast.seats;
	s->player = calloc(s->players, sizeof *s->player);
	s->scratch = tw_heap_system.get(&tw_heap_system, s->trial.engine->scratch_bytes + 1);
	assert_non_null(s->player);
	assert_non_null(s->scratch);
	for (size_t k = 0; k < s->players; k++)
		open_player(s, &s->player[k], &s->trial.cast.seat[k]);
	for (size_t k = 0; k < s->players; k++)
		s->player[k].seat->class->start(s->player[k].actor, &s->player[k].ctx);
}

static void forget_messages(struct stage *s)
{
	while (s->first) {
		struct tw_msg *m = s->first;

		s->first = m->next;
		drop(s, m);
	}
	s->last = &s->first;
	for (size_t t = 0; t < TW_TYPES; t++)
		for (size_t k = 0; k < 8; k++)
			if (s->sample[t][k]) {
				drop(s, s->sample[t][k]);
				s->sample[t][k] = NULL;
			}
}

static void stage_close(struct stage *s)
{
	forget_messages(s);
	for (size_t k = 0; k < s->players; k++)
		s->player[k].seat->class->free(s->player[k].actor);
	assert_int_equal(s->memory.blocks, 0);
	assert_int_equal(s->memory.bytes, 0);
	free(s->player);
	tw_heap_system.put(&tw_heap_system, s->scratch);
	trial_close(&s->trial);
}

static void look_at_shards(struct stage *s)
{
	for (size_t k = 0; k < s->players; k++) {
		const struct shard *h = (const struct shard *)s->player[k].actor;

		if (s->player[k].seat->addr.role == TW_SHARD && h->hosted &&
		    !tw_vec_finite(tw_block_floats(h->slice.w), h->slice.n))
			fail_msg("the parameters of shard %u are not finite", h->index);
	}
}

#define ATTACKS 150        /* on one cluster; then a fresh one */
#define MOST    (8u << 20) /* bytes that a cluster of this size never needs */

static bool anybody_ended(const struct stage *s)
{
	for (size_t k = 0; k < s->players; k++)
		if (s->player[k].ended)
			return true;
	return false;
}

struct seen {
	uint64_t hostile, pushes, evaluations, cuts, clusters;
};

static void storm(const struct method *method, uint64_t seed, struct seen *seen)
{
	const uint64_t events = method->peers ? 4 : 1; /* replicas have more to say to each other */
	struct stage s;
	uint64_t calm;

	stage_open(&s, method, seed, 200, method->peers ? "1ms" : "100us");
	for (calm = events * (20 + draw(&s) % 400); calm && !s.over; calm--)
		assert_true(step(&s));
	for (uint32_t k = 0; k < ATTACKS && !s.over && !anybody_ended(&s); k++) {
		struct player *p = &s.player[draw(&s) % s.players];
		const bool master = draw(&s) % 4 == 0;
		const uint64_t drawn = s.draws;

		if (draw(&s) % 40 == 0)
			take_over(&s);
		else if (draw(&s) % 40 == 0)
			reconnect(&s);
		else if (method->peers && draw(&s) % 40 == 0)
			reconnect_peers(&s);
		attack(&s, master ? &s.player[0] : p);
		look_at_shards(&s);
		if (s.stray)
			fail_msg("a message to nobody: seed %llu, attack %u at draw %llu",
				 (unsigned long long)seed, k, (unsigned long long)drawn);
		for (calm = draw(&s) % (8 * events); calm && !s.over && !anybody_ended(&s); calm--)
			if (!step(&s))
				break;
		assert_false(s.stray);
		look_at_shards(&s);
	}
	assert_true(s.memory.most < MOST);
	seen->hostile += s.hostile;
	seen->pushes += s.pushes;
	seen->evaluations += s.evaluations;
	seen->cuts += s.cuts;
	seen->clusters++;
	stage_close(&s);
}

/* What a preset must survive, and what its clusters must have come to, or nothing was tried. */
static void survive(const struct method *m)
{
	const char *many = getenv("TW_HOSTILE_SEEDS");
	const uint64_t seeds = many ? strtoull(many, NULL, 10) : 40;
	struct seen seen = { 0 };

	for (uint64_t seed = 1; seed <= seeds; seed++)
		storm(m, seed, &seen);
	print_message("%llu hostile messages, %llu contributions, %llu evaluations, %llu cuts\n",
		      (unsigned long long)seen.hostile, (unsigned long long)seen.pushes,
		      (unsigned long long)seen.evaluations, (unsigned long long)seen.cuts);
	assert_true(seen.hostile > 2000);
	assert_true(seen.pushes > 500);
	assert_true(seen.evaluations > 10);
	assert_true(seen.cuts > 10);
}

/* --- a traitor ------------------------------------------------------------------------------ */

/* The same shard as that of `like`, of somebody else. */
static struct player *victim(struct stage *s, const struct tw_msg *like)
{
	const size_t start = (size_t)(draw(s) % s->players);

	for (size_t k = 0; k < s->players; k++) {
		struct player *p = &s->player[(start + k) % s->players];

		if (p->seat->addr.role == TW_SHARD && p->seat->addr.index == like->to.index &&
		    p->seat->addr.node != s->traitor->seat->addr.node)
			return p;
	}
	return &s->player[0];
}

/* Half of what a replica says to another is of now. */
static void say_as_replica(struct stage *s, const struct shard *h, uint32_t slot, struct tw_msg *m)
{
	const struct reducer *r = h->reduce ? h->reduce->sum : NULL;

	m->h.view = h->fence.generation;
	m->h.shard = h->index;
	if (draw(s) % 2 || !h->hosted || slot == UINT32_MAX)
		return;
	if (m->h.type == TW_SPREAD && h->mix && h->mix->peer)
		m->b.push.link = h->mix->peer[slot].heard + 1;
	if (m->h.type == TW_MIX && h->mix && h->mix->peer)
		m->b.mix.number =
			m->b.mix.answer ? h->mix->open.number : h->mix->peer[slot].answered + 1;
	if (m->h.type != TW_REDUCE || !r)
		return;
	m->b.reduce.round = h->slice.round;
	m->b.reduce.attempt = r->is.attempt;
	m->b.reduce.what = TW_FORM_ROUND;
	for (uint32_t k = 0; k < r->is.peers; k++)
		if (r->is.member[k].slot == slot)
			m->h.from = k;
}

/* A worker that is a member says what it likes, as itself. */
static void betray(struct stage *s)
{
	static const uint16_t words[] = {
		TW_HELLO, TW_BYE,    TW_IDLE, TW_DONE, TW_PUSH, TW_PUSH,
		TW_PUSH,  TW_RESULT, TW_PULL, TW_PART, TW_HAVE, TW_STATE
	};
	static const uint16_t among_peers[] = { TW_SPREAD, TW_SPREAD, TW_HEARD, TW_MIX, TW_REDUCE };
	const struct master *master = (const struct master *)s->player[0].actor;
	const bool peer = s->peers && draw(s) % 2;
	const uint16_t type =
		peer ? among_peers[draw(s) % (sizeof among_peers / sizeof among_peers[0])]
		     : words[draw(s) % (sizeof words / sizeof words[0])];
	const struct tw_msg *like = s->sample[type][0];
	const uint32_t slot = tw_master_slot_at(master, s->traitor->seat->addr.node);
	struct player *p = &s->player[0];
	struct tw_msg m, got;

	if (!like)
		return;
	m = *like;
	m.h.view = master->restart.current;
	if (slot != UINT32_MAX) {
		m.h.from = slot;
		m.h.incarnation = master->member[slot].incarnation;
	}
	if (type == TW_PUSH || type == TW_PULL) {
		const struct shard *shard;

		p = player_at(s, like->to);
		shard = (const struct shard *)p->actor;
		if (shard->hosted && slot != UINT32_MAX) {
			m.h.seq = m.b.push.link = shard->members.worker[slot].link + 1;
			m.b.push.round = shard->slice.round;
			m.b.push.base = shard->slice.version;
		}
	}
	if (peer) {
		p = victim(s, like);
		say_as_replica(s, (const struct shard *)p->actor, slot, &m);
	}
	m.tail = odd_bytes(s, m.tail, 0, m.h.tail, 16, &m.h.tail, false);
	m.payload = odd_bytes(s, m.payload, m.payload_at, m.h.payload, carries_floats(type) ? 4 : 1,
			      &m.h.payload, carries_floats(type));
	m.payload_at = 0;
	if (draw(s) % 2)
		spoil(s, (uint8_t *)&m.b, sizeof m.b);
	if ((type == TW_PUSH || type == TW_SPREAD) && draw(s) % 2)
		spoil_push(s, &m.b.push);
	if (draw(s) % 4 == 0)
		m.h.flags = (uint32_t)draw(s);
	if (passes(s, &m, &got)) {
		got.to = p->seat->addr;
		got.from = s->traitor->seat->addr;
		if (peer)
			got.from = (struct tw_addr){ got.from.node, TW_SHARD, got.to.index };
		s->hostile++;
		s->under = &got;
		deliver(s, p, &got);
		s->under = NULL;
		tw_block_drop(got.tail);
		tw_block_drop(got.payload);
	}
	tw_block_drop(m.tail);
	tw_block_drop(m.payload);
}

/* When it is gone at last, the others finish the run. */
static void outlive(const struct method *method, uint64_t seed)
{
	const struct master *master;
	struct stage s;

	stage_open(&s, method, seed, 6, "2ms");
	master = (const struct master *)s.player[0].actor;
	for (uint64_t calm = 0; s.pushes < 8; calm++)
		assert_true(calm < 5000 && step(&s));
	s.traitor = &s.player[s.players - 1];
	while (s.traitor->seat->addr.role != TW_WORKER)
		s.traitor--;
	for (uint32_t k = 0; k < 80 && !s.over; k++) {
		betray(&s);
		for (uint64_t calm = draw(&s) % 4; calm && !s.over; calm--)
			step(&s);
	}
	assert_true(s.hostile > 20);
	if (!s.over)
		s.player[0].seat->class->down(s.player[0].actor, &s.player[0].ctx,
					      s.traitor->seat->addr.node);
	for (uint64_t calm = 0; !s.over; calm++)
		if (calm > 400000 || !step(&s))
			fail_msg("seed %llu: the others wait for ever in phase %d, %llu dealt",
				 (unsigned long long)seed, master->phase,
				 (unsigned long long)tw_spans_total(&master->dealing.taken));
	look_at_shards(&s);
	assert_false(s.stray);
	assert_int_equal(s.player[0].ended, 1);
	stage_close(&s);
}

static const struct method methods[] = {
	{ "asgd", "{rate: 0.05}", "" },
	{ "{name: asgd, push: 2, fetch: 2, local: {rule: sgd}}", "{rate: 0.05}",
	  ", accumulate: 2" },
	{ "ssgd", "{rate: 0.05}", "" },
	{ "ssgd", "{rate: 0.05}", ", accumulate: 2" },
	{ "backup", "{rate: 0.05}", "" },
	{ "{name: ssp, lead: 1}", "{rate: 0.05}", "" },
	{ "softsync", "{rate: 0.05}", "" },
	{ "dana", "{rate: 0.01}", "" },
	{ "dana-slim", "{rate: 0.01}", "" },
	{ "{name: fasgd, skip: {push: 0.2, fetch: 0.5}}", "{rate: 0.01}", "" },
	{ "{name: dc-asgd-a, codec: {up: fp16, down: fp16}}", "{rate: 0.01}", "" },
	{ "hogwild", "{rate: 0.05}", "" },
	{ "{name: ssgd, topology: ring}", "{rate: 0.05}", "", true },
	{ "{name: ssgd, topology: tree, codec: {up: fp16}}", "{rate: 0.05}", "", true },
	{ "{name: ssgd, topology: direct, codec: {up: topk, up_share: 0.3}}", "{rate: 0.05}", "",
	  true },
	{ "{name: ssgd, topology: direct, codec: {up: onebit}}", "{rate: 0.05}", "", true },
	{ "{name: ssgd, topology: direct}", "{rate: 0.05}", "", true },
	{ "strom", "{rate: 0.05}", "", true },
	{ "gossip", "{rate: 0.05}", "", true },
	{ "d-psgd", "{rate: 0.05}", "", true },
};

static void anybody_says_anything(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof methods / sizeof methods[0]; k++) {
		print_message("%s: ", methods[k].strategy);
		survive(&methods[k]);
	}
}

static void others_outlive_a_traitor(void **state)
{
	const char *many = getenv("TW_HOSTILE_SEEDS");
	const uint64_t seeds = many ? strtoull(many, NULL, 10) / 4 : 5;

	(void)state;
	for (size_t k = 0; k < sizeof methods / sizeof methods[0]; k++)
		for (uint64_t seed = 1; seed <= seeds; seed++)
			outlive(&methods[k], seed);
}

/* --- identities ----------------------------------------------------------------------------- */

static struct player *shard_player(struct stage *s)
{
	for (size_t k = 0; k < s->players; k++)
		if (s->player[k].seat->addr.role == TW_SHARD &&
		    ((const struct shard *)s->player[k].actor)->hosted)
			return &s->player[k];
	return NULL;
}

/* A push for the shard as `slot` would send it next, said by a node. */
static void say_push(struct stage *s, struct player *p, uint32_t slot, uint32_t incarnation,
		     uint32_t node)
{
	const struct shard *h = (const struct shard *)p->actor;
	struct tw_msg m = *s->sample[TW_PUSH][0];
	struct tw_block *b = tw_block_new(&s->memory.heap, h->slice.n * sizeof(float));

	memset(b->data, 0, b->bytes);
	m.from = (struct tw_addr){ node, TW_WORKER, 0 };
	m.to = p->seat->addr;
	m.h.from = slot;
	m.h.incarnation = incarnation;
	m.h.view = h->fence.generation;
	m.h.shard = h->index;
	m.h.seq = 1;
	if (incarnation == h->members.worker[slot].incarnation)
		m.h.seq += h->members.worker[slot].link;
	m.b.push.link = m.h.seq;
	m.h.flags = 0;
	m.b.push.base = h->slice.version;
	m.tail = NULL;
	m.h.tail = 0;
	m.payload = b;
	m.payload_at = 0;
	m.h.payload = (uint32_t)b->bytes;
	deliver(s, p, &m);
	tw_block_drop(b);
}

/* A push as a member sends it that does not send every contribution here. */
static void say_numbered(struct stage *s, struct player *p, uint32_t slot, uint64_t seq,
			 uint64_t link)
{
	const struct shard *h = (const struct shard *)p->actor;
	struct tw_msg m = *s->sample[TW_PUSH][0];
	struct tw_block *b = tw_block_new(&s->memory.heap, h->slice.n * sizeof(float));

	memset(b->data, 0, b->bytes);
	m.from = h->members.worker[slot].addr;
	m.to = p->seat->addr;
	m.h.from = slot;
	m.h.incarnation = h->members.worker[slot].incarnation;
	m.h.view = h->fence.generation;
	m.h.shard = h->index;
	m.h.seq = seq;
	m.h.flags = TW_FLAG_PLAIN;
	m.b.push.base = h->slice.version;
	m.b.push.link = link;
	m.tail = NULL;
	m.h.tail = 0;
	m.payload = b;
	m.payload_at = 0;
	m.h.payload = (uint32_t)b->bytes;
	deliver(s, p, &m);
	tw_block_drop(b);
}

static void run_out(struct stage *s)
{
	for (uint64_t calm = 0; !s->over; calm++)
		if (calm > 400000 || !step(s))
			fail_msg("the others wait for ever");
	assert_false(s->stray);
	stage_close(s);
}

static void open_running(struct stage *s, uint64_t seed, struct player **p, uint32_t *slot)
{
	stage_open(s, &methods[0], seed, 6, "2ms");
	for (uint64_t calm = 0; s->pushes < 12; calm++)
		assert_true(calm < 5000 && step(s));
	*p = shard_player(s);
	assert_non_null(*p);
	for (*slot = 0;
	     !tw_shard_worker_is_here(tw_shard_worker((const struct shard *)(*p)->actor, *slot));)
		assert_true(++*slot < 3);
}

/* Duplicates and gaps are of the link, whatever contributions it carries. */
static void a_push_is_known_by_its_link(void **state)
{
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct player *p;
		struct stage s;
		const struct shard_worker *g;
		uint64_t link, n;
		uint32_t slot;

		open_running(&s, seed, &p, &slot);
		g = &((const struct shard *)p->actor)->members.worker[slot];
		link = g->link;
		n = ((const struct shard *)p->actor)->slice.version.n;
		say_numbered(&s, p, slot, link + 7, link + 1); /* contributions went elsewhere */
		assert_int_equal(g->link, link + 1);
		assert_int_equal(g->seq, link + 7);
		assert_int_equal(((const struct shard *)p->actor)->slice.version.n, n + 1);
		say_numbered(&s, p, slot, link + 8, link + 1); /* seen */
		say_numbered(&s, p, slot, link + 8, link + 3); /* a gap */
		assert_int_equal(g->link, link + 1);
		assert_int_equal(((const struct shard *)p->actor)->slice.version.n, n + 1);
		say_numbered(&s, p, slot, link + 9, link + 2);
		assert_int_equal(g->link, link + 2);
		assert_int_equal(((const struct shard *)p->actor)->slice.version.n, n + 2);
		stage_close(&s);
	}
}

/* Who knows somebody's slot and incarnation cannot speak for it from another node. */
static void nobody_speaks_for_another(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		const struct master *master;
		const struct shard *h;
		const struct shard_worker *g;
		struct player *p;
		struct stage s;
		struct tw_msg m;
		uint64_t seq, fenced;
		uint32_t slot, other;

		open_running(&s, seed, &p, &slot);
		master = (const struct master *)s.player[0].actor;
		h = (const struct shard *)p->actor;
		g = &h->members.worker[slot];
		assert_int_equal(g->node, master->member[slot].node);
		other = 3 + (slot + 1) % 3;
		seq = g->link;
		fenced = h->slice.tally.fenced;
		say_push(&s, p, slot, g->incarnation, other);
		assert_int_equal(g->link, seq);
		assert_int_equal(h->slice.tally.fenced, fenced + 1);
		assert_int_equal(g->addr.node, g->node);
		/* nor take its leave */
		m = (struct tw_msg){ .from = { other, TW_WORKER, 0 },
				     .h = { .magic = TW_WIRE_MAGIC,
					    .major = TW_WIRE_MAJOR,
					    .type = TW_BYE,
					    .from = slot,
					    .incarnation = g->incarnation,
					    .flags = TW_FLAG_LEAVE } };
		deliver(&s, &s.player[0], &m);
		assert_true(master->member[slot].live);
		/* nor be it */
		m.h.type = TW_HELLO;
		m.h.flags = 0;
		m.b.hello = (struct tw_body_hello){
			.role = TW_WORKER, .slot = slot, .incarnation = g->incarnation, .boot = 1
		};
		deliver(&s, &s.player[0], &m);
		assert_int_equal(master->member[slot].node, 3 + slot);
		/* from its own node it is taken, so the push was a good one */
		say_push(&s, p, slot, g->incarnation, g->node);
		assert_int_equal(g->link, seq + 1);
		run_out(&s);
	}
}

/* An incarnation that nobody was given does not keep the slot from whom it belongs to. */
static void nobody_locks_a_slot(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct master *master;
		const struct shard *h;
		const struct shard_worker *g;
		struct player *p;
		struct stage s;
		uint32_t slot, incarnation;
		uint64_t seq;

		open_running(&s, seed, &p, &slot);
		master = (struct master *)s.player[0].actor;
		h = (const struct shard *)p->actor;
		g = &h->members.worker[slot];
		incarnation = g->incarnation;
		seq = g->link;
		/* of a master yet to come: nobody believes it */
		say_push(&s, p, slot, 2u << 20 | 1, 3 + (slot + 1) % 3);
		assert_int_equal(g->incarnation, incarnation);
		assert_int_equal(g->link, seq);
		/* of this one: until a full view says otherwise, and what was closed stays so */
		say_push(&s, p, slot, 1u << 20 | 0xfffff, 3 + (slot + 1) % 3);
		assert_int_equal(g->incarnation, 1u << 20 | 0xfffff);
		if (seed % 2) {
			tw_master_full_view(master, &s.player[0].ctx, h->index);
			while (g->state == SHARD_WORKER_CLAIMED)
				assert_true(step(&s));
			if (master->member[slot].incarnation == incarnation) {
				assert_int_equal(g->incarnation, incarnation);
				assert_true(g->link >= seq);
			}
		}
		run_out(&s); /* and without one the worker is let in anew */
	}
}

/* --- replicas ------------------------------------------------------------------------------- */

static const struct method gossips = { "gossip", "{rate: 0.05}", "", true };
static const struct method neighbours = { "d-psgd", "{rate: 0.05}", "", true };

static void open_replicas(struct stage *s, const struct method *m, uint64_t seed)
{
	stage_open(s, m, seed, 6, "1h");
	for (uint64_t calm = 0; s->pushes < 12; calm++)
		assert_true(calm < 20000 && step(s));
}

/* Say it to the shard as the replica on this node. */
static void say_to_replica(struct stage *s, struct player *p, uint32_t node, struct tw_msg *m,
			   const float *x, size_t n)
{
	const struct shard *h = (const struct shard *)p->actor;

	m->from = (struct tw_addr){ node, TW_SHARD, (uint16_t)h->index };
	m->to = p->seat->addr;
	m->h.magic = TW_WIRE_MAGIC;
	m->h.major = TW_WIRE_MAJOR;
	m->h.view = h->fence.generation;
	m->h.shard = h->index;
	m->h.payload = (uint32_t)(n * sizeof *x);
	m->payload = n ? tw_block_new(&s->memory.heap, n * sizeof *x) : NULL;
	if (n)
		memcpy(m->payload->data, x, n * sizeof *x);
	deliver(s, p, m);
	tw_block_drop(m->payload);
}

/* Step until this is true of some replica's shard. */
static struct player *until(struct stage *s, bool (*is)(const struct shard *h))
{
	for (uint64_t calm = 0; calm < 20000; calm++) {
		for (size_t k = 0; k < s->players; k++)
			if (s->player[k].seat->addr.role == TW_SHARD &&
			    ((const struct shard *)s->player[k].actor)->hosted &&
			    is((const struct shard *)s->player[k].actor))
				return &s->player[k];
		assert_true(step(s));
	}
	fail_msg("it does not come to that");
	return NULL;
}

static bool has_asked(const struct shard *h)
{
	return h->mix->open.asked;
}

static bool waits_for_neighbours(const struct shard *h)
{
	return h->reduce->sum->left && h->reduce->sum->piece[0].next == 3;
}

static bool waits_for_somebody(const struct shard *h)
{
	return h->reduce->sum->left;
}

/* Parameters that cannot be move nobody, and nobody waits for others. */
static void false_parameters_move_nobody(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 6; seed++) {
		float x[64] = { 0 };
		struct player *p;
		const struct shard *h;
		const struct tw_member *list;
		struct tw_block *before;
		const struct tw_member *who;
		uint64_t refused;
		size_t n, queued;
		struct stage s;

		open_replicas(&s, &gossips, seed);
		p = until(&s, has_asked);
		h = (const struct shard *)p->actor;
		list = (const void *)h->mix->member->data;
		who = &list[h->mix->peer[h->mix->open.partner].place - 1];
		before = tw_block_keep(h->slice.w);
		refused = h->slice.tally.refused;
		n = seed % 2 ? h->slice.n : h->slice.n - 1;
		x[n - 1] = NAN;
		say_to_replica(
			&s, p, who->node,
			&(struct tw_msg){ .h = { .type = TW_MIX,
						 .from = who->slot,
						 .incarnation = who->incarnation },
					  .b.mix = { .number = h->mix->open.number, .answer = 1 } },
			x, n);
		assert_int_equal(h->slice.tally.refused, refused + 1);
		assert_null(h->mix->open.asked);
		/* nor does who asks with such ones wait for the answer */
		queued = s.queued;
		say_to_replica(&s, p, who->node,
			       &(struct tw_msg){ .h = { .type = TW_MIX,
							.from = who->slot,
							.incarnation = who->incarnation },
						 .b.mix = { .number = 1000 } },
			       x, n);
		assert_int_equal(h->slice.tally.refused, refused + 2);
		assert_int_equal(s.queued, queued + 1);
		assert_memory_equal(h->slice.w->data, before->data, h->slice.n * sizeof(float));
		tw_block_drop(before);
		run_out(&s);
	}
}

/* What a neighbour could not have sent counts as nothing, and the round goes on. */
static void a_false_piece_counts_as_nothing(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 12; seed++) {
		float x[64] = { 0 };
		struct player *p;
		const struct shard *h;
		const struct tw_member *list;
		struct stage s;
		struct tw_msg m = { .h.type = TW_REDUCE };
		uint64_t refused;
		uint32_t rank;
		size_t n;

		open_replicas(&s, &neighbours, seed);
		p = until(&s, waits_for_neighbours);
		h = (const struct shard *)p->actor;
		list = h->reduce->sum->is.member;
		rank = (h->reduce->sum->is.rank + 1) % h->reduce->sum->is.peers;
		refused = h->slice.tally.refused;
		n = h->slice.n - (seed % 6 == 1);
		if (seed % 6 == 0)
			x[seed] = seed % 4 ? NAN : -INFINITY;
		m.h.from = rank;
		m.b.reduce =
			(struct tw_body_reduce){ .round = h->slice.round,
						 .attempt = h->reduce->sum->is.attempt,
						 .contributions = seed % 6 == 2 ? 0 : 1,
						 .account.weight = seed % 6 == 3 ? INFINITY : 1.0f,
						 .account.divide = seed % 6 == 4 ? 1e-40f : 1.0f };
		m.b.reduce.account.drift = seed % 6 == 5 ? NAN : 0.0f;
		say_to_replica(&s, p, list[rank].node, &m, x, n);
		assert_int_equal(h->slice.tally.refused, refused + 1);
		assert_int_equal(h->reduce->sum->piece[0].next, 4);
		look_at_shards(&s);
		while (!s.over && step(&s))
			look_at_shards(&s);
		assert_true(s.over);
		stage_close(&s);
	}
}

static const struct method replicas[] = {
	{ "strom", "{rate: 0.05}", "", true },
	{ "gossip", "{rate: 0.05}", "", true },
	{ "d-psgd", "{rate: 0.05}", "", true },
	{ "{name: d-psgd, topology: {kind: mixing, schedule: ring}}", "{rate: 0.05}", "", true },
	{ "{name: d-psgd, topology: {kind: mixing, schedule: tree}}", "{rate: 0.05}", "", true },
	{ "{name: ssgd, topology: direct}", "{rate: 0.05}", "", true },
	{ "{name: ssgd, topology: ring}", "{rate: 0.05}", "", true },
	{ "{name: ssgd, topology: tree, codec: {up: fp16}}", "{rate: 0.05}", "", true },
};

/* With everything that one replica says to others, from the first word to the last. */
static void lie_all_the_time(const struct method *m, uint64_t seed, uint64_t lies[][2])
{
	struct stage s;

	stage_open(&s, m, seed, 4, "2ms");
	s.liar = s.player[s.players - 1].seat->addr.node - (uint32_t)(seed % 3);
	s.lie = (int)(seed / 3 % 3);
	for (uint64_t calm = 0; !s.over; calm++) {
		if (calm > 400000 || !step(&s))
			fail_msg("%s, seed %llu: the others wait for ever", m->strategy,
				 (unsigned long long)seed);
		look_at_shards(&s);
	}
	if (s.diverged || !s.evaluations)
		fail_msg("%s, seed %llu: %llu of %llu evaluations have no loss", m->strategy,
			 (unsigned long long)seed, (unsigned long long)s.diverged,
			 (unsigned long long)s.evaluations);
	for (size_t t = 0; t < TW_TYPES; t++)
		for (int mean = 0; mean < 2; mean++)
			lies[t][mean] += s.lies[t][mean];
	stage_close(&s);
}

static void what_is_not_finite_is_left_out(void **state)
{
	uint64_t lies[TW_TYPES][2] = { { 0 } };

	(void)state;
	for (size_t k = 0; k < sizeof replicas / sizeof replicas[0]; k++)
		for (uint64_t seed = 1; seed <= 18; seed++)
			lie_all_the_time(&replicas[k], seed, lies);
	assert_true(lies[TW_SPREAD][0] > 100);
	assert_true(lies[TW_MIX][0] > 100);
	assert_true(lies[TW_REDUCE][0] > 100);
	assert_true(lies[TW_REDUCE][1] > 100);
}

static bool waits_for_a_sum(const struct shard *h)
{
	return h->reduce->sum->pieces && h->reduce->sum->is.rank == 0 &&
	       !h->reduce->sum->piece[1].done;
}

/* A worker can give a sum that it did not add up, and a copy that nobody asked it for. */
static void sums_and_copies_are_believed(void **state)
{
	const struct method direct = { "{name: ssgd, topology: direct}", "{rate: 0.05}", "", true };
	struct player *p;
	struct shard *h;
	struct stage s;
	struct tw_msg m = { .h = { .type = TW_REDUCE, .from = 1 } };
	struct tw_block *packed;
	float x[64];
	size_t from;

	(void)state;
	open_replicas(&s, &direct, 1);
	p = until(&s, waits_for_a_sum);
	h = (struct shard *)p->actor;
	for (size_t k = 0; k < 64; k++)
		x[k] = 5.0f;
	m.b.reduce = (struct tw_body_reduce){
		.round = h->slice.round,
		.attempt = h->reduce->sum->is.attempt,
		.chunk = 1,
		.whole = 1,
		.contributions = 3,
		.account = { .samples = 12, .weight = 3.0f, .divide = 3.0f }
	};
	say_to_replica(&s, p, h->reduce->sum->is.member[1].node, &m, x, h->reduce->sum->piece[1].n);
	while (!h->reduce->sum->piece[1].done)
		assert_true(step(&s));
	from = h->reduce->sum->piece[1].from; /* it is in the next version, and let go */
	assert_true(h->reduce->sum->piece[1].staged && !h->reduce->sum->piece[1].block);
	assert_float_equal(tw_block_floats(h->slice.next.w)[from],
			   tw_block_floats(h->slice.w)[from] - 0.05f * 5.0f / 3.0f, 1e-6f);
	packed = tw_slice_pack(&h->slice);
	assert_non_null(packed);
	m = (struct tw_msg){ .from = { 3, TW_SHARD, (uint16_t)h->index },
			     .to = { p->seat->addr.node, TW_SERVER, 0 },
			     .h = { .type = TW_COPY,
				    .view = h->fence.generation,
				    .incarnation = (uint32_t)h->fence.term,
				    .payload = (uint32_t)packed->bytes },
			     .b.copy = { h->index, h->slice.version.incarnation,
					 h->reduce->sum->is.attempt + 1, 3 },
			     .payload = packed };
	deliver(&s, player_at(&s, m.to), &m);
	while (h->reduce->sum->is.attempt != m.b.copy.attempt)
		assert_true(step(&s));
	assert_false(h->reduce->sum->pieces); /* nothing of what it was told before holds */
	tw_block_drop(packed);
	stage_close(&s);
}

/* Pieces of attempts yet to come, from one replica: those of another one find room. */
static void nobody_takes_up_the_room_of_others(void **state)
{
	(void)state;
	for (size_t k = 0; k < 2; k++) {
		const struct method ring = { "{name: ssgd, topology: ring}", "{rate: 0.05}", "",
					     true };
		struct player *p;
		const struct shard *h;
		struct stage s;
		struct tw_msg m = { .h.type = TW_REDUCE };
		float x[64] = { 0 };
		uint32_t most;

		open_replicas(&s, k ? &neighbours : &ring, 1 + k);
		p = until(&s, waits_for_somebody);
		h = (const struct shard *)p->actor;
		m.b.reduce =
			(struct tw_body_reduce){ .attempt = UINT32_MAX,
						 .round = UINT64_MAX,
						 .contributions = 1,
						 .account = { .weight = 1.0f, .divide = 1.0f } };
		for (int i = 0; i < 10000; i++)
			say_to_replica(&s, p, 2, &m, x, h->slice.n);
		most = h->reduce->sum->earlies;
		assert_true(most && most < 100 && h->slice.tally.refused);
		say_to_replica(&s, p, 3, &m, x, h->slice.n);
		assert_int_equal(h->reduce->sum->earlies, most + 1);
		/* nor does it take up its own: what is nearer gets in */
		m.b.reduce.round = UINT64_MAX - 1;
		say_to_replica(&s, p, 2, &m, x, h->slice.n);
		assert_int_equal(h->reduce->sum->earlies, most + 1);
		assert_true(h->reduce->sum->early->body.round == UINT64_MAX - 1);
		/* there is no such sum */
		m.b.reduce.what = TW_FORM_SETTLE;
		say_to_replica(&s, p, 3, &m, x, h->slice.n);
		assert_int_equal(h->reduce->sum->earlies, most + 1);
		run_out(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(anybody_says_anything),
		cmocka_unit_test(others_outlive_a_traitor),
		cmocka_unit_test(a_push_is_known_by_its_link),
		cmocka_unit_test(nobody_speaks_for_another),
		cmocka_unit_test(nobody_locks_a_slot),
		cmocka_unit_test(false_parameters_move_nobody),
		cmocka_unit_test(a_false_piece_counts_as_nothing),
		cmocka_unit_test(what_is_not_finite_is_left_out),
		cmocka_unit_test(sums_and_copies_are_believed),
		cmocka_unit_test(nobody_takes_up_the_room_of_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
