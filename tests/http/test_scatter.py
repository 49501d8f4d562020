"""Row updates of resident tensors: POST /v1/tensors/{name}/scatter. What scatter computes and refuses is tested in
tests/kernels/test_scatter.c."""
import os, threading
from daemon import *
from test_tensors import TensorTest

TABLES = temporary_folder()
BINARY = {"Content-Type": SAFETENSORS}


def setUpModule():
    with open(os.path.join(TABLES, "mapped.npy"), "wb") as f:
        f.write(npy("int32", (3, 2), pack("int32", [1, 2, 3, 4, 5, 6])))


class ScatterTest(TensorTest):
    def scatter(self, name, body, query="", headers=None):
        return self.post(f"/v1/tensors/{name}/scatter{query}", body, headers)

    def assertUntouched(self, name, before):
        """checks that the version is that of this metadata"""
        self.assertMetadata(self.get(f"/v1/tensors/{name}"), 200, **before)


class Scatter(ScatterTest):
    def test_rows_are_set(self):  # tf.tensor_scatter_nd_update in the TensorFlow API reference
        name, before = self.resident([[1, 1, 1]] * 6)
        reply = self.scatter(name, {"indices": [[2], [4]], "updates": [[1, 2, 3], [4, 5, 6]]})
        after = self.assertMetadata(reply, 200, name=name, dtype="int32", shape=[6, 3], bytes=72)
        self.assertGreater(after["version"], before["version"])
        self.assertNotEqual(after["etag"], before["etag"])
        self.assertData(name, "int32", [6, 3], [[1, 1, 1], [1, 1, 1], [1, 2, 3], [1, 1, 1], [4, 5, 6], [1, 1, 1]])
        self.assertMetadata(self.get(f"/v1/tensors/{name}"), 200, **after)

    def test_untyped_updates_have_the_tensors_dtype(self):
        for dtype, value in (("int8", -3), ("uint64", 2**64 - 1), ("float16", 2), ("float64", 0.1), ("complex64", [1, -1]), ("bool", True),
                             ("string", "x")):
            with self.subTest(dtype=dtype):
                name, _ = self.resident({"dtype": dtype, "shape": [2], "data": [value, value]})
                self.assertStatus(self.scatter(name, {"indices": [[1]], "updates": [value]}), 200)
                self.assertData(name, dtype, [2], [value, value])

    def test_consecutive_updates(self):
        name, _ = self.resident([0] * 5)
        for i in range(50):
            self.assertStatus(self.scatter(name, {"mode": "add", "indices": [[i % 5]], "updates": [i]}), 200)
        self.assertData(name, "int32", [5], [sum(range(k, 50, 5)) for k in range(5)])

    def test_mode_may_be_in_the_body_the_query_or_metadata(self):
        name, _ = self.resident([1, 1])
        self.assertStatus(self.scatter(name, {"indices": [[0]], "updates": [1]}, "?mode=add"), 200)
        self.assertStatus(self.scatter(name, {"indices": [[0]], "updates": [1], "mode": "add"}), 200)
        inputs = {"indices": ("int32", (1, 1), pack("int32", [0])), "updates": ("int32", (1,), pack("int32", [1]))}
        self.assertStatus(self.scatter(name, safetensors(inputs, {"mode": "add"}), headers=BINARY), 200)
        self.assertData(name, "int32", [2], [4, 1])
        self.assertProblem(self.scatter(name, {"indices": [[0]], "updates": [1], "mode": "add"}, "?mode=set"), 400,
                           "MALFORMED_REQUEST", attribute="mode")

    def test_updates_may_be_a_resident_tensor_or_the_tensor_itself(self):
        name, _ = self.resident([1, 2, 3])
        rows, _ = self.resident([10, 20])
        self.assertStatus(self.scatter(name, {"indices": [[2], [0]], "updates": {"ref": rows}}), 200)
        self.assertData(name, "int32", [3], [20, 2, 10])
        self.assertStatus(self.scatter(name, {"indices": [[1], [2], [0]], "updates": {"ref": name}}), 200)
        self.assertData(name, "int32", [3], [10, 20, 2])

    def test_ops_read_the_new_version(self):
        name, _ = self.resident([[1, 2], [3, 4]])
        self.assertStatus(self.scatter(name, {"indices": [[1]], "updates": [[5, 6]]}), 200)
        self.assertOutput(self.post("/v1/gather", {"params": {"ref": name}, "indices": [1]}), "int32", [1, 2], [[5, 6]])


