/* SPDX-License-Identifier: Apache-2.0 */
/* train_job.c - a job file trained from a program: progress, result, and the parameters in a file.
 *
 * train_job JOB.yaml OUT.safetensors [PATH=VALUE...] */
#include <stdio.h>
#include <thalweg.h>

static int listen(void *user, const struct thalweg_event *e)
{
	(void)user;
	if (e->kind == THALWEG_EVALUATION)
		fprintf(stderr, "%.2f epochs: loss %.4g\n", e->epochs, e->loss);
	else if (e->kind == THALWEG_LOG)
		fprintf(stderr, "%s: %s\n", e->who, e->line);
	return 0; /* anything else would stop the training */
}

static enum thalweg_status work(struct thalweg_job *job, const char *out, struct thalweg_error *why)
{
	const struct thalweg_tensor *tensor;
	struct thalweg_result result;
	struct thalweg_score score;

	if (thalweg_train(job, NULL, 0, &result, why) != THALWEG_OK ||
	    thalweg_save(job, out, why) != THALWEG_OK ||
	    thalweg_load(job, out, why) != THALWEG_OK ||
	    thalweg_evaluate(job, &score, why) != THALWEG_OK)
		return why->status;
	printf("%s\n", result.json);
	printf("loss %.6g on %llu test samples\n", score.loss, (unsigned long long)score.samples);
	for (size_t k = 0, n = thalweg_tensors(job, &tensor); k < n; k++)
		printf("%s: %zu values\n", tensor[k].name, tensor[k].count);
	return THALWEG_OK;
}

int main(int argc, char **argv)
{
	struct thalweg_request request = { .listen = listen, .verbosity = -1 };
	struct thalweg_job *job = NULL;
	struct thalweg_error why = { 0 };

	if (argc < 3) {
		fprintf(stderr, "usage: train_job JOB.yaml OUT.safetensors [PATH=VALUE...]\n");
		return 2;
	}
	request.path = argv[1];
	request.set = (const char *const *)argv + 3;
	request.sets = (size_t)argc - 3;
	if (thalweg_open(&request, &job, &why) == THALWEG_OK)
		work(job, argv[2], &why);
	thalweg_close(job);
	if (why.status != THALWEG_OK)
		fprintf(stderr, "%s\n", why.text);
	return why.status;
}
