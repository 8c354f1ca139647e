/* SPDX-License-Identifier: Apache-2.0 */
/* part_times.c - a profile: passes of every part of a model, timed, and the file that has them. */
#include "query/stages/part_times.h"

#include "base/json.h"
#include "base/machine/regular_file.h"
#include "query/stages/stage_times.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RUNS_LEAST 15

static double coded(const struct tw_plan *p, size_t floats)
{
	return floats ? (double)p->traffic.act->bound(p->traffic.act_options, floats) : 0;
}

/* Stages of one part each, as far as their passes need them. */
static enum tw_status stages_of(const struct tw_engine *e, uint32_t batch, struct tw_stage *out,
				struct tw_error *why)
{
	for (uint32_t k = 0; k + 1 < e->cuts; k++) {
		struct tw_needs needs = { 0 };

		if (e->class->needs(e, k, k + 1, batch, &needs) != TW_OK)
			return tw_fail(why, TW_NO_MEMORY,
				       "no memory to prepare the model's part after layer '%s'",
				       e->cut[k].after);
		out[k] = (struct tw_stage){
			.first = k,
			.last = k + 1,
			.sends = k + 2 < e->cuts ? tw_model_cut_floats(&e->cut[k + 1], batch, false)
						 : 0,
			.returns = k ? tw_model_cut_floats(&e->cut[k], batch, true) : 0,
			.stash = needs.stash,
			.scratch = needs.scratch,
		};
	}
	return TW_OK;
}

enum tw_status tw_part_times_init(struct tw_part_times *t, const struct tw_job *job,
				  const struct tw_engine *e, struct tw_error *why)
{
	const uint32_t parts = (uint32_t)e->cuts - 1;
	struct tw_stage *stage = calloc(parts, sizeof *stage);
	enum tw_status st;

	*t = (struct tw_part_times){ .parts = parts, .batch = tw_job_batch(job) };
	t->part = calloc(parts, sizeof *t->part);
	t->border = calloc(parts, sizeof *t->border);
	st = stage && t->part && t->border ? stages_of(e, t->batch, stage, why)
					   : tw_fail(why, TW_NO_MEMORY, "no memory for a profile");
	for (uint32_t k = 0; st == TW_OK && k < parts; k++) {
		const struct tw_model_cut *a = &e->cut[k], *b = a + 1;
		const size_t floats = b->trainable - a->trainable + b->buffers - a->buffers;

		t->part[k] = (struct tw_planner_part){
			.bytes = (double)(floats * sizeof(float)),
			.stash = (double)stage[k].stash,
			.scratch = (double)stage[k].scratch,
			.counts = floats > 0,
		};
		if (k + 1 < parts)
			t->border[k] = (struct tw_planner_border){
				coded(&job->plan, tw_model_cut_floats(b, t->batch, false)),
				coded(&job->plan, tw_model_cut_floats(b, t->batch, true)),
			};
	}
	free(stage);
	return st;
}

void tw_part_times_release(struct tw_part_times *t)
{
	free(t->part);
	free(t->border);
}

enum tw_status tw_part_times_measure(struct tw_part_times *t, const struct tw_engine *e,
				     struct tw_error *why)
{
	struct tw_stage *stage = calloc(t->parts, sizeof *stage);
	struct tw_pipe_times *times = calloc(t->parts, sizeof *times);
	enum tw_status st = stage && times ? stages_of(e, t->batch, stage, why)
					   : tw_fail(why, TW_NO_MEMORY, "no memory for a profile");

	if (st == TW_OK)
		st = tw_pass_times(stage, t->parts, e, t->batch, RUNS_LEAST, times, why);
	for (uint32_t k = 0; st == TW_OK && k < t->parts; k++) {
		t->part[k].forward = times[k].deed[TW_FORWARD];
		t->part[k].backward = times[k].deed[TW_BACKWARD];
	}
	free(times);
	free(stage);
	return st;
}

void tw_part_times_flops(struct tw_part_times *t, const struct tw_engine *e, double seconds,
			 double backward)
{
	const double all = e->cut[t->parts].flops;

	for (uint32_t k = 0; k < t->parts; k++) {
		const double share =
			all > 0 ? (e->cut[k + 1].flops - e->cut[k].flops) / all : 1.0 / t->parts;

		t->part[k].forward = seconds * share / (1 + backward);
		t->part[k].backward = t->part[k].forward * backward;
	}
}

/* --- the file -------------------------------------------------------------------------------- */

