/* SPDX-License-Identifier: Apache-2.0 */
/* rules.c - runs one rule over gradients from stdin, for torch_rules.py.
 *
 *	rules RULE N DECAY [OPTION=VALUE ...]
 *
 * stdin: N floats w, then for each update a float rate and N floats g; stdout: after each update
 * the N floats a worker would see. */
#include "base/arena.h"
#include "strategy/rule.h"
#include "vec/vec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void stop(const char *why)
{
	fprintf(stderr, "rules: %s\n", why);
	exit(2);
}

static void set(const struct tw_rule *rule, void *options, char *text, struct tw_arena *keep)
{
	char *value = strchr(text, '=');
	struct tw_error why = { TW_OK };

	if (!value || !rule->options)
		stop("options are NAME=VALUE");
	*value++ = '\0';

	const struct tw_option *row = tw_option_find(rule->options, text);

	if (!row || tw_option_set(row, options, value, keep, &why) != TW_OK)
		stop(row ? why.text : "no such option");
}

int main(int argc, char **argv)
{
	struct tw_arena keep;
	struct tw_error why = { TW_OK };

	if (argc < 4 || !tw_rule_find(argv[1]))
		stop("usage: rules RULE N DECAY [OPTION=VALUE ...]");
	tw_arena_init(&keep, &tw_heap_system);

	const struct tw_rule *rule = tw_rule_find(argv[1]);
	const float decay = strtof(argv[3], NULL);
	const size_t n = strtoul(argv[2], NULL, 10), bytes = n * sizeof(float);
	float *w = tw_arena_get(&keep, bytes), *g = tw_arena_get(&keep, bytes);
	float *view = tw_arena_get(&keep, bytes);
	void *options = tw_arena_get(&keep, rule->options_bytes + 1);
	struct tw_apply a = { .w = w,
			      .out = w,
			      .g = g,
			      .n = n,
			      .decay = rule->traits & TW_RULE_OWN_DECAY ? decay : 0,
			      .mine = tw_arena_get(&keep, bytes) };

	for (uint32_t k = 0; k < rule->arrays; k++)
		a.array[k] = tw_arena_get(&keep, bytes);
	if (rule->options && tw_option_defaults(rule->options, options, &keep, &why) != TW_OK)
		stop(why.text);
	for (int k = 4; k < argc; k++)
		set(rule, options, argv[k], &keep);
	if (fread(w, sizeof *w, n, stdin) != n)
		stop("w is missing");
	while (fread(&a.rate, sizeof a.rate, 1, stdin) == 1) {
		if (fread(g, sizeof *g, n, stdin) != n)
			stop("a gradient is cut short");
		a.count++;
		/* as a shard does it for rules that do not decay by themselves */
		if (decay > 0 && !(rule->traits & TW_RULE_OWN_DECAY))
			tw_vec_axpy(g, decay, w, n);
		rule->apply(options, &a);
		a.before = a.rate;
		if (tw_rule_shows(rule, options))
			rule->view(options, &a, view);
		if (fwrite(tw_rule_shows(rule, options) ? view : w, sizeof *w, n, stdout) != n)
			stop("cannot write");
	}
	tw_arena_release(&keep);
	return 0;
}
