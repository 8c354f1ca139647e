/* SPDX-License-Identifier: Apache-2.0 */
/* idx.h - files in the format of MNIST.
 *
 * Bytes: 0, 0, the type (0x08 bytes, 0x0D floats, ...), the rank; then the sizes, 4 bytes each,
 * big endian; then the values, big endian, the last index fastest.  Nothing follows. */
#ifndef TW_DATA_FORMAT_IDX_H
#define TW_DATA_FORMAT_IDX_H

#include "data/input.h"
#include "data/source.h"

/* Where the four files are; test_images NULL: there is no test set. */
struct tw_idx_files {
	const struct tw_reach *base; /* see tw_source_site */
	const struct tw_data_listener *listener;
	const char *images, *labels, *test_images, *test_labels;
	uint32_t classes; /* 0: from the training labels */
};
/* Fill *out from the files.  On failure some memory may be kept in *out. */
enum tw_status tw_idx_open(const struct tw_idx_files *files, struct tw_data *out,
			   struct tw_error *why);

/* Samples out of one file, with memory of `d`.  `first`: they decide d's shape and kind, else they
 * must have both. */
enum tw_status tw_idx_samples(struct tw_input *in, bool first, struct tw_data *d,
			      struct tw_samples *s, struct tw_error *why);
/* Labels for the samples of *s; `images` is their file, for sentences. */
enum tw_status tw_idx_labels(struct tw_input *in, const char *images, struct tw_data *d,
			     struct tw_samples *s, struct tw_error *why);

/* The file `name` ("train-images-idx3-ubyte") as it is in the folder: with - or . before idx, with
 * .gz or without. */
bool tw_idx_find(const char *folder, const char *name, char *out, size_t room);

#endif
