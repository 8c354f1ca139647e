/* SPDX-License-Identifier: Apache-2.0 */
/* test_help.c - what the command line says about itself, and how it refuses what makes no sense. */
#include "cli/args.h"
#include "cli/spawn.h"
#include "cli/verb_hints.h"
#include "kit/quoted.h"
#include "spec/help/hint.h"
#include "spec/help/synonyms.h"
#include "strategy/codec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void every_verb_has_help_with_an_example(void **state)
{
	for (size_t i = 0; tw_verb_all[i]; i++) {
		const struct tw_verb *v = tw_verb_all[i];
		const struct said *s = thalweg(NULL, "%s --help", v->name);

		assert_int_equal(s->code, 0);
		assert_string_equal(s->err, "");
		has(s->out, v->about);
		assert_non_null(v->example->command);
		has(s->out, v->example->command);
		has(v->example->command, v->name);
		for (const struct tw_flag *f = v->flags; f && f->option.name; f++) {
			char flag[60];

			snprintf(flag, sizeof flag, "--%s", f->option.name);
			has(s->out, flag);
			assert_true(f->option.type == TW_BOOL || f->value != NULL);
		}
		s = thalweg(NULL, "help %s", v->name);
		assert_int_equal(s->code, 0);
		has(s->out, v->about);
	}
}

static void the_overview_has_every_verb(void **state)
{
	const struct said *s = thalweg(NULL, "--help");

	assert_int_equal(s->code, 0);
	for (size_t i = 0; tw_verb_all[i]; i++)
		has(s->out, tw_verb_all[i]->help);
	s = thalweg(NULL, "help");
	assert_int_equal(s->code, 0);
	has(s->out, tw_verb_all[0]->help);
	s = thalweg(NULL, "--version");
	assert_int_equal(s->code, 0);
	assert_string_equal(s->out, "thalweg " TW_VERSION "\n");
}

static void topics(void **state)
{
	const struct said *s = thalweg(NULL, "help strategies");

	assert_int_equal(s->code, 0);
	has(s->out, "dana-slim");
	has(s->out, "softsync");
	has(s->out, "bf16");
	s = thalweg(NULL, "help options");
	assert_int_equal(s->code, 0);
	has(s->out, "\n  data.global_batch         samples per step of all workers together");
	has(s->out, "\n  relu              max(x, 0)");
	for (const char *line = s->out, *end; *line; line = end + 1) { /* text, not Markdown */
		end = strchr(line, '\n');
		assert_true(*line != '#' && *line != '|' && end[-1] != '|');
	}
	s = thalweg(NULL, "help codecs");
	assert_int_equal(s->code, 0);
	for (size_t k = 0; tw_codec_all[k]; k++) {
		has(s->out, tw_codec_all[k]->help);
		for (const struct tw_option *o = tw_codec_all[k]->options; o && o->name; o++)
			has(s->out, o->help);
	}
}

