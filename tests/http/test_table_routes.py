"""Lookups of a table that the path names: POST /v1/tensors/{name}/{op}."""
import threading
from test_tensors import *

BINARY = {"Content-Type": SAFETENSORS}
TABLE = "X-Tensord-Table"


class RouteTest(TensorTest):
    def look(self, name, op, body, query="", headers=None):
        return self.post(f"/v1/tensors/{name}/{op}{query}", body, headers)


class Lookups(RouteTest):
    def test_the_table_is_the_first_input(self):
        name, found = self.resident([[1, 2], [3, 4], [5, 6]])
        reply = self.look(name, "gather", {"indices": [2, 0]})
        self.assertOutput(reply, "int32", [2, 2], [[5, 6], [1, 2]])
        self.assertEqual(reply.headers[TABLE], f"{name}@{found['version']}")
        self.assertOutput(self.look(name, "gather_nd", {"indices": [[1, 1], [0, 0]]}), "int32", [2], [4, 1])
        self.assertOutput(self.look(name, "batch_gather", {"indices": [[1], [0], [1]]}), "int32", [3, 1], [[2], [3], [6]])

    def test_each_op_that_chooses_rows_of_its_first_input_has_a_route(self):
        name, _ = self.resident([[1, 2], [3, 4]])
        for op in self.get("/v1/ops").json()["ops"]:
            described = self.get(f"/v1/ops/{op['name']}").json()
            inputs = described["inputs"]
            bound = (inputs[0]["name"] == "params" or op["name"] == "find") and any(i["role"] in ("index", "key") for i in inputs[1:])
            reply = self.look(name, op["name"], {})
            with self.subTest(op["name"]):
                self.assertEqual(reply.status == 404, not bound, str(reply))

    def test_attributes_are_in_the_body_or_the_query(self):
        name, _ = self.resident([[1, 2], [3, 4]])
        self.assertOutput(self.look(name, "gather", {"indices": [1], "axis": 1}), "int32", [2, 1], [[2], [4]])
        self.assertOutput(self.look(name, "gather", {"indices": [1]}, "?axis=1"), "int32", [2, 1], [[2], [4]])
        reply = self.look(name, "gather", {"indices": [0, 9], "bounds": "zero"})
        self.assertEqual((reply.json()["output"]["data"], reply.json()["bounds"]["replaced"]), ([[1, 2], [0, 0]], 1))

    def test_binary_bodies_have_the_other_inputs_alone(self):
        name, found = self.resident([[1, 2], [3, 4]])
        body = safetensors({"indices": ("int64", (2,), pack("int64", [1, 1]))})
        reply = self.look(name, "gather", body, headers=BINARY)
        self.assertBinary(reply, "int32", [2, 2], pack("int32", [3, 4, 3, 4]))
        self.assertEqual(reply.headers[TABLE], f"{name}@{found['version']}")
        self.assertBinary(self.look(name, "gather", body, headers={"Content-Type": "application/octet-stream"}), "int32", [2, 2],
                          pack("int32", [3, 4, 3, 4]))
        self.assertOutput(self.look(name, "gather", body, headers={**BINARY, "Accept": JSON}), "int32", [2, 2], [[3, 4], [3, 4]])
        metadata = safetensors({"indices": ("int64", (1,), pack("int64", [1]))}, {"axis": "1"})
        self.assertBinary(self.look(name, "gather", metadata, headers=BINARY), "int32", [2, 1], pack("int32", [2, 4]))

    def test_indices_may_be_resident_too(self):
        name, _ = self.resident([[1, 2], [3, 4]])
        rows, _ = self.resident([1, 0])
        self.assertOutput(self.look(name, "gather", {"indices": {"ref": rows}}), "int32", [2, 2], [[3, 4], [1, 2]])

    def test_the_output_may_be_stored(self):
        name, found = self.resident([[1, 2], [3, 4]])
        reply = self.look(name, "gather", {"indices": [1], "store": "kept-of-a-route"})
        self.assertStatus(reply, 200)
        self.addCleanup(self.delete, "kept-of-a-route")
        self.assertEqual(reply.headers[TABLE], f"{name}@{found['version']}")
        self.assertEqual(self.get("/v1/tensors/kept-of-a-route?response=nested").json()["data"], [[3, 4]])

    def test_a_new_version_has_another_name_in_the_reply(self):
        name, first = self.resident([1, 2])
        second = self.put(name, [3, 4]).json()
        reply = self.look(name, "gather", {"indices": [0]})
        self.assertEqual((reply.headers[TABLE], reply.json()["output"]["data"]), (f"{name}@{second['version']}", [3]))
        self.assertNotEqual(first["version"], second["version"])

    def test_a_name_with_a_version_is_itself_in_the_reply(self):
        name, _ = self.resident([1, 2], name=self.name() + "@v1.2")
        self.addCleanup(self.delete, name)
        self.assertEqual(self.look(name, "gather", {"indices": [0]}).headers[TABLE], name)

    def test_escaped_names_are_decoded(self):
        name, _ = self.resident([1, 2], name=self.name() + ":w")
        self.assertOutput(self.look(name.replace(":", "%3A"), "g%61ther", {"indices": [1]}), "int32", [1], [2])

    def test_the_rows_that_are_read_are_counted(self):
        name, _ = self.resident([[1, 2], [3, 4]])
        self.assertStatus(self.look(name, "gather", {"indices": [1, 1, 0]}), 200)
        self.assertIn(f'tensord_table_rows_read_total{{table="{name}"}} 3', self.get("/metrics").body.decode())

    def test_rows_and_version_of_a_reply_belong_together(self):
        """while the table is replaced"""
        name, first = self.resident([0] * 4)
        versions, done = {first["version"]: 0}, threading.Event()

        def replace():
            with Client(self.daemon) as client:
                for i in range(1, 200):
                    versions[client.request("PUT", f"/v1/tensors/{name}", [i] * 4).json()["version"]] = i
            done.set()
        writer = threading.Thread(target=replace)
        writer.start()
        seen = []
        with Client(self.daemon) as client:
            while not done.is_set():
                reply = client.request("POST", f"/v1/tensors/{name}/gather", {"indices": [0, 3]})
                seen.append((int(reply.headers[TABLE].rpartition("@")[2]), reply.json()["output"]["data"]))
        writer.join()
        for version, data in seen:
            self.assertEqual(data, [versions[version]] * 2)


