/* SPDX-License-Identifier: Apache-2.0 */
/* fields.c - the rows of every section of a job file. */
#include "spec/field.h"

#include "spec/optimiser.h"
#include "spec/oversubscription.h"

#include <math.h>
#include <string.h>

#define MANY  1e18 /* counts that nobody reaches */
#define LARGE 1e30

static const char *const deals[] = {
	[TW_DEAL_SHUFFLED] = "shuffled",
	[TW_DEAL_PARTITION] = "partition",
	[TW_DEAL_BLOCKS] = "blocks",
	NULL,
};
static const char *const train_modes[] = {
	[TW_TRAIN_EPOCHS] = "epochs",
	[TW_TRAIN_ONLINE] = "online",
	NULL,
};
static const char *const keeps[] = { [TW_KEEP_LAST] = "last", [TW_KEEP_BEST] = "best", NULL };
static const char *const measures[] = {
	[TW_BY_LOSS] = "loss", [TW_BY_ACCURACY] = "accuracy", NULL
};
static const char *const releases[] = {
	[TW_RELEASE_AT_ONCE] = "at-once",
	[TW_RELEASE_GRADUAL] = "gradual",
	NULL,
};
static const char *const predicts[] = { "label", "input", NULL };
static const char *const sends[] = { "gradient", "momentum", "delta", NULL };
static const char *const merges[] = { "replace", "keep", "elastic", "mix", NULL };
static const char *const topologies[] = {
	[TW_TOPOLOGY_SERVER] = "server",
	[TW_TOPOLOGY_ALLREDUCE] = "allreduce",
	[TW_TOPOLOGY_MIXING] = "mixing",
	NULL,
};
const char *const tw_schedule_kinds[] = {
	[TW_SCHEDULE_CONSTANT] = "constant",
	[TW_SCHEDULE_STEP] = "step",
	[TW_SCHEDULE_COSINE] = "cosine",
	[TW_SCHEDULE_LINEAR] = "linear",
	[TW_SCHEDULE_INVERSE_ROOT] = "inverse-root",
	[TW_SCHEDULE_INVERSE] = "inverse",
	NULL,
};
static const char *const placements[] = {
	[TW_PLACEMENT_EVERYWHERE] = "everywhere",
	[TW_PLACEMENT_ON_DEMAND] = "on-demand",
	[TW_PLACEMENT_OWN] = "own",
	NULL,
};
static const char *const places[] = {
	[TW_PLACE_SERVERS] = "servers",
	[TW_PLACE_WITH_STAGE] = "with-stage",
	NULL,
};
static const char *const cuts[] = { "drain", "running", NULL };
static const char *const laws[] = { "constant", "uniform", "geometric", NULL };

#define D struct tw_job_data
const struct tw_option tw_data_rows[] = {
	TW_OPTION(D, source, TW_TEXT, "none", NULL, 0, 0,
		  "where samples come from; see the data sources; none: the model generates them",
		  .example = "csv"),
	TW_OPTION(D, batch, TW_U32, "1", "samples", 0, 1e9,
		  "samples per worker and step; 0 with global_batch (default with a data set: 64; "
		  "with an optimiser: its portion)",
		  .example = "64"),
	TW_OPTION(D, global_batch, TW_U32, "0", "samples", 0, 1e9,
		  "samples per step of all workers together, instead of batch; 0: use batch",
		  .example = "256"),
	TW_OPTION(D, accumulate, TW_U32, "1", "batches", 1, 1e6,
		  "steps whose gradients a worker averages, in order, into one gradient",
		  .example = "4"),
	TW_OPTION_CHOICE(D, deal, "deal", "shuffled", deals,
			 "which samples a worker gets: any of them; only its own subset, the same "
			 "in every epoch and drawn at random (partition); or only its own range "
			 "of the data in the order in which they are stored (blocks)"),
	TW_OPTION_AS(D, shuffle_block, "shuffle.block", TW_U64, "0", "samples", 0, 1e15,
		     "an epoch permutes blocks of so many samples that are stored one after the "
		     "other, then the samples within each block; 0: all samples together",
		     .example = "1024"),
	TW_OPTION_CHOICE(
		D, placement, "placement", "everywhere", placements,
		"where samples are: every worker has all of them; or only the process that "
		"has the master, and they are sent to the worker that computes on them "
		"(on-demand); or each caller of a session has samples of its own, which "
		"are dealt only to it (own)"),
	TW_OPTION(D, ahead, TW_U32, "4", "steps", 1, TW_AHEAD_MOST,
		  "with placement: on-demand: so many steps before a worker computes on samples it "
		  "asks for them"),
	TW_OPTION_END
};

