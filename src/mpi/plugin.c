/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the table of mpi_plugin.h on the MPI that this file is compiled with.
 *
 * What was begun lies in two arrays side by side: the requests, as MPI_Testsome wants them, and
 * what the caller knows them by. */
#include "mpi/floors.h"
#include "world/mpi/mpi_plugin.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct begun {
	void *cookie;
	bool receives;
};

/* A process has one MPI, and this is its only plugin: there can be no second set of these. */
static MPI_Comm world = MPI_COMM_NULL;
static MPI_Comm sums = MPI_COMM_NULL; /* whose order is apart from that of messages */
static MPI_Request *request;
static struct begun *begun;
static size_t active, room;
/* what testsome fills; they do not move while its caller begins something new */
static int *over;
static MPI_Status *status;
static struct tw_mpi_done *done;
static size_t done_room;

static bool good(int code, const char *what, char *why)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int length = 0;

	if (code == MPI_SUCCESS)
		return true;
	MPI_Error_string(code, text, &length);
	snprintf(why, TW_MPI_WHY, "%s: %.300s", what, text);
	return false;
}

static void version(char *out, size_t size)
{
	char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
	int length = 0;

	MPI_Get_library_version(text, &length);
	/* "MPICH Version:\t4.0.2\nMPICH Release date..." */
	text[strcspn(text, "\n")] = '\0';
	for (char *at = text; *at; at++)
		if (*at == '\t')
			*at = ' ';
	snprintf(out, size, "%s", text);
}

