/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_card.c - a model card comes back bit for bit, makes the network that it was written
 * for, and is refused with a sentence where anything in it is not what it should be. */
/* labels: numbers */
#include "base/refusing.h"
#include "engine/network.h"
#include "checkpoint/model_card.h"
#include "job/reading.h"
#include "checkpoint/tensors.h"
#include "run/open_engine.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define DIGITS(more) "data: {source: digits, count: 60, tests: 20, batch: 10" more "}\n"

static char table[] = "/tmp/thalweg-card-XXXXXX";

/* What it was made from. */
struct made {
	struct tw_job *job;
	struct tw_engine *engine;
	struct tw_card *card;
	json_t *json;
};

static struct made make(const char *text)
{
	struct made m = { .job = good_job(text, NULL, TW_WORLD_THREADS) };
	struct tw_error why = { 0 };

	if (tw_job_open_engine(m.job, &tw_heap_system, &m.engine, &why) != TW_OK)
		print_error("%s\n", why.text);
	assert_non_null(m.engine);
	assert_int_equal(tw_card_make(m.job, m.engine, &m.card, &why), TW_OK);
	m.json = tw_card_json(m.card);
	assert_non_null(m.json);
	return m;
}

static void unmake(struct made *m)
{
	json_decref(m->json);
	tw_card_free(m->card);
	m->engine->class->close(m->engine);
	tw_job_free(m->job);
}

/* As it travels: through text. */
static json_t *through_text(const json_t *card)
{
	char *text = json_dumps(card, JSON_COMPACT);
	json_t *back = json_loads(text, 0, NULL);

	free(text);
	assert_non_null(back);
	return back;
}

static void same_tensors(const struct tw_graph *a, const struct tw_graph *b)
{
	struct tw_tensors x, y;

	assert_int_equal(tw_tensors_of_graph(&tw_heap_system, a, &x), TW_OK);
	assert_int_equal(tw_tensors_of_graph(&tw_heap_system, b, &y), TW_OK);
	assert_int_equal(x.tensors, y.tensors);
	for (size_t k = 0; k < x.tensors; k++) {
		assert_string_equal(x.tensor[k].name, y.tensor[k].name);
		assert_int_equal(x.tensor[k].from, y.tensor[k].from);
		assert_int_equal(x.tensor[k].rank, y.tensor[k].rank);
		assert_memory_equal(x.tensor[k].d, y.tensor[k].d, sizeof x.tensor[k].d);
	}
	tw_tensors_release(&x);
	tw_tensors_release(&y);
}

static void comes_back(const char *text, size_t columns)
{
	struct made m = make(text);
	const struct tw_data *d = tw_network_data(m.engine);
	json_t *sent = through_text(m.json), *again;
	struct tw_error why = { 0 };
	struct tw_card *c = NULL;
	struct tw_graph *g = NULL;

	assert_int_equal(tw_card_read(&tw_heap_system, sent, &c, &why), TW_OK);
	assert_int_equal(c->columns, columns);
	assert_int_equal(tw_card_expand(c, &why), TW_OK);
	assert_memory_equal(c->data.scale, d->scale, d->features * sizeof(float));
	assert_memory_equal(c->data.shift, d->shift, d->features * sizeof(float));
	assert_int_equal(tw_card_graph(c, &tw_heap_system, &g, &why), TW_OK);
	same_tensors(g, tw_network_graph(m.engine));
	assert_string_equal(
		g->node[g->nodes - 1].op->name,
		tw_network_graph(m.engine)->node[tw_network_graph(m.engine)->nodes - 1].op->name);
	again = tw_card_json(c);
	assert_true(json_equal(again, m.json));
	json_decref(again);
	json_decref(sent);
	tw_graph_free(g);
	tw_card_free(c);
	unmake(&m);
}

