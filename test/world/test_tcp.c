/* SPDX-License-Identifier: Apache-2.0 */
/* test_tcp.c - the world tcp with small actors: order, news, cuts, refusals, memory. */
/* labels: threads waits */
#include "base/refusing.h"
#include "world/tcp_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#define MESSAGES 60
#define LONG     (600u << 10) /* three frames */

static struct tw_addr the_shard(void)
{
	return fake_addr(1, TW_SHARD, 0);
}

/* --- messages arrive whole and in their order ------------------------------------------------- */

static uint32_t length_of(uint64_t seq)
{
	return seq % 10 == 0 ? LONG : (uint32_t)(seq % 3 * 100);
}

static void push(struct tw_context *ctx, uint64_t seq)
{
	struct tw_msg *m = tw_msg_to(ctx, the_shard(), TW_PUSH);

	if (!m)
		return;
	m->h.seq = seq;
	m->h.payload = length_of(seq);
	m->payload = tw_block_new(ctx->heap, m->h.payload + 1);
	if (!m->payload) {
		ctx->world->msg_free(ctx, m);
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a payload");
		return;
	}
	for (uint32_t k = 0; k < m->h.payload; k++)
		m->payload->data[k] = (uint8_t)(seq * 7 + k / 1000);
	tw_send(ctx, m);
}

static bool intact(const struct tw_msg *m)
{
	if (m->h.payload != length_of(m->h.seq))
		return false;
	for (uint32_t k = 0; k < m->h.payload; k++)
		if (tw_msg_payload(m)[k] != (uint8_t)(m->h.seq * 7 + k / 1000))
			return false;
	return true;
}

static void pushes_all(struct tw_context *ctx)
{
	for (uint64_t seq = 1; seq <= MESSAGES; seq++)
		push(ctx, seq);
}

/* Where the master is, shards hear only whom it has welcomed. */
static void welcomes(struct tw_actor *a, struct tw_context *ctx, uint32_t node, uint32_t boot)
{
	const struct tw_member one = { .slot = 0, .state = TW_LIVE, .node = node };

	witness_up(a, ctx, node, boot);
	tw_members(ctx, &one, 1);
	fake_send(ctx, fake_addr(node, TW_WORKER, 0), TW_WELCOME, 0, 0);
}

static void takes_in_order(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct witness *w = witness_of(a);

	if (++w->count != m->h.seq || !intact(m))
		w->wrong++;
	if (m->h.seq == 1)
		witness_says(w, "first from %u\n", m->from.node);
	fake_send(ctx, m->from, TW_ACK, m->h.seq, 0);
}

static void done_after_all(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct witness *w = witness_of(a);

	if (m->h.type == TW_WELCOME) {
		pushes_all(ctx);
		return;
	}
	if (++w->count != m->h.seq || m->h.type != TW_ACK || m->from.node != 1)
		w->wrong++;
	if (w->count == MESSAGES)
		fake_send(ctx, fake_addr(0, TW_MASTER, 0), TW_DONE, 0, 0);
}

static void messages_keep_their_order(void **state)
{
	struct refusing heap = REFUSING(0), other = REFUSING(0);
	struct party serve, worker;
	char news[100];

	party_serve(&serve, &heap.heap);
	serve.master.fake.message = ends_at_done;
	serve.master.fake.up = welcomes;
	serve.shard.fake.message = takes_in_order;
	party_run(&serve);
	party_worker(&worker, &other.heap, party_port(&serve));
	worker.worker.fake.message = done_after_all;
	party_run(&worker);
	assert_int_equal(tw_tcp_node(worker.t), KIT_WORKER(1));
	party_join(&worker);
	assert_string_equal(tw_tcp_heard(worker.t), "{}");
	party_close(&worker); /* the master waits for those who have not closed */
	party_join(&serve);
	assert_int_equal(serve.status, TW_OK);
	assert_int_equal(worker.status, TW_OK);
	assert_int_equal(serve.shard.count, MESSAGES);
	assert_int_equal(worker.worker.count, MESSAGES);
	assert_int_equal(serve.shard.wrong + worker.worker.wrong, 0);
	/* of a node one hears before one hears it */
	snprintf(news, sizeof news, "up %u 1\nfirst from %u\n", KIT_WORKER(1), KIT_WORKER(1));
	assert_string_equal(serve.shard.events, news);
	snprintf(news, sizeof news, "up %u 1\n", KIT_WORKER(1));
	assert_string_equal(serve.master.events, news);
	party_close(&serve);
	assert_int_equal(heap.live, 0);
	assert_int_equal(other.live, 0);
}

