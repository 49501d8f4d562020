#include "api/json/array.h"
#include "api/json/decode.h"
#include "tests/api/request.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct td_error err;

static const struct td_untyped untyped = { .empty = TD_DTYPE_FLOAT32, .integer = TD_DTYPE_INT32 };

static struct td_json_path whole = { .key = "x", .key_length = 1 };

/* Reads `text`; shape NULL: the shape of the nested lists; dtype TD_DTYPE_COUNT: untyped. */
static td_status read_text(const char *text, td_dtype dtype, const struct td_shape *shape_or_null,
                           struct td_tensor *out, size_t *used)
{
    char *copy = padded_copy(text, strlen(text), '1');
    struct td_json_scan scan = { copy, copy, copy + strlen(text) };
    td_status status =
        dtype == TD_DTYPE_COUNT
            ? td_json_read_untyped(&scan, untyped, &whole, &test_arena, out, &err)
            : td_json_read_typed(&scan, dtype, 0, shape_or_null, &whole, &test_arena, out, &err);
    *used = (size_t)(scan.at - scan.begin);
    free(copy);
    return status;
}

/* Reads numbers in the Open Inference Protocol, where integers may be rounded, too. */
static td_status read_rounded(const char *text, td_dtype dtype, struct td_tensor *out)
{
    char *copy = padded_copy(text, strlen(text), '1');
    struct td_json_scan scan = { copy, copy, copy + strlen(text) };
    const td_status status = td_json_read_oip(&scan, dtype, NULL, &whole, &test_arena, out, &err);
    free(copy);
    return status;
}

/* ---- inference ---- */

static const struct {
    const char *case_name, *text, *want;
} inferred[] = {
    { "an integer is int32", "7,", "int32[] 7" },
    { "a list", "[1,2,3],", "int32[3] 1 2 3" },
    { "lists in lists", "[[1,2,3],[4,5,6]],", "int32[2,3] 1 2 3 4 5 6" },
    { "white space anywhere", " [ [ 1 ,\n2 ] ,\t[ 3\r, 4 ] ],", "int32[2,2] 1 2 3 4" },
    { "the range of int32", "[2147483647,-2147483648],", "int32[2] 2147483647 -2147483648" },
    { "int32 and one more is int64", "[1,2147483648],", "int64[2] 1 2147483648" },
    { "int32 and one less is int64", "[-1,-2147483649],", "int64[2] -1 -2147483649" },
    { "the range of int64", "[9223372036854775807,-9223372036854775808],",
      "int64[2] 9223372036854775807 -9223372036854775808" },
    { "int64 and one more is uint64", "[0,9223372036854775808],",
      "uint64[2] 0 9223372036854775808" },
    { "the largest uint64", "[18446744073709551615],", "uint64[1] 18446744073709551615" },
    { "int32, then int64, then uint64", "[1,5000000000,18446744073709551615],",
      "uint64[3] 1 5000000000 18446744073709551615" },
    { "widening in an inner list", "[[1,2],[3,5000000000],[5,6]],",
      "int64[3,2] 1 2 3 5000000000 5 6" },
    { "minus zero is an integer", "[-0,1],", "int32[2] 0 1" },
    { "minus zero before a fraction keeps its sign", "[-0,1.5],", "float32[2] -0 1.5" },
    { "minus zero after a fraction keeps its sign", "[1.5,-0],", "float32[2] 1.5 -0" },
    { "minus zero and an integer before a fraction", "[-0,3,1.5],", "float32[3] -0 3 1.5" },
    { "minus zero with a fraction keeps its sign", "[-0.0,3],", "float32[2] -0 3" },
    { "a fraction makes all float32", "[1,2.5,3],", "float32[3] 1 2.5 3" },
    { "an exponent makes all float32", "[1,2e0],", "float32[2] 1 2" },
    { "a fraction after many integers makes all float32", "[[1,2],[3,4],[5,6.5]],",
      "float32[3,2] 1 2 3 4 5 6.5" },
    { "int64 become float32", "[5000000000,0.5],", "float32[2] 5000000000 0.5" },
    { "uint64 become float32", "[9223372036854775808,0.5],", "float32[2] 9223372036854775808 0.5" },
    { "integers beyond uint64 are fine among floats", "[-1,18446744073709551616,0.5],",
      "float32[3] -1 18446744073709551616 0.5" },
    { "a fraction lets 16777217 be rounded, to even", "[16777217.0,0.5],",
      "float32[2] 16777216 0.5" },
    { "integers above 2^24 that float32 holds", "[16777218,-33554436,0.5],",
      "float32[3] 16777218 -33554436 0.5" },
    { "the text of a rounded float32, without .0", "[123456790,0.5,-123456790],",
      "float32[3] 123456792 0.5 -123456792" },
    { "true and false are bool", "[true,false],", "bool[2] 1 0" },
    { "a string", "\"abc\",", "string[] 'abc'" },
    { "strings", "[\"a\",\"\",\"cd\"],", "string[3] 'a' '' 'cd'" },
    { "\"NaN\" without a dtype is a string", "[\"NaN\"],", "string[1] 'NaN'" },
    { "escapes", "[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\u20ac\\ud83d\\ude00\\u0000\"],",
      "string[1] "
      "'\\x22\\x5c/\\x08\\x0c\\x0a\\x0d\\x09\\xc3\\xa9\\xe2\\x82\\xac\\xf0\\x9f\\x98\\x80\\x00'" },
    { "brackets and commas in strings", "[\"[,]\",\"\\\"],\"],", "string[2] '[,]' '\\x22],'" },
    { "UTF-8", "\"\xc3\xa9\",", "string[] '\\xc3\\xa9'" },
    { "an empty list is float32", "[],", "float32[0]" },
    { "empty lists", "[[],[],[]],", "float32[3,0]" },
    { "empty lists, deeper", "[[[]],[[]]],", "float32[2,1,0]" },
    { "rank 16", "[[[[[[[[[[[[[[[[1,2]]]]]]]]]]]]]]]],",
      "int32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2] 1 2" },
};

