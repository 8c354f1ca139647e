/* SPDX-License-Identifier: Apache-2.0 */
/* test_synonyms.c - what other programs call things: every target of the table exists, refusals
 * name it, and help knows every word of a job file. */
#include "spec/help/synonyms.h"
#include "spec/field.h"
#include "job/reading.h"
#include "kit/quoted.h"
#include "model/layer_text.h"
#include "model/other_layers.h"
#include "spec/help/help_topic.h"
#include "spec/help/hint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define LINES_MOST 60 /* of a screen, for one word */

static bool is_field(const char *path)
{
	struct tw_group g;

	for (size_t k = 0; tw_group_at(k, &g); k++)
		for (const struct tw_option *row = g.rows; row->name; row++) {
			char text[200];

			snprintf(text, sizeof text, "%s%s", g.prefix, row->name);
			if (strcmp(text, path) == 0)
				return true;
		}
	return false;
}

/* "loss: mean-squared", "update.rule: nag", "strategy: ssgd". */
static bool is_choice(const char *ours)
{
	const char *value = strstr(ours, ": ") + 2;

	if (strncmp(ours, "loss: ", 6) == 0)
		return tw_op_find(value) && tw_op_find(value)->traits & TW_OP_LOSS;
	if (strncmp(ours, "strategy: ", 10) == 0)
		return tw_preset_find(value) != NULL;
	if (strncmp(ours, "data.source: ", 13) == 0)
		return tw_source_find(value) != NULL;
	return strncmp(ours, "update.rule: ", 13) == 0 && tw_rule_find(value);
}

static void every_target_exists(void **state)
{
	for (const struct tw_synonym *s = tw_synonyms; s->theirs; s++) {
		assert_true(s->note && *s->note);
		for (const char *c = s->theirs; *c; c++)
			assert_true(*c == '_' || (*c >= 'a' && *c <= 'z') ||
				    (*c >= '0' && *c <= '9'));
		for (const struct tw_synonym *t = tw_synonyms; t != s; t++)
			assert_string_not_equal(s->theirs, t->theirs);
		if (!s->ours || *s->ours == '-')
			continue; /* flags: test_help.c */
		if (!(strstr(s->ours, ": ") ? is_choice(s->ours) : is_field(s->ours)))
			fail_msg("%s: there is no %s", s->theirs, s->ours);
	}
}

/* --- what sentences suggest is accepted --- */

/* Fields of a job, with a model and data where they say nothing of these. */
static bool reads(const char *fields)
{
	char text[400];
	struct tw_error why = { 0 };
	struct tw_job *job = NULL;
	enum tw_status st;

	snprintf(text, sizeof text, "%s\n%s%s", fields,
		 strncmp(fields, "model:", 6) == 0 ? "" : "model: {name: mlp}\n",
		 strstr(fields, "source:") ? "" : "data: {source: digits, count: 100}\n");
	st = tw_job_read_text("job.yaml", text, strlen(text), NULL, 0, NULL, TW_WORLD_SIM, &job,
			      &why);
	if (st != TW_OK)
		print_error("%s", why.text);
	tw_job_free(job);
	return st == TW_OK;
}

/* All that a sentence quotes but commands, which test_help.c looks at.  Returns how many. */
static size_t accepted(const char *sentence)
{
	char text[300];
	size_t n = 0;

	for (const char *at = sentence; quoted(&at, text, sizeof text); n++)
		if (strncmp(text, "thalweg ", 8) != 0 && strcmp(text, "model.layers") != 0 &&
		    !(strstr(text, ": ") ? reads(text) : is_field(text)))
			fail_msg("%s: %s is not accepted", sentence, text);
	return n;
}

static void what_notes_suggest_is_accepted(void **state)
{
	for (const struct tw_synonym *s = tw_synonyms; s->theirs; s++)
		accepted(s->note);
	for (const struct tw_other_file *f = tw_other_files; f->suffix; f++)
		assert_true(accepted(f->says) > 0);
}

