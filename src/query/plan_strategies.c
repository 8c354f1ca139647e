/* SPDX-License-Identifier: Apache-2.0 */
/* plan_strategies.c - what each strategy would cost for a job, with different numbers of workers.
 *
 * The job is read once per preset and number of workers, with the preset instead of its own
 * strategy, so whatever the job refuses is refused here with the same sentence. */
#include "query/query.h"

#include "base/json.h"
#include "base/median.h"
#include "cost/cost.h"
#include "query/plan_best.h"
#include "query/plan_density.h"
#include "base/machine/clock.h"
#include "run/open_engine.h"
#include "spec/field.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define SETS_MOST 64 /* fields that are set here, beside those of the caller */

/* A job that is read again and again, with other fields each time. */
struct again {
	const struct tw_plan_request *r;
	char *input; /* standard input; NULL: a file */
	size_t bytes;
	const char **set; /* the caller's, then ours */
	size_t sets;
	struct tw_arena texts;
	struct tw_engine *engine;
	struct tw_plan_density measured;
	double measured_at; /* learning rate */
};

/* --- fields ---------------------------------------------------------------------------------- */

static enum tw_status put_field(struct again *a, struct tw_error *why, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static enum tw_status put_field(struct again *a, struct tw_error *why, const char *format, ...)
{
	char text[300];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (a->sets == a->r->words.sets + SETS_MOST ||
	    !(a->set[a->sets] = tw_arena_text(&a->texts, text)))
		return tw_fail(why, TW_NO_MEMORY, "no memory for the fields of a job");
	a->sets++;
	return TW_OK;
}

/* A flag whose value is that of a field of `sim:`. */
static enum tw_status put_price(struct again *a, const char *flag, const char *field,
				const char *value, struct tw_error *why)
{
	const struct tw_option *row = tw_option_find(tw_sim_rows, field);
	struct tw_sim_options scratch;
	char accepts[160];

	if (!*value)
		return TW_OK;
	if (tw_option_set(row, &scratch, value, &a->texts, NULL) != TW_OK) {
		tw_option_accepts(row, accepts, sizeof accepts);
		return tw_fail(why, TW_BAD_INPUT, "--%s: needs %s, not '%.60s'", flag, accepts,
			       value);
	}
	return put_field(a, why, "sim.%s=%s", field, value);
}

static enum tw_status put_prices(struct again *a, struct tw_error *why)
{
	const struct tw_plan_request *r = a->r;
	enum tw_status st = put_price(a, "bandwidth", "bandwidth", r->bandwidth, why);

	return st == TW_OK ? put_price(a, "latency", "latency", r->latency, why) : st;
}

static enum tw_status read_job(const struct again *a, struct tw_job **out, struct tw_error *why)
{
	const char *const *environ_ = a->r->words.environ_;

	if (a->input)
		return tw_job_read_text("standard input", a->input, a->bytes, a->set, a->sets,
					environ_, TW_WORLD_SIM, out, why);
	return tw_job_read(a->r->path, a->set, a->sets, environ_, TW_WORLD_SIM, out, why);
}

/* A codec is the job's choice, and stays when the strategy changes. */
static enum tw_status put_strategy(struct again *a, const struct tw_job *own, const char *name,
				   struct tw_error *why)
{
	enum tw_status st = put_field(a, why, "strategy={name: %s}", name);

	for (size_t k = 0; st == TW_OK && k < own->fields; k++) {
		const struct tw_field *f = &own->field[k];
		const char *text;

		if (strncmp(f->path, "strategy.codec.", 15) != 0 || f->silent ||
		    !tw_job_given(own, f->path))
			continue;
		text = tw_field_text(f->row, f->base, &a->texts);
		if (text)
			st = put_field(a, why, "%s=%s", f->path, text);
	}
	return st;
}

/* --- computing ------------------------------------------------------------------------------- */

/* The median time of a gradient of `batch` samples, from runs of a second. */
static enum tw_status measure(const struct tw_engine *e, uint32_t batch, double *seconds,
			      struct tw_error *why)
{
	enum { MOST = 1000, LEAST = 3 };
	const size_t n = e->trainable + e->buffers;
	float *vector = malloc(n * sizeof *vector), *gradient = malloc(n * sizeof *gradient);
	void *scratch = malloc(e->scratch_bytes ? e->scratch_bytes : 1);
	const struct tw_piece piece = { vector, 0, n };
	struct tw_inputs in = { .count = batch < e->samples ? batch : (uint32_t)e->samples,
				.piece = &piece,
				.pieces = 1 };
	enum tw_status st = vector && gradient && scratch ? TW_OK : TW_NO_MEMORY;
	double time[MOST];
	size_t runs = 0;

	if (st == TW_OK)
		st = e->class->init(e, 0, n, vector);
	for (const int64_t began = tw_clock(); st == TW_OK && runs < MOST; runs++) {
		const int64_t from = tw_clock();
		struct tw_score score;

		if (runs >= LEAST && tw_clock_seconds(began) > 1)
			break;
		st = e->class->gradient(e, scratch, &in, gradient, &score);
		time[runs] = tw_clock_seconds(from);
	}
	free(vector);
	free(gradient);
	free(scratch);
	if (st != TW_OK)
		return tw_fail(why, st, "a step of the job could not be measured: %s",
			       tw_status_name(st));
	*seconds = tw_median(time, runs);
	return TW_OK;
}

/* What a step costs: as the flag says, as the job says, or, per sample, as it is measured here. */
static enum tw_status price_computing(struct again *a, const struct tw_job *job, const char **how,
				      struct tw_error *why)
{
	const char *field = job->sim.law == TW_LAW_LOG_NORMAL ? "compute.median" : "compute.mean";
	const bool flag = *a->r->compute;
	const uint32_t batch = tw_job_batch(job);
	char path[40];
	double seconds = 0;
	enum tw_status st;

	snprintf(path, sizeof path, "sim.%s", field);
	*how = flag ? "given" : "sim.compute";
	if (!flag && tw_job_given(job, path))
		return TW_OK;
	if (flag) {
		st = put_price(a, "compute", field, a->r->compute, why);
	} else {
		*how = "measured";
		st = measure(a->engine, batch, &seconds, why);
		if (st == TW_OK)
			st = put_field(a, why, "%s=%.0fns", path, ceil(seconds * 1e9 / batch));
	}
	return st == TW_OK ? put_field(a, why, "sim.compute.per_sample=%s", flag ? "false" : "true")
			   : st;
}

/* --- rows ------------------------------------------------------------------------------------ */

static json_t *not_predicted(const char *reason)
{
	json_t *o = json_object();

	json_object_set_new(o, "not_predicted", json_string(reason));
	return o;
}

static json_t *row_of(const struct again *a, const struct tw_job *job, double up_per_value)
{
	struct tw_cost c;
	json_t *o;

	tw_cost_predict(&job->plan, &job->sim, a->engine, up_per_value, &c);
	if (c.unknown)
		return not_predicted(c.unknown);
	o = json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:s, s:f}", "step_seconds", c.step,
		      "samples_per_second", c.samples_per_second, "speedup",
		      c.samples_per_second / c.alone, "busiest_node_bytes_per_step",
		      c.busiest_bytes, "server_memory_bytes", c.server_memory,
		      "worker_memory_bytes", c.worker_memory, "staleness", c.staleness,
		      "limited_by", tw_cost_limit_names[c.limit], "transfer_ratio", c.ratio);
	json_object_set_new(o, "alone_samples_per_second", tw_json_number(c.alone));
	json_object_set_new(o, "part_seconds",
			    json_pack("{s:f, s:f, s:f, s:f, s:f}", "computing", c.parts.computing,
				      "slowest_worker", c.parts.slowest, "network_card",
				      c.parts.link, "latency", c.parts.latency, "applying",
				      c.parts.applying));
	if (c.step_samples > 0)
		json_object_set_new(o, "on_demand",
				    json_pack("{s:f, s:f, s:f, s:f}", "bytes_per_step",
					      c.step_samples, "bytes", c.run_samples,
					      "bytes_of_copies", c.copies, "slower", c.slower));
	json_object_set_new(
		o, "fits",
		json_boolean(a->r->memory == 0 ||
			     fmax(c.server_memory, c.worker_memory) <= (double)a->r->memory));
	return o;
}

