/* SPDX-License-Identifier: Apache-2.0 */
/* local_cluster.c - a whole cluster of processes on this machine, connected by socket pairs.
 *
 * Every process has a pair to the master's, and every worker one to every further server, and to
 * every other worker where there are no servers or workers are several cells.  All are made before
 * the first fork; each process closes the ends that are not its own, so that whoever dies is
 * noticed by the end of the stream. */
#include "cli/local_cluster.h"

#include "base/machine/cores.h"
#include "cli/processes.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/run_job.h"
#include "run/rate_test.h"
#include "spec/oversubscription.h"
#include "run/join.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define END_SECONDS 10.0

/* A pair between two children: which of them, and their ends; -1: closed. */
struct crossing {
	size_t dialler, listener;
	int there, here; /* the dialler's, the listener's */
};

struct local {
	const struct tw_call *call;
	struct tw_job *job;
	struct tw_processes children;
	size_t workers, servers; /* workers, or their cells; the further servers */
	bool meet;               /* workers are connected to each other */
	/* Children: workers, then servers. */
	int *master; /* end of child i at the master's; -1: closed */
	int *own;    /* ... at its own */
	struct crossing *cross;
	size_t crossings;
};

static size_t child_count(const struct local *l)
{
	return l->workers + l->servers;
}

/* --- the pairs -------------------------------------------------------------------------------- */

static bool make_pair(int *a, int *b)
{
	int fd[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd))
		return false;
	*a = fd[0];
	*b = fd[1];
	return true;
}

static void allow_files(size_t count)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= count)
		return;
	limit.rlim_cur = count < limit.rlim_max ? count : limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/* Who dials whom: workers the servers; of two workers the later one. */
static void list_crossings(struct local *l)
{
	struct crossing *c = l->cross;

	for (size_t w = 0; w < l->workers; w++) {
		for (size_t k = 0; k < l->servers; k++)
			*c++ = (struct crossing){ w, l->workers + k, -1, -1 };
		for (size_t k = 0; k < w && l->meet; k++)
			*c++ = (struct crossing){ w, k, -1, -1 };
	}
}

static enum tw_status make_pairs(struct local *l, struct tw_error *why)
{
	const size_t n = child_count(l);
	bool good = true;

	l->crossings = l->workers * l->servers + (l->meet ? l->workers * (l->workers - 1) / 2 : 0);
	l->master = tw_heap_system.get(&tw_heap_system, 2 * n * sizeof *l->master);
	l->cross = tw_heap_system.get(&tw_heap_system, (l->crossings + 1) * sizeof *l->cross);
	if (!l->master || !l->cross)
		return tw_fail(why, TW_NO_MEMORY, "no memory for %zu processes", n);
	l->own = l->master + n;
	for (size_t k = 0; k < 2 * n; k++)
		l->master[k] = -1;
	list_crossings(l);
	allow_files(2 * (n + l->crossings) + 256);
	for (size_t i = 0; i < n && good; i++)
		good = make_pair(&l->master[i], &l->own[i]);
	for (size_t k = 0; k < l->crossings && good; k++)
		good = make_pair(&l->cross[k].there, &l->cross[k].here);
	if (!good)
		return tw_fail(why, TW_IO,
			       "cannot connect %zu processes: %s; raise the limit of open "
			       "files (ulimit -n), or use fewer workers or servers",
			       n, strerror(errno));
	return TW_OK;
}

static void close_end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* --- a child ---------------------------------------------------------------------------------- */

/* What a child asks the master to be: a server's node, a worker's number if it matters. */
static uint32_t wish_of(const struct local *l, size_t i)
{
	if (i >= l->workers)
		return (uint32_t)(i - l->workers) + 2;
	return l->meet ? (uint32_t)i + 1 : TW_NODE_NEW;
}

/* The ends of one child. */
struct ends {
	struct tw_tcp_route *route;
	int *accepted;
	size_t routes, accepts;
};

/* Close all ends but those of child i. */
static void keep_own(struct local *l, size_t i, struct ends *mine)
{
	for (size_t k = 0; k < l->crossings; k++) {
		struct crossing *c = &l->cross[k];

		if (c->dialler == i) {
			mine->route[mine->routes++] =
				(struct tw_tcp_route){ c->listener < l->workers ? TW_WORKER
										: TW_SERVER,
						       wish_of(l, c->listener), c->there };
			c->there = -1;
		} else if (c->listener == i) {
			mine->accepted[mine->accepts++] = c->here;
			c->here = -1;
		}
		close_end(&c->there);
		close_end(&c->here);
	}
	for (size_t k = 0; k < child_count(l); k++) {
		close_end(&l->master[k]);
		if (k != i)
			close_end(&l->own[k]);
	}
}

/* Every process has a file of its own.  False: there is none. */
static bool name_trace(const struct local *l, size_t i, char *out, size_t room)
{
	const char *file = ((const struct tw_work_flags *)l->call->flags)->trace;
	const bool server = i >= l->workers;

	if (!file || !*file)
		return false;
	snprintf(out, room, "%s.%s-%zu", file, server ? "server" : "worker",
		 server ? i - l->workers + 1 : i + 1);
	return true;
}

