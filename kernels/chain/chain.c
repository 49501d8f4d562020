#include "kernels/chain/chain.h"

#include "kernels/integers.h"
#include "kernels/rows/rows.h"

#include <assert.h>
#include <string.h>

/* ---- Building ---------------------------------------------------------------------------- */

/* True if two descriptions are of the same tensor. */
static bool is_same(const struct td_tensor *a, const struct td_tensor *b)
{
    return a->data == b->data && a->dtype == b->dtype && td_shape_equal(&a->shape, &b->shape);
}

int td_chain_input(struct td_chain *chain, const struct td_tensor *tensor)
{
    for (int i = 0; i < chain->n_inputs; i++)
        if (is_same(chain->inputs[i], tensor))
            return i;
    assert(chain->n_inputs < TD_CHAIN_INPUTS && chain->n_steps == 0);
    chain->inputs[chain->n_inputs] = tensor;
    return chain->n_inputs++;
}

static int add_step(struct td_chain *chain, struct td_chain_step step)
{
    assert(chain->n_steps < TD_CHAIN_STEPS);
    chain->steps[chain->n_steps] = step;
    return chain->n_inputs + chain->n_steps++;
}

/* Adds a step that widens a value to float32. */
static int widen(struct td_chain *chain, td_dtype dtype, int value, td_isa isa)
{
    return add_step(chain, (struct td_chain_step){ .widen = td_widen(dtype, isa),
                                                   .operands = { value },
                                                   .n_operands = 1,
                                                   .parts = 1,
                                                   .width = sizeof(float) });
}

int td_chain_add(struct td_chain *chain, const struct td_chain_op *op, const int *operands,
                 int n_operands, const struct td_tensor *to, td_isa isa)
{
    const bool widens = op->computed != op->dtype;
    const bool rounds = widens && op->result == op->dtype;
    struct td_chain_step step = {
        .loop = op->loop,
        .n_operands = n_operands,
        .parts = 1,
        .width = rounds ? sizeof(float) : td_dtype_info(op->result)->size,
        .to = rounds ? NULL : to,
    };
    for (int i = 0; i < n_operands; i++)
        step.operands[i] = widens ? widen(chain, op->dtype, operands[i], isa) : operands[i];
    const int value = add_step(chain, step);
    if (!rounds)
        return value;
    return add_step(chain, (struct td_chain_step){ .narrow = td_narrow(op->result, isa),
                                                   .operands = { value },
                                                   .n_operands = 1,
                                                   .parts = 1,
                                                   .width = td_dtype_info(op->result)->size,
                                                   .to = to });
}

int td_chain_cast(struct td_chain *chain, td_dtype from, td_dtype dtype, int operand,
                  const struct td_tensor *to, td_isa isa)
{
    struct td_cast_path path;
    td_cast_path_find(&path, from, dtype, isa);
    for (int i = 0; i < path.n_steps; i++) {
        const bool is_last = i + 1 == path.n_steps;
        /* No intermediate dtype is wider than double. */
        const size_t width = is_last ? path.to_size : sizeof(double);
        operand = add_step(chain, (struct td_chain_step){ .cast = path.steps[i].loop,
                                                          .widen = path.steps[i].widen,
                                                          .narrow = path.steps[i].narrow,
                                                          .operands = { operand },
                                                          .n_operands = 1,
                                                          .parts = path.parts,
                                                          .width = width * (size_t)path.parts,
                                                          .to = is_last ? to : NULL });
    }
    return operand;
}

/* ---- Blocks ------------------------------------------------------------------------------ */

/* Bytes of all blocks that are in use at the same time, which fit into the L1 cache beside the
 * inputs and the output. */
#define SCRATCH_BYTES 24576
#define BLOCK_MOST    2048 /* elements */
#define BLOCK_UNIT    16
/* Minimum size of a result that is streamed, because it would not stay in the cache. */
#define STREAM_BYTES  ((size_t)32 * 1024 * 1024)
/* Minimum and maximum size of the elements in one range of parallel_for. A second thread takes a
 * microsecond to help, in which one simple step moves 100 KiB. A maximum range is about 20 us of a
 * few simple steps; with a quarter of it, 8 steps on a million elements take a quarter longer. */
#define RANGE_LEAST   ((int64_t)256 * 1024)
#define RANGE_MOST    ((int64_t)512 * 1024)
#define THREAD_RANGES 4 /* ranges per thread, unless they would be too small */

/* The block of an input. */
enum source {
    SOURCE_DIRECT, /* the input has all elements */
    SOURCE_TILE,   /* the input is repeated as a whole, and has at most a block of elements */
    SOURCE_COPY,   /* the block is copied to scratch memory */
};

struct job {
    const struct td_chain *chain;
    struct td_shape shape; /* of the chain, merged */
    int64_t numel;
    int64_t block; /* elements per block */
    struct {
        enum source source;
        size_t width;
        const char *data; /* for SOURCE_TILE, the repeated input */
        int64_t period;   /* elements of an input that is repeated as a whole */
        struct td_repeat repeat;
        int slot;
    } inputs[TD_CHAIN_INPUTS];
    int slots[TD_CHAIN_STEPS]; /* slot of each step that has one (has_slot) */
    int n_slots;
    size_t slot_bytes;
    bool streams; /* a step streams its result */
};

