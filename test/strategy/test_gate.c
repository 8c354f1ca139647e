/* SPDX-License-Identifier: Apache-2.0 */
/* test_gate.c - every gate of the table keeps gate.h's word, and each decides as it should. */
#include "strategy/tools.h"
#include "strategy/gate.h"

#include <string.h>

static void every_gate_has_what_its_traits_need(void **state)
{
	(void)state;
	for (size_t k = 0; tw_gate_all[k]; k++) {
		const struct tw_gate *g = tw_gate_all[k];
		const bool rounds = g->traits & TW_GATE_ROUNDS;

		CHECK(rounds || !g->quorum);
		CHECK(rounds || !g->abandons);
		CHECK(!g->in_turn == !(g->traits & TW_GATE_IN_TURN));
		CHECK(!rounds || !g->admit); /* lateness is judged by round */
		CHECK(!(g->traits & TW_GATE_HOLDS) == !g->may_read);
		CHECK(!g->lead || (g->traits & TW_GATE_HOLDS));
		CHECK(!(g->traits & TW_GATE_IN_TURN) || rounds);
		CHECK(!(g->traits & TW_GATE_DROPS) || !rounds);
		CHECK(!g->stops || (g->traits & TW_GATE_DROPS));
		if (!rounds) { /* what is fresh is never dropped, or a run would not end */
			CHECK(tw_gate_admit(g, OPTIONS(g, NULL), 0, 0) != TW_DROP);
			CHECK((g->traits & TW_GATE_DROPS) ||
			      tw_gate_admit(g, OPTIONS(g, NULL), 0, UINT64_MAX) != TW_DROP);
		}
		if (!rounds && (g->traits & TW_GATE_COLLECTS))
			CHECK(g->full);
		CHECK(!(g->traits & TW_GATE_COLLECTS) == !g->sum);
		if (g->sum) {
			CHECK(!tw_gate_totals(g, OPTIONS(g, NULL)));
			CHECK(!tw_gate_totals(g, OPTIONS(g, "sum", "mean", NULL)));
			CHECK(tw_gate_totals(g, OPTIONS(g, "sum", "total", NULL)));
		}
	}
}

/* What may be given is checked; what passed is then never stuck and never out of bounds. */
static void every_gate_closes_what_it_opens(void **state)
{
	(void)state;
	for (size_t k = 0; tw_gate_all[k]; k++) {
		const struct tw_gate *g = tw_gate_all[k];
		const void *o = OPTIONS(g, NULL);

		for (uint32_t workers = 2; workers <= 64; workers++) {
			if (g->check)
				CHECK(g->check(o, workers, NULL) == TW_OK);
			if (g->staleness) {
				const double late = g->staleness(o, workers);

				CHECK(late > 0.0 && late <= workers);
			}
			if (g->traits & TW_GATE_ROUNDS) {
				for (uint32_t busy = 0; busy <= workers; busy++) {
					const uint32_t q = tw_gate_quorum(g, o, workers, busy);

					CHECK(1 <= q && q <= workers);
					CHECK(tw_gate_quorum(g, o, 1, busy) == 1);
				}
			}
			const enum tw_verdict v = tw_gate_admit(g, o, 0, workers);

			CHECK(v == TW_APPLY || v == TW_ACCUMULATE || v == TW_DROP);
			if (v == TW_ACCUMULATE && g->full)
				CHECK(g->full(o, &(struct tw_collected){ .count = workers,
									 .workers = workers,
									 .inverse = workers }));
		}
	}
}

static void bsp_waits_for_all(void **state)
{
	const struct tw_gate *g = tw_gate_find("bsp");

	(void)state;
	for (uint32_t n = 1; n < 100; n++)
		CHECK(tw_gate_quorum(g, OPTIONS(g, NULL), n, 0) == n);
	CHECK(!g->in_turn(OPTIONS(g, NULL)));
	CHECK(!g->in_turn(OPTIONS(g, "apply", "sum", NULL)));
	CHECK(g->in_turn(OPTIONS(g, "apply", "in-turn", NULL)));
	CHECK(!tw_gate_abandons(g, OPTIONS(g, NULL)));
	CHECK(g->traits == (TW_GATE_ROUNDS | TW_GATE_COLLECTS | TW_GATE_IN_TURN));
}

