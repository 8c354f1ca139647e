/* SPDX-License-Identifier: Apache-2.0 */
/* check_choices.c - which choices go together: one table of what is true of a job, and sentences.
 *
 * Facts come from the tables of the chosen variants; nothing here knows a variant by its name.
 * Marks in brackets stand for the variants that would do (suggest.h). */
#include "spec/check_choices.h"

#include "graph/loss.h"
#include "spec/field.h"
#include "spec/suggest.h"
#include "strategy/outer.h"

#include <math.h>
#include <string.h>

/* What is true of a job, as far as combinations ask for it: a bit each, of 64. */
#define FACT(k)          (UINT64_C(1) << (k))
#define IN_SIM           FACT(0)
#define ROUNDS           FACT(1)  /* the gate commits whole rounds */
#define LOCKFREE         FACT(2)  /* workers write the parameters themselves */
#define COLLECTS         FACT(3)  /* an update takes several contributions */
#define IN_TURN          FACT(4)  /* a round's contributions are applied one after the other */
#define PER_WORKER       FACT(5)  /* the rule keeps an array for each worker */
#define STAMPED          FACT(6)  /* the rule uses the rate of the answer */
#define PLAIN_RULE       FACT(7)  /* w - rate * g and nothing else */
#define TURNABLE         FACT(8)  /* linear, shows what it keeps: may be applied in turn */
#define POLICY           FACT(9)  /* late gradients are corrected */
#define SENT             FACT(10) /* the policy compares with what a worker was sent */
#define STATISTIC        FACT(11) /* the policy has what skipping asks */
#define MOMENTUM         FACT(12) /* send: momentum */
#define PREPARES         FACT(13) /* the rule has a worker's half */
#define PUSHES_LATE      FACT(14) /* push above 1 */
#define FETCHES_LATE     FACT(15) /* fetch above 1 */
#define SKIPS            FACT(16)
#define LOCAL            FACT(17)
#define LOCAL_PER_WORKER FACT(18)
#define KEEPS            FACT(19) /* merge: keep */
#define UP_LOSSY         FACT(20)
#define DOWN_LOSSY       FACT(21)
#define NOT_DOWN         FACT(22) /* codec.down carries only gradients */
#define DECAYS           FACT(23)
#define DELAYED          FACT(24) /* sim.delay */
#define MANY             FACT(25) /* more than one worker */
#define ASYNC            FACT(26) /* applies each contribution at once and holds nobody */
#define ACCURACY         FACT(27) /* train.until.accuracy */
#define SCORED           FACT(28) /* the model has an accuracy */
#define IN_PROCESSES     FACT(29) /* processes, which share no memory */
#define NORMALISES       FACT(30) /* the rule divides by the size of gradients it has seen */
#define SCALES           FACT(31) /* the policy multiplies a gradient with one number */
#define TOTALS           FACT(32) /* sum: total */
#define DELTA            FACT(33) /* send: delta */
#define OUTER            FACT(34) /* an outer rule is chosen */
#define ONE_BY_ONE       FACT(35) /* the outer rule takes one contribution at a time */
#define OWN_COPY         FACT(36) /* merge: elastic or mix */
#define ROBUST           FACT(37) /* sum: median or trimmed */
#define OUTER_TOTALS     FACT(38) /* the outer rule takes the total of the deltas */
#define ADAPTIVE         FACT(39) /* periods by worker speed */
#define REMEMBERS        FACT(40) /* codec.up sends later what it leaves out */
#define SKIPS_PUSH       FACT(41) /* skip: {push} */
#define ELASTIC          FACT(42) /* merge: elastic */
#define STOPS            FACT(43) /* a late computation is given up before it is pushed */
#define AVERAGES_STATE   FACT(44) /* average_state: true */
#define STATELESS        FACT(45) /* the rule of update: keeps no array */
#define OVERLAPS         FACT(46) /* a worker computes on while it fetches */
#define HOLDS_BACK       FACT(47) /* the gate makes a worker wait for others by its answers */
#define FRAGMENTS        FACT(48) /* parts of the parameters are pushed in turn */
#define LATER            FACT(49) /* answers are merged some steps later */
#define LEAVES_OUT       FACT(50) /* a round may end without all of its workers */
#define FRESH            FACT(51) /* only what is of the current version counts */
#define DROPS            FACT(52) /* the gate drops what is late, outside rounds */
#define UP_MOMENTUM      FACT(53) /* codec.up has momentum of its own */
#define UP_FADES         FACT(54) /* codec.up forgets a part of what it leaves out */
#define CACHES           FACT(55) /* cache: true */
#define PEERS            FACT(56) /* every worker holds the parameters */

#define LOOSE           FACT(57) /* ... and they differ while they train */
#define MIXES_IN_ROUNDS FACT(58)
#define SPREADS         FACT(59) /* every worker's contributions go to all others */
#define FAR_STATE       FACT(60) /* what is applied to the parameters keeps an array */
#define GATHERS         FACT(62) /* contributions can go to all workers as they were encoded */
#define RUNNING_CUT     FACT(61) /* checkpoint.cut: running */
#define GAP             FACT(63) /* train.gap */

