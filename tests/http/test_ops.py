"""The ops over JSON: inputs and outputs in every spelling and dtype."""
import base64, decimal, json, math, os, random, struct
from daemon import *

TABLES = temporary_folder()
LETTERS = {"params": [["a", "b"], ["c", "d"]], "indices": [1, 0]}


def setUpModule():
    with open(os.path.join(TABLES, "table.npy"), "wb") as f:
        f.write(npy("float32", (3, 2), pack("float32", [1, 2, 3, 4, 5, 6])))
    with open(os.path.join(TABLES, "model.safetensors"), "wb") as f:
        f.write(safetensors({"w": ("int16", (4,), pack("int16", [10, 20, 30, 40])),
                             "ids": ("int32", (2,), pack("int32", [3, 1]))}))


class Gather(HttpTest):
    def test_the_example_of_the_documentation_has_exactly_this_reply(self):
        reply = self.request("POST", "/v1/gather", json.dumps(LETTERS).encode(),
                          {"Content-Type": "application/x-www-form-urlencoded"})
        self.assertStatus(reply, 200)
        self.assertEqual(reply.body.strip(), b'{"output":{"dtype":"string","shape":[2,2],"data":[["c","d"],["a","b"]]}}')

    def test_axis_selects_columns_and_may_be_negative(self):
        for axis in (1, -1):
            reply = self.post("/v1/gather", {"params": [[1, 2, 3], [4, 5, 6]], "indices": [2, 0], "axis": axis})
            self.assertOutput(reply, "int32", [2, 2], [[3, 1], [6, 4]])

    def test_axis_defaults_to_batch_dims(self):
        reply = self.post("/v1/gather", {"params": [[1, 2, 3], [4, 5, 6]], "indices": [[2], [0]], "batch_dims": 1})
        self.assertOutput(reply, "int32", [2, 1], [[3], [4]])

    def test_minus_zero_keeps_its_sign_in_every_position(self):
        for params in ([-0.0, 1.5], [1.5, -0.0], [-0.0, 3, 1.5]):
            body = json.dumps({"params": params, "indices": [0, 1]}).replace("-0.0", "-0").encode()
            reply = self.request("POST", "/v1/gather", body, {"Content-Type": "application/json"})
            self.assertEqual(str(reply.json()["output"]["data"]), str([float(p) for p in params[:2]]))

    def test_a_scalar_index_drops_the_axis(self):
        reply = self.post("/v1/gather", {"params": [[1, 2, 3], [4, 5, 6]], "indices": 1})
        self.assertOutput(reply, "int32", [3], [4, 5, 6])

    def test_a_scalar_index_into_a_vector_gives_a_scalar(self):
        self.assertOutput(self.post("/v1/gather", {"params": [7, 8], "indices": 1}), "int32", [], 8)

    def test_indices_of_any_rank_replace_the_axis(self):
        reply = self.post("/v1/gather", {"params": [5, 6, 7], "indices": [[0, 1], [2, 0]]})
        self.assertOutput(reply, "int32", [2, 2], [[5, 6], [7, 5]])

    def test_no_indices_give_an_empty_output(self):
        reply = self.post("/v1/gather", {"params": [[1, 2], [3, 4]], "indices": []})
        self.assertOutput(reply, "int32", [0, 2], [])

    def test_index_dtypes_are_int16_int32_and_int64(self):
        for dtype in ("int16", "int32", "int64"):
            reply = self.post("/v1/gather", {"params": [1, 2, 3], "indices": {"dtype": dtype, "data": [2, 1]}})
            self.assertOutput(reply, "int32", [2], [3, 2])

    def test_attributes_may_be_in_the_query_string(self):
        reply = self.post("/v1/gather?axis=1", {"params": [[1, 2, 3], [4, 5, 6]], "indices": [2, 0]})
        self.assertOutput(reply, "int32", [2, 2], [[3, 1], [6, 4]])
        reply = self.post("/v1/gather?axis=-1&bounds=clip&response=flat",
                           {"params": [[1, 2, 3], [4, 5, 6]], "indices": [9, 0]})
        self.assertOutput(reply, "int32", [2, 2], [3, 1, 6, 4])

    def test_query_strings_are_percent_decoded(self):
        reply = self.post("/v1/gather?%61xis=%31", {"params": [[1, 2, 3], [4, 5, 6]], "indices": [2, 0]})
        self.assertOutput(reply, "int32", [2, 2], [[3, 1], [6, 4]])

    def test_members_may_have_any_order_and_white_space(self):
        reply = self.post("/v1/gather", b' \r\n\t{ "axis" : 1 ,\n"indices":[ 2,0 ] , "params":[[1,2,3],[4,5,6]]\t} \n')
        self.assertOutput(reply, "int32", [2, 2], [[3, 1], [6, 4]])

    def test_member_names_may_be_escaped(self):
        reply = self.post("/v1/gather", b'{"p\\u0061rams":[1,2],"indices":[1]}')
        self.assertOutput(reply, "int32", [1], [2])


