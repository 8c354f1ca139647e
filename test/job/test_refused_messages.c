/* SPDX-License-Identifier: Apache-2.0 */
/* test_refused_messages.c - what cannot be said changes nothing, in any actor.
 *
 * Jobs run in the simulator, with their memory in one piece that can be compared and put back.
 * Whenever an actor is about to hear a genuine message, it is first fed every message that differs
 * from it in one place:
 *
 *	- every word of two, four and eight bytes of header, body and tail, and of the payload's
 *	  ends, at its limits and beside its value; every flag the other way;
 *	- every shorter and some longer tails and payloads;
 *	- every other kind that this sender may not say, and every other sender.
 *
 * Frames that tw_header_check refuses never reach an actor and are left out.  The claim is that of
 * each of these messages one of the following is true:
 *
 *  (1) It is refused: afterwards every byte of the actors' memory is as before, and the actor has
 *      not begun, timed, saved or ended anything.  Tallies of what was refused do not count.
 *  (2) What differs is not looked at: everything is as after the genuine message.  From another
 *      sender, or as another kind, nothing is genuine.
 *  (3) It is held against its sender: the actor says REFUSE; or a shard counts as refused what its
 *      sender contributes, so that nobody waits for it, and its parameters stay.
 *  (4) `rows` has every byte that differs, and its field has a value that the row allows.  Such a
 *      message may be genuine as far as anybody can tell.  The table is a part of the claim: what
 *      is not in it is not believed.
 *
 * All of it is put back before the genuine message is handled, and the run must end as it should.
 * Kinds that no job says are made up, so that a new one is tried, too. */
#include "job/trial.h"
#include "node/master/master.h"
#include "node/shard/shard.h"
#include "node/worker/worker.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* --- memory that can be compared and put back --------------------------------------------- */

#define ROOM    (64u << 20)
#define CLASSES 1024 /* blocks of the same number of lines are used again */
#define LINE    TW_ALIGN
#define MORE    1024 /* bytes that a tail or a payload may have beyond what is genuine */

struct piece {
	_Alignas(LINE) struct piece *next; /* not in use: of its class */
	size_t lines;                      /* after this one */
	bool used;
};
_Static_assert(sizeof(struct piece) == LINE, "one line");

/* Pieces lie one after the other and are never cut or joined. */
struct books {
	size_t top; /* bytes */
	struct piece *spare[CLASSES];
};

enum moment { NOW, THEN, GENUINE /* after the genuine message */ };

static struct memory {
	struct tw_heap heap; /* must stay first */
	uint8_t *at[3];      /* by enum moment */
	struct books books[3];
} memory;

static struct piece *piece_at(enum moment when, size_t at)
{
	return (struct piece *)(void *)(memory.at[when] + at);
}

static void *memory_get(struct tw_heap *heap, size_t bytes)
{
	struct books *b = memory.books;
	const size_t lines = bytes / LINE + 1;
	struct piece *p = lines < CLASSES ? b->spare[lines] : NULL;

	(void)heap;
	if (p) {
		b->spare[lines] = p->next;
	} else {
		p = piece_at(NOW, b->top);
		b->top += (lines + 1) * LINE;
		assert_true(b->top <= ROOM);
		p->lines = lines;
	}
	p->next = NULL;
	p->used = true;
	memset(p + 1, 0, lines * LINE);
	return p + 1;
}

static void memory_put(struct tw_heap *heap, void *bytes)
{
	struct piece *p;

	(void)heap;
	if (!bytes)
		return;
	p = (struct piece *)bytes - 1;
	assert_true(p->used);
	p->used = false;
	if (p->lines < CLASSES) {
		p->next = memory.books->spare[p->lines];
		memory.books->spare[p->lines] = p;
	}
}

/* So small jobs have no state that is so large: it is scratch for tiles, or the world's. */
static bool is_scratch(const struct piece *p)
{
	return p->lines > 512;
}

static void memory_copy(enum moment from, enum moment to)
{
	for (size_t at = 0; at < memory.books[from].top;) {
		const struct piece *p = piece_at(from, at);

		memcpy(piece_at(to, at), p, (is_scratch(p) || !p->used ? 1 : p->lines + 1) * LINE);
		at += (p->lines + 1) * LINE;
	}
	memory.books[to] = memory.books[from];
}

/* Nothing differs but what lies about unused. */
static void memory_tidy(void)
{
	for (size_t at = 0; at < memory.books[THEN].top;) {
		const struct piece *p = piece_at(THEN, at);

		*piece_at(NOW, at) = *p;
		at += (p->lines + 1) * LINE;
	}
	memory.books[NOW] = memory.books[THEN];
}

/* The first byte that differs between now and then, or NULL. */
static const uint8_t *memory_differs(enum moment then)
{
	const size_t upto = memory.books[then].top;
	size_t at, bytes;

	for (at = 0; at < memory.books->top || at < upto; at += bytes + LINE) {
		const bool is = at < memory.books->top, was = at < upto;
		const struct piece *p = piece_at(NOW, at), *q = piece_at(then, at);
		const uint8_t *x = (const uint8_t *)(p + 1), *y = (const uint8_t *)(q + 1);

		bytes = (is ? p : q)->lines * LINE;
		if ((is && p->used) != (was && q->used))
			return x;
		if (is && was && p->used && !is_scratch(p) && memcmp(x, y, bytes)) {
			while (*x == *y)
				x++, y++;
			return x;
		}
	}
	return NULL;
}

/* --- a world in which nothing happens ----------------------------------------------------- */

static const struct tw_world *real;
static struct deeds { /* what the actor has done but for talking */
	uint32_t count;
	const char *last;
	uint64_t with[2];
} deeds;
static bool refused; /* it has said REFUSE */
static bool counted; /* a shard has counted it as refused, or as too late */
static bool told;    /* the same, and the master counts it */

static void did(const char *what, uint64_t x, uint64_t y)
{
	deeds = (struct deeds){ deeds.count + 1, what, { x, y } };
}

static struct tw_msg *dry_new(struct tw_context *ctx)
{
	(void)ctx;
	return tw_heap_zeros(&tw_heap_system, sizeof(struct tw_msg));
}

static void dry_free(struct tw_context *ctx, struct tw_msg *m)
{
	(void)ctx;
	tw_block_drop(m->tail);
	tw_block_drop(m->payload);
	tw_heap_system.put(&tw_heap_system, m);
}

static void dry_send(struct tw_context *ctx, struct tw_msg *m)
{
	refused |= m->h.type == TW_REFUSE;
	told |= m->h.type == TW_HAVE && (m->h.flags & TW_FLAG_REFUSED);
	dry_free(ctx, m);
}

static void dry_timer(struct tw_context *ctx, uint32_t timer, int64_t after)
{
	(void)ctx;
	did("timer", timer, (uint64_t)after);
}

static int64_t dry_now(struct tw_context *ctx)
{
	return real->now(ctx);
}

static void dry_compute(struct tw_context *ctx, struct tw_compute *c)
{
	(void)ctx;
	did("compute", (uintptr_t)c, 0);
}

