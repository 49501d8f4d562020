#include "tests/support/threads.h"

#include "tests/support/tensors.h"

#include <pthread.h>

#define MAX_THREADS 8

struct loop {
    struct thread_exec *exec;
    td_range_fn *fn;
    void *context;
    int64_t count, grain;
    atomic_int_fast64_t next;
    atomic_bool late;
};

/* Counts a range; true when it exceeds ranges_allowed. */
static bool is_late(struct thread_exec *exec)
{
    int64_t before = atomic_fetch_add(&exec->ranges_run, 1);
    return exec->ranges_allowed >= 0 && before >= exec->ranges_allowed;
}

static void *work(void *argument)
{
    struct loop *loop = argument;
    for (;;) {
        int64_t begin = atomic_fetch_add(&loop->next, loop->grain);
        if (begin >= loop->count)
            return NULL;
        if (is_late(loop->exec)) {
            atomic_store(&loop->late, true);
            return NULL;
        }
        if (loop->exec->backwards)
            begin = (loop->count - 1) / loop->grain * loop->grain - begin;
        int64_t left = loop->count - begin;
        loop->fn(loop->context, begin, begin + (left < loop->grain ? left : loop->grain));
    }
}

static td_status parallel_for(struct td_exec *self, int64_t count, int64_t grain, td_range_fn *fn,
                              void *context, struct td_error *err)
{
    struct thread_exec *exec = (struct thread_exec *)self;
    struct loop loop = {
        .exec = exec,
        .fn = fn,
        .context = context,
        .count = count,
        .grain = exec->grain > 0 ? exec->grain : grain,
    };
    EXPECT(loop.grain > 0, "a kernel asked for ranges of nothing");
    pthread_t thread[MAX_THREADS] = { 0 };
    for (int i = 1; i < exec->threads; i++)
        EXPECT(pthread_create(&thread[i], NULL, work, &loop) == 0, "no thread");
    work(&loop);
    for (int i = 1; i < exec->threads; i++)
        EXPECT(pthread_join(thread[i], NULL) == 0, "no thread");
    if (atomic_load(&loop.late))
        return td_error_set(err, TD_DEADLINE_EXCEEDED, "the deadline has passed");
    return TD_OK;
}

static td_status check(struct td_exec *self, struct td_error *err)
{
    if (is_late((struct thread_exec *)self))
        return td_error_set(err, TD_DEADLINE_EXCEEDED, "the deadline has passed");
    return TD_OK;
}

void thread_exec_init(struct thread_exec *exec, int threads, int64_t grain)
{
    ck_assert_int_le(threads, MAX_THREADS);
    *exec = (struct thread_exec){
        .exec = { .parallel_for = parallel_for,
                  .check = check,
                  .arena = &test_arena,
                  .output_limit = UINT64_MAX,
                  .width = threads },
        .threads = threads,
        .grain = grain,
        .ranges_allowed = -1,
    };
}
