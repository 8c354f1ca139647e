/* SPDX-License-Identifier: Apache-2.0 */
/* job_refusals.c - what models and the simulator do not go together with. */
#include "spec/refuse.h"

const struct tw_refusal_row tw_refusals_model[] = {
	{ "network !data-set", "data.source", NULL,
	  "a network needs samples to learn from; use source: [drawn source], which needs no "
	  "files, or your own data" },
	{ "!network data-set", "data.source", NULL,
	  "a made-up model generates its own samples; use source: none with samples:, or a "
	  "network" },
	{ "owns !outside-model", "data.placement", NULL,
	  "only callers of a session have samples of their own, and this model is computed here; "
	  "use placement: everywhere, or model: {tensors: FILE}" },
	{ "owns divides", "data.deal", "data.placement",
	  "with placement: own every caller has its own samples, and others cannot have them; "
	  "leave this out, or use placement: everywhere" },
	{ "owns optimises", "data.placement", "optimiser",
	  "with an optimiser any worker may compute any portion, and own samples stay with their "
	  "caller; use placement: everywhere" },
	{ "on-demand outside-model", "data.placement", NULL,
	  "this model is computed by callers of a session, who have their samples; use placement: "
	  "everywhere or own" },
	{ "on-demand staged", "data.placement", "strategy.pipeline",
	  "the cells of a pipeline read samples at both ends of the model, and each needs the "
	  "data; "
	  "use placement: everywhere" },
	{ "on-demand prefetches", "data.prefetch", NULL,
	  "makes batches of samples that are here, and with placement: on-demand workers have "
	  "none; "
	  "use data.ahead, or leave this out" },
	{ "by-blocks drawn-subsets", "data.shuffle.block", "data.deal",
	  "samples of a drawn subset are not stored one after the other; use deal: blocks or "
	  "shuffled, or leave this out" },
	{ "partial-weights !weights-file", "model.partial", NULL,
	  "says what is taken of a file of weights, and there is none; give model.weights, or "
	  "leave "
	  "this out" },
	{ "auto-rate external", "update.rate", NULL,
	  "rates are tried before a run, and whoever computes this model is asked for gradients "
	  "only in a run; give a number" },
	{ "auto-rate projects", "update.rate", "update.project.",
	  "rates are tried before a run, without a projection; give a number" },
	{ "layer-rates !network", "update.layers", NULL,
	  "names layers of a network, and this model has none; leave this out" },
	{ "layer-rates steps-outside", "update.layers", NULL,
	  "whoever computes takes the steps, too, with rates of its own; leave this out" },
	{ NULL },
};

const struct tw_refusal_row tw_refusals_online[] = {
	{ "online optimises", "train.mode", NULL,
	  "an optimiser evaluates the same samples again and again, and online every one passes "
	  "once; use mode: epochs, or a rule without an optimiser" },
	{ "online many-epochs", "train.epochs", "train.mode",
	  "with mode: online every sample passes once; leave this out, or use mode: epochs" },
	{ "online divides", "data.deal", "train.mode",
	  "with mode: online samples are dealt in their order to whoever is free; use deal: "
	  "shuffled, or mode: epochs" },
	{ "online owns", "data.placement", "train.mode",
	  "with mode: online samples pass in one order, and own samples have none; use placement: "
	  "everywhere, or mode: epochs" },
	{ "online by-blocks", "data.shuffle.block", "train.mode",
	  "with mode: online samples pass in their order; leave this out, or use mode: epochs" },
	{ "online outside-model", "train.mode", NULL,
	  "whoever computes this model does not say what it predicted before it learnt; use mode: "
	  "epochs" },
	{ "online staged", "train.mode", NULL,
	  "stages of a model are at different versions, so no prediction is that of one model; use "
	  "mode: epochs, or leave strategy.pipeline out" },
	{ "endless !online", "train.mode", "data.source",
	  "nobody knows how many samples a stream has, so it has no epochs; use mode: online" },
	{ "endless in-processes", "data.source", NULL,
	  "a stream is read by one process, and workers in others would not have its samples; use "
	  "thalweg train or thalweg sim" },
	{ "endless prefetching", "data.prefetch", NULL,
	  "guesses which samples are next, and those of a stream may not be here yet; leave this "
	  "out" },
	{ "endless evaluates", "train.evaluate", NULL,
	  "counts epochs, and a stream has none; leave this out: the progressive loss is that of "
	  "all samples" },
	{ "endless auto-rate", "update.rate", "data.source",
	  "rates are tried on samples before a run, and a stream shows them once; give a number" },
	{ "online on-demand", "data.placement", "train.mode",
	  "with mode: online samples are predicted where they are, and then learnt from; use "
	  "placement: everywhere, or mode: epochs" },
	{ "online keeps-best", "train.keep", "train.mode",
	  "the parameters of an online run follow the stream, and those of the best evaluation are "
	  "of its past; use keep: last, or mode: epochs" },
	{ NULL },
};

