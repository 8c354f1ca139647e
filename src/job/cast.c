/* SPDX-License-Identifier: Apache-2.0 */
/* cast.c - the actors of a plan and where they sit. */
#include "job/cast.h"

#include <stdlib.h>

enum tw_status tw_cast_init(struct tw_cast *c, const struct tw_plan *p, bool resume)
{
	const size_t seats = 1 + (size_t)p->servers * (1 + p->shards) + p->workers;
	struct tw_role_arg *master, *worker, *shard;
	struct tw_seat *s;

	*c = (struct tw_cast){
		.seat = calloc(seats, sizeof *c->seat),
		.seats = seats,
		.arg = calloc(1 + (size_t)p->shards + p->workers, sizeof *c->arg),
	};
	if (!c->seat || !c->arg) {
		tw_cast_release(c);
		return TW_NO_MEMORY;
	}
	master = c->arg;
	shard = master + 1;
	worker = shard + p->shards;
	s = c->seat;

	*master = (struct tw_role_arg){ .plan = p, .resume = resume };
	for (uint32_t k = 0; k < p->shards; k++)
		shard[k] = (struct tw_role_arg){ .plan = p, .index = k };
	*s++ = (struct tw_seat){ tw_master_addr(), &tw_master_class, master };
	for (uint32_t n = 1; n <= p->servers; n++) {
		*s++ = (struct tw_seat){ { n, TW_SERVER, 0 }, &tw_server_class, master };
		for (uint32_t k = 0; k < p->shards; k++)
			*s++ = (struct tw_seat){ { n, TW_SHARD, (uint16_t)k },
						 &tw_shard_class,
						 &shard[k] };
	}
	for (uint32_t k = 0; k < p->workers; k++) {
		worker[k] = (struct tw_role_arg){ .plan = p, .index = k };
		*s++ = (struct tw_seat){ { tw_plan_worker_node(p, k), TW_WORKER, 0 },
					 &tw_worker_class,
					 &worker[k] };
	}
	return TW_OK;
}

void tw_cast_release(struct tw_cast *c)
{
	free(c->seat);
	free(c->arg);
	*c = (struct tw_cast){ .seat = NULL };
}
