/* SPDX-License-Identifier: Apache-2.0 */
/* make_seeds.c - writes the seeds of the fuzzers: small valid inputs of each kind.
 *
 *	make_seeds fuzz/corpus examples */
#include "actor/message.h"
#include "base/arena.h"
#include "data/data_memory.h"
#include "data/names_pack.h"
#include "data/format/set_file.h"
#include "data/split.h"
#include "fuzz.h"
#include "checkpoint/part_format.h"
#include "checkpoint/model_card.h"
#include "model/safetensors.h"
#include "node/checkpoint_part.h"
#include "wire/frame.h"
#include "kit/one_frame.h"
#include "kit/pictures.h"
#include "run/open_engine.h"
#include "strategy/codec.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static const char *corpus;

/* A seed that grows. */
struct seed {
	uint8_t bytes[8192];
	size_t n;
};

static void add(struct seed *s, const void *bytes, size_t n)
{
	MUST(s->n + n <= sizeof s->bytes);
	if (n)
		memcpy(s->bytes + s->n, bytes, n);
	s->n += n;
}

static void add_byte(struct seed *s, uint8_t byte)
{
	add(s, &byte, 1);
}

static void add_piece(struct seed *s, const void *bytes, size_t n)
{
	add_byte(s, (uint8_t)n);
	add_byte(s, (uint8_t)(n >> 8));
	add(s, bytes, n);
}

/* The file that the pieces of an image make. */
static void add_image(struct seed *s, const struct tw_part_image *image)
{
	add_byte(s, (uint8_t)image->bytes);
	add_byte(s, (uint8_t)(image->bytes >> 8));
	for (size_t k = 0; k < image->pieces; k++)
		add(s, image->piece[k].iov_base, image->piece[k].iov_len);
}

static void save(const struct seed *s, const char *kind, const char *format, ...)
{
	char name[80], path[4096];
	va_list args;
	FILE *f;

	va_start(args, format);
	vsnprintf(name, sizeof name, format, args);
	va_end(args);
	snprintf(path, sizeof path, "%s/%s", corpus, kind);
	mkdir(path, 0777);
	snprintf(path, sizeof path, "%s/%s/%s", corpus, kind, name);
	f = fopen(path, "wb");
	MUST(f && fwrite(s->bytes, 1, s->n, f) == s->n);
	MUST(fclose(f) == 0);
}

