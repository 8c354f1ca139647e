/* SPDX-License-Identifier: Apache-2.0 */
/* harness_tcp.c - the processes of a job in the world tcp, with engines of the bench's. */
#include "bench/harness/harness_tcp.h"

#include "run/placement.h"
#include "world/memory_store.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE (20 * TW_SECOND)

static const struct tw_address loopback = { .host = "127.0.0.1" };

static void shut(int fd[2])
{
	for (int k = 0; k < 2; k++)
		if (fd[k] >= 0)
			close(fd[k]);
	fd[0] = fd[1] = -1;
}

void tw_harness_tcp_link_close(struct tw_harness_tcp_link *l)
{
	shut(l->pair);
	shut(l->port);
	tw_tls_free(l->tls);
	l->tls = NULL;
}

enum tw_status tw_harness_tcp_link_open(struct tw_harness_tcp_link *l, bool pair, bool tls,
					struct tw_error *why)
{
	const uint8_t key[TW_KEY_BYTES] = "a bench keeps no secrets";
	const struct tw_tls_options options = { .key = key };
	enum tw_status status = TW_OK;

	*l = (struct tw_harness_tcp_link){ .pair = { -1, -1 }, .port = { -1, -1 } };
	if (pair ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, l->pair)
		 : pipe2(l->port, O_CLOEXEC))
		status = tw_fail(why, TW_IO, "no sockets: %s", strerror(errno));
	if (status == TW_OK && tls)
		status = tw_tls_new(&tw_heap_system, &options, &l->tls, why);
	if (status != TW_OK)
		tw_harness_tcp_link_close(l);
	return status;
}

static void tell_port(void *arg, const struct tw_address *bound)
{
	const struct tw_harness_tcp_link *l = arg;
	const ssize_t n = write(l->port[1], &bound->port, sizeof bound->port);

	if (n != sizeof bound->port)
		_exit(1); /* nobody would come */
}

void tw_harness_tcp_serve(struct tw_harness_tcp_link *l, struct tw_tcp_setup *net)
{
	tw_tcp_setup_init(net);
	if (l->pair[0] >= 0) {
		close(l->pair[1]);
		net->accepted = l->pair;
		net->accepts = 1;
		return;
	}
	net->tls = l->tls;
	net->listen = &loopback;
	net->opened = tell_port;
	net->arg = l;
}

enum tw_status tw_harness_tcp_find(struct tw_harness_tcp_link *l, struct tw_address *master,
				   struct tw_error *why)
{
	struct pollfd p = { .fd = l->port[0], .events = POLLIN };
	uint16_t port;

	*master = loopback;
	if (poll(&p, 1, PATIENCE / (TW_SECOND / 1000)) != 1 ||
	    read(l->port[0], &port, sizeof port) != sizeof port)
		return tw_fail(why, TW_IO, "the server did not say where it listens");
	/* for whoever asks next */
	if (write(l->port[1], &port, sizeof port) != sizeof port)
		return tw_fail(why, TW_IO, "the server's port cannot be told: %s", strerror(errno));
	master->port = port;
	return TW_OK;
}

static enum tw_status enter(struct tw_tcp *tcp, struct tw_job *job, struct tw_engine *engine,
			    const struct tw_log *log, struct tw_error *why)
{
	struct tw_store *store = tw_memory_store_new(&tw_heap_system);
	struct tw_placement cast = { .seat = NULL };
	struct tw_ran ran = { 0 };
	struct tw_cluster cluster = {
		.seed = job->plan.seed,
		.engine = engine,
		.store = store,
		.heap = &tw_heap_system,
		.log = log,
	};
	enum tw_status status;

	if (!store ||
	    tw_placement_join(&cast, &job->plan, tw_tcp_node(tcp), false, UINT32_MAX) != TW_OK) {
		status = tw_fail(why, TW_NO_MEMORY, "no memory for the worker");
	} else {
		cluster.seat = cast.seat;
		cluster.seats = cast.seats;
		status = tw_tcp_run(tcp, &cluster, &ran);
		if (status != TW_OK)
			tw_fail(why, status, "the worker failed: %s", ran.error.text);
		tw_totals_release(&ran.totals);
	}
	tw_placement_release(&cast);
	tw_memory_store_free(store);
	return status;
}

enum tw_status tw_harness_tcp_work(struct tw_harness_tcp_link *l, struct tw_job *job,
				   struct tw_engine *engine, const struct tw_log *log,
				   struct tw_error *why)
{
	struct tw_tcp_options o = { .role = TW_TCP_WORKER,
				    .master_fd = l->pair[1],
				    .wish = TW_NODE_NEW,
				    .patience = PATIENCE };
	struct tw_address master;
	struct tw_tcp *tcp = NULL;
	struct tw_tcp_setup net;
	enum tw_status status;

	tw_tcp_setup_init(&net);
	if (l->pair[1] >= 0)
		close(l->pair[0]);
	status = tw_job_finish_plan(job, engine, why);
	if (status == TW_OK && l->pair[1] < 0) {
		status = tw_harness_tcp_find(l, &master, why);
		o.master = &master;
		net.tls = l->tls;
	}
	if (status == TW_OK)
		status = tw_tcp_setup_options(&net, job, engine, log, &o, why);
	o.helpers = 0;
	if (status == TW_OK)
		status = tw_tcp_open(&o, &tcp, why);
	if (status == TW_OK)
		status = enter(tcp, job, engine, log, why);
	tw_tcp_close(tcp);
	tw_tcp_setup_release(&net);
	return status;
}
