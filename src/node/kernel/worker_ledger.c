/* SPDX-License-Identifier: Apache-2.0 */
/* worker_ledger.c - the books of a worker's leases: what is done, and what is to be dealt
 * again, until the master confirms it. */
#include "base/grow.h"
#include "node/worker/worker.h"

bool tw_ledger_again(struct worker *w, struct tw_context *ctx, const struct tw_range *r)
{
	struct worker_leases *l = &w->leases;

	for (uint32_t k = 0; k < l->count; k++) {
		if ((uint32_t)l->held[k].id != r->lease)
			continue;
		if (!TW_GROW(w->heap, l->again, l->again_room, l->again_count,
			     (size_t)l->again_count + 1)) {
			tw_give_up(ctx, TW_NO_MEMORY, "no memory for leases");
			return false;
		}
		l->again[l->again_count++] =
			(struct given_back){ l->held[k].id, r->from, r->count };
		return true;
	}
	return true;
}

bool tw_ledger_done(struct worker *w, struct tw_context *ctx, struct done d)
{
	struct worker_leases *l = &w->leases;

	if (!TW_GROW(w->heap, l->done, l->done_room, l->done_count, (size_t)l->done_count + 1)) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for leases");
		return false;
	}
	l->done[l->done_count++] = d;
	return true;
}

void tw_ledger_confirmed(struct worker_leases *l, uint64_t upto)
{
	uint32_t kept = 0;

	for (uint32_t k = 0; k < l->done_count; k++)
		if (l->done[k].id > upto)
			l->done[kept++] = l->done[k];
	l->done_count = kept;
	kept = 0;
	for (uint32_t k = 0; k < l->again_count; k++)
		if (l->again[k].id > upto)
			l->again[kept++] = l->again[k];
	l->again_count = kept;
}
