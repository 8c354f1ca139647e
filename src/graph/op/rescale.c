/* SPDX-License-Identifier: Apache-2.0 */
/* rescale.c - each value times a number, plus a number, both in the text of the layer.
 *
 * A job whose targets are scaled (data.normalise_targets) has it as its last layer: what comes out
 * is in the units of the targets, and so is the loss.  The engine then divides the gradient of
 * output k by by[k] squared, so that the layers before it learn as from scaled targets. */
#include "graph/op.h"
#include "graph/rescale.h"

#include <string.h>

static const struct tw_option rows[] = {
	TW_OPTION(struct tw_rescale_options, by, TW_F64S, NULL, NULL, 0, 0,
		  "what each value is multiplied with", .example = "[2.5]"),
	TW_OPTION(struct tw_rescale_options, plus, TW_F64S, NULL, NULL, 0, 0,
		  "what is then added to it", .example = "[10]"),
	TW_OPTION_END,
};

static enum tw_status rescale_form(const void *options, const struct tw_shape *in,
				   struct tw_op_form *form, struct tw_error *why)
{
	const struct tw_rescale_options *o = options;

	if (in->rank != 1 || in->d[0] != o->by.count || o->by.count != o->plus.count)
		return tw_fail(why, TW_BAD_INPUT,
			       "multiplies %zu values and adds to %zu, but gets %zu; it needs one "
			       "number of each kind for each value",
			       o->by.count, o->plus.count, tw_shape_size(in));
	*form = (struct tw_op_form){ .out = in[0], .flops = 2.0 * (double)in->d[0] };
	return TW_OK;
}

static enum tw_status rescale_forward(const struct tw_op_site *site, const void *kernel,
				      const struct tw_op_run *run)
{
	const struct tw_rescale_options *o = site->options;
	const size_t n = o->by.count;

	for (size_t i = 0; i < site->batch * n; i++)
		run->out[i] = run->in[0][i] * (float)o->by.at[i % n] + (float)o->plus.at[i % n];
	return TW_OK;
}

static enum tw_status rescale_backward(const struct tw_op_site *site, const void *kernel,
				       const struct tw_op_run *run)
{
	const struct tw_rescale_options *o = site->options;
	const size_t n = o->by.count;

	for (size_t i = 0; run->in_gradient[0] && i < site->batch * n; i++)
		run->in_gradient[0][i] = run->out_gradient[i] * (float)o->by.at[i % n];
	return TW_OK;
}

static void rescale_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
			      const double *const *in, const double *const *parameter, double *out)
{
	const struct tw_rescale_options *o = site->options;
	const size_t n = o->by.count;

	for (size_t i = 0; i < site->batch * n; i++)
		out[i] = in[0][i] * (double)(float)o->by.at[i % n] +
			 (double)(float)o->plus.at[i % n];
}

static void put_list(const struct tw_f64s *list, char *out, size_t room)
{
	size_t at = (size_t)snprintf(out, room, "[");

	for (size_t k = 0; k < list->count && at < room; k++)
		at += (size_t)snprintf(out + at, room - at, "%s%.9g", k ? ", " : "", list->at[k]);
	if (at < room)
		snprintf(out + at, room - at, "]");
}

/* Many values do not fit into the text: none is known. */
static void rescale_torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	const struct tw_rescale_options *o = options;
	char by[TW_TORCH_ROOM], plus[TW_TORCH_ROOM];

	put_list(&o->by, by, sizeof by);
	put_list(&o->plus, plus, sizeof plus);
	if (strlen(by) + strlen(plus) + 14 < TW_TORCH_ROOM)
		snprintf(text, TW_TORCH_ROOM, "Rescale(%.80s, %.80s)", by, plus);
}

static void rescale_c(const struct tw_op_site *site, FILE *out)
{
	const struct tw_rescale_options *o = site->options;

	for (size_t k = 0; k < o->by.count; k++)
		fprintf(out, "\ty[%zu] = (float)(x[%zu] * %.9g + %.9g);\n", k, k,
			(double)(float)o->by.at[k], (double)(float)o->plus.at[k]);
}

static const struct tw_op_sample samples[] = {
	{ "[2.5] [-3]", { 1, { 1 } } },
	{ "[0.5,40,3] plus [1,0,1000]", { 1, { 3 } } },
	{ NULL },
};

static const struct tw_op rescale_op = {
	.name = "rescale",
	.help = "multiplies each value by a number and adds another: outputs in the units of "
		"scaled targets",
	.traits = TW_OP_RESCALES,
	.ins = 1,
	.positional = 2,
	.options = rows,
	.options_bytes = sizeof(struct tw_rescale_options),
	.samples = samples,
	.form = rescale_form,
	.forward = rescale_forward,
	.backward = rescale_backward,
	.reference = rescale_reference,
	.c = rescale_c,
	.torch = rescale_torch,
	.torch_class = "class Rescale(nn.Module):  # outputs in the units of the targets\n"
		       "    def __init__(self, by, plus):\n"
		       "        super().__init__()\n"
		       "        self.by, self.plus = torch.tensor(by), torch.tensor(plus)\n"
		       "\n"
		       "    def forward(self, x):\n"
		       "        return x * self.by + self.plus\n",
};

static const struct tw_op *const ops[] = { &rescale_op, NULL };
const struct tw_op_family tw_op_family_rescale = { ops };
