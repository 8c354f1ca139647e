/* SPDX-License-Identifier: Apache-2.0 */
/* export_c.c - a trained network as one C file: normalisation, network, and how to read outputs. */
#include "checkpoint/export_c.h"

#include "checkpoint/export_c_cells.h"
#include "model/c_text.h"

#include <stdlib.h>
#include <string.h>

#define MOST ((size_t)1 << 23) /* parameters; a C file of as many has about 100 MB */

static const char about[] =
	"/* A trained network, written by thalweg %s.  C99; needs only the C library:\n"
	" *\n"
	" *     cc -O2 -c model.c                       as a part of a program, linked with -lm\n"
	" *     cc -O2 -DMODEL_MAIN model.c -lm         as a program: rows in, outputs out\n"
	" *\n"
	" * model_raw(in, out) takes MODEL_INPUTS numbers as the training data has them "
	"(model_inputs\n"
	" * has their names, where they are known) and gives the MODEL_OUTPUTS outputs that\n"
	" * `thalweg predict --raw` gives.  model_read(raw, values) makes MODEL_VALUES of them:\n"
	" * probabilities of classes, or values.  model_class(raw) is the number of the class, "
	"whose\n"
	" * name is in model_classes; without classes it is -1.  model_raw keeps what is between "
	"the\n"
	" * layers in one static array; threads call model_raw_in with MODEL_ROOM floats each. */\n"
	"#include <math.h>\n"
	"#include <stddef.h>\n"
	"#include <stdlib.h>\n"
	"#include <string.h>\n"
	"\n";

static const char calls[] = "void model_raw_in(const float *in, float *out, float *room);\n"
			    "void model_raw(const float *in, float *out);\n"
			    "void model_read(const float *raw, float *values);\n"
			    "int model_class(const float *raw);\n"
			    "\n"
			    "void model_raw_in(const float *in, float *out, float *room)\n"
			    "{\n"
			    "\tfor (int i = 0; i < MODEL_INPUTS; i++)\n"
			    "\t\troom[i] = in[i] * scale[i / RUN] + shift[i / RUN];\n"
			    "\tnetwork(room, out, room + MODEL_INPUTS);\n"
			    "}\n"
			    "\n"
			    "void model_raw(const float *in, float *out)\n"
			    "{\n"
			    "\tstatic float room[MODEL_INPUTS + MODEL_ROOM];\n"
			    "\n"
			    "\tmodel_raw_in(in, out, room);\n"
			    "}\n"
			    "\n";

static const char *const reading[] = {
	[TW_READ_VALUES] = "\tmemcpy(values, raw, MODEL_VALUES * sizeof *values);\n",
	[TW_READ_SOFTMAX] = "\tdouble most = raw[0], sum = 0;\n"
			    "\n"
			    "\tfor (int k = 1; k < MODEL_OUTPUTS; k++)\n"
			    "\t\tmost = raw[k] > most ? raw[k] : most;\n"
			    "\tfor (int k = 0; k < MODEL_OUTPUTS; k++)\n"
			    "\t\tsum += exp(raw[k] - most);\n"
			    "\tfor (int k = 0; k < MODEL_OUTPUTS; k++)\n"
			    "\t\tvalues[k] = (float)(exp(raw[k] - most) / sum);\n",
	[TW_READ_SIGMOID] = "\tfor (int k = 0; k < MODEL_OUTPUTS; k++)\n"
			    "\t\tvalues[k] = (float)(1 / (1 + exp(-(double)raw[k])));\n",
};
static const char reading_two[] = "\tvalues[0] = (float)(1 / (1 + exp((double)raw[0])));\n"
				  "\tvalues[1] = (float)(1 / (1 + exp(-(double)raw[0])));\n";
static const char class_most[] = "\tint best = 0;\n"
				 "\n"
				 "\tfor (int k = 1; k < MODEL_OUTPUTS; k++)\n"
				 "\t\tbest = raw[k] > raw[best] ? k : best;\n"
				 "\treturn best;\n";

static const char program[] =
	"#ifdef MODEL_MAIN\n"
	"#include <stdio.h>\n"
	"\n"
	"/* Rows of MODEL_INPUTS numbers, with commas or blanks between them, from standard input. "
	"*/\n"
	"int main(void)\n"
	"{\n"
	"\tstatic float in[MODEL_INPUTS], out[MODEL_OUTPUTS];\n"
	"\tunsigned long count = 0;\n"
	"\tint c;\n"
	"\n"
	"\twhile (scanf(\"%f\", &in[count % MODEL_INPUTS]) == 1) {\n"
	"\t\tif ((c = getchar()) != ',' && c != EOF)\n"
	"\t\t\tungetc(c, stdin);\n"
	"\t\tif (++count % MODEL_INPUTS)\n"
	"\t\t\tcontinue;\n"
	"\t\tmodel_raw(in, out);\n"
	"\t\tfor (int k = 0; k < MODEL_OUTPUTS; k++)\n"
	"\t\t\tprintf(\"%.9g%c\", out[k], k + 1 < MODEL_OUTPUTS ? ',' : '\\n');\n"
	"\t}\n"
	"\tif (!feof(stdin) || count % MODEL_INPUTS) {\n"
	"\t\tfprintf(stderr, \"row %lu: needs %d numbers\\n\", count / MODEL_INPUTS + 1,\n"
	"\t\t\tMODEL_INPUTS);\n"
	"\t\treturn EXIT_FAILURE;\n"
	"\t}\n"
	"\treturn EXIT_SUCCESS;\n"
	"}\n"
	"#endif\n";