TD_TEST_EACH(an_untyped_value_gets_the_narrowest_dtype, inferred)
{
    struct td_tensor got;
    size_t used;
    td_status status = read_text(inferred[_i].text, TD_DTYPE_COUNT, NULL, &got, &used);
    ck_assert_msg(status == TD_OK, "%s: %s", inferred[_i].case_name, err.message);
    expect_tensor(&got, inferred[_i].want, inferred[_i].case_name);
    ck_assert_msg(used == strlen(inferred[_i].text) - 1, "%s: it ends at %zu",
                  inferred[_i].case_name, used);
}

/* ---- dtypes ---- */

static const struct {
    const char *case_name, *dtype, *shape, *text, *want; /* shape NULL: that of the nested lists */
} typed[] = {
    { "nested data has its own shape", "int8", NULL, "[[1],[2]]", "int8[2,1] 1 2" },
    { "nested data fits the shape", "int8", "[2,1]", "[[1],[2]]", "int8[2,1] 1 2" },
    { "flat data takes the shape", "int8", "[2,2]", "[1,2,3,4]", "int8[2,2] 1 2 3 4" },
    { "a scalar", "float32", "[]", "3", "float32[] 3" },
    { "a scalar in a list of one", "float32", "[]", "[3]", "float32[] 3" },
    { "no elements, flat", "float32", "[2,0,3]", "[]", "float32[2,0,3]" },
    { "no elements, nested", "float32", "[2,0,3]", "[[],[]]", "float32[2,0,3]" },
    { "no elements with a huge dimension", "float32", "[9223372036854775807,0,7]", "[]",
      "float32[9223372036854775807,0,7]" },
    { "the range of int8", "int8", NULL, "[-128,127]", "int8[2] -128 127" },
    { "the range of int16", "int16", NULL, "[-32768,32767]", "int16[2] -32768 32767" },
    { "the range of uint8", "uint8", NULL, "[0,255]", "uint8[2] 0 255" },
    { "the range of uint16", "uint16", NULL, "[0,65535]", "uint16[2] 0 65535" },
    { "the range of uint32", "uint32", NULL, "[0,4294967295]", "uint32[2] 0 4294967295" },
    { "the range of uint64", "uint64", NULL, "[0,18446744073709551615]",
      "uint64[2] 0 18446744073709551615" },
    { "minus zero is valid for unsigned dtypes", "uint8", NULL, "[-0]", "uint8[1] 0" },
    { "integers with a fraction of zero or an exponent", "int32", NULL,
      "[3.0,1e+05,-5E1,20e-1,-0.0]", "int32[5] 3 100000 -50 2 0" },
    { "of the narrowest dtype", "int8", NULL, "[-128.0,1.27e2]", "int8[2] -128 127" },
    { "of the widest dtype", "uint64", NULL, "[9.99999999999999e14]", "uint64[1] 999999999999999" },
    { "int64 in quotes", "int64", NULL,
      "[\"9007199254740993\",1,\"-9223372036854775808\",\"9223372036854775807\"]",
      "int64[4] 9007199254740993 1 -9223372036854775808 9223372036854775807" },
    { "uint64 in quotes", "uint64", NULL, "[\"18446744073709551615\", \"0\" ]",
      "uint64[2] 18446744073709551615 0" },
    { "int64 in quotes, nested and flat", "int64", "[2,1]", "[[\"1\"],[\"2\"]]", "int64[2,1] 1 2" },
    { "an int64 scalar in quotes", "int64", "[]", "\"-7\"", "int64[] -7" },
    { "bool", "bool", NULL, "[true,false]", "bool[2] 1 0" },
    { "integers as floats", "float32", NULL, "[1,-2]", "float32[2] 1 -2" },
    { "integers that are exact in float32, also of many digits", "float32", NULL,
      "[16777216,16777218,18446744073709551616]",
      "float32[3] 16777216 16777218 18446744073709551616" },
    { "the text of a float32 in JavaScript, as float64 without .0", "float32", NULL,
      "[100000002004087730000]", "float32[1] 100000002004087734272" },
    { "the text of a float64 without .0", "float64", NULL, "[1152921504606847000]",
      "float64[1] 1152921504606846976" },
    { "the text of 16-bit floats without .0", "bfloat16", NULL, "[33000,257.0,258]",
      "bfloat16[3] 0x4701 0x4380 0x4381" },
    { "minus zero as a float", "float16", NULL, "[-0,-0.0]", "float16[2] 0x8000 0x8000" },
    { "float16", "float16", NULL, "[1,65504,0.00006103515625,6e-8]",
      "float16[4] 0x3c00 0x7bff 0x0400 0x0001" },
    { "bfloat16", "bfloat16", NULL, "[1,-2.5,3e38]", "bfloat16[3] 0x3f80 0xc020 0x7f62" },
    { "NaN and infinities, float16", "float16", NULL, "[\"NaN\",\"Infinity\",\"-Infinity\"]",
      "float16[3] 0x7e00 0x7c00 0xfc00" },
    { "NaN and infinities, bfloat16", "bfloat16", NULL, "[\"NaN\",\"Infinity\",\"-Infinity\"]",
      "bfloat16[3] 0x7fc0 0x7f80 0xff80" },
    { "NaN and infinities, complex", "complex64", NULL, "[[\"NaN\",\"-Infinity\"]]",
      "complex64[1] nan -inf" },
    { "complex", "complex64", NULL, "[[1,2],[3,4]]", "complex64[2] 1 2 3 4" },
    { "a complex scalar", "complex64", "[]", "[1,2]", "complex64[] 1 2" },
    { "a complex scalar in a list of one", "complex128", "[]", "[[1,2]]", "complex128[] 1 2" },
    { "complex, nested", "complex64", NULL, "[[[1,2]],[[3,4]]]", "complex64[2,1] 1 2 3 4" },
    { "complex, flat, with white space", "complex64", "[2,1]", "[ [ 1 , 2 ] , [ 3 , 4 ] ]",
      "complex64[2,1] 1 2 3 4" },
    { "no complex number", "complex64", "[0]", "[]", "complex64[0]" },
    { "strings", "string", "[2,2]", "[\"a\",\"b\",\"c\",\"d\"]", "string[2,2] 'a' 'b' 'c' 'd'" },
    { "a string scalar", "string", "[]", "\"a\"", "string[] 'a'" },
    { "no string", "string", "[0]", "[]", "string[0]" },
};

