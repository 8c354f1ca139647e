/* SPDX-License-Identifier: Apache-2.0 */
/* data.h - a data set opened, split and normalised, and batches made from it. */
#ifndef TW_DATA_DATA_H
#define TW_DATA_DATA_H

#include "base/order.h"
#include "data/source.h"

enum tw_normalise {
	TW_NORMALISE_NONE,     /* as it is (bytes become 0..255) */
	TW_NORMALISE_UNIT,     /* bytes / 255; floats to 0..1 by column over the training set */
	TW_NORMALISE_STANDARD, /* mean 0, deviation 1 over the training set: by channel for images
				  (rank 3), by column else; a constant column becomes 0 */
};
enum tw_class_weights {
	TW_CLASSES_AS_THEY_ARE,
	TW_CLASSES_BALANCED, /* rare classes weigh as much as frequent ones */
	TW_CLASSES_AUTO,     /* balanced, where there are classes */
};
enum tw_data_set { TW_SET_TEST, TW_SET_VALIDATION, TW_SET_TRAIN };

/* What every source has in common; rows in tw_data_common_rows. */
struct tw_data_options {
	uint64_t samples; /* number of training samples, chosen with the seed; 0: all */
	uint32_t normalise;
	uint32_t normalise_targets; /* 0: none; 1: mean 0, deviation 1 over the training set */
	uint32_t class_weights;     /* enum tw_class_weights */
	double test;      /* share held out as test set, for sources that have none (default 0.2) */
	const char *fold; /* "2/5": the second of five folds is the test set; "": a share is */
	double validation; /* share of the training set held out */
	uint32_t evaluate; /* enum tw_data_set: the set evaluated during training */
	uint32_t shift;    /* augmentation: images shift by up to this many pixels each way */
	bool flip;         /* augmentation: half of the images are mirrored left to right */
	double noise;      /* augmentation: deviation of gauss added after normalisation */
	uint64_t split; /* random seed of held-out and chosen samples; independent of train.seed */
	uint32_t prefetch; /* batches made ahead by a helper thread; 0: none */
};
extern const struct tw_option tw_data_common_rows[];

/* Open a source, split, normalise.  `seed` chooses what is held out (never the order of training).
 * The held-out share of n samples is floor(share * n + 0.5), and at least 1 above 0. */
enum tw_status tw_data_open(const struct tw_source *source, const void *source_options,
			    const struct tw_data_options *o, const struct tw_source_site *site,
			    uint64_t seed, struct tw_data **out, struct tw_error *why);
/* The first half of it: samples of a source that makes them stay unmade, nothing is normalised,
 * and there is no fingerprint.  For an import (format/set_file.h). */
enum tw_status tw_data_read(const struct tw_source *source, const void *source_options,
			    const struct tw_data_options *o, const struct tw_source_site *site,
			    uint64_t seed, struct tw_data **out, struct tw_error *why);
/* The second half, of samples that are lent: normalise, scale and weigh as the options say. */
enum tw_status tw_data_prepare(struct tw_data *d, const struct tw_data_options *o,
			       struct tw_warnings *notes, struct tw_error *why);
void tw_data_close(struct tw_data *d); /* NULL is allowed */
/* The set, or one with count 0. */
const struct tw_samples *tw_data_set(const struct tw_data *d, enum tw_data_set set);

/* Of one value that is to be predicted, over the training set. */
struct tw_target_scale {
	uint32_t target; /* its number */
	double mean, deviation;
};
/* Set target_scale and target_shift from the training set: deviation and mean of each target. */
enum tw_status tw_data_scale_targets(struct tw_data *d, struct tw_error *why);
/* Set d->weight from the weights of the source and, if they are balanced, of the classes: 1 on the
 * average.  Says in `notes` where AUTO makes much of a class with few samples. */
enum tw_status tw_data_weigh(struct tw_data *d, enum tw_class_weights how,
			     struct tw_warnings *notes, struct tw_error *why);
