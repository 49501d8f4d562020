#include "tests/bench/measure.h"

#include <sys/mman.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof(values[0]), compare_doubles);
    return values[n / 2];
}

/* Allocates one byte more than requested, so a request for 0 bytes is valid too. */
static void *must_alloc(size_t alignment, size_t bytes)
{
    void *place = aligned_alloc(alignment, (bytes / alignment + 1) * alignment);
    if (!place) {
        fprintf(stderr, "%s: no memory\n", program_invocation_short_name);
        exit(1);
    }
    return place;
}

void *huge_pages(size_t bytes)
{
    const size_t page = (size_t)2 << 20;
    void *place = must_alloc(page, bytes);
    if (bytes >= page)
        madvise(place, (bytes / page + 1) * page, MADV_HUGEPAGE);
    memset(place, 1, bytes);
    return place;
}

void *zeroed_memory(size_t bytes)
{
    void *place = must_alloc(64, bytes);
    memset(place, 0, bytes);
    return place;
}

void print_cpu(const char *label)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':')) {
            printf("%s%s", label, strchr(line, ':'));
            break;
        }
    if (file)
        fclose(file);
}
