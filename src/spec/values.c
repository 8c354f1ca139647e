/* SPDX-License-Identifier: Apache-2.0 */
/* values.c - every value in the tree to its row, or a sentence that says why not. */
#include "spec/read.h"

#include "spec/help/suggest.h"
#include "spec/help/synonyms.h"

#include <string.h>

static const char *joined(struct tw_reading *r, const struct tw_tree *list)
{
	size_t room = 3, n = 0;
	char *text;

	for (const struct tw_tree *c = list->first; c; c = c->next)
		room += strlen(c->text) + 2;
	text = tw_arena_get(r->keep, room);
	if (!text)
		return NULL;
	text[n++] = '[';
	for (const struct tw_tree *c = list->first; c; c = c->next)
		n += (size_t)snprintf(text + n, room - n, "%s%s", c == list->first ? "" : ", ",
				      c->text);
	text[n] = ']';
	return text;
}

/* A list of plain values as the text that a row of TW_F64S or TW_WORDS reads. */
static enum tw_status list_value(struct tw_reading *r, const struct tw_field *f,
				 const struct tw_tree *node, const char **text)
{
	char accepts[200], reason[300];
	bool plain = f->row->type == TW_F64S || f->row->type == TW_WORDS;

	for (const struct tw_tree *c = node->first; c && plain; c = c->next)
		plain = c->kind == TW_TREE_TEXT && !strpbrk(c->text, ",[]") && *c->text;
	if (!plain) {
		tw_field_accepts(f->row, accepts, sizeof accepts);
		snprintf(reason, sizeof reason, "needs %s, not %s", accepts,
			 f->row->type == TW_F64S || f->row->type == TW_WORDS
				 ? "a list of other values"
				 : "a list");
		return tw_read_refuse(r, node, f->path, reason);
	}
	*text = joined(r, node);
	return *text ? TW_OK : tw_read_no_memory(r);
}

static enum tw_status assign(struct tw_reading *r, struct tw_field *f, const struct tw_tree *node)
{
	const char *text = node->text;
	struct tw_error said = { 0 };
	char accepts[200], reason[300];
	enum tw_status st;

	f->from = node;
	if (node->kind == TW_TREE_MAP) {
		tw_field_accepts(f->row, accepts, sizeof accepts);
		snprintf(reason, sizeof reason, "needs %s, not a mapping", accepts);
		return tw_read_refuse(r, node, f->path, reason);
	}
	if (node->kind == TW_TREE_LIST) {
		st = list_value(r, f, node, &text);
		if (st != TW_OK)
			return st;
	}
	st = tw_field_set(f->row, f->base, text, r->keep, &said);
	if (st == TW_OK)
		return TW_OK;
	if (st == TW_NO_MEMORY)
		return tw_read_no_memory(r);
	return tw_read_refuse(r, node, f->path, said.text);
}

static bool inside(const char *path, const char *of)
{
	const size_t n = strlen(of);

	return strncmp(path, of, n) == 0 && path[n] == '.';
}

static bool leads_on(const struct tw_reading *r, const char *path)
{
	for (size_t k = 0; k < r->job->fields; k++)
		if (inside(r->field[k].path, path))
			return true;
	return false;
}

/* The fields directly inside `parent` ("" for sections), by their last name. */
static void siblings(struct tw_reading *r, const char *parent, struct tw_name_list *out)
{
	if (!*parent) {
		for (const struct tw_section *s = tw_sections; s->name; s++)
			tw_names_add(out, s->name);
		return;
	}
	for (size_t k = 0; k < r->job->fields; k++) {
		char name[TW_PATH_ROOM];
		const char *kept;

		if (!inside(r->field[k].path, parent))
			continue;
		snprintf(name, sizeof name, "%s", r->field[k].path + strlen(parent) + 1);
		name[strcspn(name, ".")] = '\0';
		kept = tw_arena_text(r->keep, name);
		if (kept)
			tw_names_add(out, kept);
	}
	if (strcmp(parent, "sim") == 0) {
		tw_names_add(out, "faults");
		tw_names_add(out, "nodes");
	}
	if (strcmp(parent, "model") == 0)
		tw_names_add(out, "layers");
	if (strcmp(parent, "compare") == 0) {
		tw_names_add(out, "vary");
		tw_names_add(out, "tune");
		tw_names_add(out, "methods");
	}
}

