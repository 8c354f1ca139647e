/* SPDX-License-Identifier: Apache-2.0 */
/* target_frame.c - frames of every message, one by one and from a socket in any pieces.
 *
 * What parses is written again to the same bytes; no more memory is asked for than the frame has
 * bytes; and a reader at the end of a socket gets the same messages up to the first bad frame,
 * however the bytes are cut.
 *
 * Input: choices, the request for memory that is refused, two bytes that say how the stream is cut,
 * then frames one after another.  With CHOICE_REPAIR magic, version and hash of each are put right,
 * so that what lies behind them is met; with CHOICE_STRETCH payloads are zeros that the input need
 * not have, so that chunks are met. */
#include "actor/message.h"
#include "fuzz.h"
#include "wire/frame.h"
#include "kit/one_frame.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <xxhash.h>

/* Stretching is slow, so chance should seldom come upon it: three bits. */
enum { CHOICE_REPAIR = 1, CHOICE_STOP = 2, CHOICE_STRETCH = 0xe0 };

#define FRAMES_MOST  64
#define STREAM_MOST  ((size_t)1 << 20)
#define PAYLOAD_MOST ((size_t)600 << 10)
#define PIECES_MOST  64

/* The bytes that go over the wire, and where frames end. */
struct wire {
	uint8_t *bytes;
	size_t n, end[FRAMES_MOST], frames;
};

/* --- making the stream --- */

/* Bytes of the frame that begins here, as its header says or as are left. */
static size_t frame_bytes(const uint8_t *at, size_t left)
{
	struct tw_header h;

	if (left < sizeof h)
		return left;
	memcpy(&h, at, sizeof h);
	return h.length < left - sizeof h ? sizeof h + h.length : left;
}

static void repair(uint8_t *at, size_t n)
{
	struct tw_header h;

	if (n < sizeof h)
		return;
	memcpy(&h, at, sizeof h);
	h.magic = TW_WIRE_MAGIC;
	h.major = TW_WIRE_MAJOR;
	h.length = (uint32_t)(n - sizeof h);
	h.hash = XXH3_64bits_withSeed(at + sizeof h, h.length,
				      XXH3_64bits(&h, offsetof(struct tw_header, hash)));
	memcpy(at, &h, sizeof h);
}

static bool stretches(uint8_t choice)
{
	return (choice & CHOICE_STRETCH) == CHOICE_STRETCH;
}

/* Zeros that the frame at `at` should have after its `n` bytes. */
static size_t stretch(const uint8_t *at, size_t n)
{
	struct tw_header h;
	size_t whole;

	if (n < sizeof h)
		return 0;
	memcpy(&h, at, sizeof h);
	whole = sizeof h + tw_chunk_bytes(&h);
	if (!h.chunk)
		whole += tw_body_bytes(h.type) + (h.tail < PAYLOAD_MOST ? h.tail : 0);
	return whole > n ? whole - n : 0;
}

static void lay_out(struct wire *w, uint8_t choice, struct tw_fuzz_input in)
{
	static uint8_t room[STREAM_MOST + (64 << 10)];

	MUST(in.left <= sizeof room - STREAM_MOST);
	w->bytes = room;
	while (in.left && w->frames < FRAMES_MOST) {
		const size_t given = frame_bytes(in.at, in.left);
		uint8_t *at = w->bytes + w->n;
		size_t zeros = stretches(choice) ? stretch(in.at, given) : 0;

		if (w->n + zeros > STREAM_MOST)
			zeros = 0;
		memcpy(at, in.at, given);
		memset(at + given, 0, zeros);
		if (choice & CHOICE_REPAIR)
			repair(at, given + zeros);
		in.at += given;
		in.left -= given;
		w->n += given + zeros;
		w->end[w->frames++] = w->n;
	}
}

/* --- one by one --- */

static bool read_one(const uint8_t *at, size_t n, unsigned refuse)
{
	struct tw_fuzz_heap heap;
	struct tw_msg m;
	enum tw_status st;

	tw_fuzz_heap_init(&heap, refuse, n + 2 * sizeof(struct tw_block) + 2 * TW_ALIGN);
	st = one_frame_read(at, n, &heap.heap, &m);
	if (st == TW_OK) {
		const size_t whole = tw_msg_bytes(&m);
		uint8_t *out = malloc(whole);
		size_t len = 0;

		MUST(out && whole == n && strcmp(tw_type_name(m.h.type), "?") != 0);
		MUST(one_frame_write(&m, out, whole - 1, &len) == TW_NO_ROOM);
		MUST(one_frame_write(&m, out, whole, &len) == TW_OK);
		MUST(len == n && memcmp(out, at, n) == 0);
		free(out);
		tw_block_drop(m.tail);
		tw_block_drop(m.payload);
	} else {
		MUST(st == TW_BAD_BYTES || (st == TW_NO_MEMORY && refuse));
	}
	MUST(heap.live == 0);
	return st == TW_OK;
}

/* A reader that has not asked for loans (wire/lend.h) takes none. */
static bool is_lent(const uint8_t *frame, size_t n)
{
	struct tw_header h;

	if (n < sizeof h)
		return false;
	memcpy(&h, frame, sizeof h);
	return h.flags & TW_FLAG_LENT;
}