static void cards_come_back(void **state)
{
	char job[400];

	/* one pair of numbers per channel, for all, and per value */
	comes_back(DIGITS("") "model: lenet\n", 1);
	comes_back(DIGITS(", normalise: unit") "model: {layers: [linear 5, tanh, linear 10]}\n"
					       "loss: {name: cross-entropy, smoothing: 0.1}\n",
		   1);
	comes_back(DIGITS(", normalise: unit") "model: {name: autoencoder, hidden: [9, 3]}\n"
					       "loss: binary-cross-entropy\n",
		   1);
	comes_back(DIGITS("") "model: {name: resnet20, width: 4, blocks: 1}\n", 1);
	comes_back(DIGITS("") "model: {layers: [\"linear\\t10\"]}\n", 1);
	comes_back(DIGITS("") "model: {layers: [conv 3 3x3, {residual: [conv 3 3x3 pad 1, relu]},"
			      " {residual: [conv 5 1x1], shortcut: [conv 5 1x1 bias false]},"
			      " linear 10]}\n",
		   1);
	snprintf(job, sizeof job,
		 "data: {source: csv, file: %s, batch: 2}\nmodel: {layers: [linear 2]}\n", table);
	comes_back(job, 3);
	snprintf(job, sizeof job,
		 "data: {source: csv, file: %s, batch: 2, normalise: none}\n"
		 "model: {layers: [linear 1]}\nloss: binary-cross-entropy\n",
		 table);
	comes_back(job, 1);
}

static void a_table_gives_its_names(void **state)
{
	char job[400];
	struct made m;
	const struct tw_names *n;

	snprintf(job, sizeof job,
		 "data: {source: csv, file: %s, batch: 2}\nmodel: {layers: [linear 2]}\n", table);
	m = make(job);
	n = &m.card->data.names;
	assert_string_equal(n->column[0], "a");
	assert_string_equal(n->column[2], "c \"d\"");
	assert_string_equal(n->answer[0], "no");
	assert_string_equal(n->answer[1], "yes, s\xc3\xad");
	assert_string_equal(n->label, "kind");
	assert_true(m.card->drawn && m.card->tests == 2 && m.card->trained == 6);
	assert_int_equal(strlen(m.card->fingerprint) % 16, 0);
	unmake(&m);
}

static void models_without_a_network_say_so(void **state)
{
	struct made m = make("model: {quadratic: {dimension: 20}}\n"
			     "data: {source: none, samples: 64, batch: 1}\n");
	struct tw_error why = { 0 };
	struct tw_card *c = NULL;

	assert_int_equal(tw_card_read(&tw_heap_system, m.json, &c, &why), TW_OK);
	assert_int_equal(c->task, TW_CARD_MADE_UP);
	assert_int_equal(tw_card_computes(c, "runs/x", &why), TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "runs/x is of a generated problem"));
	tw_card_free(c);
	json_object_set_new(m.json, "task", json_string("external"));
	why = (struct tw_error){ 0 };
	assert_int_equal(tw_card_read(&tw_heap_system, m.json, &c, &why), TW_OK);
	assert_int_equal(tw_card_computes(c, "runs/x", &why), TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "model of its own"));
	tw_card_free(c);
	unmake(&m);
}

/* Every allocation may fail, and nothing is left behind. */
static void memory_may_be_refused(void **state)
{
	struct made m = make(DIGITS("") "model: lenet\n");

	for (unsigned nth = 1;; nth++) {
		struct refusing h = REFUSING(nth);
		struct tw_error why = { 0 };
		struct tw_card *c = NULL;
		const enum tw_status st = tw_card_read(&h.heap, m.json, &c, &why);

		tw_card_free(c);
		assert_int_equal(h.live, 0);
		if (st == TW_OK)
			break;
		assert_int_equal(st, TW_NO_MEMORY);
		assert_non_null(strstr(why.text, "no memory"));
	}
	unmake(&m);
}

/* --- hostile --- */

/* The card with `value` (JSON text) at path "a.b" instead, or without it, is refused. */
static void refused(const json_t *good, const char *path, const char *value, const char *sentence)
{
	json_t *bad = json_deep_copy(good), *at = bad;
	struct tw_error why = { 0 };
	struct tw_card *c = NULL;
	struct tw_graph *g = NULL;
	char part[100], *dot;
	enum tw_status st;

	snprintf(part, sizeof part, "%s", path);
	dot = strchr(part, '.');
	if (dot) {
		*dot = '\0';
		at = json_object_get(bad, part);
	}
	assert_non_null(json_object_get(at, dot ? dot + 1 : part));
	if (value)
		json_object_set_new(at, dot ? dot + 1 : part,
				    json_loads(value, JSON_DECODE_ANY, NULL));
	else
		json_object_del(at, dot ? dot + 1 : part);
	st = tw_card_read(&tw_heap_system, bad, &c, &why);
	if (st == TW_OK) /* or its network is */
		st = tw_card_graph(c, &tw_heap_system, &g, &why);
	if (st != TW_BAD_BYTES || !strstr(why.text, sentence))
		print_error("%s: '%s' lacks '%s'\n", path, why.text, sentence);
	assert_int_equal(st, TW_BAD_BYTES);
	assert_non_null(strstr(why.text, sentence));
	tw_graph_free(g);
	tw_card_free(c);
	json_decref(bad);
}

