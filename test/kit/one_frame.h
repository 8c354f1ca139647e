/* SPDX-License-Identifier: Apache-2.0 */
/* one_frame.h - a message as one frame in memory: what src/wire/ is compared with. */
#ifndef TW_TEST_KIT_ONE_FRAME_H
#define TW_TEST_KIT_ONE_FRAME_H

#include "actor/message.h"

/* The message as one frame of bytes: TW_BAD_INPUT if its payload needs more than one, TW_NO_ROOM
 * if `room` < tw_msg_bytes, else *len of it. */
enum tw_status one_frame_write(const struct tw_msg *m, uint8_t *out, size_t room, size_t *len);
/* Check a frame that is a whole message (header, hash) and fill *m; tail and payload become new
 * blocks of `heap` with one reference.  Hostile bytes give TW_BAD_BYTES and nothing to free;
 * never reads past len, never allocates more than len. */
enum tw_status one_frame_read(const uint8_t *bytes, size_t len, struct tw_heap *heap,
			      struct tw_msg *m);

#endif
