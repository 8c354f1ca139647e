/* SPDX-License-Identifier: Apache-2.0 */
/* torch_text.c - a network as source text for PyTorch. */
#include "model/torch_text.h"

#include <stdlib.h>
#include <string.h>

#define CLASSES_MOST 32

struct writer {
	const struct tw_graph *g;
	FILE *classes, *body, *tied;
	const char *seen[CLASSES_MOST]; /* classes that are written already */
	size_t seens;
};

static const char flat_class[] = "def flat(module):  # takes images as rows of values\n"
				 "    class Flat(module):\n"
				 "        def forward(self, x):\n"
				 "            return super().forward(x.flatten(1))\n"
				 "    return Flat\n";
static const char residual_class[] =
	"class Residual(nn.Module):\n"
	"    def __init__(self, body, shortcut=()):\n"
	"        super().__init__()\n"
	"        self.body, self.shortcut = nn.Sequential(*body), nn.Sequential(*shortcut)\n"
	"\n"
	"    def forward(self, x):\n"
	"        return self.body(x) + self.shortcut(x)\n";

static void need(struct writer *w, const char *source)
{
	for (size_t k = 0; k < w->seens; k++)
		if (w->seen[k] == source)
			return;
	if (w->seens < CLASSES_MOST)
		w->seen[w->seens++] = source;
	fprintf(w->classes, "\n\n%s", source);
}

static const struct tw_graph_node *node_of(const struct tw_graph *g, const char *name)
{
	for (uint32_t k = 1; k < g->nodes; k++)
		if (strcmp(g->node[k].name, name) == 0)
			return &g->node[k];
	return NULL;
}

/* A layer that got a flatten of its own: "nn.Linear(..." becomes "flat(nn.Linear)(...". */
static void write_flat(struct writer *w, const char *text)
{
	const char *open = strchr(text, '(');

	need(w, flat_class);
	fprintf(w->body, "flat(%.*s)%s", (int)(open - text), text, open);
}

/* Is it a flatten that the model put there, and not a layer that was written? */
static bool is_unwritten(const struct tw_graph_node *n)
{
	return n->op && (n->op->traits & TW_OP_FLATTENS) && strcmp(n->name, n->op->name) == 0;
}

static enum tw_status write_plain(struct writer *w, const char *name)
{
	const struct tw_graph_node *n = node_of(w->g, name);
	const struct tw_graph_node *in = n ? &w->g->node[n->in[0]] : NULL;
	char text[TW_TORCH_ROOM] = "";

	if (!n || !n->op->torch)
		return TW_ABSENT;
	n->op->torch(n->options, &in->shape, text);
	if (!text[0])
		return TW_ABSENT;
	if (n->tied) {
		need(w, n->op->torch_tied);
		fprintf(w->tied, "net.get_submodule(\"%s\").to = [net.get_submodule(\"%s\")]\n",
			n->name, w->g->node[w->g->table].name);
	} else if (n->ins > n->op->ins) {
		need(w, n->op->torch_padded);
	} else if (n->op->torch_class) {
		need(w, n->op->torch_class);
	}
	if (is_unwritten(in))
		write_flat(w, text);
	else
		fputs(text, w->body);
	return TW_OK;
}

static enum tw_status write_row(struct writer *w, const struct tw_layer *layer, size_t layers,
				const char *before, int deep);

static enum tw_status write_residual(struct writer *w, const struct tw_layer *l, const char *name,
				     int deep)
{
	char inner[TW_NAME_ROOM + 40];
	enum tw_status st;

	need(w, residual_class);
	fputs("Residual([\n", w->body);
	snprintf(inner, sizeof inner, "%s.body.", name);
	st = write_row(w, l->body, l->bodies, inner, deep + 1);
	fprintf(w->body, "%*s]", 4 * deep, "");
	if (st == TW_OK && l->shortcuts) {
		fputs(", [\n", w->body);
		snprintf(inner, sizeof inner, "%s.shortcut.", name);
		st = write_row(w, l->shortcut, l->shortcuts, inner, deep + 1);
		fprintf(w->body, "%*s]", 4 * deep, "");
	}
	fputc(')', w->body);
	return st;
}

static enum tw_status write_row(struct writer *w, const struct tw_layer *layer, size_t layers,
				const char *before, int deep)
{
	enum tw_status st = TW_OK;

	for (size_t k = 0; k < layers && st == TW_OK; k++) {
		char name[TW_NAME_ROOM + 16];

		snprintf(name, sizeof name, "%s%zu", before, k);
		fprintf(w->body, "%*s", 4 * deep, "");
		st = layer[k].text ? write_plain(w, name)
				   : write_residual(w, &layer[k], name, deep);
		fputs(",\n", w->body);
	}
	return st;
}

enum tw_status tw_torch_text(const struct tw_graph *g, const struct tw_layer *layer, size_t layers,
			     char **out)
{
	char *classes = NULL, *body = NULL, *tied = NULL;
	size_t n = 0, m = 0, l = 0;
	struct writer w = { .g = g };
	const struct tw_graph_node *end = &g->node[g->nodes - 1], *last = &g->node[end->in[0]];
	enum tw_status st = TW_NO_MEMORY;

	w.classes = open_memstream(&classes, &n);
	w.body = open_memstream(&body, &m);
	w.tied = open_memstream(&tied, &l);
	if (w.classes && w.body && w.tied) {
		st = write_row(&w, layer, layers, "", 1);
		/* the loss takes rows of values */
		if (is_unwritten(last))
			fputs("    nn.Flatten(),\n", w.body);
	}
	if (w.classes && fclose(w.classes) && st == TW_OK)
		st = TW_NO_MEMORY;
	if (w.body && fclose(w.body) && st == TW_OK)
		st = TW_NO_MEMORY;
	if (w.tied && fclose(w.tied) && st == TW_OK)
		st = TW_NO_MEMORY;
	if (st == TW_OK && asprintf(out,
				    "import torch\nfrom torch import nn\n%s\n\nnet = "
				    "nn.Sequential(\n%s)\n%s",
				    classes, body, tied) < 0)
		st = TW_NO_MEMORY;
	free(classes);
	free(body);
	free(tied);
	return st;
}
