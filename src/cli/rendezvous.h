/* SPDX-License-Identifier: Apache-2.0 */
/* rendezvous.h - who this process is and where the master is, from an argument and the environment.
 *
 * Nothing here reads the process's own environment, waits or asks a name server: everything is a
 * function of its arguments.  A variable that is set to nothing counts as not set.
 *
 * The master's address, the first of:
 *   the argument        HOST, HOST:PORT, ... as tw_address_parse reads it; port TW_PORT without one
 *   SLURM_JOB_NODELIST  (or SLURM_NODELIST) its first host
 *   MASTER_ADDR         HOST or HOST:PORT
 * The port of the last two is MASTER_PORT, else TW_PORT.
 * The rank is RANK, else SLURM_PROCID; the number of processes WORLD_SIZE, else (unless RANK is
 * set, which does not count as Slurm does) SLURM_NTASKS, else SLURM_NPROCS. */
#ifndef TW_CLI_RENDEZVOUS_H
#define TW_CLI_RENDEZVOUS_H

#include "wire/address.h"

enum tw_rendezvous_source {
	TW_WHERE_NOWHERE,
	TW_WHERE_ARGUMENT,
	TW_WHERE_NODELIST,
	TW_WHERE_MASTER_ADDR,
};

struct tw_rendezvous {
	struct tw_address master; /* without have_master: any host, the port to listen on */
	enum tw_rendezvous_source source;
	bool have_master, have_rank, have_world;
	uint32_t rank, world; /* rank < world where both are known */
};

/* `address` may be NULL; `environment` is like environ: "NAME=value", ..., NULL. Finding no
 * master is not a failure: see tw_rendezvous_need. TW_BAD_INPUT: a sentence that names the variable
 * (or the argument), its value and what would be accepted; *out is then untouched. Variables that
 * the argument replaces are ignored. */
enum tw_status tw_rendezvous_find(const char *address, const char *const *environment,
				  struct tw_rendezvous *out, struct tw_error *why);
/* TW_BAD_INPUT with what would be accepted, unless a master is known. */
enum tw_status tw_rendezvous_need(const struct tw_rendezvous *w, struct tw_error *why);
/* Is this the process that runs the master: rank 0? */
bool tw_rendezvous_leads(const struct tw_rendezvous *w);

/* What to paste after `thalweg join` on another machine: where the listener is bound, or this
 * machine's name where it is bound to all addresses, or "localhost" where that name is none that
 * could be typed. */
void tw_rendezvous_join_text(const struct tw_address *bound, const char *hostname,
			     char out[TW_ADDRESS_TEXT]);

#endif
