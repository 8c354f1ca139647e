/* SPDX-License-Identifier: Apache-2.0 */
/* test_lying_cell.c - a cell of a worker says to the others what cannot be: it is removed, and the
 * run goes on without it. */
#include "job/meddler.h"
#include "job/pipes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define NEVER UINT64_MAX

/* --- the lies ----------------------------------------------------------------------------- */

enum lie {
	/* what the hearer finds out at once */
	SHORT,
	LONG,
	EMPTY,
	NO_SAMPLES,
	MANY_SAMPLES,
	OTHER_COUNT,
	NEXT_MICRO,
	PAST_MICRO,
	FAR_MICRO,
	OTHER_STREAM,
	ODD_WEIGHT,
	OTHER_STAGE,
	TO_ANOTHER_CELL,
	CLOSED_MORE,
	FOUND_OUT, /* what comes after is harmless, or is noticed because nothing goes on */
	SEEN_MORE = FOUND_OUT,
	HEARD_MORE,
	SAID_TWICE,
	TO_ANOTHER_WORKER,
	AS_ANOTHER_WORKER,
	HARMLESS,
	SKIPPED_NUMBER = HARMLESS,
	OLD_NUMBER,
	OTHER_LIFE,
	OLD_GENERATION,
	LIES
};

static const char *const names[LIES] = {
	"a payload that is too short",
	"a payload that is too long",
	"no payload",
	"no samples",
	"too many samples",
	"another number of samples",
	"the next micro-batch",
	"a micro-batch of the past",
	"a micro-batch far ahead",
	"another stream",
	"a weight that is not finite",
	"another stage",
	"to another cell",
	"more contributions closed than there are",
	"it has what was never said",
	"it heard what was never said",
	"everything twice",
	"to a cell of another worker",
	"as another worker",
	"a number left out",
	"an old number",
	"another incarnation",
	"an old generation",
};

struct liar {
	enum lie lie;
	uint16_t type; /* ACT or GRAD */
	uint64_t after, said, told;
	const struct tw_plan *plan;
};

/* Words of their own, beside what it says. */
static bool says_more(struct liar *l, struct tw_context *ctx, struct tw_msg *m)
{
	const uint32_t cells = tw_plan_cells(l->plan);
	struct tw_msg *more = NULL;

	switch (l->lie) {
	case TO_ANOTHER_CELL: /* of three, the one that is not meant: both are neighbours of 1 */
		more = meddler_copy(ctx, m, m->h.payload);
		more->to.node = tw_plan_cell_node(l->plan, 0, m->h.type == TW_ACT ? 0 : 2);
		break;
	case TO_ANOTHER_WORKER:
		more = meddler_copy(ctx, m, m->h.payload);
		more->to.node = tw_plan_cell_node(l->plan, 1, m->h.type == TW_ACT ? 2 : 0);
		break;
	case AS_ANOTHER_WORKER:
		more = meddler_copy(ctx, m, m->h.payload);
		more->to.node = tw_plan_cell_node(l->plan, 1, m->h.type == TW_ACT ? 2 : 0);
		more->h.from = 1;
		more->h.incarnation = (m->h.incarnation & ~0xfffffu) |
				      ((m->h.incarnation & 0xfffff) == 1 ? 2 : 1);
		break;
	case CLOSED_MORE:
		more = meddler_copy(ctx, m, 0);
		more->to.node = tw_plan_cell_node(l->plan, 0, 0);
		more->h.type = TW_CLOSED;
		more->h.flags = 0;
		more->b.closed = (struct tw_body_closed){ .mark = NEVER, .cell = 1 };
		break;
	case HEARD_MORE:
		more = meddler_copy(ctx, m, 0);
		more->h.type = TW_HEARD;
		more->h.flags = 0;
		more->b.heard = (struct tw_body_heard){ .number = NEVER, .test = UINT32_MAX };
		break;
	case SAID_TWICE:
		more = meddler_copy(ctx, m, m->h.payload);
		break;
	default:
		return false;
	}
	assert_true(cells == 3);
	meddler_send(ctx, more);
	return true;
}

static void spoil_body(struct liar *l, struct tw_msg *m)
{
	const bool act = m->h.type == TW_ACT;
	uint64_t *micro = act ? &m->b.act.micro : &m->b.grad.micro;
	uint64_t *stream = act ? &m->b.act.stream : &m->b.grad.stream;
	uint64_t *seen = act ? &m->b.act.seen : &m->b.grad.seen;
	uint32_t *count = act ? &m->b.act.count : &m->b.grad.count;
	uint32_t *stage = act ? &m->b.act.stage : &m->b.grad.stage;

	switch (l->lie) {
	case NO_SAMPLES: /* of activations: the stream ends before what has come already */
		*count = 0;
		*micro = 0;
		break;
	case MANY_SAMPLES:
		*count = UINT32_MAX;
		break;
	case OTHER_COUNT:
		*count += 1;
		break;
	case NEXT_MICRO:
		*micro += 64;
		break;
	case PAST_MICRO:
		*micro -= 1;
		break;
	case FAR_MICRO:
		*micro = NEVER;
		break;
	case OTHER_STREAM:
		*stream += 1000;
		break;
	case ODD_WEIGHT:
		m->b.act.nominal = NAN;
		break;
	case OTHER_STAGE:
		*stage = 77;
		break;
	case SEEN_MORE:
		*seen = NEVER;
		break;
	case SKIPPED_NUMBER:
		m->h.seq++;
		break;
	case OLD_NUMBER:
		m->h.seq = 1;
		break;
	case OTHER_LIFE:
		m->h.incarnation--;
		break;
	case OLD_GENERATION:
		m->h.view = 0;
		break;
	default:
		break;
	}
}

