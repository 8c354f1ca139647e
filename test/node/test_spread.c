/* SPDX-License-Identifier: Apache-2.0 */
/* test_spread.c - what replicas that differ tell each other, in every order of events.
 *
 * A few shards, the formations that the master sends and the pushes of their workers are run in all
 * orders that links allow: messages between two shards arrive in the order in which they were sent,
 * and everything else may happen at any time.  States that were seen before are not looked at
 * again.  In the end all replicas are settled, each contribution is in all of them once, and
 * nothing is lost in exchanges of parameters. */
#include "node/duty/mix/mix_state.h"
#include "node/lone_shard.h"
#include "strategy/mixing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <cmocka.h>

#define PEERS 3
#define DEPTH 200
#define MAIL  64
#define DIM   10

/* What is on its way from one to another, oldest first. */
struct link {
	struct tw_msg at[MAIL];
	uint32_t first, end;
};

static struct {
	const struct tw_mixing *mixing;
	uint32_t peers, pushes[PEERS]; /* pushes: each worker makes so many */
	uint32_t gone;                 /* dies when everything else has happened; PEERS: nobody */
	bool breaks;                   /* a connection may break once, with what is on it */
	struct lone_shard shard[PEERS];
	struct link link[PEERS][PEERS];
	uint32_t formed[PEERS], pushed[PEERS], settles[PEERS], have[PEERS];
	bool broken;
	struct tw_block *payload;
} w;

/* --- the world -----------------------------------------------------------------------------*/

static uint32_t index_of(const struct lone_shard *l)
{
	return (uint32_t)(l - w.shard);
}

static void sent(struct lone_shard *l, const struct tw_msg *m)
{
	const uint32_t from = index_of(l);
	struct link *k;
	uint32_t to;

	if (m->h.type == TW_HAVE)
		w.have[from]++;
	if (m->to.role != TW_SHARD)
		return;
	to = m->to.node - LONE_WORKER(0);
	assert_true(to < w.peers && to != from);
	k = &w.link[from][to];
	assert_true(k->end < MAIL);
	k->at[k->end] = *m;
	k->at[k->end].from = l->ctx.self;
	k->at[k->end].tail = tw_block_keep(m->tail);
	k->at[k->end++].payload = tw_block_keep(m->payload);
}

static struct tw_member member_of(uint32_t k)
{
	return (struct tw_member){ k, LONE_INCARNATION(k + 1), TW_LIVE, LONE_WORKER(k) };
}

static void form(uint32_t to, enum tw_form_what what, uint32_t attempt)
{
	struct lone_shard *l = &w.shard[to];
	struct tw_msg m = lone_from_master(l, TW_FORM);
	struct tw_member *tail;
	uint32_t count = 0;

	m.b.form = (struct tw_body_form){ 0, attempt, what };
	m.tail = tw_block_new(&tw_heap_system, w.peers * sizeof *tail);
	tail = (void *)m.tail->data;
	for (uint32_t k = 0; k < w.peers; k++)
		if (what != TW_FORM_SETTLE || k != w.gone)
			tail[count++] = member_of(k);
	m.h.tail = (uint32_t)(count * sizeof *tail);
	lone_say(l, &m);
	tw_block_drop(m.tail);
}

static void open_world(void)
{
	for (uint32_t k = 0; k < w.peers; k++) {
		struct lone_shard *l = &w.shard[k];
		const struct tw_member own = member_of(k);
		const struct tw_topology mixes = { tw_reduction_all[0], w.mixing };

		lone_open_replica(l, &tw_heap_system, "async", w.peers, &mixes);
		l->plan.plan.crew.servers = 1;
		l->ctx.self.node = LONE_WORKER(k);
		l->plan.plan.schedule.rate = 1.0;
		l->sent = sent;
		lone_view(l, &own, 1, true);
		for (size_t i = 0; i < DIM; i++)
			tw_block_floats(l->shard->slice.w)[i] = (float)(64 * k + i);
	}
	memset(w.link, 0, sizeof w.link);
	memset(w.formed, 0, sizeof w.formed);
	memset(w.pushed, 0, sizeof w.pushed);
	memset(w.settles, 0, sizeof w.settles);
	memset(w.have, 0, sizeof w.have);
	w.broken = false;
}

