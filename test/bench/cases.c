/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c - run a bench in a test, and read its cases. */
#include "bench/cases.h"
#include "kit/has.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>
#include <cmocka.h>

static const struct tw_log silence = { .sink = NULL };

void no_child_is_left(void)
{
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

json_t *bench_result(const struct tw_bench *bench, struct tw_bench_how how)
{
	struct tw_error why = { .status = TW_OK };
	json_t *result = NULL;

	how.log = &silence;
	if (tw_bench_run(bench, &how, &result, &why) != TW_OK)
		fail_msg("%s", why.text);
	no_child_is_left();
	return result;
}

const json_t *get(const json_t *result, const char *name)
{
	const json_t *c;
	size_t i;

	json_array_foreach(json_object_get(result, "cases"), i, c)
	{
		if (strcmp(text_of(c, "name"), name) == 0)
			return c;
	}
	fail_msg("no case %s", name);
	return NULL;
}

double field(const json_t *c, const char *name)
{
	return number_of(c, name);
}
