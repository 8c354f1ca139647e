/* SPDX-License-Identifier: Apache-2.0 */
/* kit.c - see kit.h. */
#include "data/kit.h"
#include "data/format/set_file.h"
#include "kit/pictures.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

void kit_put_gzip(const char *name, const void *bytes, size_t n)
{
	gzFile f = gzopen(path_of(name), "wb");

	assert_non_null(f);
	assert_int_equal(gzwrite(f, bytes, (unsigned)n), (int)n);
	assert_int_equal(gzclose(f), Z_OK);
}

uint8_t *kit_get(const char *name, size_t *n)
{
	uint8_t *out = malloc(1 << 20);
	FILE *f = fopen(path_of(name), "rb");

	assert_non_null(f);
	*n = fread(out, 1, 1 << 20, f);
	fclose(f);
	return out;
}

size_t kit_idx(uint8_t *out, uint8_t type, uint32_t rank, const uint32_t *size,
	       uint8_t (*value)(size_t))
{
	size_t n = 1, at = 0;

	out[at++] = 0;
	out[at++] = 0;
	out[at++] = type;
	out[at++] = (uint8_t)rank;
	for (uint32_t k = 0; k < rank; k++) {
		for (int shift = 24; shift >= 0; shift -= 8)
			out[at++] = (uint8_t)(size[k] >> shift);
		n *= size[k];
	}
	for (size_t i = 0; i < n; i++)
		out[at++] = value(i);
	return at;
}

size_t kit_npy(uint8_t *out, const char *header, const void *values, size_t bytes)
{
	const size_t n = strlen(header);

	memcpy(out, "\x93NUMPY\x01\x00", 8);
	out[8] = (uint8_t)(n & 255);
	out[9] = (uint8_t)(n >> 8);
	memcpy(out + 10, header, n);
	memcpy(out + 10 + n, values, bytes);
	return 10 + n + bytes;
}

static void set_one(const struct tw_source *s, const char *text, void *own,
		    struct tw_data_options *common, struct tw_arena *keep)
{
	const char *equals = strchr(text, '=');
	const struct tw_option *row;
	struct tw_error why = { 0 };
	char key[64];
	void *base = own;

	assert_non_null(equals);
	snprintf(key, sizeof key, "%.*s", (int)(equals - text), text);
	row = tw_option_find(s->options, key);
	if (!row) {
		row = tw_option_find(tw_data_common_rows, key);
		base = common;
	}
	assert_non_null(row);
	if (tw_option_set(row, base, equals + 1, keep, &why) != TW_OK)
		fail_msg("%s: %s", text, why.text);
}

static struct tw_warnings warned;

const struct tw_warnings *kit_warned(void)
{
	return &warned;
}

enum tw_status kit_open(struct tw_heap *heap, const char *source, const char *const *sets,
			struct tw_data **out, struct tw_error *why)
{
	return kit_open_at(NULL, heap, source, sets, out, why);
}

const struct tw_data_listener *kit_listener;

/* tw_data_open, or tw_data_read. */
typedef enum tw_status (*open_by)(const struct tw_source *source, const void *source_options,
				  const struct tw_data_options *o,
				  const struct tw_source_site *site, uint64_t seed,
				  struct tw_data **out, struct tw_error *why);

static enum tw_status open_with(open_by by, const struct tw_reach *reach, struct tw_heap *heap,
				const char *source, const char *const *sets, struct tw_data **out,
				struct tw_error *why)
{
	const struct tw_source *s = tw_source_find(source);
	const struct tw_reach all = { TW_REACH_ALL, scratch() };
	const struct tw_source_site site = {
		.heap = heap ? heap : &tw_heap_system,
		.cache = scratch(),
		.base = reach ? reach : &all,
		.listener = kit_listener,
	};
	struct tw_data_options common;
	struct tw_arena keep;
	enum tw_status st;
	void *own;

	assert_non_null(s);
	tw_arena_init(&keep, &tw_heap_system);
	own = tw_arena_get(&keep, s->options_bytes);
	for (const struct tw_option *row = s->options; row->name; row++)
		if (row->standard)
			assert_int_equal(tw_option_set(row, own, row->standard, &keep, NULL),
					 TW_OK);
	assert_int_equal(tw_option_defaults(tw_data_common_rows, &common, &keep, NULL), TW_OK);
	for (; *sets; sets++)
		set_one(s, *sets, own, &common, &keep);
	warned.count = 0;
	st = by(s, own, &common, &site, 1, out, why);
	if (st == TW_OK)
		warned = *(*out)->warnings;
	tw_arena_release(&keep);
	return st;
}

enum tw_status kit_open_at(const struct tw_reach *reach, struct tw_heap *heap, const char *source,
			   const char *const *sets, struct tw_data **out, struct tw_error *why)
{
	return open_with(tw_data_open, reach, heap, source, sets, out, why);
}

struct tw_data *kit_must_read(const char *source, const char *const *sets)
{
	struct tw_error why = { 0 };
	struct tw_data *d = NULL;

	if (open_with(tw_data_read, NULL, NULL, source, sets, &d, &why) != TW_OK)
		fail_msg("%s: %s", source, why.text);
	return d;
}

void kit_import(const char *source, const char *const *sets, const char *name)
{
	struct tw_data *d = kit_must_read(source, sets);
	char path[4200];
	struct tw_error why = { 0 };
	struct stat st;
	uint64_t bytes;
	int fd;

	snprintf(path, sizeof path, "%s/%s", scratch(), name);
	unlink(path);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	if (tw_set_write(d, name, fd, NULL, &bytes, &why) != TW_OK)
		fail_msg("%s", why.text);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, bytes);
	close(fd);
	tw_data_close(d);
}

