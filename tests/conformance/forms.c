#include "tests/conformance/forms.h"

#include "tests/support/tensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const form_names[FORM_COUNT] = {
    [FORM_FLAT] = "flat",
    [FORM_NESTED] = "nested",
    [FORM_BASE64] = "base64",
    [FORM_SAFETENSORS] = "safetensors",
    [FORM_OIP] = "Open Inference Protocol",
    [FORM_OIP_BINARY] = "Open Inference Protocol, binary",
    [FORM_PLAN] = "plan",
};

const char *form_name(enum form form)
{
    return form_names[form];
}

/* NULL: the format lacks the dtype, or has it as pairs. */
static const struct {
    const char *safetensors, *oip;
} dtype_names[TD_DTYPE_COUNT] = {
    [TD_DTYPE_BOOL] = { "BOOL", "BOOL" },     [TD_DTYPE_INT8] = { "I8", "INT8" },
    [TD_DTYPE_INT16] = { "I16", "INT16" },    [TD_DTYPE_INT32] = { "I32", "INT32" },
    [TD_DTYPE_INT64] = { "I64", "INT64" },    [TD_DTYPE_UINT8] = { "U8", "UINT8" },
    [TD_DTYPE_UINT16] = { "U16", "UINT16" },  [TD_DTYPE_UINT32] = { "U32", "UINT32" },
    [TD_DTYPE_UINT64] = { "U64", "UINT64" },  [TD_DTYPE_FLOAT16] = { "F16", "FP16" },
    [TD_DTYPE_BFLOAT16] = { "BF16", "BF16" }, [TD_DTYPE_FLOAT32] = { "F32", "FP32" },
    [TD_DTYPE_FLOAT64] = { "F64", "FP64" },   [TD_DTYPE_COMPLEX64] = { "C64", "FP32" },
    [TD_DTYPE_COMPLEX128] = { NULL, "FP64" }, [TD_DTYPE_STRING] = { NULL, "BYTES" },
};

/* ---- the tensors of a case ------------------------------------------------------------------- */

struct input {
    char name[40]; /* "params", "indices.1" */
    const struct tree *tree;
    struct values values;
};

struct inputs {
    int count;
    struct input at[MOST_TENSORS];
};

static void must(bool holds, const struct why *why)
{
    EXPECT(holds, "the case: %s", why->text);
}

static void add_input(struct inputs *inputs, const struct tree *tree, struct text name, int number,
                      struct td_arena *arena)
{
    struct why why;
    EXPECT(inputs->count < MOST_TENSORS, "a case has more tensors than there is room for");
    struct input *input = &inputs->at[inputs->count++];
    int used = snprintf(input->name, sizeof input->name, "%.*s", (int)name.length, name.at);
    if (number >= 0)
        snprintf(input->name + used, sizeof input->name - (size_t)used, ".%d", number);
    input->tree = tree;
    must(values_of_tree(tree, LAYOUT_ANY, arena, &input->values, &why), &why);
}

static void find_inputs(const struct tree *one, struct td_arena *arena, struct inputs *out)
{
    out->count = 0;
    for (const struct tree *input = tree_member(one, "inputs")->first; input; input = input->next) {
        int number = 0;
        if (input->kind == '{')
            add_input(out, input, input->name, -1, arena);
        else
            for (const struct tree *tree = input->first; tree; tree = tree->next)
                add_input(out, tree, input->name, number++, arena);
    }
}

