/* SPDX-License-Identifier: Apache-2.0 */
/* source.h - where samples come from: one file per source in source/, each with its option rows. */
#ifndef TW_DATA_SOURCE_H
#define TW_DATA_SOURCE_H

#include "base/arena.h"
#include "base/sha256.h"
#include "base/status.h"
#include "base/variant.h"
#include "data/columns.h"
#include "data/listener.h"
#include "data/names.h"
#include "data/samples.h"
#include "data/statistics.h"
#include "data/warn.h"

#include <stdbool.h>
#include <stdint.h>

#define TW_DATA_RANK   3
#define TW_CLASSES_MAX 65536u

enum tw_value { TW_VALUE_U8, TW_VALUE_F32 };

/* How samples of a table are held out. */
enum tw_hold {
	TW_HOLD_RANDOM,
	TW_HOLD_CLASS,  /* the same share of each class */
	TW_HOLD_COLUMN, /* a column says it: train, validation or test */
	TW_HOLD_GROUP,  /* rows with the same word in a column stay together */
	TW_HOLD_TIME,   /* the last rows by a column */
	TW_HOLD_FILE,   /* the test set has a file of its own; of a text, the rest is in parts */
	TW_HOLD_PARTS,  /* the last samples are the test set, those before them validation */
};

/* A data set: bytes for images, floats for tables; normalised when a batch is made.  Nothing in it
 * changes after it was opened; any thread may read. */
struct tw_data {
	struct tw_heap *heap;
	void *memory[24]; /* what tw_data_close puts back */
	size_t memories;
	struct tw_supply *supply[6]; /* what it closes */
	size_t supplies;
	struct tw_arena small;              /* names and columns of a table; as `memory` */
	uint32_t rank, shape[TW_DATA_RANK]; /* 1: features; 3: channels, height, width */
	size_t features;                    /* product of the shape */
	enum tw_value kind;
	uint32_t classes, targets;
	/* Features are tokens in their order: numbers below `classes`, which are not normalised.
	 * Each has a label, the token after it. */
	bool tokens;
	/* The sets were made when the data was imported, and its fingerprint came with it. */
	bool divided;
	struct tw_names names;
	const uint8_t *packed; /* the names as bytes (names_pack.h) */
	uint64_t packed_bytes;
	struct tw_samples train, test, validation; /* count 0: there are none */
	struct tw_statistics known;                /* of `train`, where they came with it */
	/* What a network sees of feature i: raw * scale[i] + shift[i]; features of them each. */
	const float *scale, *shift;
	/* Where a network predicts scaled targets, target k is its output * target_scale[k] +
	 * target_shift[k].  NULL: they are not scaled. */
	const float *target_scale, *target_shift;
	/* Of each training sample, 1 on the average; NULL: all are 1, or, if `weighs`, they come
	 * with the samples. */
	const float *weight;
	bool weighs;
	const uint8_t *as_is; /* features that are 1 here are not scaled; NULL: all are */
	/* Of a table: what its columns are.  Between the source and tw_columns_fit the values are
	 * raw (data/columns.h).  NULL: it is none, or was not read from there. */
	struct tw_columns *columns;
	/* How the split is made, and what it is made by: a number for each row of the source.
	 * COLUMN: enum tw_data_set; GROUP: number of its word; TIME: later is more. */
	enum tw_hold hold;
	const double *hold_key;
	const struct tw_warnings *notes; /* what was decided without being asked; as `warnings` */
	const struct tw_warnings *warnings; /* of the source; NULL: it was not read from there */
	struct tw_sha fingerprint; /* of shape, names, values and labels; not of what was made of
				      them by normalising */
};

/* Labels of one sample. */
static inline size_t tw_data_labels(const struct tw_data *d)
{
	return d->tokens ? d->features : 1;
}

struct tw_reach;

/* What a source needs to know of its surroundings. */
struct tw_source_site {
	struct tw_heap *heap;
	const char *cache; /* folder where fetched data sets are; "" if unknown */
	/* How far paths of the options reach (data/input.h); NULL: everywhere, from here.  The
	 * cache is no such path: it is the user's own. */
	const struct tw_reach *base;
	struct tw_warnings *warnings, *notes;    /* NULL: dropped.  tw_data_open's own */
	const struct tw_data_listener *listener; /* NULL: nobody */
};

/* A file of a data set that can be fetched: what it must be. */
struct tw_fetched_file {
	const char *name;
	uint64_t bytes;
	const char *hash; /* SHA-256 */
};

/* How a data set is got from elsewhere (fetch.c): commands that leave its files in `leaves`, below
 * a fresh folder.  What they leave there is taken only if every piece is what it must be. */
struct tw_recipe {
	const char *help;  /* what is fetched, in one line */
	const char *needs; /* the program that fetches it */
	const char *leaves;
	const struct tw_fetched_file *pieces; /* name NULL at the end */
	const char *const *const *commands; /* each a list of words, NULL at the end; so is this */
};

/* Files of a kind, by the end of their names. */
struct tw_source_file {
	const char *suffix; /* ".tsv", small letters */
	const char *also;   /* options that such a file needs, as in a job; NULL: none */
};

/* What a job may train on samples. */
struct tw_source_model {
	const char *what; /* "two hidden layers" */
	/* Sections of a job, one to a line with a comment, without `data`; and the fields of
	 * that, as the inside of a map. */
	const char *sections, *data;
};

struct tw_source {
	TW_VARIANT; /* options: rows of data.* that this source brings in */
	/* Files that it reads, for people who name one in place of a job; the first option without
	 * a default takes it.  suffix NULL at the end; NULL: none. */
	const struct tw_source_file *files;
	/* Models that suit such samples; what NULL at the end.  The first is usual: a job that
	 * names no model trains it.  `thalweg init` tries the others, and takes the first of those
	 * that are equally good.  NULL: a model must be named. */
	const struct tw_source_model *models;
	bool endless; /* its training set is unbounded (samples.h) */
	bool drawn;   /* it draws its samples itself, and needs no files */
	/* Options of a small set, "count=40", NULL at the end: what the contract suite tries.
	 * Every source that draws has them; the suite makes files for the others. */
	const char *const *sample;
	bool splits; /* it may lack a test set: then data.test says how much is held out */
	/* Options that name a file of test samples, and one of their answers; NULL: it has none. */
	const char *test_option, *answers_option;
	const struct tw_recipe *recipe; /* NULL: there is nothing to fetch */
	/* Read all of it: shape, kind, classes or targets, names, train and test (where it has
	 * one).  Normalisation and splits are the caller's (tw_data_open).  On failure nothing is
	 * kept and *why is one sentence that names the file (with line or byte) and what would be
	 * accepted: TW_BAD_INPUT for a file that is not what it should be or is missing. */
	enum tw_status (*open)(const void *options, const struct tw_source_site *site,
			       struct tw_data *out, struct tw_error *why);
};

TW_REGISTRY(source, tw_source);

#endif
