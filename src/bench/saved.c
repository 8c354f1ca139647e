/* SPDX-License-Identifier: Apache-2.0 */
/* saved.c - runs of a bench in a file, a JSON line each, and new runs compared with them. */
#include "bench/saved.h"

#include "base/machine/cores.h"
#include "base/json_lines.h"
#include "base/median.h"
#include "base/machine/regular_file.h"
#include "base/statistics.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RUNS_MAX   1000 /* of one file */
#define CONFIDENCE 0.95
#define RUNS_LEAST 4 /* of both sides: two degrees of freedom */

/* --- the file ------------------------------------------------------------------------------- */

/* Where it runs. */
static json_t *machine(void)
{
	char cpu[120];

	tw_cpu_name(cpu, sizeof cpu);
	return json_pack("{s:s, s:I}", "cpu", cpu, "cores", (json_int_t)tw_cores());
}

static bool put_run(FILE *f, const json_t *result)
{
	json_t *run = machine();
	char *line;
	bool done;

	json_object_update_missing(run, (json_t *)(uintptr_t)result);
	line = tw_json_line(run);
	json_decref(run);
	done = line && fputs(line, f) >= 0;
	free(line);
	return done;
}

enum tw_status tw_bench_save(const char *path, const json_t *results, struct tw_error *why)
{
	FILE *f = tw_regular_stream(path, "a");
	const json_t *result;
	bool done = f != NULL;
	size_t k;

	json_array_foreach(results, k, result)
	{
		done = done && put_run(f, result);
	}
	if (f && fclose(f) != 0)
		done = false;
	return done ? TW_OK
		    : tw_fail(why, TW_BAD_INPUT,
			      "--save: %s cannot be written: %s; name a file in a directory that "
			      "is there",
			      path, tw_cause(errno));
}

/* Cases with a name and a value each. */
static bool is_run(const json_t *run)
{
	const json_t *cases = json_object_get(run, "cases"), *c;
	size_t k;

	json_array_foreach(cases, k, c)
	{
		if (!json_is_string(json_object_get(c, "name")) ||
		    !json_is_number(json_object_get(c, "value")))
			return false;
	}
	return json_is_array(cases);
}

static enum tw_status read_runs(FILE *f, const char *path, json_t *runs, struct tw_error *why)
{
	char *line = NULL;
	size_t room = 0, number = 0;
	enum tw_status status = TW_OK;

	while (status == TW_OK && getline(&line, &room, f) >= 0) {
		json_t *run = json_loads(line, 0, NULL);

		number++;
		if (!is_run(run) || number > RUNS_MAX) {
			json_decref(run);
			status = tw_fail(why, TW_BAD_INPUT,
					 "--against: %s:%zu: needs one run of `thalweg bench "
					 "--save` in each line, at most %d",
					 path, number, RUNS_MAX);
		} else if (json_array_append_new(runs, run)) {
			status = tw_fail(why, TW_NO_MEMORY, "no memory for the runs of %s", path);
		}
	}
	free(line);
	return status;
}

enum tw_status tw_bench_saved(const char *path, json_t **runs, struct tw_error *why)
{
	const int fd = tw_regular_input(path);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	json_t *all = json_array();
	enum tw_status status;

	if (!f) {
		json_decref(all);
		if (fd >= 0)
			close(fd);
		return tw_fail(why, TW_BAD_INPUT,
			       "--against: %s cannot be read: %s; `thalweg bench --save %s` "
			       "writes it",
			       path, tw_cause(errno), path);
	}
	status = read_runs(f, path, all, why);
	fclose(f);
	if (status == TW_OK && !json_array_size(all))
		status = tw_fail(why, TW_BAD_INPUT,
				 "--against: %s has no run; `thalweg bench --save %s` adds one",
				 path, path);
	if (status == TW_OK)
		*runs = all;
	else
		json_decref(all);
	return status;
}

/* --- figures of several runs ---------------------------------------------------------------- */

static const json_t *case_of(const json_t *run, const char *name)
{
	const json_t *c;
	size_t k;

	json_array_foreach(json_object_get(run, "cases"), k, c)
	{
		const char *said = json_string_value(json_object_get(c, "name"));

		if (said && strcmp(said, name) == 0)
			return c;
	}
	return NULL;
}

/* This number of the case in those runs that have it. */
static size_t numbers(const json_t *runs, const char *name, const char *field, double *out)
{
	const json_t *run;
	size_t k, n = 0;

	json_array_foreach(runs, k, run)
	{
		const json_t *x = json_object_get(case_of(run, name), field);

		if (json_is_number(x) && n < RUNS_MAX)
			out[n++] = json_number_value(x);
	}
	return n;
}

enum tw_status tw_bench_medians(const json_t *results, json_t **out, struct tw_error *why)
{
	json_t *all = json_deep_copy(json_array_get(results, 0)), *c, *x;
	double *list = calloc(RUNS_MAX, sizeof *list);
	const char *field;
	size_t k;

	if (!all || !list) {
		json_decref(all);
		free(list);
		return tw_fail(why, TW_NO_MEMORY, "no memory for the medians");
	}
	json_array_foreach(json_object_get(all, "cases"), k, c)
	{
		const char *name = json_string_value(json_object_get(c, "name"));

		json_object_foreach(c, field, x)
		{
			const size_t n = numbers(results, name, field, list);

			if (n && json_is_real(x))
				json_real_set(x, tw_median(list, n));
		}
	}
	json_object_set_new(all, "runs", json_integer((json_int_t)json_array_size(results)));
	free(list);
	*out = all;
	return TW_OK;
}

/* --- now against then ----------------------------------------------------------------------- */

