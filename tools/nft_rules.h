/* SPDX-License-Identifier: BSD-2-Clause */
/* What the rules of nftables do to RoCEv2's packets of other hosts. */
#ifndef UR_TOOLS_NFT_RULES_H
#define UR_TOOLS_NFT_RULES_H

struct json_object;

enum ur_nft_verdict {
	UR_NFT_PASS,
	UR_NFT_MAYBE, /* it depends on addresses, interfaces, sets and the like */
	UR_NFT_DROP,
};

/* The chain that decides, and where a rule could be put. */
struct ur_nft_chain {
	const char *family;
	const char *table;
	const char *name;
};

/*
 * The verdict of `nft -j list ruleset` on a UDP datagram to port 4791 at a hook,
 * "input" or "output": the hardest of its base chains of type filter.  *chain, of
 * the document's strings, is set unless it is UR_NFT_PASS.  Connection tracking
 * is taken to know no state of it, as the answers of RoCE have port numbers of
 * their own.
 */
enum ur_nft_verdict ur_nft_look(struct json_object *doc, const char *hook,
				struct ur_nft_chain *chain);

#endif