/* --- a connection that is cut is made anew, and everybody is told ----------------------------- */

#define CUTS   3
#define ROUNDS 200

static void answers(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct witness *w = witness_of(a);

	if (!intact(m) || (m->h.seq != w->count && m->h.seq != w->count + 1))
		w->wrong++;
	w->count = m->h.seq;
	fake_send(ctx, m->from, TW_ACK, m->h.seq, 0);
}

static void talks_on(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct witness *w = witness_of(a);

	if (m->h.type == TW_WELCOME) { /* it is said again after a cut */
		if (w->count == 0)
			push(ctx, 1);
		return;
	}
	if (m->h.seq != w->count + 1) {
		w->wrong += m->h.seq != w->count; /* an answer may come twice */
		return;
	}
	w->count++;
	if (w->count < ROUNDS * (CUTS + 1))
		push(ctx, w->count + 1);
	else
		fake_send(ctx, fake_addr(0, TW_MASTER, 0), TW_DONE, 0, 0);
}

static void says_again(struct tw_actor *a, struct tw_context *ctx, uint32_t node, uint32_t boot)
{
	witness_up(a, ctx, node, boot);
	if (node == 1)
		push(ctx, witness_of(a)->count + 1);
}

static void await_count(struct witness *w, uint64_t least)
{
	for (int k = 0; k < 10000 && w->count < least; k++)
		nanosleep(&(struct timespec){ .tv_nsec = MS }, NULL);
}

static void cuts_are_mended(void **state)
{
	struct party serve, worker;
	struct relay relay;
	char news[400] = "", one[100];

	party_serve(&serve, NULL);
	serve.master.fake.message = ends_at_done;
	serve.master.fake.up = welcomes;
	serve.shard.fake.message = answers;
	party_run(&serve);
	assert_true(relay_start(&relay, party_port(&serve)));
	party_worker(&worker, NULL, relay.port);
	worker.worker.fake =
		(struct fake){ .message = talks_on, .up = says_again, .down = witness_down };
	party_run(&worker);
	for (unsigned k = 1; k <= CUTS; k++) {
		await_count(&worker.worker, k * ROUNDS - ROUNDS / 2);
		relay_cut(&relay);
	}
	party_join(&worker);
	assert_true(party_said(&worker, "connected to the master on 127.0.0.1 again"));
	party_close(&worker);
	party_join(&serve);
	relay_stop(&relay);
	assert_int_equal(serve.status, TW_OK);
	assert_int_equal(worker.status, TW_OK);
	assert_int_equal(serve.shard.wrong + worker.worker.wrong, 0);
	assert_int_equal(worker.worker.count, ROUNDS * (CUTS + 1));
	/* within the grace nobody is down; the master is told of before its server */
	for (int k = 0; k < CUTS; k++) {
		snprintf(one, sizeof one, "up 0 %u\nup 1 %u\n", KIT_BOOT, KIT_BOOT);
		strncat(news, one, sizeof news - strlen(news) - 1);
	}
	assert_string_equal(worker.worker.events, news);
	news[0] = 0;
	for (int k = 0; k <= CUTS; k++) {
		snprintf(one, sizeof one, "up %u 1\n", KIT_WORKER(1));
		strncat(news, one, sizeof news - strlen(news) - 1);
	}
	assert_string_equal(serve.shard.events, news);
	party_close(&serve);
}

/* One who stays away is down, once. */

static void ends_at_down(struct tw_actor *a, struct tw_context *ctx, uint32_t node)
{
	witness_down(a, ctx, node);
	fake_finish(ctx);
}

static void who_stays_away_is_down(void **state)
{
	struct party serve;
	struct tw_msg m = raw_greet();
	char news[100];
	int fd;

	party_serve(&serve, NULL);
	serve.master.fake.down = ends_at_down;
	party_run(&serve);
	fd = raw_dial(party_port(&serve));
	assert_true(raw_send(fd, &m));
	assert_true(raw_read(fd, &m));
	assert_int_equal(m.h.type, TW_TERMS);
	assert_int_equal(m.b.terms.node, KIT_WORKER(1));
	close(fd);
	party_join(&serve);
	snprintf(news, sizeof news, "up %u 1\ndown %u\n", KIT_WORKER(1), KIT_WORKER(1));
	assert_string_equal(serve.master.events, news);
	party_close(&serve);
}

