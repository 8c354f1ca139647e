/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_lanes.c - which cell computes what, where the cells of a stage take turns. */
#include "strategy/pipeline.h"

uint32_t tw_pipe_first_cell(const struct tw_pipe_shape *shape, uint32_t stage)
{
	uint32_t cells = 0;

	for (uint32_t s = 0; s < stage; s++)
		cells += tw_pipe_lanes(shape, s);
	return cells;
}

static struct tw_pipe_post seat(const struct tw_pipe_shape *shape, uint32_t cell)
{
	struct tw_pipe_post post = { .lanes = tw_pipe_lanes(shape, 0) };

	for (; cell >= post.lanes; post.lanes = tw_pipe_lanes(shape, post.stage)) {
		cell -= post.lanes;
		post.stage++;
	}
	post.lane = cell;
	return post;
}

struct tw_pipe_post tw_pipeline_post(const struct tw_pipeline *p, const struct tw_pipe_shape *shape,
				     uint32_t cell)
{
	struct tw_pipe_post post = seat(shape, cell);
	const uint32_t after = tw_pipe_first_cell(shape, shape->stages) -
			       tw_pipe_first_cell(shape, post.stage + 1);
	const bool shared = p->traits & TW_PIPELINE_FLUSHES; /* (6) */

	post.cycle = shared ? shape->micros : post.lanes;
	post.own = (post.cycle - post.lane + post.lanes - 1) / post.lanes;
	post.micros = shared ? post.own : shape->micros;
	post.ahead = (after + post.lanes - 1) / post.lanes;
	return post;
}
