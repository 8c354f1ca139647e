/* SPDX-License-Identifier: Apache-2.0 */
/* test_session_join.c - sessions of this process that join `thalweg serve`: with certificates, and
 * with the model at the end. */
/* labels: waits */
#include "thalweg.h"

#include "kit/authority.h"
#include "kit/scratch.h"
#include "model/safetensors.h"

#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define N       6
#define SAMPLES 24

static const char job[] = "model: {tensors: model.safetensors}\n"
			  "data: {samples: 24, batch: 2}\ntrain: {epochs: 2}\n"
			  "update: {rate: 0.1}\ncluster: {workers: 2}\nstrategy: ssgd\n";

/* Two tensors, one of them a number; all values 1. */
static void put_model(void)
{
	const float values[N] = { 1, 1, 1, 1, 1, 1 };
	const struct tw_safe_tensor t[] = {
		{ .name = "weight",
		  .rank = 1,
		  .d = { 5 },
		  .count = 5,
		  .bytes = 20,
		  .data = (const uint8_t *)values },
		{ .name = "bias",
		  .rank = 0,
		  .count = 1,
		  .bytes = 4,
		  .data = (const uint8_t *)values },
	};
	struct tw_block *b = NULL;

	assert_int_equal(tw_safe_write(&tw_heap_system, t, 2, NULL, &b), TW_OK);
	put("model.safetensors", b->data, b->bytes);
	tw_block_drop(b);
	put_text("job.yaml", job);
}

/* The program of this build, with these words; its standard error goes to a file. */
static pid_t start(const char *words)
{
	char here[1000], line[1200];
	const ssize_t n = readlink("/proc/self/exe", here, sizeof here - 1);
	pid_t child;

	assert_true(n > 0);
	here[n] = '\0';
	*strrchr(here, '/') = '\0'; /* build/test */
	*strrchr(here, '/') = '\0';
	snprintf(line, sizeof line, "exec %s/thalweg %s >/dev/null 2>%s", here, words,
		 path_of("log"));
	child = fork();
	if (child == 0) {
		alarm(120); /* whatever hangs ends */
		execl("/bin/sh", "sh", "-c", line, (char *)NULL);
		_exit(127);
	}
	return child;
}

