"""Stored programs: PUT, GET, DELETE and POST of /v1/programs/{program}, /v1/programs/plan, versions and aliases, the data folder,
tokens, and models of /v2. What the text of a program can contain is tested in process: tests/api/programs."""
import concurrent.futures, os, struct
from oip_client import *

FLOATS = {"dtype": "float32", "shape": ["n"]}
BEST = {"inputs": {"x": FLOATS}, "outputs": ["best"],
        "steps": [{"op": "top_k", "x": "$x", "k": {"attr": "k", "default": 1}, "as": {"values": "best"}}]}
LOOKUP = {"inputs": {"i": {"dtype": "int32", "shape": ["n"]}}, "outputs": ["y"],
          "steps": [{"op": "gather", "params": {"ref": "rows"}, "indices": "$i", "as": "y"}]}


def square(n):
    """x to the power of 2 ** n"""
    names = ["x"] + [f"y{i}" for i in range(n)]
    return {"inputs": {"x": FLOATS}, "outputs": names[-1:],
            "steps": [{"op": "square", "x": f"${names[i]}", "as": names[i + 1]} for i in range(n)]}


class ProgramTest(HttpTest):
    def put_program(self, name, program, status=201, query="", headers=None):
        self.addCleanup(self.request, "DELETE", f"/v1/programs/{name}")
        reply = self.request("PUT", f"/v1/programs/{name}{query}", program, headers)
        self.assertStatus(reply, status)
        return reply

    def call(self, name, body, query="", headers=None):
        return self.request("POST", f"/v1/programs/{name}{query}", body, headers)

    def values(self, reply):
        self.assertStatus(reply, 200)
        return {name: tensor["data"] for name, tensor in reply.json()["outputs"].items()}


