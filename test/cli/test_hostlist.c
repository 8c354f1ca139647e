/* SPDX-License-Identifier: Apache-2.0 */
/* test_hostlist.c - Slurm's lists of hosts: the first of one, and what is refused. */
#include "cli/hostlist.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static void begins(const char *list, const char *host)
{
	struct tw_error why = { 0 };
	char first[TW_HOSTLIST_TEXT];

	if (tw_hostlist_first("LIST", list, first, &why) != TW_OK)
		fail_msg("%s", why.text);
	assert_string_equal(first, host);
}

static void the_first_host_is_found(void **state)
{
	static const struct {
		const char *list, *host;
	} rows[] = {
		{ "node7", "node7" },
		{ "a,b,a", "a" },
		{ "node[01-03,07],gpu5", "node01" },
		{ "a1,b[2-3]-ib", "a1" },
		{ "r[1-2]n[01-04]", "r1n01" },
		{ "n[8-11]", "n8" },
		{ "n[08-11]", "n08" },
		{ "n[098-101]", "n098" },
		{ "n[99-101]", "n99" },
		{ "n[0-0]", "n0" },
		{ "n[000]", "n000" },
		{ "n[007,7,07]", "n007" },
		{ "n[3,1,2-2]", "n3" },
		{ "n[1-2][1-2].x.org", "n11.x.org" },
		{ "a[1,3]b[5-6]c[7,09]", "a1b5c7" },
		{ "[1-2]x", "1x" },
		{ "x-[1-2]_y,z", "x-1_y" },
		{ "n[999999999999999998-999999999999999999]", "n999999999999999998" },
		{ "tux[0-2],tux12,tux[18-20]", "tux0" },
	};

	for (size_t i = 0; i < COUNT(rows); i++)
		begins(rows[i].list, rows[i].host);
}

static void not_a_list(const char *list, const char *says)
{
	struct tw_error why = { 0 };
	char first[TW_HOSTLIST_TEXT];

	if (tw_hostlist_first("LIST", list, first, &why) != TW_BAD_INPUT)
		fail_msg("\"%s\" was taken", list);
	assert_int_equal(strncmp(why.text, "LIST is \"", 9), 0);
	if (!strstr(why.text, says))
		fail_msg("\"%s\" does not say \"%s\"", why.text, says);
	assert_non_null(strstr(why.text, "; accepted are lists of hosts such as "));
	for (const char *p = why.text; *p; p++)
		assert_in_range(*p, ' ', '~');
}

static void bad_lists_are_refused(void **state)
{
	static const struct {
		const char *list, *says;
	} rows[] = {
		{ "", "a name is missing at character 1;" },
		{ ",", "a name is missing at character 1;" },
		{ "a,", "a name is missing at character 3;" },
		{ "a,,b", "a name is missing at character 3;" },
		{ ",a", "a name is missing at character 1;" },
		{ "n[", "a number of 1 to 18 digits is missing at character 3;" },
		{ "n[]", "a number of 1 to 18 digits is missing at character 3;" },
		{ "n[1", "a , or ] is missing at character 4;" },
		{ "n[1-", "a number of 1 to 18 digits is missing at character 5;" },
		{ "n[1-]", "a number of 1 to 18 digits is missing at character 5;" },
		{ "n[-1]", "a number of 1 to 18 digits is missing at character 3;" },
		{ "n[1,]", "a number of 1 to 18 digits is missing at character 5;" },
		{ "n[1-2-3]", "a , or ] is missing at character 6;" },
		{ "n[a-c]", "a number of 1 to 18 digits is missing at character 3;" },
		{ "n[1x2]", "a , or ] is missing at character 4;" },
		{ "n[3-1]", "a range of descending numbers ends at character 6;" },
		{ "n[1-2", "a , or ] is missing at character 6;" },
		{ "n[1[2]]", "a , or ] is missing at character 4;" },
		{ "n1]", "there is no letter of a name at character 3;" },
		{ "n 1", "there is no letter of a name at character 2;" },
		{ "(null)", "there is no letter of a name at character 1;" },
		{ "n\x1b[31m", "there is no letter of a name at character 2;" },
		{ "n\xff", "there is no letter of a name at character 2;" },
		{ "n[1234567890123456789]", "a number of 1 to 18 digits is missing" },
		{ "a[1][1][1][1][1][1][1][1][1]", "more than 8 brackets" },
		{ "n[1-65537]", "too many hosts" },
		{ "n[1-32768],m[1-32769]", "too many hosts" },
		{ "a,n[1-65536]", "too many hosts" },
		{ "n[1-257]m[1-256]", "too many hosts" },
		{ "n[0-999999999999999999]", "too many hosts" },
		{ "n[1-65536,1-1]", "too many hosts" },
		{ "n[1-100][1-100][1-100][1-100][1-100][1-100][1-100][1-100]", "too many hosts" },
	};
	char much[400];

	for (size_t i = 0; i < COUNT(rows); i++)
		not_a_list(rows[i].list, rows[i].says);
	memset(much, 'a', sizeof much);
	much[256] = 0;
	not_a_list(much, "a name of more than 255 letters at character 257;");
	strcpy(much + 250, "[1]b[000001]"); /* fits only without its numbers */
	not_a_list(much, "a name of more than 255 letters");
}

static void longest_name_has_room(void **state)
{
	char list[300];
	struct tw_error why = { 0 };
	char first[TW_HOSTLIST_TEXT];

	memset(list, 'a', 250);
	strcpy(list + 250, "[00001-00002]");
	assert_int_equal(tw_hostlist_first("LIST", list, first, &why), TW_OK);
	assert_int_equal(strlen(first), 255);
	assert_string_equal(first + 250, "00001");
}

static void the_bound_is_exact(void **state)
{
	begins("n[1-65536]", "n1");
	begins("m,n[1-65535]", "m");
	begins("n[001-256]m[01-256]", "n001m01");
}

/* Whatever the bytes, the reader ends, and what it takes for a name is one. */
static void any_bytes(void **state)
{
	static const char letters[] = "nn,,[[]]--00123456789x.\xff";
	uint32_t x = 7;
	unsigned taken = 0;

	for (int k = 0; k < 200000; k++) {
		char list[20];
		struct tw_error why = { 0 };
		char host[TW_HOSTLIST_TEXT];
		size_t n;

		x = x * 1664525u + 1013904223u;
		n = (x >> 16) % (sizeof list - 1);
		for (size_t i = 0; i < n; i++) {
			x = x * 1664525u + 1013904223u;
			list[i] = letters[(x >> 16) % (sizeof letters - 1)];
		}
		list[n] = 0;
		if (tw_hostlist_first("LIST", list, host, &why) != TW_OK)
			continue;
		taken++;
		assert_in_range(strlen(host), 1, TW_HOSTLIST_TEXT - 1);
		assert_null(strpbrk(host, ",[]"));
	}
	assert_true(taken > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_host_is_found),
		cmocka_unit_test(bad_lists_are_refused),
		cmocka_unit_test(longest_name_has_room),
		cmocka_unit_test(the_bound_is_exact),
		cmocka_unit_test(any_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
