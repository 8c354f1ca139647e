/* SPDX-License-Identifier: Apache-2.0 */
/* taker.h - the seat of the one who takes a contribution at a shard.
 *
 * There is one holder per plan, chosen when the shard opens: contributions go into a bucket
 * (shard_push.c), wait for their round (duty/round) or for the master's verdict
 * (duty/verdict), are added up with those of other replicas (duty/reduce), or spread to them
 * (duty/mix); a portion of an evaluation is added up (duty/batch). */
#ifndef TW_NODE_KERNEL_TAKER_H
#define TW_NODE_KERNEL_TAKER_H

#include "actor/cluster.h"

struct contribution;
struct shard;
struct tw_wait;

struct tw_taker {
	const char *name;
	/* PUSH of a worker that may speak for this slot: take it, once and in order, or say why
	 * not, and acknowledge it. */
	void (*push)(struct shard *s, struct tw_context *ctx, uint32_t slot,
		     const struct tw_msg *m);

	/* COMMIT: what waited is applied.  NULL: nothing waits for the master. */
	void (*commit)(struct shard *s, struct tw_context *ctx, const struct tw_msg *m);

	/* How many contributions of this worker are here and not closed?  NULL: none. */
	uint32_t (*open)(const struct shard *s, uint32_t slot);

	/* Those who take contributions share `push` (tw_shard_push_contribution), which checks and
	 * decodes; these are what differs.  NULL: nothing is to be done. */

	/* It was closed before, or by an earlier life of this shard. */
	void (*seen)(struct shard *s, struct tw_context *ctx, uint32_t slot,
		     const struct tw_msg *m);
	bool acknowledges; /* then it is acknowledged at once, even if an answer follows */
	/* It was computed on another life of this shard. */
	void (*fenced)(struct shard *s, struct tw_context *ctx, uint32_t slot,
		       const struct tw_msg *m);
	/* Is it too late, or promised already?  Then it is answered. */
	bool (*is_late)(struct shard *s, struct tw_context *ctx, uint32_t slot,
			const struct tw_msg *m);
	/* It is checked: takes it over.  TW_BAD_BYTES: it is not finite after all, and stays the
	 * caller's.  TW_REFUSED: it was refused. */
	enum tw_status (*take)(struct shard *s, struct tw_context *ctx, struct contribution *c,
			       const struct tw_msg *m);
	/* It has failed its check. */
	void (*reject)(struct shard *s, struct tw_context *ctx, uint32_t slot,
		       const struct tw_msg *m);
	/* It is staged for its round.  TW_BAD_BYTES, TW_REFUSED: as `take`. */
	enum tw_status (*staged)(struct shard *s, struct tw_context *ctx, struct contribution *c);
	/* SPREAD: a contribution that another replica has taken. */
	void (*other)(struct shard *s, struct tw_context *ctx, const struct tw_msg *m);

	/* So much is under way that nobody is answered; *whom: the slot waited for. */
	bool (*full)(const struct shard *s, uint32_t *whom);
	/* The worker of this slot asks for its last answer, and leaves when it has it. */
	void (*leaves)(struct shard *s, struct tw_context *ctx, uint32_t slot);
	/* For whom does this shard wait?  False: for nobody.  NULL: for whom its oldest request
	 * waits. */
	bool (*waits)(const struct shard *s, struct tw_wait *out);
	/* The master asks who holds up the formation `attempt`, or everybody: a slot, since when
	 * it is waited for, and for how many others that one waits first.  NULL: as `waits`. */
	bool (*held_by)(const struct shard *s, uint64_t attempt, struct tw_wait *out,
			uint32_t *depth);
};

#endif