static void zip_bytes(const uint8_t *plain, size_t n, struct seed *out)
{
	z_stream z = { .next_in = (Bytef *)plain,
		       .avail_in = (uInt)n,
		       .next_out = out->bytes,
		       .avail_out = sizeof out->bytes };

	MUST(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
	MUST(deflate(&z, Z_FINISH) == Z_STREAM_END);
	out->n = z.total_out;
	deflateEnd(&z);
}

static void zip(const struct seed *plain, struct seed *out)
{
	zip_bytes(plain->bytes, plain->n, out);
}

/* --- frames --- */

static bool add_frame(struct seed *s, uint16_t type, uint32_t tail, uint32_t payload)
{
	struct tw_msg m = {
		.h = { .magic = TW_WIRE_MAGIC,
		       .major = TW_WIRE_MAJOR,
		       .minor = TW_WIRE_MINOR,
		       .type = type,
		       .sender = TW_WORKER,
		       .receiver = TW_SHARD,
		       .seq = 1,
		       .tail = tail,
		       .payload = payload },
	};
	struct tw_msg back;
	size_t len = 0;
	bool good;

	m.tail = tw_block_new(&tw_heap_system, tail + 1);
	m.payload = tw_block_new(&tw_heap_system, payload + 1);
	MUST(m.tail && m.payload);
	memset(&m.b, 1, sizeof m.b);
	memset(m.tail->data, 2, tail);
	memset(m.payload->data, 3, payload);
	MUST(one_frame_write(&m, s->bytes + s->n, sizeof s->bytes - s->n, &len) == TW_OK);
	tw_block_drop(m.tail);
	tw_block_drop(m.payload);
	good = one_frame_read(s->bytes + s->n, len, &tw_heap_system, &back) == TW_OK;
	if (good) {
		tw_block_drop(back.tail);
		tw_block_drop(back.payload);
		s->n += len;
	}
	return good;
}

/* A PUSH in two chunks whose payload is zeros that the fuzzer adds, and a PING between them. */
static void chunks(void)
{
	const uint16_t types[] = { TW_PUSH, TW_PING, TW_PUSH };
	struct seed s = { .n = 0 };

	add(&s, "\xe1\0\xff\x13", 4);
	for (size_t k = 0; k < sizeof types / sizeof types[0]; k++) {
		const bool push = types[k] == TW_PUSH;
		const size_t body = push && k ? 0 : tw_body_bytes(types[k]);
		const struct tw_header h = { .magic = TW_WIRE_MAGIC,
					     .major = TW_WIRE_MAJOR,
					     .type = types[k],
					     .length = (uint32_t)body,
					     .chunk = push ? (uint16_t)(k / 2) : 0,
					     .sender = TW_WORKER,
					     .receiver = TW_SHARD,
					     .payload = push ? TW_CHUNK + 5 : 0 };
		const union tw_body b = { .push = { .account.samples = 1 } };

		add(&s, &h, sizeof h);
		add(&s, &b, body);
	}
	save(&s, "frame", "chunks");
}

/* One of each type with all that it may carry, and a few in a row. */
static void frames(void)
{
	struct seed row = { .n = 0 };

	add(&row, "\1\0\x57\x0c", 4);
	for (uint16_t type = 1; type < TW_TYPES; type++) {
		const uint32_t record = type == TW_PEERS     ? sizeof(struct tw_peer_place)
					: type == TW_TICKETS ? sizeof(struct tw_ticket)
							     : 16;
		struct seed s = { .n = 0 };

		add(&s, "\1\0\x80\x10", 4);
		if (!add_frame(&s, type, 2 * record, 24) && !add_frame(&s, type, 2 * record, 0) &&
		    !add_frame(&s, type, 0, 24))
			MUST(add_frame(&s, type, 0, 0));
		save(&s, "frame", "%s", tw_type_name(type));
		if (type == TW_PULL || type == TW_PUSH || type == TW_PING)
			MUST(add_frame(&row, type, 0, type == TW_PUSH ? 24 : 0));
	}
	save(&row, "frame", "three-in-a-row");
	chunks();
}

/* --- data --- */

static void pair(const char *kind, const char *name, uint8_t choice, const struct seed *x,
		 const struct seed *y)
{
	struct seed s = { .n = 0 };

	add_byte(&s, choice);
	add_byte(&s, 0);
	add_piece(&s, x->bytes, x->n);
	add(&s, y->bytes, y->n);
	save(&s, kind, "%s", name);
}

static void idx(void)
{
	struct seed images = { .n = 0 }, labels = { .n = 0 }, floats = { .n = 0 }, zipped;

	add(&images, "\0\0\x08\3\0\0\0\6\0\0\0\2\0\0\0\3", 16);
	for (uint8_t k = 0; k < 36; k++)
		add_byte(&images, k * 7);
	add(&labels, "\0\0\x08\1\0\0\0\6\0\1\2\0\1\2", 14);
	add(&floats, "\0\0\x0d\2\0\0\0\6\0\0\0\2", 12);
	for (int k = 0; k < 12; k++)
		add(&floats, "\x3f\x80\0\0", 4);
	pair("idx", "bytes", 0, &images, &labels);
	pair("idx", "bytes-with-test", 1 + 16 + 32, &images, &labels);
	pair("idx", "floats", 2 + 4, &floats, &labels);
	zip(&images, &zipped);
	pair("idx", "gzip", 1 + 8, &zipped, &labels);
}

static void tokens(void)
{
	struct seed text = { .n = 0 }, numbers = { .n = 0 }, wide = { .n = 0 }, none = { .n = 0 },
		    zipped;

	add(&text, "call me ishmael, some years ago", 31);
	for (uint8_t k = 0; k < 40; k++) {
		add_byte(&numbers, k * 5);
		add_byte(&numbers, k % 2);
		add(&wide, (uint8_t[4]){ k * 5, k % 2 }, 4);
	}
	pair("tokens", "text", 0, &text, &none);
	pair("tokens", "text-with-test", 32, &text, &text);
	pair("tokens", "16-bits", 4 + 64, &numbers, &none);
	pair("tokens", "32-bits", 64 + 128, &wide, &none);
	zip(&text, &zipped);
	pair("tokens", "gzip", 1, &zipped, &none);
}

static void add_npy(struct seed *s, const char *type, const char *shape)
{
	char text[128];
	int n = snprintf(text, sizeof text,
			 "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, shape);

	for (; (10 + n + 1) % 64; n++)
		text[n] = ' ';
	text[n++] = '\n';
	add(s, "\x93NUMPY\1\0", 8);
	add_piece(s, text, (size_t)n);
}

/* A header of 70,000 blanks, gzipped. */
static void long_header(struct seed *out)
{
	static uint8_t plain[70000];

	memset(plain, ' ', sizeof plain);
	memcpy(plain, "\x93NUMPY\2\0\x70\x11\1\0", 12);
	zip_bytes(plain, sizeof plain, out);
}

static uint16_t any_value(uint32_t x, uint32_t y, uint32_t c)
{
	return (uint16_t)(7 * x + 11 * y + c);
}

static uint8_t any_byte(uint32_t x, uint32_t y, uint32_t c)
{
	return (uint8_t)any_value(x, y, 40 * c);
}

static void picture(const char *name, const uint8_t *bytes, size_t n)
{
	struct seed s = { .n = 0 };

	add(&s, "\1\0\5\6", 4);
	add(&s, bytes, n);
	save(&s, "picture", "%s", name);
}

static void pictures(void)
{
	static uint8_t bytes[KIT_PICTURE_MOST];
	static const uint8_t kinds[][2] = { { 1, 0 }, { 16, 0 }, { 8, 2 }, { 4, 3 }, { 8, 6 } };
	static const uint8_t palette[48] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };

	for (unsigned k = 0; k < 2 * sizeof kinds / sizeof kinds[0]; k++) {
		const bool indexed = kinds[k / 2][1] == 3;
		const struct kit_png how = { .width = 9,
					     .height = 7,
					     .depth = kinds[k / 2][0],
					     .type = kinds[k / 2][1],
					     .interlaced = k % 2,
					     .palette = indexed ? palette : NULL,
					     .entries = 16,
					     .transparent = indexed ? "\0\x80" : NULL,
					     .transparents = 2,
					     .value = any_value };
		char name[40];

		snprintf(name, sizeof name, "png-%u-%u-%u", how.type, how.depth, k % 2);
		picture(name, bytes, kit_png(bytes, &how));
	}
	for (unsigned k = 0; k < 4; k++) {
		const struct kit_jpeg how = { .width = 17,
					      .height = 9,
					      .components = k < 2 ? 1 + 2 * (int)k : k + 1,
					      .progressive = k == 2,
					      .value = any_byte };
		char name[40];

		snprintf(name, sizeof name, "jpeg-%u", k);
		picture(name, bytes, kit_jpeg(bytes, &how));
	}
}

static void tars(void)
{
	static uint8_t bytes[KIT_PICTURE_MOST], tar[8192];
	static const uint8_t choices[] = { 128, 128 + 64 + 16, 128 + 64, 128 + 64 + 32 };

	for (unsigned k = 0; k < sizeof choices; k++) {
		struct seed s = { .n = 0 };
		const char *record = "18 path=other.png\n";
		size_t end = 0;

		if (k == 2)
			end += kit_tar(tar, "x", 'x', record, strlen(record));
		end += kit_tar(tar + end, "0.png", '0', bytes, kit_plain_png(bytes, 4, 3, 3, 9));
		end += kit_tar(tar + end, k == 2 ? "other.cls" : "0.cls", '0', "1", 1);
		if (k == 3)
			end += kit_tar(tar + end, "1.json", '0', "{}", 2);
		end += kit_tar_end(tar + end);
		add_byte(&s, choices[k]);
		add_byte(&s, 0);
		add(&s, tar, end);
		save(&s, "tar", "archive-%u", k);
	}
}

static void sample_lines(void)
{
	static const struct {
		const char *name;
		uint8_t choice;
		const char *text;
	} rows[] = {
		{ "numbers", 16, "1,2,0\n3,4e1,2\n3,x,1\n3,4\n" },
		{ "header", 3 + 8, "x;y\n1;-2\n\"3\";4\n" },
		{ "object", 3 + 4 + 16, "{\"a\": [1, 2], \"y\": 0}\n{\"y\": 1, \"a\": [3, 4]}\n" },
	};

	for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
		struct seed s = { .n = 0 };

		add_byte(&s, rows[k].choice);
		add(&s, rows[k].text, strlen(rows[k].text));
		save(&s, "sample_line", "%s", rows[k].name);
	}
}

