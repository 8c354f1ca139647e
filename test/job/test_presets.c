/* SPDX-License-Identifier: Apache-2.0 */
/* test_presets.c - every preset resolves, means what it says, and is explained in full. */
#include "job/reading.h"
#include "job/serial.h"
#include "spec/field.h"

#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct tw_job *preset_job(const struct tw_preset *p, enum tw_world_kind world)
{
	char text[600];

	snprintf(text, sizeof text, SMALL "cluster: {workers: %d}\nstrategy: %s\n",
		 has_stages(p) ? 1 : 4, p->name);
	return good_job(text, NULL, world);
}

static bool sim_takes(const struct tw_preset *p)
{
	return strcmp(p->name, "hogwild") != 0;
}

static void explains_again(const char *text, enum tw_world_kind world)
{
	struct tw_job *job = good_job(text, NULL, world);
	char *first = explained(job), *second;
	struct tw_job *again = good_job(first, NULL, world);

	second = explained(again);
	assert_string_equal(first, second);
	assert_true(tw_sha_same(&job->plan.checkpoint.job_hash, &again->plan.checkpoint.job_hash));
	assert_false(tw_sha_none(&job->plan.checkpoint.job_hash));
	assert_string_equal(job->title, again->title);
	assert_true(job->plan.dealing.positions == again->plan.dealing.positions);
	assert_true(job->plan.dealing.warm_until == again->plan.dealing.warm_until);
	assert_int_equal(job->faults, again->faults);
	for (size_t k = 0; k < job->faults; k++)
		assert_memory_equal(&job->fault[k], &again->fault[k], sizeof job->fault[k]);
	free(first);
	free(second);
	tw_job_free(job);
	tw_job_free(again);
}

static void presets_explain_to_themselves(void **state)
{
	(void)state;
	for (const struct tw_preset *p = tw_presets; p->name; p++) {
		char text[600];

		snprintf(text, sizeof text, SMALL "cluster: {workers: %d}\nstrategy: %s\n",
			 has_stages(p) ? 1 : 4, p->name);
		explains_again(text, TW_WORLD_THREADS);
		if (sim_takes(p))
			explains_again(text, TW_WORLD_SIM);
	}
}

static void unusual_jobs_explain_to_themselves(void **state)
{
	static const char *const texts[] = {
		SMALL "strategy: {name: downpour, push: 3, fetch: 4, local: {rule: momentum, "
		      "momentum: 0.5, rate: 0.01}, merge: keep}\ntrain: {epochs: 3}\n",
		SMALL "strategy: {name: fasgd, skip: {push: 0.1, fetch: 0.01}, codec: {up: bf16, "
		      "down: fp16}}\nupdate: {schedule: {kind: step, at: [0.5, 0.75], factor: "
		      "0.3333333333333333, warmup: 0.1}, clip: 1.5, decay: 1e-4}\n",
		SMALL
		"strategy: {name: rudra, n: 2}\ncluster: {workers: 9, servers: 2, shards: 3}\n"
		"train: {updates: 100, until: {loss: -1.25}, evaluate: 0.25}\n",
		"data: {samples: 100, global_batch: 7, accumulate: 2}\n"
		"model: {least-squares: {dimension: 12, blocks: 4}}\n"
		"cluster: {workers: 3}\nstrategy: dc-ssgd\nupdate: {schedule: {kind: cosine}}\n",
		SMALL "cluster: {workers: 5, servers: 2}\n"
		      "sim:\n"
		      "  compute: {law: log-normal, median: 100ms, sigma: 0.2}\n"
		      "  speeds: [1, 0.5, 0.1]\n"
		      "  faults:\n"
		      "    - {crash: worker 3, at: 5s, restart: 2s}\n"
		      "    - {crash: master, at: 1500ms}\n"
		      "    - {crash: server 1, event: 1234, restart: 1ms}\n"
		      "    - {partition: worker 2, from: everybody, at: 3s, lasts: 20s}\n"
		      "    - {partition: worker 2, from: server 0, at: 3s, lasts: 1h}\n"
		      "    - {reset: worker 1, to: master, at: 2s}\n"
		      "    - {slow: worker 4, factor: 8.5, at: 1s, lasts: 10s}\n"
		      "    - {leave: worker 0, at: 4s}\n",
		SMALL
		"cluster: {workers: 1}\nsim: {delay: {steps: 8, law: geometric, ramp: 2 epochs}}\n",
	};

	(void)state;
	for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++)
		explains_again(texts[k], TW_WORLD_SIM);
}

