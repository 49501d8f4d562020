"""Keys of tables: /v1/tensors/{name}/keys, and tables that are put with their keys."""
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

    def test_a_table_is_put_with_its_keys(self):
        name = self.name()
        body = {"tensor": [[1.5], [2.5]], "keys": ["a", "b"]}
        self.assertMetadata(self.put(name, body), 201, keys="string", shape=[2, 1])
        self.assertEqual(self.keys_of(name), ("string", ["a", "b"]))
        self.assertMetadata(self.put(name, [1, 2]), 200, shape=[2])
        self.assertProblem(self.get(f"/v1/tensors/{name}/keys"), 404, "TENSOR_NOT_FOUND")

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

    def test_conditions_hold_for_rows_and_keys(self):
        name, before = self.resident([1, 2])
        self.assertProblem(self.put_keys(name, [1, 2], headers={"If-Match": '"other"'}), 412, "PRECONDITION_FAILED")
        reply = self.put_keys(name, [1, 2], headers={"If-Match": before["etag"]})
        self.assertMetadata(reply, 201, keys="int64")
        self.assertEqual(self.get(f"/v1/tensors/{name}").headers["ETag"], reply.headers["ETag"])
        self.assertEqual(self.get(f"/v1/tensors/{name}/keys").headers["ETag"], reply.headers["ETag"])

    def test_keys_that_do_not_fit_are_refused(self):
        name, _ = self.resident([1, 2, 3])
        self.assertProblem(self.put_keys(name, [1, 2]), 409, "CONFLICT", input="keys")
        self.assertProblem(self.put_keys(name, [1, 2, 1]), 422, "INVALID_ARGUMENT", input="keys", positions=[[0], [2]])
        self.assertProblem(self.put_keys(name, ["a", "b", "b"]), 422, "INVALID_ARGUMENT", positions=[[1], [2]])
        self.assertProblem(self.put_keys(name, [[1], [2], [3]]), 422, "SHAPE_MISMATCH", input="keys")
        self.assertProblem(self.put_keys(name, [1.5, 2, 3]), 422, "UNSUPPORTED_DTYPE", input="keys")
        self.assertProblem(self.put_keys(name, {"dtype": "int32", "data": [1, 2, 3]}), 422, "UNSUPPORTED_DTYPE")
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
