/* SPDX-License-Identifier: Apache-2.0 */
/* variants.c - which variants a job chooses, section by section. */
#include "spec/read.h"

#include "spec/optimiser.h"
#include "spec/registries.h"

#include <string.h>

/* Which of the choices of its row a field takes. */
static enum tw_status choose_kind(struct tw_reading *r, const char *path, const char *what,
				  size_t *out)
{
	const char *const *choices = tw_row_at(path)->choices;
	struct tw_name_list names = { .count = 0 };
	const char *kind = "";
	enum tw_status st;

	for (size_t k = 0; choices[k]; k++)
		tw_names_add(&names, choices[k]);
	st = tw_read_choose(r, path, what, &names, &kind);
	for (size_t k = 0; st == TW_OK && choices[k]; k++)
		if (strcmp(choices[k], kind) == 0)
			*out = k;
	return st;
}

static enum tw_status bind_update(struct tw_reading *r)
{
	struct tw_job *job = r->job;
	size_t kind = 0;
	enum tw_status st = tw_read_name(r, "update.rule");

	if (st == TW_OK)
		st = choose_kind(r, "update.schedule.kind", "schedule", &kind);
	if (st == TW_OK)
		st = tw_read_rows(r, "update.", tw_update_rows, &job->update);
	if (st == TW_OK)
		st = tw_read_rows(r, "update.schedule.", tw_schedule_rows[kind], &job->update);
	if (st != TW_OK)
		return st;
	if (!job->former)
		job->update.schedule.rate = job->plan.far.rule->rate.standard;
	return tw_read_options(r, "update.rule");
}

static enum tw_status bind_topology(struct tw_reading *r)
{
	size_t kind = TW_TOPOLOGY_SERVER;
	enum tw_status st = choose_kind(r, "strategy.topology.kind", "topology", &kind);

	r->job->strategy.reduction = r->job->strategy.mixing = "";
	if (st != TW_OK || kind == TW_TOPOLOGY_SERVER)
		return st;
	if (kind == TW_TOPOLOGY_MIXING)
		st = tw_read_variant(r, "strategy.topology.mixing");
	if (st == TW_OK)
		st = tw_read_variant(r, "strategy.topology.schedule");
	if (st != TW_OK)
		return st;
	return tw_read_rows(r, "strategy.topology.",
			    kind == TW_TOPOLOGY_MIXING ? tw_mixing_rows : tw_topology_rows,
			    &r->job->strategy);
}

/* With an outer rule the rule of `update:` is the worker's. */
static enum tw_status bind_outer(struct tw_reading *r)
{
	struct tw_plan *plan = &r->job->plan;
	const enum tw_status st = tw_read_variant(r, "strategy.outer.rule");
	const struct tw_half outer = plan->near;

	if (!outer.rule)
		return st;
	plan->near = plan->far;
	plan->far = outer;
	return st;
}

static enum tw_status bind_strategy(struct tw_reading *r)
{
	enum tw_status st = tw_read_rows(r, "strategy.", tw_strategy_rows, &r->job->strategy);

	for (const struct tw_registry *g = tw_registries; st == TW_OK && g->field; g++)
		if (g->always)
			st = tw_read_variant(r, g->field);
	if (st == TW_OK)
		st = bind_topology(r);
	if (st == TW_OK)
		st = tw_read_variant(r, "strategy.pipeline.schedule");
	if (st == TW_OK)
		st = bind_outer(r);
	return st == TW_OK ? tw_read_variant(r, "strategy.local.rule") : st;
}

enum tw_status tw_read_bind(struct tw_reading *r)
{
	struct tw_job *job = r->job;
	enum tw_status st = tw_read_data(r);

	if (st == TW_OK)
		st = tw_read_model(r);
	if (st == TW_OK)
		st = tw_read_loss(r);
	if (st == TW_OK)
		st = tw_read_rows(r, "train.", tw_train_rows, &job->train);
	if (st == TW_OK)
		st = bind_update(r);
	if (st == TW_OK)
		st = tw_read_rows(r, "cluster.", tw_cluster_rows, &job->cluster);
	if (st == TW_OK)
		st = bind_strategy(r);
	if (st == TW_OK)
		st = tw_read_optimiser(r);
	if (st == TW_OK)
		st = tw_read_rows(r, "checkpoint.", tw_checkpoint_rows, &job->checkpoint);
	if (st == TW_OK)
		st = tw_read_rows(r, "sim.", tw_sim_rows, &job->sim);
	if (st == TW_OK)
		st = tw_read_rows(r, "sim.delay.", tw_delay_rows, &job->delay);
	if (st == TW_OK)
		st = tw_read_rows(r, "compare.", tw_compare_rows, &job->compare);
	return st;
}
