/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_inner.h - what the files of the mpi world share: ranks, what flies, words between loops.
 *
 *  (1) The loop's thread alone calls the plugin and touches what flies.  `lock` guards outboxes and
 *      what the two sides tell each other.
 *  (2) A message is a *head* (TAG_HEAD: place, header, body and, where it fits, tail and payload)
 *      and, where it does not fit, *pieces* of at most PIECE bytes (TAG_PIECE) that follow it.
 *      Heads are received into a ring of buffers that are posted ahead, and are looked at in the
 *      order in which they were posted.  When a head is looked at, its pieces are posted straight
 *      into place.  MPI keeps the order of what one rank sends another under one tag, so heads find
 *      their pieces.
 *  (3) Messages of actors are delivered in the order in which their rank sent them.  Words between
 *      loops are heard at once.
 *  (4) A message of an actor belongs to a part: one of an earlier part is dropped, one of a part
 *      whose actors are not here yet waits.
 *  (5) `port_lock` is held while the loop uses the port; `closing` takes the port away under it. */
#ifndef TW_WORLD_MPI_INNER_H
#define TW_WORLD_MPI_INNER_H

#include "base/machine/clock.h"
#include "actor/message_pool.h"
#include "world/mpi/mpi.h"
#include "world/payload_blocks.h"
#include "world/threads/threads.h"

#include <pthread.h>
#include <stdatomic.h>

#define MS        (TW_SECOND / 1000)
#define HEAD_ROOM (16u << 10)
#define PIECE     (1u << 20)
#define RING      32 /* heads that are posted ahead */
#define FLYING    8  /* heads and pieces under way to one rank */
#define SUMS_KEPT 64 /* whose times are kept for benches */
#define HOST_ROOM 64
#define TAG_HEAD  1
#define TAG_PIECE 2

/* What loops say to each other, in a message of type DATA: `what` is the word, `pad` a status,
 * `from` a number, `bytes` how many are asked for. */
enum word {
	WORD_BEAT = 1, /* I am alive */
	WORD_CALL,     /* rank 0: are you there?  number: of the call */
	WORD_HERE,     /* the answer */
	WORD_STOP,     /* to rank 0: number: signals that this rank has got */
	WORD_ORDER,    /* rank 0: a part begins; number: of the part; payload: struct beat, order */
	WORD_READY,    /* to rank 0: status; payload: the sentence */
	WORD_ASK,      /* to rank 0: bytes from number on */
	WORD_GIVE,     /* the answer: status; payload */
	WORD_OVER,     /* rank 0: the part is over; number: of the part */
	WORD_FAIL,     /* to rank 0: this rank cannot go on; status; payload: the sentence */
	WORD_END,      /* rank 0: the program has ended */
	WORD_SUM,      /* to rank 0: this rank asks for sum `number` of channel `bytes` */
	WORD_GO,       /* rank 0: all have asked for it: begin */
	WORD_QUIT,     /* a rank is lost: end now */
};

/* What a cookie of the plugin points to begins with this. */
enum flight { FLIGHT_HEAD, FLIGHT_PIECE, FLIGHT_SEND, FLIGHT_BARRIER, FLIGHT_SUM };

/* The beginning of a head; then come the body, and if `whole` tail and payload. */
struct head {
	uint32_t part, whole;
	struct tw_addr to, from;
	struct tw_header h;
};
_Static_assert(sizeof(struct head) == 88, "the same on all ranks");

struct ring_slot {
	enum flight kind; /* first: FLIGHT_HEAD */
	bool arrived;
	uint32_t source;
	size_t bytes;
	_Alignas(8) uint8_t buffer[HEAD_ROOM];
};

/* A message whose head is here. */
struct arrival {
	enum flight kind; /* first: FLIGHT_PIECE */
	struct arrival *next;
	struct tw_msg *m;
	uint32_t rank, part;
	uint32_t left; /* pieces under way */
};

