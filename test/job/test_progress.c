/* SPDX-License-Identifier: Apache-2.0 */
/* test_progress.c - what people are told of a run follows from its notes. */
#include "metrics/progress.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static struct tw_progress seen;
static size_t shown;

static void show(void *arg, const struct tw_progress *p)
{
	seen = *p;
	shown++;
}

static void note(struct tw_watch *w, struct tw_note n)
{
	w->shown = 0; /* whatever the clock says */
	assert_true(tw_watch_note(w, &n));
}

static struct tw_note progressed(uint64_t dealt, double applied, uint32_t live, double loss)
{
	return (struct tw_note){ .kind = TW_NOTE_PROGRESS,
				 .progress = {
					 .dealt = dealt,
					 .live = live,
					 .point = { .samples = applied, .train_loss = loss } } };
}

static void figures_follow_from_notes(void **state)
{
	const struct tw_plan plan = { .dealing.positions = 2000,
				      .problem.samples = 1000,
				      .crew.workers = 4 };
	struct tw_watch w;

	tw_watch_init(&w, &plan, NULL, show, NULL);
	shown = 0;
	/* more is dealt than applied: epochs are those applied */
	note(&w, progressed(700, 500, 3, 9.0));
	assert_int_equal(shown, 1);
	assert_int_equal(seen.dealt, 700);
	assert_true(seen.samples == 500.0);
	assert_int_equal(seen.live, 3);
	assert_true(seen.epochs == 0.5);
	assert_true(seen.loss == 9.0);
	assert_true(seen.rate == 0.0 && seen.left < 0.0); /* a resumed run has done nothing yet */

	w.began = tw_clock() - 10 * TW_SECOND;
	for (uint64_t tau = 1; tau <= 3; tau++)
		note(&w, (struct tw_note){ .kind = TW_NOTE_APPLY, .apply.tau = tau });
	assert_int_equal(shown, 1);
	note(&w, progressed(1500, 1300, 4, 8.0));
	assert_true(fabs(seen.rate - 80.0) < 1.0); /* 800 in ten seconds ... */
	assert_true(fabs(seen.left - 6.25) < 0.1); /* ... and 500 are left to be dealt */
	assert_true(seen.epochs == 1.3);
	assert_true(seen.staleness == 2.0);

	note(&w,
	     (struct tw_note){ .kind = TW_NOTE_EVAL, .eval = { .loss = 0.5, .accuracy = 0.9 } });
	assert_true(seen.loss == 0.5 && seen.accuracy == 0.9);
	/* an evaluation says more than the mean of recent samples */
	note(&w, progressed(2000, 1800, 4, 7.0));
	assert_true(seen.loss == 0.5 && seen.left < 0.0);
	note(&w, (struct tw_note){ .kind = TW_NOTE_VIEW, .view.live = 2 });
	assert_int_equal(seen.live, 2);
}

static char said[2000];

static void listen(void *arg, enum tw_level level, const char *who, const char *line)
{
	const size_t n = strlen(said);

	snprintf(said + n, sizeof said - n, "%d %s\n", (int)level, line);
}

static void refusals_are_said_once_and_counted(void **state)
{
	const struct tw_plan plan = { .dealing.positions = 2000,
				      .problem.samples = 1000,
				      .crew.workers = 4 };
	const struct tw_log log = { .sink = listen, .level = TW_INFO };
	struct tw_watch w;

	tw_watch_init(&w, &plan, NULL, NULL, NULL);
	w.log = &log;
	said[0] = 0;
	for (uint32_t k = 0; k < 3; k++)
		note(&w, (struct tw_note){ .kind = TW_NOTE_REFUSED, .slot = 3 + k });
	assert_string_equal(said, "1 a contribution of worker 3 was refused: it is not finite; is "
				  "update.rate too large?\n");
	assert_true(w.refused == 3);
}

