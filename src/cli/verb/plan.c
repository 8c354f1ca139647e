/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - thalweg plan JOB: what each strategy would cost, and whether distributing is
 * worth it. */
#include "cli/query_output.h"

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORKERS_MOST 4096
#define COUNTS_MOST  32

struct plan_flags {
	struct tw_texts set;
	const char *workers, *compute, *bandwidth, *latency;
	uint64_t memory, micros;
	double density;
	const char *read_csv, *write_csv;
	const char *stages, *nodes, *profile;
	bool json, schedule;
};

static uint32_t workers_of(const json_t *row)
{
	return (uint32_t)tw_whole_at(row, "workers");
}

static bool is_own(const json_t *row)
{
	return json_is_null(json_object_get(row, "family"));
}

/* May it be chosen: predicted, and small enough? */
static bool is_open(const json_t *row)
{
	return json_is_true(json_object_get(row, "fits"));
}

/* --- numbers for people --- */

/* Three digits without an exponent. */
static const char *short_text(double x, char out[24])
{
	if (x > 0 && x < 0.001)
		snprintf(out, 24, "<0.001");
	else
		snprintf(out, 24, x >= 99.95 ? "%.0f" : "%.3g", x);
	return out;
}

static const char *time_text(double seconds, char out[24])
{
	static const struct {
		double least, unit;
		const char *name;
	} units[] = {
		{ 1, 1, "s" }, { 1e-3, 1e-3, "ms" }, { 1e-6, 1e-6, "us" }, { 0, 1e-9, "ns" }
	};
	char value[24];
	size_t k = 0;

	while (seconds < units[k].least)
		k++;
	snprintf(out, 24, "%.18s %s", short_text(seconds / units[k].unit, value), units[k].name);
	return out;
}

static const char *bits_text(double bits, char out[32])
{
	static const char *const names[] = { "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s" };
	size_t k = 0;

	while (bits >= 1000 && k < 4) {
		bits /= 1000;
		k++;
	}
	snprintf(out, 32, "%.3g %s", bits, names[k]);
	return out;
}

/* --- the best --- */

/* The best preset with so many workers; of one family, or of all for NULL.  NULL: none. */
static const json_t *best_of(const json_t *o, uint32_t workers, const char *family)
{
	const json_t *one;
	size_t k;

	json_array_foreach(json_object_get(o, "best"), k, one)
	{
		const char *of = json_string_value(json_object_get(one, "family"));

		if (workers_of(one) == workers && !of == !family &&
		    (!family || strcmp(of, family) == 0))
			return json_array_get(json_object_get(o, "rows"),
					      (size_t)tw_number_at(one, "row"));
	}
	return NULL;
}

/* Family number k of those that have a best with this number of workers; NULL after the last. */
static const char *family_at(const json_t *o, uint32_t workers, size_t k)
{
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(o, "best"), i, one)
	{
		const char *family = json_string_value(json_object_get(one, "family"));

		if (workers_of(one) == workers && family && k-- == 0)
			return family;
	}
	return NULL;
}

/* --- tables --- */

static void print_head(const json_t *o)
{
	const json_t *first = json_array_get(json_object_get(o, "rows"), 0);
	const double bandwidth = tw_number_at(o, "bandwidth_bits_per_second");
	char time[24], bits[32];

	printf("%-10s %s: %.0f parameters, batch %.0f\n", "job", tw_text_at(o, "job"),
	       tw_number_at(o, "parameters") + tw_number_at(o, "buffers"),
	       tw_number_at(o, "batch"));
	printf("%-10s %s per step (%s)", "computing",
	       time_text(tw_number_at(o, "compute_seconds"), time), tw_text_at(o, "compute"));
	if (json_object_get(first, "alone_samples_per_second"))
		printf("; one machine alone: %.4g samples/s",
		       tw_number_at(first, "alone_samples_per_second"));
	printf("\n%-10s %s, latency %s\n", "links",
	       bandwidth > 0 ? bits_text(bandwidth, bits) : "any bandwidth",
	       time_text(tw_number_at(o, "latency_seconds"), time));
}

