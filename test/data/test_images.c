/* SPDX-License-Identifier: Apache-2.0 */
/* test_images.c - folders of images and tar files of samples: what becomes of them, and every way
 * in which they can be wrong. */
#include "data/kit.h"
#include "base/refusing.h"
#include "kit/pictures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint8_t bytes[KIT_PICTURE_MOST], tar[KIT_PICTURE_MOST];
static size_t end;

static int setup(void **state)
{
	if (scratch_make(state) != 0)
		return -1;
	kit_put_pictures();
	return 0;
}

static void put_png(const char *name, uint32_t width, uint32_t height, unsigned channels,
		    uint8_t value)
{
	put(name, bytes, kit_plain_png(bytes, width, height, channels, value));
}

static void folder(const char *name)
{
	assert_int_equal(mkdir(path_of(name), 0700), 0);
}

/* A set of two classes in a folder of its own. */
static void put_set(const char *name)
{
	char path[100];

	folder(name);
	for (int k = 0; k < 2; k++) {
		snprintf(path, sizeof path, "%s/%s", name, k ? "b" : "a");
		folder(path);
		for (int i = 0; i < 3; i++) {
			snprintf(path, sizeof path, "%s/%s/%d.png", name, k ? "b" : "a", i);
			put_png(path, 3, 2, 1, (uint8_t)(10 * k + i));
		}
	}
}

/* More pictures than are decoded at a time, some of them broken: by several threads they are the
 * samples that one thread makes of them, in the same order, with the same warnings. */
static void threads_change_nothing(void **state)
{
	const char *const sets[] = { "path=many", "test=0", "unreadable=skip", "size=5x5", NULL };
	struct refusing r = REFUSING(0); /* a heap for one thread */
	struct tw_data *one = NULL, *several;
	struct tw_warnings said;
	struct tw_error why = { 0 };
	char path[100];

	folder("many");
	for (int k = 0; k < 2; k++) {
		snprintf(path, sizeof path, "many/%d", k);
		folder(path);
		for (int i = 0; i < 150; i++) {
			snprintf(path, sizeof path, "many/%d/%03d.png", k, i);
			if (i % 50 == 7)
				put(path, "\x89PNG\r\n\x1a\n and no more", 20);
			else
				put_png(path, 5 + (uint32_t)i % 7, 5 + (uint32_t)i % 3, 3,
					(uint8_t)(i + 100 * k));
		}
	}
	several = kit_must_open("images", sets);
	said = *kit_warned();
	assert_int_equal(several->train.count, 2 * 147);
	for (uint64_t i = 0; i < 2 * 147; i++) {
		const uint64_t n = i % 147, file = n + (n >= 7) + (n >= 56) + (n >= 105);

		assert_int_equal(several->train.label[i], i / 147);
		assert_int_equal(((const uint8_t *)several->train.value)[i * 75],
				 file + 100 * (i / 147));
	}
	if (kit_open(&r.heap, "images", sets, &one, &why) != TW_OK)
		fail_msg("%s", why.text);
	assert_true(tw_sha_same(&one->fingerprint, &several->fingerprint));
	assert_int_equal(kit_warned()->count, said.count);
	for (unsigned k = 0; k < said.count; k++)
		assert_string_equal(kit_warned()->text[k], said.text[k]);
	assert_true(said.count > 0);
	tw_data_close(one);
	tw_data_close(several);
	assert_int_equal(r.live, 0);
}

/* The note or warning that has all these parts is there. */
static void says(const struct tw_warnings *w, const char *const *parts)
{
	for (unsigned k = 0; k < w->count; k++) {
		size_t found = 0;

		while (parts[found] && strstr(w->text[k], parts[found]))
			found++;
		if (!parts[found])
			return;
	}
	fail_msg("nothing says %s", parts[0]);
}

/* kit_put_pictures: picture i of class k has 100 k + 10 i in all of its red pixels, and 10 more in
 * green, and so on. */
