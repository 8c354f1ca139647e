/* SPDX-License-Identifier: Apache-2.0 */
/* sim_hop.c - the hops of a message: network cards, and the links that groups share.
 *
 * A NIC serves one message at a time in each direction.  The receiving one begins with the first
 * byte that arrives (cut-through), in the order in which first bytes arrive, so an idle path costs
 * latency + bytes / bandwidth, once.  What is faster than the one before it begins later, so that
 * it ends with the last byte, and is free for others until then.  Between groups of machines the
 * links that a group shares are two more of these (enum hop). */
#include "world/sim/sim_run.h"

#include <math.h>

int64_t tw_sim_takes(size_t bytes, double bandwidth)
{
	return bandwidth > 0.0 ? llround((double)bytes * 8e9 / bandwidth) : 0;
}

void tw_sim_go_on(const struct sim *s, struct parcel *p, enum hop behind)
{
	const struct node *from = &s->cast.node[p->msg.from.node];
	const struct node *to = &s->cast.node[p->msg.to.node];
	const bool apart = tw_sim_group(from) != tw_sim_group(to);

	p->hop = HOP_NIC;
	if (apart && behind == HOP_NIC && tw_sim_group(from))
		p->hop = HOP_OUT;
	else if (apart && behind != HOP_IN && tw_sim_group(to))
		p->hop = HOP_IN;
	p->lasts = tw_sim_takes(tw_msg_bytes(&p->msg), p->hop == HOP_NIC
							       ? tw_sim_nic(s, to)
							       : s->options->machines.bandwidth);
}
