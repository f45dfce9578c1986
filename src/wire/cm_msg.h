/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of the communication manager (IBTA 12.6, 12.8, 12.11) and the header
 * that the RDMA IP CM service puts before the private data of REQ and SIDR_REQ
 * (IBTA annex A11). Each message is a table of its fields; numbers are in host
 * order, GIDs unchanged.
 */
#ifndef UR_WIRE_CM_MSG_H
#define UR_WIRE_CM_MSG_H

#include <stdint.h>

#include "wire/cm_mad.h"

/* Attribute IDs. */
enum ur_cm_attr {
	UR_CM_REQ = 0x10,
	UR_CM_MRA = 0x11,
	UR_CM_REJ = 0x12,
	UR_CM_REP = 0x13,
	UR_CM_RTU = 0x14,
	UR_CM_DREQ = 0x15,
	UR_CM_DREP = 0x16,
	UR_CM_SIDR_REQ = 0x17,
	UR_CM_SIDR_REP = 0x18,
	UR_CM_LAP = 0x19,
	UR_CM_APR = 0x1a,
};
#define UR_CM_ATTR_FIRST UR_CM_REQ
#define UR_CM_ATTR_LAST	 UR_CM_APR
#define UR_CM_ATTR_COUNT (UR_CM_ATTR_LAST - UR_CM_ATTR_FIRST + 1)

/* The message that an MRA or REJ answers. */
enum ur_cm_about {
	UR_CM_ABOUT_REQ = 0,
	UR_CM_ABOUT_REP = 1,
	UR_CM_ABOUT_OTHER = 2, /* in an MRA: the LAP; in a REJ: no message */
};

enum ur_cm_transport {
	UR_CM_TRANSPORT_RC = 0,
	UR_CM_TRANSPORT_UC = 1,
	UR_CM_TRANSPORT_RD = 2,
	UR_CM_TRANSPORT_EXTENDED = 3,
};

#define UR_CM_ARI_LEN	       72u
#define UR_CM_PRIVATE_DATA_MAX 224u

/* One of the paths in a REQ, or that of a LAP. */
struct ur_cm_wire_path {
	uint16_t local_lid;
	uint16_t remote_lid;
	uint8_t local_gid[16];
	uint8_t remote_gid[16];
	uint32_t flow_label;
	uint8_t packet_rate;
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint8_t sl;
	uint8_t subnet_local;
	uint8_t ack_timeout;
};

struct ur_cm_msg_req {
	uint32_t vendor_id; /* ECE */
	uint64_t service_id;
	uint64_t ca_guid;
	uint32_t qkey;
	uint32_t qpn;
	uint8_t responder_resources;
	uint32_t local_eecn;
	uint8_t initiator_depth;
	uint32_t remote_eecn;
	uint8_t remote_response_timeout;
	uint8_t transport;
	uint8_t flow_control;
	/* Initial PSN for the receiver of this message. */
	uint32_t starting_psn;
	uint8_t local_response_timeout;
	uint8_t retry_count;
	uint16_t pkey;
	uint8_t mtu;
	uint8_t rdc_exists;
	uint8_t rnr_retry_count;
	uint8_t max_cm_retries;
	uint8_t srq;
	uint8_t extended_transport;
	struct ur_cm_wire_path primary;
	struct ur_cm_wire_path alternate;
};

struct ur_cm_msg_mra {
	uint8_t about;
	uint8_t service_timeout;
};

struct ur_cm_msg_rej {
	uint8_t about;
	uint8_t ari_len;
	uint16_t reason;
	uint8_t ari[UR_CM_ARI_LEN];
};

struct ur_cm_msg_rep {
	uint32_t qkey;
	uint32_t qpn;
	uint8_t vendor_id_h; /* ECE, in three parts */
	uint32_t local_eecn;
	uint8_t vendor_id_m;
	uint32_t starting_psn;
	uint8_t vendor_id_l;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t target_ack_delay;
	uint8_t failover_accepted;
	uint8_t flow_control;
	uint8_t rnr_retry_count;
	uint8_t srq;
	uint64_t ca_guid;
};

struct ur_cm_msg_dreq {
	uint32_t remote_qpn;
};

struct ur_cm_msg_lap {
	uint32_t remote_qpn;
	uint8_t remote_response_timeout;
	struct ur_cm_wire_path alternate;
};

struct ur_cm_msg_apr {
	uint8_t info_len;
	uint8_t status;
	uint8_t info[UR_CM_ARI_LEN];
};

struct ur_cm_msg_sidr_req {
	uint16_t pkey;
	uint64_t service_id;
};

struct ur_cm_msg_sidr_rep {
	uint8_t status;
	uint8_t info_len;
	uint16_t vendor_id_h; /* ECE, in two parts */
	uint32_t qpn;
	uint8_t vendor_id_l;
	uint64_t service_id;
	uint32_t qkey;
	uint8_t info[UR_CM_ARI_LEN];
};

/*
 * local_id is the sender's communication ID, remote_id the receiver's; the
 * request ID of a SIDR_REQ is the local_id, that of a SIDR_REP the remote_id.
 */
struct ur_cm_msg {
	enum ur_cm_attr attr;
	uint64_t tid;
	uint32_t attr_mod; /* ECE options in REQ, REP, SIDR_REP; else 0 */
	uint32_t local_id;
	uint32_t remote_id;
	union {
		struct ur_cm_msg_req req;
		struct ur_cm_msg_mra mra;
		struct ur_cm_msg_rej rej;
		struct ur_cm_msg_rep rep;
		struct ur_cm_msg_dreq dreq;
		struct ur_cm_msg_lap lap;
		struct ur_cm_msg_apr apr;
		struct ur_cm_msg_sidr_req sidr_req;
		struct ur_cm_msg_sidr_rep sidr_rep;
	} u;
	uint8_t private_data
		[UR_CM_PRIVATE_DATA_MAX]; /* zero-filled after its end */
};

/* Length of the message's private data field, bytes. */
uint8_t ur_cm_private_size(enum ur_cm_attr attr);

/* IBTA's name: "REQ". */
const char *ur_cm_attr_name(enum ur_cm_attr attr);

/* Decode a whole MAD. -EPROTONOSUPPORT: not a CM message, another version, or
 * an attribute that is not in the table; *m is then unchanged. */
int ur_cm_msg_decode(struct ur_cm_msg *m, const uint8_t mad[UR_MAD_LEN]);

/* Encode a whole MAD; reserved fields become zero. */
void ur_cm_msg_encode(const struct ur_cm_msg *m, uint8_t mad[UR_MAD_LEN]);

/* Service IDs of the RDMA IP CM service are 0x0000_0000_01<protocol><port>. */
#define UR_CMA_HDR_LEN 36u

struct ur_cma_hdr {
	uint8_t version;
	uint8_t ip_version; /* 4 or 6 */
	uint16_t port;	    /* the sender's */
	uint8_t src[16];    /* IPv4 mapped */
	uint8_t dst[16];
};

/* -EPROTONOSUPPORT: another version of the header or of IP. */
int ur_cma_hdr_decode(struct ur_cma_hdr *h, const uint8_t buf[UR_CMA_HDR_LEN]);
void ur_cma_hdr_encode(const struct ur_cma_hdr *h, uint8_t buf[UR_CMA_HDR_LEN]);

#endif
