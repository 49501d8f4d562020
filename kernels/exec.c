#include "kernels/exec.h"

static td_status serial_for(struct td_exec *self, int64_t count, int64_t grain, td_range_fn *fn,
                            void *context, struct td_error *err)
{
    (void)self;
    (void)err;
    if (grain < 1)
        grain = 1;
    for (int64_t begin = 0; begin < count;) {
        int64_t size = count - begin < grain ? count - begin : grain;
        fn(context, begin, begin + size);
        begin += size;
    }
    return TD_OK;
}

void td_exec_serial(struct td_exec *exec, struct td_arena *arena)
{
    *exec = (struct td_exec){ .parallel_for = serial_for,
                              .arena = arena,
                              .output_limit = UINT64_MAX,
                              .flops_limit = UINT64_MAX,
                              .width = 1 };
}
