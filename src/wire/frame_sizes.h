/* SPDX-License-Identifier: Apache-2.0 */
/* frame_sizes.h - what a connection holds besides its messages; only for frame_*.c.
 *
 * A control message is 64 + 8 ... 176 bytes, so 8 KiB take some fifty of them with one call, and
 * a connection holds one for writing.  With 16 KiB control messages were no faster. */
#ifndef TW_WIRE_FRAME_SIZES_H
#define TW_WIRE_FRAME_SIZES_H

#include <stddef.h>

#define TW_READER_BUFFER (8u << 10)
#define TW_WRITER_COPY   (8u << 10)

size_t tw_writer_memory(void);
size_t tw_reader_memory(void);

#endif
