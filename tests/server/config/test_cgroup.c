#include "server/config/cgroup.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <sys/stat.h>

#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The folder that stands for the system in a test. */
static char root[] = "/tmp/tensord-test-cgroup-XXXXXX";

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status, (void)type, (void)walk;
    return remove(path);
}

static void root_open(void)
{
    ck_assert_ptr_nonnull(mkdtemp(root));
}

static void root_close(void)
{
    nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    strcpy(root + strlen(root) - 6, "XXXXXX");
}

static void write_bytes(const char *path, const char *bytes, size_t length)
{
    char full[PATH_MAX];
    ck_assert_int_lt(snprintf(full, sizeof full, "%s%s", root, path), sizeof full);
    for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = '\0';
        mkdir(full, 0755);
    }
    FILE *file = fopen(full, "w");
    ck_assert_msg(file != NULL, "%s", full);
    ck_assert_uint_eq(fwrite(bytes, 1, length, file), length);
    ck_assert_int_eq(fclose(file), 0);
}

static void write_text(const char *path, const char *text)
{
    write_bytes(path, text, strlen(text));
}

static void check_limits(const char *says, int64_t cpus, int64_t memory_bytes)
{
    const struct td_cgroup_limits limits = td_cgroup_limits_read(root);
    ck_assert_msg(limits.cpus == cpus && limits.memory_bytes == memory_bytes,
                  "%s: %jd CPUs, %jd bytes", says, (intmax_t)limits.cpus,
                  (intmax_t)limits.memory_bytes);
}

#define MOUNT(number, top, point) number " 23 0:2" number " " top " " point " rw,nosuid "

#define V2_AT(top) MOUNT("31", top, "/cg") "shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V2         V2_AT("/")
#define V1_CPU_AT(top)                                                                             \
    MOUNT("32", top, "/cg/cpu,cpuacct") "shared:9 master:1 - cgroup cgroup rw,cpu,cpuacct\n"
#define V1_MEMORY_AT(top) MOUNT("33", top, "/cg/memory") "- cgroup cgroup rw,memory\n"
#define V1                V1_CPU_AT("/") V1_MEMORY_AT("/")
#define DISK              "25 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"

#define MAX_FILES 6

