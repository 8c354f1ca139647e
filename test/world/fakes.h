/* SPDX-License-Identifier: Apache-2.0 */
/* fakes.h - small actors, an engine and a log for tests of worlds. */
#ifndef TW_TEST_FAKES_H
#define TW_TEST_FAKES_H

#include "actor/cluster.h"
#include "world/memory_store.h"
#include "world/sim/sim.h"

#define FAKE_SIZE 8
#define MS        INT64_C(1000000)

/* What an actor of a test does; what is NULL it ignores. */
struct fake {
	void (*start)(struct tw_actor *a, struct tw_context *ctx);
	void (*message)(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m);
	void (*timer)(struct tw_actor *a, struct tw_context *ctx, uint32_t timer);
	void (*computed)(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c);
	void (*saved)(struct tw_actor *a, struct tw_context *ctx, uint64_t cut,
		      enum tw_status status);
	void (*loaded)(struct tw_actor *a, struct tw_context *ctx, uint64_t cut,
		       const struct tw_part *parts, size_t count, enum tw_status status);
	void (*down)(struct tw_actor *a, struct tw_context *ctx, uint32_t node);
	void (*up)(struct tw_actor *a, struct tw_context *ctx, uint32_t node, uint32_t boot);
	void (*interrupt)(struct tw_actor *a, struct tw_context *ctx);
	bool (*waiting)(const struct tw_actor *a, struct tw_wait *out);
};

struct tw_actor {
	struct tw_heap *heap;
	const struct fake *fake;
	uint64_t count, last;
	int64_t since;
	struct tw_compute c;
	struct tw_piece piece;
	float w[FAKE_SIZE], g[FAKE_SIZE];
	struct tw_block *kept;
};
extern const struct tw_actor_class fake_class;
extern const struct tw_actor_class fake_passive_class; /* computes nothing: no thread of its own */

/* A cluster of one master (node 0), `servers` with one shard each, and workers. */
struct stage {
	struct tw_cluster cluster;
	struct tw_sim_options o;
	struct tw_engine engine;
	struct tw_log log;
	struct tw_seat *seat;
	struct tw_fault fault[8];
	size_t faults;
	const char *trace;
	int64_t max;
	struct tw_ran ran;
	char lines[8192]; /* what was logged */
};
void stage_init(struct stage *st, struct tw_heap *heap, uint32_t servers, uint32_t workers,
		const struct fake *master, const struct fake *shard, const struct fake *worker);
enum tw_status stage_run(struct stage *st);
void stage_release(struct stage *st);

/* What the engine does beside its arithmetic, so that jobs take time. */
extern _Atomic int fake_spin;

struct tw_addr fake_addr(uint32_t node, uint16_t role, uint16_t index);
/* Send a message with `payload` bytes of payload; false without memory. */
bool fake_send(struct tw_context *ctx, struct tw_addr to, enum tw_type type, uint64_t seq,
	       uint32_t payload);
/* Compute one step at `from`. */
void fake_compute(struct tw_actor *a, struct tw_context *ctx, uint64_t from, uint32_t count);
void fake_finish(struct tw_context *ctx);

#endif
