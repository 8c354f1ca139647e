/* SPDX-License-Identifier: Apache-2.0 */
/* codec_refusals.c - what codecs do not go together with. */
#include "strategy/refusals.h"

const struct tw_refusal_row tw_refusals_codec[] = {
	{ "remembers skips-push", "strategy.skip.push", "strategy.codec.up",
	  "a shard repeats the last push instead of a skipped one, and this codec's last push has "
	  "parts of many gradients; leave skip.push out, or use codec: {up: [plain codec]}" },
	{ "remembers policy !scales !delta", "strategy.staleness", "strategy.codec.up",
	  "this policy looks at the gradient of one version, and this codec sends parts of several "
	  "together; use staleness: [scaling policy] or [idle policy], or codec: {up: [plain "
	  "codec]}" },
	{ "remembers normalises !delta", "update.rule", "strategy.codec.up",
	  "this rule divides by the size of the gradients, so what this codec sends later does not "
	  "make up for what it left out; use rule: [linear rule], or codec: {up: [plain codec]}" },
	{ "remembers robust", "strategy.sum", "strategy.codec.up",
	  "this codec leaves out most values of a push, and a middle of zeros applies none of "
	  "them; use sum: mean, or codec: {up: [plain codec]}" },
	{ "remembers elastic", "strategy.merge", "strategy.codec.up",
	  "an elastic worker moves by what it pushes, and this codec sends most of that later; use "
	  "merge: replace or mix, or codec: {up: [plain codec]}" },
	{ "up-momentum !plain-rule", "update.rule", "strategy.codec.up",
	  "this codec has momentum of its own, and a second one would be added to it; use rule: "
	  "[plain rule], or another codec" },
	{ "up-momentum delta", "strategy.codec.up", "strategy.send",
	  "this codec makes velocities of gradients, and a delta is not one; use send: gradient, "
	  "or another codec" },
	{ "up-fades !delta", "strategy.codec.up", "strategy.send",
	  "this codec forgets a part of what it leaves out, which only the next delta makes up "
	  "for; use send: delta, or another codec" },
	{ NULL },
};
