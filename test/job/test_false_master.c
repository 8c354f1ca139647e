/* SPDX-License-Identifier: Apache-2.0 */
/* test_false_master.c - a master that lies to who joins it, about paths, data and the model; one
 * that dies, or falls silent, while it is asked for them. */
#include "actor/message.h"
#include "spec/field.h"
#include "metrics/progress.h"
#include "run/join.h"
#include "job/reading.h"
#include "model/safetensors.h"
#include "kit/one_frame.h"
#include "kit/scratch.h"
#include "kit/watch.h"
#include "run/open_engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <arpa/inet.h>
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

/* --- the liar --------------------------------------------------------------------------------- */

struct liar {
	/* what it says */
	const char *job;
	struct tw_sha data, model_hash;
	const uint8_t *set, *model;
	uint64_t set_bytes, model_bytes; /* as announced */
	uint64_t model_there;            /* then it hangs up */
	const char *next_job;            /* of its next run, once it has hung up; NULL: the same */
	bool silent;                     /* it accepts, and says nothing */
	int deaths;       /* it hangs up at so many questions, each time they are new; -1: at all */
	int64_t patience; /* of the joiner; 0: five seconds */
	/* what happened */
	int listener;
	uint16_t port;
	pthread_t thread;
	atomic_int models, sets; /* questions */
	atomic_int asked, died;
};

static bool dies(struct liar *l)
{
	const bool now = l->deaths < 0 || (l->died < l->deaths && l->asked++ % 2 == 0);

	l->died += now;
	return now;
}

static const char *job_of(const struct liar *l)
{
	return l->died && l->next_job ? l->next_job : l->job;
}

static bool take(int fd, void *to, size_t n)
{
	for (size_t at = 0; at < n;) {
		const ssize_t got = recv(fd, (uint8_t *)to + at, n - at, 0);

		if (got <= 0)
			return false;
		at += (size_t)got;
	}
	return true;
}

static bool hear(int fd, struct tw_msg *m)
{
	static _Thread_local uint8_t bytes[1 << 17];
	struct tw_header h;

	if (!take(fd, &h, sizeof h) || h.length > sizeof bytes - sizeof h)
		return false;
	memcpy(bytes, &h, sizeof h);
	return take(fd, bytes + sizeof h, h.length) &&
	       one_frame_read(bytes, sizeof h + h.length, &tw_heap_system, m) == TW_OK;
}

static void forget(struct tw_msg *m)
{
	tw_block_drop(m->tail);
	tw_block_drop(m->payload);
}

/* `m` with a payload. */
static void say(int fd, struct tw_msg *m, const void *payload, size_t n)
{
	const size_t room = sizeof m->h + sizeof m->b + n;
	uint8_t *bytes = malloc(room);
	size_t len = 0;

	m->h.magic = TW_WIRE_MAGIC;
	m->h.major = TW_WIRE_MAJOR;
	m->h.minor = TW_WIRE_MINOR;
	if (n) {
		m->payload = tw_block_new(&tw_heap_system, n);
		memcpy(m->payload->data, payload, n);
		m->h.payload = (uint32_t)n;
	}
	if (one_frame_write(m, bytes, room, &len) == TW_OK)
		send(fd, bytes, len, MSG_NOSIGNAL);
	forget(m);
	free(bytes);
}

static void say_terms(struct liar *l, int fd, const struct tw_body_greet *g)
{
	struct tw_msg m = { .h.type = TW_TERMS };
	const bool asks = g->flags & TW_GREET_ASK;

	m.b.terms = (struct tw_body_terms){
		.node = asks ? TW_NODE_NEW : 2,
		.boot = 1,
		.own = 1,
		.own_boot = 1,
		.master = 1,
		.servers = 1,
		.run = job_of(l) == l->job ? 77 : 78,
		.job = g->job,
		.layout = g->layout,
		.data = asks ? l->data : g->data,
		.data_bytes = l->set_bytes,
		.every = TW_SECOND,
		.suspect = 5 * TW_SECOND,
		.limit = 15 * TW_SECOND,
	};
	say(fd, &m, NULL, 0);
}

