/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c - what can be written in a job file, printed from the rows and tables. */
#include "node/figures.h"
#include "spec/field.h"
#include "spec/registries.h"

#include <string.h>

static bool of_section(const struct tw_group *g, const char *section)
{
	const size_t n = strlen(section);

	return strncmp(g->prefix, section, n) == 0 && g->prefix[n] == '.';
}

static const char *standard_of(const struct tw_option *row)
{
	if (!row->standard)
		return "must be given";
	return *row->standard ? row->standard : "none";
}

/* Markdown: a bar would end the cell. */
static void cell(FILE *out, const char *text)
{
	for (; *text; text++)
		fprintf(out, *text == '|' ? "\\|" : "%c", *text);
}

static void markdown_group(FILE *out, const struct tw_group *g)
{
	char accepts[400];

	if (g->variant)
		fprintf(out, "\nWith `%s: %s`:\n", g->chooser, g->variant);
	fprintf(out, "\n| field | default | takes | meaning |\n| --- | --- | --- | --- |\n");
	for (const struct tw_option *row = g->rows; row->name; row++) {
		tw_field_accepts(row, accepts, sizeof accepts);
		fprintf(out, "| `%s%s` | ", g->prefix, row->name);
		cell(out, standard_of(row));
		fprintf(out, " | ");
		cell(out, accepts);
		fprintf(out, " | ");
		cell(out, row->help ? row->help : "");
		if (row->unit)
			fprintf(out, " (%s)", row->unit);
		fprintf(out, " |\n");
	}
}

/* roff: a leading dot or quote is a request, a backslash an escape, a hyphen may be a dash. */
static void roff(FILE *out, const char *text)
{
	if (*text == '.' || *text == '\'')
		fprintf(out, "\\&");
	for (; *text; text++)
		if (*text == '\\')
			fprintf(out, "\\e");
		else if (*text == '-')
			fprintf(out, "\\-");
		else
			fputc(*text, out);
}

static void roff_group(FILE *out, const struct tw_group *g)
{
	char accepts[400];

	if (g->variant) {
		fprintf(out, ".PP\nWith ");
		roff(out, g->chooser);
		fprintf(out, ": ");
		roff(out, g->variant);
		fprintf(out, ":\n");
	}
	for (const struct tw_option *row = g->rows; row->name; row++) {
		tw_field_accepts(row, accepts, sizeof accepts);
		fprintf(out, ".TP\n.B ");
		roff(out, g->prefix);
		roff(out, row->name);
		fprintf(out, "\n");
		roff(out, row->help ? row->help : "");
		if (row->unit)
			fprintf(out, " (%s)", row->unit);
		fprintf(out, ".\nTakes ");
		roff(out, accepts);
		fprintf(out, "; default: ");
		roff(out, standard_of(row));
		fprintf(out, ".\n");
	}
}

#define COLUMNS 96 /* of plain text */
#define UNDER   28 /* where the meaning of a field begins */

/* The text in lines of at most COLUMNS, each of which begins under column `indent`; the first
 * already does. */
static void wrapped(FILE *out, const char *text, size_t indent)
{
	const size_t room = COLUMNS - indent;

	while (strlen(text) > room) {
		size_t n = room;

		while (n && text[n] != ' ')
			n--;
		if (!n)
			n = strcspn(text, " ");
		if (!text[n])
			break;
		fprintf(out, "%.*s\n%*s", (int)n, text, (int)indent, "");
		text += n + 1;
	}
	fprintf(out, "%s\n", text);
}

static void plain_group(FILE *out, const struct tw_group *g)
{
	char accepts[400], text[1000];

	if (g->variant)
		fprintf(out, "\n  with %s: %s\n", g->chooser, g->variant);
	for (const struct tw_option *row = g->rows; row->name; row++) {
		const int n = fprintf(out, "  %s%s", g->prefix, row->name);

		tw_field_accepts(row, accepts, sizeof accepts);
		if (n > UNDER - 2)
			fprintf(out, "\n%*s", UNDER, "");
		else
			fprintf(out, "%*s", UNDER - n, "");
		snprintf(text, sizeof text, "%s%s%s%s", row->help ? row->help : "",
			 row->unit ? " (" : "", row->unit ? row->unit : "", row->unit ? ")" : "");
		wrapped(out, text, UNDER);
		snprintf(text, sizeof text, "takes %s; default: %s", accepts, standard_of(row));
		fprintf(out, "%*s", UNDER, "");
		wrapped(out, text, UNDER);
	}
}

