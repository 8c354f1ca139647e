/* SPDX-License-Identifier: Apache-2.0 */
/* test_topology.c - a job without a server: short and long forms, and the plan they make. */
#include "kit/reduce.h"
#include "job/reading.h"
#include "strategy/reduction.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Both texts explain to the same job. */
static void same(const char *a, const char *b)
{
	struct tw_job *x = good_job(a, NULL, TW_WORLD_SIM), *y = good_job(b, NULL, TW_WORLD_SIM);
	char *one = explained(x), *other = explained(y);

	assert_string_equal(one, other);
	assert_memory_equal(&x->plan.checkpoint.job_hash, &y->plan.checkpoint.job_hash,
			    sizeof x->plan.checkpoint.job_hash);
	free(one);
	free(other);
	tw_job_free(x);
	tw_job_free(y);
}

static void the_short_form_is_the_long_one(void **state)
{
	for (size_t k = 0; kit_reduction_at(k); k++) {
		const char *name = kit_reduction_at(k)->name;
		char brief[300], full[300];

		snprintf(brief, sizeof brief, SMALL "strategy: {gate: bsp, topology: %s}\n", name);
		snprintf(full, sizeof full,
			 SMALL "strategy: {gate: bsp, topology: {kind: allreduce, schedule: %s}}\n",
			 name);
		same(brief, full);
		snprintf(full, sizeof full,
			 SMALL "strategy: {gate: bsp, topology: {schedule: %s}}\n", name);
		same(brief, full);
	}
	same(SMALL "strategy: {gate: bsp, topology: allreduce}\n",
	     SMALL "strategy: {gate: bsp, topology: ring}\n");
	same(SMALL "strategy: {gate: bsp, topology: server}\n", SMALL "strategy: {gate: bsp}\n");
	same(SMALL "strategy: {gate: bsp, topology: ring}\ncluster: {servers: 0}\n",
	     SMALL "strategy: {gate: bsp, topology: ring}\n");
}

static void an_explained_job_is_the_job(void **state)
{
	for (size_t k = 0; kit_reduction_at(k); k++) {
		char text[300], *once;
		struct tw_job *job;

		snprintf(text, sizeof text, SMALL "strategy: {gate: bsp, topology: %s}\n",
			 kit_reduction_at(k)->name);
		job = good_job(text, NULL, TW_WORLD_SIM);
		once = explained(job);
		same(text, once);
		free(once);
		tw_job_free(job);
	}
}

static void every_worker_is_a_holder(void **state)
{
	struct tw_job *job = good_job(
		SMALL "cluster: {workers: 5, shards: 3}\n"
		      "strategy: {name: diloco, push: 4, topology: tree, codec: {up: fp16}}\n",
		NULL, TW_WORLD_THREADS);
	const struct tw_plan *p = &job->plan;

	assert_true(tw_plan_has_peers(p));
	assert_ptr_equal(p->topology.reduction, tw_reduction_find("tree"));
	assert_int_equal(p->crew.servers, 0);
	for (uint32_t slot = 0; slot < 5; slot++)
		assert_int_equal(tw_plan_worker_node(p, slot), 1 + slot);
	assert_false(tw_plan_is_server(p, 1));
	assert_string_equal(job->title, "diloco");
	tw_job_free(job);
	job = good_job(SMALL "strategy: {gate: bsp, topology: direct}\n", NULL, TW_WORLD_TCP);
	assert_string_equal(job->title, "bsp+direct");
	tw_job_free(job);
	job = good_job(SMALL "strategy: {gate: bsp}\n", NULL, TW_WORLD_SIM);
	assert_false(tw_plan_has_peers(&job->plan));
	assert_int_equal(job->plan.crew.servers, 1);
	assert_string_equal(job->title, "bsp");
	tw_job_free(job);
}

/* A flag goes before the file, whichever of the two is short. */
static void a_flag_changes_the_topology(void **state)
{
	static const struct {
		const char *file, *set, *reduction;
	} cases[] = {
		{ "topology: {kind: allreduce, schedule: tree}", "strategy.topology=ring", "ring" },
		{ "topology: tree", "strategy.topology.schedule=ring", "ring" },
		{ "topology: tree", "strategy.topology=server", NULL },
		{ "push: 1", "strategy.topology={kind: allreduce, schedule: direct}", "direct" },
		{ "push: 1", "strategy.topology.kind=allreduce", "ring" },
	};

	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		char text[300];
		struct tw_job *job;

		snprintf(text, sizeof text, SMALL "strategy: {gate: bsp, %s}\n", cases[k].file);
		job = good_job(text, cases[k].set, TW_WORLD_SIM);
		assert_ptr_equal(job->plan.topology.reduction,
				 cases[k].reduction ? tw_reduction_find(cases[k].reduction) : NULL);
		tw_job_free(job);
	}
}

static void a_run_resumes_under_its_own_topology_alone(void **state)
{
	struct tw_job *job[4];
	const char *const topology[] = { "server", "ring", "tree", "direct" };

	for (size_t k = 0; k < 4; k++) {
		char text[300];

		snprintf(text, sizeof text, SMALL "strategy: {gate: bsp, topology: %s}\n",
			 topology[k]);
		job[k] = good_job(text, NULL, TW_WORLD_SIM);
		for (size_t i = 0; i < k; i++)
			assert_memory_not_equal(&job[i]->plan.checkpoint.job_hash,
						&job[k]->plan.checkpoint.job_hash,
						sizeof job[k]->plan.checkpoint.job_hash);
	}
	for (size_t k = 0; k < 4; k++)
		tw_job_free(job[k]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_short_form_is_the_long_one),
		cmocka_unit_test(an_explained_job_is_the_job),
		cmocka_unit_test(every_worker_is_a_holder),
		cmocka_unit_test(a_flag_changes_the_topology),
		cmocka_unit_test(a_run_resumes_under_its_own_topology_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
