/* SPDX-License-Identifier: Apache-2.0 */
/* harness_tcp.h - the processes of a job in the world tcp, with engines of the bench's. */
#ifndef TW_BENCH_HARNESS_TCP_H
#define TW_BENCH_HARNESS_TCP_H

#include "actor/engine.h"
#include "spec/job.h"
#include "run/tcp_setup.h"

/* How two processes of a bench reach each other; made before they are forked. */
struct tw_harness_tcp_link {
	struct tw_tls *tls; /* NULL: in the clear */
	int pair[2];        /* a socket pair, the server's side first; -1: over loopback ... */
	int port[2];        /* ... and a pipe on which the server tells its port */
};

/* A socket pair, or loopback with (a key) or without TLS. */
enum tw_status tw_harness_tcp_link_open(struct tw_harness_tcp_link *l, bool pair, bool tls,
					struct tw_error *why);
void tw_harness_tcp_link_close(struct tw_harness_tcp_link *l);
/* In the server's process: what a run over the link needs. */
void tw_harness_tcp_serve(struct tw_harness_tcp_link *l, struct tw_tcp_setup *net);
/* In a worker's process over loopback: wait for the server's address.  It may be asked for by many
 * workers. */
enum tw_status tw_harness_tcp_find(struct tw_harness_tcp_link *l, struct tw_address *master,
				   struct tw_error *why);
/* In a worker's process: work with this engine until the run is over. */
enum tw_status tw_harness_tcp_work(struct tw_harness_tcp_link *l, struct tw_job *job,
				   struct tw_engine *engine, const struct tw_log *log,
				   struct tw_error *why);

#endif