static const char faults_help[] =
	"sim.faults is a list of what goes wrong: {crash: worker 3, at: 5s, restart: 2s}; {crash: "
	"worker 0, event: 1234}; {partition: worker 2, from: everybody, at: 3s, lasts: 20s}; "
	"{reset: worker 1, to: server 0, at: 2s}; {slow: worker 4, factor: 8, at: 1s, lasts: 10s}; "
	"{leave: worker 3, at: 5s}. Nodes are master, server K and worker K, counted from 0. "
	"Without restart a crashed node does not come back. A worker that leaves is not lost: it "
	"pushes its last contribution, tells the master and stops.";

static const char nodes_help[] =
	"sim.nodes is a list of machines where they are not all alike: [{speed: 1, memory: 8GiB, "
	"bandwidth: 10Gbit/s, latency: 100us, group: a, count: 2}, {speed: 0.5}]. There is one for "
	"each node that computes, worker after worker and, where a model is cut, stage after stage "
	"and lane after lane. What an entry leaves out is speed 1, any memory, sim.bandwidth, "
	"sim.latency and no group. Machines of a group share one link to all others "
	"(sim.groups.bandwidth, sim.groups.latency). The master and servers have sim.bandwidth and "
	"sim.latency.";

/* A paragraph below the rows of a section. */
static void paragraph(FILE *out, const char *text, enum tw_reference_format format)
{
	if (format == TW_REFERENCE_MARKDOWN) {
		fprintf(out, "\n%s\n", text);
	} else if (format == TW_REFERENCE_PLAIN) {
		fprintf(out, "\n  ");
		wrapped(out, text, 2);
	} else {
		fprintf(out, ".PP\n");
		roff(out, text);
		fprintf(out, "\n");
	}
}

static void reference_section(FILE *out, const struct tw_section *s,
			      enum tw_reference_format format)
{
	static void (*const groups[])(FILE * out, const struct tw_group *g) = {
		[TW_REFERENCE_PLAIN] = plain_group,
		[TW_REFERENCE_MARKDOWN] = markdown_group,
		[TW_REFERENCE_ROFF] = roff_group,
	};
	struct tw_group g;

	if (format == TW_REFERENCE_MARKDOWN) {
		fprintf(out, "\n## %s\n\n%s\n", s->name, s->help);
	} else if (format == TW_REFERENCE_PLAIN) {
		fprintf(out, "\n%s:\n  ", s->name);
		wrapped(out, s->help, 2);
		fputc('\n', out);
	} else {
		fprintf(out, ".SS %s\n", s->name);
		roff(out, s->help);
		fprintf(out, "\n");
	}
	for (size_t k = 0; tw_group_at(k, &g); k++)
		if (of_section(&g, s->name) && g.rows->name)
			groups[format](out, &g);
	if (strcmp(s->name, "sim") != 0)
		return;
	paragraph(out, nodes_help, format);
	paragraph(out, faults_help, format);
}

struct line {
	const char *name, *help, *more;
};

static void markdown_line(FILE *out, const struct line *l)
{
	fprintf(out, "| `%s` | ", l->name);
	cell(out, l->help);
	if (l->more) {
		fprintf(out, " | ");
		cell(out, l->more);
	}
	fprintf(out, " |\n");
}

static void roff_line(FILE *out, const struct line *l)
{
	fprintf(out, ".TP\n.B ");
	roff(out, l->name);
	fprintf(out, "\n");
	roff(out, l->help);
	if (l->more) {
		fprintf(out, " (");
		roff(out, l->more);
		fprintf(out, ")");
	}
	fprintf(out, "\n");
}

