/* SPDX-License-Identifier: Apache-2.0 */
/* layers.c - layers one after the other, residuals around some, a loss at the end: the graph. */
#include "base/arena.h"
#include "model/layer_text.h"
#include "model/loss.h"
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_ROOM   (sizeof((struct tw_graph_node *)0)->name)
#define NUMBER_ROOM 96

struct builder {
	const struct tw_model_site *site;
	struct tw_graph *g;
	struct tw_arena scratch;
	uint32_t at; /* the node whose value the next layer gets */
	size_t seen; /* layers, also those inside residuals */
	struct tw_error *why;
};

/* Some layers that follow each other, and how they are called: the first of the body of the fifth
 * is the tensor prefix "4.body.0" and for people "5.1". */
struct row {
	const struct tw_layer *layer;
	size_t layers;
	const char *name, *number; /* what stands before the index in both */
	const char *place;         /* of the residual they are in */
	uint32_t depth;
};

struct spot {
	const struct tw_layer *layer;
	const char *place;
	char name[NAME_ROOM], number[NUMBER_ROOM];
	char of[24]; /* " of 9" for those that are in no residual */
	uint32_t depth;
};

static enum tw_status complain(struct builder *b, const struct spot *s, enum tw_status status,
			       const char *sentence)
{
	char said[80];

	if (s->layer->text)
		return tw_fail(b->why, status, "%s%slayer %s%s, '%s': %s", s->place,
			       *s->place ? ": " : "", s->number, s->of,
			       tw_layer_text_shown(s->layer->text, said), sentence);
	return tw_fail(b->why, status, "%s%slayer %s%s, a residual: %s", s->place,
		       *s->place ? ": " : "", s->number, s->of, sentence);
}

/* What an op or the graph said, with the place in front. */
static enum tw_status pass_on(struct builder *b, const struct spot *s, enum tw_status status,
			      const struct tw_error *inner)
{
	if (status == TW_OK)
		return TW_OK;
	return complain(b, s, status, *inner->text ? inner->text : tw_status_name(status));
}

/* A node behind b->at. */
static enum tw_status append(struct builder *b, const struct tw_op *op, const void *options,
			     const char *name, uint32_t init, struct tw_error *why)
{
	const uint32_t in[TW_OP_INS] = { b->at };

	return tw_graph_add(b->g, op, options, in, name, init, &b->at, why);
}

/* Some ops want features: rank 3 becomes rank 1 on the way to them.  A loss wants them of a
 * sequence, too, unless each position has a label. */
static enum tw_status flatten(struct builder *b, bool sequences, struct tw_error *why)
{
	const struct tw_op *op = tw_op_with(TW_OP_FLATTENS);

	HOLDS(1, op->ins == 1 && !op->options);
	if (b->g->node[b->at].shape.rank == 1 || (b->g->node[b->at].shape.rank == 2 && !sequences))
		return TW_OK;
	return append(b, op, NULL, op->name, 0, why);
}

static bool draws(const struct tw_graph_node *node)
{
	for (uint32_t k = 0; k < node->form.parameters; k++)
		if (node->form.parameter[k].fan_in > 0)
			return true;
	return false;
}

/* Why a layer takes no init. */
static enum tw_status no_init(const struct tw_graph_node *node, struct tw_error *why)
{
	for (uint32_t k = 0; k < node->form.parameters; k++)
		if (node->form.parameter[k].deviation > 0)
			return tw_fail(why, TW_BAD_INPUT,
				       "always draws its weights with the deviation %g, so init "
				       "cannot be given",
				       (double)node->form.parameter[k].deviation);
	return tw_fail(why, TW_BAD_INPUT, "has no weights to initialise, so init cannot be given");
}

/* A layer that reads numbers must know all tokens that the data has. */
static enum tw_status knows_tokens(const struct builder *b, const struct tw_graph_node *node,
				   struct tw_error *why)
{
	const uint32_t classes = b->site->classes;

	if (!b->site->tokens || !(node->op->traits & TW_OP_READS_NUMBERS) ||
	    node->form.parameter[0].d[0] >= classes)
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT, "the data has %u tokens; write %s %u %u", classes,
		       node->op->name, classes, node->form.parameter[0].d[1]);
}

/* What reads series must know how many features each position has. */
static enum tw_status knows_series(const struct builder *b, const struct tw_graph_node *node,
				   struct tw_error *why)
{
	const uint32_t width = b->site->series;

	if (!width || node->shape.d[1] == width)
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT, "the series of the data have %u features; write %s %u",
		       width, node->op->name, width);
}

static enum tw_status plain(struct builder *b, const struct spot *s)
{
	struct tw_error inner = { 0 };
	struct tw_layer_text t = { 0 };
	enum tw_status status;