struct tw_data *kit_must_open(const char *source, const char *const *sets)
{
	struct tw_error why = { 0 };
	struct tw_data *d = NULL;

	if (kit_open(NULL, source, sets, &d, &why) != TW_OK)
		fail_msg("%s: %s", source, why.text);
	assert_non_null(d);
	return d;
}

void kit_refuses(const char *source, const char *const *sets, const char *const *parts)
{
	struct tw_error why = { 0 };
	struct tw_data *d = NULL;
	const enum tw_status st = kit_open(NULL, source, sets, &d, &why);

	if (st != TW_BAD_INPUT || why.status != TW_BAD_INPUT)
		fail_msg("%s: %s instead of a refusal: %s", source, tw_status_name(st), why.text);
	assert_null(d);
	kit_says(why.text, parts);
}

void kit_says(const char *text, const char *const *parts)
{
	assert_null(strchr(text, '\n'));
	for (; *parts; parts++)
		if (!strstr(text, *parts))
			fail_msg("'%s' does not say '%s'", text, *parts);
}

void kit_warns(const char *source, const char *const *sets, const char *const *parts)
{
	tw_data_close(kit_must_open(source, sets));
	if (warned.count != (*parts != NULL))
		fail_msg("%u warnings, the first: %s", warned.count,
			 warned.count ? warned.text[0] : "");
	if (warned.count)
		kit_says(warned.text[0], parts);
}

static uint8_t byte_at(size_t i)
{
	return (uint8_t)(i * 37 + i / 7);
}

static uint8_t label_at(size_t i)
{
	return (uint8_t)(i % 3);
}

void kit_put_idx_set(void)
{
	uint8_t bytes[1024];
	const uint32_t train[] = { 12, 5, 4 }, test[] = { 4, 5, 4 };

	put("images", bytes, kit_idx(bytes, 0x08, 3, train, byte_at));
	put("labels", bytes, kit_idx(bytes, 0x08, 1, train, label_at));
	kit_put_gzip("test-images.gz", bytes, kit_idx(bytes, 0x08, 3, test, byte_at));
	put("test-labels", bytes, kit_idx(bytes, 0x08, 1, test, label_at));
}

void kit_put_csv_set(void)
{
	put_text("train.csv", "a,b,c,kind\r\n1,2.5,-3,oak\r\n4,5e1,6,elm\r\n"
			      "7,8,\"9\",\"oak\"\r\n-1.25,0,.5,ash\r\n1,1,1,elm\r\n\r\n");
	put_text("plain.csv", "1,2,3\n4,5,6\n7,8,9\n-1,0.5,2e-3\n");
	put_text("test.csv", "a,b,c,kind\n1,2,3,ash\n3,2,1,oak\n");
}

void kit_put_npy_set(void)
{
	uint8_t bytes[1024];
	float x[24];
	int64_t y[12];

	for (int i = 0; i < 24; i++)
		x[i] = (float)(i * i) / 8 - 5;
	for (int i = 0; i < 12; i++)
		y[i] = i % 4;
	put("x.npy", bytes,
	    kit_npy(bytes, "{'descr': '<f4', 'fortran_order': False, 'shape': (12, 2), }   \n", x,
		    sizeof x));
	put("y.npy", bytes,
	    kit_npy(bytes, "{'descr': '<i8', 'fortran_order': False, 'shape': (12,), }\n", y,
		    sizeof y));
}

void kit_put_pictures(void)
{
	static uint8_t bytes[KIT_PICTURE_MOST], tar[KIT_PICTURE_MOST];
	const char *const classes[] = { "cat", "dog" };
	const int counts[] = { 6, 4 };
	size_t end = 0;

	mkdir(path_of("pics"), 0700);
	for (int k = 0; k < 2; k++) {
		char name[60];

		snprintf(name, sizeof name, "pics/%s", classes[k]);
		mkdir(path_of(name), 0700);
		for (int i = 0; i < counts[k]; i++) {
			const size_t n = kit_plain_png(bytes, 6, 4, 3, (uint8_t)(100 * k + 10 * i));

			snprintf(name, sizeof name, "pics/%s/%d.png", classes[k], i);
			put(name, bytes, n);
			snprintf(name, sizeof name, "%s%d.png", classes[k], i);
			end += kit_tar(tar + end, name, '0', bytes, n);
			snprintf(name, sizeof name, "%s%d.cls", classes[k], i);
			end += kit_tar(tar + end, name, '0', k ? "1\n" : "0", 1 + (size_t)k);
		}
	}
	end += kit_tar_end(tar + end);
	put("pics.tar", tar, end);
}

void kit_put_text_set(void)
{
	uint16_t token[60];
	uint32_t wide[60];
	char text[101];

	for (size_t k = 0; k < sizeof text; k++)
		text[k] = (char)("call me ishmael. "[k % 17] + (k % 10 == 3));
	text[99] = (char)0xff;
	put("text.txt", text, sizeof text);
	put("rest.txt", text + 20, 31);
	for (size_t k = 0; k < 60; k++)
		wide[k] = token[k] = (uint16_t)(k * 37 % 300);
	put("tokens.bin", token, sizeof token);
	put("wide.bin", wide, sizeof wide);
}
