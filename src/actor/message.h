/* SPDX-License-Identifier: Apache-2.0 */
/* message.h - everything actors say to each other, as bytes (docs/WIRE.md).
 *
 * A message is a fixed header, a fixed body per type, an optional tail of fixed records and an
 * optional payload (a vector as its codec wrote it, or the arrays of a part).  Header, body and
 * records have the same layout in memory and on the wire, little endian. */
#ifndef TW_ACTOR_MESSAGE_H
#define TW_ACTOR_MESSAGE_H

#include "actor/account.h"
#include "base/command.h"
#include "base/heap.h"
#include "base/sha256.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define TW_WIRE_MAGIC 0x57414854u /* "THAW" */
#define TW_WIRE_MAJOR 4
#define TW_WIRE_MINOR 0
/* A frame carries no more of a payload than this (docs/WIRE.md, "Chunks"). */
#define TW_CHUNK (256u << 10)
/* Bytes that prove to one listener who dials it (world/tcp/tcp_ticket.c). */
#define TW_TICKET 16
/* The longest tail: more records than any cluster has members, shards or gaps. */
#define TW_TAIL_MAX (16u << 20)

enum tw_role { TW_MASTER, TW_SERVER, TW_SHARD, TW_WORKER, TW_ROLES };

/* Where an actor lives: a node is a process that may vanish as a whole. */
struct tw_addr {
	uint32_t node;
	uint16_t role;
	uint16_t index; /* shard number; 0 for the other roles */
};
/* What people call the server on this node: nodes count the master, people count from 0. */
static inline uint32_t tw_server_number(uint32_t node)
{
	return node - 1;
}

enum tw_type {
	TW_HELLO = 1, /* worker, server → master: let me in, or: I am still here */
	TW_WELCOME,   /* master → worker: your slot and incarnation */
	TW_REFUSE, /* master → worker: no (fenced, or it does not fit): join again or go; shard →
			 master: this worker's contributions are not finite, again and again;
			 worker → master: another cell of me says what cannot be */
	TW_VIEW,   /* master → shards, workers: membership, where shards are */
	TW_BYE,  /* worker, server → master: I leave; master → all: it is over, or you may go */
	TW_HOST, /* master → server → shard: take this range (payload: its part) */
	TW_HOSTED, /* shard → master: taken; or: what it was to be taken from cannot be used */
	TW_STATE,  /* shard → master: what I have (answer to ASK, or after a master came back) */
	TW_ASK,    /* master → shard: tell me your state; → worker: your figures */
	TW_LEASE,  /* master → worker: positions to work on */
	TW_DONE,   /* worker → master: a lease's contributions are on every shard */
	TW_IDLE,   /* worker → master: I have no lease; master → shard: this worker is idle */
	TW_PUSH,   /* worker → shard: a contribution's slice */
	TW_ACK,    /* shard → worker: taken; a credit comes back */
	TW_PULL,   /* worker → shard */
	TW_PARAMS, /* shard → worker: what you see now (payload) */
	TW_UNCHANGED, /* shard → worker: you have it already */
	TW_HAVE,      /* shard → master: staged for the round */
	TW_COMMIT,    /* master → shard: apply these, in this order */
	TW_PIN,  /* master → shard: keep a view for the evaluation once it has so much, let it go,
			 or count; shard → master: what the view has */
	TW_EVAL, /* master → worker: score these test samples at the pinned version */
	TW_RESULT, /* worker → master: the score */
	TW_SNAP,   /* master → shard, worker: send me your part; or: flush what is collected */
	TW_PART,   /* shard, worker → master: the part (payload) */
	TW_FORM,   /* master → shard of a replica: with whom to add up */
	TW_REDUCE, /* shard → the same shard of another replica: a piece of the sum (payload) */
	TW_GIVE,   /* master → shard of a replica: give a copy of yourself to this node */
	TW_COPY,   /* shard → server of another node → its shard: the copy (payload: a part) */
	TW_SPREAD, /* shard → the same shard of another replica: what my worker contributed */
	TW_HEARD,  /* the answer: what I have of you; and between cells, if nothing else says so */
	TW_MIX,    /* shard → the same shard of another replica: let us take the mean of our
		      parameters (payload); and the answer: mine */
	TW_VEC,    /* master → shard: a list of commands over the vectors of its slice */
	TW_SCALAR, /* shard → master: the list is carried out; what it added up */
	TW_ACT,    /* worker → the next cell of itself: activations of a micro-batch (payload); or
		      that there are no more micro-batches */
	TW_GRAD,   /* worker → the cell before: gradients of these activations (payload) */
	TW_CLOSED, /* worker → its first cell: my contributions are closed up to this one */
	TW_FIGURES, /* a cell of a worker → master: what I have done so far */
	TW_FETCH,   /* worker → master: give me these samples (data.placement: on-demand) */
	TW_SAMPLES, /* master → worker: the samples (payload) */
	/* said by worlds to each other; no actor sees them (world/tcp/tcp.h) */
	TW_GREET, /* dialler → who listens: who I am and what I run */
	TW_TERMS, /* the answer: who you are here */
	TW_DENY,  /* the answer: no; payload: the sentence */
	TW_PING,  /* I am alive */
	TW_PEERS, /* master → workers: where the servers listen */
	TW_DATA, /* joiner → master: give me the job, bytes of the data set or, at the end, of the
		     model; and the answer */
	TW_OVER, /* master → all: the run has ended; payload: result as JSON, or why it failed */
	TW_TICKETS, /* master → who listens: who may dial you, and what each of them shows */
	TW_LEAVING, /* my actors have left the cluster: this connection closes, and is not missed */
	TW_LEND,    /* on a socket pair: you may fetch what I send (wire/lend.h); I can; I have */
	TW_TYPES
};