static void check_pictures(const struct tw_data *d, bool folders)
{
	const uint8_t *v = d->train.value;

	assert_int_equal(d->kind, TW_VALUE_U8);
	assert_true(d->rank == 3 && d->shape[0] == 3 && d->shape[1] == 4 && d->shape[2] == 6);
	assert_int_equal(d->classes, 2);
	assert_int_equal(d->train.count, 10);
	for (unsigned i = 0; i < 10; i++) {
		const unsigned k = i >= 6, first = 100 * k + 10 * (k ? i - 6 : i);

		assert_int_equal(d->train.label[i], k);
		for (unsigned f = 0; f < 72; f++)
			assert_int_equal(v[72 * i + f], first + 10 * (f / 24));
	}
	if (folders) {
		assert_string_equal(d->names.answer[0], "cat");
		assert_string_equal(d->names.answer[1], "dog");
	}
}

static void folders_are_classes_in_order(void **state)
{
	struct tw_data *d = kit_must_open("images", SETS("path=pics", "test=0"));

	(void)state;
	check_pictures(d, true);
	assert_int_equal(d->notes->count, 0);
	assert_int_equal(d->warnings->count, 0);
	tw_data_close(d);
}

/* The two sources make the same samples of the same pictures. */
static void an_archive_has_the_same(void **state)
{
	struct tw_data *d = kit_must_open("tar", SETS("file=pics.tar", "test=0"));
	size_t n;
	uint8_t *whole = kit_get("pics.tar", &n);

	(void)state;
	check_pictures(d, false);
	tw_data_close(d);
	kit_put_gzip("pics.tgz", whole, n);
	d = kit_must_open("tar", SETS("file=pics.tgz", "test=0", "classes=5"));
	assert_int_equal(d->classes, 5);
	tw_data_close(d);
	free(whole);
}

static void sizes_and_channels_are_made_equal(void **state)
{
	struct tw_data *d;
	const uint8_t *v;

	(void)state;
	put_set("mixed");
	put_png("mixed/a/3.png", 40, 20, 3, 50);
	kit_refuses("images", SETS("path=mixed"),
		    PARTS("mixed", "different sizes", "a/0.png (2x3)", "a/3.png (20x40)", "size"));
	d = kit_must_open("images", SETS("path=mixed", "size=5x7", "test=0"));
	assert_true(d->shape[0] == 3 && d->shape[1] == 5 && d->shape[2] == 7);
	v = d->train.value;
	for (unsigned f = 0; f < 105; f++) { /* one colour stays one colour */
		assert_int_equal(v[f], 0);
		assert_int_equal(v[3 * 105 + f], 50 + 10 * (f / 35));
	}
	says(d->notes, PARTS("mixed: in 6 of 7 images", "grey became three equal channels"));
	tw_data_close(d);
	d = kit_must_open("images", SETS("path=mixed", "size=5", "channels=1", "test=0"));
	assert_int_equal(d->shape[0], 1);
	says(d->notes, PARTS("mixed: in 1 of 7 images", "colours became grey"));
	tw_data_close(d);
	unlink(path_of("mixed/a/3.png"));
	d = kit_must_open("images", SETS("path=mixed", "channels=3", "test=0"));
	assert_int_equal(d->shape[0], 3);
	tw_data_close(d);
	d = kit_must_open("images", SETS("path=mixed", "test=0"));
	assert_int_equal(d->shape[0], 1);
	tw_data_close(d);
	kit_refuses("images", SETS("path=mixed", "size=0x3"), PARTS("size: needs", "32x32"));
}