/* Every leaf of a preset is a field that the preset's own choices bring in, and has its value. */
static void leaves_are_fields(const struct tw_job *job, const struct tw_tree *map, const char *path)
{
	for (const struct tw_tree *c = map->first; c; c = c->next) {
		char whole[200];
		const struct tw_field *f;

		snprintf(whole, sizeof whole, "%s%s%s", path, *path ? "." : "", c->key);
		if (c->kind == TW_TREE_MAP) {
			leaves_are_fields(job, c, whole);
			continue;
		}
		f = tw_job_field(job, whole);
		if (!f || !f->from)
			fail_msg("preset %s: %s is no field of it", job->strategy.name, whole);
		assert_int_equal(f->from->origin, TW_FROM_PRESET);
		assert_string_equal(f->from->text, c->text);
	}
}

static void presets_have_no_dead_fields(void **state)
{
	(void)state;
	for (const struct tw_preset *p = tw_presets; p->name; p++) {
		const struct tw_text_source source = { .name = "preset", .origin = TW_FROM_PRESET };
		struct tw_job *job = preset_job(p, TW_WORLD_THREADS);
		struct tw_error why = { 0 };
		struct tw_tree *fields = NULL;

		assert_int_equal(tw_tree_read(&job->arena, &source, p->fields, strlen(p->fields),
					      &fields, &why),
				 TW_OK);
		leaves_are_fields(job, fields, "");
		assert_string_equal(job->title, p->name);
		assert_true(tw_preset_find(p->name) == p);
		tw_job_free(job);
	}
	assert_null(tw_preset_find("nothing"));
}

static void value_is(const struct tw_job *job, const char *path, const char *text)
{
	const struct tw_field *f = tw_job_field(job, path);

	if (!f)
		fail_msg("%s: no field %s", job->title, path);
	assert_string_equal(tw_field_text(f->row, f->base, (struct tw_arena *)&job->arena), text);
}

