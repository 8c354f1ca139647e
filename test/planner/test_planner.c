/* SPDX-License-Identifier: Apache-2.0 */
/* test_planner.c - plans against all there are, against simple ones, and against a search of the
 * test's own. */
#include "planner/cases.h"
#include "kit/near.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* What the best plan costs in the search; 0: there is none. */
static double best_of(const struct plan_case *c, uint64_t most, struct tw_planner_plan *plan)
{
	struct tw_planner p = c->p;
	struct tw_planner_found found;

	p.most = most;
	assert_int_equal(tw_planner_search(&p, plan, 1, &found), TW_OK);
	return found.count ? plan->seconds : 0;
}

/* --- a search of its own ---------------------------------------------------------------------- */

struct naive {
	const struct tw_planner *p;
	uint32_t stages;
	uint16_t cut[NODES + 1];
	int of[NODES]; /* -1: left out */
	double best;
};

static void naive_price(struct naive *n)
{
	struct tw_planner_plan q = { .stages = n->stages };
	uint32_t at = 0;

	memcpy(q.cut, n->cut, (n->stages + 1) * sizeof *q.cut);
	for (uint32_t s = 0; s < n->stages; s++) {
		for (uint32_t k = 0; k < n->p->nodes; k++)
			if (n->of[k] == (int)s) {
				q.node[at++] = (uint16_t)k;
				q.lanes[s]++;
			}
		if (!q.lanes[s])
			return;
	}
	q.cells = at;
	if (tw_planner_price(n->p, &q) && (n->best <= 0 || q.estimate < n->best))
		n->best = q.estimate;
}

static void naive_machines(struct naive *n, uint32_t node)
{
	if (node == n->p->nodes) {
		naive_price(n);
		return;
	}
	for (n->of[node] = -1; n->of[node] < (int)n->stages; n->of[node]++)
		naive_machines(n, node + 1);
}

static void naive_cuts(struct naive *n, uint32_t stage)
{
	if (stage == n->stages) {
		n->cut[stage] = (uint16_t)n->p->parts;
		naive_machines(n, 0);
		return;
	}
	for (uint32_t at = n->cut[stage - 1] + 1u; at < n->p->parts; at++) {
		n->cut[stage] = (uint16_t)at;
		naive_cuts(n, stage + 1);
	}
}

/* Every machine in every stage or in none, every cut: nothing that the enumeration leaves out is
 * better. */
static void enumeration_leaves_nothing_out(void **state)
{
	uint32_t compared = 0;

	(void)state;
	for (uint32_t k = 0; k < CASES && compared < 20; k++) {
		struct plan_case c = { 0 };
		struct naive n = { .p = &c.p };
		struct tw_planner_plan plan;

		case_make(&c, k);
		if (c.p.parts > 5 || c.p.nodes > 3)
			continue;
		compared++;
		for (n.stages = 1; n.stages <= c.p.nodes; n.stages++)
			naive_cuts(&n, 1);
		best_of(&c, UINT64_MAX, &plan);
		NEAR_SHARE(n.best > 0 ? plan.estimate : 0, n.best, 1e-12, "the best of all plans");
	}
	assert_true(compared >= 10);
}

/* --- the optima ------------------------------------------------------------------------------ */

/* Plans are compared by what they cost in a search; the first lines of `optima` were found by
 * trying all plans, and some are tried again. */
static void stored_optima_are_those_of_all_plans(void **state)
{
	(void)state;
	for (uint32_t k = 0; k < CASES; k += 7) {
		struct plan_case c = { 0 };
		struct tw_planner_plan plan;
		double best;

		case_make(&c, k);
		best = best_of(&c, UINT64_MAX, &plan) > 0 ? plan.estimate : 0;
		NEAR_SHARE(best, case_optima[k], 1e-9, "the stored optimum");
	}
}

