/* SPDX-License-Identifier: Apache-2.0 */
/* npy_set.h - samples and their labels or values out of NumPy arrays. */
#ifndef TW_DATA_FORMAT_NPY_SET_H
#define TW_DATA_FORMAT_NPY_SET_H

#include "data/format/npy.h"
#include "data/source.h"

/* Samples of shape (n), (n, features), (n, h, w) or (n, c, h, w), with memory of `d`.  `first`:
 * they decide d's shape and kind, else they must have both. */
enum tw_status tw_npy_samples(struct tw_input *in, bool first, struct tw_data *d,
			      struct tw_samples *s, struct tw_error *why);

struct tw_npy_pair {
	const char *x;    /* the samples' file, for sentences */
	bool first;       /* the answers decide d->targets */
	uint32_t classes; /* 0: nobody has said that there are any */
};
/* Labels (integers) or values (floats) for the samples of *s. */
enum tw_status tw_npy_answers(struct tw_input *in, const struct tw_npy_pair *pair,
			      struct tw_data *d, struct tw_samples *s, struct tw_error *why);

#endif