class Refusals(RouteTest):
    def test_the_table_is_not_given_twice(self):
        name, _ = self.resident([1, 2])
        problem = self.assertProblem(self.look(name, "gather", {"params": [1], "indices": [0]}), 400, "MALFORMED_REQUEST",
                                     input="params", pointer="/params")
        self.assertIn("given by the path", problem["detail"])
        inputs = {"indices": ("int64", (1,), pack("int64", [1])), "params": ("int64", (1,), pack("int64", [1]))}
        self.assertProblem(self.look(name, "gather", safetensors(inputs), headers=BINARY), 400, "MALFORMED_REQUEST", input="params")
        del inputs["params"]
        self.assertProblem(self.look(name, "gather", safetensors(inputs, {"params.ref": name}), headers=BINARY), 400, "MALFORMED_REQUEST",
                           input="params")

    def test_a_table_that_is_not_there(self):
        name, _ = self.resident([1, 2], name="table-of-a-route")
        self.addCleanup(self.delete, name)
        problem = self.assertProblem(self.look("table-of-a-rout", "gather", {"indices": [0]}), 404, "TENSOR_NOT_FOUND",
                                     did_you_mean=name)
        self.assertIn("table-of-a-rout", problem["detail"])

    def test_an_op_that_looks_no_rows_up(self):
        name, _ = self.resident([1, 2])
        for op, nearest in (("einsum", None), ("top_k", None), ("gathr", "gather"), ("nothing", None), ("%2Fgather", "gather")):
            self.assertProblem(self.look(name, op, {}), 404, "UNKNOWN_OP", did_you_mean=nearest)

    def test_an_op_of_another_route_leads_to_its_route(self):
        name, _ = self.resident([1, 2])
        listed = "expected gather, batch_gather, gather_nd, find, lookup, embedding_bag, search, scatter, upsert, remove. "
        for op, way in (("top_k", 'POST /v1/top_k takes the tensor as "x": {"ref": "NAME"}'), ("einsum", 'POST /v1/einsum takes the tensor as "inputs": [{"ref": "NAME"}]'),
                        ("nothing", "Tensor names cannot contain '/'")):
            detail = self.assertProblem(self.look(name, op, {}), 404, "UNKNOWN_OP")["detail"]
            self.assertIn(listed + way, detail)
        self.assertProblem(self.look(name, "upser", {}), 404, "UNKNOWN_OP", did_you_mean="upsert")

    def test_errors_name_the_table_and_the_members_of_the_body(self):
        name, _ = self.resident([[1, 2], [3, 4]])
        table = f"; params is the table '{name}'"
        self.assertStatus(self.request("PUT", f"/v1/tensors/{name}/keys", ["a", "b"]), 201)
        int64 = {"dtype": "int64", "data": [1]}
        for op, body, detail, members in (
                ("lookup", {"keys": ["a", "c"]}, 'keys[1] = "c" is not one of the keys; the first key is "a"', {"input": "keys", "position": [1]}),
                ("lookup", {"queries": ["c"]}, 'queries[0] = "c" is not one of the keys; the first key is "a"', {"input": "queries"}),
                ("lookup", {"keys": [True]}, "true is not a string; expected dtype string, as in the keys of the table", {"input": "keys", "pointer": "/keys/0"}),
                ("lookup", {"keys": int64}, "keys has dtype int64 and the keys of the table string; the dtypes must be equal: pass it as string", {"input": "keys"}),
                ("find", {"keys": int64}, "keys has dtype int64 and the keys of the table string; the dtypes must be equal: pass it as string", {"input": "keys"}),
                ("upsert", {"keys": int64, "rows": [[1, 2]]}, "keys has dtype int64 and table.keys string; the dtypes must be equal: pass it as string", {"input": "keys"}),
                ("lookup", {"keys": ["a"], "missing": "default", "default": [1, 2, 3]},
                 "default has shape [3]; expected a scalar, a row of params, which has shape [2], or one such row per query" + table, {"input": "default"}),
                ("upsert", {"keys": ["a"], "rows": [[1]]}, "rows has shape [1,1]; expected one row of params per key, [1,2]" + table, {"input": "rows"}),
                ("scatter", {"indices": [[7]], "updates": [[1, 2]]}, "indices[0,0] = 7 is not in [0, 2): tuple [7] indexes dimension 0 of params [2,2]" + table, {"position": [0, 0]}),
                ("gather", {"keys": ["a"], "indices": [0]}, "both indices and keys are given; expected only one of them", {"pointer": "/indices"}),
                ("lookup", {"keys": ["a"], "queries": ["b"]}, "both queries and keys are given; expected only one of them", {"pointer": "/queries", "input": "queries"}),
                ("gather", '{"keys": ["a"], "keys": ["b"]}', "keys is given twice", {"pointer": "/keys"})):
            with self.subTest(op, body=body):
                reply = self.look(name, op, body.encode() if isinstance(body, str) else body)
                self.assertEqual(self.assertAnyProblem(reply)["detail"], detail)
                self.assertProblem(reply, reply.status, reply.json()["code"], **members)

    def test_missing_row_numbers_lead_to_keys_where_the_table_has_some(self):
        name, _ = self.resident({"tensor": [[1], [2]], "keys": ["a", "b"]})
        self.assertIn('; rows are found by key with "keys": [...] instead', self.assertAnyProblem(self.look(name, "gather", {}))["detail"])
        name, _ = self.resident([[1], [2]])
        self.assertNotIn("found by key", self.assertAnyProblem(self.look(name, "gather", {}))["detail"])

    def test_keys_for_an_op_that_takes_row_numbers_lead_to_find(self):
        name, _ = self.resident({"tensor": [[1], [2]], "keys": ["a", "b"]})
        self.assertProblem(self.look(name, "gather_nd", {"keys": ["b"]}), 400, "MALFORMED_REQUEST", input="keys",
                           detail=f"gather_nd takes row numbers, not keys; POST /v1/tensors/{name}/find gives the row numbers of keys")

    def test_errors_call_an_input_of_safetensors_what_the_body_calls_it(self):
        name, _ = self.resident({"tensor": [[1.5], [2.5]], "keys": [5, 6]})
        queries, _ = self.resident({"dtype": "int64", "data": [[5, 9]]})
        keys, number = ("int64", [1, 2], pack("int64", [5, 9])), ("int64", [1], pack("int64", [0]))
        for op, own in (("gather", "indices"), ("embedding_bag", "indices"), ("lookup", "queries")):
            both = f"both {own} and keys are given; expected only one of them"
            for tensors, metadata, detail, called in (
                    ({"keys": keys}, {}, "keys[0,1] = 9 is not one of the keys; the first key is 5", "keys"),
                    ({}, {"keys.ref": queries}, "keys[0,1] = 9 is not one of the keys; the first key is 5", "keys"),
                    ({"keys": ("float32", [1, 1], bytes(4))}, {}, None, "keys"),
                    ({own: number, "keys": keys}, {}, both, "keys"), ({"keys": keys, own: number}, {}, both, own),
                    ({own: number}, {"keys.ref": queries}, both, "keys"), ({"keys": keys}, {own + ".ref": queries}, both, own),
                    ({"keys": keys}, {"keys.ref": queries}, "keys is given twice", "keys")):
                with self.subTest(op, detail=detail, called=called):
                    problem = self.assertAnyProblem(self.look(name, op, safetensors(tensors, metadata), headers=BINARY))
                    self.assertEqual((problem["detail"], problem["input"]), (detail or problem["detail"], called))
        for op in ("gather", "embedding_bag"):
            problem = self.assertAnyProblem(self.look(name, op, safetensors({"indices.keys": keys}), headers=BINARY))
            self.assertEqual((problem["detail"], problem["input"]), ("indices[0,1] = 9 is not one of the keys; the first key is 5", "indices"))
            for order in (("keys", "indices.keys"), ("indices.keys", "keys")):
                problem = self.assertAnyProblem(self.look(name, op, safetensors({each: keys for each in order}), headers=BINARY))
                self.assertEqual((problem["detail"], problem["input"]),
                                 ("both indices.keys and keys are given; expected only one of them", order[1].split(".")[0]))

    def test_only_post(self):
        name, _ = self.resident([1, 2])
        for method in ("GET", "PUT", "DELETE"):
            reply = self.request(method, f"/v1/tensors/{name}/gather")
            self.assertProblem(reply, 405, "METHOD_NOT_ALLOWED")
            self.assertEqual(reply.headers["Allow"], "POST")

    def test_errors_of_the_op(self):
        name, _ = self.resident([1, 2])
        self.assertProblem(self.look(name, "gather", {"indices": [0, 2]}), 422, "INDEX_OUT_OF_BOUNDS", input="indices", position=[1],
                           index=2, bound=2)
        self.assertProblem(self.look(name, "gather", {}), 422, "INVALID_ARGUMENT", input="indices")
        self.assertProblem(self.look(name, "gather", {"indices": [0], "axes": 1}), 400, "MALFORMED_REQUEST", did_you_mean="axis")
        reply = self.look(name, "gather", {"indices": [7]})
        self.assertNotIn(TABLE, reply.headers)

    def test_hostile_names(self):
        for path, status in (("%2e%2e", 404), ("..", 404), ("a%2Fb", 404), ("%2Fetc%2Fpasswd", 404), ("%00", 400), ("t%00", 400), ("%", 400),
                             ("%zz", 400), ("%FF%FE", 404), ("%0d%0aX-Evil:%201", 404), ("x" * 2000, 404), ("a@b@c", 404), ("@", 404),
                             ("%22%7d", 404), (".hidden", 404)):
            with self.subTest(path):
                reply = self.look(path, "gather", {"indices": [0]})
                self.assertEqual(reply.status, status, str(reply))
                self.assertAnyProblem(reply)
                self.assertNotIn("X-Evil", reply.headers)
        self.assertServes()
