/* SPDX-License-Identifier: Apache-2.0 */
/* test_pipeline.c - every schedule of the table keeps pipeline.h's word, and lists that are played
 * take the time that the closed forms say. */
#include "strategy/tools.h"
#include "strategy/pipeline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELLS 12
#define MOST  4096 /* moves of a cell */

/* Lists with all the room that playing them needs. */
struct room {
	struct tw_pipe_move move[CELLS][MOST];
	const struct tw_pipe_move *list[CELLS];
	size_t count[CELLS];
	struct tw_pipe_when when[CELLS][MOST], *times[CELLS];
	struct tw_pipe_cell cell[CELLS];
	struct tw_pipe_times cost[4 * CELLS];
	struct tw_pipe_lists lists;
	struct tw_pipe_played played;
	struct tw_pipe_place place;
	struct tw_error why;
	double *done;
	uint8_t *seen;
	uint32_t owner[4 * CELLS];
};

static struct room *room_for(uint32_t cells, uint32_t stages, uint64_t micros)
{
	struct room *r = calloc(1, sizeof *r);

	assert_non_null(r);
	for (uint32_t c = 0; c < CELLS; c++) {
		r->list[c] = r->move[c];
		r->times[c] = r->when[c];
	}
	r->lists = (struct tw_pipe_lists){ r->list, r->count, cells, stages, micros, NULL };
	r->done = malloc(sizeof(double) * TW_DEEDS * stages * micros);
	r->seen = malloc(stages * micros);
	return r;
}

static void close_room(struct room *r)
{
	free(r->done);
	free(r->seen);
	free(r);
}

static void costs(struct room *r, double forward, double backward)
{
	for (uint32_t s = 0; s < 4 * CELLS; s++)
		r->cost[s] = (struct tw_pipe_times){ .deed = { forward, backward, backward / 2,
							       backward / 2, 0 } };
}

static enum tw_status play(struct room *r)
{
	enum tw_status st = tw_pipeline_whole(&r->lists, r->seen, r->owner, &r->place, &r->why);

	if (st != TW_OK)
		return st;
	return tw_pipeline_play(&r->lists, r->cost, r->done, r->cell, r->times, &r->played,
				&r->place, &r->why);
}

static struct room *schedule(const struct tw_pipeline *p, uint32_t k, uint32_t m, uint64_t total)
{
	struct room *r = room_for(k, k, total);
	const struct tw_pipe_shape shape = { k, m };

	for (uint32_t c = 0; c < k; c++) {
		r->count[c] = tw_pipeline_list(p, &shape, c, total, r->move[c], MOST);
		assert_true(r->count[c] <= MOST);
	}
	costs(r, 1, 1);
	return r;
}

static const struct tw_pipeline *named(const char *name)
{
	const struct tw_pipeline *p = tw_pipeline_find(name);

	assert_non_null(p);
	return p;
}

static void *defaults(const struct tw_pipeline *p)
{
	return p->options ? OPTIONS(p, NULL) : NULL;
}

/* --- the contract ------------------------------------------------------------------------- */

/* (1), (2) of one list. */
static void list_is_right(const struct room *r, uint32_t c, uint32_t m, uint64_t total)
{
	uint64_t forwards = 0, backwards = 0, updates = 0;

	for (size_t k = 0; k < r->count[c]; k++) {
		const struct tw_pipe_move *x = &r->move[c][k];

		CHECK(x->stage == c);
		if (x->deed == TW_FORWARD) {
			CHECK(x->micro == forwards++);
		} else if (x->deed == TW_BACKWARD) {
			CHECK(x->micro == backwards++ && x->micro < forwards);
			CHECK(x->micro / m == updates);
		} else {
			CHECK(x->deed == TW_UPDATE && x->micro == updates++);
			CHECK(backwards == (updates * m < total ? updates * m : total));
		}
	}
	CHECK(forwards == total && backwards == total && updates == (total + m - 1) / m);
}

static void every_schedule_keeps_its_word(void **state)
{
	(void)state;
	for (size_t i = 0; tw_pipeline_all[i]; i++)
		for (uint32_t k = 1; k <= 8; k++)
			for (uint32_t m = 1; m <= 12; m++)
				for (uint64_t total = 1; total <= 40; total += 3) {
					struct room *r = schedule(tw_pipeline_all[i], k, m, total);

					for (uint32_t c = 0; c < k; c++)
						list_is_right(r, c, m, total);
					if (play(r) != TW_OK)
						fail_msg("%s, K %u, M %u, N %u: %s",
							 tw_pipeline_all[i]->name, k, m,
							 (unsigned)total, r->why.text);
					close_room(r);
				}
}

