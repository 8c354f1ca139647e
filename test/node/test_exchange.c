/* SPDX-License-Identifier: Apache-2.0 */
/* test_exchange.c - an exchange alone, over some of a plan's shards: numbers of links, credits,
 * resending, answers, and what a codec that remembers owes, value by value. */
#include "base/refusing.h"
#include "node/every_other.h"
#include "node/exchange.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define SHARDS    4
#define TRAINABLE 13
#define BUFFERS   2
#define TOTAL     (TRAINABLE + BUFFERS)

static const size_t border[SHARDS + 1] = { 0, 3, 8, 12, TOTAL };
/* The holders of the tests: the last has the buffers, too. */
static const uint32_t list[] = { 1, 3 };
#define HOLDERS (sizeof list / sizeof list[0])

/* --- a world that only listens ------------------------------------------------------------ */

static struct tw_msg *said[64];
static size_t says;

static struct tw_msg *new_message(struct tw_context *ctx)
{
	return calloc(1, sizeof(struct tw_msg));
}

static void listen(struct tw_context *ctx, struct tw_msg *m)
{
	assert_true(says < 64);
	said[says++] = m;
}

static void forget_said(void)
{
	for (size_t k = 0; k < says; k++) {
		tw_block_drop(said[k]->payload);
		free(said[k]);
	}
	says = 0;
}

static const struct tw_world world = { .msg_new = new_message, .send = listen };
static struct tw_context ctx = { .world = &world };

/* --- one exchange ------------------------------------------------------------------------- */

struct fixture {
	struct refusing heap;
	struct tw_plan plan;
	struct tw_identity who;
	struct exchange x;
	struct tw_block *vector;
};

static void open_it(struct fixture *f, const struct tw_codec *up)
{
	*f = (struct fixture){
		.heap = REFUSING(0),
		.plan = { .problem = { TRAINABLE, BUFFERS, SHARDS, border, 8, 1 },
			  .crew = { .workers = 2, .servers = 3 },
			  .gate = tw_gate_find("async"),
			  .traffic = { .up = up, .down = tw_codec_find("fp32") } },
		.who = { 1, 7, 5 },
	};
	assert_int_equal(tw_exchange_open(&f->x, &f->heap.heap, &f->plan, &f->who, list, HOLDERS),
			 TW_OK);
	f->vector = tw_block_new(&f->heap.heap, TOTAL * sizeof(float));
}

static void close_it(struct fixture *f)
{
	forget_said();
	tw_block_drop(f->vector);
	tw_exchange_close(&f->x);
	assert_int_equal(f->heap.live, 0);
}

static void place_all(struct fixture *f, uint32_t incarnation)
{
	for (uint32_t k = 0; k < HOLDERS; k++) {
		const struct tw_place p = { list[k], 1 + k, incarnation, 0 };

		assert_true(tw_exchange_place(&f->x, &ctx, &p, NULL));
		f->x.holder[k].base.version.incarnation = incarnation;
	}
}

/* Contribute the values value, value + 1, ... */
static void push(struct fixture *f, float value, struct tw_offer how)
{
	/* what is kept must not change under its keeper */
	if (atomic_load(&f->vector->refs) != 1) {
		tw_block_drop(f->vector);
		f->vector = tw_block_new(&f->heap.heap, TOTAL * sizeof(float));
	}
	for (size_t i = 0; i < TOTAL; i++)
		tw_block_floats(f->vector)[i] = value + (float)i;
	how.vector = f->vector;
	assert_int_equal(tw_exchange_push(&f->x, &ctx, &how), TW_OK);
}

static void ack(struct fixture *f, uint32_t k, uint64_t link, uint32_t unapplied,
		uint32_t incarnation)
{
	tw_exchange_acked(&f->x, &f->x.holder[k], link, unapplied, 0, incarnation);
}

static float owed(const struct fixture *f, uint32_t k, size_t i)
{
	return ((const float *)f->x.holder[k].state)[i];
}

/* What every holder has dropped as late comes back to be computed again; what one has applied does
 * not.  One that did not ask for parameters must do so. */
