/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/lock.h"

static __thread struct {
	unsigned int depth;
	int was;
} cancel;

void ur_cancel_off(void)
{
	if (cancel.depth++ == 0)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel.was);
}

void ur_cancel_on(void)
{
	if (--cancel.depth == 0)
		pthread_setcancelstate(cancel.was, NULL);
}
