/* SPDX-License-Identifier: Apache-2.0 */
/* plan_stages.c - where to cut a job's model: plans, run in the simulator beside what they are
 * compared with. */
#include "base/json.h"
#include "cost/stages.h"
#include "query/stages/plan_rows.h"
#include "spec/field.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PLANS_SHOWN 3
#define PLANS_FOUND 12 /* of one search */
#define PLANS_MOST  96
#define ROUNDS      6 /* of data parallelism, to be run */

struct plan_of {
	struct tw_planner_plan plan;
	const struct tw_pipeline *schedule;
	double rate; /* samples per second, predicted */
};

struct answer {
	struct tw_plan_rows rows;
	struct tw_planner problem;
	struct tw_planner_node *node;
	struct plan_of plan[PLANS_MOST];
	uint32_t plans;
	double possible;
	uint64_t played;
	bool all;
	bool others; /* may it have another schedule than its own? */
	char no_lanes[sizeof((struct tw_error *)0)
			      ->text]; /* why no stage may have several machines; "" */
	json_t *list;
	int best; /* of the list; -1: none has run */
	double best_rate;
};

/* --- the problem ------------------------------------------------------------------------------ */

static bool flushes(const struct tw_pipeline *p)
{
	return p->traits & TW_PIPELINE_FLUSHES;
}

/* The sentence of a refusal without its place. */
static const char *reason_of(const struct tw_error *why)
{
	const char *colon = strstr(why->text, ": ");

	return colon ? colon + 2 : why->text;
}

/* May a stage of this job have several machines?  The job's own refusals say so. */
static enum tw_status ask_for_lanes(struct answer *y, struct tw_error *why)
{
	struct tw_plan_rows *a = &y->rows;
	struct tw_error said = { 0 };
	struct tw_job *job = NULL;
	enum tw_status st = tw_plan_rows_put(a, why, "cluster.lanes=[2]");

	if (st != TW_OK)
		return st;
	st = tw_plan_rows_read(a, true, &job, &said);
	tw_job_free(job);
	a->sets = a->base;
	/* numbers of micro-batches are limits of a plan, not of the job */
	y->problem.lanes = st == TW_OK || strstr(said.text, "data.accumulate");
	if (!y->problem.lanes)
		snprintf(y->no_lanes, sizeof y->no_lanes, "%s", reason_of(&said));
	return st == TW_OK || st == TW_BAD_INPUT ? TW_OK : tw_fail(why, st, "%s", said.text);
}

/* May its schedule be another one?  A preset means one. */
static enum tw_status ask_for_schedules(struct answer *y, struct tw_error *why)
{
	struct tw_plan_rows *a = &y->rows;
	const struct tw_pipeline *own = a->job->plan.staging.schedule;
	struct tw_error said = { 0 };
	enum tw_status st = TW_OK;

	for (size_t k = 0; st == TW_OK && tw_pipeline_all[k] && !y->others; k++) {
		const struct tw_pipeline *s = tw_pipeline_all[k];
		struct tw_job *job = NULL;

		if (s == own || !flushes(own) || !flushes(s) || s->options)
			continue;
		st = tw_plan_rows_put(a, why, "strategy.pipeline.schedule=%s", s->name);
		if (st == TW_OK)
			y->others = tw_plan_rows_read(a, true, &job, &said) == TW_OK;
		tw_job_free(job);
		a->sets = a->base;
	}
	return st;
}

static double per_byte(double bits)
{
	return bits > 0 ? 8 / bits : 0;
}

static uint64_t stream_of(const struct tw_job *job, const struct tw_stages_request *r,
			  uint32_t nodes)
{
	const uint32_t group = job->plan.dealing.accumulate;
	uint64_t n = r->micros ? r->micros : 8 * (uint64_t)nodes;

	if (flushes(job->plan.staging.schedule))
		n = r->micros ? r->micros : 3 * (uint64_t)group;
	n = n < 32 && !r->micros && !flushes(job->plan.staging.schedule) ? 32 : n;
	return (n + group - 1) / group * group;
}

static enum tw_status set_problem(struct answer *y, struct tw_error *why)
{
	struct tw_plan_rows *a = &y->rows;
	const struct tw_job *job = a->job;
	const struct tw_plan *p = &job->plan;
	const uint32_t n = a->machines.count;
	const size_t sample = 4096;
	enum tw_status st;

