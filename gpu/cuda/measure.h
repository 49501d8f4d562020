/* measure.h - measures the speed of a device when the device is opened. */
#ifndef TD_GPU_CUDA_MEASURE_H
#define TD_GPU_CUDA_MEASURE_H

#include "gpu/cuda/runtime/device.h"

/* Fills the measured members of td_device_info. This takes about 100 ms. */
TD_MUST_CHECK td_status td_cuda_measure(struct td_device *device, struct td_error *err);

#endif
