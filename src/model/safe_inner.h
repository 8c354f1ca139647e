/* SPDX-License-Identifier: Apache-2.0 */
/* safe_inner.h - what reading and writing of safetensors share. */
#ifndef TW_MODEL_SAFE_INNER_H
#define TW_MODEL_SAFE_INNER_H

#include "model/safetensors.h"

#include <jansson.h>

#define TW_SAFE_NAME     512 /* longest name, bytes */
#define TW_SAFE_METADATA "__metadata__"

struct tw_safe_kind {
	const char *name; /* "F32" in a header; NULL ends the table */
	enum tw_safe_type type;
	uint32_t bytes; /* of one element */
};
extern const struct tw_safe_kind tw_safe_kinds[];

/* Elements of t->d, and their bytes; false where these are more than 64 bits can count. */
bool tw_safe_measure(const struct tw_safe_tensor *t, uint32_t each, uint64_t *count,
		     uint64_t *bytes);
/* At most TW_SAFE_NAME bytes, none of them a control character. */
bool tw_safe_name_good(const char *name);
/* An object whose values all are strings. */
bool tw_safe_only_strings(const json_t *metadata);

#endif
