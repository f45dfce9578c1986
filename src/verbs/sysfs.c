/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verbs/exports.h"
#include "verbs/objects.h"
#include "verbs/query.h"

static const char *sysfs_root(void)
{
	const char *root = secure_getenv("URNIC_SYSFS");

	return root && *root ? root : "/sys";
}

const char *ibv_get_sysfs_path(void)
{
	return sysfs_root();
}

void urv_sysfs_fill(struct ibv_device *dev, const struct ur_dev_spec *spec)
{
	const char *root = sysfs_root();

	snprintf(dev->name, sizeof(dev->name), "%s", spec->name);
	snprintf(dev->dev_name, sizeof(dev->dev_name), "uverbs%u", spec->index);
	snprintf(dev->dev_path, sizeof(dev->dev_path),
		 "%s/class/infiniband_verbs/uverbs%u", root, spec->index);
	snprintf(dev->ibdev_path, sizeof(dev->ibdev_path),
		 "%s/class/infiniband/%s", root, spec->name);
}

/* One attribute without its newline; the length, or -1 and errno. */
static int read_attribute(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len;

	if (fd < 0)
		return -1;
	len = read(fd, buf, size);
	close(fd);
	if (len < 0)
		return -1;
	if (len > 0 && buf[len - 1] == '\n')
		len--;
	if ((size_t)len < size)
		buf[len] = '\0';
	else if (len > 0)
		buf[--len] = '\0';
	return (int)len;
}

static void guid_text(char *buf, size_t size, uint64_t guid)
{
	snprintf(buf, size, "%04x:%04x:%04x:%04x", (unsigned)(guid >> 48),
		 (unsigned)(guid >> 32) & 0xffff,
		 (unsigned)(guid >> 16) & 0xffff, (unsigned)guid & 0xffff);
}

/* The content that sysfs would have. */
static int device_attribute(const struct urv_device *d, const char *file,
			    char *buf, size_t size)
{
	const struct ur_dev *dev = ur_adapter_dev(d->adapter);
	bool iwarp = dev->kind == UR_DEV_IWARP;
	char text[64];

	if (strcmp(file, "board_id") == 0)
		snprintf(text, sizeof(text), "%s",
			 iwarp ? "URNIC_IWARP" : "URNIC_ROCEV2");
	else if (strcmp(file, "fw_ver") == 0)
		snprintf(text, sizeof(text), "%s", urv_fw_ver(dev));
	else if (strcmp(file, "hw_rev") == 0)
		snprintf(text, sizeof(text), "1");
	else if (strcmp(file, "hca_type") == 0)
		snprintf(text, sizeof(text), "urnic");
	else if (strcmp(file, "node_type") == 0)
		snprintf(text, sizeof(text), "%d: %s", d->ibv.node_type,
			 iwarp ? "RNIC" : "CA");
	else if (strcmp(file, "node_desc") == 0)
		snprintf(text, sizeof(text), "%s", d->ibv.name);
	else if (strcmp(file, "node_guid") == 0)
		guid_text(text, sizeof(text), dev->node_guid);
	else if (strcmp(file, "sys_image_guid") == 0)
		guid_text(text, sizeof(text), dev->sys_image_guid);
	else
		return -1;
	return snprintf(buf, size, "%s", text);
}

/* dir may be anything; only a device's own directory has fallbacks. */
static int fallback(const char *dir, const char *file, char *buf, size_t size)
{
	int err = errno;
	int len = -1;

	for (uint32_t i = 0; len < 0; i++) {
		struct urv_device *d = urv_device_get(i);

		if (!d)
			break; /* no more entries */
		if (!dir || strcmp(dir, d->ibv.ibdev_path) == 0)
			len = device_attribute(d, file, buf, size);
		urv_device_put(d);
	}
	if (len < 0)
		errno = err;
	return len;
}

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf,
			size_t size)
{
	char path[2 * IBV_SYSFS_PATH_MAX];
	int len;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	len = read_attribute(path, buf, size);
	return len >= 0 ? len : fallback(dir, file, buf, size);
}

struct verbs_sysfs_dev;
int urv_read_ibdev_sysfs_file(char *buf, size_t size,
			      struct verbs_sysfs_dev *sysfs_dev,
			      const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
URV_EXPORT(urv_read_ibdev_sysfs_file, ibv_read_ibdev_sysfs_file,
	   "IBVERBS_PRIVATE_34");
URV_EXPORT_OLD(urv_read_ibdev_sysfs_file, ibv_read_ibdev_sysfs_file,
	       "IBVERBS_PRIVATE_57");
URV_EXPORT_OLD(urv_read_ibdev_sysfs_file, ibv_read_ibdev_sysfs_file,
	       "IBVERBS_PRIVATE_59");
URV_EXPORT_OLD(urv_read_ibdev_sysfs_file, ibv_read_ibdev_sysfs_file,
	       "IBVERBS_PRIVATE_64");
URV_EXPORT_OLD(urv_read_ibdev_sysfs_file, ibv_read_ibdev_sysfs_file,
	       "IBVERBS_PRIVATE_65");

/* The structure is private to the library that made it: stands for our first
 * device. */
int urv_read_ibdev_sysfs_file(char *buf, size_t size,
			      struct verbs_sysfs_dev *sysfs_dev,
			      const char *fmt, ...)
{
	struct urv_device *d = urv_device_get(0);
	char file[IBV_SYSFS_PATH_MAX];
	va_list ap;
	int len;

	if (!d)
		return -1;
	va_start(ap, fmt);
	vsnprintf(file, sizeof(file), fmt, ap);
	va_end(ap);
	len = ibv_read_sysfs_file(d->ibv.ibdev_path, file, buf, size);
	urv_device_put(d);
	return len;
}
