/* SPDX-License-Identifier: Apache-2.0 */
/* mix.h - replicas that differ while they train.  README.md says what they tell each other. */
#ifndef TW_NODE_DUTY_MIX_MIX_H
#define TW_NODE_DUTY_MIX_MIX_H

#include "node/kernel/duty.h"

struct reducer;
struct shard;

extern const struct tw_duty tw_mix_shard;

/* Has the master told with whom it acts together? */
bool tw_mix_is_formed(const struct shard *s);
/* COMMIT: is it of the mean of all parameters?  Then that is adopted. */
bool tw_mix_adopts(struct shard *s, struct tw_context *ctx, const struct tw_msg *m);
/* The parameters become the mean that was added up; TW_NO_MEMORY changes nothing. */
enum tw_status tw_mix_take_mean(struct shard *s, const struct reducer *r);
/* A round was applied: a formation may have waited for that. */
void tw_mix_round_over(struct shard *s, struct tw_context *ctx);
/* For which other replica does it wait?  False: for none. */
bool tw_mix_waits(const struct shard *s, struct tw_wait *out);

#endif
