/* SPDX-License-Identifier: Apache-2.0 */
/* roll_master.c - counts members that have not said ROLL.  The numbers in brackets are those of
 * README.md. */
#include "node/duty/roll/roll.h"
#include "node/master/master.h"

#include <stddef.h>

struct roll_master {
	bool *awaited;    /* by slot */
	uint32_t waiting; /* slots that are awaited */
};

static enum tw_status open_roll(void *actor)
{
	struct master *m = actor;

	m->roll->awaited = tw_heap_zeros(m->heap, m->plan->crew.workers * sizeof *m->roll->awaited);
	return m->roll->awaited ? TW_OK : TW_NO_MEMORY;
}

static void close_roll(void *actor)
{
	struct master *m = actor;

	m->heap->put(m->heap, m->roll->awaited);
}

static void await(struct roll_master *r, uint32_t slot, bool is)
{
	r->waiting += (uint32_t)is - (uint32_t)r->awaited[slot];
	r->awaited[slot] = is;
}

static void joined(void *actor, struct tw_context *ctx, uint32_t slot)
{
	(void)ctx;
	await(((struct master *)actor)->roll, slot, true);
}

/* It has gone, or (1) was heard of anew. */
static void settled(void *actor, struct tw_context *ctx, uint32_t slot)
{
	(void)ctx;
	await(((struct master *)actor)->roll, slot, false);
}

static void message(void *actor, struct tw_context *ctx, const struct tw_msg *msg)
{
	(void)ctx;
	await(((struct master *)actor)->roll, msg->h.from, false);
}

/* (2) */
static bool idle(void *actor, struct tw_context *ctx)
{
	(void)ctx;
	return !((struct master *)actor)->roll->waiting;
}

const struct tw_duty tw_roll_master = {
	.name = "roll",
	.bytes = sizeof(struct roll_master),
	.place = offsetof(struct master, roll),
	.hears = TW_HEARS(TW_ROLL),
	.open = open_roll,
	.close = close_roll,
	.message = message,
	.joined = joined,
	.lost = settled,
	.back = settled,
	.idle = idle,
};
