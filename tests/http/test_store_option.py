"""The option "store": an op's output becomes a resident tensor, and the reply is its metadata."""
import itertools
from daemon import *
from gates import GatedDaemon


class StoreTest(HttpTest):
    names = itertools.count()

    def name(self):
        return f"o{next(self.names)}"

    def data(self, name):
        return self.get(f"/v1/tensors/{name}?response=nested").json()


class TimeToLive(StoreTest):
    gated = True

    def gather(self, store, query="", **members):
        return self.post("/v1/gather" + query, {"params": [1, 2], "indices": [1], **({"store": store} if store else {}), **members})

    def ttl(self, name):
        """of GET; None: it stays"""
        reply = self.get(f"/v1/tensors/{name}")
        self.assertStatus(reply, 200)
        return reply.json().get("ttl_s")

    def gone(self, name):
        return self.get(f"/v1/tensors/{name}").status == 404

    def test_the_tensor_disappears_after_it(self):
        name, other = self.name(), self.name()
        with self.daemon.clock.stopped():
            reply = self.gather({"name": name, "ttl_s": 60})
            self.assertStatus(reply, 200)
            self.assertEqual(reply.json(), {"output": {**self.get(f"/v1/tensors/{name}").json(), "ttl_s": 60}})
            self.assertStatus(self.gather(other), 200)
            self.daemon.clock.advance(59.5)
            self.assertEqual((self.ttl(name), self.ttl(other)), (1, None))
            self.assertIn(("ttl_s", 1), next(t for t in self.get("/v1/tensors").json()["tensors"] if t["name"] == name).items())
            self.daemon.clock.advance(0.5)
            self.daemon.clock.advance(1)  # the daemon looks each second
            eventually(lambda: self.gone(name))
            self.assertProblem(self.post("/v1/gather", {"params": {"ref": name}, "indices": [0]}), 404, "TENSOR_NOT_FOUND")
            self.assertEqual(self.ttl(other), None)

    def test_it_may_be_in_the_query_string_and_in_metadata(self):
        body = lambda name: safetensors({"params": ("int8", (1,), b"1"), "indices": ("int32", (1,), bytes(4))}, {"store": name, "store.ttl_s": "60"})
        with self.daemon.clock.stopped():
            names = [self.name() for _ in range(3)]
            self.assertStatus(self.gather(None, f"?store={names[0]}&store.ttl_s=60"), 200)
            self.assertStatus(self.request("POST", "/v1/gather", body(names[1]), {"Content-Type": SAFETENSORS}), 200)
            self.assertStatus(self.gather({"name": names[2], "ttl_s": 60}, f"?store={names[2]}&store.ttl_s=60"), 200)
            self.assertEqual([self.ttl(name) for name in names], [60] * 3)
            self.daemon.clock.advance(62)
            eventually(lambda: all(self.gone(name) for name in names))

    def test_each_output_has_it(self):
        with self.daemon.clock.stopped():
            name = self.name()
            self.assertStatus(self.post("/v1/top_k", {"x": [1, 2], "k": 1, "store": {"name": name, "ttl_s": 5}}), 200)
            self.assertEqual((self.ttl(name + ".values"), self.ttl(name + ".indices")), (5, 5))
            self.daemon.clock.advance(7)
            eventually(lambda: self.gone(name + ".values") and self.gone(name + ".indices"))

    def test_storing_again_starts_it_again_and_a_put_ends_it(self):
        again, put = self.name(), self.name()
        with self.daemon.clock.stopped():
            for name in (again, put):
                self.assertStatus(self.gather({"name": name, "ttl_s": 60}), 200)
            self.daemon.clock.advance(50)
            self.assertStatus(self.gather({"name": again, "ttl_s": 60}), 200)
            self.assertStatus(self.request("PUT", f"/v1/tensors/{put}", [1]), 200)
            self.assertEqual((self.ttl(again), self.ttl(put)), (60, None))
            self.daemon.clock.advance(20)
            last = self.name()  # once it is gone, the daemon has looked
            self.assertStatus(self.gather({"name": last, "ttl_s": 1}), 200)
            self.daemon.clock.advance(3)
            eventually(lambda: self.gone(last))
            self.assertEqual((self.ttl(again), self.ttl(put)), (37, None))

    def test_a_change_of_rows_or_keys_leaves_it(self):
        with self.daemon.clock.stopped():
            name = self.name()
            self.assertStatus(self.gather({"name": name, "ttl_s": 60}), 200)
            self.daemon.clock.advance(10)
            self.assertStatus(self.post(f"/v1/tensors/{name}/scatter", {"indices": [[0]], "updates": [5]}), 200)
            self.assertStatus(self.request("PUT", f"/v1/tensors/{name}/keys", ["a"]), 201)
            self.assertStatus(self.post(f"/v1/tensors/{name}/upsert", {"keys": ["b"], "rows": [6]}), 200)
            self.assertEqual((self.ttl(name), self.data(name)["data"]), (50, [5, 6]))
            self.daemon.clock.advance(52)
            eventually(lambda: self.gone(name))

    def test_what_it_cannot_be_is_refused(self):
        name = self.name()
        for store, pointer in (({"name": name, "ttl_s": 0}, "/store/ttl_s"), ({"name": name, "ttl_s": -1}, "/store/ttl_s"), ({"name": name, "ttl_s": 31536001}, "/store/ttl_s"),
                               ({"name": name, "ttl_s": 1.5}, "/store/ttl_s"), ({"name": name, "ttl_s": "x"}, "/store/ttl_s"), ({"name": name, "ttl_s": None}, "/store/ttl_s"),
                               ({"name": 5}, "/store/name"), ({}, "/store"), ([name], "/store"), ({"name": name, "ttl": 60}, "/store/ttl")):
            with self.subTest(store):
                self.assertProblem(self.post("/v1/gather", {"params": [1], "indices": [0], "store": store}), 400, "MALFORMED_REQUEST", pointer=pointer)
        self.assertProblem(self.gather({"ttl_s": 60}), 400, "MALFORMED_REQUEST")
        self.assertProblem(self.gather(None, "?store.ttl_s=60"), 400, "MALFORMED_REQUEST", attribute="store.ttl_s")
        self.assertProblem(self.gather(None, f"?store={name}&store.ttl_s=0"), 400, "MALFORMED_REQUEST", attribute="store.ttl_s")
        self.assertProblem(self.gather({"name": name + "@1", "ttl_s": 60}), 422, "INVALID_ARGUMENT")
        self.assertTrue(self.gone(name))

    def test_files_of_the_data_folder_stay(self):
        folder = temporary_folder()
        with GatedDaemon("--data-dir", folder) as daemon, Client(daemon) as client, daemon.clock.stopped():
            def gather(store):
                return client.request("POST", "/v1/gather", json.dumps({"params": [1, 2], "indices": [1], "store": store}).encode(), {"Content-Type": JSON})
            self.assertStatus(client.request("PUT", "/v1/tensors/kept?persist=1", b"[7]"), 201)
            for store in ("kept", {"name": "kept", "ttl_s": 5}):
                self.assertProblem(gather(store), 409, "CONFLICT")
            self.assertStatus(client.request("PUT", "/v1/tensors/kept", b"[8]"), 200)  # in memory, over the file
            for store in ("kept", {"name": "kept", "ttl_s": 5}):
                self.assertProblem(gather(store), 409, "CONFLICT")
            self.assertStatus(gather({"name": "result", "ttl_s": 5}), 200)
            reply = client.request("POST", "/v1/tensors/result/scatter?persist=1", b'{"indices": [[0]], "updates": [3]}', {"Content-Type": JSON})
            self.assertStatus(reply, 200)
            self.assertNotIn("ttl_s", reply.json())  # what is persisted stays
            self.assertStatus(gather({"name": "last", "ttl_s": 5}), 200)
            daemon.clock.advance(7)
            eventually(lambda: client.request("GET", "/v1/tensors/last").status == 404)
            for name in ("kept", "result"):
                self.assertStatus(client.request("GET", f"/v1/tensors/{name}"), 200)


