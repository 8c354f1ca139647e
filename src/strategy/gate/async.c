/* SPDX-License-Identifier: Apache-2.0 */
/* async.c - every contribution is applied as it comes, and nobody waits. */
#include "strategy/gate.h"

const struct tw_gate tw_gate_async = {
	.name = "async",
	.help = "asynchronous: each contribution is applied when it arrives; no worker waits",
};
