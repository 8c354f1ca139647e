/* SPDX-License-Identifier: Apache-2.0 */
/* peer_costs.h - what exchanges among workers without servers take, against the simulator. */
#ifndef TW_TEST_JOB_PEER_COSTS_H
#define TW_TEST_JOB_PEER_COSTS_H

#include <stdint.h>

/* Each fails the test where a prediction is wrong.  `model`: the sections data: and model:. */

/* Rounds with from `least` to `most` workers, four times as many each time, from idle links to full
 * ones: to 15 %. */
void peer_cost_rounds(const char *model, uint32_t least, uint32_t most, uint32_t rounds);
/* Where computing is short and not random, a step is the sum: to 5 %; with 2, 3, 8, 13 and 64
 * workers, up to `most`. */
void peer_cost_sums(const char *model, uint32_t most);
/* Replicas that differ, where the computing decides and where the network cards do: to 15 %; with
 * 2, 5 and 16 workers, up to `most`. */
void peer_cost_mixings(const char *model, uint32_t most);

#endif
