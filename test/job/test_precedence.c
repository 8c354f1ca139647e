/* SPDX-License-Identifier: Apache-2.0 */
/* test_precedence.c - flag before environment before file before preset before default. */
#include "job/reading.h"
#include "run/open_engine.h"
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

/* Without a strategy it is ssgd; without a gate it is bsp where rounds are possible. */
static void what_is_not_said_is_safe(void **state)
{
	static const struct {
		const char *text, *set, *gate, *title;
	} rows[] = {
		{ "", NULL, "bsp", "ssgd" },
		{ "strategy:\n", NULL, "bsp", "ssgd" },
		{ "strategy: {}\n", NULL, "bsp", "ssgd" },
		{ "cluster: {workers: 1}\n", NULL, "bsp", "ssgd" },
		{ "", "strategy.codec.up=fp16", "bsp", "bsp" },
		{ "strategy: {apply: in-turn}\n", NULL, "bsp", "bsp" },
		{ "strategy: {topology: ring}\ncluster: {workers: 3}\n", NULL, "bsp", "bsp+ring" },
		{ "strategy: {send: delta, push: 4, outer: {rule: average}}\n", NULL, "bsp",
		  "bsp" },
		/* these cannot be combined with rounds */
		{ "strategy: {staleness: delay}\n", NULL, "async", "async+delay" },
		{ "strategy: {push: 2}\n", NULL, "async", "async" },
		{ "strategy: {push: 2, fetch: 2, local: {rule: sgd}}\n", NULL, "async", "async" },
		{ "strategy: {overlap: true}\n", NULL, "async", "async" },
		{ "strategy: {send: momentum}\nupdate: {rule: dana}\n", NULL, "async", "async" },
		{ "strategy: {topology: mesh}\ncluster: {workers: 3}\n", NULL, "async",
		  "async+mesh" },
		{ "strategy: {send: delta, push: 4, adaptive: true, outer: {rule: add}}\n", NULL,
		  "async", "async" },
		{ "update: {rule: dana}\n", NULL, "async", "async" },
		{ "update: {rule: multi}\n", NULL, "async", "async" },
		{ "cluster: {workers: 1}\nsim: {delay: {steps: 3}}\n", NULL, "async", "async" },
		/* what is said stays */
		{ "strategy: {gate: softsync, collect: 2}\n", NULL, "softsync", "softsync" },
		{ "strategy: asgd\n", NULL, "async", "asgd" },
		{ "strategy: asgd\n", "strategy.codec.up=fp16", "async", "asgd" },
		{ "optimiser: lbfgs\n", NULL, NULL, "lbfgs" },
	};

	(void)state;
	for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
		const char *const sets[] = { rows[k].set, NULL };
		char text[600];
		struct tw_job *job;

		snprintf(text, sizeof text, "%s%s", SMALL, rows[k].text);
		job = job_of(text, sets, NULL);
		if (rows[k].gate && strcmp(job->plan.gate->name, rows[k].gate) != 0)
			fail_msg("%s: gate %s", rows[k].text, job->plan.gate->name);
		assert_string_equal(job->title, rows[k].title);
		tw_job_free(job);
	}
}

/* A run that began with the former defaults is read with these, and nothing else changes. */
static void former_defaults_are_known(void **state)
{
	static const char text[] = SMALL "update: {rule: adam}\n";
	const struct tw_job_text from = {
		.name = "former", .text = text, .bytes = sizeof text - 1, .former = true
	};
	struct tw_job *job = NULL;
	struct tw_error why;

	(void)state;
	assert_int_equal(tw_job_read_changed(&from, TW_WORLD_SIM, &job, &why), TW_OK);
	assert_string_equal(job->strategy.gate, "async");
	assert_true(job->update.schedule.rate == 0.1);
	assert_string_equal(job->title, "async");
	assert_true(job->former);
	tw_job_free(job);
}

