/* SPDX-License-Identifier: Apache-2.0 */
/* top.c - the only toy. */
#include "strategy/toy.h"

struct options {
	uint32_t spin;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, spin, TW_U32, "3", "turns", 1, 100, "how long it spins"),
	TW_OPTION_END,
};

const struct tw_toy tw_toy_top = {
	.name = "top",
	.help = "a toy that spins",
	.options = rows,
	.options_bytes = sizeof(struct options),
};
