/* SPDX-License-Identifier: Apache-2.0 */
/* help.c - everything that is said about the verbs, from their tables. */
#include "cli/help.h"

#include "cli/args.h"
#include "spec/job.h"

#include <string.h>

#define COLUMNS 100 /* of a page of documents */

static const char exits[] = "0 done; 1 failed at run time; 2 the request was wrong; 75 "
			    "interrupted after a clean checkpoint, run the same command again "
			    "to resume; 128+n on signal n.";

static const struct {
	const char *name, *help;
} variables[] = {
	{ "THALWEG_ISA",
	  "use at most this instruction set: plain, avx2 or avx512; --isa overrides it" },
	{ "THALWEG_KEY_FILE", "file with the cluster's key; --key overrides it" },
	{ "THALWEG_KEY", "the cluster's key itself" },
	{ "THALWEG_TRAIN_SEED=7", "the field train.seed of a job; other fields have their path in "
				  "capitals, too" },
};

/* "--run DIR" or "-q, --quiet" into out. */
static void spelled(const struct tw_flag *f, char *out, size_t room)
{
	const size_t n = f->letter ? (size_t)snprintf(out, room, "-%c, ", f->letter) : 0;

	if (!f->letter)
		out[0] = 0;
	snprintf(out + n, room - n, "--%s%s%s", f->option.name, f->value ? " " : "",
		 f->value ? f->value : "");
}

static void flags_plain(FILE *out, const struct tw_flag *rows)
{
	char text[80];

	for (; rows && rows->option.name; rows++) {
		spelled(rows, text, sizeof text);
		fprintf(out, "  %-20s  %s\n", text, rows->option.help);
	}
}

static int wider(int width, const char *text)
{
	return (int)strlen(text) > width ? (int)strlen(text) : width;
}

void tw_help_overview(FILE *out)
{
	int name = 0, words = 0;

	for (size_t i = 0; tw_verb_all[i]; i++) {
		name = wider(name, tw_verb_all[i]->name);
		words = wider(words, tw_verb_all[i]->words);
	}
	fprintf(out, "thalweg " TW_VERSION
		     " - train one model on many machines, by every method worth naming\n\n"
		     "usage: thalweg VERB [WORDS] [FLAGS]\n\n");
	for (size_t i = 0; tw_verb_all[i]; i++)
		fprintf(out, "  %-*s %-*s  %s\n", name, tw_verb_all[i]->name, words,
			tw_verb_all[i]->words, tw_verb_all[i]->help);
	fprintf(out, "\nflags of every verb:\n");
	flags_plain(out, tw_common_flags);
	fprintf(out, "\nenvironment variables:\n");
	for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
		fprintf(out, "  %-20s  %s\n", variables[i].name, variables[i].help);
	fprintf(out, "\nExit codes: %s\n", exits);
	fprintf(out, "Start with: thalweg sim examples/asgd.yaml\n");
}

void tw_help_verb(FILE *out, const struct tw_verb *v)
{
	fprintf(out, "usage: thalweg %s%s%s%s\n\n%s\n", v->name, *v->words ? " " : "", v->words,
		v->flags ? " [FLAGS]" : "", v->about);
	if (v->flags) {
		fprintf(out, "flags:\n");
		flags_plain(out, v->flags);
		fputc('\n', out);
	}
	fprintf(out, "flags of every verb:\n");
	flags_plain(out, tw_common_flags);
	fprintf(out, "\nexamples:\n");
	for (const struct tw_example *e = v->example; e->command; e++)
		fprintf(out, "  %s\n      %s\n", e->command, e->what);
}

/* --- markdown --- */

static void flags_markdown(FILE *out, const struct tw_flag *rows)
{
	char text[80], accepts[200];

	fprintf(out, "| flag | accepts | what it does |\n| --- | --- | --- |\n");
	for (; rows && rows->option.name; rows++) {
		spelled(rows, text, sizeof text);
		if (rows->option.type == TW_BOOL)
			strcpy(accepts, "");
		else
			tw_option_accepts(&rows->option, accepts, sizeof accepts);
		fprintf(out, "| `%s` | %s | %s |\n", text, accepts, rows->option.help);
	}
	fputc('\n', out);
}

/* A row; a pipe in a command does not end its column. */
static void example_markdown(FILE *out, const struct tw_example *e)
{
	fputs("| `", out);
	for (const char *c = e->command; *c; c++)
		fprintf(out, "%s%c", *c == '|' ? "\\" : "", *c);
	fprintf(out, "` | %s |\n", e->what);
}