static void a_test_set_has_the_same_classes(void **state)
{
	struct tw_data *d;

	(void)state;
	put_set("first");
	put_set("second");
	folder("second/c");
	put_png("second/c/0.png", 3, 2, 1, 7);
	kit_refuses("images", SETS("path=first", "test_path=second"),
		    PARTS("test_path: second has the folder c", "no class", "a to b"));
	d = kit_must_open("images", SETS("path=second", "test_path=first"));
	assert_int_equal(d->test.count, 6);
	assert_int_equal(d->test.label[5], 1);
	tw_data_close(d);
	put_png("first/a/4.png", 3, 3, 1, 7);
	kit_refuses("images", SETS("path=second", "test_path=first"),
		    PARTS("first", "different sizes"));
	for (int i = 0; i < 3; i++) {
		char path[40];

		for (int k = 0; k < 2; k++) {
			snprintf(path, sizeof path, "first/%s/%d.png", k ? "b" : "a", i);
			put_png(path, 3, 3, 1, 7);
		}
	}
	kit_refuses("images", SETS("path=second", "test_path=first"),
		    PARTS("first: a/0.png (3x3)", "size of the training images, 2x3"));
	d = kit_must_open("images", SETS("path=second", "test_path=first", "size=4"));
	assert_int_equal(d->test.count, 7);
	tw_data_close(d);
	kit_refuses("images", SETS("path=second", "test_path=nowhere"),
		    PARTS("test_path", "nowhere", "cannot be opened"));
}

/* One sentence for each kind of trouble, with counts; or the samples are left out. */
static void troubles_are_counted(void **state)
{
	struct tw_data *d;
	size_t n;

	(void)state;
	put_set("bad");
	put("bad/a/x.png", "", 0);
	put("bad/b/y.jpg", "", 0);
	put_text("bad/b/z.jpeg", "GIF89a");
	n = kit_plain_png(bytes, 3, 2, 1, 9);
	put("bad/b/cut.png", bytes, n - 14);
	kit_png_resize(bytes, 65000, 65000);
	put("bad/b/large.png", bytes, n);
	kit_refuses("images", SETS("path=bad"),
		    PARTS("bad: of 11 samples", "2 are empty, such as a/x.png",
			  "1 is neither PNG nor JPEG: b/z.jpeg",
			  "1 is broken: b/cut.png (it ends too early)",
			  "1 has more than 2^26 pixels: b/large.png", "repair them",
			  "unreadable: skip"));
	d = kit_must_open("images", SETS("path=bad", "unreadable=skip", "test=0"));
	assert_int_equal(d->train.count, 6);
	assert_int_equal(d->warnings->count, 4);
	says(d->warnings, PARTS("bad: of 11 samples, 2 are empty, such as a/x.png, and left out"));
	says(d->warnings, PARTS("1 is broken: b/cut.png"));
	tw_data_close(d);
}

static uint16_t deep(uint32_t x, uint32_t y, uint32_t c)
{
	return (uint16_t)(257 * (x + y + c));
}

static uint8_t ink(uint32_t x, uint32_t y, uint32_t c)
{
	return (uint8_t)(x + y + 50 * c);
}

static void changes_are_said(void **state)
{
	struct kit_png png = { .width = 3, .height = 2, .depth = 16, .type = 0, .value = deep };
	const struct kit_jpeg jpeg = { .width = 3, .height = 2, .components = 4, .value = ink };
	struct tw_data *d;

	(void)state;
	put_set("odd");
	put("odd/a/deep.png", bytes, kit_png(bytes, &png));
	png.type = 6;
	png.depth = 8;
	put("odd/a/clear.PNG", bytes, kit_png(bytes, &png));
	put("odd/b/ink.jpg", bytes, kit_jpeg(bytes, &jpeg));
	put_text("odd/a/.hidden.png", "x");
	put_text("odd/a/readme.txt", "x");
	put_text("odd/0.png", "x");
	folder("odd/a/more");
	folder("odd/none");
	d = kit_must_open("images", SETS("path=odd", "test=0"));
	assert_int_equal(d->train.count, 9);
	assert_int_equal(d->classes, 2);
	says(d->notes, PARTS("odd: in 1 of 9 images", "16 bits for each value became 8"));
	says(d->notes, PARTS("odd: in 1 of 9 images", "transparent places"));
	says(d->notes, PARTS("odd: in 1 of 9 images", "CMYK"));
	says(d->notes, PARTS("odd: files that are no images", "2, such as"));
	says(d->notes, PARTS("odd: folders in the folders", "1, such as more"));
	says(d->warnings, PARTS("odd: 1 of its folders has no images, none, and is no class"));
	tw_data_close(d);
}

