/* inline.h - functions that the compiler builds anew for each call with constant arguments. */
#ifndef TD_KERNELS_INLINE_H
#define TD_KERNELS_INLINE_H

/* Sanitizers instrument every copy, which takes minutes; one copy that is given the arguments as variables runs the same
 * lines. */
#ifdef TD_SANITIZED
#define INLINE static inline
#else
#define INLINE static inline __attribute__((always_inline))
#endif

#endif
