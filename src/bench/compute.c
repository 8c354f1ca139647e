/* SPDX-License-Identifier: Apache-2.0 */
/* compute.c - a training step of nine networks, compared with PyTorch, one thread each, in turns.
 * */
#include "bench/baseline/torch_notes.h"
#include "bench/baseline/peak_flops.h"

#include <math.h>
#include <stdio.h>

#define ROUNDS     15
#define BLOCK      0.08 /* seconds of one side in one round */
#define PEAK_SHARE 0.70 /* of the machine's peak, that the first net's step should reach */

/* A recurrent layer of 256 over 64 positions of 64 features. */
static const char *const lstm[] = { "embedding 256 64", "lstm 256", "linear 256", NULL };
static const char *const gru[] = { "embedding 256 64", "gru 256", "linear 256", NULL };

static const struct {
	struct tw_net_step_facts net;
	double target; /* times PyTorch's speed */
} nets[] = {
	{ { "mlp", "mlp", "[512, 512]", { 1, { 784 } }, 64 }, 2.2 },
	{ { "mlp-small", "mlp", "[128]", { 1, { 784 } }, 32 }, 4.0 },
	{ { "mlp-large", "mlp", "[2048, 2048, 2048]", { 1, { 784 } }, 128 }, 1.35 },
	{ { "lenet", "lenet", NULL, { 3, { 1, 28, 28 } }, 64 }, 1.7 },
	{ { "resnet20", "resnet20", NULL, { 3, { 3, 32, 32 } }, 64 }, 1.3 },
	{ { "gpt", "gpt", NULL, { 1, { 64 } }, 12, true }, 1.2 },
	{ { "char-lstm", "char-lstm", NULL, { 1, { 64 } }, 32, true }, 1.4 },
	{ { "lstm", "lstm", NULL, { 1, { 64 } }, 32, true, lstm }, 1.4 },
	{ { "gru", "gru", NULL, { 1, { 64 } }, 32, true, gru }, 1.4 },
};

/* What was measured of one net: seconds per step, operations per second. */
struct measured {
	double ours[TW_BENCH_ROUNDS], theirs[TW_BENCH_ROUNDS], peak[TW_BENCH_ROUNDS];
	double rate[TW_BENCH_ROUNDS]; /* of ours */
	double best;                  /* of ours: rate of the quickest step */
	unsigned rounds;
	bool beside; /* theirs is there */
};

static double least(const double *x, size_t n)
{
	double best = x[0];

	for (size_t i = 1; i < n; i++)
		best = x[i] < best ? x[i] : best;
	return best;
}

static double most(const double *x, size_t n)
{
	double best = x[0];

	for (size_t i = 1; i < n; i++)
		best = x[i] > best ? x[i] : best;
	return best;
}

static unsigned steps_for(double block, double step)
{
	const double n = ceil(block / step);

	return n < 1.0 ? 1 : n > 1e6 ? 1000000 : (unsigned)n;
}

/* One side's first steps, which touch memory for the first time; then as many as a block takes. */
static enum tw_status warm_ours(struct tw_net_step *n, double block, unsigned *steps,
				struct tw_error *why)
{
	double s = 0.0;
	enum tw_status status = tw_net_steps(n, 2, &s, why);

	if (status == TW_OK && block > 0.0)
		status = tw_net_steps(n, steps_for(block, s), &s, why);
	*steps = steps_for(block, s);
	return status;
}

static enum tw_status warm_theirs(struct tw_torch *t, const char *net, double block,
				  unsigned *steps, struct tw_error *why)
{
	double s = 0.0;
	enum tw_status status = tw_torch_steps(t, net, 2, &s, why);

	if (status == TW_OK && block > 0.0)
		status = tw_torch_steps(t, net, steps_for(block, s), &s, why);
	*steps = steps_for(block, s);
	return status;
}

/* Both sides in turns.  Where PyTorch fails we go on alone, and *lost says why. */
static enum tw_status take_turns(const struct tw_bench_how *how, struct tw_net_step *n,
				 struct tw_torch *t, struct measured *m, struct tw_error *lost,
				 struct tw_error *why)
{
	const char *name = n->facts->name;
	const double block = how->block > 0.0 ? how->block : BLOCK;
	const double products = tw_program_products(n->program);
	unsigned ours, theirs = 1;
	enum tw_status status = warm_ours(n, block, &ours, why);

	m->rounds = how->rounds ? how->rounds : ROUNDS;
	m->beside = t->child.pid &&
		    tw_torch_notes_make(t, n->facts, n->graph->trainable, lost) == TW_OK &&
		    warm_theirs(t, name, block, &theirs, lost) == TW_OK;
	for (unsigned i = 0; i < m->rounds && status == TW_OK; i++) {
		m->peak[i] = tw_peak_now();
		status = tw_net_steps(n, ours, &m->ours[i], why);
		m->rate[i] = products / m->ours[i];
		m->beside =
			m->beside && tw_torch_steps(t, name, theirs, &m->theirs[i], lost) == TW_OK;
	}
	m->best = n->best > 0.0 ? products / n->best : 0.0;
	return status;
}

