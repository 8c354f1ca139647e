/* SPDX-License-Identifier: Apache-2.0 */
/* facts.c - sets of facts, asked by name. */
#include "base/facts.h"

#include "base/status.h"

#include <string.h>

bool tw_facts_add(struct tw_facts *f, const struct tw_fact *rows, size_t count)
{
	struct tw_fact *at = tw_arena_get(f->keep, (f->count + count) * sizeof *at);

	if (!at)
		return false;
	if (f->count)
		memcpy(at, f->at, f->count * sizeof *at);
	memcpy(at + f->count, rows, count * sizeof *at);
	f->at = at;
	f->count += count;
	return true;
}

/* The fact whose name is the first n letters of `name`. */
static bool is(const struct tw_facts *f, const char *name, size_t n)
{
	size_t k = 0;

	while (k < f->count && (strncmp(f->at[k].name, name, n) != 0 || f->at[k].name[n]))
		k++;
	HOLDS(1, k < f->count);
	return f->at[k].is;
}

bool tw_facts_are(const struct tw_facts *f, const char *when)
{
	bool all = true;

	for (when += strspn(when, " "); *when; when += strspn(when, " ")) {
		const bool other = *when == '!';
		const size_t n = strcspn(when, " ");

		all &= is(f, when + other, n - other) != other;
		when += n;
	}
	return all;
}