void tw_help_markdown(FILE *out)
{
	fprintf(out, "# Command line\n\nExit codes: %s\n\nFlags of every verb:\n\n", exits);
	flags_markdown(out, tw_common_flags);
	fprintf(out, "Environment variables:\n\n| variable | what it does |\n| --- | --- |\n");
	for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
		fprintf(out, "| `%s` | %s |\n", variables[i].name, variables[i].help);
	fputc('\n', out);
	for (size_t i = 0; tw_verb_all[i]; i++) {
		const struct tw_verb *v = tw_verb_all[i];

		fprintf(out, "## thalweg %s%s%s\n\n%s\n", v->name, *v->words ? " " : "", v->words,
			v->about);
		if (v->flags)
			flags_markdown(out, v->flags);
		fputs("| example | what it is |\n| --- | --- |\n", out);
		for (const struct tw_example *e = v->example; e->command; e++)
			example_markdown(out, e);
		fputc('\n', out);
	}
}

/* Where a line of at most `most` bytes ends: at a space that is not inside `code`; 0: nowhere. */
static size_t line_end(const char *text, size_t most)
{
	size_t end = 0;
	bool code = false;

	for (size_t k = 0; text[k] && text[k] != '\n' && (k <= most || !end); k++) {
		code = code != (text[k] == '`');
		if (text[k] == ' ' && !code && k > 2)
			end = k;
	}
	return end;
}

void tw_help_wrapped(FILE *out, const char *text)
{
	while (*text) {
		const bool item = strncmp(text, "- ", 2) == 0, row = *text == '|';
		size_t room = COLUMNS, left = strcspn(text, "\n"), end;

		while (!row && left > room && (end = line_end(text, room))) {
			fprintf(out, "%.*s\n%s", (int)end, text, item ? "  " : "");
			text += end + 1;
			left -= end + 1;
			room = COLUMNS - (item ? 2 : 0);
		}
		fprintf(out, "%.*s", (int)left, text);
		text += left;
		if (*text)
			fputc(*text++, out);
	}
}

/* --- roff --- */

/* Text for roff: dashes and backslashes escaped, no line that begins with a control character. */
static void roff(FILE *out, const char *text)
{
	bool fresh = true;

	for (; *text; text++) {
		if (fresh && (*text == '.' || *text == '\''))
			fputs("\\&", out);
		if (*text == '-')
			fputs("\\-", out);
		else if (*text == '\\')
			fputs("\\e", out);
		else
			fputc(*text, out);
		fresh = *text == '\n';
	}
}

static void flags_roff(FILE *out, const struct tw_flag *rows)
{
	char text[80];

	for (; rows && rows->option.name; rows++) {
		spelled(rows, text, sizeof text);
		fprintf(out, ".TP\n.B ");
		roff(out, text);
		fputc('\n', out);
		roff(out, rows->option.help);
		fputc('\n', out);
	}
}

static void verb_roff(FILE *out, const struct tw_verb *v)
{
	fprintf(out, ".SS thalweg %s %s\n", v->name, v->words);
	roff(out, v->about);
	flags_roff(out, v->flags);
	for (const struct tw_example *e = v->example; e->command; e++) {
		fprintf(out, ".PP\n");
		roff(out, e->what);
		fprintf(out, ":\n.PP\n.RS\n.EX\n");
		roff(out, e->command);
		fprintf(out, "\n.EE\n.RE\n");
	}
}

void tw_help_man(FILE *out)
{
	fprintf(out,
		".TH THALWEG 1 \"\" \"thalweg " TW_VERSION "\" \"User Commands\"\n"
		".SH NAME\n"
		"thalweg \\- train one model on many machines\n"
		".SH SYNOPSIS\n"
		".B thalweg\n"
		".I VERB\n"
		"[words] [flags]\n"
		".SH DESCRIPTION\n"
		"Thalweg trains one model on many workers, in threads or processes of this "
		"machine, on a cluster, or in a deterministic simulator of a cluster, with the "
		"strategy that a job file names.\n"
		".SH OPTIONS\n");
	flags_roff(out, tw_common_flags);
	fprintf(out, ".SH VERBS\n");
	for (size_t i = 0; tw_verb_all[i]; i++)
		verb_roff(out, tw_verb_all[i]);
	fprintf(out, ".SH JOB FILES\n");
	tw_job_reference(out, TW_REFERENCE_ROFF);
	fprintf(out, ".SH EXIT STATUS\n");
	roff(out, exits);
	fprintf(out, "\n.SH ENVIRONMENT\n");
	for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
		fprintf(out, ".TP\n.B ");
		roff(out, variables[i].name);
		fputc('\n', out);
		roff(out, variables[i].help);
		fputc('\n', out);
	}
}
