/* SPDX-License-Identifier: Apache-2.0 */
/* help_topic.c - help on one word of a job file, from the rows and tables. */
#include "spec/help/help_topic.h"

#include "spec/field.h"
#include "spec/read.h"
#include "spec/registries.h"
#include "spec/help/synonyms.h"
#include "model/layer_text.h"
#include "model/other_layers.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define NEXT    "            " /* under the second column */
#define RELATED 8              /* fields that are named as related */
#define FULL    4              /* more fields of one name than this are only listed */

static void line(FILE *out, const char *label, const char *text)
{
	fprintf(out, "  %-9s %s\n", label, text);
}

/* --- fields --- */

static bool same_row(const struct tw_option *a, const struct tw_option *b)
{
	return a->type == b->type && a->min == b->min && a->max == b->max &&
	       !a->standard == !b->standard &&
	       (!a->standard || strcmp(a->standard, b->standard) == 0);
}

/* "with update.rule: momentum, nag": who has a row like this at the path. */
static void who_uses(FILE *out, const char *path, const struct tw_option *like)
{
	size_t found = 0;

	for (struct tw_row_walk w = { .row = NULL }; tw_row_next(&w);) {
		const struct tw_group *g = &w.group;

		if (strcmp(w.path, path) != 0 || !same_row(w.row, like))
			continue;
		if (!g->variant) {
			line(out, "used",
			     strncmp(path, "sim.", 4) == 0 ? "always, by `thalweg sim`" : "always");
			return;
		}
		if (found++)
			fprintf(out, ", %s", g->variant);
		else
			fprintf(out, "  %-9s with %s: %s", "used", g->chooser, g->variant);
	}
	fputc('\n', out);
}

/* A value that the field takes: for a name, one of those there are. */
static void example_of(const char *path, const struct tw_option *row, char *out, size_t room)
{
	const char *name, *help;

	tw_option_example(row, out, room);
	for (size_t k = 0; strcmp(out, "NAME") == 0 && (name = tw_name_at(path, k, &help)); k++)
		if (strcmp(name, row->standard) != 0)
			snprintf(out, room, "%s", name);
}

/* "update: {rate: 0.1}" for update.rate: mappings inside mappings. */
static void as_yaml(FILE *out, const char *path, const char *value)
{
	size_t deep = 0;

	fprintf(out, "  %-9s ", "in a job");
	for (const char *p = path; *p; p++)
		if (*p == '.') {
			fprintf(out, ": {");
			deep++;
		} else {
			fputc(*p, out);
		}
	fprintf(out, ": %s", value);
	while (deep--)
		fputc('}', out);
	fputc('\n', out);
}

static void as_setting(FILE *out, const char *path, const char *value)
{
	const char *quote = strpbrk(value, " []") ? "'" : "";

	fprintf(out, "  %-9s --set %s%s=%s%s, or THALWEG_", "or", quote, path, value, quote);
	for (; *path; path++)
		fputc(isalnum((unsigned char)*path) ? toupper((unsigned char)*path) : '_', out);
	fprintf(out, "=%s%s%s\n", quote, value, quote);
}

/* Is it a neighbour: a field with the same words before its name? */
static bool beside(const char *a, const char *b)
{
	const size_t n = (size_t)(tw_path_last(a) - a);

	return n && strncmp(a, b, n) == 0 && strcmp(a, b) != 0 && !strchr(b + n, '.');
}

/* Those of the same variant first. */
static void related(FILE *out, const char *path, const char *variant)
{
	char seen[1200] = " ";
	size_t found = 0;

	for (size_t turn = variant ? 0 : 1; turn < 2; turn++)
		for (struct tw_row_walk w = { .row = NULL }; tw_row_next(&w);) {
			const char *of = w.group.variant;
			char name[TW_PATH_ROOM + 2];

			if (found == RELATED || !beside(path, w.path) ||
			    (turn ? of != NULL : !of || strcmp(of, variant) != 0))
				continue;
			snprintf(name, sizeof name, " %s ", w.path);
			if (strstr(seen, name) || strlen(seen) + strlen(name) >= sizeof seen)
				continue;
			strcat(strcat(seen, w.path), " ");
			if (found++)
				fprintf(out, ", %s", w.path);
			else
				fprintf(out, "  %-9s %s", "related", w.path);
		}
	if (found)
		fputc('\n', out);
}

