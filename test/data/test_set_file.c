/* SPDX-License-Identifier: Apache-2.0 */
/* test_set_file.c - a data set goes through bytes and back to the same bits, and bytes that are not
 * what they claim are refused with a sentence, whatever they claim. */
#include "data/forge.h" /* first: it wants all of xxhash */
#include "data/kit.h"
#include "base/refusing.h"
#include "data/names_pack.h"
#include "data/format/set_file.h"
#include "data/split.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct sample {
	const char *source;
	const char *sets[8];
} samples[] = {
	{ "digits", { "count=40", "tests=10" } },
	{ "digits", { "count=40", "tests=10", "validation=0.25", "normalise=unit", "samples=20" } },
	{ "idx",
	  { "images=images", "labels=labels", "test_images=test-images.gz",
	    "test_labels=test-labels" } },
	{ "idx", { "images=images", "labels=labels", "test=0.25", "validation=0.1", "samples=3" } },
	{ "csv", { "file=train.csv", "test_file=test.csv" } },
	{ "csv", { "file=plain.csv", "task=values", "label=2", "header=no", "test=0.4" } },
	{ "npy", { "x=x.npy", "y=y.npy" } },
	{ "npy", { "x=x.npy", "y=x.npy", "normalise=none", "test=0" } },
	{ "text", { "file=text.txt", "length=5", "validation=0.1" } },
	{ "text", { "file=text.txt", "test_file=rest.txt", "length=7" } },
	{ "tokens", { "file=tokens.bin", "vocabulary=300", "length=4" } },
	{ "tokens", { "file=wide.bin", "bits=32", "vocabulary=300", "length=4" } },
};
#define SAMPLES (sizeof samples / sizeof samples[0])

/* Bytes in memory, and what was asked of them. */
struct bytes {
	uint8_t *at;
	uint64_t n, next;
	size_t most;
	uint64_t until; /* reading fails from here on */
};

static enum tw_status give(void *arg, uint64_t from, void *to, size_t n, struct tw_error *why)
{
	struct bytes *b = arg;

	assert_true(from == b->next && n <= b->n - from);
	if (from + n > b->until)
		return tw_fail(why, TW_IO, "the line went dead");
	b->next += n;
	b->most = n > b->most ? n : b->most;
	memcpy(to, b->at + from, n);
	return TW_OK;
}

static struct tw_data_options options_of(const struct sample *s)
{
	struct tw_data_options o;
	struct tw_arena keep;

	tw_arena_init(&keep, &tw_heap_system);
	assert_int_equal(tw_option_defaults(tw_data_common_rows, &o, &keep, NULL), TW_OK);
	for (size_t k = 0; s->sets[k]; k++)
		if (strncmp(s->sets[k], "normalise=", 10) == 0)
			assert_int_equal(
				tw_option_set(tw_option_find(tw_data_common_rows, "normalise"), &o,
					      s->sets[k] + 10, &keep, NULL),
				TW_OK);
	o.fold = ""; /* its text is in the arena */
	tw_arena_release(&keep);
	return o;
}

static struct bytes bytes_of(const struct tw_data *d)
{
	struct bytes b = { .n = tw_set_bytes(d), .until = UINT64_MAX };

	b.at = malloc(b.n);
	assert_non_null(b.at);
	assert_int_equal(tw_set_copy(d, 0, b.at, b.n), TW_OK);
	return b;
}

static enum tw_status open_bytes(struct tw_heap *heap, struct bytes *b,
				 const struct tw_sha *fingerprint, const struct tw_data_options *o,
				 struct tw_data **out, struct tw_error *why)
{
	const struct tw_set_origin from = {
		.name = "a set",
		.read = give,
		.arg = b,
		.bytes = b->n,
		.fingerprint = *fingerprint,
	};

	b->next = 0;
	*why = (struct tw_error){ 0 };
	*out = NULL;
	return tw_set_open(heap ? heap : &tw_heap_system, &from, o, out, why);
}

