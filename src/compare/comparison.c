/* SPDX-License-Identifier: Apache-2.0 */
/* comparison.c - reads what is asked for: job files, the section compare, and flags. */
#include "compare/comparison_inner.h"

#include "spec/field.h"
#include "base/machine/isa.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- files --- */

static const char *folder_of(struct tw_arena *keep, const char *path)
{
	const char *slash = strrchr(path, '/');
	char text[4096];

	snprintf(text, sizeof text, "%.*s", slash ? (int)(slash - path + 1) : 0, path);
	return tw_arena_text(keep, *text ? text : ".");
}

static enum tw_status open_file(struct tw_compare_reading *r, size_t k)
{
	const enum tw_world_kind world[] = {
		[TW_COMPARE_SIM] = TW_WORLD_SIM,
		[TW_COMPARE_THREADS] = TW_WORLD_THREADS,
		[TW_COMPARE_PROCESSES] = TW_WORLD_TCP,
	};
	struct tw_compare_file *f = &r->file[k];
	enum tw_status st;

	f->path = r->q.job[k];
	f->name = strcmp(f->path, "-") == 0 ? "standard input" : f->path;
	r->c->folder[k] = folder_of(&r->c->arena, f->path);
	if (!r->c->folder[k])
		return tw_compare_no_memory(r);
	st = tw_job_load(f->path, &f->text, &f->bytes, r->why);
	if (st == TW_OK)
		st = tw_job_read_text(f->name, f->text, f->bytes, r->q.set, r->q.sets,
				      r->q.environ_, world[r->q.world], &f->base, r->why);
	if (st == TW_OK && f->base->model == TW_MODEL_EXTERNAL)
		st = tw_fail(r->why, TW_BAD_INPUT,
			     "%s: model: external computes in the program that links libthalweg, "
			     "and cannot be compared from the command line",
			     f->name);
	return st;
}

static enum tw_status open_files(struct tw_compare_reading *r)
{
	bool owned = false;
	enum tw_status st = TW_OK;

	for (size_t k = 0; k < r->q.jobs && st == TW_OK; k++) {
		const struct tw_tree *given;

		st = open_file(r, k);
		given = st == TW_OK ? r->file[k].base->compare.given : NULL;
		if (!given || given->origin != TW_FROM_FILE)
			continue;
		if (owned)
			st = tw_fail(r->why, TW_BAD_INPUT,
				     "%s: compare: stands in %s already; keep it in one of the "
				     "jobs",
				     given->place, r->file[r->owner].name);
		owned = true;
		r->owner = k;
	}
	if (st == TW_OK)
		r->c->options = r->file[r->owner].base->compare;
	return st;
}

/* --- axes --- */

/* "ssgd", "backup, extra 2", "[1, 2]". */
static void value_text(const struct tw_tree *node, char *out, size_t room, bool outer)
{
	size_t n = 0;

	if (node->kind == TW_TREE_TEXT) {
		tw_tree_show(node->text, out, room);
		return;
	}
	n += (size_t)snprintf(out, room, "%s", node->kind == TW_TREE_LIST ? "[" : "");
	for (const struct tw_tree *c = node->first; c && n + 1 < room; c = c->next) {
		const bool named =
			node->kind == TW_TREE_MAP && !(outer && (strcmp(c->key, "name") == 0));

		n += (size_t)snprintf(out + n, room - n, "%s%s%s", c == node->first ? "" : ", ",
				      named ? c->key : "", named ? " " : "");
		if (n + 1 >= room)
			break;
		value_text(c, out + n, room - n, false);
		n += strlen(out + n);
	}
	if (n + 1 < room && node->kind == TW_TREE_LIST)
		snprintf(out + n, room - n, "]");
}

/* `list` may also be a single word. */
static enum tw_status add_axis(struct tw_compare_reading *r, struct tw_compare_axis *axis,
			       const char *path, const struct tw_tree *list)
{
	const bool single = list->kind == TW_TREE_TEXT;
	struct tw_arena *keep = &r->c->arena;
	char text[120];

	*axis = (struct tw_compare_axis){
		.path = tw_arena_text(keep, path),
		.value = tw_arena_get(keep, (list->count + 1) * sizeof *axis->value),
	};
	for (const struct tw_tree *c = single ? list : list->first; c;
	     c = single ? NULL : c->next) {
		struct tw_compare_value *v = &axis->value[axis->count];

		value_text(c, text, sizeof text, true);
		v->node = tw_tree_copy(keep, c);
		v->text = tw_arena_text(keep, text);
		if (!axis->path || !v->node || !v->text)
			return tw_compare_no_memory(r);
		for (size_t k = 0; k < axis->count; k++)
			if (strcmp(axis->value[k].text, v->text) == 0)
				return tw_fail(r->why, TW_BAD_INPUT,
					       "%s: %s: '%s' is given twice; give each value once",
					       c->place, path, text);
		axis->given = ++axis->count;
	}
	return TW_OK;
}

