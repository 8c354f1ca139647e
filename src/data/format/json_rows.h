/* SPDX-License-Identifier: Apache-2.0 */
/* json_rows.h - lines of JSON become a table as text, so that they are read as every table is.
 *
 * A line is an object.  Its fields are columns, in the order in which they come first; a line that
 * lacks one, or has null, lacks the value.  Objects in objects are fields with a point in their
 * names.  A list has no place in a table: it is refused unless the field is not wanted. */
#ifndef TW_DATA_FORMAT_JSON_ROWS_H
#define TW_DATA_FORMAT_JSON_ROWS_H

#include "base/heap.h"
#include "base/status.h"

#include <stddef.h>

struct tw_json_wishes {
	const char *name; /* of the file, for sentences */
	/* Fields that may be anything: these lists "[a, b]", or one word.  `columns` may be "all";
	 * else it is the list of those that may not. */
	const char *drop, *columns;
};

/* Write the table: a header and a row for each line, RFC 4180 with commas, and a zero byte behind
 * it.  Line n of the text is row n, so that header is line 0.  *out is memory of the heap. */
enum tw_status tw_json_rows(struct tw_heap *heap, const struct tw_json_wishes *wishes,
			    const char *text, size_t bytes, char **out, size_t *out_bytes,
			    struct tw_error *why);

#endif
