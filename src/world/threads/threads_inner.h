/* SPDX-License-Identifier: Apache-2.0 */
/* threads_inner.h - what the files of the threads world share: cells, hands, mail.
 *
 * A *cell* is an actor with its lock and mailbox.  A *hand* is a thread that can enter cells: one
 * per worker, the housekeeper (the caller's thread), the storekeeper, and where there is a gateway
 * its thread (the *port*) and helpers.  Where there are helpers the port enters no cell: it makes
 * cells ready for them.
 *
 *  (1) A cell is entered by one hand at a time: `busy`, which is only ever tried, never waited for
 *      by a hand that is inside a cell.  So there is no deadlock.
 *  (2) A handler's sends are put into the mailboxes of their destinations, in order, after it
 *      returned and before its cell is left.  A mailbox is one total order, taken out under the
 *      cell's lock and handled one by one.  So messages from one actor to another stay in order
 *      whichever threads run the two.
 *  (3) A hand that put mail into a passive cell then tries to enter it; a hand that leaves a cell
 *      then looks at its mailbox.  All four accesses are sequentially consistent, so one of the two
 *      sees the other and no mail is left lying.
 *  (4) A worker's cell is entered by its own hand, and by others only while that hand computes
 *      (`computing`), so that a message can cancel a computation and timers are on time, or while
 *      it sleeps (`away`).  One computation of a cell runs at a time (`running`).  It has the
 *      scratch of the owner, whoever runs it (7).
 *  (5) A hand that is asleep set `asleep` before it looked at its mailbox for the last time; a
 *      hand that puts mail there then looks at `asleep`.  As in (3), no hand sleeps on mail.
 *  (6) After `over` is set no handler is entered any more; what is left in mailboxes is freed by
 *      the housekeeper when all other hands are gone.
 *  (7) Waking another thread takes longer than many a short computation.  So the port, where it has
 *      no helpers, goes on itself with what it has received for a worker whose hand is away, and
 *      computes, as long as handlers and computations of that kind have been brief (`pace`): those
 *      of the worker, and those of the shards beside it.  It
 *      computes a few times a turn at most, for others wait for it.  Whoever leaves a computation
 *      behind sets `called` of the owner's hand, which is looked at as a mailbox is (5).
 *  (8) With a desk (world/desk.h) workers have no hand: they are passive cells, and what they
 *      compute is offered at the desk, one at a time, by whoever is inside.  The caller's thread
 *      that answers enters the cell as a *guest*, with a hand that it borrows, and does what
 *      follows.  After `over` nothing is offered; what is with a caller then is waited for (`out`).
 *
 * With `lockfree`, messages of the kinds that may be shared (struct tw_kind), from a cell that
 * computes, do not go through the mailbox: `shared` is called at the moment when (2) would
 * put them there.  They stay in order among themselves; they may overtake others to that shard. */
#ifndef TW_WORLD_THREADS_INNER_H
#define TW_WORLD_THREADS_INNER_H

#include "actor/cluster.h"
#include "actor/message_pool.h"
#include "world/desk.h"
#include "world/scratch.h"
#include "world/threads/threads.h"
#include "world/trace.h"

#include <pthread.h>
#include <stdatomic.h>

enum mail_kind {
	MAIL_MESSAGE,
	MAIL_START,
	MAIL_TICK, /* timers are due */
	MAIL_INTERRUPT,
	MAIL_SAVED,  /* struct job */
	MAIL_LOADED, /* struct job */
	MAIL_UP,     /* m.from.node, m.h.incarnation: its boot */
	MAIL_DOWN,   /* m.from.node */
	MAIL_SUMMED, /* m.h.seq: the key; m.payload, m.tail: the sum, and what went with it */
};

/* What lies in a mailbox.  The mails of kinds other than MESSAGE, SAVED and LOADED are part of
 * their cell. */
struct mail {
	struct tw_msg m; /* must stay first */
	enum mail_kind kind;
	size_t abroad; /* bytes that came through the port and are not handled yet */
};

/* Work for the storekeeper, and its answer. */
enum job_kind { JOB_SAVE, JOB_PUT, JOB_LOAD, JOB_LOADED_FREE };
struct job {
	struct mail mail; /* must stay first */
	struct job *next;
	enum job_kind kind;
	struct cell *cell;
	uint64_t cut;
	enum tw_status status;
	struct tw_part *parts; /* of the job (SAVE, PUT) or of the store (LOAD) */
	size_t count;
	uint64_t from, to; /* LOAD: parameters of which more than heads are read */
};

struct alarm {
	uint32_t id;
	int64_t due;
};

struct hand;
struct cell;

/* How long things of one kind have taken lately.  Written by whoever runs the cell's computation,
 * or is inside. */
struct pace {
	_Atomic uint32_t brief;   /* higher: they were brief; a long one sets it back */
	_Atomic uint32_t samples; /* computations: of how many that is known */
};
enum { PACE_HANDLER = TW_PASSES, PACES }; /* computations by their kind */

