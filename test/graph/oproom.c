/* SPDX-License-Identifier: Apache-2.0 */
/* oproom.c - runs an op in memory of exact size and compares what it wrote. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "graph/layout_move.h"
#include "graph/oproom.h"

#include <math.h>

/* One run's memory. */
#define BEFORE 5 /* floats of a vector before parameter 0 */
#define PIECES 512

struct memory {
	struct fence in[TW_OP_INS], out, saved, scratch, back_scratch;
	struct fence out_gradient, in_gradient[TW_OP_INS];
	struct fence parameter[TW_OP_PARAMETERS], change[TW_OP_PARAMETERS];
	struct fence apart; /* parameter 0 again, where it is cut into pieces */
	struct tw_piece piece[PIECES];
};

static bool rank3_allows(const struct tw_shape *s, enum tw_layout layout)
{
	if (layout == TW_LAYOUT_PLAIN)
		return true;
	return s->rank == 3 && (layout == TW_LAYOUT_LAST || s->d[0] % 16 == 0);
}

static void choose(const struct tw_op *op, struct tw_op_site *site, enum tw_layout from)
{
	const bool follows = op->traits & TW_OP_FOLLOWS_LAYOUT;

	for (uint32_t k = 0; k < TW_OP_INS; k++)
		site->in_layout[k] = op->layout || follows ? from : TW_LAYOUT_PLAIN;
	site->out_layout = site->in_layout[0];
	if (op->layout)
		op->layout(site);
	if (site->out.rank != 3)
		site->out_layout = TW_LAYOUT_PLAIN;
	for (uint32_t k = 0; k < site->ins; k++)
		if (!rank3_allows(&site->in[k], site->in_layout[k]))
			fail_msg("%s: chose %s for input %u", truth_where,
				 tw_layout_name(site->in_layout[k]), k);
	if (!rank3_allows(&site->out, site->out_layout))
		fail_msg("%s: chose %s for the output", truth_where,
			 tw_layout_name(site->out_layout));
}

uint32_t oproom_layouts(const struct truth *t, struct tw_op_site *site)
{
	uint32_t count = 0;

	for (enum tw_layout from = TW_LAYOUT_PLAIN; from <= TW_LAYOUT_BLOCK16; from++) {
		struct tw_op_site *s = &site[count];
		bool fresh = true;

		if (!rank3_allows(&t->site.in[0], from))
			continue;
		*s = t->site;
		choose(t->op, s, from);
		for (uint32_t k = 0; k < count; k++)
			fresh &= memcmp(site[k].in_layout, s->in_layout, sizeof s->in_layout) ||
				 site[k].out_layout != s->out_layout;
		count += fresh;
	}
	return count;
}

void oproom_make(struct oproom *room, const struct truth *t, const struct tw_op_site *site)
{
	const size_t bytes = t->op->kernel_bytes;
	enum tw_status st = TW_OK;

	*room = (struct oproom){ .truth = t, .site = *site };
	room->kit = tw_onednn_new(&tw_heap_system);
	room->kernel = tw_heap_zeros(&tw_heap_system, bytes + 1);
	room->kernel_copy = malloc(bytes + 1);
	assert_true(room->kit && room->kernel && room->kernel_copy);
	if (t->op->prepare)
		st = t->op->prepare(&room->site, room->kit, room->kernel, &room->need);
	if (st != TW_OK)
		fail_msg("%s: prepare says %s", truth_where, tw_status_name(st));
	memcpy(room->kernel_copy, room->kernel, bytes);
}

void oproom_free(struct oproom *room)
{
	tw_onednn_free(room->kit);
	tw_heap_system.put(&tw_heap_system, room->kernel);
	free(room->kernel_copy);
}

/* Memory */

static struct fence floats(const struct tw_shape *s, uint32_t batch, enum tw_layout layout,
			   const float *plain)
{
	struct fence f = fence_new(batch * tw_shape_size(s) * sizeof(float), 0);

	layout_move(s, batch, TW_LAYOUT_PLAIN, plain, layout, f.at);
	return f;
}

static struct fence garbage(size_t bytes, size_t shift, uint8_t byte)
{
	struct fence f = fence_new(bytes, shift);

	fence_fill(&f, byte);
	return f;
}

