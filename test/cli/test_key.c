/* SPDX-License-Identifier: Apache-2.0 */
/* test_key.c - thalweg key prints keys that members take, into files that nobody else reads. */
#include "base/skipping.h"
#include "cli/spawn.h"
#include "wire/key.h"

#include <fcntl.h>
#include <pty.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static void every_key_is_another(void **state)
{
	uint8_t a[TW_KEY_BYTES], b[TW_KEY_BYTES];
	const struct said *s = thalweg(NULL, "key");

	expect(s, 0);
	assert_string_equal(s->err, "");
	assert_int_equal(tw_key_parse(s->out, a, NULL), TW_OK);
	s = thalweg(NULL, "key");
	assert_int_equal(tw_key_parse(s->out, b, NULL), TW_OK);
	assert_memory_not_equal(a, b, sizeof a);
}

static void it_takes_no_words(void **state)
{
	expect(thalweg(NULL, "key cluster.key"), 2);
	expect(thalweg(NULL, "key --xyzzy"), 2);
}

/* `thalweg key` by a shell with the words that follow it; returns the exit code. */
static int by_shell(const char *rest)
{
	char line[3000];
	int state;

	snprintf(line, sizeof line, "exec %s/thalweg key %s", getenv("TW_BUILD"), rest);
	state = system(line);
	return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

static void its_file_is_closed_to_others(void **state)
{
	uint8_t key[TW_KEY_BYTES];
	char rest[300];
	struct stat st;

	snprintf(rest, sizeof rest, "> %s", path_of("cluster.key"));
	umask(022);
	assert_int_equal(by_shell(rest), 0);
	assert_int_equal(stat(path_of("cluster.key"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(tw_key_read(path_of("cluster.key"), key, NULL), TW_OK);
}

static void a_full_disk_is_told(void **state)
{
	char rest[300];
	FILE *f;

	snprintf(rest, sizeof rest, "> /dev/full 2> %s", path_of("err"));
	assert_int_equal(by_shell(rest), 1);
	f = fopen(path_of("err"), "r");
	assert_non_null(f);
	assert_non_null(fgets(rest, sizeof rest, f));
	fclose(f);
	has(rest, "cannot write the key: No space left");
}

static void a_terminal_is_told_how_to_keep_it(void **state)
{
	char said[2000];
	size_t n = 0;
	ssize_t more;
	int master, code;
	const pid_t child = forkpty(&master, NULL, NULL, NULL);

	if (child < 0)
		SKIP("there is no terminal to give, as in a bare container");
	if (child == 0) {
		char program[1000];

		alarm(60);
		snprintf(program, sizeof program, "%s/thalweg", getenv("TW_BUILD"));
		execl(program, program, "key", (char *)NULL);
		_exit(127);
	}
	while (n < sizeof said - 1 && (more = read(master, said + n, sizeof said - 1 - n)) > 0)
		n += (size_t)more;
	said[n] = 0;
	assert_int_equal(waitpid(child, &code, 0), child);
	assert_int_equal(code, 0);
	close(master);
	has(said, "umask 077; thalweg key > cluster.key");
	has(said, "thalweg-key-1 ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_key_is_another),
		cmocka_unit_test(it_takes_no_words),
		cmocka_unit_test(its_file_is_closed_to_others),
		cmocka_unit_test(a_full_disk_is_told),
		cmocka_unit_test(a_terminal_is_told_how_to_keep_it),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
