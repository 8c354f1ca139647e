/* SPDX-License-Identifier: Apache-2.0 */
/* layer_text.c - from the words of a layer to an op with options, or to the word that is wrong. */
#include "model/layer_text.h"

#include "base/arena.h"
#include "base/printable.h"
#include "graph/loss.h"
#include "model/other_layers.h"

#include <stdio.h>
#include <string.h>

#define SPACES   " \t\r\n\v\f"
#define OPS_MOST 256

const char *const tw_init_names[] = {
	[TW_INIT_HE] = "he",
	[TW_INIT_HE_UNIFORM] = "he-uniform",
	[TW_INIT_XAVIER] = "xavier",
	[TW_INIT_XAVIER_UNIFORM] = "xavier-uniform",
	[TW_INIT_LECUN] = "lecun",
	[TW_INIT_TORCH] = "torch",
	[TW_INIT_NORMAL] = "normal",
	[TW_INIT_ZEROS] = "zeros",
	NULL,
};

const char *tw_layer_elsewhere(const char *theirs)
{
	const struct tw_op *op;

	for (size_t k = 0; (op = tw_op_at(k)); k++)
		for (const char *const *name = op->elsewhere; name && *name; name++)
			if (strcmp(*name, theirs) == 0)
				return op->name;
	return NULL;
}

const char *tw_layer_text_shown(const char *text, char out[80])
{
	return tw_show_in(text, strlen(text), out, 80);
}

static bool fits(const struct tw_op *op, enum tw_layer_kind kind)
{
	return kind == TW_LAYER_LOSS ? (op->traits & TW_OP_LOSS) != 0
				     : !(op->traits & TW_OP_LOSS) && op->ins == 1;
}

static void list_names(const char *const *names, char *out, size_t room)
{
	size_t at = 0;

	*out = 0;
	for (size_t k = 0; names[k] && at < room; k++)
		at += (size_t)snprintf(out + at, room - at, "%s%s", k ? ", " : "", names[k]);
}

/* "'cnov' is no layer; did you mean 'conv'?", or all there are. */
static enum tw_status unknown(const char *wrong, const char *what, const char *const *names,
			      const char *near, struct tw_error *why)
{
	char said[80], list[400];

	tw_layer_text_shown(wrong, said);
	if (!near)
		near = tw_nearest(wrong, names);
	if (near)
		return tw_fail(why, TW_BAD_INPUT, "'%s' is not a known %s; did you mean '%s'?",
			       said, what, near);
	list_names(names, list, sizeof list);
	return tw_fail(why, TW_BAD_INPUT, "'%s' is not a known %s; there are %s", said, what, list);
}

static enum tw_status unknown_op(const char *name, enum tw_layer_kind kind, struct tw_error *why)
{
	const char *names[OPS_MOST + 1] = { NULL }, *near = NULL;
	const struct tw_other_layer *other = tw_other_layer_find(name);
	const struct tw_op *op;
	size_t n = 0;

	if (kind == TW_LAYER_INSIDE && other)
		return tw_fail(why, TW_BAD_INPUT, "'%s' is not supported; instead %s", name,
			       other->instead);
	for (size_t k = 0; (op = tw_op_at(k)) && n < OPS_MOST; k++)
		if (fits(op, kind))
			names[n++] = op->name;
	near = tw_layer_elsewhere(name);
	if (near && (!tw_op_find(near) || !fits(tw_op_find(near), kind)))
		near = NULL;
	if (kind == TW_LAYER_INSIDE && strncmp(name, "residual", 8) == 0)
		return tw_fail(why, TW_BAD_INPUT,
			       "a residual is written as a list, such as "
			       "residual: [conv 16 3x3 pad 1, relu]");
	return unknown(name, kind == TW_LAYER_LOSS ? "loss" : "layer", names, near, why);
}

static enum tw_status find_op(const char *name, enum tw_layer_kind kind, const struct tw_op **out,
			      struct tw_error *why)
{
	const struct tw_op *op = tw_op_find(name);

	if (!op)
		return unknown_op(name, kind, why);
	*out = op;
	if (fits(op, kind))
		return TW_OK;
	if (kind == TW_LAYER_LOSS)
		return tw_fail(why, TW_BAD_INPUT,
			       "'%s' is a layer, not a loss; a loss is, for example, %s or %s",
			       name, tw_loss_usual(true)->op.name, tw_loss_usual(false)->op.name);
	if (op->traits & TW_OP_LOSS)
		return tw_fail(why, TW_BAD_INPUT,
			       "'%s' is a loss, not a layer; write it as loss: %s", name, name);
	return tw_fail(why, TW_BAD_INPUT,
		       "'%s' needs two inputs; write residual: [...], which adds the output of its "
		       "layers to its input",
		       name);
}

static enum tw_status read_init(const char *word, uint32_t *init, struct tw_error *why)
{
	char list[200];

	if (*init != TW_INIT_UNSAID)
		return tw_fail(why, TW_BAD_INPUT, "init is given twice");
	if (!word) {
		list_names(tw_init_names, list, sizeof list);
		return tw_fail(why, TW_BAD_INPUT, "init needs a value: one of %s", list);
	}
	for (uint32_t k = 0; tw_init_names[k]; k++)
		if (strcmp(word, tw_init_names[k]) == 0) {
			*init = k;
			return TW_OK;
		}
	return unknown(word, "initialisation", tw_init_names, NULL, why);
}

/* Everything but `init <name>` goes to `rest`; a loss has nothing to initialise, so there the word
 * stays and is refused like any other that is no option. */
static enum tw_status take_init(char *words, enum tw_layer_kind kind, char *rest, uint32_t *init,
				struct tw_error *why)
{
	char *state = NULL, *word = strtok_r(words, SPACES, &state);

	*init = TW_INIT_UNSAID;
	for (; word; word = strtok_r(NULL, SPACES, &state)) {
		if (kind == TW_LAYER_INSIDE && strcmp(word, "init") == 0) {
			enum tw_status status =
				read_init(strtok_r(NULL, SPACES, &state), init, why);

			if (status != TW_OK)
				return status;
			continue;
		}
		rest = stpcpy(rest, word);
		*rest++ = ' ';
	}
	*rest = 0;
	return TW_OK;
}

enum tw_status tw_layer_text_read(const char *text, enum tw_layer_kind kind,
				  struct tw_arena *scratch, struct tw_arena *keep,
				  struct tw_layer_text *out, struct tw_error *why)
{
	char *words = tw_arena_text(scratch, text), *rest = tw_arena_get(scratch, strlen(text) + 2);
	enum tw_status status;
	char *behind;

	if (!words || !rest)
		return tw_fail(why, TW_NO_MEMORY, "no memory");
	words += strspn(words, SPACES);
	if (!*words)
		return tw_fail(why, TW_BAD_INPUT, "is empty; an example is %s",
			       kind == TW_LAYER_LOSS ? tw_loss_usual(true)->op.name
						     : "'linear 10' or 'relu'");
	behind = words + strcspn(words, SPACES);
	if (*behind)
		*behind++ = 0;
	status = find_op(words, kind, &out->op, why);
	if (status == TW_OK)
		status = take_init(behind, kind, rest, &out->init, why);
	if (status != TW_OK)
		return status;
	out->options = tw_arena_get(scratch, out->op->options_bytes + 1);
	if (!out->options)
		return tw_fail(why, TW_NO_MEMORY, "no memory");
	return tw_op_parse(out->op, rest, out->options, keep, why);
}
