/* SPDX-License-Identifier: Apache-2.0 */
/* model_card_columns.h - the columns of a table (data/columns.h) as a model card has them. */
#ifndef TW_CHECKPOINT_MODEL_CARD_COLUMNS_H
#define TW_CHECKPOINT_MODEL_CARD_COLUMNS_H

#include "base/arena.h"
#include "data/data.h"

#include <jansson.h>

/* Columns that are read, as JSON; NULL without memory. */
json_t *tw_card_columns_json(const struct tw_columns *columns);
/* And back, for such data (features, classes and targets are known): TW_BAD_BYTES with the end of a
 * sentence that begins with "columns". */
enum tw_status tw_card_columns_read(const json_t *from, const struct tw_data *d,
				    struct tw_arena *keep, struct tw_columns **out,
				    struct tw_error *why);
/* A copy of those that are read. */
enum tw_status tw_card_columns_copy(const struct tw_columns *from, struct tw_arena *keep,
				    struct tw_columns **out);

#endif
