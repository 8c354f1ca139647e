/* SPDX-License-Identifier: Apache-2.0 */
/* stage_faults.h - shards on the nodes of the cells that compute their stages, which are lost or
 * cut off. */
#ifndef TW_TEST_JOB_STAGE_FAULTS_H
#define TW_TEST_JOB_STAGE_FAULTS_H

#include <stdint.h>

/* Three stages under every schedule: each cell, and the master, crashes at every `stride`-th event,
 * mostly to come back.  Fails the test, naming schedule, seed and fault, unless the run ends by
 * itself with all shards at the same update and all samples in it; or, without a cell that has not
 * come back, with a checkpoint.  Returns the number of events that were tried. */
uint64_t stage_faults_crashes(uint32_t seed, uint32_t stride);
/* The same of cells of stages that have several lanes. */
uint64_t stage_faults_lanes(uint32_t seed, uint32_t stride);
/* The same with connections that break, partitions and a slow node, at moments of the run. */
uint64_t stage_faults_links(uint32_t seed);

#endif