static void presets_mean_their_papers(void **state)
{
	static const struct {
		const char *name, *gate, *staleness, *rule, *path, *value;
	} want[] = {
		{ "ssgd", "bsp", "none", "sgd", "strategy.apply", "sum" },
		{ "backup", "backup", "none", "sgd", "strategy.extra", "1" },
		{ "ring", "bsp", "none", "sgd", "strategy.topology.schedule", "ring" },
		{ "tree", "bsp", "none", "sgd", "strategy.topology.schedule", "tree" },
		{ "allreduce", "bsp", "none", "sgd", "strategy.topology.schedule", "direct" },
		{ "asgd", "async", "none", "sgd", "strategy.push", "1" },
		{ "downpour", "async", "none", "adagrad", "train.warm.workers", "1" },
		{ "softsync", "softsync", "none", "sgd", "strategy.collect", "4" },
		{ "staleness-aware", "softsync", "inverse", "sgd", "strategy.collect", "1" },
		{ "rudra", "softsync", "mean", "sgd", "strategy.collect", "4" },
		{ "ssp", "ssp", "none", "sgd", "strategy.lead", "3" },
		{ "fasgd", "async", "fasgd", "sgd", "strategy.skip.push", "none" },
		{ "dc-asgd", "async", "delay", "sgd", "strategy.lambda", "0.04" },
		{ "dc-asgd-a", "async", "delay-adaptive", "sgd", "strategy.lambda", "2" },
		{ "dc-ssgd", "bsp", "delay", "sgd", "strategy.apply", "in-turn" },
		{ "gap-aware", "async", "gap", "momentum", "update.momentum", "0.9" },
		{ "multi-asgd", "async", "none", "multi", "update.nesterov", "true" },
		{ "nag-asgd", "async", "none", "nag", "strategy.send", "gradient" },
		{ "dana", "async", "none", "dana", "strategy.send", "gradient" },
		{ "dana-slim", "async", "none", "dana", "strategy.send", "momentum" },
		{ "dana-dc", "async", "delay", "dana", "strategy.lambda", "2" },
		{ "averaging", "bsp", "none", "sgd", "strategy.outer.rule", "average" },
		{ "update-based", "bsp", "none", "sgd", "strategy.outer.per_worker", "1" },
		{ "local-sgd", "bsp", "none", "sgd", "strategy.push", "8" },
		{ "post-local-sgd", "bsp", "none", "sgd", "strategy.push_after", "-1" },
		{ "bmuf", "bsp", "none", "sgd", "strategy.outer.gain", "1" },
		{ "easgd", "async", "none", "sgd", "strategy.merge", "elastic" },
		{ "eamsgd", "async", "none", "nag", "strategy.elasticity", "0.9" },
		{ "diloco", "bsp", "none", "adamw", "strategy.outer.rate", "0.7" },
		{ "streaming-diloco", "bsp", "none", "adamw", "strategy.fragments", "4" },
		{ "async-diloco", "async", "none", "adamw", "strategy.outer.rule",
		  "delayed-nesterov" },
		{ "fedbuff", "softsync", "polynomial", "sgd", "strategy.power", "0.5" },
		{ "fedasync", "async", "polynomial", "sgd", "strategy.outer.rate", "0.6" },
		{ "delay-adaptive", "async", "proportional", "sgd", "strategy.send", "gradient" },
		{ "ringmaster", "ringmaster", "none", "sgd", "strategy.limit", "4" },
		{ "rennala", "softsync", "none", "sgd", "strategy.fresh", "true" },
		{ "malenia", "malenia", "none", "sgd", "strategy.collect", "8" },
		{ "hogwild", "hogwild", "none", "sgd", "strategy.fetch", "1" },
		{ "d-psgd", "bsp", "none", "sgd", "strategy.topology.mixing", "neighbours" },
		{ "gossip", "async", "none", "sgd", "strategy.topology.mixing", "gossip" },
		{ "strom", "async", "none", "sgd", "strategy.codec.up", "threshold" },
		{ "gpipe", "bsp", "none", "sgd", "strategy.pipeline.schedule", "gpipe" },
		{ "pipedream-flush", "bsp", "none", "sgd", "strategy.pipeline.schedule",
		  "1f1b-flush" },
		{ "pipedream", "async", "none", "sgd", "strategy.pipeline.stash", "true" },
		{ "pipedream-2bw", "async", "none", "sgd", "strategy.pipeline.schedule", "2bw" },
		{ "sandblaster", "portions", "none", "sgd", "optimiser.name", "lbfgs" },
	};
	size_t count = 0;

	(void)state;
	while (tw_presets[count].name)
		count++;
	assert_int_equal(count, sizeof want / sizeof want[0]);
	for (size_t k = 0; k < count; k++) {
		const struct tw_preset *p = tw_preset_find(want[k].name);
		struct tw_job *job;

		assert_non_null(p);
		job = preset_job(p, sim_takes(p) ? TW_WORLD_SIM : TW_WORLD_THREADS);
		assert_string_equal(job->plan.gate->name, want[k].gate);
		assert_string_equal(job->plan.staleness->name, want[k].staleness);
		assert_string_equal(tw_plan_update(&job->plan)->rule->name, want[k].rule);
		value_is(job, want[k].path, want[k].value);
		tw_job_free(job);
	}
}

static void local_steps_come_with_a_fetch_period(void **state)
{
	struct tw_job *job = good_job(SMALL "strategy: downpour\n", NULL, TW_WORLD_SIM);

	(void)state;
	assert_null(job->plan.local.rule);
	tw_job_free(job);
	job = good_job(SMALL "strategy: {name: downpour, fetch: 5}\nupdate: {rate: 0.25}\n", NULL,
		       TW_WORLD_SIM);
	assert_non_null(job->plan.local.rule);
	assert_string_equal(job->plan.local.rule->name, "sgd");
	assert_true(job->plan.local.rate == 0.25f);
	tw_job_free(job);
}

static void n_follows_the_workers(void **state)
{
	struct tw_job *job = good_job(SMALL "strategy: {name: rudra, n: 4}\n", "cluster.workers=30",
				      TW_WORLD_SIM);
	struct tw_job *other;
	char *text;

	(void)state;
	value_is(job, "strategy.collect", "7");
	assert_int_equal(tw_job_collects(job), 7);
	text = explained(job);
	assert_non_null(strstr(text, "\n  n: 4\n"));
	assert_null(strstr(text, "collect:"));
	free(text);
	other = good_job(SMALL "strategy: {name: rudra, n: 4}\n", "cluster.workers=12",
			 TW_WORLD_SIM);
	assert_true(tw_sha_same(&job->plan.checkpoint.job_hash, &other->plan.checkpoint.job_hash));
	tw_job_free(job);
	tw_job_free(other);
	job = good_job(SMALL "strategy: {name: rudra, collect: 2}\n", NULL, TW_WORLD_SIM);
	value_is(job, "strategy.collect", "2");
	tw_job_free(job);
}

