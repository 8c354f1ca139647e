/* SPDX-License-Identifier: Apache-2.0 */
/* crowd_heap.h - a heap for very many small things, such as 100,000 simulated workers.
 *
 * Blocks up to TW_CROWD_SMALL bytes come from size classes that are multiples of TW_ALIGN, one
 * right after the other in pages that the system may make huge: no headers, no gaps, few pages to
 * look up.  Larger ones come from the heap below.
 *
 *  (1) what is inside [region, region + size) is small, and everything else is not.
 *  (2) the heap lives until it was released and every block came back, small or large. */
#ifndef TW_BASE_CROWD_HEAP_H
#define TW_BASE_CROWD_HEAP_H

#include "base/heap.h"

#define TW_CROWD_SMALL 4096u

/* NULL without memory, or where the system does not give address space: use `below` then. */
struct tw_heap *tw_crowd_heap_new(struct tw_heap *below);
/* No more is taken from it; blocks may still come back.  NULL is allowed. */
void tw_crowd_heap_release(struct tw_heap *heap);

#endif
