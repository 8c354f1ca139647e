/* SPDX-License-Identifier: Apache-2.0 */
/* tar.c - images and their classes from a tar archive, by the convention of WebDataset.
 *
 * Files that follow each other and have the same name up to the first point of its last part are
 * one sample: 0001.png is its image, 0001.cls has the number of its class. */
#include "data/format/tar.h"

#include "data/data_memory.h"
#include "data/format/csv.h"
#include "data/format/picture/picture_set.h"
#include "data/labels.h"

#include "base/grow.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct options {
	const char *file, *test_file;
	uint32_t classes;
	struct tw_picture_wishes pictures;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, file, TW_TEXT, NULL, NULL, 0, 0,
		  "tar file of the training samples, gzipped or not: NAME.png (or .jpg, .jpeg) and "
		  "NAME.cls, which has the number of the class, for each"),
	TW_OPTION(struct options, test_file, TW_TEXT, "", NULL, 0, 0,
		  "tar file of the test samples; without it the share `test` of the training "
		  "samples is held out"),
	TW_CLASSES_ROW(struct options),
	TW_PICTURE_ROWS(struct options, pictures),
	TW_OPTION_END,
};

/* The sample whose files are being read. */
struct sample {
	char name[TW_TAR_NAME]; /* without what is behind the first point; "": none yet */
	uint8_t *picture;       /* memory of the heap */
	size_t bytes, room;
	unsigned pictures, labels;
	const char *bad_label; /* more about what is wrong with it; NULL: it is good */
	uint32_t label;
};

struct reading {
	const struct tw_source_site *site;
	struct tw_picture_set *pictures;
	bool look; /* the first of two passes */
	struct tw_tar tar;
	struct sample sample;
	uint64_t others;
	char other[80]; /* a file that is neither an image nor a label */
	struct tw_error *why;
};

/* Where the part of the name ends that all files of a sample share. */
static size_t stem(const char *name)
{
	const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
	const char *point = strchr(last, '.');

	return point ? (size_t)(point - name) : strlen(name);
}

/* A sample is whole. */
static enum tw_status end_sample(struct reading *r)
{
	struct sample *s = &r->sample;
	struct tw_picture_set *p = r->pictures;
	enum tw_status st = TW_OK;

	if (!s->name[0] || !(s->pictures || s->labels))
		return TW_OK;
	if (!s->pictures)
		tw_pictures_trouble(p, TW_SAMPLE_NO_PICTURE, s->name, "");
	else if (s->pictures > 1)
		tw_pictures_trouble(p, TW_SAMPLE_TWO_PICTURES, s->name, "");
	else if (!s->labels)
		tw_pictures_trouble(p, TW_SAMPLE_UNLABELLED, s->name, "there is no .cls");
	else if (s->labels > 1)
		tw_pictures_trouble(p, TW_SAMPLE_TWO_LABELS, s->name, "");
	else if (s->bad_label)
		tw_pictures_trouble(p, TW_SAMPLE_BAD_LABEL, s->name, s->bad_label);
	else if (r->look)
		st = tw_pictures_look(p, s->name, s->picture, s->bytes, r->why);
	else
		st = tw_pictures_take(p, s->name, s->picture, s->bytes, s->label, r->why);
	return st;
}

static void begin_sample(struct sample *s, const char *name, size_t n)
{
	memcpy(s->name, name, n);
	s->name[n] = 0;
	s->bytes = 0;
	s->pictures = s->labels = 0;
	s->bad_label = NULL;
}

static enum tw_status take_picture(struct reading *r)
{
	struct sample *s = &r->sample;
	enum tw_status st;

	if (s->pictures++)
		return TW_OK;
	st = tw_tar_read(&r->tar, r->why);
	if (st != TW_OK)
		return st;
	s->bytes = (size_t)r->tar.bytes;
	if (!tw_grow(r->site->heap, &s->picture, &s->room, 0, s->bytes + 1, 1))
		return tw_data_keep_no_memory(r->why, tw_input_name(r->tar.in), s->bytes);
	memcpy(s->picture, r->tar.content, s->bytes);
	return TW_OK;
}

static enum tw_status take_label(struct reading *r)
{
	struct sample *s = &r->sample;
	struct tw_csv_field f;
	int64_t v = -1;
	enum tw_status st = TW_OK;

