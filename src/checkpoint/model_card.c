/* SPDX-License-Identifier: Apache-2.0 */
/* model_card.c - the model card as JSON, written and read.
 *
 * scale and shift are base64 of little-endian floats, `columns` of each: they come back bit for
 * bit, and images need only one pair per channel. */
#include "checkpoint/model_card.h"

#include "checkpoint/base64.h"
#include "base/json.h"
#include "checkpoint/model_card_columns.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const tw_card_tasks[] = {
	[TW_CARD_CLASSES] = "classes",
	[TW_CARD_VALUES] = "values",
	[TW_CARD_INPUT] = "input",
	[TW_CARD_TOKENS] = "tokens",
	[TW_CARD_MADE_UP] = "made-up",
	[TW_CARD_EXTERNAL] = "external",
	NULL,
};
const char *const tw_card_readings[] = {
	[TW_READ_VALUES] = "values",
	[TW_READ_SOFTMAX] = "softmax",
	[TW_READ_SIGMOID] = "sigmoid",
	NULL,
};
static const char *const kinds[] = { [TW_VALUE_U8] = "bytes", [TW_VALUE_F32] = "floats", NULL };

static bool has_network(const struct tw_card *c)
{
	return c->task != TW_CARD_MADE_UP && c->task != TW_CARD_EXTERNAL;
}

/* --- writing --- */

static json_t *floats(const float *v, size_t n)
{
	const size_t bytes = n * sizeof *v;
	char *text = malloc(TW_BASE64_LETTERS(bytes) + 1);
	json_t *out = NULL;

	if (text) {
		tw_base64_write(v, bytes, text);
		out = json_string(text);
	}
	free(text);
	return out;
}

static json_t *layers(const struct tw_layer *layer, size_t n)
{
	json_t *a = json_array();

	for (size_t k = 0; k < n; k++) {
		json_t *row = layer[k].text ? json_string(layer[k].text)
					    : json_pack("{s:o}", "residual",
							layers(layer[k].body, layer[k].bodies));

		if (row && !layer[k].text && layer[k].shortcuts &&
		    json_object_set_new(row, "shortcut",
					layers(layer[k].shortcut, layer[k].shortcuts))) {
			json_decref(row);
			row = NULL;
		}
		if (json_array_append_new(a, row))
			break;
	}
	if (json_array_size(a) == n)
		return a;
	json_decref(a);
	return NULL;
}

static json_t *input_of(const struct tw_data *d)
{
	json_t *shape = json_array(), *o;
	char separator[2] = { d->names.separator, '\0' };

	for (uint32_t k = 0; k < d->rank; k++)
		json_array_append_new(shape, tw_json_count(d->shape[k]));
	o = json_pack("{s:o, s:s}", "shape", shape, "values", kinds[d->kind]);
	if (o && d->names.column)
		json_object_set_new(o, "columns", tw_json_texts(d->names.column, d->features));
	if (o && d->names.separator) {
		json_object_set_new(o, "separator", json_string(separator));
		json_object_set_new(o, "label_column", tw_json_count(d->names.place));
	}
	return o;
}

/* How people read the outputs: for programs that are not ours, which build the network anew. */
static const char *reading_of(const struct tw_card *c)
{
	struct tw_error why = { 0 };
	struct tw_graph *g = NULL;
	const char *name = "values";

	if (tw_card_graph(c, &tw_heap_system, &g, &why) == TW_OK)
		name = tw_card_readings[tw_card_reading(g)];
	tw_graph_free(g);
	return name;
}

static json_t *output_of(const struct tw_card *c)
{
	const struct tw_data *d = &c->data;
	json_t *o = json_pack("{s:s, s:I, s:I}", "reading", reading_of(c), "classes",
			      (json_int_t)d->classes, "targets", (json_int_t)d->targets);

	if (o && d->names.answer)
		json_object_set_new(
			o, "names",
			tw_json_texts(d->names.answer, d->classes ? d->classes : d->targets));
	if (o && d->names.label)
		json_object_set_new(o, "label", json_string(d->names.label));
	return o;
}

