/* SPDX-License-Identifier: Apache-2.0 */
/* args.h - a command line against the tables of the verbs. */
#ifndef TW_CLI_ARGS_H
#define TW_CLI_ARGS_H

#include "base/arena.h"
#include "cli/verb.h"

/* Flags that every verb takes, before or after its name. */
struct tw_common {
	bool help, version, quiet, verbose;
};
extern const struct tw_flag tw_common_flags[];

struct tw_args {
	struct tw_arena arena;
	struct tw_common common;
	const struct tw_verb *verb; /* NULL: none was named */
	void *flags;
	const char **word;
	size_t words;
};

/* Parse.  On failure *why is one sentence, with the nearest name for what is unknown; release in
 * any case.  With --help or --version words are not counted. */
enum tw_status tw_args_parse(struct tw_args *a, int argc, char *const *argv, struct tw_error *why);
void tw_args_release(struct tw_args *a);

#endif
