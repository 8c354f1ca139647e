/* SPDX-License-Identifier: Apache-2.0 */
/* test_schedule_csv.c - schedules as text: what is written is read, and what is wrong is refused
 * with file, line and column. */
#include "query/schedule_csv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void what_is_written_is_read(void **state)
{
	(void)state;
	for (size_t i = 0; tw_pipeline_all[i]; i++)
		for (uint32_t k = 1; k <= 6; k++)
			for (uint32_t m = k; m <= 12; m++) {
				const struct tw_pipe_shape shape = { k, m };
				struct tw_pipe_move move[6][64];
				const struct tw_pipe_move *list[6];
				size_t count[6], bytes = 0;
				struct tw_schedule_table t;
				struct tw_error why = { .status = TW_OK };
				char *text = NULL;
				FILE *f = open_memstream(&text, &bytes);

				for (uint32_t c = 0; c < k; c++) {
					count[c] = tw_pipeline_list(tw_pipeline_all[i], &shape, c,
								    m, move[c], 64);
					list[c] = move[c];
				}
				assert_int_equal(
					tw_schedule_write(
						&(struct tw_pipe_lists){ list, count, k, k, m }, f),
					TW_OK);
				fclose(f);
				if (tw_schedule_parse("x.csv", text, bytes, &t, &why) != TW_OK)
					fail_msg("%s\n%s", why.text, text);
				assert_int_equal(t.cells, k);
				assert_int_equal(t.stages, k);
				assert_int_equal(t.micros, m);
				for (uint32_t c = 0; c < k; c++) {
					size_t at = 0;

					for (size_t n = 0; n < count[c]; n++) {
						if (move[c][n].deed == TW_UPDATE)
							continue;
						assert_int_equal(t.row[c].move[at].deed,
								 move[c][n].deed);
						assert_int_equal(t.row[c].move[at].micro,
								 move[c][n].micro);
						at++;
					}
					assert_int_equal(t.row[c].count, at);
				}
				tw_schedule_release(&t);
				free(text);
			}
}

/* As PyTorch's own writer leaves it: pauses as empty cells, blanks, line ends of two letters, two
 * stages per row, backwards in halves. */
static void what_others_write_is_read(void **state)
{
	static const char text[] = "0F0,0F1,2F0,2F1,,2B0,2I1,2W1,0B0,0B1\r\n"
				   ",1F0, 1F1 ,\"3F0\",3F1,3B0,3B1,1B0,1B1\r\n";
	struct tw_schedule_table t;
	struct tw_error why = { .status = TW_OK };

	(void)state;
	if (tw_schedule_parse("x.csv", text, sizeof text - 1, &t, &why) != TW_OK)
		fail_msg("%s", why.text);
	assert_int_equal(t.cells, 2);
	assert_int_equal(t.stages, 4);
	assert_int_equal(t.micros, 2);
	assert_int_equal(t.row[0].count, 9);
	assert_int_equal(t.row[0].move[5].deed, TW_BACKWARD_INPUT);
	assert_int_equal(t.row[1].column[1], 7);
	tw_schedule_release(&t);
}

static void what_is_wrong_is_refused_by_its_place(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "", "x.csv:1:1: is empty" },
		{ "\n", "x.csv:1:1: a line is the list of one cell" },
		{ "0F0,0B0\n\n", "x.csv:2:1: a line is the list of one cell" },
		{ "0F0,B0\n", "x.csv:1:5: a move begins with the number of its stage" },
		{ "0F0,0X0\n", "x.csv:1:5: a move is F (forward)" },
		{ "0F0,0B\n", "x.csv:1:5: a move ends with the number of its micro-batch" },
		{ "0F0,0B0x\n", "x.csv:1:5: nothing may follow the micro-batch; found '0B0x'" },
		{ "0F0, 0SEND_F0\n", "x.csv:1:6: a move is F (forward)" },
		{ "0F0,0UNSHARD\n", "x.csv:1:5: a move is F (forward)" },
		{ "0F0;0B0\n", "x.csv:1:1: nothing may follow the micro-batch" },
		{ "5000F0,0B0\n", "x.csv:1:1: a stage is a number from 0 to 4095" },
		{ "0F99999999999999999999,0B0\n", "x.csv:1:1: a move ends with the number" },
		{ "0F0,0B0\n4000F0,4000B0\n", "x.csv:1:1: 4 moves are too few for 4001 stages" },
		{ "0F0,0B0,0F1,0F1\n", "x.csv:1:13: 0F1: stage 0 makes this move" },
		{ "0F0,0B0,0F1,0I1\n", "x.csv:1:13: stage 0 has no weights' backward (W)" },
		{ "0F0,0B0,1F0\n1B0\n", "x.csv:2:1: stage 1 is in two rows, 0 and 1" },
		{ "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n", "x.csv:1:5: 0B0 waits for 1B0" },
	};

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		struct tw_schedule_table t;
		struct tw_error why = { .status = TW_OK };
		const enum tw_status st =
			tw_schedule_parse("x.csv", cases[k].text, strlen(cases[k].text), &t, &why);

		if (st != TW_BAD_INPUT || strncmp(why.text, cases[k].says, strlen(cases[k].says)))
			fail_msg("'%s': '%s' does not begin with '%s'", cases[k].text, why.text,
				 cases[k].says);
		tw_schedule_release(&t);
	}
}

/* Every truncation and every changed letter is read or refused with a place. */
static void no_text_is_too_odd(void **state)
{
	static const char good[] = "0F0,0F1,0B0,0B1\r\n1F0,1B0,1F1,1I1,1W1\r\n";
	static const char letters[] = "0F,B9\"\n -xIW\xff";
	char text[sizeof good];

	(void)state;
	for (size_t n = 0; n < sizeof good; n++)
		for (size_t k = 0; k < sizeof letters; k++) {
			struct tw_schedule_table t;
			struct tw_error why = { .status = TW_OK };

			memcpy(text, good, sizeof good);
			text[n] = letters[k];
			for (size_t len = n; len < sizeof good; len += sizeof good - 1 - n + 1) {
				if (tw_schedule_parse("x", text, len, &t, &why) != TW_OK)
					assert_int_equal(strncmp(why.text, "x:", 2), 0);
				tw_schedule_release(&t);
			}
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(what_others_write_is_read),
		cmocka_unit_test(what_is_wrong_is_refused_by_its_place),
		cmocka_unit_test(no_text_is_too_odd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
