/* SPDX-License-Identifier: Apache-2.0 */
/* bind.c - which variants a job chooses, and the rows that they bring in.
 *
 *  (3) no choices together bring in more than TW_FIELDS_MAX rows. */
#include "job/read.h"

#include <string.h>

/* The value that chooses a variant, before rows are bound; the variant must exist. */
static enum tw_status choose(struct tw_reading *r, const char *path, const char *standard,
			     const char *what, const struct tw_names *n, const char **out)
{
	const struct tw_tree *node = tw_tree_at(r->root, path);
	char help[400], text[520], shown[60];

	*out = standard;
	if (!node)
		return TW_OK;
	for (size_t k = 0; node->kind == TW_TREE_TEXT && k < n->count; k++)
		if (strcmp(n->at[k], node->text) == 0) {
			*out = n->at[k];
			return TW_OK;
		}
	if (node->kind != TW_TREE_TEXT)
		snprintf(text, sizeof text, "needs the name of a %s, not a %s; %s", what,
			 node->kind == TW_TREE_MAP ? "mapping" : "list",
			 tw_names_suggest(n, "", "there are", help, sizeof help));
	else
		snprintf(text, sizeof text, "no %s is called '%s'; %s", what,
			 tw_tree_show(node->text, shown, sizeof shown),
			 tw_names_suggest(n, node->text, "there are", help, sizeof help));
	return tw_read_refuse(r, node, path, text);
}

static enum tw_status bind(struct tw_reading *r, const char *prefix, const struct tw_option *rows,
			   void *base)
{
	struct tw_error said = { 0 };

	for (const struct tw_option *row = rows; row && row->name; row++) {
		struct tw_field *f = &r->field[r->job->fields];
		char path[TW_PATH_ROOM];

		HOLDS(3, r->job->fields < TW_FIELDS_MAX);
		snprintf(path, sizeof path, "%s%s", prefix, row->name);
		*f = (struct tw_field){ .row = row, .base = base };
		f->path = tw_arena_text(r->keep, path);
		if (!f->path)
			return tw_read_no_memory(r);
		if (row->standard &&
		    tw_field_set(row, base,
				 row->type == TW_F64S && !*row->standard ? "[]" : row->standard,
				 r->keep, &said) != TW_OK)
			return tw_fail(r->why, said.status, "%s: the default: %s", path, said.text);
		r->job->fields++;
	}
	return TW_OK;
}

/* Options of a variant, from the arena: never NULL, so that variants need not look. */
static enum tw_status bind_variant(struct tw_reading *r, const char *prefix,
				   const struct tw_option *rows, size_t bytes, const void **out)
{
	void *base = tw_arena_get(r->keep, bytes ? bytes : 1);

	if (!base)
		return tw_read_no_memory(r);
	*out = base;
	return bind(r, prefix, rows, base);
}

static enum tw_status choose_model(struct tw_reading *r, const char **kind)
{
	const struct tw_tree *model = tw_tree_child(r->root, "model");
	const bool null = model && tw_tree_is_null(model);

	if (!model || null || (model->kind == TW_TREE_MAP && model->count == 0))
		return tw_read_refuse(r, model, "model",
				      "must be given: model: {quadratic: {dimension: 100}} or "
				      "{least-squares: {dimension: 100}}");
	if (model->kind == TW_TREE_TEXT &&
	    (strcmp(model->text, "quadratic") == 0 || strcmp(model->text, "least-squares") == 0)) {
		char text[160];

		snprintf(text, sizeof text,
			 "a model is a mapping with its options inside; write model: {%s: {}}",
			 model->text);
		return tw_read_refuse(r, model, "model", text);
	}
	if (model->kind != TW_TREE_MAP)
		return tw_read_refuse(r, model, "model", tw_field_later("model", ""));
	*kind = model->first->key;
	if (strcmp(*kind, "quadratic") != 0 && strcmp(*kind, "least-squares") != 0) {
		char path[TW_PATH_ROOM], shown[60], text[200];
		const char *later;
		struct tw_names n = { .at = { "quadratic", "least-squares" }, .count = 2 };
		char help[100];

		snprintf(path, sizeof path, "model.%s", tw_tree_show(*kind, shown, sizeof shown));
		later = tw_field_later(path, "");
		snprintf(text, sizeof text, "no model is called that; %s",
			 tw_names_suggest(&n, *kind, "there are", help, sizeof help));
		return tw_read_refuse(r, model->first, path, later ? later : text);
	}
	if (model->count > 1)
		return tw_read_refuse(r, model->first->next, "model",
				      "has more than one model; leave all but one of quadratic and "
				      "least-squares out");
	return TW_OK;
}

static enum tw_status bind_model(struct tw_reading *r)
{
	struct tw_job *job = r->job;
	const char *kind = NULL;
	enum tw_status st = choose_model(r, &kind);

	if (st != TW_OK)
		return st;
	if (strcmp(kind, "quadratic") == 0) {
		job->model = TW_MODEL_QUADRATIC;
		return bind(r, "model.quadratic.", tw_quadratic_rows, &job->engine.quadratic);
	}
	job->model = TW_MODEL_LEAST_SQUARES;
	return bind(r, "model.least-squares.", tw_least_squares_rows, &job->engine.least_squares);
}

#define NAMES(list, all)                                                                           \
	for (size_t k_ = 0; (all)[k_]; k_++)                                                       \
	tw_names_add(list, (all)[k_]->name)

