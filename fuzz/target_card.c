/* SPDX-License-Identifier: Apache-2.0 */
/* target_card.c - model cards: refused with a sentence, or written again as the same card, and
 * either makes a network or says why not.
 *
 * Input: the request for memory that is refused, then the card as JSON text. */
#include "fuzz.h"
#include "checkpoint/model_card.h"

#include <math.h>
#include <string.h>

static void again(const struct tw_card *c)
{
	json_t *one = tw_card_json(c), *other;
	struct tw_error why = { 0 };
	struct tw_card *back = NULL;

	MUST(one && tw_card_read(&tw_heap_system, one, &back, &why) == TW_OK);
	other = tw_card_json(back);
	MUST(json_equal(one, other));
	tw_card_free(back);
	json_decref(one);
	json_decref(other);
}

static void look_into(const struct tw_card *c)
{
	struct tw_error why = { 0 };
	struct tw_graph *g = NULL;
	enum tw_status st;

	if (c->task == TW_CARD_MADE_UP || c->task == TW_CARD_EXTERNAL) {
		MUST(tw_card_computes(c, "x", &why) == TW_BAD_INPUT && why.text[0]);
		return;
	}
	MUST(c->columns * c->run == c->data.features && c->batch && c->layers);
	for (size_t k = 0; k < c->columns; k++)
		MUST(isfinite(c->scale[k]) && isfinite(c->shift[k]));
	st = tw_card_graph(c, &tw_heap_system, &g, &why);
	if (st == TW_OK)
		tw_card_reading(g);
	else
		tw_fuzz_told(st, &why, false);
	tw_graph_free(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct tw_fuzz_input in = { bytes, n };
	struct tw_error why = { 0 };
	struct tw_card *c = NULL;
	struct tw_fuzz_heap heap;
	enum tw_status st;
	json_t *card;

	tw_fuzz_heap_init(&heap, tw_fuzz_byte(&in), ((size_t)1 << 20) + n * 256);
	card = json_loadb((const char *)in.at, in.left, JSON_REJECT_DUPLICATES, NULL);
	if (!card)
		return 0;
	st = tw_card_read(&heap.heap, card, &c, &why);
	if (st == TW_OK) {
		look_into(c);
		again(c);
		tw_card_free(c);
	} else {
		tw_fuzz_told(st, &why, heap.refuse && heap.calls >= heap.refuse);
	}
	json_decref(card);
	MUST(heap.live == 0);
	return 0;
}
