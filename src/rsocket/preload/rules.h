/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which sockets the preload library takes: all, unless there is a file of
 * rules, /etc/rdma/rsocket/preload_config.  A line is
 *   program domain type protocol
 * with "*" for any; domain INET or INET6, type STREAM or DGRAM, protocol TCP
 * or UDP (also as AF_INET, SOCK_STREAM, IPPROTO_TCP …); a program's name need
 * only begin so.  Lines with another form, and after "#", count for nothing.
 */
#ifndef UR_RSOCKET_PRELOAD_RULES_H
#define UR_RSOCKET_PRELOAD_RULES_H

#include <stdbool.h>

#define PRE_RULES_FILE "/etc/rdma/rsocket/preload_config"

struct pre_rules;

/* NULL: there is no file, or no rule in it. */
struct pre_rules *pre_rules_load(const char *path);
void pre_rules_free(struct pre_rules *r);

/* type without SOCK_NONBLOCK and SOCK_CLOEXEC; rules may be NULL. */
bool pre_rules_match(const struct pre_rules *r, const char *program, int domain,
		     int type, int protocol);

#endif