/* `path=a,b,{c: d}`: what is behind the equals sign is the inside of a list. */
static enum tw_status flag_list(struct tw_compare_reading *r, const char *flag, const char *text,
				char *path, size_t room, struct tw_tree **out)
{
	const char *equals = strchr(text, '=');
	struct tw_text_source source = { .origin = TW_FROM_FLAG };
	char shown[96], name[120];
	size_t n = equals ? (size_t)(equals - text) : 0, bytes;
	enum tw_status st;
	char *list;

	snprintf(name, sizeof name, "%s %s", flag, tw_tree_show(text, shown, sizeof shown));
	source.name = tw_arena_text(&r->c->arena, name);
	if (!n || n >= room || !equals[1] || text[0] == '.' || text[n - 1] == '.')
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s: needs a field and its values, such as %s update.rate=0.01,0.1",
			       name, flag);
	memcpy(path, text, n);
	path[n] = '\0';
	if (strncmp(path, "compare", 7) == 0 || strcmp(path, "train.seed") == 0)
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s: %s cannot be varied; --seeds says how many seeds there are",
			       name, path);
	bytes = strlen(equals + 1) + 3;
	list = tw_arena_get(&r->c->arena, bytes);
	if (!list || !source.name)
		return tw_compare_no_memory(r);
	snprintf(list, bytes, "[%s]", equals + 1);
	st = tw_tree_read(&r->c->arena, &source, list, bytes - 1, out, r->why);
	if (st == TW_OK && ((*out)->kind != TW_TREE_LIST || !(*out)->first))
		st = tw_fail(r->why, TW_BAD_INPUT, "%s: needs values between commas", name);
	return st;
}

/* Those of the section, then those of flags, which replace those of the same field. */
static enum tw_status read_axes(struct tw_compare_reading *r, const char *flag,
				const char *const *text, size_t n, const struct tw_tree *section,
				struct tw_compare_axis **out, size_t *count)
{
	const size_t most = n + (section ? section->count : 0);
	struct tw_compare_axis *axis = tw_arena_get(&r->c->arena, (most + 1) * sizeof *axis);
	enum tw_status st = axis ? TW_OK : tw_compare_no_memory(r);
	size_t used = 0;

	for (const struct tw_tree *c = section ? section->first : NULL; c && st == TW_OK;
	     c = c->next)
		st = add_axis(r, &axis[used++], c->key, c);
	for (size_t k = 0; k < n && st == TW_OK; k++) {
		struct tw_tree *list = NULL;
		char path[200];
		size_t at = 0;

		st = flag_list(r, flag, text[k], path, sizeof path, &list);
		while (st == TW_OK && at < used && strcmp(axis[at].path, path) != 0)
			at++;
		if (st == TW_OK)
			st = add_axis(r, &axis[at], path, list);
		used += at == used;
	}
	*out = axis;
	*count = used;
	return st;
}

static enum tw_status check_axes(struct tw_compare_reading *r)
{
	const struct tw_comparison *c = r->c;
	double cells = 1;

	for (size_t k = 0; k < c->varies; k++)
		for (size_t i = 0; i < c->tunes; i++)
			if (strcmp(c->vary[k].path, c->tune[i].path) == 0)
				return tw_fail(r->why, TW_BAD_INPUT,
					       "%s: %s is varied, and cannot be tuned as well; "
					       "leave out one of the two",
					       c->tune[i].value[0].node->place, c->tune[i].path);
	for (size_t k = 0; k < c->varies; k++)
		cells *= (double)c->vary[k].count;
	for (size_t k = 0; k < c->tunes; k++)
		cells *= (double)c->tune[k].given;
	if (cells * (double)(c->options.seeds + c->options.tune_seeds) > TW_COMPARE_CELLS_MAX)
		return tw_fail(r->why, TW_BAD_INPUT,
			       "this grid has %.0f runs, and a comparison may have %d; give fewer "
			       "values or seeds",
			       cells * (double)(c->options.seeds + c->options.tune_seeds),
			       TW_COMPARE_CELLS_MAX);
	return TW_OK;
}

/* A run for each fold takes the place of a run for each seed. */
static enum tw_status settle_folds(struct tw_compare_reading *r)
{
	struct tw_comparison *c = r->c;
	const struct tw_job *base = r->file[r->owner].base;

	if (!c->options.folds)
		return TW_OK;
	if (c->options.folds < 2)
		return tw_job_refuse(base, r->why, "compare.folds",
				     "one fold leaves nothing to train on; use 2 or more");
	if (tw_job_given(base, "compare.seeds"))
		return tw_job_refuse(base, r->why, "compare.folds",
				     "every fold is a run, so seeds say nothing; leave one of the "
				     "two out");
	if (c->tunes)
		return tw_job_refuse(base, r->why, "compare.folds",
				     "values would be chosen on samples that folds are scored on; "
				     "tune first, or leave folds out");
	if (!base->data.from)
		return tw_job_refuse(base, r->why, "compare.folds",
				     "the model generates its samples, so there are none to hold "
				     "out; use seeds");
	if (*base->data.set.fold)
		return tw_job_refuse(base, r->why, "compare.folds",
				     "the job names a fold itself (data.fold); leave one of the "
				     "two out");
	c->options.seeds = c->options.folds;
	return TW_OK;
}

