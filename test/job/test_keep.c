/* SPDX-License-Identifier: Apache-2.0 */
/* test_keep.c - train.keep: best: the result is the evaluation that was the best, whoever dies, and
 * train.patience ends the run.
 *
 * The rate is so high that the loss goes up and down, so the best evaluation is seldom the last.
 * Which one it is, is found by a loop over all of them. */
#include "checkpoint/digest.h"
#include "engine/score.h"
#include "job/reading.h"
#include "job/trial.h"
#include "spec/field.h"
#include "world/memory_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MOST         400

struct seen {
	double loss, samples;
	char digest[TW_DIGEST_TEXT]; /* "": it was not the best */
};

struct sight {
	struct seen at[MOST];
	size_t count;
	uint64_t cuts;
};

static bool see(void *arg, const struct tw_note *n)
{
	struct sight *s = arg;

	s->cuts += n->kind == TW_NOTE_CUT;
	if (n->kind != TW_NOTE_EVAL)
		return true;
	assert_true(s->count < MOST);
	s->at[s->count] = (struct seen){ n->eval.loss, n->eval.point.samples, { 0 } };
	if (n->eval.digest)
		snprintf(s->at[s->count].digest, TW_DIGEST_TEXT, "%s", n->eval.digest);
	s->count++;
	return true;
}

static const struct seen *least(const struct sight *s, size_t from)
{
	const struct seen *best = NULL;

	for (size_t k = from; k < s->count; k++)
		if (!best || s->at[k].loss < best->loss)
			best = &s->at[k];
	return best;
}

static void digest_of(const struct trial *t, const struct tw_ran *ran, char out[TW_DIGEST_TEXT])
{
	const struct tw_problem *p = &t->job->plan.problem;

	assert_non_null(ran->totals.vector);
	assert_int_equal(tw_digest_floats(ran->totals.vector, p->border, p->shards, 0, p->trainable,
					  NULL, out),
			 TW_OK);
}

/* Scored by hand, the vectors have this loss. */
static void has_loss(const struct trial *t, const struct tw_ran *ran, double loss)
{
	const struct tw_engine *e = t->engine;
	const size_t *border = t->job->plan.problem.border;
	float *vector = malloc((e->trainable + e->buffers) * sizeof *vector);
	void *scratch = malloc(e->scratch_bytes + 1);
	struct tw_score score;

	assert_true(vector && scratch);
	for (uint32_t s = 0; s < t->job->plan.problem.shards; s++)
		memcpy(vector + border[s], ran->totals.vector[s]->data,
		       (border[s + 1] - border[s]) * sizeof *vector);
	assert_int_equal(tw_score_all(e, vector, scratch, &score), TW_OK);
	assert_true(fabs(score.loss / score.samples - loss) <= 1e-6 * fabs(loss));
	free(vector);
	free(scratch);
}

/* The result is this evaluation. */
static void is_kept(const char *name, const struct trial *t, const struct tw_ran *ran,
		    const struct seen *best)
{
	char text[TW_DIGEST_TEXT];

	digest_of(t, ran, text);
	if (strcmp(text, best->digest) != 0)
		fail_msg("%s: the result is %s (kept: loss %.9g), the best evaluation %s (%.9g)",
			 name, text, ran->totals.kept.loss, best->digest, best->loss);
	assert_true(ran->totals.kept.loss == best->loss && ran->totals.loss == best->loss);
	assert_true(ran->totals.kept.samples == best->samples);
	has_loss(t, ran, best->loss);
}

#define PROBLEM                                                                                    \
	"model: {quadratic: {dimension: 30, curvature: [0.5, 1], noise: 6%s}}\n"                   \
	"data: {source: none, samples: 60, batch: 3%s}\n"                                          \
	"update: {rate: 0.1}\n"
#define PACE "compute: {law: exponential, mean: 50ms}, latency: 2ms, load_time: 5ms"

