#include "server/store/aliases/aliases.h"
#include "server/store/scan/scan_report.h"
#include "tests/server/one_store.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <sys/stat.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Fails unless the lines have this text, once. */
static void expect_once(const char *lines, const char *wanted)
{
    const char *first = strstr(lines, wanted);
    ck_assert_msg(first != NULL, "no '%s' in:\n%s", wanted, lines);
    ck_assert_msg(strstr(first + 1, wanted) == NULL, "several '%s' in:\n%s", wanted, lines);
}

static int count_of(const char *lines, const char *wanted)
{
    int n = 0;
    for (const char *at = lines; (at = strstr(at, wanted)); at++)
        n++;
    return n;
}

/* ---- scans ----------------------------------------------------------------------------------- */

TD_TEST(a_start_reports_what_it_found)
{
    put_npy("a.npy", 1, 4);
    put_safetensors("m.safetensors", TWO_TENSORS, 1, 6);
    put_text("bad.npy", "no");
    put_text("notes.txt", "x");
    put_text(".hidden", "x");
    store = open_folder();
    const char *lines = logged_with_scans();
    expect_once(lines, " info tables_changed file=a.npy added=1\n");
    expect_once(lines, " info tables_changed file=m.safetensors added=2\n");
    expect_once(lines, " warn table_skipped file=bad.npy reason=");
    expect_once(lines, " info data_dir_scanned added=3 replaced=0 removed=0 unchanged=0 skipped=1 "
                       "ignored=1 scan_ms=");
    ck_assert_ptr_null(strstr(lines, "notes.txt"));
    ck_assert_ptr_null(strstr(lines, ".hidden"));
}

TD_TEST(a_rescan_warns_of_what_was_in_memory_alone)
{
    put_npy("a.npy", 1, 4);
    store = open_folder();
    struct td_error err;
    const struct td_tensor mine = tensor("int32[1] 7");
    ck_assert_int_eq(put_tensor(store, "a", &mine, false, &err), TD_OK);
    ck_assert_int_eq(put_tensor(store, "b", &mine, false, &err), TD_OK);
    unlink(path_of("a.npy"));
    put_npy("a.npy", 2, 4);
    put_npy("b.npy", 2, 4);
    (void)logged();
    td_store_rescan(store);
    const char *lines = logged_with_scans();
    expect_once(lines, " warn tables_changed file=a.npy replaced=1 unpersisted=1\n");
    expect_once(lines, " warn tables_changed file=b.npy replaced=1 unpersisted=1\n");
}

TD_TEST(a_file_that_is_gone_below_changes_in_memory_is_told)
{
    struct td_error err;
    const struct td_tensor mine = tensor("int32[1] 7");
    put_npy("a.npy", 1, 4);
    store = open_folder();
    ck_assert_int_eq(put_tensor(store, "a", &mine, false, &err), TD_OK);
    unlink(path_of("a.npy"));
    (void)logged();
    td_store_rescan(store);
    expect_once(logged_with_scans(),
                " warn table_skipped file=a.npy tensor=a reason=\"the file no longer exists, ");
    expect_names(store, "a");
    td_store_rescan(store);
    ck_assert_int_eq(count_of(logged_with_scans(), "table_skipped"), 0);
}

TD_TEST(a_rescan_reports_each_change)
{
    put_npy("same.npy", 1, 4);
    put_npy("other.npy", 1, 4);
    put_npy("gone.npy", 1, 4);
    put_safetensors("m.safetensors", TWO_TENSORS, 1, 6);
    store = open_folder();
    (void)logged();
    unlink(path_of("gone.npy"));
    unlink(path_of("other.npy"));
    put_npy("other.npy", 5, 5);
    put_npy("new.npy", 1, 4);
    unlink(path_of("m.safetensors"));
    put_safetensors("m.safetensors",
                    "{\"w\":{\"dtype\":\"I32\",\"shape\":[4],\"data_offsets\":[0,16]},"
                    "\"c\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[16,24]}}",
                    1, 6);
    td_store_rescan(store);
    const char *lines = logged_with_scans();
    expect_once(lines, " info tables_changed file=gone.npy removed=1\n");
    expect_once(lines, " info tables_changed file=other.npy replaced=1\n");
    expect_once(lines, " info tables_changed file=new.npy added=1\n");
    expect_once(lines, " info tables_changed file=m.safetensors added=1 replaced=1 removed=1\n");
    expect_once(lines, " data_dir_scanned added=2 replaced=2 removed=2 unchanged=1 skipped=0 "
                       "ignored=0 scan_ms=");
    ck_assert_int_eq(count_of(lines, "\n"), 5);
    td_store_rescan(store);
    lines = logged_with_scans();
    ck_assert_int_eq(count_of(lines, "\n"), 1);
    expect_once(lines, " added=0 replaced=0 removed=0 unchanged=5 skipped=0 ");
}