static void ends_well(pid_t child)
{
	int status = -1;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static pid_t serve(const char *more, char address[64])
{
	char words[800], log[4096];
	pid_t master;

	snprintf(words, sizeof words,
		 "serve %s/job.yaml --run %s/run --listen 127.0.0.1:0 --http off %s", scratch(),
		 scratch(), more);
	master = start(words);
	for (int k = 0; k < 600; k++) {
		const int fd = open(path_of("log"), O_RDONLY);
		const ssize_t n = fd < 0 ? 0 : read(fd, log, sizeof log - 1);
		const char *at;

		if (fd >= 0)
			close(fd);
		log[n > 0 ? n : 0] = '\0';
		at = strstr(log, "join 127.0.0.1:");
		if (at && strchr(at + 5, ' ')) {
			snprintf(address, 64, "%.*s", (int)strcspn(at + 5, " \n"), at + 5);
			return master;
		}
		usleep(50000);
	}
	fail_msg("it does not listen: %s", log);
	return master;
}

static struct thalweg_session_request request(const char *address)
{
	static const struct thalweg_tensor tensor[] = {
		{ .name = "weight", .rank = 1, .shape = { 5 } },
		{ .name = "bias", .rank = 0 },
	};

	return (struct thalweg_session_request){
		.size = sizeof(struct thalweg_session_request),
		.layout = { .tensor = tensor, .tensors = 2, .samples = SAMPLES },
		.address = address,
		.patience = 20,
	};
}

struct caller {
	struct thalweg_session *s;
	pthread_t thread;
	struct thalweg_error why;
};

static void *loop(void *arg)
{
	struct caller *c = arg;
	struct thalweg_task t;
	enum thalweg_got got;

	while ((got = thalweg_next(c->s, 100, NULL, &t, &c->why)) != THALWEG_END)
		if (got == THALWEG_TASK) {
			for (size_t i = 0; i < N; i++)
				t.vector[i] = t.parameters[i] - (float)(t.sample[0] % 4);
			thalweg_done(c->s, &t, &(struct thalweg_answer){ .loss = 1 }, NULL);
		}
	return NULL;
}

static void join_cluster(struct caller *c, const struct thalweg_session_request *q)
{
	*c = (struct caller){ 0 };
	if (thalweg_session_open(q, &c->s, &c->why) != THALWEG_OK)
		fail_msg("%s", c->why.text);
	assert_int_equal(pthread_create(&c->thread, NULL, loop, c), 0);
}

static void has_ended(struct caller *c)
{
	pthread_join(c->thread, NULL);
	if (c->why.status != THALWEG_OK)
		fail_msg("%s", c->why.text);
}

static uint8_t *bytes_of(const char *path, size_t *n)
{
	FILE *f = fopen(path, "rb");
	uint8_t *bytes = calloc(1, 4096);

	assert_true(f && bytes);
	*n = fread(bytes, 1, 4096, f);
	fclose(f);
	return bytes;
}

/* What the session has is what `thalweg export` writes; its parameters are in the file. */
static void same_model(struct thalweg_session *s)
{
	const char *saved = path_of("saved.safetensors");
	char words[600];
	struct thalweg_error why = { 0 };
	size_t count = 0, n, m;
	const float *w = thalweg_session_parameters(s, &count);
	struct tw_error bad = { 0 };
	struct tw_safe safe;
	float x[N];
	uint8_t *ours, *theirs;

	assert_non_null(w);
	assert_int_equal(count, N);
	if (thalweg_session_save(s, saved, &why) != THALWEG_OK)
		fail_msg("%s", why.text);
	snprintf(words, sizeof words, "export %s/run --to %s/exported.safetensors", scratch(),
		 scratch());
	ends_well(start(words));
	ours = bytes_of(saved, &n);
	theirs = bytes_of(path_of("exported.safetensors"), &m);
	assert_int_equal(n, m);
	assert_memory_equal(ours, theirs, n);
	assert_int_equal(tw_safe_read(&tw_heap_system, ours, n, &safe, &bad), TW_OK);
	assert_int_equal(tw_safe_floats(tw_safe_find(&safe, "weight"), x), TW_OK);
	assert_int_equal(tw_safe_floats(tw_safe_find(&safe, "bias"), x + 5), TW_OK);
	assert_memory_equal(x, w, sizeof x);
	assert_true(x[0] != 1.0f);
	tw_safe_release(&safe);
	free(ours);
	free(theirs);
}

/* One keeps the model, the other does not, and says how it could. */
static void the_model_at_the_end(void **state)
{
	struct thalweg_session_request q;
	struct thalweg_error why = { 0 };
	struct caller one, other;
	pid_t master;
	char address[64];

	put_model();
	master = serve("", address);
	q = request(address);
	join_cluster(&other, &q);
	q.keep = 1;
	join_cluster(&one, &q);
	has_ended(&one);
	has_ended(&other);
	ends_well(master);
	same_model(one.s);
	assert_null(thalweg_session_parameters(other.s, NULL));
	assert_int_equal(thalweg_session_save(other.s, path_of("no"), &why), THALWEG_ABSENT);
	assert_non_null(strstr(why.text, "`keep`"));
	thalweg_session_close(one.s, NULL);
	thalweg_session_close(other.s, NULL);
}

static void refused(const struct thalweg_session_request *q, const char *part)
{
	struct thalweg_session *s = NULL;
	struct thalweg_error why = { 0 };

	assert_int_not_equal(thalweg_session_open(q, &s, &why), THALWEG_OK);
	assert_null(s);
	if (!strstr(why.text, part))
		fail_msg("'%s' lacks '%s'", why.text, part);
}

/* --- samples of one's own --------------------------------------------------------------------- */

#define CALLERS 5
#define EPOCHS  3
#define ROOM    10

struct owner {
	struct thalweg_session *s;
	pthread_t thread;
	uint64_t samples, stop_after, steps;
	unsigned times[EPOCHS][ROOM];
	bool strange; /* it was asked for what it does not have */
	struct thalweg_error why;
};

/* Its data are points around its own number of samples. */
static void *own_loop(void *arg)
{
	struct owner *o = arg;
	struct thalweg_task t;
	enum thalweg_got got;

	while ((got = thalweg_next(o->s, 100, NULL, &t, &o->why)) != THALWEG_END) {
		if (got != THALWEG_TASK)
			continue;
		for (uint64_t k = 0; k < t.count; k++) {
			if (t.epoch < EPOCHS && t.sample[k] < o->samples)
				o->times[t.epoch][t.sample[k]]++;
			else
				o->strange = true;
		}
		for (size_t i = 0; i < N; i++)
			t.vector[i] = t.parameters[i] - (float)o->samples;
		thalweg_done(o->s, &t, &(struct thalweg_answer){ .loss = 1 }, NULL);
		if (++o->steps == o->stop_after)
			thalweg_session_stop(o->s);
		if (o->stop_after && o->steps >= o->stop_after) /* so that it is heard */
			usleep(50000);
	}
	return NULL;
}

static uint64_t result_of(const char *group, const char *name)
{
	json_error_t bad;
	json_t *all = json_load_file(path_of("run/result.json"), 0, &bad), *at;
	uint64_t value;

	assert_non_null(all);
	at = group ? json_object_get(all, group) : all;
	assert_true(json_is_integer(json_object_get(at, name)));
	value = (uint64_t)json_integer_value(json_object_get(at, name));
	json_decref(all);
	return value;
}

static void open_owner(struct owner *o, const char *address, uint64_t samples, uint64_t stop_after)
{
	struct thalweg_session_request q = request(address);

	*o = (struct owner){ .samples = samples, .stop_after = stop_after };
	q.layout.samples = samples;
	q.layout.data = "mine"; /* nobody compares it */
	if (thalweg_session_open(&q, &o->s, &o->why) != THALWEG_OK)
		fail_msg("%s", o->why.text);
	assert_int_equal(pthread_create(&o->thread, NULL, own_loop, o), 0);
}

/* Five callers of different data: each is asked for its own samples, once in an epoch; what one
 * that left had is asked of nobody. */
static void own_data(const char *strategy, bool leaves)
{
	static const uint64_t has[CALLERS] = { 4, 9, 2, 7, 10 };
	struct thalweg_session_request q;
	struct owner o[CALLERS];
	char address[64], text[500];
	uint64_t all = 0;
	pid_t master;

	put_model();
	snprintf(text, sizeof text,
		 "model: {tensors: model.safetensors}\n"
		 "data: {samples: 50, batch: 2, placement: own}\ntrain: {epochs: 3}\n"
		 "update: {rate: 0.1}\ncluster: {workers: 5}\nstrategy: %s\n",
		 strategy);
	put_text("job.yaml", text);
	master = serve("", address);
	q = request(address);
	q.layout.samples = ROOM + 1;
	refused(&q, "room for 10 of each caller");
	for (int k = 0; k < CALLERS; k++) {
		open_owner(&o[k], address, has[k], leaves && k == 4 ? 3 : 0);
		all += has[k];
	}
	for (int k = 0; k < CALLERS; k++) {
		pthread_join(o[k].thread, NULL);
		if (o[k].why.status != THALWEG_OK)
			fail_msg("%s", o[k].why.text);
		thalweg_session_close(o[k].s, NULL);
		assert_false(o[k].strange);
		for (int e = 0; e < EPOCHS && !(leaves && k == 4); e++)
			for (uint64_t i = 0; i < ROOM; i++)
				assert_int_equal(o[k].times[e][i], i < has[k]);
	}
	ends_well(master);
	assert_int_equal(result_of(NULL, "samples") + result_of("own", "unreachable") +
				 result_of("own", "vacant"),
			 EPOCHS * CALLERS * ROOM);
	if (leaves)
		assert_true(result_of(NULL, "samples") < EPOCHS * all);
	else
		assert_int_equal(result_of(NULL, "samples"), EPOCHS * all);
}

static void own_data_in_rounds(void **state)
{
	own_data("{name: averaging, push: 2}", false);
}

static void own_data_with_fedbuff(void **state)
{
	own_data("{name: fedbuff, push: 2}", false);
}

static void own_data_with_fedasync(void **state)
{
	own_data("{name: fedasync, push: 2}", false);
}

static void own_data_that_leaves(void **state)
{
	own_data("{name: averaging, push: 2}", true);
}

static void certificates(void **state)
{
	struct authority good, bad;
	struct papers head, mine, strange;
	struct thalweg_session_request q;
	struct caller c[2];
	pid_t master;
	char address[64], flags[400];

	put_model();
	authority_make(&good, "cluster");
	authority_make(&bad, "elsewhere");
	authority_write(&good, &good, scratch(), "head", "IP:127.0.0.1", -60, 3600, &head);
	authority_write(&good, &good, scratch(), "mine", "IP:127.0.0.1", -60, 3600, &mine);
	authority_write(&bad, &bad, scratch(), "strange", "IP:127.0.0.1", -60, 3600, &strange);
	snprintf(flags, sizeof flags, "--certificate %s --certificate-key %s --authority %s",
		 head.certificate, head.private_key, head.authority);
	master = serve(flags, address);
	q = request(address);
	q.patience = 1.5;
	q.certificate = mine.certificate;
	refused(&q, "all three of certificate, certificate_key and authority");
	q.certificate_key = mine.private_key;
	q.authority = mine.authority;
	q.key = "cluster.key";
	refused(&q, "key and certificate cannot be combined");
	q.key = NULL;
	q.certificate = "/none.crt";
	refused(&q, "/none.crt");
	q.certificate = strange.certificate;
	q.certificate_key = strange.private_key;
	q.authority = strange.authority;
	refused(&q, "certificate");
	q.certificate = mine.certificate;
	q.certificate_key = mine.private_key;
	q.authority = mine.authority;
	q.patience = 20;
	join_cluster(&c[0], &q);
	join_cluster(&c[1], &q);
	for (int k = 0; k < 2; k++) {
		has_ended(&c[k]);
		thalweg_session_close(c[k].s, NULL);
	}
	ends_well(master);
	authority_release(&good);
	authority_release(&bad);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_model_at_the_end, scratch_make, scratch_remove),
		cmocka_unit_test_setup_teardown(certificates, scratch_make, scratch_remove),
		cmocka_unit_test_setup_teardown(own_data_in_rounds, scratch_make, scratch_remove),
		cmocka_unit_test_setup_teardown(own_data_with_fedbuff, scratch_make,
						scratch_remove),
		cmocka_unit_test_setup_teardown(own_data_with_fedasync, scratch_make,
						scratch_remove),
		cmocka_unit_test_setup_teardown(own_data_that_leaves, scratch_make, scratch_remove),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
