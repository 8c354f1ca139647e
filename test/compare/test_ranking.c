/* SPDX-License-Identifier: Apache-2.0 */
/* test_ranking.c - the order of rows, some of whose runs diverged, failed or missed the target. */
#include "compare/findings.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define ROWS  5
#define SEEDS 3

/* "88 x -": a value, a run that diverged, one that failed; "o": it ended without the target. */
static void fill(const char *text, enum tw_measure m, struct tw_compare_run *run)
{
	char word[20];
	int used;

	for (size_t k = 0; k < SEEDS; k++, text += used) {
		assert_int_equal(sscanf(text, " %19s%n", word, &used), 1);
		for (size_t i = 0; i < TW_MEASURES; i++)
			run[k].value[i] = NAN;
		run[k].diverged = *word == 'x';
		run[k].failure = *word == '-' ? "it failed" : NULL;
		if (run[k].diverged || run[k].failure)
			continue;
		run[k].value[TW_MEASURE_SECONDS] = 100;
		run[k].value[TW_MEASURE_LOSS] = 1;
		if (*word != 'o')
			run[k].value[m] = atof(word);
	}
}

/* The ranks of rows, as one text: "21345", and the best row ("-": none). */
static void ranks(const char *const *rows, enum tw_measure m, char *out)
{
	struct tw_compare_run run[ROWS * SEEDS] = { { 0 } };
	struct tw_compare_row row[ROWS] = { { 0 } };
	struct tw_comparison c = {
		.row = row,
		.measure = tw_compare_measure(tw_measure_kinds[m].name),
		.options.seeds = SEEDS,
	};
	const struct tw_compare_runs r = { .comparison = &c, .run = run };
	size_t place[ROWS];
	struct tw_ranking rank = { .place = place };

	for (; c.rows < ROWS && rows[c.rows]; c.rows++)
		fill(rows[c.rows], m, &run[c.rows * SEEDS]);
	tw_ranking_make(&r, &rank);
	for (size_t k = 0; k < c.rows; k++)
		*out++ = (char)('0' + place[k]);
	snprintf(out, 10, " %c", rank.best == SIZE_MAX ? '-' : (char)('0' + rank.best));
}

static void rows_rank_by_what_they_reached(void **state)
{
	static const struct {
		enum tw_measure measure;
		const char *row[ROWS], *ranks;
	} cases[] = {
		/* one lost run does not put 88 % behind 11.5 % */
		{ TW_MEASURE_ACCURACY,
		  { "0.115 0.115 0.115", "0.88 0.88 x", "0.87 0.87 0.87", "x x x" },
		  "3214 2" },
		/* one that failed does not count */
		{ TW_MEASURE_ACCURACY, { "0.115 0.1 0.1", "0.88 0.88 -", "- - -" }, "213 1" },
		{ TW_MEASURE_LOSS, { "0.3 0.2 0.2", "0.1 0.1 x", "0.1 0.1 0.1" }, "321 2" },
		/* a run that does not reach the target lasts as long as the longest */
		{ TW_MEASURE_TIME_TO_TARGET,
		  { "o o o", "9 9 o", "20 20 20", "90 90 90", "x x x" },
		  "42135 2" },
		/* nobody is best who reached nothing */
		{ TW_MEASURE_TIME_TO_TARGET, { "x x x", "o o o" }, "21 -" },
		{ TW_MEASURE_ACCURACY, { "x x x", "- - -" }, "12 -" },
	};

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		char said[20];

		ranks(cases[k].row, cases[k].measure, said);
		assert_string_equal(said, cases[k].ranks);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_rank_by_what_they_reached),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
