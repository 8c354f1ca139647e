/* SPDX-License-Identifier: Apache-2.0 */
/* sim_options.c - the options of the simulator: the section `sim:` of a job file. */
#include "world/sim/sim.h"

static const char *const laws[] = { [TW_LAW_CONSTANT] = "constant",
				    [TW_LAW_UNIFORM] = "uniform",
				    [TW_LAW_LOG_NORMAL] = "log-normal",
				    [TW_LAW_EXPONENTIAL] = "exponential",
				    [TW_LAW_GAMMA] = "gamma",
				    [TW_LAW_PARETO] = "pareto",
				    NULL };

#define SECONDS 1e9
#define YEAR    (366.0 * 86400.0 * SECONDS)
#define ROW(field, key, kind, standard, unit, low, high, ...)                                      \
	TW_OPTION_AS(struct tw_sim_options, field, key, kind, standard, unit, low, high,           \
		     __VA_ARGS__)

const struct tw_option tw_sim_rows[] = {
	TW_OPTION_CHOICE(struct tw_sim_options, law, "compute.law", "constant", laws,
			 "distribution of the time of a step"),
	ROW(mean, "compute.mean", TW_TIME, "100ms", NULL, 1, YEAR,
	    "mean time of a step, for a worker of speed 1 (all laws except log-normal)"),
	ROW(median, "compute.median", TW_TIME, "100ms", NULL, 1, YEAR,
	    "median time of a step (log-normal)"),
	ROW(sigma, "compute.sigma", TW_F64, "0.2", NULL, 0, 10,
	    "standard deviation of the logarithm of the time (log-normal)"),
	ROW(spread, "compute.spread", TW_F64, "0.5", NULL, 0, 1,
	    "times lie between mean x (1 - spread) and mean x (1 + spread) (uniform)"),
	ROW(shape, "compute.shape", TW_F64, "2", NULL, 0.01, 1e6,
	    "shape of the law (gamma; pareto: above 1)"),
	ROW(per_sample, "compute.per_sample", TW_BOOL, "false", NULL, 0, 0,
	    "the times above are per sample of the batch, not per step"),
	ROW(backward, "compute.backward", TW_F64, "2", "times", 1e-3, 1e3,
	    "how many times longer the backward of a stage takes than its forward; together they "
	    "take its share of a step (strategy.pipeline)"),
	ROW(stages, "compute.stages", TW_F64S, "[]", NULL, 0, 1e12,
	    "what the forward and the backward of each stage take, relative to each other: for two "
	    "stages four numbers; together they are a step; []: by operations and "
	    "compute.backward (strategy.pipeline)",
	    .example = "[1, 2, 1.5, 3]"),
	ROW(by_label, "compute.by_label", TW_F64S, "[]", "times", 1e-6, 1e6,
	    "how many times longer samples of each label take, from label 0 on (1 for labels "
	    "beyond "
	    "the list); a step takes the mean of its samples; []: all are alike",
	    .example = "[1, 1, 4]"),
	ROW(by_sample, "compute.by_sample", TW_F64S, "[]", "times", 1e-6, 1e6,
	    "the same for each sample of the training set, in its own order; a shorter list is "
	    "repeated from its start",
	    .example = "[1, 4]"),
	ROW(speeds, "speeds", TW_F64S, "[]", NULL, 1e-6, 1e6,
	    "speed of each worker; a shorter list is repeated from its start; []: all have speed "
	    "1",
	    .example = "[1, 1, 0.5]"),
	ROW(stragglers, "stragglers.count", TW_U32, "0", "workers", 0, 1000000,
	    "number of stragglers: the last workers are slower", .example = "1"),
	ROW(slower, "stragglers.slower", TW_F64, "1", "times", 1, 1e6,
	    "how many times slower the stragglers are", .example = "4"),
	ROW(straggle_on, "stragglers.on", TW_TIME, "0s", NULL, 0, YEAR,
	    "how long stragglers are slow at a time; 0s: always", .example = "10s"),
	ROW(straggle_off, "stragglers.off", TW_TIME, "0s", NULL, 0, YEAR,
	    "how long stragglers have normal speed in between; 0s: never", .example = "30s"),
	ROW(apply_rate, "apply_rate", TW_F64, "0", "parameters/s", 0, 1e18,
	    "parameters that a shard can update per second; 0: no limit", .example = "1e9"),
	ROW(latency, "latency", TW_TIME, "100us", NULL, 0, YEAR,
	    "latency from node to node, one way"),
	ROW(jitter, "jitter", TW_TIME, "0s", NULL, 0, YEAR,
	    "random addition to the latency, uniform from 0 to this", .example = "100us"),
	ROW(bandwidth, "bandwidth", TW_BITS, "10Gbit/s", NULL, 0, 1e18,
	    "bandwidth of each node's network card in each direction; 0bit/s: no limit"),
	ROW(machines.bandwidth, "groups.bandwidth", TW_BITS, "0bit/s", NULL, 0, 1e18,
	    "bandwidth of the link that machines of a group (sim.nodes) share to all others, in "
	    "each direction; 0bit/s: no limit",
	    .example = "1Gbit/s"),
	ROW(machines.latency, "groups.latency", TW_TIME, "0s", NULL, 0, YEAR,
	    "what a message takes more from one group of machines to another", .example = "500us"),
	ROW(loss, "loss", TW_F64, "0", NULL, 0, 0.99,
	    "share of messages that the link loses and sends again", .example = "0.001"),
	ROW(retransmit, "retransmit", TW_TIME, "200ms", NULL, 0, YEAR,
	    "delay of each message that is sent again"),
	ROW(save_time, "save_time", TW_TIME, "0s", NULL, 0, YEAR,
	    "how long it takes to save a checkpoint", .example = "2s"),
	ROW(load_time, "load_time", TW_TIME, "0s", NULL, 0, YEAR,
	    "how long it takes to read a checkpoint", .example = "2s"),
	ROW(local, "local", TW_TIME, "0s", NULL, 0, YEAR,
	    "how long a message takes between two actors of one node", .example = "1us"),
	ROW(closed_limit, "closed_limit", TW_TIME, "2s", NULL, 0, YEAR,
	    "a node is removed this long after its connection closed"),
	ROW(silent_limit, "silent_limit", TW_TIME, "15s", NULL, 0, YEAR,
	    "a node is removed when it has been silent for this long"),
	ROW(random_crashes, "random.crashes", TW_U32, "0", NULL, 0, 100000,
	    "number of crashes at random times; most nodes restart", .example = "3"),
	ROW(random_partitions, "random.partitions", TW_U32, "0", NULL, 0, 100000,
	    "number of partitions at random times: a link, or all links of a node, fail for a "
	    "while",
	    .example = "3"),
	ROW(random_resets, "random.resets", TW_U32, "0", NULL, 0, 100000,
	    "number of connections that are reset at random times", .example = "3"),
	ROW(random_slow, "random.slow", TW_U32, "0", NULL, 0, 100000,
	    "number of times that a node is slow for a while, at random times", .example = "3"),
	ROW(fault_seed, "random.seed", TW_U64, "1", NULL, 0, 0, "random seed of these faults"),
	ROW(fault_span, "random.span", TW_TIME, "60s", NULL, 0, YEAR,
	    "these faults start within this much virtual time"),
	ROW(threads, "threads", TW_U32, "0", NULL, 0, 4096,
	    "threads of this machine that compute gradients; 0: one per core; does not change any "
	    "result",
	    .example = "2"),
	TW_OPTION_END
};