TD_TEST(each_scan_counts_and_names_all_that_is_skipped_now)
{
    put_npy("a.npy", 1, 4);
    put_npy("m:w.npy", 5, 4);
    put_text("bad.npy", "x");
    store = open_folder();
    expect_once(logged_with_scans(), " added=2 replaced=0 removed=0 unchanged=0 skipped=1 ");
    put_safetensors("m.safetensors",
                    "{\"w\":{\"dtype\":\"I32\",\"shape\":[4],\"data_offsets\":[0,16]},"
                    "\"f\":{\"dtype\":\"F8_E4M3\",\"shape\":[8],\"data_offsets\":[16,24]}}",
                    1, 6);
    td_store_rescan(store);
    expect_once(logged_with_scans(), " added=0 replaced=1 removed=0 unchanged=1 skipped=3 ");
    for (int i = 0; i < 2; i++) {
        td_store_rescan(store);
        const char *lines = logged_with_scans();
        expect_once(lines, " added=0 replaced=0 removed=0 unchanged=2 skipped=3 ");
        expect_once(lines, " table_skipped file=bad.npy ");
        expect_once(lines, " file=m.safetensors tensor=m:f reason=");
        expect_once(lines, " file=m:w.npy tensor=m:w reason=\"m.safetensors takes precedence");
    }
    unlink(path_of("m.safetensors"));
    unlink(path_of("bad.npy"));
    td_store_rescan(store);
    expect_once(logged_with_scans(), " added=1 replaced=0 removed=1 unchanged=1 skipped=0 ");
}

static void expect_problem(const char *source, const char *reason)
{
    struct td_problem_listing *list;
    struct td_error err;
    int count;
    ck_assert_int_eq(td_store_list_problems(store, &test_arena, &list, &count, &(int){ 0 }, &err),
                     TD_OK);
    ck_assert_int_eq(count, source ? 1 : 0);
    if (source) {
        ck_assert_str_eq(list[0].source, source);
        ck_assert_ptr_nonnull(strstr(list[0].reason, reason));
    }
}

static void damage(void)
{
    unlink(path_of("a.npy"));
    put_text("a.npy", "x");
    td_store_rescan(store);
}

static void replace(void)
{
    unlink(path_of("a.npy"));
    put_npy("a.npy", 1, 4);
    td_store_rescan(store);
}

static void vanish(void)
{
    unlink(path_of("a.npy"));
    td_store_rescan(store);
}

static void persist(void)
{
    const struct td_store_write write = { .name = "a", .persist = true };
    const struct td_tensor one = tensor("int32[1] 1");
    struct td_tensor_listing listing;
    struct td_error err;
    bool created;
    ck_assert_int_eq(td_store_put(store, &write, &one, &test_arena, &listing, &created, &err),
                     TD_OK);
}

static void delete (void)
{
    const struct td_store_write write = { .name = "a", .removes = true };
    struct td_error err;
    bool persisted;
    ck_assert_int_eq(td_store_delete(store, &write, &persisted, &err), TD_OK);
    ck_assert(persisted);
}

static void (*const repairs[])(void) = { replace, vanish, persist, delete };

