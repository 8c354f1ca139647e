/* SPDX-License-Identifier: Apache-2.0 */
/* compare.c - thalweg compare JOB...: methods side by side, and a report. */
#include "cli/run_job.h"

#include "cli/signals.h"
#include "cli/summary.h"
#include "cli/terminal.h"
#include "compare/compare.h"
#include "compare/report.h"
#include "run/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct compare_flags {
	struct tw_texts set, vary, tune;
	const char *run, *isa, *measure;
	uint32_t seeds, folds, jobs, world;
	bool json, explain;
};

static void show(void *arg, const struct tw_cells_progress *p)
{
	char text[200], left[40] = "";

	if (p->left >= 0)
		snprintf(left, sizeof left, p->left < 100 ? ", %.0f s left" : ", %.1f min left",
			 p->left < 100 ? p->left : p->left / 60);
	snprintf(text, sizeof text, "run %zu of %zu%s: %.60s%s", p->done, p->all, left,
		 p->label ? p->label : "", p->diverged ? " (some diverged)" : "");
	tw_terminal_line(arg, text);
}

/* Flags that are fields of the section compare. */
static enum tw_status options(const struct compare_flags *f, const char ***set, size_t *n,
			      struct tw_error *why)
{
	const char **list = malloc((f->set.count + 3) * sizeof *list);
	static char seeds[60], folds[60], measure[80];

	if (!list)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the comparison");
	*n = f->set.count;
	if (*n)
		memcpy(list, f->set.at, *n * sizeof *list);
	if (f->seeds) {
		snprintf(seeds, sizeof seeds, "compare.seeds=%u", f->seeds);
		list[(*n)++] = seeds;
	}
	if (f->folds) {
		snprintf(folds, sizeof folds, "compare.folds=%u", f->folds);
		list[(*n)++] = folds;
	}
	if (*f->measure) {
		snprintf(measure, sizeof measure, "compare.measure=%.60s", f->measure);
		list[(*n)++] = measure;
	}
	*set = list;
	return TW_OK;
}

/* The children read jobs that have everything in them: nothing may be put over these. */
static void clear_environment(void)
{
	static const char prefix[] = "THALWEG_";
	size_t k = 0;

	while (environ[k]) {
		char name[300];
		const size_t n = strcspn(environ[k], "=");

		if (strncmp(environ[k], prefix, sizeof prefix - 1) != 0 || n >= sizeof name ||
		    tw_variable_of_program(environ[k])) {
			k++;
			continue;
		}
		snprintf(name, sizeof name, "%.*s", (int)n, environ[k]);
		unsetenv(name);
	}
}

static bool grows(const struct tw_comparison *c)
{
	for (size_t k = 0; k < c->tunes; k++)
		if (!c->tune[k].narrow)
			return true;
	return false;
}

/* What would run. */
static void explain(const struct tw_comparison *c)
{
	for (size_t k = 0; k < c->rows; k++)
		printf("%s%s\n", c->row[k].label,
		       c->row[k].baseline ? "  (added for comparison)" : "");
	printf("\n%zu rows with %u %s: %zu runs", c->rows, c->options.seeds,
	       c->options.folds ? "folds" : "seeds", c->rows * c->options.seeds);
	if (tw_comparison_tunes(c))
		printf(", and %zu to choose among %zu values for each%s",
		       c->rows * c->combinations * c->options.tune_seeds, c->combinations,
		       grows(c) ? " (more where the best one is the first or the last of its grid)"
				: "");
	printf("; ranked by %s\n", tw_compare_measures[c->measure]);
}

static enum tw_status work(const struct tw_call *call, const char *dir, const char *const *set,
			   size_t sets, size_t *failed, struct tw_error *why)
{
	const struct compare_flags *f = call->flags;
	const struct tw_compare_request request = {
		.job = call->word,
		.jobs = call->words,
		.set = set,
		.sets = sets,
		.vary = f->vary.at,
		.varies = f->vary.count,
		.tune = f->tune.at,
		.tunes = f->tune.count,
		.environ_ = (const char *const *)environ,
		.world = (enum tw_compare_world)f->world,
		.log = call->log,
	};
	struct tw_comparison *c = NULL;
	json_t *report = NULL;
	enum tw_status st = tw_comparison_read(&request, &c, why);

	if (st != TW_OK)
		return st;
	if (f->explain) {
		explain(c);
		tw_comparison_free(c);
		return TW_OK;
	}
	clear_environment();
	st = tw_compare_run(c,
			    &(struct tw_cells_how){
				    .dir = dir,
				    .jobs = f->jobs ? f->jobs : tw_compare_jobs(c),
				    .interrupted = tw_signals_count_all(),
				    .log = call->log,
				    .show = call->quiet ? NULL : show,
				    .show_arg = call->terminal,
			    },
			    &report, failed, why);
	tw_terminal_clear(call->terminal);
	if (st == TW_OK && f->json)
		tw_print_json(report);
	else if (st == TW_OK) {
		tw_report_table(report, stdout);
		printf("\nreport  %s/report.html (report.json, report.csv and curves.csv beside "
		       "it)\n",
		       dir);
	}
	json_decref(report);
	tw_comparison_free(c);
	return st;
}

