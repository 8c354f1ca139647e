/* SPDX-License-Identifier: Apache-2.0 */
/* target_set.c - a data set as bytes (data/format/set_file.h), names included, as a joiner receives
 * it, and as a file that is mapped.
 *
 * Input: choices (1: the hashes of head and statistics are put right; 2: its fingerprint is made
 * that of the samples; the rest: how to normalise), the request for memory that is refused, the
 * set. */
#include "fuzz.h"
#include "data/data_memory.h"
#include "data/names_pack.h"
#include "data/format/set_file.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define HASH_AT (TW_SET_HEAD - 8)

struct bytes {
	uint8_t *at;
	size_t n;
	uint64_t next;
};

static enum tw_status give(void *arg, uint64_t from, void *to, size_t n, struct tw_error *why)
{
	struct bytes *b = arg;

	(void)why;
	MUST(from == b->next && n <= b->n - from && n <= TW_SET_PIECE);
	b->next += n;
	memcpy(to, b->at + from, n);
	return TW_OK;
}

static uint64_t number(const struct bytes *b, size_t at, size_t n)
{
	uint64_t v = 0;

	memcpy(&v, b->at + at, n);
	return v;
}

/* What the fingerprint would be if the head's lengths were true; they may be anything. */
static struct tw_sha true_fingerprint(const struct bytes *b)
{
	const uint32_t facts[] = {
		(uint32_t)number(b, 12, 4), (uint32_t)number(b, 16, 4), (uint32_t)number(b, 20, 4),
		(uint32_t)number(b, 24, 4), (uint32_t)number(b, 28, 4), (uint32_t)number(b, 32, 4),
		(uint32_t)number(b, 36, 4),
	};
	const uint64_t names = number(b, 104, 8);
	uint64_t features = facts[1], at = TW_SET_HEAD;
	struct tw_sha_run h;
	struct tw_sha out;

	if (facts[0] == 3)
		features *= (uint64_t)facts[2] * facts[3];
	tw_sha_init(&h);
	tw_sha_update(&h, facts, sizeof facts);
	tw_sha_update(&h, &names, sizeof names);
	if (names <= b->n - at) {
		tw_sha_update(&h, b->at + at, names);
		at += names;
	}
	for (int k = 0; k < 3; k++) {
		const uint64_t count = number(b, 40 + 8 * (size_t)k, 8);
		const uint64_t each = features * (facts[4] ? 4 : 1);
		const uint64_t parts[] = { each, 4 * (uint64_t)(facts[6] ? facts[6] : 1) };

		tw_sha_update(&h, &count, sizeof count);
		for (int p = 0; p < 2 && count; p++) {
			at = (at + 63) / 64 * 64;
			if (at > b->n || count > b->n || parts[p] > b->n ||
			    count * parts[p] > b->n - at)
				break;
			tw_sha_update(&h, b->at + at, count * parts[p]);
			at += count * parts[p];
		}
	}
	MUST(tw_sha_final(&h, &out) == TW_OK);
	return out;
}

static void check_names(const struct tw_data *d)
{
	const uint64_t answers = d->targets ? d->targets : d->classes;
	const struct tw_names *n = &d->names;

	for (uint64_t k = 0; n->column && k < d->features; k++)
		MUST(tw_name_valid(n->column[k], strlen(n->column[k])));
	for (uint64_t k = 0; n->answer && k < answers; k++)
		MUST(tw_name_valid(n->answer[k], strlen(n->answer[k])));
	MUST(!n->column || !n->column[d->features]);
	MUST(!n->answer || !n->answer[answers]);
	MUST(!n->label || tw_name_valid(n->label, strlen(n->label)));
}

static void check_same(const struct tw_data *d, const struct bytes *b)
{
	const uint64_t n = tw_set_bytes(d);
	uint8_t *again = malloc(n);

	MUST(again && n <= b->n);
	MUST(tw_set_copy(d, 0, again, n) == TW_OK);
	MUST(memcmp(again, b->at, n) == 0);
	free(again);
}

/* What the mapped file of these bytes is. */
static void check_laid(const struct bytes *b, const struct tw_data_options *o, bool taken)
{
	struct tw_data d = { .heap = &tw_heap_system };
	struct tw_error why = { 0 };
	enum tw_status st = tw_set_lay("a set", b->at, b->n, &d, &why);

	MUST(st == TW_OK || st == TW_BAD_BYTES || st == TW_NO_MEMORY);
	MUST((st == TW_OK) == (why.status == TW_OK));
	if (st == TW_OK) {
		d.divided = true;
		check_names(&d);
		st = tw_set_check("a set", &d, &why);
		MUST(st == TW_OK || st == TW_BAD_BYTES);
		/* values are believed, so they may be anything; what is made of them is a number or
		 * refused */
		if (tw_data_prepare(&d, o, NULL, &why) == TW_OK && st == TW_OK)
			tw_fuzz_check(&d);
	}
	MUST(!taken || b->n > tw_set_bytes(&d) || st == TW_OK);
	tw_data_keep_release(&d);
}

/* Statistics have a hash of their own. */
static void mend_statistics(struct bytes *b)
{
	const uint64_t from = number(b, 112, 8);
	uint64_t hash;

	if (from < TW_SET_HEAD || from > b->n || b->n - from < 8)
		return;
	hash = XXH3_64bits(b->at + from + 8, b->n - from - 8);
	memcpy(b->at + from, &hash, sizeof hash);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct tw_fuzz_input in = { bytes, n };
	const uint8_t choice = tw_fuzz_byte(&in), refuse = tw_fuzz_byte(&in);
	struct bytes b = { .n = in.left };
	struct tw_set_origin from = { .name = "a set", .read = give, .arg = &b, .bytes = b.n };
	const struct tw_data_options o = { .normalise = (uint32_t)(choice >> 2) % 3 };
	struct tw_data *d = NULL;
	struct tw_error why = { 0 };
	struct tw_fuzz_heap heap;
	enum tw_status st;

	b.at = aligned_alloc(64, (b.n + 64) / 64 * 64);
	MUST(b.at);
	if (b.n)
		memcpy(b.at, in.at, b.n);
	if (b.n >= TW_SET_HEAD) {
		uint64_t hash;

		if (choice & 2) {
			from.fingerprint = true_fingerprint(&b);
			memcpy(b.at + 64, &from.fingerprint, sizeof from.fingerprint);
		} else {
			memcpy(&from.fingerprint, b.at + 64, sizeof from.fingerprint);
		}
		if (choice & 1)
			mend_statistics(&b);
		hash = XXH3_64bits(b.at, HASH_AT);
		if (choice & 1)
			memcpy(b.at + HASH_AT, &hash, sizeof hash);
	}
	/* pointers to names, scale and shift, and sums for every value of a sample */
	tw_fuzz_heap_init(&heap, refuse, ((size_t)1 << 20) + n * 64);
	st = tw_set_open(&heap.heap, &from, &o, &d, &why);
	if (st == TW_OK) {
		tw_fuzz_check(d);
		check_names(d);
		check_same(d, &b);
		tw_data_close(d);
	} else {
		MUST(!d);
		tw_fuzz_told(st, &why, refuse != 0);
	}
	MUST(heap.live == 0);
	if (b.n)
		check_laid(&b, &o, st == TW_OK);
	free(b.at);
	return 0;
}
