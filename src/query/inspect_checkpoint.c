/* SPDX-License-Identifier: Apache-2.0 */
/* inspect_checkpoint.c - what is in a checkpoint or a safetensors file. */
#include "query/query.h"

#include "base/json.h"
#include "checkpoint/model_card.h"
#include "spec/field.h"
#include "run/result.h"
#include "checkpoint/checkpoint_read.h"
#include "checkpoint/tensors.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* --- tensors --- */

static const char *const type_name[] = {
	[TW_SAFE_F32] = "F32",   [TW_SAFE_F64] = "F64",     [TW_SAFE_F16] = "F16",
	[TW_SAFE_BF16] = "BF16", [TW_SAFE_I64] = "I64",     [TW_SAFE_I32] = "I32",
	[TW_SAFE_U8] = "U8",     [TW_SAFE_OTHER] = "other",
};

/* Mean, deviation and extremes of what is finite, in double. */
static void statistics(const float *v, size_t n, json_t *row)
{
	double sum = 0, squares = 0, low = INFINITY, high = -INFINITY, mean;
	size_t good = 0;

	for (size_t k = 0; k < n; k++) {
		if (!isfinite(v[k]))
			continue;
		good++;
		sum += v[k];
		low = v[k] < low ? v[k] : low;
		high = v[k] > high ? v[k] : high;
	}
	mean = good ? sum / (double)good : NAN;
	for (size_t k = 0; k < n; k++)
		if (isfinite(v[k]))
			squares += (v[k] - mean) * (v[k] - mean);
	tw_json_set(row, "mean", tw_json_number(mean));
	tw_json_set(row, "deviation", tw_json_number(good ? sqrt(squares / (double)good) : NAN));
	tw_json_set(row, "min", tw_json_number(low));
	tw_json_set(row, "max", tw_json_number(high));
	tw_json_set(row, "not_finite", json_integer((json_int_t)(n - good)));
}

static json_t *row_of(const char *name, uint32_t rank, const uint64_t *d, uint64_t n)
{
	json_t *row = json_object(), *shape = json_array();

	for (uint32_t k = 0; k < rank; k++)
		json_array_append_new(shape, json_integer((json_int_t)d[k]));
	tw_json_set(row, "name", json_string(name));
	tw_json_set(row, "shape", shape);
	tw_json_set(row, "count", json_integer((json_int_t)n));
	return row;
}

static enum tw_status tensors_of_cut(const struct tw_snapshot *s, json_t *o, struct tw_error *why)
{
	struct tw_tensors t;
	enum tw_status st = tw_snapshot_tensors(s, &tw_heap_system, &t);
	json_t *list = json_array();

	for (size_t k = 0; st == TW_OK && k < t.tensors; k++) {
		const struct tw_tensor *at = &t.tensor[k];
		json_t *row = row_of(at->name, at->rank, at->d, at->n);
		float *v = malloc((at->n + 1) * sizeof *v);

		tw_json_set(row, "buffer", json_boolean(at->buffer));
		tw_json_set(row, "frozen", json_boolean(at->frozen));
		st = v ? tw_snapshot_floats(s, at->from, at->n, v, why) : TW_NO_MEMORY;
		if (st == TW_OK)
			statistics(v, at->n, row);
		json_array_append_new(list, row);
		free(v);
	}
	tw_json_set(o, "parameters", json_integer((json_int_t)(t.trainable - t.frozen)));
	tw_json_set(o, "frozen", json_integer((json_int_t)t.frozen));
	tw_json_set(o, "buffers", json_integer((json_int_t)t.buffers));
	tw_json_set(o, "tensors", list);
	tw_tensors_release(&t);
	return st;
}

static enum tw_status tensors_of_file(const struct tw_snapshot *s, json_t *o)
{
	struct tw_heap *heap = &tw_heap_system;
	json_t *list = json_array();
	enum tw_status st = TW_OK;
	uint64_t all = 0;

	for (size_t k = 0; st == TW_OK && k < s->safe.tensors; k++) {
		const struct tw_safe_tensor *t = &s->safe.tensor[k];
		json_t *row = row_of(t->name, t->rank, t->d, t->count);
		float *v = heap->get(heap, (t->count ? t->count : 1) * sizeof *v);

		all += t->count;
		tw_json_set(row, "type", json_string(type_name[t->type]));
		if (!v)
			st = TW_NO_MEMORY;
		else if (tw_safe_floats(t, v) == TW_OK)
			statistics(v, t->count, row);
		heap->put(heap, v);
		json_array_append_new(list, row);
	}
	tw_json_set(o, "values", json_integer((json_int_t)all));
	tw_json_set(o, "tensors", list);
	return st;
}

