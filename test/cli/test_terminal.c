/* SPDX-License-Identifier: Apache-2.0 */
/* test_terminal.c - one progress line on a terminal, plain and rare lines elsewhere. */
#include "base/skipping.h"
#include "cli/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static const struct tw_progress half = {
	.dealt = 1000,
	.positions = 2000,
	.epochs = 1.5,
	.rate = 123.0,
	.left = 250.0,
	.loss = 0.25,
	.accuracy = -1.0,
	.staleness = 3.5,
	.live = 4,
};

/* Run `speak` with stderr going to `fd`. */
static void with_stderr(int fd, void (*speak)(struct tw_terminal *))
{
	const int before = dup(2);
	struct tw_terminal t;

	fflush(stderr);
	assert_true(before >= 0 && dup2(fd, 2) == 2);
	tw_terminal_init(&t, false, false);
	speak(&t);
	dup2(before, 2);
	close(before);
}

static void read_from(int fd, char *out, size_t room)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t got = 0;
	ssize_t n = 1;

	/* a terminal hands its bytes over when it likes: until nothing has come for a while */
	fcntl(fd, F_SETFL, O_NONBLOCK);
	while (n > 0 && got < room - 1 && poll(&p, 1, 500) == 1) {
		n = read(fd, out + got, room - 1 - got);
		got += n > 0 ? (size_t)n : 0;
	}
	out[got] = 0;
}

static void the_text_has_everything(void **state)
{
	struct tw_progress p = half;
	char text[200];

	tw_terminal_text(&p, text, sizeof text);
	assert_string_equal(text, "epoch 1.50 (50 %), loss 0.25, staleness 3.50, 4 workers, "
				  "123 samples/s, 4 min left");
	p.accuracy = 0.75;
	p.left = -1.0;
	tw_terminal_text(&p, text, sizeof text);
	assert_string_equal(text, "epoch 1.50 (50 %), loss 0.25, accuracy 0.7500, staleness 3.50, "
				  "4 workers, 123 samples/s");
	p.optimised.iterations = 7;
	p.optimised.evaluations = 9;
	p.optimised.gradient = 0.125;
	p.optimised.step = 1;
	p.accuracy = -1.0;
	tw_terminal_text(&p, text, sizeof text);
	assert_string_equal(text, "iteration 7, 9 evaluations, gradient 0.125, step 1, loss 0.25, "
				  "4 workers, 123 samples/s");
	for (size_t room = 1; room < sizeof text; room++) {
		text[room] = 0x55;
		tw_terminal_text(&half, text, room);
		assert_true(strlen(text) < room && text[room] == 0x55);
	}
}

static void speak(struct tw_terminal *t)
{
	for (int i = 0; i < 1000; i++)
		tw_terminal_show(t, &half);
	tw_log_line(&t->log, TW_WARNING, "worker 1", "it is late");
	tw_terminal_clear(t);
}

static void a_terminal_gets_one_line(void **state)
{
	const int master = posix_openpt(O_RDWR | O_NOCTTY);
	char text[8000];
	const char *s;
	size_t drawn = 0;
	int slave;

	if (master < 0)
		SKIP("there is no terminal to give, as in a bare container");
	assert_int_equal(grantpt(master) | unlockpt(master), 0);
	slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	assert_true(slave >= 0);
	with_stderr(slave, speak);
	read_from(master, text, sizeof text);
	/* drawn once, wiped for the log line, drawn again, wiped at the end */
	for (s = text; (s = strstr(s, "epoch 1.50")); s++)
		drawn++;
	assert_in_range(drawn, 2, 20); /* a few more on a machine that is slow */
	assert_non_null(strstr(text, "\r\033[Kthalweg: worker 1: it is late\r\n"));
	assert_string_equal(text + strlen(text) - 4, "\r\033[K");
	/* it never scrolls: one end of line, the log's */
	assert_ptr_equal(strchr(text, '\n'), strrchr(text, '\n'));
	close(slave);
	close(master);
}

static void a_pipe_gets_plain_lines_now_and_then(void **state)
{
	int ends[2];
	char text[2000];

	assert_int_equal(pipe(ends), 0);
	with_stderr(ends[1], speak);
	read_from(ends[0], text, sizeof text);
	assert_string_equal(text, "thalweg: worker 1: it is late\n");
	close(ends[0]);
	close(ends[1]);
}

static void speak_late(struct tw_terminal *t)
{
	t->spoke = tw_clock() - 60 * TW_SECOND;
	tw_terminal_show(t, &half);
	tw_terminal_show(t, &half);
}

static void read_late(struct tw_terminal *t)
{
	t->spoke = tw_clock() - 60 * TW_SECOND;
	tw_terminal_reading(t, "a.csv", "parsing", 252000000, 1001000076);
	tw_terminal_reading(t, "a.csv", "parsing", 256000000, 1001000076);
	t->quiet = true;
	t->spoke = tw_clock() - 60 * TW_SECOND;
	tw_terminal_reading(t, "a.csv", "parsing", 260000000, 1001000076);
}

static void a_large_file_says_how_much_was_read(void **state)
{
	int ends[2];
	char text[2000];

	assert_int_equal(pipe(ends), 0);
	with_stderr(ends[1], read_late);
	read_from(ends[0], text, sizeof text);
	assert_string_equal(text, "thalweg: progress: parsing a.csv: 252 of 1001 MB (25 %)\n");
	close(ends[0]);
	close(ends[1]);
}

static void a_long_run_says_where_it_is(void **state)
{
	int ends[2];
	char text[2000];

	assert_int_equal(pipe(ends), 0);
	with_stderr(ends[1], speak_late);
	read_from(ends[0], text, sizeof text);
	assert_string_equal(text,
			    "thalweg: progress: epoch 1.50 (50 %), loss 0.25, staleness 3.50, "
			    "4 workers, 123 samples/s, 4 min left\n");
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_text_has_everything),
		cmocka_unit_test(a_terminal_gets_one_line),
		cmocka_unit_test(a_pipe_gets_plain_lines_now_and_then),
		cmocka_unit_test(a_long_run_says_where_it_is),
		cmocka_unit_test(a_large_file_says_how_much_was_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
