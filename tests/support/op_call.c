#include "tests/support/op_call.h"

#include "kernels/op_check.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "0,2" */
static struct td_ints integers(const char *text)
{
    struct td_error err;
    int64_t *values = td_arena_alloc(&test_arena, TD_MAX_INTS, sizeof(values[0]), &err);
    struct td_ints list = { values, 0 };
    EXPECT(values != NULL, "%s", err.message);
    for (char *end; *text; text = *end ? end + 1 : end)
        values[list.count++] = strtoll(text, &end, 10);
    return list;
}

static void set_value(const struct td_attr_spec *attr, struct td_op_args *args, const char *text,
                      void *place)
{
    const int64_t integer = strtoll(text, NULL, 10);
    const double number = strtod(text, NULL);
    const bool truth = strcmp(text, "true") == 0;
    const struct td_ints list = attr->kind == TD_ATTR_INTS ? integers(text) : (struct td_ints){ 0 };
    td_dtype dtype;
    int choice = 0;
    switch (attr->kind) {
    case TD_ATTR_INT:
        memcpy(place, &integer, sizeof(integer));
        break;
    case TD_ATTR_INTS:
        memcpy(place, &list, sizeof(list));
        break;
    case TD_ATTR_FLOAT:
        memcpy(place, &number, sizeof(number));
        break;
    case TD_ATTR_BOOL:
        memcpy(place, &truth, sizeof(truth));
        break;
    case TD_ATTR_CHOICE:
        while (attr->choices[choice] && strcmp(text, attr->choices[choice]) != 0)
            choice++;
        EXPECT(attr->choices[choice] != NULL, "%s cannot be %s", attr->name, text);
        td_op_set_choice(attr, args, choice);
        break;
    case TD_ATTR_DTYPE:
        EXPECT(td_dtype_from_name(text, strlen(text), &dtype), "%s is no dtype", text);
        td_op_set_choice(attr, args, (int)dtype);
        break;
    case TD_ATTR_TEXT:
        memcpy(place, &text, sizeof(text));
        break;
    case TD_ATTR_KIND_COUNT:
        break;
    }
}

/* One "name=value" of a call's attributes. */
static void set_attr(const struct td_op *op, struct td_op_args *args, const char *name,
                     size_t name_length, const char *value, size_t length)
{
    for (int i = 0; i < op->n_attrs; i++) {
        const struct td_attr_spec *attr = &op->attrs[i];
        if (strlen(attr->name) != name_length || memcmp(attr->name, name, name_length) != 0)
            continue;
        struct td_error err;
        void *place = args->attrs + attr->offset;
        const char *text = td_arena_text(&test_arena, value, length, &err);
        args->attrs_set |= (uint32_t)1 << i;
        EXPECT(text != NULL, "%s", err.message);
        set_value(attr, args, text, place);
        return;
    }
    ck_abort_msg("%s has no attribute \"%.*s\"", op->name, (int)name_length, name);
}

static void set_attrs(const struct td_op *op, struct td_op_args *args, const char *at)
{
    td_op_set_defaults(op, args);
    for (at += strspn(at, " "); *at; at += strspn(at, " ")) {
        size_t name_length = strcspn(at, "=");
        const char *value = at + name_length + 1;
        bool quoted = *value == '\'';
        value += quoted;
        size_t length = strcspn(value, quoted ? "'" : " ");
        EXPECT(!quoted || value[length], "no end of %s", value);
        set_attr(op, args, at, name_length, value, length);
        at = value + length + quoted;
    }
}

/* A copy of the list, for the call to change. */
static struct td_operand operand(const struct td_tensor *tensors, int count)
{
    struct td_error err;
    struct td_operand copy = {
        .tensors = td_arena_alloc(&test_arena, (size_t)count, sizeof(*tensors), &err),
        .count = count,
    };
    EXPECT(copy.tensors != NULL, "%s", err.message);
    for (int i = 0; i < count; i++)
        copy.tensors[i] = tensors[i];
    return copy;
}

static const struct td_op *find(const char *name)
{
    const struct td_op *op = td_op_named(name, strlen(name));
    EXPECT(op != NULL, "there is no op %s", name);
    return op;
}

void call_begin_lists(struct op_call *call, const char *name, const char *attrs, int n_first,
                      const struct td_tensor *first, int n_second, const struct td_tensor *second)
{
    const struct td_op *op = find(name);
    memset(call, 0, sizeof(*call));
    call->args.inputs[0] = operand(first, n_first);
    if (op->n_inputs > 1)
        call->args.inputs[1] = operand(second, n_second);
    set_attrs(op, &call->args, attrs);
}

void call_begin(struct op_call *call, const char *op, const char *attrs, struct td_tensor first,
                struct td_tensor second)
{
    call_begin_lists(call, op, attrs, 1, &first, 1, &second);
}

