/* SPDX-License-Identifier: Apache-2.0 */
/* safe_sample.h - tensors to write and read: several types, one that is empty, an odd name. */
#ifndef TW_TEST_MODEL_SAFE_SAMPLE_H
#define TW_TEST_MODEL_SAFE_SAMPLE_H

#include "model/safetensors.h"

#define SAMPLES 4
extern const struct tw_safe_tensor sample[SAMPLES]; /* the first: six floats */

#endif