/* --- one who never reads ---------------------------------------------------------------------- */

static void answers_at_length(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (m->h.type == TW_PULL)
		fake_send(ctx, m->from, TW_PARAMS, m->h.seq, 64u << 10);
	else
		answers(a, ctx, m);
}

static void *asks_without_end(void *arg)
{
	struct party *serve = arg;
	struct tw_msg m = raw_greet();
	const int fd = raw_dial(party_port(serve));

	if (raw_send(fd, &m) && raw_read(fd, &m) && raw_read(fd, &m) && m.h.type == TW_WELCOME) {
		m = (struct tw_msg){
			.h = { .magic = TW_WIRE_MAGIC, .major = TW_WIRE_MAJOR, .type = TW_PULL },
			.from = fake_addr(0, TW_WORKER, 0),
			.to = the_shard()
		};
		while (serve->worker.count < 20000 && raw_send(fd, &m))
			serve->worker.count++; /* there is no worker of its own */
	}
	close(fd);
	return NULL;
}

static void who_does_not_read_holds_up_nobody(void **state)
{
	struct refusing heap = REFUSING(0);
	struct party serve, worker;
	pthread_t other;

	party_serve(&serve, &heap.heap);
	serve.o.push_most = 1u << 20; /* 80 MiB may wait for one peer: 1,280 answers */
	serve.o.limit = 1500 * MS;
	serve.master.fake.message = ends_at_done;
	serve.master.fake.up = welcomes;
	serve.shard.fake.message = answers_at_length;
	party_run(&serve);
	assert_int_equal(pthread_create(&other, NULL, asks_without_end, &serve), 0);
	await_count(&serve.worker, 1000); /* now it is in the way */
	assert_true(serve.worker.count >= 1000);
	party_worker(&worker, NULL, party_port(&serve));
	worker.o.push_most = 1u << 20;
	worker.worker.fake.message = talks_on;
	party_run(&worker);
	party_join(&worker);
	assert_int_equal(worker.status, TW_OK);
	assert_int_equal(worker.worker.count, ROUNDS * (CUTS + 1));
	party_close(&worker);
	party_close(&serve);
	pthread_join(other, NULL);
	assert_int_equal(heap.live, 0);
}

/* --- strangers say nothing to shards ---------------------------------------------------------- */

static void counts_only(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	witness_of(a)->count++;
}

static void strangers_are_not_heard(void **state)
{
	struct tw_msg m = raw_greet();
	struct party serve;
	int fd;

	party_serve(&serve, NULL);
	serve.shard.fake.message = counts_only;
	serve.master.fake.message = ends_at_done;
	party_run(&serve);
	fd = raw_dial(party_port(&serve));
	assert_true(raw_send(fd, &m));
	assert_true(raw_read(fd, &m));
	m = (struct tw_msg){
		.h = { .magic = TW_WIRE_MAGIC, .major = TW_WIRE_MAJOR, .type = TW_PULL },
		.from = fake_addr(0, TW_WORKER, 0),
		.to = the_shard(),
	};
	m.h.from = 3;
	m.h.incarnation = UINT32_MAX;
	assert_true(raw_send(fd, &m));
	assert_true(party_says(&serve, "PULL as worker 3 is ignored: it comes from new worker"));
	raw_end(fd);
	party_close(&serve);
	assert_int_equal(serve.shard.count, 0);
}

/* --- one who is silent ------------------------------------------------------------------------ */

/* A worker in the clear; *as: what the terms say. */
static int raw_worker(uint16_t port, const struct tw_msg *greet, struct tw_msg *as)
{
	const int fd = raw_dial(port);

	assert_true(raw_send(fd, greet));
	assert_true(raw_read(fd, as));
	assert_int_equal(as->h.type, TW_TERMS);
	return fd;
}

static int64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * TW_SECOND + t.tv_nsec;
}

static void short_limit(struct party *p)
{
	party_serve(p, NULL);
	p->o.every = TW_SECOND / 20;
	p->o.suspect = TW_SECOND / 5;
	p->o.limit = TW_SECOND / 2;
	p->master.fake.message = ends_at_done;
	p->master.fake.up = witness_up;
	p->master.fake.down = witness_down;
	party_run(p);
}

