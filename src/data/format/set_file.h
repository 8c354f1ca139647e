/* SPDX-License-Identifier: Apache-2.0 */
/* set_file.h - an opened data set as bytes, for a cache or for somebody who does not have it.
 *
 * Little endian.  What is kept is what training sees: the sets after the split, before they are
 * normalised (which whoever reads them does again, to the same bits).
 *
 *	 0  8  "TWSET\r\n\x1a"
 *	 8  4  version, 2
 *	12  4  rank, 1 or 3
 *	16 12  shape; 0 beyond the rank
 *	28  4  kind of values: 0 bytes, 1 floats; 256 more: training samples have weights;
 *	       512 more: values are tokens, below the number of classes, and each has a label
 *	32  4  classes  \ one of them is 0
 *	36  4  targets  /
 *	40 24  samples to train, to test, to validate
 *	 64 32  fingerprint: SHA-256
 *	 96  8  length of everything, this head included
 *	104  8  bytes of names
 *	112  8  XXH3-64 of the 112 bytes before
 *	120     names (data/names_pack.h)
 *	        for each of the three sets: values, then labels (u32) or targets (f32)
 *	        the weights of the training samples (f32), if there are any
 *
 * The fingerprint covers all that follows the head, and what the head says of its shape: who wants
 * a set asks for it by its fingerprint, and nobody can make another one of the same.  The XXH3-64
 * only tells damage in the head before its lengths are believed; anybody can make it true. */
#ifndef TW_DATA_FORMAT_SET_FILE_H
#define TW_DATA_FORMAT_SET_FILE_H

#include "data/data.h"

#define TW_SET_HEAD  120u
#define TW_SET_PIECE ((size_t)1 << 20) /* a reader is asked for at most so many bytes at once */

/* How many bytes the set is. */
uint64_t tw_set_bytes(const struct tw_data *d);
/* Bytes from.. of it, out of the set's own arrays: nothing is made twice.  Any thread may call it.
 * TW_BAD_INPUT: beyond the end. */
enum tw_status tw_set_copy(const struct tw_data *d, uint64_t from, void *to, size_t bytes);

/* Bytes of a set from wherever they are; asked for in order, each byte once. */
typedef enum tw_status (*tw_set_reader)(void *arg, uint64_t from, void *to, size_t bytes,
					struct tw_error *why);
struct tw_set_origin {
	const char *name; /* what errors call it */
	tw_set_reader read;
	void *arg;
	uint64_t bytes; /* there are so many; what lies beyond the set is not read */
	struct tw_sha fingerprint;
};
/* Read a set and normalise it; nothing of it is trusted, and no more memory is asked for than
 * there are bytes.  The caller closes *out (tw_data_close).  TW_BAD_BYTES: it is not what it should
 * be, or not the set of that fingerprint; TW_BAD_INPUT: the options do not fit it; or what the
 * reader said. */
enum tw_status tw_set_open(struct tw_heap *heap, const struct tw_set_origin *from,
			   const struct tw_data_options *o, struct tw_data **out,
			   struct tw_error *why);

#endif