	status = tw_layer_text_read(s->layer->text, TW_LAYER_INSIDE, &b->scratch, b->g->keep, &t,
				    &inner);
	if (status == TW_OK && (t.op->traits & TW_OP_WANTS_FEATURES))
		status = flatten(b, false, &inner);
	if (status == TW_OK)
		status = append(b, t.op, t.options, s->name,
				t.init == TW_INIT_UNSAID ? b->site->init : t.init, &inner);
	if (status == TW_OK && t.init != TW_INIT_UNSAID && !draws(&b->g->node[b->at]))
		status = no_init(&b->g->node[b->at], &inner);
	if (status == TW_OK)
		status = knows_tokens(b, &b->g->node[b->at], &inner);
	if (status == TW_OK && (b->g->node[b->at].op->traits & TW_OP_GIVES_LENGTHS))
		status = knows_series(b, &b->g->node[b->at], &inner);
	return pass_on(b, s, status, &inner);
}

static enum tw_status build_row(struct builder *b, const struct row *r);

static enum tw_status branch(struct builder *b, const struct spot *s, bool shortcut)
{
	char name[NAME_ROOM + 16], number[NUMBER_ROOM + 16];
	const struct row inside = {
		.layer = shortcut ? s->layer->shortcut : s->layer->body,
		.layers = shortcut ? s->layer->shortcuts : s->layer->bodies,
		.name = name,
		.number = number,
		.place = s->place,
		.depth = s->depth + 1,
	};

	snprintf(name, sizeof name, "%s%s", s->name, shortcut ? ".shortcut." : ".body.");
	snprintf(number, sizeof number, "%s%s", s->number, shortcut ? " shortcut " : ".");
	return build_row(b, &inside);
}

/* The stride with which a 1x1 convolution makes `out` of `in`; 0: none. */
static uint32_t stride_between(const struct tw_shape *in, const struct tw_shape *out)
{
	for (uint32_t s = 1; s <= 16; s++)
		if ((in->d[1] - 1) / s + 1 == out->d[1] && (in->d[2] - 1) / s + 1 == out->d[2])
			return s;
	return 0;
}

static void suggest(const struct tw_shape *in, const struct tw_shape *out, char *text, size_t room)
{
	const uint32_t stride = in->rank == 3 && out->rank == 3 ? stride_between(in, out) : 0;

	if (stride > 1)
		snprintf(text, room, "give it shortcut: [conv %u 1x1 stride %u]", out->d[0],
			 stride);
	else if (stride == 1)
		snprintf(text, room, "give it shortcut: [conv %u 1x1]", out->d[0]);
	else if (out->rank == 1 || (out->rank == 2 && in->rank == 2 && in->d[0] == out->d[0]))
		snprintf(text, room, "give it shortcut: [linear %u]", tw_shape_width(out));
	else
		snprintf(text, room,
			 "give it a shortcut with the same output shape, such as shortcut: [conv "
			 "32 1x1 stride 2]");
}

static enum tw_status join(struct builder *b, const struct spot *s, uint32_t from, uint32_t body,
			   uint32_t around)
{
	const struct tw_shape *x = &b->g->node[body].shape, *y = &b->g->node[around].shape;
	const struct tw_op *op = tw_op_with(TW_OP_ADDS);
	const uint32_t in[TW_OP_INS] = { body, around };
	char one[40], other[40], remedy[120], sentence[400];
	struct tw_error inner = { 0 };

	HOLDS(2, op->ins == 2 && !op->options);
	if (tw_shape_same(x, y))
		return pass_on(b, s, tw_graph_add(b->g, op, NULL, in, s->name, 0, &b->at, &inner),
			       &inner);
	suggest(&b->g->node[from].shape, x, remedy, sizeof remedy);
	snprintf(sentence, sizeof sentence, "its body gives %s, but its %s %s; %s",
		 tw_shape_text(x, one), s->layer->shortcuts ? "shortcut gives" : "input is",
		 tw_shape_text(y, other),
		 s->layer->shortcuts ? "only equal shapes can be added" : remedy);
	return complain(b, s, TW_BAD_INPUT, sentence);
}

static enum tw_status residual(struct builder *b, const struct spot *s)
{
	const uint32_t from = b->at;
	enum tw_status status;
	uint32_t body;

	if (!s->layer->bodies)
		return complain(b, s, TW_BAD_INPUT,
				"has no layers; an example is residual: [conv 16 3x3 pad 1, relu]");
	if (s->depth >= TW_LAYERS_DEPTH) {
		char sentence[80];

		snprintf(sentence, sizeof sentence, "residuals can be nested at most %d deep",
			 TW_LAYERS_DEPTH);
		return complain(b, s, TW_BAD_INPUT, sentence);
	}
	status = branch(b, s, false);
	body = b->at;
	b->at = from;
	if (status == TW_OK && s->layer->shortcuts)
		status = branch(b, s, true);
	return status == TW_OK ? join(b, s, from, body, b->at) : status;
}

