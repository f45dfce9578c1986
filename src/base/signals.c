/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/signals.h"

#include <pthread.h>

/* Synchronous: base/guard.h handles two, seccomp(2) sends SIGSYS. */
static bool is_fault(int sig)
{
	return sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE ||
	       sig == SIGILL || sig == SIGTRAP || sig == SIGSYS;
}

void ur_signals_block(sigset_t *old)
{
	sigset_t set;

	sigfillset(&set);
	for (int sig = 1; sig < NSIG; sig++)
		if (is_fault(sig))
			sigdelset(&set, sig);
	pthread_sigmask(SIG_SETMASK, &set, old);
}

bool ur_signals_restart(void)
{
	bool any = false;
	struct sigaction sa;

	for (int sig = 1; sig < NSIG; sig++) {
		if (is_fault(sig) || sigaction(sig, NULL, &sa) ||
		    sa.sa_handler == SIG_DFL || sa.sa_handler == SIG_IGN)
			continue;
		if (!(sa.sa_flags & SA_RESTART))
			return false;
		any = true;
	}
	return any;
}