/* --- codecs whose bytes depend on the gradients ----------------------------------------------- */

static const char density_field[] = "strategy.codec.up_density";

/* Does what the codec sends depend on the gradients? */
static bool depends_on_gradients(const struct tw_job *job)
{
	const struct tw_codec *up = job->plan.traffic.up;

	return up->usual && up->usual(job->plan.traffic.up_options, 1000) <= 0;
}

/* The same job with the share of the values that the caller gives, in *job. */
static void put_density(struct again *a, struct tw_job **job, struct tw_error *why)
{
	const struct tw_codec *up = (*job)->plan.traffic.up;
	struct tw_job *other = NULL;

	if (!up->options || !tw_option_find(up->options, "density") ||
	    put_field(a, why, "%s=%.9g", density_field, a->r->density) != TW_OK)
		return;
	if (read_job(a, &other, why) == TW_OK &&
	    tw_job_finish_plan(other, a->engine, why) == TW_OK) {
		tw_job_free(*job);
		*job = other;
		return;
	}
	tw_job_free(other);
}

/* Bytes per value, and the share of the values that are sent, as measured; the last measurement is
 * kept for rows that differ in the number of workers only. */
static struct tw_plan_density measured(struct again *a, const struct tw_job *job)
{
	const double rate = tw_schedule_rate(&job->plan.schedule, 0);