static void json_lines(void)
{
	static const struct {
		const char *name;
		uint8_t choice, how;
		const char *train, *test;
	} rows[] = {
		{ "words", 0, 0, "{\"a\": 1, \"k\": \"x\"}\n{\"k\": \"y\", \"a\": null}\n", "" },
		{ "objects", 16, 3,
		  "{\"b\": {\"c\": 2}, \"class\": true, \"late\": 1}\n{\"class\": false}\n",
		  "{\"class\": true, \"b\": {\"c\": 1e3}, \"late\": 0}\n" },
		{ "dropped", 64, 8, "{\"list\": [1], \"v\": 0.5, \"a\": {}, \"w\": -1}\n", "" },
		{ "columns", 32, 16, "{\"a\": 1, \"n\": [], \"b\": {\"c\": 3}, \"y\": 2}\n", "" },
	};

	for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
		struct seed s = { .n = 0 };

		add_byte(&s, rows[k].choice);
		add_byte(&s, rows[k].how);
		add_byte(&s, 0);
		add_piece(&s, rows[k].train, strlen(rows[k].train));
		add(&s, rows[k].test, strlen(rows[k].test));
		save(&s, "json_lines", "%s", rows[k].name);
	}
}

static void npy(void)
{
	struct seed x = { .n = 0 }, y = { .n = 0 }, images = { .n = 0 }, values = { .n = 0 },
		    zipped;

	add_npy(&x, "<f4", "(6, 2)");
	for (int k = 0; k < 12; k++)
		add(&x, "\0\0\x80\x3f", 4);
	add_npy(&y, "<i8", "(6,)");
	for (uint8_t k = 0; k < 6; k++)
		add(&y, (uint8_t[8]){ k % 3 }, 8);
	add_npy(&images, "|u1", "(6, 1, 2, 3)");
	for (uint8_t k = 0; k < 36; k++)
		add_byte(&images, k * 7);
	add_npy(&values, "<f8", "(6, 2)");
	for (int k = 0; k < 12; k++)
		add(&values, "\0\0\0\0\0\0\xf0\x3f", 8);
	pair("npy", "floats-labels", 1, &x, &y);
	pair("npy", "images-labels-test", 2 + 16 + 32, &images, &y);
	pair("npy", "floats-values", 2 + 4, &x, &values);
	zip(&x, &zipped);
	pair("npy", "gzip", 1, &zipped, &y);
	long_header(&zipped);
	pair("npy", "header-too-long", 1, &zipped, &y);
}