static void same_batches(const struct tw_data *a, const struct tw_data *b, enum tw_data_set which)
{
	const struct tw_samples *s = tw_data_set(a, which), *r = tw_data_set(b, which);
	const struct tw_data_options moved = { .shift = a->rank == 3, .noise = 0.5 };
	const size_t values = a->features + a->targets + 1;
	float *x = calloc(values, 8), *y = calloc(values, 8);

	assert_true(s->count == r->count && x && y);
	for (uint64_t i = 0; i < s->count; i++)
		for (int k = 0; k < 2; k++) {
			const struct tw_batch from = { s, &i, 1, i }, to = { r, &i, 1, i };
			uint32_t label[784] = { 7 }, same[784] = { 7 };

			tw_data_fill(a, &from, k ? &moved : NULL, 3, x, label, x + a->features);
			tw_data_fill(b, &to, k ? &moved : NULL, 3, y, same, y + a->features);
			assert_memory_equal(x, y, values * sizeof *x);
			assert_memory_equal(label, same, tw_data_labels(a) * sizeof *label);
		}
	free(x);
	free(y);
}

static void sets_survive_bytes(void **state)
{
	for (size_t k = 0; k < SAMPLES; k++) {
		const struct tw_data_options o = options_of(&samples[k]);
		struct tw_data *d = kit_must_open(samples[k].source, samples[k].sets), *again;
		struct bytes b = bytes_of(d);
		struct tw_error why;
		struct tw_sha found;

		if (open_bytes(NULL, &b, &d->fingerprint, &o, &again, &why) != TW_OK)
			fail_msg("%s %zu: %s", samples[k].source, k, why.text);
		assert_true(b.next == b.n && b.most <= TW_SET_PIECE);
		assert_true(tw_sha_same(&again->fingerprint, &d->fingerprint));
		assert_int_equal(tw_fingerprint(again, &found), TW_OK);
		assert_true(tw_sha_same(&found, &d->fingerprint));
		assert_true(again->tokens == d->tokens && again->classes == d->classes &&
			    again->targets == d->targets);
		for (int set = TW_SET_TEST; set <= TW_SET_TRAIN; set++)
			same_batches(d, again, (enum tw_data_set)set);
		tw_data_close(again);
		tw_data_close(d);
		free(b.at);
	}
}

static void pieces_are_the_whole(void **state)
{
	struct tw_data *d = kit_must_open("idx", samples[3].sets);
	struct bytes b = bytes_of(d);
	uint8_t piece[256];

	for (uint64_t from = 0; from <= b.n; from++)
		for (size_t n = 0; n < sizeof piece && n <= b.n - from; n += 1 + n / 3) {
			assert_int_equal(tw_set_copy(d, from, piece, n), TW_OK);
			assert_memory_equal(piece, b.at + from, n);
		}
	assert_int_equal(tw_set_copy(d, b.n, piece, 1), TW_BAD_INPUT);
	assert_int_equal(tw_set_copy(d, b.n + 1, piece, 0), TW_BAD_INPUT);
	assert_int_equal(tw_set_copy(d, UINT64_MAX, piece, 2), TW_BAD_INPUT);
	tw_data_close(d);
	free(b.at);
}

static void large_sets_come_in_pieces(void **state)
{
	struct tw_data *d = kit_must_open("digits", SETS("count=4000", "tests=100")), *again;
	const struct tw_data_options o = options_of(&samples[0]);
	struct bytes b = bytes_of(d);
	struct tw_error why;

	assert_true(b.n > 2 * TW_SET_PIECE);
	assert_int_equal(open_bytes(NULL, &b, &d->fingerprint, &o, &again, &why), TW_OK);
	assert_int_equal(b.most, TW_SET_PIECE);
	same_batches(d, again, TW_SET_TEST);
	tw_data_close(again);
	tw_data_close(d);
	free(b.at);
}

static void refused(struct bytes *b, const struct tw_sha *fingerprint,
		    const struct tw_data_options *o, const char *says)
{
	struct refusing r = REFUSING(0);
	struct tw_data *d;
	struct tw_error why;

	if (open_bytes(&r.heap, b, fingerprint, o, &d, &why) != TW_BAD_BYTES)
		fail_msg("not refused: %s", why.text);
	assert_null(d);
	assert_true(strncmp(why.text, "a set: ", 7) == 0 && !strchr(why.text, '\n'));
	if (!strstr(why.text, says))
		fail_msg("'%s' does not say '%s'", why.text, says);
	assert_int_equal(r.live, 0);
}

