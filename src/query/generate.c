/* SPDX-License-Identifier: Apache-2.0 */
/* generate.c - a text that goes on: the network predicts a token, which is drawn and appended.
 *
 * A network sees as many tokens as a sample of its training had.  What lies behind the last token
 * is filled with zeros, which a causal network does not see; that it does not is tried before
 * anything is drawn.  Token number k is drawn by draw number k of the seed, so the same seed gives
 * the same text. */
#include "query/trained_model.h"

#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct generating {
	const struct tw_generate_request *request;
	struct tw_trained t;
	struct tw_data data;
	struct tw_forward *forward;
	struct tw_samples one; /* one sample: the window */
	void *window;          /* of bytes or floats, as the data has them */
	uint32_t *label;       /* answers that nobody looks at */
	float *y;              /* of all positions */
	double *weight;        /* of each token */
	uint32_t *order;       /* tokens, the likeliest first */
	uint32_t *token;       /* the prompt and what follows */
	size_t tokens;
	uint32_t length, vocabulary;
};

static void put(const struct generating *g, uint32_t at, uint32_t token)
{
	if (g->data.kind == TW_VALUE_U8)
		((uint8_t *)g->window)[at] = (uint8_t)token;
	else
		((float *)g->window)[at] = (float)token;
}

/* The logits behind the last of `count` tokens; the rest of the window has `filler`. */
static enum tw_status compute(const struct generating *g, const uint32_t *token, uint32_t count,
			      uint32_t filler, const float **out, struct tw_error *why)
{
	const float *y = g->y + (size_t)(count - 1) * g->vocabulary;
	enum tw_status st;

	for (uint32_t k = 0; k < g->length; k++)
		put(g, k, k < count ? token[k] : filler);
	st = tw_forward_run(g->forward, &g->one, 0, 1, g->y, NULL);
	if (st != TW_OK)
		return tw_fail(why, st, "the next token cannot be computed: %s",
			       tw_status_name(st));
	for (uint32_t k = 0; k < g->vocabulary; k++)
		if (!isfinite(y[k]))
			return tw_fail(why, TW_BAD_INPUT,
				       "%.300s gives outputs that are not finite numbers: its "
				       "training diverged",
				       g->t.snapshot->path);
	*out = y;
	return TW_OK;
}

/* What follows a token must not change what is predicted behind it. */
static enum tw_status check_causal(const struct generating *g, struct tw_error *why)
{
	const size_t bytes = g->vocabulary * sizeof(float);
	const float *y = NULL;
	enum tw_status st;
	float *first;
	bool same;

	if (g->length == 1)
		return TW_OK;
	first = malloc(bytes);
	if (!first)
		return tw_fail(why, TW_NO_MEMORY, "no memory to generate");
	st = compute(g, g->token, 1, 0, &y, why);
	if (st == TW_OK) {
		memcpy(first, y, bytes);
		st = compute(g, g->token, 1, g->vocabulary - 1, &y, why);
	}
	same = st != TW_OK || memcmp(first, y, bytes) == 0;
	free(first);
	if (!same)
		return tw_fail(
			why, TW_BAD_INPUT,
			"the network of %.300s looks at tokens behind the one it predicts, so "
			"it cannot generate; train it with 'attention ... causal'",
			g->t.snapshot->path);
	return st;
}

/* The likeliest first; of equals the one with the smaller number. */
static int compare(const void *a, const void *b, void *weights)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	const double *w = weights;

	if (w[x] != w[y])
		return w[x] > w[y] ? -1 : 1;
	return (x > y) - (x < y);
}

static uint32_t draw(const struct generating *g, const float *y, uint64_t number)
{
	const struct tw_rng rng = tw_rng_make(g->request->seed, TW_RNG_GENERATE);
	const double temperature = g->request->temperature;
	const uint32_t k = g->request->top_k, n = k && k < g->vocabulary ? k : g->vocabulary;
	double most = (double)y[0], sum = 0, left;
	uint32_t best = 0;

	for (uint32_t i = 1; i < g->vocabulary; i++)
		if ((double)y[i] > most) {
			most = (double)y[i];
			best = i;
		}
	if (temperature <= 0)
		return best;
	for (uint32_t i = 0; i < g->vocabulary; i++) {
		g->weight[i] = exp(((double)y[i] - most) / temperature);
		g->order[i] = i;
	}
	qsort_r(g->order, g->vocabulary, sizeof *g->order, compare, g->weight);
	for (uint32_t i = 0; i < n; i++)
		sum += g->weight[g->order[i]];
	left = tw_rng_uniform(&rng, number, 0) * sum;
	for (uint32_t i = 0; i + 1 < n; i++) {
		left -= g->weight[g->order[i]];
		if (left < 0)
			return g->order[i];
	}
	return g->order[n - 1];
}

static enum tw_status run(struct generating *g, struct tw_error *why)
{
	const struct tw_generate_request *r = g->request;
	enum tw_status st = TW_OK;

