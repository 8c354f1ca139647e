/* SPDX-License-Identifier: Apache-2.0 */
/* samples_master.c - the master gives samples to whoever asks for them.  The numbers in brackets
 * are those of README.md. */
#include "node/duty/samples/samples.h"
#include "node/master/master.h"

#include <stddef.h>

struct samples_master {
	uint64_t samples, bytes; /* sent */
};

void tw_samples_master_count(const struct master *m, struct tw_totals *t)
{
	t->sent_samples = m->samples ? m->samples->samples : 0;
	t->sent_bytes = m->samples ? m->samples->bytes : 0;
}

/* (1) */
static struct tw_block *pack(struct tw_context *ctx, const struct tw_body_fetch *b)
{
	const struct tw_engine *e = ctx->engine;
	struct tw_block *block = tw_block_new(ctx->heap, e->class->given_bytes(e, b->count));
	enum tw_status st = TW_NO_MEMORY;

	if (block)
		st = e->class->give(e, b->from, b->count, block->data);
	if (st == TW_OK)
		return block;
	tw_block_drop(block);
	tw_give_up(ctx, st, "samples could not be sent: %s", tw_status_name(st));
	return NULL;
}

static void message(void *actor, struct tw_context *ctx, const struct tw_msg *m)
{
	struct master *master = actor;
	struct samples_master *s = master->samples;
	struct tw_block *block = pack(ctx, &m->b.fetch);
	struct tw_msg *answer;

	if (!block)
		return;
	answer = tw_master_to_worker(master, ctx, m->h.from, TW_SAMPLES);
	if (!answer) {
		tw_block_drop(block);
		return;
	}
	answer->h.incarnation = m->h.incarnation;
	answer->b.fetch = m->b.fetch;
	answer->payload = block;
	answer->h.payload = (uint32_t)block->bytes;
	s->samples += m->b.fetch.count;
	s->bytes += block->bytes;
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_SENT,
					.slot = m->h.from,
					.from = m->b.fetch.from,
					.count = m->b.fetch.count,
					.sent.bytes = block->bytes });
	tw_send(ctx, answer);
}

const struct tw_duty tw_samples_master = {
	.name = "samples",
	.bytes = sizeof(struct samples_master),
	.place = offsetof(struct master, samples),
	.hears = TW_HEARS(TW_FETCH),
	.wanted = tw_plan_sends_samples,
	.message = message,
};
