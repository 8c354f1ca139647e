/* SPDX-License-Identifier: Apache-2.0 */
/* crowd_heap.c - size classes in one stretch of address space. */
#include "world/sim/crowd_heap.h"
#include "base/status.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

#define CLASSES (TW_CROWD_SMALL / TW_ALIGN)
#define PAGE    ((size_t)1 << 21) /* of one class; the size of a huge page */
#define REGION  ((size_t)1 << 38) /* address space, not memory */

struct idle {
	struct idle *next;
};

struct crowd {
	struct tw_heap heap; /* must stay first */
	struct tw_heap *below;
	pthread_mutex_t lock;
	char *region;
	size_t used; /* bytes of the region, whole pages */
	struct {
		struct idle *idle;
		char *at, *end; /* of the page that is being cut */
	} class[CLASSES];
	uint8_t *of; /* by page: its class */
	size_t out;  /* blocks that are in use, large ones as well */
	bool released;
};

static void end(struct crowd *c)
{
	struct tw_heap *below = c->below;

	munmap(c->region, REGION);
	munmap(c->of, REGION / PAGE);
	pthread_mutex_destroy(&c->lock);
	below->put(below, c);
}

/* A further page for this class; false: the region is full. */
static bool open_page(struct crowd *c, size_t k)
{
	char *page = c->region + c->used;

	if (c->used == REGION)
		return false;
	madvise(page, PAGE, MADV_HUGEPAGE); /* small pages do as well */
	c->of[c->used / PAGE] = (uint8_t)k;
	c->used += PAGE;
	c->class[k].at = page;
	c->class[k].end = page + PAGE / ((k + 1) * TW_ALIGN) * ((k + 1) * TW_ALIGN);
	return true;
}

static void *small_get(struct crowd *c, size_t k)
{
	void *memory = NULL;

	pthread_mutex_lock(&c->lock);
	HOLDS(2, !c->released);
	if (c->class[k].idle) {
		memory = c->class[k].idle;
		c->class[k].idle = c->class[k].idle->next;
	} else if (c->class[k].at < c->class[k].end || open_page(c, k)) {
		memory = c->class[k].at;
		c->class[k].at += (k + 1) * TW_ALIGN;
	}
	c->out += memory != NULL;
	pthread_mutex_unlock(&c->lock);
	return memory;
}

static void *large_get(struct crowd *c, size_t bytes)
{
	void *memory = c->below->get(c->below, bytes);

	pthread_mutex_lock(&c->lock);
	c->out += memory != NULL;
	pthread_mutex_unlock(&c->lock);
	return memory;
}

static void *crowd_get(struct tw_heap *heap, size_t bytes)
{
	struct crowd *c = (struct crowd *)heap;

	if (bytes > TW_CROWD_SMALL)
		return large_get(c, bytes);
	return small_get(c, bytes ? (bytes - 1) / TW_ALIGN : 0);
}

static void crowd_put(struct tw_heap *heap, void *memory)
{
	struct crowd *c = (struct crowd *)heap;
	char *at = memory;
	const bool small = at >= c->region && at < c->region + REGION; /* (1) */
	bool last;

	if (!memory)
		return;
	if (!small)
		c->below->put(c->below, memory);
	pthread_mutex_lock(&c->lock);
	if (small) {
		const size_t k = c->of[(size_t)(at - c->region) / PAGE];

		((struct idle *)memory)->next = c->class[k].idle;
		c->class[k].idle = memory;
	}
	c->out--;
	last = c->released && c->out == 0;
	pthread_mutex_unlock(&c->lock);
	if (last)
		end(c);
}

struct tw_heap *tw_crowd_heap_new(struct tw_heap *below)
{
	const int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	struct crowd *c = tw_heap_zeros(below, sizeof *c);

	if (!c)
		return NULL;
	c->heap = (struct tw_heap){ crowd_get, crowd_put };
	c->below = below;
	c->region = mmap(NULL, REGION, PROT_READ | PROT_WRITE, how, -1, 0);
	c->of = mmap(NULL, REGION / PAGE, PROT_READ | PROT_WRITE, how, -1, 0);
	if (c->region == MAP_FAILED || (void *)c->of == MAP_FAILED) {
		if (c->region != MAP_FAILED)
			munmap(c->region, REGION);
		below->put(below, c);
		return NULL;
	}
	pthread_mutex_init(&c->lock, NULL);
	return &c->heap;
}

void tw_crowd_heap_release(struct tw_heap *heap)
{
	struct crowd *c = (struct crowd *)heap;
	bool last;

	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->released = true;
	last = c->out == 0;
	pthread_mutex_unlock(&c->lock);
	if (last)
		end(c);
}