/* (5): walk the list as a cell does, and see that what it reads is there. */
static void versions_are_there(const struct tw_pipeline *p, const void *options,
			       const struct tw_pipe_shape *shape, uint32_t cell, bool there)
{
	const struct tw_pipe_post post = tw_pipeline_post(p, shape, cell);
	uint64_t version = 0, last = 0;
	bool all = true;

	for (uint64_t k = 0; k < 400; k++) {
		const struct tw_pipe_move m = p->move(&post, k);
		const uint64_t v = tw_pipeline_reads(p, options, shape, m.micro);

		version += m.deed == TW_UPDATE;
		if (m.deed != TW_FORWARD || v == TW_PIPE_NEWEST)
			continue;
		CHECK(v >= last);
		last = v;
		all = all && v <= version;
	}
	CHECK(all || !there);
	CHECK(!all || there || cell);
}

static void what_is_read_is_there_from_the_least_group_on(void **state)
{
	const struct tw_pipeline *dream = named("pipedream");

	(void)state;
	for (uint32_t k = 1; k <= 8; k++)
		for (uint32_t m = 1; m <= 12; m++)
			for (uint32_t c = 0; c < k; c++) {
				const struct tw_pipe_shape shape = { k, m };

				for (size_t i = 0; tw_pipeline_all[i]; i++) {
					const struct tw_pipeline *p = tw_pipeline_all[i];
					const void *o = defaults(p);

					versions_are_there(p, o, &shape, c,
							   m >= tw_pipeline_least(p, o, k));
				}
				versions_are_there(dream, OPTIONS(dream, "vertical", "true", NULL),
						   &shape, c, true);
			}
}

/* --- closed forms ------------------------------------------------------------------------- */

static void flush_schedules_idle_as_the_formula_says(void **state)
{
	static const char *const names[] = { "gpipe", "1f1b-flush" };
	static const double backward[] = { 1, 2 };

	(void)state;
	for (int i = 0; i < 2; i++)
		for (uint32_t k = 2; k <= 8; k *= 2)
			for (uint32_t m = 4; m <= 32; m++)
				for (int b = 0; b < 2; b++) {
					struct room *r = schedule(named(names[i]), k, m, m);
					const double both = 1 + backward[b];

					costs(r, 1, backward[b]);
					CHECK(play(r) == TW_OK);
					CHECK(r->played.makespan == (m + k - 1) * both);
					NEAR(r->played.bubble, (k - 1.0) / (m + k - 1.0), 1e-15);
					for (uint32_t c = 0; c < k; c++)
						CHECK(r->played.makespan - r->cell[c].busy ==
						      (k - 1) * both);
					close_room(r);
				}
}

/* A stream of unit moves: 2N + 2(K - 1) ticks, and no cell idles but at its ends. */
static void asynchronous_schedules_never_idle_in_between(void **state)
{
	static const char *const names[] = { "pipedream", "2bw" };

	(void)state;
	for (int i = 0; i < 2; i++)
		for (uint32_t k = 2; k <= 8; k *= 2)
			for (uint64_t n = 8; n <= 64; n *= 2) {
				struct room *r = schedule(named(names[i]), k, 8, n);

				CHECK(play(r) == TW_OK);
				CHECK(r->played.makespan == (double)(2 * n + 2 * (k - 1)));
				CHECK(r->when[k - 1][r->count[k - 1] - 1].to -
					      r->when[k - 1][0].from ==
				      (double)(2 * n));
				close_room(r);
			}
}

static void cells_keep_what_the_table_says(void **state)
{
	const struct tw_pipeline *dream = named("pipedream");

	(void)state;
	for (uint32_t k = 2; k <= 8; k++)
		for (uint32_t m = 1; m <= 16; m++)
			for (uint32_t s = 0; s < k; s++) {
				const struct tw_pipe_shape shape = { k, m }, one = { k, 1 };
				struct tw_pipe_keeps x =
					tw_pipeline_keeps(named("gpipe"), NULL, &shape, s);

				CHECK(x.depth == m && x.versions == 1 && x.late == 0);
				x = tw_pipeline_keeps(named("1f1b-flush"), NULL, &shape, s);
				CHECK(x.depth == (k - s < m ? k - s : m) && x.versions == 1 &&
				      x.late == 0);
				x = tw_pipeline_keeps(dream, OPTIONS(dream, NULL), &one, s);
				CHECK(x.depth == k - s && x.versions == k - s &&
				      x.late == k - 1 - s && x.mismatch == 0);
				x = tw_pipeline_keeps(dream, OPTIONS(dream, "stash", "false", NULL),
						      &shape, s);
				CHECK(x.mismatch == (k - 1 - s + m - 1) / m && x.versions == 1 &&
				      x.late == x.mismatch);
				x = tw_pipeline_keeps(
					dream, OPTIONS(dream, "vertical", "true", NULL), &one, s);
				CHECK(x.late == k - 1 && x.versions == k);
				if (m + 1 < k)
					continue;
				x = tw_pipeline_keeps(named("2bw"), NULL, &shape, s);
				CHECK(x.late == 1 && x.versions == 2 && x.depth == k - s);
			}
}

