/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.h - trained parameters, wherever they are: a run directory (its newest whole
 * checkpoint), one checkpoint of it, or a safetensors file. */
#ifndef TW_CHECKPOINT_SNAPSHOT_H
#define TW_CHECKPOINT_SNAPSHOT_H

#include "spec/job.h"
#include "model/safetensors.h"

#include <jansson.h>

struct tw_cut_files;
struct tw_tensors;
struct tw_cut_range;
struct tw_snapshot {
	char *path;         /* what was really read: ".../ckpt-12" or the file */
	uint64_t cut;       /* number of the checkpoint; 0: a file */
	json_t *manifest;   /* of the checkpoint; NULL: a file */
	struct tw_job *job; /* as the checkpoint says it; NULL: a file */
	/* Of a checkpoint: where what is evaluated is (w, or theta of dana, nag, multi). */
	struct tw_cut_files *files;
	struct tw_cut_range *range;
	size_t ranges;
	size_t count;              /* elements: trainable, then buffers */
	struct tw_tensors *stored; /* where a checkpoint keeps them, if something is frozen */
	struct tw_safe safe;       /* file: its tensors */
	struct tw_block *bytes;
};

/* Open what `path` names.  TW_ABSENT: nothing there; TW_BAD_BYTES: damaged, with the sentence that
 * says which file and what (a run directory falls back to the checkpoint before, and says so on the
 * log); TW_BAD_INPUT: it is none of the three. */
enum tw_status tw_snapshot_open(const char *path, const struct tw_log *log,
				struct tw_snapshot **out, struct tw_error *why);
void tw_snapshot_close(struct tw_snapshot *s); /* NULL is allowed */

/* Read elements from..from+n of a checkpoint; no more of it is in memory. */
enum tw_status tw_snapshot_floats(const struct tw_snapshot *s, size_t from, size_t n, float *out,
				  struct tw_error *why);
/* The checkpoint's job with fields overridden, as tw_job_read takes them. */
enum tw_status tw_snapshot_job(const struct tw_snapshot *s, const char *const *set, size_t n,
			       struct tw_job **out, struct tw_error *why);
/* The model card of a checkpoint or file.  TW_ABSENT without a sentence: it has none. */
struct tw_card;
enum tw_status tw_snapshot_card(const struct tw_snapshot *s, struct tw_card **out,
				struct tw_error *why);
/* How many epochs of samples are in it; NAN: not known. */
double tw_snapshot_epochs(const struct tw_snapshot *s);
/* Names and shapes in the vector of a checkpoint; one that does not know them has "parameters". */
enum tw_status tw_snapshot_tensors(const struct tw_snapshot *s, struct tw_heap *heap,
				   struct tw_tensors *out);
/* Is it of a model with these tensors?  Refusals as below. */
enum tw_status tw_snapshot_check(const struct tw_snapshot *s, const struct tw_tensors *want,
				 struct tw_error *why);
/* The vector for a model with these tensors, from the heap; refusals as below. */
enum tw_status tw_snapshot_fit(const struct tw_snapshot *s, const struct tw_tensors *want,
			       struct tw_heap *heap, float **out, struct tw_error *why);

/* The parameter vector for this graph, from the heap (the caller puts it back): a checkpoint's as
 * it is, a file's tensors by their names and shapes.  What is missing, left over or of another
 * shape is refused, naming the tensor and both shapes; `path` is for sentences. */
struct tw_graph;
enum tw_status tw_snapshot_vector(const struct tw_snapshot *s, const struct tw_graph *g,
				  struct tw_heap *heap, float **out, struct tw_error *why);
/* Would there be one?  The same refusals. */
enum tw_status tw_snapshot_is_of(const struct tw_snapshot *s, const struct tw_graph *g,
				 struct tw_error *why);
/* PyTorch's batch norm counts its batches; nothing depends on it. */
bool tw_snapshot_ignores(const struct tw_safe_tensor *t);

#endif
