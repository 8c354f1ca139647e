/* SPDX-License-Identifier: Apache-2.0 */
/* loss.c - which losses fit which data, and how many values they want predicted. */
#include "model/loss.h"

#include <stdio.h>
#include <string.h>

static const char *usual(bool labels)
{
	return tw_loss_usual(labels)->op.name;
}

static bool takes(const struct tw_loss *loss, uint32_t what)
{
	return loss->takes & what;
}

/* The data has other things than the loss compares with. */
static enum tw_status refuse(const struct tw_loss *loss, const struct tw_model_site *site,
			     struct tw_error *why)
{
	const bool values = takes(loss, TW_LOSS_TARGETS), pair = takes(loss, TW_LOSS_PAIR);

	if (!site->classes)
		return tw_fail(why, TW_BAD_INPUT,
			       "needs labels, but the data has %u target values per sample; write "
			       "loss: %s",
			       site->targets, usual(false));
	if (pair)
		return tw_fail(
			why, TW_BAD_INPUT,
			"needs %slabels of 2 classes, but the data has %u classes; write loss: %s",
			values ? "target values or " : "", site->classes, usual(true));
	return tw_fail(why, TW_BAD_INPUT,
		       "needs target values, but the data has labels of %u classes; write loss: %s",
		       site->classes, usual(true));
}

/* How many outputs the loss wants for such data; 0: it takes no such data. */
static uint32_t wanted(const struct tw_loss *loss, uint32_t classes, uint32_t targets)
{
	if (!classes)
		return takes(loss, TW_LOSS_TARGETS) ? targets : 0;
	if (takes(loss, TW_LOSS_LABELS))
		return classes;
	return classes == 2 && takes(loss, TW_LOSS_PAIR) ? 1 : 0;
}

/* Each position has a label. */
static enum tw_status fits_tokens(const struct tw_loss *loss, const struct tw_model_site *site,
				  const struct tw_shape *out, const char *last,
				  struct tw_error *why)
{
	const uint32_t positions = site->in.d[0];

	if (!(loss->op.traits & TW_OP_BY_POSITION) || !takes(loss, TW_LOSS_LABELS))
		return tw_fail(why, TW_BAD_INPUT,
			       "does not take a label for each position, as text has; write "
			       "loss: %s",
			       usual(true));
	if (out->rank == 2 && out->d[0] == positions && out->d[1] == site->classes)
		return TW_OK;
	if (out->rank == 2 && out->d[0] == positions)
		return tw_fail(why, TW_BAD_INPUT,
			       "needs %u outputs at each position, one for each token of the "
			       "vocabulary, but %s gives %u; end with 'linear %u'",
			       site->classes, last, out->d[1], site->classes);
	return tw_fail(why, TW_BAD_INPUT,
		       "needs a prediction for each of %u positions, but %s gives %u values of a "
		       "whole sample; begin with 'embedding %u 64', use no flatten, and end with "
		       "'linear %u'",
		       positions, last, tw_shape_width(out), site->classes, site->classes);
}

enum tw_status tw_loss_fits(const struct tw_loss *loss, const struct tw_model_site *site,
			    const struct tw_shape *out, const char *last, struct tw_error *why)
{
	const uint32_t n = wanted(loss, site->classes, site->targets);
	const uint32_t outputs = tw_shape_width(out);

	if (site->tokens)
		return fits_tokens(loss, site, out, last, why);
	if (outputs == n && n)
		return TW_OK;
	if (!n && (site->classes || !takes(loss, TW_LOSS_TARGETS)))
		return refuse(loss, site, why);
	if (site->classes && n != site->classes)
		return tw_fail(
			why, TW_BAD_INPUT,
			"needs %u output for %u classes, but %s gives %u; end with 'linear %u'", n,
			site->classes, last, outputs, n);
	return tw_fail(why, TW_BAD_INPUT,
		       "needs one output for each of %u %s, but %s gives %u; end with 'linear %u'",
		       n, site->classes ? "classes" : "target values", last, outputs, n);
}

uint32_t tw_loss_outputs(const struct tw_model_site *site)
{
	const char *text = site->loss ? site->loss + strspn(site->loss, " \t") : "";
	const struct tw_loss *loss;
	uint32_t n = 0;
	char name[80];

	snprintf(name, sizeof name, "%.*s", (int)strcspn(text, " \t"), text);
	loss = tw_loss_find(name);
	if (loss)
		n = wanted(loss, site->classes, site->targets);
	return n ? n : site->classes ? site->classes : site->targets;
}
