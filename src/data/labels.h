/* SPDX-License-Identifier: Apache-2.0 */
/* labels.h - checks of class labels, for all file formats. */
#ifndef TW_DATA_LABELS_H
#define TW_DATA_LABELS_H

#include "data/source.h"

/* The rows of the option `classes`, which sources with numbers as labels share. */
#define TW_CLASSES_ROW(s)                                                                          \
	TW_OPTION(s, classes, TW_U32, "0", "classes", 0, TW_CLASSES_MAX,                           \
		  "labels are below this; 0: the largest label of the training set plus one",      \
		  .example = "10")

/* Decide d->classes (`given`, or from the training labels) and check every label against it.
 * `train` and `test` are the files' names for sentences. */
enum tw_status tw_labels_check(struct tw_data *d, uint32_t given, const char *train,
			       const char *test, struct tw_error *why);
/* Both files must hold as many samples as labels. */
enum tw_status tw_labels_count(const char *values, uint64_t samples, const char *labels,
			       uint64_t count, struct tw_error *why);

#endif
