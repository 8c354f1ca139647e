/* SPDX-License-Identifier: Apache-2.0 */
/* nets.c - building what a test asks for, and asserting how that ends. */
#include "model/nets.h"

#include "base/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

struct tw_model_site site_of(uint32_t channels, uint32_t h, uint32_t w, uint32_t classes)
{
	return (struct tw_model_site){
		.heap = &tw_heap_system,
		.in = { .rank = h ? 3 : 1, .d = { channels, h, w } },
		.classes = classes,
		.init = TW_INIT_HE,
		.loss = "cross-entropy",
		.loss_place = "",
	};
}

struct tw_graph *net_build(const struct tw_model_site *site, const struct tw_layer *layer,
			   size_t layers)
{
	struct tw_error why = { 0 };
	struct tw_graph *g = NULL;

	if (tw_model_build(site, layer, layers, &g, &why) != TW_OK)
		fail_msg("%s", why.text);
	return g;
}

void net_refused(const struct tw_model_site *site, const struct tw_layer *layer, size_t layers,
		 const char *sentence)
{
	struct tw_error why = { 0 };
	struct tw_graph *g = NULL;

	assert_int_equal(tw_model_build(site, layer, layers, &g, &why), TW_BAD_INPUT);
	assert_null(g);
	assert_string_equal(why.text, sentence);
}

static enum tw_status set_all(const struct tw_zoo *zoo, const char *const *settings, void *options,
			      struct tw_arena *keep, struct tw_error *why)
{
	enum tw_status status = tw_option_defaults(zoo->options, options, keep, why);

	for (; settings && *settings && status == TW_OK; settings += 2) {
		const struct tw_option *row = tw_option_find(zoo->options, settings[0]);

		assert_non_null(row);
		status = tw_option_set(row, options, settings[1], keep, why);
	}
	return status;
}

enum tw_status zoo_build(const char *name, const char *const *settings,
			 const struct tw_model_site *site, struct tw_graph **out,
			 struct tw_error *why)
{
	const struct tw_zoo *zoo = tw_zoo_find(name);
	struct tw_layer *layer = NULL;
	struct tw_arena keep;
	enum tw_status status;
	size_t layers = 0;
	void *options;

	assert_non_null(zoo);
	tw_arena_init(&keep, site->heap);
	options = tw_arena_get(&keep, zoo->options_bytes);
	status = options ? set_all(zoo, settings, options, &keep, why) : TW_NO_MEMORY;
	if (status == TW_OK)
		status = zoo->layers(options, site, &keep, &layer, &layers, why);
	if (status == TW_OK)
		status = tw_model_build(site, layer, layers, out, why);
	tw_arena_release(&keep);
	return status;
}

const struct tw_graph_tensor *tensor_of(const struct tw_graph *g, const char *name)
{
	for (uint32_t k = 0; k < g->tensors; k++)
		if (strcmp(g->tensor[k].name, name) == 0)
			return &g->tensor[k];
	fail_msg("there is no tensor '%s'", name);
	return NULL;
}
