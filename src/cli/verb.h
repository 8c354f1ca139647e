/* SPDX-License-Identifier: Apache-2.0 */
/* verb.h - a verb of the command line is one file in verb/ with one table of this form.
 *
 * From the table come parsing, `--help`, the man page and the reference page; nothing else knows a
 * verb or its flags. */
#ifndef TW_CLI_VERB_H
#define TW_CLI_VERB_H

#include "base/machine/log.h"
#include "base/variant.h"

enum tw_exit {
	TW_EXIT_DONE = 0,
	TW_EXIT_FAILED = 1,
	TW_EXIT_WRONG = 2,        /* the request was wrong */
	TW_EXIT_INTERRUPTED = 75, /* after a clean checkpoint: run again to resume */
	TW_EXIT_SIGNAL = 128,     /* + the signal's number */
};

/* Texts of a flag that may be given many times, in order. */
struct tw_texts {
	const char **at;
	size_t count, room;
};

/* --name, or -letter, with a value unless it is TW_BOOL. */
struct tw_flag {
	struct tw_option option; /* `help` is one line; offset is in the verb's flags struct */
	/* What help calls the value; NULL for TW_BOOL.  Shells complete a DIR as a folder, FILE,
	 * JOB, PATH and PROGRAM as files, and what begins with PATH= as a field of a job. */
	const char *value;
	char letter; /* 0: none */
	bool many;   /* the field is a struct tw_texts */
};

#define TW_FLAG(s, field, key, kind, standard_, value_, low, high, help_)                          \
	{                                                                                          \
		.option = TW_OPTION_AS(s, field, key, kind, standard_, NULL, low, high, help_),    \
		.value = value_                                                                    \
	}
#define TW_FLAG_MANY(s, field, key, value_, help_)                                                 \
	{                                                                                          \
		.option = TW_OPTION_AS(s, field, key, TW_TEXT, "", NULL, 0, 0, help_),             \
		.value = value_, .many = true                                                      \
	}
#define TW_FLAG_SHORT(s, field, key, letter_, help_)                                               \
	{                                                                                          \
		.option = TW_OPTION_AS(s, field, key, TW_BOOL, "false", NULL, 0, 0, help_),        \
		.letter = letter_                                                                  \
	}
/* It takes no value: it is there or not. */
#define TW_SWITCH(s, field, key, help_) TW_FLAG_SHORT(s, field, key, 0, help_)
#define TW_FLAG_END                                                                                \
	{                                                                                          \
		.option = TW_OPTION_END                                                            \
	}

struct tw_terminal;

/* One call of a verb, parsed. */
struct tw_call {
	const void *flags; /* the verb's flags struct, filled */
	const char *const *word;
	size_t words;
	struct tw_terminal *terminal;
	const struct tw_log *log; /* the terminal's */
	bool quiet;
};

struct tw_example {
	const char *command, *what;
};

struct tw_verb {
	TW_VARIANT;                       /* without options: flags are in their place */
	const char *words;                /* "JOB", "[WHAT]"; "" for none; see tw_flag.value */
	const char *about;                /* a few lines for --help, each ended by \n */
	const struct tw_example *example; /* command NULL at the end; at least one */
	const struct tw_flag *flags;      /* option.name NULL at the end; NULL: none */
	size_t flags_bytes;
	size_t least, most; /* words */
	/* Name number k of those that the first word may be; NULL after the last.  The text lives
	 * until the next call.  NULL: the word is no such name. */
	const char *(*word_at)(size_t k);
	/* Continues when its stdout is closed.  A verb that only prints then ends silently by
	 * SIGPIPE, as other programs do. */
	bool works;

	/* Do it.  Results go to stdout, everything else through the log.  Returns the exit code. */
	int (*run)(const struct tw_call *call);
};

TW_REGISTRY(verb, tw_verb);

/* Log the failure, and return its exit code. */
int tw_exit_for(const struct tw_call *call, const struct tw_error *why);

#endif
