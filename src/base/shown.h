/* SPDX-License-Identifier: Apache-2.0 */
/* shown.h - a text from outside, short and printable, for a sentence about it. */
#ifndef TW_BASE_SHOWN_H
#define TW_BASE_SHOWN_H

struct tw_shown {
	char text[81];
};

/* What is not printable ASCII becomes '?'; what is too long ends in "...". */
struct tw_shown tw_show(const char *text);

#endif
