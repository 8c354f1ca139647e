/* SPDX-License-Identifier: Apache-2.0 */
/* target_checkpoint.c - checkpoints on disk: a manifest and its parts, as a run resumes them and as
 * `eval`, `export` and `inspect` open them.
 *
 * Input: choices, the request for memory that is refused, then pieces of 2 bytes length each: the
 * manifest, then names and contents of files by turns.  With choice 1 hashes and lengths in the
 * manifest are put right, with choice 2 DONE, so that what lies behind them is met. */
#include "fuzz.h"
#include "checkpoint/model_card.h"
#include "checkpoint/checkpoint_read.h"
#include "checkpoint/digest.h"
#include "checkpoint/files.h"
#include "checkpoint/part_format.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/checkpoint_directory.h"
#include "node/checkpoint_part.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHOICE_PARTS = 1, CHOICE_DONE = 2, CHOICE_RAW = 4 };

static char dir[4096]; /* has ckpt-1 */

static bool any_name(const char *name, unsigned depth)
{
	(void)name;
	return depth == 0;
}

static void remove_dir(void)
{
	const int at = tw_folder_at(AT_FDCWD, dir);
	char odd[TW_ODD];

	tw_folder_remove(at, "ckpt-1", any_name, odd);
	close(at);
	rmdir(dir);
}

static void make_dir(void)
{
	const char *under = getenv("TMPDIR");

	snprintf(dir, sizeof dir, "%s/thalweg-fuzz-XXXXXX", under ? under : "/dev/shm");
	MUST(mkdtemp(dir) && atexit(remove_dir) == 0);
}

static void put_file(int at, const char *name, const void *bytes, size_t n)
{
	const int fd = openat(at, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0)
		return; /* a name that no file can have */
	MUST(write(fd, bytes, n) == (ssize_t)n);
	close(fd);
}

static void put_parts(int at, struct tw_fuzz_input in)
{
	while (in.left) {
		const struct tw_fuzz_input name = tw_fuzz_piece(&in), bytes = tw_fuzz_piece(&in);
		char text[100];

		snprintf(text, sizeof text, "%.*s", (int)name.left, (const char *)name.at);
		if (text[0] && !strchr(text, '/'))
			put_file(at, text, bytes.at, bytes.left);
	}
}

/* Hash and length of every part that has a file; the manifest as text for free(). */
static char *vouch(int at, const struct tw_fuzz_input *manifest)
{
	json_t *m = json_loadb((const char *)manifest->at, manifest->left, 0, NULL), *row;
	char *text = NULL;
	size_t k;

	json_array_foreach(json_object_get(m, "parts"), k, row)
	{
		const char *file = json_string_value(json_object_get(row, "file"));
		struct tw_block *b = NULL;
		char hash[TW_DIGEST_TEXT];

		if (!file || strchr(file, '/') ||
		    tw_file_read(at, file, 1 << 20, &tw_heap_system, &b) != TW_OK)
			continue;
		tw_digest_bytes(b->data, b->bytes, hash);
		json_object_set_new(row, "bytes", json_integer((json_int_t)b->bytes));
		json_object_set_new(row, "xxh3_128", json_string(hash));
		tw_block_drop(b);
	}
	if (m)
		text = json_dumps(m, JSON_COMPACT);
	json_decref(m);
	return text;
}

static void put_manifest(int at, struct tw_fuzz_input manifest, uint8_t choice)
{
	char *text = choice & CHOICE_PARTS ? vouch(at, &manifest) : NULL;
	char hash[TW_DIGEST_TEXT];

	if (text)
		manifest = (struct tw_fuzz_input){ (const uint8_t *)text, strlen(text) };
	put_file(at, "manifest.json", manifest.at, manifest.left);
	if (choice & CHOICE_DONE) {
		tw_digest_bytes(manifest.at, manifest.left, hash);
		hash[TW_DIGEST_TEXT - 1] = '\n';
		put_file(at, "DONE", hash, TW_DIGEST_TEXT);
	}
	free(text);
}

/* A head, or a whole part, as whoever resumes a large cut reads it. */
static void look_into_head(struct tw_heap *heap, const struct tw_part *part)
{
	const uint8_t *bytes = part->bytes->data;
	struct tw_array *arrays = NULL;
	size_t count = 0;

	if (tw_part_unpack_head(bytes, part->bytes->bytes, heap, &arrays, &count) != TW_OK)
		return;
	for (size_t i = 0; i < count; i++) {
		const size_t each = arrays[i].kind == TW_FLOATS ? sizeof(float) : 1;
		const uint8_t *at = arrays[i].at;

		MUST(at || arrays[i].kind == TW_FLOATS);
		MUST(!at || (at >= bytes && at + arrays[i].n * each <= bytes + part->bytes->bytes));
	}
	heap->put(heap, arrays);
}

