/* SPDX-License-Identifier: Apache-2.0 */
/* reduction_owner.h - the moves of a reduction in which each peer adds up one chunk for all; several
 * reductions share them. */
#ifndef TW_STRATEGY_REDUCTION_OWNER_H
#define TW_STRATEGY_REDUCTION_OWNER_H

#include "strategy/reduction.h"

/* As the functions of struct tw_reduction. */
uint32_t tw_owner_chunks(uint32_t peers);
uint32_t tw_owner_moves(uint32_t peers, uint32_t rank, uint32_t chunk);
struct tw_move tw_owner_move(uint32_t peers, uint32_t rank, uint32_t chunk, uint32_t k);
double tw_owner_busiest(const struct tw_reduction_load *load);
double tw_owner_seconds(const struct tw_reduction_load *load);

#endif
