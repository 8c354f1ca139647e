/* SPDX-License-Identifier: Apache-2.0 */
/* test_store.c - cuts on disk: what was saved is loaded bit for bit, and what is damaged is refused
 * by name in favour of the cut before it, whichever byte of whichever file it is. */
#include "checkpoint/digest.h"
#include "checkpoint/files.h"
#include "checkpoint/part_format.h"
#include "checkpoint/checkpoint_directory.h"
#include "node/checkpoint_part.h"
#include "kit/scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char said[4096]; /* what the store's log said since it was cleared */

static void listen(void *arg, enum tw_level level, const char *who, const char *line)
{
	const size_t n = strlen(said);

	snprintf(said + n, sizeof said - n, "%s\n", line);
}

static const struct tw_log log_ = { .sink = listen, .level = TW_DEBUG };
static const struct tw_store_facts facts = {
	.job_hash = { { 0x12, 0x34, 0x56, 0x78, [31] = 0x9a } },
	.job_text = "model: {quadratic: {dimension: 3}}\n",
	.isa = "plain",
	.threads = 1,
	.keep = 2,
};

static int make_dir(void **state)
{
	said[0] = 0;
	return scratch_make(state);
}

static int remove_dir(void **state)
{
	struct tw_error why = { 0 };

	tw_dir_store_clear(scratch(), NULL, NULL, &why);
	return rmdir(scratch()); /* nothing is left in it */
}

static struct tw_store *open_store(void)
{
	struct tw_store *s = NULL;
	struct tw_error why = { 0 };

	assert_int_equal(tw_dir_store_open(&tw_heap_system, scratch(), &facts, &log_, &s, &why),
			 TW_OK);
	return s;
}

/* Three parts whose content depends on the cut: two that actors packed, one of no known form. */
static void make_parts(uint64_t cut, struct tw_part parts[3])
{
	float w[5], v[2];
	uint8_t marks[3] = { 1, 2, (uint8_t)cut };
	struct tw_array shard[] = {
		{ .name = "parameters", .from = 10, .n = 5, .kind = TW_FLOATS, .at = w },
		{ .name = "momentum", .from = 10, .n = 5, .kind = TW_FLOATS, .at = w },
		{ .name = "marks", .n = 3, .kind = TW_BYTES, .at = marks },
		{ .name = "empty", .n = 0, .kind = TW_BYTES, .at = NULL },
	};
	struct tw_array worker[] = {
		{ .name = "residual", .from = 0, .n = 2, .kind = TW_FLOATS, .at = v },
	};

	for (size_t i = 0; i < 5; i++)
		w[i] = (float)cut + (float)i / 3.0f;
	v[0] = -0.0f;
	v[1] = 1e-42f; /* not a normal number, kept all the same */
	memset(parts, 0, 3 * sizeof *parts);
	strcpy(parts[0].name, "shard 0");
	parts[0].bytes = tw_part_pack(&tw_heap_system, shard, 4);
	strcpy(parts[1].name, "worker 3");
	parts[1].bytes = tw_part_pack(&tw_heap_system, worker, 1);
	strcpy(parts[2].name, "master");
	parts[2].bytes = tw_block_new(&tw_heap_system, 7);
	assert_non_null(parts[0].bytes);
	assert_non_null(parts[1].bytes);
	assert_non_null(parts[2].bytes);
	snprintf((char *)parts[2].bytes->data, 7, "cut%3d", (int)cut);
}

static void drop_parts(struct tw_part parts[3])
{
	for (size_t i = 0; i < 3; i++)
		tw_block_drop(parts[i].bytes);
}

static enum tw_status save(struct tw_store *s, uint64_t cut)
{
	struct tw_part parts[3];
	enum tw_status status;

	make_parts(cut, parts);
	status = s->save(s, cut, parts, 3);
	drop_parts(parts);
	return status;
}

/* The cut that is loaded, after its parts were compared with what was saved. */
static uint64_t load(struct tw_store *s)
{
	struct tw_part want[3], *got = NULL;
	size_t count = 0;
	uint64_t cut = 99;

	assert_int_equal(s->load(s, &cut, &got, &count), TW_OK);
	if (!cut) {
		assert_int_equal(count, 0);
		return 0;
	}
	assert_int_equal(count, 3);
	make_parts(cut, want);
	for (size_t i = 0; i < 3; i++) {
		assert_string_equal(got[i].name, want[i].name);
		assert_int_equal(got[i].bytes->bytes, want[i].bytes->bytes);
		assert_memory_equal(got[i].bytes->data, want[i].bytes->data, want[i].bytes->bytes);
	}
	drop_parts(want);
	s->loaded_free(s, got, count);
	return cut;
}

