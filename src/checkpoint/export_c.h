/* SPDX-License-Identifier: Apache-2.0 */
/* export_c.h - a trained network as one C file. */
#ifndef TW_CHECKPOINT_EXPORT_C_H
#define TW_CHECKPOINT_EXPORT_C_H

#include "checkpoint/model_card.h"
#include "checkpoint/snapshot.h"

/* The source, for free(): C99 that needs only the C library, takes the values of a sample as the
 * data has them, and gives the outputs of `predict --raw`.  `card` may be NULL: then there is no
 * network, and that is refused. */
enum tw_status tw_export_c(const struct tw_snapshot *s, const struct tw_card *card, char **out,
			   size_t *bytes, struct tw_error *why);

#endif
