/* SPDX-License-Identifier: Apache-2.0 */
/* names_pack.h - the names of a data set as bytes: part of its fingerprint, and of its file.
 *
 * Little endian.
 *
 *	 0  4  columns that have names: 0, or all features
 *	 4  4  answers that have names: 0, or all classes or targets
 *	 8  4  1: the label's column has a name; else 0
 *	12  4  separator of the columns, a byte; 0: the samples are from no table
 *	16  4  column of the label in the table, from 1; 0: from no table
 *	20     the names, each with a zero byte behind it: columns, answers, label
 *	       for each feature 1 if it is not scaled, else 0; left out where all are scaled */
#ifndef TW_DATA_NAMES_PACK_H
#define TW_DATA_NAMES_PACK_H

#include "data/source.h"

#define TW_PACK_HEAD 20u

/* Write d->names into d->packed, with memory of `d`. */
enum tw_status tw_names_pack(struct tw_data *d, struct tw_error *why);
/* The most bytes that names of such a set can have. */
uint64_t tw_names_most(const struct tw_data *d);
/* Set d->names from d->packed, untrusted bytes.  What tw_names promises is checked:
 * counts that fit the set, printable UTF-8 of at most TW_NAME_MOST bytes, no name twice, no class
 * without one.  TW_BAD_BYTES with the end of a sentence that begins with the set's name. */
enum tw_status tw_names_unpack(struct tw_data *d, struct tw_error *why);

#endif
