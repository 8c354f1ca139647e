/* SPDX-License-Identifier: Apache-2.0 */
/* watcher.c - the history behind each shard's parameters, and whether the totals agree with it.
 *
 *  (1) `times` says how often each position is in the parameters of a shard: what its notes say
 *      since it was hosted, on top of what the cut said that it was hosted from.
 *  (2) `total` is how many samples are in them, each as often as it was applied. */
#include "watcher.h"

#include "checkpoint/digest.h"
#include "node/checkpoint_part.h"
#include "world/memory_store.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct key {
	uint32_t slot, incarnation;
	uint64_t seq;
};

#define NOTED 64 /* more than a round has */

/* A shard in a cut. */
struct kept {
	uint8_t *times; /* NULL: there is no such cut */
	uint64_t total, dropped;
};

struct watched {
	uint8_t *times;   /* by position: see (1) */
	uint64_t total;   /* see (2) */
	uint64_t dropped; /* samples, each as often as it was */
	struct kept *cut; /* by number */
	uint32_t life;    /* incarnation */
	uint64_t lives;
	struct key *seen; /* contributions of this life: a hash table of a power of two */
	size_t seen_count, seen_room;
	struct key last;
	struct noted {
		struct key key;
		uint64_t from, round;
		uint32_t count;
	} noted[NOTED]; /* the last ones, in turn */
	size_t notes;
};

/* An evaluation that was the best so far when it was made. */
struct best {
	double loss, samples;
	char digest[TW_DIGEST_TEXT];
};

struct watcher {
	struct tw_store store; /* must stay first: wraps `inner` */
	struct tw_store *inner;
	const struct tw_plan *plan;
	struct watched *shard;
	size_t cuts; /* room of each `cut` */
	uint64_t newest;
	double applied; /* samples, of all shards, whatever became of them */
	struct best *best;
	size_t bests;
	double least; /* loss of any evaluation */
	char wrong[300];
	bool hosted_again, joined, loud;
};

void watcher_complain(struct watcher *w, const char *format, ...)
{
	va_list args;

	if (w->wrong[0])
		return;
	va_start(args, format);
	vsnprintf(w->wrong, sizeof w->wrong, format, args);
	va_end(args);
}

/* Whose are the samples that somebody is given? */
static void judge_deal(struct watcher *w, const struct tw_note *n)
{
	const struct tw_dealing *d = &w->plan->dealing;
	const struct tw_cell c = tw_subsets_cell(&d->subsets, n->from);

	if (c.subset != n->slot || n->from + n->count > c.to)
		watcher_complain(w, "slot %u is dealt %u samples from %llu, which are %u's",
				 n->slot, n->count, (unsigned long long)n->from, c.subset);
	if (c.first + (n->from - c.from) + n->count > tw_subsets_own(&d->subsets, n->slot, d->own))
		watcher_complain(w, "slot %u is dealt samples that it does not have", n->slot);
}

const char *watcher_wrong(const struct watcher *w)
{
	return w->wrong[0] ? w->wrong : NULL;
}

bool watcher_saw_worker(const struct watcher *w)
{
	return w->joined;
}

/* --- the store --- */

/* What a shard's part says it has applied, at the moment the part was made (which is some time
 * before it is saved). */
static struct kept read_part(const struct watcher *w, const struct tw_part *part)
{
	static const char *const names[] = { "applied", "twice" };
	struct kept out = { .times = calloc(w->plan->dealing.positions, 1) };
	const struct tw_array *a;
	struct tw_shard_part numbers;
	struct tw_array *list;
	size_t count;

	if (tw_part_unpack(part->bytes->data, part->bytes->bytes, &tw_heap_system, &list, &count) !=
	    TW_OK)
		return out;
	for (int k = 0; k < 2; k++) {
		struct tw_span span;

		a = tw_part_find(list, count, names[k]);
		for (size_t i = 0; a && i < a->n / sizeof span; i++) {
			memcpy(&span, (const uint8_t *)a->at + i * sizeof span, sizeof span);
			for (uint64_t p = span.from; p < span.to && p < w->plan->dealing.positions;
			     p++)
				out.times[p]++;
		}
	}
	a = tw_part_find(list, count, TW_SHARD_PART);
	if (a && a->n == sizeof numbers) {
		memcpy(&numbers, a->at, sizeof numbers);
		out.total = numbers.tally.samples;
		out.dropped = numbers.tally.dropped_samples;
	}
	tw_heap_system.put(&tw_heap_system, list);
	return out;
}

