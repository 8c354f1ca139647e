/* SPDX-License-Identifier: Apache-2.0 */
/* schedule_csv.c - lists of moves as text: read, checked, written. */
#include "query/schedule_csv.h"

#include "base/grow.h"
#include "base/heap.h"
#include "base/machine/regular_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES_MOST (16u << 20)

struct reading {
	const char *name, *at, *end;
	uint32_t line, column; /* of what is at `at` */
	struct tw_schedule_table *out;
	size_t rows_room, moves_room;
	struct tw_error *why;
};

static enum tw_status refuse(const struct reading *r, uint32_t column, const char *reason,
			     const char *shown, size_t n)
{
	return tw_fail(r->why, TW_BAD_INPUT, "%.200s:%u:%u: %s%s%.*s%s", r->name, r->line, column,
		       reason, n ? " '" : "", (int)(n < 40 ? n : 40), shown, n ? "'" : "");
}

static enum tw_status no_memory(const struct reading *r)
{
	return tw_fail(r->why, TW_NO_MEMORY, "%.200s: no memory to read it", r->name);
}

/* A whole number up to `most` at *at; moves on.  False: there is none, or it is larger. */
static bool number(const char **at, const char *end, uint64_t most, uint64_t *out)
{
	const char *first = *at;

	*out = 0;
	for (; *at < end && **at >= '0' && **at <= '9'; (*at)++) {
		*out = *out * 10 + (uint64_t)(**at - '0');
		if (*out > most)
			return false;
	}
	return *at > first;
}

static bool deed_of(char letter, enum tw_deed *out)
{
	static const char letters[] = "FBIW";
	const char *found = letter ? strchr(letters, letter) : NULL;

	*out = found ? (enum tw_deed)(found - letters) : TW_DEEDS;
	return found;
}

static enum tw_status move_of(const struct reading *r, const char *text, size_t n, uint32_t column,
			      struct tw_pipe_move *out)
{
	const char *at = text, *end = text + n;
	uint64_t stage, micro;

	if (!number(&at, end, TW_SCHEDULE_STAGES - 1, &stage))
		return refuse(r, column,
			      *text >= '0' && *text <= '9'
				      ? "a stage is a number from 0 to 4095; found"
				      : "a move begins with the number of its stage, as in 2F0; "
					"found",
			      text, n);
	if (at == end || !deed_of(*at, &out->deed) ||
	    (end - at > 1 && !(at[1] >= '0' && at[1] <= '9')))
		return refuse(r, column,
			      "a move is F (forward), B (backward), I or W (its halves), as in "
			      "2F0; other actions are not part of the compute-only form; found",
			      text, n);
	at++;
	if (!number(&at, end, TW_SCHEDULE_MICROS - 1, &micro))
		return refuse(r, column,
			      "a move ends with the number of its micro-batch, at most 999999, as "
			      "in 2F0; found",
			      text, n);
	if (at != end)
		return refuse(r, column, "nothing may follow the micro-batch; found", text, n);
	out->stage = (uint32_t)stage;
	out->micro = micro;
	return TW_OK;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static enum tw_status add_move(struct reading *r, const struct tw_pipe_move *m, uint32_t column)
{
	struct tw_schedule_row *row = &r->out->row[r->out->cells - 1];
	size_t columns = r->moves_room;

	if (!TW_GROW(&tw_heap_system, row->move, r->moves_room, row->count, row->count + 1) ||
	    !TW_GROW(&tw_heap_system, row->column, columns, row->count, row->count + 1))
		return no_memory(r);
	row->move[row->count] = *m;
	row->column[row->count++] = column;
	if (m->stage >= r->out->stages)
		r->out->stages = m->stage + 1;
	if (m->micro >= r->out->micros)
		r->out->micros = m->micro + 1;
	return TW_OK;
}

/* One cell of the table, up to its comma or the end of the line; quotes around it are let go. */
static enum tw_status read_cell(struct reading *r, const char *from, const char *to)
{
	uint32_t column = r->column;
	struct tw_pipe_move m = { 0 };
	enum tw_status st;

