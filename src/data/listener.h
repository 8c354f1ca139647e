/* SPDX-License-Identifier: Apache-2.0 */
/* listener.h - who hears how far the reading of a large file has come. */
#ifndef TW_DATA_LISTENER_H
#define TW_DATA_LISTENER_H

#include <stdint.h>

/* A file is told of once in so many bytes: nobody hears of a smaller one. */
#define TW_HEARD_EVERY (UINT64_C(4) << 20)

struct tw_data_listener {
	/* So many of its bytes are done; `doing` is "reading" or "parsing".  Called by the thread
	 * that reads, which waits meanwhile: return soon.  NULL: nobody listens. */
	void (*heard)(void *arg, const char *file, const char *doing, uint64_t done,
		      uint64_t total);
	void *arg;
};

#endif
