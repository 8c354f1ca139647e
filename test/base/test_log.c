/* SPDX-License-Identifier: Apache-2.0 */
/* test_log.c - lines are made for whoever listens, at the level asked for, one write each. */
#include "base/machine/log.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

struct heard {
	int lines;
	enum tw_level level;
	char who[64], line[1100];
};

static void hear(void *arg, enum tw_level level, const char *who, const char *line)
{
	struct heard *h = arg;

	h->lines++;
	h->level = level;
	snprintf(h->who, sizeof h->who, "%s", who);
	snprintf(h->line, sizeof h->line, "%s", line);
}

static void levels_decide(void **state)
{
	struct heard h = { 0 };
	const struct tw_log log = { .sink = hear, .arg = &h, .level = TW_WARNING };

	tw_log_line(&log, TW_INFO, "shard 1", "not made");
	tw_log_line(&log, TW_DEBUG, "shard 1", "not made");
	assert_int_equal(h.lines, 0);
	tw_log_line(&log, TW_WARNING, "shard 1", "%d of %s", 3, "four");
	assert_int_equal(h.lines, 1);
	assert_int_equal(h.level, TW_WARNING);
	assert_string_equal(h.who, "shard 1");
	assert_string_equal(h.line, "3 of four");
	tw_log_line(&log, TW_ERROR, "shard 1", "worse");
	assert_int_equal(h.lines, 2);
}

static void silence_is_allowed(void **state)
{
	const struct tw_log log = { .level = TW_DEBUG };

	tw_log_line(&log, TW_ERROR, "master", "nobody hears");
	tw_log_line(NULL, TW_ERROR, "master", "nobody hears");
}

/* What tw_log_stderr writes for one line. */
static size_t written(const char *who, const char *line, char *out, size_t room)
{
	const int kept = dup(STDERR_FILENO);
	int ends[2];
	ssize_t n;

	assert_int_equal(pipe(ends), 0);
	dup2(ends[1], STDERR_FILENO);
	tw_log_stderr(NULL, TW_INFO, who, line);
	dup2(kept, STDERR_FILENO);
	close(kept);
	close(ends[1]);
	n = read(ends[0], out, room - 1);
	close(ends[0]);
	assert_true(n >= 0);
	out[n] = '\0';
	return (size_t)n;
}

static void stderr_gets_whole_lines(void **state)
{
	char long_line[3000], out[4000];

	written("worker 3", "joined", out, sizeof out);
	assert_string_equal(out, "thalweg: worker 3: joined\n");
	memset(long_line, 'x', sizeof long_line - 1);
	long_line[sizeof long_line - 1] = '\0';
	const size_t n = written("worker 3", long_line, out, sizeof out);

	assert_true(n > 1000);
	assert_int_equal(out[n - 1], '\n');
	assert_ptr_equal(strchr(out, '\n'), out + n - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(levels_decide),
		cmocka_unit_test(silence_is_allowed),
		cmocka_unit_test(stderr_gets_whole_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
