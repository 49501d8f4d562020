"""Keys of tables: /v1/tensors/{name}/keys, and tables that are put with their keys."""
import os, signal
from daemon import *
from test_tensors import TensorTest


class KeysTest(TensorTest):
    def put_keys(self, name, keys, query="", headers=None):
        return self.request("PUT", f"/v1/tensors/{name}/keys{query}", keys, headers)

    def keys_of(self, name):
        reply = self.get(f"/v1/tensors/{name}/keys?response=nested")
        self.assertEqual(reply.status, 200, reply.body)
        document = reply.json()
        return document["dtype"], document["data"]


class Keys(KeysTest):
    def test_keys_are_put_read_and_deleted(self):
        name, before = self.resident([[1, 2], [3, 4]])
        self.assertNotIn("keys", before)
        reply = self.put_keys(name, ["king", "queen"])
        after = self.assertMetadata(reply, 201, name=name, dtype="int32", shape=[2, 2], keys="string")
        self.assertEqual(reply.headers["Location"], f"/v1/tensors/{name}/keys")
        self.assertGreater(after["version"], before["version"])
        self.assertEqual(self.keys_of(name), ("string", ["king", "queen"]))
        self.assertMetadata(self.put_keys(name, [7, -1]), 200, keys="int64")
        self.assertEqual(self.keys_of(name), ("int64", [7, -1]))
        self.assertMetadata(self.put_keys(name, [1, 2**64 - 1]), 200, keys="uint64")
        self.assertMetadata(self.get(f"/v1/tensors/{name}/keys"), 200, name=name + ".keys", dtype="uint64", shape=[2])
        self.assertEqual(self.request("DELETE", f"/v1/tensors/{name}/keys").status, 204)
        self.assertProblem(self.get(f"/v1/tensors/{name}/keys"), 404, "TENSOR_NOT_FOUND")
        self.assertProblem(self.request("DELETE", f"/v1/tensors/{name}/keys"), 404, "TENSOR_NOT_FOUND")
        self.assertData(name, "int32", [2, 2], [[1, 2], [3, 4]])

    def test_64_bit_keys_may_be_in_quotes(self):
        """JavaScript has no other way to write 2^53 + 1"""
        large, name = 2**53 + 1, self.name()
        keys = {"dtype": "int64", "data": [str(large), "-7", 8]}
        self.assertMetadata(self.put(name, {"tensor": [[1], [2], [3]], "keys": keys}), 201, keys="int64")
        self.assertEqual(self.keys_of(name), ("int64", [large, -7, 8]))
        for given in ([str(large)], {"dtype": "int64", "data": [str(large)]}):
            reply = self.post(f"/v1/tensors/{name}/gather", {"indices": {"keys": given}})
            self.assertEqual(reply.json()["output"]["data"], [[1]])
            self.assertEqual(self.post(f"/v1/tensors/{name}/find", {"queries": given}).json()["output"]["data"], [0])
        self.assertProblem(self.post(f"/v1/tensors/{name}/gather", {"indices": {"keys": ["king"]}}), 400, "MALFORMED_REQUEST", pointer="/indices/keys/0")
        self.assertMetadata(self.put_keys(name, {"dtype": "uint64", "data": [str(2**64 - 1), "0", "1"]}), 200, keys="uint64")
        self.assertEqual(self.keys_of(name), ("uint64", [2**64 - 1, 0, 1]))
        self.assertMetadata(self.put_keys(name, ["0", "1", "2"]), 200, keys="string")

    def test_a_table_is_put_with_its_keys(self):
        name = self.name()
        body = {"tensor": [[1.5], [2.5]], "keys": ["a", "b"]}
        self.assertMetadata(self.put(name, body), 201, keys="string", shape=[2, 1])
        self.assertEqual(self.keys_of(name), ("string", ["a", "b"]))
        self.assertMetadata(self.put(name, [1, 2]), 200, shape=[2])
        self.assertProblem(self.get(f"/v1/tensors/{name}/keys"), 404, "TENSOR_NOT_FOUND")

    def test_a_put_without_keys_says_how_many_it_drops(self):
        name = self.name()
        self.assertStatus(self.put(name, {"tensor": [[1], [2]], "keys": ["a", "b"]}), 201)
        self.assertNotIn("dropped_keys", self.put(name, {"tensor": [[1], [2]], "keys": ["a", "c"]}).json())
        self.assertEqual(self.put(name, [[1], [2], [3]]).json()["dropped_keys"], 2)
        self.assertNotIn("dropped_keys", self.put(name, [[1], [2], [3]]).json())

    def test_a_ref_to_a_table_has_its_keys(self):
        name, copy = self.name(), self.name()
        self.assertMetadata(self.put(name, {"tensor": [[1.5], [2.5]], "keys": ["a", "b"]}), 201, keys="string")
        self.assertMetadata(self.put(copy, {"ref": name}), 201, keys="string")
        self.assertEqual(self.keys_of(copy), ("string", ["a", "b"]))
        self.assertMetadata(self.put(name, {"ref": name}), 200, keys="string")
        self.assertMetadata(self.put(copy, {"tensor": {"ref": name}, "keys": [3, 4]}), 200, keys="int64")
        self.assertMetadata(self.put(copy, {"ref": name + ".keys"}), 200, dtype="string", shape=[2])
        self.assertProblem(self.get(f"/v1/tensors/{copy}/keys"), 404, "TENSOR_NOT_FOUND")

    def test_a_delete_with_a_body_deletes_nothing(self):
        """the client probably means a part of the table"""
        name = self.name()
        self.assertMetadata(self.put(name, {"tensor": [1, 2], "keys": ["a", "b"]}), 201)
        for path in (f"/v1/tensors/{name}", f"/v1/tensors/{name}/keys"):
            for body in (["a"], {"keys": ["a"]}, b"x"):
                reply = self.request("DELETE", path, body)
                self.assertProblem(reply, 400, "MALFORMED_REQUEST")
                self.assertIn(f"POST /v1/tensors/{name}/remove", reply.json()["detail"])
        self.assertEqual(self.keys_of(name), ("string", ["a", "b"]))
        self.assertStatus(self.request("POST", f"/v1/tensors/{name}/remove", {"keys": ["a"]}), 200)
        self.assertStatus(self.request("DELETE", f"/v1/tensors/{name}", b""), 204)

    def test_the_error_of_an_alias_without_keys_is_about_its_version(self):
        name = self.name()
        self.assertMetadata(self.put(f"{name}@1", [1, 2]), 201)
        self.assertStatus(self.request("POST", "/v1/aliases", {"set": {name: f"{name}@1"}}), 200)
        for op in ("gather", "lookup", "find", "embedding_bag"):
            reply = self.post(f"/v1/tensors/{name}/{op}", {"keys": ["a"]})
            self.assertProblem(reply, 422, "INVALID_ARGUMENT")
            self.assertRegex(reply.json()["detail"], f"^'{name}@1' has no keys to find rows by; .*put another version with its keys, ")
        self.assertMetadata(self.put(f"{name}@2", {"tensor": [1, 2], "keys": ["a", "b"]}), 201)
        self.assertStatus(self.request("POST", "/v1/aliases", {"set": {name: f"{name}@2"}}), 200)
        self.assertEqual(self.post(f"/v1/tensors/{name}/gather", {"keys": ["b"]}).json()["output"]["data"], [2])

    def test_a_safetensors_file_has_keys_beside_the_table(self):
        for entries, keys in (
                ({"t": ("float32", (2,), pack("float32", [1, 2])), "keys": ("uint64", (2,), pack("uint64", [5, 2**63]))},
                 ("uint64", [5, 2**63])),
                ({"keys.offsets": ("int64", (3,), pack("int64", [0, 0, 3])), "t": ("float32", (2,), pack("float32", [1, 2])),
                  "keys.bytes": ("uint8", (3,), b"k\0g")}, ("string", ["", "k\0g"]))):
            with self.subTest(keys=keys):
                name = self.name()
                reply = self.put(name, safetensors(entries), {"Content-Type": SAFETENSORS})
                self.assertMetadata(reply, 201, keys=keys[0], shape=[2])
                self.assertEqual(self.keys_of(name), keys)

    def test_keys_in_a_file_may_have_the_name_of_their_table_as_in_the_data_folder(self):
        row, numbers = ("float32", (2,), pack("float32", [1, 2])), ("int64", (2,), pack("int64", [7, -8]))
        offsets, text = ("int64", (3,), pack("int64", [0, 1, 2])), ("uint8", (2,), b"ab")
        type_of = {"Content-Type": SAFETENSORS}
        for entries, keys in (({"x": row, "x.keys": numbers}, ("int64", [7, -8])),
                              ({"x.keys": numbers, "x": row}, ("int64", [7, -8])),
                              ({"x.keys.offsets": offsets, "x": row, "x.keys.bytes": text}, ("string", ["a", "b"])),
                              ({"x@v": row, "x@v.keys": ("uint64", (2,), pack("uint64", [7, 8]))}, ("uint64", [7, 8])),
                              ({"keys": row, "keys.keys": numbers}, ("int64", [7, -8]))):
            with self.subTest(entries=list(entries)):
                name = self.name()
                self.assertMetadata(self.put(name, safetensors(entries), type_of), 201, keys=keys[0], dtype="float32", shape=[2])
                self.assertEqual(self.keys_of(name), keys)
        for entries in ({"x": row, "y.keys": numbers}, {"x": row, "x.keys.bytes": text},
                        {"x": row, "x.keys": numbers, "y": row}, {"x@v": row, "x.keys@v": numbers}, {"x": row, "xkeys": numbers}):
            with self.subTest(entries=list(entries)):
                reply = self.request("PUT", f"/v1/tensors/{self.name()}", safetensors(entries), type_of)
                self.assertIn("NAME.keys", self.assertProblem(reply, 400, "MALFORMED_REQUEST")["detail"])
        for a, b in (("x.keys.offsets", "x.keys.bytes"), ("x@v.keys.offsets", "x@v.keys.bytes"), ("keys.offsets", "keys.bytes")):
            name, _ = self.resident([1, 2])
            self.assertMetadata(self.put_keys(name, safetensors({a: offsets, b: text}), headers=type_of), 201, keys="string")
            self.assertEqual(self.keys_of(name), ("string", ["a", "b"]))
        name, _ = self.resident([1, 2])
        for a, b in (("x.keys.offsets", "y.keys.bytes"), ("x.keys.offsets", "x@v.keys.bytes"), ("x.keys.offsets", "keys.bytes")):
            self.assertProblem(self.put_keys(name, safetensors({a: offsets, b: text}), headers=type_of), 400, "MALFORMED_REQUEST")

    def test_offsets_of_string_keys_in_a_file_increase_from_0_to_the_number_of_bytes(self):
        row, type_of = ("float32", (2,), pack("float32", [1, 2])), {"Content-Type": SAFETENSORS}
        put = lambda offsets, shape: self.request("PUT", f"/v1/tensors/{self.name()}", safetensors(
            {"x": row, "keys.offsets": ("int64", shape, pack("int64", offsets)), "keys.bytes": ("uint8", (3,), b"abc")}), type_of)
        for offsets in ([1, 2, 3], [-1, 2, 3], [0, 2, 2], [0, 2, 4], [0, 4, 3], [0, -1, 3]):
            with self.subTest(offsets):
                self.assertEqual(self.assertProblem(put(offsets, (3,)), 400, "MALFORMED_REQUEST")["detail"],
                                 "keys.offsets does not increase from 0 to 3, the number of bytes in keys.bytes")
        for offsets, shape in (([], (0,)), ([0, 1, 3], (1, 3)), ([0], ())):
            with self.subTest(offsets, shape=shape):
                self.assertEqual(self.assertProblem(put(offsets, shape), 400, "MALFORMED_REQUEST")["detail"],
                                 "keys.offsets is not a vector with at least one element")
        for offsets, keys in (([0, 0, 3], ["", "abc"]), ([0, 3, 3], ["abc", ""])):
            name = self.name()
            self.assertMetadata(self.put(name, safetensors({"x": row, "keys.offsets": ("int64", (3,), pack("int64", offsets)),
                                                            "keys.bytes": ("uint8", (3,), b"abc")}), type_of), 201, keys="string")
            self.assertEqual(self.keys_of(name), ("string", keys))

    def test_keys_in_a_file_may_have_32_bits(self):
        row, type_of = ("float32", (2,), pack("float32", [1, 2])), {"Content-Type": SAFETENSORS}
        for dtype, keys in (("int32", [-1, 7]), ("uint32", [2**32 - 1, 7])):
            entry = (dtype, (2,), pack(dtype, keys))
            for entries in ({"t": row, "keys": entry}, {"x": row, "x.keys": entry}):
                name = self.name()
                self.assertMetadata(self.put(name, safetensors(entries), type_of), 201, keys="int64", dtype="float32")
                self.assertEqual(self.keys_of(name), ("int64", keys))

    def test_the_error_of_keys_of_another_dtype_in_a_file_names_it(self):
        row, type_of = ("float32", (2,), pack("float32", [1, 2])), {"Content-Type": SAFETENSORS}
        for entries in ({"t": row, "keys": ("int16", (2,), pack("int16", [1, 2]))}, {"x": row, "x.keys": ("int16", (2,), pack("int16", [1, 2]))}):
            reply = self.request("PUT", f"/v1/tensors/{self.name()}", safetensors(entries), type_of)
            detail = self.assertProblem(reply, 422, "UNSUPPORTED_DTYPE", input="keys")["detail"]
            self.assertIn("int16", detail)
            self.assertNotIn("tensors", detail)

    def test_a_table_may_have_the_name_of_other_keys(self):
        numbers, words = ("int64", (2,), pack("int64", [7, -8])), ("int64", (3,), pack("int64", [0, 1, 2]))
        for entries, dtype, keys in (({"keys": numbers, "keys.bytes": ("uint8", (2,), b"ab")}, "uint8", ("int64", [7, -8])),
                                     ({"keys.offsets": numbers, "keys": numbers}, "int64", ("int64", [7, -8])),
                                     ({"keys": ("int32", (2,), pack("int32", [1, 2])), "keys.keys": numbers}, "int32", ("int64", [7, -8])),
                                     ({"keys.offsets": words, "keys": ("float32", (2,), pack("float32", [1, 2])),
                                       "keys.bytes": ("uint8", (2,), b"ab")}, "float32", ("string", ["a", "b"]))):
            name, _ = self.resident([[1, 2]])
            reply = self.request("PUT", f"/v1/tensors/{name}", safetensors(entries), {"Content-Type": SAFETENSORS})
            self.assertMetadata(reply, 200, dtype=dtype, shape=[2], keys=keys[0])
            self.assertEqual(self.keys_of(name), keys)

    def test_conditions_hold_for_rows_and_keys(self):
        name, before = self.resident([1, 2])
        self.assertProblem(self.put_keys(name, [1, 2], headers={"If-Match": '"other"'}), 412, "PRECONDITION_FAILED")
        reply = self.put_keys(name, [1, 2], headers={"If-Match": before["etag"]})
        self.assertMetadata(reply, 201, keys="int64")
        self.assertEqual(self.get(f"/v1/tensors/{name}").headers["ETag"], reply.headers["ETag"])
        self.assertEqual(self.get(f"/v1/tensors/{name}/keys").headers["ETag"], reply.headers["ETag"])

    def test_keys_of_32_bits_become_int64(self):
        for dtype, keys in (("int32", [-1, 7]), ("uint32", [2**32 - 1, 7])):
            name, _ = self.resident([[1, 2], [3, 4]])
            typed = {"dtype": dtype, "data": keys}
            self.assertMetadata(self.put_keys(name, typed), 201, keys="int64")
            self.assertEqual(self.keys_of(name), ("int64", keys))
            self.assertMetadata(self.put(name, {"tensor": [[1, 2], [3, 4]], "keys": typed}), 200, keys="int64")
            body = {"params": {"ref": name}, "indices": {"keys": {"dtype": dtype, "data": keys[::-1]}}}
            self.assertOutput(self.post("/v1/gather", body), "int32", [2, 2], [[3, 4], [1, 2]])
            reply = self.post(f"/v1/tensors/{name}/find", {"queries": {"dtype": dtype, "data": [8, 7]}})
            self.assertOutput(reply, "int64", [2], [-1, 1])

    def test_keys_that_do_not_fit_are_refused(self):
        name, _ = self.resident([1, 2, 3])
        self.assertProblem(self.put_keys(name, [1, 2]), 409, "CONFLICT", input="keys")
        self.assertProblem(self.put_keys(name, [1, 2, 1]), 422, "INVALID_ARGUMENT", input="keys", positions=[[0], [2]])
        self.assertProblem(self.put_keys(name, ["a", "b", "b"]), 422, "INVALID_ARGUMENT", positions=[[1], [2]])
        self.assertProblem(self.put_keys(name, [[1], [2], [3]]), 422, "SHAPE_MISMATCH", input="keys")
        self.assertProblem(self.put_keys(name, [1.5, 2, 3]), 422, "UNSUPPORTED_DTYPE", input="keys")
        self.assertProblem(self.put_keys(name, {"dtype": "int16", "data": [1, 2, 3]}), 422, "UNSUPPORTED_DTYPE")
        self.assertProblem(self.put_keys("no." + name, [1]), 404, "TENSOR_NOT_FOUND")
        self.assertProblem(self.put(name + ".keys", [1]), 422, "INVALID_ARGUMENT")
        self.assertProblem(self.put_keys(name, [1, 2, 3], "?persist=1"), 422, "INVALID_ARGUMENT")
        self.assertProblem(self.put_keys(name, [1, 2, 3], "?device=gpu"), 400, "MALFORMED_REQUEST")
        for body in ('{"keys": [1]}', '{"tensor": [1]}', '{"tensor": [1], "keys": [1], "keys": [1]}', '{"tensor": [1], "keys": [1], "x": 1}',
                     '{"tensor": [1], "keys": [1]', '{"tensor": [1], "keys": [1]} 2', '{"keys\\u0000": [1], "tensor": [1]}'):
            self.assertProblem(self.put(name, body), 400, "MALFORMED_REQUEST")
        self.assertProblem(self.get(f"/v1/tensors/{name}/keys"), 404, "TENSOR_NOT_FOUND")

    def test_the_keys_are_a_tensor_for_reading(self):
        name, _ = self.resident([1, 2, 3])
        self.put_keys(name, ["a", "b", "c"])
        self.assertOutput(self.post("/v1/gather", {"params": {"ref": name + ".keys"}, "indices": [2, 0]}), "string", [2], ["c", "a"])
        reply = self.post("/v1/find", {"keys": {"ref": name + ".keys"}, "queries": ["b", "x"]})
        self.assertOutput(reply, "int64", [2], [1, -1])


