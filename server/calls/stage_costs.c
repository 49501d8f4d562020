#include "server/calls/stage_costs.h"

#include "api/oip/oip.h"
#include "kernels/program/program.h"
#include "server/calls/reply_outputs.h"
#include "server/calls/services.h"

enum {
    JSON_FIXED = 1500,    /* cost of a JSON request or reply without data */
    JSON_IN_PER_BYTE = 3, /* decoding */
    JSON_OUT_PER_BYTE = 2,
    BINARY_FIXED = 500,
    BYTES_PER_NS = 8, /* speed of moving data between buffers */
    /* Speed at which an op reads and writes its tensors, including memory outside the cache. */
    OP_BYTES_PER_NS = 16,
    RANDOM_READ = 10, /* a prefetched read from a random position in a table */
    STEP = 200,       /* a step of a program, in addition to the work of its op */
    STEP_INFER = 250, /* the inference of a step */
    OPERAND_INFER = 50,
    /* Pairs of values that are compared in a nanosecond, to give each result its memory. */
    PAIRS_PER_NS = 8,
    FLOPS_PER_NS = 8, /* speed for small numbers of FLOPs, including packing and tails */
    FEW_FLOPS = 1000000,
    /* A value between 3 (complex, plain C) and 100 (float32, AVX-512). */
    MANY_FLOPS_PER_NS = 16,
    INFLATE_FIXED = 20000, /* includes the memory for zlib's window */
    INFLATE_PER_BYTE = 20, /* per compressed byte: inflating and parsing */
    DEFLATE_FIXED = 60000, /* includes the memory for zlib */
    DEFLATE_PER_BYTE = 25  /* per byte before compression */
};

static uint64_t text_cost(size_t bytes, unsigned per_byte)
{
    return JSON_FIXED + per_byte * (uint64_t)bytes;
}

static uint64_t binary_cost(size_t bytes)
{
    return BINARY_FIXED + (uint64_t)bytes / BYTES_PER_NS;
}

uint64_t td_stage_decode_ns(const struct td_call *call)
{
    const size_t bytes = call->body_bytes, header = call->headers.inference_header;
    if (call->encoded) /* never runs on an I/O thread, because the inflated size is unknown */
        return INFLATE_FIXED + INFLATE_PER_BYTE * (uint64_t)bytes;
    switch (call->body_format) {
    case TD_FORMAT_OIP:
        if (header < bytes)
            return text_cost(header, JSON_IN_PER_BYTE) + binary_cost(bytes - header);
        return text_cost(bytes, JSON_IN_PER_BYTE);
    case TD_FORMAT_JSON:
        return text_cost(bytes, JSON_IN_PER_BYTE);
    case TD_FORMAT_SAFETENSORS:
    case TD_FORMAT_NPY:
        break;
    }
    return binary_cost(bytes);
}

static uint64_t program_infer_cost(const struct td_program *program)
{
    const uint64_t n_values = (uint64_t)program->n_values;
    return STEP_INFER * (uint64_t)program->n_steps + OPERAND_INFER * (uint64_t)program->n_operands +
           n_values * n_values / PAIRS_PER_NS +
           JSON_IN_PER_BYTE * (uint64_t)program->completed_bytes;
}

uint64_t td_stage_admit_ns(const struct td_call *call)
{
    const struct td_program *program = call->op ? td_program_of(call->op) : NULL;
    return (program ? program_infer_cost(program) : 0) +
           (call->task->admit_bytes ? call->task->admit_bytes(call) / BYTES_PER_NS : 0);
}

static uint64_t flops_cost(uint64_t flops)
{
    const uint64_t few = flops < FEW_FLOPS ? flops : FEW_FLOPS;
    return few / FLOPS_PER_NS + (flops - few) / MANY_FLOPS_PER_NS;
}

/* The arithmetic runs while the next bytes arrive, so the slower of the two counts. */
uint64_t td_stage_compute_ns(const struct td_cost *cost)
{
    const uint64_t moving = (cost->bytes_read + cost->bytes_written) / OP_BYTES_PER_NS;
    const uint64_t arithmetic = flops_cost(cost->flops);
    return (moving > arithmetic ? moving : arithmetic) + cost->random_reads * RANDOM_READ +
           cost->steps * STEP;
}

static uint64_t deflate_cost(const struct td_call *call, const struct td_admission *admission)
{
    const size_t bytes = admission->encoded_bound + admission->output_bytes;
    return call->encoding == TD_ENCODING_NONE || bytes < TD_DEFLATE_LEAST
               ? 0
               : DEFLATE_FIXED + DEFLATE_PER_BYTE * (uint64_t)bytes;
}

/* Converting the outputs reads and writes them once. */
static uint64_t conversion_cost(const struct td_call *call, const struct td_admission *admission)
{
    return td_reply_outputs_converted(&call->request) > 0 ? admission->output_bytes / BYTES_PER_NS
                                                          : 0;
}

uint64_t td_stage_encode_ns(const struct td_call *call, const struct td_admission *admission)
{
    const uint64_t fixed = deflate_cost(call, admission) + conversion_cost(call, admission);
    const size_t bound = admission->encoded_bound;
    size_t copied;
    switch (call->reply_format) {
    case TD_FORMAT_OIP:
        copied = td_oip_copied_bytes(&call->request);
        return fixed + text_cost(bound - copied, JSON_OUT_PER_BYTE) + copied / BYTES_PER_NS;
    case TD_FORMAT_JSON:
        return fixed + text_cost(bound, JSON_OUT_PER_BYTE);
    case TD_FORMAT_SAFETENSORS:
    case TD_FORMAT_NPY:
        break;
    }
    return fixed + binary_cost(bound);
}