/* --- every strategy --- */

struct method {
	const char *strategy, *model, *data, *cluster;
};

static const struct method others[] = {
	{ "ring", "", "", "workers: 3, shards: 4" },
	{ "tree", "", "", "workers: 4, shards: 2" },
	{ "allreduce", "", "", "workers: 3, shards: 3" },
	{ "d-psgd", "", "", "workers: 4, shards: 2" },
	{ "gossip", "", "", "workers: 3, shards: 2" },
	{ "strom", "", "", "workers: 3, shards: 2" },
	{ "gpipe", ", stages: 3", ", accumulate: 3", "workers: 2, stages: 3" },
	{ "pipedream-flush", ", stages: 3", ", accumulate: 3", "workers: 1, stages: 3" },
	{ "pipedream", ", stages: 3", "", "workers: 2, stages: 3" },
	{ "pipedream-2bw", ", stages: 3", ", accumulate: 3", "workers: 1, stages: 3" },
	{ "{gate: bsp, pipeline: gpipe}", ", stages: 3", ", accumulate: 3",
	  "workers: 1, lanes: [2, 1, 2], place: with-stage" },
};

static void open_method(struct trial *t, const struct method *m, const char *train,
			const char *rest)
{
	trial_open(t, TW_WORLD_SIM,
		   PROBLEM "train: {epochs: 4, evaluate: 0.4, keep: best%s}\ncluster: {%s}\n"
			   "strategy: %s\n%s\n",
		   m->model, m->data, train, m->cluster, m->strategy, rest);
}

/* Kept where it is the best; was that the last one? */
static bool keeps(const struct method *m, const char *rest)
{
	struct sight s = { .count = 0 };
	struct tw_ran ran;
	struct trial t;
	bool last;

	open_method(&t, m, "", rest);
	t.observer = see;
	t.observer_arg = &s;
	assert_int_equal(trial_run(&t, &tw_heap_system, NULL, &ran), TW_OK);
	assert_true(s.count > 5);
	is_kept(m->strategy, &t, &ran, least(&s, 0));
	last = least(&s, 0) == &s.at[s.count - 1];
	tw_totals_release(&ran.totals);
	trial_close(&t);
	return last;
}

static void every_strategy(void **state)
{
	size_t lasts = 0, all = 0;

	(void)state;
	for (const char *name; (name = trial_preset(TW_WORLD_SIM, all)); all++) {
		const struct method m = { name, "", "", "workers: 4, servers: 2, shards: 3" };

		lasts += keeps(&m, "sim: {" PACE "}");
	}
	for (size_t k = 0; k < COUNT(others); k++, all++)
		lasts += keeps(&others[k], "sim: {" PACE "}");
	assert_true(all > 30 && 2 * lasts < all); /* else the last would do */
}

/* --- stopped and resumed --- */

static const struct method resumed[] = {
	{ "ssgd", "", "", "workers: 3, servers: 2, shards: 3" },
	{ "asgd", "", "", "workers: 3, servers: 2, shards: 3" },
	{ "ssp", "", "", "workers: 3, servers: 1, shards: 2" },
	{ "{name: diloco, push: 3}", "", "", "workers: 3, servers: 1, shards: 2" },
	{ "ring", "", "", "workers: 3, shards: 2" },
	{ "gossip", "", "", "workers: 3, shards: 2" },
	{ "pipedream", ", stages: 3", "", "workers: 1, stages: 3" },
};

