/* SPDX-License-Identifier: Apache-2.0 */
/* variants.c - which variants a job chooses, and the rows that they bring in.
 *
 *  (3) no choices together bring in more than TW_FIELDS_MAX rows. */
#include "spec/read.h"

#include "spec/optimiser.h"
#include "strategy/outer.h"

#include "spec/help_topic.h"
#include "spec/synonyms.h"

#include <string.h>

static bool among(const struct tw_name_list *n, const char *name)
{
	for (size_t k = 0; k < n->count; k++)
		if (strcmp(n->at[k], name) == 0)
			return true;
	return false;
}

/* The value that chooses a variant, before rows are bound; the variant must exist. */
enum tw_status tw_read_choose(struct tw_reading *r, const struct tw_chooser *c,
			      const struct tw_name_list *n, const char **out)
{
	const struct tw_tree *node;
	const struct tw_synonym *other;
	char help[400], text[520], shown[60], path[TW_PATH_ROOM];

	snprintf(path, sizeof path, "%s%s", c->prefix, c->name);
	node = tw_tree_at(r->root, path);
	*out = tw_option_find(c->rows, c->name)->standard;
	if (!node)
		return TW_OK;
	for (size_t k = 0; node->kind == TW_TREE_TEXT && k < n->count; k++)
		if (strcmp(n->at[k], node->text) == 0) {
			*out = n->at[k];
			return TW_OK;
		}
	other = node->kind == TW_TREE_TEXT ? tw_synonym_value(path, node->text) : NULL;
	if (other && !among(n, strstr(other->ours, ": ") + 2))
		other = NULL; /* there is such a thing, but not here */
	if (node->kind != TW_TREE_TEXT)
		snprintf(text, sizeof text, "needs the name of a %s, not a %s; %s", c->what,
			 node->kind == TW_TREE_MAP ? "mapping" : "list",
			 tw_names_suggest(n, "", "there are", help, sizeof help));
	else
		snprintf(text, sizeof text, "no %s is called '%s'; %s", c->what,
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

/* Options of a variant, from the arena: never NULL, so that variants need not look. */
enum tw_status tw_read_variant(struct tw_reading *r, const char *prefix,
			       const struct tw_option *rows, size_t bytes, const void **out)
{
	void *base = tw_arena_get(r->keep, bytes ? bytes : 1);

	if (!base)
		return tw_read_no_memory(r);
	*out = base;
	return tw_read_rows(r, prefix, rows, base);
}

#define NAMES(list, all)                                                                           \
	for (size_t k_ = 0; (all)[k_]; k_++)                                                       \
	tw_names_add(list, (all)[k_]->name)

/* Which of the choices of its row a chooser takes. */
static enum tw_status choose_kind(struct tw_reading *r, const struct tw_chooser *c, size_t *out)
{
	const char *const *choices = tw_option_find(c->rows, c->name)->choices;
	struct tw_name_list names = { .count = 0 };
	const char *kind = "";
	enum tw_status st;

	for (size_t k = 0; choices[k]; k++)
		tw_names_add(&names, choices[k]);
	st = tw_read_choose(r, c, &names, &kind);
	for (size_t k = 0; st == TW_OK && choices[k]; k++)
		if (strcmp(choices[k], kind) == 0)
			*out = k;
	return st;
}

static enum tw_status bind_update(struct tw_reading *r)
{
	static const struct tw_chooser rule_of = { "update.", tw_update_rows, "rule", "rule" };
	static const struct tw_chooser kind_of = { "update.", tw_update_rows, "schedule.kind",
						   "schedule" };
	struct tw_job *job = r->job;
	struct tw_name_list rules = { .count = 0 };
	const char *rule = "";
	size_t kind = 0;
	enum tw_status st;

	NAMES(&rules, tw_rule_all);
	st = tw_read_choose(r, &rule_of, &rules, &rule);
	if (st == TW_OK)
		st = choose_kind(r, &kind_of, &kind);
	if (st == TW_OK)
		st = tw_read_rows(r, "update.", tw_update_rows, &job->update);
	if (st == TW_OK)
		st = tw_read_rows(r, "update.schedule.", tw_schedule_rows[kind], &job->update);
	if (st != TW_OK)
		return st;
	job->plan.far.rule = tw_rule_find(rule);
	if (!job->former)
		job->update.schedule.rate = job->plan.far.rule->rate.standard;
	return tw_read_variant(r, "update.", job->plan.far.rule->options,
			       job->plan.far.rule->options_bytes, &job->plan.far.options);
}

static enum tw_status bind_codecs(struct tw_reading *r)
{
	struct tw_plan *plan = &r->job->plan;
	static const struct tw_chooser up_of = { "strategy.", tw_strategy_rows, "codec.up",
						 "codec" };
	static const struct tw_chooser down_of = { "strategy.", tw_strategy_rows, "codec.down",
						   "codec" };
	static const struct tw_chooser act_of = { "strategy.", tw_strategy_rows, "codec.act",
						  "codec" };
	struct tw_name_list codecs = { .count = 0 };
	const char *up, *down, *act;
	enum tw_status st;

	NAMES(&codecs, tw_codec_all);
	st = tw_read_choose(r, &up_of, &codecs, &up);
	if (st == TW_OK)
		st = tw_read_choose(r, &down_of, &codecs, &down);
	if (st == TW_OK)
		st = tw_read_choose(r, &act_of, &codecs, &act);
	if (st != TW_OK)
		return st;
	plan->traffic.up = tw_codec_find(up);
	plan->traffic.down = tw_codec_find(down);
	plan->traffic.act = tw_codec_find(act);
	/* under names of their own, because codec.up and the others are the names of codecs */
	st = tw_read_variant(r, "strategy.codec.up_", plan->traffic.up->options,
			     plan->traffic.up->options_bytes, &plan->traffic.up_options);
	if (st == TW_OK)
		st = tw_read_variant(r, "strategy.codec.down_", plan->traffic.down->options,
				     plan->traffic.down->options_bytes,
				     &plan->traffic.down_options);
	if (st == TW_OK)
		st = tw_read_variant(r, "strategy.codec.act_", plan->traffic.act->options,
				     plan->traffic.act->options_bytes, &plan->traffic.act_options);
	return st;
}

static enum tw_status bind_topology(struct tw_reading *r)
{
	static const struct tw_chooser kind_of = { "strategy.", tw_strategy_rows, "topology.kind",
						   "topology" };
	static const struct tw_chooser reduction_of = { "strategy.topology.", tw_topology_rows,
							"schedule", "reduction" };
	static const struct tw_chooser mixing_of = { "strategy.topology.", tw_mixing_rows, "mixing",
						     "mixing" };
	struct tw_name_list reductions = { .count = 0 }, mixings = { .count = 0 };
	const char *reduction, *mixing = "";
	size_t kind = TW_TOPOLOGY_SERVER;
	enum tw_status st = choose_kind(r, &kind_of, &kind);

	r->job->strategy.reduction = r->job->strategy.mixing = "";
	if (st != TW_OK || kind == TW_TOPOLOGY_SERVER)
		return st;
	NAMES(&mixings, tw_mixing_all);
	if (kind == TW_TOPOLOGY_MIXING)
		st = tw_read_choose(r, &mixing_of, &mixings, &mixing);
	NAMES(&reductions, tw_reduction_all);
	if (st == TW_OK)
		st = tw_read_choose(r, &reduction_of, &reductions, &reduction);
	if (st != TW_OK)
		return st;
	r->job->plan.topology.reduction = tw_reduction_find(reduction);
	r->job->plan.topology.mixing = tw_mixing_find(mixing);
	return tw_read_rows(r, "strategy.topology.",
			    kind == TW_TOPOLOGY_MIXING ? tw_mixing_rows : tw_topology_rows,
			    &r->job->strategy);
}

static enum tw_status bind_pipeline(struct tw_reading *r)
{
	static const struct tw_chooser schedule_of = { "strategy.", tw_strategy_rows,
						       "pipeline.schedule", "pipeline" };
	struct tw_name_list names = { .at = { "none" }, .count = 1 };
	struct tw_staging *s = &r->job->plan.staging;
	const char *schedule;
	enum tw_status st;

	NAMES(&names, tw_pipeline_all);
	st = tw_read_choose(r, &schedule_of, &names, &schedule);
	s->schedule = st == TW_OK ? tw_pipeline_find(schedule) : NULL;
	if (!s->schedule)
		return st;
	st = tw_read_rows(r, "strategy.pipeline.", tw_pipeline_rows, &r->job->strategy);
	if (st == TW_OK)
		st = tw_read_variant(r, "strategy.pipeline.", s->schedule->options,
				     s->schedule->options_bytes, &s->options);
	return st;
}

static enum tw_status bind_local(struct tw_reading *r)
{
	struct tw_plan *plan = &r->job->plan;
	static const struct tw_chooser local_of = { "strategy.", tw_strategy_rows, "local.rule",
						    "rule" };
	struct tw_name_list rules = { .at = { "none" }, .count = 1 };
	const char *local;
	enum tw_status st;

	NAMES(&rules, tw_rule_all);
	st = tw_read_choose(r, &local_of, &rules, &local);
	plan->local.rule = st == TW_OK ? tw_rule_find(local) : NULL;
	if (!plan->local.rule)
		return st;
	st = tw_read_rows(r, "strategy.local.", tw_local_rows, &r->job->strategy);
	if (st == TW_OK)
		st = tw_read_variant(r, "strategy.local.", plan->local.rule->options,
				     plan->local.rule->options_bytes, &plan->local.options);
	return st;
}

static enum tw_status bind_outer(struct tw_reading *r)
{
	struct tw_plan *plan = &r->job->plan;
	static const struct tw_chooser outer_of = { "strategy.", tw_strategy_rows, "outer.rule",
						    "outer rule" };
	struct tw_name_list rules = { .at = { "none" }, .count = 1 };
	const struct tw_rule *rule;
	const char *outer;
	enum tw_status st;

	NAMES(&rules, tw_outer_all);
	st = tw_read_choose(r, &outer_of, &rules, &outer);
	rule = st == TW_OK ? tw_outer_find(outer) : NULL;
	if (!rule)
		return st;
	plan->near = plan->far; /* the rule of `update:` is the worker's */
	plan->far.rule = rule;
	return tw_read_variant(r, "strategy.outer.", rule->options, rule->options_bytes,
			       &plan->far.options);
}

static enum tw_status bind_strategy(struct tw_reading *r)
{
	struct tw_job *job = r->job;
	struct tw_plan *plan = &job->plan;
	static const struct tw_chooser gate_of = { "strategy.", tw_strategy_rows, "gate", "gate" };
	static const struct tw_chooser policy_of = { "strategy.", tw_strategy_rows, "staleness",
						     "staleness policy" };
	struct tw_name_list gates = { .count = 0 }, policies = { .count = 0 };
	const char *gate, *policy;
	enum tw_status st;

	NAMES(&gates, tw_gate_all);
	NAMES(&policies, tw_staleness_all);
	st = tw_read_choose(r, &gate_of, &gates, &gate);
	if (st == TW_OK)
		st = tw_read_choose(r, &policy_of, &policies, &policy);
	if (st == TW_OK)
		st = tw_read_rows(r, "strategy.", tw_strategy_rows, &job->strategy);
	if (st != TW_OK)
		return st;
	plan->gate = tw_gate_find(gate);
	plan->staleness = tw_staleness_find(policy);
	st = tw_read_variant(r, "strategy.", plan->gate->options, plan->gate->options_bytes,
			     &plan->gate_options);
	if (st == TW_OK)
		st = tw_read_variant(r, "strategy.", plan->staleness->options,
				     plan->staleness->options_bytes, &plan->staleness_options);
	if (st == TW_OK)
		st = bind_codecs(r);
	if (st == TW_OK)
		st = bind_topology(r);
	if (st == TW_OK)
		st = bind_pipeline(r);
	if (st == TW_OK)
		st = bind_outer(r);
	return st == TW_OK ? bind_local(r) : st;
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