static void wrong_requests_are_refused(void **state)
{
	static const struct {
		const char *words, *sentence;
	} cases[] = {
		{ "", "which verb?" },
		{ "job.yaml", "there is no verb job.yaml; to train a job, use `thalweg train "
			      "job.yaml`" },
		{ "run job.yaml", "there is no verb run; use `thalweg train job.yaml`" },
		{ "resume job.yaml", "there is no verb resume; run the same command again to "
				     "resume: `thalweg train job.yaml`" },
		{ "resume examples", "`thalweg train JOB --run examples`" },
		{ "examples", "`thalweg inspect examples` shows the run of a directory" },
		{ "x.csv", "it is a file of data, not a job; `thalweg init x.csv --label COLUMN` "
			   "writes a job" },
		{ "train a.yaml --lr 0.1", "there is no flag --lr of train; the learning rate is "
					   "--set update.rate=0.1" },
		{ "train a.yaml --epochs=3",
		  "there is no flag --epochs of train; use --set train.epochs=3" },
		{ "train a.yaml --optimizer --json", "the optimiser is --set update.rule=sgd" },
		{ "train a.yaml --gpu", "there is no flag --gpu of train; GPUs are not supported; "
					"instead networks run on CPU cores" },
		{ "train --config a.yaml", "the job is a word after the verb" },
		{ "eval a --output b", "there is no flag --output of eval; `thalweg eval --help`" },
		{ "key --lr 1", "there is no flag --lr of key; `thalweg key --help`" },
		{ "help transformer",
		  "transformer: this layer is not supported; instead use `attention" },
		{ "help onnx", "onnx: ONNX is not supported; instead `thalweg export RUN" },
		{ "help f1", "f1: `thalweg eval RUN` prints precision, recall, F1, ROC AUC" },
		{ "help federated",
		  "federated: encrypted sums are not supported; `data.placement` own leaves" },
		{ "help gpu", "gpu: GPUs are not supported; instead networks run on CPU cores" },
		{ "sym x.yaml", "there is no verb sym; did you mean sim?" },
		{ "xyzzyxyzzy", "`thalweg --help` lists them" },
		{ "sim", "sim needs JOB" },
		{ "sim a.yaml b.yaml", "sim does not take 'b.yaml'" },
		{ "sim --jsno examples/asgd.yaml", "no flag --jsno of sim; did you mean --json?" },
		{ "sim --xyzzyxyzzy x", "`thalweg sim --help` lists them" },
		{ "--jsno sim x", "there is no flag --jsno" },
		{ "sim -x examples/asgd.yaml", "there is no flag -x" },
		{ "sim examples/asgd.yaml --run", "--run needs a value" },
		{ "sim examples/asgd.yaml --json=yes", "--json takes no value" },
		{ "sim examples/asgd.yaml --threads x", "--threads: needs a whole number" },
		{ "sim examples/asgd.yaml --threads=-1", "--threads: needs a whole number" },
		{ "sim examples/asgd.yaml --isa avx3", "needs plain, avx2 or avx512" },
		{ "sim examples/asgd.yaml --explain --json", "leave out --json" },
		{ "sim examples/asgd.yaml --checkpoints 1", "needs --run DIR" },
		{ "sim examples/asgd.yaml --again", "--again needs --run DIR" },
		{ "sim nowhere.yaml", "nowhere.yaml" },
		{ "sim examples/asgd.yaml --set cluster.wrokers=3", "workers" },
		{ "sim examples/asgd.yaml --set cluster.workers=none", "cluster.workers" },
		{ "sim examples/asgd.yaml --set strategy=dana2", "dana" },
		{ "sim examples/hogwild.yaml", "thalweg train" },
		{ "train examples/asgd.yaml --threads 2", "there is no flag --threads of train" },
		{ "bench exchagne", "did you mean exchange?" },
		{ "help strategeis", "did you mean 'strategies'?" },
		{ "doctor now", "doctor does not take 'now'" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		const struct said *s = thalweg(NULL, "%s", cases[i].words);

		if (s->code != 2)
			print_error("'%s': %d, %s\n", cases[i].words, s->code, s->err);
		assert_int_equal(s->code, 2);
		assert_string_equal(s->out, "");
		has(s->err, cases[i].sentence);
		/* one sentence: one line */
		assert_ptr_equal(strchr(s->err, '\n'), s->err + strlen(s->err) - 1);
	}
}

/* Explaining an explanation changes nothing. */
static void explain_is_a_fixed_point(void **state)
{
	const struct said *s = thalweg(NULL, "sim examples/dc-asgd.yaml --explain");
	char *first = strdup(s->out);

	assert_int_equal(s->code, 0);
	has(first, "gate: async");
	s = thalweg(first, "sim - --explain");
	assert_int_equal(s->code, 0);
	assert_string_equal(s->out, first);
	free(first);
}

static char *read_all(const char *path)
{
	FILE *f = fopen(path, "r");
	char *text = NULL;
	size_t room = 0;

	assert_non_null(f);
	if (getdelim(&text, &room, 0, f) < 0)
		text[0] = 0;
	fclose(f);
	return text;
}

static void the_reference_page_is_current(void **state)
{
	char *page = read_all("docs/REFERENCE.md");
	const struct said *s = thalweg(NULL, "help options --markdown");

	assert_int_equal(s->code, 0);
	if (strcmp(s->out, page) != 0)
		print_error("docs/REFERENCE.md is old; make it with `ninja -C build reference`\n");
	assert_string_equal(s->out, page);
	free(page);
}

static void the_manual_page_is_roff(void **state)
{
	const struct said *s = thalweg(NULL, "help --man");

	assert_int_equal(s->code, 0);
	assert_ptr_equal(strstr(s->out, ".TH THALWEG 1"), s->out);
	for (size_t i = 0; tw_verb_all[i]; i++) {
		char title[60];

		snprintf(title, sizeof title, ".SS thalweg %s", tw_verb_all[i]->name);
		has(s->out, title);
	}
	has(s->out, "\\-\\-checkpoints");
	has(s->out, "global_batch");
}

/* A word of each kind: what it is, and how it is written. */
static void one_word_is_explained(void **state)
{
	static const struct {
		const char *word, *says[5];
	} rows[] = {
		{ "update.rate",
		  { "update.rate - the learning rate", "a number from 0 to", "default   0.1",
		    "update: {rate: 0.1}", "--set update.rate=0.1" } },
		{ "update.momentum", { "with update.rule: dana, momentum, multi, nag" } },
		{ "rate", { "update.rate - ", "strategy.local.rate - " } },
		{ "dana", { "a preset", "Hakimi", "strategy: dana", "a rule", "update.momentum" } },
		{ "csv", { "a data source", "data: {source: csv}", "data.file", "must be given" } },
		{ "relu", { "a layer", "model: {layers: [relu" } },
		{ "conv", { "conv <filters> <size>", "groups" } },
		{ "cross-entropy", { "a loss", "loss: cross-entropy", "loss.smoothing" } },
		{ "update", { "update.rate", "update.clip" } },
		{ "update.schedule", { "update.schedule.warmup" } },
		{ "model", { "model.layers", "model.name" } },
		{ "model.layers", { "conv 20 5x5" } },
		{ "lenet", { "a network", "model: {name: lenet}" } },
		{ "softsync", { "a preset", "a gate" } },
		{ "inverse", { "a staleness policy" } },
		{ "bf16", { "a codec" } },
		{ "sim", { "usage: thalweg sim", "`thalweg help sim:`" } },
		{ "sim:", { "sim.latency" } },
		{ "data:", { "data.batch" } },
		{ "strategy.lead", { "with strategy.gate: ssp" } },
		/* other programs' words */
		{ "lr", { "the learning rate is update.rate here", "update: {rate: 0.1}" } },
		{ "learning_rate", { "update.rate here" } },
		{ "batchSize", { "data.batch here" } },
		{ "mse", { "loss: mean-squared here", "a loss" } },
		{ "nesterov", { "nag" } },
		{ "ddp", { "strategy: allreduce here", "a preset" } },
		{ "dense", { "linear" } },
		{ "learning rate", { "update.rate here" } },
		{ "checkpoint_dir", { "--run DIR on the command line" } },
	};

	for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
		const struct said *s = thalweg(NULL, "help %s", rows[k].word);

		expect(s, 0);
		assert_string_equal(s->err, "");
		for (size_t i = 0; i < 5 && rows[k].says[i]; i++)
			has(s->out, rows[k].says[i]);
	}
	expect(thalweg(NULL, "help updat.rate"), 2);
	has(thalweg(NULL, "help updat.rate")->err, "did you mean 'update.rate'?");
	has(thalweg(NULL, "help dan")->err, "did you mean 'dana'?");
	expect(thalweg(NULL, "help zzzzzz"), 2);
	has(thalweg(NULL, "help zzzzzz")->err, "a section, a preset, a layer");
}