json_t *tw_card_json(const struct tw_card *c)
{
	json_t *o = json_pack("{s:i, s:s, s:s}", "format",
			      c->data.columns ? TW_CARD_FORMAT : TW_CARD_FORMAT_PLAIN, "program",
			      c->program, "task", tw_card_tasks[c->task]);

	if (!o || !has_network(c))
		return o;
	if (json_object_set_new(o, "input", input_of(&c->data)) ||
	    (c->data.columns &&
	     json_object_set_new(o, "columns", tw_card_columns_json(c->data.columns))) ||
	    json_object_set_new(o, "normalise",
				json_pack("{s:s, s:I, s:o, s:o}", "name", c->normalise, "columns",
					  (json_int_t)c->columns, "scale",
					  floats(c->scale, c->columns), "shift",
					  floats(c->shift, c->columns))) ||
	    json_object_set_new(o, "output", output_of(c)) ||
	    json_object_set_new(o, "network",
				json_pack("{s:o, s:s, s:I, s:b}", "layers",
					  layers(c->layer, c->layers), "loss", c->loss, "batch",
					  (json_int_t)c->batch, "standalone",
					  (int)c->standalone)) ||
	    json_object_set_new(o, "data",
				json_pack("{s:s, s:s, s:s, s:f, s:f, s:b, s:I, s:I, s:I}", "source",
					  c->source, "fingerprint", c->fingerprint, "split",
					  c->split, "test_share", c->test, "validation_share",
					  c->validation, "drawn", (int)c->drawn, "train",
					  (json_int_t)c->trained, "test", (json_int_t)c->tests,
					  "validation", (json_int_t)c->validations))) {
		json_decref(o);
		return NULL;
	}
	return o;
}

/* --- reading --- */

struct reading {
	struct tw_card *c;
	struct tw_error *why;
};

static enum tw_status wrong(const struct reading *r, const char *field, const char *what)
{
	return tw_fail(r->why, TW_BAD_BYTES, "its card: %s %s", field, what);
}

static enum tw_status no_memory(const struct reading *r)
{
	return tw_fail(r->why, TW_NO_MEMORY, "no memory for the model card");
}

/* Text without controls, of at most `most` bytes. */
static enum tw_status read_text(const struct reading *r, const json_t *from, const char *field,
				size_t most, const char **out)
{
	const char *text = json_string_value(from);

	if (!text || json_string_length(from) > most || strlen(text) != json_string_length(from) ||
	    (most <= TW_NAME_MOST && !tw_name_valid(text, strlen(text))))
		return wrong(r, field, "is not the text that it should be");
	for (const unsigned char *t = (const unsigned char *)text; *t; t++)
		if (*t < 0x20 || *t == 0x7f || (*t == 0xc2 && t[1] < 0xa0)) /* U+0080 to U+009F */
			return wrong(r, field, "has control characters in it");
	*out = tw_arena_text(&r->c->keep, text);
	return *out ? TW_OK : no_memory(r);
}

static enum tw_status read_whole(const struct reading *r, const json_t *from, const char *field,
				 uint64_t least, uint64_t most, uint64_t *out)
{
	const json_int_t v = json_integer_value(from);

	if (!json_is_integer(from) || v < 0 || (uint64_t)v < least || (uint64_t)v > most)
		return wrong(r, field, "is not the number that it should be");
	*out = (uint64_t)v;
	return TW_OK;
}

static enum tw_status read_share(const struct reading *r, const json_t *from, const char *field,
				 double *out)
{
	*out = json_number_value(from);
	return json_is_number(from) && *out >= 0 && *out <= 1
		       ? TW_OK
		       : wrong(r, field, "is not a share from 0 to 1");
}

static enum tw_status read_choice(const struct reading *r, const json_t *from, const char *field,
				  const char *const *names_, uint32_t *out)
{
	const char *text = json_string_value(from);

	for (uint32_t k = 0; text && names_[k]; k++)
		if (strcmp(text, names_[k]) == 0) {
			*out = k;
			return TW_OK;
		}
	return wrong(r, field, "is of a kind that this version does not know");
}

