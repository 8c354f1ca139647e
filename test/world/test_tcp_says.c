/* SPDX-License-Identifier: Apache-2.0 */
/* test_tcp_says.c - of all that could be said on a connection, what a process lets in.
 *
 * Every kind, sender and receiver, on a connection to every kind of peer, in every kind of process.
 * The expectation is written out here by hand, from docs/WIRE.md, and not read from the table. */
#include "world/tcp/tcp_inner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#define M TW_MASTER
#define V TW_SERVER
#define S TW_SHARD
#define W TW_WORKER

static const struct {
	uint16_t type;
	uint32_t from, to;
} says[] = {
	{ TW_HELLO, W, M },   { TW_HELLO, V, M },  { TW_WELCOME, M, W },   { TW_REFUSE, M, W },
	{ TW_REFUSE, S, W },  { TW_REFUSE, S, M }, { TW_VIEW, M, S },      { TW_VIEW, M, W },
	{ TW_BYE, W, M },     { TW_BYE, V, M },    { TW_BYE, M, W },       { TW_BYE, M, V },
	{ TW_HOST, M, V },    { TW_HOSTED, S, M }, { TW_STATE, S, M },     { TW_ASK, M, S },
	{ TW_LEASE, M, W },   { TW_DONE, W, M },   { TW_IDLE, W, M },      { TW_IDLE, M, S },
	{ TW_PUSH, W, S },    { TW_ACK, S, W },    { TW_PULL, W, S },      { TW_PARAMS, S, W },
	{ TW_HAVE, S, M },    { TW_COMMIT, M, S }, { TW_UNCHANGED, S, W }, { TW_PIN, M, S },
	{ TW_PIN, S, M },     { TW_EVAL, M, W },   { TW_RESULT, W, M },    { TW_SNAP, M, S },
	{ TW_SNAP, M, W },    { TW_PART, S, M },   { TW_PART, W, M },      { TW_REDUCE, S, S },
	{ TW_COPY, S, V },    { TW_FORM, M, S },   { TW_GIVE, M, S },      { TW_VEC, M, S },
	{ TW_SCALAR, S, M },  { TW_SPREAD, S, S }, { TW_HEARD, S, S },     { TW_MIX, S, S },
	{ TW_ACT, W, W },     { TW_GRAD, W, W },   { TW_CLOSED, W, W },    { TW_HEARD, W, W },
	{ TW_FIGURES, W, M }, { TW_FETCH, W, M },  { TW_SAMPLES, M, W },   { TW_ASK, M, W },
	{ TW_REFUSE, W, M },
};

static bool allowed(uint16_t type, uint32_t from, uint32_t to)
{
	for (size_t k = 0; k < sizeof says / sizeof says[0]; k++)
		if (says[k].type == type && says[k].from == from && says[k].to == to)
			return true;
	return false;
}

/* Does an actor of this role live in such a process?  The master's has the first server; with peers
 * every worker's has a replica instead. */
static bool lives(uint32_t process, uint32_t role, bool peers)
{
	if (role == S || role == V)
		return process == (peers ? W : M) || process == V;
	return role == process;
}

/* Between two workers nobody speaks but their replicas, or, where there are none, their cells. */
static bool heard(uint32_t process, uint32_t from, uint32_t own, uint32_t to, bool peers)
{
	if (peers && process == W && own == W && (from == W || to == W))
		return false;
	return lives(process, from, peers) && lives(own, to, peers);
}

static const uint32_t process_of[] = {
	[TW_TCP_SERVE] = M,
	[TW_TCP_SERVER] = V,
	[TW_TCP_WORKER] = W,
};

static void roles_are_those_of_the_table(void **state)
{
	static const uint32_t peers[] = { M, V, W };
	static struct tw_tcp t;
	struct peer p = { 0 };
	struct conn c = { .t = &t, .peer = &p, .state = CONN_OPEN };

	(void)state;
	for (enum tw_tcp_role own = TW_TCP_SERVE; own <= TW_TCP_WORKER; own++)
		for (uint32_t k = 0; k < 6 * TW_TYPES * TW_ROLES * TW_ROLES; k++) {
			const uint32_t ends = k / (6 * TW_TYPES);
			const struct tw_header h = { .type = (uint16_t)(k / 6 % TW_TYPES),
						     .sender = (uint8_t)(ends % TW_ROLES),
						     .receiver = (uint8_t)(ends / TW_ROLES) };
			const char *why = "";
			bool want;

			t.o.role = own;
			t.o.peers = k % 6 >= 3;
			p.role = peers[k % 3];
			if (!h.type || h.type >= TW_GREET)
				continue;
			want = allowed(h.type, h.sender, h.receiver) &&
			       heard(p.role, h.sender, process_of[own], h.receiver, t.o.peers);
			if (tw_handshake.admit(&c, &h, &why) != want)
				fail_msg("process %u, peer %u%s: %s from role %u to role %u is %s",
					 own, p.role, t.o.peers ? ", no servers" : "",
					 tw_type_name(h.type), h.sender, h.receiver,
					 want ? "refused" : "let in");
		}
}

static void payloads_have_their_bounds(void **state)
{
	static const struct {
		uint16_t type;
		uint32_t peer;
		uint8_t from, to;
		enum tw_tcp_role own;
		uint32_t most;
		bool peers;
	} cases[] = {
		{ TW_REDUCE, W, S, S, TW_TCP_WORKER, 1000, true },
		{ TW_SPREAD, W, S, S, TW_TCP_WORKER, 1000, true },
		{ TW_MIX, W, S, S, TW_TCP_WORKER, 1000, true },
		{ TW_COPY, W, S, V, TW_TCP_WORKER, 5000, true },
		{ TW_PUSH, W, W, S, TW_TCP_SERVE, 1000 },
		{ TW_PARAMS, V, S, W, TW_TCP_WORKER, 1000 },
		{ TW_PART, W, W, M, TW_TCP_SERVE, 5000 },
		{ TW_PART, V, S, M, TW_TCP_SERVE, 5000 },
		{ TW_HOST, M, M, V, TW_TCP_SERVER, 5000 },
		{ TW_WELCOME, M, M, W, TW_TCP_WORKER, 5000 },
		{ TW_STATE, V, S, M, TW_TCP_SERVE, sizeof(struct tw_tally) },
		{ TW_OVER, M, M, W, TW_TCP_WORKER, 4u << 20 },
		{ TW_VIEW, M, M, W, TW_TCP_WORKER, 0 },
		{ TW_RESULT, W, W, M, TW_TCP_SERVE, 0 },
	};
	static struct tw_tcp t;
	struct peer p = { 0 };
	struct conn c = { .t = &t, .peer = &p, .state = CONN_OPEN };

	(void)state;
	t.o.push_most = 1000;
	t.o.part_most = 5000;
	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		struct tw_header h = { .type = cases[k].type,
				       .sender = cases[k].from,
				       .receiver = cases[k].to,
				       .payload = cases[k].most };
		const char *why = "";

		t.o.role = cases[k].own;
		t.o.peers = cases[k].peers;
		p.role = cases[k].peer;
		if (!tw_handshake.admit(&c, &h, &why))
			fail_msg("%s of %u bytes: %s", tw_type_name(h.type), h.payload, why);
		h.payload++;
		assert_false(tw_handshake.admit(&c, &h, &why));
		assert_string_equal(why, "it sends a message that is too large for its type");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(roles_are_those_of_the_table),
		cmocka_unit_test(payloads_have_their_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
