#include "gpu/cuda/ops/ops.h"

void td_cuda_report_none(const struct td_device_work *work)
{
    for (int i = 0; work->reports && i < work->n_items; i++)
        work->reports[i] = (struct td_device_report){ .first_bad = INT64_MAX };
}
