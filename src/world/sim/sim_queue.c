/* SPDX-License-Identifier: Apache-2.0 */
/* sim_queue.c - slabs, the queue of events and the map of the simulator. */
#include "world/sim/sim_queue.h"
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
	*q = (struct queue){ .heap = heap, .bins = { .until = INT64_MAX, .crowd = QUEUE_CROWD } };
	tw_slab_init(&q->bins.chunks, heap, sizeof(struct chunk));
}

void tw_queue_release(struct queue *q)
{
	q->heap->put(q->heap, q->entry);
	tw_slab_release(&q->bins.chunks);
	tw_queue_init(q, q->heap);
}

static inline bool before(const struct entry *a, const struct entry *b)
{
	return a->at < b->at || (a->at == b->at && a->seq < b->seq);
}

/* --- the heap --- */

/* There is room for it (4). */
static void heap_push(struct queue *q, struct entry fresh)
{
	size_t i = q->count++;

	while (i) {
		const size_t up = (i - 1) / 4;

		if (!before(&fresh, &q->entry[up]))
			break;
		q->entry[i] = q->entry[up];
		i = up;
	}
	q->entry[i] = fresh;
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

/* --- the bins --- */

#define BINS 256

/* (4), with this number of entries in bins: every bin may have one chunk that is not full, and
 * while one is dealt out its last chunk is in use too. */
static bool bins_reserve(struct bins *b, size_t count)
{
	const size_t wanted = count / QUEUE_CHUNK + (count < BINS ? count : BINS) + 1;

	while (b->owned < wanted) {
		struct chunk *c = tw_slab_take(&b->chunks);

		if (!c)
			return false;
		c->next = b->idle;
		b->idle = c;
		b->owned++;
	}
	return true;
}

/* The chunks for it are there. */
static void bins_add(struct bins *b, const struct entry *e)
{
	const uint64_t differs = (uint64_t)e->at ^ (uint64_t)b->since;
	const unsigned digit = differs ? (63u - (unsigned)__builtin_clzll(differs)) / 4 : 0;
	const unsigned value = (unsigned)((uint64_t)e->at >> 4 * digit) & 15u;
	struct chunk **bin = &b->bin[digit][value], *c = *bin;

	if (!c || c->count == QUEUE_CHUNK) {
		c = b->idle;
		b->idle = c->next;
		c->next = *bin;
		c->count = 0;
		*bin = c;
		b->used[digit] |= (uint16_t)(1u << value);
	}
	c->entry[c->count++] = *e;
	b->count++;
}

/* The first bin: its digit; its entries are the caller's, who gives the chunks back. */
static struct chunk *bins_take(struct bins *b, unsigned *digit)
{
	struct chunk *first;
	unsigned d = 0, value;

	while (!b->used[d])
		d++;
	value = (unsigned)__builtin_ctz(b->used[d]);
	first = b->bin[d][value];
	b->bin[d][value] = NULL;
	b->used[d] &= (uint16_t)(b->used[d] - 1);
	for (const struct chunk *c = first; c; c = c->next)
		b->count -= c->count;
	b->since = (int64_t)((uint64_t)b->since >> 4 * d >> 4 << 4 << 4 * d | (uint64_t)value
										      << 4 * d);
	*digit = d;
	return first;
}

static bool is_small(const struct chunk *c)
{
	for (size_t n = 0; c; c = c->next)
		if ((n += c->count) > QUEUE_CROWD / 2)
			return false;
	return true;
}

/* The next entries of the bins come to the heap. */
static void refill(struct queue *q)
{
	struct bins *b = &q->bins;

	while (!q->count && b->count) {
		unsigned digit;
		struct chunk *c = bins_take(b, &digit), *next;
		const bool whole = digit == 0 || is_small(c);

		for (; c; c = next) {
			for (size_t i = 0; i < c->count; i++)
				if (whole)
					heap_push(q, c->entry[i]);
				else
					bins_add(b, &c->entry[i]);
			next = c->next;
			c->next = b->idle;
			b->idle = c;
		}
		b->until = b->since + (whole ? INT64_C(1) << 4 * digit : 0);
	}
	if (!b->count)
		b->until = INT64_MAX; /* (3) */
}

/* The heap has become large: all of it goes to bins, if there is memory for that.  Entries of one
 * time all come back; then the next try is when there are twice as many. */
static void spill(struct queue *q)
{
	q->bins.crowd = 2 * q->count;
	if (!bins_reserve(&q->bins, q->count))
		return;
	q->bins.since = q->entry[0].at;
	for (size_t i = 0; i < q->count; i++)
		bins_add(&q->bins, &q->entry[i]);
	q->count = 0;
	refill(q);
	if (q->bins.count)
		q->bins.crowd = QUEUE_CROWD;
}

void tw_queue_gather(struct queue *q)
{
	struct bins *b = &q->bins;
	unsigned digit;

	while (b->count)
		for (struct chunk *c = bins_take(b, &digit), *next; c; c = next) {
			for (size_t i = 0; i < c->count; i++)
				heap_push(q, c->entry[i]);
			next = c->next;
			c->next = b->idle;
			b->idle = c;
		}
	b->until = INT64_MAX;
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

/* Room for one more, wherever it goes (4). */
static bool reserve(struct queue *q)
{
	return TW_GROW(q->heap, q->entry, q->room, q->count, tw_queue_count(q) + 1) &&
	       (!q->bins.count || bins_reserve(&q->bins, q->bins.count + 1));
}

bool tw_queue_push(struct queue *q, int64_t at, struct event *event)
{
	const struct entry fresh = { at, q->seq, event };

	if (!reserve(q))
		return false;
	q->seq++;
	if (at >= q->bins.until && q->bins.count) {
		bins_add(&q->bins, &fresh);
	} else if (!q->sooner || !before(&fresh, soon_at(q, q->sooner - 1))) {
		heap_push(q, fresh);
		if (q->count > q->bins.crowd && !q->bins.count)
			spill(q);
	} else {
		if (q->sooner == QUEUE_SOON)
			heap_push(q, *soon_at(q, --q->sooner));
		soon_insert(q, &fresh);
	}
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
	while (q->sooner < QUEUE_AHEAD &&
	       (q->count || q->bins.count)) { /* (2): nearly always once */
		if (!q->count)
			refill(q);
		*soon_at(q, q->sooner++) = heap_pop(q);
	}
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
