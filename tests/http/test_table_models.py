"""Resident tensors as models of /v2: metadata, inference, statistics, the index."""
import itertools
from oip_client import *

TABLE = "X-Tensord-Table"
MAPPED = temporary_folder()


def setUpModule():
    for name in ("einsum", "stats", "top_k@v1", "movies@7", "plain"):
        with open(os.path.join(MAPPED, name + ".npy"), "wb") as f:
            f.write(npy("int32", (2, 1), pack("int32", [1, 2])))
    with open(os.path.join(MAPPED, "cast.npy"), "wb") as f:
        f.write(npy("int32", (), pack("int32", [1])))
    open(os.path.join(MAPPED, "concat.npy"), "wb").close()


class ModelTest(OipTest):
    names = itertools.count()

    def put(self, body, name=None, headers=None):
        name = name or f"model-{next(self.names)}"
        reply = self.request("PUT", f"/v1/tensors/{name}", body, headers)
        self.assertIn(reply.status, (200, 201), str(reply))
        self.addCleanup(self.request, "DELETE", f"/v1/tensors/{name}")
        return name, reply.json()

    def model(self, name, path=""):
        reply = self.get(f"/v2/models/{name}{path}")
        self.assertStatus(reply, 200)
        return reply.json()

    def indices(self, *values, datatype="INT64"):
        return [oip_input("indices", datatype, [len(values)], list(values))]

    def index(self):
        reply = self.post("/v2/repository/index", b"")
        self.assertStatus(reply, 200)
        return [(m["name"], m["version"]) for m in reply.json()]


