/* options.h - parses the options of the reference device; reference.h describes them. */
#ifndef TD_GPU_REFERENCE_OPTIONS_H
#define TD_GPU_REFERENCE_OPTIONS_H

#include "kernels/status.h"

#include <stdint.h>

#define TD_REFERENCE_LARGEST 1000000000 /* maximum value of an option */

struct td_reference_options {
    int64_t launch_us, copy_mb_per_s, back_mb_per_s, fill_mb_per_s;
    int64_t fail_alloc, lose_at, lose_copy, hang_at, hang_free, hang_exit, fail_open; /* 0: never */
    int64_t recover, direct_bytes;
};

/* Parses the options in `text`. Returns INVALID_ARGUMENT for an unknown or duplicate option, or for
 * a value that is not a number. */
TD_MUST_CHECK td_status td_reference_options_parse(const char *text,
                                                   struct td_reference_options *out,
                                                   struct td_error *err);

/* Returns the bandwidth of copies to the host, or 0 if copies take no time. */
static inline int64_t td_reference_back_mb_per_s(const struct td_reference_options *options)
{
    return options->back_mb_per_s > 0 ? options->back_mb_per_s : options->copy_mb_per_s;
}

#endif