static void wrong_folders_are_refused(void **state)
{
	(void)state;
	folder("empty");
	kit_refuses("images", SETS("path="), PARTS("path: must be given"));
	kit_refuses("images", SETS("path=nowhere"), PARTS("path: ", "nowhere", "cannot be opened"));
	kit_refuses("images", SETS("path=empty"), PARTS("path: empty has no folders; each class"));
	kit_refuses("images", SETS("path=pics/cat"),
		    PARTS("path: pics/cat has no folders, only files such as"));
	kit_refuses("images", SETS("path=pics.tar"), PARTS("pics.tar cannot be opened"));
	folder("empty/one");
	kit_refuses("images", SETS("path=empty"), PARTS("have no files that end with .png"));
	folder("empty/one/two");
	kit_refuses("images", SETS("path=empty"), PARTS("have no images, but folders such as two"));
	put_text("empty/one/x.png", "no");
	kit_refuses("images", SETS("path=empty", "unreadable=skip"),
		    PARTS("of 1 samples, 1 is neither PNG nor JPEG", "repair it"));
	folder("empty/a\nb");
	put_png("empty/a\nb/x.png", 1, 1, 1, 1);
	kit_refuses("images", SETS("path=empty"), PARTS("is no name of a class"));
}

/* Links that should be images or classes are not left out in silence. */
static void links_to_nothing_are_counted(void **state)
{
	struct tw_data *d;

	(void)state;
	put_set("links");
	assert_int_equal(symlink("nowhere.png", path_of("links/a/z.png")), 0);
	assert_int_equal(symlink("loop.jpg", path_of("links/b/loop.jpg")), 0);
	assert_int_equal(symlink("nowhere", path_of("links/c")), 0);
	assert_int_equal(symlink("nowhere", path_of("links/b/readme.txt")), 0);
	assert_int_equal(symlink("../a/0.png", path_of("links/b/good.png")), 0);
	kit_refuses("images", SETS("path=links"),
		    PARTS("links: of 10 samples, 3 are links to nothing, such as a/z.png; repair",
			  "unreadable: skip"));
	d = kit_must_open("images", SETS("path=links", "unreadable=skip", "test=0"));
	assert_int_equal(d->train.count, 7);
	assert_int_equal(d->classes, 2);
	assert_int_equal(d->warnings->count, 1);
	says(d->warnings, PARTS("links: of 10 samples, 3 are links to nothing, such as a/z.png, "
				"and left out"));
	says(d->notes, PARTS("files that are no images", "1, such as readme.txt"));
	tw_data_close(d);
	folder("lost");
	assert_int_equal(symlink("nowhere", path_of("lost/a")), 0);
	kit_refuses("images", SETS("path=lost"), PARTS("only links to nothing such as a; repair"));
	folder("lost/b");
	assert_int_equal(symlink("nowhere", path_of("lost/b/0.png")), 0);
	kit_refuses("images", SETS("path=lost", "unreadable=skip"),
		    PARTS("only links to nothing such as a; repair"));
}