static void table(const char *name, uint8_t choice, uint8_t how, const char *train,
		  const char *test)
{
	struct seed s = { .n = 0 };

	add_byte(&s, choice);
	add_byte(&s, how);
	add_byte(&s, 0);
	add_piece(&s, train, strlen(train));
	add(&s, test, strlen(test));
	save(&s, "csv", "%s", name);
}

static void csv(void)
{
	static const char words[] = "a,b,class\n1,2.5,cat\n-3e2,.25,dog\n\"4\",5,\"c\"\"at\"\n"
				    "6,7,dog\n8,9,cat\n";
	struct seed plain = { .n = 0 }, zipped, s = { .n = 0 };

	table("words", 1, 0, words, "");
	table("named-label", 1, 3 << 4, words, "");
	table("values", 2, 64 + 2, "1,2,3\r\n4,5,6\r\n7,8,9\r\n1e-3,0,-1\r\n", "");
	table("semicolons", 4, 4 + 2 + (1 << 4), "0;1;2\n1;2;3\n0;5;6\n2;0;0\n", "");
	table("tabs-with-test", 16, 8, "1\t2\t0\n3\t4\t1\n", "5\t6\t1\n7\t8\t0\n");
	table("other-order", 16, 3 << 4, words, "id,class,b,a\nx,cat,1,2\n");
	table("numbered", 0, 0, "0,1,2\n4,5,x\n7,7,y\n8,9,x\n", "");
	table("index", 0, 0, ",a,y\n0,3,x\n1,3,y\n2,3,z\n", "");
	add(&plain, words, sizeof words - 1);
	zip(&plain, &zipped);
	add(&s, "\1\0\0", 3);
	add_piece(&s, zipped.bytes, zipped.n);
	save(&s, "csv", "gzip");
}

