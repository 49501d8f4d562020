/* The report of --check-config. */
#include "server/check/check.h"
#include "server/config/load.h"
#include "server/http/listener.h"
#include "tests/server/folder.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct report {
    bool starts;
    char *text;
};

/* Checks the options, which win over those of the environment; the caller frees the text. */
static struct report check_options(const char *first, const char *second)
{
    char dir[100], message[TD_CONFIG_MESSAGE];
    char *arguments[] = { (char *)(uintptr_t) "tensord", (char *)(uintptr_t)first,
                          (char *)(uintptr_t)second };
    char *environment[] = { (char *)(uintptr_t) "TENSORD_LISTEN=127.0.0.1:0", dir, NULL };
    const int n = second ? 3 : first ? 2 : 1;
    struct td_config config;
    struct report report = { 0 };
    size_t size;
    snprintf(dir, sizeof dir, "TENSORD_DATA_DIR=%s", folder);
    ck_assert_msg(td_config_load(&config, n, arguments, environment, message) == TD_CONFIG_RUN,
                  "%s", message);
    FILE *out = open_memstream(&report.text, &size);
    report.starts = td_check_start(&config, NULL, &store_log, out);
    fclose(out);
    td_config_free(&config);
    return report;
}

/* Checks that the report has these lines, in any order. A line may be cut: "ok       table.npy:
 * ". */
static void expect(struct report report, bool starts, const char *const *lines)
{
    ck_assert_msg(report.starts == starts, "%s", report.text);
    for (; *lines; lines++) {
        const char *at = strstr(report.text, *lines);
        ck_assert_msg(at && (at == report.text || at[-1] == '\n'), "no '%s' in\n%s", *lines,
                      report.text);
    }
    free(report.text);
}

#define LINES(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* ---- addresses ------------------------------------------------------------------------------- */

TD_TEST(an_address_that_is_free_can_be_bound)
{
    expect(check_options("--metrics-listen=127.0.0.1:0", NULL), true,
           LINES("ok       listen 127.0.0.1:0: can be bound\n",
                 "ok       metrics-listen 127.0.0.1:0: can be bound\n"));
}

TD_TEST(an_address_in_use_is_an_error)
{
    static const char *const options[] = { "--listen", "--metrics-listen" };
    const char *why;
    struct td_listener_address bound;
    const int fd = td_listener_open("127.0.0.1:0", &why);
    ck_assert(td_listener_find(fd, &bound, &why));
    const unsigned port =
        ntohs(((const struct sockaddr_in *)(const void *)&bound.address)->sin_port);
    for (size_t i = 0; i < COUNT_OF(options); i++) {
        char option[64], line[200];
        snprintf(option, sizeof option, "%s=127.0.0.1:%u", options[i], port);
        snprintf(line, sizeof line,
                 "error    %s 127.0.0.1:%u: Address already in use; if a running daemon uses "
                 "it, check with %s 127.0.0.1:0 instead\n",
                 options[i] + 2, port, options[i]);
        expect(check_options(option, NULL), false, LINES(line));
    }
    close(fd);
}

TD_TEST(two_addresses_on_one_port_exclude_each_other)
{
    static const char *const second[] = { "127.0.0.1", "0.0.0.0" };
    const char *why;
    struct td_listener_address bound;
    const int fd = td_listener_open("127.0.0.1:0", &why);
    ck_assert(td_listener_find(fd, &bound, &why));
    close(fd);
    const unsigned port =
        ntohs(((const struct sockaddr_in *)(const void *)&bound.address)->sin_port);
    for (size_t i = 0; i < COUNT_OF(second); i++) {
        char first_option[64], second_option[64], line[100];
        snprintf(first_option, sizeof first_option, "--listen=127.0.0.1:%u", port);
        snprintf(second_option, sizeof second_option, "--metrics-listen=%s:%u", second[i], port);
        snprintf(line, sizeof line,
                 "error    metrics-listen %s:%u: Address already in use, possibly by another ",
                 second[i], port);
        expect(check_options(first_option, second_option), false, LINES(line));
    }
}

