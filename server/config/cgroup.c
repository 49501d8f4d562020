#include "server/config/cgroup.h"

#include "kernels/name.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One hierarchy of control groups, and the group of this process in it. */
struct hierarchy {
    const char *root;       /* as in td_cgroup_limits_read */
    const char *controller; /* "cpu" or "memory", or "" for version 2, which has all controllers */
    char group[PATH_MAX];
};

/* A line of mountinfo. The strings point into the line. */
struct mount {
    char *group; /* group of the hierarchy that is at the mount point */
    char *point;
    const char *type;
    const char *options;
};

static FILE *open_below(const char *root, const char *path)
{
    char full[PATH_MAX];
    const int length = snprintf(full, sizeof full, "%s%s", root, path);
    return length >= 0 && (size_t)length < sizeof full ? fopen(full, "re") : NULL;
}

/* Reads the next line without its line feed. Skips lines that contain a NUL. The caller frees *line
 * after the last call. */
static bool next_line(FILE *file, char **line, size_t *room)
{
    ssize_t length;
    while ((length = getline(line, room, file)) > 0) {
        if (strlen(*line) != (size_t)length)
            continue;
        if ((*line)[length - 1] == '\n')
            (*line)[length - 1] = '\0';
        return true;
    }
    return false;
}

static bool list_has(const char *list, const char *word)
{
    for (; list; list = strchr(list, ',')) {
        list += *list == ',';
        if (td_name_is(word, list, strcspn(list, ",")))
            return true;
    }
    return false;
}

/* Parses a line such as "4:cpu,cpuacct:/group", or "0::/group" in version 2. */
static bool parse_group(struct hierarchy *hierarchy, char *line)
{
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group || group[1] != '/' || strlen(group + 1) >= sizeof hierarchy->group)
        return false;
    *group++ = '\0';
    controllers++;
    if (hierarchy->controller[0] ? !list_has(controllers, hierarchy->controller) : *controllers)
        return false;
    memcpy(hierarchy->group, group, strlen(group) + 1);
    return true;
}

static bool find_group(struct hierarchy *hierarchy)
{
    FILE *file = open_below(hierarchy->root, "/proc/self/cgroup");
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    while (file && !found && next_line(file, &line, &room))
        found = parse_group(hierarchy, line);
    free(line);
    if (file)
        fclose(file);
    return found;
}

/* Decodes the octal escapes of mountinfo, such as \040 for a space and \134 for a backslash. */
static void unescape(char *text)
{
    unsigned char *to = (unsigned char *)text;
    for (const unsigned char *from = to; *from; to++) {
        const bool escaped = from[0] == '\\' && from[1] >= '0' && from[1] <= '3' &&
                             from[2] >= '0' && from[2] <= '7' && from[3] >= '0' && from[3] <= '7';
        *to = escaped ? (unsigned char)((from[1] & 3) << 6 | (from[2] & 7) << 3 | (from[3] & 7))
                      : *from;
        from += escaped ? 4 : 1;
    }
    *to = '\0';
}

/* Parses a line such as "36 35 98:0 /group /mount/point rw,noatime shared:1 - cgroup cgroup
 * rw,cpu". There can be any number of fields between the mount options and the dash. */
static bool parse_mount(struct mount *mount, char *line)
{
    char *rest = NULL;
    memset(mount, 0, sizeof *mount);
    char *field = strtok_r(line, " ", &rest);
    for (int at = 0; field && (at < 6 || strcmp(field, "-") != 0); at++) {
        if (at == 3)
            mount->group = field;
        if (at == 4)
            mount->point = field;
        field = strtok_r(NULL, " ", &rest);
    }
    mount->type = strtok_r(NULL, " ", &rest);
    (void)strtok_r(NULL, " ", &rest);
    mount->options = strtok_r(NULL, " ", &rest);
    if (!field || !mount->type || !mount->options)
        return false;
    unescape(mount->group);
    unescape(mount->point);
    return true;
}

static bool is_mount_of(const struct mount *mount, const struct hierarchy *hierarchy)
{
    if (!hierarchy->controller[0])
        return strcmp(mount->type, "cgroup2") == 0;
    return strcmp(mount->type, "cgroup") == 0 && list_has(mount->options, hierarchy->controller);
}

static bool goes_up(const char *path)
{
    for (; (path = strstr(path, "/..")); path++)
        if (path[3] == '/' || !path[3])
            return true;
    return false;
}

/* Returns the path from the top of the mount to the group ("" or "/a/b"), or NULL if the group is
 * not below the mount. */
