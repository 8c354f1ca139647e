/* SPDX-License-Identifier: Apache-2.0 */
/* cores.h - the processor cores that this process may use. */
#ifndef TW_BASE_CORES_H
#define TW_BASE_CORES_H

#include <stddef.h>
#include <stdint.h>

/* How many there are; at least 1. */
uint32_t tw_cores(void);
/* Keep this thread, and those that it starts from now on, to share k of n of these cores.
 * Processes that work in turns wake each other so often that the system would have them all on one.
 * Where there are fewer cores than shares, or the system does not allow it, nothing changes. */
void tw_cores_keep_share(uint32_t k, uint32_t n);
/* What the system calls the processor, or "unknown". */
void tw_cpu_name(char *out, size_t room);

#endif
