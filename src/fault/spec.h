/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What faults to inject (urnic-fault(7)): the text and its meaning.
 *
 *   SPEC   = ITEM {"," ITEM}, or "none"
 *   ITEM   = "seed=" N | FAULT ["=" VALUE] {"@" SHARE | ":" N | "/" FILTER}
 *   SHARE  = P "%" (of those that match, by chance) | N (the first N of them)
 *   FILTER = "in" | "out" | CLASS | "peer=" ADDRESS | "qp=" N |
 *            "device=" NAME | "errno=" NAME | "verb=" NAME
 *
 * A fault without a value of its own takes a SHARE for it: "drop=1%" is
 * "drop@1%".  Those of a device, and of urnicd, are in force or not, without value
 * and SHARE.
 */
#ifndef UR_FAULT_SPEC_H
#define UR_FAULT_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#define UR_FAULT_RULES	 32u
#define UR_FAULT_TEXT	 1024u /* of a SPEC, with its NUL */
#define UR_FAULT_STEPS	 64u   /* lines of a scenario */
#define UR_FAULT_WHY_LEN 320u
#define UR_FAULT_ORDER	 65536u /* bytes of a scenario that a tool sends */
#define UR_FAULT_MILLION 1000000u

enum ur_fault_kind {
	UR_FAULT_DROP,
	UR_FAULT_LOST_ACK,
	UR_FAULT_PARTITION,
	UR_FAULT_PORT_DOWN,
	UR_FAULT_NO_ADDRESS,
	UR_FAULT_CORRUPT,
	UR_FAULT_RESET, /* of a TCP stream */
	UR_FAULT_RNR,
	UR_FAULT_NAK,
	UR_FAULT_DUPLICATE,
	UR_FAULT_DELAY,
	UR_FAULT_JITTER,
	UR_FAULT_REORDER,
	UR_FAULT_RATE,
	UR_FAULT_SLOW,
	UR_FAULT_KILL,
	UR_FAULT_FAIL, /* from here on none acts on packets */
	UR_FAULT_REMOVE,
	UR_FAULT_OVERRUN,
	UR_FAULT_KILL_URNICD,
	UR_FAULT_LATE_CQ,
	UR_FAULT_FORK,
	UR_FAULT_KINDS,
};

/* Verbs that can be made to fail, and the errno if none is given. */
#define UR_FAULT_VERBS(V)                                                      \
	V(open_device, ENOMEM)                                                 \
	V(alloc_pd, ENOMEM)                                                    \
	V(reg_mr, ENOMEM)                                                      \
	V(alloc_mw, ENOMEM)                                                    \
	V(create_comp_channel, ENOMEM)                                         \
	V(create_cq, ENOMEM)                                                   \
	V(create_srq, ENOMEM)                                                  \
	V(create_qp, ENOMEM)                                                   \
	V(modify_qp, ENOMEM)                                                   \
	V(create_ah, ENOMEM)                                                   \
	V(post_send, ENOMEM)                                                   \
	V(post_recv, ENOMEM)                                                   \
	V(post_srq_recv, ENOMEM)

enum ur_fault_verb {
#define UR_FAULT_VERB(name, err) UR_FAULT_##name,
	UR_FAULT_VERBS(UR_FAULT_VERB)
#undef UR_FAULT_VERB
		UR_FAULT_VERB_COUNT,
};

/* Directions and classes of packets: a rule has a set of each. */
#define UR_FAULT_IN	  1u
#define UR_FAULT_OUT	  2u
#define UR_FAULT_SEND	  1u
#define UR_FAULT_WRITE	  2u
#define UR_FAULT_READ	  4u /* requests */
#define UR_FAULT_ATOMIC	  8u /* requests */
#define UR_FAULT_RESPONSE 16u
#define UR_FAULT_ACK	  32u
#define UR_FAULT_REQUEST                                                       \
	(UR_FAULT_SEND | UR_FAULT_WRITE | UR_FAULT_READ | UR_FAULT_ATOMIC)
#define UR_FAULT_ALL 63u

struct ur_fault_rule {
	uint8_t kind; /* enum ur_fault_kind */
	uint8_t directions;
	uint8_t classes;
	uint8_t verb; /* FAIL, FORK: enum ur_fault_verb, or their number: any */
	bool has_peer;
	uint8_t peer[16]; /* IPv4 mapped */
	char device[16];  /* "": any */
	uint32_t qpn;	  /* 0: any */
	uint32_t millionths;
	uint64_t first; /* only the first so many; 0: all */
	uint64_t nth;	/* only this one; 0: all */
	uint64_t value; /* ns, bits per second, enum ur_nak */
	int error;	/* FAIL: errno */
	uint16_t at;	/* its text in that of the SPEC */
	uint16_t len;
};

struct ur_fault_spec {
	char text[UR_FAULT_TEXT];
	bool has_seed;
	uint64_t seed;
	uint32_t n;
	struct ur_fault_rule rule[UR_FAULT_RULES];
};

/* What is in force from at_ns after the start on, until the next step. */
struct ur_fault_scenario {
	uint32_t n;
	struct ur_fault_step {
		uint64_t at_ns;
		struct ur_fault_spec spec;
	} step[UR_FAULT_STEPS];
};

/* False: why is one line that says what is wrong and what is allowed. */
bool ur_fault_parse(struct ur_fault_spec *s, const char *text,
		    char why[UR_FAULT_WHY_LEN]);

/*
 * A scenario: lines of TIME SPEC in ascending order, "#" begins a comment.  As
 * ur_fault_parse().
 */
bool ur_fault_parse_lines(struct ur_fault_scenario *s, const char *text,
			  char why[UR_FAULT_WHY_LEN]);

/* SPEC or "@FILE", as of URNIC_FAULT. */
bool ur_fault_parse_arg(struct ur_fault_scenario *s, const char *arg,
			char why[UR_FAULT_WHY_LEN]);

const char *ur_fault_name(enum ur_fault_kind kind);

/* Does the fault act on packets? */
static inline bool ur_fault_is_of_packets(enum ur_fault_kind kind)
{
	return kind < UR_FAULT_FAIL;
}

/* Has the scenario such a fault? */
bool ur_fault_has_packets(const struct ur_fault_scenario *s);

/*
 * A number below UR_FAULT_MILLION that depends on nothing but the arguments:
 * that of the event `number` in the stream of events `stream`, for a rule.
 */
uint32_t ur_fault_draw(uint64_t seed, uint32_t rule, uint32_t stream,
		       uint64_t number);

#endif
