/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.c - what goes to stderr: log lines, and one progress line where there is a terminal. */
#include "cli/terminal.h"

#include "base/printable.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define WIPE "\r\033[K"

static void put(const char *text)
{
	const size_t len = strlen(text);

	if (write(STDERR_FILENO, text, len) != (ssize_t)len)
		return; /* nobody is left to tell */
}

static void say(void *arg, enum tw_level level, const char *who, const char *line)
{
	struct tw_terminal *t = arg;

	pthread_mutex_lock(&t->lock);
	if (t->drawn)
		put(WIPE);
	tw_log_stderr(NULL, level, who, line);
	if (t->drawn)
		put(t->line);
	pthread_mutex_unlock(&t->lock);
}

void tw_terminal_init(struct tw_terminal *t, bool quiet, bool verbose)
{
	*t = (struct tw_terminal){
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.tty = isatty(STDERR_FILENO) == 1,
		.quiet = quiet,
	};
	t->log = (struct tw_log){
		.sink = say,
		.arg = t,
		.level = verbose ? TW_DEBUG
			 : quiet ? TW_ERROR
				 : TW_INFO,
	};
}

void tw_terminal_child(struct tw_terminal *t)
{
	t->quiet = true;
	t->line[0] = 0;
	t->drawn = t->tty; /* wipe what may be there; who drew it draws it again */
	if (t->log.level == TW_INFO)
		t->log.level = TW_WARNING;
}

void tw_terminal_clear(struct tw_terminal *t)
{
	pthread_mutex_lock(&t->lock);
	if (t->drawn)
		put(WIPE);
	t->drawn = false;
	pthread_mutex_unlock(&t->lock);
}

static void time_text(double seconds, char *out, size_t room)
{
	if (seconds < 100.0)
		snprintf(out, room, "%.0f s", seconds);
	else if (seconds < 6000.0)
		snprintf(out, room, "%.0f min", seconds / 60.0);
	else
		snprintf(out, room, "%.1f h", seconds / 3600.0);
}

void tw_terminal_text(const struct tw_progress *p, char *out, size_t room)
{
	const bool optimises = p->optimised.evaluations > 0;
	char left[32];
	size_t n = optimises ? (size_t)snprintf(out, room,
						"iteration %llu, %llu evaluations, gradient %.3g, "
						"step %.3g",
						(unsigned long long)p->optimised.iterations,
						(unsigned long long)p->optimised.evaluations,
						tw_unsigned_nan(p->optimised.gradient),
						tw_unsigned_nan(p->optimised.step))
			     : (size_t)snprintf(out, room, "epoch %.2f", p->epochs);

	if (n < room && p->positions && !optimises && p->epochs > 0.0)
		n += (size_t)snprintf(out + n, room - n, " (%.0f %%)",
				      100.0 * (double)p->dealt / (double)p->positions);
	if (n < room && isfinite(p->loss))
		n += (size_t)snprintf(out + n, room - n, ", loss %.4g", p->loss);
	if (n < room && p->accuracy >= 0.0)
		n += (size_t)snprintf(out + n, room - n, ", accuracy %.4f", p->accuracy);
	if (n < room && !optimises)
		n += (size_t)snprintf(out + n, room - n, ", staleness %.2f", p->staleness);
	if (n < room)
		n += (size_t)snprintf(out + n, room - n, ", %u worker%s", p->live,
				      p->live == 1 ? "" : "s");
	if (n < room && p->drift > 0.0)
		n += (size_t)snprintf(out + n, room - n, ", drift %.3g", p->drift);
	if (n < room && p->rate > 0.0) /* it takes a second look to know */
		n += (size_t)snprintf(out + n, room - n, ", %.4g samples/s", p->rate);
	if (n < room && p->left >= 0.0 && !optimises) {
		time_text(p->left, left, sizeof left);
		snprintf(out + n, room - n, ", %s left", left);
	}
}

static size_t columns(void)
{
	struct winsize w;

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 20 ? w.ws_col : 80;
}

/* Is it time to show progress again? */
static bool due(struct tw_terminal *t)
{
	const int64_t now = tw_clock();
	const bool first = t->spoke == 0;

	if (t->quiet || now - t->spoke < (t->tty ? TW_SECOND / 5 : 5 * TW_SECOND))
		return false;
	t->spoke = now;
	/* a run of a few seconds has nothing to say on its way */
	return t->tty || !first;
}

/* Show t->line. */
static void draw(struct tw_terminal *t)
{
	const size_t most = columns() - 1;

	if (!t->tty) {
		tw_log_line(&t->log, TW_INFO, "progress", "%s", t->line);
		return;
	}
	if (most < sizeof t->line)
		t->line[most] = 0;
	put(WIPE);
	put(t->line);
	t->drawn = true;
}

void tw_terminal_show(void *arg, const struct tw_progress *p)
{
	struct tw_terminal *t = arg;

	if (!due(t))
		return;
	if (t->tty)
		pthread_mutex_lock(&t->lock);
	tw_terminal_text(p, t->line, sizeof t->line);
	draw(t);
	if (t->tty)
		pthread_mutex_unlock(&t->lock);
}

void tw_terminal_line(struct tw_terminal *t, const char *text)
{
	if (!due(t))
		return;
	if (t->tty)
		pthread_mutex_lock(&t->lock);
	snprintf(t->line, sizeof t->line, "%s", text);
	draw(t);
	if (t->tty)
		pthread_mutex_unlock(&t->lock);
}

void tw_terminal_reading(void *arg, const char *file, const char *doing, uint64_t done,
			 uint64_t total)
{
	char text[200];

	snprintf(text, sizeof text, "%s %.120s: %.0f of %.0f MB (%.0f %%)", doing, file,
		 (double)done / 1e6, (double)total / 1e6,
		 total ? 100.0 * (double)done / (double)total : 0.0);
	tw_terminal_line(arg, text);
}
