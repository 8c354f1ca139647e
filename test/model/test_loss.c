/* SPDX-License-Identifier: Apache-2.0 */
/* test_loss.c - a loss fits what the data has and what the last layer gives, or says why not. */
#include "model/nets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

/* A loss against data and the last layer: NULL is fine. */
static void loss(const char *text, uint32_t classes, uint32_t targets, const char *layer,
		 const char *sentence)
{
	struct tw_model_site site = site_of(2, 3, 2, classes);
	const struct tw_layer all[] = { L(layer) };
	char whole[700];

	site.targets = targets;
	site.loss = text;
	site.loss_place = "x:9";
	snprintf(whole, sizeof whole, "x:9: loss '%s': %s", text, sentence ? sentence : "");
	if (sentence)
		net_refused(&site, all, 1, whole);
	else
		tw_graph_free(net_build(&site, all, 1));
}

static void losses_fit_or_say_why(void **state)
{
	loss("cross-entropy", 10, 0, "linear 10", NULL);
	loss("cross-entropy smoothing 0.1", 12, 0, "relu", NULL);
	loss("mean-squared", 0, 12, "relu", NULL);
	loss("binary-cross-entropy", 0, 3, "linear 3", NULL);
	loss("binary-cross-entropy", 2, 0, "linear 1", NULL);
	loss("cross-entropy", 10, 0, "linear 12",
	     "needs one output for each of 10 classes, but layer 1 of 1, 'linear 12', gives 12; "
	     "end "
	     "with 'linear 10'");
	loss("cross-entropy", 0, 4, "linear 4",
	     "needs labels, but the data has 4 target values per sample; write loss: mean-squared");
	loss("mean-squared", 10, 0, "linear 10",
	     "needs target values, but the data has labels of 10 classes; write loss: "
	     "cross-entropy");
	loss("mean-squared", 0, 4, "relu",
	     "needs one output for each of 4 target values, but layer 1 of 1, 'relu', gives 12; "
	     "end "
	     "with 'linear 4'");
	loss("binary-cross-entropy", 2, 0, "linear 2",
	     "needs 1 output for 2 classes, but layer 1 of 1, 'linear 2', gives 2; end with "
	     "'linear 1'");
	loss("binary-cross-entropy", 3, 0, "linear 3",
	     "needs target values or labels of 2 classes, but the data has 3 classes; write loss: "
	     "cross-entropy");
	loss("cross-entrpy", 10, 0, "linear 10",
	     "'cross-entrpy' is not a known loss; did you mean 'cross-entropy'?");
	loss("mse", 10, 0, "linear 10", "'mse' is not a known loss; did you mean 'mean-squared'?");
	loss("relu", 10, 0, "linear 10",
	     "'relu' is a layer, not a loss; a loss is, for example, cross-entropy or "
	     "mean-squared");
}

static void a_loss_unsaid_follows_the_data(void **state)
{
	struct tw_model_site site = site_of(4, 0, 0, 3);
	const struct tw_layer all[] = { L("linear 3") };
	struct tw_graph *g;

	site.loss = NULL;
	g = net_build(&site, all, 1);
	assert_string_equal(g->node[g->nodes - 1].op->name, "cross-entropy");
	tw_graph_free(g);
	site.classes = 0;
	site.targets = 3;
	g = net_build(&site, all, 1);
	assert_string_equal(g->node[g->nodes - 1].op->name, "mean-squared");
	tw_graph_free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(losses_fit_or_say_why),
		cmocka_unit_test(a_loss_unsaid_follows_the_data),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
