/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c - samples that come line by line, and of which nobody knows how many there will be.
 *
 *  (1) a thread of its own reads.  Sample k behind those that are held out has position k, however
 *      often the run was stopped: who resumes reads from the beginning, and passes over what is
 *      done with.
 *  (2) positions from..upto are in a ring of `keep` samples.  The thread waits while the ring is
 *      full; `forget` makes room.
 *  (3) a broken line is left out: it has no position. */
#include "base/arrived.h"
#include "base/sha256.h"
#include "data/data_memory.h"
#include "data/format/sample_line.h"
#include "data/format/table.h"
#include "data/line_feed.h"
#include "data/names_pack.h"
#include "data/statistics.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct options {
	const char *file, *label, *columns, *separator;
	struct tw_f64s shape;
	uint32_t classes, first, keep;
	bool follow;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, file, TW_TEXT, NULL, NULL, 0, 0,
		  "where lines come from: - (standard input), a file, a FIFO, or tcp:PORT, one "
		  "connection to that port of 127.0.0.1; a line is numbers with commas between "
		  "them, or a JSON object",
		  .example = "numbers.csv"),
	TW_OPTION(struct options, label, TW_TEXT, "last", NULL, 0, 0,
		  "the column to predict: first, last, its number from 1, or its name in a header "
		  "or a JSON object"),
	TW_OPTION(struct options, classes, TW_U32, "0", "classes", 0, TW_CLASSES_MAX,
		  "labels are whole numbers from 0 to one less than this; 0: a value is predicted",
		  .example = "3"),
	TW_OPTION(struct options, columns, TW_WORDS, "all", NULL, 0, 0,
		  "of JSON: the fields to learn from; a list of numbers in a field is as many "
		  "values",
		  .example = "[a, b]"),
	TW_OPTION(struct options, separator, TW_TEXT, ",", NULL, 0, 0,
		  "what is between two numbers of a line: one character, or tab"),
	TW_OPTION(struct options, shape, TW_F64S, "[]", NULL, 1, 1e6,
		  "of samples that are images: channels, height and width",
		  .example = "[1, 28, 28]"),
	TW_OPTION(struct options, first, TW_U32, "1000", "samples", 2, 1e7,
		  "so many samples at the beginning are not learnt from: they are the test set, "
		  "and say how values are normalised",
		  .example = "100"),
	TW_OPTION(struct options, keep, TW_U32, "16384", "samples", 16, 1e8,
		  "samples in memory, at most: those that wait, and those that are not done with"),
	TW_OPTION(struct options, follow, TW_BOOL, "false", NULL, 0, 0,
		  "a file is read on when it grows, until the run is stopped"),
	TW_OPTION_END,
};

struct stream {
	struct tw_supply supply; /* must stay first */
	struct tw_heap *heap;
	struct tw_feed *feed;
	struct tw_line_format format;
	struct tw_arena names;
	uint32_t keep;
	bool pending; /* the first line is a sample, and was not read as one yet */
	char *line;
	size_t bytes;

	pthread_t thread;
	bool runs;
	_Atomic bool stop;
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t came, room;
	struct tw_arrived now;
	uint64_t floor; /* nothing below is asked for any more */
	float *value, *target;
	uint32_t *label;
};

/* --- reading --------------------------------------------------------------------------------- */

static void count_broken(struct stream *s, const struct tw_error *said)
{
	pthread_mutex_lock(&s->lock);
	s->now.broken++;
	snprintf(s->now.said, sizeof s->now.said, "%.319s", said->text);
	pthread_mutex_unlock(&s->lock);
}

/* The next sample, wherever the caller wants it.  TW_ABSENT: there is none. */
static enum tw_status next_sample(struct stream *s, float *value, uint32_t *label, float *target,
				  struct tw_error *why)
{
	for (;;) {
		struct tw_error said = { 0 };
		enum tw_status st = TW_OK;

		if (!s->pending)
			st = tw_feed_line(s->feed, &s->stop, &s->line, &s->bytes, why);
		s->pending = false;
		if (st != TW_OK && st != TW_NO_ROOM)
			return st;
		if (st == TW_NO_ROOM)
			tw_fail(&said, st, "%.200s:%" PRIu64 ": is longer than %u MiB",
				s->format.wishes.name, tw_feed_number(s->feed), TW_LINE_MOST >> 20);
		else if (!s->bytes)
			continue;
		else if (tw_line_read(&s->format, tw_feed_number(s->feed), s->line, s->bytes, value,
				      label, target, &said) == TW_OK)
			return TW_OK;
		count_broken(s, &said);
	}
}