TD_TEST(each_address_has_a_line)
{
    expect(check_options("--listen=127.0.0.1:0,0.0.0.0:0", "--listen=192.0.2.1:80"), false,
           LINES("ok       listen 127.0.0.1:0: can be bound\n",
                 "warning  listen 0.0.0.0:0: can be bound, but without --token-file ",
                 "error    listen 192.0.2.1:80: Cannot assign requested address; no "
                 "interface of this machine has that address. Use 0.0.0.0 or [::] for all\n"));
}

TD_TEST(an_address_that_another_one_includes_is_an_error)
{
    const char *why;
    struct td_listener_address bound;
    char option[64], line[100];
    const int fd = td_listener_open("127.0.0.1:0", &why);
    ck_assert(td_listener_find(fd, &bound, &why));
    close(fd);
    const unsigned port =
        ntohs(((const struct sockaddr_in *)(const void *)&bound.address)->sin_port);
    snprintf(option, sizeof option, "--listen=0.0.0.0:%u,127.0.0.1:%u", port, port);
    snprintf(line, sizeof line, "error    listen 127.0.0.1:%u: Address already in use, possibly",
             port);
    expect(check_options(option, NULL), false, LINES(line));
}

TD_TEST(an_address_of_another_machine_is_an_error)
{
    expect(check_options("--listen=192.0.2.1:80", NULL), false,
           LINES("error    listen 192.0.2.1:80: Cannot assign requested address; no "
                 "interface of this machine has that address. Use 0.0.0.0 or [::] for all\n"));
}

/* ---- open files and connections -------------------------------------------------------------- */

TD_TEST(too_few_open_files_are_an_error_and_few_a_warning)
{
    static const struct {
        rlim_t files;
        bool starts;
        const char *line;
    } rows[] = {
        { 4000, true, "ok       connection-limit 2000: this number of connections is possible\n" },
        { 1000, true, "warning  connection-limit 2000: " },
        { 100, false, "error    open files: the limit is 100, but " },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct rlimit files = { .rlim_cur = rows[i].files, .rlim_max = rows[i].files };
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
        expect(check_options("--connection-limit=2000", NULL), rows[i].starts, LINES(rows[i].line));
    }
}

/* ---- the data folder ------------------------------------------------------------------------- */

TD_TEST(files_are_taken_skipped_or_ignored_with_the_reason)
{
    put_npy("table.npy", 0, 4);
    put_safetensors("model.safetensors", TWO_TENSORS, 0, 6);
    put_text("empty.npy", "");
    put_text("bad.npy", "no table at all");
    put_npy("sp ace.npy", 0, 1);
    put_npy("keyed.npy", 0, 2);
    put_keys_npy("keyed.keys.npy", (const int64_t[]){ 7, 8 }, 2);
    put_npy("short.npy", 0, 2);
    put_keys_npy("short.keys.npy", (const int64_t[]){ 7 }, 1);
    put_keys_npy("lone.keys.npy", (const int64_t[]){ 7 }, 1);
    put_text("score.program.json", "{\"inputs\":{\"x\":{\"dtype\":\"float32\",\"shape\":[2]}},"
                                   "\"steps\":[{\"op\":\"exp\",\"x\":\"$x\",\"as\":\"y\"}],"
                                   "\"outputs\":[\"y\"]}");
    put_text("broken.program.json", "[]");
    put_npy("score.program.npy", 0, 2);
    put_text("t.npz", "");
    put_text("notes.txt", "");
    put_text("two\nlines.txt", "");
    put_text(".hidden.npy", "");
    put_text("aliases.json", "{\"aliases\": {}}");
    ck_assert_int_eq(mkdir(path_of("20261122"), 0700), 0);
    put_text("20261122/manifest.json", "{}");
    expect(
        check_options(NULL, NULL), true,
        LINES("ok       keyed.npy: 1 tensor\n", "ok       keyed.keys.npy: the keys of keyed.npy\n",
              "warning  short.npy: skipped: short.keys.npy: there are 1 keys, but 'short' has 2 ",
              "warning  lone.keys.npy: skipped: its name says that it holds the keys of lone.npy, ",
              "ok       table.npy: 1 tensor\n", "ok       model.safetensors: 2 tensors\n",
              "warning  empty.npy: skipped: it is empty or not a regular file\n",
              "warning  bad.npy: skipped: not a .npy file: ",
              "warning  sp ace.npy: tensor sp ace is skipped: ",
              "ok       score.program.json: a program\n", "warning  broken.program.json: skipped: ",
              "warning  score.program.npy: tensor score.program is skipped: 'score.program' is the "
              "name of the program 'score'",
              "ok       notes.txt: ignored; ",
              "warning  t.npz: skipped: this format is not supported; use deploy/import "
              "to convert it to tables\n",
              "ok       two?lines.txt: ignored; "));
    struct report report = check_options(NULL, NULL);
    ck_assert_ptr_null(strstr(report.text, "hidden"));
    ck_assert_ptr_null(strstr(report.text, "sp ace.npy: 0"));
    ck_assert_ptr_null(strstr(report.text, "aliases.json: ignored"));
    ck_assert_ptr_null(strstr(report.text, "20261122: ignored"));
    free(report.text);
}