/* --- lanes -------------------------------------------------------------------------------- */

/* Every combination of 1 to 4 lanes in K stages, as a number. */
static void lanes_of(uint32_t k, uint32_t number, uint32_t *lanes)
{
	for (uint32_t s = 0; s < k; s++, number /= 4)
		lanes[s] = 1 + number % 4;
}

/* (1), (2) and (6) of the list of a lane: its own micro-batches, each there and back in order. */
static void lane_is_right(const struct tw_pipeline *p, const struct tw_pipe_shape *shape,
			  const struct tw_pipe_move *move, size_t count, uint32_t stage,
			  uint32_t lane, uint64_t total)
{
	const bool flushes = p->traits & TW_PIPELINE_FLUSHES;
	const uint32_t r = shape->lanes[stage], m = shape->micros;
	uint64_t own[256], n = 0, forwards = 0, backwards = 0, updates = 0, in_update = 0;

	for (uint64_t b = 0; b < total; b++)
		if ((flushes ? b % m : b) % r == lane)
			own[n++] = b;
	for (size_t k = 0; k < count; k++) {
		const struct tw_pipe_move *x = &move[k];

		CHECK(x->stage == stage);
		if (x->deed == TW_FORWARD) {
			CHECK(forwards < n && x->micro == own[forwards]);
			forwards++;
		} else if (x->deed == TW_BACKWARD) {
			CHECK(backwards < forwards && x->micro == own[backwards]);
			backwards++;
			CHECK(!flushes || x->micro / m == updates);
		} else {
			CHECK(x->micro == updates++ && backwards > in_update);
			CHECK(flushes || backwards == n || backwards - in_update == m);
			CHECK(!flushes || backwards == n || own[backwards] / m == updates);
			in_update = backwards;
		}
	}
	CHECK(forwards == n && backwards == n && in_update == n);
}

/* Lists of lanes are whole and never wait in a circle, however many lanes each stage has. */
static void lanes_keep_the_word_of_their_schedule(void **state)
{
	static const char *const names[] = { "gpipe", "1f1b-flush", "pipedream" };

	(void)state;
	for (int i = 0; i < 3; i++)
		for (uint32_t k = 1; k <= 3; k++)
			for (uint32_t number = 0; number < 1u << 2 * k; number++)
				for (uint32_t m = 4; m <= 9; m++) {
					const uint64_t total = 40 + number % 7;
					uint32_t lanes[3], cells = 0;
					const struct tw_pipe_shape shape = { k, m, lanes };
					struct room *r;

					lanes_of(k, number, lanes);
					for (uint32_t s = 0; s < k; s++)
						cells += lanes[s];
					CHECK(cells == tw_pipe_first_cell(&shape, k));
					r = room_for(cells, k, total);
					for (uint32_t s = 0, c = 0; s < k; s++)
						for (uint32_t l = 0; l < lanes[s]; l++, c++) {
							r->count[c] = tw_pipeline_list(
								named(names[i]), &shape, c, total,
								r->move[c], MOST);
							lane_is_right(named(names[i]), &shape,
								      r->move[c], r->count[c], s, l,
								      total);
						}
					costs(r, 1, 1);
					if (tw_pipeline_play(&r->lists, r->cost, r->done, r->cell,
							     r->times, &r->played, NULL,
							     &r->why) != TW_OK)
						fail_msg("%s, %u stages, lanes %u, M %u: %s",
							 names[i], k, number, m, r->why.text);
					close_room(r);
				}
}

/* PipeDream's plan for VGG-16 on 16 machines: 15 lanes, then 1.  The first stage has two versions;
 * between what it reads and its update, each of its lanes makes two, less its own. */