class Stored(ProgramTest):
    def test_a_program_is_stored_described_replaced_and_deleted(self):
        reply = self.put_program("best", BEST)
        self.assertEqual(reply.headers["Location"], "/v1/programs/best")
        first = reply.json()
        self.assertEqual(reply.headers["ETag"], first["etag"])
        self.assertEqual((first["name"], first["ready"], first["persisted"]), ("best", True, False))
        self.assertEqual(first["inputs"], [{"name": "x", **FLOATS}])
        self.assertEqual(first["outputs"], [{"name": "best", "dtype": "float32", "shape": [None]}])
        self.assertEqual([a["name"] for a in first["arguments"]], ["k"])
        self.assertEqual(first["steps"][0]["op"], "top_k")
        self.assertEqual(first["program"], BEST)
        got = self.get("/v1/programs/best")
        self.assertEqual(got.json(), first)
        # The description also depends on the tables, so it is sent again.
        self.assertStatus(self.request("GET", "/v1/programs/best", headers={"If-None-Match": first["etag"]}), 200)
        second = self.put_program("best", square(1), 200).json()
        self.assertGreater(second["version"], first["version"])
        self.assertEqual(self.get("/v1/programs/best").json()["program"], square(1))
        self.assertStatus(self.request("DELETE", "/v1/programs/best"), 204)
        self.assertProblem(self.get("/v1/programs/best"), 404, "TENSOR_NOT_FOUND")
        self.assertProblem(self.request("DELETE", "/v1/programs/best"), 404, "TENSOR_NOT_FOUND")

    def test_the_text_keeps_its_form(self):
        text = b'{"inputs": {"x": {"dtype": "float32", "shape": []}},\n "steps": [{"op": "abs", "x": "$x", "as": "y"}],\n "outputs": ["y"]}\n'
        self.put_program("form", text)
        self.assertIn(b'"program":' + text.strip(), self.get("/v1/programs/form").body)

    def test_errors_call_a_program_by_its_name(self):
        etag = self.put_program("named", BEST).json()["etag"]
        other = '"0123456789abcdef"'
        for method, headers, detail in (
                ("PUT", {"If-None-Match": "*"}, "the program 'named' exists, but If-None-Match: * requires"),
                ("PUT", {"If-None-Match": etag}, "the program 'named' still has an ETag"),
                ("PUT", {"If-Match": other}, "If-Match does not match the current version of the program 'named'"),
                ("DELETE", {"If-Match": other}, "If-Match does not match the current version of the program 'named'"),
                ("GET", {"If-Match": other}, "If-Match does not match the current version of the program 'named'")):
            problem = self.assertProblem(self.request(method, "/v1/programs/named", BEST if method == "PUT" else None, headers), 412, "PRECONDITION_FAILED")
            self.assertTrue(problem["detail"].startswith(detail), problem["detail"])
        problem = self.assertProblem(self.request("PUT", "/v1/programs/absent", BEST, {"If-Match": other}), 412, "PRECONDITION_FAILED")
        self.assertEqual(problem["detail"], "If-Match requires a version of the program 'absent', which does not exist")

    def test_conditions_apply_to_writes(self):
        etag = self.put_program("best", BEST).json()["etag"]
        self.assertProblem(self.request("PUT", "/v1/programs/best", square(1), {"If-None-Match": "*"}), 412, "PRECONDITION_FAILED")
        self.put_program("best", square(1), 200, headers={"If-Match": etag})
        self.assertProblem(self.request("PUT", "/v1/programs/best", BEST, {"If-Match": etag}), 412, "PRECONDITION_FAILED")
        self.assertProblem(self.request("DELETE", "/v1/programs/best", None, {"If-Match": etag}), 412, "PRECONDITION_FAILED")

    def test_a_program_that_does_not_fit_its_table_any_more_is_not_ready(self):
        steps = [{"op": "add", "x": "$x", "y": {"ref": "grown"}, "as": "y"}]
        self.assertStatus(self.request("PUT", "/v1/tensors/grown", [1.0, 2.0]), 201)
        self.addCleanup(self.request, "DELETE", "/v1/tensors/grown")
        self.put_program("sum", {"inputs": {"x": {"dtype": "float32", "shape": [2]}}, "steps": steps, "outputs": ["y"]})
        self.request("PUT", "/v1/tensors/grown", [1.0, 2.0, 3.0])
        described = self.get("/v1/programs/sum").json()
        self.assertEqual((described["ready"], described["program"]["steps"]), (False, steps))
        self.assertIn("[3]", described["reason"])
        self.assertNotEqual(self.get("/v2/models/sum/ready").status, 200)

    def test_a_name_with_a_nul_is_no_name(self):
        self.put_program("best", BEST)
        self.assertProblem(self.request("POST", "/v1/programs/best", {"x": [1], "store": {"best": "a\u0000b"}}), 400, "MALFORMED_REQUEST", pointer="/store/best")
        steps = [{"op": "add", "x": "$x", "y": {"ref": "a\u0000b"}, "as": "y"}]
        self.assertFalse(self.put_program("nul", {"inputs": {"x": FLOATS}, "steps": steps, "outputs": ["y"]}).json()["ready"])

    def test_what_arguments_decide_is_not_known(self):
        steps = [{"op": "cast", "x": "$x", "dtype": {"attr": "to", "default": "int32"}, "as": "a"},
                 {"op": "reduce_sum", "x": "$x", "keepdims": {"attr": "keep", "default": False}, "as": "b"}]
        outputs = self.put_program("open", {"inputs": {"x": FLOATS}, "steps": steps, "outputs": ["a", "b"]}).json()["outputs"]
        self.assertEqual([(t["dtype"], t["shape"]) for t in outputs], [(None, None), ("float32", None)])

    def test_programs_that_would_take_much_memory_are_refused(self):
        many = {"inputs": {"x": FLOATS}, "outputs": ["y"], "steps": [{"op": "stack", "inputs": [1] * 16000, "as": f"s{i}"} for i in range(4)] +
                [{"op": "concat", "inputs": [f"$s{i}" for i in range(4)], "as": "all"}, {"op": "gather", "params": "$x", "indices": "$all", "as": "y"}]}
        problem = self.assertProblem(self.request("PUT", "/v1/programs/many", many), 422, "RESOURCE_LIMIT", resource="compiled_bytes")
        self.assertIn("the program 'many'", problem["detail"])
        self.assertIn("move the constants into a table", problem["detail"])
        concat = [{"op": "concat", "inputs": ["$x"] * 16384, "as": f"y{i}"} for i in range(5)]
        self.assertProblem(self.request("PUT", "/v1/programs/many", {"inputs": {"x": FLOATS}, "steps": concat, "outputs": [f"y{i}" for i in range(5)]}),
                           422, "RESOURCE_LIMIT", resource="operands", limit=65536, step=4)
        split = {"op": "dynamic_partition", "data": [1], "partitions": [0], "num_partitions": 5000, "as": ["y"] + [None] * 4999}
        self.assertProblem(self.request("PUT", "/v1/programs/many", {"inputs": {}, "steps": [split], "outputs": ["y"]}), 422, "RESOURCE_LIMIT",
                           resource="results", limit=4096)

    def test_a_program_has_at_most_8_arguments(self):
        def sums(n):
            names = ["x"] + [f"y{i}" for i in range(n)]
            return {"inputs": {"x": FLOATS}, "outputs": names[-1:],
                    "steps": [{"op": "cumsum", "x": f"${names[i]}", "axis": {"attr": f"axis{i}", "default": 0}, "as": names[i + 1]} for i in range(n)]}
        self.assertEqual(len(self.put_program("sums", sums(8)).json()["arguments"]), 8)
        problem = self.assertProblem(self.request("PUT", "/v1/programs/sums", sums(9)), 422, "RESOURCE_LIMIT",
                                     resource="arguments", needed=9, limit=8, step=8, pointer="/steps/8/axis")
        self.assertIn("the program needs 9 arguments; the limit is 8; one argument can set attributes of several steps", problem["detail"])

    def test_programs_are_listed_in_pages(self):
        for name in ("list-b", "list-a", "list-a@2"):
            self.put_program(name, BEST)
        names = lambda query: [p["name"] for p in self.get("/v1/programs?prefix=list-" + query).json()["programs"]]
        self.assertEqual(names(""), ["list-a", "list-a@2", "list-b"])
        self.assertEqual(self.get("/v1/programs?prefix=list-&limit=2").json()["next"], "list-a@2")
        self.assertEqual(names("&after=list-a@2"), ["list-b"])
        self.assertProblem(self.get("/v1/programs?name=x"), 400, "MALFORMED_REQUEST")

    def test_a_program_that_is_wrong_is_not_stored(self):
        wrong = {"inputs": {"x": FLOATS}, "steps": [{"op": "squar", "x": "$x", "as": "y"}], "outputs": ["y"]}
        self.assertProblem(self.request("PUT", "/v1/programs/wrong", wrong), 404, "UNKNOWN_OP", pointer="/steps/0/op", did_you_mean="square")
        wrong["steps"][0] = {"op": "einsum", "equation": "ij->i", "inputs": ["$x"], "as": "y"}
        problem = self.assertProblem(self.request("PUT", "/v1/programs/wrong", wrong), 422, "SHAPE_MISMATCH", step=0)
        self.assertRegex(problem["detail"], "n = [0-9]+")
        self.assertProblem(self.request("PUT", "/v1/programs/wrong", b"{"), 400, "MALFORMED_REQUEST")
        self.assertProblem(self.request("PUT", "/v1/programs/wrong", b"x" * ((1 << 20) + 1)), 413, "PAYLOAD_TOO_LARGE")
        self.assertProblem(self.request("PUT", "/v1/programs/wrong?persits=1", BEST), 400, "MALFORMED_REQUEST", did_you_mean="persist")
        self.assertProblem(self.request("PUT", "/v1/programs/wrong?persist=1", BEST), 422, "INVALID_ARGUMENT")  # there is no data folder
        self.assertProblem(self.request("PUT", "/v1/programs/wrong", BEST, {"Content-Type": "application/x-npy"}), 415, "UNSUPPORTED_MEDIA_TYPE")
        self.assertProblem(self.get("/v1/programs/wrong"), 404, "TENSOR_NOT_FOUND")

    def test_a_check_has_the_reply_of_the_put_and_stores_nothing(self):
        checked = self.put_program("checked", BEST, 200, "?check=1")
        self.assertNotIn("ETag", checked.headers)
        self.assertProblem(self.get("/v1/programs/checked"), 404, "TENSOR_NOT_FOUND")
        stored = self.put_program("checked", BEST, 201, "?check=0")
        expected = {name: value for name, value in stored.json().items() if name not in ("version", "etag")}
        self.assertEqual(checked.json(), expected)
        self.assertEqual(self.put_program("checked", square(1), 200, "?check=1").json()["program"], square(1))
        self.assertEqual(self.get("/v1/programs/checked").json(), stored.json())
        wrong = {**BEST, "outputs": ["bset"]}
        first, second = (self.assertProblem(self.request("PUT", f"/v1/programs/checked{query}", wrong), 400, "MALFORMED_REQUEST", pointer="/outputs/0") for query in ("", "?check=1"))
        self.assertEqual(first["detail"], second["detail"])
        self.assertFalse(self.put_program("lookup", LOOKUP, 200, "?check=1").json()["ready"])
        self.assertProblem(self.request("PUT", "/v1/programs/checked?check=1", BEST, {"If-None-Match": "*"}), 412, "PRECONDITION_FAILED")
        for query, detail in (("check=2", "check is"), ("check=1&check=1", "check is given twice"), ("chekc=1", 'PUT of a program has no query parameter "chekc"; expected persist or check')):
            problem = self.assertProblem(self.request("PUT", f"/v1/programs/checked?{query}", BEST), 400, "MALFORMED_REQUEST")
            self.assertTrue(problem["detail"].startswith(detail), problem["detail"])

    def test_names(self):
        for name in ("run", "plan"):
            for method in ("GET", "PUT", "DELETE"):
                self.assertProblem(self.request(method, f"/v1/programs/{name}", BEST if method == "PUT" else None), 405, "METHOD_NOT_ALLOWED")
        for name in ("run@1", ".x", "a" * 125, "x@", "x.keys"):
            problem = self.assertProblem(self.request("PUT", f"/v1/programs/{name}", BEST), 422, "INVALID_ARGUMENT")
            self.assertNotIn(".program", problem["detail"])
        self.assertProblem(self.call("bset", {}), 404, "TENSOR_NOT_FOUND")
        self.put_program("best", BEST)
        self.assertProblem(self.call("bset", {}), 404, "TENSOR_NOT_FOUND", did_you_mean="best")