/* Where a master named the folder: what is in the folder that may be read, whatever links say. */
static void links_do_not_lead_out(void **state)
{
	char inside[600];
	const struct tw_reach within = { TW_REACH_WITHIN, inside }, none = { TW_REACH_NONE, "" };
	struct tw_error why = { 0 };
	struct tw_data *d = NULL;

	(void)state;
	folder("inside");
	snprintf(inside, sizeof inside, "%s/inside", scratch());
	put_set("inside/set");
	assert_int_equal(
		kit_open_at(&within, NULL, "images", SETS("path=/some/where/set"), &d, &why),
		TW_OK);
	assert_int_equal(d->train.count + d->test.count, 6);
	tw_data_close(d);
	assert_int_equal(kit_open_at(&none, NULL, "images", SETS("path=set"), &d, &why),
			 TW_REFUSED);
	why = (struct tw_error){ 0 };
	assert_int_equal(kit_open_at(&within, NULL, "images", SETS("path=pics"), &d, &why),
			 TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "has no folder such as pics"));
	assert_int_equal(symlink("../../../pics/cat/0.png", path_of("inside/set/a/9.png")), 0);
	why = (struct tw_error){ 0 };
	assert_int_equal(kit_open_at(&within, NULL, "images", SETS("path=set"), &d, &why),
			 TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "leads out of its folder"));
	unlink(path_of("inside/set/a/9.png"));
	assert_int_equal(symlink("../../pics/cat", path_of("inside/set/c")), 0);
	why = (struct tw_error){ 0 };
	assert_int_equal(kit_open_at(&within, NULL, "images", SETS("path=set"), &d, &why),
			 TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "leads out of its folder"));
}

/* --- archives --------------------------------------------------------------------------------- */

static void add(const char *name, const void *content, size_t n)
{
	end += kit_tar(tar + end, name, '0', content, n);
}

static void add_png(const char *name, uint8_t value)
{
	add(name, bytes, kit_plain_png(bytes, 3, 2, 1, value));
}

static void put_tar(const char *name)
{
	end += kit_tar_end(tar + end);
	put(name, tar, end);
	end = 0;
}

static void samples_are_files_of_one_stem(void **state)
{
	struct tw_data *d;

	(void)state;
	add("set/a.b/0.cls", "3", 1); /* a point in a folder is none in the name */
	add("set/a.b/0.json", "{}", 2);
	add_png("set/a.b/0.png", 5);
	end += kit_tar(tar + end, "set/c", '5', "", 0);
	add("set/._junk.png", "x", 1);
	add_png("set/1.JPG", 6); /* the bytes say what it is */
	add("set/1.CLS", " 2 \n", 4);
	add("set/1.seg.png", "x", 1);
	put_tar("two.tar");
	d = kit_must_open("tar", SETS("file=two.tar", "test=0"));
	assert_int_equal(d->train.count, 2);
	assert_int_equal(d->classes, 4);
	assert_true(d->train.label[0] == 3 && d->train.label[1] == 2);
	assert_true(((const uint8_t *)d->train.value)[0] == 5 &&
		    ((const uint8_t *)d->train.value)[6] == 6);
	says(d->notes, PARTS("two.tar: files that are neither images nor .cls", "2, such as"));
	tw_data_close(d);
	d = kit_must_open("tar", SETS("file=two.tar", "test_file=two.tar"));
	assert_int_equal(d->test.count, 2);
	tw_data_close(d);
	kit_refuses("tar", SETS("file=two.tar", "classes=3"), PARTS("label 1", "3 classes"));
	kit_refuses("tar", SETS("file="), PARTS("file: must be given: a tar file"));
}

