/* SPDX-License-Identifier: Apache-2.0 */
/* set_file.h - an opened data set as bytes, for a file, a cache, or somebody who does not have it.
 *
 * Little endian.  What is kept is what training sees: the sets after the split, before they are
 * normalised (which whoever reads them does again, to the same bits).
 *
 *	  0  8  "TWSET\r\n\x1a"
 *	  8  4  version, 3
 *	 12  4  rank, 1 or 3
 *	 16 12  shape; 0 beyond the rank
 *	 28  4  kind of values: 0 bytes, 1 floats; 256 more: training samples have weights;
 *	        512 more: values are tokens, below the number of classes, and each has a label
 *	 32  4  classes  \ one of them is 0
 *	 36  4  targets  /
 *	 40 24  samples to train, to test, to validate
 *	 64 32  fingerprint: SHA-256
 *	 96  8  length of everything, this head included
 *	104  8  bytes of names
 *	112  8  where the statistics begin; 0: there are none, or values are tokens
 *	120  8  XXH3-64 of the 120 bytes before
 *	128     names (data/names_pack.h)
 *	        for each of the three sets: values, then labels (u32) or targets (f32)
 *	        the weights of the training samples (f32), if there are any
 *	        statistics of the training set, if there are any
 *
 * Each array, and the statistics, begin at a multiple of 64, with zeros before them, so that a
 * mapped file is used as it lies.  Statistics:
 *
 *	  0  8  XXH3-64 of what follows
 *	  8     of each feature 24 bytes: mean and sum of squared distances from it (f64), the least
 *	        and the largest value (f32)
 *	        of images, the same of each channel
 *	        of each target its mean and deviation (f64)
 *
 * The fingerprint covers what the head says of the shape, the names and the arrays, and neither
 * zeros nor statistics: so it is the same whether a set came from a file of this kind or from what
 * that was made of.  Who wants a set asks for it by its fingerprint, and nobody can make another
 * one of the same.  The XXH3-64 only tell damage before lengths are believed; anybody can make them
 * true. */
#ifndef TW_DATA_FORMAT_SET_FILE_H
#define TW_DATA_FORMAT_SET_FILE_H

#include "data/data.h"

#define TW_SET_HEAD  128u
#define TW_SET_PIECE ((size_t)1 << 20) /* a reader is asked for at most so many bytes at once */

/* How many bytes the set is, without statistics: as it is sent. */
uint64_t tw_set_bytes(const struct tw_data *d);
/* Bytes from.. of it, out of the set's own arrays: nothing is made twice.  Any thread may call it.
 * The samples are in memory.  TW_BAD_INPUT: beyond the end. */
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

/* A whole file in memory that outlives `d`, such as a map of it: d's sets, names, statistics and
 * fingerprint become what it has.  The head is checked, and labels, which are used as numbers of
 * classes; values are not looked at, and the fingerprint is believed.  TW_BAD_BYTES. */
enum tw_status tw_set_lay(const char *name, const uint8_t *at, uint64_t bytes, struct tw_data *d,
			  struct tw_error *why);
/* Is it what it claims to be: fingerprint, values, labels, statistics?  Looks at all of it.
 * TW_BAD_BYTES. */
enum tw_status tw_set_check(const char *name, const struct tw_data *d, struct tw_error *why);

/* Write a set whose samples may be made one after the other (data.h: tw_data_read) into an empty
 * file that can be read, too, and set d->fingerprint; *bytes is its length.  No more than a few
 * megabytes of it are in memory at a time.  TW_IO, or what the set's supply says. */
enum tw_status tw_set_write(struct tw_data *d, const char *name, int fd,
			    const struct tw_data_listener *listener, uint64_t *bytes,
			    struct tw_error *why);

#endif
