/* SPDX-License-Identifier: Apache-2.0 */
/* cards.h - the moves of a reduction, played over network cards.
 *
 * A card sends one message at a time and receives one at a time, both at once.  A message takes
 * latency + bytes * per_byte on idle cards; the receiving one begins with the first byte. */
#ifndef TW_COST_CARDS_H
#define TW_COST_CARDS_H

#include "strategy/reduction.h"

/* Seconds until all peers that begin at once have the sum, from the moves; NAN without memory. */
double tw_cost_cards(const struct tw_reduction *r, const struct tw_reduction_load *load);
/* The same, by the reduction's own formula where it has one. */
double tw_cost_reduction(const struct tw_reduction *r, const struct tw_reduction_load *load);
/* Seconds from when the last peer is ready until all have the sum.  ready: when one, two, ... of
 * them are, ascending; any rank may be any of them.  By the reduction's own formula where it has
 * one, which is for peers that begin at once.  NAN without memory. */
double tw_cost_reduction_left(const struct tw_reduction *r, const struct tw_reduction_load *load,
			      const double *ready);

#endif