static void incomplete_samples_are_counted(void **state)
{
	struct tw_data *d;

	(void)state;
	add_png("0.png", 1);
	add_png("1.png", 1);
	add("2.cls", "1", 1);
	add_png("3.png", 1);
	add_png("3.jpg", 1);
	add("3.cls", "1", 1);
	add_png("4.png", 1);
	add("4.cls", "-1", 2);
	add_png("5.png", 1);
	add("5.cls", "65536", 5);
	add_png("6.png", 1);
	add("6.cls", "1\0", 2);
	add_png("7.png", 1);
	add("7.cls", "1", 1);
	add_png("8.png", 1);
	add("8.cls", "0", 1);
	put_tar("parts.tar");
	kit_refuses("tar", SETS("file=parts.tar"),
		    PARTS("parts.tar: of 9 samples, 2 have no label, such as 0 (there is no .cls)",
			  "3 have a label that is no whole number from 0 to 65535, such as 4",
			  "1 has no image: 2", "1 has two images: 3"));
	d = kit_must_open("tar", SETS("file=parts.tar", "unreadable=skip", "test=0"));
	assert_int_equal(d->train.count, 2);
	assert_int_equal(d->warnings->count, 4);
	tw_data_close(d);
	add_png("0.png", 1);
	put_tar("parts.tar");
	kit_refuses("tar", SETS("file=parts.tar", "unreadable=skip"), PARTS("1 has no label: 0"));
	add("x.txt", "1", 1);
	put_tar("parts.tar");
	kit_refuses("tar", SETS("file=parts.tar"), PARTS("parts.tar: has no images"));
}

/* The reason is that there are two, or that it is long, whatever number is in it. */
static void labels_are_one_and_short(void **state)
{
	char blank[40];

	(void)state;
	memset(blank, ' ', sizeof blank);
	blank[0] = '1';
	add_png("0.png", 1);
	add("0.cls", "1", 1);
	add("0.CLS", "1", 1);
	add_png("1.png", 1);
	add("1.cls", blank, sizeof blank);
	add("1.CLS", "1", 1);
	put_tar("labels.tar");
	kit_refuses("tar", SETS("file=labels.tar"),
		    PARTS("labels.tar: of 2 samples, 2 have two labels, such as 0; repair"));
	add_png("0.png", 1);
	add("0.cls", blank, sizeof blank);
	put_tar("labels.tar");
	kit_refuses("tar", SETS("file=labels.tar"),
		    PARTS("1 has a label that is no whole number from 0 to 65535: 0 (its .cls is "
			  "longer than 32 bytes)"));
	add_png("0.png", 1);
	add("0.cls", blank, 32);
	put_tar("labels.tar");
	tw_data_close(kit_must_open("tar", SETS("file=labels.tar", "test=0")));
}

static const uint8_t *idx_image;

static uint16_t idx_value(uint32_t x, uint32_t y, uint32_t c)
{
	(void)c;
	return idx_image[4 * y + x];
}

/* The same images and labels as IDX files are the same set, to the last bit. */
static void archives_and_idx_files_agree(void **state)
{
	struct tw_data *a, *b;
	uint8_t *images, *labels;
	size_t n;

	(void)state;
	kit_put_idx_set();
	images = kit_get("images", &n);
	labels = kit_get("labels", &n);
	assert_int_equal(n, 8 + 12);
	for (unsigned i = 0; i < 12; i++) {
		const struct kit_png how = {
			.width = 4, .height = 5, .depth = 8, .value = idx_value
		};
		char name[20], label = (char)('0' + labels[8 + i]);

		idx_image = images + 16 + (size_t)20 * i;
		snprintf(name, sizeof name, "%06u.png", i);
		add(name, bytes, kit_png(bytes, &how));
		snprintf(name, sizeof name, "%06u.cls", i);
		add(name, &label, 1);
	}
	put_tar("idx.tar");
	a = kit_must_open("idx", SETS("images=images", "labels=labels", "test=0.25"));
	b = kit_must_open("tar", SETS("file=idx.tar", "test=0.25"));
	assert_true(tw_sha_same(&a->fingerprint, &b->fingerprint));
	assert_int_equal(a->train.count, b->train.count);
	assert_memory_equal(a->train.value, b->train.value, a->train.count * a->features);
	tw_data_close(a);
	tw_data_close(b);
	free(images);
	free(labels);
}