class Calls(ProgramTest):
    def test_inputs_and_arguments_stand_side_by_side(self):
        self.put_program("best", BEST)
        self.assertEqual(self.values(self.call("best", {"x": [3, 5, 4]})), {"best": [5.0]})
        self.assertEqual(self.values(self.call("best", {"x": [3, 5, 4], "k": 2})), {"best": [5.0, 4.0]})
        self.assertEqual(self.values(self.call("best", {"x": [3, 5, 4]}, "?k=3")), {"best": [5.0, 4.0, 3.0]})
        self.assertProblem(self.call("best", {"x": [3, 5], "k": 1}, "?k=2"), 400, "MALFORMED_REQUEST", attribute="k")
        self.assertProblem(self.call("best", {"x": [3, 5], "k": "a"}), 400, "MALFORMED_REQUEST", attribute="k")
        self.assertProblem(self.call("best", {"x": [3, 5], "K": 1}), 400, "MALFORMED_REQUEST", pointer="/K")
        self.assertProblem(self.call("best", {}), 422, "INVALID_ARGUMENT", input="x")
        self.assertProblem(self.call("best", {"x": [3], "k": 2}), 422, "INVALID_ARGUMENT", step=0)
        self.assertEqual(self.call("best", {"x": [3], "response": "base64"}).json()["outputs"]["best"]["base64"], "AABAQA==")

    def test_the_defaults_of_arguments_are_described(self):
        argument = lambda name, value: {"attr": name, "default": value}
        steps = [{"op": "transpose", "x": "$x", "perm": argument("perm", [1, 0]), "as": "a"},
                 {"op": "reshape", "x": "$a", "shape": argument("shape", [-1]), "as": "b"},
                 {"op": "reduce_sum", "x": "$b", "axes": argument("axes", []), "keepdims": argument("keep", True), "as": "c"},
                 {"op": "einsum", "equation": argument("equation", "...->..."), "inputs": ["$c"], "as": "d"},
                 {"op": "cast", "x": "$d", "dtype": argument("to", "int8"), "as": "y"}]
        expected = {"perm": [1, 0], "shape": [-1], "axes": [], "keep": True, "equation": "...->...", "to": "int8"}
        described = self.put_program("defaults", {"inputs": {"x": {"dtype": "float32", "shape": ["n", "m"]}}, "steps": steps, "outputs": ["y"]}).json()
        self.assertEqual({a["name"]: a["default"] for a in described["arguments"]}, expected)
        parameters = self.get("/v2/models/defaults").json()["parameters"]
        self.assertEqual({name: parameters[name]["default"] for name in expected}, expected)

    def test_an_argument_without_a_default_is_required(self):
        steps = [{"op": "top_k", "x": "$x", "k": {"attr": "k"}, "as": {"values": "best"}}, {"op": "slice", "x": "$best", "starts": [0], "stops": [1], "as": "y"}]
        self.put_program("required", {"inputs": {"x": FLOATS}, "steps": steps, "outputs": ["y"]})
        self.assertProblem(self.call("required", {"x": [1, 2]}), 422, "INVALID_ARGUMENT", attribute="k")
        self.assertEqual(self.values(self.call("required", {"x": [1, 2], "k": 2})), {"y": [2.0]})

    def test_a_missing_input_is_described(self):
        self.put_program("declared", {"inputs": {"x": {"dtype": "float32", "shape": ["n", 64]}}, "steps": [{"op": "abs", "x": "$x", "as": "y"}], "outputs": ["y"]})
        self.assertEqual(self.assertProblem(self.call("declared", {}), 422, "INVALID_ARGUMENT", input="x")["detail"], "x is missing; expected: float32 [n,64]")

    def test_a_resident_tensor_with_the_name_of_an_input_or_a_result(self):
        steps = [{"op": "abs", "x": "$x", "as": "rows"}, {"op": "add", "x": "$rows", "y": {"ref": "x"}, "as": "a"}, {"op": "add", "x": "$a", "y": {"ref": "rows"}, "as": "y"}]
        hint = '; to use the %s of the program, write "$%s"'
        of_input, of_result = hint % ('input "x"', "x"), hint % ('result "rows"', "rows")
        direct = lambda steps: self.assertProblem(self.post("/v1/programs/run", {"inputs": {"x": [1.5]}, "steps": steps, "outputs": ["y"]}), 404, "TENSOR_NOT_FOUND")
        self.assertTrue(direct(steps)["detail"].endswith(of_input))
        steps[1]["y"] = "$x"
        self.assertTrue(direct(steps)["detail"].endswith(of_result))
        steps[2]["y"] = {"ref": "$rows"}
        self.assertTrue(direct(steps)["detail"].endswith(of_result))
        steps[2]["y"] = {"ref": "y"}  # the result of this step, which does not exist yet
        self.assertTrue(direct(steps)["detail"].endswith("GET /v1/tensors lists them"))
        steps[2]["y"] = {"ref": "rows"}
        program = {"inputs": {"x": FLOATS}, "steps": steps, "outputs": ["y"]}
        self.assertTrue(self.put_program("mixed", program).json()["reason"].endswith(of_result))
        self.assertTrue(self.assertProblem(self.call("mixed", {"x": [1.5]}), 404, "TENSOR_NOT_FOUND", step=2, input="y")["detail"].endswith(of_result))

    def test_inputs_are_binary(self):
        self.put_program("best", BEST)
        header = json.dumps({"x": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}, "__metadata__": {"k": "2"}}).encode()
        header += b" " * (-len(header) % 8)
        body = struct.pack("<Q", len(header)) + header + struct.pack("<3f", 3, 5, 4)
        reply = self.call("best", body, headers={"Content-Type": "application/vnd.safetensors"})
        self.assertStatus(reply, 200)
        self.assertEqual(struct.unpack("<2f", reply.body[-8:]), (5, 4))

    def test_dtypes_and_shapes_are_checked(self):
        two = {"inputs": {"a": {"dtype": "float64", "shape": ["n", 2]}, "b": {"dtype": "float64", "shape": ["n"]}}, "outputs": ["y"],
               "steps": [{"op": "einsum", "equation": "nd,n->d", "inputs": ["$a", "$b"], "as": "y"}]}
        self.put_program("two", two)
        reply = self.call("two", {"a": [[1, 2], [3, 4]], "b": [1, 0.5]}).json()["outputs"]["y"]
        self.assertEqual(reply, {"dtype": "float64", "shape": [2], "data": [2.5, 4.0]})
        self.assertProblem(self.call("two", {"a": [[1, 2, 3]], "b": [1]}), 422, "SHAPE_MISMATCH", input="a")
        problem = self.assertProblem(self.call("two", {"a": [[1, 2]], "b": [1, 2]}), 422, "SHAPE_MISMATCH", input="b")
        self.assertEqual(problem["shapes"], {"a": [1, 2], "b": [2]})
        self.assertProblem(self.call("two", {"a": [[1, 2]], "b": {"dtype": "float32", "shape": [1], "data": [1]}}), 422, "UNSUPPORTED_DTYPE", input="b")

    def test_tables_are_looked_up_by_each_call(self):
        described = self.put_program("lookup", LOOKUP).json()
        self.assertEqual((described["ready"], described["outputs"][0]["shape"]), (False, None))
        self.assertIn("rows", described["reason"])
        self.assertProblem(self.call("lookup", {"i": [0]}), 404, "TENSOR_NOT_FOUND", step=0, input="params", **{"as": "y"})
        for rows in ([[1, 2], [3, 4]], [[5], [6]]):
            self.assertIn(self.request("PUT", "/v1/tensors/rows", rows).status, (200, 201))
            self.assertEqual(self.values(self.call("lookup", {"i": [1]})), {"y": rows[1:]})
        self.assertTrue(self.get("/v1/programs/lookup").json()["ready"])
        problem = self.assertProblem(self.call("lookup", {"i": [7]}), 422, "INDEX_OUT_OF_BOUNDS", step=0, index=7, bound=2)
        self.assertNotIn("pointer", problem)
        self.request("DELETE", "/v1/tensors/rows")

    def test_results_can_be_stored_and_timed(self):
        self.put_program("squares", square(2))
        self.addCleanup(self.request, "DELETE", "/v1/tensors/kept.y1")
        self.assertEqual(self.call("squares", {"x": [2], "store": "kept"}).json()["outputs"]["y1"]["name"], "kept.y1")
        self.assertEqual(self.get("/v1/tensors/kept.y1?response=nested").json()["data"], [16.0])
        self.assertEqual([step["as"] for step in self.call("squares", {"x": [2]}, "?timing=1").json()["steps"]], ["y1"])
        self.assertProblem(self.call("squares", {"x": [2], "device": "gpu"}), 503, "DEVICE_UNAVAILABLE")

    def test_a_call_selects_outputs(self):
        names = [f"y{i}" for i in range(40)]
        self.put_program("many", {"inputs": {"x": FLOATS}, "outputs": names,
                                  "steps": [{"op": "add", "x": "$x", "y": i, "as": name} for i, name in enumerate(names)]})
        self.assertEqual(self.values(self.call("many", {"x": [1], "outputs": ["y39", "y1"]})), {"y1": [2.0], "y39": [40.0]})
        self.assertProblem(self.call("many", {"x": [1], "outputs": ["y40"]}), 400, "MALFORMED_REQUEST", did_you_mean="y0")
        self.addCleanup(self.request, "DELETE", "/v1/tensors/kept")
        self.assertEqual(self.call("many", {"x": [1], "store": {"y38": "kept"}}).json()["outputs"]["y38"]["name"], "kept")

    def test_calls_are_counted(self):
        self.put_program("counted", square(1))
        for x in ([1], [2], [[3]]):
            self.call("counted", {"x": x})
        self.assertIn('table="counted.program"', self.get("/metrics").body.decode())
        stats = self.get("/v2/models/counted/stats").json()["model_stats"][0]
        self.assertEqual([stats["inference_stats"][kind]["count"] for kind in ("success", "fail")], [2, 1])
        listed = [model["name"] for model in self.get("/v2/models/stats").json()["model_stats"]]
        self.assertNotIn("counted", [name.removesuffix(".program") for name in listed], "the list has tables and ops")


