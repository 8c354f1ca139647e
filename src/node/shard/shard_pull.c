/* SPDX-License-Identifier: Apache-2.0 */
/* shard_pull.c - a worker wants to read: it is answered now, or when the gate lets it. */
#include "node/shard/shard.h"

/* Does the worker have what it would be sent? */
static bool is_unchanged(const struct shard *s, const struct tw_msg *m)
{
	const struct tw_version *have = &m->b.pull.have, *now = &s->slice.version;

	return !(m->h.flags & TW_FLAG_FRESH) && have->incarnation == now->incarnation &&
	       have->n == now->n && !tw_shard_lockfree(s) && !s->slice.view.moved;
}

void tw_shard_pull(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_pull *p = &m->b.pull;
	const uint32_t slot = tw_shard_sender(s, m);
	struct shard_worker *g = tw_shard_worker(s, slot);
	uint32_t whom;

	if (p->pin) {
		tw_shard_answer_view(s, ctx, slot, p);
		return;
	}
	if (tw_shard_outdated(g, p->number))
		return;
	if (p->link > g->link)
		tw_shard_worker_close(g, p->link, g->seq, true);
	tw_shard_clock(s, slot, p->clock);
	if ((m->h.flags & TW_FLAG_LEAVE) && s->taker->leaves)
		s->taker->leaves(s, ctx, slot);
	if (tw_shard_may_read(s, slot, p->round, &whom)) {
		tw_shard_unpark(s, slot);
		if (is_unchanged(s, m))
			tw_shard_answer_unchanged(s, ctx, slot, p->number);
		else
			tw_shard_answer(s, ctx, slot, p->number, 0);
	} else {
		tw_shard_park(s, ctx, slot, p->number, p->round);
	}
	tw_shard_release(s, ctx); /* its clock may be what others have waited for */
}
