/* SPDX-License-Identifier: Apache-2.0 */
/* sim_run.h - the state of one simulated run, shared by the simulator's own files only.
 *
 *  (1) the clock never goes back, and every event is handled at its own time.
 *  (2) nothing but the main loop enters a handler, one at a time; what a handler sends waits in
 *      the outbox until it has returned.
 *  (3) on a link that lives, messages arrive in the order they were sent.
 *  (4) `due` counts what can still make something happen: everything queued but the ticks,
 *      timers that were cleared and events that were given up.
 *  (5) an actor's timers are numbered below SIM_TIMERS, and only the master ends a run well. */
#ifndef TW_WORLD_SIM_RUN_H
#define TW_WORLD_SIM_RUN_H

#include "actor/message_pool.h"
#include "world/sim/sim.h"
#include "world/sim/sim_compute.h"
#include "world/sim/sim_queue.h"
#include "world/trace.h"

#define SIM_TIMERS 16

enum event_kind {
	EVENT_GIVEN_UP, /* nothing: its owner changed its mind */
	EVENT_ARRIVE,   /* a parcel's first byte is at the other node */
	EVENT_RECEIVED, /* a parcel is there as a whole */
	EVENT_SERVED,   /* a shard has worked off what was before it, and it */
	EVENT_TIMER,
	EVENT_COMPUTED,
	EVENT_SAVED,
	EVENT_LOADED,
	EVENT_TICK,    /* ask which actors wait */
	EVENT_FAULT,   /* `what` begins */
	EVENT_HEAL,    /* a partition ends */
	EVENT_WELL,    /* a slow node is itself again */
	EVENT_CLOSED,  /* peers give a crashed node up */
	EVENT_SILENT,  /* both sides of a cut give each other up */
	EVENT_RESTART, /* a crashed node is back */
};

struct event {
	uint8_t kind, timer;
	uint32_t node; /* CLOSED, RESTART: the node; SILENT: the cut's number */
	uint32_t boot; /* of the node it is for: another one makes it void */
	struct cell *cell;
	void *what; /* struct job, save, pair or tw_fault */
	int64_t at;
};

/* What is on the way of a message behind the NIC of its sender. */
enum hop {
	HOP_NIC, /* of its receiver */
	HOP_OUT, /* the link of the sender's group */
	HOP_IN,  /* the link of the receiver's group */
};

/* A message on its way. */
struct parcel {
	struct event event; /* must stay first */
	uint32_t from_boot, epoch;
	bool late, counted; /* late: from a connection that was reset; counted: in bytes alive */
	bool flying;        /* counted at both of its nodes */
	int64_t sent, left; /* left: its last byte has left the sender */
	uint8_t hop;        /* enum hop: what it comes to when its event comes */
	int64_t lasts;      /* what that needs for it */
	struct tw_msg msg;
};

/* A cut on its way to the store. */
struct save {
	struct event *event;
	struct save *next, *before;
	int64_t at; /* of its end */
	uint64_t cut;
	struct tw_part *part;
	size_t parts;
	bool more; /* a part of a cut that another save completes */
};

/* Parameters of which more than the heads of a cut are read. */
struct look {
	uint64_t from, to;
	struct look *next, *before;
};

/* An actor where it lives. */
struct cell {
	struct tw_context ctx; /* must stay first */
	struct sim *sim;
	const struct tw_actor_class *class;
	struct tw_actor *actor; /* NULL while its node is down */
	const void *arg;        /* of its seat */
	struct job *jobs;
	int64_t busy;                 /* a shard's queue is empty again */
	int64_t queued;               /* when the last message in that queue is served */
	struct tw_wait named;         /* the last wait that was logged */
	bool looked_at;               /* on the list of sim_wait.c */
	int64_t deadline[SIM_TIMERS]; /* < 0: not set */
	struct event *pending[SIM_TIMERS];
};

/* What a node's time went into, up to `since` (sim_usage.c). */
struct use {
	int64_t since, spent[TW_USES];
	uint32_t flying; /* messages from or to it that are on their way */
	bool computing;
};

enum node_kind { NODE_MASTER = 1, NODE_SERVER = 2, NODE_WORKER = 4 };

struct node {
	uint32_t first, cells;                  /* its cells, sorted by role and index */
	uint32_t at[TW_ROLES], count[TW_ROLES]; /* those of a role */
	uint32_t boot, kinds;
	uint32_t worker, server; /* its number among those */
	uint32_t odd;            /* pairs of it that are not like all others */
	bool alive, given_up;
	const struct tw_machine *machine; /* NULL: not one of sim.nodes */
	int64_t egress, ingress;          /* its NIC is free again */
	int64_t crashed;                  /* when, last */
	double slow;                      /* from faults */
	struct job *line, *line_last;     /* of its device: the first one runs (sim_device.c) */
	struct use use;
	uint32_t *friend, friends; /* nodes that it has talked to although roles do not say so */
};