static void empty(struct link *k)
{
	for (; k->first < k->end; k->first++) {
		tw_block_drop(k->at[k->first].tail);
		tw_block_drop(k->at[k->first].payload);
	}
}

static void close_world(void)
{
	for (uint32_t k = 0; k < w.peers; k++) {
		for (uint32_t i = 0; i < w.peers; i++)
			empty(&w.link[k][i]);
		lone_close(&w.shard[k]);
	}
}

/* --- events --------------------------------------------------------------------------------*/

static bool worked(void)
{
	for (uint32_t k = 0; k < w.peers; k++)
		if (!w.formed[k] || w.pushed[k] < w.pushes[k])
			return false;
	return true;
}

static void push(uint32_t k)
{
	struct lone_shard *l = &w.shard[k];
	struct tw_msg m = lone_push(l, k, LONE_INCARNATION(k + 1), ++w.pushed[k], w.payload);

	m.from.node = LONE_WORKER(k);
	m.b.push.range[0].from = 100 * k + w.pushed[k];
	lone_say(l, &m);
}

static void deliver(struct link *k, uint32_t to)
{
	struct tw_msg *m = &k->at[k->first++];

	lone_say(&w.shard[to], m);
	tw_block_drop(m->tail);
	tw_block_drop(m->payload);
}

/* Both ends hear that the connection is there again. */
static void break_link(uint32_t a, uint32_t b)
{
	empty(&w.link[a][b]);
	empty(&w.link[b][a]);
	w.broken = true;
	tw_shard_class.up((struct tw_actor *)w.shard[a].shard, &w.shard[a].ctx, LONE_WORKER(b), 1);
	tw_shard_class.up((struct tw_actor *)w.shard[b].shard, &w.shard[b].ctx, LONE_WORKER(a), 1);
}

/* What may happen now; with `choice` below the number of these, it does. */
static uint32_t events(uint32_t choice)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < w.peers; k++) {
		const bool dead = k == w.gone && worked();

		if (!w.formed[k] && n++ == choice) {
			w.formed[k]++;
			form(k, TW_FORM_SPREAD, 1);
		} else if (w.pushed[k] < w.pushes[k] && n++ == choice) {
			push(k);
		} else if (worked() && !dead && !w.settles[k] && n++ == choice) {
			w.settles[k]++;
			form(k, TW_FORM_SETTLE, 2);
		}
		for (uint32_t i = 0; i < w.peers; i++) {
			struct link *l = &w.link[i][k];

			if (!dead && l->first < l->end && n++ == choice)
				deliver(l, k);
			if (w.breaks && !w.broken && i < k && l->first < l->end && n++ == choice)
				break_link(i, k);
		}
	}
	return n;
}

/* --- states --------------------------------------------------------------------------------*/

static uint64_t mix_in(uint64_t h, const void *bytes, size_t n)
{
	return XXH3_64bits_withSeed(bytes, n, h);
}

static uint64_t state_of(void)
{
	uint64_t h = w.broken;

	for (uint32_t k = 0; k < w.peers; k++) {
		const struct mix_shard *p = w.shard[k].shard->mix;
		const uint64_t counts[] = { w.formed[k],
					    w.pushed[k],
					    w.settles[k],
					    w.have[k],
					    p->count,
					    p->first,
					    p->settled,
					    p->open.asked != NULL,
					    p->open.number,
					    w.shard[k].shard->slice.tally.contributions,
					    w.shard[k].shard->early.count };

		h = mix_in(h, counts, sizeof counts);
		h = mix_in(h, w.shard[k].shard->slice.w->data, DIM * sizeof(float));
		for (uint32_t i = 0; i < w.peers; i++) {
			const struct link *l = &w.link[k][i];

			if (p->peer) {
				const uint64_t of[] = { p->peer[i].heard, p->peer[i].confirmed,
							p->peer[i].unsaid, p->peer[i].answered };

				h = mix_in(h, of, sizeof of);
			}
			for (uint32_t m = l->first; m < l->end; m++) {
				const struct tw_msg *x = &l->at[m];
				const uint64_t what[] = { x->h.type,         x->h.seq,
							  x->b.push.link,    x->b.push.number,
							  x->b.heard.number, x->b.heard.again,
							  x->b.mix.number,   x->b.mix.answer };

				h = mix_in(h, what, sizeof what);
				if (x->payload)
					h = mix_in(h, tw_msg_payload(x), x->h.payload);
			}
			h = h * 31 + 7;
		}
	}
	return h;
}

