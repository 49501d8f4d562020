"""find, lookup, embedding_bag and dequantize over HTTP: the dtypes of plain JSON values, errors, resident tables, binary bodies, many keys."""
import base64, random, struct
from daemon import *

BINARY = {"Content-Type": SAFETENSORS}
LOW, HIGH = -2 ** 63, 2 ** 64 - 1


class Find(HttpTest):
    def find(self, keys, queries):
        return self.post("/v1/find", {"keys": keys, "queries": queries})

    def test_plain_keys_have_one_dtype(self):
        for keys, queries, rows in (([30, 10], [10, 99], [1, -1]), ([LOW, 0], [0, LOW], [1, 0]), ([HIGH, 0], [0, HIGH, 5], [1, 0, -1]),
                                    ([1, 2], [HIGH, 2], [-1, 1]), (["b", ""], ["", "b", "c"], [1, 0, -1]), ([], [1], [-1]),
                                    ([], ["a"], [-1]), (["a"], [], []), ([], [], [])):
            self.assertOutput(self.find(keys, queries), "int64", [len(queries)], rows)

    def test_a_typed_input_gives_the_other_its_dtype(self):
        for dtype, keys, query, row in (("uint64", [5, HIGH], HIGH, 1), ("int64", [5, LOW], LOW, 1), ("string", ["5", ""], "", 1)):
            typed = {"dtype": dtype, "shape": [2], "data": keys}
            self.assertOutput(self.find(typed, query), "int64", [], row)
            self.assertOutput(self.find(keys, {"dtype": dtype, "data": [[query]]}), "int64", [1, 1], [[row]])
            self.assertIn(self.request("PUT", "/v1/tensors/list", typed).status, (200, 201))
            self.assertOutput(self.find({"ref": "list"}, [query]), "int64", [1], [row])
        self.request("DELETE", "/v1/tensors/list")

    def test_a_value_that_does_not_fit_is_refused(self):
        for keys, queries, pointer in (([HIGH], [-1], "/queries/0"), ({"dtype": "uint64", "data": [1]}, [-1], "/queries/0"),
                                       ({"dtype": "string", "data": ["1"]}, [1], "/queries/0"), ([1, "a"], [1], "/keys/1")):
            self.assertProblem(self.find(keys, queries), 400, "MALFORMED_REQUEST", pointer=pointer)
        self.assertProblem(self.find(["1"], [1]), 422, "UNSUPPORTED_DTYPE", input="queries")
        self.assertProblem(self.find([1.5], [1]), 422, "UNSUPPORTED_DTYPE", input="keys")
        self.assertOutput(self.find({"dtype": "int32", "data": [1, 2]}, [2, 2**40]), "int64", [2], [1, -1])
        self.assertProblem(self.find([1, 2], [1.0]), 422, "UNSUPPORTED_DTYPE", input="queries",
                           pointer="/queries/0",
                           detail="1.0 is not an integer; indices and keys must be integers, written without a fraction or an exponent")
        self.assertProblem(self.find([1, 2], [True]), 422, "UNSUPPORTED_DTYPE", input="queries")

    def test_equal_keys_have_their_positions(self):
        self.assertProblem(self.find([9, 0, 5, 12, 1, 5, 0], []), 422, "INVALID_ARGUMENT", input="keys", positions=[[2], [5]])
        self.assertProblem(self.find(["a", "b", "a"], "b"), 422, "INVALID_ARGUMENT", input="keys", positions=[[0], [2]])

    def test_many_keys_have_the_rows_of_a_dict(self):
        rng = random.Random(1)
        for ascending in (False, True):
            keys = rng.sample(range(LOW, -LOW, 2 ** 40 + 1), 50_000)
            keys = sorted(keys) if ascending else keys
            rows = {key: row for row, key in enumerate(keys)}
            for n in (10, 20_000):
                queries = [rng.choice(keys) + (rng.random() < 0.1) for _ in range(n)]
                body = safetensors({"keys": ("int64", [len(keys)], pack("int64", keys)), "queries": ("int64", [n], pack("int64", queries))})
                reply = self.request("POST", "/v1/find", body, BINARY)
                self.assertStatus(reply, 200)
                self.assertEqual(read_safetensors(reply.body)[0]["output"],
                                 ("int64", [n], pack("int64", [rows.get(query, -1) for query in queries])))


