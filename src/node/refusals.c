/* SPDX-License-Identifier: Apache-2.0 */
/* refusals.c - what workers send, keep and read cannot all be combined. */
#include "node/refusals.h"

const struct tw_refusal_row tw_idle_delta[] = {
	{ "!trims", "strategy.trim", NULL,
	  "has an effect only with sum: trimmed; choose that, or leave this out" },
	{ "!own-copy", "strategy.alpha", NULL,
	  "has an effect only with merge: elastic or mix; choose one of these, or leave this out" },
	{ "!own-copy", "strategy.elasticity", NULL,
	  "has an effect only with merge: elastic or mix; choose one of these, or leave this out" },
	{ "!delta", "strategy.push_after", NULL,
	  "has an effect only with send: delta; leave it out" },
	{ NULL },
};

const struct tw_refusal_row tw_refusals_gap[] = {
	{ "gap peers", "train.gap", "strategy.topology.kind",
	  "the gap is between what a server sent and what it has, and here is none; leave gap: "
	  "out, or use topology: server" },
	{ "gap lockfree", "train.gap", "strategy.gate",
	  "with [gate] the parameters change while a worker reads them, so that nobody knows what "
	  "a gradient was computed on; leave gap: out, or use gate: [at-once gate]" },
	{ NULL },
};

const struct tw_refusal_row tw_refusals_delta[] = {
	{ "delta !outer", "strategy.outer.rule", "strategy.send",
	  "send: delta needs to know what the shards do with deltas; use outer: {rule: [outer "
	  "rule]}, or send: gradient" },
	{ "outer !delta", "strategy.outer.rule", NULL,
	  "an outer rule takes deltas, and this job sends none; use send: delta, or leave outer: "
	  "out" },
	{ "delta lockfree", "strategy.send", "strategy.gate",
	  "[gate] applies gradients; use send: gradient, or gate: [at-once gate]" },
	{ "delta per-worker", "update.rule", "strategy.send",
	  "with send: delta the rule runs on the worker, which is alone with its own steps; use "
	  "rule: [turnable rule]" },
	{ "delta in-turn", "strategy.apply", "strategy.send",
	  "deltas of a round are applied together; use apply: sum, or send: gradient" },
	{ "delta policy !scales", "strategy.staleness", "strategy.send",
	  "this policy compares gradients, and a delta is not one; use staleness: [scaling policy] "
	  "or [idle policy], or send: gradient" },
	{ "delta skips", "strategy.skip.", "strategy.send",
	  "skipping looks at gradients; leave skip: out, or use send: gradient" },
	{ "delta local", "strategy.local.rule", "strategy.send",
	  "with send: delta the rule of update: makes the steps; leave local: out" },
	{ "delta keeps", "strategy.merge", "strategy.send",
	  "a delta is pushed before new parameters come, so nothing is left to keep; use merge: "
	  "replace, elastic or mix" },
	{ "delta delayed", "sim.delay.steps", "strategy.send",
	  "sim.delay delays gradients; use send: gradient, or leave sim.delay out" },
	{ NULL },
};

/* Steps that are taken outside, by whoever computes (a session's caller). */
const struct tw_refusal_row tw_refusals_outside[] = {
	{ "steps-outside !outside-model", "update.rule", NULL,
	  "is for programs whose own loop takes the steps, in a session of libthalweg; use rule: "
	  "[turnable rule], or model: {tensors: FILE}" },
	{ "steps-outside !delta", "update.rule", "strategy.send",
	  "whoever takes its own steps has new parameters and no gradients, and only send: delta "
	  "sends where they led; use send: delta with outer: {rule: [outer rule]}, or rule: "
	  "[turnable rule]" },
	{ "steps-outside clips", "update.clip", "update.rule",
	  "clips gradients, and a caller that takes its own steps sends none; clip them there, "
	  "and leave this out" },
	{ "steps-outside decays", "update.decay", "update.rule",
	  "is added to gradients, and a caller that takes its own steps sends none; decay them "
	  "there, and leave this out" },
	{ "steps-outside averages-state", "strategy.average_state", "update.rule",
	  "the state of the caller's optimiser is with the caller; leave this out, or use rule: "
	  "[rule with a state]" },
	{ "steps-outside accumulates", "data.accumulate", "update.rule",
	  "adds up gradients, and a caller that takes its own steps sends none; use a larger "
	  "data.batch, and leave this out" },
	{ "local-outside", "strategy.local.rule", NULL,
	  "nobody outside takes the steps between fetches; use rule: [turnable rule]" },
	{ NULL },
};

