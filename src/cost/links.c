/* SPDX-License-Identifier: Apache-2.0 */
/* links.c - what the messages of one exchange weigh, and how long they take. */
#include "cost/links.h"

#include <math.h>

#define NS 1e-9

double tw_cost_head(enum tw_type type)
{
	return (double)(sizeof(struct tw_header) + tw_body_bytes((uint16_t)type));
}

double tw_cost_message(const struct tw_cost_links *l, enum tw_type type, double more)
{
	return (tw_cost_head(type) + more) * l->per_byte;
}

/* Bytes of n values; 0: that depends on the values. */
static double bytes_of(const struct tw_codec *codec, const void *options, size_t n)
{
	return codec->usual ? codec->usual(options, n) : (double)codec->bound(options, n);
}

static size_t length(const struct tw_plan *p, uint32_t shard)
{
	return p->problem.border[shard + 1] - p->problem.border[shard];
}

/* Of codec.up: as it says, or as it was measured. */
static double encoded_up(const struct tw_cost_links *l, const struct tw_plan *p, uint32_t shard)
{
	const double said = bytes_of(p->traffic.up, p->traffic.up_options, length(p, shard));

	return said > 0 ? said : l->up_per_value * (double)length(p, shard);
}

static double up_of(const struct tw_cost_links *l, const struct tw_plan *p, uint32_t shard)
{
	return tw_cost_head(TW_PUSH) + encoded_up(l, p, shard);
}

static double down_of(const struct tw_plan *p, uint32_t shard)
{
	return tw_cost_head(TW_PARAMS) +
	       bytes_of(p->traffic.down, p->traffic.down_options, length(p, shard));
}

/* Shards go to servers in turn; the first server has the most of them. */
static void weigh_servers(struct tw_cost_links *l, const struct tw_plan *p)
{
	const uint32_t servers = p->crew.servers;

	for (uint32_t server = 0; server < servers; server++) {
		double down = 0, last = 0;

		for (uint32_t k = server; k < p->problem.shards; k += servers)
			down += last = down_of(p, k);
		if (down > l->share * l->down_bytes) {
			l->share = down / l->down_bytes;
			l->last_share = last / l->down_bytes;
		}
	}
}

/* From the end of a computation to parameters of all shards: message k is answered when it is
 * there, while later ones are still on their way. */
static double round_trip(const struct tw_cost_links *l, const struct tw_plan *p, double apply_rate,
			 bool push)
{
	double there = l->latency, back = 0;

	for (uint32_t k = 0; k < p->problem.shards; k++) {
		const double apply =
			push && apply_rate > 0 ? floor(encoded_up(l, p, k) / 4) / apply_rate : 0;

		there += push ? up_of(l, p, k) * l->per_byte : tw_cost_message(l, TW_PULL, 0);
		back = fmax(back, there + apply + l->latency) + down_of(p, k) * l->per_byte;
		if (l->per_byte == 0)
			back = fmax(back, there + apply + l->latency);
	}
	return back;
}

static void apply_time(struct tw_cost_links *l, const struct tw_plan *p, double apply_rate)
{
	for (uint32_t k = 0; apply_rate > 0 && k < p->problem.shards; k++)
		l->applying =
			fmax(l->applying,
			     floor((up_of(l, p, k) - tw_cost_head(TW_PUSH)) / 4) / apply_rate);
}

bool tw_cost_links_init(struct tw_cost_links *l, const struct tw_plan *plan,
			const struct tw_sim_options *sim, double up_per_value,
			const struct tw_codec **codec)
{
	const struct tw_traffic *t = &plan->traffic;

	*l = (struct tw_cost_links){
		.latency = NS * ((double)sim->latency + (double)sim->jitter / 2 +
				 sim->loss / (1 - sim->loss) * (double)sim->retransmit),
		.per_byte = sim->bandwidth > 0 ? 8 / sim->bandwidth : 0,
		.up_per_value = up_per_value,
	};
	for (uint32_t k = 0; k < plan->problem.shards; k++) {
		*codec = encoded_up(l, plan, k) <= 0 ? t->up : t->down;
		if (encoded_up(l, plan, k) <= 0 ||
		    bytes_of(t->down, t->down_options, length(plan, k)) <= 0)
			return false;
		l->up_bytes += up_of(l, plan, k);
		l->down_bytes += down_of(plan, k);
	}
	l->up = l->up_bytes * l->per_byte;
	l->down = l->down_bytes * l->per_byte;
	weigh_servers(l, plan);
	apply_time(l, plan, sim->apply_rate);
	l->exchange = round_trip(l, plan, sim->apply_rate, true);
	l->pull = round_trip(l, plan, sim->apply_rate, false);
	return true;
}