static void what_was_dropped_is_to_be_done_again(void **state)
{
	struct fixture f;
	const struct tw_body_push body = { .ranges = 2,
					   .account.samples = 7,
					   .range = { { 10, 4, 1 }, { 20, 3, 2 } } };

	open_it(&f, tw_codec_find("fp32"));
	place_all(&f, 1);
	push(&f, 0, (struct tw_offer){ .body = body, .reads = true });
	push(&f, 0, (struct tw_offer){ .body = body });
	for (uint32_t k = 0; k + 1 < HOLDERS; k++)
		tw_exchange_acked(&f.x, &f.x.holder[k], 1, 1, 1, 1);
	assert_int_equal(f.x.agains, 0);
	/* the last one says of both at once, and has applied the second */
	tw_exchange_acked(&f.x, &f.x.holder[HOLDERS - 1], 2, 2, 2, 1);
	assert_int_equal(f.x.agains, 2);
	assert_true(f.x.again[0].from == 10 && f.x.again[1].from == 20);
	assert_false(f.x.outdated);
	f.x.agains = 0;
	for (uint32_t k = 0; k + 1 < HOLDERS; k++)
		tw_exchange_acked(&f.x, &f.x.holder[k], 2, 3, 3, 1);
	assert_int_equal(f.x.outs + f.x.agains, 0);
	assert_true(f.x.outdated);
	/* dropped, but for one that has lost its memory and refuses it */
	f.x.outdated = false;
	push(&f, 0, (struct tw_offer){ .body = body, .reads = true });
	tw_exchange_acked(&f.x, &f.x.holder[0], 3, 1, 0, 1);
	for (uint32_t k = 1; k < HOLDERS; k++)
		tw_exchange_acked(&f.x, &f.x.holder[k], 3, 1, 1, 1);
	assert_int_equal(f.x.agains, 2);
	f.x.agains = 0;
	/* refused is not late */
	push(&f, 0, (struct tw_offer){ .body = body });
	for (uint32_t k = 0; k < HOLDERS; k++)
		tw_exchange_acked(&f.x, &f.x.holder[k], 4, 1, 0, 1);
	assert_int_equal(f.x.outs + f.x.agains, 0);
	assert_false(f.x.outdated);
	close_it(&f);
	(void)state;
}

/* --- links -------------------------------------------------------------------------------- */

/* Only holders of the list are spoken to, each about its own range. */
static void each_holder_gets_its_own_range(void **state)
{
	struct fixture f;

	open_it(&f, tw_codec_find("fp32"));
	assert_false(tw_exchange_place(&f.x, &ctx, &(struct tw_place){ 0, 1, 1, 0 }, NULL));
	assert_null(tw_exchange_find(&f.x, 2));
	assert_ptr_equal(tw_exchange_find(&f.x, 3), &f.x.holder[1]);
	place_all(&f, 1);
	push(&f, 100, (struct tw_offer){ .reads = true });
	assert_int_equal(says, HOLDERS);
	for (size_t k = 0; k < says; k++) {
		const struct tw_msg *m = said[k];
		const size_t s = m->h.shard;

		assert_true(s == 1 || s == 3);
		assert_int_equal(m->to.node, s == 1 ? 1 : 2);
		assert_int_equal(m->h.payload, (border[s + 1] - border[s]) * sizeof(float));
		assert_true(*(const float *)tw_msg_payload(m) == 100.0f + (float)border[s]);
		assert_int_equal(m->h.from, 1);
		assert_int_equal(m->h.incarnation, 7);
		assert_int_equal(m->h.view, 5);
		assert_int_equal(m->h.seq, 1);
		assert_int_equal(m->b.push.link, 1);
	}
	assert_true(said[0]->b.push.number != said[1]->b.push.number);
	close_it(&f);
}

