/* SPDX-License-Identifier: Apache-2.0 */
/* combination.c - the values of a combination of the grid; names of worlds and of what is
 * measured. */
#include "compare/comparison_inner.h"

#include <string.h>

const char *const tw_compare_worlds[] = {
	[TW_COMPARE_SIM] = "sim",
	[TW_COMPARE_THREADS] = "threads",
	[TW_COMPARE_PROCESSES] = "processes",
	NULL,
};

enum tw_status tw_compare_no_memory(struct tw_compare_reading *r)
{
	return tw_fail(r->why, TW_NO_MEMORY, "no memory for the comparison");
}

size_t tw_comparison_value(const struct tw_comparison *c, size_t combination, size_t tune)
{
	for (size_t k = c->tunes; k-- > tune + 1;)
		combination /= c->tune[k].count;
	return combination % c->tune[tune].count;
}

size_t tw_comparison_with(const struct tw_comparison *c, size_t combination, size_t tune,
			  size_t value)
{
	size_t stride = 1;

	for (size_t k = c->tunes; k-- > tune + 1;)
		stride *= c->tune[k].count;
	return combination + (value - tw_comparison_value(c, combination, tune)) * stride;
}

const struct tw_compare_try *tw_comparison_tried(const struct tw_compare_row *row,
						 size_t combination)
{
	for (size_t k = 0; k < row->tries; k++)
		if (row->try_[k].combination == combination)
			return &row->try_[k];
	return NULL;
}

uint32_t tw_compare_measure(const char *name)
{
	uint32_t k = 0;

	while (tw_compare_measures[k] && strcmp(tw_compare_measures[k], name) != 0)
		k++;
	return k;
}
