/* SPDX-License-Identifier: Apache-2.0 */
/* wild.h - simulated clusters drawn from a seed: every field that a job has, faults of every kind,
 * and everything that must hold at the end.
 *
 * Where faultrun.h walks through faults of one small cluster, this draws the cluster, too: slow
 * links with frequent checkpoints, jitter longer than the limits of failure detection, masters that
 * crash several times in a row, workers that leave around a restart, cluster.min above 1. */
#ifndef TW_TEST_JOB_WILD_H
#define TW_TEST_JOB_WILD_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WILD_TEXT 4096

struct wild_end {
	enum tw_status status;
	uint64_t events;
	int64_t virtual_ns;
};

/* The job of this seed as YAML. */
void wild_describe(uint64_t seed, char out[WILD_TEXT]);
/* Run a job in the simulator.  NULL if everything held, else a sentence (static buffer).
 * A run must end by itself, and within a time that its work and its faults explain. */
const char *wild_run(const char *text, bool loud, struct wild_end *end);
/* Run the jobs of these seeds, print what failed with the command that replays it, and return how
 * many did; it stops after twenty. */
unsigned long wild_seeds(uint64_t first, uint64_t count);

#endif