/* The same for fields that other choices would bring in: near enough to be what was meant. */
static void distant_siblings(const char *parent, struct tw_name_list *out)
{
	struct tw_group g;

	for (size_t k = 0; tw_group_at(k, &g); k++) {
		const size_t n = strlen(g.prefix);

		if (n != strlen(parent) + 1 || strncmp(g.prefix, parent, n - 1) != 0)
			continue;
		for (const struct tw_option *row = g.rows; row->name; row++)
			if (!strchr(row->name, '.'))
				tw_names_add(out, row->name);
	}
}

/* Is it a field of another choice?  Then say of which. */
static bool of_another(struct tw_reading *r, const char *path, char *out, size_t room)
{
	size_t found = 0, last = SIZE_MAX;

	for (struct tw_row_walk w = { .row = NULL }; tw_row_next(&w);) {
		const struct tw_group *g = &w.group;
		size_t n;

		if (!g->variant || w.number == last ||
		    (strcmp(w.path, path) != 0 && !inside(w.path, path)))
			continue;
		last = w.number;
		if (found++ == 0)
			snprintf(out, room, "is valid only with %s: %s", g->chooser, g->variant);
		else if ((n = strlen(out)) + strlen(g->variant) + 8 < room)
			snprintf(out + n, room - n, " or %s", g->variant);
	}
	if (found) {
		const size_t n = strlen(out);

		snprintf(out + n, room - n, "; choose that or leave this out");
		if (r->compared)
			snprintf(out + strlen(out), room - strlen(out),
				 ", or give it only to the method that has it: compare: {methods: "
				 "{NAME: {strategy: ..., %s: ...}}}",
				 path);
	}
	return found > 0;
}

/* Fields of that very name in other sections. */
static bool namesakes(const char *key, char *out, size_t room)
{
	char path[TW_PATH_ROOM];
	size_t found = 0, n = 0;

	for (struct tw_row_walk w = { .row = NULL }; tw_row_next(&w);) {
		if (strcmp(tw_path_last(w.row->name), key) != 0 || (found && strstr(out, w.path)) ||
		    n + strlen(w.path) + 5 >= room)
			continue;
		n += (size_t)snprintf(out + n, room - n, "%s%s", found ? ", " : "", w.path);
		found++;
	}
	if (found == 1) {
		snprintf(path, sizeof path, "%s", out);
		snprintf(out, room, "did you mean %s?", path);
	} else if (found) {
		snprintf(out + n, room - n, " have that name");
	}
	return found > 0;
}

bool tw_read_elsewhere(const char *key, char *out, size_t room)
{
	const struct tw_synonym *s = tw_synonym_field(key);

	if (s)
		tw_synonym_say(s, out, room);
	return s || namesakes(key, out, room);
}

/* Do others call a field of this job so?  Then it matters little that another choice has it. */
static bool meant_here(const struct tw_reading *r, const char *path, const char *key)
{
	const struct tw_synonym *s = tw_synonym_field(key);

	return s && s->ours && strcmp(s->ours, path) != 0 && tw_job_field(r->job, s->ours);
}

static enum tw_status unknown(struct tw_reading *r, const char *parent, const char *path,
			      const struct tw_tree *node)
{
	struct tw_name_list n = { .count = 0 };
	char help[300], reason[440], lead[120];

	if (strchr(node->key, '.'))
		return tw_read_refuse(
			r, node, path,
			"names of fields contain no dot; write a mapping inside a mapping instead");
	if (!meant_here(r, path, node->key) && of_another(r, path, reason, sizeof reason))
		return tw_read_refuse(r, node, path, reason);
	siblings(r, parent, &n);
	snprintf(lead, sizeof lead, "%s%s", *parent ? parent : "a job", " has");
	tw_names_suggest(&n, node->key, lead, help, sizeof help);
	distant_siblings(parent, &n);
	if (tw_nearest(node->key, n.at) && !tw_synonym_field(node->key))
		tw_names_suggest(&n, node->key, lead, help, sizeof help);
	else
		tw_read_elsewhere(node->key, help, sizeof help);
	snprintf(reason, sizeof reason, "there is no such field; %s", help);
	return tw_read_refuse(r, node, path, reason);
}