enum tw_flags {
	TW_FLAG_ANSWER = 1,   /* PUSH: answer with PARAMS when I may read */
	TW_FLAG_SKIPPED = 2,  /* PUSH: no payload, apply my last one again (B-FASGD) */
	TW_FLAG_NUMBERS = 4,  /* ACK, PARAMS: ... because its numbers are not finite, or absurd */
	TW_FLAG_REFUSED = 8,  /* ACK, PARAMS, HAVE, SPREAD: the push was not taken; HOSTED: nor the
				 part */
	TW_FLAG_FREE = 16,    /* costs no virtual time (evaluation) */
	TW_FLAG_DROPPED = 32, /* ACK, PARAMS: the push was late and dropped */
	TW_FLAG_FRESH =
		64, /* HELLO: I know nothing; PULL: I have nothing, reset what you remember; BYE: I
		       was not welcomed yet, or do not know it; HOST: all clocks are at 0 */
	TW_FLAG_LEAVE = 128, /* BYE: clean leave (not a death); a server's HELLO: I leave; PULL:
			      * answer when the other replicas have all of mine; HEARD: I leave, say
			      * what you have */
	TW_FLAG_APPLIED =
		256,         /* PUSH to itself: a lock-free shard has applied it already; HAVE: the
				   mean was adopted */
	TW_FLAG_FULL = 512,  /* VIEW to shards: all members; a worker not in it is gone */
	TW_FLAG_HELD = 1024, /* ACK: taken; the answer comes when the gate allows.  ASK: for whom do
				you wait in this attempt?  HAVE: the answer */
	TW_FLAG_RELAYED = 2048, /* a lock-free shard to itself: the tail has the sender's address */
	TW_FLAG_PLAIN =
		4096, /* PUSH, ACT, GRAD: the payload is floats, whatever the job's codec is */
	TW_FLAG_STALE = 8192,  /* ACK: what you read at `version` is too old: begin again */
	TW_FLAG_LOCAL = 16384, /* GREET: my end of the connection stays on this machine; TERMS: so
				   does mine, and payloads are not hashed from now on */
	TW_FLAG_LENT = 32768,  /* a frame: its chunk is to be fetched (wire/lend.h) */
};

struct tw_header {
	uint32_t magic;
	uint8_t major, minor;
	uint16_t type;
	uint32_t length;          /* bytes after the header: body, tail, payload */
	uint16_t chunk;           /* which 256 KiB of a streamed payload; 0 when whole */
	uint8_t sender, receiver; /* enum tw_role of the actors; a shard's number is `shard` */
	uint64_t view;            /* generation of the run the sender is in: fences what is older */
	uint32_t from;            /* sender: slot of a worker, node of a server, shard number */
	uint32_t incarnation;
	uint64_t seq; /* a worker's contributions count from 1 */
	uint32_t shard;
	uint32_t flags;
	uint32_t tail;    /* bytes of tail records */
	uint32_t payload; /* bytes of payload */
	uint64_t hash; /* XXH3-64 of what follows the header, seeded with XXH3-64 of what precedes
			     this field; 0 where nothing crossed a wire */
};
_Static_assert(sizeof(struct tw_header) == 64, "wire header");

#define TW_RANGES 6

