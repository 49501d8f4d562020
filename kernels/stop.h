/* stop.h - checks whether a call must end early, because its deadline has passed, its client has
 * disconnected or the server is stopping.
 *
 * A loop that can run for more than about 10 ms makes the check between two steps and returns the
 * error of the check. Before the loop is complete, it must not change anything that others can see.
 *
 * Ownership  Borrows the context. Threads    Only the thread that runs the call checks. */
#ifndef TD_KERNELS_STOP_H
#define TD_KERNELS_STOP_H

#include "kernels/status.h"

#include <stddef.h>
#include <string.h>

struct td_stop {
    /* Returns TD_OK, or an error with err filled. NULL if the work is never stopped. */
    td_status (*check)(void *context, struct td_error *err);
    void *context;
};

#define TD_STOP_STEP     ((size_t)8 << 20)  /* bytes between two checks of a copy */
#define TD_STOP_ELEMENTS ((int64_t)1 << 20) /* elements between two checks of other loops */

static inline TD_MUST_CHECK td_status td_stop_check(const struct td_stop *stop,
                                                    struct td_error *err)
{
    return stop && stop->check ? stop->check(stop->context, err) : TD_OK;
}

/* Work per element, in bytes. */
#define TD_STOP_ELEMENT (TD_STOP_STEP / (size_t)TD_STOP_ELEMENTS)

/* Counts work until the next check, for loops whose steps differ in size. */
struct td_stop_meter {
    const struct td_stop *stop;
    size_t left; /* bytes of work until the next check, at most TD_STOP_STEP */
};

static inline struct td_stop_meter td_stop_meter(const struct td_stop *stop)
{
    return (struct td_stop_meter){ stop, TD_STOP_STEP };
}

/* Adds `work` bytes, and checks once per TD_STOP_STEP. */
static inline TD_MUST_CHECK td_status td_stop_work(struct td_stop_meter *meter, size_t work,
                                                   struct td_error *err)
{
    if (work < meter->left) {
        meter->left -= work;
        return TD_OK;
    }
    meter->left = TD_STOP_STEP;
    return td_stop_check(meter->stop, err);
}

/* Copies like memcpy, with checks between steps, because copying a gigabyte to new memory can take
 * a second. */
static inline TD_MUST_CHECK td_status td_stop_copy(const struct td_stop *stop, void *to,
                                                   const void *from, size_t bytes,
                                                   struct td_error *err)
{
    td_status status = TD_OK;
    for (size_t done = 0; done < bytes && status == TD_OK;) {
        const size_t step = bytes - done < TD_STOP_STEP ? bytes - done : TD_STOP_STEP;
        memcpy((char *)to + done, (const char *)from + done, step);
        done += step;
        if (done < bytes)
            status = td_stop_check(stop, err);
    }
    return status;
}

#endif
