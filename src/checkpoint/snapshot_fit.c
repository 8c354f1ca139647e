/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_fit.c - the tensors of a snapshot against those that a model wants. */
#include "checkpoint/snapshot.h"

#include "checkpoint/tensors.h"

#include <string.h>

#define PATH_SHOWN 200

enum tw_status tw_snapshot_tensors(const struct tw_snapshot *s, struct tw_heap *heap,
				   struct tw_tensors *out)
{
	const json_t *list = json_object_get(s->manifest, "layout");
	enum tw_status st;
	json_t *one;

	if (list)
		return tw_tensors_read(heap, list, out);
	one = json_pack("[{s:s, s:[I], s:b}]", "name", "parameters", "shape", (json_int_t)s->count,
			"buffer", 0);
	st = one ? tw_tensors_read(heap, one, out) : TW_NO_MEMORY;
	json_decref(one);
	return st;
}

static bool same_shape(const struct tw_tensor *a, const struct tw_tensor *b)
{
	return a->rank == b->rank && memcmp(a->d, b->d, a->rank * sizeof a->d[0]) == 0;
}

static enum tw_status other_shape(const char *path, const struct tw_tensor *there,
				  const struct tw_tensor *here, struct tw_error *why)
{
	char a[TW_TENSOR_SHAPE], b[TW_TENSOR_SHAPE];

	return tw_fail(why, TW_BAD_INPUT,
		       "%.*s is of another model: its tensor %s is %s, the model's is %s",
		       PATH_SHOWN, path, here->name, tw_tensors_shape(there, a),
		       tw_tensors_shape(here, b));
}

static enum tw_status missing(const char *path, const struct tw_tensor *t, struct tw_error *why)
{
	char shape[TW_TENSOR_SHAPE];

	return tw_fail(why, TW_BAD_INPUT,
		       "%.*s is of another model: it has no tensor %s, which the model has as %s",
		       PATH_SHOWN, path, t->name, tw_tensors_shape(t, shape));
}

static enum tw_status left_over(const char *path, const char *name, const char *shape,
				struct tw_error *why)
{
	return tw_fail(why, TW_BAD_INPUT,
		       "%.*s is of another model: it has a tensor %.80s of %s, which the model "
		       "does not have",
		       PATH_SHOWN, path, name, shape);
}

/* --- a checkpoint --- */

static enum tw_status compare(const char *path, const struct tw_tensors *there,
			      const struct tw_tensors *want, struct tw_error *why)
{
	char shape[TW_TENSOR_SHAPE];

	for (size_t k = 0; k < want->tensors; k++) {
		const struct tw_tensor *t = tw_tensors_find(there, want->tensor[k].name);

		if (!t)
			return missing(path, &want->tensor[k], why);
		if (!same_shape(t, &want->tensor[k]))
			return other_shape(path, t, &want->tensor[k], why);
	}
	for (size_t k = 0; k < there->tensors; k++) {
		const struct tw_tensor *t = &there->tensor[k];

		if (!tw_tensors_find(want, t->name))
			return left_over(path, t->name, tw_tensors_shape(t, shape), why);
		/* the same names and shapes in another order are another vector */
		if (strcmp(t->name, want->tensor[k].name) != 0)
			return tw_fail(why, TW_BAD_INPUT,
				       "%.*s is of another model: it has tensor %s where the "
				       "model has %s",
				       PATH_SHOWN, path, t->name, want->tensor[k].name);
	}
	return TW_OK;
}

/* `out` NULL: they are only compared. */
static enum tw_status from_cut(const struct tw_snapshot *s, const struct tw_tensors *want,
			       struct tw_heap *heap, float *out, struct tw_error *why)
{
	struct tw_tensors there;
	enum tw_status st = tw_snapshot_tensors(s, heap, &there);

	if (st != TW_OK)
		return tw_fail(why, st, "no memory to compare %.*s", PATH_SHOWN, s->path);
	st = compare(s->path, &there, want, why);
	if (st == TW_OK && out)
		st = tw_snapshot_floats(s, 0, s->count, out, why);
	tw_tensors_release(&there);
	return st;
}

