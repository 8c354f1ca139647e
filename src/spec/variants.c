/* SPDX-License-Identifier: Apache-2.0 */
/* variants.c - which variants a job chooses, and the rows that they bring in.
 *
 *  (3) no choices together bring in more than TW_FIELDS_MAX rows. */
#include "spec/read.h"

#include "spec/help_topic.h"
#include "spec/optimiser.h"
#include "spec/registries.h"
#include "spec/synonyms.h"

#include <string.h>

/* The value that chooses a variant, before rows are bound; the variant must exist. */
enum tw_status tw_read_choose(struct tw_reading *r, const char *path, const char *kind,
			      const struct tw_name_list *n, const char **out)
{
	const struct tw_tree *node = tw_tree_at(r->root, path);
	const struct tw_synonym *other;
	char help[400], text[520], shown[60];

	*out = tw_row_at(path)->standard;
	if (!node)
		return TW_OK;
	if (node->kind == TW_TREE_TEXT && tw_names_have(n, node->text)) {
		*out = node->text;
		return TW_OK;
	}
	other = node->kind == TW_TREE_TEXT ? tw_synonym_value(path, node->text) : NULL;
	if (other && !tw_names_have(n, strstr(other->ours, ": ") + 2))
		other = NULL; /* there is such a thing, but not here */
	if (node->kind != TW_TREE_TEXT)
		snprintf(text, sizeof text, "needs the name of a %s, not a %s; %s", kind,
			 node->kind == TW_TREE_MAP ? "mapping" : "list",
			 tw_names_suggest(n, "", "there are", help, sizeof help));
	else
		snprintf(text, sizeof text, "no %s is called '%s'; %s", kind,
			 tw_tree_show(node->text, shown, sizeof shown),
			 other ? tw_synonym_say(other, help, sizeof help)
			 : tw_job_topic_absent(node->text, help, sizeof help)
				 ? help
				 : tw_names_suggest(n, node->text, "there are", help, sizeof help));
	return tw_read_refuse(r, node, path, text);
}

enum tw_status tw_read_rows(struct tw_reading *r, const char *prefix, const struct tw_option *rows,
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

static const struct tw_variant **chosen(struct tw_reading *r, const struct tw_registry *g)
{
	return (const struct tw_variant **)((char *)r->job + g->chosen);
}

enum tw_status tw_read_name(struct tw_reading *r, const char *field)
{
	const struct tw_registry *g = tw_registry_of(field);
	struct tw_name_list names = { .at = { "none" }, .count = g->none };
	const char *name = "";
	enum tw_status st;

	tw_names_add_all(&names, g->heads);
	st = tw_read_choose(r, field, g->kind, &names, &name);
	*chosen(r, g) = st == TW_OK ? tw_variant_find(g->heads, name) : NULL;
	return st;
}

enum tw_status tw_read_options(struct tw_reading *r, const char *field)
{
	const struct tw_registry *g = tw_registry_of(field);
	const struct tw_variant *v = *chosen(r, g);
	void *base;

	if (!v || !g->options)
		return TW_OK;
	base = tw_arena_get(r->keep, v->options_bytes ? v->options_bytes : 1);
	if (!base)
		return tw_read_no_memory(r);
	*(const void **)((char *)r->job + g->options) = base;
	return tw_read_rows(r, g->prefix, v->options, base);
}

enum tw_status tw_read_variant(struct tw_reading *r, const char *field)
{
	const struct tw_registry *g = tw_registry_of(field);
	enum tw_status st = tw_read_name(r, field);

	if (st == TW_OK && *chosen(r, g))
		st = tw_read_rows(r, g->prefix, g->any, (char *)r->job + g->any_at);
	return st == TW_OK ? tw_read_options(r, field) : st;
}

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
