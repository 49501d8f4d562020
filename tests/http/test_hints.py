"""Errors show the form that was meant: NaN in JSON, the name of a resident tensor, keys of rows, a part of a name."""
import re
from daemon import *

NAN = '{"dtype":"float32","data":["NaN"]}'


class Hints(HttpTest):
    def put(self, name, body):
        return self.request("PUT", "/v1/tensors/" + name, body)

    def detail(self, path, body, pointer=None):
        reply = self.post(path, body.encode() if isinstance(body, str) else body)
        self.assertIn(reply.status, (400, 422), reply.body)
        problem = reply.json()
        if pointer:
            self.assertEqual(problem.get("pointer"), pointer)
        return problem["detail"]

    def test_nan_and_infinity_lead_to_their_form(self):
        for text, pointer in (("[NaN]", None), ("[1, NaN]", None), ("[[1], [nan]]", None), ("[1.5, Infinity]", None), ("[1, -Infinity]", None), ("[+inf]", None),
                              ("NaN", None), ("[[1], NaN]", None), ("[null]", "/x/0"), ("[1, null]", "/x/1"), ("null", "/x"), ("[[1], null]", "/x/1"),
                              ('[1, "NaN"]', "/x/1"), ('[1.5, "-Infinity"]', "/x/1"), ('["NaN", 1]', "/x/1"), ('["a", "NaN", 1]', "/x/2"), ('["NaN"]', None),
                              ('{"dtype": "float32", "data": [NaN]}', None), ('{"dtype": "float32", "data": [1, null]}', "/x/data/1"),
                              ('{"dtype": "float32", "shape": [1], "data": ["nan"]}', "/x/data/0"), ('{"dtype": "float32", "data": NaN}', None)):
            with self.subTest(text):
                self.assertIn(NAN, self.detail("/v1/cast", '{"x": %s, "dtype": "int8"}' % text, pointer))
        for text in ("[1, NaN]", "NaN", "[null]", '[1, "NaN"]', '["NaN"]'):
            with self.subTest(text):
                self.assertIn(NAN, self.detail("/v1/einsum", '{"inputs": [%s], "equation": "i->i"}' % text))
        for text in ("[1, NaN]", "NaN", "[null]"):  # "NaN" is one here: the list has the dtype of the other
            with self.subTest(text):
                self.assertIn(NAN, self.detail("/v1/einsum", '{"inputs": [{"dtype": "float32", "data": [1]}, %s], "equation": "i,i->i"}' % text))

    def test_the_form_has_the_dtype_that_was_given(self):
        for dtype, data in (("float16", '["NaN"]'), ("float64", '["NaN"]'), ("complex64", '[["NaN",0]]')):
            text = '{"x": {"dtype": "%s", "data": [%s]}, "dtype": "int8"}' % (dtype, "[1, null]" if dtype == "complex64" else "null")
            self.assertIn('{"dtype":"%s","data":%s}' % (dtype, data), self.detail("/v1/cast", text))

    def refused_advice(self, path, body, pointer):
        """what follows '16777217 is not exact in float32; ' in the error"""
        before, at, advice = self.detail(path, json.dumps(body), pointer).partition("16777217 is not exact in float32; ")
        self.assertTrue(at, before)
        return advice

    def test_an_integer_that_a_float_would_round_is_an_error_with_ways_out_that_work(self):
        """The advice is followed: the bodies with WIDE in place of the values, and with 16777217.0, are accepted."""
        rounds, or_wide = "write it as 16777217.0 to accept rounding, in JavaScript Math.fround(16777217)", ', or give the values another dtype: {"dtype": "float64", "data": [...]}'
        self.put("hint.floats", {"tensor": [[0.5, 1.5]], "keys": [5]})
        self.put("hint.table", [[0.5, 1.5]])
        float32 = lambda data: {"dtype": "float32", "data": data}
        rows, table = [16777217, 0.5], {"ref": "hint.table"}
        cases = (("/v1/concat", {"inputs": [[1.5], "HERE"], "axis": 0}, "/inputs/1/0", rows, True),
                 ("/v1/concat", {"inputs": [{"dtype": "float32", "data": [1.5]}, "HERE"], "axis": 0}, "/inputs/1/0", rows, False),
                 ("/v1/concat", {"inputs": ["HERE", {"dtype": "float32", "data": [1.5]}], "axis": 0}, "/inputs/0/data/0", float32(rows), False),
                 ("/v1/cast", {"x": "HERE", "dtype": "int8"}, "/x/0", rows, True),
                 ("/v1/cast", {"x": "HERE", "dtype": "int8"}, "/x/data/0", float32(rows), True),
                 ("/v1/gather", {"params": "HERE", "indices": [0]}, "/params/0", rows, True),
                 ("/v1/dequantize", {"params": {"dtype": "int8", "data": [[1]]}, "scale": "HERE"}, "/scale/0", [16777217], False),
                 ("/v1/embedding_bag", {"params": [[1.5], [2.5]], "indices": [[0, 1]], "weights": "HERE"}, "/weights/0/0", [rows], True),
                 ("/v1/embedding_bag", {"params": table, "indices": [[0, 0]], "weights": "HERE"}, "/weights/0/0", [rows], False),
                 ("/v1/embedding_bag", {"weights": "HERE", "params": table, "indices": [[0, 0]]}, "/weights/data/0/0", float32([rows]), False),
                 ("/v1/lookup", {"keys": [1], "params": table, "queries": [2], "missing": "default", "default": "HERE"}, "/default/0", rows, False),
                 ("/v1/tensors/hint.table/scatter", {"indices": [[0]], "updates": "HERE"}, "/updates/0/0", [rows], False),
                 ("/v1/tensors/hint.table/scatter", {"indices": [[0]], "updates": "HERE"}, "/updates/data/0/0", float32([rows]), False),
                 ("/v1/tensors/hint.floats/upsert", {"keys": [5], "rows": "HERE"}, "/rows/0/0", [rows], False))
        for path, body, pointer, values, widens in cases:
            with self.subTest(path, values=values, widens=widens):
                text = json.dumps(body)
                given = lambda values: text.replace('"HERE"', json.dumps(values))
                advice = self.refused_advice(path, json.loads(given(values)), pointer)
                self.assertTrue(advice.startswith(rounds + (or_wide if widens else "")), advice)
                self.assertEqual("another dtype" in advice, widens)
                self.assertStatus(self.post(path, given(values).replace("16777217", "16777217.0").encode()), 200)
                data = values["data"] if isinstance(values, dict) else values
                if widens:
                    self.assertStatus(self.post(path, given({"dtype": "float64", "data": data}).encode()), 200)
        self.assertIn("expected dtype float32, as in the table",
                      self.detail("/v1/tensors/hint.floats/upsert", {"keys": [5], "rows": [rows]}, "/rows/0/0"))
        for name in ("hint.floats", "hint.table"):
            self.assertStatus(self.request("DELETE", "/v1/tensors/" + name), 204)

    def test_an_integer_that_no_float_holds_has_no_advice_for_another_dtype(self):
        for text in ('[9007199254740993, 0.5]', '{"dtype": "float64", "data": [9007199254740993, 0.5]}'):
            with self.subTest(text):
                detail = self.detail("/v1/cast", '{"x": %s, "dtype": "int8"}' % text)
                self.assertIn("write it as 9007199254740993.0 to accept rounding", detail)
                self.assertNotIn("another dtype", detail)
                self.assertStatus(self.post("/v1/cast", b'{"x": %s, "dtype": "int8"}' % text.replace("993", "993.0").encode()), 200)

    def test_a_long_integer_with_an_exponent_is_an_error_since_a_program_may_have_rounded_it(self):
        for text in ("9.00719925474099e+15", "1e15", "-1e18", "1000000000000000.0"):
            detail = self.detail("/v1/find", '{"keys": {"dtype": "int64", "data": [%s]}, "queries": {"dtype": "int64", "data": [1]}}' % text, "/keys/data/0")
            self.assertIn(text + " might be a rounded integer", detail)
            self.assertIn("write all digits of the integer without a fraction or an exponent, or write it as a string", detail)
        for element in ("9e14", "9007199254740993", '"9007199254740993"', "999999999999999.0"):
            keys = '{"dtype": "int64", "data": [%s]}' % element
            self.assertEqual(self.post("/v1/find", ('{"keys": %s, "queries": %s}' % (keys, keys)).encode()).json()["output"]["data"], [0])

    def test_a_number_too_large_for_float32_is_an_error_with_a_way_out_that_works(self):
        inferred = "without a dtype, numbers with a fraction or an exponent are float32"
        wide = 'give the values another dtype: {"dtype": "float64", "data": [...]}'
        self.put("hint.table", [[0.5, 1.5]])
        bodies = (("/v1/cast", '{"x": %s, "dtype": "int8"}', "/x/0", "[1e39]", (inferred, wide)),
                  ("/v1/gather", '{"params": %s, "indices": [0]}', "/params/1", "[0.5, 1e39]", (inferred, wide)),
                  ("/v1/gather", '{"params": %s, "indices": [0]}', "/params/1", "[1, 1e39]", (inferred, wide)),
                  ("/v1/gather", '{"params": {"dtype": "float32", "data": %s}, "indices": [0]}', "/params/data/0", "[1e39]", (wide,)),
                  ("/v1/gather", '{"params": %s, "indices": [0]}', "/params/0", "[1e309]", (inferred,)),
                  ("/v1/dequantize", '{"params": {"dtype": "int8", "data": [[1]]}, "scale": %s}', "/scale/0", "[1e39]", (inferred,)),
                  ("/v1/tensors/hint.table/scatter", '{"indices": [[0]], "updates": %s}', "/updates/0/0", "[[1e39, 1]]", ("expected dtype float32, as in the table",)))
        for path, body, pointer, values, hints in bodies:
            with self.subTest(path, values=values):
                number = "1e309" if "1e309" in values else "1e39"
                self.assertEqual(self.detail(path, body % values, pointer), "; ".join((number + " does not fit float32",) + hints))
                if wide in hints and "data" not in body:
                    self.assertStatus(self.post(path, (body % ('{"dtype": "float64", "data": %s}' % values)).encode()), 200)
        reply = self.put("hint.wide", b"[[1e300, 2.0]]")
        self.assertEqual(reply.json()["detail"], "; ".join(("1e300 does not fit float32", inferred, wide)))
        self.assertStatus(self.request("DELETE", "/v1/tensors/hint.table"), 204)

    def test_an_integer_that_does_not_fit_its_dtype_has_no_advice(self):
        self.assertEqual(self.detail("/v1/cast", '{"x": {"dtype": "int8", "data": [300]}, "dtype": "int32"}', "/x/data/0"), "300 does not fit int8")

    def test_the_open_inference_protocol_rounds_integers_to_its_datatype(self):
        inputs = [{"name": "x", "datatype": "FP32", "shape": [1], "data": [16777217]}]
        reply = self.post("/v2/models/cast/infer", {"inputs": inputs, "parameters": {"dtype": "float64"}})
        self.assertEqual(reply.json()["outputs"][0]["data"], [16777216.0])

    def test_the_shape_of_a_complex_tensor_is_without_re_and_im(self):
        pair = "; in data, a complex number is [re, im]; this last dimension of size 2 is not part of the shape"
        of_data = lambda data, shape: '{"dtype": "complex64",%s "data": %s}' % (shape and ' "shape": %s,' % shape, data)
        for data, shape, message in (("[1, 2]", "[2]", "data has shape [], but shape is [2]"), ("[[1, 2], [3, 4]]", "[2, 2]", "data has shape [2], but shape is [2,2]")):
            with self.subTest(data):
                self.assertEqual(self.put("hint.complex", of_data(data, shape).encode()).json()["detail"], message + pair)
        for op, body, message in (("gather", '{"params": %s, "indices": [0]}' % of_data("[1, 2]", ""), "params is a scalar; expected at least one dimension"),
                                  ("einsum", '{"inputs": [%s], "equation": "ij->ji"}' % of_data("[[1, 2], [3, 4]]", ""),
                                   "inputs[0] has shape [2], rank 1; its subscript expects rank 2"),
                                  ("gather", '{"params": %s, "indices": [0], "axis": 1}' % of_data("[[1, 2]]", ""), "axis = 1 is not in [-1, 1): params has shape [1]")):
            with self.subTest(op, body=body):
                self.assertEqual(self.detail("/v1/" + op, body), message + pair)
        self.assertEqual(self.detail("/v1/gather", '{"params": %s, "indices": [5]}' % of_data("[[1, 2]]", "")), "indices[0] = 5 is not in [0, 1)")
        self.assertNotIn("complex", self.put("hint.complex", b'{"dtype": "float32", "shape": [2], "data": 1}').json()["detail"])

    def test_complex_base64_has_no_advice_about_re_and_im(self):
        params = {"dtype": "complex64", "shape": [1], "base64": "AACAPwAAAEA="}
        self.assertEqual(self.detail("/v1/gather", json.dumps({"params": params, "indices": [0], "axis": 1})), "axis = 1 is not in [-1, 1): params has shape [1]")

    def test_a_typed_array_of_javascript_leads_to_array_from(self):
        typed = '{"0":1.5,"1":2}'
        hint = "; JSON.stringify turns a typed array x into such an object; send Array.from(x)"
        for path, body in (("/v1/gather", '{"params": %s, "indices": [0]}'), ("/v1/gather", '{"params": [%s], "indices": [0]}'),
                           ("/v1/gather", '{"params": [[1, 2], %s], "indices": [0]}'), ("/v1/gather", '{"params": [1], "indices": %s}'),
                           ("/v1/gather", '{"params": {"dtype": "float32", "data": %s}, "indices": [0]}'),
                           ("/v1/gather", '{"params": {"dtype": "float32", "shape": [2], "data": %s}, "indices": [0]}'),
                           ("/v1/einsum", '{"inputs": [%s], "equation": "i->"}'), ("/v1/einsum", '{"inputs": %s, "equation": "i->"}'),
                           ("/v1/einsum", '{"inputs": [[1.5, 2.5], %s], "equation": "i,i->"}')):
            with self.subTest(body):
                self.assertTrue(self.detail(path, body % typed).endswith(hint))
        self.assertTrue(self.put("hint.typed", typed.encode()).json()["detail"].endswith(hint))
        self.assertNotIn("Array.from", self.detail("/v1/gather", '{"params": {"x": 1}, "indices": [0]}'))

    def test_a_fraction_among_integers_leads_to_the_dtype_of_integers(self):
        self.put("hint.whole", [[1, 2], [3, 4]])  # as JavaScript writes 1.0
        for path, body in (("/v1/einsum", '{"inputs": [{"ref": "hint.whole"}, [[1.5, 2]]], "equation": "ij,kj->ik"}'),
                           ("/v1/tensors/hint.whole/scatter", '{"indices": [[0]], "updates": [[1.5, 2]]}')):
            self.assertIn("without a dtype, numbers without a fraction are int32", self.detail(path, body))
        self.assertTrue(self.detail("/v1/einsum", {"equation": "ij,j->i", "inputs": [{"ref": "hint.whole"}, [0.5, 1]]})
                        .endswith("as in inputs; without a dtype, numbers without a fraction are int32; "
                                  "the op cast with dtype = float64 converts inputs"))
        self.assertIn("as in inputs; to use fractions, give inputs as {\"dtype\": \"float64\"", self.detail("/v1/einsum", {"equation": "i,i->", "inputs": [{"dtype": "int32", "data": [1]}, [0.5]]}))
        self.put("hint.whole", {"dtype": "int8", "data": [[1, 2], [3, 4]]})
        self.assertIn("as in inputs; the op dequantize converts quantised rows, and the op cast with dtype = float64 converts other bytes",
                      self.detail("/v1/einsum", {"equation": "ij,j->i", "inputs": [{"ref": "hint.whole"}, [0.5, 1]]}))
        self.put("hint.whole", {"dtype": "float32", "data": [[1, 2], [3, 4]]})
        self.assertStatus(self.post(path, body.encode()), 200)
        self.assertStatus(self.request("DELETE", "/v1/tensors/hint.whole"), 204)

    def test_a_resident_tensor_in_the_query_string_leads_to_the_body(self):
        for path, body, advice, meant in (
                ("/v1/gather", {"indices": [0]}, '"params": {"ref": "NAME"} in JSON', {"params": {"ref": "hint.query"}, "indices": [0]}),
                ("/v1/concat", {"axis": 0}, '"inputs": [{"ref": "NAME"}] in JSON', {"inputs": [{"ref": "hint.query"}], "axis": 0})):
            self.put("hint.query", [[1.5]])
            name = "params.ref" if "params" in meant else "inputs.0.ref"
            detail = self.assertProblem(self.post(f"{path}?{name}=hint.query", body), 400, "MALFORMED_REQUEST")["detail"]
            self.assertIn(advice, detail)
            self.assertIn(f'the metadata entry "{name}" in safetensors', detail)
            self.assertIn(advice, self.detail(path, json.dumps({**body, name: "hint.query"})))
            self.assertStatus(self.post(path, meant), 200)
        self.assertStatus(self.request("DELETE", "/v1/tensors/hint.query"), 204)

    def test_a_stored_result_of_two_tensors_is_suggested_by_its_whole_name(self):
        self.put("hint.bess", [1])
        self.assertStatus(self.post("/v1/top_k", {"x": [1.5, 2.5], "k": 1, "store": {"name": "hint.best"}}), 200)
        problem = self.assertProblem(self.post("/v1/gather", {"params": {"ref": "hint.best"}, "indices": [0]}), 404, "TENSOR_NOT_FOUND")
        self.assertIn(problem["did_you_mean"], ("hint.best.values", "hint.best.indices"))
        for name in ("hint.bess", "hint.best.values", "hint.best.indices"):
            self.assertStatus(self.request("DELETE", "/v1/tensors/" + name), 204)

    def test_the_starts_of_bags_as_offset_lead_to_offsets(self):
        body = {"params": [[1.5], [2.5]], "indices": [0, 1]}
        self.assertIn("the input offsets gives the positions where bags start", self.detail("/v1/embedding_bag", json.dumps({**body, "offset": [0.0]})))
        self.assertStatus(self.post("/v1/embedding_bag", {**body, "offsets": [0]}), 200)

    def test_a_binary_file_that_a_client_cut_or_stripped_leads_to_sending_it_whole(self):
        file = safetensors({"params": ("float32", (2, 1), pack("float32", [1.5, 2.5])), "indices": ("int32", (1,), pack("int32", [0]))})
        cut, stripped = file[:file.index(0)], re.sub(rb"[\0\r\n]", b"", file)  # as CURLOPT_POSTFIELDS and curl -d send it
        for content_type in ("application/x-www-form-urlencoded", "application/json", SAFETENSORS):
            for method, path in (("PUT", "/v1/tensors/hint.cut"), ("POST", "/v1/gather")):
                for body in (cut, cut[:1], stripped):
                    with self.subTest(path, content_type=content_type, body=body):
                        reply = self.request(method, path, body, {"Content-Type": content_type})
                        detail = self.assertProblem(reply, 400, "MALFORMED_REQUEST")["detail"]
                        self.assertIn("curl --data-binary or -T, or with CURLOPT_POSTFIELDSIZE", detail)

    def test_elements_alone_lead_to_base64_whatever_content_type_they_have(self):
        for format, *values in (("<2f", 1, 2), ("<2f", 0.1, 0.2), ("<2i", 1, 2), ("<2i", 0, 1), ("<2d", 1.9, 2.7)):
            for headers in ({}, {"Content-Type": "application/json"}, {"Content-Type": "application/octet-stream"}):
                for method, path in (("PUT", "/v1/tensors/hint.raw"), ("POST", "/v1/gather")):
                    with self.subTest(path, values=values, headers=headers):
                        reply = self.request(method, path, struct.pack(format, *values), headers)
                        self.assertStatus(reply, 400)
                        self.assertTrue(reply.json()["detail"].endswith("to send elements without a header, use base64 in JSON"), reply.body)

    def test_the_name_of_a_file_as_a_body_leads_to_its_contents(self):
        for content_type in ("application/json", "application/x-www-form-urlencoded", "application/x-npy", "application/octet-stream"):
            with self.subTest(content_type):
                reply = self.request("PUT", "/v1/tensors/hint.raw", b"planets.npy", {"Content-Type": content_type})
                self.assertStatus(reply, 400)
                self.assertEqual(reply.json()["detail"], "the body is the name of a file; curl sends the file's contents with --data-binary @FILE")
        self.assertIn("--data-binary @FILE", self.detail("/v1/gather", "request.json"))

    def test_that_form_works(self):
        reply = self.post("/v1/cast", '{"x": %s, "dtype": "float64"}' % NAN)
        self.assertEqual(reply.json()["output"]["data"], ["NaN"])

    def test_where_no_nan_can_be_there_is_no_hint(self):
        for text in ('{"dtype": "int32", "data": ["NaN"]}', '{"dtype": "int32", "data": [null]}', "[true, null]", '["a", null]', '["a", 1]', "[1, nano]", '[1, "nan "]'):
            with self.subTest(text):
                self.assertNotIn("NaN, Infinity", self.detail("/v1/cast", '{"x": %s, "dtype": "int8"}' % text))

    def test_a_name_in_place_of_a_tensor_leads_to_ref(self):
        for op, body in (("gather", {"params": "glove", "indices": [1]}), ("gather_nd", {"params": "glove", "indices": [[1]]}), ("einsum", {"inputs": ["glove"], "equation": "i->i"}),
                         ("einsum", {"inputs": "glove", "equation": "i->i"}), ("einsum", {"inputs": [{"dtype": "float32", "data": [1]}, "glove"], "equation": "i,i->i"}),
                         ("concat", {"inputs": ["glove", "glove"]}), ("top_k", {"x": "glove", "k": 1}), ("find", {"keys": "glove", "queries": [1]}),
                         ("lookup", {"params": "glove", "queries": [1]}), ("embedding_bag", {"params": "glove", "indices": [1], "offsets": [0]}),
                         ("dynamic_partition", {"data": "glove", "partitions": [1], "num_partitions": 2}), ("cast", {"x": "glove", "dtype": "int8"}),
                         ("dequantize", {"params": {"dtype": "int8", "data": [[1]]}, "scale": "glove"})):
            with self.subTest(op, body=body):
                self.assertIn('{"ref": "glove"}', self.detail("/v1/" + op, body))
        self.assertNotIn("ref", self.detail("/v1/find", {"keys": [1], "queries": "glove"}))  # a key that is text

    def test_strings_in_place_of_row_numbers_lead_to_keys(self):
        self.assertStatus(self.put("hints", [[1.5], [2]]), 201)
        for params in ([1, 2], {"ref": "hints"}):
            for indices in (["Mars", "Venus"], "Mars", [["Mars"]]):
                self.assertIn('{"keys": ["Mars"]}', self.detail("/v1/gather", {"params": params, "indices": indices}))
        self.assertIn('{"keys": ["Mars"]}', self.detail("/v1/tensors/hints/gather", {"indices": ["Mars"]}))
        self.assertIn('{"keys": ["Mars"]}', self.detail("/v1/embedding_bag", {"params": {"ref": "hints"}, "indices": ["Mars"], "offsets": [0]}))
        self.assertStatus(self.request("DELETE", "/v1/tensors/hints"), 204)

    def test_a_fraction_among_indices_or_keys_is_named_at_its_place(self):
        many = [*range(3)] * 2000
        many[4711] = 3.5
        self.assertStatus(self.put("counted", [[1.5], [2]]), 201)
        for path, body, pointer, value in (
                ("/v1/gather", {"params": [1, 2, 3], "indices": many}, "/indices/4711", "3.5"), ("/v1/gather", {"params": [1, 2], "indices": 1.0}, "/indices", "1.0"),
                ("/v1/gather_nd", {"params": [1, 2], "indices": [[0], [1e100]]}, "/indices/1/0", "1e+100"),
                ("/v1/dynamic_stitch", {"indices": [[0], [1, 0.5]], "data": [[1], [2, 3]]}, "/indices/1/1", "0.5"),
                ("/v1/dynamic_partition", {"data": [1, 2], "partitions": [0, 1.5], "num_partitions": 2}, "/partitions/1", "1.5"),
                ("/v1/embedding_bag", {"params": [[1.5], [2]], "indices": [0, 1], "offsets": [0, 0.5]}, "/offsets/1", "0.5"),
                ("/v1/find", {"keys": [1, 2], "queries": [2, 1.5]}, "/queries/1", "1.5"), ("/v1/find", {"keys": [1.5, 2], "queries": [2]}, "/keys/0", "1.5"),
                ("/v1/tensors/counted/gather", {"indices": [0, 0.5]}, "/indices/1", "0.5"), ("/v1/tensors/counted/scatter", {"indices": [[0.5]], "updates": [[1]]}, "/indices/0/0", "0.5")):
            with self.subTest(path, pointer=pointer):
                problem = self.assertProblem(self.post(path, body), 422, "UNSUPPORTED_DTYPE", pointer=pointer)
                self.assertEqual(problem["detail"], value + " is not an integer; indices and keys must be integers, written without a fraction or an exponent")
        self.assertProblem(self.request("PUT", "/v1/tensors/counted/keys", [1, 2.5]), 422, "UNSUPPORTED_DTYPE", pointer="/1")
        self.assertProblem(self.post("/v1/gather", {"params": [1], "indices": [0, 1 << 64]}), 400, "MALFORMED_REQUEST", pointer="/indices/1")
        self.assertStatus(self.request("DELETE", "/v1/tensors/counted"), 204)

    def test_a_value_of_another_dtype_than_the_table_leads_to_that_dtype(self):
        self.assertStatus(self.put("dtypes", [[1.5], [2]]), 201)
        self.assertStatus(self.request("PUT", "/v1/tensors/dtypes/keys", ["a", "b"]), 201)
        keys, rows = "; expected dtype string, as in the keys of the table", "; expected dtype float32, as in the table"
        for path, body, pointer, hint in (("/v1/lookup", {"params": {"ref": "dtypes"}, "queries": ["a", 1]}, "/queries/1", keys), ("/v1/tensors/dtypes/find", {"queries": [1]}, "/queries/0", keys),
                                          ("/v1/tensors/dtypes/gather", {"keys": [1]}, "/keys/0", keys), ("/v1/gather", {"params": {"ref": "dtypes"}, "indices": {"keys": [1]}}, "/indices/keys/0", keys),
                                          ("/v1/tensors/dtypes/upsert", {"keys": [1], "rows": [[1]]}, "/keys/0", keys), ("/v1/tensors/dtypes/upsert", {"keys": ["a"], "rows": [["x"]]}, "/rows/0/0", rows)):
            with self.subTest(path, pointer=pointer):
                self.assertIn(hint, self.detail(path, body, pointer))
        self.assertIn("; expected dtype float32, as in inputs", self.detail("/v1/concat", {"inputs": [{"dtype": "float32", "data": [1]}, ["a"]]}, "/inputs/1/0"))
        self.assertNotIn("as in", self.detail("/v1/lookup", '{"params": {"ref": "dtypes"}, "queries": ["a", }'))
        self.assertStatus(self.request("DELETE", "/v1/tensors/dtypes"), 204)

    def test_row_numbers_in_a_flat_list_lead_to_a_list_of_tuples(self):
        self.assertStatus(self.put("flat", [[1.5, 2], [3, 4], [5, 6]]), 201)
        for path, body in (("/v1/tensors/flat/scatter", {"indices": [0, 2], "updates": [[1, 2], [3, 4]]}), ("/v1/tensors/flat/scatter", {"indices": [0, 1, 2], "updates": [[1, 2]] * 3}),
                           ("/v1/gather_nd", {"params": [1, 2, 3], "indices": [0, 2]})):
            problem = self.assertProblem(self.post(path, body), 422, "SHAPE_MISMATCH", input="indices")
            self.assertIn(f"indices of shape [{len(body['indices'])},1], one tuple per row: [[i], [j], ...]", problem["detail"])
        self.assertStatus(self.request("DELETE", "/v1/tensors/flat"), 204)

    def test_keys_for_a_table_that_has_none_lead_to_row_numbers_and_to_where_keys_come_from(self):
        self.assertStatus(self.put("keyless", [[1.5], [2]]), 201)
        begin, numbers = "'keyless' has no keys to find rows by; ", "give row numbers as indices, or "
        end = "set keys with PUT /v1/tensors/keyless/keys, or import the table with --keys"
        ref = {"ref": "keyless"}
        for path, body, detail in (("/v1/tensors/keyless/gather", {"keys": ["a"]}, begin + numbers + end), ("/v1/tensors/keyless/embedding_bag", {"keys": [["a"]]}, begin + numbers + end),
                                   ("/v1/gather", {"params": ref, "indices": {"keys": ["a"]}}, begin + numbers + end), ("/v1/tensors/keyless/lookup", {"keys": ["a"]}, begin + end),
                                   ("/v1/lookup", {"params": ref, "queries": [1]}, begin + end), ("/v1/tensors/keyless/find", {"keys": ["a"]}, begin + end),
                                   ("/v1/tensors/keyless/upsert", {"keys": ["a"], "rows": [[1]]}, begin + end), ("/v1/tensors/keyless/remove", {"keys": ["a"]}, begin + end)):
            with self.subTest(path, body=body):
                self.assertEqual(self.assertProblem(self.post(path, body), 422, "INVALID_ARGUMENT")["detail"], detail)
        reply = self.post("/v1/tensors/keyless/gather", safetensors({"keys": ("int64", (1,), pack("int64", [7]))}), {"Content-Type": SAFETENSORS})
        self.assertEqual(self.assertProblem(reply, 422, "INVALID_ARGUMENT", input="keys")["detail"], begin + numbers + end)
        self.assertIn("give row numbers as indices", self.detail("/v1/gather", {"params": [1, 2], "indices": {"keys": ["a"]}}))
        self.assertIn('"indices": {"keys": [...]}, together with "params": {"ref": "NAME"}', self.detail("/v1/gather", {"params": ref, "keys": ["a"]}, "/keys"))
        self.assertStatus(self.put("keyless.scale", [0.5, 2]), 201)
        for path, body in (("/v1/tensors/keyless.scale/gather", {"keys": ["a"]}), ("/v1/gather", {"params": {"ref": "keyless.scale"}, "indices": {"keys": ["a"]}}), ("/v1/tensors/keyless.scale/find", {"keys": ["a"]})):
            self.assertEqual(self.assertProblem(self.post(path, body), 422, "INVALID_ARGUMENT")["detail"],
                             "'keyless.scale' has no keys to find rows by, but it has the same rows as 'keyless'; if that table has keys, POST /v1/tensors/keyless/find gives their row numbers")
        self.assertStatus(self.request("DELETE", "/v1/tensors/keyless.scale"), 204)
        for body, pointer in (({"keys": ["a"], "updates": [[1]]}, "/keys"), ({"indices": {"keys": ["a"]}, "updates": [[1]]}, "/indices/keys")):
            self.assertIn("POST /v1/tensors/keyless/upsert writes rows by key", self.detail("/v1/tensors/keyless/scatter", body, pointer))
        self.assertStatus(self.request("DELETE", "/v1/tensors/keyless"), 204)

    def test_a_cast_is_advised_only_where_it_keeps_or_rounds_values(self):
        """What is followed literally changes no key, and cuts no fraction off."""
        def typed(dtype, data):
            return {"dtype": dtype, "data": data}

        for one, other, advice in (("int32", "float64", "with dtype = float64 converts inputs[0]"), ("float32", "float64", "with dtype = float32 rounds inputs[1], and cast with dtype = float64 converts inputs[0]"),
                                   ("float64", "complex64", "with dtype = complex128 converts both"), ("int8", "uint8", "with dtype = int64 converts both"),
                                   ("float16", "bfloat16", "with dtype = float32 converts both"), ("float16", "int32", "with dtype = float64 converts both"),
                                   ("int64", "float32", "with dtype = float64 converts both, but rounds integers above 2^53")):
            with self.subTest(one, other=other):
                pair = [typed(dtype, [[1, 0]] if dtype == "complex64" else [1]) for dtype in (one, other)]
                self.assertIn(f": the op cast {advice}", self.detail("/v1/einsum", {"equation": "i,i->", "inputs": pair}))
        self.assertIn(": the op dequantize converts quantised rows, and the op cast with dtype = float64 converts other bytes",
                      self.detail("/v1/einsum", {"equation": "i,i->", "inputs": [typed("float64", [1]), typed("int8", [1])]}))
        self.assertIn("the op cast with dtype = int64 converts it", self.detail("/v1/einsum", {"equation": "i->", "inputs": [[True, True]]}))
        self.assertIn("for a mask, pass the positions where it is true", self.detail("/v1/gather", {"params": [1, 2], "indices": [True, False]}))
        self.assertNotIn("true", self.detail("/v1/dynamic_partition", {"data": [1, 2], "partitions": [True, False], "num_partitions": 2}))
        self.assertIn("; pass them as int64", self.detail("/v1/gather", {"params": [1, 2], "indices": typed("uint64", [1])}))
        self.assertIn("; pass integers as int64", self.detail("/v1/gather", {"params": [1, 2], "indices": typed("float32", [1])}))
        self.assertIn("with dtype = float64 rounds it", self.detail("/v1/embedding_bag", {"params": typed("float64", [[1]]), "indices": [[0]], "weights": typed("int64", [[1]])}))
        self.assertIn("with dtype = float64 rounds it", self.detail("/v1/embedding_bag", {"params": typed("int64", [[1]]), "indices": [[0]]}))
        self.assertIn("no dtype can hold the values of both", self.detail("/v1/einsum", {"equation": "i,i->", "inputs": [typed("int64", [1]), typed("uint64", [1])]}))
        self.assertStatus(self.put("ints", {"tensor": [[1, 2], [3, 4]], "keys": typed("uint64", [5, 2**64 - 1])}), 201)
        for path, body in (("/v1/tensors/ints/upsert", {"keys": typed("int64", [-1]), "rows": [[9, 9]]}), ("/v1/tensors/ints/find", {"keys": typed("int64", [-1])})):
            detail = self.detail(path, body)
            self.assertIn("pass it as uint64; a value that does not fit cannot be one of the keys", detail)
            self.assertNotIn("cast", detail)
        self.assertIn("without a dtype, numbers without a fraction are int32; int32 has no fractions. Store the table again as float64, with its keys, or pass numbers without fractions as int32", self.detail("/v1/tensors/ints/upsert", {"keys": [5], "rows": [[7.5, 8]]}))
        self.assertNotIn("float32", self.detail("/v1/tensors/ints/upsert", {"keys": [5], "rows": [[3000000000, 8]]}))
        for dtype, advice in (("float32", "int32 has no fractions. Store the table again as float64, with its keys, or pass updates without fractions as int32"),
                              ("complex64", "int32 has no fractions and imaginary parts. Store the table again as complex128, with its keys, or pass updates without fractions and imaginary parts as int32"),
                              ("int64", "pass updates as int32 if all values fit")):  # the table keeps its dtype, and its keys
            self.assertIn(f": {advice}; params is the table 'ints'", self.detail("/v1/tensors/ints/scatter", {"indices": [[0]], "updates": typed(dtype, [[7, 8]])}))
        for table, given, advice in (("int64", "float32", "int64 has no fractions. Store the table again as float64, which rounds integers above 2^53, with its keys, or pass updates without fractions as int64"),
                                     ("float16", "float32", "the op cast with dtype = float16 rounds updates, and numbers beyond 65504 become infinite")):
            self.put("hint.changed", typed(table, [[1, 2]]))
            self.assertIn(": " + advice, self.detail("/v1/tensors/hint.changed/scatter", {"indices": [[0]], "updates": typed(given, [[7, 8]])}))
        self.put("hint.changed", typed("int64", [[1, 2]]))
        self.assertIn("0.5 is not an int64; expected dtype int64, as in the table; int64 has no fractions. Store the table again as float64, which rounds integers above 2^53, with its keys, or pass numbers without fractions as int64",
                      self.detail("/v1/tensors/hint.changed/scatter", {"indices": [[0]], "updates": [[0.5, 1]]}))
        self.assertStatus(self.request("DELETE", "/v1/tensors/hint.changed"), 204)
        self.assertProblem(self.post("/v1/cast", {"x": {"ref": "ints"}, "dtype": "int64", "store": "ints"}), 409, "CONFLICT",
                           detail="'ints' has keys, which would be lost because a result has no keys; use another name, or delete the tensor first")
        self.assertIn("the op cast with dtype = float64 converts it", self.detail("/v1/tensors/ints/embedding_bag", {"indices": [[0]]}))
        self.assertStatus(self.request("DELETE", "/v1/tensors/ints"), 204)

    def test_a_row_number_that_may_be_a_key_leads_to_keys(self):
        self.assertStatus(self.put("numbered", {"tensor": [[1.5], [2]], "keys": [1000, 1001]}), 201)
        for path, body, hint in (("/v1/tensors/numbered/gather", {"indices": [1000]}, '; rows are found by key with "keys": [...] instead'),
                                 ("/v1/gather", {"params": {"ref": "numbered"}, "indices": [1000]}, '; rows are found by key with "indices": {"keys": [...]}'),
                                 ("/v1/tensors/numbered/embedding_bag", {"indices": [[1000]]}, '; rows are found by key with "keys": [...] instead')):
            self.assertIn(hint, self.detail(path, body))
        self.assertNotIn("key", self.detail("/v1/gather", {"params": [1, 2], "indices": [1000]}))
        self.assertStatus(self.request("DELETE", "/v1/tensors/numbered"), 204)

    def test_inputs_that_are_exchanged_are_named(self):
        self.assertIn("params and indices seem to be swapped", self.detail("/v1/embedding_bag", {"params": {"dtype": "int64", "data": [[1, 2]]}, "indices": {"dtype": "float32", "data": [0.5, 1.5]}}))

    def test_bags_of_several_lengths_lead_to_offsets(self):
        self.assertStatus(self.put("bags", {"tensor": [[1.5], [2]], "keys": ["a", "b"]}), 201)
        hint = "give bags of different lengths as one flat list, and in offsets the position where each bag starts"
        for path, body in (("/v1/tensors/bags/embedding_bag", {"indices": [[0, 1], [0]]}), ("/v1/tensors/bags/embedding_bag", {"keys": [["a", "b"], ["a"]]}),
                           ("/v1/embedding_bag", {"params": {"ref": "bags"}, "indices": {"keys": [["a", "b"], ["a"]]}})):
            self.assertIn(hint, self.detail(path, body))
        self.assertNotIn("bags", self.detail("/v1/gather", {"params": [1], "indices": [[0, 1], [0]]}))
        self.assertStatus(self.request("DELETE", "/v1/tensors/bags"), 204)

    def test_rows_of_keys_are_looked_up_before_other_ops(self):
        self.assertIn("look up the rows by key first, and store them", self.detail("/v1/einsum", {"equation": "i->i", "inputs": [{"keys": ["a"]}]}))

    def test_strings_that_are_right_get_no_hint(self):
        self.assertNotIn("ref", self.detail("/v1/gather", {"params": ["glove"], "indices": [1]}))
        self.assertNotIn("ref", self.detail("/v1/lookup", {"params": [["a"]], "keys": ["k"], "queries": ["absent"], "default": "none"}))

    def test_a_part_of_a_name_suggests_the_name(self):
        names = ("hinted:rows", "versioned@2")
        for name in names:
            self.assertStatus(self.put(name, [1]), 201)
        for part, name in (("hinted", names[0]), ("rows", names[0]), ("versioned", names[1])):
            self.assertProblem(self.get("/v1/tensors/" + part), 404, "TENSOR_NOT_FOUND", did_you_mean=name)
        for name in names:
            self.assertStatus(self.request("DELETE", "/v1/tensors/" + name), 204)