static void dry_sum(struct tw_context *ctx, const struct tw_sum *sum)
{
	(void)ctx;
	did("sum", sum->key, 0);
}

static void dry_save(struct tw_context *ctx, uint64_t cut, const struct tw_part *parts,
		     size_t count)
{
	(void)ctx, (void)parts;
	did("save", cut, count);
}

static void dry_put(struct tw_context *ctx, uint64_t cut, const struct tw_part *part)
{
	(void)ctx, (void)part;
	did("put", cut, 0);
}

static void dry_look(struct tw_context *ctx, uint64_t from, uint64_t to)
{
	(void)ctx;
	did("look", from, to);
}

static void dry_note(struct tw_context *ctx, struct tw_note *note)
{
	(void)ctx, (void)note;
}

static void dry_log(struct tw_context *ctx, enum tw_level level, const char *line)
{
	(void)ctx, (void)level, (void)line;
}

static void dry_finish(struct tw_context *ctx, enum tw_status status, struct tw_totals *totals)
{
	(void)ctx, (void)totals;
	did("finish", status, 0);
}

static void dry_gone(struct tw_context *ctx)
{
	(void)ctx;
	did("gone", 0, 0);
}

static void dry_named(struct tw_context *ctx, uint32_t slot, uint32_t incarnation)
{
	(void)ctx;
	did("named", slot, incarnation);
}

static void dry_members(struct tw_context *ctx, const struct tw_member *list, size_t count)
{
	(void)ctx, (void)list;
	did("members", count, count && list ? list->incarnation : 0);
}

static const struct tw_world dry = {
	.name = "dry",
	.msg_new = dry_new,
	.msg_free = dry_free,
	.send = dry_send,
	.timer = dry_timer,
	.now = dry_now,
	.compute = dry_compute,
	.cancel = dry_compute,
	.sum = dry_sum,
	.save = dry_save,
	.put = dry_put,
	.look = dry_look,
	.note = dry_note,
	.log = dry_log,
	.finish = dry_finish,
	.gone = dry_gone,
	.named = dry_named,
	.members = dry_members,
};

/* --- what differs, and what is believed --------------------------------------------------- */

enum place { HEAD, BODY, TAIL, PAYLOAD, TAIL_LENGTH, PAYLOAD_LENGTH, KIND, SENDER };
static const char *const places[] = { "head",        "body",           "tail", "payload",
				      "tail length", "payload length", "kind", "sender" };

struct change {
	enum place place;
	size_t at, bytes;
	uint64_t value;
};

static const struct tw_actor_class *const classes[TW_ROLES] = {
	[TW_MASTER] = &tw_master_class,
	[TW_SERVER] = &tw_server_class,
	[TW_SHARD] = &tw_shard_class,
	[TW_WORKER] = &tw_worker_class,
};

static uint64_t fed[TW_TYPES][TW_ROLES][TW_ROLES];
static const char *job;
static uint8_t fed_bytes[1 << 16]; /* the tail or the payload that is fed, if that differs */

/* What a field may be to be believed.  A number of a master begins with its boot. */
enum rule {
	ANY,
	FINITE, /* a float or a double */
	TRUTH,  /* 0 or 1 */
	SLOT,   /* of a worker */
	SHARD,  /* number of one */
	PLACE,  /* a shard, or a cell of a worker */
	SHARDS, /* so many at most */
	COUNT,  /* of workers, at most all */
	TIME,   /* of the master that speaks, or of one before: boot << 20 | number */
	AGE,    /* the same, boot << 32 | number */
	CELL,   /* senders: another cell of the same worker */
	PEER,   /* senders: another replica */
	PADDED, /* lengths: what is behind the arrays of a part is not read */
	FEW,    /* of an enumeration: up to 5 */
};

