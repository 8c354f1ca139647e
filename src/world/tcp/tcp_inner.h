/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_inner.h - what the files of the tcp world share: peers, connections, the loop.
 *
 *  (1) The loop's thread (first the opener's, then its own) alone touches connections, streams,
 *      dialling and timers.
 *  (2) `lock` guards the table of peers and their outboxes: hands of the threads world put
 *      messages there and wake the loop; names and counts are read there.
 *  (3) `port_lock` is held while the loop uses the port; `closing` takes the port away under it.
 *  (4) `up` of a node is told before anything it says on a new connection, and from the same
 *      thread, so an actor sees them in that order.
 *  (5) What a connection had not carried when it broke is dropped: actors resend at `up`.
 *  (6) A SILENT connection has no peer.  The master says OVER on it and nothing else.  It closes it
 *      when the process says anything or comes back on another connection, or room is needed. */
#ifndef TW_WORLD_TCP_INNER_H
#define TW_WORLD_TCP_INNER_H

#include "base/machine/clock.h"
#include "actor/message_pool.h"
#include "wire/frame.h"
#include "world/payload_blocks.h"
#include "world/tcp/tcp.h"

#include <pthread.h>
#include <stdatomic.h>

#define MS            (TW_SECOND / 1000)
#define GREET_TIME    (10 * TW_SECOND) /* until a connection has greeted */
#define CLOSED_GRACE  (2 * TW_SECOND)  /* from a closed connection to `down` */
#define NAMED_TIME    (5 * TW_SECOND)  /* until a view has named a worker that speaks to shards */
#define PENDING_MOST  256              /* connections that have not greeted */
#define ASKING_MOST   512              /* connections that only ask */
#define SILENT_MOST   1024             /* connections of nodes that were given up for silence */
#define TURN_BYTES    (1u << 20)       /* of one connection before the next has its turn */
#define PIECE_BYTES   (256u << 10)     /* ... where replicas pass on the pieces that they read */
#define TELL_BYTES    (64u << 10)      /* sent before the master hears of it */
#define SAYS_MOST     (UINT64_C(1) << 56) /* bytes that nobody has sent */
#define QUEUE_MOST    4096 /* messages that wait for a peer before we stop reading it */
#define BACKOFF_FIRST (50 * MS)
#define BACKOFF_MOST  (5 * TW_SECOND)
#define PEER_BUCKETS  1024

enum conn_state {
	CONN_DIALLING, /* connect() is under way */
	CONN_SHAKING,  /* TLS */
	CONN_GREETING, /* accepted: waits for GREET; dialled: waits for TERMS */
	CONN_ASKING,   /* accepted: may ask for DATA */
	CONN_OPEN,
	CONN_SILENT, /* accepted: its node was given up for silence (6) */
	CONN_ENDING, /* only written to: a DENY, then closed */
	CONN_DEAD,   /* closed; freed at the end of the turn */
};

struct conn {
	struct conn *next, **at; /* list of all */
	struct conn *grave;      /* DEAD: the next of the dead */
	struct tw_tcp *t;
	struct tw_stream *stream;
	struct tw_writer *writer;
	struct tw_reader *reader;
	struct tw_reader_owner owner;
	struct peer *peer; /* dialled, or since it greeted */
	enum conn_state state;
	bool dialled, pair, paused, broken, watched;
	bool local;                         /* accepted: the dialler says that it stays here */
	bool again;                         /* its reader stopped before all was read */
	unsigned events;                    /* what epoll was told */
	int64_t since, heard, spoke, wrote; /* wrote: last progress, or nothing to write */
	uint32_t queued;                    /* messages in the writer */
	uint64_t told;                      /* to the master: bytes that we have sent */
	uint64_t process;                   /* SILENT: whose it was */
	struct tw_msg *held; /* until a view, or a ticket, says who it is; paused meanwhile */
	struct conn *waits; /* with held: the next of tw_tcp.waiting (GREETING) or unnamed (OPEN) */
	char name[TW_ADDRESS_TEXT];
};

/* Dialling a peer that is ours to dial.  The loop's. */
struct dialling {
	bool wanted;      /* it is ours to dial: others than the master while it lists them */
	bool deferred;    /* it answered the last dial, and asked us to come later */
	int fd;           /* an inherited pair not used yet; -1 */
	unsigned attempt; /* since it was last reached */
	int64_t at, complained, since; /* the next time; since: first failure in a row */
};

