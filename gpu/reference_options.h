/* reference_options.h - what the reference device is told, read from its text: see reference.h. */
#ifndef TD_GPU_REFERENCE_OPTIONS_H
#define TD_GPU_REFERENCE_OPTIONS_H

#include "kernels/status.h"

#include <stdint.h>

#define TD_REFERENCE_LARGEST 1000000000 /* number that an option may have */

struct td_reference_options {
    int64_t launch_us, copy_mb_per_s;
    int64_t fail_alloc, lose_at, hang_at, fail_open; /* 0: not at all */
    int64_t recover;
};

/* INVALID_ARGUMENT: a name that there is not, or that is there twice; something else than a number. */
TD_MUST_CHECK td_status td_reference_options_read(const char *text,
                                                  struct td_reference_options *out,
                                                  struct td_error *err);

#endif
