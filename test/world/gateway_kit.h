/* SPDX-License-Identifier: Apache-2.0 */
/* gateway_kit.h - what a gateway of a test does where nothing depends on it. */
#ifndef TW_TEST_WORLD_GATEWAY_KIT_H
#define TW_TEST_WORLD_GATEWAY_KIT_H

#include "world/threads/threads.h"

#include <stdio.h>

static inline void gateway_sent(void *arg)
{
	(void)arg;
}

static inline void gateway_bytes(void *arg, uint64_t *out, uint64_t *in)
{
	(void)arg;
	*out = *in = 0;
}

static inline void gateway_name(void *arg, struct tw_addr who, uint32_t slot, char *out,
				size_t room)
{
	(void)arg, (void)who, (void)slot;
	snprintf(out, room, "actor");
}

#endif
