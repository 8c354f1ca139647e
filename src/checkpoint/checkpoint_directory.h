/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_directory.h - cuts as directories: ckpt-<n>/ is complete or it is not there.
 *
 * A cut is written to ckpt-<n>.new/: one file per part, manifest.json with the hash of each and
 * with what the run had done by then, and DONE, with the hash of the manifest, last; everything is
 * synced to the disk before the directory gets its name.  Whatever is torn, truncated or flipped is
 * therefore refused, and the cut before it is used. */
#ifndef TW_CHECKPOINT_CHECKPOINT_DIRECTORY_H
#define TW_CHECKPOINT_CHECKPOINT_DIRECTORY_H

#include "actor/cluster.h"
#include "base/constants.h"
#include "base/sha256.h"

#include <jansson.h>

#define TW_STORE_FORMAT 4

/* What a manifest says besides its parts.  Borrowed: must outlive the store. */
struct tw_store_facts {
	struct tw_sha job_hash; /* a cut of another job is refused */
	const char *job_text;   /* the resolved job */
	const char *job_file;   /* its absolute path, where paths in it begin; "" none */
	json_t *layout;         /* names and shapes of the tensors (tensors.h); NULL: not known */
	json_t *card;           /* the model card (model_card.h); NULL: not known */
	/* What is frozen, which no actor has and every cut keeps: a file of its own, with the
	 * parameters from `moving` on.  A run whose job gives other values is not resumed. */
	struct tw_constants constants;
	size_t moving;          /* parameters and buffers of the actors */
	uint64_t epoch_samples; /* of one epoch; 0: not known */
	const char *isa;
	uint32_t threads;
	uint32_t keep; /* complete cuts that stay, at least 1 */
};

/* Cuts under `dir`, which must exist and which nobody else writes to (see folder.h).  What an
 * earlier run left half-written is removed.  On failure *why has the sentence. */
enum tw_status tw_dir_store_open(struct tw_heap *heap, const char *dir,
				 const struct tw_store_facts *facts, const struct tw_log *log,
				 struct tw_store **out, struct tw_error *why);
void tw_dir_store_close(struct tw_store *s); /* NULL is allowed */

/* Why the last save failed; status TW_OK if it did not. */
const struct tw_error *tw_dir_store_error(const struct tw_store *s);
/* Seconds of wall clock spent up to the cut that was loaded (0: none); `seconds` of later cuts
 * count from `began`, a CLOCK_MONOTONIC time in ns. */
double tw_dir_store_seconds(const struct tw_store *s);
void tw_dir_store_began(struct tw_store *s, int64_t began);

/* What a process counts and a run adds up. */
struct tw_store_counts {
	uint64_t bytes_sent, bytes_received, events;
};
/* Counts up to the cut that was loaded; zeros: none. */
struct tw_store_counts tw_dir_store_counts(const struct tw_store *s);
/* Later cuts add what `ran` has at that moment; it must outlive the store. */
void tw_dir_store_counted(struct tw_store *s, const struct tw_ran *ran);

/* Remove every cut under dir, complete or not; *count (may be NULL) says how many there were.  What
 * has files of others gets another name (checkpoint_remove.h). */
enum tw_status tw_dir_store_clear(const char *dir, const struct tw_log *log, size_t *count,
				  struct tw_error *why);

#endif