struct tw_range {
	uint64_t from; /* global position: epoch * samples + place in the epoch's order */
	uint32_t count, lease;
};

/* A shard's version: (incarnation, n). */
struct tw_version {
	uint32_t incarnation, pad;
	uint64_t n;
};

struct tw_body_hello {
	uint32_t role, slot, incarnation, hosted; /* hosted: shards this server holds */
	uint64_t seq, lease;                      /* last contribution made, last lease received */
	uint64_t steps, samples;                  /* of this worker since it joined */
	uint32_t boot; /* of its node: the same boot asks twice, another has lost its memory */
	uint32_t cell; /* stages: the cell of the slot that it wants; UINT32_MAX: any */
	uint64_t own;  /* data.placement own: its samples; 0: as many as there is room for */
};
struct tw_body_welcome {
	uint32_t slot, incarnation, workers;
	uint32_t boot; /* of the node it is meant for: one that restarted since must not take it */
	uint64_t cut;  /* number of the cut that training resumes from */
	uint32_t cell; /* stages: which cell of the slot it is; else 0 */
	uint32_t pad;
};
struct tw_body_refuse {
	uint32_t why;  /* enum tw_refusal */
	uint32_t slot; /* shard → master: whose contributions; h.incarnation is the worker's.  A
			  cell → master: which other cell */
};
enum tw_refusal {
	TW_REFUSED_FENCED = 1,
	TW_REFUSED_FULL,    /* no slot is free now: ask again later */
	TW_REFUSED_NUMBERS, /* its contributions are not finite, again and again: go */
	TW_REFUSED_STUCK,   /* it made no progress while others waited for it: go */
	TW_REFUSED_LIES,    /* it said to another cell of its worker what cannot be: go */
};
/* VIEW's tail: struct tw_place per shard (to workers), or struct tw_member (to shards).  WELCOME's
 * tail: struct tw_place per shard and per cell of the worker. */
struct tw_body_view {
	uint32_t live;    /* live workers */
	uint32_t running; /* to workers; 0: finish your step, push, give back the rest */
	uint64_t number;  /* of the view, growing */
};
struct tw_place {
	uint32_t shard; /* its number; of a cell: which cell of the worker */
	uint32_t node;
	uint32_t incarnation; /* of the shard; of a cell: boot of its node */
	uint32_t what;        /* enum tw_place_what */
};
enum tw_place_what { TW_PLACE_SHARD, TW_PLACE_CELL };
struct tw_member {
	uint32_t slot, incarnation, state; /* state: enum tw_member_state */
	uint32_t node;                     /* where it lives: only this node speaks for it */
};
enum tw_member_state { TW_GONE, TW_LIVE, TW_LEFT /* cleanly */ };
/* A contribution that the master has judged, for all shards. */
struct tw_judged {
	uint32_t slot, incarnation; /* whose; slot UINT32_MAX: nobody's, only a flush */
	uint32_t seq;               /* its lowest bits */
	uint32_t what;              /* enum tw_judgement, and TW_JUDGED_FLUSH */
};
enum tw_judgement {
	TW_JUDGED_APPLY,   /* apply it alone */
	TW_JUDGED_COLLECT, /* keep it for an update */
	TW_JUDGED_DROP,    /* it is late */
	TW_JUDGED_REFUSE,  /* some shard found its numbers bad */
	TW_JUDGED_VOID,    /* it was settled without this shard: late, unless others applied it */
};
#define TW_JUDGED_FLUSH 256u /* then apply what is collected */
struct tw_body_host {
	uint32_t shard, incarnation;
	uint64_t cut;    /* it is taken from this cut; 0: from the engine's initial parameters */
	uint32_t unhost; /* 1: let go instead */
	uint32_t live;
	uint32_t attempt, pad; /* number of the copy, as in GIVE; 0: no copy */
};
/* STATE's tail: struct tw_span of what was applied, then of what was applied twice, then the
 * tail of the last COMMIT; payload: struct tw_tally. */
