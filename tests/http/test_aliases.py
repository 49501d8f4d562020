"""Versions NAME@VERSION and aliases: where they stand in requests, flips, conflicts, tokens, restarts."""
import hashlib, itertools, os, re, shutil, threading
from oip_client import *

ALIASES = "/v1/aliases"


class AliasTest(HttpTest):
    folder = temporary_folder()
    options = ("--data-dir", folder)

    def put(self, name, data, query="", status=201):
        reply = self.request("PUT", f"/v1/tensors/{name}{query}", data)
        self.assertStatus(reply, status)
        return reply

    def delete(self, name):
        return self.request("DELETE", f"/v1/tensors/{name}")

    def flip(self, wanted=None, query="", **names):
        return self.post(ALIASES + query, {"set": names, **({"if": wanted} if wanted is not None else {})})

    def aliases(self, client=None):
        return (client or self).request("GET", ALIASES).json()["aliases"]

    def versions(self, *names, query="?persist=1"):
        """m@1 holds [1, 10], and so on; removed after the test, with all aliases"""
        self.addCleanup(self.clean, names)
        for name in names:
            number = int(name.split("@")[1])
            self.put(name, [number, 10 * number], query)

    def clean(self, names):
        self.assertStatus(self.post(ALIASES, {"set": dict.fromkeys(self.aliases())}), 200)
        for name in names:
            self.assertIn(self.delete(name).status, (204, 404))


class Versions(AliasTest):
    def test_a_version_is_stored_once(self):
        self.versions("m@1")
        for method, path, body in (("PUT", "/v1/tensors/m@1", [2]), ("PUT", "/v1/tensors/m%401?persist=1", [2]),
                                   ("POST", "/v1/tensors/m@1/scatter", {"indices": [[0]], "updates": [5]}),
                                   ("POST", "/v1/tensors/m@1/upsert", {"keys": [1], "rows": [5]}), ("POST", "/v1/tensors/m@1/remove", {"keys": [1]}),
                                   ("POST", "/v1/gather", {"params": [1, 2], "indices": [1], "store": "m@1"})):
            with self.subTest(method=method, path=path):
                problem = self.assertProblem(self.request(method, path, body), 409, "CONFLICT")
                self.assertIn("m@1", problem["detail"])
        self.assertEqual(self.get("/v1/tensors/m@1?response=nested").json()["data"], [1, 10])
        self.assertStatus(self.delete("m@1"), 204)
        self.put("m@1", [3])

    def test_a_large_version_is_refused_before_its_body(self):
        self.versions("m@1")
        with Raw(self.daemon) as raw:
            raw.send(b"PUT /v1/tensors/m@1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n")
            self.assertStatus(raw.reply(), 409)

    def test_an_op_may_store_a_version_and_refer_to_one(self):
        self.addCleanup(self.clean, ["s@1"])
        self.assertStatus(self.post("/v1/gather", {"params": [1, 2, 3], "indices": [2, 0], "store": "s@1"}), 200)
        self.assertOutput(self.post("/v1/gather", {"params": {"ref": "s@1"}, "indices": [0]}), "int32", [1], [3])

    def test_several_outputs_are_of_one_version(self):
        self.addCleanup(self.clean, ["s.output@1", "s.found@1"])
        body = {"params": [[1], [2]], "keys": [10, 20], "queries": [20], "store": "s@1"}
        self.assertEqual([tensor["name"] for tensor in self.post("/v1/lookup", body).json()["outputs"].values()], ["s.output@1", "s.found@1"])
        self.assertProblem(self.post("/v1/lookup", body), 409, "CONFLICT")
        self.addCleanup(self.clean, ["p.0@1", "p.1@1"])
        reply = self.post("/v1/dynamic_partition", {"data": [1, 2], "partitions": [1, 0], "num_partitions": 2, "store": "p@1"})
        self.assertEqual([tensor["name"] for tensor in reply.json()["outputs"]], ["p.0@1", "p.1@1"])

    def test_the_rows_of_versions_are_counted_by_their_name(self):
        self.versions("counted@1")
        self.flip(counted_alias="counted@1")
        for name in ("counted@1", "counted_alias"):
            self.assertStatus(self.post("/v1/gather", {"params": {"ref": name}, "indices": [0, 1]}), 200)
        self.assertRegex(self.get("/metrics").body.decode(), r'tensord_table_rows\w*\{table="counted"\} 4\n')


class Reading(AliasTest):
    def ways(self, name):
        """every way of reading a tensor of two elements"""
        ref, octets = {"ref": name}, {"Content-Type": "application/vnd.safetensors"}
        text = json.dumps({"__metadata__": {"params.ref": name}, "indices": {"dtype": "I32", "shape": [1], "data_offsets": [0, 4]}})
        text += " " * (-len(text) % 8)
        yield "input", "POST", "/v1/gather", {"params": ref, "indices": [0]}, {}
        yield "list of inputs", "POST", "/v1/einsum", {"equation": "i,i->i", "inputs": [[1, 2], ref]}, {}
        yield "metadata", "POST", "/v1/gather", struct.pack("<Q", len(text)) + text.encode() + bytes(4), octets
        for path in ("/v2/models/gather/infer", "/v2/models/gather/versions/1/infer"):
            yield path, "POST", path, *envelope([oip_input("indices", "INT32", [1], [0])], parameters={"params.ref": name})
        yield "get", "GET", f"/v1/tensors/{name}", None, {}
        yield "escaped", "GET", f"/v1/tensors/{name.replace('@', '%40')}", None, {}
        yield "head", "HEAD", f"/v1/tensors/{name}", None, {}
        yield "values", "GET", f"/v1/tensors/{name}?response=nested", None, {}

    def test_an_alias_stands_for_its_version_wherever_it_is_read(self):
        self.versions("m@1", "m@2")
        self.assertStatus(self.flip(movies="m@1"), 200)
        for target in ("m@1", "m@2"):
            self.assertStatus(self.flip(movies=target), 200)
            for of_alias, of_version in zip(self.ways("movies"), self.ways(target)):
                with self.subTest(of_alias[0], target=target):
                    one, other = self.request(*of_alias[1:]), self.request(*of_version[1:])
                    self.assertStatus(one, 200)
                    self.assertEqual(one.body, other.body)
                    self.assertEqual(one.headers.get("ETag"), other.headers.get("ETag"))
        self.assertEqual(self.get("/v1/tensors/movies").json()["name"], "m@2")
        self.assertNotIn("movies", [t["name"] for t in self.get("/v1/tensors").json()["tensors"]])

    def test_a_flip_has_no_etag_and_says_where_its_conditions_are(self):
        for header in "If-Match", "If-None-Match":
            problem = self.assertProblem(self.request("POST", ALIASES, {"set": {"x": None}}, {header: '"nope"'}), 400, "MALFORMED_REQUEST",
                                         attribute=header)
            self.assertIn("use the member \"if\" of the body", problem["detail"])

    def test_conditions_are_those_of_the_version(self):
        self.versions("m@1", "m@2")
        self.flip(movies="m@1")
        etag = self.get("/v1/tensors/movies").headers["ETag"]
        self.assertStatus(self.get("/v1/tensors/movies", {"If-None-Match": etag}), 304)
        self.flip(movies="m@2")
        self.assertStatus(self.get("/v1/tensors/movies", {"If-None-Match": etag}), 200)
        self.assertProblem(self.get("/v1/tensors/movies", {"If-Match": etag}), 412, "PRECONDITION_FAILED")