static enum tw_status build_row(struct builder *b, const struct row *r)
{
	enum tw_status status = TW_OK;

	for (size_t k = 0; k < r->layers && status == TW_OK; k++) {
		struct spot s = { .layer = &r->layer[k], .depth = r->depth };
		int letters;

		s.place = s.layer->place && *s.layer->place ? s.layer->place : r->place;
		letters = snprintf(s.name, sizeof s.name, "%s%zu", r->name, k);
		snprintf(s.number, sizeof s.number, "%s%zu", r->number, k + 1);
		if (r->depth == 0)
			snprintf(s.of, sizeof s.of, " of %zu", r->layers);
		if (++b->seen > TW_LAYERS_MAX)
			return tw_fail(b->why, TW_BAD_INPUT,
				       "%s%sthe model has more than %d layers", s.place,
				       *s.place ? ": " : "", TW_LAYERS_MAX);
		if (letters < 0 || (size_t)letters >= sizeof s.name)
			return complain(b, &s, TW_BAD_INPUT,
					"is inside too many residuals: its name would be too long");
		status = s.layer->text ? plain(b, &s) : residual(b, &s);
	}
	return status;
}

/* How the loss's sentences call the layer that makes the prediction. */
static void name_last(const struct tw_layer *layer, size_t layers, char *out, size_t room)
{
	const struct tw_layer *last = &layer[layers - 1];
	char said[80];

	if (last->text)
		snprintf(out, room, "layer %zu of %zu, '%s',", layers, layers,
			 tw_layer_text_shown(last->text, said));
	else
		snprintf(out, room, "layer %zu of %zu, a residual,", layers, layers);
}

static enum tw_status add_loss(struct builder *b, const char *last)
{
	const struct tw_model_site *site = b->site;
	const char *text =
		site->loss && *site->loss ? site->loss : tw_loss_usual(site->classes)->op.name;
	const char *place = site->loss_place ? site->loss_place : "";
	struct tw_error inner = { 0 };
	struct tw_layer_text t = { 0 };
	enum tw_status status;
	char said[80];

	status = tw_layer_text_read(text, TW_LAYER_LOSS, &b->scratch, b->g->keep, &t, &inner);
	if (status == TW_OK)
		status = flatten(b, !site->tokens, &inner);
	if (status == TW_OK)
		status = tw_loss_fits(tw_loss_of(t.op), site, &b->g->node[b->at].shape, last,
				      &inner);
	if (status == TW_OK)
		status = append(b, t.op, t.options, "loss", 0, &inner);
	if (status == TW_OK)
		return TW_OK;
	return tw_fail(b->why, status, "%s%sloss '%s': %s", place, *place ? ": " : "",
		       tw_layer_text_shown(text, said),
		       *inner.text ? inner.text : tw_status_name(status));
}

enum tw_status tw_model_build(const struct tw_model_site *site, const struct tw_layer *layer,
			      size_t layers, struct tw_graph **out, struct tw_error *why)
{
	const struct row all = { layer, layers, "", "", "", 0 };
	struct builder b = { .site = site, .why = why };
	enum tw_status status;
	char last[160];

	if (layers == 0)
		return tw_fail(why, TW_BAD_INPUT,
			       "the model has no layers; an example is layers: [linear 100, relu, "
			       "linear 10]");
	b.g = tw_graph_new(site->heap, &site->in);
	if (!b.g)
		return tw_fail(why, TW_NO_MEMORY, "no memory for a model of %zu layers", layers);
	tw_arena_init(&b.scratch, site->heap);
	status = build_row(&b, &all);
	if (status == TW_OK) {
		name_last(layer, layers, last, sizeof last);
		status = add_loss(&b, last);
	}
	if (status == TW_OK)
		status = tw_graph_finish(b.g, why);
	tw_arena_release(&b.scratch);
	if (status == TW_OK)
		*out = b.g;
	else
		tw_graph_free(b.g);
	return status;
}

bool tw_model_number(const char *name, char *out, size_t room)
{
	size_t used = 0, n;
	bool number = false;

	for (; *name; name += n + (name[n] == '.')) {
		const char *between = used ? "." : "";

		n = strcspn(name, ".");
		number = strspn(name, "0123456789") == n;
		if (n == 4 && strncmp(name, "body", n) == 0)
			continue; /* what is inside needs no word */
		if (!number && (n != 8 || strncmp(name, "shortcut", n) != 0))
			return false;
		used += (size_t)(number ? snprintf(out + used, room - used, "%s%lu", between,
						   strtoul(name, NULL, 10) + 1)
					: snprintf(out + used, room - used, "%sshortcut", between));
		if (used >= room)
			return false;
	}
	return number;
}