class BatchGather(HttpTest):
    def test_each_row_of_indices_selects_from_its_row_of_params(self):
        reply = self.post("/v1/batch_gather", {"params": [[1, 2, 3], [4, 5, 6]], "indices": [[0, 2], [1, 1]]})
        self.assertOutput(reply, "int32", [2, 2], [[1, 3], [5, 5]])

    def test_it_has_no_axis(self):
        reply = self.post("/v1/batch_gather", {"params": [[1, 2]], "indices": [[0]], "axis": 1})
        self.assertProblem(reply, 400, "MALFORMED_REQUEST", pointer="/axis")


class GatherNd(HttpTest):
    def test_index_tuples_select_elements(self):
        reply = self.post("/v1/gather_nd", {"params": [[1, 2], [3, 4]], "indices": [[0, 1], [1, 0]]})
        self.assertOutput(reply, "int32", [2], [2, 3])

    def test_short_tuples_select_slices(self):
        reply = self.post("/v1/gather_nd", {"params": [["a", "b"], ["c", "d"]], "indices": [[1], [0]]})
        self.assertOutput(reply, "string", [2, 2], [["c", "d"], ["a", "b"]])

    def test_empty_tuples_select_everything(self):
        reply = self.post("/v1/gather_nd", {"params": [1, 2], "indices": {"dtype": "int32", "shape": [2, 0], "data": []}})
        self.assertOutput(reply, "int32", [2, 2], [[1, 2], [1, 2]])

    def test_batch_dims_pair_up(self):
        reply = self.post("/v1/gather_nd", {"params": [[1, 2], [3, 4]], "indices": [[1], [0]], "batch_dims": 1})
        self.assertOutput(reply, "int32", [2], [2, 3])


class Inference(HttpTest):
    """the dtype of untyped JSON"""

    def test_untyped_values_have_the_documented_dtype(self):
        for params, dtype in (([True, False], "bool"), ([1, 2], "int32"), ([2147483647, -2147483648], "int32"),
                              ([1, 2147483648], "int64"), ([-2147483649, 1], "int64"),
                              ([9223372036854775807, -9223372036854775808], "int64"),
                              ([9223372036854775808, 0], "uint64"), ([18446744073709551615, 0], "uint64"),
                              ([1, 2.5], "float32"), ([2.5, 1], "float32"), (["x", ""], "string")):
            with self.subTest(params=params):
                reply = self.post("/v1/gather", {"params": params, "indices": [0, 1]})
                self.assertOutput(reply, dtype, [2], params)

    def test_a_fraction_or_an_exponent_makes_float32(self):
        for text in (b"1.0", b"1e0", b"1E+0", b"10e-1"):
            reply = self.post("/v1/gather", b'{"params":[' + text + b'],"indices":[0]}')
            self.assertStatus(reply, 200)
            output = reply.json()["output"]
            self.assertEqual((output["dtype"], output["data"]), ("float32", [1]), text)

    def test_an_empty_list_is_float32(self):
        reply = self.post("/v1/gather", {"params": [[], []], "indices": [1]})
        self.assertOutput(reply, "float32", [1, 0], [[]])

    def test_integers_without_a_common_dtype_are_refused(self):
        for text in (b"[18446744073709551616]", b"[-9223372036854775809]", b"[-1,18446744073709551615]",
                     b"[18446744073709551615,-1]"):
            reply = self.post("/v1/gather", b'{"params":' + text + b',"indices":[0]}')
            self.assertProblem(reply, 400, "MALFORMED_REQUEST")

    def test_mixed_kinds_are_refused_with_a_pointer(self):
        for params, pointer in (([1, True], "/params/1"), ([True, 1], "/params/1"), ([1, "a"], "/params/1"),
                                ([["a", "b"], ["c", 4]], "/params/1/1"), ([1.5, None], "/params/1"),
                                ([[1, 2], [3, {}]], "/params/1/1"), (None, "/params")):
            with self.subTest(params=params):
                reply = self.post("/v1/gather", {"params": params, "indices": [0]})
                self.assertProblem(reply, 400, "MALFORMED_REQUEST", pointer=pointer)

    def test_ragged_lists_are_refused_with_a_pointer(self):
        for params, pointer in (([[1, 2], [3]], "/params/1"), ([[1], 2], "/params/1"), ([1, [2]], "/params/1"),
                                ([[[1], [2]], [[3], [4, 5]]], "/params/1/1")):
            with self.subTest(params=params):
                reply = self.post("/v1/gather", {"params": params, "indices": [0]})
                problem = self.assertProblem(reply, 400, "MALFORMED_REQUEST")
                self.assertTrue(problem["pointer"].startswith(pointer), problem)

    def test_pointers_escape_tilde_and_slash(self):
        reply = self.post("/v1/gather", {"params": [1], "indices": [0], "a/b~c": 1})
        self.assertProblem(reply, 400, "MALFORMED_REQUEST", pointer="/a~1b~0c")