/* A message under way to a rank. */
struct departure {
	enum flight kind; /* first: FLIGHT_SEND */
	struct departure *next;
	struct tw_msg *m;
	uint32_t rank;
	uint32_t left;   /* of what was begun */
	bool staged;     /* all of it was begun */
	size_t at, rest; /* of tail and payload: begun; in all */
	_Alignas(8) uint8_t head[HEAD_ROOM];
};

/* A sum that an actor of this rank has asked for. */
struct summing {
	enum flight kind; /* first: FLIGHT_SUM */
	struct summing *next;
	struct tw_sum sum;
	struct tw_addr who;
	uint32_t part;
	uint32_t left; /* under way; 0: not begun */
	int64_t since; /* when it was asked for */
};

/* Rank 0: how many ranks have asked for a sum. */
struct asked {
	struct asked *next;
	uint64_t key;
	uint32_t channel, part, count;
};

/* Sums.  All ranks begin them in the order in which rank 0 says GO, so that no two of them are
 * taken for each other whatever becomes of a round on some rank. */
struct sums {
	struct summing *fresh, **fresh_end; /* asked for; guarded by lock */
	struct summing *list;               /* the loop's: not over */
	struct asked *asked;                /* rank 0's loop */
	size_t flying;                      /* begun and not over */
	int64_t since;                      /* when the last one was asked for */
	int64_t took[SUMS_KEPT];            /* ns from asking to the sum, of the last ones */
	_Atomic size_t count;               /* how many there were */
};

struct barrier {
	enum flight kind; /* first: FLIGHT_BARRIER */
	bool passing;     /* it was begun and is not over */
};

struct rank {
	/* guarded by lock */
	struct tw_msg *out, **out_end;
	bool listed; /* on the loop's list of work */
	struct rank *work;
	/* the loop's */
	struct departure *leaving; /* the one that is not staged yet */
	uint32_t flying;
	struct arrival *first, **end; /* of actors, in order (3) */
	int64_t heard, spoke;
	bool suspect, ready, here; /* here: has answered the call */
	int signals;               /* that it has told */
	char host[HOST_ROOM];
};

/* The two sides of a rank, guarded by lock. */
struct sides {
	pthread_cond_t program, bell; /* the program waits; the loop sleeps */
	bool rung, asleep;
	struct tw_block *order; /* others: the newest order, until it is taken ... */
	uint32_t number;        /* ... and the number of its part */
	bool ended;             /* others: rank 0 has said so */
	struct tw_block *given; /* others: the answer to an ASK ... */
	bool answered;          /* ... is here ... */
	enum tw_status answer;  /* ... with this status */
	uint32_t unready;       /* rank 0: ranks that have not said READY */
	struct tw_error failed; /* rank 0: what a rank could not do */
	bool returned;          /* the program has */
	void (*call)(const struct tw_mpi_plugin *p, void *arg); /* what the loop is to call */
	void *call_arg;
	int code;
	struct tw_mpi_beat beat; /* what the loop is to take over ... */
	bool beats;              /* ... at its next look */
};

/* The part that goes on. */
struct part {
	_Atomic uint32_t number; /* 0: none yet; the program's */
	_Atomic uint32_t over;   /* the newest that is over */
	const uint32_t *rank_of; /* by node */
	uint32_t nodes, cells;   /* cells: of a worker */
	enum tw_status (*read)(void *arg, uint64_t from, void *to, size_t bytes);
	void *read_arg;
};

/* Signals and the roll call that comes before a checkpoint; the loop's but for `passed`. */
struct stopping {
	int told;           /* others: told to rank 0 */
	int called;         /* rank 0: signals that the call is about; 0: no call */
	uint64_t call;      /* its number */
	uint32_t missing;   /* ranks that have not answered */
	int64_t since;      /* when the first signal came; 0: none */
	_Atomic int passed; /* what the master hears */
};