/* Are there targets far from mean 0 and deviation 1, so that rates which usually work do not?  *out
 * is the one that is furthest; written only then. */
bool tw_data_targets_are_far(const struct tw_data *d, struct tw_target_scale *out);

/* Some samples of a set.  Sample k of the batch is that at place index[k] of the set; `position`
 * is the global position of sample 0 (position + k is that of sample k) and is what augmentation is
 * drawn for. */
struct tw_batch {
	const struct tw_samples *set;
	const uint64_t *index;
	uint32_t count;
	uint64_t position;
	/* The samples themselves, as tw_data_pack writes them; NULL: they are in the set. */
	const uint8_t *packed;
};
/* The samples of a batch as bytes, for somebody who has the shape of the data and not its samples:
 * values, then labels or targets from a multiple of 8 on, then weights, if training samples have
 * some.  Fails as tw_data_fill does. */
size_t tw_data_pack_bytes(const struct tw_data *d, uint32_t count);
enum tw_status tw_data_pack(const struct tw_data *d, const struct tw_batch *b, uint8_t *out);
/* The weights in packed samples; NULL: they have none. */
const float *tw_data_packed_weights(const struct tw_data *d, const uint8_t *packed, uint32_t count);
/* Fill x[count * features] (plain: channels, height, width), label[count * tw_data_labels] or
 * target[count * targets] (whichever the data has; the other may be NULL).  `augment` NULL: none.
 * The samples of the set are lent (tw_samples_lend).  Pure; allocates nothing.  Fails as its supply
 * does, and never where the set is in memory. */
enum tw_status tw_data_fill(const struct tw_data *d, const struct tw_batch *b,
			    const struct tw_data_options *augment, uint64_t seed, float *x,
			    uint32_t *label, float *target);
/* Only the labels or targets. */
enum tw_status tw_data_answers(const struct tw_data *d, const struct tw_batch *b, uint32_t *label,
			       float *target);

/* Batches of the training set made ahead.  What comes out is bit for bit what tw_data_fill makes:
 * the helper thread only guesses which positions will be asked for next (each asker's last step,
 * continued), and a wrong guess only wastes its work.  Any thread may take. */
struct tw_prefetch;
struct tw_prefetch_facts {
	const struct tw_data *data;
	const struct tw_data_options *options;
	const struct tw_order *order; /* which sample stands where; it must outlive the helper */
	uint64_t seed;
	uint32_t batch_max; /* samples of the largest batch */
	uint32_t ahead;     /* batches kept ready, at least 1 */
};
enum tw_status tw_prefetch_start(struct tw_heap *heap, const struct tw_prefetch_facts *facts,
				 struct tw_prefetch **out, struct tw_error *why);
/* Copy the batch of `count` samples from global position `from` if it is ready; false: make it
 * yourself.  Either way a guess for the next one is queued. */
bool tw_prefetch_take(struct tw_prefetch *p, uint64_t from, uint32_t count, float *x,
		      uint32_t *label, float *target);
void tw_prefetch_stop(struct tw_prefetch *p); /* NULL is allowed; waits for the thread */

/* Fetching (fetch.c), used by `thalweg data`: of sources that have a recipe. */
/* $XDG_CACHE_HOME/thalweg or ~/.cache/thalweg as text in out; false if neither is known. */
bool tw_data_cache(char *out, size_t room);
/* Put the data set into `cache`/<name>/, complete or not at all; checks hashes.  `from`: a folder
 * that has its files, gzipped or not (TW_BAD_INPUT if not); NULL: from the net.  *bytes says how
 * much is there afterwards.  TW_ABSENT where the tool it needs is missing, TW_IO where it fails. */
enum tw_status tw_data_fetch(const char *name, const char *from, const char *cache, uint64_t *bytes,
			     struct tw_error *why);
/* Is it there and intact (hashes)?  TW_ABSENT: not fetched; TW_BAD_BYTES: damaged. */
enum tw_status tw_data_verify(const char *name, const char *cache, struct tw_error *why);

#endif
