/* SPDX-License-Identifier: Apache-2.0 */
/* set_map.h - a set file that is used as it lies on the disk.
 *
 * Samples are mapped, and read when they are first wanted; the system may take their memory back
 * at any time.  Where samples are trained on in an order of blocks (data.shuffle), a hint for one
 * batch reads the whole block, and nothing around it. */
#ifndef TW_DATA_FORMAT_SET_MAP_H
#define TW_DATA_FORMAT_SET_MAP_H

#include "data/source.h"

/* Map the file `name`, as far as site->base reaches, into d, which is empty (set_file.h:
 * tw_set_lay).  The map is d's, and goes with it.  TW_BAD_INPUT: it cannot be opened; TW_BAD_BYTES:
 * it is not such a file. */
enum tw_status tw_set_map(const struct tw_source_site *site, const char *name, struct tw_data *d,
			  struct tw_error *why);

#endif
