/* SPDX-License-Identifier: Apache-2.0 */
/* session_join.c - a session that joins a cluster: its model compared with the master's, its loop a
 * worker's process in a thread. */
#include "api/layout.h"
#include "api/session.h"

#include "base/machine/clock.h"
#include "checkpoint/export.h"
#include "checkpoint/tensors.h"
#include "engine/outside.h"
#include "run/join.h"
#include "wire/key.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE    600.0
#define CANCEL_LOOK (TW_SECOND / 20) /* between two looks at the caller's wish */

struct tw_session_join {
	struct tw_tcp_setup net;
	struct tw_tls *tls; /* NULL: in the clear */
	struct tw_address master, listen;
	int64_t patience;
	char *save;
	/* while it is opened: the caller's */
	const struct thalweg_session_request *q;
	const struct tw_own_layout *layout;
	pthread_mutex_t lock;
	pthread_cond_t known;
	bool fits,
		over; /* guarded by lock: the master's job is here and fits; the loop has ended */
};

/* --- the request ------------------------------------------------------------------------------ */

static enum tw_status check_tls(const struct thalweg_session_request *q, struct tw_error *why)
{
	const bool any = q->certificate || q->certificate_key || q->authority;

	if (q->key && any)
		return tw_fail(why, TW_BAD_INPUT,
			       "key and certificate cannot be combined: a cluster uses one or the "
			       "other");
	if (any && !(q->certificate && q->certificate_key && q->authority))
		return tw_fail(why, TW_BAD_INPUT,
			       "certificates need all three of certificate, certificate_key and "
			       "authority");
	return TW_OK;
}

static enum tw_status open_tls(struct tw_session_join *j, const struct thalweg_session_request *q,
			       struct tw_error *why)
{
	uint8_t key[TW_KEY_BYTES];
	const struct tw_tls_options o = { .key = q->key ? key : NULL,
					  .certificate = q->certificate,
					  .private_key = q->certificate_key,
					  .authority = q->authority };
	enum tw_status st = check_tls(q, why);

	if (st != TW_OK || (!q->key && !q->certificate))
		return st;
	if (q->key)
		st = tw_key_read(q->key, key, why);
	if (st == TW_OK)
		st = tw_tls_new(&tw_heap_system, &o, &j->tls, why);
	OPENSSL_cleanse(key, sizeof key);
	j->net.tls = j->tls;
	return st;
}

static enum tw_status check(struct tw_session_join *j, const struct thalweg_session_request *q,
			    struct tw_error *why)
{
	const double seconds = q->patience == 0.0 ? PATIENCE : q->patience;
	struct tw_error said = { 0 };
	enum tw_status st;

	if (!(seconds < 1e9))
		return tw_fail(
			why, TW_BAD_INPUT,
			"patience: %g seconds are no time to wait; use up to 1e9, 0 for 600, "
			"or a negative number for ever",
			q->patience);
	j->patience = seconds < 0 ? 0 : (int64_t)(seconds * (double)TW_SECOND);
	st = tw_address_parse(q->address, TW_PORT, &j->master, &said);
	if (st != TW_OK)
		return tw_fail(why, st, "address: %s", said.text);
	if (q->save)
		st = tw_save_check(q->save, why);
	if (st == TW_OK && q->save && !(j->save = strdup(q->save)))
		st = tw_fail(why, TW_NO_MEMORY, "no memory for a session");
	return st == TW_OK ? open_tls(j, q, why) : st;
}

/* A worker of a job without servers listens: as far as its master is, and no farther unless there
 * is a key. */
static enum tw_status listen_here(void *arg, struct tw_error *why)
{
	struct tw_session_join *j = arg;
	bool loopback = false;
	const enum tw_status st = tw_address_is_loopback(&j->master, &loopback, why);

	if (st != TW_OK)
		return st;
	if (!loopback && !j->tls)
		return tw_fail(why, TW_BAD_INPUT,
			       "other machines could reach it, and there is no key: give `key`, or "
			       "certificates");
	j->listen = (struct tw_address){ .host = "" };
	if (!j->tls)
		strcpy(j->listen.host, strchr(j->master.host, ':') ? "::1" : "127.0.0.1");
	j->net.listen = &j->listen;
	return TW_OK;
}

/* --- the model -------------------------------------------------------------------------------- */

struct list {
	const struct tw_log *log; /* gets all of them */
	char text[420];
	size_t n, named, more;
};

