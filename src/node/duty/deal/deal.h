/* SPDX-License-Identifier: Apache-2.0 */
/* deal.h - which samples a worker gets, and when; and what members hold.  README.md says what this
 * promises, and in which order messages go.  The only header of this folder that others include. */
#ifndef TW_NODE_DUTY_DEAL_DEAL_H
#define TW_NODE_DUTY_DEAL_DEAL_H

#include "actor/cluster.h"

struct master;
struct speed;
struct tw_array;
struct tw_duty;
struct tw_span;

/* Named by master.c alone.  It holds the seat of the dealer (kernel/dealer.h) where no other duty
 * does. */
extern const struct tw_duty tw_deal_master;

/* --- who -------------------------------------------------------------------------------------- */

/* This slot has a worker now, or has none any more. */
void tw_deal_seat(struct master *m, uint32_t slot, bool in);
/* Is this a warm start, in which it is not this worker's turn yet? */
bool tw_deal_too_early(const struct master *m, uint32_t slot);
/* How fast a member computes: who comes next in this slot is somebody else; steps between two
 * pushes, which it is told now (0: as the plan says); the least and the most that anybody was told
 * (0: nobody was). */
void tw_speed_forget(struct master *m, uint32_t slot);
uint32_t tw_speed_tell(struct master *m, uint32_t slot);
void tw_speed_range(const struct master *m, uint32_t *least, uint32_t *most);

/* --- which positions -------------------------------------------------------------------------- */

/* The next free range for this worker below `end`, at most `most` long, inside one epoch. */
bool tw_deal_next_range(struct master *m, uint32_t slot, uint64_t end, uint64_t most,
			struct tw_span *out);
/* With data.deal, else these do nothing.  These positions are not taken any more; or all may have
 * changed. */
void tw_orphans_came_back(struct master *m, uint64_t from, uint64_t to);
void tw_orphans_restart(struct master *m);
/* data.placement own: what is next and nobody here can compute is passed over. */
void tw_orphans_pass(struct master *m, struct tw_context *ctx);
/* ... and a round ends where the first epoch does of which samples are left; else at `end`. */
uint64_t tw_orphans_end(const struct master *m, uint64_t end);
/* Places that were passed over, because nobody here has their samples. */
struct passed {
	uint64_t unreachable, vacant;
};
struct passed tw_deal_passed(const struct master *m);

/* What may be dealt lies before this position: all of the run, or what has arrived of a stream. */
uint64_t tw_deal_end(const struct master *m);
/* Of a stream; where all samples are here, these do nothing.  Look whether more has come
 * (TIMER_STREAM, if not).  Is there a push for each member, or no more to come? */
void tw_deal_look(struct master *m, struct tw_context *ctx);
bool tw_deal_enough(const struct master *m);

/* --- what members hold ------------------------------------------------------------------------ */

/* Say to the shards of a gate that holds that this worker has nothing to do, or has again. */
void tw_deal_tell_idle(struct master *m, struct tw_context *ctx, uint32_t slot, bool idle);
/* Everything this worker holds goes back and is dealt again; it asks for nothing. */
void tw_deal_return(struct master *m, struct tw_context *ctx, uint32_t slot);
/* What it may not have heard, once more. */
void tw_deal_resend(struct master *m, struct tw_context *ctx, uint32_t slot);
/* It holds these, from before this master.  False: the run is given up. */
bool tw_deal_adopt(struct master *m, struct tw_context *ctx, uint32_t slot,
		   const struct tw_range *list, size_t count);
/* A new generation: nobody holds anything; what was held is dealt again. */
void tw_deal_forget(struct master *m, struct tw_context *ctx);

/* --- what a checkpoint has of it -------------------------------------------------------------- */

#define TW_PASSED_PART "passed"
struct tw_array tw_orphans_pack(const struct master *m, const struct passed *passed);
void tw_orphans_restore(struct master *m, const struct tw_array *a);
/* An array of the plan's slots, the caller's to put back, and its bytes; NULL without memory, or
 * where nobody's speed counts.  From such an array; one of other workers is not used. */
void *tw_speeds_list(const struct master *m, size_t *bytes);
void tw_speeds_restore(struct master *m, const void *list, size_t bytes);

#endif