static uint32_t group_of(const struct tw_machine *m)
{
	return m ? m->group : 0;
}

int64_t tw_sim_latency(const struct tw_sim_options *o, const struct tw_machine *a,
		       const struct tw_machine *b)
{
	const int64_t first = a ? a->latency : o->latency, second = b ? b->latency : o->latency;

	return (first > second ? first : second) +
	       (group_of(a) != group_of(b) ? o->machines.latency : 0);
}

static double per_byte(double bits)
{
	return bits > 0 ? 8 / bits : 0;
}

double tw_sim_per_byte(const struct tw_sim_options *o, const struct tw_machine *a,
		       const struct tw_machine *b)
{
	const double first = per_byte(a ? a->bandwidth : o->bandwidth);
	const double second = per_byte(b ? b->bandwidth : o->bandwidth);
	const double group = group_of(a) != group_of(b) ? per_byte(o->machines.bandwidth) : 0;
	const double slower = first > second ? first : second;

	return slower > group ? slower : group;
}

/* Both say how fast nodes are. */
static enum tw_status check_machines(const struct tw_sim_options *o, struct tw_error *why)
{
	if (o->machines.count && o->speeds.count)
		return tw_fail(why, TW_BAD_INPUT,
			       "speeds: cannot be combined with sim.nodes, which has the speed of "
			       "every node; leave one out");
	if (o->machines.count && o->stragglers)
		return tw_fail(why, TW_BAD_INPUT,
			       "stragglers.count: cannot be combined with sim.nodes; give slow "
			       "nodes a lower speed there");
	if (!o->machines.groups && o->machines.bandwidth > 0)
		return tw_fail(why, TW_BAD_INPUT,
			       "groups.bandwidth: no node of sim.nodes has a group; give them "
			       "group: NAME, or leave this out");
	if (!o->machines.groups && o->machines.latency > 0)
		return tw_fail(why, TW_BAD_INPUT,
			       "groups.latency: no node of sim.nodes has a group; give them group: "
			       "NAME, or leave this out");
	return TW_OK;
}

enum tw_status tw_sim_check(const struct tw_sim_options *o, struct tw_error *why)
{
	if (o->law == TW_LAW_PARETO && !(o->shape > 1.0))
		return tw_fail(
			why, TW_BAD_INPUT,
			"compute.shape: pareto needs a shape above 1 (with %g it has no mean)",
			o->shape);
	if (o->law == TW_LAW_GAMMA && !(o->shape > 0.0))
		return tw_fail(why, TW_BAD_INPUT, "compute.shape: gamma needs a shape above 0");
	if (o->law == TW_LAW_UNIFORM && !(o->spread >= 0.0 && o->spread <= 1.0))
		return tw_fail(why, TW_BAD_INPUT, "compute.spread: needs a number from 0 to 1");
	if (!(o->loss >= 0.0 && o->loss < 1.0))
		return tw_fail(why, TW_BAD_INPUT, "loss: needs a share from 0 to below 1");
	if (o->by_label.count && o->by_sample.count)
		return tw_fail(why, TW_BAD_INPUT,
			       "compute.by_sample: cannot be combined with compute.by_label; leave "
			       "one out");
	if (check_machines(o, why) != TW_OK)
		return TW_BAD_INPUT;
	for (size_t i = 0; i < o->speeds.count; i++)
		if (!(o->speeds.at[i] > 0.0))
			return tw_fail(why, TW_BAD_INPUT, "speeds: each must be above 0, not %g",
				       o->speeds.at[i]);
	return TW_OK;
}
