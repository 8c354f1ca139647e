/* SPDX-License-Identifier: Apache-2.0 */
/* books.c - the books of books.h, and the runs that they are kept of. */
#include "job/books.h"
#include "node/checkpoint_part.h"
#include "node/every_other.h"
#include "world/memory_store.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define LOG       4000
#define POSITIONS 192

static const char *const codecs[CODECS] = {
	"up: fp32",
	"up: topk, up_share: 0.3",
	"up: randomk, up_share: 0.3",
	"up: threshold, up_tau: 4",
	"up: threshold, up_tau: 2, up_coding: rice",
	"up: onebit, up_tile: 8",
	"up: dgc, up_share: 0.25",
	"up: sparseloco, up_keep: 3",
};
size_t books_codec;
uint32_t books_poison;
static bool poisoned[POSITIONS];

const char *const books_strategies[STRATEGIES] = {
	"name: asgd",
	"name: ssp, lead: 2",
	"name: softsync, sum: total, staleness: none",
	"name: ssgd, sum: total",
	"name: ssgd, sum: total, topology: direct",
	"name: backup, extra: 1, sum: total",
};
const char books_deltas[] = "gate: async, send: delta, push: 1, outer: {rule: add, scale: 1}";

struct books_seen seen;
static bool all_go_back; /* a rollback is of all shards: there is one, and no master remembers */

/* --- an engine of integers ---------------------------------------------------------------- */

float books_value(uint64_t position, size_t i)
{
	const uint64_t mixed = (position * 2654435761u + i * 40503u) >> 4;

	return (float)(mixed % 31) - 15.0f;
}

/* Of `count` samples from `from` on; a power of two of them. */
static float mean(uint64_t from, uint32_t count, size_t i)
{
	float sum = 0.0f;

	for (uint32_t k = 0; k < count; k++)
		sum += books_value(from + k, i);
	return sum / (float)count;
}

static enum tw_status integers(const struct tw_engine *e, void *scratch, const struct tw_inputs *in,
			       float *gradient, struct tw_score *score)
{
	for (size_t i = 0; i < e->trainable; i++)
		gradient[i] = mean(in->from, in->count, i);
	if (books_poison && in->from / in->count % books_poison == 0 && !poisoned[in->from]) {
		poisoned[in->from] = true;
		gradient[in->from % e->trainable] = NAN;
	}
	*score = (struct tw_score){ .loss = 1, .correct = -1, .samples = in->count };
	return TW_OK;
}

/* --- what the codec does ------------------------------------------------------------------ */

struct encoded {
	bool used;
	uint32_t slot, incarnation;
	uint64_t draw, first;
	float sent[DIMENSION], after[DIMENSION]; /* after: the residual */
};

static struct {
	const struct tw_codec *codec;
	struct encoded log[LOG];
	size_t logs;
	uint64_t from[SLOTS][LOG];         /* positions of contributions, by slot and seq */
	uint32_t live[SLOTS], gone[SLOTS]; /* incarnations; gone: the last that left cleanly */
	uint64_t cut;                      /* number of the last */
	uint32_t slot;                     /* whose gradient was ready last: it encodes next */
} carried;

/* Encode, and remember what the other end will decode. */
static enum tw_status encode_and_see(const void *options, void *state, const struct tw_encoding *of,
				     const float *x, size_t n, uint8_t *out, size_t *len)
{
	const enum tw_status st = carried.codec->encode(options, state, of, x, n, out, len);
	struct encoded *e = &carried.log[carried.logs++];

	assert_int_equal(st, TW_OK);
	assert_true(carried.logs < LOG);
	*e = (struct encoded){ .slot = carried.slot,
			       .incarnation = carried.live[carried.slot],
			       .draw = of->draw,
			       .first = of->first };
	assert_int_equal(tw_codec_decode(carried.codec, options, out, *len, e->sent, n), TW_OK);
	memcpy(e->after, state, n * sizeof(float));
	return st;
}

