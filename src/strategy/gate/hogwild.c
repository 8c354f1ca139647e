/* SPDX-License-Identifier: Apache-2.0 */
/* hogwild.c - workers write the shared parameters themselves, without a lock (Recht et al. 2011).
 *
 * The writing is the node's; this gate only says, by its trait, that it is wanted. */
#include "strategy/gate.h"

const struct tw_gate tw_gate_hogwild = {
	.name = "hogwild",
	.help = "threads write the shared parameters without any lock (only with threads, fp32 and "
		"sgd)",
	.traits = TW_GATE_LOCKFREE,
};
