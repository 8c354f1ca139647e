/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_worker.c - a worker, or a cell of one: gives its part of a checkpoint.  What is in
 * it is in worker_state.c. */
#include "node/duty/checkpoint/checkpoint.h"
#include "node/worker/worker.h"

static void message(void *actor, struct tw_context *ctx, const struct tw_msg *m)
{
	struct worker *w = actor;
	struct tw_msg *out = tw_worker_to_master(w, ctx, TW_PART);

	if (!out)
		return;
	out->b.part = (struct tw_body_part){ .cut = m->b.snap.cut, .slot = w->me.id.slot };
	out->payload = tw_kept_part(w);
	if (!out->payload) {
		ctx->world->msg_free(ctx, out);
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for worker %u's part of a checkpoint",
			   w->me.id.slot);
		return;
	}
	out->h.payload = (uint32_t)out->payload->bytes;
	tw_send(ctx, out);
}

const struct tw_duty tw_checkpoint_worker = {
	.name = "checkpoint",
	.hears = TW_HEARS(TW_SNAP),
	.message = message,
};
