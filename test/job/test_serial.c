/* SPDX-License-Identifier: Apache-2.0 */
/* test_serial.c - every method against a serial loop of its formula, bit for bit in float32. */
#include "job/serial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A method: fields of a job, and what they should mean. */
struct method {
	const char *name, *strategy, *update, *other;
	uint32_t least; /* workers it needs */
	struct formula f;
};

#define SGD  .step = step_sgd
#define DANA .step = step_dana, .view = view_dana, .stamped = true, .momentum = 0.9f
#define FASGD                                                                                      \
	SGD, .correct = correct_fasgd, .statistic = true, .gamma = 0.9, .beta = 0.9,               \
	     .epsilon = 1e-4f

static const struct method methods[] = {
	{ "ssgd", "ssgd", "rate: 0.2", "", 1, { SGD, .rounds = true } },
	{ "ssgd, global batch", "ssgd", "rate: 0.2", "global", 1, { SGD, .rounds = true } },
	{ "ssgd, accumulate", "ssgd", "rate: 0.2", "accumulate", 1, { SGD, .rounds = true } },
	{ "ssgd, momentum",
	  "ssgd",
	  "rate: 0.1, rule: momentum, decay: 0.01",
	  "",
	  1,
	  { .step = step_momentum, .rounds = true, .momentum = 0.9f } },
	{ "ssgd, adam",
	  "ssgd",
	  "rate: 0.1, rule: adam",
	  "",
	  1,
	  { .step = step_adam,
	    .rounds = true,
	    .beta = 0.9,
	    .beta2 = 0.999,
	    .epsilon = 1e-8f,
	    .own_decay = true } },
	{ "ssgd, nag",
	  "ssgd",
	  "rate: 0.1, rule: nag",
	  "",
	  1,
	  { .step = step_momentum, .view = view_nag, .rounds = true, .momentum = 0.9f } },
	{ "backup, none", "{name: backup, extra: 0}", "rate: 0.2", "", 1, { SGD, .rounds = true } },
	{ "backup", "{name: backup, extra: 2}", "rate: 0.2", "", 3, { SGD, .rounds = true } },
	{ "backup, abandon",
	  "{name: backup, extra: 2, abandon: true}",
	  "rate: 0.2",
	  "",
	  3,
	  { SGD, .rounds = true } },
	{ "backup, abandon, accumulate",
	  "{name: backup, extra: 1, abandon: true}",
	  "rate: 0.2",
	  "accumulate",
	  2,
	  { SGD, .rounds = true } },
	{ "dc-ssgd",
	  "{name: dc-ssgd, lambda: 0.5}",
	  "rate: 0.2",
	  "",
	  1,
	  { SGD, .correct = correct_delay, .rounds = true, .in_turn = true, .lambda = 0.5f } },
	{ "dc-ssgd, decay",
	  "{name: dc-ssgd, lambda: 0.5}",
	  "rate: 0.2, decay: 0.1",
	  "",
	  1,
	  { SGD, .correct = correct_delay, .rounds = true, .in_turn = true, .lambda = 0.5f } },
	{ "asgd", "asgd", "rate: 0.05", "", 1, { SGD } },
	{ "asgd, warm", "asgd", "rate: 0.05", "warm", 2, { SGD } },
	{ "asgd, global batch", "asgd", "rate: 0.05", "global", 1, { SGD } },
	{ "asgd, accumulate", "asgd", "rate: 0.05", "accumulate", 1, { SGD } },
	{ "asgd, push 2", "{name: asgd, push: 2}", "rate: 0.05", "", 1, { SGD } },
	{ "asgd, push 2, accumulate",
	  "{name: asgd, push: 2}",
	  "rate: 0.05",
	  "accumulate",
	  1,
	  { SGD } },
	{ "asgd, clip and decay", "asgd", "rate: 0.05, clip: 0.8, decay: 0.01", "", 1, { SGD } },
	{ "asgd, step",
	  "asgd",
	  "rate: 0.1, schedule: {kind: step, at: [0.3, 1], factor: 0.5}",
	  "",
	  1,
	  { SGD } },
	{ "asgd, cosine",
	  "asgd",
	  "rate: 0.1, schedule: {kind: cosine, final: 0.01}",
	  "",
	  1,
	  { SGD } },
	{ "asgd, warm-up",
	  "asgd",
	  "rate: 0.1, schedule: {kind: linear, final: 0.1, warmup: 0.5, warmup_from: 0.2}",
	  "",
	  1,
	  { SGD } },
	{ "asgd, fp16",
	  "{name: asgd, codec: {up: fp16, down: fp16}}",
	  "rate: 0.05",
	  "",
	  1,
	  { SGD } },
	{ "asgd, bf16 up", "{name: asgd, codec: {up: bf16}}", "rate: 0.05", "", 1, { SGD } },
	{ "asgd, bf16 down", "{name: asgd, codec: {down: bf16}}", "rate: 0.05", "", 1, { SGD } },
	{ "asgd, momentum",
	  "asgd",
	  "rate: 0.02, rule: momentum, momentum: 0.5",
	  "",
	  1,
	  { .step = step_momentum, .momentum = 0.5f } },
	{ "asgd, adagrad",
	  "asgd",
	  "rate: 0.1, rule: adagrad",
	  "",
	  1,
	  { .step = step_adagrad, .epsilon = 1e-10f } },
	{ "asgd, rmsprop",
	  "asgd",
	  "rate: 0.02, rule: rmsprop",
	  "",
	  1,
	  { .step = step_rmsprop, .beta = 0.99, .epsilon = 1e-8f } },
	{ "asgd, adam",
	  "asgd",
	  "rate: 0.05, rule: adam",
	  "",
	  1,
	  { .step = step_adam, .beta = 0.9, .beta2 = 0.999, .epsilon = 1e-8f, .own_decay = true } },
	{ "asgd, adam, decay",
	  "asgd",
	  "rate: 0.05, rule: adam, decay: 0.1",
	  "",
	  1,
	  { .step = step_adam, .beta = 0.9, .beta2 = 0.999, .epsilon = 1e-8f } },
	{ "asgd, adamw",
	  "asgd",
	  "rate: 0.05, rule: adamw, decay: 0.1",
	  "",
	  1,
	  { .step = step_adam, .beta = 0.9, .beta2 = 0.999, .epsilon = 1e-8f, .own_decay = true } },
	{ "downpour", "downpour", "rate: 0.1", "", 1, { .step = step_adagrad, .epsilon = 1e-10f } },
	{ "downpour, push 3, fetch 2",
	  "{name: downpour, push: 3, fetch: 2}",
	  "rate: 0.1",
	  "",
	  1,
	  { .step = step_adagrad, .epsilon = 1e-10f } },
	{ "downpour, push 2, fetch 4",
	  "{name: downpour, push: 2, fetch: 4, local: {rate: 0.01}}",
	  "rate: 0.1",
	  "",
	  1,
	  { .step = step_adagrad, .epsilon = 1e-10f } },
	{ "downpour, keep",
	  "{name: downpour, push: 3, fetch: 2, merge: keep}",
	  "rate: 0.1",
	  "",
	  1,
	  { .step = step_adagrad, .epsilon = 1e-10f } },
	{ "softsync 1", "{name: softsync, collect: 1}", "rate: 0.1", "", 1, { SGD } },
	{ "softsync 3", "{name: softsync, collect: 3}", "rate: 0.1, decay: 0.02", "", 3, { SGD } },
	{ "softsync 8", "{name: softsync, collect: 8}", "rate: 0.1", "", 8, { SGD } },
	{ "softsync 3, accumulate",
	  "{name: softsync, collect: 3}",
	  "rate: 0.1",
	  "accumulate",
	  3,
	  { SGD } },
	{ "staleness-aware",
	  "staleness-aware",
	  "rate: 0.1",
	  "",
	  1,
	  { SGD, .correct = correct_inverse } },
	{ "rudra", "{name: rudra, n: 2}", "rate: 0.2", "", 2, { SGD, .correct = correct_inverse } },
	{ "ssp 0", "{name: ssp, lead: 0}", "rate: 0.05", "", 1, { SGD } },
	{ "ssp 3", "{name: ssp, lead: 3}", "rate: 0.05", "", 1, { SGD } },
	{ "fasgd", "fasgd", "rate: 0.02", "", 1, { FASGD } },
	{ "b-fasgd",
	  "{name: fasgd, skip: {push: 0.2, fetch: 0.5}}",
	  "rate: 0.02",
	  "",
	  1,
	  { FASGD } },
	{ "b-fasgd, push", "{name: fasgd, skip: {push: 1}}", "rate: 0.02", "", 1, { FASGD } },
	{ "dc-asgd",
	  "{name: dc-asgd, lambda: 0.5}",
	  "rate: 0.05, decay: 0.01",
	  "",
	  1,
	  { SGD, .correct = correct_delay, .lambda = 0.5f } },
	{ "dc-asgd, fp16",
	  "{name: dc-asgd, lambda: 0.5, codec: {up: bf16, down: fp16}}",
	  "rate: 0.05",
	  "",
	  1,
	  { SGD, .correct = correct_delay, .lambda = 0.5f } },
	{ "dc-asgd-a",
	  "dc-asgd-a",
	  "rate: 0.05",
	  "",
	  1,
	  { SGD, .correct = correct_adaptive, .lambda = 2.0f, .memory = 0.95 } },
	{ "gap-aware",
	  "gap-aware",
	  "rate: 0.02",
	  "",
	  1,
	  { .step = step_momentum,
	    .momentum = 0.9f,
	    .correct = correct_gap,
	    .observe = observe_gap,
	    .memory = 0.999,
	    .epsilon = 1e-8f } },
	{ "gap-aware, decay",
	  "gap-aware",
	  "rate: 0.02, decay: 0.1",
	  "",
	  1,
	  { .step = step_momentum,
	    .momentum = 0.9f,
	    .correct = correct_gap,
	    .observe = observe_gap,
	    .memory = 0.999,
	    .epsilon = 1e-8f } },
	{ "multi-asgd",
	  "multi-asgd",
	  "rate: 0.02",
	  "",
	  1,
	  { .step = step_multi, .momentum = 0.9f } },
	{ "nag-asgd",
	  "nag-asgd",
	  "rate: 0.02",
	  "",
	  1,
	  { .step = step_momentum, .view = view_nag, .momentum = 0.9f } },
	{ "nag-asgd, step",
	  "nag-asgd",
	  "rate: 0.02, schedule: {kind: step, at: [0.3], factor: 0.25}",
	  "",
	  1,
	  { .step = step_momentum, .view = view_nag, .momentum = 0.9f } },
	{ "dana", "dana", "rate: 0.02", "", 1, { DANA } },
	{ "dana, cosine", "dana", "rate: 0.02, schedule: {kind: cosine}", "", 1, { DANA } },
	{ "dana-slim",
	  "dana-slim",
	  "rate: 0.02",
	  "",
	  1,
	  { .step = step_minus, .prepare = prepare_slim, .momentum = 0.9f, .stamped = true } },
	{ "dana-slim, cosine",
	  "dana-slim",
	  "rate: 0.02, schedule: {kind: cosine}",
	  "",
	  1,
	  { .step = step_minus, .prepare = prepare_slim, .momentum = 0.9f, .stamped = true } },
	{ "dana-dc",
	  "{name: dana-dc, lambda: 0.5}",
	  "rate: 0.02",
	  "",
	  1,
	  { DANA, .correct = correct_delay, .lambda = 0.5f } },
};

