/* SPDX-License-Identifier: Apache-2.0 */
/* cluster.c - the key, where to listen, pages over HTTP, and the line to paste. */
#include "cli/cluster.h"

#include "cli/rendezvous.h"
#include "cli/run_job.h"
#include "wire/key.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAKE_A_KEY "(umask 077; thalweg key > cluster.key)"

/* --- who is let in ---------------------------------------------------------------------------- */

static const char *variable(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

/* Where the key comes from, for sentences; NULL: there is none. */
static const char *key_from(const struct tw_link_flags *f)
{
	if (*f->key)
		return "--key";
	if (variable("THALWEG_KEY_FILE"))
		return "THALWEG_KEY_FILE";
	return variable("THALWEG_KEY") ? "THALWEG_KEY" : NULL;
}

static bool any_certificate(const struct tw_link_flags *f)
{
	return *f->certificate || *f->certificate_key || *f->authority;
}

static enum tw_status check_flags(const struct tw_link_flags *f, struct tw_error *why)
{
	const char *from = key_from(f);

	if (f->insecure && (from || any_certificate(f)))
		return tw_fail(why, TW_BAD_INPUT,
			       "--insecure and %s cannot be combined: leave out one of them",
			       from ? from : "a certificate");
	if (from && any_certificate(f))
		return tw_fail(why, TW_BAD_INPUT,
			       "%s and certificates cannot be combined: a cluster uses one or "
			       "the other",
			       from);
	if (any_certificate(f) && !(*f->certificate && *f->certificate_key && *f->authority))
		return tw_fail(why, TW_BAD_INPUT,
			       "certificates need all three of --certificate, --certificate-key "
			       "and --authority");
	return TW_OK;
}

static enum tw_status read_key(const struct tw_link_flags *f, uint8_t key[TW_KEY_BYTES],
			       struct tw_error *why)
{
	struct tw_error cause = { .status = TW_OK };
	const char *text;

	if (*f->key)
		return tw_key_read(f->key, key, why);
	text = variable("THALWEG_KEY_FILE");
	if (text)
		return tw_key_read(text, key, why);
	if (tw_key_parse(variable("THALWEG_KEY"), key, &cause) != TW_OK)
		return tw_fail(why, cause.status, "THALWEG_KEY: %s", cause.text);
	return TW_OK;
}

enum tw_status tw_link_open(struct tw_link *l, const struct tw_link_flags *flags,
			    const struct tw_log *log, struct tw_error *why)
{
	struct tw_tls_options o = { .key = NULL };
	uint8_t key[TW_KEY_BYTES];
	enum tw_status status;

	*l = (struct tw_link){ .flags = flags, .log = log };
	tw_tcp_setup_init(&l->net);
	status = check_flags(flags, why);
	if (status != TW_OK || (!key_from(flags) && !any_certificate(flags)))
		return status;
	if (any_certificate(flags)) {
		o.certificate = flags->certificate;
		o.private_key = flags->certificate_key;
		o.authority = flags->authority;
	} else {
		o.key = key;
		l->from_environment = !*flags->key;
		status = read_key(flags, key, why);
	}
	if (status == TW_OK)
		status = tw_tls_new(&tw_heap_system, &o, &l->tls, why);
	OPENSSL_cleanse(key, sizeof key);
	l->net.tls = l->tls;
	return status;
}

void tw_link_close(struct tw_link *l)
{
	tw_http_stop(l->http);
	tw_gauges_free(l->gauges);
	tw_tls_free(l->tls);
	tw_tcp_setup_release(&l->net);
}

enum tw_status tw_link_listen(struct tw_link *l, const struct tw_address *a, struct tw_error *why)
{
	char text[TW_ADDRESS_TEXT];
	bool loopback = false;
	enum tw_status status;

	l->listen = *a;
	l->net.listen = &l->listen;
	if (l->tls || l->flags->insecure)
		return TW_OK;
	status = tw_address_is_loopback(a, &loopback, why);
	if (status != TW_OK || loopback)
		return status;
	tw_address_text(a, text);
	return tw_fail(why, TW_BAD_INPUT,
		       "%s can be reached from other machines, and there is no key: make one "
		       "with %s and give --key cluster.key, or listen on 127.0.0.1, or give "
		       "--insecure",
		       text, MAKE_A_KEY);
}

/* --- pages ------------------------------------------------------------------------------------ */

static enum tw_status metrics_page(void *arg, struct tw_heap *heap, struct tw_http_body *out)
{
	struct tw_link *l = arg;

	tw_tcp_setup_refresh(&l->net);
	return tw_gauges_text(l->gauges, &out->bytes, &out->len);
}

static enum tw_status health_page(void *arg, struct tw_heap *heap, struct tw_http_body *out)
{
	struct tw_link *l = arg;

	tw_tcp_setup_refresh(&l->net);
	return tw_gauges_health(l->gauges, &out->bytes, &out->len, &out->status);
}

/* --http as a number (UINT32_MAX: off) and the host before it, "" if there is none.  Which hosts
 * are allowed is for the server of pages to say. */
static enum tw_status http_port(const char *text, char host[64], uint32_t *port,
				struct tw_error *why)
{
	const char *colon = strrchr(text, ':'), *number = colon ? colon + 1 : text;
	const size_t n = colon ? (size_t)(colon - text) : 0;
	const bool brackets = n > 2 && text[0] == '[' && text[n - 1] == ']';
	char *end;
	unsigned long value;

	*port = UINT32_MAX;
	if (strcmp(text, "off") == 0)
		return TW_OK;
	errno = 0;
	value = strtoul(number, &end, 10);
	if (*number < '0' || *number > '9' || *end || errno || value > UINT16_MAX || n >= 64 ||
	    (colon && !n))
		return tw_fail(why, TW_BAD_INPUT,
			       "--http: needs a port from 0 (any free one) to 65535, with or "
			       "without 127.0.0.1: before it, or off, not '%.40s'",
			       text);
	snprintf(host, 64, "%.*s", (int)(brackets ? n - 2 : n), text + (brackets ? 1 : 0));
	*port = (uint32_t)value;
	return TW_OK;
}

enum tw_status tw_link_pages(struct tw_link *l, const char *role, uint32_t port,
			     struct tw_error *why)
{
	const bool given = *l->flags->http;
	struct tw_http_options o = { .pages = l->page,
				     .log = l->log,
				     .names = l->flags->http_host };
	struct tw_error busy = { .status = TW_OK };
	char host[64], page_host[64] = "";
	enum tw_status status = given ? http_port(l->flags->http, page_host, &port, why) : TW_OK;

	if (status != TW_OK || port == UINT32_MAX)
		return status;
	tw_address_hostname(host, sizeof host);
	l->gauges = tw_gauges_new(&tw_heap_system, NULL, role, host);
	if (!l->gauges)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the gauges");
	l->net.gauges = l->gauges;
	l->page[0] = (struct tw_http_page){ "/metrics", TW_GAUGES_TYPE, metrics_page, l };
	l->page[1] = (struct tw_http_page){ "/health", "application/json", health_page, l };
	o.port = (uint16_t)port;
	o.address = *page_host ? page_host : NULL;
	status = tw_http_start(&tw_heap_system, &o, &l->http, &busy);
	if (status == TW_BAD_INPUT && !given) {
		busy = (struct tw_error){ .status = TW_OK };
		o.port = 0;
		status = tw_http_start(&tw_heap_system, &o, &l->http, &busy);
	}
	if (status != TW_OK)
		return tw_fail(why, status, "%s", busy.text);
	tw_log_line(l->log, TW_INFO, "", "http://%s:%u has /metrics and /health",
		    tw_http_address(l->http), tw_http_port(l->http));
	return TW_OK;
}

/* --- the line to paste ------------------------------------------------------------------------ */

struct text {
	char at[2000];
	size_t n;
};

/* One word of a command, quoted where a shell would change it. */
static void word(struct text *t, const char *w)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_-+=:,./@%";
	const bool quoted = !*w || w[strspn(w, plain)];

	if (t->n && t->n + 1 < sizeof t->at)
		t->at[t->n++] = ' ';
	if (quoted && t->n + 1 < sizeof t->at)
		t->at[t->n++] = '\'';
	for (; *w && t->n + 8 < sizeof t->at; w++)
		if (*w == '\'')
			t->n += (size_t)sprintf(t->at + t->n, "'\\''");
		else
			t->at[t->n++] = *w;
	if (quoted && t->n + 1 < sizeof t->at)
		t->at[t->n++] = '\'';
	t->at[t->n] = 0;
}