TD_TEST_EACH(a_typed_value_has_its_dtype_and_shape, typed)
{
    struct td_tensor got;
    td_dtype dtype;
    size_t used;
    ck_assert(td_dtype_from_name(typed[_i].dtype, strlen(typed[_i].dtype), &dtype));
    struct td_shape given = { 0 };
    if (typed[_i].shape)
        given = shape(typed[_i].shape);
    td_status status =
        read_text(typed[_i].text, dtype, typed[_i].shape ? &given : NULL, &got, &used);
    ck_assert_msg(status == TD_OK, "%s: %s", typed[_i].case_name, err.message);
    expect_tensor(&got, typed[_i].want, typed[_i].case_name);
}

/* ---- refusals ---- */

static const struct {
    const char *case_name, *dtype, *shape, *text; /* dtype NULL: untyped */
    /* NULL: the text is not JSON, and the error has an offset */
    const char *pointer;
    int offset;
    const char *message; /* a part of the message */
} refused[] = {
    { "a shorter list", NULL, NULL, "[[1,2],[3]]", "/x/1", -1, "a list of length 1" },
    { "a longer list", NULL, NULL, "[[1,2],[3,4,5]]", "/x/1", -1, "a list of length 3" },
    { "an empty one", NULL, NULL, "[[1,2],[]]", "/x/1", -1, "a list of length 0" },
    { "a shorter list of lists", NULL, NULL, "[[[1],[2]],[[3]]]", "/x/1", -1,
      "a list of length 1" },
    { "a shorter list, deeper", NULL, NULL, "[[[1,2],[3,4]],[[5,6],[7]]]", "/x/1/1", -1,
      "a list of length 1" },
    { "a number among lists", NULL, NULL, "[[1],2]", "/x/1", -1,
      "expected a list like the elements before" },
    { "a word among lists", NULL, NULL, "[[1],nil]", NULL, 5, "expected a value" },
    { "a list among numbers", NULL, NULL, "[1,[2]]", "/x/1", -1,
      "expected a scalar like the elements before" },
    { "a list too deep", NULL, NULL, "[[1],[[2]]]", "/x/1/0", -1,
      "expected a scalar like the elements before" },
    { "a string among numbers", NULL, NULL, "[1,\"a\"]", "/x/1", -1, "the string \"a\"" },
    { "a number among strings", NULL, NULL, "[\"a\",1]", "/x/1", -1,
      "found 1 in a tensor of strings" },
    { "true among numbers", NULL, NULL, "[[0.5],[true]]", "/x/1/0", -1,
      "found true in a tensor of numbers" },
    { "a number among booleans", NULL, NULL, "[true,2.5]", "/x/1", -1,
      "found 2.5 in a tensor of booleans" },
    { "null", NULL, NULL, "null,", "/x", -1, "null" },
    { "null among numbers", NULL, NULL, "[1,null]", "/x/1", -1, "null" },
    { "an object in a list", NULL, NULL, "[{}]", "/x/0", -1, "an object" },
    { "an object in an inner list", NULL, NULL, "[[1,2],[3,{}]]", "/x/1/1", -1, "an object" },
    { "neither int64 nor uint64", NULL, NULL, "[[0,-1],[9223372036854775808,1]]", "/x/1/0", -1,
      "neither int64 nor uint64 can hold 9223372036854775808" },
    { "beyond uint64", NULL, NULL, "[1,18446744073709551616]", "/x/1", -1,
      "neither int64 nor uint64 can hold" },
    { "below int64", NULL, NULL, "[1,-9223372036854775809]", "/x/1", -1,
      "neither int64 nor uint64 can hold" },
    { "a negative number among uint64", NULL, NULL, "[18446744073709551615,-1]", "/x/1", -1,
      "neither int64 nor uint64 can hold -1" },
    { "a scalar beyond uint64", NULL, NULL, "99999999999999999999999,", "/x", -1,
      "neither int64 nor uint64 can hold" },
    { "a float beyond float32", NULL, NULL, "[0.5,1e39]", "/x/1", -1, "1e39 does not fit float32" },
    { "an integer before a fraction that float32 rounds", NULL, NULL, "[[1,123456789],[2,0.5]]",
      "/x/0/1", -1,
      "123456789 is not exact in float32; write it as 123456789.0 to accept rounding" },
    { "an integer after a fraction", NULL, NULL, "[[0.5],[-16777217]]", "/x/1/0", -1,
      "-16777217 is not exact in float32" },
    { "an int64 before a fraction", NULL, NULL, "[0,9007199254740993,0.5]", "/x/1", -1,
      "write it as 9007199254740993.0" },
    { "an integer that a program may have rounded", "int64", NULL, "[1,9.00719925474099e+15]",
      "/x/1", -1, "9.00719925474099e+15 might be a rounded integer" },
    { "an integer that float32 rounds", "float32", NULL, "[16777216,16777217]", "/x/1", -1,
      "16777217 is not exact in float32" },
    { "an integer that float64 rounds", "float64", NULL, "[9007199254740993]", "/x/0", -1,
      "9007199254740993 is not exact in float64" },
    { "an integer of many digits that float64 rounds", "float64", NULL,
      "[100000000000000000000001]", "/x/0", -1, "is not exact in float64" },
    { "an integer that float16 rounds", "float16", NULL, "[2048,2049]", "/x/1", -1,
      "2049 is not exact in float16" },
    { "an integer that bfloat16 rounds", "bfloat16", NULL, "[256,257]", "/x/1", -1,
      "257 is not exact in bfloat16" },
    { "an integer that complex64 rounds", "complex64", NULL, "[[0,16777217]]", "/x/0", -1,
      "an integer that is not exact in complex64" },
    { "a fraction for an integer", "int32", NULL, "[1,1.5]", "/x/1", -1, "1.5 is not an int32" },
    { "a fraction after many digits", "int64", NULL, "[9007199254740993.5]", "/x/0", -1,
      "9007199254740993.5 is not an int64" },
    { "a negative exponent that leaves a fraction", "uint8", NULL, "[15e-1]", "/x/0", -1,
      "15e-1 is not a uint8" },
    { "an exponent beyond the dtype", "uint8", NULL, "[256e0]", "/x/0", -1,
      "256e0 does not fit uint8" },
    { "an integer in quotes and one more", "int64", NULL, "[0,\"9223372036854775808\"]", "/x/1", -1,
      "9223372036854775808 does not fit int64" },
    { "a negative one for uint64", "uint64", NULL, "[\"-1\"]", "/x/0", -1,
      "-1 does not fit uint64" },
    { "a fraction in quotes", "int64", NULL, "[\"1.0\"]", "/x/0", -1,
      "the string \"1.0\" is not an int64" },
    { "an exponent in quotes", "int64", NULL, "[\"1e2\"]", "/x/0", -1,
      "the string \"1e2\" is not an int64" },
    { "a space in quotes", "int64", NULL, "[\" 1\"]", "/x/0", -1,
      "the string \" 1\" is not an int64" },
    { "a space after it", "int64", NULL, "[\"1 \"]", "/x/0", -1,
      "the string \"1 \" is not an int64" },
    { "an empty string", "uint64", NULL, "[\"\"]", "/x/0", -1, "the string \"\" is not a uint64" },
    { "a leading zero in quotes", "int64", NULL, "[\"01\"]", "/x/0", -1,
      "the string \"01\" is not an int64" },
    { "a plus sign in quotes", "int64", NULL, "[\"+1\"]", "/x/0", -1,
      "the string \"+1\" is not an int64" },
    { "an escaped digit", "int64", NULL, "[\"\\u0031\"]", "/x/0", -1,
      "the string \"\\u0031\" is not an int64" },
    { "an unterminated integer in quotes", "int64", NULL, "[\"12", NULL, 4, "ends there" },
    { "an integer in quotes without a dtype", NULL, NULL, "[1,\"2\"]", "/x/1", -1,
      "found the string \"2\" in a tensor of numbers" },
    { "int8 and one more", "int8", NULL, "[128]", "/x/0", -1, "128 does not fit int8" },
    { "int8 and one less", "int8", NULL, "[-129]", "/x/0", -1, "-129 does not fit int8" },
    { "int64 and one more", "int64", NULL, "[9223372036854775808]", "/x/0", -1, "does not fit" },
    { "int64 and one less", "int64", NULL, "[-9223372036854775809]", "/x/0", -1, "does not fit" },
    { "uint64 and one more", "uint64", NULL, "[18446744073709551616]", "/x/0", -1, "does not fit" },
    { "an integer of many digits", "uint64", NULL, "[184467440737095516150000000000]", "/x/0", -1,
      "does not fit" },
    { "a long number, which is cut in the message", "int8", NULL,
      "[1234567890123456789012345678901234567890123456789012345678901234567890]", "/x/0", -1,
      "... does not fit int8" },
    { "a negative unsigned number", "uint32", NULL, "[-1]", "/x/0", -1, "-1 does not fit uint32" },
    { "uint8 and one more", "uint8", NULL, "[0,256]", "/x/1", -1, "256 does not fit uint8" },
    { "uint16 and one more", "uint16", NULL, "[0,65536]", "/x/1", -1, "65536 does not fit uint16" },
    { "int32 and one more", "int32", NULL, "[0,2147483648]", "/x/1", -1, "does not fit int32" },
    { "float64 too large", "float64", NULL, "[1e309]", "/x/0", -1, "1e309 does not fit float64" },
    { "float32 too large", "float32", NULL, "[0,1e39]", "/x/1", -1, "1e39 does not fit float32" },
    { "bfloat16 too small", "bfloat16", NULL, "[0,-3.4e38]", "/x/1", -1,
      "-3.4e38 does not fit bfloat16" },
    { "float16 too large", "float16", NULL, "[65520]", "/x/0", -1, "65520 does not fit float16" },
    { "float16 far too large", "float16", NULL, "[70000.5]", "/x/0", -1,
      "70000.5 does not fit float16" },
    { "a float as text", "float32", NULL, "[\"1.5\"]", "/x/0", -1,
      "the string \"1.5\" is not a float32" },
    { "a name in lower case", "float32", NULL, "[\"nan\"]", "/x/0", -1, "the string \"nan\"" },
    { "a number for bool", "bool", NULL, "[1]", "/x/0", -1, "1 is not a bool" },
    { "a string for bool", "bool", NULL, "[true,\"true\"]", "/x/1", -1,
      "the string \"true\" is not a bool" },
    { "a string for an integer", "int32", NULL, "[0,\"1\"]", "/x/1", -1,
      "the string \"1\" is not an int32" },
    { "NaN for an integer", "int32", NULL, "[0,\"NaN\"]", "/x/1", -1,
      "the string \"NaN\" is not an int32" },
    { "true for a float", "float32", NULL, "[0,true]", "/x/1", -1, "true is not a float32" },
    { "null for a float", "float32", NULL, "[0,null]", "/x/1", -1, "null is not a float32" },
    { "an object for an integer", "int32", NULL, "[0,{}]", "/x/1", -1, "an object" },
    { "true for a string", "string", NULL, "[\"x\",true]", "/x/1", -1, "true is not a string" },
    { "a number for a string", "string", NULL, "[1]", "/x/0", -1, "1 is not a string" },
    { "a real number for a complex", "complex64", NULL, "[[[1,2]],[3]]", "/x/1/0", -1,
      "is not a complex64" },
    { "a list of one number for a complex number", "complex64", NULL, "[1]", "/x", -1,
      "is not a complex64" },
    { "three parts of a complex", "complex64", NULL, "[[1,2],[1,2,3]]", "/x/1", -1,
      "is not a complex64" },
    { "one part", "complex64", NULL, "[[1,2],[1]]", "/x/1", -1, "is not a complex64" },
    { "a part too large", "complex64", NULL, "[[1,1e99]]", "/x/0", -1, "that fit" },
    { "a part that is a string", "complex64", NULL, "[[\"1\",2]]", "/x/0", -1,
      "is not a complex64" },
    { "two real numbers for a vector of one complex number", "complex64", "[1]", "[1,2]", "/x", -1,
      "data has shape []" },
    { "data of another shape", "int8", "[3,2]", "[[1,2,3],[4,5,6]]", "/x", -1,
      "data has shape [2,3], but shape is [3,2]" },
    { "too few elements", "int8", "[2,2]", "[1,2,3]", "/x", -1, "data has shape [3]" },
    { "too many elements", "int8", "[2,2]", "[1,2,3,4,5]", "/x", -1, "more elements" },
    { "too many elements, one in a list", "int64", "[1]",
      "[[1],[2],[3],[4],[5],[6],[7],[8],[9],[10],[11],[12],[13],[14],[15],[16],[17]]", "/x", -1,
      "more elements" },
    { "too many complex elements", "complex128", "[1]", "[[[1,2]],[[3,4]]]", "/x", -1,
      "more elements" },
    { "elements after a dimension of zero", "int8", "[1,1,0]", "[[5]]", "/x", -1,
      "data has shape [1,1]" },
    { "a scalar for a list of one", "int8", "[1]", "3,", "/x", -1, "data has shape []" },
    { "a scalar for a list of four, before other strings", "string", "[4]",
      "\"a\",\"a string that is longer than the one before\",\"and another one\",\"d\"", "/x", -1,
      "data has shape []" },
    { "a scalar for a list of four, before other numbers", "int8", "[4]", "1,2,3,4", "/x", -1,
      "data has shape []" },
    { "a list for a scalar", "int8", "[]", "[[3]]", "/x", -1, "data has shape [1,1]" },
    { "elements for an empty shape", "int8", "[0]", "[1]", "/x", -1, "data has shape [1]" },
    { "no elements for a shape that has elements", "int8", "[2]", "[]", "/x", -1,
      "data has shape [0]" },
    { "a huge shape", "int8", "[1000000000000]", "[1,2]", "/x", -1, "data has shape [2]" },
    { "a leading zero", NULL, NULL, "[01]", NULL, 2,
      "expected the end of the number after '0' at byte 2, not '1'; a number cannot have leading "
      "zeros" },
    { "a leading zero after minus", NULL, NULL, "[1,-012]", NULL, 5,
      "expected the end of the number after '0' at byte 5, not '1'; a number cannot have leading "
      "zeros" },
    { "a leading zero, float", "float32", NULL, "[00.5]", NULL, 2,
      "expected the end of the number after '0' at byte 2, not '0'; a number cannot have leading "
      "zeros" },
    { "minus alone", NULL, NULL, "[-]", NULL, 2, "expected a digit after '-' at byte 2, not ']'" },
    { "minus alone, float", "float32", NULL, "[-]", NULL, 2, "expected a digit after '-'" },
    { "minus before a point", NULL, NULL, "[-.5]", NULL, 2,
      "expected a digit after '-' at byte 2, not '.'; a number must start with a digit, or with "
      "'-' "
      "and a digit" },
    { "a plus sign", NULL, NULL, "[+1]", NULL, 1, "expected a value" },
    { "a fraction without a digit before the point", "float32", NULL, "[.5]", NULL, 1,
      "expected a value" },
    { "a point without digits after it", "float32", NULL, "[5.]", NULL, 3,
      "expected a digit after '.' at byte 3, not ']'" },
    { "an exponent in place of them", NULL, NULL, "[5.e3]", NULL, 3,
      "expected a digit after '.' at byte 3, not 'e'" },
    { "an exponent without digits", "float32", NULL, "[5e]", NULL, 3,
      "expected a digit after 'e' at byte 3, not ']'" },
    { "a signed exponent without digits", "float32", NULL, "[5e+]", NULL, 4,
      "expected a digit after '+' at byte 4, not ']'" },
    { "hexadecimal", NULL, NULL, "[0x10]", NULL, 2, "expected ',' or ']'" },
    { "NaN without quotes", "float32", NULL, "[NaN]", NULL, 1, "expected a value" },
    { "a comma too many", NULL, NULL, "[1,]", NULL, 3, "expected a value" },
    { "a comma too many, lists", NULL, NULL, "[[1],]", NULL, 5, "expected a value" },
    { "a comma first", NULL, NULL, "[,1]", NULL, 1, "expected a value" },
    { "no comma", NULL, NULL, "[1 2]", NULL, 3, "expected ',' or ']'" },
    { "no comma between lists", NULL, NULL, "[[1][2]]", NULL, 4, "expected ',' or ']'" },
    { "the wrong bracket", NULL, NULL, "[1}", NULL, 2, "expected ',' or ']'" },
    { "a bad literal", NULL, NULL, "[tru]", NULL, 1, "expected a value" },
    { "a bad literal among numbers", NULL, NULL, "[1,nul]", NULL, 3, "expected a value" },
    { "a bad number among strings", NULL, NULL, "[\"a\",01]", NULL, 6, "after '0' at byte 6" },
    { "an unterminated string among numbers", NULL, NULL, "[1,\"a]", NULL, 6, "ends there" },
    { "an unterminated complex number", "complex64", NULL, "[[1,2],[3,4", NULL, 11, "ends there" },
    { "a number at the end", "int32", NULL, "[1,2", NULL, 4, "ends there" },
    { "a float at the end", "float32", "[2]", "[1,2.5", NULL, 6, "ends there" },
    { "a longer literal", NULL, NULL, "[truer]", NULL, 5, "expected ',' or ']'" },
    { "an unterminated list", NULL, NULL, "[[1,2],[3", NULL, 9, "ends there" },
    { "an unterminated string", NULL, NULL, "[\"ab", NULL, 4, "ends there" },
    { "a control character", NULL, NULL, "[\"a\nb\"]", NULL, 3, "escape sequence" },
    { "not UTF-8", NULL, NULL, "[\"a\xff\"]", NULL, 3, "expected UTF-8" },
    { "half a UTF-8 character", NULL, NULL, "[\"\xe2\x82\"]", NULL, 2, "expected UTF-8" },
    { "an overlong UTF-8 form", NULL, NULL, "[\"\xc0\x80\"]", NULL, 2, "expected UTF-8" },
    { "a surrogate in UTF-8", NULL, NULL, "[\"\xed\xa0\x80\"]", NULL, 2, "expected UTF-8" },
    { "an unknown escape", NULL, NULL, "[\"ab\\x\"]", NULL, 4, "legal escape" },
    { "a short \\u", NULL, NULL, "[\"\\u12\"]", NULL, 2, "legal escape" },
    { "a high surrogate alone", NULL, NULL, "[\"\\ud800\"]", NULL, 2, "surrogate" },
    { "a low surrogate alone", NULL, NULL, "[\"\\udc00\"]", NULL, 2, "surrogate" },
    { "two high surrogates", NULL, NULL, "[\"\\ud800\\ud800\"]", NULL, 2, "surrogate" },
};

