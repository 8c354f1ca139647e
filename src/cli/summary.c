/* SPDX-License-Identifier: Apache-2.0 */
/* summary.c - results on stdout: as JSON, or as a few aligned lines for people. */
#include "cli/summary.h"

#include <stdio.h>
#include <string.h>

void tw_print_json(const json_t *object)
{
	json_dumpf(object, stdout, JSON_INDENT(2));
	putchar('\n');
}

/* --- a run --- */

static double number(const json_t *r, const char *name)
{
	return json_number_value(json_object_get(r, name));
}

static void line(const char *label)
{
	printf("%-12s ", label);
}

static void figure(const json_t *r, const char *label, const char *name)
{
	const json_t *v = json_object_get(r, name);

	line(label);
	if (json_is_number(v))
		printf("%.6g\n", json_number_value(v));
	else if (json_is_string(v))
		printf("%s\n", json_string_value(v));
	else
		printf("not a number\n");
}

/* Counts that are worth a word only when something happened. */
static void troubles(const json_t *r)
{
	static const char *const names[] = { "dropped", "refused", "redealt", "repeated",
					     "lost_updates" };
	const char *sep = "";

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		const double n = number(r, names[i]);

		if (n <= 0.0)
			continue;
		if (!*sep)
			line("troubles");
		printf("%s%.0f %s", sep, n,
		       strcmp(names[i], "lost_updates") ? names[i] : "updates lost");
		sep = ", ";
	}
	if (*sep)
		putchar('\n');
}

void tw_print_summary(const json_t *r)
{
	const json_t *staleness = json_object_get(r, "staleness");

	line("strategy");
	printf("%s, %.0f workers, %.0f parameters, seed %.0f\n",
	       json_string_value(json_object_get(r, "strategy")), number(r, "workers"),
	       number(r, "parameters"), number(r, "seed"));
	figure(r, "loss", "loss");
	if (json_is_number(json_object_get(r, "accuracy")))
		figure(r, "accuracy", "accuracy");
	line("work");
	printf("%.4g epochs, %.0f steps, %.6g updates, %.0f samples\n", number(r, "epochs"),
	       number(r, "steps"), number(r, "updates"), number(r, "samples"));
	line("time");
	printf("%.3g s, %.4g samples/s", number(r, "seconds"), number(r, "samples_per_second"));
	if (json_object_get(r, "virtual_seconds"))
		printf("; %.6g virtual seconds, %.0f events", number(r, "virtual_seconds"),
		       number(r, "events"));
	putchar('\n');
	line("staleness");
	printf("mean %.4g, max %.0f\n", number(staleness, "mean"), number(staleness, "max"));
	troubles(r);
	line("digest");
	printf("%s (%s, %s)\n",
	       json_is_string(json_object_get(r, "parameters_digest"))
		       ? json_string_value(json_object_get(r, "parameters_digest"))
		       : "none",
	       json_string_value(json_object_get(r, "evaluated")),
	       json_string_value(json_object_get(r, "isa")));
	if (json_is_string(json_object_get(r, "checkpoint")))
		figure(r, "checkpoint", "checkpoint");
}

/* --- a bench --- */

static void cell(const json_t *v)
{
	if (json_is_number(v))
		printf(" %12.5g", json_number_value(v));
	else
		printf(" %12s", "-");
}

void tw_print_cases(const json_t *result)
{
	const json_t *c;
	size_t i;

	printf("%-20s %12s %12s %8s  %s\n", "case", "value", "floor", "ratio", "unit");
	json_array_foreach(json_object_get(result, "cases"), i, c)
	{
		const json_t *ratio = json_object_get(c, "ratio");

		printf("%-20s", json_string_value(json_object_get(c, "name")));
		cell(json_object_get(c, "value"));
		cell(json_object_get(c, "floor"));
		if (json_is_number(ratio))
			printf(" %8.3f", json_number_value(ratio));
		else
			printf(" %8s", "-");
		printf("  %s\n", json_string_value(json_object_get(c, "unit")));
	}
}