class Refusals(ScatterTest):
    def test_refused_updates_leave_the_tensor_unchanged(self):
        name, before = self.resident([[1, 2], [3, 4], [5, 6]])
        good = {"indices": [[0]], "updates": [[7, 8]]}
        for description, path, body, status, code, members in (
            ("an index after the end", name, {"indices": [[0], [3]], "updates": [[7, 8], [7, 8]]}, 422, "INDEX_OUT_OF_BOUNDS",
             {"input": "indices", "position": [1, 0], "bound": 3, "axis": 0, "bad_count": 1}),
            ("updates that do not fit", name, {"indices": [[0]], "updates": [[7.5, 8]]}, 400, "MALFORMED_REQUEST",
             {"input": "updates", "pointer": "/updates/0/0"}),
            ("no updates", name, {"indices": [[0]]}, 422, "INVALID_ARGUMENT", {"input": "updates"}),
            ("no indices", name, {"updates": [[7, 8]]}, 422, "INVALID_ARGUMENT", {"input": "indices"}),
            ("an unknown mode", name, {**good, "mode": "sett"}, 400, "MALFORMED_REQUEST", {"attribute": "mode", "did_you_mean": "set", "pointer": "/mode"}),
            ("params, which the path names", name, {**good, "params": [[0, 0]]}, 400, "MALFORMED_REQUEST", {"input": "params", "pointer": "/params"}),
            ("bounds, which scatter has not", name, {**good, "bounds": "clip"}, 400, "MALFORMED_REQUEST", {"pointer": "/bounds"}),
            ("another member", name, {**good, "update": 1}, 400, "MALFORMED_REQUEST", {"did_you_mean": "updates", "pointer": "/update"}),
            ("a name to store the result", name, {**good, "store": "x"}, 400, "MALFORMED_REQUEST", {"attribute": "store"}),
            ("an absent device", name, {**good, "device": "gpu"}, 503, "DEVICE_UNAVAILABLE", {}),
            ("an invalid name", ".x", good, 422, "INVALID_ARGUMENT", {}),
            ("no object", name, [1, 2], 400, "MALFORMED_REQUEST", {"pointer": ""}),
            ("no JSON", name, b"{", 400, "MALFORMED_REQUEST", {}),
            ("no tensor of that name", name + "nobody", good, 404, "TENSOR_NOT_FOUND", {}),
        ):
            with self.subTest(description):
                self.assertProblem(self.scatter(path, body), status, code, **members)
                self.assertUntouched(name, before)
                self.assertData(name, "int32", [3, 2], [[1, 2], [3, 4], [5, 6]])

    def test_unknown_query_parameters_are_refused(self):
        name, before = self.resident([1, 2])
        body = {"indices": [[0]], "updates": [7]}
        self.assertProblem(self.scatter(name, body, "?presist=1"), 400, "MALFORMED_REQUEST")
        self.assertProblem(self.scatter(name, body, "?mode=add&mode=add"), 400, "MALFORMED_REQUEST", attribute="mode")
        self.assertProblem(self.scatter(name, body, "?persist=1"), 422, "INVALID_ARGUMENT")  # there is no data folder
        self.assertUntouched(name, before)

    def test_params_in_a_binary_body(self):
        name, before = self.resident([1, 2])
        good = {"indices": ("int32", (1, 1), bytes(4)), "updates": ("int32", (1,), bytes(4))}
        for body in (safetensors({**good, "params": ("int32", (2,), bytes(8))}), safetensors(good, {"params.ref": name})):
            self.assertProblem(self.scatter(name, body, headers=BINARY), 400, "MALFORMED_REQUEST", input="params")
        self.assertUntouched(name, before)

    def test_an_unsupported_content_type_is_refused(self):
        name, _ = self.resident([1, 2])
        self.assertProblem(self.scatter(name, b"", headers={"Content-Type": "application/x-npy"}), 415, "UNSUPPORTED_MEDIA_TYPE")


