/* SPDX-License-Identifier: Apache-2.0 */
/* topology_refusals.c - what does not go without a server: replicas that differ while they train,
 * and replicas that are equal after every round. */
#include "strategy/refusals.h"

const struct tw_refusal_row tw_refusals_topology[] = {
	{ "loose !many", "cluster.workers", "strategy.topology.kind",
	  "one worker has nobody to exchange anything with; use 2 workers or more, or topology: "
	  "server" },
	{ "loose mixes-in-rounds !rounds", "strategy.gate", "strategy.topology.kind",
	  "this mixing is made in rounds, and [gate] has none; use gate: [whole-round gate]" },
	{ "loose !mixes-in-rounds !at-once", "strategy.gate", "strategy.topology.kind",
	  "each worker applies its own contributions at once, and [gate] does not; use gate: "
	  "[at-once gate]" },
	{ "loose policy", "strategy.staleness", "strategy.topology.kind",
	  "replicas see a contribution at different times, and would correct it differently; use "
	  "staleness: [idle policy], or topology: server" },
	{ "loose far-state", "update.rule", "strategy.topology.kind",
	  "every replica would have a state of its own for this rule, which nothing brings "
	  "together; use rule: [plain rule], or topology: server" },
	{ "loose delta !spreads", "strategy.send", "strategy.topology.kind",
	  "replicas exchange parameters here, not deltas; use send: gradient" },
	{ "loose momentum", "strategy.send", "strategy.topology.kind",
	  "a worker's momentum would be applied by replicas at different times; use send: "
	  "gradient, or topology: server" },
	{ "spreads decays", "update.decay", "strategy.topology.kind",
	  "replicas differ a little, and a decay of each would drive them apart; use decay: 0, or "
	  "topology: server" },
	{ "loose up-lossy !spreads", "strategy.codec.up", "strategy.topology.kind",
	  "parameters are exchanged as they are; use codec: {up: [an exact codec]}" },
	{ "loose local", "strategy.local.rule", "strategy.topology.kind",
	  "a worker reads its own replica after every step; leave local: out, or use topology: "
	  "server" },
	{ "loose skips", "strategy.skip.", "strategy.topology.kind",
	  "nobody can apply again what it may not have; leave skip: out, or use topology: server" },
	{ "loose caches", "strategy.cache", "strategy.topology.kind",
	  "a worker reads its own replica after every step; leave cache: out, or use topology: "
	  "server" },
	{ "loose running-cut", "checkpoint.cut", "strategy.topology.kind",
	  "replicas that differ are made equal for a checkpoint, which pauses all workers; use "
	  "cut: drain" },
	{ "peers !rounds !loose", "strategy.gate", "strategy.topology.kind",
	  "workers that all hold the parameters change them together, in rounds, and [gate] has "
	  "none; use gate: [whole-round gate], or topology: server" },
	{ "peers leaves-out", "strategy.gate", "strategy.topology.kind",
	  "workers that all hold the parameters add up what all of them contribute, and [gate] "
	  "ends a round without some; use gate: [whole-round gate], or topology: server" },
	{ "peers in-turn", "strategy.apply", "strategy.topology.kind",
	  "without a server only the sum of a round's gradients is known, so they cannot be "
	  "applied in turn; use apply: sum, or topology: server" },
	{ "peers robust", "strategy.sum", "strategy.topology.kind",
	  "without a server only the sum of a round's contributions is known, and a median or a "
	  "trimmed mean needs each of them; use sum: mean or total, or topology: server" },
	{ "peers remembers !spreads !gathers", "strategy.codec.up", "strategy.topology.kind",
	  "sums are encoded again on their way from worker to worker, and what this codec leaves "
	  "out of them is nobody's to send later; use topology: [gathering reduction], where "
	  "contributions go to all workers as they are, or codec: {up: [plain codec]}" },
	{ "peers down-lossy", "strategy.codec.down", "strategy.topology.kind",
	  "no parameters travel where every worker holds them; use codec: {down: [an exact "
	  "codec]}, or topology: server" },
	{ "peers averages-state", "strategy.average_state", "strategy.topology.kind",
	  "workers add up deltas among themselves, not the state of their rules; leave this out, "
	  "or use topology: server" },
	{ "peers fragments", "strategy.fragments", "strategy.topology.kind",
	  "workers add up all of the parameters at a time among themselves; use fragments: 1, or "
	  "topology: server" },
	{ "peers later", "strategy.delay", "strategy.topology.kind",
	  "a worker that takes part in the sum does not step on meanwhile; use delay: 0, or "
	  "topology: server" },
	{ NULL },
};
