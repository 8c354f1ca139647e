/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_shard.c - a shard: gives its part of a checkpoint, or at the end its vector.  What
 * goes into either is one version. */
#include "node/duty/checkpoint/checkpoint.h"
#include "node/duty/eval/eval.h"
#include "node/shard/shard.h"

static void send_part(struct shard *s, struct tw_context *ctx, const struct tw_msg *snap)
{
	const uint64_t cut = snap->b.snap.cut;
	struct tw_msg *out = tw_shard_to_master(s, ctx, TW_PART);

	if (!out)
		return;
	out->b.part.cut = cut;
	out->b.part.round = s->slice.round;
	out->payload = cut ? tw_slice_pack(&s->slice) : tw_slice_snapshot(&s->slice);
	if (!out->payload) {
		ctx->world->msg_free(ctx, out);
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a checkpoint of shard %u", s->index);
		return;
	}
	/* the vector without the state behind it */
	out->h.payload = (uint32_t)(cut ? out->payload->bytes : s->slice.n * sizeof(float));
	out->h.flags = snap->h.flags & TW_FLAG_FREE;
	tw_send(ctx, out);
}

/* SNAP: apply what is collected, take the view of a pin, give a part, or all of it. */
static void message(void *actor, struct tw_context *ctx, const struct tw_msg *m)
{
	struct shard *s = actor;

	if (m->b.snap.flush && s->bucket.count)
		tw_bucket_flush(s, ctx);
	if (tw_eval_shard_deliver(s, m->b.snap.pin) != TW_OK) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for the result of shard %u", s->index);
		return;
	}
	if (m->b.snap.part)
		send_part(s, ctx, m);
}

const struct tw_duty tw_checkpoint_shard = {
	.name = "checkpoint",
	.hears = TW_HEARS(TW_SNAP),
	.message = message,
};
