/* SPDX-License-Identifier: Apache-2.0 */
/* plan_schedule.c - a pipeline's schedule, carried out in time without running the job. */
#include "query/query.h"

#include "base/machine/regular_file.h"
#include "cost/stages.h"
#include "query/schedule_csv.h"
#include "query/stages/stage_times.h"
#include "run/open_engine.h"
#include "spec/field.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PICTURE_WIDE 96 /* letters for the whole time, where moves are not all equally long */
#define PICTURE_MOST 160

/* Lists of all cells, with the room that playing them needs. */
struct stage_play {
	struct tw_job *job;
	struct tw_engine *engine;
	struct tw_schedule_table file; /* where the lists were read */
	struct tw_pipe_move **own;     /* where a schedule made them */
	const struct tw_pipe_move **move;
	size_t *count;
	struct tw_pipe_lists lists;
	struct tw_pipe_times *times;
	struct tw_pipe_when **when;
	struct tw_pipe_cell *cell;
	double *done;
	uint32_t *owner, *depth; /* by stage */
	struct tw_pipe_machines machines;
	double *pairs; /* what `machines` points to */
	struct tw_pipe_played played;
	const char *how; /* where times come from */
};

static enum tw_status no_memory(struct tw_error *why)
{
	return tw_fail(why, TW_NO_MEMORY, "no memory for the schedule");
}

/* --- lists -------------------------------------------------------------------------------- */

static enum tw_status make_lists(struct stage_play *y, uint64_t micros)
{
	const struct tw_plan *p = &y->job->plan;
	const struct tw_pipe_shape shape = tw_plan_pipe_shape(p);

	for (uint32_t c = 0; c < tw_plan_cells(p); c++) {
		const size_t n = tw_pipeline_list(p->staging.schedule, &shape, c, micros, NULL, 0);

		y->own[c] = malloc(n * sizeof *y->own[c]);
		if (!y->own[c])
			return TW_NO_MEMORY;
		tw_pipeline_list(p->staging.schedule, &shape, c, micros, y->own[c], n);
		y->move[c] = y->own[c];
		y->count[c] = n;
	}
	return TW_OK;
}

static bool make_room(struct stage_play *y, uint32_t cells, uint32_t stages, uint64_t micros)
{
	y->own = calloc(cells, sizeof *y->own);
	y->move = calloc(cells, sizeof *y->move);
	y->count = calloc(cells, sizeof *y->count);
	y->when = calloc(cells, sizeof *y->when);
	y->cell = calloc(cells, sizeof *y->cell);
	y->times = calloc(stages, sizeof *y->times);
	y->owner = calloc(stages, sizeof *y->owner);
	y->depth = calloc(stages, sizeof *y->depth);
	y->done = calloc(TW_DEEDS * (size_t)stages, micros * sizeof *y->done);
	y->lists = (struct tw_pipe_lists){ y->move, y->count, cells, stages, micros, NULL };
	return y->own && y->move && y->count && y->when && y->cell && y->times && y->owner &&
	       y->depth && y->done;
}

static void release(struct stage_play *y)
{
	for (uint32_t c = 0; c < y->lists.cells; c++) {
		if (y->own)
			free(y->own[c]);
		if (y->when)
			free(y->when[c]);
	}
	void *const plain[] = { y->own,   y->move,  y->count, y->when,  y->cell,       y->done,
				y->times, y->owner, y->depth, y->pairs, y->machines.by };
	for (size_t k = 0; k < sizeof plain / sizeof plain[0]; k++)
		free(plain[k]);
	tw_schedule_release(&y->file);
}

static void close_job(struct stage_play *y)
{
	if (y->engine)
		y->engine->class->close(y->engine);
	tw_job_free(y->job);
}

/* Micro-batches to show: a group where updates empty the pipeline, else enough to see it full. */
static uint64_t usual_micros(const struct tw_plan *p)
{
	const uint64_t group = p->dealing.accumulate, full = 4 * (uint64_t)tw_plan_cells(p);

	if (p->staging.schedule->traits & TW_PIPELINE_FLUSHES)
		return group;
	return (full + group - 1) / group * group;
}

static enum tw_status lists_of(struct stage_play *y, const struct tw_schedule_request *r,
			       struct tw_error *why)
{
	const struct tw_plan *p = &y->job->plan;
	const uint64_t micros = r->micros ? r->micros : usual_micros(p);
	enum tw_status st;