static void more_cuts(struct watcher *w, uint64_t cut)
{
	const size_t room = cut < w->cuts ? w->cuts : 2 * cut + 8;

	for (uint32_t s = 0; s < w->plan->problem.shards && room > w->cuts; s++) {
		w->shard[s].cut = realloc(w->shard[s].cut, room * sizeof *w->shard[s].cut);
		memset(w->shard[s].cut + w->cuts, 0, (room - w->cuts) * sizeof *w->shard[s].cut);
	}
	w->cuts = room;
}

/* What the store has of a shard from now on, if the cut becomes complete. */
static void keep_part(struct watcher *w, uint64_t cut, const struct tw_part *part)
{
	unsigned shard;

	more_cuts(w, cut);
	if (sscanf(part->name, "shard %u", &shard) != 1 || shard >= w->plan->problem.shards ||
	    !part->bytes)
		return;
	free(w->shard[shard].cut[cut].times);
	w->shard[shard].cut[cut] = read_part(w, part);
	if (w->loud)
		fprintf(stderr, "cut %llu of shard %u: %llu samples\n", (unsigned long long)cut,
			shard, (unsigned long long)w->shard[shard].cut[cut].total);
}

static enum tw_status watch_save(struct tw_store *s, uint64_t cut, const struct tw_part *parts,
				 size_t count)
{
	struct watcher *w = (struct watcher *)s;
	enum tw_status st = w->inner->save(w->inner, cut, parts, count);

	if (st != TW_OK)
		return st;
	more_cuts(w, cut);
	w->newest = cut;
	for (size_t k = 0; k < count; k++)
		keep_part(w, cut, &parts[k]);
	return TW_OK;
}

static enum tw_status watch_put(struct tw_store *s, uint64_t cut, const struct tw_part *part)
{
	struct watcher *w = (struct watcher *)s;
	const enum tw_status st = w->inner->put(w->inner, cut, part);

	if (st == TW_OK)
		keep_part(w, cut, part);
	return st;
}

static enum tw_status watch_load(struct tw_store *s, uint64_t *cut, struct tw_part **parts,
				 size_t *count)
{
	struct watcher *w = (struct watcher *)s;

	return w->inner->load(w->inner, cut, parts, count);
}

static void watch_loaded_free(struct tw_store *s, struct tw_part *parts, size_t count)
{
	struct watcher *w = (struct watcher *)s;

	w->inner->loaded_free(w->inner, parts, count);
}

struct tw_store *watcher_store(struct watcher *w)
{
	return &w->store;
}

/* --- a watcher --- */

struct watcher *watcher_new(const struct tw_plan *plan, bool loud)
{
	struct watcher *w = calloc(1, sizeof *w);

	w->store = (struct tw_store){ .save = watch_save,
				      .load = watch_load,
				      .loaded_free = watch_loaded_free,
				      .put = watch_put };
	w->inner = tw_memory_store_new(&tw_heap_system);
	w->plan = plan;
	w->loud = loud;
	w->least = INFINITY;
	w->shard = calloc(plan->problem.shards, sizeof *w->shard);
	for (uint32_t s = 0; s < plan->problem.shards; s++)
		w->shard[s].times = calloc(plan->dealing.positions, 1);
	return w;
}

void watcher_free(struct watcher *w)
{
	for (uint32_t s = 0; s < w->plan->problem.shards; s++) {
		for (size_t k = 0; k < w->cuts; k++)
			free(w->shard[s].cut[k].times);
		free(w->shard[s].cut);
		free(w->shard[s].times);
		free(w->shard[s].seen);
	}
	tw_memory_store_free(w->inner);
	free(w->best);
	free(w->shard);
	free(w);
}

/* --- notes --- */

static bool same(const struct key *a, const struct key *b)
{
	return a->slot == b->slot && a->incarnation == b->incarnation && a->seq == b->seq;
}

