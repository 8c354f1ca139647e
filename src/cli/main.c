/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the command line: find the verb, call it, leave with its code. */
#include "base/machine/isa.h"
#include "cli/args.h"
#include "cli/help.h"
#include "cli/signals.h"
#include "cli/terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static int call_verb(const struct tw_args *a, struct tw_terminal *terminal)
{
	const struct tw_call call = {
		.flags = a->flags,
		.word = a->word,
		.words = a->words,
		.terminal = terminal,
		.log = &terminal->log,
		.quiet = a->common.quiet,
	};

	struct tw_error why = { .status = TW_OK };

	if (tw_isa_check(&why) != TW_OK)
		return tw_exit_for(&call, &why);
	return a->verb->run(&call);
}

static int serve(const struct tw_args *a, struct tw_terminal *terminal)
{
	if (a->common.version) {
		puts("thalweg " TW_VERSION);
		return TW_EXIT_DONE;
	}
	if (a->common.help && a->verb) {
		tw_help_verb(stdout, a->verb);
		return TW_EXIT_DONE;
	}
	if (a->common.help) {
		tw_help_overview(stdout);
		return TW_EXIT_DONE;
	}
	if (!a->verb) {
		tw_log_line(&terminal->log, TW_ERROR, "",
			    "which verb? `thalweg --help` lists them");
		return TW_EXIT_WRONG;
	}
	return call_verb(a, terminal);
}

/* The exit code, once stdout has all there is.  Whoever stopped reading wants no more, and no
 * complaint. */
static int flush_result(struct tw_terminal *terminal, int code)
{
	if ((fflush(stdout) == 0 && !ferror(stdout)) || errno == EPIPE || code != TW_EXIT_DONE)
		return code;
	tw_log_line(&terminal->log, TW_ERROR, "", "the result cannot be written: %s",
		    strerror(errno));
	return TW_EXIT_FAILED;
}

int main(int argc, char **argv)
{
	struct tw_error why = { .status = TW_OK };
	struct tw_terminal terminal;
	struct tw_args args;
	enum tw_status status;
	int code;

	tw_signals_early(true);
	status = tw_args_parse(&args, argc, argv, &why);
	if (!args.verb || !args.verb->works)
		tw_signals_early(false);
	/* where work is done, a closed pipe is an error of a write; a full quota always is */
	signal(SIGPIPE, args.verb && args.verb->works ? SIG_IGN : SIG_DFL);
	signal(SIGXFSZ, SIG_IGN);
	tw_terminal_init(&terminal, args.common.quiet, args.common.verbose);
	if (status == TW_OK) {
		code = serve(&args, &terminal);
	} else {
		tw_log_line(&terminal.log, TW_ERROR, "", "%s", why.text);
		code = status == TW_BAD_INPUT ? TW_EXIT_WRONG : TW_EXIT_FAILED;
	}
	tw_args_release(&args);
	return flush_result(&terminal, code);
}