class Dtypes(HttpTest):
    """every dtype is returned unchanged, as text and as bytes"""
    NUMBERS = {
        "bool": [True, False], "int8": [-128, 127], "uint8": [0, 255], "int16": [-32768, 32767], "uint16": [0, 65535],
        "int32": [-2147483648, 2147483647], "uint32": [0, 4294967295],
        "int64": [-9223372036854775808, 9223372036854775807], "uint64": [0, 18446744073709551615],
        "float16": [65504.0, -0.1], "bfloat16": [3.39e38, -0.1], "float32": [3.4028235e38, -0.1],
        "float64": [1.7976931348623157e308, -0.1],
        "complex64": [[1.5, -0.1], [3.4028235e38, 0.0]], "complex128": [[1.5, -0.1], [1.7976931348623157e308, 0.0]],
        "string": ["", "é 😀 \u0000 \" \\ \u2028"],
    }

    def test_extreme_values_are_returned_unchanged(self):
        for dtype, values in self.NUMBERS.items():
            with self.subTest(dtype=dtype):
                reply = self.post("/v1/gather", {"params": {"dtype": dtype, "shape": [2], "data": values},
                                                  "indices": [1, 0]})
                if dtype == "float16":  # 65504 may be printed as 65500, which is the same float16
                    values = [struct.unpack("<e", struct.pack("<e", v))[0] for v in (65500.0, -0.1)]
                    got = reply.json()["output"]["data"]
                    self.assertEqual([struct.unpack("<e", struct.pack("<e", v))[0] for v in got], values[::-1])
                else:
                    self.assertOutput(reply, dtype, [2], values[::-1])

    def test_shape_may_be_left_out_when_data_is_nested(self):
        reply = self.post("/v1/gather", {"params": {"dtype": "uint8", "data": [[1, 2], [3, 4]]}, "indices": [1]})
        self.assertOutput(reply, "uint8", [1, 2], [[3, 4]])

    def test_complex_data_may_be_flat_or_nested(self):
        flat = {"dtype": "complex64", "shape": [2, 1], "data": [[1, 2], [3, 4]]}
        nested = {"dtype": "complex64", "shape": [2, 1], "data": [[[1, 2]], [[3, 4]]]}
        for params in (flat, nested):
            reply = self.post("/v1/gather", {"params": params, "indices": [1]})
            self.assertOutput(reply, "complex64", [1, 1], [[[3, 4]]])

    def test_raw_bytes_are_returned_bit_for_bit_in_base64(self):
        rng = random.Random(SEED)
        for dtype, size in SIZES.items():
            with self.subTest(dtype=dtype):
                raw = bytes(rng.randrange(2) for _ in range(20)) if dtype == "bool" else rng.randbytes(20 * size)
                reply = self.post("/v1/gather", {"params": tensor(dtype, (4, 5), raw), "indices": [3, 1],
                                                  "response": "base64"})
                self.assertStatus(reply, 200)
                output = reply.json()["output"]
                self.assertEqual((output["dtype"], output["shape"]), (dtype, [2, 5]))
                row = 5 * size
                self.assertEqual(base64.b64decode(output["base64"], validate=True), raw[3 * row:] + raw[row:2 * row])

    def test_nan_and_infinities_are_strings_in_typed_tensors(self):
        for dtype in ("float16", "bfloat16", "float32", "float64"):
            reply = self.post("/v1/gather", {"params": {"dtype": dtype, "data": ["NaN", "Infinity", "-Infinity", 0.5]},
                                              "indices": [3, 2, 1, 0]})
            self.assertOutput(reply, dtype, [4], [0.5, "-Infinity", "Infinity", "NaN"])

    def test_nan_may_be_part_of_a_complex_number(self):
        for dtype in ("complex64", "complex128"):
            reply = self.post("/v1/gather", {"params": {"dtype": dtype, "shape": [1], "data": [["NaN", "-Infinity"]]},
                                              "indices": [0]})
            self.assertOutput(reply, dtype, [1], [["NaN", "-Infinity"]])

    def test_minus_zero_keeps_its_sign(self):
        for dtype in ("float16", "bfloat16", "float32", "float64"):
            reply = self.post("/v1/gather", {"params": {"dtype": dtype, "data": [-0.0]}, "indices": [0],
                                              "response": "base64"})
            self.assertStatus(reply, 200)
            self.assertEqual(base64.b64decode(reply.json()["output"]["base64"])[-1], 0x80)
            reply = self.post("/v1/gather", {"params": tensor(dtype, [1], bytes(SIZES[dtype] - 1) + b"\x80"), "indices": [0]})
            self.assertEqual(math.copysign(1, reply.json()["output"]["data"][0]), -1, dtype)

    def test_strings_that_are_not_utf8_are_base64_in_both_directions(self):
        values = [b"\xff\xfe", b"", b"ok", bytes(range(256))]
        reply = self.post("/v1/gather", {"params": tensor("string", [4], raw_strings(values)), "indices": [3, 1, 0]})
        self.assertStatus(reply, 200)
        output = reply.json()["output"]
        self.assertEqual((output["dtype"], output["shape"], "data" in output), ("string", [3], False))
        self.assertEqual(base64.b64decode(output["base64"], validate=True),
                         raw_strings([values[3], values[1], values[0]]))

    def test_utf8_strings_sent_as_base64_are_returned_as_text(self):
        raw = raw_strings(["ä".encode(), b"\x00\n\"", "😀".encode()])
        reply = self.post("/v1/gather", {"params": tensor("string", [3], raw), "indices": [2, 1, 0]})
        self.assertOutput(reply, "string", [3], ["😀", "\x00\n\"", "ä"])

    def test_values_that_do_not_fit_are_refused_with_a_pointer(self):
        for dtype, text in (("int8", "128"), ("int8", "-129"), ("uint8", "-1"), ("uint8", "256"), ("uint16", "65536"),
                            ("int32", "2147483648"), ("uint32", "-1"), ("int64", "9223372036854775808"),
                            ("uint64", "18446744073709551616"), ("uint64", "-1"), ("int32", "1.5"),
                            ("float16", "65520"), ("float32", "1e39"), ("float64", "1e309"), ("bfloat16", "-3.4e38"),
                            ("bool", "2"), ("bool", '"true"'), ("string", "1"), ("string", "true"), ("int32", '"1"'),
                            ("float32", '"1"'), ("float32", '"nan"'), ("int32", '"NaN"'), ("float32", "true"),
                            ("float32", "null"), ("int32", "{}")):
            with self.subTest(dtype=dtype, text=text):
                body = '{"params":{"dtype":"%s","shape":[2],"data":[%s,%s]},"indices":[0]}'
                good = {"bool": "true", "string": '"x"'}.get(dtype, "0")
                reply = self.post("/v1/gather", (body % (dtype, good, text)).encode())
                self.assertProblem(reply, 400, "MALFORMED_REQUEST", pointer="/params/data/1")

    def test_complex_elements_are_pairs(self):
        for data in ("[1]", "[[1]]", "[[1,2,3]]", '[["1",2]]', "[1,2]"):
            body = b'{"params":{"dtype":"complex64","shape":[1],"data":' + data.encode() + b'},"indices":[0]}'
            self.assertProblem(self.post("/v1/gather", body), 400, "MALFORMED_REQUEST")