static void an_empty_directory_has_no_cut(void **state)
{
	struct tw_store *s = open_store();

	assert_int_equal(load(s), 0);
	tw_dir_store_close(s);
}

static void the_newest_cut_comes_back(void **state)
{
	struct tw_store *s = open_store();

	for (uint64_t cut = 1; cut <= 12; cut++) {
		assert_int_equal(save(s, cut), TW_OK);
		assert_int_equal(load(s), cut);
	}
	tw_dir_store_close(s);
	s = open_store();
	assert_int_equal(load(s), 12);
	tw_dir_store_close(s);
	assert_string_equal(said, "");
}

static void only_so_many_are_kept(void **state)
{
	struct tw_store *s = open_store();

	for (uint64_t cut = 1; cut <= 5; cut++)
		assert_int_equal(save(s, cut), TW_OK);
	assert_false(exists("ckpt-3"));
	assert_true(exists("ckpt-4") && exists("ckpt-5"));
	tw_dir_store_close(s);
}

/* Any safetensors reader must understand the file: length, header, contiguous data. */
static void parts_are_safetensors(void **state)
{
	struct tw_store *s = open_store();
	struct tw_block *file = NULL;
	json_int_t from, to, n;
	const char *dtype;
	json_t *header;
	uint64_t length;
	char path[200];
	float w;

	assert_int_equal(save(s, 1), TW_OK);
	tw_dir_store_close(s);
	snprintf(path, sizeof path, "%s/ckpt-1/parameters-10-15.safetensors", scratch());
	assert_int_equal(tw_file_read(AT_FDCWD, path, 1 << 20, &tw_heap_system, &file), TW_OK);
	memcpy(&length, file->data, 8);
	header = json_loadb((char *)file->data + 8, length, 0, NULL);
	assert_non_null(header);
	assert_int_equal(json_object_size(header), 4);
	assert_int_equal(json_unpack(json_object_get(header, "momentum[10:15]"),
				     "{s:s, s:[I], s:[I, I]}", "dtype", &dtype, "shape", &n,
				     "data_offsets", &from, &to),
			 0);
	assert_string_equal(dtype, "F32");
	assert_true(n == 5 && from == 20 && to == 40);
	memcpy(&w, file->data + 8 + length + 20 + 4, sizeof w);
	assert_true(w == 1.0f + 1.0f / 3.0f);
	json_decref(header);
	tw_block_drop(file);
	assert_true(exists("ckpt-1/master.part"));
}

/* --- damage --- */

static size_t list_files(char names[][80], size_t room)
{
	char path[200];
	size_t n = 0;
	const struct dirent *e;
	DIR *d;

	snprintf(path, sizeof path, "%s/ckpt-2", scratch());
	d = opendir(path);
	assert_non_null(d);
	while ((e = readdir(d)) && n < room)
		if (e->d_name[0] != '.')
			snprintf(names[n++], 80, "%.79s", e->d_name);
	closedir(d);
	return n;
}

static void write_back(const char *path, const struct tw_block *b, size_t len)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(b->data, 1, len, f), len);
	fclose(f);
}

/* Said once by each process, however often it loads. */
static void expect_refusal(const char *file)
{
	struct tw_store *s = open_store();

	said[0] = 0;
	assert_int_equal(load(s), 1);
	assert_int_equal(load(s), 1);
	tw_dir_store_close(s);
	assert_null(strstr(strstr(said, "is refused") + 1, "is refused"));
	assert_non_null(strstr(said, "ckpt-2 is refused"));
	if (strcmp(file, "DONE") != 0)
		assert_non_null(strstr(said, file));
}

