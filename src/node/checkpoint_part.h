/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_part.h - a part of a cut: named arrays of one parameter range, packed into one block.
 *
 * Bytes: "TWPART1\0", u32 count, u32 zero, then `count` entries {char name[40], u64 from, u64 n,
 * u32 kind, u32 zero, u64 offset of the data from the start}, then the data, each array at a
 * multiple of 64.  Floats are little-endian binary32; `from` is the parameter index of the first
 * one.  A head is the same with "TWHEAD1\0"; its floats have no data, and the offset 0. */
#ifndef TW_NODE_CHECKPOINT_PART_H
#define TW_NODE_CHECKPOINT_PART_H

#include "actor/actor.h"

enum tw_array_kind { TW_FLOATS = 1, TW_BYTES = 2 };

struct tw_array {
	char name[40];
	uint64_t from, n; /* n: floats, or bytes */
	uint32_t kind, pad;
	const void *at; /* in the packed block after unpacking */
};

#define TW_PART_ARRAYS_MAX 400000 /* one for each worker, and some more */

/* A new block with copies of the arrays; NULL without memory. */
struct tw_block *tw_part_pack(struct tw_heap *heap, const struct tw_array *arrays, size_t count);
/* Check the bytes and list the arrays, with pointers into them.  Hostile bytes give TW_BAD_BYTES;
 * *arrays is from `heap` and is the caller's to put back. */
enum tw_status tw_part_unpack(const uint8_t *bytes, size_t len, struct tw_heap *heap,
			      struct tw_array **arrays, size_t *count);
/* The same without the floats: a head, which says what there is, and has the arrays of bytes. */
struct tw_block *tw_part_pack_head(struct tw_heap *heap, const struct tw_array *arrays,
				   size_t count);
/* As tw_part_unpack, of a part or of a head, in which the floats are at NULL. */
enum tw_status tw_part_unpack_head(const uint8_t *bytes, size_t len, struct tw_heap *heap,
				   struct tw_array **arrays, size_t *count);
const struct tw_array *tw_part_find(const struct tw_array *arrays, size_t count, const char *name);

/* What the master's part says, to resume a run. */
struct tw_master_part {
	uint64_t cut, round, generation;
	int64_t release; /* world's clock at which training continued */
	uint64_t steps, samples, redealt, dropped, refused, evaluated_at;
	uint32_t workers, shards, slots, servers;
	int64_t period; /* between cuts, if longer than checkpoint.every; else 0 */
	uint64_t lost_copies;
};
/* The array of this name in a shard's part: its numbers. */
#define TW_SHARD_PART "shard"
struct tw_shard_part {
	uint64_t version, round, corrections, contributions;
	double statistic;
	struct tw_tally tally;
};
/* Find the master's among a cut's parts; TW_ABSENT or TW_BAD_BYTES. */
enum tw_status tw_master_part_read(const struct tw_part *parts, size_t count,
				   struct tw_master_part *out);
/* The time at which a simulated run that resumes this cut continues; 0 if unknown. */
int64_t tw_master_release_time(const struct tw_part *parts, size_t count);

#endif
