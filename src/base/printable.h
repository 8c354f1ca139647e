/* SPDX-License-Identifier: Apache-2.0 */
/* printable.h - text from outside as it may stand on a terminal and in a log.
 *
 * Peers, files and users send bytes that a terminal would obey, or that make a line look like
 * another one.  Here each of them becomes '?': control characters (C0, DEL, C1 as bytes and as
 * UTF-8), bytes that are not UTF-8, marks that turn the direction of writing, and separators of
 * lines.  White space becomes a blank in a sentence, and '?' where a value is quoted.  The rest of
 * UTF-8 stays as it is.
 *
 * Every sentence (tw_fail) and every line of a log (tw_log_line) goes through here.  Text that
 * goes elsewhere must be sent through by whoever takes it from outside. */
#ifndef TW_BASE_PRINTABLE_H
#define TW_BASE_PRINTABLE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

struct tw_printable {
	char text[81];
};

/* Bytes of the character that begins at `text` (`left` bytes are there) if it stays as it is;
 * 0: it does not. */
size_t tw_harmless(const char *text, size_t left);
/* Is there nothing in it that would be changed? */
bool tw_is_printable(const char *text);
/* In place; it never becomes longer. */
void tw_printable(char *text);
/* A copy of at most room - 1 bytes of whole characters; what is too long ends in "...".  room is
 * at least 4.  Returns out. */
const char *tw_show_in(const char *text, size_t bytes, char *out, size_t room);
struct tw_printable tw_show(const char *text);

/* A number for printf: what is not a number has no sign, so that it is "nan" on every machine. */
static inline double tw_unsigned_nan(double x)
{
	return isnan(x) ? (double)NAN : x;
}

#endif