static void print_row(const json_t *row)
{
	char time[24], busy[24], server[24], worker[24], times[24], late[24], name[40];

	snprintf(name, sizeof name, "%s%s", tw_text_at(row, "strategy"), is_own(row) ? " *" : "");
	printf("%-17.17s %8s %9.4g %7sx %10s %10s %10s %6s  %s\n", name,
	       time_text(tw_number_at(row, "step_seconds"), time),
	       tw_number_at(row, "samples_per_second"),
	       short_text(tw_number_at(row, "speedup"), times),
	       tw_query_bytes(tw_number_at(row, "busiest_node_bytes_per_step"), busy),
	       tw_query_bytes(tw_number_at(row, "server_memory_bytes"), server),
	       tw_query_bytes(tw_number_at(row, "worker_memory_bytes"), worker),
	       short_text(tw_number_at(row, "staleness"), late),
	       is_open(row) ? tw_text_at(row, "limited_by") : "memory");
}

/* What was assumed of a codec whose bytes depend on the gradients. */
static void print_density(const json_t *row)
{
	const json_t *d = json_object_get(row, "density");

	if (d)
		printf("%s%s: its codec sends %.3g %% of the values (%s)\n",
		       tw_text_at(row, "strategy"), is_own(row) ? " *" : "",
		       100 * tw_number_at(d, "share"),
		       strcmp(tw_text_at(d, "from"), "given") == 0
			       ? "--density"
			       : "measured over the first steps; --density gives another share");
}

/* What it costs that samples are sent, and when it would be cheaper to give each worker the set. */
static void print_on_demand(const json_t *row)
{
	const json_t *o = json_object_get(row, "on_demand");
	char step[24], all[24], copies[24];

	if (!o || !is_own(row))
		return;
	printf("placement: on-demand: a step brings %s to a worker, and the run %s to all of "
	       "them; ",
	       tw_query_bytes(tw_number_at(o, "bytes_per_step"), step),
	       tw_query_bytes(tw_number_at(o, "bytes"), all));
	if (tw_number_at(o, "slower") > 1.01)
		printf("\n  the links do not carry that in time: steps take %.3g times as long as "
		       "with "
		       "everywhere\n",
		       tw_number_at(o, "slower"));
	else
		printf("\n  the links carry that while workers compute\n");
	printf("  the set once for each worker (placement: everywhere) would be %s%s\n",
	       tw_query_bytes(tw_number_at(o, "bytes_of_copies"), copies),
	       tw_number_at(o, "bytes_of_copies") < tw_number_at(o, "bytes")
		       ? ", which is less: on-demand\n  costs more than it saves, unless workers "
			 "have no room for the set"
		       : "");
}

/* At most 100 columns; long reasons are broken between words. */
static void print_reason(const json_t *row)
{
	const char *at = tw_text_at(row, "not_predicted");
	int column = printf("%s%s: not predicted:", tw_text_at(row, "strategy"),
			    is_own(row) ? " *" : "");

	while (*at) {
		const int word = (int)strcspn(at, " ");

		if (column + 1 + word > 100)
			column = printf("\n ") - 1;
		column += printf(" %.*s", word, at);
		at += word + (at[word] == ' ');
	}
	printf("\n");
}

static void print_workers(const json_t *rows, uint32_t workers)
{
	const json_t *row;
	size_t k;

	printf("\n%-17s %8s %9s %8s %10s %10s %10s %6s  %s\n", "strategy", "step", "samples/s",
	       "speed-up", "busiest", "server", "worker", "stale", "limited by");
	json_array_foreach(rows, k, row) if (workers_of(row) == workers &&
					     json_object_get(row, "fits")) print_row(row);
	json_array_foreach(rows, k, row) if (workers_of(row) == workers &&
					     !json_object_get(row, "fits")) print_reason(row);
	json_array_foreach(rows, k, row) if (workers_of(row) == workers) print_density(row);
	json_array_foreach(rows, k, row) if (workers_of(row) == workers) print_on_demand(row);
	printf("* this job; step: until every worker has done a batch; busiest: bytes through the\n"
	       "busiest node in a step; server, worker: memory of a node, without data; stale: "
	       "mean\n"
	       "staleness in updates\n");
}

