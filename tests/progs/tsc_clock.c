// SPDX-License-Identifier: BSD-2-Clause
// gettimeofday() for perftest, preloaded.  perftest compares it with the time
// stamp counter, 0.2 s for each size it prints, to learn the counter's rate; it
// does not ask for the time otherwise.  Here a microsecond is 100 cycles, so
// that takes some milliseconds, and does not fail where a virtual machine is
// stopped meanwhile.  What perftest prints is true for a processor of 100 MHz.
#include <stddef.h>
#include <sys/time.h>
#include <x86intrin.h>

#define CYCLES_PER_US 100

int gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
	unsigned long long us = __rdtsc() / CYCLES_PER_US;

	(void)tz;
	tv->tv_sec = (time_t)(us / 1000000);
	tv->tv_usec = (suseconds_t)(us % 1000000);
	return 0;
}
