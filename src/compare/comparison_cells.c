/* SPDX-License-Identifier: Apache-2.0 */
/* comparison_cells.c - the cells of all rows: each is read, and its plan made, before any runs. */
#include "compare/comparison_inner.h"

#include "base/grow.h"
#include "run/open_engine.h"
#include "spec/field.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVALUATIONS 20 /* of a run whose job does not say how often */
#define CHANGES     16 /* that a cell has beyond its row's, beside tuned values */

/* --- engines: opened for what they are, not for every cell --- */

struct bench {
	struct tw_engine *engine; /* of the last job that needed another one */
	char *key;
	struct tw_sha data;
	bool accurate;
};

static void bench_close(struct bench *b)
{
	if (b->engine)
		b->engine->class->close(b->engine);
	free(b->key);
	*b = (struct bench){ 0 };
}

/* The sections that say what is computed. */
static char *engine_key(const char *text)
{
	static const char *const sections[] = { "data:", "model:", "loss:" };
	char *key = strdup(text), *to = key;
	bool inside = false;

	if (!key)
		return NULL;
	for (const char *line = text, *end; *line; line = end) {
		end = strchr(line, '\n');
		end = end ? end + 1 : line + strlen(line);
		if (*line != ' ') {
			inside = false;
			for (size_t k = 0; k < 3; k++)
				inside |= strncmp(line, sections[k], strlen(sections[k])) == 0;
		}
		if (inside) {
			memcpy(to, line, (size_t)(end - line));
			to += end - line;
		}
	}
	*to = '\0';
	return key;
}

static enum tw_status open_engine(const struct tw_job *job, struct bench *b, struct tw_error *why)
{
	struct tw_data *data = NULL;
	enum tw_status st;

	if (job->model != TW_MODEL_NETWORK)
		return tw_job_open_engine(job, &tw_heap_system, &b->engine, why);
	st = tw_job_open_data(job, &tw_heap_system, &data, why);
	if (st != TW_OK)
		return st;
	b->data = data->fingerprint;
	b->accurate = data->classes > 0 && job->data.predict == TW_PREDICT_LABEL;
	return tw_job_open_network_on(job, &tw_heap_system, data, NULL, NULL, &b->engine, why);
}

/* What needs the engine: the plan, and what its checks refuse. */
static enum tw_status finish(struct tw_job *job, struct bench *b, struct tw_error *why)
{
	char *text, *key = NULL;
	size_t bytes;
	enum tw_status st = tw_job_text(job, &text, &bytes);

	if (st == TW_OK)
		key = engine_key(text);
	free(text);
	if (!key)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the comparison");
	if (!b->key || strcmp(b->key, key) != 0) {
		bench_close(b);
		st = open_engine(job, b, why);
		b->key = key;
		key = NULL;
	}
	free(key);
	return st == TW_OK ? tw_job_finish_plan(job, b->engine, why) : st;
}

/* --- changes --- */

struct changes {
	struct tw_job_change *at;
	size_t count;
};

static enum tw_status change(struct tw_compare_reading *r, struct changes *c, const char *path,
			     const char *text)
{
	struct tw_tree *node = tw_compare_node(r, text);

	if (!node)
		return tw_compare_no_memory(r);
	c->at[c->count++] = (struct tw_job_change){ path, node };
	return TW_OK;
}

/* A curve needs more than its end: how many epochs apart the evaluations of a run are whose job
 * does not say so; 0: as the job has it.  `job` has its plan. */
static double evaluations_apart(const struct tw_job *job)
{
	const double length = job->update.schedule.epochs; /* 0: only time ends the run */
	double apart = length / EVALUATIONS;

	if (tw_job_given(job, "train.evaluate") || tw_plan_optimises(&job->plan))
		return 0;
	if (!(length > 0))
		return 1;
	if (!job->data.from && apart * (double)job->data.samples < tw_job_batch(job))
		apart = (double)tw_job_batch(job) / (double)job->data.samples;
	return apart;
}