TD_TEST_EACH(malformed_tensors_are_refused_with_their_position, refused)
{
    struct td_tensor got;
    td_dtype dtype = TD_DTYPE_COUNT;
    size_t used;
    const char *case_name = refused[_i].case_name;
    if (refused[_i].dtype)
        ck_assert(td_dtype_from_name(refused[_i].dtype, strlen(refused[_i].dtype), &dtype));
    struct td_shape given = { 0 };
    if (refused[_i].shape)
        given = shape(refused[_i].shape);
    td_status status =
        read_text(refused[_i].text, dtype, refused[_i].shape ? &given : NULL, &got, &used);
    ck_assert_msg(status == TD_MALFORMED_REQUEST, "%s: status %d", case_name, status);
    ck_assert_msg(strstr(err.message, refused[_i].message), "%s: %s", case_name, err.message);
    ck_assert_msg(err.has_pointer == (refused[_i].pointer != NULL), "%s: %s", case_name,
                  err.message);
    if (refused[_i].pointer)
        ck_assert_msg(strcmp(err.pointer, refused[_i].pointer) == 0, "%s: at %s", case_name,
                      err.pointer);
    ck_assert_msg(err.offset == refused[_i].offset, "%s: at %lld, %s", case_name,
                  (long long)err.offset, err.message);
}

