/* SPDX-License-Identifier: Apache-2.0 */
/* loss.c - finding a loss by what it takes. */
#include "graph/loss.h"

const struct tw_loss *tw_loss_usual(bool labels)
{
	const uint32_t takes = labels ? TW_LOSS_LABELS : TW_LOSS_TARGETS;
	size_t k = 0;

	while (tw_loss_all[k] && !(tw_loss_all[k]->usual && (tw_loss_all[k]->takes & takes)))
		k++;
	HOLDS(1, tw_loss_all[k]);
	return tw_loss_all[k];
}
