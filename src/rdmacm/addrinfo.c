/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_getaddrinfo(3): what getaddrinfo(3) says, in rdma_cm's words. */
#include <errno.h>
#include <infiniband/ib.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/id.h"
#include "verbs/convert.h"

int rdma_resolve_addrinfo(struct rdma_cm_id *pub, const char *node,
			  const char *service,
			  const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *pub, struct rdma_addrinfo **info);

static int copy_bytes(void **out, const void *from, size_t len)
{
	if (!from || !len)
		return 0;
	*out = malloc(len);
	if (!*out)
		return -ENOMEM;
	memcpy(*out, from, len);
	return 0;
}

static int copy_addr(struct sockaddr **out, socklen_t *out_len,
		     const struct sockaddr *addr, socklen_t len)
{
	void *copy = NULL;

	if (!addr || !len)
		return 0;
	if (copy_bytes(&copy, addr, len))
		return -ENOMEM;
	*out = copy;
	*out_len = len;
	return 0;
}

static int copy_string(char **out, const char *from)
{
	if (!from)
		return 0;
	*out = strdup(from);
	return *out ? 0 : -ENOMEM;
}

void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	while (res) {
		struct rdma_addrinfo *next = res->ai_next;

		free(res->ai_connect);
		free(res->ai_route);
		free(res->ai_src_canonname);
		free(res->ai_dst_canonname);
		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res);
		res = next;
	}
}

/* One entry of its own memory; NULL: none is left. */
static struct rdma_addrinfo *copy_one(const struct rdma_addrinfo *in)
{
	struct rdma_addrinfo *out = calloc(1, sizeof(*out));
	int rc;

	if (!out)
		return NULL;
	out->ai_flags = in->ai_flags;
	out->ai_family = in->ai_family;
	out->ai_qp_type = in->ai_qp_type;
	out->ai_port_space = in->ai_port_space;
	out->ai_route_len = in->ai_route_len;
	out->ai_connect_len = in->ai_connect_len;
	rc = copy_addr(&out->ai_src_addr, &out->ai_src_len, in->ai_src_addr,
		       in->ai_src_len);
	if (rc == 0)
		rc = copy_addr(&out->ai_dst_addr, &out->ai_dst_len,
			       in->ai_dst_addr, in->ai_dst_len);
	if (rc == 0)
		rc = copy_string(&out->ai_src_canonname, in->ai_src_canonname);
	if (rc == 0)
		rc = copy_string(&out->ai_dst_canonname, in->ai_dst_canonname);
	if (rc == 0)
		rc = copy_bytes(&out->ai_route, in->ai_route, in->ai_route_len);
	if (rc == 0)
		rc = copy_bytes(&out->ai_connect, in->ai_connect,
				in->ai_connect_len);
	if (rc == 0)
		return out;
	rdma_freeaddrinfo(out);
	return NULL;
}

static int socktype_of(int qp_type)
{
	switch (qp_type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return SOCK_STREAM;
	case IBV_QPT_UD:
		return SOCK_DGRAM;
	default:
		return 0;
	}
}

static int protocol_of(int port_space, int socktype)
{
	switch (port_space) {
	case RDMA_PS_TCP:
		return IPPROTO_TCP;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		return IPPROTO_UDP;
	case RDMA_PS_IB:
		if (socktype)
			return socktype == SOCK_DGRAM ? IPPROTO_UDP
						      : IPPROTO_TCP;
		return 0;
	default:
		return 0;
	}
}

/* Every address would come once per socket type if none was named. */
static void to_ai_hints(const struct rdma_addrinfo *in, struct addrinfo *out)
{
	*out = (struct addrinfo){ .ai_socktype = socktype_of(in->ai_qp_type) };
	out->ai_protocol = protocol_of(in->ai_port_space, out->ai_socktype);
	if (!out->ai_socktype && !out->ai_protocol)
		out->ai_socktype = SOCK_STREAM;
	if (in->ai_flags & RAI_PASSIVE)
		out->ai_flags |= AI_PASSIVE;
	if (in->ai_flags & RAI_NUMERICHOST)
		out->ai_flags |= AI_NUMERICHOST;
	if (in->ai_family != AF_IB)
		out->ai_family = in->ai_family;
}

/* A copy of the result under what the hints demand. */
static struct rdma_addrinfo *from_ai(const struct addrinfo *ai,
				     const struct rdma_addrinfo *hints)
{
	bool stream = ai->ai_socktype == SOCK_STREAM;
	struct rdma_addrinfo one = {
		.ai_flags = hints->ai_flags,
		.ai_family = ai->ai_family,
		.ai_qp_type = hints->ai_qp_type,
		.ai_port_space = hints->ai_port_space,
		.ai_src_addr = hints->ai_src_addr,
		.ai_src_len = hints->ai_src_len,
	};

	if (!one.ai_qp_type)
		one.ai_qp_type = stream ? IBV_QPT_RC : IBV_QPT_UD;
	if (!one.ai_port_space)
		one.ai_port_space = ai->ai_protocol == IPPROTO_UDP
					    ? RDMA_PS_UDP
					    : RDMA_PS_TCP;
	if (one.ai_flags & RAI_PASSIVE) {
		one.ai_src_addr = ai->ai_addr;
		one.ai_src_len = ai->ai_addrlen;
		one.ai_src_canonname = ai->ai_canonname;
	} else {
		one.ai_dst_addr = ai->ai_addr;
		one.ai_dst_len = ai->ai_addrlen;
		one.ai_dst_canonname = ai->ai_canonname;
	}
	return copy_one(&one);
}