/* What whoever resumes does with the parts. */
static void look_into(struct tw_heap *heap, const struct tw_part *part, size_t parts)
{
	struct tw_master_part master;

	for (size_t k = 0; k < parts; k++) {
		struct tw_array *arrays = NULL;
		struct tw_part_image image;
		size_t count = 0;

		if (tw_part_unpack(part[k].bytes->data, part[k].bytes->bytes, heap, &arrays,
				   &count) == TW_OK) {
			for (size_t i = 0; i < count; i++) {
				const size_t each = arrays[i].kind == TW_FLOATS ? sizeof(float) : 1;
				const uint8_t *at = arrays[i].at;

				MUST(memchr(arrays[i].name, 0, sizeof arrays[i].name));
				MUST(at >= part[k].bytes->data &&
				     at + arrays[i].n * each <=
					     part[k].bytes->data + part[k].bytes->bytes);
			}
			heap->put(heap, arrays);
		}
		if (tw_part_encode(heap, &part[k], &image) == TW_OK)
			tw_part_image_release(&image);
	}
	if (tw_master_part_read(part, parts, &master) == TW_OK)
		tw_master_release_time(part, parts);
}

static void resume(struct tw_heap *heap, uint8_t job)
{
	const struct tw_store_facts facts = { .job_hash = { .b[31] = job },
					      .job_text = "",
					      .job_file = "",
					      .isa = "plain",
					      .threads = 1,
					      .keep = 1 };
	const struct tw_log log = { .sink = tw_fuzz_tells() ? tw_log_stderr : NULL,
				    .level = TW_WARNING };
	struct tw_store *store = NULL;
	struct tw_error why = { 0 };
	struct tw_part *part = NULL;
	size_t parts = 0;
	uint64_t cut = 0;

	if (tw_dir_store_open(heap, dir, &facts, &log, &store, &why) != TW_OK)
		return;
	if (store->load(store, &cut, &part, &parts) == TW_OK && cut) {
		look_into(heap, part, parts);
		store->loaded_free(store, part, parts);
	}
	if (store->look(store, 0, 0, &cut, &part, &parts) == TW_OK && cut) {
		for (size_t k = 0; k < parts; k++)
			look_into_head(heap, &part[k]);
		store->loaded_free(store, part, parts);
	}
	tw_dir_store_close(store);
}

static void open_snapshot(void)
{
	const struct tw_log silence = { .sink = NULL };
	struct tw_snapshot *s = NULL;
	struct tw_error why = { 0 };
	enum tw_status st = tw_snapshot_open(dir, &silence, &s, &why);

	if (st == TW_OK) {
		struct tw_card *card = NULL;
		float *v = malloc((s->count + 1) * sizeof *v);

		MUST(s->files && s->count && v);
		MUST(tw_snapshot_floats(s, 0, s->count, v, &why) == TW_OK);
		free(v);
		tw_snapshot_epochs(s);
		st = tw_snapshot_card(s, &card, &why);
		if (st != TW_OK && st != TW_ABSENT)
			tw_fuzz_told(st, &why, false);
		tw_card_free(card);
		tw_snapshot_close(s);
	} else {
		tw_fuzz_told(st, &why, false);
	}
}

/* The bytes as one part, as it comes over a wire, and as a file. */
static void raw_part(struct tw_heap *heap, const struct tw_fuzz_input *in)
{
	struct tw_part part = { .name = "shard 0", .bytes = tw_block_new(heap, in->left) };

	if (!part.bytes)
		return;
	if (in->left)
		memcpy(part.bytes->data, in->at, in->left);
	look_into(heap, &part, 1);
	look_into_head(heap, &part);
	strcpy(part.name, "master");
	look_into(heap, &part, 1);
	tw_block_drop(part.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct tw_fuzz_input in = { bytes, n }, manifest;
	const uint8_t choice = tw_fuzz_byte(&in);
	struct tw_fuzz_heap heap;
	char odd[TW_ODD];
	int at, cut;

	tw_fuzz_heap_init(&heap, tw_fuzz_byte(&in), ((size_t)4 << 20) + n * 256);
	if (choice & CHOICE_RAW) {
		raw_part(&heap.heap, &in);
		MUST(heap.live == 0);
		return 0;
	}
	if (!dir[0])
		make_dir();
	at = tw_folder_at(AT_FDCWD, dir);
	MUST(tw_folder_remove(at, "ckpt-1", any_name, odd) == TW_OK &&
	     mkdirat(at, "ckpt-1", 0700) == 0);
	cut = tw_folder_at(at, "ckpt-1");
	manifest = tw_fuzz_piece(&in);
	put_parts(cut, in);
	put_manifest(cut, manifest, choice);
	close(cut);
	close(at);
	resume(&heap.heap, 1);
	MUST(heap.live == 0);
	open_snapshot();
	return 0;
}