/* What a job leaves open, its resolved form says: n, or workers / contributions of an update. */
static void the_mean_staleness_follows_the_job(void **state)
{
	static const struct {
		const char *strategy, *workers, *expected;
	} cases[] = {
		{ "rudra", "cluster.workers=30", "1" },
		{ "{name: rudra, n: 4}", "cluster.workers=30", "4" }, /* and not 30 / 7 */
		{ "{name: rudra, collect: 4}", "cluster.workers=30", "7.5" },
		{ "{name: rudra, n: 4, expected: 2.5}", "cluster.workers=30", "2.5" },
		{ "{gate: async, staleness: mean}", "cluster.workers=12", "12" },
		{ "{gate: softsync, collect: 5, staleness: mean}", "cluster.workers=5", "1" },
	};

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		char text[200];
		struct tw_job *job, *other;
		char *said;

		snprintf(text, sizeof text, SMALL "strategy: %s\n", cases[k].strategy);
		job = good_job(text, cases[k].workers, TW_WORLD_SIM);
		value_is(job, "strategy.expected", cases[k].expected);
		said = explained(job);
		assert_non_null(strstr(said, "\n  expected: "));
		/* the resolved job is the same job, and so is one with other workers */
		other = good_job(said, NULL, TW_WORLD_SIM);
		assert_true(tw_sha_same(&job->plan.checkpoint.job_hash,
					&other->plan.checkpoint.job_hash));
		value_is(other, "strategy.expected", cases[k].expected);
		tw_job_free(other);
		other = good_job(text, "cluster.workers=28", TW_WORLD_SIM);
		assert_true(tw_sha_same(&job->plan.checkpoint.job_hash,
					&other->plan.checkpoint.job_hash));
		tw_job_free(other);
		tw_job_free(job);
		free(said);
	}
}

/* Rows of a gate, a policy and the strategy lie side by side: no name may be there twice. */
/* cluster: may change when a run resumes, so the job is the same with any number of workers.  Only
 * subsets of the data follow from that number. */
static void the_job_is_the_same_with_other_workers(void **state)
{
	static const int workers[] = { 1, 2, 3, 8 };
	int compared = 0;

	(void)state;
	for (const struct tw_preset *p = tw_presets; p->name; p++) {
		struct tw_sha first = { 0 };

		for (size_t k = 0; k < sizeof workers / sizeof workers[0]; k++) {
			struct tw_error why = { 0 };
			struct tw_job *job = NULL;
			char text[600];

			snprintf(text, sizeof text, SMALL "cluster: {workers: %d}\nstrategy: %s\n",
				 workers[k], p->name);
			if (read_job(text, NULL, NULL, TW_WORLD_THREADS, &job, &why) != TW_OK)
				continue; /* some need several */
			if (tw_sha_none(&first) || job->data.deal != TW_DEAL_SHUFFLED)
				first = job->plan.checkpoint.job_hash;
			if (!tw_sha_same(&first, &job->plan.checkpoint.job_hash))
				fail_msg("%s with %d workers is another job", p->name, workers[k]);
			tw_job_free(job);
			compared++;
		}
	}
	assert_true(compared > 60);
}

static void flattened_names_are_unique(void **state)
{
	(void)state;
	for (size_t g = 0; tw_gate_all[g]; g++)
		for (size_t s = 0; tw_staleness_all[s]; s++) {
			const struct tw_option *lists[] = { tw_strategy_rows,
							    tw_gate_all[g]->options,
							    tw_staleness_all[s]->options };

			for (size_t a = 0; a < 3; a++)
				for (size_t b = a + 1; lists[a] && b < 3; b++)
					for (const struct tw_option *r = lists[a]; r->name; r++)
						if (lists[b])
							assert_null(
								tw_option_find(lists[b], r->name));
		}
	for (size_t k = 0; tw_rule_all[k]; k++)
		for (const struct tw_option *r = tw_update_rows; r->name; r++)
			if (tw_rule_all[k]->options)
				assert_null(tw_option_find(tw_rule_all[k]->options, r->name));
}

