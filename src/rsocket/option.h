/* SPDX-License-Identifier: BSD-2-Clause */
/* Options that streams and datagrams have in common. */
#ifndef UR_RSOCKET_OPTION_H
#define UR_RSOCKET_OPTION_H

#include "rsocket/sock.h"

/* As the members of struct urs_ops; the kind's own are asked too. */
int urs_option_set(struct urs_sock *s, int level, int name, const void *val,
		   socklen_t len);
int urs_option_get(struct urs_sock *s, int level, int name, void *val,
		   socklen_t *len);

/*
 * Options that mean nothing to an adapter, but that programs set and expect to
 * read back.  init gives them the values that the kernel's have; find returns
 * where one is kept, or NULL.
 */
void urs_kept_init(struct urs_opts *o);
int *urs_kept_find(struct urs_opts *o, int level, int name);

#endif