TD_TEST(deep_nesting_is_refused_early)
{
    enum { DEEP = 100000 };
    char *text = malloc(2 * DEEP + 1);
    struct td_tensor got;
    size_t used;
    memset(text, '[', DEEP);
    memset(text + DEEP, ']', DEEP);
    text[2 * DEEP] = '\0';
    ck_assert_int_eq(read_text(text, TD_DTYPE_COUNT, NULL, &got, &used), TD_RESOURCE_LIMIT);
    ck_assert_str_eq(err.resource, "rank");
    ck_assert_uint_eq(err.limit, TD_MAX_RANK);
    ck_assert_int_eq(read_text(text, TD_DTYPE_FLOAT32, NULL, &got, &used), TD_RESOURCE_LIMIT);
    free(text);
}

/* Longer than the texts that are read without being measured. */
TD_TEST(a_string_without_an_end_is_reported_where_it_begins)
{
    char text[4096] = "[";
    size_t used;
    struct td_tensor got;
    for (int i = 0; i < 1800; i++)
        strcat(text, "1,");
    strcat(text, "\"abc");
    ck_assert_int_eq(read_text(text, TD_DTYPE_COUNT, NULL, &got, &used), TD_MALFORMED_REQUEST);
    ck_assert_msg(err.offset >= (int64_t)strlen(text) - 4, "%s", err.message);
}