/* (2) */
static bool is_full(const struct stream *s)
{
	return s->now.upto >= s->floor + s->keep;
}

/* False: stopped. */
static bool wait_for_room(struct stream *s)
{
	bool goes_on;

	pthread_mutex_lock(&s->lock);
	while (!atomic_load(&s->stop) && is_full(s))
		pthread_cond_wait(&s->room, &s->lock);
	goes_on = !atomic_load(&s->stop);
	pthread_mutex_unlock(&s->lock);
	return goes_on;
}

static void *read_all(void *arg)
{
	struct stream *s = arg;
	const size_t features = s->format.features;
	struct tw_error why = { 0 };
	enum tw_status st = TW_OK;

	while (st == TW_OK && wait_for_room(s)) {
		const size_t at = (size_t)(s->now.upto % s->keep); /* only we change it */

		st = next_sample(s, s->value + at * features, s->label ? s->label + at : NULL,
				 s->target ? s->target + at : NULL, &why);
		if (st != TW_OK)
			break;
		pthread_mutex_lock(&s->lock);
		s->now.upto++;
		if (s->now.from < s->floor)
			s->now.from = s->floor < s->now.upto ? s->floor : s->now.upto;
		pthread_cond_broadcast(&s->came);
		pthread_mutex_unlock(&s->lock);
	}
	pthread_mutex_lock(&s->lock);
	s->now.ended = true;
	s->now.failed = st != TW_OK && st != TW_ABSENT;
	if (s->now.failed)
		snprintf(s->now.said, sizeof s->now.said, "%.319s", why.text);
	pthread_cond_broadcast(&s->came);
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* --- the supply ------------------------------------------------------------------------------ */

static enum tw_status fill(struct tw_supply *supply, const uint64_t *position, uint32_t n,
			   void *room, struct tw_sample *out, struct tw_error *why)
{
	struct stream *s = (struct stream *)supply;
	enum tw_status st = TW_OK;

	(void)room;
	pthread_mutex_lock(&s->lock);
	for (uint32_t k = 0; k < n && st == TW_OK; k++) {
		const size_t at = (size_t)(position[k] % s->keep);

		if (position[k] < s->now.from || position[k] >= s->now.upto)
			st = tw_fail(why, TW_ABSENT,
				     "sample %" PRIu64 " (from 0) of the stream is not here",
				     position[k]);
		out[k] = (struct tw_sample){
			.value = s->value + at * s->format.features,
			.label = s->label ? s->label + at : NULL,
			.target = s->target ? s->target + at : NULL,
		};
	}
	pthread_mutex_unlock(&s->lock);
	return st;
}

static void arrived(struct tw_supply *supply, uint64_t want, int64_t wait, struct tw_arrived *out)
{
	struct stream *s = (struct stream *)supply;
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += (long)(wait % 1000000000);
	until.tv_sec += wait / 1000000000 + until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&s->lock);
	while (wait > 0 && s->now.upto < want && !s->now.ended && !is_full(s) &&
	       pthread_cond_timedwait(&s->came, &s->lock, &until) != ETIMEDOUT)
		;
	*out = s->now;
	out->full = is_full(s);
	pthread_mutex_unlock(&s->lock);
}

static void forget(struct tw_supply *supply, uint64_t below)
{
	struct stream *s = (struct stream *)supply;

	pthread_mutex_lock(&s->lock);
	if (s->floor < below)
		s->floor = below;
	if (s->now.from < s->floor)
		s->now.from = s->floor < s->now.upto ? s->floor : s->now.upto;
	pthread_cond_broadcast(&s->room);
	pthread_mutex_unlock(&s->lock);
}

static void close_stream(struct tw_supply *supply)
{
	struct stream *s = (struct stream *)supply;

	pthread_mutex_lock(&s->lock);
	atomic_store(&s->stop, true);
	pthread_cond_broadcast(&s->room);
	pthread_mutex_unlock(&s->lock);
	if (s->runs)
		pthread_join(s->thread, NULL);
	tw_feed_close(s->feed);
	tw_arena_release(&s->names);
	s->heap->put(s->heap, s->value);
	s->heap->put(s->heap, s->label);
	s->heap->put(s->heap, s->target);
	pthread_cond_destroy(&s->came);
	pthread_cond_destroy(&s->room);
	pthread_mutex_destroy(&s->lock);
	s->heap->put(s->heap, s);
}