class Versions(ProgramTest):
    folder = temporary_folder()
    options = ("--data-dir", folder)

    def test_a_version_never_changes(self):
        self.put_program("power@1", square(1))
        problem = self.assertProblem(self.request("PUT", "/v1/programs/power@1", square(2)), 409, "CONFLICT")
        self.assertEqual(problem["detail"], "the program 'power@1' already exists, and versions never change; store another version of the program 'power'")
        self.assertEqual(self.values(self.call("power@1", {"x": [3]})), {"y0": [9.0]})
        self.assertProblem(self.call("power", {"x": [3]}), 404, "TENSOR_NOT_FOUND", did_you_mean="power@1")

    def test_a_program_and_its_table_switch_together(self):
        for version, rows in ((1, [1, 2]), (2, [3, 4])):
            self.request("PUT", f"/v1/tensors/switched@{version}?persist=1", rows)
            program = {**LOOKUP, "steps": [{**LOOKUP["steps"][0], "params": {"ref": "switched"}}] +
                       [{"op": "multiply", "x": "$y", "y": 10 ** version, "as": "z"}], "outputs": ["z"]}
            self.put_program(f"switched@{version}", program, query="?persist=1")
            self.addCleanup(self.request, "DELETE", f"/v1/tensors/switched@{version}")
        for version, expected in ((1, [20]), (2, [400]), (1, [20])):
            flip = {"switched": f"switched@{version}", "switched.program": f"switched.program@{version}"}
            self.assertStatus(self.post("/v1/aliases", {"set": flip}), 200)
            self.assertEqual(self.values(self.call("switched", {"i": [1]})), {"z": expected})
        for method, name, detail in (("PUT", "switched", "the program 'switched' is an alias, which has no text of its own; store a version, NAME@VERSION, "
                                                         "and let the alias name it"),
                                     ("DELETE", "switched@1", "an alias names the program 'switched@1': let the alias name another version")):
            problem = self.assertProblem(self.request(method, f"/v1/programs/{name}", BEST if method == "PUT" else None), 409, "CONFLICT")
            self.assertTrue(problem["detail"].startswith(detail), problem["detail"])
        self.put_program("plain", BEST)
        problem = self.assertProblem(self.post("/v1/aliases", {"set": {"plain.program": "switched.program@1"}}), 409, "CONFLICT")
        self.assertEqual(problem["detail"], "'plain.program' is a program, so it cannot be an alias. Choose another name, or first delete the program, "
                                            "which also removes its file")
        self.assertStatus(self.post("/v1/aliases", {"set": {"switched": None, "switched.program": None}}), 200)

    def test_errors_about_aliases_of_programs_speak_of_programs(self):
        self.put_program("spoken@1", BEST, query="?persist=1")
        self.assertStatus(self.post("/v1/aliases", {"set": {"spoken.program": "spoken.program@1"}}), 200)
        for alias, target, status, detail in (
                ("a.program@1", "spoken.program@1", 422, "'a.program@1' cannot be an alias: expected the name of a program without '@', NAME.program"),
                ("a b.program", "spoken.program@1", 422, "'a b.program' cannot be an alias: expected the name of a program without '@', NAME.program"),
                ("a@1", "spoken.program@1", 422, "'a@1' cannot be an alias: expected the name of a tensor without '@', but not the name of keys, X.keys"),
                ("a.program", "a b.program@1", 422, "'a b.program@1' is not a valid program name: expected"),
                ("a.program", "spoken.program", 409, "the alias 'a.program' cannot name 'spoken.program', which is an alias; expected a version, NAME.program@VERSION"),
                ("a.program", "absent.program", 404, "the alias 'a.program' cannot name 'absent.program', which does not exist; expected a version, NAME.program@VERSION")):
            reply = self.post("/v1/aliases", {"set": {alias: target}})
            self.assertStatus(reply, status)
            self.assertTrue(reply.json()["detail"].startswith(detail), reply.json()["detail"])
        self.assertStatus(self.post("/v1/aliases", {"set": {"spoken.program": None}}), 200)

    def test_programs_survive_in_the_data_folder(self):
        self.put_program("kept", square(1), query="?persist=1")
        path = os.path.join(self.folder, "kept.program.json")
        with open(path) as file:
            self.assertEqual(json.load(file), square(1))
        self.assertTrue(self.get("/v1/programs/kept").json()["persisted"])
        self.put_program("kept", square(2), 200, query="?persist=1")
        with open(path) as file:
            self.assertEqual(json.load(file), square(2))
        self.assertStatus(self.request("DELETE", "/v1/programs/kept"), 204)
        self.assertFalse(os.path.exists(path))


