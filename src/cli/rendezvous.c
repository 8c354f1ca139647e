/* SPDX-License-Identifier: Apache-2.0 */
/* rendezvous.c - the variables of torchrun and Slurm, strictly read. */
#include "cli/rendezvous.h"

#include "base/machine/environment.h"
#include "base/printable.h"
#include "cli/hostlist.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The first variable of `names` that is set, into *name and *value. */
static bool first_set(const char *const *environment, const char *const *names, const char **name,
		      const char **value)
{
	for (; *names; names++) {
		*name = *names;
		*value = tw_environment_find(environment, *names);
		if (*value)
			return true;
	}
	return false;
}

static enum tw_status whole(const char *name, const char *value, uint32_t least, uint32_t most,
			    uint32_t *out, struct tw_error *why)
{
	const char *at = value;
	uint64_t n = 0;

	for (; *at >= '0' && *at <= '9' && n <= most; at++)
		n = n * 10 + (uint64_t)(*at - '0');
	if (at == value || *at || n < least || n > most)
		return tw_fail(why, TW_BAD_INPUT,
			       "%s is \"%s\": accepted is a whole number from %" PRIu32
			       " to %" PRIu32,
			       name, tw_show(value).text, least, most);
	*out = (uint32_t)n;
	return TW_OK;
}

static enum tw_status find_port(const char *const *environment, uint16_t *port,
				struct tw_error *why)
{
	const char *value = tw_environment_find(environment, "MASTER_PORT");
	uint32_t n = TW_PORT;
	enum tw_status st = TW_OK;

	if (value)
		st = whole("MASTER_PORT", value, 1, UINT16_MAX, &n, why);
	*port = (uint16_t)n;
	return st;
}

static enum tw_status from_nodelist(const char *name, const char *value, struct tw_rendezvous *w,
				    struct tw_error *why)
{
	char host[TW_HOSTLIST_TEXT];
	struct tw_address a;
	enum tw_status st = tw_hostlist_first(name, value, host, why);

	if (st != TW_OK)
		return st;
	if (tw_address_parse(host, w->master.port, &a, NULL) != TW_OK)
		return tw_fail(why, TW_BAD_INPUT,
			       "%s is \"%s\": its first host \"%s\" is not a host name; "
			       "accepted are lists such as node[01-03,07],gpu5",
			       name, tw_show(value).text, tw_show(host).text);
	w->master = a;
	w->source = TW_WHERE_NODELIST;
	w->have_master = true;
	return TW_OK;
}

/* A port in both variables must be the same one: to choose silently would send half of the
 * processes elsewhere. */
static enum tw_status from_master_addr(const char *value, bool port_set, struct tw_rendezvous *w,
				       struct tw_error *why)
{
	struct tw_address a;

	if (tw_address_parse(value, w->master.port, &a, NULL) != TW_OK || !a.host[0] || a.port == 0)
		return tw_fail(why, TW_BAD_INPUT,
			       "MASTER_ADDR is \"%s\": accepted are HOST, HOST:PORT, IPV6 and "
			       "[IPV6]:PORT, with a port from 1 to 65535",
			       tw_show(value).text);
	if (port_set && a.port != w->master.port)
		return tw_fail(why, TW_BAD_INPUT,
			       "MASTER_ADDR is \"%s\" and MASTER_PORT is \"%u\": accepted is the "
			       "port in one of them, or the same in both",
			       tw_show(value).text, w->master.port);
	w->master = a;
	w->source = TW_WHERE_MASTER_ADDR;
	w->have_master = true;
	return TW_OK;
}

static enum tw_status find_master(const char *const *environment, struct tw_rendezvous *w,
				  struct tw_error *why)
{
	static const char *const lists[] = { "SLURM_JOB_NODELIST", "SLURM_NODELIST", NULL };
	const char *name, *value;
	const enum tw_status st = find_port(environment, &w->master.port, why);

