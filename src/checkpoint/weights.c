/* SPDX-License-Identifier: Apache-2.0 */
/* weights.c - initial weights from a safetensors file: which tensor is which of the model's.
 *
 * A module is the tensors whose names are the same up to the last dot: "fc1.weight", "fc1.bias".
 * Within a module tensors are told by what follows the dot, so that only modules are matched by
 * their order. */
#include "checkpoint/weights.h"

#include "model/model.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NONE       SIZE_MAX
#define PATH_SHOWN 200

/* One file against one model. */
struct match {
	const struct tw_weights_request *request;
	const struct tw_graph *g;
	const struct tw_safe *file;
	size_t *from; /* for each tensor of the model: that of the file, or NONE */
	size_t taken; /* that are not NONE */
	bool by_order;
};

/* --- names --- */

static size_t module_bytes(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot ? (size_t)(dot - name) : 0;
}

static const char *last_word(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot ? dot + 1 : name;
}

static bool same_module(const char *a, const char *b)
{
	const size_t n = module_bytes(a);

	return n == module_bytes(b) && strncmp(a, b, n) == 0;
}

/* Numbers in names count as numbers: fc2 is before fc10. */
static int natural(const char *a, size_t n, const char *b, size_t m)
{
	size_t i = 0, k = 0;

	while (i < n && k < m) {
		if (isdigit((unsigned char)a[i]) && isdigit((unsigned char)b[k])) {
			char *end_a, *end_b;
			const unsigned long long x = strtoull(a + i, &end_a, 10);
			const unsigned long long y = strtoull(b + k, &end_b, 10);

			if (x != y)
				return x < y ? -1 : 1;
			i = (size_t)(end_a - a);
			k = (size_t)(end_b - b);
		} else if (a[i] != b[k]) {
			return (unsigned char)a[i] < (unsigned char)b[k] ? -1 : 1;
		} else {
			i++;
			k++;
		}
	}
	return (i < n) - (k < m);
}

static bool fits(const struct tw_graph_tensor *t, const struct tw_safe_tensor *from)
{
	if (t->form.rank != from->rank)
		return false;
	for (uint32_t k = 0; k < from->rank; k++)
		if (t->form.d[k] != from->d[k])
			return false;
	return true;
}

static const char *shape_of(const struct tw_graph_tensor *t, char out[80])
{
	size_t at = 0;

	out[0] = '\0';
	for (uint32_t k = 0; k < t->form.rank && at < 60; k++)
		at += (size_t)snprintf(out + at, 80 - at, "%s%u", k ? "x" : "", t->form.d[k]);
	return out;
}

/* --- by name --- */

/* Those whose name and shape are the model's; returns how many have at least the name. */
static size_t by_name(struct match *m)
{
	size_t named = 0;

	m->taken = 0;
	for (uint32_t t = 0; t < m->g->tensors; t++) {
		const struct tw_safe_tensor *from = tw_safe_find(m->file, m->g->tensor[t].name);
		const bool takes = from && fits(&m->g->tensor[t], from);

		named += from != NULL;
		m->from[t] = takes ? (size_t)(from - m->file->tensor) : NONE;
		m->taken += takes;
	}
	return named;
}

/* --- by order --- */

/* A module: its first tensor. */
struct module {
	const char *name;
	size_t place; /* in the file */
};

static int by_place(const void *a, const void *b)
{
	const struct module *x = a, *y = b;

	return (x->place > y->place) - (x->place < y->place);
}

static int by_words(const void *a, const void *b)
{
	const struct module *x = a, *y = b;
	const int o = natural(x->name, module_bytes(x->name), y->name, module_bytes(y->name));

	return o ? o : by_place(a, b);
}

/* The file's modules, in the order of their first tensors; returns how many. */
static size_t modules_of(const struct tw_safe *file, struct module *out)
{
	size_t n = 0;

	for (size_t k = 0; k < file->tensors; k++) {
		bool known = tw_snapshot_ignores(&file->tensor[k]);

		for (size_t i = 0; i < n && !known; i++)
			known = same_module(out[i].name, file->tensor[k].name);
		if (!known)
			out[n++] = (struct module){ file->tensor[k].name, k };
	}
	return n;
}

/* The first tensor of the model's next module. */
static uint32_t next_module(const struct tw_graph *g, const uint32_t *order, uint32_t at)
{
	const char *name = g->tensor[order[at]].name;

	while (at < g->tensors && same_module(name, g->tensor[order[at]].name))
		at++;
	return at;
}

static size_t in_module(const struct tw_safe *file, const char *module, const char *word)
{
	for (size_t k = 0; k < file->tensors; k++)
		if (same_module(file->tensor[k].name, module) &&
		    strcmp(last_word(file->tensor[k].name), word) == 0)
			return k;
	return NONE;
}

static size_t size_of_module(const struct tw_safe *file, const char *module)
{
	size_t n = 0;

	for (size_t k = 0; k < file->tensors; k++)
		n += same_module(file->tensor[k].name, module) &&
		     !tw_snapshot_ignores(&file->tensor[k]);
	return n;
}