/* What the worker's codec sent of the gradient at `from` to the range at `first`; `used`: that a
 * shard has applied.  NULL: it was not asked. */
static struct encoded *find_encoded(const struct tw_note *of, uint64_t from, size_t first,
				    bool used)
{
	for (size_t k = carried.logs; k-- > 0;) {
		struct encoded *e = &carried.log[k];

		if (e->used == used && e->slot == of->slot && e->incarnation == of->incarnation &&
		    e->draw == from && e->first == first)
			return e;
	}
	return NULL;
}

/* --- books -------------------------------------------------------------------------------- */

static bool adds_up(void)
{
	return books_codec < CODECS_ADD_UP;
}

/* Where it stands what this life of the worker owes; NULL: it has left and owes nothing. */
static float *debt_of(uint32_t slot, uint32_t incarnation)
{
	if (incarnation == carried.live[slot])
		return seen.now.owed[slot];
	for (unsigned k = 0; k < seen.now.deaths; k++)
		if (seen.now.death[k].slot == slot && seen.now.death[k].incarnation == incarnation)
			return seen.now.death[k].owed;
	return NULL;
}

static void see_applied(const struct tw_note *note)
{
	const size_t at = seen.plan->problem.border[note->shard];
	const size_t n = seen.plan->problem.border[note->shard + 1] - at;
	struct encoded *e = find_encoded(note, note->from, at, false);
	float *debt = debt_of(note->slot, note->incarnation);

	seen.applied++;
	seen.plain += !e;
	for (size_t i = 0; i < n; i++) {
		const float g = mean(note->from, note->count, at + i);
		const float all = debt ? debt[at + i] + g : g;
		const float sent = e ? e->sent[i] : all;

		seen.now.given[at + i] += (double)g;
		/* collected before it left: its last push had the rest */
		seen.now.taken[at + i] += note->incarnation == carried.gone[note->slot] ? g : sent;
		if (debt)
			debt[at + i] = e && !adds_up() ? e->after[i] : all - sent;
	}
	if (e)
		e->used = true;
}

/* The shard lost its memory, and a gradient for what it was came later: it is owed whole.  If the
 * shard that was had applied it, but could not say so, what was sent is not lost after all. */
static void see_fenced(const struct tw_note *note)
{
	const size_t at = seen.plan->problem.border[note->shard];
	const size_t n = seen.plan->problem.border[note->shard + 1] - at;
	const uint64_t from = carried.from[note->slot][note->seq];
	struct encoded *e = find_encoded(note, from, at, false);
	const struct encoded *in_vain = e ? NULL : find_encoded(note, from, at, true);

	seen.fenced++;
	for (size_t i = 0; i < n; i++) {
		const float g = mean(from, seen.plan->dealing.batch, at + i);

		seen.now.owed[note->slot][at + i] += in_vain ? in_vain->sent[i] : g;
		if (in_vain)
			seen.now.with_server[at + i] -= (double)in_vain->sent[i];
		else
			seen.now.given[at + i] += (double)g;
	}
	if (e)
		e->used = true;
}

/* Who goes cleanly takes along nothing; who dies, all that it owed. */
static void see_view(const struct tw_note *note)
{
	float *owed = seen.now.owed[note->slot];

	if (note->view.state == TW_LIVE)
		return;
	carried.live[note->slot] = 0;
	if (note->view.state == TW_LEFT) {
		for (size_t i = 0; i < DIMENSION; i++)
			seen.now.taken[i] += owed[i];
		carried.gone[note->slot] = note->incarnation;
		seen.left++;
	} else {
		struct death *d = &seen.now.death[seen.now.deaths++];

		assert_true(seen.now.deaths < DEATHS);
		*d = (struct death){ note->slot, note->incarnation, carried.cut, { 0 } };
		memcpy(d->owed, owed, sizeof d->owed);
		seen.died++;
	}
	memset(owed, 0, sizeof seen.now.owed[0]);
}

