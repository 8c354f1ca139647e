/* SPDX-License-Identifier: Apache-2.0 */
/* suggest.c - which variants a sentence may suggest: by what their tables say of them.
 *
 *  (1) every mark of a sentence is in the table, and at least one variant answers to it. */
#include "spec/help/suggest.h"

#include "strategy/outer.h"

#include <string.h>

/* Besides traits, a mark may want a member of the variants to be set, or not. */
#define SET(type, member) .at = offsetof(type, member), .bytes = sizeof((type *)0)->member

static const struct mark {
	const char *text;
	const struct tw_variant *const *heads;
	uint32_t with, without;
	size_t at, bytes; /* of the member; 0: none */
	bool unset;
} marks[] = {
	{ "at-once gate", tw_gate_heads, 0, TW_GATE_NOT_AT_ONCE },
	{ "holding gate", tw_gate_heads, TW_GATE_HOLDS, TW_GATE_ROUNDS },
	{ "round gate", tw_gate_heads, TW_GATE_ROUNDS, 0 },
	{ "whole-round gate", tw_gate_heads, TW_GATE_ROUNDS | TW_GATE_IN_TURN, 0 },
	{ "one-by-one gate", tw_gate_heads, 0,
	  TW_GATE_ROUNDS | TW_GATE_COLLECTS | TW_GATE_LOCKFREE | TW_GATE_DROPS },
	{ "plain rule", tw_rule_heads, TW_RULE_PLAIN, 0 },
	{ "rule with one velocity", tw_rule_heads, TW_RULE_LINEAR,
	  TW_RULE_PLAIN | TW_RULE_OWN_VIEW | TW_RULE_PER_WORKER },
	{ "turnable rule", tw_rule_heads, TW_RULE_LINEAR, TW_RULE_OWN_VIEW | TW_RULE_PER_WORKER },
	{ "linear rule", tw_rule_heads, TW_RULE_LINEAR, TW_RULE_PER_WORKER | TW_RULE_PREDICTS },
	{ "normalising rule", tw_rule_heads, TW_RULE_NORMALISES,
	  TW_RULE_OWN_DECAY | TW_RULE_OWN_VIEW | TW_RULE_PREDICTS },
	{ "rule with a worker's half", tw_rule_heads, 0, 0, SET(struct tw_rule, prepare) },
	{ "rule with a state", tw_rule_heads, 0, TW_RULE_PER_WORKER | TW_RULE_PREDICTS,
	  SET(struct tw_rule, arrays) },
	{ "outside rule", tw_rule_heads, TW_RULE_OUTSIDE, 0 },
	{ "idle policy", tw_staleness_heads, 0, 0, SET(struct tw_staleness, correct),
	  .unset = true },
	{ "comparing policy", tw_staleness_heads, TW_STALENESS_SENT, TW_STALENESS_OBSERVES },
	{ "measuring policy", tw_staleness_heads, TW_STALENESS_STATISTIC, 0 },
	{ "scaling policy", tw_staleness_heads, TW_STALENESS_SCALES, 0 },
	{ "outer rule", tw_outer_heads, 0, 0 },
	{ "exact codec", tw_codec_heads, TW_CODEC_IDENTITY, 0 },
	{ "downward codec", tw_codec_heads, TW_CODEC_DOWN, 0 },
	{ "plain codec", tw_codec_heads, 0, TW_CODEC_REMEMBERS },
	{ "pipeline", tw_pipeline_heads, 0, 0 },
	{ "flushing pipeline", tw_pipeline_heads, TW_PIPELINE_FLUSHES, 0 },
	{ "drawn source", tw_source_heads, 0, 0, SET(struct tw_source, drawn) },
	{ "gathering reduction", tw_reduction_heads, 0, 0, SET(struct tw_reduction, gather) },
};
#define MARKS (sizeof marks / sizeof marks[0])

static bool is_set(const struct mark *m, const struct tw_variant *v)
{
	bool set = false;

	for (size_t k = 0; k < m->bytes; k++)
		set = set || ((const char *)v)[m->at + k];
	return set;
}

/* The next variant from *k on that the mark means. */
static const char *next(const struct mark *m, size_t *k)
{
	const struct tw_variant *v;

	while ((v = m->heads[(*k)++]))
		if (tw_variant_fits(v, m->with, m->without) &&
		    (!m->bytes || is_set(m, v) != m->unset))
			return v->name;
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
