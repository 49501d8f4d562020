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
uint32_t kernel_number, block_number, period_number;

namespace
{

/* A thread's stack, and where it goes on. Once it has been begun it is there for good, and runs one
 * thread after the other. */
struct fiber {
    jmp_buf resume;
    ucontext_t begin;
    bool begun;
};

constexpr size_t stack_bytes = size_t{ 256 } << 10;

enum class waits { ended, barrier, barrier_or };

place thread_at, block_at, threads_in_block, blocks_in_grid;
fiber fibers[most_threads];
jmp_buf scheduler;
fiber *running;
waits turn; /* how the last turn of a thread ended */
const std::function<void()> *body;
bool any, any_before; /* of __syncthreads_or: so far; when all had come */

char *stacks()
{
    static char *const memory = [] {
        void *range = mmap(nullptr, most_threads * stack_bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (range == MAP_FAILED)
            fail("no room for the stacks of a block's threads");
        return static_cast<char *>(range);
    }();
    return memory;
}

/* Contexts begin a stack; from then on it is switched by jumps, which cost no system call. */
void leave(waits how)
{
    turn = how;
    if (_setjmp(running->resume) == 0)
        _longjmp(scheduler, 1);
}

void run_threads()
{
    for (;;) {
        (*body)();
        leave(waits::ended);
    }
}

waits take_turn(fiber *one)
{
    running = one;
    if (_setjmp(scheduler) != 0)
        return turn;
    if (one->begun)
        _longjmp(one->resume, 1);
    one->begun = true;
    (void)getcontext(&one->begin);
    one->begin.uc_stack.ss_sp = stacks() + static_cast<size_t>(one - fibers) * stack_bytes;
    one->begin.uc_stack.ss_size = stack_bytes;
    makecontext(&one->begin, run_threads, 0);
    (void)setcontext(&one->begin);
    fail("no context for a thread");
}

/* Some permutation: from a start, by an odd step where the number is a power of 2. */
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
    static fiber *fiber_of[most_threads], *idle[most_threads];
    unsigned int n_idle = threads;
    for (unsigned int t = 0; t < threads; t++) {
        fiber_of[t] = nullptr;
        idle[t] = &fibers[t];
    }
    block_number++;
    any = false;
    for (;;) {
        unsigned int n[3] = { 0, 0, 0 };
        const order turns(threads);
        period_number++;
        for (unsigned int i = 0; i < threads; i++) {
            const unsigned int t = turns.at(i);
            fiber *&mine = fiber_of[t];
            if (!mine)
                mine = idle[--n_idle];
            thread_at = { t, 0, 0 };
            const waits how = take_turn(mine);
            n[static_cast<int>(how)]++;
            if (how == waits::ended)
                idle[n_idle++] = mine;
        }
        if (n[static_cast<int>(waits::ended)] == threads)
            return;
        if (*std::max_element(n, n + 3) != threads)
            fail("kernel %s, block %u: %u threads have ended, %u wait at __syncthreads and %u at "
                 "__syncthreads_or",
                 kernel_name, block_at.x, n[0], n[1], n[2]);
        any_before = any;
        any = false;
    }
}

} // namespace

place thread_index()
{
    return thread_at;
}

place block_index()
{
    return block_at;
}

place block_size()
{
    return threads_in_block;
}

place grid_size()
{
    return blocks_in_grid;
}

void barrier()
{
    leave(waits::barrier);
}

int barrier_or(int condition)
{
    any = any || condition != 0;
    leave(waits::barrier_or);
    return any_before;
}

bool on_stack(const void *address)
{
    return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(stacks()) <
           most_threads * stack_bytes;
}

void run_kernel(const char *name, unsigned int blocks, unsigned int threads,
                const std::function<void()> &kernel)
{
    kernel_name = name;
    kernel_number++;
    body = &kernel;
    blocks_in_grid = { blocks, 1, 1 };
    threads_in_block = { threads, 1, 1 };
    const order numbers(blocks);
    for (unsigned int b = 0; b < blocks; b++) {
        block_at = { numbers.at(b), 0, 0 };
        run_block(threads);
    }
    kernel_name = nullptr;
}

} // namespace emulation