class Models(ProgramTest):
    def infer(self, name, x, **parameters):
        tensor = {"name": "x", "datatype": "FP32", "shape": [len(x)], "data": x}
        return self.request("POST", f"/v2/models/{name}/infer", {"inputs": [tensor], "parameters": parameters})

    def test_a_program_is_a_model(self):
        self.put_program("best", BEST)
        model = self.get("/v2/models/best").json()
        self.assertEqual((model["platform"], model["versions"]), ("tensord_program", ["1"]))
        self.assertEqual([(t["name"], t["datatype"], t["shape"]) for t in model["inputs"] + model["outputs"]],
                         [("x", "FP32", [-1]), ("best", "FP32", [-1])])
        self.assertIn("k", model["parameters"])
        self.assertEqual(self.get("/v2/models/best/config").json()["input"][0]["dims"], [-1])
        self.assertEqual(self.get("/v2/models/best/ready").json(), {"name": "best", "ready": True})
        reply = self.infer("best", [3, 5, 4], k=2).json()
        self.assertEqual((reply["model_name"], reply["model_version"], reply["outputs"][0]["data"]), ("best", "1", [5.0, 4.0]))
        self.assertEqual(self.infer("best", []).status, 400)
        self.assertIn({"name": "best", "version": "1", "state": "READY", "reason": ""}, self.request("POST", "/v2/repository/index", b"").json())

    def test_versions_of_a_program_are_versions_of_the_model(self):
        for version in (1, 2):
            self.put_program(f"powers@{version}", square(version))
        for version, expected in ((1, 9), (2, 81)):
            path = f"/v2/models/powers/versions/{version}"
            self.assertEqual(self.get(path).json()["versions"], [str(version)])
            tensor = {"name": "x", "datatype": "FP32", "shape": [1], "data": [3]}
            reply = self.request("POST", path + "/infer", {"inputs": [tensor]}).json()
            self.assertEqual((reply["model_version"], reply["outputs"][0]["data"]), (str(version), [expected]))
        for path in ("", "/ready", "/config", "/stats", "/infer"):
            reply = self.request("POST" if path == "/infer" else "GET", f"/v2/models/powers/versions/3{path}", {"inputs": []} if path == "/infer" else None)
            self.assertEqual((reply.status, reply.json()["code"]), (404, "NOT_FOUND"))
            self.assertEqual(reply.json()["error"], "there is no version '3' of model 'powers'; expected one of 1, 2")

    def test_an_unknown_version_of_a_program_names_the_versions(self):
        unknown = lambda name: self.get(f"/v2/models/{name}/versions/x").json()["error"]
        self.put_program("plain", BEST)
        self.assertEqual(unknown("plain"), "there is no version 'x' of model 'plain'; expected 1")
        for version in range(1, 11):
            self.put_program(f"long@{version}", BEST)
        self.assertEqual(unknown("long"), "there is no version 'x' of model 'long'; expected one of 1, 10, 2, 3, 4, 5, 6, 7, ...")
        self.assertEqual(unknown("long@2"), "there is no version 'x' of model 'long@2'; expected 2")
        self.assertStatus(self.post("/v1/aliases", {"set": {"short.program": "long.program@3"}}), 200)
        self.addCleanup(self.post, "/v1/aliases", {"set": {"short.program": None}})
        self.assertEqual(unknown("short"), "there is no version 'x' of model 'short'; expected 3")
        self.assertIn("there is no model 'lon'", unknown("lon"))

    def test_aliases_of_programs_are_in_the_index(self):
        index = lambda: [m for m in self.request("POST", "/v2/repository/index", b"").json() if m["name"] in ("fresh", "stale", "aged", "gelu")]
        def flip(**targets):
            names = {f"{name}.program": target and f"{target[0]}.program@{target[1]}" for name, target in targets.items()}
            self.assertStatus(self.post("/v1/aliases", {"set": names}), 200)
        for version in (1, 2):
            self.put_program(f"aged@{version}", BEST)
        self.put_program("stale@1", LOOKUP)
        self.addCleanup(flip, fresh=None, aged=None, gelu=None)
        flip(fresh=("aged", 2), aged=("aged", 1), gelu=("stale", 1))
        # An alias with the name of its program is one of the versions. As a model, it takes the place of the op.
        expected = [("aged", "1", "READY"), ("aged", "2", "READY"), ("stale", "1", "UNAVAILABLE"), ("fresh", "2", "READY"), ("gelu", "1", "UNAVAILABLE")]
        self.assertEqual(sorted((m["name"], m["version"], m["state"]) for m in index()), sorted(expected))
        flip(fresh=("aged", 1))
        self.assertIn(("fresh", "1"), [(m["name"], m["version"]) for m in index()])
        self.assertEqual(self.get("/v2/models/fresh").json()["versions"], ["1"])
        self.assertStatus(self.request("PUT", "/v1/tensors/fresh", [1, 2]), 201)
        self.addCleanup(self.request, "DELETE", "/v1/tensors/fresh")
        self.assertEqual([m["version"] for m in index() if m["name"] == "fresh"], ["1"])
        self.assertEqual(self.get("/v2/models/fresh").json()["platform"], "tensord_table")

    def test_a_table_of_the_same_name_is_the_model(self):
        self.put_program("both", BEST)
        self.assertStatus(self.request("PUT", "/v1/tensors/both", [1, 2]), 201)
        self.assertEqual(self.get("/v2/models/both").json()["platform"], "tensord_table")
        self.request("DELETE", "/v1/tensors/both")
        self.assertEqual(self.get("/v2/models/both").json()["platform"], "tensord_program")

    def test_a_program_takes_the_place_of_an_op(self):
        self.put_program("gather", square(1))
        self.assertEqual(self.get("/v2/models/gather").json()["platform"], "tensord_program")
        self.assertEqual(self.infer("gather", [3]).json()["outputs"][0]["data"], [9.0])
        self.assertEqual(self.infer("gather", [3], device="gpu").status, 503)
        self.assertEqual(self.post("/v1/gather", {"params": [5], "indices": [0]}).json()["output"]["data"], [5])
        self.request("DELETE", "/v1/programs/gather")
        self.assertEqual(self.get("/v2/models/gather").json()["platform"], "tensord_op")

    def test_a_program_without_its_table_is_not_ready(self):
        self.put_program("lookup", LOOKUP)
        self.assertNotEqual(self.get("/v2/models/lookup/ready").status, 200)
        entry = [m for m in self.request("POST", "/v2/repository/index", b"").json() if m["name"] == "lookup"]
        self.assertEqual([m["state"] for m in entry], ["UNAVAILABLE"])
        self.assertEqual(self.get("/v2/models/lookup").json()["outputs"][0]["shape"], [-1])