/* --- all of it --- */

/* Cells are kept for the program that made them. */
static enum tw_status identify(struct tw_compare_reading *r)
{
	const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat about;
	void *bytes = MAP_FAILED;
	enum tw_status st = TW_IO;

	snprintf(r->c->isa, sizeof r->c->isa, "%s", tw_isa_name(tw_isa()));
	if (fd >= 0 && fstat(fd, &about) == 0)
		bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes != MAP_FAILED) {
		st = tw_sha_of(bytes, (size_t)about.st_size, &r->c->program);
		munmap(bytes, (size_t)about.st_size);
	}
	if (fd >= 0)
		close(fd);
	return st == TW_OK ? st
			   : tw_fail(r->why, st, "this program cannot read itself: %s",
				     strerror(errno));
}

static const char *title_of(struct tw_compare_reading *r)
{
	const char *path = r->file[r->owner].path, *slash = strrchr(path, '/');
	char text[200];

	snprintf(text, sizeof text, "%s", slash ? slash + 1 : path);
	if (strcmp(text, "-") == 0)
		snprintf(text, sizeof text, "comparison");
	if (strrchr(text, '.') > text)
		*strrchr(text, '.') = '\0';
	return tw_arena_text(&r->c->arena, text);
}

static enum tw_status read_all(struct tw_compare_reading *r)
{
	struct tw_comparison *c = r->c;
	enum tw_status st = open_files(r);

	if (st == TW_OK && !(c->title = title_of(r)))
		st = tw_compare_no_memory(r);
	if (st == TW_OK)
		st = read_axes(r, "--vary", r->q.vary, r->q.varies, c->options.vary, &c->vary,
			       &c->varies);
	if (st == TW_OK)
		st = read_axes(r, "--tune", r->q.tune, r->q.tunes, c->options.tune, &c->tune,
			       &c->tunes);
	for (size_t k = 0; k < c->tunes && st == TW_OK; k++)
		st = tw_compare_settle_grid(r, &c->tune[k]);
	if (st == TW_OK)
		st = settle_folds(r);
	if (st == TW_OK)
		st = check_axes(r);
	c->combinations = 1;
	for (size_t k = 0; st == TW_OK && k < c->tunes; k++)
		c->combinations *= c->tune[k].given;
	if (st == TW_OK)
		st = tw_compare_make_rows(r);
	if (st == TW_OK)
		st = identify(r);
	return st == TW_OK ? tw_compare_make_cells(r) : st;
}

static bool keep_texts(struct tw_arena *keep, const char *const **list, size_t n)
{
	const char **copy = tw_arena_get(keep, (n + 1) * sizeof *copy);

	for (size_t k = 0; copy && k < n; k++)
		if (!(copy[k] = tw_arena_text(keep, (*list)[k])))
			return false;
	if (copy)
		copy[n] = NULL;
	*list = copy;
	return copy;
}

/* The caller may change its environment while runs are under way. */
static bool keep_request(struct tw_compare_reading *r)
{
	struct tw_compare_request *q = &r->q;
	struct tw_arena *keep = &r->c->arena;
	size_t n = 0;

	while (q->environ_ && q->environ_[n])
		n++;
	return keep_texts(keep, &q->job, q->jobs) && keep_texts(keep, &q->set, q->sets) &&
	       keep_texts(keep, &q->vary, q->varies) && keep_texts(keep, &q->tune, q->tunes) &&
	       (!q->environ_ || keep_texts(keep, &q->environ_, n));
}

enum tw_status tw_comparison_read(const struct tw_compare_request *q, struct tw_comparison **out,
				  struct tw_error *why)
{
	struct tw_comparison *c = tw_heap_zeros(&tw_heap_system, sizeof *c);
	struct tw_compare_reading *r;
	enum tw_status st = TW_NO_MEMORY;

	if (!c)
		return tw_fail(why, st, "no memory for the comparison");
	tw_arena_init(&c->arena, &tw_heap_system);
	c->world = q->world;
	c->folder = tw_arena_get(&c->arena, q->jobs * sizeof *c->folder);
	c->reading = r = tw_arena_get(&c->arena, sizeof *r);
	if (r)
		*r = (struct tw_compare_reading){
			.q = *q,
			.c = c,
			.why = why,
			.file = tw_arena_get(&c->arena, q->jobs * sizeof *r->file),
		};
	if (c->folder && r && r->file && keep_request(r))
		st = read_all(r);
	else
		tw_fail(why, st, "no memory for the comparison");
	if (st != TW_OK) {
		tw_comparison_free(c);
		return st;
	}
	*out = c;
	return TW_OK;
}

void tw_comparison_free(struct tw_comparison *c)
{
	if (!c)
		return;
	for (size_t k = 0; c->reading && c->reading->file && k < c->reading->q.jobs; k++) {
		free(c->reading->file[k].text);
		tw_job_free(c->reading->file[k].base);
	}
	tw_arena_release(&c->arena);
	tw_heap_system.put(&tw_heap_system, c);
}
