"""Errors show the form that was meant: NaN in JSON, the name of a resident tensor, keys of rows, a part of a name."""
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

    def test_that_form_works(self):
        reply = self.post("/v1/cast", '{"x": %s, "dtype": "float64"}' % NAN)
        self.assertEqual(reply.json()["output"]["data"], ["NaN"])

    def test_where_no_nan_can_be_there_is_no_hint(self):
        for text in ('{"dtype": "int32", "data": ["NaN"]}', '{"dtype": "int32", "data": [null]}', "[true, null]", '["a", null]', '["a", 1]', "[1, nano]", '[1, "nan "]'):
            with self.subTest(text):
                self.assertNotIn("NaN", self.detail("/v1/cast", '{"x": %s, "dtype": "int8"}' % text))

    def test_a_name_in_place_of_a_tensor_leads_to_ref(self):
        for op, body in (("gather", {"params": "glove", "indices": [1]}), ("gather_nd", {"params": "glove", "indices": [[1]]}), ("einsum", {"inputs": ["glove"], "equation": "i->i"}),
                         ("einsum", {"inputs": "glove", "equation": "i->i"}), ("einsum", {"inputs": [{"dtype": "float32", "data": [1]}, "glove"], "equation": "i,i->i"}),
                         ("concat", {"inputs": ["glove", "glove"]}), ("top_k", {"x": "glove", "k": 1}), ("find", {"keys": "glove", "queries": [1]}),
                         ("lookup", {"params": "glove", "queries": [1]}), ("embedding_bag", {"params": "glove", "indices": [1], "offsets": [0]}),
                         ("dynamic_partition", {"data": "glove", "partitions": [1], "num_partitions": 2}), ("cast", {"x": "glove", "dtype": "int8"})):
            with self.subTest(op, body=body):
                self.assertIn('{"ref": "glove"}', self.detail("/v1/" + op, body))

    def test_strings_in_place_of_row_numbers_lead_to_keys(self):
        self.assertStatus(self.put("hints", [[1.5], [2]]), 201)
        for params in ([1, 2], {"ref": "hints"}):
            for indices in (["Mars", "Venus"], "Mars", [["Mars"]]):
                self.assertIn('{"keys": ["Mars"]}', self.detail("/v1/gather", {"params": params, "indices": indices}))
        self.assertIn('{"keys": ["Mars"]}', self.detail("/v1/tensors/hints/gather", {"indices": ["Mars"]}))
        self.assertIn('{"keys": ["Mars"]}', self.detail("/v1/embedding_bag", {"params": {"ref": "hints"}, "indices": ["Mars"], "offsets": [0]}))
        self.assertStatus(self.request("DELETE", "/v1/tensors/hints"), 204)

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