/* --- a file --- */

_Static_assert(TW_TENSOR_RANK == TW_SAFE_RANK, "any tensor of a file can be described");

static struct tw_tensor described(const struct tw_safe_tensor *t)
{
	struct tw_tensor out = { .rank = t->rank, .n = t->count };

	memcpy(out.d, t->d, sizeof out.d);
	return out;
}

bool tw_snapshot_ignores(const struct tw_safe_tensor *t)
{
	static const char tail[] = ".num_batches_tracked";
	const size_t n = strlen(t->name);

	return t->type == TW_SAFE_I64 && n >= sizeof tail - 1 &&
	       strcmp(t->name + n - (sizeof tail - 1), tail) == 0;
}

/* `out` NULL: likewise. */
static enum tw_status from_file(const struct tw_snapshot *s, const struct tw_tensors *want,
				float *out, struct tw_error *why)
{
	char shape[TW_TENSOR_SHAPE];
	struct tw_tensor there;

	for (size_t k = 0; k < want->tensors; k++) {
		const struct tw_tensor *t = &want->tensor[k];
		const struct tw_safe_tensor *from = tw_safe_find(&s->safe, t->name);

		if (!from)
			return missing(s->path, t, why);
		there = described(from);
		if (!same_shape(&there, t))
			return other_shape(s->path, &there, t, why);
		if (out && tw_safe_floats(from, out + t->from) != TW_OK)
			return tw_fail(why, TW_BAD_INPUT,
				       "%.*s: tensor %s is not of floats (F32, F64, F16 or BF16)",
				       PATH_SHOWN, s->path, t->name);
	}
	for (size_t k = 0; k < s->safe.tensors; k++) {
		const struct tw_safe_tensor *t = &s->safe.tensor[k];

		if (tw_tensors_find(want, t->name) || tw_snapshot_ignores(t))
			continue;
		there = described(t);
		return left_over(s->path, t->name, tw_tensors_shape(&there, shape), why);
	}
	return TW_OK;
}

/* --- either --- */

enum tw_status tw_snapshot_is_of(const struct tw_snapshot *s, const struct tw_graph *g,
				 struct tw_error *why)
{
	struct tw_tensors want;
	enum tw_status st = tw_tensors_of_graph(&tw_heap_system, g, &want);

	if (st != TW_OK)
		return tw_fail(why, st, "no memory for the names of tensors");
	st = tw_snapshot_check(s, &want, why);
	tw_tensors_release(&want);
	return st;
}

enum tw_status tw_snapshot_check(const struct tw_snapshot *s, const struct tw_tensors *want,
				 struct tw_error *why)
{
	return s->files ? from_cut(s, want, &tw_heap_system, NULL, why)
			: from_file(s, want, NULL, why);
}

enum tw_status tw_snapshot_fit(const struct tw_snapshot *s, const struct tw_tensors *want,
			       struct tw_heap *heap, float **out, struct tw_error *why)
{
	const size_t n = want->trainable + want->buffers;
	float *v = heap->get(heap, (n ? n : 1) * sizeof *v);
	enum tw_status st;

	if (!v)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the parameters of %.*s",
			       PATH_SHOWN, s->path);
	st = s->files ? from_cut(s, want, heap, v, why) : from_file(s, want, v, why);
	if (st != TW_OK) {
		heap->put(heap, v);
		return st;
	}
	*out = v;
	return TW_OK;
}

enum tw_status tw_snapshot_vector(const struct tw_snapshot *s, const struct tw_graph *g,
				  struct tw_heap *heap, float **out, struct tw_error *why)
{
	struct tw_tensors want;
	enum tw_status st = tw_tensors_of_graph(heap, g, &want);

	if (st != TW_OK)
		return tw_fail(why, st, "no memory for the names of tensors");
	st = tw_snapshot_fit(s, &want, heap, out, why);
	tw_tensors_release(&want);
	return st;
}
