/* SPDX-License-Identifier: Apache-2.0 */
/* picture_set.c - pictures become the samples of a set, and what is wrong with some is counted. */
#include "data/format/picture_set.h"

#include "data/data_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

const char *const tw_picture_channel_names[] = {
	[TW_CHANNELS_AUTO] = "auto",
	[TW_CHANNELS_1] = "1",
	[TW_CHANNELS_3] = "3",
	NULL,
};
const char *const tw_picture_unreadable_names[] = {
	[TW_UNREADABLE_REFUSE] = "refuse",
	[TW_UNREADABLE_SKIP] = "skip",
	NULL,
};

/* What one of them does, and what several do. */
static const struct {
	const char *one, *more;
} words[TW_SAMPLE_TROUBLES] = {
	[TW_PICTURE_GOOD] = { "", "" },
	[TW_PICTURE_EMPTY] = { "is empty", "are empty" },
	[TW_PICTURE_FOREIGN] = { "is neither PNG nor JPEG", "are neither PNG nor JPEG" },
	[TW_PICTURE_BROKEN] = { "is broken", "are broken" },
	[TW_PICTURE_LARGE] = { "has more than 2^26 pixels", "have more than 2^26 pixels" },
	[TW_SAMPLE_UNLABELLED] = { "has no label", "have no label" },
	[TW_SAMPLE_BAD_LABEL] = { "has a label that is no whole number from 0 to 65535",
				  "have a label that is no whole number from 0 to 65535" },
	[TW_SAMPLE_NO_PICTURE] = { "has no image", "have no image" },
	[TW_SAMPLE_TWO_PICTURES] = { "has two images", "have two images" },
	[TW_SAMPLE_TWO_LABELS] = { "has two labels", "have two labels" },
	[TW_SAMPLE_LOST] = { "is a link to nothing", "are links to nothing" },
};

bool tw_picture_named(const char *name)
{
	static const char *const suffixes[] = { ".png", ".jpg", ".jpeg" };
	const size_t n = strlen(name);

	for (size_t k = 0; k < sizeof suffixes / sizeof suffixes[0]; k++)
		if (n > strlen(suffixes[k]) &&
		    strcasecmp(name + n - strlen(suffixes[k]), suffixes[k]) == 0)
			return true;
	return false;
}

void tw_pictures_init(struct tw_picture_set *p, const struct tw_picture_wishes *wishes,
		      const char *name, struct tw_data *d, bool first)
{
	*p = (struct tw_picture_set){ .wishes = wishes, .name = name, .d = d, .first = first };
}

void tw_pictures_trouble(struct tw_picture_set *p, unsigned trouble, const char *name,
			 const char *said)
{
	char *example = p->example[trouble];

	p->seen++;
	if (p->trouble[trouble]++ == 0)
		snprintf(example, sizeof p->example[0], "%.60s%s%.70s%s", name, said[0] ? " (" : "",
			 said, said[0] ? ")" : "");
}

static enum tw_status no_memory(const struct tw_picture_set *p, const char *name,
				struct tw_error *why)
{
	return tw_fail(why, TW_NO_MEMORY, "%.200s: no memory for the image %.200s", p->name, name);
}

static void count_good(struct tw_picture_set *p, const char *name, const struct tw_picture_look *l)
{
	if (p->good++ == 0) {
		p->look = *l;
		snprintf(p->looked, sizeof p->looked, "%.60s (%ux%u)", name, l->height, l->width);
	} else if (!p->odd[0] && (l->width != p->look.width || l->height != p->look.height)) {
		snprintf(p->odd, sizeof p->odd, "%.60s (%ux%u)", name, l->height, l->width);
	}
	p->seen++;
	p->grey += !l->colour;
	p->deep += l->deep;
	p->alpha += l->alpha;
	p->cmyk += l->cmyk;
}