/* Where the key is, or would be; an empty place has seq 0, which no contribution has. */
static struct key *find(struct key *table, size_t room, const struct key *k)
{
	size_t at = (size_t)((k->seq * 0x9e3779b97f4a7c15u) ^ (k->incarnation * 0x85ebca6bu) ^
			     (k->slot * 0xc2b2ae35u)) &
		    (room - 1);

	while (table[at].seq && !same(&table[at], k))
		at = (at + 1) & (room - 1);
	return &table[at];
}

/* No contribution twice on one life of a shard. */
static void watch_once(struct watcher *w, const struct tw_note *n)
{
	const struct key k = { n->slot, n->incarnation, n->seq };
	struct watched *s = &w->shard[n->shard];
	struct key *place;

	if (2 * s->seen_count >= s->seen_room) {
		const size_t room = s->seen_room ? 2 * s->seen_room : 64;
		struct key *table = calloc(room, sizeof *table);

		for (size_t i = 0; i < s->seen_room; i++)
			if (s->seen[i].seq)
				*find(table, room, &s->seen[i]) = s->seen[i];
		free(s->seen);
		s->seen = table;
		s->seen_room = room;
	}
	place = find(s->seen, s->seen_room, &k);
	if (place->seq)
		watcher_complain(w, "shard %u applied contribution %llu of worker %u twice",
				 n->shard, (unsigned long long)n->seq, n->slot);
	s->seen_count += !place->seq;
	*place = k;
}

static void applied(struct watcher *w, const struct tw_note *n)
{
	struct watched *s = &w->shard[n->shard];
	const struct key k = { n->slot, n->incarnation, n->seq };

	if (n->life != s->life)
		return; /* a shard that was given up, and has not heard of it */
	/* a contribution of several ranges is noted once per range: look at the first */
	if (!same(&s->last, &k))
		watch_once(w, n);
	s->last = k;
	s->noted[s->notes++ % NOTED] = (struct noted){ k, n->from, n->round, n->count };
	s->total += n->count;
	for (uint64_t p = n->from; p < n->from + n->count; p++)
		if (p >= w->plan->dealing.positions)
			watcher_complain(w, "position %llu was never there", (unsigned long long)p);
		else
			s->times[p]++;
}

/* A commit that was told, and died with its master, has not happened. */
static void taken_over(struct watcher *w, uint64_t round)
{
	for (uint32_t s = 0; s < w->plan->problem.shards; s++) {
		struct watched *x = &w->shard[s];

		for (size_t k = 0; k < NOTED && k < x->notes; k++) {
			struct noted *n = &x->noted[k];

			if (n->round < round || !n->count)
				continue;
			find(x->seen, x->seen_room, &n->key)->incarnation = UINT32_MAX;
			x->total -= n->count;
			for (uint64_t p = n->from; p < n->from + n->count; p++)
				x->times[p]--;
			n->count = 0;
		}
		x->last = (struct key){ 0 };
	}
}

/* Of a gate without rounds; a shard that was given up says so with its earlier life. */
static void dropped(struct watcher *w, const struct tw_note *n)
{
	struct watched *s = &w->shard[n->shard];

	if ((w->plan->gate->traits & TW_GATE_ROUNDS) || n->life != s->life)
		return;
	s->dropped += n->count;
}

static void hosted(struct watcher *w, const struct tw_note *n)
{
	struct watched *s = &w->shard[n->shard];

	if (n->life < s->life)
		return; /* it was given to somebody else meanwhile */
	if (n->hosted.cut && (n->hosted.cut >= w->cuts || !s->cut[n->hosted.cut].times)) {
		watcher_complain(w, "shard %u was taken from cut %llu, which does not exist",
				 n->shard, (unsigned long long)n->hosted.cut);
		return;
	}
	if (n->hosted.cut) {
		memcpy(s->times, s->cut[n->hosted.cut].times, w->plan->dealing.positions);
	} else {
		memset(s->times, 0, w->plan->dealing.positions);
	}
	if (s->seen)
		memset(s->seen, 0, s->seen_room * sizeof *s->seen);
	s->seen_count = 0;
	s->last = (struct key){ 0 };
	s->notes = 0;
	s->life = n->life;
	s->total = n->hosted.cut ? s->cut[n->hosted.cut].total : 0;
	s->dropped = n->hosted.cut ? s->cut[n->hosted.cut].dropped : 0;
	w->hosted_again = w->hosted_again || s->lives++;
}