/* --- opening --------------------------------------------------------------------------------- */

static enum tw_status open_feed(struct stream *s, const struct options *o,
				const struct tw_source_site *site, struct tw_error *why)
{
	const struct tw_line_wishes wishes = {
		.name = tw_arena_text(&s->names,
				      strcmp(o->file, "-") == 0 ? "standard input" : o->file),
		.label = tw_arena_text(&s->names, o->label),
		.columns = tw_arena_text(&s->names, o->columns),
		.classes = o->classes,
	};
	struct tw_line_wishes w = wishes;
	struct tw_error said = { 0 };
	enum tw_status st = tw_separator_parse(o->separator, &w.separator, why);

	if (st == TW_OK && (!w.name || !w.label || !w.columns))
		st = tw_data_keep_no_memory(why, "stream", 0);
	if (st == TW_OK)
		st = tw_feed_open(s->heap, site->base, o->file, o->follow, &s->feed, why);
	if (st == TW_OK)
		st = tw_feed_line(s->feed, &s->stop, &s->line, &s->bytes, &said);
	if (st == TW_ABSENT)
		return tw_fail(why, TW_BAD_INPUT, "%.200s: has no line", w.name);
	if (st != TW_OK)
		return why->status != TW_OK ? st : tw_fail(why, st, "%s", said.text);
	st = tw_line_learn(&w, s->line, s->bytes, &s->names, &s->format, why);
	s->pending = st == TW_OK && !s->format.header;
	return st;
}

static enum tw_status keep_shape(const struct stream *s, const struct options *o, struct tw_data *d,
				 struct tw_error *why)
{
	uint64_t shape[TW_DATA_RANK] = { s->format.features };
	uint64_t all = 1;

	if (!o->shape.count)
		return tw_data_keep_shape(d, s->format.wishes.name, 1, shape, why);
	for (size_t k = 0; k < o->shape.count && k < TW_DATA_RANK; k++) {
		shape[k] = (uint64_t)o->shape.at[k];
		all *= shape[k];
	}
	if (o->shape.count != TW_DATA_RANK || all != s->format.features)
		return tw_fail(why, TW_BAD_INPUT,
			       "shape: a line of %.200s has %u values beside its label; channels, "
			       "height and width with that product are needed, such as [1, 28, 28]",
			       s->format.wishes.name, s->format.features);
	return tw_data_keep_shape(d, s->format.wishes.name, TW_DATA_RANK, shape, why);
}

/* The first samples: a test set. */
static enum tw_status read_first(struct stream *s, const struct options *o, struct tw_data *d,
				 struct tw_error *why)
{
	void *value = NULL, *answer = NULL;
	enum tw_status st =
		tw_data_keep_room(d, o->first, s->format.features * sizeof(float), &value, why);

	if (st == TW_OK)
		st = tw_data_keep_room(d, o->first, sizeof(float), &answer, why);
	for (uint32_t k = 0; k < o->first && st == TW_OK; k++) {
		uint32_t *label = d->classes ? (uint32_t *)answer + k : NULL;
		float *target = d->classes ? NULL : (float *)answer + k;

		st = next_sample(s, (float *)value + (size_t)k * s->format.features, label, target,
				 why);
		if (st == TW_ABSENT)
			st = tw_fail(why, TW_BAD_INPUT,
				     "%.200s: ends after %u samples%s%.160s, and data.first needs "
				     "%u and more to learn from; use less",
				     s->format.wishes.name, k,
				     s->now.broken ? " and broken lines: " : "", s->now.said,
				     o->first);
	}
	d->test = (struct tw_samples){ .count = o->first, .value = value };
	if (d->classes)
		d->test.label = answer;
	else
		d->test.target = answer;
	return st;
}

/* What is measured of `count` samples is as it were of all that come: only means are used. */
static void extend(struct tw_column_facts *c, size_t n, double count)
{
	for (size_t k = 0; k < n; k++)
		c[k].square *= (double)TW_ENDLESS / count;
}

static enum tw_status measure(struct tw_data *d, struct tw_error *why)
{
	const size_t channels = d->rank == TW_DATA_RANK ? d->shape[0] : 0;
	struct tw_column_facts *of = tw_data_keep_small(d, (d->features + channels) * sizeof *of);
	struct tw_target_facts *target = tw_data_keep_small(d, (d->targets + 1) * sizeof *target);
	const struct tw_columns_wanted cut[] = {
		{ d->features, 1, of },
		{ channels, channels ? d->features / channels : 1, of + d->features },
	};
	const struct tw_samples train = d->train;
	enum tw_status st;