static enum tw_status not_a_mapping(struct tw_reading *r, const char *path,
				    const struct tw_tree *node)
{
	struct tw_name_list n = { .count = 0 };
	char help[300], reason[440], shown[48];

	siblings(r, path, &n);
	snprintf(reason, sizeof reason, "needs a mapping of fields, not %s%s%s; %s",
		 node->kind == TW_TREE_LIST ? "a list" : "'",
		 tw_tree_show(node->text, shown, sizeof shown),
		 node->kind == TW_TREE_LIST ? "" : "'",
		 tw_names_suggest(&n, "", "it has", help, sizeof help));
	return tw_read_refuse(r, node, path, reason);
}

/* Read from the tree: see faults.c, sim_nodes.c, network_sections.c and compare_section.c. */
static bool has_no_row(const char *path)
{
	static const char *const paths[] = {
		"sim.faults",      "sim.nodes", "model.layers", "compare.vary", "compare.tune",
		"compare.methods", NULL
	};
	size_t k = 0;

	while (paths[k] && strcmp(paths[k], path) != 0)
		k++;
	return paths[k];
}

static enum tw_status walk(struct tw_reading *r, const struct tw_tree *map, const char *parent)
{
	for (const struct tw_tree *c = map->first; c; c = c->next) {
		enum tw_status st = TW_OK;
		char path[TW_PATH_ROOM], shown[64];
		struct tw_field *f;

		snprintf(path, sizeof path, "%s%s%s", parent, *parent ? "." : "",
			 tw_tree_show(c->key, shown, sizeof shown));
		f = strchr(c->key, '.') ? NULL : tw_job_field(r->job, path);
		if (f)
			st = assign(r, f, c);
		else if (has_no_row(path))
			continue;
		else if (!strchr(c->key, '.') && leads_on(r, path)) {
			if (c->kind == TW_TREE_MAP)
				st = walk(r, c, path);
			else if (!tw_tree_is_null(c))
				st = not_a_mapping(r, path, c);
		} else if (c->origin != TW_FROM_PRESET) {
			st = unknown(r, parent, path, c);
		}
		if (st != TW_OK)
			return st;
	}
	return TW_OK;
}

/* The nearest that was written above a missing field. */
static const struct tw_tree *above(const struct tw_reading *r, const char *path)
{
	char text[TW_PATH_ROOM], *dot;

	snprintf(text, sizeof text, "%s", path);
	while ((dot = strrchr(text, '.'))) {
		const struct tw_tree *node;

		*dot = '\0';
		node = tw_tree_at(r->root, text);
		if (node)
			return node;
	}
	return NULL;
}

static enum tw_status missing(struct tw_reading *r)
{
	char text[200];

	if (!tw_tree_child(r->root, "data") && r->job->model != TW_MODEL_EXTERNAL)
		return tw_read_refuse(r, NULL, "data",
				      tw_suggest(r->job,
						 "must be given, such as data: {source: [a drawn "
						 "source], batch: 64}",
						 text, sizeof text));
	for (size_t k = 0; k < r->job->fields; k++) {
		const struct tw_field *f = &r->field[k];
		char accepts[200], reason[300];

		if (f->row->standard || f->from)
			continue;
		tw_field_accepts(f->row, accepts, sizeof accepts);
		snprintf(reason, sizeof reason, "must be given: %s", accepts);
		return tw_read_refuse(r, above(r, f->path), f->path, reason);
	}
	return TW_OK;
}

/* What the user gives is refused for its section's name before anything that follows from it. */
enum tw_status tw_read_sections(struct tw_reading *r)
{
	for (const struct tw_tree *c = r->root->first; c; c = c->next) {
		const struct tw_section *s = tw_sections;
		char shown[64];

		while (s->name && strcmp(s->name, c->key) != 0)
			s++;
		if (!s->name)
			return unknown(r, "", tw_tree_show(c->key, shown, sizeof shown), c);
	}
	return TW_OK;
}

enum tw_status tw_read_values(struct tw_reading *r)
{
	const enum tw_status st = walk(r, r->root, "");

	return st == TW_OK ? missing(r) : st;
}