	while (from < to && is_blank(*from))
		from++, column++;
	while (to > from && is_blank(to[-1]))
		to--;
	if (to - from >= 2 && *from == '"' && to[-1] == '"')
		from++, to--, column++;
	if (from == to)
		return TW_OK;
	st = move_of(r, from, (size_t)(to - from), column, &m);
	return st == TW_OK ? add_move(r, &m, column) : st;
}

static enum tw_status read_line(struct reading *r, const char *from, const char *to)
{
	const char *first = from;
	enum tw_status st = TW_OK;

	if (!TW_GROW(&tw_heap_system, r->out->row, r->rows_room, r->out->cells,
		     (size_t)r->out->cells + 1))
		return no_memory(r);
	r->out->row[r->out->cells++] = (struct tw_schedule_row){ 0 };
	r->moves_room = 0;
	while (st == TW_OK && from <= to) {
		const char *comma = memchr(from, ',', (size_t)(to - from));
		const char *end = comma ? comma : to;

		r->column = (uint32_t)(from - first) + 1;
		st = read_cell(r, from, end);
		from = end + 1;
	}
	if (st == TW_OK && !r->out->row[r->out->cells - 1].count)
		return refuse(r, 1, "a line is the list of one cell, and this one has no move", "",
			      0);
	return st;
}

/* --- checked ------------------------------------------------------------------------------ */

static enum tw_status refuse_at(const struct reading *r, const struct tw_pipe_place *p,
				const struct tw_error *said)
{
	const struct tw_schedule_row *row = &r->out->row[p->cell];
	const uint32_t column = p->move < row->count ? row->column[p->move]
				: row->count         ? row->column[row->count - 1]
						     : 1;

	return tw_fail(r->why, TW_BAD_INPUT, "%.200s:%u:%u: %s", r->name, p->cell + 1, column,
		       said->text);
}

static enum tw_status check(const struct reading *r)
{
	const struct tw_schedule_table *t = r->out;
	const struct tw_pipe_move **list = calloc(t->cells, sizeof *list);
	size_t *count = calloc(t->cells, sizeof *count);
	struct tw_pipe_cell *cell = calloc(t->cells, sizeof *cell);
	struct tw_pipe_times *times = calloc(t->stages, sizeof *times);
	uint8_t *seen = calloc(t->stages, t->micros);
	uint32_t *owner = calloc(t->stages, sizeof *owner);
	double *done = calloc(TW_DEEDS * (size_t)t->stages, t->micros * sizeof *done);
	struct tw_pipe_place place = { 0 };
	struct tw_pipe_played played;
	struct tw_error said = { .status = TW_OK };
	enum tw_status st = TW_NO_MEMORY;

	if (list && count && cell && times && seen && owner && done) {
		const struct tw_pipe_lists l = { list, count, t->cells, t->stages, t->micros };

		for (uint32_t c = 0; c < t->cells; c++) {
			list[c] = t->row[c].move;
			count[c] = t->row[c].count;
		}
		st = tw_pipeline_whole(&l, seen, owner, &place, &said);
		if (st == TW_OK)
			st = tw_pipeline_play(&l, times, done, cell, NULL, &played, &place, &said);
	}
	free(list);
	free(count);
	free(cell);
	free(times);
	free(seen);
	free(owner);
	free(done);
	if (st == TW_NO_MEMORY)
		return no_memory(r);
	return st == TW_OK ? TW_OK : refuse_at(r, &place, &said);
}

/* Stages and micro-batches beyond what the moves could be of are refused before there is a table of
 * them. */
static enum tw_status check_size(const struct reading *r)
{
	uint64_t moves = 0;

