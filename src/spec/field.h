/* SPDX-License-Identifier: Apache-2.0 */
/* field.h - the fields of a job file: every row of every section and variant, and, for one job,
 * the rows that its choices brought in with where their values are. */
#ifndef TW_SPEC_FIELD_H
#define TW_SPEC_FIELD_H

#include "spec/job.h"
#include "spec/yaml_tree.h"

/* Rows that come together: a section's own, or those of one variant that may be chosen there. */
struct tw_group {
	const char *prefix;  /* "strategy.", "model.quadratic." */
	const char *chooser; /* the field that chooses the variant, "strategy.gate"; NULL: always */
	const char *variant; /* the name chosen there; NULL: always */
	const struct tw_option *rows;
};

/* Group number k of all there are, in the order of the reference; false after the last. */
bool tw_group_at(size_t k, struct tw_group *out);
/* A walk over the rows of all groups: begin with row NULL. */
#define TW_PATH_ROOM 192
struct tw_row_walk {
	const struct tw_option *row;
	struct tw_group group;
	size_t number; /* of the group */
	char path[TW_PATH_ROOM];
};
bool tw_row_next(struct tw_row_walk *w);
/* The first row at that path, or NULL. */
const struct tw_option *tw_row_at(const char *path);

extern const struct tw_option tw_data_rows[], tw_made_up_rows[], tw_data_set_rows[],
	tw_network_rows[], tw_external_rows[], tw_tensors_rows[], tw_loss_rows[], tw_train_rows[],
	tw_update_rows[], tw_cluster_rows[], tw_strategy_rows[], tw_topology_rows[],
	tw_mixing_rows[], tw_pipeline_rows[], tw_local_rows[], tw_checkpoint_rows[],
	tw_compare_rows[], tw_delay_rows[];
/* The rows that a kind of schedule brings in, by enum tw_schedule_kind; NULL: none. */
extern const struct tw_option *const tw_schedule_rows[];
extern const char *const tw_schedule_kinds[]; /* the same order; NULL at the end */

/* The sections in the order in which people write them. */
struct tw_section {
	const char *name, *help;
};
extern const struct tw_section tw_sections[]; /* name NULL at the end */

struct tw_field {
	const char *path; /* "strategy.collect" */
	const struct tw_option *row;
	void *base;
	const struct tw_tree *from; /* who gave it; NULL: the default */
	bool silent;                /* left out of the explained job: another field stands for it */
	bool follows;               /* its value comes from other fields, and changes with them */
};

/* The last name of a path. */
const char *tw_path_last(const char *path);
/* "sim", "threads", "tcp". */
const char *tw_job_world(enum tw_world_kind world);
/* The job's field of that path, or NULL. */
struct tw_field *tw_job_field(const struct tw_job *job, const char *path);
/* Was it given by the user (not by a preset or a default)? */
bool tw_job_given(const struct tw_job *job, const char *path);
/* Set by text; an F64 row whose default is "none" takes "none" as NAN.  *why is the reason
 * without place and path. */
enum tw_status tw_field_set(const struct tw_option *row, void *base, const char *text,
			    struct tw_arena *keep, struct tw_error *why);
/* The value as text (from the arena), NULL without memory. */
const char *tw_field_text(const struct tw_option *row, const void *base, struct tw_arena *keep);
void tw_field_accepts(const struct tw_option *row, char *out, size_t room);
/* Is it one of those that say how long a run lasts? */
bool tw_field_is_length(const char *path);
/* Is it one of those that help a run that diverged?  Its checkpoints do not depend on them. */
bool tw_field_is_remedy(const char *path);
/* May this field differ between a run of `job` and its resumption? */
bool tw_field_may_change(const struct tw_job *job, const char *path);

/* "place: path: sentence" with TW_BAD_INPUT; the place is where the field was given. */
enum tw_status tw_job_refuse(const struct tw_job *job, struct tw_error *why, const char *path,
			     const char *format, ...) __attribute__((format(printf, 4, 5)));
enum tw_status tw_job_warn(struct tw_job *job, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The steps of reading, in order, after the rows have their values (read.c). */
enum tw_status tw_job_read_faults(struct tw_job *job, const struct tw_tree *list,
				  struct tw_error *why);
/* sim.nodes, into job->sim.machines (sim_nodes.c). */
enum tw_status tw_job_read_nodes(struct tw_job *job, const struct tw_tree *list,
				 struct tw_error *why);
/* Machine `first` and those like it that follow, as one entry of sim.nodes: {speed: 1, ...}.
 * Returns the machine behind them. */
#define TW_MACHINE_TEXT 320
uint32_t tw_machines_text(const struct tw_machines *m, uint32_t first, char *out, size_t room);
/* One fault as it is written in a job file, {crash: worker 3, at: 5s}. */
void tw_fault_text(const struct tw_job *job, const struct tw_fault *fault, char *out, size_t room);
enum tw_status tw_job_complete(struct tw_job *job, struct tw_error *why); /* plan.c */
/* Write the fields that aliases stand for, of whatever variants the job chose (aliases.c). */
enum tw_status tw_job_complete_aliases(struct tw_job *job, struct tw_error *why);
enum tw_status tw_job_check(const struct tw_job *job, struct tw_error *why); /* check.c */
/* What needs the number of samples: at once where the job says it, else with the engine. */
enum tw_status tw_job_complete_lengths(struct tw_job *job, struct tw_error *why);
enum tw_status tw_job_check_lengths(const struct tw_job *job, struct tw_error *why);

/* The layers of the job's network for such data, a network by name written out; what is not the
 * job's is made in `keep`. */
enum tw_status tw_job_network_layers(const struct tw_job *job, const struct tw_data *data,
				     struct tw_arena *keep, struct tw_layer **out, size_t *count,
				     struct tw_error *why);
/* The field below data. that names a file of test samples where the job names one, or NULL. */
const char *tw_job_test_set(const struct tw_job *job);
/* Where a field was given, for the head of a sentence; the job's file if it was not. */
const char *tw_job_place(const struct tw_job *job, const char *path);
/* The graph of the job's network for such data. */
enum tw_status tw_job_build_graph(const struct tw_job *job, const struct tw_data *data,
				  struct tw_heap *heap, struct tw_graph **out,
				  struct tw_error *why);
/* What only the graph can tell: which loss it took, and what its writer may not have meant. */
enum tw_status tw_job_settle_network(struct tw_job *job, const struct tw_graph *g,
				     struct tw_error *why);

/* Shards of so many parameters, where the job does not say. */
uint32_t tw_job_usual_shards(const struct tw_job *job, size_t total);
/* The line's contributions per update: 1, or what the gate collects. */
uint32_t tw_job_collects(const struct tw_job *job);
/* SHA-256 of the explained job without what may change; TW_NO_MEMORY. */
enum tw_status tw_job_hash(const struct tw_job *job, struct tw_sha *out);

#endif
