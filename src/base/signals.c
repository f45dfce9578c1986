/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/signals.h"

#include <pthread.h>
#include <stddef.h>

void ur_signals_block(sigset_t *old)
{
	static const int open[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP };
	sigset_t set;

	sigfillset(&set);
	for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++)
		sigdelset(&set, open[i]);
	pthread_sigmask(SIG_SETMASK, &set, old);
}

bool ur_signals_restart(void)
{
	struct sigaction sa;

	for (int sig = 1; sig < NSIG; sig++) {
		if (sigaction(sig, NULL, &sa))
			continue;
		if (sa.sa_handler != SIG_DFL && sa.sa_handler != SIG_IGN &&
		    !(sa.sa_flags & SA_RESTART))
			return false;
	}
	return true;
}