struct tw_mpi {
	struct tw_mpi_options o;
	const struct tw_mpi_plugin *plugin;
	struct tw_heap *heap;
	uint32_t rank, size;
	struct rank *at; /* by rank */
	char who[HOST_ROOM + 32];
	pthread_t loop;
	pthread_mutex_t lock, port_lock;
	struct tw_port *port; /* guarded by port_lock */
	struct sides sides;
	struct part part;
	struct tw_mpi_beat beat;
	struct stopping stopping;
	struct sums sums;
	/* the loop's */
	int64_t now, turned, ticked, stirred;
	struct rank *work; /* whose outbox has something; guarded by lock */
	struct ring_slot *ring;
	size_t ring_first;
	size_t sending, receiving; /* departures; arrivals with pieces under way */
	size_t held;               /* arrivals of actors that wait */
	struct tw_msg_pool messages;
	struct tw_payload_blocks blocks;
	struct departure *spare;
	struct barrier barrier;
	bool silent; /* no heartbeats any more: this rank is about to leave */
	_Atomic uint64_t sent, received;
};

/* mpi_watchdog.c */
/* End this process after so many seconds, whatever it waits for, and say why (NULL: in silence).
 * It takes the place of the one before; 0 seconds: none.  The loop's. */
void tw_mpi_watchdog(int seconds, int code, const struct tw_log *log, const char *why);

/* mpi_send.c */

/* Any thread: put a message into the outbox of a rank, which takes it; `ring` wakes the loop. */
void tw_mpi_post(struct tw_mpi *m, uint32_t rank, struct tw_msg *msg);
void tw_mpi_ring(struct tw_mpi *m);
/* Any thread: a word; the payload is taken (NULL: none).  False without memory. */
bool tw_mpi_word(struct tw_mpi *m, uint32_t rank, const struct tw_body_data *word,
		 struct tw_block *payload);
bool tw_mpi_say(struct tw_mpi *m, uint32_t rank, enum word word, enum tw_status status,
		uint64_t number, struct tw_block *payload);
/* All ranks end: this one cannot go on, or another is lost.  With a sentence; with an exit code. */
void tw_mpi_give_up(struct tw_mpi *m, const char *format, ...)
	__attribute__((noreturn, format(printf, 2, 3)));
void tw_mpi_quit(struct tw_mpi *m, int code) __attribute__((noreturn));
void tw_mpi_trouble(struct tw_mpi *m, uint32_t rank, const char *why) __attribute__((noreturn));
/* The loop's: begin what outboxes have; true: there was something. */
bool tw_mpi_collect(struct tw_mpi *m);
/* The loop's: one flight of it is over. */
void tw_mpi_departed(struct tw_mpi *m, struct departure *d);

/* mpi_sums.c */
/* Any thread: struct tw_gateway; arg is the struct tw_mpi. */
void tw_mpi_sum(void *arg, struct tw_addr who, const struct tw_sum *sum);
/* The loop's: what was asked for is told to rank 0; true: there was something. */
bool tw_mpi_sums_collect(struct tw_mpi *m);
void tw_mpi_sum_asked(struct tw_mpi *m, uint32_t part, uint32_t channel, uint64_t key);
void tw_mpi_sum_go(struct tw_mpi *m, uint32_t part, uint32_t channel, uint64_t key);
void tw_mpi_sum_over(struct tw_mpi *m, struct summing *s); /* one addition of it is */
void tw_mpi_sums_forget(struct tw_mpi *m); /* those of earlier parts that were not begun */

/* mpi_words.c */
/* A word has come; the loop's. */
void tw_mpi_hear(struct tw_mpi *m, uint32_t rank, const struct tw_msg *msg);

/* mpi_receive.c: the loop's */

/* Post the ring. */
enum tw_status tw_mpi_receive_open(struct tw_mpi *m, struct tw_error *why);
void tw_mpi_receive_close(struct tw_mpi *m);
/* What is over: heads are looked at, words heard, messages delivered.  True: something was. */
bool tw_mpi_progress(struct tw_mpi *m);
/* Deliver what waited for its part. */
void tw_mpi_deliver(struct tw_mpi *m);
/* Something is under way that only calls of MPI move on. */
bool tw_mpi_active(const struct tw_mpi *m);

/* mpi_loop.c */
void tw_mpi_turn(struct tw_mpi *m);

#endif