/* A shard begins where the last cut has it, and what it had beyond that is lost.  (Under rounds
 * everybody has gone back by then.) */
static void see_hosted(const struct tw_note *note)
{
	for (size_t i = seen.plan->problem.border[note->shard];
	     i < seen.plan->problem.border[note->shard + 1]; i++) {
		seen.now.with_server[i] += (double)seen.now.taken[i] - (double)seen.cut.taken[i];
		seen.now.taken[i] = seen.cut.taken[i];
	}
	seen.rehosted += seen.applied > 0;
}

static bool see(void *arg, const struct tw_note *note)
{
	switch (note->kind) {
	case TW_NOTE_STEP:
		carried.from[note->slot][note->step.clock + 1] = note->from;
		carried.live[note->slot] = note->incarnation;
		break;
	case TW_NOTE_GRADIENT:
		carried.slot = note->slot;
		break;
	case TW_NOTE_APPLY:
		see_applied(note);
		break;
	case TW_NOTE_REFUSED:
		if (note->refused.fenced)
			see_fenced(note);
		break;
	case TW_NOTE_VIEW:
		see_view(note);
		break;
	case TW_NOTE_CUT:
		seen.cut = seen.now;
		carried.cut = note->cut.number;
		break;
	case TW_NOTE_HOSTED:
		see_hosted(note);
		break;
	case TW_NOTE_ROLLBACK:
		if (note->cut.all || all_go_back) {
			if (note->cut.number > carried.cut) /* its master did not live to say so */
				seen.cut = seen.now;
			seen.now = seen.cut;
			carried.logs = 0;
			seen.rolled++;
		}
		break;
	default:
		break;
	}
	return true;
}

static void hear(void *arg, enum tw_level level, const char *who, const char *line)
{
	seen.lost += strstr(line, "the residual of its codec is lost") != NULL;
	seen.unusable += strstr(line, "(bad bytes): its own state") != NULL;
}

/* --- runs --------------------------------------------------------------------------------- */

static void read_parts(struct tw_store *store, struct ran *out)
{
	struct tw_part *parts;
	uint64_t cut;
	size_t count;

	assert_int_equal(store->load(store, &cut, &parts, &count), TW_OK);
	for (size_t k = 0; k < count; k++) {
		const struct tw_array *a;
		struct tw_array *list;
		size_t arrays;
		unsigned slot;

		if (sscanf(parts[k].name, "worker %u", &slot) != 1)
			continue;
		assert_int_equal(tw_part_unpack(parts[k].bytes->data, parts[k].bytes->bytes,
						&tw_heap_system, &list, &arrays),
				 TW_OK);
		a = tw_part_find(list, arrays, "residual");
		assert_non_null(a);
		assert_int_equal(a->n, DIMENSION);
		memcpy(out->owed[slot], a->at, sizeof out->owed[slot]);
		out->has[slot] = true;
		tw_heap_system.put(&tw_heap_system, list);
	}
	store->loaded_free(store, parts, count);
}

static void read_result(const struct tw_ran *ran, struct ran *out)
{
	const size_t *border = seen.plan->problem.border;

	for (uint32_t s = 0; s < seen.plan->problem.shards; s++)
		for (size_t i = border[s]; i < border[s + 1]; i++)
			out->w[i] = -tw_block_floats(ran->totals.vector[s])[i - border[s]];
}

enum tw_status books_run(const char *strategy, uint32_t shards, const char *more, uint64_t stop,
			 struct tw_store *store, struct ran *out)
{
	struct tw_store *own = store ? NULL : tw_memory_store_new(&tw_heap_system);
	const struct tw_engine_class *real;
	struct tw_engine_class fake;
	struct tw_codec watched;
	char servers[40] = "";
	struct tw_ran ran;
	enum tw_status st;
	struct trial t;

