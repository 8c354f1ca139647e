/* SPDX-License-Identifier: Apache-2.0 */
/* export_c_cells.c - cells of a table, as text, to the inputs of a network, in a C file.
 *
 * The same as data/format/table.c and data/columns.c do for `thalweg predict`: what is a number, a
 * date or a missing value must stay the same in both (test/export/c_file.py compares them). */
#include "checkpoint/export_c_cells.h"

#include "model/c_text.h"

static const char common[] =
	"/* Blanks around a cell do not count; NULL is an empty one. */\n"
	"static size_t trim(const char **cell)\n"
	"{\n"
	"\tsize_t n;\n"
	"\n"
	"\t*cell = *cell ? *cell : \"\";\n"
	"\t*cell += strspn(*cell, \" \\t\");\n"
	"\tfor (n = strlen(*cell); n && strchr(\" \\t\", (*cell)[n - 1]);)\n"
	"\t\tn--;\n"
	"\treturn n;\n"
	"}\n"
	"\n"
	"/* Is it one of the first `words` words for a missing value? */\n"
	"static int missing(const char *cell, size_t n, int words)\n"
	"{\n"
	"\tstatic const char *const list[] = { \"na\",   \"n/a\",  \"nan\", \"null\", \"<na>\",\n"
	"\t\t\t\t\t    \"#n/a\", \"none\", \"-\",   \"?\" };\n"
	"\n"
	"\tfor (int k = 0; k < words; k++) {\n"
	"\t\tsize_t i = 0;\n"
	"\n"
	"\t\tfor (; i < n && list[k][i]; i++) {\n"
	"\t\t\tconst int c = cell[i], low = c >= 'A' && c <= 'Z' ? c + 32 : c;\n"
	"\n"
	"\t\t\tif (low != list[k][i])\n"
	"\t\t\t\tbreak;\n"
	"\t\t}\n"
	"\t\tif (i == n && !list[k][i])\n"
	"\t\t\treturn 1;\n"
	"\t}\n"
	"\treturn n == 0;\n"
	"}\n"
	"\n";

static const char number[] =
	"static int take_number(const char *cell, float **in, float fill, int indicator)\n"
	"{\n"
	"\tconst size_t n = trim(&cell);\n"
	"\tconst int lacks = missing(cell, n, 9);\n"
	"\tdouble v = fill;\n"
	"\n"
	"\tif (!lacks) {\n"
	"\t\tchar *end = NULL;\n"
	"\n"
	"\t\tv = strspn(cell, \"0123456789+-.eE\") < n ? 0 : strtod(cell, &end);\n"
	"\t\tif (end != cell + n || !(fabs(v) <= 3.4028235677973362e38))\n"
	"\t\t\treturn 0;\n"
	"\t}\n"
	"\t*(*in)++ = (float)v;\n"
	"\tif (indicator)\n"
	"\t\t*(*in)++ = (float)lacks;\n"
	"\treturn MODEL_MISSING || !lacks;\n"
	"}\n"
	"\n";

static const char word[] =
	"/* An input for each word, and one for all others and missing ones. */\n"
	"static int take_word(const char *cell, float **in, const char *const *word, int words)\n"
	"{\n"
	"\tconst size_t n = trim(&cell);\n"
	"\tconst int lacks = missing(cell, n, 6);\n"
	"\tint at = words;\n"
	"\n"
	"\tfor (int k = 0; k <= words; k++)\n"
	"\t\t(*in)[k] = 0;\n"
	"\tfor (int k = 0; k < words && !lacks; k++)\n"
	"\t\tif (strlen(word[k]) == n && memcmp(word[k], cell, n) == 0)\n"
	"\t\t\tat = k;\n"
	"\t(*in)[at] = 1;\n"
	"\t*in += words + 1;\n"
	"\treturn MODEL_MISSING || !lacks;\n"
	"}\n"
	"\n";