static bool tell_lies(void *arg, struct tw_context *ctx, struct tw_msg *m)
{
	struct liar *l = arg;
	struct tw_msg *other;

	if (m->h.type != l->type || !m->payload || (l->type == TW_ACT && m->b.act.pin) ||
	    l->said++ < l->after)
		return false;
	l->told++;
	if (l->lie <= EMPTY) {
		other = meddler_copy(ctx, m,
				     l->lie == SHORT  ? m->h.payload - 4
				     : l->lie == LONG ? m->h.payload + 64
						      : 0);
		ctx->world->msg_free(ctx, m);
		meddler_send(ctx, other);
		return true;
	}
	if (!says_more(l, ctx, m))
		spoil_body(l, m);
	meddler_send(ctx, m);
	return true;
}

/* --- the runs ----------------------------------------------------------------------------- */

static uint32_t removed, ended;

static void listen(void *arg, enum tw_level level, const char *who, const char *text)
{
	(void)arg, (void)level, (void)who;
	removed += strstr(text, "worker 0.1 is removed: it said to worker 0.") != NULL;
	ended += strstr(text, "another cell got from it what cannot be") != NULL;
}

static struct pipe_run *open_run(const char *strategy, uint32_t workers, uint32_t seed)
{
	static const struct tw_log log = { .sink = listen, .level = TW_INFO };
	struct pipe_run *r =
		pipe_open(TW_WORLD_SIM,
			  "model: {quadratic: {dimension: 12, noise: 0.1, stages: 3}}\n"
			  "data: {source: none, samples: 24, batch: 1, accumulate: 2}\n"
			  "train: {epochs: 2, seed: %u, evaluate: 1}\nupdate: {rate: 0.01}\n"
			  "cluster: {workers: %u, min: 1, stages: 3, servers: 1, stuck: 30s, "
			  "wait: 60s}\nstrategy: {%s}\n"
			  "sim: {compute: {law: exponential, mean: 300ms}, latency: 5ms}\n",
			  seed, workers, strategy);

	r->t.log = &log;
	return r;
}

/* NULL: the others went on, and the samples are all in. */
static const char *harmed(const struct pipe_run *r, bool exact)
{
	const struct tw_totals *t = &r->ran.totals;

	if (r->status != TW_OK)
		return r->ran.error.text;
	if (exact ? t->applied != 48 || t->repeated : t->applied < 48)
		return "samples are not counted as they should be";
	for (size_t k = 0; k < r->floats; k++)
		if (!isfinite(r->vector[k]))
			return "the parameters are not finite";
	return NULL;
}

static void lie(const char *strategy, enum lie what, uint16_t type, uint64_t after, uint32_t seed)
{
	struct pipe_run *r = open_run(strategy, 2, seed);
	struct liar liar = { .lie = what, .type = type, .after = after, .plan = &r->t.job->plan };
	const struct meddler how = { .send = tell_lies, .arg = &liar };
	const char *wrong;

	removed = ended = 0;
	meddle(&r->t, 0, 1, &how);
	pipe_go(r);
	wrong = harmed(r, strstr(strategy, "bsp") != NULL);
	if (!wrong && !liar.told)
		wrong = "it has told no lie";
	if (!wrong && what < FOUND_OUT && (removed != 1 || ended != 1))
		wrong = "the liar is not removed with a sentence";
	if (!wrong && what >= FOUND_OUT && what < HARMLESS && removed)
		wrong = "what is harmless is held against it";
	if (wrong)
		fail_msg("%s, seed %u, %s: %s, after %llu: %s (removed %u, told %llu)", strategy,
			 seed, type == TW_ACT ? "activations" : "gradients", names[what],
			 (unsigned long long)after, wrong, removed, (unsigned long long)liar.told);
	pipe_free(r);
}

static void liars_are_removed(void **state)
{
	static const char *const strategies[] = { "gate: bsp, pipeline: gpipe",
						  "gate: bsp, pipeline: 1f1b-flush",
						  "gate: async, pipeline: pipedream" };

	(void)state;
	for (size_t s = 0; s < sizeof strategies / sizeof strategies[0]; s++)
		for (enum lie k = SHORT; k < LIES; k++)
			for (uint32_t seed = 1; seed <= 3; seed++) {
				lie(strategies[s], k, TW_ACT, 2 * seed - 1, seed);
				if (k != ODD_WEIGHT) /* gradients have none */
					lie(strategies[s], k, TW_GRAD, 2 * seed - 1, seed);
			}
}

