/* SPDX-License-Identifier: Apache-2.0 */
/* gauges_prometheus.c - the figures in Prometheus' text format. */
#include "metrics/gauges_inner.h"
#include "metrics/prometheus.h"

#include <stdio.h>

static void figures(struct tw_page *p, const struct tw_figure *rows, const void *base)
{
	for (const struct tw_figure *f = rows; f->name; f++)
		if (f->metric && tw_figure_is_counter(f))
			tw_page_counter(p, f->metric, f->help, tw_figure_count(f, base));
		else if (f->metric)
			tw_page_gauge(p, f->metric, f->help, tw_figure_is_known(f, base),
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
	TW_GAUGE_ROW(struct worker_facts, field, TW_REAL, __VA_ARGS__,                             \
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
#define PEER(field, kind, ...) TW_GAUGE_ROW(struct peer_facts, field, kind, __VA_ARGS__)
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
			if (tw_figure_is_known(f, &x.facts))
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
	struct gauge_page f;
	struct tw_page p;

	if (tw_gauges_picture(gauges, &g) != TW_OK)
		return TW_NO_MEMORY;
	p = (struct tw_page){ .heap = g.heap };
	f = tw_gauges_page(&g);
	tw_page_gauge(&p, "thalweg_up", "1 while the process runs.", true, 1.0);
	tw_page_head(&p, "thalweg_build_info", "gauge",
		     "Always 1; the labels are the version, "
		     "the role and the host of this process.");
	tw_page_labelled_count(
		&p, "thalweg_build_info",
		TW_LABELS({ "version", TW_VERSION }, { "role", g.role }, { "host", g.host }), 1);
	figures(&p, tw_gauge_training, &f);
	updates(&p, &g);
	staleness(&p, &g.f);
	if (g.plan && g.plan->traffic.delta)
		figures(&p, tw_gauge_deltas, &f);
	if (g.plan && g.plan->online.is)
		figures(&p, tw_gauge_online, &f);
	if (g.plan && g.plan->traffic.cache)
		figures(&p, tw_gauge_caches, &f);
	if (g.plan && tw_plan_sends_samples(g.plan))
		figures(&p, tw_gauge_sent, &f);
	if (g.plan && g.plan->traffic.up && (g.plan->traffic.up->traits & TW_CODEC_REMEMBERS))
		figures(&p, tw_gauge_residuals, &f);
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