static void what_layers_suggest_is_a_layer(void **state)
{
	struct tw_arena keep;

	tw_arena_init(&keep, &tw_heap_system);
	for (const struct tw_other_layer *l = tw_other_layers; l->theirs; l++) {
		struct tw_layer_text layer;
		struct tw_error why = { 0 };
		char text[100];

		for (const struct tw_other_layer *k = tw_other_layers; k != l; k++)
			assert_string_not_equal(k->theirs, l->theirs);
		assert_null(tw_op_find(l->theirs));
		assert_ptr_equal(tw_other_layer_find(l->theirs), l);
		for (const char *at = l->instead; quoted(&at, text, sizeof text);)
			if (tw_layer_text_read(text, TW_LAYER_INSIDE, &keep, &keep, &layer, &why) !=
			    TW_OK)
				fail_msg("%s: %s: %s", l->theirs, text, why.text);
		/* what people write is refused with it */
		assert_int_equal(
			tw_layer_text_read(l->theirs, TW_LAYER_INSIDE, &keep, &keep, &layer, &why),
			TW_BAD_INPUT);
		assert_non_null(strstr(why.text, l->instead));
	}
	assert_string_equal(tw_other_layer_find("MaxPool1d")->theirs, "maxpool1d");
	assert_string_equal(tw_other_layer_find("hard_swish")->theirs, "hardswish");
	assert_null(tw_other_layer_find("conv"));
	assert_null(tw_other_layer_find(""));
	tw_arena_release(&keep);
}

/* Every field by its own last name and by those of other programs: what the hint sets exists, and
 * takes the value. */
static void one_setting(const char *word, const char *value)
{
	char hint[400], path[200], *equals, *at;
	struct tw_arena keep;
	struct tw_group g;
	bool taken = false;

	if (!tw_hint_setting(word, value, hint, sizeof hint))
		fail_msg("%s: no hint", word);
	at = strstr(hint, "--set ");
	assert_non_null(at);
	at += 6 + (at[6] == '\'');
	snprintf(path, sizeof path, "%s", at);
	equals = strchr(path, '=');
	assert_non_null(equals);
	*equals++ = 0;
	equals[strcspn(equals, "'")] = 0;
	tw_arena_init(&keep, &tw_heap_system);
	for (size_t k = 0; tw_group_at(k, &g); k++)
		for (const struct tw_option *row = g.rows; row->name; row++) {
			struct tw_option alone = *row;
			struct tw_error why = { 0 };
			double place[8];
			char text[200];

			snprintf(text, sizeof text, "%s%s", g.prefix, row->name);
			alone.offset = 0;
			taken = taken ||
				(strcmp(text, path) == 0 &&
				 tw_field_set(&alone, place, equals, &keep, &why) == TW_OK);
		}
	tw_arena_release(&keep);
	if (!taken && !tw_job_is_section(path))
		fail_msg("%s %s: %s", word, value ? value : "", hint);
}

static void settings_are_accepted(void **state)
{
	struct tw_group g;

	for (const struct tw_synonym *s = tw_synonyms; s->theirs; s++)
		if (s->ours && *s->ours != '-' && !strstr(s->ours, ": ")) {
			one_setting(s->theirs, NULL);
			one_setting(s->theirs, "?");
		}
	for (size_t k = 0; tw_group_at(k, &g); k++)
		for (const struct tw_option *row = g.rows; *g.prefix && row->name; row++) {
			const char *dot = strrchr(row->name, '.');
			const struct tw_synonym *s = tw_synonym_field(dot ? dot + 1 : row->name);

			if (!s || (s->ours && *s->ours != '-'))
				one_setting(dot ? dot + 1 : row->name, NULL);
		}
}

static void settings_say(void **state)
{
	static const struct {
		const char *word, *value, *says;
	} rows[] = {
		{ "lr", "0.1", "the learning rate is --set update.rate=0.1" },
		{ "learning-rate", "0.02", "the learning rate is --set update.rate=0.02" },
		{ "lr", "fast", "the learning rate is --set update.rate=0.1" },
		{ "epochs", "3", "use --set train.epochs=3" },
		{ "batch-size", "32", "the batch of one worker is --set data.batch=32" },
		{ "workers", "8", "use --set cluster.workers=8" },
		{ "seed", "7", "use --set train.seed=7" },
		{ "optimizer", "Adam", "the optimiser is --set update.rule=adam" },
		{ "optimizer", "sgdm", "the optimiser is --set update.rule=momentum" },
		{ "optimizer", "?", "the optimiser is --set update.rule=sgd" },
		{ "strategy", "ddp", "use --set strategy=allreduce" },
		{ "model", "LeNet", "use --set model=lenet" },
		{ "loss", "mse", "use --set loss=mean-squared" },
		{ "data", "my.csv",
		  "name the file in the job: `data: {source: csv, file: my.csv}`" },
		{ "output", "x", "the directory of a run is --run x" },
		{ "output", NULL, "the directory of a run is --run DIR" },
		{ "hidden", "[64, 64]", "use --set 'model.hidden=[64, 64]'" },
		{ "resume", NULL, "run the same command again to resume" },
		{ "gpu", NULL, "GPUs are not supported; instead networks run on CPU cores" },
	};
	char hint[400];

	for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
		assert_true(tw_hint_setting(rows[k].word, rows[k].value, hint, sizeof hint));
		if (strncmp(hint, rows[k].says, strlen(rows[k].says)) != 0)
			fail_msg("%s: %s", rows[k].word, hint);
	}
	assert_false(tw_hint_setting("xyzzy", "1", hint, sizeof hint));
	assert_false(tw_hint_setting("", NULL, hint, sizeof hint));
}

