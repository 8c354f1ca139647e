/* SPDX-License-Identifier: Apache-2.0 */
/* set_map.c - a map of a set file, and hints to the system about what will be read.
 *
 * The values of the training set are marked as read at random, or the system would read 128 KiB
 * around each page.  A hint is given for pieces of PIECE bytes: small, because the first and last
 * of a block are its neighbours', too, and may have to be read again for them. */
#include "data/format/set_map.h"
#include "data/data_memory.h"
#include "data/format/set_file.h"
#include "data/input.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#define PIECE_BITS 15u
#define RECENT     4096u /* pieces that were hinted at last: 128 MiB of them */

struct mapping {
	struct tw_supply supply; /* must stay first */
	struct tw_heap *heap;
	const uint8_t *at; /* all of it */
	uint64_t bytes;
	uint64_t values, width;          /* of the training set: where, and of one sample */
	_Atomic uint64_t recent[RECENT]; /* number of a piece plus one, by its remainder */
};

static bool is_recent(const struct mapping *m, uint64_t piece)
{
	return atomic_load_explicit(&m->recent[piece % RECENT], memory_order_relaxed) == piece + 1;
}

/* Hint at those pieces of from..to that were not hinted at of late. */
static void hint(struct mapping *m, uint64_t from, uint64_t to)
{
	while (from <= to) {
		uint64_t end = from, bytes;

		if (is_recent(m, from)) {
			from++;
			continue;
		}
		for (; end <= to && !is_recent(m, end); end++)
			atomic_store_explicit(&m->recent[end % RECENT], end + 1,
					      memory_order_relaxed);
		bytes = (end - from) << PIECE_BITS;
		if (bytes > m->bytes - (from << PIECE_BITS))
			bytes = m->bytes - (from << PIECE_BITS);
		/* only saves time */
		(void)madvise((void *)(m->at + (from << PIECE_BITS)), (size_t)bytes, MADV_WILLNEED);
		from = end;
	}
}

static uint64_t first_piece(const struct mapping *m, uint64_t position)
{
	return (m->values + position * m->width) >> PIECE_BITS;
}

static uint64_t last_piece(const struct mapping *m, uint64_t position)
{
	return (m->values + (position + 1) * m->width - 1) >> PIECE_BITS;
}

/* Samples that lie close together, such as those of a block, are one range. */
static void map_soon(struct tw_supply *s, const uint64_t *position, uint32_t n)
{
	struct mapping *m = (struct mapping *)s;
	uint64_t low = UINT64_MAX, high = 0;

	for (uint32_t k = 0; k < n; k++) {
		low = position[k] < low ? position[k] : low;
		high = position[k] > high ? position[k] : high;
	}
	if (n == 0)
		return;
	if (last_piece(m, high) - first_piece(m, low) < 4 * (uint64_t)n) {
		hint(m, first_piece(m, low), last_piece(m, high));
		return;
	}
	for (uint32_t k = 0; k < n; k++)
		hint(m, first_piece(m, position[k]), last_piece(m, position[k]));
}

static void map_close(struct tw_supply *s)
{
	struct mapping *m = (struct mapping *)s;
	struct tw_heap *heap = m->heap;

	munmap((void *)m->at, (size_t)m->bytes);
	heap->put(heap, m);
}

/* Its values alone are read at random. */
static void advise(const struct mapping *m, uint64_t count)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	const uint64_t from = (m->values + page - 1) / page * page;
	const uint64_t end = m->values + count * m->width;

	if (from < end)
		(void)madvise((void *)(m->at + from), (size_t)(end - from), MADV_RANDOM);
}

enum tw_status tw_set_map(const struct tw_source_site *site, const char *name, struct tw_data *d,
			  struct tw_error *why)
{
	struct mapping *m = tw_heap_zeros(site->heap, sizeof *m);
	struct tw_input *in = NULL;
	enum tw_status st;

	if (!m)
		return tw_data_keep_no_memory(why, name, sizeof *m);
	m->heap = site->heap;
	m->supply = (struct tw_supply){ .lends = true, .soon = map_soon, .close = map_close };
	st = tw_input_open(site->heap, site->base, name, &in, why);
	if (st == TW_OK)
		st = tw_input_map(in, (const void **)&m->at, &m->bytes, why);
	if (st != TW_OK) {
		tw_input_close(in);
		site->heap->put(site->heap, m);
		return st;
	}
	tw_data_keep_supply(d, &m->supply);
	st = tw_set_lay(tw_input_name(in), m->at, m->bytes, d, why);
	tw_input_close(in);
	if (st != TW_OK)
		return st;
	m->values = (uint64_t)((const uint8_t *)d->train.value - m->at);
	m->width = tw_samples_width(d);
	d->train.supply = &m->supply;
	advise(m, d->train.count);
	return TW_OK;
}
