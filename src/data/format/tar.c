/* SPDX-License-Identifier: Apache-2.0 */
/* tar.c - files of a tar archive.
 *
 * An archive is blocks of 512 bytes.  A file is a header block and its bytes, filled up with zeros;
 * two blocks of zeros end the archive.  Where archives were put one behind the other, another one
 * follows these; nothing else may.  A header has: name (100 bytes), size at 124 (12), checksum
 * at 148 (8), type at 156, "ustar" at 257, and the front of a long name at 345 (155).  Numbers are
 * octal digits, or big endian behind a byte 0x80.  A size is believed only as far as the file could
 * hold that much. */
#include "data/format/tar.h"

#include "base/grow.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK    512
#define PAX_MOST 65536 /* bytes of the records ahead of a header */

void tw_tar_init(struct tw_tar *t, struct tw_heap *heap, struct tw_input *in)
{
	*t = (struct tw_tar){ .heap = heap, .in = in, .pax_bytes = UINT64_MAX };
}

void tw_tar_release(struct tw_tar *t)
{
	t->heap->put(t->heap, t->content);
	t->content = NULL;
}

static enum tw_status bad(const struct tw_tar *t, const char *what, struct tw_error *why)
{
	return tw_fail(why, TW_BAD_INPUT,
		       "%s: byte %" PRIu64 ": %s; a whole tar archive is needed, gzipped or not",
		       tw_input_name(t->in), tw_input_at(t->in), what);
}

/* False: it is no number. */
static bool number(const uint8_t *at, size_t n, uint64_t *out)
{
	uint64_t v = 0;
	size_t k = 0;

	if (at[0] & 0x80) {
		if (at[0] != 0x80 || n < 9)
			return false;
		for (k = 1; k + 8 < n; k++)
			if (at[k])
				return false;
		for (; k < n; k++)
			v = v << 8 | at[k];
		*out = v;
		return true;
	}
	while (k < n && at[k] == ' ')
		k++;
	for (; k < n && at[k] >= '0' && at[k] <= '7'; k++)
		v = v * 8 + (uint64_t)(at[k] - '0');
	*out = v;
	return k == n || at[k] == 0 || at[k] == ' ';
}

/* The sum of all bytes, with blanks for the sum itself. */
static bool sum_is_right(const uint8_t *block)
{
	uint64_t sum = 8 * ' ', said = 0;

	for (size_t k = 0; k < BLOCK; k++)
		sum += k < 148 || k >= 156 ? block[k] : 0;
	return number(block + 148, 8, &said) && said == sum;
}

static bool is_zero(const uint8_t *block, size_t n)
{
	size_t k = 0;

	while (k < n && !block[k])
		k++;
	return k == n;
}

static enum tw_status skip(struct tw_tar *t, struct tw_error *why)
{
	uint8_t block[BLOCK];
	enum tw_status st = TW_OK;

	while (st == TW_OK && t->left) {
		const size_t n = t->left < BLOCK ? (size_t)t->left : BLOCK;

		st = tw_input_read(t->in, block, n, "the rest of a file", why);
		t->left -= n;
	}
	return st;
}

/* A header says so many bytes; the room that they take up. */
static enum tw_status take_size(struct tw_tar *t, uint64_t bytes, struct tw_error *why)
{
	if (bytes > tw_input_most(t->in))
		return bad(t, "a file is said to be larger than the archive", why);
	t->bytes = bytes;
	t->left = (bytes + BLOCK - 1) / BLOCK * BLOCK;
	return TW_OK;
}

/* The name of the header: front, "/", name. */
static void take_name(struct tw_tar *t, const uint8_t *block)
{
	const char *front = (const char *)block + 345, *name = (const char *)block;
	const size_t n = memcmp(block + 257, "ustar\0", 6) == 0 ? strnlen(front, 155) : 0;

	if (t->long_name)
		return;
	memcpy(t->name, front, n);
	if (n)
		t->name[n] = '/';
	memcpy(t->name + n + (n > 0), name, strnlen(name, 100));
	t->name[n + (n > 0) + strnlen(name, 100)] = 0;
}

static enum tw_status give_name(struct tw_tar *t, const char *name, size_t n, struct tw_error *why)
{
	if (n >= sizeof t->name)
		return bad(t, "a name is longer than 1023 bytes", why);
	memcpy(t->name, name, n);
	t->name[n] = 0;
	t->long_name = true;
	return TW_OK;
}

/* Digits up to `last`. */
static enum tw_status take_record_size(struct tw_tar *t, const char *at, const char *last,
				       struct tw_error *why)
{
	uint64_t v = 0;

	while (at < last && *at >= '0' && *at <= '9' && v <= tw_input_most(t->in))
		v = v * 10 + (uint64_t)(*at++ - '0');
	if (v > tw_input_most(t->in))
		return bad(t, "a file is said to be larger than the archive", why);
	if (at < last)
		return bad(t, "a size ahead of a file is no whole number", why);
	t->pax_bytes = v;
	return TW_OK;
}