TD_TEST(memory_is_sized_from_the_text_not_the_shape)
{
    struct td_tensor got;
    struct td_shape huge = shape("[1000000,1000000]");
    size_t used;
    ck_assert_int_eq(read_text("[1,2]", TD_DTYPE_FLOAT64, &huge, &got, &used),
                     TD_MALFORMED_REQUEST);
    ck_assert_int_eq(read_text("[\"a\"]", TD_DTYPE_STRING, &huge, &got, &used),
                     TD_MALFORMED_REQUEST);
    struct td_shape larger = shape("[4294967296,4294967296]");
    ck_assert_int_eq(read_text("[1,2]", TD_DTYPE_FLOAT64, &larger, &got, &used), TD_RESOURCE_LIMIT);
}

/* ---- numbers compared with the C library, which rounds correctly ---- */

/* A list of numbers as text, and the offset of each. */
struct numbers {
    char *text;
    size_t size, capacity;
    int count;
    size_t begin[4096];
};

static void numbers_begin(struct numbers *numbers)
{
    numbers->capacity = (size_t)1 << 20;
    numbers->text = malloc(numbers->capacity);
    EXPECT(numbers->text, "no memory");
    numbers->text[0] = '[';
    numbers->size = 1;
    numbers->count = 0;
}

static __attribute__((format(printf, 2, 3))) void add_number(struct numbers *numbers,
                                                             const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    numbers->begin[numbers->count++] = numbers->size;
    numbers->size += (size_t)vsnprintf(numbers->text + numbers->size,
                                       numbers->capacity - numbers->size, format, arguments);
    va_end(arguments);
    EXPECT(numbers->size + 2 < numbers->capacity, "the buffer is too small");
    numbers->text[numbers->size++] = ',';
}