class RowsByKeys(KeysTest):
    """{"keys": [...]} in place of the indices of gather and embedding_bag; lookup and find without keys."""

    def table(self, keys, rows=((1, 2), (3, 4), (5, 6))):
        name = self.name()
        self.assertStatus(self.put(name, {"tensor": list(rows), "keys": keys}), 201)
        return name

    def gather(self, name, keys, **more):
        return self.post("/v1/gather", {"params": {"ref": name}, "indices": {"keys": keys}, **more})

    def test_rows_are_named_by_keys(self):
        for keys, query, rows in ((["a", "b", ""], ["", "a"], [[5, 6], [1, 2]]), ([7, -8, 2**40], [[-8], [-8]], [[[3, 4]], [[3, 4]]]),
                                  ([2**64 - 1, 0, 5], 2**64 - 1, [1, 2]), (["a", "b", "c"], [], []), ([2**63, 1, 2], [1], [[3, 4]]),
                                  ([1, 2, 3], {"dtype": "int64", "data": [3]}, [[5, 6]])):
            with self.subTest(keys=keys, query=query):
                reply = self.gather(self.table(keys), query)
                self.assertStatus(reply, 200)
                self.assertEqual(reply.json()["output"]["data"], rows)

    def test_rows_of_bags_are_named_by_keys(self):
        params = {"ref": self.table(["a", "b", "c"], [[1.5, 2], [3, 4], [5, 6]])}
        body = {"params": params, "indices": {"keys": ["c", "a", "b"]}, "offsets": [0, 2]}
        self.assertOutput(self.post("/v1/embedding_bag", body), "float32", [2, 2], [[6.5, 8], [3, 4]])
        body["indices"]["keys"][1] = "x"
        self.assertProblem(self.post("/v1/embedding_bag", body), 422, "KEY_NOT_FOUND", input="indices", position=[1], key="x")
        self.assertOutput(self.post("/v1/embedding_bag", {**body, "bounds": "zero"}), "float32", [2, 2], [[5, 6], [3, 4]])

    def test_the_table_may_come_after_the_keys(self):
        name = self.table([2**63, 1, 2])
        body = '{"indices": {"keys": [9223372036854775808, 2]}, "params": {"ref": "%s"}}' % name
        self.assertOutput(self.post("/v1/gather", body), "int32", [2, 2], [[1, 2], [5, 6]])

    def test_an_unknown_key_is_refused_or_a_row_of_zeros(self):
        name = self.table(["a", "b", "c"])
        self.assertProblem(self.gather(name, [["a", "x"], ["y", "b"]]), 422, "KEY_NOT_FOUND", input="indices", position=[0, 1],
                           key="x", bad_count=2)
        self.assertOutput(self.gather(name, ["x", "b"], bounds="zero"), "int32", [2, 2], [[0, 0], [3, 4]])
        for bounds in ("clip", "wrap"):
            self.assertProblem(self.gather(name, ["a"], bounds=bounds), 422, "INVALID_ARGUMENT", attribute="bounds")

    def test_keys_are_called_so_by_every_lookup_in_the_table(self):
        name = self.table({"dtype": "uint64", "data": [2**64 - 1, 7]}, ((1, 2), (3, 4)))
        path = f"/v1/tensors/{name}/"
        self.assertOutput(self.post(path + "find", {"keys": [7, 9]}), "int64", [2], [1, -1])
        self.assertOutput(self.post(path + "gather", {"keys": [[7], [2**64 - 1]]}), "int32", [2, 1, 2], [[[3, 4]], [[1, 2]]])
        self.assertOutput(self.post(path + "gather", {"bounds": "zero", "keys": [8]}), "int32", [1, 2], [[0, 0]])
        floats = self.table(["a", "b"], ((1.5, 2), (3, 4)))
        self.assertOutput(self.post(f"/v1/tensors/{floats}/embedding_bag", {"keys": ["b", "a"], "offsets": [0]}), "float32", [1, 2],
                          [[4.5, 6]])
        reply = self.post(path + "lookup", {"keys": [7, 8], "missing": "zero"})
        self.assertEqual([out["data"] for out in reply.json()["outputs"].values()], [[[3, 4], [0, 0]], [True, False]])
        for op, shape in (("find", [1]), ("gather", [1, 2])):
            body = safetensors({"keys": ("uint64", [1], pack("uint64", [7]))})
            reply = self.request("POST", path + op, body, {"Content-Type": SAFETENSORS, "Accept": JSON})
            self.assertOutput(reply, "int64" if op == "find" else "int32", shape, [1] if op == "find" else [[3, 4]])

    def test_keys_that_are_not_there_or_given_twice_are_named(self):
        name = self.table([5, 7], ((1, 2), (3, 4)))
        path = f"/v1/tensors/{name}/"
        self.assertProblem(self.post(path + "gather", {"keys": [7, 8]}), 422, "KEY_NOT_FOUND", input="keys", position=[1], key=8)
        self.assertProblem(self.post(path + "lookup", {"keys": [8]}), 422, "KEY_NOT_FOUND", input="keys", position=[0], key=8)
        self.assertProblem(self.post(path + "gather", {"keys": [7, "x"]}), 400, "MALFORMED_REQUEST", input="keys", pointer="/keys/1")
        for op, other in (("gather", "indices"), ("find", "queries"), ("lookup", "queries")):
            for body, pointer in (({other: [1], "keys": [7]}, "/keys"), ({"keys": [7], other: [1]}, "/" + other)):
                self.assertProblem(self.post(path + op, body), 400, "MALFORMED_REQUEST", pointer=pointer,
                                   detail=f"both {other} and keys are given; expected only one of them")
        keyless, _ = self.resident([[1, 2], [3, 4]])
        reply = self.post(f"/v1/tensors/{keyless}/lookup", {"keys": [5, 7], "queries": [7]})
        self.assertEqual(reply.json()["outputs"]["output"]["data"], [[3, 4]])

    def test_beside_keys_of_uint64_uint32_becomes_uint64_and_int32_is_refused(self):
        name = self.table({"dtype": "uint64", "data": [7, 8, 9]})
        self.assertOutput(self.gather(name, {"dtype": "uint32", "data": [8]}), "int32", [1, 2], [[3, 4]])
        for dtype in ("int32", "int64"):
            self.assertProblem(self.gather(name, {"dtype": dtype, "data": [8]}), 422, "UNSUPPORTED_DTYPE", input="indices")

    def test_keys_that_name_no_rows_are_refused(self):
        name, _ = self.resident([[1, 2], [3, 4]])
        self.assertProblem(self.gather(name, ["a"]), 422, "INVALID_ARGUMENT", input="indices")
        self.assertProblem(self.post("/v1/gather", {"params": [1, 2], "indices": {"keys": [1]}}), 422, "INVALID_ARGUMENT",
                           input="indices")
        name = self.table([1, 2, 3])
        self.assertProblem(self.gather(name, {"dtype": "uint64", "data": [1]}), 422, "UNSUPPORTED_DTYPE", input="indices")
        self.assertProblem(self.gather(name, [1], axis=1), 422, "INVALID_ARGUMENT", attribute="axis")
        self.assertProblem(self.gather(name, [1], axis=-1), 422, "INVALID_ARGUMENT", attribute="axis")
        self.assertProblem(self.gather(name, [1], batch_dims=1), 422, "INVALID_ARGUMENT", attribute="batch_dims")
        self.assertOutput(self.gather(name, [1], axis=0, batch_dims=0), "int32", [1, 2], [[1, 2]])
        self.assertOutput(self.gather(name, [1], axis=-2), "int32", [1, 2], [[1, 2]])

    def test_bodies_that_are_no_keys_are_malformed(self):
        name = self.table([1, 2, 3])
        for indices, pointer in (('{"keys": ["a"]}', "/indices/keys/0"), ('{"keys": [[1], [1, 2]]}', "/indices/keys/1"),
                                 ('{"keys": [-1.5]}', "/indices/keys/0"), ('{"keys": [9223372036854775808]}', "/indices/keys/0"),
                                 ('{"keys": [1], "dtype": "int64"}', "/indices"), ('{"keys": [1], "keys": [2]}', "/indices"),
                                 ('{"keys": {"ref": 1}}', "/indices/keys/ref"), ('{"keys": [1],}', ""), ('{"keys":}', ""),
                                 ('{"keys"', ""), ('{"keys": [1', ""), ('{"keys\\u0000": [1]}', None)):
            body = '{"params": {"ref": "%s"}, "indices": %s}' % (name, indices)
            reply = self.post("/v1/gather", body)
            self.assertProblem(reply, 400, "MALFORMED_REQUEST", **({"pointer": pointer} if pointer else {}))
        for body in ('{"params": {"ref": "%s"}, "indices": {"keys": [1]}, "indices": [1]}',
                     '{"params": {"ref": "%s"}, "indices": [1], "indices": {"keys": [1]}}',
                     '{"params": {"ref": "%s"}, "indices": {"keys": [1]}, "indices": {"keys": [1]}}'):
            self.assertProblem(self.post("/v1/gather", body % name), 400, "MALFORMED_REQUEST", input="indices")
        self.assertProblem(self.post("/v1/gather", {"params": {"keys": [1]}, "indices": [1]}), 400, "MALFORMED_REQUEST")

    def test_the_keys_may_be_resident(self):
        name, (queries, _) = self.table(["a", "b", "c"]), self.resident(["c", "a"])
        self.assertOutput(self.gather(name, {"ref": queries}), "int32", [2, 2], [[5, 6], [1, 2]])
        self.assertProblem(self.gather(name, {"ref": "no." + queries}), 404, "TENSOR_NOT_FOUND")

    def test_every_route_to_a_table_takes_keys(self):
        name = self.table(["a", "b", "c"])
        for path in (f"/v1/tensors/{name}/gather", f"/v1/tensors/{name}/gather?bounds=error"):
            self.assertOutput(self.post(path, {"indices": {"keys": ["b"]}}), "int32", [1, 2], [[3, 4]])
        for path, body in (("/v1/lookup", {"params": {"ref": name}, "queries": ["c"]}), (f"/v1/tensors/{name}/lookup", {"queries": ["c"]})):
            self.assertEqual(self.post(path, body).json()["outputs"]["output"]["data"], [[5, 6]])
        self.assertOutput(self.post(f"/v1/tensors/{name}/find", {"queries": ["c", "x"]}), "int64", [2], [2, -1])
        self.put_keys(name, [2**63, 2, 3])
        reply = self.post(f"/v1/tensors/{name}/find", {"queries": [2**63, 3, 4]})
        self.assertOutput(reply, "int64", [3], [0, 2, -1])
        self.assertIn(name, reply.headers["X-Tensord-Table"])
        self.assertProblem(self.post(f"/v1/tensors/{name}/find", {"keys": [1], "queries": [2]}), 400, "MALFORMED_REQUEST")
        without, _ = self.resident([[1]])
        self.assertProblem(self.post(f"/v1/tensors/{without}/find", {"queries": [1]}), 422, "INVALID_ARGUMENT")
        reply = self.post(f"/v1/tensors/{name}/lookup", {"queries": [2]})
        self.assertEqual(reply.json()["outputs"]["output"]["data"], [[3, 4]])
        self.assertEqual(reply.json()["outputs"]["found"]["data"], [True])

    def test_a_gpu_finds_no_keys_in_place_of_indices(self):
        self.assertProblem(self.gather(self.table([1, 2, 3]), [1], device="gpu"), 422, "INVALID_ARGUMENT", attribute="device")

    def test_many_keys_are_found(self):
        import random
        rng = random.Random(2)
        keys = rng.sample(range(-2**63, 2**63, 2**40 + 1), 50_000)
        name = self.name()
        self.assertStatus(self.put(name, safetensors({"t": ("int64", (50_000,), pack("int64", range(50_000))),
                                                      "keys": ("int64", (50_000,), pack("int64", keys))}),
                                   {"Content-Type": SAFETENSORS}), 201)
        rows = [rng.randrange(50_000) for _ in range(20_000)]
        self.assertOutput(self.gather(name, [keys[row] for row in rows]), "int64", [20_000], rows)
        query = [keys[row] for row in rows]
        query[19_000] += 1
        query[17_001] += 1
        self.assertProblem(self.gather(name, query), 422, "KEY_NOT_FOUND", position=[17_001], bad_count=2)

    def test_a_binary_body_has_keys_beside_the_name_of_the_table(self):
        name = self.table([7, -8, 2**40])
        keys = ("int64", (2,), pack("int64", [2**40, 7]))
        reply = self.post("/v1/gather", safetensors({"indices.keys": keys}, {"params.ref": name}), {"Content-Type": SAFETENSORS})
        self.assertBinary(reply, "int32", (2, 2), pack("int32", [5, 6, 1, 2]))
        reply = self.post(f"/v1/tensors/{name}/gather", safetensors({"indices.keys": keys}), {"Content-Type": SAFETENSORS})
        self.assertBinary(reply, "int32", (2, 2), pack("int32", [5, 6, 1, 2]))
        (queries, _) = self.resident({"dtype": "int64", "data": [-8]})
        reply = self.post("/v1/gather", safetensors({}, {"params.ref": name, "indices.keys.ref": queries}), {"Content-Type": SAFETENSORS})
        self.assertBinary(reply, "int32", (1, 2), pack("int32", [3, 4]))
        row = ("int64", (1,), pack("int64", [0]))
        for entries, metadata in (({"indices.keys": keys, "indices": row}, {"params.ref": name}),
                                  ({"indices": row, "indices.keys": keys}, {"params.ref": name}),
                                  ({"indices.keys": keys}, {"params.ref": name, "indices.ref": queries}),
                                  ({"indices.keys": keys}, {"params.ref": name, "indices.keys.ref": queries}),
                                  ({"indices": row, "params.keys": keys}, {"params.ref": name}),
                                  ({"indices.keys.keys": keys}, {"params.ref": name})):
            reply = self.post("/v1/gather", safetensors(entries, metadata), {"Content-Type": SAFETENSORS})
            self.assertProblem(reply, 400, "MALFORMED_REQUEST")

    def test_keys_may_have_any_alignment(self):
        name = self.table([7, -8, 2**40])
        data = pack("int64", [2**40, 7])
        binary = {"name": "keys", "datatype": "INT64", "shape": [2], "parameters": {"binary_data_size": len(data)}}
        for pad in range(8):
            keys = safetensors({"indices.keys": ("int64", (2,), data)}, {"params.ref": name}, pad=pad)
            self.assertBinary(self.post("/v1/gather", keys, {"Content-Type": SAFETENSORS}), "int32", (2, 2), pack("int32", [5, 6, 1, 2]))
            head = json.dumps({"inputs": [binary]}).encode() + b" " * pad
            reply = self.post(f"/v2/models/{name}/infer", head + data, {"Inference-Header-Content-Length": str(len(head))})
            self.assertStatus(reply, 200)
            self.assertEqual(reply.json()["outputs"][0]["data"], [5, 6, 1, 2])

    def test_lookup_leaves_out_the_keys_in_a_binary_body(self):
        name = self.table([7, -8, 2**40])
        body = safetensors({"queries": ("int64", (1,), pack("int64", [-8]))}, {"params.ref": name})
        reply = self.post("/v1/lookup", body, {"Content-Type": SAFETENSORS})
        self.assertStatus(reply, 200)
        self.assertEqual(read_safetensors(reply.body)[0]["output"], ("int32", [1, 2], pack("int32", [3, 4])))

    def infer(self, model, name, inputs):
        reply = self.post(f"/v2/models/{model}/infer", {"inputs": inputs, "parameters": {"params.ref": name}})
        self.assertStatus(reply, 200)
        return {output["name"]: output["data"] for output in reply.json()["outputs"]}

    def test_the_open_inference_protocol_takes_keys(self):
        words, numbers = self.table(["a", "b", ""]), self.table([7, -8, 2**40])
        keys = {"name": "indices.keys", "shape": [2], "datatype": "BYTES", "data": ["", "b"]}
        self.assertEqual(self.infer("gather", words, [keys]), {"output": [5, 6, 3, 4]})
        keys = {"name": "indices.keys", "shape": [1], "datatype": "INT64", "data": [-8]}
        self.assertEqual(self.infer("gather", numbers, [keys]), {"output": [3, 4]})
        queries = {"name": "queries", "shape": [1], "datatype": "BYTES", "data": ["b"]}
        self.assertEqual(self.infer("lookup", words, [queries]), {"output": [3, 4], "found": [True]})

    def test_without_keys_lookup_needs_a_table_that_has_some(self):
        name, _ = self.resident([[1, 2]])
        self.assertProblem(self.post("/v1/lookup", {"params": {"ref": name}, "queries": [1]}), 422, "INVALID_ARGUMENT", input="keys")
        body = {"inputs": [{"name": "queries", "shape": [1], "datatype": "INT64", "data": [1]}], "parameters": {"params.ref": name}}
        self.assertStatus(self.post("/v2/models/lookup/infer", body), 400)