static const struct row {
	uint16_t type; /* 0: any */
	uint8_t from, to;
	enum place place;
	size_t at, bytes;
	enum rule rule;
} rows[] = {
#define ALL               UINT8_MAX
#define SIZE(type, field) sizeof(((struct type *)0)->field)
#define HEADER(type, from, to, field, rule)                                                        \
	{                                                                                          \
		type, from, to, HEAD, offsetof(struct tw_header, field), SIZE(tw_header, field),   \
			rule                                                                       \
	}
#define FIELD(type, from, to, kind, field, rule)                                                   \
	{                                                                                          \
		type, from, to, BODY, offsetof(struct tw_body_##kind, field),                      \
			SIZE(tw_body_##kind, field), rule                                          \
	}
#define RECORD(type, from, to, record, field, rule)                                                \
	{                                                                                          \
		type, from, to, TAIL, offsetof(struct record, field), SIZE(record, field), rule    \
	}
#define WHOLE(type, from, to, place, rule)                                                         \
	{                                                                                          \
		type, from, to, place, 0, SIZE_MAX, rule                                           \
	}
	/* the master decides: whose word it is, generations, who is there and who does what */
	HEADER(0, TW_MASTER, ALL, incarnation, ANY),
	HEADER(0, TW_MASTER, ALL, view, ANY),
	HEADER(0, TW_MASTER, ALL, flags, ANY),
	HEADER(0, TW_MASTER, ALL, from, ANY),
	FIELD(TW_WELCOME, TW_MASTER, TW_WORKER, welcome, slot, SLOT),
	FIELD(TW_WELCOME, TW_MASTER, TW_WORKER, welcome, incarnation, ANY),
	FIELD(TW_WELCOME, TW_MASTER, TW_WORKER, welcome, cell, ANY),
	RECORD(TW_WELCOME, TW_MASTER, TW_WORKER, tw_place, shard, PLACE),
	RECORD(TW_WELCOME, TW_MASTER, TW_WORKER, tw_place, node, ANY),
	RECORD(TW_WELCOME, TW_MASTER, TW_WORKER, tw_place, incarnation, ANY),
	RECORD(TW_WELCOME, TW_MASTER, TW_WORKER, tw_place, what, TRUTH),
	WHOLE(TW_WELCOME, TW_MASTER, TW_WORKER, TAIL_LENGTH, ANY),
	FIELD(TW_VIEW, TW_MASTER, TW_WORKER, view, live, COUNT),
	FIELD(TW_VIEW, TW_MASTER, TW_WORKER, view, running, TRUTH),
	FIELD(TW_VIEW, TW_MASTER, TW_WORKER, view, number, ANY),
	RECORD(TW_VIEW, TW_MASTER, TW_WORKER, tw_place, shard, PLACE),
	RECORD(TW_VIEW, TW_MASTER, TW_WORKER, tw_place, node, ANY),
	RECORD(TW_VIEW, TW_MASTER, TW_WORKER, tw_place, incarnation, ANY),
	RECORD(TW_VIEW, TW_MASTER, TW_WORKER, tw_place, what, TRUTH),
	WHOLE(TW_VIEW, TW_MASTER, TW_WORKER, TAIL_LENGTH, ANY),
	FIELD(TW_VIEW, TW_MASTER, TW_SHARD, view, live, COUNT),
	FIELD(TW_VIEW, TW_MASTER, TW_SHARD, view, running, TRUTH),
	FIELD(TW_VIEW, TW_MASTER, TW_SHARD, view, number, AGE),
	RECORD(TW_VIEW, TW_MASTER, TW_SHARD, tw_member, slot, SLOT),
	RECORD(TW_VIEW, TW_MASTER, TW_SHARD, tw_member, incarnation, TIME),
	RECORD(TW_VIEW, TW_MASTER, TW_SHARD, tw_member, state, FEW),
	RECORD(TW_VIEW, TW_MASTER, TW_SHARD, tw_member, node, ANY),
	WHOLE(TW_VIEW, TW_MASTER, TW_SHARD, TAIL_LENGTH, ANY),
	FIELD(TW_REFUSE, TW_MASTER, TW_WORKER, refuse, why, FEW),
	FIELD(TW_LEASE, TW_MASTER, TW_WORKER, lease, round, ANY),
	FIELD(TW_LEASE, TW_MASTER, TW_WORKER, lease, confirmed, ANY),
	FIELD(TW_LEASE, TW_MASTER, TW_WORKER, lease, range, ANY),
	FIELD(TW_LEASE, TW_MASTER, TW_WORKER, lease, batch, ANY),
	FIELD(TW_LEASE, TW_MASTER, TW_WORKER, lease, live, COUNT),
	FIELD(TW_LEASE, TW_MASTER, TW_WORKER, lease, nominal, FINITE),
	FIELD(TW_LEASE, TW_MASTER, TW_WORKER, lease, period, ANY),
	FIELD(TW_LEASE, TW_MASTER, TW_WORKER, lease, before, ANY),
	FIELD(TW_EVAL, TW_MASTER, TW_WORKER, eval, pin, ANY),
	FIELD(TW_COMMIT, TW_MASTER, TW_SHARD, commit, round, ANY),
	RECORD(TW_COMMIT, TW_MASTER, TW_SHARD, tw_member, node, ANY),
	RECORD(TW_COMMIT, TW_MASTER, TW_SHARD, tw_judged, slot, ANY),
	RECORD(TW_COMMIT, TW_MASTER, TW_SHARD, tw_judged, incarnation, ANY),
	RECORD(TW_COMMIT, TW_MASTER, TW_SHARD, tw_judged, seq, ANY),
	FIELD(TW_PIN, TW_MASTER, TW_SHARD, pin, pin, AGE),
	FIELD(TW_PIN, TW_MASTER, TW_SHARD, pin, what, FEW),
	FIELD(TW_PIN, TW_MASTER, TW_SHARD, pin, round, ANY),
	FIELD(TW_PIN, TW_MASTER, TW_SHARD, pin, samples, ANY),
	FIELD(TW_PIN, TW_MASTER, TW_SHARD, pin, kept, ANY),
	FIELD(TW_FORM, TW_MASTER, TW_SHARD, form, round, ANY),
	FIELD(TW_FORM, TW_MASTER, TW_SHARD, form, attempt, TIME),
	FIELD(TW_FORM, TW_MASTER, TW_SHARD, form, what, FEW),
	RECORD(TW_FORM, TW_MASTER, TW_SHARD, tw_member, incarnation, TIME),
	RECORD(TW_FORM, TW_MASTER, TW_SHARD, tw_member, state, FEW),
	RECORD(TW_FORM, TW_MASTER, TW_SHARD, tw_member, node, ANY),
	WHOLE(TW_FORM, TW_MASTER, TW_SHARD, TAIL_LENGTH, ANY),
	FIELD(TW_GIVE, TW_MASTER, TW_SHARD, give, round, ANY),
	FIELD(TW_VEC, TW_MASTER, TW_SHARD, vec, number, ANY),
	FIELD(TW_VEC, TW_MASTER, TW_SHARD, vec, round, ANY),
	WHOLE(TW_VEC, TW_MASTER, TW_SHARD, TAIL, ANY),
	WHOLE(TW_VEC, TW_MASTER, TW_SHARD, TAIL_LENGTH, ANY),
	FIELD(TW_HOST, TW_MASTER, TW_SERVER, host, shard, SHARD),
	FIELD(TW_HOST, TW_MASTER, TW_SERVER, host, unhost, TRUTH),
	FIELD(TW_HOST, TW_MASTER, TW_SERVER, host, live, COUNT),
	FIELD(TW_HOST, TW_SERVER, TW_SHARD, host, incarnation, TIME),
	FIELD(TW_HOST, TW_SERVER, TW_SHARD, host, unhost, TRUTH),
	FIELD(TW_HOST, TW_SERVER, TW_SHARD, host, live, COUNT),
	FIELD(TW_HOST, TW_SERVER, TW_SHARD, host, attempt, TIME),
	/* what the server of its node hands on, and what is in a part that fits */
	HEADER(0, TW_SERVER, TW_SHARD, incarnation, ANY),
	HEADER(0, TW_SERVER, TW_SHARD, view, AGE),
	HEADER(0, TW_SERVER, TW_SHARD, flags, ANY),
	HEADER(0, TW_SERVER, TW_SHARD, from, ANY),
	WHOLE(TW_HOST, TW_SERVER, TW_SHARD, PAYLOAD, ANY),
	FIELD(TW_COPY, TW_SERVER, TW_SHARD, copy, incarnation, TIME),
	FIELD(TW_COPY, TW_SERVER, TW_SHARD, copy, attempt, TIME),
	FIELD(TW_COPY, TW_SERVER, TW_SHARD, copy, live, COUNT),
	WHOLE(TW_COPY, TW_SERVER, TW_SHARD, PAYLOAD, ANY),
	/* what a server says of itself */
	HEADER(0, TW_SERVER, TW_MASTER, incarnation, ANY),
	HEADER(0, TW_SERVER, TW_MASTER, flags, ANY),
	HEADER(0, TW_SERVER, TW_MASTER, from, ANY),
	FIELD(TW_HELLO, TW_SERVER, TW_MASTER, hello, hosted, SHARDS),
	WHOLE(TW_HELLO, TW_SERVER, TW_MASTER, SENDER, ANY),
	/* what a worker says of itself, by any of its cells */
	HEADER(0, TW_WORKER, TW_MASTER, view, ANY),
	WHOLE(TW_HELLO, TW_WORKER, TW_MASTER, BODY, ANY),
	WHOLE(TW_HELLO, TW_WORKER, TW_MASTER, SENDER, ANY),
	FIELD(TW_DONE, TW_WORKER, TW_MASTER, done, lease, ANY),
	FIELD(TW_DONE, TW_WORKER, TW_MASTER, done, upto, ANY),
	FIELD(TW_DONE, TW_WORKER, TW_MASTER, done, steps, ANY),
	FIELD(TW_DONE, TW_WORKER, TW_MASTER, done, samples, ANY),
	FIELD(TW_DONE, TW_WORKER, TW_MASTER, done, loss, ANY),
	FIELD(TW_DONE, TW_WORKER, TW_MASTER, done, losses, ANY),
	WHOLE(TW_DONE, TW_WORKER, TW_MASTER, TAIL, ANY),
	WHOLE(TW_DONE, TW_WORKER, TW_MASTER, TAIL_LENGTH, ANY),
	FIELD(TW_IDLE, TW_WORKER, TW_MASTER, idle, lease, ANY),
	FIELD(TW_IDLE, TW_WORKER, TW_MASTER, idle, idle, TRUTH),
	FIELD(TW_RESULT, TW_WORKER, TW_MASTER, result, loss, ANY),
	FIELD(TW_RESULT, TW_WORKER, TW_MASTER, result, correct, FINITE),
	WHOLE(TW_PART, TW_WORKER, TW_MASTER, PAYLOAD, ANY),
	WHOLE(TW_PART, TW_WORKER, TW_MASTER, PAYLOAD_LENGTH, PADDED),
	WHOLE(TW_FIGURES, TW_WORKER, TW_MASTER, BODY, ANY),
	WHOLE(0, TW_WORKER, TW_MASTER, SENDER, CELL),
	/* what a shard says of itself, on whatever node it is */
	HEADER(0, TW_SHARD, TW_MASTER, flags, ANY),
	WHOLE(0, TW_SHARD, TW_MASTER, SENDER, PEER),
	FIELD(TW_HAVE, TW_SHARD, TW_MASTER, have, round, ANY),
	FIELD(TW_HAVE, TW_SHARD, TW_MASTER, have, slot, ANY),
	FIELD(TW_HAVE, TW_SHARD, TW_MASTER, have, incarnation, ANY),
	FIELD(TW_HAVE, TW_SHARD, TW_MASTER, have, samples, ANY),
	FIELD(TW_HAVE, TW_SHARD, TW_MASTER, have, steps, ANY),
	FIELD(TW_HAVE, TW_SHARD, TW_MASTER, have, loss, ANY),
	FIELD(TW_HAVE, TW_SHARD, TW_MASTER, have, attempt, ANY),
	FIELD(TW_HAVE, TW_SHARD, TW_MASTER, have, rate, FINITE),
	HEADER(TW_HAVE, TW_SHARD, TW_MASTER, seq, ANY),
	FIELD(TW_STATE, TW_SHARD, TW_MASTER, state, round, ANY),
	WHOLE(TW_STATE, TW_SHARD, TW_MASTER, TAIL, ANY),
	WHOLE(TW_STATE, TW_SHARD, TW_MASTER, PAYLOAD, ANY),
	FIELD(TW_PART, TW_SHARD, TW_MASTER, part, round, ANY),
	WHOLE(TW_PART, TW_SHARD, TW_MASTER, PAYLOAD, ANY),
	FIELD(TW_PIN, TW_SHARD, TW_MASTER, pin, round, ANY),
	FIELD(TW_PIN, TW_SHARD, TW_MASTER, pin, samples, ANY),
	FIELD(TW_PIN, TW_SHARD, TW_MASTER, pin, steps, ANY),
	FIELD(TW_PIN, TW_SHARD, TW_MASTER, pin, updates, ANY),
	FIELD(TW_PIN, TW_SHARD, TW_MASTER, pin, staleness_sum, ANY),
	FIELD(TW_PIN, TW_SHARD, TW_MASTER, pin, staleness_count, ANY),
	FIELD(TW_PIN, TW_SHARD, TW_MASTER, pin, digest, ANY),
	FIELD(TW_PIN, TW_SHARD, TW_MASTER, pin, rate, FINITE),
	FIELD(TW_PIN, TW_SHARD, TW_MASTER, pin, kept, ANY),
	WHOLE(TW_SCALAR, TW_SHARD, TW_MASTER, TAIL, ANY),
	/* what a worker says to a shard of its contributions and requests; who it is before a view
	 * has named it */
	HEADER(TW_PUSH, TW_WORKER, TW_SHARD, from, SLOT),
	HEADER(TW_PUSH, TW_WORKER, TW_SHARD, incarnation, ANY),
	HEADER(TW_PUSH, TW_WORKER, TW_SHARD, seq, ANY),
	HEADER(TW_PUSH, TW_WORKER, TW_SHARD, flags, ANY),
	HEADER(TW_PULL, TW_WORKER, TW_SHARD, from, SLOT),
	HEADER(TW_PULL, TW_WORKER, TW_SHARD, incarnation, ANY),
	HEADER(TW_PULL, TW_WORKER, TW_SHARD, flags, ANY),
	FIELD(TW_PUSH, TW_WORKER, TW_SHARD, push, base, ANY),
	FIELD(TW_PUSH, TW_WORKER, TW_SHARD, push, round, ANY),
	FIELD(TW_PUSH, TW_WORKER, TW_SHARD, push, account.steps, ANY),
	FIELD(TW_PUSH, TW_WORKER, TW_SHARD, push, own, ANY),
	FIELD(TW_PUSH, TW_WORKER, TW_SHARD, push, count, ANY),
	FIELD(TW_PUSH, TW_WORKER, TW_SHARD, push, account.loss, ANY),
	FIELD(TW_PUSH, TW_WORKER, TW_SHARD, push, number, ANY),
	FIELD(TW_PUSH, TW_WORKER, TW_SHARD, push, clock, ANY),
	FIELD(TW_PUSH, TW_WORKER, TW_SHARD, push, link, ANY),
	FIELD(TW_PUSH, TW_WORKER, TW_SHARD, push, account.own_steps, ANY),
	FIELD(TW_PUSH, TW_WORKER, TW_SHARD, push, account.skipped, ANY),
	FIELD(TW_PUSH, TW_WORKER, TW_SHARD, push, lane, ANY),
	FIELD(TW_PUSH, TW_WORKER, TW_SHARD, push, lanes, ANY),
	FIELD(TW_PUSH, TW_WORKER, TW_SHARD, push, range, ANY),
	FIELD(TW_PUSH, TW_WORKER, TW_SHARD, push, account.weight, FINITE),
	FIELD(TW_PUSH, TW_WORKER, TW_SHARD, push, account.divide, FINITE),
	FIELD(TW_PUSH, TW_WORKER, TW_SHARD, push, rate, FINITE),
	FIELD(TW_PUSH, TW_WORKER, TW_SHARD, push, account.drift, FINITE),
	FIELD(TW_PUSH, TW_WORKER, TW_SHARD, push, account.residual, FINITE),
	WHOLE(TW_PUSH, TW_WORKER, TW_SHARD, PAYLOAD, ANY),
	FIELD(TW_PULL, TW_WORKER, TW_SHARD, pull, round, ANY),
	FIELD(TW_PULL, TW_WORKER, TW_SHARD, pull, pin, ANY),
	FIELD(TW_PULL, TW_WORKER, TW_SHARD, pull, clock, ANY),
	FIELD(TW_PULL, TW_WORKER, TW_SHARD, pull, link, ANY),
	/* what a replica says to another */
	HEADER(0, TW_SHARD, TW_SHARD, seq, ANY),
	HEADER(0, TW_SHARD, TW_SHARD, flags, ANY),
	/* of a generation that the other has not heard of, it is kept (kernel/early.h) */
	HEADER(0, TW_SHARD, TW_SHARD, view, ANY),
	FIELD(TW_SPREAD, TW_SHARD, TW_SHARD, push, base, ANY),
	FIELD(TW_SPREAD, TW_SHARD, TW_SHARD, push, round, ANY),
	FIELD(TW_SPREAD, TW_SHARD, TW_SHARD, push, account.steps, ANY),
	FIELD(TW_SPREAD, TW_SHARD, TW_SHARD, push, own, ANY),
	FIELD(TW_SPREAD, TW_SHARD, TW_SHARD, push, count, ANY),
	FIELD(TW_SPREAD, TW_SHARD, TW_SHARD, push, account.loss, ANY),
	FIELD(TW_SPREAD, TW_SHARD, TW_SHARD, push, number, ANY),
	FIELD(TW_SPREAD, TW_SHARD, TW_SHARD, push, clock, ANY),
	FIELD(TW_SPREAD, TW_SHARD, TW_SHARD, push, link, ANY),
	FIELD(TW_SPREAD, TW_SHARD, TW_SHARD, push, account.own_steps, ANY),
	FIELD(TW_SPREAD, TW_SHARD, TW_SHARD, push, account.skipped, ANY),
	FIELD(TW_SPREAD, TW_SHARD, TW_SHARD, push, lane, ANY),
	FIELD(TW_SPREAD, TW_SHARD, TW_SHARD, push, lanes, ANY),
	FIELD(TW_SPREAD, TW_SHARD, TW_SHARD, push, range, ANY),
	FIELD(TW_SPREAD, TW_SHARD, TW_SHARD, push, account.weight, FINITE),
	FIELD(TW_SPREAD, TW_SHARD, TW_SHARD, push, account.divide, FINITE),
	FIELD(TW_SPREAD, TW_SHARD, TW_SHARD, push, rate, FINITE),
	FIELD(TW_SPREAD, TW_SHARD, TW_SHARD, push, account.drift, FINITE),
	FIELD(TW_SPREAD, TW_SHARD, TW_SHARD, push, account.residual, FINITE),
	WHOLE(TW_SPREAD, TW_SHARD, TW_SHARD, PAYLOAD, ANY),
	FIELD(TW_MIX, TW_SHARD, TW_SHARD, mix, number, ANY),
	FIELD(TW_MIX, TW_SHARD, TW_SHARD, mix, answer, TRUTH),
	WHOLE(TW_MIX, TW_SHARD, TW_SHARD, PAYLOAD, ANY),
	FIELD(TW_REDUCE, TW_SHARD, TW_SHARD, reduce, round, ANY),
	FIELD(TW_REDUCE, TW_SHARD, TW_SHARD, reduce, attempt, ANY),
	FIELD(TW_REDUCE, TW_SHARD, TW_SHARD, reduce, chunk, ANY),
	FIELD(TW_REDUCE, TW_SHARD, TW_SHARD, reduce, part, ANY),
	FIELD(TW_REDUCE, TW_SHARD, TW_SHARD, reduce, whole, ANY),
	FIELD(TW_REDUCE, TW_SHARD, TW_SHARD, reduce, what, ANY),
	FIELD(TW_REDUCE, TW_SHARD, TW_SHARD, reduce, contributions, ANY),
	FIELD(TW_REDUCE, TW_SHARD, TW_SHARD, reduce, account.steps, ANY),
	FIELD(TW_REDUCE, TW_SHARD, TW_SHARD, reduce, account.samples, ANY),
	FIELD(TW_REDUCE, TW_SHARD, TW_SHARD, reduce, account.own_steps, ANY),
	FIELD(TW_REDUCE, TW_SHARD, TW_SHARD, reduce, account.skipped, ANY),
	FIELD(TW_REDUCE, TW_SHARD, TW_SHARD, reduce, account.loss, ANY),
	FIELD(TW_REDUCE, TW_SHARD, TW_SHARD, reduce, account.weight, FINITE),
	FIELD(TW_REDUCE, TW_SHARD, TW_SHARD, reduce, account.divide, FINITE),
	FIELD(TW_REDUCE, TW_SHARD, TW_SHARD, reduce, account.drift, FINITE),
	FIELD(TW_REDUCE, TW_SHARD, TW_SHARD, reduce, drift_most, FINITE),
	FIELD(TW_REDUCE, TW_SHARD, TW_SHARD, reduce, account.residual, FINITE),
	WHOLE(TW_REDUCE, TW_SHARD, TW_SHARD, PAYLOAD, ANY),
	/* what a shard answers */
	HEADER(0, TW_SHARD, TW_WORKER, flags, ANY),
	WHOLE(TW_PARAMS, TW_SHARD, TW_WORKER, BODY, ANY),
	WHOLE(TW_PARAMS, TW_SHARD, TW_WORKER, PAYLOAD, ANY),
	WHOLE(TW_UNCHANGED, TW_SHARD, TW_WORKER, BODY, ANY),
	WHOLE(TW_ACK, TW_SHARD, TW_WORKER, BODY, ANY),
	FIELD(TW_REFUSE, TW_SHARD, TW_WORKER, refuse, why, FEW),
	/* what a cell says to another of its worker; of a life that the other has not heard of,
	 * it is kept */
	HEADER(0, TW_WORKER, TW_WORKER, seq, ANY),
	HEADER(0, TW_WORKER, TW_WORKER, view, ANY),
	HEADER(0, TW_WORKER, TW_WORKER, incarnation, ANY),
	HEADER(0, TW_WORKER, TW_WORKER, from, ANY),
	WHOLE(TW_ACT, TW_WORKER, TW_WORKER, BODY, ANY),
	WHOLE(TW_ACT, TW_WORKER, TW_WORKER, PAYLOAD, ANY),
	WHOLE(TW_GRAD, TW_WORKER, TW_WORKER, BODY, ANY),
	WHOLE(TW_GRAD, TW_WORKER, TW_WORKER, PAYLOAD, ANY),
	WHOLE(TW_HEARD, TW_WORKER, TW_WORKER, BODY, ANY),
	WHOLE(TW_HEARD, TW_WORKER, TW_WORKER, SENDER, CELL),
	WHOLE(TW_CLOSED, TW_WORKER, TW_WORKER, BODY, ANY),
};
static uint64_t used[sizeof rows / sizeof rows[0]];

static const struct tw_plan *plan;

static const struct tw_msg *saying; /* the genuine one */

static uint32_t worker_at(uint32_t node)
{
	return (node - 1 - plan->crew.servers) / tw_plan_cells(plan);
}

static bool is_allowed(enum rule rule, const uint8_t *at, size_t bytes, const struct tw_msg *m)
{
	uint64_t x = 0;
	double d = 0;
	float f = 0;

	if (at)
		memcpy(&x, at, bytes < sizeof x ? bytes : sizeof x);
	memcpy(&d, &x, sizeof d);
	memcpy(&f, &x, sizeof f);
	switch (rule) {
	case ANY:
		return true;
	case FINITE:
		return bytes == 8 ? isfinite(d) : isfinite(f);
	case TRUTH:
		return x <= 1;
	case SLOT:
		return x < plan->crew.workers;
	case SHARD:
		return x < plan->problem.shards;
	case PLACE:
		return x < plan->problem.shards || x < tw_plan_cells(plan);
	case SHARDS:
		return x <= plan->problem.shards;
	case COUNT:
		return x <= plan->crew.workers;
	case TIME:
		return x >> 20 <= m->h.incarnation;
	case AGE:
		return x >> 32 <= m->h.incarnation;
	case FEW:
		return x <= 5;
	case CELL:
		return m->from.role == TW_WORKER &&
		       worker_at(m->from.node) == worker_at(saying->from.node);
	case PEER:
		return tw_plan_has_peers(plan);
	case PADDED:
		return m->h.payload + LINE >= saying->h.payload;
	}
	return false;
}

/* Is there a row for this byte, and does the field have a value that it allows? */
static bool is_believed_at(const struct tw_msg *m, uint16_t to, enum place place,
			   const uint8_t *bytes, size_t at)
{
	const size_t record = place == TAIL ? tw_kind_of(m->h.type)->record : SIZE_MAX;

	for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
		const struct row *r = &rows[k];
		const size_t from = at % record;

		if ((r->type && r->type != m->h.type) ||
		    (r->from != ALL && r->from != m->from.role) || (r->to != ALL && r->to != to) ||
		    r->place != place || from < r->at || from - r->at >= r->bytes)
			continue;
		if (is_allowed(r->rule, bytes ? bytes + at - from + r->at : NULL, r->bytes, m)) {
			used[k]++;
			return true;
		}
	}
	return false;
}

static bool is_believed(const struct tw_msg *m, uint16_t to, const struct change *c)
{
	const uint8_t *now = fed_bytes, *before;

	switch (c->place) {
	case HEAD:
		now = (const uint8_t *)&m->h;
		before = (const uint8_t *)&saying->h;
		break;
	case BODY:
		now = (const uint8_t *)&m->b;
		before = (const uint8_t *)&saying->b;
		break;
	case TAIL:
		before = saying->tail->data;
		break;
	case PAYLOAD:
		before = tw_msg_payload(saying);
		break;
	default:
		return is_believed_at(m, to, c->place, NULL, 0);
	}
	for (size_t k = c->at; k < c->at + c->bytes; k++)
		if (now[k] != before[k] && !is_believed_at(m, to, c->place, now, k))
			return false;
	return true;
}

/* The message is handled, without consequences in the world. */
static void handle(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct shard *shard = ctx->self.role == TW_SHARD ? (struct shard *)a : NULL;
	struct master *master = ctx->self.role == TW_MASTER ? (struct master *)a : NULL;
	const struct tw_tally tally = shard ? shard->slice.tally : (struct tw_tally){ 0 };
	const uint64_t count = master ? master->count.refused : 0;
	struct tw_block *tail = m->tail, *payload = m->payload;

	m->tail = m->h.tail ? tail : NULL;
	m->payload = m->h.payload ? payload : NULL;
	deeds = (struct deeds){ 0 };
	refused = told = false;
	ctx->world = &dry;
	classes[ctx->self.role]->message(a, ctx, m);
	ctx->world = real;
	counted = shard && shard->slice.tally.refused + shard->slice.tally.fenced >
				   tally.refused + tally.fenced;
	if (shard) {
		shard->slice.tally.refused = tally.refused;
		shard->slice.tally.fenced = tally.fenced;
	}
	if (master)
		master->count.refused = count;
	tw_block_drop(tail);
	tw_block_drop(payload);
}

/* Where this was then. */
static const void *then(const void *now)
{
	return memory.at[THEN] + ((const uint8_t *)now - memory.at[NOW]);
}

/* What cannot be of a contribution is counted against its sender: its place is taken by nothing, so
 * that nobody waits for it, and the parameters stay. */
static bool is_counted(const struct tw_actor *a)
{
	const struct shard *s = (const struct shard *)a, *was = then(a);

	return (counted || told) && s->slice.w && s->slice.w == was->slice.w &&
	       !memcmp(&s->slice.version, &was->slice.version, sizeof s->slice.version) &&
	       !memcmp(s->slice.w->data, then(s->slice.w->data), s->slice.n * sizeof(float));
}

static uint8_t *bytes_of(struct tw_msg *m, enum place place)
{
	return place == HEAD   ? (uint8_t *)&m->h
	       : place == BODY ? (uint8_t *)&m->b
	       : place == TAIL ? m->tail->data
			       : tw_msg_payload(m);
}

static struct deeds genuine;
static uint64_t outcomes[5]; /* by enum outcome */

/* What became of it. */
static enum outcome {
	REFUSED,
	GENUINE_TOO,
	HELD_AGAINST,
	BELIEVED,
	WRONG,
} judge(const struct tw_actor *a, const struct tw_context *ctx, const struct tw_msg *m,
	const struct change *c)
{
	const uint8_t *differs = memory_differs(THEN);
	enum outcome o;

	if (!deeds.count && !differs)
		return REFUSED;
	if (c->place < KIND && !memcmp(&deeds, &genuine, sizeof deeds) && !memory_differs(GENUINE))
		return GENUINE_TOO;
	o = refused || is_counted(a)            ? HELD_AGAINST
	    : is_believed(m, ctx->self.role, c) ? BELIEVED
						: WRONG;
	if (o == WRONG && outcomes[WRONG] < 20)
		print_error(
			"%.40s: %s hears %s of %s with another %s (%zu bytes at %zu: %llx): %s, "
			"byte %td of the actor\n",
			job, classes[ctx->self.role]->name, tw_type_name(saying->h.type),
			classes[saying->from.role]->name, places[c->place], c->bytes, c->at,
			(unsigned long long)c->value, deeds.last ? deeds.last : "it changes",
			differs ? differs - (const uint8_t *)a : (ptrdiff_t)-1);
	return o;
}

static void feed(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m,
		 const struct change *c)
{
	const struct tw_header h = tw_msg_header(m, 0);
	const struct tw_msg said = *m;
	enum outcome o;

	if (tw_header_check(&h, NULL) != TW_OK) {
		memory_tidy(); /* its blocks lie about */
		return;
	}
	if (c->place == TAIL || c->place == PAYLOAD)
		memcpy(fed_bytes, bytes_of(m, c->place), c->at + c->bytes + LINE);
	handle(a, ctx, m);
	o = judge(a, ctx, &said, c);
	outcomes[o]++;
	if (o == REFUSED)
		memory_tidy();
	else
		memory_copy(THEN, NOW);
}

/* However long it is, it takes the same room, so that what is allocated later lies where it does
 * without the change. */
static struct tw_block *copy_of(const uint8_t *bytes, size_t have, size_t n)
{
	struct tw_block *b = tw_block_new(&memory.heap, have + MORE);

	assert_non_null(b);
	b->bytes = n;
	if (have)
		memcpy(b->data, bytes, have < n ? have : n);
	return b;
}

/* The same message with blocks of its own, of so many bytes. */
static struct tw_msg like(const struct tw_msg *m, uint32_t tail, uint32_t payload)
{
	struct tw_msg out = *m;

	out.next = NULL;
	out.tail = copy_of(m->tail ? m->tail->data : NULL, m->h.tail, tail);
	out.payload = copy_of(m->payload ? tw_msg_payload(m) : NULL, m->h.payload, payload);
	out.payload_at = 0;
	out.h.tail = tail;
	out.h.payload = payload;
	return out;
}

/* One word, at its limits and beside what it is. */
static void feed_word(struct tw_actor *a, struct tw_context *ctx, const struct tw_msg *m,
		      enum place place, size_t at, size_t bytes)
{
	const uint64_t sign = (uint64_t)1 << (8 * bytes - 1), all = sign | (sign - 1);
	const float f[] = { NAN, INFINITY, -INFINITY, -1.0f };
	const double d[] = { NAN, INFINITY, -INFINITY, -1.0 };
	uint64_t values[12] = { 0, 1, all, all - 1, sign, sign - 1 }, was = 0;
	struct tw_msg same = *m;
	size_t n = 8;

	memcpy(&was, bytes_of(&same, place) + at, bytes);
	values[6] = (was + 1) & all;
	values[7] = (was - 1) & all;
	for (size_t k = 0; k < 4 && bytes > 2; k++, n++)
		memcpy(&values[n], bytes == 4 ? (const void *)&f[k] : (const void *)&d[k], bytes);
	for (size_t k = 0; k < n; k++) {
		struct tw_msg x;

		if (values[k] == was)
			continue;
		x = like(m, m->h.tail, m->h.payload);
		memcpy(bytes_of(&x, place) + at, &values[k], bytes);
		feed(a, ctx, &x, &(struct change){ place, at, bytes, values[k] });
	}
}

static void feed_words(struct tw_actor *a, struct tw_context *ctx, const struct tw_msg *m,
		       enum place place, size_t from, size_t to)
{
	for (size_t bytes = 2; bytes <= 8; bytes *= 2)
		for (size_t at = (from + bytes - 1) / bytes * bytes; at + bytes <= to; at += bytes)
			feed_word(a, ctx, m, place, at, bytes);
}

static void feed_head(struct tw_actor *a, struct tw_context *ctx, const struct tw_msg *m)
{
	feed_words(a, ctx, m, HEAD, offsetof(struct tw_header, view),
		   offsetof(struct tw_header, flags));
	for (uint32_t bit = 0; bit < 32; bit++) {
		struct tw_msg x = like(m, m->h.tail, m->h.payload);

		x.h.flags ^= (uint32_t)1 << bit;
		feed(a, ctx, &x,
		     &(struct change){ HEAD, offsetof(struct tw_header, flags), 4, x.h.flags });
	}
}

/* Every shorter one, and some longer ones. */
static void feed_lengths(struct tw_actor *a, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_kind *k = tw_kind_of(m->h.type);
	const uint32_t more[] = { 1, 2, 4, 8, 16, 64, MORE };

	for (uint32_t n = 0; k->record && n <= m->h.tail + 2 * k->record; n += k->record)
		if (n != m->h.tail) {
			struct tw_msg x = like(m, n, m->h.payload);

			feed(a, ctx, &x, &(struct change){ TAIL_LENGTH, 0, 4, n });
		}
	if (k->payload == TW_PAYLOAD_NONE)
		return;
	for (uint32_t n = 0; n < m->h.payload; n++) {
		struct tw_msg x = like(m, m->h.tail, n);

		feed(a, ctx, &x, &(struct change){ PAYLOAD_LENGTH, 0, 4, n });
	}
	for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
		struct tw_msg x = like(m, m->h.tail, m->h.payload + more[i]);

		feed(a, ctx, &x, &(struct change){ PAYLOAD_LENGTH, 0, 4, x.h.payload });
	}
}