static void evaluated(struct watcher *w, const struct tw_note *n)
{
	struct best *b;

	if (!n->eval.final && n->eval.loss < w->least)
		w->least = n->eval.loss;
	if (!n->eval.digest)
		return;
	w->best = realloc(w->best, (w->bests + 1) * sizeof *w->best);
	if (!w->best)
		abort();
	b = &w->best[w->bests++];
	*b = (struct best){ n->eval.loss, n->eval.point.samples, { 0 } };
	snprintf(b->digest, sizeof b->digest, "%s", n->eval.digest);
}

bool watcher_note(void *arg, const struct tw_note *n)
{
	static const char *const names[] = {
		[TW_NOTE_STEP] = "step",         [TW_NOTE_GRADIENT] = "gradient",
		[TW_NOTE_APPLY] = "apply",       [TW_NOTE_UPDATE] = "update",
		[TW_NOTE_COMMIT] = "commit",     [TW_NOTE_DROP] = "drop",
		[TW_NOTE_REFUSED] = "refused",   [TW_NOTE_DEAL] = "deal",
		[TW_NOTE_VIEW] = "view",         [TW_NOTE_EVAL] = "eval",
		[TW_NOTE_CUT] = "cut",           [TW_NOTE_ROLLBACK] = "rollback",
		[TW_NOTE_HOSTED] = "hosted",     [TW_NOTE_PINNED] = "pinned",
		[TW_NOTE_PROGRESS] = "progress", [TW_NOTE_TAKEOVER] = "takeover",
	};
	struct watcher *w = arg;

	if (w->loud)
		fprintf(stderr,
			"%.4f %s: shard %u slot %u.%x seq %llu round %llu version %llu from %llu "
			"count %u\n",
			(double)n->at / 1e9,
			n->kind < sizeof names / sizeof names[0] && names[n->kind] ? names[n->kind]
										   : "?",
			n->shard, n->slot, n->incarnation, (unsigned long long)n->seq,
			(unsigned long long)n->round, (unsigned long long)n->version,
			(unsigned long long)n->from, n->count);
	w->applied += n->kind == TW_NOTE_APPLY ? n->count : 0;
	if (n->kind == TW_NOTE_DEAL && w->plan->dealing.subsets.own)
		judge_deal(w, n);
	if (n->kind == TW_NOTE_APPLY)
		applied(w, n);
	else if (n->kind == TW_NOTE_DROP)
		dropped(w, n);
	else if (n->kind == TW_NOTE_HOSTED)
		hosted(w, n);
	else if (n->kind == TW_NOTE_TAKEOVER)
		taken_over(w, n->round);
	else if (n->kind == TW_NOTE_VIEW)
		w->joined = true;
	else if (n->kind == TW_NOTE_EVAL)
		evaluated(w, n);
	return true;
}

/* --- the end --- */

static uint64_t unit_of(const struct tw_plan *p)
{
	const uint32_t batch =
		p->dealing.global_batch
			? (p->dealing.global_batch + p->crew.workers - 1) / p->crew.workers
			: p->dealing.batch;

	return (uint64_t)batch * p->dealing.accumulate * p->traffic.push;
}

