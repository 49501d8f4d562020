/* oip_tasks.h - the paths of the Open Inference Protocol for models, statistics, the repository and
 * shared memory. Inference is in op_task.h, the health of the server in health.h.
 *
 * The models are the ops, which are built in and always loaded, and the tables (models.h). Features
 * of the protocol that tensord does not support (CUDA shared memory, trace and log settings) return
 * NOT_SUPPORTED (501). Listing and unregistering CUDA regions succeed as if none were registered,
 * because clients make these calls when they start. */
#ifndef TD_SERVER_CALLS_OIP_TASKS_H
#define TD_SERVER_CALLS_OIP_TASKS_H

#include "server/calls/call.h"

/* metadata, readiness and configuration of models, statistics */
td_handler td_oip_server_metadata;
extern const struct td_task td_oip_ready_task, td_oip_metadata_task, td_oip_config_task;
/* Replies with the statistics of the call's model, or of the tables with counts and all ops if the
 * path names no model. */
td_handler td_oip_model_stats;

/* repository */
extern const struct td_task td_oip_index_task, td_oip_load_task, td_oip_unload_task;

/* Tasks and handlers of shared memory. The first argument names a region. Without it, the call
 * covers all regions. */
extern const struct td_task td_oip_register_task;
td_handler td_oip_region_status, td_oip_unregister;
td_handler td_oip_no_cuda_regions, td_oip_no_cuda_unregister, td_oip_no_cuda_register;

/* settings */
td_handler td_oip_no_trace, td_oip_no_logging;

#endif