/* One that was stopped finds OVER when it goes on, whether it was given up before or not. */
static void who_is_silent_hears_of_the_end(void **state)
{
	for (int given_up = 0; given_up < 2; given_up++) {
		struct tw_msg greet = raw_greet(), m;
		struct party serve;
		int64_t began;
		int silent, other;

		short_limit(&serve);
		greet.b.greet.process = 1;
		silent = raw_worker(party_port(&serve), &greet, &m);
		if (given_up)
			assert_true(party_says(&serve, "it was silent for"));
		greet.b.greet.process = 2;
		other = raw_worker(party_port(&serve), &greet, &m);
		began = clock_ns();
		raw_end(other);
		party_join(&serve);
		if (given_up) /* nobody waits for it */
			assert_in_range(clock_ns() - began, 0, 2 * TW_SECOND);
		assert_true(raw_read(silent, &m));
		assert_int_equal(m.h.type, TW_OVER);
		assert_int_equal(m.b.over.status, TW_OK);
		raw_drop(&m);
		party_close(&serve);
		assert_true(raw_closed(silent));
		close(silent);
	}
}

/* One that goes on while the run does must greet anew, and its old connection is closed. */
static void who_was_silent_comes_back(void **state)
{
	for (int speaks = 0; speaks < 2; speaks++) {
		struct tw_msg greet = raw_greet(), m, ping = { 0 };
		struct party serve;
		char news[100];
		int silent, again;

		short_limit(&serve);
		greet.b.greet.process = 1;
		silent = raw_worker(party_port(&serve), &greet, &m);
		greet.b.greet.node = m.b.terms.node;
		greet.b.greet.boot = m.b.terms.boot;
		greet.b.greet.run = m.b.terms.run;
		memcpy(greet.b.greet.ticket, m.b.terms.ticket, TW_TICKET);
		assert_true(party_says(&serve, "it was silent for"));
		if (speaks) {
			ping = raw_says(TW_PING, TW_WORKER, fake_addr(0, TW_MASTER, 0));
			assert_true(raw_send(silent, &ping));
			assert_true(raw_closed(silent));
		}
		again = raw_worker(party_port(&serve), &greet, &m);
		assert_int_equal(m.b.terms.node, greet.b.greet.node);
		if (!speaks)
			assert_true(raw_closed(silent));
		raw_end(again);
		party_close(&serve);
		snprintf(news, sizeof news, "up %u 1\ndown %u\nup %u 1\n", m.b.terms.node,
			 m.b.terms.node, m.b.terms.node);
		assert_string_equal(serve.master.events, news);
		close(silent);
	}
}

/* --- greetings that are refused --------------------------------------------------------------- */

static void ends_by_timer(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	fake_finish(ctx);
}

static void ends_after_this(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	ends_by_timer(a, ctx, 0);
}

/* Somebody says BYE: the run ends. */
static void end_by_bye(uint16_t port)
{
	struct tw_msg m = raw_greet();
	const int fd = raw_dial(port);

	assert_true(raw_send(fd, &m));
	assert_true(raw_read(fd, &m));
	m = (struct tw_msg){
		.h = { .magic = TW_WIRE_MAGIC, .major = TW_WIRE_MAJOR, .type = TW_BYE },
		.from = fake_addr(0, TW_WORKER, 0),
		.to = fake_addr(0, TW_MASTER, 0),
	};
	assert_true(raw_send(fd, &m));
	assert_true(raw_read(fd, &m)); /* its farewell */
	assert_int_equal(m.h.type, TW_OVER);
	raw_drop(&m);
	close(fd);
}

static void what_must_agree_is_named(void **state)
{
	static const char *const sentence[] = {
		"it has another job (hash 0a00000000000000...",
		"and workers is different (hash 0a00000000000000...",
		"it has another data set (fingerprint "
		"0a00000000000000..."
	};
	struct party serve;

	party_serve(&serve, NULL);
	serve.master.fake.message = ends_after_this;
	party_run(&serve);
	for (int k = 0; k < 3; k++) {
		struct tw_error why = { 0 };
		struct party worker;

		party_worker(&worker, NULL, party_port(&serve));
		(k == 0 ? &worker.o.job : k == 1 ? &worker.o.layout : &worker.o.data)->b[0] = 10;
		assert_int_equal(party_open(&worker, &why), TW_REFUSED);
		if (!strstr(why.text, sentence[k]))
			fail_msg("%s", why.text);
		assert_non_null(strstr(why.text, "the master at 127.0.0.1:"));
		assert_true(party_says(&serve, sentence[k]));
		party_close(&worker);
	}
	end_by_bye(party_port(&serve));
	party_close(&serve);
}