static const char *const laws[] = {
	"{law: constant, mean: 100ms}",
	"{law: uniform, mean: 100ms, spread: 0.5}",
	"{law: log-normal, median: 100ms, sigma: 0.5}",
	"{law: exponential, mean: 100ms}",
	"{law: gamma, mean: 100ms, shape: 2}",
	"{law: pareto, mean: 100ms, shape: 3}",
};

static const char *const links[] = {
	"latency: 0s",
	"latency: 7ms, jitter: 5ms",
	"latency: 1ms, bandwidth: 100kbit/s, apply_rate: 2000",
};

static void try(const struct method *m, uint32_t workers, uint32_t shards, uint64_t seed,
		size_t law, size_t link, struct seen *seen)
{
	const bool global = !strcmp(m->other, "global");
	char text[2048], label[128];
	int len;

	len = snprintf(
		text, sizeof text,
		"model: {quadratic: {dimension: 37, curvature: [0.1, 1], noise: 0.3, "
		"spread: 0.5, target: 0.5, buffers: 5, tensors: 3}}\n"
		"data: {source: none, samples: 80, %s%s}\n"
		"train: {epochs: 1.55, seed: %llu%s}\n"
		"update: {%s}\n"
		"cluster: {workers: %u, shards: %u, servers: %u}\n"
		"strategy: %s\n"
		"sim: {compute: %s, %s, stragglers: {count: 1, slower: 3}, threads: 1}\n",
		global ? "global_batch: 11" : "batch: 3",
		!strcmp(m->other, "accumulate") ? ", accumulate: 2" : "", (unsigned long long)seed,
		!strcmp(m->other, "warm") ? ", warm: {workers: 1, for: 0.3 epochs}" : "", m->update,
		workers, shards, shards > 1 ? 2 : 1, m->strategy, laws[law], links[link]);
	assert_true(len > 0 && (size_t)len < sizeof text);
	snprintf(label, sizeof label, "%s, %u workers, %u shards, seed %llu", m->name, workers,
		 shards, (unsigned long long)seed);
	serial_agrees(label, text, &m->f, seen);
}

