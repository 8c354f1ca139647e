/* SPDX-License-Identifier: Apache-2.0 */
/* figures.c - the rows of a result, in its order, with the tally of shards among them; and those of
 * a cell. */
#include "node/figures.h"

#include <math.h>

/* After the path in a result: help, metric, trouble. */
#define ROW(s, field, kind, ...)                                                                   \
	{                                                                                          \
		.name = #field, .offset = offsetof(s, field), .type = kind, .result = __VA_ARGS__  \
	}
#define TOTAL(field, kind, ...) ROW(struct tw_ran, totals.field, kind, __VA_ARGS__)
#define TALLY(field, kind, ...) ROW(struct tw_ran, totals.tally.field, kind, __VA_ARGS__)
#define OF(field)               .over = offsetof(struct tw_ran, totals.tally.field)
#define WORK(field, kind, ...)  ROW(struct tw_stage_work, field, kind, __VA_ARGS__)
#define OF_WORK(field)          .over = offsetof(struct tw_stage_work, field)
/* A group, a figure that is computed from others, or what src/run/result.c puts there. */
#define FIELD(path, kind, ...)                                                                     \
	{                                                                                          \
		.name = path, .derived = true, .type = kind, .result = path, __VA_ARGS__           \
	}

/* A function of the outcome: of its plan p and its totals t. */
#define FUNCTION(type, name, ...)                                                                  \
	static type name(const struct tw_outcome *o)                                               \
	{                                                                                          \
		const struct tw_plan *p = o->plan;                                                 \
		const struct tw_totals *t = o->totals;                                             \
                                                                                                   \
		return (void)p, (void)t, __VA_ARGS__;                                              \
	}

FUNCTION(double, epochs_applied,
	 p->online.keeps ? (double)NAN : t->applied / (double)p->problem.samples)
FUNCTION(bool, was_steady, !isnan(t->steady.samples) && t->steady.lasted > 0)
FUNCTION(double, steady_rate, t->steady.samples / ((double)t->steady.lasted / (double)TW_SECOND))
FUNCTION(bool, has_periods, t->most_period)
FUNCTION(bool, has_gaps, t->tally.gap_values)
FUNCTION(bool, has_cache, p->traffic.cache)
/* Gradients computed on parameters that came for them; the others were here already. */
FUNCTION(double, fetches, (double)((t->tally.contributions - t->tally.cached) / o->shards))
FUNCTION(bool, owns_samples, p->dealing.subsets.own)
FUNCTION(bool, sends_samples, p->dealing.ahead)
FUNCTION(bool, sends_deltas, p->traffic.delta)
FUNCTION(double, period, p->traffic.push)
FUNCTION(bool, remembers, (p->traffic.up->traits) & TW_CODEC_REMEMBERS)
FUNCTION(double, lost_workers, (double)((t->tally.residuals_lost + o->shards - 1) / o->shards))

static double bytes_saved(const struct tw_outcome *o)
{
	const struct tw_tally *t = &o->totals->tally;
	const double answer = t->down_slices ? (double)t->down_encoded / (double)t->down_slices : 0;

	return answer * (double)t->cached + 0.5;
}

static double idle(const struct tw_outcome *o)
{
	const double busy = (double)(o->work->forward_time + o->work->backward_time);

	return 1 - busy / (double)TW_SECOND / ((double)o->span / (double)TW_SECOND);
}

