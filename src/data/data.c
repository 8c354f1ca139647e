/* SPDX-License-Identifier: Apache-2.0 */
/* data.c - opening a data set: source, checks, split, fingerprint, normalisation. */
#include "data/format/series_rows.h"
#include "data/data.h"
#include "data/data_memory.h"
#include "data/names_pack.h"
#include "data/chosen.h"
#include "data/split.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const normalise_names[] = { "none", "unit", "standard", NULL };
static const char *const target_names[] = { "none", "standard", NULL };
static const char *const weight_names[] = { "none", "balanced", "auto", NULL };
static const char *const evaluate_names[] = { "test", "validation", NULL };

const struct tw_option tw_data_common_rows[] = {
	TW_OPTION(struct tw_data_options, samples, TW_U64, "0", "samples", 0, 0,
		  "number of training samples to use, chosen with split; 0: all",
		  .example = "10000"),
	TW_OPTION_CHOICE(struct tw_data_options, normalise, "normalise", "standard",
			 normalise_names,
			 "standard: mean 0, standard deviation 1; unit: 0 to 1; per channel or "
			 "column"),
	TW_OPTION_CHOICE(struct tw_data_options, normalise_targets, "normalise_targets", "standard",
			 target_names,
			 "standard: the network learns values with mean 0 and standard deviation "
			 "1, and its outputs and losses are scaled back"),
	TW_OPTION_CHOICE(
		struct tw_data_options, class_weights, "class_weights", "none", weight_names,
		"balanced: a training sample of a class with few samples weighs more, so "
		"that all classes weigh the same; auto: the same, and nothing where values are "
		"predicted"),
	TW_OPTION(struct tw_data_options, test, TW_F64, "0.2", "of the samples", 0, 0.9,
		  "share held out as test set, if the source has none"),
	TW_OPTION(struct tw_data_options, fold, TW_TEXT, "", NULL, 0, 0,
		  "the fold that is the test set, in the place of `test`: 2/5 is the second of "
		  "five, and every sample is in one of them (thalweg compare --folds); 2/5 of "
		  "train: every sample but those that `test` would hold out, which are left out",
		  .example = "2/5"),
	TW_OPTION(struct tw_data_options, validation, TW_F64, "0", "of the training set", 0, 0.9,
		  "share of the training set held out for validation", .example = "0.1"),
	TW_OPTION_CHOICE(struct tw_data_options, evaluate, "evaluate", "test", evaluate_names,
			 "set to evaluate on during training"),
	TW_OPTION(struct tw_data_options, shift, TW_U32, "0", "pixels", 0, 1024,
		  "shift training images at random by up to this many pixels in each direction",
		  .example = "2"),
	TW_OPTION(struct tw_data_options, flip, TW_BOOL, "false", NULL, 0, 0,
		  "mirror half of the training images left to right, at random"),
	TW_OPTION(struct tw_data_options, noise, TW_F64, "0", NULL, 0, 100,
		  "standard deviation of the noise added to normalised training samples",
		  .example = "0.1"),
	TW_OPTION(struct tw_data_options, split, TW_U64, "1", NULL, 0, 0,
		  "random seed for holding out and choosing samples; train.seed does not "
		  "change these sets"),
	TW_OPTION(struct tw_data_options, prefetch, TW_U32, "0", "batches", 0, 64,
		  "batches that a helper thread prepares ahead; 0: none", .example = "4"),
	TW_OPTION_END,
};

const struct tw_samples *tw_data_set(const struct tw_data *d, enum tw_data_set set)
{
	return set == TW_SET_TEST         ? &d->test
	       : set == TW_SET_VALIDATION ? &d->validation
					  : &d->train;
}

void tw_data_close(struct tw_data *d)
{
	struct tw_heap *heap;

	if (!d)
		return;
	heap = d->heap;
	tw_data_keep_release(d);
	heap->put(heap, d);
}

