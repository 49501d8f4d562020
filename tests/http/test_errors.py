"""Errors and headers: every code with its members, discovery, request ids, timing."""
import re
from daemon import *

CODES = {"MALFORMED_REQUEST": 400, "INDEX_OUT_OF_BOUNDS": 422, "SHAPE_MISMATCH": 422, "INVALID_AXIS": 422,
         "INVALID_BATCH_DIMS": 422, "INVALID_EQUATION": 422, "UNSUPPORTED_DTYPE": 422, "INVALID_ARGUMENT": 422,
         "UNKNOWN_OP": 404, "TENSOR_NOT_FOUND": 404, "NOT_FOUND": 404, "METHOD_NOT_ALLOWED": 405, "NOT_ACCEPTABLE": 406,
         "UNSUPPORTED_MEDIA_TYPE": 415, "PRECONDITION_FAILED": 412, "PAYLOAD_TOO_LARGE": 413, "RESOURCE_LIMIT": 422,
         "UNAUTHENTICATED": 401, "FORBIDDEN": 403, "REQUEST_TIMEOUT": 408, "CLIENT_LIMIT": 429,
         "CONNECTION_LIMIT": 503, "QUEUE_FULL": 429, "MEMORY_EXHAUSTED": 503, "DRAINING": 503,
         "DATA_DIR_LOCKED": 503, "DEVICE_UNAVAILABLE": 503, "DEADLINE_EXCEEDED": 504, "INTERNAL": 500}
OPS = ("gather", "batch_gather", "gather_nd")


def zeros(*shape, dtype="float32"):
    n = 1
    for d in shape:
        n *= d
    return {"dtype": dtype, "shape": list(shape), "data": [0] * n}


