/* SPDX-License-Identifier: Apache-2.0 */
/* message_kinds.c - the table of message kinds: what each carries, and who may say it to whom.
 *
 *  (1) Whoever checks a message for its sender, its receiver or its length reads this table: actors
 *      by tw_hears, worlds by tw_may_say and tw_payload_most, frames by tw_header_check.
 *  (2) `to` holds wherever the two actors are; `within` holds only where they share a node.
 *  (3) A kind of the worlds has neither: no actor says it or hears it. */
#include "actor/actor.h"

#define ONLY(role) (1u << (role))
#define TO_MASTER  ONLY(TW_MASTER)
#define TO_SERVER  ONLY(TW_SERVER)
#define TO_SHARD   ONLY(TW_SHARD)
#define TO_WORKER  ONLY(TW_WORKER)

#define BODY(b)    .body = sizeof(struct tw_body_##b)
#define TAIL(r)    .record = sizeof(struct r)
#define SLICE      .payload = TW_PAYLOAD_SLICE
#define PART       .payload = TW_PAYLOAD_PART
#define CUT        .payload = TW_PAYLOAD_CUT
#define BATCH      .payload = TW_PAYLOAD_BATCH
#define BYTES(n)   .payload = TW_PAYLOAD_BYTES, .most = (n)
#define RECORD_ANY .record = 16 /* records of more than one kind, all of them so long */

#define SENTENCE_MOST (64u << 10)
#define RESULT_MOST   (4u << 20)