static void every_flipped_byte_is_noticed(void **state)
{
	struct tw_store *s = open_store();
	char names[16][80];
	size_t files;

	assert_int_equal(save(s, 1), TW_OK);
	assert_int_equal(save(s, 2), TW_OK);
	files = list_files(names, 16);
	assert_int_equal(files, 5);
	for (size_t k = 0; k < files; k++) {
		struct tw_block *b = NULL;
		char path[300];

		snprintf(path, sizeof path, "%s/ckpt-2/%.79s", scratch(), names[k]);
		assert_int_equal(tw_file_read(AT_FDCWD, path, 1 << 20, &tw_heap_system, &b), TW_OK);
		for (size_t i = 0; i < b->bytes; i++) {
			b->data[i] ^= (uint8_t)(1u << (i % 8));
			write_back(path, b, b->bytes);
			expect_refusal(names[k]);
			b->data[i] ^= (uint8_t)(1u << (i % 8));
		}
		write_back(path, b, b->bytes);
		assert_int_equal(load(s), 2);
		tw_block_drop(b);
	}
	tw_dir_store_close(s);
}

static void every_truncation_is_noticed(void **state)
{
	struct tw_store *s = open_store();
	char names[16][80];
	size_t files;

	assert_int_equal(save(s, 1), TW_OK);
	assert_int_equal(save(s, 2), TW_OK);
	files = list_files(names, 16);
	for (size_t k = 0; k < files; k++) {
		struct tw_block *b = NULL;
		char path[300];

		snprintf(path, sizeof path, "%s/ckpt-2/%.79s", scratch(), names[k]);
		assert_int_equal(tw_file_read(AT_FDCWD, path, 1 << 20, &tw_heap_system, &b), TW_OK);
		for (size_t len = 0; len < b->bytes; len++) {
			write_back(path, b, len);
			expect_refusal(names[k]);
		}
		unlink(path);
		expect_refusal(names[k]);
		write_back(path, b, b->bytes + 1); /* there is a zero byte behind the end */
		expect_refusal(names[k]);
		write_back(path, b, b->bytes);
		tw_block_drop(b);
	}
	assert_int_equal(load(s), 2);
	tw_dir_store_close(s);
}

static void a_refused_cut_is_not_taken_for_the_future(void **state)
{
	struct tw_store *s = open_store();
	char path[200];

	for (uint64_t cut = 1; cut <= 2; cut++)
		assert_int_equal(save(s, cut), TW_OK);
	snprintf(path, sizeof path, "%s/ckpt-2/DONE", scratch());
	unlink(path);
	assert_int_equal(load(s), 1);
	assert_int_equal(save(s, 2), TW_OK); /* the run went on from 1 and made 2 anew */
	assert_int_equal(load(s), 2);
	assert_int_equal(save(s, 1), TW_OK); /* rolled back: what is after it is put away */
	assert_int_equal(load(s), 1);
	assert_true(exists("ckpt-2.refused"));
	assert_int_equal(save(s, 3), TW_OK); /* a newer one is complete: nobody needs it */
	assert_false(exists("ckpt-2.refused"));
	tw_dir_store_close(s);
}

/* What a process counts goes on from what the cut it resumed says. */
static void counts_add_up(void **state)
{
	const struct tw_ran ran = { .bytes_sent = 5, .bytes_received = 4, .events = 3 };
	struct tw_store *s;

	for (uint64_t k = 0; k < 3; k++) {
		s = open_store();
		assert_int_equal(load(s), k);
		assert_int_equal(tw_dir_store_counts(s).bytes_sent, 5 * k);
		assert_int_equal(tw_dir_store_counts(s).bytes_received, 4 * k);
		assert_int_equal(tw_dir_store_counts(s).events, 3 * k);
		tw_dir_store_began(s, 1);
		tw_dir_store_counted(s, &ran);
		assert_int_equal(save(s, k + 1), TW_OK);
		tw_dir_store_close(s);
	}
}

/* The manifest says how far the run was and which parameters are in which file. */
static void the_manifest_says_how_far(void **state)
{
	const struct tw_master_part m = { .round = 7, .generation = 2, .samples = 99, .shards = 1 };
	const struct tw_array master = {
		.name = "master", .n = sizeof m, .kind = TW_BYTES, .at = &m
	};
	struct tw_store *s = open_store();
	struct tw_part parts[3];
	json_t *manifest, *row;
	char path[200];

	make_parts(1, parts);
	tw_block_drop(parts[2].bytes);
	parts[2].bytes = tw_part_pack(&tw_heap_system, &master, 1);
	assert_int_equal(s->save(s, 1, parts, 3), TW_OK);
	drop_parts(parts);
	tw_dir_store_close(s);
	snprintf(path, sizeof path, "%s/ckpt-1/manifest.json", scratch());
	manifest = json_load_file(path, 0, NULL);
	assert_int_equal(json_integer_value(json_object_get(manifest, "round")), 7);
	assert_int_equal(json_integer_value(json_object_get(manifest, "generation")), 2);
	assert_int_equal(json_integer_value(json_object_get(manifest, "applied_samples")), 99);
	row = json_array_get(json_object_get(manifest, "parts"), 0);
	assert_string_equal(json_string_value(json_object_get(row, "name")), "shard 0");
	assert_int_equal(json_integer_value(json_object_get(row, "from")), 10);
	assert_int_equal(json_integer_value(json_object_get(row, "to")), 15);
	json_decref(manifest);
}

