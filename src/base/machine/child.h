/* SPDX-License-Identifier: Apache-2.0 */
/* child.h - one process that this one has started: the only place that forks and waits.
 *
 *  (1) a child is waited for exactly once; then it is `over`, and its number is signalled no more:
 *      it may be another process's by then.
 *  (2) between fork and its own first line a child runs no handler of ours: signals are blocked
 *      until its own are set.
 *  (3) a child with `death` does not survive us, even if we die before it has asked for that.
 *
 * Nothing here locks: whoever looks at a child from two threads has a lock for that. */
#ifndef TW_BASE_CHILD_H
#define TW_BASE_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What shells add to the number of a signal to make an exit code of it. */
#define TW_CHILD_SIGNAL 128

/* All zeros: no child. */
struct tw_child {
	pid_t pid; /* 0: none was started */
	bool over;
	bool group; /* it leads a process group, which is signalled with it */
	int code;   /* once over: exit code, or TW_CHILD_SIGNAL + signal; -1: lost, nobody knows */
	int signal; /* once over: what ended it; 0: it ended by itself */
	uint64_t peak; /* once over: the most memory it had, in bytes */
};

#define TW_CHILD_OURS    (-1) /* keep the descriptor that we have */
#define TW_CHILD_NOTHING (-2) /* /dev/null */

/* How it starts.  All zeros: as we are, except for its signals. */
struct tw_child_how {
	const int *fd;      /* its descriptors 0, 1 and 2; NULL: ours */
	const char *folder; /* where it runs; NULL: here */
	int death;  /* the signal that it gets when the thread that started it ends; 0: none */
	bool group; /* lead a process group: what the child starts ends with it */
	bool deaf;  /* ignore SIGINT and SIGHUP, which a terminal sends to everybody */
	void (*term)(int); /* what SIGTERM calls in a child that is forked; NULL: it kills */
};

/* Fork: 0 in the child, which must leave by _exit; else its number; -1 with errno.  Without `deaf`
 * it takes SIGINT as programs do. */
pid_t tw_child_fork(struct tw_child *c, const struct tw_child_how *how);
/* Start the program argv[0], found in PATH, with no signal blocked and SIGPIPE not ignored.  0 or
 * an errno, which is also that of a failed exec: ENOENT says that there is no such program. */
int tw_child_exec(struct tw_child *c, const struct tw_child_how *how, const char *const *argv);

/* Is it over?  Does not wait.  True where there is none. */
bool tw_child_look(struct tw_child *c);
/* Wait until it is over; false if it still runs after so many seconds (INFINITY: for ever). */
bool tw_child_wait(struct tw_child *c, double seconds);
/* Nothing for one that is over. */
void tw_child_signal(const struct tw_child *c, int signal_);
/* Kill it with its group, and wait for its end. */
void tw_child_kill(struct tw_child *c);

#endif
