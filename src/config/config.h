/* SPDX-License-Identifier: BSD-2-Clause */
/* The configured devices: from the file in URNIC_CONFIG, else /etc/urnic.json,
 * else one device of each kind (urnic.json(5)). */
#ifndef UR_CONFIG_CONFIG_H
#define UR_CONFIG_CONFIG_H

#include "core/dev_spec.h"
#include "core/port_spec.h"

#define UR_CONFIG_FILE	    "/etc/urnic.json"
#define UR_CONFIG_WHY_LEN   512u
#define UR_CONFIG_MAX_BYTES 1048576u

struct ur_config {
	uint32_t count;
	struct ur_dev_spec devices[UR_MAX_DEVICES];
	uint32_t nports; /* that urnic runs itself */
	struct ur_port_spec ports[UR_MAX_PORTS];
	struct ur_eal_args eal;
	char sock_name
		[UR_SOCK_NAME_LEN]; /* socket of the process that runs them; "": the default */
};

/* The port that a device is on; NULL: it uses kernel sockets. */
const struct ur_port_spec *ur_config_port(const struct ur_config *c,
					  const struct ur_dev_spec *dev);

/*
 * The network interface that is the host's side of port number i: the port's
 * name, if it is a valid interface name. ur_config_get() binds devices of the
 * port to it.
 */
void ur_config_ifname(const struct ur_config *c, uint32_t i,
		      char out[IF_NAMESIZE]);

/* One device of each kind. */
void ur_config_default(struct ur_config *c);

/* Parse a text. 0, or -EINVAL and a line in why: "FILE:LINE:COLUMN: expected
 * WHAT, found WHAT". *c is written only on success. */
int ur_config_parse(struct ur_config *c, const char *file, const char *text,
		    size_t len, char why[UR_CONFIG_WHY_LEN]);

/* The same for a file; -errno and "FILE: reason" if it cannot be read. */
int ur_config_read(struct ur_config *c, const char *file,
		   char why[UR_CONFIG_WHY_LEN]);

/* The default configuration file; NULL: there is none. */
const char *ur_config_file(void);

/* This process' devices, read once. An error is logged once and NULL is
 * returned: then there are no devices. */
const struct ur_config *ur_config_get(void);

#endif
