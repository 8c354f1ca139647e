/* SPDX-License-Identifier: Apache-2.0 */
/* suggest.c - which variants a sentence may suggest: by what their tables say of them.
 *
 *  (1) every mark of a sentence is in the table, and at least one variant answers to it. */
#include "spec/suggest.h"

#include "strategy/outer.h"

#include "data/source.h"
#include "strategy/codec.h"
#include "strategy/gate.h"
#include "strategy/pipeline.h"
#include "strategy/reduction.h"
#include "strategy/rule.h"
#include "strategy/staleness.h"

#include <string.h>

/* What a table says by a function or a flag of its own, beside the bits of its traits. */
#define PREPARES (1u << 31) /* a rule: has a worker's half */
#define STATE    (1u << 30) /* a rule: keeps arrays */
#define CORRECTS (1u << 31) /* a staleness policy: changes gradients */
#define DRAWS    (1u << 31) /* a data source: needs no files */
#define GATHERS  (1u << 31) /* a reduction: contributions can go to all as they are */

enum kind { GATE, RULE, OUTER, STALENESS, CODEC, PIPELINE, SOURCE, REDUCTION };

static const struct mark {
	const char *text;
	enum kind kind;
	uint32_t with, without;
} marks[] = {
	{ "at-once gate", GATE, 0, TW_GATE_NOT_AT_ONCE },
	{ "holding gate", GATE, TW_GATE_HOLDS, TW_GATE_ROUNDS },
	{ "round gate", GATE, TW_GATE_ROUNDS, 0 },
	{ "whole-round gate", GATE, TW_GATE_ROUNDS | TW_GATE_IN_TURN, 0 },
	{ "one-by-one gate", GATE, 0,
	  TW_GATE_ROUNDS | TW_GATE_COLLECTS | TW_GATE_LOCKFREE | TW_GATE_DROPS },
	{ "plain rule", RULE, TW_RULE_PLAIN, 0 },
	{ "rule with one velocity", RULE, TW_RULE_LINEAR,
	  TW_RULE_PLAIN | TW_RULE_OWN_VIEW | TW_RULE_PER_WORKER },
	{ "turnable rule", RULE, TW_RULE_LINEAR, TW_RULE_OWN_VIEW | TW_RULE_PER_WORKER },
	{ "linear rule", RULE, TW_RULE_LINEAR, TW_RULE_PER_WORKER | TW_RULE_PREDICTS },
	{ "normalising rule", RULE, TW_RULE_NORMALISES,
	  TW_RULE_OWN_DECAY | TW_RULE_OWN_VIEW | TW_RULE_PREDICTS },
	{ "rule with a worker's half", RULE, PREPARES, 0 },
	{ "rule with a state", RULE, STATE, TW_RULE_PER_WORKER | TW_RULE_PREDICTS },
	{ "idle policy", STALENESS, 0, CORRECTS },
	{ "comparing policy", STALENESS, TW_STALENESS_SENT, TW_STALENESS_OBSERVES },
	{ "measuring policy", STALENESS, TW_STALENESS_STATISTIC, 0 },
	{ "scaling policy", STALENESS, TW_STALENESS_SCALES, 0 },
	{ "outer rule", OUTER, 0, 0 },
	{ "exact codec", CODEC, TW_CODEC_IDENTITY, 0 },
	{ "downward codec", CODEC, TW_CODEC_DOWN, 0 },
	{ "plain codec", CODEC, 0, TW_CODEC_REMEMBERS },
	{ "pipeline", PIPELINE, 0, 0 },
	{ "flushing pipeline", PIPELINE, TW_PIPELINE_FLUSHES, 0 },
	{ "drawn source", SOURCE, DRAWS, 0 },
	{ "gathering reduction", REDUCTION, GATHERS, 0 },
};
#define MARKS (sizeof marks / sizeof marks[0])