static enum tw_status read_names(const struct reading *r, const json_t *from, const char *field,
				 size_t n, const char *const **out)
{
	const char **list;
	enum tw_status st = TW_OK;

	if (!from)
		return TW_OK;
	if (!json_is_array(from) || json_array_size(from) != n)
		return wrong(r, field, "has another number of names than there are");
	list = tw_arena_get(&r->c->keep, (n + 1) * sizeof *list);
	if (!list)
		return no_memory(r);
	for (size_t k = 0; k < n && st == TW_OK; k++)
		st = read_text(r, json_array_get(from, k), field, TW_NAME_MOST, &list[k]);
	*out = list;
	return st;
}

static enum tw_status read_shape(const struct reading *r, const json_t *shape)
{
	struct tw_data *d = &r->c->data;
	const size_t rank = json_array_size(shape);

	if (!json_is_array(shape) || (rank != 1 && rank != TW_DATA_RANK))
		return wrong(r, "input.shape", "has neither 1 number nor 3");
	d->rank = (uint32_t)rank;
	d->features = 1;
	for (size_t k = 0; k < rank; k++) {
		uint64_t v = 0;

		if (read_whole(r, json_array_get(shape, k), "input.shape", 1, UINT32_MAX, &v) !=
		    TW_OK)
			return TW_BAD_BYTES;
		d->shape[k] = (uint32_t)v;
		if (__builtin_mul_overflow(d->features, (size_t)v, &d->features) ||
		    d->features > UINT32_MAX)
			return wrong(r, "input.shape", "has too many values");
	}
	return TW_OK;
}

static enum tw_status read_input(const struct reading *r, const json_t *o)
{
	struct tw_data *d = &r->c->data;
	const json_t *separator = json_object_get(o, "separator");
	const json_t *columns = json_object_get(o, "columns");
	uint32_t kind = 0;
	uint64_t place = 0;
	enum tw_status st = read_shape(r, json_object_get(o, "shape"));

	if (st == TW_OK)
		st = read_choice(r, json_object_get(o, "values"), "input.values", kinds, &kind);
	d->kind = (enum tw_value)kind;
	if (st == TW_OK && columns && d->rank != 1)
		st = wrong(r, "input.columns", "names values of an image");
	if (st == TW_OK)
		st = read_names(r, columns, "input.columns", d->features, &d->names.column);
	if (st != TW_OK || !separator)
		return st;
	if (json_string_length(separator) != 1)
		return wrong(r, "input.separator", "is not one character");
	d->names.separator = json_string_value(separator)[0];
	st = read_whole(r, json_object_get(o, "label_column"), "input.label_column", 1,
			(uint64_t)UINT32_MAX + 1, &place);
	d->names.place = (uint32_t)place;
	return st;
}

static enum tw_status read_floats(const struct reading *r, const json_t *from, const char *field,
				  float *out)
{
	const size_t n = r->c->columns;

	if (!json_is_string(from) ||
	    !tw_base64_read(json_string_value(from), json_string_length(from), out,
			    n * sizeof *out))
		return wrong(r, field, "is not base64 of one float per column");
	for (size_t k = 0; k < n; k++)
		if (!isfinite(out[k]))
			return wrong(r, field, "has a number that is not finite");
	return TW_OK;
}

static enum tw_status read_normalise(const struct reading *r, const json_t *o)
{
	struct tw_card *c = r->c;
	const size_t letters = json_string_length(json_object_get(o, "scale"));
	uint64_t columns = 0;
	enum tw_status st = read_text(r, json_object_get(o, "name"), "normalise.name", TW_NAME_MOST,
				      &c->normalise);

	if (st == TW_OK)
		st = read_whole(r, json_object_get(o, "columns"), "normalise.columns", 1,
				c->data.features, &columns);
	if (st != TW_OK)
		return st;
	if (c->data.features % columns || columns > letters) /* a letter is less than a float */
		return wrong(r, "normalise.columns", "does not fit the input");
	c->columns = columns;
	c->run = c->data.features / columns;
	c->scale = tw_arena_get(&c->keep, 2 * columns * sizeof(float));
	if (!c->scale)
		return no_memory(r);
	c->shift = c->scale + columns;
	st = read_floats(r, json_object_get(o, "scale"), "normalise.scale", c->scale);
	return st == TW_OK
		       ? read_floats(r, json_object_get(o, "shift"), "normalise.shift", c->shift)
		       : st;
}

