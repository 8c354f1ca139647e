/* SPDX-License-Identifier: Apache-2.0 */
/* toy.h - a kind of variant for test/add_variant.sh, which nothing plays with. */
#ifndef TW_STRATEGY_TOY_H
#define TW_STRATEGY_TOY_H

#include "base/variant.h"

struct tw_toy {
	TW_VARIANT;
};

TW_REGISTRY(toy, tw_toy);

#endif