struct tw_body_state {
	struct tw_version version;
	uint64_t round, contributions;
	uint64_t asked;                      /* number of the ASK answered, 0 unasked */
	uint32_t spans, twice, members, pad; /* records in the tail; 0 */
};
struct tw_body_ask {
	uint64_t number;
};
struct tw_body_lease {
	uint64_t round;        /* under round gates; else 0 */
	uint64_t confirmed;    /* the master knows that leases up to this one are done */
	struct tw_range range; /* range.lease: the lease's id */
	uint32_t batch;        /* samples of one step */
	uint32_t live;         /* workers the leases are shared by */
	double nominal;        /* samples that weigh 1 */
	uint32_t period;       /* steps between two pushes; 0: as the job says.  Where an optimiser
				  drives the run: number of the batch that the range is of */
	uint32_t before;       /* the lease that comes first, if this one is sent ahead; else 0 */
};
struct tw_body_done {
	uint64_t lease, upto;    /* below `upto` it is done; the rest is given back */
	uint64_t steps, samples; /* of this worker since it joined */
	double loss;             /* sum of sample losses since the last DONE ... */
	uint64_t losses;         /* ... of so many samples ... */
	uint64_t busy;           /* ... whose gradients took so long, ns */
};
/* DONE's tail: struct tw_range of the lease that every shard dropped as late: to be dealt again. */
struct tw_body_idle {
	uint32_t slot, incarnation, idle;
	uint32_t lease; /* of a worker: the last that it has heard of */
};
struct tw_body_push {
	struct tw_version base; /* what it was computed on */
	uint64_t round;
	struct tw_account account;
	uint32_t own, ranges; /* own: its own updates already in what it was computed on */
	float rate;           /* for what was applied in the answer it was computed on */
	uint32_t count;       /* average_state: steps that the state in the payload has seen */
	uint64_t number;      /* comes back in the answer */
	uint64_t clock;       /* of the worker: contributions closed, this one included */
	uint64_t link;  /* what this link carries counts from 1: how the receiver finds gaps */
	uint32_t lane;  /* of its stage that says this */
	uint32_t lanes; /* rounds: so many of them push in this one; 0: it has no others */
	struct tw_range range[TW_RANGES];
};
struct tw_body_ack {
	struct tw_version version;
	uint64_t link;      /* what the link carried is closed up to this number */
	uint16_t unapplied; /* bit k: number link - k was closed and not applied ... */
	uint16_t late;      /* ... because it came too late for a gate without rounds */
	uint32_t pad;
};
struct tw_body_pull {
	struct tw_version have;
	uint64_t round;  /* answer only when the round before this one is committed */
	uint64_t pin;    /* evaluation: the pinned version of this number; else 0 */
	uint64_t number; /* comes back in the answer */
	uint64_t clock;  /* of the worker, or TW_CLOCK_UNKNOWN */
	uint64_t link;   /* the sender has closed the link up to this number: nothing of it comes */
	uint32_t lane, pad; /* as in PUSH */
};
/* A worker that joins, or comes back from idleness, takes its clock from the answers. */
#define TW_CLOCK_UNKNOWN UINT64_MAX
#define TW_CLOCK_MOST    ((uint64_t)1 << 62) /* no clock comes so far: it is taken as unknown */
struct tw_body_params {
	struct tw_version version;
	uint64_t link; /* what the link carried is closed up to this number */
	uint64_t round, pin, number;
	uint64_t least; /* clock of the slowest worker that is waited for */
	double statistic;
	uint64_t applied;         /* samples that are applied here, each counted once */
	uint16_t unapplied, late; /* as in ACK */
	uint32_t count;           /* as in PUSH */
};
/* Where the master judges contributions (tw_plan_judges), the header has the seq, and slot
 * UINT32_MAX says only how many sets were carried out. */
struct tw_body_have {
	uint64_t round;             /* judged: sets of verdicts that this shard has carried out;
				       HELD: contributions that it has applied */
	uint32_t slot, incarnation; /* slot: whose; HELD: who is waited for, UINT32_MAX: nobody */
	uint32_t samples, steps;    /* HELD: steps is how many others that one waits for first;
				       judged: updates of its own that its worker has already */
	double loss;      /* HELD: how long somebody has waited for that one, ns; 0: not known */
	uint32_t attempt; /* replicas: the one whose sum is complete here; judged: updates of this
			     shard since it was read, UINT32_MAX: of an earlier life; else 0 */
	float rate;       /* replicas: the rate that it will be applied with */
};
/* COMMIT's tail: struct tw_member in order of addition; to replicas, which have the sum already,
 * struct tw_span of the positions in it; where the master judges contributions, struct tw_judged,
 * to be carried out in this order. */