TD_TEST(the_reasons_are_those_of_the_log)
{
    char expected[300];
    put_text("empty.npy", "");
    put_text("bad.npy", "no table at all");
    put_text("short.safetensors", "\x01");
    put_text("own.tensord", "\x02");
    put_npy("sp ace.npy", 0, 1);
    struct report report = check_options(NULL, NULL);
    ck_assert_str_eq(logged(), "");
    td_store_free(open_folder());
    const char *line = logged();
    int n = 0;
    for (; (line = strstr(line, "reason=")); n++) { /* a reason has spaces, so it is quoted */
        const char *begin = line + strlen("reason=\"");
        snprintf(expected, sizeof expected, ": %.*s", (int)strcspn(begin, "\"\\"), begin);
        ck_assert_msg(strstr(report.text, expected) != NULL, "no '%s' in\n%s", expected,
                      report.text);
        line = begin;
    }
    ck_assert_int_eq(n, 5);
    free(report.text);
}

/* Makes t.tensord. */
static void persist_t(void)
{
    struct td_store *store = open_folder();
    const struct td_store_write write = { .name = "t", .persist = true };
    const struct td_tensor t = tensor("int32[2] 1 2");
    struct td_tensor_listing listing;
    struct td_error err;
    bool created;
    ck_assert_int_eq(td_store_put(store, &write, &t, &test_arena, &listing, &created, &err), TD_OK);
    td_store_free(store);
}

TD_TEST(a_tensor_that_another_file_hides_is_skipped)
{
    persist_t();
    put_npy("t.npy", 0, 4);
    expect(
        check_options("--verify=start", NULL), true,
        LINES(
            "ok       t.tensord: 1 tensor\n",
            "warning  t.npy: tensor t is skipped: t.tensord "
            "takes precedence and contains a tensor of this name; to serve this tensor, move that "
            "file away and send SIGHUP\n"));
}

TD_TEST(a_tensor_whose_bytes_do_not_match_its_checksums_is_a_warning)
{
    persist_t();
    FILE *file = fopen(path_of("t.tensord"), "r+b");
    ck_assert(file && fseek(file, -1, SEEK_END) == 0 && fputc('!', file) == '!');
    ck_assert_int_eq(fclose(file), 0);
    struct report report = check_options("--verify=start", NULL);
    ck_assert_ptr_null(strstr(report.text, "ok       t.tensord"));
    ck_assert_ptr_nonnull(strstr(report.text,
                                 "warning  t.tensord: tensor t is skipped: its bytes do "
                                 "not match their checksums; restore the file from a "
                                 "backup\n"));
    free(report.text);
}

static bool says(struct report report, const char *part)
{
    const bool found = strstr(report.text, part) != NULL;
    free(report.text);
    return found;
}

TD_TEST(damaged_aliases_are_a_warning_that_names_what_becomes_of_the_daemon)
{
    put_text("aliases.json", "{\"aliases\": ");
    expect(check_options(NULL, NULL), true,
           LINES("warning  aliases.json: skipped: ",
                 "warning  aliases.json: cannot be read. A daemon would start but not become ready "
                 "(/readyz is 503). Repair the file, or restore it from a backup, and send "
                 "SIGHUP\n"));
    put_text("aliases.json", "{\"aliases\": {}}");
    ck_assert(!says(check_options(NULL, NULL), "not become ready"));
}