	y->node = calloc(n, sizeof *y->node);
	if (!y->node)
		return tw_fail(why, TW_NO_MEMORY, "no memory for a plan");
	for (uint32_t k = 0; k < n; k++) {
		const struct tw_machine *m = &a->machines.at[k];

		y->node[k] = (struct tw_planner_node){ m->speed, (double)m->memory,
						       per_byte(m->bandwidth),
						       (double)m->latency * 1e-9, m->group };
	}
	y->problem = (struct tw_planner){
		.part = a->parts.part,
		.border = a->parts.border,
		.parts = a->parts.parts,
		.node = y->node,
		.nodes = n,
		.group_per_byte = per_byte(a->machines.bandwidth),
		.group_latency = (double)a->machines.latency * 1e-9,
		.schedule = p->staging.schedule,
		.options = p->staging.options,
		.micros = p->dealing.accumulate,
		.stream = stream_of(job, a->r, n),
		.ranges = TW_RANGES,
		.recompute = job->strategy.recompute,
		.kept = (double)tw_plan_part_arrays(p) + 1,
		.up = (double)p->traffic.up->bound(p->traffic.up_options, sample) /
		      (double)(sample * sizeof(float)),
		.down = (double)p->traffic.down->bound(p->traffic.down_options, sample) /
			(double)(sample * sizeof(float)),
	};
	st = ask_for_lanes(y, why);
	return st == TW_OK ? ask_for_schedules(y, why) : st;
}

/* --- plans ----------------------------------------------------------------------------------- */

/* Samples per second once the pipeline is full; 0: the plan does not fit. */
static double rate_of(const struct answer *y, const struct tw_pipeline *schedule, bool recompute,
		      const struct tw_planner_plan *plan)
{
	struct tw_planner p = y->problem;
	struct tw_planner_plan one = *plan, two = *plan;

	p.schedule = schedule;
	p.recompute = recompute;
	if (!tw_planner_price(&p, &one))
		return 0;
	p.stream *= 2;
	if (!tw_planner_price(&p, &two))
		return 0;
	return (double)y->problem.stream * y->rows.parts.batch / (two.seconds - one.seconds);
}

/* Does every machine have what its stage needs?  With the sizes of the finished job. */
static bool has_memory(const struct answer *y, const struct tw_job *job,
		       const struct tw_planner_plan *q, double *most)
{
	const struct tw_plan *p = &job->plan;
	uint32_t at = 0;
	bool enough = true;

	*most = 0;
	for (uint32_t s = 0; s < q->stages; s++) {
		const struct tw_stage_memory m = tw_cost_stage_memory(p, s);
		const double kept = y->problem.kept * (double)p->staging.stage[s].floats * 4;

		for (uint32_t l = 0; l < q->lanes[s]; l++, at++) {
			const double need = tw_stage_memory_sum(&m) + (l ? 0 : kept);
			const double has = y->node[q->node[at]].memory;

			*most = fmax(*most, need);
			enough = enough && (has <= 0 || need <= has);
		}
	}
	return enough;
}

static void offer(struct answer *y, const struct plan_of *one)
{
	uint32_t at = y->plans++;

	for (; at > 0 && one->rate > y->plan[at - 1].rate; at--)
		y->plan[at] = y->plan[at - 1];
	y->plan[at] = *one;
}

static enum tw_status search(struct answer *y, const struct tw_pipeline *schedule, bool recompute,
			     struct tw_error *why)
{
	struct tw_planner p = y->problem;
	struct tw_planner_plan plan[PLANS_FOUND];
	struct tw_planner_found found;
	enum tw_status st;

	p.schedule = schedule;
	p.recompute = recompute;
	st = tw_planner_search(&p, plan, PLANS_FOUND, &found);
	if (st != TW_OK)
		return tw_fail(why, st, "no memory to search for plans");
	for (uint32_t i = 0; i < found.count && y->plans < PLANS_MOST; i++) {
		const struct plan_of one = { plan[i], schedule,
					     rate_of(y, schedule, recompute, &plan[i]) };

		if (one.rate > 0)
			offer(y, &one);
	}
	y->possible += found.possible;
	y->played += found.played;
	y->all = found.all;
	return TW_OK;
}

/* Plans with the job's schedule; where nothing is late, with others of which that is true, too,
 * because they compute the same and keep other micro-batches.  Where memory is limited also plans
 * that all recompute: what a stage needs is known exactly only when its job is made. */
static enum tw_status find_plans(struct answer *y, struct tw_error *why)
{
	const struct tw_pipeline *own = y->problem.schedule;
	const struct tw_pipeline *schedule[8];
	uint32_t schedules = 0;
	bool limited = false;
	enum tw_status st = TW_OK;