static enum tw_status add_note(const struct tw_bench_how *how, const char *name, struct measured *m,
			       double share, struct tw_error *why)
{
	char theirs[100] = "";

	if (m->beside)
		snprintf(theirs, sizeof theirs, ", PyTorch %.4g ms (best %.4g)",
			 1e3 * tw_median(m->theirs, m->rounds), 1e3 * least(m->theirs, m->rounds));
	return tw_bench_note(how, why,
			     "%s: a step takes %.4g ms (best %.4g)%s; %.4g GFLOP/s, %.3f of the "
			     "peak",
			     name, 1e3 * tw_median(m->ours, m->rounds),
			     1e3 * least(m->ours, m->rounds), theirs,
			     1e-9 * tw_median(m->rate, m->rounds), share);
}

static json_t *details(struct measured *m, double share, double target)
{
	json_t *more = json_pack("{s:f, s:f, s:f, s:f, s:f, s:n, s:n}", "target", target, "step_ms",
				 1e3 * tw_median(m->ours, m->rounds), "step_ms_best",
				 1e3 * least(m->ours, m->rounds), "gflops",
				 1e-9 * tw_median(m->rate, m->rounds), "peak_share", share,
				 "torch_step_ms", "torch_step_ms_best");

	if (m->beside) {
		json_object_set_new(more, "torch_step_ms",
				    json_real(1e3 * tw_median(m->theirs, m->rounds)));
		json_object_set_new(more, "torch_step_ms_best",
				    json_real(1e3 * least(m->theirs, m->rounds)));
	}
	return more;
}

/* The paired figures first: a median sorts. */
static enum tw_status report(const struct tw_bench_how *how, size_t k, struct measured *m,
			     json_t *cases, struct tw_error *why)
{
	const double ratio = m->beside ? tw_paired(m->theirs, m->ours, m->rounds) : 0.0;
	const double share = tw_paired(m->rate, m->peak, m->rounds);
	/* what the step reaches when nobody disturbs it; not what it usually takes */
	const double best = m->best / most(m->peak, m->rounds);
	enum tw_status status;
	char name[60];

	snprintf(name, sizeof name, "compute-%s", nets[k].net.name);
	status = tw_bench_paired(cases, name, 1.0 / tw_median(m->ours, m->rounds), "steps/s",
				 m->beside ? 1.0 / tw_median(m->theirs, m->rounds) : 0.0, ratio,
				 details(m, share, nets[k].target), why);
	if (status == TW_OK && k == 0)
		status = tw_bench_case(cases, "compute-mlp-peak", share, "of the peak", PEAK_SHARE,
				       why);
	if (status == TW_OK && k == 0)
		status = tw_bench_case(cases, "compute-mlp-peak-best", best, "of the peak",
				       PEAK_SHARE, why);
	if (status == TW_OK && k == 0)
		status = tw_bench_note(how, why,
				       "compute-mlp-peak: median over the rounds; -best: the "
				       "quickest single step against the best burst, the least "
				       "disturbed of both");
	return status == TW_OK ? add_note(how, name, m, share, why) : status;
}

static enum tw_status measure(const struct tw_bench_how *how, size_t k, struct tw_torch *t,
			      json_t *cases, double *cpu, double *wall, struct tw_error *why)
{
	struct tw_error lost = { .status = TW_OK };
	struct measured m = { .rounds = 0 };
	struct tw_net_step net;
	enum tw_status status = tw_net_step_open(&net, &nets[k].net, why);

	tw_log_line(how->log, TW_DEBUG, "bench", "compute: %s", nets[k].net.name);
	if (status == TW_OK)
		status = take_turns(how, &net, t, &m, &lost, why);
	*cpu += net.cpu;
	*wall += net.wall;
	tw_net_step_close(&net);
	if (status == TW_OK)
		status = report(how, k, &m, cases, why);
	if (status == TW_OK && lost.status != TW_OK)
		status = tw_torch_notes_lost(how, t, &lost, why);
	return status;
}

static enum tw_status say_how(const struct tw_bench_how *how, const struct tw_torch *t,
			      struct tw_error *why)
{
	const double peak = tw_peak_now();
	enum tw_status status;

	if (json_object_set_new(how->facts, "peak_gflops", json_real(1e-9 * peak)))
		return tw_fail(why, TW_NO_MEMORY, "no memory for the facts");
	status = tw_bench_note(how, why,
			       "one core's peak: %.4g GFLOP/s, by multiply-adds in "
			       "registers, measured again in every round",
			       1e-9 * peak);
	if (status == TW_OK && t->child.pid)
		status = tw_bench_note(how, why,
				       "compute's ratio is the median over the rounds of PyTorch's "
				       "time per step divided by ours in the same round, one "
				       "thread each");
	return status;
}

static enum tw_status compute(const struct tw_bench_how *how, json_t *cases, struct tw_error *why)
{
	struct tw_torch torch;
	double cpu = 0.0, wall = 0.0;
	enum tw_status status = tw_torch_notes_open(how, &torch, why);

	if (status == TW_OK)
		status = say_how(how, &torch, why);
	for (size_t k = 0; k < sizeof nets / sizeof nets[0] && status == TW_OK; k++)
		status = measure(how, k, &torch, cases, &cpu, &wall, why);
	tw_torch_stop(&torch);
	return status == TW_OK ? tw_bench_share(how, cases, "compute", cpu / wall, why) : status;
}

const struct tw_bench tw_bench_compute = {
	.name = "compute",
	.help = "a training step of nine networks, compared with PyTorch",
	.run = compute,
};