class Keys(ModelTest):
    def keyed(self, keys, rows=((1, 2), (3, 4), (5, 6))):
        return self.put({"tensor": list(rows), "keys": keys})[0]

    def test_metadata_lists_keys_alone(self):
        for keys, datatype, data_type in ((["a", "b", "c"], "BYTES", "TYPE_STRING"), ([7, -8, 9], "INT64", "TYPE_INT64"),
                                          ([2**63, 0, 1], "UINT64", "TYPE_UINT64")):
            name = self.keyed(keys)
            self.assertEqual([(i["name"], i["datatype"], i["shape"]) for i in self.model(name)["inputs"]], [("keys", datatype, [-1])])
            self.assertEqual([(i["name"], i["data_type"]) for i in self.model(name, "/config")["input"]], [("keys", data_type)])

    def rows(self, name, inputs):
        reply = self.infer(name, inputs)
        self.assertStatus(reply, 200)
        return reply.json()["outputs"][0]["data"]

    def test_rows_are_looked_up_by_key_or_number(self):
        name = self.keyed(["a", "b", ""])
        self.assertEqual(self.rows(name, [oip_input("keys", "BYTES", [2], ["", "a"])]), [5, 6, 1, 2])
        self.assertEqual(self.rows(name, [oip_input("keys", "BYTES", [1], struct.pack("<I", 1) + b"b")]), [3, 4])
        self.assertEqual(self.rows(name, self.indices(1)), [3, 4])
        self.assertEqual(self.rows(self.keyed([7, -8, 9]), [oip_input("keys", "INT64", [1], [-8])]), [3, 4])
        self.assertEqual(self.rows(self.keyed([2**63, 8, 9]), [oip_input("keys", "UINT64", [1], [2**63])]), [1, 2])

    def test_what_is_no_key_is_refused(self):
        name, (without, _) = self.keyed(["a", "b", ""]), self.put([[1]])
        key = oip_input("keys", "BYTES", [1], ["a"])
        document = self.assertError(self.infer(name, [oip_input("keys", "BYTES", [2], ["a", "x"])]), 400, code="KEY_NOT_FOUND")
        self.assertEqual((document["input"], document["position"], document["key"], document["bad_count"]), ("keys", [1], "x", 1))
        document = self.assertError(self.infer(name, [oip_input("keys", "INT64", [1], [1])]), 400, code="UNSUPPORTED_DTYPE")
        self.assertEqual(document["input"], "keys")
        self.assertError(self.infer(without, [key]), 400, "keys", code="INVALID_ARGUMENT")
        self.assertError(self.infer(name, [key, key]), 400, code="MALFORMED_REQUEST")
        self.assertError(self.infer(name, [key] + self.indices(1)), 400, code="MALFORMED_REQUEST")
        self.assertError(self.infer(name, []), 400, "indices", code="INVALID_ARGUMENT")
        self.assertError(self.infer("gather", [key]), 400, code="MALFORMED_REQUEST")

    def test_errors_name_the_inputs_that_the_table_has(self):
        name, (without, _) = self.keyed(["a", "b", ""]), self.put([[1]])
        key, other = oip_input("keys", "BYTES", [1], ["a"]), oip_input("foo", "INT64", [1], [0])
        of_op = oip_input("indices.keys", "BYTES", [1], ["a"])
        both = "both indices and keys are given; expected only one of them"
        for table, inputs, message, place in (
                (name, [key] + self.indices(1), both, "indices"), (name, self.indices(1) + [key], both, "keys"),
                (name, [key, key], "keys is given twice", "keys"), (name, self.indices(1) * 2, "indices is given twice", "indices"),
                (name, [], "indices is missing; the table has the inputs indices or keys", "indices"),
                (without, [], "indices is missing; the table has the inputs indices", "indices"),
                (name, [other], 'the table has no input "foo"; expected indices or keys', "foo"),
                (without, [other], 'the table has no input "foo"; expected indices', "foo"),
                (name, [of_op], 'the table has no input "indices.keys"; expected indices or keys', "indices.keys"),
                (without, [key], f"'{without}' has no keys to find rows by; give row numbers as indices, or set keys with PUT /v1/tensors/{without}/keys, or import the table with --keys", "keys")):
            with self.subTest(message=message):
                document = self.assertError(self.infer(table, inputs), 400)
                self.assertEqual((document["error"], document["input"]), (f"{table}: {message}", place))
        document = self.assertError(self.infer(name, [oip_input("kesy", "BYTES", [1], ["a"])]), 400)
        self.assertEqual(document["did_you_mean"], "keys")

    def test_keys_may_be_a_resident_tensor(self):
        name, (queries, _) = self.keyed(["a", "b", ""]), self.put({"dtype": "string", "data": ["b"]})
        reply = self.infer(name, [], parameters={"keys.ref": queries})
        self.assertEqual(self.outputs(reply)["output"][2], [3, 4])
        self.assertError(self.infer(name, [], parameters={"indices.keys.ref": queries}), 400, "no parameter")


