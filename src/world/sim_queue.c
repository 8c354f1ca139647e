/* SPDX-License-Identifier: Apache-2.0 */
/* sim_queue.c - slabs, the queue of events and the map of the simulator. */
#include "world/sim_queue.h"
#include "base/grow.h"

#include <string.h>

#define PAGE_BYTES 32768

void tw_slab_init(struct slab *s, struct tw_heap *heap, size_t size)
{
	*s = (struct slab){ .heap = heap, .size = (size + 15) / 16 * 16 };
}

void tw_slab_release(struct slab *s)
{
	while (s->pages) {
		void *next = *(void **)s->pages;

		s->heap->put(s->heap, s->pages);
		s->pages = next;
	}
	s->idle = NULL;
}

bool tw_slab_grow(struct slab *s)
{
	uint8_t *page = s->heap->get(s->heap, PAGE_BYTES);

	if (!page)
		return false;
	*(void **)page = s->pages;
	s->pages = page;
	for (size_t at = 64; at + s->size <= PAGE_BYTES; at += s->size)
		tw_slab_give(s, page + at);
	return true;
}

void tw_queue_init(struct queue *q, struct tw_heap *heap)
{
	*q = (struct queue){ .heap = heap };
}

void tw_queue_release(struct queue *q)
{
	q->heap->put(q->heap, q->entry);
	*q = (struct queue){ .heap = q->heap };
}

static inline bool before(const struct entry *a, const struct entry *b)
{
	return a->at < b->at || (a->at == b->at && a->seq < b->seq);
}

/* --- the heap --- */

static bool heap_push(struct queue *q, struct entry fresh)
{
	size_t i = q->count;

	if (!TW_GROW(q->heap, q->entry, q->room, q->count, q->count + 1))
		return false;
	q->count++;
	while (i) {
		const size_t up = (i - 1) / 4;

		if (!before(&fresh, &q->entry[up]))
			break;
		q->entry[i] = q->entry[up];
		i = up;
	}
	q->entry[i] = fresh;
	return true;
}

static struct entry heap_pop(struct queue *q)
{
	struct entry *const e = q->entry;
	const struct entry first = e[0], last = e[--q->count];
	const size_t n = q->count;
	size_t i = 0;

	for (;;) {
		size_t child = 4 * i + 1, least = child;
		const size_t end = child + 4 < n ? child + 4 : n;

		if (child >= n)
			break;
		for (child++; child < end; child++)
			if (before(&e[child], &e[least]))
				least = child;
		if (!before(&e[least], &last))
			break;
		e[i] = e[least];
		i = least;
	}
	if (n)
		e[i] = last;
	return first;
}

/* --- the earliest entries --- */

static struct entry *soon_at(struct queue *q, uint32_t k)
{
	return &q->soon[(q->first + k) % QUEUE_SOON];
}

static void soon_insert(struct queue *q, const struct entry *fresh)
{
	uint32_t k = q->sooner++;

	for (; k && before(fresh, soon_at(q, k - 1)); k--)
		*soon_at(q, k) = *soon_at(q, k - 1);
	*soon_at(q, k) = *fresh;
}

bool tw_queue_push(struct queue *q, int64_t at, struct event *event)
{
	const struct entry fresh = { at, q->seq, event };

	if (!q->sooner || !before(&fresh, soon_at(q, q->sooner - 1))) {
		if (!heap_push(q, fresh))
			return false;
	} else {
		if (q->sooner == QUEUE_SOON) {
			if (!heap_push(q, *soon_at(q, q->sooner - 1)))
				return false;
			q->sooner--;
		}
		soon_insert(q, &fresh);
	}
	q->seq++;
	return true;
}

struct entry tw_queue_pop(struct queue *q)
{
	struct entry first;

	if (q->sooner) {
		first = *soon_at(q, 0);
		q->first = (q->first + 1) % QUEUE_SOON;
		q->sooner--;
	} else {
		first = heap_pop(q);
	}
	while (q->sooner < QUEUE_AHEAD && q->count) /* (2): nearly always once */
		*soon_at(q, q->sooner++) = heap_pop(q);
	return first;
}

void tw_map_init(struct map *m, struct tw_heap *heap)
{
	*m = (struct map){ .heap = heap };
}

void tw_map_release(struct map *m)
{
	m->heap->put(m->heap, m->key);
	m->heap->put(m->heap, m->value);
	*m = (struct map){ .heap = m->heap };
}

static size_t place(const struct map *m, uint64_t key)
{
	uint64_t h = key * UINT64_C(0x9E3779B97F4A7C15);
	size_t i = (size_t)(h ^ (h >> 32)) & (m->room - 1);

	while (m->key[i] && m->key[i] != key)
		i = (i + 1) & (m->room - 1);
	return i;
}

int64_t *tw_map_find(const struct map *m, uint64_t key)
{
	size_t i;

	if (!m->room)
		return NULL;
	i = place(m, key);
	return m->key[i] ? &m->value[i] : NULL;
}

static bool map_grow(struct map *m)
{
	struct map big = { .heap = m->heap, .room = m->room ? 2 * m->room : 64 };

	big.key = tw_heap_zeros(m->heap, big.room * sizeof *big.key);
	big.value = m->heap->get(m->heap, big.room * sizeof *big.value);
	if (!big.key || !big.value) {
		tw_map_release(&big);
		return false;
	}
	for (size_t i = 0; i < m->room; i++)
		if (m->key[i]) {
			const size_t at = place(&big, m->key[i]);

			big.key[at] = m->key[i];
			big.value[at] = m->value[i];
		}
	big.count = m->count;
	tw_map_release(m);
	*m = big;
	return true;
}

int64_t *tw_map_put(struct map *m, uint64_t key, int64_t fresh)
{
	size_t i;

	if (2 * m->count >= m->room && !map_grow(m))
		return NULL;
	i = place(m, key);
	if (!m->key[i]) {
		m->key[i] = key;
		m->value[i] = fresh;
		m->count++;
	}
	return &m->value[i];
}
