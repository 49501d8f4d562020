"""The members "outputs" and "output_dtype" of requests to ops."""
import itertools, math
from fractions import Fraction
from daemon import *

BINARY_HEADERS = {"Content-Type": SAFETENSORS}
# dtype -> bits of precision, exponent of the smallest subnormal, exponent of the first power of two that is too large
FLOATS = {"float16": (11, -24, 16), "bfloat16": (8, -133, 128), "float32": (24, -149, 128), "float64": (53, -1074, 1024)}
CASES = [0.0, -0.0, 1.0, -1.5, math.inf, -math.inf,
         1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-24, 1 + 3 * 2**-24,  # ties
         1 + 2**-11 + 2**-40, 1 + 2**-8 + 2**-40, -1 - 2**-11 - 2**-40,  # ties only after a first rounding to float32
         65504.0, 65519.0, 65519.99999999, 65520.0, -65520.0, 1e5, 3.3961775e38, 3.4e38, 3.5e38, -1e300,  # too large
         2.0**-25, 3 * 2.0**-25, 2.0**-24, 6e-8, 1e-40, 1e-45, 7e-46, 1e-300, 5e-324, 9.2e-41]  # subnormal


def rounded(value, dtype):
    """the nearest number of the dtype; of two, the even one"""
    precision, smallest, largest = FLOATS[dtype]
    if value == 0 or not math.isfinite(value):
        return value
    unit = max(math.frexp(value)[1] - precision, smallest)
    steps = round(math.ldexp(value, -unit)) if unit > -1074 else int(math.ldexp(value, 1074))
    if abs(steps) * Fraction(2) ** unit >= Fraction(2) ** largest:
        return math.copysign(math.inf, value)
    return math.copysign(float(steps * Fraction(2) ** unit), value)


def raw(dtype, values):
    """values of the dtype -> little-endian bytes"""
    return b"".join(struct.pack("<f", v)[2:] if dtype == "bfloat16" else pack(dtype, [v]) for v in values)


def same(dtype):
    """gather that returns CASES, rounded to this dtype"""
    values = [rounded(value, dtype) for value in CASES]
    return values, {"params": (dtype, (len(values),), raw(dtype, values)), "indices": ("int32", (len(values),), pack("int32", range(len(values))))}