/* Where the job's own strategy and one machine are equally fast. */
static void print_crossover(const json_t *own)
{
	const json_t *bits = json_object_get(own, "crossover_bits_per_second");
	char out[32];

	if (json_is_null(bits))
		printf("this job's strategy is slower than one machine at any bandwidth\n");
	else if (json_number_value(bits) > 0)
		printf("this job's strategy is faster than one machine above %s\n",
		       bits_text(json_number_value(bits), out));
}

static void print_verdict(const json_t *o, uint32_t workers)
{
	const json_t *best = best_of(o, workers, NULL);
	const char *family;

	printf("\n");
	for (size_t k = 0; (family = family_at(o, workers, k)); k++) {
		const json_t *row = best_of(o, workers, family);

		printf("%-44s %-17s %6.3gx, limited by %s\n", family, tw_text_at(row, "strategy"),
		       tw_number_at(row, "speedup"), tw_text_at(row, "limited_by"));
	}
	if (!best)
		printf("no preset can be predicted for this job and this memory\n");
	else if (tw_number_at(best, "speedup") <= 1)
		printf("one machine is faster: with %u workers the best, %s, has %.3g of its "
		       "speed\n(its transfers take %.3g times as long as its computing)\n",
		       workers, tw_text_at(best, "strategy"), tw_number_at(best, "speedup"),
		       tw_number_at(best, "transfer_ratio"));
	else
		printf("fastest with %u workers: %s, %.3g times one machine\n(its transfers take "
		       "%.3g times as long as its computing)\n",
		       workers, tw_text_at(best, "strategy"), tw_number_at(best, "speedup"),
		       tw_number_at(best, "transfer_ratio"));
	print_crossover(json_array_get(json_object_get(o, "rows"), 0));
	printf("A stale or averaged step may teach less per sample: speed is not progress.\n");
}

static void print_growth(const json_t *o, uint32_t first)
{
	const char *family;
	uint32_t last = 0;
	const json_t *row;
	size_t k;

	printf("\n%-8s", "workers");
	for (k = 0; (family = family_at(o, first, k)); k++)
		printf(" %-21.21s", family);
	printf("\n");
	json_array_foreach(json_object_get(o, "rows"), k, row)
	{
		if (workers_of(row) == last)
			continue;
		last = workers_of(row);
		printf("%-8u", last);
		for (size_t i = 0; (family = family_at(o, first, i)); i++) {
			const json_t *best = best_of(o, last, family);
			char cell[60] = "-";

			if (best)
				snprintf(cell, sizeof cell, "%s %.3gx",
					 tw_text_at(best, "strategy"),
					 tw_number_at(best, "speedup"));
			printf(" %-21.21s", cell);
		}
		printf("\n");
	}
}

static void print_plan(const json_t *o)
{
	const json_t *rows = json_object_get(o, "rows");
	const uint32_t first = workers_of(json_array_get(rows, 0));
	const uint32_t last = workers_of(json_array_get(rows, json_array_size(rows) - 1));

	print_head(o);
	printf("%-10s %u\n", "workers", first);
	print_workers(rows, first);
	print_verdict(o, first);
	if (last != first)
		print_growth(o, first);
}

/* --- a schedule --- */

/* `lanes`: some stage has several. */
static void print_schedule_row(const json_t *row, bool lanes)
{
	char forward[24], backward[24], sends[24], memory[24], place[24];

	snprintf(place, sizeof place, "%.0f", tw_number_at(row, "stage"));
	if (lanes)
		snprintf(place, sizeof place, "%.0f x %.0f", tw_number_at(row, "stage"),
			 tw_number_at(row, "lanes"));
	else if (tw_number_at(row, "cell") != tw_number_at(row, "stage"))
		snprintf(place, sizeof place, "%.0f on %.0f", tw_number_at(row, "stage"),
			 tw_number_at(row, "cell"));
	printf("%-8s %9.0f %9s %9s %10s %9.0f %8.0f %5.0f %5.1f %% %10s\n", place,
	       tw_number_at(row, "parameters"),
	       time_text(tw_number_at(row, "forward_seconds"), forward),
	       time_text(tw_number_at(row, "backward_seconds"), backward),
	       tw_query_bytes(tw_number_at(row, "sent_forward_bytes"), sends),
	       tw_number_at(row, "in_flight"), tw_number_at(row, "versions"),
	       tw_number_at(row, "staleness"), 100 * tw_number_at(row, "idle_share"),
	       tw_query_bytes(tw_number_at(row, "memory_bytes"), memory));
}

