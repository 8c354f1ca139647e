/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_list.c - lists of a schedule for a stream that ends, and what a cell keeps. */
#include "strategy/pipeline.h"

size_t tw_pipeline_list(const struct tw_pipeline *p, const struct tw_pipe_shape *shape,
			uint32_t cell, uint64_t total, struct tw_pipe_move *out, size_t room)
{
	const size_t count = (size_t)(2 * total + (total + shape->micros - 1) / shape->micros);
	size_t made = 0;

	for (uint64_t k = 0; made < count; k++) {
		const struct tw_pipe_move m = p->move(shape, cell, k);

		if (!tw_pipe_move_counts(&m, shape->micros, total))
			continue;
		if (made < room)
			out[made] = m;
		made++;
	}
	return count;
}

/* A walk along the list of one cell. */
struct walk {
	uint64_t version;           /* updates made */
	uint64_t forwards, updated; /* micro-batches begun; those that are in an update */
	uint64_t backwards;
};

/* What FORWARD of a micro-batch read: as `reads` says, or what was newest then.  Lists depend on
 * nothing else, so walking them again up to there tells it. */
static uint64_t version_at(const struct tw_pipeline *p, const void *options,
			   const struct tw_pipe_shape *shape, uint32_t cell, uint64_t micro)
{
	const uint64_t said = tw_pipeline_reads(p, options, shape, micro);
	uint64_t version = 0;

	if (said != TW_PIPE_NEWEST)
		return said;
	for (uint64_t k = 0;; k++) {
		const struct tw_pipe_move m = p->move(shape, cell, k);

		if (m.deed == TW_FORWARD && m.micro == micro)
			return version;
		version += m.deed == TW_UPDATE;
	}
}

static uint32_t most(uint32_t a, uint64_t b)
{
	return b > a ? (uint32_t)b : a;
}

/* Distinct versions that are read after this move: by backwards of what is in flight, by the next
 * forward; and the newest.  Versions never go back (5), so they are counted in order. */
static uint32_t count_versions(const struct tw_pipeline *p, const void *options,
			       const struct tw_pipe_shape *shape, uint32_t cell,
			       const struct walk *w)
{
	const uint64_t next = tw_pipeline_reads(p, options, shape, w->forwards);
	uint64_t last = UINT64_MAX;
	uint32_t count = 0;

	for (uint64_t b = w->backwards; tw_pipeline_stashes(p, options) && b < w->forwards; b++) {
		const uint64_t v = version_at(p, options, shape, cell, b);

		count += v != last;
		last = v;
	}
	if (next == TW_PIPE_NEWEST)
		return count + (last != w->version);
	/* what lies between the last one read and the newest is read by forwards to come */
	if (last == UINT64_MAX || last < next)
		last = next - 1;
	return count + (uint32_t)(w->version - last);
}

struct tw_pipe_keeps tw_pipeline_keeps(const struct tw_pipeline *p, const void *options,
				       const struct tw_pipe_shape *shape, uint32_t cell)
{
	const uint64_t enough = 4 * ((uint64_t)shape->stages + shape->micros);
	struct tw_pipe_keeps out = { 0 };
	struct walk w = { 0 };

	for (uint64_t k = 0; w.updated < enough; k++) {
		const struct tw_pipe_move m = p->move(shape, cell, k);

		if (m.deed == TW_FORWARD) {
			w.forwards++;
			out.depth = most(out.depth, w.forwards - w.backwards);
		} else if (m.deed == TW_BACKWARD) {
			const uint64_t read = version_at(p, options, shape, cell, m.micro);

			w.backwards++;
			if (!tw_pipeline_stashes(p, options))
				out.mismatch = most(out.mismatch, w.version - read);
		} else {
			for (; w.updated < w.backwards; w.updated++)
				out.late = most(out.late, w.version - version_at(p, options, shape,
										 cell, w.updated));
			w.version++;
		}
		out.versions = most(out.versions, count_versions(p, options, shape, cell, &w));
	}
	return out;
}
