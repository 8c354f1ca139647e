/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_refusals.c - what a worker that is one computation can do, and one that is several cells
 * cannot. */
#include "strategy/refusals.h"

const struct tw_refusal_row tw_refusals_staged[] = {
	{ "act-lossy !several-stages", "strategy.codec.act", NULL,
	  "no activations travel where a worker computes the whole model; use codec: {act: [exact "
	  "codec]}, or strategy: {pipeline: [pipeline]} with two stages or more" },
	{ "act-lossy act-not-down", "strategy.codec.act", NULL,
	  "encodes gradients of parameters, which it may send in part; use codec: {act: [downward "
	  "codec]}" },
	{ "predicts !staged", "update.rule", NULL,
	  "this rule predicts parameters for the stages of a pipeline, and this job has none; use "
	  "strategy: {pipeline: [pipeline]}, or another rule" },
	{ "staged uncuttable", "strategy.pipeline.schedule", NULL,
	  "this model cannot be cut into stages; use a network, a quadratic or least squares, or "
	  "leave strategy.pipeline out" },
	{ "staged optimises", "optimiser.name", NULL,
	  "workers of an optimiser compute whole portions; leave optimiser: out, or "
	  "strategy.pipeline" },
	{ "staged clips", "update.clip", NULL,
	  "the norm of a whole gradient is known to no stage; use clip: 0, or leave "
	  "strategy.pipeline out" },
	{ "staged peers", "strategy.topology.kind", NULL,
	  "the stages of a worker hold different parameters, and replicas of all of them would "
	  "not; use topology: server" },
	{ "staged !gradient", "strategy.send", NULL,
	  "a stage sends the gradient of its parameters; use send: gradient" },
	{ "staged local", "strategy.local.rule", NULL,
	  "a stage takes no steps of its own; leave local: out" },
	{ "staged caches", "strategy.cache", NULL,
	  "a stage fetches after every update; use cache: false" },
	{ "staged overlaps", "strategy.overlap", NULL,
	  "the schedule decides on which version a stage computes; use overlap: false" },
	{ "staged pushes-late", "strategy.push", NULL,
	  "a stage pushes once per group of micro-batches; use push: 1 (data.accumulate makes "
	  "groups larger)" },
	{ "staged fetches-late", "strategy.fetch", NULL,
	  "the schedule decides when a stage fetches; use fetch: 1" },
	{ "staged skips", "strategy.skip", NULL,
	  "the schedule decides when a stage pushes; leave skip: out" },
	{ "staged delayed", "sim.delay.steps", NULL,
	  "the schedule decides on which version a stage computes; leave sim.delay out" },
	{ NULL },
};

const struct tw_refusal_row tw_refusals_staged_gate[] = {
	{ "with-stage running-cut", "checkpoint.cut", NULL,
	  "with place: with-stage all stages go back to the last checkpoint when one is lost, so "
	  "it must be of one moment; use cut: drain" },
	{ "staged rounds !flushes", "strategy.gate", NULL,
	  "a round ends when every stage has pushed, and the stages of this schedule are never at "
	  "the same update; use gate: [at-once gate], or pipeline: [flushing pipeline]" },
	{ "staged abandons", "strategy.gate", NULL,
	  "a worker that gives up a round when it closes would leave micro-batches between its "
	  "stages; use abandon: false" },
	{ "staged drops", "strategy.gate", NULL,
	  "a gate that drops what is late would drop it at one stage and apply it at another, "
	  "because stages are not equally late; use gate: [at-once gate] or [whole-round gate]" },
	{ "staged lockfree", "strategy.gate", NULL,
	  "[gate] has no versions of the parameters, and the backward of a micro-batch needs the "
	  "one that its forward read; use gate: [at-once gate]" },
	{ NULL },
};

/* A micro-batch sees one version at all stages. */
const struct tw_refusal_row tw_refusals_vertical[] = {
	{ "vertical may-be-flat many !rounds", "cluster.workers", NULL,
	  "with several asynchronous workers the stages of one would not see the same updates of "
	  "the others, so no version is the same everywhere; use workers: 1, or vertical: false" },
	{ "vertical !may-be-flat many !rounds", "cluster.workers", NULL,
	  "with several asynchronous workers the stages of one would not see the same updates of "
	  "the others, so no version is the same everywhere; use workers: 1" },
	{ NULL },
};

/* Lanes push one after the other to the shards of their stage. */
const struct tw_refusal_row tw_refusals_lanes[] = {
	{ "lanes vertical may-be-flat", "cluster.lanes", NULL,
	  "the lanes of a stage see each other's updates, so no version is the same at every "
	  "stage; use vertical: false, or leave lanes out" },
	{ "lanes vertical !may-be-flat", "cluster.lanes", NULL,
	  "the lanes of a stage see each other's updates, so no version is the same at every "
	  "stage; use another pipeline, or leave lanes out" },
	{ "lanes flushes !rounds", "strategy.gate", NULL,
	  "the lanes of a stage share an update of this schedule, which needs a round; use gate: "
	  "[whole-round gate], or leave lanes out" },
	{ "lanes rounds counts-each", "strategy.gate", NULL,
	  "treats every contribution of a round on its own, and the lanes of a stage share one; "
	  "use apply: sum and sum: mean, or leave lanes out" },
	{ "lanes !rounds counts-workers", "strategy.gate", NULL,
	  "counts the contributions of workers, and here every lane makes some; use gate: [at-once "
	  "gate], or leave lanes out" },
	{ "lanes per-worker", "update.rule", NULL,
	  "keeps something for every worker, and here every lane is one; use another rule, or "
	  "leave lanes out" },
	{ NULL },
};