class OpRefusals(HttpTest):
    def test_a_bad_index_is_reported_with_position_value_and_bound(self):
        reply = self.post("/v1/gather", {"params": zeros(2, 3), "indices": [[0, 7], [-1, 2]], "axis": 1})
        problem = self.assertProblem(reply, 422, "INDEX_OUT_OF_BOUNDS", op="gather", input="indices", position=[0, 1],
                                     index=7, bound=3, axis=1, bad_count=2, status=422,
                                     type="/problems/index-out-of-bounds", title="Index out of bounds")
        self.assertEqual(problem["detail"], "indices[0,1] = 7 is not in [0, 3)")

    def test_gather_nd_names_the_component(self):
        reply = self.post("/v1/gather_nd", {"params": zeros(3, 4), "indices": [[0, 0], [2, 4], [9, 9]]})
        self.assertProblem(reply, 422, "INDEX_OUT_OF_BOUNDS", op="gather_nd", input="indices", position=[1, 1],
                           index=4, bound=4)

    def test_a_negative_index_leads_to_wrap(self):
        self.assertStatus(self.request("PUT", "/v1/tensors/negative", [[1.5], [2.5]]), 201)
        for path, body in (("/v1/gather", {"params": [1, 2], "indices": [0, -1]}), ("/v1/tensors/negative/gather", {"indices": [0, -1]}),
                           ("/v1/tensors/negative/embedding_bag", {"indices": [[0, -1]]})):
            problem = self.assertProblem(self.post(path, body), 422, "INDEX_OUT_OF_BOUNDS", index=-1)
            self.assertIn("bounds = wrap counts negative indices from the end", problem["detail"])
            self.assertIn("find returns -1 for a missing key, for which bounds = zero gives zeros", problem["detail"])
            for bounds in ("wrap", "zero"):
                self.assertStatus(self.post(path, {**body, "bounds": bounds}), 200)
        self.assertStatus(self.request("DELETE", "/v1/tensors/negative"), 204)

    def test_null_for_an_optional_input_is_no_tensor(self):
        """serialisers write absent members so; NaN is not meant"""
        body = {"params": [[1.5, 2]], "indices": [0], "offsets": [0]}
        for name in ("weights", "segment_ids", "scale"):
            problem = self.assertProblem(self.post("/v1/embedding_bag", body | {name: None}), 400, "MALFORMED_REQUEST", input=name)
            self.assertEqual(problem["detail"], f"{name} is null; leave it out instead")
        self.assertStatus(self.post("/v1/embedding_bag", body), 200)

    def test_keys_in_the_place_of_their_table_lead_to_it(self):
        """advice to set keys would replace good ones"""
        self.assertStatus(self.request("PUT", "/v1/tensors/keyed", b'{"tensor": [1.5, 2.5], "keys": ["a", "b"]}', {"Content-Type": JSON}), 201)
        self.addCleanup(self.request, "DELETE", "/v1/tensors/keyed")
        ref = {"ref": "keyed.keys"}
        for path, body in (("/v1/tensors/keyed.keys/find", {"keys": ["b"]}), ("/v1/tensors/keyed.keys/lookup", {"keys": ["b"]}),
                           ("/v1/tensors/keyed.keys/gather", {"keys": ["b"]}), ("/v1/lookup", {"params": ref, "queries": ["b"]}),
                           ("/v1/gather", {"params": ref, "indices": {"keys": ["b"]}})):
            problem = self.assertProblem(self.post(path, body), 422, "INVALID_ARGUMENT")
            self.assertIn("this tensor holds the keys of 'keyed' and has no keys itself; look up rows in 'keyed'", problem["detail"])
        self.assertEqual(self.post("/v1/tensors/keyed/find", {"keys": ["b"]}).json()["output"]["data"], [1])

    def test_a_bad_scalar_index_has_an_empty_position(self):
        reply = self.post("/v1/gather", {"params": [1, 2], "indices": 2})
        self.assertProblem(reply, 422, "INDEX_OUT_OF_BOUNDS", position=[], index=2, bound=2, bad_count=1)

    def test_every_bad_index_is_counted(self):
        reply = self.post("/v1/gather", {"params": [1, 2], "indices": [5] * 1000})
        self.assertProblem(reply, 422, "INDEX_OUT_OF_BOUNDS", position=[0], bad_count=1000)

    def test_64_bit_indices_are_reported_exactly(self):
        reply = self.post("/v1/gather", {"params": [1], "indices": [0, -9223372036854775808]})
        self.assertProblem(reply, 422, "INDEX_OUT_OF_BOUNDS", position=[1], index=-9223372036854775808)

    def test_batch_shapes_that_differ_are_a_mismatch(self):
        reply = self.post("/v1/gather", {"params": zeros(2, 3), "indices": zeros(3, 1, dtype="int32"), "batch_dims": 1})
        self.assertProblem(reply, 422, "SHAPE_MISMATCH", op="gather")

    def test_an_axis_outside_the_rank_names_the_attribute(self):
        for axis in (2, -3, 9223372036854775807, -9223372036854775807):
            reply = self.post("/v1/gather", {"params": zeros(2, 3), "indices": [0], "axis": axis})
            self.assertProblem(reply, 422, "INVALID_AXIS", op="gather", attribute="axis")

    def test_bad_batch_dims_name_the_attribute(self):
        for body in ({"params": zeros(2, 3, 4), "indices": zeros(2, 1, dtype="int32"), "axis": 0, "batch_dims": 1},
                     {"params": zeros(2, 3, 4), "indices": [0], "axis": 2, "batch_dims": 2},
                     {"params": zeros(2, 3), "indices": [0], "batch_dims": 9223372036854775807}):
            self.assertProblem(self.post("/v1/gather", body), 422, "INVALID_BATCH_DIMS", attribute="batch_dims")
        reply = self.post("/v1/gather_nd", {"params": zeros(2, 3), "indices": [[0]], "batch_dims": -1})
        self.assertProblem(reply, 422, "INVALID_BATCH_DIMS", attribute="batch_dims", op="gather_nd")

    def test_an_unsuitable_dtype_names_the_input(self):
        for indices in (["0"], [True], {"dtype": "uint8", "data": [0]}, {"dtype": "uint32", "data": [0]}):
            reply = self.post("/v1/gather", {"params": [1, 2], "indices": indices})
            problem = self.assertProblem(reply, 422, "UNSUPPORTED_DTYPE", input="indices")
            self.assertIn("int32", problem["detail"])

    def test_scalar_params_are_an_invalid_argument(self):
        for op in OPS:
            reply = self.post("/v1/" + op, {"params": 1, "indices": [[0]]})
            self.assertEqual(reply.status, 422)
            self.assertAnyProblem(reply)
        self.assertProblem(self.post("/v1/gather", {"params": 1, "indices": [0]}), 422, "INVALID_ARGUMENT", input="params")

    def test_a_missing_input_is_named(self):
        for body, missing in (({"params": [1]}, "indices"), ({"indices": [0]}, "params"), ({}, "params")):
            reply = self.post("/v1/gather", body)
            self.assertIn(reply.status, (400, 422), str(reply))
            self.assertIn(missing, self.assertAnyProblem(reply)["detail"])

    def test_an_output_of_too_many_dimensions_is_over_the_rank_limit(self):
        reply = self.post("/v1/gather", {"params": zeros(*[1] * 10), "indices": zeros(*[1] * 10, dtype="int32")})
        self.assertProblem(reply, 422, "RESOURCE_LIMIT", resource="rank", needed=19, limit=16)

    def test_an_input_of_too_many_dimensions_is_over_the_rank_limit(self):
        reply = self.post("/v1/gather", {"params": zeros(*[1] * 17), "indices": [0]})
        self.assertProblem(reply, 422, "RESOURCE_LIMIT", resource="rank", needed=17, limit=16)