/* Who is left out of a contribution finds no gap, and does not hold up the credit. */
static void links_count_what_they_carry(void **state)
{
	struct fixture f;

	open_it(&f, tw_codec_find("fp32"));
	place_all(&f, 1);
	push(&f, 1, (struct tw_offer){ .first = 1, .count = 1 });
	push(&f, 2, (struct tw_offer){ .count = 0 });
	assert_int_equal(says, 3);
	assert_int_equal(said[0]->h.shard, 3);
	assert_int_equal(said[0]->b.push.link, 1);
	for (size_t k = 1; k < 3; k++) {
		assert_int_equal(said[k]->h.seq, 2);
		assert_int_equal(said[k]->b.push.link, said[k]->h.shard == 3 ? 2 : 1);
	}
	assert_int_equal(tw_exchange_seq_at(&f.x, &f.x.holder[0], 1), 2);
	assert_int_equal(tw_exchange_seq_at(&f.x, &f.x.holder[1], 1), 1);
	ack(&f, 1, 1, 0, 1);
	assert_int_equal(tw_exchange_closed(&f.x), 1);
	ack(&f, 0, 1, 0, 1);
	assert_int_equal(tw_exchange_closed(&f.x), 1);
	ack(&f, 1, 2, 0, 1);
	assert_int_equal(tw_exchange_closed(&f.x), 2);
	assert_int_equal(f.x.outs, 0);
	close_it(&f);
}

/* A push in parts goes to all, and has floats for some. */
static void others_hear_of_a_part(void **state)
{
	struct fixture f;

	open_it(&f, tw_codec_find("fp32"));
	f.plan.traffic.fragments = 3;
	place_all(&f, 1);
	for (uint64_t round = 0; round < 6; round++) {
		const size_t before = says;

		push(&f, 1, (struct tw_offer){ .in_part = true, .body.round = round });
		assert_int_equal(says, before + HOLDERS);
		for (size_t k = before; k < says; k++) {
			const size_t s = said[k]->h.shard;
			const bool mine = s % 3 == round % 3;

			assert_int_equal(said[k]->b.push.link, round + 1);
			assert_int_equal(said[k]->h.payload,
					 mine ? (border[s + 1] - border[s]) * sizeof(float) : 0);
			assert_int_equal(!said[k]->payload, !mine);
		}
		ack(&f, 0, round + 1, 0, 1);
		assert_int_equal(f.x.outs, 1);
		ack(&f, 1, round + 1, 0, 1);
		assert_int_equal(f.x.outs, 0);
	}
	close_it(&f);
}

/* What is withdrawn may be asked for again, and its answer is ignored. */
static void a_withdrawn_request_is_not_answered(void **state)
{
	struct fixture f;

	open_it(&f, tw_codec_find("fp32"));
	place_all(&f, 1);
	push(&f, 1, (struct tw_offer){ .first = 1, .count = 1, .reads = true });
	tw_exchange_pull(&f.x, &ctx, &f.x.holder[0], 5);
	tw_exchange_withdraw(&f.x);
	assert_int_equal(f.x.holder[0].request, TW_REQUEST_NONE);
	assert_int_equal(f.x.holder[1].request, TW_REQUEST_PUSH); /* its contribution is there */
	close_it(&f);
}

static void a_credit_comes_back_when_all_have_closed(void **state)
{
	struct fixture f;

	open_it(&f, tw_codec_find("fp32"));
	place_all(&f, 1);
	push(&f, 1, (struct tw_offer){ .reads = false });
	assert_true(tw_exchange_has_credit(&f.x));
	push(&f, 2, (struct tw_offer){ .reads = false });
	assert_false(tw_exchange_has_credit(&f.x));
	ack(&f, 0, 2, 0, 1);
	assert_false(tw_exchange_has_credit(&f.x));
	ack(&f, 1, 1, 0, 1);
	assert_true(tw_exchange_has_credit(&f.x));
	ack(&f, 1, 1, 0, 1);
	ack(&f, 1, 900, 0, 1); /* no more than was sent */
	assert_int_equal(f.x.holder[1].closed, 2);
	assert_int_equal(f.x.outs, 0);
	push(&f, 3, (struct tw_offer){ .reads = false });
	assert_int_equal(f.x.outs, 1);
	close_it(&f);
}