enum tw_status tw_pictures_look(struct tw_picture_set *p, const char *name, const void *bytes,
				size_t n, struct tw_error *why)
{
	struct tw_picture_look l;
	char said[TW_PICTURE_SAID];
	const enum tw_picture_status st = tw_picture_look(bytes, n, &l, said);

	if (st == TW_PICTURE_NO_MEMORY)
		return no_memory(p, name, why);
	if (st == TW_PICTURE_GOOD)
		count_good(p, name, &l);
	else
		tw_pictures_trouble(p, st, name, said);
	return TW_OK;
}

/* --- one shape -------------------------------------------------------------------------------- */

static enum tw_status take_shape(struct tw_picture_set *p, struct tw_error *why)
{
	const struct tw_extent size = p->wishes->size;
	const uint64_t shape[] = {
		p->wishes->channels == TW_CHANNELS_AUTO ? p->grey == p->good ? 1 : 3
		: p->wishes->channels == TW_CHANNELS_1  ? 1
							: 3,
		size.h ? size.h : p->look.height,
		size.w ? size.w : p->look.width,
	};

	p->d->kind = TW_VALUE_U8;
	return tw_data_keep_shape(p->d, p->name, TW_DATA_RANK, shape, why);
}

static enum tw_status check_sizes(const struct tw_picture_set *p, struct tw_error *why)
{
	const struct tw_extent size = p->wishes->size;
	const uint32_t *shape = p->d->shape;

	if (!size.h != !size.w)
		return tw_fail(why, TW_BAD_INPUT,
			       "size: needs a height and a width, both above 0, such as 32x32");
	if (size.h)
		return TW_OK;
	if (p->odd[0])
		return tw_fail(why, TW_BAD_INPUT,
			       "%.200s: images have different sizes, such as %s and %s; give size: "
			       "the height x width that all get",
			       p->name, p->looked, p->odd);
	if (!p->first && (p->look.height != shape[1] || p->look.width != shape[2]))
		return tw_fail(why, TW_BAD_INPUT,
			       "%.200s: %s has not the size of the training images, %ux%u; give "
			       "size: the height x width that all get",
			       p->name, p->looked, shape[1], shape[2]);
	return TW_OK;
}

static enum tw_status say_troubles(const struct tw_picture_set *p, struct tw_error *why);

static void forget_what_was_seen(struct tw_picture_set *p)
{
	p->seen = p->good = p->grey = p->deep = p->alpha = p->cmyk = 0;
	memset(p->trouble, 0, sizeof p->trouble);
}

enum tw_status tw_pictures_settle(struct tw_picture_set *p, struct tw_error *why)
{
	void *value = NULL, *label = NULL;
	enum tw_status st;

	if (p->good == 0 && p->seen)
		return say_troubles(p, why);
	if (p->good == 0)
		return tw_fail(why, TW_BAD_INPUT,
			       "%.200s: has no images; files that end with .png, .jpg or .jpeg are "
			       "needed",
			       p->name);
	st = check_sizes(p, why);
	if (st == TW_OK && p->first)
		st = take_shape(p, why);
	p->room = p->good;
	if (st == TW_OK)
		st = tw_data_keep_room(p->d, p->room, p->d->features, &value, why);
	if (st == TW_OK)
		st = tw_data_keep_room(p->d, p->room, sizeof *p->label, &label, why);
	p->value = value;
	p->label = label;
	forget_what_was_seen(p);
	return st;
}

/* --- samples ---------------------------------------------------------------------------------- */

static enum tw_status place(struct tw_picture_set *p, const char *name, struct tw_picture *picture,
			    uint32_t label, struct tw_error *why)
{
	const uint32_t *shape = p->d->shape;
	struct tw_heap *heap = p->d->heap;

	if (p->done == p->room ||
	    (!p->wishes->size.h && (picture->height != shape[1] || picture->width != shape[2])))
		return tw_fail(why, TW_BAD_INPUT,
			       "%.200s: %.200s was changed while it was read; try again", p->name,
			       name);
	if (tw_picture_fit(heap, picture, shape[0], shape[1], shape[2],
			   p->value + p->done * p->d->features) != TW_PICTURE_GOOD)
		return no_memory(p, name, why);
	p->label[p->done++] = label;
	return TW_OK;
}

