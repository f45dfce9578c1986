/* SPDX-License-Identifier: BSD-2-Clause */
/* The administrator's defaults: one number a file, rsocket(7). */
#ifndef UR_RSOCKET_CONFIG_H
#define UR_RSOCKET_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#define URS_CONF_DIR "/etc/rdma/rsocket"

struct urs_config {
	uint32_t mem;	/* receive buffer, bytes */
	uint32_t wmem;	/* send buffer, bytes */
	bool mem_fixed; /* there is a file: they do not grow */
	bool wmem_fixed;
	uint32_t sq_size; /* work requests */
	uint32_t rq_size;
	uint32_t inline_max; /* bytes */
	uint32_t iomap_size; /* mappings that a peer may make */
	uint32_t polling_us; /* to spin before sleeping */
	bool polling_fixed;  /* there is a file: always */
	uint32_t wake_up_ms; /* longest sleep in one piece */
};

/* Built-in defaults, overruled by the files that are there and make sense. */
void urs_config_load(const char *dir, struct urs_config *out);

/* Those of URS_CONF_DIR, read once. */
const struct urs_config *urs_config(void);

#endif