class Lookup(HttpTest):
    TABLE = {"params": [[1, 2], [3, 4], [5, 6]], "keys": ["a", "b", ""]}

    def lookup(self, **more):
        return self.post("/v1/lookup", {**self.TABLE, **more})

    def assertRows(self, reply, dtype, shape, rows, found):
        self.assertStatus(reply, 200)
        outputs = reply.json()["outputs"]
        self.assertEqual(sorted(outputs), ["found", "output"])
        self.assertEqual([outputs["output"][member] for member in ("dtype", "shape", "data")], [dtype, shape, rows])
        self.assertEqual((outputs["found"]["dtype"], outputs["found"]["data"]), ("bool", found))

    def test_rows_and_defaults(self):
        self.assertRows(self.lookup(queries=[["", "a"]]), "int32", [1, 2, 2], [[[5, 6], [1, 2]]], [[True, True]])
        self.assertRows(self.lookup(queries=["c", "b"], missing="zero"), "int32", [2, 2], [[0, 0], [3, 4]], [False, True])
        self.assertRows(self.lookup(queries="c", missing="default", default=[8, 9]), "int32", [2], [8, 9], False)
        self.assertRows(self.lookup(queries="c", missing="default", default=0.5), "float32", [2], [0.5, 0.5], False)

    def test_a_default_that_is_not_used_changes_no_dtype(self):
        typed = {"dtype": "float32", "data": 0.5}
        for missing in ("zero", "error"):
            for default in (0.5, "none", typed):
                for order in (("default", "params", "keys"), ("params", "keys", "default")):
                    values = {**self.TABLE, "default": default}
                    body = {**{name: values[name] for name in order}, "queries": ["b"], "missing": missing}
                    with self.subTest(default=default, order=order):
                        self.assertRows(self.post("/v1/lookup", body), "int32", [1, 2], [[3, 4]], [True])
        self.assertRows(self.lookup(queries="b", missing="default", default=typed), "float32", [2], [3.0, 4.0], True)

    def test_the_first_missing_key_is_named(self):
        for queries, position, key, count in ((["a", "x", "y"], [1], "x", 2), ("\0\"", [], "\0\"", 1), ([["b"], ["ß" * 100]], [1, 0], "ß" * 64, 1)):
            self.assertProblem(self.lookup(queries=queries), 422, "KEY_NOT_FOUND", input="queries", position=position, key=key, bad_count=count)
        self.assertProblem(self.lookup(keys=[1, 2, HIGH], queries=[HIGH - 1]), 422, "KEY_NOT_FOUND", key=HIGH - 1, position=[0])
        self.assertProblem(self.lookup(keys=[1, 2, LOW], queries=[-1]), 422, "KEY_NOT_FOUND", key=-1, position=[0])
        self.assertEqual(self.get("/problems/key-not-found").status, 200)

    def test_a_default_without_missing_is_told_when_a_key_is_missing(self):
        reply = self.lookup(queries="x", default=7)
        self.assertProblem(reply, 422, "KEY_NOT_FOUND")
        self.assertTrue(reply.json()["detail"].endswith("; with missing = default, missing keys give the default"), reply.body)

    def test_a_missing_key_may_be_no_utf_8(self):
        raw = base64.b64encode(struct.pack("<I", 2) + b"\xff\x00").decode()
        reply = self.lookup(queries={"dtype": "string", "shape": [1], "base64": raw})
        self.assertProblem(reply, 422, "KEY_NOT_FOUND", position=[0], key="\ufffd\0")

    def test_a_resident_table_and_a_stored_result(self):
        for name, value in (("rows", self.TABLE["params"]), ("names", self.TABLE["keys"])):
            self.assertIn(self.request("PUT", "/v1/tensors/" + name, value).status, (200, 201))
        table = {"params": {"ref": "rows"}, "keys": {"ref": "names"}}
        self.assertRows(self.lookup(**table, queries=["b"]), "int32", [1, 2], [[3, 4]], [True])
        self.assertStatus(self.lookup(**table, queries=["b"], store="kept"), 200)
        self.assertEqual(self.get("/v1/tensors/kept.output?response=nested").json()["data"], [[3, 4]])
        self.assertEqual(self.get("/v1/tensors/kept.found?response=nested").json()["data"], [True])
        self.assertProblem(self.lookup(params={"ref": "rows"}, keys=["a"], queries=["a"]), 422, "SHAPE_MISMATCH", input="keys")
        for name in ("rows", "names", "kept.output", "kept.found"):
            self.assertStatus(self.request("DELETE", "/v1/tensors/" + name), 204)

    def test_binary_outputs_have_their_names(self):
        body = safetensors({"params": ("float32", [2, 1], pack("float32", [1, 2])), "keys": ("uint64", [2], pack("uint64", [7, HIGH])),
                            "queries": ("uint64", [2], pack("uint64", [HIGH, 8]))})
        reply = self.request("POST", "/v1/lookup?missing=zero", body, BINARY)
        self.assertStatus(reply, 200)
        self.assertEqual(read_safetensors(reply.body)[0], {"output": ("float32", [2, 1], pack("float32", [2, 0])), "found": ("bool", [2], b"\1\0")})


