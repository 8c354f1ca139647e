/* SPDX-License-Identifier: Apache-2.0 */
/* test_wild.c - some of the clusters that test_full_wild.c draws by the ten thousand, and jobs on
 * which a master once hung or miscounted (findings/). */
#include "wild.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define FOLDER "test/job/findings" /* tests run in the root of the tree */

static void some_seeds(void **state)
{
	(void)state;
	assert_int_equal(wild_seeds(1, 3000), 0);
}

/* Which of the findings cannot come to an end, since somebody is missing: they stop, and may be
 * resumed. */
static bool stops(const char *name)
{
	return strcmp(name, "sim-wait-swallowed.yaml") == 0 ||
	       strcmp(name, "sim-nobody-joins.yaml") == 0 ||
	       strcmp(name, "sim-leave-before-begin-stuck.yaml") == 0 ||
	       strcmp(name, "sim-leaver-turned-away.yaml") == 0;
}

static void check_finding(const char *name)
{
	char path[600], text[WILD_TEXT] = { 0 };
	struct wild_end end;
	const char *wrong;
	FILE *f;

	snprintf(path, sizeof path, FOLDER "/%s", name);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_true(fread(text, 1, sizeof text - 1, f) > 0);
	fclose(f);
	wrong = wild_run(text, false, &end);
	if (wrong)
		fail_msg("%s: %s", name, wrong);
	if (end.status != (stops(name) ? TW_INTERRUPTED : TW_OK))
		fail_msg("%s ended as %s", name, tw_status_name(end.status));
}

static void every_finding(void **state)
{
	DIR *dir = opendir(FOLDER);
	const struct dirent *e;
	int count = 0;

	(void)state;
	assert_non_null(dir);
	while ((e = readdir(dir)))
		if (strstr(e->d_name, ".yaml")) {
			check_finding(e->d_name);
			count++;
		}
	closedir(dir);
	assert_true(count >= 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(some_seeds),
		cmocka_unit_test(every_finding),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