class Store(StoreTest):
    def test_the_output_is_stored_and_its_metadata_returned(self):
        name = self.name()
        reply = self.post("/v1/gather", {"params": [[1, 2], [3, 4], [5, 6]], "indices": [2, 0], "store": name})
        self.assertStatus(reply, 200)
        self.assertEqual(reply.type, JSON)
        self.assertEqual(reply.json(), {"output": self.get(f"/v1/tensors/{name}").json()})
        self.assertEqual(self.data(name), {"dtype": "int32", "shape": [2, 2], "data": [[5, 6], [1, 2]]})

    def test_it_replaces_a_tensor_of_that_name(self):
        name = self.name()
        first = self.post("/v1/gather", {"params": [1, 2], "indices": [0], "store": name}).json()["output"]
        second = self.post("/v1/gather", {"params": {"ref": name}, "indices": [0, 0], "store": name}).json()["output"]
        self.assertGreater(second["version"], first["version"])
        self.assertEqual(self.data(name)["data"], [1, 1])

    def test_store_may_be_in_the_query(self):
        name = self.name()
        self.assertStatus(self.post(f"/v1/gather?store={name}", {"params": [1, 2], "indices": [1]}), 200)
        self.assertEqual(self.data(name)["data"], [2])

    def test_a_safetensors_request_is_answered_in_json(self):
        name = self.name()
        body = safetensors({"params": ("float64", (3,), pack("float64", [1, 2, 3])), "indices": ("int32", (1,), pack("int32", [2]))},
                           {"store": name})
        for accept in (SAFETENSORS, "*/*"):
            reply = self.post("/v1/gather", body, {"Content-Type": SAFETENSORS, "Accept": accept})
            self.assertStatus(reply, 200)
            self.assertEqual((reply.type, reply.json()["output"]["name"]), (JSON, name))
        self.assertEqual(self.data(name), {"dtype": "float64", "shape": [1], "data": [3]})

    def test_a_list_of_outputs_has_numbers(self):
        name = self.name()
        reply = self.post("/v1/dynamic_partition", {"data": ["a", "b", "c"], "partitions": [2, 0, 2], "num_partitions": 3,
                                                     "store": name})
        self.assertStatus(reply, 200)
        self.assertEqual([o["name"] for o in reply.json()["outputs"]], [f"{name}.{i}" for i in range(3)])
        self.assertEqual([self.data(f"{name}.{i}")["data"] for i in range(3)], [["b"], [], ["a", "c"]])
        self.assertStatus(self.get(f"/v1/tensors/{name}"), 404)

    def test_large_outputs_are_stored(self):
        name, n = self.name(), 300000
        reply = self.post("/v1/gather", {"params": [[7]], "indices": [0] * n, "store": name})
        self.assertStatus(reply, 200)
        self.assertEqual(reply.json()["output"]["bytes"], 4 * n)
        reply = self.get(f"/v1/tensors/{name}", {"Accept": SAFETENSORS})
        self.assertTrue(read_safetensors(reply.body)[0]["tensor"][2] == pack("int32", [7]) * n)

    def test_replaced_indices_are_reported(self):
        reply = self.post("/v1/gather", {"params": [1, 2], "indices": [5, 0], "bounds": "clip", "store": self.name()})
        self.assertEqual(reply.json()["bounds"], {"policy": "clip", "replaced": 1})

    def test_conditions_apply_to_the_name(self):
        name = self.name()
        body = {"params": [1, 2], "indices": [0], "store": name}
        self.assertStatus(self.post("/v1/gather", body, {"If-None-Match": "*"}), 200)
        etag = self.get(f"/v1/tensors/{name}").headers["ETag"]
        self.assertProblem(self.post("/v1/gather", body, {"If-None-Match": "*"}), 412, "PRECONDITION_FAILED", etag=etag)
        self.assertProblem(self.post("/v1/gather", body, {"If-Match": '"x"'}), 412, "PRECONDITION_FAILED")
        self.assertStatus(self.post("/v1/gather", body, {"If-Match": etag}), 200)

    def test_a_failed_op_stores_nothing(self):
        name = self.name()
        self.assertProblem(self.post("/v1/gather", {"params": [1], "indices": [3], "store": name}), 422, "INDEX_OUT_OF_BOUNDS")
        self.assertStatus(self.get(f"/v1/tensors/{name}"), 404)

    def test_bad_names_are_refused_before_anything_is_computed(self):
        for name in ("", ".x", "a/b", "../x", "x" * 129, "e\u0301", "€"):
            self.assertProblem(self.post("/v1/gather", {"params": [1], "indices": [0], "store": name}), 422, "INVALID_ARGUMENT")
        body = {"data": [1], "partitions": [0], "num_partitions": 1, "store": "x" * 127}  # too long with the number appended
        self.assertProblem(self.post("/v1/dynamic_partition", body), 422, "INVALID_ARGUMENT")
        self.assertProblem(self.post("/v1/gather", {"params": [1], "indices": [0], "store": 1}), 400, "MALFORMED_REQUEST")