static void write_reading(const struct tw_card *c, const struct tw_graph *g, FILE *out)
{
	const bool classes = c->task == TW_CARD_CLASSES;
	const bool two = classes && tw_shape_size(&g->node[g->node[g->nodes - 1].in[0]].shape) == 1;

	fputs("void model_read(const float *raw, float *values)\n{\n", out);
	fputs(two ? reading_two : reading[tw_card_reading(g)], out);
	fprintf(out, "}\n\nint model_class(const float *raw)\n{\n%s}\n\n",
		!classes ? "\t(void)raw;\n\treturn -1;\n"
		: two    ? "\treturn raw[0] > 0;\n"
			 : class_most);
}

static enum tw_status write_all(const struct tw_card *c, const struct tw_graph *g,
				const float *vector, FILE *out, struct tw_error *why)
{
	const struct tw_data *d = &c->data;
	const size_t outputs = tw_shape_size(&g->node[g->node[g->nodes - 1].in[0]].shape);
	const size_t inputs = tw_shape_size(&g->node[0].shape);
	const bool cells = tw_c_cells_can(d->columns);
	enum tw_status st;

	fprintf(out, about, TW_VERSION);
	fprintf(out,
		"#define MODEL_INPUTS %zu\n#define MODEL_OUTPUTS %zu\n#define MODEL_VALUES %zu\n",
		inputs, outputs, c->task == TW_CARD_CLASSES ? (size_t)d->classes : outputs);
	fprintf(out, "#define RUN %zu /* inputs that share a scale and a shift */\n\n", c->run);
	if (cells)
		fputs("/* Inputs, which model_cells makes of cells: \"colour=red\" is 1 where the "
		      "cell is red. */\n",
		      out);
	tw_c_names("model_inputs", d->names.column, d->features, out);
	tw_c_names("model_classes", c->task == TW_CARD_CLASSES ? d->names.answer : NULL, d->classes,
		   out);
	tw_c_floats("scale", c->scale, c->columns, out);
	tw_c_floats("shift", c->shift, c->columns, out);
	st = tw_c_text(g, vector, out, why);
	if (st != TW_OK)
		return st;
	fputs(calls, out);
	write_reading(c, g, out);
	if (cells) {
		tw_c_cells(d->columns, out);
		tw_c_cells_program(d->names.separator, out);
	} else {
		fputs(program, out);
	}
	return TW_OK;
}

static enum tw_status write_text(const struct tw_card *c, const struct tw_graph *g,
				 const float *vector, char **out, size_t *bytes,
				 struct tw_error *why)
{
	FILE *f = open_memstream(out, bytes);
	enum tw_status st = f ? write_all(c, g, vector, f, why) : TW_NO_MEMORY;

	if (f && (ferror(f) | fclose(f)) && st == TW_OK)
		st = TW_NO_MEMORY;
	if (st != TW_OK) {
		free(*out);
		*out = NULL;
	}
	return st == TW_NO_MEMORY ? tw_fail(why, st, "no memory for the C source") : st;
}

enum tw_status tw_export_c(const struct tw_snapshot *s, const struct tw_card *card, char **out,
			   size_t *bytes, struct tw_error *why)
{
	struct tw_heap *heap = &tw_heap_system;
	struct tw_graph *g = NULL;
	float *vector = NULL;
	enum tw_status st;

	if (!card)
		return tw_fail(why, TW_BAD_INPUT,
			       "--to: %.300s has no model card, so its network is not known; only "
			       "its tensors can be exported, as safetensors or npy",
			       s->path);
	st = tw_card_computes(card, s->path, why);
	if (st == TW_OK)
		st = tw_card_graph(card, heap, &g, why);
	if (st == TW_OK && g->trainable + g->buffers > MOST)
		st = tw_fail(why, TW_BAD_INPUT,
			     "--to: %.300s has %zu parameters, and a C file is written for at most "
			     "%zu; export safetensors",
			     s->path, g->trainable + g->buffers, MOST);
	if (st == TW_OK)
		st = tw_snapshot_vector(s, g, heap, &vector, why);
	if (st == TW_OK)
		st = write_text(card, g, vector, out, bytes, why);
	heap->put(heap, vector);
	tw_graph_free(g);
	return st;
}