class Plans(ProgramTest):
    def plan(self, steps, outputs, **inputs):
        return self.post("/v1/programs/plan", {"inputs": inputs, "steps": steps, "outputs": outputs})

    def test_a_plan_tells_shapes_and_costs(self):
        steps = [{"op": "square", "x": "$x", "as": "a"}, {"op": "negative", "x": "$a", "as": "b"},
                 {"op": "reshape", "x": "$b", "shape": [-1], "as": "c"}, {"op": "reduce_sum", "x": "$c", "as": "y"}]
        plan = self.plan(steps, ["y"], x={"dtype": "float32", "shape": [1000, 64]}).json()
        self.assertEqual(plan["outputs"], {"y": {"dtype": "float32", "shape": [], "bytes": 4}})
        self.assertEqual([step["runs"] for step in plan["steps"]], ["fused", "fused", "shared", "alone"])
        self.assertEqual((plan["admitted"], plan["exceeds"], plan["results_bytes"]), (True, [], 256000))
        self.assertEqual(plan["steps"][2]["results"], [{"dtype": "float32", "shape": [64000], "bytes": 256000}])

    def test_sizes_that_data_decide_are_null(self):
        steps = [{"op": "dynamic_partition", "data": "$x", "partitions": "$p", "num_partitions": 2, "as": ["y", "z"]}]
        plan = self.plan(steps, ["y", "z"], x={"dtype": "int8", "shape": [4]}, p={"dtype": "int32", "shape": [4]}).json()
        self.assertEqual((plan["outputs"], plan["steps"][0]["results"]), ({"y": None, "z": None}, [None, None]))
        with_data = self.plan(steps, ["y", "z"], x={"dtype": "int8", "shape": [4]}, p=[0, 1, 1, 1]).json()
        self.assertEqual(with_data["outputs"]["z"]["shape"], [3])

    def test_members_for_results_are_refused(self):
        program = {"inputs": {"x": [1]}, "steps": [{"op": "exp", "x": "$x", "as": "y"}], "outputs": ["y"]}
        for member, value in (("store", {"y": "kept"}), ("store", "kept"), ("response", "base64"), ("output_dtype", "float16")):
            problem = self.assertProblem(self.post("/v1/programs/plan", {**program, member: value}), 400, "MALFORMED_REQUEST", pointer=f"/{member}")
            self.assertEqual(problem["detail"], f'a plan has no member "{member}"; expected it in the call that runs the program')
        problem = self.assertProblem(self.post("/v1/programs/plan?store=kept", program), 400, "MALFORMED_REQUEST", attribute="store")
        self.assertEqual(problem["detail"], 'programs/plan has no query parameter "store"; expected device, timing')
        problem = self.assertProblem(self.post("/v1/programs/plan", {**program, "output": ["y"]}), 400, "MALFORMED_REQUEST", did_you_mean="outputs")
        self.assertEqual(problem["detail"], 'programs/plan has no member "output"; expected inputs, steps, outputs, device, timing')
        self.assertProblem(self.post("/v1/programs/plan", {**program, "device": "gpu"}), 503, "DEVICE_UNAVAILABLE")
        for query, members in (("?timing=1", {}), ("", {"timing": True})):
            self.assertIn("compute", self.post(f"/v1/programs/plan{query}", {**program, **members}).headers["Server-Timing"])
        self.assertNotIn("Server-Timing", self.post("/v1/programs/plan", program).headers)

    def test_a_stored_program_is_planned(self):
        self.put_program("best", BEST)
        x = {"dtype": "float32", "shape": [1000]}
        plan = lambda query, body: self.post(f"/v1/programs/plan?{query}", body)
        steps = [{**BEST["steps"][0], "k": 3}]
        direct = self.plan(steps, ["best"], x=x).json()
        self.assertEqual(direct["outputs"]["best"]["shape"], [3])
        for query, body in (("program=best", {"x": x, "k": 3}), ("k=3&program=best", {"x": x}), ("program=best&timing=1", {"x": [0.5] * 1000, "k": 3})):
            reply = plan(query, body)
            self.assertStatus(reply, 200)
            self.assertEqual(reply.json(), direct)
        self.assertEqual(plan("program=best", {"x": x}).json()["outputs"]["best"]["shape"], [1])
        self.assertProblem(plan("program=best", {"x": {"dtype": "float32", "shape": [3, 4]}}), 422, "SHAPE_MISMATCH", input="x")
        self.assertProblem(plan("program=best", {"x": {"dtype": "int8", "shape": [3]}}), 422, "UNSUPPORTED_DTYPE", input="x")
        self.assertProblem(plan("program=best", {"x": {"dtype": "float32", "shape": [2]}, "k": 3}), 422, "INVALID_ARGUMENT", step=0)
        self.assertProblem(plan("program=best", {}), 422, "INVALID_ARGUMENT", input="x")
        self.assertProblem(plan("program=best", {"x": {"dtype": "float32"}}), 400, "MALFORMED_REQUEST", pointer="/x")
        self.assertProblem(plan("program=best", {"x": x, "store": "kept"}), 400, "MALFORMED_REQUEST", pointer="/store")
        self.assertProblem(plan("program=bset", {"x": x}), 404, "TENSOR_NOT_FOUND", did_you_mean="best")
        self.assertProblem(plan("program=best%00", {"x": x}), 400, "MALFORMED_REQUEST")
        self.assertProblem(plan("program=best&program=best", {"x": x}), 400, "MALFORMED_REQUEST", attribute="program")
        self.assertProblem(plan("program=best", {"inputs": {"x": x}, "steps": steps, "outputs": ["best"]}), 400, "MALFORMED_REQUEST", pointer="/inputs")
        self.assertProblem(self.call("best", {"x": x}), 400, "MALFORMED_REQUEST", pointer="/x")  # only a plan needs no data

    def test_plans_do_not_count_as_calls(self):
        self.put_program("planned", square(1))
        self.assertStatus(self.post("/v1/programs/plan?program=planned", {"x": {"dtype": "float32", "shape": [2]}}), 200)
        stats = self.get("/v2/models/planned/stats").json()["model_stats"][0]
        self.assertEqual(stats["inference_stats"]["success"]["count"], 0)

    def test_constants_of_a_plan_have_data(self):
        steps = [{"op": "add", "x": "$x", "y": {"dtype": "float32", "shape": [2]}, "as": "y"}]
        self.assertProblem(self.plan(steps, ["y"], x={"dtype": "float32", "shape": [2]}), 400, "MALFORMED_REQUEST", pointer="/steps/0/y")

    def test_the_costs_of_a_step_include_its_keys(self):
        self.assertStatus(self.request("PUT", "/v1/tensors/keyed", {"tensor": [[1.0, 2.0]] * 100, "keys": list(range(100))}), 201)
        self.addCleanup(self.request, "DELETE", "/v1/tensors/keyed")
        gather = lambda indices: {"op": "gather", "params": {"ref": "keyed"}, "indices": indices, "as": "y"}
        ids = {"dtype": "int64", "shape": [50]}
        by_row, by_key = (self.plan([gather(indices)], ["y"], i=ids).json() for indices in ("$i", {"keys": "$i"}))
        for plan in by_row, by_key:
            for cost in ("flops", "bytes_read", "bytes_written"):
                self.assertEqual(plan[cost], plan["steps"][0][cost])
        self.assertGreater(by_key["steps"][0]["bytes_read"], by_row["steps"][0]["bytes_read"])
        self.assertEqual(by_key["steps"][0]["workspace_bytes"], 50 * 8)  # the row numbers

    def test_keys_without_data_have_shapes(self):
        for dtype, keys in (("int32", [1, 2, 3]), ("uint32", [1, 2, 3]), ("string", ["a", "b", "c"])):
            name = f"rows-of-{dtype}"
            self.assertStatus(self.request("PUT", f"/v1/tensors/{name}", {"tensor": [[1.0], [2.0], [3.0]], "keys": keys}), 201)
            self.addCleanup(self.request, "DELETE", f"/v1/tensors/{name}")
            steps = [{"op": "gather", "params": {"ref": name}, "indices": {"keys": "$i"}, "as": "a"},
                     {"op": "lookup", "params": {"ref": name}, "queries": "$i", "as": {"output": "b"}}, {"op": "add", "x": "$a", "y": "$b", "as": "y"}]
            plan = self.plan(steps, ["y"], i={"dtype": dtype, "shape": [5]}).json()
            self.assertEqual([step["results"][0]["shape"] for step in plan["steps"]], [[5, 1]] * 3)
            stored = self.put_program("by_key", {"inputs": {"i": {"dtype": dtype, "shape": ["n"]}}, "steps": steps, "outputs": ["y"]}).json()
            self.assertEqual(stored["outputs"][0]["shape"], ["n", 1])
            self.assertEqual(self.values(self.call("by_key", {"i": keys[1:]})), {"y": [[4.0], [6.0]]})
            self.request("DELETE", "/v1/programs/by_key")

    def test_what_would_be_refused(self):
        steps = [{"op": "stack", "inputs": ["$x"] * 64, "as": "y"}]
        plan = self.plan(steps, ["y"], x={"dtype": "float32", "shape": [1 << 26]}).json()
        self.assertEqual((plan["admitted"], plan["exceeds"]), (False, ["output_bytes", "workspace_bytes"]))
        wrong = [{"op": "add", "x": "$x", "y": "$z", "as": "y"}]
        self.assertProblem(self.plan(wrong, ["y"], x={"dtype": "float32", "shape": [2]}, z={"dtype": "float32", "shape": [3]}), 422, "SHAPE_MISMATCH", step=0)
        self.assertProblem(self.plan(wrong, ["y"], x={"dtype": "float32", "shape": ["n"]}, z=1), 400, "MALFORMED_REQUEST", pointer="/inputs/x/shape/0")


