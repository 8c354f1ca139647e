/* SPDX-License-Identifier: Apache-2.0 */
/* option.h - options are rows of a table, and the table is the only place that knows them.
 *
 * From a row come: parsing, range check, --help, --explain, the reference page, the man page and
 * the environment variable.  A row writes one field of a plain struct. */
#ifndef TW_BASE_OPTION_H
#define TW_BASE_OPTION_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>

enum tw_option_type {
	TW_BOOL,   /* bool: true | false */
	TW_U32,    /* uint32_t */
	TW_U64,    /* uint64_t */
	TW_F32,    /* float */
	TW_F64,    /* double */
	TW_TIME,   /* int64_t nanoseconds; text needs a unit: ns us ms s min h */
	TW_SIZE,   /* uint64_t bytes; text needs a unit: B KiB MiB GiB kB MB GB */
	TW_BITS,   /* double bits per second; text needs a unit: bit/s kbit/s Mbit/s Gbit/s */
	TW_EPOCHS, /* double; text needs the unit: "0.2 epochs" */
	TW_CHOICE, /* uint32_t: the index in `choices` */
	TW_TEXT,   /* const char *: lives as long as what was read */
	TW_F64S,   /* struct tw_f64s: a list of numbers */
	TW_WORDS,  /* const char *: as TW_TEXT; a list of words is "[a, b]" */
	TW_EXTENT, /* struct tw_extent: "5x3" is 5 high and 3 wide; "5" is 5x5 */
};

struct tw_f64s {
	const double *at;
	size_t count;
};

struct tw_extent {
	uint32_t h, w;
};

struct tw_option {
	const char *name;
	const char *standard;       /* default as text, "" for TW_TEXT none; NULL: must be given */
	const char *unit;           /* for help: "steps", "updates"; NULL none */
	const char *help;           /* one line */
	const char *const *choices; /* TW_CHOICE: names, NULL at the end */
	size_t offset;
	enum tw_option_type type;
	const char
		*unset; /* TW_F64: a word that may stand in the place of a number: NAN; NULL none */
	double min, max; /* inclusive; min == max == 0: any (numbers must still be finite) */
	/* A value that people use, for help; NULL: the default is one.  A number or a list whose
	 * default is an end of its range ("0: none") must have one. */
	const char *example;

	/* An alias is a row that may be given instead of another one of its table, and decides its
	 * value.  `stands_for` is that row's name; NULL: this is no alias.  While an alias has its
	 * default, it says nothing. */
	const char *stands_for;
	/* Alias: write the row that it stands for, from what is at `base` and the number of
	 * workers.  TW_BAD_INPUT with a sentence without the alias's name where that cannot be.
	 * Whoever calls it checks the value written against its row. */
	enum tw_status (*convert)(void *base, uint32_t workers, struct tw_error *why);
};

/* After the help text, a row may go on with `.example = "0.9"`. */
#define TW_OPTION(s, field, kind, default_text, unit_text, low, high, ...)                         \
	{                                                                                          \
		.name = #field, .standard = default_text, .unit = unit_text,                       \
		.offset = offsetof(s, field), .type = kind, .min = low, .max = high,               \
		.help = __VA_ARGS__                                                                \
	}
#define TW_OPTION_AS(s, field, key, kind, default_text, unit_text, low, high, ...)                 \
	{                                                                                          \
		.name = key, .standard = default_text, .unit = unit_text,                          \
		.offset = offsetof(s, field), .type = kind, .min = low, .max = high,               \
		.help = __VA_ARGS__                                                                \
	}
#define TW_OPTION_CHOICE(s, field, key, default_text, names, help_text)                            \
	{                                                                                          \
		.name = key, .standard = default_text, .help = help_text, .choices = names,        \
		.offset = offsetof(s, field), .type = TW_CHOICE                                    \
	}
#define TW_OPTION_ALIAS(s, field, kind, default_text, low, high, other, function, ...)             \
	{                                                                                          \
		.name = #field, .standard = default_text, .offset = offsetof(s, field),            \
		.type = kind, .min = low, .max = high, .stands_for = other, .convert = function,   \
		.help = __VA_ARGS__                                                                \
	}
#define TW_OPTION_END                                                                              \
	{                                                                                          \
		.name = NULL                                                                       \
	}

/* Parse `text` as the row's value into the struct at `base`.  On failure *why is one sentence
 * without place ("collect: needs a whole number from 1 to 65536, not 'x'").  Text and lists are
 * kept in `keep` (see arena.h). */
struct tw_arena;
enum tw_status tw_option_set(const struct tw_option *row, void *base, const char *text,
			     struct tw_arena *keep, struct tw_error *why);
/* Write every row's default. */
enum tw_status tw_option_defaults(const struct tw_option *rows, void *base, struct tw_arena *keep,
				  struct tw_error *why);
/* The row of that name, or NULL. */
const struct tw_option *tw_option_find(const struct tw_option *rows, const char *name);
/* The value at `base` as text that tw_option_set would read back to the same bits. */
void tw_option_text(const struct tw_option *row, const void *base, char *out, size_t room);
/* What the row accepts, for people: "a whole number from 1 to 65536", "a time such as 5s". */
void tw_option_accepts(const struct tw_option *row, char *out, size_t room);
/* A value for help that the row accepts and people use: its example, or the default. */
void tw_option_example(const struct tw_option *row, char *out, size_t room);
/* The name among `names` (NULL-terminated) that is nearest to `wrong`, or NULL if none is near. */
const char *tw_nearest(const char *wrong, const char *const *names);

#endif