static void fifteen_to_one(void **state)
{
	static const uint32_t lanes[] = { 15, 1 };
	const struct tw_pipe_shape shape = { 2, 1, lanes };
	const struct tw_pipeline *dream = named("pipedream");

	(void)state;
	for (uint32_t c = 0; c < 15; c++) {
		const struct tw_pipe_keeps x =
			tw_pipeline_keeps(dream, OPTIONS(dream, NULL), &shape, c);

		CHECK(x.depth == 2 && x.versions == 2 && x.late == 29 && x.own == 1);
	}
	CHECK(tw_pipeline_keeps(dream, OPTIONS(dream, NULL), &shape, 15).late == 0);
	CHECK(tw_pipeline_keeps(dream, OPTIONS(dream, NULL), &shape, 15).depth == 1);
}

/* r lanes of a stage with `after` cells behind it: ceil(after / r) + 1 micro-batches and versions
 * each, and r times as many updates, less one, come between. */
static void lanes_keep_what_the_formula_says(void **state)
{
	const struct tw_pipeline *dream = named("pipedream");

	(void)state;
	for (uint32_t number = 0; number < 64; number++) {
		uint32_t lanes[3], after = 0;
		const struct tw_pipe_shape shape = { 3, 1, lanes };

		lanes_of(3, number, lanes);
		for (uint32_t s = 3; s-- > 0; after += lanes[s])
			for (uint32_t l = 0; l < lanes[s]; l++) {
				const uint32_t deep = (after + lanes[s] - 1) / lanes[s] + 1;
				const struct tw_pipe_keeps x =
					tw_pipeline_keeps(dream, OPTIONS(dream, NULL), &shape,
							  tw_pipe_first_cell(&shape, s) + l);

				CHECK(x.depth == deep && x.versions == deep && x.own == deep - 1);
				CHECK(x.late == lanes[s] * deep - 1);
			}
	}
}

/* --- lists from elsewhere ----------------------------------------------------------------- */

static void put(struct room *r, uint32_t c, enum tw_deed deed, uint32_t stage, uint64_t micro)
{
	assert_true(r->count[c] < MOST);
	r->move[c][r->count[c]++] = (struct tw_pipe_move){ deed, stage, micro };
}

/* Interleaved 1F1B: v stages per cell, K divides M (rows 3 of the table). */
static void interleave(struct room *r, uint32_t k, uint32_t v, uint32_t m)
{
	for (uint32_t c = 0; c < k; c++) {
		const uint32_t all = m * v, ahead = (k - c - 1) * 2 + (v - 1) * k;
		const uint32_t warm = ahead < all ? ahead : all;

		for (uint32_t i = 0; i < all + warm; i++) {
			const uint32_t f = i, b = i - warm;

			if (f < all)
				put(r, c, TW_FORWARD, f / k % v * k + c, f / (k * v) * k + f % k);
			if (i >= warm)
				put(r, c, TW_BACKWARD, (v - 1 - b / k % v) * k + c,
				    b / (k * v) * k + b % k);
		}
	}
}

static void interleaved_lists_idle_less(void **state)
{
	(void)state;
	for (uint32_t k = 4; k <= 8; k *= 2)
		for (uint32_t m = k; m <= 32; m += k)
			for (uint32_t v = 2; v <= 4; v *= 2) {
				struct room *r = room_for(k, k * v, m);

				costs(r, 1.0 / v, 2.0 / v);
				interleave(r, k, v, m);
				CHECK(play(r) == TW_OK);
				NEAR(r->played.makespan, m * 3 + (k - 1) * 3.0 / v, 1e-12);
				close_room(r);
			}
}

/* ZB-H1: backwards in two halves, the second of which fill the gaps (row 4). */
static void zero_bubble(struct room *r, uint32_t k, uint32_t m)
{
	for (uint32_t s = 0; s < k; s++) {
		uint32_t f = k - 1 - s < m ? k - 1 - s : m, w = 0;

		for (uint32_t b = 0; b < f; b++)
			put(r, s, TW_FORWARD, s, b);
		for (uint32_t i = 1; i <= m; i++) {
			if (f < m)
				put(r, s, TW_FORWARD, s, f++);
			put(r, s, TW_BACKWARD_INPUT, s, i - 1);
			if (i > s && w < i - s)
				put(r, s, TW_BACKWARD_WEIGHT, s, w++);
		}
		while (w < m)
			put(r, s, TW_BACKWARD_WEIGHT, s, w++);
	}
}

static void split_backwards_idle_less(void **state)
{
	(void)state;
	for (uint32_t k = 4; k <= 8; k *= 2)
		for (uint32_t m = 2 * k; m <= 32; m += k) {
			struct room *r = room_for(k, k, m);

			costs(r, 1, 2);
			zero_bubble(r, k, m);
			CHECK(play(r) == TW_OK);
			CHECK(r->played.makespan == 3 * m + (k - 1));
			close_room(r);
		}
}