READ, WRITE, TEAM = ("%s-token-of-programs" % name for name in ("read", "write", "team"))


class Compiled(HttpTest):
    """Compiled programs are a cache: the server drops them when they or other requests need the memory."""

    CONSTANTS, PROGRAMS = 10_000, 16  # a program takes about 10 MB, and the limit of all is an eighth of the memory, at least 16 MB

    def put_large(self, client, name, first):
        text = {"inputs": {"x": {"dtype": "float32", "shape": [1]}},
                "steps": [{"op": "concat", "inputs": ["$x", [first], *[[2.0]] * self.CONSTANTS], "as": "one"},
                          {"op": "concat", "inputs": ["$one", *[[2.0]] * self.CONSTANTS], "as": "all"},
                          {"op": "slice", "x": "$all", "starts": [0], "stops": [2], "as": "y"}], "outputs": ["y"]}
        self.assertStatus(client.request("PUT", f"/v1/programs/{name}", text), 201)

    def test_programs_larger_than_the_memory_are_compiled_again(self):
        with Daemon("--memory-limit", "128M", "--workers", "2") as daemon, Client(daemon) as client:
            for i in range(self.PROGRAMS):
                self.put_large(client, f"p{i}", float(i))
                self.assertStatus(client.post("/v1/gather", {"params": [1, 2], "indices": [0]}), 200)
            self.assertLessEqual(metric(daemon, "tensord_compiled_program_bytes"), 16 << 20)
            evicted = metric(daemon, "tensord_compiled_programs_evicted_total")
            self.assertGreaterEqual(evicted, self.PROGRAMS - 2)
            etag = client.request("GET", "/v1/programs/p0").headers["ETag"]
            for i in range(self.PROGRAMS):
                self.assertEqual(client.post(f"/v1/programs/p{i}", {"x": [7.0]}).json()["outputs"]["y"]["data"], [7.0, float(i)])
            self.assertEqual(client.request("GET", "/v1/programs/p0").headers["ETag"], etag)
            self.assertGreater(metric(daemon, "tensord_compiled_programs_evicted_total"), evicted)

    def test_calls_at_once_get_their_own_program(self):
        with Daemon("--memory-limit", "256M", "--workers", "4") as daemon, concurrent.futures.ThreadPoolExecutor(4) as pool:
            with Client(daemon) as client:
                for i in range(6):
                    self.put_large(client, f"p{i}", float(i))

            def call_all(offset):
                with Client(daemon) as client:
                    replies = [(i % 6, client.post(f"/v1/programs/p{i % 6}", {"x": [1.0]})) for i in range(offset, offset + 18)]
                return [(i, reply.status, reply.json()) for i, reply in replies]
            for answers in pool.map(call_all, range(4)):
                for i, status, reply in answers:
                    self.assertEqual((status, reply["outputs"]["y"]["data"]), (200, [1.0, float(i)]))


