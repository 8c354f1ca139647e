/* SPDX-License-Identifier: Apache-2.0 */
/* tensors_file.h - a model that callers compute (model.tensors): its file, and its bytes for those
 * who join.
 *
 * As bytes it is the header of a safetensors file: the trained tensors, then the buffers, whose
 * names are in the header's metadata, "buffers", with spaces between them. */
#ifndef TW_RUN_TENSORS_FILE_H
#define TW_RUN_TENSORS_FILE_H

#include "engine/outside.h"
#include "spec/job.h"

/* Does the job name such a file? */
static inline bool tw_job_is_outside(const struct tw_job *job)
{
	return job->model == TW_MODEL_EXTERNAL && *job->engine.external.file;
}

/* The engine of the file at `path`. */
enum tw_status tw_tensors_file_open(const struct tw_job *job, const char *path,
				    struct tw_heap *heap, struct tw_engine **out,
				    struct tw_error *why);
/* The header for those who join; NULL: the engine is another, or there is no memory. */
struct tw_block *tw_tensors_file_head(struct tw_heap *heap, const struct tw_engine *e);
/* The engine of such a header, which came from elsewhere. */
struct tw_tensors_sent {
	const void *head;
	size_t bytes;
	uint64_t whole;      /* with the values behind it */
	const float *values; /* in its order; NULL: not here, and initial values are zeros */
	struct tw_sha fingerprint;
};
enum tw_status tw_tensors_file_read(const struct tw_job *job, struct tw_heap *heap,
				    const struct tw_tensors_sent *sent, struct tw_engine **out,
				    struct tw_error *why);

#endif