/* A worker's own parameters, and the state of its rule. */
const struct tw_refusal_row tw_refusals_state[] = {
	{ "own-copy !delta", "strategy.merge", "strategy.send",
	  "elastic and mix need steps on a worker's own parameters; use send: delta, or merge: "
	  "replace" },
	{ "averages-state !delta", "strategy.average_state", "strategy.send",
	  "only workers that step by themselves have a state to average; use send: delta, or leave "
	  "this out" },
	{ "averages-state !rounds", "strategy.average_state", "strategy.gate",
	  "states are averaged when all workers exchange theirs, and this gate has no rounds; use "
	  "gate: [round gate], or leave this out" },
	{ "averages-state stateless", "strategy.average_state", "update.rule",
	  "this rule keeps no state that could be averaged; use rule: [rule with a state], or "
	  "leave this out" },
	{ "averages-state fragments", "strategy.average_state", "strategy.fragments",
	  "a part of the parameters comes with the state of that part alone, while the step count "
	  "is of all; use fragments: 1, or leave this out" },
	{ "averages-state later", "strategy.average_state", "strategy.delay",
	  "the mean of the states would come some steps late and undo those; use delay: 0, or "
	  "leave this out" },
	{ "averages-state own-copy", "strategy.average_state", "strategy.merge",
	  "with merge: elastic or mix every worker keeps its own parameters, to which an averaged "
	  "state does not belong; use merge: replace, or leave this out" },
	{ NULL },
};

/* Parts in turn, answers that come later, periods by speed, outer rules. */
const struct tw_refusal_row tw_refusals_stream[] = {
	{ "fragments !delta", "strategy.fragments", "strategy.send",
	  "parts of the parameters are pushed by workers that take steps of their own; use send: "
	  "delta, or leave this out" },
	{ "fragments !rounds", "strategy.fragments", "strategy.gate",
	  "all workers push the same part at a time, which needs rounds; use gate: [round gate], "
	  "or leave this out" },
	{ "fragments elastic", "strategy.fragments", "strategy.merge",
	  "merge: elastic draws all parameters together at once; use merge: replace or mix, or "
	  "leave this out" },
	{ "later !delta", "strategy.delay", "strategy.send",
	  "needs workers that take steps of their own until the answer comes; use send: delta, or "
	  "leave this out" },
	{ "later !rounds", "strategy.delay", "strategy.gate",
	  "without rounds no worker waits for others, so there is nothing to hide; use gate: "
	  "[whole-round gate], or leave this out" },
	{ "later elastic", "strategy.delay", "strategy.merge",
	  "merge: elastic pushes what it finds when new parameters come; use merge: replace or "
	  "mix, or leave this out" },
	{ "later leaves-out", "strategy.delay", "strategy.gate",
	  "workers get their next work before a round ends, and this gate may end it without some "
	  "of them; use gate: [whole-round gate], or leave this out" },
	{ "adaptive !delta", "strategy.adaptive", "strategy.send",
	  "gives workers different numbers of own steps, and only send: delta takes own steps; use "
	  "send: delta, or leave this out" },
	{ "adaptive rounds", "strategy.adaptive", "strategy.gate",
	  "a round takes the same number of steps from every worker; use gate: [at-once gate], or "
	  "leave this out" },
	{ "one-by-one rounds", "strategy.outer.rule", "strategy.gate",
	  "this outer rule takes one delta at a time, and a round has one of each worker; use "
	  "gate: [one-by-one gate], or another outer rule" },
	{ "one-by-one collects", "strategy.outer.rule", "strategy.gate",
	  "this outer rule takes one delta at a time; use collect: 1, gate: [one-by-one gate], or "
	  "another outer rule" },
	{ NULL },
};

