/* SPDX-License-Identifier: Apache-2.0 */
/* job.h - a job file, read, completed, checked, and turned into the plan of a run.
 *
 * One struct per section, filled by the rows beside it (fields.c, and the rows of the chosen gate,
 * staleness policy, rules, model and of the simulator).  Everything a job points to lives in its
 * arena and dies with it; the tables (gates, rules, ...) are static. */
#ifndef TW_SPEC_JOB_H
#define TW_SPEC_JOB_H

#include "actor/engine.h"
#include "base/arena.h"
#include "base/facts.h"
#include "base/option.h"
#include "base/status.h"
#include "data/data.h"
#include "engine/function.h"
#include "engine/quadratic.h"
#include "model/model.h"
#include "node/plan.h"
#include "world/sim/sim.h"

#include <stdbool.h>
#include <stdio.h>

#define TW_JOB_BYTES_MAX (1u << 20) /* a job file is written by a person */

enum tw_world_kind { TW_WORLD_SIM, TW_WORLD_THREADS, TW_WORLD_TCP, TW_WORLD_MPI };
/* Is it one of many processes, which share no memory? */
static inline bool tw_world_has_processes(enum tw_world_kind world)
{
	return world == TW_WORLD_TCP || world == TW_WORLD_MPI;
}
enum tw_model_kind {
	TW_MODEL_QUADRATIC,
	TW_MODEL_LEAST_SQUARES,
	TW_MODEL_FUNCTION,
	TW_MODEL_NETWORK,
	TW_MODEL_EXTERNAL
};
enum tw_cut { TW_CUT_DRAIN, TW_CUT_RUNNING };
/* Servers hold the parameters, or every worker does and they add up what they contribute. */
enum tw_topology_kind { TW_TOPOLOGY_SERVER, TW_TOPOLOGY_ALLREDUCE, TW_TOPOLOGY_MIXING };
enum tw_send { TW_SEND_GRADIENT, TW_SEND_MOMENTUM, TW_SEND_DELTA };

/* Each worker gets samples of all, or of its own subset, which is drawn or a range of the data. */
enum tw_deal_kind { TW_DEAL_SHUFFLED, TW_DEAL_PARTITION, TW_DEAL_BLOCKS };

/* Every worker has all samples; or they come with its leases; or each has samples of its own. */
enum tw_placement_kind { TW_PLACEMENT_EVERYWHERE, TW_PLACEMENT_ON_DEMAND, TW_PLACEMENT_OWN };

/* Samples pass as often as train.epochs says; or once, and are predicted before they are learnt
 * from. */
enum tw_train_mode { TW_TRAIN_EPOCHS, TW_TRAIN_ONLINE };

enum tw_release { TW_RELEASE_AT_ONCE, TW_RELEASE_GRADUAL };

enum tw_predict { TW_PREDICT_LABEL, TW_PREDICT_INPUT };

struct tw_job_data {
	const char *source;
	uint64_t samples; /* of an epoch; with a data set known only when the engine is open */
	uint32_t batch, global_batch; /* one of them is 0 */
	uint32_t accumulate;
	uint32_t deal;                /* enum tw_deal_kind */
	uint32_t placement;           /* enum tw_placement_kind */
	uint32_t ahead;               /* steps, with on-demand */
	uint64_t shuffle_block;       /* 0: all samples are permuted together */
	const struct tw_source *from; /* NULL: source none, the model makes its samples up */
	const void *options;          /* the source's own */
	struct tw_data_options set;   /* what all data sets have */
	uint32_t predict;             /* enum tw_predict */
};

/* A network: one of the zoo, or layers written out. */
struct tw_job_network {
	const char *name;
	const struct tw_zoo *zoo; /* NULL: layers */
	const void *options;
	struct tw_layer *layer;
	size_t layers;
	const struct tw_tree *tree; /* the layers as they were written */
	uint32_t init;              /* enum tw_init */
	const char *weights;        /* file of initial weights; "" none */
	bool partial;               /* ... which need not have all of them */
	const char *freeze;         /* layers that are not trained: a list of words */
	const char *stages;         /* where it is cut: "auto", or a list of layers */
};

