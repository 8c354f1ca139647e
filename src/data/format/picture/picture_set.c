/* SPDX-License-Identifier: Apache-2.0 */
/* picture_set.c - pictures become the samples of a set, and what is wrong with some is counted. */
#include "data/format/picture/picture_set.h"

#include "base/machine/cores.h"
#include "data/data_memory.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
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

#define QUEUE       64u
#define QUEUE_BYTES ((size_t)64 << 20)
#define THREADS     16u

/* A picture that was taken. */
struct taken {
	char name[160];
	uint8_t *bytes;
	size_t n;
	uint32_t label;
	/* what decoding made of it */
	enum tw_picture_status got;
	bool resized; /* since it was looked at */
	struct tw_picture_look look;
	char said[TW_PICTURE_SAID];
	uint8_t *value; /* room for a sample */
};

struct tw_picture_queue {
	const struct tw_picture_set *set;
	struct taken taken[QUEUE];
	uint8_t *room; /* for QUEUE samples */
	unsigned count;
	size_t bytes;
	atomic_uint next; /* to be decoded */
};

static void decode(const struct tw_picture_set *p, struct taken *t)
{
	const uint32_t *shape = p->d->shape;
	struct tw_heap *heap = p->d->heap;
	struct tw_picture picture;

	t->resized = false;
	t->got = tw_picture_look(t->bytes, t->n, &t->look, t->said);
	if (t->got == TW_PICTURE_GOOD)
		t->got = tw_picture_read(heap, t->bytes, t->n, &picture, t->said);
	if (t->got != TW_PICTURE_GOOD)
		return;
	t->resized =
		!p->wishes->size.h && (picture.height != shape[1] || picture.width != shape[2]);
	if (!t->resized)
		t->got = tw_picture_fit(heap, &picture, shape[0], shape[1], shape[2], t->value);
	heap->put(heap, picture.pixel);
}

static void *decode_some(void *arg)
{
	struct tw_picture_queue *q = arg;
	unsigned k;

	while ((k = atomic_fetch_add(&q->next, 1)) < q->count)
		decode(q->set, &q->taken[k]);
	return NULL;
}

/* Only the system's heap serves several threads. */
static unsigned helpers(const struct tw_picture_queue *q)
{
	const unsigned cores = tw_cores();
	const unsigned most = cores > THREADS ? THREADS : cores;

	if (q->set->d->heap != &tw_heap_system)
		return 0;
	return (q->count < most ? q->count : most) - 1;
}

/* All that is in the queue, by this thread and by helpers. */
static void decode_all(struct tw_picture_queue *q)
{
	const unsigned wanted = helpers(q);
	pthread_t helper[THREADS];
	unsigned started = 0;
	sigset_t all, before;

	atomic_store(&q->next, 0);
	sigfillset(&all); /* signals are for the threads that know of them */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (started < wanted && !pthread_create(&helper[started], NULL, decode_some, q))
		started++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	decode_some(q);
	while (started > 0)
		pthread_join(helper[--started], NULL);
}

static enum tw_status place(struct tw_picture_set *p, const struct taken *t, struct tw_error *why)
{
	if (t->got == TW_PICTURE_NO_MEMORY)
		return no_memory(p, t->name, why);
	if (t->got != TW_PICTURE_GOOD) {
		tw_pictures_trouble(p, t->got, t->name, t->said);
		return TW_OK;
	}
	count_good(p, t->name, &t->look);
	if (p->done == p->room || t->resized)
		return tw_fail(why, TW_BAD_INPUT,
			       "%.200s: %.200s was changed while it was read; try again", p->name,
			       t->name);
	memcpy(p->value + p->done * p->d->features, t->value, p->d->features);
	p->label[p->done++] = t->label;
	return TW_OK;
}

/* Pictures of the queue become samples, in its order. */
static enum tw_status flush(struct tw_picture_set *p, struct tw_error *why)
{
	struct tw_picture_queue *q = p->queue;
	enum tw_status st = TW_OK;

	if (!q || q->count == 0)
		return TW_OK;
	decode_all(q);
	for (unsigned k = 0; k < q->count; k++) {
		if (st == TW_OK)
			st = place(p, &q->taken[k], why);
		p->d->heap->put(p->d->heap, q->taken[k].bytes);
	}
	q->count = 0;
	q->bytes = 0;
	return st;
}

static enum tw_status make_queue(struct tw_picture_set *p, struct tw_error *why)
{
	struct tw_heap *heap = p->d->heap;
	struct tw_picture_queue *q = tw_heap_zeros(heap, sizeof *q);

	if (q)
		q->room = heap->get(heap, QUEUE * p->d->features);
	if (!q || !q->room) {
		heap->put(heap, q);
		return tw_data_keep_no_memory(why, p->name, QUEUE * p->d->features);
	}
	q->set = p;
	for (unsigned k = 0; k < QUEUE; k++)
		q->taken[k].value = q->room + k * p->d->features;
	p->queue = q;
	return TW_OK;
}

enum tw_status tw_pictures_take(struct tw_picture_set *p, const char *name, const void *bytes,
				size_t n, uint32_t label, struct tw_error *why)
{
	struct tw_picture_queue *q;
	struct taken *t;
	enum tw_status st = p->queue ? TW_OK : make_queue(p, why);

	if (st != TW_OK)
		return st;
	q = p->queue;
	t = &q->taken[q->count];
	t->bytes = p->d->heap->get(p->d->heap, n + 1);
	if (!t->bytes)
		return no_memory(p, name, why);
	if (n)
		memcpy(t->bytes, bytes, n);
	t->n = n;
	t->label = label;
	snprintf(t->name, sizeof t->name, "%s", name);
	q->count++;
	q->bytes += n;
	return q->count == QUEUE || q->bytes >= QUEUE_BYTES ? flush(p, why) : TW_OK;
}

void tw_pictures_release(struct tw_picture_set *p)
{
	struct tw_picture_queue *q = p->queue;

	if (!q)
		return;
	for (unsigned k = 0; k < q->count; k++)
		p->d->heap->put(p->d->heap, q->taken[k].bytes);
	p->d->heap->put(p->d->heap, q->room);
	p->d->heap->put(p->d->heap, q);
	p->queue = NULL;
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
	const enum tw_status st = flush(p, why);

	if (st != TW_OK)
		return st;
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
