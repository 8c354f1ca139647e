/* SPDX-License-Identifier: Apache-2.0 */
/* transfer_data.c - the data set of a run, given away piece by piece out of the engine's own
 * memory. */
#include "run/transfer.h"

#include "data/format/set_rest.h"
#include "engine/network.h"
#include "run/transfer_inner.h"
#include "run/tensors_file.h"

#define AT_ONCE 1024u /* floats */

struct tw_transfer_set {
	const struct tw_data *data; /* NULL: callers compute, and ... */
	struct tw_block *head;      /* ... this stands in its place (run/tensors_file.h) */
	struct tw_set_rest *rest;   /* NULL: training samples are sent with it */
	const struct tw_engine *engine;
	uint64_t set, all;          /* bytes of the data set, and with what follows it */
	struct tw_first_head first; /* where all > set */
};

static enum tw_status hash_first(const struct tw_engine *e, uint64_t count, struct tw_sha *out)
{
	float some[AT_ONCE];
	struct tw_sha_run h;
	enum tw_status st = TW_OK, hashed;

	tw_sha_init(&h);
	for (uint64_t at = 0; at < count && st == TW_OK;) {
		const size_t n = count - at < AT_ONCE ? (size_t)(count - at) : AT_ONCE;

		st = e->class->init(e, (size_t)at, n, some);
		if (st == TW_OK)
			tw_sha_update(&h, some, n * sizeof *some);
		at += n;
	}
	hashed = tw_sha_final(&h, out);
	return st == TW_OK ? hashed : st;
}

enum tw_status tw_transfer_set_open(const struct tw_job *job, const struct tw_engine *engine,
				    struct tw_transfer_set **out, struct tw_error *why)
{
	const struct tw_data *data = tw_network_data(engine);
	struct tw_transfer_set *s;

	if (!data && !tw_job_is_outside(job))
		return tw_fail(why, TW_ABSENT,
			       "%s: its model generates its samples; there is no data set to send",
			       job->file);
	s = tw_heap_zeros(&tw_heap_system, sizeof *s);
	if (!s)
		return tw_fail(why, TW_NO_MEMORY, "%s: no memory to send its data", job->file);
	*s = (struct tw_transfer_set){ .data = data, .engine = engine };
	if (!data && !(s->head = tw_tensors_file_head(&tw_heap_system, engine))) {
		tw_transfer_set_close(s);
		return tw_fail(why, TW_NO_MEMORY, "%s: no memory to send its tensors", job->file);
	}
	if (data && tw_plan_sends_samples(&job->plan) &&
	    tw_set_rest_make(data, &s->rest, why) != TW_OK) {
		tw_transfer_set_close(s);
		return why->status;
	}
	s->all = s->set = s->rest ? tw_set_rest_bytes(s->rest)
			  : data  ? tw_set_bytes(data)
				  : s->head->bytes;
	if (!data || *job->network.weights) {
		s->first.count = tw_engine_floats(engine);
		if (hash_first(engine, s->first.count, &s->first.values) != TW_OK) {
			tw_transfer_set_close(s);
			return tw_fail(why, TW_NO_MEMORY, "%s: its initial weights cannot be read",
				       job->file);
		}
		tw_first_seal(&s->first);
		s->all += sizeof s->first + s->first.count * sizeof(float);
	}
	*out = s;
	return TW_OK;
}

void tw_transfer_set_close(struct tw_transfer_set *s)
{
	if (s)
		tw_block_drop(s->head);
	if (s)
		tw_set_rest_free(s->rest);
	tw_heap_system.put(&tw_heap_system, s);
}

uint64_t tw_transfer_set_bytes(const struct tw_transfer_set *s)
{
	return s->all;
}

/* Bytes from.. of the values, which the engine gives by whole floats. */
static enum tw_status copy_values(const struct tw_transfer_set *s, uint64_t from, uint8_t *to,
				  size_t bytes)
{
	float some[AT_ONCE];

	while (bytes > 0) {
		const uint64_t at = from / sizeof(float), left = s->first.count - at;
		const size_t skip = (size_t)(from % sizeof(float));
		const size_t n = left < AT_ONCE ? (size_t)left : AT_ONCE;
		const size_t have = n * sizeof(float) - skip, take = have < bytes ? have : bytes;
		const enum tw_status st = s->engine->class->init(s->engine, (size_t)at, n, some);

		if (st != TW_OK)
			return st;
		memcpy(to, (const uint8_t *)some + skip, take);
		to += take;
		from += take;
		bytes -= take;
	}
	return TW_OK;
}

/* Of the n bytes from `from`, how many lie before `end`. */
static size_t before(uint64_t from, size_t n, uint64_t end)
{
	return from >= end ? 0 : end - from < n ? (size_t)(end - from) : n;
}

enum tw_status tw_transfer_set_read(const struct tw_transfer_set *s, uint64_t from, void *to,
				    size_t bytes)
{
	const uint64_t values = s->set + sizeof s->first;
	uint8_t *out = to;
	enum tw_status st = TW_OK;
	size_t n;

	if (from > s->all || bytes > s->all - from)
		return TW_BAD_INPUT;
	n = before(from, bytes, s->set);
	if (n && s->head)
		memcpy(out, s->head->data + from, n);
	else if (n && s->rest)
		st = tw_set_rest_copy(s->rest, from, out, n);
	else if (n)
		st = tw_set_copy(s->data, from, out, n);
	from += n;
	out += n;
	bytes -= n;
	if (!bytes || st != TW_OK)
		return st;
	n = before(from, bytes, values);
	if (n)
		memcpy(out, (const uint8_t *)&s->first + (from - s->set), n);
	return copy_values(s, from + n - values, out + n, bytes - n);
}