class Documents(ModelTest):
    def test_metadata_and_configuration_say_what_a_lookup_takes_and_returns(self):
        name, _ = self.put(tensor("float16", (5, 3, 2), bytes(60)))
        metadata, config = self.model(name), self.model(name, "/config")
        self.assertEqual((metadata["name"], metadata["versions"], metadata["platform"]), (name, ["1"], "tensord_table"))
        self.assertEqual([(i["name"], i["datatype"], i["shape"]) for i in metadata["inputs"]], [("indices", "INT64", [-1])])
        self.assertEqual([(o["name"], o["datatype"], o["shape"]) for o in metadata["outputs"]], [("output", "FP16", [-1, 3, 2])])
        self.assertEqual((config["name"], config["max_batch_size"], config["backend"]), (name, 0, "tensord"))
        self.assertEqual([(i["name"], i["data_type"], i["dims"]) for i in config["input"]], [("indices", "TYPE_INT64", [-1])])
        self.assertEqual([(o["name"], o["data_type"], o["dims"]) for o in config["output"]], [("output", "TYPE_FP16", [-1, 3, 2])])
        self.assertEqual(self.model(name, "/ready"), {"name": name, "ready": True})
        for path in ("", "/config", "/ready", "/stats"):
            self.assertEqual(self.model(name, path), self.model(name, "/versions/1" + path))

    def test_names_and_versions_are_a_model_and_its_versions(self):
        base = f"model-{next(self.names)}"
        for version, value in (("v1", 1), ("v2", 2)):
            self.put([value], f"{base}@{version}")
        for version, value in (("v1", 1), ("v2", 2)):
            self.assertEqual(self.model(base, f"/versions/{version}")["versions"], [version])
            reply = self.infer(base, self.indices(0), path=f"/versions/{version}/infer")
            document = reply.json()
            self.assertEqual((document["model_name"], document["model_version"]), (base, version))
            self.assertEqual((document["outputs"][0]["data"], reply.headers[TABLE]), ([value], f"{base}@{version}"))
        self.assertEqual(self.model(f"{base}@v1")["versions"], ["v1"])
        self.assertError(self.get(f"/v2/models/{base}/versions/v3"), 404, "v3", base, "; expected one of v1, v2", code="NOT_FOUND")
        self.assertError(self.get(f"/v2/models/{base}"), 404, base, code="UNKNOWN_OP")
        self.assertLessEqual({(base, "v1"), (base, "v2")}, set(self.index()))

    def test_an_alias_is_a_model_of_its_version(self):
        base, alias = f"model-{next(self.names)}", f"model-{next(self.names)}"
        for version, value in (("v1", 1), ("v2", 2)):
            self.put([value], f"{base}@{version}")
        flip = lambda names: self.assertStatus(self.post("/v1/aliases", {"set": names}), 200)
        self.addCleanup(flip, {base: None, alias: None})
        for version, value in (("v1", 1), ("v2", 2)):
            flip({base: f"{base}@{version}", alias: f"{base}@{version}"})
            for name in (base, alias):
                self.assertEqual(self.model(name)["versions"], [version])
                reply = self.infer(name, self.indices(0))
                document = reply.json()
                self.assertEqual((document["model_name"], document["model_version"]), (name, version))
                self.assertEqual((document["outputs"][0]["data"], reply.headers[TABLE]), ([value], f"{base}@{version}"))
            reply = self.post(f"/v1/tensors/{alias}/gather", {"indices": [0]})
            self.assertEqual((reply.json()["output"]["data"], reply.headers[TABLE]), ([value], f"{base}@{version}"))
            entries = [entry for entry in self.index() if entry[0] in (base, alias)]
            self.assertEqual(sorted(entries), sorted([(base, "v1"), (base, "v2"), (alias, version)]))
            self.assertError(self.get(f"/v2/models/{base}/versions/1"), 404, code="NOT_FOUND")

    def test_the_version_of_an_alias_or_of_a_name_with_one_is_a_path(self):
        base, alias = f"model-{next(self.names)}", f"model-{next(self.names)}"
        for version, value in (("1", 1), ("7", 7)):
            self.put([value], f"{base}@{version}")
        self.assertStatus(self.post("/v1/aliases", {"set": {alias: f"{base}@7"}}), 200)
        self.addCleanup(self.post, "/v1/aliases", {"set": {alias: None}})
        for name, version, value, other in ((alias, "7", 7, "1"), (f"{base}@1", "1", 1, "7"), (f"{base}@7", "7", 7, "1")):
            with self.subTest(name=name):
                for path in ("", "/ready", "/config", "/stats"):
                    self.assertEqual(self.model(name, path), self.model(name, f"/versions/{version}{path}"))
                    self.assertError(self.get(f"/v2/models/{name}/versions/{other}{path}"), 404, f"'{other}'", name, code="NOT_FOUND")
                reply = self.infer(name, self.indices(0), path=f"/versions/{version}/infer")
                document = reply.json()
                self.assertEqual((document["model_name"], document["model_version"]), (name, version))
                self.assertEqual((document["outputs"][0]["data"], reply.headers[TABLE]), ([value], f"{base}@{version}"))
                self.assertError(self.infer(name, self.indices(0), path=f"/versions/{other}/infer"), 404, code="NOT_FOUND")

    def test_models_that_are_not_there(self):
        name, _ = self.put([1], "model-of-a-test")
        self.assertEqual(self.assertError(self.get("/v2/models/model-of-a-tes"), 404, code="UNKNOWN_OP")["did_you_mean"], name)
        self.assertError(self.get(f"/v2/models/{name}/versions/2"), 404, name, "'2'", "; expected 1", code="NOT_FOUND")
        self.assertError(self.infer("model-of-a-tes", self.indices(0)), 404, code="UNKNOWN_OP")
        self.assertError(self.post("/v2/models/model-of-a-tes/trace/setting", b"{}"), 404, code="UNKNOWN_OP")
        self.assertError(self.post(f"/v2/models/{name}/trace/setting", b"{}"), 501)

    def test_a_scalar_is_no_model(self):
        name, _ = self.put({"dtype": "int32", "shape": [], "data": 7})
        self.assertError(self.get(f"/v2/models/{name}"), 404, "scalar")
        self.assertError(self.infer(name, self.indices(0)), 404, "scalar")
        self.assertNotIn((name, "1"), self.index())

    def test_hostile_names(self):
        for name, status in (("%2e%2e", 404), ("a%2Fb", 404), ("%2Fetc%2Fpasswd", 404), ("%00", 400), ("t%00", 400), ("%", 400), ("%zz", 400),
                             ("%FF%FE", 404), ("%0d%0aX-Evil:%201", 404), ("x" * 2000, 404), ("a@b@c", 404), ("@", 404), ("%22%7d", 404),
                             ("%25s%25n", 404), (".hidden", 404), ("%E2%82%AC", 404)):
            for path in ("", "/ready", "/config", "/stats", "/versions/1", "/versions/" + name):
                with self.subTest(name=name, path=path):
                    reply = self.get(f"/v2/models/{name}{path}")
                    self.assertError(reply, status)
                    self.assertNotIn("X-Evil", reply.headers)
            self.assertError(self.infer(name, self.indices(0)), status)
            self.assertError(self.post(f"/v2/repository/models/{name}/load", b"{}"), status)
        self.assertServes()

    def test_a_table_is_loaded_and_not_unloaded(self):
        name, _ = self.put([1])
        self.assertEqual(self.post(f"/v2/repository/models/{name}/load", b"{}").json(), {})
        self.assertError(self.post(f"/v2/repository/models/{name}/load", {"parameters": {"config": "{}"}}), 400, "configuration")
        self.assertError(self.post(f"/v2/repository/models/{name}/unload", b""), 400, "DELETE /v1/tensors/" + name)
        self.assertEqual(self.model(name, "/ready")["ready"], True)