/* Refused when all of `with` and none of `without` are true.  The field is blamed; where only
 * `because` was given by the user, its place is named. */
static const struct refusal {
	uint64_t with, without;
	const char *field, *because, *sentence;
} refusals[] = {
	{ GAP | PEERS, 0, "train.gap", "strategy.topology.kind",
	  "the gap is between what a server sent and what it has, and here is none; leave gap: "
	  "out, or use topology: server" },
	{ GAP | LOCKFREE, 0, "train.gap", "strategy.gate",
	  "with [gate] the parameters change while a worker reads them, so that nobody knows what "
	  "a gradient was computed on; leave gap: out, or use gate: [at-once gate]" },
	{ LOOSE, MANY, "cluster.workers", "strategy.topology.kind",
	  "one worker has nobody to exchange anything with; use 2 workers or more, or topology: "
	  "server" },
	{ LOOSE | MIXES_IN_ROUNDS, ROUNDS, "strategy.gate", "strategy.topology.kind",
	  "this mixing is made in rounds, and [gate] has none; use gate: [whole-round gate]" },
	{ LOOSE, MIXES_IN_ROUNDS | ASYNC, "strategy.gate", "strategy.topology.kind",
	  "each worker applies its own contributions at once, and [gate] does not; use gate: "
	  "[at-once gate]" },
	{ LOOSE | POLICY, 0, "strategy.staleness", "strategy.topology.kind",
	  "replicas see a contribution at different times, and would correct it differently; use "
	  "staleness: [idle policy], or topology: server" },
	{ LOOSE | FAR_STATE, 0, "update.rule", "strategy.topology.kind",
	  "every replica would have a state of its own for this rule, which nothing brings "
	  "together; use rule: [plain rule], or topology: server" },
	{ LOOSE | DELTA, SPREADS, "strategy.send", "strategy.topology.kind",
	  "replicas exchange parameters here, not deltas; use send: gradient" },
	{ LOOSE | MOMENTUM, 0, "strategy.send", "strategy.topology.kind",
	  "a worker's momentum would be applied by replicas at different times; use send: "
	  "gradient, or topology: server" },
	{ SPREADS | DECAYS, 0, "update.decay", "strategy.topology.kind",
	  "replicas differ a little, and a decay of each would drive them apart; use decay: 0, or "
	  "topology: server" },
	{ LOOSE | UP_LOSSY, SPREADS, "strategy.codec.up", "strategy.topology.kind",
	  "parameters are exchanged as they are; use codec: {up: [an exact codec]}" },
	{ LOOSE | LOCAL, 0, "strategy.local.rule", "strategy.topology.kind",
	  "a worker reads its own replica after every step; leave local: out, or use topology: "
	  "server" },
	{ LOOSE | SKIPS, 0, "strategy.skip", "strategy.topology.kind",
	  "nobody can apply again what it may not have; leave skip: out, or use topology: "
	  "server" },
	{ LOOSE | CACHES, 0, "strategy.cache", "strategy.topology.kind",
	  "a worker reads its own replica after every step; leave cache: out, or use topology: "
	  "server" },
	{ LOOSE | RUNNING_CUT, 0, "checkpoint.cut", "strategy.topology.kind",
	  "replicas that differ are made equal for a checkpoint, which pauses all workers; use "
	  "cut: drain" },
	{ PEERS, ROUNDS | LOOSE, "strategy.gate", "strategy.topology.kind",
	  "workers that all hold the parameters change them together, in rounds, and [gate] has "
	  "none; use gate: [whole-round gate], or topology: server" },
	{ PEERS | LEAVES_OUT, 0, "strategy.gate", "strategy.topology.kind",
	  "workers that all hold the parameters add up what all of them contribute, and [gate] "
	  "ends a round without some; use gate: [whole-round gate], or topology: server" },
	{ PEERS | IN_TURN, 0, "strategy.apply", "strategy.topology.kind",
	  "without a server only the sum of a round's gradients is known, so they cannot be "
	  "applied in turn; use apply: sum, or topology: server" },
	{ PEERS | ROBUST, 0, "strategy.sum", "strategy.topology.kind",
	  "without a server only the sum of a round's contributions is known, and a median or a "
	  "trimmed mean needs each of them; use sum: mean or total, or topology: server" },
	{ PEERS | REMEMBERS, SPREADS | GATHERS, "strategy.codec.up", "strategy.topology.kind",
	  "sums are encoded again on their way from worker to worker, and what this codec leaves "
	  "out of them is nobody's to send later; use topology: [gathering reduction], where "
	  "contributions go to all workers as they are, or codec: {up: [plain codec]}" },
	{ PEERS | DOWN_LOSSY, 0, "strategy.codec.down", "strategy.topology.kind",
	  "no parameters travel where every worker holds them; use codec: {down: [an exact "
	  "codec]}, or topology: server" },
	{ PEERS | AVERAGES_STATE, 0, "strategy.average_state", "strategy.topology.kind",
	  "workers add up deltas among themselves, not the state of their rules; leave this out, "
	  "or use topology: server" },
	{ PEERS | FRAGMENTS, 0, "strategy.fragments", "strategy.topology.kind",
	  "workers add up all of the parameters at a time among themselves; use fragments: 1, or "
	  "topology: server" },
	{ PEERS | LATER, 0, "strategy.delay", "strategy.topology.kind",
	  "a worker that takes part in the sum does not step on meanwhile; use delay: 0, or "
	  "topology: server" },

	{ DELTA, OUTER, "strategy.outer.rule", "strategy.send",
	  "send: delta needs to know what the shards do with deltas; use outer: {rule: [outer "
	  "rule]}, or send: gradient" },
	{ OUTER, DELTA, "strategy.outer.rule", NULL,
	  "an outer rule takes deltas, and this job sends none; use send: delta, or leave outer: "
	  "out" },
	{ DELTA | LOCKFREE, 0, "strategy.send", "strategy.gate",
	  "[gate] applies gradients; use send: gradient, or gate: [at-once gate]" },
	{ DELTA | PER_WORKER, 0, "update.rule", "strategy.send",
	  "with send: delta the rule runs on the worker, which is alone with its own steps; use "
	  "rule: [turnable rule]" },
	{ DELTA | IN_TURN, 0, "strategy.apply", "strategy.send",
	  "deltas of a round are applied together; use apply: sum, or send: gradient" },
	{ DELTA | POLICY, SCALES, "strategy.staleness", "strategy.send",
	  "this policy compares gradients, and a delta is not one; use staleness: [scaling "
	  "policy] or [idle policy], or send: gradient" },
	{ DELTA | SKIPS, 0, "strategy.skip", "strategy.send",
	  "skipping looks at gradients; leave skip: out, or use send: gradient" },
	{ DELTA | LOCAL, 0, "strategy.local.rule", "strategy.send",
	  "with send: delta the rule of update: makes the steps; leave local: out" },
	{ DELTA | KEEPS, 0, "strategy.merge", "strategy.send",
	  "a delta is pushed before new parameters come, so nothing is left to keep; use merge: "
	  "replace, elastic or mix" },
	{ DELTA | DELAYED, 0, "sim.delay.steps", "strategy.send",
	  "sim.delay delays gradients; use send: gradient, or leave sim.delay out" },
	{ STOPS | DELTA, 0, "strategy.stop", "strategy.send",
	  "a worker that has stepped by itself cannot begin again; use stop: false, or send: "
	  "gradient" },
	{ STOPS | LOCAL, 0, "strategy.stop", "strategy.local.rule",
	  "local steps cannot begin again; use stop: false, or leave local: out" },
	{ STOPS, DROPS, "strategy.stop", "strategy.gate",
	  "with these options [gate] drops nothing, so no worker needs to begin again; use "
	  "fresh: true, or stop: false" },
	{ FRESH | DELTA, 0, "strategy.send", "strategy.gate",
	  "only gradients of the current parameters count here, and a delta is of many steps; use "
	  "send: gradient, or gate: [at-once gate]" },
	{ FRESH | LOCAL, 0, "strategy.local.rule", "strategy.gate",
	  "only gradients of the current parameters count here, and local steps lead away from "
	  "them; leave local: out, or use gate: [at-once gate]" },
	{ FRESH | POLICY, 0, "strategy.staleness", "strategy.gate",
	  "only gradients of the current parameters count here, and these are not stale; use "
	  "staleness: [idle policy], or gate: [at-once gate]" },
	{ FRESH | SKIPS, 0, "strategy.skip", "strategy.gate",
	  "only gradients of the current parameters count here, and a skipped push repeats an "
	  "older one; leave skip: out, or use gate: [at-once gate]" },
	{ OWN_COPY, DELTA, "strategy.merge", "strategy.send",
	  "elastic and mix need steps on a worker's own parameters; use send: delta, or merge: "
	  "replace" },
	{ AVERAGES_STATE, DELTA, "strategy.average_state", "strategy.send",
	  "only workers that step by themselves have a state to average; use send: delta, or leave "
	  "this out" },
	{ AVERAGES_STATE, ROUNDS, "strategy.average_state", "strategy.gate",
	  "states are averaged when all workers exchange theirs, and this gate has no rounds; use "
	  "gate: [round gate], or leave this out" },
	{ AVERAGES_STATE | STATELESS, 0, "strategy.average_state", "update.rule",
	  "this rule keeps no state that could be averaged; use rule: [rule with a state], or "
	  "leave this out" },
	{ AVERAGES_STATE | FRAGMENTS, 0, "strategy.average_state", "strategy.fragments",
	  "a part of the parameters comes with the state of that part alone, while the step count "
	  "is of all; use fragments: 1, or leave this out" },
	{ AVERAGES_STATE | LATER, 0, "strategy.average_state", "strategy.delay",
	  "the mean of the states would come some steps late and undo those; use delay: 0, or "
	  "leave "
	  "this out" },
	{ AVERAGES_STATE | OWN_COPY, 0, "strategy.average_state", "strategy.merge",
	  "with merge: elastic or mix every worker keeps its own parameters, to which an averaged "
	  "state does not belong; use merge: replace, or leave this out" },
	{ ROBUST | IN_TURN, 0, "strategy.sum", "strategy.apply",
	  "contributions that are applied in turn are not compared with each other; use apply: "
	  "sum, "
	  "or sum: mean" },
	{ ROBUST | OUTER_TOTALS, 0, "strategy.sum", "strategy.outer.rule",
	  "this outer rule takes the total of all deltas; use sum: mean, or another outer rule" },
	{ FRAGMENTS, DELTA, "strategy.fragments", "strategy.send",
	  "parts of the parameters are pushed by workers that take steps of their own; use send: "
	  "delta, or leave this out" },
	{ FRAGMENTS, ROUNDS, "strategy.fragments", "strategy.gate",
	  "all workers push the same part at a time, which needs rounds; use gate: [round gate], "
	  "or "
	  "leave this out" },
	{ FRAGMENTS | ELASTIC, 0, "strategy.fragments", "strategy.merge",
	  "merge: elastic draws all parameters together at once; use merge: replace or mix, or "
	  "leave "
	  "this out" },
	{ LATER, DELTA, "strategy.delay", "strategy.send",
	  "needs workers that take steps of their own until the answer comes; use send: delta, or "
	  "leave this out" },
	{ LATER, ROUNDS, "strategy.delay", "strategy.gate",
	  "without rounds no worker waits for others, so there is nothing to hide; use gate: "
	  "[whole-round gate], or leave this out" },
	{ LATER | ELASTIC, 0, "strategy.delay", "strategy.merge",
	  "merge: elastic pushes what it finds when new parameters come; use merge: replace or "
	  "mix, "
	  "or leave this out" },
	{ LATER | LEAVES_OUT, 0, "strategy.delay", "strategy.gate",
	  "workers get their next work before a round ends, and this gate may end it without some "
	  "of "
	  "them; use gate: [whole-round gate], or leave this out" },
	{ ADAPTIVE, DELTA, "strategy.adaptive", "strategy.send",
	  "gives workers different numbers of own steps, and only send: delta takes own steps; use "
	  "send: delta, or leave this out" },
	{ ADAPTIVE | ROUNDS, 0, "strategy.adaptive", "strategy.gate",
	  "a round takes the same number of steps from every worker; use gate: [at-once gate], or "
	  "leave this out" },
	{ ONE_BY_ONE | ROUNDS, 0, "strategy.outer.rule", "strategy.gate",
	  "this outer rule takes one delta at a time, and a round has one of each worker; use "
	  "gate: [one-by-one gate], or another outer rule" },
	{ ONE_BY_ONE | COLLECTS, 0, "strategy.outer.rule", "strategy.gate",
	  "this outer rule takes one delta at a time; use collect: 1, gate: [one-by-one gate], or "
	  "another outer rule" },

	{ LOCKFREE | IN_SIM, 0, "strategy.gate", NULL,
	  "[gate] needs threads that share memory, and the simulator has none; run it with thalweg "
	  "train, or use gate: [at-once gate]" },
	{ LOCKFREE | IN_PROCESSES, 0, "strategy.gate", NULL,
	  "[gate] needs threads that share memory, and processes share none; run it with thalweg "
	  "train, or use gate: [at-once gate]" },
	{ LOCKFREE, PLAIN_RULE, "update.rule", "strategy.gate",
	  "[gate] has no lock to protect the state of a rule; use rule: [plain rule], or gate: "
	  "[at-once gate]" },
	{ LOCKFREE | POLICY, 0, "strategy.staleness", "strategy.gate",
	  "[gate] has no versions, so staleness cannot be counted; use staleness: [idle policy], "
	  "or gate: [at-once gate]" },
	{ LOCKFREE | DECAYS, 0, "update.decay", "strategy.gate",
	  "[gate] writes gradients directly into the parameters, without weight decay; use decay: "
	  "0, or gate: [at-once gate]" },
	{ LOCKFREE | UP_LOSSY, 0, "strategy.codec.up", "strategy.gate",
	  "[gate] sends nothing, so a codec has no effect; use codec: {up: [an exact codec]}, or "
	  "gate: [at-once gate]" },
	{ LOCKFREE | DOWN_LOSSY, 0, "strategy.codec.down", "strategy.gate",
	  "[gate] sends nothing, so a codec has no effect; use codec: {down: [an exact codec]}, or "
	  "gate: [at-once gate]" },
	{ LOCKFREE | PUSHES_LATE, 0, "strategy.push", "strategy.gate",
	  "[gate] applies every step immediately; use push: 1, or gate: [at-once gate]" },
	{ LOCKFREE | FETCHES_LATE, 0, "strategy.fetch", "strategy.gate",
	  "[gate] always reads the newest parameters; use fetch: 1, or gate: [at-once gate]" },
	{ LOCKFREE | MOMENTUM, 0, "strategy.send", "strategy.gate",
	  "[gate] applies only gradients; use send: gradient, or gate: [at-once gate]" },

	{ REMEMBERS | SKIPS_PUSH, 0, "strategy.skip.push", "strategy.codec.up",
	  "a shard repeats the last push instead of a skipped one, and this codec's last push has "
	  "parts of many gradients; leave skip.push out, or use codec: {up: [plain codec]}" },
	{ REMEMBERS | POLICY, SCALES | DELTA, "strategy.staleness", "strategy.codec.up",
	  "this policy looks at the gradient of one version, and this codec sends parts of several "
	  "together; use staleness: [scaling policy] or [idle policy], or codec: {up: [plain "
	  "codec]}" },
	{ REMEMBERS | NORMALISES, DELTA, "update.rule", "strategy.codec.up",
	  "this rule divides by the size of the gradients, so what this codec sends later does not "
	  "make up for what it left out; use rule: [linear rule], or codec: {up: [plain codec]}" },
	{ REMEMBERS | ROBUST, 0, "strategy.sum", "strategy.codec.up",
	  "this codec leaves out most values of a push, and a middle of zeros applies none of "
	  "them; "
	  "use sum: mean, or codec: {up: [plain codec]}" },
	{ REMEMBERS | ELASTIC, 0, "strategy.merge", "strategy.codec.up",
	  "an elastic worker moves by what it pushes, and this codec sends most of that later; use "
	  "merge: replace or mix, or codec: {up: [plain codec]}" },

	{ UP_MOMENTUM, PLAIN_RULE, "update.rule", "strategy.codec.up",
	  "this codec has momentum of its own, and a second one would be added to it; use rule: "
	  "[plain rule], or another codec" },
	{ UP_MOMENTUM | DELTA, 0, "strategy.codec.up", "strategy.send",
	  "this codec makes velocities of gradients, and a delta is not one; use send: gradient, "
	  "or "
	  "another codec" },
	{ UP_FADES, DELTA, "strategy.codec.up", "strategy.send",
	  "this codec forgets a part of what it leaves out, which only the next delta makes up "
	  "for; "
	  "use send: delta, or another codec" },

	{ MOMENTUM, PREPARES, "strategy.send", "update.rule",
	  "momentum on the worker needs a rule of which a part runs on the worker; use rule: [rule "
	  "with a worker's half], or send: gradient" },
	{ MOMENTUM | ROUNDS, 0, "strategy.send", "strategy.gate",
	  "momentum on the worker already contains the learning rate, so a round cannot average "
	  "it; use gate: [one-by-one gate], or send: gradient" },
	{ MOMENTUM | COLLECTS, 0, "strategy.send", "strategy.gate",
	  "momentum on the worker already contains the learning rate, so an update cannot average "
	  "it; use gate: [one-by-one gate], or send: gradient" },
	{ MOMENTUM | POLICY, 0, "strategy.staleness", "strategy.send",
	  "a staleness policy corrects gradients, and send: momentum sends none; use staleness: "
	  "[idle policy], or send: gradient" },

	{ PER_WORKER | ROUNDS, 0, "update.rule", "strategy.gate",
	  "keeps a state for each worker, so each contribution must be applied separately, and "
	  "rounds do not do that; use gate: [one-by-one gate], or rule: [rule with one velocity]" },
	{ PER_WORKER | COLLECTS, 0, "update.rule", "strategy.gate",
	  "keeps a state for each worker, so each contribution must be applied separately; use "
	  "collect: 1, gate: [one-by-one gate], or rule: [rule with one velocity]" },
	{ STAMPED | ROUNDS, 0, "update.rule", "strategy.gate",
	  "needs the learning rate at which each gradient was computed, and a round has only one; "
	  "use gate: [one-by-one gate]" },
	{ ROUNDS | IN_TURN, TURNABLE | DELTA, "update.rule", "strategy.gate",
	  "a round applied in turn needs a rule that is linear in the gradients and that gives "
	  "workers its parameters unchanged; use rule: [turnable rule], or apply: sum" },
	{ ROUNDS | POLICY, IN_TURN, "strategy.staleness", "strategy.gate",
	  "no gradient is stale in a round that is applied as one; use staleness: [idle policy], "
	  "apply: in-turn with staleness: [comparing policy], or gate: [at-once gate]" },
	{ ROUNDS | IN_TURN | POLICY, SENT, "strategy.staleness", "strategy.gate",
	  "contributions applied in turn were all computed on the same version; use staleness: "
	  "[comparing policy] or [idle policy]" },
	{ ROUNDS | PUSHES_LATE, DELTA, "strategy.push", "strategy.gate",
	  "a round takes one step from every worker; use push: 1 (data.accumulate makes steps "
	  "larger), or gate: [at-once gate]" },
	{ ROUNDS | FETCHES_LATE, DELTA, "strategy.fetch", "strategy.gate",
	  "every worker gets the new parameters after each round; use fetch: 1, or gate: [at-once "
	  "gate]" },
	{ ROUNDS | SKIPS, 0, "strategy.skip", "strategy.gate",
	  "a round waits for every push; leave skip: out, or use gate: [at-once gate]" },
	{ ROUNDS | LOCAL, 0, "strategy.local.rule", "strategy.gate",
	  "rounds have no steps between fetches; leave local: out, or use gate: [at-once gate] "
	  "with fetch: 2 or more" },
	{ ROUNDS | KEEPS, 0, "strategy.merge", "strategy.gate",
	  "in rounds every step is pushed before the next fetch, so there is nothing to keep; use "
	  "merge: replace, or gate: [at-once gate]" },

	{ OVERLAPS | ROUNDS, 0, "strategy.overlap", "strategy.gate",
	  "a worker needs the parameters of its round before it computes; use overlap: false, or "
	  "gate: [at-once gate]" },
	{ OVERLAPS | HOLDS_BACK, 0, "strategy.overlap", "strategy.gate",
	  "[gate] holds a worker back by answering later, and one that computes on would not be "
	  "held; use overlap: false, or gate: [at-once gate]" },
	{ OVERLAPS | LOCKFREE, 0, "strategy.overlap", "strategy.gate",
	  "[gate] fetches nothing; use overlap: false, or gate: [at-once gate]" },
	{ OVERLAPS | DELTA, 0, "strategy.overlap", "strategy.send",
	  "steps that a worker takes while it fetches would be lost; use overlap: false, or send: "
	  "gradient" },
	{ OVERLAPS | DELAYED, 0, "strategy.overlap", "sim.delay.steps",
	  "sim.delay decides on which version a worker computes; use overlap: false, or leave "
	  "sim.delay out" },

	{ CACHES, HOLDS_BACK, "strategy.cache", "strategy.gate",
	  "only [holding gate] says how old the parameters of a worker may be; use gate: [holding "
	  "gate], or cache: false" },
	{ CACHES | DELTA, 0, "strategy.cache", "strategy.send",
	  "with send: delta a worker already keeps parameters of its own; use send: gradient, or "
	  "cache: false" },
	{ CACHES | MOMENTUM, 0, "strategy.cache", "strategy.send",
	  "a worker adds its own updates to what it has, and these must be plain gradients; use "
	  "send: gradient, or cache: false" },
	{ CACHES, PLAIN_RULE, "strategy.cache", "update.rule",
	  "a worker adds its own updates to what it has, and only those of the plain rule do not "
	  "depend on others' updates; use rule: [plain rule], or cache: false" },
	{ CACHES | DECAYS, 0, "strategy.cache", "update.decay",
	  "weight decay depends on parameters that only the shards have, so a worker cannot add "
	  "its own updates; use decay: 0, or cache: false" },
	{ CACHES | POLICY, 0, "strategy.cache", "strategy.staleness",
	  "this policy changes gradients at the shards, so a worker does not know its own updates; "
	  "use staleness: [idle policy], or cache: false" },
	{ CACHES | UP_LOSSY, 0, "strategy.cache", "strategy.codec.up",
	  "this codec changes what the shards apply, so a worker does not know its own updates; "
	  "use codec: {up: [exact codec]}, or cache: false" },
	{ CACHES | PUSHES_LATE, 0, "strategy.cache", "strategy.push",
	  "a worker adds each update when it pushes it; use push: 1, or cache: false" },
	{ CACHES | FETCHES_LATE, 0, "strategy.cache", "strategy.fetch",
	  "the gate decides when a worker fetches; use fetch: 1, or cache: false" },
	{ CACHES | LOCAL, 0, "strategy.cache", "strategy.local.rule",
	  "a worker adds its own updates by the rule of update:; leave local: out, or use cache: "
	  "false" },
	{ CACHES | SKIPS, 0, "strategy.cache", "strategy.skip",
	  "skip: also decides when a worker fetches; leave skip: out, or use cache: false" },

	{ TOTALS | NORMALISES, DELTA, "strategy.sum", "update.rule",
	  "this rule divides by the size of gradients, so their total has the same effect as their "
	  "mean; use sum: mean, or rule: [linear rule]" },
	{ SCALES | NORMALISES, DELTA, "strategy.staleness", "update.rule",
	  "scaling a gradient has no effect here, because the rule divides by the size of the "
	  "gradients it has seen; use rule: [turnable rule], or staleness: [idle policy]" },
	{ SKIPS, STATISTIC, "strategy.skip", "strategy.staleness",
	  "skip: needs the deviation of the gradients, which only [measuring policy] measures; use "
	  "staleness: [measuring policy], or leave skip: out" },
	{ SKIPS | LOCAL, 0, "strategy.skip", "strategy.local.rule",
	  "skip: cannot be combined with local:; leave one of them out" },
	{ LOCAL_PER_WORKER, 0, "strategy.local.rule", NULL,
	  "is a rule that keeps a state for each worker, and local steps have only one worker; use "
	  "rule: [turnable rule]" },
	{ LOCAL, FETCHES_LATE | KEEPS, "strategy.local.rule", "strategy.fetch",
	  "with fetch: 1 every local step is overwritten immediately; use fetch: 2 or more, or "
	  "leave local: out" },
	{ LOCAL | KEEPS, FETCHES_LATE | PUSHES_LATE, "strategy.local.rule", "strategy.fetch",
	  "with push: 1 and fetch: 1 no local step is ever kept; use push: or fetch: 2 or "
	  "more, or leave local: out" },
	{ LOCAL | MOMENTUM, 0, "strategy.local.rule", "strategy.send",
	  "local steps can be combined only with send: gradient; use that, or leave local: out" },
	{ KEEPS, LOCAL, "strategy.merge", NULL,
	  "without local steps there is nothing to keep; use merge: replace, or add local: "
	  "{rule: [a plain rule]}" },
	{ NOT_DOWN, 0, "strategy.codec.down", NULL,
	  "encodes gradients, not parameters; use [downward codec]" },

	{ DELAYED | MANY, 0, "sim.delay.steps", "cluster.workers",
	  "is valid only for a single worker; use cluster: {workers: 1}, or leave sim.delay out" },
	{ DELAYED, ASYNC, "sim.delay.steps", "strategy.gate",
	  "needs a gate that applies every gradient immediately; use gate: [at-once gate], or "
	  "leave sim.delay out" },
	{ DELAYED | PUSHES_LATE, 0, "strategy.push", "sim.delay.steps",
	  "sim.delay needs exactly one update per step; use push: 1" },
	{ DELAYED | FETCHES_LATE, 0, "strategy.fetch", "sim.delay.steps",
	  "sim.delay needs exactly one update per step; use fetch: 1" },
	{ DELAYED | SKIPS, 0, "strategy.skip", "sim.delay.steps",
	  "sim.delay needs exactly one update per step; leave skip: out" },
	{ ACCURACY, SCORED, "train.until.accuracy", NULL,
	  "this model has no accuracy; use until: {loss: ...}" },
};

