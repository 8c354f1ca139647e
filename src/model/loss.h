/* SPDX-License-Identifier: Apache-2.0 */
/* loss.h - does the loss fit what the data has and what the last layer gives? */
#ifndef TW_MODEL_LOSS_H
#define TW_MODEL_LOSS_H

#include "model/model.h"

/* What is meant when a job says nothing: by whether the data has labels or targets. */
const char *tw_loss_usual(const struct tw_model_site *site);
/* `outputs` values are predicted by `last` ("layer 9 of 9, 'linear 12',").  *why is a sentence
 * without place. */
enum tw_status tw_loss_check(const struct tw_op *op, const struct tw_model_site *site,
			     uint32_t outputs, const char *last, struct tw_error *why);

#endif
