/* SPDX-License-Identifier: Apache-2.0 */
/* memory_store.h - a store that keeps cuts in memory: for runs without a directory, and for tests.
 * */
#ifndef TW_WORLD_MEMORY_STORE_H
#define TW_WORLD_MEMORY_STORE_H

#include "actor/cluster.h"

/* Keeps the newest two cuts.  NULL without memory. */
struct tw_store *tw_memory_store_new(struct tw_heap *heap);
void tw_memory_store_free(struct tw_store *s);

#endif
