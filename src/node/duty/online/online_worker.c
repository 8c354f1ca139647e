/* SPDX-License-Identifier: Apache-2.0 */
/* online_worker.c - a worker tells the score of what it has predicted, before it contributes. */
#include "node/duty/online/online.h"
#include "node/worker/worker.h"

void tw_online_worker_predicted(struct worker *w, struct tw_context *ctx,
				const struct tw_compute *c)
{
	struct tw_msg *m;

	if (!w->plan->online.is)
		return;
	m = tw_worker_to_master(w, ctx, TW_RESULT);
	if (!m)
		return;
	m->h.flags = TW_FLAG_FREE;
	m->b.result = (struct tw_body_result){ .from = c->in.from,
					       .count = c->in.count,
					       .loss = c->score.loss,
					       .correct = c->score.correct };
	tw_send(ctx, m);
}
