/* SPDX-License-Identifier: Apache-2.0 */
/* memory_room.c - limits of memory, as the system tells them. */
#include "base/machine/memory_room.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

/* What it uses now, in bytes. */
struct use {
	uint64_t all, resident, data;
};

static struct use use_now(void)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	unsigned long all = 0, resident = 0, data = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (f && fscanf(f, "%lu %lu %*u %*u %*u %lu", &all, &resident, &data) != 3)
		all = resident = data = 0;
	if (f)
		fclose(f);
	return (struct use){ all * page, resident * page, data * page };
}

static void narrow(struct tw_memory_room *room, uint64_t limit, uint64_t used, const char *by)
{
	const uint64_t left = limit > used ? limit - used : 0;

	if (left < room->bytes)
		*room = (struct tw_memory_room){ left, by };
}

static void narrow_by(struct tw_memory_room *room, int resource, uint64_t used, const char *by)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
		narrow(room, limit.rlim_cur, used, by);
}

/* Version 2 of control groups: "0::/path", and /sys/fs/cgroup/path/memory.max has a number or
 * "max".  Groups above it may be tighter; whoever made the limit sees the path in both. */
static void narrow_by_group(struct tw_memory_room *room, uint64_t resident)
{
	char line[4096], path[4200];
	FILE *f = fopen("/proc/self/cgroup", "r");
	uint64_t most = 0;
	bool found = false;

	while (f && !found && fgets(line, sizeof line, f))
		found = strncmp(line, "0::", 3) == 0;
	if (f)
		fclose(f);
	if (!found)
		return;
	line[strcspn(line, "\n")] = '\0';
	snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", line + 3);
	f = fopen(path, "r");
	if (f && fscanf(f, "%" SCNu64, &most) == 1)
		narrow(room, most, resident, "the memory limit of its control group");
	if (f)
		fclose(f);
}

struct tw_memory_room tw_memory_room(void)
{
	struct tw_memory_room room = { UINT64_MAX, "" };
	const struct use use = use_now();
	struct sysinfo machine;

	if (sysinfo(&machine) == 0)
		narrow(&room, ((uint64_t)machine.totalram + machine.totalswap) * machine.mem_unit,
		       use.resident, "the memory of this machine");
	narrow_by_group(&room, use.resident);
	narrow_by(&room, RLIMIT_AS, use.all, "ulimit -v");
	narrow_by(&room, RLIMIT_DATA, use.data, "ulimit -d");
	return room;
}