/* "weight is 3x4 here and 4x3 there", as many as there is room for. */
static void differs(struct list *l, const char *format, const char *name, const char *a,
		    const char *b)
{
	char one[600];

	snprintf(one, sizeof one, format, name, a, b);
	tw_log_line(l->log, TW_ERROR, "session", "%s", one);
	if (l->n + strlen(one) + 3 >= sizeof l->text) {
		l->more++;
		return;
	}
	l->n += (size_t)snprintf(l->text + l->n, sizeof l->text - l->n, "%s%s",
				 l->named++ ? "; " : "", one);
}

static const char *shape(const struct tw_safe_tensor *t, bool buffer, char out[TW_TENSOR_SHAPE])
{
	struct tw_tensor plain = { .rank = t->rank };
	char text[TW_TENSOR_SHAPE];

	memcpy(plain.d, t->d, sizeof plain.d);
	tw_tensors_shape(&plain, text);
	snprintf(out, TW_TENSOR_SHAPE, "%.100s%s", *text ? text : "a number",
		 buffer ? " (a buffer)" : "");
	return out;
}

static size_t find(const struct tw_safe_tensor *t, size_t tensors, const char *name)
{
	size_t k = 0;

	while (k < tensors && strcmp(t[k].name, name) != 0)
		k++;
	return k;
}

static bool same(const struct tw_safe_tensor *a, const struct tw_safe_tensor *b)
{
	return a->rank == b->rank && memcmp(a->d, b->d, a->rank * sizeof a->d[0]) == 0;
}

static enum tw_status compare(const struct tw_own_layout *mine, const struct tw_engine *e,
			      const struct tw_log *log, struct tw_error *why)
{
	size_t tensors = 0, trained = 0;
	const struct tw_safe_tensor *theirs = tw_outside_tensors(e, &tensors, &trained);
	char a[TW_TENSOR_SHAPE], b[TW_TENSOR_SHAPE];
	struct list l = { .log = log };

	for (size_t k = 0; k < mine->tensors; k++) {
		const struct tw_safe_tensor *t = &mine->tensor[k];
		const size_t i = find(theirs, tensors, t->name);
		const bool buffer = k >= mine->trained;

		if (i == tensors)
			differs(&l, "%s (%s) is not in the master's%s", t->name,
				shape(t, buffer, a), "");
		else if (!same(t, &theirs[i]) || buffer != (i >= trained))
			differs(&l, "%s is %s here and %s there", t->name, shape(t, buffer, a),
				shape(&theirs[i], i >= trained, b));
	}
	for (size_t i = 0; i < tensors; i++)
		if (find(mine->tensor, mine->tensors, theirs[i].name) == mine->tensors)
			differs(&l, "%s (%s) is only in the master's%s", theirs[i].name,
				shape(&theirs[i], i >= trained, a), "");
	for (size_t k = 0; !l.named && k < tensors; k++)
		if (strcmp(mine->tensor[k].name, theirs[k].name) != 0) {
			differs(&l, "they are the same in another order: %s%s stands where %s does",
				"", mine->tensor[k].name, theirs[k].name);
			break;
		}
	if (!l.named)
		return TW_OK;
	snprintf(a, sizeof a, "; and %zu more", l.more);
	return tw_fail(why, TW_BAD_INPUT,
		       "the layout is not that of the master's model.tensors: %s%s", l.text,
		       l.more ? a : "");
}

static enum tw_status compare_tests(const struct thalweg_layout *l, const struct tw_job_external *x,
				    struct tw_error *why)
{
	if (!l->samples || l->tests == x->tests)
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT,
		       "the layout has %llu test samples, and the master's job %llu (model.tests)",
		       (unsigned long long)l->tests, (unsigned long long)x->tests);
}

/* data.placement own: the caller's samples are his own, and nobody compares them. */
static enum tw_status take_own(const struct thalweg_layout *l, struct tw_job *job,
			       struct tw_engine *e, struct tw_error *why)
{
	const uint64_t room = job->data.samples / job->cluster.workers;

	if (l->samples > room)
		return tw_fail(why, TW_BAD_INPUT,
			       "the layout has %llu samples, and the master's job has room for "
			       "%llu of each caller (data.samples %llu, cluster.workers %u); use "
			       "some of them, or a job with more data.samples",
			       (unsigned long long)l->samples, (unsigned long long)room,
			       (unsigned long long)job->data.samples, job->cluster.workers);
	job->plan.dealing.own = l->samples;
	e->order.own = l->samples;
	return compare_tests(l, &job->engine.external, why);
}

