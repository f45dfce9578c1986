/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exports whose prototypes are in no installed header, and a way to export one
 * function under several names and versions. The directive belongs in the file
 * that defines the function; gcc and clang both support it.
 */
#ifndef UR_VERBS_EXPORTS_H
#define UR_VERBS_EXPORTS_H

#include <infiniband/verbs.h>

/* The default version for new programs, and an old one for existing binaries */
#define URV_EXPORT(impl, name, version)                                        \
	__asm__(".symver " #impl ", " #name "@@" version)
#define URV_EXPORT_OLD(impl, name, version)                                    \
	__asm__(".symver " #impl ", " #name "@" version)

struct ib_uverbs_ah_attr;
struct ib_uverbs_qp_attr;
struct ib_user_path_rec;
struct ibv_sa_path_rec;

const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf,
			size_t size);
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *dst,
				struct ib_uverbs_ah_attr *src);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst,
				struct ib_uverbs_qp_attr *src);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *dst,
				 struct ib_user_path_rec *src);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *dst,
			       struct ibv_sa_path_rec *src);
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

#endif