static const char date[] =
	"/* A whole number of `least` to `most` digits; -1: there is none. */\n"
	"static int digits(const char **at, int least, int most)\n"
	"{\n"
	"\tint n = 0, v = 0;\n"
	"\n"
	"\tfor (; n < most && **at >= '0' && **at <= '9'; n++)\n"
	"\t\tv = v * 10 + *(*at)++ - '0';\n"
	"\treturn n >= least ? v : -1;\n"
	"}\n"
	"\n"
	"static int comes(const char **at, char c)\n"
	"{\n"
	"\tconst int yes = **at == c;\n"
	"\n"
	"\t*at += yes;\n"
	"\treturn yes;\n"
	"}\n"
	"\n"
	"/* Year, month and day: 2024-12-31, 2024/12/31, 31.12.2024, and with slashes or hyphens "
	"in the order\n"
	" * that the training data has. */\n"
	"static int read_day(const char **at, int day_first, int day[3])\n"
	"{\n"
	"\tstatic const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };\n"
	"\tconst char *from = *at;\n"
	"\tint first = digits(at, 1, 4), second, last, leap;\n"
	"\tconst char by = **at;\n"
	"\n"
	"\tif (first < 0 || !by || !strchr(\"-/.\", by) || (*at - from != 4 && *at - from > 2))\n"
	"\t\treturn 0;\n"
	"\tlast = *at - from != 4;\n"
	"\t++*at;\n"
	"\tsecond = digits(at, 1, 2);\n"
	"\tif (second < 0 || !comes(at, by))\n"
	"\t\treturn 0;\n"
	"\tif (last) {\n"
	"\t\tday[0] = digits(at, 4, 4);\n"
	"\t\tday[1] = by != '.' && !day_first ? first : second;\n"
	"\t\tday[2] = by != '.' && !day_first ? second : first;\n"
	"\t} else {\n"
	"\t\tday[0] = first;\n"
	"\t\tday[1] = second;\n"
	"\t\tday[2] = digits(at, 1, 2);\n"
	"\t}\n"
	"\tif (day[0] < 1 || day[1] < 1 || day[1] > 12)\n"
	"\t\treturn 0;\n"
	"\tleap = (day[0] % 4 == 0 && day[0] % 100 != 0) || day[0] % 400 == 0;\n"
	"\treturn day[2] >= 1 && day[2] <= days[day[1] - 1] + (day[1] == 2 && leap);\n"
	"}\n"
	"\n"
	"/* 14:30, 14:30:59.5, and behind it perhaps an offset, which is read and not applied. */\n"
	"static int read_time(const char **at, double *hour)\n"
	"{\n"
	"\tint h = digits(at, 1, 2), m, s = 0;\n"
	"\n"
	"\tif (h < 0 || h > 23 || !comes(at, ':') || (m = digits(at, 2, 2)) < 0 || m > 59)\n"
	"\t\treturn 0;\n"
	"\tif (comes(at, ':') && ((s = digits(at, 2, 2)) < 0 || s > 60))\n"
	"\t\treturn 0;\n"
	"\tif (comes(at, '.'))\n"
	"\t\t*at += strspn(*at, \"0123456789\");\n"
	"\t*hour = h + m / 60.0 + s / 3600.0;\n"
	"\tcomes(at, ' ');\n"
	"\tif (comes(at, 'Z') || !**at)\n"
	"\t\treturn 1;\n"
	"\tif ((!comes(at, '+') && !comes(at, '-')) || (h = digits(at, 2, 2)) < 0 || h > 23)\n"
	"\t\treturn 0;\n"
	"\tif (!**at)\n"
	"\t\treturn 1;\n"
	"\tcomes(at, ':');\n"
	"\treturn (m = digits(at, 2, 2)) >= 0 && m < 60;\n"
	"}\n"
	"\n"
	"/* Year, month, day, weekday (0 is Monday) and, as the fifth part, the hour. */\n"
	"static int read_date(const char *at, int day_first, int parts, float *out)\n"
	"{\n"
	"\tstatic const int before[] = { 306, 337, 0, 31, 61, 92, 122, 153, 184, 214, 245, 275 };\n"
	"\tdouble hour = 0;\n"
	"\tint day[3];\n"
	"\tlong y;\n"
	"\n"
	"\tif (!read_day(&at, day_first, day))\n"
	"\t\treturn 0;\n"
	"\tif (*at && !((comes(&at, 'T') || comes(&at, ' ')) && read_time(&at, &hour) && !*at))\n"
	"\t\treturn 0;\n"
	"\ty = day[0] - (day[1] <= 2);\n"
	"\tfor (int k = 0; k < 3; k++)\n"
	"\t\tout[k] = (float)day[k];\n"
	"\ty = 365 * y + y / 4 - y / 100 + y / 400 + before[day[1] - 1] + day[2] - 1;\n"
	"\tout[3] = (float)((y + 2) % 7); /* 0000-03-01 was a Wednesday */\n"
	"\tif (parts > 4)\n"
	"\t\tout[4] = (float)hour;\n"
	"\treturn 1;\n"
	"}\n"
	"\n"
	"static int take_date(const char *cell, float **in, const float *fill, int parts, int "
	"day_first,\n"
	"\t\t     int indicator)\n"
	"{\n"
	"\tconst size_t n = trim(&cell);\n"
	"\tconst int lacks = missing(cell, n, 9);\n"
	"\tchar text[100] = \"\";\n"
	"\n"
	"\tif (lacks)\n"
	"\t\tmemcpy(*in, fill, (size_t)parts * sizeof **in);\n"
	"\telse if (n >= sizeof text || !read_date(memcpy(text, cell, n), day_first, parts, *in))\n"
	"\t\treturn 0;\n"
	"\t*in += parts;\n"
	"\tif (indicator)\n"
	"\t\t*(*in)++ = (float)lacks;\n"
	"\treturn MODEL_MISSING || !lacks;\n"
	"}\n"
	"\n";

