/* SPDX-License-Identifier: Apache-2.0 */
/* digest.c - digests of parameters that lie in one block per shard. */
#include "checkpoint/digest.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "digests are over little-endian floats");

static void add(void *digest, const float *values, size_t n)
{
	tw_digest_add(digest, values, n * sizeof *values);
}

enum tw_status tw_digest_floats(struct tw_block *const *vector, const size_t *border,
				uint32_t shards, size_t from, size_t to,
				const struct tw_constants *constants, char out[TW_DIGEST_TEXT])
{
	struct tw_mingling model = { .next = 0 };
	struct tw_digest *d = tw_digest_new();
	enum tw_status status = TW_OK;

	if (constants)
		model.of = *constants;

	if (!d)
		return TW_NO_MEMORY;
	for (uint32_t k = 0; k < shards && status == TW_OK; k++) {
		const size_t a = border[k] > from ? border[k] : from;
		const size_t b = border[k + 1] < to ? border[k + 1] : to;

		if (a >= b)
			continue;
		if (!vector[k] || vector[k]->bytes < (b - border[k]) * sizeof(float))
			status = TW_BAD_BYTES;
		else
			tw_mingle(&model, tw_block_floats(vector[k]) + (a - border[k]), b - a, add,
				  d);
	}
	if (status == TW_OK)
		tw_digest_text(d, out);
	tw_digest_free(d);
	return status;
}
