/* SPDX-License-Identifier: Apache-2.0 */
/* comparison_rows.c - the rows of a comparison: job files, named methods, varied values. */
#include "compare/comparison_inner.h"

#include "spec/field.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct tw_tree *tw_compare_node(struct tw_compare_reading *r, const char *text)
{
	const char *kept = tw_arena_text(&r->c->arena, text);

	return kept ? tw_tree_new(&r->c->arena, TW_TREE_TEXT, TW_FROM_FLAG, "thalweg compare", kept)
		    : NULL;
}

enum tw_status tw_compare_job(struct tw_compare_reading *r, const struct tw_compare_row *row,
			      const struct tw_job_change *more, size_t mores, struct tw_job **out,
			      struct tw_error *why)
{
	const struct tw_compare_file *f = &r->file[row->file];
	struct tw_job_change change[64];
	const struct tw_job_text from = {
		.name = f->name,
		.text = f->text,
		.bytes = f->bytes,
		.set = r->q.set,
		.sets = r->q.sets,
		.environ_ = r->q.environ_,
		.compared = true,
		.change = change,
		.changes = row->changes + mores,
	};

	if (from.changes > sizeof change / sizeof change[0])
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: the method '%s' changes %zu fields, and may change 50", f->name,
			       row->label, row->changes);
	if (row->changes)
		memcpy(change, row->change, row->changes * sizeof *change);
	if (mores)
		memcpy(change + row->changes, more, mores * sizeof *change);
	return tw_job_read_changed(&from, f->base->world, out, why);
}

/* --- labels --- */

static void put(char *out, size_t room, const char *format, const char *text)
{
	const size_t n = strlen(out);

	if (n && n + 3 < room)
		snprintf(out + n, room - n, ", ");
	snprintf(out + strlen(out), room - strlen(out), format, text);
}

/* "workers 16"; a strategy, a model or a source says by itself what it is. */
static void put_value(char *out, size_t room, const struct tw_compare_axis *axis, size_t k)
{
	const char *dot = strrchr(axis->path, '.'), *name = dot ? dot + 1 : axis->path;
	const bool plain = !dot || strcmp(name, "name") == 0 || strcmp(name, "source") == 0;
	char text[200];

	snprintf(text, sizeof text, "%s%s%s", plain ? "" : name, plain ? "" : " ",
		 axis->value[k].text);
	put(out, room, "%s", text);
}

static void put_file(char *out, size_t room, const char *path)
{
	const char *slash = strrchr(path, '/');
	char text[100];

	snprintf(text, sizeof text, "%s", slash ? slash + 1 : path);
	if (strrchr(text, '.') > text)
		*strrchr(text, '.') = '\0';
	put(out, room, "%s", text);
}

static void label(struct tw_compare_reading *r, size_t file, const struct tw_tree *method,
		  size_t grid, char *out, size_t room)
{
	const struct tw_comparison *c = r->c;

	*out = '\0';
	if (r->q.jobs > 1)
		put_file(out, room, r->file[file].path);
	if (method)
		put(out, room, "%s", method->key);
	for (size_t k = 0; k < c->varies; k++) {
		size_t rest = grid;

		for (size_t i = c->varies; i-- > k + 1;)
			rest /= c->vary[i].count;
		put_value(out, room, &c->vary[k], rest % c->vary[k].count);
	}
	if (!*out)
		put(out, room, "%s", r->file[file].base->title);
}

/* --- rows --- */

static size_t grid_size(const struct tw_comparison *c)
{
	size_t n = 1;

	for (size_t k = 0; k < c->varies; k++)
		n *= c->vary[k].count;
	return n;
}

static size_t methods_of(const struct tw_compare_reading *r, size_t file)
{
	const struct tw_tree *m = file == r->owner ? r->c->options.methods : NULL;

	return m && m->count ? m->count : 1;
}

static enum tw_status take_label(struct tw_compare_reading *r, struct tw_compare_row *row,
				 const char *text)
{
	char shown[120];

	tw_tree_show(text, shown, sizeof shown);
	for (size_t k = 0; k < r->c->rows; k++)
		if (strcmp(r->c->row[k].label, shown) == 0)
			return tw_fail(r->why, TW_BAD_INPUT,
				       "%s: two rows would be called '%s'; give the job files or "
				       "methods different names",
				       r->file[row->file].name, shown);
	row->label = tw_arena_text(&r->c->arena, shown);
	return row->label ? TW_OK : tw_compare_no_memory(r);
}

static enum tw_status add_row(struct tw_compare_reading *r, size_t file,
			      const struct tw_tree *method, size_t grid)
{
	struct tw_comparison *c = r->c;
	struct tw_compare_row *row = &c->row[c->rows];
	const size_t most = c->varies + (method ? method->count : 0);
	char text[300];
	enum tw_status st;

	*row = (struct tw_compare_row){
		.file = file,
		.change = tw_arena_get(&c->arena, (most + 8) * sizeof *row->change),
	};
	if (!row->change)
		return tw_compare_no_memory(r);
	for (const struct tw_tree *m = method ? method->first : NULL; m; m = m->next)
		row->change[row->changes++] = (struct tw_job_change){ m->key, m };
	for (size_t k = c->varies, rest = grid; k-- > 0; rest /= c->vary[k].count)
		row->change[row->changes + k] =
			(struct tw_job_change){ c->vary[k].path,
						c->vary[k].value[rest % c->vary[k].count].node };
	row->changes += c->varies;
	label(r, file, method, grid, text, sizeof text);
	st = take_label(r, row, text);
	c->rows += st == TW_OK;
	return st;
}

