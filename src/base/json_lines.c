/* SPDX-License-Identifier: Apache-2.0 */
/* json_lines.c - JSON lines: one compact object per line, for programs that read as we write. */
#include "base/json_lines.h"

#include "base/machine/regular_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

char *tw_json_line(const json_t *object)
{
	const size_t n = json_dumpb(object, NULL, 0, JSON_COMPACT);
	char *text = n ? malloc(n + 2) : NULL;

	if (!text)
		return NULL;
	if (json_dumpb(object, text, n, JSON_COMPACT) != n) {
		free(text);
		return NULL;
	}
	memcpy(text + n, "\n", 2);
	return text;
}

enum tw_status tw_json_lines_open(struct tw_json_lines *l, const char *path,
				  const struct tw_log *log, struct tw_error *why)
{
	*l = (struct tw_json_lines){ .file = tw_regular_stream(path, "a"),
				     .name = "--log",
				     .log = log };
	if (!l->file)
		return tw_fail(why, TW_BAD_INPUT,
			       "--log: %s cannot be written: %s; name a file in a directory that "
			       "is there, or " TW_STREAM_NAMES,
			       path, tw_cause(errno));
	return TW_OK;
}

static void failed(struct tw_json_lines *l)
{
	if (!l->failed && errno != EPIPE)
		tw_log_line(l->log, TW_WARNING, "run", "%s cannot be written%s: %s", l->name,
			    l->patient ? "" : " any more", strerror(errno));
	l->failed = true;
	if (!l->patient)
		tw_json_lines_close(l);
}

void tw_json_lines_put(struct tw_json_lines *l, const json_t *object)
{
	char *line = l->file && object ? tw_json_line(object) : NULL;

	if (line && (fputs(line, l->file) == EOF || fflush(l->file)))
		failed(l);
	free(line);
}

void tw_json_lines_close(struct tw_json_lines *l)
{
	if (l->file)
		fclose(l->file);
	l->file = NULL;
}
