/* SPDX-License-Identifier: Apache-2.0 */
/* none.c - a late gradient counts like any other. */
#include "strategy/staleness.h"

const struct tw_staleness tw_staleness_none = {
	.name = "none",
	.help = "late gradients are applied as they are",
};
