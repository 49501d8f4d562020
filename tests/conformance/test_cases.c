/* The conformance cases of one file, in process: each as a request in every form, on several
 * threads, with every instruction set, and with every allocation failing. TD_CASES is the path of
 * the file. */
#include "tests/conformance/call.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one answer ------------------------------------------------------------------------------ */

static bool list_of_outputs(const struct call *call)
{
    return td_op_output_form(call->op) == TD_OUTPUT_LIST;
}

static struct tolerance tolerance_of(const struct tree *one)
{
    const struct tree *tolerance = tree_member(one, "tolerance");
    if (!tolerance)
        return (struct tolerance){ 0, 0 };
    return (struct tolerance){ .rtol = strtod(tree_member(tolerance, "rtol")->source.at, NULL),
                               .atol = strtod(tree_member(tolerance, "atol")->source.at, NULL) };
}

static const struct named *find_output(const struct outputs *outputs, struct text name)
{
    for (int i = 0; i < outputs->count; i++)
        if (same_text(outputs->at[i].name, name))
            return &outputs->at[i];
    return NULL;
}

static bool same_outputs(const struct outputs *got, const struct outputs *want,
                         struct tolerance tolerance, struct why *why)
{
    struct why inner;
    if (!same_text(got->policy, want->policy) || !same_text(got->replaced, want->replaced))
        return because(why, "bounds are \"%.*s\", %.*s; expected \"%.*s\", %.*s",
                       (int)got->policy.length, got->policy.at, (int)got->replaced.length,
                       got->replaced.at, (int)want->policy.length, want->policy.at,
                       (int)want->replaced.length, want->replaced.at);
    if (got->count != want->count)
        return because(why, "%d outputs, expected %d", got->count, want->count);
    for (int i = 0; i < want->count; i++) {
        const struct named *wanted = &want->at[i], *one = find_output(got, wanted->name);
        if (!one)
            return because(why, "there is no output %.*s", (int)wanted->name.length,
                           wanted->name.at);
        if (!values_equal(&one->values, &wanted->values, tolerance, &inner))
            return because(why, "%.*s: %.300s", (int)wanted->name.length, wanted->name.at,
                           inner.text);
    }
    return true;
}

static bool check_outputs(const struct tree *one, const struct call *call,
                          const struct answer *answer, struct td_arena *arena, struct why *why)
{
    struct outputs got, want;
    if (answer->status != TD_OK)
        return because(why, "%.*s", (int)answer->body.length, answer->body.at);
    if (answer->http_status != 200)
        return because(why, "HTTP %d", answer->http_status);
    read_expected(one, list_of_outputs(call), arena, &want);
    return read_reply(answer->body, answer->json_bytes, call->form, arena, &got, why) &&
           same_outputs(&got, &want, tolerance_of(one), why);
}

/* The output of a plan has a dtype and a shape. */
static bool check_plan(const struct tree *one, const struct answer *answer, struct td_arena *arena,
                       struct why *why)
{
    const struct tree *output = tree_member(tree_read(answer->body, arena), "output");
    const struct tree *want = tree_member(tree_member(one, "expect"), "outputs")->first;
    if (answer->status == TD_OK && answer->http_status == 200 &&
        tree_equal(tree_member(output, "dtype"), tree_member(want, "dtype")) &&
        tree_equal(tree_member(output, "shape"), tree_member(want, "shape")))
        return true;
    return because(why, "%.*s", (int)answer->body.length, answer->body.at);
}

/* "indices[1]", and "indices.1" of the Open Inference Protocol, is "indices". */
static struct text base_name(struct text name)
{
    size_t length = 0;
    while (length < name.length && name.at[length] != '[' && name.at[length] != '.')
        length++;
    return (struct text){ name.at, length };
}

static bool same_input(const struct tree *got, const struct tree *want)
{
    return got && same_text(base_name(got->string), base_name(want->string));
}

/* A place in a body is one of JSON: in other forms the attribute has its name. */
static bool check_pointer(const struct tree *document, const struct tree *pointer, enum form form)
{
    if (!pointer || form <= FORM_BASE64)
        return !pointer || tree_equal(tree_member(document, "pointer"), pointer);
    const struct tree *attribute = tree_member(document, "attribute");
    const struct text name = { pointer->string.at + 1, pointer->string.length - 1 };
    return attribute && same_text(attribute->string, name);
}

static bool check_details(const struct tree *document, const struct tree *error, enum form form,
                          struct why *why)
{
    static const char *const details[] = { "position", "index",     "bound",     "positions",
                                           "key",      "bad_count", "attribute", "did_you_mean" };
    for (int i = 0; i < COUNT_OF(details); i++) {
        const struct tree *want = tree_member(error, details[i]);
        if (want && !tree_equal(tree_member(document, details[i]), want))
            return because(why, "%s is not %.*s", details[i], (int)want->source.length,
                           want->source.at);
    }
    const struct tree *input = tree_member(error, "input"),
                      *pointer = tree_member(error, "pointer");
    if (input && !same_input(tree_member(document, "input"), input))
        return because(why, "input is not %.*s", (int)input->source.length, input->source.at);
    return check_pointer(document, pointer, form) || because(why, "pointer or attribute");
}