	if (!*r->read) {
		if (!make_room(y, tw_plan_cells(p), p->staging.stages, micros) ||
		    make_lists(y, micros) != TW_OK)
			return no_memory(why);
		return TW_OK;
	}
	if (tw_plan_cells(p) > p->staging.stages)
		return tw_fail(
			why, TW_BAD_INPUT,
			"--read-csv: the job's stages have several lanes, and in a file each "
			"belongs to one row; use --set cluster.lanes=[]");
	st = tw_schedule_read(r->read, &y->file, why);
	if (st != TW_OK)
		return st;
	if (y->file.stages != p->staging.stages)
		return tw_fail(why, TW_BAD_INPUT,
			       "%.200s: has %u stages, and the job has %u; use --set "
			       "cluster.stages=%u",
			       r->read, y->file.stages, p->staging.stages, y->file.stages);
	if (!make_room(y, y->file.cells, y->file.stages, y->file.micros))
		return no_memory(why);
	for (uint32_t c = 0; c < y->file.cells; c++) {
		y->move[c] = y->file.row[c].move;
		y->count[c] = y->file.row[c].count;
	}
	return TW_OK;
}

/* Whose stage it is (of lanes: the first), and how many micro-batches it has in flight at most. */
static void look_at_lists(struct stage_play *y)
{
	for (uint32_t c = y->lists.cells; c-- > 0;) {
		uint32_t *flying = calloc(y->lists.stages, sizeof *flying);

		for (size_t k = 0; flying && k < y->count[c]; k++) {
			const struct tw_pipe_move *m = &y->move[c][k];

			y->owner[m->stage] = c;
			if (m->deed == TW_FORWARD)
				flying[m->stage]++;
			else if (m->deed == TW_BACKWARD || m->deed == TW_BACKWARD_WEIGHT)
				flying[m->stage]--;
			if (flying[m->stage] > y->depth[m->stage])
				y->depth[m->stage] = flying[m->stage];
		}
		free(flying);
	}
}

/* --- times -------------------------------------------------------------------------------- */

/* A step's time as the flag or the job says it; 0: neither does. */
static enum tw_status step_time(const struct tw_job *job, const struct tw_schedule_request *r,
				double *seconds, struct tw_error *why)
{
	const bool logarithmic = job->sim.law == TW_LAW_LOG_NORMAL;
	const char *path = logarithmic ? "sim.compute.median" : "sim.compute.mean";
	const struct tw_option *row = tw_option_find(tw_sim_rows, path + 4);
	const int64_t given = logarithmic ? job->sim.median : job->sim.mean;
	struct tw_sim_options flag = { 0 };
	struct tw_arena keep;

	*seconds = 0;
	if (*r->compute) {
		enum tw_status st;

		tw_arena_init(&keep, &tw_heap_system);
		st = tw_option_set(row, &flag, r->compute, &keep, NULL);
		tw_arena_release(&keep);
		if (st != TW_OK)
			return tw_fail(why, TW_BAD_INPUT,
				       "--compute: needs a time such as 20ms, not '%.60s'",
				       r->compute);
		*seconds = (double)(logarithmic ? flag.median : flag.mean) * 1e-9;
	} else if (tw_job_given(job, path)) {
		*seconds = (double)given * 1e-9 *
			   (job->sim.per_sample ? (double)tw_job_batch(job) : 1);
	}
	return TW_OK;
}

/* What unequal machines and the links between them do to times. */
static enum tw_status price_machines(struct stage_play *y, struct tw_error *why)
{
	const struct tw_sim_options *sim = &y->job->sim;
	const uint32_t n = y->lists.cells;
	double *speed, *latency, *per_byte;

	if (!sim->machines.count)
		return TW_OK;
	if (sim->machines.count != n)
		return tw_fail(why, TW_BAD_INPUT,
			       "--read-csv: the file has %u rows, and sim.nodes %u nodes; leave "
			       "these out with --set sim.nodes=[]",
			       n, sim->machines.count);
	y->pairs = calloc((2 + 2 * (size_t)n) * n, sizeof *y->pairs);
	y->machines.by = calloc(y->lists.stages * y->lists.micros, sizeof *y->machines.by);
	if (!y->pairs || !y->machines.by)
		return no_memory(why);
	speed = y->pairs;
	latency = speed + n;
	per_byte = latency + (size_t)n * n;
	for (uint32_t a = 0; a < n; a++) {
		const struct tw_machine *m = &sim->machines.at[a];

		speed[a] = m->speed;
		for (uint32_t b = 0; b < n; b++) {
			const struct tw_machine *to = &sim->machines.at[b];

			latency[a * n + b] = (double)tw_sim_latency(sim, m, to) * 1e-9;
			per_byte[a * n + b] = tw_sim_per_byte(sim, m, to);
		}
	}
	for (uint32_t s = 0; s < y->lists.stages; s++)
		y->times[s].forward_link = y->times[s].backward_link = 0;
	y->machines.speed = speed;
	y->machines.latency = latency;
	y->machines.per_byte = per_byte;
	/* updates take no time here */
	y->machines.push = y->machines.answer = per_byte + (size_t)n * n;
	y->lists.machines = &y->machines;
	return TW_OK;
}