/* What our actors say to a peer.  Guarded by lock. */
struct outbox {
	struct tw_msg *first, **end;
	bool listed; /* on the loop's list of work */
	struct peer *next;
};

/* A process that we know. */
struct peer {
	struct peer *next, **at;          /* of all */
	struct peer *hash, *twin, *grave; /* of its buckets; of the forgotten */
	uint32_t key;                     /* of the bucket */
	uint32_t role;             /* TW_WORKER, TW_SERVER; TW_MASTER: the master's process */
	uint32_t node, boot;       /* a worker's or server's; a master's own server, 0 none */
	uint32_t master_boot;      /* role TW_MASTER */
	uint32_t slot;             /* a worker's, when known; UINT32_MAX */
	uint32_t cell;             /* ... and which cell of it; UINT32_MAX: none */
	uint32_t joins;            /* guarded by lock: SERVE: slot whose cells it is to meet ... */
	uint32_t group;            /* ... and does; UINT32_MAX: none */
	bool regrouped;            /* ... since the loop last looked */
	bool member;               /* guarded by lock: our master talks to it as to one */
	uint64_t process;          /* random, from its GREET */
	uint8_t ticket[TW_TICKET]; /* what we show it */
	struct tw_address address;
	struct dialling dial;
	bool paired;       /* by an inherited pair: never dialled again */
	bool near;         /* only processes of its machine reach it */
	struct conn *conn; /* in any state while we dial; OPEN otherwise */
	_Atomic bool open; /* conn is OPEN; written by the loop, under lock */
	bool told_down;
	bool leaves;    /* it has announced that it leaves: that it closes is not reported */
	bool keeps;     /* guarded by lock: it wants the model */
	bool forgotten; /* freed at the end of the turn */
	_Atomic bool suspect;
	int64_t lost;      /* when the connection was lost; 0: it is there */
	struct outbox out; /* guarded by lock */
	char name[48];     /* "worker 3"; guarded by lock */
	char host[64];
	int64_t heard; /* guarded by lock, a copy */
	_Atomic uint64_t bytes_sent, bytes_received;
	uint64_t says; /* SERVE: bytes that it has sent to all, as it says; the loop's */
};

/* A worker's slot, or one of its cells, as views have named it. */
struct seat {
	uint32_t incarnation, node;
};

/* Which nodes may dial us, as the master has told. */
struct pass {
	struct pass *next;
	struct tw_ticket ticket;
	uint32_t master; /* boot of the master that told it */
};

enum claim {
	CLAIM_TRUE,
	CLAIM_FALSE, /* of slots: said aloud already */
	CLAIM_WAITS, /* the master has not named it yet */
};

/* What our actors have said since the loop last looked. */
struct tw_tcp_news {
	bool named, members;        /* WORKER: who we are; where shards are: who is a member */
	bool untold;                /* ... and there was no memory to note it */
	uint32_t slot, incarnation; /* named */
	uint32_t cell;              /* ... which cell of it */
};

/* Who we are.  The loop's; SERVE has it from the start, the others from TERMS. */
struct tcp_self {
	uint32_t node, boot;       /* worker, server; SERVE: 1 */
	uint32_t incarnation;      /* WORKER: as which people were told of us; 0: not yet */
	uint64_t process;          /* random */
	struct tw_tcp_identity id; /* as far as known */
	char who[112];             /* "worker 3 on host": who speaks on the log */
	char host[64];
};

/* How long silence may last, ns: the master says so. */
struct tcp_beat {
	int64_t every, suspect, limit;
};

/* The loop's own: what it watches, and when. */
struct tcp_loop {
	int epoll, bell;
	int64_t now;            /* read once a turn */
	int64_t turned, ticked; /* when it last looked; when timers were last looked at */
	bool hurried;           /* a connection was paused since timers were looked at */
	bool more;              /* a stream has bytes that epoll does not know of */
	bool rung;              /* guarded by lock: the bell has been rung */
};

/* Where others come in.  The loop's. */
struct tcp_door {
	struct tw_address bound;
	int listener;
	bool listening;
	bool near;                    /* only processes of this machine reach us */
	int64_t accept_at, full_said; /* no descriptor was free: when to try, when we said so */
	size_t paired;                /* inherited pairs taken so far */
};

/* Connections.  The loop's.  One that is closed is DEAD at once, and stays in `all` until the end
 * of the turn (tw_conns_bury): so code that walks the list may close any of them. */
