/* SPDX-License-Identifier: Apache-2.0 */
/* test_online.c - train.mode: online: predictions are scored before their samples are learnt from,
 * each once, whoever dies; reports, and runs that are stopped and resumed. */
#include "job/refused.h"
#include "job/serial.h"

#include "base/rng.h"
#include "engine/network.h"
#include "world/memory_store.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* --- scoring comes first -------------------------------------------------------------------- */

/* Labels are 1 or -1 by chance, and one step leads to the label of its sample: whoever knows a row
 * knows the label of the row before it.  Predictions are then the label before, and half of them
 * are wrong by 2.  Who looks at a row before he predicts it has a loss of 0. */
static double label_of(uint64_t position)
{
	const struct tw_rng r = tw_rng_make(7, TW_RNG_PROBLEM);

	return tw_rng_u64(&r, position, 0) & 1 ? 1.0 : -1.0;
}

static enum tw_status leak(const struct tw_engine *e, void *scratch, const struct tw_inputs *in,
			   float *gradient, struct tw_score *score)
{
	const double miss = (double)in->piece[0].at[0] - label_of(in->from);

	(void)e;
	(void)scratch;
	assert_int_equal(in->count, 1);
	gradient[0] = (float)(2 * miss);
	*score = (struct tw_score){ .loss = miss * miss, .correct = -1, .samples = 1 };
	return TW_OK;
}

static void a_label_that_leaks_is_no_help(void **state)
{
	static struct tw_engine_class leaky;
	const struct tw_engine_class *usual;
	double sum = 0, w = 0;
	struct outcome o;

	(void)state;
	outcome_open(&o,
		     "model: {quadratic: {dimension: 1, start: 0}}\n"
		     "data: {source: none, samples: 2000, batch: 1}\n"
		     "train: {mode: online}\nupdate: {rate: 0.5}\n"
		     "cluster: {workers: 1}\nstrategy: asgd\n",
		     NULL, TW_WORLD_SIM);
	usual = o.engine->class;
	leaky = *usual;
	leaky.gradient = leak;
	o.engine->class = &leaky;
	outcome_run(&o, NULL);
	o.engine->class = usual;
	for (uint64_t k = 0; k < 2000; k++) {
		sum += (w - label_of(k)) * (w - label_of(k));
		w = label_of(k);
	}
	assert_true(sum / 2000 > 1.8); /* it would be 0 if it learnt first */
	assert_true(o.ran.totals.progressive.loss == sum / 2000);
	assert_int_equal(o.ran.totals.progressive.samples, 2000);
	assert_true(o.vector[0] == (float)label_of(1999));
	outcome_close(&o);
}

/* --- networks -------------------------------------------------------------------------------- */

/* What a gradient brings is the score of an evaluation, whatever the network does while it
 * trains. */
static const char *const networks[] = {
	"model: {layers: [linear 16, relu, linear 10]}\ndata: {source: digits, count: 300, tests: "
	"50, batch: 7",
	"model: {layers: [linear 16, relu, dropout 0.5, linear 10]}\ndata: {source: digits, count: "
	"300, tests: 50, batch: 7",
	"model: {layers: [linear 16, batchnorm, relu, linear 10]}\ndata: {source: digits, count: "
	"300, tests: 50, batch: 7",
	"model: {layers: [linear 16, relu, linear 10]}\ndata: {source: digits, count: 300, tests: "
	"50, batch: 7, noise: 0.5",
	"model: {layers: [linear 16, relu, linear 10]}\ndata: {source: digits, count: 300, tests: "
	"50, batch: 7, shift: 2, class_weights: balanced",
};

static double serial_loss(const struct outcome *o, double *correct)
{
	const struct tw_engine *e = o->engine;
	const size_t n = tw_engine_moving(e);
	float *w = calloc(n, sizeof *w), *g = calloc(n, sizeof *g);
	void *scratch = aligned_alloc(TW_ALIGN, (e->scratch_bytes + 4095) / 4096 * 4096 + 4096);
	const struct tw_piece piece = { w, 0, n };
	double sum = 0;

	assert_true(w && g && scratch);
	assert_int_equal(e->class->init(e, 0, n, w), TW_OK);
	*correct = 0;
	for (uint64_t from = 0; from < e->samples;) {
		const uint32_t left = (uint32_t)(e->samples - from), count = left < 7 ? left : 7;
		const struct tw_inputs in = {
			.from = from, .count = count, .piece = &piece, .pieces = 1
		};
		struct tw_score first, unused;

		assert_int_equal(
			tw_network_score(e, scratch, &tw_network_data(e)->train, &in, NULL, &first),
			TW_OK);
		sum += first.loss;
		*correct += first.correct;
		assert_int_equal(e->class->gradient(e, scratch, &in, g, &unused), TW_OK);
		for (size_t i = 0; i < e->trainable; i++)
			w[i] -= 0.1f * g[i];
		for (size_t i = e->trainable; i < n; i++)
			w[i] += g[i];
		from += count;
	}
	free(w);
	free(g);
	free(scratch);
	return sum;
}