class Inference(ModelTest):
    def test_indices_alone_are_enough(self):
        name, found = self.put([[1.5, 2.5], [3.5, 4.5]])
        reply = self.infer(name, self.indices(1, 1, 0))
        self.assertEqual(self.outputs(reply)["output"], ("FP32", [3, 2], [3.5, 4.5, 3.5, 4.5, 1.5, 2.5]))
        document = reply.json()
        self.assertEqual((document["model_name"], document["model_version"]), (name, "1"))
        self.assertEqual(reply.headers[TABLE], f"{name}@{found['version']}")
        binary = self.infer(name, [oip_input("indices", "INT32", [2, 1], pack("int32", [0, 1]))], [wanted("output", binary_data=True)])
        self.assertEqual(self.outputs(binary)["output"], ("FP32", [2, 1, 2], pack("float32", [1.5, 2.5, 3.5, 4.5])))
        self.assertEqual(self.infer(name, self.indices(0), id="a \"b\"").json()["id"], "a \"b\"")

    def test_every_dtype(self):
        for dtype, datatype, values in (("int8", "INT8", [1, -1]), ("uint64", "UINT64", [2**64 - 1, 0]), ("float16", "FP16", [0.5, -2.0]),
                                        ("bfloat16", "BF16", [0.5, -2.0]), ("bool", "BOOL", [True, False]), ("string", "BYTES", ["x", "é"])):
            name, _ = self.put({"dtype": dtype, "shape": [2], "data": values})
            self.assertEqual(self.outputs(self.infer(name, self.indices(1, 0)))["output"], (datatype, [2], values[::-1]))
            self.assertEqual(self.model(name)["outputs"][0]["datatype"], datatype)

    def test_complex_rows_are_pairs_without_a_parameter(self):
        name, _ = self.put({"dtype": "complex64", "shape": [2], "data": [[1, 2], [3, 4]]})
        self.assertEqual(self.outputs(self.infer(name, self.indices(1)))["output"], ("FP32", [1, 2], [3, 4]))
        output = self.model(name)["outputs"][0]
        self.assertEqual((output["datatype"], output["shape"], output["parameters"]["complex"]), ("FP32", [-1, 2], True))

    def test_attributes_are_parameters(self):
        name, _ = self.put([[1, 2], [3, 4]])
        self.assertEqual(self.outputs(self.infer(name, self.indices(1), parameters={"axis": 1}))["output"], ("INT32", [2, 1], [2, 4]))
        reply = self.infer(name, self.indices(1, 7), parameters={"bounds": "zero", "device": "cpu", "priority": 1})
        self.assertEqual(self.outputs(reply)["output"], ("INT32", [2, 2], [3, 4, 0, 0]))
        self.assertEqual(reply.json()["parameters"], {"bounds_policy": "zero", "bounds_replaced": 1})

    def test_an_attribute_outside_of_parameters_is_refused(self):
        name, _ = self.put([[1, 2], [3, 4]])
        for members in ({"axis": 1}, {"bounds": "zero"}, {"indices.ref": name}, {"keys.ref": name}, {"params.ref": name}):
            document = self.assertError(self.infer(name, self.indices(1), **members), 400, "belongs in its member", code="MALFORMED_REQUEST")
            self.assertEqual(document["pointer"], "/" + next(iter(members)))
        self.assertError(self.infer(name, self.indices(1), path="/infer?axis=1"), 400, "not in the query string")
        document = self.assertError(self.infer(name, self.indices(1), params={"axis": 1}), 400)
        self.assertEqual((document["error"], document["did_you_mean"]),
                         (f'{name}: the request has no member "params"; expected id, inputs, outputs, parameters', "parameters"))
        self.assertEqual(self.outputs(self.infer(name, self.indices(1), path="/infer?a=1", largest=True))["output"][2], [3, 4])

    def test_errors_begin_with_the_models_name(self):
        name, _ = self.put([1, 2])
        for inputs, parameters, words in ((self.indices(2), {}, ["indices[0] = 2"]), ([], {}, ["indices is missing"]),
                                          (self.indices(0) + [oip_input("params", "INT32", [1], [1])], {}, ["params is given by the path"]),
                                          (self.indices(0), {"params.ref": name}, ["params is given by the path"]),
                                          (self.indices(0), {"axes": 1}, ["no parameter"]), (self.indices(0) * 2, {}, ["twice"]),
                                          ([oip_input("index", "INT64", [1], [0])], {}, ["no input", "indices"]),
                                          ([oip_input("indices", "FP32", [1], [0])], {}, ["indices"])):
            with self.subTest(words=words):
                error = self.assertError(self.infer(name, inputs, parameters=parameters), 400, *words)
                self.assertTrue(error["error"].startswith(name + ": "), error)
                self.assertEqual(error["op"], "gather")

    def test_errors_begin_with_a_name_with_which_a_message_begins(self):
        for name in ("k", "indices", "ind"):
            self.put([1, 2], name)
            self.assertError(self.infer(name, self.indices(5)), 400, f"{name}: indices[0] = 5")

    def test_a_replaced_table_is_read_from_then_on(self):
        name, first = self.put([1])
        _, second = self.put([2], name)
        reply = self.infer(name, self.indices(0))
        self.assertEqual((self.outputs(reply)["output"][2], reply.headers[TABLE]), ([2], f"{name}@{second['version']}"))
        self.assertStatus(self.request("DELETE", f"/v1/tensors/{name}"), 204)
        self.assertError(self.infer(name, self.indices(0)), 404, code="UNKNOWN_OP")