static enum tw_status bind_update(struct tw_reading *r)
{
	static const char *const kinds[] = { "constant", "step", "cosine", "linear" };
	struct tw_job *job = r->job;
	struct tw_names rules = { .count = 0 }, shapes = { .count = 0 };
	const char *rule = "", *kind = "";
	enum tw_status st;

	NAMES(&rules, tw_rule_all);
	for (size_t k = 0; k < 4; k++)
		tw_names_add(&shapes, kinds[k]);
	st = choose(r, "update.rule", "sgd", "rule", &rules, &rule);
	if (st == TW_OK)
		st = choose(r, "update.schedule.kind", "constant", "schedule", &shapes, &kind);
	if (st == TW_OK)
		st = bind(r, "update.", tw_update_rows, &job->update);
	if (st == TW_OK && strcmp(kind, "step") == 0)
		st = bind(r, "update.schedule.", tw_schedule_step_rows, &job->update);
	else if (st == TW_OK && strcmp(kind, "constant") != 0)
		st = bind(r, "update.schedule.", tw_schedule_final_rows, &job->update);
	if (st != TW_OK)
		return st;
	job->plan.rule = tw_rule_find(rule);
	return bind_variant(r, "update.", job->plan.rule->options, job->plan.rule->options_bytes,
			    &job->plan.rule_options);
}

static enum tw_status bind_codecs(struct tw_reading *r)
{
	struct tw_plan *plan = &r->job->plan;
	struct tw_names codecs = { .count = 0 };
	const char *up, *down;
	enum tw_status st;

	NAMES(&codecs, tw_codec_all);
	st = choose(r, "strategy.codec.up", "fp32", "codec", &codecs, &up);
	if (st == TW_OK)
		st = choose(r, "strategy.codec.down", "fp32", "codec", &codecs, &down);
	if (st != TW_OK)
		return st;
	plan->up = tw_codec_find(up);
	plan->down = tw_codec_find(down);
	/* under names of their own, because codec.up and codec.down are the names of codecs */
	st = bind_variant(r, "strategy.codec.up_", plan->up->options, plan->up->options_bytes,
			  &plan->up_options);
	if (st == TW_OK)
		st = bind_variant(r, "strategy.codec.down_", plan->down->options,
				  plan->down->options_bytes, &plan->down_options);
	return st;
}

static enum tw_status bind_local(struct tw_reading *r)
{
	struct tw_plan *plan = &r->job->plan;
	struct tw_names rules = { .at = { "none" }, .count = 1 };
	const char *local;
	enum tw_status st;

	NAMES(&rules, tw_rule_all);
	st = choose(r, "strategy.local.rule", "none", "rule", &rules, &local);
	if (st != TW_OK || strcmp(local, "none") == 0)
		return st;
	plan->local = tw_rule_find(local);
	st = bind(r, "strategy.local.", tw_local_rows, &r->job->strategy);
	if (st == TW_OK)
		st = bind_variant(r, "strategy.local.", plan->local->options,
				  plan->local->options_bytes, &plan->local_options);
	return st;
}

static enum tw_status bind_strategy(struct tw_reading *r)
{
	struct tw_job *job = r->job;
	struct tw_plan *plan = &job->plan;
	struct tw_names gates = { .count = 0 }, policies = { .count = 0 };
	const char *gate, *policy;
	enum tw_status st;

	NAMES(&gates, tw_gate_all);
	NAMES(&policies, tw_staleness_all);
	st = choose(r, "strategy.gate", "async", "gate", &gates, &gate);
	if (st == TW_OK)
		st = choose(r, "strategy.staleness", "none", "staleness policy", &policies,
			    &policy);
	if (st == TW_OK)
		st = bind(r, "strategy.", tw_strategy_rows, &job->strategy);
	if (st != TW_OK)
		return st;
	plan->gate = tw_gate_find(gate);
	plan->staleness = tw_staleness_find(policy);
	st = bind_variant(r, "strategy.", plan->gate->options, plan->gate->options_bytes,
			  &plan->gate_options);
	if (st == TW_OK && strcmp(gate, "softsync") == 0)
		st = bind(r, "strategy.", tw_softsync_rows, &job->strategy);
	if (st == TW_OK)
		st = bind_variant(r, "strategy.", plan->staleness->options,
				  plan->staleness->options_bytes, &plan->staleness_options);
	if (st == TW_OK)
		st = bind_codecs(r);
	return st == TW_OK ? bind_local(r) : st;
}

enum tw_status tw_read_bind(struct tw_reading *r)
{
	struct tw_job *job = r->job;
	enum tw_status st = bind(r, "data.", tw_data_rows, &job->data);

	if (st == TW_OK)
		st = bind_model(r);
	if (st == TW_OK)
		st = bind(r, "", tw_loss_rows, job);
	if (st == TW_OK)
		st = bind(r, "train.", tw_train_rows, &job->train);
	if (st == TW_OK)
		st = bind_update(r);
	if (st == TW_OK)
		st = bind(r, "cluster.", tw_cluster_rows, &job->cluster);
	if (st == TW_OK)
		st = bind_strategy(r);
	if (st == TW_OK)
		st = bind(r, "checkpoint.", tw_checkpoint_rows, &job->checkpoint);
	if (st == TW_OK)
		st = bind(r, "sim.", tw_sim_rows, &job->sim);
	if (st == TW_OK)
		st = bind(r, "sim.delay.", tw_delay_rows, &job->delay);
	return st;
}