class Versions(ScatterTest):
    def test_if_match_is_checked(self):
        name, before = self.resident([1, 2])
        body = {"indices": [[0]], "updates": [7]}
        self.assertProblem(self.scatter(name, body, headers={"If-Match": '"other"'}), 412, "PRECONDITION_FAILED")
        self.assertUntouched(name, before)
        self.assertStatus(self.scatter(name, body, headers={"If-Match": before["etag"]}), 200)
        self.assertProblem(self.scatter(name, body, headers={"If-Match": before["etag"]}), 412, "PRECONDITION_FAILED")
        self.assertData(name, "int32", [2], [7, 2])

    def test_no_concurrent_addition_is_lost(self):
        name, _ = self.resident([0, 0, 0])
        def add(i):
            with Client(self.daemon) as client:
                for k in range(50):
                    body = {"mode": "add", "indices": [[0], [1 + i % 2]], "updates": [1, k]}
                    self.assertStatus(client.post(f"/v1/tensors/{name}/scatter", body), 200)
        in_threads(4, add)
        self.assertData(name, "int32", [3], [200, 2 * sum(range(50)), 2 * sum(range(50))])

    def test_large_concurrent_updates_succeed(self):
        """concurrent large updates of one tensor, whose copies run on several workers"""
        n = 4 << 20
        name, _ = self.resident(tensor("uint8", (n,), bytes(n)))
        def change(worker):
            with Client(self.daemon) as client:
                for _ in range(10):
                    body = {"mode": "add", "indices": [[worker]], "updates": {"dtype": "uint8", "data": [1]}}
                    self.assertStatus(client.post(f"/v1/tensors/{name}/scatter", body), 200)
        in_threads(6, change)
        reply = self.post("/v1/gather", {"params": {"ref": name}, "indices": list(range(7))})
        self.assertOutput(reply, "uint8", [7], [10] * 6 + [0])

    def test_readers_see_complete_updates(self):
        rows, columns = 4000, 64
        name, _ = self.resident(tensor("int32", (rows, columns), bytes(4 * rows * columns)))
        body = safetensors({"indices": ("int32", (rows, 1), pack("int32", list(range(rows)))),
                            "updates": ("int32", (rows, columns), pack("int32", [1]) * (rows * columns))}, {"mode": "add"})
        over, seen = threading.Event(), set()
        def read():
            with Client(self.daemon) as client:
                while not over.is_set():
                    reply = client.request("GET", f"/v1/tensors/{name}", None, {"Accept": SAFETENSORS})
                    self.assertStatus(reply, 200)
                    raw = read_safetensors(reply.body)[0]["tensor"][2]
                    self.assertEqual(raw, raw[:4] * (rows * columns))
                    seen.add(struct.unpack("<i", raw[:4])[0])
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            readers = [pool.submit(read) for _ in range(3)]
            try:
                for i in range(1, 31):
                    self.assertStatus(self.scatter(name, body, headers=BINARY), 200)
                    if i % 10 == 0:  # the others are made while it is read
                        self.wait_until(lambda: i in seen or any(reader.done() for reader in readers), "a reply with the update")
            finally:
                over.set()
            for reader in readers:
                reader.result()
        self.assertTrue({10, 20, 30} <= seen <= set(range(31)), seen)
        self.assertOutput(self.post("/v1/gather", {"params": {"ref": name}, "indices": [rows - 1]}), "int32", [1, columns], [[30] * columns])


class Files(ScatterTest):
    def test_an_updated_mapped_tensor_leaves_its_file_unchanged(self):
        path = os.path.join(TABLES, "mapped.npy")
        with open(path, "rb") as f:
            before = f.read()
        with Daemon("--data-dir", TABLES) as daemon, Client(daemon) as client:
            reply = client.post("/v1/tensors/mapped/scatter", {"indices": [[1]], "updates": [[30, 40]]})
            self.assertStatus(reply, 200)
            reply = client.request("GET", "/v1/tensors/mapped?response=nested")
            self.assertEqual(reply.json()["data"], [[1, 2], [30, 40], [5, 6]])
            with open(path, "rb") as f:
                self.assertEqual(f.read(), before)

    def test_persisted_tensors_survive_a_restart(self):
        folder = temporary_folder()
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            self.assertStatus(client.request("PUT", "/v1/tensors/t?persist=1", [1, 2, 3]), 201)
            reply = client.post("/v1/tensors/t/scatter?persist=1", {"indices": [[1]], "updates": [20]})
            self.assertEqual((reply.status, reply.json()["persisted"]), (200, True), str(reply))
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            reply = client.request("GET", "/v1/tensors/t?response=nested")
            self.assertEqual(reply.json()["data"], [1, 20, 3])