void call_infer(struct op_call *call, const char *name)
{
    call->status = td_op_infer(find(name), &call->args, &test_arena, &call->err);
}

void call_run(struct op_call *call, const char *name, struct td_exec *exec)
{
    const struct td_op *op = find(name);
    call_infer(call, name);
    if (call->status != TD_OK)
        return;
    for (int i = 0; i < call->args.n_outputs; i++) {
        struct td_tensor *out = &call->args.outputs[i];
        EXPECT(td_tensor_alloc(out, &test_arena, &call->err) == TD_OK, "%s", call->err.message);
        memset(out->data, 0xA5, out->bytes);
    }
    if (!exec) {
        td_exec_serial(&call->serial, &test_arena);
        exec = &call->serial;
    }
    call->status = op->run(&call->args, exec, &call->err);
}

void call_op(struct op_call *call, const char *op, const char *attrs, struct td_tensor first,
             struct td_tensor second, struct td_exec *exec)
{
    call_begin(call, op, attrs, first, second);
    call_run(call, op, exec);
}

void expect_memory_needed(const char *op, const char *attrs, struct td_tensor first,
                          struct td_tensor second)
{
    struct td_arena arena;
    struct td_exec exec;
    struct op_call call;
    char space[2048];
    for (size_t size = 0; size < sizeof(space); size += 16) {
        call_begin(&call, op, attrs, first, second);
        td_arena_init(&arena, space, size, &no_memory);
        td_status status = td_op_infer(find(op), &call.args, &arena, &call.err);
        EXPECT(status == TD_OK || status == TD_MEMORY_EXHAUSTED, "%s", call.err.message);
        td_arena_reset(&arena);
        td_exec_serial(&exec, &arena);
        call_run(&call, op, &exec);
        EXPECT(call.status == TD_MEMORY_EXHAUSTED || (call.status == TD_OK && size > 0), "%s",
               call.err.message);
        td_arena_reset(&arena);
    }
    ck_assert_int_eq(call.status, TD_OK);
}

void expect_deadlines(struct op_call *call, const char *op, int64_t least, const char *case_name)
{
    struct thread_exec exec;
    thread_exec_init(&exec, 1, 0);
    call_run(call, op, &exec.exec);
    EXPECT(call->status == TD_OK, "%s: %s", case_name, call->err.message);
    const int64_t needed = atomic_load(&exec.ranges_run);
    EXPECT(needed > least, "%s: %" PRId64 " ranges", case_name, needed);
    for (int64_t allowed = 0; allowed < needed; allowed += 1 + needed / TRIED_DEADLINES) {
        thread_exec_init(&exec, 1, 0);
        exec.ranges_allowed = allowed;
        call_run(call, op, &exec.exec);
        EXPECT(call->status == TD_DEADLINE_EXCEEDED && call->err.status == TD_DEADLINE_EXCEEDED,
               "%s: %s after %" PRId64 " of %" PRId64 " ranges", case_name,
               td_status_name(call->status), allowed, needed);
    }
}

void expect_refusal(const struct op_call *call, td_status status, const char *message,
                    const char *input, const char *attribute, const char *case_name)
{
    EXPECT(call->status == status && call->err.status == status, "%s: %s", case_name,
           td_status_name(call->status));
    ck_assert_str_eq(call->err.message, message);
    ck_assert_str_eq(call->err.input, input);
    ck_assert_str_eq(call->err.attribute, attribute);
}

void expect_index_error(const struct td_error *err, const char *input, const char *message,
                        int64_t bad_count)
{
    struct td_shape position = { .rank = err->position_rank };
    char at[TD_SHAPE_TEXT], bound[40] = "negative; must be at least 0",
                            members[TD_SHAPE_TEXT + 200];
    EXPECT(err->status == TD_INDEX_OUT_OF_BOUNDS && err->has_index, "\"%s\"", err->message);
    ck_assert_str_eq(err->message, message);
    ck_assert_str_eq(err->input, input);
    memcpy(position.dim, err->position, (size_t)position.rank * sizeof(position.dim[0]));
    if (err->has_bound)
        snprintf(bound, sizeof(bound), "not in [0, %" PRId64 ")", err->bound);
    snprintf(members, sizeof(members), "%s%s = %" PRId64 " is %s", input,
             position.rank > 0 ? td_shape_text(&position, at, sizeof(at)) : "", err->index, bound);
    EXPECT(strncmp(message, members, strlen(members)) == 0, "\"%s\" is not \"%s\"", members,
           message);
    EXPECT(err->bad_count == bad_count, "%s: %" PRId64 " bad", message, err->bad_count);
}

void expect_shape_names(const struct td_error *err, const char *names)
{
    char got[200] = "";
    for (int i = 0; i < err->n_shapes; i++)
        snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%s", i > 0 ? " " : "",
                 err->shapes[i].name);
    ck_assert_str_eq(got, names);
}