static void feed_kinds(struct tw_actor *a, struct tw_context *ctx, const struct tw_msg *m)
{
	for (uint16_t type = 1; type < TW_TYPES; type++) {
		struct tw_msg x;

		if (tw_may_say(type, m->from.role, ctx->self.role, m->from.node == ctx->self.node))
			continue;
		x = like(m, m->h.tail, m->h.payload);
		x.h.type = type;
		feed(a, ctx, &x, &(struct change){ KIND, 0, 2, type });
	}
}

static void feed_senders(struct tw_actor *a, struct tw_context *ctx, const struct tw_msg *m)
{
	for (uint32_t node = 0; node < 8; node++)
		for (uint16_t role = 0; role < TW_ROLES; role++) {
			struct tw_msg x;

			if (node == m->from.node && role == m->from.role)
				continue;
			x = like(m, m->h.tail, m->h.payload);
			x.from.node = node;
			x.from.role = role;
			feed(a, ctx, &x, &(struct change){ SENDER, 0, 4, role << 16 | node });
		}
}

static void feed_all(struct tw_actor *a, struct tw_context *ctx, const struct tw_msg *m)
{
	const size_t ends = m->h.payload < 512 ? m->h.payload : 256;
	struct tw_msg same;

	real = ctx->world;
	saying = m;
	memory_copy(NOW, THEN);
	same = like(m, m->h.tail, m->h.payload);
	handle(a, ctx, &same);
	genuine = deeds;
	memory_copy(NOW, GENUINE);
	memory_copy(THEN, NOW);
	feed_head(a, ctx, m);
	feed_words(a, ctx, m, BODY, 0, tw_body_bytes(m->h.type));
	feed_words(a, ctx, m, TAIL, 0, m->h.tail < 64 ? m->h.tail : 64);
	feed_words(a, ctx, m, PAYLOAD, 0, ends);
	feed_lengths(a, ctx, m);
	feed_kinds(a, ctx, m);
	feed_senders(a, ctx, m);
}