/* How many are good before the first bad one. */
static size_t read_each(const struct wire *w, unsigned refuse)
{
	size_t good = 0, from = 0;

	for (size_t k = 0; k < w->frames; from = w->end[k++]) {
		/* memory of its own, so that a byte too far is seen */
		const size_t n = w->end[k] - from;
		uint8_t *frame = malloc(n);

		MUST(frame);
		memcpy(frame, w->bytes + from, n);
		if (read_one(frame, n, refuse) && !is_lent(frame, n) && good == k)
			good++;
		free(frame);
	}
	return good;
}

/* --- from a socket --- */

struct receiver {
	struct tw_fuzz_heap heap;
	const struct wire *wire;
	size_t messages, at; /* what came; where the next one began, if frames are messages */
	bool compare, stop;
};

static struct tw_msg *msg_new(void *arg)
{
	struct receiver *r = arg;

	return tw_heap_zeros(&r->heap.heap, sizeof(struct tw_msg));
}

static void msg_free(void *arg, struct tw_msg *m)
{
	struct receiver *r = arg;

	tw_block_drop(m->tail);
	tw_block_drop(m->payload);
	r->heap.heap.put(&r->heap.heap, m);
}

static bool admit(void *arg, const struct tw_header *h, const char **why)
{
	*why = "it is too long";
	return h->payload <= PAYLOAD_MOST;
}

static struct tw_block *block(void *arg, const struct tw_header *h)
{
	struct receiver *r = arg;

	return tw_block_new(&r->heap.heap, h->payload);
}

static bool message(void *arg, struct tw_msg *m)
{
	struct receiver *r = arg;

	if (r->compare) {
		const size_t n = tw_msg_bytes(m);
		uint8_t *out = malloc(n);
		size_t len = 0;

		MUST(out && r->at + n <= r->wire->n);
		MUST(one_frame_write(m, out, n, &len) == TW_OK && len == n);
		MUST(memcmp(out, r->wire->bytes + r->at, n) == 0);
		r->at += n;
		free(out);
	}
	r->messages++;
	msg_free(arg, m);
	return !r->stop;
}

/* Until there is nothing to read: WAIT, END or BROKEN. */
static enum tw_flow drain(struct tw_reader *reader, struct tw_stream *s, size_t most)
{
	enum tw_flow flow;
	size_t got;

	do
		flow = tw_reader_run(reader, s, most, &got);
	while (flow == TW_FLOW_OK);
	if (flow == TW_FLOW_BROKEN)
		MUST(tw_reader_why(reader)[0] && !strchr(tw_reader_why(reader), '\n'));
	return flow;
}

static void send_all(struct tw_reader *reader, struct tw_stream *s, int fd, const struct wire *w,
		     size_t step, size_t most)
{
	enum tw_flow flow = TW_FLOW_WAIT;
	size_t sent = 0;

	if (step < w->n / PIECES_MOST)
		step = w->n / PIECES_MOST;
	if (most < w->n / PIECES_MOST)
		most = w->n / PIECES_MOST;
	while (sent < w->n && flow == TW_FLOW_WAIT) {
		const size_t want = w->n - sent < step ? w->n - sent : step;
		const ssize_t put = send(fd, w->bytes + sent, want, MSG_DONTWAIT | MSG_NOSIGNAL);

		MUST(put > 0);
		sent += (size_t)put;
		flow = drain(reader, s, most);
	}
	shutdown(fd, SHUT_WR);
	if (flow == TW_FLOW_WAIT)
		flow = drain(reader, s, most);
	MUST(flow == TW_FLOW_END || flow == TW_FLOW_BROKEN);
	MUST(drain(reader, s, most) == flow);
}

static void receive(const struct wire *w, uint8_t choice, unsigned refuse, size_t step, size_t most,
		    size_t good)
{
	struct receiver r = { .wire = w,
			      .compare = !stretches(choice),
			      .stop = choice & CHOICE_STOP };
	const struct tw_reader_owner owner = { &r, msg_new, msg_free, admit, block, message };
	struct tw_reader *reader;
	struct tw_stream *s;
	int fd[2];

	/* a header alone has its payload reserved, but there is one at a time */
	tw_fuzz_heap_init(&r.heap, refuse,
			  w->n * 2 + PAYLOAD_MOST * 2 + w->frames * 1024 + tw_frame_memory() * 2);
	MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) == 0);
	s = tw_stream_plain(&r.heap.heap, fd[0]);
	reader = tw_reader_new(&r.heap.heap, &owner);
	if (s && reader) {
		send_all(reader, s, fd[1], w, step, most);
		MUST(refuse || !r.compare || r.messages == good);
	}
	tw_reader_free(reader);
	tw_stream_close(s);
	close(fd[1]);
	MUST(r.heap.live == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct tw_fuzz_input in = { bytes, n };
	const uint8_t choice = tw_fuzz_byte(&in), refuse = tw_fuzz_byte(&in);
	const uint8_t cut = tw_fuzz_byte(&in), most = tw_fuzz_byte(&in);
	struct wire w = { .n = 0 };
	size_t good;

	lay_out(&w, choice, in);
	good = read_each(&w, refuse);
	receive(&w, choice, refuse, (size_t)(cut % 16 + 1) << cut / 16, (size_t)1 << most % 20,
		good);
	return 0;
}