static void judge_rounds(struct watcher *w, const struct tw_totals *t)
{
	const struct tw_plan *p = w->plan;
	/* does the gate leave late contributions out? */
	const bool drops = tw_gate_quorum(p->gate, p->gate_options, 2, 0) < 2;
	const uint64_t unit = unit_of(p);
	const uint32_t subsets = p->dealing.subsets.count; /* each ends with a stripe of its own */
	const uint64_t passed = t->unreachable + t->vacant;
	uint64_t applied = 0;

	for (uint32_t s = 1; s < p->problem.shards; s++)
		if (memcmp(w->shard[s].times, w->shard[0].times, p->dealing.positions) != 0)
			watcher_complain(w, "shards 0 and %u have different samples", s);
	for (uint64_t i = 0; i < p->dealing.positions; i++) {
		const uint8_t times = w->shard[0].times[i];

		applied += times;
		if (times > 1 || (times == 0 && !drops && !t->refused && !passed))
			watcher_complain(w, "sample %llu was applied %u times under %s",
					 (unsigned long long)i, times, p->gate->name);
	}
	if (applied + t->dropped + t->refused * unit + passed != p->dealing.positions)
		watcher_complain(w,
				 "%llu applied + %llu dropped + %llu refused + %llu passed over is "
				 "not the %llu dealt",
				 (unsigned long long)applied, (unsigned long long)t->dropped,
				 (unsigned long long)(t->refused * unit),
				 (unsigned long long)passed,
				 (unsigned long long)p->dealing.positions);
	if (t->samples != applied)
		watcher_complain(w, "%llu samples were applied, the run says %llu",
				 (unsigned long long)applied, (unsigned long long)t->samples);
	/* stripes are whole, whoever gets them; none crosses push_after */
	if (p->dealing.batch && !p->dealing.subsets.own &&
	    p->problem.samples % (unit * (subsets ? subsets : 1)) == 0 &&
	    p->dealing.positions % unit == 0 && p->traffic.push_from % unit == 0 &&
	    t->steps * p->dealing.batch != t->samples)
		watcher_complain(w, "%llu steps of %u samples are not %llu",
				 (unsigned long long)t->steps, p->dealing.batch,
				 (unsigned long long)t->samples);
	if (t->repeated || t->lost_updates)
		watcher_complain(w, "a round gate reports repeated or lost samples");
}

/* The run says the mean over shards. */
static void judge_samples(struct watcher *w, const struct tw_totals *t)
{
	uint64_t all = 0;

	for (uint32_t s = 0; s < w->plan->problem.shards; s++)
		all += w->shard[s].total;
	all = (all + w->plan->problem.shards / 2) / w->plan->problem.shards;
	if (t->samples != all)
		watcher_complain(w, "shards applied %llu samples in the mean, the run says %llu",
				 (unsigned long long)all, (unsigned long long)t->samples);
}

static void judge_others(struct watcher *w, const struct tw_totals *t)
{
	const bool one_mind = tw_gate_drops(w->plan->gate, w->plan->gate_options);
	const uint64_t passed = (t->unreachable + t->vacant) * w->plan->problem.shards;
	uint64_t missing = 0, repeated = 0, late = 0;

	for (uint64_t p = 0; p < w->plan->dealing.positions; p++) {
		bool twice = false;

		for (uint32_t s = 0; s < w->plan->problem.shards; s++) {
			missing += w->shard[s].times[p] == 0;
			twice = twice || w->shard[s].times[p] > 1;
			if (one_mind && !w->hosted_again &&
			    w->shard[s].times[p] != w->shard[0].times[p])
				watcher_complain(w,
						 "shard %u has position %llu %u times, shard 0 %u",
						 s, (unsigned long long)p, w->shard[s].times[p],
						 w->shard[0].times[p]);
		}
		repeated += twice;
	}
	/* some shards may have what a worker pushed before it was lost, and others not */
	missing -= missing < passed ? missing : passed;
	if (missing > (t->lost_updates + t->refused) * unit_of(w->plan) * w->plan->problem.shards)
		watcher_complain(w, "%llu samples are missing on shards, lost_updates is %llu",
				 (unsigned long long)missing, (unsigned long long)t->lost_updates);
	if (missing == 0 && !passed && t->lost_updates)
		watcher_complain(w, "nothing is missing, lost_updates is %llu",
				 (unsigned long long)t->lost_updates);
	if (missing && !w->hosted_again && !t->refused)
		watcher_complain(w,
				 "%llu samples are missing although no shard was taken from a cut",
				 (unsigned long long)missing);
	if (repeated != t->repeated)
		watcher_complain(w, "%llu samples were repeated, the run says %llu",
				 (unsigned long long)repeated, (unsigned long long)t->repeated);
	if (t->repeated > t->redealt)
		watcher_complain(w, "repeated %llu is more than redealt %llu",
				 (unsigned long long)t->repeated, (unsigned long long)t->redealt);
	for (uint32_t s = 0; s < w->plan->problem.shards; s++)
		late += w->shard[s].dropped;
	if (t->dropped != late / w->plan->problem.shards)
		watcher_complain(
			w, "shards dropped %llu samples in all, the run says %llu in the mean",
			(unsigned long long)late, (unsigned long long)t->dropped);
}

