/* SPDX-License-Identifier: Apache-2.0 */
/* result.c - what a run says at its end, as one JSON object. */
#include "run/result.h"

#include "base/json.h"
#include "base/printable.h"
#include "checkpoint/digest.h"
#include "spec/field.h"
#include "base/machine/isa.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *tw_result_evaluated(const struct tw_plan *plan)
{
	if (tw_plan_is_loose(plan))
		return "mean of the replicas";
	if (plan->near.rule && !plan->traffic.delta)
		return plan->near.rule->kept_sent;
	return tw_rule_shows(plan->far.rule, plan->far.options) ? plan->far.rule->kept : "w";
}

static enum tw_status digests(const struct tw_plan *plan, const struct tw_totals *t, json_t *r)
{
	const size_t all = plan->problem.trainable + plan->problem.buffers;
	char text[TW_DIGEST_TEXT];
	enum tw_status status;

	if (!t->vector) {
		json_object_set_new(r, "parameters_digest", tw_json_text(t->parameters_digest));
		json_object_set_new(r, "buffers_digest", tw_json_text(t->buffers_digest));
		return TW_OK;
	}
	status = tw_digest_floats(t->vector, plan->problem.border, plan->problem.shards, 0,
				  plan->problem.trainable, &plan->problem.constants, text);
	if (status != TW_OK)
		return status;
	json_object_set_new(r, "parameters_digest", json_string(text));
	status = tw_digest_floats(t->vector, plan->problem.border, plan->problem.shards,
				  plan->problem.trainable, all, NULL, text);
	if (status != TW_OK)
		return status;
	json_object_set_new(r, "buffers_digest", json_string(text));
	return TW_OK;
}

static json_t *accuracy(double x)
{
	return x < 0.0 ? json_null() : tw_json_number(x);
}

static json_t *goal(const struct tw_plan *p, const struct tw_goal *g, double seconds)
{
	if (isnan(p->ends.loss) && isnan(p->ends.accuracy))
		return NULL;
	if (!g->reached)
		return json_pack("{s:b, s:n, s:n, s:n, s:n, s:n}", "reached", 0, "epochs",
				 "updates", "seconds", "loss", "accuracy");
	return json_pack("{s:b, s:o, s:o, s:o, s:o, s:o}", "reached", 1, "epochs",
			 tw_json_number(g->samples / (double)p->problem.samples), "updates",
			 tw_json_number(g->updates), "seconds", tw_json_number(seconds), "loss",
			 tw_json_number(g->loss), "accuracy", accuracy(g->accuracy));
}

static json_t *kept(const struct tw_plan *p, const struct tw_totals *t)
{
	if (!t->kept.pin)
		return NULL;
	return json_pack("{s:o, s:o, s:o, s:b}", "epochs",
			 tw_json_number(t->kept.samples / (double)p->problem.samples), "loss",
			 tw_json_number(t->kept.loss), "accuracy", accuracy(t->kept.accuracy),
			 "patience", t->out_of_patience);
}

static json_t *test(const struct tw_plan *p, const struct tw_totals *t)
{
	if (!p->problem.held || t->status != TW_OK)
		return NULL;
	return json_pack("{s:o, s:o}", "loss", tw_json_number(t->held_loss), "accuracy",
			 accuracy(t->held_accuracy));
}

/* Up to the last that is not 0. */
static json_t *bins(const uint64_t *bin, size_t last)
{
	json_t *list = json_array();

	while (last > 0 && bin[last - 1] == 0)
		last--;
	for (size_t i = 0; list && i < last; i++)
		json_array_append_new(list, tw_json_count(bin[i]));
	return list;
}

static json_t *value(const struct tw_figure *f, const void *base, const struct tw_outcome *o)
{
	const uint32_t each = f->each ? o->shards : 1;
	const uint8_t *at = base;
	double x;

	if (f->bins)
		return bins((const void *)(at + f->offset), f->bins);
	if (f->type <= TW_COUNT32 && !f->over)
		return tw_json_count((f->of ? (uint64_t)f->of(o) : tw_figure_count(f, base)) /
				     each);
	x = f->of ? f->of(o) : tw_figure_real(f, base) / each;
	if (f->over)
		x = f->zero && x == 0.0 ? 0.0 : x / (double)*(const uint64_t *)(at + f->over);
	return tw_json_number(f->root ? sqrt(x) : x);
}

/* Put it at a path: "up.raw". */
static void put(json_t *to, const char *path, json_t *value)
{
	const char *point = strchr(path, '.');
	char name[40];

	if (!point) {
		tw_json_set(to, path, value);
		return;
	}
	snprintf(name, sizeof name, "%.*s", (int)(point - path), path);
	if (!json_is_object(json_object_get(to, name)))
		json_object_set_new(to, name, json_object());
	put(json_object_get(to, name), point + 1, value);
}