class Limits(StoreTest):
    options = ("--tensor-quota", "100000", "--memory-limit", "64M")

    def test_an_output_above_the_quota_is_refused_before_it_is_computed(self):
        body = {"params": [7], "indices": [0] * 30000, "store": self.name()}
        self.assertProblem(self.post("/v1/gather", body), 422, "RESOURCE_LIMIT", resource="resident_bytes")
        self.assertStatus(self.get(f"/v1/tensors/{body['store']}"), 404)
        del body["store"]
        self.assertStatus(self.post("/v1/gather", body), 200)

    def test_all_outputs_of_a_list_must_fit_in_the_quota(self):
        name = self.name()
        body = {"data": {"dtype": "int8", "shape": [3, 40000], "base64": base64.b64encode(bytes(120000)).decode()},
                "partitions": [0, 1, 2], "num_partitions": 3, "store": name}
        self.assertProblem(self.post("/v1/dynamic_partition", body), 422, "RESOURCE_LIMIT", resource="resident_bytes")
        self.assertStatus(self.get(f"/v1/tensors/{name}.0"), 404)


    def partition(self, name, sizes, headers=None):
        """stores int8 vectors of these sizes as NAME.0, NAME.1, ..."""
        data = tensor("int8", (sum(sizes),), bytes(sum(sizes)))
        numbers = b"".join(pack("int16", [i]) * size for i, size in enumerate(sizes))
        body = {"data": data, "partitions": tensor("int16", (sum(sizes),), numbers), "num_partitions": len(sizes), "store": name}
        return self.post("/v1/dynamic_partition", body, headers)

    def sizes(self, name, count):
        replies = [self.get(f"/v1/tensors/{name}.{i}") for i in range(count)]
        return [reply.json()["bytes"] if reply.status == 200 else None for reply in replies]

    def test_all_outputs_of_a_list_may_replace_others(self):
        name = self.name()
        self.assertStatus(self.partition(name, (40000, 40000)), 200)
        self.assertStatus(self.partition(name, (40000, 40000)), 200)
        self.assertStatus(self.partition(name, (30000, 60000)), 200)
        self.assertEqual(self.sizes(name, 2), [30000, 60000])
        for i in range(2):
            self.assertStatus(self.request("DELETE", f"/v1/tensors/{name}.{i}"), 204)

    def test_a_list_that_cannot_be_stored_in_its_order_is_refused_before_it_is_computed(self):
        """the third output replaces the largest tensor, but the second does not fit beside that"""
        name = self.name()
        self.assertStatus(self.partition(name, (10000, 10000, 70000)), 200)
        self.assertProblem(self.partition(name, (20000, 20000, 10000)), 422, "RESOURCE_LIMIT", resource="resident_bytes")
        self.assertEqual(self.sizes(name, 3), [10000, 10000, 70000])
        for i in range(3):
            self.assertStatus(self.request("DELETE", f"/v1/tensors/{name}.{i}"), 204)

    def test_a_condition_that_fails_for_one_output_stores_none(self):
        name = self.name()
        self.assertStatus(self.request("PUT", f"/v1/tensors/{name}.1", [1, 2]), 201)
        self.assertProblem(self.partition(name, (3, 3, 3), {"If-None-Match": "*"}), 412, "PRECONDITION_FAILED")
        self.assertEqual(self.sizes(name, 3), [None, 8, None])