static const char program[] =
	"#ifdef MODEL_MAIN\n"
	"#include <stdio.h>\n"
	"\n"
	"struct row {\n"
	"\tchar *text;\n"
	"\tsize_t room;\n"
	"\tchar **cell;\n"
	"\tint cells, most;\n"
	"};\n"
	"\n"
	"static void *more(void *at, size_t bytes)\n"
	"{\n"
	"\tat = realloc(at, bytes);\n"
	"\tif (!at)\n"
	"\t\texit(EXIT_FAILURE);\n"
	"\treturn at;\n"
	"}\n"
	"\n"
	"/* The next line and its cells; 0 at the end. */\n"
	"static int next_row(struct row *r)\n"
	"{\n"
	"\tchar *from, *to, end = 1;\n"
	"\tsize_t n = 0;\n"
	"\tint c;\n"
	"\n"
	"\twhile ((c = getchar()) != EOF && c != '\\n') {\n"
	"\t\tif (n + 2 > r->room)\n"
	"\t\t\tr->text = more(r->text, r->room = 2 * n + 256);\n"
	"\t\tr->text[n++] = (char)c;\n"
	"\t}\n"
	"\tif (n == 0 && c == EOF)\n"
	"\t\treturn 0;\n"
	"\tif (!r->text)\n"
	"\t\tr->text = more(NULL, r->room = 256);\n"
	"\tr->text[n - (n && r->text[n - 1] == '\\r')] = 0;\n"
	"\tfor (r->cells = 0, from = to = r->text; end;) {\n"
	"\t\tint quoted = *from == '\"';\n"
	"\n"
	"\t\tif (r->cells == r->most)\n"
	"\t\t\tr->cell = more(r->cell, (size_t)(r->most = 2 * r->most + 16) * sizeof to);\n"
	"\t\tr->cell[r->cells++] = to;\n"
	"\t\tfor (from += quoted; *from && (quoted || *from != SEPARATOR); from++) {\n"
	"\t\t\tif (quoted && *from == '\"' && *++from != '\"') {\n"
	"\t\t\t\tquoted = 0;\n"
	"\t\t\t\tfrom--;\n"
	"\t\t\t\tcontinue;\n"
	"\t\t\t}\n"
	"\t\t\t*to++ = *from;\n"
	"\t\t}\n"
	"\t\tend = *from++;\n"
	"\t\t*to++ = 0;\n"
	"\t}\n"
	"\treturn 1;\n"
	"}\n"
	"\n"
	"static int is_name(const char *cell, int column)\n"
	"{\n"
	"\tsize_t n;\n"
	"\n"
	"\tcell += strncmp(cell, \"\\xEF\\xBB\\xBF\", 3) == 0 ? 3 : 0;\n"
	"\tn = trim(&cell);\n"
	"\treturn strlen(model_columns[column]) == n && memcmp(model_columns[column], cell, n) == "
	"0;\n"
	"}\n"
	"\n"
	"/* Where the columns are (-1: nowhere) by their names in this line; how many have one. "
	"*/\n"
	"static int find_columns(const struct row *r, int *place)\n"
	"{\n"
	"\tint found = 0;\n"
	"\n"
	"\tfor (int k = 0; k < MODEL_COLUMNS && model_columns[k]; k++) {\n"
	"\t\tplace[k] = -1;\n"
	"\t\tfor (int i = 0; i < r->cells && place[k] < 0; i++)\n"
	"\t\t\tif (is_name(r->cell[i], k))\n"
	"\t\t\t\tplace[k] = i;\n"
	"\t\tfound += place[k] >= 0;\n"
	"\t}\n"
	"\tfor (int k = 0; k < MODEL_COLUMNS && !found; k++)\n"
	"\t\tplace[k] = k;\n"
	"\treturn found;\n"
	"}\n"
	"\n"
	"/* Lines of cells from standard input.  If the first one has names of columns, it says "
	"where these\n"
	" * are, and other columns are not read; else a line has the cells of model_columns. */\n"
	"int main(void)\n"
	"{\n"
	"\tstatic float in[MODEL_INPUTS], out[MODEL_OUTPUTS];\n"
	"\tstatic const char *cell[MODEL_COLUMNS];\n"
	"\tstatic int place[MODEL_COLUMNS];\n"
	"\tstruct row r = { NULL, 0, NULL, 0, 0 };\n"
	"\tint columns = MODEL_COLUMNS, wrong;\n"
	"\n"
	"\tfor (unsigned long line = 1; next_row(&r); line++) {\n"
	"\t\tif (line == 1 && find_columns(&r, place)) {\n"
	"\t\t\tcolumns = r.cells;\n"
	"\t\t\tfor (int k = 0; k < MODEL_COLUMNS; k++)\n"
	"\t\t\t\tif (place[k] < 0) {\n"
	"\t\t\t\t\tfprintf(stderr, \"line 1: has no column %s\\n\", model_columns[k]);\n"
	"\t\t\t\t\treturn EXIT_FAILURE;\n"
	"\t\t\t\t}\n"
	"\t\t\tcontinue;\n"
	"\t\t}\n"
	"\t\tif (r.cells != columns) {\n"
	"\t\t\tfprintf(stderr, \"line %lu: has %d cells, not %d\\n\", line, r.cells, columns);\n"
	"\t\t\treturn EXIT_FAILURE;\n"
	"\t\t}\n"
	"\t\tfor (int k = 0; k < MODEL_COLUMNS; k++)\n"
	"\t\t\tcell[k] = r.cell[place[k]];\n"
	"\t\twrong = model_cells(cell, in);\n"
	"\t\tif (wrong) {\n"
	"\t\t\tfprintf(stderr, \"line %lu: '%s' is not what column %s needs\\n\", line,\n"
	"\t\t\t\tcell[wrong - 1], model_columns[0] ? model_columns[wrong - 1] : \"\");\n"
	"\t\t\treturn EXIT_FAILURE;\n"
	"\t\t}\n"
	"\t\tmodel_raw(in, out);\n"
	"\t\tfor (int k = 0; k < MODEL_OUTPUTS; k++)\n"
	"\t\t\tprintf(\"%.9g%c\", out[k], k + 1 < MODEL_OUTPUTS ? ',' : '\\n');\n"
	"\t}\n"
	"\tfree(r.text);\n"
	"\tfree(r.cell);\n"
	"\treturn EXIT_SUCCESS;\n"
	"}\n"
	"#endif\n";