/* --- rows to predict --- */

enum { TREES, PRICES, NUMBERS, IMAGES, SCORE = 16, PIPE = 32, ANSWERS = 64, TABS = 128 };

static void rows_of(const char *name, uint8_t choice, const struct seed *file,
		    const struct seed *answers)
{
	struct seed s = { .n = 0 };

	add_byte(&s, choice);
	add_byte(&s, 0);
	add_piece(&s, file->bytes, file->n);
	if (answers)
		add(&s, answers->bytes, answers->n);
	save(&s, "rows", "%s", name);
}

static void rows_text(const char *name, uint8_t choice, const char *text)
{
	struct seed file = { .n = 0 };

	add(&file, text, strlen(text));
	rows_of(name, choice, &file, NULL);
}

static void rows(void)
{
	struct seed x = { .n = 0 }, y = { .n = 0 }, images = { .n = 0 }, labels = { .n = 0 },
		    plain = { .n = 0 }, zipped;

	rows_text("by-name", TREES, "id,c,b,a\nx1,3,2,1\n\"x\"\"2\",6,5,4\n");
	rows_text("by-place", TREES, "1,2,3\n4,5,6\n");
	rows_text("scored", TREES + SCORE, "class,c,b,a\ncat,3,2,1\ndog,6,5,4\n");
	rows_text("unknown-classes", TREES, "class,c,b,a\n,3,2,1\ncow,6,5,4\n");
	rows_text("prices", PRICES + SCORE, "1;0.5;2;3\n4;7;5;6\n");
	rows_text("numbers-piped", NUMBERS + PIPE, "k,p,q\n-1,1,2\n07,3,4\n");
	rows_text("tabs", TREES + TABS, "a\tb\tc\tnote\n1\t2\t3\t\n");
	rows_text("missing", TREES, "a,b,c\n1,NA,3\n");
	rows_text("pixels", IMAGES, "0,0.5,1,0,0,0\n");
	add_npy(&x, "<f4", "(2, 3)");
	for (int k = 0; k < 6; k++)
		add(&x, "\0\0\x80\x3f", 4);
	add_npy(&y, "<i8", "(2,)");
	for (uint8_t k = 0; k < 2; k++)
		add(&y, (uint8_t[8]){ k }, 8);
	rows_of("npy", TREES, &x, NULL);
	rows_of("npy-scored", TREES + SCORE + ANSWERS, &x, &y);
	add(&images, "\0\0\x08\3\0\0\0\2\0\0\0\2\0\0\0\3", 16);
	for (uint8_t k = 0; k < 12; k++)
		add_byte(&images, k);
	add(&labels, "\0\0\x08\1\0\0\0\2\1\7", 10);
	rows_of("idx-scored", IMAGES + SCORE + ANSWERS, &images, &labels);
	add(&plain, "a,b,c\n1,2,3\n", 12);
	zip(&plain, &zipped);
	rows_of("gzip-piped", TREES + PIPE, &zipped, NULL);
}

/* --- tensors and checkpoints --- */