class MalformedRequests(HttpTest):
    def test_a_body_that_is_not_json_names_the_offset(self):
        problem = self.assertProblem(self.post("/v1/gather", b'{"params":[1,2],,}'), 400, "MALFORMED_REQUEST")
        self.assertTrue("offset" in problem or "pointer" in problem, problem)

    def test_an_empty_body_is_refused(self):
        self.assertProblem(self.post("/v1/gather", b""), 400, "MALFORMED_REQUEST")
        self.assertProblem(self.post("/v1/gather", b"  \n"), 400, "MALFORMED_REQUEST")

    def test_a_body_that_is_not_an_object_is_refused(self):
        for body in (b"[]", b"1", b'"x"', b"null", b"true"):
            self.assertProblem(self.post("/v1/gather", body), 400, "MALFORMED_REQUEST")

    def test_an_unknown_member_is_reported_with_a_suggestion(self):
        for member, near in (("indexes", "indices"), ("param", "params"), ("axs", "axis"), ("batch_dim", "batch_dims")):
            reply = self.post("/v1/gather", {"params": [1], "indices": [0], member: [0]})
            self.assertProblem(reply, 400, "MALFORMED_REQUEST", pointer="/" + member, did_you_mean=near)

    def test_an_unknown_member_unlike_all_others_has_no_suggestion(self):
        reply = self.post("/v1/gather", {"params": [1], "indices": [0], "temperature": 1})
        self.assertNotIn("did_you_mean", self.assertProblem(reply, 400, "MALFORMED_REQUEST", pointer="/temperature"))

    def test_duplicate_members_are_refused(self):
        for body, pointer in ((b'{"params":[1],"params":[1],"indices":[0]}', "/params"),
                              (b'{"params":[1],"indices":[0],"axis":0,"axis":0}', "/axis"),
                              (b'{"params":[1],"indices":[0],"bounds":"clip","bounds":"clip"}', "/bounds"),
                              (b'{"params":[1],"indices":[0],"p\\u0061rams":[1]}', "/params")):
            self.assertProblem(self.post("/v1/gather", body), 400, "MALFORMED_REQUEST", pointer=pointer)

    def test_duplicate_members_inside_a_tensor_are_refused(self):
        for params in (b'{"dtype":"int32","dtype":"int8","data":[1]}', b'{"data":[1],"dtype":"int32","data":[1]}',
                       b'{"ref":"a","ref":"a"}'):
            reply = self.post("/v1/gather", b'{"params":' + params + b',"indices":[0]}')
            problem = self.assertProblem(reply, 400, "MALFORMED_REQUEST")
            self.assertTrue(problem["pointer"].startswith("/params/"), problem)

    def test_an_attribute_in_body_and_query_has_one_value(self):
        request = {"params": [[1, 2]], "indices": [0]}
        for query, same, other in (("axis=0", {"axis": 0}, {"axis": 1}), ("bounds=clip", {"bounds": "clip"}, {"bounds": "wrap"}),
                                   ("dtype=float32", {"dtype": "float32"}, {"dtype": "int8"}), ("device=cpu", {"device": "cpu"}, {"device": "auto"}),
                                   ("response=flat", {"response": "flat"}, {"response": "nested"}), ("timing=1", {"timing": True}, {"timing": False}),
                                   ("store=a", {"store": "a"}, {"store": "b"})):
            with self.subTest(query):
                once, twice = self.post("/v1/gather?" + query, request), self.post("/v1/gather?" + query, {**request, **same})
                self.assertEqual((once.status, twice.status), (200, 200), twice.body)
                if query != "store=a":  # whose version grows
                    self.assertEqual(once.body, twice.body)
                name, = other
                problem = self.assertProblem(self.post("/v1/gather?" + query, {**request, **other}), 400, "MALFORMED_REQUEST", attribute=name, pointer="/" + name)
                self.assertIn("different values in the query string and in the body", problem["detail"])
        self.request("DELETE", "/v1/tensors/a")

    def test_a_repeated_attribute_is_still_given_once_in_the_body(self):
        self.assertProblem(self.post("/v1/gather?axis=0", b'{"params":[1],"indices":[0],"axis":0,"axis":0}'), 400, "MALFORMED_REQUEST", pointer="/axis")

    def test_attributes_twice_in_the_query_are_refused(self):
        for query in ("axis=0&axis=0", "bounds=clip&bounds=clip", "response=flat&response=flat"):
            self.assertProblem(self.post("/v1/gather?" + query, {"params": [1], "indices": [0]}), 400, "MALFORMED_REQUEST")

    def test_unknown_query_parameters_are_refused_with_a_suggestion(self):
        reply = self.post("/v1/gather?axsi=0&axis=0", {"params": [1], "indices": [0]})
        self.assertProblem(reply, 400, "MALFORMED_REQUEST")
        reply = self.post("/v1/gather?batch_dim=0", {"params": [1], "indices": [0]})
        self.assertProblem(reply, 400, "MALFORMED_REQUEST", did_you_mean="batch_dims")

    def test_integers_of_a_typed_tensor_have_any_notation(self):
        for dtype, data, wanted in (("int32", [3.0, -2e5], [3, -200000]), ("int64", [str(2**53 + 1), 1e3], [2**53 + 1, 1000]), ("uint64", [str(2**64 - 1)], [2**64 - 1])):
            reply = self.post("/v1/gather", {"params": {"dtype": dtype, "data": data}, "indices": {"dtype": "int32", "data": [1.0 * i for i in range(len(data))]}})
            self.assertEqual(reply.json()["output"], {"dtype": dtype, "shape": [len(data)], "data": wanted})
        for dtype, value in (("int32", 1.5), ("int32", "1"), ("int64", "1.0"), ("int64", str(2**63)), ("uint64", "-1"), ("uint64", "x"), ("bool", 1.0)):
            with self.subTest(dtype, value=value):
                reply = self.post("/v1/gather", {"params": {"dtype": dtype, "data": [value]}, "indices": [0]})
                self.assertProblem(reply, 400, "MALFORMED_REQUEST", pointer="/params/data/0")
        self.assertProblem(self.post("/v1/gather", {"params": [1, 2], "indices": [1.0]}), 422, "UNSUPPORTED_DTYPE")  # without a dtype 1.0 is a float

    def test_attributes_of_the_wrong_kind_are_refused(self):
        for axis in ("0", 0.5, None, True, [0], {}, 1e30):
            reply = self.post("/v1/gather", {"params": [1], "indices": [0], "axis": axis})
            self.assertProblem(reply, 400, "MALFORMED_REQUEST", pointer="/axis")
        for axis in ("", "x", "1x", "0x1", "1.5", "%201", "99999999999999999999", "--1"):
            reply = self.post("/v1/gather?axis=" + axis, {"params": [1], "indices": [0]})
            self.assertProblem(reply, 400, "MALFORMED_REQUEST")

    def test_tensor_objects_are_checked_member_by_member(self):
        for params in ({}, {"dtype": "int32"}, {"dtype": "int32", "shape": [1]}, {"data": [1], "shape": "1", "dtype": "int32"},
                       {"dtype": "int32", "shape": [1], "data": [1], "base64": "AAAAAA=="},
                       {"dtype": "int32", "shape": [-1], "data": [1]}, {"dtype": "int32", "shape": [1.5], "data": [1]},
                       {"dtype": "int32", "shape": [2], "data": [1]}, {"dtype": "int32", "shape": [2, 2], "data": [[1, 2], [3]]},
                       {"dtype": "int32", "shape": [2, 2], "data": [[1, 2, 3, 4]]}, {"dtype": 5, "data": [1]},
                       {"dtype": "int32", "shape": [1], "data": {"0": 1}}, {"dtype": "int32", "shape": {}, "data": [1]},
                       {"dtype": "int32", "shape": [1], "data": [1], "extra": 1}, {"shape": [1], "base64": "AAAAAA=="},
                       {"dtype": "int32", "base64": "AAAAAA=="}, {"dtype": "int32", "shape": [1], "base64": 5},
                       {"dtype": "int32", "shape": [99999999999999999999], "data": []}):
            with self.subTest(params=params):
                problem = self.assertProblem(self.post("/v1/gather", {"params": params, "indices": [0]}), 400, "MALFORMED_REQUEST")
                self.assertTrue(problem["pointer"].startswith("/params"), problem)

    def test_an_unknown_dtype_is_refused_by_name(self):
        reply = self.post("/v1/gather", {"params": {"dtype": "float31", "data": [1]}, "indices": [0]})
        self.assertIn(reply.status, (400, 422))
        self.assertIn("float31", self.assertAnyProblem(reply)["detail"])


