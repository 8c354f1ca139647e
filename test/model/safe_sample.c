/* SPDX-License-Identifier: Apache-2.0 */
/* safe_sample.c - tensors to write and read: several types, one that is empty, an odd name. */
#include "model/safe_sample.h"

static const float weight[6] = { 1.5f, -0.0f, 1e-42f, 3e38f, -7.25f, 0.1f };
static const int64_t steps[2] = { 1, -9 };
static const uint8_t marks[3] = { 1, 2, 255 };
const struct tw_safe_tensor sample[SAMPLES] = {
	{ .name = "4.body.0.weight",
	  .type = TW_SAFE_F32,
	  .rank = 2,
	  .d = { 2, 3 },
	  .data = (const uint8_t *)weight,
	  .bytes = sizeof weight },
	{ .name = "none", .type = TW_SAFE_F64, .rank = 1, .d = { 0 } },
	{ .name = "marks \"\\",
	  .type = TW_SAFE_U8,
	  .rank = 1,
	  .d = { 3 },
	  .data = marks,
	  .bytes = 3 },
	{ .name = "steps",
	  .type = TW_SAFE_I64,
	  .rank = 3,
	  .d = { 1, 2, 1 },
	  .data = (const uint8_t *)steps,
	  .bytes = sizeof steps },
};
