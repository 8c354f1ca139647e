/* SPDX-License-Identifier: Apache-2.0 */
/* loss.c - which losses fit which data, and how many values they want predicted. */
#include "model/loss.h"

#include <string.h>

const char *tw_loss_usual(const struct tw_model_site *site)
{
	return site->classes ? "cross-entropy" : "mean-squared";
}

static enum tw_status check_labels(const struct tw_model_site *site, uint32_t outputs,
				   const char *last, struct tw_error *why)
{
	if (!site->classes)
		return tw_fail(why, TW_BAD_INPUT,
			       "wants labels, but the data has %u target values per sample; "
			       "write loss: mean-squared",
			       site->targets);
	if (outputs == site->classes)
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT,
		       "wants one output for each of %u classes, but %s gives %u; end with "
		       "'linear %u'",
		       site->classes, last, outputs, site->classes);
}

static enum tw_status check_targets(const struct tw_model_site *site, uint32_t outputs,
				    const char *last, struct tw_error *why)
{
	if (site->classes)
		return tw_fail(why, TW_BAD_INPUT,
			       "wants target values, but the data has labels of %u classes; "
			       "write loss: cross-entropy",
			       site->classes);
	if (outputs == site->targets)
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT,
		       "wants one output for each of %u target values, but %s gives %u; end with "
		       "'linear %u'",
		       site->targets, last, outputs, site->targets);
}

static enum tw_status check_binary(const struct tw_model_site *site, uint32_t outputs,
				   const char *last, struct tw_error *why)
{
	if (!site->classes)
		return check_targets(site, outputs, last, why);
	if (site->classes != 2)
		return tw_fail(why, TW_BAD_INPUT,
			       "wants target values or labels of 2 classes, but the data has %u "
			       "classes; write loss: cross-entropy",
			       site->classes);
	if (outputs == 1)
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT,
		       "wants 1 output for 2 classes, but %s gives %u; end with 'linear 1'", last,
		       outputs);
}

enum tw_status tw_loss_check(const struct tw_op *op, const struct tw_model_site *site,
			     uint32_t outputs, const char *last, struct tw_error *why)
{
	static const struct {
		const char *name;
		enum tw_status (*check)(const struct tw_model_site *, uint32_t, const char *,
					struct tw_error *);
	} checks[] = {
		{ "cross-entropy", check_labels },
		{ "mean-squared", check_targets },
		{ "binary-cross-entropy", check_binary },
	};

	for (size_t k = 0; k < sizeof checks / sizeof *checks; k++)
		if (strcmp(op->name, checks[k].name) == 0)
			return checks[k].check(site, outputs, last, why);
	return TW_OK;
}
