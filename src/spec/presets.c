/* SPDX-License-Identifier: Apache-2.0 */
/* presets.c - strategies by their names in the literature: nothing but fields of a job file.
 *
 * What a preset says of the rule, the gate, the staleness policy and of what is sent makes it what
 * its name says, so a job may not say otherwise (overrides.c); a method that goes with any rule
 * therefore names none. */
#include "spec/job.h"

#include <string.h>

const struct tw_preset tw_presets[] = {
	{ .name = "ssgd",
	  .paper = "synchronous SGD",
	  .help = "every round averages the gradients of all workers",
	  .fields = "strategy: {gate: bsp, apply: sum, staleness: none}\n" },
	{ .name = "backup",
	  .paper = "Chen, Pan, Monga, Bengio, Jozefowicz 2016",
	  .help = "synchronous rounds that average, and do not wait for the slowest workers",
	  .fields = "strategy: {gate: backup, extra: 1, staleness: none}\n" },
	{ .name = "asgd",
	  .paper = "asynchronous SGD",
	  .help = "every gradient is applied as it comes",
	  .fields = "strategy: {gate: async, staleness: none}\n" },
	{ .name = "downpour",
	  .paper = "Dean et al. 2012",
	  .help = "Adagrad on the shards, push and fetch periods, local steps, a warm start",
	  .fields = "strategy: {gate: async, staleness: none, push: 1, fetch: 1}\n"
		    "update: {rule: adagrad}\n"
		    "train: {warm: {workers: 1, for: 0.1 epochs}}\n",
	  .between = "strategy: {local: {rule: sgd}}\n",
	  .any_rule = true },
	{ .name = "softsync",
	  .paper = "Gupta, Zhang, Wang 2016",
	  .help = "an update with the mean of every so many gradients, whoever sent them",
	  .fields = "strategy: {gate: softsync, n: 1, staleness: none}\n" },
	{ .name = "staleness-aware",
	  .paper = "Zhang, Gupta, Lian, Liu 2016",
	  .help = "softsync with every gradient's rate divided by its staleness",
	  .fields = "strategy: {gate: softsync, collect: 1, staleness: inverse, form: max}\n" },
	{ .name = "rudra",
	  .paper = "Gupta, Zhang, Wang 2016",
	  .help = "n-softsync: floor(workers / n) gradients per update, the rate divided by n",
	  .fields = "strategy: {gate: softsync, n: 1, staleness: mean}\n" },
	{ .name = "ssp",
	  .paper = "Ho et al. 2013",
	  .help = "asynchronous, but nobody runs more than `lead` ahead of the slowest",
	  .fields = "strategy: {gate: ssp, lead: 3, staleness: none}\n" },
	{ .name = "fasgd",
	  .paper = "Odena 2016",
	  .help = "the rate divided by deviation and staleness; skip: makes it B-FASGD",
	  .fields = "strategy: {gate: async, staleness: fasgd}\n" },
	{ .name = "dc-asgd",
	  .paper = "Zheng et al. 2017",
	  .help = "delay compensation with a constant strength",
	  .fields = "strategy: {gate: async, staleness: delay, lambda: 0.04}\n" },
	{ .name = "dc-asgd-a",
	  .paper = "Zheng et al. 2017",
	  .help = "delay compensation with an adaptive strength",
	  .fields = "strategy: {gate: async, staleness: delay-adaptive, lambda: 2}\n" },
	{ .name = "dc-ssgd",
	  .paper = "Zheng et al. 2017",
	  .help = "synchronous rounds whose gradients are applied in turn, compensated",
	  .fields = "strategy: {gate: bsp, apply: in-turn, staleness: delay, lambda: 0.04}\n" },
	{ .name = "gap-aware",
	  .paper = "Barkai, Hakimi, Schuster 2020",
	  .help = "gradients divided by how far the parameters moved meanwhile",
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
	  .help = "DANA-Zero: workers see where everybody's momentum will lead",
	  .fields = "strategy: {gate: async, staleness: none, send: gradient}\n"
		    "update: {rule: dana, momentum: 0.9}\n" },
	{ .name = "dana-slim",
	  .paper = "Hakimi, Barkai, Gabel, Schuster 2019",
	  .help = "DANA with the momentum on the workers; shards only add",
	  .fields = "strategy: {gate: async, staleness: none, send: momentum}\n"
		    "update: {rule: dana, momentum: 0.9}\n" },
	{ .name = "dana-dc",
	  .paper = "Hakimi, Barkai, Gabel, Schuster 2019",
	  .help = "DANA with delay compensation",
	  .fields = "strategy: {gate: async, staleness: delay, lambda: 2, send: gradient}\n"
		    "update: {rule: dana, momentum: 0.9}\n" },
	{ .name = "hogwild",
	  .paper = "Recht, Re, Wright, Niu 2011",
	  .help = "threads write the parameters without locks; in threads only",
	  .fields = "strategy: {gate: hogwild, staleness: none}\n" },
	{ .name = NULL },
};

const struct tw_preset *tw_preset_find(const char *name)
{
	for (const struct tw_preset *p = tw_presets; p->name; p++)
		if (strcmp(p->name, name) == 0)
			return p;
	return NULL;
}