/* Names that a header has no room for: ahead of it, as GNU and as POSIX have them. */
static void long_names_are_read(void **state)
{
	char name[400], record[440];
	struct tw_data *d;
	int n;

	(void)state;
	memset(name, 'n', sizeof name);
	memcpy(name + 300, ".png", 5);
	end += kit_tar(tar + end, "././@LongLink", 'L', name, strlen(name) + 1);
	add_png("nnnn", 1);
	memcpy(name + 300, ".cls", 5);
	n = snprintf(record, sizeof record, "314 path=%s\n9 size=1\n", name);
	end += kit_tar(tar + end, "PaxHeaders/nnn", 'x', record, (size_t)n);
	add("nnn", "1", 1);
	add_png("other.png", 2);
	add("other.cls", "0", 1);
	put_tar("long.tar");
	d = kit_must_open("tar", SETS("file=long.tar", "test=0"));
	assert_int_equal(d->train.count, 2);
	assert_int_equal(d->train.label[0], 1);
	tw_data_close(d);
}

/* Refused, wherever it ends and whatever header is changed. */
static void damaged_archives_are_refused(void **state)
{
	uint8_t *whole, *changed;
	size_t n;

	(void)state;
	add_png("0.png", 1);
	add("0.cls", "1", 1);
	put_tar("whole.tar");
	whole = kit_get("whole.tar", &n);
	changed = malloc(n);
	for (size_t cut = 0; cut + 512 < n; cut += cut < 600 ? 1 : 101) {
		put("cut.tar", whole, cut);
		kit_refuses("tar", SETS("file=cut.tar"), PARTS("/cut.tar: "));
	}
	for (size_t i = 0; i < 512; i += 7) {
		memcpy(changed, whole, n);
		changed[i] ^= 1;
		put("cut.tar", changed, n);
		kit_refuses("tar", SETS("file=cut.tar"), PARTS("/cut.tar: byte 512", "checksum"));
	}
	memcpy(changed, whole, n);
	memcpy(changed + 124, "\x80\0\0\0\0\0\0\x10\0\0\0\0", 12);
	kit_tar_sum(changed);
	put("cut.tar", changed, n);
	kit_refuses("tar", SETS("file=cut.tar"), PARTS("larger than the archive"));
	memcpy(changed + 124, "12345678x\0\0\0", 12);
	kit_tar_sum(changed);
	put("cut.tar", changed, n);
	kit_refuses("tar", SETS("file=cut.tar"), PARTS("has no size"));
	memcpy(changed, whole, n);
	memcpy(changed + 124, "\x80\0\0\0\0\0\0\0\0\0\0", 11); /* the same size in binary */
	changed[135] = (uint8_t)strtoul((const char *)whole + 124, NULL, 8);
	kit_tar_sum(changed);
	put("cut.tar", changed, n);
	tw_data_close(kit_must_open("tar", SETS("file=cut.tar", "test=0")));
	end += kit_tar(tar + end, "x", 'x', "7 path", 6);
	put_tar("cut.tar");
	kit_refuses("tar", SETS("file=cut.tar"), PARTS("records ahead of a file are damaged"));
	kit_refuses("tar", SETS("file=pics/cat/0.png"), PARTS("0.png: ends at byte", "a header"));
	free(changed);
	free(whole);
}