/* --- where it comes from --- */

static json_t *written_at(const char *path)
{
	struct stat st;
	struct tm when;
	char text[40];

	if (stat(path, &st) || !gmtime_r(&st.st_mtime, &when) ||
	    !strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &when))
		return json_null();
	return json_string(text);
}

static void add_file(json_t *files, const json_t *part)
{
	json_t *row = json_object();

	json_object_set(row, "file", json_object_get(part, "file"));
	json_object_set(row, "part", json_object_get(part, "name"));
	json_object_set(row, "bytes", json_object_get(part, "bytes"));
	json_array_append_new(files, row);
}

static void describe_cut(const struct tw_snapshot *s, json_t *o)
{
	static const char *const same[] = { "program", "isa",     "threads",
					    "seconds", "steps",   "applied_samples",
					    "round",   "workers", "shards",
					    "job_file" };
	const json_t *part;
	json_t *files = json_array();
	char done[4400];
	size_t k;

	tw_json_set(o, "kind", json_string("checkpoint"));
	tw_json_set(o, "checkpoint", json_integer((json_int_t)s->cut));
	snprintf(done, sizeof done, "%s/DONE", s->path);
	tw_json_set(o, "written", written_at(done));
	tw_json_set(o, "world", json_string(tw_job_world(s->job->world)));
	tw_json_set(o, "strategy", json_string(s->job->title));
	tw_json_set(o, "rule", json_string(tw_plan_update(&s->job->plan)->rule->name));
	tw_json_set(o, "evaluated", json_string(tw_result_evaluated(&s->job->plan)));
	tw_json_set(o, "epochs", tw_json_number(tw_snapshot_epochs(s)));
	for (k = 0; k < sizeof same / sizeof same[0]; k++)
		if (json_object_get(s->manifest, same[k]))
			json_object_set(o, same[k], json_object_get(s->manifest, same[k]));
	json_array_foreach(json_object_get(s->manifest, "parts"), k, part) add_file(files, part);
	part = json_object_get(s->manifest, TW_CUT_FROZEN);
	if (part)
		add_file(files, part);
	tw_json_set(o, "files", files);
}

/* Metadata without what is said otherwise. */
static json_t *plain_metadata(const char *text)
{
	json_t *m = text ? json_loads(text, 0, NULL) : NULL;

	json_object_del(m, TW_CARD_METADATA);
	return m;
}

/* The card as it is, without its long numbers. */
static enum tw_status describe_card(const struct tw_snapshot *s, json_t *o, struct tw_error *why)
{
	struct tw_card *c = NULL;
	const enum tw_status st = tw_snapshot_card(s, &c, why);
	json_t *card = st == TW_OK ? tw_card_json(c) : NULL;

	tw_card_free(c);
	if (st == TW_ABSENT)
		return TW_OK;
	json_object_del(json_object_get(card, "normalise"), "scale");
	json_object_del(json_object_get(card, "normalise"), "shift");
	if (card)
		tw_json_set(o, "card", card);
	return st;
}

enum tw_status tw_query_snapshot(const struct tw_snapshot *s, json_t **out, struct tw_error *why)
{
	json_t *o = json_object();
	enum tw_status st;

	tw_json_set(o, "path", json_string(s->path));
	if (s->files) {
		describe_cut(s, o);
		st = tensors_of_cut(s, o, why);
	} else {
		tw_json_set(o, "kind", json_string("safetensors"));
		tw_json_set(o, "bytes", json_integer((json_int_t)s->bytes->bytes));
		tw_json_set(o, "metadata", plain_metadata(s->safe.metadata));
		st = tensors_of_file(s, o);
	}
	if (st == TW_OK)
		st = describe_card(s, o, why);
	if (st != TW_OK) {
		json_decref(o);
		return why->status != TW_OK
			       ? why->status
			       : tw_fail(why, st, "no memory to look at %.300s", s->path);
	}
	*out = o;
	return TW_OK;
}