/* Options that this data cannot obey are refused, not forgotten. */
enum tw_status tw_data_fits(const char *name, const struct tw_data *d,
			    const struct tw_data_options *o, struct tw_error *why)
{
	const uint32_t side = d->rank == 3 && d->shape[1] < d->shape[2] ? d->shape[1] : d->shape[2];

	if ((o->shift || o->flip) && d->rank != 3)
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: needs images, and the samples of %s are plain rows of values",
			       o->shift ? "shift" : "flip", name);
	if (o->shift && o->shift >= side)
		return tw_fail(
			why, TW_BAD_INPUT,
			"shift: %u pixels would move images of %ux%u out of sight; use 0 to %u",
			o->shift, d->shape[1], d->shape[2], side - 1);
	if (o->evaluate == TW_SET_VALIDATION && d->divided && !d->validation.count)
		return tw_fail(why, TW_BAD_INPUT,
			       "evaluate: %s was imported without a validation set; import the "
			       "data again with data.validation above 0",
			       name);
	if (o->evaluate == TW_SET_VALIDATION && !d->divided && o->validation <= 0)
		return tw_fail(why, TW_BAD_INPUT,
			       "evaluate: validation needs a validation set; set data.validation "
			       "above 0");
	if (o->class_weights != TW_CLASSES_AS_THEY_ARE && d->train.count == TW_ENDLESS)
		return tw_fail(why, TW_BAD_INPUT,
			       "class_weights: nobody knows how many samples of each class %s "
			       "will have; leave it out",
			       name);
	if (o->class_weights == TW_CLASSES_BALANCED && !d->classes)
		return tw_fail(why, TW_BAD_INPUT,
			       "class_weights: %s predicts values, which have no classes; leave it "
			       "out",
			       name);
	if (o->noise > 0 && d->tokens)
		return tw_fail(why, TW_BAD_INPUT,
			       "noise: the samples of %s are tokens, which noise would make into "
			       "others; leave this out",
			       name);
	if (o->noise > 0 && tw_series_width(d->columns))
		return tw_fail(
			why, TW_BAD_INPUT,
			"noise: the samples of %s begin with their lengths, which noise would "
			"change; leave this out",
			name);
	if (o->class_weights == TW_CLASSES_BALANCED && d->tokens)
		return tw_fail(why, TW_BAD_INPUT,
			       "class_weights: a sample of %s has many labels, and a weight is one "
			       "sample's; leave this out",
			       name);
	if (d->targets == 0 && d->classes < 2)
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: all labels are the same class; at least two classes are needed",
			       name);
	return TW_OK;
}

#define TOKENS 512u /* as set_file.h has it */

/* A walk that marks one part of each sample. */
struct marking {
	struct tw_sha_run *run;
	size_t bytes;
	bool answers;
};

static enum tw_status mark_sample(void *arg, uint64_t i, const struct tw_sample *s,
				  struct tw_error *why)
{
	const struct marking *m = arg;
	const void *at = !m->answers ? s->value : s->target ? (const void *)s->target : s->label;

	(void)i;
	(void)why;
	tw_sha_update(m->run, at, m->bytes);
	return TW_OK;
}

static enum tw_status mark(struct tw_sha_run *h, const struct tw_data *d,
			   const struct tw_samples *s, struct tw_error *why)
{
	struct marking m = { h, tw_samples_width(d), false };
	enum tw_status st;

	tw_sha_update(h, &s->count, sizeof s->count);
	if (s->count == 0)
		return TW_OK;
	st = tw_samples_walk(d, s, 0, UINT64_MAX, mark_sample, &m, why);
	m.bytes = tw_samples_answer(d);
	m.answers = true;
	if (st == TW_OK)
		st = tw_samples_walk(d, s, 0, UINT64_MAX, mark_sample, &m, why);
	if (s->weight)
		tw_sha_update(h, s->weight, s->count * sizeof *s->weight);
	return st;
}

enum tw_status tw_fingerprint(const struct tw_data *d, struct tw_sha *out)
{
	const uint32_t facts[] = { d->rank,
				   d->shape[0],
				   d->shape[1],
				   d->shape[2],
				   (uint32_t)d->kind | (d->tokens ? TOKENS : 0),
				   d->classes,
				   d->targets };
	struct tw_sha_run h;
	struct tw_error quiet = { 0 };
	enum tw_status st;

	tw_sha_init(&h);
	tw_sha_update(&h, facts, sizeof facts);
	tw_sha_update(&h, &d->packed_bytes, sizeof d->packed_bytes);
	tw_sha_update(&h, d->packed, d->packed_bytes);
	st = mark(&h, d, &d->train, &quiet);
	if (st == TW_OK)
		st = mark(&h, d, &d->test, &quiet);
	if (st == TW_OK)
		st = mark(&h, d, &d->validation, &quiet);
	/* its memory is let go here */
	return tw_sha_final(&h, out) == TW_OK ? st : TW_NO_MEMORY;
}