/* The cost of all machines in turn, of each alone, and of even cuts; 0: none fits. */
static double simple_best(const struct plan_case *c)
{
	double best = 0;

	for (uint32_t k = 0; k < 2 * c->p.nodes; k++) {
		struct tw_planner_plan q = { .stages = 1 };

		q.cut[1] = (uint16_t)c->p.parts;
		if (k < c->p.nodes) { /* alone */
			q.cells = q.lanes[0] = 1;
			q.node[0] = (uint16_t)k;
		} else { /* one stage of all, or even ones */
			q.cells = c->p.nodes;
			q.stages = k - c->p.nodes + 1;
			for (uint32_t i = 0; i < c->p.nodes; i++)
				q.node[i] = (uint16_t)i;
			for (uint32_t s = 0; s < q.stages; s++)
				q.lanes[s] = 1;
			if (q.stages == 1)
				q.lanes[0] = (uint16_t)c->p.nodes;
			else
				q.cells = q.stages;
			if (!tw_planner_even(&c->p, q.stages, q.cut))
				continue;
		}
		if (tw_planner_price(&c->p, &q) && (best <= 0 || q.estimate < best))
			best = q.estimate;
	}
	return best;
}

static void the_search_finds_nearly_the_best(void **state)
{
	uint32_t equal = 0, near = 0, none = 0;
	double worst = 1;

	(void)state;
	for (uint32_t k = 0; k < CASES; k++) {
		struct plan_case c = { 0 };
		struct tw_planner_plan plan;
		double simple, found, ratio;

		case_make(&c, k);
		found = best_of(&c, 1, &plan) > 0 ? plan.estimate : 0;
		simple = simple_best(&c);
		if ((found > 0) != (case_optima[k] > 0))
			fail_msg("case %u: a plan was %sfound", k, found > 0 ? "" : "not ");
		if (simple > 0 && found > simple * (1 + 1e-12))
			fail_msg("case %u: %g s, and a simple plan takes %g s", k, found, simple);
		ratio = found > 0 ? found / case_optima[k] : 1;
		assert_true(ratio > 1 - 1e-9);
		none += found <= 0;
		equal += ratio < 1 + 1e-9;
		near += ratio < 1.05;
		worst = fmax(worst, ratio);
	}
	printf("equal %u, within 5 %% %u of %d; worst %.3f; %u without any plan\n", equal, near,
	       CASES, worst, none);
	assert_true(equal >= CASES * 90 / 100);
	assert_true(near >= CASES * 97 / 100);
	assert_true(none > 0); /* or nothing shows that none is found where there is none */
}

/* --- what is in a plan ----------------------------------------------------------------------- */

static void the_same_problem_gives_the_same_plan(void **state)
{
	struct plan_case c = { 0 };
	struct tw_planner_plan one, two;

	(void)state;
	memset(&one, 0, sizeof one);
	memset(&two, 0, sizeof two);
	case_make(&c, 95);
	best_of(&c, 1, &one);
	best_of(&c, 1, &two);
	assert_int_equal(one.stages, two.stages);
	assert_int_equal(one.cells, two.cells);
	assert_memory_equal(one.cut, two.cut, (one.stages + 1) * sizeof *one.cut);
	assert_memory_equal(one.lanes, two.lanes, one.stages * sizeof *one.lanes);
	assert_memory_equal(one.node, two.node, one.cells * sizeof *one.node);
	assert_int_equal(one.recompute, two.recompute);
	assert_true(one.estimate == two.estimate && one.seconds == two.seconds);
}

/* Equal work, no transfers: as many stages, or lanes, as machines are as fast as machines are. */
static void equal_parts_keep_equal_machines_busy(void **state)
{
	struct plan_case c = { 0 };
	struct tw_planner_plan plan;

	(void)state;
	case_make(&c, 3);
	c.p.parts = c.p.nodes = 4;
	c.p.stream = 400;
	for (uint32_t k = 0; k < 4; k++) {
		c.part[k] = (struct tw_planner_part){ .forward = 1, .backward = 2, .counts = true };
		c.border[k] = (struct tw_planner_border){ 0, 0 };
		c.node[k] = (struct tw_planner_node){ .speed = 1 };
	}
	best_of(&c, 1, &plan);
	NEAR_SHARE(plan.estimate, 400 * 4 * 3 / 4.0, 0.03, "four machines at work");
	c.node[3].speed = 0.5; /* a slow one gets less, or is left out */
	best_of(&c, 1, &plan);
	assert_true(plan.estimate < 400 * 4 * 3 / 3.0 * 1.03);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(enumeration_leaves_nothing_out),
		cmocka_unit_test(stored_optima_are_those_of_all_plans),
		cmocka_unit_test(the_search_finds_nearly_the_best),
		cmocka_unit_test(the_same_problem_gives_the_same_plan),
		cmocka_unit_test(equal_parts_keep_equal_machines_busy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