static void networks_are_scored_as_they_predict(void **state)
{
	(void)state;
	for (size_t k = 0; k < COUNT(networks); k++) {
		const struct tw_progressive *p;
		struct outcome o;
		double sum, correct;
		char text[700];

		snprintf(text, sizeof text,
			 "%s}\ntrain: {mode: online}\nupdate: {rate: 0.1}\n"
			 "cluster: {workers: 1}\nstrategy: asgd\n",
			 networks[k]);
		outcome_open(&o, text, NULL, TW_WORLD_SIM);
		sum = serial_loss(&o, &correct);
		outcome_run(&o, NULL);
		p = &o.ran.totals.progressive;
		assert_int_equal(p->samples, 300);
		assert_true(fabs(p->loss - sum / 300) < 1e-5 * fabs(p->loss));
		assert_true(fabs(p->accuracy - correct / 300) < 1e-9);
		outcome_close(&o);
	}
}

/* --- reports --------------------------------------------------------------------------------- */

#define MOST 4096

static struct {
	struct tw_progressive at[MOST];
	size_t count;
	double loss[MOST]; /* of each position, as its first gradient brought it */
	unsigned predicted[MOST];
	uint64_t order[MOST]; /* positions as they were predicted first */
	size_t orders;
} heard;

static bool listen(void *arg, const struct tw_note *n)
{
	(void)arg;
	if (n->kind == TW_NOTE_SCORE && heard.count < MOST)
		heard.at[heard.count++] = n->score;
	if (n->kind == TW_NOTE_GRADIENT)
		for (uint64_t i = n->from; i < n->from + n->count && i < MOST; i++) {
			if (!heard.predicted[i]++) {
				heard.loss[i] = n->step.loss / n->count;
				heard.order[heard.orders++] = i;
			}
		}
	return true;
}

#define PROBLEM                                                                                    \
	"model: {least-squares: {dimension: 12}}\n"                                                \
	"data: {samples: 1000, batch: %u}\ntrain: {mode: online, window: 100}\n"                   \
	"update: {rate: 0.02}\ncluster: {workers: %u}\nstrategy: %s\n"                             \
	"sim: {compute: {law: log-normal, median: 100ms, sigma: 0.6}%s}\n%s"

static void run(struct outcome *o, unsigned batch, unsigned workers, const char *strategy,
		const char *sim)
{
	char text[1024];

	memset(&heard, 0, sizeof heard);
	snprintf(text, sizeof text, PROBLEM, batch, workers, strategy, sim, "");
	outcome_open(o, text, NULL, TW_WORLD_SIM);
	outcome_run(o, &(const struct watch){ .observer = listen });
}

static double mean_of(size_t from, size_t to)
{
	double sum = 0;

	for (size_t k = from; k < to; k++)
		sum += heard.loss[heard.order[k]];
	return sum / (double)(to - from);
}

/* At 1, 2, 4, ..., and at every 100; what they say is the mean of what was heard. */
static void reports_come_at_doubled_counts_and_windows(void **state)
{
	struct outcome o;
	size_t before = 0, found = 0;

	(void)state;
	run(&o, 1, 3, "asgd", "");
	for (size_t k = 0; k < heard.count; k++) {
		const struct tw_progressive *p = &heard.at[k];
		const uint64_t n = p->samples;

		assert_true((n & (n - 1)) == 0 || n % 100 == 0);
		assert_true(fabs(p->loss - mean_of(0, n)) < 1e-9 * p->loss);
		assert_true(fabs(p->loss_since - mean_of(before, n)) < 1e-9 * p->loss_since);
		assert_int_equal(p->window, n < 100 ? n : 100);
		assert_true(fabs(p->loss_window - mean_of(n - p->window, n)) <
			    1e-9 * p->loss_window);
		before = n;
		found++;
	}
	assert_int_equal(found, 10 + 10); /* 1 to 512; 100 to 1000 */
	assert_int_equal(o.ran.totals.progressive.samples, 1000);
	assert_true(o.ran.totals.progressive.loss_window < o.ran.totals.progressive.loss / 2);
	outcome_close(&o);
}

/* --- workers that come and go ---------------------------------------------------------------- */

/* Nothing is lost, and nothing is scored twice: the sum of the first predictions is the score,
 * where all are scored. */
static void whoever_dies_nothing_is_lost(void **state)
{
	static const char *const strategies[] = { "asgd",
						  "ssgd",
						  "{name: ssp, lead: 2}",
						  "{name: softsync, collect: 2}",
						  "{name: local-sgd, push: 2}",
						  "dana" };
	uint64_t unscored = 0;

	(void)state;
	for (size_t k = 0; k < COUNT(strategies); k++) {
		const struct tw_progressive *p;
		struct outcome o;

		run(&o, 4, 4, strategies[k],
		    ", closed_limit: 100ms, faults: [{crash: worker 1, at: 2s, restart: 400ms}, "
		    "{crash: worker 2, at: 5s, restart: 100ms}, {leave: worker 3, at: 3s}, "
		    "{crash: worker 0, at: 7s, restart: 1s}]");
		p = &o.ran.totals.progressive;
		assert_int_equal(heard.orders, 1000);
		assert_int_equal(p->samples + p->unscored, 1000);
		if (o.job->plan.gate->traits & TW_GATE_ROUNDS)
			assert_int_equal(p->unscored, 0);
		if (!p->unscored)
			assert_true(fabs(p->loss - mean_of(0, 1000)) < 0.02 * p->loss);
		assert_true(p->unscored < 200);
		unscored += p->unscored;
		outcome_close(&o);
	}
	assert_true(unscored > 0); /* else no worker died with a lease */
}