static enum tw_status enter(struct local *l, size_t i, struct tw_error *why)
{
	const size_t n = child_count(l);
	struct ends mine = {
		.route = tw_heap_system.get(&tw_heap_system, n * sizeof *mine.route),
		.accepted = tw_heap_system.get(&tw_heap_system, n * sizeof *mine.accepted),
	};
	struct tw_tcp_setup net;
	struct tw_join_request q = {
		.server = i >= l->workers,
		.net = &net,
		.log = l->call->log,
		.interrupted = tw_signals_count_term(),
		.job = l->job,
		.wish = wish_of(l, i),
	};
	char trace[4200];
	json_t *result = NULL;
	enum tw_status status;

	if (name_trace(l, i, trace, sizeof trace))
		q.trace = trace;
	if (!mine.route || !mine.accepted)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the connections");
	keep_own(l, i, &mine);
	tw_tcp_setup_init(&net);
	net.accepted = mine.accepted;
	net.accepts = mine.accepts;
	q.master_fd = l->own[i];
	q.route = mine.route;
	q.routes = mine.routes;
	status = tw_join(&q, &result, why);
	json_decref(result);
	tw_tcp_setup_release(&net);
	tw_heap_system.put(&tw_heap_system, mine.route);
	tw_heap_system.put(&tw_heap_system, mine.accepted);
	return status;
}

static _Noreturn void child_main(struct local *l, size_t i)
{
	const bool server = i >= l->workers;
	struct tw_error why = { .status = TW_OK };
	enum tw_status status;

	tw_terminal_child(l->call->terminal);
	if (tw_plan_has_peers(&l->job->plan)) /* all compute, then all of them exchange */
		tw_cores_keep_share((uint32_t)i, (uint32_t)l->workers);
	status = enter(l, i, &why);
	if (status != TW_OK && status != TW_INTERRUPTED)
		tw_log_line(l->call->log, TW_WARNING, server ? "server" : "worker", "%s", why.text);
	_exit(status == TW_OK            ? TW_EXIT_DONE
	      : status == TW_INTERRUPTED ? TW_EXIT_INTERRUPTED
					 : TW_EXIT_FAILED);
}

/* --- all of it -------------------------------------------------------------------------------- */

static enum tw_status start(struct local *l, struct tw_error *why)
{
	enum tw_status status = make_pairs(l, why);

	if (status == TW_OK)
		status = tw_processes_init(&l->children, l->call->log, child_count(l), why);
	for (size_t i = 0; i < child_count(l) && status == TW_OK; i++) {
		const bool server = i >= l->workers;
		const pid_t pid = tw_processes_fork(&l->children, SIGKILL, why, "%s process %zu",
						    server ? "server" : "worker",
						    server ? i - l->workers + 1 : i + 1);

		if (pid == 0)
			child_main(l, i);
		if (pid < 0)
			status = why->status;
	}
	for (size_t i = 0; l->own && i < child_count(l); i++)
		close_end(&l->own[i]);
	for (size_t k = 0; l->cross && k < l->crossings; k++) {
		close_end(&l->cross[k].there);
		close_end(&l->cross[k].here);
	}
	return status == TW_OK ? tw_processes_watch(&l->children, why) : status;
}

static enum tw_status check_crowd(const struct local *l, struct tw_error *why)
{
	char crowd[250];

	if (child_count(l) > TW_CROWD_PROCESSES)
		return tw_fail(why, TW_BAD_INPUT,
			       "cluster.workers, cluster.servers: %zu processes are more than "
			       "--processes starts on one machine; use %u at most, or `thalweg "
			       "sim`, which takes up to %u workers",
			       child_count(l), TW_CROWD_PROCESSES, TW_CROWD_SIM);
	if (tw_oversubscribed((uint32_t)l->workers, "processes", crowd, sizeof crowd))
		tw_log_line(l->call->log, TW_WARNING, "", "cluster.workers: %s", crowd);
	return TW_OK;
}

enum tw_status tw_local_run(const struct tw_call *call, struct tw_job *job, const char *dir,
			    struct tw_error *why)
{
	struct local l = {
		.call = call,
		.job = job,
		.workers = (size_t)job->cluster.workers * tw_plan_cells(&job->plan),
		.servers = job->plan.crew.servers > 1 ? job->plan.crew.servers - 1 : 0,
		.meet = tw_plan_has_peers(&job->plan) || tw_plan_cells(&job->plan) > 1,
	};
	struct tw_tcp_setup net;
	enum tw_status status = check_crowd(&l, why);

	if (status == TW_OK)
		status = tw_job_settle_rate(job, call->log, why);
	if (status == TW_OK)
		status = start(&l, why);

	tw_tcp_setup_init(&net);
	if (status == TW_OK) {
		net.accepted = l.master;
		net.accepts = child_count(&l);
		status = tw_work_run(call, job, dir, &net, why);
	}
	/* processes that know of the end leave by themselves; after a failure there is nothing to
	 * keep */
	l.children.ending = status != TW_OK;
	if (status == TW_INTERRUPTED)
		tw_processes_signal(&l.children, SIGTERM);
	tw_processes_end(&l.children,
			 status == TW_OK || status == TW_INTERRUPTED ? END_SECONDS : 0);
	tw_processes_release(&l.children);
	tw_tcp_setup_release(&net);
	tw_heap_system.put(&tw_heap_system, l.master);
	tw_heap_system.put(&tw_heap_system, l.cross);
	return status;
}
