/* SPDX-License-Identifier: Apache-2.0 */
/* layer_times.h - how long each layer of a network takes on this machine, and how stages of equal
 * time would be cut. */
#ifndef TW_QUERY_LAYER_TIMES_H
#define TW_QUERY_LAYER_TIMES_H

#include "actor/engine.h"

#include <jansson.h>

/* Median seconds of forward and backward of each node of a network's graph on `batch` samples, one
 * thread; `seconds` has one for each node. */
enum tw_status tw_layer_times(const struct tw_engine *e, uint32_t batch, double *seconds,
			      struct tw_error *why);
/* A list of {stages, borders, seconds, faster} for 2 stages and more: the layers for model.stages,
 * how long each stage takes, and all of them together divided by the slowest. */
enum tw_status tw_layer_stages(const struct tw_engine *e, const double *seconds, json_t **out,
			       struct tw_error *why);

#endif
