/* SPDX-License-Identifier: Apache-2.0 */
/* prometheus.c - lines of Prometheus' text format in a text that grows. */
#include "metrics/prometheus.h"
#include "base/grow.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool reserve(struct tw_page *p, size_t more)
{
	if (!p->failed && !TW_GROW(p->heap, p->text, p->room, p->len, p->len + more + 1))
		p->failed = true;
	return !p->failed;
}

void tw_page_put(struct tw_page *p, const char *text)
{
	const size_t n = strlen(text);

	if (!reserve(p, n))
		return;
	memcpy(p->text + p->len, text, n + 1);
	p->len += n;
}

static void put_escaped(struct tw_page *p, const char *text)
{
	for (; *text; text++) {
		const char one[2] = { *text, 0 };

		tw_page_put(p, *text == '\\'   ? "\\\\"
			       : *text == '"'  ? "\\\""
			       : *text == '\n' ? "\\n"
					       : one);
	}
}

void tw_page_put_count(struct tw_page *p, uint64_t n)
{
	char text[24];

	snprintf(text, sizeof text, "%" PRIu64, n);
	tw_page_put(p, text);
}

void tw_page_put_number(struct tw_page *p, double x)
{
	char text[40];

	if (isnan(x) || isinf(x)) {
		tw_page_put(p, isnan(x) ? "NaN" : x > 0 ? "+Inf" : "-Inf");
		return;
	}
	snprintf(text, sizeof text, "%.9g", x);
	for (char *c = text; *c; c++)
		if (*c == ',') /* of somebody's locale */
			*c = '.';
	tw_page_put(p, text);
}

/* --- samples --------------------------------------------------------------------------------- */

void tw_page_head(struct tw_page *p, const char *name, const char *type, const char *help)
{
	tw_page_put(p, "# HELP ");
	tw_page_put(p, name);
	tw_page_put(p, " ");
	tw_page_put(p, help);
	tw_page_put(p, "\n# TYPE ");
	tw_page_put(p, name);
	tw_page_put(p, " ");
	tw_page_put(p, type);
	tw_page_put(p, "\n");
}

void tw_page_counter(struct tw_page *p, const char *name, const char *help, uint64_t n)
{
	tw_page_head(p, name, "counter", help);
	tw_page_put(p, name);
	tw_page_put(p, " ");
	tw_page_put_count(p, n);
	tw_page_put(p, "\n");
}

void tw_page_gauge(struct tw_page *p, const char *name, const char *help, bool known, double x)
{
	tw_page_head(p, name, "gauge", help);
	if (!known)
		return;
	tw_page_put(p, name);
	tw_page_put(p, " ");
	tw_page_put_number(p, x);
	tw_page_put(p, "\n");
}

static void labelled(struct tw_page *p, const char *name, const struct tw_label *label)
{
	tw_page_put(p, name);
	for (int k = 0; label[k].name; k++) {
		tw_page_put(p, k ? "," : "{");
		tw_page_put(p, label[k].name);
		tw_page_put(p, "=\"");
		put_escaped(p, label[k].value);
		tw_page_put(p, "\"");
	}
	tw_page_put(p, "} ");
}

void tw_page_labelled_number(struct tw_page *p, const char *name, const struct tw_label *label,
			     double x)
{
	labelled(p, name, label);
	tw_page_put_number(p, x);
	tw_page_put(p, "\n");
}

void tw_page_labelled_count(struct tw_page *p, const char *name, const struct tw_label *label,
			    uint64_t n)
{
	labelled(p, name, label);
	tw_page_put_count(p, n);
	tw_page_put(p, "\n");
}