static const struct {
    const char *says, *cgroup, *mountinfo;
    const char *files[2 * MAX_FILES]; /* path, content, path, content, ... */
    int64_t cpus, memory_bytes;
} trees[] = {
    { "no files at all", NULL, NULL, LIST(NULL), 0, 0 },
    { "no mount", "0::/a\n", DISK, LIST("/cg/a/memory.max", "4096\n"), 0, 0 },
    { "no group in the file", "", V2, LIST("/cg/memory.max", "4096\n"), 0, 0 },
    { "the group has no files", "0::/a\n", V2, LIST(NULL), 0, 0 },

    /* Version 2. */
    { "max is no limit", "0::/a\n", V2,
      LIST("/cg/a/cpu.max", "max 100000\n", "/cg/a/memory.max", "max\n"), 0, 0 },
    { "quota and period make CPUs", "0::/a\n", DISK V2,
      LIST("/cg/a/cpu.max", "200000 100000\n", "/cg/a/memory.max", "1073741824\n"), 2, 1 << 30 },
    { "a fraction of a CPU is rounded up", "0::/a\n", V2, LIST("/cg/a/cpu.max", "150000 100000\n"),
      2, 0 },
    { "less than a CPU is one", "0::/a\n", V2, LIST("/cg/a/cpu.max", "1000 100000\n"), 1, 0 },
    { "memory.high below memory.max counts", "0::/a\n", V2,
      LIST("/cg/a/memory.max", "8192\n", "/cg/a/memory.high", "4096\n"), 0, 4096 },
    { "memory.max below memory.high counts", "0::/a\n", V2,
      LIST("/cg/a/memory.max", "4096\n", "/cg/a/memory.high", "8192\n"), 0, 4096 },
    { "a group above has a lower limit", "0::/a/b/c\n", V2,
      LIST("/cg/a/cpu.max", "300000 100000\n", "/cg/a/b/c/cpu.max", "400000 100000\n",
           "/cg/a/b/memory.max", "4096\n", "/cg/a/b/c/memory.max", "8192\n"),
      3, 4096 },
    { "the least of the nested limits is that of the group", "0::/a/b\n", V2,
      LIST("/cg/a/cpu.max", "400000 100000\n", "/cg/a/b/cpu.max", "300000 100000\n"), 3, 0 },
    { "periods may differ", "0::/a/b\n", V2,
      LIST("/cg/a/cpu.max", "20000 10000\n", "/cg/a/b/cpu.max", "1000000 1000000\n"), 1, 0 },
    { "another group has no say", "0::/a/b\n", V2,
      LIST("/cg/a/c/memory.max", "4096\n", "/cg/ab/memory.max", "4096\n"), 0, 0 },
    { "a colon in a name", "0::/a:b/c\n", V2, LIST("/cg/a:b/memory.max", "4096\n"), 0, 4096 },
    { "a space in the mount point", "0::/a\n", "31 23 0:28 / /c\\040g rw - cgroup2 none rw\n",
      LIST("/c g/a/memory.max", "4096\n"), 0, 4096 },

    /* Version 1. */
    { "-1 and almost 2^63 are no limits of a machine", "4:memory:/a\n3:cpu,cpuacct:/a\n", V1,
      LIST("/cg/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n", "/cg/cpu,cpuacct/a/cpu.cfs_period_us",
           "100000\n", "/cg/memory/a/memory.limit_in_bytes", "9223372036854771712\n"),
      0, 9223372036854771712 },
    { "each controller has its own group", "4:memory:/m\n3:cpu,cpuacct:/c\n", V1,
      LIST("/cg/cpu,cpuacct/c/cpu.cfs_quota_us", "250000\n", "/cg/cpu,cpuacct/c/cpu.cfs_period_us",
           "100000\n", "/cg/memory/m/memory.limit_in_bytes", "4096\n",
           "/cg/memory/c/memory.limit_in_bytes", "1024\n"),
      3, 4096 },
    { "limits of version 1 nest", "4:memory:/a/b\n", V1,
      LIST("/cg/memory/memory.limit_in_bytes", "8192\n", "/cg/memory/a/memory.limit_in_bytes",
           "4096\n", "/cg/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"),
      0, 4096 },
    { "cpuset and cpuacct are not cpu", "3:cpuset:/a\n2:cpuacct:/a\n", V1,
      LIST("/cg/cpu,cpuacct/a/cpu.cfs_quota_us", "100000\n", "/cg/cpu,cpuacct/a/cpu.cfs_period_us",
           "100000\n"),
      0, 0 },
    { "a named hierarchy is not version 2", "1:name=systemd:/a\n", V2,
      LIST("/cg/a/memory.max", "4096\n"), 0, 0 },

    /* Both. */
    { "hybrid: CPUs of version 1, memory of version 2", "3:cpu,cpuacct:/a\n0::/b\n", V1 V2,
      LIST("/cg/cpu,cpuacct/a/cpu.cfs_quota_us", "100000\n", "/cg/cpu,cpuacct/a/cpu.cfs_period_us",
           "100000\n", "/cg/b/memory.max", "4096\n"),
      1, 4096 },

    /* Mounts that show a part of the hierarchy. */
    { "a namespace: the group is the top of the mount", "0::/\n", V2,
      LIST("/cg/cpu.max", "200000 100000\n", "/cg/memory.max", "4096\n"), 2, 4096 },
    { "a group below the top of the namespace", "0::/a\n", V2,
      LIST("/cg/a/cpu.max", "200000 100000\n", "/cg/memory.max", "4096\n"), 2, 4096 },
    { "a container without namespace: the mount starts at its group", "4:memory:/docker/1\n",
      V1_MEMORY_AT("/docker/1"), LIST("/cg/memory/memory.limit_in_bytes", "4096\n"), 0, 4096 },
    { "and the group is below it", "4:memory:/docker/1/a\n", V1_MEMORY_AT("/docker/1"),
      LIST("/cg/memory/a/memory.limit_in_bytes", "4096\n"), 0, 4096 },
    { "the mount of another group whose name is a prefix", "0::/docker/12\n",
      V2_AT("/docker/1") MOUNT("34", "/docker/12", "/own") "- cgroup2 none rw\n",
      LIST("/cg/memory.max", "4096\n", "/own/memory.max", "8192\n"), 0, 8192 },
    { "outside of the namespace: the limits at the mount", "0::/../..\n", V2,
      LIST("/cg/memory.max", "4096\n"), 0, 4096 },
    { "beside the namespace: the limits at the mount", "0::/../other/a\n", V2,
      LIST("/cg/memory.max", "4096\n", "/other/a/memory.max", "1024\n"), 0, 4096 },
    { "the mount is that of groups above the namespace", "0::/../../b\n", V2_AT("/../.."),
      LIST("/cg/b/memory.max", "4096\n"), 0, 4096 },
    { "a group may have two dots in its name", "0::/..a/b..\n", V2,
      LIST("/cg/..a/b../memory.max", "4096\n"), 0, 4096 },

    /* Contents that no kernel writes. */
    { "a number of more than 63 bits is none", "0::/a\n", V2,
      LIST("/cg/a/cpu.max", "99999999999999999999 100000\n", "/cg/a/memory.max",
           "9223372036854775808\n"),
      0, 0 },
    { "the greatest number", "0::/a\n", V2,
      LIST("/cg/a/cpu.max", "9223372036854775807 1\n", "/cg/a/memory.max", "9223372036854775807\n"),
      INT64_MAX, INT64_MAX },
    { "no division by zero", "0::/a\n", V2, LIST("/cg/a/cpu.max", "100000 0\n"), 0, 0 },
    { "a quota without a period", "0::/a\n", V2, LIST("/cg/a/cpu.max", "100000\n"), 0, 0 },
    { "zero, signs, words and hexadecimal are no limits", "0::/a/b/c\n", V2,
      LIST("/cg/a/memory.max", "0\n", "/cg/a/b/memory.max", "-4096\n", "/cg/a/b/c/memory.max",
           "0x1000\n", "/cg/a/memory.high", "+4096\n", "/cg/a/b/memory.high", "4096k\n",
           "/cg/a/b/c/memory.high", ""),
      0, 0 },
    { "incomplete lines are skipped", "\n0\n0:\n0::\n0::a\n0::/a\n",
      "\n31\n31 23 0:28 / /cg rw -\n31 23 0:28 / /cg rw - cgroup2\n31 23 0:28 / /cg\n" V2,
      LIST("/cg/a/memory.max", "4096\n"), 0, 4096 },
};

