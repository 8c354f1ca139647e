/* SPDX-License-Identifier: Apache-2.0 */
/* samples.c - samples by position, out of memory or from a supply. */
#include "data/source.h"
#include "data/data_memory.h"

#define AT_ONCE 64u               /* samples asked for together in a walk */
#define WALKED  ((size_t)1 << 20) /* bytes of room that a walk takes, if samples are small */

size_t tw_samples_width(const struct tw_data *d)
{
	return d->features * (d->kind == TW_VALUE_U8 ? 1 : sizeof(float));
}

size_t tw_samples_answer(const struct tw_data *d)
{
	return (d->targets ? (size_t)d->targets : tw_data_labels(d)) * sizeof(float);
}

size_t tw_samples_room(const struct tw_data *d)
{
	return (tw_samples_width(d) + tw_samples_answer(d) + 7) / 8 * 8;
}

bool tw_samples_lend(const struct tw_samples *s)
{
	return s->value || (s->supply && s->supply->lends);
}

enum tw_status tw_samples_fill(const struct tw_data *d, const struct tw_samples *s,
			       const uint64_t *position, uint32_t n, void *room,
			       struct tw_sample *out, struct tw_error *why)
{
	const size_t width = tw_samples_width(d), labels = tw_data_labels(d);

	if (!s->value)
		return s->supply->fill(s->supply, position, n, room, out, why);
	for (uint32_t k = 0; k < n; k++) {
		const uint64_t i = position[k];

		out[k] = (struct tw_sample){
			.value = (const uint8_t *)s->value + i * width,
			.label = d->targets ? NULL : s->label + i * labels,
			.target = d->targets ? s->target + i * d->targets : NULL,
		};
	}
	return TW_OK;
}

void tw_samples_soon(const struct tw_samples *s, const uint64_t *position, uint32_t n)
{
	if (s->supply && s->supply->soon)
		s->supply->soon(s->supply, position, n);
}

enum tw_status tw_samples_walk(const struct tw_data *d, const struct tw_samples *s, uint64_t from,
			       uint64_t count, tw_samples_visit visit, void *arg,
			       struct tw_error *why)
{
	const uint64_t most = from < s->count ? s->count - from : 0;
	const uint64_t end = from + (count < most ? count : most);
	const size_t each = tw_samples_room(d);
	const size_t fits = WALKED / each;
	const uint32_t some = fits < 1 ? 1 : fits > AT_ONCE ? AT_ONCE : (uint32_t)fits;
	struct tw_sample sample[AT_ONCE];
	uint64_t position[AT_ONCE];
	void *room = NULL;
	enum tw_status st = TW_OK;

	if (from >= end)
		return TW_OK;
	if (!tw_samples_lend(s)) {
		room = d->heap->get(d->heap, some * each);
		if (!room)
			return tw_data_keep_no_memory(why, "data", some * each);
	}
	for (uint64_t i = from; st == TW_OK && i < end;) {
		const uint32_t n = end - i < some ? (uint32_t)(end - i) : some;

		for (uint32_t k = 0; k < n; k++)
			position[k] = i + k;
		tw_samples_soon(s, position, n);
		st = tw_samples_fill(d, s, position, n, room, sample, why);
		for (uint32_t k = 0; st == TW_OK && k < n; k++)
			st = visit(arg, i + k, &sample[k], why);
		i += n;
	}
	d->heap->put(d->heap, room);
	return st;
}
