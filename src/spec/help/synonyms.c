/* SPDX-License-Identifier: Apache-2.0 */
/* synonyms.c - what other programs call things, and what they are called here. */
#include "spec/help/synonyms.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define CPU                                                                                        \
	"GPUs are not supported; instead networks run on CPU cores, and `cluster.workers` sets "   \
	"how many; a PyTorch model may compute on GPUs (docs/PYTHON.md)"
#define HALF                                                                                       \
	"computing in 16 bits is not supported; instead `strategy: {codec: {up: fp16}}` halves "   \
	"what workers send"
#define AGAIN "run the same command again to resume"
#define WORD  "the job is a word after the verb: `thalweg train JOB`"
#define LOG                                                                                        \
	"such services are not supported; instead `thalweg train JOB --log FILE` writes all "      \
	"metrics as JSON lines"
#define TORCH                                                                                      \
	"the Python package trains a PyTorch model in its own loop, and takes gradients of other " \
	"libraries as arrays (docs/PYTHON.md); `thalweg export RUN --standalone --to FILE` "       \
	"prints PyTorch code for a network of `model.layers`"
#define SCORES                                                                                     \
	"`thalweg eval RUN` prints precision, recall, F1, ROC AUC and the confusion matrix of "    \
	"classes, and MAE, RMSE and R^2 of values"
#define FEDERATED                                                                                  \
	"encrypted sums are not supported; `data.placement` own leaves samples with the programs " \
	"that have them (sessions, docs/LIBRARY.md), under `strategy: averaging` (FedAvg), "       \
	"`strategy: fedasync` or `strategy: fedbuff`"
#define SHARDED                                                                                    \
	"it is not supported; instead `cluster.servers` and `cluster.shards` spread the "          \
	"parameters and the optimiser's state over servers"
#define FOLDS "`thalweg compare JOB --folds 5` trains on each of five folds"
#define TUNE  "`thalweg compare JOB --tune update.rate=0.01,0.1` chooses the best of several values"
#define MACHINES                                                                                   \
	"a job lists no machines; instead one runs `thalweg serve JOB`, and each of the others "   \
	"`thalweg join ADDRESS`"