static enum tw_status read_output(const struct reading *r, const json_t *o)
{
	struct tw_data *d = &r->c->data;
	const json_t *label = json_object_get(o, "label");
	uint64_t classes = 0, targets = 0;
	enum tw_status st = read_whole(r, json_object_get(o, "classes"), "output.classes", 0,
				       TW_CLASSES_MAX, &classes);

	if (st == TW_OK)
		st = read_whole(r, json_object_get(o, "targets"), "output.targets", 0, UINT32_MAX,
				&targets);
	if (st != TW_OK)
		return st;
	d->classes = (uint32_t)classes;
	d->targets = (uint32_t)targets;
	d->tokens = r->c->task == TW_CARD_TOKENS;
	if (d->tokens && d->rank != 1)
		return wrong(r, "input.shape", "is an image, and the task has tokens");
	if ((classes > 0) == (targets > 0) ||
	    ((r->c->task == TW_CARD_CLASSES || d->tokens) && classes < 2) ||
	    (r->c->task == TW_CARD_VALUES && !targets))
		return wrong(r, "output", "does not have the classes or the targets of its task");
	st = read_names(r, json_object_get(o, "names"), "output.names", classes ? classes : targets,
			&d->names.answer);
	if (st == TW_OK && label)
		st = read_text(r, label, "output.label", TW_NAME_MOST, &d->names.label);
	return st;
}

static enum tw_status read_columns(const struct reading *r, const json_t *o)
{
	struct tw_error said = { 0 };
	const enum tw_status st =
		tw_card_columns_read(o, &r->c->data, &r->c->keep, &r->c->data.columns, &said);

	if (st == TW_OK && r->c->data.rank == 1)
		return TW_OK;
	return st == TW_NO_MEMORY
		       ? no_memory(r)
		       : wrong(r, "columns", st == TW_OK ? "are of an image" : said.text);
}

static enum tw_status read_layers(const struct reading *r, const json_t *list, uint32_t depth,
				  struct tw_layer **out, size_t *count)
{
	const size_t n = json_array_size(list);
	struct tw_layer *layer;
	enum tw_status st = TW_OK;

	if (!json_is_array(list) || !n || n > TW_LAYERS_MAX || depth > TW_LAYERS_DEPTH)
		return wrong(r, "network.layers", "is not a list of layers");
	layer = tw_arena_get(&r->c->keep, n * sizeof *layer);
	if (!layer)
		return no_memory(r);
	for (size_t k = 0; k < n && st == TW_OK; k++) {
		const json_t *row = json_array_get(list, k);
		const json_t *around = json_object_get(row, "shortcut");

		layer[k].place = "";
		if (!json_is_object(row)) {
			st = read_text(r, row, "network.layers", TW_CARD_TEXT, &layer[k].text);
			continue;
		}
		st = read_layers(r, json_object_get(row, "residual"), depth + 1, &layer[k].body,
				 &layer[k].bodies);
		if (st == TW_OK && around)
			st = read_layers(r, around, depth + 1, &layer[k].shortcut,
					 &layer[k].shortcuts);
	}
	*out = layer;
	*count = n;
	return st;
}

static enum tw_status read_network(const struct reading *r, const json_t *o)
{
	struct tw_card *c = r->c;
	uint64_t batch = 0;
	enum tw_status st = read_layers(r, json_object_get(o, "layers"), 0, &c->layer, &c->layers);

	if (st == TW_OK)
		st = read_text(r, json_object_get(o, "loss"), "network.loss", TW_CARD_TEXT,
			       &c->loss);
	if (st == TW_OK)
		st = read_whole(r, json_object_get(o, "batch"), "network.batch", 1, 4096, &batch);
	c->batch = (uint32_t)batch;
	c->standalone = json_is_true(json_object_get(o, "standalone"));
	return st;
}

static enum tw_status read_origin(const struct reading *r, const json_t *o)
{
	struct tw_card *c = r->c;
	enum tw_status st =
		read_text(r, json_object_get(o, "source"), "data.source", TW_NAME_MOST, &c->source);

