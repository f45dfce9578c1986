/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UR_CHECK_WRAP_H
#define UR_CHECK_WRAP_H

#include <dlfcn.h>
#include <stdlib.h>

/* The functions of verbs have other names here in C: verbs.h makes macros of
 * some. check.map gives each symbol its version. */
#define SYMBOL(name) __asm__(#name) __attribute__((visibility("default")))

#define WRAPPER(type, name, params)                                            \
	type urk_##name params SYMBOL(name);                                   \
	type urk_##name params

static inline void *urk_next_symbol(const char *name)
{
	void *f = dlsym(RTLD_NEXT, name);

	if (!f)
		abort(); /* the library is linked to libibverbs.so.1 */
	return f;
}

/* The function of libibverbs.so.1, looked up once. */
#define REAL(name)                                                             \
	({                                                                     \
		static __typeof__(&urk_##name) _Atomic real_;                  \
		__typeof__(&urk_##name) f_ = real_;                            \
		if (!f_) {                                                     \
			f_ = (__typeof__(f_))urk_next_symbol(#name);           \
			real_ = f_;                                            \
		}                                                              \
		f_;                                                            \
	})

#endif
