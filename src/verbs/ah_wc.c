/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Replying to a datagram. The 40 bytes before a UD message hold the network
 * header it came with: an IPv6 header fills them as a GRH does; with an IPv4
 * header, in bytes 20..39, the first 20 are undefined.
 */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/addr.h"
#include "verbs/convert.h"
#include "verbs/objects.h"

#define IPV4_OFFSET 20u
#define IPV4_LEN    20u

/* The addresses of a received datagram as GIDs, and its traffic class. */
struct net_header {
	uint8_t src[16];
	uint8_t dst[16];
	uint32_t flow_label;
	uint8_t tclass;
};

/* RFC 1071: a header with a correct checksum sums up to all ones. */
static bool is_ipv4(const uint8_t *h)
{
	uint32_t sum = 0;

	if (h[0] != 0x45)
		return false;
	for (unsigned int i = 0; i < IPV4_LEN; i += 2)
		sum += (uint32_t)(h[i] << 8 | h[i + 1]);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

static void header_read(struct net_header *out, const struct ibv_grh *grh)
{
	const uint8_t *v4 = (const uint8_t *)grh + IPV4_OFFSET;
	uint32_t vtf = be32toh(grh->version_tclass_flow);

	if (is_ipv4(v4)) {
		out->tclass = v4[1];
		out->flow_label = 0;
		ur_addr_of_packet(v4, out->src, out->dst);
		return;
	}
	out->tclass = (uint8_t)(vtf >> 20);
	out->flow_label = vtf & 0xfffff;
	memcpy(out->src, grh->sgid.raw, 16);
	memcpy(out->dst, grh->dgid.raw, 16);
}

/* A datagram to a group is answered from our first address of its family. */
static int first_of_kind(struct ur_dev *dev, uint32_t port_num,
			 const uint8_t like[16])
{
	struct ur_gid gid;

	for (uint32_t i = 0; ur_dev_gid(dev, port_num, i, &gid) == 0; i++)
		if (!ur_addr_is_zero(gid.addr) &&
		    ur_addr_is_v4(gid.addr) == ur_addr_is_v4(like))
			return (int)i;
	return -ENOENT;
}

int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num,
			struct ibv_wc *wc, struct ibv_grh *grh,
			struct ibv_ah_attr *attr)
{
	struct ur_dev *dev = urv_context(context)->dev;
	struct net_header h;
	int index;

	*attr = (struct ibv_ah_attr){
		.dlid = wc->slid,
		.sl = wc->sl,
		.src_path_bits = wc->dlid_path_bits,
		.port_num = port_num,
	};
	if (!(wc->wc_flags & IBV_WC_GRH))
		return 0;
	header_read(&h, grh);
	index = ur_addr_is_multicast(h.dst)
			? first_of_kind(dev, port_num, h.dst)
			: ur_dev_port_gid_index(dev, port_num, h.dst);
	if (index < 0)
		return urv_minus_one(index);
	attr->is_global = 1;
	memcpy(attr->grh.dgid.raw, h.src, 16);
	attr->grh.sgid_index = (uint8_t)index;
	attr->grh.flow_label = h.flow_label;
	attr->grh.traffic_class = h.tclass;
	attr->grh.hop_limit = 0xff;
	return 0;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc,
				     struct ibv_grh *grh, uint8_t port_num)
{
	struct ibv_ah_attr attr;
	int rc = urv_check(URV_PD, pd);

	if (rc)
		return urv_null(rc);
	if (ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr))
		return NULL;
	return ibv_create_ah(pd, &attr);
}