const struct tw_refusal_row tw_idle_online[] = {
	{ "!online", "train.window", NULL,
	  "is valid only with train.mode: online; choose that or leave this out" },
	{ NULL },
};

const struct tw_refusal_row tw_refusals_keep[] = {
	{ "patience !keeps-best", "train.patience", NULL,
	  "counts evaluations that are no better than the best one, and keep: last does not look "
	  "for it; use keep: best, or leave this out" },
	{ "by-accuracy !keeps-best", "train.measure", NULL,
	  "says which evaluation is the best, and keep: last does not look for it; use keep: best, "
	  "or leave this out" },
	{ "by-accuracy keeps-best !scored", "train.measure", NULL,
	  "values have no accuracy; use measure: loss" },
	{ "keeps-best optimises", "train.keep", NULL,
	  "an optimiser tries points that it may not accept, and ends with the best that it has "
	  "accepted; use keep: last, or a rule without an optimiser" },
	{ NULL },
};

const struct tw_refusal_row tw_idle_data[] = {
	{ "!on-demand", "data.ahead", NULL,
	  "has an effect only with data.placement: on-demand; choose that or leave this out" },
	{ NULL },
};

const struct tw_refusal_row tw_idle_sim[] = {
	{ "log-normal", "sim.compute.mean", NULL,
	  "is not valid with sim.compute.law: log-normal; use median:, or another law" },
	{ "!log-normal", "sim.compute.median", NULL,
	  "is valid only with sim.compute.law: log-normal; choose that, or use mean:" },
	{ "!log-normal", "sim.compute.sigma", NULL,
	  "is valid only with sim.compute.law: log-normal; choose that or leave this out" },
	{ "!uniform", "sim.compute.spread", NULL,
	  "is valid only with sim.compute.law: uniform; choose that or leave this out" },
	{ "!shaped", "sim.compute.shape", NULL,
	  "is valid only with sim.compute.law: gamma or pareto; choose that or leave this out" },
	{ "!stragglers", "sim.stragglers.slower", NULL,
	  "has no effect while stragglers.count is 0; give count:, or leave this out" },
	{ "!straggles-off", "sim.stragglers.on", NULL,
	  "also needs stragglers.count, .slower and .off (a straggler is slow for the time `on`, "
	  "then normal for the time `off`); give these, or leave this out" },
	{ "!straggles-on", "sim.stragglers.off", NULL,
	  "also needs stragglers.count, .slower and .on (a straggler is slow for the time `on`, "
	  "then normal for the time `off`); give these, or leave this out" },
	{ "!delay-steps", "sim.delay.law", NULL,
	  "has no effect while sim.delay.steps is 0; give steps:, or leave this out" },
	{ "!delay-steps", "sim.delay.ramp", NULL,
	  "has no effect while sim.delay.steps is 0; give steps:, or leave this out" },
	{ NULL },
};
