/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c - writes the timeline of a run, event by event. */
#include "world/trace.h"

#include "base/machine/regular_file.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Microseconds with three decimals; a run that resumes begins before its time 0. */
#define PRIus      ".3f"
#define MICROS(ns) ((double)(ns) / 1e3)

enum tw_status tw_trace_check(const char *path, struct tw_error *why)
{
	FILE *f = tw_regular_stream(path, "a");

	if (!f)
		return tw_fail(why, TW_BAD_INPUT,
			       "--trace: %s cannot be written: %s; name a file in a directory "
			       "that is there, or " TW_STREAM_NAMES,
			       path, tw_cause(errno));
	fclose(f);
	return TW_OK;
}

enum tw_status tw_trace_open(struct trace *t, const char *path, struct tw_error *why)
{
	*t = (struct trace){ .path = path };
	if (!path)
		return TW_OK;
	t->file = tw_regular_stream(path, "w");
	if (!t->file)
		return tw_fail(why, TW_IO, "cannot write the trace to %s: %s", path,
			       tw_cause(errno));
	/* an empty object first, so that every later event can begin with a comma */
	fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
	      "{\"ph\":\"M\",\"name\":\"trace\",\"pid\":0,\"tid\":0,\"args\":{}}",
	      t->file);
	return TW_OK;
}

enum tw_status tw_trace_close(struct trace *t, struct tw_error *why)
{
	bool bad;

	if (!t->file)
		return TW_OK;
	fputs("\n]}\n", t->file);
	bad = ferror(t->file) != 0;
	bad |= fclose(t->file) != 0;
	t->file = NULL;
	return bad ? tw_fail(why, TW_IO, "the trace %s could not be written completely", t->path)
		   : TW_OK;
}

/* Threads of a process are numbered by role and index; 0 is the node itself. */
static uint32_t thread_of(struct tw_addr who)
{
	return 1 + who.role * 65536u + who.index;
}

void tw_trace_process(struct trace *t, uint32_t node, const char *name)
{
	if (t->file)
		fprintf(t->file,
			",\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"tid\":0,"
			"\"args\":{\"name\":\"%s\"}}",
			node, name);
}

void tw_trace_thread(struct trace *t, struct tw_addr who, const char *name)
{
	if (t->file)
		fprintf(t->file,
			",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%u,\"tid\":%u,"
			"\"args\":{\"name\":\"%s\"}}",
			who.node, thread_of(who), name);
}

static const char *const pass_names[] = {
	[TW_PASS_GRADIENT] = "gradient",
	[TW_PASS_FORWARD] = "forward",
	[TW_PASS_BACKWARD] = "backward",
	[TW_PASS_EVALUATE] = "evaluate",
};

void tw_trace_compute(struct trace *t, struct tw_addr who, const struct tw_compute *c,
		      int64_t began, int64_t ended)
{
	if (t->file)
		fprintf(t->file,
			",\n{\"ph\":\"X\",\"cat\":\"compute\",\"name\":\"%s\",\"pid\":%u,\"tid\":%"
			"u,"
			"\"ts\":%" PRIus ",\"dur\":%" PRIus ",\"args\":{\"from\":%" PRIu64
			",\"count\":%u,\"status\":\"%s\"}}",
			pass_names[c->pass.kind], who.node, thread_of(who), MICROS(began),
			MICROS(ended - began), c->in.from, c->in.count, tw_status_name(c->status));
}

static void trace_end(struct trace *t, const struct tw_msg *m, struct tw_addr who, const char *way,
		      int64_t at)
{
	fprintf(t->file,
		",\n{\"ph\":\"X\",\"cat\":\"message\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,"
		"\"ts\":%" PRIus ",\"dur\":0,\"bind_id\":\"0x%" PRIx64 "\",\"%s\":true,"
		"\"args\":{\"bytes\":%zu,\"seq\":%" PRIu64 ",\"shard\":%u}}",
		tw_type_name(m->h.type), who.node, thread_of(who), MICROS(at), t->arrows, way,
		tw_msg_bytes(m), m->h.seq, m->h.shard);
}

void tw_trace_message(struct trace *t, const struct tw_msg *m, int64_t sent, int64_t arrived)
{
	if (!t->file)
		return;
	t->arrows++;
	trace_end(t, m, m->from, "flow_out", sent);
	trace_end(t, m, m->to, "flow_in", arrived);
}

/* What the timeline shows of a note: the same numbers of all of them. */
struct shown {
	const char *name; /* NULL: nothing */
	uint64_t seq, from;
	uint32_t count;
};

static struct shown show(const struct tw_note *n)
{
	switch (n->kind) {
	case TW_NOTE_APPLY:
		return (struct shown){ "apply", n->seq, n->from, n->count };
	case TW_NOTE_COMMIT:
		return (struct shown){ "commit", .count = n->commit.contributions };
	case TW_NOTE_DROP:
		return (struct shown){ "drop", n->seq, n->from, n->count };
	case TW_NOTE_PINNED:
		return (struct shown){ "pinned", n->eval.pin };
	case TW_NOTE_EVAL:
		return (struct shown){ "evaluation", n->eval.pin, .count = n->eval.final };
	case TW_NOTE_CUT:
		return (struct shown){ "checkpoint", n->cut.number, n->cut.closed };
	case TW_NOTE_ROLLBACK:
		return (struct shown){ "rollback", n->cut.number, .count = n->cut.all };
	case TW_NOTE_VIEW:
		return (struct shown){ "view", n->view.number, .count = n->view.live };
	case TW_NOTE_HOSTED:
		return (struct shown){ "hosted", n->hosted.cut, n->hosted.from };
	default: /* steps and gradients are slices already, the others too many */
		return (struct shown){ NULL };
	}
}

void tw_trace_note(struct trace *t, struct tw_addr who, const struct tw_note *note, int64_t at)
{
	const struct shown s = t->file ? show(note) : (struct shown){ NULL };

	if (s.name)
		fprintf(t->file,
			",\n{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"note\",\"name\":\"%s\",\"pid\":%u,"
			"\"tid\":%u,\"ts\":%" PRIus ",\"args\":{\"slot\":%u,\"seq\":%" PRIu64
			",\"tau\":%" PRIu64 ",\"version\":%" PRIu64 ",\"from\":%" PRIu64
			",\"count\":%u}}",
			s.name, who.node, thread_of(who), MICROS(at), note->slot, s.seq,
			note->kind == TW_NOTE_APPLY ? note->apply.tau : 0, note->version, s.from,
			s.count);
}

void tw_trace_mark(struct trace *t, uint32_t node, const char *what, int64_t at)
{
	if (t->file)
		fprintf(t->file,
			",\n{\"ph\":\"i\",\"s\":\"p\",\"cat\":\"fault\",\"name\":\"%s\",\"pid\":%u,"
			"\"tid\":0,\"ts\":%" PRIus "}",
			what, node, MICROS(at));
}
