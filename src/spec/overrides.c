/* SPDX-License-Identifier: Apache-2.0 */
/* overrides.c - what comes from outside the file: flags, the environment, and presets. */
#include "spec/read.h"

#include "spec/help/help_topic.h"
#include "spec/help/hint.h"
#include "spec/help/synonyms.h"

#include <stdlib.h>
#include <string.h>

static void unlink_child(struct tw_tree *map, const struct tw_tree *child)
{
	struct tw_tree *last = NULL, **link = &map->first;

	while (*link != child) {
		last = *link;
		link = &last->next;
	}
	*link = child->next;
	if (map->last == child)
		map->last = last;
	map->count--;
}

/* `fetch: {every: 2, overlap: true}` is `fetch: 2` and `overlap: true`. */
static enum tw_status spell_out_fetch(struct tw_reading *r)
{
	struct tw_tree *strategy = tw_tree_child(r->root, "strategy");
	struct tw_tree *map = tw_tree_at(r->root, "strategy.fetch"), *next;
	enum tw_status st = TW_OK;

	if (!map || map->kind != TW_TREE_MAP)
		return TW_OK;
	unlink_child(strategy, map);
	for (struct tw_tree *c = map->first; c && st == TW_OK; c = next) {
		next = c->next;
		c->next = NULL;
		if (strcmp(c->key, "every") == 0)
			st = tw_tree_put(r->keep, strategy, "fetch", c, r->why);
		else if (strcmp(c->key, "overlap") == 0)
			st = tw_tree_put(r->keep, strategy, "overlap", c, r->why);
		else
			st = tw_read_refuse(r, c, "strategy.fetch",
					    "takes a number of steps, or a mapping with every: and "
					    "overlap:");
	}
	return st;
}

static enum tw_status unknown_topology(struct tw_reading *r, const struct tw_tree *node,
				       const char *const *kinds)
{
	struct tw_name_list n = { .count = 0 };
	char help[300], text[420], shown[60];

	for (size_t k = 0; kinds[k]; k++)
		tw_names_add(&n, kinds[k]);
	tw_names_add_all(&n, tw_reduction_heads);
	tw_names_add_all(&n, tw_mixing_heads);
	snprintf(text, sizeof text, "no topology is called '%s'; %s",
		 tw_tree_show(node->text, shown, sizeof shown),
		 tw_names_suggest(&n, node->text, "there are", help, sizeof help));
	return tw_read_refuse(r, node, "strategy.topology", text);
}

static enum tw_status put_text(struct tw_reading *r, struct tw_tree *map, const char *key,
			       const struct tw_tree *like, const char *text)
{
	struct tw_tree *node = tw_tree_new(r->keep, TW_TREE_TEXT, like->origin, like->place, text);

	return node ? tw_tree_put(r->keep, map, key, node, r->why) : tw_read_no_memory(r);
}

/* `topology: tree` is `topology: {schedule: tree}`, and that is `{kind: allreduce, schedule:
 * tree}`; `topology: mesh` and `{kind: mesh}` are `{mixing: mesh}`, and that is `{kind: mixing,
 * mixing: mesh}`; `topology: server` is a kind alone. */
static enum tw_status spell_out_topology(struct tw_reading *r)
{
	const char *const *kinds = tw_option_find(tw_strategy_rows, "topology.kind")->choices;
	struct tw_tree *t = tw_tree_at(r->root, "strategy.topology"), *kind;
	const char *text = t && t->kind == TW_TREE_TEXT && !tw_tree_is_null(t) ? t->text : NULL;
	enum tw_status st = TW_OK;
	size_t k = 0;

	while (text && kinds[k] && strcmp(kinds[k], text) != 0)
		k++;
	if (text && !kinds[k] && !tw_reduction_find(text) && !tw_mixing_find(text))
		return unknown_topology(r, t, kinds);
	if (text) {
		t->kind = TW_TREE_MAP;
		st = put_text(r, t,
			      kinds[k]               ? "kind"
			      : tw_mixing_find(text) ? "mixing"
						     : "schedule",
			      t, text);
	}
	if (st != TW_OK || !t || t->kind != TW_TREE_MAP)
		return st;
	kind = tw_tree_child(t, "kind");
	if (kind && kind->kind == TW_TREE_TEXT && tw_mixing_find(kind->text) &&
	    !tw_tree_child(t, "mixing"))
		kind->key = "mixing";
	else if (kind)
		return TW_OK;
	if (tw_tree_child(t, "mixing"))
		return put_text(r, t, "kind", tw_tree_child(t, "mixing"),
				kinds[TW_TOPOLOGY_MIXING]);
	if (tw_tree_child(t, "schedule"))
		return put_text(r, t, "kind", tw_tree_child(t, "schedule"),
				kinds[TW_TOPOLOGY_ALLREDUCE]);
	return TW_OK;
}

