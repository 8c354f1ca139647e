/* SPDX-License-Identifier: Apache-2.0 */
/* key.c - the cluster's key: made, written as text, read from a file that only its owner can read.
 * */
#include "wire/key.h"

#include "base/machine/regular_file.h"
#include "wire/tls_inner.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "thalweg-key-1 "
#define BLANKS " \t\r\n"
#define MOST   4096 /* bytes of a key file */

_Static_assert(sizeof PREFIX + 2 * TW_KEY_BYTES + 1 <= TW_KEY_TEXT, "room for the text of a key");

/* --- text --- */

enum tw_status tw_key_make(char out[TW_KEY_TEXT], struct tw_error *why)
{
	static const char digits[] = "0123456789abcdef";
	uint8_t key[TW_KEY_BYTES];
	char *at = out + strlen(PREFIX);

	if (RAND_priv_bytes(key, sizeof key) != 1)
		return tw_fail(why, TW_IO, "the system gives no random numbers for a key");
	memcpy(out, PREFIX, strlen(PREFIX));
	for (size_t i = 0; i < sizeof key; i++) {
		*at++ = digits[key[i] >> 4];
		*at++ = digits[key[i] & 15];
	}
	*at++ = '\n';
	*at = '\0';
	OPENSSL_cleanse(key, sizeof key);
	return TW_OK;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool parse(const char *text, uint8_t key[TW_KEY_BYTES])
{
	text += strspn(text, BLANKS);
	if (strncmp(text, PREFIX, strlen(PREFIX)) != 0)
		return false;
	text += strlen(PREFIX);
	for (size_t i = 0; i < TW_KEY_BYTES; i++, text += 2) {
		const int high = digit(text[0]), low = high < 0 ? -1 : digit(text[1]);

		if (low < 0)
			return false;
		key[i] = (uint8_t)(high << 4 | low);
	}
	return text[strspn(text, BLANKS)] == '\0';
}

enum tw_status tw_key_parse(const char *text, uint8_t key[TW_KEY_BYTES], struct tw_error *why)
{
	uint8_t fresh[TW_KEY_BYTES];
	const bool good = parse(text, fresh);

	if (good)
		memcpy(key, fresh, sizeof fresh);
	OPENSSL_cleanse(fresh, sizeof fresh);
	/* What stands there is not repeated: it may be most of a key. */
	return good ? TW_OK
		    : tw_fail(why, TW_BAD_INPUT,
			      "this is not a key: a key is one line, '" PREFIX
			      "' and %d hexadecimal digits, as `thalweg key` prints it",
			      2 * TW_KEY_BYTES);
}

/* --- files --- */

static enum tw_status guarded(const char *path, const char *what, const struct stat *st,
			      size_t most, struct tw_error *why)
{
	if (st->st_uid != geteuid() && st->st_uid != 0)
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: %s must belong to the user that runs thalweg, or to root; it "
			       "belongs to user %u",
			       path, what, (unsigned)st->st_uid);
	if (st->st_mode & 077)
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: others may read or write %s (mode %04o); `chmod 600 %s` makes "
			       "it yours alone",
			       path, what, (unsigned)(st->st_mode & 07777), path);
	if ((uintmax_t)st->st_size > most)
		return tw_fail(why, TW_BAD_INPUT, "%s: %s has at most %zu bytes, this file has %jd",
			       path, what, most, (intmax_t)st->st_size);
	return TW_OK;
}

enum tw_status tw_key_open(const char *path, const char *what, size_t most, int *fd,
			   struct tw_error *why)
{
	const int opened = tw_regular_open(AT_FDCWD, path, O_RDONLY, 0);
	enum tw_status status;
	struct stat st;

	if (opened < 0)
		return tw_fail(why, TW_BAD_INPUT, "%s: cannot read %s: %s", path, what,
			       tw_cause(errno));
	if (fstat(opened, &st))
		status = tw_fail(why, TW_BAD_INPUT, "%s: cannot read %s: %s", path, what,
				 strerror(errno));
	else
		status = guarded(path, what, &st, most, why);
	if (status == TW_OK)
		*fd = opened;
	else
		close(opened);
	return status;
}

/* All of it as text; false if it cannot be read, is longer, or has a 0 inside. */
static bool slurp(int fd, char text[MOST + 1])
{
	size_t n = 0;

	for (;;) {
		const ssize_t more = read(fd, text + n, MOST + 1 - n);

		if (more < 0 && errno == EINTR)
			continue;
		if (more < 0 || n + (size_t)more > MOST)
			return false;
		if (more == 0)
			break;
		n += (size_t)more;
	}
	text[n] = '\0';
	return strlen(text) == n;
}

enum tw_status tw_key_read(const char *path, uint8_t key[TW_KEY_BYTES], struct tw_error *why)
{
	struct tw_error inner = { .status = TW_OK };
	char text[MOST + 1];
	enum tw_status status;
	int fd;

	status = tw_key_open(path, "the cluster's key", MOST, &fd, why);
	if (status != TW_OK)
		return status;
	if (slurp(fd, text))
		status = tw_key_parse(text, key, &inner);
	else
		status = tw_key_parse("", key, &inner);
	if (status != TW_OK)
		tw_fail(why, status, "%s: %s", path, inner.text);
	OPENSSL_cleanse(text, sizeof text);
	close(fd);
	return status;
}