static void files_are_known(void **state)
{
	static const struct {
		const char *path, *says;
	} rows[] = {
		{ "x.npy", "`data: {source: npy, x: x.npy, y: FILE}`" },
		{ "train-images-idx3-ubyte.gz",
		  "`data: {source: idx, images: train-images-idx3-ubyte.gz, labels: FILE}`" },
	};
	static const char *const tables[] = { "my/x.csv", "x.CSV.gz", "x.tsv" };
	char hint[450], command[80];

	for (size_t k = 0; k < sizeof tables / sizeof tables[0]; k++) {
		snprintf(command, sizeof command, "`thalweg init %s --label COLUMN`", tables[k]);
		assert_true(tw_hint_file(tables[k], hint, sizeof hint));
		assert_non_null(strstr(hint, command));
	}
	for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
		assert_true(tw_hint_file(rows[k].path, hint, sizeof hint));
		assert_non_null(strstr(hint, rows[k].says));
		assert_int_equal(accepted(hint), 2);
	}
	assert_true(tw_hint_file("x.parquet", hint, sizeof hint));
	assert_false(tw_hint_file("job.yaml", hint, sizeof hint));
	assert_false(tw_hint_file(".csv", hint, sizeof hint));
	assert_false(tw_hint_file("", hint, sizeof hint));
}

/* A job may have any name; data and jobs are told apart by what is in them. */
static void data_in_place_of_a_job(void **state)
{
	static const char table[] = "a,b,label\n1,2,x\n", binary[] = "\x93NUMPY\1\0v\0{'descr'";
	static const char job_text[] = "model: {name: mlp}\ndata: {source: digits, count: 100}\n";
	struct tw_error why = { 0 };
	struct tw_job *job = NULL;

	assert_int_equal(tw_job_read_text("x.csv", table, sizeof table - 1, NULL, 0, NULL,
					  TW_WORLD_SIM, &job, &why),
			 TW_BAD_INPUT);
	assert_string_equal(why.text,
			    "x.csv: is a file of data, not a job; `thalweg init x.csv --label "
			    "COLUMN` writes a job that predicts that column");
	why = (struct tw_error){ 0 };
	assert_int_equal(tw_job_read_text("x.npy", binary, sizeof binary - 1, NULL, 0, NULL,
					  TW_WORLD_SIM, &job, &why),
			 TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "data: {source: npy, x: x.npy, y: FILE}"));
	assert_int_equal(tw_job_read_text("job.csv", job_text, sizeof job_text - 1, NULL, 0, NULL,
					  TW_WORLD_SIM, &job, &why),
			 TW_OK);
	tw_job_free(job);
}

static void variables_are_known(void **state)
{
	static const struct {
		const char *name, *says;
	} rows[] = {
		{ "UPDATE_LR", "the learning rate is THALWEG_UPDATE_RATE" },
		{ "LR", "the learning rate is THALWEG_UPDATE_RATE" },
		{ "TRAIN_BATCH_SIZE", "the batch of one worker is THALWEG_DATA_BATCH" },
		{ "EPOCHS", "did you mean THALWEG_TRAIN_EPOCHS?" },
		{ "OUTPUT_DIR", "the directory of checkpoints is --run DIR" },
		{ "CUDA", "GPUs are not supported" },
	};
	char hint[400];

	for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
		assert_true(tw_hint_variable(rows[k].name, hint, sizeof hint));
		if (strncmp(hint, rows[k].says, strlen(rows[k].says)) != 0)
			fail_msg("%s: %s", rows[k].name, hint);
	}
	assert_false(tw_hint_variable("XYZZY", hint, sizeof hint));
	assert_false(tw_hint_variable("XYZZY_", hint, sizeof hint));
	assert_false(tw_hint_variable("", hint, sizeof hint));
}

/* A word that is ours somewhere must not be explained away. */
static void no_synonym_hides_a_field(void **state)
{
	for (const struct tw_section *s = tw_sections; s->name; s++)
		assert_null(tw_synonym_field(s->name));
	assert_null(tw_synonym_field("rate"));
	assert_null(tw_synonym_field("epochs"));
	assert_null(tw_synonym_field(""));
	assert_null(tw_synonym_field("mse")); /* a value, not a field */
	assert_null(tw_synonym_value("loss", "lr"));
	assert_null(tw_synonym_value("update.rule", "mse"));
}