const struct tw_figure tw_result_figures[] = {
	FIELD("strategy", TW_GROUP,
	      "the name of the preset, or the choices that make up the strategy"),
	FIELD("seed", TW_GROUP, "train.seed"),
	FIELD("world", TW_GROUP, "where the actors ran: sim, threads or tcp"),
	FIELD("interrupted", TW_GROUP,
	      "true: the run was stopped before its end, and the figures are those up to that "
	      "point"),
	FIELD("diverged", TW_GROUP,
	      "true: the loss became not finite, or every gradient was refused"),
	FIELD("restarts", TW_GROUP,
	      "how often the run diverged and was restarted (train.on_divergence)"),
	FIELD("rate", TW_GROUP, "update.rate, lowered by these restarts"),
	FIELD("evaluated", TW_GROUP,
	      "which parameters loss and accuracy were measured on: w, a vector of the rule, or "
	      "the mean of the replicas"),
	TOTAL(loss, TW_REAL, "loss",
	      "mean over the test set at the end; for an interrupted run: at its last "
	      "evaluation; null if this process made no evaluation, or if the loss is not finite"),
	FIELD("accuracy", TW_GROUP,
	      "share of the test set that is classified correctly, measured with the loss; null "
	      "if the task has no accuracy"),
	FIELD("kept", TW_GROUP,
	      "for train.keep: best: the evaluation whose parameters are the result: the epochs "
	      "(applied) of it, its loss and accuracy, and patience (true: the run ended because "
	      "none was better for long); null if there is none"),
	FIELD("test", TW_GROUP,
	      "for data.evaluate: validation: loss and accuracy of the result on the test set, "
	      "which is scored once, at the end; null otherwise. Loss and accuracy above are then "
	      "those on the validation set"),
	FIELD("goal", TW_GROUP,
	      "for train.until: reached (true or false), then the epochs (applied), updates, "
	      "seconds (virtual in sim), loss and accuracy of the first evaluation that reached "
	      "it, each null if none did; null without train.until"),
	TOTAL(epochs, TW_REAL, "epochs", "samples dealt / samples of an epoch"),
	TOTAL(applied, TW_REAL, "epochs_applied",
	      "samples applied / samples of an epoch, mean over the shards", .of = epochs_applied),
	TOTAL(steps, TW_COUNT, "steps",
	      "gradients on one batch that the shards applied; mean over the shards"),
	TOTAL(updates, TW_REAL, "updates",
	      "updates of a shard; mean over the shards and, where replicas differ, over the "
	      "replicas; iterations of an optimiser"),
	TOTAL(samples, TW_COUNT, "samples",
	      "samples in these gradients, counted each time they were applied; mean over the "
	      "shards"),
	FIELD("seconds", TW_GROUP, "wall-clock time, including the earlier parts of a resumed run"),
	FIELD("samples_per_second", TW_GROUP, "samples / seconds"),
	FIELD("steady", TW_GROUP,
	      "speed without the tail of the run: samples applied, seconds (virtual in sim) and "
	      "samples_per_second, from the first samples dealt in this part of the run until a "
	      "worker first asked for more and there were none; null if that did not happen. "
	      "Samples that are lost with a server do not count; a shard that is restored to a "
	      "state before that part of the run counts from that state",
	      .when = was_steady),
	TOTAL(steady.samples, TW_REAL, "steady.samples"),
	TOTAL(steady.lasted, TW_NANOS, "steady.seconds"),
	FIELD("steady.samples_per_second", TW_REAL, .of = steady_rate),
	FIELD("workers", TW_GROUP, "cluster.workers"),
	FIELD("shards", TW_GROUP, "number of shards that the parameters are split into"),
	FIELD("parameters", TW_GROUP, "number of trainable parameters"),
	TALLY(updates, TW_COUNT, NULL),
	TALLY(fenced, TW_COUNT, NULL),
	TALLY(dropped_pushes, TW_COUNT, NULL),
	TALLY(dropped_samples, TW_COUNT, NULL),
	TALLY(steps, TW_COUNT, NULL),
	TALLY(samples, TW_COUNT, NULL),
	TALLY(refused, TW_COUNT, NULL, .most = true),
	FIELD("staleness", TW_GROUP,
	      "staleness of the applied contributions, in updates: mean, max, and a histogram "
	      "that starts at 0"),
	TALLY(staleness_count, TW_COUNT, NULL),
	TALLY(staleness_sum, TW_COUNT, "staleness.mean", OF(staleness_count), .zero = true),
	TALLY(staleness_max, TW_COUNT, "staleness.max", .most = true),
	TALLY(histogram, TW_COUNT, "staleness.histogram", .bins = TW_HISTOGRAM),
	FIELD("gap", TW_GROUP,
	      "for train.gap: how far the parameters had moved when a contribution was applied, "
	      "from those that its worker was sent: rms, the root of the mean square over all "
	      "parameters and contributions, and max, the largest of one contribution in one "
	      "shard; null otherwise",
	      .when = has_gaps),
	TALLY(gap_values, TW_COUNT, NULL),
	TALLY(gap, TW_REAL, "gap.rms", OF(gap_values), .root = true),
	TALLY(gap_most, TW_REAL, "gap.max", .most = true, .root = true),
	FIELD("periods", TW_GROUP,
	      "strategy.adaptive: the least and the most steps between two pushes that the "
	      "master gave to a worker; null without it",
	      .when = has_periods),
	TOTAL(least_period, TW_COUNT32, "periods.least"),
	TOTAL(most_period, TW_COUNT32, "periods.most"),
	ROW(struct tw_ran, bytes_sent, TW_COUNT, "bytes_sent",
	    "by all nodes; of joiners what they last told, which is nearly all; with MPI by "
	    "rank 0"),
	ROW(struct tw_ran, bytes_received, TW_COUNT, "bytes_received",
	    "by this process; in sim by all nodes"),
	FIELD("codec", TW_GROUP,
	      "what the codecs did, counted by the shards: slices, and their bytes before (raw) "
	      "and after (encoded) the codec; up: of contributions, with density, the share of "
	      "the values that was sent (null if nothing was pushed); down: of parameters in "
	      "answers"),
	TALLY(up_slices, TW_COUNT, "codec.up.slices"),
	TALLY(up_raw, TW_COUNT, "codec.up.raw"),
	TALLY(up_encoded, TW_COUNT, "codec.up.encoded"),
	TALLY(up_values, TW_COUNT, NULL),
	TALLY(up_sent, TW_COUNT, "codec.up.density", OF(up_values)),
	TALLY(down_slices, TW_COUNT, "codec.down.slices"),
	TALLY(down_raw, TW_COUNT, "codec.down.raw"),
	TALLY(down_encoded, TW_COUNT, "codec.down.encoded"),
	FIELD("cache", TW_GROUP,
	      "for strategy.cache, of the applied contributions: fetches (computed on "
	      "parameters that were fetched for them), saved (computed on those that the worker "
	      "had) and bytes_saved (of answers, at the mean size of those that were sent); "
	      "null otherwise",
	      .when = has_cache),
	FIELD("cache.fetches", TW_COUNT, .of = fetches),
	TALLY(cached, TW_COUNT, "cache.saved", .each = true),
	FIELD("cache.bytes_saved", TW_COUNT, .of = bytes_saved),
	TOTAL(dropped, TW_COUNT, "dropped", "samples whose contribution came too late for its gate",
	      NULL, "dropped"),
	TOTAL(refused, TW_COUNT, "refused", "contributions that were not finite, or malformed",
	      NULL, "refused"),
	TOTAL(redealt, TW_COUNT, "redealt",
	      "samples dealt again because their worker was lost, or because their contribution "
	      "came too late",
	      NULL, "redealt"),
	FIELD("own", TW_GROUP,
	      "for data.placement: own: unreachable (samples of callers that were lost, in the "
	      "epoch in which they were) and vacant (places of an epoch that are no sample's: the "
	      "callers that are here have fewer than data.samples); null otherwise",
	      .when = owns_samples),
	TOTAL(unreachable, TW_COUNT, "own.unreachable"),
	TOTAL(vacant, TW_COUNT, "own.vacant"),
	FIELD("on_demand", TW_GROUP,
	      "for data.placement: on-demand: samples that this process sent to workers, also "
	      "those "
	      "that were asked for in vain, and their bytes; null otherwise",
	      .when = sends_samples),
	TOTAL(sent_samples, TW_COUNT, "on_demand.samples"),
	TOTAL(sent_bytes, TW_COUNT, "on_demand.bytes"),
	TOTAL(repeated, TW_COUNT, "repeated", "samples that some shard applied more than once",
	      NULL, "repeated"),
	TOTAL(lost_updates, TW_COUNT, "lost_updates",
	      "updates lost with a server; mean over the shards", NULL, "updates lost"),
	FIELD("deltas", TW_GROUP,
	      "for send: delta, of the applied contributions: period (strategy.push), pushes, "
	      "steps_per_push (mean of the own steps in one), drift_mean and drift_max (norm of "
	      "a worker's parameters less the shared ones when it pushed), skipped (gradients "
	      "that were not finite, and that no step was made with), lost_copies (own "
	      "parameters that died with their worker: merge: elastic or mix); null otherwise",
	      .when = sends_deltas),
	FIELD("deltas.period", TW_COUNT, .of = period),
	TALLY(contributions, TW_COUNT, "deltas.pushes", .each = true),
	TALLY(own_steps, TW_COUNT, "deltas.steps_per_push", OF(contributions)),
	TALLY(drift, TW_REAL, "deltas.drift_mean", OF(contributions)),
	TALLY(drift_most, TW_REAL, "deltas.drift_max", .most = true),
	TALLY(skipped, TW_COUNT, "deltas.skipped", .each = true),
	TOTAL(lost_copies, TW_COUNT, "deltas.lost_copies"),
	FIELD("residual", TW_GROUP,
	      "for codecs that remember: mean and max (norm of what a worker owed after a "
	      "push), lost (sum of the norms that died with workers) and lost_workers; null "
	      "otherwise",
	      .when = remembers),
	TALLY(residual, TW_REAL, "residual.mean", OF(contributions)),
	TALLY(residual_most, TW_REAL, "residual.max", .most = true),
	TALLY(residual_lost, TW_REAL, "residual.lost", .each = true),
	TALLY(residuals_lost, TW_COUNT, "residual.lost_workers", .of = lost_workers),
	FIELD("optimiser", TW_GROUP,
	      "for an optimiser, at the point that it accepted last: iterations, evaluations, "
	      "loss (over the batch, with l2), gradient (its norm), step (length of the last "
	      "step, in units of its direction), restarts (with the steepest descent), backups "
	      "(portions that this process dealt twice) and ended (why it ended); null otherwise"),
	FIELD("progressive", TW_GROUP,
	      "for train.mode: online, of predictions that were made before their samples were "
	      "learnt from: samples, unscored (samples that may have been learnt from before "
	      "their score was told), loss, accuracy, since_loss and since_accuracy (of those "
	      "since the last report), window (samples in it), window_loss and window_accuracy; "
	      "null otherwise"),
	FIELD("pipeline", TW_GROUP,
	      "for strategy.pipeline: schedule, stages, lanes (of each stage), bubble (share of "
	      "the time from the first forward to the last backward in which nodes of workers "
	      "did not compute), seconds (that time; virtual in sim), and cells: for each node "
	      "of each worker its worker, stage, lane, micro_batches, forward_seconds, "
	      "backward_seconds and update_seconds (means; an update lasts from the backward "
	      "before it until its answer), idle (share), activation_bytes_sent (with gradients "
	      "of activations), in_flight (most micro-batches between forward and backward), "
	      "versions (most versions of its parameters in memory) and memory_bytes (most "
	      "bytes of these versions, of inputs and of what backwards need); bubble and "
	      "seconds are null while a cell has told nothing; null otherwise"),
	FIELD("parameters_digest", TW_GROUP,
	      "XXH3-128 of the evaluated trainable parameters; null if interrupted"),
	FIELD("buffers_digest", TW_GROUP, "the same digest of the buffers; null if interrupted"),
	FIELD("isa", TW_GROUP, "instruction set that the kernels used"),
	FIELD("threads", TW_GROUP, "compute threads per worker"),
	FIELD("checkpoint", TW_GROUP, "path of the last complete checkpoint, or null"),
	FIELD("virtual_seconds", TW_SOMETIMES, "sim: seconds on the simulated clock"),
	FIELD("events", TW_SOMETIMES, "sim: number of simulated events"),
	FIELD("usage", TW_SOMETIMES,
	      "sim and threads: shares of the workers' time, in which each moment counts once: "
	      "computing, transferring (sim: a message from or to the worker is on its way; "
	      "threads: its thread works on messages, its own or those of shards), waiting; "
	      "workers: the three shares of each of the first 64 workers"),
	FIELD("server_link", TW_SOMETIMES,
	      "sim: bytes that all servers received and sent, in bins of so many virtual "
	      "seconds; null without servers"),
	FIELD("effort", TW_SOMETIMES,
	      "sim, with compute.by_label or by_sample: the mean of these factors over the "
	      "samples that were applied; null otherwise"),
	FIELD("role", TW_SOMETIMES, "join: role of this process, worker or server"),
	FIELD("own_steps", TW_SOMETIMES, "join: the part done by this process"),
	FIELD("own_samples", TW_SOMETIMES, "join: the part done by this process"),
	FIELD("own_pipeline", TW_SOMETIMES,
	      "join, for strategy.pipeline: as pipeline, with the cell of this process"),
	FIELD("processes", TW_SOMETIMES,
	      "join --workers: exit_code, own_steps, own_samples and left of each process"),
	FIELD("left", TW_SOMETIMES,
	      "join: true if this process left before the end; then all figures are its own"),
	{ .name = NULL },
};

