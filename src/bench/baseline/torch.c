/* SPDX-License-Identifier: Apache-2.0 */
/* torch.c - PyTorch in its own process, asked one thing after the other. */
#include "bench/baseline/torch.h"

#include "base/machine/isa.h"
#include "base/json_lines.h"
#include "metrics/progress.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ARGS_MAX 8

extern const char tw_torch_program[]; /* made from torch_bench.py */

/* --- the child --- */

enum tw_status tw_torch_start(struct tw_torch *t, const char *python, const char *const *args,
			      struct tw_error *why)
{
	/* it keeps to our instruction set; where we use all that there is, so does it */
	const char *limit = tw_isa() < tw_isa_machine() ? tw_isa_name(tw_isa()) : "all";
	const char *argv[ARGS_MAX + 5] = { python, "-c", tw_torch_program, limit };
	int ends[2], error;

	*t = (struct tw_torch){ .fill = 0 };
	for (size_t i = 0; args && args[i] && i < ARGS_MAX; i++)
		argv[4 + i] = args[i];
	/* A socket, not pipes: writing to a child that is gone must not be a signal. */
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return tw_fail(why, TW_IO, "no socket for %s: %s", python, strerror(errno));
	/* it speaks through the socket, its complaints go nowhere, and it does not stay behind */
	error = tw_child_exec(
		&t->child,
		&(struct tw_child_how){ .fd = (int[]){ ends[1], ends[1], TW_CHILD_NOTHING },
					.death = SIGKILL },
		argv);
	close(ends[1]);
	if (error) {
		t->child = (struct tw_child){ .pid = 0 };
		close(ends[0]);
		return tw_fail(why, TW_IO, "no process for %s: %s", python, strerror(error));
	}
	t->fd = ends[0];
	return TW_OK;
}

void tw_torch_stop(struct tw_torch *t)
{
	if (!t->child.pid)
		return;
	close(t->fd);
	tw_child_kill(&t->child); /* it has nothing to put in order */
	t->child = (struct tw_child){ .pid = 0 };
}

/* --- talking --- */

static enum tw_status send_all(const struct tw_torch *t, const char *text, struct tw_error *why)
{
	if (!t->child.pid)
		return tw_fail(why, TW_IO, "PyTorch's process is gone");
	for (size_t left = strlen(text); left;) {
		const ssize_t k = send(t->fd, text, left, MSG_NOSIGNAL);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return tw_fail(why, TW_IO, "PyTorch's process is gone");
		text += k;
		left -= (size_t)k;
	}
	return TW_OK;
}

enum tw_status tw_torch_tell(struct tw_torch *t, json_t *request, struct tw_error *why)
{
	char *line = request ? tw_json_line(request) : NULL;
	enum tw_status status = line ? send_all(t, line, why)
				     : tw_fail(why, TW_NO_MEMORY, "no memory for a request");

	free(line);
	json_decref(request);
	return status;
}

/* One more portion of bytes, or a reason why there is none. */
static enum tw_status receive(struct tw_torch *t, int64_t deadline, struct tw_error *why)
{
	const int64_t left = deadline - tw_clock();
	struct pollfd p = { .fd = t->fd, .events = POLLIN };
	ssize_t n;

	if (t->fill == sizeof t->line)
		return tw_fail(why, TW_IO, "PyTorch's process sends lines that are too long");
	if (left <= 0)
		return tw_fail(why, TW_IO, "PyTorch's process did not answer in time");
	if (poll(&p, 1, (int)(left / (TW_SECOND / 1000)) + 1) <= 0)
		return TW_OK; /* asked again, until the deadline */
	n = recv(t->fd, t->line + t->fill, sizeof t->line - t->fill, MSG_DONTWAIT);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return TW_OK;
	if (n <= 0)
		return tw_fail(why, TW_IO, "PyTorch's process ended before it answered");
	t->fill += (size_t)n;
	return TW_OK;
}

/* The line that ends at `end`; the rest stays for the next time. */
static enum tw_status take_line(struct tw_torch *t, const char *end, json_t **answer,
				struct tw_error *why)
{
	const size_t n = (size_t)(end - t->line);
	json_t *said = json_loadb(t->line, n, 0, NULL);
	const char *wrong = json_string_value(json_object_get(said, "error"));
	enum tw_status status = TW_OK;

	t->fill -= n + 1;
	memmove(t->line, end + 1, t->fill);
	if (!json_is_object(said))
		status = tw_fail(why, TW_IO, "PyTorch's process sends text that is not JSON");
	else if (wrong)
		status = tw_fail(why, TW_IO, "%s", wrong);
	if (status == TW_OK)
		*answer = said;
	else
		json_decref(said);
	return status;
}

enum tw_status tw_torch_hear(struct tw_torch *t, double seconds, json_t **answer,
			     struct tw_error *why)
{
	const int64_t deadline = tw_clock() + (int64_t)(seconds * (double)TW_SECOND);
	enum tw_status status = TW_OK;

	if (!t->child.pid)
		return tw_fail(why, TW_IO, "PyTorch's process is gone");
	while (status == TW_OK) {
		const char *end = memchr(t->line, '\n', t->fill);

		if (end)
			return take_line(t, end, answer, why);
		status = receive(t, deadline, why);
	}
	return status;
}

enum tw_status tw_torch_open(struct tw_torch *t, const char *python, json_t **hello,
			     struct tw_error *why)
{
	const char *const usual[] = { "/usr/bin/python3", "python3", NULL };
	const char *const given[] = { python, NULL };
	const char *const *try = python ? given : usual;
	struct tw_error said = { .status = TW_OK };

	for (size_t i = 0; try[i]; i++) {
		enum tw_status status;

		said = (struct tw_error){ .status = TW_OK };
		status = tw_torch_start(t, try[i], NULL, &said);
		if (status == TW_OK)
			status = tw_torch_hear(t, TW_TORCH_START, hello, &said);
		if (status == TW_OK)
			return TW_OK;
		tw_torch_stop(t);
	}
	return tw_fail(why, TW_ABSENT,
		       "PyTorch is not installed for %s (%.250s), so there is nothing to compare "
		       "with; ./setup --full installs it",
		       python ? python : "python3", said.text);
}

enum tw_status tw_torch_ask(struct tw_torch *t, const char *net, unsigned steps,
			    struct tw_error *why)
{
	return tw_torch_tell(
		t,
		json_pack("{s:s, s:s, s:I}", "do", "run", "net", net, "steps", (json_int_t)steps),
		why);
}

enum tw_status tw_torch_time(struct tw_torch *t, unsigned steps, double *seconds,
			     struct tw_error *why)
{
	json_t *answer = NULL;
	const enum tw_status status = tw_torch_hear(t, TW_TORCH_ANSWER, &answer, why);

	if (status != TW_OK)
		return status;
	*seconds = json_number_value(json_object_get(answer, "seconds")) / steps;
	json_decref(answer);
	if (!(*seconds > 0.0))
		return tw_fail(why, TW_IO, "PyTorch's process reports no time for %u steps", steps);
	return TW_OK;
}

enum tw_status tw_torch_steps(struct tw_torch *t, const char *net, unsigned steps, double *seconds,
			      struct tw_error *why)
{
	const enum tw_status status = tw_torch_ask(t, net, steps, why);

	return status == TW_OK ? tw_torch_time(t, steps, seconds, why) : status;
}