	if (!of || !target)
		return tw_data_keep_no_memory(why, "statistics", d->features * sizeof *of);
	d->train = d->test;
	st = tw_statistics_measure(d, cut, channels ? 2 : 1, why);
	if (st == TW_OK && d->targets)
		st = tw_statistics_targets(d, target, why);
	d->train = train;
	extend(of, d->features + channels, (double)d->test.count);
	d->known = (struct tw_statistics){ of, channels ? of + d->features : NULL,
					   d->targets ? target : NULL };
	return st;
}

/* Who resumes must find the same beginning. */
static enum tw_status mark(struct tw_data *d, struct tw_error *why)
{
	const uint32_t facts[] = { d->rank,     d->shape[0], d->shape[1],
				   d->shape[2], d->classes,  d->targets };
	struct tw_sha_run h;

	tw_sha_init(&h);
	tw_sha_update(&h, facts, sizeof facts);
	tw_sha_update(&h, d->test.value, d->test.count * d->features * sizeof(float));
	tw_sha_update(&h, d->classes ? (const void *)d->test.label : d->test.target,
		      d->test.count * sizeof(float));
	return tw_sha_final(&h, &d->fingerprint) == TW_OK
		       ? TW_OK
		       : tw_data_keep_no_memory(why, "the fingerprint", sizeof d->fingerprint);
}

static enum tw_status start(struct stream *s, struct tw_data *d, struct tw_error *why)
{
	s->value = s->heap->get(s->heap, (size_t)s->keep * s->format.features * sizeof(float));
	if (d->classes)
		s->label = s->heap->get(s->heap, s->keep * sizeof *s->label);
	else
		s->target = s->heap->get(s->heap, s->keep * sizeof *s->target);
	if (!s->value || !(s->label || s->target))
		return tw_data_keep_no_memory(why, "the samples that data.keep asks for",
					      (uint64_t)s->keep * s->format.features *
						      sizeof(float));
	if (pthread_create(&s->thread, NULL, read_all, s) != 0)
		return tw_fail(why, TW_NO_MEMORY, "no thread to read %.200s",
			       s->format.wishes.name);
	s->runs = true;
	return TW_OK;
}

static enum tw_status open_stream(const void *options, const struct tw_source_site *site,
				  struct tw_data *out, struct tw_error *why)
{
	const struct options *o = options;
	struct stream *s;
	pthread_condattr_t monotonic;
	enum tw_status st;

	if (!o->file || !o->file[0])
		return tw_fail(why, TW_BAD_INPUT,
			       "file: must be given: -, tcp:PORT, a file or a "
			       "FIFO");
	s = tw_heap_zeros(site->heap, sizeof *s);
	if (!s)
		return tw_data_keep_no_memory(why, o->file, sizeof *s);
	s->heap = site->heap;
	s->keep = o->keep;
	s->supply = (struct tw_supply){ .lends = true,
					.fill = fill,
					.keeps = o->keep,
					.arrived = arrived,
					.forget = forget,
					.close = close_stream };
	tw_arena_init(&s->names, site->heap);
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&s->came, &monotonic);
	pthread_cond_init(&s->room, NULL);
	pthread_condattr_destroy(&monotonic);
	tw_data_keep_supply(out, &s->supply);
	out->kind = TW_VALUE_F32;
	out->classes = o->classes;
	out->targets = !o->classes;
	out->divided = true;
	st = open_feed(s, o, site, why);
	if (st == TW_OK)
		st = keep_shape(s, o, out, why);
	if (st == TW_OK)
		st = read_first(s, o, out, why);
	out->train = (struct tw_samples){ .count = TW_ENDLESS, .supply = &s->supply };
	if (st == TW_OK)
		st = measure(out, why);
	if (st == TW_OK)
		st = mark(out, why);
	if (st == TW_OK)
		st = tw_names_pack(out, why);
	if (st == TW_OK)
		st = start(s, out, why);
	if (st != TW_OK)
		tw_data_keep_release(out);
	return st;
}

const struct tw_source tw_source_stream = {
	.name = "stream",
	.help = "lines that come as they come, from a pipe, a growing file or a connection; with "
		"train.mode: online",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.endless = true,
	.open = open_stream,
};
