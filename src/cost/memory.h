/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h - what nodes hold of vectors; for the files of this folder. */
#ifndef TW_COST_MEMORY_H
#define TW_COST_MEMORY_H

#include "cost/links.h"
#include "actor/engine.h"

/* Bytes of the server with the most shards. */
double tw_cost_server_memory(const struct tw_plan *plan, const struct tw_cost_links *links);
/* Bytes of all shards on the node of a worker, where each has a replica. */
double tw_cost_replica_memory(const struct tw_plan *plan, const struct tw_cost_links *links);
/* Bytes of a worker, without its data set. */
double tw_cost_worker_memory(const struct tw_plan *plan, const struct tw_cost_links *links,
			     const struct tw_engine *engine);

#endif
