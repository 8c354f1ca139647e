/* SPDX-License-Identifier: Apache-2.0 */
/* layer_list.c - layers written by code, and what several networks of the zoo ask of their site. */
#include "model/layer_list.h"
#include "base/grow.h"
#include "model/loss.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TEXT_ROOM 96

const char *const tw_layer_list_activations[] = { "relu",    "leaky-relu", "gelu", "tanh",
						  "sigmoid", "elu",        "silu", "softplus",
						  "prelu",   NULL };
const char *const tw_layer_list_pools[] = { "max", "average", NULL };

const char *tw_layer_list_pool(uint32_t choice)
{
	return choice ? "avgpool" : "maxpool";
}

/* One more layer, or NULL once something failed. */
static struct tw_layer *one_more(struct tw_layer_list *s)
{
	if (!TW_GROW_IN(s->keep, s->layer, s->room, s->layers, s->layers + 1))
		s->failed = true;
	if (s->failed)
		return NULL;
	s->layer[s->layers] = (struct tw_layer){ .place = "" };
	return &s->layer[s->layers++];
}

void tw_layer_list_layer(struct tw_layer_list *s, const char *format, ...)
{
	struct tw_layer *l = one_more(s);
	char text[TEXT_ROOM];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text, sizeof text, format, args);
	va_end(args);
	HOLDS(1, n > 0 && n < TEXT_ROOM);
	if (l)
		l->text = tw_arena_text(s->keep, text);
	if (l && !l->text)
		s->failed = true;
}

void tw_layer_list_residual(struct tw_layer_list *s, const struct tw_layer_list *body,
			    const struct tw_layer_list *shortcut)
{
	struct tw_layer *l;

	if (body->failed || (shortcut && shortcut->failed))
		s->failed = true;
	l = one_more(s);
	if (!l)
		return;
	l->body = body->layer;
	l->bodies = body->layers;
	if (shortcut) {
		l->shortcut = shortcut->layer;
		l->shortcuts = shortcut->layers;
	}
}

void tw_layer_list_dropout(struct tw_layer_list *s, float rate)
{
	if (rate > 0)
		tw_layer_list_layer(s, "dropout %.9g", (double)rate);
}

enum tw_status tw_layer_list_done(const struct tw_layer_list *s, struct tw_layer **out,
				  size_t *count, struct tw_error *why)
{
	if (s->failed)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the layers of the model");
	*out = s->layer;
	*count = s->layers;
	return TW_OK;
}

uint32_t tw_layer_list_outputs(const struct tw_model_site *site)
{
	return tw_loss_outputs(site);
}

enum tw_status tw_layer_list_widths(const char *row, const struct tw_f64s *list,
				    struct tw_error *why)
{
	for (size_t k = 0; k < list->count; k++)
		if (!(list->at[k] >= 1) || list->at[k] > 1e6 || list->at[k] != floor(list->at[k]))
			return tw_fail(why, TW_BAD_INPUT,
				       "%s: needs whole numbers from 1 to 1000000, such as "
				       "[512, 512], not %g",
				       row, list->at[k]);
	return TW_OK;
}

enum tw_status tw_layer_list_wants_image(const char *who, const struct tw_shape *in, uint32_t side,
					 struct tw_error *why)
{
	char text[40];

	if (in->rank == 3 && in->d[1] >= side && in->d[2] >= side)
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT,
		       "%s needs images of at least %ux%u, but a sample of the data is %s%s", who,
		       side, side, tw_shape_text(in, text),
		       in->rank == 1 ? " values without height and width" : "");
}