struct tcp_conns {
	struct conn *all, *dead;
	uint32_t count;           /* of all */
	uint32_t pending, asking; /* that have not greeted; that only ask */
	uint32_t silent;
	struct conn *waiting; /* not SERVE: greeted before the master named them */
	struct conn *unnamed; /* SERVER: speak for slots that no view gave them */
};

/* Processes that we know.  Guarded by lock for others than the loop.  One that is forgotten is not
 * found any more, and stays in `all` until the end of the turn (tw_peers_bury). */
struct tcp_peers {
	struct peer *all, *forgotten;
	struct peer *bucket[PEER_BUCKETS];  /* by node */
	struct peer *process[PEER_BUCKETS]; /* SERVE: workers, by what they greeted as */
	struct peer *work;                  /* whose outbox has something */
	struct peer *master;                /* joiners */
	uint64_t number;                    /* of the last PEERS */
	bool regroup; /* SERVE: one who listens is gone, and those who dial it are to be told */
};

/* SERVE: numbers that were given.  The loop's. */
struct tcp_given {
	uint32_t workers, rounds; /* worker nodes, and how often all numbers were given */
	uint32_t servers;         /* boots */
};

/* What our actors have said of workers.  Guarded by lock. */
struct tcp_members {
	struct seat *seat; /* not SERVE: by slot and cell */
	size_t seats;
	struct tw_tcp_news news;
};

/* SERVE: the end, as others are told of it. */
struct tcp_farewell {
	struct tw_msg *over;    /* guarded by lock: to all */
	struct tw_msg *last;    /* kept for it from the start: an end is told in any case */
	struct tw_block *model; /* guarded by lock until it is given; then the loop's */
	bool ending;            /* accept no connection any more */
	bool giving;            /* the run is over, and a process that asks for the model gets it */
	_Atomic int64_t gave;   /* when a process last asked for some of it */
	_Atomic bool flushed;
};

/* The end, as we hear of it or make it. */
struct tcp_end {
	struct tw_error denied;   /* open: the master said no, for good */
	bool replaced;            /* ... because another has our place */
	bool again;               /* the master starts the run again */
	char *heard;              /* OVER's text */
	uint64_t given;           /* OVER's model: bytes ... */
	struct tw_sha given_hash; /* ... and hash */
	_Atomic bool over;        /* the master has said so */
	_Atomic bool gone;        /* our actor has left */
	int64_t gone_at;
	int64_t asked; /* to leave, while there was no master */
};

/* Refusals on the log: at most five a second.  The loop's. */
struct tcp_refusals {
	int64_t since;
	uint32_t said, unsaid;
};

struct tcp_counts {
	_Atomic uint64_t sent, received, codec[4];
	_Atomic uint64_t said; /* SERVE: what all others say that they have sent, the gone too */
	uint64_t before;       /* joiners: sent while there was an earlier master.  The loop's */
};

/* Who hears what happens to connections, and knows what it means.  Chosen once, at open. */
struct tcp_ears {
	/* May a frame with this header be read now? */
	bool (*admit)(struct conn *c, const struct tw_header *h, const char **why);
	void (*shaken)(struct conn *c); /* one that we dialled is ready for words */
	void (*message)(struct conn *c, struct tw_msg *m); /* takes m */
	/* A peer's connection is closed; `why` is for people. */
	void (*lost)(struct tw_tcp *t, struct peer *p, const char *why);
};

struct tw_tcp {
	struct tw_tcp_options o; /* never change */
	const struct tcp_ears *ears;
	struct tw_heap *heap;
	struct tcp_self self;
	struct tcp_beat beat;
	struct tcp_loop loop;
	struct tcp_door door;
	struct tcp_conns conns;
	struct tcp_peers peers;
	struct tcp_given given;
	struct tcp_members members;
	struct pass *pass[PEER_BUCKETS]; /* not SERVE: who may dial us, by node; the loop's */
	struct tcp_farewell farewell;
	struct tcp_end end;
	struct tcp_refusals refusals;
	struct tcp_counts counts;
	struct tw_msg_pool messages;     /* the loop's */
	struct tw_payload_blocks blocks; /* the loop's */
	pthread_t thread;
	bool threaded;
	_Atomic bool stop;
	pthread_mutex_t lock, port_lock;
	_Atomic(struct tw_port *) port;
};

