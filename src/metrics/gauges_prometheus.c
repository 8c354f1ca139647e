/* SPDX-License-Identifier: Apache-2.0 */
/* gauges_prometheus.c - the figures in Prometheus' text format. */
#include "metrics/gauges_inner.h"
#include "metrics/prometheus.h"
#include "node/figures.h"

#include <math.h>
#include <stdio.h>

#define ENDLESS ((uint64_t)1 << 62) /* positions without a limit: see plan.c */

/* --- what there is --------------------------------------------------------------------------- */

/* The facts, and what follows from them. */
struct page_facts {
	struct gauge_facts f;
	uint64_t steps, samples, dropped, fetches;
	double loss, rate, epochs, dealt, workers, since_cut, period, drift;
	bool has_loss, has_accuracy, bounded, has_cut, told;
};

static struct page_facts facts_of(const struct gauge_picture *g)
{
	const struct gauge_facts *f = &g->f;
	const double seconds = gauge_seconds(g->clock - f->old.at);
	struct page_facts x = { .f = *f,
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
				.told = f->told > 0 };

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

#define FACT(s, field, kind, line, ...)                                                            \
	{                                                                                          \
		.name = line, .metric = line, .offset = offsetof(s, field), .type = kind,          \
		.help = __VA_ARGS__                                                                \
	}
#define COUNTER(field, ...) FACT(struct page_facts, field, TW_COUNT, __VA_ARGS__)
#define GAUGE(field, ...)   FACT(struct page_facts, field, TW_REAL, __VA_ARGS__)
#define KNOWN(field)        .known = offsetof(struct page_facts, field)

static const struct tw_figure training[] = {
	COUNTER(steps, "thalweg_steps_total", "Steps computed: gradients of one batch each."),
	COUNTER(samples, "thalweg_samples_total", "Samples whose gradients were computed."),
	GAUGE(loss, "thalweg_loss",
	      "Loss of the last evaluation; before the first one, loss of recent training samples.",
	      KNOWN(has_loss)),
	GAUGE(f.train_loss, "thalweg_train_loss", "Mean loss of recent training samples.",
	      KNOWN(f.has_train_loss)),
	GAUGE(f.accuracy, "thalweg_accuracy", "Accuracy of the last evaluation.",
	      KNOWN(has_accuracy)),
	GAUGE(rate, "thalweg_samples_per_second",
	      "Samples per second over the last 5 to 10 seconds.", KNOWN(f.begun)),
	GAUGE(epochs, "thalweg_epochs",
	      "Epochs applied: applied samples divided by the samples of an epoch.",
	      KNOWN(f.has_in)),
	GAUGE(dealt, "thalweg_progress_ratio",
	      "Share of all samples that have been dealt to workers.", KNOWN(bounded)),
	GAUGE(workers, "thalweg_workers", "Workers in the cluster now."),
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
static const struct tw_figure deltas[] = {
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
static const struct tw_figure caches[] = {
	COUNTER(fetches, "thalweg_cache_fetches_total",
		"Gradients applied that were computed on newly fetched parameters."),
	COUNTER(f.cached, "thalweg_cache_saved_total",
		"Gradients applied that were computed on what the worker had."),
	{ .name = NULL },
};

/* ... and codecs that remember. */
static const struct tw_figure residuals[] = {
	GAUGE(f.residual_most, "thalweg_residual_max",
	      "Largest norm that the codec of a worker owed after a push.", KNOWN(told)),
	GAUGE(f.residual_lost, "thalweg_residual_lost", "Sum of the norms that died with workers."),
	COUNTER(f.residuals_lost, "thalweg_residual_lost_workers_total",
		"Workers that died while their codec owed something."),
	{ .name = NULL },
};

static bool is_known(const struct tw_figure *f, const void *base)
{
	return !f->known || *((const bool *)base + f->known);
}

static void figures(struct tw_page *p, const struct tw_figure *rows, const void *base)
{
	for (const struct tw_figure *f = rows; f->name; f++)
		if (f->metric && tw_figure_is_counter(f))
			tw_page_counter(p, f->metric, f->help, tw_figure_count(f, base));
		else if (f->metric)
			tw_page_gauge(p, f->metric, f->help, is_known(f, base),
				      tw_figure_real(f, base));
}

static void updates(struct tw_page *p, const struct gauge_picture *g)
{
	static const char name[] = "thalweg_updates_total";
	char shard[24];

	tw_page_head(p, name, "counter",
		     "Updates of the parameters, for each shard of this "
		     "process.");
	for (size_t k = 0; k < g->shards; k++) {
		if (!g->shard[k].seen)
			continue;
		snprintf(shard, sizeof shard, "%zu", k);
		tw_page_labelled_count(p, name, TW_LABELS({ "shard", shard }), g->shard[k].updates);
	}
}

static void staleness(struct tw_page *p, const struct gauge_facts *f)
{
	static const char name[] = "thalweg_staleness";
	/* whole numbers below the last bin, which holds all that is later */
	static const uint32_t border[] = { 0,  1,  2,  3,  4,  5,  6,  7,  8,  10,
					   12, 16, 20, 24, 32, 48, 64, 96, 126 };
	uint64_t sum = 0;
	uint32_t bin = 0;
	char le[16];

	tw_page_head(p, name, "histogram",
		     "Staleness: updates between the version that a contribution was computed "
		     "on and its own update, for each shard.");
	for (size_t k = 0; k < sizeof border / sizeof border[0]; k++) {
		while (bin <= border[k])
			sum += f->staleness[bin++];
		snprintf(le, sizeof le, "%u", border[k]);
		tw_page_labelled_count(p, "thalweg_staleness_bucket", TW_LABELS({ "le", le }), sum);
	}
	tw_page_labelled_count(p, "thalweg_staleness_bucket", TW_LABELS({ "le", "+Inf" }),
			       f->staleness_count);
	tw_page_put(p, "thalweg_staleness_sum ");
	tw_page_put_count(p, f->staleness_sum);
	tw_page_put(p, "\nthalweg_staleness_count ");
	tw_page_put_count(p, f->staleness_count);
	tw_page_put(p, "\n");
}

static void bytes(struct tw_page *p, const struct gauge_picture *g)
{
	static const char *const direction[] = {
		[TW_GAUGE_PUSH] = "push", [TW_GAUGE_PARAMS] = "params"
	};
	static const char name[] = "thalweg_codec_bytes_total";
	static const char values[] = "thalweg_codec_values_total";

	tw_page_counter(p, "thalweg_bytes_sent_total", "Bytes sent on the wire.", g->f.sent);
	tw_page_counter(p, "thalweg_bytes_received_total", "Bytes received from the wire.",
			g->f.received);
	tw_page_head(p, name, "counter", "Bytes of vectors before and after the codec.");
	for (int d = 0; d < TW_GAUGE_DIRECTIONS; d++) {
		tw_page_labelled_count(p, name,
				       TW_LABELS({ "direction", direction[d] }, { "stage", "raw" }),
				       g->raw[d]);
		tw_page_labelled_count(
			p, name, TW_LABELS({ "direction", direction[d] }, { "stage", "encoded" }),
			g->encoded[d]);
	}
	tw_page_head(p, values, "counter",
		     "Trainable values in the contributions applied by shards here: all, and those "
		     "that the codec sent.");
	tw_page_labelled_count(p, values, TW_LABELS({ "stage", "raw" }), g->f.values);
	tw_page_labelled_count(p, values, TW_LABELS({ "stage", "sent" }), g->f.values_sent);
}

/* --- workers, peers, cells ------------------------------------------------------------------- */

struct worker_facts {
	double up, heard, last, mean;
	bool seen, named, stepped;
};

static const struct tw_figure worker_figures[] = {
#define WORKER(field, has, ...)                                                                    \
	FACT(struct worker_facts, field, TW_REAL, __VA_ARGS__,                                     \
	     .known = offsetof(struct worker_facts, has))
	WORKER(up, seen, "thalweg_worker_up", "1 while the worker is in the cluster."),
	WORKER(heard, named, "thalweg_worker_last_heard_seconds",
	       "Seconds since the last message from the worker."),
	WORKER(last, stepped, "thalweg_worker_step_seconds", "Duration of the worker's last step."),
	WORKER(mean, stepped, "thalweg_worker_step_seconds_mean",
	       "Mean duration of the worker's steps."),
	{ .name = NULL },
};

struct peer_facts {
	double up, suspect, heard;
	uint64_t sent, received;
};

static const struct tw_figure peer_figures[] = {
#define PEER(field, kind, ...) FACT(struct peer_facts, field, kind, __VA_ARGS__)
	PEER(up, TW_REAL, "thalweg_peer_up", "1 while the peer is connected."),
	PEER(suspect, TW_REAL, "thalweg_peer_suspect",
	     "1 while the peer is suspect: silent for cluster.suspect, or disconnected."),
	PEER(heard, TW_REAL, "thalweg_peer_last_heard_seconds",
	     "Seconds since the last message from the peer."),
	PEER(sent, TW_COUNT, "thalweg_peer_bytes_sent_total", "Bytes sent to the peer."),
	PEER(received, TW_COUNT, "thalweg_peer_bytes_received_total",
	     "Bytes received from the peer."),
	{ .name = NULL },
};

/* One of several that each have the same figures, and the labels that tell them apart. */
struct item {
	char number[3][24];
	struct tw_label label[5];
	union {
		struct worker_facts worker;
		struct peer_facts peer;
		struct tw_stage_work work;
	} facts;
};

static const char *number(struct item *x, size_t k, size_t n)
{
	snprintf(x->number[k], sizeof x->number[k], "%zu", n);
	return x->number[k];
}

static void worker_at(const struct gauge_picture *g, size_t k, struct item *x)
{
	const struct gauge_slot *s = &g->slot[k];
	const struct gauge_peer *e = g->of[k];

	x->label[0] = (struct tw_label){ "worker", number(x, 0, k) };
	x->label[1] = (struct tw_label){ "host", e ? e->p.host : g->host };
	x->facts.worker = (struct worker_facts){
		.up = tw_gauges_up(g, k),
		.heard = e ? gauge_seconds(g->clock - e->heard) : 0.0,
		.last = s->last,
		.mean = s->steps ? s->sum / (double)s->steps : 0.0,
		.seen = s->seen || e,
		.named = e,
		.stepped = s->steps > 0,
	};
}

static void peer_at(const struct gauge_picture *g, size_t k, struct item *x)
{
	static const char *const roles[TW_ROLES] = { "master", "server", "shard", "worker" };
	const struct gauge_peer *e = &g->peer[k];
	const bool known = (unsigned)e->p.role < TW_ROLES;

	x->label[0] = (struct tw_label){ "peer", e->p.name };
	x->label[1] = (struct tw_label){ "host", e->p.host };
	x->label[2] = (struct tw_label){ "role", known ? roles[e->p.role] : "unknown" };
	x->label[3] = (struct tw_label){ "node", number(x, 0, e->p.node) };
	x->facts.peer = (struct peer_facts){ e->p.connected, e->p.suspect,
					     gauge_seconds(g->clock - e->heard), e->p.bytes_sent,
					     e->p.bytes_received };
}

static void cell_at(const struct gauge_picture *g, size_t k, struct item *x)
{
	const uint32_t cells = tw_plan_cells(g->plan);
	const uint32_t slot = (uint32_t)k / cells, cell = (uint32_t)k % cells;

	x->label[0] = (struct tw_label){ "worker", number(x, 0, slot) };
	x->label[1] = (struct tw_label){ "stage", number(x, 1, tw_plan_stage_of(g->plan, cell)) };
	x->label[2] = (struct tw_label){ "lane", number(x, 2, tw_plan_lane_of(g->plan, cell)) };
	x->facts.work = tw_stage_figures_of(g->stages, slot, cell).work;
}

/* Counts are exact, however large. */
static void put_figure(struct tw_page *p, const struct tw_figure *f, const struct tw_label *label,
		       const void *base)
{
	if (f->type <= TW_COUNT32)
		tw_page_labelled_count(p, f->metric, label, tw_figure_count(f, base));
	else
		tw_page_labelled_number(p, f->metric, label, tw_figure_real(f, base));
}

static void each(struct tw_page *p, const struct tw_figure *rows, const struct gauge_picture *g,
		 size_t items,
		 void (*item_at)(const struct gauge_picture *g, size_t k, struct item *x))
{
	for (const struct tw_figure *f = rows; f->name; f++) {
		if (!f->metric)
			continue;
		tw_page_head(p, f->metric, tw_figure_is_counter(f) ? "counter" : "gauge", f->help);
		for (size_t k = 0; k < items; k++) {
			struct item x = { .label = { { NULL } } };

			item_at(g, k, &x);
			if (is_known(f, &x.facts))
				put_figure(p, f, x.label, &x.facts);
		}
	}
}

static void stages(struct tw_page *p, const struct gauge_picture *g)
{
	if (!g->stages)
		return;
	tw_page_gauge(p, "thalweg_pipeline_idle_ratio",
		      "Share of the time in which the nodes of workers did not compute.", true,
		      tw_stage_figures_bubble(g->stages));
	each(p, tw_work_figures, g, g->cells, cell_at);
}

static void waits(struct tw_page *p, const struct gauge_picture *g)
{
	tw_page_counter(p, "thalweg_waits_total", "Waits that took more than 5 seconds.",
			g->f.waits);
	tw_page_head(p, "thalweg_waits", "gauge",
		     "Seconds waited so far, for each current "
		     "wait of more than 5 seconds.");
	for (size_t k = 0; k < g->waits; k++) {
		const struct gauge_wait *w = &g->wait[k];

		tw_page_labelled_number(
			p, "thalweg_waits",
			TW_LABELS({ "who", w->who }, { "whom", w->whom }, { "why", w->why }),
			gauge_seconds(g->clock - w->since));
	}
}

enum tw_status tw_gauges_text(struct tw_gauges *gauges, char **out, size_t *len)
{
	struct gauge_picture g;
	struct page_facts f;
	struct tw_page p;

	if (tw_gauges_picture(gauges, &g) != TW_OK)
		return TW_NO_MEMORY;
	p = (struct tw_page){ .heap = g.heap };
	f = facts_of(&g);
	tw_page_gauge(&p, "thalweg_up", "1 while the process runs.", true, 1.0);
	tw_page_head(&p, "thalweg_build_info", "gauge",
		     "Always 1; the labels are the version, "
		     "the role and the host of this process.");
	tw_page_labelled_count(
		&p, "thalweg_build_info",
		TW_LABELS({ "version", TW_VERSION }, { "role", g.role }, { "host", g.host }), 1);
	figures(&p, training, &f);
	updates(&p, &g);
	staleness(&p, &g.f);
	if (g.plan && g.plan->traffic.delta)
		figures(&p, deltas, &f);
	if (g.plan && g.plan->traffic.cache)
		figures(&p, caches, &f);
	if (g.plan && g.plan->traffic.up && (g.plan->traffic.up->traits & TW_CODEC_REMEMBERS))
		figures(&p, residuals, &f);
	figures(&p, tw_result_figures, &(struct tw_ran){ .totals.tally = g.tally });
	stages(&p, &g);
	bytes(&p, &g);
	each(&p, worker_figures, &g, g.slots, worker_at);
	each(&p, peer_figures, &g, g.peers, peer_at);
	waits(&p, &g);
	tw_gauges_picture_release(&g);
	if (p.failed) {
		p.heap->put(p.heap, p.text);
		return TW_NO_MEMORY;
	}
	*out = p.text;
	*len = p.len;
	return TW_OK;
}
