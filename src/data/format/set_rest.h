/* SPDX-License-Identifier: Apache-2.0 */
/* set_rest.h - a data set without its training samples, for a worker that gets these step by step
 * (data.h: tw_data_pack): shape, names, the other sets, and how training samples are normalised.
 *
 * Little endian:
 *
 *	 0  8  "TWREST\r\n"
 *	 8  8  training samples of the whole set
 *	16  8  length of all that comes before the set that follows: a multiple of 64
 *	24  4  1: training samples have weights; 2 more: targets are scaled
 *	28  4  0
 *	32 32  fingerprint of the set that follows
 *	64 32  fingerprint of the whole set
 *	96  8  XXH3-64 of the scales
 *     104  8  XXH3-64 of the 104 bytes before
 *     112     scale, then shift of each feature (f32); then of each target, if they are scaled;
 *	       zeros up to the set
 *	       a set (set_file.h) with one training sample, and all of the other sets */
#ifndef TW_DATA_FORMAT_SET_REST_H
#define TW_DATA_FORMAT_SET_REST_H

#include "data/format/set_file.h"

struct tw_set_rest;

/* Of a set that is in memory, and stays open.  TW_NO_MEMORY. */
enum tw_status tw_set_rest_make(const struct tw_data *d, struct tw_set_rest **out,
				struct tw_error *why);
void tw_set_rest_free(struct tw_set_rest *r); /* NULL is allowed */
uint64_t tw_set_rest_bytes(const struct tw_set_rest *r);
/* As tw_set_copy. */
enum tw_status tw_set_rest_copy(const struct tw_set_rest *r, uint64_t from, void *to, size_t bytes);
/* As tw_set_open, of the whole set's fingerprint; that the samples to come are of that set, only
 * their sender knows.  *out has the number of its training samples, and none of them; *bytes is
 * how long all of this was. */
enum tw_status tw_set_rest_open(struct tw_heap *heap, const struct tw_set_origin *from,
				const struct tw_data_options *o, struct tw_data **out,
				uint64_t *bytes, struct tw_error *why);

#endif
