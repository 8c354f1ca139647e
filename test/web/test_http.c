/* SPDX-License-Identifier: Apache-2.0 */
/* test_http.c - the page server, asked over real sockets by polite and by rude clients. */
#include "base/refusing.h"
#include "metrics/gauges.h"
#include "web/http.h"
#include "kit/watch.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

/* --- a client -------------------------------------------------------------------------------- */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int dial(const struct tw_http *h)
{
	const struct timeval limit = { .tv_sec = 20 };
	const struct sockaddr_in at = { .sin_family = AF_INET,
					.sin_port = htons(tw_http_port(h)),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof at), 0);
	return fd;
}

/* Everything until the server closes; -1 where it was reset. */
static ssize_t drain(int fd, char *to, size_t room)
{
	size_t n = 0;

	for (;;) {
		const ssize_t got = recv(fd, to + n, room - 1 - n, 0);

		if (got < 0 && errno == EAGAIN)
			fail_msg("no answer and no end within 20 s");
		if (got <= 0 || n + (size_t)got == room - 1) {
			n += got > 0 ? (size_t)got : 0;
			to[n] = 0;
			return got < 0 && n == 0 ? -1 : (ssize_t)n;
		}
		n += (size_t)got;
	}
}

static char reply[1 << 20];

/* Send the bytes, read until the end; the status, or -1 without an answer. */
static int ask_bytes(const struct tw_http *h, const char *bytes, size_t n)
{
	const int fd = dial(h);
	int status = -1;

	send(fd, bytes, n, MSG_NOSIGNAL);
	drain(fd, reply, sizeof reply);
	close(fd);
	return sscanf(reply, "HTTP/1.1 %d ", &status) == 1 ? status : -1;
}

static int ask(const struct tw_http *h, const char *method, const char *path)
{
	char text[300];
	const int n = snprintf(text, sizeof text,
			       "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
			       method, path);

	return ask_bytes(h, text, (size_t)n);
}

static const char *body(void)
{
	const char *b = strstr(reply, "\r\n\r\n");

	assert_non_null(b);
	return b + 4;
}

/* The value of a header up to its line's end; "" without. */
static const char *header(const char *name)
{
	static char value[200];
	char want[80];
	const char *at;

	value[0] = 0;
	snprintf(want, sizeof want, "\r\n%s: ", name);
	at = strcasestr(reply, want);
	if (at && at < body())
		sscanf(at + strlen(want), "%199[^\r]", value);
	return value;
}

/* --- pages ----------------------------------------------------------------------------------- */

static _Atomic int made;

static enum tw_status copy(struct tw_heap *heap, const char *text, struct tw_http_body *out)
{
	out->len = strlen(text);
	out->bytes = heap->get(heap, out->len + 1);
	if (!out->bytes)
		return TW_NO_MEMORY;
	memcpy(out->bytes, text, out->len + 1);
	return TW_OK;
}

static enum tw_status hello(void *arg, struct tw_heap *heap, struct tw_http_body *out)
{
	made++;
	return copy(heap, arg, out);
}

static enum tw_status busy(void *arg, struct tw_heap *heap, struct tw_http_body *out)
{
	out->status = 503;
	out->type = "application/json";
	return copy(heap, "{}\n", out);
}

static enum tw_status broken(void *arg, struct tw_heap *heap, struct tw_http_body *out)
{
	return TW_NO_MEMORY;
}

static enum tw_status empty(void *arg, struct tw_heap *heap, struct tw_http_body *out)
{
	return TW_OK;
}

static enum tw_status metrics(void *arg, struct tw_heap *heap, struct tw_http_body *out)
{
	return tw_gauges_text(arg, &out->bytes, &out->len);
}

static char large[200001];
static struct tw_http_page pages[] = {
	{ "/hello", "text/plain", hello, "hello\n" },
	{ "/busy", "text/plain", busy, NULL },
	{ "/broken", "text/plain", broken, NULL },
	{ "/empty", "text/plain", empty, NULL },
	{ "/large", "text/plain", hello, large },
	{ "/metrics", TW_GAUGES_TYPE, metrics, NULL },
	{ NULL, NULL, NULL, NULL },
};

static struct refusing heap = REFUSING(0);

static struct tw_http *start(void)
{
	const struct tw_http_options o = { .pages = pages };
	struct tw_error why = { 0 };
	struct tw_http *h = NULL;

	if (tw_http_start(&heap.heap, &o, &h, &why) != TW_OK)
		fail_msg("%s", why.text);
	assert_true(tw_http_port(h) != 0);
	assert_string_equal(tw_http_address(h), "127.0.0.1");
	return h;
}

