/* SPDX-License-Identifier: BSD-2-Clause */
#include "clock.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define RENEW_NS    1000000u
#define MOST_TICKS  1000u /* around a reading of the kernel's clock */
#define MOST_CHANGE 1000u /* of the rate: one in so many */

#if defined(__x86_64__)

static bool is_counter; /* the kernel's clock */

__attribute__((constructor)) static void begin(void)
{
	char name[8] = "";
	int fd = open("/sys/devices/system/clocksource/clocksource0/"
		      "current_clocksource",
		      O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	is_counter =
		read(fd, name, sizeof(name)) == 4 && !memcmp(name, "tsc\n", 4);
	close(fd);
}

/* After a suspension, or on another host, the rate since `from` is wrong. */
static bool has_changed(uint64_t rate, uint64_t was)
{
	uint64_t by = rate > was ? rate - was : was - rate;

	return was && by > was / MOST_CHANGE;
}

static void measure(struct tr_clock *c)
{
	uint64_t passed = c->ns - c->from_ns, rate;

	if (c->from_ns && passed < RENEW_NS)
		return;
	rate = (uint64_t)(((unsigned __int128)passed << 32) /
			  (c->ticks - c->from_ticks + 1));
	if (!c->from_ns || !rate || has_changed(rate, c->rate)) {
		c->from_ticks = c->ticks;
		c->from_ns = c->ns;
		c->valid = c->rate = 0;
		return;
	}
	c->rate = rate;
	c->valid = ((uint64_t)RENEW_NS << 32) / rate;
}

uint64_t tr_clock_renew(struct tr_clock *c)
{
	uint64_t before = __builtin_ia32_rdtsc(), ns = ur_clock_ns(), took;
	uint64_t last = c->ns + (c->valid * c->rate >> 32);
	struct tr_clock n = *c;

	if (!is_counter)
		return ns;
	took = __builtin_ia32_rdtsc() - before;
	/* Interrupted, or moved to another processor. */
	if (took > MOST_TICKS)
		return ns > last ? ns : last;
	n.ticks = before + took / 2;
	n.ns = ns;
	measure(&n);
	n.ns = ns > last ? ns : last;
	/* A signal handler that comes now reads the kernel's clock. */
	c->valid = 0;
	atomic_signal_fence(memory_order_seq_cst);
	c->ticks = n.ticks;
	c->ns = n.ns;
	c->rate = n.rate;
	c->from_ticks = n.from_ticks;
	c->from_ns = n.from_ns;
	atomic_signal_fence(memory_order_seq_cst);
	c->valid = n.valid;
	return n.ns;
}

#else

uint64_t tr_clock_renew(struct tr_clock *c)
{
	(void)c;
	return ur_clock_ns();
}

#endif
