/* SPDX-License-Identifier: Apache-2.0 */
/* test_synonyms.c - what other programs call things: every target of the table exists, refusals
 * name it, and help knows every word of a job file. */
#include "spec/synonyms.h"
#include "spec/field.h"
#include "job/reading.h"
#include "spec/help_topic.h"

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
		{ "early_stopping=1", "train.until.accuracy here" },
		{ "checkpoint_dir=x", "the directory of checkpoints is --run on the command line" },
		{ "device=gpu", "device: there is no such field; networks run on CPU cores" },
		{ "gpus=1", "cluster.workers sets how many" },
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

		assert_true(tw_job_topic(f, s->theirs) > 0);
		fclose(f);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_target_exists),
		cmocka_unit_test(no_synonym_hides_a_field),
		cmocka_unit_test(any_spelling_is_found),
		cmocka_unit_test(refusals_answer_with_our_names),
		cmocka_unit_test(the_line_is_named),
		cmocka_unit_test(every_word_has_help),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