TD_TEST_EACH(a_damaged_replacement_says_that_the_old_version_is_served_until_it_is_repaired,
             repairs)
{
    put_npy("a.npy", 1, 4);
    store = open_folder();
    (void)logged();
    damage();
    ck_assert_ptr_nonnull(
        strstr(logged(), "; the version loaded before is still served until a restart\""));
    expect_problem("a.npy", "; the version loaded before is still served");
    expect_names(store, "a");
    repairs[_i]();
    expect_problem(NULL, NULL);
}

TD_TEST(what_a_client_stored_since_is_not_replaced_and_counts_as_unchanged)
{
    put_npy("a.npy", 1, 4);
    store = open_folder();
    struct td_tensor_listing listing;
    struct td_error err;
    bool created;
    const struct td_store_write write = { .name = "a" };
    const struct td_tensor mine = tensor("int32[2] 7 8");
    (void)logged();
    ck_assert_int_eq(td_store_put(store, &write, &mine, &test_arena, &listing, &created, &err),
                     TD_OK);
    td_store_rescan(store);
    expect_once(logged_with_scans(), " added=0 replaced=0 removed=0 unchanged=1 skipped=0 ");
}

TD_TEST(entries_of_other_kinds_are_reported_with_the_reason)
{
    static const struct {
        const char *name, *line;
    } others[] = {
        { "a.npz",
          " warn table_skipped file=a.npz reason=\"this format is not supported; use deploy" },
        { "b.csv",
          " warn table_skipped file=b.csv reason=\"this format is not supported; use deploy" },
        { "b.TSV.gz",
          " warn table_skipped file=b.TSV.gz reason=\"this format is not supported; use deploy" },
        { "p.parquet",
          " warn table_skipped file=p.parquet reason=\"this format is not supported; use deploy" },
        { "c.pt", " warn table_skipped file=c.pt reason=\"pickled tensors are not supported; use" },
        { "d.NPY", " warn table_skipped file=d.NPY reason=\"the suffix must be in lower case" },
        { "e.npy.gz",
          " warn table_skipped file=e.npy.gz reason=\"compressed files are not supported" },
        { "model.BIN",
          " warn table_skipped file=model.BIN reason=\"pickled tensors are not supported" },
        { "m.ckpt", " warn table_skipped file=m.ckpt reason=\"checkpoints are not supported; " },
        { "m.pkl",
          " warn table_skipped file=m.pkl reason=\"pickles are not supported; save an array" },
        { "m.vec.gz",
          " warn table_skipped file=m.vec.gz reason=\"this format is not supported; use" },
        { "m.onnx",
          " warn table_skipped file=m.onnx reason=\"this format is not supported; save the" },
    };
    for (size_t i = 0; i < COUNT_OF(others); i++)
        put_text(others[i].name, "x");
    put_text("README.md", "x");
    put_text("config.json", "x");
    ck_assert_int_eq(mkdir(path_of("sub"), 0755), 0);
    ck_assert_int_eq(mkdir(path_of("folder.npy"), 0755), 0);
    ck_assert_int_eq(symlink("sub", path_of("link")), 0);
    ck_assert_int_eq(symlink("/nonexistent", path_of("dangling.npy")), 0);
    ck_assert_int_eq(symlink("/nonexistent", path_of("dangling")), 0);
    store = open_folder();
    const char *lines = logged_with_scans();
    for (size_t i = 0; i < COUNT_OF(others); i++)
        expect_once(lines, others[i].line);
    expect_once(lines, " info table_skipped file=sub reason=\"a folder without manifest.json, or a "
                       "link to a folder, is not read\"\n");
    expect_once(lines, " info table_skipped file=link reason=\"a folder without manifest.json, or "
                       "a link to a folder, is not read\"\n");
    expect_once(lines, " warn table_skipped file=folder.npy reason=");
    expect_once(lines, " warn table_skipped file=dangling.npy reason=");
    expect_once(lines, " unchanged=0 skipped=16 ignored=3 ");
}

