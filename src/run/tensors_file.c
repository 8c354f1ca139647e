/* SPDX-License-Identifier: Apache-2.0 */
/* tensors_file.c - a model that callers compute: its file, and its bytes for those who join. */
#include "run/tensors_file.h"

#include "checkpoint/snapshot.h"
#include "checkpoint/tensors.h"
#include "spec/field.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Is the name one of those in the list "a b c"? */
static bool listed(const char *list, const char *name)
{
	const size_t n = strlen(name);

	for (const char *at = list; (at = strstr(at, name)); at += n)
		if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
			return true;
	return false;
}

/* The names of buffers in the metadata, for free(); NULL: none. */
static char *buffers_of(const struct tw_safe *s)
{
	json_t *m = s->metadata ? json_loads(s->metadata, 0, NULL) : NULL;
	const char *list = json_string_value(json_object_get(m, "buffers"));
	char *copy = list ? strdup(list) : NULL;

	json_decref(m);
	return copy;
}

static enum tw_status check_tensor(const struct tw_safe_tensor *t, struct tw_error *why)
{
	const size_t n = strlen(t->name);

	if (n == 0 || n >= TW_TENSOR_NAME)
		return tw_fail(why, TW_BAD_INPUT,
			       "the name of tensor '%.80s' has %zu letters; use 1 to %d", t->name,
			       n, TW_TENSOR_NAME - 1);
	for (size_t k = 0; k < n; k++)
		if (t->name[k] <= ' ' || t->name[k] > '~')
			return tw_fail(
				why, TW_BAD_INPUT,
				"the name of tensor '%s' has a space or a letter that is not "
				"ASCII",
				t->name);
	if (t->type > TW_SAFE_BF16)
		return tw_fail(why, TW_BAD_INPUT,
			       "tensor %s has no floating-point numbers; leave it out of the file, "
			       "since only floats are trained or averaged",
			       t->name);
	if (t->count == 0)
		return tw_fail(why, TW_BAD_INPUT, "tensor %s is empty; leave it out", t->name);
	return TW_OK;
}

/* The tensors in the order of the vector: trained ones, then buffers. */
static enum tw_status sort(const struct tw_safe *s, struct tw_safe_tensor *out, size_t *trained,
			   struct tw_error *why)
{
	char *buffers = buffers_of(s);
	enum tw_status st = TW_OK;
	size_t n = 0;

	for (int round = 0; round < 2; round++)
		for (size_t k = 0; k < s->tensors && st == TW_OK; k++) {
			const struct tw_safe_tensor *t = &s->tensor[k];

			if ((buffers && listed(buffers, t->name)) != (round == 1))
				continue;
			st = check_tensor(t, why);
			out[n++] = *t;
			*trained += round == 0;
		}
	free(buffers);
	if (st == TW_OK && *trained == 0)
		st = tw_fail(why, TW_BAD_INPUT, "it has no tensor to train");
	return st;
}

static struct tw_outside_facts facts_of(const struct tw_job *job,
					const struct tw_safe_tensor *tensor, size_t tensors,
					size_t trained, const float *initial)
{
	const uint64_t tests = job->engine.external.tests;

	return (struct tw_outside_facts){
		.tensor = tensor,
		.tensors = tensors,
		.trained = trained,
		.initial = initial,
		.samples = job->data.samples,
		.tests = tests ? tests : 1,
		.seed = job->train.seed,
	};
}

static size_t total(const struct tw_safe_tensor *t, size_t tensors)
{
	size_t n = 0;

	for (size_t k = 0; k < tensors; k++)
		n += t[k].count;
	return n;
}

static struct tw_block *head_of(struct tw_heap *heap, const struct tw_safe_tensor *tensor,
				size_t tensors, size_t trained)
{
	struct tw_block *out = NULL;
	char *list = NULL, *metadata = NULL;
	json_t *m = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&list, &bytes);

	if (!f)
		return NULL;
	for (size_t k = trained; k < tensors; k++)
		fprintf(f, "%s%s", k > trained ? " " : "", tensor[k].name);
	if (fclose(f) == 0 && (m = json_pack("{s:s}", "buffers", list)))
		metadata = json_dumps(m, JSON_COMPACT);
	if (metadata)
		tw_safe_write_head(heap, tensor, tensors, metadata, &out);
	json_decref(m);
	free(metadata);
	free(list);
	return out;
}

/* What the processes of a run must have in common: tensors and initial values. */
static enum tw_status fingerprint(struct tw_heap *heap, const struct tw_outside_facts *f,
				  struct tw_sha *out)
{
	struct tw_block *head = head_of(heap, f->tensor, f->tensors, f->trained);
	struct tw_sha_run h;
	enum tw_status st;