class Flips(AliasTest):
    def test_a_flip_sets_and_removes_all_or_nothing(self):
        self.versions("a@1", "a@2", "b@1", "b@2")
        reply = self.flip(x="a@1", y="b@1", old="a@1")
        self.assertStatus(reply, 200)
        self.assertEqual(reply.json(), {"aliases": {"x": "a@1", "y": "b@1", "old": "a@1"}, "persisted": True})
        self.assertStatus(self.flip({"x": "a@1", "new": None}, x="a@2", y="b@2", old=None), 200)
        self.assertEqual(self.aliases(), {"x": "a@2", "y": "b@2"})
        self.assertProblem(self.get("/v1/tensors/old"), 404, "TENSOR_NOT_FOUND")
        before = self.aliases()
        self.put("plain", [1])
        self.addCleanup(self.delete, "plain")
        for body, status, code in (({"set": {"y": "b@1"}, "if": {"x": "a@1"}}, 412, "PRECONDITION_FAILED"),
                                   ({"set": {"y": "b@1"}, "if": {"x": None}}, 412, "PRECONDITION_FAILED"),
                                   ({"set": {"y": "b@1"}, "if": {"old": "a@1"}}, 412, "PRECONDITION_FAILED"),
                                   ({"set": {"y": "b@1", "x": "a@9"}}, 404, "TENSOR_NOT_FOUND"),
                                   ({"set": {"y": "b@1", "x": "nothing"}}, 404, "TENSOR_NOT_FOUND"),
                                   ({"set": {"y": "b@1", "plain": "a@1"}}, 409, "CONFLICT"),
                                   ({"set": {"y": "b@1", "plain": None}}, 409, "CONFLICT"),
                                   ({"set": {"y": "x"}}, 409, "CONFLICT"),
                                   ({"set": {"y": "y"}}, 409, "CONFLICT"),
                                   ({"set": {"p": "q", "q": "p"}}, 409, "CONFLICT"),
                                   ({"set": {"y": "plain"}}, 422, "INVALID_ARGUMENT"),
                                   ({"set": {"y@1": "a@1"}}, 422, "INVALID_ARGUMENT"),
                                   ({"set": {"a b": "a@1"}}, 422, "INVALID_ARGUMENT"),
                                   ({"set": {"y": "a@"}}, 422, "INVALID_ARGUMENT")):
            with self.subTest(body):
                self.assertProblem(self.post(ALIASES, body), status, code)
                self.assertEqual(self.aliases(), before)
        etag = self.get("/v1/tensors/a@2").headers["ETag"]
        failed = self.flip({"x": "a@1"}, x="a@1")
        self.assertProblem(failed, 412, "PRECONDITION_FAILED", etag=etag)
        self.assertEqual(failed.headers["ETag"], etag)

    def test_rows_without_scales_do_not_take_those_of_another_version(self):
        for name in "b@1", "b.scale@1", "b@2":
            self.assertStatus(self.request("PUT", f"/v1/tensors/{name}?persist=1", [1, 2]), 201)
        self.assertStatus(self.flip(**{"bytes": "b@1", "bytes.scale": "b.scale@1"}), 200)
        problem = self.assertProblem(self.flip(bytes="b@2"), 409, "CONFLICT", attribute="set")
        self.assertEqual(problem["detail"],
                         "the alias 'bytes' cannot name 'b@2', which has no scale, while the alias 'bytes.scale' exists. Set that alias to null in the same request")
        self.assertStatus(self.flip(**{"bytes": "b@2", "bytes.scale": None}), 200)
        problem = self.assertProblem(self.flip(**{"bytes.scale": "b.scale@1"}), 409, "CONFLICT", attribute="set")
        self.assertEqual(problem["detail"], "the alias 'bytes.scale' cannot be set: the version that 'bytes' names has no scale")

    def test_rows_of_bytes_flip_with_their_scales(self):
        parts = ("", ".scale", ".offset", ".zero_point")
        self.versions(*(f"q{part}@{version}" for version in (1, 2) for part in parts))
        self.assertStatus(self.flip({}, **{f"small{part}": f"q{part}@1" for part in parts}), 200)
        problem = self.assertProblem(self.flip(small="q@2"), 409, "CONFLICT", attribute="set")
        self.assertIn("'small' cannot name 'q@2' while 'small.scale' names another version", problem["detail"])
        self.assertProblem(self.flip(**{"small": "q@2", "small.scale": "q.scale@2"}), 409, "CONFLICT")
        problem = self.assertProblem(self.flip(**{"small.scale": "q.scale@2"}), 409, "CONFLICT", attribute="set")
        self.assertIn("'small.scale' cannot name 'q.scale@2' while 'small' names another version", problem["detail"])
        mixed = {"small": "q@2", "small.scale": "q.scale@2", "small.offset": "q.offset@1"}
        self.assertProblem(self.flip(**mixed), 409, "CONFLICT")
        mixed = {"small": "q@2", "small.scale": "q.scale@2", "small.offset": "q.offset@2"}
        self.assertIn("while 'small.zero_point' names another version", self.assertProblem(self.flip(**mixed), 409, "CONFLICT")["detail"])
        self.assertStatus(self.flip(**{"small.scale": None}), 200)
        self.assertStatus(self.flip(**{"small.scale": "q.scale@1"}), 200)
        self.assertStatus(self.flip(small="q@1"), 200)
        self.assertStatus(self.flip(**{f"small{part}": f"q{part}@2" for part in parts}), 200)

    def test_bad_bodies(self):
        for body, pointer in ((b"", None), (b"[]", None), (b"{}", None), (b'{"set": []}', "/set"), (b'{"set": {"x": 1}}', "/set/x"),
                              (b'{"set": {"x": "a@1", "x": "a@2"}}', None), (b'{"set": {}, "set": {}}', None),
                              (b'{"set": {}, "iff": {}}', "/iff"), (b'{"set": {"x": "a@1\\u0000"}}', "/set/x"),
                              (b'{"set": {"x\\u0000": "a@1"}}', None), (b'{"set": {}} {}', None), (b'{"set": {}', None),
                              (b'{"set": {"x": {"y": "a@1"}}}', "/set/x"), (b'{"if": {"x": null}}', None)):
            with self.subTest(body):
                problem = self.assertProblem(self.post(ALIASES, body), 400, "MALFORMED_REQUEST")
                if pointer:
                    self.assertEqual(problem.get("pointer"), pointer)
        self.assertEqual(self.assertProblem(self.post(ALIASES + "?persit=1", {"set": {}}), 400, "MALFORMED_REQUEST")["did_you_mean"], "persist")
        self.assertProblem(self.post(ALIASES + "?persist=1&persist=1", {"set": {}}), 400, "MALFORMED_REQUEST")
        self.assertProblem(self.post(ALIASES + "?persist=2", {"set": {}}), 400, "MALFORMED_REQUEST")
        self.assertProblem(self.post(ALIASES, b"\x08\0\0\0\0\0\0\0{}      ", {"Content-Type": "application/vnd.safetensors"}), 415, "UNSUPPORTED_MEDIA_TYPE")
        self.assertEqual(self.assertProblem(self.request("DELETE", ALIASES), 405, "METHOD_NOT_ALLOWED") and
                         self.request("DELETE", ALIASES).headers["Allow"], "GET, HEAD, POST")
        self.assertStatus(self.post(ALIASES, {"set": {}}), 200)

    def test_an_alias_cannot_be_written_to(self):
        self.versions("m@1")
        self.flip(movies="m@1")
        for method, path, body in (("PUT", "/v1/tensors/movies", [2]), ("PUT", "/v1/tensors/movies?persist=1", [2]),
                                   ("POST", "/v1/tensors/movies/scatter", {"indices": [[0]], "updates": [5]}),
                                   ("PUT", "/v1/tensors/movies/keys", [1, 2]), ("DELETE", "/v1/tensors/movies/keys", None),
                                   ("POST", "/v1/tensors/movies/upsert", {"keys": [1], "rows": [5]}), ("POST", "/v1/tensors/movies/remove", {"keys": [1]}),
                                   ("POST", "/v1/gather", {"params": [1, 2], "indices": [1], "store": "movies"})):
            with self.subTest(method=method, path=path):
                self.assertIn("alias", self.assertProblem(self.request(method, path, body), 409, "CONFLICT")["detail"])

    def test_delete_removes_the_alias_or_refuses_the_version(self):
        self.versions("m@1")
        self.flip(movies="m@1")
        self.assertProblem(self.delete("m@1"), 409, "CONFLICT")
        etag = self.get("/v1/tensors/m@1").headers["ETag"]
        self.assertProblem(self.request("DELETE", "/v1/tensors/movies", None, {"If-Match": '"x"'}), 412, "PRECONDITION_FAILED")
        self.assertStatus(self.request("DELETE", "/v1/tensors/movies", None, {"If-Match": etag}), 204)
        self.assertProblem(self.delete("movies"), 404, "TENSOR_NOT_FOUND")
        self.assertStatus(self.get("/v1/tensors/m@1"), 200)
        self.assertStatus(self.delete("m@1"), 204)

    def test_many_at_once(self):
        self.versions("m@1", "m@2")
        names = [f"many{i}" for i in range(5000)]
        for target in ("m@1", "m@2"):
            self.assertStatus(self.post(ALIASES, {"set": dict.fromkeys(names, target)}), 200)
            self.assertEqual(self.aliases(), dict.fromkeys(names, target))
        self.assertStatus(self.post(ALIASES, {"set": dict.fromkeys(names)}), 200)
        self.assertEqual(self.aliases(), {})

    def flip_while_read(self, flip, read, counts, wrong, stop):
        """flips to 2 and to 1 in turn, until there were 600 flips and each of two readers has begun and ended a read meanwhile"""
        readers = [threading.Thread(target=read, args=(k,)) for k in range(2)]
        for reader in readers:
            reader.start()
        try:
            self.wait_until(lambda: all(counts) or wrong, "a reply to each reader")
            before = list(counts)
            for flips, i in enumerate(itertools.cycle((2, 1))):
                if wrong or flips >= 600 and all(count > was + 1 for count, was in zip(counts, before)):
                    break
                flip(i)
        finally:
            stop.set()
            for reader in readers:
                reader.join()

    def test_no_reader_sees_a_mix(self):
        """a request that refers to both aliases finds both of one flip, and what a version held stays"""
        self.versions(*(f"{base}@{i}" for base in "ab" for i in (1, 2)))
        self.flip(x="a@1", y="b@1")
        stop, wrong, counts = threading.Event(), [], [0, 0]

        def read(k):
            with Client(self.daemon) as client:
                # The numbers between the names take longer to read than a flip.
                body = json.dumps({"equation": "i,j,i->i", "inputs": [{"ref": "xy"[k]}, [1] + [0] * 50000, {"ref": "yx"[k]}]})
                while not stop.is_set():
                    reply = client.request("POST", "/v1/einsum", body)
                    if reply.status != 200 or reply.json()["output"]["data"] not in ([1, 100], [4, 400]):
                        wrong.append(str(reply))
                        return
                    counts[k] += 1
        with Client(self.daemon) as client:
            def flip(i):
                reply = client.request("POST", ALIASES, {"set": {"x": f"a@{i}", "y": f"b@{i}"}, "if": {"x": f"a@{3 - i}"}})
                self.assertStatus(reply, 200)
            self.flip_while_read(flip, read, counts, wrong, stop)
        self.assertEqual(wrong, [])

    def test_rows_keys_and_index_are_of_one_version(self):
        """key j has the row [2 k + j] in version k, whose keys are in another order than those of the version before"""
        stop, wrong, counts = threading.Event(), [], [0, 0]
        for k in (1, 2):
            rows = [[2 * k], [2 * k + 1]]
            self.put(f"keyed@{k}", {"tensor": rows if k == 1 else rows[::-1], "keys": [0, 1] if k == 1 else [1, 0]}, "?persist=1")
        self.addCleanup(self.clean, ("keyed@1", "keyed@2"))
        self.flip(x="keyed@1")

        def read(kind):
            path, body = (("/v1/gather", {"params": {"ref": "x"}, "indices": {"keys": [0, 1]}}),
                          ("/v1/tensors/x/lookup", {"queries": [0, 1]}))[kind]
            with Client(self.daemon) as client:
                while not stop.is_set():
                    reply = client.request("POST", path, body)
                    document = reply.json()
                    output = document["outputs"]["output"] if kind else document.get("output")
                    if reply.status != 200 or output["data"] not in ([[2], [3]], [[4], [5]]):
                        wrong.append(str(reply))
                        return
                    counts[kind] += 1
        with Client(self.daemon) as client:
            def flip(k):
                self.assertStatus(client.request("POST", ALIASES, {"set": {"x": f"keyed@{k}"}}), 200)
            self.flip_while_read(flip, read, counts, wrong, stop)
        self.assertEqual(wrong, [])