void read_expected(const struct tree *one, bool list, struct td_arena *arena, struct outputs *out)
{
    struct why why;
    struct td_error err;
    const struct tree *expect = tree_member(one, "expect"), *bounds = tree_member(expect, "bounds");
    const struct tree *outputs = tree_member(expect, "outputs");
    *out = (struct outputs){ 0 };
    if (bounds) {
        out->policy = tree_member(bounds, "policy")->string;
        out->replaced = tree_member(bounds, "replaced")->source;
    }
    for (const struct tree *tree = outputs ? outputs->first : NULL; tree; tree = tree->next) {
        char name[24] = "output";
        EXPECT(out->count < MOST_TENSORS, "a case has more tensors than there is room for");
        struct named *named = &out->at[out->count];
        if (list)
            snprintf(name, sizeof name, "outputs.%d", out->count);
        out->count++;
        named->name = (struct text){ td_arena_text(arena, name, sizeof name, &err), strlen(name) };
        if (outputs->kind == '{')
            named->name = tree->name;
        must(values_of_tree(tree, LAYOUT_ANY, arena, &named->values, &why), &why);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put(FILE *file, struct text text)
{
    fwrite(text.at, 1, text.length, file);
}

/* The values of flat data as lists of the dimensions from `depth` on; returns the value after
 * them. */
static const struct tree *write_nested(FILE *file, const struct tree *value,
                                       const struct td_shape *shape, int depth)
{
    if (depth == shape->rank) {
        put(file, value->source);
        return value->next;
    }
    fputc('[', file);
    for (int64_t i = 0; i < shape->dim[depth]; i++) {
        if (i > 0)
            fputc(',', file);
        value = write_nested(file, value, shape, depth + 1);
    }
    fputc(']', file);
    return value;
}

static void write_base64(FILE *file, const struct values *values)
{
    char *bytes;
    size_t size;
    FILE *raw = open_memstream(&bytes, &size);
    values_write(raw, values);
    fclose(raw);
    base64_write(file, (struct text){ bytes, size });
    free(bytes);
}

static void write_tensor(FILE *file, const struct input *input, enum form form)
{
    const struct tree *data = tree_member(input->tree, "data");
    if (form == FORM_FLAT || (form == FORM_NESTED && !data)) {
        put(file, input->tree->source);
        return;
    }
    fputs("{\"dtype\":", file);
    put(file, tree_member(input->tree, "dtype")->source);
    fputs(",\"shape\":", file);
    put(file, tree_member(input->tree, "shape")->source);
    if (form == FORM_NESTED) {
        fputs(",\"data\":", file);
        write_nested(file, data->first, &input->values.shape, 0);
        fputs("}", file);
    } else {
        fputs(",\"base64\":\"", file);
        write_base64(file, &input->values);
        fputs("\"}", file);
    }
}

/* "a.0" and "a.1" are elements of the list "a". */
static int list_name(const struct input *input)
{
    const char *dot = strchr(input->name, '.');
    return dot ? (int)(dot - input->name) : 0;
}

static void write_json(FILE *file, const struct tree *one, const struct inputs *inputs,
                       enum form form)
{
    static const char *const layouts[] = { "\"flat\"", "\"nested\"", "\"base64\"" };
    const struct tree *attrs = tree_member(one, "attrs");
    fprintf(file, "{\"response\":%s", layouts[form]);
    for (const struct tree *attr = attrs->first; attr; attr = attr->next) {
        fprintf(file, ",\"%.*s\":", (int)attr->name.length, attr->name.at);
        put(file, attr->source);
    }
    for (int i = 0; i < inputs->count; i++) {
        const struct input *input = &inputs->at[i];
        const int list = list_name(input);
        const bool first = !list || strcmp(input->name + list, ".0") == 0;
        const bool last = !list || i + 1 == inputs->count ||
                          strncmp(input->name, inputs->at[i + 1].name, (size_t)list + 1) != 0;
        fputc(',', file);
        if (first)
            fprintf(file, "\"%.*s\":%s", list ? list : (int)strlen(input->name), input->name,
                    list ? "[" : "");
        write_tensor(file, input, form);
        if (list && last)
            fputc(']', file);
    }
    /* A list without tensors has no inputs of its name. */
    for (const struct tree *input = tree_member(one, "inputs")->first; input; input = input->next)
        if (input->kind == '[' && input->count == 0)
            fprintf(file, ",\"%.*s\":[]", (int)input->name.length, input->name.at);
    fputc('}', file);
}

/* ---- safetensors ----------------------------------------------------------------------------- */

static void write_safetensors(FILE *file, const struct inputs *inputs)
{
    char *header, *data;
    size_t header_bytes, data_bytes;
    FILE *text = open_memstream(&header, &header_bytes);
    FILE *raw = open_memstream(&data, &data_bytes);
    fputc('{', text);
    for (int i = 0; i < inputs->count; i++) {
        const struct input *input = &inputs->at[i];
        char dims[TD_SHAPE_TEXT];
        fflush(raw);
        const size_t begin = data_bytes;
        values_write(raw, &input->values);
        fflush(raw);
        fprintf(text, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
                i > 0 ? "," : "", input->name, dtype_names[input->values.dtype].safetensors,
                td_shape_text(&input->values.shape, dims, sizeof dims), begin, data_bytes);
    }
    fputc('}', text);
    fclose(text);
    fclose(raw);
    const uint64_t length = header_bytes;
    fwrite(&length, sizeof length, 1, file);
    fwrite(header, 1, header_bytes, file);
    fwrite(data, 1, data_bytes, file);
    free(header);
    free(data);
}

/* Returns the list "[0, 2]" as the text "0,2". */
static struct text list_text(const struct tree *list)
{
    struct td_error err;
    char *text = td_arena_alloc(&test_arena, list->source.length, 1, &err);
    size_t length = 0;
    EXPECT(text, "%s", err.message);
    for (const struct tree *item = list->first; item; item = item->next) {
        memcpy(text + length, item->source.at, item->source.length);
        length += item->source.length;
        text[length++] = ',';
    }
    return (struct text){ text, length > 0 ? length - 1 : 0 };
}

/* An attribute, or a number, as text. */
static struct text attr_text(const struct tree *attr)
{
    return attr->kind == '[' ? list_text(attr) : attr->kind == '"' ? attr->string : attr->source;
}

static void list_attrs(const struct tree *one, struct body *out)
{
    for (const struct tree *attr = tree_member(one, "attrs")->first; attr; attr = attr->next) {
        EXPECT(out->n_attrs < MOST_ATTRS, "a case has more attributes than there is room for");
        out->attrs[out->n_attrs].name = attr->name;
        out->attrs[out->n_attrs++].value = attr_text(attr);
    }
}

/* ---- the Open Inference Protocol
 * -------------------------------------------------------------- */

static void write_oip_data(FILE *file, const struct input *input)
{
    const struct tree *data = tree_member(input->tree, "data");
    fputs(",\"data\":[", file);
    for (const struct tree *value = data->first; value; value = value->next) {
        const bool number = input->values.dtype != TD_DTYPE_STRING;
        if (td_dtype_is_complex(input->values.dtype)) {
            put(file, attr_text(value->first));
            fputc(',', file);
            put(file, attr_text(value->first->next));
        } else {
            put(file, number ? attr_text(value) : value->source); /* NaN has no quotes */
        }
        if (value->next)
            fputc(',', file);
    }
    fputs("]}", file);
}

/* The tensor; its bytes go to raw, unless that is NULL. */
static void write_oip_input(FILE *file, FILE *raw, const struct input *input)
{
    char dims[TD_SHAPE_TEXT];
    char *bytes;
    size_t size;
    struct td_shape shape = input->values.shape;
    if (td_dtype_is_complex(input->values.dtype))
        shape.dim[shape.rank++] = 2;
    fprintf(file, "{\"name\":\"%s\",\"datatype\":\"%s\",\"shape\":%s", input->name,
            dtype_names[input->values.dtype].oip, td_shape_text(&shape, dims, sizeof dims));
    if (!raw) {
        write_oip_data(file, input);
        return;
    }
    FILE *one = open_memstream(&bytes, &size);
    values_write(one, &input->values);
    fclose(one);
    fprintf(file, ",\"parameters\":{\"binary_data_size\":%zu}}", size);
    fwrite(bytes, 1, size, raw);
    free(bytes);
}

/* Writes the JSON; the bytes of tensors go to raw, unless that is NULL. */
static void write_oip(FILE *file, FILE *raw, const struct tree *one, const struct inputs *inputs,
                      bool pairs)
{
    fprintf(file, "{\"id\":\"a\",\"parameters\":{\"binary_data_output\":%s",
            raw ? "true" : "false");
    if (pairs)
        fputs(",\"complex\":true", file);
    for (const struct tree *attr = tree_member(one, "attrs")->first; attr; attr = attr->next) {
        fprintf(file, ",\"%.*s\":", (int)attr->name.length, attr->name.at);
        if (attr->kind == '[')
            fputc('"', file);
        put(file, attr->kind == '[' ? list_text(attr) : attr->source);
        if (attr->kind == '[')
            fputc('"', file);
    }
    fputs("},\"inputs\":[", file);
    for (int i = 0; i < inputs->count; i++) {
        fputs(i > 0 ? "," : "", file);
        write_oip_input(file, raw, &inputs->at[i]);
    }
    fputs("]}", file);
}

/* ---- which form can express what
 * -------------------------------------------------------------- */

struct contents {
    bool complex, complex128, string, base64_string, real, empty_list;
};

static void note(struct contents *contents, td_dtype dtype, const struct tree *tree)
{
    contents->complex |= td_dtype_is_complex(dtype);
    contents->complex128 |= dtype == TD_DTYPE_COMPLEX128;
    contents->string |= dtype == TD_DTYPE_STRING;
    contents->base64_string |= dtype == TD_DTYPE_STRING && tree_member(tree, "base64") != NULL;
    contents->real |= dtype >= TD_DTYPE_FLOAT16 && dtype <= TD_DTYPE_FLOAT64;
}

static struct contents contents_of(const struct tree *one, const struct inputs *inputs,
                                   struct td_arena *arena)
{
    struct contents contents = { 0 };
    struct outputs outputs;
    const struct tree *wanted = tree_member(tree_member(one, "expect"), "outputs");
    read_expected(one, false, arena, &outputs);
    for (int i = 0; i < inputs->count; i++)
        note(&contents, inputs->at[i].values.dtype, inputs->at[i].tree);
    const bool real_input = contents.real;
    const struct tree *tree = wanted ? wanted->first : NULL;
    for (int i = 0; tree; i++, tree = tree->next)
        note(&contents, outputs.at[i].values.dtype, tree);
    contents.real = real_input; /* a real output stays one beside complex numbers */
    for (const struct tree *input = tree_member(one, "inputs")->first; input; input = input->next)
        contents.empty_list |= input->kind == '[' && input->count == 0;
    return contents;
}

/* Has the case inputs of one dtype? Plans are only of such. */
static bool can_plan(const struct tree *one, const struct inputs *inputs)
{
    for (int i = 1; i < inputs->count; i++)
        if (inputs->at[i].values.dtype != inputs->at[0].values.dtype)
            return false;
    return text_is(tree_member(one, "op")->string, "einsum") && inputs->count > 0;
}

static bool can_express(const struct tree *one, const struct inputs *inputs, enum form form,
                        struct td_arena *arena)
{
    const struct contents contents = contents_of(one, inputs, arena);
    switch (form) {
    case FORM_SAFETENSORS:
        return !contents.string && !contents.complex128 && !contents.empty_list;
    case FORM_OIP:
    case FORM_OIP_BINARY: /* all floats are pairs, or none */
        return !(contents.complex && contents.real) && !contents.empty_list &&
               !(form == FORM_OIP && contents.base64_string);
    case FORM_PLAN:
        return can_plan(one, inputs);
    default:
        return true;
    }
}

static void write_plan(FILE *file, const struct tree *one, const struct inputs *inputs)
{
    fputs("{\"equation\":", file);
    put(file, tree_member(tree_member(one, "attrs"), "equation")->source);
    fputs(",\"dtype\":", file);
    put(file, tree_member(inputs->at[0].tree, "dtype")->source);
    fputs(",\"shapes\":[", file);
    for (int i = 0; i < inputs->count; i++) {
        fputs(i > 0 ? "," : "", file);
        put(file, tree_member(inputs->at[i].tree, "shape")->source);
    }
    fputs("]}", file);
}

static void write_form(FILE *file, const struct tree *one, const struct inputs *inputs,
                       enum form form, struct td_arena *arena, struct body *out)
{
    char *data = NULL;
    size_t data_bytes = 0;
    const bool pairs = contents_of(one, inputs, arena).complex;
    switch (form) {
    case FORM_SAFETENSORS:
        list_attrs(one, out);
        write_safetensors(file, inputs);
        break;
    case FORM_OIP:
        write_oip(file, NULL, one, inputs, pairs);
        break;
    case FORM_OIP_BINARY: {
        FILE *raw = open_memstream(&data, &data_bytes);
        write_oip(file, raw, one, inputs, pairs);
        fclose(raw);
        out->json_bytes = (size_t)ftell(file);
        fwrite(data, 1, data_bytes, file);
        free(data);
        break;
    }
    case FORM_PLAN:
        write_plan(file, one, inputs);
        break;
    default:
        write_json(file, one, inputs, form);
        break;
    }
}

bool write_body(const struct tree *one, enum form form, struct td_arena *arena, struct body *out)
{
    char *bytes;
    size_t size;
    struct inputs inputs;
    struct td_error err;
    *out = (struct body){ .json_bytes = SIZE_MAX };
    find_inputs(one, arena, &inputs);
    if (!can_express(one, &inputs, form, arena))
        return false;
    FILE *file = open_memstream(&bytes, &size);
    write_form(file, one, &inputs, form, arena, out);
    fclose(file);
    out->bytes = (struct text){ td_arena_text(arena, bytes, size, &err), size };
    EXPECT(out->bytes.at, "%s", err.message);
    free(bytes);
    return true;
}

/* ---- replies
 * ----------------------------------------------------------------------------------- */

static struct named *add_output(struct outputs *out, struct text name)
{
    EXPECT(out->count < MOST_TENSORS, "a reply has more tensors than there is room for");
    struct named *named = &out->at[out->count++];
    *named = (struct named){ .name = name };
    return named;
}

static struct text numbered(int i, struct td_arena *arena)
{
    char name[24];
    struct td_error err;
    const int length = snprintf(name, sizeof name, "outputs.%d", i);
    return (struct text){ td_arena_text(arena, name, (size_t)length, &err), (size_t)length };
}

static bool read_json(const struct tree *reply, enum layout layout, struct td_arena *arena,
                      struct outputs *out, struct why *why)
{
    static const struct text single = { "output", 6 };
    const struct tree *one = tree_member(reply, "output"), *all = tree_member(reply, "outputs"),
                      *bounds = tree_member(reply, "bounds");
    if (bounds) {
        const struct tree *policy = tree_member(bounds, "policy"),
                          *replaced = tree_member(bounds, "replaced");
        if (!policy || !replaced || bounds->count != 2)
            return because(why, "bounds are %.*s", (int)bounds->source.length, bounds->source.at);
        out->policy = policy->string;
        out->replaced = replaced->source;
    }
    if (!one == !all)
        return because(why, "the reply has not one of output and outputs");
    if (one)
        return values_of_tree(one, layout, arena, &add_output(out, single)->values, why);
    for (const struct tree *tree = all->first; tree; tree = tree->next) {
        const struct text name = all->kind == '{' ? tree->name : numbered(out->count, arena);
        if (!values_of_tree(tree, layout, arena, &add_output(out, name)->values, why))
            return false;
    }
    return true;
}

static bool find_dtype(const struct tree *name, bool oip, td_dtype *out)
{
    for (int i = 0; name && i < TD_DTYPE_COUNT; i++) {
        const char *known = oip ? dtype_names[i].oip : dtype_names[i].safetensors;
        *out = (td_dtype)i;
        if (known && text_is(name->string, known))
            return true;
    }
    return false;
}

static uint64_t count_of(const struct tree *tree)
{
    return tree && tree->kind == '0' ? strtoull(tree->source.at, NULL, 10) : UINT64_MAX;
}

/* The tensors must cover the data, in the order of the header. */
static bool read_safetensors(struct text bytes, struct td_arena *arena, struct outputs *out,
                             struct why *why)
{
    uint64_t length, covered = 0;
    if (bytes.length < sizeof length)
        return because(why, "%zu bytes are no safetensors", bytes.length);
    memcpy(&length, bytes.at, sizeof length);
    if (length > bytes.length - sizeof length)
        return because(why, "the header is longer than the reply");
    const struct text data = { bytes.at + sizeof length + length,
                               bytes.length - sizeof length - (size_t)length };
    const struct tree *header =
        tree_read((struct text){ bytes.at + sizeof length, (size_t)length }, arena);
    if (!header || header->kind != '{')
        return because(why, "the header is not JSON");
    for (const struct tree *tree = header->first; tree; tree = tree->next) {
        if (text_is(tree->name, "__metadata__")) {
            const struct tree *policy = tree_member(tree, "bounds.policy");
            if (policy) {
                out->policy = policy->string;
                out->replaced = tree_member(tree, "bounds.replaced")->string;
            }
            continue;
        }
        struct values *values = &add_output(out, tree->name)->values;
        const struct tree *offsets = tree_member(tree, "data_offsets");
        if (!find_dtype(tree_member(tree, "dtype"), false, &values->dtype) ||
            !shape_of_tree(tree_member(tree, "shape"), &values->shape, why) || !offsets ||
            offsets->count != 2)
            return because(why, "an entry of the header is %.*s", (int)tree->source.length,
                           tree->source.at);
        const uint64_t begin = count_of(offsets->first), end = count_of(offsets->first->next);
        if (begin != covered || end < begin || end > data.length)
            return because(why, "offsets %" PRIu64 ", %" PRIu64 " after %" PRIu64, begin, end,
                           covered);
        covered = end;
        if (!values_of_bytes((struct text){ data.at + begin, (size_t)(end - begin) }, arena, values,
                             why))
            return false;
    }
    return covered == data.length || because(why, "bytes after the last tensor");
}

/* A tensor of a reply; *data is what follows the JSON. */
static bool read_oip_output(const struct tree *tree, struct text *data, struct td_arena *arena,
                            struct outputs *out, struct why *why)
{
    const struct tree *name = tree_member(tree, "name"),
                      *parameters = tree_member(tree, "parameters"),
                      *pairs = tree_member(parameters, "complex"),
                      *binary = tree_member(parameters, "binary_data_size");
    if (!name)
        return because(why, "an output has no name");
    struct values *values = &add_output(out, name->string)->values;
    struct td_shape *shape = &values->shape;
    if (!find_dtype(tree_member(tree, "datatype"), true, &values->dtype) ||
        !shape_of_tree(tree_member(tree, "shape"), shape, why))
        return because(why, "an output is %.*s", (int)tree->source.length, tree->source.at);
    if (pairs) {
        if (pairs->kind != 't' || shape->rank == 0 || shape->dim[--shape->rank] != 2)
            return because(why, "pairs are %.*s", (int)tree->source.length, tree->source.at);
        values->dtype =
            values->dtype == TD_DTYPE_FLOAT32 ? TD_DTYPE_COMPLEX64 : TD_DTYPE_COMPLEX128;
    }
    if (!binary)
        return values_of_numbers(tree_member(tree, "data"), arena, values, why);
    const uint64_t size = count_of(binary);
    if (tree_member(tree, "data") || size > data->length)
        return because(why, "%" PRIu64 " bytes of %zu", size, data->length);
    const struct text bytes = { data->at, (size_t)size };
    *data = (struct text){ data->at + size, data->length - (size_t)size };
    return values_of_bytes(bytes, arena, values, why);
}

static bool read_oip(const struct tree *reply, struct text data, struct td_arena *arena,
                     struct outputs *out, struct why *why)
{
    const struct tree *outputs = tree_member(reply, "outputs"), *id = tree_member(reply, "id"),
                      *parameters = tree_member(reply, "parameters"),
                      *policy = tree_member(parameters, "bounds_policy");
    if (!outputs || outputs->kind != '[' || !id || !text_is(id->string, "a"))
        return because(why, "there are no outputs, or no id");
    if (policy) {
        out->policy = policy->string;
        out->replaced = tree_member(parameters, "bounds_replaced")->source;
    }
    for (const struct tree *tree = outputs->first; tree; tree = tree->next)
        if (!read_oip_output(tree, &data, arena, out, why))
            return false;
    return data.length == 0 || because(why, "%zu bytes after the last output", data.length);
}

bool read_reply(struct text bytes, size_t json_bytes, enum form form, struct td_arena *arena,
                struct outputs *out, struct why *why)
{
    *out = (struct outputs){ 0 };
    if (form == FORM_SAFETENSORS)
        return read_safetensors(bytes, arena, out, why);
    if ((form == FORM_OIP_BINARY) != (json_bytes != SIZE_MAX) ||
        (json_bytes != SIZE_MAX && json_bytes > bytes.length))
        return because(why, "%zu bytes of %zu are JSON", json_bytes, bytes.length);
    const size_t length = json_bytes == SIZE_MAX ? bytes.length : json_bytes;
    const struct tree *reply = tree_read((struct text){ bytes.at, length }, arena);
    if (!reply)
        return because(why, "the reply is not JSON: %.*s", (int)length, bytes.at);
    if (form == FORM_OIP || form == FORM_OIP_BINARY)
        return read_oip(reply, (struct text){ bytes.at + length, bytes.length - length }, arena,
                        out, why);
    return read_json(reply, (enum layout)form, arena, out, why);
}
