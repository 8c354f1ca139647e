/* SPDX-License-Identifier: Apache-2.0 */
/* shard_readers.c - who computes on which version, for gates that make workers begin again.
 *
 *  (1) the list has the workers that were answered and have not pushed since, each once, in the
 *      order of their answers.  Versions grow, so it is in the order of versions.
 *  (2) so an update looks at the front only: at those it tells, and at one more. */
#include "node/shard/shard.h"

static struct shard_reading *linked(const struct shard *s, uint32_t link)
{
	return link ? &s->readers.of[link - 1] : NULL;
}

static uint64_t limit_of(const struct shard *s)
{
	return tw_gate_stops(s->plan->gate, s->plan->gate_options);
}

enum tw_status tw_shard_readers_init(struct shard *s)
{
	const size_t all = s->members.senders;

	if (!limit_of(s))
		return TW_OK;
	s->readers.of = tw_heap_zeros(s->heap, (all ? all : 1) * sizeof *s->readers.of);
	return s->readers.of ? TW_OK : TW_NO_MEMORY;
}

void tw_shard_readers_release(struct shard *s)
{
	s->heap->put(s->heap, s->readers.of);
	s->readers = (struct shard_readers){ .of = NULL };
}

void tw_shard_reads_no_more(struct shard *s, uint32_t slot)
{
	struct shard_reading *r = s->readers.of ? &s->readers.of[slot] : NULL;
	struct shard_reading *before, *after;

	if (!r || !r->listed)
		return;
	before = linked(s, r->before);
	after = linked(s, r->after);
	*(before ? &before->after : &s->readers.first) = r->after;
	*(after ? &after->before : &s->readers.last) = r->before;
	*r = (struct shard_reading){ .listed = false };
}

void tw_shard_reads(struct shard *s, uint32_t slot)
{
	struct shard_reading *last;

	if (!s->readers.of)
		return;
	tw_shard_reads_no_more(s, slot);
	last = linked(s, s->readers.last);
	HOLDS(1, !last || last->version <= s->slice.version.n);
	s->readers.of[slot] = (struct shard_reading){ .listed = true,
						      .before = s->readers.last,
						      .version = s->slice.version.n };
	*(last ? &last->after : &s->readers.first) = slot + 1;
	s->readers.last = slot + 1;
}

/* What this worker read at `version` is too old: it may as well begin again. */
static void stop(struct shard *s, struct tw_context *ctx, uint32_t slot, uint64_t version)
{
	const struct shard_worker *g = tw_shard_worker(s, slot);
	struct tw_msg *m = tw_shard_to_worker(s, ctx, g, TW_ACK);

	if (!m)
		return;
	m->h.flags = TW_FLAG_STALE | tw_shard_worker_flags(g);
	m->b.ack = (struct tw_body_ack){ .version = { .incarnation = s->slice.version.incarnation,
						      .n = version },
					 .link = g->link,
					 .unapplied = g->unapplied,
					 .late = g->late };
	tw_send(ctx, m);
}

void tw_shard_stop_late(struct shard *s, struct tw_context *ctx)
{
	const uint64_t limit = limit_of(s);

	while (limit && s->readers.first) {
		const uint32_t slot = s->readers.first - 1;
		const uint64_t version = linked(s, slot + 1)->version;

		if (s->slice.version.n - version < limit)
			return;
		tw_shard_reads_no_more(s, slot);
		stop(s, ctx, slot, version);
	}
}