/* Laws, links and seeds take turns, so that each method meets each of them. */
static void every_method_is_its_formula(void **state)
{
	static const uint32_t workers[] = { 1, 3, 8 }, shards[] = { 1, 2, 7, 16 };
	uint64_t turn = 0;

	(void)state;
	for (size_t k = 0; k < COUNT(methods); k++) {
		const struct method *m = &methods[k];
		struct seen seen = { .runs = 0 };

		for (size_t w = 0; w < COUNT(workers); w++)
			for (size_t s = 0; s < COUNT(shards); s++)
				for (size_t link = 0; link < COUNT(links); link++, turn++)
					if (workers[w] >= m->least)
						try(m, workers[w], shards[s], 1 + turn,
						    turn % COUNT(laws), link, &seen);
		assert_true(seen.runs >= 12 && seen.updates > 5 * seen.runs && seen.small > 0);
		assert_int_equal(seen.stale > 0, !m->f.rounds);
		assert_int_equal(seen.skipped > 0, strncmp(m->name, "b-fasgd", 7) == 0);
		if (strstr(m->strategy, "extra: 2") || strstr(m->strategy, "abandon"))
			assert_true(seen.dropped > 0 || seen.given_up > 0);
		if (strstr(m->strategy, "abandon"))
			assert_true(seen.given_up > 0);
	}
}