static int compare(const struct tw_call *call)
{
	const struct compare_flags *f = call->flags;
	struct tw_error why = { .status = TW_OK };
	const char **set = NULL;
	char standard[4096], dir[4200];
	size_t sets = 0, failed = 0;
	enum tw_status st = *f->isa ? tw_run_isa(f->isa, &why) : TW_OK;

	tw_work_dir(call->word[0], standard, sizeof standard);
	snprintf(dir, sizeof dir, "%s-compare", standard);
	if (st == TW_OK)
		st = options(f, &set, &sets, &why);
	if (st == TW_OK)
		st = work(call, *f->run ? f->run : dir, set, sets, &failed, &why);
	free(set);
	if (st == TW_OK && failed)
		st = tw_fail(&why, TW_REFUSED, "%zu runs failed; the notes of the report say why",
			     failed);
	return st == TW_OK ? TW_EXIT_DONE : tw_exit_for(call, &why);
}

#define F struct compare_flags
static const struct tw_flag flags[] = {
	TW_FLAG_MANY(F, vary, "vary", "PATH=A,B,...",
		     "compare these values of a field: strategy=ssgd,asgd; two fields make a grid"),
	TW_FLAG(F, seeds, "seeds", TW_U32, "0", "N", 0, 1000,
		"runs of every method; 0: compare.seeds of the job, which is 3 by default"),
	TW_FLAG(F, folds, "folds", TW_U32, "0", "N", 0, 1000,
		"cross-validation: a run for each of N folds of the data, scored on that fold, in "
		"the place of seeds"),
	TW_FLAG_MANY(F, tune, "tune", "PATH=A,B,...",
		     "choose the best of these values for each method, on a validation set: "
		     "update.rate=0.01,0.03,0.1; update.rate=grid begins a grid by itself"),
	TW_FLAG(F, measure, "measure", TW_TEXT, "", "NAME", 0, 0,
		"what methods are ranked by: accuracy, loss, accuracy-at-time, loss-at-time, "
		"time-to-target, samples-per-second, bytes or effort (default: by the job)"),
	{ .option = TW_OPTION_CHOICE(F, world, "world", "sim", tw_compare_worlds,
				     "where runs take place: in the simulator, in threads, or in "
				     "processes on this machine"),
	  .value = "WORLD" },
	TW_FLAG(F, jobs, "jobs", TW_U32, "0", "N", 0, 1024,
		"runs at a time; 0: as many as cores in sim, else 1"),
	TW_FLAG(F, run, "run", TW_TEXT, "", "DIR", 0, 0,
		"directory of runs and report (default: runs/, the first job file's name, "
		"-compare)"),
	TW_FLAG_MANY(F, set, "set", "PATH=VALUE",
		     "override a field of all jobs: update.rate=0.05; may be repeated"),
	TW_SWITCH(F, json, "json", "print the report as one JSON object instead of a table"),
	TW_SWITCH(F, explain, "explain", "check everything, print what would run, and exit"),
	TW_FLAG(F, isa, "isa", TW_TEXT, "", "NAME", 0, 0,
		"use at most this instruction set: plain, avx2 or avx512"),
	TW_FLAG_END,
};

static const struct tw_example examples[] = {
	{ "thalweg compare examples/compare-quick.yaml",
	  "a comparison that is written in a job file" },
	{ "thalweg compare examples/asgd.yaml --vary strategy=ssgd,asgd,ssp --seeds 5",
	  "three methods on the same data, cluster and seeds" },
	{ "thalweg compare examples/asgd.yaml --vary strategy=ssgd,asgd "
	  "--vary cluster.workers=4,16 --tune update.rate=0.02,0.05,0.1",
	  "a grid; the rate is chosen for every cell of it" },
	{ "thalweg compare table.yaml --folds 5", "how good a model of a table is: five folds" },
	{ "thalweg compare examples/ssgd.yaml examples/asgd.yaml --world threads",
	  "two jobs in threads on this machine" },
	{ 0 },
};

const struct tw_verb tw_verb_compare = {
	.name = "compare",
	.words = "JOB...",
	.help = "run methods side by side: which is best, by how much, and is that resolved",
	.about =
		"Runs several jobs, or variants of one, each with several seeds, and compares "
		"them:\nscores, speed, bytes, staleness.  Seeds are paired, so that a difference "
		"comes with\na 95 % interval.  The directory gets report.html, which opens in any "
		"browser, and\nreport.json, report.csv and curves.csv.  Run the same command again "
		"to resume:\nfinished runs are not repeated.  docs/COMPARE.md explains the "
		"figures.\n",
	.example = examples,
	.flags = flags,
	.flags_bytes = sizeof(struct compare_flags),
	.least = 1,
	.most = 64,
	.works = true,
	.run = compare,
};