static void damage_is_seen_everywhere(void **state)
{
	for (size_t k = 0; k < SAMPLES; k++) {
		const struct tw_data_options o = options_of(&samples[k]);
		struct tw_data *d = kit_must_open(samples[k].source, samples[k].sets);
		struct bytes b = bytes_of(d);
		const uint64_t n = b.n, step = n > 2000 ? 97 : 1;

		for (uint64_t at = 0; at < n; at += at < TW_SET_HEAD ? 1 : step) {
			b.at[at] ^= (uint8_t)(1u << at % 8);
			refused(&b, &d->fingerprint, &o, "");
			b.at[at] ^= (uint8_t)(1u << at % 8);
		}
		for (b.n = 0; b.n < n; b.n += b.n < 2 * TW_SET_HEAD ? 1 : step)
			refused(&b, &d->fingerprint, &o, "truncated");
		tw_data_close(d);
		free(b.at);
	}
}

static void another_set_is_named(void **state)
{
	const struct tw_data_options o = options_of(&samples[4]);
	struct tw_data *d = kit_must_open("csv", samples[4].sets);
	struct bytes b = bytes_of(d);
	char both[100], its[TW_SHA_SHORT];

	snprintf(both, sizeof both, "fingerprint is %s, and ff00000000000000... is wanted",
		 tw_sha_short(&d->fingerprint, its));
	refused(&b, &(struct tw_sha){ { 255 } }, &o, both);
	assert_int_equal(b.next, TW_SET_HEAD); /* the rest was not even asked for */
	tw_data_close(d);
	free(b.at);
}

/* Put a number into the head and make its hash true again. */
static void forge(struct bytes *b, size_t at, uint64_t value, size_t bytes)
{
	uint64_t hash;

	memcpy(b->at + at, &value, bytes);
	hash = XXH3_64bits(b->at, TW_SET_HEAD - 8);
	memcpy(b->at + TW_SET_HEAD - 8, &hash, sizeof hash);
}

static void claims_are_weighed_before_memory_is_asked_for(void **state)
{
	static const struct {
		size_t at, bytes;
		uint64_t value;
		const char *says;
	} lies[] = {
		{ 8, 4, 1, "version 1" },
		{ 8, 4, 2, "version 2" },
		{ 8, 4, 4, "version 4" },
		{ 12, 4, 0, "neither rows nor images" },
		{ 12, 4, 2, "neither rows nor images" },
		{ 12, 4, UINT32_MAX, "neither rows nor images" },
		{ 12, 4, 1, "height or width" },
		{ 16, 4, 0, "empty" },
		{ 16, 4, UINT32_MAX, "more than" },
		{ 20, 4, 1u << 31, "more than" },
		{ 28, 4, 2, "kind" },
		{ 28, 4, 1, "contradicts" },
		{ 28, 4, 512, "tokens without a vocabulary, or in images" },
		{ 28, 4, 1024, "kind" },
		{ 32, 4, 0, "either labels" },
		{ 32, 4, 65537, "65536 classes" },
		{ 36, 4, 1, "either labels" },
		{ 40, 8, 0, "no samples" },
		{ 40, 8, 1u << 20, "contradicts" },
		{ 40, 8, UINT64_MAX, "more samples than there can be" },
		{ 48, 8, UINT64_MAX / 4, "more samples than there can be" },
		{ 56, 8, (uint64_t)1 << 40, "contradicts" },
		{ 96, 8, UINT64_MAX, "contradicts" },
		{ 104, 8, 0, "contradicts" },
		{ 104, 8, UINT64_MAX, "more names" },
		{ 104, 8, 1 << 20, "more names" },
		{ 112, 8, 64, "contradicts" },
	};
	const struct tw_data_options o = options_of(&samples[2]);
	struct tw_data *d = kit_must_open("idx", samples[2].sets);
	struct bytes b = bytes_of(d);
	uint8_t head[TW_SET_HEAD];

	memcpy(head, b.at, sizeof head);
	for (size_t k = 0; k < sizeof lies / sizeof lies[0]; k++) {
		forge(&b, lies[k].at, lies[k].value, lies[k].bytes);
		refused(&b, &d->fingerprint, &o, lies[k].says);
		assert_int_equal(b.next, TW_SET_HEAD);
		memcpy(b.at, head, sizeof head);
	}
	/* 4 GiB samples of one byte that nobody has, told without contradiction */
	forge(&b, 16, 1, 4);
	forge(&b, 20, 1, 4);
	forge(&b, 24, 1, 4);
	forge(&b, 40, (uint64_t)1 << 32, 8);
	forge(&b, 48, 0, 8);
	forge(&b, 96, (TW_SET_HEAD + d->packed_bytes + 63) / 64 * 64 + 5 * ((uint64_t)1 << 32), 8);
	refused(&b, &d->fingerprint, &o, "truncated");
	assert_int_equal(b.next, TW_SET_HEAD);
	tw_data_close(d);
	free(b.at);
}