static enum tw_status price(struct stage_play *y, const struct tw_schedule_request *r,
			    struct tw_error *why)
{
	const struct tw_plan *p = &y->job->plan;
	const struct tw_sim_options *sim = &y->job->sim;
	double step;
	enum tw_status st = step_time(y->job, r, &step, why);

	y->how = *r->compute ? "given" : step > 0 ? "sim.compute" : "measured";
	if (st == TW_OK && step == 0)
		st = tw_stage_times(p, y->engine, tw_job_batch(y->job), 15, y->times, why);
	for (uint32_t s = 0; st == TW_OK && s < p->staging.stages; s++) {
		const struct tw_stage *t = &p->staging.stage[s];
		const double per_byte = sim->bandwidth > 0 ? 8 / sim->bandwidth : 0;
		struct tw_pipe_times *at = &y->times[s];

		if (step > 0) {
			at->deed[TW_FORWARD] = step * t->forward;
			at->deed[TW_BACKWARD] = step * t->backward;
		}
		at->deed[TW_BACKWARD_INPUT] = at->deed[TW_BACKWARD_WEIGHT] =
			at->deed[TW_BACKWARD] / 2;
		at->forward_link = (double)sim->latency * 1e-9 + (double)t->send_bytes * per_byte;
		at->backward_link =
			(double)sim->latency * 1e-9 + (double)t->return_bytes * per_byte;
		at->forward_bytes = (double)t->send_bytes;
		at->backward_bytes = (double)t->return_bytes;
	}
	return st == TW_OK ? price_machines(y, why) : st;
}

static enum tw_status play(struct stage_play *y, struct tw_error *why)
{
	for (uint32_t c = 0; c < y->lists.cells; c++) {
		y->when[c] = calloc(y->count[c], sizeof *y->when[c]);
		if (!y->when[c])
			return no_memory(why);
	}
	return tw_pipeline_play(&y->lists, y->times, y->done, y->cell, y->when, &y->played, NULL,
				why);
}

/* --- the answer --------------------------------------------------------------------------- */

static char letter_of(const struct tw_pipe_move *m)
{
	const char digit = (char)(m->micro % 10);

	switch (m->deed) {
	case TW_FORWARD:
		return (char)('0' + digit);
	case TW_BACKWARD_WEIGHT:
		return (char)('A' + digit);
	default:
		return (char)('a' + digit);
	}
}

/* Letters for the whole time: one per move where all take equally long, or the shortest of them
 * does and the picture stays narrow. */
static unsigned picture_width(const struct stage_play *y)
{
	double shortest = y->played.makespan;

	for (uint32_t s = 0; s < y->lists.stages; s++)
		for (int d = 0; d < 2; d++)
			if (y->times[s].deed[d] > 0)
				shortest = fmin(shortest, y->times[s].deed[d]);
	if (shortest > 0 && y->played.makespan / shortest <= PICTURE_MOST)
		return (unsigned)lround(y->played.makespan / shortest);
	return PICTURE_WIDE;
}

/* Time across, cells down: what each cell does in the middle of each letter's time. */
static json_t *picture(const struct stage_play *y)
{
	const unsigned wide = picture_width(y);
	json_t *lines = json_array();
	char line[PICTURE_MOST + 1];

	for (uint32_t c = 0; c < y->lists.cells; c++) {
		memset(line, '.', wide);
		line[wide] = '\0';
		for (size_t k = 0; k < y->count[c]; k++) {
			const struct tw_pipe_when *w = &y->when[c][k];

			for (unsigned i = 0; i < wide; i++) {
				const double at = (i + 0.5) * y->played.makespan / wide;

				if (y->move[c][k].deed != TW_UPDATE && at >= w->from && at < w->to)
					line[i] = letter_of(&y->move[c][k]);
			}
		}
		json_array_append_new(lines, json_string(line));
	}
	return lines;
}

/* Share of the time in which the cells of a stage idle. */
static double idle_of(const struct stage_play *y, uint32_t stage, uint32_t lanes)
{
	double busy = 0;

	for (uint32_t l = 0; l < lanes; l++)
		busy += y->cell[y->owner[stage] + l].busy;
	return 1 - busy / (lanes * y->played.makespan);
}