/* Reads all of them and compares each, bit by bit, with the result of strtof or strtod. */
static void expect_numbers(struct numbers *numbers)
{
    static const td_dtype dtypes[] = { TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT64 };
    struct td_tensor got;
    numbers->text[numbers->size - 1] = ']';
    numbers->text[numbers->size] = '\0';
    for (int d = 0; d < 2; d++) {
        td_status status = read_rounded(numbers->text, dtypes[d], &got);
        EXPECT(status == TD_OK, "%s", err.message);
        EXPECT(got.numel == numbers->count, "%lld of %d", (long long)got.numel, numbers->count);
        for (int i = 0; i < numbers->count; i++) {
            const char *token = numbers->text + numbers->begin[i];
            float narrow = strtof(token, NULL);
            double wide = strtod(token, NULL);
            const void *want = d == 0 ? (const void *)&narrow : (const void *)&wide;
            size_t size = d == 0 ? sizeof narrow : sizeof wide;
            EXPECT(memcmp((const char *)got.data + (size_t)i * size, want, size) == 0,
                   "%.60s is read as another %s", token, d == 0 ? "float" : "double");
        }
        td_arena_reset(&test_arena);
    }
    free(numbers->text);
}

TD_TEST_LOOP(random_decimals_are_read_as_the_nearest_float, 0, 100)
{
    uint64_t seed = (uint64_t)_i;
    struct numbers numbers;
    numbers_begin(&numbers);
    while (numbers.count < 4096) {
        uint64_t digits = random_from(&seed) >> random_from(&seed) % 64;
        const char *sign = random_from(&seed) % 2 ? "-" : "";
        int places = (int)(random_from(&seed) % 30);
        switch (random_from(&seed) % 7) {
        case 0: /* short decimals */
            add_number(&numbers, "%s%llu.%0*llu", sign, (unsigned long long)(digits % 1000),
                       1 + places % 12, (unsigned long long)(random_from(&seed) % 1000));
            break;
        case 1: /* the formats of printf */
            add_number(&numbers, "%s%.*e", sign, places % 20,
                       ldexp((double)digits, places * 3 - 150));
            break;
        case 2: /* integers of any length */
            add_number(&numbers, "%s%llu", sign, (unsigned long long)digits);
            break;
        case 3: /* many digits */
            add_number(&numbers, "%s%llu.%llu%0*llu", sign, (unsigned long long)(digits % 100000),
                       (unsigned long long)random_from(&seed), places,
                       (unsigned long long)(random_from(&seed) % 1000));
            break;
        case 4: /* within float32's range, or near its lower end */
            add_number(&numbers, "%s%lluE%+d", sign, (unsigned long long)(digits % 1000000),
                       places * 2 - 50);
            break;
        case 5: /* as many digits as blocks of eight hold, or slightly more */
            add_number(&numbers, "%s%d.%0*llu%0*llu", sign, places % 3, 8,
                       (unsigned long long)(digits % 100000000), 7 + places % 6,
                       (unsigned long long)(random_from(&seed) % 10000000));
            break;
        default: /* leading zeros */
            add_number(&numbers, "%s0.%0*llu", sign, places + 1,
                       (unsigned long long)(digits % 100000));
            break;
        }
    }
    expect_numbers(&numbers);
}

/* The midpoint between two floats has an exact decimal text, which rounds to the even float; a text
 * that is slightly smaller or larger rounds to the nearer one. Rounding to double first would give
 * wrong results. */
TD_TEST_LOOP(midpoints_between_two_floats_are_rounded_once, 0, 40)
{
    uint64_t seed = 77 + (uint64_t)_i;
    struct numbers numbers;
    numbers_begin(&numbers);
    while (numbers.count < 3000) {
        uint32_t bits = (uint32_t)random_from(&seed) & 0x7fffffff;
        if (random_from(&seed) % 2) /* exponents whose midpoints have few digits */
            bits = (bits & 0x7fffff) | (uint32_t)(120 + random_from(&seed) % 30) << 23;
        float value, next;
        memcpy(&value, &bits, sizeof value);
        next = nextafterf(value, INFINITY);
        if (!isfinite(next))
            continue;
        double middle = ((double)value + (double)next) / 2; /* exact */
        add_number(&numbers, "%.60e", middle);
        add_number(&numbers, "%.17g", middle);
        add_number(&numbers, "%.17g", nextafter(middle, 0));
        add_number(&numbers, "%.17g", nextafter(middle, INFINITY));
        add_number(&numbers, "%.25e", middle);
        char exact[128]; /* and another digit far after its end */
        snprintf(exact, sizeof exact, "%.60e", middle);
        char *exponent = strchr(exact, 'e');
        add_number(&numbers, "%.*s1%s", (int)(exponent - exact), exact, exponent);
    }
    expect_numbers(&numbers);
}

TD_TEST(integers_that_float32_cannot_hold_round_to_even)
{
    struct numbers numbers;
    numbers_begin(&numbers);
    for (uint64_t i = 0; i < 64; i++)
        for (int shift = 0; shift < 36 && numbers.count < 4000; shift += 3)
            add_number(&numbers, "%llu", (unsigned long long)((16777216 + i) << shift | (i & 1)));
    expect_numbers(&numbers);
}

