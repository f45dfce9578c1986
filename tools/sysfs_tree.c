/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/addr.h"
#include "roce/port_counters.h"
#include "urnic.h"

#define PATH_LEN 4096
#define TEXT_LEN 512

/* Where the devices' own directories are. */
#define IBDEV "class/infiniband/%s"
#define PORT  IBDEV "/ports/%u"
#define UVERB "class/infiniband_verbs/uverbs%u"

/* What is said of a kind of device. */
static const struct personality {
	const char *node_type;
	const char *board_id;
	const char *gid_type;
	uint32_t cap_flags;
	bool by_address; /* GIDs are addresses, there are LID and P_Key */
} personalities[UR_DEV_KINDS] = {
	/* CM supported, IP-based GIDs */
	[UR_DEV_ROCE] = { "1: CA", "URNIC_ROCEV2", "RoCE v2", 0x04010000u,
			  true },
	/* CM supported */
	[UR_DEV_IWARP] = { "4: RNIC", "URNIC_IWARP", "IB/RoCE v1", 0x00010000u,
			   false },
};

/* A device to write about and where; the first error sticks. */
struct tree {
	const char *root;
	struct ur_dev *dev;
	const struct personality *is;
	int err;
};

static void set_error(struct tree *t, int err)
{
	if (!t->err)
		t->err = err;
}

/* Make the directories that lead to a path below root. */
static void make_parents(struct tree *t, char *path)
{
	for (char *p = path + strlen(t->root) + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = 0;
		if (mkdir(path, 0755) && errno != EEXIST)
			set_error(t, -errno);
		*p = '/';
	}
}

static void full_path(const struct tree *t, char *path, const char *fmt,
		      va_list ap)
{
	int n = snprintf(path, PATH_LEN, "%s/", t->root);

	/* clang-tidy 14 loses va_start() when it looks at several files */
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized) */
	vsnprintf(path + n, PATH_LEN - (size_t)n, fmt, ap);
}

static bool same_content(const char *path, const char *text, size_t len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char old[TEXT_LEN + 1];
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, old, sizeof(old));
	close(fd);
	return n == (ssize_t)len && !memcmp(old, text, len);
}

static int replace_file(const char *path, const char *text, size_t len)
{
	char tmp[PATH_LEN + 16];
	int fd, err = 0;

	snprintf(tmp, sizeof(tmp), "%s.%d", path, (int)getpid());
	fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	if (write(fd, text, len) != (ssize_t)len)
		err = -EIO;
	close(fd);
	if (!err && rename(tmp, path))
		err = -errno;
	if (err)
		unlink(tmp);
	return err;
}