/* A text that is not drawn from at random surprises those who know shares. */
static void say_parts(const struct tw_data *d, struct tw_warnings *notes)
{
	const uint64_t tests = d->hold == TW_HOLD_PARTS ? d->test.count : 0;
	char checks[60] = "", last[60] = "";

	if (d->validation.count)
		snprintf(checks, sizeof checks, ", the %s %" PRIu64 " validate",
			 tests ? "next" : "last", d->validation.count);
	if (tests)
		snprintf(last, sizeof last, ", the last %" PRIu64 " test", tests);
	if (*checks || *last)
		tw_warn(notes,
			"the text is divided into parts that lie together: the first %" PRIu64
			" samples of %zu tokens train%s%s",
			d->train.count, d->features, checks, last);
}

/* What is trained on is in memory, or else lent by who has it. */
static enum tw_status hold_all(struct tw_data *d, struct tw_error *why)
{
	enum tw_status st = tw_hold(d, &d->train, why);

	if (st == TW_OK)
		st = tw_hold(d, &d->test, why);
	return st == TW_OK ? tw_hold(d, &d->validation, why) : st;
}

/* What would divide a set again. */
static enum tw_status check_divided(const struct tw_data_options *o, struct tw_error *why)
{
	const char *name = o->samples            ? "samples"
			   : o->fold && *o->fold ? "fold"
			   : o->validation > 0   ? "validation"
			   : o->test != 0.2      ? "test"
			   : o->split != 1       ? "split"
						 : NULL;

	return name ? tw_fail(why, TW_BAD_INPUT,
			      "%s: the set was divided when it was imported, and stays so; leave "
			      "this out, or import the data again with it",
			      name)
		    : TW_OK;
}

static enum tw_status divide(struct tw_data *d, const struct tw_source *source,
			     const struct tw_data_options *o, uint64_t seed,
			     struct tw_warnings *notes, struct tw_error *why)
{
	enum tw_status st;

	if (d->divided)
		return check_divided(o, why);
	st = tw_split(d, o, source->splits, seed, why);
	if (st == TW_OK && tw_split_in_parts(d))
		say_parts(d, notes);
	if (st == TW_OK && d->columns)
		st = tw_columns_fit(d, notes, why);
	return st == TW_OK ? tw_names_pack(d, why) : st;
}

enum tw_status tw_data_read(const struct tw_source *source, const void *source_options,
			    const struct tw_data_options *o, const struct tw_source_site *site,
			    uint64_t seed, struct tw_data **out, struct tw_error *why)
{
	struct tw_data *d = tw_heap_zeros(site->heap, sizeof *d);
	struct tw_source_site own = *site;
	struct tw_warnings *warnings;
	enum tw_status st;

	if (!d)
		return tw_data_keep_no_memory(why, source->name, sizeof *d);
	d->heap = site->heap;
	own.warnings = warnings = tw_heap_zeros(site->heap, 2 * sizeof *own.warnings);
	own.notes = warnings ? own.warnings + 1 : NULL;
	if (!warnings)
		st = tw_data_keep_no_memory(why, source->name, 2 * sizeof *own.warnings);
	else
		st = source->open(source_options, &own, d, why);
	if (warnings)
		tw_data_keep_adopt(d, warnings);
	d->warnings = own.warnings;
	d->notes = own.notes;
	if (st == TW_OK)
		st = tw_data_fits(source->name, d, o, why);
	if (st == TW_OK)
		st = divide(d, source, o, seed, warnings + 1, why);
	if (st != TW_OK) {
		tw_data_close(d);
		return st;
	}
	*out = d;
	return TW_OK;
}

enum tw_status tw_data_prepare(struct tw_data *d, const struct tw_data_options *o,
			       struct tw_warnings *notes, struct tw_error *why)
{
	enum tw_status st = tw_normalise(d, (enum tw_normalise)o->normalise, why);

	if (st == TW_OK && o->normalise_targets)
		st = tw_data_scale_targets(d, why);
	return st == TW_OK ? tw_data_weigh(d, (enum tw_class_weights)o->class_weights, notes, why)
			   : st;
}

enum tw_status tw_data_open(const struct tw_source *source, const void *source_options,
			    const struct tw_data_options *o, const struct tw_source_site *site,
			    uint64_t seed, struct tw_data **out, struct tw_error *why)
{
	struct tw_data *d = NULL;
	enum tw_status st = tw_data_read(source, source_options, o, site, seed, &d, why);

	if (st != TW_OK)
		return st;
	st = hold_all(d, why);
	if (st == TW_OK)
		st = tw_data_prepare(d, o, (struct tw_warnings *)d->notes, why);
	if (st == TW_OK && !d->divided && tw_fingerprint(d, &d->fingerprint) != TW_OK)
		st = tw_data_keep_no_memory(why, "the fingerprint", sizeof d->fingerprint);
	if (st != TW_OK) {
		tw_data_close(d);
		return st;
	}
	*out = d;
	return TW_OK;
}