/* For lists: one line each, which scripts can take apart. */
static void plain_line(FILE *out, const struct line *l)
{
	if (strlen(l->name) > 16)
		fprintf(out, "  %s\n  %-16s  %s", l->name, "", l->help);
	else
		fprintf(out, "  %-16s  %s", l->name, l->help);
	if (l->more)
		fprintf(out, " (%s)", l->more);
	fprintf(out, "\n");
}

/* For the reference: as wide as the rest of it. */
static void wrapped_line(FILE *out, const struct line *l)
{
	char text[1200];

	if (strlen(l->name) > 16)
		fprintf(out, "  %s\n  %-16s  ", l->name, "");
	else
		fprintf(out, "  %-16s  ", l->name);
	snprintf(text, sizeof text, "%s%s%s%s", l->help, l->more ? " (" : "",
		 l->more ? l->more : "", l->more ? ")" : "");
	wrapped(out, text, 20);
}

typedef void (*printer)(FILE *out, const struct line *l);

static bool is_plain(printer print)
{
	return print == plain_line || print == wrapped_line;
}

/* The head of a table, before its lines; `more`: of the third column, if there is one. */
static void heading(FILE *out, printer print, const char *title, const char *field,
		    const char *more)
{
	if (print == markdown_line)
		fprintf(out,
			"\n## %s\n\nNames for `%s`.\n\n| name | meaning |%s%s%s\n| --- | --- |%s\n",
			title, field, more ? " " : "", more ? more : "", more ? " |" : "",
			more ? " --- |" : "");
	else if (print == roff_line)
		fprintf(out, ".SS %s (%s)\n", title, field);
	else
		fprintf(out, "%s (%s)\n", title, field);
}

static void print_names(FILE *out, printer print, const struct tw_registry *g)
{
	char more[80];

	fprintf(out, "%s", is_plain(print) ? "\n" : "");
	heading(out, print, g->title, g->fields ? g->fields : g->field, g->more);
	for (const struct tw_variant *const *v = g->heads; *v; v++)
		print(out, &(struct line){ (*v)->name, (*v)->help,
					   g->more ? g->tell(*v, more, sizeof more) : NULL });
}

static void print_tables(FILE *out, printer print)
{
	if (!is_plain(print))
		heading(out, print, "Presets", "strategy", "from");
	for (const struct tw_preset *p = tw_presets; p->name; p++) {
		if (p->family && is_plain(print))
			fprintf(out, "%sPresets: %s (strategy)\n", p == tw_presets ? "" : "\n",
				p->family);
		print(out, &(struct line){ p->name, p->help, p->paper });
	}
	for (enum tw_list list = TW_LIST_FIRST; list <= TW_LIST_LAST; list++)
		for (const struct tw_registry *g = tw_registries; g->field; g++)
			if (g->title && g->list == list)
				print_names(out, print, g);
}

void tw_job_codecs(FILE *out)
{
	fprintf(out, "Codecs (strategy.codec.up: gradients and deltas; strategy.codec.down: "
		     "parameters;\nstrategy.codec.act: activations between stages)\n");
	for (size_t k = 0; tw_codec_all[k]; k++) {
		const struct tw_codec *c = tw_codec_all[k];

		fprintf(out, "\n  %-16s  %s\n  %-16s  %s%s\n", c->name, c->help, "",
			c->traits & TW_CODEC_DOWN ? "up, down and act" : "up",
			c->traits & TW_CODEC_REMEMBERS
				? "; keeps what it leaves out (a residual) and sends it later"
				: "");
		for (const struct tw_option *row = c->options; row && row->name; row++)
			fprintf(out, "  %-16s  up_%s (default %s): %s\n", "", row->name,
				row->standard, row->help);
	}
	fprintf(out,
		"\nFor example: strategy: {name: asgd, codec: {up: %s}}.  The options of "
		"codec.down begin with\ndown_ instead of up_, those of codec.act with act_.  "
		"docs/STRATEGIES.md says what to\nexpect of each codec.\n",
		tw_codec_all[0]->name);
}