static void flag(struct text *t, const char *name, const char *value)
{
	if (!*value)
		return;
	word(t, name);
	word(t, value);
}

static void join_line(const struct tw_link *l, const struct tw_address *bound, bool server,
		      struct text *t)
{
	char host[256], where[TW_ADDRESS_TEXT];

	tw_address_hostname(host, sizeof host);
	tw_rendezvous_join_text(bound, host, where);
	word(t, "thalweg");
	word(t, "join");
	word(t, where);
	if (server)
		flag(t, "--as", "server");
	if ((server || !l->servers || l->cells > 1) && l->flags->insecure)
		word(t, "--insecure");
	flag(t, "--key", l->flags->key);
	flag(t, "--certificate", l->flags->certificate);
	flag(t, "--certificate-key", l->flags->certificate_key);
	flag(t, "--authority", l->flags->authority);
}

/* net.opened of a master. */
static void say_join(void *arg, const struct tw_address *bound)
{
	const struct tw_link *l = arg;
	const char *with = l->from_environment ? " (its environment needs the key, too)" : "";
	struct text line = { .n = 0 };

	join_line(l, bound, false, &line);
	tw_log_line(l->log, TW_INFO, "", "to join%s: %s", with, line.at);
	if (l->servers > 1) {
		line.n = 0;
		join_line(l, bound, true, &line);
		tw_log_line(l->log, TW_INFO, "", "%" PRIu32 " more server%s must join%s: %s",
			    l->servers - 1, l->servers > 2 ? "s" : "", with, line.at);
	}
	if (!l->tls && l->flags->insecure)
		tw_log_line(l->log, TW_WARNING, "",
			    "--insecure: anyone who can reach this port can read and change "
			    "everything");
}

enum tw_status tw_link_serve(struct tw_link *l, const struct tw_call *call, struct tw_job *job,
			     const char *dir, uint32_t port, struct tw_error *why)
{
	const enum tw_status status = tw_link_pages(l, "master", port, why);

	if (status != TW_OK)
		return status;
	l->servers = job->plan.crew.servers;
	l->cells = tw_plan_cells(&job->plan);
	l->net.opened = say_join;
	l->net.arg = l;
	return tw_work_run(call, job, dir, &l->net, why);
}
