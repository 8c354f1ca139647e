/* SPDX-License-Identifier: Apache-2.0 */
/* picture_set.h - pictures become the samples of a set: what a folder and a tar file share.
 *
 * A source goes over its files twice.  First it shows each picture (tw_pictures_look), so that
 * their number, size and channels are known; then tw_pictures_settle makes room, and it hands over
 * each with its label (tw_pictures_take).  Pictures are decoded some at a time, by as many threads
 * as there are processors, and are samples in the order in which they came.  What cannot be read is
 * counted by the kind of trouble; tw_pictures_done says each kind in one sentence: an error, or
 * warnings where it may be left out. */
#ifndef TW_DATA_FORMAT_PICTURE_SET_H
#define TW_DATA_FORMAT_PICTURE_SET_H

#include "base/option.h"
#include "data/format/picture/picture.h"
#include "data/source.h"

/* Kinds of trouble: those of a picture, and those of a sample. */
enum tw_sample_trouble {
	TW_SAMPLE_UNLABELLED = TW_PICTURE_NO_MEMORY, /* there is no count of that one */
	TW_SAMPLE_BAD_LABEL,
	TW_SAMPLE_NO_PICTURE,
	TW_SAMPLE_TWO_PICTURES,
	TW_SAMPLE_TWO_LABELS,
	TW_SAMPLE_LOST,
	TW_SAMPLE_TROUBLES
};

/* Options that such sources share. */
struct tw_picture_wishes {
	struct tw_extent size; /* of all pictures; 0: as they are */
	uint32_t channels;     /* enum tw_picture_channels */
	uint32_t unreadable;   /* enum tw_picture_unreadable */
};
enum tw_picture_channels { TW_CHANNELS_AUTO, TW_CHANNELS_1, TW_CHANNELS_3 };
enum tw_picture_unreadable { TW_UNREADABLE_REFUSE, TW_UNREADABLE_SKIP };
extern const char *const tw_picture_channel_names[], *const tw_picture_unreadable_names[];
#define TW_PICTURE_ROWS(s, field)                                                                  \
	TW_OPTION_AS(s, field.size, "size", TW_EXTENT, "0", "pixels", 0, 16384,                    \
		     "height x width that all images get: scaled to cover it, and cut at its "     \
		     "centre; 0: as they are, if all have the same",                               \
		     .example = "32x32"),                                                          \
		TW_OPTION_CHOICE(                                                                  \
			s, field.channels, "channels", "auto", tw_picture_channel_names,           \
			"1: grey; 3: red, green and blue; auto: 1 if all images are grey"),        \
		TW_OPTION_CHOICE(                                                                  \
			s, field.unreadable, "unreadable", "refuse", tw_picture_unreadable_names,  \
			"images that are broken, empty or too large: refuse the data, or "         \
			"leave them out (skip) and say how many")

struct tw_picture_set {
	const struct tw_picture_wishes *wishes;
	const char *name; /* of the folder or file, for sentences */
	struct tw_data *d;
	bool first; /* it decides shape and channels; else it must have those of `d` */
	/* what was seen */
	uint64_t seen, good, trouble[TW_SAMPLE_TROUBLES];
	char example[TW_SAMPLE_TROUBLES][140];
	uint64_t grey, deep, alpha, cmyk;
	struct tw_picture_look look;    /* of the first good one */
	char looked[140], odd[140];     /* its name; that of one with another size, and its size */
	struct tw_picture_queue *queue; /* taken and not decoded yet; NULL: never taken */
	/* room for the samples */
	uint64_t room, done;
	uint8_t *value;
	uint32_t *label;
};

/* `first`: of the training set. */
void tw_pictures_init(struct tw_picture_set *p, const struct tw_picture_wishes *wishes,
		      const char *name, struct tw_data *d, bool first);
/* One picture; `name` is for sentences.  TW_NO_MEMORY. */
enum tw_status tw_pictures_look(struct tw_picture_set *p, const char *name, const void *bytes,
				size_t n, struct tw_error *why);
/* Count a sample that cannot be used. */
void tw_pictures_trouble(struct tw_picture_set *p, unsigned trouble, const char *name,
			 const char *said);
/* Decide shape and channels, and make room.  TW_BAD_INPUT where there is no picture, or they do
 * not fit together. */
enum tw_status tw_pictures_settle(struct tw_picture_set *p, struct tw_error *why);
/* The next sample; the bytes are copied. */
enum tw_status tw_pictures_take(struct tw_picture_set *p, const char *name, const void *bytes,
				size_t n, uint32_t label, struct tw_error *why);
/* Put back what taking needed; in any case, at the end. */
void tw_pictures_release(struct tw_picture_set *p);
/* Say what was wrong, and set *out. */
enum tw_status tw_pictures_done(struct tw_picture_set *p, const struct tw_source_site *site,
				struct tw_samples *out, struct tw_error *why);
/* Does a file of this name hold a picture? */
bool tw_picture_named(const char *name);

#endif
