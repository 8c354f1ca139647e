/* SPDX-License-Identifier: Apache-2.0 */
/* effort.h - how much longer than others some samples take. */
#ifndef TW_ENGINE_EFFORT_H
#define TW_ENGINE_EFFORT_H

#include "engine/order.h"

/* The mean factor of a batch (engine.h).  `label`: of the samples of the training set; NULL: they
 * have none. */
double tw_effort_mean(const struct tw_engine *e, const uint32_t *label, const struct tw_inputs *in);

#endif
