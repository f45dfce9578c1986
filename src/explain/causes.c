/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The causes.  The first row that fits the evidence counts, so special ones
 * stand before general ones.
 */
#include <errno.h>

#include "explain/internal.h"
#include "wire/rdmap.h"

#define REMOTE UR_REC_REMOTE
#define SEND   UR_REC_SEND
#define RECV   UR_REC_RECV
#define ANY    UR_XP_ANY
#define HERE   UR_XP_HERE
#define PEER   UR_XP_PEER
#define BOTH   UR_XP_BOTH
#define NET    UR_XP_NETWORK

/* A key of a peer's request, at the responder. */
#define RKEY(name, code, condition, where, why, change)                        \
	{                                                                      \
		"rkey-" name, UR_REC_KEY, code, REMOTE, condition, where, why, \
			change                                                 \
	}
/* A key of a local list. */
#define LKEY(name, code, condition, why, change)                               \
	{ "send-lkey-" name,                                                   \
	  UR_REC_KEY,                                                          \
	  code,                                                                \
	  SEND,                                                                \
	  condition,                                                           \
	  HERE,                                                                \
	  "an element of the send request: " why,                              \
	  change },                                                            \
	{                                                                      \
		"recv-lkey-" name, UR_REC_KEY, code, RECV, condition, HERE,    \
			"an element of the receive: " why, change              \
	}
#define REFUSED(name, code, condition, where, why, change)                     \
	{                                                                      \
		name, UR_REC_REFUSED, code, ANY, condition, where, why, change \
	}
#define WC(name, code, condition, where, why, change)                          \
	{                                                                      \
		name, UR_REC_WC, code, ANY, condition, where, why, change      \
	}
#define DROP(name, code, where, why, change)                                   \
	{                                                                      \
		name, UR_REC_DROP, code, ANY, UR_C_NONE, where, why, change    \
	}
#define POST(name, code, side, condition, why, change)                         \
	{                                                                      \
		name, UR_REC_POST, code, side, condition, HERE, why, change    \
	}
#define CM(name, code, reason, where, why, change)                             \
	{                                                                      \
		name, UR_REC_CM, code, reason, UR_C_NONE, where, why, change   \
	}

/* What the peer says in a TERMINATE. */
#define TERM(name, layer, etype, code, where, why, change)                     \
	{                                                                      \
		"terminate-" name, UR_REC_TERMINATED, code,                    \
			UR_TERM_##layer << 4 | (etype), UR_C_NONE, where, why, \
			change                                                 \
	}
#define CHECK_KEY                                                                   \
	"compare the key that is used with ibv_mr.rkey at the peer (byte order, a " \
	"key of another run), and deregister there only after the last request"
#define NO_RECEIVE                                                             \
	"post receives there before this side sends: iWARP does not wait for " \
	"them; max_rd_atomic must not be more than its max_dest_rd_atomic"
#define CHECK_RANGE                                                               \
	"check the address that the peer has sent, and offset and length of the " \
	"request"
#define CHECK_PD                                                                 \
	"register the memory at the peer in the protection domain of its queue " \
	"pair, and bind a window on the queue pair that uses it"
#define NOT_UNDERSTOOD                                                         \
	"one of the two adapters violates the protocol: capture with urnic pcap"
#define SEND_AGAIN                                                             \
	"send the peer the key and address of the region that is registered now"
/* RFC 5040, 4.8, has the code in two types. */
#define TERM_INVALIDATE(name, etype)                                           \
	TERM(name, RDMAP, etype, UR_TERM_CANNOT_INVALIDATE, BOTH,              \
	     "a SEND with invalidate named a key that the peer does not "      \
	     "invalidate (RDMAP: STag cannot be invalidated)",                 \
	     "name a region or window of the peer that belongs to this "       \
	     "connection")