/* A model whose engine is the caller's (include/thalweg.h): what must be the same on resuming. */
struct tw_job_external {
	uint64_t parameters, buffers, samples, tests;
	const char *file; /* model.tensors: their names, shapes and initial values; "": none */
	const char *data; /* what callers must call their data, too; "": anything */
};

struct tw_job_loss {
	const char *name;
	const struct tw_op *op; /* NULL: the model has its own */
	const void *options;
};

/* Which parameters are the result; what the best evaluation is judged by. */
enum tw_keep { TW_KEEP_LAST, TW_KEEP_BEST };
enum tw_keep_by { TW_BY_LOSS, TW_BY_ACCURACY };

struct tw_job_train {
	uint32_t mode;           /* enum tw_train_mode */
	uint64_t window;         /* online: samples of the windowed loss */
	double epochs;           /* 0: no limit by epochs */
	uint64_t steps, updates; /* 0: no limit */
	int64_t time;            /* ns of the world's clock; 0: no limit */
	uint64_t seed;
	uint32_t warm_workers;             /* 0: no warm start */
	double warm_for;                   /* epochs */
	uint32_t warm_release;             /* enum tw_release */
	double until_loss, until_accuracy; /* NAN: never */
	double evaluate;                   /* epochs between evaluations; 0: only at the end */
	uint32_t keep, measure;            /* enum tw_keep, enum tw_keep_by */
	uint32_t patience;                 /* evaluations without a better one; 0: any number */
	uint32_t restarts;                 /* after a divergence, at most */
	double restart_rate;               /* what each of them multiplies the rate with */
	bool gap;                          /* measure it */
};

struct tw_job_update {
	const char *rule;
	double decay, clip, global_clip;
	const char *layers;          /* "[0-7=0.1]": factors of the rate */
	struct tw_schedule schedule; /* `epochs` is the length of the run, from train: */
	double ball;                 /* update.project: NAN: none ... */
	struct tw_f64s box;          /* ... no numbers: none */
};

/* Who holds the shards. */
enum tw_place_kind { TW_PLACE_SERVERS, TW_PLACE_WITH_STAGE };

struct tw_job_cluster {
	uint32_t workers, min;
	uint32_t servers;     /* 0: the workers hold the parameters */
	uint32_t shards;      /* 0: by the size of the model */
	uint32_t stages;      /* nodes of a worker, one for each stage of the model ... */
	struct tw_f64s lanes; /* ... or so many, by stage; empty: one each */
	uint32_t place;       /* enum tw_place_kind */
	int64_t wait, limit;
	int64_t heartbeat, suspect; /* of processes; other worlds have no use for them */
	int64_t stuck;              /* of processes; in sim only where it is given */
};

struct tw_job_strategy {
	const char *name; /* the preset's, "" for none */
	const char *gate, *staleness, *up, *down, *act, *local, *outer;
	uint32_t send, push, fetch, merge; /* send: enum tw_send */
	uint32_t topology;                 /* enum tw_topology_kind */
	const char *reduction;             /* "" without peers */
	const char *mixing;                /* "" where replicas are equal */
	const char *pipeline;              /* "none" where a worker computes the whole model */
	bool recompute;                    /* backwards compute their forward again */
	bool average_state;
	bool overlap; /* a worker computes on while it fetches */
	bool cache;   /* a worker fetches only what is too old for the gate */
	uint32_t fragments, delay;
	double push_after; /* epochs; below 0: at the first drop of the rate */
	bool adaptive;     /* slow workers push after fewer steps */
	double alpha, elasticity;
	double local_rate;            /* 0: update.rate */
	double skip_push, skip_fetch; /* NAN: never skips */
};

struct tw_job_optimiser {
	const char *name, *batch;
	uint32_t portion, batches; /* batches: 0 fixed, 1 fresh */
	struct tw_descent_options how;
	bool backup;
};

struct tw_job_checkpoint {
	int64_t every; /* ns; 0: only when stopped */
	uint32_t keep;
	uint32_t cut;    /* enum tw_cut */
	uint64_t memory; /* bytes */
};

