/* SPDX-License-Identifier: Apache-2.0 */
/* roll_worker.c - a worker says that it is there.  It has no state; the numbers in brackets are
 * those of README.md. */
#include "node/duty/roll/roll.h"
#include "node/worker/worker.h"

/* (1) */
static void renew(void *actor, struct tw_context *ctx)
{
	struct tw_msg *m = tw_worker_to_master(actor, ctx, TW_ROLL);

	if (m)
		tw_send(ctx, m);
}

const struct tw_duty tw_roll_worker = {
	.name = "roll",
	.renew = renew,
};
