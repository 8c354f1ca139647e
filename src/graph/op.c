/* SPDX-License-Identifier: Apache-2.0 */
/* op.c - finding an op by name and reading what stands behind its name. */
#include "graph/loss.h"

#include <ctype.h>
#include <string.h>

#define WORD_ROOM 4096
#define ROWS_MAX  32

const struct tw_op *tw_op_at(size_t k)
{
	for (size_t f = 0; tw_op_family_all[f]; f++)
		for (const struct tw_op *const *op = tw_op_family_all[f]->op; *op; op++)
			if (k-- == 0)
				return *op;
	for (size_t l = 0; tw_loss_all[l]; l++)
		if (k-- == 0)
			return &tw_loss_all[l]->op;
	return NULL;
}

const struct tw_op *tw_op_find(const char *name)
{
	const struct tw_op *op;

	for (size_t k = 0; (op = tw_op_at(k)); k++)
		if (!strcmp(op->name, name))
			return op;
	return NULL;
}

const struct tw_op *tw_op_with(enum tw_op_trait trait)
{
	const struct tw_op *op;
	size_t k = 0;

	while ((op = tw_op_at(k)) && !(op->traits & trait))
		k++;
	HOLDS(2, op);
	return op;
}

/* The text's next word, and what was set so far. */
struct reading {
	const struct tw_op *op;
	const char *at;
	char word[WORD_ROOM];
	uint32_t given; /* bit per row */
	void *options;
	struct tw_arena *keep;
	struct tw_error *why;
};

/* TW_ABSENT at the end of the text. */
static enum tw_status next_word(struct reading *r)
{
	size_t n = 0;

	while (isspace((unsigned char)*r->at))
		r->at++;
	while (r->at[n] && !isspace((unsigned char)r->at[n]))
		n++;
	if (n == 0)
		return TW_ABSENT;
	if (n >= WORD_ROOM)
		return tw_fail(r->why, TW_BAD_INPUT, "'%.30s...' is too long for a word", r->at);
	memcpy(r->word, r->at, n);
	r->word[n] = '\0';
	r->at += n;
	return TW_OK;
}

static enum tw_status set_row(struct reading *r, const struct tw_option *row)
{
	const uint32_t bit = UINT32_C(1) << (row - r->op->options);

	if (r->given & bit)
		return tw_fail(r->why, TW_BAD_INPUT, "%s is given twice", row->name);
	r->given |= bit;
	return tw_option_set(row, r->options, r->word, r->keep, r->why);
}

static enum tw_status unknown(struct reading *r)
{
	const char *names[ROWS_MAX + 1] = { NULL };
	char list[300] = "";
	const char *near;

	for (size_t k = 0; r->op->options && r->op->options[k].name; k++) {
		const size_t used = strlen(list);

		names[k] = r->op->options[k].name;
		if (used + strlen(names[k]) + 3 < sizeof list) {
			strcat(list, used ? ", " : "");
			strcat(list, names[k]);
		}
	}
	if (!names[0])
		return tw_fail(r->why, TW_BAD_INPUT, "takes no options, but got '%s'", r->word);
	near = tw_nearest(r->word, names);
	return tw_fail(r->why, TW_BAD_INPUT, "'%s' is not one of its options (there %s %s)%s%s%s",
		       r->word, names[1] ? "are" : "is", list, near ? "; did you mean '" : "",
		       near ? near : "", near ? "'?" : "");
}

/* A word in the place of a number that is nearly an option's name is that, misspelt. */
static bool misspelt(const struct reading *r, const struct tw_option *row)
{
	const char *names[ROWS_MAX + 1] = { NULL };

	if (row->type == TW_TEXT || row->type == TW_CHOICE || row->type == TW_BOOL)
		return false;
	for (size_t k = 0; r->op->options[k].name; k++)
		names[k] = r->op->options[k].name;
	return isalpha((unsigned char)r->word[0]) && tw_nearest(r->word, names);
}

static enum tw_status read_words(struct reading *r)
{
	const struct tw_option *rows = r->op->options;
	uint32_t position = 0;
	enum tw_status st;

	while ((st = next_word(r)) == TW_OK) {
		const struct tw_option *row = rows ? tw_option_find(rows, r->word) : NULL;

		if (!row) {
			if (position >= r->op->positional || misspelt(r, rows + position))
				return unknown(r);
			row = rows + position++;
		} else {
			position = r->op->positional; /* names follow from here on */
			st = next_word(r);
			if (st == TW_ABSENT)
				return tw_fail(r->why, TW_BAD_INPUT, "%s needs a value", row->name);
			if (st != TW_OK)
				return st;
		}
		st = set_row(r, row);
		if (st != TW_OK)
			return st;
	}
	return st == TW_ABSENT ? TW_OK : st;
}

static enum tw_status all_given(struct reading *r)
{
	const struct tw_option *rows = r->op->options;

	for (size_t k = 0; rows && rows[k].name; k++) {
		char accepts[300];

		if (rows[k].standard || (r->given >> k & 1))
			continue;
		tw_option_accepts(&rows[k], accepts, sizeof accepts);
		return tw_fail(r->why, TW_BAD_INPUT, "%s must be given: %s", rows[k].name, accepts);
	}
	return TW_OK;
}

enum tw_status tw_op_parse(const struct tw_op *op, const char *text, void *options,
			   struct tw_arena *keep, struct tw_error *why)
{
	struct reading r = { .op = op, .at = text, .options = options, .keep = keep, .why = why };
	enum tw_status st = TW_OK;
	size_t rows = 0;

	while (op->options && op->options[rows].name)
		rows++;
	HOLDS(1, rows <= ROWS_MAX && op->positional <= rows);
	if (op->options_bytes)
		memset(options, 0, op->options_bytes);
	if (op->options)
		st = tw_option_defaults(op->options, options, keep, why);
	if (st == TW_OK)
		st = read_words(&r);
	return st == TW_OK ? all_given(&r) : st;
}

/* Height and width, 1 where there is none. */
static uint32_t side(const struct tw_shape *s, uint32_t k)
{
	return k < s->rank ? s->d[k] : 1;
}

void tw_op_c_write(const struct tw_op *op, const struct tw_op_site *site, FILE *out)
{
	const struct tw_shape *in = &site->in[0], *to = &site->out;

	fprintf(out,
		"\tenum { N = %zu, C = %u, H = %u, W = %u, M = %zu, MC = %u, MH = %u, MW = %u "
		"};\n\n",
		tw_shape_size(in), in->d[0], side(in, 1), side(in, 2), tw_shape_size(to), to->d[0],
		side(to, 1), side(to, 2));
	op->c(site, out);
}
