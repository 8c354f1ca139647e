/* SPDX-License-Identifier: Apache-2.0 */
/* spawn.c - start the program as a user would, and look at what it says. */
#include "cli/spawn.h"
#include "base/machine/child.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#define PATIENCE 30 /* seconds for something to be said */

#define WORDS 40

static struct said last;
static FILE *files[2]; /* stdout, stderr of the child */

static FILE *input_file(const char *text)
{
	FILE *f = tmpfile();

	assert_non_null(f);
	if (text)
		fputs(text, f);
	rewind(f);
	return f;
}

static void set_variables(const char *words)
{
	char text[1000], *save = NULL;

	snprintf(text, sizeof text, "%s", words ? words : "");
	for (char *w = strtok_r(text, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
		char *equals = strchr(w, '=');

		*equals = 0;
		setenv(w, equals + 1, 1);
	}
}

static pid_t start(const char *input, const char *environment, char *line)
{
	const char *build = getenv("TW_BUILD");
	char program[1000], *words[WORDS + 2], *save = NULL;
	FILE *in = input_file(input);
	struct tw_child child;
	size_t n = 0;
	pid_t pid;

	assert_non_null(build); /* ctest sets it */
	snprintf(program, sizeof program, "%s/thalweg", build);
	words[n++] = program;
	for (char *w = strtok_r(line, " ", &save); w && n <= WORDS; w = strtok_r(NULL, " ", &save))
		words[n++] = w;
	words[n] = NULL;
	for (size_t i = 0; i < 2; i++) {
		files[i] = tmpfile();
		assert_non_null(files[i]);
	}
	pid = tw_child_fork(&child,
			    &(struct tw_child_how){ .fd = (int[]){ fileno(in), fileno(files[0]),
								   fileno(files[1]) } });
	assert_true(pid >= 0);
	if (pid == 0) {
		set_variables(environment);
		alarm(600); /* whatever hangs ends by SIGALRM and fails its test */
		execv(program, words);
		_exit(127);
	}
	fclose(in);
	return pid;
}

static char *slurp(FILE *f)
{
	char *text;
	long size;

	fseek(f, 0, SEEK_END);
	size = ftell(f);
	rewind(f);
	text = malloc((size_t)size + 1);
	assert_non_null(text);
	assert_int_equal(fread(text, 1, (size_t)size, f), size);
	text[size] = 0;
	fclose(f);
	return text;
}

void said_free(struct said *s)
{
	free(s->out);
	free(s->err);
	*s = (struct said){ 0 };
}

void pause_ms(long ms)
{
	nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

void await_line(const struct running *r, const char *before, char *out, size_t room)
{
	char *err = NULL, *at, *end;

	for (int left = PATIENCE * 50; left; left--) {
		free(err);
		err = thalweg_err(r);
		at = strstr(err, before);
		end = at ? strchr(at, '\n') : NULL;
		if (end) {
			*end = 0;
			snprintf(out, room, "%s", at + strlen(before));
			free(err);
			return;
		}
		pause_ms(20);
	}
	print_error("nothing like '%s' was said: %s\n", before, err);
	free(err);
	kill(r->pid, SIGKILL);
	fail();
}

void thalweg_end(struct running *r, struct said *out)
{
	struct tw_child child = { .pid = r->pid };

	assert_true(tw_child_wait(&child, INFINITY));
	assert_int_not_equal(child.code, -1);
	out->out = slurp(r->files[0]);
	out->err = slurp(r->files[1]);
	out->code = child.signal ? -child.signal : child.code;
	assert_int_not_equal(out->code, 127);
}

const struct said *thalweg_finish(pid_t child)
{
	struct running r = { .pid = child, .files = { files[0], files[1] } };

	said_free(&last);
	thalweg_end(&r, &last);
	return &last;
}

void thalweg_begin(struct running *r, const char *environment, const char *format, ...)
{
	char line[2000];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	r->pid = start(NULL, environment, line);
	r->files[0] = files[0];
	r->files[1] = files[1];
}

/* Not through stdio: the child writes where the file's position is. */
char *thalweg_err(const struct running *r)
{
	const size_t room = 1 << 18;
	char *text = malloc(room);
	ssize_t n;

	assert_non_null(text);
	n = pread(fileno(r->files[1]), text, room - 1, 0);
	assert_true(n >= 0);
	text[n] = 0;
	return text;
}

const struct said *thalweg(const char *input, const char *format, ...)
{
	char line[2000];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	return thalweg_finish(start(input, NULL, line));
}

pid_t thalweg_start(const char *format, ...)
{
	char line[2000];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	return start(NULL, NULL, line);
}

json_t *object_of(const struct said *s)
{
	json_error_t why;
	json_t *o = json_loads(s->out, JSON_REJECT_DUPLICATES, &why);

	if (!json_is_object(o))
		print_error("not one JSON object (%s): %s\nstderr: %s\n", why.text, s->out, s->err);
	assert_true(json_is_object(o));
	return o;
}

void expect(const struct said *s, int code)
{
	if (s->code != code)
		print_error("exit code %d, stderr: %s\n", s->code, s->err);
	assert_int_equal(s->code, code);
}

const char *put_job(const char *text)
{
	static char path[300];

	put_text("job.yaml", text);
	snprintf(path, sizeof path, "%s", path_of("job.yaml"));
	return path;
}

char *digest_of(const struct said *s)
{
	json_t *r = object_of(s);
	char *text = strdup(text_of(r, "parameters_digest"));

	json_decref(r);
	return text;
}

char *digest_after(const char *format, const char *a, const char *b)
{
	char command[900];
	const struct said *s;

	snprintf(command, sizeof command, format, a, b);
	s = thalweg(NULL, "%s --json -q", command);
	expect(s, 0);
	return digest_of(s);
}

void same_digest(char *a, char *b)
{
	assert_string_equal(a, b);
	free(a);
	free(b);
}

char *path_kept(const char *name)
{
	char *copy = strdup(path_of(name));

	assert_non_null(copy);
	return copy;
}

void thalweg_refuses(const char *environment, const char *why, const char *command)
{
	struct running r;
	struct said said;

	thalweg_begin(&r, environment, "%s", command);
	thalweg_end(&r, &said);
	expect(&said, 2);
	has(said.err, why);
	assert_string_equal(said.out, "");
	said_free(&said);
}