static bool last_job;
static uint64_t heard[TW_TYPES][TW_ROLES][TW_ROLES]; /* in this job */

/* Kinds that no job of these says, with nothing in them: as who has just spoken would say them, or
 * a neighbour on the node. */
static void feed_unsaid(struct tw_actor *a, struct tw_context *ctx, const struct tw_msg *m)
{
	for (uint16_t type = 1; type < TW_TYPES; type++)
		for (uint16_t role = 0; role < TW_ROLES; role++) {
			const bool near = role != m->from.role;
			struct tw_msg x = { .h = m->h, .from = m->from, .to = m->to };

			if (near)
				x.from = (struct tw_addr){ ctx->self.node, role, ctx->self.index };
			if (fed[type][role][ctx->self.role] ||
			    !tw_may_say(type, role, ctx->self.role, near) ||
			    (near && tw_may_say(type, role, ctx->self.role, false)))
				continue;
			x.h.type = type;
			x.h.tail = x.h.payload = 0;
			feed_all(a, ctx, &x);
			fed[type][role][ctx->self.role]++;
		}
}

static void hear(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	const uint64_t k = ++heard[m->h.type][m->from.role][ctx->self.role];

	if (tw_hears(ctx, m) && (k == 1 || k == 4 || k == 16)) {
		feed_all(a, ctx, m);
		fed[m->h.type][m->from.role][ctx->self.role]++;
		if (last_job)
			feed_unsaid(a, ctx, m);
	}
	classes[ctx->self.role]->message(a, ctx, m);
}