const struct tw_option tw_made_up_rows[] = { TW_OPTION(D, samples, TW_U64, "1024", "samples", 1,
						       1e15, "training samples in an epoch"),
					     TW_OPTION_END };
const struct tw_option tw_data_set_rows[] = {
	TW_OPTION_CHOICE(D, predict, "predict", "label", predicts,
			 "what the network predicts: a sample's label or values, or its own input "
			 "(the default of an autoencoder)"),
	TW_OPTION_END
};

#define N struct tw_job_network
const struct tw_option tw_network_rows[] = {
	TW_OPTION(N, name, TW_TEXT, "", NULL, 0, 0,
		  "a network by its name, instead of layers; see the networks", .example = "mlp"),
	TW_OPTION_CHOICE(N, init, "init", "torch", tw_init_names,
			 "how initial weights are drawn, unless a layer gives its own init"),
	TW_OPTION(N, weights, TW_TEXT, "", NULL, 0, 0,
		  "a safetensors file with the initial weights, such as one from thalweg export; "
		  "tensors with other names are taken by order and shape"),
	TW_OPTION(N, partial, TW_BOOL, "false", NULL, 0, 0,
		  "take from model.weights the tensors that fit, and draw the others as `init` "
		  "says"),
	TW_OPTION(
		N, freeze, TW_WORDS, "[]", NULL, 0, 0,
		"layers that are not trained, as the first column of thalweg inspect JOB names "
		"them: [0, 3], or a range [0-7]; their initial weights stay as they are, and cost "
		"no gradient, no memory of the rule and no traffic",
		.example = "[0-7]"),
	TW_OPTION(N, stages, TW_WORDS, "auto", NULL, 0, 0,
		  "layers after which the model is cut into stages, such as [3, 7]; auto: stages "
		  "that take equally long (strategy.pipeline)"),
	TW_OPTION_END
};

#define E struct tw_job_external
const struct tw_option tw_external_rows[] = {
	TW_OPTION(E, parameters, TW_U64, "1", "parameters", 1, 1e10,
		  "number of trainable parameters; the program that links libthalweg sets this "
		  "field and the ones below",
		  .example = "1000"),
	TW_OPTION(E, buffers, TW_U64, "0", "buffers", 0, 1e9,
		  "running statistics that are kept with the parameters but not trained",
		  .example = "8"),
	TW_OPTION(E, samples, TW_U64, "1", "samples", 1, 1e15, "training samples in an epoch",
		  .example = "1000"),
	TW_OPTION(E, tests, TW_U64, "1", "samples", 1, 1e15, "samples in an evaluation",
		  .example = "200"),
	TW_OPTION_END
};

const struct tw_option tw_tensors_rows[] = {
	TW_OPTION_AS(E, file, "tensors", TW_TEXT, "", NULL, 0, 0,
		     "a safetensors file with the names, shapes and initial values of a model that "
		     "programs compute which join with thalweg_session_open; data.samples says how "
		     "many training samples they have",
		     .example = "model.safetensors"),
	TW_OPTION(E, tests, TW_U64, "0", "samples", 0, 1e15,
		  "test samples that these programs score in an evaluation; 0: none",
		  .example = "1000"),
	TW_OPTION(E, data, TW_TEXT, "", NULL, 0, 0,
		  "a text for the data, such as its version; programs that give another are "
		  "refused",
		  .example = "digits-2"),
	TW_OPTION_END
};

#define L struct tw_job_loss
const struct tw_option tw_loss_rows[] = {
	TW_OPTION(L, name, TW_TEXT, "cross-entropy", NULL, 0, 0,
		  "what the model minimises; see the losses (quadratic and least-squares: "
		  "squared; an autoencoder, and data with values: mean-squared)"),
	TW_OPTION_END
};