	if (!strstr(strategy, "topology"))
		snprintf(servers, sizeof servers, ", servers: %u", shards);
	trial_open(&t, TW_WORLD_SIM,
		   "model: {quadratic: {dimension: %d, start: 0}}\n"
		   "data: {source: none, samples: 64, batch: 2}\n"
		   "train: {epochs: 3, seed: 5}\nupdate: {rate: 1}\n"
		   "cluster: {workers: %d%s, shards: %u, min: 1, wait: 30s}\n"
		   "strategy: {%s, codec: {%s}}\n%s",
		   DIMENSION, SLOTS, servers, shards, strategy, codecs[books_codec], more);
	memset(&seen, 0, sizeof seen);
	memset(&carried, 0, sizeof carried);
	memset(poisoned, 0, sizeof poisoned);
	seen.plan = &t.job->plan;
	real = t.engine->class;
	fake = *real;
	fake.gradient = integers;
	t.engine->class = &fake;
	carried.codec = books_codec ? t.job->plan.traffic.up : &every_other;
	watched = *carried.codec;
	watched.encode = encode_and_see;
	t.job->plan.traffic.up = &watched;
	t.job->plan.checkpoint.final = true;
	t.job->plan.checkpoint.stop_after = stop;
	t.resume = store && stop == 0;
	t.observer = see;
	t.log = &(const struct tw_log){ .sink = hear, .level = TW_WARNING };
	st = trial_run(&t, &tw_heap_system, store ? store : own, &ran);
	*out = (struct ran){ .tally = ran.totals.tally, .events = ran.events, .shards = shards };
	if (st == TW_OK)
		read_result(&ran, out);
	tw_totals_release(&ran.totals);
	read_parts(store ? store : own, out);
	tw_memory_store_free(own);
	t.engine->class = real;
	trial_close(&t);
	return st;
}

/* --- comparison --------------------------------------------------------------------------- */

static bool equal(double a, double b)
{
	return books_codec < CODECS_EXACT ? a == b : fabs(a - b) < 0.02;
}

/* What the last checkpoint must have of this worker: one that has died after it may still be in
 * it. */
static const float *kept(uint32_t slot)
{
	for (unsigned k = 0; k < seen.now.deaths; k++)
		if (seen.now.death[k].slot == slot && seen.now.death[k].cut == carried.cut &&
		    carried.cut)
			return seen.now.death[k].owed;
	return seen.now.owed[slot];
}

/* What was given is what was applied, what is kept and what is lost. */
static void compare_sum(const char *what, const struct ran *r, size_t i)
{
	double sum = (double)r->w[i] + seen.now.with_server[i];

	for (uint32_t k = 0; k < SLOTS; k++)
		sum += kept(k) == seen.now.owed[k] ? (double)r->owed[k][i] : 0;
	for (unsigned k = 0; k < seen.now.deaths; k++)
		sum += (double)seen.now.death[k].owed[i];
	if (adds_up() && !equal(sum, seen.now.given[i]))
		fail_msg("%s: parameter %zu: %g was given, and %g is there", what, i,
			 seen.now.given[i], sum);
}

/* What who died owed; after the last checkpoint that is all over: it is in there, and whether the
 * shard still counts it depends on when it is asked. */
static void compare_lost(const char *what, const struct ran *r)
{
	double norms = 0, late = 0;
	unsigned count = 0, late_count = 0;

	for (unsigned k = 0; k < seen.now.deaths; k++) {
		const struct death *d = &seen.now.death[k];
		const bool over = d->owed == kept(d->slot);
		double square = 0;

		for (size_t i = 0; i < DIMENSION; i++)
			square += pow((double)d->owed[i], 2);
		norms += over ? 0 : sqrt(square);
		count += !over && square > 0;
		late += over ? sqrt(square) : 0;
		late_count += over && square > 0;
	}
	/* shards may have got different contributions last, and say what is between the two */
	if (r->shards > 1 || seen.rehosted)
		return;
	if (late_count && r->tally.residuals_lost > count) {
		norms += late;
		count += late_count;
	}
	if (fabs(norms - r->tally.residual_lost) > 1e-5 * (1 + norms) ||
	    count != r->tally.residuals_lost)
		fail_msg("%s: %u workers died with %.9g, and the shard says %llu with %.9g", what,
			 count, norms, (unsigned long long)r->tally.residuals_lost,
			 r->tally.residual_lost);
}

