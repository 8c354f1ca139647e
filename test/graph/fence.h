/* SPDX-License-Identifier: Apache-2.0 */
/* fence.h - memory of an exact length between fence posts: who writes beside it is found out. */
#ifndef TEST_GRAPH_FENCE_H
#define TEST_GRAPH_FENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fence {
	uint8_t *whole;
	void *at; /* aligned to 64, plus `shift`; NULL where bytes is 0 */
	size_t bytes, shift;
};

struct fence fence_new(size_t bytes, size_t shift);
void fence_free(struct fence *f);
/* Every byte between the posts. */
void fence_fill(struct fence *f, uint8_t byte);
/* Are the posts as they were? */
bool fence_stands(const struct fence *f);

#endif