	if (a->measured.share <= 0 || a->measured_at != rate) {
		a->measured = tw_plan_density(a->engine, &job->plan, tw_job_batch(job));
		a->measured_at = rate;
	}
	return a->measured;
}

/* The sentence of a refusal without its place: the file, or the strategy that was put in. */
static const char *reason_of(const struct tw_error *why)
{
	const char *ours = strstr(why->text, "}: "), *colon = strstr(why->text, ": ");

	return ours ? ours + 3 : colon ? colon + 2 : why->text;
}

/* The number of servers that the job asks for does not keep it from a strategy that has none, or
 * that needs one.  On failure *said stays. */
static enum tw_status read_with_other_servers(struct again *a, const struct tw_job *own,
					      struct tw_job **job, const struct tw_error *said,
					      struct tw_error *why)
{
	const enum tw_status st =
		put_field(a, why, "cluster.servers=%d", own->cluster.servers ? 0 : 1);

	if (st == TW_OK && read_job(a, job, NULL) == TW_OK)
		return TW_OK;
	return st == TW_OK ? said->status : st;
}

/* A row of the job with this strategy (NULL: its own) and number of workers. */
static enum tw_status add_row(struct again *a, const struct tw_job *own,
			      const struct tw_preset *preset, const char *family, uint32_t workers,
			      json_t *rows, struct tw_error *why)
{
	const size_t sets = a->sets;
	struct tw_error said = { 0 };
	struct tw_job *job = NULL;
	json_t *o = NULL;
	struct tw_plan_density d = { 0 };
	enum tw_status st = put_field(a, why, "cluster.workers=%u", workers);

	if (st == TW_OK && preset)
		st = put_strategy(a, own, preset->name, why);
	if (st == TW_OK) {
		st = read_job(a, &job, &said);
		if (st == TW_BAD_INPUT && preset)
			st = read_with_other_servers(a, own, &job, &said, why);
		if (st == TW_OK)
			st = tw_job_finish_plan(job, a->engine, &said);
		if (st == TW_OK && depends_on_gradients(job)) {
			d.share = a->r->density;
			if (d.share > 0)
				put_density(a, &job, &said);
			else
				d = measured(a, job);
		}
		if (st == TW_OK)
			o = row_of(a, job, d.per_value);
		else if (st == TW_BAD_INPUT)
			o = not_predicted(reason_of(&said));
		st = o ? TW_OK : tw_fail(why, st, "%s", said.text);
	}
	if (st == TW_OK) {
		json_object_set_new(o, "strategy", json_string(preset ? preset->name : own->title));
		json_object_set_new(o, "family", family ? json_string(family) : json_null());
		json_object_set_new(o, "workers", json_integer(workers));
		if (d.share > 0)
			json_object_set_new(o, "density",
					    json_pack("{s:f, s:s}", "share", d.share, "from",
						      a->r->density > 0 ? "given" : "measured"));
		if (json_object_get(o, "speedup") && !preset)
			json_object_set_new(
				o, "crossover_bits_per_second",
				tw_json_number(tw_cost_crossover(&job->plan, &job->sim, a->engine,
								 d.per_value)));
		st = json_array_append_new(rows, o) ? tw_fail(why, TW_NO_MEMORY, "no memory")
						    : TW_OK;
	}
	tw_job_free(job);
	a->sets = sets;
	return st;
}

