/* SPDX-License-Identifier: Apache-2.0 */
/* memory_room.h - how much more memory this process may use. */
#ifndef TW_BASE_MEMORY_ROOM_H
#define TW_BASE_MEMORY_ROOM_H

#include <stdint.h>

/* What limits it, as people know it: "ulimit -v". */
struct tw_memory_room {
	uint64_t bytes; /* beyond what it uses now; UINT64_MAX: no limit is known */
	const char *by;
};

/* The tightest of: its limits of address space and of data, the memory of its control group, and
 * that of the machine with its swap. */
struct tw_memory_room tw_memory_room(void);

#endif