static uint64_t facts_of_gate(const struct tw_job *job)
{
	const struct tw_plan *p = &job->plan;
	const uint32_t t = p->gate->traits;
	uint64_t facts = 0;

	if (t & TW_GATE_ROUNDS)
		facts |= ROUNDS;
	if ((t & TW_GATE_ROUNDS) && tw_job_collects(job) < job->cluster.workers)
		facts |= LEAVES_OUT;
	else if (tw_job_collects(job) > 1)
		facts |= COLLECTS;
	if (t & TW_GATE_LOCKFREE)
		facts |= LOCKFREE;
	if (p->gate->stops && p->gate->stops(p->gate_options))
		facts |= STOPS;
	if (t & TW_GATE_HOLDS)
		facts |= HOLDS_BACK;
	if (tw_gate_keeps(p->gate, p->gate_options) != TW_KEEP_EACH)
		facts |= FRESH;
	if (tw_gate_drops(p->gate, p->gate_options))
		facts |= DROPS;
	if (p->gate->totals && p->gate->totals(p->gate_options))
		facts |= TOTALS;
	if ((t & TW_GATE_IN_TURN) && p->gate->in_turn && p->gate->in_turn(p->gate_options))
		facts |= IN_TURN;
	if (!(t & TW_GATE_NOT_AT_ONCE))
		facts |= ASYNC;
	return facts;
}