const struct tw_kind tw_kinds[TW_TYPES] = {
	[TW_HELLO] = { "HELLO", BODY(hello), TAIL(tw_range),
		       .to = { [TW_WORKER] = TO_MASTER, [TW_SERVER] = TO_MASTER } },
	[TW_WELCOME] = { "WELCOME", BODY(welcome), TAIL(tw_place), PART,
			 .to = { [TW_MASTER] = TO_WORKER } },
	[TW_REFUSE] = { "REFUSE", BODY(refuse),
			.to = { [TW_MASTER] = TO_WORKER,
				[TW_SHARD] = TO_WORKER | TO_MASTER,
				[TW_WORKER] = TO_MASTER } },
	[TW_VIEW] = { "VIEW", BODY(view), RECORD_ANY,
		      .to = { [TW_MASTER] = TO_SHARD | TO_WORKER } },
	[TW_BYE] = { "BYE", .to = { [TW_MASTER] = TO_SERVER | TO_WORKER,
				    [TW_WORKER] = TO_MASTER,
				    [TW_SERVER] = TO_MASTER } },
	[TW_HOST] = { "HOST", BODY(host), PART, .to = { [TW_MASTER] = TO_SERVER },
		      .within = { [TW_SERVER] = TO_SHARD } },
	[TW_HOSTED] = { "HOSTED", BODY(host), .to = { [TW_SHARD] = TO_MASTER } },
	[TW_STATE] = { "STATE", BODY(state), RECORD_ANY, BYTES(sizeof(struct tw_tally)),
		       .to = { [TW_SHARD] = TO_MASTER } },
	[TW_ASK] = { "ASK", BODY(ask), .to = { [TW_MASTER] = TO_SHARD | TO_WORKER } },
	[TW_LEASE] = { "LEASE", BODY(lease), .to = { [TW_MASTER] = TO_WORKER } },
	[TW_DONE] = { "DONE", BODY(done), TAIL(tw_range), .to = { [TW_WORKER] = TO_MASTER } },
	[TW_IDLE] = { "IDLE", BODY(idle),
		      .to = { [TW_WORKER] = TO_MASTER, [TW_MASTER] = TO_SHARD } },
	/* a lock-free shard hands both on to itself */
	[TW_PUSH] = { "PUSH", BODY(push), SLICE, .shared = true, .to = { [TW_WORKER] = TO_SHARD },
		      .within = { [TW_SHARD] = TO_SHARD } },
	[TW_ACK] = { "ACK", BODY(ack), .to = { [TW_SHARD] = TO_WORKER } },
	[TW_PULL] = { "PULL", BODY(pull), .shared = true, .to = { [TW_WORKER] = TO_SHARD },
		      .within = { [TW_SHARD] = TO_SHARD } },
	[TW_PARAMS] = { "PARAMS", BODY(params), SLICE, .to = { [TW_SHARD] = TO_WORKER } },
	[TW_UNCHANGED] = { "UNCHANGED", BODY(params), .to = { [TW_SHARD] = TO_WORKER } },
	[TW_HAVE] = { "HAVE", BODY(have), .to = { [TW_SHARD] = TO_MASTER } },
	[TW_COMMIT] = { "COMMIT", BODY(commit), RECORD_ANY, .to = { [TW_MASTER] = TO_SHARD } },
	[TW_PIN] = { "PIN", BODY(pin), .to = { [TW_MASTER] = TO_SHARD, [TW_SHARD] = TO_MASTER } },
	[TW_EVAL] = { "EVAL", BODY(eval), .to = { [TW_MASTER] = TO_WORKER } },
	[TW_RESULT] = { "RESULT", BODY(result), .to = { [TW_WORKER] = TO_MASTER } },
	[TW_SNAP] = { "SNAP", BODY(snap), .to = { [TW_MASTER] = TO_SHARD | TO_WORKER } },
	[TW_PART] = { "PART", BODY(part), RECORD_ANY, PART,
		      .to = { [TW_SHARD] = TO_MASTER, [TW_WORKER] = TO_MASTER } },
	[TW_FORM] = { "FORM", BODY(form), TAIL(tw_member), .to = { [TW_MASTER] = TO_SHARD } },
	[TW_REDUCE] = { "REDUCE", BODY(reduce), SLICE, .to = { [TW_SHARD] = TO_SHARD } },
	[TW_GIVE] = { "GIVE", BODY(give), .to = { [TW_MASTER] = TO_SHARD } },
	[TW_COPY] = { "COPY", BODY(copy), PART, .to = { [TW_SHARD] = TO_SERVER },
		      .within = { [TW_SERVER] = TO_SHARD } },
	[TW_SPREAD] = { "SPREAD", BODY(push), SLICE, .to = { [TW_SHARD] = TO_SHARD } },
	[TW_HEARD] = { "HEARD", BODY(heard),
		       .to = { [TW_SHARD] = TO_SHARD, [TW_WORKER] = TO_WORKER } },
	[TW_MIX] = { "MIX", BODY(mix), SLICE, .to = { [TW_SHARD] = TO_SHARD } },
	[TW_VEC] = { "VEC", BODY(vec), TAIL(tw_command), .to = { [TW_MASTER] = TO_SHARD } },
	[TW_SCALAR] = { "SCALAR", BODY(scalar), TAIL(tw_scalar), .to = { [TW_SHARD] = TO_MASTER } },
	[TW_ACT] = { "ACT", BODY(act), CUT, .to = { [TW_WORKER] = TO_WORKER } },
	[TW_GRAD] = { "GRAD", BODY(grad), CUT, .to = { [TW_WORKER] = TO_WORKER } },
	[TW_CLOSED] = { "CLOSED", BODY(closed), .to = { [TW_WORKER] = TO_WORKER } },
	[TW_FIGURES] = { "FIGURES", BODY(figures), .to = { [TW_WORKER] = TO_MASTER } },
	[TW_FETCH] = { "FETCH", BODY(fetch), .to = { [TW_WORKER] = TO_MASTER } },
	[TW_SAMPLES] = { "SAMPLES", BODY(fetch), BATCH, .to = { [TW_MASTER] = TO_WORKER } },
	/* (3) */
	[TW_GREET] = { "GREET", BODY(greet) },
	[TW_TERMS] = { "TERMS", BODY(terms) },
	[TW_DENY] = { "DENY", BODY(deny), BYTES(SENTENCE_MOST) },
	[TW_PING] = { "PING", BODY(ping) },
	[TW_PEERS] = { "PEERS", BODY(peers), TAIL(tw_peer_place) },
	[TW_DATA] = { "DATA", BODY(data), BYTES(TW_CHUNK) },
	[TW_OVER] = { "OVER", BODY(over), BYTES(RESULT_MOST) },
	[TW_TICKETS] = { "TICKETS", BODY(tickets), TAIL(tw_ticket) },
	[TW_LEAVING] = { "LEAVING" },
	[TW_LEND] = { "LEND", BODY(lend) },
};

_Static_assert(sizeof(struct tw_range) == 16 && sizeof(struct tw_member) == 16 &&
		       sizeof(struct tw_judged) == 16 && sizeof(struct tw_place) == 16 &&
		       sizeof(struct tw_span) == 16 && sizeof(struct tw_peer_place) == 144 &&
		       sizeof(struct tw_ticket) == 32,
	       "tail records");

const char *tw_type_name(uint16_t type)
{
	return tw_kind_of(type) ? tw_kinds[type].name : "?";
}

size_t tw_payload_most(uint16_t type, size_t slice, size_t part)
{
	const struct tw_kind *k = tw_kind_of(type);

	switch (k ? k->payload : TW_PAYLOAD_NONE) {
	case TW_PAYLOAD_SLICE:
	case TW_PAYLOAD_CUT:
	case TW_PAYLOAD_BATCH:
		return slice;
	case TW_PAYLOAD_PART:
		return part;
	case TW_PAYLOAD_BYTES:
		return k->most;
	default:
		return 0;
	}
}
