/* SPDX-License-Identifier: Apache-2.0 */
/* plan_rows.c - a job, its machines and its times; and the same job with the fields of a plan. */
#include "query/stages/plan_rows.h"

#include "run/dry_run.h"
#include "run/open_engine.h"
#include "spec/field.h"
#include "spec/yaml_tree.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* --- fields ---------------------------------------------------------------------------------- */

enum tw_status tw_plan_rows_put(struct tw_plan_rows *a, struct tw_error *why, const char *format,
				...)
{
	char text[TW_PLANNER_NODES * 200];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (a->sets == a->r->words.sets + TW_PLAN_SETS ||
	    !(a->set[a->sets] = tw_arena_text(&a->keep, text)))
		return tw_fail(why, TW_NO_MEMORY, "no memory for the fields of a job");
	a->sets++;
	return TW_OK;
}

enum tw_status tw_plan_rows_read(const struct tw_plan_rows *a, bool planned, struct tw_job **out,
				 struct tw_error *why)
{
	const struct tw_job_text from = {
		.name = a->name,
		.text = a->text,
		.bytes = a->bytes,
		.set = a->set,
		.sets = a->sets,
		.environ_ = a->r->words.environ_,
		.change = &a->change,
		.changes = planned && a->change.path,
		.planned = planned,
	};

	return tw_job_read_changed(&from, TW_WORLD_SIM, out, why);
}

/* A flag whose value is that of a field of `sim:`. */
static enum tw_status put_price(struct tw_plan_rows *a, const char *flag, const char *field,
				const char *value, struct tw_error *why)
{
	const struct tw_option *row = tw_option_find(tw_sim_rows, field);
	struct tw_sim_options scratch;
	char accepts[160];

	if (!*value)
		return TW_OK;
	if (tw_option_set(row, &scratch, value, &a->keep, NULL) != TW_OK) {
		tw_option_accepts(row, accepts, sizeof accepts);
		return tw_fail(why, TW_BAD_INPUT, "--%s: needs %s, not '%.60s'", flag, accepts,
			       value);
	}
	return tw_plan_rows_put(a, why, "sim.%s=%s", field, value);
}

/* One stage, which any pipeline may have: what plans say of stages comes behind it. */
static enum tw_status put_base(struct tw_plan_rows *a, struct tw_error *why)
{
	static const char *const fields[] = { "cluster.workers=1", "cluster.stages=1",
					      "cluster.lanes=[]", "model.stages=auto",
					      "cluster.place=with-stage" };
	const struct tw_stages_request *r = a->r;
	enum tw_status st = put_price(a, "bandwidth", "bandwidth", r->bandwidth, why);

	if (st == TW_OK)
		st = put_price(a, "latency", "latency", r->latency, why);
	if (st == TW_OK && *r->compute)
		st = tw_plan_rows_put(a, why, "sim.compute.law=constant");
	if (st == TW_OK && *r->compute)
		st = tw_plan_rows_put(a, why, "sim.compute.per_sample=false");
	if (st == TW_OK)
		st = put_price(a, "compute", "compute.mean", r->compute, why);
	for (size_t k = 0; st == TW_OK && k < sizeof fields / sizeof fields[0]; k++)
		st = tw_plan_rows_put(a, why, "%s", fields[k]);
	return st;
}

/* --- machines -------------------------------------------------------------------------------- */

/* --nodes: a number, or a file with a list. */
static enum tw_status read_nodes(struct tw_plan_rows *a, uint32_t *count, struct tw_error *why)
{
	const char *nodes = a->r->nodes;
	char *end, *text = NULL;
	const unsigned long n = strtoul(nodes, &end, 10);
	struct tw_tree *list = NULL;
	size_t bytes = 0;
	enum tw_status st;