const struct tw_refusal_row tw_refusals_momentum[] = {
	{ "momentum !prepares", "strategy.send", "update.rule",
	  "momentum on the worker needs a rule of which a part runs on the worker; use rule: [rule "
	  "with a worker's half], or send: gradient" },
	{ "momentum rounds", "strategy.send", "strategy.gate",
	  "momentum on the worker already contains the learning rate, so a round cannot average "
	  "it; use gate: [one-by-one gate], or send: gradient" },
	{ "momentum collects", "strategy.send", "strategy.gate",
	  "momentum on the worker already contains the learning rate, so an update cannot average "
	  "it; use gate: [one-by-one gate], or send: gradient" },
	{ "momentum policy", "strategy.staleness", "strategy.send",
	  "a staleness policy corrects gradients, and send: momentum sends none; use staleness: "
	  "[idle policy], or send: gradient" },
	{ NULL },
};

/* A worker computes on while it fetches, or fetches seldom. */
const struct tw_refusal_row tw_refusals_fetch[] = {
	{ "overlaps rounds", "strategy.overlap", "strategy.gate",
	  "a worker needs the parameters of its round before it computes; use overlap: false, or "
	  "gate: [at-once gate]" },
	{ "overlaps holds-back", "strategy.overlap", "strategy.gate",
	  "[gate] holds a worker back by answering later, and one that computes on would not be "
	  "held; use overlap: false, or gate: [at-once gate]" },
	{ "overlaps lockfree", "strategy.overlap", "strategy.gate",
	  "[gate] fetches nothing; use overlap: false, or gate: [at-once gate]" },
	{ "overlaps delta", "strategy.overlap", "strategy.send",
	  "steps that a worker takes while it fetches would be lost; use overlap: false, or send: "
	  "gradient" },
	{ "overlaps delayed", "strategy.overlap", "sim.delay.steps",
	  "sim.delay decides on which version a worker computes; use overlap: false, or leave "
	  "sim.delay out" },

	{ "caches !holds-back", "strategy.cache", "strategy.gate",
	  "only [holding gate] says how old the parameters of a worker may be; use gate: [holding "
	  "gate], or cache: false" },
	{ "caches delta", "strategy.cache", "strategy.send",
	  "with send: delta a worker already keeps parameters of its own; use send: gradient, or "
	  "cache: false" },
	{ "caches momentum", "strategy.cache", "strategy.send",
	  "a worker adds its own updates to what it has, and these must be plain gradients; use "
	  "send: gradient, or cache: false" },
	{ "caches !plain-rule", "strategy.cache", "update.rule",
	  "a worker adds its own updates to what it has, and only those of the plain rule do not "
	  "depend on others' updates; use rule: [plain rule], or cache: false" },
	{ "caches decays", "strategy.cache", "update.decay",
	  "weight decay depends on parameters that only the shards have, so a worker cannot add "
	  "its own updates; use decay: 0, or cache: false" },
	{ "caches policy", "strategy.cache", "strategy.staleness",
	  "this policy changes gradients at the shards, so a worker does not know its own updates; "
	  "use staleness: [idle policy], or cache: false" },
	{ "caches up-lossy", "strategy.cache", "strategy.codec.up",
	  "this codec changes what the shards apply, so a worker does not know its own updates; "
	  "use codec: {up: [exact codec]}, or cache: false" },
	{ "caches pushes-late", "strategy.cache", "strategy.push",
	  "a worker adds each update when it pushes it; use push: 1, or cache: false" },
	{ "caches fetches-late", "strategy.cache", "strategy.fetch",
	  "the gate decides when a worker fetches; use fetch: 1, or cache: false" },
	{ "caches local", "strategy.cache", "strategy.local.rule",
	  "a worker adds its own updates by the rule of update:; leave local: out, or use cache: "
	  "false" },
	{ "caches skips", "strategy.cache", "strategy.skip",
	  "skip: also decides when a worker fetches; leave skip: out, or use cache: false" },
	{ NULL },
};

/* What steps are made of: scaled gradients, skipped pushes, steps between fetches, delays. */
/* Where something else than an update of the shards changes parameters, those would leave the set,
 * and nobody would bring them back. */