/* A block of zeros is not the end: `cat a.tar b.tar` has both. */
static void joined_archives_are_read_whole(void **state)
{
	struct tw_data *d;
	size_t first;

	(void)state;
	add_png("0.png", 1);
	add("0.cls", "0", 1);
	end += kit_tar_end(tar + end);
	memset(tar + end, 0, 3 * 512); /* as tar fills up its last record */
	first = end += (size_t)3 * 512;
	add_png("1.png", 7);
	add("1.cls", "1", 1);
	end += kit_tar_end(tar + end);
	memset(tar + end, 0, 100);
	put("joined.tar", tar, end + 100);
	d = kit_must_open("tar", SETS("file=joined.tar", "test=0"));
	assert_int_equal(d->train.count, 2);
	assert_true(d->train.label[0] == 0 && d->train.label[1] == 1);
	assert_int_equal(((const uint8_t *)d->train.value)[6], 7);
	tw_data_close(d);
	put("joined.tar", tar, end - 1024); /* the second one has no end */
	kit_refuses("tar", SETS("file=joined.tar"), PARTS("joined.tar: ends at byte", "a header"));
	tar[first] ^= 1;
	put("joined.tar", tar, end);
	kit_refuses("tar", SETS("file=joined.tar"),
		    PARTS("joined.tar: byte 4608: the archive has ended", "only zeros or the "));
	put("joined.tar", tar, first + 2);
	kit_refuses("tar", SETS("file=joined.tar"), PARTS("joined.tar: byte 4608: the archive"));
	end = 0;
}

/* What is neither a file nor a folder has no bytes to read, and is counted. */
static void links_of_an_archive_are_counted(void **state)
{
	struct tw_data *d;

	(void)state;
	add_png("0.png", 1);
	add("0.cls", "0", 1);
	end += kit_tar(tar + end, "folder/", '5', "", 0);
	end += kit_tar(tar + end, "1.png", '1', "", 0);
	end += kit_tar(tar + end, "1.cls", '2', "", 0);
	end += kit_tar(tar + end, "2.png", 'S', "sparse", 6);
	add_png("3.png", 3);
	add("3.cls", "1", 1);
	put_tar("linked.tar");
	d = kit_must_open("tar", SETS("file=linked.tar", "test=0"));
	assert_int_equal(d->train.count, 2);
	assert_int_equal(d->notes->count, 1);
	says(d->notes, PARTS("linked.tar: links, sparse files", "are not read: 3, such as 1.png"));
	tw_data_close(d);
}

/* Sizes ahead of a file that no archive has. */
static void false_sizes_are_refused(void **state)
{
	static const char *const record[] = { "29 size=18446744073709551616\n",
					      "29 size=18446744073709551615\n", "11 size=1x\n",
					      "11 size=-1\n" };

	(void)state;
	for (size_t k = 0; k < 4; k++) {
		add_png("0.png", 1);
		add("0.cls", "0", 1);
		end += kit_tar(tar + end, "PaxHeaders/1", 'x', record[k], strlen(record[k]));
		add_png("1.png", 1);
		add("1.cls", "1", 1);
		put_tar("size.tar");
		kit_refuses("tar", SETS("file=size.tar"),
			    k < 2 ? PARTS("size.tar: byte ", "larger than the archive")
				  : PARTS("size.tar: byte ", "is no whole number"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_change_nothing),
		cmocka_unit_test(folders_are_classes_in_order),
		cmocka_unit_test(an_archive_has_the_same),
		cmocka_unit_test(sizes_and_channels_are_made_equal),
		cmocka_unit_test(a_test_set_has_the_same_classes),
		cmocka_unit_test(troubles_are_counted),
		cmocka_unit_test(changes_are_said),
		cmocka_unit_test(wrong_folders_are_refused),
		cmocka_unit_test(links_to_nothing_are_counted),
		cmocka_unit_test(links_do_not_lead_out),
		cmocka_unit_test(samples_are_files_of_one_stem),
		cmocka_unit_test(incomplete_samples_are_counted),
		cmocka_unit_test(labels_are_one_and_short),
		cmocka_unit_test(archives_and_idx_files_agree),
		cmocka_unit_test(long_names_are_read),
		cmocka_unit_test(damaged_archives_are_refused),
		cmocka_unit_test(joined_archives_are_read_whole),
		cmocka_unit_test(links_of_an_archive_are_counted),
		cmocka_unit_test(false_sizes_are_refused),
	};

	return cmocka_run_group_tests(tests, setup, scratch_remove);
}