class Persisted(AliasTest):
    def test_a_restart_has_the_aliases(self):
        folder = temporary_folder()
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            for name in ("m@1", "m@2"):
                self.assertStatus(client.request("PUT", f"/v1/tensors/{name}?persist=1", [int(name[2:])]), 201)
            self.assertStatus(client.request("PUT", "/v1/tensors/m@3", [3]), 201)
            reply = client.request("POST", ALIASES, {"set": {"x": "m@1", "y": "m@1", "z": "m@2"}})
            self.assertEqual(reply.json(), {"aliases": {"x": "m@1", "y": "m@1", "z": "m@2"}, "persisted": True})
            self.assertProblem(client.request("POST", ALIASES, {"set": {"x": "m@3"}}), 409, "CONFLICT")
            self.assertStatus(client.request("POST", ALIASES + "?persist=1", {"set": {"z": None}}), 200)
            self.assertEqual(client.request("GET", ALIASES).json(), {"aliases": {"x": "m@1", "y": "m@1"}, "problems": []})
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            self.assertEqual(self.aliases(client), {"x": "m@1", "y": "m@1"})
            self.assertStatus(client.request("DELETE", "/v1/tensors/y"), 204)
        with Daemon("--data-dir", folder, "--read-only") as daemon, Client(daemon) as client:
            self.assertEqual(self.aliases(client), {"x": "m@1"})
            self.assertProblem(client.request("POST", ALIASES, {"set": {"x": "m@2"}}), 403, "FORBIDDEN")
            with Daemon("--data-dir", folder) as writer, Client(writer) as other:
                self.assertStatus(other.request("POST", ALIASES + "?persist=1", {"set": {"x": "m@2"}}), 200)
            self.assertEqual(self.aliases(client), {"x": "m@1"})
            daemon.send_signal(signal.SIGHUP)
            self.wait_until(lambda: self.aliases(client) == {"x": "m@2"})

    def test_without_a_data_folder_aliases_are_in_memory(self):
        with Daemon() as daemon, Client(daemon) as client:
            self.assertStatus(client.request("PUT", "/v1/tensors/m@1", [1]), 201)
            self.assertProblem(client.request("POST", ALIASES + "?persist=1", {"set": {"x": "m@1"}}), 422, "INVALID_ARGUMENT", attribute="persist")
            self.assertEqual(client.request("POST", ALIASES, {"set": {"x": "m@1"}}).json(), {"aliases": {"x": "m@1"}, "persisted": False})
            self.assertEqual(client.request("GET", ALIASES).json(), {"aliases": {"x": "m@1"}, "problems": []})

    def test_the_advice_for_a_version_that_an_alias_names_works(self):
        for then in ("null", '"m@2"'):
            with self.subTest(then=then), Daemon("--data-dir", temporary_folder()) as daemon, Client(daemon) as client:
                for name in ("m@1", "m@2"):
                    self.assertStatus(client.request("PUT", f"/v1/tensors/{name}?persist=1", [1]), 201)
                self.assertStatus(client.request("POST", ALIASES, {"set": {"z": "m@1"}}), 200)
                detail = self.assertProblem(client.request("DELETE", "/v1/tensors/m@1"), 409, "CONFLICT")["detail"]
                method, path, body = re.search(r"(POST) (\S+) with (\{.*?\}\});", detail).groups()
                self.assertStatus(client.request(method, path, body.replace("ALIAS", "z").replace('"NAME@VERSION" or null', then).encode()), 200)
                self.assertStatus(client.request("DELETE", "/v1/tensors/m@1"), 204)

    def test_the_advice_for_a_tensor_that_hides_an_alias_works(self):
        folder = temporary_folder()
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            self.assertStatus(client.request("PUT", "/v1/tensors/m@1?persist=1", [1]), 201)
            self.assertStatus(client.request("PUT", "/v1/tensors/z", [1]), 201)
            with open(os.path.join(folder, "aliases.json"), "w", encoding="ascii") as file:
                file.write('{"aliases": {"z": "m@1"}}')
            daemon.send_signal(signal.SIGHUP)
            self.wait_until(lambda: [problem["source"] for problem in client.request("GET", ALIASES).json()["problems"]] == ["z"])
            self.assertEqual(self.aliases(client), {})
            detail = self.assertProblem(client.request("PUT", "/v1/tensors/z?persist=1", [1]), 409, "CONFLICT")["detail"]
            method, path, body = re.search(r"(POST) (\S+) with (\{.*?\}\}) ", detail).groups()
            self.assertStatus(client.request(method, path, body.encode()), 200)
            self.assertStatus(client.request("PUT", "/v1/tensors/z?persist=1", [1]), 200)

    def test_the_advice_for_a_version_in_memory_works(self):
        for rows, keys in itertools.product(("", "?persist=1"), (None, [7, 8])):
            if rows and not keys:
                continue  # nothing is in memory only
            with self.subTest(rows=rows, keys=keys):
                folder = temporary_folder()
                with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
                    self.assertStatus(client.request("PUT", "/v1/tensors/m:w@1" + rows, [3, 4]), 201)
                    if keys:
                        self.assertStatus(client.request("PUT", "/v1/tensors/m:w@1/keys", keys), 201)
                    refused = client.request("POST", ALIASES, {"set": {"x": "m:w@1"}})
                    advice = re.search(r"PUT (/v1/\S+) with (\{.*\}) ", self.assertProblem(refused, 409, "CONFLICT", attribute="set")["detail"])
                    path, target = advice[1], "m:w@1"
                    if "NAME@VERSION" in path:
                        target = "m:w@2"
                        path = path.replace("NAME@VERSION", target)
                    self.assertIn(client.request("PUT", path, json.loads(advice[2])).status, (200, 201))
                    self.assertStatus(client.request("POST", ALIASES, {"set": {"x": target}}), 200)
                with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
                    self.assertEqual(client.request("GET", "/v1/tensors/x?response=flat").json()["data"], [3, 4])
                    reply = client.request("GET", "/v1/tensors/x/keys?response=flat")
                    self.assertEqual(reply.json()["data"] if keys else reply.status, keys or 404)

    def test_a_version_whose_file_can_no_longer_be_read_is_named_after_its_repair(self):
        folder = temporary_folder()
        path = os.path.join(folder, "m@1.npy")
        def write(body):
            with open(path + ".new", "wb") as file:
                file.write(body)
            os.rename(path + ".new", path)
        write(npy("int32", (1,), pack("int32", [1])))
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            write(b"damaged")
            daemon.send_signal(signal.SIGHUP)
            daemon.wait_log(lambda event: event.get("event") == "table_skipped")
            flip = lambda: client.request("POST", ALIASES + "?persist=1", {"set": {"x": "m@1"}})
            self.assertIn("m@1.npy cannot be read; repair the file and send SIGHUP", self.assertProblem(flip(), 409, "CONFLICT")["detail"])
            write(npy("int32", (1,), pack("int32", [2])))
            daemon.send_signal(signal.SIGHUP)
            self.wait_until(lambda: flip().status == 200)

    def test_a_damaged_file_is_told(self):
        folder = temporary_folder()
        with open(os.path.join(folder, "aliases.json"), "w", encoding="ascii") as file:
            file.write('{"aliases": {"x": "m@1"}, "checksum": "xxh3-64:0000000000000000"}')
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            document = client.request("GET", ALIASES).json()
            self.assertEqual(document["aliases"], {})
            self.assertEqual([problem["source"] for problem in document["problems"]], ["aliases.json"])
            self.assertIn("damaged", document["problems"][0]["reason"])
            daemon.wait_log(lambda event: event.get("event") == "aliases_refused")
            self.assertStatus(client.request("PUT", "/v1/tensors/m@1?persist=1", [1]), 201)
            flip = {"set": {"y": "m@1"}}
            self.assertProblem(client.request("POST", ALIASES + "?persist=1", flip), 409, "CONFLICT")
            os.remove(os.path.join(folder, "aliases.json"))
            self.assertStatus(client.request("POST", ALIASES + "?persist=1", flip), 200)
            self.assertEqual(client.request("GET", ALIASES).json()["problems"], [])

    def test_a_file_that_was_edited_is_taken_once_its_checksum_is_removed(self):
        folder = temporary_folder()
        path = os.path.join(folder, "aliases.json")

        def edit(before, after):
            with open(path, encoding="ascii") as file:
                text = file.read()
            self.assertIn(before, text)
            with open(path + ".new", "w", encoding="ascii") as file:
                file.write(text.replace(before, after))
            os.rename(path + ".new", path)
            daemon.send_signal(signal.SIGHUP)

        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            for version in (1, 2):
                self.assertStatus(client.request("PUT", f"/v1/tensors/m@{version}?persist=1", [version]), 201)
            self.assertStatus(client.request("POST", ALIASES + "?persist=1", {"set": {"x": "m@2"}}), 200)
            edit("m@2", "m@1")
            reason = daemon.wait_log(lambda event: event.get("event") == "aliases_refused")["reason"]
            self.assertIn("it is damaged or was edited", reason)
            self.assertIn("After an edit, remove the member checksum and the comma before it", reason)
            with open(path, encoding="ascii") as file:
                checksum = file.read().partition(",\n\"checksum\"")
            edit("".join(checksum[1:]), "}\n")
            self.wait_until(lambda: client.request("GET", "/v1/tensors/x?response=flat").json()["data"] == [1])
            self.assertEqual(client.request("GET", ALIASES).json()["problems"], [])

    def test_a_start_without_its_aliases_is_not_ready_until_the_file_is_repaired(self):
        for repair in ("replace", "remove"):
            with self.subTest(repair):
                folder = temporary_folder()
                path = os.path.join(folder, "aliases.json")
                with open(path, "w", encoding="ascii") as file:
                    file.write("{")
                with open(os.path.join(folder, "m@1.npy"), "wb") as file:
                    file.write(npy("<i8", (1,), bytes(8)))
                with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
                    self.assertIn("aliases.json", daemon.wait_log(lambda event: event["event"] == "not_ready")["reason"])
                    self.assertNotIn("ready", [event["event"] for event in daemon.events()])
                    self.assertIn("aliases.json", self.assertProblem(client.request("GET", "/readyz"), 503, "DEVICE_UNAVAILABLE")["detail"])
                    self.assertStatus(client.request("GET", "/v2/health/ready"), 503)
                    self.assertStatus(client.request("GET", "/healthz"), 200)
                    self.assertStatus(client.request("GET", "/v1/tensors/m@1"), 200)
                    self.assertProblem(client.request("GET", "/v1/tensors/m@2"), 404, "TENSOR_NOT_FOUND")
                    problem = self.assertProblem(client.request("GET", "/v1/tensors/x"), 503, "DEVICE_UNAVAILABLE")
                    self.assertIn("it might be an alias: aliases.json", problem["detail"])
                    if repair == "remove":
                        os.remove(path)
                    else:
                        with open(path + ".new", "w", encoding="ascii") as file:
                            json.dump({"aliases": {"x": "m@1"}}, file)
                        os.rename(path + ".new", path)
                    daemon.send_signal(signal.SIGHUP)
                    self.wait_until(lambda: client.request("GET", "/readyz").status == 200)
                    self.assertStatus(client.request("GET", "/v2/health/ready"), 200)
                    self.assertStatus(client.request("GET", "/v1/tensors/x"), 404 if repair == "remove" else 200)
                    lost = lambda event: event.get("event") == "aliases_lost"
                    if repair == "remove":
                        self.assertEqual(daemon.wait_log(lost)["level"], "warn")
                    else:
                        self.assertFalse(any(map(lost, daemon.events())))

    def test_a_reload_that_cannot_read_the_file_keeps_its_aliases_and_is_ready(self):
        folder = temporary_folder()
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            self.assertStatus(client.request("PUT", "/v1/tensors/m@1?persist=1", [1]), 201)
            self.assertStatus(client.request("POST", ALIASES + "?persist=1", {"set": {"x": "m@1"}}), 200)
            with open(os.path.join(folder, "aliases.json"), "w", encoding="ascii") as file:
                file.write("{")
            daemon.send_signal(signal.SIGHUP)
            daemon.wait_log(lambda event: event.get("event") == "aliases_refused")
            self.assertStatus(client.request("GET", "/readyz"), 200)
            self.assertStatus(client.request("GET", "/v1/tensors/x"), 200)
            self.assertProblem(client.request("GET", "/v1/tensors/y"), 404, "TENSOR_NOT_FOUND")

    def test_a_reload_that_names_an_absent_version_keeps_the_aliases(self):
        folder = temporary_folder()
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            self.assertStatus(client.request("PUT", "/v1/tensors/m@1?persist=1", [1]), 201)
            self.assertStatus(client.request("POST", ALIASES + "?persist=1", {"set": {"m": "m@1"}}), 200)
            with open(os.path.join(folder, "aliases.json"), "w", encoding="ascii") as file:
                json.dump({"aliases": {"m": "m@22"}}, file)
            daemon.send_signal(signal.SIGHUP)
            event = daemon.wait_log(lambda event: event.get("event") == "aliases_refused")
            self.assertEqual(event["source"], "aliases.json")
            self.assertIn("'m' names m@22, which does not exist", event["reason"])
            self.assertEqual(client.request("GET", "/v1/tensors/m?response=flat").json()["data"], [1])
            self.assertEqual(client.request("GET", ALIASES).json()["problems"], [{"source": "aliases.json", "reason": event["reason"]}])
            self.assertIn(b'\ntensord_last_reload_successful{what="aliases"} 0\n', client.request("GET", "/metrics").body)
            self.assertFalse([event for event in daemon.events() if event.get("event") == "alias_changed"])

    def test_persist_requires_a_data_folder(self):
        with Daemon() as daemon, Client(daemon) as client:
            self.assertProblem(client.request("POST", ALIASES + "?persist=1", {"set": {}}), 422, "INVALID_ARGUMENT", attribute="persist")