/* `strategy: dc-asgd` is short for `strategy: {name: dc-asgd}`, and so on. */
static enum tw_status spell_out(struct tw_reading *r)
{
	static const struct {
		const char *path, *field;
	} shorts[] = { { "strategy", "name" },  { "model", "name" },
		       { "data", "source" },    { "loss", "name" },
		       { "optimiser", "name" }, { "strategy.pipeline", "schedule" } };
	enum tw_status st = TW_OK;

	for (size_t k = 0; k < sizeof shorts / sizeof shorts[0] && st == TW_OK; k++) {
		struct tw_tree *s = tw_tree_at(r->root, shorts[k].path);

		if (!s || s->kind != TW_TREE_TEXT || tw_tree_is_null(s))
			continue;
		s->kind = TW_TREE_MAP;
		st = put_text(r, s, shorts[k].field, s, s->text);
	}
	if (st == TW_OK)
		st = spell_out_topology(r);
	return st == TW_OK ? spell_out_fetch(r) : st;
}

/* A value given outside the file: YAML where it begins like a list or a mapping, else as it is. */
static enum tw_status outside_value(struct tw_reading *r, const struct tw_text_source *source,
				    const char *value, struct tw_tree **out)
{
	const char *text;

	if (value[0] == '[' || value[0] == '{')
		return tw_tree_read(r->keep, source, value, strlen(value), out, r->why);
	if (strlen(value) > TW_TREE_LETTER)
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s: the value is longer than 256 bytes, which no field takes",
			       source->name);
	text = tw_arena_text(r->keep, value);
	*out = text ? tw_tree_new(r->keep, TW_TREE_TEXT, source->origin, source->name, text) : NULL;
	return *out ? TW_OK : tw_read_no_memory(r);
}

static enum tw_status put(struct tw_reading *r, const struct tw_text_source *source,
			  const char *path, const char *value)
{
	struct tw_tree *node = NULL;
	enum tw_status st = outside_value(r, source, value, &node);

	if (st == TW_OK)
		st = tw_tree_put(r->keep, r->root, path, node, r->why);
	return st == TW_OK ? spell_out(r) : st;
}

static enum tw_status put_flag(struct tw_reading *r, const char *set)
{
	const char *equals = strchr(set, '=');
	struct tw_text_source source = { .origin = TW_FROM_FLAG };
	char shown[96], path[TW_PATH_ROOM];
	size_t n;

	snprintf(path, sizeof path, "--set %s", tw_tree_show(set, shown, sizeof shown - 8));
	source.name = tw_arena_text(r->keep, path);
	if (!source.name)
		return tw_read_no_memory(r);
	n = equals ? (size_t)(equals - set) : 0;
	if (n == 0 || n >= sizeof path || set[0] == '.' || set[n - 1] == '.' ||
	    memmem(set, n, "..", 2))
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s: needs path=value, such as --set train.seed=2", source.name);
	memcpy(path, set, n);
	path[n] = '\0';
	return put(r, &source, path, equals + 1);
}

/* The path whose variable is THALWEG_<name>, of any row, section or model; or the nearest
 * variable in *near. */
static bool path_of_variable(const char *name, char *path, size_t room, struct tw_name_list *all,
			     struct tw_arena *keep)
{
	static const char *const lists[] = { "sim.faults", "sim.nodes", "model.layers" };
	char text[TW_PATH_ROOM];

	for (const struct tw_section *s = tw_sections; s->name; s++) {
		tw_hint_capitals(s->name, text, sizeof text);
		if (strcmp(text, name) == 0) {
			snprintf(path, room, "%s", s->name);
			return true;
		}
	}
	for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++) {
		tw_hint_capitals(lists[k], text, sizeof text);
		if (strcmp(text, name) == 0) {
			snprintf(path, room, "%s", lists[k]);
			return true;
		}
	}
	for (struct tw_row_walk w = { .row = NULL }; tw_row_next(&w);) {
		const char *kept;

		snprintf(path, room, "%s", w.path);
		tw_hint_capitals(path, text, sizeof text);
		if (strcmp(text, name) == 0)
			return true;
		kept = tw_arena_text(keep, text);
		if (kept)
			tw_names_add(all, kept);
	}
	return false;
}