bool tw_c_cells_can(const struct tw_columns *c)
{
	for (uint32_t k = 0; c && k < c->count; k++)
		if (tw_column_is_read(&c->column[k]))
			return true;
	return false;
}

/* A text that C takes back as it is. */
static void write_text(const char *text, FILE *out)
{
	fputs("\t\"", out);
	for (const unsigned char *c = (const unsigned char *)text; *c; c++)
		if (*c < 0x20)
			fprintf(out, "\\%03o", *c);
		else
			fprintf(out, *c == '"' || *c == '\\' || *c == '?' ? "\\%c" : "%c", *c);
	fputs("\",\n", out);
}

void tw_c_names(const char *list, const char *const *name, size_t n, FILE *out)
{
	fprintf(out, "extern const char *const %s[];\nconst char *const %s[] = {\n", list, list);
	for (size_t k = 0; name && k < n; k++)
		write_text(name[k], out);
	fputs("\tNULL,\n};\n\n", out);
}

static void write_columns(const struct tw_columns *c, FILE *out)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < c->count; k++)
		n += tw_column_is_read(&c->column[k]);
	fprintf(out,
		"/* A cell of the table is a text: model_cells makes MODEL_INPUTS numbers of "
		"MODEL_COLUMNS\n"
		" * cells, in the order of model_columns (which is empty if the table has no "
		"header).  NULL,\n"
		" * \"\" and NA are missing, and a word that the training data did not have is "
		"allowed.  It\n"
		" * returns 0, or the number from 1 of the first cell that is not what its column "
		"needs.\n"
		" * A point is the decimal point: the locale must be C's own. */\n"
		"#define MODEL_COLUMNS %u\n"
		"#define MODEL_MISSING %d /* 0: a missing value is refused, as in training */\n\n"
		"extern const char *const model_columns[];\nconst char *const model_columns[] = "
		"{\n",
		n, c->missing != TW_MISSING_DROP && c->missing != TW_MISSING_REFUSE);
	for (uint32_t k = 0; k < c->count && c->named; k++)
		if (tw_column_is_read(&c->column[k]))
			write_text(c->column[k].name, out);
	fputs("\tNULL,\n};\n\nint model_cells(const char *const *cell, float *in);\n\n", out);
}