static void print_schedule(const json_t *o)
{
	const json_t *row, *line;
	bool lanes = false;
	char time[24];
	size_t k;

	printf("%-10s %s\n", "job", tw_text_at(o, "job"));
	printf("%-10s %s: %.0f stages, %.0f micro-batches of %.0f samples, %.0f per update\n",
	       "schedule", tw_text_at(o, "schedule"), tw_number_at(o, "stages"),
	       tw_number_at(o, "micro_batches"), tw_number_at(o, "batch"),
	       tw_number_at(o, "accumulate"));
	printf("%-10s %s in all, %.4g samples/s, idle %.1f %% (times: %s)\n\n", "predicted",
	       time_text(tw_number_at(o, "makespan_seconds"), time),
	       tw_number_at(o, "samples_per_second"), 100 * tw_number_at(o, "bubble"),
	       tw_text_at(o, "times"));
	printf("%-8s %9s %9s %9s %10s %9s %8s %5s %7s %10s\n", "stage", "params", "forward",
	       "backward", "sends", "in flight", "versions", "stale", "idle", "memory");
	json_array_foreach(json_object_get(o, "rows"), k, row) lanes =
		lanes || tw_number_at(row, "lanes") > 1;
	json_array_foreach(json_object_get(o, "rows"), k, row) print_schedule_row(row, lanes);
	printf("\n");
	json_array_foreach(json_object_get(o, "picture"), k, line)
		printf("%3zu %s\n", k, json_string_value(line));
	printf("time goes from left to right, one line per node; digits: forward of the "
	       "micro-batch "
	       "with\nthat last digit; a to j: backward of the one with last digit 0 to 9; A to J: "
	       "its second\nhalf; a dot: idle\n");
}

static int schedule(const struct tw_call *call)
{
	const struct plan_flags *f = call->flags;
	char link[2][80];
	const char **set = calloc(f->set.count + 2, sizeof *set);
	struct tw_schedule_request r = { .path = call->word[0],
					 .words = { set, f->set.count,
						    (const char *const *)environ },
					 .read = f->read_csv,
					 .write = f->write_csv,
					 .compute = f->compute,
					 .micros = f->micros };
	struct tw_error why = { .status = TW_OK };
	json_t *o = NULL;
	int code;

	if (!set)
		tw_fail(&why, TW_NO_MEMORY, "no memory for the fields of a job");
	for (size_t k = 0; set && k < f->set.count; k++)
		set[k] = f->set.at[k];
	if (set && *f->bandwidth) {
		snprintf(link[0], sizeof link[0], "sim.bandwidth=%.60s", f->bandwidth);
		set[r.words.sets++] = link[0];
	}
	if (set && *f->latency) {
		snprintf(link[1], sizeof link[1], "sim.latency=%.60s", f->latency);
		set[r.words.sets++] = link[1];
	}

	if (f->workers[0] || f->memory)
		tw_fail(&why, TW_BAD_INPUT, "--%s: has no effect with --schedule; leave it out",
			f->memory ? "memory" : "workers");
	if (why.status != TW_OK || tw_query_schedule(&r, &o, &why) != TW_OK)
		code = tw_query_failed(call, &why);
	else
		code = tw_query_show(o, f->json, print_schedule);
	free(set);
	return code;
}

/* --- stages --- */

/* "[3, 1]" of a list of numbers; of one machine each only how many. */
static void lanes_text(const json_t *row, char *out, size_t room)
{
	const json_t *one, *list = json_object_get(row, "lanes");
	size_t k, used = 0;

	out[0] = '\0';
	json_array_foreach(list, k, one) if (used < room) used += (size_t)snprintf(
		out + used, room - used, "%s%lld", k ? "-" : "", json_integer_value(one));
	if (!list)
		snprintf(out, room, "-");
}

