/* SPDX-License-Identifier: Apache-2.0 */
/* report_write.c - puts a report into its directory: JSON, CSV and the page. */
#include "compare/report.h"

#include "base/machine/regular_file.h"
#include "checkpoint/files.h"
#include "compare/page.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In a page a script ends where "</script" stands, wherever that is. */
static void put_json(FILE *out, const char *text)
{
	for (; *text; text++)
		if (*text == '<')
			fputs("\\u003c", out);
		else
			fputc(*text, out);
}

enum tw_status tw_report_page(const json_t *report, FILE *out)
{
	char *text = tw_report_text(report);

	if (!text)
		return TW_NO_MEMORY;
	fputs(tw_report_head, out);
	fputs("<style>\n", out);
	fputs(tw_report_style, out);
	fputs("</style>\n", out);
	fputs(tw_report_body, out);
	fputs("<script type=\"application/json\" id=\"report\">", out);
	put_json(out, text);
	fputs("</script>\n<script>\n", out);
	fputs(tw_report_charts, out);
	fputs("</script>\n<script>\n", out);
	fputs(tw_report_script, out);
	fputs("</script>\n</body>\n</html>\n", out);
	free(text);
	return TW_OK;
}

/* --- files --- */

static enum tw_status put_file(int at, const char *name, const char *bytes, size_t n,
			       struct tw_error *why)
{
	if (bytes && tw_file_replace(at, name, bytes, n) == TW_OK)
		return TW_OK;
	return tw_fail(why,
		       !bytes                  ? TW_NO_MEMORY
		       : tw_not_regular(errno) ? TW_BAD_INPUT
					       : TW_IO,
		       "%s cannot be written: %s", name, bytes ? tw_cause(errno) : "no memory");
}

/* What `print` writes, as a file. */
static enum tw_status put_printed(int at, const char *name, const struct tw_compare_runs *r,
				  void (*print)(const struct tw_compare_runs *r, FILE *out),
				  struct tw_error *why)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);
	enum tw_status st;

	if (f)
		print(r, f);
	if (!f || fclose(f) != 0) {
		free(text);
		text = NULL;
	}
	st = put_file(at, name, text, bytes, why);
	free(text);
	return st;
}

static char *page_text(const json_t *report, size_t *bytes)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, bytes);
	bool good = f && tw_report_page(report, f) == TW_OK;

	if (f && fclose(f) != 0)
		good = false;
	if (good)
		return text;
	free(text);
	return NULL;
}

/* The report whose page is not too long: with fewer points where there are many runs. */
static enum tw_status make(const struct tw_compare_runs *r, const size_t *chosen, json_t **report,
			   char **page, size_t *bytes, struct tw_error *why)
{
	size_t points = tw_report_points(r->comparison);

	for (;;) {
		*report = tw_report_make(r, chosen, points);
		*page = *report ? page_text(*report, bytes) : NULL;
		if (!*page) {
			json_decref(*report);
			*report = NULL;
			return tw_fail(why, TW_NO_MEMORY, "no memory for the report");
		}
		if (*bytes <= TW_REPORT_BYTES || points <= 8)
			return TW_OK;
		free(*page);
		json_decref(*report);
		points /= 2;
	}
}

enum tw_status tw_report_write(const struct tw_compare_runs *r, const size_t *chosen,
			       const char *dir, json_t **report, struct tw_error *why)
{
	const int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char *page = NULL, *text = NULL;
	size_t bytes = 0;
	enum tw_status st;

	if (at < 0)
		return tw_fail(why, TW_IO, "%.300s: cannot be opened: %s", dir, strerror(errno));
	st = make(r, chosen, report, &page, &bytes, why);
	if (st == TW_OK) {
		text = tw_report_text(*report);
		st = put_file(at, "report.json", text, text ? strlen(text) : 0, why);
	}
	if (st == TW_OK)
		st = put_file(at, "report.html", page, bytes, why);
	if (st == TW_OK)
		st = put_printed(at, "report.csv", r, tw_report_runs_csv, why);
	if (st == TW_OK)
		st = put_printed(at, "curves.csv", r, tw_report_curves_csv, why);
	free(text);
	free(page);
	close(at);
	if (st != TW_OK) {
		json_decref(*report);
		*report = NULL;
	}
	return st;
}
