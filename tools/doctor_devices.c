/* SPDX-License-Identifier: BSD-2-Clause */
/* The configured devices, their addresses and the MTU of their interfaces. */
#include <stdio.h>
#include <string.h>

#include "base/addr.h"
#include "config/config.h"
#include "core/dev.h"
#include "core/types.h"
#include "doctor.h"

/* What Ethernet without jumbo frames gives: MTU 1500. */
#define USUAL_MTU 1024u

/* The interface of the port that packets to other hosts leave by, of those that
 * are up the one with the smallest_mtu_gid MTU; false: there is none. */
static bool smallest_mtu_gid(struct ur_dev *dev, uint32_t port_num,
			     struct ur_gid *out)
{
	struct ur_gid g;

	out->mtu = 0;
	for (unsigned int i = 0; i < UR_GID_TABLE_LEN; i++) {
		ur_dev_gid(dev, port_num, i, &g);
		if (ur_addr_is_zero(g.addr) || g.loopback || !g.up)
			continue;
		if (!out->mtu || g.mtu < out->mtu)
			*out = g;
	}
	return out->mtu;
}

static void check_port(struct ur_doctor *d, struct ur_dev *dev,
		       uint32_t port_num)
{
	uint32_t most = ur_mtu_bytes(UR_MTU_CODE_MAX);
	struct ur_port_attr port;
	char command[64], name[64];
	struct ur_gid g;

	snprintf(name, sizeof(name), dev->spec.nports > 1 ? "%s port %u" : "%s",
		 dev->name, port_num);
	ur_dev_port(dev, port_num, &port);
	if (!port.active) {
		ur_doctor_add(d, UR_DOCTOR_FAIL, "devices", NULL,
			      "%s: no interface with an address is up", name);
		return;
	}
	if (!smallest_mtu_gid(dev, port_num, &g)) {
		ur_doctor_add(d, UR_DOCTOR_NOTE, "devices", NULL,
			      "%s has loopback addresses only: it reaches no "
			      "other host",
			      name);
		return;
	}
	snprintf(command, sizeof(command), "ip link set dev %s mtu 9000",
		 g.ifname);
	if (g.mtu < USUAL_MTU + UR_DEV_OVERHEAD)
		ur_doctor_add(d, UR_DOCTOR_SLOW, "mtu", command,
			      "%s: MTU %u of %s makes packets of less than %u "
			      "bytes (with the same MTU on all hosts of the "
			      "network)",
			      name, g.mtu, g.ifname, USUAL_MTU);
	else if (g.mtu < most + UR_DEV_OVERHEAD)
		ur_doctor_add(
			d, UR_DOCTOR_NOTE, "mtu", command,
			"%s: MTU %u of %s; if all hosts and switches of "
			"the network have 9000, a packet carries %u bytes",
			name, g.mtu, g.ifname, most);
	else
		ur_doctor_add(d, UR_DOCTOR_OK, "mtu", NULL, "%s: %u of %s",
			      name, g.mtu, g.ifname);
}

static void check_device(struct ur_doctor *d, const struct ur_dev_spec *spec)
{
	struct ur_dev dev;
	int err;

	if (spec->port) {
		ur_doctor_not_checked(d, "devices on ports of DPDK");
		return;
	}
	err = ur_dev_init(&dev, spec);
	if (err) {
		ur_doctor_add(d, UR_DOCTOR_UNREAD, "devices", NULL,
			      "%s: addresses: %s", spec->name, strerror(-err));
		return;
	}
	if (!ur_dev_present(&dev))
		ur_doctor_add(d, UR_DOCTOR_FAIL, "devices",
			      "urnic check-config",
			      "%s: there is no interface %s", spec->name,
			      spec->ports[0].netdev);
	else
		for (uint32_t i = 1; i <= spec->nports; i++)
			check_port(d, &dev, i);
	ur_dev_fini(&dev);
}

void ur_doctor_devices(struct ur_doctor *d)
{
	const struct ur_config *config = ur_config_get();

	if (!config) {
		ur_doctor_add(d, UR_DOCTOR_FAIL, "devices",
			      "urnic check-config",
			      "the file of devices has a mistake: there are no "
			      "devices");
		return;
	}
	for (uint32_t i = 0; i < config->count; i++) {
		const struct ur_dev_spec *spec = &config->devices[i];

		if (ur_dev_name_enabled(spec->name) &&
		    spec->kind == UR_DEV_ROCE)
			check_device(d, spec);
	}
}