static json_t *row_of(const struct stage_play *y, bool file, uint32_t s)
{
	const struct tw_plan *p = &y->job->plan;
	const struct tw_stage *t = &p->staging.stage[s];
	const struct tw_pipe_times *at = &y->times[s];
	struct tw_plan own = *p;
	struct tw_stage stage[64];
	struct tw_stage_memory m;
	const char *after = y->engine->cut[t->last].after;

	/* the lists of a file decide what is kept; they read one version */
	memcpy(stage, p->staging.stage, p->staging.stages * sizeof *stage);
	own.staging.stage = stage;
	if (file)
		stage[s].keeps = (struct tw_pipe_keeps){ .depth = y->depth[s], .versions = 1 };
	m = tw_cost_stage_memory(&own, s);
	return json_pack(
		"{s:I, s:I, s:I, s:s, s:I, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:f, s:f, s:f, "
		"s:f, s:f, s:f}",
		"stage", (json_int_t)s, "cell", (json_int_t)y->owner[s], "lanes",
		(json_int_t)t->lanes, "cut_after", after, "parameters", (json_int_t)t->floats,
		"forward_seconds", at->deed[TW_FORWARD], "backward_seconds", at->deed[TW_BACKWARD],
		"sent_forward_bytes", (double)t->send_bytes, "sent_backward_bytes",
		(double)t->return_bytes, "in_flight", (json_int_t)stage[s].keeps.depth, "versions",
		(json_int_t)stage[s].keeps.versions, "staleness", (json_int_t)stage[s].keeps.late,
		"mismatch", (json_int_t)stage[s].keeps.mismatch, "idle_share",
		idle_of(y, s, t->lanes), "memory_bytes", tw_stage_memory_sum(&m), "versions_bytes",
		m.versions, "activations_bytes", m.activations, "gradients_bytes", m.gradients,
		"scratch_bytes", m.scratch);
}

static enum tw_status answer(const struct stage_play *y, const struct tw_schedule_request *r,
			     json_t **out, struct tw_error *why)
{
	const struct tw_plan *p = &y->job->plan;
	const double samples = (double)y->lists.micros * tw_job_batch(y->job);
	json_t *rows = json_array();

	for (uint32_t s = 0; s < y->lists.stages; s++)
		json_array_append_new(rows, row_of(y, *r->read, s));
	*out = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:f, s:f, s:f, s:o, s:o}", "job",
			 y->job->file, "schedule", *r->read ? r->read : p->staging.schedule->name,
			 "stages", (json_int_t)y->lists.stages, "cells", (json_int_t)y->lists.cells,
			 "accumulate", (json_int_t)p->dealing.accumulate, "micro_batches",
			 (json_int_t)y->lists.micros, "batch", (json_int_t)tw_job_batch(y->job),
			 "times", y->how, "makespan_seconds", y->played.makespan, "bubble",
			 y->played.bubble, "samples_per_second",
			 y->played.makespan > 0 ? samples / y->played.makespan : 0, "rows", rows,
			 "picture", picture(y));
	return *out ? TW_OK : no_memory(why);
}

static enum tw_status write_lists(const struct stage_play *y, const char *path,
				  struct tw_error *why)
{
	FILE *f = tw_regular_stream(path, "w");
	enum tw_status st;

	if (!f)
		return tw_fail(why, TW_BAD_INPUT, "--write-csv: %.200s cannot be opened: %s", path,
			       tw_cause(errno));
	st = tw_schedule_write(&y->lists, f);
	if (fclose(f) != 0 || st != TW_OK)
		return tw_fail(why, TW_IO, "--write-csv: %.200s cannot be written: %s", path,
			       strerror(errno));
	return TW_OK;
}

static enum tw_status open_job(struct stage_play *y, const struct tw_schedule_request *r,
			       struct tw_error *why)
{
	enum tw_status st = tw_query_job(r->path, &r->words, &y->job, why);

	if (st == TW_OK && !tw_plan_is_staged(&y->job->plan))
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: the job has no stages to schedule; use --set "
			       "strategy.pipeline=NAME and --set cluster.stages=K (thalweg help "
			       "strategies lists the pipelines)",
			       y->job->file);
	if (st == TW_OK)
		st = tw_job_open_engine(y->job, &tw_heap_system, &y->engine, why);
	return st == TW_OK ? tw_job_finish_plan(y->job, y->engine, why) : st;
}

enum tw_status tw_query_schedule(const struct tw_schedule_request *r, json_t **out,
				 struct tw_error *why)
{
	struct stage_play y = { 0 };
	enum tw_status st = TW_OK;

	if (r->job) {
		y.job = r->job;
		y.engine = r->engine;
	} else {
		st = open_job(&y, r, why);
	}
	if (st == TW_OK)
		st = lists_of(&y, r, why);
	if (st == TW_OK)
		st = price(&y, r, why);
	if (st == TW_OK)
		st = play(&y, why);
	if (st == TW_OK) {
		look_at_lists(&y);
		st = answer(&y, r, out, why);
	}
	if (st == TW_OK && *r->write) {
		st = write_lists(&y, r->write, why);
		if (st != TW_OK)
			json_decref(*out);
	}
	release(&y);
	if (!r->job)
		close_job(&y);
	return st;
}
