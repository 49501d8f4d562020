"""find, lookup and embedding_bag over HTTP: the dtypes of plain JSON values, defaults, resident tables. What the ops compute and refuse is
tested in process: tests/conformance/test_cases.c, tests/kernels/."""
import base64, struct
from daemon import *

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