/* (3): what is open, in order, with the same bytes; then the request. */
static void what_is_open_is_sent_again(void **state)
{
	struct fixture f;
	const uint64_t round = 9;

	open_it(&f, &every_other);
	place_all(&f, 1);
	push(&f, 1, (struct tw_offer){ .reads = false });
	push(&f, 2, (struct tw_offer){ .reads = true });
	assert_int_equal(says, 4);
	ack(&f, 0, 1, 0, 1);
	for (int again = 0; again < 2; again++) {
		tw_exchange_down(&f.x, 1);
		assert_true(tw_exchange_is_down(&f.x, 1) && !tw_exchange_is_down(&f.x, 2));
		tw_exchange_up(&f.x, &ctx, 1, &round);
		assert_false(tw_exchange_is_down(&f.x, UINT32_MAX));
	}
	/* holder 0 waits for the answer to its push: both go again, each time */
	assert_int_equal(says, 4 + 2 * 2);
	for (size_t k = 4; k < says; k++) {
		const struct tw_msg *before = NULL;

		assert_int_equal(said[k]->b.push.link, 1 + k % 2);
		for (size_t i = 0; i < 4; i++)
			if (said[i]->h.shard == 1 && said[i]->h.seq == said[k]->h.seq)
				before = said[i];
		assert_int_equal(said[k]->h.payload, before->h.payload);
		assert_memory_equal(tw_msg_payload(said[k]), tw_msg_payload(before),
				    before->h.payload);
	}
	forget_said();
	ack(&f, 0, 2, 0, 1);
	tw_exchange_up(&f.x, &ctx, 1, &round); /* taken; only the answer was lost */
	for (size_t k = 0; k + 1 < says; k++)
		assert_int_equal(said[k]->h.type, TW_PUSH);
	assert_int_equal(said[says - 1]->h.type, TW_PULL);
	assert_int_equal(said[says - 1]->b.pull.round, 9);
	assert_int_equal(said[says - 1]->b.pull.link, 2);
	assert_int_equal(said[says - 1]->b.pull.number, f.x.holder[0].number);
	forget_said();
	/* the other moves: what is open on its link goes there, and nothing else */
	assert_false(tw_exchange_place(&f.x, &ctx, &(struct tw_place){ 3, 3, 0, 0 }, NULL));
	assert_true(tw_exchange_place(&f.x, &ctx, &(struct tw_place){ 3, 3, 2, 0 }, NULL));
	assert_int_equal(says, 2);
	for (size_t k = 0; k < says; k++) {
		assert_int_equal(said[k]->to.node, 3);
		assert_int_equal(said[k]->b.push.link, 1 + k);
		assert_int_equal(said[k]->b.push.base.incarnation, 1);
	}
	close_it(&f);
}

/* (5) */
static void only_the_newest_request_is_answered(void **state)
{
	struct fixture f;
	struct holder *h;
	struct tw_msg m = { .h = { .type = TW_PARAMS } };

	open_it(&f, tw_codec_find("fp32"));
	h = &f.x.holder[0];
	place_all(&f, 1);
	tw_exchange_pull(&f.x, &ctx, h, 0);
	assert_int_equal(said[0]->h.flags, TW_FLAG_FRESH);
	m.b.params = (struct tw_body_params){ .number = h->number, .version = { 1, 0, 4 } };
	assert_int_equal(tw_exchange_answered(&f.x, h, &m), TW_BAD_BYTES); /* no payload */
	assert_int_equal(h->request, TW_REQUEST_PULL);
	m.payload = tw_block_new(&f.heap.heap, 5 * sizeof(float));
	m.h.payload = 5 * sizeof(float);
	m.b.params.number = h->number + 1;
	assert_int_equal(tw_exchange_answered(&f.x, h, &m), TW_ABSENT);
	m.b.params.number = h->number;
	assert_int_equal(tw_exchange_answered(&f.x, h, &m), TW_OK);
	assert_ptr_equal(h->view, m.payload);
	assert_int_equal(h->seen.version.n, 4);
	assert_int_equal(tw_exchange_answered(&f.x, h, &m), TW_ABSENT);
	assert_false(tw_exchange_has_all(&f.x));
	tw_block_drop(m.payload);
	close_it(&f);
}