/* Modules of the model against those of the file, one after the other.  A module is taken whole or
 * not at all.  Returns whether all of both are. */
static bool pair_modules(const struct match *m, const uint32_t *order, const struct module *theirs,
			 size_t count, size_t *from, size_t *taken)
{
	const struct tw_graph *g = m->g;
	bool all = true;
	size_t k = 0;

	*taken = 0;
	for (uint32_t a = 0, b; a < g->tensors; a = b, k++) {
		bool whole;

		b = next_module(g, order, a);
		whole = k < count && size_of_module(m->file, theirs[k].name) == b - a;
		for (uint32_t t = a; t < b; t++) {
			const struct tw_graph_tensor *mine = &g->tensor[order[t]];

			from[order[t]] = k < count ? in_module(m->file, theirs[k].name,
							       last_word(mine->name))
						   : NONE;
			whole &= from[order[t]] != NONE &&
				 fits(mine, &m->file->tensor[from[order[t]]]);
		}
		for (uint32_t t = a; t < b && !whole; t++)
			from[order[t]] = NONE;
		*taken += whole ? b - a : 0;
		all &= whole;
	}
	return all && k == count;
}

/* The model's tensors module by module: trainable ones and buffers together. */
static void order_tensors(const struct tw_graph *g, uint32_t *order)
{
	uint32_t n = 0;

	for (uint32_t node = 0; node < g->nodes; node++)
		for (uint32_t t = 0; t < g->tensors; t++)
			if (g->tensor[t].node == node)
				order[n++] = t;
}

static enum tw_status by_order(struct match *m, struct tw_error *why)
{
	const size_t n = m->g->tensors, most = m->file->tensors + 1;
	size_t *other = malloc((n + 1) * sizeof *other), taken[2];
	uint32_t *order = malloc((n + 1) * sizeof *order);
	struct module *theirs = malloc(most * sizeof *theirs);
	const bool partial = m->request->partial;
	enum tw_status st = TW_OK;
	bool whole[2], same;
	size_t count;

	if (!other || !order || !theirs) {
		st = tw_fail(why, TW_NO_MEMORY, "no memory to compare %.*s", PATH_SHOWN,
			     m->request->path);
		goto out;
	}
	order_tensors(m->g, order);
	count = modules_of(m->file, theirs);
	qsort(theirs, count, sizeof *theirs, by_place);
	whole[0] = pair_modules(m, order, theirs, count, m->from, &taken[0]);
	qsort(theirs, count, sizeof *theirs, by_words);
	whole[1] = pair_modules(m, order, theirs, count, other, &taken[1]);
	same = memcmp(m->from, other, n * sizeof *other) == 0;
	m->by_order = true;
	m->taken = taken[0];
	if (partial ? taken[1] > taken[0] : whole[1] && !whole[0]) {
		memcpy(m->from, other, n * sizeof *other);
		m->taken = taken[1];
	} else if (!same && (partial ? taken[0] && taken[1] == taken[0] : whole[0] && whole[1])) {
		st = tw_fail(why, TW_BAD_INPUT,
			     "%.*s has none of the model's names, and its tensors fit both in the "
			     "order of the file and in that of their names; rename them to the "
			     "model's, such as %s (thalweg inspect JOB lists them)",
			     PATH_SHOWN, m->request->path, m->g->tensor[0].name);
	} else if (partial ? !taken[0] : !whole[0]) {
		st = tw_fail(why, TW_BAD_INPUT,
			     "%.*s is of another model: it has no tensor %s, and its tensors do "
			     "not fit by order and shape either; %s",
			     PATH_SHOWN, m->request->path, m->g->tensor[0].name,
			     partial ? "nothing of it can be taken"
				     : "model.partial: true takes what fits");
	}
out:
	free(other);
	free(order);
	free(theirs);
	return st;
}

/* --- what is said --- */

