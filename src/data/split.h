/* SPDX-License-Identifier: Apache-2.0 */
/* split.h - the steps between a source and a data set: what is held out, how it is scaled. */
#ifndef TW_DATA_SPLIT_H
#define TW_DATA_SPLIT_H

#include "data/data.h"

/* Hold out test (where `d` has none and the source `splits`) and validation sets, and keep at most
 * o->samples for training.  Changes the training set in place; its order stays. */
enum tw_status tw_split(struct tw_data *d, const struct tw_data_options *o, bool splits,
			uint64_t seed, struct tw_error *why);
/* A text is divided in its order, whether or not its test set has a file of its own. */
bool tw_split_in_parts(const struct tw_data *d);
/* Set d->scale and d->shift from the training set. */
enum tw_status tw_normalise(struct tw_data *d, enum tw_normalise how, struct tw_error *why);
/* Options that this data cannot obey are refused; `name` is what its source is called. */
enum tw_status tw_data_fits(const char *name, const struct tw_data *d,
			    const struct tw_data_options *o, struct tw_error *why);
/* SHA-256 of shape, packed names, values and labels of all sets; TW_NO_MEMORY. */
enum tw_status tw_fingerprint(const struct tw_data *d, struct tw_sha *out);

#endif