static void threads_score_as_well(void **state)
{
	struct outcome o;

	(void)state;
	outcome_of(&o, TW_WORLD_THREADS,
		   "model: {least-squares: {dimension: 12}}\n"
		   "data: {samples: 1000, batch: 4}\ntrain: {mode: online, window: 100}\n"
		   "update: {rate: 0.02}\ncluster: {workers: 3}\nstrategy: asgd\n");
	assert_int_equal(o.ran.totals.progressive.samples, 1000);
	assert_int_equal(o.ran.totals.progressive.unscored, 0);
	assert_true(isfinite(o.ran.totals.progressive.loss_window));
	outcome_close(&o);
}

/* --- stopped and resumed --------------------------------------------------------------------- */

static void a_stop_changes_no_score(void **state)
{
	char text[1024];
	struct outcome whole;

	(void)state;
	snprintf(text, sizeof text, PROBLEM, 1, 3, "asgd", "", "checkpoint: {every: 3s}\n");
	outcome_open(&whole, text, NULL, TW_WORLD_SIM);
	outcome_run(&whole, NULL);
	assert_true(whole.ran.totals.cut >= 3);
	for (uint64_t stop = 1; stop <= 3; stop++) {
		struct tw_store *store = tw_memory_store_new(&tw_heap_system);
		const struct tw_progressive *want = &whole.ran.totals.progressive, *have;
		struct outcome part, again;

		outcome_open(&part, text, NULL, TW_WORLD_SIM);
		outcome_run(&part, &(const struct watch){ .store = store, .stop_after = stop });
		assert_true(part.ran.totals.progressive.samples < 1000);
		outcome_open(&again, text, NULL, TW_WORLD_SIM);
		outcome_run(&again, &(const struct watch){ .store = store, .resume = true });
		have = &again.ran.totals.progressive;
		assert_string_equal(whole.digest, again.digest);
		assert_int_equal(have->samples, 1000);
		assert_int_equal(have->unscored, 0);
		assert_true(have->loss == want->loss && have->loss_window == want->loss_window &&
			    have->loss_since == want->loss_since);
		outcome_close(&part);
		outcome_close(&again);
		tw_memory_store_free(store);
	}
	outcome_close(&whole);
}

/* --- refused --------------------------------------------------------------------------------- */

static const struct refused cases[] = {
	{ SMALL "train: {mode: online, epochs: 2}\n",
	  0,
	  0,
	  SIM,
	  { "job.yaml:3: train.epochs:", "every sample passes once", "mode: epochs" } },
	{ SMALL "train: {mode: twice}\n", 0, 0, SIM, { "job.yaml:3: train.mode:", "online" } },
	{ SMALL "train: {window: 10}\n",
	  0,
	  0,
	  SIM,
	  { "job.yaml:3: train.window:", "only with train.mode: online" } },
	{ SMALL "train: {mode: online, window: 0}\n",
	  0,
	  0,
	  SIM,
	  { "job.yaml:3: train.window:", "from 1 to" } },
	{ SMALL "train: {mode: online}\nstrategy: {name: sandblaster}\n",
	  0,
	  0,
	  SIM,
	  { "job.yaml:3: train.mode:", "optimiser" } },
	{ SMALL "train: {mode: online, keep: best, evaluate: 1}\n",
	  0,
	  0,
	  SIM,
	  { "job.yaml:3: train.keep:", "keep: last" } },
	{ SMALL "train: {mode: online}\n",
	  "data.deal=partition",
	  0,
	  SIM,
	  { "--set data.deal=partition: data.deal:" } },
	{ SMALL "train: {mode: online}\n",
	  "data.deal=blocks",
	  0,
	  SIM,
	  { "--set data.deal=blocks: data.deal:" } },
	{ SMALL "train: {mode: online}\n",
	  "data.placement=on-demand",
	  0,
	  SIM,
	  { "--set data.placement=on-demand: data.placement:" } },
	{ SMALL "train: {mode: online}\n",
	  "data.shuffle.block=8",
	  0,
	  SIM,
	  { "--set data.shuffle.block=8: data.shuffle.block:", "in their order" } },
};

static void what_cannot_be_is_refused(void **state)
{
	(void)state;
	refused_all(cases, COUNT(cases));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_label_that_leaks_is_no_help),
		cmocka_unit_test(networks_are_scored_as_they_predict),
		cmocka_unit_test(reports_come_at_doubled_counts_and_windows),
		cmocka_unit_test(whoever_dies_nothing_is_lost),
		cmocka_unit_test(threads_score_as_well),
		cmocka_unit_test(a_stop_changes_no_score),
		cmocka_unit_test(what_cannot_be_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
