/* SPDX-License-Identifier: Apache-2.0 */
/* registries.h - the tables of variants, and the fields of a job that take names from them.
 *
 * From a row come: reading, refusals of names that are unknown, fields that variants bring in,
 * lists of names, topics of help, the reference page and completion. */
#ifndef TW_SPEC_REGISTRIES_H
#define TW_SPEC_REGISTRIES_H

#include "base/variant.h"

/* Where a table's names are listed: with the layers, the last row first, or with the presets, in
 * this order. */
enum tw_list { TW_LIST_NETWORKS = -1, TW_LIST_FIRST, TW_LIST_NEXT, TW_LIST_LAST };

/* A field that takes names from a table.  Where several do, the first one has the title. */
struct tw_registry {
	const char *field;  /* "strategy.gate" */
	const char *also;   /* the section, where its value may be the name; NULL: it may not */
	const char *prefix; /* of the fields that a variant brings in: "strategy." */
	const struct tw_variant *const *heads; /* NULL at the end */
	uint32_t with, without;                /* traits of those that fit */
	const char *kind;                      /* "gate" */
	const char *about;                     /* "which decides ..."; NULL: its name says enough */
	bool none;                             /* "none" is a name, too: of no variant */
	bool always;                           /* every strategy has one */

	/* In struct tw_job: what is chosen (NULL: none), and its options (0: they have none). */
	size_t chosen, options;
	/* Rows that come with any of them, and whose they are in struct tw_job; NULL: none.
	 * `any_called`: their group has this name and comes here; NULL: it is a fixed one. */
	const struct tw_option *any;
	size_t any_at;
	const char *any_called;

	const char *title;  /* "Gates"; NULL: another row or list has the names */
	const char *fields; /* what the list says takes the names; NULL: field */
	enum tw_list list;
	const char *more; /* a column of its own, and its text for one of them; NULL: none */
	const char *(*tell)(const struct tw_variant *v, char *out, size_t room);
};

extern const struct tw_registry tw_registries[]; /* field NULL at the end */

/* The row of a field that has one. */
const struct tw_registry *tw_registry_of(const char *field);
/* Name number k that a field takes, of variants or presets, and its help; NULL after the last. */
const char *tw_name_at(const char *field, size_t k, const char **help);

#endif