static void stop(struct tw_http *h)
{
	tw_http_stop(h);
	assert_int_equal(heap.live, 0);
}

/* --- tests ----------------------------------------------------------------------------------- */

static void pages_are_shown(void **state)
{
	struct tw_http *h = start();

	assert_int_equal(ask(h, "GET", "/hello"), 200);
	assert_string_equal(body(), "hello\n");
	assert_string_equal(header("Content-Type"), "text/plain");
	assert_string_equal(header("Content-Length"), "6");
	assert_int_equal(ask(h, "GET", "/hello?a=b&c"), 200);
	assert_string_equal(body(), "hello\n");
	assert_int_equal(ask(h, "HEAD", "/hello"), 200);
	assert_string_equal(body(), "");
	assert_string_equal(header("Content-Length"), "6");
	assert_int_equal(ask(h, "GET", "/busy"), 503);
	assert_string_equal(header("Content-Type"), "application/json");
	assert_string_equal(body(), "{}\n");
	assert_int_equal(ask(h, "GET", "/empty"), 200);
	assert_string_equal(body(), "");
	assert_int_equal(ask(h, "GET", "/large"), 200);
	assert_int_equal(strlen(body()), sizeof large - 1);
	stop(h);
}

static void what_is_not_there_is_said(void **state)
{
	struct tw_http *h = start();
	static const char *const others[] = { "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "get" };

	assert_int_equal(ask(h, "GET", "/nothing"), 404);
	for (struct tw_http_page *p = pages; p->path; p++)
		assert_non_null(strstr(body(), p->path));
	assert_int_equal(ask(h, "GET", "/"), 404);
	assert_int_equal(ask(h, "GET", "/hello/"), 404);
	assert_int_equal(ask(h, "GET", "/../hello"), 404);
	assert_int_equal(ask(h, "HEAD", "/nothing"), 404);
	assert_string_equal(body(), "");
	assert_int_equal(ask(h, "GET", "/broken"), 500);
	for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
		assert_int_equal(ask(h, others[k], "/hello"), 405);
		assert_string_equal(header("Allow"), "GET, HEAD");
	}
	stop(h);
}

/* A page of another site makes a browser ask under that site's name: it learns nothing. */
static void hosts_are_checked(void **state)
{
	static const struct {
		const char *host;
		int status;
	} rows[] = {
		{ "127.0.0.1", 200 },
		{ "127.0.0.1:7434", 200 },
		{ "10.1.2.3:80", 200 },
		{ "[::1]", 200 },
		{ "[::1]:7434", 200 },
		{ "localhost", 200 },
		{ "LocalHost:80", 200 },
		{ "localhost.", 200 },
		{ "gpu7.example", 200 },
		{ "GPU7.example:9", 200 },
		{ "other", 200 },
		{ "evil.example", 421 },
		{ "evil.example:7434", 421 },
		{ "gpu7.example.evil.org", 421 },
		{ "gpu7", 421 },
		{ "gpu7.example,other", 421 },
		{ "127.0.0.1.evil.org", 421 },
		{ "localhost.evil.org", 421 },
		{ "0x7f.1", 421 },
		{ "x\x1b[31m", 421 },
		{ "[::1", 400 },
		{ "[::1]x", 400 },
		{ "localhost:80x", 400 },
		{ ":80", 400 },
		{ "", 400 },
		{ "localhost\r\nHost: evil.example", 400 },
		{ "localhost\r\nHost: localhost", 400 },
	};
	const struct tw_http_options o = { .pages = pages, .names = "gpu7.example,other" };
	struct tw_error why = { 0 };
	struct tw_http *h = NULL;
	char text[400], own[200];
	int n;

	assert_int_equal(tw_http_start(&heap.heap, &o, &h, &why), TW_OK);
	made = 0;
	for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
		const int before = made;

		n = snprintf(text, sizeof text,
			     "GET /hello HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
			     rows[k].host);
		if (ask_bytes(h, text, (size_t)n) != rows[k].status)
			fail_msg("Host: %s is answered by %.20s", rows[k].host, reply);
		assert_int_equal(made - before, rows[k].status == 200);
		if (rows[k].status == 421)
			assert_non_null(strstr(body(), "--http-host"));
		else if (rows[k].status == 400)
			assert_non_null(strstr(body(), "Host"));
	}
	assert_int_equal(gethostname(own, sizeof own), 0);
	n = snprintf(text, sizeof text,
		     "GET /hello HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", own);
	assert_int_equal(ask_bytes(h, text, (size_t)n), 200);
	n = snprintf(text, sizeof text, "GET /hello HTTP/1.1\r\nConnection: close\r\n\r\n");
	assert_int_equal(ask_bytes(h, text, (size_t)n), 400);
	n = snprintf(text, sizeof text, "GET /hello HTTP/1.0\r\n\r\n");
	assert_int_equal(ask_bytes(h, text, (size_t)n), 200);
	stop(h);
}

