/* SPDX-License-Identifier: Apache-2.0 */
/* c_text.c - a trained network as C: a function for each layer, and one that calls them in order.
 *
 * Every node's value has a place of its own in `room`; a node that passes its input on has its
 * input's. */
#include "model/c_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void number(float v, FILE *out)
{
	char text[32];

	snprintf(text, sizeof text, "%.9g", (double)v);
	fprintf(out, strpbrk(text, ".e") ? "%sf" : "%s.0f", text);
}

void tw_c_floats(const char *name, const float *v, size_t n, FILE *out)
{
	fprintf(out, "static const float %s[%zu] = {", name, n ? n : 1);
	for (size_t i = 0; i < n; i++) {
		fputs(i % 8 ? " " : "\n\t", out);
		number(v[i], out);
		fputc(',', out);
	}
	fputs(n ? "\n};\n\n" : " 0 };\n\n", out);
}

static bool passes(const struct tw_graph_node *n)
{
	return !n->op || (n->op->traits & TW_OP_PASSES);
}

static void write_layer(const struct tw_graph *g, uint32_t k, FILE *out)
{
	const struct tw_graph_node *n = &g->node[k];
	struct tw_op_site site = {
		.options = n->options,
		.batch = 1,
		.ins = n->ins,
		.out = n->shape,
	};

	for (uint32_t i = 0; i < n->ins; i++)
		site.in[i] = g->node[n->in[i]].shape;
	fprintf(out, "/* %s */\nstatic void layer_%u(const float *x, %sfloat *y)\n{\n", n->op->name,
		k, n->ins > 1 ? "const float *z, " : "");
	for (uint32_t i = 0; i < n->form.parameters; i++)
		fprintf(out, "\tconst float *const p%u = parameters + %zu;\n", i,
			g->tensor[n->tensor[i]].from);
	tw_op_c_write(n->op, &site, out);
	fputs("}\n\n", out);
}

static enum tw_status check(const struct tw_graph *g, const float *vector, struct tw_error *why)
{
	for (uint32_t k = 1; k + 1 < g->nodes; k++)
		if (!passes(&g->node[k]) && !g->node[k].op->c)
			return tw_fail(why, TW_BAD_INPUT,
				       "layer %s, '%s', has no C source; export safetensors",
				       g->node[k].name, g->node[k].op->name);
	for (uint32_t t = 0; t < g->tensors; t++)
		for (size_t i = 0; i < g->tensor[t].n; i++)
			if (!isfinite(vector[g->tensor[t].from + i]))
				return tw_fail(why, TW_BAD_INPUT,
					       "element %zu of tensor %s is not a finite number", i,
					       g->tensor[t].name);
	return TW_OK;
}

/* Where the value of a node is. */
static const char *place(const size_t *at, uint32_t node, char text[40])
{
	if (at[node] == SIZE_MAX)
		return "in";
	snprintf(text, 40, "room + %zu", at[node]);
	return text;
}

static void write_calls(const struct tw_graph *g, const size_t *at, FILE *out)
{
	const uint32_t last = g->node[g->nodes - 1].in[0];
	char a[40], b[40], c[40];

	fputs("static void network(const float *in, float *out, float *room)\n{\n", out);
	for (uint32_t k = 1; k + 1 < g->nodes; k++) {
		const struct tw_graph_node *n = &g->node[k];

		if (passes(n))
			continue;
		fprintf(out, "\tlayer_%u(%s, %s%s%s);\n", k, place(at, n->in[0], a),
			n->ins > 1 ? place(at, n->in[1], b) : "", n->ins > 1 ? ", " : "",
			place(at, k, c));
	}
	fprintf(out, "\tmemcpy(out, %s, MODEL_OUTPUTS * sizeof *out);\n}\n\n", place(at, last, a));
}

enum tw_status tw_c_text(const struct tw_graph *g, const float *vector, FILE *out,
			 struct tw_error *why)
{
	size_t *at = calloc(g->nodes, sizeof *at), room = 0;
	enum tw_status st = at ? check(g, vector, why)
			       : tw_fail(why, TW_NO_MEMORY, "no memory for the C source");

	for (uint32_t k = 0; st == TW_OK && k + 1 < g->nodes; k++) {
		const struct tw_graph_node *n = &g->node[k];

		at[k] = k == 0 ? SIZE_MAX : passes(n) ? at[n->in[0]] : room;
		room += passes(n) ? 0 : tw_shape_size(&n->shape);
	}
	if (st == TW_OK) {
		fprintf(out, "#define MODEL_ROOM %zu /* floats between the layers */\n\n",
			room ? room : 1);
		tw_c_floats("parameters", vector, g->trainable + g->buffers, out);
		for (uint32_t k = 1; k + 1 < g->nodes; k++)
			if (!passes(&g->node[k]))
				write_layer(g, k, out);
		write_calls(g, at, out);
	}
	free(at);
	return st;
}
