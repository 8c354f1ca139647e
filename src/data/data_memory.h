/* SPDX-License-Identifier: Apache-2.0 */
/* data_memory.h - the memory of a data set: taken piece by piece, put back at once. */
#ifndef TW_DATA_DATA_MEMORY_H
#define TW_DATA_DATA_MEMORY_H

#include "data/source.h"

/* Room for count * each bytes that lives as long as `d`; TW_NO_MEMORY also where the product is
 * more than a size can be. */
enum tw_status tw_data_keep_room(struct tw_data *d, uint64_t count, uint64_t each, void **out,
				 struct tw_error *why);
/* A small piece of zeros that lives as long; NULL without memory.  There may be any number. */
void *tw_data_keep_small(struct tw_data *d, size_t bytes);
/* Memory of d's heap becomes d's. */
void tw_data_keep_adopt(struct tw_data *d, void *memory);
/* Put back one piece of d's memory; NULL is allowed. */
void tw_data_keep_drop(struct tw_data *d, void *memory);
/* A supply becomes d's. */
void tw_data_keep_supply(struct tw_data *d, struct tw_supply *s);
/* Put back everything that `d` kept. */
void tw_data_keep_release(struct tw_data *d);
/* Set rank, shape and features; TW_BAD_INPUT where one is 0 or their product is no size.
 * `what` says whose shape it is. */
enum tw_status tw_data_keep_shape(struct tw_data *d, const char *what, uint32_t rank,
				  const uint64_t *shape, struct tw_error *why);
enum tw_status tw_data_keep_no_memory(struct tw_error *why, const char *what, uint64_t bytes);

#endif
