/* SPDX-License-Identifier: Apache-2.0 */
/* stage_plans.c - one question to the planner. */
#include "job/stage_plans.h"

#include "kit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdio.h>
#include <cmocka.h>

enum tw_status stage_plans_ask(const char *job, struct tw_stages_request r, json_t **out,
			       struct tw_error *why)
{
	put_text("job.yaml", job);
	r.path = path_of("job.yaml");
	r.nodes = r.nodes ? r.nodes : "";
	r.profile = r.profile ? r.profile : "";
	r.compute = r.compute ? r.compute : "";
	r.bandwidth = r.bandwidth ? r.bandwidth : "";
	r.latency = r.latency ? r.latency : "";
	return tw_query_stages(&r, out, why);
}

json_t *stage_plans(const char *job, struct tw_stages_request r)
{
	struct tw_error why = { 0 };
	json_t *out = NULL;

	if (stage_plans_ask(job, r, &out, &why) != TW_OK)
		fail_msg("%s", why.text);
	return out;
}

double stage_number(const json_t *row, const char *name)
{
	return json_number_value(json_object_get(row, name));
}

double stage_plans_near(const json_t *answer, double most, const char *what)
{
	const json_t *row;
	double worst = 0;
	size_t k, compared = 0;

	json_array_foreach(json_object_get(answer, "rows"), k, row)
	{
		const double said = stage_number(row, "predicted_samples_per_second");
		const double seen = stage_number(row, "simulated_samples_per_second");
		const char *name = json_string_value(json_object_get(row, "name"));

		if (said <= 0 || seen <= 0)
			continue;
		compared++;
		worst = fmax(worst, fabs(said / seen - 1));
		if (fabs(said / seen - 1) > most)
			fail_msg("%s, %s: predicted %g samples/s, and the simulator has %g", what,
				 name, said, seen);
	}
	assert_true(compared >= 3);
	return worst;
}
