/* SPDX-License-Identifier: Apache-2.0 */
/* tar.h - files of a tar archive, one after the other: ustar, and the long names of GNU and pax. */
#ifndef TW_DATA_FORMAT_TAR_H
#define TW_DATA_FORMAT_TAR_H

#include "data/input.h"

#define TW_TAR_NAME 1024 /* bytes of a name, with the zero behind it */

/* An archive while it is read.  Only files are shown; folders are passed over, and what else there
 * is, links above all, is counted. */
struct tw_tar {
	struct tw_heap *heap;
	struct tw_input *in;
	char name[TW_TAR_NAME];
	uint64_t bytes;     /* of the file that is shown */
	uint64_t left;      /* bytes until the next header */
	bool long_name;     /* the name was given ahead of the header */
	uint64_t pax_bytes; /* so was the size; UINT64_MAX: it was not */
	uint64_t passed;    /* entries that are neither files nor folders */
	char passed_name[80];
	uint8_t *content; /* of the file shown; memory of the heap */
	size_t room;
};

/* Begin at the input's beginning; it stays the caller's. */
void tw_tar_init(struct tw_tar *t, struct tw_heap *heap, struct tw_input *in);
void tw_tar_release(struct tw_tar *t);
/* Go to the next file: sets name and bytes, which stay until the next call.  *more false: there is
 * none.  TW_BAD_INPUT where the archive is damaged or cut off. */
enum tw_status tw_tar_next(struct tw_tar *t, bool *more, struct tw_error *why);
/* Read the whole file into `content`; once for each. */
enum tw_status tw_tar_read(struct tw_tar *t, struct tw_error *why);

#endif
