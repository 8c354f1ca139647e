/* SPDX-License-Identifier: Apache-2.0 */
/* test_ops.c - every op of the registry keeps op.h's word, for each of its samples: values as the
 * reference's, gradients as its differences, nothing written that is not its own, the same bits
 * again, in place and beside another thread. */
/* labels: threads */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "graph/oproom.h"
#include "base/arena.h"
#include "base/refusing.h"
#include "kit/isas.h"

#include <math.h>
#include <pthread.h>

static const struct oproom_way usual = { .garbage = 0xff };

struct case_of {
	const struct tw_op *op;
	const struct tw_op_sample *sample;
	void *options;
	uint32_t batch;
	bool train, relu_in;
};

static void say_where(const struct case_of *c, const struct tw_op_site *site)
{
	char shape[40];
	int n = snprintf(truth_where, sizeof truth_where, "%s '%s' on %s, batch %u, %s",
			 c->op->name, c->sample->text, tw_shape_text(&c->sample->in, shape),
			 c->batch, c->train ? "training" : "not training");

	if (site)
		snprintf(truth_where + n, sizeof truth_where - (size_t)n, ", %s to %s%s%s",
			 tw_layout_name(site->in_layout[0]), tw_layout_name(site->out_layout),
			 site->relu ? " with ReLU" : "", site->relu_in ? " behind ReLU" : "");
}

/* Ways to run that must give the bits of the usual one. */
static void check_ways(const struct oproom *room, const struct oproom_result *first)
{
	const struct tw_op_site *s = &room->site;
	const uint32_t traits = room->truth->op->traits;
	const bool alike = s->in_layout[0] == s->out_layout;
	const bool place = alike && (traits & TW_OP_IN_PLACE);
	const bool back = alike && s->wants[0] && (traits & TW_OP_BACK_IN_PLACE);
	struct oproom_way way[] = {
		{ .garbage = 0x7f },
		{ .garbage = 0xff, .in_place = place },
		{ .garbage = 0xff, .back_in_place = back },
		{ .garbage = 0xff, .in_place = place, .back_in_place = back },
	};
	static const char *const name[] = { "again", "in place", "back in place",
					    "in place both ways" };

	for (size_t k = 0; k < sizeof way / sizeof *way; k++) {
		struct oproom_result r;

		if (k && !way[k].in_place && !way[k].back_in_place)
			continue;
		r = oproom_run(room, &way[k]);
		oproom_same_bits(room, first, &r, name[k]);
		oproom_result_free(&r);
	}
}

struct other {
	const struct oproom *room;
	struct oproom_result result;
};

static void *run_other(void *arg)
{
	struct other *o = arg;

	for (int k = 0; k < 3; k++) {
		oproom_result_free(&o->result);
		o->result = oproom_run(o->room, &usual);
	}
	return NULL;
}

static void check_threads(const struct oproom *room, const struct oproom_result *first)
{
	struct other o[2] = { { .room = room }, { .room = room } };
	pthread_t thread[2];

	for (int k = 0; k < 2; k++)
		assert_int_equal(pthread_create(&thread[k], NULL, run_other, &o[k]), 0);
	for (int k = 0; k < 2; k++)
		assert_int_equal(pthread_join(thread[k], NULL), 0);
	for (int k = 0; k < 2; k++) {
		oproom_same_bits(room, first, &o[k].result, "two threads");
		oproom_result_free(&o[k].result);
	}
}

/* Every clone of its own loops. */
static void check_isas(const struct oproom *room, const struct oproom_result *first)
{
	const enum tw_isa best = tw_isa();

	for (enum tw_isa isa = TW_ISA_PLAIN; isa < best; isa++) {
		struct oproom_result r;

		assert_true(tw_isa_pin(isa));
		r = oproom_run(room, &usual);
		assert_true(tw_isa_pin(best));
		oproom_same_bits(room, first, &r, tw_isa_name(isa));
		oproom_result_free(&r);
	}
}

/* Parameters anywhere in a vector of floats. */
static void check_shifted(const struct oproom *room)
{
	const struct oproom_way shifted = { .garbage = 0xff, .shift = sizeof(float) };
	struct oproom_result r;

	if (!room->truth->form.parameters)
		return;
	r = oproom_run(room, &shifted);
	oproom_near_truth(room, &r, "parameters not aligned");
	oproom_result_free(&r);
}

/* Weights that nobody gathers, in pieces that cut rows and blocks of rows. */
static void check_pieces(const struct oproom *room, const struct oproom_result *first)
{
	const size_t n = room->truth->n[TW_OP_INS];
	const struct oproom_way way[] = {
		{ .garbage = 0xff, .cut = n / 2 + 1 },
		{ .garbage = 0xff, .cut = n / 7 + 1 },
		{ .garbage = 0xff, .cut = n / 301 + 1 },
	};

	if (!(room->truth->op->traits & TW_OP_TAKES_PIECES))
		return;
	for (size_t k = 0; k < sizeof way / sizeof *way; k++) {
		struct oproom_result r = oproom_run(room, &way[k]);

		oproom_same_bits(room, first, &r, "weights in pieces");
		oproom_result_free(&r);
	}
}