static const char *path_in_mount(const char *group, const char *top)
{
    const size_t length = strcmp(top, "/") == 0 ? 0 : strlen(top);
    if (strlen(group) < length || memcmp(group, top, length) != 0 ||
        (group[length] != '/' && group[length]))
        return NULL;
    group += length;
    return goes_up(group) ? NULL : strcmp(group, "/") == 0 ? "" : group;
}

/* Reads a decimal number and advances *text past it. Returns 0 for "max", -1, a number of more than
 * 63 bits, or any other text. */
static int64_t take_number(const char **text)
{
    int64_t value = 0;
    const char *at = *text + strspn(*text, " ");
    for (; *at >= '0' && *at <= '9'; at++) {
        const int digit = *at - '0';
        if (value > (INT64_MAX - digit) / 10)
            return 0;
        value = value * 10 + digit;
    }
    *text = at;
    return strchr(" \n", *at) ? value : 0; /* `*at` can also be the final NUL */
}

/* Reads up to two numbers from a file. Missing numbers are 0. */
static void read_numbers(const char *folder, const char *name, int64_t numbers[2])
{
    char text[64];
    const char *at = text;
    FILE *file = open_below(folder, name);
    const size_t length = file ? fread(text, 1, sizeof text, file) : 0;
    if (file)
        fclose(file);
    numbers[0] = numbers[1] = 0;
    if (length == sizeof text || memchr(text, '\0', length))
        return;
    text[length] = '\0';
    numbers[0] = take_number(&at);
    if (numbers[0] > 0)
        numbers[1] = take_number(&at);
}

static void lower(int64_t *limit, int64_t found)
{
    if (found > 0 && (*limit == 0 || found < *limit))
        *limit = found;
}

static void lower_cpus(int64_t *limit, int64_t quota, int64_t period)
{
    if (quota > 0 && period > 0)
        lower(limit, quota / period + (quota % period != 0));
}

/* Applies the limits of one group. Missing files, such as the files of the other version, set no
 * limits. */
static void read_group(const char *folder, struct td_cgroup_limits *limits)
{
    static const char *const memory[] = { "/memory.max", "/memory.high", "/memory.limit_in_bytes" };
    int64_t numbers[2], period[2];
    read_numbers(folder, "/cpu.max", numbers);
    lower_cpus(&limits->cpus, numbers[0], numbers[1]);
    read_numbers(folder, "/cpu.cfs_quota_us", numbers);
    read_numbers(folder, "/cpu.cfs_period_us", period);
    lower_cpus(&limits->cpus, numbers[0], period[0]);
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
        read_numbers(folder, memory[i], numbers);
        lower(&limits->memory_bytes, numbers[0]);
    }
}

/* Applies the limits of the group at `path` below the mount point, and of all groups above it. */
static void read_groups(const char *root, const char *point, const char *path,
                        struct td_cgroup_limits *limits)
{
    char folder[PATH_MAX];
    const int top = snprintf(folder, sizeof folder, "%s%s", root, point);
    if (top < 0 || (size_t)top + strlen(path) >= sizeof folder)
        return;
    memcpy(folder + top, path, strlen(path) + 1);
    read_group(folder, limits);
    while (folder[top]) {
        *strrchr(folder + top, '/') = '\0';
        read_group(folder, limits);
    }
}

/* Reads the process's group in all mounts of its hierarchy. With `outside`, reads the topmost group
 * of the first mount instead, because the process's group is outside all mounts. */
static bool read_mounts(const struct hierarchy *hierarchy, bool outside,
                        struct td_cgroup_limits *limits)
{
    FILE *file = open_below(hierarchy->root, "/proc/self/mountinfo");
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    while (file && !(found && outside) && next_line(file, &line, &room)) {
        struct mount mount;
        if (!parse_mount(&mount, line) || !is_mount_of(&mount, hierarchy))
            continue;
        const char *path = outside ? "" : path_in_mount(hierarchy->group, mount.group);
        if (path)
            read_groups(hierarchy->root, mount.point, path, limits);
        found = found || path;
    }
    free(line);
    if (file)
        fclose(file);
    return found;
}

struct td_cgroup_limits td_cgroup_limits_read(const char *root)
{
    static const char *const controllers[] = { "", "cpu", "memory" };
    struct td_cgroup_limits limits = { 0 };
    for (size_t i = 0; i < sizeof controllers / sizeof *controllers; i++) {
        struct hierarchy hierarchy = { .root = root, .controller = controllers[i] };
        if (find_group(&hierarchy) && !read_mounts(&hierarchy, false, &limits))
            (void)read_mounts(&hierarchy, true, &limits);
    }
    return limits;
}