/* "conv filters size [stride 1] ...": how a layer is written. */
static const char *layer_text(const struct tw_op *op, char *text, size_t room)
{
	size_t n = (size_t)snprintf(text, room, "%s", op->name);
	uint32_t k = 0;

	for (const struct tw_option *row = op->options; row && row->name && n < room; row++, k++)
		if (k < op->positional && !row->standard)
			n += (size_t)snprintf(text + n, room - n, " <%s>", row->name);
		else if (k < op->positional)
			n += (size_t)snprintf(text + n, room - n, " [%s: %s]", row->name,
					      row->standard);
		else
			n += (size_t)snprintf(text + n, room - n, " [%s %s]", row->name,
					      row->standard);
	return text;
}

static void print_ops(FILE *out, printer print, bool losses)
{
	char text[300];

	for (size_t k = 0; tw_op_at(k); k++) {
		const struct tw_op *op = tw_op_at(k);

		if (losses != !!(op->traits & TW_OP_LOSS) || (!losses && op->ins != 1))
			continue;
		print(out, &(struct line){ layer_text(op, text, sizeof text), op->help, NULL });
	}
}

static void print_networks(FILE *out, printer print)
{
	size_t n = 0;

	heading(out, print, "Layers", "model.layers", NULL);
	print_ops(out, print, false);
	print(out, &(struct line){ "residual: [...]",
				   "adds the output of its layers to its input or, with shortcut: "
				   "[...], to the output of the shortcut's layers",
				   NULL });
	fprintf(out, "%s", is_plain(print) ? "\n" : "");
	heading(out, print, "Losses", "loss", NULL);
	print_ops(out, print, true);
	while (tw_registries[n].field)
		n++;
	while (n--)
		if (tw_registries[n].title && tw_registries[n].list == TW_LIST_NETWORKS)
			print_names(out, print, &tw_registries[n]);
}

static void print_result(FILE *out, printer print)
{
	if (print == markdown_line)
		fprintf(out, "\n## Result\n\n`train`, `sim`, `serve` and `join` print these fields "
			     "with `--json`. A run directory keeps them in `result.json`.\n\n| "
			     "field | meaning |\n| --- | --- |\n");
	else if (print == roff_line)
		fprintf(out, ".SS Result (\\-\\-json)\n");
	else
		fprintf(out, "Result (--json, and result.json in a run directory)\n");
	for (const struct tw_figure *f = tw_result_figures; f->name; f++)
		if (f->help)
			print(out, &(struct line){ f->result, f->help, NULL });
}

void tw_job_layers(FILE *out)
{
	print_networks(out, plain_line);
}

void tw_job_strategies(FILE *out)
{
	print_tables(out, plain_line);
}

static const char outside_help[] =
	"Every field can also be given as --set path=value or as an environment variable: THALWEG_ "
	"and the path in capitals with _ for . and -. A flag overrides the environment, the "
	"environment overrides the file, the file overrides a preset, and a preset overrides the "
	"default.";

void tw_job_reference(FILE *out, enum tw_reference_format format)
{
	static const printer printers[] = {
		[TW_REFERENCE_PLAIN] = wrapped_line,
		[TW_REFERENCE_MARKDOWN] = markdown_line,
		[TW_REFERENCE_ROFF] = roff_line,
	};
	const char *gap = format == TW_REFERENCE_PLAIN ? "\n" : "";

	if (format == TW_REFERENCE_MARKDOWN)
		fprintf(out, "# Reference of the job file\n\nGenerated from the option tables of "
			     "the program; do not edit. Every field can also be given as `--set "
			     "path=value` or as an environment variable: `THALWEG_` and the path "
			     "in capitals with `_` for `.` and `-`. A flag overrides the "
			     "environment, the environment overrides the file, the file overrides "
			     "a preset, and a preset overrides the default.\n");
	if (format == TW_REFERENCE_PLAIN)
		wrapped(out, outside_help, 0);
	for (const struct tw_section *s = tw_sections; s->name; s++)
		reference_section(out, s, format);
	fprintf(out, "%s", gap);
	print_networks(out, printers[format]);
	fprintf(out, "%s", gap);
	print_tables(out, printers[format]);
	fprintf(out, "%s", gap);
	print_result(out, printers[format]);
}
