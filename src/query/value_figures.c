/* SPDX-License-Identifier: Apache-2.0 */
/* value_figures.c - figures of predicted values. */
#include "query/quality.h"

#include "base/json.h"

#include <math.h>

struct figures {
	double mae, rmse, r2; /* r2 NAN: there is one row */
};

static struct figures figures_of(const struct tw_value_answers *a, uint32_t target)
{
	const double n = (double)a->rows;
	double mean = 0, lengths = 0, squares = 0, spread = 0;

	for (uint64_t i = 0; i < a->rows; i++)
		mean += (double)a->truth[i * a->targets + target];
	mean /= n;
	for (uint64_t i = 0; i < a->rows; i++) {
		const double t = (double)a->truth[i * a->targets + target];
		const double e = (double)a->predicted[i * a->targets + target] - t;

		lengths += fabs(e);
		squares += e * e;
		spread += (t - mean) * (t - mean);
	}
	return (struct figures){
		.mae = lengths / n,
		.rmse = sqrt(squares / n),
		.r2 = a->rows < 2   ? NAN
		      : spread > 0  ? 1 - squares / spread
		      : squares > 0 ? 0
				    : 1,
	};
}

static void set_figures(json_t *o, const struct figures *f)
{
	json_object_set_new(o, "mae", tw_json_number(f->mae));
	json_object_set_new(o, "rmse", tw_json_number(f->rmse));
	json_object_set_new(o, "r2", tw_json_number(f->r2));
}

enum tw_status tw_value_figures(const struct tw_value_answers *a, json_t *o, json_t *notes)
{
	struct figures mean = { 0 };
	json_t *list = json_array();
	char number[TW_NAME_NUMBER];

	for (uint32_t k = 0; k < a->targets; k++) {
		const char *name = !a->names->answer && a->targets == 1 && a->names->label
					   ? a->names->label
					   : tw_name_answer(a->names, k, number);
		const struct figures f = figures_of(a, k);
		json_t *one = json_pack("{s:s}", "name", name);

		set_figures(one, &f);
		json_array_append_new(list, one);
		mean.mae += f.mae / a->targets;
		mean.rmse += f.rmse / a->targets;
		mean.r2 += f.r2 / a->targets;
		if (f.r2 <= 0)
			json_array_append_new(
				notes,
				json_sprintf("R^2 of '%s' is %.4g: predicting the mean of these "
					     "rows would be as good or better",
					     name, f.r2));
	}
	set_figures(o, &mean);
	json_object_set_new(o, "targets", list);
	return list ? TW_OK : TW_NO_MEMORY;
}