static enum tw_denial denied(uint16_t port, const struct tw_msg *greet)
{
	const int fd = raw_dial(port);
	struct tw_msg m;
	enum tw_denial why;

	assert_true(raw_send(fd, greet));
	assert_true(raw_read(fd, &m));
	assert_int_equal(m.h.type, TW_DENY);
	assert_true(m.h.payload > 0);
	why = m.b.deny.why;
	raw_drop(&m);
	assert_true(raw_closed(fd));
	close(fd);
	return why;
}

static void nodes_are_not_forged(void **state)
{
	struct tw_msg m = raw_greet(), good;
	struct party serve;
	char version[40];
	int fd, again;

	party_serve(&serve, NULL);
	serve.master.fake.message = ends_after_this;
	party_run(&serve);
	fd = raw_dial(party_port(&serve));
	assert_true(raw_send(fd, &m));
	assert_true(raw_read(fd, &good));
	m.h.major = TW_WIRE_MAJOR + 1;
	assert_int_equal(denied(party_port(&serve), &m), TW_DENY_VERSION);
	snprintf(version, sizeof version, "it uses version %d.", TW_WIRE_MAJOR + 1);
	assert_true(party_says(&serve, version));
	m.h.major = TW_WIRE_MAJOR;
	m.b.greet.process = 6;
	m.b.greet.run = 99;
	m.b.greet.boot = 1;
	m.b.greet.node = good.b.terms.node;
	memcpy(m.b.greet.ticket, good.b.terms.ticket, TW_TICKET);
	m.b.greet.ticket[TW_TICKET - 1] ^= 1;
	assert_int_equal(denied(party_port(&serve), &m), TW_DENY_RUN);
	memcpy(m.b.greet.ticket, good.b.terms.ticket, TW_TICKET);
	m.b.greet.node++;
	assert_int_equal(denied(party_port(&serve), &m), TW_DENY_RUN);
	m.b.greet.node = good.b.terms.node;
	m.b.greet.run = 98;
	assert_int_equal(denied(party_port(&serve), &m), TW_DENY_RUN);
	m.b.greet.run = 99;
	m.b.greet.role = TW_SERVER;
	assert_int_equal(denied(party_port(&serve), &m), TW_DENY_RUN);
	m.b.greet.role = TW_MASTER;
	assert_int_equal(denied(party_port(&serve), &m), TW_DENY_ROLE);
	/* who has the ticket is let in, and the connection it had before is closed */
	m.b.greet.role = TW_WORKER;
	again = raw_dial(party_port(&serve));
	assert_true(raw_send(again, &m));
	assert_true(raw_read(again, &m));
	assert_int_equal(m.h.type, TW_TERMS);
	assert_int_equal(m.b.terms.node, good.b.terms.node);
	assert_true(raw_closed(fd));
	close(fd);
	close(again);
	end_by_bye(party_port(&serve));
	party_close(&serve);
}

/* --- asking for the job and its data ---------------------------------------------------------- */

#define DATA_BYTES ((5u << 20) + 123)

static uint8_t byte_at(uint64_t at)
{
	return (uint8_t)(at * 31 + (at >> 16));
}

static enum tw_status give(void *arg, uint64_t from, void *to, size_t bytes)
{
	for (size_t k = 0; k < bytes; k++)
		((uint8_t *)to)[k] = byte_at(from + k);
	return TW_OK;
}

