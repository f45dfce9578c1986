/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the golden captures: pcap files in host byte order with Ethernet
 * frames. Returns every packet, and for those of RoCEv2 over IPv4 or IPv6 the
 * inputs of the ICRC.
 */
#ifndef UR_TESTS_UNIT_WIRE_PCAP_H
#define UR_TESTS_UNIT_WIRE_PCAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "wire/icrc.h"

struct pcap {
	FILE *file;
	uint8_t frame[65536];
};

struct pcap_packet {
	bool roce; /* UDP to port 4791; else the rest is unset */
	bool v4;
	uint16_t id; /* IPv4 identification */
	struct ur_icrc_flow flow;
	const uint8_t *udp; /* BTH to ICRC */
	size_t udp_len;
};

/* 0, or -1 if the file is missing or of another format. */
int pcap_open(struct pcap *p, const char *path);
void pcap_close(struct pcap *p);

/* 1 and the next packet, valid until the next call; 0 at the end. */
int pcap_next(struct pcap *p, struct pcap_packet *out);

#endif