/* False: it hangs up. */
static bool give(struct liar *l, int fd, const struct tw_body_data *b)
{
	struct tw_msg m = { .h.type = TW_DATA, .b.data = *b };
	const uint8_t *from = b->what == TW_DATA_JOB   ? (const uint8_t *)job_of(l)
			      : b->what == TW_DATA_SET ? l->set
						       : l->model;

	if (b->what == TW_DATA_JOB && !b->bytes)
		m.b.data.bytes = strlen(job_of(l));
	l->sets += b->what == TW_DATA_SET;
	l->models += b->what == TW_DATA_MODEL;
	if (b->what != TW_DATA_MODEL && dies(l))
		return false;
	if (b->what == TW_DATA_MODEL && b->from + b->bytes > l->model_there)
		return false;
	say(fd, &m, from + b->from, b->bytes);
	return true;
}

static void say_over(struct liar *l, int fd)
{
	struct tw_msg m = { .h.type = TW_OVER };

	m.b.over = (struct tw_body_over){ .model_bytes = l->model_bytes, .model = l->model_hash };
	say(fd, &m, "{}", 2);
}

static void *talk(void *arg)
{
	void **both = arg;
	struct liar *l = both[0];
	const int fd = (int)(intptr_t)both[1];
	bool good = true;
	struct tw_msg m;

	free(both);
	while (good && hear(fd, &m)) {
		if (l->silent) {
			forget(&m);
			continue;
		}
		if (m.h.type == TW_GREET)
			say_terms(l, fd, &m.b.greet);
		if (m.h.type == TW_GREET && !(m.b.greet.flags & TW_GREET_ASK))
			say_over(l, fd);
		if (m.h.type == TW_DATA)
			good = give(l, fd, &m.b.data);
		forget(&m);
	}
	close(fd);
	return NULL;
}

/* Each connection has a thread; all end with their connections. */
static void *listen_to_all(void *arg)
{
	struct liar *l = arg;
	pthread_t thread[64];
	int threads = 0, fd;

	while ((fd = accept(l->listener, NULL, NULL)) >= 0 && threads < 64) {
		void **both = malloc(2 * sizeof *both);

		both[0] = l;
		both[1] = (void *)(intptr_t)fd;
		pthread_create(&thread[threads++], NULL, talk, both);
	}
	while (threads)
		pthread_join(thread[--threads], NULL);
	return NULL;
}

static void lie(struct liar *l)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof at;

	l->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(l->listener, (struct sockaddr *)&at, sizeof at), 0);
	assert_int_equal(listen(l->listener, 16), 0);
	assert_int_equal(getsockname(l->listener, (struct sockaddr *)&at, &len), 0);
	l->port = ntohs(at.sin_port);
	assert_int_equal(pthread_create(&l->thread, NULL, listen_to_all, l), 0);
}

static void be_silent(struct liar *l)
{
	shutdown(l->listener, SHUT_RDWR);
	pthread_join(l->thread, NULL);
	close(l->listener);
}

/* Join it as a user would. */
static enum tw_status join(struct liar *l, const char *save, struct tw_error *why)
{
	struct tw_address master = { .host = "127.0.0.1" };
	struct tw_tcp_setup net;
	const struct tw_join_request q = {
		.master = &master,
		.net = &net,
		.patience = l->patience ? l->patience : 5 * TW_SECOND,
		.log = &(struct tw_log){ 0 },
		.master_fd = -1,
		.wish = TW_NODE_NEW,
		.save = save,
	};
	json_t *result = NULL;
	enum tw_status status;

	*why = (struct tw_error){ 0 };
	lie(l);
	master.port = l->port;
	tw_tcp_setup_init(&net);
	status = tw_join(&q, &result, why);
	tw_tcp_setup_release(&net);
	be_silent(l);
	json_decref(result);
	return status;
}

/* --- the model -------------------------------------------------------------------------------- */