static void any_spelling_is_found(void **state)
{
	static const char *const rates[] = {
		"lr",           "LR",           "learning_rate", "learning-rate",
		"learningRate", "LearningRate", "Learning_Rate"
	};

	for (size_t k = 0; k < sizeof rates / sizeof rates[0]; k++)
		assert_string_equal(tw_synonym_field(rates[k])->ours, "update.rate");
	assert_string_equal(tw_synonym_value("loss.name", "MSELoss")->ours, "loss: mean-squared");
	assert_string_equal(tw_synonym_value("loss", "BCEWithLogits")->ours,
			    "loss: binary-cross-entropy");
	assert_string_equal(tw_synonym_value("strategy.name", "DDP")->ours, "strategy: allreduce");
}

/* --- refusals --- */

static void refusals_answer_with_our_names(void **state)
{
	static const struct {
		const char *set, *says;
	} rows[] = {
		{ "data.filename=x", "the file of training samples is data.file here" },
		{ "update.lr=1", "update.lr: there is no such field; the learning rate is "
				 "update.rate here" },
		{ "lr=1", "lr: there is no such field; the learning rate is update.rate here" },
		{ "train.learning_rate=1", "the learning rate is update.rate here" },
		{ "eta=1", "update.rate here" },
		{ "epochs=1", "epochs: there is no such field; did you mean train.epochs?" },
		{ "update.epochs=1", "did you mean train.epochs?" },
		{ "train.batch_size=1", "the batch of one worker is data.batch here" },
		{ "optimizer=adam", "the optimiser is update.rule here" },
		{ "optimizer.lr=1", "the optimiser is update.rule here" },
		{ "weight_decay=1", "weight decay is update.decay here" },
		{ "num_workers=1", "the number of workers is cluster.workers here" },
		{ "momentum=0.9",
		  "update.momentum, strategy.codec.up_momentum, strategy.outer.momentum, "
		  "strategy.local.momentum "
		  "have that name" },
		{ "dropout_rate=1", "model.dropout here" },
		{ "hidden=[1]", "did you mean model.hidden?" },
		{ "early_stopping=1", "train.patience here" },
		{ "n_iter_no_change=10", "train.patience here" },
		{ "restore_best_weights=true", "train.keep here" },
		{ "checkpoint_dir=x",
		  "the directory of checkpoints is --run DIR on the command line" },
		{ "device=gpu", "device: there is no such field; GPUs are not supported; instead" },
		{ "gpus=1", "`cluster.workers` sets how many" },
		{ "model=transformer",
		  "no network is called 'transformer'; this layer is not supported; instead" },
		{ "strategy=federated", "no preset is called 'federated'; encrypted sums are" },
		{ "loss=mse", "no loss is called 'mse'; the mean squared error is loss: "
			      "mean-squared here" },
		{ "loss=nll", "loss: cross-entropy here" },
		{ "loss=bce", "loss: binary-cross-entropy here" },
		{ "update.rule=nesterov", "Nesterov's momentum is update.rule: nag here" },
		{ "strategy=sync", "no preset is called 'sync'; synchronous training is strategy: "
				   "ssgd here" },
		{ "resume=true", "run the same command again to resume" },
	};
	static const char text[] = "model: {name: mlp}\ndata: {source: digits, count: 100}\n";

	for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
		struct tw_error why = { 0 };
		struct tw_job *job = NULL;

		assert_int_equal(tw_job_read_text("job.yaml", text, sizeof text - 1, &rows[k].set,
						  1, NULL, TW_WORLD_SIM, &job, &why),
				 TW_BAD_INPUT);
		if (!strstr(why.text, rows[k].says))
			fail_msg("%s: '%s' does not say '%s'", rows[k].set, why.text, rows[k].says);
	}
}

/* A field of another source that this one calls otherwise. */
static void a_path_is_a_file_here(void **state)
{
	static const char text[] = "model: {name: mlp}\ndata: {source: csv, path: x.csv}\n";
	struct tw_error why = { 0 };
	struct tw_job *job = NULL;

	assert_int_equal(tw_job_read_text("job.yaml", text, sizeof text - 1, NULL, 0, NULL,
					  TW_WORLD_SIM, &job, &why),
			 TW_BAD_INPUT);
	assert_string_equal(why.text, "job.yaml:2: data.path: there is no such field; the file of "
				      "training samples is data.file here");
}

