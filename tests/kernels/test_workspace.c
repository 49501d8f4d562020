#include "kernels/workspace.h"
#include "tests/support/op_call.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <string.h>

TD_TEST(sizes_are_rounded_up_to_whole_lines)
{
    ck_assert_uint_eq(td_workspace_align(0), 0);
    ck_assert_uint_eq(td_workspace_align(1), 64);
    ck_assert_uint_eq(td_workspace_align(64), 64);
    ck_assert_uint_eq(td_workspace_align(65), 128);
    ck_assert_uint_eq(td_workspace_align(UINT64_MAX - 63), UINT64_MAX - 63);
    ck_assert_uint_eq(td_workspace_align(UINT64_MAX - 62), UINT64_MAX);
}

#define THREADS 3
#define SCRATCH 128

TD_TEST(a_scratch_area_has_one_holder)
{
    _Alignas(64) char memory[THREADS * SCRATCH];
    struct td_workspace workspace = { .scratch = memory,
                                      .scratch_bytes = SCRATCH,
                                      .n_threads = THREADS };
    bool held[THREADS] = { false };
    for (int i = 0; i < THREADS; i++) {
        const int area = td_workspace_acquire(&workspace);
        ck_assert(area >= 0 && area < THREADS && !held[area]);
        ck_assert_ptr_eq(td_workspace_scratch(&workspace, area), memory + area * SCRATCH);
        held[area] = true;
    }
    td_workspace_release(&workspace, 1);
    ck_assert_int_eq(td_workspace_acquire(&workspace), 1);
}

/* Fills a scratch area with its own number, and counts the bytes that another holder changed. */
struct filling {
    struct td_workspace workspace;
    atomic_int changed;
};

static void fill_range(void *context, int64_t begin, int64_t end)
{
    struct filling *job = context;
    const int area = td_workspace_acquire(&job->workspace);
    char *scratch = td_workspace_scratch(&job->workspace, area);
    for (int64_t i = begin; i < end; i++) {
        memset(scratch, (int)(i % 100), SCRATCH);
        for (int k = 0; k < SCRATCH; k++)
            if (scratch[k] != (char)(i % 100))
                atomic_fetch_add(&job->changed, 1);
    }
    td_workspace_release(&job->workspace, area);
}

TD_TEST(ranges_that_run_at_once_have_scratch_of_their_own)
{
    _Alignas(64) char memory[THREADS * SCRATCH];
    struct filling job = {
        .workspace = { .scratch = memory, .scratch_bytes = SCRATCH, .n_threads = THREADS }
    };
    struct thread_exec exec;
    struct td_error err;
    thread_exec_init(&exec, THREADS, 1);
    ck_assert_int_eq(td_exec_for(&exec.exec, 2000, 1, fill_range, &job, &err), TD_OK);
    ck_assert_int_eq(atomic_load(&job.changed), 0);
}

/* Bytes of memory that the op takes when so many ranges may run at once. */
static size_t taken_at(const char *op, const char *attrs, int width)
{
    const struct td_tensor matrices[] = { tensor("float32[256,256] 0..65535"),
                                          tensor("float32[256,256] 0..65535") };
    const bool list = strcmp(op, "einsum") == 0;
    struct td_arena arena;
    struct td_exec exec;
    struct op_call call;
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    td_exec_serial(&exec, &arena);
    exec.width = width;
    call_begin_lists(&call, op, attrs, list ? 2 : 1, matrices, 0, NULL);
    call_run(&call, op, &exec);
    ck_assert_msg(call.status == TD_OK, "%s: %s", op, call.err.message);
    const size_t taken = arena.taken;
    td_arena_reset(&arena);
    return taken;
}

TD_TEST(an_op_takes_scratch_memory_for_256_threads_at_most)
{
    static const char *const ops[][2] = { { "einsum", "equation='ij,jk->ik'" },
                                          { "top_k", "k=200" } };
    for (int i = 0; i < COUNT_OF(ops); i++) {
        const size_t most = taken_at(ops[i][0], ops[i][1], TD_WORKSPACE_MAX_THREADS);
        ck_assert_uint_lt(taken_at(ops[i][0], ops[i][1], TD_WORKSPACE_MAX_THREADS / 2), most);
        ck_assert_uint_eq(taken_at(ops[i][0], ops[i][1], TD_WORKSPACE_MAX_THREADS + 1), most);
        ck_assert_uint_eq(taken_at(ops[i][0], ops[i][1], 1024), most);
    }
}