	*count = 0;
	if (!*nodes)
		return TW_OK;
	if (!*end) {
		if (*nodes < '0' || *nodes > '9' || n < 1 || n > TW_PLANNER_NODES)
			return tw_fail(
				why, TW_BAD_INPUT,
				"--nodes: needs a whole number from 1 to %d, or a file with a "
				"list as in sim.nodes, not '%.60s'",
				TW_PLANNER_NODES, nodes);
		*count = (uint32_t)n;
		return tw_plan_rows_put(a, why, "sim.nodes=[]");
	}
	st = tw_job_load(nodes, &text, &bytes, why);
	if (st != TW_OK)
		return tw_fail(why, st,
			       "--nodes: needs a whole number from 1 to %d, or a file with "
			       "a list as in sim.nodes: %s",
			       TW_PLANNER_NODES, tw_arena_text(&a->keep, why->text));
	{
		const struct tw_text_source source = { tw_arena_text(&a->keep, nodes),
						       TW_FROM_FILE };
		char *kept = tw_arena_get(&a->keep, bytes + 1);

		if (!kept)
			return tw_fail(why, TW_NO_MEMORY, "no memory for --nodes");
		memcpy(kept, text, bytes);
		free(text);
		st = tw_tree_read(&a->keep, &source, kept, bytes, &list, why);
	}
	if (st != TW_OK)
		return st;
	if (list->kind != TW_TREE_LIST || !list->count)
		return tw_fail(why, TW_BAD_INPUT,
			       "--nodes: %.200s needs a list as in sim.nodes, such as [{speed: 1, "
			       "count: 2}, {speed: 0.5}]",
			       nodes);
	a->change = (struct tw_job_change){ "sim.nodes", list };
	return TW_OK;
}

/* The machines there are, with the memory of --memory where an entry has none. */
static enum tw_status take_machines(struct tw_plan_rows *a, uint32_t count, struct tw_error *why)
{
	const struct tw_sim_options *sim = &a->job->sim;
	const struct tw_machines *given = &sim->machines;
	struct tw_machine *at;

	if (!count && !given->count)
		return tw_fail(
			why, TW_BAD_INPUT,
			"--stages: for how many machines? Use --nodes 4, --nodes FILE with a "
			"list, or sim.nodes in the job");
	if (!count && given->count > TW_PLANNER_NODES)
		return tw_fail(why, TW_BAD_INPUT,
			       "--nodes: %u machines are too many to plan for; use at most %d",
			       given->count, TW_PLANNER_NODES);
	a->listed = !count;
	a->machines = *given;
	a->machines.count = count ? count : given->count;
	a->machines.at = at = tw_arena_get(&a->keep, a->machines.count * sizeof *at);
	if (!at)
		return tw_fail(why, TW_NO_MEMORY, "no memory for machines");
	for (uint32_t k = 0; k < a->machines.count; k++) {
		at[k] = count ? (struct tw_machine){ 1, 0, sim->bandwidth, sim->latency, 0 }
			      : given->at[k];
		if (!at[k].memory)
			at[k].memory = a->r->memory;
	}
	return TW_OK;
}

enum tw_status tw_plan_rows_put_nodes(struct tw_plan_rows *a, const uint16_t *node, uint32_t count,
				      struct tw_error *why)
{
	struct tw_machines some = a->machines;
	struct tw_machine *at = tw_arena_get(&a->keep, count * sizeof *at);
	char text[TW_PLANNER_NODES * 180] = "", one[240];
	bool grouped = false;
	size_t used = 0;

	if (!a->listed)
		return TW_OK;
	if (!at)
		return tw_fail(why, TW_NO_MEMORY, "no memory for machines");
	for (uint32_t k = 0; k < count; k++) {
		at[k] = a->machines.at[node[k]];
		grouped = grouped || at[k].group;
	}
	some.at = at;
	some.count = count;
	for (uint32_t k = 0; k < count;) {
		k = tw_machines_text(&some, k, one, sizeof one);
		used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "",
					 one);
		if (used >= sizeof text)
			return tw_fail(why, TW_BAD_INPUT,
				       "--nodes: %u different machines are too many to list",
				       count);
	}
	if (!grouped && a->machines.groups) {
		const enum tw_status st = tw_plan_rows_put(a, why, "sim.groups={}");

		if (st != TW_OK)
			return st;
	}
	return tw_plan_rows_put(a, why, "sim.nodes=[%s]", text);
}

/* --- times ----------------------------------------------------------------------------------- */

static enum tw_status price_parts(struct tw_plan_rows *a, struct tw_error *why)
{
	const struct tw_stages_request *r = a->r;
	const struct tw_sim_options *sim = &a->job->sim;
	const bool logarithmic = sim->law == TW_LAW_LOG_NORMAL;
	const char *path = logarithmic ? "sim.compute.median" : "sim.compute.mean";
	const double given = (double)(logarithmic ? sim->median : sim->mean) * 1e-9 *
			     (sim->per_sample ? tw_job_batch(a->job) : 1);
	enum tw_status st;