	for (uint32_t c = 0; c < r->out->cells; c++)
		moves += r->out->row[c].count;
	if (2 * r->out->stages * r->out->micros <= moves)
		return TW_OK;
	return tw_fail(
		r->why, TW_BAD_INPUT,
		"%.200s:1:1: %llu moves are too few for %u stages and %llu micro-batches: each "
		"stage needs a forward and a backward of each micro-batch, numbered from 0",
		r->name, (unsigned long long)moves, r->out->stages,
		(unsigned long long)r->out->micros);
}

enum tw_status tw_schedule_parse(const char *name, const char *text, size_t bytes,
				 struct tw_schedule_table *out, struct tw_error *why)
{
	struct reading r = {
		.name = name, .at = text, .end = text + bytes, .out = out, .why = why
	};
	enum tw_status st = TW_OK;

	*out = (struct tw_schedule_table){ 0 };
	if (memchr(text, '\0', bytes))
		return tw_fail(why, TW_BAD_INPUT, "%.200s:1:1: is not text", name);
	for (r.line = 1; st == TW_OK && r.at < r.end; r.line++) {
		const char *end = memchr(r.at, '\n', (size_t)(r.end - r.at));
		const char *to = end ? end : r.end;

		st = read_line(&r, r.at, to);
		r.at = to + 1;
	}
	if (st == TW_OK && !out->cells)
		return tw_fail(why, TW_BAD_INPUT,
			       "%.200s:1:1: is empty; a schedule has one line of moves per cell",
			       name);
	if (st == TW_OK)
		st = check_size(&r);
	return st == TW_OK ? check(&r) : st;
}

static enum tw_status read_all(int fd, char *text, size_t *bytes)
{
	for (*bytes = 0; *bytes < BYTES_MOST + 1;) {
		const ssize_t got = read(fd, text + *bytes, BYTES_MOST + 1 - *bytes);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return TW_IO;
		if (got == 0)
			break;
		*bytes += (size_t)got;
	}
	return TW_OK;
}

enum tw_status tw_schedule_read(const char *path, struct tw_schedule_table *out,
				struct tw_error *why)
{
	const int fd = tw_regular_input(path);
	char *text;
	size_t bytes = 0;
	enum tw_status st;

	*out = (struct tw_schedule_table){ 0 };
	if (fd < 0)
		return tw_fail(why, TW_BAD_INPUT, "%.200s: cannot be opened: %s", path,
			       tw_cause(errno));
	text = malloc(BYTES_MOST + 1);
	st = text ? read_all(fd, text, &bytes) : TW_NO_MEMORY;
	close(fd);
	if (st == TW_IO)
		tw_fail(why, TW_BAD_INPUT, "%.200s: cannot be read: %s", path, strerror(errno));
	else if (st != TW_OK)
		tw_fail(why, st, "%.200s: no memory to read it", path);
	else if (bytes > BYTES_MOST)
		st = tw_fail(why, TW_BAD_INPUT,
			     "%.200s: is longer than 16 MiB, which no schedule needs to be", path);
	else
		st = tw_schedule_parse(path, text, bytes, out, why);
	free(text);
	return st == TW_IO ? TW_BAD_INPUT : st;
}

void tw_schedule_release(struct tw_schedule_table *t)
{
	for (uint32_t c = 0; c < t->cells; c++) {
		tw_heap_system.put(&tw_heap_system, t->row[c].move);
		tw_heap_system.put(&tw_heap_system, t->row[c].column);
	}
	tw_heap_system.put(&tw_heap_system, t->row);
	*t = (struct tw_schedule_table){ 0 };
}

enum tw_status tw_schedule_write(const struct tw_pipe_lists *l, FILE *out)
{
	for (uint32_t c = 0; c < l->cells; c++) {
		bool first = true;

		for (size_t k = 0; k < l->count[c]; k++) {
			const struct tw_pipe_move *m = &l->move[c][k];

			if (m->deed == TW_UPDATE)
				continue;
			fprintf(out, "%s%u%c%llu", first ? "" : ",", m->stage,
				tw_pipe_letter(m->deed), (unsigned long long)m->micro);
			first = false;
		}
		fprintf(out, "\r\n");
	}
	return fflush(out) || ferror(out) ? TW_IO : TW_OK;
}
