/* SPDX-License-Identifier: Apache-2.0 */
/* watch.h - for whom the master waits, how long, and who is removed: README.md says what it
 * promises, and in which order messages go.  The only header of this folder that others include. */
#ifndef TW_NODE_DUTY_WATCH_WATCH_H
#define TW_NODE_DUTY_WATCH_WATCH_H

#include "actor/cluster.h"

struct master;
struct tw_duty;

/* Named by master.c alone. */
extern const struct tw_duty tw_watch_master;

/* Set TIMER_STUCK, where somebody may be stuck at all. */
void tw_watch_master_start(struct master *m, struct tw_context *ctx);
/* TIMER_STUCK: remove members that others have waited for too long. */
void tw_watch_master_check(struct master *m, struct tw_context *ctx);
/* Set and clear the timers of cluster.wait. */
void tw_watch_master_count(struct master *m, struct tw_context *ctx);
/* TIMER_GATHER, TIMER_PAUSE, TIMER_HOMELESS: servers had time to come; so had workers; so had a
 * server for every shard. */
void tw_watch_master_servers_due(struct master *m, struct tw_context *ctx);
void tw_watch_master_waited(struct master *m, struct tw_context *ctx);
void tw_watch_master_homeless(struct master *m, struct tw_context *ctx);
/* As tw_actor_class.waiting says. */
bool tw_watch_master_waiting(const struct tw_actor *a, struct tw_wait *out);

#endif
