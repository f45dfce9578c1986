/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Log lines go to stderr (or URNIC_LOG_FILE) if their level is at most
 * URNIC_LOG (error, warn, info, debug, trace; default warn).  The level is
 * checked before the arguments are evaluated.
 */
#ifndef UR_BASE_LOG_H
#define UR_BASE_LOG_H

enum ur_log_level {
	UR_LOG_ERROR,
	UR_LOG_WARN,
	UR_LOG_INFO,
	UR_LOG_DEBUG,
	UR_LOG_TRACE,
};

extern int ur_log_level;

void ur_log_init(void); /* reads the environment; idempotent */
void ur_log_write(enum ur_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#define ur_log(level, ...)                                                     \
	do {                                                                   \
		if (__builtin_expect((int)(level) <= ur_log_level, 0))         \
			ur_log_write(level, __VA_ARGS__);                      \
	} while (0)

#define ur_err(...)   ur_log(UR_LOG_ERROR, __VA_ARGS__)
#define ur_warn(...)  ur_log(UR_LOG_WARN, __VA_ARGS__)
#define ur_info(...)  ur_log(UR_LOG_INFO, __VA_ARGS__)
#define ur_debug(...) ur_log(UR_LOG_DEBUG, __VA_ARGS__)

#endif