/* Whoever makes a set up may give it a true fingerprint; its samples are looked at all the same. */
static void forged_samples_are_refused(void **state)
{
	static const struct {
		size_t sample;
		uint32_t value;
		const char *says;
	} lies[] = { { 2, 3, "not one of its classes" },
		     { 2, UINT32_MAX, "not one of its classes" },
		     { 6, UINT32_MAX, "not one of its classes" },
		     { 5, 0x7fc00000, "finite" },
		     { 5, 0xff800000, "finite" } };

	for (size_t k = 0; k < sizeof lies / sizeof lies[0]; k++) {
		const struct sample *s = &samples[lies[k].sample];
		const struct tw_data_options o = options_of(s);
		struct tw_data *d = kit_must_open(s->source, s->sets);
		uint32_t *at =
			d->targets ? (uint32_t *)d->train.target : (uint32_t *)d->train.label;
		struct bytes b;

		at[d->train.count - 1] = lies[k].value;
		assert_int_equal(tw_fingerprint(d, &d->fingerprint), TW_OK);
		b = bytes_of(d);
		refused(&b, &d->fingerprint, &o, lies[k].says);
		tw_data_close(d);
		free(b.at);
	}
}

/* A network would look for a row that its embedding does not have. */
static void forged_tokens_are_refused(void **state)
{
	const struct sample *s = &samples[SAMPLES - 1];
	const struct tw_data_options o = options_of(s);
	static const float lies[] = { 300, -1, 2.5f, 16777216 };

	for (size_t k = 0; k < sizeof lies / sizeof lies[0]; k++) {
		struct tw_data *d = kit_must_open(s->source, s->sets);
		struct bytes b;

		((float *)d->train.value)[7] = lies[k];
		assert_int_equal(tw_fingerprint(d, &d->fingerprint), TW_OK);
		b = bytes_of(d);
		refused(&b, &d->fingerprint, &o, "a token that is not below its classes");
		tw_data_close(d);
		free(b.at);
	}
}

/* Two sets of one XXH3-64: the one is not taken for the other. */
static void equal_checksums_are_not_enough(void **state)
{
	const struct tw_data_options o = options_of(&samples[0]);
	struct tw_data *d = kit_must_open("digits", SETS("count=40", "tests=10"));
	const struct tw_sha honest = d->fingerprint;
	const uint64_t checksum = forge_xxh(d);
	struct bytes b;

	assert_true(forge_values((uint8_t *)d->train.value, 40 * 784) >= 29 * FORGE_BLOCK);
	assert_true(forge_xxh(d) == checksum);
	b = bytes_of(d);
	forge_head(b.at, &honest);
	refused(&b, &honest, &o, "is damaged or forged");
	tw_data_close(d);
	free(b.at);
}

static void same_list(const char *const *a, const char *const *b, uint64_t count)
{
	assert_true((a == NULL) == (b == NULL));
	for (uint64_t k = 0; a && k < count; k++)
		assert_string_equal(a[k], b[k]);
	if (a)
		assert_true(a[count] == NULL && b[count] == NULL);
}

