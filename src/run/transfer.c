/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.c - what processes of one run must agree about, and the job as text for those who join.
 * */
#include "run/transfer.h"

#include "engine/network.h"
#include "engine/outside.h"
#include "spec/field.h"
#include "checkpoint/tensors.h"

#include <stdlib.h>
#include <string.h>

static void mix(struct tw_sha_run *h, uint64_t value)
{
	tw_sha_update(h, &value, sizeof value);
}

/* Tensors by name, and the starts by which shards are cut. */
static enum tw_status hash_layout(const struct tw_engine *e, struct tw_sha *out)
{
	struct tw_tensors l;
	struct tw_sha_run h;
	enum tw_status status;

	if (tw_tensors_of_engine(&tw_heap_system, e, &l) != TW_OK)
		return TW_NO_MEMORY;
	tw_sha_init(&h);
	mix(&h, e->trainable);
	mix(&h, e->buffers);
	mix(&h, l.tensors);
	for (size_t k = 0; k < l.tensors; k++) {
		const struct tw_tensor *t = &l.tensor[k];

		tw_sha_update(&h, t->name, strlen(t->name) + 1);
		mix(&h, t->rank);
		for (uint32_t i = 0; i < t->rank; i++)
			mix(&h, t->d[i]);
		mix(&h, t->buffer);
		mix(&h, t->from);
		mix(&h, t->n);
	}
	for (size_t k = 0; k <= e->tensors; k++)
		mix(&h, e->tensor[k]);
	status = tw_sha_final(&h, out);
	tw_tensors_release(&l);
	return status;
}

enum tw_status tw_transfer_facts(const struct tw_job *job, const struct tw_engine *engine,
				 struct tw_transfer_facts *out, struct tw_error *why)
{
	const struct tw_data *data = tw_network_data(engine);

	*out = (struct tw_transfer_facts){ .job = job->plan.checkpoint.job_hash };
	if (data)
		out->data = data->fingerprint;
	else if (tw_outside_fingerprint(engine))
		out->data = *tw_outside_fingerprint(engine);
	if (hash_layout(engine, &out->layout) != TW_OK)
		return tw_fail(why, TW_NO_MEMORY, "%s: no memory for the model's layout",
			       job->file);
	return TW_OK;
}

/* Whoever joins must read what was meant: the text that its text gives is the same. */
static enum tw_status read_back(const struct tw_job *job, const char *text, size_t bytes,
				struct tw_error *why)
{
	struct tw_job *copy = NULL;
	struct tw_error said = { 0 };
	char *again = NULL;
	size_t length = 0;
	enum tw_status st = tw_job_read_text("the job for those who join", text, bytes, NULL, 0,
					     NULL, job->world, &copy, &said);

	if (st != TW_OK)
		return tw_fail(why, st, "%.200s: cannot be passed on to processes that join: %s",
			       job->file, said.text);
	st = tw_job_text(copy, &again, &length);
	if (st != TW_OK)
		tw_fail(why, st, "%s: no memory to spell it out", job->file);
	else if (length != bytes || memcmp(text, again, bytes) != 0)
		st = tw_fail(
			why, TW_BAD_INPUT,
			"%.200s: cannot be passed on to processes that join: a text or path in "
			"it does not survive being written as YAML; use plain characters",
			job->file);
	free(again);
	tw_job_free(copy);
	return st;
}

enum tw_status tw_transfer_text(const struct tw_job *job, char **text, size_t *bytes,
				struct tw_error *why)
{
	char *own = NULL;
	enum tw_status st;

	if (!tw_world_has_processes(job->world))
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: was read for the world %s, and only jobs of processes are "
			       "passed on",
			       job->file, tw_job_world(job->world));
	if (tw_job_text(job, &own, bytes) != TW_OK)
		return tw_fail(why, TW_NO_MEMORY, "%s: no memory to spell it out", job->file);
	st = read_back(job, own, *bytes, why);
	if (st != TW_OK) {
		free(own);
		return st;
	}
	*text = own;
	return TW_OK;
}