static void take(const struct oproom *room, const struct oproom_way *way, struct memory *m)
{
	const struct truth *t = room->truth;
	const struct tw_op_site *s = &room->site;

	*m = (struct memory){ 0 };
	for (uint32_t k = 0; k < s->ins; k++) {
		m->in[k] = floats(&s->in[k], s->batch, s->in_layout[k], t->value[k]);
		if (s->wants[k])
			m->in_gradient[k] = garbage(m->in[k].bytes, 0, way->garbage);
	}
	for (uint32_t k = 0; k < t->form.parameters; k++) {
		const size_t bytes = t->n[TW_OP_INS + k] * sizeof(float);

		m->parameter[k] = fence_new(bytes, way->shift);
		memcpy(m->parameter[k].at, t->value[TW_OP_INS + k], bytes);
		m->change[k] = garbage(bytes, way->shift, way->garbage);
	}
	if (t->outs) {
		m->out = garbage(t->outs * sizeof(float), 0, way->garbage);
		m->out_gradient = floats(&s->out, s->batch, s->out_layout, t->cotangent);
	}
	if (way->cut) {
		m->apart = fence_new(m->parameter[0].bytes, way->shift);
		memcpy(m->apart.at, t->value[TW_OP_INS], m->parameter[0].bytes);
	}
	m->saved = garbage(room->need.saved, 0, way->garbage);
	m->scratch = garbage(room->need.forward, 0, way->garbage);
	m->back_scratch = garbage(room->need.backward, 0, way->garbage);
}

static void each(struct memory *m, void (*deed)(struct fence *, void *), void *with)
{
	struct fence *f = (struct fence *)m;

	for (size_t k = 0; k < offsetof(struct memory, piece) / sizeof *f; k++)
		deed(&f[k], with);
}

static void give_one(struct fence *f, void *with)
{
	fence_free(f);
}

static void look_at_one(struct fence *f, void *with)
{
	*(bool *)with &= fence_stands(f);
}

static bool all_stand(struct memory *m)
{
	bool good = true;

	each(m, look_at_one, &good);
	return good;
}

/* Inputs, parameters and the kernel are as they were. */
static const char *changed(const struct oproom *room, const struct oproom_way *way,
			   const struct memory *m)
{
	const struct truth *t = room->truth;
	const struct tw_op_site *s = &room->site;

	for (uint32_t k = way->in_place; k < s->ins; k++) {
		struct fence was = floats(&s->in[k], s->batch, s->in_layout[k], t->value[k]);
		const bool same = !memcmp(was.at, m->in[k].at, was.bytes);

		fence_free(&was);
		if (!same)
			return "wrote to an input";
	}
	for (uint32_t k = 0; k < t->form.parameters; k++)
		if (memcmp(m->parameter[k].at, t->value[TW_OP_INS + k], m->parameter[k].bytes))
			return "wrote to a parameter";
	if (memcmp(room->kernel, room->kernel_copy, t->op->kernel_bytes))
		return "changed its kernel";
	return NULL;
}

static float *to_plain(const struct tw_shape *s, uint32_t batch, enum tw_layout layout,
		       const float *from)
{
	float *out = malloc((batch * tw_shape_size(s) + 1) * sizeof *out);

	if (!out)
		abort();
	layout_move(s, batch, layout, from, TW_LAYOUT_PLAIN, out);
	return out;
}

/* Parameter 0 begins at BEFORE of a vector whose pieces lie by turns in two places. */
static void cut_up(const struct oproom_way *way, struct memory *m, struct tw_op_run *run)
{
	const size_t n = m->parameter[0].bytes / sizeof(float);
	size_t count = 0;

	for (size_t at = 0; at < n; at += way->cut, count++) {
		const float *from = count % 2 ? m->apart.at : m->parameter[0].at;

		if (count == PIECES)
			abort();
		m->piece[count] = (struct tw_piece){ from + at, BEFORE + at,
						     n - at < way->cut ? n - at : way->cut };
	}
	run->piece = m->piece;
	run->pieces = count;
	run->from[0] = BEFORE;
	run->parameter[0] = NULL;
}

static const char *forward(const struct oproom *room, const struct oproom_way *way,
			   struct memory *m, struct tw_op_run *run, struct oproom_result *r)
{
	const struct truth *t = room->truth;
	const struct tw_op_site *s = &room->site;

