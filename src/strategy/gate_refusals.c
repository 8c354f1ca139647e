/* SPDX-License-Identifier: Apache-2.0 */
/* gate_refusals.c - what gates do not go together with. */
#include "strategy/refusals.h"

const struct tw_refusal_row tw_refusals_alone[] = {
	{ "gate-unfit !many", "strategy.gate", NULL,
	  "[gate] needs more than 1 worker, and this job has 1; use cluster: {workers: 2} or more, "
	  "or gate: [at-once gate]" },
	{ NULL },
};

/* What is late is given up, or does not count. */
const struct tw_refusal_row tw_refusals_late[] = {
	{ "stops delta", "strategy.stop", "strategy.send",
	  "a worker that has stepped by itself cannot begin again; use stop: false, or send: "
	  "gradient" },
	{ "stops local", "strategy.stop", "strategy.local.rule",
	  "local steps cannot begin again; use stop: false, or leave local: out" },
	{ "stops !drops", "strategy.stop", "strategy.gate",
	  "with these options [gate] drops nothing, so no worker needs to begin again; use fresh: "
	  "true, or stop: false" },
	{ "fresh delta", "strategy.send", "strategy.gate",
	  "only gradients of the current parameters count here, and a delta is of many steps; use "
	  "send: gradient, or gate: [at-once gate]" },
	{ "fresh local", "strategy.local.rule", "strategy.gate",
	  "only gradients of the current parameters count here, and local steps lead away from "
	  "them; leave local: out, or use gate: [at-once gate]" },
	{ "fresh policy", "strategy.staleness", "strategy.gate",
	  "only gradients of the current parameters count here, and these are not stale; use "
	  "staleness: [idle policy], or gate: [at-once gate]" },
	{ "fresh skips", "strategy.skip.", "strategy.gate",
	  "only gradients of the current parameters count here, and a skipped push repeats an "
	  "older one; leave skip: out, or use gate: [at-once gate]" },
	{ NULL },
};

/* Medians and trimmed means. */
const struct tw_refusal_row tw_refusals_robust[] = {
	{ "robust in-turn", "strategy.sum", "strategy.apply",
	  "contributions that are applied in turn are not compared with each other; use apply: "
	  "sum, or sum: mean" },
	{ "robust outer-totals", "strategy.sum", "strategy.outer.rule",
	  "this outer rule takes the total of all deltas; use sum: mean, or another outer rule" },
	{ NULL },
};

const struct tw_refusal_row tw_refusals_lockfree[] = {
	{ "lockfree in-sim", "strategy.gate", NULL,
	  "[gate] needs threads that share memory, and the simulator has none; run it with thalweg "
	  "train, or use gate: [at-once gate]" },
	{ "lockfree in-processes", "strategy.gate", NULL,
	  "[gate] needs threads that share memory, and processes share none; run it with thalweg "
	  "train, or use gate: [at-once gate]" },
	{ "lockfree !plain-rule", "update.rule", "strategy.gate",
	  "[gate] has no lock to protect the state of a rule; use rule: [plain rule], or gate: "
	  "[at-once gate]" },
	{ "lockfree policy", "strategy.staleness", "strategy.gate",
	  "[gate] has no versions, so staleness cannot be counted; use staleness: [idle policy], "
	  "or gate: [at-once gate]" },
	{ "lockfree decays", "update.decay", "strategy.gate",
	  "[gate] writes gradients directly into the parameters, without weight decay; use decay: "
	  "0, or gate: [at-once gate]" },
	{ "lockfree up-lossy", "strategy.codec.up", "strategy.gate",
	  "[gate] sends nothing, so a codec has no effect; use codec: {up: [an exact codec]}, or "
	  "gate: [at-once gate]" },
	{ "lockfree down-lossy", "strategy.codec.down", "strategy.gate",
	  "[gate] sends nothing, so a codec has no effect; use codec: {down: [an exact codec]}, or "
	  "gate: [at-once gate]" },
	{ "lockfree pushes-late", "strategy.push", "strategy.gate",
	  "[gate] applies every step immediately; use push: 1, or gate: [at-once gate]" },
	{ "lockfree fetches-late", "strategy.fetch", "strategy.gate",
	  "[gate] always reads the newest parameters; use fetch: 1, or gate: [at-once gate]" },
	{ "lockfree momentum", "strategy.send", "strategy.gate",
	  "[gate] applies only gradients; use send: gradient, or gate: [at-once gate]" },
	{ NULL },
};

const struct tw_refusal_row tw_refusals_rounds[] = {
	{ "per-worker rounds", "update.rule", "strategy.gate",
	  "keeps a state for each worker, so each contribution must be applied separately, and "
	  "rounds do not do that; use gate: [one-by-one gate], or rule: [rule with one velocity]" },
	{ "per-worker collects", "update.rule", "strategy.gate",
	  "keeps a state for each worker, so each contribution must be applied separately; use "
	  "collect: 1, gate: [one-by-one gate], or rule: [rule with one velocity]" },
	{ "stamped rounds", "update.rule", "strategy.gate",
	  "needs the learning rate at which each gradient was computed, and a round has only one; "
	  "use gate: [one-by-one gate]" },
	{ "rounds in-turn !turnable !delta", "update.rule", "strategy.gate",
	  "a round applied in turn needs a rule that is linear in the gradients and that gives "
	  "workers its parameters unchanged; use rule: [turnable rule], or apply: sum" },
	{ "rounds policy !in-turn", "strategy.staleness", "strategy.gate",
	  "no gradient is stale in a round that is applied as one; use staleness: [idle policy], "
	  "apply: in-turn with staleness: [comparing policy], or gate: [at-once gate]" },
	{ "rounds in-turn policy !sent", "strategy.staleness", "strategy.gate",
	  "contributions applied in turn were all computed on the same version; use staleness: "
	  "[comparing policy] or [idle policy]" },
	{ "rounds pushes-late !delta", "strategy.push", "strategy.gate",
	  "a round takes one step from every worker; use push: 1 (data.accumulate makes steps "
	  "larger), or gate: [at-once gate]" },
	{ "rounds fetches-late !delta", "strategy.fetch", "strategy.gate",
	  "every worker gets the new parameters after each round; use fetch: 1, or gate: [at-once "
	  "gate]" },
	{ "rounds skips", "strategy.skip.", "strategy.gate",
	  "a round waits for every push; leave skip: out, or use gate: [at-once gate]" },
	{ "rounds local", "strategy.local.rule", "strategy.gate",
	  "rounds have no steps between fetches; leave local: out, or use gate: [at-once gate] "
	  "with fetch: 2 or more" },
	{ "rounds keeps", "strategy.merge", "strategy.gate",
	  "in rounds every step is pushed before the next fetch, so there is nothing to keep; use "
	  "merge: replace, or gate: [at-once gate]" },
	{ NULL },
};
