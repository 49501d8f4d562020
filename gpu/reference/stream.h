/* stream.h - streams of the reference device: the time at which work is complete, and copies. */
#ifndef TD_GPU_REFERENCE_STREAM_H
#define TD_GPU_REFERENCE_STREAM_H

#include "gpu/reference/state.h"

/* These functions implement the vtable. */
td_status td_reference_stream_open(struct td_device *device, struct td_device_stream **out,
                                   struct td_error *err);
void td_reference_stream_close(struct td_device_stream *stream);
td_status td_reference_copy_to_device(struct td_device_stream *stream, void *to, const void *from,
                                      size_t bytes, struct td_error *err);
td_status td_reference_copy_to_host(struct td_device_stream *stream, void *to, const void *from,
                                    size_t bytes, struct td_error *err);
td_status td_reference_poll(struct td_device_stream *stream, bool *done, struct td_error *err);
td_status td_reference_wait(struct td_device_stream *stream, int64_t timeout_ns, bool *done,
                            struct td_error *err);

/* Schedules work that lasts `duration_ns` and starts after all work submitted to the device. */
void td_reference_schedule(struct td_device_stream *stream, int64_t duration_ns);

#endif
