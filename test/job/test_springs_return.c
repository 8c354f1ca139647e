/* SPDX-License-Identifier: Apache-2.0 */
/* test_springs_return.c - what elastic averaging takes from a worker and no shard applies goes back
 * to the worker: at rest, the sum of all own parameters and the centre stays what it was, whoever
 * is late and whichever server dies.  Also what results say of deltas. */
#include "checkpoint/digest.h"
#include "job/deltas.h"
#include "node/checkpoint_part.h"
#include "run/run.h"
#include "world/memory_store.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define DIMENSION    6
#define MOST_CUTS    400

/* A store that adds up what passes through it, and a run that it watches. */
struct ledger {
	struct tw_store store; /* must stay first */
	struct tw_store *real;
	double sum[MOST_CUTS][DIMENSION]; /* own parameters and centre, by cut */
	uint32_t cuts, workers;
	uint64_t making;                /* the cut whose parts come, */
	uint32_t found;                 /* and those of workers so far */
	uint32_t rest;                  /* cuts before the last step whose rate was not 0 */
	uint64_t applied;               /* since the last cut */
	uint64_t fenced, dropped, lost; /* at rest; lost: applied, and gone with a server */
};

static void add_part(const struct tw_part *p, double *sum, uint32_t *found)
{
	const bool worker = strncmp(p->name, "worker ", 7) == 0;
	struct tw_array *list;
	const struct tw_array *a;
	size_t count;

	if (!worker && strncmp(p->name, "shard ", 6) != 0)
		return;
	assert_int_equal(
		tw_part_unpack(p->bytes->data, p->bytes->bytes, &tw_heap_system, &list, &count),
		TW_OK);
	a = tw_part_find(list, count, "parameters");
	assert_non_null(a);
	for (size_t i = 0; i < a->n; i++)
		sum[a->from + i] += (double)((const float *)a->at)[i];
	*found += worker;
	tw_heap_system.put(&tw_heap_system, list);
}

/* What was put of a cut that was given up does not count. */
static void begin_cut(struct ledger *l, uint64_t cut)
{
	assert_true(l->cuts < MOST_CUTS);
	if (l->making == cut)
		return;
	memset(l->sum[l->cuts], 0, sizeof l->sum[l->cuts]);
	l->found = 0;
	l->making = cut;
}

static enum tw_status ledger_save(struct tw_store *s, uint64_t cut, const struct tw_part *parts,
				  size_t count)
{
	struct ledger *l = (struct ledger *)s;

	begin_cut(l, cut);
	for (size_t k = 0; k < count; k++)
		if (parts[k].bytes) /* others were put before */
			add_part(&parts[k], l->sum[l->cuts], &l->found);
	assert_int_equal(l->found, l->workers);
	l->cuts++;
	l->making = 0;
	return l->real->save(l->real, cut, parts, count);
}

static enum tw_status ledger_put(struct tw_store *s, uint64_t cut, const struct tw_part *part)
{
	struct ledger *l = (struct ledger *)s;

	begin_cut(l, cut);
	add_part(part, l->sum[l->cuts], &l->found);
	return l->real->put(l->real, cut, part);
}

static enum tw_status ledger_load(struct tw_store *s, uint64_t *cut, struct tw_part **parts,
				  size_t *count)
{
	struct ledger *l = (struct ledger *)s;

	return l->real->load(l->real, cut, parts, count);
}

static void ledger_free(struct tw_store *s, struct tw_part *parts, size_t count)
{
	struct ledger *l = (struct ledger *)s;

	l->real->loaded_free(l->real, parts, count);
}

static bool ledger_note(void *arg, const struct tw_note *n)
{
	struct ledger *l = arg;

	switch (n->kind) {
	case TW_NOTE_STEP: /* the rate is 0 from the second epoch on */
		if (n->from < 48) {
			l->rest = l->cuts;
			l->fenced = l->dropped = l->lost = 0;
		}
		break;
	case TW_NOTE_APPLY:
		l->applied++;
		break;
	case TW_NOTE_CUT:
		l->applied = 0;
		break;
	case TW_NOTE_HOSTED:
		l->lost += n->hosted.cut ? l->applied : 0;
		l->applied = 0;
		break;
	case TW_NOTE_REFUSED:
		l->fenced += n->refused.fenced;
		break;
	case TW_NOTE_DROP:
		l->dropped++;
		break;
	default:
		break;
	}
	return true;
}

