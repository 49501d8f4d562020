"""POST /v1/programs/run over HTTP: formats, resident tables, limits. What programs compute and refuse is tested in process:
tests/kernels/program, tests/api/programs, tests/conformance/cases/programs.jsonl."""
from daemon import *


def program(steps, outputs, **inputs):
    return {"inputs": inputs, "steps": steps, "outputs": outputs}


SQUARE = [{"op": "square", "x": "$x", "as": "y"}]


class Programs(HttpTest):
    def run_program(self, body, query="", headers=None):
        return self.request("POST", "/v1/programs/run" + query, body, headers)

    def test_one_output_is_named(self):
        reply = self.run_program(program(SQUARE, ["y"], x=[2, 3]))
        self.assertStatus(reply, 200)
        self.assertEqual(reply.json(), {"outputs": {"y": {"dtype": "int32", "shape": [2], "data": [4, 9]}}})

    def test_members_of_the_whole_program(self):
        reply = self.run_program({**program(SQUARE, ["y"], x=[2]), "response": "base64"}, "?timing=1")
        self.assertStatus(reply, 200)
        self.assertEqual(reply.json()["outputs"]["y"], {"dtype": "int32", "shape": [1], "base64": "BAAAAA=="})
        self.assertIn("compute", reply.headers["Server-Timing"])
        self.assertProblem(self.run_program({**program(SQUARE, ["y"], x=[2]), "inptus": {}}), 400, "MALFORMED_REQUEST", pointer="/inptus")

    def test_timing_tells_how_long_each_step_took(self):
        steps = [{"op": "gather", "params": "$x", "indices": [0, 7], "bounds": "zero", "as": "a"}, {"op": "square", "x": "$a", "as": "b"},
                 {"op": "negative", "x": "$b", "as": "y"}]
        reply = self.run_program(program(steps, ["y"], x=[2, 3]), "?timing=1").json()
        self.assertEqual([{k: v for k, v in step.items() if k != "ms"} for step in reply["steps"]],
                         [{"step": 0, "as": "a"}, {"step": 1, "last": 2, "as": "y"}])
        self.assertTrue(all(step["ms"] >= 0 for step in reply["steps"]))
        binary = self.run_program(program(steps, ["y"], x=[2, 3]), "?timing=1", {"Accept": "application/vnd.safetensors"})
        metadata = json.loads(binary.body[8:8 + int.from_bytes(binary.body[:8], "little")])["__metadata__"]
        self.assertEqual(sorted(metadata), ["bounds.0.policy", "bounds.0.replaced", "steps.0.ms", "steps.1.ms"])
        self.assertNotIn("steps", self.run_program(program(steps, ["y"], x=[2, 3])).json())

    def test_steps_read_resident_tables(self):
        self.assertStatus(self.request("PUT", "/v1/tensors/rows", [[1, 2], [3, 4], [5, 6]]), 201)
        steps = [{"op": "gather", "params": {"ref": "rows"}, "indices": "$i", "as": "picked"},
                 {"op": "reduce_sum", "x": "$picked", "axes": [1], "as": "y"}]
        reply = self.run_program(program(steps, ["y"], i=[2, 0]))
        self.assertStatus(reply, 200)
        self.assertEqual(reply.json()["outputs"]["y"]["data"], [11, 3])
        steps[0]["params"] = {"ref": "row"}
        self.assertProblem(self.run_program(program(steps, ["y"], i=[0])), 404, "TENSOR_NOT_FOUND", did_you_mean="rows", step=0)
        self.request("DELETE", "/v1/tensors/rows")

    def test_steps_find_rows_by_key(self):
        table = {"tensor": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], "keys": ["a", "b", "c"]}
        self.assertStatus(self.request("PUT", "/v1/tensors/keyed", table), 201)
        self.addCleanup(self.request, "DELETE", "/v1/tensors/keyed")
        ref = {"ref": "keyed"}
        gather = {"op": "gather", "params": ref, "indices": {"keys": "$q"}, "as": "y"}
        lookup = {"op": "lookup", "params": ref, "queries": "$q", "as": {"output": "z"}}
        reply = self.run_program(program([gather, lookup], ["y", "z"], q=["c", "a"])).json()["outputs"]
        self.assertEqual([reply[name]["data"] for name in "yz"], [[[1, 1], [1, 0]]] * 2)
        search = {"op": "search", "params": ref, "queries": "$v", "k": 2, "as": {"keys": "near"}}
        chain = [search, {**gather, "indices": {"keys": "$near"}}]
        reply = self.run_program(program(chain, ["near", "y"], v=[0.0, 2.0])).json()["outputs"]
        self.assertEqual((reply["near"]["data"], reply["y"]["data"]), (["b", "c"], [[0, 1], [1, 1]]))
        for step, q, code, members in ((gather, ["a", "x"], "KEY_NOT_FOUND", {"step": 0, "key": "x", "position": [1]}),
                                       ({**gather, "bounds": "clip"}, ["a"], "INVALID_ARGUMENT", {"attribute": "bounds"}),
                                       ({**gather, "params": [1, 2]}, ["a"], "INVALID_ARGUMENT", {"input": "indices"}),
                                       (gather, [1], "UNSUPPORTED_DTYPE", {"input": "indices"})):
            self.assertProblem(self.run_program(program([step], ["y"], q=q)), 422, code, **members)
        self.assertEqual(self.run_program(program([{**gather, "bounds": "zero"}], ["y"], q=["x"])).json()["outputs"]["y"]["data"], [[0, 0]])
        both = {**gather, "indices": {"keys": "$q", "data": 1}}
        self.assertProblem(self.run_program(program([both], ["y"], q=["a"])), 400, "MALFORMED_REQUEST", pointer="/steps/0/indices/data")

    def test_keys_that_a_step_computes(self):
        self.assertStatus(self.request("PUT", "/v1/tensors/numbered", {"tensor": [10, 20, 30], "keys": [7, 8, 9]}), 201)
        self.addCleanup(self.request, "DELETE", "/v1/tensors/numbered")
        steps = [{"op": "add", "x": "$q", "y": 1, "as": "next"}, {"op": "gather", "params": {"ref": "numbered"}, "indices": {"keys": "$next"}, "as": "y"}]
        for dtype in ("int32", "int64"):
            reply = self.run_program(program(steps, ["y"], q={"dtype": dtype, "data": [8, 6]}))
            self.assertEqual(reply.json()["outputs"]["y"]["data"], [30, 10])

    def test_a_step_cannot_leave_out_a_part_of_a_quantised_table(self):
        for name, value in (("q", {"dtype": "int8", "data": [[1, 2], [3, 4]]}), ("q.scale", {"dtype": "float32", "shape": [], "data": 0.5}), ("q.offset", {"dtype": "float32", "shape": [], "data": 1})):
            self.assertStatus(self.request("PUT", "/v1/tensors/" + name, value), 201)
            self.addCleanup(self.request, "DELETE", "/v1/tensors/" + name)
        step = {"op": "embedding_bag", "params": {"ref": "q"}, "indices": "$i", "offsets": [0], "scale": {"ref": "q.scale"}, "as": "y"}
        self.assertProblem(self.run_program(program([step], ["y"], i=[0])), 422, "INVALID_ARGUMENT", step=0, input="offset")
        reply = self.run_program(program([{**step, "offset": {"ref": "q.offset"}}], ["y"], i=[0]))
        self.assertEqual(reply.json()["outputs"]["y"]["data"], [[1.5, 2.0]])

    def test_the_outputs_can_be_stored(self):
        reply = self.run_program({**program(SQUARE, ["y"], x=[2, 3]), "store": "kept"})
        self.assertStatus(reply, 200)
        self.assertEqual(reply.json()["outputs"]["y"]["name"], "kept.y")
        self.assertEqual(self.post("/v1/gather", {"params": {"ref": "kept.y"}, "indices": 1}).json()["output"]["data"], 9)
        self.request("DELETE", "/v1/tensors/kept.y")

    def test_single_outputs_can_be_stored(self):
        steps = [{"op": "top_k", "x": "$x", "k": 2, "as": {"values": "best", "indices": "place"}}]
        for name in ("one", "two"):
            self.addCleanup(self.request, "DELETE", "/v1/tensors/" + name)
        body = program(steps, ["best", "place"], x=[3.0, 9.0, 5.0])
        reply = self.run_program({**body, "store": {"best": "one", "ttl_s": 600}})
        self.assertStatus(reply, 200)
        self.assertEqual({k: (t["name"], t["ttl_s"]) for k, t in reply.json()["outputs"].items()}, {"best": ("one", 600)})
        reply = self.run_program({**body, "store": {"place": "two", "best": "one"}}).json()["outputs"]
        self.assertEqual({k: t["name"] for k, t in reply.items()}, {"best": "one", "place": "two"})
        self.assertEqual(self.get("/v1/tensors/two?response=nested").json()["data"], [1, 2])
        for store, pointer in (({"bset": "one"}, "/store/bset"), ({"best": "one", "name": "two"}, "/store"), ({"best": "one", "place": "one"}, "/store/place"),
                               ({"best": 1}, "/store/best"), ({"ttl_s": 1}, "/store"), ({}, "/store")):
            self.assertProblem(self.run_program({**body, "store": store}), 400, "MALFORMED_REQUEST", pointer=pointer)
        self.assertProblem(self.run_program({**body, "store": {"best": "a b"}}), 422, "INVALID_ARGUMENT")

    def test_outputs_of_unknown_size_are_converted(self):
        steps = [{"op": "dynamic_partition", "data": "$x", "partitions": "$p", "num_partitions": 2, "as": ["few", "many"]}]
        for dtype, converted in (("float32", "float16"), ("int32", "int32")):
            x = {"dtype": dtype, "data": list(range(200))}
            reply = self.run_program(program(steps, ["few", "many"], x=x, p={"dtype": "int32", "data": [0] + [1] * 199}), "?output_dtype=float16").json()["outputs"]
            self.assertEqual([(reply[k]["dtype"], reply[k]["shape"]) for k in ("few", "many")], [(converted, [1]), (converted, [199])])
            self.assertEqual(reply["many"]["data"], list(range(1, 200)))

    def test_a_program_has_at_most_64_outputs(self):
        steps = [{"op": "negative", "x": "$x", "as": f"y{i}"} for i in range(65)]
        names = [f"y{i}" for i in range(65)]
        self.assertEqual(len(self.run_program(program(steps[:64], names[:64], x=[1])).json()["outputs"]), 64)
        self.assertProblem(self.run_program(program(steps, names, x=[1])), 422, "RESOURCE_LIMIT", resource="outputs", limit=64, pointer="/outputs")

    def test_the_reply_can_be_binary(self):
        reply = self.run_program(program(SQUARE, ["y"], x=[2, 3]), headers={"Accept": "application/vnd.safetensors"})
        self.assertStatus(reply, 200)
        self.assertEqual(reply.headers["Content-Type"], "application/vnd.safetensors")
        self.assertIn(b'"y":{"dtype":"I32","shape":[2]', reply.body)

    def test_replaced_indices_name_their_step(self):
        steps = [{"op": "gather", "params": "$x", "indices": [0, 7], "bounds": "zero", "as": "a"},
                 {"op": "gather", "params": "$a", "indices": [1, 0], "as": "b"},
                 {"op": "gather", "params": "$b", "indices": [-1, 5, 0], "bounds": "clip", "as": "y"}]
        reply = self.run_program(program(steps, ["y"], x=[4, 5]))
        self.assertStatus(reply, 200)
        self.assertEqual(reply.json()["bounds"], [{"step": 0, "policy": "zero", "replaced": 1}, {"step": 2, "policy": "clip", "replaced": 2}])

    def test_a_program_runs_on_a_device_or_is_refused(self):
        on_gpu = {**program(SQUARE, ["y"], x=[2]), "device": "gpu"}
        self.assertProblem(self.run_program(on_gpu), 503, "DEVICE_UNAVAILABLE")
        steps = [{"op": "find", "keys": "$words", "queries": ["a"], "as": "row"}, {"op": "add", "x": "$row", "y": 1, "as": "y"}]
        words = program(steps, ["y"], words=["b", "a"])
        with Daemon("--gpu", "reference") as server, Client(server) as client:
            reply = client.request("POST", "/v1/programs/run", on_gpu)
            self.assertEqual((reply.status, reply.json()["outputs"]["y"]["data"]), (200, [4]))
            gpu = client.request("GET", "/v1/devices").json()["devices"][1]
            self.assertEqual((gpu["batches"], gpu["requests"]), (1, 1))
            self.assertEqual(client.request("POST", "/v1/programs/run", {**words, "device": "auto"}).status, 200)
            reply = client.request("POST", "/v1/programs/run", {**words, "device": "gpu"})
            self.assertEqual((reply.status, reply.json()["code"], reply.json()["step"]), (422, "UNSUPPORTED_DTYPE", 0))
            reply = client.request("POST", "/v1/programs/run", {**program([{"op": "gather", "params": "$x", "indices": [0, 7], "as": "y"}], ["y"], x=[4, 5]), "device": "gpu"})
            self.assertEqual((reply.status, reply.json()["code"], reply.json()["step"]), (422, "INDEX_OUT_OF_BOUNDS", 0))

    def test_a_program_is_json(self):
        reply = self.request("POST", "/v1/programs/run", b"x", {"Content-Type": "application/vnd.safetensors"})
        self.assertProblem(reply, 415, "UNSUPPORTED_MEDIA_TYPE")
        self.assertProblem(self.request("GET", "/v1/programs/run"), 405, "METHOD_NOT_ALLOWED")

    def test_the_sum_of_all_steps_is_limited(self):
        with Daemon("--max-flops", "1000") as server, Client(server) as client:
            small = program(SQUARE, ["y"], x=[1] * 600)
            twice = program(SQUARE + [{"op": "negative", "x": "$x", "as": "z"}], ["y", "z"], x=[1] * 600)
            self.assertEqual(client.request("POST", "/v1/programs/run", small).status, 200)
            reply = client.request("POST", "/v1/programs/run", twice)
            self.assertEqual((reply.status, reply.json()["resource"]), (422, "flops"))

    def test_operations_of_unknown_number_are_limited(self):
        steps = [{"op": "cast", "x": "$p", "dtype": "int32", "as": "q"},
                 {"op": "dynamic_partition", "data": "$x", "partitions": "$q", "num_partitions": 1, "as": ["y"]}, {"op": "square", "x": "$y", "as": "z"}]
        with Daemon("--max-flops", "1000") as server, Client(server) as client:
            for n, status in ((400, 200), (600, 422)):
                reply = client.request("POST", "/v1/programs/run", program(steps, ["z"], x=[1] * n, p={"dtype": "int64", "data": [0] * n}))
                self.assertEqual(reply.status, status, reply.body[:300])
            problem = reply.json()
            self.assertEqual((problem["resource"], problem["step"], problem["limit"]), ("flops", 2, 1000))
            self.assertIn("--max-flops", problem["detail"])

    def test_an_output_of_unknown_size_is_limited(self):
        steps = [{"op": "cast", "x": "$p", "dtype": "int32", "as": "q"},
                 {"op": "dynamic_partition", "data": "$x", "partitions": "$q", "num_partitions": 1, "as": ["y"]}]
        with Daemon("--max-output", "4096") as server, Client(server) as client:
            for n, status in ((100, 200), (2000, 422)):
                reply = client.request("POST", "/v1/programs/run", program(steps, ["y"], x=[1] * n, p={"dtype": "int64", "data": [0] * n}))
                self.assertEqual(reply.status, status, reply.body[:300])
            self.assertEqual((reply.json()["resource"], reply.json()["step"]), ("output_bytes", 1))

    def test_a_refusal_releases_the_program(self):
        """A refusal for want of memory frees the request, and with it the program, before the error is written."""
        with Daemon("--max-output", "2048") as server, Client(server) as client:
            reply = client.request("POST", "/v1/programs/run", program(SQUARE, ["y"], x=[1] * 600))
            self.assertEqual((reply.status, reply.json()["op"]), (422, "programs/run"))

    def test_requests_are_counted(self):
        self.run_program(program(SQUARE, ["y"], x=[1]))
        self.assertIn(b'tensord_requests_total{op="run_program"', self.request("GET", "/metrics").body)


class Memory(HttpTest):
    options = ("--memory-limit", "64M")

    def test_small_results_of_unknown_size_share_memory(self):
        names = [f"part{i}" for i in range(1500)]
        steps = [{"op": "cast", "x": "$to", "dtype": "int32", "as": "partition"},
                 {"op": "dynamic_partition", "data": "$x", "partitions": "$partition", "num_partitions": len(names), "as": names},
                 {"op": "concat", "inputs": ["$" + name for name in names], "as": "y"}]
        reply = self.request("POST", "/v1/programs/run", program(steps, ["y"], x=list(range(len(names))), to=list(range(len(names)))[::-1]))
        self.assertStatus(reply, 200)
        self.assertEqual(reply.json()["outputs"]["y"]["data"], list(range(len(names)))[::-1])


if __name__ == "__main__":
    main()
