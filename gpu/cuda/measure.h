/* measure.h - what a device can do, found out at opening. */
#ifndef TD_GPU_CUDA_MEASURE_H
#define TD_GPU_CUDA_MEASURE_H

#include "gpu/cuda/runtime/device.h"

/* Fills what td_device_info says is measured; some 100 ms. */
TD_MUST_CHECK td_status td_cuda_measure(struct td_device *device, struct td_error *err);

#endif