class Statistics(ModelTest):
    def stats(self, name, path="/stats"):
        document = self.model(name, path)
        self.assertEqual(len(document["model_stats"]), 1)
        return document["model_stats"][0]

    def test_lookups_are_counted_by_table_however_they_name_it(self):
        name, _ = self.put([[1, 2], [3, 4]])
        other, _ = self.put([[1, 2]])
        before = self.stats(name)
        self.assertEqual((before["name"], before["inference_count"], before["batch_stats"]), (name, 0, []))
        self.assertStatus(self.infer(name, self.indices(0)), 200)
        self.assertStatus(self.post(f"/v1/tensors/{name}/gather", {"indices": [0]}), 200)
        self.assertStatus(self.post("/v1/gather", {"params": {"ref": name}, "indices": [0]}), 200)
        self.assertStatus(self.post(f"/v1/tensors/{other}/gather", {"indices": [0]}), 200)
        self.assertStatus(self.infer(name, self.indices(9)), 400)
        self.assertStatus(self.post(f"/v2/models/{name}/infer", b"{"), 400)
        after = self.stats(name)
        self.assertEqual((after["inference_count"], after["execution_count"]), (3, 3))
        self.assertEqual((after["inference_stats"]["success"]["count"], after["inference_stats"]["fail"]["count"]), (3, 2))
        self.assertGreater(after["inference_stats"]["success"]["ns"], 0)
        self.assertGreater(after["last_inference"], 0)
        self.assertEqual(after, self.stats(name, "/versions/1/stats"))
        self.assertEqual(self.stats(other)["inference_count"], 1)

    def test_writers_are_no_lookups(self):
        name, _ = self.put([[1, 2], [3, 4]])
        self.assertStatus(self.post(f"/v1/tensors/{name}/scatter", {"indices": [[0]], "updates": [[5, 6]]}), 200)
        self.assertEqual(self.stats(name)["inference_count"], 0)

    def test_versions_are_counted_together(self):
        base = f"model-{next(self.names)}"
        for version in ("v1", "v2"):
            self.put([1], f"{base}@{version}")
            self.assertStatus(self.infer(base, self.indices(0), path=f"/versions/{version}/infer"), 200)
        self.assertEqual(self.stats(base, "/versions/v1/stats")["inference_count"], 2)
        self.assertIn(f'tensord_table_rows_read_total{{table="{base}"}} 2', self.get("/metrics").body.decode())


    def test_those_of_all_models_have_the_tables_that_were_looked_up(self):
        def listed(client):
            found = client.request("GET", "/v2/models/stats").json()["model_stats"]
            tables = [s for s in found if s["name"] not in OPS or s["name"] == "top_k"]
            self.assertEqual([s["name"] for s in found], [s["name"] for s in tables] + [op for op in OPS if op != "top_k"])
            return [(s["name"], s["version"], s["inference_count"]) for s in tables]

        with Daemon() as daemon, Client(daemon) as client:
            put = lambda name: self.assertStatus(client.request("PUT", f"/v1/tensors/{name}", [[1], [2]]), 201)
            look_up = lambda name: self.assertStatus(client.request("POST", f"/v1/tensors/{name}/gather", {"indices": [0]}), 200)
            for name in ("plain", "other", "films@9", "films@10", "books@1", "top_k"):
                put(name)
            self.assertStatus(client.request("POST", "/v1/aliases", {"set": {"books": "books@1", "read": "films@9"}}), 200)
            self.assertEqual(listed(client), [])
            for name in ("plain", "films@9", "films@10", "read", "books", "top_k"):
                look_up(name)
            self.assertEqual(listed(client), [("plain", "1", 1), ("films", "10", 3), ("books", "1", 1), ("top_k", "1", 1)])
            one = client.request("GET", "/v2/models/plain/stats").json()["model_stats"]
            self.assertIn(one[0], client.request("GET", "/v2/models/stats").json()["model_stats"])
            self.assertStatus(client.request("DELETE", "/v1/tensors/plain"), 204)
            self.assertEqual(listed(client), [("films", "10", 3), ("books", "1", 1), ("top_k", "1", 1)])


