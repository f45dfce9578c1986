/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_resolve_eth_l2_from_gid(): the Ethernet address of an address vector. Our
 * own packets leave through sockets and never need it; providers and programs
 * that build frames themselves do.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netlink/route/link.h>
#include <netlink/route/link/vlan.h>
#include <netlink/route/neighbour.h>
#include <string.h>

#include "base/addr.h"
#include "verbs/convert.h"
#include "verbs/objects.h"

#define NO_VLAN 0xffffu

/*
 * RFC 1112 6.4 and RFC 2464 7: multicast addresses are derived from the group.
 */
static bool multicast_mac(const uint8_t gid[16], uint8_t mac[ETHERNET_LL_SIZE])
{
	if (!ur_addr_is_multicast(gid))
		return false;
	if (ur_addr_is_v4(gid)) {
		mac[0] = 0x01;
		mac[1] = 0x00;
		mac[2] = 0x5e;
		mac[3] = gid[13] & 0x7f;
		mac[4] = gid[14];
		mac[5] = gid[15];
		return true;
	}
	mac[0] = 0x33;
	mac[1] = 0x33;
	memcpy(mac + 2, gid + 12, 4);
	return true;
}

/* RFC 4291 appendix A: an interface identifier derived from the address. */
static bool link_local_mac(const uint8_t gid[16], uint8_t mac[ETHERNET_LL_SIZE])
{
	if (gid[0] != 0xfe || gid[1] != 0x80 || gid[11] != 0xff ||
	    gid[12] != 0xfe)
		return false;
	mac[0] = gid[8] ^ 2;
	memcpy(mac + 1, gid + 9, 2);
	memcpy(mac + 3, gid + 13, 3);
	return true;
}

static int copy_mac(struct nl_addr *addr, uint8_t mac[ETHERNET_LL_SIZE])
{
	if (!addr || nl_addr_get_len(addr) != ETHERNET_LL_SIZE)
		return -EHOSTUNREACH;
	memcpy(mac, nl_addr_get_binary_addr(addr), ETHERNET_LL_SIZE);
	return 0;
}

static int own_mac(struct nl_sock *sk, uint32_t ifindex,
		   uint8_t mac[ETHERNET_LL_SIZE])
{
	struct rtnl_link *link;
	int rc;

	if (rtnl_link_get_kernel(sk, (int)ifindex, NULL, &link) < 0)
		return -EHOSTUNREACH;
	rc = copy_mac(rtnl_link_get_addr(link), mac);
	rtnl_link_put(link);
	return rc;
}

static int vlan_of(struct nl_sock *sk, uint32_t ifindex, uint16_t *vid)
{
	struct rtnl_link *link;
	const char *type;

	if (rtnl_link_get_kernel(sk, (int)ifindex, NULL, &link) < 0)
		return -EHOSTUNREACH;
	type = rtnl_link_get_type(link);
	*vid = type && strcmp(type, "vlan") == 0
		       ? (uint16_t)rtnl_link_vlan_get_id(link)
		       : NO_VLAN;
	rtnl_link_put(link);
	return 0;
}

static int neighbour_mac(struct nl_sock *sk, uint32_t ifindex,
			 const uint8_t gid[16], uint8_t mac[ETHERNET_LL_SIZE])
{
	bool v4 = ur_addr_is_v4(gid);
	struct nl_addr *dst = v4 ? nl_addr_build(AF_INET, gid + 12, 4)
				 : nl_addr_build(AF_INET6, gid, 16);
	struct nl_cache *cache;
	struct rtnl_neigh *neigh;
	int rc = -EHOSTUNREACH;

	if (!dst)
		return -ENOMEM;
	if (rtnl_neigh_alloc_cache(sk, &cache) == 0) {
		neigh = rtnl_neigh_get(cache, (int)ifindex, dst);
		if (neigh) {
			rc = copy_mac(rtnl_neigh_get_lladdr(neigh), mac);
			rtnl_neigh_put(neigh);
		}
		nl_cache_free(cache);
	}
	nl_addr_put(dst);
	return rc;
}

static int resolve(struct urv_context *c, const struct ibv_ah_attr *attr,
		   uint8_t mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	const uint8_t *dgid = attr->grh.dgid.raw;
	struct nl_sock *sk = nl_socket_alloc();
	struct ur_gid source, own;
	uint8_t port;
	int rc, index;

	if (!sk)
		return -ENOMEM;
	rc = ur_dev_gid(c->dev, attr->port_num, attr->grh.sgid_index, &source);
	if (rc)
		goto free_socket;
	if (nl_connect(sk, NETLINK_ROUTE) < 0) {
		rc = -ENOTCONN;
		goto free_socket;
	}
	rc = vlan_of(sk, source.ifindex, vid);
	if (rc || multicast_mac(dgid, mac) || link_local_mac(dgid, mac))
		goto free_socket;
	index = ur_dev_gid_find(c->dev, dgid, &port);
	if (index >= 0 && ur_dev_gid(c->dev, port, (uint32_t)index, &own) == 0)
		rc = own_mac(sk, own.ifindex, mac);
	else
		rc = neighbour_mac(sk, source.ifindex, dgid, mac);

free_socket:
	nl_socket_free(sk);
	return rc;
}

int ibv_resolve_eth_l2_from_gid(struct ibv_context *context,
				struct ibv_ah_attr *attr,
				uint8_t eth_mac[ETHERNET_LL_SIZE],
				uint16_t *vid)
{
	uint8_t mac[ETHERNET_LL_SIZE];
	uint16_t found = NO_VLAN;
	int rc = attr->is_global
			 ? resolve(urv_context(context), attr, mac, &found)
			 : -EINVAL;

	if (rc)
		return urv_minus_one(rc);
	memcpy(eth_mac, mac, sizeof(mac));
	if (vid)
		*vid = found;
	return 0;
}