static void data_is_given_to_its_end(void **state)
{
	static uint8_t got[DATA_BYTES];
	static const char job[] = "data: {source: none}\n";
	struct refusing heap = REFUSING(0);
	struct tw_error why = { 0 };
	struct tw_tcp_facts facts;
	struct tw_tcp_ask *ask;
	struct party serve, joiner;
	size_t bytes, wrong = 0;
	char *text;

	party_serve(&serve, &heap.heap);
	serve.master.fake.message = ends_after_this;
	serve.o.job_text = job;
	serve.o.job_bytes = strlen(job);
	serve.o.data_bytes = DATA_BYTES;
	serve.o.data_read = give;
	party_run(&serve);
	party_worker(&joiner, &heap.heap, party_port(&serve));
	assert_int_equal(tw_tcp_ask_open(&joiner.o, &ask, &facts, &why), TW_OK);
	assert_int_equal(facts.run, 99);
	assert_int_equal(facts.job.b[0], 11);
	assert_int_equal(facts.data_bytes, DATA_BYTES);
	assert_int_equal(tw_tcp_ask_job(ask, &text, &bytes, &why), TW_OK);
	assert_string_equal(text, job);
	assert_int_equal(bytes, strlen(job));
	heap.heap.put(&heap.heap, text);
	assert_int_equal(tw_tcp_ask_data(ask, 0, got, DATA_BYTES, &why), TW_OK);
	for (size_t k = 0; k < DATA_BYTES; k++)
		wrong += got[k] != byte_at(k);
	assert_int_equal(wrong, 0);
	assert_int_equal(tw_tcp_ask_data(ask, DATA_BYTES - 5, got, 6, &why), TW_REFUSED);
	assert_non_null(strstr(why.text, "it asks for data that does not exist"));
	tw_tcp_ask_close(ask);
	end_by_bye(party_port(&serve));
	party_close(&serve);
	party_close(&joiner);
	assert_int_equal(heap.live, 0);
}

/* Ask for a piece over a connection of its own; what is the answer? */
static uint16_t asked_for(uint16_t port, uint32_t flags, struct tw_body_data what)
{
	const int fd = raw_dial(port);
	struct tw_msg m = raw_greet();
	uint16_t type = 0;

	m.b.greet.flags = flags;
	m.b.greet.node = TW_NODE_NEW;
	assert_true(raw_send(fd, &m));
	if (raw_read(fd, &m)) {
		type = m.h.type;
		raw_drop(&m);
	}
	if (type == TW_TERMS) {
		m = raw_says(TW_DATA, TW_WORKER, (struct tw_addr){ .role = TW_MASTER });
		m.b.data = what;
		assert_true(raw_send(fd, &m));
		type = 0;
		if (raw_read(fd, &m)) {
			type = m.h.type;
			raw_drop(&m);
		}
	}
	close(fd);
	return type;
}

/* Who keeps the model gets it when the run is over, and not before; nobody else gets anything. */
static void the_model_is_given_at_the_end(void **state)
{
	const struct tw_body_data head = { .what = TW_DATA_MODEL, .bytes = 10 };
	const struct tw_body_data far = { .what = TW_DATA_MODEL, .from = DATA_BYTES, .bytes = 1 };
	const struct tw_body_data wrap = { .what = TW_DATA_MODEL, .from = -8ull, .bytes = 16 };
	const struct tw_body_data job = { .what = TW_DATA_JOB };
	const uint32_t end = TW_GREET_ASK | TW_GREET_MODEL;
	struct refusing heap = REFUSING(0);
	struct tw_block *model = tw_block_new(&tw_heap_system, DATA_BYTES), *got = NULL;
	struct tw_error why = { 0 };
	struct party serve, worker;
	struct tw_sha hash;
	uint16_t port;

	for (size_t k = 0; k < DATA_BYTES; k++)
		model->data[k] = byte_at(k);
	party_serve(&serve, &heap.heap);
	serve.master.fake.message = ends_after_this;
	serve.model = model;
	serve.o.job_text = "a job";
	serve.o.job_bytes = 5;
	party_run(&serve);
	port = party_port(&serve);
	assert_int_equal(tw_tcp_keepers(serve.t), 0);
	party_worker(&worker, &heap.heap, port);
	worker.o.keeps = true;
	assert_int_equal(party_open(&worker, &why), TW_OK);
	party_start(&worker);
	assert_int_equal(tw_tcp_keepers(serve.t), 1);
	assert_int_equal(asked_for(port, TW_GREET_ASK, head), TW_DENY);
	assert_int_equal(asked_for(port, end, head), TW_DENY);
	assert_int_equal(asked_for(port, TW_GREET_ASK, job), TW_DATA);
	end_by_bye(port);
	party_join(&worker); /* it has heard of the end */
	assert_int_equal(tw_tcp_given(worker.t, &hash), DATA_BYTES);
	assert_int_equal(asked_for(port, end, head), TW_DATA);
	assert_int_equal(asked_for(port, end, far), TW_DENY);
	assert_int_equal(asked_for(port, end, wrap), TW_DENY);
	assert_int_equal(asked_for(port, end, job), TW_DENY);
	assert_int_equal(asked_for(port, TW_GREET_ASK, job), TW_DENY);
	assert_int_equal(asked_for(port, TW_GREET_MODEL, head), TW_DENY);
	if (tw_tcp_ask_model(&worker.o, DATA_BYTES, &hash, &got, &why) != TW_OK)
		fail_msg("%s", why.text);
	assert_memory_equal(got->data, model->data, DATA_BYTES);
	tw_block_drop(got);
	got = NULL;
	hash.b[31] ^= 1;
	assert_int_equal(tw_tcp_ask_model(&worker.o, DATA_BYTES, &hash, &got, &why), TW_BAD_BYTES);
	assert_non_null(strstr(why.text, "its hash differs"));
	assert_null(got);
	party_close(&worker);
	party_close(&serve); /* ... and nobody is waited for any more */
	tw_block_drop(model);
	assert_int_equal(heap.live, 0);
}

