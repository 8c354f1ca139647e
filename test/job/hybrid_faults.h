/* SPDX-License-Identifier: Apache-2.0 */
/* hybrid_faults.h - workers of several stages that lose a cell, at every event in turn. */
#ifndef TW_TEST_JOB_HYBRID_FAULTS_H
#define TW_TEST_JOB_HYBRID_FAULTS_H

#include <stdint.h>

/* Two workers of three stages, under every kind of gate and schedule: crash each cell at every
 * `stride`-th event, to come back or not.  Fails the test, naming job, seed and fault, unless the
 * run ends by itself, in time, and its samples are accounted for.  Returns the number of runs. */
uint64_t hybrid_faults(uint32_t seed, uint32_t stride);
/* The same of workers whose stages have several lanes. */
uint64_t lane_faults(uint32_t seed, uint32_t stride);

#endif
