/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The device: identity, and for each of its ports the state, GID and P_Key
 * table. Ports are numbered from 1. The GID table of a port holds the addresses
 * that the port is bound to, by default every address of the host, in this
 * order: IPv4 of non-loopback interfaces, global IPv6, link-local IPv6, then
 * loopback (127.0.0.1, ::1). An entry keeps its index while its address lives; a
 * free entry is a zero GID. Readers copy under a lock; the table changes on
 * rtnetlink messages (ur_dev_refresh()), which raises GID_CHANGE, PORT_ACTIVE
 * and PORT_ERR of that port.
 *
 * A device with all ports bound to interfaces exists as long as one of the
 * interfaces. Interfaces are identified by their index, which is not reused: a
 * new one of the same name is another. Deleting the last one removes the device
 * (ur_dev_find_removed()): contexts that have it open, the listeners, get
 * DEVICE_FATAL and never get it back. Once everything that depends on it is
 * cleaned up (ur_dev_removed()), the object takes up the next interface of that
 * name. While others exist, a port without its interface is down and has no
 * GIDs, and takes up the next one of that name.
 */
#ifndef UR_CORE_DEV_H
#define UR_CORE_DEV_H

#include <net/if.h>
#include <stdint.h>

#include <stdatomic.h>

#include "base/list.h"
#include "base/lock.h"
#include "core/dev_spec.h"
#include "core/event.h"
#include "core/types.h"

#define UR_PKEY_TABLE_LEN 1u
#define UR_PKEY_DEFAULT	  0xffffu

/* Maximum headers around a payload, as the kernel counts for RoCE: GRH 40, UDP
 * 8, BTH 12, XRCETH 4, AtomicETH 28, ICRC 4. */
#define UR_DEV_OVERHEAD	   96u
/* Around a request of DC, which the kernel does not count: GRH 40, UDP 8, BTH 12,
 * DCETH 24, RETH 16, ImmDt 4, ICRC 4.  Atomics have no payload. */
#define UR_DEV_DC_OVERHEAD 108u
/* By so much the header of IPv4 is shorter than a GRH. */
#define UR_DEV_V4_LESS	   20u

struct ur_gid {
	uint8_t addr[16]; /* zero: empty */
	uint32_t ifindex;
	uint32_t mtu; /* of the interface, bytes */
	char ifname[IF_NAMESIZE];
	bool loopback;
	bool up;
};

struct ur_port_attr {
	bool active;
	uint8_t max_mtu; /* codes */
	uint8_t active_mtu;
	uint16_t lid; /* low 16 bits of the first IPv4 address that is up */
	uint64_t speed_mbps; /* of the first GID's interface */
};

/* The state of an interface that a port may be bound to. */
struct ur_dev_netdev {
	uint32_t ifindex; /* 0: there is none */
	uint32_t mtu;	  /* bytes */
	char name[IF_NAMESIZE];
	bool loopback;
	bool up; /* running, with carrier */
};

struct ur_dev_port {
	struct ur_dev_netdev netdev; /* the bound interface, if any */
	struct ur_gid gids[UR_GID_TABLE_LEN];
	struct ur_port_attr attr;
};

struct ur_dev {
	const char *name; /* from spec */
	enum ur_dev_kind kind;
	uint64_t node_guid;	   /* big endian value in host order */
	uint64_t sys_image_guid;   /* likewise */
	struct ur_dev_spec spec;   /* constant up to here */
	_Atomic uint32_t removals; /* number of removals; written under lock */
	/* Outside lock: serializes reads of the host's state, so that an
	 * older one never overwrites a newer. */
	struct ur_lock refreshing;
	struct ur_lock lock;
	struct ur_dev_port ports[UR_DEV_MAX_PORTS]; /* spec.nports are used */
	struct ur_list evqs;	  /* asynchronous queues of open contexts */
	bool removing;		  /* until ur_dev_removed() */
	_Atomic uint8_t pretends; /* ur_dev_pretend() */
	bool removed_so; /* the watcher's: UR_DEV_REMOVED was reported */
};

/* Read the host's addresses and keep those that the device is bound to. A
 * missing interface is no error. 0 or -errno. */
int ur_dev_init(struct ur_dev *dev, const struct ur_dev_spec *spec);
void ur_dev_fini(struct ur_dev *dev);

/* Can it be opened: is there a port that is not bound to an interface, or with
 * its interface? */
bool ur_dev_present(struct ur_dev *dev);

/*
 * Has its last interface been deleted since the last call? Then the listeners
 * got DEVICE_FATAL and are removed. Until ur_dev_removed() the device is not
 * present. Called by the watcher thread only.
 */
bool ur_dev_find_removed(struct ur_dev *dev);
void ur_dev_removed(struct ur_dev *dev);