const struct tw_synonym tw_synonyms[] = {
	/* the update */
	{ "lr", "update.rate", "the learning rate" },
	{ "learning_rate", "update.rate", "the learning rate" },
	{ "eta", "update.rate", "the learning rate" },
	{ "step_size", "update.rate", "the learning rate" },
	{ "optimizer", "update.rule", "the optimiser" },
	{ "optim", "update.rule", "the optimiser" },
	{ "solver", "update.rule", "the optimiser" },
	{ "weight_decay", "update.decay", "weight decay" },
	{ "wd", "update.decay", "weight decay" },
	{ "l2", "update.decay", "weight decay" },
	{ "betas", "update.beta1", "the first of Adam's two betas" },
	{ "eps", "update.epsilon", "Adam's epsilon" },
	{ "grad_clip", "update.clip", "the maximum norm of a gradient" },
	{ "clip_norm", "update.clip", "the maximum norm of a gradient" },
	{ "max_grad_norm", "update.clip", "the maximum norm of a gradient" },
	{ "gradient_clip_val", "update.clip", "the maximum norm of a gradient" },
	{ "gradient_clipping", "update.clip", "the maximum norm of a gradient" },
	{ "scheduler", "update.schedule.kind", "the schedule of the learning rate" },
	{ "lr_scheduler", "update.schedule.kind", "the schedule of the learning rate" },
	{ "lr_decay", "update.schedule.factor", "the factor at each change of the learning rate" },
	{ "milestones", "update.schedule.at",
	  "the list of epochs at which the learning rate changes" },
	{ "warmup_epochs", "update.schedule.warmup", "the warm-up of the learning rate" },
	{ "warmup_steps", "update.schedule.warmup",
	  "the warm-up of the learning rate, in epochs," },
	/* how long */
	{ "epoch", "train.epochs", "the number of epochs" },
	{ "num_epochs", "train.epochs", "the number of epochs" },
	{ "n_epochs", "train.epochs", "the number of epochs" },
	{ "max_epochs", "train.epochs", "the number of epochs" },
	{ "max_iter", "train.steps", "the number of steps" },
	{ "max_steps", "train.steps", "the number of steps" },
	{ "iterations", "train.steps", "the number of steps" },
	{ "random_seed", "train.seed", "the random seed" },
	{ "random_state", "train.seed", "the random seed" },
	{ "manual_seed", "train.seed", "the random seed" },
	{ "early_stopping", "train.patience", "evaluations without a better one that end a run" },
	{ "early_stop", "train.patience", "evaluations without a better one that end a run" },
	{ "early_stopping_patience", "train.patience",
	  "evaluations without a better one that end a run" },
	{ "n_iter_no_change", "train.patience", "evaluations without a better one that end a run" },
	{ "restore_best_weights", "train.keep", "whether the best weights are the result" },
	{ "save_best_only", "train.keep", "whether the best weights are the result" },
	{ "target_accuracy", "train.until.accuracy", "the accuracy at which a run ends early" },
	{ "target_loss", "train.until.loss", "the loss at which a run ends early" },
	{ "eval_every", "train.evaluate", "the number of epochs between evaluations" },
	{ "eval_steps", "train.evaluate", "the number of epochs between evaluations" },
	{ "validation_freq", "train.evaluate", "the number of epochs between evaluations" },
	/* data */
	{ "batch_size", "data.batch", "the batch of one worker" },
	{ "minibatch", "data.batch", "the batch of one worker" },
	{ "bs", "data.batch", "the batch of one worker" },
	{ "train_batch_size", "data.batch", "the batch of one worker" },
	{ "global_batch_size", "data.global_batch", "the batch of all workers together" },
	{ "gradient_accumulation_steps", "data.accumulate", "the number of batches per step" },
	{ "accumulate_grad_batches", "data.accumulate", "the number of batches per step" },
	{ "dataset", "data.source", "the data set" },
	{ "data_dir", "data.source", "the data set" },
	{ "path", "data.file", "the file of training samples" },
	{ "filename", "data.file", "the file of training samples" },
	{ "file_name", "data.file", "the file of training samples" },
	{ "file_path", "data.file", "the file of training samples" },
	{ "filepath", "data.file", "the file of training samples" },
	{ "csv", "data.file", "the file of training samples" },
	{ "csv_file", "data.file", "the file of training samples" },
	{ "csv_path", "data.file", "the file of training samples" },
	{ "data_file", "data.file", "the file of training samples" },
	{ "data_path", "data.file", "the file of training samples" },
	{ "input", "data.file", "the file of training samples" },
	{ "input_file", "data.file", "the file of training samples" },
	{ "train_file", "data.file", "the file of training samples" },
	{ "train_path", "data.file", "the file of training samples" },
	{ "train_csv", "data.file", "the file of training samples" },
	{ "train_data", "data.file", "the file of training samples" },
	{ "training_data", "data.file", "the file of training samples" },
	{ "url", NULL,
	  "files are read from this machine only; instead download it, and name it in "
	  "`data.file`" },
	{ "test_data", "data.test_file", "the file of test samples" },
	{ "test_path", "data.test_file", "the file of test samples" },
	{ "test_csv", "data.test_file", "the file of test samples" },
	{ "test_size", "data.test", "the part held out for testing" },
	{ "test_split", "data.test", "the part held out for testing" },
	{ "validation_split", "data.validation", "the part held out for validation" },
	{ "val_split", "data.validation", "the part held out for validation" },
	{ "target", "data.label", "the column to predict" },
	{ "target_column", "data.label", "the column to predict" },
	{ "label_column", "data.label", "the column to predict" },
	{ "label_col", "data.label", "the column to predict" },
	{ "label_name", "data.label", "the column to predict" },
	{ "target_col", "data.label", "the column to predict" },
	{ "class_column", "data.label", "the column to predict" },
	{ "columns", "data.columns", "the list of columns" },
	{ "features", "data.columns", "the list of columns" },
	{ "feature_columns", "data.columns", "the list of columns" },
	{ "usecols", "data.columns", "the list of columns" },
	{ "normalize", "data.normalise", "normalisation" },
	{ "normalization", "data.normalise", "normalisation" },
	{ "standardize", "data.normalise", "normalisation" },
	{ "image_size", "data.size", "the height and width of all images" },
	{ "img_size", "data.size", "the height and width of all images" },
	{ "resize", "data.size", "the height and width of all images" },
	{ "delimiter", "data.separator", "the separator between columns" },
	{ "regression", "data.task", "the choice of values (regression) or classes" },
	{ "classification", "data.task", "the choice of values (regression) or classes" },
	{ "sep", "data.separator", "the separator between columns" },
	{ "augment", "data.shift", "the random shift of images" },
	{ "augmentation", "data.shift", "the random shift of images" },
	{ "shuffle", NULL,
	  "samples are always shuffled, by train.seed; shuffle.block of data: shuffles blocks" },
	{ "shuffle_block", "data.shuffle.block", "the size of blocks that are shuffled" },
	{ "shuffle_buffer", "data.shuffle.block", "the size of blocks that are shuffled" },
	{ "partition", "data.deal", "the choice of each worker's samples" },
	{ "partitions", "data.deal", "the choice of each worker's samples" },
	{ "shard_data", "data.deal", "the choice of each worker's samples" },
	{ "num_classes", NULL, "the number of classes comes from the data" },
	{ "input_size", NULL, "the number of inputs comes from the data" },
	/* the network */
	{ "arch", "model.name", "the network" },
	{ "architecture", "model.name", "the network" },
	{ "network", "model.name", "the network" },
	{ "dropout_rate", "model.dropout", "the share of values that dropout leaves out" },
	{ "hidden_size", "model.hidden", "the list of the sizes of hidden layers" },
	{ "hidden_dim", "model.hidden", "the list of the sizes of hidden layers" },
	{ "hidden_layers", "model.hidden", "the list of the sizes of hidden layers" },
	{ "hidden_layer_sizes", "model.hidden", "the list of the sizes of hidden layers" },
	{ "units", "model.hidden", "the list of the sizes of hidden layers" },
	{ "frozen", "model.freeze", "the list of layers that are not trained" },
	{ "freeze_layers", "model.freeze", "the list of layers that are not trained" },
	{ "pretrained", "model.weights", "the file of initial weights" },
	{ "initializer", "model.init", "the distribution of the initial weights" },
	{ "criterion", "loss.name", "the loss" },
	{ "objective", "loss.name", "the loss" },
	{ "loss_fn", "loss.name", "the loss" },
	{ "label_smoothing", "loss.smoothing", "label smoothing" },
	/* the cluster */
	{ "num_workers", "cluster.workers", "the number of workers" },
	{ "n_workers", "cluster.workers", "the number of workers" },
	{ "threads", "cluster.workers", "the number of workers" },
	{ "num_threads", "cluster.workers", "the number of workers" },
	{ "n_threads", "cluster.workers", "the number of workers" },
	{ "cores", "cluster.workers", "the number of workers" },
	{ "cpus", "cluster.workers", "the number of workers" },
	{ "n_jobs", "cluster.workers", "the number of workers" },
	{ "nproc", "cluster.workers", "the number of workers" },
	{ "world_size", "cluster.workers", "the number of workers" },
	{ "nproc_per_node", "cluster.workers", "the number of workers" },
	{ "num_servers", "cluster.servers", "the number of servers" },
	{ "num_ps", "cluster.servers", "the number of servers" },
	{ "algorithm", "strategy.name", "the training strategy" },
	{ "max_staleness", "strategy.lead", "how far a worker may run ahead" },
	{ "staleness_bound", "strategy.lead", "how far a worker may run ahead" },
	{ "sync_every", "strategy.push", "the number of steps between two pushes" },
	{ "local_steps", "strategy.push", "the number of steps between two pushes" },
	{ "compression", "strategy.codec.up", "the encoding of what workers send" },
	{ "quantization", "strategy.codec.up", "the encoding of what workers send" },
	{ "precision", NULL, SCORES "; numbers of 16 bits are `strategy: {codec: {up: fp16}}`" },
	{ "amp", NULL, HALF },
	{ "mixed_precision", NULL, HALF },
	{ "device", NULL, CPU },
	{ "gpu", NULL, CPU },
	{ "gpus", NULL, CPU },
	{ "cuda", NULL, CPU },
	{ "accelerator", NULL, CPU },
	{ "tpu", NULL, CPU },
	{ "mps", NULL, CPU },
	{ "rocm", NULL, CPU },
	{ "backend", NULL, "the command decides where workers run: train, serve or sim" },
	/* what is kept */
	{ "checkpoint_dir", "--run DIR", "the directory of checkpoints" },
	{ "output_dir", "--run DIR", "the directory of checkpoints" },
	{ "save_dir", "--run DIR", "the directory of checkpoints" },
	{ "log_dir", "--run DIR", "the directory of the log" },
	{ "log_file", "--log FILE", "the file of metrics" },
	{ "save_every", "checkpoint.every", "the time between two checkpoints" },
	{ "save_steps", "checkpoint.every", "the time between two checkpoints" },
	{ "save_total_limit", "checkpoint.keep", "the number of checkpoints that are kept" },
	{ "max_to_keep", "checkpoint.keep", "the number of checkpoints that are kept" },
	{ "output", "--run DIR", "the directory of a run" },
	{ "output_path", "--run DIR", "the directory of a run" },
	{ "out", "--run DIR", "the directory of a run" },
	{ "out_dir", "--run DIR", "the directory of a run" },
	{ "run_dir", "--run DIR", "the directory of a run" },
	{ "model_dir", "--run DIR", "the directory of a run" },
	{ "save", "--run DIR", "the directory of a run" },
	{ "save_path", "--run DIR", "the directory of a run" },
	{ "overwrite", "--again", "starting over" },
	{ "dry_run", "--explain", "a look at the whole job without a run" },
	{ "validate", "--explain", "a look at the whole job without a run" },
	{ "debug", "--verbose", "every detail" },
	{ "log_level", "--verbose", "every detail" },
	{ "silent", "--quiet", "a run without messages" },
	{ "resume", NULL, AGAIN },
	{ "resume_from", NULL, AGAIN },
	{ "resume_from_checkpoint", NULL, AGAIN },
	{ "continue", NULL, AGAIN },
	{ "restore", NULL, AGAIN },
	{ "config", NULL, WORD },
	{ "config_file", NULL, WORD },
	{ "cfg", NULL, WORD },
	{ "job", NULL, WORD },
	{ "job_file", NULL, WORD },
	{ "tensorboard", NULL, LOG },
	{ "wandb", NULL, LOG },
	{ "mlflow", NULL, LOG },
	/* what there is not */
	{ "onnx", NULL,
	  "ONNX is not supported; instead `thalweg export RUN --standalone --to FILE` writes "
	  "safetensors and "
	  "prints PyTorch code, which can export ONNX" },
	{ "pytorch", NULL, TORCH },
	{ "torch", NULL, TORCH },
	{ "tensorflow", NULL, TORCH },
	{ "keras", NULL, TORCH },
	{ "jax", NULL, TORCH },
	{ "f1", NULL, SCORES },
	{ "f1_score", NULL, SCORES },
	{ "recall", NULL, SCORES },
	{ "auc", NULL, SCORES },
	{ "roc_auc", NULL, SCORES },
	{ "roc", NULL, SCORES },
	{ "confusion_matrix", NULL, SCORES },
	{ "metrics", NULL, SCORES },
	{ "federated", NULL, FEDERATED },
	{ "federated_learning", NULL, FEDERATED },
	{ "fl", NULL, FEDERATED },
	{ "fedprox", NULL, FEDERATED },
	{ "secure_aggregation", NULL, FEDERATED },
	{ "fsdp", NULL, SHARDED },
	{ "zero", NULL, SHARDED },
	{ "deepspeed", NULL, SHARDED },
	{ "tensor_parallel", NULL,
	  "splitting one layer over nodes is not supported; instead `strategy: gpipe` puts layers "
	  "on different nodes" },
	{ "cross_validation", NULL, FOLDS },
	{ "kfold", NULL, FOLDS },
	{ "grid_search", NULL, TUNE },
	{ "hyperparameters", NULL, TUNE },
	{ "sweep", NULL, TUNE },
	{ "optuna", NULL, TUNE },
	{ "nodes", NULL, MACHINES },
	{ "num_nodes", NULL, MACHINES },
	{ "hosts", NULL, MACHINES },
	{ "hostfile", NULL, MACHINES },
	{ "machines", NULL, MACHINES },
	{ "mpi", NULL, "start it under mpirun or srun: `thalweg train JOB --world mpi`" },
	{ "mpirun", NULL, "start it under mpirun or srun: `thalweg train JOB --world mpi`" },
	/* values */
	{ "imagefolder", "data.source: images", "a folder of images" },
	{ "image_folder", "data.source: images", "a folder of images" },
	{ "webdataset", "data.source: tar", "an archive of samples" },
	{ "jsonl", "data.source: json-lines", "a table as lines of JSON" },
	{ "ndjson", "data.source: json-lines", "a table as lines of JSON" },
	{ "mse", "loss: mean-squared", "the mean squared error" },
	{ "mse_loss", "loss: mean-squared", "the mean squared error" },
	{ "mean_squared_error", "loss: mean-squared", "the mean squared error" },
	{ "squared_error", "loss: mean-squared", "the mean squared error" },
	{ "nll", "loss: cross-entropy", "the negative log-likelihood of the right class" },
	{ "nll_loss", "loss: cross-entropy", "the negative log-likelihood of the right class" },
	{ "ce", "loss: cross-entropy", "the cross-entropy of classes" },
	{ "crossentropy", "loss: cross-entropy", "the cross-entropy of classes" },
	{ "cross_entropy", "loss: cross-entropy", "the cross-entropy of classes" },
	{ "cross_entropy_loss", "loss: cross-entropy", "the cross-entropy of classes" },
	{ "categorical_crossentropy", "loss: cross-entropy", "the cross-entropy of classes" },
	{ "sparse_categorical_crossentropy", "loss: cross-entropy",
	  "the cross-entropy of classes" },
	{ "log_loss", "loss: cross-entropy", "the cross-entropy of classes" },
	{ "bce", "loss: binary-cross-entropy", "the cross-entropy of each output" },
	{ "bce_loss", "loss: binary-cross-entropy", "the cross-entropy of each output" },
	{ "bce_with_logits", "loss: binary-cross-entropy", "the cross-entropy of each output" },
	{ "binary_crossentropy", "loss: binary-cross-entropy", "the cross-entropy of each output" },
	{ "nesterov", "update.rule: nag", "Nesterov's momentum" },
	{ "sgdm", "update.rule: momentum", "gradient descent with momentum" },
	{ "heavy_ball", "update.rule: momentum", "heavy-ball momentum" },
	{ "sync", "strategy: ssgd", "synchronous training" },
	{ "synchronous", "strategy: ssgd", "synchronous training" },
	{ "data_parallel", "strategy: ssgd", "synchronous training" },
	{ "ddp", "strategy: allreduce", "synchronous training without a server" },
	{ "all_reduce", "strategy: allreduce", "synchronous training without a server" },
	{ "horovod", "strategy: ring", "synchronous training without a server" },
	{ "ring_allreduce", "strategy: ring", "synchronous training without a server" },
	{ "fedavg", "strategy: averaging", "federated averaging" },
	{ "model_parallel", "strategy: gpipe", "training with layers on different nodes" },
	{ "pipeline_parallel", "strategy: gpipe", "training with layers on different nodes" },
	{ "asynchronous", "strategy: asgd", "asynchronous training" },
	{ "parameter_server", "strategy: asgd", "asynchronous training" },
	{ NULL },
};