/* --- without memory --------------------------------------------------------------------------- */

static int64_t limit; /* of a run: one that was refused memory may never be done */

static void sets_a_limit(struct tw_actor *a, struct tw_context *ctx)
{
	tw_timer(ctx, 0, limit);
}

struct scarce {
	unsigned calls; /* how often memory was asked for */
	bool whole;     /* everything was said, heard and answered */
};

/* A short run in which one of the two gets no memory once (nth 0: always): it may fail, but it
 * ends, and nothing is left. */
static struct scarce scarce_run(unsigned nth, bool at_serve)
{
	struct refusing heap = REFUSING(nth);
	struct party serve, worker = { .status = TW_ABSENT };
	struct tw_error why = { 0 };

	party_serve(&serve, at_serve ? &heap.heap : NULL);
	serve.status = TW_ABSENT;
	serve.master.fake = (struct fake){ .start = sets_a_limit,
					   .timer = ends_by_timer,
					   .up = welcomes,
					   .message = ends_at_done };
	serve.shard.fake.message = takes_in_order;
	if (party_open(&serve, &why) == TW_OK) {
		party_start(&serve);
		party_worker(&worker, at_serve ? NULL : &heap.heap, party_port(&serve));
		worker.status = TW_ABSENT;
		worker.o.patience = 2 * limit;
		worker.worker.fake.message = done_after_all;
		if (party_open(&worker, &why) == TW_OK)
			party_start(&worker);
		party_close(&worker); /* first: the master waits for those who have not closed */
	}
	party_close(&serve);
	if (heap.live)
		fail_msg("request %u of the %s: %d blocks are left", nth,
			 at_serve ? "master" : "worker", heap.live);
	return (struct scarce){
		.calls = heap.calls,
		.whole = serve.status == TW_OK && worker.status == TW_OK &&
			 serve.shard.count == MESSAGES && worker.worker.count == MESSAGES &&
			 serve.shard.wrong + worker.worker.wrong == 0,
	};
}

static void no_memory_is_survived(void **state)
{
	for (int at_serve = 0; at_serve < 2; at_serve++) {
		unsigned nth = 1;

		limit = 60 * MS;
		for (;;) {
			const struct scarce r = scarce_run(nth, at_serve);

			if (r.calls >= nth)
				nth++;
			else if (r.whole || limit > TW_SECOND)
				break;
			else /* the time was up before it asked so often */
				limit *= 4;
		}
		/* with as much memory and time as it wants, the same run comes through */
		limit = 30 * TW_SECOND;
		assert_true(scarce_run(0, at_serve).whole);
		assert_true(nth > 20); /* requests of memory were refused, one after the other */
		print_message("%s: %u requests of memory refused, one in each run\n",
			      at_serve ? "master" : "worker", nth - 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_keep_their_order),
		cmocka_unit_test(cuts_are_mended),
		cmocka_unit_test(who_stays_away_is_down),
		cmocka_unit_test(who_does_not_read_holds_up_nobody),
		cmocka_unit_test(strangers_are_not_heard),
		cmocka_unit_test(who_is_silent_hears_of_the_end),
		cmocka_unit_test(who_was_silent_comes_back),
		cmocka_unit_test(what_must_agree_is_named),
		cmocka_unit_test(nodes_are_not_forged),
		cmocka_unit_test(data_is_given_to_its_end),
		cmocka_unit_test(the_model_is_given_at_the_end),
		cmocka_unit_test(no_memory_is_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