/* (6) */
static void a_reset_goes_on_counting_and_a_new_identity_begins_anew(void **state)
{
	struct fixture f;

	open_it(&f, tw_codec_find("fp32"));
	place_all(&f, 1);
	push(&f, 1, (struct tw_offer){ .reads = true });
	push(&f, 2, (struct tw_offer){ .reads = true });
	forget_said();
	tw_exchange_reset(&f.x);
	assert_int_equal(f.x.outs, 0);
	assert_int_equal(f.x.seq, 2);
	tw_exchange_up(&f.x, &ctx, 1, NULL);
	assert_int_equal(says, 0);
	tw_exchange_pull(&f.x, &ctx, &f.x.holder[0], 0);
	assert_int_equal(said[0]->b.pull.link, 2); /* nothing of it comes any more */
	assert_true(said[0]->b.pull.clock == TW_CLOCK_UNKNOWN);
	push(&f, 3, (struct tw_offer){ .reads = false });
	assert_int_equal(said[1]->b.push.link, 3);
	tw_exchange_renew(&f.x);
	forget_said();
	push(&f, 4, (struct tw_offer){ .reads = false });
	assert_int_equal(said[0]->h.seq, 1);
	assert_int_equal(said[0]->b.push.link, 1);
	close_it(&f);
}

/* --- what is owed ------------------------------------------------------------------------- */

/* (7), on holder 0, whose values of the vector are those at 3..7.  Two contributions are under way:
 * the first sends values 0, 2, 4 of the slice, the second 1 and 3. */
static void open_with_two(struct fixture *f)
{
	open_it(f, &every_other);
	place_all(f, 1);
	push(f, 10, (struct tw_offer){ .reads = false });
	push(f, 20, (struct tw_offer){ .reads = false });
	assert_true(tw_exchange_owes(&f->x));
	/* 13, 14 ... 17 and 23, 24 ... 27 */
	for (size_t i = 0; i < 5; i++)
		assert_true(owed(f, 0, i) == (i % 2 ? 0.0f : 23.0f + (float)i));
}

static void what_is_applied_is_owed_no_more(void **state)
{
	struct fixture f;

	open_with_two(&f);
	ack(&f, 0, 2, 0, 1);
	for (size_t i = 0; i < 5; i++)
		assert_true(owed(&f, 0, i) == (i % 2 ? 0.0f : 23.0f + (float)i));
	close_it(&f);
}

/* Refused or late: as if the gradient had never been, although a later one is encoded. */
static void what_is_refused_never_was(void **state)
{
	struct fixture f;

	open_with_two(&f);
	ack(&f, 0, 1, 1, 1);
	for (size_t i = 0; i < 5; i++) /* the second took along what the first owed */
		assert_true(owed(&f, 0, i) == (i % 2 ? -13.0f - (float)i : 23.0f + (float)i));
	ack(&f, 0, 1, 1, 1); /* said twice, understood once */
	ack(&f, 0, 2, 3, 1); /* bit 1 is the first once more */
	for (size_t i = 0; i < 5; i++)
		assert_true(owed(&f, 0, i) == 0.0f);
	close_it(&f);
}

/* The answer that said so was lost: a later one says it again. */
static void a_lost_answer_loses_nothing(void **state)
{
	struct fixture f;

	open_with_two(&f);
	ack(&f, 0, 2, 2, 1); /* the first was not applied, the second was */
	for (size_t i = 0; i < 5; i++)
		assert_true(owed(&f, 0, i) == (i % 2 ? -13.0f - (float)i : 23.0f + (float)i));
	close_it(&f);
}

/* (4): the holder lost its memory; the samples are done with, so the slice is owed whole. */
static void a_new_incarnation_gets_it_later(void **state)
{
	struct fixture f;

	open_with_two(&f);
	ack(&f, 0, 2, 3, 2);
	for (size_t i = 0; i < 5; i++)
		assert_true(owed(&f, 0, i) == 36.0f + 2.0f * (float)i);
	for (size_t i = 0; i < 1; i++) /* the other holder's link is not touched: 22, 32 */
		assert_true(owed(&f, 1, i) == 32.0f);
	close_it(&f);
}

/* A new generation: open contributions never were, closed ones stay. */
static void a_reset_returns_what_is_open(void **state)
{
	struct fixture f;

	open_with_two(&f);
	ack(&f, 0, 1, 0, 1);
	tw_exchange_reset(&f.x);
	for (size_t i = 0; i < 5; i++)
		assert_true(owed(&f, 0, i) == (i % 2 ? 13.0f + (float)i : 0.0f));
	tw_exchange_renew(&f.x);
	assert_false(tw_exchange_owes(&f.x));
	close_it(&f);
}

