/* SPDX-License-Identifier: Apache-2.0 */
/* choose.c - one choice of a job: the variant that a field names, and the rows that it brings in.
 *
 *  (3) no choices together bring in more than TW_FIELDS_MAX rows. */
#include "spec/read.h"

#include "spec/help/help_topic.h"
#include "spec/registries.h"
#include "spec/help/synonyms.h"

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
