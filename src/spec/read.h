/* SPDX-License-Identifier: Apache-2.0 */
/* read.h - the steps between the text of a job and its values; for the files of this folder. */
#ifndef TW_SPEC_READ_H
#define TW_SPEC_READ_H

#include "base/variant.h"
#include "spec/field.h"

#define TW_FIELDS_MAX 256

/* What a strategy is of which the job does not say it (overrides.c). */
enum tw_standard {
	TW_STANDARD_ROUNDS,  /* the standard preset; a mapping without a gate has the gate's row */
	TW_STANDARD_AT_ONCE, /* a gate that applies each contribution at once: other fields need it
			      */
};

struct tw_reading {
	struct tw_job *job;
	struct tw_arena *keep;  /* the job's */
	struct tw_tree *root;   /* all that was given, and then what a preset adds */
	struct tw_field *field; /* the job's, TW_FIELDS_MAX of room */
	struct tw_error *why;
	enum tw_standard standard;
	bool stood;    /* ... and it decided something */
	bool compared; /* of tw_job_text */
};

/* In this order (overrides.c, variants.c, values.c): */
enum tw_status tw_read_outside(struct tw_reading *r, const struct tw_job_text *from);
enum tw_status tw_read_sections(struct tw_reading *r); /* no section is unknown */
enum tw_status tw_read_usual(struct tw_reading *r);    /* of a job that names no model */
enum tw_status tw_read_standard(struct tw_reading *r);
enum tw_status tw_read_preset(struct tw_reading *r);
/* Choose the variants, and bring in the rows with their defaults. */
enum tw_status tw_read_bind(struct tw_reading *r);
/* Give every row its value; what belongs to no row is refused, what is missing too. */
enum tw_status tw_read_values(struct tw_reading *r);

/* Parts of binding (choose.c): the rows at `base` under `prefix`; the value of a field that takes
 * the name of a `kind`, which must be among `n`. */
struct tw_name_list;
enum tw_status tw_read_rows(struct tw_reading *r, const char *prefix, const struct tw_option *rows,
			    void *base);
enum tw_status tw_read_choose(struct tw_reading *r, const char *path, const char *kind,
			      const struct tw_name_list *n, const char **out);
/* The variant that a field of registries.h chooses, its options, which come from the arena and are
 * never NULL, so that variants need not look; both, with the rows that come with any of them. */
enum tw_status tw_read_name(struct tw_reading *r, const char *field);
enum tw_status tw_read_options(struct tw_reading *r, const char *field);
enum tw_status tw_read_variant(struct tw_reading *r, const char *field);
/* Where a key is known that is not one of its section's: another program's name for a field, or a
 * field of that name elsewhere.  False: nowhere, and out is as it was. */
bool tw_read_elsewhere(const char *key, char *out, size_t room);
/* The sections that say what is trained on what (network_sections.c). */
enum tw_status tw_read_data(struct tw_reading *r);
enum tw_status tw_read_model(struct tw_reading *r);
enum tw_status tw_read_loss(struct tw_reading *r);
/* vary, tune and methods of the section compare (compare_section.c). */
enum tw_status tw_read_compare(struct tw_reading *r);

/* Refusals (read_refuse.c). */
enum tw_status tw_read_no_memory(struct tw_reading *r);
/* "place: path: reason"; a node of NULL stands for the file. */
enum tw_status tw_read_refuse(struct tw_reading *r, const struct tw_tree *node, const char *path,
			      const char *reason);

/* Names to choose from, as a sentence needs them; NULL after the last. */
struct tw_name_list {
	const char *at[TW_FIELDS_MAX + 1];
	size_t count;
};
void tw_names_add(struct tw_name_list *n, const char *name); /* once */
void tw_names_add_all(struct tw_name_list *n, const struct tw_variant *const *heads);
bool tw_names_have(const struct tw_name_list *n, const char *name);
/* "did you mean 'x'?", or `lead` and all of them. */
const char *tw_names_suggest(const struct tw_name_list *n, const char *wrong, const char *lead,
			     char *out, size_t room);

#endif