class EmbeddingBag(HttpTest):
    TABLE = [[1, 2], [3, 4], [5, 6]]

    def bag(self, params=TABLE, **more):
        return self.post("/v1/embedding_bag", {"params": params, **more})

    def test_plain_numbers_are_floats_and_integers_where_each_is_expected(self):
        for more, rows in (({"indices": [2, 0, 1], "offsets": [0, 2]}, [[6, 8], [3, 4]]), ({"indices": [], "offsets": [0]}, [[0, 0]]),
                           ({"indices": [2, 1], "segment_ids": [0, 2]}, [[5, 6], [0, 0], [3, 4]]),
                           ({"indices": [2, 0], "offsets": [0], "weights": [2, 1]}, [[11, 14]]),
                           ({"indices": [2, 0], "offsets": [0], "weights": [2, 0.5], "mode": "mean"}, [[4.2, 5.2]]),
                           ({"indices": [2, 0], "offsets": [0], "mode": "max", "padding_index": 2}, [[1, 2]])):
            reply = self.bag(**more)
            self.assertStatus(reply, 200)
            output = reply.json()["output"]
            self.assertEqual((output["dtype"], output["shape"]), ("float32", [len(rows), 2]))
            for got, want in zip(sum(output["data"], []), sum(rows, [])):
                self.assertAlmostEqual(got, want, 5)

    def test_quantised_rows_have_a_scale_and_an_offset(self):
        table = {"dtype": "int8", "data": [[-128, 127], [1, 2]]}
        reply = self.bag(table, indices=[0, 1], offsets=[0, 1], scale=[2, 0.5], offset=[1, -1])
        self.assertOutput(reply, "float32", [2, 2], [[-255, 255], [-0.5, 0]])
        self.assertProblem(self.bag(table, indices=[0], offsets=[0]), 422, "UNSUPPORTED_DTYPE", input="params")
        rows = b"".join(bytes(values) + struct.pack("<ff", 2, bias) for values, bias in (((1, 255), 0.5), ((3, 4), -1)))
        body = safetensors({"params": ("uint8", [2, 10], rows), "indices": ("int32", [2], pack("int32", [0, 1])),
                            "offsets": ("int16", [1], pack("int16", [0]))}, {"layout": "byte_rowwise"})
        reply = self.request("POST", "/v1/embedding_bag", body, BINARY)
        self.assertStatus(reply, 200)
        self.assertEqual(read_safetensors(reply.body)[0], {"output": ("float32", [1, 2], pack("float32", [7.5, 517.5]))})

    def test_errors_name_the_place(self):
        for more, code, where in (
                ({"indices": [0, 3], "offsets": [0]}, "INDEX_OUT_OF_BOUNDS", {"input": "indices", "position": [1], "index": 3, "bound": 3}),
                ({"indices": [0], "offsets": [0, 2]}, "INDEX_OUT_OF_BOUNDS", {"input": "offsets", "position": [1], "index": 2, "bound": 2}),
                ({"indices": [0], "offsets": [1]}, "INDEX_OUT_OF_BOUNDS", {"input": "offsets", "position": [0], "index": 1, "bound": 1}),
                ({"indices": [0, 1], "segment_ids": [1, 0]}, "INDEX_OUT_OF_BOUNDS", {"input": "segment_ids", "position": [1]}),
                ({"indices": [0, 1], "segment_ids": [0]}, "SHAPE_MISMATCH", {"input": "segment_ids"}),
                ({"indices": [0], "offsets": [0], "weights": [1, 2]}, "SHAPE_MISMATCH", {"input": "weights"}),
                ({"indices": [0]}, "INVALID_ARGUMENT", {"input": "offsets"}),
                ({"indices": [0], "offsets": [0], "padding_index": 3}, "INVALID_ARGUMENT", {"attribute": "padding_index"}),
                ({"indices": [0], "segment_ids": [2**62], "mode": "max"}, "RESOURCE_LIMIT", {})):
            with self.subTest(more=more):
                self.assertProblem(self.bag(**more), 422, code, **where)

    def test_a_replaced_index_counts(self):
        reply = self.bag(indices=[0, 9], offsets=[0], mode="mean", bounds="zero")
        self.assertStatus(reply, 200)
        self.assertEqual(reply.json()["output"]["data"], [[0.5, 1]])
        self.assertEqual(reply.json()["bounds"], {"policy": "zero", "replaced": 1})

    def test_dequantize_gives_the_rows(self):
        table = {"dtype": "uint8", "data": [[255, 0], [1, 2]]}
        reply = self.post("/v1/dequantize", {"params": table, "scale": [2, 0.5], "offset": 1})
        self.assertOutput(reply, "float32", [2, 2], [[511, 1], [1.5, 2]])
        reply = self.post("/v1/dequantize", {"params": table, "scale": [1, 2, 3], "offset": 1})
        self.assertProblem(reply, 422, "SHAPE_MISMATCH", input="scale")
        self.assertProblem(self.post("/v1/dequantize", {"params": [[1]], "scale": 1, "offset": 0}), 422, "UNSUPPORTED_DTYPE", input="params")