/* The bytes of a file of cut 1, for free(). */
static char *cut_file(const char *name, size_t *bytes)
{
	struct tw_block *b = NULL;
	char path[200], *out;

	snprintf(path, sizeof path, "%s/ckpt-1/%s", scratch(), name);
	assert_int_equal(tw_file_read(AT_FDCWD, path, 1u << 20, &tw_heap_system, &b), TW_OK);
	*bytes = b->bytes;
	out = memcpy(malloc(b->bytes + 1), b->data, b->bytes);
	tw_block_drop(b);
	return out;
}

static void parts_that_were_put_make_the_same_cut(void **state)
{
	static const char *const files[] = { "parameters-10-15.safetensors", "worker-3.safetensors",
					     "master.part" };
	struct tw_store *s = open_store();
	struct tw_part parts[3], other[3];
	char *want[3];
	size_t n[3], m;

	assert_int_equal(save(s, 1), TW_OK);
	for (size_t k = 0; k < 3; k++)
		want[k] = cut_file(files[k], &n[k]);
	make_parts(1, parts);
	make_parts(2, other);
	/* one that is never completed is forgotten; what was put again counts once */
	assert_int_equal(s->put(s, 7, &other[0]), TW_OK);
	assert_int_equal(s->put(s, 1, &other[0]), TW_OK);
	assert_int_equal(s->put(s, 1, &parts[1]), TW_OK);
	assert_int_equal(s->put(s, 1, &parts[0]), TW_OK);
	for (size_t k = 0; k < 2; k++) {
		tw_block_drop(parts[k].bytes);
		parts[k].bytes = NULL;
	}
	assert_int_equal(s->save(s, 1, parts, 3), TW_OK);
	for (size_t k = 0; k < 3; k++) {
		char *got = cut_file(files[k], &m);

		assert_int_equal(m, n[k]);
		assert_memory_equal(got, want[k], m);
		free(got);
		free(want[k]);
	}
	assert_int_equal(load(s), 1);
	/* a part that nobody put */
	assert_int_equal(s->save(s, 2, parts, 3), TW_BAD_INPUT);
	assert_int_equal(load(s), 1);
	tw_dir_store_close(s);
	drop_parts(parts);
	drop_parts(other);
}

static void look_at(struct tw_store *s, uint64_t from, uint64_t to, bool whole)
{
	struct tw_part *got = NULL, want[3];
	struct tw_array *arrays = NULL;
	size_t count = 0, n = 0;
	uint64_t cut = 0;

	assert_int_equal(s->look(s, from, to, &cut, &got, &count), TW_OK);
	assert_int_equal(cut, 1);
	assert_int_equal(count, 3);
	make_parts(1, want);
	for (size_t k = 1; k < 3; k++) {
		assert_int_equal(got[k].bytes->bytes, want[k].bytes->bytes);
		assert_memory_equal(got[k].bytes->data, want[k].bytes->data, want[k].bytes->bytes);
	}
	assert_int_equal(tw_part_unpack(got[0].bytes->data, got[0].bytes->bytes, &tw_heap_system,
					&arrays, &n),
			 whole ? TW_OK : TW_BAD_BYTES);
	free(arrays);
	assert_int_equal(tw_part_unpack_head(got[0].bytes->data, got[0].bytes->bytes,
					     &tw_heap_system, &arrays, &n),
			 TW_OK);
	assert_int_equal(n, 4);
	assert_string_equal(arrays[0].name, "parameters");
	assert_int_equal(arrays[0].from, 10);
	assert_int_equal(arrays[0].n, 5);
	assert_int_equal(arrays[0].at != NULL, whole);
	assert_memory_equal(arrays[2].at, "\1\2\1", 3);
	free(arrays);
	drop_parts(want);
	s->loaded_free(s, got, count);
}