/* Stopped after every cut and resumed, it ends with the same bits, kept at the same time. */
static void a_stop_changes_nothing(void **state)
{
	(void)state;
	for (size_t k = 0; k < COUNT(resumed); k++) {
		static const char rest[] = "checkpoint: {every: 120ms, cut: drain}\n"
					   "sim: {" PACE ", save_time: 1ms}";
		char whole[TW_DIGEST_TEXT], parts[TW_DIGEST_TEXT];
		struct tw_store *store = tw_memory_store_new(&tw_heap_system);
		struct tw_ran one, ran;
		struct trial t;
		unsigned stops = 0;

		open_method(&t, &resumed[k], ", patience: 8", rest);
		assert_int_equal(trial_run(&t, &tw_heap_system, NULL, &one), TW_OK);
		digest_of(&t, &one, whole);
		t.job->plan.checkpoint.stop_after = 1;
		while (trial_run(&t, &tw_heap_system, store, &ran) == TW_INTERRUPTED) {
			tw_totals_release(&ran.totals);
			t.resume = true;
			assert_true(++stops < 200);
		}
		assert_int_equal(ran.error.status, TW_OK);
		digest_of(&t, &ran, parts);
		assert_true(stops > 2);
		if (strcmp(parts, whole) != 0)
			fail_msg("%s: %s with %u stops (loss %.9g at %g), %s without (%.9g at %g)",
				 resumed[k].strategy, parts, stops, ran.totals.kept.loss,
				 ran.totals.kept.samples, whole, one.totals.kept.loss,
				 one.totals.kept.samples);
		assert_true(ran.totals.kept.loss == one.totals.kept.loss &&
			    ran.totals.kept.samples == one.totals.kept.samples &&
			    ran.totals.kept.number == one.totals.kept.number);
		tw_totals_release(&ran.totals);
		tw_totals_release(&one.totals);
		tw_memory_store_free(store);
		trial_close(&t);
	}
}

/* --- a server dies --- */

struct said {
	unsigned lost;
};

static void listen(void *arg, enum tw_level level, const char *who, const char *line)
{
	struct said *s = arg;

	(void)who;
	s->lost += level == TW_WARNING && strstr(line, "(train.keep)") != NULL;
}

/* Without a checkpoint the best so far is lost, which is said, and the best of those that follow is
 * the result; with one after it, it is not. */
static void a_server_dies(void **state)
{
	static const struct method m = { "asgd", "", "", "workers: 3, servers: 2, shards: 2" };
	unsigned lost = 0, kept = 0;

	(void)state;
	for (unsigned at = 100; at < 1400; at += 50) {
		char rest[300];
		struct sight s = { .count = 0 };
		struct said said = { 0 };
		const struct tw_log log = { .sink = listen, .arg = &said, .level = TW_INFO };
		const struct seen *best;
		struct tw_ran ran;
		struct trial t;

		snprintf(rest, sizeof rest,
			 "checkpoint: {every: %s, cut: running}\n"
			 "sim: {" PACE ", faults: [{crash: server 1, at: %ums, restart: 20ms}]}",
			 at % 100 ? "100ms" : "0s", at);
		open_method(&t, &m, "", rest);
		t.observer = see;
		t.observer_arg = &s;
		t.log = &log;
		assert_int_equal(trial_run(&t, &tw_heap_system, NULL, &ran), TW_OK);
		/* it is one of those that were the best when they were made */
		best = NULL;
		for (size_t k = 0; k < s.count; k++)
			if (s.at[k].digest[0] && s.at[k].loss == ran.totals.kept.loss)
				best = &s.at[k];
		assert_non_null(best);
		is_kept("asgd", &t, &ran, best);
		assert_true(said.lost <= 1);
		if (!said.lost)
			assert_true(best->loss == least(&s, 0)->loss);
		lost += said.lost;
		kept += !said.lost && at % 100 && s.cuts;
		tw_totals_release(&ran.totals);
		trial_close(&t);
	}
	assert_true(lost > 3 && kept > 3);
}

/* --- patience --- */

/* Where a run that looks at these losses ends: the evaluation after which there are `patience` in a
 * row that were no better. */
static size_t ends_after(const struct sight *s, size_t patience)
{
	size_t best = 0;

	for (size_t k = 1; k < s->count; k++) {
		if (s->at[k].loss < s->at[best].loss)
			best = k;
		if (k - best >= patience)
			return k + 1;
	}
	return s->count;
}

