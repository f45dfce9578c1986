/* SPDX-License-Identifier: BSD-2-Clause */
#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "config/environment.h"

void ur_config_default(struct ur_config *c)
{
	c->count = UR_DEV_KINDS;
	for (unsigned int k = 0; k < UR_DEV_KINDS; k++)
		ur_dev_spec_default(&c->devices[k], k);
}

/* A set-user-ID program ignores the environment. */
const char *ur_config_file(void)
{
	const char *name = secure_getenv("URNIC_CONFIG");

	if (name && *name)
		return name;
	return access(UR_CONFIG_FILE, F_OK) == 0 ? UR_CONFIG_FILE : NULL;
}

/* The whole file; the length or -errno. */
static ssize_t slurp(const char *file, char *buf, size_t cap)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n = 1;
	int err = 0;

	if (fd < 0)
		return -errno;
	while (n > 0 && len < cap) {
		n = read(fd, buf + len, cap - len);
		if (n > 0)
			len += (size_t)n;
		else if (n < 0)
			err = -errno;
	}
	close(fd);
	if (!err && len == cap)
		err = -EFBIG;
	return err ? err : (ssize_t)len;
}

int ur_config_read(struct ur_config *c, const char *file,
		   char why[UR_CONFIG_WHY_LEN])
{
	char *text = malloc(UR_CONFIG_MAX_BYTES);
	ssize_t len = text ? slurp(file, text, UR_CONFIG_MAX_BYTES) : -ENOMEM;
	int err;

	if (len < 0)
		snprintf(why, UR_CONFIG_WHY_LEN, "%s: %s", file,
			 strerror((int)-len));
	err = len < 0 ? (int)len
		      : ur_config_parse(c, file, text, (size_t)len, why);
	free(text);
	return err;
}

const struct ur_port_spec *ur_config_port(const struct ur_config *c,
					  const struct ur_dev_spec *dev)
{
	return dev->port ? &c->ports[dev->port - 1] : NULL;
}

static struct ur_config the_config;
static bool usable; /* both written only by load() */

void ur_config_ifname(const struct ur_config *c, uint32_t i,
		      char out[IF_NAMESIZE])
{
	const char *name = c->ports[i].name;

	if (*name && strlen(name) < IF_NAMESIZE)
		memcpy(out, name, strlen(name) + 1);
	else
		snprintf(out, IF_NAMESIZE, "urnicp%u", i);
}

static void bind_to_ports(struct ur_config *c)
{
	for (uint32_t i = 0; i < c->count; i++) {
		struct ur_dev_spec *d = &c->devices[i];

		if (d->port)
			ur_config_ifname(c, d->port - 1, d->ports[0].netdev);
	}
}

static void load(void)
{
	const char *file = ur_config_file();
	char why[UR_CONFIG_WHY_LEN];

	if (!file)
		ur_config_default(&the_config);
	else if (ur_config_read(&the_config, file, why)) {
		ur_err("%s", why);
		return;
	}
	ur_environment_warn(&the_config);
	bind_to_ports(&the_config);
	usable = true;
}

const struct ur_config *ur_config_get(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load);
	return usable ? &the_config : NULL;
}
