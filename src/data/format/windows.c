/* SPDX-License-Identifier: Apache-2.0 */
/* windows.c - a file of tokens as samples; bytes are kept as bytes, others as floats, which are
 * exact for them. */
#include "data/format/windows.h"

#include "data/data_memory.h"

#include <inttypes.h>
#include <string.h>

/* The tokens of one file. */
struct tokens {
	const struct tw_windows *w;
	const char *name;
	const uint8_t *at;
	uint64_t count;
};

static uint32_t token(const struct tokens *t, uint64_t k)
{
	const uint8_t *b = t->at + k * t->w->bytes;

	if (t->w->bytes == 1)
		return b[0];
	if (t->w->bytes == 2)
		return (uint32_t)b[0] | (uint32_t)b[1] << 8;
	return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static enum tw_status check(const struct tokens *t, size_t bytes, struct tw_error *why)
{
	const struct tw_windows *w = t->w;

	if (bytes % w->bytes)
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: has %zu bytes, which are no whole number of tokens of %u bytes "
			       "each",
			       t->name, bytes, w->bytes);
	if (t->count < 2)
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: %s; a text needs at least 2 tokens: one, and the one after it",
			       t->name, bytes ? "has 1 token" : "is empty");
	if (t->count < (uint64_t)w->length + 1)
		return tw_fail(why, TW_BAD_INPUT,
			       "length: a sample of %u tokens and the one after it need %" PRIu64
			       " tokens, and %s has %" PRIu64 "; use a smaller length",
			       w->length, (uint64_t)w->length + 1, t->name, t->count);
	for (uint64_t k = 0; k < t->count; k++)
		if (token(t, k) >= w->vocabulary)
			return tw_fail(why, TW_BAD_INPUT,
				       "%s: token %" PRIu64 " (from 0) is %" PRIu32
				       ", and the vocabulary has %u, so the last one is %u; set "
				       "vocabulary, or bits if it is read wrongly",
				       t->name, k, token(t, k), w->vocabulary, w->vocabulary - 1);
	return TW_OK;
}

static enum tw_status cut(const struct tokens *t, struct tw_data *d, struct tw_samples *s,
			  struct tw_error *why)
{
	const uint64_t length = t->w->length, windows = (t->count - 1) / length;
	const uint64_t n = windows * length;
	void *value = NULL, *label = NULL;
	enum tw_status st =
		tw_data_keep_room(d, n, d->kind == TW_VALUE_U8 ? 1 : sizeof(float), &value, why);

	if (st == TW_OK)
		st = tw_data_keep_room(d, n, sizeof(uint32_t), &label, why);
	if (st != TW_OK)
		return st;
	for (uint64_t k = 0; k < n; k++) {
		((uint32_t *)label)[k] = token(t, k + 1);
		if (d->kind == TW_VALUE_F32)
			((float *)value)[k] = (float)token(t, k);
	}
	if (d->kind == TW_VALUE_U8)
		memcpy(value, t->at, n);
	*s = (struct tw_samples){ .count = windows, .value = value, .label = label };
	return TW_OK;
}

static enum tw_status read_file(const struct tw_windows *w, const struct tw_source_site *site,
				const char *name, struct tw_data *d, struct tw_samples *s,
				struct tw_error *why)
{
	struct tokens t = { .w = w };
	struct tw_input *in = NULL;
	char *bytes = NULL;
	size_t n = 0;
	enum tw_status st = tw_input_open(site->heap, site->base, name, &in, why);

	if (st != TW_OK)
		return st;
	tw_input_listen(in, site->listener);
	t.name = tw_input_name(in);
	st = tw_input_all(in, &bytes, &n, why);
	t.at = (const uint8_t *)bytes;
	t.count = n / w->bytes;
	if (st == TW_OK)
		st = check(&t, n, why);
	if (st == TW_OK)
		st = cut(&t, d, s, why);
	site->heap->put(site->heap, bytes);
	tw_input_close(in);
	return st;
}

enum tw_status tw_windows_open(const struct tw_windows *w, const struct tw_source_site *site,
			       struct tw_data *d, struct tw_error *why)
{
	const uint64_t shape[] = { w->length };
	const bool tested = w->test_file && *w->test_file;
	enum tw_status st;

	if (!w->file || !*w->file)
		return tw_fail(why, TW_BAD_INPUT, "file: must be given: a file of tokens");
	st = tw_data_keep_shape(d, w->file, 1, shape, why);
	d->kind = w->bytes == 1 ? TW_VALUE_U8 : TW_VALUE_F32;
	d->classes = w->vocabulary;
	d->tokens = true;
	d->hold = tested ? TW_HOLD_FILE : TW_HOLD_PARTS;
	if (st == TW_OK)
		st = read_file(w, site, w->file, d, &d->train, why);
	if (st == TW_OK && tested)
		st = read_file(w, site, w->test_file, d, &d->test, why);
	if (st != TW_OK)
		tw_data_keep_release(d);
	return st;
}
