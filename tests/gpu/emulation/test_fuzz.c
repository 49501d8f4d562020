/* test_fuzz.c - random calls of every op, several in flight, on the emulated plugin: results are
 * those of the processor, and kernels touch nothing but their tensors and their workspace.
 *
 *   test_fuzz [SECONDS [SEED]]        3 seconds, from seed 1 on
 *
 * A failure names the seed of its cases, which alone are run with SECONDS 0. */
#include "gpu/loader/loader.h"
#include "tests/gpu/device_call.h"
#include "tests/gpu/emulation/emulation.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#define FIRST_BLOCK ((size_t)1 << 20)

/* Calls that are in flight together. */
struct group {
    struct rig *rig;
    struct td_arena arena;
    struct flight flights[RIG_FLIGHTS];
    int n, window;
};

static void land(struct group *group)
{
    bool fine = true;
    for (int i = 0; i < RIG_STREAMS; i++)
        fine = wait_done(group->rig, group->rig->streams[i], "a stream with cases") && fine;
    for (int i = 0; fine && i < group->n; i++)
        flight_check(group->rig, &group->flights[i], &group->arena);
    group->n = 0;
    group->rig->used = 0;
}

static void submit(void *context, const struct device_case *one)
{
    struct group *group = context;
    for (int attempt = 0; attempt < 2; attempt++) {
        int n = group->n;
        struct td_device_stream *stream = group->rig->streams[n % RIG_STREAMS];
        if (flight_submit(group->rig, stream, n, one, &group->arena, &group->flights[n])) {
            group->n++;
            break;
        }
        land(group); /* there was no room */
    }
    if (group->n == group->window)
        land(group);
}

static void run_seed(struct rig *rig, uint64_t seed)
{
    static char block[FIRST_BLOCK];
    struct group group = { .rig = rig, .window = 1 + (int)(seed % RIG_FLIGHTS) };
    td_arena_init(&group.arena, block, sizeof(block), td_memory_heap());
    for (uint64_t i = 0; i < 16; i++)
        some_random_cases(&group.arena, seed * 16 + i, submit, &group);
    land(&group);
    td_arena_reset(&group.arena);
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? strtod(argv[1], NULL) : 3;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    const struct td_device_options options = { .text = "" };
    struct td_device_library library;
    struct td_error err;
    static struct rig rig;
    if (td_device_load(TD_TEST_PLUGIN, &library, &err) != TD_OK ||
        rig_open(&rig, library.api, &options, &err) != TD_OK) {
        printf("FAILED: %s\n", err.message);
        return 1;
    }
    rig.forbid = td_emulation_forbid;
    const clock_t end = clock() + (clock_t)(seconds * CLOCKS_PER_SEC);
    do {
        fprintf(stderr, "\rseed %" PRIu64 " ",
                seed); /* known where the emulation ends the process */
        run_seed(&rig, seed++);
    } while (tally.failed == 0 && clock() < end);
    fprintf(stderr, "\n");
    rig_close(&rig);
    td_device_unload(&library);
    printf("seeds up to %" PRIu64 ": %ld passed, %ld failed\n", seed - 1, tally.passed,
           tally.failed);
    return tally.failed == 0 && tally.passed > 0 ? 0 : 1;
}