static void backup_does_not_wait_for_the_extra(void **state)
{
	const struct tw_gate *g = tw_gate_find("backup");
	const void *two = OPTIONS(g, "extra", "2", NULL);
	struct tw_error why = { TW_OK };

	(void)state;
	CHECK(tw_gate_quorum(g, two, 8, 0) == 6 && tw_gate_quorum(g, two, 3, 0) == 1);
	CHECK(tw_gate_quorum(g, two, 2, 0) == 1 && tw_gate_quorum(g, two, 1, 0) == 1);
	CHECK(tw_gate_quorum(g, OPTIONS(g, NULL), 8, 0) == 7);
	CHECK(tw_gate_quorum(g, OPTIONS(g, "extra", "0", NULL), 8, 0) == 8);
	/* who is still busy with an earlier round is one of the extra */
	CHECK(tw_gate_quorum(g, two, 7, 1) == 6 && tw_gate_quorum(g, two, 6, 2) == 6);
	CHECK(tw_gate_quorum(g, two, 5, 3) == 5 && tw_gate_quorum(g, two, 2, 1) == 1);
	CHECK(g->check(two, 3, &why) == TW_OK);
	CHECK(g->check(two, 2, &why) == TW_BAD_INPUT);
	CHECK(strstr(why.text, "extra") && strstr(why.text, "0 to 1"));
	CHECK(!tw_gate_abandons(g, two));
	CHECK(tw_gate_abandons(g, OPTIONS(g, "abandon", "true", NULL)));
	CHECK(!tw_gate_is_in_turn(g, two));
}

static void softsync_is_full_with_enough(void **state)
{
	const struct tw_gate *g = tw_gate_find("softsync");
	const void *four = OPTIONS(g, "collect", "4", NULL), *one = OPTIONS(g, NULL);
	struct tw_error why = { TW_OK };

	(void)state;
	CHECK(tw_gate_admit(g, four, 0, 0) == TW_ACCUMULATE &&
	      tw_gate_admit(g, four, 0, 1000) == TW_ACCUMULATE);
	CHECK(!g->full(four, &(struct tw_collected){ .count = 1 }) &&
	      !g->full(four, &(struct tw_collected){ .count = 3 }) &&
	      g->full(four, &(struct tw_collected){ .count = 4 }) &&
	      g->full(four, &(struct tw_collected){ .count = 5 }));
	CHECK(g->full(one, &(struct tw_collected){ .count = 1 }));
	CHECK(g->check(four, 4, &why) == TW_OK && why.status == TW_OK);
	CHECK(g->check(OPTIONS(g, "collect", "9", NULL), 8, &why) == TW_BAD_INPUT);
	CHECK(strstr(why.text, "collect") && strstr(why.text, "1 to 8"));
}

/* n-softsync of 30 workers: collect = floor(30 / n), and on average n updates late. */
static void softsync_takes_a_papers_n(void **state)
{
	const struct tw_gate *g = tw_gate_find("softsync");
	const struct tw_option *n = tw_option_find(g->options, "n");
	void *four = OPTIONS(g, "n", "4", NULL);

	(void)state;
	CHECK(n->convert(four, 30, NULL) == TW_OK);
	CHECK(!g->full(four, &(struct tw_collected){ .count = 6 }) &&
	      g->full(four, &(struct tw_collected){ .count = 7 }) && g->staleness(four, 30) == 4.0);
	CHECK(g->staleness(OPTIONS(g, "collect", "4", NULL), 30) == 7.5);
	CHECK(n->convert(OPTIONS(g, "n", "31", NULL), 30, NULL) == TW_BAD_INPUT);
}

/* Random clocks: held exactly when more than `lead` above the least, and for one who is there. */
static void ssp_holds_who_is_too_far_ahead(void **state)
{
	const struct tw_gate *g = tw_gate_find("ssp");
	const char *const lead_text[] = { "0", "1", "3", "7" };
	const uint64_t lead_of[] = { 0, 1, 3, 7 };
	uint64_t clock[9], held = 0, went = 0;
	bool active[9];

	(void)state;
	for (uint64_t round = 0; round < 20000; round++) {
		struct tw_clocks c = { .least = UINT64_MAX };
		const uint32_t l = pick(round, 4), worker = pick(round + 1000000, 9);
		uint32_t whom = 99;

		for (uint32_t i = 0; i < 9; i++) {
			clock[i] = 1000000000000 + pick(round * 16 + i, 12);
			active[i] = i == worker || pick(round * 16 + i + 77777777, 4);
			c.active_count += active[i];
			if (active[i] && clock[i] < c.least) {
				c.least = clock[i];
				c.least_slot = i;
			}
		}
		const bool may = g->may_read(OPTIONS(g, "lead", lead_text[l], NULL), &c,
					     clock[worker], &whom);

		CHECK(may == (clock[worker] - c.least <= lead_of[l]));
		CHECK(g->lead(OPTIONS(g, "lead", lead_text[l], NULL)) == (double)lead_of[l]);
		if (may) {
			went++;
		} else {
			held++;
			CHECK(whom < 9 && whom != worker && active[whom] && clock[whom] == c.least);
		}
	}
	CHECK(held > 1000 && went > 1000);
}

static void ssp_does_not_hold_the_idle_or_the_last(void **state)
{
	const struct tw_gate *g = tw_gate_find("ssp");
	struct tw_clocks c = { .active_count = 1, .least = 90, .least_slot = 1 };
	uint32_t whom;

	(void)state;
	CHECK(g->may_read(OPTIONS(g, "lead", "0", NULL), &c, 5, &whom));  /* behind the least */
	CHECK(g->may_read(OPTIONS(g, "lead", "0", NULL), &c, 90, &whom)); /* alone */
	c.active_count = 0;
	c.least = 0; /* whatever it is, it means nothing */
	CHECK(g->may_read(OPTIONS(g, "lead", "0", NULL), &c, 90, &whom));
	CHECK(tw_gate_admit(g, OPTIONS(g, NULL), 0, 1000) == TW_APPLY);
}