#define T struct tw_job_train
const struct tw_option tw_train_rows[] = {
	TW_OPTION(T, epochs, TW_F64, "1", "epochs", 0, 1e9,
		  "passes over the data; 0: no limit (the default if another limit is given, and "
		  "with an optimiser)",
		  .example = "10"),
	TW_OPTION(T, steps, TW_U64, "0", "steps", 0, MANY,
		  "steps (gradients of one batch) of all workers together, rounded up to a "
		  "multiple of data.accumulate; 0: no limit",
		  .example = "5000"),
	TW_OPTION(T, updates, TW_U64, "0", "updates", 0, MANY,
		  "updates of the parameters; 0: no limit", .example = "5000"),
	TW_OPTION(T, time, TW_TIME, "0s", NULL, 0, 3.2e18,
		  "longest time of the run, by the world's clock; 0s: no limit",
		  .example = "10min"),
	TW_OPTION(T, seed, TW_U64, "1", NULL, 0, 0, "random seed of the run"),
	TW_OPTION_AS(T, warm_workers, "warm.workers", TW_U32, "0", "workers", 0, 1e6,
		     "number of workers that train alone at first; 0: no warm start",
		     .example = "2"),
	TW_OPTION_AS(T, warm_for, "warm.for", TW_EPOCHS, "0 epochs", NULL, 0, 1e9,
		     "how long these workers train alone", .example = "0.5 epochs"),
	TW_OPTION_CHOICE(T, warm_release, "warm.release", "at-once", releases,
			 "the other workers begin together after that time (at-once), or one after "
			 "the other, as that many samples are done (gradual)"),
	TW_OPTION_AS(T, until_loss, "until.loss", TW_F64, "none", NULL, -LARGE, LARGE,
		     "stop when an evaluation's loss is at or below this; if until.accuracy is "
		     "given too, either one stops the run",
		     .example = "0.1"),
	TW_OPTION_AS(T, until_accuracy, "until.accuracy", TW_F64, "none", NULL, 0, 1,
		     "stop when an evaluation's accuracy is at or above this", .example = "0.97"),
	TW_OPTION(T, evaluate, TW_F64, "0", "epochs", 0, 1e9,
		  "applied epochs between evaluations; 0: only at the end (default with a data "
		  "set, or if until is given: 1)",
		  .example = "0.5"),
	TW_OPTION_CHOICE(
		T, keep, "keep", "last", keeps,
		"which parameters are the result: those at the end (last), or those of the "
		"best evaluation (best), on the validation set if data.evaluate says so"),
	TW_OPTION_CHOICE(
		T, measure, "measure", "loss", measures,
		"what the best evaluation has (keep: best): the lowest loss, or the highest "
		"accuracy"),
	TW_OPTION(T, patience, TW_U32, "0", "evaluations", 0, 1e9,
		  "end the run when so many evaluations (every train.evaluate epochs) were no "
		  "better than the best one; 0: never; needs keep: best",
		  .example = "10"),
	TW_OPTION_AS(T, restarts, "on_divergence.restarts", TW_U32, "0", "restarts", 0, 1000,
		     "how often a run that diverges goes back to its last good checkpoint (without "
		     "one: to the beginning) and trains on with a lower rate; 0: it ends",
		     .example = "3"),
	TW_OPTION_AS(T, restart_rate, "on_divergence.rate", TW_F64, "0.5", NULL, 0, 1,
		     "what each restart multiplies update.rate with; above 0 and below 1"),
	TW_OPTION(T, gap, TW_BOOL, "false", NULL, 0, 0,
		  "measure the gap: how far the parameters have moved between those that a worker "
		  "was sent and those that its contribution is applied to. A server then keeps "
		  "what it sent to each worker, and reads both once more for each contribution"),
	TW_OPTION_CHOICE(T, mode, "mode", "epochs", train_modes,
			 "samples pass as often as train.epochs says, in an order that is drawn "
			 "(epochs); or once, in their order, and each is predicted and scored "
			 "before it is learnt from (online)"),
	TW_OPTION(T, window, TW_U64, "1000", "samples", 1, 1e6,
		  "online: the windowed loss is that of the last so many samples, and is reported "
		  "each time that so many more are scored",
		  .example = "500"),
	TW_OPTION_END
};

#define U struct tw_job_update
/* The sum of N gradients that differ by chance is about sqrt(N) times as long as one (Lin et al.
 * 2018). */
static enum tw_status clip_of_sum(void *base, uint32_t workers, struct tw_error *why)
{
	U *u = base;

	(void)why;
	u->clip = u->global_clip / sqrt((double)workers);
	return TW_OK;
}

