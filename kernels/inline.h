/* inline.h - functions that are compiled separately for each set of constant arguments. */
#ifndef TD_KERNELS_INLINE_H
#define TD_KERNELS_INLINE_H

/* In sanitizer builds one copy takes the arguments at run time: to instrument every copy takes
 * minutes, and one copy runs the same lines. TD_SANITIZED is also defined for files that the build
 * leaves uninstrumented. */
#ifdef TD_SANITIZED
#define INLINE static inline
#else
#define INLINE static inline __attribute__((always_inline))
#endif

#endif
