/* SPDX-License-Identifier: Apache-2.0 */
/* variant.c - from a name in a job file to the variant of that name. */
#include "base/variant.h"

#include <string.h>

const struct tw_variant *tw_variant_find(const struct tw_variant *const *heads, const char *name)
{
	while (*heads && strcmp((*heads)->name, name) != 0)
		heads++;
	return *heads;
}