	if (st != TW_OK)
		return st;
	if (first_set(environment, lists, &name, &value))
		return from_nodelist(name, value, w, why);
	value = tw_environment_find(environment, "MASTER_ADDR");
	if (!value)
		return TW_OK;
	return from_master_addr(value, tw_environment_find(environment, "MASTER_PORT") != NULL, w,
				why);
}

static enum tw_status from_argument(const char *address, struct tw_rendezvous *w,
				    struct tw_error *why)
{
	const enum tw_status st = tw_address_parse(address, TW_PORT, &w->master, why);

	if (st != TW_OK)
		return st;
	w->source = TW_WHERE_ARGUMENT;
	w->have_master = true;
	return TW_OK;
}

static enum tw_status find_rank(const char *const *environment, struct tw_rendezvous *w,
				struct tw_error *why)
{
	static const char *const ranks[] = { "RANK", "SLURM_PROCID", NULL };
	static const char *const worlds[] = { "WORLD_SIZE", "SLURM_NTASKS", "SLURM_NPROCS", NULL };
	static const char *const torch_worlds[] = { "WORLD_SIZE", NULL };
	const char *rank_name, *rank, *world_name, *world;
	enum tw_status st = TW_OK;

	w->have_rank = first_set(environment, ranks, &rank_name, &rank);
	w->have_world = first_set(environment,
				  tw_environment_find(environment, "RANK") ? torch_worlds : worlds,
				  &world_name, &world);
	if (w->have_rank)
		st = whole(rank_name, rank, 0, UINT32_MAX - 1, &w->rank, why);
	if (st == TW_OK && w->have_world)
		st = whole(world_name, world, 1, UINT32_MAX, &w->world, why);
	if (st == TW_OK && w->have_rank && w->have_world && w->rank >= w->world)
		return tw_fail(why, TW_BAD_INPUT,
			       "%s is \"%s\" and %s is \"%s\": accepted is a rank from 0 to one "
			       "less than the number of processes",
			       rank_name, tw_show(rank).text, world_name, tw_show(world).text);
	return st;
}

enum tw_status tw_rendezvous_find(const char *address, const char *const *environment,
				  struct tw_rendezvous *out, struct tw_error *why)
{
	struct tw_rendezvous w = { .source = TW_WHERE_NOWHERE };
	enum tw_status st;

	st = address ? from_argument(address, &w, why) : find_master(environment, &w, why);
	if (st == TW_OK)
		st = find_rank(environment, &w, why);
	if (st == TW_OK)
		*out = w;
	return st;
}

enum tw_status tw_rendezvous_need(const struct tw_rendezvous *w, struct tw_error *why)
{
	if (w->have_master)
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT,
		       "the address of the master is missing; accepted are an address (thalweg "
		       "join HOST, HOST:PORT or [IPV6]:PORT; serve prints it), or one of the "
		       "variables SLURM_JOB_NODELIST (srun sets it) and MASTER_ADDR, with "
		       "MASTER_PORT if it is not %d",
		       TW_PORT);
}

bool tw_rendezvous_leads(const struct tw_rendezvous *w)
{
	return w->have_rank && w->rank == 0;
}

/* "", "0.0.0.0", "::" and every other way to write the latter. */
static bool any_host(const char *host)
{
	static const struct in6_addr six_any = IN6ADDR_ANY_INIT;
	struct in6_addr six;
	struct in_addr four;

	if (inet_pton(AF_INET, host, &four) == 1)
		return four.s_addr == INADDR_ANY;
	if (inet_pton(AF_INET6, host, &six) == 1)
		return memcmp(&six, &six_any, sizeof six) == 0;
	return !host[0];
}

void tw_rendezvous_join_text(const struct tw_address *bound, const char *hostname,
			     char out[TW_ADDRESS_TEXT])
{
	struct tw_address a = *bound;

	if (any_host(bound->host) &&
	    (tw_address_parse(hostname, 0, &a, NULL) != TW_OK || any_host(a.host) || a.port))
		snprintf(a.host, sizeof a.host, "localhost");
	a.port = bound->port;
	tw_address_text(&a, out);
}
