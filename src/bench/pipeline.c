/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline.c - a pipeline of two stages, in the world that was asked for. */
#include "bench/pipeline.h"

static enum tw_status run(const struct tw_bench_how *how, json_t *cases, struct tw_error *why)
{
	return how->world == TW_WORLD_TCP ? tw_pipeline_tcp(how, cases, why)
					  : tw_pipeline_threads(how, cases, why);
}

const struct tw_bench tw_bench_pipeline = {
	.name = "pipeline",
	.help = "a large network in two stages, against one worker and against its schedule",
	.run = run,
};
