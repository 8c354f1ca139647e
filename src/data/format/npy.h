/* SPDX-License-Identifier: Apache-2.0 */
/* npy.h - arrays as NumPy saves them.
 *
 * Bytes: 0x93 NUMPY, major, minor; the header's length (2 bytes, little endian; 4 from version 2);
 * the header, a Python literal such as {'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }
 * with blanks and a line end behind; then the values. */
#ifndef TW_DATA_FORMAT_NPY_H
#define TW_DATA_FORMAT_NPY_H

#include "data/input.h"

#define TW_NPY_RANK 4

enum tw_npy_kind { TW_NPY_UNSIGNED, TW_NPY_SIGNED, TW_NPY_FLOAT, TW_NPY_BOOL };

struct tw_npy {
	enum tw_npy_kind kind;
	uint32_t width; /* bytes of a value */
	uint32_t rank;
	uint64_t size[TW_NPY_RANK];
	uint64_t values; /* their product */
};

/* Read the header and check it against the file: what it announces is there, or could be. */
enum tw_status tw_npy_header(struct tw_input *in, struct tw_npy *out, struct tw_error *why);
/* Read the values, converted to floats; all must be finite.  A few at a time: no memory. */
enum tw_status tw_npy_floats(struct tw_input *in, const struct tw_npy *n, float *out,
			     struct tw_error *why);
/* Read integers as labels; negative and huge ones are refused. */
enum tw_status tw_npy_labels(struct tw_input *in, const struct tw_npy *n, uint32_t *out,
			     struct tw_error *why);

/* The other way: magic, length and header (format 1.0, padded to a multiple of 64) of an array with
 * values of `type`, such as "<f4".  rank is at most 8.  Returns how many bytes. */
#define TW_NPY_HEAD 512
size_t tw_npy_head(const char *type, uint32_t rank, const uint64_t *size, char out[TW_NPY_HEAD]);

#endif
