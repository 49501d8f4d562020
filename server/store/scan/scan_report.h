/* scan_report.h - log lines of a scan of the data folder: a line for each file whose tensors
 * changed, a line for each file or tensor that is skipped, and a summary.
 *
 *     info tables_changed file=model.safetensors added=2 replaced=1
 *     warn tables_changed file=users.npy replaced=1 unpersisted=1
 *     warn table_skipped file=broken.npy reason="..."
 *     info data_dir_scanned added=2 replaced=1 removed=0 unchanged=40 skipped=1 ignored=3
 *                           scan_ms=1.5
 *
 * Bounds   At most TD_SCAN_LINES (store.h) lines for changes, and as many for skipped files and
 *          tensors. The summary counts the remaining lines as not_logged.
 * Threads  Not synchronised, because a report belongs to one scan. */
#ifndef TD_SERVER_STORE_SCAN_REPORT_H
#define TD_SERVER_STORE_SCAN_REPORT_H

#include "server/observe/log.h"

#include <stdbool.h>

struct td_store_inspector;

struct td_scan_report {
    /* Inspector that receives the report instead of the log, or NULL. */
    const struct td_store_inspector *inspector;
    const struct td_log *log;
    int64_t begun_ns;
    int added, replaced, removed; /* tensors of the current file */
    /* Number of replaced tensors whose last changes were only in memory. */
    int unpersisted;
    /* Number of tensors in the files before the current file. */
    int total_added, total_replaced, total_removed;
    int unchanged; /* tensors */
    /* Number of skipped files, and of skipped tensors in other files. */
    int skipped;
    /* Number of files that contain no tensors, judging by their names and first bytes. */
    int ignored;
    int change_lines, skip_lines, not_logged;
};

/* Starts a report. `inspector` and `log` can be NULL. */
void td_scan_report_begin(struct td_scan_report *report, const struct td_store_inspector *inspector,
                          const struct td_log *log);

/* Reports a skipped file or tensor. A `file` or `tensor` that is NULL is omitted. `level` is warn,
 * or info for usual cases. */
void td_scan_report_skip(struct td_scan_report *report, enum td_log_level level, const char *file,
                         const char *tensor, const char *why);

/* Ends the current file. */
void td_scan_report_file(struct td_scan_report *report, const char *file);

void td_scan_report_end(const struct td_scan_report *report);

/* Returns the reason that a file of this name is not read, and what the operator can do. Returns
 * NULL if the suffix is not known as a suffix of tensor files. */
const char *td_scan_other_reason(const char *name);

#endif
