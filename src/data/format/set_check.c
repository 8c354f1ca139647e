/* SPDX-License-Identifier: Apache-2.0 */
/* set_check.c - are the arrays of a set what they may be, and what its fingerprint says? */
#include "data/data_memory.h"
#include "data/format/set_inner.h"
#include "data/split.h"

#include <math.h>

/* One array of the body, as a range of it. */
struct part {
	const void *at;
	uint64_t bytes;
};

static bool all_finite(const struct part *p)
{
	const float *v = p->at;

	for (uint64_t i = 0; i < p->bytes / sizeof *v; i++)
		if (!isfinite(v[i]))
			return false;
	return true;
}

static bool none_negative(const struct part *p)
{
	const float *v = p->at;

	for (uint64_t i = 0; i < p->bytes / sizeof *v; i++)
		if (v[i] < 0)
			return false;
	return true;
}

static bool all_below(const struct part *p, uint32_t classes)
{
	const uint32_t *label = p->at;

	for (uint64_t i = 0; i < p->bytes / sizeof *label; i++)
		if (label[i] >= classes)
			return false;
	return true;
}

/* Are the values whole numbers below it? */
static bool all_tokens(const struct part *p, enum tw_value kind, uint32_t classes)
{
	const uint8_t *byte = p->at;
	const float *v = p->at;

	for (uint64_t i = 0; kind == TW_VALUE_U8 && i < p->bytes; i++)
		if (byte[i] >= classes)
			return false;
	for (uint64_t i = 0; kind == TW_VALUE_F32 && i < p->bytes / sizeof *v; i++)
		if (!(v[i] >= 0 && v[i] < (float)classes) || v[i] != floorf(v[i]))
			return false;
	return true;
}

static struct part whole_part(const struct tw_data *d, int k)
{
	const struct tw_samples *s =
		tw_set_samples((struct tw_data *)d, k == TW_SET_WEIGHTS ? 0 : k / 2);
	const void *at = tw_set_part(d, k);

	return (struct part){ at, at ? s->count * tw_set_width(d, k) : 0 };
}

enum tw_status tw_set_check_labels(const char *name, const struct tw_data *d, struct tw_error *why)
{
	for (int k = 1; !d->targets && k < TW_SET_PARTS; k += 2) {
		const struct part p = whole_part(d, k);

		if (!all_below(&p, d->classes))
			return tw_fail(why, TW_BAD_BYTES,
				       "%.300s: has a label that is not one of its classes", name);
	}
	return TW_OK;
}

static enum tw_status check_values(const char *name, const struct tw_data *d, struct tw_error *why)
{
	for (int k = 0; k < TW_SET_PARTS; k++) {
		const struct part p = whole_part(d, k);
		const bool floats = k == TW_SET_WEIGHTS ? true
				    : k % 2             ? d->targets > 0
							: d->kind == TW_VALUE_F32;

		if (floats && !all_finite(&p))
			return tw_fail(why, TW_BAD_BYTES,
				       "%.300s: has a value that is not a finite number", name);
		if (d->tokens && k != TW_SET_WEIGHTS && k % 2 == 0 &&
		    !all_tokens(&p, d->kind, d->classes))
			return tw_fail(why, TW_BAD_BYTES,
				       "%.300s: has a token that is not below its classes", name);
		if (k == TW_SET_WEIGHTS && !none_negative(&p))
			return tw_fail(why, TW_BAD_BYTES, "%.300s: has a weight below 0", name);
	}
	return TW_OK;
}

enum tw_status tw_set_check_body(const char *name, const struct tw_data *d,
				 const struct tw_sha *fingerprint, struct tw_error *why)
{
	char its[TW_SHA_SHORT], wanted[TW_SHA_SHORT];
	struct tw_sha found;
	enum tw_status st;

	if (tw_fingerprint(d, &found) != TW_OK)
		return tw_data_keep_no_memory(why, name, sizeof found);
	if (!tw_sha_same(&found, fingerprint))
		return tw_fail(why, TW_BAD_BYTES,
			       "%.300s: is damaged or forged: the fingerprint of its samples is "
			       "%s, not %s",
			       name, tw_sha_short(&found, its), tw_sha_short(fingerprint, wanted));
	st = check_values(name, d, why);
	return st == TW_OK ? tw_set_check_labels(name, d, why) : st;
}
