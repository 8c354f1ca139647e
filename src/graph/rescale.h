/* SPDX-License-Identifier: Apache-2.0 */
/* rescale.h - the last layer of a network whose targets were scaled: outputs in their units. */
#ifndef TW_GRAPH_RESCALE_H
#define TW_GRAPH_RESCALE_H

#include "base/option.h"

/* Options of an op with TW_OP_RESCALES: output k is input k times by[k], plus plus[k]. */
struct tw_rescale_options {
	struct tw_f64s by, plus;
};

#endif