class Files(KeysTest):
    """X.keys.npy beside X.npy in the data folder"""

    def write(self, folder, name, dtype, values):
        path = os.path.join(folder, name + ".npy")
        with open(path + ".new", "wb") as file:
            file.write(npy(dtype, (len(values),), pack(dtype, values)))
        os.rename(path + ".new", path)

    def test_the_keys_of_an_npy_file_are_in_another_one(self):
        folder = temporary_folder()
        self.write(folder, "n", "float32", [1, 2, 3])
        self.write(folder, "n.keys", "uint64", [7, 8, 2**63])
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            def of(*keys):
                reply = client.request("POST", "/v1/tensors/n/gather", {"indices": {"keys": list(keys)}})
                return reply.json()["output"]["data"] if reply.status == 200 else reply.json()["code"]

            def tag():
                return client.request("GET", "/v1/tensors/n").headers["ETag"]

            def refused():
                return daemon.wait_log(lambda event: event.get("event") == "table_skipped" and event["file"] == "n.npy")["reason"]

            first = tag()
            self.assertEqual((of(2**63, 7), of(1)), ([3, 1], "KEY_NOT_FOUND"))
            self.assertEqual([table["name"] for table in client.request("GET", "/v1/tensors").json()["tensors"]], ["n"])
            self.write(folder, "n.keys", "uint64", [1, 2, 3, 4])
            daemon.send_signal(signal.SIGHUP)
            self.assertEqual(refused(), "n.keys.npy: there are 4 keys, but 'n' has 3 rows; the version loaded before is still served until a restart")
            self.assertEqual((of(2**63, 7), tag()), ([3, 1], first))
            self.write(folder, "n", "float32", [4, 5, 6, 7])  # together they are a new version
            daemon.send_signal(signal.SIGHUP)
            self.wait_until(lambda: of(4, 1) == [7, 4])
            self.assertNotEqual(tag(), first)
            os.remove(os.path.join(folder, "n.keys.npy"))
            daemon.send_signal(signal.SIGHUP)
            self.wait_until(lambda: client.request("GET", "/v1/tensors/n/keys").status == 404)
            self.assertStatus(client.request("PUT", "/v1/tensors/n/keys?persist=1", [5, 6, 7, 8]), 201)
            self.assertEqual([name for name in sorted(os.listdir(folder)) if name[0] != "."], ["n.tensord"])

    def test_keys_that_were_deleted_in_memory_are_deleted_from_the_file_as_well(self):
        folder = temporary_folder()
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            daemon.at_start = None  # the table stays
            self.assertStatus(client.request("PUT", "/v1/tensors/t?persist=1", {"tensor": [1, 2], "keys": [5, 6]}), 201)
            self.assertStatus(client.request("DELETE", "/v1/tensors/t/keys"), 204)
            self.assertMetadata(client.request("GET", "/v1/tensors/t"), 200, persisted=False)
            self.assertStatus(client.request("DELETE", "/v1/tensors/t/keys?persist=1"), 204)
            self.assertMetadata(client.request("GET", "/v1/tensors/t"), 200, persisted=True)
            self.assertProblem(client.request("DELETE", "/v1/tensors/t/keys?persist=1"), 404, "TENSOR_NOT_FOUND")
            self.assertStatus(client.request("PUT", "/v1/tensors/m", [1, 2]), 201)
            self.assertProblem(client.request("DELETE", "/v1/tensors/m/keys?persist=1"), 404, "TENSOR_NOT_FOUND")
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            daemon.at_start = None
            self.assertNotIn("keys", client.request("GET", "/v1/tensors/t").json())