/* `apart`: of evaluations_apart; 0 leaves them as they are. */
static enum tw_status changes_of(struct tw_compare_reading *r, const struct tw_job *base,
				 const struct tw_compare_cell *cell, double apart,
				 struct changes *c)
{
	const struct tw_comparison *k = r->c;
	enum tw_status st;
	char text[40];

	c->count = 0;
	for (size_t t = 0; t < k->tunes; t++) {
		const size_t v = tw_comparison_value(k, cell->combination, t);

		c->at[c->count++] =
			(struct tw_job_change){ k->tune[t].path, k->tune[t].value[v].node };
	}
	snprintf(text, sizeof text, "%llu", (unsigned long long)cell->seed);
	st = change(r, c, "train.seed", text);
	snprintf(text, sizeof text, "%llu/%u",
		 (unsigned long long)(cell->seed - base->train.seed + 1), k->options.folds);
	if (st == TW_OK && k->options.folds)
		st = change(r, c, "data.fold", text);
	snprintf(text, sizeof text, "%.6g", apart);
	if (st == TW_OK && apart > 0)
		st = change(r, c, "train.evaluate", text);
	if (st != TW_OK || !cell->tuning || !base->data.from)
		return st;
	st = change(r, c, "data.evaluate", "validation");
	snprintf(text, sizeof text, "%.9g", k->options.validation);
	if (st == TW_OK && base->data.set.validation == 0)
		st = change(r, c, "data.validation", text);
	return st;
}

/* --- one cell --- */

static enum tw_status hash(const struct tw_comparison *c, const struct bench *b,
			   struct tw_compare_cell *cell)
{
	struct tw_sha_run run;

	tw_sha_init(&run);
	tw_sha_update(&run, tw_compare_worlds[c->world], strlen(tw_compare_worlds[c->world]) + 1);
	tw_sha_update(&run, c->isa, strlen(c->isa) + 1);
	tw_sha_update(&run, &c->program, sizeof c->program);
	tw_sha_update(&run, &b->data, sizeof b->data);
	tw_sha_update(&run, cell->text, strlen(cell->text));
	return tw_sha_final(&run, &cell->key);
}

static void log_warnings(struct tw_compare_reading *r, const struct tw_job *job)
{
	for (size_t k = 0; k < job->warnings; k++) {
		size_t i = 0;

		while (i < r->warnings && strcmp(r->warning[i], job->warning[k]) != 0)
			i++;
		if (i < r->warnings)
			continue;
		if (!TW_GROW_IN(&r->c->arena, r->warning, r->warning_room, r->warnings,
				r->warnings + 1) ||
		    !(r->warning[r->warnings] = tw_arena_text(&r->c->arena, job->warning[k])))
			return;
		r->warnings++;
		tw_log_line(r->q.log, TW_WARNING, "", "%s", job->warning[k]);
	}
}

/* The job of a cell with its plan: only then every field has the value that the run has.  The
 * caller's. */
static enum tw_status cell_job(struct tw_compare_reading *r, const struct tw_compare_row *row,
			       const struct tw_job *base, const struct tw_compare_cell *cell,
			       double apart, struct bench *b, struct tw_job **out)
{
	struct changes c = { tw_arena_get(&r->c->arena,
					  (r->c->tunes + CHANGES) * sizeof(struct tw_job_change)) };
	enum tw_status st = c.at ? TW_OK : tw_compare_no_memory(r);

	if (st == TW_OK)
		st = changes_of(r, base, cell, apart, &c);
	if (st == TW_OK)
		st = tw_compare_job(r, row, c.at, c.count, out, r->why);
	return st == TW_OK ? finish(*out, b, r->why) : st;
}

static enum tw_status make_cell(struct tw_compare_reading *r, struct tw_compare_row *row,
				const struct tw_job *base, struct bench *b,
				struct tw_compare_cell *cell)
{
	struct tw_job *job = NULL;
	enum tw_status st = cell_job(r, row, base, cell, row->apart, b, &job);
	char *text = NULL;
	size_t bytes;

