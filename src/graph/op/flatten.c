/* SPDX-License-Identifier: Apache-2.0 */
/* flatten.c - an image or a sequence as a list of features: channel, row, column, or position,
 * feature, as PLAIN lies already. */
#include "graph/op.h"

static enum tw_status flatten_form(const void *options, const struct tw_shape *in,
				   struct tw_op_form *form, struct tw_error *why)
{
	const size_t size = tw_shape_size(&in[0]);
	char text[40];

	if (size > UINT32_MAX)
		return tw_fail(why, TW_BAD_INPUT, "%s is too large to be flattened",
			       tw_shape_text(&in[0], text));
	*form = (struct tw_op_form){ .out = { .rank = 1, .d = { (uint32_t)size } } };
	return TW_OK;
}

static void flatten_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
			      const double *const *in, const double *const *parameter, double *out)
{
	for (size_t i = 0; i < site->batch * tw_shape_size(&site->in[0]); i++)
		out[i] = in[0][i];
}

static const struct tw_op_sample samples[] = {
	{ "", { 3, { 3, 5, 7 } } },
	{ "", { 3, { 32, 1, 1 } } },
	{ "", { 1, { 9 } } },
	{ "", { 2, { 4, 3 } } },
	{ NULL },
};

static void flatten_torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	snprintf(text, TW_TORCH_ROOM, "nn.Flatten()");
}

/* Neither forward nor backward: see TW_OP_PASSES. */
static const struct tw_op flatten_op = {
	.name = "flatten",
	.help = "all values of an image or a sequence as features",
	.traits = TW_OP_PASSES | TW_OP_FLATTENS | TW_OP_BY_POSITION,
	.ins = 1,
	.samples = samples,
	.form = flatten_form,
	.reference = flatten_reference,
	.torch = flatten_torch,
};

static const struct tw_op *const ops[] = { &flatten_op, NULL };
const struct tw_op_family tw_op_family_flatten = { ops };