static void two_questions_on_one_connection(void **state)
{
	static const char twice[] =
		"GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n"
		"GET /hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
	struct tw_http *h = start();
	const char *first;

	assert_int_equal(ask_bytes(h, twice, sizeof twice - 1), 200);
	first = strstr(reply, "hello\n");
	assert_non_null(first);
	assert_non_null(strstr(first + 6, "hello\n"));
	stop(h);
}

/* A body that nobody wants neither confuses nor reaches a page. */
static void bodies_are_passed_over(void **state)
{
	struct tw_http *h = start();
	char text[2000];
	int n;

	n = snprintf(text, sizeof text,
		     "GET /hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
		     "Content-Length: 1000\r\n\r\n%01000d",
		     0);
	assert_int_equal(ask_bytes(h, text, (size_t)n), 200);
	assert_string_equal(body(), "hello\n");
	made = 0;
	n = snprintf(
		text, sizeof text,
		"POST /hello HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n%01000d",
		0);
	assert_int_equal(ask_bytes(h, text, (size_t)n), 405);
	assert_int_equal(made, 0);
	stop(h);
}

static void garbage_is_refused(void **state)
{
	static const char *const texts[] = {
		"\x16\x03\x01\x02\x01\x01\xfc\x03\x03", /* TLS */
		"hello\r\n\r\n",
		"GET\r\n\r\n",
		"GET /hello\r\n\r\n",
		"GET /hello HTTP/9.9\r\n\r\n",
		"GET /hello HTTP/1.1\r\n\r\n", /* no host */
		"GET /hello HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
		"GET /hello HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
		"99999999999999999999\r\n\r\n",
		"THAW\x01\x01\x01\x01",
	};
	struct tw_http *h = start();
	unsigned seed = 7;
	char bytes[600];

	made = 0;
	for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
		const int fd = dial(h);
		int status = 0;

		send(fd, texts[k], strlen(texts[k]), MSG_NOSIGNAL);
		shutdown(fd, SHUT_WR);
		drain(fd, reply, sizeof reply);
		close(fd);
		if (sscanf(reply, "HTTP/1.1 %d", &status) == 1 && status < 400)
			fail_msg("\"%s\" is answered by %d", texts[k], status);
	}
	for (int k = 0; k < 200; k++) {
		const int fd = dial(h);
		const size_t n = 1 + (size_t)rand_r(&seed) % sizeof bytes;

		for (size_t i = 0; i < n; i++)
			bytes[i] = (char)rand_r(&seed);
		send(fd, bytes, n, MSG_NOSIGNAL);
		shutdown(fd, SHUT_WR);
		drain(fd, reply, sizeof reply);
		close(fd);
	}
	assert_int_equal(made, 0);
	assert_int_equal(ask(h, "GET", "/hello"), 200);
	stop(h);
}

static void headers_have_an_end(void **state)
{
	struct tw_http *h = start();
	const size_t n = 300000;
	char *text = malloc(n + 100);
	int status;

	/* one long line, many short ones, a long address */
	snprintf(text, 100, "GET /hello HTTP/1.1\r\nHost: localhost\r\nX: ");
	memset(text + strlen(text), 'a', n - strlen(text));
	memcpy(text + n, "\r\n\r\n", 5);
	status = ask_bytes(h, text, n + 4);
	assert_true(status == -1 || (status >= 400 && status < 500));
	snprintf(text, 100, "GET /hello HTTP/1.1\r\nHost: localhost\r\n");
	for (size_t at = strlen(text); at < n; at += 6)
		memcpy(text + at, "a: b\r\n", 7);
	status = ask_bytes(h, text, strlen(text));
	assert_true(status == -1 || (status >= 400 && status < 500));
	snprintf(text, 100, "GET /");
	memset(text + 5, 'a', n);
	status = ask_bytes(h, text, n);
	assert_true(status == -1 || (status >= 400 && status < 500));
	free(text);
	/* a usual one is no problem */
	text = malloc(4000);
	snprintf(
		text, 4000,
		"GET /hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: %03000d\r\n\r\n",
		0);
	assert_int_equal(ask_bytes(h, text, strlen(text)), 200);
	free(text);
	stop(h);
}