struct tw_job_delay {
	uint32_t steps; /* 0: none */
	uint32_t law;   /* enum tw_delay_law */
	double ramp;    /* epochs */
};

/* What thalweg compare is asked for; see compare/comparison.h. */
struct tw_tree;
struct tw_job_compare {
	uint32_t seeds, tune_seeds;
	uint32_t folds;    /* each is the test set of one run; 0: none, runs differ by seeds */
	uint32_t widen;    /* values beyond each end of a tuned grid */
	uint32_t measure;  /* an index into tw_compare_measures; 0: by the job */
	double validation; /* share of the training set that rates are chosen on */
	double target_loss, target_accuracy; /* NAN: none */
	bool baseline;
	/* As they were written; NULL: not given. */
	const struct tw_tree *given, *vary, *tune, *methods;
};
extern const char *const tw_compare_measures[]; /* NULL at the end */

struct tw_job {
	struct tw_arena arena;
	const char *file;  /* what errors call it: the path, or "standard input" */
	const char *title; /* what results call the strategy: the preset, or gate and policy */
	enum tw_world_kind world;
	uint32_t ranks; /* that a launcher has started for this job; 0: not known */

	struct tw_job_data data;
	enum tw_model_kind model;
	union {
		struct tw_quadratic_options quadratic;
		struct tw_least_squares_options least_squares;
		struct tw_function_options function;
		struct tw_job_external external;
	} engine; /* options of the engine */
	struct tw_job_network network;
	struct tw_job_loss loss;
	struct tw_job_train train;
	struct tw_job_update update;
	struct tw_job_cluster cluster;
	struct tw_job_strategy strategy;
	struct tw_job_optimiser optimiser;
	struct tw_job_checkpoint checkpoint;
	struct tw_job_compare compare;
	struct tw_sim_options sim;
	struct tw_job_delay delay;
	bool planned;           /* of tw_job_text */
	struct tw_fault *fault; /* from sim.faults; nodes by plan numbers */
	size_t faults;

	/* Complete after tw_job_finish_plan but for checkpoint_final and stop_after_cuts, which
	 * are the runner's. */
	struct tw_plan plan;

	/* What it trains because it names no model: the sections of its source (data/source.h);
	 * NULL: it names one. */
	const char *usual;

	/* Defaults are those of runs whose directory does not name TW_JOB_DEFAULTS. */
	bool former;

	/* What the world should say on stderr before it starts, one line each. */
	const char **warning;
	size_t warnings;

	/* Who hears how far the reading of its data has come; the caller's to set. */
	struct tw_data_listener listener;

	struct tw_facts facts; /* what refusals ask for; all of it when the job is checked */

	const struct tw_field *field; /* every row with where its value is; see field.h */
	size_t fields;
};

/* Which defaults a job is read with; a run directory says it, so that a run that began with others
 * resumes with these.  Number 1, which no directory names: gate: async, rate: 0.1 for all rules. */
#define TW_JOB_DEFAULTS 2

/* Read, complete and check the job at `path` ("-": standard input).  `set`: n texts
 * "path=value"; `environ_`: NULL-terminated "NAME=value" texts, or NULL for none.  On success
 * *out is the caller's (tw_job_free).  On failure *why is one sentence that names place, field,
 * reason and what would be accepted; TW_BAD_INPUT for anything the user can mend. */
enum tw_status tw_job_read(const char *path, const char *const *set, size_t n,
			   const char *const *environ_, enum tw_world_kind world,
			   struct tw_job **out, struct tw_error *why);
/* The same for text in memory; `name` is what errors call it. */
enum tw_status tw_job_read_text(const char *name, const char *text, size_t bytes,
				const char *const *set, size_t n, const char *const *environ_,
				enum tw_world_kind world, struct tw_job **out,
				struct tw_error *why);
