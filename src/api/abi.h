/* SPDX-License-Identifier: Apache-2.0 */
/* abi.h - rows about the structs of the public header; cmake/abi.sh makes the table from it. */
#ifndef TW_API_ABI_H
#define TW_API_ABI_H

#include <stddef.h>

struct tw_abi_row {
	const char *name;  /* of a field, or of the struct whose fields follow; NULL: the end */
	int field;         /* else a struct */
	size_t from, size; /* a field's offset; bytes */
};

#define TW_ABI_STRUCT(s)                                                                           \
	{                                                                                          \
#s, 0, 0, sizeof(struct s)                                                         \
	}
#define TW_ABI_FIELD(s, name)                                                                      \
	{                                                                                          \
#name, 1, offsetof(struct s, name), sizeof((struct s *)0)->name                    \
	}

extern const struct tw_abi_row tw_abi_rows[];

#endif
