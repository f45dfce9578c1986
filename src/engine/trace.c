/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/trace.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/beside.h"
#include "base/log.h"
#include "base/sys.h"
#include "engine/faults.h"
#include "engine/internal.h"

ur_traced_each *ur_traced_objects;

static void refuse(int fd, const char *why)
{
	(void)ur_sys_send(fd, why, strlen(why) + 1,
			  MSG_DONTWAIT | MSG_NOSIGNAL);
	close(fd);
}

static const char *attach(int fd, const char *order)
{
	static const char *const places[] = { "liburnic-trace.so" };
	ur_trace_attach_fn *fn;
	char path[PATH_MAX];
	void *lib;

	if (!ur_find_beside(places, places, 1, R_OK, path, sizeof(path)))
		return "liburnic-trace.so is not installed there";
	/* The working directory may be another by now. */
	if (*path != '/')
		return "its libraries were loaded by a relative path";
	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!lib) {
		ur_warn("trace: %s", dlerror());
		return "liburnic-trace.so cannot be loaded there";
	}
	fn = (ur_trace_attach_fn *)dlsym(lib, "urnic_trace_attach");
	if (!fn || !ur_traced_objects)
		return "its libraries are of another version";
	return fn(fd, order, ur_traced_objects);
}

/* A thread of its own, for as long as the trace lasts: the loader may wait for a
 * thread that waits for urnicd. */
static void *trace_main(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char order[64];
	ssize_t n = ur_sys_recv(fd, order, sizeof(order), MSG_DONTWAIT);
	const char *why = "the order is incomplete";

	if (n > 0 && !order[n - 1])
		why = attach(fd, order + strlen(UR_TRACE_ORDER));
	if (why)
		refuse(fd, why);
	return NULL;
}

void ur_tool_order(int fd)
{
	/* Then the process has rights that the tool's user may lack. */
	bool secure = getauxval(AT_SECURE);
	char text[sizeof(UR_TRACE_ORDER) - 1];
	/* An order left unread would take the place of the answer (ECONNRESET). */
	ssize_t n = ur_sys_recv(fd, text, sizeof(text),
				MSG_DONTWAIT | (secure ? 0 : MSG_PEEK));
	pthread_t thread;

	if (secure)
		refuse(fd, "it runs in secure-execution mode (setuid, "
			   "capabilities), where it takes no orders");
	else if (n != (ssize_t)sizeof(text) ||
		 memcmp(text, UR_TRACE_ORDER, sizeof(text)) != 0)
		ur_faults_order(fd);
	else if (ur_thread_start(&thread, "urnic-trace", trace_main,
				 (void *)(intptr_t)fd))
		close(fd);
	else
		pthread_detach(thread);
}
