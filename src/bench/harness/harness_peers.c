/* SPDX-License-Identifier: Apache-2.0 */
/* harness_peers.c - two workers without a server, each a process, and the process of the master. */
#include "bench/harness/harness_peers.h"

#include "base/machine/cores.h"
#include "bench/harness/children.h"
#include "bench/harness/harness_tcp.h"
#include "run/join.h"
#include "run/run.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE (20 * TW_SECOND)

/* Pairs: the master's with each worker, and that of the workers, whose second end dials. */
enum { BETWEEN = TW_PEERS, PAIRS };

struct peers {
	struct tw_harness_peers *h;
	struct tw_harness_tcp_link link; /* loopback */
	int pair[PAIRS][2];              /* -1: none, or closed */
};

static const struct tw_address anywhere = { .host = "127.0.0.1" };

static void close_end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void close_all(struct peers *p)
{
	for (int k = 0; k < PAIRS; k++)
		for (int end = 0; end < 2; end++)
			close_end(&p->pair[k][end]);
	tw_harness_tcp_link_close(&p->link);
}

static enum tw_status open_all(struct peers *p, struct tw_error *why)
{
	bool good = true;

	p->link = (struct tw_harness_tcp_link){ .pair = { -1, -1 }, .port = { -1, -1 } };
	memset(p->pair, -1, sizeof p->pair);
	if (!p->h->pair)
		return tw_harness_tcp_link_open(&p->link, false, false, why);
	for (int k = 0; k < PAIRS && good; k++)
		good = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p->pair[k]) == 0;
	return good ? TW_OK : tw_fail(why, TW_IO, "no sockets: %s", strerror(errno));
}

/* --- the processes --- */

static enum tw_status lead(void *arg, size_t number, struct tw_error *why)
{
	struct peers *p = arg;
	struct tw_run_request q = { .log = &p->h->log };
	json_t *result = NULL;
	int ends[TW_PEERS];
	struct tw_tcp_setup net;
	const enum tw_status status = p->h->engine(p->h->arg, TW_PEERS, &q.engine, why);

	(void)number;
	if (status != TW_OK)
		return status;
	if (p->h->pair) {
		tw_tcp_setup_init(&net);
		for (int k = 0; k < TW_PEERS; k++) {
			ends[k] = p->pair[k][0];
			close_end(&p->pair[k][1]);
		}
		for (int end = 0; end < 2; end++)
			close_end(&p->pair[BETWEEN][end]);
		net.accepted = ends;
		net.accepts = TW_PEERS;
	} else {
		tw_harness_tcp_serve(&p->link, &net);
	}
	q.net = &net;
	return tw_run(&q, p->h->job, &result, why);
}

/* Of two peers the second one dials. */
static void take_pairs(struct peers *p, uint32_t worker, struct tw_join_request *q,
		       struct tw_tcp_route *route)
{
	*route = (struct tw_tcp_route){ TW_WORKER, 1, p->pair[BETWEEN][1] };
	q->master_fd = p->pair[worker][1];
	q->wish = worker + 1;
	q->net->accepted = &p->pair[BETWEEN][0];
	q->net->accepts = worker == 0;
	q->route = route;
	q->routes = worker != 0;
	for (uint32_t k = 0; k < TW_PEERS; k++) {
		close_end(&p->pair[k][0]);
		if (k != worker)
			close_end(&p->pair[k][1]);
	}
	close_end(&p->pair[BETWEEN][worker == 0]);
}

static enum tw_status work(void *arg, size_t number, struct tw_error *why)
{
	struct peers *p = arg;
	const uint32_t worker = (uint32_t)number - 1;
	struct tw_address master;
	struct tw_tcp_route route;
	struct tw_tcp_setup net;
	struct tw_join_request q = { .net = &net,
				     .log = &p->h->log,
				     .patience = PATIENCE,
				     .job = p->h->job,
				     .master_fd = -1,
				     .wish = TW_NODE_NEW };
	json_t *result = NULL;
	enum tw_status status = p->h->engine(p->h->arg, worker, &q.engine, why);

	tw_tcp_setup_init(&net);
	if (p->h->pair) {
		tw_cores_keep_share(worker, TW_PEERS); /* as `train --processes` */
		take_pairs(p, worker, &q, &route);
	} else if (status == TW_OK) {
		net.listen = &anywhere;
		q.master = &master;
		status = tw_harness_tcp_find(&p->link, &master, why);
	}
	return status == TW_OK ? tw_join(&q, &result, why) : status;
}

enum tw_status tw_harness_peers_run(struct tw_harness_peers *h, double seconds,
				    struct tw_error *why)
{
	struct peers p = { .h = h };
	struct tw_children c = { .child = NULL };
	enum tw_status status = open_all(&p, why);

	if (status == TW_OK)
		status = tw_children_init(&c, 1 + TW_PEERS, why);
	if (status == TW_OK)
		status = tw_children_add(&c, lead, &p, why);
	for (int k = 0; k < TW_PEERS && status == TW_OK; k++)
		status = tw_children_add(&c, work, &p, why);
	close_all(&p);
	if (status == TW_OK)
		status = tw_children_wait(&c, seconds, why);
	tw_children_release(&c);
	return status;
}