/* What the columns need, each once: a function that nobody calls is a warning. */
static void write_functions(const struct tw_columns *c, FILE *out)
{
	static const char *const text[] = {
		[TW_COLUMN_NUMBER] = number,
		[TW_COLUMN_CATEGORY] = word,
		[TW_COLUMN_DATE] = date,
	};
	bool done[sizeof text / sizeof *text] = { false };

	fputs(common, out);
	for (uint32_t k = 0; k < c->count; k++) {
		const struct tw_column *column = &c->column[k];

		if (tw_column_is_read(column) && !done[column->type]) {
			fputs(text[column->type], out);
			done[column->type] = true;
		}
	}
}

/* Lists that the column's line names. */
static void write_lists(const struct tw_column *c, uint32_t k, FILE *out)
{
	char name[32];

	if (c->type == TW_COLUMN_CATEGORY) {
		fprintf(out, "static const char *const words_%u[] = {\n", k);
		for (uint32_t i = 0; i < c->words; i++)
			write_text(c->word[i], out);
		fputs("\tNULL,\n};\n", out);
	} else if (c->type == TW_COLUMN_DATE) {
		snprintf(name, sizeof name, "fill_%u", k);
		tw_c_floats(name, c->fill, tw_column_raws(c), out);
	}
}

static void write_call(const struct tw_column *c, uint32_t k, FILE *out)
{
	if (c->type == TW_COLUMN_CATEGORY)
		fprintf(out, "take_word(cell[%u], &in, words_%u, %u)", k, k, c->words);
	else if (c->type == TW_COLUMN_DATE)
		fprintf(out, "take_date(cell[%u], &in, fill_%u, %u, %d, %d)", k, k,
			tw_column_raws(c), c->order == TW_DATE_DAY_FIRST, c->indicator);
	else
		fprintf(out, "take_number(cell[%u], &in, (float)%.9g, %d)", k, (double)c->fill[0],
			c->indicator);
}

void tw_c_cells(const struct tw_columns *c, FILE *out)
{
	uint32_t n = 0;

	write_columns(c, out);
	write_functions(c, out);
	for (uint32_t k = 0; k < c->count; k++)
		if (tw_column_is_read(&c->column[k]))
			write_lists(&c->column[k], n++, out);
	fputs("\nint model_cells(const char *const *cell, float *in)\n{\n", out);
	n = 0;
	for (uint32_t k = 0; k < c->count; k++) {
		if (!tw_column_is_read(&c->column[k]))
			continue;
		fputs("\tif (!", out);
		write_call(&c->column[k], n++, out);
		fprintf(out, ")\n\t\treturn %u;\n", n);
	}
	fputs("\treturn 0;\n}\n\n", out);
}

void tw_c_cells_program(char separator, FILE *out)
{
	fprintf(out, "#define SEPARATOR '%s%c'\n\n",
		separator == '\'' || separator == '\\' ? "\\" : "", separator ? separator : ',');
	fputs(program, out);
}