/* The name of variant number k, or NULL after the last, and what is true of it. */
static const char *variant(enum kind kind, size_t k, uint32_t *traits)
{
	switch (kind) {
	case GATE:
		*traits = tw_gate_all[k] ? tw_gate_all[k]->traits : 0;
		return tw_gate_all[k] ? tw_gate_all[k]->name : NULL;
	case RULE:
		if (!tw_rule_all[k])
			return NULL;
		*traits = tw_rule_all[k]->traits | (tw_rule_all[k]->prepare ? PREPARES : 0) |
			  (tw_rule_all[k]->arrays ? STATE : 0);
		return tw_rule_all[k]->name;
	case OUTER:
		*traits = tw_outer_all[k] ? tw_outer_all[k]->traits : 0;
		return tw_outer_all[k] ? tw_outer_all[k]->name : NULL;
	case STALENESS:
		if (!tw_staleness_all[k])
			return NULL;
		*traits =
			tw_staleness_all[k]->traits | (tw_staleness_all[k]->correct ? CORRECTS : 0);
		return tw_staleness_all[k]->name;
	case CODEC:
		*traits = tw_codec_all[k] ? tw_codec_all[k]->traits : 0;
		return tw_codec_all[k] ? tw_codec_all[k]->name : NULL;
	case PIPELINE:
		*traits = tw_pipeline_all[k] ? tw_pipeline_all[k]->traits : 0;
		return tw_pipeline_all[k] ? tw_pipeline_all[k]->name : NULL;
	case SOURCE:
		*traits = tw_source_all[k] && tw_source_all[k]->drawn ? DRAWS : 0;
		return tw_source_all[k] ? tw_source_all[k]->name : NULL;
	case REDUCTION:
		*traits = tw_reduction_all[k] && tw_reduction_all[k]->gather ? GATHERS : 0;
		return tw_reduction_all[k] ? tw_reduction_all[k]->name : NULL;
	}
	return NULL;
}

/* The next variant from *k on that the mark means. */
static const char *next(const struct mark *m, size_t *k)
{
	const char *name;
	uint32_t traits = 0;

	while ((name = variant(m->kind, (*k)++, &traits)))
		if ((traits & m->with) == m->with && !(traits & m->without))
			return name;
	return NULL;
}

/* "a, b or c", of which `first` is a alone. */
static size_t list(const struct mark *m, bool first, char *out, size_t room)
{
	size_t k = 0, at = 0;
	const char *name = next(m, &k), *after;

	HOLDS(1, name);
	at = (size_t)snprintf(out, room, "%s", name);
	for (name = first ? NULL : next(m, &k); name && at < room; name = after) {
		after = next(m, &k);
		at += (size_t)snprintf(out + at, room - at, "%s%s", after ? ", " : " or ", name);
	}
	return at;
}

/* What stands between the brackets of a mark, `n` letters. */
static size_t fill(const struct tw_job *job, const char *text, size_t n, char *out, size_t room)
{
	const size_t article = strncmp(text, "a ", 2) == 0    ? 2
			       : strncmp(text, "an ", 3) == 0 ? 3
							      : 0;
	size_t k = 0;

	if (n == 4 && strncmp(text, "gate", n) == 0)
		return (size_t)snprintf(out, room, "%s", job->plan.gate->name);
	if (n == 9 && strncmp(text, "optimiser", n) == 0)
		return (size_t)snprintf(out, room, "%s", job->plan.optimising.method->name);
	text += article;
	n -= article;
	while (k < MARKS && (strlen(marks[k].text) != n || strncmp(marks[k].text, text, n) != 0))
		k++;
	HOLDS(1, k < MARKS);
	return list(&marks[k], article, out, room);
}

const char *tw_suggest(const struct tw_job *job, const char *sentence, char *out, size_t room)
{
	size_t at = 0;

	while (*sentence && at + 1 < room) {
		const char *end = *sentence == '[' ? strchr(sentence, ']') : NULL;

		if (end) {
			at += fill(job, sentence + 1, (size_t)(end - sentence) - 1, out + at,
				   room - at);
			sentence = end + 1;
		} else {
			out[at++] = *sentence++;
		}
	}
	out[at < room ? at : room - 1] = '\0';
	return out;
}
