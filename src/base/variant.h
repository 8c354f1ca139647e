/* SPDX-License-Identifier: Apache-2.0 */
/* variant.h - what every variant of a table begins with, so that code which only names, describes
 * or binds variants need not know their kinds. */
#ifndef TW_BASE_VARIANT_H
#define TW_BASE_VARIANT_H

#include "base/option.h"

#define TW_VARIANT_MEMBERS                                                                         \
	const char *name, *help;         /* in a job file; one line */                             \
	const struct tw_option *options; /* rows; NULL: none */                                    \
	size_t options_bytes;                                                                      \
	uint32_t traits; /* bits of the kind's own */

struct tw_variant {
	TW_VARIANT_MEMBERS
};

/* The first member of a variant's struct: its head as one, and its members as the struct's own. */
#define TW_VARIANT                                                                                 \
	union {                                                                                    \
		struct tw_variant variant;                                                         \
		struct {                                                                           \
			TW_VARIANT_MEMBERS                                                         \
		};                                                                                 \
	}

/* The tables that cmake/registry.sh makes from a kind's folder, in order of name and with NULL at
 * the end: the variants, and their heads.  tw_KIND_find: the variant of that name, or NULL. */
#define TW_REGISTRY(kind, type)                                                                    \
	extern const struct tw_variant *const tw_##kind##_heads[];                                 \
	static inline const struct type *tw_##kind##_find(const char *name)                        \
	{                                                                                          \
		return (const struct type *)tw_variant_find(tw_##kind##_heads, name);              \
	}                                                                                          \
	extern const struct type *const tw_##kind##_all[]

const struct tw_variant *tw_variant_find(const struct tw_variant *const *heads, const char *name);

/* Has it all traits of `with`, and none of `without`? */
static inline bool tw_variant_fits(const struct tw_variant *v, uint32_t with, uint32_t without)
{
	return (v->traits & with) == with && !(v->traits & without);
}

#endif
