#include "tests/support/op_call.h"

#include "tests/support/tensors.h"

#include <stdlib.h>
#include <string.h>

static void set_attr(const struct td_op *op, struct td_op_args *args, const char *name,
                     size_t length, const char *value)
{
    for (int i = 0; i < op->n_attrs; i++) {
        const struct td_attr_spec *attr = &op->attrs[i];
        if (strlen(attr->name) != length || memcmp(attr->name, name, length) != 0)
            continue;
        void *place = args->attrs + attr->offset;
        args->attrs_set |= (uint32_t)1 << i;
        if (attr->kind == TD_ATTR_INT) {
            int64_t number = strtoll(value, NULL, 10);
            memcpy(place, &number, sizeof(number));
            return;
        }
        EXPECT(attr->kind == TD_ATTR_BOUNDS, "%s takes no number", attr->name);
        for (td_bounds bounds = TD_BOUNDS_ERROR; bounds < TD_BOUNDS_COUNT; bounds++)
            if (strncmp(value, td_bounds_name(bounds), strlen(td_bounds_name(bounds))) == 0)
                memcpy(place, &bounds, sizeof(bounds));
        return;
    }
    ck_abort_msg("%s has no attribute \"%.*s\"", op->name, (int)length, name);
}

static const struct td_op *find(const char *name)
{
    const struct td_op *op = td_op_find(name, strlen(name));
    EXPECT(op != NULL, "there is no op %s", name);
    return op;
}

void call_begin(struct op_call *call, const char *name, const char *attrs, struct td_tensor first,
                struct td_tensor second)
{
    const struct td_op *op = find(name);
    memset(call, 0, sizeof(*call));
    call->inputs[0] = first;
    call->inputs[1] = second;
    for (int i = 0; i < op->n_inputs; i++)
        call->args.inputs[i] = (struct td_operand){ &call->inputs[i], 1 };
    td_op_defaults(op, &call->args);
    for (attrs += strspn(attrs, " "); *attrs; attrs += strspn(attrs, " ")) {
        size_t length = strcspn(attrs, "=");
        set_attr(op, &call->args, attrs, length, attrs + length + 1);
        attrs += strcspn(attrs, " ");
    }
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