class Tokens(HttpTest):
    path = os.path.join(temporary_folder(), "tokens")
    options = ("--token-file", path)

    @classmethod
    def setUpClass(cls):
        with open(cls.path, "w") as file:
            file.write(f"read {READ}\nwrite {WRITE}\nwrite {TEAM} team.\n")
        os.chmod(cls.path, 0o600)
        super().setUpClass()

    def as_(self, token, method, path, body=None):
        return self.request(method, path, body, {"Authorization": f"Bearer {token}"})

    def test_roles_and_prefixes(self):
        self.assertProblem(self.as_(READ, "PUT", "/v1/programs/team.p", BEST), 403, "FORBIDDEN")
        self.assertStatus(self.as_(TEAM, "PUT", "/v1/programs/team.p", BEST), 201)
        self.assertStatus(self.as_(WRITE, "PUT", "/v1/programs/other", BEST), 201)
        self.assertStatus(self.as_(READ, "POST", "/v1/programs/team.p", {"x": [1]}), 200)
        for method, body in (("GET", None), ("PUT", BEST), ("DELETE", None), ("POST", {"x": [1]})):
            self.assertProblem(self.as_(TEAM, method, "/v1/programs/other", body), 403, "FORBIDDEN")
        self.assertProblem(self.as_(TEAM, "POST", "/v1/programs/plan?program=other", {"x": [1]}), 403, "FORBIDDEN")
        self.assertStatus(self.as_(READ, "POST", "/v1/programs/plan?program=team.p", {"x": [1]}), 200)
        self.assertProblem(self.as_(READ, "PUT", "/v1/programs/team.p?check=1", BEST), 403, "FORBIDDEN")
        self.assertEqual([p["name"] for p in self.as_(TEAM, "GET", "/v1/programs?prefix=team.p").json()["programs"]], ["team.p"])
        self.assertNotIn("other", [p["name"] for p in self.as_(TEAM, "GET", "/v1/programs").json()["programs"]])
        self.assertEqual(self.as_(TEAM, "GET", "/v2/models/other").status, 403)

    def test_a_program_reads_tables_with_the_token_of_its_caller(self):
        self.as_(WRITE, "PUT", "/v1/tensors/rows", [1, 2])
        self.assertStatus(self.as_(WRITE, "PUT", "/v1/programs/team.lookup", LOOKUP), 201)
        self.assertStatus(self.as_(WRITE, "POST", "/v1/programs/team.lookup", {"i": [0]}), 200)
        self.assertProblem(self.as_(TEAM, "POST", "/v1/programs/team.lookup", {"i": [0]}), 403, "FORBIDDEN")
        self.assertProblem(self.as_(TEAM, "PUT", "/v1/programs/team.own", LOOKUP), 403, "FORBIDDEN")
