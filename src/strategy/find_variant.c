/* SPDX-License-Identifier: Apache-2.0 */
/* find_variant.c - from a name in a job file to the variant of that name. */
#include "strategy/codec.h"
#include "strategy/gate.h"
#include "strategy/mixing.h"
#include "strategy/optimiser.h"
#include "strategy/outer.h"
#include "strategy/pipeline.h"
#include "strategy/reduction.h"
#include "strategy/rule.h"
#include "strategy/staleness.h"

#include <string.h>

#define FIND(kind)                                                                                 \
	const struct tw_##kind *tw_##kind##_find(const char *name)                                 \
	{                                                                                          \
		for (size_t k = 0; tw_##kind##_all[k]; k++)                                        \
			if (!strcmp(tw_##kind##_all[k]->name, name))                               \
				return tw_##kind##_all[k];                                         \
		return NULL;                                                                       \
	}

FIND(gate)
FIND(staleness)
FIND(rule)
FIND(codec)
FIND(reduction)
FIND(mixing)
FIND(optimiser)
FIND(pipeline)

const struct tw_rule *tw_outer_find(const char *name)
{
	for (size_t k = 0; tw_outer_all[k]; k++)
		if (!strcmp(tw_outer_all[k]->name, name))
			return tw_outer_all[k];
	return NULL;
}
