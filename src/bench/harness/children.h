/* SPDX-License-Identifier: Apache-2.0 */
/* children.h - processes of a bench: what each does, how it went, and that none is left behind. */
#ifndef TW_BENCH_CHILDREN_H
#define TW_BENCH_CHILDREN_H

#include "base/machine/child.h"
#include "base/status.h"

#include <stddef.h>

/* Memory that children share with us, zeroed; NULL without memory. */
void *tw_shared_new(size_t bytes);
void tw_shared_free(void *memory, size_t bytes); /* NULL is allowed */

struct tw_children {
	struct tw_child *child;
	struct tw_error *why; /* shared with the children: why each failed */
	size_t count, room;
};

/* What a child does; its end is the child's.  `number` counts children from 0. */
typedef enum tw_status (*tw_child_program)(void *arg, size_t number, struct tw_error *why);

enum tw_status tw_children_init(struct tw_children *c, size_t room, struct tw_error *why);
/* Fork one more.  This process has no other threads now.  The child dies with its parent. */
enum tw_status tw_children_add(struct tw_children *c, tw_child_program run, void *arg,
			       struct tw_error *why);
/* Wait until all have ended well.  Where one fails, or after this many seconds, all are killed. */
enum tw_status tw_children_wait(struct tw_children *c, double seconds, struct tw_error *why);
/* Kills and buries those that still run. */
void tw_children_release(struct tw_children *c);

#endif
