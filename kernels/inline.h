/* inline.h - functions that are compiled separately for each set of constant arguments. */
#ifndef TD_KERNELS_INLINE_H
#define TD_KERNELS_INLINE_H

/* Sanitizer builds compile a single copy, which receives the arguments at run time. It contains the
 * same code, and instrumenting every copy would take minutes. TD_SANITIZED is also defined for
 * files that the build leaves uninstrumented. */
#ifdef TD_SANITIZED
#define INLINE static inline
#else
#define INLINE static inline __attribute__((always_inline))
#endif

#endif
