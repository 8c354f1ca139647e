/* SPDX-License-Identifier: Apache-2.0 */
/* refused.c - jobs that make no sense, and what is said of each. */
#include "job/refused.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

void refused_all(const struct refused *cases, size_t count)
{
	for (size_t k = 0; k < count; k++) {
		const struct refused *c = &cases[k];
		const char *const set[] = { c->set, NULL }, *const env[] = { c->env, NULL };
		struct tw_job *job = NULL;
		struct tw_error why;
		const enum tw_status st = read_job(c->text, set, env, c->world, &job, &why);

		if (st != TW_BAD_INPUT)
			fail_msg("not refused but %s (%s):\n%s", tw_status_name(st), why.text,
				 c->text);
		assert_null(job);
		assert_true(is_sentence(why.text));
		if (strncmp(why.text, c->says[0], strlen(c->says[0])) != 0)
			fail_msg("'%s' does not begin with '%s':\n%s", why.text, c->says[0],
				 c->text);
		for (size_t i = 1; i < 4 && c->says[i]; i++)
			if (!strstr(why.text, c->says[i]))
				fail_msg("'%s' does not say '%s':\n%s", why.text, c->says[i],
					 c->text);
	}
}
