/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_list.c - lists of a schedule for a stream that ends, and what a cell keeps. */
#include "strategy/pipeline.h"

size_t tw_pipeline_list(const struct tw_pipeline *p, const struct tw_pipe_shape *shape,
			uint32_t cell, uint64_t total, struct tw_pipe_move *out, size_t room)
{
	const struct tw_pipe_post post = tw_pipeline_post(p, shape, cell);
	const uint64_t own = tw_pipe_own(&post, total);
	const size_t count = (size_t)(2 * own + (own + post.micros - 1) / post.micros);
	size_t made = 0;

	for (uint64_t k = 0; made < count; k++) {
		struct tw_pipe_move m = p->move(&post, k);

		if (!tw_pipe_move_counts(&post, &m, own))
			continue;
		if (m.deed != TW_UPDATE)
			m.micro = tw_pipe_micro(&post, m.micro);
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
			   const struct tw_pipe_shape *shape, const struct tw_pipe_post *post,
			   uint64_t micro)
{
	const uint64_t said = tw_pipeline_reads(p, options, shape, micro);
	uint64_t version = 0;

	if (said != TW_PIPE_NEWEST)
		return said;
	for (uint64_t k = 0;; k++) {
		const struct tw_pipe_move m = p->move(post, k);

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
			       const struct tw_pipe_shape *shape, const struct tw_pipe_post *post,
			       const struct walk *w)
{
	const uint64_t next = tw_pipeline_reads(p, options, shape, w->forwards);
	uint64_t last = UINT64_MAX;
	uint32_t count = 0;

	for (uint64_t b = w->backwards; tw_pipeline_stashes(p, options) && b < w->forwards; b++) {
		const uint64_t v = version_at(p, options, shape, post, b);

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

/* Updates of the stage that are in version v of a cell: all lanes make one together, or each makes
 * its own in turn. */
static uint64_t of_stage(const struct tw_pipeline *p, const struct tw_pipe_post *post, uint64_t v)
{
	if (p->traits & TW_PIPELINE_FLUSHES || !v)
		return v;
	return (v - 1) * post->lanes + post->lane + 1;
}

/* The walk comes to an update: how late are the micro-batches in it? */
static void see_update(const struct tw_pipeline *p, const void *options,
		       const struct tw_pipe_shape *shape, const struct tw_pipe_post *post,
		       struct walk *w, struct tw_pipe_keeps *out)
{
	const uint64_t before = of_stage(p, post, w->version + 1) - 1;

	for (; w->updated < w->backwards; w->updated++) {
		const uint64_t read = version_at(p, options, shape, post, w->updated);

		out->late = most(out->late, before - of_stage(p, post, read));
		out->own = most(out->own, w->version - read);
	}
	w->version++;
}

struct tw_pipe_keeps tw_pipeline_keeps(const struct tw_pipeline *p, const void *options,
				       const struct tw_pipe_shape *shape, uint32_t cell)
{
	const struct tw_pipe_post post = tw_pipeline_post(p, shape, cell);
	const uint64_t enough = 4 * ((uint64_t)post.ahead + shape->stages + shape->micros);
	struct tw_pipe_keeps out = { 0 };
	struct walk w = { 0 };

	for (uint64_t k = 0; w.updated < enough; k++) {
		const struct tw_pipe_move m = p->move(&post, k);

		if (m.deed == TW_FORWARD) {
			w.forwards++;
			out.depth = most(out.depth, w.forwards - w.backwards);
		} else if (m.deed == TW_BACKWARD) {
			const uint64_t read = version_at(p, options, shape, &post, m.micro);

			w.backwards++;
			if (!tw_pipeline_stashes(p, options))
				out.mismatch = most(out.mismatch, of_stage(p, &post, w.version) -
									  of_stage(p, &post, read));
		} else {
			see_update(p, options, shape, &post, &w, &out);
		}
		out.versions = most(out.versions, count_versions(p, options, shape, &post, &w));
	}
	return out;
}
