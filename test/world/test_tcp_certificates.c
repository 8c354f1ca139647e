/* SPDX-License-Identifier: Apache-2.0 */
/* test_tcp_certificates.c - joiners and masters with certificates that they should not have: each
 * is refused at once, with the reason, and the master goes on. */
#include "kit/authority.h"
#include "kit/has.h"
#include "kit/scratch.h"
#include "world/tcp_kit.h"

#include <openssl/pem.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#define DAY  86400
#define HERE "DNS:localhost,IP:127.0.0.1"

static struct authority ours, theirs, namesake, member;

enum { DIALS, SERVES };

/* What one side shows; the other side's papers are as they should be. */
struct row {
	const char *name;
	const struct authority *signer; /* NULL: itself */
	const char *names, *usage;
	long from, to; /* from 0: it has expired when it is shown */
	bool chain;    /* the signer's certificate is shown as well */
	int side;
	const char *says; /* to the joiner; NULL: it is let in */
};

static const struct row rows[] = {
	{ "good", &ours, HERE, NULL, -DAY, DAY, false, DIALS, NULL },
	{ "client", &ours, HERE, "clientAuth", -DAY, DAY, false, DIALS, NULL },
	{ "server", &ours, HERE, "serverAuth", -DAY, DAY, false, SERVES, NULL },
	/* who dials is not asked for a name */
	{ "elsewhere", &ours, "DNS:elsewhere", NULL, -DAY, DAY, false, DIALS, NULL },
	{ "misplaced", &ours, "DNS:elsewhere", NULL, -DAY, DAY, false, SERVES,
	  "is for another name" },
	{ "alien-joiner", &theirs, HERE, NULL, -DAY, DAY, false, DIALS, "unknown ca" },
	{ "alien-master", &theirs, HERE, NULL, -DAY, DAY, false, SERVES, "is not trusted" },
	/* another cluster's authority has the same name */
	{ "namesake-joiner", &namesake, HERE, NULL, -DAY, DAY, true, DIALS, "does not accept" },
	{ "namesake-master", &namesake, HERE, NULL, -DAY, DAY, true, SERVES, "is not trusted" },
	{ "self-joiner", NULL, HERE, NULL, -DAY, DAY, false, DIALS, "unknown ca" },
	{ "self-master", NULL, HERE, NULL, -DAY, DAY, false, SERVES, "is not trusted" },
	{ "early-joiner", &ours, HERE, NULL, DAY, 2 * DAY, false, DIALS, "does not accept" },
	{ "early-master", &ours, HERE, NULL, DAY, 2 * DAY, false, SERVES, "is not valid yet" },
	{ "old-joiner", &ours, HERE, NULL, 0, 2, false, DIALS, "certificate expired" },
	{ "old-master", &ours, HERE, NULL, 0, 2, false, SERVES, "has expired" },
	/* a member is no authority, whatever it signs */
	{ "signed-joiner", &member, HERE, NULL, -DAY, DAY, true, DIALS, "does not accept" },
	{ "signed-master", &member, HERE, NULL, -DAY, DAY, true, SERVES, "is not trusted" },
	/* the role in the certificate is not the one that is played */
	{ "server-joins", &ours, HERE, "serverAuth", -DAY, DAY, false, DIALS,
	  "unsupported certificate" },
	{ "client-serves", &ours, HERE, "clientAuth", -DAY, DAY, false, SERVES,
	  "certificate purpose" },
};
#define ROWS (sizeof rows / sizeof rows[0])

/* The master ends the run when the test says so. */
static _Atomic bool over;

static void look_again(struct tw_actor *a, struct tw_context *ctx)
{
	tw_timer(ctx, 1, 5 * MS);
}

static void look(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	if (over)
		fake_finish(ctx);
	else
		look_again(a, ctx);
}

static struct tw_tls *tls_of(const struct papers *p)
{
	const struct tw_tls_options o = papers_options(p);
	struct tw_error why = { .status = TW_OK };
	struct tw_tls *tls = NULL;

	if (tw_tls_new(&tw_heap_system, &o, &tls, &why) != TW_OK)
		fail_msg("%s", why.text);
	return tls;
}

static struct tw_tls *shown(const struct row *r)
{
	const struct paper_facts f = { .signer = r->signer,
				       .trusted = &ours,
				       .names = r->names,
				       .usage = r->usage,
				       .from = r->from,
				       .to = r->to };
	struct papers p;

	authority_write_fully(&f, scratch(), r->name, &p, NULL);
	if (r->chain) {
		FILE *file = fopen(p.certificate, "a");

		assert_int_equal(PEM_write_X509(file, r->signer->certificate), 1);
		assert_int_equal(fclose(file), 0);
	}
	return tls_of(&p);
}

/* Ask a master for its job. */
static enum tw_status ask(struct tw_tls *joiner, uint16_t port, struct tw_error *why)
{
	struct tw_tcp_facts facts;
	struct tw_tcp_ask *a = NULL;
	struct party p;
	enum tw_status status;

	party_worker(&p, NULL, port);
	p.o.tls = joiner;
	p.o.patience = 3 * TW_SECOND;
	status = tw_tcp_ask_open(&p.o, &a, &facts, why);
	tw_tcp_ask_close(a);
	party_close(&p);
	return status;
}

static void meet(const struct row *r, struct tw_tls *its, struct tw_tls *good)
{
	struct tw_tls *joiner = r->side == DIALS ? its : good;
	struct tw_error why = { 0 };
	enum tw_status status;
	struct party serve;

	party_serve(&serve, NULL);
	over = false;
	serve.master.fake.start = look_again;
	serve.master.fake.timer = look;
	serve.o.tls = r->side == SERVES ? its : good;
	party_run(&serve);
	status = ask(joiner, party_port(&serve), &why);
	if (status != (r->says ? TW_REFUSED : TW_OK))
		fail_msg("%s: %d %s", r->name, status, why.text);
	if (r->says)
		has(why.text, r->says);
	/* the master is still there for the others */
	if (r->side == DIALS)
		assert_int_equal(ask(good, party_port(&serve), &(struct tw_error){ 0 }), TW_OK);
	over = true;
	party_close(&serve);
}

static void each_certificate_is_judged(void **state)
{
	const struct row fine = { "fine", &ours, HERE, NULL, -DAY, DAY, false, DIALS, NULL };
	struct tw_tls *good = shown(&fine), *its[ROWS];

	for (size_t k = 0; k < ROWS; k++)
		its[k] = shown(&rows[k]);
	nanosleep(&(struct timespec){ .tv_sec = 3 }, NULL); /* some expire */
	for (size_t k = 0; k < ROWS; k++) {
		meet(&rows[k], its[k], good);
		tw_tls_free(its[k]);
	}
	tw_tls_free(good);
}

static int setup(void **state)
{
	const struct paper_facts f = {
		.signer = &ours, .trusted = &ours, .names = HERE, .from = -DAY, .to = DAY
	};
	struct papers p;

	if (scratch_make(state))
		return -1;
	authority_make(&ours, "our cluster");
	authority_make(&theirs, "their cluster");
	authority_make(&namesake, "our cluster");
	authority_write_fully(&f, scratch(), "member", &p, &member);
	return 0;
}

static int teardown(void **state)
{
	authority_release(&ours);
	authority_release(&theirs);
	authority_release(&namesake);
	authority_release(&member);
	return scratch_remove(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_certificate_is_judged),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