/* Replicas that differ: each contribution is told by the replica of its own worker, which may die
 * with what the others have not heard of.  So much is `gone`: it is lost, or was dealt again. */
static void judge_loose(struct watcher *w, const struct tw_totals *t)
{
	const uint64_t unit = unit_of(w->plan), positions = w->plan->dealing.positions;
	const uint32_t shards = w->plan->problem.shards;
	uint64_t all = 0, gone, repeated = 0;

	for (uint32_t s = 0; s < shards; s++)
		all += w->shard[s].total;
	for (uint64_t p = 0; p < positions; p++) {
		bool twice = false;

		for (uint32_t s = 0; s < shards; s++) {
			twice = twice || w->shard[s].times[p] > 1;
			if (!w->shard[s].times[p] && !t->lost_updates && !t->refused)
				watcher_complain(w, "position %llu is nowhere",
						 (unsigned long long)p);
		}
		repeated += twice;
	}
	all = (all + shards / 2) / shards;
	gone = all - t->samples;
	if (t->samples > all)
		watcher_complain(w, "shards applied %llu samples in the mean, the run says %llu",
				 (unsigned long long)all, (unsigned long long)t->samples);
	if (t->samples + (t->lost_updates + t->refused) * unit < positions)
		watcher_complain(w, "%llu samples and %llu lost updates are not %llu",
				 (unsigned long long)t->samples,
				 (unsigned long long)t->lost_updates,
				 (unsigned long long)positions);
	if (t->samples > positions + t->redealt)
		watcher_complain(w, "%llu samples of %llu, and %llu dealt again",
				 (unsigned long long)t->samples, (unsigned long long)positions,
				 (unsigned long long)t->redealt);
	if (t->lost_updates && !gone && !w->hosted_again)
		watcher_complain(w, "nothing is gone, lost_updates is %llu",
				 (unsigned long long)t->lost_updates);
	if (t->repeated > repeated || t->repeated > t->redealt)
		watcher_complain(w, "%llu samples were repeated, the run says %llu",
				 (unsigned long long)repeated, (unsigned long long)t->repeated);
}

/* What was lost with a server takes nothing away from what was applied before. */
static void judge_steady(struct watcher *w, const struct tw_steady *s)
{
	const double most = w->applied / w->plan->problem.shards;

	if (s->samples < 0 || s->samples > most)
		watcher_complain(w, "%g samples without the tail, and %g were ever applied",
				 s->samples, most);
}

/* The result is what was evaluated, under the digest that was told then; where nobody dies, it is
 * the best of all. */
static void judge_kept(struct watcher *w, const struct tw_totals *t)
{
	const struct tw_problem *p = &w->plan->problem;
	char text[TW_DIGEST_TEXT];

	if (!w->plan->keeping.best)
		return;
	if (!t->kept.pin) {
		watcher_complain(w, "no evaluation was kept");
		return;
	}
	if (!t->vector ||
	    tw_digest_floats(t->vector, p->border, p->shards, 0, p->trainable, NULL, text) != TW_OK)
		return;
	for (size_t k = 0; k < w->bests; k++)
		if (w->best[k].loss == t->kept.loss && w->best[k].samples == t->kept.samples &&
		    strcmp(w->best[k].digest, text) == 0) {
			if (t->loss != t->kept.loss)
				watcher_complain(w, "its loss is %g, that of what it kept %g",
						 t->loss, t->kept.loss);
			return;
		}
	watcher_complain(w,
			 "the result (%s, loss %.9g) is none of the %zu evaluations that were "
			 "the best",
			 text, t->kept.loss, w->bests);
}

double watcher_least(const struct watcher *w)
{
	return w->least;
}

void watcher_judge(struct watcher *w, const struct tw_totals *t)
{
	const bool loose = tw_plan_is_loose(w->plan) && !(w->plan->gate->traits & TW_GATE_ROUNDS);

	if (!loose)
		judge_samples(w, t);
	if (loose)
		judge_loose(w, t);
	else if (w->plan->gate->traits & TW_GATE_ROUNDS)
		judge_rounds(w, t);
	else
		judge_others(w, t);
	judge_steady(w, &t->steady);
	judge_kept(w, t);
	if (!(t->loss < 1e300))
		watcher_complain(w, "its loss is not a number");
}