	if (st == TW_OK)
		log_warnings(r, job);
	if (st == TW_OK && tw_job_text(job, &text, &bytes) != TW_OK)
		st = tw_compare_no_memory(r);
	if (st == TW_OK) {
		cell->text = tw_arena_text(&r->c->arena, text);
		st = cell->text ? hash(r->c, b, cell) : tw_compare_no_memory(r);
		row->accurate = b->accurate;
		row->effort = r->c->world == TW_COMPARE_SIM &&
			      (job->sim.by_label.count || job->sim.by_sample.count);
	}
	free(text);
	tw_job_free(job);
	return st;
}

/* --- the cells of a row --- */

/* How far apart the evaluations of all its runs are: as its first one needs it. */
static enum tw_status measure_length(struct tw_compare_reading *r, struct tw_compare_row *row,
				     const struct tw_job *base, size_t combination, struct bench *b)
{
	const struct tw_compare_cell first = { .combination = combination,
					       .seed = base->train.seed };
	struct tw_job *job = NULL;
	const enum tw_status st = cell_job(r, row, base, &first, 0, b, &job);

	row->apart = st == TW_OK ? evaluations_apart(job) : 0;
	tw_job_free(job);
	return st;
}

/* `n` runs with seeds from `seed` on. */
static enum tw_status make_runs(struct tw_compare_reading *r, struct tw_compare_row *row,
				const struct tw_job *base, const struct tw_compare_cell *first,
				size_t n, struct bench *b, struct tw_compare_cell **out)
{
	struct tw_compare_cell *cell = tw_arena_get(&r->c->arena, (n + 1) * sizeof *cell);
	enum tw_status st = cell ? TW_OK : tw_compare_no_memory(r);

	for (size_t k = 0; k < n && st == TW_OK; k++) {
		cell[k] = *first;
		cell[k].seed += k;
		st = make_cell(r, row, base, b, &cell[k]);
	}
	*out = cell;
	return st;
}

/* b: for tuning, and for the comparison. */
static enum tw_status make_try(struct tw_compare_reading *r, struct tw_compare_row *row,
			       const struct tw_job *base, size_t combination, struct bench *b)
{
	const struct tw_comparison *c = r->c;
	struct tw_compare_try one = { .combination = combination };
	struct tw_compare_cell first = {
		.row = (size_t)(row - c->row),
		.combination = combination,
		.seed = base->train.seed,
	};
	enum tw_status st = make_runs(r, row, base, &first, c->options.seeds, &b[1], &one.final);

	first.tuning = true;
	first.seed += TW_COMPARE_TUNE_SEED;
	if (st == TW_OK && tw_comparison_tunes(c))
		st = make_runs(r, row, base, &first, c->options.tune_seeds, &b[0], &one.tuning);
	if (st == TW_OK)
		row->try_[row->tries++] = one;
	return st;
}

static bool make_room(struct tw_compare_reading *r, struct tw_compare_row *row, size_t n)
{
	return TW_GROW_IN(&r->c->arena, row->try_, row->room, row->tries, row->tries + n);
}

/* Number k of those that were given, among all. */
static size_t given(const struct tw_comparison *c, size_t k)
{
	size_t combination = 0;

	for (size_t t = c->tunes; t-- > 0; k /= c->tune[t].given)
		combination = tw_comparison_with(c, combination, t,
						 c->tune[t].first + k % c->tune[t].given);
	return combination;
}

static enum tw_status make_row(struct tw_compare_reading *r, struct tw_compare_row *row,
			       struct bench *b)
{
	struct tw_comparison *c = r->c;
	struct tw_job *base = NULL;
	enum tw_status st = tw_compare_job(r, row, NULL, 0, &base, r->why);

