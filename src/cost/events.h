/* SPDX-License-Identifier: Apache-2.0 */
/* events.h - messages on their way between network cards, for what is played instead of predicted
 * by a formula; for the files of this folder. */
#ifndef TW_COST_EVENTS_H
#define TW_COST_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What happens at a time; all but the first two fields are the player's own. */
struct tw_cost_event {
	double at;
	uint64_t number; /* of two at once, the one that was added first comes first */
	double lasts;
	uint32_t kind, to, chunk, part, move;
};

/* Zeros are an empty list. */
struct tw_cost_events {
	struct tw_cost_event *heap;
	size_t count, room;
	uint64_t numbers;
	bool full; /* no memory: some are missing */
};

void tw_cost_events_add(struct tw_cost_events *e, struct tw_cost_event one);
/* The earliest one; there is one. */
struct tw_cost_event tw_cost_events_next(struct tw_cost_events *e);
void tw_cost_events_release(struct tw_cost_events *e);

#endif
