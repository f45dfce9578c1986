/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters of a port's stack, with one for every reason to drop a frame.
 * Fields, names and output are generated from one list. */
#ifndef UR_NET_COUNTERS_H
#define UR_NET_COUNTERS_H

#include <stdint.h>

#define UR_NET_COUNTERS(X)                                                     \
	X(rx_frames)                                                           \
	X(rx_roce)                                                             \
	X(rx_host)                                                             \
	X(rx_arp)                                                              \
	X(rx_nd)                                                               \
	X(rx_echo)                                                             \
	X(rx_too_big)                                                          \
	X(rx_unreachable)                                                      \
	X(tx_frames)                                                           \
	X(tx_arp)                                                              \
	X(tx_nd)                                                               \
	X(tx_echo)                                                             \
	X(tx_parked)                                                           \
	X(neigh_created)                                                       \
	X(neigh_evicted)                                                       \
	X(neigh_failed)                                                        \
	X(neigh_conflict)                                                      \
	X(neigh_moved)                                                         \
	X(addr_conflict)                                                       \
	X(drop_runt)                                                           \
	X(drop_mac)                                                            \
	X(drop_vlan)                                                           \
	X(drop_arp_form)                                                       \
	X(drop_arp_other)                                                      \
	X(drop_nd_form)                                                        \
	X(drop_nd_other)                                                       \
	X(drop_ip_version)                                                     \
	X(drop_ip_length)                                                      \
	X(drop_ip_sum)                                                         \
	X(drop_ip_source)                                                      \
	X(drop_ip_options)                                                     \
	X(drop_ip_extension)                                                   \
	X(drop_fragment)                                                       \
	X(drop_udp_length)                                                     \
	X(drop_udp_sum)                                                        \
	X(drop_icmp_form)                                                      \
	X(drop_icmp_sum)                                                       \
	X(drop_icmp_other)                                                     \
	X(drop_rate)                                                           \
	X(drop_tx_full)                                                        \
	X(drop_parked_full)                                                    \
	X(drop_parked_failed)

struct ur_net_counters {
#define UR_NET_COUNTER_FIELD(name) uint64_t name;
	UR_NET_COUNTERS(UR_NET_COUNTER_FIELD)
#undef UR_NET_COUNTER_FIELD
};

#endif