/* --- the jobs ------------------------------------------------------------------------------ */

static void run(const char *text)
{
	static struct tw_actor_class class[TW_ROLES];
	struct tw_ran ran;
	struct trial t;

	job = strstr(text, "strategy:") + sizeof "strategy:";
	memset(heard, 0, sizeof heard);
	memset(memory.books, 0, sizeof memory.books);
	trial_open(&t, TW_WORLD_SIM, "%s", text);
	plan = &t.job->plan;
	for (size_t k = 0; k < t.cast.seats; k++) {
		const uint16_t role = t.cast.seat[k].addr.role;

		class[role] = *classes[role];
		class[role].message = hear;
		t.cast.seat[k].class = &class[role];
	}
	if (trial_run(&t, &memory.heap, NULL, &ran) != TW_OK)
		fail_msg("%s: %s", text, ran.error.text);
	tw_totals_release(&ran.totals);
	trial_close(&t);
}

#define PROBLEM                                                                                    \
	"data: {source: none, samples: 24, batch: 2}\nmodel: {quadratic: {dimension: 10, noise: "  \
	"0.1}}\n"
#define SMALL PROBLEM "train: {epochs: 2, evaluate: 0.5}\nupdate: {rate: 0.01}\n"
#define KEEPS PROBLEM "train: {epochs: 2, evaluate: 0.5, keep: best}\nupdate: {rate: 0.01}\n"
#define PACE  "sim: {compute: {law: exponential, mean: 300ms}, latency: 5ms, closed_limit: 20ms"

