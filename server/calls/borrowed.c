#include "server/calls/borrowed.h"

#include "kernels/program/program.h"
#include "kernels/shown_text.h"
#include "server/memory/fault_guard.h"
#include "server/store/store.h"

#include <stddef.h>

/* A range of memory that the call has borrowed. */
struct td_borrowed_range {
    struct td_borrowed_range *next;
    const void *data;
    struct td_buffer *owner; /* owner of a stored tensor; NULL for a client's shared memory */
    const char *name;
    size_t name_length;
};

static td_status add_range(struct td_borrowed *borrowed, struct td_arena *arena,
                           struct td_borrowed_range range, struct td_error *err)
{
    struct td_borrowed_range *noted = td_arena_alloc(arena, 1, sizeof *noted, err);
    if (!noted)
        return TD_MEMORY_EXHAUSTED;
    *noted = range;
    noted->next = borrowed->ranges;
    borrowed->ranges = noted;
    return TD_OK;
}

static td_status resolve(struct td_resolver *self, const char *name, size_t length,
                         struct td_arena *arena, struct td_tensor *out, struct td_error *err)
{
    struct td_borrowed *borrowed =
        (struct td_borrowed *)(void *)((char *)self - offsetof(struct td_borrowed, resolver));
    const td_status status = td_resolve(borrowed->store, name, length, arena, out, err);
    return status != TD_OK ? status
                           : add_range(borrowed, arena,
                                       (struct td_borrowed_range){ .data = out->data,
                                                                   .owner = out->owner,
                                                                   .name = name,
                                                                   .name_length = length },
                                       err);
}

static td_status find(struct td_regions *self, const char *name, size_t length, uint64_t offset,
                      uint64_t bytes, struct td_arena *arena, void **out, struct td_error *err)
{
    struct td_borrowed *borrowed =
        (struct td_borrowed *)(void *)((char *)self - offsetof(struct td_borrowed, regions));
    const td_status status =
        borrowed->shm->find(borrowed->shm, name, length, offset, bytes, arena, out, err);
    return status != TD_OK ? status
                           : add_range(borrowed, arena,
                                       (struct td_borrowed_range){
                                           .data = *out, .name = name, .name_length = length },
                                       err);
}

void td_borrowed_begin(struct td_borrowed *borrowed, struct td_resolver *store,
                       struct td_regions *shm)
{
    *borrowed = (struct td_borrowed){ .resolver.resolve = resolve,
                                      .regions.find = find,
                                      .store = store,
                                      .shm = shm,
                                      .faults = td_guard_faults() };
}

/* True if the tensor must be copied before it is checked. An index of an unsupported dtype is
 * refused without being read, so it is not copied. */
static bool must_copy(td_role role, td_dtype_set dtypes, const struct td_tensor *tensor)
{
    return role == TD_ROLE_INDEX && (dtypes >> tensor->dtype & 1) && td_store_is_mapped(tensor);
}

/* True if the value is a constant of a program that must be copied, because its steps use it as
 * indices. */
static bool must_copy_value(const struct td_program_value *value)
{
    return value->constant && value->is_index &&
           must_copy(TD_ROLE_INDEX, TD_DTYPES_INDEX, value->constant);
}

uint64_t td_borrowed_index_bytes(const struct td_request *request)
{
    const struct td_program *program = td_program_of(request->op);
    uint64_t bytes = 0;
    for (int i = 0; i < request->op->n_inputs; i++) {
        const struct td_input_spec *spec = &request->op->inputs[i];
        const struct td_operand *operand = &request->args.inputs[i];
        for (int j = 0; j < operand->count; j++)
            if (must_copy(spec->role, spec->dtypes, &operand->tensors[j]))
                bytes += operand->tensors[j].bytes;
    }
    for (int v = 0; program && v < program->n_values; v++)
        if (must_copy_value(&program->values[v]))
            bytes += program->values[v].constant->bytes;
    return bytes;
}

/* Copies the constants of a program that its steps use as indices. */
static td_status copy_constants(const struct td_program *program, struct td_arena *arena,
                                struct td_error *err)
{
    td_status status = TD_OK;
    for (int v = 0; v < program->n_values && status == TD_OK; v++) {
        struct td_program_value *value = &program->values[v];
        if (!must_copy_value(value))
            continue;
        struct td_tensor *copy = td_arena_alloc(arena, 1, sizeof *copy, err);
        if (!copy)
            return err->status;
        *copy = *value->constant;
        status = td_tensor_copy(copy, arena, err);
        value->constant = copy;
    }
    return status;
}

td_status td_borrowed_copy_indices(struct td_request *request, struct td_arena *arena,
                                   struct td_error *err)
{
    const struct td_program *program = td_program_of(request->op);
    td_status status = TD_OK;
    for (int i = 0; i < request->op->n_inputs; i++) {
        const struct td_input_spec *spec = &request->op->inputs[i];
        const struct td_operand *operand = &request->args.inputs[i];
        for (int j = 0; status == TD_OK && j < operand->count; j++)
            if (must_copy(spec->role, spec->dtypes, &operand->tensors[j]))
                status = td_tensor_copy(&operand->tensors[j], arena, err);
    }
    return status == TD_OK && program ? copy_constants(program, arena, err) : status;
}

bool td_borrowed_is_table(const struct td_borrowed *borrowed, const struct td_tensor *tensor)
{
    if (!tensor->owner)
        return false;
    for (const struct td_borrowed_range *range = borrowed->ranges; range; range = range->next)
        if (range->owner && range->data == tensor->data)
            return true;
    return false;
}

static bool is_lost(const struct td_borrowed *borrowed, const struct td_borrowed_range *range)
{
    return range->owner ? td_store_is_cut(range->owner)
                        : td_guard_faults() != borrowed->faults && td_guard_marked_at(range->data);
}

td_status td_borrowed_check(const struct td_borrowed *borrowed, struct td_error *err)
{
    for (const struct td_borrowed_range *range = borrowed->ranges; range; range = range->next) {
        if (!is_lost(borrowed, range))
            continue;
        const char *shown = TD_SHOWN(range->name, range->name_length);
        return range->owner
                   ? td_error_set(
                         err, TD_DEVICE_UNAVAILABLE,
                         "the file of tensor '%s' is damaged, or was truncated while it was read",
                         shown)
                   : td_error_set(err, TD_INVALID_ARGUMENT,
                                  "the shared memory region '%s' was truncated while it was in use",
                                  shown);
    }
    return TD_OK;
}
