/* SPDX-License-Identifier: Apache-2.0 */
/* curve.c - the evaluations of one run, from its log, and fewer of them for a picture. */
#include "compare/curve.h"

#include "base/grow.h"
#include "base/machine/regular_file.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const tw_curve_names[TW_CURVE_COLUMNS] = {
	[TW_CURVE_EPOCHS] = "epochs", [TW_CURVE_UPDATES] = "updates",
	[TW_CURVE_TIME] = "time",     [TW_CURVE_BYTES] = "bytes",
	[TW_CURVE_LOSS] = "loss",     [TW_CURVE_ACCURACY] = "accuracy",
};

static bool add(struct tw_curve *c, const json_t *line)
{
	if (!TW_GROW(&tw_heap_system, c->point, c->room, c->n, c->n + 1))
		return false;
	for (size_t k = 0; k < TW_CURVE_COLUMNS; k++) {
		const json_t *v = json_object_get(line, tw_curve_names[k]);

		c->point[c->n][k] = json_is_number(v) ? json_number_value(v) : NAN;
	}
	c->n++;
	return true;
}

static bool is_evaluation(const json_t *line)
{
	const char *event = json_string_value(json_object_get(line, "event"));

	return event && strcmp(event, "evaluation") == 0;
}

enum tw_status tw_curve_read(int fd, const char *path, struct tw_curve *out, struct tw_error *why)
{
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	struct tw_curve c = { 0 };
	size_t room = 0;
	char *line = NULL;
	bool good = true;

	if (!f) {
		tw_fail(why, TW_IO, "%.300s: cannot be read: %s", path, tw_cause(errno));
		if (fd >= 0)
			close(fd);
		return TW_IO;
	}
	while (good && getline(&line, &room, f) > 0) {
		json_t *o = json_loads(line, 0, NULL);

		if (o && is_evaluation(o))
			good = add(&c, o);
		json_decref(o);
	}
	free(line);
	fclose(f);
	if (!good) {
		tw_curve_release(&c);
		return tw_fail(why, TW_NO_MEMORY, "no memory for the curve %.300s", path);
	}
	*out = c;
	return TW_OK;
}

void tw_curve_release(struct tw_curve *c)
{
	tw_heap_system.put(&tw_heap_system, c->point);
	*c = (struct tw_curve){ 0 };
}

double tw_curve_at(const struct tw_curve *c, enum tw_curve_column x, double at,
		   enum tw_curve_column y)
{
	double found = NAN;

	/* labels are rounded differently in different runs */
	for (size_t k = 0; k < c->n; k++)
		if (c->point[k][x] <= at * (1 + 1e-9))
			found = c->point[k][y];
	return found;
}

double tw_curve_first(const struct tw_curve *c, enum tw_curve_column x, enum tw_curve_column y,
		      double goal, bool least)
{
	for (size_t k = 0; k < c->n; k++)
		if (least ? c->point[k][y] >= goal : c->point[k][y] <= goal)
			return c->point[k][x];
	return NAN;
}

/* The extreme point of a stretch; none is chosen where all are NAN. */
static void mark(const struct tw_curve *c, size_t from, size_t to, enum tw_curve_column y,
		 bool *chosen)
{
	size_t low = from, high = from;

	for (size_t k = from; k < to; k++) {
		if (isnan(c->point[low][y]) || c->point[k][y] < c->point[low][y])
			low = k;
		if (isnan(c->point[high][y]) || c->point[k][y] > c->point[high][y])
			high = k;
	}
	if (!isnan(c->point[low][y]))
		chosen[low] = chosen[high] = true;
}

size_t tw_curve_thin(const struct tw_curve *c, size_t most, size_t *keep)
{
	const size_t stretches = most > 8 ? (most - 2) / 4 : 1;
	bool *chosen = c->n > most ? calloc(c->n, sizeof *chosen) : NULL;
	size_t n = 0;

	for (size_t k = 0; chosen && k < stretches; k++) {
		const size_t from = k * c->n / stretches, to = (k + 1) * c->n / stretches;

		mark(c, from, to, TW_CURVE_LOSS, chosen);
		mark(c, from, to, TW_CURVE_ACCURACY, chosen);
	}
	if (chosen)
		chosen[0] = chosen[c->n - 1] = true;
	for (size_t k = 0; k < c->n; k++)
		if (!chosen || chosen[k])
			keep[n++] = k;
	free(chosen);
	return n;
}