static void safetensors(void)
{
	static const uint8_t data[64] = { 0, 0, 0x80, 0x3f };
	static const struct tw_safe_tensor t[] = {
		{ "conv.weight", TW_SAFE_F32, 2, { 2, 3 }, 6, data, 24 },
		{ "half", TW_SAFE_F16, 1, { 5 }, 5, data, 10 },
		{ "brain", TW_SAFE_BF16, 1, { 3 }, 3, data, 6 },
		{ "wide", TW_SAFE_F64, 1, { 2 }, 2, data, 16 },
		{ "whole", TW_SAFE_I64, 0, { 0 }, 1, data, 8 },
		{ "empty", TW_SAFE_U8, 1, { 0 }, 0, data, 0 },
	};

	for (size_t n = 0; n <= 6; n += 3) {
		struct seed s = { .n = 0 };
		struct tw_block *b = NULL;

		MUST(tw_safe_write(&tw_heap_system, t, n, n ? "{\"format\": \"pt\"}" : NULL, &b) ==
		     TW_OK);
		add_byte(&s, 0);
		add(&s, b->data, b->bytes);
		save(&s, "safetensors", "tensors-%zu", n);
		tw_block_drop(b);
	}
}

static struct tw_block *packed(const char *name, uint64_t from)
{
	static const float w[4] = { 1, 2, 3, 4 };
	const struct tw_array arrays[] = {
		{ .name = "parameters", .from = from, .n = 4, .kind = TW_FLOATS, .at = w },
		{ .name = "closed", .n = 8, .kind = TW_BYTES, .at = w },
		/* the longest name that there can be */
		{ .name = "a23456789b23456789c23456789d23456789123",
		  .n = 1,
		  .kind = TW_FLOATS,
		  .at = w },
	};
	static const struct tw_master_part master = { .cut = 1, .workers = 1, .shards = 2 };
	const struct tw_array facts = {
		.name = "master", .n = sizeof master, .kind = TW_BYTES, .at = &master
	};
	const bool shard = strcmp(name, "master") != 0;
	struct tw_block *b = tw_part_pack(&tw_heap_system, shard ? arrays : &facts, shard ? 3 : 1);

	MUST(b);
	return b;
}

static void checkpoint(void)
{
	static const char manifest[] =
		"{\"format\":2,\"cut\":1,\"job_hash\":\"00000000000000000000000000000000"
		"00000000000000000000000000000001\",\"isa\":\"plain\","
		"\"threads\":1,\"seconds\":0.5,\"bytes_sent\":1,\"bytes_received\":1,\"events\":1,"
		"\"parts\":[{\"name\":\"master\",\"file\":\"m\",\"encoding\":\"safetensors\"},"
		"{\"name\":\"shard 0\",\"file\":\"a\",\"encoding\":\"safetensors\"},"
		"{\"name\":\"shard 1\",\"file\":\"b\",\"encoding\":\"%s\"}],"
		"\"job_file\":\"\",\"job\":\"model: {quadratic: {dimension: 8}}\\n"
		"data: {source: none, samples: 16, batch: 2}\\ntrain: {steps: 4}\\n"
		"update: {rate: 0.1}\\nstrategy: asgd\\n\",\"epoch_samples\":16,"
		"\"layout\":[{\"name\":\"parameters\",\"shape\":[8],\"buffer\":false}],"
		"\"card\":{\"format\":1,\"program\":\"thalweg\",\"task\":\"made-up\"}}";
	static const char *const files[] = { "m", "a", "b" };
	static const char *const names[] = { "master", "shard 0", "shard 1" };

	for (int raw = 0; raw < 2; raw++) {
		struct seed s = { .n = 0 };
		char text[2000];

		snprintf(text, sizeof text, manifest, raw ? "raw" : "safetensors");
		add(&s, "\3\0", 2);
		add_piece(&s, text, strlen(text));
		for (int k = 0; k < 3; k++) {
			struct tw_part part = { .bytes = packed(names[k], k == 2 ? 4 : 0) };
			struct tw_part_image image;

			strcpy(part.name, names[k]);
			MUST(tw_part_encode(&tw_heap_system, &part, &image) == TW_OK);
			add_piece(&s, files[k], 1);
			if (raw && k == 2)
				add_piece(&s, part.bytes->data, part.bytes->bytes);
			else
				add_image(&s, &image);
			tw_part_image_release(&image);
			tw_block_drop(part.bytes);
		}
		save(&s, "checkpoint", raw ? "one-part-raw" : "three-parts");
	}
	for (int k = 0; k < 2; k++) {
		struct tw_block *b = packed(names[k], 0);
		struct seed s = { .n = 0 };

		add(&s, "\4\0", 2);
		add(&s, b->data, b->bytes);
		save(&s, "checkpoint", "packed-%s", k ? "shard" : "master");
		tw_block_drop(b);
	}
}

