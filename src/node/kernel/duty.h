/* SPDX-License-Identifier: Apache-2.0 */
/* duty.h - a duty is one protocol: its messages, its state, and what it does at which event.
 *
 * An actor (master, shard, worker) is the kernel and a list of duties, in a fixed order, those of
 * them that its plan wants.  A duty has one table for each actor that takes part.  Only master.c,
 * shard.c and worker.c name these tables: others reach a duty by a hook, or call what its header
 * NAME/NAME.h declares.
 *
 *  (1) a hook that is NULL means: this duty does nothing then.
 *  (2) hooks are called in duty.c alone, in the order of the list.
 *  (3) no hook of a duty runs inside a hook of another: what another duty has to do because of it
 *      is done when the actor drives what is due.  Builds without NDEBUG check this.  `updated` may
 *      run inside another's: a duty that closes a sum updates the parameters, and what is due at
 *      this version is due before the next.  It changes only its own duty's state, and sends.
 *  (4) the state of all duties is in one allocation, behind the actor's own: tw_duties_bytes, then
 *      tw_duties_place. */
#ifndef TW_NODE_KERNEL_DUTY_H
#define TW_NODE_KERNEL_DUTY_H

#include "node/plan.h"

#define TW_DUTIES      32 /* most that an actor has */
#define TW_HEARS(kind) (UINT64_C(1) << (kind))

struct tw_array;
struct tw_master_part;

/* `actor` is the struct master, shard or worker that the list is of. */
struct tw_duty {
	const char *name;
	size_t bytes;   /* of its private state ... */
	size_t place;   /* ... which the pointer at this offset of the actor leads to */
	uint64_t hears; /* kinds of messages: TW_HEARS(TW_PIN) | ... */
	/* It decides something that one holder per plan decides: a struct tw_dealer at the master,
	 * tw_taker at a shard, tw_leasing at a worker.  NULL: it does not. */
	const void *seat;
	/* Is it part of such a run?  NULL: of every one. */
	bool (*wanted)(const struct tw_plan *plan);
	/* The state is zero, or as close left it: a shard is open while it is hosted.  TW_NO_MEMORY
	 * leaves what close gives back. */
	enum tw_status (*open)(void *actor);
	void (*close)(void *actor);
	/* A message of a kind that it hears; the door has checked who sends it. */
	void (*message)(void *actor, struct tw_context *ctx, const struct tw_msg *m);
	/* A generation begins: training starts, or goes on from an agreed state. */
	void (*begin)(void *actor, struct tw_context *ctx);
	/* The actor has another identity. */
	void (*renew)(void *actor, struct tw_context *ctx);
	/* The member of this slot is in (at a shard: a view names it, as somebody new), is out, or
	 * its connection was made anew. */
	void (*joined)(void *actor, struct tw_context *ctx, uint32_t slot);
	void (*lost)(void *actor, struct tw_context *ctx, uint32_t slot);
	void (*back)(void *actor, struct tw_context *ctx, uint32_t slot);
	/* This shard (TW_ALL_SHARDS: any) has a home, or can be reached again: what it was told may
	 * be lost.  At a shard: its master can be reached again. */
	void (*home)(void *actor, struct tw_context *ctx, uint32_t shard);
	/* This node can be reached again: what was sent there may be lost. */
	void (*node)(void *actor, struct tw_context *ctx, uint32_t node);
	/* The run has drained.  Is nothing of this duty under way that must be done before it ends,
	 * or goes on?  It may ask for that to be done. */
	bool (*idle)(void *actor, struct tw_context *ctx);
	/* More is applied: the shard's version, or what the master counts (3). */
	void (*updated)(void *actor, struct tw_context *ctx);
	/* A timer of the actor has come; it knows its own. */
	void (*timer)(void *actor, struct tw_context *ctx, uint32_t timer);
	/* The master: what it waits for from this shard, in words; NULL: nothing.  It changes
	 * nothing. */
	const char *(*waits)(const void *actor, uint32_t shard);
	/* The master: what a checkpoint has of it, by a name of its own, in memory of the actor's
	 * heap that becomes the caller's; n stays 0: nothing.  TW_NO_MEMORY. */
	enum tw_status (*pack)(void *actor, struct tw_array *out);
	/* The master: it is as it was in the checkpoint with this head and these arrays; head NULL:
	 * as it is before a run.  TW_BAD_BYTES: it does not find what it packed. */
	enum tw_status (*restore)(void *actor, const struct tw_master_part *head,
				  const struct tw_array *list, size_t count);
};

#define TW_ALL_SHARDS UINT32_MAX

/* Small: there may be 100,000 workers in a process. */
struct tw_duties {
	void *actor;
	const struct tw_duty *const *all; /* ends with NULL; shared by all actors of a class */
	const struct tw_duty *inside;     /* (3) */
	uint32_t wanted;                  /* bit k: all[k] is */
	uint32_t opened; /* those before this one; close() is not called for others */
};

/* Bytes of the state of those that the plan wants; `all` ends with NULL. */
size_t tw_duties_bytes(const struct tw_duty *const *all, const struct tw_plan *plan);
/* The list of an actor, and the state of each, in `memory`, which is zero. */
void tw_duties_place(struct tw_duties *d, void *actor, const struct tw_duty *const *all,
		     const struct tw_plan *plan, void *memory);
/* The seat that one of them holds; NULL: none does. */
const void *tw_duties_seat(const struct tw_duties *d);
/* Open them in order, up to the first that fails. */
enum tw_status tw_duties_open(struct tw_duties *d);
/* Close those that were opened, and the one whose open failed. */
void tw_duties_close(struct tw_duties *d);
void tw_duties_message(struct tw_duties *d, struct tw_context *ctx, const struct tw_msg *m);
void tw_duties_begin(struct tw_duties *d, struct tw_context *ctx);
void tw_duties_renew(struct tw_duties *d, struct tw_context *ctx);
void tw_duties_joined(struct tw_duties *d, struct tw_context *ctx, uint32_t slot);
void tw_duties_lost(struct tw_duties *d, struct tw_context *ctx, uint32_t slot);
void tw_duties_back(struct tw_duties *d, struct tw_context *ctx, uint32_t slot);
void tw_duties_home(struct tw_duties *d, struct tw_context *ctx, uint32_t shard);
void tw_duties_node(struct tw_duties *d, struct tw_context *ctx, uint32_t node);
void tw_duties_updated(struct tw_duties *d, struct tw_context *ctx);
void tw_duties_timer(struct tw_duties *d, struct tw_context *ctx, uint32_t timer);
/* What the first of them says that waits for something; NULL: none does. */
const char *tw_duties_waits(const struct tw_duties *d, uint32_t shard);
/* Appends what there is to list[*count]...; there is room for TW_DUTIES more. */
enum tw_status tw_duties_pack(struct tw_duties *d, struct tw_array *list, size_t *count);
enum tw_status tw_duties_restore(struct tw_duties *d, const struct tw_master_part *head,
				 const struct tw_array *list, size_t count);
/* Are all of them idle?  The first that is not is the last one asked. */
bool tw_duties_idle(struct tw_duties *d, struct tw_context *ctx);

#endif