const struct tw_figure tw_work_figures[] = {
	WORK(forwards, TW_COUNT, NULL),
	WORK(backwards, TW_COUNT, "micro_batches",
	     "Micro-batches that a stage of a worker has computed, forward and back.",
	     "thalweg_stage_micro_batches_total"),
	WORK(forward_time, TW_NANOS, "forward_seconds", "Seconds that its forwards took.",
	     "thalweg_stage_forward_seconds_total", OF_WORK(forwards)),
	WORK(backward_time, TW_NANOS, "backward_seconds", "Seconds that its backwards took.",
	     "thalweg_stage_backward_seconds_total", OF_WORK(backwards)),
	WORK(updates, TW_COUNT, NULL),
	WORK(update_time, TW_NANOS, "update_seconds", OF_WORK(updates)),
	FIELD("idle", TW_REAL, .of = idle),
	WORK(sent, TW_COUNT, "activation_bytes_sent",
	     "Bytes of activations and their gradients that it sent.",
	     "thalweg_stage_sent_bytes_total"),
	WORK(depth, TW_COUNT32, "in_flight", .most = true),
	WORK(versions, TW_COUNT32, "versions", .most = true),
	WORK(memory, TW_COUNT, "memory_bytes",
	     "Most bytes of versions of its parameters, inputs and activations.",
	     "thalweg_stage_memory_bytes", .most = true),
	{ .name = NULL },
};