static void heads_come_without_floats(void **state)
{
	struct tw_store *s = open_store();

	assert_int_equal(save(s, 1), TW_OK);
	look_at(s, 0, 0, false);
	look_at(s, 0, 10, false);
	look_at(s, 15, 99, false);
	look_at(s, 14, 15, true);
	look_at(s, 0, 11, true);
	tw_dir_store_close(s);
}

/* A float that changed is noticed although it is not read, once; and by whoever reads it. */
static void heads_vouch_for_the_floats(void **state)
{
	struct tw_part *got = NULL;
	struct tw_store *s;
	size_t count = 0;
	uint64_t cut = 0;
	char path[200];
	FILE *f;

	s = open_store();
	assert_int_equal(save(s, 1), TW_OK);
	tw_dir_store_close(s);
	snprintf(path, sizeof path, "%s/ckpt-1/parameters-10-15.safetensors", scratch());
	f = fopen(path, "r+");
	fseek(f, -9, SEEK_END);
	fputc('x', f);
	fclose(f);
	s = open_store();
	assert_int_equal(s->look(s, 0, 0, &cut, &got, &count), TW_OK);
	assert_int_equal(cut, 0);
	assert_non_null(strstr(said, "parameters-10-15.safetensors does not match its hash"));
	s->loaded_free(s, got, count);
	tw_dir_store_close(s);
}

static void another_job_is_refused(void **state)
{
	struct tw_store_facts other = facts;
	struct tw_error why = { 0 };
	struct tw_store *s = open_store();

	assert_int_equal(save(s, 1), TW_OK);
	tw_dir_store_close(s);
	other.job_hash.b[31]++;
	assert_int_equal(tw_dir_store_open(&tw_heap_system, scratch(), &other, &log_, &s, &why),
			 TW_OK);
	assert_int_equal(load(s), 0);
	assert_non_null(strstr(said, "another job"));
	tw_dir_store_close(s);
}

static void what_a_crash_left_is_removed(void **state)
{
	char path[200];
	struct tw_store *s = open_store();

	assert_int_equal(save(s, 1), TW_OK);
	tw_dir_store_close(s);
	snprintf(path, sizeof path, "%s/ckpt-2.new", scratch());
	assert_int_equal(mkdir(path, 0777), 0);
	strcat(path, "/DONE");
	close(open(path, O_CREAT | O_WRONLY, 0666));
	s = open_store();
	assert_int_equal(load(s), 1);
	assert_false(exists("ckpt-2.new"));
	tw_dir_store_close(s);
}

/* The disk is full after 0, 1, 2, ... bytes of a file: the save fails with a sentence, leaves
 * nothing behind, and the cut before it is as it was; until the disk is large enough. */
static void a_full_disk_leaves_the_cut_before(void **state)
{
	struct rlimit before, full;
	struct tw_store *s = open_store();
	bool saved = false;
	size_t failures = 0;

	assert_int_equal(save(s, 1), TW_OK);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	for (rlim_t room = 0; !saved; room++) {
		full = before;
		full.rlim_cur = room;
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
		saved = save(s, 2) == TW_OK;
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
		if (saved)
			break;
		failures++;
		assert_int_equal(tw_dir_store_error(s)->status, TW_IO);
		assert_non_null(
			strstr(tw_dir_store_error(s)->text, "what was saved before it is intact"));
		assert_false(exists("ckpt-2") || exists("ckpt-2.new"));
		assert_int_equal(load(s), 1);
		said[0] = 0;
	}
	assert_true(failures > 100);
	assert_int_equal(load(s), 2);
	assert_int_equal(tw_dir_store_error(s)->status, TW_OK);
	tw_dir_store_close(s);
}

static void a_missing_directory_is_said(void **state)
{
	struct tw_store *s = NULL;
	struct tw_error why = { 0 };

	assert_int_equal(
		tw_dir_store_open(&tw_heap_system, "/nowhere/at/all", &facts, &log_, &s, &why),
		TW_IO);
	assert_non_null(strstr(why.text, "/nowhere/at/all"));
}

/* The file that the pieces of an image make. */
static struct tw_block *file_of(const struct tw_part_image *image)
{
	struct tw_block *b = tw_block_new(&tw_heap_system, image->bytes);
	uint8_t *at = b->data;

	for (size_t k = 0; k < image->pieces; k++) {
		memcpy(at, image->piece[k].iov_base, image->piece[k].iov_len);
		at += image->piece[k].iov_len;
	}
	return b;
}

