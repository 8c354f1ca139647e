/* SPDX-License-Identifier: Apache-2.0 */
/* line_feed.h - lines that come as they come: from standard input, a pipe, a growing file or a
 * connection. */
#ifndef TW_DATA_LINE_FEED_H
#define TW_DATA_LINE_FEED_H

#include "base/heap.h"
#include "base/status.h"
#include "data/input.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TW_LINE_MOST (16u << 20) /* bytes of a line */

struct tw_feed;

/* "-" is standard input; "tcp:PORT" is one connection to that port of this machine (127.0.0.1),
 * which is waited for; everything else is a file, a FIFO or a device.  follow: a regular file is
 * read on when it grows.  TW_BAD_INPUT: it cannot be opened, or is none of these. */
enum tw_status tw_feed_open(struct tw_heap *heap, const struct tw_reach *reach, const char *name,
			    bool follow, struct tw_feed **out, struct tw_error *why);
/* The next line, without its end; it may be changed, and is good until the next call.  Waits until
 * there is one; *stop ends that soon.  TW_ABSENT: the end, or stopped; TW_NO_ROOM: it is longer
 * than TW_LINE_MOST, and passed over; TW_IO, TW_NO_MEMORY. */
enum tw_status tw_feed_line(struct tw_feed *f, const _Atomic bool *stop, char **line, size_t *bytes,
			    struct tw_error *why);
/* Of the line that came last, from 1. */
uint64_t tw_feed_number(const struct tw_feed *f);
void tw_feed_close(struct tw_feed *f); /* NULL is allowed */

#endif