static const char *name_of(const struct tw_engine *e, uint32_t part)
{
	return part + 2 < e->cuts ? e->cut[part + 1].after : "end";
}

enum tw_status tw_part_times_write(const struct tw_part_times *t, const struct tw_engine *e,
				   const char *path, struct tw_error *why)
{
	json_t *list = json_array();
	json_t *o = json_pack("{s:i, s:I, s:I, s:O}", "thalweg_profile", 1, "batch",
			      (json_int_t)t->batch, "parameters",
			      (json_int_t)(e->trainable + e->buffers), "parts", list);
	FILE *f;
	bool good = o;

	for (uint32_t k = 0; k < t->parts; k++)
		json_array_append_new(
			list, json_pack("{s:s, s:f, s:f, s:f, s:f, s:f}", "up_to_layer",
					name_of(e, k), "forward_seconds", t->part[k].forward,
					"backward_seconds", t->part[k].backward, "activation_bytes",
					t->border[k].forward, "gradient_bytes",
					t->border[k].backward, "weight_bytes", t->part[k].bytes));
	f = good ? tw_regular_stream(path, "w") : NULL;
	if (good && !f)
		tw_fail(why, TW_BAD_INPUT, "--profile: %.200s cannot be written: %s", path,
			tw_cause(errno));
	if (f) {
		good = json_dumpf(o, f, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0 &&
		       fputc('\n', f) != EOF;
		good = fclose(f) == 0 && good;
		if (!good)
			tw_fail(why, TW_IO, "--profile: %.200s cannot be written: %s", path,
				strerror(errno));
	}
	json_decref(list);
	json_decref(o);
	return good && f ? TW_OK : why->status;
}

static enum tw_status refuse(const char *path, const char *reason, struct tw_error *why)
{
	return tw_fail(
		why, TW_BAD_INPUT,
		"--profile: %.200s %s; name a file that is not there yet, and it is measured "
		"and written",
		path, reason);
}

static enum tw_status take(struct tw_part_times *t, const struct tw_engine *e, const json_t *o,
			   const char *path, struct tw_error *why)
{
	const json_t *list = json_object_get(o, "parts");
	char text[200];

	if (tw_whole_at(o, "thalweg_profile") != 1 || !json_is_array(list))
		return refuse(path, "is no profile", why);
	if (json_array_size(list) != t->parts ||
	    tw_count_at(o, "parameters") != e->trainable + e->buffers)
		return refuse(path, "is the profile of another model", why);
	if (tw_count_at(o, "batch") != t->batch) {
		snprintf(text, sizeof text,
			 "was measured with %zu samples, and the job's batch has %u",
			 tw_count_at(o, "batch"), t->batch);
		return refuse(path, text, why);
	}
	for (uint32_t k = 0; k < t->parts; k++) {
		const json_t *one = json_array_get(list, k);
		const json_t *forward = json_object_get(one, "forward_seconds");
		const json_t *backward = json_object_get(one, "backward_seconds");

		if (strcmp(tw_text_at(one, "up_to_layer"), name_of(e, k)) != 0)
			return refuse(path, "is the profile of another model", why);
		if (!json_is_number(forward) || !json_is_number(backward) ||
		    !(json_number_value(forward) >= 0) || !(json_number_value(backward) >= 0)) {
			snprintf(text, sizeof text,
				 "has no forward_seconds and backward_seconds, numbers from 0 on, "
				 "for its part number %u",
				 k);
			return refuse(path, text, why);
		}
		t->part[k].forward = json_number_value(forward);
		t->part[k].backward = json_number_value(backward);
	}
	return TW_OK;
}

enum tw_status tw_part_times_read(struct tw_part_times *t, const struct tw_engine *e,
				  const char *path, struct tw_error *why)
{
	json_error_t where;
	json_t *o;
	FILE *f;
	int fd;
	enum tw_status st;

	if (access(path, F_OK) != 0 && errno == ENOENT)
		return TW_ABSENT;
	fd = tw_regular_input(path);
	f = fd < 0 ? NULL : fdopen(fd, "r");
	if (!f)
		return tw_fail(why, TW_BAD_INPUT, "--profile: %.200s cannot be read: %s", path,
			       tw_cause(errno));
	o = json_loadf(f, 0, &where);
	fclose(f);
	if (!o)
		return refuse(path, "is no profile: it is not JSON", why);
	st = take(t, e, o, path, why);
	json_decref(o);
	return st;
}