static void hostile_cards_are_refused(void **state)
{
	static const char *const all[] = { "format",    "program", "task",    "input",
					   "normalise", "output",  "network", "data" };
	struct made m = make(DIGITS("") "model: {layers: [conv 3 3x3, relu, linear 10]}\n");

	for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
		refused(m.json, all[k], NULL, "its card: ");
		refused(m.json, all[k], "7.5", "its card: ");
		refused(m.json, all[k], "[]", "its card: ");
	}
	refused(m.json, "format", "3", "its card has format 3, and this version reads 1 and 2");
	refused(m.json, "format", "2", "its card: columns do not say");
	refused(m.json, "task", "\"regression\"", "task is of a kind that");
	refused(m.json, "program", "\"x\\u001b[2J\"", "program is not the text");
	refused(m.json, "input.shape", "[1, 2, 3, 4]", "has neither 1 number nor 3");
	refused(m.json, "input.shape", "[1, 0, 28]", "input.shape is not the number");
	refused(m.json, "input.shape", "[1, -28, 28]", "input.shape is not the number");
	refused(m.json, "input.shape", "[60000, 60000, 60000]", "has too many values");
	refused(m.json, "input.values", "\"doubles\"", "input.values");
	refused(m.json, "normalise.columns", "0", "normalise.columns");
	refused(m.json, "normalise.columns", "5", "does not fit the input");
	refused(m.json, "normalise.columns", "392", "does not fit the input");
	refused(m.json, "normalise.scale", "\"AACAPw=\"", "normalise.scale is not base64");
	refused(m.json, "normalise.scale", "\"AADAfw==\"", "is not finite");
	refused(m.json, "normalise.shift", "\"AACA/w==\"", "is not finite");
	refused(m.json, "output.classes", "1", "does not have the classes");
	refused(m.json, "output.classes", "70000", "output.classes");
	refused(m.json, "output.targets", "1", "does not have the classes");
	refused(m.json, "output.names", "[\"a\", \"b\"]", "another number of names");
	refused(m.json, "output.names",
		"[\"0\", \"1\", \"2\", \"3\", \"4\", \"5\", \"6\", \"7\", \"8\", \"\\u009b31m\"]",
		"output.names is not the text");
	refused(m.json, "network.layers", "[]", "is not a list of layers");
	refused(m.json, "network.layers", "[[\"relu\"]]", "network.layers");
	refused(m.json, "network.layers", "[{\"residual\": \"relu\"}]", "is not a list of layers");
	refused(m.json, "network.layers",
		"[{\"residual\": [{\"residual\": [{\"residual\": [{\"residual\": "
		"[{\"residual\": [{\"residual\": [\"relu\"]}]}]}]}]}]}]",
		"is not a list of layers");
	refused(m.json, "network.layers", "[\"warp 9\"]",
		"its card does not describe a valid network");
	refused(m.json, "network.layers", "[\"linear\\u009b 10\"]", "has control characters");
	refused(m.json, "network.layers", "[\"linear 11\"]",
		"its card does not describe a valid network");
	refused(m.json, "network.loss", "\"relu\"", "its card does not describe a valid network");
	refused(m.json, "network.loss", "\"mean-squared\"",
		"its card does not describe a valid network");
	refused(m.json, "network.batch", "0", "network.batch");
	refused(m.json, "network.batch", "1000000", "network.batch");
	refused(m.json, "data.fingerprint", "7", "data.fingerprint");
	refused(m.json, "data.test_share", "-1", "data.test_share");
	refused(m.json, "data.train", "-1", "data.train");
	unmake(&m);
}

