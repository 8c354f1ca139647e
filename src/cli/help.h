/* SPDX-License-Identifier: Apache-2.0 */
/* help.h - help texts of the verbs, from their tables. */
#ifndef TW_CLI_HELP_H
#define TW_CLI_HELP_H

#include "cli/verb.h"

#include <stdio.h>

void tw_help_overview(FILE *out);
void tw_help_verb(FILE *out, const struct tw_verb *verb);
/* The verbs and their flags as a section of the reference page. */
void tw_help_markdown(FILE *out);
/* Markdown with its paragraphs and lists broken at 100 columns; tables stay as they are. */
void tw_help_wrapped(FILE *out, const char *text);
/* The manual page thalweg(1). */
void tw_help_man(FILE *out);

#endif