class Names(unittest.TestCase):
    """a store with room for one more name"""

    def test_a_full_store(self):
        limit, folder = 65536, temporary_folder()
        with open(os.path.join(folder, "m.safetensors"), "wb") as f:
            f.write(safetensors({str(i): ("int8", (0,), b"") for i in range(limit - 1)}))
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            body = {"data": [1, 2], "partitions": [0, 1], "num_partitions": 2, "store": "q"}
            reply = client.post("/v1/dynamic_partition", body)
            self.assertEqual((reply.status, reply.json()["resource"]), (422, "resident_tensors"), str(reply))
            self.assertEqual(client.request("GET", "/v1/tensors/q.0").status, 404)
            self.assertEqual(client.request("PUT", "/v1/tensors/last", [1]).status, 201)
            reply = client.request("PUT", "/v1/tensors/another", [1])
            self.assertEqual((reply.status, reply.json()["resource"]), (422, "resident_tensors"), str(reply))
            self.assertEqual(client.request("DELETE", "/v1/tensors/another").status, 404)
            reply = client.post("/v1/tensors/another/scatter", {"indices": [[0]], "updates": [1]})
            self.assertEqual(reply.status, 404, str(reply))


class Compression(unittest.TestCase):
    def test_the_reply_is_not_compressed(self):
        """compressing may fail after the outputs are stored"""
        with Daemon("--compress") as daemon, Client(daemon) as client:
            body = {"data": [1, 2], "partitions": [0, 1], "num_partitions": 20, "store": "q"}
            reply = client.post("/v1/dynamic_partition", body, {"Accept-Encoding": "gzip"})
            self.assertEqual((reply.status, reply.headers["Content-Encoding"]), (200, None))
            self.assertEqual([o["name"] for o in reply.json()["outputs"]], [f"q.{i}" for i in range(20)])


class Load(StoreTest):
    def test_each_of_many_writers_sees_its_own_version(self):
        name = self.name()
        def write(i):
            with Client(self.daemon) as client:
                seen = []
                for j in range(30):
                    reply = client.post("/v1/gather", {"params": [i], "indices": [0] * (1 + j), "store": name})
                    self.assertStatus(reply, 200)
                    self.assertEqual(reply.json()["output"]["shape"], [1 + j])
                    seen.append(reply.json()["output"]["version"])
                return seen
        seen = in_threads(6, write)
        versions = [v for s in seen for v in s]
        self.assertEqual(len(set(versions)), 180)
        self.assertTrue(all(s == sorted(s) for s in seen))