static void print_row(FILE *out, const struct tw_row_walk *w)
{
	const struct tw_option *row = w->row;
	const char *path = w->path;
	char accepts[400], value[120];

	fprintf(out, "%s - %s%s%s%s\n", path, row->help ? row->help : "", row->unit ? " (" : "",
		row->unit ? row->unit : "", row->unit ? ")" : "");
	tw_field_accepts(row, accepts, sizeof accepts);
	line(out, "takes", accepts);
	line(out, "default",
	     !row->standard   ? "none: it must be given"
	     : *row->standard ? row->standard
			      : "none");
	who_uses(out, path, row);
	example_of(path, row, value, sizeof value);
	as_yaml(out, path, value);
	as_setting(out, path, value);
	related(out, path, w->group.variant);
}

/* Every row at that path that differs from those before it. */
static size_t print_path(FILE *out, const char *path, size_t found)
{
	const struct tw_option *printed[16];
	size_t n = 0;

	for (struct tw_row_walk w = { .row = NULL }; tw_row_next(&w);) {
		bool again = false;

		if (strcmp(w.path, path) != 0)
			continue;
		for (size_t i = 0; i < n; i++)
			again = again || same_row(printed[i], w.row);
		if (again || n == 16)
			continue;
		fprintf(out, "%s", found + n ? "\n" : "");
		printed[n++] = w.row;
		print_row(out, &w);
	}
	return n;
}

/* Paths of fields whose last word this is, each once. */
static size_t namesakes(const char *word, char paths[][TW_PATH_ROOM], size_t room)
{
	size_t n = 0;

	for (struct tw_row_walk w = { .row = NULL }; tw_row_next(&w);) {
		size_t i = 0;

		if (strcmp(tw_path_last(w.row->name), word) != 0)
			continue;
		while (i < n && strcmp(paths[i], w.path) != 0)
			i++;
		if (i == n && n < room)
			strcpy(paths[n++], w.path);
	}
	return n;
}

static size_t topic_field(FILE *out, const char *word, size_t found)
{
	char paths[16][TW_PATH_ROOM];
	size_t n, printed = 0;

	if (strchr(word, '.'))
		return print_path(out, word, found);
	n = namesakes(word, paths, 16);
	if (n > FULL) {
		fprintf(out, "%sfields of that name: ", found ? "\n" : "");
		for (size_t k = 0; k < n; k++)
			fprintf(out, "%s%s", k ? ", " : "", paths[k]);
		fprintf(out, "; give one of these paths\n");
		return n;
	}
	for (size_t k = 0; k < n; k++)
		printed += print_path(out, paths[k], found + printed);
	return printed;
}

/* --- sections, and what fields of them have in common: "update", "update.schedule" --- */

static void short_row(FILE *out, const char *path, const struct tw_option *row)
{
	const char *s = row->standard;

	fprintf(out, "  %-26s  %s%s%s%s\n", path, row->help ? row->help : "",
		s ? " (default " : " (must be given",
		!s   ? ""
		: *s ? s
		     : "none",
		")");
}

/* Is the group shown with its section?  One that a choice brings in is not, unless the choice is
 * the usual one: a network, a data set. */
static bool usual(const struct tw_group *g)
{
	return !g->variant || strncmp(g->variant, "a ", 2) == 0;
}

bool tw_job_is_section(const char *word)
{
	for (const struct tw_section *s = tw_sections; s->name; s++)
		if (strcmp(s->name, word) == 0)
			return true;
	return false;
}

static size_t topic_section(FILE *out, const char *word, size_t found)
{
	const size_t n = strlen(word);
	const bool all = strchr(word, '.') || strcmp(word, "sim") == 0;
	char before[TW_PATH_ROOM] = "";
	const char *help = "fields that belong together";
	size_t rows = 0, left_out = 0;

	for (const struct tw_section *s = tw_sections; s->name; s++)
		if (strcmp(s->name, word) == 0)
			help = s->help;
	for (struct tw_row_walk w = { .row = NULL }; tw_row_next(&w);) {
		if (strncmp(w.path, word, n) != 0 || w.path[n] != '.' ||
		    strcmp(w.path, before) == 0)
			continue;
		if (!all && !usual(&w.group)) {
			left_out++;
			continue;
		}
		strcpy(before, w.path);
		if (rows++ == 0)
			fprintf(out, "%s%s - %s\n", found ? "\n" : "", word, help);
		short_row(out, w.path, w.row);
	}
	if (rows && strcmp(word, "model") == 0)
		fprintf(out, "  %-26s  the list of its layers; `thalweg help layers` shows them\n",
			"model.layers");
	if (rows && left_out)
		fprintf(out, "  Some choices have further fields; `thalweg help options` lists "
			     "them all.\n");
	return rows > 0;
}