/* A hundred that say nothing, a hundred that never end their headers, and ten that never read. */
static void idlers_stop_nobody(void **state)
{
	static const char part[] = "GET /hello HTTP/1.1\r\nHost: ";
	static const char all[] = "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n";
	struct tw_http *h = start();
	const int before = open_files();
	const double began = now();
	int idle[210];
	double slowest = 0;

	for (int k = 0; k < 210; k++) {
		idle[k] = dial(h);
		if (k >= 100)
			send(idle[k], k < 200 ? part : all,
			     k < 200 ? sizeof part - 1 : sizeof all - 1, MSG_NOSIGNAL);
		if (k % 10 == 9) {
			const double from = now();

			assert_int_equal(ask(h, "GET", "/hello"), 200);
			slowest = now() - from > slowest ? now() - from : slowest;
		}
	}
	for (int k = 0; k < 50; k++)
		assert_int_equal(ask(h, "GET", "/hello"), 200);
	/* ours, and the few of theirs that the server still has */
	assert_true(open_files() <= before + 210 + TW_HTTP_CONNECTIONS);
	print_message("slowest answer among idlers: %.3f s, all in %.3f s\n", slowest,
		      now() - began);
	assert_true(slowest < 1.0);
	for (int k = 0; k < 210; k++)
		close(idle[k]);
	stop(h);
}

static void silence_has_an_end(void **state)
{
	struct tw_http *h = start();
	const double began = now();
	const int fd = dial(h);
	char bytes[400];

	drain(fd, bytes, sizeof bytes);
	close(fd);
	assert_true(now() - began < TW_HTTP_TIMEOUT + 5);
	assert_true(now() - began > TW_HTTP_TIMEOUT - 2);
	stop(h);
}

static void bad_requests_are_sentences(void **state)
{
	static const struct {
		const char *address, *says;
		bool everywhere;
	} row[] = {
		{ "0.0.0.0", "other machines", false },
		{ "::", "other machines", false },
		{ "10.1.2.3", "other machines", false },
		{ "::ffff:10.0.0.1", "other machines", false },
		{ "10.1.2.3", "not an address of this machine", true },
		{ "example", "is not an address", false },
		{ "", "is not an address", false },
		{ "127.0.0.1:80", "is not an address", false },
		{ "300.0.0.1", "is not an address", true },
	};
	const int before = open_files();

	for (size_t k = 0; k < sizeof row / sizeof row[0]; k++) {
		const struct tw_http_options o = { .address = row[k].address,
						   .everywhere = row[k].everywhere,
						   .pages = pages };
		struct tw_error why = { 0 };
		struct tw_http *h = NULL;

		assert_int_equal(tw_http_start(&heap.heap, &o, &h, &why), TW_BAD_INPUT);
		assert_null(h);
		if (!strstr(why.text, row[k].says))
			fail_msg("\"%s\": %s", row[k].address, why.text);
	}
	assert_int_equal(open_files(), before);
	assert_int_equal(heap.live, 0);
	tw_http_stop(NULL);
}

static void a_port_is_for_one(void **state)
{
	struct tw_http *h = start(), *second = NULL;
	const struct tw_http_options o = { .port = tw_http_port(h), .pages = pages };
	const uint16_t port = tw_http_port(h);
	struct tw_error why = { 0 };
	const int before = open_files();
	char want[60];

	assert_int_equal(tw_http_start(&heap.heap, &o, &second, &why), TW_BAD_INPUT);
	snprintf(want, sizeof want, "port %u of 127.0.0.1 is in use", port);
	assert_non_null(strstr(why.text, want));
	assert_int_equal(open_files(), before);
	assert_int_equal(ask(h, "GET", "/hello"), 200);
	stop(h);
	why = (struct tw_error){ 0 };
	assert_int_equal(tw_http_start(&heap.heap, &o, &second, &why), TW_OK); /* at once */
	assert_int_equal(tw_http_port(second), port);
	stop(second);
}

static void other_addresses(void **state)
{
	static const char *const good[] = { "localhost", "127.0.0.2", "::1" };

	for (size_t k = 0; k < sizeof good / sizeof good[0]; k++) {
		const struct tw_http_options o = { .address = good[k], .pages = pages };
		struct tw_error why = { 0 };
		struct tw_http *h = NULL;
		const enum tw_status st = tw_http_start(&heap.heap, &o, &h, &why);

		if (st != TW_OK && strcmp(good[k], "::1") == 0) {
			/* a machine without IPv6 says so */
			assert_int_equal(st, TW_BAD_INPUT);
			continue;
		}
		assert_int_equal(st, TW_OK);
		if (strcmp(good[k], "::1") == 0)
			assert_string_equal(tw_http_address(h), "[::1]");
		stop(h);
	}
}