class Paths(HttpTest):
    """Errors of paths, query parameters and members name the one that was meant."""

    def test_paths_that_clients_try_lead_to_the_right_one(self):
        for method, path, status, hint in (
                ("GET", "/v1/tensors/t/stats", 404, "GET supports statistics, keys"), ("PUT", "/v1/tensors/t/key", 404, "PUT supports keys"),
                ("POST", "/v1/tensors/t/foo", 404, "has no op 'foo'; expected gather, "), ("POST", "/v1/tensors/t/foo", 404, "scatter, upsert, remove"),
                ("GET", "/v1/tensors/", 404, "GET /v1/tensors lists"), ("POST", "/v1/tensor/t/lookup", 404, "/v1/tensors/{name}"),
                ("GET", "/v1/v1/ops", 404, "leave it out of the base URL"), ("GET", "/v1/v2/health/live", 404, "leave /v1 out of the base URL"),
                ("GET", "/v2/models", 404, "POST /v2/repository/index"), ("DELETE", "/v1/aliases/a", 404, "DELETE /v1/tensors/{alias}"),
                ("GET", "/nothing", 404, "GET /openapi.json"), ("POST", "/v1/scatter", 404, "POST /v1/tensors/{name}/scatter"),
                ("POST", "/v1/upsert", 404, "POST /v1/tensors/{name}/upsert"), ("POST", "/v1/remove", 404, "POST /v1/tensors/{name}/remove"),
                ("POST", "/v1/plan", 404, "POST /v1/einsum/plan"), ("POST", "/v1/nothing", 404, "GET /v1/ops")):
            with self.subTest(path, method=method):
                reply = self.request(method, path, {} if method in ("POST", "PUT") else None)
                self.assertStatus(reply, status)
                self.assertIn(hint, reply.json().get("detail") or reply.json()["error"])

    def test_paths_without_query_parameters_refuse_them(self):
        for path in ("/v1/aliases", "/v1/ops", "/v1/ops/gather", "/v1/devices"):
            self.assertStatus(self.get(path), 200)
            self.assertIn("no query parameters", self.assertProblem(self.get(path + "?limit=1"), 400, "MALFORMED_REQUEST", attribute="limit")["detail"])
        for path in ("/healthz", "/readyz", "/metrics", "/v2/health/ready"):
            self.assertStatus(self.get(path + "?probe=1"), 200)

    def test_equal_keys_that_javascript_has_rounded_lead_to_strings(self):
        detail = self.request("PUT", "/v1/tensors/hint.equal", {"tensor": [[1], [2]], "keys": [9007199254740993000, 9007199254740993000]}).json()["detail"]
        self.assertIn("; JavaScript rounds integers above 2^53; write them as strings, as in {\"dtype\": \"int64\", \"data\": [\"9007199254740993\"]}", detail)
        self.assertNotIn("JavaScript", self.request("PUT", "/v1/tensors/hint.equal", {"tensor": [[1], [2]], "keys": [7, 7]}).json()["detail"])

    def test_null_among_indices_is_left_out(self):
        detail = self.assertProblem(self.post("/v1/gather", b'{"params": [1, 2], "indices": [1, null]}'), 400, "MALFORMED_REQUEST")["detail"]
        self.assertTrue(detail.endswith("; indices and keys must be integers; leave out this value"), detail)

    def test_a_fraction_among_keys_is_no_reason_for_another_dtype(self):
        self.assertStatus(self.request("PUT", "/v1/tensors/hint.keyed", {"tensor": [[1], [2]], "keys": [5, 6]}), 201)
        for op, body in (("gather", {"keys": [5.5]}), ("gather", {"indices": {"keys": [5.5]}}), ("find", {"keys": [5.5]}), ("lookup", {"queries": [5.5]}),
                         ("upsert", {"keys": [5.5], "rows": [[1]]}), ("remove", {"keys": [5.5]})):
            with self.subTest(op, body=body):
                detail = self.assertAnyProblem(self.request("POST", f"/v1/tensors/hint.keyed/{op}", body))["detail"]
                self.assertNotIn("float64", detail)
                self.assertIn("5.5 is not an int", detail)

    def test_an_op_that_is_to_persist_its_output_is_led_to_put(self):
        detail = self.assertProblem(self.post("/v1/gather?persist=1", {"params": [1], "indices": [0], "store": "x"}), 400, "MALFORMED_REQUEST")["detail"]
        self.assertIn("an op stores its output in memory; PUT /v1/tensors/NAME?persist=1 with {\"ref\": \"STORED\"} writes it to the data folder", detail)

    def test_updates_have_persist_in_the_query_string_and_neither_response_nor_store(self):
        self.assertStatus(self.request("PUT", "/v1/tensors/hint.updated", {"tensor": [[1, 2]], "keys": ["a"]}), 201)
        upsert, scatter = {"keys": ["a"], "rows": [[3, 4]]}, {"indices": [[0]], "updates": [[5, 6]]}
        for op, body in (("upsert", upsert), ("scatter", scatter), ("remove", {"keys": ["a"]})):
            path = f"/v1/tensors/hint.updated/{op}"
            for option, value in (("response", "flat"), ("store", "x"), ("persit", "1")):
                with self.subTest(op, option=option):
                    detail = self.assertProblem(self.post(f"{path}?{option}={value}", body), 400, "MALFORMED_REQUEST", attribute=option)["detail"]
                    self.assertTrue(detail.endswith("device, timing, persist"), detail)
                    self.assertProblem(self.post(path, {**body, option: value}), 400, "MALFORMED_REQUEST", attribute=option)
            self.assertIn("?persist=1", self.assertProblem(self.post(path, {**body, "persist": True}), 400, "MALFORMED_REQUEST")["detail"])
        self.assertStatus(self.post("/v1/tensors/hint.updated/upsert?device=cpu&persist=0", {**upsert, "timing": True}), 200)
        self.assertStatus(self.request("DELETE", "/v1/tensors/hint.updated"), 204)

    def test_members_at_the_path_of_a_table_with_keys(self):
        self.assertStatus(self.request("PUT", "/v1/tensors/hint.keyed", {"tensor": [[1, 2]], "keys": ["a"]}), 201)
        for op, member, meant in (("gather", "queries", None), ("gather", "key", "keys"), ("lookup", "key", "keys"), ("find", "kyes", "keys")):
            problem = self.assertProblem(self.post(f"/v1/tensors/hint.keyed/{op}", {member: ["a"]}), 400, "MALFORMED_REQUEST")
            self.assertEqual(problem.get("did_you_mean"), meant)
            self.assertEqual(problem["detail"].replace(",", " ").split().count("keys"), 1, problem["detail"])
        self.assertStatus(self.request("DELETE", "/v1/tensors/hint.keyed"), 204)

    def test_a_body_of_another_api_of_a_model_leads_to_inputs(self):
        for body in ({"params": [1], "indices": [0]}, {"input": []}, {}):
            error = self.request("POST", "/v2/models/gather/infer", body).json()
            self.assertIn('inputs is missing; expected a list of {"name", "datatype", "shape", "data"} with the names params; indices', error["error"])
            self.assertEqual((error["input"], error.get("did_you_mean")), ("inputs", "inputs" if "input" in body else None))
        self.assertIn("params is missing", self.request("POST", "/v2/models/gather/infer", {"inputs": []}).json()["error"])

    def test_a_header_length_that_cuts_the_json_text_is_named(self):
        body = b'{"inputs":[{"name":"params","shape":[1],"datatype":"FP32","data":[1]}]}'
        for length in (1, 20, len(body) - 1):
            error = self.request("POST", "/v2/models/gather/infer", body, {"Inference-Header-Content-Length": str(length)}).json()["error"]
            self.assertIn(f"Inference-Header-Content-Length is {length}, and the body has {len(body)} bytes", error)

    def test_a_tensor_with_keys_leads_to_their_place(self):
        detail = self.assertProblem(self.post("/v1/gather", {"params": [1], "indices": {"key": ["a"]}}), 400, "MALFORMED_REQUEST", did_you_mean="keys")["detail"]
        self.assertIn("or ref, or keys alone", detail)
        for body in ({"data": [[1]], "keys": ["a"]}, {"dtype": "int32", "data": [[1]], "keys": ["a"]}):
            self.assertIn('{"tensor": ..., "keys": [...]}', self.assertProblem(self.request("PUT", "/v1/tensors/hint.none", body), 400, "MALFORMED_REQUEST")["detail"])

    def test_metadata_of_safetensors_leads_to_ref_and_numbered_lists(self):
        kind, index = {"Content-Type": SAFETENSORS}, ("int64", (1,), pack("int64", [0]))
        reply = self.post("/v1/gather", safetensors({"indices": index}, {"params": "planets"}), kind)
        self.assertIn('"params.ref" names a resident tensor', self.assertProblem(reply, 400, "MALFORMED_REQUEST")["detail"])
        reply = self.post("/v1/gather", safetensors({"indices": index}, {"x": "planets"}), kind)
        self.assertTrue(self.assertProblem(reply, 400, "MALFORMED_REQUEST")["detail"].endswith(", <input>.ref"))
        self.assertProblem(self.post("/v1/concat", safetensors({"inputs": index}), kind), 400, "MALFORMED_REQUEST", did_you_mean="inputs.0")

    def test_a_table_in_place_of_its_keys_leads_to_them(self):
        for rows in ([[1, 2], [3, 4]], [[0.5, 1], [2, 3]]):
            self.assertIn(self.request("PUT", "/v1/tensors/hint.rows", {"tensor": rows, "keys": ["a", "b"]}).status, (200, 201))
            for op, body in (("find", {}), ("lookup", {"params": {"ref": "hint.rows"}})):
                reply = self.post(f"/v1/{op}", {**body, "keys": {"ref": "hint.rows"}, "queries": ["a"]})
                self.assertStatus(reply, 422)
                problem = reply.json()
                self.assertEqual(problem["input"], "keys")
                self.assertIn('the keys of \'hint.rows\' are {"ref": "hint.rows.keys"}', problem["detail"])
        self.assertProblem(self.post("/v1/find", {"keys": [[1, 2]], "queries": ["a"]}), 422, "SHAPE_MISMATCH", input="keys")
        self.assertIn("/v1/tensors/hint.rows/keys", self.assertProblem(self.request("DELETE", "/v1/tensors/hint.rows.keys"), 422, "INVALID_ARGUMENT")["detail"])
        self.assertStatus(self.request("DELETE", "/v1/tensors/hint.rows"), 204)
        problem = self.assertProblem(self.post("/v1/lookup", {"params": "cities:rows", "queries": ["a"]}), 422, "INVALID_ARGUMENT", input="params")
        self.assertIn('{"ref": "cities:rows"}', problem["detail"])

    def test_keys_in_place_of_queries_lead_to_queries(self):
        body = {"params": [[0.5], [1]], "keys": ["a", "b"]}
        detail = self.assertProblem(self.post("/v1/lookup", body), 422, "INVALID_ARGUMENT", input="queries")["detail"]
        self.assertTrue(detail.startswith("queries is missing; expected: The keys of the rows to pick"), detail)
        self.assertNotIn("of its own", detail)
        body = {"params": [[0.5], [1]], "queries": ["a"]}
        detail = self.assertProblem(self.post("/v1/lookup", body), 422, "INVALID_ARGUMENT", input="keys")["detail"]
        self.assertIn('a resident table with keys, {"ref": "NAME"}, has its own', detail)
        self.assertStatus(self.request("PUT", "/v1/tensors/hint.own", {"tensor": [[0.5]], "keys": ["a"]}), 201)
        body = {"params": {"ref": "hint.own"}, "keys": ["a"]}
        detail = self.assertProblem(self.post("/v1/lookup", body), 422, "INVALID_ARGUMENT", input="queries")["detail"]
        self.assertIn("the table has keys of its own: give those to look up as queries", detail)
        body = {"params": {"ref": "hint.own"}, "queries": {"keys": ["a"]}}
        detail = self.assertProblem(self.post("/v1/lookup", body), 400, "MALFORMED_REQUEST", input="queries")["detail"]
        self.assertIn("give the keys as a plain list, without the member \"keys\"", detail)
        self.assertStatus(self.request("DELETE", "/v1/tensors/hint.own"), 204)

    def test_an_error_of_keys_in_place_of_row_numbers_names_keys(self):
        self.assertStatus(self.request("PUT", "/v1/tensors/hint.bag", {"tensor": [[0.5]], "keys": ["a"]}), 201)
        problem = self.assertProblem(self.post("/v1/tensors/hint.bag/embedding_bag", {"keys": [[["a"]]]}), 422, "SHAPE_MISMATCH", input="keys")
        self.assertIn("keys are given instead of indices", problem["detail"])
        self.assertProblem(self.post("/v1/tensors/hint.bag/gather", b'{"keys": ["a"], "keys": ["a"]}'), 400, "MALFORMED_REQUEST", input="keys")
        self.assertStatus(self.request("DELETE", "/v1/tensors/hint.bag"), 204)

    def test_a_part_of_a_version_named_after_its_version_leads_to_its_name(self):
        for part, form in (("keys", "the keys of a version are named NAME.keys@VERSION"), ("scale", "the scale of a version is named NAME.scale@VERSION")):
            problem = self.assertProblem(self.post("/v1/gather", {"params": {"ref": "hint.table@2." + part}, "indices": [0]}), 404, "TENSOR_NOT_FOUND")
            self.assertIn(form, problem["detail"])

    def test_keys_alone_are_a_list(self):
        self.assertStatus(self.request("PUT", "/v1/tensors/hint.alone", [[0.5]]), 201)
        detail = self.assertProblem(self.request("PUT", "/v1/tensors/hint.alone/keys", {"keys": ["a"]}), 400, "MALFORMED_REQUEST")["detail"]
        self.assertIn("give the keys as a plain list, without the member \"keys\"", detail)
        self.assertStatus(self.request("PUT", "/v1/tensors/hint.alone/keys", ["a"]), 201)
        self.assertStatus(self.request("DELETE", "/v1/tensors/hint.alone"), 204)

    def test_a_get_that_asks_for_a_format_leads_to_accept(self):
        gather = {"params": [1], "indices": [0], "response": "safetensors"}
        for reply in (self.get("/v1/tensors/any?format=npy"), self.get("/v1/tensors/any?response=npy"), self.post("/v1/gather", gather)):
            self.assertIn("for a binary format, set the header Accept to application/vnd.safetensors", self.assertProblem(reply, 400, "MALFORMED_REQUEST")["detail"])


class Limits(HttpTest):
    """The error of a limit names the option that sets it, and what is not limited by it."""
    options = ("--max-output", "64K", "--max-body", "128K", "--tensor-quota", "1M")

    def test_the_option_of_a_limit_is_named(self):
        self.assertStatus(self.request("PUT", "/v1/tensors/hint.large", [0] * 32768), 201)
        gather = {"params": {"ref": "hint.large"}, "indices": [[0] * 20000]}
        detail = self.assertProblem(self.post("/v1/gather", gather), 422, "RESOURCE_LIMIT", resource="output_bytes")["detail"]
        self.assertIn("--max-output", detail)
        detail = self.assertProblem(self.get("/v1/tensors/hint.large?response=flat"), 422, "RESOURCE_LIMIT", resource="output_bytes")["detail"]
        self.assertIn("--max-output", detail)
        self.assertIn("Accept: application/x-npy", detail)
        self.assertStatus(self.request("GET", "/v1/tensors/hint.large", None, {"Accept": "application/x-npy"}), 200)
        reply = self.post("/v1/gather", b" " * 200_000)
        self.assertIn("--max-body", self.assertProblem(reply, 413, "PAYLOAD_TOO_LARGE")["detail"])
