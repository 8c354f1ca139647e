/* SPDX-License-Identifier: Apache-2.0 */
/* lone_shard.h - one shard in a world of its own: tests say what others say to it, and look at what
 * it sends. */
#ifndef TEST_NODE_LONE_SHARD_H
#define TEST_NODE_LONE_SHARD_H

#include "node/shard/shard.h"
#include "node/small_plan.h"

#define LONE_WORKER(slot) (2 + (slot)) /* its node; the master is 0, the server 1 */

struct lone_shard {
	struct small_plan plan;
	struct shard *shard;
	struct tw_context ctx;
	struct tw_world world;
	struct tw_engine engine;
	struct tw_heap *heap;
	void (*sent)(struct lone_shard *l, const struct tw_msg *m); /* may be NULL */
	void *arg;
	uint64_t views, sends;
	int64_t now;
};

/* Hosted, of incarnation 1, with nobody in it. */
void lone_open(struct lone_shard *l, struct tw_heap *heap, const char *gate, uint32_t workers);
/* The same as a replica on node 1, which is that of a worker. */
void lone_open_replica(struct lone_shard *l, struct tw_heap *heap, const char *gate,
		       uint32_t workers, const struct tw_topology *topology);
void lone_close(struct lone_shard *l);

/* A message of this sender; the caller fills its body and gives it to lone_say. */
struct tw_msg lone_from_master(const struct lone_shard *l, enum tw_type type);
struct tw_msg lone_from_worker(const struct lone_shard *l, enum tw_type type, uint32_t slot,
			       uint32_t incarnation);
/* The shard hears it; tail and payload stay the caller's. */
void lone_say(struct lone_shard *l, struct tw_msg *m);
/* The master says who is in it: `full` is everybody. */
void lone_view(struct lone_shard *l, const struct tw_member *list, uint32_t count, bool full);

/* The incarnations a first master gives. */
#define LONE_INCARNATION(n) (1u << 20 | (n))

/* A push of one sample, number `seq` of its worker, on the version that is there now. */
struct tw_msg lone_push(const struct lone_shard *l, uint32_t slot, uint32_t incarnation,
			uint64_t seq, struct tw_block *payload);

#endif
