/* SPDX-License-Identifier: Apache-2.0 */
/* set_write.c - a set into a file: samples as they come, then what is known of them, the head last.
 *
 * Fingerprint and statistics are taken from the arrays as they are in the file, by a map of it: so
 * each sample is made once, and none has to stay in memory. */
#include "data/format/set_inner.h"
#include "data/data_memory.h"
#include "data/split.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct writing {
	int fd;
	const char *name;
	const struct tw_data_listener *listener;
	uint64_t done, heard, total;
	struct tw_error *why;
	/* one part each of the set that is walked */
	struct {
		uint8_t *at;
		uint64_t to;
		size_t n, width;
	} part[2];
};

static enum tw_status put(struct writing *w, uint64_t to, const void *bytes, size_t n)
{
	const uint8_t *at = bytes;

	w->done += n;
	while (n > 0) {
		const ssize_t some = pwrite(w->fd, at, n, (off_t)to);

		if (some < 0 && errno == EINTR)
			continue;
		if (some <= 0)
			return tw_fail(w->why, TW_IO, "%.300s: cannot be written: %s", w->name,
				       some ? strerror(errno) : "the disk took nothing");
		at += some;
		to += (uint64_t)some;
		n -= (size_t)some;
	}
	if (w->listener && w->listener->heard && w->done - w->heard >= TW_HEARD_EVERY) {
		w->heard = w->done;
		w->listener->heard(w->listener->arg, w->name, "writing", w->done, w->total);
	}
	return TW_OK;
}

static enum tw_status flush(struct writing *w, int k)
{
	const size_t n = w->part[k].n;
	const enum tw_status st = n ? put(w, w->part[k].to, w->part[k].at, n) : TW_OK;

	w->part[k].to += n;
	w->part[k].n = 0;
	return st;
}

static enum tw_status put_sample(void *arg, uint64_t i, const struct tw_sample *s,
				 struct tw_error *why)
{
	struct writing *w = arg;
	const void *of[] = { s->value, s->target ? (const void *)s->target : s->label };
	enum tw_status st = TW_OK;

	(void)i;
	(void)why;
	for (int k = 0; st == TW_OK && k < 2; k++) {
		const size_t width = w->part[k].width;

		if (w->part[k].n && w->part[k].n + width > TW_SET_PIECE)
			st = flush(w, k);
		if (st == TW_OK && width > TW_SET_PIECE) {
			st = put(w, w->part[k].to, of[k], width);
			w->part[k].to += width;
		} else if (st == TW_OK) {
			memcpy(w->part[k].at + w->part[k].n, of[k], width);
			w->part[k].n += width;
		}
	}
	return st;
}

static enum tw_status put_set(struct writing *w, const struct tw_data *d,
			      const struct tw_set_layout *lie, int set)
{
	enum tw_status st;

	for (int k = 0; k < 2; k++) {
		w->part[k].to = lie->part[2 * set + k].from;
		w->part[k].width = tw_set_width(d, k);
	}
	st = tw_samples_walk(d, tw_set_samples((struct tw_data *)d, set), 0, UINT64_MAX, put_sample,
			     w, w->why);
	for (int k = 0; st == TW_OK && k < 2; k++)
		st = flush(w, k);
	return st;
}

static enum tw_status put_arrays(struct writing *w, const struct tw_data *d,
				 const struct tw_set_layout *lie)
{
	uint8_t *room = d->heap->get(d->heap, 2 * TW_SET_PIECE);
	enum tw_status st = TW_OK;

	if (!room)
		return tw_data_keep_no_memory(w->why, w->name, 2 * TW_SET_PIECE);
	w->part[0].at = room;
	w->part[1].at = room + TW_SET_PIECE;
	for (int k = 0; st == TW_OK && k < TW_SET_SETS; k++)
		st = put_set(w, d, lie, k);
	d->heap->put(d->heap, room);
	if (st == TW_OK && d->packed_bytes)
		st = put(w, lie->names.from, d->packed, d->packed_bytes);
	if (st == TW_OK && lie->part[TW_SET_WEIGHTS].bytes)
		st = put(w, lie->part[TW_SET_WEIGHTS].from, d->train.weight,
			 lie->part[TW_SET_WEIGHTS].bytes);
	return st;
}

/* Fingerprint and statistics of the arrays as they are in the file now, and the head last. */
static enum tw_status put_head(struct writing *w, struct tw_data *d,
			       const struct tw_set_layout *lie, const uint8_t *map)
{
	struct tw_data laid = *d; /* the same set, whose samples lie in the file */
	const size_t bytes = (size_t)tw_set_statistics(d);
	uint8_t *room = d->heap->get(d->heap, bytes);
	struct tw_set_layout again;
	struct tw_set_head h;
	enum tw_status st = TW_OK;

	if (!room)
		return tw_data_keep_no_memory(w->why, w->name, bytes);
	tw_set_make_head(d, true, &h, &again);
	for (int k = 0; k < TW_SET_PARTS; k++)
		if (lie->part[k].bytes)
			tw_set_put_part(&laid, &h, k, map + lie->part[k].from);
	if (tw_fingerprint(&laid, &d->fingerprint) != TW_OK)
		st = tw_data_keep_no_memory(w->why, w->name, sizeof d->fingerprint);
	if (st == TW_OK && !d->tokens)
		st = tw_set_measure(&laid, room, w->why);
	if (st == TW_OK && !d->tokens)
		st = put(w, lie->statistics.from, room, bytes);
	tw_set_make_head(d, true, &h, &again);
	if (st == TW_OK)
		st = put(w, 0, &h, sizeof h);
	d->heap->put(d->heap, room);
	return st;
}

enum tw_status tw_set_write(struct tw_data *d, const char *name, int fd,
			    const struct tw_data_listener *listener, uint64_t *bytes,
			    struct tw_error *why)
{
	struct writing w = { .fd = fd, .name = name, .listener = listener, .why = why };
	struct tw_set_layout lie;
	struct tw_set_head h;
	enum tw_status st;
	void *map;

	tw_set_make_head(d, true, &h, &lie);
	*bytes = w.total = lie.end;
	st = put_arrays(&w, d, &lie);
	if (st == TW_OK && ftruncate(fd, (off_t)lie.end))
		st = tw_fail(why, TW_IO, "%.300s: cannot be written: %s", name, strerror(errno));
	if (st != TW_OK)
		return st;
	map = mmap(NULL, (size_t)lie.end, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return tw_fail(why, TW_IO, "%.300s: cannot be mapped: %s", name, strerror(errno));
	madvise(map, (size_t)lie.end, MADV_SEQUENTIAL);
	st = put_head(&w, d, &lie, map);
	munmap(map, (size_t)lie.end);
	return st;
}
