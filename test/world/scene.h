/* SPDX-License-Identifier: Apache-2.0 */
/* scene.h - small actors that share what they do and what they saw, for tests of threads. */
#ifndef TW_TEST_SCENE_H
#define TW_TEST_SCENE_H

#include "world/threads/threads.h"

#define WORKERS_MAX 8
#define SHARDS_MAX  16
#define MS          (TW_SECOND / 1000)

/* All actors of a test share a scene: what it does is in its tables, what it saw is in it.
 * Nothing is asserted in a handler: other threads cannot leave a test. */
struct scene {
	struct tw_actor_class master, shard, worker;
	uint32_t workers, shards;
	uint64_t rounds;
	struct tw_threads_options options;
	tw_observer observer;
	const struct tw_log *log;
	const _Atomic int *interrupted;
	struct tw_store *store;
	struct tw_engine_class engine;
	size_t scratch;
	struct tw_heap *heap;

	_Atomic uint64_t wrong, seen, total; /* what handlers found */
	_Atomic uint32_t here[SHARDS_MAX];
	_Atomic uint32_t meetings;
	_Atomic bool flag;
	_Atomic uint64_t threads_of_round[1024]; /* a bit per thread */
	uint64_t notes, notes_by[WORKERS_MAX];   /* the observer's; it is called one at a time */
	int64_t last_note;
	_Atomic long switches;
	uint32_t order[64];
	size_t ordered;
	enum tw_status statuses[8];
	uint32_t lines;
	char line[300];
	struct tw_ran ran;
};

struct tw_actor {
	struct tw_heap *heap;
	struct scene *scene;
	uint32_t number;
	uint64_t count, sum, round;
	uint64_t next[SHARDS_MAX + WORKERS_MAX];
	struct tw_compute compute[3];
	struct tw_block *block;
	long switches;
};

struct part {
	struct scene *scene;
	uint32_t number;
};

struct tw_actor *scene_actor_new(struct tw_heap *heap, const void *arg);
void scene_actor_free(struct tw_actor *a);
struct tw_addr scene_master(void);
struct tw_addr scene_shard(uint32_t k);
struct tw_addr scene_worker(uint32_t k);
void scene_say(struct tw_context *ctx, struct tw_addr to, enum tw_type type, uint32_t from,
	       uint64_t seq);
void scene_finish(struct tw_context *ctx);
/* The master ends the run when every worker has said DONE. */
void scene_master_counts(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m);
int64_t scene_clock(void);
void scene_busy(int64_t ns);
/* A gradient that takes 20 s unless it is cancelled. */
enum tw_status scene_until_cancelled(const struct tw_engine *e, void *scratch,
				     const struct tw_inputs *in, float *gradient,
				     struct tw_score *score);
/* Run the cluster of the scene; what it counted is in `ran`. */
enum tw_status scene_run(struct scene *s);

#endif
