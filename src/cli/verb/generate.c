/* SPDX-License-Identifier: Apache-2.0 */
/* generate.c - thalweg generate PATH: a trained network goes on with a text. */
#include "cli/query_output.h"

#include "base/printable.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct generate_flags {
	const char *prompt;
	uint64_t length, seed;
	double temperature;
	uint32_t top_k;
	bool logits;
};

/* What was printed, and what waits for the rest of a character. */
struct printing {
	bool terminal, begun;
	int failed; /* why a write failed; 0: none did */
	char wait[8];
	size_t waits;
	uint32_t last;
};

/* How many bytes the character has that begins so; 1: it is one, or none. */
static size_t promised(unsigned char first)
{
	return first >= 0xf0 && first < 0xf8 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 1;
}

/* Bytes that a terminal would obey are shown as '?'; a character waits until it is whole. */
static void show(struct printing *p, char byte, bool end)
{
	if (!end)
		p->wait[p->waits++] = byte;
	while (p->waits) {
		const bool space = p->wait[0] == '\n' || p->wait[0] == '\t';
		const size_t n = space ? 1 : tw_harmless(p->wait, p->waits);

		if (!n && !end && promised((unsigned char)p->wait[0]) > p->waits)
			return;
		if (n)
			fwrite(p->wait, 1, n, stdout);
		else
			putchar('?');
		p->waits -= n ? n : 1;
		memmove(p->wait, p->wait + (n ? n : 1), p->waits);
	}
}

static bool emit(void *arg, uint32_t token, bool bytes)
{
	struct printing *p = arg;

	if (!bytes)
		printf("%s%u", p->begun ? " " : "", token);
	else if (p->terminal)
		show(p, (char)token, false);
	else
		putchar((int)token);
	p->begun = true;
	p->last = bytes ? token : 0;
	if (fflush(stdout) != 0 && !p->failed)
		p->failed = errno;
	return !p->failed;
}

/* Nine digits tell a float from all others. */
static void print_logits(void *arg, const float *y, uint32_t tokens)
{
	struct printing *p = arg;

	for (uint32_t k = 0; k < tokens; k++)
		printf("%.9g\n", (double)y[k]);
	if (fflush(stdout) != 0 && !p->failed)
		p->failed = errno;
}

static bool drop(void *arg, uint32_t token, bool bytes)
{
	return true;
}

static int generate(const struct tw_call *call)
{
	const struct generate_flags *f = call->flags;
	struct printing p = { .terminal = !f->logits && isatty(STDOUT_FILENO) };
	const struct tw_generate_request request = {
		.path = call->word[0],
		.words = { NULL, 0, (const char *const *)environ },
		.prompt = f->prompt,
		.length = f->length,
		.temperature = f->temperature,
		.top_k = f->top_k,
		.seed = f->seed,
		.emit = f->logits ? drop : emit,
		.logits = f->logits ? print_logits : NULL,
		.arg = &p,
		.log = call->log,
	};
	struct tw_error why = { .status = TW_OK };
	const enum tw_status st = tw_query_generate(&request, &why);

	if (p.terminal)
		show(&p, 0, true);
	if (p.begun && p.last != '\n' && !p.failed)
		putchar('\n');
	if (st != TW_OK)
		return tw_query_failed(call, &why);
	errno = p.failed; /* which main says */
	return TW_EXIT_DONE;
}

static const struct tw_flag flags[] = {
	TW_FLAG(struct generate_flags, prompt, "prompt", TW_TEXT, "\n", "TEXT", 0, 0,
		"the text to go on with; of a source of tokens, numbers with blanks between them"),
	TW_FLAG(struct generate_flags, length, "length", TW_U64, "500", "TOKENS", 1, 1000000000,
		"how many tokens to generate"),
	TW_FLAG(struct generate_flags, temperature, "temperature", TW_F64, "0.8", "NUMBER", 0, 100,
		"below 1: likely tokens become likelier; 0: always the likeliest"),
	TW_FLAG(struct generate_flags, top_k, "top-k", TW_U32, "40", "TOKENS", 0, 16777216,
		"draw from so many likeliest tokens; 0: from all"),
	TW_FLAG(struct generate_flags, seed, "seed", TW_U64, "1", "NUMBER", 0, 0,
		"random seed: the same one gives the same text"),
	TW_SWITCH(
		struct generate_flags, logits, "logits",
		"print no text: the network's output for each token that may follow the prompt, a "
		"line each; a softmax makes probabilities of them"),
	TW_FLAG_END,
};

static const struct tw_example examples[] = {
	{ "thalweg generate runs/gpt --prompt \"Call me \"", "500 bytes that might follow" },
	{ "thalweg generate gpt.safetensors --prompt \"The whale\" --temperature 0.5 --seed 7",
	  "from an exported file, more careful, and another draw" },
	{ "thalweg generate runs/gpt --temperature 0 --length 80 > out.txt",
	  "always the likeliest byte, to a file" },
	{ 0 },
};

const struct tw_verb tw_verb_generate = {
	.name = "generate",
	.words = "PATH",
	.help = "let a trained text model go on with a text",
	.about = "Prints the prompt and what a trained network puts behind it, token after token.\n"
		 "PATH is a run directory (its newest complete checkpoint), one checkpoint of it,\n"
		 "or a safetensors file that `thalweg export` wrote.  The network must have been\n"
		 "trained on a source of text or tokens, and look only at earlier tokens, as\n"
		 "`model: gpt` does.  It sees as many tokens as data.length says.  On a terminal,\n"
		 "bytes that are not printable UTF-8 are shown as ?.\n",
	.example = examples,
	.flags = flags,
	.flags_bytes = sizeof(struct generate_flags),
	.least = 1,
	.most = 1,
	.run = generate,
};