/* What the tables have, people can read. */
static void everything_is_in_the_reference(void **state)
{
	char *md = NULL, *man = NULL, *list = NULL;
	size_t a, b, c;
	FILE *out[3] = { open_memstream(&md, &a), open_memstream(&man, &b),
			 open_memstream(&list, &c) };
	struct tw_group g;

	(void)state;
	tw_job_reference(out[0], TW_REFERENCE_MARKDOWN);
	tw_job_reference(out[1], TW_REFERENCE_ROFF);
	tw_job_strategies(out[2]);
	for (size_t k = 0; k < 3; k++)
		fclose(out[k]);
	for (size_t k = 0; tw_group_at(k, &g); k++)
		for (const struct tw_option *row = g.rows; row->name; row++) {
			char path[200];

			snprintf(path, sizeof path, "| `%s%s` |", g.prefix, row->name);
			if (!strstr(md, path))
				fail_msg("%s is not in the reference", path);
			assert_non_null(row->help);
		}
	for (const struct tw_preset *p = tw_presets; p->name; p++) {
		assert_non_null(strstr(list, p->name));
		assert_non_null(strstr(list, p->paper));
		assert_non_null(strstr(md, p->help));
	}
	for (size_t k = 0; tw_gate_all[k]; k++)
		assert_non_null(strstr(list, tw_gate_all[k]->help));
	for (size_t k = 0; tw_rule_all[k]; k++)
		assert_non_null(strstr(list, tw_rule_all[k]->help));
	for (size_t k = 0; tw_codec_all[k]; k++)
		assert_non_null(strstr(list, tw_codec_all[k]->help));
	for (const char *p = man; p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL)
		if (*p == '.') /* every request is one of three */
			assert_true(strncmp(p, ".TP", 3) == 0 || strncmp(p, ".B ", 3) == 0 ||
				    strncmp(p, ".SS", 3) == 0 || strncmp(p, ".PP", 3) == 0);
	free(md);
	free(man);
	free(list);
}

/* Pipelines name no staleness policy, so that a correction of late gradients is one field more: it
 * means what the same fields mean when they are spelt out. */
static void late_gradients_of_pipelines_are_one_field(void **state)
{
	static const char base[] = "model: {quadratic: {dimension: 40, stages: 4, noise: 0.1}}\n"
				   "data: {source: none, samples: 200, batch: 2%s}\n"
				   "train: {epochs: 2, seed: 3}\nupdate: {rate: 0.01}\n"
				   "cluster: {workers: 1, stages: 4}\nstrategy: {%s}\n";
	static const struct {
		const char *data, *named, *spelt;
	} pairs[] = {
		{ "", "name: pipedream", "gate: async, pipeline: {schedule: pipedream}" },
		{ "", "name: pipedream, staleness: pipemare, anneal: 30",
		  "gate: async, staleness: pipemare, anneal: 30, pipeline: {schedule: pipedream}" },
		{ "", "name: pipedream, staleness: inverse",
		  "gate: async, staleness: inverse, pipeline: {schedule: pipedream}" },
		{ ", accumulate: 8", "name: pipedream-2bw, staleness: pipemare",
		  "gate: async, staleness: pipemare, pipeline: {schedule: 2bw}" },
	};
	char digests[4][TW_DIGEST_TEXT];

	(void)state;
	for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++) {
		struct outcome named, spelt;

		outcome_of(&named, TW_WORLD_SIM, base, pairs[k].data, pairs[k].named);
		outcome_of(&spelt, TW_WORLD_SIM, base, pairs[k].data, pairs[k].spelt);
		assert_string_equal(named.digest, spelt.digest);
		memcpy(digests[k], named.digest, sizeof digests[k]);
		outcome_close(&named);
		outcome_close(&spelt);
	}
	assert_string_not_equal(digests[0], digests[1]);
	assert_string_not_equal(digests[0], digests[2]);
	assert_string_not_equal(digests[1], digests[2]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(presets_explain_to_themselves),
		cmocka_unit_test(unusual_jobs_explain_to_themselves),
		cmocka_unit_test(presets_have_no_dead_fields),
		cmocka_unit_test(presets_mean_their_papers),
		cmocka_unit_test(late_gradients_of_pipelines_are_one_field),
		cmocka_unit_test(local_steps_come_with_a_fetch_period),
		cmocka_unit_test(n_follows_the_workers),
		cmocka_unit_test(the_mean_staleness_follows_the_job),
		cmocka_unit_test(the_job_is_the_same_with_other_workers),
		cmocka_unit_test(flattened_names_are_unique),
		cmocka_unit_test(everything_is_in_the_reference),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