/* A rate that is not said is the rule's; one that is far from what the rule takes is warned of. */
static void rates_are_those_of_the_rule(void **state)
{
	static const char net[] = "data: {source: digits, count: 1000, tests: 8, batch: 4}\n"
				  "model: {name: mlp, hidden: [4]}\n";
	static const struct {
		const char *text;
		double rate;
		const char *warning; /* a part of it */
	} rows[] = {
		{ "", 0.1, NULL },
		{ "update: {rule: momentum}\n", 0.01, NULL },
		{ "update: {rule: adam}\n", 0.001, NULL },
		{ "update: {rule: adagrad}\n", 0.01, NULL },
		{ "strategy: diloco\n", 0.001, NULL },
		{ "strategy: diloco\nupdate: {rule: sgd}\n", 0.1, NULL },
		{ "strategy: dana\n", 0.01, NULL },
		{ "strategy: diloco\nupdate: {rate: 0.1}\n", 0.1,
		  "update.rate: 0.1 is far above what adamw usually takes (1e-05 to 0.01)" },
		{ "update: {rule: adam, rate: 0.02}\n", 0.02, NULL }, /* not far */
		{ "update: {rule: adam, rate: 1e-9}\n", 1e-9,
		  "update.rate: 1e-09 is far below what adam usually takes (1e-05 to 0.01)" },
		{ "update: {rate: 100}\n", 100, "update.rate: 100 is far above what sgd" },
		{ "update: {rate: 0}\n", 0, NULL },
		{ "strategy: {gate: async, fetch: 2, local: {rule: adam, rate: 0.5}}\n", 0.1,
		  "strategy.local.rate: 0.5 is far above what adam" },
		{ "optimiser: lbfgs\n", 0.1, NULL },
	};

	(void)state;
	for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
		const char *const none[] = { NULL };
		char text[600];
		struct tw_engine *engine = NULL;
		struct tw_error why = { 0 };
		struct tw_job *job;

		snprintf(text, sizeof text, "%s%s", net, rows[k].text);
		job = job_of(text, none, NULL);
		if (tw_job_open_engine(job, &tw_heap_system, &engine, &why) != TW_OK ||
		    tw_job_finish_plan(job, engine, &why) != TW_OK)
			fail_msg("%s: %s", rows[k].text, why.text);
		if (job->update.schedule.rate != rows[k].rate)
			fail_msg("%s: rate %g", rows[k].text, job->update.schedule.rate);
		assert_int_equal(job->warnings, rows[k].warning ? 1 : 0);
		if (rows[k].warning && !strstr(job->warning[0], rows[k].warning))
			fail_msg("%s: %s", rows[k].text, job->warning[0]);
		engine->class->close(engine);
		tw_job_free(job);
	}
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

/* A table without a model gets the usual job; who keeps the last weights has no usual patience. */
static void what_is_kept_decides_about_the_usual_patience(void **state)
{
	static const struct {
		const char *train;
		uint32_t patience;
	} cases[] = { { "", 2 },
		      { "train: {keep: best}\n", 2 },
		      { "train: {keep: last}\n", 0 },
		      { "train: {keep: best, patience: 7}\n", 7 } };

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		struct tw_job *job;
		char text[200];

		snprintf(text, sizeof text, "data: {source: csv, file: x.csv, label: y}\n%s",
			 cases[k].train);
		job = job_of(text, NULL, NULL);
		assert_int_equal(job->train.patience, cases[k].patience);
		tw_job_free(job);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_of_five_wins),
		cmocka_unit_test(whole_sections_are_replaced),
		cmocka_unit_test(a_preset_yields_to_what_does_not_make_it_another),
		cmocka_unit_test(what_is_not_said_is_safe),
		cmocka_unit_test(former_defaults_are_known),
		cmocka_unit_test(rates_are_those_of_the_rule),
		cmocka_unit_test(the_last_flag_wins),
		cmocka_unit_test(every_field_has_its_variable),
		cmocka_unit_test(worlds_say_what_they_do_not_read),
		cmocka_unit_test(cuts_differ_by_world),
		cmocka_unit_test(a_file_is_read_like_its_text),
		cmocka_unit_test(what_is_kept_decides_about_the_usual_patience),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
