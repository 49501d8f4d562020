/* cgroup.h - CPU and memory limits that control groups set for this process.
 *
 * Reads version 1, version 2, or both side by side. The limits of all groups from the process's
 * group up to the mount apply, and the lowest limit wins. If the process was moved out of its
 * control group namespace, its group is outside the mount; the limits of the mount's topmost group
 * then apply.
 *
 * Errors     None. A limit that is missing, or is not a number of at most 63 bits, is not applied.
 * Source     cgroups(7), cgroup_namespaces(7), proc_pid_mountinfo(5); cgroup-v2.rst and
 *            cgroup-v1/memory.rst of the kernel's documentation. */
#ifndef TD_SERVER_CONFIG_CGROUP_H
#define TD_SERVER_CONFIG_CGROUP_H

#include <stdint.h>

/* Limits of this process; 0 means no limit. */
struct td_cgroup_limits {
    int64_t cpus; /* fractions are rounded up */
    int64_t memory_bytes;
};

/* Reads the limits of this process. `root` is prepended to every path: "" for the system, a test
 * folder in tests. */
struct td_cgroup_limits td_cgroup_limits_read(const char *root);

#endif