static void check_site(const struct truth *t, const struct tw_op_site *site, bool all)
{
	struct oproom room;
	struct oproom_result r;

	oproom_make(&room, t, site);
	r = oproom_run(&room, &usual);
	oproom_near_truth(&room, &r, "as usual");
	if (all) {
		check_ways(&room, &r);
		check_pieces(&room, &r);
		check_shifted(&room);
		check_threads(&room, &r);
		check_isas(&room, &r);
	}
	oproom_result_free(&r);
	oproom_free(&room);
}

/* Without the gradient of each input in turn, and without any. */
static void check_wants(const struct truth *t, const struct tw_op_site *site)
{
	for (uint32_t k = 0; k < site->ins; k++) {
		struct tw_op_site s = *site;

		s.wants[k] = false;
		check_site(t, &s, false);
	}
	if (site->ins > 1) {
		struct tw_op_site s = *site;

		memset(s.wants, 0, sizeof s.wants);
		check_site(t, &s, false);
	}
}

/* Where the program runs nothing, the reference must agree that nothing is to be done. */
static void check_passes(const struct truth *t)
{
	if (t->outs != t->n[0])
		fail_msg("%s: passes on %zu values as %zu", truth_where, t->n[0], t->outs);
	for (size_t i = 0; i < t->outs; i++)
		if (t->out[i] != t->exact[0][i])
			fail_msg("%s: passes on value %zu but changes it", truth_where, i);
}

static void check_adds(const struct truth *t)
{
	assert_int_equal(t->op->ins, 2);
	for (uint32_t tensor = 0; tensor < 2; tensor++)
		for (uint32_t k = 0; k < t->spots[tensor]; k++) {
			const struct truth_spot *s = &t->spot[tensor][k];
			const double r = (double)t->cotangent[s->index];

			if (!(fabs(r - s->slope) <= 1e-6 * (1 + fabs(r))))
				fail_msg("%s: is no addition", truth_where);
		}
}

/* What one sample gives depends on the others exactly where the op says so. */
static void check_alone(const struct truth *t)
{
	const size_t first = t->outs / t->site.batch, in = t->n[0] / t->site.batch;
	const bool together = t->site.train && (t->op->traits & TW_OP_RANDOM_BATCH);
	double *out, *last = t->exact[0] + t->n[0] - in;
	bool same;

	if (t->site.batch < 2 || !t->outs)
		return;
	out = calloc(t->outs, sizeof *out);
	assert_non_null(out);
	for (size_t i = 0; i < in; i++)
		last[i] = t->op->traits & TW_OP_READS_NUMBERS ? 0 : last[i] + 1 + (double)(i % 3);
	truth_refer(t, out);
	for (size_t i = 0; i < in; i++)
		last[i] = (double)t->value[0][t->n[0] - in + i];
	same = !memcmp(out, t->out, first * sizeof *out);
	free(out);
	if (same == together)
		fail_msg("%s: a sample depends on another: %d", truth_where, !same);
}

static void check_case(const struct case_of *c)
{
	struct tw_op_site site[3];
	struct truth t;
	uint32_t layouts;

	say_where(c, NULL);
	truth_make(&t, c->op, c->sample, c->options, c->batch, c->train);
	t.site.relu_in = c->relu_in;
	truth_refer(&t, t.out);
	check_alone(&t);
	if (truth_passes(&t.site, c->op)) {
		check_passes(&t);
		truth_free(&t);
		return;
	}
	if (c->train)
		truth_differences(&t);
	if (c->op->traits & TW_OP_ADDS)
		check_adds(&t);
	layouts = oproom_layouts(&t, site);
	for (uint32_t k = 0; k < layouts; k++) {
		say_where(c, &site[k]);
		check_site(&t, &site[k], true);
		if (c->train && c->op->backward)
			check_wants(&t, &site[k]);
		if (c->op->traits & TW_OP_TAKES_RELU) {
			site[k].relu = true;
			say_where(c, &site[k]);
			check_site(&t, &site[k], true);
		}
	}
	truth_free(&t);
}

static void parse_sample(struct case_of *c, struct tw_arena *keep)
{
	struct tw_error why = { 0 };

	tw_arena_init(keep, &tw_heap_system);
	c->options = calloc(1, c->op->options_bytes + 1);
	assert_non_null(c->options);
	if (tw_op_parse(c->op, c->sample->text, c->options, keep, &why) != TW_OK)
		fail_msg("%s: sample '%s' is refused: %s", c->op->name, c->sample->text, why.text);
}

static void check_sample(const struct tw_op *op, const struct tw_op_sample *sample)
{
	static const uint32_t batches[] = { 1, 2, 5 };
	struct case_of c = { .op = op, .sample = sample };
	struct tw_arena keep;

	parse_sample(&c, &keep);
	for (size_t k = 0; k < (sample->batch ? 1 : sizeof batches / sizeof *batches); k++)
		for (int train = 0; train < 2; train++) {
			c.batch = sample->batch ? sample->batch : batches[k];
			c.train = train;
			c.relu_in = false;
			check_case(&c);
			c.relu_in = true;
			if (op->traits & TW_OP_TAKES_RELU_IN)
				check_case(&c);
		}
	free(c.options);
	tw_arena_release(&keep);
}

