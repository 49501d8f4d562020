"""Errors and headers as clients see them: problem documents, routes, request ids, timing. Which requests are refused, and how, is tested in
process: tests/conformance/, tests/kernels/, tests/api/json/, tests/api/message/, tests/server/http/test_routes.c."""
from daemon import *


class OpRefusals(HttpTest):
    def test_a_bad_index_is_reported_with_position_value_and_bound(self):
        reply = self.post("/v1/gather", {"params": [[1, 2, 3], [4, 5, 6]], "indices": [[0, 7], [-1, 2]], "axis": 1})
        problem = self.assertProblem(reply, 422, "INDEX_OUT_OF_BOUNDS", op="gather", input="indices", position=[0, 1],
                                     index=7, bound=3, axis=1, bad_count=2, status=422,
                                     type="/problems/index-out-of-bounds", title="Index out of bounds")
        self.assertEqual(problem["detail"], "indices[0,1] = 7 is not in [0, 3)")

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

    def test_a_reply_has_no_headers_of_an_earlier_error(self):
        """the memory of a call is used again by the next call"""
        for _ in range(3):
            self.assertIn("Allow", self.request("DELETE", "/v1/gather").headers)
            reply = self.post("/v1/gather", {"params": [1.5], "indices": [0]})
            self.assertStatus(reply, 200)
            for name in ("Allow", "ETag", "Retry-After", "WWW-Authenticate", "Accept-Encoding"):
                self.assertNotIn(name, reply.headers)

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


class MalformedRequests(HttpTest):
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

    def test_unknown_query_parameters_are_refused_with_a_suggestion(self):
        reply = self.post("/v1/gather?axsi=0&axis=0", {"params": [1], "indices": [0]})
        self.assertProblem(reply, 400, "MALFORMED_REQUEST")
        reply = self.post("/v1/gather?batch_dim=0", {"params": [1], "indices": [0]})
        self.assertProblem(reply, 400, "MALFORMED_REQUEST", did_you_mean="batch_dims")


class Routes(HttpTest):
    def test_a_slash_too_many_in_a_path_is_pointed_out(self):
        for path in ("//v1/gather", "/v1//gather", "/v1/tensors//gather", "//healthz"):
            self.assertIn("the path has two '/' in a row", self.assertProblem(self.post(path, {}), 404, "NOT_FOUND")["detail"])
        for path in ("/v1/gather/", "/v1/tensors/x/", "/v1/tensors/x/gather/", "/v1/aliases/x/"):
            self.assertIn("leave out the last '/'", self.assertProblem(self.post(path, {}), 404, "NOT_FOUND")["detail"])

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
        for method, path, allowed in (("PUT", "/v1/gather", "POST"), ("DELETE", "/readyz", "GET, HEAD")):
            reply = self.request(method, path, b"{}")
            self.assertProblem(reply, 405, "METHOD_NOT_ALLOWED")
            self.assertEqual(reply.headers["Allow"], allowed)

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

    def test_the_type_of_a_problem_is_a_link_that_works(self):
        problem = self.assertProblem(self.post("/v1/nope", {}), 404, "UNKNOWN_OP")
        self.assertStatus(self.get(problem["type"]), 200)

    def test_the_example_of_each_op_runs(self):
        for op in self.get("/v1/ops").json()["ops"]:
            example = self.get("/v1/ops/" + op["name"]).json()["example"]
            method, path = example["endpoint"].split(" ")
            with self.subTest(op=op["name"]):
                self.assertStatus(self.request(method, path, example["request"]), 200)


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
