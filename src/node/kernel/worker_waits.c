/* SPDX-License-Identifier: Apache-2.0 */
/* worker_waits.c - for whom a worker waits, and for what. */
#include "node/duty/samples/samples.h"
#include "node/worker/worker.h"

/* The first holder that keeps it from going on; NULL: none.  *why says how. */
static const struct holder *held_up(const struct worker *w, const char **why)
{
	for (uint32_t k = 0; k < w->exchange.holders; k++) {
		const struct holder *h = &w->exchange.holder[k];

		if (!h->known) {
			if (!w->leases.count)
				continue;
			*why = "a server to host it";
			return h;
		}
		if (h->request != TW_REQUEST_NONE || h->closed < h->sent) {
			*why = h->down ? "its server, which cannot be reached"
			       : h->request == TW_REQUEST_PULL ? "its parameters"
							       : "its answer to push";
			return h;
		}
	}
	return NULL;
}

bool tw_worker_waits(const struct worker *w, struct tw_wait *out)
{
	const bool member = tw_worker_is_member(w);
	const struct holder *h;

	if (w->me.state == WORKER_OVER || w->me.state == WORKER_LEFT || tw_worker_busy(w))
		return false;
	*out = (struct tw_wait){ .slot = w->me.id.slot, .since = w->since };
	if (member && (h = held_up(w, &out->why))) {
		const struct tw_addr nowhere = { UINT32_MAX, TW_SHARD, (uint16_t)h->shard };

		out->whom = h->known ? h->addr : nowhere;
		if (h->known && !h->down && h->request != TW_REQUEST_PULL)
			out->step = w->exchange.seq; /* behind the words "its answer to push" */
		return true;
	}
	if (member && tw_samples_worker_waits(w)) {
		out->whom = tw_master_addr();
		out->why = "samples of its next step";
		return true;
	}
	if (member && w->driver->waits && w->driver->waits(w, out))
		return true;
	out->whom = tw_master_addr();
	out->why = member                          ? "work to do"
		   : w->me.state == WORKER_WAITING ? "a free place"
						   : "a welcome";
	return true;
}