/* --- model cards --- */

static void card(void)
{
#define NET(more, layers)                                                                          \
	"data: {source: digits, count: 40, tests: 10, batch: 10" more "}\nmodel: " layers "\n"
	static const char *const job[] = {
		NET("", "{layers: [conv 3 3x3 pad 1, batchnorm, relu, linear 10]}"),
		NET("", "{layers: [{residual: [conv 2 1x1], shortcut: [conv 2 3x3 pad 1]}, "
			"linear 10]}"),
		NET(", normalise: unit", "{name: autoencoder, hidden: [4]}"),
		"data: {source: none, samples: 8, batch: 1}\nmodel: {quadratic: {dimension: 4}}\n",
	};
#undef NET

	for (size_t k = 0; k < sizeof job / sizeof job[0]; k++) {
		struct tw_error why = { 0 };
		struct tw_engine *engine = NULL;
		struct tw_card *c = NULL;
		struct tw_job *j = NULL;
		struct seed s = { .n = 0 };
		json_t *o;
		char *text;

		MUST(tw_job_read_text("seed", job[k], strlen(job[k]), NULL, 0, NULL,
				      TW_WORLD_THREADS, &j, &why) == TW_OK);
		MUST(tw_job_open_engine(j, &tw_heap_system, &engine, &why) == TW_OK);
		MUST(tw_card_make(j, engine, &c, &why) == TW_OK && (o = tw_card_json(c)));
		MUST((text = json_dumps(o, JSON_COMPACT)));
		add_byte(&s, 0);
		add(&s, text, strlen(text));
		save(&s, "card", "card-%zu", k);
		free(text);
		json_decref(o);
		tw_card_free(c);
		engine->class->close(engine);
		tw_job_free(j);
	}
}

/* --- data sets --- */

/* As it is imported: with statistics. */
static void set_file(const char *name, struct tw_data *d)
{
	struct tw_error why = { 0 };
	struct seed s = { .n = 0 };
	uint8_t bytes[2048];
	const int fd = memfd_create(name, 0);
	uint64_t n = 0;

	MUST(fd >= 0 && tw_set_write(d, name, fd, NULL, &n, &why) == TW_OK);
	MUST(n <= sizeof bytes && pread(fd, bytes, n, 0) == (ssize_t)n);
	close(fd);
	add_byte(&s, 3);
	add_byte(&s, 0);
	add(&s, bytes, n);
	save(&s, "set", "%s-file", name);
}

static void set(const char *name, struct tw_data *d)
{
	struct tw_error why = { 0 };
	struct seed s = { .n = 0 };
	uint8_t bytes[2048];
	size_t n;

	d->heap = &tw_heap_system;
	MUST(tw_names_pack(d, &why) == TW_OK);
	MUST(tw_fingerprint(d, &d->fingerprint) == TW_OK);
	n = (size_t)tw_set_bytes(d);
	MUST(n <= sizeof bytes && tw_set_copy(d, 0, bytes, n) == TW_OK);
	add_byte(&s, 3);
	add_byte(&s, 0);
	add(&s, bytes, n);
	save(&s, "set", "%s", name);
	set_file(name, d);
	tw_data_keep_release(d);
}

static void sets(void)
{
	static const char *const columns[] = { "height", "",
					       "gr\xc3\xb6\xc3\x9f"
					       "e",
					       NULL };
	static const char *const classes[] = { "ash", "elm", NULL };
	static const float rows[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 1.5f, 2.5f, 3.5f };
	static const uint8_t pixels[4 * 4] = { 0, 255, 3, 4, 9, 8, 7, 6, 1, 2, 3, 4, 0, 0, 1, 1 };
	static const uint32_t labels[] = { 0, 1, 1, 0 };
	struct tw_data table = {
		.rank = 1,
		.shape = { 3 },
		.features = 3,
		.kind = TW_VALUE_F32,
		.classes = 2,
		.names = { .column = columns,
			   .answer = classes,
			   .label = "kind",
			   .separator = ',',
			   .place = 4 },
		.train = { .count = 3, .value = rows, .label = labels },
		.test = { .count = 1, .value = rows + 9, .label = labels + 3 },
	};
	struct tw_data values = {
		.rank = 1,
		.shape = { 2 },
		.features = 2,
		.kind = TW_VALUE_F32,
		.targets = 1,
		.train = { .count = 3, .value = rows, .target = rows + 6 },
		.validation = { .count = 1, .value = rows, .target = rows + 3 },
	};
	struct tw_data images = {
		.rank = 3,
		.shape = { 1, 2, 2 },
		.features = 4,
		.kind = TW_VALUE_U8,
		.classes = 2,
		.train = { .count = 3, .value = pixels, .label = labels },
		.test = { .count = 1, .value = pixels + 12, .label = labels },
	};

	set("table", &table);
	set("values", &values);
	set("images", &images);
}