const struct tw_option tw_update_rows[] = {
	TW_OPTION(U, rule, TW_TEXT, "sgd", NULL, 0, 0,
		  "what a gradient does to the parameters; see the rules"),
	TW_OPTION_AS(
		U, schedule.rate, "rate", TW_F64, "0.1", NULL, 0, 1e6,
		"the learning rate (default: that of the rule, see the rules; of sgd 0.1); auto: "
		"the best of at most 7 rates in 32 steps each on the first batches",
		.unset = "auto"),
	TW_OPTION(U, layers, TW_WORDS, "[]", NULL, 0, 0,
		  "layers whose rate is another, as factors of update.rate: [0-7=0.1, 9=2]; layers "
		  "are named as in model.freeze, and weight decay follows the rate",
		  .example = "[0-7=0.1]"),
	TW_OPTION(U, decay, TW_F64, "0", NULL, 0, 1e6, "weight decay; 0: none", .example = "1e-4"),
	TW_OPTION(U, clip, TW_F64, "0", "norm", 0, LARGE,
		  "maximum norm of a gradient; workers clip longer ones; 0: no clipping",
		  .example = "5"),
	TW_OPTION_ALIAS(U, global_clip, TW_F64, "0", 0, LARGE, "clip", clip_of_sum,
			"maximum norm of the sum of all workers' gradients, instead of clip: clip "
			"= global_clip / sqrt(workers)",
			.example = "10"),
	TW_OPTION_CHOICE(U, schedule.kind, "schedule.kind", "constant", tw_schedule_kinds,
			 "how the learning rate changes over the run: epochs count the samples "
			 "that are applied, not those that are dealt; inverse-root and inverse: "
			 "rate / sqrt(t) and rate / t for update t"),
	TW_OPTION_AS(U, schedule.warmup, "schedule.warmup", TW_F64, "0", "epochs", 0, 1e9,
		     "linear warm-up of the learning rate; 0: none", .example = "5"),
	TW_OPTION_AS(U, schedule.warmup_from, "schedule.warmup_from", TW_F64, "0", NULL, 0, 1,
		     "factor of the learning rate at the start of the warm-up", .example = "0.1"),
	TW_OPTION_AS(U, ball, "project.ball", TW_F64, "none", "norm", 0, LARGE,
		     "after every update, the parameters become the nearest whose Euclidean norm, "
		     "over the whole vector, is at most this; none: no projection",
		     .example = "10"),
	TW_OPTION_AS(U, box, "project.box", TW_F64S, "[]", NULL, -LARGE, LARGE,
		     "after every update, each parameter becomes the nearest number from the first "
		     "to the second of these; []: no projection",
		     .example = "[-0.5, 1]"),
	TW_OPTION_END
};
static const struct tw_option step_rows[] = {
	TW_OPTION_AS(U, schedule.factor, "factor", TW_F64, "0.1", NULL, 0, 1e6,
		     "factor that multiplies the learning rate at each change"),
	TW_OPTION_AS(U, schedule.at, "at", TW_F64S, "[]", "epochs", 0, 1e9,
		     "epochs at which the learning rate changes, ascending", .example = "[10, 20]"),
	TW_OPTION_AS(U, schedule.every, "every", TW_F64, "0", "epochs", 0, 1e9,
		     "epochs between changes of the learning rate, instead of at; 0: use at",
		     .example = "10"),
	TW_OPTION_END
};
static const struct tw_option final_rows[] = {
	TW_OPTION_AS(U, schedule.final, "final", TW_F64, "0", NULL, 0, 1,
		     "final learning rate, as a factor of update.rate", .example = "0.01"),
	TW_OPTION_END
};
const struct tw_option *const tw_schedule_rows[] = {
	[TW_SCHEDULE_CONSTANT] = NULL,     [TW_SCHEDULE_STEP] = step_rows,
	[TW_SCHEDULE_COSINE] = final_rows, [TW_SCHEDULE_LINEAR] = final_rows,
	[TW_SCHEDULE_INVERSE_ROOT] = NULL, [TW_SCHEDULE_INVERSE] = NULL,
};