/* True if the result goes to its tensor with streaming stores. The processor then does not read the
 * lines before it overwrites them. */
static bool is_streamed(const struct td_chain_step *step)
{
    return step->to && step->to->bytes >= STREAM_BYTES;
}

/* True if the blocks of the result are computed in scratch memory. */
static bool has_slot(const struct td_chain_step *step)
{
    return !step->to || is_streamed(step);
}

/* True if the full dimensions come after all repeated dimensions. */
static bool is_periodic(uint32_t full, int rank)
{
    const uint32_t all = ((uint32_t)1 << rank) - 1, repeated = all & ~full;
    return repeated < (full & (0 - full)) || full == 0;
}

static enum source source_of(uint32_t full, int rank, int64_t period, int64_t block)
{
    if (full == ((uint32_t)1 << rank) - 1)
        return SOURCE_DIRECT;
    return is_periodic(full, rank) && period <= block ? SOURCE_TILE : SOURCE_COPY;
}

/* Returns the index of the last step that reads the value. */
static int last_use(const struct td_chain *chain, int value)
{
    int last = -1;
    for (int s = 0; s < chain->n_steps; s++)
        for (int k = 0; k < chain->steps[s].n_operands; k++)
            if (chain->steps[s].operands[k] == value)
                last = s;
    return last;
}

/* Assigns slots to the steps. A slot is used again after the last step that reads it. */
static void assign_slots(struct job *job)
{
    const struct td_chain *chain = job->chain;
    int busy_until[TD_CHAIN_STEPS] = { 0 }; /* last step that reads the slot */
    for (int s = 0; s < chain->n_steps; s++) {
        int slot = 0;
        job->streams |= is_streamed(&chain->steps[s]);
        if (!has_slot(&chain->steps[s]))
            continue;
        while (slot < job->n_slots && busy_until[slot] >= s)
            slot++;
        if (slot == job->n_slots)
            job->n_slots++;
        busy_until[slot] = last_use(chain, chain->n_inputs + s);
        job->slots[s] = slot;
    }
}

/* Returns the number of elements per block if a chain needs `n` slots of the given width. */
static int64_t block_elements(int n, size_t width, int64_t numel)
{
    const int64_t fit = (int64_t)(SCRATCH_BYTES / ((size_t)(n > 0 ? n : 1) * width));
    const int64_t block = td_smaller(fit / BLOCK_UNIT * BLOCK_UNIT, BLOCK_MOST);
    return td_smaller(td_larger(block, BLOCK_UNIT), td_round_up(numel, BLOCK_UNIT));
}

static size_t greatest_width(const struct td_chain *chain)
{
    size_t width = 1;
    for (int i = 0; i < chain->n_inputs; i++) {
        const size_t its = td_dtype_info(chain->inputs[i]->dtype)->size;
        width = its > width ? its : width;
    }
    for (int s = 0; s < chain->n_steps; s++)
        width = chain->steps[s].width > width ? chain->steps[s].width : width;
    return width;
}

/* Repeats an input until any block of it is contiguous. */
static td_status make_tile(struct job *job, int input, struct td_exec *exec, struct td_error *err)
{
    const size_t width = job->inputs[input].width;
    const int64_t period = job->inputs[input].period, total = job->block + period;
    const char *from = job->inputs[input].data;
    char *tile = td_arena_alloc(exec->arena, (size_t)total, width, err);
    if (!tile)
        return err->status;
    for (int64_t at = 0; at < total; at += period)
        memcpy(tile + (size_t)at * width, from, (size_t)td_smaller(period, total - at) * width);
    job->inputs[input].data = tile;
    return TD_OK;
}

static td_status prepare(struct job *job, struct td_exec *exec, struct td_error *err)
{
    const struct td_chain *chain = job->chain;
    const struct td_shape *shapes[TD_CHAIN_INPUTS] = { NULL };
    uint32_t full[TD_CHAIN_INPUTS];
    td_status status = TD_OK;
    for (int i = 0; i < chain->n_inputs; i++)
        shapes[i] = &chain->inputs[i]->shape;
    job->shape = chain->shape;
    td_broadcast_merge(&job->shape, shapes, chain->n_inputs, full);
    /* The sizes of blocks and tiles depend on each other. Counting every input as a slot first
     * gives a lower bound of the block, which decides about the tiles. */
    assign_slots(job);
    const size_t width = greatest_width(chain);
    const int n_steps_slots = job->n_slots;
    job->block = block_elements(n_steps_slots + chain->n_inputs, width, job->numel);
    for (int i = 0; i < chain->n_inputs && status == TD_OK; i++) {
        const struct td_tensor *tensor = chain->inputs[i];
        job->inputs[i].width = td_dtype_info(tensor->dtype)->size;
        job->inputs[i].data = tensor->data;
        job->inputs[i].period = tensor->numel;
        job->inputs[i].source = source_of(full[i], job->shape.rank, tensor->numel, job->block);
        td_repeat_init(&job->inputs[i].repeat, &job->shape, full[i]);
        if (job->inputs[i].source == SOURCE_COPY)
            job->inputs[i].slot = job->n_slots++;
        if (job->inputs[i].source == SOURCE_TILE)
            status = make_tile(job, i, exec, err);
    }
    job->slot_bytes = (size_t)job->block * width;
    return status;
}

