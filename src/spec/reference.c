/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c - what can be written in a job file, printed from the rows and tables. */
#include "spec/field.h"
#include "spec/result_fields.h"
#include "strategy/outer.h"

#include <string.h>

static bool of_section(const struct tw_group *g, const char *section)
{
	const size_t n = strlen(section);

	if (!*g->prefix)
		return strcmp(g->rows->name, section) == 0;
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

static const char faults_help[] =
	"sim.faults is a list of what goes wrong: {crash: worker 3, at: 5s, restart: 2s}; {crash: "
	"worker 0, event: 1234}; {partition: worker 2, from: everybody, at: 3s, lasts: 20s}; "
	"{reset: worker 1, to: server 0, at: 2s}; {slow: worker 4, factor: 8, at: 1s, lasts: 10s}; "
	"{leave: worker 3, at: 5s}. Nodes are master, server K and worker K, counted from 0. "
	"Without restart a crashed node does not come back. A worker that leaves is not lost: it "
	"pushes its last contribution, tells the master and stops.";

static void reference_section(FILE *out, const struct tw_section *s,
			      enum tw_reference_format format)
{
	const bool md = format == TW_REFERENCE_MARKDOWN;
	struct tw_group g;

	if (md) {
		fprintf(out, "\n## %s\n\n%s\n", s->name, s->help);
	} else {
		fprintf(out, ".SS %s\n", s->name);
		roff(out, s->help);
		fprintf(out, "\n");
	}
	for (size_t k = 0; tw_group_at(k, &g); k++)
		if (of_section(&g, s->name) && g.rows->name)
			md ? markdown_group(out, &g) : roff_group(out, &g);
	if (strcmp(s->name, "sim") != 0)
		return;
	if (md) {
		fprintf(out, "\n%s\n", faults_help);
	} else {
		fprintf(out, ".PP\n");
		roff(out, faults_help);
		fprintf(out, "\n");
	}
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

typedef void (*printer)(FILE *out, const struct line *l);

/* The head of a table, before its lines. */
static void heading(FILE *out, printer print, const char *title, const char *field, bool more)
{
	if (print == markdown_line)
		fprintf(out,
			"\n## %s\n\nNames for `%s`.\n\n| name | meaning |%s\n| --- | --- |%s\n",
			title, field, more ? " from |" : "", more ? " --- |" : "");
	else if (print == roff_line)
		fprintf(out, ".SS %s (%s)\n", title, field);
	else
		fprintf(out, "%s (%s)\n", title, field);
}

#define LINES(all)                                                                                 \
	for (size_t k = 0; (all)[k]; k++)                                                          \
	print(out, &(struct line){ (all)[k]->name, (all)[k]->help, NULL })

static void print_tables(FILE *out, printer print)
{
	const char *gap = print == plain_line ? "\n" : "";

	if (print != plain_line)
		heading(out, print, "Presets", "strategy", true);
	for (const struct tw_preset *p = tw_presets; p->name; p++) {
		if (p->family && print == plain_line)
			fprintf(out, "%sPresets: %s (strategy)\n", p == tw_presets ? "" : "\n",
				p->family);
		print(out, &(struct line){ p->name, p->help, p->paper });
	}
	fprintf(out, "%s", gap);
	heading(out, print, "Gates", "strategy.gate", false);
	LINES(tw_gate_all);
	fprintf(out, "%s", gap);
	heading(out, print, "Staleness policies", "strategy.staleness", false);
	LINES(tw_staleness_all);
	fprintf(out, "%s", gap);
	heading(out, print, "Rules", "update.rule", false);
	LINES(tw_rule_all);
	fprintf(out, "%s", gap);
	heading(out, print, "Outer rules", "strategy.outer.rule", false);
	LINES(tw_outer_all);
	fprintf(out, "%s", gap);
	heading(out, print, "Codecs", "strategy.codec.up, strategy.codec.down, strategy.codec.act",
		false);
	LINES(tw_codec_all);
	fprintf(out, "%s", gap);
	heading(out, print, "Reductions", "strategy.topology.schedule", false);
	LINES(tw_reduction_all);
	fprintf(out, "%s", gap);
	heading(out, print, "Mixings", "strategy.topology.mixing", false);
	LINES(tw_mixing_all);
	fprintf(out, "%s", gap);
	heading(out, print, "Pipelines", "strategy.pipeline.schedule", false);
	LINES(tw_pipeline_all);
	fprintf(out, "%s", gap);
	heading(out, print, "Optimisers", "optimiser.name", false);
	LINES(tw_optimiser_all);
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
	const char *gap = print == plain_line ? "\n" : "";

	heading(out, print, "Layers", "model.layers", false);
	print_ops(out, print, false);
	print(out, &(struct line){ "residual: [...]",
				   "adds the output of its layers to its input or, with shortcut: "
				   "[...], to the output of the shortcut's layers",
				   NULL });
	fprintf(out, "%s", gap);
	heading(out, print, "Losses", "loss", false);
	print_ops(out, print, true);
	fprintf(out, "%s", gap);
	heading(out, print, "Networks", "model", false);
	LINES(tw_zoo_all);
	fprintf(out, "%s", gap);
	heading(out, print, "Data sources", "data.source", false);
	LINES(tw_source_all);
}

static void print_result(FILE *out, printer print)
{
	if (print == markdown_line)
		fprintf(out, "\n## Result\n\n`train`, `sim`, `serve` and `join` print these fields "
			     "with `--json`. A run directory keeps them in `result.json`.\n\n| "
			     "field | meaning |\n| --- | --- |\n");
	else
		fprintf(out, ".SS Result (\\-\\-json)\n");
	for (const struct tw_result_field *f = tw_result_fields; f->name; f++)
		print(out, &(struct line){ f->name, f->help, NULL });
}

void tw_job_layers(FILE *out)
{
	print_networks(out, plain_line);
}

void tw_job_strategies(FILE *out)
{
	print_tables(out, plain_line);
}

void tw_job_reference(FILE *out, enum tw_reference_format format)
{
	if (format == TW_REFERENCE_MARKDOWN)
		fprintf(out, "# Reference of the job file\n\nGenerated from the option tables of "
			     "the program; do not edit. Every field can also be given as `--set "
			     "path=value` or as an environment variable: `THALWEG_` and the path "
			     "in capitals with `_` for `.` and `-`. A flag overrides the "
			     "environment, the environment overrides the file, the file overrides "
			     "a preset, and a preset overrides the default.\n");
	for (const struct tw_section *s = tw_sections; s->name; s++)
		reference_section(out, s, format);
	print_networks(out, format == TW_REFERENCE_MARKDOWN ? markdown_line : roff_line);
	print_tables(out, format == TW_REFERENCE_MARKDOWN ? markdown_line : roff_line);
	print_result(out, format == TW_REFERENCE_MARKDOWN ? markdown_line : roff_line);
}
