/* SPDX-License-Identifier: Apache-2.0 */
/* tcp.h - the world of many processes: actors of one process live in the threads world, and an
 * epoll thread carries their messages to the other processes.
 *
 * Who listens, who dials: the master's process (`serve`: node 0, and node 1, a server) listens;
 * workers and further servers dial it, greet, and are told which node they are.  Servers listen,
 * too; the master tells workers where (PEERS), and they dial the servers it lists.  Without
 * servers (`peers`) every worker's process has a replica of all shards, and all of them are
 * connected: of two the one with the lower node listens, and the other dials.  Where a worker is
 * several cells (`cells`), their processes listen, and those of one worker are connected in the
 * same way, as soon as the master has given them their places.  A connection that breaks is
 * dialled again, with exponential backoff and jitter; actors are told (`up`), and resend.  A
 * node whose connection was closed and not replaced within two seconds, or that was silent for
 * the limit, is `down`.  The master keeps the connection of a silent node, to tell it of the end
 * of the run: a process that was stopped meanwhile finds that when it is continued.
 *
 * No process is trusted: until a connection has greeted (or its time is up, or too many others wait
 * to greet), it costs a few KiB and may send nothing else; then every frame is checked: may its
 * sender send it?  The node in it is that of the connection. */
#ifndef TW_WORLD_TCP_H
#define TW_WORLD_TCP_H

#include "actor/cluster.h"
#include "wire/address.h"
#include "wire/stream.h"
#include "world/threads/threads.h"

#define TW_TCP_SECRET 2 /* words */
/* How the sentence begins for a worker that nobody could reach: a peer; a cell. */
#define TW_TCP_PEERS_LISTEN                                                                        \
	"this job has no servers: every worker must be reachable by the others; "
#define TW_TCP_CELLS_LISTEN                                                                        \
	"the stages of this job's model talk to each other: every worker must be reachable by "    \
	"the others; "

enum tw_tcp_role { TW_TCP_SERVE, TW_TCP_SERVER, TW_TCP_WORKER };

/* The identity of a run, kept with its checkpoints: a restarted master reads it again. */
struct tw_tcp_identity {
	uint64_t run;                   /* random, not 0 */
	uint64_t secret[TW_TCP_SECRET]; /* of tickets; no other process has it */
	uint32_t boot;                  /* of the master: 1, 2, ... */
};

struct tw_tcp_route {
	uint32_t role; /* TW_SERVER or TW_WORKER */
	uint32_t node; /* a server's; a worker's wish */
	int fd;        /* an inherited pair to it */
};

struct tw_tcp_peer_info { /* for people and metrics */
	char name[48], host[64];
	uint32_t node, role, slot; /* slot UINT32_MAX: none */
	bool connected, suspect;
	double heard; /* seconds ago */
	uint64_t bytes_sent, bytes_received;
};

struct tw_tcp_options {
	enum tw_tcp_role role;
	struct tw_heap *heap;
	const struct tw_log *log;
	struct tw_tls *tls; /* NULL: in the clear */
	bool peers;         /* SERVE, WORKER: no servers; node 0 is the master alone */
	uint32_t cells;     /* of a worker, each a process; 0 stands for 1 */
	bool with_shards; /* SERVE, WORKER: likewise no servers, because the processes of cells hold
			       shards; nobody else talks to these but the master */

	/* listening: SERVE, SERVER and peers */
	const struct tw_address *listen; /* NULL: only inherited pairs */
	const int *accepted;             /* inherited, as if they had just come in; taken over */
	size_t accepts;

	/* dialling: SERVER and WORKER */
	const struct tw_address *master;
	int master_fd;                    /* an inherited pair instead; -1: none */
	const struct tw_tcp_route *route; /* inherited pairs to whom it dials; taken over */
	size_t routes;
	/* Inherited pairs only: the node wanted; a peer's or cell's: which of them it is, from 1,
	 * and who is lower is dialled.  TW_NODE_NEW: any. */
	uint32_t wish;
	int64_t patience; /* ns without a master after which it gives up; 0: never */
	bool keeps;       /* it asks for the model when the run is over */

	/* what must agree */
	struct tw_sha job, layout, data;
	/* SERVE: who we are, and what joiners may ask for */
	struct tw_tcp_identity identity;
	uint32_t servers;
	int64_t every, suspect, limit; /* heartbeats, ns; joiners take them from TERMS */
	const char *job_text;
	size_t job_bytes;
	uint64_t data_bytes;
	enum tw_status (*data_read)(void *arg, uint64_t from, void *to, size_t bytes);
	void *data_arg;
	const size_t *border; /* of shards, for counting what codecs save ... */
	uint32_t width;       /* ... floats that travel for each place of the vector */
	uint32_t shards;
	/* bounds of what others may send */
	size_t push_most, part_most;
	uint32_t helpers; /* threads that enter shards */
	/* A wait of more than five seconds, as in struct tw_gateway; may be NULL. */
	void (*waits)(void *arg, const char *who, const char *whom, const char *why,
		      double seconds);
	void *waits_arg;
	const _Atomic int *interrupted; /* while tw_tcp_open waits; may be NULL */
};