class Rounding(HttpTest):
    def test_every_float_is_rounded_once_to_every_dtype(self):
        for given, asked in itertools.product(FLOATS, FLOATS):
            with self.subTest(given, asked=asked):
                values, body = same(given)
                wanted = raw(asked, [rounded(value, asked) for value in values])
                self.assertBinary(self.post("/v1/gather", safetensors(body, {"output_dtype": asked}), BINARY_HEADERS), asked, (len(values),), wanted)
                reply = self.post(f"/v1/gather?output_dtype={asked}&response=base64", safetensors(body), {**BINARY_HEADERS, "Accept": JSON})
                self.assertOutput(reply, asked, (len(values),), base64.b64encode(wanted).decode())

    def test_nan_stays_nan(self):
        for given, asked in itertools.product(FLOATS, FLOATS):
            with self.subTest(given, asked=asked):
                nan = {"dtype": given, "shape": [1], "data": ["NaN"]}
                self.assertOutput(self.post("/v1/gather", {"params": nan, "indices": [0], "output_dtype": asked}), asked, (1,), ["NaN"])

    def test_large_outputs_are_converted_completely(self):
        n = 300_001
        body = safetensors({"params": ("float32", (4,), pack("float32", [0.1, 1e9, -0.5, 3])), "indices": ("int32", (n,), pack("int32", [i % 4 for i in range(n)]))})
        wanted = (pack("float16", [rounded(0.1, "float16")]) + raw("float16", [math.inf, -0.5, 3.0])) * (n // 4) + pack("float16", [0.1])
        self.assertBinary(self.post("/v1/gather?output_dtype=float16", body, BINARY_HEADERS), "float16", (n,), wanted)

    def test_other_dtypes_do_not_change(self):
        for dtype, data in (("int32", [7]), ("uint64", [2**64 - 1]), ("bool", [True]), ("string", ["x"]), ("complex64", [[1.5, 0.1]]), ("complex128", [[1.5, 0.1]])):
            with self.subTest(dtype):
                params = {"dtype": dtype, "shape": [1], "data": data}
                self.assertOutput(self.post("/v1/gather", {"params": params, "indices": [0], "output_dtype": "float16"}), dtype, (1,), data)

    def test_each_output_of_a_list_is_converted(self):
        body = {"data": [0.1, 2.5, 1e6], "partitions": [1, 0, 1], "num_partitions": 3, "output_dtype": "float16"}
        outputs = self.post("/v1/dynamic_partition", body).json()["outputs"]
        self.assertEqual([(one["dtype"], one["data"]) for one in outputs], [("float16", [2.5]), ("float16", [0.1, "Infinity"]), ("float16", [])])

    def test_the_reply_tells_what_the_bounds_policy_replaced(self):
        reply = self.post("/v1/gather", {"params": [0.1], "indices": [5], "bounds": "zero", "output_dtype": "float16"})
        self.assertOutput(reply, "float16", (1,), [0.0])
        self.assertEqual(reply.json()["bounds"], {"policy": "zero", "replaced": 1})

    def test_a_stored_output_has_the_dtype(self):
        for n in (3, 100_000):  # in the call's memory, and in memory of its own
            with self.subTest(n):
                name = f"rounded{n}"
                body = {"params": [0.1, 1e9], "indices": [i % 2 for i in range(n)], "store": name, "output_dtype": "float16"}
                reply = self.post("/v1/gather", body)
                self.assertStatus(reply, 200)
                described = reply.json()["output"]
                self.assertEqual((described["dtype"], described["shape"], described["bytes"]), ("float16", [n], 2 * n))
                stored = self.get(f"/v1/tensors/{name}", {"Accept": SAFETENSORS})
                self.assertEqual(read_safetensors(stored.body)[0]["tensor"][2], (raw("float16", [rounded(0.1, "float16"), math.inf]) * n)[:2 * n])
                self.assertStatus(self.request("DELETE", f"/v1/tensors/{name}"), 204)

    def test_other_values_are_refused(self):
        for value, shown, near in (("int8", '"int8"', None), ("half", '"half"', "float16"), ("fp16", '"fp16"', "float16"), (16, "16", None), (None, "null", None)):
            with self.subTest(value):
                problem = self.assertProblem(self.post("/v1/gather", {"params": [0.1], "indices": [0], "output_dtype": value}), 400, "MALFORMED_REQUEST",
                                             attribute="output_dtype", pointer="/output_dtype", did_you_mean=near)
                self.assertEqual(problem["detail"], f'output_dtype is {shown}; expected "float16", "bfloat16", "float32" or "float64"')
        self.assertProblem(self.post("/v1/gather?output_dtype=float16", {"params": [0.1], "indices": [0], "output_dtype": "float32"}), 400, "MALFORMED_REQUEST")


class Limits(HttpTest):
    options = ("--max-output", "1K")

    def gather(self, n, asked, dtype="float32"):
        return self.post("/v1/gather", {"params": {"dtype": dtype, "shape": [1], "data": [0.5]}, "indices": [0] * n, "output_dtype": asked, "response": "base64"})

    def test_max_output_applies_to_the_output_in_its_dtype(self):
        self.assertStatus(self.gather(128, "float64"), 200)
        self.assertProblem(self.gather(129, "float64"), 422, "RESOURCE_LIMIT", resource="output_bytes", needed=1032, limit=1024)

    def test_max_output_applies_to_the_computed_output(self):
        self.assertStatus(self.gather(256, "float16"), 200)
        self.assertProblem(self.gather(257, "float16"), 422, "RESOURCE_LIMIT", resource="output_bytes", needed=1028, limit=1024)


class Device(HttpTest):
    options = ("--gpu", "reference")

    def test_outputs_of_a_device_are_converted_and_stored(self):
        for n in (2, 70_000):
            body = {"params": [0.1, 1e9], "indices": [i % 2 for i in range(n)], "device": "gpu", "output_dtype": "float16"}
            wanted = (raw("float16", [rounded(0.1, "float16"), math.inf]) * n)[:2 * n]
            with self.subTest(n):
                self.assertOutput(self.post("/v1/gather?response=base64", body), "float16", (n,), base64.b64encode(wanted).decode())
                reply = self.post("/v1/gather", {**body, "store": "of_device"})
                self.assertStatus(reply, 200)
                self.assertEqual((reply.json()["output"]["dtype"], reply.json()["output"]["bytes"]), ("float16", 2 * n))
                self.assertEqual(read_safetensors(self.get("/v1/tensors/of_device", {"Accept": SAFETENSORS}).body)[0]["tensor"][2], wanted)
        self.assertStatus(self.request("DELETE", "/v1/tensors/of_device"), 204)


class Selection(HttpTest):
    top = {"x": [0.5, 2.5, 1.5], "k": 2}
    values, indices = {"dtype": "float32", "shape": [2], "data": [2.5, 1.5]}, {"dtype": "int32", "shape": [2], "data": [1, 2]}

    def test_the_reply_has_only_the_selected_outputs(self):
        for outputs, wanted in ((["values"], {"values": self.values}), (["indices"], {"indices": self.indices}),
                                (["indices", "values"], {"values": self.values, "indices": self.indices})):
            with self.subTest(outputs):
                self.assertEqual(self.post("/v1/top_k", {**self.top, "outputs": outputs}).json(), {"outputs": wanted})
                reply = self.post("/v1/top_k?outputs=" + ",".join(outputs), self.top, {"Content-Type": JSON})
                self.assertEqual(reply.json(), {"outputs": wanted})
                self.assertEqual(list(reply.json()["outputs"]), list(wanted))  # in the op's order

    def test_safetensors_has_only_the_selected_outputs(self):
        body = safetensors({"x": ("float32", (3,), pack("float32", self.top["x"]))}, {"k": "2", "outputs": "indices"})
        reply = self.post("/v1/top_k", body, BINARY_HEADERS)
        self.assertEqual(read_safetensors(reply.body)[0], {"indices": ("int32", [2], pack("int32", [1, 2]))})

    def test_output_dtype_applies_to_the_selected_outputs(self):
        reply = self.post("/v1/top_k", {**self.top, "outputs": ["values"], "output_dtype": "float64"})
        self.assertEqual(reply.json(), {"outputs": {"values": {**self.values, "dtype": "float64"}}})

    def test_only_the_selected_outputs_are_stored(self):
        reply = self.post("/v1/top_k", {**self.top, "outputs": ["indices"], "store": "selected"})
        self.assertEqual(list(reply.json()["outputs"]), ["indices"])
        self.assertEqual(reply.json()["outputs"]["indices"], self.get("/v1/tensors/selected.indices").json())
        self.assertStatus(self.get("/v1/tensors/selected.values"), 404)
        self.assertEqual(self.get("/v1/tensors/selected.indices?response=nested").json(), self.indices)
        self.assertStatus(self.request("DELETE", "/v1/tensors/selected.indices"), 204)

    def test_lookup_and_find_have_several_outputs(self):
        body = {"params": [[1, 2], [3, 4]], "keys": [7, 8], "queries": [8, 9], "missing": "zero"}
        self.assertEqual(self.post("/v1/lookup", {**body, "outputs": ["found"]}).json(),
                         {"outputs": {"found": {"dtype": "bool", "shape": [2], "data": [True, False]}}})

    def test_bad_selections_name_the_outputs(self):
        for outputs, detail, near in (([], "outputs is empty; expected one or more of values, indices", None),
                                      (["value"], 'top_k has no output "value"; expected values, indices', "values"),
                                      (["values", "x"], 'top_k has no output "x"; expected values, indices', None),
                                      ([""], 'top_k has no output ""; expected values, indices', None),
                                      (["values,indices"], 'top_k has no output "values,indices"; expected values, indices', None),
                                      (["indices", "values", "indices"], 'outputs contains "indices" twice', None),
                                      (["values", 1], "outputs is a list; expected a list of strings", None),
                                      ([["values"]], "outputs is a list; expected a list of strings", None),
                                      (["values"] * 65, "outputs is a list; expected a list of strings", None),
                                      ("values", 'outputs is "values"; expected a list of strings', None),
                                      ({}, "outputs is an object; expected a list of strings", None)):
            with self.subTest(outputs):
                problem = self.assertProblem(self.post("/v1/top_k", {**self.top, "outputs": outputs}), 400, "MALFORMED_REQUEST",
                                             attribute="outputs", pointer="/outputs", did_you_mean=near)
                self.assertEqual(problem["detail"], detail)
        for query, detail in (("", "outputs is empty; expected one or more of values, indices"), ("values,", 'top_k has no output ""; expected values, indices'),
                              ("values,values", 'outputs contains "values" twice')):
            with self.subTest(query):
                problem = self.assertProblem(self.post("/v1/top_k?outputs=" + query, self.top, {"Content-Type": JSON}), 400, "MALFORMED_REQUEST", attribute="outputs")
                self.assertEqual(problem["detail"], detail)

    def test_body_and_query_must_select_the_same(self):
        body = {**self.top, "outputs": ["values"]}
        self.assertStatus(self.post("/v1/top_k?outputs=values", body, {"Content-Type": JSON}), 200)
        problem = self.assertProblem(self.post("/v1/top_k?outputs=indices", body, {"Content-Type": JSON}), 400, "MALFORMED_REQUEST")
        self.assertEqual(problem["detail"], "outputs has different values in the query string and in the body")

    def test_ops_with_one_output_or_a_list_have_no_selection(self):
        for op, body in (("gather", {"params": [1], "indices": [0]}), ("dynamic_partition", {"data": [1], "partitions": [0], "num_partitions": 1})):
            problem = self.assertProblem(self.post(f"/v1/{op}", {**body, "outputs": ["output"]}), 400, "MALFORMED_REQUEST", attribute="outputs")
            self.assertIn(f'{op} has no member "outputs"', problem["detail"])


class Inference(HttpTest):
    def infer(self, op, inputs, **members):
        return self.post(f"/v2/models/{op}/infer", {"inputs": inputs, **members})

    gather = [{"name": "params", "datatype": "FP32", "shape": [2], "data": [0.1, 1e9]}, {"name": "indices", "datatype": "INT64", "shape": [2], "data": [0, 1]}]
    top = [{"name": "x", "datatype": "FP32", "shape": [3], "data": [0.5, 2.5, 1.5]}]

    def test_output_dtype_is_a_parameter(self):
        for asked, datatype, size in (("float16", "FP16", 2), ("bfloat16", "BF16", 2), ("float64", "FP64", 8)):
            with self.subTest(asked):
                reply = self.infer("gather", self.gather, parameters={"output_dtype": asked, "binary_data_output": True})
                self.assertStatus(reply, 200)
                length = int(reply.headers["Inference-Header-Content-Length"])
                self.assertEqual(json.loads(reply.body[:length])["outputs"], [{"name": "output", "datatype": datatype, "shape": [2], "parameters": {"binary_data_size": 2 * size}}])
                first = struct.unpack("<f", pack("float32", [0.1]))[0]
                self.assertEqual(reply.body[length:], raw(asked, [rounded(first, asked), rounded(1e9, asked)]))

    def test_the_protocol_selects_outputs_by_its_own_list(self):
        reply = self.infer("top_k", self.top, outputs=[{"name": "values"}], parameters={"k": 1, "output_dtype": "float16"})
        self.assertEqual(reply.json()["outputs"], [{"name": "values", "datatype": "FP16", "shape": [1], "data": [2.5]}])
        reply = self.infer("top_k", self.top, outputs=[{"name": "indices"}, {"name": "values"}], parameters={"k": 1, "output_dtype": "float16"})
        self.assertEqual([(one["name"], one["datatype"]) for one in reply.json()["outputs"]], [("indices", "INT32"), ("values", "FP16")])
        self.assertStatus(self.infer("top_k", self.top, parameters={"k": 1, "outputs": "values"}), 400)

    def test_a_bad_dtype_is_an_error_at_the_parameter(self):
        reply = self.infer("gather", self.gather, parameters={"output_dtype": "FP16"})
        self.assertStatus(reply, 400)
        self.assertEqual(reply.json()["pointer"], "/parameters/output_dtype")
