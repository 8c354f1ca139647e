/* SPDX-License-Identifier: Apache-2.0 */
/* trial.c - a small cluster with the real actors, to be run again and again by tests. */
#include "job/trial.h"

#include "job/reading.h"
#include "world/memory_store.h"
#include "world/threads/threads.h"
#include "run/open_engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define DAY (24 * 3600 * TW_SECOND)

void trial_open(struct trial *t, enum tw_world_kind world, const char *format, ...)
{
	char text[4000];
	struct tw_error why = { 0 };
	va_list args;

	va_start(args, format);
	assert_true(vsnprintf(text, sizeof text, format, args) < (int)sizeof text);
	va_end(args);
	*t = (struct trial){ 0 };
	t->job = good_job(text, NULL, world);
	if (tw_job_open_engine(t->job, &tw_heap_system, &t->engine, &why) != TW_OK ||
	    tw_job_finish_plan(t->job, t->engine, &why) != TW_OK)
		fail_msg("%s", why.text);
	assert_int_equal(tw_placement_init(&t->cast, &t->job->plan, false), TW_OK);
}

void trial_close(struct trial *t)
{
	tw_placement_release(&t->cast);
	t->engine->class->close(t->engine);
	tw_job_free(t->job);
}

enum tw_status trial_run(const struct trial *t, struct tw_heap *heap, struct tw_store *store,
			 struct tw_ran *ran)
{
	const struct tw_plan *p = &t->job->plan;
	const struct tw_log log = { .sink = t->loud ? tw_log_stderr : NULL, .level = TW_DEBUG };
	struct tw_store *own = store ? NULL : tw_memory_store_new(&tw_heap_system);
	const struct tw_cluster cluster = {
		.seat = t->cast.seat,
		.seats = t->cast.seats,
		.nodes = tw_placement_nodes(p),
		.cells = tw_plan_cells(p),
		.seed = p->seed,
		.engine = t->engine,
		.store = store ? store : own,
		.heap = heap,
		.log = t->log ? t->log : &log,
		.observer = t->observer,
		.observer_arg = t->observer_arg,
		.interrupted = t->interrupted,
	};

	*ran = (struct tw_ran){ 0 };
	t->cast.arg[0].resume = t->resume;
	if (!cluster.store)
		return ran->error.status = TW_NO_MEMORY;
	if (t->job->world == TW_WORLD_SIM) {
		struct tw_sim_options options = t->job->sim;

		options.threads = 1;
		tw_sim_run(&cluster, &options, t->job->fault, t->job->faults, NULL, DAY, ran);
	} else {
		const struct tw_threads_options options = {
			.lockfree = (p->gate->traits & TW_GATE_LOCKFREE) != 0,
		};

		alarm(60);
		tw_threads_run(&cluster, &options, ran);
		alarm(0);
	}
	tw_memory_store_free(own);
	return ran->error.status;
}

const char *trial_preset(enum tw_world_kind world, size_t k)
{
	for (const struct tw_preset *p = tw_presets; p->name; p++) {
		if ((world == TW_WORLD_SIM && strcmp(p->name, "hogwild") == 0) || !has_servers(p) ||
		    has_optimiser(p) || has_stages(p))
			continue;
		if (k-- == 0)
			return short_strategy(p);
	}
	return NULL;
}
