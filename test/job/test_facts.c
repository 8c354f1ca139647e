/* SPDX-License-Identifier: Apache-2.0 */
/* test_facts.c - tables of refusals: every name in them is a fact, every fact is in one of them,
 * and a fact with a refusal of its own is all that a new feature adds. */
#include "job/reading.h"
#include "spec/field.h"
#include "spec/refuse.h"
#include "spec/help/suggest.h"
#include "strategy/optimiser.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef void row_fn(const struct tw_refusal_row *row, void *arg);

static void each_row_of(const struct tw_refusal_row *rows, row_fn *see, void *arg)
{
	for (; rows->when; rows++)
		see(rows, arg);
}

static void each_row(row_fn *see, void *arg)
{
	for (const struct tw_job_check *c = tw_job_checks; c->check || c->refusals; c++)
		if (c->refusals)
			each_row_of(c->refusals, see, arg);
	for (size_t k = 0; tw_idle_all[k]; k++)
		each_row_of(tw_idle_all[k], see, arg);
}

struct tally {
	const struct tw_facts *facts;
	size_t rows;
	unsigned *used; /* by fact */
};

static void count_words(const struct tw_refusal_row *row, void *arg)
{
	struct tally *t = arg;
	char words[200], *rest = words;

	t->rows++;
	assert_true(strlen(row->when) < sizeof words);
	strcpy(words, row->when);
	for (char *word; (word = strtok_r(rest, " ", &rest));) {
		size_t k = 0;

		word += *word == '!';
		while (k < t->facts->count && strcmp(t->facts->at[k].name, word) != 0)
			k++;
		if (k == t->facts->count)
			fail_msg("'%s' is no fact, in \"%s\": %s", word, row->when, row->sentence);
		t->used[k]++;
	}
}

static void facts_and_refusals_name_each_other(void **state)
{
	struct tw_job *job = good_job(SMALL, NULL, TW_WORLD_SIM);
	struct tally t = { .facts = &job->facts };

	(void)state;
	t.used = calloc(job->facts.count, sizeof *t.used);
	assert_non_null(t.used);
	each_row(count_words, &t);
	assert_true(t.rows > 170);
	for (size_t k = 0; k < job->facts.count; k++) {
		if (!t.used[k])
			fail_msg("no refusal asks for '%s'", job->facts.at[k].name);
		for (size_t i = 0; i < k; i++)
			assert_string_not_equal(job->facts.at[k].name, job->facts.at[i].name);
	}
	free(t.used);
	tw_job_free(job);
}

/* Is there a field that is this one, or is below it? */
static bool is_field(const char *field)
{
	const size_t n = strlen(field);
	struct tw_group g;
	char path[200];

	for (size_t k = 0; tw_group_at(k, &g); k++)
		for (const struct tw_option *row = g.rows; row && row->name; row++) {
			snprintf(path, sizeof path, "%s%s", g.prefix, row->name);
			if (strncmp(path, field, n) == 0 &&
			    (!path[n] || path[n] == '.' || field[n - 1] == '.'))
				return true;
		}
	return false;
}

static void see_fields_and_marks(const struct tw_refusal_row *row, void *arg)
{
	char out[480];

	if (!is_field(row->field) || (row->because && !is_field(row->because)))
		fail_msg("%s, %s: there is no such field", row->field,
			 row->because ? row->because : "");
	tw_suggest(arg, row->sentence, out, sizeof out);
	assert_true(strlen(out) > 10 && strlen(out) + 1 < sizeof out);
	assert_null(strchr(out, '['));
}

/* An unknown mark would end the program when its sentence is said. */
static void fields_and_marks_exist(void **state)
{
	struct tw_job *job = good_job(SMALL, NULL, TW_WORLD_SIM);

	(void)state;
	job->plan.optimising.method = tw_optimiser_all[0];
	each_row(see_fields_and_marks, job);
	tw_job_free(job);
}

/* A toy: jobs of the seed 13 are unlucky. */
static void a_new_fact_is_enforced(void **state)
{
	static const struct tw_refusal_row rows[] = {
		{ "unlucky even", "train.seed", "data.samples", "13 is odd; use [plain rule]" },
		{ "unlucky peers", "train.seed", NULL, "is not said, because there are servers" },
		{ "unlucky !peers", "train.", NULL, "is unlucky with [gate]; use 14" },
		{ "even", "train.time", "data.samples", "needs an odd number of samples" },
		{ NULL },
	};
	static const struct {
		const char *text, *refused;
	} cases[] = {
		{ SMALL "train: {seed: 13}\n", "job.yaml:3: train.seed: 13 is odd; use sgd" },
		/* of the fields of a section the first that was given is blamed */
		{ "data: {samples: 63}\nmodel: {quadratic: {}}\ntrain: {seed: 13}\n",
		  "job.yaml:3: train.seed: is unlucky with bsp; use 14" },
		/* what was not given has the place of what was */
		{ "model: {quadratic: {}}\ndata: {samples: 64}\n",
		  "job.yaml:2: train.time: needs an odd number of samples" },
		{ "data: {samples: 63}\nmodel: {quadratic: {}}\ntrain: {seed: 14}\n", "" },
	};

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		struct tw_job *job = good_job(cases[k].text, NULL, TW_WORLD_SIM);
		const struct tw_fact facts[] = {
			{ "unlucky", job->train.seed == 13 },
			{ "even", job->data.samples % 2 == 0 },
		};
		struct tw_error why = { 0 };

		assert_true(TW_FACTS_ADD(&job->facts, facts));
		assert_int_equal(tw_job_refuse_rows(job, rows, false, &why),
				 *cases[k].refused ? TW_BAD_INPUT : TW_OK);
		assert_string_equal(why.text, cases[k].refused);
		tw_job_free(job);
	}
}

/* What is not given is not refused where it only says nothing. */
static void idle_fields_may_have_their_defaults(void **state)
{
	static const struct tw_refusal_row rows[] = {
		{ "in-sim", "train.time", NULL, "says nothing" },
		{ "!in-sim", "train.seed", NULL, "says nothing" },
		{ "in-sim", "strategy.", NULL, "says nothing" },
		{ NULL },
	};
	struct tw_job *job =
		good_job(SMALL "train: {seed: 1}\nstrategy: {name: asgd}\n", NULL, TW_WORLD_SIM);
	struct tw_error why = { 0 };

	(void)state;
	assert_int_equal(tw_job_refuse_rows(job, rows, true, &why),
			 TW_OK); /* a name stays: it chooses */
	assert_int_equal(tw_job_refuse_rows(job, rows, false, &why), TW_BAD_INPUT);
	assert_string_equal(why.text, "job.yaml:3: train.time: says nothing");
	tw_job_free(job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(facts_and_refusals_name_each_other),
		cmocka_unit_test(fields_and_marks_exist),
		cmocka_unit_test(a_new_fact_is_enforced),
		cmocka_unit_test(idle_fields_may_have_their_defaults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