#define SERVED "cluster: {workers: 3, min: 1, servers: 2, shards: 2}\n"
#define PEERS  "cluster: {workers: 3, min: 1, shards: 2}\ncheckpoint: {every: 1s, cut: drain}\n"
#define STAGED                                                                                     \
	"data: {source: none, samples: 24, batch: 1, accumulate: 2}\nmodel: {quadratic: "          \
	"{dimension: "                                                                             \
	"12, noise: 0.1, stages: 3}}\ntrain: {epochs: 1, evaluate: 1}\nupdate: {rate: 0.01}\n"     \
	"cluster: {workers: 2, min: 1, stages: 3, servers: 1}\n"

static const char *const jobs[] = {
	SMALL SERVED
	"checkpoint: {every: 1s}\n" PACE
	", faults: [{crash: server 1, at: 2s, restart: 100ms}, {crash: master, at: 3s, "
	"restart: 100ms}, {crash: worker 1, at: 1200ms, restart: 100ms}]}\n"
	"strategy: ssgd",
	SMALL SERVED "checkpoint: {every: 1s}\n" PACE
		     ", faults: [{crash: server 1, at: 2s, restart: 100ms}, {partition: worker 1, "
		     "from: everybody, at: 1200ms, lasts: 20s}, {leave: worker 2, at: 2500ms}]}\n"
		     "strategy: asgd",
	KEEPS SERVED "checkpoint: {every: 1s}\n" PACE
		     ", faults: [{crash: server 1, at: 2s, restart: 100ms}]}\nstrategy: asgd",
	KEEPS PEERS PACE ", faults: [{crash: worker 1, at: 1200ms, restart: 100ms}]}\n"
			 "strategy: ring",
	SMALL SERVED PACE "}\nstrategy: {name: ssp, lead: 1}",
	SMALL SERVED PACE "}\nstrategy: ringmaster",
	SMALL SERVED PACE "}\nstrategy: easgd",
	SMALL PEERS PACE ", faults: [{crash: worker 1, at: 1200ms, restart: 100ms}]}\n"
			 "strategy: gossip",
	SMALL PEERS PACE ", faults: [{crash: worker 1, at: 1200ms, restart: 100ms}]}\n"
			 "strategy: strom",
	SMALL PEERS PACE ", faults: [{crash: worker 1, at: 1200ms, restart: 100ms}]}\n"
			 "strategy: {name: ssgd, topology: ring}",
	STAGED PACE "}\nstrategy: {gate: bsp, pipeline: gpipe}",
	STAGED PACE "}\nstrategy: {gate: async, pipeline: pipedream}",
	"data: {source: none, samples: 24, batch: 1, accumulate: 2}\nmodel: {quadratic: "
	"{dimension: 12, "
	"noise: 0.1, stages: 3}}\ntrain: {epochs: 1, evaluate: 1}\nupdate: {rate: 0.01}\n"
	"cluster: {workers: 1, stages: 3, lanes: [2, 1, 2], place: with-stage}\n" PACE
	"}\nstrategy: {gate: bsp, pipeline: gpipe}",
	"data: {source: none, samples: 24, batch: 2}\nmodel: {quadratic: {dimension: 10, noise: "
	"0}}\n"
	"train: {epochs: 2}\n" SERVED PACE "}\nstrategy: sandblaster",
};