static void async_and_hogwild_apply_at_once(void **state)
{
	const struct tw_gate *a = tw_gate_find("async"), *h = tw_gate_find("hogwild");

	(void)state;
	for (uint64_t tau = 0; tau < 1000; tau++)
		CHECK(tw_gate_admit(a, NULL, 0, tau) == TW_APPLY &&
		      tw_gate_admit(h, NULL, 0, tau) == TW_APPLY);
	CHECK(a->traits == 0 && h->traits == TW_GATE_LOCKFREE);
}

static void ringmaster_drops_at_its_limit(void **state)
{
	const struct tw_gate *g = tw_gate_find("ringmaster");
	const void *three = OPTIONS(g, "limit", "3", NULL);
	void *twice = OPTIONS(g, "per_worker", "2", NULL);

	(void)state;
	CHECK(tw_gate_admit(g, three, 0, 0) == TW_APPLY &&
	      tw_gate_admit(g, three, 0, 2) == TW_APPLY);
	CHECK(tw_gate_admit(g, three, 0, 3) == TW_DROP &&
	      tw_gate_admit(g, three, 0, UINT64_MAX) == TW_DROP);
	CHECK(g->stops(three) == 0);
	CHECK(g->stops(OPTIONS(g, "limit", "3", "stop", "true", NULL)) == 3);
	CHECK(g->staleness(three, 2) == 2.0 && g->staleness(three, 30) == 3.0);
	CHECK(tw_option_find(g->options, "per_worker")->convert(twice, 5, NULL) == TW_OK);
	CHECK(tw_gate_admit(g, twice, 0, 9) == TW_APPLY &&
	      tw_gate_admit(g, twice, 0, 10) == TW_DROP);
}

static void softsync_may_take_what_is_fresh_only(void **state)
{
	const struct tw_gate *g = tw_gate_find("softsync");
	const void *fresh = OPTIONS(g, "collect", "9", "fresh", "true", NULL);
	const void *stops = OPTIONS(g, "fresh", "true", "stop", "true", NULL);

	(void)state;
	CHECK(tw_gate_admit(g, fresh, 0, 0) == TW_ACCUMULATE &&
	      tw_gate_admit(g, fresh, 0, 1) == TW_DROP);
	CHECK(g->check(fresh, 2, NULL) == TW_OK); /* several of a worker */
	CHECK(g->keeps(fresh) == TW_KEEP_SUM && g->keeps(OPTIONS(g, NULL)) == TW_KEEP_EACH);
	CHECK(g->stops(fresh) == 0 && g->stops(stops) == 1);
}

/* The harmonic mean of the workers' counts, times workers, reaches `collect`. */
static void malenia_waits_for_everybody(void **state)
{
	const struct tw_gate *g = tw_gate_find("malenia");
	const void *ten = OPTIONS(g, "collect", "10", NULL), *one = OPTIONS(g, NULL);

	(void)state;
	CHECK(tw_gate_admit(g, ten, 0, 0) == TW_ACCUMULATE &&
	      tw_gate_admit(g, ten, 0, 1) == TW_DROP);
	CHECK(g->keeps(ten) == TW_KEEP_BY_WORKER);
	for (uint32_t a = 1; a < 20; a++)
		for (uint32_t b = 1; b < 20; b++) {
			const struct tw_collected k = { .count = a + b,
							.workers = 2,
							.inverse = 1.0 / a + 1.0 / b };
			struct tw_collected less = k;

			less.missing = 1;
			CHECK(g->full(ten, &k) == (4 * a * b >= 10 * (a + b)));
			CHECK(g->full(one, &k) && !g->full(ten, &less) && !g->full(one, &less));
		}
	CHECK(!g->full(one, &(struct tw_collected){ .count = 0 }));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_gate_has_what_its_traits_need),
		cmocka_unit_test(every_gate_closes_what_it_opens),
		cmocka_unit_test(bsp_waits_for_all),
		cmocka_unit_test(backup_does_not_wait_for_the_extra),
		cmocka_unit_test(softsync_is_full_with_enough),
		cmocka_unit_test(softsync_takes_a_papers_n),
		cmocka_unit_test(ssp_holds_who_is_too_far_ahead),
		cmocka_unit_test(ssp_does_not_hold_the_idle_or_the_last),
		cmocka_unit_test(async_and_hogwild_apply_at_once),
		cmocka_unit_test(ringmaster_drops_at_its_limit),
		cmocka_unit_test(softsync_may_take_what_is_fresh_only),
		cmocka_unit_test(malenia_waits_for_everybody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
