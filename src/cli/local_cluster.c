/* SPDX-License-Identifier: Apache-2.0 */
/* local_cluster.c - a whole cluster of processes on this machine, connected by socket pairs.
 *
 * Every process has a pair to the master's, and every worker one to every further server.  All are
 * made before the first fork; each process closes the ends that are not its own, so that whoever
 * dies is noticed by the end of the stream. */
#include "cli/local_cluster.h"

#include "cli/processes.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/run_job.h"
#include "spec/oversubscription.h"
#include "run/join.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define END_SECONDS 10.0

struct local {
	const struct tw_call *call;
	struct tw_job *job;
	struct tw_processes children;
	size_t workers, servers; /* servers: the further ones */
	/* ends; -1: closed.  Children: workers, then servers. */
	int *master; /* of child i at the master's */
	int *own;    /* of child i at its own */
	int *there;  /* of worker w and server s, at w * servers + s: the worker's */
	int *here;   /* ... the server's */
	int *all;
	size_t ends;
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

static enum tw_status make_pairs(struct local *l, struct tw_error *why)
{
	const size_t n = child_count(l), cross = l->workers * l->servers;
	bool good = true;

	l->ends = 2 * (n + cross);
	l->all = tw_heap_system.get(&tw_heap_system, l->ends * sizeof *l->all);
	if (!l->all)
		return tw_fail(why, TW_NO_MEMORY, "no memory for %zu processes", n);
	for (size_t k = 0; k < l->ends; k++)
		l->all[k] = -1;
	l->master = l->all;
	l->own = l->master + n;
	l->there = l->own + n;
	l->here = l->there + cross;
	allow_files(l->ends + 256);
	for (size_t i = 0; i < n && good; i++)
		good = make_pair(&l->master[i], &l->own[i]);
	for (size_t k = 0; k < cross && good; k++)
		good = make_pair(&l->there[k], &l->here[k]);
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

/* Close all ends but those of child i; the routes of a worker, or a server's accepted pairs, go to
 * `mine` in order. */
static void keep_own(struct local *l, size_t i, int *mine)
{
	const int master = l->own[i];

	l->own[i] = -1;
	for (size_t k = 0; k < l->workers * l->servers; k++) {
		const size_t w = k / l->servers, s = k % l->servers;

		if (i == w) {
			mine[s] = l->there[k];
			l->there[k] = -1;
		} else if (i == l->workers + s) {
			mine[w] = l->here[k];
			l->here[k] = -1;
		}
	}
	for (size_t k = 0; k < l->ends; k++)
		close_end(&l->all[k]);
	l->own[i] = master;
}

static enum tw_status enter(struct local *l, size_t i, struct tw_error *why)
{
	const bool server = i >= l->workers;
	const size_t n = server ? l->workers : l->servers;
	int *mine = tw_heap_system.get(&tw_heap_system, (n + 1) * sizeof *mine);
	struct tw_tcp_route *route = tw_heap_system.get(&tw_heap_system, (n + 1) * sizeof *route);
	struct tw_tcp_setup net;
	struct tw_join_request q = {
		.server = server,
		.net = &net,
		.log = l->call->log,
		.interrupted = tw_signals_count_term(),
		.job = l->job,
		.wish = server ? (uint32_t)(i - l->workers) + 2 : TW_NODE_NEW,
	};
	json_t *result = NULL;
	enum tw_status status;

	if (!mine || !route)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the connections");
	keep_own(l, i, mine);
	tw_tcp_setup_init(&net);
	q.master_fd = l->own[i];
	if (server) {
		net.accepted = mine;
		net.accepts = n;
	} else {
		for (size_t s = 0; s < n; s++)
			route[s] = (struct tw_tcp_route){ .node = (uint32_t)s + 2, .fd = mine[s] };
		q.route = route;
		q.routes = n;
	}
	status = tw_join(&q, &result, why);
	json_decref(result);
	tw_tcp_setup_release(&net);
	tw_heap_system.put(&tw_heap_system, mine);
	tw_heap_system.put(&tw_heap_system, route);
	return status;
}

static _Noreturn void child_main(struct local *l, size_t i)
{
	const bool server = i >= l->workers;
	struct tw_error why = { .status = TW_OK };
	enum tw_status status;

	tw_terminal_child(l->call->terminal);
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
	for (size_t k = child_count(l); k < l->ends; k++)
		close_end(&l->all[k]);
	return status == TW_OK ? tw_processes_watch(&l->children, why) : status;
}

static enum tw_status check_crowd(const struct local *l, struct tw_error *why)
{
	char crowd[250];

	if (child_count(l) > TW_CROWD_PROCESSES)
		return tw_fail(why, TW_BAD_INPUT,
			       "cluster.workers, cluster.servers: %zu processes are more than "
			       "--processes starts on one machine; use %u at most, or `thalweg "
			       "sim`, which takes up to 100000 workers",
			       child_count(l), TW_CROWD_PROCESSES);
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
		.workers = job->cluster.workers,
		.servers = job->cluster.servers > 1 ? job->cluster.servers - 1 : 0,
	};
	struct tw_tcp_setup net;
	enum tw_status status = check_crowd(&l, why);

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
	tw_heap_system.put(&tw_heap_system, l.all);
	return status;
}