/* Nobody takes the place of the only worker's cell: the run ends by itself. */
static void alone_it_ends(void **state)
{
	struct pipe_run *r = open_run("gate: bsp, pipeline: gpipe", 1, 1);
	struct liar liar = { .lie = SHORT, .type = TW_ACT, .plan = &r->t.job->plan };
	const struct meddler how = { .send = tell_lies, .arg = &liar };

	(void)state;
	removed = ended = 0;
	meddle(&r->t, 0, 1, &how);
	pipe_go(r);
	assert_int_equal(r->status, TW_INTERRUPTED);
	assert_int_equal(removed, 1);
	assert_int_equal(ended, 1);
	assert_true(liar.told <= 2);
	pipe_free(r);
}

/* --- values ------------------------------------------------------------------------------- */

struct values {
	float x;
	uint64_t told;
};

static bool spoil_values(void *arg, struct tw_context *ctx, struct tw_msg *m)
{
	struct values *v = arg;
	struct tw_msg *other;

	if ((m->h.type != TW_ACT && m->h.type != TW_GRAD) || !m->payload ||
	    (m->h.type == TW_ACT && m->b.act.pin))
		return false;
	v->told++;
	other = meddler_copy(ctx, m, m->h.payload);
	for (size_t k = 0; k + 4 <= m->h.payload; k += 4)
		memcpy(other->payload->data + k, &v->x, 4);
	ctx->world->msg_free(ctx, m);
	meddler_send(ctx, other);
	return true;
}

/* What is not finite reaches no parameter: shards refuse it. */
static void what_is_not_finite_reaches_nobody(void **state)
{
	static const float bad[] = { NAN, INFINITY, -INFINITY };

	(void)state;
	for (size_t k = 0; k < 3; k++) {
		struct pipe_run *r = open_run("gate: async, pipeline: pipedream", 2, 1);
		struct values v = { .x = bad[k] };
		const struct meddler how = { .send = spoil_values, .arg = &v };

		meddle(&r->t, 0, 1, &how);
		pipe_go(r);
		assert_int_equal(r->status, TW_OK);
		for (size_t i = 0; i < r->floats; i++)
			assert_true(isfinite(r->vector[i]));
		/* a gate without rounds drops what it refuses */
		assert_true(v.told > 0 && r->ran.totals.refused > 0);
		assert_true(r->ran.totals.applied + 2.0 * (double)r->ran.totals.refused >= 48);
		pipe_free(r);
	}
}

/* Finite values are believed: the run ends well, with another model. */
static void finite_values_are_believed(void **state)
{
	struct pipe_run *honest = open_run("gate: bsp, pipeline: gpipe", 2, 1);
	struct pipe_run *r = open_run("gate: bsp, pipeline: gpipe", 2, 1);
	struct values v = { .x = 3.0f };
	const struct meddler how = { .send = spoil_values, .arg = &v };

	(void)state;
	removed = 0;
	pipe_go(honest);
	meddle(&r->t, 0, 1, &how);
	pipe_go(r);
	assert_null(harmed(r, true));
	assert_int_equal(removed, 0);
	assert_true(memcmp(honest->vector, r->vector, r->floats * sizeof(float)) != 0);
	pipe_free(honest);
	pipe_free(r);
}

/* A cell that accuses another one is believed. */
static bool accuse(void *arg, struct tw_context *ctx, struct tw_msg *m)
{
	uint32_t *told = arg;
	struct tw_msg *word;

	if (m->h.type != TW_GRAD || (*told)++ != 3)
		return false;
	word = meddler_copy(ctx, m, 0);
	word->to = tw_master_addr();
	word->h.type = TW_REFUSE;
	word->h.flags = 0;
	word->b.refuse = (struct tw_body_refuse){ .why = TW_REFUSED_LIES, .slot = 1 };
	meddler_send(ctx, word);
	return false;
}

static void accusations_are_believed(void **state)
{
	struct pipe_run *r = open_run("gate: bsp, pipeline: gpipe", 2, 1);
	uint32_t told = 0;
	const struct meddler how = { .send = accuse, .arg = &told };

	(void)state;
	removed = ended = 0;
	meddle(&r->t, 0, 2, &how);
	pipe_go(r);
	assert_null(harmed(r, true));
	assert_int_equal(removed, 1);
	assert_int_equal(ended, 1);
	pipe_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(liars_are_removed),
		cmocka_unit_test(alone_it_ends),
		cmocka_unit_test(what_is_not_finite_reaches_nobody),
		cmocka_unit_test(finite_values_are_believed),
		cmocka_unit_test(accusations_are_believed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