/* --- names that are values --- */

static void own_rows(FILE *out, const char *prefix, const struct tw_option *rows)
{
	char path[TW_PATH_ROOM];

	for (const struct tw_option *row = rows; row && row->name; row++) {
		if (row == rows)
			fprintf(out, "  fields of its own:\n");
		snprintf(path, sizeof path, "%s%s", prefix, row->name);
		short_row(out, path, row);
	}
}

/* Entries of tables: "csv - a data source: tables ...". */
static size_t topic_entry(FILE *out, const char *word, size_t found)
{
	size_t n = 0;
	char more[80];

	for (const struct tw_registry *g = tw_registries; g->field; g++) {
		const struct tw_variant *v = g->title ? tw_variant_find(g->heads, word) : NULL;

		if (!v)
			continue;
		fprintf(out, "%s%s - %s %s%s%s: %s\n", found + n++ ? "\n" : "", v->name,
			strchr("aeiou", *g->kind) ? "an" : "a", g->kind, g->about ? ", " : "",
			g->about ? g->about : "", v->help);
		as_yaml(out, g->field, v->name);
		if (g->more)
			line(out, g->more, g->tell(v, more, sizeof more));
		own_rows(out, g->prefix, v->options);
	}
	return n;
}

static size_t topic_preset(FILE *out, const char *word, size_t found)
{
	const struct tw_preset *p = tw_preset_find(word);

	if (!p)
		return 0;
	fprintf(out, "%s%s - a preset: %s\n", found ? "\n" : "", p->name, p->help);
	line(out, "from", p->paper);
	fprintf(out, "  %-9s ", "is");
	for (const char *c = p->fields; *c; c++)
		if (*c != '\n')
			fputc(*c, out);
		else if (c[1])
			fprintf(out, "\n" NEXT);
	fputc('\n', out);
	fprintf(out, "  %-9s strategy: %s\n", "in a job", p->name);
	line(out, "related", "`thalweg help strategies` lists presets and what they are made of");
	return 1;
}

static size_t topic_op(FILE *out, const char *word, size_t found)
{
	const struct tw_op *op = tw_op_find(word);
	const bool loss = op && (op->traits & TW_OP_LOSS);
	uint32_t k = 0;

	if (!op || (!loss && op->ins != 1))
		return 0;
	fprintf(out, "%s%s - a %s: %s\n", found ? "\n" : "", op->name, loss ? "loss" : "layer",
		op->help);
	if (loss) {
		fprintf(out, "  %-9s loss: %s\n", "in a job", op->name);
		own_rows(out, "loss.", op->options);
		return 1;
	}
	fprintf(out, "  %-9s model: {layers: [%s", "in a job", op->name);
	for (const struct tw_option *row = op->options; row && row->name; row++, k++)
		if (k < op->positional && !row->standard)
			fprintf(out, " <%s>", row->name);
	fprintf(out, ", ...]}\n");
	for (const struct tw_option *row = op->options; row && row->name; row++) {
		if (row == op->options)
			fprintf(out, "  options after its name:\n");
		short_row(out, row->name, row);
	}
	line(out, "related", "`thalweg help layers` lists all layers");
	return 1;
}

/* --- what has no row --- */

