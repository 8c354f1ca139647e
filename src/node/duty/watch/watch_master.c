/* SPDX-License-Identifier: Apache-2.0 */
/* watch_master.c - the table of the duty. */
#include "node/duty/watch/watch_state.h"

#include <stddef.h>

void tw_watch_master_check(struct master *m, struct tw_context *ctx)
{
	tw_watch_awake(m, ctx);
	tw_watch_check_stalled(m, ctx);
	tw_watch_check_stuck(m, ctx);
	tw_watch_check_standstill(m, ctx);
	tw_watch_master_start(m, ctx);
}

static enum tw_status open_watch(void *actor)
{
	return tw_watch_stalled_open(actor);
}

static void close_watch(void *actor)
{
	tw_watch_stalled_close(actor);
}

static void message(void *actor, struct tw_context *ctx, const struct tw_msg *msg)
{
	if (msg->h.flags & TW_FLAG_HELD)
		tw_watch_stalled_hear(actor, ctx, msg);
}

const struct tw_duty tw_watch_master = {
	.name = "watch",
	.bytes = sizeof(struct watch_master),
	.place = offsetof(struct master, watch),
	.hears = TW_HEARS(TW_HAVE),
	.open = open_watch,
	.close = close_watch,
	.message = message,
};
