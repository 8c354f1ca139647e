/* SPDX-License-Identifier: Apache-2.0 */
/* reading.c - what tests of job files share. */
#include "job/reading.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum tw_status read_job(const char *text, const char *const *set, const char *const *env,
			enum tw_world_kind world, struct tw_job **out, struct tw_error *why)
{
	size_t n = 0;

	while (set && set[n])
		n++;
	*why = (struct tw_error){ 0 };
	return tw_job_read_text("job.yaml", text, strlen(text), set, n, env, world, out, why);
}

struct tw_job *good_job(const char *text, const char *set, enum tw_world_kind world)
{
	const char *const sets[] = { set, NULL };
	struct tw_job *job = NULL;
	struct tw_error why;

	if (read_job(text, sets, NULL, world, &job, &why) != TW_OK)
		fail_msg("%s", why.text);
	assert_string_equal(why.text, "");
	return job;
}

char *explained(const struct tw_job *job)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	tw_job_explain(job, out);
	assert_int_equal(fclose(out), 0);
	return text;
}

const char *short_strategy(const struct tw_preset *p)
{
	static char text[64][60];
	const size_t k = (size_t)(p - tw_presets);

	assert_true(k < sizeof text / sizeof text[0]);
	if (!strstr(p->fields, "send: delta"))
		return p->name;
	snprintf(text[k], sizeof text[k], "{name: %s, push: 2%s}", p->name,
		 strstr(p->fields, "fragments:") ? ", fragments: 1, delay: 1" : "");
	return text[k];
}

bool has_servers(const struct tw_preset *p)
{
	return !strstr(p->fields, "topology:");
}

bool has_stages(const struct tw_preset *p)
{
	return strstr(p->fields, "pipeline:");
}

bool has_optimiser(const struct tw_preset *p)
{
	return strstr(p->fields, "optimiser:");
}

const char *with_fields(const char *strategy, const char *more)
{
	static char text[300];
	const bool map = strategy[0] == '{';
	const int length = (int)strlen(strategy) - map;

	snprintf(text, sizeof text, "%s%.*s%s}", map ? "" : "{name: ", length, strategy,
		 more ? more : "");
	return text;
}

int is_sentence(const char *text)
{
	if (!*text || !strstr(text, ": "))
		return 0;
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return 0;
	return 1;
}
