/* SPDX-License-Identifier: Apache-2.0 */
/* prometheus.c - a strict reader of Prometheus' text format, for what gauges say. */
#include "job/prometheus.h"

#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct prometheus prometheus;

static bool is_name(const char *s, size_t n)
{
	if (!n || isdigit((unsigned char)s[0]))
		return false;
	for (size_t k = 0; k < n; k++)
		if (!isalnum((unsigned char)s[k]) && s[k] != '_' && s[k] != ':')
			return false;
	return true;
}

/* Past name="value",...}; a quote, a backslash or a newline in a value must be escaped. */
static const char *labels(const char *at, char *out, size_t room)
{
	const char *const from = at;

	while (*at != '}') {
		const size_t n = strcspn(at, "=");

		assert_true(is_name(at, n));
		at += n;
		assert_true(strncmp(at, "=\"", 2) == 0);
		for (at += 2; *at != '"'; at++) {
			assert_true(*at && *at != '\n');
			if (*at == '\\' && !strchr("\\\"n", *++at))
				fail_msg("a bad escape: \\%c", *at);
		}
		at++;
		assert_true(*at == ',' || *at == '}');
		at += *at == ',';
	}
	assert_true((size_t)(at - from) < room);
	memcpy(out, from, (size_t)(at - from));
	out[at - from] = 0;
	return at + 1;
}

static double value(const char *at)
{
	char *end;
	double x;

	if (strcmp(at, "NaN") == 0)
		return NAN;
	if (strcmp(at, "+Inf") == 0 || strcmp(at, "-Inf") == 0)
		return at[0] == '+' ? INFINITY : -INFINITY;
	assert_true(isdigit((unsigned char)at[0]) || at[0] == '-');
	x = strtod(at, &end);
	if (*end)
		fail_msg("not a number: %s", at);
	return x;
}

/* Does a sample of this name belong to the family that was announced? */
static bool of_family(const char *name)
{
	static const char *const tail[] = { "_bucket", "_sum", "_count" };
	const size_t n = strlen(prometheus.family);

	if (strcmp(prometheus.type, "histogram") != 0)
		return strcmp(name, prometheus.family) == 0;
	for (int k = 0; k < 3; k++)
		if (strncmp(name, prometheus.family, n) == 0 && strcmp(name + n, tail[k]) == 0)
			return true;
	return false;
}

static void sample_line(const char *line)
{
	struct sample *s = &prometheus.sample[prometheus.samples];
	const size_t n = strcspn(line, "{ ");
	const char *at = line + n;

	assert_true(prometheus.samples < SAMPLES && is_name(line, n) && n < sizeof s->name);
	memcpy(s->name, line, n);
	s->name[n] = s->labels[0] = 0;
	if (!of_family(s->name))
		fail_msg("%s comes in the family %s", s->name, prometheus.family);
	if (*at == '{')
		at = labels(at + 1, s->labels, sizeof s->labels);
	assert_true(*at == ' ');
	s->value = value(at + 1);
	for (size_t k = 0; k < prometheus.samples; k++)
		if (strcmp(prometheus.sample[k].name, s->name) == 0 &&
		    strcmp(prometheus.sample[k].labels, s->labels) == 0)
			fail_msg("twice: %s{%s}", s->name, s->labels);
	prometheus.samples++;
}

/* # HELP name words, then at once # TYPE name type; each name once. */
static void comment_line(const char *line)
{
	static char seen[100][80];
	static size_t families;
	char name[80], type[20];

	if (prometheus.family[0] == 0)
		families = 0;
	if (sscanf(line, "# HELP %79s %19s", name, type) == 2) {
		for (size_t k = 0; k < families; k++)
			assert_string_not_equal(seen[k], name);
		strcpy(seen[families++], name);
		strcpy(prometheus.family, name);
		prometheus.type[0] = 0;
		return;
	}
	assert_int_equal(sscanf(line, "# TYPE %79s %19s", name, type), 2);
	assert_string_equal(name, prometheus.family);
	assert_true(prometheus.type[0] == 0);
	strcpy(prometheus.type, type);
	assert_true(!strcmp(type, "gauge") || !strcmp(type, "counter") ||
		    !strcmp(type, "histogram"));
	/* counters, and only they, are totals */
	assert_true(!strcmp(type, "counter") ==
		    (strlen(name) > 6 && !strcmp(name + strlen(name) - 6, "_total")));
}

double prometheus_of(const char *name, const char *with)
{
	for (size_t k = 0; k < prometheus.samples; k++)
		if (strcmp(prometheus.sample[k].name, name) == 0 &&
		    strcmp(prometheus.sample[k].labels, with) == 0)
			return prometheus.sample[k].value;
	fail_msg("there is no %s{%s}", name, with);
	return NAN;
}

bool prometheus_has(const char *name)
{
	for (size_t k = 0; k < prometheus.samples; k++)
		if (strcmp(prometheus.sample[k].name, name) == 0)
			return true;
	return false;
}

static void check_histogram(void)
{
	double last = 0, border = -1;
	bool whole = false;

	for (size_t k = 0; k < prometheus.samples; k++) {
		const struct sample *s = &prometheus.sample[k];
		char le[20];

		if (strcmp(s->name, "thalweg_staleness_bucket") != 0)
			continue;
		assert_int_equal(sscanf(s->labels, "le=\"%19[^\"]\"", le), 1);
		assert_true(value(le) > border && s->value >= last);
		border = value(le);
		last = s->value;
		whole = isinf(border);
	}
	assert_true(whole && last == prometheus_of("thalweg_staleness_count", ""));
}

void prometheus_read(struct tw_gauges *g)
{
	char *out = NULL, *line;
	size_t len = 0;

	assert_int_equal(tw_gauges_text(g, &out, &len), TW_OK);
	assert_int_equal(strlen(out), len);
	assert_true(len && out[len - 1] == '\n');
	prometheus.samples = 0;
	prometheus.family[0] = 0;
	line = out;
	for (char *end; (end = strchr(line, '\n')); line = end + 1) {
		*end = 0;
		if (line[0] == '#')
			comment_line(line);
		else
			sample_line(line);
	}
	tw_heap_system.put(&tw_heap_system, out);
	check_histogram();
	assert_true(prometheus_of("thalweg_up", "") == 1);
}