static enum tw_status compare_data(const struct thalweg_layout *l, const struct tw_job *job,
				   struct tw_error *why)
{
	const struct tw_job_external *x = &job->engine.external;

	if (l->samples && l->samples != job->data.samples)
		return tw_fail(why, TW_BAD_INPUT,
			       "the layout has %llu samples, and the master's job %llu "
			       "(data.samples)",
			       (unsigned long long)l->samples,
			       (unsigned long long)job->data.samples);
	if (compare_tests(l, x, why) != TW_OK)
		return why->status;
	if (*x->data && (!l->data || strcmp(l->data, x->data) != 0))
		return tw_fail(why, TW_BAD_INPUT,
			       "the data is '%.100s' here, and '%.100s' in the master's job "
			       "(model.data)",
			       l->data ? l->data : "", x->data);
	if (l->data && *l->data && !*x->data)
		return tw_fail(why, TW_BAD_INPUT,
			       "the data is '%.100s' here, and the master's job does not say which "
			       "it is: set its model.data, or leave `data` NULL",
			       l->data);
	return TW_OK;
}

/* The master's job is here: on the loop's thread, while the caller waits in open. */
static enum tw_status fit(void *arg, struct tw_job *job, struct tw_engine *e, struct tw_desk **desk,
			  struct tw_error *why)
{
	struct thalweg_session *s = arg;
	struct tw_session_join *j = s->join;
	enum tw_status st = compare(j->layout, e, &s->job->log, why);

	if (st == TW_OK && job->plan.dealing.subsets.own)
		st = take_own(&j->q->layout, job, e, why);
	else if (st == TW_OK)
		st = compare_data(&j->q->layout, job, why);
	s->scores = job->engine.external.tests > 0;
	if (st == TW_OK)
		st = tw_session_prepare(s, job, e, why);
	if (st != TW_OK)
		return st;
	*desk = s->desk;
	pthread_mutex_lock(&j->lock);
	j->fits = true;
	j->q = NULL;
	j->layout = NULL;
	pthread_cond_signal(&j->known);
	pthread_mutex_unlock(&j->lock);
	return TW_OK;
}

/* --- the model of the run --------------------------------------------------------------------- */

static enum tw_status unpack(const struct tw_safe *safe, const struct tw_engine *e, float *out,
			     struct tw_error *why)
{
	size_t tensors = 0, trained = 0;
	const struct tw_safe_tensor *t = tw_outside_tensors(e, &tensors, &trained);

	for (size_t k = 0; k < tensors; k++) {
		const struct tw_safe_tensor *from = tw_safe_find(safe, t[k].name);

		if (!from || !same(from, &t[k]) ||
		    tw_safe_floats(from, out + e->tensor[k]) != TW_OK)
			return tw_fail(why, TW_BAD_BYTES, "it has another tensor %s, or none",
				       t[k].name);
	}
	return TW_OK;
}

/* The model of the run is here: on the loop's thread, before anybody hears of the end. */
static enum tw_status keep_model(void *arg, const struct tw_engine *e, struct tw_block *model,
				 struct tw_error *why)
{
	struct thalweg_session *s = arg;
	const size_t floats = e->trainable + e->buffers;
	float *vector = s->heap->get(s->heap, floats * sizeof *vector);
	struct tw_safe safe = { 0 };
	enum tw_status st;

	if (!vector)
		return tw_fail(why, TW_NO_MEMORY, "no memory for its parameters");
	st = tw_safe_read(s->heap, model->data, model->bytes, &safe, why);
	if (st == TW_OK)
		st = unpack(&safe, e, vector, why);
	tw_safe_release(&safe);
	if (st != TW_OK) {
		s->heap->put(s->heap, vector);
		return st;
	}
	s->job->vector = vector;
	s->floats = floats;
	s->model = tw_block_keep(model);
	return TW_OK;
}

/* --- the loop --------------------------------------------------------------------------------- */