/* Whoever has no file knows what columns and classes are called. */
static void names_survive_bytes(void **state)
{
	size_t named = 0;

	for (size_t k = 0; k < SAMPLES; k++) {
		const struct tw_data_options o = options_of(&samples[k]);
		struct tw_data *d = kit_must_open(samples[k].source, samples[k].sets), *again;
		struct bytes b = bytes_of(d);
		struct tw_error why;

		assert_int_equal(open_bytes(NULL, &b, &d->fingerprint, &o, &again, &why), TW_OK);
		same_list(d->names.column, again->names.column, d->features);
		same_list(d->names.answer, again->names.answer,
			  d->classes ? d->classes : d->targets);
		assert_true((d->names.label == NULL) == (again->names.label == NULL));
		if (d->names.label)
			assert_string_equal(d->names.label, again->names.label);
		assert_int_equal(d->names.separator, again->names.separator);
		assert_int_equal(d->names.place, again->names.place);
		named += d->names.column && d->names.answer && d->names.label;
		tw_data_close(again);
		tw_data_close(d);
		free(b.at);
	}
	assert_true(named > 0);
}

#define NAMES(columns, answers, label, separator, place)                                           \
	{                                                                                          \
		columns, 0, 0, 0, answers, 0, 0, 0, label, 0, 0, 0, separator, 0, 0, 0, place      \
	}

/* Three columns and three classes are what the set has; the fingerprint is true every time. */
static void forged_names_are_refused(void **state)
{
	static const struct {
		uint8_t head[TW_PACK_HEAD];
		const char *text; /* | stands for the end of a name */
		const char *says;
	} lies[] = {
		{ NAMES(3, 3, 1, ',', 4), "a|b|c|x|y|z|kind|", NULL },
		{ NAMES(0, 0, 0, 0, 0), "", NULL },
		{ NAMES(2, 3, 1, ',', 4), "a|b|x|y|z|kind|", "other columns" },
		{ NAMES(4, 3, 1, ',', 4), "a|b|c|d|x|y|z|kind|", "other columns" },
		{ NAMES(3, 2, 1, ',', 4), "a|b|c|x|y|kind|", "other classes" },
		{ NAMES(3, 4, 1, ',', 4), "a|b|c|w|x|y|z|kind|", "other classes" },
		{ NAMES(3, 3, 2, ',', 4), "a|b|c|x|y|z|kind|k|", "a table that cannot exist" },
		{ NAMES(3, 3, 1, 200, 4), "a|b|c|x|y|z|kind|", "a table that cannot exist" },
		{ NAMES(3, 3, 1, ',', 0), "a|b|c|x|y|z|kind|", "a table that cannot exist" },
		{ NAMES(3, 3, 1, 0, 4), "a|b|c|x|y|z|kind|", "a table that cannot exist" },
		{ NAMES(3, 3, 1, ',', 4), "a|", "fewer names" },
		{ NAMES(3, 3, 1, ',', 4), "a|b|c|x|y|z|kin", "truncated" },
		{ NAMES(3, 3, 1, ',', 4), "a|b|c|x|y|z|", "truncated" },
		{ NAMES(3, 3, 1, ',', 4), "a|b|c|x|y|z|kind||", "after its last name" },
		{ NAMES(3, 3, 1, ',', 4), "a|b|c|x|y|z|kind||||", NULL }, /* all are scaled */
		{ NAMES(3, 3, 1, ',', 4), "a|b|c|x|y|z|kind|\x01|\x02", "after its last name" },
		{ NAMES(3, 3, 1, ',', 4), "a|b|c|x|y|z|kind|\x01|\x01||", "after its last name" },
		{ NAMES(3, 3, 1, ',', 4), "a|b|a|x|y|z|kind|", "a name twice" },
		{ NAMES(3, 3, 1, ',', 4), "a|b|c|x|y|x|kind|", "a name twice" },
		{ NAMES(3, 3, 1, ',', 4), "a|b|c||y|z|kind|", "class without a name" },
		{ NAMES(3, 3, 1, ',', 4), "a\x1b[2J|b|c|x|y|z|kind|", "not printable" },
		{ NAMES(3, 3, 1, ',', 4), "a|b|c|x\n|y|z|kind|", "not printable" },
		{ NAMES(3, 3, 1, ',', 4),
		  "a|b|c|\xc2\x9b"
		  "2J|y|z|kind|",
		  "not printable" },
		{ NAMES(3, 3, 1, ',', 4), "a|b|c|x|\x7f|z|kind|", "not printable" },
		{ NAMES(3, 3, 1, ',', 4), "a|b|c|x|y|z|\xff|", "not printable" },
		{ NAMES(3, 3, 1, ',', 4), "a|b|c|x|y|z|\xc0\x80|", "not printable" },
	};
	const struct tw_data_options o = options_of(&samples[4]);
	struct tw_data *d = kit_must_open("csv", samples[4].sets), *again;
	uint8_t packed[600];
	struct tw_error why;

	assert_true(d->features == 3 && d->classes == 3);
	for (size_t k = 0; k <= sizeof lies / sizeof lies[0]; k++) {
		const bool last = k == sizeof lies / sizeof lies[0];
		const char *says = last ? "more than 255 bytes" : lies[k].says;
		size_t n = TW_PACK_HEAD;
		struct bytes b;

		memcpy(packed, lies[last ? 0 : k].head, TW_PACK_HEAD);
		if (last) { /* one byte too long */
			memset(packed + n, 'a', 256);
			n += 256;
			packed[n++] = 0;
		}
		for (const char *at = last ? "b|c|x|y|z|kind|" : lies[k].text; *at; at++)
			packed[n++] = (uint8_t)(*at == '|' ? 0 : *at);
		d->packed = packed;
		d->packed_bytes = n;
		assert_int_equal(tw_fingerprint(d, &d->fingerprint), TW_OK);
		b = bytes_of(d);
		if (says) {
			refused(&b, &d->fingerprint, &o, says);
		} else {
			assert_int_equal(open_bytes(NULL, &b, &d->fingerprint, &o, &again, &why),
					 TW_OK);
			tw_data_close(again);
		}
		free(b.at);
	}
	tw_data_close(d);
}