/* Is the sum the same in all cuts at rest?  At least two of them are. */
static bool run_and_compare(struct ledger *l, const char *text, uint32_t workers, double *worst)
{
	struct outcome o;

	*l = (struct ledger){ .store = { ledger_save, ledger_load, ledger_free, ledger_put },
			      .real = tw_memory_store_new(&tw_heap_system),
			      .workers = workers };
	assert_non_null(l->real);
	outcome_open(&o, text, NULL, TW_WORLD_SIM);
	outcome_run(&o,
		    &(const struct watch){ .store = &l->store, .observer = ledger_note, .arg = l });
	*worst = 0;
	for (uint32_t k = l->rest; k < l->cuts; k++)
		for (size_t i = 0; i < DIMENSION; i++)
			*worst = fmax(*worst, fabs(l->sum[k][i] - l->sum[l->rest][i]));
	outcome_close(&o);
	tw_memory_store_free(l->real);
	return l->cuts >= l->rest + 2;
}

#define SPRINGS                                                                                    \
	"model: {quadratic: {dimension: 6, curvature: [0.5, 1], noise: 1}}\n"                      \
	"data: {source: none, samples: 48, batch: 1}\n"                                            \
	"train: {epochs: 12, seed: %u}\ncheckpoint: {every: %s}\n"                                 \
	"update: {rule: %s, rate: 0.3, schedule: {kind: step, at: [1], factor: 0}}\n"              \
	"cluster: {workers: %u, shards: %u, wait: 20s, limit: 20s}\nstrategy: {%s}\n"              \
	"sim: {compute: {law: exponential, mean: 100ms}, latency: %s, threads: 1%s}\n"

/* Rounds that close without the slowest. */
static void who_is_late_keeps_its_own(void **state)
{
	struct ledger l;
	uint64_t dropped = 0;
	uint32_t runs = 0;

	(void)state;
	for (uint32_t seed = 1; seed <= 20; seed++) {
		char text[1500];
		double worst;

		snprintf(text, sizeof text, SPRINGS, seed, "700ms", seed % 2 ? "sgd" : "nag", 4u,
			 1 + seed % 3,
			 "gate: backup, extra: 1, send: delta, push: 2, merge: elastic, alpha: "
			 "0.2, outer: {rule: add}",
			 "3ms", "");
		if (!run_and_compare(&l, text, 4, &worst))
			continue;
		runs++;
		dropped += l.dropped;
		if (!(worst < 2e-5))
			fail_msg("seed %u: the sum moves by %g, with %llu late contributions", seed,
				 worst, (unsigned long long)l.dropped);
	}
	assert_true(runs > 10 && dropped > 100);
}

/* A server dies with pushes on their way to it.  Where it had applied something since its last
 * checkpoint, that is lost: those runs are only counted. */
static void what_a_dead_server_did_not_take_comes_back(void **state)
{
	struct ledger l;
	uint32_t clean = 0, with_loss = 0;
	uint64_t fenced = 0;

	(void)state;
	for (uint32_t seed = 1; seed <= 4; seed++)
		for (uint32_t at = 14000; at < 30000; at += 170) {
			char text[1500], faults[120];
			double worst;

			snprintf(faults, sizeof faults,
				 ", faults: [{crash: server 0, at: %ums, restart: 100ms}]", at);
			snprintf(text, sizeof text, SPRINGS, seed, "1s", "sgd", 4u, 1u,
				 "name: easgd, push: 2, alpha: 0.3", "100ms", faults);
			if (!run_and_compare(&l, text, 4, &worst))
				continue;
			if (l.lost) {
				with_loss++;
				continue;
			}
			clean++;
			fenced += l.fenced;
			if (!(worst < 2e-5))
				fail_msg("seed %u, dies at %u ms: the sum moves by %g, and %llu "
					 "pushes were on their way",
					 seed, at, worst, (unsigned long long)l.fenced);
		}
	assert_true(with_loss > 0); /* servers do die in the middle */
	assert_true(clean > 5 && fenced > 10);
}

