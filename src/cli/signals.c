/* SPDX-License-Identifier: Apache-2.0 */
/* signals.c - SIGINT, SIGTERM and SIGHUP: the first checkpoints and stops, the second stops at
 * once.
 *
 * A terminal that closes may send SIGHUP twice, once from the shell and once from the kernel: a
 * SIGHUP never counts as the second signal. */
#include "cli/signals.h"

#include "cli/verb.h"

#include <limits.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* A signal handler has no argument: these are the process's, as signals are. */
static _Atomic int signals;
static _Atomic int limit;
static _Atomic bool hurry;
static const char *_Atomic early = "thalweg: interrupted before it had begun\n";

static void received(int number)
{
	if (number == SIGHUP && atomic_load(&signals) > 0)
		return;
	if (atomic_fetch_add(&signals, 1) + 1 >= atomic_load(&limit))
		_exit(TW_EXIT_SIGNAL + number);
	if (atomic_load(&hurry))
		alarm(1);
}

static _Noreturn void stop(const char *said)
{
	if (write(STDERR_FILENO, said, strlen(said)) < 0)
		_exit(TW_EXIT_INTERRUPTED); /* nobody is left to tell */
	_exit(TW_EXIT_INTERRUPTED);
}

void tw_signals_stop(int number)
{
	(void)number;
	stop(atomic_load(&early));
}

void tw_signals_say(const char *sentence)
{
	atomic_store(&early, sentence);
}

static void late(int number)
{
	(void)number;
	if (atomic_load(&hurry))
		stop("thalweg: interrupted before it had joined\n");
}

static const int stopping[] = { SIGINT, SIGTERM, SIGHUP };

void tw_signals_early(bool on)
{
	struct sigaction action = { .sa_handler = on ? tw_signals_stop : SIG_DFL }, before;

	sigemptyset(&action.sa_mask);
	for (size_t k = 0; k < sizeof stopping / sizeof stopping[0]; k++)
		if (sigaction(stopping[k], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			sigaction(stopping[k], &action, NULL);
}

void tw_signals_hurry(bool on)
{
	struct sigaction action = { .sa_handler = on ? late : SIG_DFL, .sa_flags = SA_RESTART };

	atomic_store(&hurry, on);
	if (!on)
		alarm(0); /* before the handler goes */
	sigemptyset(&action.sa_mask);
	sigaction(SIGALRM, &action, NULL);
}

static void count(int number)
{
	struct sigaction action = { .sa_handler = received, .sa_flags = SA_RESTART }, before;

	/* nohup: if it was ignored before, it stays ignored */
	if (number == SIGHUP && sigaction(number, NULL, &before) == 0 &&
	    before.sa_handler == SIG_IGN)
		return;
	sigemptyset(&action.sa_mask);
	sigaction(number, &action, NULL);
}

const _Atomic int *tw_signals_count(bool patient)
{
	atomic_store(&limit, patient ? 2 : 1);
	count(SIGINT);
	count(SIGTERM);
	count(SIGHUP);
	return &signals;
}

const _Atomic int *tw_signals_count_all(void)
{
	atomic_store(&limit, INT_MAX);
	count(SIGINT);
	count(SIGTERM);
	count(SIGHUP);
	return &signals;
}

const _Atomic int *tw_signals_count_ranks(void)
{
	count(SIGUSR1);
	return tw_signals_count_all();
}

const _Atomic int *tw_signals_count_term(void)
{
	atomic_store(&limit, 2);
	count(SIGTERM);
	return &signals;
}
