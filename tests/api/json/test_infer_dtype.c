#include "api/json/infer_dtype.h"
#include "tests/support/expect.h"
#include "tests/support/suite.h"

#define SPEC(...)                                                                                  \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static const struct {
    const char *case_name;
    struct td_input_spec spec;
    td_dtype empty, integer;
} roles[] = {
    { "data is float32", SPEC(.dtypes = TD_DTYPES_ALL), TD_DTYPE_FLOAT32, TD_DTYPE_INT32 },
    { "data that cannot be float32 has the first accepted dtype",
      SPEC(.dtypes = TD_DTYPE_BIT(BOOL), .reads_values = true), TD_DTYPE_BOOL, TD_DTYPE_INT32 },
    { "integers are float32 where int32 is not accepted",
      SPEC(.dtypes = TD_DTYPE_BIT(INT8) | TD_DTYPE_BIT(FLOAT16) | TD_DTYPE_BIT(FLOAT32)),
      TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT32 },
    { "indices are int32", SPEC(.role = TD_ROLE_INDEX, .dtypes = TD_DTYPES_INDEX), TD_DTYPE_INT32,
      TD_DTYPE_INT32 },
    { "keys are int64",
      SPEC(.role = TD_ROLE_KEY, .dtypes = TD_DTYPE_BIT(INT64) | TD_DTYPE_BIT(STRING)),
      TD_DTYPE_INT64, TD_DTYPE_INT64 },
    { "conditions are bool", SPEC(.role = TD_ROLE_CONDITION, .dtypes = TD_DTYPE_BIT(BOOL)),
      TD_DTYPE_BOOL, TD_DTYPE_INT32 },
};

TD_TEST_EACH(the_role_of_an_input_decides_the_dtype_of_untyped_values, roles)
{
    const struct td_untyped untyped = td_json_untyped(&roles[_i].spec);
    ck_assert_msg(untyped.empty == roles[_i].empty, "%s", roles[_i].case_name);
    ck_assert_msg(untyped.integer == roles[_i].integer, "%s", roles[_i].case_name);
    ck_assert_msg(untyped.no_fractions ==
                      (roles[_i].spec.role == TD_ROLE_INDEX || roles[_i].spec.role == TD_ROLE_KEY),
                  "%s", roles[_i].case_name);
}

TD_TEST(an_empty_list_has_a_dtype_that_its_input_accepts)
{
    int count;
    const struct td_op *const *ops = td_ops(&count);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < ops[i]->n_inputs; k++) {
            const struct td_input_spec *spec = &ops[i]->inputs[k];
            EXPECT(spec->dtypes >> td_json_untyped(spec).empty & 1,
                   "%s: an empty %s has a dtype that is refused", ops[i]->name, spec->name);
        }
}