static const char *rate_text(const json_t *row, const char *name, char out[24])
{
	const json_t *x = json_object_get(row, name);

	if (json_is_number(x))
		snprintf(out, 24, "%.5g", json_number_value(x));
	else
		snprintf(out, 24, "-");
	return out;
}

static void print_stages_row(const json_t *row, bool best)
{
	char predicted[24], simulated[24], lanes[200], memory[24] = "-", name[60];

	lanes_text(row, lanes, sizeof lanes);
	if (json_object_get(row, "memory_bytes"))
		tw_query_bytes(tw_number_at(row, "memory_bytes"), memory);
	snprintf(name, sizeof name, "%s%s", tw_text_at(row, "name"), best ? " *" : "");
	printf("%-26.26s %-12.12s %8lld %9s %9s %10s  %.20s%s\n", name, tw_text_at(row, "schedule"),
	       tw_whole_at(row, "machines"),
	       rate_text(row, "predicted_samples_per_second", predicted),
	       rate_text(row, "simulated_samples_per_second", simulated), memory, lanes,
	       json_is_true(json_object_get(row, "recompute")) ? ", recomputes" : "");
}

/* Fields of "a.b.c=value" under their section, as a job file has them. */
static void print_fields(const json_t *row)
{
	const json_t *field;
	size_t k;

	json_array_foreach(json_object_get(row, "fields"), k, field)
		printf("  --set '%s'\n", json_string_value(field));
}

static void print_stages(const json_t *o)
{
	const json_t *rows = json_object_get(o, "rows"), *row, *line;
	const json_t *shown = json_object_get(o, "schedule_of_best");
	const long long best = tw_whole_at(o, "best");
	char time[24];
	size_t k;

	printf("%-10s %s: %.0f parameters, %zu parts, batch %.0f, accumulate %.0f\n", "job",
	       tw_text_at(o, "job"), tw_number_at(o, "parameters"),
	       json_array_size(json_object_get(o, "parts")), tw_number_at(o, "batch"),
	       tw_number_at(o, "accumulate"));
	printf("%-10s %s per step (times: %s)\n", "computing",
	       time_text(tw_number_at(o, "step_seconds"), time), tw_text_at(o, "times"));
	printf("%-10s %zu; %.6g plans possible, %lld played, %s\n\n", "machines",
	       json_array_size(json_object_get(o, "nodes")), tw_number_at(o, "possible"),
	       tw_whole_at(o, "played"),
	       json_is_true(json_object_get(o, "all")) ? "all looked at" : "searched");
	printf("%-26s %-12s %8s %9s %9s %10s  %s\n", "", "schedule", "machines", "predicted",
	       "simulated", "memory", "lanes");
	json_array_foreach(rows, k, row) print_stages_row(row, (long long)k == best);
	printf("* the fastest in the simulator; predicted, simulated: samples/s; memory: of the "
	       "machine\nthat needs most; lanes: machines of each stage\n");
	json_array_foreach(rows, k, row) if (json_object_get(row, "not_run"))
		printf("%s: not run: %s\n", tw_text_at(row, "name"), tw_text_at(row, "not_run"));
	if (!json_is_null(json_object_get(o, "no_lanes")))
		printf("one machine for each stage: %s\n", tw_text_at(o, "no_lanes"));
	printf("\nplan 1:\n");
	print_fields(json_array_get(rows, 0));
	printf("\n");
	json_array_foreach(json_object_get(shown, "picture"), k, line)
		printf("%3zu %s\n", k, json_string_value(line));
	printf("time goes from left to right, one line per machine; digits: forward of the "
	       "micro-batch\nwith that last digit; a to j: backward; a dot: idle\n");
}

