/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Log lines go to stderr (or URNIC_LOG_FILE) if their level is at most
 * URNIC_LOG (error, warn, info, debug, trace; default warn).  The level is
 * checked before the arguments are evaluated.
 */
#ifndef UR_BASE_LOG_H
#define UR_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum ur_log_level {
	UR_LOG_ERROR,
	UR_LOG_WARN,
	UR_LOG_INFO,
	UR_LOG_DEBUG,
	UR_LOG_TRACE,
};

extern int ur_log_level;

void ur_log_init(void);		       /* reads the environment; idempotent */
int ur_log_level_of(const char *name); /* -1: there is no such level */
void ur_log_write(enum ur_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#define ur_log(level, ...)                                                     \
	do {                                                                   \
		if (__builtin_expect((int)(level) <= ur_log_level, 0))         \
			ur_log_write(level, __VA_ARGS__);                      \
	} while (0)

/*
 * Rate limit, for what a peer or another user can cause at will: a call site
 * writes at most UR_LOG_SOME lines in UR_LOG_SOME_SECONDS, then says once that
 * more are suppressed, and with its next line how many were.
 */
#define UR_LOG_SOME	    20u
#define UR_LOG_SOME_SECONDS 10u

struct ur_log_limit {
	_Atomic uint64_t window; /* the current window */
	_Atomic uint32_t lines;	 /* requested in it */
};

/* May one more be written? */
bool ur_log_may(struct ur_log_limit *limit, enum ur_log_level level);

#define ur_log_some(level, ...)                                                \
	do {                                                                   \
		static struct ur_log_limit ur_log_limit_;                      \
                                                                               \
		if (__builtin_expect((int)(level) <= ur_log_level, 0) &&       \
		    ur_log_may(&ur_log_limit_, level))                         \
			ur_log_write(level, __VA_ARGS__);                      \
	} while (0)

#define ur_warn_some(...) ur_log_some(UR_LOG_WARN, __VA_ARGS__)
#define ur_info_some(...) ur_log_some(UR_LOG_INFO, __VA_ARGS__)

#define ur_err(...)   ur_log(UR_LOG_ERROR, __VA_ARGS__)
#define ur_warn(...)  ur_log(UR_LOG_WARN, __VA_ARGS__)
#define ur_info(...)  ur_log(UR_LOG_INFO, __VA_ARGS__)
#define ur_debug(...) ur_log(UR_LOG_DEBUG, __VA_ARGS__)

#endif