	if (st == TW_OK && !make_room(r, row, c->combinations))
		st = tw_compare_no_memory(r);
	if (st == TW_OK)
		st = measure_length(r, row, base, given(c, 0), &b[1]);
	for (size_t k = 0; k < c->combinations && st == TW_OK; k++)
		st = make_try(r, row, base, given(c, k), b);
	tw_job_free(base);
	return st;
}

static enum tw_status widen_row(struct tw_compare_reading *r, const struct tw_compare_wish *wish,
				struct bench *b)
{
	struct tw_compare_row *row = &r->c->row[wish->row];
	struct tw_error said = { 0 };
	struct tw_error *const why = r->why;
	struct tw_job *base = NULL;
	enum tw_status st = TW_OK;

	if (!make_room(r, row, 1))
		return tw_compare_no_memory(r);
	r->why = &said;
	st = tw_compare_job(r, row, NULL, 0, &base, r->why);
	if (st == TW_OK)
		st = make_try(r, row, base, wish->combination, b);
	r->why = why;
	tw_job_free(base);
	if (st == TW_BAD_INPUT) {
		row->try_[row->tries++] = (struct tw_compare_try){
			.combination = wish->combination,
			.refused = tw_arena_text(&r->c->arena, said.text),
		};
		return TW_OK;
	}
	return st == TW_OK ? st : tw_fail(why, st, "%s", said.text);
}

enum tw_status tw_comparison_widen(struct tw_comparison *c, const struct tw_compare_wish *wish,
				   size_t n, struct tw_error *why)
{
	struct bench b[2] = { { 0 } };
	enum tw_status st = TW_OK;

	c->reading->why = why;
	for (size_t k = 0; k < n && st == TW_OK; k++)
		st = widen_row(c->reading, &wish[k], b);
	bench_close(&b[0]);
	bench_close(&b[1]);
	return st;
}

/* --- what is measured --- */

static bool has_target(const struct tw_comparison *c)
{
	if (!isnan(c->options.target_loss) || !isnan(c->options.target_accuracy))
		return true;
	for (size_t k = 0; k < c->rows; k++)
		if (isnan(c->row[k].until_loss) && isnan(c->row[k].until_accuracy))
			return false;
	return true;
}

static enum tw_status check_measure(struct tw_compare_reading *r)
{
	struct tw_comparison *c = r->c;
	const struct tw_job *base = r->file[r->owner].base;
	const char *name = tw_compare_measures[c->options.measure];
	bool accurate = true, effort = true;

	for (size_t k = 0; k < c->rows; k++) {
		accurate &= c->row[k].accurate;
		effort &= c->row[k].effort;
	}
	if (strcmp(name, "effort") == 0 && !effort)
		return tw_job_refuse(base, r->why, "compare.measure",
				     "effort is measured only by sim with sim.compute.by_label or "
				     "by_sample; give one of these, or use another measure");
	if (strncmp(name, "accuracy", 8) == 0 && !accurate)
		return tw_job_refuse(base, r->why, "compare.measure",
				     "this task has no accuracy; use loss, or leave it out");
	if (!isnan(c->options.target_accuracy) && !accurate)
		return tw_job_refuse(base, r->why, "compare.target.accuracy",
				     "this task has no accuracy; use target: {loss: 0.1}");
	if (strncmp(name, "time", 4) == 0 && !has_target(c))
		return tw_job_refuse(base, r->why, "compare.measure",
				     "there is no target; give compare: {target: {loss: 0.1}} (or "
				     "accuracy), or train: {until: ...}");
	c->measure = c->options.measure;
	if (!c->measure)
		c->measure = tw_compare_measure(has_target(c) ? "time-to-target"
						: accurate    ? "accuracy"
							      : "loss");
	return TW_OK;
}

/* --- settings that differ --- */

struct setting {
	const char *path, *text;
};
struct settings {
	struct setting *at;
	size_t count;
};