	a->by_parts = true;
	if (*r->profile) {
		a->how = "profile";
		st = tw_part_times_read(&a->parts, a->engine, r->profile, why);
		if (st != TW_ABSENT)
			return st;
		st = tw_part_times_measure(&a->parts, a->engine, why);
		return st == TW_OK ? tw_part_times_write(&a->parts, a->engine, r->profile, why)
				   : st;
	}
	if (*r->compute || tw_job_given(a->job, path)) {
		a->how = *r->compute ? "given" : "sim.compute";
		a->own_times = !*r->compute;
		a->by_parts = false;
		tw_part_times_flops(&a->parts, a->engine, given, sim->backward);
		return TW_OK;
	}
	a->how = "measured";
	return tw_part_times_measure(&a->parts, a->engine, why);
}

/* --- opened and closed ----------------------------------------------------------------------- */

/* What plans know nothing of. */
static enum tw_status check_job(const struct tw_job *job, struct tw_error *why)
{
	if (!tw_plan_is_staged(&job->plan))
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: the job has no pipeline to plan for; use --set "
			       "strategy.pipeline=NAME (thalweg help strategies lists the "
			       "pipelines)",
			       job->file);
	if (job->model != TW_MODEL_NETWORK)
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: model: only a network has layers to cut between", job->file);
	if (job->faults)
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: sim.faults: plans know no faults; leave them out with --set "
			       "sim.faults=[]",
			       job->file);
	if (job->sim.speeds.count || job->sim.stragglers)
		return tw_fail(
			why, TW_BAD_INPUT,
			"%s: sim.%s: machines are listed in sim.nodes, or with --nodes FILE; "
			"give their speeds there",
			job->file, job->sim.speeds.count ? "speeds" : "stragglers");
	if (job->sim.stages.count)
		return tw_fail(
			why, TW_BAD_INPUT,
			"%s: sim.compute.stages: is of stages that are cut already; leave it "
			"out with --set sim.compute.stages=[], or use --profile",
			job->file);
	return TW_OK;
}

enum tw_status tw_plan_rows_open(struct tw_plan_rows *a, const struct tw_stages_request *r,
				 struct tw_error *why)
{
	uint32_t count = 0;
	enum tw_status st;

	*a = (struct tw_plan_rows){ .r = r, .how = "" };
	tw_arena_init(&a->keep, &tw_heap_system);
	a->name = strcmp(r->path, "-") == 0 ? "standard input" : r->path;
	a->set = calloc(r->words.sets + TW_PLAN_SETS, sizeof *a->set);
	if (!a->set)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the fields of a job");
	for (; a->sets < r->words.sets; a->sets++)
		a->set[a->sets] = r->words.set[a->sets];
	st = tw_job_load(r->path, &a->text, &a->bytes, why);
	if (st == TW_OK)
		st = tw_plan_rows_read(a, true, &a->job, why);
	if (st == TW_OK)
		st = check_job(a->job, why);
	tw_job_free(a->job);
	a->job = NULL;
	if (st == TW_OK)
		st = put_base(a, why);
	if (st == TW_OK)
		st = read_nodes(a, &count, why);
	a->base = a->sets;
	if (st == TW_OK)
		st = tw_plan_rows_read(a, true, &a->job, why);
	if (st == TW_OK)
		st = take_machines(a, count, why);
	if (st == TW_OK)
		st = tw_job_open_engine(a->job, &tw_heap_system, &a->engine, why);
	if (st == TW_OK)
		st = tw_job_finish_plan(a->job, a->engine, why);
	if (st == TW_OK)
		st = tw_part_times_init(&a->parts, a->job, a->engine, why);
	if (st == TW_OK)
		st = price_parts(a, why);
	for (uint32_t k = 0; st == TW_OK && k < a->parts.parts; k++)
		a->step += a->parts.part[k].forward + a->parts.part[k].backward;
	return st;
}

void tw_plan_rows_close(struct tw_plan_rows *a)
{
	tw_part_times_release(&a->parts);
	if (a->engine)
		a->engine->class->close(a->engine);
	tw_job_free(a->job);
	free(a->text);
	free(a->set);
	tw_arena_release(&a->keep);
}

/* --- plans ----------------------------------------------------------------------------------- */