static void what_is_refused_changes_nothing(void **state)
{
	const size_t count = sizeof jobs / sizeof jobs[0];

	(void)state;
	for (size_t k = 0; k < count; k++) {
		last_job = k + 1 == count;
		run(jobs[k]);
	}
	print_message(
		"%llu messages; %llu were refused, %llu were as good as the genuine one, %llu "
		"were held against who said them, %llu were believed\n",
		(unsigned long long)(outcomes[REFUSED] + outcomes[GENUINE_TOO] +
				     outcomes[HELD_AGAINST] + outcomes[BELIEVED]),
		(unsigned long long)outcomes[REFUSED], (unsigned long long)outcomes[GENUINE_TOO],
		(unsigned long long)outcomes[HELD_AGAINST], (unsigned long long)outcomes[BELIEVED]);
	if (outcomes[WRONG])
		fail_msg("%llu messages changed what they may not",
			 (unsigned long long)outcomes[WRONG]);
}

/* A kind that is new is in no job here, perhaps, but it is fed all the same; nor is there a row
 * that is not needed. */
static void everything_was_tried(void **state)
{
	(void)state;
	for (uint16_t type = 1; type < TW_TYPES; type++)
		for (uint16_t from = 0; from < TW_ROLES; from++)
			for (uint16_t to = 0; to < TW_ROLES; to++)
				if (tw_may_say(type, from, to, true) && !fed[type][from][to])
					fail_msg("%s of role %u was not fed to role %u",
						 tw_type_name(type), from, to);
	for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
		if (!used[k])
			fail_msg("row %zu of `rows`, of %s, is not needed", k,
				 tw_type_name(rows[k].type));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_refused_changes_nothing),
		cmocka_unit_test(everything_was_tried),
	};

	memory.heap = (struct tw_heap){ memory_get, memory_put };
	for (int k = 0; k < 3; k++)
		memory.at[k] = tw_heap_system.get(&tw_heap_system, ROOM);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
