/* SPDX-License-Identifier: Apache-2.0 */
/* cores.c - which cores a process may use, and a share of them. */
#include "base/machine/cores.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

uint32_t tw_cores(void)
{
	const long online = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t all;

	if (sched_getaffinity(0, sizeof all, &all) == 0)
		return (uint32_t)CPU_COUNT(&all);
	return online > 1 ? (uint32_t)online : 1;
}

void tw_cores_keep_share(uint32_t k, uint32_t n)
{
	cpu_set_t all, mine;
	uint32_t count, seen = 0;

	if (!n || k >= n || sched_getaffinity(0, sizeof all, &all) != 0)
		return;
	count = (uint32_t)CPU_COUNT(&all);
	if (count < n)
		return;
	CPU_ZERO(&mine);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		if ((uint64_t)seen * n / count == k)
			CPU_SET(cpu, &mine);
		seen++;
	}
	sched_setaffinity(0, sizeof mine, &mine); /* not allowed: as before */
}

void tw_cpu_name(char *out, size_t room)
{
	FILE *f = fopen("/proc/cpuinfo", "r");
	char line[300];

	snprintf(out, room, "unknown");
	while (f && fgets(line, sizeof line, f)) {
		const char *colon = strchr(line, ':');

		if (strncmp(line, "model name", 10) != 0 || !colon)
			continue;
		colon += 1 + strspn(colon + 1, " ");
		snprintf(out, room, "%.*s", (int)strcspn(colon, "\n"), colon);
		break;
	}
	if (f)
		fclose(f);
}