static void options_must_fit(void **state)
{
	struct tw_data_options o = options_of(&samples[6]);
	struct tw_data *d = kit_must_open("npy", samples[6].sets), *again;
	struct bytes b = bytes_of(d);
	struct tw_error why;

	o.flip = true;
	assert_int_equal(open_bytes(NULL, &b, &d->fingerprint, &o, &again, &why), TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "flip: needs images"));
	tw_data_close(d);
	free(b.at);
}

static void a_dead_line_and_no_memory_leave_nothing(void **state)
{
	const struct tw_data_options o = options_of(&samples[1]);
	struct tw_data *d = kit_must_open("digits", samples[1].sets), *again;
	struct bytes b = bytes_of(d);
	struct tw_error why;
	enum tw_status st = TW_NO_MEMORY;

	for (b.until = 0; b.until < b.n; b.until += b.n / 20) {
		struct refusing r = REFUSING(0);

		assert_int_equal(open_bytes(&r.heap, &b, &d->fingerprint, &o, &again, &why), TW_IO);
		assert_string_equal(why.text, "the line went dead");
		assert_int_equal(r.live, 0);
	}
	b.until = UINT64_MAX;
	for (unsigned nth = 1; st != TW_OK && nth < 100; nth++) {
		struct refusing r = REFUSING(nth);

		st = open_bytes(&r.heap, &b, &d->fingerprint, &o, &again, &why);
		if (st == TW_OK) {
			assert_true(nth > 6);
			tw_data_close(again);
		} else {
			assert_int_equal(st, TW_NO_MEMORY);
			assert_non_null(strstr(why.text, "no memory"));
		}
		assert_int_equal(r.live, 0);
	}
	assert_int_equal(st, TW_OK);
	tw_data_close(d);
	free(b.at);
}

static int setup(void **state)
{
	if (scratch_make(state))
		return -1;
	kit_put_idx_set();
	kit_put_csv_set();
	kit_put_npy_set();
	kit_put_text_set();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sets_survive_bytes),
		cmocka_unit_test(pieces_are_the_whole),
		cmocka_unit_test(large_sets_come_in_pieces),
		cmocka_unit_test(damage_is_seen_everywhere),
		cmocka_unit_test(another_set_is_named),
		cmocka_unit_test(claims_are_weighed_before_memory_is_asked_for),
		cmocka_unit_test(forged_samples_are_refused),
		cmocka_unit_test(forged_tokens_are_refused),
		cmocka_unit_test(equal_checksums_are_not_enough),
		cmocka_unit_test(names_survive_bytes),
		cmocka_unit_test(forged_names_are_refused),
		cmocka_unit_test(options_must_fit),
		cmocka_unit_test(a_dead_line_and_no_memory_leave_nothing),
	};

	return cmocka_run_group_tests(tests, setup, scratch_remove);
}