	for (uint32_t k = 0; k < y->problem.nodes; k++)
		limited = limited || y->node[k].memory > 0;
	limited = limited && !y->problem.recompute;
	for (size_t k = 0; tw_pipeline_all[k] && schedules < 8; k++) {
		const struct tw_pipeline *s = tw_pipeline_all[k];

		if (s == own || (y->others && flushes(own) && flushes(s) && !s->options))
			schedule[schedules++] = s;
	}
	y->problem.effort = TW_PLANNER_EFFORT / (schedules * (1 + limited));
	for (uint32_t k = 0; st == TW_OK && k < schedules; k++) {
		st = search(y, schedule[k], y->problem.recompute, why);
		if (st == TW_OK && limited)
			st = search(y, schedule[k], true, why);
	}
	return st;
}

/* --- rows ------------------------------------------------------------------------------------ */

/* Is the field set again behind this place? */
static bool set_later(const struct tw_plan_rows *a, size_t k)
{
	const size_t path = strcspn(a->set[k], "=") + 1;

	for (size_t i = k + 1; i < a->sets; i++)
		if (strncmp(a->set[i], a->set[k], path) == 0)
			return true;
	return false;
}

static json_t *fields_of(const struct tw_plan_rows *a)
{
	json_t *list = json_array();

	for (size_t k = a->r->words.sets; k < a->sets; k++)
		if (!set_later(a, k))
			json_array_append_new(list, json_string(a->set[k]));
	return list;
}

static void note_best(struct answer *y, double rate)
{
	if (rate > y->best_rate) {
		y->best_rate = rate;
		y->best = (int)json_array_size(y->list) - 1;
	}
}

/* A row whose fields are put: it is run, and the fields are taken away again. */
static void add_row(struct answer *y, const char *name, double predicted, uint64_t steps, json_t *o)
{
	struct tw_plan_rows *a = &y->rows;
	struct tw_error said = { 0 };
	double seconds = 0;
	const enum tw_status st = tw_plan_rows_run(a, steps, &seconds, &said);
	const double rate =
		st == TW_OK && seconds > 0 ? (double)steps * a->parts.batch / seconds : 0;

	json_object_set_new(o, "name", json_string(name));
	json_object_set_new(o, "fields", fields_of(a));
	json_object_set_new(o, "predicted_samples_per_second",
			    predicted > 0 ? json_real(predicted) : json_null());
	json_object_set_new(o, "simulated_samples_per_second",
			    rate > 0 ? json_real(rate) : json_null());
	if (!(rate > 0))
		json_object_set_new(o, "not_run", json_string(reason_of(&said)));
	json_array_append_new(y->list, o);
	note_best(y, rate);
	a->sets = a->base;
}

static json_t *about_plan(const struct answer *y, const struct tw_planner_plan *q,
			  const struct tw_pipeline *schedule, double memory)
{
	json_t *lanes = json_array(), *cuts = json_array(), *nodes = json_array();

	for (uint32_t s = 0; s < q->stages; s++) {
		json_array_append_new(lanes, json_integer(q->lanes[s]));
		if (s)
			json_array_append_new(cuts,
					      json_string(y->rows.engine->cut[q->cut[s]].after));
	}
	for (uint32_t c = 0; c < q->cells; c++)
		json_array_append_new(nodes, json_integer(q->node[c]));
	return json_pack("{s:s, s:I, s:I, s:o, s:o, s:o, s:b, s:f}", "schedule", schedule->name,
			 "stages", (json_int_t)q->stages, "machines", (json_int_t)q->cells, "lanes",
			 lanes, "cut_after", cuts, "nodes", nodes, "recompute", q->recompute,
			 "memory_bytes", memory);
}

/* The plan as a job; NULL: refused, or a machine has not enough memory. */
static struct tw_job *job_of(struct answer *y, const struct plan_of *one, double *memory,
			     struct tw_error *why)
{
	struct tw_plan_rows *a = &y->rows;
	struct tw_job *job = NULL;
	enum tw_status st = tw_plan_rows_put_plan(a, &one->plan, one->schedule, why);

	if (st == TW_OK)
		st = tw_plan_rows_read(a, false, &job, why);
	if (st == TW_OK)
		st = tw_job_finish_plan(job, a->engine, why);
	if (st == TW_OK && !has_memory(y, job, &one->plan, memory))
		st = tw_fail(why, TW_BAD_INPUT, "plan: needs more memory than its machines have");
	if (st == TW_OK)
		return job;
	tw_job_free(job);
	a->sets = a->base;
	return NULL;
}

/* The best plans that the job takes, and the picture of the first. */
static enum tw_status add_plans(struct answer *y, json_t **picture, struct tw_error *why)
{
	struct tw_error said = { 0 };
	uint32_t shown = 0;
	enum tw_status st = TW_OK;

