/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects of one process used by another (ibv_import_device(3)), decision
 * 0008.  The owner listens on a nameless socket of its network namespace.  A
 * process that was given its command descriptor reads from it the socket's
 * address and a token that identifies the context.  The owner's watcher
 * answers, without the application.
 *
 * An importer has two connections: one for its requests, one on which it is
 * notified that an object has changed or ended, which it has to confirm.  The
 * owner waits for the confirmation, so that no process uses what it removes; an
 * importer that does not confirm within UR_IMPORT_PATIENCE_MS is disconnected
 * for good.
 */
#ifndef UR_SHARING_IMPORT_H
#define UR_SHARING_IMPORT_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/imported.h"

#define UR_IMPORT_TOKEN	      16u
#define UR_IMPORT_NAME	      48u /* of the socket, with the final zero */
#define UR_IMPORT_PATIENCE_MS 2000
#define UR_IMPORT_CONNS	      64u /* of importers, at an owner */
#define UR_IMPORT_LINKS	      32u /* to owners, at an importer */

enum ur_import_kind {
	UR_IMPORT_PD,
	UR_IMPORT_MR,
	UR_IMPORT_DM,
};

#define UR_IMPORT_GONE 1u /* all but kind and handle means nothing */
#define UR_IMPORT_NULL 2u /* a null region */
#define UR_IMPORT_FILE 4u /* its memory is at `offset` of a descriptor */
#define UR_IMPORT_SOON 8u /* its page faults never wait for another process */

struct ur_import_object {
	uint32_t kind;
	uint32_t handle; /* of its owner */
	uint32_t flags;
	uint32_t pd; /* handle of a region's */
	uint32_t key;
	uint32_t access;
	uint64_t iova;
	uint64_t length;
	uint64_t addr; /* in the owner */
	uint64_t offset;
};

/* What the ABI layer does; called by the watcher. */
struct ur_import_hooks {
	/* Owner: 0 or -errno; *fd: -1, or the caller's to close. */
	int (*describe)(const uint8_t token[UR_IMPORT_TOKEN], uint32_t kind,
			uint32_t handle, struct ur_import_object *out, int *fd);
	/* Owner: an importer destroys it.  0 or -errno. */
	int (*end)(const uint8_t token[UR_IMPORT_TOKEN], uint32_t kind,
		   uint32_t handle);
	/* Importer: on return it is used as it is now.  fd stays ours. */
	void (*changed)(void *arg, const struct ur_import_object *o, int fd);
	/* Importer: the owner has ended; so have all its objects. */
	void (*lost)(void *arg);
};

/* Owner: listen, if we do not yet; `name` is how the socket is called. */
int ur_import_serve(const struct ur_import_hooks *hooks,
		    char name[UR_IMPORT_NAME]);

/*
 * Owner: tell all importers of that context how the object is now (fd: -1 or
 * where its memory is) and wait until they act accordingly.  Not under a lock
 * that a hook takes.  The watcher must not wait: without `wait` this waits for
 * no thread that does.
 */
void ur_import_tell(const uint8_t token[UR_IMPORT_TOKEN],
		    const struct ur_import_object *o, int fd, bool wait);

/*
 * Importer.  -EPERM: the owner is another user's; -EOPNOTSUPP: no process
 * answers, or not by this protocol; -ENOSPC: too many.
 */
struct ur_import_link;
int ur_import_open(const char name[UR_IMPORT_NAME],
		   const uint8_t token[UR_IMPORT_TOKEN],
		   const struct ur_import_hooks *hooks, void *arg,
		   struct ur_import_link **out);
/* No hook is called any more on return, nor running. */
void ur_import_close(struct ur_import_link *l);

/* 0; what `describe` said; -EIO: the owner has ended; -ETIMEDOUT: it does not
 * answer, and may yet do what it was asked to. */
int ur_import_ask(struct ur_import_link *l, uint32_t kind, uint32_t handle,
		  struct ur_import_object *out, int *fd);
int ur_import_end(struct ur_import_link *l, uint32_t kind, uint32_t handle);

/* Whose memory it is; may: 0 or what ur_owner_check() said. */
const struct ur_owner *ur_import_lender(const struct ur_import_link *l,
					int *may);

#endif
