/* SPDX-License-Identifier: Apache-2.0 */
/* loss.h - does the loss fit what the data has and what the last layer gives? */
#ifndef TW_MODEL_LOSS_H
#define TW_MODEL_LOSS_H

#include "graph/loss.h"
#include "model/model.h"

/* Such values are predicted by `last` ("layer 9 of 9, 'linear 12',").  *why is a sentence
 * without place. */
enum tw_status tw_loss_fits(const struct tw_loss *loss, const struct tw_model_site *site,
			    const struct tw_shape *out, const char *last, struct tw_error *why);
/* How many outputs a network needs for what the site's data has, under the site's loss. */
uint32_t tw_loss_outputs(const struct tw_model_site *site);

#endif