/* What the device takes for the state of the host (faults). */
enum ur_dev_pretends {
	UR_DEV_PORTS_DOWN = 1 << 0,
	UR_DEV_NO_ADDRESSES = 1 << 1,
	UR_DEV_REMOVED = 1 << 2,
};

/* From the next ur_dev_refresh() and ur_dev_find_removed() on: a set of these.  True:
 * another one than before. */
bool ur_dev_pretend(struct ur_dev *dev, uint8_t what);

/*
 * Read the addresses again, and raise the events of what changed. 0 or -errno.
 */
int ur_dev_refresh(struct ur_dev *dev);

/* The same for one port with n given addresses, in the order of the table. */
void ur_dev_update(struct ur_dev *dev, uint32_t port_num, struct ur_gid *found,
		   uint32_t n);

static inline bool ur_dev_has_port(const struct ur_dev *dev, uint32_t port_num)
{
	return port_num >= 1 && port_num <= dev->spec.nports;
}

/* Entry i of a port; -EINVAL: no such port, or beyond the table.  An empty
 * entry is all zeros. */
int ur_dev_gid(struct ur_dev *dev, uint32_t port_num, uint32_t i,
	       struct ur_gid *out);

/*
 * The GID of a port of an iWARP device: the MAC address of the node, then zeros,
 * as the kernel's drivers have it; each port has its own. Connections use IP
 * addresses; the table above maps them to a device.
 */
void ur_dev_mac_gid(const struct ur_dev *dev, uint32_t port_num,
		    uint8_t out[16]);

/* The entry of an existing port with the interface that names that GID: the first that
 * is no loopback, else the first; all zeros if the table is empty. */
void ur_dev_mac_netdev(struct ur_dev *dev, uint32_t port_num,
		       struct ur_gid *out);

/* Index of an address in a port's table, -ENOENT if the port does not have it. */
int ur_dev_port_gid_index(struct ur_dev *dev, uint32_t port_num,
			  const uint8_t addr[16]);

/* The same for the first port that has it. Its number is written to *port_num,
 * unless that is NULL, and on success only. */
int ur_dev_gid_find(struct ur_dev *dev, const uint8_t addr[16],
		    uint8_t *port_num);

/* Has a port the address? */
static inline bool ur_dev_has_addr(struct ur_dev *dev, const uint8_t addr[16])
{
	return ur_dev_gid_find(dev, addr, NULL) >= 0;
}

/* Attributes of an existing port. */
void ur_dev_port(struct ur_dev *dev, uint32_t port_num,
		 struct ur_port_attr *out);

/* A netlink descriptor to poll for address and link changes, and the function
 * to call when it is readable; -errno if netlink is not available. */
int ur_dev_watch_open(struct ur_dev *dev);
void ur_dev_watch_read(struct ur_dev *dev, int fd);

/*
 * Contexts that want device-wide asynchronous events. Unlisten removes queued
 * events and, unlike the destruction of an object, does not wait for
 * acknowledgements: the device stays, and programs close without acknowledging.
 */
struct ur_dev_listener {
	struct ur_list node;
	struct ur_evq *evq;
	struct ur_ev_source source;
	uint32_t removals; /* the device's, when it began to listen */
};
void ur_dev_listen(struct ur_dev *dev, struct ur_dev_listener *l);
void ur_dev_unlisten(struct ur_dev *dev, struct ur_dev_listener *l);

/* Has the device that l listens to been removed? Any thread, no lock. */
static inline bool ur_dev_lost(struct ur_dev *dev,
			       const struct ur_dev_listener *l)
{
	return atomic_load_explicit(&dev->removals, memory_order_relaxed) !=
	       l->removals;
}

/*
 * Fill in what an address vector leaves open, from the tables of its port: sgid
 * from sgid_index, scope of a link-local destination, and for a destination
 * without GRH (LID addressing) the address: the port's first IPv4 address with
 * its low 16 bits replaced by dlid. A hop limit of 0 or 1 becomes the default of
 * IP, as in the kernel's RoCE, since programs rely on it. -EINVAL: no such sgid, port, zero dgid or dlid, IPv4 to
 * IPv6; then av is unchanged.
 */
int ur_dev_resolve_av(struct ur_dev *dev, struct ur_av *av);

/* The same for an alternate path.  The QP's alternate port number decides: programs
 * copy av from the primary path, with the port number of that. */
int ur_dev_resolve_alt_av(struct ur_dev *dev, struct ur_av *av,
			  uint8_t port_num);

/* Largest path MTU code for packets from that source address; 1 if unknown. */
unsigned int ur_dev_path_mtu(struct ur_dev *dev, const uint8_t sgid[16]);
/*
 * The MTU of the interface with that source address, if `code` is the largest path
 * MTU that it has room for; 0: `code` is smaller, for example because the path has
 * a smaller MTU than the interface.
 */
uint32_t ur_dev_room(struct ur_dev *dev, const uint8_t sgid[16],
		     unsigned int code);

#endif