struct tw_body_commit {
	uint64_t round;   /* judged: number of the set, from 0 in a generation */
	uint32_t count;   /* records in the tail */
	uint32_t attempt; /* replicas: the sum of this one; servers: 0 */
	uint64_t steps;   /* replicas that mix: of all contributions of the round; else 0 */
};
/* The best evaluation so far (train.keep: best), whose view shards keep beside their parameters. */
struct tw_kept {
	uint64_t pin;          /* of its views; 0: none */
	uint64_t number;       /* of its threshold, see duty/eval; of the last one: one more */
	double loss, accuracy; /* accuracy -1: none */
	double samples;        /* that are in it, mean over the shards */
};
/* Pins of a run that was resumed may be those of the run before: what is known of them differs. */
static inline bool tw_kept_same(const struct tw_kept *a, const struct tw_kept *b)
{
	return memcmp(a, b, sizeof *a) == 0;
}
/* A PIN may be sent ahead of time: the shard keeps its view as soon as so many rounds are committed
 * and so many samples applied, and answers then.  One that has more already keeps what it has. */
struct tw_body_pin {
	uint64_t pin;
	uint32_t what, pad;      /* enum tw_pin_what */
	uint64_t round, samples; /* master: when it has so many; shard: what it has */
	/* shard → master only: what the view has */
	uint64_t steps, updates;
	uint64_t staleness_sum, staleness_count;
	double rate;
	uint64_t digest;     /* of the view, where there are replicas; else 0 */
	struct tw_kept kept; /* BEST: what is kept, or is to be; else 0 */
};
enum tw_pin_what {
	TW_PIN_KEEP,
	TW_PIN_RELEASE, /* no answer */
	TW_PIN_COUNT,   /* keep nothing, and answer immediately */
	TW_PIN_BEST,    /* keep the view of kept.pin until another one is better; 0: keep none.  The
			   answer says what is kept.  round 1: with the vector, as a PART */
	TW_PIN_ASK,     /* say what is kept (BEST) */
};
struct tw_body_eval {
	uint64_t pin, from;
	uint32_t count, pad;
};
struct tw_body_result {
	uint64_t pin, from, count;
	double loss, correct;
};
struct tw_body_snap {
	uint64_t cut;         /* 0: the final vector only */
	uint32_t flush, part; /* flush: apply what is collected; part: send it */
	uint64_t pin;         /* then the parameters become the view of this pin; 0: they stay */
};
/* FORM's tail: struct tw_member of the replicas that act together, by rank.  State TW_LIVE: it
 * contributes; TW_LEFT: it has nothing to add, and takes part.  It holds from this round on, until
 * the next FORM of its kind.  `attempt` grows with every FORM and GIVE; what is of an earlier one
 * is void. */
struct tw_body_form {
	uint64_t round;
	uint32_t attempt, what; /* enum tw_form_what */
};
enum tw_form_what {
	TW_FORM_ROUND,      /* add up the contributions of a round; or mix parameters in it */
	TW_FORM_SPREAD,     /* these are all replicas: tell them of your worker's contributions */
	TW_FORM_SETTLE,     /* ... and say (HAVE) when all of them have all of these */
	TW_FORM_PARAMETERS, /* take the mean of all parameters, and adopt it at the COMMIT */
	TW_FORM_VIEWS,      /* take the mean of the views that are pinned */
	TW_FORMS
};
struct tw_body_reduce {
	uint64_t round;
	uint32_t attempt, chunk, part;
	uint16_t whole;            /* it is the sum; else what is added up so far */
	uint16_t what;             /* as in FORM */
	uint32_t contributions;    /* in it; 0: there is nothing in it yet, and no payload */
	float drift_most;          /* the largest of theirs */
	struct tw_account account; /* of all of them */
};
struct tw_body_give {
	uint64_t round; /* give it after this number of rounds */
	uint32_t node, attempt;
};
struct tw_body_copy {
	uint32_t shard, incarnation, attempt, live;
};
struct tw_body_heard {
	uint64_t number; /* of your contributions, or of what you said to me: up to this one */
	uint32_t again;  /* send what follows, if you have sent it already */
	uint32_t test;   /* cells: ... and of activations of an evaluation */
};
struct tw_body_mix {
	uint64_t number;      /* of the exchange, by who asks; grows */
	uint32_t answer, pad; /* it is the answer */
};
/* VEC's tail: struct tw_command.  Lists count from 1: a shard carries out number k after k - 1,
 * once, and answers one that it has carried out with the same results again. */
struct tw_body_vec {
	uint64_t number;
	uint64_t round; /* of the evaluation that the list opens; else that of the last one */
};
/* SCALAR's tail: struct tw_scalar, one for each command with a result, in order. */
struct tw_body_scalar {
	uint64_t number; /* of the list */
};
struct tw_scalar {
	double value;
};
/* A cell of a worker computes one stage of the model.  Micro-batches of a stream count from 0; the
 * next stream begins when all of one have come back.  h.seq of ACT and GRAD counts what is said to
 * one cell, from 1; activations of evaluations have a count of their own. */