#define C struct tw_job_cluster
const struct tw_option tw_cluster_rows[] = {
	TW_OPTION(C, workers, TW_U32, "2", "workers", 1, TW_CROWD_SIM,
		  "number of workers; as threads of one process, at most 4096", .example = "4"),
	TW_OPTION(C, min, TW_U32, "1", "workers", 1, TW_CROWD_SIM,
		  "the run pauses while it has fewer workers than this", .example = "2"),
	TW_OPTION(C, wait, TW_TIME, "60s", NULL, 0, 3.2e18,
		  "how long to wait for all workers to join, and in a pause for at least min of "
		  "them"),
	TW_OPTION(C, servers, TW_U32, "1", "servers", 0, 4096,
		  "number of servers, which hold the shards; 0 where every worker holds them all "
		  "(topology: allreduce)"),
	TW_OPTION(C, shards, TW_U32, "0", "shards", 0, 65535,
		  "number of ranges that the parameters are split into; 0: one per MiB of "
		  "parameters, at most 16",
		  .example = "4"),
	TW_OPTION(C, stages, TW_U32, "0", "stages", 0, 64,
		  "parts that the model of a worker is cut into, each on a node of its own "
		  "(strategy.pipeline); 0: one more than model.stages lists, 2 with "
		  "strategy.pipeline, else 1",
		  .example = "2"),
	TW_OPTION(
		C, lanes, TW_F64S, "[]", "nodes", 1, 1024,
		"nodes that compute each stage in turn, such as [15, 1]: micro-batch m is computed "
		"by node m mod 15 of the first stage; []: one each",
		.example = "[3, 1]"),
	TW_OPTION_CHOICE(C, place, "place", "servers", places,
			 "where the parameters of a stage are: on servers, or on the node that "
			 "computes the stage (with-stage), so that they never travel; a lost node "
			 "then takes them along, and all go back to the last checkpoint"),
	TW_OPTION(C, limit, TW_TIME, "15s", NULL, 1e6, 3.2e18,
		  "remove a peer that has been silent for this long"),
	TW_OPTION(C, heartbeat, TW_TIME, "1s", NULL, 1e4, 3.2e18,
		  "time between heartbeats; used by processes (serve, join, MPI ranks) only "
		  "(default: at most a fifth "
		  "of suspect)"),
	TW_OPTION(C, suspect, TW_TIME, "5s", NULL, 1e4, 3.2e18,
		  "name a peer in the log as suspect when it has been silent for this long; used "
		  "by processes only (default: at most a third of limit)"),
	TW_OPTION(C, stuck, TW_TIME, "60s", NULL, 0, 3.2e18,
		  "remove a worker that answers but makes no progress for this long while others "
		  "wait for it; if nothing moves in the whole run, whoever it waits for, after one "
		  "and a half times as long. The time is extended to ten times the median that "
		  "other workers took for as many samples. 0s: never. Used by serve and join, and "
		  "by sim if it is given"),
	TW_OPTION_END
};

#define S struct tw_job_strategy
static enum tw_status alpha_of_elasticity(void *base, uint32_t workers, struct tw_error *why)
{
	struct tw_job_strategy *s = base;

	if (s->elasticity > (double)workers)
		return tw_fail(why, TW_BAD_INPUT,
			       "%g is more than the %u workers, so alpha would be above 1; use at "
			       "most %u",
			       s->elasticity, workers, workers);
	s->alpha = s->elasticity / (double)workers;
	return TW_OK;
}