class Folders(AliasTest):
    """a sub-folder with manifest.json"""
    def write(self, folder, version, tables, aliases, spoil=None):
        """as an importer does: in a hidden folder, which is renamed"""
        hidden = os.path.join(folder, ".new")
        os.makedirs(hidden)
        files = {}
        for name, data in tables.items():
            body = npy("int32", (len(data),), pack("int32", data))
            with open(os.path.join(hidden, name + ".npy"), "wb") as file:
                file.write(body)
            files[name + ".npy"] = {"size": len(body), "sha256": hashlib.sha256(body).hexdigest()}
        if spoil:
            spoil(files)
        with open(os.path.join(hidden, "manifest.json"), "w", encoding="ascii") as file:
            json.dump({"files": files, "aliases": aliases}, file, indent=1)
        os.rename(hidden, os.path.join(folder, version))

    def both(self, client):
        """what a request for both aliases computes"""
        return client.request("POST", "/v1/einsum", {"equation": "i,i->i", "inputs": [{"ref": "x"}, {"ref": "y"}]}).json()["output"]["data"]

    def test_a_folder_is_taken_with_its_aliases(self):
        folder = temporary_folder()
        self.write(folder, "1", {"a": [1, 1], "b": [1, 2]}, {"x": "a@1", "y": "b@1"})
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            self.assertEqual(self.both(client), [1, 2])
            self.assertEqual(client.request("GET", "/v1/tensors/x").json()["source"], "1/a.npy")
            self.write(folder, "2", {"a": [10, 10], "b": [2, 3]}, {"x": "a@2", "y": "b@2"})
            daemon.send_signal(signal.SIGHUP)
            self.wait_until(lambda: self.aliases(client) == {"x": "a@2", "y": "b@2"})
            self.assertEqual(self.both(client), [20, 30])
            self.assertProblem(client.request("DELETE", "/v1/tensors/a@1"), 403, "FORBIDDEN")
            self.assertProblem(client.request("PUT", "/v1/tensors/a@1", [1]), 409, "CONFLICT")
            self.assertStatus(client.request("POST", ALIASES + "?persist=1", {"set": {"x": "a@1", "y": "b@1"}}), 200)
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:  # no folder sets them again
            self.assertEqual(self.both(client), [1, 2])
            shutil.rmtree(os.path.join(folder, "2"))
            daemon.send_signal(signal.SIGHUP)
            self.wait_until(lambda: client.request("GET", "/v1/tensors/a@2").status == 404)

    def test_each_alias_that_the_folder_changes_is_told(self):
        folder = temporary_folder()
        self.write(folder, "1", {"a": [1, 1]}, {"x": "a@1", "y": "a@1"})
        def told(daemon):
            return sorted((e["source"], e["alias"], e.get("from"), e.get("to")) for e in daemon.events() if e["event"] == "alias_changed")
        with Daemon("--data-dir", folder) as daemon:
            expected = [("1", "x", None, "a@1"), ("1", "y", None, "a@1")]
            eventually(lambda: told(daemon) == expected, "the aliases of the folder")
            self.write(folder, "2", {"a": [2, 2]}, {"x": "a@2"})
            daemon.send_signal(signal.SIGHUP)
            expected += [("2", "x", "a@1", "a@2")]
            eventually(lambda: told(daemon) == expected, "what the second folder changes")
            path = os.path.join(folder, "aliases.json")
            with open(path, encoding="ascii") as file:
                document = json.load(file)
            del document["aliases"]["y"], document["checksum"]
            document["aliases"]["x"] = "a@1"
            with open(path + ".new", "w", encoding="ascii") as file:
                json.dump(document, file)
            os.rename(path + ".new", path)
            daemon.send_signal(signal.SIGHUP)
            expected += [("aliases.json", "x", "a@2", "a@1"), ("aliases.json", "y", "a@1", None)]
            eventually(lambda: told(daemon) == expected, "what aliases.json changes")
            self.assertEqual([(e["source"], e["changed"]) for e in daemon.events() if e["event"] == "aliases_loaded"],
                             [("1", 2), ("2", 1), ("aliases.json", 2)])

    def test_an_alias_whose_folder_is_removed_is_told(self):
        folder = temporary_folder()
        self.write(folder, "1", {"a": [1, 1]}, {"x": "a@1"})
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            shutil.rmtree(os.path.join(folder, "1"))
            daemon.send_signal(signal.SIGHUP)
            event = daemon.wait_log(lambda event: event.get("event") == "aliases_refused")
            self.assertEqual((event["source"], event["reason"]), ("x", "it names a@1, which does not exist"))
            self.assertEqual(client.request("GET", ALIASES).json()["problems"],
                             [{"source": "x", "reason": "it names a@1, which does not exist"}])
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            self.assertEqual(len(client.request("GET", ALIASES).json()["problems"]), 1)
            self.assertStatus(client.request("PUT", "/v1/tensors/a@4?persist=1", [3]), 201)
            self.assertStatus(client.request("POST", ALIASES, {"set": {"x": "a@4"}}), 200)
            self.assertEqual(client.request("GET", ALIASES).json()["problems"], [])

    def test_the_tensors_of_a_file_differ_in_their_etags(self):
        """A flip from one to the other changes what a client has, though the file is the same."""
        folder = temporary_folder()
        with open(os.path.join(folder, "m@1.safetensors"), "wb") as file:
            file.write(safetensors({"a": ("float32", (2,), pack("float32", [1, 2])), "b": ("float32", (2,), pack("float32", [3, 4]))}))
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            tags = [client.request("GET", f"/v1/tensors/m:{name}@1").headers["ETag"] for name in "ab"]
            self.assertNotEqual(*tags)
            client.request("POST", ALIASES, {"set": {"x": "m:a@1"}})
            client.request("POST", ALIASES, {"set": {"x": "m:b@1"}})
            self.assertStatus(client.request("GET", "/v1/tensors/x", headers={"If-None-Match": tags[0]}), 200)
            for name in "cd":  # persisted with equal bytes
                client.request("PUT", f"/v1/tensors/{name}@1?persist=1", [1])
                client.request("GET", f"/v1/tensors/{name}@1")
            self.assertNotEqual(*[client.request("GET", f"/v1/tensors/{name}@1").headers["ETag"] for name in "cd"])

    def test_a_refusal_is_told(self):
        folder = temporary_folder()
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            self.write(folder, "1", {"a": [1, 1], "b": [1, 2]}, {"x": "a@1", "y": "b@1"})
            daemon.send_signal(signal.SIGHUP)
            self.wait_until(lambda: self.aliases(client) == {"x": "a@1", "y": "b@1"})
            self.write(folder, "2", {"a": [5, 5], "b": [5, 5]}, {"x": "a@2", "y": "b@2"},
                       lambda files: files["b.npy"].update(sha256="0" * 64))
            daemon.send_signal(signal.SIGHUP)
            event = daemon.wait_log(lambda event: event.get("event") == "folder_refused")
            self.assertEqual(event["folder"], "2")
            self.assertIn("b.npy: its SHA-256", event["reason"])
            problems = client.request("GET", ALIASES).json()["problems"]
            self.assertEqual([problem["source"] for problem in problems], ["2"])
            self.assertIn("b.npy: its SHA-256", problems[0]["reason"])
            self.assertEqual(self.both(client), [1, 2])
            problem = self.assertProblem(client.request("GET", "/v1/tensors/a@2"), 503, "DEVICE_UNAVAILABLE")
            self.assertIn("'a@2', but it might be in the folder 2, which is refused", problem["detail"])
            self.assertProblem(client.request("DELETE", "/v1/tensors/a@2"), 503, "DEVICE_UNAVAILABLE")
            flip = self.assertProblem(client.post(ALIASES, {"set": {"x": "a@2"}}), 503, "DEVICE_UNAVAILABLE")
            self.assertEqual((flip["detail"], flip["attribute"]), (problem["detail"], "set"))
            shutil.rmtree(os.path.join(folder, "2"))
            daemon.send_signal(signal.SIGHUP)
            self.wait_until(lambda: client.request("GET", "/v1/tensors/a@2").status == 404)

    def test_a_refused_folder_hides_no_model_of_its_version(self):
        folder = temporary_folder()
        self.write(folder, "1", {"a": [1, 1]}, {}, lambda files: files["a.npy"].update(sha256="0" * 64))
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            self.assertStatus(client.request("PUT", "/v1/tensors/plain", [[1], [2]]), 201)
            self.assertStatus(client.request("GET", "/v2/models/plain/versions/1"), 200)
            self.assertStatus(client.request("GET", "/v2/models/a/versions/1"), 503)
            self.assertStatus(client.request("GET", "/v2/models/a/versions/2"), 404)

    def test_a_file_beside_a_served_folder_is_told_and_takes_its_place(self):
        folder = temporary_folder()
        self.write(folder, "1", {"a": [1, 1], "b": [1, 2]}, {"x": "a@1", "y": "b@1"})
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            with open(os.path.join(folder, ".new"), "wb") as file:
                file.write(npy("int32", (2,), pack("int32", [7, 8])))
            os.rename(os.path.join(folder, ".new"), os.path.join(folder, "a@1.npy"))
            daemon.send_signal(signal.SIGHUP)
            event = daemon.wait_log(lambda event: event.get("event") == "folder_refused")
            self.assertIn("'a@1' is also in a@1.npy. The folder is served until a restart", event["reason"])
            self.assertEqual(client.request("GET", ALIASES).json()["problems"], [{"source": "1", "reason": event["reason"]}])
            self.assertEqual(metric(daemon, "tensord_data_dir_problems"), 1)
            self.assertEqual(self.both(client), [1, 2])
            shutil.rmtree(os.path.join(folder, "1"))
            daemon.send_signal(signal.SIGHUP)
            self.wait_until(lambda: client.request("GET", "/v1/tensors/x").json().get("source") == "a@1.npy")
            self.assertEqual(client.request("GET", "/v1/tensors/x?response=flat").json()["data"], [7, 8])

    def test_a_kill_while_folders_are_taken_mixes_nothing(self):
        folder = temporary_folder()
        for i in range(1, 6):
            self.write(folder, str(i), {"a": [i] * 1000, "b": [i] * 1000}, {"x": f"a@{i}", "y": f"b@{i}"})
            daemon = Daemon("--data-dir", folder)
            daemon.process.kill()
            daemon.process.wait()
            path = os.path.join(folder, "aliases.json")
            if os.path.exists(path):
                with open(path, encoding="ascii") as file:
                    aliases = json.load(file)["aliases"]
                self.assertEqual(aliases["x"][2:], aliases["y"][2:])
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            self.assertEqual(self.aliases(client), {"x": "a@5", "y": "b@5"})
            self.assertEqual(self.both(client), [25] * 1000)