/* Words, dates, gaps, several answers: columns come back, and lies about them are refused. */
static void columns_come_back(void **state)
{
	char job[400], path[] = "/tmp/thalweg-columns-XXXXXX";
	FILE *f = fdopen(mkstemp(path), "w");
	struct made m;

	assert_non_null(f);
	fputs("when,colour,size,y,z\n", f);
	for (int k = 0; k < 12; k++)
		fprintf(f, "%d/%d/2024 10:00,%s,%s,%g,%d\n", 13 + k, 1 + k % 3,
			k % 2 ? "red" : "blue", k % 4 ? "2.5" : "", k * 1.5, k);
	fclose(f);
	snprintf(job, sizeof job,
		 "data: {source: csv, file: %s, batch: 2, label: [z, y], missing: indicator}\n"
		 "model: {layers: [linear 2]}\n",
		 path);
	comes_back(job, 5 + 3 + 2);
	m = make(job);
	assert_int_equal(m.card->data.columns->column[0].order, TW_DATE_DAY_FIRST);
	refused(m.json, "columns.missing", "\"guess\"", "columns do not say what a missing");
	refused(m.json, "columns.all", "0", "columns do not say how many");
	refused(m.json, "columns.labels", "[4]", "another number of labels");
	refused(m.json, "columns.labels", "[4, 9]", "label at a place");
	refused(m.json, "columns.labels", "[1, 5]", "two at one place");
	refused(m.json, "columns.header", "false", "name without a header");
	refused(m.json, "columns.list", "[]", "is not a list of columns");
	refused(m.json, "columns.list", "[7]", "of a type that");
	refused(m.json, "columns.list", "[{\"type\": \"text\"}]", "of a type that");
	refused(m.json, "columns.list", "[{\"type\": \"number\", \"place\": 6, \"name\": \"a\"}]",
		"place that does not exist");
	refused(m.json, "columns.list", "[{\"type\": \"number\", \"place\": 1, \"name\": \"a\"}]",
		"what a missing value becomes");
	refused(m.json, "columns.list",
		"[{\"type\": \"number\", \"place\": 1, \"name\": \"a\", \"fill\": [1e99]}]",
		"what a missing value becomes");
	refused(m.json, "columns.list",
		"[{\"type\": \"number\", \"place\": 1, \"name\": \"a\", \"fill\": [1]}]",
		"another number of inputs");
	refused(m.json, "columns.list",
		"[{\"type\": \"category\", \"place\": 1, \"name\": \"a\", "
		"\"words\": [\"x\", \"x\"]}]",
		"a word twice");
	refused(m.json, "columns.list",
		"[{\"type\": \"date\", \"place\": 1, \"name\": \"a\", \"order\": \"none\"}]",
		"dates in an order");
	unmake(&m);
	unlink(path);
}

static void metadata_has_it_as_text(void **state)
{
	struct made m = make(DIGITS("") "model: {layers: [linear 10]}\n");
	char *text = json_dumps(m.json, JSON_COMPACT), *all;
	json_t *o = json_pack("{s:s, s:s}", "format", "pt", TW_CARD_METADATA, text);
	struct tw_error why = { 0 };
	struct tw_card *c = NULL;

	all = json_dumps(o, 0);
	assert_int_equal(tw_card_of_metadata(&tw_heap_system, all, &c, &why), TW_OK);
	tw_card_free(c);
	assert_int_equal(tw_card_of_metadata(&tw_heap_system, NULL, &c, &why), TW_ABSENT);
	assert_int_equal(tw_card_of_metadata(&tw_heap_system, "{\"format\": \"pt\"}", &c, &why),
			 TW_ABSENT);
	assert_string_equal(why.text, "");
	assert_int_equal(
		tw_card_of_metadata(&tw_heap_system, "{\"thalweg.card\": \"{\"}", &c, &why),
		TW_BAD_BYTES);
	assert_string_equal(why.text, "its card is not JSON");
	free(text);
	free(all);
	json_decref(o);
	unmake(&m);
}

static int write_table(void **state)
{
	const int fd = mkstemp(table);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");

	if (!f)
		return -1;
	fputs("a,b,\"c \"\"d\"\"\",kind\n", f);
	for (int k = 0; k < 8; k++)
		fprintf(f, "%d,%g,%g,%s\n", k, k * 0.3 + 7, 1e6 / (k + 1),
			k % 2 ? "no" : "\"yes, s\xc3\xad\"");
	return fclose(f);
}

static int remove_table(void **state)
{
	return unlink(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cards_come_back),
		cmocka_unit_test(a_table_gives_its_names),
		cmocka_unit_test(models_without_a_network_say_so),
		cmocka_unit_test(memory_may_be_refused),
		cmocka_unit_test(hostile_cards_are_refused),
		cmocka_unit_test(columns_come_back),
		cmocka_unit_test(metadata_has_it_as_text),
	};

	return cmocka_run_group_tests(tests, write_table, remove_table);
}