	if (s->labels++)
		return TW_OK;
	if (r->tar.bytes > 32) {
		s->bad_label = "its .cls is longer than 32 bytes";
		return TW_OK;
	}
	st = tw_tar_read(&r->tar, r->why);
	if (st != TW_OK)
		return st;
	f = (struct tw_csv_field){ .at = (const char *)r->tar.content,
				   .bytes = (size_t)r->tar.bytes };
	while (f.bytes && strchr(" \t\r\n", f.at[f.bytes - 1]) && f.at[f.bytes - 1])
		f.bytes--;
	if (!tw_field_whole(&f, &v) || v < 0 || v >= TW_CLASSES_MAX)
		s->bad_label = "";
	s->label = (uint32_t)v;
	return TW_OK;
}

/* One file of the archive.  Files that begin with a point are nobody's. */
static enum tw_status take_file(struct reading *r)
{
	const char *name = r->tar.name, *slash = strrchr(name, '/');
	const size_t n = stem(name);
	struct sample *s = &r->sample;
	enum tw_status st = TW_OK;

	if ((slash ? slash + 1 : name)[0] == '.')
		return TW_OK;
	if (strlen(s->name) != n || memcmp(s->name, name, n) != 0) {
		st = end_sample(r);
		begin_sample(s, name, n);
	}
	if (st != TW_OK)
		return st;
	if (tw_picture_named(name) && strchr(name + n + 1, '.') == NULL)
		return take_picture(r);
	if (strcasecmp(name + n, ".cls") == 0)
		return take_label(r);
	if (r->others++ == 0)
		snprintf(r->other, sizeof r->other, "%.79s", name);
	return TW_OK;
}

static enum tw_status read_files(struct reading *r)
{
	bool more = true;
	enum tw_status st = TW_OK;

	while (st == TW_OK) {
		st = tw_tar_next(&r->tar, &more, r->why);
		if (st != TW_OK || !more)
			break;
		st = take_file(r);
	}
	return st == TW_OK ? end_sample(r) : st;
}

static enum tw_status pass(const struct tw_source_site *site, const char *file,
			   struct tw_picture_set *p, bool look, struct tw_error *why)
{
	struct reading r = { .site = site, .pictures = p, .look = look, .why = why };
	struct tw_input *in = NULL;
	enum tw_status st = tw_input_open(site->heap, site->base, file, &in, why);

	if (st != TW_OK)
		return st;
	tw_input_listen(in, site->listener);
	tw_tar_init(&r.tar, site->heap, in);
	st = read_files(&r);
	if (st == TW_OK && look && r.tar.passed)
		tw_warn(site->notes,
			"%.100s: links, sparse files and devices are not read: %" PRIu64
			", such as %.60s",
			file, r.tar.passed, r.tar.passed_name);
	if (st == TW_OK && look && r.others)
		tw_warn(site->notes,
			"%.100s: files that are neither images nor .cls are not read: %" PRIu64
			", such as %.60s",
			file, r.others, r.other);
	site->heap->put(site->heap, r.sample.picture);
	tw_tar_release(&r.tar);
	tw_input_close(in);
	return st;
}

static enum tw_status read_set(const struct options *o, const struct tw_source_site *site,
			       bool first, struct tw_data *d, struct tw_samples *out,
			       struct tw_error *why)
{
	const char *file = first ? o->file : o->test_file;
	struct tw_picture_set p;
	enum tw_status st;

	tw_pictures_init(&p, &o->pictures, file, d, first);
	st = pass(site, file, &p, true, why);
	if (st == TW_OK)
		st = tw_pictures_settle(&p, why);
	if (st == TW_OK)
		st = pass(site, file, &p, false, why);
	if (st == TW_OK)
		st = tw_pictures_done(&p, site, out, why);
	tw_pictures_release(&p);
	return st;
}

static enum tw_status open_files(const void *options, const struct tw_source_site *site,
				 struct tw_data *out, struct tw_error *why)
{
	const struct options *o = options;
	const bool tests = o->test_file && o->test_file[0];
	enum tw_status st;

	if (!o->file || !o->file[0])
		return tw_fail(why, TW_BAD_INPUT, "file: must be given: a tar file");
	st = read_set(o, site, true, out, &out->train, why);
	if (st == TW_OK && tests)
		st = read_set(o, site, false, out, &out->test, why);
	if (st == TW_OK)
		st = tw_labels_check(out, o->classes, o->file, tests ? o->test_file : "", why);
	if (st != TW_OK)
		tw_data_keep_release(out);
	return st;
}

const struct tw_source tw_source_tar = {
	.name = "tar",
	.help = "a tar file of PNG and JPEG images and their classes, as WebDataset has them",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.files = (const struct tw_source_file[]){ { ".tar" }, { ".tgz" }, { 0 } },
	.splits = true,
	.test_option = "test_file",
	.open = open_files,
};
