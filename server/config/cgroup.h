/* cgroup.h - limits of CPU time and memory that control groups set for this process.
 *
 * Of both versions, also side by side. Every group from that of the process up to the mount counts,
 * and the least limit wins. A group outside of the mount, as a process sees it that was moved out
 * of its control group namespace, has the limits of the mount's topmost group.
 *
 * Errors     None: what is missing, or is not a number of 63 bits, is no limit.
 * Source     cgroups(7), cgroup_namespaces(7), proc_pid_mountinfo(5); cgroup-v2.rst and
 *            cgroup-v1/memory.rst of the kernel's documentation. */
#ifndef TD_SERVER_CONFIG_CGROUP_H
#define TD_SERVER_CONFIG_CGROUP_H

#include <stdint.h>

/* 0 is no limit. */
struct td_cgroup_limits {
    int64_t cpus; /* a fraction is rounded up */
    int64_t memory_bytes;
};

/* `root` precedes every path that is read: "" is the system, tests have a folder of their own. */
struct td_cgroup_limits td_cgroup_limits_read(const char *root);

#endif
