/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How long to poll before sleeping: adaptive, for one thread at a time.  Polling
 * saves the wakeup of a sleeping thread (4 to 30 us) where what is awaited
 * comes sooner than that, and costs other threads their core where it does not.
 */
#ifndef UR_ENGINE_SPIN_H
#define UR_ENGINE_SPIN_H

#include <stdbool.h>
#include <stdint.h>

struct ur_spin {
	uint64_t budget_ns; /* 0: polling has not paid */
	uint32_t hold;	    /* short sleeps to come before the next trial … */
	uint32_t hold_next; /* … and before the one after that */
	/* Another thread wants the core (sched_yield() took long). */
	uint64_t crowded_until_ns;
	uint64_t crowd_ns; /* how long that was assumed the last time */
};

/*
 * How long to poll now, 0: sleep at once.  0 also while more threads want to
 * run than there are cores, or another one wants this core.
 * scale: ur_timescale().
 */
uint64_t ur_spin_begin(struct ur_spin *s, uint32_t scale);

/* Polling has ended: has it found something? */
void ur_spin_end(struct ur_spin *s, bool found);

/* The thread has slept for so long until something came. */
void ur_spin_slept(struct ur_spin *s, uint64_t ns);

#endif
