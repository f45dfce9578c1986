/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UR_TOOLS_ENABLE_H
#define UR_TOOLS_ENABLE_H

/*
 * The linker takes a library from the first directory that has it, and reads
 * these files in the order of their names: this one before the distribution's.
 */
#define UR_ENABLE_CONF "/etc/ld.so.conf.d/000-urnic.conf"

/* The libraries in dir and urnicd: root's alone, and readable by all users. */
int ur_enable_check_files(const char *dir);

/* /etc/ld.so.conf includes UR_ENABLE_CONF. */
int ur_enable_check_include(void);

#endif