	for (uint32_t k = 0; k < y->plans && shown < PLANS_SHOWN && st == TW_OK; k++) {
		const struct plan_of *one = &y->plan[k];
		double memory = 0;
		struct tw_job *job = job_of(y, one, &memory, &said);
		char name[40];

		if (!job)
			continue;
		if (!shown++) {
			const struct tw_schedule_request r = { .read = "",
							       .write = "",
							       .compute = "",
							       .job = job,
							       .engine = y->rows.engine };

			st = tw_query_schedule(&r, picture, why);
		}
		snprintf(name, sizeof name, "plan %u", shown);
		if (st == TW_OK)
			add_row(y, name, one->rate, y->problem.stream,
				about_plan(y, &one->plan, one->schedule, memory));
		tw_job_free(job);
	}
	if (st == TW_OK && !shown)
		return tw_fail(
			why, TW_BAD_INPUT,
			"%s: no plan fits these machines%s%s; give them more memory, or use a "
			"smaller data.batch",
			y->rows.job->file, *said.text ? ": " : "",
			*said.text ? reason_of(&said) : "");
	return st;
}

/* --- what plans are compared with ------------------------------------------------------------- */

/* Every machine computes the whole model on batches of its own, and they add up gradients. */
static enum tw_status add_data_parallel(struct answer *y, struct tw_error *why)
{
	struct tw_plan_rows *a = &y->rows;
	const uint32_t n = a->machines.count;
	uint16_t all[TW_PLANNER_NODES];
	char name[60];
	enum tw_status st = tw_plan_rows_put(a, why, "strategy={name: allreduce}");

	for (uint32_t k = 0; k < n; k++)
		all[k] = (uint16_t)k;
	if (st == TW_OK)
		st = tw_plan_rows_put(a, why, "cluster.workers=%u", n);
	if (st == TW_OK)
		st = tw_plan_rows_put(a, why, "cluster.place=servers");
	if (st == TW_OK)
		st = tw_plan_rows_put_nodes(a, all, n, why);
	if (st == TW_OK && a->by_parts)
		st = tw_plan_rows_put(a, why, "sim.compute.law=constant");
	if (st == TW_OK && a->by_parts)
		st = tw_plan_rows_put(a, why, "sim.compute.mean=%.0fns", a->step * 1e9);
	snprintf(name, sizeof name, "data parallel, %u workers", n);
	if (st == TW_OK)
		add_row(y, name, 0, (uint64_t)ROUNDS * n * y->problem.micros,
			json_pack("{s:s, s:I}", "schedule", "allreduce", "machines",
				  (json_int_t)n));
	return st;
}

/* Stages of equal work, as many as there are machines or parts, in the machines' order; then with
 * one stage: the fastest machine alone. */
static enum tw_status add_simple(struct answer *y, bool alone, struct tw_error *why)
{
	struct tw_planner p = y->problem;
	struct plan_of one = { .schedule = p.schedule };
	uint32_t counts = 0, fastest = 0;
	struct tw_error said = { 0 };
	struct tw_job *job;
	double memory = 0;
	char name[60];

	for (uint32_t k = 0; k < p.parts; k++)
		counts += p.part[k].counts;
	one.plan.stages = one.plan.cells = alone ? 1 : p.nodes < counts ? p.nodes : counts;
	if (one.plan.stages > TW_PLANNER_STAGES)
		one.plan.stages = one.plan.cells = TW_PLANNER_STAGES;
	for (uint32_t k = 1; k < p.nodes; k++)
		fastest = p.node[k].speed > p.node[fastest].speed ? k : fastest;
	for (uint32_t s = 0; s < one.plan.stages; s++) {
		one.plan.lanes[s] = 1;
		one.plan.node[s] = (uint16_t)(alone ? fastest : s);
	}
	if (!tw_planner_even(&p, one.plan.stages, one.plan.cut))
		return TW_OK;
	one.plan.recompute = p.recompute;
	one.rate = rate_of(y, one.schedule, p.recompute, &one.plan);
	job = job_of(y, &one, &memory, &said);
	if (alone)
		snprintf(name, sizeof name, "one machine");
	else
		snprintf(name, sizeof name, "equal stages, %u machines", one.plan.stages);
	if (job)
		add_row(y, name, one.rate, y->problem.stream,
			about_plan(y, &one.plan, one.schedule, memory));
	else
		json_array_append_new(y->list, json_pack("{s:s, s:s, s:I, s:n, s:n, s:s}", "name",
							 name, "schedule", one.schedule->name,
							 "machines", (json_int_t)one.plan.cells,
							 "predicted_samples_per_second",
							 "simulated_samples_per_second", "not_run",
							 reason_of(&said)));
	tw_job_free(job);
	y->rows.sets = y->rows.base;
	return TW_OK;
}