enum tw_status tw_pictures_take(struct tw_picture_set *p, const char *name, const void *bytes,
				size_t n, uint32_t label, struct tw_error *why)
{
	struct tw_picture picture;
	struct tw_picture_look l;
	char said[TW_PICTURE_SAID];
	enum tw_picture_status got = tw_picture_look(bytes, n, &l, said);
	enum tw_status st;

	if (got == TW_PICTURE_GOOD)
		got = tw_picture_read(p->d->heap, bytes, n, &picture, said);
	if (got == TW_PICTURE_NO_MEMORY)
		return no_memory(p, name, why);
	if (got != TW_PICTURE_GOOD) {
		tw_pictures_trouble(p, got, name, said);
		return TW_OK;
	}
	count_good(p, name, &l);
	st = place(p, name, &picture, label, why);
	p->d->heap->put(p->d->heap, picture.pixel);
	return st;
}

/* --- sentences -------------------------------------------------------------------------------- */

static uint64_t troubles(const struct tw_picture_set *p)
{
	uint64_t sum = 0;

	for (unsigned k = 0; k < TW_SAMPLE_TROUBLES; k++)
		sum += p->trouble[k];
	return sum;
}

/* "2 are broken, such as a.png (bad CRC)" */
static int say(const struct tw_picture_set *p, unsigned k, char *out, size_t room)
{
	return snprintf(out, room, "%" PRIu64 " %s%s%s", p->trouble[k],
			p->trouble[k] == 1 ? words[k].one : words[k].more,
			p->trouble[k] == 1 ? ": " : ", such as ", p->example[k]);
}

static enum tw_status say_troubles(const struct tw_picture_set *p, struct tw_error *why)
{
	const bool skip = p->wishes->unreadable == TW_UNREADABLE_SKIP;
	char text[400] = "";
	size_t n = 0;

	for (unsigned k = 0; k < TW_SAMPLE_TROUBLES; k++) {
		char one[240];

		if (!p->trouble[k])
			continue;
		say(p, k, one, sizeof one);
		if (n + strlen(one) + 3 < sizeof text)
			n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? "; " : "",
					      one);
	}
	return tw_fail(why, TW_BAD_INPUT, "%.80s: of %" PRIu64 " samples, %s; repair %s%s", p->name,
		       p->seen, text, troubles(p) == 1 ? "it" : "them",
		       skip ? "" : ", or leave such samples out with unreadable: skip");
}

static void note(struct tw_warnings *notes, const struct tw_picture_set *p, uint64_t count,
		 const char *what)
{
	if (count)
		tw_warn(notes, "%.100s: in %" PRIu64 " of %" PRIu64 " images, %s", p->name, count,
			p->done, what);
}

/* What was done without being asked. */
static void say_changes(const struct tw_picture_set *p, struct tw_warnings *notes)
{
	note(notes, p, p->deep, "16 bits for each value became 8");
	note(notes, p, p->alpha, "transparent places were taken as opaque");
	note(notes, p, p->cmyk, "a printer's colours (CMYK) were read without a profile");
	if (p->d->shape[0] == 3)
		note(notes, p, p->grey, "grey became three equal channels");
	else
		note(notes, p, p->done - p->grey, "colours became grey");
}

enum tw_status tw_pictures_done(struct tw_picture_set *p, const struct tw_source_site *site,
				struct tw_samples *out, struct tw_error *why)
{
	char one[240];

	if (troubles(p) && (p->done == 0 || p->wishes->unreadable == TW_UNREADABLE_REFUSE))
		return say_troubles(p, why);
	if (p->done == 0)
		return tw_fail(why, TW_BAD_INPUT,
			       "%.200s: was changed while it was read; try again", p->name);
	for (unsigned k = 0; k < TW_SAMPLE_TROUBLES; k++)
		if (p->trouble[k]) {
			say(p, k, one, sizeof one);
			tw_warn(site->warnings, "%.100s: of %" PRIu64 " samples, %s, and left out",
				p->name, p->seen, one);
		}
	say_changes(p, site->notes);
	out->count = p->done;
	out->value = p->value;
	out->label = p->label;
	return TW_OK;
}
