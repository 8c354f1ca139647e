/* SPDX-License-Identifier: Apache-2.0 */
/* sha256.c - SHA-256 by OpenSSL, which uses the processor's own instructions where it has them. */
#include "base/sha256.h"

#include <openssl/evp.h>

static void give_up(struct tw_sha_run *r)
{
	EVP_MD_CTX_free(r->digest);
	r->digest = NULL;
}

void tw_sha_init(struct tw_sha_run *r)
{
	r->digest = EVP_MD_CTX_new();
	if (r->digest && EVP_DigestInit_ex(r->digest, EVP_sha256(), NULL) != 1)
		give_up(r);
}

void tw_sha_update(struct tw_sha_run *r, const void *bytes, size_t n)
{
	if (r->digest && n && EVP_DigestUpdate(r->digest, bytes, n) != 1)
		give_up(r);
}

enum tw_status tw_sha_final(struct tw_sha_run *r, struct tw_sha *out)
{
	unsigned len = 0;
	bool good;

	*out = (struct tw_sha){ { 0 } };
	good = r->digest && EVP_DigestFinal_ex(r->digest, out->b, &len) == 1 &&
	       len == sizeof out->b;
	give_up(r);
	if (!good)
		*out = (struct tw_sha){ { 0 } };
	return good ? TW_OK : TW_NO_MEMORY;
}

enum tw_status tw_sha_of(const void *bytes, size_t n, struct tw_sha *out)
{
	struct tw_sha_run r;

	tw_sha_init(&r);
	tw_sha_update(&r, bytes, n);
	return tw_sha_final(&r, out);
}

static const char digits[] = "0123456789abcdef";

static void put_digits(const struct tw_sha *a, size_t bytes, char *out)
{
	for (size_t k = 0; k < bytes; k++) {
		out[2 * k] = digits[a->b[k] >> 4];
		out[2 * k + 1] = digits[a->b[k] & 15];
	}
	out[2 * bytes] = '\0';
}

const char *tw_sha_text(const struct tw_sha *a, char out[TW_SHA_TEXT])
{
	put_digits(a, sizeof a->b, out);
	return out;
}

const char *tw_sha_short(const struct tw_sha *a, char out[TW_SHA_SHORT])
{
	put_digits(a, 8, out);
	strcpy(out + 16, "...");
	return out;
}

bool tw_sha_read(const char *text, struct tw_sha *out)
{
	for (size_t k = 0; k < 2 * sizeof out->b; k++) {
		const char *at = text[k] ? strchr(digits, text[k]) : NULL;

		if (!at)
			return false;
		out->b[k / 2] = (uint8_t)(k % 2 ? out->b[k / 2] << 4 | (at - digits) : at - digits);
	}
	return text[2 * sizeof out->b] == '\0';
}
