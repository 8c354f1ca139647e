/* SPDX-License-Identifier: Apache-2.0 */
/* test_cell_waits.c - whoever waits because of a cell says which one, and so does the master when
 * it removes one. */
#include "job/meddler.h"
#include "job/pipes.h"

#include <pthread.h>
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

static char *said; /* all lines of the log */
static size_t length;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void keep(void *arg, enum tw_level level, const char *who, const char *line)
{
	const size_t room = length + strlen(who) + strlen(line) + 4;

	(void)arg, (void)level;
	pthread_mutex_lock(&lock);
	said = realloc(said, room);
	if (said)
		length += (size_t)snprintf(said + length, room - length, "%s: %s\n", who, line);
	pthread_mutex_unlock(&lock);
}

static void forget(void)
{
	free(said);
	said = NULL;
	length = 0;
}

static bool has(const char *pattern)
{
	regex_t r;
	bool found;

	assert_int_equal(regcomp(&r, pattern, REG_EXTENDED | REG_NEWLINE), 0);
	found = said && regexec(&r, said, 0, NULL, 0) == 0;
	regfree(&r);
	return found;
}

static void need(const char *pattern, const char *what)
{
	if (!has(pattern))
		fail_msg("%s: nobody says '%s':\n%s", what, pattern, said ? said : "");
}

/* Nobody is called a worker without its cell, by any who waits. */
static void every_wait_names_its_cell(const char *what)
{
	if (has("has waited .* for worker [0-9]+(:| on)"))
		fail_msg("%s: a wait does not name its cell:\n%s", what, said);
}

static struct pipe_run *open_run(enum tw_world_kind world, const char *strategy, uint32_t workers,
				 const char *more)
{
	static const struct tw_log log = { .sink = keep, .level = TW_INFO };
	struct pipe_run *r;

	forget();
	r = pipe_open(world,
		      "model: {quadratic: {dimension: 12, noise: 0.1, stages: 3}}\n"
		      "data: {source: none, samples: 24, batch: 1, accumulate: 2}\n"
		      "train: {epochs: 3, evaluate: 1}\nupdate: {rate: 0.01}\n"
		      "cluster: {workers: %u, stages: 3, servers: 1%s\nstrategy: {%s}\n",
		      workers, more, strategy);
	r->t.log = &log;
	return r;
}

/* --- a vacancy ---------------------------------------------------------------------------- */

static void a_vacancy_is_named(void **state)
{
	(void)state;
	for (uint32_t cell = 0; cell < 3; cell++)
		for (uint32_t k = 0; k < 2; k++) {
			static const char *const strategies[] = {
				"gate: bsp, pipeline: gpipe", "gate: async, pipeline: pipedream"
			};
			struct pipe_run *r;
			char more[300], want[100];

			snprintf(more, sizeof more,
				 ", wait: 60s}\nsim: {compute: {mean: 300ms}, closed_limit: 50ms, "
				 "faults: "
				 "[{crash: worker 0.%u, at: 5s, restart: 20s}]}",
				 cell);
			r = open_run(TW_WORLD_SIM, strategies[k], 1, more);
			pipe_go(r);
			assert_int_equal(r->status, TW_OK);
			snprintf(want, sizeof want, "worker 0\\.%u is lost, and worker 0 with it",
				 cell);
			need(want, strategies[k]);
			snprintf(want, sizeof want, "1 more must join, for stage %u", cell);
			need(want, strategies[k]);
			snprintf(want, sizeof want,
				 "master has waited .* for worker 0\\.%u: it has not joined", cell);
			need(want, strategies[k]);
			every_wait_names_its_cell(strategies[k]);
			pipe_free(r);
		}
}

/* --- a cell that computes, answers and sends nothing on ----------------------------------- */

struct keeper {
	uint32_t after; /* so many words leave */
	uint32_t heard;
};

static bool keep_back(void *arg, struct tw_context *ctx, struct tw_msg *m)
{
	struct keeper *k = arg;

	if ((m->h.type != TW_GRAD && (m->h.type != TW_ACT || m->b.act.pin)) ||
	    k->heard++ < k->after)
		return false;
	ctx->world->msg_free(ctx, m);
	return true;
}

static void a_stuck_cell_is_named_and_removed(void **state)
{
	static const struct {
		const char *strategy;
		uint32_t cell;
		const char *waits; /* of the others of its worker */
	} list[] = {
		{ "gate: bsp, pipeline: gpipe", 0,
		  "worker 0\\.1 has waited .* for worker 0\\.0: activations of micro-batch" },
		{ "gate: bsp, pipeline: gpipe", 1,
		  "worker 0\\.[02] has waited .* for worker 0\\.1: (activations|gradients) of" },
		{ "gate: bsp, pipeline: 1f1b-flush", 2,
		  "worker 0\\.1 has waited .* for worker 0\\.2: gradients of micro-batch" },
		{ "gate: async, pipeline: pipedream", 1,
		  "worker 0\\.0 has waited .* for worker 0\\.1: gradients of micro-batch" },
	};

	(void)state;
	for (size_t k = 0; k < sizeof list / sizeof list[0]; k++)
		for (uint32_t after = 3; after < 12; after += 4) {
			struct keeper keeper = { .after = after };
			const struct meddler how = { .send = keep_back, .arg = &keeper };
			struct pipe_run *r = open_run(TW_WORLD_SIM, list[k].strategy, 2,
						      ", min: 1, stuck: 30s}\n"
						      "sim: {compute: {mean: 300ms}}");
			char want[120];

			meddle(&r->t, 0, list[k].cell, &how);
			pipe_go(r);
			if (r->status != TW_OK)
				fail_msg("%s, cell %u, after %u: %s", list[k].strategy,
					 list[k].cell, after, r->ran.error.text);
			need(list[k].waits, list[k].strategy);
			snprintf(want, sizeof want, "master has waited .* for worker 0\\.%u: its",
				 list[k].cell);
			need(want, list[k].strategy);
			snprintf(want, sizeof want, "worker 0\\.%u is removed: it answers",
				 list[k].cell);
			need(want, list[k].strategy);
			need("made no progress; is this machine overloaded", list[k].strategy);
			every_wait_names_its_cell(list[k].strategy);
			assert_true(r->ran.totals.applied >= 72);
			pipe_free(r);
		}
}

/* --- a cell that stands still for some seconds -------------------------------------------- */

static bool sleep_once(void *arg, struct tw_context *ctx, struct tw_msg *m)
{
	struct keeper *k = arg;

	(void)ctx;
	if (m->h.type == TW_ACT && k->heard++ == k->after)
		nanosleep(&(struct timespec){ 8, 0 }, NULL);
	return false;
}

static void a_silent_cell_is_named_in_threads(void **state)
{
	struct keeper keeper = { .after = 5 };
	const struct meddler how = { .send = sleep_once, .arg = &keeper };
	struct pipe_run *r = open_run(TW_WORLD_THREADS, "gate: bsp, pipeline: gpipe", 2, "}");

	(void)state;
	meddle(&r->t, 1, 1, &how);
	pipe_go(r);
	assert_int_equal(r->status, TW_OK);
	need("worker 1\\.2 has waited .* for worker 1\\.1: activations of micro-batch", "threads");
	need("worker 1\\.0 has waited .* for worker 1\\.1: gradients of micro-batch", "threads");
	need("master has waited .* for worker 1\\.1: its contribution", "threads");
	every_wait_names_its_cell("threads");
	pipe_free(r);
	forget();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_vacancy_is_named),
		cmocka_unit_test(a_stuck_cell_is_named_and_removed),
		cmocka_unit_test(a_silent_cell_is_named_in_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