/* Everything at once, as floats, whatever the codec is; if it is not taken it is owed again. */
/* Without a codec that remembers: what is returned to the sender's own parameters. */
static void open_elastic(struct fixture *f, const struct tw_codec *up)
{
	open_it(f, up);
	tw_exchange_close(&f->x);
	f->plan.traffic.merge = TW_MERGE_ELASTIC;
	assert_int_equal(tw_exchange_open(&f->x, &f->heap.heap, &f->plan, &f->who, list, HOLDERS),
			 TW_OK);
	place_all(f, 4);
}

/* Are the trainable values of these holders' ranges `value`, `value` + 1, ..., times this, and all
 * others 0? */
static bool came_back(const struct fixture *f, uint32_t holders, float value, float times)
{
	for (size_t i = 0; i < TOTAL; i++) {
		float want = 0;

		for (uint32_t k = 0; k < HOLDERS; k++)
			if ((holders >> k & 1) && i >= border[list[k]] && i < border[list[k] + 1] &&
			    i < TRAINABLE)
				want = times * (value + (float)i);
		if (f->x.returned[i] != want)
			return false;
	}
	return f->x.has_returned == (holders && times != 0.0f);
}

static void what_was_given_away_comes_back(void **state)
{
	struct fixture f;

	open_elastic(&f, tw_codec_find("fp32"));
	push(&f, 2, (struct tw_offer){ .skips = false });
	ack(&f, 0, 1, 0, 4); /* applied */
	assert_true(came_back(&f, 0, 2, 0));
	ack(&f, 1, 1, 1, 4); /* refused, or late */
	assert_true(came_back(&f, 2, 2, 1));
	ack(&f, 1, 1, 1, 4); /* said twice */
	assert_true(came_back(&f, 2, 2, 1));
	push(&f, 2, (struct tw_offer){ .skips = false });
	ack(&f, 0, 2, 1, 5); /* the shard has lost it */
	ack(&f, 1, 2, 1, 5);
	assert_true(f.x.returned[5] == 7 && f.x.returned[12] == 28);
	tw_exchange_renew(&f.x); /* somebody else: nothing was its own */
	assert_true(came_back(&f, 0, 2, 0));
	close_it(&f);

	/* a new generation: what is open never was */
	open_elastic(&f, tw_codec_find("fp16"));
	push(&f, 3, (struct tw_offer){ .skips = false });
	tw_exchange_reset(&f.x);
	assert_true(came_back(&f, 3, 3, 1));
	close_it(&f);

	/* what is not finite was not taken from the parameters */
	open_elastic(&f, tw_codec_find("fp32"));
	push(&f, INFINITY, (struct tw_offer){ .skips = false });
	ack(&f, 0, 1, 1, 4);
	ack(&f, 1, 1, 1, 4);
	assert_true(came_back(&f, 0, 0, 0));
	close_it(&f);

	/* what the codec owes from now on is not the worker's any more */
	open_elastic(&f, &every_other);
	push(&f, 2, (struct tw_offer){ .skips = false });
	ack(&f, 0, 1, 1, 4); /* refused: it never was, and nothing is owed */
	assert_true(came_back(&f, 1, 2, 1));
	ack(&f, 1, 1, 1, 5); /* a new incarnation gets it later */
	assert_true(came_back(&f, 1, 2, 1));
	close_it(&f);
}

static void a_plain_push_takes_everything_along(void **state)
{
	struct fixture f;
	const float *v;

	open_with_two(&f);
	ack(&f, 0, 2, 0, 1);
	ack(&f, 1, 2, 0, 1);
	forget_said();
	push(&f, 30, (struct tw_offer){ .plain = true });
	assert_false(tw_exchange_owes(&f.x));
	for (size_t k = 0; k < says; k++) {
		assert_true(said[k]->h.flags & TW_FLAG_PLAIN);
		if (said[k]->h.shard != 1)
			continue;
		assert_int_equal(said[k]->h.payload, 5 * sizeof(float));
		v = (const float *)tw_msg_payload(said[k]);
		for (size_t i = 0; i < 5; i++)
			assert_true(v[i] == 33.0f + (float)i + (i % 2 ? 0.0f : 23.0f + (float)i));
	}
	ack(&f, 0, 3, 1, 1);
	for (size_t i = 0; i < 5; i++)
		assert_true(owed(&f, 0, i) == (i % 2 ? 0.0f : 23.0f + (float)i));
	close_it(&f);
}

