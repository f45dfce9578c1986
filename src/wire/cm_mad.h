/* SPDX-License-Identifier: BSD-2-Clause */
/* Management datagrams (IBTA 13.4): 256 bytes that begin with this header. */
#ifndef UR_WIRE_CM_MAD_H
#define UR_WIRE_CM_MAD_H

#include <stdint.h>

#define UR_MAD_LEN	    256u
#define UR_MAD_HDR_LEN	    24u
#define UR_MAD_BASE_VERSION 1u
#define UR_MAD_CLASS_CM	    7u
#define UR_MAD_CM_VERSION   2u
#define UR_MAD_SEND	    3u /* the method of every CM message */

/* MADs travel from QP1 to QP1 with this Q_Key (IBTA 3.5.3, 10.2.5). */
#define UR_MAD_GSI_QPN	1u
#define UR_MAD_GSI_QKEY 0x80010000u

struct ur_mad_hdr {
	uint8_t base_version;
	uint8_t mgmt_class;
	uint8_t class_version;
	uint8_t method; /* including the response bit */
	uint16_t status;
	uint16_t class_specific;
	uint64_t tid;
	uint16_t attr_id;
	uint32_t attr_mod;
};

void ur_mad_decode(struct ur_mad_hdr *h, const uint8_t mad[UR_MAD_LEN]);

/* Writes the first UR_MAD_HDR_LEN bytes. */
void ur_mad_encode(const struct ur_mad_hdr *h, uint8_t mad[UR_MAD_LEN]);

#endif