const struct tw_option tw_strategy_rows[] = {
	TW_OPTION(S, name, TW_TEXT, "", NULL, 0, 0,
		  "a preset whose fields this strategy starts from; see the presets"),
	TW_OPTION(S, gate, TW_TEXT, "bsp", NULL, 0, 0,
		  "when a contribution is applied and when a worker may continue; see the gates "
		  "(default where another field cannot be combined with rounds: async)"),
	TW_OPTION(S, staleness, TW_TEXT, "none", NULL, 0, 0,
		  "how a late gradient is corrected; see the staleness policies"),
	TW_OPTION_CHOICE(S, send, "send", "gradient", sends,
			 "what a worker sends: its gradient, its own momentum (DANA-Slim), or "
			 "where its own steps led (delta: averaging and its relatives)"),
	TW_OPTION(S, push, TW_U32, "1", "steps", 1, 1e6,
		  "steps between pushes; a push is the total of their gradients, not the mean",
		  .example = "16"),
	TW_OPTION(S, push_after, TW_F64, "0", "epochs", -1, 1e9,
		  "send: delta: push every step before this epoch, and every `push` steps after "
		  "it; -1: after the first drop of the learning rate, or half of the run "
		  "where it does not drop",
		  .example = "5"),
	TW_OPTION(
		S, fragments, TW_U32, "1", NULL, 1, 100000,
		"send: delta in rounds: number of parts of the parameters that are pushed in turn, "
		"each every `push` steps (streaming DiLoCo); push must be a multiple of it",
		.example = "2"),
	TW_OPTION(
		S, delay, TW_U32, "0", "steps", 0, 1e6,
		"send: delta in rounds: number of steps that a worker computes after a push before "
		"it merges the answer; less than push / fragments",
		.example = "4"),
	TW_OPTION(S, adaptive, TW_BOOL, "false", NULL, 0, 0,
		  "send: delta without rounds: a worker takes push * (its speed / the 0.9 quantile "
		  "of all speeds) steps between pushes, so that all push equally often (DyLU)"),
	TW_OPTION(S, average_state, TW_BOOL, "false", NULL, 0, 0,
		  "send: delta in rounds: average the state of the workers' rule (momentum, Adam's "
		  "moments and step count) together with the parameters; it travels uncompressed"),
	TW_OPTION(S, fetch, TW_U32, "1", "steps", 1, 1e6,
		  "steps between fetches (default with send: delta: push); fetch: {every: 2, "
		  "overlap: true} is short for fetch: 2 and overlap: true",
		  .example = "4"),
	TW_OPTION(S, overlap, TW_BOOL, "false", NULL, 0, 0,
		  "a worker that has asked for new parameters computes on with the old ones until "
		  "they come, instead of waiting for them"),
	TW_OPTION(S, cache, TW_BOOL, "false", NULL, 0, 0,
		  "a worker fetches new parameters only when those that it has are too old for the "
		  "gate (ssp's lead); until then it adds its own updates to them"),
	TW_OPTION_CHOICE(S, merge, "merge", "replace", merges,
			 "at a fetch: replace all parameters, or keep the worker's own steps that "
			 "it has not pushed yet; "
			 "with send: delta also elastic (EASGD: own and shared parameters are "
			 "drawn together) or mix"),
	TW_OPTION(S, alpha, TW_F64, "0.5", NULL, 0, 1,
		  "merge: elastic: share of the difference that is exchanged; merge: mix: share "
		  "of the own parameters that stays"),
	TW_OPTION_ALIAS(S, elasticity, TW_F64, "0", 0, 1e6, "alpha", alpha_of_elasticity,
			"EASGD's beta, instead of alpha: alpha = elasticity / workers",
			.example = "0.9"),
	TW_OPTION_AS(S, up, "codec.up", TW_TEXT, "fp32", NULL, 0, 0,
		     "how gradients are encoded; see the codecs"),
	TW_OPTION_AS(S, down, "codec.down", TW_TEXT, "fp32", NULL, 0, 0,
		     "how parameters are encoded; see the codecs"),
	TW_OPTION_AS(S, act, "codec.act", TW_TEXT, "fp32", NULL, 0, 0,
		     "how activations and their gradients are encoded between the stages of a "
		     "model (strategy.pipeline); see the codecs"),
	TW_OPTION_CHOICE(S, topology, "topology.kind", "server", topologies,
			 "who holds the parameters: servers, or every worker, which then add up "
			 "what they contribute among themselves (allreduce), or keep replicas "
			 "that differ close to each other (mixing)"),
	TW_OPTION_AS(S, pipeline, "pipeline.schedule", TW_TEXT, "none", NULL, 0, 0,
		     "order in which the stages of a worker's model compute micro-batches; see "
		     "the pipelines; none: every worker computes the whole model. pipeline: gpipe "
		     "is short for pipeline: {schedule: gpipe}"),
	TW_OPTION_AS(S, local, "local.rule", TW_TEXT, "none", NULL, 0, 0,
		     "rule of the local steps of a worker between fetches; none: no local steps"),
	TW_OPTION_AS(S, outer, "outer.rule", TW_TEXT, "none", NULL, 0, 0,
		     "send: delta: what the shards do with deltas; see the outer rules"),
	TW_OPTION_AS(S, skip_push, "skip.push", TW_F64, "none", NULL, 0, LARGE,
		     "the constant c of B-FASGD for skipping pushes", .example = "0.01"),
	TW_OPTION_AS(S, skip_fetch, "skip.fetch", TW_F64, "none", NULL, 0, LARGE,
		     "the constant c of B-FASGD for skipping fetches", .example = "0.01"),
	TW_OPTION_END
};
const struct tw_option tw_topology_rows[] = {
	TW_OPTION_AS(S, reduction, "schedule", TW_TEXT, "ring", NULL, 0, 0,
		     "how the workers add up what they contribute; see the reductions. topology: "
		     "tree is short for topology: {kind: allreduce, schedule: tree}"),
	TW_OPTION_END
};
const struct tw_option tw_mixing_rows[] = {
	TW_OPTION_AS(S, mixing, "mixing", TW_TEXT, "mesh", NULL, 0, 0,
		     "what passes between the replicas of the workers; see the mixings. topology: "
		     "mesh is short for topology: {kind: mixing, mixing: mesh}"),
	TW_OPTION_AS(S, reduction, "schedule", TW_TEXT, "ring", NULL, 0, 0,
		     "how the workers take the mean of their replicas, for evaluations and "
		     "checkpoints; see the reductions"),
	TW_OPTION_END
};
const struct tw_option tw_pipeline_rows[] = {
	TW_OPTION_AS(S, recompute, "recompute", TW_BOOL, "false", NULL, 0, 0,
		     "keep only the input of a stage for its backward, and compute its forward "
		     "again; false: keep all activations that the backward needs"),
	TW_OPTION_END
};
const struct tw_option tw_local_rows[] = {
	TW_OPTION_AS(S, local_rate, "rate", TW_F64, "0", NULL, 0, 1e6,
		     "learning rate of the local steps; 0: update.rate", .example = "0.05"),
	TW_OPTION_END
};