/* It would be owed for good: it goes as it is, to be refused. */
static void what_is_not_finite_is_never_owed(void **state)
{
	struct fixture f;

	open_it(&f, &every_other);
	place_all(&f, 1);
	push(&f, NAN, (struct tw_offer){ .reads = false });
	assert_false(tw_exchange_owes(&f.x));
	assert_true(said[0]->h.flags & TW_FLAG_PLAIN);
	ack(&f, 0, 1, 1, 1);
	ack(&f, 1, 1, 1, 2);
	assert_false(tw_exchange_owes(&f.x));
	close_it(&f);
}

/* Finite gradients whose sum is not: refused, and begun anew. */
static void a_debt_beyond_all_numbers_is_cancelled(void **state)
{
	struct fixture f;

	open_it(&f, &every_other);
	place_all(&f, 1);
	push(&f, 3e38f, (struct tw_offer){ .reads = false });
	push(&f, 3e38f, (struct tw_offer){ .reads = false }); /* value 1 is twice that now */
	ack(&f, 0, 1, 0, 1);
	ack(&f, 1, 1, 0, 1);
	ack(&f, 0, 2, 1, 1);
	for (size_t i = 0; i < 5; i++)
		assert_true(owed(&f, 0, i) == 0.0f);
	close_it(&f);
}

/* --- in a checkpoint ---------------------------------------------------------------------- */

static struct tw_block *packed(struct fixture *f)
{
	struct tw_array arrays[1 + HOLDERS];
	struct tw_block *b;
	size_t count = 0;
	float *room;

	assert_int_equal(tw_exchange_pack(&f->x, arrays, &count, &room), TW_OK);
	b = tw_part_pack(&f->heap.heap, arrays, count);
	f->heap.heap.put(&f->heap.heap, room);
	return b;
}

static enum tw_status restored(struct fixture *f, const struct tw_block *b)
{
	struct tw_array *arrays;
	enum tw_status st;
	size_t count;

	assert_int_equal(tw_part_unpack(b->data, b->bytes, &f->heap.heap, &arrays, &count), TW_OK);
	st = tw_exchange_restore(&f->x, arrays, count);
	f->heap.heap.put(&f->heap.heap, arrays);
	return st;
}

/* The next push of one that was restored has the same bytes as that of one that went on. */
static void what_is_owed_survives(void **state)
{
	struct fixture f, g;
	struct tw_block *part;
	struct tw_msg *one, *other;

	open_it(&f, &every_other);
	open_it(&g, &every_other);
	place_all(&f, 1);
	place_all(&g, 1);
	push(&f, 10, (struct tw_offer){ .reads = false });
	ack(&f, 0, 1, 0, 1);
	ack(&f, 1, 1, 0, 1);
	part = packed(&f);
	assert_int_equal(restored(&g, part), TW_OK);
	forget_said();
	push(&f, 20, (struct tw_offer){ .reads = false });
	push(&g, 20, (struct tw_offer){ .reads = false });
	assert_int_equal(says, 2 * HOLDERS);
	for (size_t k = 0; k < HOLDERS; k++) {
		one = said[k];
		other = said[HOLDERS + k];
		assert_int_equal(one->h.shard, other->h.shard);
		assert_int_equal(one->h.payload, other->h.payload);
		assert_memory_equal(tw_msg_payload(one), tw_msg_payload(other), one->h.payload);
	}
	forget_said();
	tw_block_drop(part);
	close_it(&g);
	close_it(&f);
}

