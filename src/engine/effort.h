/* SPDX-License-Identifier: Apache-2.0 */
/* effort.h - how much longer than others some samples take. */
#ifndef TW_ENGINE_EFFORT_H
#define TW_ENGINE_EFFORT_H

#include "data/data.h"
#include "engine/order.h"

/* The mean factor of a batch (engine.h).  `d`: what the samples are of; NULL: they have no
 * labels. */
double tw_effort_mean(const struct tw_engine *e, const struct tw_data *d,
		      const struct tw_inputs *in);

#endif
