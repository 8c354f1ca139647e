/* SPDX-License-Identifier: Apache-2.0 */
/* actor.c - the few words every actor says the same way. */
#include "actor/actor.h"
#include "actor/cluster.h"

#include <stdio.h>
#include <string.h>

void *tw_msg_tail(struct tw_context *ctx, struct tw_msg *m, size_t bytes)
{
	m->tail = tw_block_new(ctx->heap, bytes);
	if (!m->tail) {
		ctx->world->msg_free(ctx, m);
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a message's tail of %zu bytes", bytes);
		return NULL;
	}
	m->h.tail = (uint32_t)bytes;
	return m->tail->data;
}

void tw_give_up(struct tw_context *ctx, enum tw_status status, const char *format, ...)
{
	struct tw_totals totals = { .status = status };
	va_list args;

	va_start(args, format);
	vsnprintf(totals.text, sizeof totals.text, format, args);
	va_end(args);
	ctx->world->finish(ctx, status, &totals);
}

void tw_say(struct tw_context *ctx, enum tw_level level, const char *format, ...)
{
	char line[400];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	ctx->world->log(ctx, level, line);
}

void tw_totals_release(struct tw_totals *t)
{
	if (!t->vector)
		return;
	for (uint32_t s = 0; s < t->shards; s++)
		tw_block_drop(t->vector[s]);
	t->vector_heap->put(t->vector_heap, t->vector);
	t->vector = NULL;
}
