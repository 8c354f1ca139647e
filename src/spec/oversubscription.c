/* SPDX-License-Identifier: Apache-2.0 */
/* oversubscription.c - how many workers one machine is asked to run at the same time. */
#include "spec/oversubscription.h"

#include <stdio.h>
#include <unistd.h>

#define PER_CORE 4

bool tw_oversubscribed(uint32_t n, const char *what, char *out, size_t room)
{
	const long online = sysconf(_SC_NPROCESSORS_ONLN);
	const uint32_t cores = online > 0 ? (uint32_t)online : 1;

	if (n <= PER_CORE * cores)
		return false;
	snprintf(out, room,
		 "%u workers as %s share %u core%s and mostly wait for a core, so gradients come "
		 "late; `thalweg sim` simulates a large cluster on a small machine",
		 n, what, cores, cores == 1 ? "" : "s");
	return true;
}