/* In a file, with its line. */
static void the_line_is_named(void **state)
{
	static const char text[] = "model: {name: mlp}\ndata: {source: digits, count: 100}\n"
				   "update:\n  lr: 0.1\n";
	struct tw_error why = { 0 };
	struct tw_job *job = NULL;

	assert_int_equal(tw_job_read_text("job.yaml", text, sizeof text - 1, NULL, 0, NULL,
					  TW_WORLD_SIM, &job, &why),
			 TW_BAD_INPUT);
	assert_string_equal(why.text, "job.yaml:4: update.lr: there is no such field; the learning "
				      "rate is update.rate here");
}

/* --- help --- */

static size_t lines_of(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

static void every_word_has_help(void **state)
{
	size_t k = 0;

	for (const char *at; (at = tw_job_topic_at(k)); k++) {
		char word[200], *text = NULL;
		size_t bytes = 0, found;
		FILE *f = open_memstream(&text, &bytes);

		snprintf(word, sizeof word, "%s", at);
		found = tw_job_topic(f, word);
		fclose(f);
		if (!found || !strstr(text, word))
			fail_msg("no help on %s: %s", word, text);
		if (lines_of(text) > LINES_MOST)
			fail_msg("%s takes %zu lines", word, lines_of(text));
		free(text);
	}
	assert_true(k > 150 && k < 1000);
	for (const struct tw_synonym *s = tw_synonyms; s->theirs; s++) {
		char *text = NULL;
		size_t bytes = 0;
		FILE *f = open_memstream(&text, &bytes);
		char absent[400];

		if (!tw_job_topic(f, s->theirs))
			assert_true(tw_job_topic_absent(s->theirs, absent, sizeof absent));
		fclose(f);
		free(text);
	}
}

/* --- examples --- */

static bool is_number(const struct tw_option *row)
{
	return row->type != TW_BOOL && row->type != TW_CHOICE && row->type != TW_TEXT &&
	       row->type != TW_WORDS;
}

/* What stands at `base`, or the mean of a list. */
static double number_at(const struct tw_option *row, const void *base)
{
	const struct tw_f64s *list = base;
	double sum = 0;

	switch (row->type) {
	case TW_U32:
		return *(const uint32_t *)base;
	case TW_U64:
	case TW_SIZE:
		return (double)*(const uint64_t *)base;
	case TW_TIME:
		return (double)*(const int64_t *)base;
	case TW_F32:
		return (double)*(const float *)base;
	case TW_EXTENT:
		return ((const struct tw_extent *)base)->h;
	case TW_F64S:
		for (size_t k = 0; k < list->count; k++)
			sum += list->at[k] / (double)list->count;
		return sum;
	default:
		return *(const double *)base;
	}
}

/* Every example is a value that the field takes, and one that says something: a number is no end
 * of its range, and not 0. */
static void every_example_is_sensible(void **state)
{
	struct tw_arena keep;
	struct tw_group g;
	unsigned bad = 0;

	tw_arena_init(&keep, &tw_heap_system);
	for (size_t k = 0; tw_group_at(k, &g); k++)
		for (const struct tw_option *row = g.rows; row->name; row++) {
			struct tw_option at_start = *row;
			struct tw_error why = { 0 };
			double place[8] = { 0 }, v;
			char text[200];

			at_start.offset = 0;
			tw_option_example(row, text, sizeof text);
			if (tw_field_set(&at_start, place, text, &keep, &why) != TW_OK) {
				print_error("%s%s: %s: %s\n", g.prefix, row->name, text, why.text);
				bad++;
			}
			v = number_at(row, place);
			if (is_number(row) && row->max - row->min != 1 &&
			    (v == row->min || v == row->max || v == 0)) {
				print_error("%s%s: the example %s is an end of its range\n",
					    g.prefix, row->name, text);
				bad++;
			}
		}
	tw_arena_release(&keep);
	assert_int_equal(bad, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_target_exists),
		cmocka_unit_test(what_notes_suggest_is_accepted),
		cmocka_unit_test(what_layers_suggest_is_a_layer),
		cmocka_unit_test(settings_are_accepted),
		cmocka_unit_test(settings_say),
		cmocka_unit_test(files_are_known),
		cmocka_unit_test(data_in_place_of_a_job),
		cmocka_unit_test(variables_are_known),
		cmocka_unit_test(no_synonym_hides_a_field),
		cmocka_unit_test(any_spelling_is_found),
		cmocka_unit_test(refusals_answer_with_our_names),
		cmocka_unit_test(a_path_is_a_file_here),
		cmocka_unit_test(the_line_is_named),
		cmocka_unit_test(every_word_has_help),
		cmocka_unit_test(every_example_is_sensible),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