/* The residual belongs to parameters, not to whoever held them then. */
static void borders_may_be_others(void **state)
{
	static const size_t moved[SHARDS + 1] = { 0, 2, 5, 10, TOTAL };
	struct fixture f, g;
	struct tw_block *part;

	open_it(&f, &every_other);
	open_it(&g, &every_other);
	tw_exchange_close(&g.x);
	g.plan.problem.border = moved;
	assert_int_equal(tw_exchange_open(&g.x, &g.heap.heap, &g.plan, &g.who, list, HOLDERS),
			 TW_OK);
	for (uint32_t k = 0; k < HOLDERS; k++)
		for (size_t i = 0; i < f.x.holder[k].range.trainable; i++)
			((float *)f.x.holder[k].state)[i] = 1.0f + (float)(border[list[k]] + i);
	part = packed(&f);
	assert_int_equal(restored(&g, part), TW_OK);
	for (size_t i = 0; i < 3; i++) /* parameters 2, 3, 4: nobody of f's list held 2 */
		assert_true(owed(&g, 0, i) == (i ? 3.0f + (float)i : 0.0f));
	for (size_t i = 0; i < 3; i++) /* 10, 11, 12: nobody of f's list held the first two */
		assert_true(owed(&g, 1, i) == (i < 2 ? 0.0f : 13.0f));
	tw_block_drop(part);
	close_it(&g);
	close_it(&f);
}

static void a_malformed_part_is_refused(void **state)
{
	static float values[TRAINABLE];
	const struct tw_array good = {
		.name = "residual", .n = TRAINABLE, .kind = TW_FLOATS, .at = values
	};
	struct tw_array a = good;
	struct fixture f;

	open_it(&f, &every_other);
	assert_int_equal(tw_exchange_restore(&f.x, &a, 1), TW_OK);
	assert_int_equal(tw_exchange_restore(&f.x, &a, 0), TW_BAD_BYTES);
	a.n--;
	assert_int_equal(tw_exchange_restore(&f.x, &a, 1), TW_BAD_BYTES);
	a = good;
	a.kind = TW_BYTES;
	assert_int_equal(tw_exchange_restore(&f.x, &a, 1), TW_BAD_BYTES);
	a = good;
	values[TRAINABLE - 1] = INFINITY;
	assert_int_equal(tw_exchange_restore(&f.x, &a, 1), TW_BAD_BYTES);
	close_it(&f);
}

/* --- memory ------------------------------------------------------------------------------- */

static void every_allocation_may_fail(void **state)
{
	for (unsigned nth = 1;; nth++) {
		struct fixture f;
		enum tw_status st;

		open_it(&f, &every_other);
		tw_exchange_close(&f.x);
		f.heap.calls = 0;
		f.heap.refuse = nth;
		st = tw_exchange_open(&f.x, &f.heap.heap, &f.plan, &f.who, list, HOLDERS);
		f.heap.refuse = 0;
		close_it(&f);
		if (st == TW_OK) {
			assert_true(nth > 4);
			return;
		}
		assert_int_equal(st, TW_NO_MEMORY);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_holder_gets_its_own_range),
		cmocka_unit_test(links_count_what_they_carry),
		cmocka_unit_test(others_hear_of_a_part),
		cmocka_unit_test(a_withdrawn_request_is_not_answered),
		cmocka_unit_test(a_credit_comes_back_when_all_have_closed),
		cmocka_unit_test(what_is_open_is_sent_again),
		cmocka_unit_test(only_the_newest_request_is_answered),
		cmocka_unit_test(a_reset_goes_on_counting_and_a_new_identity_begins_anew),
		cmocka_unit_test(what_is_applied_is_owed_no_more),
		cmocka_unit_test(what_is_refused_never_was),
		cmocka_unit_test(a_lost_answer_loses_nothing),
		cmocka_unit_test(a_new_incarnation_gets_it_later),
		cmocka_unit_test(a_reset_returns_what_is_open),
		cmocka_unit_test(what_was_given_away_comes_back),
		cmocka_unit_test(a_plain_push_takes_everything_along),
		cmocka_unit_test(what_is_not_finite_is_never_owed),
		cmocka_unit_test(a_debt_beyond_all_numbers_is_cancelled),
		cmocka_unit_test(what_is_owed_survives),
		cmocka_unit_test(borders_may_be_others),
		cmocka_unit_test(a_malformed_part_is_refused),
		cmocka_unit_test(every_allocation_may_fail),
		cmocka_unit_test(what_was_dropped_is_to_be_done_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