static void models_are_checked(void **state)
{
	static const float values[3] = { 1, 2, 3 };
	const struct tw_safe_tensor tensor = { .name = "w",
					       .type = TW_SAFE_F32,
					       .rank = 1,
					       .d = { 3 },
					       .count = 3,
					       .data = (const uint8_t *)values,
					       .bytes = sizeof values };
	static const uint8_t nonsense[500] = "this is no model";
	enum { HONEST, OTHER_HASH, NONSENSE, TOO_LARGE, CUT, NOTHING, CASES };
	static const struct {
		enum tw_status status;
		const char *says;
	} expected[CASES] = {
		[HONEST] = { TW_OK, "" },
		[OTHER_HASH] = { TW_BAD_BYTES, "its hash differs" },
		[NONSENSE] = { TW_BAD_BYTES, "cannot be read" },
		[TOO_LARGE] = { TW_BAD_BYTES, "more than such a model can have" },
		[CUT] = { TW_IO, "closed the connection" },
		[NOTHING] = { TW_IO, "the master did not give the model" },
	};
	struct tw_block *file = NULL;

	assert_int_equal(tw_safe_write(&tw_heap_system, &tensor, 1, NULL, &file), TW_OK);
	for (int k = 0; k < CASES; k++) {
		struct liar l = {
			.job = "data: {samples: 4096, batch: 4}\n"
			       "model: {quadratic: {dimension: 20}}\n",
			.model = k == NONSENSE ? nonsense : file->data,
			.model_bytes = k == NONSENSE ? sizeof nonsense : file->bytes,
		};
		char path[600];
		struct tw_error why;
		struct stat there;

		snprintf(path, sizeof path, "%s/kept/model-%d", scratch(), k);
		assert_int_equal(tw_sha_of(l.model, l.model_bytes, &l.model_hash), TW_OK);
		l.model_there = l.model_bytes;
		l.model_hash.b[0] ^= k == OTHER_HASH;
		if (k == CUT)
			l.model_there--;
		if (k == TOO_LARGE)
			l.model_bytes = (uint64_t)1 << 60;
		if (k == NOTHING)
			l.model_bytes = 0;
		if (join(&l, path, &why) != expected[k].status ||
		    !strstr(why.text, expected[k].says))
			fail_msg("%d: %s", k, why.text);
		if (k != HONEST)
			assert_non_null(strstr(why.text, "thalweg export"));
		assert_true((l.models > 0) == (k != TOO_LARGE && k != NOTHING));
		assert_true((stat(path, &there) == 0) == (k == HONEST));
		if (k == HONEST)
			assert_int_equal(there.st_size, file->bytes);
	}
	/* nothing else is left there */
	{
		DIR *dir = opendir(path_of("kept"));
		int files = 0;

		for (struct dirent *e; (e = readdir(dir));)
			files += e->d_name[0] != '.' || strlen(e->d_name) > 2;
		closedir(dir);
		assert_int_equal(files, 1);
	}
	tw_block_drop(file);
}

/* --- paths ------------------------------------------------------------------------------------ */

static struct tw_sha drawn(void)
{
	struct tw_job *job = good_job("data: {source: digits, count: 20, tests: 10, batch: 1}\n"
				      "model: {layers: [flatten, linear 10]}\n",
				      NULL, TW_WORLD_TCP);
	struct tw_error why = { 0 };
	struct tw_data *d = NULL;
	struct tw_sha hash;

	assert_int_equal(tw_job_open_data(job, &tw_heap_system, &d, &why), TW_OK);
	hash = d->fingerprint;
	tw_data_close(d);
	tw_job_free(job);
	return hash;
}