static void links_delay_what_crosses_them(void **state)
{
	struct room *r = schedule(named("gpipe"), 2, 1, 1);

	(void)state;
	costs(r, 1, 2);
	r->cost[0].forward_link = 0.5;
	r->cost[1].backward_link = 0.25;
	CHECK(play(r) == TW_OK);
	CHECK(r->played.makespan == 1 + 0.5 + 1 + 2 + 0.25 + 2);
	CHECK(r->when[1][0].from == 1.5 && r->when[0][1].from == 4.75);
	close_room(r);
}

static void refused(struct room *r, const char *sentence, uint32_t cell, size_t move)
{
	costs(r, 1, 1);
	CHECK(play(r) == TW_BAD_INPUT);
	if (!strstr(r->why.text, sentence))
		fail_msg("'%s' does not say '%s'", r->why.text, sentence);
	CHECK(r->place.cell == cell && r->place.move == move);
	close_room(r);
}

static struct room *three_moves(enum tw_deed last, uint32_t stage)
{
	struct room *r = room_for(2, 2, 1);

	put(r, 0, TW_FORWARD, 0, 0);
	put(r, 0, TW_BACKWARD, 0, 0);
	put(r, 1, TW_FORWARD, 1, 0);
	put(r, 1, last, stage, 0);
	return r;
}

static void wrong_lists_are_refused_by_place(void **state)
{
	struct room *r;

	(void)state;
	refused(three_moves(TW_FORWARD, 1), "1F0: stage 1 makes this move", 1, 1);
	refused(three_moves(TW_BACKWARD, 0), "stage 0 is in two rows, 0 and 1", 1, 1);
	refused(three_moves(TW_BACKWARD_INPUT, 1), "no weights' backward (W) of micro-batch 0", 1,
		2);
	r = three_moves(TW_BACKWARD, 1);
	r->count[1] = 1;
	refused(r, "stage 1 has no backward", 1, 1);
	r = three_moves(TW_BACKWARD, 1);
	r->lists.stages = 1;
	refused(r, "no such stage", 1, 0);
	r = three_moves(TW_BACKWARD, 1);
	r->move[1][1].stage = 0;
	r->move[0][1].stage = 1;
	refused(r, "stage 1 is in two rows", 1, 0);
	/* each waits for the other */
	r = room_for(2, 2, 2);
	put(r, 0, TW_FORWARD, 0, 0);
	put(r, 0, TW_BACKWARD, 0, 0);
	put(r, 0, TW_FORWARD, 0, 1);
	put(r, 0, TW_BACKWARD, 0, 1);
	put(r, 1, TW_FORWARD, 1, 0);
	put(r, 1, TW_FORWARD, 1, 1);
	put(r, 1, TW_BACKWARD, 1, 0);
	put(r, 1, TW_BACKWARD, 1, 1);
	refused(r, "0B0 waits for 1B0, which never comes", 0, 1);
}

static void options_that_contradict_are_refused(void **state)
{
	const struct tw_pipeline *p = named("pipedream");
	struct tw_error why = { .status = TW_OK };

	(void)state;
	CHECK(p->check(OPTIONS(p, "vertical", "true", NULL), &why) == TW_OK);
	CHECK(p->check(OPTIONS(p, "stash", "false", NULL), &why) == TW_OK);
	CHECK(p->check(OPTIONS(p, "stash", "false", "vertical", "true", NULL), &why) ==
	      TW_BAD_INPUT);
	CHECK(strstr(why.text, "stash: true"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_schedule_keeps_its_word),
		cmocka_unit_test(what_is_read_is_there_from_the_least_group_on),
		cmocka_unit_test(flush_schedules_idle_as_the_formula_says),
		cmocka_unit_test(asynchronous_schedules_never_idle_in_between),
		cmocka_unit_test(cells_keep_what_the_table_says),
		cmocka_unit_test(lanes_keep_the_word_of_their_schedule),
		cmocka_unit_test(fifteen_to_one),
		cmocka_unit_test(lanes_keep_what_the_formula_says),
		cmocka_unit_test(interleaved_lists_idle_less),
		cmocka_unit_test(split_backwards_idle_less),
		cmocka_unit_test(links_delay_what_crosses_them),
		cmocka_unit_test(wrong_lists_are_refused_by_place),
		cmocka_unit_test(options_that_contradict_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
