/* oip_tasks.h - the Open Inference Protocol's paths beside inference: health, models, their
 * statistics, repository, shared memory. Inference is op_task.h.
 *
 * Models are the ops, built in and always loaded, and the tables (models.h). Features of the
 * protocol that tensord lacks (CUDA shared memory, trace and log settings) are NOT_SUPPORTED (501).
 * Listing and unregistering CUDA regions succeeds as if there were none, since clients do so at
 * start. */
#ifndef TD_SERVER_CALLS_OIP_TASKS_H
#define TD_SERVER_CALLS_OIP_TASKS_H

#include "server/calls/call.h"

/* health, metadata, configuration, statistics */
td_handler td_oip_live, td_oip_ready, td_oip_server_metadata;
td_handler td_oip_model_ready, td_oip_model_metadata, td_oip_model_config;
td_handler td_oip_statistics; /* of the call's model, or of all ops and of the tables with
                               * counts */

/* repository */
extern const struct td_task td_oip_index_task, td_oip_load_task, td_oip_unload_task;

/* shared memory; the region is the call's first argument; none: all regions */
extern const struct td_task td_oip_register_task;
td_handler td_oip_region_status, td_oip_unregister;
td_handler td_oip_no_cuda_regions, td_oip_no_cuda_unregister, td_oip_no_cuda_register;

/* settings */
td_handler td_oip_no_trace, td_oip_no_logging;

#endif
