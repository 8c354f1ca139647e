/* SPDX-License-Identifier: Apache-2.0 */
/* test_json_lines.c - lines are whole at once, and what cannot be written is said once. */
#include "base/json_lines.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static char said[1000];
static size_t times;

static void keep(void *arg, enum tw_level level, const char *who, const char *line)
{
	assert_int_equal(level, TW_WARNING);
	snprintf(said, sizeof said, "%s: %s", who, line);
	times++;
}

static const struct tw_log log_ = { keep, NULL, TW_DEBUG };

static void put(struct tw_json_lines *l, json_t *object)
{
	tw_json_lines_put(l, object);
	json_decref(object);
}

/* What is in the pipe now, without waiting for more. */
static void read_now(int fd, char *out, size_t room)
{
	const ssize_t n = read(fd, out, room - 1);

	out[n > 0 ? n : 0] = 0;
}

static void lines_are_there_at_once(void **state)
{
	struct tw_json_lines l = { .log = &log_ };
	char text[200], *line;
	int ends[2];

	assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
	l.file = fdopen(ends[1], "w");
	put(&l, json_pack("{s:s, s:i}", "event", "a\nb", "n", 3));
	read_now(ends[0], text, sizeof text);
	assert_string_equal(text, "{\"event\":\"a\\nb\",\"n\":3}\n");
	put(&l, json_object());
	put(&l, NULL); /* no line */
	read_now(ends[0], text, sizeof text);
	assert_string_equal(text, "{}\n");
	tw_json_lines_close(&l);
	tw_json_lines_close(&l);
	put(&l, json_object()); /* nobody reads */
	close(ends[0]);
	assert_int_equal(times, 0);
	line = tw_json_line(json_true()); /* not an object, so it has no line */
	assert_null(line);
}

static void a_full_disk_is_said_once(void **state)
{
	for (int patient = 0; patient < 2; patient++) {
		struct tw_json_lines l = { .log = &log_,
					   .name = "runs/a/log.jsonl",
					   .patient = patient };

		times = 0;
		l.file = fopen("/dev/full", "a");
		assert_non_null(l.file);
		for (int k = 0; k < 3; k++)
			put(&l, json_object());
		assert_int_equal(times, 1);
		assert_string_equal(said, patient ? "run: runs/a/log.jsonl cannot be written: "
						    "No space left on device"
						  : "run: runs/a/log.jsonl cannot be written any "
						    "more: No space left on device");
		assert_int_equal(l.file != NULL, patient);
		tw_json_lines_close(&l);
	}
}

static void a_patient_one_goes_on_when_there_is_space(void **state)
{
	struct tw_json_lines l = { .log = &log_, .name = "x", .patient = true };
	char path[] = "/tmp/thalweg-lines-XXXXXX", text[200] = "";
	const int file = mkstemp(path), full = open("/dev/full", O_WRONLY);

	assert_true(file >= 0 && full >= 0);
	unlink(path);
	l.file = fdopen(full, "a");
	put(&l, json_pack("{s:i}", "lost", 1));
	dup2(file, full); /* now there is space */
	put(&l, json_pack("{s:i}", "kept", 2));
	assert_true(pread(file, text, sizeof text - 1, 0) > 0);
	assert_non_null(strstr(text, "{\"kept\":2}\n"));
	tw_json_lines_close(&l);
	close(file);
}

static void a_reader_who_left_is_not_mentioned(void **state)
{
	struct tw_json_lines l = { .log = &log_ };
	int ends[2];

	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe(ends), 0);
	l.file = fdopen(ends[1], "w");
	close(ends[0]);
	times = 0;
	put(&l, json_object());
	assert_int_equal(times, 0);
	assert_null(l.file);
}

static void a_file_that_cannot_be_is_refused(void **state)
{
	struct tw_error why = { 0 };
	struct tw_json_lines l;

	assert_int_equal(tw_json_lines_open(&l, "/no/such/folder/x", NULL, &why), TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "--log: /no/such/folder/x cannot be written: No such"));
	assert_null(l.file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_there_at_once),
		cmocka_unit_test(a_full_disk_is_said_once),
		cmocka_unit_test(a_patient_one_goes_on_when_there_is_space),
		cmocka_unit_test(a_reader_who_left_is_not_mentioned),
		cmocka_unit_test(a_file_that_cannot_be_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
