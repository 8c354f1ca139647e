/* SPDX-License-Identifier: Apache-2.0 */
/* floors.c - what benches compare with: the same bytes by plain calls of MPI, and nothing else. */
#include "mpi/floors.h"

#include <mpi.h>
#include <stdlib.h>
#include <sys/mman.h>

#define TAG       7
#define HUGE_PAGE ((size_t)2 << 20)

static int ascending(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *x, unsigned n)
{
	qsort(x, n, sizeof *x, ascending);
	return n % 2 ? x[n / 2] : 0.5 * (x[n / 2 - 1] + x[n / 2]);
}

/* On huge pages, as ours are (base/heap.c). */
static float *vector(size_t n)
{
	const size_t whole = (n * sizeof(float) + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
	float *x = aligned_alloc(HUGE_PAGE, whole);

	if (x)
		(void)madvise(x, whole, MADV_HUGEPAGE);
	for (size_t k = 0; x && k < n; k++)
		x[k] = 1e-3f;
	return x;
}

struct both {
	float *there, *back, *held; /* what comes, what goes; the parameters */
	MPI_Request *in, *out;
	size_t n, block;
	int blocks;
};

static int length(const struct both *b, int k)
{
	const size_t left = b->n - (size_t)k * b->block;

	return (int)(left < b->block ? left : b->block);
}

/* Rank 1 sends all blocks and takes all back. */
static void worker(const struct both *b, MPI_Comm comm)
{
	for (int k = 0; k < b->blocks; k++) {
		MPI_Irecv(b->back + (size_t)k * b->block, length(b, k), MPI_FLOAT, 0, TAG, comm,
			  &b->in[k]);
		MPI_Isend(b->there + (size_t)k * b->block, length(b, k), MPI_FLOAT, 0, TAG, comm,
			  &b->out[k]);
	}
	MPI_Waitall(b->blocks, b->in, MPI_STATUSES_IGNORE);
	MPI_Waitall(b->blocks, b->out, MPI_STATUSES_IGNORE);
}

/* Rank 0 makes the pass over each block as it comes, and sends it back. */
static void server(const struct both *b, tw_floor_pass pass, MPI_Comm comm)
{
	for (int k = 0; k < b->blocks; k++)
		MPI_Irecv(b->there + (size_t)k * b->block, length(b, k), MPI_FLOAT, 1, TAG, comm,
			  &b->in[k]);
	for (int k = 0; k < b->blocks; k++) {
		const size_t at = (size_t)k * b->block;

		MPI_Wait(&b->in[k], MPI_STATUS_IGNORE);
		pass(b->held + at, b->there + at, (size_t)length(b, k));
		MPI_Isend(b->held + at, length(b, k), MPI_FLOAT, 1, TAG, comm, &b->out[k]);
	}
	MPI_Waitall(b->blocks, b->out, MPI_STATUSES_IGNORE);
}

bool tw_floor_exchange(size_t n, size_t block, unsigned times, tw_floor_pass pass, double *out)
{
	const int blocks = (int)((n + block - 1) / block);
	struct both b = { .there = vector(n),
			  .back = vector(n),
			  .held = vector(n),
			  .in = malloc((size_t)blocks * sizeof *b.in),
			  .out = malloc((size_t)blocks * sizeof *b.out),
			  .n = n,
			  .block = block,
			  .blocks = blocks };
	double *x = malloc(times * sizeof *x);
	const bool good = b.there && b.back && b.held && b.in && b.out && x;
	int rank;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (unsigned k = 0; good && k < times; k++) {
		double began;

		MPI_Barrier(MPI_COMM_WORLD);
		began = MPI_Wtime();
		if (rank == 0)
			server(&b, pass, MPI_COMM_WORLD);
		else if (rank == 1)
			worker(&b, MPI_COMM_WORLD);
		x[k] = MPI_Wtime() - began;
	}
	*out = good ? median(x, times) : 0.0;
	free(b.there);
	free(b.back);
	free(b.held);
	free(b.in);
	free(b.out);
	free(x);
	return good;
}

bool tw_floor_reduce(size_t n, unsigned times, double *out)
{
	float *in = vector(n), *sum = vector(n);
	double *x = malloc(times * sizeof *x);
	const bool good = in && sum && x;

	for (unsigned k = 0; good && k < times; k++) {
		MPI_Request request;
		double began;
		int over = 0;

		MPI_Barrier(MPI_COMM_WORLD);
		began = MPI_Wtime();
		MPI_Iallreduce(in, sum, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
		while (!over)
			MPI_Test(&request, &over, MPI_STATUS_IGNORE);
		x[k] = MPI_Wtime() - began;
	}
	*out = good ? median(x, times) : 0.0;
	free(in);
	free(sum);
	free(x);
	return good;
}

double tw_floor_sum(double x)
{
	double sum = x;

	MPI_Allreduce(&x, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	return sum;
}

void tw_floor_least(double *x, size_t n)
{
	MPI_Allreduce(MPI_IN_PLACE, x, (int)n, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
}