static void patience_ends_the_run(void **state)
{
	static const struct method ways[] = {
		{ "ssgd", "", "", "workers: 3, servers: 1, shards: 2" },
		{ "asgd", "", "", "workers: 1, servers: 1, shards: 2" },
		{ "ring", "", "", "workers: 2, shards: 2" },
	};
	size_t early = 0;

	(void)state;
	for (size_t w = 0; w < COUNT(ways); w++) {
		struct sight all = { .count = 0 };
		struct tw_ran ran;
		struct trial t;

		open_method(&t, &ways[w], "", "sim: {" PACE "}");
		t.observer = see;
		t.observer_arg = &all;
		assert_int_equal(trial_run(&t, &tw_heap_system, NULL, &ran), TW_OK);
		assert_false(ran.totals.out_of_patience);
		tw_totals_release(&ran.totals);
		trial_close(&t);
		for (size_t patience = 1; patience < 6; patience++) {
			const size_t end = ends_after(&all, patience);
			struct sight s = { .count = 0 };
			char train[60];

			snprintf(train, sizeof train, ", patience: %zu", patience);
			open_method(&t, &ways[w], train, "sim: {" PACE "}");
			t.observer = see;
			t.observer_arg = &s;
			assert_int_equal(trial_run(&t, &tw_heap_system, NULL, &ran), TW_OK);
			if (s.count != end)
				fail_msg("%s: %zu evaluations with patience %zu, not %zu",
					 ways[w].strategy, s.count, patience, end);
			assert_true(ran.totals.out_of_patience == (end < all.count));
			is_kept(ways[w].strategy, &t, &ran, least(&s, 0));
			early += end < all.count;
			tw_totals_release(&ran.totals);
			trial_close(&t);
		}
	}
	assert_true(early > 5);
}

/* --- with other ends --- */

/* The evaluation that reaches the goal is the result. */
static void a_goal_is_kept(void **state)
{
	static const struct method m = { "asgd", "", "", "workers: 2, servers: 1, shards: 2" };
	struct sight all = { .count = 0 }, s = { .count = 0 };
	char train[60];
	struct tw_ran ran;
	struct trial t;

	(void)state;
	open_method(&t, &m, "", "sim: {" PACE "}");
	t.observer = see;
	t.observer_arg = &all;
	assert_int_equal(trial_run(&t, &tw_heap_system, NULL, &ran), TW_OK);
	tw_totals_release(&ran.totals);
	trial_close(&t);
	snprintf(train, sizeof train, ", until: {loss: %.9g}", least(&all, 0)->loss * 1.0001);
	open_method(&t, &m, train, "sim: {" PACE "}");
	t.observer = see;
	t.observer_arg = &s;
	assert_int_equal(trial_run(&t, &tw_heap_system, NULL, &ran), TW_OK);
	assert_true(ran.totals.goal.reached && s.count <= all.count);
	is_kept("until", &t, &ran, &s.at[s.count - 1]);
	tw_totals_release(&ran.totals);
	trial_close(&t);
}

static void the_time_is_up(void **state)
{
	static const struct method ways[] = {
		{ "asgd", "", "", "workers: 2, servers: 1, shards: 2" },
		{ "ssgd", "", "", "workers: 2, servers: 1, shards: 2" },
		{ "gossip", "", "", "workers: 2, shards: 2" },
	};

	(void)state;
	for (size_t w = 0; w < COUNT(ways); w++) {
		struct sight s = { .count = 0 };
		struct tw_ran ran;
		struct trial t;

		open_method(&t, &ways[w], ", time: 1200ms", "sim: {" PACE "}");
		t.observer = see;
		t.observer_arg = &s;
		assert_int_equal(trial_run(&t, &tw_heap_system, NULL, &ran), TW_OK);
		assert_true(s.count > 1 && ran.totals.epochs < 4);
		is_kept(ways[w].strategy, &t, &ran, least(&s, 0));
		tw_totals_release(&ran.totals);
		trial_close(&t);
	}
}