/* What the row's job says that the comparison needs to know. */
static enum tw_status look(struct tw_compare_reading *r, struct tw_compare_row *row)
{
	struct tw_job *job = NULL;
	enum tw_status st = tw_compare_job(r, row, NULL, 0, &job, r->why);

	if (st != TW_OK)
		return st;
	row->workers = job->cluster.workers;
	row->until_loss = job->train.until_loss;
	row->until_accuracy = job->train.until_accuracy;
	tw_job_free(job);
	return TW_OK;
}

static enum tw_status add_note(struct tw_compare_reading *r, const char *text)
{
	const char **list = tw_arena_get(&r->c->arena, (r->c->notes + 1) * sizeof *list);

	if (!list || !(list[r->c->notes] = tw_arena_text(&r->c->arena, text)))
		return tw_compare_no_memory(r);
	if (r->c->notes)
		memcpy(list, r->c->note, r->c->notes * sizeof *list);
	r->c->note = list;
	r->c->notes++;
	return TW_OK;
}

/* A change that takes away all that the job has at `path`. */
static struct tw_job_change without(struct tw_compare_reading *r, const char *path,
				    enum tw_tree_kind kind)
{
	return (struct tw_job_change){ path, tw_tree_new(&r->c->arena, kind, TW_FROM_FLAG,
							 "thalweg compare", NULL) };
}

/* One worker that nobody delays: plain SGD on the job's data with the job's update. */
static enum tw_status baseline_changes(struct tw_compare_reading *r, struct tw_compare_row *row)
{
	static const struct {
		const char *path, *given;
	} other[] = { { "sim.stragglers", "sim.stragglers.count" },
		      { "sim.delay", "sim.delay.steps" },
		      { "train.warm", "train.warm.workers" } };
	const struct tw_job *base = r->file[r->owner].base;

	row->change = tw_arena_get(&r->c->arena, 8 * sizeof *row->change);
	if (!row->change)
		return tw_compare_no_memory(r);
	row->change[row->changes++] =
		(struct tw_job_change){ "strategy", tw_compare_node(r, "ssgd") };
	row->change[row->changes++] =
		(struct tw_job_change){ "cluster.workers", tw_compare_node(r, "1") };
	for (size_t k = 0; k < sizeof other / sizeof other[0]; k++)
		if (tw_job_given(base, other[k].given))
			row->change[row->changes++] = without(r, other[k].path, TW_TREE_MAP);
	if (base->faults)
		row->change[row->changes++] = without(r, "sim.faults", TW_TREE_LIST);
	for (size_t k = 0; k < row->changes; k++)
		if (!row->change[k].node)
			return tw_compare_no_memory(r);
	return TW_OK;
}

static enum tw_status add_baseline(struct tw_compare_reading *r)
{
	struct tw_comparison *c = r->c;
	struct tw_compare_row *row = &c->row[c->rows];
	const struct tw_job *base = r->file[r->owner].base;
	struct tw_error said = { 0 };
	struct tw_job *job = NULL;
	char note[700];
	enum tw_status st;

	for (size_t k = 0; k < c->rows; k++)
		if (c->row[k].workers == 1)
			return TW_OK;
	*row = (struct tw_compare_row){
		.file = r->owner,
		.label = "one worker",
		.baseline = true,
		.workers = 1,
		.until_loss = base->train.until_loss,
		.until_accuracy = base->train.until_accuracy,
	};
	st = baseline_changes(r, row);
	if (st != TW_OK)
		return st;
	if (tw_compare_job(r, row, NULL, 0, &job, &said) == TW_OK) {
		tw_job_free(job);
		c->rows++;
		return TW_OK;
	}
	snprintf(note, sizeof note, "There is no row with one worker, because the job has none: %s",
		 said.text);
	return said.status == TW_BAD_INPUT ? add_note(r, note) : tw_compare_no_memory(r);
}

enum tw_status tw_compare_make_rows(struct tw_compare_reading *r)
{
	struct tw_comparison *c = r->c;
	const size_t grid = grid_size(c);
	size_t most = 1;
	enum tw_status st = TW_OK;

	for (size_t k = 0; k < r->q.jobs; k++)
		most += grid * methods_of(r, k);
	c->row = tw_arena_get(&c->arena, most * sizeof *c->row);
	if (!c->row)
		return tw_compare_no_memory(r);
	for (size_t k = 0; k < r->q.jobs; k++) {
		const struct tw_tree *m = k == r->owner ? c->options.methods : NULL;
		const struct tw_tree *method = m ? m->first : NULL;

		do {
			for (size_t g = 0; g < grid && st == TW_OK; g++)
				st = add_row(r, k, method, g);
			method = method ? method->next : NULL;
		} while (method && st == TW_OK);
	}
	for (size_t k = 0; k < c->rows && st == TW_OK; k++)
		st = look(r, &c->row[k]);
	return st == TW_OK && c->options.baseline ? add_baseline(r) : st;
}