def longest_allowed(scientific):
    """the longest allowed text of a number: with an exponent, or plain if that is shorter; two more for .0 or e+"""
    plain = f"{decimal.Decimal(scientific):f}"
    digits, exponent = scientific.split("e")
    return max(len(f"{digits}e{int(exponent)}"), len(plain) if len(plain) <= 20 else 0) + 2


def bfloat16_bits(value):
    if math.isinf(value):
        return struct.unpack("<I", struct.pack("<f", value))[0] >> 16
    u = struct.unpack("<I", struct.pack("<f", value))[0]
    return (u + 0x7FFF + ((u >> 16) & 1)) >> 16 & 0xFFFF


class FloatText(HttpTest):
    """floats are printed as the shortest text that is read as the same value"""

    def texts(self, dtype, raw):
        """the texts that the daemon prints for these elements"""
        n = len(raw) // SIZES[dtype]
        reply = self.post("/v1/gather", {"params": tensor(dtype, [n], raw), "indices": list(range(n))})
        self.assertStatus(reply, 200)
        return json.loads(reply.body, parse_float=str, parse_int=str)["output"]["data"]

    def check(self, dtype, values, store):
        raws = [store(v) for v in values]
        for value, raw, text in zip(values, raws, self.texts(dtype, b"".join(raws))):
            self.assertEqual(store(float(text)), raw, f"{text} is read as another {dtype} than {value!r}")
            for digits in range(1, 18):
                shortest = f"{value:.{digits - 1}e}"
                if store(float(shortest)) == raw:
                    break
            self.assertLessEqual(len(text), longest_allowed(shortest),
                                 f"{dtype} {value!r} is printed as {text}, {shortest} suffices")

    @staticmethod
    def store32(v):
        try:
            return struct.pack("<f", v)
        except OverflowError:
            return b"beyond"

    @staticmethod
    def store16(v):
        try:
            return struct.pack("<e", v)
        except OverflowError:
            return b"beyond"

    @staticmethod
    def store_bf16(v):
        try:
            return struct.pack("<H", bfloat16_bits(v))
        except OverflowError:
            return b"beyond"

    def test_float32(self):
        rng = random.Random(SEED)
        values = [struct.unpack("<f", struct.pack("<I", rng.randrange(0x7F800000)))[0] for _ in range(1000)]
        values += [0.1, 1e-45, 3.4028234663852886e38, 16777216.0, 1.0, 0.3, 1e10, 123456.79, 1e-7]
        self.check("float32", [struct.unpack("<f", struct.pack("<f", v))[0] for v in values], self.store32)

    def test_float64(self):
        rng = random.Random(SEED)
        values = [struct.unpack("<d", struct.pack("<Q", rng.randrange(0x7FF0000000000000)))[0] for _ in range(1000)]
        values += [0.1, 5e-324, 1.7976931348623157e308, 9007199254740993.0, 0.3, 1e22, 1e23, 123456789012.5]
        self.check("float64", values, lambda v: struct.pack("<d", v))

    def test_float16(self):
        values = [struct.unpack("<e", struct.pack("<H", bits))[0] for bits in range(0, 0x7C00, 37)]
        self.check("float16", values + [65504.0], self.store16)

    def test_bfloat16(self):
        values = [struct.unpack("<f", struct.pack("<I", bits << 16))[0] for bits in range(0, 0x7F80, 41)]
        self.check("bfloat16", values, self.store_bf16)

    def test_common_numbers_have_their_usual_spelling(self):
        raw = pack("float32", [0.1, 1.5, 100, 0.001, -2.25])
        self.assertEqual([float(t) for t in self.texts("float32", raw)], [0.1, 1.5, 100.0, 0.001, -2.25])
        self.assertNotIn("e", "".join(self.texts("float32", raw)).lower())