static void *loop(void *arg)
{
	struct thalweg_session *s = arg;
	struct tw_session_join *j = s->join;
	const struct tw_join_request q = {
		.master = &j->master,
		.net = &j->net,
		.patience = j->patience,
		.log = &s->job->log,
		.interrupted = &s->job->stop,
		.paths = { .no_values = true },
		.listen = listen_here,
		.listen_arg = j,
		.save = j->save,
		.keep = s->keeps ? keep_model : NULL,
		.keep_arg = s,
		.master_fd = -1,
		.wish = TW_NODE_NEW,
		.outside = fit,
		.outside_arg = s,
	};

	pthread_setname_np(pthread_self(), "session");
	tw_join(&q, &s->job->result, &s->why);
	if (s->job->result)
		s->job->json = json_dumps(s->job->result, JSON_COMPACT);
	tw_session_ended(s);
	pthread_mutex_lock(&j->lock);
	j->over = true;
	pthread_cond_signal(&j->known);
	pthread_mutex_unlock(&j->lock);
	return NULL;
}

/* The handle of a job that is elsewhere: who listens, the result, the wish to stop. */
static enum tw_status make_handle(struct thalweg_session *s,
				  const struct thalweg_session_request *q, struct tw_error *why)
{
	struct thalweg_job *h = tw_heap_zeros(s->heap, sizeof *h);

	if (!h || pthread_mutex_init(&h->voice, NULL) != 0) {
		s->heap->put(s->heap, h);
		return tw_fail(why, TW_NO_MEMORY, "no memory for a session");
	}
	h->heap = s->heap;
	h->listen = q->listen;
	h->user = q->user;
	h->log = (struct tw_log){ .sink = q->listen ? tw_api_log : NULL,
				  .arg = h,
				  .level = tw_api_level(q->verbosity) };
	s->job = h;
	return TW_OK;
}

static bool is_cancelled(const volatile int *cancel)
{
	return cancel && __atomic_load_n(cancel, __ATOMIC_ACQUIRE) != 0;
}

/* Wait until the master's job is here and fits (true), or never will. */
static bool await_job(struct tw_session_join *j, const volatile int *cancel, _Atomic int *stop)
{
	bool fits;

	pthread_mutex_lock(&j->lock);
	while (!j->fits && !j->over) {
		const int64_t until = tw_clock() + CANCEL_LOOK;
		const struct timespec at = { .tv_sec = until / TW_SECOND,
					     .tv_nsec = until % TW_SECOND };

		pthread_cond_timedwait(&j->known, &j->lock, &at);
		if (is_cancelled(cancel))
			atomic_store(stop, 2);
	}
	fits = j->fits;
	pthread_mutex_unlock(&j->lock);
	return fits;
}

enum tw_status tw_session_join(struct thalweg_session *s, const struct thalweg_session_request *q,
			       const struct tw_own_layout *layout, struct tw_error *why)
{
	struct tw_session_join *j = tw_heap_zeros(s->heap, sizeof *j);
	enum tw_status st = make_handle(s, q, why);
	pthread_condattr_t monotonic;
	bool fits;

	if (!j || st != TW_OK) {
		s->heap->put(s->heap, j);
		return st != TW_OK ? st : tw_fail(why, TW_NO_MEMORY, "no memory for a session");
	}
	s->join = j;
	tw_tcp_setup_init(&j->net);
	pthread_mutex_init(&j->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&j->known, &monotonic);
	pthread_condattr_destroy(&monotonic);
	j->q = q;
	j->layout = layout;
	s->keeps = q->keep;
	st = check(j, q, why);
	if (st == TW_OK)
		st = tw_session_start(s, loop, s, why);
	if (st != TW_OK)
		return st;
	fits = await_job(j, q->cancel, &s->job->stop);
	if (fits)
		return TW_OK;
	pthread_join(s->loop, NULL);
	tw_session_unlist(s);
	tw_session_await(s);
	if (is_cancelled(q->cancel)) {
		s->why = (struct tw_error){ .status = TW_OK };
		tw_fail(&s->why, TW_INTERRUPTED, "the join was cancelled");
	}
	if (s->why.status == TW_OK)
		tw_fail(&s->why, TW_ABSENT, "the run was over before this session joined it");
	*why = s->why;
	return why->status;
}

void tw_session_join_free(struct tw_session_join *j)
{
	if (!j)
		return;
	tw_tcp_setup_release(&j->net);
	tw_tls_free(j->tls);
	pthread_cond_destroy(&j->known);
	pthread_mutex_destroy(&j->lock);
	free(j->save);
	tw_heap_system.put(&tw_heap_system, j);
}
