/* table_reads.h - counts lookups of resident tensors and the rows that they read.
 *
 * A lookup is a call that looks up rows in params that are a resident tensor. Each index or query
 * selects one row. All versions of a name, such as movies@1 and movies@2, are counted together.
 *
 * Cost     A few comparisons for a request without a resident table. The first read of a version
 *          looks up its name under a mutex; after that, the version stores its place.
 * Threads  Runs on the shard's thread. */
#ifndef TD_SERVER_CALLS_TABLE_READS_H
#define TD_SERVER_CALLS_TABLE_READS_H

#include "server/calls/call.h"

/* Returns the place of a resident tensor in the metrics, plus 1. */
int td_table_reads_place(struct td_metrics *metrics, const struct td_tensor *tensor);

/* Counts a call that has ended but still has its inputs. A call that failed before it received
 * inputs is counted if its path names the table. */
void td_table_reads_count(const struct td_call *call, int shard, bool succeeded);

/* Reads the totals of the tables that the token is allowed to name. Adds the totals of all other
 * tables into one last entry with the name "(other)". Returns the number of entries. */
int td_table_reads_known_to(const struct td_access *access, struct td_metrics *metrics,
                            struct td_table_totals tables[TD_METRICS_TABLES + 1]);

/* Returns the lookup totals of a resident tensor. */
void td_table_reads_totals(struct td_metrics *metrics, const struct td_tensor *tensor,
                           struct td_inference_totals *out);

#endif