/* Names in a sentence, as many as have room. */
static void add(char *text, size_t room, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static void add(char *text, size_t room, const char *format, ...)
{
	const size_t at = strlen(text);
	char one[200];
	va_list args;

	va_start(args, format);
	vsnprintf(one, sizeof one, format, args);
	va_end(args);
	if (at + strlen(one) + 8 < room)
		snprintf(text + at, room - at, "%s%s", at ? ", " : "", one);
	else if (at >= 3 && strcmp(text + at - 3, "...") != 0)
		snprintf(text + at, room - at, ", ...");
}

static bool is_taken(const struct match *m, size_t file)
{
	for (uint32_t t = 0; t < m->g->tensors; t++)
		if (m->from[t] == file)
			return true;
	return false;
}

static void say(const struct match *m)
{
	struct tw_warnings *said = m->request->said;
	char pairs[140] = "", drawn[140] = "", left[140] = "", shape[80];
	size_t lefts = 0;

	for (uint32_t t = 0; t < m->g->tensors; t++)
		if (m->from[t] == NONE)
			add(drawn, sizeof drawn, "%s (%s)", m->g->tensor[t].name,
			    shape_of(&m->g->tensor[t], shape));
		else
			add(pairs, sizeof pairs, "%.60s as %s", m->file->tensor[m->from[t]].name,
			    m->g->tensor[t].name);
	for (size_t k = 0; k < m->file->tensors; k++)
		if (!tw_snapshot_ignores(&m->file->tensor[k]) && !is_taken(m, k)) {
			add(left, sizeof left, "%.60s", m->file->tensor[k].name);
			lefts++;
		}
	if (m->by_order)
		tw_warn(said,
			"model.weights: %zu tensors are taken by order and shape, because their "
			"names differ: %s",
			m->taken, pairs);
	if (*drawn)
		tw_warn(said, "model.partial: %zu of %u tensors are drawn as without the file: %s",
			m->g->tensors - m->taken, m->g->tensors, drawn);
	if (*left)
		tw_warn(said, "model.partial: %zu tensors of the file are left out: %s", lefts,
			left);
}

/* --- all of it --- */

static enum tw_status take(const struct match *m, float *out, struct tw_error *why)
{
	const struct tw_graph *g = m->g;

	if (m->taken < g->tensors)
		tw_model_init(g, m->request->seed, 0, tw_graph_floats(g), out);
	for (uint32_t t = 0; t < g->tensors; t++)
		if (m->from[t] != NONE &&
		    tw_safe_floats(&m->file->tensor[m->from[t]], out + g->tensor[t].from) != TW_OK)
			return tw_fail(why, TW_BAD_INPUT,
				       "%.*s: tensor %.80s is not of floats (F32, F64, F16 or "
				       "BF16)",
				       PATH_SHOWN, m->request->path,
				       m->file->tensor[m->from[t]].name);
	say(m);
	return TW_OK;
}

/* From the order of the model to that of the graph, where something is frozen. */
static enum tw_status arrange(const struct tw_graph *g, struct tw_heap *heap, float **vector,
			      struct tw_error *why)
{
	const float *from = *vector;
	float *to;

	if (!g->frozen)
		return TW_OK;
	to = heap->get(heap, tw_graph_floats(g) * sizeof *to);
	for (uint32_t t = 0; to && t < g->tensors; from += g->tensor[t++].n)
		memcpy(to + g->tensor[t].from, from, g->tensor[t].n * sizeof *to);
	heap->put(heap, *vector);
	*vector = to;
	return to ? TW_OK : tw_fail(why, TW_NO_MEMORY, "no memory for the initial weights");
}

/* By names where there are any, else by order; the sentences about names are tw_snapshot_vector's.
 */
static enum tw_status read_file(const struct tw_weights_request *r, const struct tw_snapshot *s,
				struct tw_heap *heap, float **out, struct tw_error *why)
{
	const size_t n = tw_graph_floats(r->graph);
	struct match m = { .request = r, .g = r->graph, .file = &s->safe };
	enum tw_status st = TW_OK;
	size_t named;
	float *v;

	m.from = malloc((r->graph->tensors + 1) * sizeof *m.from);
	if (!m.from)
		return tw_fail(why, TW_NO_MEMORY, "no memory to compare %.*s", PATH_SHOWN, r->path);
	named = by_name(&m);
	if (named && !r->partial) {
		free(m.from);
		st = tw_snapshot_vector(s, r->graph, heap, out, why);
		return st == TW_OK ? arrange(r->graph, heap, out, why) : st;
	}
	if (!m.taken)
		st = by_order(&m, why);
	v = st == TW_OK ? heap->get(heap, (n ? n : 1) * sizeof *v) : NULL;
	if (st == TW_OK && !v)
		st = tw_fail(why, TW_NO_MEMORY, "no memory for the parameters of %.*s", PATH_SHOWN,
			     r->path);
	if (st == TW_OK)
		st = take(&m, v, why);
	free(m.from);
	if (st == TW_OK)
		*out = v;
	else
		heap->put(heap, v);
	return st;
}

enum tw_status tw_weights_read(const struct tw_weights_request *r, struct tw_heap *heap,
			       float **out, struct tw_error *why)
{
	struct tw_snapshot *s = NULL;
	struct stat kind;
	enum tw_status st;

	if (stat(r->path, &kind) != 0)
		return tw_fail(why, TW_BAD_INPUT,
			       "%.*s cannot be read: %s; name a safetensors file, such as thalweg "
			       "export writes",
			       PATH_SHOWN, r->path, strerror(errno));
	if (S_ISDIR(kind.st_mode))
		return tw_fail(why, TW_BAD_INPUT,
			       "%.*s is a directory; make a file of it: thalweg export DIR --to "
			       "FILE.safetensors",
			       PATH_SHOWN, r->path);
	st = tw_snapshot_open(r->path, NULL, &s, why);
	if (st == TW_OK)
		st = read_file(r, s, heap, out, why);
	tw_snapshot_close(s);
	return st;
}