class Bounds(HttpTest):
    """the result of an index out of bounds, by policy"""
    PARAMS = [[1, 2], [3, 4], [5, 6]]

    def gather_with_policy(self, policy, indices, params=None, op="gather"):
        reply = self.post("/v1/" + op, {"params": self.PARAMS if params is None else params, "indices": indices,
                                         "bounds": policy})
        self.assertStatus(reply, 200)
        doc = reply.json()
        return doc["output"]["data"], doc.get("bounds")

    def test_zero_stores_zeros_and_counts(self):
        self.assertEqual(self.gather_with_policy("zero", [0, 3, -1, 1]),
                         ([[1, 2], [0, 0], [0, 0], [3, 4]], {"policy": "zero", "replaced": 2}))

    def test_zero_stores_empty_strings_and_false(self):
        self.assertEqual(self.gather_with_policy("zero", [1, 9], ["a", "b"])[0], ["b", ""])
        self.assertEqual(self.gather_with_policy("zero", [1, 9], [True, True])[0], [True, False])

    def test_clip_selects_the_nearest(self):
        self.assertEqual(self.gather_with_policy("clip", [99, -5, 1]),
                         ([[5, 6], [1, 2], [3, 4]], {"policy": "clip", "replaced": 2}))

    def test_wrap_is_modulo_the_size(self):
        self.assertEqual(self.gather_with_policy("wrap", [-1, 3, -4, 7, 0]),
                         ([[5, 6], [1, 2], [5, 6], [3, 4], [1, 2]], {"policy": "wrap", "replaced": 4}))

    def test_extreme_indices_are_replaced_correctly(self):
        extremes = {"dtype": "int64", "data": [-9223372036854775808, 9223372036854775807]}
        self.assertEqual(self.gather_with_policy("zero", extremes)[0], [[0, 0], [0, 0]])
        self.assertEqual(self.gather_with_policy("clip", extremes)[0], [[1, 2], [5, 6]])
        rows = [self.PARAMS[-9223372036854775808 % 3], self.PARAMS[9223372036854775807 % 3]]
        self.assertEqual(self.gather_with_policy("wrap", extremes)[0], rows)

    def test_nothing_is_reported_when_nothing_was_replaced(self):
        for policy in ("error", "zero", "clip", "wrap"):
            self.assertEqual(self.gather_with_policy(policy, [2, 0]), ([[5, 6], [1, 2]], None), policy)

    def test_gather_nd_acts_on_components_and_zero_on_the_whole_row(self):
        params = [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
        self.assertEqual(self.gather_with_policy("clip", [[1, 9], [-3, 0]], params, "gather_nd")[0], [[7, 8], [1, 2]])
        self.assertEqual(self.gather_with_policy("wrap", [[-1, 2], [2, -1]], params, "gather_nd")[0], [[5, 6], [3, 4]])
        self.assertEqual(self.gather_with_policy("zero", [[1, 9], [1, 1]], params, "gather_nd")[0], [[0, 0], [7, 8]])

    def test_batch_gather_has_the_policies_too(self):
        data, bounds = self.gather_with_policy("clip", [[0, 5], [-1, 1]], [[1, 2], [3, 4]], "batch_gather")
        self.assertEqual((data, bounds), ([[1, 2], [3, 4]], {"policy": "clip", "replaced": 2}))

    def test_error_is_the_default_and_may_be_given(self):
        for extra in ({}, {"bounds": "error"}):
            reply = self.post("/v1/gather", {"params": [1, 2, 3], "indices": [[0, 7, 3]], **extra})
            self.assertProblem(reply, 422, "INDEX_OUT_OF_BOUNDS", input="indices", position=[0, 1], index=7, bound=3,
                               axis=0, bad_count=2, op="gather")

    def test_clip_and_wrap_fail_on_an_empty_axis(self):
        empty = {"dtype": "float32", "shape": [0, 2], "data": []}
        for policy in ("clip", "wrap", "error"):
            reply = self.post("/v1/gather", {"params": empty, "indices": [0], "bounds": policy})
            self.assertProblem(reply, 422, "INDEX_OUT_OF_BOUNDS", position=[0], index=0, bound=0)
        self.assertEqual(self.gather_with_policy("zero", [0, 4], empty), ([[0, 0], [0, 0]], {"policy": "zero", "replaced": 2}))

    def test_an_unknown_policy_is_refused(self):
        reply = self.post("/v1/gather", {"params": [1], "indices": [0], "bounds": "clamp"})
        self.assertProblem(reply, 400, "MALFORMED_REQUEST", pointer="/bounds")


class Layouts(HttpTest):
    """the response member"""
    BODY = {"params": [[1, 2], [3, 4]], "indices": [1, 0]}

    def test_nested_is_the_default(self):
        for extra in ({}, {"response": "nested"}):
            self.assertOutput(self.post("/v1/gather", {**self.BODY, **extra}), "int32", [2, 2], [[3, 4], [1, 2]])

    def test_flat_is_row_major(self):
        self.assertOutput(self.post("/v1/gather", {**self.BODY, "response": "flat"}), "int32", [2, 2], [3, 4, 1, 2])

    def test_base64_is_little_endian_bytes(self):
        reply = self.post("/v1/gather", {**self.BODY, "response": "base64"})
        self.assertOutput(reply, "int32", [2, 2], base64.b64encode(pack("int32", [3, 4, 1, 2])).decode())

    def test_base64_strings_carry_their_lengths(self):
        reply = self.post("/v1/gather", {**LETTERS, "response": "base64"})
        raw = base64.b64encode(raw_strings([b"c", b"d", b"a", b"b"])).decode()
        self.assertOutput(reply, "string", [2, 2], raw)

    def test_scalars_and_empty_tensors_in_each_layout(self):
        for layout, scalar, empty in (("nested", 8, [[], []]), ("flat", [8], [])):
            reply = self.post("/v1/gather", {"params": [7, 8], "indices": 1, "response": layout})
            self.assertStatus(reply, 200)
            self.assertIn(reply.json()["output"]["data"], (8, scalar))
            reply = self.post("/v1/gather", {"params": {"dtype": "int32", "shape": [2, 0], "data": []},
                                              "indices": [1, 0], "response": layout})
            self.assertOutput(reply, "int32", [2, 0], empty)

    def test_an_unknown_layout_is_refused(self):
        reply = self.post("/v1/gather", {**self.BODY, "response": "flatt"})
        self.assertProblem(reply, 400, "MALFORMED_REQUEST", pointer="/response")


class Device(HttpTest):
    BODY = {"params": [1, 2], "indices": [1]}

    def test_cpu_and_auto_are_computed(self):
        for device in ("cpu", "auto"):
            self.assertOutput(self.post("/v1/gather", {**self.BODY, "device": device}), "int32", [1], [2])

    def test_gpu_is_unavailable_without_one(self):
        self.assertProblem(self.post("/v1/gather", {**self.BODY, "device": "gpu"}), 503, "DEVICE_UNAVAILABLE")
        self.assertProblem(self.post("/v1/gather?device=gpu", self.BODY), 503, "DEVICE_UNAVAILABLE")

    def test_an_unknown_device_is_refused(self):
        reply = self.post("/v1/gather", {**self.BODY, "device": "tpu"})
        self.assertProblem(reply, 400, "MALFORMED_REQUEST", pointer="/device")


class Refs(HttpTest):
    """resident tables as inputs"""

    @property
    def options(self):
        return ("--data-dir", TABLES)

    def test_a_npy_file_is_a_table_by_its_name(self):
        reply = self.post("/v1/gather", {"params": {"ref": "table"}, "indices": [2, 0]})
        self.assertOutput(reply, "float32", [2, 2], [[5, 6], [1, 2]])

    def test_a_safetensors_entry_is_a_table_by_file_and_name(self):
        reply = self.post("/v1/gather", {"params": {"ref": "model:w"}, "indices": [3]})
        self.assertOutput(reply, "int16", [1], [40])

    def test_any_input_may_be_a_ref(self):
        reply = self.post("/v1/gather", {"params": {"ref": "model:w"}, "indices": {"ref": "model:ids"}})
        self.assertOutput(reply, "int16", [2], [40, 20])

    def test_gather_nd_and_batch_gather_take_refs(self):
        reply = self.post("/v1/gather_nd", {"params": {"ref": "table"}, "indices": [[2, 1]]})
        self.assertOutput(reply, "float32", [1], [6])
        reply = self.post("/v1/batch_gather", {"params": {"ref": "table"}, "indices": [[1], [0], [1]]})
        self.assertOutput(reply, "float32", [3, 1], [[2], [3], [6]])

    def test_an_unknown_table_is_404_with_a_suggestion(self):
        reply = self.post("/v1/gather", {"params": {"ref": "tabl"}, "indices": [0]})
        self.assertProblem(reply, 404, "TENSOR_NOT_FOUND", did_you_mean="table")

    def test_a_ref_with_other_members_is_refused(self):
        reply = self.post("/v1/gather", {"params": {"ref": "table", "dtype": "float32"}, "indices": [0]})
        self.assertProblem(reply, 400, "MALFORMED_REQUEST")

    def test_a_ref_is_a_string(self):
        for ref in (1, None, ["table"], {"ref": "table"}):
            reply = self.post("/v1/gather", {"params": {"ref": ref}, "indices": [0]})
            self.assertProblem(reply, 400, "MALFORMED_REQUEST", pointer="/params/ref")
