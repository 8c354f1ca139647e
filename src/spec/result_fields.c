/* SPDX-License-Identifier: Apache-2.0 */
/* result_fields.c - what each field of a result means. */
#include "spec/result_fields.h"

#include <stddef.h>

const struct tw_result_field tw_result_fields[] = {
	{ "strategy", "the preset's name, or the choices it is made of" },
	{ "seed", "train.seed" },
	{ "world", "where the actors lived: sim, threads or tcp" },
	{ "interrupted", "true: it was stopped before its end, and the figures are those so far" },
	{ "diverged", "true: the loss was not a number any more, or every gradient was refused" },
	{ "evaluated", "which vector loss and accuracy are of: w, or the rule's own" },
	{ "loss", "mean over the test set, at the end; of an interrupted run: when it was last "
		  "evaluated, null if it was not since it was started, or where it is not finite" },
	{ "accuracy", "share of the test set, measured with the loss; null where a task has none" },
	{ "goal", "train.until: reached, and epochs (applied), updates, seconds (virtual in sim), "
		  "loss and accuracy of the first evaluation that reached it, null if none did; "
		  "null without train.until" },
	{ "epochs", "positions dealt / samples of an epoch" },
	{ "epochs_applied", "samples applied / samples of an epoch, mean over the shards" },
	{ "steps", "gradients on one batch that the shards applied; mean over the shards" },
	{ "updates", "mean over the shards" },
	{ "samples", "samples in these gradients, each as often as it was applied; mean over the "
		     "shards" },
	{ "seconds", "of the wall clock, earlier parts of a resumed run included" },
	{ "samples_per_second", "samples / seconds" },
	{ "steady", "without the tail: samples applied, seconds (virtual in sim) and "
		    "samples_per_second from the first deal of this part of the run until a worker "
		    "first found nothing left to deal; null if that did not happen" },
	{ "workers", "cluster.workers" },
	{ "shards", "the pieces of the parameters" },
	{ "parameters", "trainable ones" },
	{ "staleness", "how many updates late contributions were applied: mean, max, and a "
		       "histogram from 0 up" },
	{ "bytes_sent", "by this process; in sim by all" },
	{ "bytes_received", "by this process; in sim by all" },
	{ "dropped", "samples refused as late" },
	{ "refused", "contributions that were not finite, or malformed" },
	{ "redealt", "samples dealt again" },
	{ "repeated", "samples that some shard applied more than once" },
	{ "lost_updates", "updates that went with a server, mean over the shards" },
	{ "parameters_digest",
	  "XXH3-128 of the evaluated trainable parameters; null if interrupted" },
	{ "buffers_digest", "of the buffers; null if interrupted" },
	{ "isa", "the instructions it computed with" },
	{ "threads", "that compute, per worker" },
	{ "checkpoint", "path of the last complete one, or null" },
	{ "virtual_seconds", "sim: on the simulated clock" },
	{ "events", "sim: how many there were" },
	{ "role", "join: worker or server" },
	{ "own_steps", "join: of this process" },
	{ "own_samples", "join: of this process" },
	{ "processes", "join --workers: exit_code, own_steps, own_samples and left of each" },
	{ "left", "join: true: it left before the end, and all figures are its own" },
	{ NULL, NULL },
};