static bool has_text(const struct tree *document, const char *name)
{
    const struct tree *member = tree_member(document, name);
    return member && member->kind == '"' && member->string.length > 0;
}

static bool check_error(const struct tree *one, const struct call *call,
                        const struct answer *answer, struct td_arena *arena, struct why *why)
{
    struct why detail;
    const struct tree *error = tree_member(tree_member(one, "expect"), "error");
    const struct tree *document = tree_read(answer->body, arena);
    const bool oip = call->form == FORM_OIP || call->form == FORM_OIP_BINARY;
    const char *type = oip ? "application/json" : "application/problem+json";
    if (answer->http_status != 400 && answer->http_status != 422)
        because(&detail, "HTTP %d", answer->http_status);
    else if (strcmp(answer->content_type, type) != 0)
        because(&detail, "content type %s", answer->content_type);
    else if (!tree_equal(tree_member(document, "code"), tree_member(error, "code")))
        because(&detail, "the code is not %.*s", (int)tree_member(error, "code")->source.length,
                tree_member(error, "code")->source.at);
    else if (!tree_equal(tree_member(document, "op"), tree_member(one, "op")))
        because(&detail, "the op is another");
    else if (!has_text(document, oip ? "error" : "detail"))
        because(&detail, "there is no text");
    else if (check_details(document, error, call->form, &detail))
        return true;
    return because(why, "%.100s: %.*s", detail.text, (int)answer->body.length, answer->body.at);
}

static bool check(const struct tree *one, const struct call *call, const struct answer *answer,
                  struct td_arena *arena, struct why *why)
{
    if (tree_member(tree_member(one, "expect"), "error"))
        return check_error(one, call, answer, arena, why);
    return call->form == FORM_PLAN ? check_plan(one, answer, arena, why)
                                   : check_outputs(one, call, answer, arena, why);
}

/* ---- all cases of the file ------------------------------------------------------------------- */

/* A function that takes a case as a request in one form. The arena is for the function. */
typedef bool case_fn(const struct tree *one, struct call *call, struct td_arena *arena,
                     struct why *why);

static struct text read_file(void)
{
    struct td_error err;
    const char *path = getenv("TD_CASES");
    EXPECT(path, "TD_CASES is not set");
    FILE *file = fopen(path, "rb");
    EXPECT(file && fseek(file, 0, SEEK_END) == 0, "cannot read %s", path);
    const long size = ftell(file);
    rewind(file);
    char *text = td_arena_alloc(&test_arena, (size_t)size + 1, 1, &err);
    EXPECT(text && fread(text, 1, (size_t)size, file) == (size_t)size, "cannot read %s", path);
    text[size] = '\0';
    fclose(file);
    return (struct text){ text, (size_t)size };
}

/* Takes the next case of the file. */
static const struct tree *next_case(struct text *file)
{
    while (file->length > 0) {
        const char *end = memchr(file->at, '\n', file->length);
        const size_t length = end ? (size_t)(end - file->at) : file->length;
        const struct text line = { file->at, length };
        file->at += end ? length + 1 : length;
        file->length -= end ? length + 1 : length;
        if (length == 0)
            continue;
        const struct tree *one = tree_read(line, &test_arena);
        EXPECT(one, "a line is not JSON: %.*s", (int)length, line.at);
        return one;
    }
    return NULL;
}

struct tally {
    int passed, failed;
};

static void take_case(const struct tree *one, enum form form, case_fn *fn, struct tally *tally)
{
    struct td_arena arena;
    struct body body;
    struct why why;
    const struct text op = tree_member(one, "op")->string, name = tree_member(one, "name")->string;
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    struct call call = { .op = td_op_named(op.at, op.length), .form = form, .body = &body };
    EXPECT(call.op, "there is no op %.*s", (int)op.length, op.at);
    if (write_body(one, form, &arena, &body)) {
        if (fn(one, &call, &arena, &why)) {
            tally->passed++;
        } else {
            tally->failed++;
            printf("FAIL %.*s, %s: %s\n", (int)name.length, name.at, form_name(form), why.text);
            fflush(stdout); /* a later case may crash */
        }
    }
    td_arena_reset(&arena);
}

/* Each case of the file that the form can express. A case with a body of its own is a request in
 * JSON, and only run.py sends it. */
static struct tally take_file(enum form form, case_fn *fn)
{
    struct tally tally = { 0 };
    struct text file = read_file();
    for (const struct tree *one = next_case(&file); one; one = next_case(&file))
        if (!tree_member(one, "body"))
            take_case(one, form, fn, &tally);
    td_arena_reset(&test_arena);
    printf("%s: %d passed, %d failed\n", form_name(form), tally.passed, tally.failed);
    fflush(stdout);
    EXPECT(tally.failed == 0, "%d of %d cases failed", tally.failed, tally.failed + tally.passed);
    return tally;
}