/* What the rows of a table show.  What is not shown stays as it is. */
static void show(json_t *r, const struct tw_figure *rows, const void *base,
		 const struct tw_outcome *o)
{
	bool hidden = false;

	for (const struct tw_figure *f = rows; f->name; f++) {
		if (f->result && !strchr(f->result, '.'))
			hidden = f->when && !f->when(o);
		if (f->result && f->type < TW_GROUP && !hidden)
			put(r, f->result, value(f, base, o));
	}
}

/* Shares of the workers' time; `workers`: of the first ones, one by one. */
static json_t *usage(const struct tw_usage *u)
{
	json_t *list = json_array();
	double all = 0;

	for (size_t k = 0; k < TW_USES; k++)
		all += u->all[k];
	for (uint32_t w = 0; w < u->workers && w < TW_USE_WORKERS; w++) {
		const double *spent = u->worker[w];
		const double sum = spent[0] + spent[1] + spent[2];

		json_array_append_new(list, json_pack("[o, o, o]", tw_json_number(spent[0] / sum),
						      tw_json_number(spent[1] / sum),
						      tw_json_number(spent[2] / sum)));
	}
	if (!u->workers || !(all > 0)) {
		json_decref(list);
		return NULL;
	}
	return json_pack("{s:f, s:f, s:f, s:o}", "computing", u->all[TW_USE_COMPUTING] / all,
			 "transferring", u->all[TW_USE_TRANSFERRING] / all, "waiting",
			 u->all[TW_USE_WAITING] / all, "workers", list);
}

/* Bytes of the servers' links, bin by bin up to the last that has any. */
static json_t *load(const struct tw_load *l)
{
	json_t *received = json_array(), *sent = json_array();
	size_t last = TW_LOAD_BINS;

	while (last > 0 && !l->received[last - 1] && !l->sent[last - 1])
		last--;
	for (size_t k = 0; k < last; k++) {
		json_array_append_new(received, tw_json_count(l->received[k]));
		json_array_append_new(sent, tw_json_count(l->sent[k]));
	}
	if (last)
		return json_pack("{s:f, s:o, s:o}", "seconds", (double)l->width / (double)TW_SECOND,
				 "received", received, "sent", sent);
	json_decref(received);
	json_decref(sent);
	return NULL;
}

static json_t *optimised(const struct tw_optimised *o)
{
	return !o->why ? NULL
		       : json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s}", "iterations",
				   tw_json_count(o->iterations), "evaluations",
				   tw_json_count(o->evaluations), "loss", tw_json_number(o->loss),
				   "gradient", tw_json_number(o->gradient), "step",
				   tw_json_number(o->step), "restarts", tw_json_count(o->restarts),
				   "backups", tw_json_count(o->backups), "ended", o->why);
}

static json_t *cell(const struct tw_plan *p, struct tw_stage_figures *f, uint32_t slot,
		    uint32_t number_of_cell)
{
	const struct tw_stage_note n = tw_stage_figures_of(f, slot, number_of_cell);
	const struct tw_outcome o = { .work = &n.work, .span = tw_stage_figures_span(f) };
	json_t *r = json_pack("{s:o, s:o, s:o}", "worker", tw_json_count(slot), "stage",
			      tw_json_count(tw_plan_stage_of(p, number_of_cell)), "lane",
			      tw_json_count(tw_plan_lane_of(p, number_of_cell)));

	show(r, tw_work_figures, &n.work, &o);
	return r;
}

/* Cells tell their figures where they are: a process knows those of its own. */
json_t *tw_result_pipeline(const struct tw_plan *p, struct tw_stage_figures *f)
{
	const uint32_t all = p->crew.workers * tw_plan_cells(p);
	json_t *cells, *lanes;
	bool whole;

	if (!f || !tw_plan_is_staged(p))
		return NULL;
	cells = json_array();
	lanes = json_array();
	for (uint32_t k = 0; k < all; k++)
		if (tw_stage_figures_of(f, k / tw_plan_cells(p), k % tw_plan_cells(p))
			    .work.forwards)
			json_array_append_new(
				cells, cell(p, f, k / tw_plan_cells(p), k % tw_plan_cells(p)));
	whole = json_array_size(cells) == all;
	for (uint32_t s = 0; s < p->staging.stages; s++)
		json_array_append_new(lanes, tw_json_count(p->staging.stage[s].lanes));
	return json_pack(
		"{s:s, s:o, s:o, s:o, s:o, s:o}", "schedule", p->staging.schedule->name, "stages",
		tw_json_count(p->staging.stages), "lanes", lanes, "bubble",
		whole ? tw_json_number(tw_stage_figures_bubble(f)) : json_null(), "seconds",
		whole ? tw_json_number((double)tw_stage_figures_span(f) / (double)TW_SECOND)
		      : json_null(),
		"cells", cells);
}