TD_TEST(a_disk_quota_that_the_files_exceed_is_a_warning)
{
    put_text("a.tensord", "0123456789");
    put_text("b.tensord", "0123456789");
    put_text("c.npy", "does not count");
    expect(check_options("--disk-quota=19", NULL), true,
           LINES("warning  disk-quota 19: the .tensord and .program.json files in the data folder "
                 "have 20 bytes. "));
    ck_assert(!says(check_options("--disk-quota=20", NULL), "disk-quota"));
    ck_assert(!says(check_options("--disk-quota=0", NULL), "disk-quota"));
    ck_assert(!says(check_options("--disk-quota=19", "--read-only"), "disk-quota"));
}

/* The names in the folder; there are few. */
static int count_files(void)
{
    DIR *dir = opendir(folder);
    int n = 0;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

TD_TEST(an_alias_by_hand_that_a_folder_sets_again_is_a_warning)
{
    put_version("1", "m.npy", 0, "\"aliases\":{\"x\":\"m@1\"}");
    put_version("2", "m.npy", 0, "\"aliases\":{\"x\":\"m@2\"}");
    put_text("aliases.json", "{\"aliases\": {\"x\": \"m@1\"}}");
    expect(check_options(NULL, NULL), true,
           LINES("warning  aliases.json: skipped: its alias 'x' names m@1, but the folder 2, which "
                 "\"taken\" does not list, sets it to m@2\n"));
}

TD_TEST(nothing_in_the_folder_is_changed)
{
    char line[200];
    snprintf(line, sizeof line, "ok       data-dir %s: can be read and changed\n", folder);
    put_npy("table.npy", 0, 4);
    put_text(".tensord-tmp-1-1", "left by a crash");
    const int before = count_files();
    expect(check_options(NULL, NULL), true, LINES(line));
    ck_assert_int_eq(count_files(), before);
    ck_assert_int_eq(access(path_of(".tensord-tmp-1-1"), F_OK), 0);
    ck_assert_int_ne(access(path_of(".tensord.lock"), F_OK), 0);
}

TD_TEST(a_folder_that_a_daemon_has_locked_is_a_warning_with_its_process)
{
    char line[300];
    struct td_store *store = open_folder();
    snprintf(line, sizeof line, "warning  data-dir %s: can be read; locked by process %ld", folder,
             (long)getpid());
    expect(check_options(NULL, NULL), true, LINES(line));
    ck_assert(!td_store_is_locked_out(store)); /* it still has the lock */
    td_store_free(store);
    snprintf(line, sizeof line, "ok       data-dir %s: can be read and changed\n", folder);
    expect(check_options(NULL, NULL), true, LINES(line));
}

TD_TEST(a_folder_that_cannot_be_changed_is_a_warning_if_a_disk_quota_is_set)
{
    static const struct {
        const char *option, *level;
    } rows[] = { { NULL, "ok      " }, { "--disk-quota=1M", "warning " } };
    enum { NOBODY = 65534 };
    ck_assert_int_eq(chmod(folder, 0555), 0);
    const bool privileged = geteuid() == 0 && seteuid(NOBODY) == 0;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char line[200];
        snprintf(line, sizeof line,
                 "%s data-dir %s: can be read, but not changed by persist=1: Permission denied\n",
                 rows[i].level, folder);
        expect(check_options(rows[i].option, NULL), true, LINES(line));
    }
    if (privileged)
        ck_assert_int_eq(seteuid(0), 0);
    ck_assert_int_eq(chmod(folder, 0755), 0);
}

TD_TEST(a_folder_that_is_none_is_an_error)
{
    char option[300], line[300];
    put_text("file", "");
    snprintf(option, sizeof option, "--data-dir=%s", path_of("file"));
    snprintf(line, sizeof line, "error    data-dir %s: Not a directory\n", path_of("file"));
    expect(check_options(option, NULL), false, LINES(line));
    expect(check_options("--data-dir=/no/such/folder", NULL), false,
           LINES("ok       listen 127.0.0.1:0: can be bound\n",
                 "error    data-dir /no/such/folder: No such file or directory\n"));
}

TD_FIXTURE(folder_open, folder_close);