/* One attribute: the name below root, then its text without newline. */
static void put(struct tree *t, const char *text, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void put(struct tree *t, const char *text, const char *fmt, ...)
{
	char path[PATH_LEN], line[TEXT_LEN];
	va_list ap;
	int len;

	va_start(ap, fmt);
	full_path(t, path, fmt, ap);
	va_end(ap);
	len = snprintf(line, sizeof(line), "%s\n", text);
	if (same_content(path, line, (size_t)len))
		return;
	make_parents(t, path);
	len = replace_file(path, line, (size_t)len);
	if (len)
		set_error(t, len);
}

static void gone(struct tree *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void gone(struct tree *t, const char *fmt, ...)
{
	char path[PATH_LEN];
	va_list ap;

	va_start(ap, fmt);
	full_path(t, path, fmt, ap);
	va_end(ap);
	if (unlink(path) && errno != ENOENT)
		set_error(t, -errno);
}

/* A directory, unless something of others is in it. */
static void gone_dir(struct tree *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void gone_dir(struct tree *t, const char *fmt, ...)
{
	char path[PATH_LEN];
	va_list ap;

	va_start(ap, fmt);
	full_path(t, path, fmt, ap);
	va_end(ap);
	if (rmdir(path) && errno != ENOENT && errno != ENOTEMPTY)
		set_error(t, -errno);
}

static void put_link(struct tree *t, const char *target, const char *name)
{
	char path[PATH_LEN];

	snprintf(path, sizeof(path), "%s/%s", t->root, name);
	make_parents(t, path);
	if (symlink(target, path) && errno != EEXIST)
		set_error(t, -errno);
}

static void put_dir(struct tree *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void put_dir(struct tree *t, const char *fmt, ...)
{
	char path[PATH_LEN];
	va_list ap;

	va_start(ap, fmt);
	full_path(t, path, fmt, ap);
	va_end(ap);
	make_parents(t, path);
	if (mkdir(path, 0755) && errno != EEXIST)
		set_error(t, -errno);
}

static void put_guid(struct tree *t, uint64_t g, const char *name)
{
	char guid[32];

	snprintf(guid, sizeof(guid), "%04x:%04x:%04x:%04x",
		 (unsigned int)(g >> 48), (unsigned int)(g >> 32) & 0xffff,
		 (unsigned int)(g >> 16) & 0xffff, (unsigned int)g & 0xffff);
	put(t, guid, IBDEV "/%s", t->dev->name, name);
}

static void write_node(struct tree *t)
{
	const char *fw = t->dev->spec.fw_ver;

	put_guid(t, t->dev->node_guid, "node_guid");
	put_guid(t, t->dev->sys_image_guid, "sys_image_guid");
	put(t, t->is->node_type, IBDEV "/node_type", t->dev->name);
	put(t, t->dev->name, IBDEV "/node_desc", t->dev->name);
	put(t, *fw ? fw : UR_VERSION, IBDEV "/fw_ver", t->dev->name);
	put(t, "urnic", IBDEV "/hca_type", t->dev->name);
	put(t, "1", IBDEV "/hw_rev", t->dev->name);
	put(t, t->is->board_id, IBDEV "/board_id", t->dev->name);
}

/* All CPUs are as near; the masks are those of the first node. */
static void copy_host(struct tree *t, const char *from, const char *name)
{
	char text[TEXT_LEN - 1];
	FILE *f = fopen(from, "re");

	if (f && fgets(text, sizeof(text), f)) {
		text[strcspn(text, "\n")] = 0;
		put(t, text, IBDEV "/device/%s", t->dev->name, name);
	}
	if (f)
		fclose(f);
}

static void write_device(struct tree *t)
{
	char text[16];

	snprintf(text, sizeof(text), "0x%06x", t->dev->spec.vendor_id);
	put(t, text, IBDEV "/device/vendor", t->dev->name);
	snprintf(text, sizeof(text), "0x%04x", t->dev->spec.vendor_part_id);
	put(t, text, IBDEV "/device/device", t->dev->name);
	put(t, "-1", IBDEV "/device/numa_node", t->dev->name);
	copy_host(t, "/sys/devices/system/cpu/online", "local_cpulist");
	copy_host(t, "/sys/devices/system/node/node0/cpumap", "local_cpus");
	put_dir(t, IBDEV "/device/infiniband/%s", t->dev->name, t->dev->name);
	put_dir(t, IBDEV "/device/infiniband_verbs/uverbs%u", t->dev->name,
		t->dev->spec.index);
}

static void write_verbs(struct tree *t)
{
	unsigned int n = t->dev->spec.index;
	char text[128], name[64];

	put(t, "6", "class/infiniband_verbs/abi_version");
	put(t, "1", UVERB "/abi_version", n);
	snprintf(text, sizeof(text), "231:%u", 192 + n);
	put(t, text, UVERB "/dev", n);
	put(t, t->dev->name, UVERB "/ibdev", n);
	snprintf(text, sizeof(text), "../../infiniband/%s/device",
		 t->dev->name);
	snprintf(name, sizeof(name), UVERB "/device", n);
	put_link(t, text, name);
	/* A character device that any user may open: what programs check. */
	snprintf(name, sizeof(name), "dev/infiniband/uverbs%u", n);
	put_link(t, "/dev/null", name);
}

static void write_port(struct tree *t, uint32_t port)
{
	const char *name = t->dev->name;
	struct ur_port_attr p;
	char text[32];

	ur_dev_port(t->dev, port, &p);
	put(t, p.active ? "4: ACTIVE" : "1: DOWN", PORT "/state", name, port);
	put(t, p.active ? "5: LinkUp" : "3: Disabled", PORT "/phys_state", name,
	    port);
	put(t, ur_tool_rate(p.speed_mbps), PORT "/rate", name, port);
	snprintf(text, sizeof(text), "0x%x", t->is->by_address ? p.lid : 0);
	put(t, text, PORT "/lid", name, port);
	put(t, "0", PORT "/lid_mask_count", name, port);
	put(t, "0x0", PORT "/sm_lid", name, port);
	put(t, "0", PORT "/sm_sl", name, port);
	snprintf(text, sizeof(text), "0x%08x", t->is->cap_flags);
	put(t, text, PORT "/cap_mask", name, port);
	put(t, "Ethernet", PORT "/link_layer", name, port);
	if (!t->is->by_address)
		return;
	snprintf(text, sizeof(text), "0x%04x", UR_PKEY_DEFAULT);
	put(t, text, PORT "/pkeys/0", name, port);
}

/* The processes add to them (engine/publish.h), so what is there stays. */
static void write_counters(struct tree *t, uint32_t port)
{
	static const struct ur_port_counter rows[] = { UR_PORT_COUNTERS(
		UR_PORT_COUNTER) };
	char path[PATH_LEN];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		snprintf(path, sizeof(path), "%s/" PORT "/%s", t->root,
			 t->dev->name, port, rows[i].name);
		if (access(path, F_OK))
			put(t, "0", PORT "/%s", t->dev->name, port,
			    rows[i].name);
	}
}

static void write_gid_value(struct tree *t, uint32_t port, unsigned int i,
			    const uint8_t gid[16])
{
	char text[48];
	int n = 0;

	for (int k = 0; k < 16; k += 2)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "%s%02x%02x",
			      k ? ":" : "", gid[k], gid[k + 1]);
	put(t, text, PORT "/gids/%u", t->dev->name, port, i);
}

/* The interfaces that have an address show the device below them. */
static void write_interface(struct tree *t, const struct ur_gid *g)
{
	put_dir(t, IBDEV "/device/net/%s", t->dev->name, g->ifname);
	put_dir(t, "class/net/%s/device/infiniband/%s", g->ifname,
		t->dev->name);
	put_dir(t, "class/net/%s/device/infiniband_verbs/uverbs%u", g->ifname,
		t->dev->spec.index);
}

/* Type and interface of an empty entry cannot be read: so it has none. */
static void write_gid(struct tree *t, uint32_t port, unsigned int i,
		      const struct ur_gid *g)
{
	const char *name = t->dev->name;

	write_gid_value(t, port, i, g->addr);
	if (ur_addr_is_zero(g->addr)) {
		gone(t, PORT "/gid_attrs/types/%u", name, port, i);
		gone(t, PORT "/gid_attrs/ndevs/%u", name, port, i);
		return;
	}
	put(t, t->is->gid_type, PORT "/gid_attrs/types/%u", name, port, i);
	put(t, g->ifname, PORT "/gid_attrs/ndevs/%u", name, port, i);
}

static void write_mac_gid(struct tree *t, uint32_t port)
{
	const char *name = t->dev->name;
	uint8_t mac[16];
	struct ur_gid gid;

	ur_dev_mac_gid(t->dev, port, mac);
	write_gid_value(t, port, 0, mac);
	put(t, t->is->gid_type, PORT "/gid_attrs/types/0", name, port);
	ur_dev_mac_netdev(t->dev, port, &gid);
	if (ur_addr_is_zero(gid.addr))
		gone(t, PORT "/gid_attrs/ndevs/0", name, port);
	else
		put(t, gid.ifname, PORT "/gid_attrs/ndevs/0", name, port);
}

static void write_gids(struct tree *t, uint32_t port)
{
	struct ur_gid gid;

	for (unsigned int i = 0; i < UR_GID_TABLE_LEN; i++) {
		ur_dev_gid(t->dev, port, i, &gid);
		if (t->is->by_address)
			write_gid(t, port, i, &gid);
		if (!ur_addr_is_zero(gid.addr))
			write_interface(t, &gid);
	}
	if (!t->is->by_address)
		write_mac_gid(t, port);
}

static bool has_interface(struct tree *t, const char *name)
{
	struct ur_gid gid;

	for (uint32_t port = 1; port <= t->dev->spec.nports; port++)
		for (unsigned int i = 0; i < UR_GID_TABLE_LEN; i++) {
			ur_dev_gid(t->dev, port, i, &gid);
			if (!ur_addr_is_zero(gid.addr) &&
			    strcmp(gid.ifname, name) == 0)
				return true;
		}
	return false;
}

/*
 * Those that have gone since, and those of another network namespace, whose
 * number this one has now.
 */
static void forget_interfaces(struct tree *t)
{
	char path[PATH_LEN];
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "%s/" IBDEV "/device/net", t->root,
		 t->dev->name);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		const char *name = e->d_name;

		if (*name == '.' || has_interface(t, name))
			continue;
		gone_dir(t, "class/net/%s/device/infiniband/%s", name,
			 t->dev->name);
		gone_dir(t, "class/net/%s/device/infiniband_verbs/uverbs%u",
			 name, t->dev->spec.index);
		gone_dir(t, IBDEV "/device/net/%s", t->dev->name, name);
	}
	if (d)
		closedir(d);
}

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *where)
{
	(void)st;
	(void)type;
	(void)where;
	return remove(path) && errno != ENOENT ? -errno : 0;
}