enum tw_status tw_result_make(const struct tw_job *job, const struct tw_ran *ran,
			      const struct tw_result_facts *facts, json_t **out,
			      struct tw_error *why)
{
	const struct tw_plan *plan = &job->plan;
	const struct tw_outcome outcome = { plan, &ran->totals,
					    ran->totals.shards ? ran->totals.shards : 1 };
	json_t *r = json_object();
	enum tw_status status;

	if (!r)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the result");
	for (const struct tw_figure *f = tw_result_figures; f->name; f++)
		if (f->help && f->type != TW_SOMETIMES)
			tw_json_set(r, f->result, NULL);
	show(r, tw_result_figures, ran, &outcome);
	tw_json_set(r, "strategy", json_string(job->title));
	tw_json_set(r, "seed", tw_json_count(plan->seed));
	tw_json_set(r, "world", json_string(tw_job_world(job->world)));
	tw_json_set(r, "interrupted", json_boolean(facts->interrupted));
	tw_json_set(r, "diverged", json_boolean(facts->diverged));
	tw_json_set(r, "restarts", tw_json_count(facts->restarts));
	tw_json_set(r, "rate", tw_json_number(job->update.schedule.rate));
	tw_json_set(r, "evaluated", json_string(tw_result_evaluated(plan)));
	tw_json_set(r, "accuracy", accuracy(ran->totals.accuracy));
	tw_json_set(r, "kept", kept(plan, &ran->totals));
	tw_json_set(r, "test", test(plan, &ran->totals));
	tw_json_set(r, "goal", goal(plan, &ran->totals.goal, facts->goal_seconds));
	tw_json_set(r, "seconds", tw_json_number(facts->seconds));
	tw_json_set(r, "samples_per_second",
		    tw_json_number(facts->seconds > 0.0
					   ? (double)ran->totals.samples / facts->seconds
					   : 0.0));
	tw_json_set(r, "workers", tw_json_count(plan->crew.workers));
	tw_json_set(r, "shards", tw_json_count(plan->problem.shards));
	tw_json_set(r, "parameters", tw_json_count(plan->problem.trainable));
	tw_json_set(r, "optimiser", optimised(&ran->totals.optimised));
	tw_json_set(r, "progressive",
		    plan->online.is ? tw_progressive_json(&ran->totals.progressive) : NULL);
	tw_json_set(r, "pipeline", tw_result_pipeline(plan, facts->stages));
	status = digests(plan, &ran->totals, r);
	tw_json_set(r, "isa", json_string(tw_isa_name(tw_isa())));
	tw_json_set(r, "threads", json_integer(1));
	tw_json_set(r, "checkpoint",
		    facts->checkpoint ? json_string(facts->checkpoint) : json_null());
	if (ran->usage.workers)
		tw_json_set(r, "usage", usage(&ran->usage));
	if (job->world == TW_WORLD_SIM) {
		tw_json_set(r, "virtual_seconds",
			    tw_json_number((double)ran->virtual_ns / (double)TW_SECOND));
		tw_json_set(r, "events", tw_json_count(ran->events));
		tw_json_set(r, "server_link", load(&ran->load));
		tw_json_set(
			r, "effort",
			tw_json_number(ran->applied.samples
					       ? ran->applied.effort / (double)ran->applied.samples
					       : NAN));
	}
	if (status != TW_OK) {
		json_decref(r);
		return tw_fail(why, status, "the parameters at the end cannot be digested: %s",
			       tw_status_name(status));
	}
	*out = r;
	return TW_OK;
}

static void text_printable(json_t *value, bool lines)
{
	char *copy =
		tw_is_printable(json_string_value(value)) ? NULL : strdup(json_string_value(value));

	if (!copy)
		return;
	for (char *line = copy, *end; line; line = end ? end + 1 : NULL) {
		end = lines ? strchr(line, '\n') : NULL;
		if (end)
			*end = '\0';
		tw_printable(line);
		if (!end)
			break;
		/* what became shorter leaves a gap before the line end */
		memset(line + strlen(line), ' ', (size_t)(end - line) - strlen(line));
		*end = '\n';
	}
	json_string_set(value, copy);
	free(copy);
}

/* A name that must change is put in again under the new one. */
static void names_printable(json_t *object)
{
	void *at = json_object_iter(object);

	while (at) {
		const char *name = json_object_iter_key(at);
		json_t *value = json_object_iter_value(at);
		char *copy = tw_is_printable(name) ? NULL : strdup(name);

		at = json_object_iter_next(object, at);
		if (!copy)
			continue;
		tw_printable(copy);
		json_object_set(object, copy, value);
		json_object_del(object, name);
		free(copy);
		at = json_object_iter(object);
	}
}

void tw_result_printable(json_t *result, bool lines)
{
	const char *name;
	json_t *value;
	size_t k;

	if (json_is_string(result))
		text_printable(result, lines);
	else if (json_is_object(result))
		names_printable(result);
	json_object_foreach(result, name, value) tw_result_printable(value, lines);
	json_array_foreach(result, k, value) tw_result_printable(value, lines);
}
