/* SPDX-License-Identifier: Apache-2.0 */
/* choice.h - names that fields of a job take from the tables: presets, gates, networks, losses. */
#ifndef TW_SPEC_CHOICE_H
#define TW_SPEC_CHOICE_H

#include "base/option.h"

struct tw_choice {
	const char *field; /* "strategy.gate" */
	const char *also;  /* another field that takes the name; NULL: none */
	const char *name, *help;
	/* "a gate, which decides ..."; NULL: a preset or a loss, on which help says more. */
	const char *what;
	const char *prefix;           /* of the fields that it brings in: "strategy." */
	const struct tw_option *rows; /* those fields; NULL: none */
};

/* Choice number k of all there are; false after the last. */
bool tw_choice_at(size_t k, struct tw_choice *out);

#endif