/* TW_TEST_OP=name tries one op alone. */
static void every_op_keeps_its_word(void **state)
{
	const char *only = getenv("TW_TEST_OP");
	const struct tw_op *op;
	size_t tried = 0;

	for (size_t k = 0; (op = tw_op_at(k)); k++) {
		if (only && strcmp(only, op->name))
			continue;
		for (const struct tw_op_sample *s = op->samples; s && s->in.rank; s++, tried++)
			check_sample(op, s);
	}
	assert_true(tried > 0);
	truth_where[0] = '\0';
}

/* Does the loss compute with these facts alone, as its reference does? */
static bool computes(const struct oproom *room, struct truth *t)
{
	struct oproom_result r = oproom_run(room, &usual);
	const bool ran = !r.wrong;

	if (ran) {
		truth_refer(t, t->out);
		oproom_near_truth(room, &r, "with part of the facts");
	} else {
		assert_string_equal(r.wrong, "forward failed");
	}
	oproom_result_free(&r);
	return ran;
}

/* Labels, targets, neither; and labels that are none. */
static void check_facts(struct truth *t)
{
	const struct tw_op_batch whole = t->batch;
	uint32_t *label = (uint32_t *)t->batch.label;
	bool by_label, by_target;
	struct tw_op_site site[3];
	struct oproom room;

	oproom_layouts(t, site);
	oproom_make(&room, t, site);
	t->batch.label = NULL;
	by_target = computes(&room, t);
	t->batch.target = NULL;
	if (computes(&room, t))
		fail_msg("%s: needs neither labels nor targets", truth_where);
	t->batch.label = label;
	by_label = computes(&room, t);
	if (!by_label && !by_target)
		fail_msg("%s: works with nothing", truth_where);
	label[0] = UINT32_MAX;
	if (by_label && computes(&room, t))
		fail_msg("%s: takes any label", truth_where);
	t->batch = whole;
	oproom_free(&room);
}

static void losses_look_at_their_facts(void **state)
{
	const struct tw_op *op;

	for (size_t k = 0; (op = tw_op_at(k)); k++)
		for (const struct tw_op_sample *s = op->samples;
		     (op->traits & TW_OP_LOSS) && s->in.rank; s++) {
			struct case_of c = { .op = op, .sample = s, .batch = 3, .train = true };
			struct tw_arena keep;
			struct truth t;

			parse_sample(&c, &keep);
			say_where(&c, NULL);
			truth_make(&t, op, s, c.options, c.batch, true);
			check_facts(&t);
			truth_free(&t);
			free(c.options);
			tw_arena_release(&keep);
		}
	truth_where[0] = '\0';
}

/* Prepare the op and a hand with a heap that refuses; false if nothing was refused. */
static bool prepare_scarce(const struct truth *t, unsigned nth)
{
	struct refusing heap = REFUSING(nth);
	struct tw_onednn *kit = tw_onednn_new(&heap.heap);
	void *kernel = calloc(1, t->op->kernel_bytes + 1);
	struct tw_op_memory need = { 0 };
	enum tw_status st = kit ? TW_OK : TW_NO_MEMORY;
	struct tw_hand *hand = NULL;

	if (kit && t->op->prepare)
		st = t->op->prepare(&t->site, kit, kernel, &need);
	if (st == TW_OK)
		hand = tw_onednn_take(kit);
	if (hand)
		tw_onednn_give(kit, hand);
	tw_onednn_free(kit);
	free(kernel);
	if (heap.live || (st != TW_OK && st != TW_NO_MEMORY) || !hand != (heap.calls >= nth))
		fail_msg("%s: request %u refused: %s, %d left", truth_where, nth,
			 tw_status_name(st), heap.live);
	return heap.calls >= nth;
}

static void every_allocation_may_fail(void **state)
{
	const struct tw_op *op;

	for (size_t k = 0; (op = tw_op_at(k)); k++) {
		struct case_of c = { .op = op, .sample = op->samples, .batch = 2, .train = true };
		struct tw_op_site site[3];
		struct tw_arena keep;
		struct truth t;

		parse_sample(&c, &keep);
		say_where(&c, NULL);
		truth_make(&t, op, c.sample, c.options, c.batch, true);
		if (!truth_passes(&t.site, op)) {
			oproom_layouts(&t, site);
			t.site = site[0];
			for (unsigned nth = 1; prepare_scarce(&t, nth); nth++)
				;
		}
		truth_free(&t);
		free(c.options);
		tw_arena_release(&keep);
	}
	truth_where[0] = '\0';
}

/* A crash says nothing else. */
static int say_last(void **state)
{
	if (truth_where[0])
		print_error("last tried: %s\n", truth_where);
	truth_where[0] = '\0';
	return 0;
}

static int run_all(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(every_op_keeps_its_word, say_last),
		cmocka_unit_test_teardown(losses_look_at_their_facts, say_last),
		cmocka_unit_test_teardown(every_allocation_may_fail, say_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
	return in_isas(run_all);
}