	for (uint32_t k = 0; k < s->ins; k++)
		run->in[k] = m->in[k].at;
	for (uint32_t k = 0; k < t->form.parameters; k++) {
		run->parameter[k] = m->parameter[k].at;
		run->change[k] = m->change[k].at;
	}
	if (way->cut)
		cut_up(way, m, run);
	run->out = way->in_place ? m->in[0].at : m->out.at;
	run->saved = m->saved.at;
	run->scratch = m->scratch.at;
	if (t->op->forward(s, room->kernel, run) != TW_OK)
		return "forward failed";
	if (!all_stand(m))
		return "forward wrote beside its memory";
	if (t->outs)
		r->out = to_plain(&s->out, s->batch, s->out_layout, run->out);
	return changed(room, way, m);
}

/* With nothing but what the op's traits say that it reads. */
static const char *backward(const struct oproom *room, const struct oproom_way *way,
			    struct memory *m, struct tw_op_run *run, struct oproom_result *r)
{
	const struct truth *t = room->truth;
	const struct tw_op_site *s = &room->site;

	if (!(t->op->traits & TW_OP_READS_IN))
		memset(run->in, 0, sizeof run->in);
	if (!(t->op->traits & TW_OP_READS_OUT))
		run->out = NULL;
	run->out_gradient = m->out_gradient.at;
	for (uint32_t k = 0; k < s->ins; k++)
		run->in_gradient[k] = s->wants[k] ? m->in_gradient[k].at : NULL;
	if (way->back_in_place)
		run->in_gradient[0] = m->out_gradient.at;
	run->scratch = m->back_scratch.at;
	if (t->op->backward(s, room->kernel, run) != TW_OK)
		return "backward failed";
	if (!all_stand(m))
		return "backward wrote beside its memory";
	for (uint32_t k = 0; k < s->ins; k++)
		if (s->wants[k])
			r->gradient[k] =
				to_plain(&s->in[k], s->batch, s->in_layout[k], run->in_gradient[k]);
	for (uint32_t k = 0; k < t->form.parameters; k++) {
		r->gradient[TW_OP_INS + k] = malloc(m->change[k].bytes);
		memcpy(r->gradient[TW_OP_INS + k], m->change[k].at, m->change[k].bytes);
	}
	return changed(room, way, m);
}

struct oproom_result oproom_run(const struct oproom *room, const struct oproom_way *way)
{
	const struct tw_op *op = room->truth->op;
	struct oproom_result r = { .correct = -2, .loss = NAN };
	struct tw_op_batch batch = room->truth->batch;
	struct tw_op_run run = { .batch = &batch };
	struct memory m;

	batch.loss = &r.loss;
	batch.correct = &r.correct;
	run.hand = tw_onednn_take(room->kit);
	if (!run.hand) {
		r.wrong = "got no hand";
		return r;
	}
	take(room, way, &m);
	r.wrong = forward(room, way, &m, &run, &r);
	if (!r.wrong && room->site.train && op->backward)
		r.wrong = backward(room, way, &m, &run, &r);
	each(&m, give_one, NULL);
	tw_onednn_give(room->kit, run.hand);
	return r;
}

void oproom_result_free(struct oproom_result *r)
{
	free(r->out);
	for (uint32_t k = 0; k < TRUTH_TENSORS; k++)
		free(r->gradient[k]);
}

/* Comparing */

/* A float sum of n products is off by about sqrt(n) roundings of a typical term. */
static void near_values(const struct oproom *room, const struct oproom_result *r, const char *what)
{
	const struct truth *t = room->truth;
	const double long_sum = t->form.flops * t->site.batch / (double)(t->outs + 1);
	const double within = 2e-6 * sqrt(1 + long_sum);
	double square = 0;

	for (size_t i = 0; i < t->outs; i++)
		square += t->out[i] * t->out[i];
	const double typical = sqrt(square / (double)(t->outs + 1));

	for (size_t i = 0; i < t->outs; i++) {
		const double want = room->site.relu && t->out[i] < 0 ? 0 : t->out[i];
		const double room_for = within * (fabs(want) + 0.1 * typical);

		if (!(fabs((double)r->out[i] - want) <= room_for))
			fail_msg("%s: %s: value %zu is %.9g, not %.9g", truth_where, what, i,
				 (double)r->out[i], want);
	}
}