static bool init(uint32_t *rank, uint32_t *size, char *why)
{
	int provided = 0, mine = 0, all = 0, before = 0, after = 0;

	MPI_Initialized(&before);
	MPI_Finalized(&after);
	if (before || after) {
		snprintf(why, TW_MPI_WHY,
			 after ? "MPI has ended in this process, and cannot begin again"
			       : "this program has initialised MPI itself, and only one thread may "
				 "call it; leave MPI_Init out, or open the session in a process of "
				 "its own");
		return false;
	}
	if (!good(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread",
		  why))
		return false;
	if (provided < MPI_THREAD_FUNNELED) {
		snprintf(why, TW_MPI_WHY,
			 "this MPI allows no threads beside the one that calls it");
		return false;
	}
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	if (!good(MPI_Comm_dup(MPI_COMM_WORLD, &world), "MPI_Comm_dup", why) ||
	    !good(MPI_Comm_dup(MPI_COMM_WORLD, &sums), "MPI_Comm_dup", why))
		return false;
	MPI_Comm_set_errhandler(sums, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
	MPI_Comm_rank(world, &mine);
	MPI_Comm_size(world, &all);
	*rank = (uint32_t)mine;
	*size = (uint32_t)all;
	return true;
}

static bool hosts(char *out, size_t each, char *why)
{
	char name[MPI_MAX_PROCESSOR_NAME] = "";
	char *mine = calloc(1, each);
	int length = 0;
	bool ok;

	if (!mine) {
		snprintf(why, TW_MPI_WHY, "no memory for a host name");
		return false;
	}
	MPI_Get_processor_name(name, &length);
	snprintf(mine, each, "%s", name);
	ok = good(MPI_Allgather(mine, (int)each, MPI_CHAR, out, (int)each, MPI_CHAR, world),
		  "MPI_Allgather", why);
	free(mine);
	return ok;
}

static bool grow(void **array, size_t count, size_t each)
{
	void *more = realloc(*array, count * each);

	if (more)
		*array = more;
	return more != NULL;
}

/* Where the next request goes; NULL without memory. */
static MPI_Request *place(void *cookie, bool receives, char *why)
{
	if (active == room) {
		const size_t more = room ? 2 * room : 64;

		if (!grow((void **)&request, more, sizeof *request) ||
		    !grow((void **)&begun, more, sizeof *begun)) {
			snprintf(why, TW_MPI_WHY, "no memory for a request");
			return NULL;
		}
		room = more;
	}
	begun[active] = (struct begun){ cookie, receives };
	return &request[active];
}

static bool began(int code, const char *what, char *why)
{
	if (!good(code, what, why))
		return false;
	active++;
	return true;
}

static bool isend(const void *from, size_t bytes, uint32_t to, uint32_t tag, void *cookie,
		  char *why)
{
	MPI_Request *r = place(cookie, false, why);

	return r && began(MPI_Isend(from, (int)bytes, MPI_BYTE, (int)to, (int)tag, world, r),
			  "MPI_Isend", why);
}

static bool irecv(void *to, size_t bytes, uint32_t from, uint32_t tag, void *cookie, char *why)
{
	const int source = from == TW_MPI_ANY ? MPI_ANY_SOURCE : (int)from;
	MPI_Request *r = place(cookie, true, why);

	return r && began(MPI_Irecv(to, (int)bytes, MPI_BYTE, source, (int)tag, world, r),
			  "MPI_Irecv", why);
}

static void describe(size_t k, int at, bool errors)
{
	const struct begun *b = &begun[at];
	int bytes = 0;

	done[k] = (struct tw_mpi_done){ .cookie = b->cookie };
	done[k].failed = errors && status[k].MPI_ERROR != MPI_SUCCESS &&
			 status[k].MPI_ERROR != MPI_ERR_PENDING;
	if (!b->receives || done[k].failed)
		return;
	MPI_Get_count(&status[k], MPI_BYTE, &bytes);
	done[k].source = (uint32_t)status[k].MPI_SOURCE;
	done[k].bytes = (size_t)bytes;
}

/* Close the gaps that finished requests left. */
static void compact(void)
{
	size_t to = 0;

	for (size_t from = 0; from < active; from++) {
		if (request[from] == MPI_REQUEST_NULL)
			continue;
		request[to] = request[from];
		begun[to++] = begun[from];
	}
	active = to;
}

static size_t testsome(const struct tw_mpi_done **out)
{
	int count = 0;
	int code;

	if (done_room < active && (!grow((void **)&over, room, sizeof *over) ||
				   !grow((void **)&status, room, sizeof *status) ||
				   !grow((void **)&done, room, sizeof *done)))
		return 0; /* perhaps there is memory the next time */
	done_room = done_room < active ? room : done_room;
	*out = done;
	if (!active)
		return 0;
	code = MPI_Testsome((int)active, request, &count, over, status);
	if (count == MPI_UNDEFINED || count <= 0)
		return 0;
	for (int k = 0; k < count; k++)
		describe((size_t)k, over[k], code == MPI_ERR_IN_STATUS);
	compact();
	return (size_t)count;
}

static bool iallreduce(const float *in, float *out, size_t n, void *cookie, char *why)
{
	MPI_Request *r = place(cookie, false, why);

	return r && began(MPI_Iallreduce(in == out ? MPI_IN_PLACE : in, out, (int)n, MPI_FLOAT,
					 MPI_SUM, sums, r),
			  "MPI_Iallreduce", why);
}

static bool ibarrier(void *cookie, char *why)
{
	MPI_Request *r = place(cookie, false, why);

	return r && began(MPI_Ibarrier(world, r), "MPI_Ibarrier", why);
}

static void abort_all(int code)
{
	MPI_Abort(MPI_COMM_WORLD, code);
}

static void finalize(void)
{
	for (size_t k = 0; k < active; k++) {
		if (begun[k].receives)
			MPI_Cancel(&request[k]);
		MPI_Wait(&request[k], MPI_STATUS_IGNORE);
	}
	active = 0;
	MPI_Comm_free(&sums);
	MPI_Comm_free(&world);
	MPI_Finalize();
	free(request);
	free(begun);
	free(over);
	free(status);
	free(done);
}

extern const struct tw_mpi_plugin tw_mpi_plugin;
__attribute__((visibility("default"))) const struct tw_mpi_plugin tw_mpi_plugin = {
	.abi = TW_MPI_ABI,
	.name = TW_MPI_NAME,
	.version = version,
	.init = init,
	.hosts = hosts,
	.isend = isend,
	.irecv = irecv,
	.testsome = testsome,
	.iallreduce = iallreduce,
	.ibarrier = ibarrier,
	.abort = abort_all,
	.finalize = finalize,
	.floor_exchange = tw_floor_exchange,
	.floor_reduce = tw_floor_reduce,
	.floor_sum = tw_floor_sum,
	.floor_least = tw_floor_least,
};
