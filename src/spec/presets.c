/* SPDX-License-Identifier: Apache-2.0 */
/* presets.c - strategies by their names in the literature: nothing but fields of a job file.
 *
 * What a preset says of the rule, the gate, the staleness policy and of what is sent makes it what
 * its name says, so a job may not say otherwise (overrides.c); a method that goes with any rule, or
 * with any staleness policy, therefore names none. */
#include "spec/job.h"

#include <string.h>

const struct tw_preset tw_presets[] = {
	{ .family = "Synchronous",
	  .name = "ssgd",
	  .paper = "synchronous SGD",
	  .help = "averages the gradients of all workers in every round",
	  .fields = "strategy: {gate: bsp, apply: sum, staleness: none}\n",
	  .standard = true },
	{ .name = "backup",
	  .paper = "Chen, Pan, Monga, Bengio, Jozefowicz 2016",
	  .help = "synchronous rounds that average gradients and do not wait for the slowest "
		  "workers",
	  .fields = "strategy: {gate: backup, extra: 1, staleness: none}\n" },
	{ .family = "Without a server",
	  .name = "ring",
	  .paper = "Patarasuk, Yuan 2009",
	  .help = "synchronous; workers add up their gradients round a ring",
	  .fields = "strategy: {gate: bsp, apply: sum, staleness: none, topology: {kind: "
		    "allreduce, schedule: ring}}\n" },
	{ .name = "tree",
	  .paper = "Iandola, Moskewicz, Ashraf, Keutzer 2016",
	  .help = "synchronous; workers add up their gradients along a binomial tree (FireCaffe)",
	  .fields = "strategy: {gate: bsp, apply: sum, staleness: none, topology: {kind: "
		    "allreduce, schedule: tree}}\n" },
	{ .name = "allreduce",
	  .paper = "Thakur, Rabenseifner, Gropp 2005",
	  .help = "synchronous; each worker adds up one part of the gradients for all",
	  .fields = "strategy: {gate: bsp, apply: sum, staleness: none, topology: {kind: "
		    "allreduce, schedule: direct}}\n" },
	{ .name = "d-psgd",
	  .paper = "Lian, Zhang, Zhang, Hsieh, Zhang, Liu 2017",
	  .help = "synchronous; each worker takes the mean of its parameters and its neighbours' "
		  "on a ring",
	  .fields = "strategy: {gate: bsp, apply: sum, staleness: none, topology: {kind: mixing, "
		    "mixing: neighbours}}\n"
		    "update: {rule: sgd}\n" },
	{ .name = "gossip",
	  .paper = "Lian, Zhang, Zhang, Liu 2018 (AD-PSGD)",
	  .help = "asynchronous; pairs of workers take the mean of their parameters",
	  .fields = "strategy: {gate: async, staleness: none, topology: {kind: mixing, mixing: "
		    "gossip}}\n"
		    "update: {rule: sgd}\n" },
	{ .name = "strom",
	  .paper = "Strom 2015",
	  .help = "asynchronous; every worker sends its large gradient values to all others, and "
		  "keeps the rest for later",
	  .fields = "strategy: {gate: async, staleness: none, codec: {up: threshold, up_tau: "
		    "0.05}, topology: {kind: mixing, mixing: mesh}}\n"
		    "update: {rule: sgd}\n"
		    "train: {warm: {workers: 1, for: 0.1 epochs}}\n" },
	{ .family = "Asynchronous",
	  .name = "asgd",
	  .paper = "asynchronous SGD",
	  .help = "applies every gradient as soon as it arrives",
	  .fields = "strategy: {gate: async, staleness: none}\n" },
	{ .name = "downpour",
	  .paper = "Dean et al. 2012",
	  .help = "Adagrad on the shards, push and fetch periods, fetches during the computation, "
		  "local steps, a warm start",
	  .fields = "strategy: {gate: async, staleness: none, push: 1, fetch: 1, overlap: true}\n"
		    "update: {rule: adagrad}\n"
		    "train: {warm: {workers: 1, for: 0.1 epochs}}\n",
	  .between = "strategy: {local: {rule: sgd}}\n",
	  .any_rule = true },
	{ .name = "softsync",
	  .paper = "Gupta, Zhang, Wang 2016",
	  .help = "applies the mean of a fixed number of gradients, from any workers",
	  .fields = "strategy: {gate: softsync, n: 1, staleness: none}\n" },
	{ .name = "staleness-aware",
	  .paper = "Zhang, Gupta, Lian, Liu 2016",
	  .help = "softsync that divides the rate of each gradient by its staleness",
	  .fields = "strategy: {gate: softsync, collect: 1, staleness: inverse, form: max}\n" },
	{ .name = "rudra",
	  .paper = "Gupta, Zhang, Wang 2016",
	  .help = "n-softsync: floor(workers / n) gradients per update, the rate divided by n",
	  .fields = "strategy: {gate: softsync, n: 1, staleness: mean}\n" },
	{ .name = "ssp",
	  .paper = "Ho et al. 2013",
	  .help = "asynchronous, but no worker runs more than `lead` ahead of the slowest",
	  .fields = "strategy: {gate: ssp, lead: 3, staleness: none}\n" },
	{ .name = "fasgd",
	  .paper = "Odena 2016",
	  .help = "divides the rate by deviation and staleness; skip: makes it B-FASGD",
	  .fields = "strategy: {gate: async, staleness: fasgd}\n" },
	{ .name = "delay-adaptive",
	  .paper = "Koloskova, Stich, Jaggi 2022; Mishchenko et al. 2022",
	  .help = "asynchronous SGD that takes smaller steps for later gradients",
	  .fields = "strategy: {gate: async, staleness: proportional}\n" },
	{ .name = "ringmaster",
	  .paper = "Maranjyan, Tyurin, Richtarik 2025",
	  .help = "asynchronous SGD that drops and recomputes gradients that come too late",
	  .fields = "strategy: {gate: ringmaster, per_worker: 1, stop: false, staleness: none}\n" },
	{ .name = "rennala",
	  .paper = "Tyurin, Richtarik 2023",
	  .help = "one large batch per update, computed by the quickest workers",
	  .fields = "strategy: {gate: softsync, fresh: true, collect: 8, stop: false, staleness: "
		    "none}\n" },
	{ .name = "malenia",
	  .paper = "Tyurin, Richtarik 2023",
	  .help = "the mean of the workers' mean gradients, once every worker has contributed; "
		  "each "
		  "worker has samples of its own",
	  .fields = "strategy: {gate: malenia, collect: 8, stop: false, staleness: none}\n"
		    "data: {deal: partition}\n" },
	{ .family = "Asynchronous, with corrections and momentum",
	  .name = "dc-asgd",
	  .paper = "Zheng et al. 2017",
	  .help = "delay compensation with a constant strength",
	  .fields = "strategy: {gate: async, staleness: delay, lambda: 0.04}\n" },
	{ .name = "dc-asgd-a",
	  .paper = "Zheng et al. 2017",
	  .help = "delay compensation with an adaptive strength",
	  .fields = "strategy: {gate: async, staleness: delay-adaptive, lambda: 2}\n" },
	{ .name = "dc-ssgd",
	  .paper = "Zheng et al. 2017",
	  .help = "synchronous rounds that apply gradients in turn, with delay compensation",
	  .fields = "strategy: {gate: bsp, apply: in-turn, staleness: delay, lambda: 0.04}\n" },
	{ .name = "gap-aware",
	  .paper = "Barkai, Hakimi, Schuster 2020",
	  .help = "divides a gradient by the distance the parameters have moved since its version",
	  .fields = "strategy: {gate: async, staleness: gap}\n"
		    "update: {rule: momentum, momentum: 0.9}\n" },
	{ .name = "multi-asgd",
	  .paper = "Hakimi, Barkai, Gabel, Schuster 2019",
	  .help = "asynchronous with a Nesterov momentum for each worker",
	  .fields = "strategy: {gate: async, staleness: none}\n"
		    "update: {rule: multi, momentum: 0.9, nesterov: true}\n" },
	{ .name = "nag-asgd",
	  .paper = "Hakimi, Barkai, Gabel, Schuster 2019",
	  .help = "asynchronous with one Nesterov momentum on the shards",
	  .fields = "strategy: {gate: async, staleness: none}\n"
		    "update: {rule: nag, momentum: 0.9}\n" },
	{ .name = "dana",
	  .paper = "Hakimi, Barkai, Gabel, Schuster 2019",
	  .help = "DANA-Zero: workers see the parameters that the momentum of all workers leads to",
	  .fields = "strategy: {gate: async, staleness: none, send: gradient}\n"
		    "update: {rule: dana, momentum: 0.9}\n" },
	{ .name = "dana-slim",
	  .paper = "Hakimi, Barkai, Gabel, Schuster 2019",
	  .help = "DANA with the momentum on the workers; shards only add what they receive",
	  .fields = "strategy: {gate: async, staleness: none, send: momentum}\n"
		    "update: {rule: dana, momentum: 0.9}\n" },
	{ .name = "dana-dc",
	  .paper = "Hakimi, Barkai, Gabel, Schuster 2019",
	  .help = "DANA with delay compensation",
	  .fields = "strategy: {gate: async, staleness: delay, lambda: 2, send: gradient}\n"
		    "update: {rule: dana, momentum: 0.9}\n" },
	{ .family = "Averaging and local steps",
	  .name = "averaging",
	  .paper = "Su, Chen 2015; DL4J",
	  .help = "workers train alone for `push` steps, then the parameters are averaged",
	  .fields = "strategy: {gate: bsp, apply: sum, staleness: none, send: delta, push: 5, "
		    "outer: {rule: average}}\n" },
	{ .name = "update-based",
	  .paper = "DL4J",
	  .help = "workers train alone, then the sum of their changes is applied, scaled",
	  .fields = "strategy: {gate: bsp, apply: sum, staleness: none, send: delta, push: 5, "
		    "outer: {rule: add, per_worker: 1}}\n" },
	{ .name = "local-sgd",
	  .paper = "Stich 2018",
	  .help = "SGD on every worker, and the mean of all every `push` steps",
	  .fields = "strategy: {gate: bsp, apply: sum, staleness: none, send: delta, push: 8, "
		    "outer: {rule: average}}\n"
		    "update: {rule: sgd}\n",
	  .any_rule = true },
	{ .name = "post-local-sgd",
	  .paper = "Lin, Stich, Patel, Jaggi 2020",
	  .help = "synchronous until the learning rate first drops, then local SGD",
	  .fields = "strategy: {gate: bsp, apply: sum, staleness: none, send: delta, push: 16, "
		    "push_after: -1, outer: {rule: average}}\n"
		    "update: {rule: sgd}\n",
	  .any_rule = true },
	{ .name = "bmuf",
	  .paper = "Chen, Huo 2016",
	  .help = "averaging with a momentum over the blocks, and a look-ahead",
	  .fields = "strategy: {gate: bsp, apply: sum, staleness: none, send: delta, push: 10, "
		    "outer: {rule: bmuf, gain: 1, rate: 1, nesterov: true}}\n" },
	{ .name = "easgd",
	  .paper = "Zhang, Choromanska, LeCun 2015",
	  .help = "workers keep their own parameters, drawn to a common centre by a spring",
	  .fields = "strategy: {gate: async, staleness: none, send: delta, push: 10, merge: "
		    "elastic, elasticity: 0.9, outer: {rule: add, scale: 1}}\n"
		    "update: {rule: sgd}\n" },
	{ .name = "eamsgd",
	  .paper = "Zhang, Choromanska, LeCun 2015",
	  .help = "elastic averaging with Nesterov's momentum on the workers",
	  .fields = "strategy: {gate: async, staleness: none, send: delta, push: 10, merge: "
		    "elastic, elasticity: 0.9, outer: {rule: add, scale: 1}}\n"
		    "update: {rule: nag, momentum: 0.99}\n" },
	{ .name = "diloco",
	  .paper = "Douillard et al. 2023",
	  .help = "AdamW for many steps on every worker, Nesterov's momentum on their mean",
	  .fields = "strategy: {gate: bsp, apply: sum, staleness: none, send: delta, push: 50, "
		    "outer: {rule: nesterov, rate: 0.7, momentum: 0.9}}\n"
		    "update: {rule: adamw}\n",
	  .any_rule = true },
	{ .name = "streaming-diloco",
	  .paper = "Douillard et al. 2025",
	  .help = "DiLoCo that exchanges one part of the parameters at a time, while workers train "
		  "on",
	  .fields = "strategy: {gate: bsp, apply: sum, staleness: none, send: delta, push: 40, "
		    "fragments: 4, delay: 5, merge: mix, alpha: 0.5, outer: {rule: nesterov, rate: "
		    "0.7, momentum: 0.9}}\n"
		    "update: {rule: adamw}\n",
	  .any_rule = true },
	{ .name = "async-diloco",
	  .paper = "Liu et al. 2024",
	  .help = "DiLoCo without rounds: deltas count at once, the momentum is delayed",
	  .fields = "strategy: {gate: async, staleness: none, send: delta, push: 50, outer: "
		    "{rule: delayed-nesterov, rate: 0.7, momentum: 0.9}}\n"
		    "update: {rule: adamw}\n",
	  .any_rule = true },
	{ .name = "fedbuff",
	  .paper = "Nguyen et al. 2022",
	  .help = "a buffer of deltas per update, each weighed by its staleness",
	  .fields = "strategy: {gate: softsync, n: 1, staleness: polynomial, power: 0.5, "
		    "send: delta, push: 10, outer: {rule: average, rate: 1}}\n"
		    "update: {rule: sgd}\n",
	  .any_rule = true },
	{ .name = "fedasync",
	  .paper = "Xie, Koyejo, Gupta 2019",
	  .help = "every delta is mixed in at once, the less the staler it is; in delta form: what "
		  "the "
		  "worker changed is added, and nothing is pulled back to what the worker had",
	  .fields = "strategy: {gate: async, staleness: polynomial, power: 0.5, send: delta, "
		    "push: 10, outer: {rule: average, rate: 0.6}}\n"
		    "update: {rule: sgd}\n",
	  .any_rule = true },
	{ .family = "A model cut into stages",
	  .name = "gpipe",
	  .paper = "Huang et al. 2018",
	  .help = "stages compute micro-batches one after the other, first all forwards, then all "
		  "backwards; synchronous",
	  .fields = "strategy: {gate: bsp, apply: sum, staleness: none, pipeline: {schedule: "
		    "gpipe}}\n"
		    "data: {accumulate: 8}\n" },
	{ .name = "pipedream-flush",
	  .paper = "Narayanan et al. 2021",
	  .help = "as gpipe, but backwards begin as early as possible, so that few activations are "
		  "kept",
	  .fields = "strategy: {gate: bsp, apply: sum, staleness: none, pipeline: {schedule: "
		    "1f1b-flush}}\n"
		    "data: {accumulate: 8}\n" },
	{ .name = "pipedream",
	  .paper = "Narayanan et al. 2019; Harlap et al. 2018",
	  .help = "stages never wait for each other's updates; stage s of K is K - 1 - s updates "
		  "late and keeps K - s versions",
	  .fields = "strategy: {gate: async, pipeline: {schedule: pipedream, stash: true}}\n" },
	{ .name = "pipedream-2bw",
	  .paper = "Narayanan et al. 2021",
	  .help = "as pipedream, but every stage is one update late and keeps two versions",
	  .fields = "strategy: {gate: async, pipeline: {schedule: 2bw}}\n"
		    "data: {accumulate: 8}\n" },
	{ .family = "Shared memory",
	  .name = "hogwild",
	  .paper = "Recht, Re, Wright, Niu 2011",
	  .help = "threads write the parameters without locks; only with thalweg train",
	  .fields = "strategy: {gate: hogwild, staleness: none}\n" },
	{ .family = "Batch methods",
	  .name = "sandblaster",
	  .paper = "Dean et al. 2012",
	  .help = "L-BFGS on the whole batch: shards hold its vectors, workers evaluate portions",
	  .fields = "optimiser: {name: lbfgs}\n" },
	{ .name = NULL },
};

const struct tw_preset *tw_preset_standard(void)
{
	const struct tw_preset *p = tw_presets;

	while (!p->standard)
		p++;
	return p;
}

const struct tw_preset *tw_preset_find(const char *name)
{
	for (const struct tw_preset *p = tw_presets; p->name; p++)
		if (strcmp(p->name, name) == 0)
			return p;
	return NULL;
}