static enum tw_status add_rows(struct again *a, const struct tw_job *own, uint32_t workers,
			       json_t *rows, struct tw_error *why)
{
	const char *family = NULL;
	enum tw_status st = add_row(a, own, NULL, NULL, workers, rows, why);

	for (const struct tw_preset *p = tw_presets; st == TW_OK && p->name; p++) {
		family = p->family ? p->family : family;
		st = add_row(a, own, p, family, workers, rows, why);
	}
	return st;
}

/* --- the whole ------------------------------------------------------------------------------- */

static enum tw_status open_job(struct again *a, struct tw_job **job, const char **how,
			       struct tw_error *why)
{
	enum tw_status st = put_prices(a, why);

	if (st == TW_OK)
		st = read_job(a, job, why);
	if (st == TW_OK && (*job)->sim.machines.count)
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: sim.nodes: predictions of strategies are for equal nodes; "
			       "leave them out with --set sim.nodes=[]",
			       (*job)->file);
	if (st == TW_OK && (*job)->faults)
		st = tw_fail(why, TW_BAD_INPUT,
			     "%s: sim.faults: predictions know no faults; leave them out with "
			     "--set sim.faults=[]",
			     (*job)->file);
	if (st == TW_OK)
		st = tw_job_open_engine(*job, &tw_heap_system, &a->engine, why);
	return st == TW_OK ? price_computing(a, *job, how, why) : st;
}

static enum tw_status plan_rows(struct again *a, json_t **out, struct tw_error *why)
{
	const struct tw_plan_request *r = a->r;
	struct tw_job *job = NULL, *priced = NULL;
	json_t *rows = json_array();
	const char *how = "";
	enum tw_status st = open_job(a, &job, &how, why);

	if (st == TW_OK)
		st = read_job(a, &priced, why);
	if (st == TW_OK && !r->count)
		st = add_rows(a, priced, priced->cluster.workers, rows, why);
	for (size_t k = 0; st == TW_OK && k < r->count; k++)
		st = add_rows(a, priced, r->workers[k], rows, why);
	if (st == TW_OK) {
		const struct tw_sim_options *s = &priced->sim;
		const double step = (double)(s->law == TW_LAW_LOG_NORMAL ? s->median : s->mean) *
				    1e-9 * (s->per_sample ? tw_job_batch(priced) : 1);

		*out = json_pack(
			"{s:s, s:I, s:I, s:I, s:f, s:s, s:f, s:f, s:I, s:I, s:O, s:o}", "job",
			priced->file, "parameters", (json_int_t)a->engine->trainable, "buffers",
			(json_int_t)a->engine->buffers, "batch", (json_int_t)tw_job_batch(priced),
			"compute_seconds", step, "compute", how, "bandwidth_bits_per_second",
			s->bandwidth, "latency_seconds", (double)s->latency * 1e-9, "memory_bytes",
			(json_int_t)r->memory, "workers", (json_int_t)priced->cluster.workers,
			"rows", rows, "best", tw_plan_best(rows));
		st = *out ? TW_OK : tw_fail(why, TW_NO_MEMORY, "no memory for the answer");
	}
	json_decref(rows);
	tw_job_free(priced);
	tw_job_free(job);
	return st;
}

enum tw_status tw_query_plan(const struct tw_plan_request *r, json_t **out, struct tw_error *why)
{
	struct again a = { .r = r };
	enum tw_status st = TW_OK;

	tw_arena_init(&a.texts, &tw_heap_system);
	a.set = calloc(r->words.sets + SETS_MOST, sizeof *a.set);
	if (!a.set)
		st = tw_fail(why, TW_NO_MEMORY, "no memory for the fields of a job");
	for (; a.set && a.sets < r->words.sets; a.sets++)
		a.set[a.sets] = r->words.set[a.sets];
	if (st == TW_OK && strcmp(r->path, "-") == 0)
		st = tw_query_input(&a.input, &a.bytes, why);
	if (st == TW_OK)
		st = plan_rows(&a, out, why);
	if (a.engine)
		a.engine->class->close(a.engine);
	free(a.input);
	free(a.set);
	tw_arena_release(&a.texts);
	return st;
}
