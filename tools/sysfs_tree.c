/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "urnic.h"

#define VENDOR	  0x75726eu /* as ibv_query_device() says */
#define PART	  4119u
#define BOARD_ID  "URNIC_ROCEV2"
#define PATH_LEN  4096
#define TEXT_LEN  512
#define CAP_FLAGS 0x04010000u /* CM supported, IP-based GIDs */

/* A place to write at; the first error sticks. */
struct tree {
	const char *root;
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

#define IBDEV "class/infiniband/" UR_DEVICE_NAME
#define UVERB "class/infiniband_verbs/uverbs0"

static void write_node(struct tree *t, const struct ur_dev *dev)
{
	uint64_t g = dev->node_guid;
	char guid[32];

	snprintf(guid, sizeof(guid), "%04x:%04x:%04x:%04x",
		 (unsigned int)(g >> 48), (unsigned int)(g >> 32) & 0xffff,
		 (unsigned int)(g >> 16) & 0xffff, (unsigned int)g & 0xffff);
	put(t, guid, IBDEV "/node_guid");
	put(t, guid, IBDEV "/sys_image_guid");
	put(t, "1: CA", IBDEV "/node_type");
	put(t, UR_DEVICE_NAME, IBDEV "/node_desc");
	put(t, UR_VERSION, IBDEV "/fw_ver");
	put(t, "urnic", IBDEV "/hca_type");
	put(t, "1", IBDEV "/hw_rev");
	put(t, BOARD_ID, IBDEV "/board_id");
}

/* All CPUs are as near; the masks are those of the first node. */
static void copy_host(struct tree *t, const char *from, const char *name)
{
	char text[TEXT_LEN - 1];
	FILE *f = fopen(from, "re");

	if (f && fgets(text, sizeof(text), f)) {
		text[strcspn(text, "\n")] = 0;
		put(t, text, IBDEV "/device/%s", name);
	}
	if (f)
		fclose(f);
}

static void write_device(struct tree *t)
{
	char text[16];

	snprintf(text, sizeof(text), "0x%06x", VENDOR);
	put(t, text, IBDEV "/device/vendor");
	snprintf(text, sizeof(text), "0x%04x", PART);
	put(t, text, IBDEV "/device/device");
	put(t, "-1", IBDEV "/device/numa_node");
	copy_host(t, "/sys/devices/system/cpu/online", "local_cpulist");
	copy_host(t, "/sys/devices/system/node/node0/cpumap", "local_cpus");
	put_dir(t, IBDEV "/device/infiniband/" UR_DEVICE_NAME);
	put_dir(t, IBDEV "/device/infiniband_verbs/uverbs0");
}

static void write_verbs(struct tree *t)
{
	put(t, "6", "class/infiniband_verbs/abi_version");
	put(t, "1", UVERB "/abi_version");
	put(t, "231:192", UVERB "/dev");
	put(t, UR_DEVICE_NAME, UVERB "/ibdev");
	put_link(t, "../../infiniband/" UR_DEVICE_NAME "/device",
		 UVERB "/device");
	/* A character device that everybody may open: what programs check. */
	put_link(t, "/dev/null", "dev/infiniband/uverbs0");
}

static void write_port(struct tree *t, const struct ur_port_attr *p)
{
	char text[32];

	put(t, p->active ? "4: ACTIVE" : "1: DOWN", IBDEV "/ports/1/state");
	put(t, p->active ? "5: LinkUp" : "3: Disabled",
	    IBDEV "/ports/1/phys_state");
	put(t, ur_tool_rate(p->speed_mbps), IBDEV "/ports/1/rate");
	snprintf(text, sizeof(text), "0x%x", p->lid);
	put(t, text, IBDEV "/ports/1/lid");
	put(t, "0", IBDEV "/ports/1/lid_mask_count");
	put(t, "0x0", IBDEV "/ports/1/sm_lid");
	put(t, "0", IBDEV "/ports/1/sm_sl");
	snprintf(text, sizeof(text), "0x%08x", CAP_FLAGS);
	put(t, text, IBDEV "/ports/1/cap_mask");
	put(t, "Ethernet", IBDEV "/ports/1/link_layer");
	snprintf(text, sizeof(text), "0x%04x", UR_PKEY_DEFAULT);
	put(t, text, IBDEV "/ports/1/pkeys/0");
}

static bool gid_empty(const struct ur_gid *g)
{
	static const uint8_t zero[16];

	return !memcmp(g->addr, zero, sizeof(zero));
}

/* Type and interface of an empty entry cannot be read: so it has none. */
static void write_gid(struct tree *t, unsigned int i, const struct ur_gid *g)
{
	char text[48];
	int n = 0;

	for (int k = 0; k < 16; k += 2)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "%s%02x%02x",
			      k ? ":" : "", g->addr[k], g->addr[k + 1]);
	put(t, text, IBDEV "/ports/1/gids/%u", i);
	if (gid_empty(g)) {
		gone(t, IBDEV "/ports/1/gid_attrs/types/%u", i);
		gone(t, IBDEV "/ports/1/gid_attrs/ndevs/%u", i);
		return;
	}
	put(t, "RoCE v2", IBDEV "/ports/1/gid_attrs/types/%u", i);
	put(t, g->ifname, IBDEV "/ports/1/gid_attrs/ndevs/%u", i);
	put_dir(t, IBDEV "/device/net/%s", g->ifname);
	put_dir(t, "class/net/%s/device/infiniband/" UR_DEVICE_NAME, g->ifname);
	put_dir(t, "class/net/%s/device/infiniband_verbs/uverbs0", g->ifname);
}

int ur_sysfs_write(const char *root, struct ur_dev *dev)
{
	struct tree t = { .root = root };
	struct ur_port_attr port;
	struct ur_gid gid;

	if (mkdir(root, 0755) && errno != EEXIST)
		return -errno;
	put_dir(&t, IBDEV "/ports/1/gid_attrs/types");
	put_dir(&t, IBDEV "/ports/1/gid_attrs/ndevs");
	write_node(&t, dev);
	write_device(&t);
	write_verbs(&t);
	ur_dev_port(dev, &port);
	write_port(&t, &port);
	for (unsigned int i = 0; i < UR_GID_TABLE_LEN; i++) {
		ur_dev_gid(dev, i, &gid);
		write_gid(&t, i, &gid);
	}
	return t.err;
}
