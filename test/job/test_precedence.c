/* SPDX-License-Identifier: Apache-2.0 */
/* test_precedence.c - flag before environment before file before preset before default. */
#include "job/reading.h"
#include "spec/field.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct tw_job *job_of(const char *text, const char *const *set, const char *const *env)
{
	struct tw_job *job = NULL;
	struct tw_error why;

	if (read_job(text, set, env, TW_WORLD_SIM, &job, &why) != TW_OK)
		fail_msg("%s", why.text);
	return job;
}

static void is(const char *file, const char *env, const char *set, const char *path,
	       const char *value)
{
	const char *const sets[] = { set, NULL }, *const envs[] = { "HOME=/", env, NULL };
	char text[600];
	struct tw_job *job;
	const struct tw_field *f;

	snprintf(text, sizeof text, "%s%s", SMALL, file);
	job = job_of(text, sets, env ? envs : NULL);
	f = tw_job_field(job, path);
	if (!f)
		fail_msg("no field %s", path);
	assert_string_equal(tw_field_text(f->row, f->base, &job->arena), value);
	tw_job_free(job);
}

static void the_first_of_five_wins(void **state)
{
	static const char path[] = "strategy.lambda";

	(void)state;
	is("strategy: {staleness: delay}\n", NULL, NULL, path, "0.04");
	is("strategy: {name: dana-dc}\n", NULL, NULL, path, "2");
	is("strategy: {name: dana-dc, lambda: 3}\n", NULL, NULL, path, "3");
	is("strategy: {name: dana-dc, lambda: 3}\n", "THALWEG_STRATEGY_LAMBDA=4", NULL, path, "4");
	is("strategy: {name: dana-dc, lambda: 3}\n", "THALWEG_STRATEGY_LAMBDA=4",
	   "strategy.lambda=5", path, "5");
	is("strategy: {name: dana-dc, lambda: 3}\n", NULL, "strategy.lambda=5", path, "5");
}

static void whole_sections_are_replaced(void **state)
{
	(void)state;
	/* what the file said about its own strategy does not haunt another one */
	is("strategy: {gate: softsync, collect: 2}\n", NULL, "strategy=ssp", "strategy.lead", "3");
	is("strategy: {gate: softsync, collect: 2}\n", "THALWEG_STRATEGY=dc-asgd", NULL,
	   "strategy.staleness", "delay");
	is("", NULL, "strategy={gate: ssp, lead: 7}", "strategy.lead", "7");
	is("strategy: asgd\n", NULL, "strategy.codec={up: fp16}", "strategy.codec.up", "fp16");
	is("", NULL, "update.schedule={kind: step, at: [1, 2]}", "update.schedule.at", "[1, 2]");
	is("update: {schedule: {kind: step, at: [5]}}\n", NULL, "update.schedule.at=[1, 2.5]",
	   "update.schedule.at", "[1, 2.5]");
	is("train:\n", NULL, "train.seed=9", "train.seed", "9");
	is("", "THALWEG_LOSS=squared", NULL, "loss.name", "squared");
	is("", "THALWEG_MODEL_QUADRATIC_DIMENSION=33", NULL, "model.quadratic.dimension", "33");
}

static void a_preset_yields_to_what_does_not_make_it_another(void **state)
{
	(void)state;
	is("strategy: asgd\nupdate: {rule: rmsprop}\n", NULL, NULL, "update.rule", "rmsprop");
	is("strategy: {name: dana, gate: async}\nupdate: {rule: dana}\n", NULL, NULL, "update.rule",
	   "dana");
	is("strategy: downpour\ntrain: {epochs: 4, warm: {workers: 0, for: 0 epochs}}\n", NULL,
	   NULL, "train.warm.workers", "0");
	is("strategy: gap-aware\n", NULL, "update.momentum=0.5", "update.momentum", "0.5");
}

static void the_last_flag_wins(void **state)
{
	const char *const sets[] = { "train.seed=1", "train.seed=2", "strategy=asgd",
				     "strategy.push=3", NULL };
	struct tw_job *job = job_of(SMALL, sets, NULL);

	(void)state;
	assert_true(job->train.seed == 2);
	assert_int_equal(job->strategy.push, 3);
	assert_string_equal(job->title, "asgd");
	tw_job_free(job);
}

