/* SPDX-License-Identifier: Apache-2.0 */
/* peer_faults.h - replicas without a server under faults: loops for the short and the long tests.
 *
 * Each run is watched as in faultrun.h; besides, no replica may ever differ from the others, and
 * where no more than one dies at a time, nothing goes back to a checkpoint. */
#ifndef TW_TEST_JOB_PEER_FAULTS_H
#define TW_TEST_JOB_PEER_FAULTS_H

#include "faultrun.h"

#define PEER_FAULTS_VALUES 13 /* parameters of a run's problem */

/* All of these return the number of failures, which they print with the command that replays them.
 * They stop after twenty. */

/* For every reduction: kill each of four peers, and the master, at every `stride`-th event: for
 * ever, back at once (a joiner at every event), back later. */
unsigned long peer_faults_kills(uint64_t stride);
/* Two peers at once, or one shortly after the other. */
unsigned long peer_faults_pairs(uint64_t stride);
/* Crashes, partitions, resets, slow nodes and loss, drawn from seeds. */
unsigned long peer_faults_seeds(uint64_t first, uint64_t count);
/* For every reduction and up to `most` peers: each of them has a contribution that is not finite,
 * in each of its values in turn.  It is refused, and counted, once. */
unsigned long peer_faults_numbers(uint32_t most);
/* Peers that leave, more peers than places, contributions that are not finite. */
unsigned long peer_faults_leaves(uint64_t first, uint64_t count);

#endif