/* The best plan with its parameters on a server instead. */
static enum tw_status add_with_server(struct answer *y, struct tw_error *why)
{
	struct tw_plan_rows *a = &y->rows;
	const json_t *first = json_array_get(y->list, 0), *field;
	size_t k;
	enum tw_status st = TW_OK;
	json_t *o;

	json_array_foreach(json_object_get(first, "fields"), k, field)
	{
		if (st == TW_OK)
			st = tw_plan_rows_put(a, why, "%s", json_string_value(field));
	}
	if (st == TW_OK)
		st = tw_plan_rows_put(a, why, "cluster.place=servers");
	if (st != TW_OK)
		return st;
	o = json_copy((json_t *)first);
	json_object_del(o, "memory_bytes");
	add_row(y, "plan 1, and a server", 0, y->problem.stream, o);
	return TW_OK;
}

/* --- the whole ------------------------------------------------------------------------------- */

static json_t *nodes_of(const struct tw_plan_rows *a)
{
	json_t *list = json_array();

	for (uint32_t k = 0; k < a->machines.count; k++) {
		const struct tw_machine *m = &a->machines.at[k];

		json_array_append_new(
			list,
			json_pack("{s:f, s:I, s:f, s:f, s:s}", "speed", m->speed, "memory_bytes",
				  (json_int_t)m->memory, "bandwidth_bits_per_second", m->bandwidth,
				  "latency_seconds", (double)m->latency * 1e-9, "group",
				  m->group ? a->machines.group[m->group - 1] : ""));
	}
	return list;
}

static json_t *parts_of(const struct tw_plan_rows *a)
{
	json_t *list = json_array();

	for (uint32_t k = 0; k < a->parts.parts; k++)
		json_array_append_new(list, json_pack("{s:s, s:f, s:f, s:f, s:f}", "up_to_layer",
						      a->engine->cut[k + 1].after,
						      "forward_seconds", a->parts.part[k].forward,
						      "backward_seconds", a->parts.part[k].backward,
						      "sends_bytes", a->parts.border[k].forward,
						      "weight_bytes", a->parts.part[k].bytes));
	return list;
}

static enum tw_status answer(struct answer *y, json_t *picture, json_t **out, struct tw_error *why)
{
	const struct tw_plan_rows *a = &y->rows;

	*out = json_pack("{s:s, s:I, s:I, s:I, s:s, s:s, s:I, s:f, s:I, s:b, s:o, s:o, s:O, s:i, "
			 "s:O}",
			 "job", a->job->file, "parameters",
			 (json_int_t)(a->engine->trainable + a->engine->buffers), "batch",
			 (json_int_t)a->parts.batch, "accumulate",
			 (json_int_t)a->job->plan.dealing.accumulate, "schedule",
			 a->job->plan.staging.schedule->name, "times", a->how, "micro_batches",
			 (json_int_t)y->problem.stream, "possible", y->possible, "played",
			 (json_int_t)y->played, "all", y->all, "nodes", nodes_of(a), "parts",
			 parts_of(a), "rows", y->list, "best", y->best, "schedule_of_best",
			 picture);
	if (!*out)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the answer");
	json_object_set_new(*out, "step_seconds", json_real(a->step));
	json_object_set_new(*out, "no_lanes", tw_json_text(y->no_lanes));
	return TW_OK;
}

enum tw_status tw_query_stages(const struct tw_stages_request *r, json_t **out,
			       struct tw_error *why)
{
	struct answer *y = calloc(1, sizeof *y);
	json_t *picture = NULL;
	enum tw_status st;

	if (!y)
		return tw_fail(why, TW_NO_MEMORY, "no memory for a plan");
	y->best = -1;
	y->list = json_array();
	st = tw_plan_rows_open(&y->rows, r, why);
	if (st == TW_OK)
		st = set_problem(y, why);
	if (st == TW_OK)
		st = find_plans(y, why);
	if (st == TW_OK)
		st = add_plans(y, &picture, why);
	if (st == TW_OK)
		st = add_with_server(y, why);
	if (st == TW_OK)
		st = add_data_parallel(y, why);
	if (st == TW_OK)
		st = add_simple(y, false, why);
	if (st == TW_OK)
		st = add_simple(y, true, why);
	if (st == TW_OK)
		st = answer(y, picture, out, why);
	json_decref(picture);
	json_decref(y->list);
	tw_plan_rows_close(&y->rows);
	free(y->node);
	free(y);
	return st;
}