/* Hostile bytes in a safetensors image: refused or decoded, never read past their end (the
 * sanitizers watch). */
static void hostile_images_do_no_harm(void **state)
{
	struct tw_part parts[3];
	struct tw_part_image image;
	struct tw_block *file;

	make_parts(1, parts);
	assert_int_equal(tw_part_encode(&tw_heap_system, &parts[0], &image), TW_OK);
	assert_int_equal(image.encoding, TW_PART_SAFETENSORS);
	file = file_of(&image);
	tw_part_image_release(&image);
	for (size_t i = 0; i < file->bytes; i++)
		for (int bit = 0; bit < 8; bit++) {
			struct tw_block *out = NULL;

			file->data[i] ^= (uint8_t)(1u << bit);
			if (tw_part_decode(&tw_heap_system, TW_PART_SAFETENSORS, file, &out) ==
			    TW_OK)
				tw_block_drop(out);
			file->data[i] ^= (uint8_t)(1u << bit);
		}
	for (size_t all = file->bytes; file->bytes > 0;) {
		struct tw_block *out = NULL;

		file->bytes--;
		assert_int_equal(tw_part_decode(&tw_heap_system, TW_PART_SAFETENSORS, file, &out),
				 TW_BAD_BYTES);
		assert_true(file->bytes < all);
	}
	tw_block_drop(file);
	drop_parts(parts);
}

static void digests_do_not_know_shards(void **state)
{
	struct tw_block *one, *two[2];
	char a[TW_DIGEST_TEXT], b[TW_DIGEST_TEXT], whole[TW_DIGEST_TEXT];
	const size_t single[] = { 0, 10 }, cut[] = { 0, 3, 10 };
	float w[10];

	for (size_t i = 0; i < 10; i++)
		w[i] = (float)i * 0.7f;
	one = tw_block_new(&tw_heap_system, sizeof w);
	two[0] = tw_block_new(&tw_heap_system, 3 * sizeof *w);
	two[1] = tw_block_new(&tw_heap_system, 7 * sizeof *w);
	memcpy(one->data, w, sizeof w);
	memcpy(two[0]->data, w, 3 * sizeof *w);
	memcpy(two[1]->data, w + 3, 7 * sizeof *w);
	for (size_t to = 0; to <= 10; to++) {
		assert_int_equal(tw_digest_floats(&one, single, 1, 0, to, NULL, a), TW_OK);
		assert_int_equal(tw_digest_floats(two, cut, 2, 0, to, NULL, b), TW_OK);
		tw_digest_bytes(w, to * sizeof *w, whole);
		assert_string_equal(a, b);
		assert_string_equal(a, whole);
	}
	two[1]->bytes = 4;
	assert_int_equal(tw_digest_floats(two, cut, 2, 0, 10, NULL, b), TW_BAD_BYTES);
	tw_block_drop(one);
	tw_block_drop(two[0]);
	tw_block_drop(two[1]);
}

int main(void)
{
#define IN_A_DIRECTORY(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)
	const struct CMUnitTest tests[] = {
		IN_A_DIRECTORY(an_empty_directory_has_no_cut),
		IN_A_DIRECTORY(the_newest_cut_comes_back),
		IN_A_DIRECTORY(only_so_many_are_kept),
		IN_A_DIRECTORY(parts_are_safetensors),
		IN_A_DIRECTORY(every_flipped_byte_is_noticed),
		IN_A_DIRECTORY(every_truncation_is_noticed),
		IN_A_DIRECTORY(a_refused_cut_is_not_taken_for_the_future),
		IN_A_DIRECTORY(counts_add_up),
		IN_A_DIRECTORY(the_manifest_says_how_far),
		IN_A_DIRECTORY(parts_that_were_put_make_the_same_cut),
		IN_A_DIRECTORY(heads_come_without_floats),
		IN_A_DIRECTORY(heads_vouch_for_the_floats),
		IN_A_DIRECTORY(another_job_is_refused),
		IN_A_DIRECTORY(what_a_crash_left_is_removed),
		IN_A_DIRECTORY(a_full_disk_leaves_the_cut_before),
		IN_A_DIRECTORY(a_missing_directory_is_said),
		cmocka_unit_test(hostile_images_do_no_harm),
		cmocka_unit_test(digests_do_not_know_shards),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