class Routes(HttpTest):
    def test_an_unknown_op_is_404_with_a_suggestion(self):
        self.assertProblem(self.post("/v1/gathr", {}), 404, "UNKNOWN_OP", did_you_mean="gather")
        self.assertProblem(self.post("/v1/gather_md", {}), 404, "UNKNOWN_OP", did_you_mean="gather_nd")
        self.assertNotIn("did_you_mean", self.assertProblem(self.post("/v1/softmax", {}), 404, "UNKNOWN_OP"))
        self.assertProblem(self.get("/v1/ops/gathr"), 404, "UNKNOWN_OP", did_you_mean="gather")

    def test_an_unknown_path_is_404(self):
        for path in ("/nope", "/v1", "/v1/", "/v3/nope/nope", "/v1/gather/extra", "//", "/v1/ops/gather/x", "/../etc/passwd"):
            reply = self.get(path)
            self.assertStatus(reply, 404)
            self.assertAnyProblem(reply)

    def test_a_slash_too_many_in_a_path_is_pointed_out(self):
        for path in ("//v1/gather", "/v1//gather", "/v1/tensors//gather", "//healthz"):
            self.assertIn("the path has two '/' in a row", self.assertProblem(self.post(path, {}), 404, "NOT_FOUND")["detail"])
        for path in ("/v1/gather/", "/v1/tensors/x/", "/v1/tensors/x/gather/", "/v1/aliases/x/"):
            self.assertIn("leave out the last '/'", self.assertProblem(self.post(path, {}), 404, "NOT_FOUND")["detail"])

    def test_an_unknown_table_is_404(self):
        self.assertProblem(self.get("/v1/tensors/nope"), 404, "TENSOR_NOT_FOUND")

    def test_a_problem_page_is_found_by_slug_and_by_code_and_another_name_leads_to_it(self):
        for name in ("index-out-of-bounds", "INDEX_OUT_OF_BOUNDS"):
            page = self.get(f"/problems/{name}")
            self.assertStatus(page, 200)
            self.assertEqual((page.json()["type"], page.json()["code"]), ("/problems/index-out-of-bounds", "INDEX_OUT_OF_BOUNDS"))
        self.assertProblem(self.get("/problems/index-out-of-bound"), 404, "NOT_FOUND", did_you_mean="index-out-of-bounds")
        self.assertProblem(self.get("/problems/INDEX_OUT_OF_BOUND"), 404, "NOT_FOUND", did_you_mean="INDEX_OUT_OF_BOUNDS")
        self.assertIn("the enum of codes in GET /openapi.json lists them", self.assertProblem(self.get("/problems/xyz"), 404, "NOT_FOUND")["detail"])
        for path in "/problems", "/problems/":
            self.assertIn("the page of an error is at its `type`, such as /problems/key-not-found", self.assertProblem(self.get(path), 404, "NOT_FOUND")["detail"])

    def test_a_wrong_method_is_405_with_the_allowed_ones(self):
        for method, path, allowed in (("GET", "/v1/gather", "POST"), ("PUT", "/v1/gather", "POST"), ("DELETE", "/v1/gather_nd", "POST"),
                                      ("POST", "/v1/ops", "GET"), ("POST", "/v1/ops/gather", "GET"), ("POST", "/healthz", "GET"),
                                      ("DELETE", "/readyz", "GET"), ("PATCH", "/v1/tensors", "GET"),
                                      ("POST", "/problems/not-found", "GET")):
            with self.subTest(method=method, path=path):
                reply = self.request(method, path, b"{}" if method in ("POST", "PUT", "PATCH") else None)
                self.assertProblem(reply, 405, "METHOD_NOT_ALLOWED")
                methods = [m.strip() for m in reply.headers["Allow"].split(",")]
                self.assertIn(allowed, methods)
                self.assertNotIn(method, methods)
                if allowed == "GET":
                    self.assertIn("HEAD", methods)

    def test_unknown_methods_are_405_or_501(self):
        for method in ("BREW", "get", "M-SEARCH", "X" * 30, "G{}T"):
            reply = self.request(method, "/v1/gather")
            self.assertIn(reply.status, (400, 405, 501), str(reply))

    def test_head_has_the_headers_of_get_without_the_body(self):
        for path in ("/healthz", "/readyz", "/v1/ops", "/v1/ops/gather", "/v1/tensors", "/problems/not-found", "/nope", "/v1/gather"):
            with self.subTest(path=path), Raw(self.daemon) as raw:
                raw.send(http_request("GET", path) + http_request("HEAD", path) + http_request("GET", "/healthz"))
                get, head, after = raw.reply(), raw.reply(head=True), raw.reply()
                self.assertEqual(get.status, head.status)
                self.assertEqual(get.type, head.type)
                if get.status == 200:
                    self.assertEqual(get.headers["Content-Length"], head.headers["Content-Length"])
                self.assertStatus(after, 200)  # without a body before it

    def test_ops_are_listed(self):
        reply = self.get("/v1/ops")
        self.assertStatus(reply, 200)
        self.assertEqual(reply.type, JSON)
        self.assertEqual([op["name"] for op in reply.json()["ops"]][:3], list(OPS))

    def test_an_op_is_described_with_an_example_that_runs(self):
        for op in OPS:
            reply = self.get("/v1/ops/" + op)
            self.assertStatus(reply, 200)
            doc = reply.json()
            self.assertEqual(doc["name"], op)
            self.assertEqual([i["name"] for i in doc["inputs"]], ["params", "indices"])
            self.assertEqual(set(doc["inputs"][1]["dtypes"]), {"int16", "int32", "int64"})
            self.assertIn("string", doc["inputs"][0]["dtypes"])
            attributes = {a["name"]: a for a in doc["attributes"]}
            self.assertIn("bounds", attributes)
            self.assertEqual("axis" in attributes, op == "gather")
            text = json.dumps(doc)
            for fact in ("INDEX_OUT_OF_BOUNDS", "SHAPE_MISMATCH", "error"):
                self.assertIn(fact, text)
            method, path = doc["example"]["endpoint"].split(" ")
            self.assertStatus(self.request(method, path, doc["example"]["request"]), 200)

    def test_health_and_readiness(self):
        for path in ("/healthz", "/readyz"):
            reply = self.get(path)
            self.assertStatus(reply, 200)
            self.assertTrue(reply.body)

    def test_no_tables_are_an_empty_list(self):
        reply = self.get("/v1/tensors")
        self.assertStatus(reply, 200)
        self.assertEqual(reply.json(), {"tensors": []})