	if (st == TW_OK)
		st = read_text(r, json_object_get(o, "fingerprint"), "data.fingerprint",
			       TW_NAME_MOST, &c->fingerprint);
	if (st == TW_OK)
		st = read_text(r, json_object_get(o, "split"), "data.split", TW_NAME_MOST,
			       &c->split);
	if (st == TW_OK)
		st = read_share(r, json_object_get(o, "test_share"), "data.test_share", &c->test);
	if (st == TW_OK)
		st = read_share(r, json_object_get(o, "validation_share"), "data.validation_share",
				&c->validation);
	if (st == TW_OK)
		st = read_whole(r, json_object_get(o, "train"), "data.train", 0, INT64_MAX,
				&c->trained);
	if (st == TW_OK)
		st = read_whole(r, json_object_get(o, "test"), "data.test", 0, INT64_MAX,
				&c->tests);
	if (st == TW_OK)
		st = read_whole(r, json_object_get(o, "validation"), "data.validation", 0,
				INT64_MAX, &c->validations);
	c->drawn = json_is_true(json_object_get(o, "drawn"));
	return st;
}

static enum tw_status read_card(const struct reading *r, const json_t *o)
{
	struct tw_card *c = r->c;
	uint64_t format = 0;
	uint32_t task = 0;
	enum tw_status st;

	if (!json_is_object(o))
		return wrong(r, "it", "is not a JSON object");
	st = read_whole(r, json_object_get(o, "format"), "format", 0, INT64_MAX, &format);
	if (st == TW_OK && format != TW_CARD_FORMAT && format != TW_CARD_FORMAT_PLAIN)
		return tw_fail(r->why, TW_BAD_BYTES,
			       "its card has format %llu, and this version reads %d and %d; use "
			       "the version of thalweg that wrote it",
			       (unsigned long long)format, TW_CARD_FORMAT_PLAIN, TW_CARD_FORMAT);
	if (st == TW_OK)
		st = read_text(r, json_object_get(o, "program"), "program", TW_NAME_MOST,
			       &c->program);
	if (st == TW_OK)
		st = read_choice(r, json_object_get(o, "task"), "task", tw_card_tasks, &task);
	c->task = (enum tw_card_task)task;
	if (st != TW_OK || !has_network(c))
		return st;
	st = read_input(r, json_object_get(o, "input"));
	if (st == TW_OK)
		st = read_normalise(r, json_object_get(o, "normalise"));
	if (st == TW_OK)
		st = read_output(r, json_object_get(o, "output"));
	if (st == TW_OK && format == TW_CARD_FORMAT)
		st = read_columns(r, json_object_get(o, "columns"));
	if (st == TW_OK)
		st = read_network(r, json_object_get(o, "network"));
	return st == TW_OK ? read_origin(r, json_object_get(o, "data")) : st;
}

enum tw_status tw_card_read(struct tw_heap *heap, const json_t *card, struct tw_card **out,
			    struct tw_error *why)
{
	struct tw_card *c = tw_heap_zeros(heap, sizeof *c);
	const struct reading r = { c, why };
	enum tw_status st;

	if (!c)
		return no_memory(&r);
	tw_arena_init(&c->keep, heap);
	c->data.heap = heap;
	st = read_card(&r, card);
	if (st == TW_OK)
		*out = c;
	else
		tw_card_free(c);
	return st;
}

enum tw_status tw_card_of_metadata(struct tw_heap *heap, const char *metadata, struct tw_card **out,
				   struct tw_error *why)
{
	json_t *all = metadata ? json_loads(metadata, JSON_REJECT_DUPLICATES, NULL) : NULL;
	const json_t *text = json_object_get(all, TW_CARD_METADATA);
	enum tw_status st = TW_ABSENT;
	json_t *card;

	if (json_is_string(text)) {
		card = json_loadb(json_string_value(text), json_string_length(text),
				  JSON_REJECT_DUPLICATES, NULL);
		st = card ? tw_card_read(heap, card, out, why)
			  : tw_fail(why, TW_BAD_BYTES, "its card is not JSON");
		json_decref(card);
	}
	json_decref(all);
	return st;
}
