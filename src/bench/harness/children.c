/* SPDX-License-Identifier: Apache-2.0 */
/* children.c - processes of a bench: forked, waited for, and none left behind. */
#include "bench/harness/children.h"

#include "base/heap.h"
#include "metrics/progress.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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
	c->child = tw_heap_zeros(&tw_heap_system, room * sizeof *c->child);
	c->why = tw_shared_new(room * sizeof *c->why);
	if (c->child && c->why)
		return TW_OK;
	tw_children_release(c);
	return tw_fail(why, TW_NO_MEMORY, "no memory for %zu processes", room);
}

enum tw_status tw_children_add(struct tw_children *c, tw_child_program run, void *arg,
			       struct tw_error *why)
{
	const size_t number = c->count;
	pid_t pid;

	if (number >= c->room)
		return tw_fail(why, TW_NO_ROOM, "no room for process %zu", number);
	pid = tw_child_fork(&c->child[number], &(struct tw_child_how){ .death = SIGKILL });
	if (pid < 0)
		return tw_fail(why, TW_IO, "cannot start process %zu: %s", number, strerror(errno));
	if (!pid)
		_exit(run(arg, number, &c->why[number]) == TW_OK ? 0 : 1);
	c->count++;
	return TW_OK;
}

/* Has it ended?  *why is the sentence if it did not end well. */
static bool ended(struct tw_children *c, size_t number, struct tw_error *why)
{
	struct tw_child *k = &c->child[number];

	if (!tw_child_look(k))
		return false;
	if (k->code == 0)
		return true;
	if (c->why[number].status != TW_OK)
		*why = c->why[number];
	else if (k->signal)
		tw_fail(why, TW_IO, "process %zu was killed by signal %d", number, k->signal);
	else
		tw_fail(why, TW_IO, "process %zu ended without a report", number);
	return true;
}

/* How many still run; the first failure is in *why. */
static size_t look(struct tw_children *c, struct tw_error *why)
{
	size_t running = 0;

	for (size_t k = 0; k < c->count && why->status == TW_OK; k++)
		running += !ended(c, k, why);
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
	for (size_t k = 0; k < c->count; k++) /* all at once, then one after the other */
		tw_child_signal(&c->child[k], SIGKILL);
	for (size_t k = 0; k < c->count; k++)
		tw_child_kill(&c->child[k]);
	tw_heap_system.put(&tw_heap_system, c->child);
	tw_shared_free(c->why, c->room * sizeof *c->why);
	*c = (struct tw_children){ .child = NULL };
}