class ProblemPages(HttpTest):
    def test_every_code_has_a_page(self):
        for code, status in CODES.items():
            with self.subTest(code=code):
                reply = self.get("/problems/" + slug(code))
                self.assertStatus(reply, 200)
                doc = reply.json()
                self.assertEqual((doc["type"], doc["status"], doc["code"]), ("/problems/" + slug(code), status, code))
                self.assertTrue(doc["title"])
                self.assertGreater(len(doc["explanation"]), 20)

    def test_other_pages_are_not_found(self):
        for path in ("/problems/nope", "/problems/not_found", "/problems/", "/problems"):
            self.assertProblem(self.get(path), 404, "NOT_FOUND")

    def test_the_type_of_a_problem_is_a_link_that_works(self):
        problem = self.assertProblem(self.post("/v1/nope", {}), 404, "UNKNOWN_OP")
        self.assertStatus(self.get(problem["type"]), 200)


class RequestIds(HttpTest):
    def test_an_id_is_echoed(self):
        for request_id in ("abc-123", "f47ac10b-58cc-4372-a567-0e02b2c3d479", "A.b_c:d/e+f="):
            for body, status in (({"params": [1], "indices": [0]}, 200), ({}, None)):
                reply = self.post("/v1/gather", body, {"X-Request-Id": request_id})
                self.assertEqual(reply.headers.get_all("X-Request-Id"), [request_id])
                if status is None:
                    self.assertEqual(reply.json()["request_id"], request_id)

    def test_a_request_without_an_id_gets_one(self):
        seen = {self.get("/healthz").headers["X-Request-Id"] for _ in range(20)}
        seen |= {self.post("/v1/gather", {"params": [1], "indices": [0]}).headers["X-Request-Id"] for _ in range(20)}
        self.assertEqual(len(seen), 40)
        for request_id in seen:
            self.assertRegex(request_id, r"^[A-Za-z0-9._-]{8,64}$")

    def test_hostile_ids_cannot_inject_headers(self):
        for request_id in (b'"><script>alert(1)</script>', b'","status":200,"x":"', b"a\tb", b"\xff\xfe\xc3\x28", b"x" * 3000,
                           b"%0d%0aSet-Cookie: a=b", b"\\u0000", b"", b" ", b"\xe2\x80\xae", b"\x7f", b"a\\"):
            with self.subTest(request_id=request_id[:40]), Raw(self.daemon) as raw:
                raw.send(b"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: " + request_id
                         + b"\r\nContent-Length: 2\r\n\r\n{}")
                reply = raw.reply()
                self.assertIn(reply.status, (400, 422, 431), str(reply))
                if reply.type == PROBLEM:
                    self.assertAnyProblem(reply)
                    self.assertEqual(len(reply.headers.get_all("X-Request-Id")), 1)
                    self.assertRegex(reply.headers["X-Request-Id"], r"^[ -~]{1,256}$")
                self.assertIsNone(reply.headers.get("Set-Cookie"))
        self.assertServes()

    def test_ids_and_traceparent_are_logged(self):
        trace = "4bf92f3577b34da6a3ce929d0e0e4736"
        for extra in ((), ("--inline-limit-us", "0")):
            with Daemon("--log-level", "debug", *extra) as daemon, Client(daemon) as client:
                headers = {"X-Request-Id": "find-me", "traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
                self.assertStatus(client.post("/v1/gather", {"params": [[1, 2]], "indices": [0, 0]}, headers), 200)
                event = daemon.wait_log(lambda e: "find-me" in map(str, e.values()), "the request's line in the debug log")
                line = json.dumps(event)
                for fact in (trace, "gather", "200", "[1,2]"):
                    self.assertIn(fact, line.replace(", ", ","))

    def test_hostile_headers_cannot_forge_log_lines(self):
        with Daemon("--log-level", "debug") as daemon:
            for value in (b'x","event":"forged', b"a\tb", b"\xff\xfe", b"y" * 2500, b"\\", b"\x1b[31m"):
                with Raw(daemon) as raw:
                    raw.send(b"POST /v1/gather?axis=" + b"%22%0a%7b HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: " + value
                             + b"\r\ntraceparent: " + value + b"\r\nContent-Length: 2\r\n\r\n{}")
                    raw.reply()
            with Client(daemon) as client:
                client.post("/v1/gather", {"params": [1], "indices": [0]}, {"X-Request-Id": "the-last"})
            daemon.wait_log(lambda e: "the-last" in map(str, e.values()))
            self.assertEqual(len(daemon.events()), len(daemon.lines), "\n".join(daemon.lines))
            self.assertFalse([e for e in daemon.events() if e.get("event") == "forged"])


class Timing(HttpTest):
    PATTERN = r"^decode;dur=[0-9.]+, ?queue;dur=[0-9.]+, ?compute;dur=[0-9.]+, ?encode;dur=[0-9.]+"
    BODY = {"params": [1, 2], "indices": [1]}

    def test_server_timing_is_sent_on_request(self):
        self.assertRegex(self.post("/v1/gather?timing=1", self.BODY).headers.get("Server-Timing") or "", self.PATTERN)

    def test_server_timing_of_queued_requests(self):
        with Daemon("--inline-limit-us", "0") as daemon, Client(daemon) as client:
            reply = client.post("/v1/gather?timing=1", self.BODY)
            self.assertRegex(reply.headers.get("Server-Timing") or "", self.PATTERN)

    def test_server_timing_of_errors(self):
        reply = self.post("/v1/gather?timing=1", {"params": [1, 2], "indices": [2]})
        self.assertStatus(reply, 422)
        self.assertRegex(reply.headers.get("Server-Timing") or "", r"decode;dur=[0-9.]+")

    def test_server_timing_is_not_sent_by_default(self):
        for query in ("", "?timing=0"):
            self.assertIsNone(self.post("/v1/gather" + query, self.BODY).headers.get("Server-Timing"))
