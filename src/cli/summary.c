/* SPDX-License-Identifier: Apache-2.0 */
/* summary.c - results on stdout: as JSON, or as a few aligned lines for people. */
#include "cli/summary.h"
#include "base/json.h"
#include "run/result.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void tw_print_json(const json_t *object)
{
	json_dumpf(object, stdout, JSON_INDENT(2));
	putchar('\n');
}

/* --- a run --- */

/* A whole number as it is, however large: not by way of a double. */
static const char *whole(const json_t *r, const char *name, char out[24])
{
	const json_t *v = json_object_get(r, name);

	if (json_is_string(v))
		snprintf(out, 24, "%.23s", json_string_value(v));
	else if (json_is_integer(v))
		snprintf(out, 24, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
	else
		snprintf(out, 24, "%.0f", json_number_value(v));
	return out;
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
		printf("%s\n", json_is_true(json_object_get(r, "interrupted")) ? "not evaluated yet"
									       : "not a number");
}

/* Counts that are worth a word only when something happened. */
static void troubles(const json_t *r)
{
	const char *sep = "";

	for (const struct tw_figure *f = tw_result_figures; f->name; f++) {
		char n[24];

		if (!f->trouble || strcmp(whole(r, f->result, n), "0") == 0)
			continue;
		if (!*sep)
			line("troubles");
		printf("%s%s %s", sep, n, f->trouble);
		sep = ", ";
	}
	if (*sep)
		putchar('\n');
}

static void goal(const json_t *g)
{
	if (!json_is_object(g))
		return;
	line("goal");
	if (!json_is_true(json_object_get(g, "reached"))) {
		printf("not reached\n");
		return;
	}
	printf("reached after %.4g epochs, %.6g updates, %.4g s: loss %.6g",
	       tw_number_at(g, "epochs"), tw_number_at(g, "updates"), tw_number_at(g, "seconds"),
	       tw_number_at(g, "loss"));
	if (json_is_number(json_object_get(g, "accuracy")))
		printf(", accuracy %.4g", tw_number_at(g, "accuracy"));
	putchar('\n');
}

/* "loss 0.3, accuracy 0.9" */
static void score(const json_t *s)
{
	printf("loss %.6g", tw_number_at(s, "loss"));
	if (json_is_number(json_object_get(s, "accuracy")))
		printf(", accuracy %.4g", tw_number_at(s, "accuracy"));
}

static void kept(const json_t *k)
{
	if (!json_is_object(k))
		return;
	line("kept");
	printf("the evaluation after %.4g epochs: ", tw_number_at(k, "epochs"));
	score(k);
	printf("%s\n", json_is_true(json_object_get(k, "patience"))
			       ? "; the run ended because none was better for long"
			       : "");
}

static void test(const json_t *t)
{
	if (!json_is_object(t))
		return;
	line("test set");
	score(t);
	printf("; loss and accuracy above are those on the validation set\n");
}

static void optimiser(const json_t *o)
{
	char a[24], b[24];

	if (!json_is_object(o))
		return;
	line("optimiser");
	printf("%s iterations, %s evaluations: loss %.9g, gradient %.3g; %s\n",
	       whole(o, "iterations", a), whole(o, "evaluations", b), tw_number_at(o, "loss"),
	       tw_number_at(o, "gradient"), tw_text_at(o, "ended"));
}

static void pipeline(const json_t *o)
{
	const json_t *cell;
	double memory = 0;
	size_t k;

	if (!json_is_object(o))
		return;
	json_array_foreach(json_object_get(o, "cells"), k, cell) memory =
		fmax(memory, tw_number_at(cell, "memory_bytes"));
	line("pipeline");
	if (json_is_null(json_object_get(o, "bubble"))) { /* other processes know it */
		printf("%s, %.0f stages\n", tw_text_at(o, "schedule"), tw_number_at(o, "stages"));
		return;
	}
	printf("%s, %.0f stages: idle %.3g %%, at most %.3g MB of versions and activations in a "
	       "node\n",
	       tw_text_at(o, "schedule"), tw_number_at(o, "stages"),
	       100 * tw_number_at(o, "bubble"), memory / 1e6);
}

void tw_print_summary(const json_t *r)
{
	const json_t *staleness = json_object_get(r, "staleness");
	char a[24], b[24], c[24];

	line("strategy");
	whole(r, "workers", a);
	printf("%s, %s worker%s, %s parameters, seed %s\n", tw_text_at(r, "strategy"), a,
	       strcmp(a, "1") == 0 ? "" : "s", whole(r, "parameters", b), whole(r, "seed", c));
	figure(r, "loss", "loss");
	if (json_is_number(json_object_get(r, "accuracy")))
		figure(r, "accuracy", "accuracy");
	kept(json_object_get(r, "kept"));
	test(json_object_get(r, "test"));
	goal(json_object_get(r, "goal"));
	line("work");
	printf("%.4g epochs", tw_number_at(r, "epochs_applied"));
	if (fabs(tw_number_at(r, "epochs") - tw_number_at(r, "epochs_applied")) > 5e-4)
		printf(" applied of %.4g dealt", tw_number_at(r, "epochs"));
	printf(", %s steps, %.6g updates, %s samples\n", whole(r, "steps", a),
	       tw_number_at(r, "updates"), whole(r, "samples", b));
	optimiser(json_object_get(r, "optimiser"));
	pipeline(json_object_get(r, "pipeline"));
	line("time");
	printf("%.3g s, %.4g samples/s", tw_number_at(r, "seconds"),
	       tw_number_at(r, "samples_per_second"));
	if (json_object_get(r, "virtual_seconds"))
		printf("; %.6g virtual seconds, %s events", tw_number_at(r, "virtual_seconds"),
		       whole(r, "events", a));
	putchar('\n');
	line("staleness");
	printf("mean %.4g, max %s\n", tw_number_at(staleness, "mean"), whole(staleness, "max", a));
	troubles(r);
	if (tw_whole_at(r, "restarts") > 0) {
		line("restarts");
		printf("%s after divergences, update.rate is %.6g\n", whole(r, "restarts", a),
		       tw_number_at(r, "rate"));
	}
	if (json_is_string(json_object_get(r, "parameters_digest"))) { /* it came to its end */
		line("digest");
		printf("%s (%s, %s)\n", tw_text_at(r, "parameters_digest"),
		       tw_text_at(r, "evaluated"), tw_text_at(r, "isa"));
	}
	if (json_is_string(json_object_get(r, "checkpoint")))
		figure(r, "checkpoint", "checkpoint");
}

void tw_print_joined(const json_t *r)
{
	const char *role = tw_text_at(r, "role");
	const bool left = json_is_true(json_object_get(r, "left"));
	char a[24], b[24];

	line(role);
	if (strcmp(role, "server") == 0) /* it computes nothing */
		printf("%s\n", left ? "left before the end" : "stayed to the end");
	else
		printf("%s steps, %s samples of its own%s\n", whole(r, "own_steps", a),
		       whole(r, "own_samples", b), left ? "; left before the end" : "");
	if (!left)
		tw_print_summary(r);
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

		printf("%-20s", tw_text_at(c, "name"));
		cell(json_object_get(c, "value"));
		cell(json_object_get(c, "floor"));
		if (json_is_number(ratio))
			printf(" %8.3f", json_number_value(ratio));
		else
			printf(" %8s", "-");
		printf("  %s\n", tw_text_at(c, "unit"));
	}
}

void tw_print_against(const json_t *rows, size_t runs, const char *file)
{
	const json_t *r;
	size_t i;

	printf("\nnow against the %zu run%s of %s\n", runs, runs == 1 ? "" : "s", file);
	printf("%-24s %-6s %12s %12s %8s  %-16s %s\n", "case", "figure", "saved", "now", "times",
	       "95 % interval", "verdict");
	json_array_foreach(rows, i, r)
	{
		const json_t *low = json_object_get(r, "low"), *high = json_object_get(r, "high");
		char interval[40] = "-";

		if (json_is_number(low))
			snprintf(interval, sizeof interval, "%.3f to %.3f", json_number_value(low),
				 json_number_value(high));
		printf("%-24s %-6s", tw_text_at(r, "name"), tw_text_at(r, "figure"));
		cell(json_object_get(r, "saved"));
		cell(json_object_get(r, "now"));
		printf(" %8.3f  %-16s %s\n", tw_number_at(r, "times"), interval,
		       tw_text_at(r, "verdict"));
	}
}
