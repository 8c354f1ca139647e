/* SPDX-License-Identifier: Apache-2.0 */
/* target_safetensors.c - named tensors: whatever is read lies within the bytes, side by side, and
 * is the same after writing and reading it again.
 *
 * Input: the request for memory that is refused, then the file. */
#include "fuzz.h"
#include "checkpoint/model_card.h"
#include "model/safetensors.h"

#include <stdlib.h>
#include <string.h>

static void within(const struct tw_safe *s, const uint8_t *bytes, size_t n)
{
	const uint8_t *at = s->tensors ? s->tensor[0].data : bytes;

	for (size_t k = 0; k < s->tensors; k++) {
		const struct tw_safe_tensor *t = &s->tensor[k];
		uint64_t count = 1;

		MUST(t->data == at && t->data >= bytes + 8 && t->bytes <= n);
		MUST(t->data + t->bytes <= bytes + n && t->rank <= TW_SAFE_RANK);
		for (uint32_t i = 0; i < t->rank; i++)
			count *= t->d[i];
		MUST(count == t->count && tw_safe_find(s, t->name));
		at += t->bytes;
	}
	MUST(!s->tensors || at == bytes + n);
}

static void floats(const struct tw_safe *s)
{
	for (size_t k = 0; k < s->tensors; k++) {
		const struct tw_safe_tensor *t = &s->tensor[k];
		float *out = malloc((t->count <= t->bytes ? t->count : 0) * sizeof *out + 1);

		MUST(out);
		if (t->count <= t->bytes)
			tw_safe_floats(t, out);
		free(out);
	}
}

static bool writable(const struct tw_safe *s)
{
	for (size_t k = 0; k < s->tensors; k++)
		if (s->tensor[k].type == TW_SAFE_OTHER)
			return false;
	return true;
}

static void again(const struct tw_safe *s)
{
	struct tw_error why = { 0 };
	struct tw_block *out = NULL;
	struct tw_safe back;

	MUST(tw_safe_write(&tw_heap_system, s->tensor, s->tensors, s->metadata, &out) == TW_OK);
	MUST(tw_safe_read(&tw_heap_system, out->data, out->bytes, &back, &why) == TW_OK);
	MUST(back.tensors == s->tensors && !back.metadata == !s->metadata);
	for (size_t k = 0; k < s->tensors; k++) {
		const struct tw_safe_tensor *a = &s->tensor[k], *b = tw_safe_find(&back, a->name);

		MUST(b && b->type == a->type && b->rank == a->rank && b->bytes == a->bytes);
		MUST(!memcmp(a->d, b->d, a->rank * sizeof a->d[0]));
		MUST(!a->bytes || !memcmp(a->data, b->data, a->bytes));
	}
	tw_safe_release(&back);
	tw_block_drop(out);
}

/* The card that a file of ours has. */
static void card(const char *metadata)
{
	struct tw_error why = { 0 };
	struct tw_card *c = NULL;
	const enum tw_status st = tw_card_of_metadata(&tw_heap_system, metadata, &c, &why);

	if (st != TW_OK && st != TW_ABSENT)
		tw_fuzz_told(st, &why, false);
	tw_card_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct tw_fuzz_input in = { bytes, n };
	struct tw_error why = { 0 };
	struct tw_fuzz_heap heap;
	struct tw_safe s;
	enum tw_status st;

	tw_fuzz_heap_init(&heap, tw_fuzz_byte(&in), ((size_t)1 << 20) + n * 64);
	st = tw_safe_read(&heap.heap, in.at, in.left, &s, &why);
	if (st == TW_OK) {
		within(&s, in.at, in.left);
		floats(&s);
		card(s.metadata);
		if (writable(&s))
			again(&s);
		tw_safe_release(&s);
	} else {
		tw_fuzz_told(st, &why, heap.refuse && heap.calls >= heap.refuse);
	}
	MUST(heap.live == 0);
	return 0;
}
