/* SPDX-License-Identifier: Apache-2.0 */
/* read_refuse.c - how every step of reading refuses: where, why, and names to choose from. */
#include "spec/read.h"

#include <string.h>

bool tw_names_have(const struct tw_name_list *n, const char *name)
{
	size_t k = 0;

	while (k < n->count && strcmp(n->at[k], name) != 0)
		k++;
	return k < n->count;
}

void tw_names_add(struct tw_name_list *n, const char *name)
{
	if (n->count < TW_FIELDS_MAX && !tw_names_have(n, name))
		n->at[n->count++] = name;
}

void tw_names_add_all(struct tw_name_list *n, const struct tw_variant *const *heads)
{
	for (; *heads; heads++)
		tw_names_add(n, (*heads)->name);
}

const char *tw_names_suggest(const struct tw_name_list *n, const char *wrong, const char *lead,
			     char *out, size_t room)
{
	const char *near = tw_nearest(wrong, n->at);
	size_t at = 0;

	if (near) {
		snprintf(out, room, "did you mean '%s'?", near);
		return out;
	}
	snprintf(out, room, "%s", lead);
	for (size_t k = 0; k < n->count; k++) {
		at = strlen(out);
		if (at + strlen(n->at[k]) + 8 > room) {
			snprintf(out + at, room - at, ", ...");
			break;
		}
		snprintf(out + at, room - at, "%s%s", k ? ", " : " ", n->at[k]);
	}
	return out;
}

enum tw_status tw_read_no_memory(struct tw_reading *r)
{
	return tw_fail(r->why, TW_NO_MEMORY, "%s: no memory to read it", r->job->file);
}

enum tw_status tw_read_refuse(struct tw_reading *r, const struct tw_tree *node, const char *path,
			      const char *reason)
{
	return tw_fail(r->why, TW_BAD_INPUT, "%.300s: %s: %s", node ? node->place : r->job->file,
		       path, reason);
}