/* It names a file of the joiner's machine, and hopes that it is trained on. */
static void named_files_are_not_read(void **state)
{
	static const char *const jobs[] = {
		"data: {source: csv, file: '%s/secret', header: 'no', separator: ':', batch: 1}\n"
		"model: {layers: [linear 2]}\n",
		"data: {source: npy, x: '%s/secret', y: '%s/secret', batch: 1}\n"
		"model: {layers: [linear 2]}\n",
		"data: {source: idx, images: '%s/secret', labels: '%s/secret', batch: 1}\n"
		"model: {layers: [flatten, linear 2]}\n",
		"data: {source: mnist, path: '%s', batch: 1}\nmodel: lenet\n",
		"data: {source: digits, count: 20, tests: 10, batch: 1}\n"
		"model: {layers: [flatten, linear 10], weights: '%s/secret'}\n",
	};
	char where[600];
	int watch;

	snprintf(where, sizeof where, "%s/private", scratch());
	assert_int_equal(mkdir(where, 0700), 0);
	put("private/secret", "root:1:2\nuser:3:4\n", 18);
	put("private/train-images-idx3-ubyte", "secret", 6);
	watch = watch_on(where, ANYTHING);
	for (size_t k = 0; k < sizeof jobs / sizeof jobs[0]; k++) {
		static const uint8_t set[40000] = "not a set either";
		struct liar l = { .set = set, .set_bytes = sizeof set };
		struct tw_error why;
		char job[1500];

		snprintf(job, sizeof job, jobs[k], where, where);
		l.job = job;
		l.data.b[0] = 1; /* some data set; of the last one the very one that is drawn */
		if (k + 1 == sizeof jobs / sizeof jobs[0])
			l.data = drawn();
		assert_int_equal(join(&l, NULL, &why), TW_BAD_BYTES);
		assert_true(l.sets > 0); /* the joiner asked the master instead */
		if (was_touched(watch))
			fail_msg("%s was opened", job);
	}
	close(watch);
}

/* --- deaths ----------------------------------------------------------------------------------- */

/* It dies at each question for the job once, and comes back. */
static void a_master_that_comes_back_is_asked_again(void **state)
{
	static const char *const jobs[] = {
		"data: {samples: 4096, batch: 4}\nmodel: {quadratic: {dimension: 20}}\n",
		"data: {samples: 4096, batch: 4}\nmodel: {quadratic: {dimension: 30}}\n",
	};

	for (int other = 0; other < 2; other++)
		for (int deaths = 0; deaths < 3; deaths++) {
			struct liar l = { .job = jobs[0],
					  .next_job = other ? jobs[1] : NULL,
					  .deaths = deaths };
			struct tw_error why;

			l.patience = 60 * TW_SECOND;
			if (join(&l, NULL, &why) != TW_OK)
				fail_msg("%d deaths: %s", deaths, why.text);
			assert_int_equal(l.died, deaths);
		}
}

/* The same in the middle of a data set: what follows is judged as if nothing had happened. */
static void data_is_asked_for_again(void **state)
{
	static const uint8_t set[40000] = "not a set either";
	struct liar l = { .job = "data: {source: npy, x: x, y: y, batch: 1}\n"
				 "model: {layers: [linear 2]}\n",
			  .set = set,
			  .set_bytes = sizeof set,
			  .deaths = 3,
			  .patience = 60 * TW_SECOND };
	struct tw_error why;

	l.data.b[0] = 1;
	if (join(&l, NULL, &why) != TW_BAD_BYTES)
		fail_msg("%s", why.text);
	assert_int_equal(l.died, 3); /* length, job, data */
	assert_true(l.sets > 1);
}

/* Who does not come back, and who never answers, is given up when the user's patience is over. */
static void patience_ends(void **state)
{
	for (int silent = 0; silent < 2; silent++) {
		struct liar l = { .job = "data: {samples: 4096, batch: 4}\n"
					 "model: {quadratic: {dimension: 20}}\n",
				  .deaths = -1,
				  .silent = silent,
				  .patience = TW_SECOND / 2 };
		const int64_t began = tw_clock();
		struct tw_error why;

		assert_int_equal(join(&l, NULL, &why), TW_IO);
		assert_non_null(strstr(why.text,
				       silent ? "gave no answer in" : "it closed the connection"));
		assert_true(tw_clock() - began < 15 * TW_SECOND);
		assert_true(silent || l.died > 1);
	}
}

static int setup(void **state)
{
	if (scratch_make(state) || setenv("XDG_CACHE_HOME", path_of("cache"), 1))
		return -1;
	return mkdir(path_of("kept"), 0700);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(models_are_checked),
		cmocka_unit_test(named_files_are_not_read),
		cmocka_unit_test(a_master_that_comes_back_is_asked_again),
		cmocka_unit_test(data_is_asked_for_again),
		cmocka_unit_test(patience_ends),
	};

	return cmocka_run_group_tests(tests, setup, scratch_remove);
}