static struct {
	uint64_t *at;
	size_t room, count;
} seen;

static bool seen_before(uint64_t h)
{
	size_t k;

	if (2 * seen.count >= seen.room) {
		uint64_t *old = seen.at;
		const size_t before = seen.room;

		seen.room = before ? 2 * before : 1 << 16;
		seen.at = calloc(seen.room, sizeof *seen.at);
		seen.count = 0;
		for (size_t i = 0; i < before; i++)
			if (old[i])
				seen_before(old[i]);
		free(old);
	}
	h += !h;
	for (k = h % seen.room; seen.at[k]; k = (k + 1) % seen.room)
		if (seen.at[k] == h)
			return true;
	seen.at[k] = h;
	seen.count++;
	return false;
}

/* --- the end -------------------------------------------------------------------------------*/

static uint8_t path[DEPTH];

static void check_end(uint32_t depth)
{
	const bool spreads = w.mixing->traits & TW_MIXING_SPREADS;
	uint64_t all = 0;

	for (uint32_t k = 0; k < w.peers; k++)
		all += w.pushes[k];
	for (uint32_t k = 0; k < w.peers; k++) {
		const struct shard *s = w.shard[k].shard;

		if (k == w.gone)
			continue;
		if (!s->mix->settled || s->mix->count || s->mix->open.asked || !w.have[k])
			fail_msg("replica %u of %u waits for ever after %u events (%s)", k, w.peers,
				 depth, w.mixing->name);
		if (w.gone == PEERS) { /* else it has what the dead one told it */
			assert_int_equal(s->slice.tally.contributions, all);
			assert_int_equal(tw_spans_total(&s->slice.history.applied), all);
		}
		assert_int_equal(s->slice.tally.refused, 0);
	}
	for (size_t i = 0; i < DIM && w.gone == PEERS; i++) {
		double sum = 0, begun = 0;

		for (uint32_t k = 0; k < w.peers; k++) {
			sum += (double)tw_block_floats(w.shard[k].shard->slice.w)[i];
			begun += 64 * k + (double)i;
		}
		/* each contribution is -1, at a rate of 1: of one replica, or of all */
		if (sum != begun + (double)all * (spreads ? w.peers : 1))
			fail_msg("%g, and not %g, after %u events (%s)", sum,
				 begun + (double)all * (spreads ? w.peers : 1), depth,
				 w.mixing->name);
	}
}

/* Three replicas know each other already: there would be too many orders. */
static void greet(void)
{
	for (uint32_t k = 0; k < w.peers; k++) {
		w.formed[k]++;
		form(k, TW_FORM_SPREAD, 1);
	}
	for (bool some = true; some;) {
		some = false;
		for (uint32_t k = 0; k < w.peers; k++)
			for (uint32_t i = 0; i < w.peers; i++)
				if (w.link[i][k].first < w.link[i][k].end) {
					deliver(&w.link[i][k], k);
					some = true;
				}
	}
}

/* Everything that can follow the first `depth` events of the path. */
static void explore(uint32_t depth)
{
	uint32_t count;

	assert_true(depth < DEPTH);
	open_world();
	if (w.peers > 2)
		greet();
	for (uint32_t k = 0; k < depth; k++)
		events(path[k]);
	count = events(UINT32_MAX);
	if (!count)
		check_end(depth);
	if (!count || seen_before(state_of())) {
		close_world();
		return;
	}
	close_world();
	for (uint32_t k = 0; k < count; k++) {
		path[depth] = (uint8_t)k;
		explore(depth + 1);
	}
}

