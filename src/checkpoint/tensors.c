/* SPDX-License-Identifier: Apache-2.0 */
/* tensors.c - which tensors a parameter vector is made of: their names, shapes and places. */
#include "checkpoint/tensors.h"

#include "engine/network.h"
#include "engine/outside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static enum tw_status start(struct tw_heap *heap, size_t tensors, struct tw_tensors *out)
{
	*out = (struct tw_tensors){ .heap = heap, .tensors = tensors };
	out->tensor = tw_heap_zeros(heap, (tensors + 1) * sizeof *out->tensor);
	return out->tensor ? TW_OK : TW_NO_MEMORY;
}

static void count(struct tw_tensors *l)
{
	size_t moving = 0, behind;

	for (size_t k = 0; k < l->tensors; k++) {
		*(l->tensor[k].buffer ? &l->buffers : &l->trainable) += l->tensor[k].n;
		l->frozen += l->tensor[k].frozen ? l->tensor[k].n : 0;
	}
	behind = l->trainable + l->buffers - l->frozen;
	for (size_t k = 0; k < l->tensors; k++) {
		size_t *at = l->tensor[k].frozen ? &behind : &moving;

		l->tensor[k].stored = *at;
		*at += l->tensor[k].n;
	}
}

enum tw_status tw_tensors_of_graph(struct tw_heap *heap, const struct tw_graph *g,
				   struct tw_tensors *out)
{
	size_t at = 0;

	if (start(heap, g->tensors, out) != TW_OK)
		return TW_NO_MEMORY;
	for (uint32_t k = 0; k < g->tensors; k++) {
		const struct tw_graph_tensor *from = &g->tensor[k];
		struct tw_tensor *t = &out->tensor[k];

		snprintf(t->name, sizeof t->name, "%s", from->name);
		t->rank = from->form.rank;
		for (uint32_t i = 0; i < t->rank; i++)
			t->d[i] = from->form.d[i];
		t->buffer = from->form.buffer;
		t->frozen = from->frozen;
		t->from = at;
		t->n = from->n;
		at += from->n;
	}
	count(out);
	return TW_OK;
}

static void flat(struct tw_tensor *t, const char *name, size_t from, size_t n)
{
	snprintf(t->name, sizeof t->name, "%s", name);
	t->from = from;
	t->n = n;
	t->rank = 1;
	t->d[0] = n;
}

static enum tw_status of_outside(struct tw_heap *heap, const struct tw_engine *e,
				 const struct tw_safe_tensor *from, size_t tensors, size_t trained,
				 struct tw_tensors *out)
{
	if (start(heap, tensors, out) != TW_OK)
		return TW_NO_MEMORY;
	for (size_t k = 0; k < tensors; k++) {
		struct tw_tensor *t = &out->tensor[k];

		snprintf(t->name, sizeof t->name, "%s", from[k].name);
		t->rank = from[k].rank;
		memcpy(t->d, from[k].d, sizeof t->d);
		t->buffer = k >= trained;
		t->from = e->tensor[k];
		t->n = from[k].count;
	}
	count(out);
	return TW_OK;
}

enum tw_status tw_tensors_of_engine(struct tw_heap *heap, const struct tw_engine *e,
				    struct tw_tensors *out)
{
	const struct tw_graph *g = tw_network_graph(e);
	const struct tw_safe_tensor *outside;
	size_t tensors, trained;

	if (g)
		return tw_tensors_of_graph(heap, g, out);
	outside = tw_outside_tensors(e, &tensors, &trained);
	if (outside)
		return of_outside(heap, e, outside, tensors, trained, out);
	if (start(heap, e->buffers ? 2 : 1, out) != TW_OK)
		return TW_NO_MEMORY;
	flat(&out->tensor[0], "parameters", 0, e->trainable);
	if (e->buffers) {
		flat(&out->tensor[1], "buffers", e->trainable, e->buffers);
		out->tensor[1].buffer = true;
	}
	count(out);
	return TW_OK;
}

json_t *tw_tensors_json(const struct tw_tensors *l)
{
	json_t *list = json_array();

	for (size_t k = 0; k < l->tensors && list; k++) {
		const struct tw_tensor *t = &l->tensor[k];
		json_t *shape = json_array(), *row;

		for (uint32_t i = 0; i < t->rank; i++)
			json_array_append_new(shape, json_integer((json_int_t)t->d[i]));
		row = json_pack("{s:s, s:o, s:b}", "name", t->name, "shape", shape, "buffer",
				(int)t->buffer);
		if (row && t->frozen)
			json_object_set_new(row, "frozen", json_true());
		if (!row || json_array_append_new(list, row)) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static bool read_row(const json_t *row, struct tw_tensor *t)
{
	const json_t *shape = json_object_get(row, "shape"), *d;
	const json_t *name = json_object_get(row, "name");
	size_t i;

	if (!json_is_string(name) || json_string_length(name) >= sizeof t->name ||
	    !json_is_array(shape) || json_array_size(shape) > TW_TENSOR_RANK)
		return false;
	strcpy(t->name, json_string_value(name));
	t->buffer = json_is_true(json_object_get(row, "buffer"));
	t->frozen = json_is_true(json_object_get(row, "frozen"));
	if (t->frozen && t->buffer)
		return false;
	t->rank = (uint32_t)json_array_size(shape);
	t->n = 1;
	json_array_foreach(shape, i, d)
	{
		const json_int_t v = json_integer_value(d);

		if (v < 1 || __builtin_mul_overflow(t->n, (size_t)v, &t->n))
			return false;
		t->d[i] = (uint64_t)v;
	}
	return t->n <= SIZE_MAX / sizeof(float);
}

enum tw_status tw_tensors_read(struct tw_heap *heap, const json_t *list, struct tw_tensors *out)
{
	size_t from = 0;

	*out = (struct tw_tensors){ .heap = heap };
	if (!json_is_array(list) || json_array_size(list) > TW_TENSORS_MOST)
		return TW_BAD_BYTES;
	if (start(heap, json_array_size(list), out) != TW_OK)
		return TW_NO_MEMORY;
	for (size_t k = 0; k < out->tensors; k++) {
		struct tw_tensor *t = &out->tensor[k];
		const bool good = read_row(json_array_get(list, k), t) &&
				  (k == 0 || t->buffer >= t[-1].buffer);

		t->from = from;
		if (!good || __builtin_add_overflow(from, t->n, &from)) {
			tw_tensors_release(out);
			return TW_BAD_BYTES;
		}
	}
	count(out);
	return TW_OK;
}

void tw_tensors_release(struct tw_tensors *l)
{
	if (l->heap)
		l->heap->put(l->heap, l->tensor);
	*l = (struct tw_tensors){ .heap = NULL };
}

const struct tw_tensor *tw_tensors_find(const struct tw_tensors *l, const char *name)
{
	for (size_t k = 0; k < l->tensors; k++)
		if (strcmp(l->tensor[k].name, name) == 0)
			return &l->tensor[k];
	return NULL;
}

const char *tw_tensors_shape(const struct tw_tensor *t, char out[TW_TENSOR_SHAPE])
{
	size_t at = 0;

	out[0] = '\0';
	for (uint32_t k = 0; k < t->rank && at < TW_TENSOR_SHAPE; k++)
		at += (size_t)snprintf(out + at, TW_TENSOR_SHAPE - at, "%s%" PRIu64, k ? "x" : "",
				       t->d[k]);
	return out;
}