/* 0, or a code of getaddrinfo(3). */
static int by_name(const char *node, const char *service,
		   const struct rdma_addrinfo *hints,
		   struct rdma_addrinfo **res)
{
	struct rdma_addrinfo *list = NULL, **tail = &list;
	struct addrinfo ai_hints, *ai;
	int rc;

	to_ai_hints(hints, &ai_hints);
	rc = getaddrinfo(node, service, &ai_hints, &ai);
	if (rc)
		return rc;
	for (struct addrinfo *i = ai; i; i = i->ai_next) {
		if (i->ai_family != AF_INET && i->ai_family != AF_INET6)
			continue;
		*tail = from_ai(i, hints);
		if (!*tail) {
			rc = EAI_MEMORY;
			break;
		}
		tail = &(*tail)->ai_next;
	}
	freeaddrinfo(ai);
	if (rc == 0 && !list)
		rc = EAI_NONAME;
	if (rc)
		rdma_freeaddrinfo(list);
	else
		*res = list;
	return rc;
}

/* Without names the hints' own addresses are the answer. */
static int by_hints(const struct rdma_addrinfo *hints,
		    struct rdma_addrinfo **res)
{
	struct rdma_addrinfo one = *hints;

	one.ai_next = NULL;
	*res = copy_one(&one);
	return *res ? 0 : EAI_MEMORY;
}

static int resolve(const char *node, const char *service,
		   const struct rdma_addrinfo *hints,
		   struct rdma_addrinfo **res)
{
	static const struct rdma_addrinfo none;

	if (!node && !service)
		return by_hints(hints, res);
	return by_name(node, service, hints ? hints : &none, res);
}

int rdma_getaddrinfo(const char *node, const char *service,
		     const struct rdma_addrinfo *hints,
		     struct rdma_addrinfo **res)
{
	int rc;

	if (!node && !service && !hints)
		return urv_minus_one(-EINVAL);
	rc = resolve(node, service, hints, res);
	return rc == EAI_MEMORY ? urv_minus_one(-ENOMEM) : rc;
}

/* What a resolver thread works on; it owns all of it but the id. */
struct lookup {
	struct urc_id *id;
	char *node;
	char *service;
	struct rdma_addrinfo *hints;
};

static void lookup_free(struct lookup *l)
{
	rdma_freeaddrinfo(l->hints);
	free(l->service);
	free(l->node);
	free(l);
}

static struct lookup *lookup_create(struct urc_id *id, const char *node,
				    const char *service,
				    const struct rdma_addrinfo *hints)
{
	static const struct rdma_addrinfo none;
	struct lookup *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->id = id;
	l->hints = copy_one(hints ? hints : &none);
	if (l->hints && copy_string(&l->node, node) == 0 &&
	    copy_string(&l->service, service) == 0)
		return l;
	lookup_free(l);
	return NULL;
}

static void *lookup_run(void *arg)
{
	struct lookup *l = arg;
	struct urc_id *id = l->id;
	struct rdma_addrinfo *res = NULL, *old;
	int rc = resolve(l->node, l->service, l->hints, &res);

	lookup_free(l);
	ur_lock(&urc_lock);
	old = id->info;
	id->info = res;
	ur_unlock(&urc_lock);
	rdma_freeaddrinfo(old);
	(void)urc_tell(
		id, rc ? URC_EVENT_ADDRINFO_ERROR : URC_EVENT_ADDRINFO_RESOLVED,
		rc);
	return NULL;
}

static int lookup_start(struct urc_id *id, struct lookup *l)
{
	int rc;

	if (id->sync) {
		lookup_run(l);
		return urc_complete(id);
	}
	if (id->resolving)
		pthread_join(id->resolver, NULL);
	rc = pthread_create(&id->resolver, NULL, lookup_run, l);
	id->resolving = rc == 0;
	if (rc)
		lookup_free(l);
	return -rc;
}

/* Of InfiniBand's subnet administrator nothing can be learnt here. */
static int resolve_service(const struct urc_id *id, const char *node)
{
	if (node || id->state != URC_BOUND)
		return -EINVAL;
	return -EOPNOTSUPP;
}

int rdma_resolve_addrinfo(struct rdma_cm_id *pub, const char *node,
			  const char *service,
			  const struct rdma_addrinfo *hints)
{
	const int both = URC_RAI_SA | URC_RAI_DNS;
	struct urc_id *id = urc_id(pub);
	struct lookup *l;
	int rc = pub ? urc_id_check(id) : -EINVAL;

	if (rc == 0 && ((!node && !service && !hints) ||
			(hints && (hints->ai_flags & both) == both)))
		rc = -EINVAL;
	if (rc == 0 && hints && (hints->ai_flags & URC_RAI_SA))
		rc = resolve_service(id, node);
	if (rc)
		return urv_minus_one(rc);
	l = lookup_create(id, node, service, hints);
	return urv_minus_one(l ? lookup_start(id, l) : -ENOMEM);
}

int rdma_query_addrinfo(struct rdma_cm_id *pub, struct rdma_addrinfo **info)
{
	struct urc_id *id = urc_id(pub);
	struct rdma_addrinfo *list = NULL, **tail = &list;
	int rc = info ? urc_id_check(id) : -EINVAL;

	if (rc)
		return urv_minus_one(rc);
	ur_lock(&urc_lock);
	for (struct rdma_addrinfo *i = id->info; i && rc == 0; i = i->ai_next) {
		*tail = copy_one(i);
		if (*tail)
			tail = &(*tail)->ai_next;
		else
			rc = -ENOMEM;
	}
	ur_unlock(&urc_lock);
	if (rc == 0 && !list)
		rc = -ENODATA;
	if (rc)
		rdma_freeaddrinfo(list);
	else
		*info = list;
	return urv_minus_one(rc);
}