/* Mean and squared deviations of the logarithms; only positive numbers have one. */
static bool logarithms(double *x, size_t n, struct tw_summary *out)
{
	for (size_t k = 0; k < n; k++) {
		if (!(x[k] > 0))
			return false;
		x[k] = log(x[k]);
	}
	*out = tw_summarise(x, n);
	return n > 0;
}

static double squares(const struct tw_summary *s)
{
	return s->n > 1 ? s->deviation * s->deviation * (double)(s->n - 1) : 0.0;
}

static json_t *known(double x)
{
	return isfinite(x) ? json_real(x) : json_null();
}

static json_t *compared(const char *name, const char *figure, const struct tw_summary *saved,
			const struct tw_summary *now)
{
	const double off = now->mean - saved->mean;
	const size_t runs = saved->n + now->n;
	double half = NAN;

	if (runs >= RUNS_LEAST)
		half = tw_student_quantile(CONFIDENCE, runs - 2) *
		       sqrt((squares(saved) + squares(now)) / (double)(runs - 2) *
			    (1.0 / (double)saved->n + 1.0 / (double)now->n));
	return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:s}", "name", name, "figure", figure,
			 "saved", known(exp(saved->mean)), "now", known(exp(now->mean)), "times",
			 known(exp(off)), "low", known(exp(off - half)), "high",
			 known(exp(off + half)), "verdict",
			 isnan(half)   ? "unknown"
			 : off > half  ? "higher"
			 : -off > half ? "lower"
				       : "within noise");
}

/* The ratio, else the value, of a case on both sides; NULL: they do not both have it. */
static json_t *compare_case(const json_t *saved, const json_t *results, const char *name,
			    double *list)
{
	static const char *const figures[] = { "ratio", "value" };
	struct tw_summary then, now;

	for (size_t k = 0; k < 2; k++)
		if (logarithms(list, numbers(saved, name, figures[k], list), &then) &&
		    logarithms(list, numbers(results, name, figures[k], list), &now))
			return compared(name, figures[k], &then, &now);
	return NULL;
}

enum tw_status tw_bench_against(const json_t *saved, const json_t *results, json_t **out,
				struct tw_error *why)
{
	const json_t *cases = json_object_get(json_array_get(results, 0), "cases"), *c;
	double *list = calloc(RUNS_MAX, sizeof *list);
	json_t *rows = json_array();
	size_t k;

	if (!list || !rows) {
		free(list);
		json_decref(rows);
		return tw_fail(why, TW_NO_MEMORY, "no memory for the comparison");
	}
	json_array_foreach(cases, k, c)
	{
		json_t *row = compare_case(saved, results,
					   json_string_value(json_object_get(c, "name")), list);

		if (row)
			json_array_append_new(rows, row);
	}
	free(list);
	*out = rows;
	return TW_OK;
}

/* --- what to know of such a comparison ------------------------------------------------------ */

static enum tw_status say(json_t *notes, struct tw_error *why, const char *format, ...)
{
	char text[600];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (json_array_append_new(notes, json_string(text)))
		return tw_fail(why, TW_NO_MEMORY, "no memory for the notes");
	return TW_OK;
}

/* "AMD EPYC, 2 cores, avx2" */
static void describe(const json_t *machine, const json_t *run, char *out, size_t room)
{
	const char *cpu = json_string_value(json_object_get(machine, "cpu"));
	const char *isa = json_string_value(json_object_get(run, "isa"));

	snprintf(out, room, "%s, %lld cores, %s", cpu ? cpu : "a CPU that was not named",
		 (long long)json_integer_value(json_object_get(machine, "cores")),
		 isa ? isa : "unknown instructions");
}

static enum tw_status say_machine(const json_t *saved, const json_t *result, json_t *notes,
				  struct tw_error *why)
{
	char here[250], there[250], other[250] = "";
	json_t *this = machine();
	const json_t *run;
	size_t k, count = 0;

	describe(this, result, here, sizeof here);
	json_decref(this);
	json_array_foreach(saved, k, run)
	{
		describe(run, run, there, sizeof there);
		if (strcmp(here, there) == 0)
			continue;
		memcpy(other, there, sizeof other);
		count++;
	}
	if (!count)
		return TW_OK;
	return say(notes, why,
		   "%zu of %zu saved runs are of another machine (%s; this one: %s): a difference "
		   "may come from that",
		   count, json_array_size(saved), other, here);
}

static enum tw_status say_missing(const json_t *saved, const json_t *result, json_t *notes,
				  struct tw_error *why)
{
	const json_t *cases = json_object_get(result, "cases"), *c, *run;
	size_t k, r, missing = 0, used = 0;
	char names[200] = "";
	bool all = true;

	json_array_foreach(cases, k, c)
	{
		const char *name = json_string_value(json_object_get(c, "name"));
		bool there = false;

		json_array_foreach(saved, r, run)
		{
			there = there || case_of(run, name);
		}
		if (there)
			continue;
		missing++;
		all = all && used + strlen(name) + 3 < sizeof names;
		if (all)
			used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
						 used ? ", " : "", name);
	}
	if (!missing)
		return TW_OK;
	if (missing == json_array_size(cases))
		return say(notes, why,
			   "nothing was compared: the saved runs have none of the cases of this "
			   "bench; save runs of the same one");
	return say(notes, why, "%zu case%s of this bench %s not in the saved runs: %s%s", missing,
		   missing == 1 ? "" : "s", missing == 1 ? "is" : "are", names, all ? "" : " ...");
}

enum tw_status tw_bench_against_notes(const json_t *saved, const json_t *result, json_t *notes,
				      struct tw_error *why)
{
	const enum tw_status status = say_machine(saved, result, notes, why);

	return status == TW_OK ? say_missing(saved, result, notes, why) : status;
}
