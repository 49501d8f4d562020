"""POST /v1/tensors/{name}/upsert and /remove: rows of a table replaced, appended and taken out by key."""
import os, struct, threading
from daemon import *
from test_keys import KeysTest

BINARY = {"Content-Type": SAFETENSORS}


class UpsertTest(KeysTest):
    def table(self, rows, keys):
        name = self.name()
        self.assertStatus(self.put(name, {"tensor": rows, "keys": keys}), 201)
        return name

    def change(self, name, path, body, query="", headers=None):
        return self.request("POST", f"/v1/tensors/{name}/{path}{query}", body, headers)

    def assertTable(self, name, dtype, rows, keys):
        reply = self.get(f"/v1/tensors/{name}?response=nested").json()
        self.assertEqual((reply["dtype"], reply["data"]), (dtype, rows))
        self.assertEqual(self.keys_of(name)[1], keys)


class Upsert(UpsertTest):
    def test_rows_are_replaced_and_appended(self):
        name = self.table([[1.5, 2], [3, 4]], ["king", "queen"])
        reply = self.change(name, "upsert", {"keys": ["queen"], "rows": [[5, 6]]})
        self.assertMetadata(reply, 200, name=name, shape=[2, 2], keys="string", replaced=1, appended=0)
        self.assertTable(name, "float32", [[1.5, 2], [5, 6]], ["king", "queen"])
        reply = self.change(name, "upsert", {"rows": [[7, 8], [9, 10], [11, 12]], "keys": ["ace", "king", ""]})
        self.assertMetadata(reply, 200, shape=[4, 2], replaced=1, appended=2)
        self.assertTable(name, "float32", [[9, 10], [5, 6], [7, 8], [11, 12]], ["king", "queen", "ace", ""])
        reply = self.post("/v1/gather", {"params": {"ref": name}, "indices": {"keys": ["ace", "queen"]}})
        self.assertOutput(reply, "float32", [2, 2], [[7, 8], [5, 6]])

    def test_keys_of_32_bits_have_the_dtype_of_the_table(self):
        for of_table, dtype in (("int64", "int32"), ("int64", "uint32"), ("uint64", "uint32")):
            name = self.table([1, 2], {"dtype": of_table, "data": [5, 6]})
            keys = {"dtype": dtype, "data": [6, 2**31 - 1]}
            self.assertMetadata(self.change(name, "upsert", {"keys": keys, "rows": [3, 4]}), 200, replaced=1, keys=of_table)
            self.assertTable(name, "int32", [1, 3, 4], [5, 6, 2**31 - 1])
            self.assertMetadata(self.change(name, "remove", {"keys": keys}), 200, removed=2)
        self.assertProblem(self.change(name, "upsert", {"keys": {"dtype": "int32", "data": [5]}, "rows": [0]}), 422,
                           "UNSUPPORTED_DTYPE", input="keys")

    def test_plain_values_have_the_dtypes_of_the_table(self):
        name = self.name()
        self.assertStatus(self.put(name, {"tensor": {"dtype": "int8", "data": [1]}, "keys": [2**64 - 1]}), 201)
        self.assertMetadata(self.change(name, "upsert", {"keys": [1, 2], "rows": [2, 3]}), 200, appended=2, keys="uint64")
        self.assertTable(name, "int8", [1, 2, 3], [2**64 - 1, 1, 2])
        self.assertProblem(self.change(name, "upsert", {"keys": [-1], "rows": [1]}), 400, "MALFORMED_REQUEST", pointer="/keys/0")
        self.assertProblem(self.change(name, "upsert", {"keys": [1], "rows": [128]}), 400, "MALFORMED_REQUEST", pointer="/rows/0")
        self.assertProblem(self.change(name, "upsert", {"keys": [1], "rows": {"dtype": "int16", "data": [1]}}), 422,
                           "UNSUPPORTED_DTYPE", input="rows")

    def test_a_binary_body_and_resident_inputs(self):
        name, (rows, _) = self.table([[1], [2]], [10, 20]), self.resident([[5], [6]])
        body = safetensors({"keys": ("int64", (2,), pack("int64", [20, 30])), "rows": ("int32", (2, 1), pack("int32", [3, 4]))})
        self.assertMetadata(self.change(name, "upsert", body, headers=BINARY), 200, replaced=1, appended=1)
        self.assertTable(name, "int32", [[1], [3], [4]], [10, 20, 30])
        self.assertMetadata(self.change(name, "upsert", {"keys": [1, 10], "rows": {"ref": rows}}), 200, replaced=1, appended=1)
        self.assertTable(name, "int32", [[6], [3], [4], [5]], [10, 20, 30, 1])
        self.assertMetadata(self.change(name, "remove", safetensors({"keys": ("int64", (1,), pack("int64", [20]))}), headers=BINARY),
                            200, removed=1)

    def test_strings(self):
        name = self.table(["one", "two"], ["1", "2"])
        self.assertMetadata(self.change(name, "upsert", {"keys": ["2", "3"], "rows": ["zwei", ""]}), 200, replaced=1, appended=1)
        self.assertTable(name, "string", ["one", "zwei", ""], ["1", "2", "3"])
        self.assertMetadata(self.change(name, "remove", {"keys": ["1", "x"]}), 200, removed=1, shape=[2])
        self.assertTable(name, "string", ["", "zwei"], ["3", "2"])

    def test_rows_are_removed_and_the_last_ones_move_up(self):
        name = self.table([[1], [2], [3], [4]], [1, 2, 3, 4])
        self.assertMetadata(self.change(name, "remove", {"keys": [1, 9, 1]}), 200, shape=[3, 1], removed=1)
        self.assertTable(name, "int32", [[4], [2], [3]], [4, 2, 3])
        self.assertMetadata(self.change(name, "remove", {"keys": [9]}), 200, shape=[3, 1], removed=0)
        self.assertMetadata(self.change(name, "remove", {"keys": [4, 3, 2]}), 200, shape=[0, 1], removed=3)
        self.assertTable(name, "int32", [], [])
        self.assertMetadata(self.change(name, "upsert", {"keys": [5], "rows": [[6]]}), 200, shape=[1, 1], appended=1)
        self.assertTable(name, "int32", [[6]], [5])

    def test_what_does_not_fit_changes_nothing(self):
        name = self.table([[1, 2], [3, 4]], [1, 2])
        for path, body, status, code, members in (
                ("upsert", {"keys": [5], "rows": [[1]]}, 422, "SHAPE_MISMATCH", {"input": "rows"}),
                ("upsert", {"keys": [5], "rows": [[1, 2], [3, 4]]}, 422, "SHAPE_MISMATCH", {"input": "rows"}),
                ("upsert", {"keys": [[5]], "rows": [[1, 2]]}, 422, "SHAPE_MISMATCH", {"input": "keys"}),
                ("upsert", {"keys": [5]}, 422, "INVALID_ARGUMENT", {"input": "rows"}),
                ("upsert", {"rows": [[1, 2]]}, 422, "INVALID_ARGUMENT", {"input": "keys"}),
                ("remove", {}, 422, "INVALID_ARGUMENT", {"input": "keys"}),
                ("remove", {"keys": ["a"]}, 400, "MALFORMED_REQUEST", {"pointer": "/keys/0"}),
                ("remove", {"keys": [1], "rows": [[1, 2]]}, 400, "MALFORMED_REQUEST", {}),
                ("remove", {"keys": [1], "row_keys": [1, 2]}, 400, "MALFORMED_REQUEST", {}),
                ("upsert", {"keys": [1], "rows": [[1, 2]], "params": [[1]]}, 400, "MALFORMED_REQUEST", {}),
                ("upsert", {"keys": [1], "rows": [[1, 2]], "store": "x"}, 400, "MALFORMED_REQUEST", {"attribute": "store"}),
                ("upsert", [1], 400, "MALFORMED_REQUEST", {})):
            with self.subTest(path=path, body=body):
                self.assertProblem(self.change(name, path, body), status, code, **members)
        self.assertTable(name, "int32", [[1, 2], [3, 4]], [1, 2])

    def test_tables_that_cannot_be_changed(self):
        name, _ = self.resident([[1]])
        for path, body in (("upsert", {"keys": [1], "rows": [[1]]}), ("remove", {"keys": [1]})):
            self.assertProblem(self.change(name, path, body), 422, "INVALID_ARGUMENT")
            self.assertProblem(self.change("no." + name, path, body), 404, "TENSOR_NOT_FOUND")
            self.assertProblem(self.change(name + ".keys", path, body), 422, "INVALID_ARGUMENT")
            version = name + "@" + path
            self.assertStatus(self.put(version, {"tensor": [[1]], "keys": [1]}), 201)
            self.assertProblem(self.change(version, path, body), 409, "CONFLICT")
            alias = name + path
            self.assertStatus(self.post("/v1/aliases", {"set": {alias: version}}), 200)
            self.assertProblem(self.change(alias, path, body), 409, "CONFLICT")
            self.assertStatus(self.post("/v1/aliases", {"set": {alias: None}}), 200)

    def test_rows_with_scales_beside_them_stay(self):
        name = self.name()
        self.assertStatus(self.put(name, {"tensor": {"dtype": "int8", "data": [[1], [2]]}, "keys": [1, 2]}), 201)
        for part, dtype, values in ((".scale", "float32", [0.5, 0.5]), (".offset", "float32", [1, 2]), (".zero_point", "int32", [3, 4])):
            self.assertStatus(self.put(name + part, {"dtype": dtype, "data": values}), 201)
            for path, body in (("upsert", {"keys": [1], "rows": [[3]]}), ("remove", {"keys": [1]})):
                with self.subTest(part=part, path=path):
                    problem = self.assertProblem(self.change(name, path, body), 409, "CONFLICT")
                    self.assertIn(name + part + "' has an element for each row", problem["detail"])
            self.assertTable(name, "int8", [[1], [2]], [1, 2])
            self.assertStatus(self.delete(name + part), 204)
        self.assertMetadata(self.change(name, "remove", {"keys": [1]}), 200, removed=1)

    def test_a_scale_of_all_rows_leaves_them_free_to_change(self):
        name = self.name()
        self.assertStatus(self.put(name, {"tensor": {"dtype": "int8", "data": [[1], [2]]}, "keys": [1, 2]}), 201)
        for part, dtype in ((".scale", "float32"), (".offset", "float32"), (".zero_point", "int32")):
            self.assertStatus(self.put(name + part, {"dtype": dtype, "data": 1}), 201)
        self.assertMetadata(self.change(name, "upsert", {"keys": [1, 3], "rows": [[5], [7]]}), 200, replaced=1, appended=1)
        self.assertMetadata(self.change(name, "remove", {"keys": [2]}), 200, removed=1)
        self.assertTable(name, "int8", [[5], [7]], [1, 3])

    def test_rows_whose_scales_cannot_be_read_stay(self):
        folder = temporary_folder()
        with open(os.path.join(folder, "q.scale.npy"), "wb") as file:
            file.write(npy("float32", (2,), struct.pack("<2f", 0.5, 0.5)))
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            self.assertStatus(client.request("PUT", "/v1/tensors/q", {"tensor": {"dtype": "int8", "data": [[1], [2]]}, "keys": [1, 2]}), 201)
            os.truncate(os.path.join(folder, "q.scale.npy"), 100)
            problem = self.assertProblem(client.post("/v1/tensors/q/remove", {"keys": [1]}), 503, "DEVICE_UNAVAILABLE")
            self.assertIn("q.scale.npy", problem["detail"])

    def test_a_condition_is_checked(self):
        name = self.table([1], [1])
        body = {"keys": [1], "rows": [2]}
        self.assertProblem(self.change(name, "upsert", body, headers={"If-Match": '"x"'}), 412, "PRECONDITION_FAILED")
        etag = self.get(f"/v1/tensors/{name}").headers["ETag"]
        reply = self.change(name, "upsert", body, headers={"If-Match": etag})
        self.assertMetadata(reply, 200, replaced=1)
        self.assertNotEqual(reply.headers["ETag"], etag)

    def test_readers_see_a_change_whole(self):
        name, stop, wrong = self.table([[0, 0]] * 8, list(range(8))), threading.Event(), []

        def read():
            with Client(self.daemon) as client:
                while not stop.is_set():
                    reply = client.post("/v1/gather", {"params": {"ref": name}, "indices": {"keys": [7, 0, 3]}})
                    rows = reply.json()["output"]["data"] if reply.status == 200 else reply.body
                    if reply.status != 200 or any(row != rows[0] for row in rows):
                        wrong.append(rows)
                        return

        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        for version in range(1, 150):
            more = [100] if version % 2 else []
            rows = [[version, version]] * (8 + len(more))
            self.assertStatus(self.change(name, "upsert", {"keys": list(range(7, -1, -1)) + more, "rows": rows}), 200)
            if more:
                self.assertStatus(self.change(name, "remove", {"keys": [100]}), 200)
        stop.set()
        for reader in readers:
            reader.join()
        self.assertEqual(wrong, [])