static uint64_t facts_of_rule(const struct tw_plan *p)
{
	const struct tw_rule *rule = tw_plan_update(p)->rule;
	const uint32_t t = rule->traits;
	uint64_t facts = 0;

	if (t & TW_RULE_PER_WORKER)
		facts |= PER_WORKER;
	if (t & TW_RULE_STAMPED)
		facts |= STAMPED;
	if ((t & TW_RULE_LINEAR) && !(t & (TW_RULE_OWN_VIEW | TW_RULE_PER_WORKER))) {
		facts |= TURNABLE;
	}
	if (t & TW_RULE_PLAIN)
		facts |= PLAIN_RULE;
	if (t & TW_RULE_NORMALISES)
		facts |= NORMALISES;
	if (!rule->arrays)
		facts |= STATELESS;
	if (rule->prepare)
		facts |= PREPARES;
	if (p->local.rule)
		facts |= LOCAL;
	if (p->local.rule && (p->local.rule->traits & TW_RULE_PER_WORKER))
		facts |= LOCAL_PER_WORKER;
	return facts;
}

static uint64_t facts_of_line(const struct tw_plan *p)
{
	uint64_t facts = 0;

	if (p->staleness->correct)
		facts |= POLICY;
	if (p->staleness->traits & TW_STALENESS_SENT &&
	    !(p->staleness->traits & TW_STALENESS_OBSERVES))
		facts |= SENT;
	if (p->staleness->traits & TW_STALENESS_STATISTIC)
		facts |= STATISTIC;
	if (p->staleness->traits & TW_STALENESS_SCALES)
		facts |= SCALES;
	if (p->near.rule && !p->traffic.delta)
		facts |= MOMENTUM;
	if (p->traffic.delta)
		facts |= DELTA;
	if (p->traffic.adaptive)
		facts |= ADAPTIVE;
	if (p->traffic.average_state)
		facts |= AVERAGES_STATE;
	if (p->traffic.fragments > 1)
		facts |= FRAGMENTS;
	if (p->traffic.delay)
		facts |= LATER;
	if (p->traffic.merge == TW_MERGE_ELASTIC || p->traffic.merge == TW_MERGE_MIX)
		facts |= OWN_COPY;
	if (p->far.rule->traits & TW_RULE_ONE_BY_ONE)
		facts |= ONE_BY_ONE;
	if (p->far.rule->traits & TW_RULE_TOTAL)
		facts |= OUTER_TOTALS;
	if (p->gate->trims && p->gate->trims(p->gate_options) >= 0.0f)
		facts |= ROBUST;
	if (p->traffic.push > 1)
		facts |= PUSHES_LATE;
	if (p->traffic.fetch > 1)
		facts |= FETCHES_LATE;
	if (p->traffic.overlap)
		facts |= OVERLAPS;
	if (p->traffic.cache)
		facts |= CACHES;
	if (!isnan(p->traffic.skip_push) || !isnan(p->traffic.skip_fetch))
		facts |= SKIPS;
	if (!isnan(p->traffic.skip_push))
		facts |= SKIPS_PUSH;
	if (p->traffic.merge == TW_MERGE_KEEP)
		facts |= KEEPS;
	if (p->traffic.merge == TW_MERGE_ELASTIC)
		facts |= ELASTIC;
	if (p->traffic.up->traits & TW_CODEC_REMEMBERS)
		facts |= REMEMBERS;
	if (p->traffic.up->traits & TW_CODEC_MOMENTUM)
		facts |= UP_MOMENTUM;
	if (p->traffic.up->traits & TW_CODEC_FADES)
		facts |= UP_FADES;
	if (!(p->traffic.up->traits & TW_CODEC_IDENTITY))
		facts |= UP_LOSSY;
	if (!(p->traffic.down->traits & TW_CODEC_IDENTITY))
		facts |= DOWN_LOSSY;
	if (!(p->traffic.down->traits & TW_CODEC_DOWN))
		facts |= NOT_DOWN;
	if (tw_plan_has_peers(p))
		facts |= PEERS;
	if (tw_plan_is_loose(p))
		facts |= LOOSE;
	if (tw_plan_is_loose(p) && p->topology.mixing->round)
		facts |= MIXES_IN_ROUNDS;
	if (tw_plan_spreads(p))
		facts |= SPREADS;
	if (tw_plan_gathers(p) && p->topology.reduction->gather)
		facts |= GATHERS;
	if (p->far.rule->arrays)
		facts |= FAR_STATE;
	if (!p->checkpoint.drain)
		facts |= RUNNING_CUT;
	if (p->gaps)
		facts |= GAP;
	if (p->decay > 0)
		facts |= DECAYS;
	if (p->delay.steps)
		facts |= DELAYED;
	if (p->crew.workers > 1)
		facts |= MANY;
	if (!isnan(p->ends.accuracy))
		facts |= ACCURACY;
	return facts;
}

