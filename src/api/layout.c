/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c - a caller's tensors, checked and copied. */
#include "api/layout.h"

#include "checkpoint/tensors.h"

#include <stdlib.h>
#include <string.h>

#define TENSORS_MAX TW_TENSORS_MOST
#define LETTERS_MAX (TW_TENSOR_NAME - 1u)
_Static_assert(TW_TENSOR_RANK == sizeof((struct thalweg_tensor *)0)->shape / sizeof(uint64_t) &&
		       TW_SAFE_RANK == TW_TENSOR_RANK,
	       "any tensor of a caller can be described");

static bool is_name(const char *name)
{
	size_t n = 0;

	for (; name && name[n] && n <= LETTERS_MAX; n++)
		if (name[n] <= ' ' || name[n] > '~')
			return false;
	return n > 0 && n <= LETTERS_MAX;
}

static enum tw_status check_name(const struct thalweg_tensor *t, size_t k, struct tw_error *why)
{
	if (!is_name(t->name))
		return tw_fail(why, TW_BAD_INPUT,
			       "tensor %zu needs a name of 1 to %u letters without spaces", k,
			       LETTERS_MAX);
	if (t->rank > TW_TENSOR_RANK)
		return tw_fail(why, TW_BAD_INPUT, "tensor %s: rank %u is above 8", t->name,
			       t->rank);
	return TW_OK;
}

static enum tw_status check_tensor(const struct tw_layout_given *g, size_t k, size_t at,
				   size_t *count, struct tw_error *why)
{
	const struct thalweg_tensor *t = &g->tensor[k];
	const size_t all = g->parameters + g->buffers;

	if (check_name(t, k, why) != TW_OK)
		return why->status;
	*count = 1;
	for (uint32_t i = 0; i < t->rank; i++) {
		if (t->shape[i] == 0 || t->shape[i] > (all - at) / *count)
			return tw_fail(why, TW_BAD_INPUT,
				       "tensor %s: its shape does not fit the %zu elements that "
				       "are left",
				       t->name, all - at);
		*count *= t->shape[i];
	}
	if (*count > all - at || (at<g->parameters && * count> g->parameters - at))
		return tw_fail(why, TW_BAD_INPUT, "tensor %s: reaches beyond the %zu %s of %s",
			       t->name, at < g->parameters ? g->parameters : all,
			       at < g->parameters ? "parameters" : "parameters and buffers",
			       g->whose);
	return TW_OK;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum tw_status check_twins(const struct tw_own_layout *l, struct tw_error *why)
{
	const char **name = l->heap->get(l->heap, l->tensors * sizeof *name);
	enum tw_status st = TW_OK;

	if (!name)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the tensors");
	for (size_t k = 0; k < l->tensors; k++)
		name[k] = l->tensor[k].name;
	qsort(name, l->tensors, sizeof *name, by_name);
	for (size_t k = 1; k < l->tensors && st == TW_OK; k++)
		if (strcmp(name[k - 1], name[k]) == 0)
			st = tw_fail(why, TW_BAD_INPUT, "two tensors are called %s", name[k]);
	l->heap->put(l->heap, name);
	return st;
}

static enum tw_status take_tensors(struct tw_own_layout *l, const struct tw_layout_given *g,
				   struct tw_error *why)
{
	size_t at = 0, count = 0;

	for (size_t k = 0; k < g->tensors; k++) {
		const enum tw_status st = check_tensor(g, k, at, &count, why);

		if (st != TW_OK)
			return st;
		l->tensor[k] = (struct tw_safe_tensor){ .name = g->tensor[k].name,
							.rank = g->tensor[k].rank,
							.count = count };
		memcpy(l->tensor[k].d, g->tensor[k].shape, sizeof l->tensor[k].d);
		l->trained += at < g->parameters;
		at += count;
	}
	if (at != g->parameters + g->buffers)
		return tw_fail(why, TW_BAD_INPUT, "the tensors have %zu elements in all, %s %zu",
			       at, g->whose, g->parameters + g->buffers);
	return check_twins(l, why);
}

/* Without tensors: the parameters are one, the buffers another. */
static void make_tensors(struct tw_own_layout *l, const struct tw_layout_given *g)
{
	l->tensor[0] = (struct tw_safe_tensor){
		.name = "parameters", .rank = 1, .d = { g->parameters }, .count = g->parameters
	};
	l->tensor[1] = (struct tw_safe_tensor){
		.name = "buffers", .rank = 1, .d = { g->buffers }, .count = g->buffers
	};
	l->tensors = g->buffers ? 2 : 1;
	l->trained = 1;
}

static enum tw_status check_counts(const struct tw_layout_given *g, struct tw_error *why)
{
	if (g->parameters == 0)
		return tw_fail(why, TW_BAD_INPUT, "%s has no parameters; it needs at least 1",
			       g->whose);
	if (g->parameters > SIZE_MAX / 64 || g->buffers > SIZE_MAX / 64)
		return tw_fail(why, TW_NO_MEMORY, "no memory for this many parameters");
	if (g->tensors && !g->tensor)
		return tw_fail(why, TW_BAD_INPUT, "%s has %zu tensors, but tensor is NULL",
			       g->whose, g->tensors);
	if (g->tensors > TENSORS_MAX)
		return tw_fail(why, TW_BAD_INPUT, "%s may have %u tensors at most", g->whose,
			       TENSORS_MAX);
	return TW_OK;
}

enum tw_status tw_layout_take(struct tw_heap *heap, const struct tw_layout_given *g,
			      struct tw_own_layout *out, struct tw_error *why)
{
	const enum tw_status st = check_counts(g, why);

	*out = (struct tw_own_layout){ .heap = heap,
				       .tensors = g->tensors,
				       .parameters = g->parameters,
				       .buffers = g->buffers };
	if (st != TW_OK)
		return st;
	out->tensor = tw_heap_zeros(heap, (g->tensors + 2) * sizeof *out->tensor);
	if (!out->tensor)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the tensors");
	if (g->tensors)
		return take_tensors(out, g, why);
	make_tensors(out, g);
	return TW_OK;
}

void tw_layout_release(struct tw_own_layout *l)
{
	if (l->heap)
		l->heap->put(l->heap, l->tensor);
	*l = (struct tw_own_layout){ .heap = NULL };
}

enum tw_status tw_layout_count(const struct thalweg_tensor *tensor, size_t tensors,
			       size_t *parameters, size_t *buffers, struct tw_error *why)
{
	*parameters = *buffers = 0;
	for (size_t k = 0; k < tensors; k++) {
		const struct thalweg_tensor *t = &tensor[k];
		size_t n = 1;

		if (check_name(t, k, why) != TW_OK)
			return why->status;
		for (uint32_t i = 0; i < t->rank; i++)
			if (t->shape[i] == 0 || __builtin_mul_overflow(n, t->shape[i], &n) ||
			    n > SIZE_MAX / 256)
				return tw_fail(why, TW_BAD_INPUT,
					       "tensor %s: dimension %u of its shape is %llu; a "
					       "dimension is at least 1, and memory has an end",
					       t->name, i, (unsigned long long)t->shape[i]);
		if (*buffers && !t->buffer)
			return tw_fail(why, TW_BAD_INPUT,
				       "tensor %s is trained and stands behind a buffer; put the "
				       "trainable tensors first",
				       t->name);
		*(t->buffer ? buffers : parameters) += n;
	}
	return TW_OK;
}
