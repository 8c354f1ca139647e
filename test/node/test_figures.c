/* SPDX-License-Identifier: Apache-2.0 */
/* test_figures.c - rows of figures: every field that is counted has one, and adds up as it says. */
#include "node/figures.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

static size_t bytes_of(const struct tw_figure *f)
{
	return f->type == TW_COUNT32 ? sizeof(uint32_t) : (f->bins ? f->bins : 1) * 8;
}

/* Each byte of the struct belongs to one row, so that nothing is forgotten or added twice. */
static void has_rows(const struct tw_figure *rows, size_t from, size_t bytes)
{
	uint8_t owners[sizeof(struct tw_tally)] = { 0 };

	assert_true(bytes <= sizeof owners);
	for (const struct tw_figure *f = rows; f->name; f++)
		for (size_t k = 0; !f->derived && k < bytes_of(f); k++)
			if (f->offset + k - from < bytes)
				owners[f->offset + k - from]++;
	for (size_t k = 0; k < bytes; k++)
		if (owners[k] != 1)
			fail_msg("byte %zu belongs to %u rows", k, owners[k]);
}

static void every_count_has_its_row(void **state)
{
	(void)state;
	has_rows(tw_result_figures, offsetof(struct tw_ran, totals.tally), sizeof(struct tw_tally));
	has_rows(tw_work_figures, 0, sizeof(struct tw_stage_work));
}

static void counts_add_up_as_their_rows_say(void **state)
{
	struct tw_tally a = { .updates = 3,
			      .refused = 7,
			      .drift = 1.5,
			      .drift_most = 1.25,
			      .histogram = { [0] = 1, [TW_HISTOGRAM - 1] = 2 } };
	const struct tw_tally b = { .updates = 4,
				    .refused = 5,
				    .drift = 0.25,
				    .drift_most = 2.5,
				    .histogram = { [1] = 1, [TW_HISTOGRAM - 1] = 3 } };
	struct tw_stage_work w = { .forwards = 1, .forward_time = 10, .depth = 3, .memory = 9 };
	const struct tw_stage_work v = {
		.forwards = 2, .forward_time = 5, .depth = 4, .memory = 8
	};

	(void)state;
	tw_tally_add(&a, &b);
	assert_true(a.updates == 7 && a.refused == 7 && a.drift == 1.75 && a.drift_most == 2.5);
	assert_true(a.histogram[0] == 1 && a.histogram[1] == 1 &&
		    a.histogram[TW_HISTOGRAM - 1] == 5);
	assert_true(a.contributions == 0 && a.gap_most == 0.0);
	tw_stage_work_add(&w, &v);
	assert_true(w.forwards == 3 && w.forward_time == 15 && w.depth == 4 && w.memory == 9);
}

/* What is not below a group has a sentence; groups come before theirs. */
static void fields_of_a_result_are_explained(void **state)
{
	(void)state;
	for (const struct tw_figure *f = tw_result_figures; f->name; f++) {
		const char *point = f->result ? strchr(f->result, '.') : NULL;
		const struct tw_figure *group = f;

		if (!f->result)
			continue;
		if (!point && (!f->help || !*f->help))
			fail_msg("%s has no help", f->result);
		while (point && group > tw_result_figures &&
		       (!group->result || strchr(group->result, '.')))
			group--;
		if (point && strncmp(group->result, f->result, (size_t)(point - f->result)) != 0)
			fail_msg("%s does not follow its group, but %s", f->result, group->result);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_count_has_its_row),
		cmocka_unit_test(counts_add_up_as_their_rows_say),
		cmocka_unit_test(fields_of_a_result_are_explained),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
