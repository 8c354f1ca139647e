/* SPDX-License-Identifier: Apache-2.0 */
/* nets.h - networks for tests: written out, or from the zoo with options. */
#ifndef TW_TEST_MODEL_NETS_H
#define TW_TEST_MODEL_NETS_H

#include "model/model.h"

/* A layer of a test's list; it knows no place. */
#define L(words)                                                                                   \
	{                                                                                          \
		.text = words, .place = ""                                                         \
	}
#define COUNT(list) (sizeof(list) / sizeof *(list))

/* Classes of images, or of plain features where h is 0. */
struct tw_model_site site_of(uint32_t channels, uint32_t h, uint32_t w, uint32_t classes);
/* Must work. */
struct tw_graph *net_build(const struct tw_model_site *site, const struct tw_layer *layer,
			   size_t layers);
/* Must be refused as bad input, with exactly this sentence. */
void net_refused(const struct tw_model_site *site, const struct tw_layer *layer, size_t layers,
		 const char *sentence);
/* As both, from the zoo; `settings` are pairs of option and value, NULL at the end. */
enum tw_status zoo_build(const char *name, const char *const *settings,
			 const struct tw_model_site *site, struct tw_graph **out,
			 struct tw_error *why);
/* The tensor of that name, which must be there. */
const struct tw_graph_tensor *tensor_of(const struct tw_graph *g, const char *name);

#endif