static bool answer_is_right(const struct tree *one, struct call *call, struct td_arena *arena,
                            struct why *why)
{
    struct answer answer;
    call_answer(call, (struct failing){ 0 }, arena, &answer);
    return check(one, call, &answer, arena, why);
}

TD_TEST_LOOP(replies_are_as_expected_in_each_form, 0, TD_NOT_UNDER_TSAN(FORM_COUNT))
{
    const struct tally tally = take_file((enum form)_i, answer_is_right);
    ck_assert_msg(tally.passed > 0 || _i >= FORM_SAFETENSORS, "the file has no cases");
}

static bool is_right_on_threads(const struct tree *one, struct call *call, struct td_arena *arena,
                                struct why *why)
{
    for (int64_t grain = 0; grain <= 3; grain++) { /* 0: that of the kernel */
        struct thread_exec threads;
        thread_exec_init(&threads, MOST_THREADS, grain);
        call->exec = &threads.exec;
        if (!answer_is_right(one, call, arena, why))
            return false;
    }
    return true;
}

TD_TEST(replies_do_not_depend_on_threads)
{
    take_file(FORM_NESTED, is_right_on_threads);
}

static bool is_right_with_each_isa(const struct tree *one, struct call *call,
                                   struct td_arena *arena, struct why *why)
{
    struct why inner;
    for (call->isa = TD_ISA_GENERIC; call->isa < TD_ISA_COUNT; call->isa++)
        if (td_isa_supported(call->isa) && !answer_is_right(one, call, arena, &inner))
            return because(why, "%s: %.300s", td_isa_name(call->isa), inner.text);
    return true;
}

TD_TEST_LOOP(replies_are_as_expected_with_each_instruction_set, 0, TD_NOT_UNDER_TSAN(1))
{
    take_file(FORM_BASE64, is_right_with_each_isa);
}

static bool is_right_in_parts(const struct tree *one, struct call *call, struct td_arena *arena,
                              struct why *why)
{
    struct why inner;
    for (call->parts = 1; call->parts <= MOST_PARTS; call->parts++)
        if (!answer_is_right(one, call, arena, &inner))
            return because(why, "%d parts: %.300s", call->parts, inner.text);
    return true;
}

TD_TEST(a_table_may_be_in_parts)
{
    take_file(FORM_BASE64, is_right_in_parts);
}

/* ---- no memory
 * -------------------------------------------------------------------------------- */

/* Is the answer the one to exhausted memory? The Open Inference Protocol has 429 for it, and
 * without memory for the document no code. */
static bool says_no_memory(const struct call *call, const struct answer *answer,
                           struct td_arena *arena, struct why *why)
{
    const struct tree *document = tree_read(answer->body, arena),
                      *code = tree_member(document, "code");
    const bool oip = call->form == FORM_OIP || call->form == FORM_OIP_BINARY;
    if (answer->status == TD_MEMORY_EXHAUSTED && answer->http_status == (oip ? 429 : 503) &&
        (code ? text_is(code->string, "MEMORY_EXHAUSTED") : oip && has_text(document, "error")))
        return true;
    return because(why, "%s: %.*s", td_status_name(answer->status), (int)answer->body.length,
                   answer->body.at);
}

/* An error that was found before the memory was exhausted has a document without details. */
static bool says_only_the_code(const struct tree *one, const struct answer *answer,
                               struct td_arena *arena)
{
    const struct tree *error = tree_member(tree_member(one, "expect"), "error");
    const struct tree *document = tree_read(answer->body, arena);
    const struct tree *code = tree_member(document, "code");
    return error && text_is(tree_member(error, "code")->string, td_status_name(answer->status)) &&
           (code ? tree_equal(code, tree_member(error, "code")) : has_text(document, "error"));
}

/* Every allocation of the call fails, then none. */
static bool fails_cleanly(const struct tree *one, const struct call *call, bool all,
                          struct why *why)
{
    for (int from = 1;; from++) {
        struct td_arena scratch;
        struct answer answer;
        struct why inner;
        td_arena_init(&scratch, NULL, 0, td_memory_heap());
        call_answer(call, (struct failing){ from, all }, &scratch, &answer);
        const bool failed = answer.allocations >= from;
        const bool right = failed ? says_no_memory(call, &answer, &scratch, &inner) ||
                                        says_only_the_code(one, &answer, &scratch)
                                  : check(one, call, &answer, &scratch, &inner);
        td_arena_reset(&scratch);
        if (!right)
            return because(why, "allocation %d of %d fails: %.300s", from, answer.allocations,
                           inner.text);
        if (!failed)
            return true;
    }
}

static bool each_allocation_fails(const struct tree *one, struct call *call, struct td_arena *arena,
                                  struct why *why)
{
    (void)arena; /* each call has its own */
    return fails_cleanly(one, call, false, why) && fails_cleanly(one, call, true, why);
}

TD_TEST_LOOP(without_memory_a_call_ends_cleanly_wherever_it_is, 0, TD_NOT_UNDER_TSAN(FORM_COUNT))
{
    take_file((enum form)_i, each_allocation_fails);
}