/* Cells of a worker. */
static inline uint32_t tw_tcp_cells(const struct tw_tcp *t)
{
	return t->o.cells ? t->o.cells : 1;
}
/* Are shards in the processes of workers?  There are no servers then. */
static inline bool tw_tcp_workers_hold(const struct tw_tcp *t)
{
	return t->o.peers || t->o.with_shards;
}
/* Are workers connected to each other? */
static inline bool tw_tcp_workers_meet(const struct tw_tcp *t)
{
	return t->o.peers || tw_tcp_cells(t) > 1;
}

/* How the sentence begins for a worker that nobody could reach. */
static inline const char *tw_tcp_must_listen(const struct tw_tcp *t)
{
	return t->o.peers ? TW_TCP_PEERS_LISTEN : TW_TCP_CELLS_LISTEN;
}

/* tcp_common.c */
struct tw_msg *tw_tcp_msg(struct tw_tcp *t, enum tw_type type); /* NULL without memory */
void tw_tcp_msg_free(struct tw_tcp *t, struct tw_msg *m);
/* A vector passes: count it. */
void tw_tcp_count(struct tw_tcp *t, const struct tw_msg *m);
/* A refusal: one line, at most five a second; then, how many more there were. */
void tw_tcp_refusal(struct tw_tcp *t, const char *who, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void tw_tcp_refusals_tick(struct tw_tcp *t);
/* This process cannot go on. */
void tw_tcp_end(struct tw_tcp *t, enum tw_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void tw_loop_ring(struct tw_tcp *t); /* any thread */

/* tcp_peers.c */
struct peer *tw_peer_new(struct tw_tcp *t, uint32_t role, uint32_t node);
void tw_peer_forget(struct tw_tcp *t, struct peer *p);
void tw_peers_bury(struct tw_tcp *t);                     /* the forgotten */
struct peer *tw_peer_of(struct tw_tcp *t, uint32_t node); /* who has the node; NULL */
/* SERVE: a worker says by which number its process can be found again; and who has it, or NULL. */
void tw_peer_process(struct tw_tcp *t, struct peer *p, uint64_t process);
/* It says how many bytes it has sent to all.  NULL is allowed. */
void tw_peer_says(struct tw_tcp *t, struct peer *p, uint64_t sent);
/* Another process takes its place, or none: what it said counts on its own from now on. */
void tw_peer_is_new(struct peer *p);
struct peer *tw_peer_of_process(struct tw_tcp *t, uint64_t process);
/* SERVE: those who listen for others, one after the other; after NULL the first. */
struct peer *tw_peer_listener(struct tw_tcp *t, const struct peer *after);
/* SERVE: does the one connect to the other, which listens? */
bool tw_peer_dials(const struct tw_tcp *t, const struct peer *dialler, const struct peer *listener);
/* "worker 3", of a cell "worker 3.1"; cell UINT32_MAX: none. */
void tw_peer_text(uint32_t slot, uint32_t cell, char *out, size_t room);
void tw_peer_rename(struct peer *p); /* guarded by lock */
/* Behind what was said to this peer before; takes m.  Guarded by lock; the peer is open. */
void tw_peer_post(struct tw_tcp *t, struct peer *p, struct tw_msg *m);
void tw_peer_say_nothing(struct tw_tcp *t, struct peer *p); /* empty its outbox; guarded by lock */

/* tcp_conn.c */
/* Takes the socket.  NULL without memory. */
struct conn *tw_conn_new(struct tw_tcp *t, int fd, bool dialled, bool pair, struct peer *peer);
void tw_conn_trust(struct conn *c); /* from the next frame on, payloads are not hashed */
void tw_conn_arm(struct conn *c);
void tw_conn_close(struct conn *c, const char *why); /* its peer is told; freed at `bury` */
void tw_conns_bury(struct tw_tcp *t);                /* the dead */
/* Its node has been silent for the limit: keep the connection if OVER would go.  False: close
 * it. */
bool tw_conn_keep_silent(struct conn *c, const char *why);
/* Close the SILENT connection of this process, if there is one. */
void tw_conn_forget_silent(struct tw_tcp *t, uint64_t process);
bool tw_conn_close_silent(struct tw_tcp *t); /* the oldest one; false: there is none */
/* A connection with a message that is held goes to one of the lists of those, or leaves it. */
void tw_conn_wait(struct conn *c, struct conn **list);
void tw_conn_wait_no_more(struct conn *c, struct conn **list);
void tw_conn_written(void *conn, struct tw_msg *m); /* a message of its writer is out */

/* tcp_flow.c */
void tw_conn_send(struct conn *c, struct tw_msg *m); /* takes m */
void tw_conn_flush(struct conn *c);                  /* write what goes now */
void tw_conn_ready(struct conn *c);                  /* move what can be moved */
void tw_conn_ping(struct conn *c);
/* Has it said everything, and was everything that it lent fetched? */
bool tw_conn_is_done(const struct conn *c);
/* Refuse it: a last word, then it is closed. */
void tw_conn_deny(struct conn *c, enum tw_denial code, uint32_t wait_ms, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* The connection is open: on a socket pair, offer the other process to fetch long payloads. */
void tw_conn_offer(struct conn *c);
/* TW_LEND */
void tw_conn_lend(struct conn *c, const struct tw_body_lend *b);

/* tcp_outbox.c */
void tw_peer_flush(struct tw_tcp *t, struct peer *p); /* its outbox into the writer, and out */
void tw_peers_collect(struct tw_tcp *t);              /* outboxes into writers */
/* LEAVING to all, behind what our actors said last. */
void tw_peers_leave(struct tw_tcp *t);

/* tcp_ticket.c */
/* SERVE: what the dialler shows to the listener; NULL: to us. */
void tw_ticket_make(const struct tw_tcp *t, const struct peer *dialler, const struct peer *listener,
		    uint8_t out[TW_TICKET]);
enum claim tw_ticket_check(const struct tw_tcp *t, const struct tw_body_greet *b);
/* SERVE: tell those who listen of a worker that may dial them, or is gone; tell one of all. */
void tw_ticket_tell(struct tw_tcp *t, const struct peer *worker, bool gone);
void tw_ticket_tell_all(struct tw_tcp *t, struct peer *listener);
/* Not SERVE: hear of it. */
void tw_ticket_learn(struct tw_tcp *t, const struct tw_msg *m);
void tw_ticket_close(struct tw_tcp *t);

/* tcp_places.c */
/* PEERS, to those for whom it changes when this one comes; NULL: to all. */
void tw_peers_broadcast(struct tw_tcp *t, const struct peer *cause);
void tw_peers_regroup(struct tw_tcp *t); /* PEERS to all, if one who listens is gone since */
/* SERVE: places were given to cells: connect those of one worker. */
void tw_peers_group(struct tw_tcp *t);

/* tcp_identity.c */
/* Deliver a message of an actor, or hold it until the master has named its sender; takes m. */
void tw_identity_deliver(struct conn *c, struct tw_msg *m);
/* Views have named new members: deliver what may be delivered now. */
void tw_identity_try_held(struct tw_tcp *t);
/* What our actors say of workers (struct tw_gateway).  Any thread; arg is the struct tw_tcp. */
void tw_identity_named(void *arg, uint32_t slot, uint32_t incarnation);
void tw_identity_members(void *arg, struct tw_addr who, const struct tw_member *list, size_t count);
/* The loop: take in what they have said.  True: there are other members. */
bool tw_identity_hear(struct tw_tcp *t);
/* What people call the worker on this node, if views have named it: its slot and cell go to the
 * peer.  Guarded by lock. */
void tw_identity_name(const struct tw_tcp *t, struct peer *p);

/* tcp_peer.c */
/* The connection of this peer is open: tell the actors, let messages through. */
void tw_peer_up(struct tw_tcp *t, struct peer *p, struct conn *c);
/* Its connection is closed; `why` is for people. */
void tw_peer_lost(struct tw_tcp *t, struct peer *p, const char *why);
void tw_peer_down(struct tw_tcp *t, struct peer *p, const char *why);
/* Timers of all peers: dial those that must be dialled, give up those that do not come back. */
void tw_peers_tick(struct tw_tcp *t);
int64_t tw_peers_next(const struct tw_tcp *t); /* when tick has something to do */

/* tcp_greet.c */
/* Admit it, refuse it, or true: keep the message until the master has named who sent it. */
bool tw_greet_take(struct conn *c, struct tw_msg *m);
/* Connections that greeted too early: admit those that are named now; time is up for one. */
void tw_greet_waiting(struct tw_tcp *t);
void tw_greet_too_late(struct conn *c);
void tw_greet_no_memory(struct conn *c);

/* tcp_handshake.c */
extern const struct tcp_ears tw_handshake;

/* tcp_tick.c */
void tw_conns_tick(struct tw_tcp *t);

/* tcp_loop.c */
bool tw_loop_open(struct tw_tcp *t, struct tw_error *why);
void tw_loop_turn(struct tw_tcp *t, int64_t until);
void tw_loop_close(struct tw_tcp *t);

#endif
