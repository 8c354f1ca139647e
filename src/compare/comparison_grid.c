/* SPDX-License-Identifier: Apache-2.0 */
/* comparison_grid.c - grids of tuned values: the values that lie beyond those that were given. */
#include "compare/comparison_inner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP_LEAST 1.2 /* a smaller ratio of neighbours makes no grid */
#define UNEVEN     3.0 /* how much longer one step of a grid may be than another, in logarithms */

/* What `grid` stands for. */
static const char *const begins[] = { "0.01", "0.03", "0.1" };

/* A single word in the place of values. */
static enum tw_status begin(struct tw_compare_reading *r, struct tw_compare_axis *axis)
{
	const size_t n = strlen(axis->path);
	const char *place = axis->value[0].node->place;

	if (axis->count != 1 || strcmp(axis->value[0].text, "grid") != 0)
		return TW_OK;
	if (n < 4 || strcmp(axis->path + n - 4, "rate") != 0)
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s: %s: only a learning rate has a grid by itself; give values, "
			       "such as 1, 2, 4",
			       place, axis->path);
	axis->count = sizeof begins / sizeof begins[0];
	axis->value = tw_arena_get(&r->c->arena, axis->count * sizeof *axis->value);
	for (size_t k = 0; axis->value && k < axis->count; k++) {
		axis->value[k] = (struct tw_compare_value){
			.text = begins[k],
			.node = tw_tree_new(&r->c->arena, TW_TREE_TEXT, TW_FROM_FLAG, place,
					    begins[k]),
		};
		if (!axis->value[k].node)
			return tw_compare_no_memory(r);
	}
	return axis->value ? TW_OK : tw_compare_no_memory(r);
}

static double number(const struct tw_compare_value *v)
{
	char *end = NULL;
	const double x = strtod(v->text, &end);

	return end == v->text || *end ? NAN : x;
}

static int ascending(const void *a, const void *b)
{
	const double x = number(a), y = number(b);

	return (x > y) - (x < y);
}

/* Numbers above 0 with steps that are about equally long in logarithms; `value` is sorted. */
static bool is_geometric(const struct tw_compare_value *value, size_t n)
{
	double least = INFINITY, most = 0;

	for (size_t k = 1; k < n; k++) {
		const double step = log(number(&value[k]) / number(&value[k - 1]));

		least = fmin(least, step);
		most = fmax(most, step);
	}
	return n >= 2 && number(&value[0]) > 0 && least >= log(STEP_LEAST) &&
	       most <= UNEVEN * least;
}

/* Beyond x, the end of the grid, whose neighbours are `a` and then `b` (NAN: there is none): the
 * last two steps repeat, so that 0.01, 0.03, 0.1 leads to 0.3 and 1.  Three digits are enough. */
static double beyond(double x, double a, double b)
{
	char text[40];

	snprintf(text, sizeof text, "%.3g", isnan(b) ? x * (x / a) : a * (x / b));
	return strtod(text, NULL);
}

static enum tw_status put(struct tw_compare_reading *r, struct tw_compare_value *out, double x)
{
	char text[40];

	snprintf(text, sizeof text, "%.3g", x);
	out->text = tw_arena_text(&r->c->arena, text);
	out->node = tw_compare_node(r, text);
	return out->text && out->node ? TW_OK : tw_compare_no_memory(r);
}

enum tw_status tw_compare_settle_grid(struct tw_compare_reading *r, struct tw_compare_axis *axis)
{
	const size_t more = r->c->options.widen;
	enum tw_status st = begin(r, axis);
	const size_t n = axis->count;
	struct tw_compare_value *value;

	axis->given = n;
	if (st != TW_OK)
		return st;
	value = tw_arena_get(&r->c->arena, (n + 2 * more) * sizeof *value);
	if (!value)
		return tw_compare_no_memory(r);
	memcpy(value + more, axis->value, n * sizeof *value);
	for (size_t k = 0; k < n && !axis->narrow; k++)
		if (isnan(number(&axis->value[k])))
			axis->narrow = "its values are no numbers";
	if (!axis->narrow) {
		qsort(value + more, n, sizeof *value, ascending);
		axis->narrow = !more                            ? "compare.widen is 0"
			       : !is_geometric(value + more, n) ? "its values are no geometric grid"
								: NULL;
	}
	if (axis->narrow)
		return TW_OK;
	for (size_t k = more + n; k < n + 2 * more && st == TW_OK; k++)
		st = put(r, &value[k],
			 beyond(number(&value[k - 1]), number(&value[k - 2]),
				k - more < 3 ? NAN : number(&value[k - 3])));
	for (size_t k = more; k-- > 0 && st == TW_OK;)
		st = put(r, &value[k],
			 beyond(number(&value[k + 1]), number(&value[k + 2]),
				k + 3 >= more + n ? NAN : number(&value[k + 3])));
	axis->value = value;
	axis->count = n + 2 * more;
	axis->first = more;
	return st;
}