/* Not what a row is anyway: its seed, what is tuned, and what only says how to compare. */
static bool interesting(const struct tw_comparison *c, const struct tw_field *f)
{
	if (f->silent || strncmp(f->path, "compare.", 8) == 0 || strcmp(f->path, "train.seed") == 0)
		return false;
	for (size_t k = 0; k < c->tunes; k++)
		if (strcmp(c->tune[k].path, f->path) == 0)
			return false;
	return true;
}

static enum tw_status read_settings(struct tw_compare_reading *r, const struct tw_compare_row *row,
				    struct settings *out)
{
	struct tw_job *job = NULL;
	enum tw_status st = tw_compare_job(r, row, NULL, 0, &job, r->why);

	if (st != TW_OK)
		return st;
	out->at = tw_arena_get(&r->c->arena, (job->fields + 1) * sizeof *out->at);
	for (size_t k = 0; out->at && k < job->fields; k++) {
		const struct tw_field *f = &job->field[k];

		if (interesting(r->c, f))
			out->at[out->count++] = (struct setting){
				tw_arena_text(&r->c->arena, f->path),
				tw_field_text(f->row, f->base, &r->c->arena),
			};
	}
	tw_job_free(job);
	return out->at ? TW_OK : tw_compare_no_memory(r);
}

static const char *setting_of(const struct settings *s, const char *path)
{
	for (size_t k = 0; k < s->count; k++)
		if (s->at[k].path && strcmp(s->at[k].path, path) == 0)
			return s->at[k].text;
	return NULL;
}

static bool differs(const struct settings *all, size_t rows, const char *path)
{
	const char *first = setting_of(&all[0], path);

	for (size_t k = 1; k < rows; k++) {
		const char *text = setting_of(&all[k], path);

		if (!first != !text || (first && strcmp(first, text) != 0))
			return true;
	}
	return false;
}

static bool known(const struct tw_comparison *c, const char *path)
{
	for (size_t k = 0; k < c->differing; k++)
		if (strcmp(c->differs[k], path) == 0)
			return true;
	return false;
}

static enum tw_status find_settings(struct tw_compare_reading *r)
{
	struct tw_comparison *c = r->c;
	struct settings *all = tw_arena_get(&c->arena, c->rows * sizeof *all);
	enum tw_status st = all ? TW_OK : tw_compare_no_memory(r);
	size_t most = 0;

	for (size_t k = 0; k < c->rows && st == TW_OK; k++) {
		st = read_settings(r, &c->row[k], &all[k]);
		most += all[k].count;
	}
	if (st == TW_OK && !(c->differs = tw_arena_get(&c->arena, (most + 1) * sizeof(char *))))
		st = tw_compare_no_memory(r);
	for (size_t k = 0; k < c->rows && st == TW_OK; k++)
		for (size_t i = 0; i < all[k].count; i++) {
			const char *path = all[k].at[i].path;

			if (path && !known(c, path) && differs(all, c->rows, path))
				c->differs[c->differing++] = path;
		}
	for (size_t k = 0; k < c->rows && st == TW_OK; k++) {
		c->row[k].setting = tw_arena_get(&c->arena, (c->differing + 1) * sizeof(char *));
		if (!c->row[k].setting)
			return tw_compare_no_memory(r);
		for (size_t i = 0; i < c->differing; i++)
			c->row[k].setting[i] = setting_of(&all[k], c->differs[i]);
	}
	return st;
}

enum tw_status tw_compare_make_cells(struct tw_compare_reading *r)
{
	struct bench b[2] = { { 0 } }; /* for tuning, and for the comparison */
	enum tw_status st = TW_OK;

	for (size_t k = 0; k < r->c->rows && st == TW_OK; k++)
		st = make_row(r, &r->c->row[k], b);
	bench_close(&b[0]);
	bench_close(&b[1]);
	if (st == TW_OK)
		st = check_measure(r);
	return st == TW_OK ? find_settings(r) : st;
}