	if (!head)
		return TW_NO_MEMORY;
	tw_sha_init(&h);
	tw_sha_update(&h, head->data, head->bytes);
	tw_sha_update(&h, f->initial, total(f->tensor, f->tensors) * sizeof(float));
	st = tw_sha_final(&h, out);
	tw_block_drop(head);
	return st;
}

static enum tw_status open_sorted(const struct tw_job *job, struct tw_heap *heap,
				  const struct tw_safe_tensor *tensor, size_t tensors,
				  size_t trained, struct tw_engine **out, struct tw_error *why)
{
	float *values = heap->get(heap, total(tensor, tensors) * sizeof *values);
	struct tw_outside_facts facts = facts_of(job, tensor, tensors, trained, values);
	enum tw_status st = values ? TW_OK : TW_NO_MEMORY;
	size_t at = 0;

	for (size_t k = 0; k < tensors && st == TW_OK; k++) {
		st = tw_safe_floats(&tensor[k], values + at);
		at += tensor[k].count;
	}
	if (st == TW_OK)
		st = fingerprint(heap, &facts, &facts.fingerprint);
	st = st == TW_OK ? tw_outside_open(heap, &facts, out, why)
			 : tw_fail(why, st, "no memory for %zu values", total(tensor, tensors));
	heap->put(heap, values);
	return st;
}

static enum tw_status open_safe(const struct tw_job *job, struct tw_heap *heap,
				const struct tw_safe *s, struct tw_engine **out,
				struct tw_error *why)
{
	struct tw_safe_tensor *tensor = tw_heap_zeros(heap, (s->tensors + 1) * sizeof *tensor);
	size_t trained = 0;
	enum tw_status st = tensor ? sort(s, tensor, &trained, why)
				   : tw_fail(why, TW_NO_MEMORY, "no memory for its tensors");

	if (st == TW_OK)
		st = open_sorted(job, heap, tensor, s->tensors, trained, out, why);
	heap->put(heap, tensor);
	return st;
}

enum tw_status tw_tensors_file_open(const struct tw_job *job, const char *path,
				    struct tw_heap *heap, struct tw_engine **out,
				    struct tw_error *why)
{
	struct tw_error said = { 0 };
	struct tw_snapshot *s = NULL;
	enum tw_status st = tw_snapshot_open(path, NULL, &s, &said);

	if (st != TW_OK && st != TW_NO_MEMORY)
		return tw_job_refuse(job, why, "model.tensors",
				     "%s; name a safetensors file with the model's tensors and "
				     "their initial values",
				     said.text);
	if (st == TW_OK && s->cut)
		st = tw_fail(&said, TW_BAD_INPUT,
			     "it is a checkpoint; make a file of it with "
			     "thalweg export");
	if (st == TW_OK)
		st = open_safe(job, heap, &s->safe, out, &said);
	tw_snapshot_close(s);
	if (st == TW_OK || st == TW_NO_MEMORY)
		return st == TW_OK ? st : tw_fail(why, st, "%s", said.text);
	return tw_job_refuse(job, why, "model.tensors", "%.200s: %s", path, said.text);
}

struct tw_block *tw_tensors_file_head(struct tw_heap *heap, const struct tw_engine *e)
{
	size_t tensors = 0, trained = 0;
	const struct tw_safe_tensor *t = tw_outside_tensors(e, &tensors, &trained);

	return t ? head_of(heap, t, tensors, trained) : NULL;
}

enum tw_status tw_tensors_file_read(const struct tw_job *job, struct tw_heap *heap,
				    const struct tw_tensors_sent *sent, struct tw_engine **out,
				    struct tw_error *why)
{
	struct tw_error said = { 0 };
	struct tw_safe safe = { 0 };
	struct tw_safe_tensor *tensor = NULL;
	struct tw_outside_facts facts;
	size_t trained = 0;
	enum tw_status st =
		tw_safe_read_head(heap, sent->head, sent->bytes, sent->whole, &safe, &said);

	if (st != TW_OK)
		return tw_fail(why, st, "the tensors that the master sent are damaged: %s",
			       said.text);
	tensor = tw_heap_zeros(heap, (safe.tensors + 1) * sizeof *tensor);
	st = tensor ? sort(&safe, tensor, &trained, why)
		    : tw_fail(why, TW_NO_MEMORY, "no memory for the tensors");
	if (st == TW_OK) {
		facts = facts_of(job, tensor, safe.tensors, trained, sent->values);
		facts.fingerprint = sent->fingerprint;
		st = tw_outside_open(heap, &facts, out, why);
	}
	heap->put(heap, tensor);
	tw_safe_release(&safe);
	return st;
}