/* Is this ("THALWEG_NAME" or "THALWEG_NAME=value") a variable of the program and no field? */
bool tw_variable_of_program(const char *variable);
/* A job in memory, and what is put over it; all of it stays the caller's. */
struct tw_job_text {
	const char *name, *text;
	size_t bytes;
	const char *const *set, *const *environ_;
	size_t sets;
	/* Over all of these: `node` is put at `path`, and errors name its place. */
	const struct tw_job_change {
		const char *path;
		const struct tw_tree *node;
	} * change;
	size_t changes;
	/* So many processes were started by a launcher: if the job does not say how many workers it
	 * has, each of them is one, and in the world mpi each is a server if there are as many
	 * shards.  0: there is no launcher. */
	uint32_t ranks;
	bool former;   /* as the job's */
	bool compared; /* it is one of several, and what is refused points to compare.methods */
	bool planned;  /* only looked at: sim.nodes may have other machines than it uses */
};
/* The file at `path` as tw_job_read; `how` has all but name, text and bytes. */
enum tw_status tw_job_read_file(const char *path, const struct tw_job_text *how,
				enum tw_world_kind world, struct tw_job **out,
				struct tw_error *why);
enum tw_status tw_job_read_changed(const struct tw_job_text *from, enum tw_world_kind world,
				   struct tw_job **out, struct tw_error *why);
/* The text of the file at `path` ("-": standard input), for free(). */
enum tw_status tw_job_load(const char *path, char **text, size_t *bytes, struct tw_error *why);
void tw_job_free(struct tw_job *job);

/* What needs the engine: sizes, positions, shard borders, and the checks of all these. */
enum tw_status tw_job_finish_plan(struct tw_job *job, const struct tw_engine *engine,
				  struct tw_error *why);

/* From now on the job trains with this update.rate. */
void tw_job_set_rate(struct tw_job *job, double rate);

/* Cut [0, tensor[tensors]) into `shards` ranges: between tensors where that makes none twice the
 * even length; else even cuts, moved to a tensor's start that is within a quarter of the even
 * length.  border: shards + 1 values, strictly ascending.  shards must be from 1 to the number of
 * elements. */
void tw_job_borders(const size_t *tensor, size_t tensors, uint32_t shards, size_t *border);

/* The job as YAML with every preset and default spelled out.  Reading it again in the same world
 * gives the same text.  What a world does not read is left out. */
void tw_job_explain(const struct tw_job *job, FILE *out);
/* The same as a text, for free(); NULL without memory. */
enum tw_status tw_job_text(const struct tw_job *job, char **text, size_t *bytes);

enum tw_reference_format { TW_REFERENCE_PLAIN, TW_REFERENCE_MARKDOWN, TW_REFERENCE_ROFF };
/* Every field of a job file, from the rows. */
void tw_job_reference(FILE *out, enum tw_reference_format format);
/* Presets, gates, staleness policies, rules and codecs, one line each, from the tables. */
void tw_job_strategies(FILE *out);
/* Codecs: where each may be used, whether it keeps a residual, and its options. */
void tw_job_codecs(FILE *out);
/* Layers and losses with their options, networks by name, and data sources, from the tables. */
void tw_job_layers(FILE *out);
/* Has every worker a part of the samples of its own (data.deal, data.placement)? */
static inline bool tw_job_divides(const struct tw_job *job)
{
	return job->data.deal != TW_DEAL_SHUFFLED || job->data.placement == TW_PLACEMENT_OWN;
}
/* Tell an engine that was just opened which samples are whose, and which are shuffled together. */
void tw_job_divide(const struct tw_job *job, struct tw_engine *e);
/* The largest batch of one worker, while all are there. */
uint32_t tw_job_batch(const struct tw_job *job);
/* ... and when as many as may are gone: those that are left share global_batch. */
uint32_t tw_job_most_batch(const struct tw_job *job);

/* A preset is nothing but fields of a job file. */
struct tw_preset {
	const char *family; /* presets of one family stand together; NULL: that of the one before */
	const char *name, *paper, *help;
	const char *fields;  /* YAML: a mapping of sections */
	const char *between; /* fields added when strategy.fetch is above 1 */
	bool any_rule;       /* its rule is only what the paper used; another may be given */
	bool standard;       /* what a job without a section strategy trains with; one has it */
};
extern const struct tw_preset tw_presets[]; /* name NULL at the end */
const struct tw_preset *tw_preset_find(const char *name);
const struct tw_preset *tw_preset_standard(void);

#endif
