/* SPDX-License-Identifier: Apache-2.0 */
/* export.h - trained parameters as files that other programs read. */
#ifndef TW_CHECKPOINT_EXPORT_H
#define TW_CHECKPOINT_EXPORT_H

#include "checkpoint/snapshot.h"

#include <jansson.h>

enum tw_export_format { TW_EXPORT_SAFETENSORS, TW_EXPORT_NPY, TW_EXPORT_C };
extern const char *const tw_export_formats[]; /* NULL at the end */
struct tw_export_request {
	const char *path;
	const char *to; /* a file; a directory for npy */
	enum tw_export_format format;
	bool standalone; /* the normalisation as a first layer, `affine` */
	bool force;      /* may overwrite */
	const struct tw_log *log;
};
/* Write the parameters for others to read, whole or not at all: {checkpoint, to, format, tensors,
 * bytes, standalone, pytorch}.  pytorch: source of the network, null where PyTorch has not all of
 * its layers or they are not known. */
enum tw_status tw_export(const struct tw_export_request *r, json_t **out, struct tw_error *why);

/* The very bytes that it writes as safetensors, for those who are elsewhere; the caller's block. */
enum tw_status tw_export_bytes(const char *path, const struct tw_log *log, struct tw_block **out,
			       struct tw_error *why);
/* May such bytes be written to a new file `to` (of the flag --save)?  TW_BAD_INPUT with a sentence
 * where something is there already, or nothing can be. */
enum tw_status tw_save_check(const char *to, struct tw_error *why);
/* Write them whole or not at all, if they are a whole safetensors file. */
enum tw_status tw_save(const struct tw_block *b, const char *to, struct tw_error *why);

#endif