static int stages(const struct tw_call *call)
{
	const struct plan_flags *f = call->flags;
	const struct tw_stages_request r = { .path = call->word[0],
					     .words = { f->set.at, f->set.count,
							(const char *const *)environ },
					     .nodes = f->nodes,
					     .profile = f->profile,
					     .compute = f->compute,
					     .bandwidth = f->bandwidth,
					     .latency = f->latency,
					     .memory = f->memory,
					     .micros = f->micros };
	struct tw_error why = { .status = TW_OK };
	json_t *o = NULL;

	if (strcmp(f->stages, "auto") != 0)
		tw_fail(&why, TW_BAD_INPUT,
			"--stages: needs auto, not '%.60s'; a job says its own stages with "
			"model.stages and cluster.stages, and --schedule shows them",
			f->stages);
	else if (f->schedule || f->workers[0] || f->density > 0 || f->read_csv[0] ||
		 f->write_csv[0])
		tw_fail(&why, TW_BAD_INPUT, "--%s: has no effect with --stages; leave it out",
			f->schedule      ? "schedule"
			: f->workers[0]  ? "workers"
			: f->density > 0 ? "density"
			: f->read_csv[0] ? "read-csv"
					 : "write-csv");
	else if (f->profile[0] && f->compute[0])
		tw_fail(&why, TW_BAD_INPUT,
			"--compute: cannot be combined with --profile, which says what each part "
			"takes");
	if (why.status != TW_OK || tw_query_stages(&r, &o, &why) != TW_OK)
		return tw_query_failed(call, &why);
	return tw_query_show(o, f->json, print_stages);
}

/* --- the call --- */

/* "2,4,8": each number once. */
static enum tw_status read_workers(const char *list, uint32_t *out, size_t *count,
				   struct tw_error *why)
{
	const char *at = list;

	for (*count = 0; *at || at != list; at++) {
		char *end;
		const unsigned long n = strtoul(at, &end, 10);
		bool twice = false;

		for (size_t k = 0; k < *count; k++)
			twice = twice || out[k] == n;
		if (*at < '0' || *at > '9' || n < 1 || n > WORKERS_MOST || twice ||
		    *count == COUNTS_MOST || (*end && *end != ','))
			return tw_fail(why, TW_BAD_INPUT,
				       "--workers: needs different whole numbers from 1 to %d, at "
				       "most %d of them, such as 2,4,8, not '%.60s'",
				       WORKERS_MOST, COUNTS_MOST, list);
		out[(*count)++] = (uint32_t)n;
		at = end;
		if (!*at)
			break;
	}
	return TW_OK;
}

static int plan(const struct tw_call *call)
{
	const struct plan_flags *f = call->flags;
	uint32_t workers[COUNTS_MOST];
	struct tw_plan_request r = { .path = call->word[0],
				     .words = { f->set.at, f->set.count,
						(const char *const *)environ },
				     .workers = workers,
				     .compute = f->compute,
				     .bandwidth = f->bandwidth,
				     .latency = f->latency,
				     .memory = f->memory,
				     .density = f->density };
	struct tw_error why = { .status = TW_OK };
	json_t *o = NULL;

	if (f->stages[0])
		return stages(call);
	if (f->nodes[0] || f->profile[0])
		tw_fail(&why, TW_BAD_INPUT, "--%s: needs --stages auto",
			f->nodes[0] ? "nodes" : "profile");
	else if (f->schedule)
		return schedule(call);
	else if (f->read_csv[0] || f->write_csv[0] || f->micros)
		tw_fail(&why, TW_BAD_INPUT, "--%s: needs --schedule",
			f->read_csv[0] ? "read-csv"
			: f->micros    ? "micro-batches"
				       : "write-csv");
	if (why.status != TW_OK || read_workers(f->workers, workers, &r.count, &why) != TW_OK ||
	    tw_query_plan(&r, &o, &why) != TW_OK)
		return tw_query_failed(call, &why);
	return tw_query_show(o, f->json, print_plan);
}