/* "learningRate", "batch-size" and "BCEWithLogits" as the table has them; the letters of an
 * abbreviation stay together. */
void tw_synonym_plain(const char *word, char *out, size_t room)
{
	size_t n = 0;

	for (size_t k = 0; word[k] && n + 2 < room; k++) {
		const unsigned char c = (unsigned char)word[k];
		const bool begins = k && isupper(c) &&
				    (islower((unsigned char)word[k - 1]) ||
				     (isupper((unsigned char)word[k - 1]) &&
				      islower((unsigned char)word[k + 1])));

		if (begins && n && out[n - 1] != '_')
			out[n++] = '_';
		out[n++] = c == '-' || c == ' ' ? '_' : (char)tolower(c);
	}
	out[n] = 0;
}

static const struct tw_synonym *find(const char *word, const char *path)
{
	const size_t n = path ? strlen(path) : 0;
	char text[64];

	tw_synonym_plain(word, text, sizeof text);
	for (const struct tw_synonym *s = tw_synonyms; s->theirs; s++) {
		const char *value = s->ours ? strstr(s->ours, ": ") : NULL;

		if (strcmp(s->theirs, text) != 0 || !value != !path)
			continue;
		if (!path || ((size_t)(value - s->ours) == n && strncmp(s->ours, path, n) == 0))
			return s;
	}
	return NULL;
}

const struct tw_synonym *tw_synonym_field(const char *word)
{
	return find(word, NULL);
}

const struct tw_synonym *tw_synonym_value(const char *path, const char *word)
{
	/* a loss and a preset may be the section's value */
	if (strcmp(path, "loss.name") == 0)
		path = "loss";
	if (strcmp(path, "strategy.name") == 0)
		path = "strategy";
	return find(word, path);
}

const char *tw_synonym_say(const struct tw_synonym *s, char *out, size_t room)
{
	if (!s->ours)
		snprintf(out, room, "%s", s->note);
	else if (*s->ours == '-')
		snprintf(out, room, "%s is %s on the command line", s->note, s->ours);
	else
		snprintf(out, room, "%s is %s here", s->note, s->ours);
	return out;
}