static const struct tw_flag *flag_of(const struct tw_flag *f, const char *name)
{
	const size_t n = strcspn(name, " ");

	while (f->option.name &&
	       (strlen(f->option.name) != n || strncmp(f->option.name, name, n) != 0))
		f++;
	return f->option.name ? f : NULL;
}

/* Flags that synonyms name are flags. */
static void flags_of_synonyms_exist(void **state)
{
	for (const struct tw_synonym *s = tw_synonyms; s->theirs; s++) {
		const struct tw_flag *f;

		if (!s->ours || *s->ours != '-')
			continue;
		f = flag_of(tw_verb_find("train")->flags, s->ours + 2);
		f = f ? f : flag_of(tw_common_flags, s->ours + 2);
		if (!f || (f->value != NULL) != (strchr(s->ours, ' ') != NULL))
			fail_msg("%s: train has no %s", s->theirs, s->ours);
	}
}

static void parses(const char *command)
{
	char text[300], *word[20] = { text }, *state = NULL;
	struct tw_error why = { 0 };
	struct tw_args args;
	int n = 1;

	snprintf(text, sizeof text, "%s", command);
	for (char *w = strtok_r(text, " ", &state); w && n < 20; w = strtok_r(NULL, " ", &state))
		word[n++] = w;
	if (tw_args_parse(&args, n, word, &why) != TW_OK || !(args.verb || args.common.version))
		fail_msg("%s: %s", command, why.text);
	tw_args_release(&args);
}

static void commands_of(const char *sentence)
{
	char text[300];

	for (const char *at = sentence; quoted(&at, text, sizeof text);)
		if (strncmp(text, "thalweg ", 8) == 0)
			parses(text + 8);
}

/* Whatever a hint tells people to type is a command. */
static void suggested_commands_are_accepted(void **state)
{
	char hint[500];

	for (const struct tw_verb_hint *h = tw_verb_hints; h->theirs; h++) {
		assert_null(tw_verb_find(h->theirs));
		parses(h->ours);
		assert_true(tw_verb_hint(h->theirs, "job.yaml", hint, sizeof hint));
		commands_of(hint);
		assert_true(tw_verb_hint(h->theirs, NULL, hint, sizeof hint));
		commands_of(hint);
	}
	for (const struct tw_synonym *s = tw_synonyms; s->theirs; s++)
		commands_of(s->note);
	for (const struct tw_other_file *f = tw_other_files; f->suffix; f++)
		commands_of(f->says);
	assert_false(tw_verb_hint("xyzzy", "job.yaml", hint, sizeof hint));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_verb_has_help_with_an_example),
		cmocka_unit_test(the_overview_has_every_verb),
		cmocka_unit_test(topics),
		cmocka_unit_test(one_word_is_explained),
		cmocka_unit_test(flags_of_synonyms_exist),
		cmocka_unit_test(suggested_commands_are_accepted),
		cmocka_unit_test(wrong_requests_are_refused),
		cmocka_unit_test(explain_is_a_fixed_point),
		cmocka_unit_test(the_reference_page_is_current),
		cmocka_unit_test(the_manual_page_is_roff),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