#define K struct tw_job_checkpoint
const struct tw_option tw_checkpoint_rows[] = {
	TW_OPTION(K, every, TW_TIME, "60s", NULL, 0, 3.2e18,
		  "time between checkpoints, by the world's clock; 0s: only when the run stops"),
	TW_OPTION(K, keep, TW_U32, "2", "checkpoints", 1, 1e6,
		  "number of checkpoints to keep, the newest ones"),
	TW_OPTION_CHOICE(K, cut, "cut", "drain", cuts,
			 "drain: all workers pause for a checkpoint; running: no worker pauses "
			 "(the default outside the simulator)"),
	TW_OPTION(K, memory, TW_SIZE, "64MiB", NULL, 0, 1e18,
		  "how much of a checkpoint the master holds at once; of a larger one it reads and "
		  "writes the shards' parts one after another (with rounds the workers then pause "
		  "as with cut: drain), and at least one at a time"),
	TW_OPTION_END
};

#define R struct tw_job_compare
const char *const tw_compare_measures[] = {
	"auto",           "accuracy",           "loss",  "accuracy-at-time", "loss-at-time",
	"time-to-target", "samples-per-second", "bytes", "effort",           NULL,
};
const struct tw_option tw_compare_rows[] = {
	TW_OPTION(
		R, seeds, TW_U32, "3", "seeds", 1, 1000,
		"runs of every method, with train.seed, train.seed + 1 and so on; a verdict needs "
		"at least 2, and 5 are better"),
	TW_OPTION(R, folds, TW_U32, "0", "folds", 0, 1000,
		  "cross-validation: the samples are divided into so many folds, and every method "
		  "has a run for each, which is scored on that fold (data.fold); 0: none",
		  .example = "5"),
	TW_OPTION_CHOICE(R, measure, "measure", "auto", tw_compare_measures,
			 "what methods are ranked and tuned by; auto: the time to the target if "
			 "there is one, else the accuracy, else the loss; effort: how long the "
			 "samples take that were applied (sim.compute.by_label)"),
	TW_OPTION(R, baseline, TW_BOOL, "true", NULL, 0, 0,
		  "add a row with one worker, unless a method has one already"),
	TW_OPTION_AS(R, target_accuracy, "target.accuracy", TW_F64, "none", NULL, 0, 1,
		     "measure the time to this accuracy; unlike train.until, runs go on after it",
		     .example = "0.97"),
	TW_OPTION_AS(R, target_loss, "target.loss", TW_F64, "none", NULL, -LARGE, LARGE,
		     "the same for a loss", .example = "0.1"),
	TW_OPTION(R, tune_seeds, TW_U32, "3", "seeds", 1, 1000,
		  "runs of every value that is tried for tuning, with seeds that the comparison "
		  "does not use (train.seed + 1000 and so on); the report says so if there are "
		  "fewer than 3",
		  .example = "5"),
	TW_OPTION(R, widen, TW_U32, "4", "values", 0, 16,
		  "how many values beyond each end of a geometric grid of tuned values may be "
		  "tried, with the grid's own steps, while the best one is the first or the last; "
		  "0: none",
		  .example = "2"),
	TW_OPTION(R, validation, TW_F64, "0.1", "of the training set", 0.001, 0.9,
		  "share of the training set that values are chosen on, if data.validation is 0; "
		  "never the test set"),
	TW_OPTION_END
};