const struct tw_refusal_row tw_refusals_project[] = {
	{ "projects steps-outside", "update.project.", "update.rule",
	  "a caller that takes its own steps projects them, too; leave this out" },
	{ "projects delta", "update.project.", "strategy.send",
	  "with send: delta workers take steps on parameters of their own, which nobody projects; "
	  "use send: gradient, or leave this out" },
	{ "projects momentum", "update.project.", "strategy.send",
	  "with send: momentum a worker's velocity leads beyond the set, and would push against "
	  "its border for long; use send: gradient, or leave this out" },
	{ "projects local", "update.project.", "strategy.local.rule",
	  "local steps change a worker's own parameters, which nobody projects; leave local: or "
	  "this out" },
	{ "projects caches", "update.project.", "strategy.cache",
	  "a worker adds its own updates to what it has, and nobody projects that; use cache: "
	  "false, or leave this out" },
	{ "projects lockfree", "update.project.", "strategy.gate",
	  "with [gate] workers write the parameters element by element, and no update is ever "
	  "whole; use gate: [at-once gate], or leave this out" },
	{ "projects loose", "update.project.", "strategy.topology.kind",
	  "replicas that differ draw each other's parameters together between updates; use "
	  "topology: server or allreduce, or leave this out" },
	{ "projects own-view", "update.project.", "update.rule",
	  "with this rule workers see parameters beyond those that are kept, outside the set; use "
	  "rule: [turnable rule], or leave this out" },
	{ NULL },
};

const struct tw_refusal_row tw_refusals_steps[] = {
	{ "totals normalises !delta", "strategy.sum", "update.rule",
	  "this rule divides by the size of gradients, so their total has the same effect as their "
	  "mean; use sum: mean, or rule: [linear rule]" },
	{ "scales normalises !delta", "strategy.staleness", "update.rule",
	  "scaling a gradient has no effect here, because the rule divides by the size of the "
	  "gradients it has seen; use rule: [turnable rule], or staleness: [idle policy]" },

	{ "skips !statistic", "strategy.skip.", "strategy.staleness",
	  "skip: needs the deviation of the gradients, which only [measuring policy] measures; use "
	  "staleness: [measuring policy], or leave skip: out" },
	{ "skips local", "strategy.skip.", "strategy.local.rule",
	  "skip: cannot be combined with local:; leave one of them out" },
	{ "local-per-worker", "strategy.local.rule", NULL,
	  "is a rule that keeps a state for each worker, and local steps have only one worker; use "
	  "rule: [turnable rule]" },
	{ "local !fetches-late !keeps", "strategy.local.rule", "strategy.fetch",
	  "with fetch: 1 every local step is overwritten immediately; use fetch: 2 or more, or "
	  "leave local: out" },
	{ "local keeps !fetches-late !pushes-late", "strategy.local.rule", "strategy.fetch",
	  "with push: 1 and fetch: 1 no local step is ever kept; use push: or fetch: 2 or more, or "
	  "leave local: out" },
	{ "local momentum", "strategy.local.rule", "strategy.send",
	  "local steps can be combined only with send: gradient; use that, or leave local: out" },
	{ "keeps !local", "strategy.merge", NULL,
	  "without local steps there is nothing to keep; use merge: replace, or add local: {rule: "
	  "[a plain rule]}" },
	{ "not-down", "strategy.codec.down", NULL,
	  "encodes gradients, not parameters; use [downward codec]" },

	{ "delayed many", "sim.delay.steps", "cluster.workers",
	  "is valid only for a single worker; use cluster: {workers: 1}, or leave sim.delay out" },
	{ "delayed !at-once", "sim.delay.steps", "strategy.gate",
	  "needs a gate that applies every gradient immediately; use gate: [at-once gate], or "
	  "leave sim.delay out" },
	{ "delayed pushes-late", "strategy.push", "sim.delay.steps",
	  "sim.delay needs exactly one update per step; use push: 1" },
	{ "delayed fetches-late", "strategy.fetch", "sim.delay.steps",
	  "sim.delay needs exactly one update per step; use fetch: 1" },
	{ "delayed skips", "strategy.skip.", "sim.delay.steps",
	  "sim.delay needs exactly one update per step; leave skip: out" },
	{ "until-accuracy !scored", "train.until.accuracy", NULL,
	  "this model has no accuracy; use until: {loss: ...}" },
	{ "adaptive each-step", "strategy.adaptive", NULL,
	  "makes push: shorter for slow workers, and 1 step is the least; use a longer push:, or "
	  "leave this out" },
	{ "adaptive counts-updates", "train.updates", NULL,
	  "with strategy.adaptive updates are of different lengths; use train.epochs or "
	  "train.steps" },
	{ NULL },
};