struct tw_body_act {
	uint64_t stream, micro; /* without samples: the stream has only the micro-batches before */
	uint64_t from;          /* position of the first sample, as in LEASE; of a test sample */
	uint64_t round;         /* as in LEASE */
	uint64_t pin;           /* an evaluation at this version; 0: training */
	double nominal;         /* samples that weigh 1 */
	uint32_t count, lease;  /* samples; whose lease they are of */
	uint32_t stage;         /* of the model, that these are the inputs of; 0: its samples are */
	uint32_t last;          /* 1: its lease has no more samples after it */
	uint32_t group, pad;    /* rounds: micro-batches of the group that it is of; 0: M */
	uint64_t seen;          /* of what you said to me, I have all up to this number */
};
struct tw_body_grad {
	uint64_t stream, micro;
	double loss;           /* sum of the samples' losses */
	uint32_t stage, count; /* of the model, that these are gradients of the outputs of; without
				  a payload: said by its other lanes to the first cell */
	uint64_t seen;         /* as in ACT */
};
struct tw_body_closed {
	uint64_t mark; /* stream << 40 | micro-batch: of mine, all before this one are closed */
	uint32_t cell, pad; /* who says it */
};
/* What a cell of a worker has done since it was welcomed. */
struct tw_stage_work {
	uint64_t forwards, backwards;        /* micro-batches */
	int64_t forward_time, backward_time; /* ns that these took */
	uint64_t updates;                    /* contributions that were answered ... */
	int64_t update_time;                 /* ... ns from the backward before each until then */
	uint64_t sent;                       /* bytes of activations and their gradients */
	uint64_t memory;          /* most bytes of versions of its parameters, inputs, stashes */
	uint32_t depth, versions; /* most micro-batches in flight; most versions in memory */
};
/* Clocks of machines differ, so times are durations, ns. */
struct tw_body_figures {
	uint64_t asked;        /* number of the ASK answered; 0: unasked */
	uint64_t began, ended; /* so long ago: the begin of its first move, the end of its last */
	struct tw_stage_work work;
	uint64_t pin, from; /* of the last evaluation that it has passed on, as in EVAL */
	uint32_t waits; /* for which cell of its worker it has waited a while; UINT32_MAX: none */
	uint32_t pad;
};
/* Training samples, and in SAMPLES the same again. */
struct tw_body_fetch {
	uint64_t from; /* position, as in LEASE */
	uint32_t count, pad;
};
#define TW_FIGURE_MOST ((uint64_t)1 << 53) /* no figure is greater, and no double loses it */
struct tw_body_part {
	uint64_t cut, round; /* round: of a shard, rounds committed */
	uint32_t slot, pad;  /* of a worker */
};

/* Who dials.  A joiner that knows nothing yet asks with TW_GREET_ASK; its job hash and the rest are
 * then 0 and it is answered TERMS, may ask for DATA, and gets no node. */
struct tw_body_greet {
	uint32_t role; /* TW_WORKER or TW_SERVER */
	uint32_t flags;
	uint32_t node;             /* who I am: from TERMS; TW_NODE_NEW: give me one */
	uint32_t boot;             /* from TERMS */
	uint64_t run;              /* of the cluster: from TERMS; 0 not known */
	uint8_t ticket[TW_TICKET]; /* proves to this listener that the node is mine; 0 none */
	struct tw_sha job, layout; /* hashes that must agree */
	struct tw_sha data;        /* fingerprint of the data set */
	uint32_t port, minor;      /* a server's: where it listens; minor version of the wire */
	uint64_t process;          /* random: the same process asks again; 0 to servers */
};
enum tw_handshake_flags {
	TW_GREET_ASK = 1,
	TW_GREET_PAIR = 2,  /* an inherited socket pair */
	TW_GREET_KEEPS = 4, /* I want the model when the run is over */
	TW_GREET_MODEL = 8, /* with ASK: it is over, and I ask for the model */
	TW_GREET_NEAR = 16, /* where I listen, only processes of my machine reach me */
};
#define TW_NODE_NEW UINT32_MAX
struct tw_body_terms {
	uint32_t node, boot;      /* of the dialler */
	uint32_t own, own_boot;   /* of who answers: its server's node, 0 none */
	uint32_t master, servers; /* boot of the master if it is here, else 0; cluster.servers */
	uint64_t run;
	uint8_t ticket[TW_TICKET];       /* from the master: to show it in the next GREET; else 0 */
	struct tw_sha job, layout, data; /* hashes, as in GREET */
	uint64_t data_bytes;           /* of the data set as DATA gives it; 0: it cannot be given */
	int64_t every, suspect, limit; /* heartbeats, ns */
};
struct tw_body_deny {
	uint32_t why;  /* enum tw_denial */
	uint32_t wait; /* ms after which asking again may help; 0: it will not */
};
enum tw_denial {
	TW_DENY_VERSION = 1,
	TW_DENY_JOB,
	TW_DENY_LAYOUT,
	TW_DENY_DATA,
	TW_DENY_ROLE,
	TW_DENY_RUN,
	TW_DENY_BUSY,
	TW_DENY_PLACE
};
struct tw_body_ping {
	uint64_t number;
};
/* PEERS' tail: struct tw_peer_place of everybody whom the receiver dials and who is there, or may
 * still come back: servers; workers without servers; cells of the same worker. */