/* The context that handlers get, with what it stands for. */
struct door {
	struct tw_context ctx; /* must stay first */
	struct cell *cell;
	struct hand *hand; /* who is inside */
};

struct cell {
	_Alignas(64) _Atomic(struct mail *) box; /* newest first, by m.next; see (2) */
	_Alignas(64) _Atomic bool busy;
	/* guarded by busy */
	struct door door;
	struct tw_actor *actor;
	struct mail *batch; /* taken out of the box, oldest first */
	struct alarm *alarm;
	size_t alarms, alarm_room;
	struct tw_compute *wanted, **wanted_end; /* not begun; chained by `world` */
	struct tw_compute *running;
	struct tw_errand errand; /* with a desk: `running` there */
	int64_t computed;        /* ... and ns that callers had such errands */
	bool told;               /* the wait `last` was logged */
	uint16_t place;          /* which cell of its worker it is; else 0 */
	struct tw_wait last;
	/* free for all */
	_Atomic int64_t due;  /* earliest alarm; INT64_MAX: none */
	_Atomic bool ticking; /* `tick` is on its way */
	_Atomic bool computing;
	_Atomic bool away; /* its hand sleeps */
	struct pace pace[PACES];
	/* never change */
	struct threads *world;
	const struct tw_seat *seat;
	struct hand *owner; /* a worker's; NULL: passive */
	bool computes;      /* its class has `computed` */
	uint32_t number;    /* place in world->cell */
	bool open;          /* class has `shared` and the run is lockfree */
	char name[112];     /* guarded by busy */
	/* mail of its own */
	struct mail start, tick, interrupt;
	/* guarded by the world's ready_lock */
	bool ready;
};

struct hand {
	_Alignas(64) struct threads *world;
	struct cell *own; /* a worker's; else NULL */
	pthread_t thread;
	bool started;
	struct scratch scratch;
	struct tw_msg *out, **out_end; /* sends of the handler that runs */
	bool gone;                     /* that handler's actor has left for good */
	bool visits;                   /* the work that it does is that of a worker (7) */
	uint32_t passes;               /* the port's: computations in this turn */
	struct cell **work;            /* a ring of cells with mail, each at most once */
	bool *listed;                  /* by cell: is in `work` */
	size_t first, works;
	struct tw_msg_pool messages;
	uint64_t events;
	int64_t began, spent[TW_USES];               /* ns; a worker's */
	_Atomic uint64_t bytes_sent, bytes_received; /* written by this hand only */
	/* written by others */
	_Alignas(64) _Atomic bool asleep;
	_Atomic bool called;   /* a computation was left behind for it */
	_Atomic int64_t until; /* asleep: when it looks again; else INT64_MIN */
	_Atomic bool stop;     /* what the engine looks at */
	pthread_mutex_t lock;
	pthread_cond_t wake;
};

struct threads {
	const struct tw_cluster *cluster;
	struct tw_threads_options options;
	struct tw_ran *ran;
	struct tw_heap *heap;
	int64_t began;
	struct cell *cell;
	size_t cells;
	struct cell *master;
	uint32_t *place;   /* hash table: cell number + 1, 0 empty */
	size_t places;     /* a power of two */
	struct hand *hand; /* the housekeeper, the storekeeper, the workers */
	size_t hands, locks;
	size_t workers, helpers, guests; /* of these hands; guests are the last */
	struct cell **ready;             /* a ring, each cell at most once */
	size_t ready_first;
	pthread_mutex_t ready_lock, end_lock, note_lock;
	struct trace trace;         /* guarded by note_lock while threads run */
	struct job *job, **job_end; /* guarded by the storekeeper's lock */
	/* with a desk, guarded by guest_lock */
	pthread_mutex_t guest_lock;
	pthread_cond_t guest_free;
	struct hand **guest; /* those that nobody has */
	size_t guest_count;
	size_t out; /* errands that are offered, or whose answer is being worked off */
	_Alignas(64) _Atomic bool over;
	_Atomic bool stopped_by_observer;
	_Atomic int64_t wake_at; /* when the housekeeper looks again */
	_Alignas(64) _Atomic size_t ready_count;
	_Atomic uint32_t idle; /* worker hands that wait */
	_Atomic size_t mailed; /* bytes of mail from abroad that is not handled yet */
	struct pace passive;   /* of handlers of cells without a hand, where there are workers */
};

#define HOUSEKEEPER 0
#define STOREKEEPER 1
#define PORT        2
#define WORKERS     3 /* first worker's hand; helpers follow, then guests */

static inline void tw_threads_rest(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Nanoseconds since the run began. */
static inline int64_t tw_threads_now(const struct threads *w)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * TW_SECOND + t.tv_nsec - w->began;
}

/* Only its own hand writes a count; others may read it meanwhile. */
static inline void tw_threads_bump(_Atomic uint64_t *count, uint64_t by)
{
	atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + by,
			      memory_order_relaxed);
}