uint64_t td_chain_workspace(const struct td_tensor *const *inputs, int n,
                            const struct td_tensor *out)
{
    uint64_t bytes = 0;
    for (int i = 0; i < n; i++)
        if (inputs[i]->numel < out->numel && inputs[i]->numel <= BLOCK_MOST)
            bytes +=
                ((uint64_t)inputs[i]->numel + BLOCK_MOST) * td_dtype_info(inputs[i]->dtype)->size;
    return bytes;
}

/* ---- Running ----------------------------------------------------------------------------- */

static const void *input_block(const struct job *job, int i, int64_t at, int64_t n, char *scratch)
{
    const size_t width = job->inputs[i].width;
    const char *data = job->inputs[i].data;
    if (job->inputs[i].source == SOURCE_DIRECT)
        return data + (size_t)at * width;
    if (job->inputs[i].source == SOURCE_TILE)
        return data + (size_t)(at % job->inputs[i].period) * width;
    char *copy = scratch + (size_t)job->inputs[i].slot * job->slot_bytes;
    td_repeat_copy(&job->inputs[i].repeat, copy, data, width, at, n);
    return copy;
}

static void run_step(const struct td_chain_step *step, void *to, const void *const *values,
                     int64_t n)
{
    const void *in[TD_CHAIN_OPERANDS];
    for (int k = 0; k < step->n_operands; k++)
        in[k] = values[step->operands[k]];
    if (step->loop)
        step->loop(to, in, n);
    else if (step->cast)
        step->cast(to, in[0], n * step->parts);
    else if (step->widen)
        step->widen(to, in[0], 1, n * step->parts);
    else
        step->narrow(to, 1, in[0], n * step->parts);
}

static void run_block(const struct job *job, int64_t at, int64_t n, char *scratch)
{
    const struct td_chain *chain = job->chain;
    const void *values[TD_CHAIN_INPUTS + TD_CHAIN_STEPS];
    for (int i = 0; i < chain->n_inputs; i++)
        values[i] = input_block(job, i, at, n, scratch);
    for (int s = 0; s < chain->n_steps; s++) {
        const struct td_chain_step *step = &chain->steps[s];
        char *place = step->to ? (char *)step->to->data + (size_t)at * step->width : NULL;
        char *to = has_slot(step) ? scratch + (size_t)job->slots[s] * job->slot_bytes : place;
        run_step(step, to, values, n);
        if (is_streamed(step))
            td_rows_stream(place, to, (size_t)n * step->width);
        values[chain->n_inputs + s] = to;
    }
}

static void run_range(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    /* A block has at least BLOCK_UNIT elements, however many slots there are. */
    _Static_assert((TD_CHAIN_INPUTS + TD_CHAIN_STEPS) * BLOCK_UNIT * 16 <= SCRATCH_BYTES,
                   "a block of every value fits");
    _Alignas(64) char scratch[SCRATCH_BYTES];
    for (int64_t at = begin; at < end; at += job->block)
        run_block(job, at, td_smaller(job->block, end - at), scratch);
    if (job->streams)
        td_rows_end_stream();
}

/* Returns the bytes that a chain reads and writes for each element. */
static int64_t element_bytes(const struct job *job)
{
    size_t bytes = 0;
    for (int i = 0; i < job->chain->n_inputs; i++)
        bytes += job->inputs[i].width;
    for (int s = 0; s < job->chain->n_steps; s++)
        bytes += job->chain->steps[s].to ? job->chain->steps[s].width : 0;
    return (int64_t)bytes;
}

/* Returns the number of elements in one range of parallel_for, which is whole blocks. */
static int64_t range_elements(const struct job *job, int width)
{
    const int64_t bytes = element_bytes(job), least = RANGE_LEAST / bytes;
    const int64_t most =
        td_smaller(job->numel / ((int64_t)width * THREAD_RANGES), RANGE_MOST / bytes);
    return td_larger(td_larger(least, most) / job->block, 1) * job->block;
}

td_status td_chain_run(const struct td_chain *chain, struct td_exec *exec, struct td_error *err)
{
    struct job job = { .chain = chain };
    /* The tensors that receive results have this number of elements. */
    if (!td_shape_numel(&chain->shape, &job.numel) || job.numel == 0)
        return TD_OK;
    const td_status status = prepare(&job, exec, err);
    if (status != TD_OK)
        return status;
    return td_exec_for(exec, job.numel, range_elements(&job, exec->width), run_range, &job, err);
}
