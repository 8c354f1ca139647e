/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_kit.h - processes of the tcp world in one process, a relay between them, and a raw peer. */
#ifndef TW_TEST_TCP_KIT_H
#define TW_TEST_TCP_KIT_H

#include "world/fakes.h"
#include "world/tcp/tcp.h"

#include <pthread.h>

#define KIT_BOOT 7 /* of the master */
/* The node of the nth worker that comes. */
#define KIT_WORKER(nth) (2u + (KIT_BOOT << 20 | (nth)))
#define KIT_PEER(nth)   (1u + (KIT_BOOT << 20 | (nth))) /* where there are no servers */

/* An actor that remembers; a test reads it when the run is over.  Its fake must stay first. */
struct witness {
	struct fake fake;
	void *scene;
	_Atomic uint64_t count, wrong;
	char events[2048]; /* "up 3 1\n" and the like, in their order */
};
struct witness *witness_of(struct tw_actor *a);
void witness_says(struct witness *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Remember up and down. */
void witness_up(struct tw_actor *a, struct tw_context *ctx, uint32_t node, uint32_t boot);
void witness_down(struct tw_actor *a, struct tw_context *ctx, uint32_t node);

/* One tw_tcp with its actors, in a thread of its own. */
struct party {
	struct tw_tcp_options o;
	struct tw_address address, own; /* where it listens or whom it dials; a server's own */
	struct tw_tcp *t;
	struct witness master, shard, worker; /* serve: the first two, on nodes 0 and 1 */
	struct tw_engine engine;
	struct tw_log log;
	pthread_mutex_t lock;
	char lines[16384]; /* what was logged */
	struct tw_ran ran;
	enum tw_status status;
	pthread_t thread;
	bool running;
	struct tw_block *model; /* serve: given away at the end; the caller's */
};
/* Fill in what a serve, or one that dials `port`, needs; heap NULL: the system's. */
void party_serve(struct party *p, struct tw_heap *heap);
void party_server(struct party *p, struct tw_heap *heap, uint16_t port); /* with a shard 0 */
void party_worker(struct party *p, struct tw_heap *heap, uint16_t port);
/* The same without servers: the master alone; a worker with a shard 0, which listens. */
void party_serve_peers(struct party *p, struct tw_heap *heap);
void party_peer(struct party *p, struct tw_heap *heap, uint16_t port);
enum tw_status party_open(struct party *p, struct tw_error *why);
uint16_t party_port(const struct party *p);
void party_start(struct party *p); /* tw_tcp_run, and where the master is a farewell, in a thread */
void party_run(struct party *p);   /* both; it must open */
void party_join(struct party *p);  /* wait for it */
void party_close(struct party *p); /* join, close; may be called when it was never opened */
bool party_said(struct party *p, const char *text);
/* Wait up to ten seconds until it was logged. */
bool party_says(struct party *p, const char *text);

/* Carries bytes between those who dial `port` and the target, until it is cut. */
struct relay {
	int listener;
	uint16_t port, target;
	_Atomic bool cut, stop;
	_Atomic unsigned cuts;
	pthread_t thread;
};
bool relay_start(struct relay *r, uint16_t target);
void relay_cut(struct relay *r); /* returns when it is done */
void relay_stop(struct relay *r);

/* A socket that speaks frames, with a limit of ten seconds for everything; -1: no connection. */
int raw_dial(uint16_t port);
int raw_socket(void); /* the same in two steps */
bool raw_connect(int fd, uint16_t port);
int raw_listen(uint16_t *port);
bool raw_send(int fd, const struct tw_msg *m);
/* The next message that is no PING; false: it was closed.  Blocks are of the system's heap. */
bool raw_read(int fd, struct tw_msg *m);
void raw_drop(struct tw_msg *m);
/* A worker's connection to the master: the next PEERS tells what it shows to this server. */
void raw_ticket(int fd, uint32_t node, uint8_t out[TW_TICKET]);
/* A worker that dials a server as the terms say. */
struct tw_msg raw_greet_as(const struct tw_body_terms *mine, const uint8_t ticket[TW_TICKET]);
/* A GREET of a worker with the hashes of party_serve. */
struct tw_msg raw_greet(void);
/* What an actor says, with an empty body. */
struct tw_msg raw_says(enum tw_type type, uint16_t from_role, struct tw_addr to);
/* The run ends at DONE: as a master does it, and as a worker says it and hears of the end. */
void ends_at_done(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m);
void raw_end(int fd);
bool raw_closed(int fd); /* by the other side, whatever it says before */

#endif