TD_TEST(files_of_unknown_suffixes_are_recognised_by_their_first_bytes)
{
    static const struct {
        const char *name, *text;
        size_t bytes;
        const char *line;
    } others[] = {
        { "a", "PK\3\4....", 8,
          "file=a reason=\"it is a zip archive, such as .npz or .pt; convert it" },
        { "b.data", "PAR1", 4, "file=b.data reason=\"it is a Parquet file; convert it to a" },
        { "c.model", "\x89HDF\r\n\x1a\n", 8, "file=c.model reason=\"it is an HDF5 file; save its" },
        { "d.np", "\x93NUMPY\1", 7, "file=d.np reason=\"it is a .npy file, but its name has" },
        { "e.st", "\2\0\0\0\0\0\0\0{}", 10,
          "file=e.st reason=\"it is a .safetensors or .tensord file, but its" },
    };
    for (size_t i = 0; i < COUNT_OF(others); i++)
        put_file(others[i].name, others[i].text, others[i].bytes);
    put_text("notes", "PK");
    put_text("empty", "");
    ck_assert_int_eq(mkfifo(path_of("pipe"), 0600), 0); /* it never has a writer */
    store = open_folder();
    const char *lines = logged_with_scans();
    for (size_t i = 0; i < COUNT_OF(others); i++)
        expect_once(lines, others[i].line);
    expect_once(lines, " unchanged=0 skipped=5 ignored=3 ");
}

TD_TEST(a_tensor_file_of_another_format_is_skipped_with_its_name)
{
    put_file("a.npy", "PK\3\4....", 8);
    put_file("b.safetensors", "GGUF\3\0\0\0", 8);
    store = open_folder();
    const char *lines = logged_with_scans();
    expect_once(lines, "file=a.npy reason=\"it is a zip archive, such as .npz or .pt; convert it");
    expect_once(lines, "file=b.safetensors reason=\"it is a GGUF file; save its tensors as");
}

TD_TEST(names_of_files_cannot_forge_lines)
{
    put_text("a\n2026 info forged.npz", "x");
    put_text("\xff\"x=1.csv", "x");
    store = open_folder();
    const char *lines = logged_with_scans();
    ck_assert_int_eq(count_of(lines, "\n"), 3);
    expect_once(lines, " file=\"a\\x0a2026 info forged.npz\" ");
    expect_once(lines, " file=\"\\xff\\\"x=1.csv\" ");
}

/* ---- the report itself ----------------------------------------------------------------------- */

TD_TEST(lines_of_each_kind_are_limited_and_the_others_counted)
{
    struct td_scan_report report;
    char name[32];
    td_scan_report_begin(&report, NULL, &store_log);
    for (int i = 0; i < TD_SCAN_LINES + 20; i++) {
        snprintf(name, sizeof name, "f%d.npy", i);
        report.added++;
        td_scan_report_file(&report, name);
        td_scan_report_skip(&report, TD_LOG_WARN, name, "t", "why");
    }
    td_scan_report_end(&report);
    const char *lines = logged_with_scans();
    ck_assert_int_eq(count_of(lines, " tables_changed "), TD_SCAN_LINES);
    ck_assert_int_eq(count_of(lines, " table_skipped "), TD_SCAN_LINES);
    expect_once(lines, " added=120 replaced=0 removed=0 unchanged=0 skipped=120 ignored=0 "
                       "not_logged=40 scan_ms=");
}

TD_TEST(lines_below_the_level_use_up_nothing)
{
    struct td_scan_report report;
    struct td_log quiet = { .level = TD_LOG_WARN, .format = TD_LOG_TEXT, .fd = store_log.fd };
    td_scan_report_begin(&report, NULL, &quiet);
    for (int i = 0; i < TD_SCAN_LINES + 20; i++)
        td_scan_report_skip(&report, TD_LOG_INFO, "sub", NULL, "why");
    td_scan_report_skip(&report, TD_LOG_WARN, "a.npz", NULL, "why");
    td_scan_report_end(&report);
    expect_once(logged_with_scans(), " table_skipped file=a.npz ");
    ck_assert_int_eq(report.not_logged, 0);
    ck_assert_int_eq(report.skipped, TD_SCAN_LINES + 21);
}

TD_FIXTURE(one_store_begin, one_store_end);