static size_t topic_other(FILE *out, const char *word, size_t found)
{
	static const struct {
		const char *word, *text;
	} others[] = {
		{ "model.layers",
		  "model.layers - the layers of a network, from the input to the last one\n  takes "
		  "    a list of texts; `thalweg help layers` lists all layers\n  in a job  model: "
		  "{layers: [conv 20 5x5, relu, maxpool 2, linear 10]}\n" },
		{ "residual",
		  "residual - a layer: adds the output of its layers to its input\n  in a job  "
		  "model: {layers: [residual: [conv 16 3x3 pad 1, relu], linear 10]}\n" },
		{ "sim.nodes",
		  "sim.nodes - the machines of a simulated cluster, where they are not all alike\n"
		  "  takes     a list of mappings; `thalweg help options` has their fields\n  in a "
		  "job  sim: {nodes: [{speed: 1, count: 2}, {speed: 0.5, bandwidth: 1Gbit/s}]}\n" },
		{ "sim.faults",
		  "sim.faults - what goes wrong in a simulated cluster, and when\n  takes     a "
		  "list of mappings; `thalweg help options` lists all kinds\n  in a job  sim: "
		  "{faults: [{crash: worker 3, at: 5s, restart: 2s}]}\n" },
	};

	for (size_t k = 0; k < sizeof others / sizeof others[0]; k++)
		if (strcmp(others[k].word, word) == 0) {
			fprintf(out, "%s%s", found ? "\n" : "", others[k].text);
			return 1;
		}
	return 0;
}

/* --- all of it --- */

static size_t topic(FILE *out, const char *word)
{
	size_t n = 0;

	n += topic_preset(out, word, n);
	n += topic_section(out, word, n);
	n += topic_entry(out, word, n);
	n += topic_op(out, word, n);
	n += topic_other(out, word, n);
	n += topic_field(out, word, n);
	return n;
}

/* The word that help is asked about where a synonym points: "update.rate", "mean-squared". */
static const char *target(const char *ours)
{
	const char *value = strstr(ours, ": ");

	return value ? value + 2 : ours;
}

/* Another program's name for a value. */
static const struct tw_synonym *value_called(const char *word)
{
	const char *const fields[] = { "loss", "update.rule", "strategy", "data.source" };
	const struct tw_synonym *s = NULL;

	for (size_t k = 0; !s && k < sizeof fields / sizeof fields[0]; k++)
		s = tw_synonym_value(fields[k], word);
	return s;
}

static size_t topic_synonym(FILE *out, const char *word)
{
	const struct tw_synonym *s = tw_synonym_field(word);
	const char *layer = tw_layer_elsewhere(word);
	char text[300];

	if (!s)
		s = value_called(word);
	if (!s && layer) {
		fprintf(out, "%s is the layer %s here.\n\n", word, layer);
		return topic(out, layer);
	}
	if (!s || !s->ours)
		return 0;
	fprintf(out, "%s: %s.\n", word, tw_synonym_say(s, text, sizeof text));
	if (*s->ours == '-')
		return 1;
	fputc('\n', out);
	return 1 + topic(out, target(s->ours));
}

bool tw_job_topic_absent(const char *word, char *out, size_t room)
{
	const struct tw_synonym *s = tw_synonym_field(word);
	const struct tw_other_layer *layer = tw_other_layer_find(word);

	if (s && !s->ours)
		snprintf(out, room, "%s", s->note);
	else if (!s && layer)
		snprintf(out, room, "this layer is not supported; instead %s", layer->instead);
	else
		return false;
	return true;
}

size_t tw_job_topic(FILE *out, const char *word)
{
	const size_t n = topic(out, word);
	const struct tw_synonym *s = value_called(word);
	char text[300];

	if (!n)
		return topic_synonym(out, word);
	if (s && strcmp(target(s->ours), word) != 0)
		fprintf(out, "\nIn other libraries, %s has another meaning: %s.\n", word,
			tw_synonym_say(s, text, sizeof text));
	return n;
}

const char *tw_job_topic_at(size_t k)
{
	static _Thread_local struct tw_row_walk w;

	for (const struct tw_section *s = tw_sections; s->name; s++)
		if (k-- == 0)
			return s->name;
	for (const struct tw_preset *p = tw_presets; p->name; p++)
		if (k-- == 0)
			return p->name;
	for (enum tw_list list = TW_LIST_NETWORKS; list <= TW_LIST_LAST; list++)
		for (const struct tw_registry *r = tw_registries; r->field; r++)
			for (size_t i = 0; r->title && r->list == list && r->heads[i]; i++)
				if (k-- == 0)
					return r->heads[i]->name;
	for (size_t i = 0; tw_op_at(i); i++)
		if ((tw_op_at(i)->ins == 1 || tw_op_at(i)->traits & TW_OP_LOSS) && k-- == 0)
			return tw_op_at(i)->name;
	for (w.row = NULL; tw_row_next(&w);)
		if (k-- == 0)
			return w.path;
	return NULL;
}