static int remove_tree(const char *path)
{
	int err = nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);

	return err == -1 && errno != ENOENT ? -errno : err == -1 ? 0 : err;
}

int ur_sysfs_remove(const char *root, struct ur_dev *dev)
{
	struct tree t = {
		.root = root,
		.dev = dev,
		.is = &personalities[dev->kind],
	};
	unsigned int n = dev->spec.index;
	char path[PATH_LEN];
	int err;

	forget_interfaces(&t);
	gone(&t, "dev/infiniband/uverbs%u", n);
	snprintf(path, sizeof(path), "%s/" UVERB, root, n);
	err = remove_tree(path);
	snprintf(path, sizeof(path), "%s/" IBDEV, root, dev->name);
	if (!err)
		err = remove_tree(path);
	return err ? err : t.err;
}

int ur_sysfs_write(const char *root, struct ur_dev *dev)
{
	struct tree t = {
		.root = root,
		.dev = dev,
		.is = &personalities[dev->kind],
	};

	if (mkdir(root, 0755) && errno != EEXIST)
		return -errno;
	write_node(&t);
	write_device(&t);
	write_verbs(&t);
	for (uint32_t port = 1; port <= dev->spec.nports; port++) {
		put_dir(&t, PORT "/gid_attrs/types", dev->name, port);
		put_dir(&t, PORT "/gid_attrs/ndevs", dev->name, port);
		write_port(&t, port);
		write_gids(&t, port);
		if (dev->spec.nports == 1)
			write_counters(&t, port);
	}
	forget_interfaces(&t);
	return t.err;
}