/* The cluster's key is never the job's; the instruction set is the machine's. */
bool tw_variable_of_program(const char *variable)
{
	static const char *const names[] = { "THALWEG_KEY", "THALWEG_KEY_FILE", "THALWEG_ISA" };
	const size_t n = strcspn(variable, "=");

	for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
		if (n == strlen(names[k]) && memcmp(variable, names[k], n) == 0)
			return true;
	return false;
}

static enum tw_status put_variable(struct tw_reading *r, const char *variable)
{
	static const char prefix[] = "THALWEG_";
	const char *equals = strchr(variable, '=');
	struct tw_text_source source = { .origin = TW_FROM_ENVIRONMENT };
	char name[TW_PATH_ROOM], shown[96], path[TW_PATH_ROOM], help[300];
	struct tw_name_list all = { .count = 0 };
	size_t n;

	if (strncmp(variable, prefix, sizeof prefix - 1) != 0 || !equals ||
	    tw_variable_of_program(variable))
		return TW_OK;
	n = (size_t)(equals - variable);
	if (n >= sizeof name)
		n = sizeof name - 1;
	memcpy(name, variable, n);
	name[n] = '\0';
	source.name = tw_arena_text(r->keep, tw_tree_show(name, shown, sizeof shown));
	if (!source.name)
		return tw_read_no_memory(r);
	if (path_of_variable(name + sizeof prefix - 1, path, sizeof path, &all, r->keep))
		return put(r, &source, path, equals + 1);
	all.at[all.count] = NULL;
	if (tw_hint_variable(name + sizeof prefix - 1, help, sizeof help))
		; /* another program's name for it */
	else if (tw_nearest(name + sizeof prefix - 1, all.at))
		snprintf(help, sizeof help, "did you mean THALWEG_%s?",
			 tw_nearest(name + sizeof prefix - 1, all.at));
	else
		snprintf(help, sizeof help,
			 "use THALWEG_ and the path of a field in capitals, such as "
			 "THALWEG_TRAIN_SEED");
	return tw_fail(r->why, TW_BAD_INPUT,
		       "%s: this environment variable does not name a field; %s", source.name,
		       help);
}

static enum tw_status unknown_preset(struct tw_reading *r)
{
	struct tw_name_list n = { .count = 0 };
	const char *name;

	for (const struct tw_preset *p = tw_presets; p->name; p++)
		tw_names_add(&n, p->name);
	return tw_read_choose(r, "strategy.name", "preset", &n, &name);
}

static enum tw_status fields_of(struct tw_reading *r, const struct tw_tree *name, const char *text,
				struct tw_tree **out)
{
	const struct tw_text_source source = { .name = name->place, .origin = TW_FROM_PRESET };

	return tw_tree_read(r->keep, &source, text, strlen(text), out, r->why);
}

/* A run that bears a preset's name is the preset's method: what makes it that cannot be said
 * otherwise; its other fields can. */
static enum tw_status contradicted(struct tw_reading *r, const struct tw_preset *p,
				   const struct tw_tree *fields)
{
	static const char *const essence[] = { "update.rule",
					       "strategy.gate",
					       "strategy.staleness",
					       "strategy.send",
					       "strategy.topology.kind",
					       "strategy.topology.schedule",
					       "strategy.topology.mixing",
					       "strategy.pipeline.schedule",
					       "optimiser.name" };

	for (size_t k = p->any_rule; k < sizeof essence / sizeof essence[0]; k++) {
		const struct tw_tree *own = tw_tree_at(r->root, essence[k]);
		const struct tw_tree *named = tw_tree_at(fields, essence[k]);
		char text[400], shown[60], instead[200];

		if (!own || !named || own->kind != TW_TREE_TEXT ||
		    strcmp(own->text, named->text) == 0)
			continue;
		snprintf(instead, sizeof instead,
			 "give this method fields of its own: compare: {methods: {%s: {strategy: "
			 "%s, %s: %s}}}",
			 p->name, p->name, essence[k], named->text);
		snprintf(text, sizeof text,
			 "'%s' contradicts the preset: %s means %s: %s; leave %s out, or %s",
			 tw_tree_show(own->text, shown, sizeof shown), p->name, essence[k],
			 named->text, essence[k],
			 r->compared ? instead
				     : "spell the strategy out instead of naming a preset");
		return tw_read_refuse(r, own, essence[k], text);
	}
	return TW_OK;
}

static const char *at_once_gate(void)
{
	size_t k = 0;

	while (tw_gate_all[k]->traits & TW_GATE_NOT_AT_ONCE)
		k++;
	return tw_gate_all[k]->name;
}

