/* SPDX-License-Identifier: Apache-2.0 */
/* gauges_figures.c - the figures of a process as rows, for the pages that show them. */
#include "metrics/gauges_inner.h"

#include <math.h>

#define ENDLESS ((uint64_t)1 << 62) /* positions without a limit: see plan.c */

struct gauge_page tw_gauges_page(const struct gauge_picture *g)
{
	const struct gauge_facts *f = &g->f;
	const double seconds = gauge_seconds(g->clock - f->old.at);
	struct gauge_page x = { .f = *f,
				.steps = gauge_steps(f),
				.samples = gauge_samples(f),
				.dropped = f->dropped + f->dropped_rounds,
				.fetches = f->pushes - f->cached,
				.loss = f->evaluated ? f->loss : f->train_loss,
				.epochs = NAN,
				.workers = tw_gauges_live(g),
				.since_cut = gauge_seconds(g->clock - f->cut_at),
				.drift = f->drift / (double)f->told,
				.has_loss = f->evaluated || f->has_train_loss,
				.has_accuracy = f->evaluated && !(f->accuracy < 0),
				.has_cut = f->checkpoints > 0,
				.told = f->told > 0,
				.scored = f->score.samples > 0 };

	if (seconds > 0.0)
		x.rate = (double)(x.samples - f->old.samples) / seconds;
	if (!g->plan)
		return x;
	if (g->plan->problem.samples)
		x.epochs = f->in / (double)g->plan->problem.samples;
	x.bounded =
		f->has_closed && g->plan->dealing.positions && g->plan->dealing.positions < ENDLESS;
	x.dealt = (double)f->closed / (double)g->plan->dealing.positions;
	x.period = g->plan->traffic.push;
	return x;
}

#define COUNTER(field, ...) TW_GAUGE_ROW(struct gauge_page, field, TW_COUNT, __VA_ARGS__)
#define GAUGE(field, ...)   TW_GAUGE_ROW(struct gauge_page, field, TW_REAL, __VA_ARGS__)
#define KNOWN(field)        .known = offsetof(struct gauge_page, field)

const struct tw_figure tw_gauge_training[] = {
	COUNTER(steps, "thalweg_steps_total", "Steps computed: gradients of one batch each.",
		.health = "steps"),
	COUNTER(samples, "thalweg_samples_total", "Samples whose gradients were computed."),
	GAUGE(loss, "thalweg_loss",
	      "Loss of the last evaluation; before the first one, loss of recent training samples.",
	      KNOWN(has_loss), .health = "loss"),
	GAUGE(f.train_loss, "thalweg_train_loss", "Mean loss of recent training samples.",
	      KNOWN(f.has_train_loss)),
	GAUGE(f.accuracy, "thalweg_accuracy", "Accuracy of the last evaluation.",
	      KNOWN(has_accuracy)),
	GAUGE(rate, "thalweg_samples_per_second",
	      "Samples per second over the last 5 to 10 seconds.", KNOWN(f.begun)),
	GAUGE(epochs, "thalweg_epochs",
	      "Epochs applied: applied samples divided by the samples of an epoch.",
	      KNOWN(f.has_in), .health = "epochs"),
	GAUGE(dealt, "thalweg_progress_ratio",
	      "Share of all samples that have been dealt to workers.", KNOWN(bounded)),
	TW_GAUGE_ROW(struct gauge_page, workers, TW_COUNT32, "thalweg_workers",
		     "Workers in the cluster now.", .most = true, .health = "workers"),
	COUNTER(f.refused, "thalweg_refused_total", "Contributions that a shard refused."),
	COUNTER(dropped, "thalweg_dropped_total",
		"Samples dropped because their contributions came too late."),
	COUNTER(f.redealt, "thalweg_redealt_total",
		"Samples dealt again, because their worker died or handed them back."),
	COUNTER(f.checkpoints, "thalweg_checkpoints_total", "Checkpoints completed."),
	GAUGE(since_cut, "thalweg_last_checkpoint_seconds", "Seconds since the last checkpoint.",
	      KNOWN(has_cut)),
	COUNTER(f.rollbacks, "thalweg_rollbacks_total",
		"Times the cluster rolled back to a checkpoint."),
	{ .name = NULL },
};

/* Workers that step by themselves ... */
const struct tw_figure tw_gauge_deltas[] = {
	GAUGE(period, "thalweg_push_period", "Steps between pushes: strategy.push."),
	COUNTER(f.pushes, "thalweg_delta_pushes_total", "Deltas that a shard applied."),
	COUNTER(f.own_steps, "thalweg_delta_steps_total",
		"Steps on workers' own parameters in these deltas."),
	COUNTER(f.skipped, "thalweg_skipped_gradients_total",
		"Gradients that were not finite, and that no step was made with."),
	GAUGE(drift, "thalweg_drift_mean",
	      "Mean norm of a worker's parameters less the shared ones when it pushed.",
	      KNOWN(told)),
	GAUGE(f.drift_most, "thalweg_drift_max", "The largest of these norms.", KNOWN(told)),
	{ .name = NULL },
};

/* ... caches ... */
const struct tw_figure tw_gauge_caches[] = {
	COUNTER(fetches, "thalweg_cache_fetches_total",
		"Gradients applied that were computed on newly fetched parameters."),
	COUNTER(f.cached, "thalweg_cache_saved_total",
		"Gradients applied that were computed on what the worker had."),
	{ .name = NULL },
};

/* ... that predict before they learn ... */
const struct tw_figure tw_gauge_online[] = {
	COUNTER(f.score.samples, "thalweg_predicted_total",
		"Samples that were predicted before they were learnt from."),
	COUNTER(f.score.unscored, "thalweg_unscored_total",
		"Samples that may have been learnt from before their score was told."),
	GAUGE(f.score.loss, "thalweg_progressive_loss", "Mean loss of all these predictions.",
	      KNOWN(scored)),
	GAUGE(f.score.loss_window, "thalweg_window_loss",
	      "Mean loss of the last train.window predictions.", KNOWN(scored)),
	{ .name = NULL },
};

/* ... samples that are sent ... */
const struct tw_figure tw_gauge_sent[] = {
	COUNTER(f.sent_samples, "thalweg_sent_samples_total",
		"Samples sent to workers (data.placement: on-demand)."),
	COUNTER(f.sent_bytes, "thalweg_sent_sample_bytes_total", "Bytes of these samples."),
	{ .name = NULL },
};

/* ... and codecs that remember. */
const struct tw_figure tw_gauge_residuals[] = {
	GAUGE(f.residual_most, "thalweg_residual_max",
	      "Largest norm that the codec of a worker owed after a push.", KNOWN(told)),
	GAUGE(f.residual_lost, "thalweg_residual_lost", "Sum of the norms that died with workers."),
	COUNTER(f.residuals_lost, "thalweg_residual_lost_workers_total",
		"Workers that died while their codec owed something."),
	{ .name = NULL },
};
