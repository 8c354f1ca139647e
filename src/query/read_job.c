/* SPDX-License-Identifier: Apache-2.0 */
/* read_job.c - the job that is asked about, in whichever world accepts it. */
#include "query/query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum tw_status tw_query_input(char **out, size_t *bytes, struct tw_error *why)
{
	*out = malloc(TW_JOB_BYTES_MAX + 1);
	if (!*out)
		return tw_fail(why, TW_NO_MEMORY, "no memory for standard input");
	*bytes = fread(*out, 1, TW_JOB_BYTES_MAX + 1, stdin);
	return TW_OK;
}

enum tw_status tw_query_job(const char *path, const struct tw_query_words *w, struct tw_job **out,
			    struct tw_error *why)
{
	const bool input = strcmp(path, "-") == 0;
	struct tw_error said = { 0 }, other = { 0 };
	enum tw_status st = TW_OK;
	char *text = NULL;
	size_t bytes = 0;

	if (input)
		st = tw_query_input(&text, &bytes, why);
	for (int k = 0; k < 2 && st != TW_NO_MEMORY; k++) {
		const enum tw_world_kind world = k ? TW_WORLD_SIM : TW_WORLD_THREADS;
		struct tw_error *e = k ? &other : &said;

		st = input ? tw_job_read_text("standard input", text, bytes, w->set, w->sets,
					      w->environ_, world, out, e)
			   : tw_job_read(path, w->set, w->sets, w->environ_, world, out, e);
		if (st != TW_BAD_INPUT)
			break;
	}
	free(text);
	return st == TW_OK ? TW_OK : tw_fail(why, said.status, "%s", said.text);
}