/* The usual patience waits for what is usually kept: who keeps something else has none. */
static void without_patience(const struct tw_tree *root, const struct tw_tree *usual)
{
	const struct tw_tree *given = tw_tree_at(root, "train.keep");
	const struct tw_tree *keep = tw_tree_at(usual, "train.keep");
	struct tw_tree *patience = tw_tree_at(usual, "train.patience");

	if (given && given->kind == TW_TREE_TEXT && keep && patience &&
	    strcmp(given->text, keep->text) != 0)
		patience->text = "0";
}

/* A job that names samples and no model trains what is usual for these. */
enum tw_status tw_read_usual(struct tw_reading *r)
{
	const struct tw_tree *model = tw_tree_child(r->root, "model");
	const struct tw_tree *name = tw_tree_at(r->root, "data.source");
	const struct tw_source *source =
		name && name->kind == TW_TREE_TEXT ? tw_source_find(name->text) : NULL;
	struct tw_text_source like = { .origin = TW_FROM_FILE };
	struct tw_tree *fields = NULL;
	char text[1000];
	enum tw_status st;

	if ((model && !tw_tree_is_null(model)) || !source || !source->models)
		return TW_OK;
	snprintf(text, sizeof text, "data: {%s}\n%s", source->models->data,
		 source->models->sections);
	like.name = name->place; /* as if it stood there: no default goes before it */
	r->job->usual = source->models->sections;
	st = tw_tree_read(r->keep, &like, text, strlen(text), &fields, r->why);
	if (st != TW_OK)
		return st;
	without_patience(r->root, fields);
	tw_tree_fill(r->root, fields);
	return TW_OK;
}

/* What was not said of the strategy: all of it, or its gate.  An optimiser has none. */
enum tw_status tw_read_standard(struct tw_reading *r)
{
	const struct tw_tree like = { .origin = TW_FROM_PRESET, .place = r->job->file };
	const struct tw_tree *strategy = tw_tree_child(r->root, "strategy");
	const struct tw_tree *optimiser = tw_tree_at(r->root, "optimiser.name");

	if (tw_tree_at(r->root, "strategy.name") || tw_tree_at(r->root, "strategy.gate") ||
	    (optimiser && !(optimiser->kind == TW_TREE_TEXT && !strcmp(optimiser->text, "none"))))
		return TW_OK;
	if (strategy && strategy->kind != TW_TREE_MAP && !tw_tree_is_null(strategy))
		return TW_OK; /* refused later */
	r->stood = true;
	if (r->standard == TW_STANDARD_AT_ONCE)
		return put_text(r, r->root, "strategy.gate", &like, at_once_gate());
	if (!strategy || !strategy->first)
		return put_text(r, r->root, "strategy.name", &like, tw_preset_standard()->name);
	return TW_OK;
}

enum tw_status tw_read_preset(struct tw_reading *r)
{
	const struct tw_tree *name = tw_tree_at(r->root, "strategy.name"), *fetch;
	struct tw_tree *fields = NULL;
	const struct tw_preset *p;
	enum tw_status st;

	if (!name)
		return TW_OK;
	if (name->kind != TW_TREE_TEXT)
		return tw_read_refuse(r, name, "strategy.name", "needs a preset's name");
	p = tw_preset_find(name->text);
	if (!p)
		return unknown_preset(r);
	st = fields_of(r, name, p->fields, &fields);
	if (st == TW_OK)
		st = contradicted(r, p, fields);
	if (st != TW_OK)
		return st;
	tw_tree_fill(r->root, fields);
	fetch = tw_tree_at(r->root, "strategy.fetch");
	if (!p->between || !fetch || fetch->kind != TW_TREE_TEXT ||
	    strtoul(fetch->text, NULL, 10) <= 1)
		return TW_OK;
	st = fields_of(r, name, p->between, &fields);
	if (st == TW_OK)
		tw_tree_fill(r->root, fields);
	return st;
}

static enum tw_status put_change(struct tw_reading *r, const struct tw_job_change *change)
{
	struct tw_tree *node = tw_tree_copy(r->keep, change->node);
	enum tw_status st;

	if (!node)
		return tw_read_no_memory(r);
	st = tw_tree_put(r->keep, r->root, change->path, node, r->why);
	return st == TW_OK ? spell_out(r) : st;
}

enum tw_status tw_read_outside(struct tw_reading *r, const struct tw_job_text *from)
{
	const char *const *variable = from->environ_;
	enum tw_status st = spell_out(r);

	for (; st == TW_OK && variable && *variable; variable++)
		st = put_variable(r, *variable);
	for (size_t k = 0; st == TW_OK && k < from->sets; k++)
		st = put_flag(r, from->set[k]);
	for (size_t k = 0; st == TW_OK && k < from->changes; k++)
		st = put_change(r, &from->change[k]);
	return st;
}