/* sim.compute: what a step of the whole model takes, and the parts of it of each stage. */
static enum tw_status put_times(struct tw_plan_rows *a, const struct tw_planner_plan *q,
				struct tw_error *why)
{
	char text[TW_PLANNER_STAGES * 40];
	size_t used = 0;
	enum tw_status st = TW_OK;

	if (a->own_times || !a->by_parts)
		return TW_OK;
	st = tw_plan_rows_put(a, why, "sim.compute.law=constant");
	if (st == TW_OK)
		st = tw_plan_rows_put(a, why, "sim.compute.mean=%.0fns", a->step * 1e9);
	for (uint32_t s = 0; s < q->stages; s++) {
		double forward = 0, backward = 0;

		for (uint32_t k = q->cut[s]; k < q->cut[s + 1]; k++) {
			forward += a->parts.part[k].forward;
			backward += a->parts.part[k].backward;
		}
		used += (size_t)snprintf(text + used, sizeof text - used, "%s%.4g, %.4g",
					 s ? ", " : "", forward * 1e6, backward * 1e6);
	}
	return st == TW_OK ? tw_plan_rows_put(a, why, "sim.compute.stages=[%s]", text) : st;
}

enum tw_status tw_plan_rows_put_plan(struct tw_plan_rows *a, const struct tw_planner_plan *q,
				     const struct tw_pipeline *schedule, struct tw_error *why)
{
	char cuts[TW_PLANNER_STAGES * (TW_MODEL_CUT_NAME + 2)] = "", lanes[TW_PLANNER_STAGES * 8];
	size_t used = 0, more = 0;
	enum tw_status st;

	for (uint32_t s = 0; s < q->stages; s++) {
		if (s)
			used += (size_t)snprintf(cuts + used, sizeof cuts - used, "%s%s",
						 s > 1 ? ", " : "",
						 a->engine->cut[q->cut[s]].after);
		more += (size_t)snprintf(lanes + more, sizeof lanes - more, "%s%u", s ? ", " : "",
					 q->lanes[s]);
	}
	st = tw_plan_rows_put(a, why, "cluster.stages=%u", q->stages);
	if (st == TW_OK && q->cells > q->stages)
		st = tw_plan_rows_put(a, why, "cluster.lanes=[%s]", lanes);
	if (st == TW_OK && q->stages > 1)
		st = tw_plan_rows_put(a, why, "model.stages=[%s]", cuts);
	if (st == TW_OK && schedule != a->job->plan.staging.schedule)
		st = tw_plan_rows_put(a, why, "strategy.pipeline.schedule=%s", schedule->name);
	if (st == TW_OK && q->recompute != a->job->strategy.recompute)
		st = tw_plan_rows_put(a, why, "strategy.pipeline.recompute=%s",
				      q->recompute ? "true" : "false");
	if (st == TW_OK)
		st = tw_plan_rows_put_nodes(a, q->node, q->cells, why);
	return st == TW_OK ? put_times(a, q, why) : st;
}

static enum tw_status run_one(struct tw_plan_rows *a, uint64_t micros, double *seconds,
			      struct tw_error *why)
{
	const size_t sets = a->sets;
	struct tw_job *job = NULL;
	enum tw_status st = tw_plan_rows_put(a, why, "train.epochs=0");

	if (st == TW_OK)
		st = tw_plan_rows_put(a, why, "train.steps=%llu", (unsigned long long)micros);
	if (st == TW_OK)
		st = tw_plan_rows_put(a, why, "train.evaluate=0");
	if (st == TW_OK)
		st = tw_plan_rows_put(a, why, "checkpoint.every=0s");
	if (st == TW_OK)
		st = tw_plan_rows_read(a, false, &job, why);
	if (st == TW_OK)
		st = tw_job_finish_plan(job, a->engine, why);
	if (st == TW_OK)
		st = tw_dry_run(job, a->engine, seconds, why);
	tw_job_free(job);
	a->sets = sets;
	return st;
}

enum tw_status tw_plan_rows_run(struct tw_plan_rows *a, uint64_t micros, double *seconds,
				struct tw_error *why)
{
	double one = 0, two = 0;
	enum tw_status st = run_one(a, micros, &one, why);

	if (st == TW_OK)
		st = run_one(a, 2 * micros, &two, why);
	*seconds = two - one;
	return st;
}