class Retention(AliasTest):
    """--keep-versions"""
    def names(self, client):
        return [tensor["name"] for tensor in client.request("GET", "/v1/tensors").json()["tensors"]]

    def test_the_newest_and_what_aliases_name_stay(self):
        folder = temporary_folder()
        with Daemon("--data-dir", folder, "--keep-versions", "2") as daemon, Client(daemon) as client:
            for version in ("9", "8", "10", "11"):
                self.assertStatus(client.request("PUT", f"/v1/tensors/m@{version}?persist=1", [1]), 201)
                if version == "9":
                    self.assertStatus(client.request("POST", ALIASES, {"set": {"x": "m@9"}}), 200)
            self.assertEqual(self.names(client), ["m@10", "m@11", "m@9"])
            self.assertEqual(sorted(os.listdir(folder)), [".tensord.lock", "aliases.json", "m@10.tensord", "m@11.tensord", "m@9.tensord"])
            self.assertStatus(client.request("POST", ALIASES, {"set": {"x": "m@11"}}), 200)
            self.assertEqual(self.names(client), ["m@10", "m@11"])
            self.assertStatus(client.request("POST", "/v1/gather", {"params": [1, 2], "indices": [1], "store": "m@12"}), 200)
            self.assertEqual(self.names(client), ["m@10", "m@11", "m@12"])  # one in memory is gone after a restart
            self.assertStatus(client.request("PUT", "/v1/tensors/m@13?persist=1", [1]), 201)
            self.assertEqual(self.names(client), ["m@11", "m@12", "m@13"])
            daemon.wait_log(lambda event: (event.get("event"), event.get("tensor")) == ("version_removed", "m@10"))
        with Daemon("--data-dir", folder, "--keep-versions", "2") as daemon, Client(daemon) as client:
            self.assertEqual(self.names(client), ["m@11", "m@13"])

    def test_a_version_that_is_older_than_enough_others_is_refused(self):
        for query in ("", "?persist=1"):
            with self.subTest(query), Daemon("--data-dir", temporary_folder(), "--keep-versions", "2") as daemon, Client(daemon) as client:
                for version in "567":
                    self.assertStatus(client.request("PUT", f"/v1/tensors/m@{version}{query}", [1]), 201)
                problem = self.assertProblem(client.request("PUT", f"/v1/tensors/m@4{query}", [1]), 409, "CONFLICT")
                self.assertEqual(problem["detail"], "'m@4' would be removed at once, because --keep-versions keeps 2 versions and all of these are newer; use a version that sorts after "
                                                    "'m@7' (numbers are compared by value), or start the daemon with a larger --keep-versions")
                self.assertProblem(client.request("POST", "/v1/cast", {"x": [1], "dtype": "int8", "store": "m@4"}), 409, "CONFLICT")
                self.assertStatus(client.request("PUT", f"/v1/tensors/m@10{query}", [1]), 201)
                self.assertEqual(self.names(client), ["m@10", "m@7"])

    def test_a_version_that_is_restored_stays_until_the_next_change(self):
        folder, kept = temporary_folder(), temporary_folder()
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            for version in "246":
                self.assertStatus(client.request("PUT", f"/v1/tensors/m@{version}?persist=1", [int(version)]), 201)
        shutil.move(os.path.join(folder, "m@2.tensord"), kept)
        with Daemon("--data-dir", folder, "--keep-versions", "2") as daemon, Client(daemon) as client:
            shutil.copy(os.path.join(kept, "m@2.tensord"), folder)
            daemon.send_signal(signal.SIGHUP)
            event = daemon.wait_log(lambda event: event.get("event") == "version_not_removed")
            self.assertEqual((event["tensor"], event["reason"]), ("m@2", "its file was put into the folder; --keep-versions removes it at the next change or SIGHUP unless an alias names it"))
            self.assertStatus(client.request("POST", ALIASES + "?persist=1", {"set": {"x": "m@2"}}), 200)
            self.assertStatus(client.request("PUT", "/v1/tensors/m@8?persist=1", [8]), 201)
            self.assertEqual(self.names(client), ["m@2", "m@6", "m@8"])

    def test_the_check_warns_of_files_that_the_start_removes(self):
        folder = temporary_folder()
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            for version in "1234":
                self.assertStatus(client.request("PUT", f"/v1/tensors/m@{version}?persist=1", [1]), 201)
            self.assertStatus(client.request("POST", ALIASES + "?persist=1", {"set": {"x": "m@1"}}), 200)
        for options, removed in ((("--keep-versions", "2"), ["m@2"]), (("--keep-versions", "2", "--read-only"), []), ((), [])):
            done = subprocess.run([BINARY, "--check-config", "--listen", "127.0.0.1:0", "--data-dir", folder, *options], env=environment(), capture_output=True, text=True, timeout=WAIT_LIMIT)
            self.assertEqual(done.returncode, 0, done)
            self.assertEqual([line for line in done.stdout.splitlines() if line.startswith("warning")],
                             [f"warning  {name}.tensord: tensor {name} is skipped: the server would remove its file at startup, because --keep-versions keeps only newer versions and no alias names this version" for name in removed])
            self.assertEqual(sorted(os.listdir(folder))[-1], "m@4.tensord")
            self.assertTrue(os.path.exists(os.path.join(folder, "m@2.tensord")))

    def test_a_persisted_version_gives_way_to_others_in_files_only(self):
        with Daemon("--data-dir", temporary_folder(), "--keep-versions", "1") as daemon, Client(daemon) as client:
            self.assertStatus(client.request("PUT", "/v1/tensors/m@5", [1]), 201)
            self.assertProblem(client.request("PUT", "/v1/tensors/m@4", [1]), 409, "CONFLICT")
            self.assertStatus(client.request("PUT", "/v1/tensors/m@4?persist=1", [1]), 201)
            self.assertEqual(self.names(client), ["m@4", "m@5"])

    def test_a_version_that_an_alias_names_is_stored_again_however_old(self):
        folder = temporary_folder()
        with Daemon("--data-dir", folder, "--keep-versions", "1") as daemon, Client(daemon) as client:
            self.assertStatus(client.request("PUT", "/v1/tensors/m@1?persist=1", [1]), 201)
            self.assertStatus(client.request("POST", ALIASES + "?persist=1", {"set": {"x": "m@1"}}), 200)
            self.assertStatus(client.request("PUT", "/v1/tensors/m@2?persist=1", [1]), 201)
            os.remove(os.path.join(folder, "m@1.tensord"))
            daemon.send_signal(signal.SIGHUP)
            daemon.wait_log(lambda event: event.get("event") == "aliases_refused")
            self.assertStatus(client.request("PUT", "/v1/tensors/m@1?persist=1", [1]), 201)
            self.assertEqual(self.names(client), ["m@1", "m@2"])

    def test_an_alias_is_always_answered_while_versions_come_and_go(self):
        with Daemon("--keep-versions", "1") as daemon, Client(daemon) as client:
            stop, wrong = threading.Event(), []

            def read():
                with Client(daemon) as reader:
                    while not stop.is_set():
                        reply = reader.request("POST", "/v1/gather", {"params": {"ref": "x"}, "indices": [0, 1]})
                        data = reply.json()["output"]["data"] if reply.status == 200 else None
                        if not data or data[0] != data[1]:
                            wrong.append(str(reply))

            client.request("PUT", "/v1/tensors/m@0", [0, 0])
            client.request("POST", ALIASES, {"set": {"x": "m@0"}})
            readers = [threading.Thread(target=read) for _ in range(2)]
            for reader in readers:
                reader.start()
            for i in range(1, 100):
                self.assertStatus(client.request("PUT", f"/v1/tensors/m@{i}", [i, i]), 201)
                self.assertStatus(client.request("POST", ALIASES, {"set": {"x": f"m@{i}"}, "if": {"x": f"m@{i - 1}"}}), 200)
            stop.set()
            for reader in readers:
                reader.join()
            self.assertEqual(wrong[:1], [])
            self.assertEqual(self.names(client), ["m@99"])