/* A loop that forgets one thing must not agree: the comparison can fail. */
static void a_wrong_formula_is_noticed(void **state)
{
	static const struct formula right = { SGD, .correct = correct_delay, .lambda = 0.5f },
				    wrong = { SGD, .correct = correct_delay, .lambda = 0.25f };
	const char *text = "model: {quadratic: {dimension: 9, noise: 0.3}}\n"
			   "data: {source: none, samples: 64, batch: 2}\n"
			   "update: {rate: 0.1}\ncluster: {workers: 3}\n"
			   "strategy: {name: dc-asgd, lambda: 0.5}\n";
	const struct formula *const both[] = { &right, &wrong };

	(void)state;
	for (int k = 0; k < 2; k++) {
		struct outcome o;
		struct serial *z;
		float mine[9];

		outcome_open(&o, text, NULL, TW_WORLD_SIM);
		z = serial_new(&o, both[k]);
		outcome_run(&o, &(const struct watch){ .observer = serial_note,
						       .worker_hears = serial_hears,
						       .arg = z });
		serial_vector(z, mine);
		assert_null(serial_complaint(z));
		assert_int_equal(memcmp(mine, o.vector, sizeof mine) != 0, k);
		serial_free(z);
		outcome_close(&o);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_method_is_its_formula),
		cmocka_unit_test(a_wrong_formula_is_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
