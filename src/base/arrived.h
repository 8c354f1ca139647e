/* SPDX-License-Identifier: Apache-2.0 */
/* arrived.h - how far a stream of samples has come. */
#ifndef TW_BASE_ARRIVED_H
#define TW_BASE_ARRIVED_H

#include <stdbool.h>
#include <stdint.h>

#define TW_ARRIVED_SAID 320

struct tw_arrived {
	uint64_t from, upto; /* the samples at these positions are here: [from, upto) */
	bool full;           /* no more come before some are forgotten */
	bool ended;          /* no more will come */
	uint64_t broken;     /* lines that were left out so far, and what is wrong with one */
	char said[TW_ARRIVED_SAID];
	bool failed; /* it ended because it could not be read any more: `said` says why */
};

#endif
