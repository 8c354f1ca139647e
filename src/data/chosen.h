/* SPDX-License-Identifier: Apache-2.0 */
/* chosen.h - some samples of a supply as a set of their own, and a set that is held in memory. */
#ifndef TW_DATA_CHOSEN_H
#define TW_DATA_CHOSEN_H

#include "data/source.h"

/* *out has `count` samples of `all`, which a supply gives: sample k is that at (*position)[k],
 * which the caller writes before anybody asks. */
enum tw_status tw_chosen_new(struct tw_data *d, const struct tw_samples *all, uint64_t count,
			     struct tw_samples *out, uint64_t **position, struct tw_error *why);

/* Room for n samples of a set, one after the other; 0: nothing happens. */
enum tw_status tw_hold_room(struct tw_data *d, uint64_t n, struct tw_samples *s,
			    struct tw_error *why);
/* Read all samples of a set into memory, unless they are lent. */
enum tw_status tw_hold(struct tw_data *d, struct tw_samples *s, struct tw_error *why);

#endif
