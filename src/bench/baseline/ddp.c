/* SPDX-License-Identifier: Apache-2.0 */
/* ddp.c - two processes of PyTorch under DistributedDataParallel over Gloo. */
#include "bench/baseline/ddp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct tw_net_step_facts tw_ddp_net = { "mlp", "mlp", "[512, 512]", { 1, { 784 } }, 64 };

static enum tw_status start(struct tw_ddp *d, const char *python, struct tw_error *why)
{
	const char *temporary = getenv("TMPDIR");
	enum tw_status status = TW_OK;
	char size[12];

	if (!temporary || strlen(temporary) > sizeof d->folder - 30)
		temporary = "/tmp";
	snprintf(d->folder, sizeof d->folder, "%s/thalweg-ddp-XXXXXX", temporary);
	if (!mkdtemp(d->folder)) {
		d->folder[0] = '\0';
		return tw_fail(why, TW_IO, "no temporary folder in %s: %s", temporary,
			       strerror(errno));
	}
	snprintf(size, sizeof size, "%d", TW_DDP_SIZE);
	for (unsigned k = 0; k < TW_DDP_SIZE && status == TW_OK; k++) {
		char rank[12];
		const char *const args[] = { "ddp", rank, size, d->folder, NULL };

		snprintf(rank, sizeof rank, "%u", k);
		status = tw_torch_start(&d->rank[k], python, args, why);
	}
	return status;
}

enum tw_status tw_ddp_open(struct tw_ddp *d, const char *python, struct tw_error *why)
{
	enum tw_status status;

	*d = (struct tw_ddp){ .folder = "" };
	status = start(d, python, why);
	/* Neither greets before it found the other. */
	for (unsigned k = 0; k < TW_DDP_SIZE && status == TW_OK; k++) {
		json_t *hello = NULL;

		status = tw_torch_hear(&d->rank[k], TW_TORCH_START, &hello, why);
		json_decref(hello);
	}
	return status;
}

enum tw_status tw_ddp_make(struct tw_ddp *d, const struct tw_net_step_facts *net, size_t parameters,
			   struct tw_error *why)
{
	enum tw_status status = TW_OK;

	for (unsigned k = 0; k < TW_DDP_SIZE && status == TW_OK; k++)
		status = tw_torch_notes_ask(&d->rank[k], net, why);
	for (unsigned k = 0; k < TW_DDP_SIZE && status == TW_OK; k++)
		status = tw_torch_notes_made(&d->rank[k], net, parameters, why);
	return status;
}

enum tw_status tw_ddp_vector(struct tw_ddp *d, const char *name, size_t floats,
			     struct tw_error *why)
{
	enum tw_status status = TW_OK;

	for (unsigned k = 0; k < TW_DDP_SIZE && status == TW_OK; k++)
		status = tw_torch_tell(&d->rank[k],
				       json_pack("{s:s, s:s, s:I}", "do", "make", "net", name,
						 "floats", (json_int_t)floats),
				       why);
	for (unsigned k = 0; k < TW_DDP_SIZE && status == TW_OK; k++) {
		json_t *answer = NULL;

		status = tw_torch_hear(&d->rank[k], TW_TORCH_ANSWER, &answer, why);
		json_decref(answer);
	}
	return status;
}

void tw_ddp_close(struct tw_ddp *d)
{
	char path[sizeof d->folder + 20];

	for (unsigned k = 0; k < TW_DDP_SIZE; k++)
		tw_torch_stop(&d->rank[k]);
	if (!d->folder[0])
		return;
	snprintf(path, sizeof path, "%s/together", d->folder);
	unlink(path);
	rmdir(d->folder);
	d->folder[0] = '\0';
}

enum tw_status tw_ddp_steps(struct tw_ddp *d, const char *net, unsigned steps, double *seconds,
			    struct tw_error *why)
{
	enum tw_status status = TW_OK;

	*seconds = 0.0;
	for (unsigned k = 0; k < TW_DDP_SIZE && status == TW_OK; k++)
		status = tw_torch_ask(&d->rank[k], net, steps, why);
	for (unsigned k = 0; k < TW_DDP_SIZE && status == TW_OK; k++) {
		double s = 0.0;

		status = tw_torch_time(&d->rank[k], steps, &s, why);
		*seconds = s > *seconds ? s : *seconds;
	}
	return status;
}
