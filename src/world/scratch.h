/* SPDX-License-Identifier: Apache-2.0 */
/* scratch.h - a computing thread's scratch: it grows to what its computations ask for.
 *
 * A thread that computes one stage of a model so never has the memory that all of it would need. */
#ifndef TW_WORLD_SCRATCH_H
#define TW_WORLD_SCRATCH_H

#include "actor/actor.h"

struct scratch {
	void *at;
	size_t bytes;
};

/* Run c->pass with c->in, or with the given copy of it. */
static inline enum tw_status tw_scratch_run(struct scratch *s, struct tw_heap *heap,
					    const struct tw_engine *e, const struct tw_inputs *in,
					    struct tw_compute *c)
{
	const size_t bytes = c->scratch ? c->scratch : e->scratch_bytes;

	if (bytes > s->bytes || !s->at) {
		heap->put(heap, s->at);
		s->at = heap->get(heap, bytes);
		s->bytes = s->at ? bytes : 0;
	}
	if (!s->at)
		return TW_NO_MEMORY;
	return tw_engine_run(e, s->at, in, &c->pass, c->gradient, &c->score);
}

#endif