	for (uint64_t k = 0; st == TW_OK && k < r->length; k++) {
		const uint32_t count = g->tokens < g->length ? (uint32_t)g->tokens : g->length;
		const float *y = NULL;
		uint32_t token;

		st = compute(g, g->token + g->tokens - count, count, 0, &y, why);
		if (st != TW_OK)
			return st;
		if (r->logits) {
			r->logits(r->arg, y, g->vocabulary);
			return TW_OK;
		}
		token = draw(g, y, k);
		g->token[g->tokens++] = token;
		if (!r->emit(r->arg, token, g->data.kind == TW_VALUE_U8))
			return TW_OK;
	}
	return st;
}

/* --- the prompt --- */

static enum tw_status take_numbers(struct generating *g, struct tw_error *why)
{
	static const char blanks[] = " \t\n";
	const char *at = g->request->prompt, *end;

	for (at += strspn(at, blanks); *at; at = end + strspn(end, blanks)) {
		const unsigned long v = strtoul(at, NULL, 10);

		end = at + strcspn(at, blanks);
		if (strspn(at, "0123456789") != (size_t)(end - at))
			return tw_fail(why, TW_BAD_INPUT,
				       "--prompt: '%.*s' is no number; the network was trained on "
				       "tokens as numbers, so the prompt is numbers with blanks "
				       "between them",
				       (int)(end - at < 30 ? end - at : 30), at);
		if (v >= g->vocabulary)
			return tw_fail(why, TW_BAD_INPUT,
				       "--prompt: %.*s is no token; the vocabulary has %u, from 0 "
				       "to %u",
				       (int)(end - at < 30 ? end - at : 30), at, g->vocabulary,
				       g->vocabulary - 1);
		g->token[g->tokens++] = (uint32_t)v;
	}
	if (!g->tokens)
		return tw_fail(why, TW_BAD_INPUT,
			       "--prompt: must be given for a network of tokens: numbers with "
			       "blanks between them, such as --prompt 0");
	return TW_OK;
}

static enum tw_status take_prompt(struct generating *g, struct tw_error *why)
{
	const char *prompt = g->request->prompt;
	const size_t n = strlen(prompt);
	enum tw_status st = TW_OK;

	g->token = malloc((n + g->request->length + 1) * sizeof *g->token);
	if (!g->token)
		return tw_fail(why, TW_NO_MEMORY, "no memory for %zu tokens",
			       n + (size_t)g->request->length);
	if (g->data.kind == TW_VALUE_U8)
		for (size_t k = 0; k < n; k++)
			g->token[g->tokens++] = (unsigned char)prompt[k];
	else
		st = take_numbers(g, why);
	if (st == TW_OK && !g->tokens)
		return tw_fail(why, TW_BAD_INPUT,
			       "--prompt: is empty; a first token is needed, such as --prompt A");
	for (size_t k = 0; st == TW_OK && k < g->tokens; k++)
		if (g->token[k] >= g->vocabulary)
			return tw_fail(why, TW_BAD_INPUT,
				       "--prompt: byte %zu is %u, and the vocabulary has %u tokens",
				       k, g->token[k], g->vocabulary);
	return st;
}

/* --- --- */

static enum tw_status prepare(struct generating *g, struct tw_error *why)
{
	const struct tw_card *c = g->t.card;

	if (c->task != TW_CARD_TOKENS)
		return tw_fail(why, TW_BAD_INPUT,
			       "%.300s predicts %s, not the next token of a text; train on "
			       "a data.source of text or tokens to generate",
			       g->t.snapshot->path, tw_card_tasks[c->task]);
	g->data = c->data;
	g->length = (uint32_t)c->data.features;
	g->vocabulary = c->data.classes;
	g->window = calloc(g->length, sizeof(float));
	g->label = calloc(g->length, sizeof *g->label);
	g->y = malloc((size_t)g->t.outputs * sizeof *g->y);
	g->weight = malloc(g->vocabulary * sizeof *g->weight);
	g->order = malloc(g->vocabulary * sizeof *g->order);
	if (!g->window || !g->label || !g->y || !g->weight || !g->order)
		return tw_fail(why, TW_NO_MEMORY, "no memory to generate");
	g->one = (struct tw_samples){ .count = 1, .value = g->window, .label = g->label };
	return tw_trained_forward(&g->t, &g->data, &g->forward, why);
}

enum tw_status tw_query_generate(const struct tw_generate_request *r, struct tw_error *why)
{
	struct generating g = { .request = r };
	enum tw_status st = tw_trained_open(r->path, NULL, &r->words, r->log, &g.t, why);

	if (st != TW_OK)
		return st;
	st = prepare(&g, why);
	if (st == TW_OK)
		st = take_prompt(&g, why);
	if (st == TW_OK)
		st = check_causal(&g, why);
	for (size_t k = 0; st == TW_OK && k < g.tokens; k++)
		r->emit(r->arg, g.token[k], g.data.kind == TW_VALUE_U8);
	if (st == TW_OK)
		st = run(&g, why);
	tw_forward_close(g.forward);
	free(g.token);
	free(g.order);
	free(g.weight);
	free(g.y);
	free(g.label);
	free(g.window);
	tw_trained_close(&g.t);
	return st;
}
