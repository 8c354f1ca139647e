/* SPDX-License-Identifier: Apache-2.0 */
/* environment.c - variables of an environment that the caller hands over. */
#include "base/machine/environment.h"

#include <string.h>

const char *tw_environment_find(const char *const *environment, const char *name)
{
	const size_t n = strlen(name);

	for (; *environment; environment++)
		if (strncmp(*environment, name, n) == 0 && (*environment)[n] == '=')
			return (*environment)[n + 1] ? *environment + n + 1 : NULL;
	return NULL;
}
