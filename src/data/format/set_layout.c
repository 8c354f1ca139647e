/* SPDX-License-Identifier: Apache-2.0 */
/* set_layout.c - where everything of a set lies in its file.
 *
 *  (1) a set that is in memory, or was opened, is never longer than a number can say. */
#include "data/format/set_inner.h"

#include <string.h>
#include <xxhash.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "arrays go out as they are");

const char tw_set_magic[8] = "TWSET\r\n\x1a";

struct tw_samples *tw_set_samples(struct tw_data *d, int k)
{
	return k == 0 ? &d->train : k == 1 ? &d->test : &d->validation;
}

size_t tw_set_width(const struct tw_data *d, int part)
{
	return part == TW_SET_WEIGHTS ? sizeof(float)
	       : part % 2             ? tw_samples_answer(d)
				      : tw_samples_width(d);
}

/* Samples, or weights, that a part has. */
uint64_t tw_set_count(const struct tw_set_head *h, int part)
{
	return part == TW_SET_WEIGHTS ? h->kind & TW_SET_WEIGHED ? h->count[0] : 0
				      : h->count[part / 2];
}

uint64_t tw_set_statistics(const struct tw_data *d)
{
	const uint64_t columns = d->features + (d->rank == 3 ? d->shape[0] : 0);

	return sizeof(uint64_t) + columns * sizeof(struct tw_column_facts) +
	       d->targets * sizeof(struct tw_target_facts);
}

/* The next piece, at a multiple of 64; false: nothing can be that long. */
static bool append(uint64_t count, uint64_t each, uint64_t *end, struct tw_set_piece *out)
{
	if (__builtin_add_overflow(*end, 63, &out->from) ||
	    __builtin_mul_overflow(count, each, &out->bytes))
		return false;
	out->from = out->from / 64 * 64;
	if (out->bytes == 0)
		out->from = *end;
	return !__builtin_add_overflow(out->from, out->bytes, end);
}

/* `d` has the head's shape. */
bool tw_set_lay_out(const struct tw_set_head *h, const struct tw_data *d, struct tw_set_layout *out)
{
	out->end = TW_SET_HEAD;
	out->names = (struct tw_set_piece){ TW_SET_HEAD, h->names };
	if (__builtin_add_overflow(out->end, h->names, &out->end))
		return false;
	for (int k = 0; k < TW_SET_PARTS; k++)
		if (!append(tw_set_count(h, k), tw_set_width(d, k), &out->end, &out->part[k]))
			return false;
	return append(h->statistics != 0, tw_set_statistics(d), &out->end, &out->statistics);
}

/* The head of a set as it is in memory, with or without statistics. */
void tw_set_make_head(const struct tw_data *d, bool statistics, struct tw_set_head *h,
		      struct tw_set_layout *lie)
{
	*h = (struct tw_set_head){
		.version = TW_SET_VERSION,
		.rank = d->rank,
		.kind = (uint32_t)d->kind | (d->train.weight ? TW_SET_WEIGHED : 0) |
			(d->tokens ? TW_SET_TOKENS : 0),
		.classes = d->classes,
		.targets = d->targets,
		.count = { d->train.count, d->test.count, d->validation.count },
		.fingerprint = d->fingerprint,
		.names = d->packed_bytes,
		.statistics = statistics && !d->tokens,
	};
	memcpy(h->magic, tw_set_magic, sizeof h->magic);
	memcpy(h->shape, d->shape, d->rank * sizeof *d->shape);
	HOLDS(1, tw_set_lay_out(h, d, lie));
	h->statistics = h->statistics ? lie->statistics.from : 0;
	h->bytes = lie->end;
	h->hash = XXH3_64bits(h, offsetof(struct tw_set_head, hash));
}

const void *tw_set_part(const struct tw_data *d, int k)
{
	const struct tw_samples *s =
		tw_set_samples((struct tw_data *)d, k == TW_SET_WEIGHTS ? 0 : k / 2);

	return k == TW_SET_WEIGHTS ? (const void *)s->weight
	       : k % 2 == 0        ? s->value
	       : s->target         ? (const void *)s->target
				   : s->label;
}

void tw_set_put_part(struct tw_data *d, const struct tw_set_head *h, int k, const void *at)
{
	struct tw_samples *s = tw_set_samples(d, k == TW_SET_WEIGHTS ? 0 : k / 2);

	s->count = tw_set_count(h, k);
	if (k == TW_SET_WEIGHTS)
		s->weight = at;
	else if (k % 2 == 0)
		s->value = at;
	else if (d->targets)
		s->target = at;
	else
		s->label = at;
}
