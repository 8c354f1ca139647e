/* SPDX-License-Identifier: Apache-2.0 */
/* children.c - processes of a bench: forked, waited for, and none left behind. */
#include "bench/children.h"

#include "job/progress.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOOK_MS     5   /* how often we look after few children ... */
#define LOOK_ALL_MS 100 /* ... and after many */
#define FEW         16

void *tw_shared_new(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

void tw_shared_free(void *memory, size_t bytes)
{
	if (memory)
		munmap(memory, bytes);
}

enum tw_status tw_children_init(struct tw_children *c, size_t room, struct tw_error *why)
{
	*c = (struct tw_children){ .room = room };
	c->child = tw_shared_new(room * sizeof *c->child);
	return c->child ? TW_OK : tw_fail(why, TW_NO_MEMORY, "no memory for %zu processes", room);
}

static _Noreturn void be_child(struct tw_children *c, size_t number, pid_t parent,
			       tw_child_program run, void *arg)
{
	struct tw_child *me = &c->child[number];

	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) /* it died before we asked */
		_exit(1);
	_exit(run(arg, number, &me->why) == TW_OK ? 0 : 1);
}

enum tw_status tw_children_add(struct tw_children *c, tw_child_program run, void *arg,
			       struct tw_error *why)
{
	const pid_t parent = getpid();
	const size_t number = c->count;
	pid_t pid;

	if (number >= c->room)
		return tw_fail(why, TW_NO_ROOM, "no room for process %zu", number);
	pid = fork();
	if (pid < 0)
		return tw_fail(why, TW_IO, "cannot start process %zu: %s", number, strerror(errno));
	if (!pid)
		be_child(c, number, parent, run, arg);
	c->child[number].pid = pid;
	c->count++;
	return TW_OK;
}

/* Has it ended?  *why is the sentence if it did not end well. */
static bool ended(struct tw_child *k, size_t number, struct tw_error *why)
{
	int code = 0;
	const pid_t pid = waitpid(k->pid, &code, WNOHANG);

	if (pid == 0 || (pid < 0 && errno == EINTR))
		return false;
	k->pid = 0;
	if (pid > 0 && WIFEXITED(code) && WEXITSTATUS(code) == 0)
		return true;
	if (k->why.status != TW_OK)
		*why = k->why;
	else if (pid > 0 && WIFSIGNALED(code))
		tw_fail(why, TW_IO, "process %zu was ended by signal %d", number, WTERMSIG(code));
	else
		tw_fail(why, TW_IO, "process %zu ended without a word", number);
	return true;
}

/* How many still run; the first failure is in *why. */
static size_t look(struct tw_children *c, struct tw_error *why)
{
	size_t running = 0;

	for (size_t k = 0; k < c->count && why->status == TW_OK; k++)
		if (c->child[k].pid)
			running += !ended(&c->child[k], k, why);
	return running;
}

enum tw_status tw_children_wait(struct tw_children *c, double seconds, struct tw_error *why)
{
	const int64_t until = tw_clock() + (int64_t)(seconds * (double)TW_SECOND);
	const long pause = c->count <= FEW ? LOOK_MS : LOOK_ALL_MS;
	struct tw_error first = { .status = TW_OK };
	size_t running;

	while ((running = look(c, &first)) > 0 && first.status == TW_OK && tw_clock() < until)
		nanosleep(&(struct timespec){ .tv_nsec = pause * 1000000 }, NULL);
	if (running && first.status == TW_OK)
		tw_fail(&first, TW_IO, "%zu of %zu processes did not end within %.0f s", running,
			c->count, seconds);
	if (first.status == TW_OK)
		return TW_OK;
	tw_children_release(c);
	return tw_fail(why, first.status, "%s", first.text);
}

void tw_children_release(struct tw_children *c)
{
	for (size_t k = 0; k < c->count; k++)
		if (c->child[k].pid)
			kill(c->child[k].pid, SIGKILL);
	for (size_t k = 0; k < c->count; k++)
		while (c->child[k].pid && waitpid(c->child[k].pid, NULL, 0) < 0 && errno == EINTR)
			;
	tw_shared_free(c->child, c->room * sizeof *c->child);
	*c = (struct tw_children){ .child = NULL };
}