TD_TEST(the_edges_of_float32_and_float64)
{
    static const char *const texts[] = {
        "3.4028234663852886e38",
        "3.4028235677973364e38",
        "1.17549435e-38",
        "1.1754943508222874e-38",
        "1.1754942807573642e-38",
        "1.401298464324817e-45",
        "7.006492321624085e-46",
        "7.006492321624086e-46",
        "7.0064923216240853e-46",
        "1e-46",
        "1e-400",
        "-1e-400",
        "0e5",
        "-0",
        "-0.0",
        "0.0000000000000000000000000000000000000000000000000001e40",
        "100000000000000000000000000000000000000000e-30",
        "9007199254740993",
        "9007199254740992.5",
        "4.9e-324",
        "2.2250738585072011e-308",
        "123456789012345678",
        "1234567890123456789",
        "0.1234567890123456789",
        "12345678.12345678",
        "1234567.1234567",
        "1e22",
        "1e23",
        "8.5e-23",
        "999999999999999999e-22",
        "999999999999999999e22",
        "0.30000000000000004",
    };
    struct numbers numbers;
    numbers_begin(&numbers);
    for (int i = 0; i < COUNT_OF(texts); i++)
        if (strtod(texts[i], NULL) < 3.4028235677973366e38)
            add_number(&numbers, "%s", texts[i]);
    expect_numbers(&numbers);
}

TD_TEST(many_tensors_in_a_short_text_need_little_memory)
{
    struct td_tensor got;
    size_t used;
    char text[2000];
    snprintf(text, sizeof text, "[1.5]%1900s", "");
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(read_text(text, TD_DTYPE_COUNT, NULL, &got, &used), TD_OK);
    ck_assert_uint_le(test_arena.taken, 128 << 10);
}

TD_TEST(the_last_text_that_fits_float32)
{
    struct td_tensor got;
    size_t used;
    ck_assert_int_eq(read_text("340282356779733661637539395458142568447.9999,", TD_DTYPE_FLOAT32,
                               NULL, &got, &used),
                     TD_OK);
    ck_assert(*(float *)got.data == FLT_MAX);
    ck_assert_int_eq(
        read_text("340282356779733661637539395458142568448,", TD_DTYPE_FLOAT32, NULL, &got, &used),
        TD_MALFORMED_REQUEST);
}

/* Every 16-bit float as its shortest and its longest text, and doubles close to the midpoints
 * between them. */
TD_TEST_LOOP(sixteen_bit_floats_are_read_as_the_nearest, 0, 2)
{
    bool half = _i == 0;
    td_dtype dtype = half ? TD_DTYPE_FLOAT16 : TD_DTYPE_BFLOAT16;
    uint16_t infinity = half ? 0x7c00 : 0x7f80;
    for (unsigned begin = 0; begin + 1 < infinity; begin += 256) {
        char *text = malloc(1 << 18), *at = text;
        EXPECT(text, "no memory");
        uint16_t want[1024];
        int n = 0;
        *at++ = '[';
        for (unsigned bits = begin; bits < begin + 256 && bits + 1 < infinity; bits++) {
            double value, next;
            uint32_t wide = bits << 16, wide_next = (bits + 1) << 16;
            float narrow, narrow_next;
            memcpy(&narrow, &wide, sizeof narrow);
            memcpy(&narrow_next, &wide_next, sizeof narrow_next);
            value = half ? ldexp((bits & 1023) + (bits >> 10 ? 1024 : 0),
                                 (int)(bits >> 10 ? bits >> 10 : 1) - 25)
                         : (double)narrow;
            next = half ? ldexp(((bits + 1) & 1023) + ((bits + 1) >> 10 ? 1024 : 0),
                                (int)((bits + 1) >> 10 ? (bits + 1) >> 10 : 1) - 25)
                        : (double)narrow_next;
            double middle = (value + next) / 2;
            at += sprintf(at, "%.17g,", value);
            want[n++] = (uint16_t)bits;
            at += sprintf(at, "%.17g,", nextafter(middle, 0));
            want[n++] = (uint16_t)bits;
            at += sprintf(at, "-%.17g,", nextafter(middle, INFINITY));
            want[n++] = (uint16_t)((bits + 1) | 0x8000);
            at += sprintf(at, "%.150e,", middle);
            want[n++] = (uint16_t)(bits % 2 ? bits + 1 : bits);
        }
        at[-1] = ']';
        *at = '\0';
        struct td_tensor got;
        td_status status = read_rounded(text, dtype, &got);
        EXPECT(status == TD_OK, "%s", err.message);
        const char *token = text + 1;
        for (int i = 0; i < n; i++) {
            uint16_t bits;
            memcpy(&bits, (const char *)got.data + 2 * i, sizeof bits);
            /* For subnormals, 17 digits of a midpoint are not always exact. */
            EXPECT(bits == want[i], "%.40s is read as %04x, not %04x", token, bits, want[i]);
            token = strchr(token, ',') + 1;
        }
        td_arena_reset(&test_arena);
        free(text);
    }
}

/* Long lists, so that lengths, positions and commas occur at every offset in the blocks of
 * td_json_measure. */
TD_TEST_LOOP(long_lists_keep_every_element, 0, 60)
{
    uint64_t seed = 5 + (uint64_t)_i;
    int rows = 1 + _i * 7 % 23, columns = 1 + _i * 13 % 57;
    char *text = malloc((size_t)(rows * columns) * 24 + 64), *at = text;
    EXPECT(text, "no memory");
    int64_t *want = malloc(sizeof *want * (size_t)(rows * columns));
    EXPECT(want, "no memory");
    *at++ = '[';
    for (int r = 0; r < rows; r++) {
        *at++ = '[';
        for (int c = 0; c < columns; c++) {
            int64_t value = (int64_t)(random_from(&seed) >> random_from(&seed) % 63) / 2;
            want[r * columns + c] = value;
            at += sprintf(at, "%s%lld%s", random_from(&seed) % 9 ? "" : " ", (long long)value,
                          c + 1 < columns ? "," : "]");
        }
        *at++ = r + 1 < rows ? ',' : ']';
    }
    *at = '\0';
    struct td_tensor got;
    struct td_shape expected = { 2, { rows, columns } };
    size_t used;
    EXPECT_OK(read_text(text, TD_DTYPE_INT64, NULL, &got, &used), &err);
    ck_assert(td_shape_equal(&got.shape, &expected));
    ck_assert(memcmp(got.data, want, sizeof *want * (size_t)(rows * columns)) == 0);
    free(want);
    free(text);
}
