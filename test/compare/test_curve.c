/* SPDX-License-Identifier: Apache-2.0 */
/* test_curve.c - curves: read from a log, looked up, and thinned without losing spikes. */
#include "compare/curve.h"
#include "compare/measures.h"
#include "kit/scratch.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MANY 5000

/* A falling loss with one spike upwards and one downwards. */
static struct tw_curve jagged(size_t n, size_t up, size_t down)
{
	struct tw_curve c = { .n = n, .room = n, .point = calloc(n, sizeof *c.point) };

	for (size_t k = 0; k < n; k++) {
		c.point[k][TW_CURVE_EPOCHS] = c.point[k][TW_CURVE_TIME] = (double)k;
		c.point[k][TW_CURVE_LOSS] = 1.0 / (double)(k + 1);
		c.point[k][TW_CURVE_ACCURACY] = NAN;
	}
	c.point[up][TW_CURVE_LOSS] = 100;
	c.point[down][TW_CURVE_LOSS] = -100;
	return c;
}

static bool has(const size_t *keep, size_t n, size_t wanted)
{
	for (size_t k = 0; k < n; k++)
		if (keep[k] == wanted)
			return true;
	return false;
}

static void thinning_keeps_spikes_and_ends(void **state)
{
	static size_t keep[MANY];
	static const size_t most[] = { 8, 20, 100, 2000 };

	(void)state;
	for (size_t at = 1; at < MANY - 1; at += 97) {
		struct tw_curve c = jagged(MANY, at, MANY - 1 - at);

		for (size_t k = 0; k < 4; k++) {
			const size_t n = tw_curve_thin(&c, most[k], keep);

			assert_true(n <= most[k]);
			assert_true(has(keep, n, at) && has(keep, n, MANY - 1 - at));
			assert_true(keep[0] == 0 && keep[n - 1] == MANY - 1);
			for (size_t i = 1; i < n; i++)
				assert_true(keep[i] > keep[i - 1]);
		}
		tw_curve_release(&c);
	}
}

static void a_short_curve_stays_whole(void **state)
{
	struct tw_curve c = jagged(50, 3, 9);
	size_t keep[50];

	(void)state;
	assert_int_equal(tw_curve_thin(&c, 50, keep), 50);
	tw_curve_release(&c);
}

static void curves_are_looked_up_by_steps(void **state)
{
	struct tw_curve c = jagged(10, 4, 6);

	(void)state;
	assert_true(tw_curve_at(&c, TW_CURVE_TIME, 2.5, TW_CURVE_LOSS) == 1.0 / 3);
	assert_true(tw_curve_at(&c, TW_CURVE_TIME, 4, TW_CURVE_LOSS) == 100);
	assert_true(isnan(tw_curve_at(&c, TW_CURVE_TIME, -1, TW_CURVE_LOSS)));
	assert_true(tw_curve_first(&c, TW_CURVE_TIME, TW_CURVE_LOSS, 0.25, false) == 3);
	assert_true(tw_curve_first(&c, TW_CURVE_TIME, TW_CURVE_LOSS, 50, true) == 4);
	assert_true(isnan(tw_curve_first(&c, TW_CURVE_TIME, TW_CURVE_LOSS, -1000, false)));
	tw_curve_release(&c);
}

static void logs_give_their_evaluations(void **state)
{
	struct tw_error why = { 0 };
	struct tw_curve c = { 0 };
	char path[500];

	put_text("log.jsonl",
		 "{\"event\": \"start\", \"time\": 0.0, \"loss\": 7}\n"
		 "{\"event\": \"evaluation\", \"time\": 1.5, \"loss\": 0.5, \"accuracy\": null, "
		 "\"epochs\": 0.25, \"updates\": 3, \"bytes\": 10}\n"
		 "{\"event\": \"evaluation\", \"time\": 3, \"loss\": null, \"accuracy\": 0.75}\n");
	snprintf(path, sizeof path, "%s/log.jsonl", scratch());
	(void)state;
	assert_int_equal(tw_curve_read(open(path, O_RDONLY), path, &c, &why), TW_OK);
	assert_int_equal(c.n, 2);
	assert_true(c.point[0][TW_CURVE_TIME] == 1.5 && c.point[0][TW_CURVE_BYTES] == 10);
	assert_true(isnan(c.point[0][TW_CURVE_ACCURACY]) && isnan(c.point[1][TW_CURVE_LOSS]));
	assert_true(c.point[1][TW_CURVE_ACCURACY] == 0.75);
	tw_curve_release(&c);
	assert_int_equal(tw_curve_read(-1, "/nowhere/log.jsonl", &c, &why), TW_IO);
}

/* --- numbers for people --- */

static void reads(const char *said, const char *wanted)
{
	if (strcmp(said, wanted) != 0)
		fail_msg("'%s' is not '%s'", said, wanted);
}

static void figures_have_units_and_honest_digits(void **state)
{
	char out[80];

	(void)state;
	reads(tw_measure_text(TW_UNIT_PERCENT, 0.97311, out, sizeof out), "97.31 %");
	reads(tw_measure_text(TW_UNIT_BYTES, 1234567, out, sizeof out), "1.23 MB");
	reads(tw_measure_text(TW_UNIT_BYTES, 999.7, out, sizeof out), "1 kB");
	reads(tw_measure_text(TW_UNIT_PER_SECOND, 1234567, out, sizeof out), "1,234,567/s");
	reads(tw_measure_text(TW_UNIT_SECONDS, 12.345, out, sizeof out), "12.3 s");
	reads(tw_measure_text(TW_UNIT_PLAIN, NAN, out, sizeof out), "-");
	reads(tw_spread_text(TW_UNIT_PERCENT, 0.97311, 0.00123, false, out, sizeof out),
	      "97.31 \xc2\xb1 0.12 %");
	reads(tw_spread_text(TW_UNIT_PLAIN, 0.00182345, 0.00056, false, out, sizeof out),
	      "0.00182 \xc2\xb1 0.00056");
	reads(tw_spread_text(TW_UNIT_SECONDS, 123.456, 12.3, true, out, sizeof out),
	      "123 \xc2\xb1 12");
	reads(tw_spread_text(TW_UNIT_PLAIN, 0.5, NAN, false, out, sizeof out), "0.5");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(thinning_keeps_spikes_and_ends),
		cmocka_unit_test(a_short_curve_stays_whole),
		cmocka_unit_test(curves_are_looked_up_by_steps),
		cmocka_unit_test(logs_give_their_evaluations),
		cmocka_unit_test(figures_have_units_and_honest_digits),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
