/* SPDX-License-Identifier: Apache-2.0 */
/* subprocess.c - a program in a folder, output kept for the sentence, and an end after some time.
 *
 * The child leads a process group of its own, so that its children end with it. */
#include "data/subprocess.h"
#include "base/machine/child.h"
#include "base/machine/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define TAIL 400

/* The last bytes of what the child said. */
struct tail {
	char text[TAIL + 1];
	size_t bytes;
};

static int64_t clock_ms(void)
{
	return tw_clock() / 1000000;
}

static void keep_tail(struct tail *t, const char *text, size_t n)
{
	if (n >= TAIL) {
		text += n - TAIL;
		n = TAIL;
	}
	if (t->bytes + n > TAIL) {
		const size_t drop = t->bytes + n - TAIL;

		memmove(t->text, t->text + drop, t->bytes - drop);
		t->bytes -= drop;
	}
	memcpy(t->text + t->bytes, text, n);
	t->bytes += n;
}

/* What it said last; a sentence makes one line of it. */
static const char *line_of(struct tail *t)
{
	while (t->bytes > 0 && (unsigned char)t->text[t->bytes - 1] <= ' ')
		t->bytes--;
	t->text[t->bytes] = 0;
	return t->bytes ? t->text : "it printed nothing";
}

/* Listen until the child closes its output or the time is over: false. */
static bool listen_to(int in, int64_t until, struct tail *t)
{
	char text[4096];

	for (;;) {
		const int64_t left = until - clock_ms();
		struct pollfd p = { .fd = in, .events = POLLIN };
		ssize_t n;

		if (left <= 0)
			return false;
		if (poll(&p, 1, left > 60000 ? 60000 : (int)left) <= 0)
			continue;
		n = read(in, text, sizeof text);
		if (n > 0)
			keep_tail(t, text, (size_t)n);
		else if (n == 0 || errno != EINTR)
			return true;
	}
}

static enum tw_status judge(const char *name, const struct tw_child *c, struct tail *t,
			    struct tw_error *why)
{
	if (c->code == 0)
		return TW_OK;
	if (c->code == 127)
		return tw_fail(why, TW_ABSENT, "%s: cannot be run: %s", name, line_of(t));
	if (c->signal)
		return tw_fail(why, TW_IO, "%s: was killed by signal %d: %s", name, c->signal,
			       line_of(t));
	return tw_fail(why, TW_IO, "%s: failed: %s", name, line_of(t));
}

enum tw_status tw_child_run(const char *folder, const char *const *argv, int seconds,
			    struct tw_error *why)
{
	const int64_t until = clock_ms() + (int64_t)seconds * 1000;
	struct tail t = { .bytes = 0 };
	struct tw_child child = { .pid = 0 };
	int ends[2], error;
	bool done;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return tw_fail(why, TW_IO, "%s: no pipe to it: %s", argv[0], strerror(errno));
	error = tw_child_exec(
		&child,
		&(struct tw_child_how){ .fd = (int[]){ TW_CHILD_NOTHING, ends[1], ends[1] },
					.folder = folder,
					.group = true },
		argv);
	close(ends[1]);
	/* its output may be closed while it still runs: wait no longer than agreed */
	done = !error && listen_to(ends[0], until, &t) &&
	       tw_child_wait(&child, (double)(until - clock_ms()) * 1e-3);
	close(ends[0]);
	if (error)
		return tw_fail(why, error == ENOENT ? TW_ABSENT : TW_IO, "%s: cannot be run: %s",
			       argv[0], strerror(error));
	if (done)
		return judge(argv[0], &child, &t, why);
	tw_child_kill(&child);
	return tw_fail(why, TW_IO, "%s: did not end within %d seconds: %s", argv[0], seconds,
		       line_of(&t));
}
