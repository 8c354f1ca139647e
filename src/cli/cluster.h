/* SPDX-License-Identifier: Apache-2.0 */
/* cluster.h - what `serve` and `join` have in common: the key, where to listen, pages over HTTP. */
#ifndef TW_CLI_CLUSTER_H
#define TW_CLI_CLUSTER_H

#include "cli/verb.h"
#include "run/tcp_setup.h"
#include "web/http.h"

#define TW_HTTP_PORT 7434

struct tw_link_flags {
	const char *listen, *key, *certificate, *certificate_key, *authority, *http, *http_host;
	bool insecure;
};

/* Rows for the flags in field `at` of a verb's struct `s`. */
#define TW_LINK_FLAGS(s, at, listen_help, http_help)                                               \
	TW_FLAG(s, at.listen, "listen", TW_TEXT, "", "ADDRESS", 0, 0, listen_help),                \
		TW_FLAG(s, at.key, "key", TW_TEXT, "", "FILE", 0, 0,                               \
			"the cluster's key, as `thalweg key` makes it (or THALWEG_KEY_FILE, "      \
			"THALWEG_KEY)"),                                                           \
		TW_FLAG(s, at.certificate, "certificate", TW_TEXT, "", "FILE", 0, 0,               \
			"certificate of this process (PEM), instead of a key"),                    \
		TW_FLAG(s, at.certificate_key, "certificate-key", TW_TEXT, "", "FILE", 0, 0,       \
			"the certificate's private key (PEM)"),                                    \
		TW_FLAG(s, at.authority, "authority", TW_TEXT, "", "FILE", 0, 0,                   \
			"certificate of the authority that signs all certificates (PEM)"),         \
		TW_FLAG(s, at.http, "http", TW_TEXT, "", "[HOST:]PORT|off", 0, 0, http_help),      \
		TW_FLAG(s, at.http_host, "http-host", TW_TEXT, "", "NAME[,NAME]", 0, 0,            \
			"further host names that requests for the pages may use; addresses, "      \
			"localhost and this machine's name are always accepted")

/* How others reach this process, and what it tells them about itself. */
struct tw_link {
	const struct tw_link_flags *flags;
	const struct tw_log *log;
	struct tw_tcp_setup net;
	struct tw_tls *tls;    /* NULL: in the clear */
	bool from_environment; /* the key */
	struct tw_address listen;
	struct tw_gauges *gauges;
	struct tw_http *http;
	struct tw_http_page page[3];
	uint32_t servers; /* of the run, 0: workers listen; for the line that others join with */
	uint32_t cells;   /* of a worker; more than one: they listen, too */
};

/* Read the key or the certificates; starts nothing.  Close in any case. */
enum tw_status tw_link_open(struct tw_link *l, const struct tw_link_flags *flags,
			    const struct tw_log *log, struct tw_error *why);
void tw_link_close(struct tw_link *l);
/* Listen at `a`, when the run begins.  TW_BAD_INPUT: others could reach it, and there is no key. */
enum tw_status tw_link_listen(struct tw_link *l, const struct tw_address *a, struct tw_error *why);
/* The pages: at --http, or else at `port` or a free one; UINT32_MAX: nowhere.  Starts a thread. */
enum tw_status tw_link_pages(struct tw_link *l, const char *role, uint32_t port,
			     struct tw_error *why);
/* Run the job as its master, at the address to listen on; say how to join; print the result.  The
 * pages as tw_link_pages.  The verb's flags begin with struct tw_work_flags. */
enum tw_status tw_link_serve(struct tw_link *l, const struct tw_call *call, struct tw_job *job,
			     const char *dir, uint32_t port, struct tw_error *why);

#endif
