#include "server/store/scan/scan_report.h"

#include "server/observe/clock.h"
#include "server/store/store.h"

#include <string.h>
#include <strings.h>

void td_scan_report_begin(struct td_scan_report *report, const struct td_store_inspector *inspector,
                          const struct td_log *log)
{
    *report = (struct td_scan_report){ .inspector = inspector,
                                       .log = inspector ? NULL : log,
                                       .begun_ns = td_now_ns() };
}

/* Counts a line against the maximum number of its kind. Returns false if no line is left, or if the
 * log level excludes the line. */
static bool take_line(struct td_scan_report *report, int *lines, enum td_log_level level)
{
    if (!report->log || !td_log_wants(report->log, level))
        return false;
    if (*lines == TD_SCAN_LINES) {
        report->not_logged++;
        return false;
    }
    ++*lines;
    return true;
}

void td_scan_report_skip(struct td_scan_report *report, enum td_log_level level, const char *file,
                         const char *tensor, const char *why)
{
    report->skipped++;
    if (report->inspector)
        report->inspector->skipped(report->inspector->context, file, tensor, why);
    else if (take_line(report, &report->skip_lines, level))
        td_log(report->log, level, "table_skipped", TD_TEXT("file", file),
               TD_TEXT("tensor", tensor), TD_TEXT("reason", why));
}

const char *td_scan_other_reason(const char *name)
{
    static const char imported[] = "this format is not supported; use deploy/import to convert "
                                   "it to tables";
    static const char pickled[] =
        "pickled tensors are not supported; use deploy/import to convert PyTorch state dicts to "
        "tables";
    static const char checkpoint[] =
        "checkpoints are not supported; torch.save(model.state_dict(), 'FILE.pt') writes a file "
        "that deploy/import converts to tables";
    static const char any_pickle[] =
        "pickles are not supported; save an array with numpy.save('FILE.npy', x), or for "
        "deploy/import a DataFrame with df.to_parquet('FILE.parquet') or a state dict with "
        "torch.save(x, 'FILE.pt')";
    static const char not_read[] =
        "this format is not supported; save the tensors as .npy or .safetensors";
    static const char upper_case[] = "the suffix must be in lower case";
    static const char compressed[] = "compressed files are not supported; decompress the file";
    static const struct {
        const char *suffix, *reason;
    } known[] = {
        { ".npz", imported },       { ".csv", imported },
        { ".tsv", imported },       { ".csv.gz", imported },
        { ".tsv.gz", imported },    { ".parquet", imported },
        { ".pq", imported },        { ".jsonl", imported },
        { ".ndjson", imported },    { ".jsonl.gz", imported },
        { ".ndjson.gz", imported }, { ".vec", imported },
        { ".vec.gz", imported },    { ".ipc", imported },
        { ".pt", pickled },         { ".pth", pickled },
        { ".bin", pickled },        { ".ckpt", checkpoint },
        { ".pkl", any_pickle },     { ".pickle", any_pickle },
        { ".npy", upper_case },     { ".safetensors", upper_case },
        { ".tensord", upper_case }, { ".program.json", upper_case },
        { ".h5", not_read },        { ".hdf5", not_read },
        { ".onnx", not_read },      { ".gguf", not_read },
        { ".arrow", imported },     { ".feather", imported },
        { ".mat", not_read },       { ".msgpack", not_read },
        { ".pb", not_read },        { ".tflite", not_read },
        { ".gz", compressed },      { ".zst", compressed },
        { ".zip", compressed },
    };
    const size_t length = strlen(name);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const size_t cut = strlen(known[i].suffix);
        if (length > cut && strcasecmp(name + length - cut, known[i].suffix) == 0)
            return known[i].reason;
    }
    return NULL;
}

void td_scan_report_file(struct td_scan_report *report, const char *file)
{
    const enum td_log_level level = report->unpersisted > 0 ? TD_LOG_WARN : TD_LOG_INFO;
    if (report->added + report->replaced + report->removed > 0 &&
        take_line(report, &report->change_lines, level))
        td_log(report->log, level, "tables_changed", TD_TEXT("file", file),
               TD_COUNT("added", report->added), TD_COUNT("replaced", report->replaced),
               TD_COUNT("removed", report->removed), TD_COUNT("unpersisted", report->unpersisted));
    report->total_added += report->added;
    report->total_replaced += report->replaced;
    report->total_removed += report->removed;
    report->added = report->replaced = report->removed = report->unpersisted = 0;
}

void td_scan_report_end(const struct td_scan_report *report)
{
    if (!report->log)
        return;
    td_log(report->log, TD_LOG_INFO, "data_dir_scanned", TD_INT("added", report->total_added),
           TD_INT("replaced", report->total_replaced), TD_INT("removed", report->total_removed),
           TD_INT("unchanged", report->unchanged), TD_INT("skipped", report->skipped),
           TD_INT("ignored", report->ignored), TD_COUNT("not_logged", report->not_logged),
           TD_MS("scan_ms", td_now_ns() - report->begun_ns));
}
