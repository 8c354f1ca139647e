/* SPDX-License-Identifier: Apache-2.0 */
/* raw_reduce.c - what a careful programmer would write in a page to add up two vectors: between two
 * processes over a socket, and between two threads in memory. */
#include "bench/baseline/raw_reduce.h"

#include "base/heap.h"
#include "bench/bench.h"
#include "bench/harness/children.h"
#include "bench/harness/timed_engine.h"
#include "metrics/progress.h"
#include "vec/vec.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TIMES_MOST 64
#define WARM       3           /* left out: buffers are touched for the first time */
#define BLOCK      (32u << 10) /* values that are added at a time: they stay in a cache */
#define PATIENCE   120.0
#define RATE       0.01f

static double seconds_since(int64_t began)
{
	return (double)(tw_clock() - began) / (double)TW_SECOND;
}

static float *new_vector(size_t n, float value)
{
	float *x = tw_heap_system.get(&tw_heap_system, n * sizeof *x);

	if (x)
		tw_vec_fill(x, value, n);
	return x;
}

/* --- over a socket --- */

/* Each side owns a half: it sends its values of the other half, adds those that come to its own
 * one, and sends the sums as far as they are made.  What comes first are the other's values of this
 * half, then the sums of the other one, which may lie where values were: those were sent. */
struct raw {
	size_t n;
	unsigned times;
	int fd[2];
	double *seconds; /* shared */
};

struct side {
	int fd;
	float *mine, *other; /* the halves of one vector */
	size_t mines, others;
	float *block;
	/* bytes so far */
	size_t sent, got;
	size_t added; /* values of `mine` that are sums */
};

static size_t bytes_of(size_t values)
{
	return values * sizeof(float);
}

/* 1: something came; 0: not now; -1: it broke. */
static int read_some(struct side *s)
{
	const size_t first = bytes_of(s->mines), all = first + bytes_of(s->others);
	uint8_t *to;
	size_t room;
	ssize_t n;

	if (s->got == all)
		return 0;
	if (s->got < first) { /* a block from where the last one was added */
		const size_t left = s->mines - s->added;
		const size_t at = s->got - bytes_of(s->added);

		to = (uint8_t *)s->block + at;
		room = bytes_of(left < BLOCK ? left : BLOCK) - at;
	} else {
		to = (uint8_t *)s->other + (s->got - first);
		room = all - s->got;
	}
	n = read(s->fd, to, room);
	if (n <= 0)
		return n < 0 && errno == EAGAIN ? 0 : -1;
	s->got += (size_t)n;
	if (s->got <= first && (size_t)n == room) {
		const size_t values = s->got / sizeof(float) - s->added;

		tw_vec_add(s->mine + s->added, s->block, values);
		s->added += values;
	}
	return 1;
}

static int write_some(struct side *s)
{
	const size_t first = bytes_of(s->others), all = first + bytes_of(s->added);
	const uint8_t *from;
	size_t len;
	ssize_t n;

	if (s->sent < first) {
		from = (const uint8_t *)s->other + s->sent;
		len = first - s->sent;
	} else {
		from = (const uint8_t *)s->mine + (s->sent - first);
		len = all - s->sent;
	}
	if (!len)
		return 0;
	n = send(s->fd, from, len, MSG_NOSIGNAL);
	if (n < 0)
		return errno == EAGAIN ? 0 : -1;
	s->sent += (size_t)n;
	return 1;
}

static enum tw_status once(struct side *s, struct tw_error *why)
{
	const size_t all = bytes_of(s->mines + s->others);

	s->sent = s->got = s->added = 0;
	while (s->sent < all || s->got < all) {
		const int in = read_some(s), out = write_some(s);
		const bool more = s->sent < bytes_of(s->others + s->added);
		struct pollfd p = { .fd = s->fd, .events = (short)(more ? POLLOUT : 0) };

		if (in < 0 || out < 0)
			return tw_fail(why, TW_IO, "the raw sum broke: %s", strerror(errno));
		if (in || out)
			continue;
		if (s->got < all)
			p.events |= POLLIN;
		if (poll(&p, 1, -1) < 0 && errno != EINTR)
			return tw_fail(why, TW_IO, "the raw sum broke: %s", strerror(errno));
	}
	return TW_OK;
}

static enum tw_status peer(void *arg, size_t number, struct tw_error *why)
{
	const struct raw *r = arg;
	const size_t half = r->n / 2;
	float *x = new_vector(r->n, 0.0f);
	struct side s = { .fd = r->fd[number], .block = new_vector(BLOCK, 0.0f) };
	enum tw_status status = TW_OK;