class Precedence(ModelTest):
    """tables that have the names of ops"""
    options = ("--data-dir", MAPPED)

    def flip(self, **aliases):
        self.assertStatus(self.post("/v1/aliases", {"set": aliases}), 200)

    def platform(self, name, path=""):
        return self.model(name, path)["platform"]

    def test_the_table_is_the_model_on_all_paths_of_the_name(self):
        for path in ("", "/versions/1"):
            with self.subTest(path=path):
                self.assertEqual(self.platform("einsum", path), "tensord_table")
                self.assertEqual(self.model("einsum", path + "/ready"), {"name": "einsum", "ready": True})
                self.assertEqual([i["name"] for i in self.model("einsum", path + "/config")["input"]], ["indices"])
                before = self.model("einsum", path + "/stats")["model_stats"][0]["inference_count"]
                reply = self.infer("einsum", self.indices(1), path=path + "/infer")
                self.assertEqual(self.outputs(reply)["output"], ("INT32", [1, 1], [2]))
                self.assertEqual((reply.json()["model_name"], reply.headers[TABLE].partition("@")[0]), ("einsum", "einsum"))
                self.assertEqual(self.model("einsum", path + "/stats")["model_stats"][0]["inference_count"], before + 1)
        error = self.assertError(self.infer("einsum", self.indices(2)), 400, "indices[0] = 2", code="INDEX_OUT_OF_BOUNDS")
        self.assertEqual((error["error"].partition(":")[0], error["op"]), ("einsum", "gather"))
        self.assertEqual(self.post("/v2/repository/models/einsum/load", b"{}").json(), {})
        self.assertError(self.post("/v2/repository/models/einsum/unload", b""), 400, "DELETE /v1/tensors/einsum")
        self.assertError(self.get("/v2/models/einsum/versions/2"), 404, "'2'", "'einsum'", code="NOT_FOUND")
        self.assertError(self.get("/v2/models/einsum/trace/setting"), 501)

    def test_the_op_stays_under_v1(self):
        self.assertEqual(self.get("/v1/ops/einsum").json()["name"], "einsum")
        self.assertEqual(self.post("/v1/einsum", {"equation": "i->", "inputs": [[1, 2]]}).json()["output"]["data"], 3)
        self.assertStatus(self.post("/v1/tensors/einsum/gather", {"indices": [0]}), 200)

    def test_lookups_count_as_those_of_gather(self):
        count = lambda op: sum(int(n) for n in re.findall(rf'^tensord_requests_total\{{op="{op}",.*\}} (\d+)$', self.get("/metrics").body.decode(), re.M))
        before = count("gather"), count("einsum")
        self.assertStatus(self.infer("einsum", self.indices(0)), 200)
        self.assertEqual((count("gather"), count("einsum")), (before[0] + 1, before[1]))

    def test_versions_alone_take_the_name_too(self):
        self.assertEqual(self.model("top_k", "/versions/v1")["versions"], ["v1"])
        self.assertEqual(self.outputs(self.infer("top_k", self.indices(1), path="/versions/v1/infer"))["output"][2], [2])
        for path in ("", "/ready", "/config", "/stats"):
            document = self.assertError(self.get("/v2/models/top_k" + path), 404, "no model 'top_k'", code="UNKNOWN_OP")
            self.assertEqual(document["did_you_mean"], "top_k@v1")
        self.assertError(self.get("/v2/models/top_k/versions/1"), 404, "'1'", code="NOT_FOUND")
        self.assertError(self.infer("top_k", self.indices(1)), 404, code="UNKNOWN_OP")

    def test_an_alias_is_the_model(self):
        for name, rows in (("films@1", [[7], [8]]), ("films@2", [[9], [8]])):
            self.assertStatus(self.request("PUT", f"/v1/tensors/{name}?persist=1", rows), 201)
            self.addCleanup(self.request, "DELETE", f"/v1/tensors/{name}")
        self.addCleanup(self.flip, gather_nd=None)
        for version, value in (("1", 7), ("2", 9)):
            self.flip(gather_nd="films@" + version)
            self.assertEqual(self.model("gather_nd")["versions"], [version])
            self.assertEqual(self.outputs(self.infer("gather_nd", self.indices(0)))["output"][2], [value])
            self.assertEqual([entry for entry in self.index() if entry[0] == "gather_nd"], [("gather_nd", version)])
            self.assertError(self.infer("gather_nd", self.indices(0), path="/versions/9/infer"), 404, "'9'", code="NOT_FOUND")

    def test_a_model_is_the_table_from_its_first_version_to_the_deletion_of_the_last(self):
        self.assertEqual(self.platform("gather"), "tensord_op")
        self.put([[1], [2]], "gather@1")
        self.assertEqual(self.platform("gather", "/versions/1"), "tensord_table")
        self.assertEqual([entry for entry in self.index() if entry[0] == "gather"], [("gather", "1")])
        self.put([[3], [4]], "gather")
        self.assertEqual(self.outputs(self.infer("gather", self.indices(0)))["output"][2], [3])
        self.assertError(self.infer("gather", self.gather_inputs()), 400, "params is given by the path")
        for name in ("gather", "gather@1"):
            self.assertStatus(self.request("DELETE", "/v1/tensors/" + name), 204)
        self.assertEqual(self.platform("gather"), "tensord_op")
        self.assertGathered(self.infer("gather", self.gather_inputs()))

    def test_a_scalar_leaves_the_name_to_the_op(self):
        self.assertEqual(self.platform("cast"), "tensord_op")

    def test_a_file_that_cannot_be_served_does_not(self):
        self.assertError(self.get("/v2/models/concat"), 503, "concat.npy", code="DEVICE_UNAVAILABLE")
        self.assertStatus(self.post("/v1/concat", {"inputs": [[1], [2]]}), 200)

    def test_the_statistics_of_all_models_keep_their_path(self):
        self.assertError(self.get("/v2/models/stats/ready"), 404, code="UNKNOWN_OP")
        self.assertIn("gather", [s["name"] for s in self.get("/v2/models/stats").json()["model_stats"]])

    def test_the_index_has_each_name_once_and_tables_first(self):
        tables = [("einsum", "1"), ("movies", "7"), ("plain", "1"), ("top_k", "v1")]
        self.assertEqual(self.index(), tables + [(op, "1") for op in OPS if op not in ("einsum", "top_k", "concat")])

    def test_the_log_names_the_tables_at_the_start(self):
        named = [(event["event"], event["tensor"]) for event in self.daemon.events() if event["event"] in ("table_is_no_model", "table_replaces_op")]
        self.assertEqual(named, [("table_replaces_op", "einsum"), ("table_is_no_model", "stats"), ("table_replaces_op", "top_k@v1")])


class ManyTables(ModelTest):
    options = ("--memory-limit=64M",)

    def test_the_index_of_thousands_of_tables(self):
        count = 3000
        with Client(self.daemon) as client:
            for i in range(count):
                client.request("PUT", f"/v1/tensors/many-{i:04d}-{'x' * 100}", b"[1]")
            index = json.loads(client.request("POST", "/v2/repository/index", b"").body)
            self.assertEqual(len(index), len(OPS) + count)
            for i in range(count):
                client.request("DELETE", f"/v1/tensors/many-{i:04d}-{'x' * 100}")