class Persisted(UpsertTest):
    def test_changes_are_there_after_a_restart(self):
        folder = temporary_folder()
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            body = {"tensor": [[1, 2], [3, 4]], "keys": ["a", "b"]}
            self.assertStatus(client.request("PUT", "/v1/tensors/t?persist=1", body), 201)
            self.assertStatus(client.post("/v1/tensors/t/upsert?persist=1", {"keys": ["c", "a"], "rows": [[5, 6], [7, 8]]}), 200)
            self.assertStatus(client.post("/v1/tensors/t/remove?persist=1", {"keys": ["b"]}), 200)
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            self.assertEqual(client.request("GET", "/v1/tensors/t?response=nested").json()["data"], [[7, 8], [5, 6]])
            self.assertEqual(client.request("GET", "/v1/tensors/t/keys?response=nested").json()["data"], ["a", "c"])
        self.assertEqual([name for name in os.listdir(folder) if not name.startswith(".")], ["t.tensord"])

    def test_a_table_beyond_the_quota_is_refused_and_stays(self):
        with Daemon("--tensor-quota", "65536") as daemon, Client(daemon) as client:
            body = safetensors({"t": ("int64", (1500,), pack("int64", range(1500))), "keys": ("int64", (1500,), pack("int64", range(1500)))})
            self.assertStatus(client.request("PUT", "/v1/tensors/t", body, BINARY), 201)
            more = ("int64", (1500,), pack("int64", range(1500, 3000)))
            reply = client.request("POST", "/v1/tensors/t/upsert", safetensors({"keys": more, "rows": more}), BINARY)
            self.assertProblem(reply, 422, "RESOURCE_LIMIT", resource="resident_bytes")
            self.assertEqual(client.request("GET", "/v1/tensors/t").json()["shape"], [1500])
            self.assertStatus(client.post("/v1/tensors/t/remove", {"keys": list(range(1400))}), 200)
            few = ("int64", (100,), pack("int64", range(1500, 1600)))
            self.assertStatus(client.request("POST", "/v1/tensors/t/upsert", safetensors({"keys": few, "rows": few}), BINARY), 200)
