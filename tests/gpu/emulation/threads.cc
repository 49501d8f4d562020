#include "tests/gpu/emulation/threads.h"

#include "tests/gpu/emulation/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <csetjmp>
#include <numeric>
#include <ucontext.h>

namespace emulation
{

const char *kernel_name;
uint32_t kernel_number, block_number, interval_number;

namespace
{

/* A stack, and where to resume it. Once begun, a fiber is kept and runs one thread after
 * another. */
struct fiber {
    jmp_buf resume;
    ucontext_t entry;
    bool begun;
};

constexpr size_t stack_bytes = size_t{ 256 } << 10;

enum class stop { returned, barrier, barrier_or }; /* why a thread stopped */

index3 thread_at, block_at, threads_in_block, blocks_in_grid;
fiber fibers[max_threads];
jmp_buf scheduler;
fiber *running;
stop last_stop; /* of the thread that ran last */
const std::function<void()> *body;
bool any, any_arrived; /* of __syncthreads_or: so far; when all threads had arrived */

char *stacks()
{
    static char *const memory = [] {
        void *range = mmap(nullptr, max_threads * stack_bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (range == MAP_FAILED)
            fail("no address space for the stacks of a block's threads");
        return static_cast<char *>(range);
    }();
    return memory;
}

/* Switches to the scheduler. A context only begins a stack; longjmp resumes it without a system
 * call. */
void yield(stop why)
{
    last_stop = why;
    if (_setjmp(running->resume) == 0)
        _longjmp(scheduler, 1);
}

void run_threads()
{
    for (;;) {
        (*body)();
        yield(stop::returned);
    }
}

stop resume(fiber *one)
{
    running = one;
    if (_setjmp(scheduler) != 0)
        return last_stop;
    if (one->begun)
        _longjmp(one->resume, 1);
    one->begun = true;
    (void)getcontext(&one->entry);
    one->entry.uc_stack.ss_sp = stacks() + static_cast<size_t>(one - fibers) * stack_bytes;
    one->entry.uc_stack.ss_size = stack_bytes;
    makecontext(&one->entry, run_threads, 0);
    (void)setcontext(&one->entry);
    fail("setcontext failed for a thread");
}

/* A random permutation of 0 to n - 1: start + i * step modulo n, with step and n coprime. */
struct order {
    unsigned int n, start, step;

    explicit order(unsigned int count)
        : n(count), start(static_cast<unsigned int>(random_below(count))),
          step(static_cast<unsigned int>(random_below(count)) | 1)
    {
        while (std::gcd(step, n) != 1)
            step++;
    }
    unsigned int at(unsigned int i) const
    {
        return static_cast<unsigned int>((start + static_cast<uint64_t>(i) * step) % n);
    }
};

void run_block(unsigned int threads)
{
    static fiber *fiber_of[max_threads], *idle[max_threads];
    unsigned int n_idle = threads;
    for (unsigned int t = 0; t < threads; t++) {
        fiber_of[t] = nullptr;
        idle[t] = &fibers[t];
    }
    block_number++;
    any = false;
    for (;;) {
        unsigned int n[3] = { 0, 0, 0 };
        const order permutation(threads);
        interval_number++;
        for (unsigned int i = 0; i < threads; i++) {
            const unsigned int t = permutation.at(i);
            fiber *&mine = fiber_of[t];
            if (!mine)
                mine = idle[--n_idle];
            thread_at = { t, 0, 0 };
            const stop why = resume(mine);
            n[static_cast<int>(why)]++;
            if (why == stop::returned)
                idle[n_idle++] = mine;
        }
        if (n[static_cast<int>(stop::returned)] == threads)
            return;
        if (*std::max_element(n, n + 3) != threads)
            fail(
                "kernel %s, block %u: %u threads have returned, %u wait at __syncthreads and %u at "
                "__syncthreads_or",
                kernel_name, block_at.x, n[0], n[1], n[2]);
        any_arrived = any;
        any = false;
    }
}

} // namespace

index3 thread_index()
{
    return thread_at;
}

index3 block_index()
{
    return block_at;
}

index3 block_size()
{
    return threads_in_block;
}

index3 grid_size()
{
    return blocks_in_grid;
}

void barrier()
{
    yield(stop::barrier);
}

int barrier_or(int condition)
{
    any = any || condition != 0;
    yield(stop::barrier_or);
    return any_arrived;
}

bool on_stack(const void *address)
{
    return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(stacks()) <
           max_threads * stack_bytes;
}

void run_kernel(const char *name, unsigned int blocks, unsigned int threads,
                const std::function<void()> &kernel)
{
    kernel_name = name;
    kernel_number++;
    body = &kernel;
    blocks_in_grid = { blocks, 1, 1 };
    threads_in_block = { threads, 1, 1 };
    const order permutation(blocks);
    for (unsigned int b = 0; b < blocks; b++) {
        block_at = { permutation.at(b), 0, 0 };
        run_block(threads);
    }
    kernel_name = nullptr;
}

} // namespace emulation
