/* SPDX-License-Identifier: Apache-2.0 */
/* catalogue.c - all rows there are, of sections and of variants, and what brings them in. */
#include "spec/field.h"

#include "spec/optimiser.h"
#include "spec/registries.h"

#include <stdio.h>
#include <string.h>

const struct tw_section tw_sections[] = {
	{ "data", "The samples to train and test on." },
	{ "model", "What is trained: a network by name (model: lenet) or by its layers (model: "
		   "{layers: [conv 20 5x5, relu, ...]}), or a made-up problem for experiments." },
	{ "loss", "What is minimised: a name, or a mapping with options." },
	{ "train", "The length of the run, the random seed, and when to evaluate." },
	{ "update", "What a gradient does to the parameters." },
	{ "cluster", "The workers and servers, and the timeouts between them." },
	{ "strategy", "How workers and shards exchange gradients and parameters: the name of a "
		      "preset, or a mapping that may start from one. Without it a job is "
		      "synchronous (ssgd), unless another field cannot be combined with rounds." },
	{ "optimiser", "A batch method with a line search, in place of update and strategy: its "
		       "name, or a mapping." },
	{ "checkpoint", "When checkpoints are written, and how many are kept." },
	{ "sim", "The simulated machines; used by thalweg sim only." },
	{ "compare",
	  "What thalweg compare runs side by side; other verbs ignore it. It also takes "
	  "three mappings: vary (a field and the list of its values; two fields make a "
	  "grid), tune (the same for values that are chosen for each method; grid in place of the "
	  "list begins a grid of learning rates) and "
	  "methods (a name, and the fields that differ from the job)." },
	{ NULL, NULL },
};

static const struct tw_group fixed[] = {
	{ "data.", NULL, NULL, tw_data_rows },
	{ "data.", "data.source", "none", tw_made_up_rows },
	{ "data.", "data.source", "a data set", tw_data_common_rows },
	{ "data.", "data.source", "a data set", tw_data_set_rows },
	{ "model.", "model", "a network", tw_network_rows },
	{ "model.quadratic.", "model", "quadratic", tw_quadratic_rows },
	{ "model.least-squares.", "model", "least-squares", tw_least_squares_rows },
	{ "model.function.", "model", "function", tw_function_rows },
	{ "model.external.", "model", "external", tw_external_rows },
	{ "model.", "model", "tensors", tw_tensors_rows },
	{ "loss.", NULL, NULL, tw_loss_rows },
	{ "train.", NULL, NULL, tw_train_rows },
	{ "update.", NULL, NULL, tw_update_rows },
	{ "cluster.", NULL, NULL, tw_cluster_rows },
	{ "strategy.", NULL, NULL, tw_strategy_rows },
	{ "strategy.topology.", "strategy.topology.kind", "allreduce", tw_topology_rows },
	{ "strategy.topology.", "strategy.topology.kind", "mixing", tw_mixing_rows },
	{ "strategy.pipeline.", "strategy.pipeline.schedule", "any pipeline", tw_pipeline_rows },
	{ "optimiser.", NULL, NULL, tw_optimiser_rows },
	{ "optimiser.", "optimiser.name", "any optimiser", tw_optimising_rows },
	{ "checkpoint.", NULL, NULL, tw_checkpoint_rows },
	{ "sim.", NULL, NULL, tw_sim_rows },
	{ "sim.delay.", NULL, NULL, tw_delay_rows },
	{ "compare.", NULL, NULL, tw_compare_rows },
};
#define FIXED (sizeof fixed / sizeof fixed[0])

bool tw_group_at(size_t k, struct tw_group *out)
{
	if (k < FIXED) {
		*out = fixed[k];
		return true;
	}
	k -= FIXED;
	for (size_t i = 0; tw_schedule_kinds[i]; i++)
		if (tw_schedule_rows[i] && k-- == 0) {
			*out = (struct tw_group){ "update.schedule.", "update.schedule.kind",
						  tw_schedule_kinds[i], tw_schedule_rows[i] };
			return true;
		}
	for (const struct tw_registry *g = tw_registries; g->field; g++) {
		if (g->any_called && k-- == 0) {
			*out = (struct tw_group){ g->prefix, g->field, g->any_called, g->any };
			return true;
		}
		for (const struct tw_variant *const *v = g->heads; *v; v++)
			if ((*v)->options && tw_variant_fits(*v, g->with, g->without) && k-- == 0) {
				*out = (struct tw_group){ g->prefix, g->field, (*v)->name,
							  (*v)->options };
				return true;
			}
	}
	return false;
}

bool tw_row_next(struct tw_row_walk *w)
{
	if (w->row) {
		w->row++;
	} else {
		tw_group_at(w->number = 0, &w->group);
		w->row = w->group.rows;
	}
	while (!w->row->name) {
		if (!tw_group_at(++w->number, &w->group))
			return false;
		w->row = w->group.rows;
	}
	snprintf(w->path, sizeof w->path, "%s%s", w->group.prefix, w->row->name);
	return true;
}

const struct tw_option *tw_row_at(const char *path)
{
	for (struct tw_row_walk w = { .row = NULL }; tw_row_next(&w);)
		if (strcmp(w.path, path) == 0)
			return w.row;
	return NULL;
}

const char *tw_path_last(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot ? dot + 1 : path;
}