struct tw_body_peers {
	uint64_t number;
};
struct tw_peer_place {
	uint32_t node, boot;
	uint32_t port, role;       /* role: TW_SERVER or TW_WORKER */
	uint8_t ticket[TW_TICKET]; /* what the receiver of this PEERS shows there */
	/* number or name, 0-terminated; "" the same machine, by an inherited pair */
	char host[112];
};
struct tw_body_data {
	uint32_t what, pad;   /* enum tw_data_what */
	uint64_t from, bytes; /* asked for, or in the payload */
};
enum tw_data_what { TW_DATA_JOB = 1, TW_DATA_SET, TW_DATA_MODEL };
struct tw_body_over {
	uint32_t status, pad; /* enum tw_status */
	uint64_t cut;         /* last complete checkpoint */
	uint64_t model_bytes; /* of the model as DATA gives it now; 0: it is not given */
	struct tw_sha model;  /* of those bytes */
};

/* TICKETS' tail: struct tw_ticket. */
struct tw_body_tickets {
	uint32_t anew, pad; /* replaces everything this master has told before */
};
struct tw_ticket {
	uint32_t node, boot;       /* who dials */
	uint32_t role, gone;       /* gone: it is not let in any more */
	uint8_t ticket[TW_TICKET]; /* what it will show */
};

enum tw_lend_what {
	TW_LEND_OFFER, /* fetch from me, if you can */
	TW_LEND_MAY,   /* I can: lend to me */
	TW_LEND_TAKEN, /* I have fetched so many */
};
struct tw_body_lend {
	uint32_t what, pad;            /* enum tw_lend_what */
	uint64_t process, cell, token; /* OFFER: struct tw_lender */
	uint64_t taken;                /* TAKEN: messages, ever */
};

union tw_body {
	struct tw_body_lend lend;
	struct tw_body_tickets tickets;
	struct tw_body_greet greet;
	struct tw_body_terms terms;
	struct tw_body_deny deny;
	struct tw_body_ping ping;
	struct tw_body_peers peers;
	struct tw_body_data data;
	struct tw_body_over over;
	struct tw_body_hello hello;
	struct tw_body_welcome welcome;
	struct tw_body_refuse refuse;
	struct tw_body_view view;
	struct tw_body_host host;
	struct tw_body_state state;
	struct tw_body_ask ask;
	struct tw_body_lease lease;
	struct tw_body_done done;
	struct tw_body_idle idle;
	struct tw_body_push push;
	struct tw_body_ack ack;
	struct tw_body_pull pull;
	struct tw_body_params params;
	struct tw_body_have have;
	struct tw_body_commit commit;
	struct tw_body_pin pin;
	struct tw_body_eval eval;
	struct tw_body_result result;
	struct tw_body_snap snap;
	struct tw_body_part part;
	struct tw_body_form form;
	struct tw_body_reduce reduce;
	struct tw_body_give give;
	struct tw_body_copy copy;
	struct tw_body_heard heard;
	struct tw_body_mix mix;
	struct tw_body_vec vec;
	struct tw_body_scalar scalar;
	struct tw_body_act act;
	struct tw_body_grad grad;
	struct tw_body_closed closed;
	struct tw_body_figures figures;
	struct tw_body_fetch fetch;
};

