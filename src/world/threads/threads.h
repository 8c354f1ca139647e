/* SPDX-License-Identifier: Apache-2.0 */
/* threads.h - the world of one process: a compute thread per worker, passive shards.
 *
 * An actor whose class has `computed` has a thread of its own; today that is only the worker.  With
 * a desk (world/desk.h) it has none: callers compute, and an answer is worked off on their thread.
 *
 * A worker's own thread enters the master and the shards it talks to, under their locks, on memory
 * in place; where a lock is taken the message is left in the actor's mailbox, whose holder empties
 * it before it lets go; threads that wait for an answer help with unattended mailboxes.
 * The caller's thread is the housekeeper: it enters actors for timers and logs long waits;
 * one more thread talks to the store, so that a slow disk stops neither training nor timers. */
#ifndef TW_WORLD_THREADS_H
#define TW_WORLD_THREADS_H

#include "actor/cluster.h"

/* The way to actors that are not in this process.  Without one all of them must be here. */
struct tw_port;
struct tw_gateway {
	void *arg;
	/* The actors are made and none has started.  From now on one thread of the gateway's may
	 * use the port, until `closing` has returned. */
	enum tw_status (*opened)(void *arg, struct tw_port *port, struct tw_error *why);
	/* A message to an actor that is not here; takes it.  Any thread; the messages of one actor
	 * come in their order.  It need not leave before `sent`, which follows the last of some. */
	void (*send)(void *arg, struct tw_msg *m);
	void (*sent)(void *arg);
	/* An actor of ours has left the cluster for good, and given `send` its last messages. */
	void (*gone)(void *arg, struct tw_addr who);
	/* As the effect of struct tw_world, from the actor `who`.  Any thread.  NULL: there is
	 * none. */
	void (*sum)(void *arg, struct tw_addr who, const struct tw_sum *sum);
	/* As the effects of struct tw_world; `members` from the actor `who`.  Any thread. */
	void (*named)(void *arg, uint32_t slot, uint32_t incarnation);
	void (*members)(void *arg, struct tw_addr who, const struct tw_member *list, size_t count);
	/* Bytes sent and received so far. */
	void (*bytes)(void *arg, uint64_t *sent, uint64_t *received);
	/* What people call an actor: "worker 3 on host". */
	void (*name)(void *arg, struct tw_addr who, uint32_t slot, char *out, size_t room);
	/* A wait of more than five seconds (why not NULL), or it is over.  May be NULL. */
	void (*waits)(void *arg, const char *who, const char *whom, const char *why,
		      double seconds);
	/* The run has ended in this process: do not use the port any more. */
	void (*closing)(void *arg);
};

struct tw_threads_options {
	const struct tw_gateway *gateway; /* NULL: all actors are here */
	uint32_t helpers; /* threads that enter shards, besides those of the workers */
	bool hash; /* check hashes although nothing crosses a wire (tests); not with lockfree */
	/* Messages of the kinds that may be shared (struct tw_kind), from an actor that computes,
	 * enter one whose class has `shared` without its lock, many at a time; there it may send,
	 * note, log and finish, and nothing else. */
	bool lockfree;
};

/* Run the cluster until its master finishes.  The return value is ran->error.status.  `options`
 * may be NULL.  A cluster that cannot run (no master, two seats at one address, a node beyond
 * `nodes`) is TW_BAD_INPUT. */
enum tw_status tw_threads_run(const struct tw_cluster *cluster,
			      const struct tw_threads_options *options, struct tw_ran *ran);

/* What a gateway's thread may do. */

/* Bytes of the memory of a message: gateways make them from cluster->heap, zeroed. */
size_t tw_port_msg_bytes(void);
/* Give a message to the actor at m->to; false: there is none here, and m stays the caller's. */
bool tw_port_deliver(struct tw_port *p, struct tw_msg *m);
/* Bytes of messages given to actors that they have not handled yet. */
size_t tw_port_mailed(struct tw_port *p);
/* Tell all actors here that a node can be reached (again), or cannot.  False without memory. */
bool tw_port_up(struct tw_port *p, uint32_t node, uint32_t boot);
bool tw_port_down(struct tw_port *p, uint32_t node);
/* A sum that this actor asked for is made; the references are taken.  False without memory. */
bool tw_port_summed(struct tw_port *p, struct tw_addr who, const struct tw_sum *sum);
/* After some of these: do the work that no other thread does. */
void tw_port_work(struct tw_port *p);
/* End the run in this process. */
void tw_port_end(struct tw_port *p, enum tw_status status, const char *text);

#endif