/* Two nodes whose link is, or was, not like all others. */
struct pair {
	uint32_t node[2]; /* ascending */
	uint32_t boot[2]; /* when it was cut */
	uint32_t cuts;    /* partitions that separate them now */
	uint32_t number;  /* of the cut */
	uint32_t epoch;   /* of the connection: parcels of another one are lost */
	bool down;        /* both were told */
	bool broken;      /* reset while it was cut */
	bool told[2];     /* node[i] believes that the other is down */
	struct parcel *held, **held_end;
};

/* Cells that a handler has left since the last tick, and those whose wait is not long yet.  A cell
 * that is not among them does not wait, or its wait is unchanged and was logged. */
struct waits {
	struct cell **cell;
	uint32_t count;
};

/* Everybody, from the seats; never changes but for what cells and nodes hold. */
struct cast {
	struct cell *cell; /* by node, role, index */
	struct node *node;
	struct cell *master;
	uint32_t cells, nodes, workers, servers;
	uint32_t *hub, hubs; /* nodes with a master or servers, ascending */
};

/* What is known of links.  Those that were never disturbed have nothing here. */
struct links {
	struct map fifo;    /* (from, to) -> last arrival; only with jitter or loss */
	struct map pairs;   /* (a, b), a < b -> struct pair * */
	struct map friends; /* (a, b), a < b: they are friends */
	struct group_link {
		int64_t out, in; /* it is free again */
	} * group;               /* of machines, from number 1; NULL: there are none */
	bool lossy;
};

struct sim;

struct faults {
	struct tw_fault *all; /* given and drawn */
	size_t count;
	const struct tw_fault **kill_at; /* KILL_AT, ascending */
	size_t kills, killed;
	uint64_t next_kill; /* events after which the next one is due ... */
	void (*kill)(struct sim *s, const struct cell *c); /* ... and what is told; c has sent */
};

struct sim {
	const struct tw_cluster *cluster;
	const struct tw_sim_options *options;
	struct tw_ran *ran;
	struct tw_heap *heap;
	struct tw_rng rng;
	struct queue queue;
	struct slab events, jobs;
	struct tw_msg_pool messages; /* in their parcels */
	struct pool pool;
	struct trace trace;
	struct cast cast;
	struct links links;
	struct waits waits;
	struct faults faults;
	int64_t now, latest; /* latest: the end at the latest, INT64_MAX: none */
	uint64_t due, alive_bytes;
	struct tw_msg *out, **out_end;
	struct save *saves, *newest_save; /* a store does one after another: oldest first */
	struct look *looks;
	bool over, interrupting;
	uint32_t interrupted_boot; /* the master that was told */
};

