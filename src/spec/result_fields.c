/* SPDX-License-Identifier: Apache-2.0 */
/* result_fields.c - what each field of a result means. */
#include "spec/result_fields.h"

#include <stddef.h>

const struct tw_result_field tw_result_fields[] = {
	{ "strategy", "the name of the preset, or the choices that make up the strategy" },
	{ "seed", "train.seed" },
	{ "world", "where the actors ran: sim, threads or tcp" },
	{ "interrupted",
	  "true: the run was stopped before its end, and the figures are those up to that point" },
	{ "diverged", "true: the loss became not finite, or every gradient was refused" },
	{ "restarts", "how often the run diverged and was restarted (train.on_divergence)" },
	{ "rate", "update.rate, lowered by these restarts" },
	{ "evaluated",
	  "which parameters loss and accuracy were measured on: w, a vector of the rule, or the "
	  "mean of the replicas" },
	{ "loss",
	  "mean over the test set at the end; for an interrupted run: at its last evaluation; null "
	  "if this process made no evaluation, or if the loss is not finite" },
	{ "accuracy", "share of the test set that is classified correctly, measured with the loss; "
		      "null if the task has no accuracy" },
	{ "goal", "for train.until: reached (true or false), then the epochs (applied), updates, "
		  "seconds (virtual in sim), loss and accuracy of the first evaluation that "
		  "reached it, each null if none did; null without train.until" },
	{ "epochs", "samples dealt / samples of an epoch" },
	{ "epochs_applied", "samples applied / samples of an epoch, mean over the shards" },
	{ "steps", "gradients on one batch that the shards applied; mean over the shards" },
	{ "updates",
	  "updates of a shard; mean over the shards and, where replicas differ, over the replicas; "
	  "iterations of an optimiser" },
	{ "samples",
	  "samples in these gradients, counted each time they were applied; mean over the shards" },
	{ "seconds", "wall-clock time, including the earlier parts of a resumed run" },
	{ "samples_per_second", "samples / seconds" },
	{ "steady",
	  "speed without the tail of the run: samples applied, seconds (virtual in sim) and "
	  "samples_per_second, from the first samples dealt in this part of the run until a worker "
	  "first asked for more and there were none; null if that did not happen. Samples "
	  "that are lost with a server do not count; a shard that is restored to a state before "
	  "that part of the run counts from that state" },
	{ "workers", "cluster.workers" },
	{ "shards", "number of shards that the parameters are split into" },
	{ "parameters", "number of trainable parameters" },
	{ "staleness", "staleness of the applied contributions, in updates: mean, max, and a "
		       "histogram that starts at 0" },
	{ "gap", "for train.gap: how far the parameters had moved when a contribution was applied, "
		 "from those that its worker was sent: rms, the root of the mean square over all "
		 "parameters and contributions, and max, the largest of one contribution in one "
		 "shard; null otherwise" },
	{ "periods", "strategy.adaptive: the least and the most steps between two pushes that the "
		     "master gave to a worker; null without it" },
	{ "bytes_sent",
	  "by all nodes; of joiners what they last told, which is nearly all; with MPI by "
	  "rank 0" },
	{ "bytes_received", "by this process; in sim by all nodes" },
	{ "codec",
	  "what the codecs did, counted by the shards: slices, and their bytes before (raw) and "
	  "after (encoded) the codec; up: of contributions, with density, the share of the values "
	  "that was sent (null if nothing was pushed); down: of parameters in answers" },
	{ "cache", "for strategy.cache, of the applied contributions: fetches (computed on "
		   "parameters that were fetched for them), saved (computed on those that the "
		   "worker had) and bytes_saved (of answers, at the mean size of those that were "
		   "sent); null otherwise" },
	{ "dropped", "samples whose contribution came too late for its gate" },
	{ "refused", "contributions that were not finite, or malformed" },
	{ "redealt", "samples dealt again because their worker was lost, or because their "
		     "contribution came too late" },
	{ "repeated", "samples that some shard applied more than once" },
	{ "lost_updates", "updates lost with a server; mean over the shards" },
	{ "deltas",
	  "for send: delta, of the applied contributions: period (strategy.push), pushes, "
	  "steps_per_push (mean of the own steps in one), drift_mean and drift_max (norm of a "
	  "worker's parameters less the shared ones when it pushed), skipped (gradients that were "
	  "not finite, and that no step was made with), lost_copies (own parameters that died with "
	  "their worker: merge: elastic or mix); null otherwise" },
	{ "residual",
	  "for codecs that remember: mean and max (norm of what a worker owed after a push), "
	  "lost (sum of the norms that died with workers) and lost_workers; null otherwise" },
	{ "optimiser",
	  "for an optimiser, at the point that it accepted last: iterations, evaluations, loss "
	  "(over "
	  "the batch, with l2), gradient (its norm), step (length of the last step, in units of "
	  "its "
	  "direction), restarts (with the steepest descent), backups (portions that this process "
	  "dealt twice) and ended (why it ended); null otherwise" },
	{ "pipeline",
	  "for strategy.pipeline: schedule, stages, lanes (of each stage), bubble (share of the "
	  "time from the first "
	  "forward to the last backward in which nodes of workers did not compute), seconds (that "
	  "time; virtual in sim), and cells: for each node of each worker its worker, stage, "
	  "lane, micro_batches, forward_seconds, backward_seconds and update_seconds (means; an "
	  "update lasts from the backward before it until its answer), idle (share), "
	  "activation_bytes_sent (with gradients of activations), in_flight (most "
	  "micro-batches between forward and backward), versions (most versions of its parameters "
	  "in memory) and memory_bytes (most bytes of these versions, of inputs and of what "
	  "backwards need); bubble and seconds are null while a cell has told nothing; null "
	  "otherwise" },
	{ "parameters_digest",
	  "XXH3-128 of the evaluated trainable parameters; null if interrupted" },
	{ "buffers_digest", "the same digest of the buffers; null if interrupted" },
	{ "isa", "instruction set that the kernels used" },
	{ "threads", "compute threads per worker" },
	{ "checkpoint", "path of the last complete checkpoint, or null" },
	{ "virtual_seconds", "sim: seconds on the simulated clock" },
	{ "events", "sim: number of simulated events" },
	{ "usage",
	  "sim and threads: shares of the workers' time, in which each moment counts once: "
	  "computing, transferring (sim: a message from or to the worker is on its way; "
	  "threads: its thread works on messages, its own or those of shards), waiting; "
	  "workers: the three shares of each of the first 64 workers" },
	{ "server_link", "sim: bytes that all servers received and sent, in bins of so many "
			 "virtual seconds; null without servers" },
	{ "effort", "sim, with compute.by_label or by_sample: the mean of these factors over the "
		    "samples that were applied; null otherwise" },
	{ "role", "join: role of this process, worker or server" },
	{ "own_steps", "join: the part done by this process" },
	{ "own_samples", "join: the part done by this process" },
	{ "own_pipeline",
	  "join, for strategy.pipeline: as pipeline, with the cell of this process" },
	{ "processes",
	  "join --workers: exit_code, own_steps, own_samples and left of each process" },
	{ "left", "join: true if this process left before the end; then all figures are its own" },
	{ NULL, NULL },
};