struct tw_msg {
	struct tw_msg *next; /* the owner of the message may chain it */
	struct tw_addr to, from;
	struct tw_header h;
	union tw_body b;
	struct tw_block *tail;    /* a reference, or NULL; h.tail bytes of it count */
	struct tw_block *payload; /* a reference, or NULL; h.payload bytes of it count ... */
	size_t payload_at;        /* ... from here on: a slice of a vector travels without a copy */
	bool fresh; /* nobody else refers to the payload: who gets the message may write there */
};

static inline uint8_t *tw_msg_payload(const struct tw_msg *m)
{
	return m->payload->data + m->payload_at;
}

/* --- the table of kinds (message_kinds.c) --- */

/* What a payload is.  That says how long it may be. */
enum tw_payload {
	TW_PAYLOAD_NONE,
	TW_PAYLOAD_SLICE, /* a shard's slice of a vector, as a codec of the job writes it */
	TW_PAYLOAD_PART,  /* a part of a checkpoint */
	TW_PAYLOAD_CUT,   /* what crosses a cut of the model */
	TW_PAYLOAD_BATCH, /* samples of a step */
	TW_PAYLOAD_BYTES, /* anything of up to `most` bytes */
};

struct tw_kind {
	const char *name;
	uint32_t body;   /* bytes */
	uint32_t record; /* bytes of a record of the tail; 0: it has no tail */
	enum tw_payload payload;
	uint32_t most; /* TW_PAYLOAD_BYTES */
	bool shared; /* an actor whose class has `shared` may be entered with it by many at once */
	uint8_t to[TW_ROLES];     /* by the sender's role: bits of the roles it may say it to */
	uint8_t within[TW_ROLES]; /* ... and of those on its own node that it may, beside these */
};
extern const struct tw_kind tw_kinds[TW_TYPES]; /* message_kinds.c */

/* NULL: there is no such type. */
static inline const struct tw_kind *tw_kind_of(uint16_t type)
{
	return type < TW_TYPES && tw_kinds[type].name ? &tw_kinds[type] : NULL;
}
/* May an actor of the role `sender` say it to one of the role `receiver`? */
static inline bool tw_may_say(uint16_t type, uint32_t sender, uint32_t receiver, bool one_node)
{
	const struct tw_kind *k = tw_kind_of(type);

	if (!k || sender >= TW_ROLES || receiver >= TW_ROLES)
		return false;
	return (k->to[sender] | (one_node ? k->within[sender] : 0u)) >> receiver & 1;
}
/* The longest payload of a type where no slice, no batch, and nothing that crosses a cut, has more
 * than `slice` bytes and no part more than `part`; 0: it has none. */
size_t tw_payload_most(uint16_t type, size_t slice, size_t part);
/* Is it said by worlds to each other?  Actors neither say it nor hear it. */
static inline bool tw_type_is_worlds(uint16_t type)
{
	return type >= TW_GREET && type < TW_TYPES;
}

/* Bytes of the body of a type, 0 for an unknown type. */
static inline size_t tw_body_bytes(uint16_t type)
{
	return type < TW_TYPES ? tw_kinds[type].body : 0;
}
const char *tw_type_name(uint16_t type);
/* Bytes the message takes on a wire. */
static inline size_t tw_msg_bytes(const struct tw_msg *m)
{
	return sizeof m->h + tw_body_bytes(m->h.type) + m->h.tail + m->h.payload;
}

/* --- frames; wire/frame.h moves them --- */

/* Bytes of payload in the frame of a chunk: TW_CHUNK, or what is left of it, or 0. */
static inline uint32_t tw_chunk_bytes(const struct tw_header *h)
{
	const uint64_t from = (uint64_t)h->chunk * TW_CHUNK;
	const uint64_t left = h->payload > from ? h->payload - from : 0;

	return left < TW_CHUNK ? (uint32_t)left : TW_CHUNK;
}
/* The header of the message's frame `chunk`: as m->h, with the roles and the shard's number of
 * m->from and m->to, its length, and no hash yet. */
struct tw_header tw_msg_header(const struct tw_msg *m, uint16_t chunk);
/* The other way: role and index of m->from and m->to as m->h has them.  Nodes are left alone. */
void tw_msg_route(struct tw_msg *m);
/* What a frame's hash is seeded with: XXH3-64 of the header before the hash. */
uint64_t tw_header_seed(const struct tw_header *h);
/* Everything that can be wrong with a header by itself, cheapest first: magic, major, type, roles,
 * what the type may carry, and lengths that fit each other and the chunk.  TW_BAD_BYTES with the
 * sentence in *why, which may be NULL. */
enum tw_status tw_header_check(const struct tw_header *h, struct tw_error *why);

#endif