static void near_loss(const struct oproom *room, const struct oproom_result *r, const char *what)
{
	const struct truth *t = room->truth;
	const uint32_t positions = tw_shape_positions(&t->site.in[0]);
	const double want = t->out[0] * t->site.batch;
	const double right = nearbyint(r->correct * 1e6 * positions) / 1e6;

	if (!(fabs(r->loss - want) <= 1e-5 * (fabs(want) + 1e-3)))
		fail_msg("%s: %s: the loss is %.9g, not %.9g", truth_where, what, r->loss, want);
	if (r->correct != -1 &&
	    !(r->correct >= 0 && r->correct <= t->site.batch && right == floor(right)))
		fail_msg("%s: %s: %g of %u are correct", truth_where, what, r->correct,
			 t->site.batch);
}

static void near_slopes(const struct oproom *room, const float *g, uint32_t tensor,
			const char *what)
{
	const struct truth *t = room->truth;
	double square = 0;

	for (size_t i = 0; i < t->n[tensor]; i++)
		square += (double)g[i] * (double)g[i];
	for (uint32_t k = 0; k < t->spots[tensor]; k++) {
		const struct truth_spot *s = &t->spot[tensor][k];
		const double room_for = 1e-4 * (fabs(s->slope) + t->scale[tensor]) + 1e-6;

		if (!(fabs((double)g[s->index] - s->slope) <= room_for))
			fail_msg("%s: %s: gradient %zu of tensor %u is %.9g, not %.9g", truth_where,
				 what, s->index, tensor, (double)g[s->index], s->slope);
	}
	for (uint32_t k = 0; k < TRUTH_WAYS; k++) {
		const struct truth_spot *w = &t->way[tensor][k];
		double along = 0;

		for (size_t i = 0; i < t->n[tensor]; i++)
			along += truth_way(tensor, (uint32_t)w->index, i) * (double)g[i];
		if (!(fabs(along - w->slope) <= 1e-4 * (fabs(w->slope) + sqrt(square)) + 1e-6))
			fail_msg("%s: %s: tensor %u rises by %.9g along way %zu, not %.9g",
				 truth_where, what, tensor, along, w->index, w->slope);
	}
}

void oproom_near_truth(const struct oproom *room, const struct oproom_result *r, const char *what)
{
	const struct truth *t = room->truth;

	if (r->wrong)
		fail_msg("%s: %s: %s", truth_where, what, r->wrong);
	if (t->op->traits & TW_OP_LOSS)
		near_loss(room, r, what);
	else
		near_values(room, r, what);
	for (uint32_t k = 0; k < TRUTH_TENSORS; k++)
		if (r->gradient[k] && t->spots[k])
			near_slopes(room, r->gradient[k], k, what);
	for (uint32_t k = 0; k < t->form.parameters; k++)
		for (size_t i = 0; r->gradient[TW_OP_INS + k] && i < t->n[TW_OP_INS + k]; i++)
			if (!isfinite(r->gradient[TW_OP_INS + k][i]))
				fail_msg("%s: %s: change %zu of parameter %u was not written",
					 truth_where, what, i, k);
}

static void same(const float *a, const float *b, size_t n, const char *what, const char *which)
{
	if (!a != !b)
		fail_msg("%s: %s: one run wrote no %s", truth_where, what, which);
	for (size_t i = 0; a && i < n; i++)
		if (memcmp(&a[i], &b[i], sizeof *a))
			fail_msg("%s: %s: %s %zu is %.9g and %.9g", truth_where, what, which, i,
				 (double)a[i], (double)b[i]);
}

void oproom_same_bits(const struct oproom *room, const struct oproom_result *a,
		      const struct oproom_result *b, const char *what)
{
	const struct truth *t = room->truth;

	if (a->wrong || b->wrong)
		fail_msg("%s: %s: %s", truth_where, what, a->wrong ? a->wrong : b->wrong);
	same(a->out, b->out, t->outs, what, "value");
	for (uint32_t k = 0; k < TRUTH_TENSORS; k++)
		same(a->gradient[k], b->gradient[k], t->n[k], what, "gradient");
	if ((t->op->traits & TW_OP_LOSS) &&
	    (memcmp(&a->loss, &b->loss, sizeof a->loss) || a->correct != b->correct))
		fail_msg("%s: %s: losses %.17g and %.17g", truth_where, what, a->loss, b->loss);
}