const struct ur_cause ur_causes[] = {
	RKEY("zero", ENOENT, UR_C_KEY_ZERO, PEER, "the request has the key 0",
	     "set wr.rdma.rkey to the rkey that the owner of the memory sent"),
	RKEY("unbound", ENOENT, UR_C_KEY_UNBOUND, BOTH,
	     "the memory window of the key is not bound any more",
	     "bind it before its key is used, and exchange the new key"),
	RKEY("deregistered", ENOENT, UR_C_KEY_GONE, BOTH,
	     "the region of the key was deregistered before",
	     "deregister only after the peer has completed its requests; "
	     "or " SEND_AGAIN),
	RKEY("of-another", ENOENT, UR_C_KEY_ELSEWHERE, BOTH,
	     "the key is or was one of another process or device",
	     "use the key that came from the process that this queue pair is "
	     "connected to"),
	RKEY("unknown", ENOENT, UR_C_NONE, BOTH,
	     "there is no region with that key",
	     "compare the key that is used with ibv_mr.rkey at its owner (byte "
	     "order, a key of another run)"),
	RKEY("reregistered", ANY, UR_C_KEY_CHANGED, BOTH,
	     "the region was re-registered, and the request fitted it before",
	     "do not change a region while peers use it"),
	RKEY("window-of-another-qp", EXDEV, UR_C_NONE, BOTH,
	     "the type 2 memory window is bound on another queue pair",
	     "use the key only through the queue pair on which it was bound"),
	RKEY("wrong-pd", EPERM, UR_C_NONE, HERE,
	     "the region belongs to another protection domain than the queue "
	     "pair",
	     "register the memory in the protection domain of the queue pair"),
	RKEY("no-remote-write", EACCES, UR_C_NEED_WRITE, HERE,
	     "the region does not allow remote writes",
	     "register it with IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE"),
	RKEY("no-remote-read", EACCES, UR_C_NEED_READ, HERE,
	     "the region does not allow remote reads",
	     "register it with IBV_ACCESS_REMOTE_READ"),
	RKEY("no-remote-atomic", EACCES, UR_C_NEED_ATOMIC, HERE,
	     "the region does not allow atomics",
	     "register it with IBV_ACCESS_LOCAL_WRITE | "
	     "IBV_ACCESS_REMOTE_ATOMIC"),
	RKEY("no-right", EACCES, UR_C_NONE, HERE,
	     "the region does not allow the operation",
	     "register it with the right that is missing"),
	RKEY("zero-based", ERANGE, UR_C_ZERO_BASED, PEER,
	     "the addresses of this region begin at 0",
	     "use offsets, not addresses, with a region that was registered with "
	     "IBV_ACCESS_ZERO_BASED"),
	RKEY("before-start", ERANGE, UR_C_BEFORE_START, BOTH,
	     "the range begins before the region",
	     "check the address that was sent to the peer"),
	RKEY("beyond-end", ERANGE, UR_C_BEYOND_END, BOTH,
	     "the range goes beyond the end of the region",
	     "check length and offset, or register more memory"),
	RKEY("outside", ERANGE, UR_C_NONE, BOTH,
	     "the range is outside of the region",
	     "check the address that was sent to the peer"),
	RKEY("indirect", ENOLINK, UR_C_NONE, HERE,
	     "a region that the indirect key is made of does not allow the "
	     "access, or its memory is unmapped",
	     "check rights and life of the regions of the list"),
	RKEY("unmapped", EFAULT, UR_C_NONE, HERE,
	     "the region is registered, but its memory is unmapped or protected",
	     "deregister memory before munmap() or free()"),

	LKEY("zero", ENOENT, UR_C_KEY_ZERO, "its key is 0",
	     "set ibv_sge.lkey to ibv_mr.lkey"),
	LKEY("deregistered", ENOENT, UR_C_KEY_GONE,
	     "its region was deregistered before the request was executed",
	     "deregister only after the completion"),
	LKEY("of-another", ENOENT, UR_C_KEY_ELSEWHERE,
	     "its key is or was one of another process or device",
	     "use the lkey of a region that this process registered with this "
	     "device"),
	LKEY("unknown", ENOENT, UR_C_NONE, "there is no region with its key",
	     "set ibv_sge.lkey to ibv_mr.lkey of a region of this device"),
	LKEY("wrong-pd", EPERM, UR_C_NONE,
	     "its region belongs to another protection domain",
	     "register the memory in the protection domain of the queue pair, or "
	     "of the shared receive queue"),
	LKEY("no-local-write", EACCES, UR_C_NONE,
	     "data is to be placed in memory without local write access",
	     "register it with IBV_ACCESS_LOCAL_WRITE"),
	LKEY("beyond-end", ERANGE, UR_C_BEYOND_END,
	     "it goes beyond the end of its region",
	     "check ibv_sge.addr and ibv_sge.length"),
	LKEY("outside", ERANGE, UR_C_NONE, "it is outside of its region",
	     "check that ibv_sge.lkey belongs to ibv_sge.addr"),
	LKEY("indirect", ENOLINK, UR_C_NONE,
	     "a region that its indirect key is made of does not allow the "
	     "access, or its memory is unmapped",
	     "check rights and life of the regions of the list"),
	LKEY("unmapped", EFAULT, UR_C_NONE,
	     "its region is registered, but the memory is unmapped or protected",
	     "deregister memory before munmap() or free()"),

	REFUSED("qp-no-remote-write", UR_REC_R_QP_ACCESS, UR_C_NEED_WRITE, HERE,
		"the queue pair does not allow remote writes",
		"set IBV_ACCESS_REMOTE_WRITE in qp_access_flags when it goes to "
		"INIT"),
	REFUSED("qp-no-remote-read", UR_REC_R_QP_ACCESS, UR_C_NEED_READ, HERE,
		"the queue pair does not allow remote reads",
		"set IBV_ACCESS_REMOTE_READ in qp_access_flags when it goes to "
		"INIT"),
	REFUSED("qp-no-remote-atomic", UR_REC_R_QP_ACCESS, UR_C_NEED_ATOMIC,
		HERE, "the queue pair does not allow atomics",
		"set IBV_ACCESS_REMOTE_ATOMIC in qp_access_flags when it goes to "
		"INIT"),
	REFUSED("qp-no-right", UR_REC_R_QP_ACCESS, UR_C_NONE, HERE,
		"the queue pair does not allow the operation",
		"set the right in qp_access_flags when it goes to INIT"),
	REFUSED("recv-too-short", UR_REC_R_TOO_LONG, UR_C_NONE, BOTH,
		"the message is longer than the receive that was posted for it",
		"post receives of the longest message, or send no more"),
	REFUSED("mtu-mismatch", UR_REC_R_LENGTH, UR_C_NONE, BOTH,
		"the size of the packet does not fit the path MTU of this side",
		"give both queue pairs the same path_mtu"),
	REFUSED("atomic-unaligned", UR_REC_R_ALIGNMENT, UR_C_NONE, PEER,
		"the address of the atomic is no multiple of 8",
		"use an address aligned to 8 bytes"),
	REFUSED("no-reads-agreed", UR_REC_R_RESOURCES, UR_C_NO_READS, HERE,
		"a READ or atomic came, and max_dest_rd_atomic is 0",
		"set max_dest_rd_atomic (responder_resources with rdma_cm) to at "
		"least 1"),
	REFUSED("too-many-reads", UR_REC_R_RESOURCES, UR_C_NONE, BOTH,
		"more READs or atomics are outstanding than agreed",
		"the peer's max_rd_atomic must not be more than max_dest_rd_atomic "
		"here"),
	REFUSED("bad-sequence", UR_REC_R_SEQUENCE, UR_C_NONE, PEER,
		"the packet does not continue the message",
		"the peer's adapter violates the protocol: compare PSNs, look for a "
		"second sender with this QP number"),
	REFUSED("xrc-srq", UR_REC_R_SRQ, UR_C_NONE, PEER,
		"the XRC domain has no shared receive queue with that number",
		"set remote_srqn to the number of ibv_get_srq_num() at the peer"),
	REFUSED("dc-access-key", UR_REC_R_DC_KEY, UR_C_NONE, BOTH,
		"the access key of the request is not that of the target",
		"set dc.dct_access_key to the dc_key that the target was "
		"created with"),
	REFUSED("dc-mtu", UR_REC_R_DC_MTU, UR_C_NONE, BOTH,
		"the initiator's path MTU is larger than the target's",
		"give the initiator at most the mtu that the target was created "
		"with"),
	REFUSED("fpdu-crc", UR_REC_R_FPDU_CRC, UR_C_NONE, BOTH,
		"an FPDU has a wrong CRC: its data are not those that were sent",
		"look for the defect in the peer's adapter, in its host, and in "
		"anything that changes packets on their way"),
	REFUSED("fpdu", UR_REC_R_FPDU, UR_C_NONE, PEER,
		"an FPDU is not valid, or does not continue the stream",
		"the peer's adapter violates the protocol: capture with urnic "
		"pcap"),
	REFUSED("no-receive-iwarp", UR_REC_R_UNBUFFERED, UR_C_NONE, HERE,
		"a message came, and no receive is posted",
		"post receives before the peer sends: iWARP does not wait for "
		"them"),
	REFUSED("invalidate", UR_REC_R_INVALIDATE, UR_C_NONE, PEER,
		"a SEND with invalidate named a key that may not be invalidated",
		"name a type 2 window that is bound on this queue pair"),
	REFUSED("unsupported", UR_REC_R_OPERATION, UR_C_NONE, PEER,
		"the operation is not supported", "use another operation"),

	WC("rnr-empty-srq", UR_WC_RNR_RETRY_EXC_ERR, UR_C_SRQ, PEER,
	   "the peer's shared receive queue was empty for longer than the retries",
	   "post more receives, use the event of the SRQ's limit, or set rnr_retry "
	   "to 7"),
	WC("rnr-exceeded", UR_WC_RNR_RETRY_EXC_ERR, UR_C_NONE, PEER,
	   "the peer had no receive posted for longer than the retries",
	   "post receives before the peer sends, use flow control, or set "
	   "rnr_retry to 7"),
	WC("retry-peer-ended", UR_WC_RETRY_EXC_ERR, UR_C_PEER_ENDED, PEER,
	   "the peer's process has ended",
	   "find out why it ended; disconnect before a process exits"),
	WC("retry-peer-destroyed", UR_WC_RETRY_EXC_ERR, UR_C_PEER_GONE, PEER,
	   "the peer's queue pair was destroyed",
	   "destroy it only after the other side is done"),
	WC("retry-peer-early", UR_WC_RETRY_EXC_ERR, UR_C_PEER_EARLY, PEER,
	   "the peer's queue pair was not in RTR yet",
	   "send only after the peer has moved its queue pair to RTR"),
	WC("retry-peer-err", UR_WC_RETRY_EXC_ERR, UR_C_PEER_ERR, PEER,
	   "the peer's queue pair was in the error state",
	   "explain the peer's queue pair: it went to ERR first"),
	WC("retry-peer-other", UR_WC_RETRY_EXC_ERR, UR_C_PEER_OTHER, BOTH,
	   "the peer's queue pair is connected to another one",
	   "dest_qp_num and GID of each side must name the other"),
	WC("retry-psn", UR_WC_RETRY_EXC_ERR, UR_C_PEER_PSN, BOTH,
	   "the first PSN of this side is not the one that the peer expects",
	   "sq_psn of each side must equal rq_psn of the other"),
	WC("retry-no-target", UR_WC_RETRY_EXC_ERR, UR_C_NO_TARGET, PEER,
	   "the address is of this host, and no recorded target of DC that you "
	   "may see has it and the number",
	   "check dc.dct_number, that dc.ah has the GID that the target was created "
	   "with, and that its process still runs; root sees the processes of all "
	   "users"),
	WC("retry-no-qp", UR_WC_RETRY_EXC_ERR, UR_C_PEER_NONE, PEER,
	   "the peer's address is of this host, and no recorded queue pair that "
	   "you may see has the peer's number",
	   "check dest_qp_num, and that the peer still runs; root sees the "
	   "processes of all users"),
	WC("retry-peer-stuck", UR_WC_RETRY_EXC_ERR, UR_C_PEER_STUCK, PEER,
	   "the peer's queue pair was ready, but no answer came",
	   "is its process stopped, or starved of a processor? Are packets lost? A "
	   "longer timeout may help"),
	WC("retry-session-unanswered", UR_WC_RETRY_EXC_ERR,
	   UR_C_SESSION_UNANSWERED, NET,
	   "nothing was acknowledged since the initiator has turned to this target",
	   "are its number and address right, does UDP port 4791 pass, is it an "
	   "adapter of this kind? Ask on the other host"),
	WC("retry-never-answered", UR_WC_RETRY_EXC_ERR, UR_C_NEVER_ANSWERED,
	   NET, "no packet was ever acknowledged",
	   "is the address right, does UDP port 4791 pass, does an adapter run "
	   "there? Ask on the other host"),
	WC("retry-silent", UR_WC_RETRY_EXC_ERR, UR_C_NONE, NET,
	   "the peer answered before, and does not any more",
	   "has it ended, or the network failed? Ask on the other host"),
	WC("remote-access", UR_WC_REM_ACCESS_ERR, UR_C_NONE, PEER,
	   "the peer refused key, range or rights of the request",
	   "ask on the other host"),
	WC("remote-invalid", UR_WC_REM_INV_REQ_ERR, UR_C_NONE, PEER,
	   "the peer refused the request as invalid: operation, length or "
	   "resources",
	   "compare the length with the receives there, qp_access_flags and "
	   "max_dest_rd_atomic; ask on the other host"),
	WC("remote-operation", UR_WC_REM_OP_ERR, UR_C_NONE, PEER,
	   "the peer could not execute the request",
	   "look at the receives' lkeys there; ask on the other host"),
	WC("window-bind", UR_WC_MW_BIND_ERR, UR_C_NONE, HERE,
	   "the memory window could not be bound or invalidated",
	   "check that the region has IBV_ACCESS_MW_BIND, the range, the PD, and "
	   "that a type 2 window is free"),
	WC("message-too-long", UR_WC_LOC_LEN_ERR, UR_C_NONE, HERE,
	   "the message is longer than the datagram or the list allows",
	   "a datagram has at most the path MTU"),
	WC("bad-response", UR_WC_BAD_RESP_ERR, UR_C_NONE, PEER,
	   "the peer's response does not fit the request",
	   "compare path_mtu of both sides"),
	WC("operation-unsupported", UR_WC_LOC_QP_OP_ERR, UR_C_NONE, BOTH,
	   "the peer does not execute this operation", "use another operation"),
	WC("no-memory", UR_WC_GENERAL_ERR, UR_C_NONE, HERE,
	   "this process had no memory for the path to the target of the request",
	   "free memory, or raise the limit of the process or of its control "
	   "group"),

	{ "message-longer-than-receive", UR_REC_RECV_WC, UR_WC_LOC_LEN_ERR, ANY,
	  UR_C_NONE, BOTH,
	  "the message is longer than the receive that was posted for it",
	  "post receives of the longest message" },

	TERM("rdmap-local", RDMAP, UR_TERM_LOCAL, ANY, PEER,
	     "the peer could not go on (RDMAP: local catastrophic error)",
	     "look at the lkeys of the receives and the messages of the adapter "
	     "there"),
	TERM("rdmap-stag", RDMAP, UR_TERM_PROTECTION, UR_TERM_INVALID_STAG,
	     BOTH,
	     "the peer has no region with the key of a request (RDMAP: invalid "
	     "STag)",
	     CHECK_KEY),
	TERM("rdmap-range", RDMAP, UR_TERM_PROTECTION, UR_TERM_BOUNDS, BOTH,
	     "a READ or atomic is outside of the peer's region (RDMAP: base or "
	     "bounds violation)",
	     CHECK_RANGE),
	TERM("rdmap-rights", RDMAP, UR_TERM_PROTECTION, UR_TERM_ACCESS, PEER,
	     "the peer's region or queue pair does not allow the operation "
	     "(RDMAP: access rights violation)",
	     "allow it there, in the flags of the region and in "
	     "qp_access_flags: IBV_ACCESS_REMOTE_WRITE for a WRITE or the sink "
	     "of a READ, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_ATOMIC"),
	TERM("rdmap-other-pd", RDMAP, UR_TERM_PROTECTION,
	     UR_TERM_NOT_ASSOCIATED, PEER,
	     "the peer's region does not belong to this connection (RDMAP: STag "
	     "not associated with the stream)",
	     CHECK_PD),
	TERM("rdmap-wrap", RDMAP, UR_TERM_PROTECTION, UR_TERM_TO_WRAP, BOTH,
	     "the range of a request goes beyond the last address (RDMAP: TO "
	     "wrap)",
	     CHECK_RANGE),
	TERM_INVALIDATE("rdmap-not-invalidated", UR_TERM_PROTECTION),
	TERM("rdmap-protection", RDMAP, UR_TERM_PROTECTION, ANY, BOTH,
	     "the peer refused key, range or rights of a request (RDMAP: remote "
	     "protection error)",
	     CHECK_KEY),
	TERM("rdmap-version", RDMAP, UR_TERM_OPERATION, UR_TERM_RDMAP_VERSION,
	     BOTH, "the peer does not know this version of RDMAP",
	     NOT_UNDERSTOOD),
	TERM("rdmap-opcode", RDMAP, UR_TERM_OPERATION, UR_TERM_OPCODE, BOTH,
	     "the peer does not execute the operation (RDMAP: unexpected "
	     "opcode)",
	     "use operations that its adapter has: atomics and immediate data "
	     "(RFC 7306) are not in each"),
	TERM_INVALIDATE("rdmap-invalidate", UR_TERM_OPERATION),
	TERM("rdmap-operation", RDMAP, UR_TERM_OPERATION, ANY, PEER,
	     "the peer failed while it executed a request (RDMAP: remote "
	     "operation error)",
	     "look at the messages of the adapter there"),
	TERM("ddp-local", DDP, UR_TERM_LOCAL, ANY, PEER,
	     "the peer could not place the data (DDP: local catastrophic error)",
	     "look at the lkeys of the receives and the messages of the adapter "
	     "there"),
	TERM("ddp-stag", DDP, UR_TERM_DDP_TAGGED, UR_TERM_T_INVALID_STAG, BOTH,
	     "the peer has no region with the key of a WRITE, or (siw) it may "
	     "not be written remotely (DDP: invalid STag)",
	     CHECK_KEY "; register it with IBV_ACCESS_REMOTE_WRITE"),
	TERM("ddp-range", DDP, UR_TERM_DDP_TAGGED, UR_TERM_T_BOUNDS, BOTH,
	     "a WRITE is outside of the peer's region (DDP: base or bounds "
	     "violation)",
	     CHECK_RANGE),
	TERM("ddp-other-pd", DDP, UR_TERM_DDP_TAGGED, UR_TERM_T_NOT_ASSOCIATED,
	     PEER,
	     "the peer's region does not belong to this connection (DDP: STag "
	     "not associated with the stream)",
	     CHECK_PD),
	TERM("ddp-wrap", DDP, UR_TERM_DDP_TAGGED, UR_TERM_T_TO_WRAP, BOTH,
	     "the range of a WRITE goes beyond the last address (DDP: TO wrap)",
	     CHECK_RANGE),
	TERM("ddp-tagged", DDP, UR_TERM_DDP_TAGGED, ANY, BOTH,
	     "the peer could not place tagged data (DDP: tagged buffer error)",
	     NOT_UNDERSTOOD),
	TERM("no-receive", DDP, UR_TERM_DDP_UNTAGGED, UR_TERM_U_NO_BUFFER, PEER,
	     "a SEND came while the peer had no receive posted, or a READ beyond "
	     "those that it agreed to (DDP: no buffer available)",
	     NO_RECEIVE),
	TERM("msn", DDP, UR_TERM_DDP_UNTAGGED, UR_TERM_U_MSN, BOTH,
	     "the peer does not expect a message with that number: it has no "
	     "receive for it, or there are more READs than the peer agreed to "
	     "(DDP: invalid MSN)",
	     NO_RECEIVE),
	TERM("too-long", DDP, UR_TERM_DDP_UNTAGGED, UR_TERM_U_TOO_LONG, BOTH,
	     "a SEND was longer than the receive that the peer had posted for it "
	     "(DDP: message too long for the buffer)",
	     "post receives of the longest message there, or send no more"),
	TERM("ddp-untagged", DDP, UR_TERM_DDP_UNTAGGED, ANY, BOTH,
	     "a message does not continue the stream for the peer (DDP: "
	     "untagged buffer error: queue, offset or version)",
	     NOT_UNDERSTOOD),
	TERM("connection-lost", MPA, UR_TERM_MPA_ERROR, UR_TERM_MPA_CLOSED, NET,
	     "the TCP connection was lost for the peer (MPA: closed)",
	     "look at the network, and at the end of the program here"),
	TERM("crc", MPA, UR_TERM_MPA_ERROR, UR_TERM_MPA_CRC, BOTH,
	     "an FPDU came to the peer with a wrong CRC (MPA)",
	     "look for the defect in either host and adapter, and in anything "
	     "that changes packets on their way"),
	TERM("marker", MPA, UR_TERM_MPA_ERROR, UR_TERM_MPA_MARKER, BOTH,
	     "the peer did not find the next FPDU in the stream (MPA: marker "
	     "and length do not fit)",
	     NOT_UNDERSTOOD),
	TERM("mpa-frame", MPA, UR_TERM_MPA_ERROR, UR_TERM_MPA_FRAME, BOTH,
	     "the peer did not understand the request or reply of MPA",
	     NOT_UNDERSTOOD),
	TERM("ird", MPA, UR_TERM_MPA_ERROR, UR_TERM_MPA_IRD, BOTH,
	     "the numbers of READs do not fit: the peer cannot answer as many "
	     "as this side wants, or gets fewer than it wants (MPA: "
	     "insufficient IRD resources)",
	     "in rdma_conn_param, lower initiator_depth here or raise "
	     "responder_resources there, or the reverse"),
	TERM("rtr", MPA, UR_TERM_MPA_ERROR, UR_TERM_MPA_RTR, BOTH,
	     "the sides do not agree on the first message of a connection (MPA: "
	     "no matching RTR option)",
	     "let both adapters use MPA v1, or an RTR message that both have"),
	TERM("mpa", MPA, UR_TERM_MPA_ERROR, ANY, PEER,
	     "the peer's MPA or TCP failed",
	     "look at the messages of the adapter there"),
	{ "terminate", UR_REC_TERMINATED, ANY, ANY, UR_C_NONE, PEER,
	  "the peer ended the connection with a TERMINATE of numbers that are "
	  "not known here",
	  "look up its numbers in the documents of the peer's adapter" },

	{ "cq-overrun", UR_REC_EVENT, UR_EVENT_CQ_ERR, ANY, UR_C_NONE, HERE,
	  "a completion queue was full, and a completion is lost",
	  "create it with room for all that may complete, or poll more often" },
	{ "connection-broken", UR_REC_EVENT, UR_EVENT_QP_FATAL, ANY, UR_C_NONE,
	  NET,
	  "the connection was reset, what came was damaged, or the peer ended it "
	  "with an error",
	  "look at the peer's queue pair, and at the network" },

	{ "delegate-refused", UR_REC_STATE, UR_QPS_ERR, ANY, UR_C_DELEGATED,
	  HERE,
	  "a request for a queue of another process of the XRC domain was refused "
	  "there",
	  "explain the queue pair of that process" },
	{ "disconnected", UR_REC_STATE, UR_QPS_ERR, ANY, UR_C_DISCONNECTED,
	  PEER, "the peer disconnected, or its process ended",
	  "expected at the end of a connection; else ask there" },
	{ "peer-ended", UR_REC_STATE, UR_QPS_ERR, ANY, UR_C_PEER_ENDED, BOTH,
	  "the peer's process has ended before the queue pair went to ERR",
	  "expected at the end of a connection; else ask there" },
	{ "connection-closed", UR_REC_STATE, UR_QPS_ERR, ANY, UR_C_NOT_CALLED,
	  PEER, "the peer closed the connection, or its process ended",
	  "expected at the end of a connection; else ask there" },
	{ "moved-to-err", UR_REC_STATE, UR_QPS_ERR, ANY, UR_C_NONE, HERE,
	  "this process moved the queue pair to ERR (ibv_modify_qp or "
	  "rdma_disconnect)",
	  "expected at the end of a connection" },

	{ "stall-rnr", UR_REC_NAK_RCVD, ANY, ANY, UR_C_RNR_ENDLESS, PEER,
	  "nothing moves: the peer has no receive posted, and RNR retry 7 is "
	  "endless",
	  "post receives at the peer, or use flow control" },
	{ "stall-peer-ended", UR_REC_TIMEOUT, ANY, ANY, UR_C_PEER_ENDED, PEER,
	  "nothing moves: the peer's process has ended", "disconnect" },
	{ "stall-peer-destroyed", UR_REC_TIMEOUT, ANY, ANY, UR_C_PEER_GONE,
	  PEER, "nothing moves: the peer's queue pair was destroyed",
	  "disconnect" },
	{ "stall-peer-early", UR_REC_TIMEOUT, ANY, ANY, UR_C_PEER_EARLY, PEER,
	  "nothing moves: the peer's queue pair is not in RTR yet",
	  "send only after the peer has moved its queue pair to RTR" },
	{ "stall-silent", UR_REC_TIMEOUT, ANY, ANY, UR_C_NONE, NET,
	  "nothing moves: the peer does not answer",
	  "look at the peer's process, and at the network" },

	{ "peer-waits-for-receive", UR_REC_NAK_SENT, ANY, ANY, UR_C_RNR_SENT,
	  HERE, "the peer sends, and no receive is posted here",
	  "post receives" },

	DROP("ud-qkey", UR_REC_R_QKEY, BOTH,
	     "datagrams with another Q_Key were dropped",
	     "the sender's remote_qkey must equal the qkey of this queue pair"),
	DROP("no-receive", UR_REC_R_NO_RECV, HERE,
	     "messages were dropped because no receive was posted",
	     "UC and UD do not wait: post receives before the peer sends"),
	DROP("ud-too-short", UR_REC_R_UD_LENGTH, HERE,
	     "datagrams were dropped because the receive is shorter",
	     "a receive needs 40 bytes for the GRH before the data"),
	DROP("not-ready", UR_REC_R_STATE, BOTH,
	     "packets came while the queue pair does not receive",
	     "move it to RTR before the peer sends"),
	DROP("pkey", UR_REC_R_PKEY, PEER, "packets of another partition came",
	     "use P_Key 0xffff on both sides"),
	DROP("other-sender", UR_REC_R_PEER, BOTH,
	     "packets came from an address that is not the peer's",
	     "dgid must be the address that the peer sends from (several "
	     "addresses, several interfaces)"),
	DROP("dc-other-address", UR_REC_R_DC_ADDRESS, BOTH,
	     "packets came to another address than the GID of the target",
	     "dc.ah must have the GID that the target was created with"),
	DROP("other-transport", UR_REC_R_TRANSPORT, BOTH,
	     "packets of another type of queue pair came",
	     "both queue pairs must be of one type"),

	POST("send-queue-full", ENOMEM, 0, UR_C_NONE,
	     "a send request was not accepted: the send queue is full",
	     "poll completions first; of unsignaled requests a later signaled one "
	     "frees the slots; or create it with a larger max_send_wr"),
	POST("recv-queue-full", ENOMEM, 1, UR_C_NONE,
	     "a receive was not accepted: the receive queue is full",
	     "post only after a receive is complete; or a larger max_recv_wr"),
	POST("send-state", EINVAL, 0, UR_C_STATE_EARLY,
	     "a send request was not accepted: the queue pair is not in RTS",
	     "move it to RTS before it sends"),
	POST("recv-state", EINVAL, 1, UR_C_STATE_RESET,
	     "a receive was not accepted: the queue pair is in RESET",
	     "move it to INIT before receives are posted"),
	POST("post-invalid", EINVAL, ANY, UR_C_NONE,
	     "a request was not accepted: its fields",
	     "check num_sge, opcode and flags, inline length, and the address "
	     "handle"),

	{ "modify-attributes", UR_REC_MODIFY, EINVAL, ANY, UR_C_NONE, HERE,
	  "ibv_modify_qp() failed: the transition or its attributes are wrong",
	  "compare with the table of ibv_modify_qp(3)" },
	{ "modify-failed", UR_REC_MODIFY, ANY, ANY, UR_C_NONE, HERE,
	  "ibv_modify_qp() failed", "see the error" },

	CM("no-listener", UR_REC_CM_REJECTED, 8, PEER,
	   "no program listens on that port there",
	   "start the server first, or compare the port and its port space"),
	CM("refused-by-application", UR_REC_CM_REJECTED, 28, PEER,
	   "the application there called rdma_reject()", "ask there"),
	CM("stale-connection", UR_REC_CM_REJECTED, 10, PEER,
	   "the peer still has a connection with this queue pair's number",
	   "connect again"),
	CM("rejected-no-qp", UR_REC_CM_REJECTED, 1, PEER,
	   "the peer has no queue pair left for the connection",
	   "destroy queue pairs there, or raise the limit"),
	CM("rejected-no-resources", UR_REC_CM_REJECTED, 3, PEER,
	   "the peer has no resources left for the connection",
	   "free memory or connections there; is the backlog of rdma_listen() "
	   "too small?"),
	CM("rejected-timeout", UR_REC_CM_REJECTED, 4, PEER,
	   "the peer waited too long for the next message of the connection",
	   "is a process stopped, or are packets lost? Call rdma_accept() or "
	   "rdma_establish() soon"),
	CM("rejected-unsupported", UR_REC_CM_REJECTED, 5, PEER,
	   "the peer does not support the request",
	   "compare the type of the queue pair and the port space of both sides"),
	CM("rejected-comm-id", UR_REC_CM_REJECTED, 6, PEER,
	   "the peer does not know the connection any more",
	   "has its process ended, or its id been destroyed? Connect again"),
	CM("rejected-service-type", UR_REC_CM_REJECTED, 9, BOTH,
	   "the peer's listener is for another type of queue pair",
	   "give both sides the same port space (qp_type)"),
	CM("rejected-gid", UR_REC_CM_REJECTED, 12, BOTH,
	   "the peer does not accept the GID of the path",
	   "connect to an address that its device has in the GID table, with "
	   "the version of RoCE that it has there"),
	CM("rejected-traffic-class", UR_REC_CM_REJECTED, 15, PEER,
	   "the peer does not accept the traffic class", "set another tos"),
	CM("rejected-hop-limit", UR_REC_CM_REJECTED, 16, PEER,
	   "the peer does not accept the hop limit",
	   "connect from the same subnet, or allow routed RoCE there"),
	CM("rejected-mtu", UR_REC_CM_REJECTED, 26, BOTH,
	   "the path MTU is larger than the peer's",
	   "give the interfaces of both sides the same MTU"),
	CM("rejected-reads", UR_REC_CM_REJECTED, 27, BOTH,
	   "the peer does not answer as many READs at a time as asked",
	   "lower initiator_depth of rdma_conn_param"),
	CM("rejected-rnr-retry", UR_REC_CM_REJECTED, 29, BOTH,
	   "the peer does not accept the RNR retry count",
	   "set another rnr_retry_count in rdma_conn_param"),
	CM("rejected-duplicate-id", UR_REC_CM_REJECTED, 30, BOTH,
	   "the peer has another connection with this communication ID",
	   "connect again"),
	CM("rejected-vendor-option", UR_REC_CM_REJECTED, 35, BOTH,
	   "the peer does not support an option of this adapter",
	   "connect without it"),
	CM("rejected-mpa", UR_REC_CM_REJECTED, 0, PEER,
	   "the peer refused the connection, for which iWARP has no reasons",
	   "did the application there call rdma_reject(), or was TCP reset? Ask "
	   "there"),
	CM("rejected", UR_REC_CM_REJECTED, ANY, PEER,
	   "the other side rejected the connection, with a reason that is rare",
	   "look up its number in the InfiniBand specification, 12.6.7.2"),
	CM("unreachable", UR_REC_CM_UNREACHABLE, ANY, NET,
	   "the other side did not answer the request for a connection",
	   "is the address right, does UDP port 4791 pass, does an adapter run "
	   "there?"),
	CM("connect-error", UR_REC_CM_ERROR, ANY, NET,
	   "the connection could not be made", "see the error"),
	CM("unresolved", UR_REC_CM_RESOLVE, ANY, NET,
	   "the address or route could not be resolved",
	   "is there a route, and a device on its interface?"),
};

const size_t ur_cause_count = sizeof(ur_causes) / sizeof(ur_causes[0]);

/* MPA has one type of errors, to which adapters give several numbers: Chelsio's
 * send 3. */
static uint8_t side_of(const struct ur_record_event *e)
{
	if (e->type == UR_REC_TERMINATED && e->side >> 4 == UR_TERM_MPA)
		return UR_TERM_MPA << 4 | UR_TERM_MPA_ERROR;
	return e->side;
}

static bool fits(const struct ur_cause *c, const struct ur_xp *x)
{
	const struct ur_record_event *e = &x->e;

	return c->type == e->type &&
	       (c->code == UR_XP_ANY || c->code == e->code) &&
	       (c->side == UR_XP_ANY || c->side == side_of(e)) &&
	       ur_condition_holds((enum ur_condition)c->condition, x);
}

const struct ur_cause *ur_cause_find(const struct ur_xp *x)
{
	for (size_t i = 0; i < ur_cause_count; i++)
		if (fits(&ur_causes[i], x))
			return &ur_causes[i];
	return NULL;
}
