/* SPDX-License-Identifier: Apache-2.0 */
/* find.c - from a name in a job file to the network of that name. */
#include "model/model.h"

#include <string.h>

const struct tw_zoo *tw_zoo_find(const char *name)
{
	for (size_t k = 0; tw_zoo_all[k]; k++)
		if (strcmp(tw_zoo_all[k]->name, name) == 0)
			return tw_zoo_all[k];
	return NULL;
}