TD_TEST_EACH(the_least_limit_of_all_groups_wins, trees)
{
    if (trees[_i].cgroup)
        write_text("/proc/self/cgroup", trees[_i].cgroup);
    if (trees[_i].mountinfo)
        write_text("/proc/self/mountinfo", trees[_i].mountinfo);
    const char *const *files = trees[_i].files;
    for (int i = 0; i < 2 * MAX_FILES && files[i]; i += 2)
        write_text(files[i], files[i + 1]);
    check_limits(trees[_i].says, trees[_i].cpus, trees[_i].memory_bytes);
}

TD_TEST(text_with_a_nul_is_no_limit)
{
    write_bytes("/proc/self/cgroup", "0::/\0a\n0::/a\n", 13);
    write_text("/proc/self/mountinfo", V2);
    write_bytes("/cg/a/memory.max", "4096\0\n", 6);
    write_bytes("/cg/memory.max", "8192\n", 5);
    check_limits("NUL", 0, 8192);
}

/* `length` times the byte `fill` between two texts. */
static void write_long(const char *path, const char *before, char fill, size_t length,
                       const char *after)
{
    char *text = malloc(strlen(before) + length + strlen(after) + 1);
    ck_assert_ptr_nonnull(text);
    strcpy(text, before);
    memset(text + strlen(before), fill, length);
    strcpy(text + strlen(before) + length, after);
    write_text(path, text);
    free(text);
}

TD_TEST(long_lines_are_skipped)
{
    write_long("/proc/self/cgroup", "0::/", 'a', 1 << 20, "\n0::/b\n");
    write_long("/proc/self/mountinfo", "31 23 0:28 / /", 'a', 1 << 20,
               " rw - cgroup2 none rw\n" V2);
    write_long("/cg/b/memory.max", "", '1', 1 << 20, "\n");
    write_text("/cg/memory.max", "4096\n");
    check_limits("long lines", 0, 4096);
}

TD_TEST(a_long_group_below_a_long_mount_point_is_no_limit)
{
    write_long("/proc/self/cgroup", "0::/", 'a', PATH_MAX - 100, "\n");
    write_text("/proc/self/mountinfo", V2);
    write_text("/cg/memory.max", "4096\n");
    check_limits("fits", 0, 4096);
    write_long("/proc/self/mountinfo", "31 23 0:28 / /", 'a', 200, " rw - cgroup2 none rw\n");
    check_limits("too long", 0, 0);
}

TD_TEST(the_system_itself_can_be_read)
{
    const struct td_cgroup_limits limits = td_cgroup_limits_read("");
    ck_assert_int_ge(limits.cpus, 0);
    ck_assert_int_ge(limits.memory_bytes, 0);
}

TD_FIXTURE(root_open, root_close);