/* Workers that step by themselves skip what is not finite, and no shard refuses anything. */
static void skipped_gradients_are_said_and_end_the_run(void **state)
{
	const struct tw_plan plan = { .dealing.positions = 2000,
				      .problem.samples = 1000,
				      .crew.workers = 4,
				      .traffic.delta = true };
	const struct tw_log log = { .sink = listen, .level = TW_INFO };
	struct tw_body_push push = { .account = { .own_steps = 3, .drift = 2, .skipped = 1 } };
	struct tw_note n = { .kind = TW_NOTE_APPLY, .apply.push = &push };
	struct tw_watch w;

	tw_watch_init(&w, &plan, NULL, show, NULL);
	w.log = &log;
	said[0] = 0;
	note(&w, n);
	push.account.drift = 4;
	note(&w, n);
	n.from = 1; /* another range of it */
	note(&w, n);
	n.from = 0;
	note(&w, progressed(2000, 1800, 4, 7.0));
	assert_true(seen.drift == 3.0);
	assert_string_equal(said,
			    "1 a worker skipped a gradient that is not finite; is update.rate "
			    "too large?\n");
	push.account.own_steps = 0;
	push.account.skipped = 4; /* of 4 workers: 4 * 4 + 16 in a row are too many */
	for (uint32_t k = 0; k < 7; k++)
		note(&w, n);
	push.account.own_steps = 1;
	note(&w, n);
	push.account.own_steps = 0;
	for (uint32_t k = 0; k < 7; k++) {
		note(&w, n);
		n.shard = 1; /* the other shards say the same */
		note(&w, n);
		n.shard = 0;
	}
	assert_false(tw_watch_note(&w, &n));
	assert_true(w.diverged);
}

/* A view's number is its lower half; what was before the release of a resumed run is not said. */
static void details_are_for_those_who_ask(void **state)
{
	const struct tw_plan plan = { .dealing.positions = 2000,
				      .problem.samples = 1000,
				      .crew.workers = 4 };
	struct tw_log log = { .sink = listen, .level = TW_INFO };
	struct tw_note n = { .kind = TW_NOTE_VIEW,
			     .view = { .number = ((uint64_t)7 << 32) + 5, .live = 2 },
			     .at = 10 * TW_SECOND };
	struct tw_watch w;

	tw_watch_init(&w, &plan, NULL, NULL, NULL);
	w.log = &log;
	w.from = 5 * TW_SECOND;
	said[0] = 0;
	note(&w, n);
	assert_string_equal(said, "");
	log.level = TW_DEBUG;
	n.at = 4 * TW_SECOND;
	note(&w, n);
	assert_string_equal(said, "");
	n.at = 10 * TW_SECOND;
	note(&w, n);
	assert_string_equal(said, "3 10.000 s: view 5: 2 workers live\n");
}

/* 0 / 0 has a sign on some machines, and printf shows it. */
static void what_is_no_number_has_no_sign(void **state)
{
	const struct tw_plan plan = { .dealing.positions = 2000,
				      .problem.samples = 1000,
				      .crew.workers = 4 };
	static const double losses[] = { NAN, -NAN };
	struct tw_log log = { .sink = listen, .level = TW_DEBUG };
	struct tw_watch w;

	for (size_t k = 0; k < 2; k++)
		for (int accurate = 0; accurate < 2; accurate++) {
			struct tw_note n = { .kind = TW_NOTE_EVAL,
					     .eval = { .loss = losses[k],
						       .accuracy = accurate ? 0.5 : -1.0,
						       .point.samples = 1000 } };

			tw_watch_init(&w, &plan, NULL, NULL, NULL);
			w.log = &log;
			w.network = true;
			said[0] = 0;
			tw_watch_note(&w, &n);
			assert_non_null(strstr(said, "evaluation after 1 epochs: loss nan\n"));
			assert_non_null(strstr(said, accurate ? "loss nan, accuracy 0.5"
							      : "2 epoch 1: loss nan\n"));
			assert_null(strstr(said, "-nan"));
			said[0] = 0;
			n = (struct tw_note){ .kind = TW_NOTE_ITERATION,
					      .iteration = { .loss = losses[k],
							     .gradient = losses[k] } };
			tw_watch_note(&w, &n);
			assert_non_null(strstr(said, "loss nan, gradient nan"));
			assert_null(strstr(said, "-nan"));
		}
}

static void nobody_is_told_too_often(void **state)
{
	const struct tw_plan plan = { .dealing.positions = 2000,
				      .problem.samples = 1000,
				      .crew.workers = 4 };
	const struct tw_note n = { .kind = TW_NOTE_PROGRESS, .progress.dealt = 1 };
	struct tw_watch w;

	tw_watch_init(&w, &plan, NULL, show, NULL);
	shown = 0;
	for (size_t i = 0; i < 1000; i++)
		tw_watch_note(&w, &n);
	assert_in_range(shown, 1, 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(figures_follow_from_notes),
		cmocka_unit_test(refusals_are_said_once_and_counted),
		cmocka_unit_test(skipped_gradients_are_said_and_end_the_run),
		cmocka_unit_test(details_are_for_those_who_ask),
		cmocka_unit_test(what_is_no_number_has_no_sign),
		cmocka_unit_test(nobody_is_told_too_often),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