/* The field itself where it is a mapping (skip:), whichever of its fields was given. */
static const char *blamed(const struct tw_job *job, const char *field)
{
	if (strcmp(field, "strategy.skip") != 0)
		return field;
	return tw_job_given(job, "strategy.skip.push") ? "strategy.skip.push"
						       : "strategy.skip.fetch";
}

static enum tw_status refuse_combination(const struct tw_job *job, const struct refusal *r,
					 struct tw_error *why)
{
	const char *field = blamed(job, r->field);
	const struct tw_field *f = tw_job_field(job, field);
	const struct tw_field *b = r->because ? tw_job_field(job, r->because) : NULL;
	const char *place = job->file;
	char sentence[480];

	if (b && b->from)
		place = b->from->place;
	if (f && f->from && (f->from->origin != TW_FROM_PRESET || place == job->file))
		place = f->from->place;
	return tw_fail(why, TW_BAD_INPUT, "%.300s: %s: %s", place, field,
		       tw_suggest(job, r->sentence, sentence, sizeof sentence));
}

enum tw_status tw_job_check_choices(const struct tw_job *job, struct tw_error *why)
{
	const bool scored = job->model == TW_MODEL_EXTERNAL ||
			    (job->loss.op && tw_loss_of(job->loss.op)->judges);
	const uint64_t world = job->world == TW_WORLD_SIM           ? IN_SIM
			       : tw_world_has_processes(job->world) ? IN_PROCESSES
								    : 0;
	const uint64_t facts = world | (scored ? SCORED : 0) | facts_of_gate(job) |
			       facts_of_rule(&job->plan) | facts_of_line(&job->plan) |
			       (tw_outer_find(job->strategy.outer) ? OUTER : 0);

	for (size_t k = 0; k < sizeof refusals / sizeof refusals[0]; k++)
		if ((facts & refusals[k].with) == refusals[k].with &&
		    !(facts & refusals[k].without))
			return refuse_combination(job, &refusals[k], why);
	return TW_OK;
}