/* Every row has its variable, and no two rows with different paths share one. */
static void every_field_has_its_variable(void **state)
{
	const char *const none[] = { NULL };
	struct tw_job *job = job_of(SMALL "strategy: {name: rudra}\n", none, NULL);

	(void)state;
	for (size_t k = 0; k < job->fields; k++) {
		const struct tw_field *f = &job->field[k];
		char env[300] = "THALWEG_", *p = env + 8;
		const char *const envs[] = { env, NULL };
		struct tw_job *again;
		const struct tw_field *seen;

		if (f->silent || strcmp(f->path, "strategy.name") == 0)
			continue;
		for (const char *q = f->path; *q; q++)
			*p++ = *q == '.' || *q == '-' ? '_' : (char)(*q & ~(*q >= 'a' ? 0x20 : 0));
		snprintf(p, sizeof env - (size_t)(p - env), "=%s",
			 tw_field_text(f->row, f->base, &job->arena));
		again = job_of(SMALL "strategy: {name: rudra}\n", none, envs);
		seen = tw_job_field(again, f->path);
		assert_non_null(seen);
		assert_non_null(seen->from);
		assert_int_equal(seen->from->origin, TW_FROM_ENVIRONMENT);
		tw_job_free(again);
	}
	tw_job_free(job);
}

static void worlds_say_what_they_do_not_read(void **state)
{
	struct tw_job *job = good_job(SMALL "sim: {latency: 1ms}\n", NULL, TW_WORLD_THREADS);
	char *text;

	(void)state;
	assert_int_equal(job->warnings, 1);
	assert_string_equal(job->warning[0],
			    "section sim: is ignored by threads; only thalweg sim uses it");
	text = explained(job);
	assert_null(strstr(text, "sim:"));
	free(text);
	tw_job_free(job);
	job = good_job(SMALL "sim: {latency: 1ms}\n", NULL, TW_WORLD_SIM);
	assert_int_equal(job->warnings, 0);
	assert_true(job->sim.latency == 1000000);
	tw_job_free(job);
	/* the same words are refused in both */
	{
		const char *const none[] = { NULL };
		struct tw_error why;

		job = NULL;
		assert_int_equal(read_job(SMALL "sim: {latensy: 1ms}\n", none, NULL,
					  TW_WORLD_THREADS, &job, &why),
				 TW_BAD_INPUT);
	}
}

static void cuts_differ_by_world(void **state)
{
	struct tw_job *job = good_job(SMALL, NULL, TW_WORLD_SIM);

	(void)state;
	assert_true(job->plan.checkpoint.drain);
	tw_job_free(job);
	job = good_job(SMALL, NULL, TW_WORLD_THREADS);
	assert_false(job->plan.checkpoint.drain);
	tw_job_free(job);
	job = good_job(SMALL, "checkpoint.cut=drain", TW_WORLD_THREADS);
	assert_true(job->plan.checkpoint.drain);
	tw_job_free(job);
}

static void a_file_is_read_like_its_text(void **state)
{
	char path[] = "/tmp/thalweg-job-XXXXXX";
	const int fd = mkstemp(path);
	FILE *out = fdopen(fd, "w");
	struct tw_job *job = NULL;
	struct tw_error why = { 0 };

	(void)state;
	assert_non_null(out);
	fputs(SMALL "train: {seed: 77}\n", out);
	fclose(out);
	assert_int_equal(tw_job_read(path, NULL, 0, NULL, TW_WORLD_SIM, &job, &why), TW_OK);
	assert_true(job->train.seed == 77);
	assert_string_equal(job->file, path);
	tw_job_free(job);
	remove(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_of_five_wins),
		cmocka_unit_test(whole_sections_are_replaced),
		cmocka_unit_test(a_preset_yields_to_what_does_not_make_it_another),
		cmocka_unit_test(the_last_flag_wins),
		cmocka_unit_test(every_field_has_its_variable),
		cmocka_unit_test(worlds_say_what_they_do_not_read),
		cmocka_unit_test(cuts_differ_by_world),
		cmocka_unit_test(a_file_is_read_like_its_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