/* --- in threads --- */

static void with_threads(void **state)
{
	static const struct method ways[] = {
		{ "asgd", "", "", "workers: 4, servers: 2, shards: 3" },
		{ "hogwild", "", "", "workers: 3, servers: 1, shards: 2" },
		{ "ring", "", "", "workers: 3, shards: 2" },
		{ "easgd", "", "", "workers: 3, servers: 1, shards: 2" },
	};

	(void)state;
	for (size_t w = 0; w < COUNT(ways); w++) {
		struct sight s = { .count = 0 };
		struct tw_ran ran;
		struct trial t;

		trial_open(&t, TW_WORLD_THREADS,
			   PROBLEM "train: {epochs: 6, evaluate: 0.4, keep: best}\n"
				   "cluster: {%s}\nstrategy: %s\n",
			   "", "", ways[w].cluster, ways[w].strategy);
		t.observer = see;
		t.observer_arg = &s;
		assert_int_equal(trial_run(&t, &tw_heap_system, NULL, &ran), TW_OK);
		is_kept(ways[w].strategy, &t, &ran, least(&s, 0));
		tw_totals_release(&ran.totals);
		trial_close(&t);
	}
}

/* --- jobs --- */

#define JOB "data: {samples: 100, batch: 4}\nmodel: {quadratic: {dimension: 20}}\n"

static void jobs(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ JOB "train: {patience: 3}\n",
		  "train.patience: counts evaluations that are no better than the best one, and "
		  "keep: last does not look for it; use keep: best, or leave this out" },
		{ JOB "train: {keep: last, patience: 3}\n", "train.patience: counts evaluations" },
		{ JOB "train: {measure: accuracy}\n",
		  "train.measure: says which evaluation is the best, and keep: last does not look "
		  "for it" },
		{ JOB "train: {keep: best, measure: accuracy}\n",
		  "train.measure: values have no accuracy; use measure: loss" },
		{ JOB "train: {keep: best, evaluate: 0}\n",
		  "train.evaluate: train.keep: best chooses among evaluations, and 0 evaluates "
		  "only at the end; use evaluate: 1, or keep: last" },
		{ JOB "train: {keep: best}\nstrategy: sandblaster\n",
		  "train.keep: an optimiser tries points that it may not accept" },
		{ JOB "train: {keep: first}\n", "train.keep: " },
		{ JOB "train: {keep: best, measure: f1}\n", "train.measure: " },
		{ JOB "train: {keep: best, patience: -1}\n", "train.patience: " },
		{ JOB "train: {keep: best, patience: 1.5}\n", "train.patience: " },
	};
	struct tw_job *job = good_job(JOB "train: {keep: best}\n", NULL, TW_WORLD_SIM);

	(void)state;
	assert_true(job->plan.evaluate_every == 1 && job->plan.keeping.best &&
		    !job->plan.keeping.by_accuracy && !job->plan.keeping.patience);
	tw_job_free(job);
	for (size_t k = 0; k < COUNT(cases); k++) {
		const char *const none[] = { NULL };
		struct tw_error why = { 0 };

		job = NULL;
		assert_int_equal(read_job(cases[k].text, none, NULL, TW_WORLD_SIM, &job, &why),
				 TW_BAD_INPUT);
		if (!strstr(why.text, cases[k].says))
			fail_msg("%s\nis refused with: %s", cases[k].text, why.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_strategy), cmocka_unit_test(a_stop_changes_nothing),
		cmocka_unit_test(a_server_dies),  cmocka_unit_test(patience_ends_the_run),
		cmocka_unit_test(a_goal_is_kept), cmocka_unit_test(the_time_is_up),
		cmocka_unit_test(with_threads),   cmocka_unit_test(jobs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