/* "27 path=some/long/name\n", one behind the other. */
static enum tw_status take_records(struct tw_tar *t, struct tw_error *why)
{
	const char *at = (const char *)t->content, *end = at + t->bytes;
	enum tw_status st = TW_OK;

	while (st == TW_OK && at < end) {
		uint64_t length = 0;
		const char *word = at, *last;

		while (word < end && *word >= '0' && *word <= '9' && length < PAX_MOST)
			length = length * 10 + (uint64_t)(*word++ - '0');
		if (word == end || *word++ != ' ' || length > (uint64_t)(end - at) ||
		    at + length <= word || at[length - 1] != '\n')
			return bad(t, "the records ahead of a file are damaged", why);
		last = at + length - 1;
		if (last - word > 5 && memcmp(word, "path=", 5) == 0)
			st = give_name(t, word + 5, (size_t)(last - word - 5), why);
		if (st == TW_OK && last - word > 5 && memcmp(word, "size=", 5) == 0)
			st = take_record_size(t, word + 5, last, why);
		at = last + 1;
	}
	return st;
}

enum tw_status tw_tar_read(struct tw_tar *t, struct tw_error *why)
{
	const size_t n = (size_t)t->bytes;
	enum tw_status st;

	if (!tw_grow(t->heap, &t->content, &t->room, 0, n + 1, 1))
		return tw_fail(why, TW_NO_MEMORY, "%s: no memory for %zu bytes",
			       tw_input_name(t->in), n);
	st = tw_input_read(t->in, t->content, n, "a file of the archive", why);
	t->content[n] = 0;
	t->left -= st == TW_OK ? n : 0;
	return st;
}

/* A header that says something about the next one: its long name. */
static enum tw_status read_ahead(struct tw_tar *t, char type, struct tw_error *why)
{
	enum tw_status st;

	if (t->bytes > PAX_MOST)
		return bad(t, "the records ahead of a file are longer than 65536 bytes", why);
	st = tw_tar_read(t, why);
	if (st == TW_OK && type == 'L')
		st = give_name(t, (const char *)t->content,
			       strnlen((const char *)t->content, (size_t)t->bytes), why);
	else if (st == TW_OK)
		st = take_records(t, why);
	return st;
}

/* The next header block, behind any zeros; *more false: the input ends behind such. */
static enum tw_status read_block(struct tw_tar *t, uint8_t block[BLOCK], bool *more,
				 struct tw_error *why)
{
	bool ended = false;
	size_t n = BLOCK;
	enum tw_status st;

	for (;;) {
		st = ended ? tw_input_up_to(t->in, block, BLOCK, &n, why)
			   : tw_input_read(t->in, block, BLOCK,
					   "a header or the end of the archive", why);
		if (st != TW_OK)
			return st;
		*more = !is_zero(block, n);
		if (*more || n < BLOCK)
			break;
		ended = true;
	}
	if (!*more || (n == BLOCK && sum_is_right(block)))
		return TW_OK;
	if (!ended)
		return bad(t, "the header before it has a wrong checksum", why);
	return tw_fail(why, TW_BAD_INPUT,
		       "%s: byte %" PRIu64 ": the archive has ended, and only zeros or the header "
		       "of another archive may follow",
		       tw_input_name(t->in), tw_input_at(t->in) - n);
}

/* The next header; *type 0: the archive ends. */
static enum tw_status read_header(struct tw_tar *t, char *type, struct tw_error *why)
{
	uint8_t block[BLOCK];
	uint64_t bytes = 0;
	bool more = false;
	enum tw_status st = skip(t, why);

	if (st == TW_OK)
		st = read_block(t, block, &more, why);
	*type = 0;
	if (st != TW_OK || !more)
		return st;
	if (!number(block + 124, 12, &bytes))
		return bad(t, "the header before it has no size", why);
	*type = block[156] ? (char)block[156] : '0';
	if (*type == 'x' || *type == 'g' || *type == 'L' || *type == 'K')
		return take_size(t, bytes, why);
	take_name(t, block);
	/* links and folders have no bytes, whatever their size says */
	if (*type >= '1' && *type <= '6')
		bytes = 0;
	else if (t->pax_bytes != UINT64_MAX)
		bytes = t->pax_bytes;
	return take_size(t, bytes, why);
}

enum tw_status tw_tar_next(struct tw_tar *t, bool *more, struct tw_error *why)
{
	enum tw_status st;
	char type = 0;

	*more = false;
	t->long_name = false;
	t->pax_bytes = UINT64_MAX;
	for (;;) {
		st = read_header(t, &type, why);
		if (st != TW_OK || !type)
			return st;
		if (type == '0' || type == '7') {
			*more = true;
			return TW_OK;
		}
		if (type == 'x' || type == 'L') {
			st = read_ahead(t, type, why);
			if (st != TW_OK)
				return st;
		} else if (type != 'g' && type != 'K') { /* something else than a file */
			if (type != '5' && t->passed++ == 0)
				snprintf(t->passed_name, sizeof t->passed_name, "%.79s", t->name);
			t->long_name = false;
			t->pax_bytes = UINT64_MAX;
		}
	}
}