	close(r->fd[!number]);
	if (!x || !s.block)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the floor");
	s.mine = number ? x + half : x;
	s.other = number ? x : x + half;
	s.mines = number ? r->n - half : half;
	s.others = r->n - s.mines;
	if (fcntl(s.fd, F_SETFL, O_NONBLOCK) < 0)
		return tw_fail(why, TW_IO, "the floor's socket must block: %s", strerror(errno));
	for (unsigned k = 0; k < r->times + WARM && status == TW_OK; k++) {
		const int64_t began = tw_clock();

		/* small whole numbers, so that the sums can be checked */
		if (k == 0)
			for (size_t i = 0; i < r->n; i++)
				x[i] = (float)((i + number) % 100);
		status = once(&s, why);
		for (size_t i = 0; k == 0 && i < r->n && status == TW_OK; i++)
			if (x[i] != (float)(i % 100 + (i + 1) % 100))
				status = tw_fail(why, TW_BAD_BYTES, "the raw sum is wrong");
		if (k == 0)
			tw_vec_fill(x, 0.0f, r->n);
		else if (k >= WARM && !number)
			r->seconds[k - WARM] = seconds_since(began);
	}
	return status;
}

static enum tw_status run(struct raw *r, enum tw_raw_kind kind, double *out, struct tw_error *why)
{
	struct tw_children c = { .child = NULL };
	enum tw_status status = tw_raw_connect(kind, r->fd, why);

	if (status == TW_OK)
		status = tw_children_init(&c, 2, why);
	for (int k = 0; k < 2 && status == TW_OK; k++)
		status = tw_children_add(&c, peer, r, why);
	for (int k = 0; k < 2; k++)
		if (r->fd[k] >= 0)
			close(r->fd[k]);
	if (status == TW_OK)
		status = tw_children_wait(&c, PATIENCE, why);
	tw_children_release(&c);
	if (status == TW_OK)
		*out = tw_median(r->seconds, r->times);
	return status;
}

enum tw_status tw_raw_reduce(enum tw_raw_kind kind, size_t n, unsigned times, double *out,
			     struct tw_error *why)
{
	struct raw r = { .n = n,
			 .times = times < TIMES_MOST ? times : TIMES_MOST,
			 .fd = { -1, -1 } };
	enum tw_status status;

	r.seconds = tw_shared_new(TIMES_MOST * sizeof *r.seconds);
	if (!r.seconds)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the floor");
	status = run(&r, kind, out, why);
	tw_shared_free(r.seconds, TIMES_MOST * sizeof *r.seconds);
	return status;
}

/* --- in memory --- */

struct memory {
	size_t n;
	unsigned times;
	float *g[2], *sum, *w[2];
	pthread_barrier_t together;
	double sum_s[TIMES_MOST], update_s[TIMES_MOST];
	double cpu, wall; /* of the first thread's updates */
};

struct hand {
	struct memory *m;
	int number;
};

/* Its half of the sum, then, when both halves are there, its own replica. */
static void *hand(void *arg)
{
	const struct hand *h = arg;
	struct memory *m = h->m;
	const size_t from = h->number ? m->n / 2 : 0, to = h->number ? m->n : m->n / 2;

	for (unsigned k = 0; k < m->times + WARM; k++) {
		int64_t began, between, cpu;

		pthread_barrier_wait(&m->together);
		began = tw_clock();
		tw_vec_add_to(m->sum + from, m->g[0] + from, m->g[1] + from, to - from);
		pthread_barrier_wait(&m->together);
		between = tw_clock();
		cpu = tw_timed_cpu();
		tw_vec_sgd(m->w[h->number], m->w[h->number], m->sum, RATE, m->n, false);
		if (!h->number) {
			m->wall += seconds_since(between);
			m->cpu += (double)(tw_timed_cpu() - cpu) / (double)TW_SECOND;
		}
		pthread_barrier_wait(&m->together);
		if (k < WARM || h->number)
			continue;
		m->sum_s[k - WARM] = (double)(between - began) / (double)TW_SECOND;
		m->update_s[k - WARM] = seconds_since(between);
	}
	return NULL;
}

static enum tw_status two_hands(struct memory *m, struct tw_error *why)
{
	struct hand of[2] = { { m, 0 }, { m, 1 } };
	pthread_t thread;

	pthread_barrier_init(&m->together, NULL, 2);
	if (pthread_create(&thread, NULL, hand, &of[1]))
		return tw_fail(why, TW_IO, "no thread for the floor");
	hand(&of[0]);
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&m->together);
	return TW_OK;
}

enum tw_status tw_raw_memory(size_t n, unsigned times, struct tw_raw_memory *out,
			     struct tw_error *why)
{
	struct memory m = { .n = n, .times = times < TIMES_MOST ? times : TIMES_MOST };
	float **all[] = { &m.g[0], &m.g[1], &m.sum, &m.w[0], &m.w[1] };
	enum tw_status status = TW_OK;

	for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
		if (!(*all[k] = new_vector(n, 1e-3f)))
			status = tw_fail(why, TW_NO_MEMORY, "no memory for the floor");
	if (status == TW_OK)
		status = two_hands(&m, why);
	for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
		tw_heap_system.put(&tw_heap_system, *all[k]);
	if (status == TW_OK)
		*out = (struct tw_raw_memory){ tw_median(m.sum_s, m.times),
					       tw_median(m.update_s, m.times), m.cpu, m.wall };
	return status;
}