/* Every request for memory refused in turn: the connection ends, the server does not. */
static void without_memory(void **state)
{
	const struct tw_http_options o = { .pages = pages };
	struct tw_error why = { 0 };
	struct tw_http *h = NULL;
	int whole = 0;

	heap.calls = 0;
	heap.refuse = 1;
	assert_int_equal(tw_http_start(&heap.heap, &o, &h, &why), TW_NO_MEMORY);
	assert_int_equal(heap.live, 0);
	heap.refuse = 0;
	h = start();
	for (unsigned nth = 1; nth <= 4; nth++) {
		int status;

		heap.calls = 0;
		heap.refuse = nth;
		status = ask(h, "GET", "/hello");
		assert_true(status == -1 || status == 500 || status == 200);
		whole += status == 200;
		heap.calls = 0;
		status = ask(h, "GET", "/nothing");
		assert_true(status == -1 || status == 404);
		heap.refuse = 0;
		assert_int_equal(ask(h, "GET", "/hello"), 200);
	}
	assert_true(whole > 0 && whole < 4);
	stop(h);
}

#ifndef TW_SANITIZED
/* Threads, refused on request: the library's call ends here, too. */
static _Atomic bool no_threads;

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	if (no_threads)
		return EAGAIN;
	*(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
	return real(thread, attr, run, arg);
}

static void without_threads(void **state)
{
	const struct tw_http_options o = { .pages = pages };
	const int before = open_files();
	struct tw_error why = { 0 };
	struct tw_http *h = NULL;

	no_threads = true;
	assert_int_equal(tw_http_start(&heap.heap, &o, &h, &why), TW_IO);
	no_threads = false;
	assert_non_null(strstr(why.text, "cannot be started"));
	assert_int_equal(open_files(), before);
	assert_int_equal(heap.live, 0);
}
#endif

/* Not enough descriptors for the thread's own: nothing is left open, and nothing closed twice. */
static void without_descriptors(void **state)
{
	const struct tw_http_options o = { .pages = pages };
	const int before = open_files();
	struct rlimit old, tight;
	int failed = 0;

	getrlimit(RLIMIT_NOFILE, &old);
	for (int spare = 0; spare < 6; spare++) {
		struct tw_error why = { 0 };
		struct tw_http *h = NULL;
		const int next = dup(0);
		enum tw_status st;

		close(next);
		tight = old;
		tight.rlim_cur = (rlim_t)(next + spare);
		setrlimit(RLIMIT_NOFILE, &tight);
		st = tw_http_start(&heap.heap, &o, &h, &why);
		setrlimit(RLIMIT_NOFILE, &old);
		if (st != TW_OK) {
			assert_int_equal(st, TW_IO);
			assert_true(why.text[0]);
			failed++;
		}
		tw_http_stop(h);
		assert_int_equal(open_files(), before);
		assert_int_equal(heap.live, 0);
	}
	assert_true(failed > 0 && failed < 6);
}

static void metrics_are_a_page(void **state)
{
	struct tw_gauges *g = tw_gauges_new(&heap.heap, NULL, "worker", "a \"host\"");
	struct tw_http *h;

	assert_non_null(g);
	pages[sizeof pages / sizeof pages[0] - 2].arg = g;
	h = start();
	assert_int_equal(ask(h, "GET", "/metrics"), 200);
	assert_string_equal(header("Content-Type"), TW_GAUGES_TYPE);
	assert_non_null(strstr(body(), "\nthalweg_up 1\n"));
	assert_non_null(strstr(body(), "host=\"a \\\"host\\\"\"} 1\n"));
	tw_http_stop(h);
	tw_gauges_free(g);
	assert_int_equal(heap.live, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_are_shown),
		cmocka_unit_test(what_is_not_there_is_said),
		cmocka_unit_test(hosts_are_checked),
		cmocka_unit_test(two_questions_on_one_connection),
		cmocka_unit_test(bodies_are_passed_over),
		cmocka_unit_test(garbage_is_refused),
		cmocka_unit_test(headers_have_an_end),
		cmocka_unit_test(idlers_stop_nobody),
		cmocka_unit_test(silence_has_an_end),
		cmocka_unit_test(bad_requests_are_sentences),
		cmocka_unit_test(a_port_is_for_one),
		cmocka_unit_test(other_addresses),
		cmocka_unit_test(without_memory),
		cmocka_unit_test(without_descriptors),
#ifndef TW_SANITIZED
		cmocka_unit_test(without_threads),
#endif
		cmocka_unit_test(metrics_are_a_page),
	};

	memset(large, 'x', sizeof large - 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