/* --- jobs --- */

/* The example without what is only for people. */
static void add_job(struct seed *s, const char *path)
{
	FILE *f = fopen(path, "r");
	char line[1000];

	MUST(f);
	while (fgets(line, sizeof line, f))
		if (line[0] != '#')
			add(s, line, strlen(line));
	fclose(f);
}

static void jobs(const char *examples)
{
	DIR *d = opendir(examples);
	const struct dirent *e;

	MUST(d);
	while ((e = readdir(d))) {
		const char *end = strrchr(e->d_name, '.');
		struct seed s = { .n = 0 };
		char path[4096];

		if (!end || strcmp(end, ".yaml") != 0)
			continue;
		snprintf(path, sizeof path, "%s/%s", examples, e->d_name);
		add_byte(&s, 0);
		add_job(&s, path);
		s.bytes[0] = memmem(s.bytes, s.n, "\nsim:", 5) ? 0 : 1;
		save(&s, "job", "%.*s", (int)(end - e->d_name), e->d_name);
		if (strcmp(e->d_name, "asgd.yaml") == 0) {
			add(&s, "\0cluster.workers=3\0update.rule=adam", 36);
			save(&s, "job", "asgd-set");
		}
	}
	closedir(d);
}

/* A few values through every codec, with every value of its choices. */
static void codecs(void)
{
	enum { N = 100 };
	const struct tw_rng rng = tw_rng_make(1, TW_RNG_TEST);
	const struct tw_encoding of = { .rng = &rng };
	float x[N];

	for (size_t i = 0; i < N; i++)
		x[i] = i % 17 ? 1e-5f : 0.01f * (i % 2 ? 1.0f : -1.0f);
	for (size_t k = 0; tw_codec_all[k]; k++)
		for (uint32_t choice = 0; choice < 2; choice++) {
			const struct tw_codec *c = tw_codec_all[k];
			struct seed s = { .n = 0 };
			char options[64] = { 0 }, state[N * 12] = { 0 };
			struct tw_arena keep;
			struct tw_error why;
			size_t len;

			tw_arena_init(&keep, &tw_heap_system);
			MUST(c->options_bytes <= sizeof options);
			if (c->options)
				MUST(tw_option_defaults(c->options, options, &keep, &why) == TW_OK);
			for (const struct tw_option *o = c->options; o && o->name; o++)
				if (o->type == TW_CHOICE)
					memcpy(options + o->offset, &choice, sizeof choice);
			MUST(!c->state_bytes || c->state_bytes(options, N) <= sizeof state);
			add_byte(&s, (uint8_t)k);
			add_byte(&s, (uint8_t)choice);
			add_byte(&s, N);
			add_byte(&s, 0);
			len = sizeof s.bytes - s.n;
			MUST(c->encode(options, state, &of, x, N, s.bytes + s.n, &len) == TW_OK);
			s.n += len;
			save(&s, "codec", "%s-%u", c->name, choice);
			tw_arena_release(&keep);
		}
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: make_seeds CORPUS EXAMPLES\n");
		return 2;
	}
	corpus = argv[1];
	frames();
	idx();
	tokens();
	npy();
	csv();
	pictures();
	tars();
	json_lines();
	sample_lines();
	rows();
	safetensors();
	checkpoint();
	card();
	sets();
	codecs();
	jobs(argv[2]);
	return 0;
}