struct tw_tcp;
/* SERVE: listen.  SERVER, WORKER: dial until the master has answered (patience, interrupted), and
 * listen (SERVER, peers).  TW_REFUSED: the master said no, with its sentence; TW_BAD_INPUT: to the
 * role, or to where it listens. */
enum tw_status tw_tcp_open(const struct tw_tcp_options *o, struct tw_tcp **out,
			   struct tw_error *why);
/* Who we are: for the cast. */
uint32_t tw_tcp_node(const struct tw_tcp *t);
/* Where we listen; port 0: nowhere. */
const struct tw_address *tw_tcp_bound(const struct tw_tcp *t);
/* Run the seats of this process until the run ends, here or in the master's process.  ran->totals
 * are filled where the master is. */
enum tw_status tw_tcp_run(struct tw_tcp *t, const struct tw_cluster *cluster, struct tw_ran *ran);
/* SERVE: how many connected processes want the model. */
size_t tw_tcp_keepers(struct tw_tcp *t);
/* SERVE, after the run: tell everybody, with the result as JSON text, or with the sentence why it
 * failed.  Waits up to five seconds until they have heard it; it does not wait for nodes that were
 * silent for the limit.  `model` (may be NULL, stays the caller's) is given to those who keep it;
 * while they take it, it waits longer: as long as somebody asks within five seconds, and not above
 * a minute and a second for each 4 MiB that there are to give. */
void tw_tcp_farewell(struct tw_tcp *t, enum tw_status status, uint64_t cut, const char *result,
		     struct tw_block *model);
/* SERVER, WORKER, after the run: what the master's farewell said; NULL: nothing. */
const char *tw_tcp_heard(const struct tw_tcp *t);
/* SERVER, WORKER, after the run: bytes and hash of the model that the master gives now; 0: none. */
uint64_t tw_tcp_given(const struct tw_tcp *t, struct tw_sha *hash);
/* SERVER, after a run that was refused: another has its place, and it may ask for a new one. */
bool tw_tcp_replaced(const struct tw_tcp *t);
/* A joiner that ended with TW_CANCELLED: the master starts the run again, with another job text; it
 * may be asked for that, and joined, as soon as it listens again. */
bool tw_tcp_again(const struct tw_tcp *t);
/* Copy what is known of others; returns how many.  Any thread, any time. */
size_t tw_tcp_peers(struct tw_tcp *t, struct tw_tcp_peer_info *out, size_t room);
void tw_tcp_bytes(struct tw_tcp *t, uint64_t *sent, uint64_t *received);
/* Bytes of pushes as floats and as encoded, then of parameters. */
void tw_tcp_codec(struct tw_tcp *t, uint64_t out[4]);
void tw_tcp_close(struct tw_tcp *t); /* NULL is allowed */

/* A joiner that knows nothing yet: the job and the data set, from the master.  Blocking.  What was
 * asked without an answer is asked again until o->patience is over (TW_IO).  TW_CANCELLED: the
 * master was restarted with another run, job or data set; close this and ask from the beginning. */
struct tw_tcp_ask;
struct tw_tcp_facts {
	uint64_t run, data_bytes;
	struct tw_sha job, layout, data;
	uint32_t servers;
};
enum tw_status tw_tcp_ask_open(const struct tw_tcp_options *o, struct tw_tcp_ask **out,
			       struct tw_tcp_facts *facts, struct tw_error *why);
/* *text is 0-terminated and freed through o->heap. */
enum tw_status tw_tcp_ask_job(struct tw_tcp_ask *a, char **text, size_t *bytes,
			      struct tw_error *why);
/* As tw_transfer_receive of run/transfer.h; arg is the struct tw_tcp_ask. */
enum tw_status tw_tcp_ask_data(void *arg, uint64_t from, void *to, size_t bytes,
			       struct tw_error *why);
void tw_tcp_ask_close(struct tw_tcp_ask *a);
/* A joiner whose master has said OVER, before tw_tcp_close: the model, which is the caller's block.
 * TW_BAD_BYTES: it is not of that hash. */
enum tw_status tw_tcp_ask_model(const struct tw_tcp_options *o, uint64_t bytes,
				const struct tw_sha *hash, struct tw_block **out,
				struct tw_error *why);

#endif
