/* SPDX-License-Identifier: BSD-2-Clause */
/* UR_FORK_CHILD(fn): fn() runs in each child of fork(), for as long as the
 * library is loaded. The order between files is undefined. */
#ifndef UR_BASE_FORK_H
#define UR_BASE_FORK_H

#include <pthread.h>

#define UR_FORK_CHILD(fn)                                                      \
	__attribute__((constructor)) static void watch_forks(void)             \
	{                                                                      \
		pthread_atfork(NULL, NULL, fn);                                \
	}

#endif
