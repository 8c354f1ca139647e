/* SPDX-License-Identifier: Apache-2.0 */
/* plan_best.c - which of several predicted strategies is best. */
#include "query/plan_best.h"

#include "base/json.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static const char *family_of(const json_t *row)
{
	return json_string_value(json_object_get(row, "family")); /* NULL: the job's own strategy */
}

/* Nearly as fast counts as equal: then less staleness, then less memory. */
static bool is_better(const json_t *a, const json_t *b)
{
	const double fast =
		tw_number_at(a, "samples_per_second") / tw_number_at(b, "samples_per_second");
	const double late = tw_number_at(a, "staleness") - tw_number_at(b, "staleness");

	if (fabs(fast - 1) > 0.01)
		return fast > 1;
	if (fabs(late) > 0.01)
		return late < 0;
	return tw_number_at(a, "server_memory_bytes") + tw_number_at(a, "worker_memory_bytes") <
	       tw_number_at(b, "server_memory_bytes") + tw_number_at(b, "worker_memory_bytes");
}

/* Add the best of rows from..to, of one family or of all for NULL. */
static void add_best(const json_t *rows, size_t from, size_t to, const char *family, json_t *out)
{
	const json_t *best = NULL;
	size_t at = 0;

	for (size_t k = from; k < to; k++) {
		const json_t *row = json_array_get(rows, k);

		if (!family_of(row) || !json_is_true(json_object_get(row, "fits")) ||
		    (family && strcmp(family_of(row), family) != 0))
			continue;
		if (!best || is_better(row, best)) {
			best = row;
			at = k;
		}
	}
	if (best)
		json_array_append_new(out,
				      json_pack("{s:O, s:s?, s:O, s:I}", "workers",
						json_object_get(best, "workers"), "family", family,
						"strategy", json_object_get(best, "strategy"),
						"row", (json_int_t)at));
}

json_t *tw_plan_best(const json_t *rows)
{
	const size_t count = json_array_size(rows);
	json_t *out = json_array();
	size_t from = 0;

	while (out && from < count) {
		const double workers = tw_number_at(json_array_get(rows, from), "workers");
		const char *last = NULL;
		size_t to = from;

		while (to < count && tw_number_at(json_array_get(rows, to), "workers") == workers)
			to++;
		add_best(rows, from, to, NULL, out);
		for (size_t k = from; k < to; k++) {
			const char *family = family_of(json_array_get(rows, k));

			if (family && (!last || strcmp(family, last) != 0))
				add_best(rows, from, to, last = family, out);
		}
		from = to;
	}
	return out;
}