#define Y struct tw_job_delay
const struct tw_option tw_delay_rows[] = {
	TW_OPTION(Y, steps, TW_U32, "0", "updates", 0, 100000,
		  "apply each gradient this many versions after the one it was computed on; 0: no "
		  "delay",
		  .example = "4"),
	TW_OPTION_CHOICE(Y, law, "law", "constant", laws,
			 "distribution of the delay (its mean is steps)"),
	TW_OPTION(Y, ramp, TW_EPOCHS, "0 epochs", NULL, 0, 1e9,
		  "time over which the delay grows from 0 to its full value",
		  .example = "0.5 epochs"),
	TW_OPTION_END
};

#define O struct tw_job_optimiser
const struct tw_option tw_optimiser_rows[] = {
	TW_OPTION(O, name, TW_TEXT, "none", NULL, 0, 0,
		  "a batch method that trains in place of update: and strategy:; see the "
		  "optimisers; none: these two do"),
	TW_OPTION_END
};

static const char *const batches[] = { "fixed", "fresh", NULL };

const struct tw_option tw_optimising_rows[] = {
	TW_OPTION(O, portion, TW_U32, "512", "samples", 1, 1e9,
		  "samples of one gradient; a worker that is free gets the next portion of the "
		  "batch"),
	TW_OPTION(O, batch, TW_TEXT, "all", NULL, 0, 0,
		  "samples of one evaluation: all, or a number; with a number, see batches"),
	TW_OPTION_CHOICE(O, batches, "batches", "fixed", batches,
			 "which samples a batch has: the same in all iterations, or fresh ones in "
			 "each (both gradients of a step are then still of one batch)"),
	TW_OPTION_AS(O, how.l2, "l2", TW_F64, "0", NULL, 0, 1e30,
		     "adds l2/2 times the squared norm of the parameters to the loss",
		     .example = "1e-4"),
	TW_OPTION_AS(O, how.gradient, "gradient", TW_F64, "1e-5", "norm", 0, 1e30,
		     "stop when the norm of the gradient is at or below this"),
	TW_OPTION_AS(O, how.decrease, "decrease", TW_F64, "1e-9", NULL, 0, 1,
		     "stop when an iteration lowers the loss by no more than this, relative to the "
		     "loss (or to 1, if the loss is smaller); not used with batches: fresh"),
	TW_OPTION_AS(O, how.evaluations, "evaluations", TW_U64, "1000", NULL, 0, 1e12,
		     "stop after the iteration in which this number of evaluations is reached; 0: "
		     "no limit"),
	TW_OPTION_AS(O, how.iterations, "iterations", TW_U64, "0", NULL, 0, 1e12,
		     "stop after this many iterations; 0: no limit", .example = "100"),
	TW_OPTION_AS(O, how.sufficient, "search.decrease", TW_F64, "1e-3", NULL, 0, 0.5,
		     "line search: share of the decrease that the slope promises which a step must "
		     "reach"),
	TW_OPTION_AS(O, how.curvature, "search.curvature", TW_F64, "0", NULL, 0, 1,
		     "line search: share of the slope that may be left after a step; 0: as the "
		     "method recommends",
		     .example = "0.9"),
	TW_OPTION_AS(O, how.trials, "search.trials", TW_U32, "20", "evaluations", 1, 1e6,
		     "line search: most evaluations along one direction"),
	TW_OPTION(O, backup, TW_BOOL, "true", NULL, 0, 0,
		  "deal the last portions of an evaluation to a second worker as well, and take "
		  "the result that comes first"),
	TW_OPTION_END
};