void books_compare(const char *what, const struct ran *r)
{
	for (size_t i = 0; i < DIMENSION; i++) {
		if (!equal((double)r->w[i], (double)seen.now.taken[i]))
			fail_msg("%s: parameter %zu is %g, not %g", what, i, (double)r->w[i],
				 (double)seen.now.taken[i]);
		for (uint32_t k = 0; k < SLOTS; k++)
			if (r->has[k] && !equal((double)r->owed[k][i], (double)kept(k)[i]))
				fail_msg("%s: worker %u owes %g at %zu, not %g", what, k,
					 (double)r->owed[k][i], i, (double)kept(k)[i]);
		compare_sum(what, r, i);
	}
	compare_lost(what, r);
}

/* --- at every event ----------------------------------------------------------------------- */

static const char often[] = "checkpoint: {every: 100ms, cut: drain}\n";

/* `who` dies, and in the same moment `too`.  "": nobody; NULL: nobody, and not all go back. */
static unsigned everywhere(const char *strategy, uint32_t shards, const char *who, const char *too,
			   uint64_t stride)
{
	struct ran r = { .events = UINT64_MAX };
	const bool worker = strcmp(who, "worker 1") == 0;
	unsigned hits = 0;
	char more[400], second[100] = "", what[500];

	all_go_back = too != NULL;
	for (uint64_t event = 1; event < r.events; event += stride) {
		if (too && *too)
			snprintf(second, sizeof second, ", {crash: %s, event: %llu, restart: 20ms}",
				 too, (unsigned long long)event);
		snprintf(more, sizeof more,
			 "%ssim: {" PACE ", closed_limit: 20ms, faults: [{crash: %s, event: %llu, "
			 "restart: 30ms}%s]}\n",
			 worker ? "" : often, who, (unsigned long long)event, second);
		snprintf(what, sizeof what, "%s, %s, %u shards: %s", strategy, codecs[books_codec],
			 shards, more);
		assert_int_equal(books_run(strategy, shards, more, 0, NULL, &r), TW_OK);
		books_compare(what, &r);
		hits += seen.died + seen.rolled + seen.rehosted;
	}
	all_go_back = false;
	return hits;
}

unsigned books_kill_everywhere(uint64_t stride)
{
	unsigned died = 0;

	for (size_t k = 0; k < STRATEGIES && books_codec != CODECS - 1; k++)
		for (uint32_t shards = 1; shards <= 2; shards++)
			if (adds_up() || k < STRATEGIES - 1)
				died += everywhere(books_strategies[k], shards, "worker 1", NULL,
						   stride);
	if (adds_up() || books_codec == CODECS - 1)
		died += everywhere(books_deltas, 1, "worker 1", NULL, stride);
	return died;
}

unsigned books_lose_everywhere(uint64_t stride)
{
	static const size_t closed[] = { 0, 1, 3, 5 };
	unsigned lost = 0;

	for (size_t k = 0; k < sizeof closed / sizeof closed[0] && adds_up(); k++)
		lost += everywhere(books_strategies[closed[k]], 2, "server 1", NULL, stride);
	return lost;
}

unsigned books_restart_everywhere(uint64_t stride)
{
	unsigned restarts = 0;

	for (size_t k = 0; k < STRATEGIES && adds_up(); k++)
		restarts += everywhere(books_strategies[k], 1, "master",
				       k == SERVERLESS ? "" : "server 0", stride);
	return restarts;
}