/* --- what results say --------------------------------------------------------------------- */

static json_t *result_of(const char *text)
{
	struct tw_error why = { 0 };
	struct tw_job *job = NULL;
	json_t *result = NULL;

	if (tw_job_read_text("job.yaml", text, strlen(text), NULL, 0, NULL, TW_WORLD_SIM, &job,
			     &why) != TW_OK ||
	    tw_run(&(struct tw_run_request){ 0 }, job, &result, &why) != TW_OK)
		fail_msg("%s", why.text);
	tw_job_free(job);
	return result;
}

static double said(const json_t *result, const char *name)
{
	const json_t *x = json_object_get(json_object_get(result, "deltas"), name);

	assert_true(json_is_number(x));
	return json_number_value(x);
}

/* Each worker that dies takes its own parameters along. */
static void lost_copies_are_counted(void **state)
{
	char text[1500];
	json_t *result;

	(void)state;
	snprintf(text, sizeof text, SPRINGS, 1u, "0s", "sgd", 4u, 1u,
		 "name: easgd, push: 2, alpha: 0.3", "3ms",
		 ", faults: [{crash: worker 1, at: 2s, restart: 500ms}, {crash: worker 3, at: 3s}, "
		 "{leave: worker 2, at: 4s}]");
	result = result_of(text);
	assert_true(said(result, "lost_copies") == 2);
	assert_true(said(result, "period") == 2);
	json_decref(result);
	snprintf(text, sizeof text, SPRINGS, 1u, "0s", "sgd", 4u, 1u, "name: fedasync, push: 2",
		 "3ms", ", faults: [{crash: worker 3, at: 3s}]");
	result = result_of(text);
	assert_true(said(result, "lost_copies") == 0); /* they are replaced at every fetch */
	json_decref(result);
	result = result_of("model: {quadratic: {dimension: 6}}\n"
			   "data: {source: none, samples: 48, batch: 4}\n");
	assert_true(json_is_null(json_object_get(result, "deltas")));
	assert_true(json_is_null(json_object_get(result, "residual")));
	json_decref(result);
}

/* The same numbers from the serial loop. */
static void drift_is_that_of_the_formula(void **state)
{
	static const struct {
		const char *strategy, *update;
		struct delta_formula f;
	} rows[] = {
		{ "name: averaging",
		  "rule: sgd, rate: 0.1",
		  { .near = NEAR_SGD, .rate = 0.1, .outer = OUTER_AVERAGE, .outer_rate = 1 } },
		{ "name: diloco, average_state: true",
		  "rule: adamw, rate: 0.03",
		  { .near = NEAR_ADAMW,
		    .rate = 0.03,
		    .outer = OUTER_NESTEROV,
		    .outer_rate = 0.7f,
		    .outer_momentum = 0.9f,
		    .average_state = true } },
		{ "gate: bsp, send: delta, merge: elastic, alpha: 0.1, outer: {rule: add, scale: "
		  "1}",
		  "rule: nag, momentum: 0.7, rate: 0.05",
		  { .near = NEAR_NAG,
		    .momentum = 0.7f,
		    .rate = 0.05,
		    .outer = OUTER_ADD,
		    .outer_rate = 1,
		    .merge = MERGE_ELASTIC,
		    .alpha = 0.1f } },
	};

	(void)state;
	for (size_t k = 0; k < COUNT(rows); k++)
		for (uint32_t shards = 1; shards <= 7; shards += 3)
			for (uint32_t workers = 1; workers <= 5; workers += 2) {
				struct delta_formula f = rows[k].f;
				struct delta_figures want = { .pushes = 0 };
				struct outcome o;
				char text[1500];
				json_t *result;
				float *w;

				f.push = 4;
				f.figures = &want;
				snprintf(text, sizeof text,
					 "model: {quadratic: {dimension: 37, noise: 0.3, spread: "
					 "0.5, buffers: 5}}\n"
					 "data: {source: none, samples: 100, batch: 3, accumulate: "
					 "2}\n"
					 "train: {epochs: 4.17, seed: 3}\nupdate: {%s}\n"
					 "cluster: {workers: %u, shards: %u}\n"
					 "strategy: {%s, push: 4}\ncheckpoint: {every: 0s}\n",
					 rows[k].update, workers, shards, rows[k].strategy);
				outcome_open(&o, text, NULL, TW_WORLD_SIM);
				w = calloc(o.n, sizeof *w);
				assert_non_null(w);
				rounds_alone(&o, &f, NULL, w);
				result = result_of(text);
				assert_true(said(result, "pushes") == (double)want.pushes);
				assert_true(fabs(said(result, "steps_per_push") -
						 (double)want.steps / (double)want.pushes) < 1e-9);
				assert_true(fabs(said(result, "drift_mean") * (double)want.pushes /
							 want.drift -
						 1) < 1e-6);
				assert_true(fabs(said(result, "drift_max") / want.drift_most - 1) <
					    1e-6);
				assert_true(want.drift_most > 0 && said(result, "skipped") == 0);
				json_decref(result);
				free(w);
				outcome_close(&o);
			}
}

