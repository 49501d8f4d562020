/* test_fuzz.c - random cases of every op, several in flight, on the emulated plugin: results equal
 * those of the CPU, and kernels access only their tensors and their workspace.
 *
 *   test_fuzz [SECONDS [SEED]]        default: 3 seconds, from seed 1
 *
 * The last line on stderr is the seed of a failure; SECONDS 0 runs only that seed. */
#include "gpu/loader/loader.h"
#include "tests/gpu/device_call.h"
#include "tests/gpu/emulation/emulation.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#define FIRST_BLOCK ((size_t)1 << 20)

/* Launches in flight. */
struct group {
    struct fixture *fixture;
    struct td_arena arena;
    struct launch launches[MAX_IN_FLIGHT];
    int n, window;
};

static void finish(struct group *group)
{
    bool fine = true;
    for (int i = 0; i < FIXTURE_STREAMS; i++)
        fine =
            synchronize(group->fixture, group->fixture->streams[i], "a stream with cases") && fine;
    for (int i = 0; fine && i < group->n; i++)
        launch_check(group->fixture, &group->launches[i], &group->arena);
    group->n = 0;
    group->fixture->used = 0;
}

static void submit(void *context, const struct device_case *one)
{
    struct group *group = context;
    for (int attempt = 0; attempt < 2; attempt++) {
        int n = group->n;
        struct td_device_stream *stream = group->fixture->streams[n % FIXTURE_STREAMS];
        if (launch_submit(group->fixture, stream, n, one, &group->arena, &group->launches[n])) {
            group->n++;
            break;
        }
        finish(group); /* the memory was full */
    }
    if (group->n == group->window)
        finish(group);
}

static void run_seed(struct fixture *fixture, uint64_t seed)
{
    static char block[FIRST_BLOCK];
    struct group group = { .fixture = fixture, .window = 1 + (int)(seed % MAX_IN_FLIGHT) };
    td_arena_init(&group.arena, block, sizeof(block), td_memory_heap());
    for (uint64_t i = 0; i < 16; i++)
        for_random_device_cases(&group.arena, seed * 16 + i, submit, &group);
    finish(&group);
    td_arena_reset(&group.arena);
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? strtod(argv[1], NULL) : 3;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    const struct td_device_options options = { .text = "" };
    struct td_device_library library;
    struct td_error err;
    static struct fixture fixture;
    if (td_device_load(TD_TEST_PLUGIN, &library, &err) != TD_OK ||
        fixture_open(&fixture, library.api, &options, &err) != TD_OK) {
        printf("FAILED: %s\n", err.message);
        return 1;
    }
    fixture.poison = td_emulation_poison;
    const clock_t end = clock() + (clock_t)(seconds * CLOCKS_PER_SEC);
    do {
        fprintf(stderr, "\rseed %" PRIu64 " ", seed); /* before the emulation may abort */
        run_seed(&fixture, seed++);
    } while (checks.failed == 0 && clock() < end);
    fprintf(stderr, "\n");
    fixture_close(&fixture);
    td_device_unload(&library);
    printf("seeds up to %" PRIu64 ": %ld passed, %ld failed\n", seed - 1, checks.passed,
           checks.failed);
    return checks.failed == 0 && checks.passed > 0 ? 0 : 1;
}