/* threads_common.c */

void tw_threads_wake(struct hand *h);
/* "worker 3", or as the gateway says. */
void tw_threads_name(const struct threads *w, struct tw_addr a, uint32_t slot, char *out,
		     size_t room);
/* Bytes that all hands, and the gateway, have moved so far. */
void tw_threads_bytes(const struct threads *w, uint64_t *sent, uint64_t *received);
/* Give the storekeeper a job; free one. */
void tw_threads_job(struct threads *w, struct job *j);
void tw_threads_job_free(struct threads *w, struct job *j);
/* The first end counts.  Takes what totals hold; `who` (may be NULL) begins the sentence. */
void tw_threads_end(struct threads *w, enum tw_status status, struct tw_totals *totals,
		    const char *who);

/* threads_pace.c */

/* Something of the kind took so long. */
void tw_threads_took(struct pace *p, uint32_t samples, int64_t ns);
/* Does this hand go on with what it puts into the mailbox of this worker (7)? */
bool tw_threads_visits(const struct hand *me, const struct cell *c);
/* May this hand run this computation of the cell? */
bool tw_threads_may_compute(const struct hand *me, const struct cell *c,
			    const struct tw_compute *job);

/* threads_ready.c */

/* Outside: put the cell on this hand's list. */
void tw_threads_list(struct hand *me, struct cell *c);
/* Make what this hand cannot begin at once ready for hands that wait. */
void tw_threads_share(struct hand *me);
/* The next cell of its list, or of those that others made ready; NULL: there is none. */
struct cell *tw_threads_next(struct hand *me);

/* threads_box.c */

struct cell *tw_threads_find(const struct threads *w, struct tw_addr to);
/* Fills the table that `find` uses; false if two cells have the same address. */
bool tw_threads_index(struct threads *w);
/* Put mail into a mailbox; some hand will handle it, perhaps this one at its next `work`. */
void tw_threads_post(struct hand *me, struct cell *c, struct mail *mail);
bool tw_threads_try(struct hand *me, struct cell *c);
/* Enter as its owner, who waits for the short visits of others. */
void tw_threads_enter(struct hand *me, struct cell *c);
void tw_threads_leave(struct cell *c);

/* threads_offer.c */

/* Inside, after a handler: offer the oldest computation at the desk, if there is one. */
void tw_threads_offer(struct cell *c);
/* Inside: a computation that was cancelled and that nobody has begun; NULL: there is none. */
struct tw_compute *tw_threads_withdraw(struct cell *c);
/* Inside: what was offered came back without an answer. */
void tw_threads_not_out(struct cell *c);

/* threads_settle.c */

/* Inside, after a handler: deliver its sends, and complete what it cancelled. */
void tw_threads_settle(struct hand *me, struct cell *c);
/* Of body, tail and payload: what a wire could damage. */
uint64_t tw_threads_hash(const struct tw_msg *m);

/* threads_compute.c */

/* Outside: take the oldest computation that the cell has asked for and this hand may run.  From now
 * on the cell is open to others (4).  NULL: there is none for this hand; its owner is called if
 * there is one for him. */
struct tw_compute *tw_threads_begin(struct hand *me, struct cell *c);
/* Outside: run it, and tell the cell. */
void tw_threads_compute(struct hand *me, struct cell *c, struct tw_compute *job);

/* threads_mail.c */

/* Free the mail in the cell's mailbox; no other hand is left. */
void tw_threads_empty(struct hand *me, struct cell *c);
/* Inside: handle what is in the mailbox; a worker's own hand stops when it has work outside. */
void tw_threads_handle(struct hand *me, struct cell *c);
/* Inside: fire the alarms that are due. */
void tw_threads_ring(struct hand *me, struct cell *c);
/* Outside: handle the mail of listed cells and of those others made ready, until there is none.
 * False if there was nothing to do. */
bool tw_threads_work(struct hand *me);
/* Outside: empty one mailbox, if the cell can be entered. */
void tw_threads_drain(struct hand *me, struct cell *c);

/* threads_outside.c */

/* On the caller's thread: what was offered has its answer. */
void tw_threads_answered(struct tw_errand *e);
/* The run is over: nothing is with a caller any more when this returns. */
void tw_threads_outside_end(struct hand *me);

/* threads_trace.c */

/* A computation that began then has ended; only while a trace is open. */
void tw_threads_trace_compute(struct threads *w, const struct cell *c, const struct tw_compute *job,
			      int64_t began);
void tw_threads_trace_close(struct threads *w);

/* threads_context.c */

extern const struct tw_world tw_threads_world;

/* threads_hands.c: what threads run; the housekeeper is the caller's. */
void *tw_threads_worker(void *hand);
void *tw_threads_helper(void *hand);
void *tw_threads_storekeeper(void *hand);
void tw_threads_housekeep(struct hand *me);

#endif
