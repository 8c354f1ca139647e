/* SPDX-License-Identifier: Apache-2.0 */
/* links.h - what the messages of one exchange weigh, and how long they take on links that nobody
 * else uses.
 *
 * A network card sends one message at a time and receives one at a time, both at once; a message
 * takes latency + bytes / bandwidth.  A vector travels in as many messages as there are shards, so
 * the answer to the first one is on its way while the last one is still being sent. */
#ifndef TW_COST_LINKS_H
#define TW_COST_LINKS_H

#include "node/plan.h"
#include "world/sim/sim.h"

struct tw_cost_links {
	double latency;              /* seconds, one way, with the means of jitter and loss */
	double per_byte;             /* seconds */
	double up_bytes, down_bytes; /* of a push to all shards, of the parameters of all */
	double up, down;             /* seconds in a worker's card */
	double share;                /* of these bytes, through the busiest server */
	double last_share;           /* of `down`: the last message of the busiest server */
	double applying;             /* seconds that the busiest shard takes for a push */
	double exchange, pull;       /* idle links: push and answer; pull and answer */
	double up_per_value;         /* bytes of codec.up, where it does not say; 0: not known */
};

/* False: the length of an encoding depends on the values, and *codec is the codec. */
bool tw_cost_links_init(struct tw_cost_links *l, const struct tw_plan *plan,
			const struct tw_sim_options *sim, double up_per_value,
			const struct tw_codec **codec);
/* Bytes of a message of this type without tail and payload. */
double tw_cost_head(enum tw_type type);
/* Seconds in a card for a message of this type with so many bytes of tail and payload. */
double tw_cost_message(const struct tw_cost_links *l, enum tw_type type, double more);

#endif