/* sim_event.c */
void tw_sim_fail(struct sim *s, enum tw_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Queue the event; false, and the run is over, without memory.  The first does not count it as
 * due. */
bool tw_sim_queue(struct sim *s, int64_t at, struct event *e);
bool tw_sim_push(struct sim *s, int64_t at, struct event *e);
/* A new event; and one that is pushed.  NULL as above. */
struct event *tw_sim_event_new(struct sim *s, enum event_kind kind, struct cell *cell, void *what);
struct event *tw_sim_event(struct sim *s, int64_t at, enum event_kind kind, struct cell *cell,
			   void *what);
/* The event will not happen. */
void tw_sim_give_up(struct sim *s, struct event *e);
/* May this cell of a node be entered, if it was up since `boot`? */
bool tw_sim_lives(const struct sim *s, const struct cell *c, uint32_t boot);

/* sim_hop.c */
/* What bytes take there, ns. */
int64_t tw_sim_takes(size_t bytes, double bandwidth);
/* What comes behind a hop, HOP_NIC standing for that of the sender, and what it needs. */
void tw_sim_go_on(const struct sim *s, struct parcel *p, enum hop behind);

/* sim_send.c */
/* A handler of the cell has returned: count it, send what it sent, crash the nodes that must. */
void tw_sim_leave(struct sim *s, struct cell *c);
/* Of what the last handler sent, so many messages leave; the others are lost. */
void tw_sim_post_first(struct sim *s, uint64_t count);

/* sim_arrive.c: a parcel's first byte, and all of it, or its turn in a shard's queue. */
void tw_sim_arrive(struct sim *s, struct parcel *p);
void tw_sim_received(struct sim *s, struct parcel *p);

/* sim_world.c */
extern const struct tw_world tw_sim_world;
/* Make the actors of a node; false, and the run is over, without memory. */
bool tw_sim_node_make(struct sim *s, uint32_t node);
void tw_sim_node_start(struct sim *s, uint32_t node);
/* Its memory is lost: actors, timers, computations, and by chance what it was saving. */
void tw_sim_node_stop(struct sim *s, uint32_t node);
void tw_sim_timer(struct sim *s, struct event *e); /* takes the event */
/* COMPUTED, SAVED, LOADED. */
void tw_sim_answer(struct sim *s, const struct event *e);
/* The run has ended: so do its saves. */
void tw_sim_saves_close(struct sim *s);

/* sim_device.c */
void tw_sim_compute(struct tw_context *ctx, struct tw_compute *c);
void tw_sim_cancel(struct tw_context *ctx, struct tw_compute *c);
void tw_sim_computed(struct sim *s, struct job *j);
void tw_sim_jobs_stop(struct sim *s, struct cell *c); /* its node is gone */

/* sim_usage.c */
void tw_sim_use_computing(struct sim *s, struct node *n, bool computing);
void tw_sim_use_sent(struct sim *s, struct parcel *p, int64_t at); /* at: its first byte leaves */
void tw_sim_use_landed(struct sim *s, struct parcel *p);           /* or is lost; once */
void tw_sim_use_received(struct sim *s, const struct parcel *p);
void tw_sim_use_applied(struct sim *s, const struct tw_note *note);
void tw_sim_use_end(struct sim *s); /* into tw_ran */

/* sim_wait.c */
/* A handler of the cell has returned: it may wait for another now. */
void tw_sim_wait_look(struct sim *s, struct cell *c);
/* "worker 3", "shard 1 on server 2". */
void tw_sim_name(const struct sim *s, struct tw_addr addr, char *out, size_t room);
/* Log the waits of more than five seconds that were not logged before. */
void tw_sim_tick(struct sim *s);
/* End the run with a sentence that names every wait. */
void tw_sim_stuck(struct sim *s, const char *why);

/* sim_link.c */
void tw_sim_parcel_free(struct sim *s, struct parcel *p);
struct cell *tw_sim_cell(const struct sim *s, struct tw_addr addr); /* NULL: there is none */
bool tw_sim_linked(const struct sim *s, uint32_t a, uint32_t b);
/* Two nodes whose roles do not link them talk: from now on they hear when the other is gone.  False
 * without memory. */
bool tw_sim_befriend(struct sim *s, uint32_t a, uint32_t b);
/* The nodes that may be linked with this one: so many, and the k-th, in ascending order but for
 * friends.  A worker's are few, however many workers there are. */
uint32_t tw_sim_neighbours(const struct sim *s, uint32_t node);
uint32_t tw_sim_neighbour(const struct sim *s, uint32_t node, uint32_t k);
struct pair *tw_sim_pair(const struct sim *s, uint32_t a, uint32_t b); /* NULL: like all others */
struct pair *tw_sim_pair_new(struct sim *s, uint32_t a, uint32_t b);   /* NULL: no memory */
void tw_sim_pair_drop_held(struct sim *s, struct pair *p);
void tw_sim_links_release(struct sim *s);

/* sim_fault_plan.c */
enum tw_status tw_sim_faults_open(struct sim *s, const struct tw_fault *given, size_t count);
void tw_sim_faults_close(struct sim *s);

/* sim_fault.c */
void tw_sim_fault_event(struct sim *s, const struct event *e);
/* Crash whom this handler was the last of.  If it was the victim's own, it dies somewhere between
 * two of its sends. */
void tw_sim_kill(struct sim *s, const struct cell *c);

static inline struct node *tw_sim_node_of(const struct sim *s, const struct cell *c)
{
	return &s->cast.node[c->ctx.self.node];
}

/* The bandwidth of a node's card. */
static inline double tw_sim_nic(const struct sim *s, const struct node *n)
{
	return n->machine ? n->machine->bandwidth : s->options->bandwidth;
}

static inline uint32_t tw_sim_group(const struct node *n) /* 0: of none */
{
	return n->machine ? n->machine->group : 0;
}

/* A hop has it from `begin` to `end`: when does the one behind begin with it? */
static inline int64_t tw_sim_begins(const struct parcel *p, int64_t begin, int64_t end)
{
	return end - p->lasts > begin ? end - p->lasts : begin;
}

static inline struct parcel *tw_sim_parcel(struct tw_msg *m)
{
	return (struct parcel *)((char *)m - offsetof(struct parcel, msg));
}

#endif
