/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which devices there are: what the file that URNIC_CONFIG names says, else
 * /etc/urnic.json, else one device of each kind (urnic.json(5)).
 */
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
	char sock_name[UR_SOCK_NAME_LEN]; /* of who runs them; "": the usual */
};

/* The port that a device is on; NULL: it uses the kernel's sockets. */
const struct ur_port_spec *ur_config_port(const struct ur_config *c,
					  const struct ur_dev_spec *dev);

/*
 * The name of the network interface that is the host's side of port number i:
 * the port's, if that can be one.  Devices on the port are bound to it in what
 * ur_config_get() answers.
 */
void ur_config_ifname(const struct ur_config *c, uint32_t i,
		      char out[IF_NAMESIZE]);

/* One device of each kind. */
void ur_config_default(struct ur_config *c);

/*
 * Read a text.  0, or -EINVAL and a line in why: "FILE:LINE:COLUMN: expected
 * WHAT, found WHAT".  *c is written only on success.
 */
int ur_config_parse(struct ur_config *c, const char *file, const char *text,
		    size_t len, char why[UR_CONFIG_WHY_LEN]);

/* The same of a file; -errno and "FILE: reason" if it cannot be read. */
int ur_config_read(struct ur_config *c, const char *file,
		   char why[UR_CONFIG_WHY_LEN]);

/* The file that is meant if nobody names one; NULL: there is none. */
const char *ur_config_file(void);

/*
 * This process' devices, read once; a mistake is logged once, and NULL is
 * answered: then there are none.
 */
const struct ur_config *ur_config_get(void);

#endif