static void in_all_orders(const struct tw_mixing *m, uint32_t peers, const uint32_t *pushes,
			  uint32_t gone, bool breaks)
{
	seen.count = 0;
	memset(seen.at, 0, seen.room * sizeof *seen.at);
	w.mixing = m;
	w.peers = peers;
	w.gone = gone;
	w.breaks = breaks;
	memcpy(w.pushes, pushes, sizeof w.pushes);
	explore(0);
	printf("%s: %u replicas, %u+%u+%u pushes%s%s: %zu states\n", m->name, peers, pushes[0],
	       pushes[1], peers > 2 ? pushes[2] : 0, gone < PEERS ? ", one dies" : "",
	       breaks ? ", a connection breaks" : "", seen.count);
	fflush(stdout);
	assert_true(seen.count > 10);
}

static void replicas_settle_in_every_order(void **state)
{
	static const uint32_t pushes[][PEERS] = { { 1, 1, 0 }, { 2, 1, 0 } };
	static const uint32_t three[PEERS] = { 1, 0, 0 };

	(void)state;
	seen.room = 1 << 16;
	seen.at = calloc(seen.room, sizeof *seen.at);
	w.payload = tw_block_new(&tw_heap_system, DIM * sizeof(float));
	for (size_t i = 0; i < DIM; i++)
		tw_block_floats(w.payload)[i] = -1.0f;
	for (size_t k = 0; tw_mixing_all[k]; k++) {
		if (tw_mixing_all[k]->round)
			continue;
		for (size_t c = 0; c < sizeof pushes / sizeof pushes[0]; c++)
			in_all_orders(tw_mixing_all[k], 2, pushes[c], PEERS, false);
		in_all_orders(tw_mixing_all[k], 2, pushes[0], PEERS, true);
		in_all_orders(tw_mixing_all[k], 3, three, PEERS, false);
		in_all_orders(tw_mixing_all[k], 3, three, 2, false);
		in_all_orders(tw_mixing_all[k], 3, three, 1, false);
	}
	tw_block_drop(w.payload);
	free(seen.at);
}

/* Since when it waits, whoever looks and however long the process has been there. */
static int64_t waits_since(const struct lone_shard *l)
{
	struct tw_wait wait = { .since = -1 };

	return tw_shard_class.waiting((const struct tw_actor *)l->shard, &wait) ? wait.since : -1;
}

static void who_waits_says_since_when(void **state)
{
	struct lone_shard *l = &w.shard[0];

	(void)state;
	w.payload = tw_block_new(&tw_heap_system, DIM * sizeof(float));
	memset(w.payload->data, 0, DIM * sizeof(float));
	w.peers = 2;
	w.gone = PEERS;
	for (size_t k = 0; tw_mixing_all[k]; k++) {
		if (tw_mixing_all[k]->round)
			continue;
		w.mixing = tw_mixing_all[k];
		open_world();
		l->now = 1000;
		form(0, TW_FORM_SPREAD, 1);
		for (; w.pushed[0] < 31; l->now++)
			push(0);
		assert_int_equal(waits_since(l), -1);
		l->now = 2000;
		push(0);
		l->now = 3000;
		push(0);
		assert_int_equal(waits_since(l), 2000);
		form(0, TW_FORM_SETTLE, 2);
		l->now = 4000;
		assert_int_equal(waits_since(l), 3000);
		form(0, TW_FORM_PARAMETERS, 3);
		l->shard->mix->settled = true; /* as if the other had confirmed all */
		l->now = 5000;
		assert_int_equal(waits_since(l), 4000);
		close_world();
	}
	tw_block_drop(w.payload);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replicas_settle_in_every_order),
		cmocka_unit_test(who_waits_says_since_when),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