static const struct tw_flag flags[] = {
	TW_FLAG(struct plan_flags, workers, "workers", TW_TEXT, "", "N,...", 0, 0,
		"numbers of workers; the first is shown in full (default: the job's)"),
	TW_FLAG(struct plan_flags, bandwidth, "bandwidth", TW_TEXT, "", "B", 0, 0,
		"bandwidth of each node, such as 1Gbit/s (default: sim.bandwidth)"),
	TW_FLAG(struct plan_flags, latency, "latency", TW_TEXT, "", "L", 0, 0,
		"latency from node to node, such as 1ms (default: sim.latency)"),
	TW_FLAG(struct plan_flags, compute, "compute", TW_TEXT, "", "T", 0, 0,
		"time of a step, such as 20ms (default: sim.compute; else measured here)"),
	TW_FLAG(struct plan_flags, density, "density", TW_F64, "0", "D", 0, 1,
		"share of the values that codecs send whose bytes depend on the gradients; 0: "
		"measured here"),
	TW_FLAG(struct plan_flags, memory, "memory", TW_SIZE, "0B", "M", 0, 0,
		"memory of a node: choose no strategy that needs more; 0B: any"),
	TW_SWITCH(struct plan_flags, schedule, "schedule",
		  "print the schedule of the job's pipeline instead, as a table and as a picture"),
	TW_FLAG(struct plan_flags, read_csv, "read-csv", TW_TEXT, "", "FILE", 0, 0,
		"with --schedule: take the moves from a file, one line per node, such as "
		"0F0,0F1,0B0,0B1; as torch.distributed.pipelining writes them"),
	TW_FLAG(struct plan_flags, write_csv, "write-csv", TW_TEXT, "", "FILE", 0, 0,
		"with --schedule: write the moves to such a file"),
	TW_FLAG(struct plan_flags, micros, "micro-batches", TW_U64, "0", "N", 0, 100000,
		"with --schedule or --stages: micro-batches to look at; 0: enough to see the "
		"pipeline full"),
	TW_FLAG(struct plan_flags, stages, "stages", TW_TEXT, "", "auto", 0, 0,
		"find where to cut the model of the job's pipeline, and how many machines compute "
		"each stage"),
	TW_FLAG(struct plan_flags, nodes, "nodes", TW_TEXT, "", "N|FILE", 0, 0,
		"with --stages: how many machines, or a file with a list as in sim.nodes (default: "
		"sim.nodes)"),
	TW_FLAG(struct plan_flags, profile, "profile", TW_TEXT, "", "FILE", 0, 0,
		"with --stages: what each part of the model takes; read, or measured here and "
		"written if it is not there"),
	TW_FLAG_MANY(struct plan_flags, set, "set", "PATH=VALUE",
		     "override a field of the job: data.batch=128; may be repeated"),
	TW_SWITCH(struct plan_flags, json, "json", "print everything as one JSON object"),
	TW_FLAG_END,
};

static const struct tw_example examples[] = {
	{ "thalweg plan examples/asgd.yaml", "every strategy for this job, and the fastest" },
	{ "thalweg plan examples/asgd.yaml --workers 8,2,4,16,64 --bandwidth 1Mbit/s",
	  "the same for 8 workers on slow links, and how it grows" },
	{ "thalweg plan examples/lenet-mnist.yaml --bandwidth 1Gbit/s --latency 200us",
	  "measure a step on this machine first" },
	{ "thalweg plan examples/gpipe.yaml --schedule",
	  "who computes what when, and what each stage keeps" },
	{ "thalweg plan examples/fifteen-to-one.yaml --stages auto --nodes 8",
	  "where to cut its model for 8 machines, and how many of them compute each stage" },
	{ 0 },
};

const struct tw_verb tw_verb_plan = {
	.name = "plan",
	.words = "JOB",
	.help = "predict what each strategy costs, and whether one machine is faster",
	.about = "Predicts for every preset that fits the job: time per step, samples per second,\n"
		 "bytes through the busiest node, memory and mean staleness; without running it.\n"
		 "JOB is a YAML file, or - for standard input.  The section sim: says what\n"
		 "computing and links cost.  Predictions are of a cluster without faults and\n"
		 "checkpoints.  docs/PLAN.md has the formulas and how exact they are.\n"
		 "With --schedule: who computes what when in the job's pipeline, and what each "
		 "stage\n"
		 "keeps.\n"
		 "With --stages auto: where to cut the model, and which machines compute what.\n",
	.example = examples,
	.flags = flags,
	.flags_bytes = sizeof(struct plan_flags),
	.least = 1,
	.most = 1,
	.run = plan,
};