/* --- gradients that are not finite -------------------------------------------------------- */

/* The gradient of some batches is not a number. */
struct broken {
	struct tw_engine engine; /* must stay first */
	struct tw_engine_class class;
	struct tw_engine *real;
	uint64_t every;
};

static enum tw_status broken_gradient(const struct tw_engine *e, void *scratch,
				      const struct tw_inputs *in, float *gradient,
				      struct tw_score *score)
{
	const struct broken *b = (const struct broken *)e;
	const enum tw_status st = b->real->class->gradient(b->real, scratch, in, gradient, score);

	if (in->from / in->count % b->every == 0)
		gradient[1] = NAN;
	return st;
}

static enum tw_status broken_init(const struct tw_engine *e, size_t from, size_t n, float *out)
{
	const struct broken *b = (const struct broken *)e;

	return b->real->class->init(b->real, from, n, out);
}

static enum tw_status broken_evaluate(const struct tw_engine *e, void *scratch,
				      const struct tw_inputs *in, struct tw_score *score)
{
	const struct broken *b = (const struct broken *)e;

	return b->real->class->evaluate(b->real, scratch, in, score);
}

/* Each is counted once, however many shards there are, and none reaches the parameters. */
static void skipped_gradients_are_counted(void **state)
{
	static const char *const strategies[] = { "name: averaging", "name: easgd",
						  "name: fedbuff, collect: 2" };

	(void)state;
	for (size_t k = 0; k < COUNT(strategies); k++) {
		struct broken b;
		struct outcome o;
		char text[1000];

		snprintf(text, sizeof text,
			 "model: {quadratic: {dimension: 20}}\n"
			 "data: {source: none, samples: 120, batch: 3}\n"
			 "train: {epochs: 3}\nupdate: {rule: sgd, rate: 0.1}\n"
			 "cluster: {workers: 3, shards: 4}\nstrategy: {%s, push: 4}\n",
			 strategies[k]);
		outcome_open(&o, text, NULL, TW_WORLD_SIM);
		b = (struct broken){ .engine = *o.engine, .real = o.engine, .every = 5 };
		b.class = (struct tw_engine_class){ .name = "broken",
						    .init = broken_init,
						    .gradient = broken_gradient,
						    .evaluate = broken_evaluate };
		b.engine.class = &b.class;
		o.engine = &b.engine;
		outcome_run(&o, NULL);
		/* 120 batches, and every fifth is broken */
		assert_int_equal(o.ran.totals.tally.skipped, 4 * 24);
		assert_int_equal(o.ran.totals.tally.own_steps, 4 * 96);
		assert_int_equal(o.ran.totals.refused, 0);
		for (size_t i = 0; i < o.n; i++)
			assert_true(isfinite(o.vector[i]));
		o.engine = b.real;
		outcome_close(&o);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_late_keeps_its_own),
		cmocka_unit_test(what_a_dead_server_did_not_take_comes_back),
		cmocka_unit_test(lost_copies_are_counted),
		cmocka_unit_test(drift_is_that_of_the_formula),
		cmocka_unit_test(skipped_gradients_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
