"""Request targets: their forms, and percent-encoding in paths and queries."""
from daemon import *

GATHER = b'{"params":[1,2],"indices":[1]}'


class Encoding(HttpTest):
    def test_an_encoded_slash_is_not_a_separator(self):
        for path in ("/v1%2fgather", "/v1%2Fgather", "/%2fv1/gather", "/v1/tensors%2ft", "/v2%2fmodels/gather/infer"):
            self.assertStatus(self.post(path, GATHER), 404)
        self.assertProblem(self.post("/v1/%2fgather", GATHER), 404, "UNKNOWN_OP")

    def test_only_names_may_be_percent_encoded(self):
        self.assertOutput(self.post("/v1/g%61ther", GATHER), "int32", [1], [2])
        for path in ("/%76%31/gather", "/%761/gather", "/v1/%74ensors/x/scatter"):
            self.assertProblem(self.post(path, GATHER), 404, "NOT_FOUND")

    def test_an_invalid_escape_in_a_path_is_malformed_and_shown(self):
        for path, escape in (("/v1/gather%", "%"), ("/v1/gather%4", "%4"), ("/v1/%zzgather", "%zz"), ("/nowhere%g1", "%g1"),
                             ("/v1/tensors/%%41", "%%4"), ("/healthz%/x", "%/x")):
            with self.subTest(path=path):
                problem = self.assertProblem(self.post(path, GATHER), 400, "MALFORMED_REQUEST")
                self.assertIn(f"'{escape}'", problem["detail"])
        reply = self.get("/v2/models/%zz")
        self.assertEqual((reply.status, reply.type), (400, JSON))
        self.assertIn("%zz", reply.json()["error"])

    def test_a_refused_path_keeps_the_connection(self):
        with Raw(self.daemon) as raw:
            raw.send(http_request("POST", "/v1/gather%", GATHER) + http_request("GET", "/v1/tensors/t%00") + http_request("GET", "/healthz"))
            self.assertEqual([raw.reply().status for _ in range(3)], [400, 400, 200])

    def test_arguments_of_a_query_are_decoded(self):
        for query in ("?axis=%30", "?%61xis=0", "?ax%69s=%30&device=c%70u", "?axis=%2b0"):
            self.assertOutput(self.post("/v1/gather" + query, GATHER), "int32", [1], [2])
        self.assertProblem(self.post("/v1/gather?axis=+0", GATHER), 400, "MALFORMED_REQUEST")  # a space
        for query in ("?axis=0%00", "?axis%00=0", "?%00axis=0"):
            self.assertProblem(self.post("/v1/gather" + query, GATHER), 400, "MALFORMED_REQUEST")
        self.assertStatus(self.request("PUT", "/v1/tensors/a:b", [1]), 201)
        for query in ("response=fl%61t", "%72esponse=flat"):
            self.assertEqual(self.get("/v1/tensors/a:b?" + query).json()["data"], [1])
        for query in ("response=fl%2561t", "response%3dflat", "response=flat%26x"):
            self.assertProblem(self.get("/v1/tensors/a:b?" + query), 400, "MALFORMED_REQUEST")

    def test_an_invalid_escape_in_a_query_is_malformed(self):
        for path in ("/healthz", "/readyz", "/v1/ops", "/v1/devices"):
            with self.subTest(path=path):
                self.assertProblem(self.get(path + "?a=%zz"), 400, "MALFORMED_REQUEST")
                self.assertIn(self.get(path + "?a=b").status, (400,) if path.startswith("/v1") else (200, 503))
        for query, escape in (("response=%zz", "%zz"), ("response=flat%4", "%4"), ("%=flat", "%"), ("response=%", "%")):
            problem = self.assertProblem(self.get("/v1/tensors/any?" + query), 400, "MALFORMED_REQUEST")
            self.assertIn(f"'{escape}'", problem["detail"])
        self.assertIn("'%zz'", self.post("/v1/gather?axis=%zz", GATHER).json()["detail"])

    def test_the_log_has_the_path_as_it_was_sent(self):
        with Daemon("--log-level", "debug") as daemon, Client(daemon) as client:
            client.request("GET", "/v1/tensors/a%0a%2fb")
            daemon.wait_log(lambda e: e.get("path") == "/v1/tensors/a%0a%2fb")


class Forms(HttpTest):
    def request_for(self, target, *headers, method="GET", host="localhost", version="HTTP/1.1", body=b"", daemon=None):
        lines = [f"{method} {target} {version}", *([f"Host: {host}"] if host is not None else []), *headers]
        with Raw(daemon or self.daemon) as raw:
            raw.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
            return raw.reply(head=method == "HEAD")

    def test_an_absolute_uri_is_served_like_its_path(self):
        for target in ("http://localhost/healthz", "HTTP://LOCALHOST:8080/healthz", "http://127.0.0.1/healthz?x=1", "http://[::1]:1/healthz"):
            self.assertEqual(self.request_for(target).json(), {"status": "alive"})
        reply = self.request_for("http://localhost/v1/gather?axis=%30", f"Content-Length: {len(GATHER)}", method="POST", body=GATHER)
        self.assertOutput(reply, "int32", [1], [2])
        self.assertStatus(self.request_for("http://localhost/v1%2fgather", method="POST"), 404)
        for target in ("http://localhost", "http://localhost?x"):  # the path is "/"
            self.assertEqual(self.request_for(target).headers["Content-Type"], "text/html; charset=utf-8")
        self.assertStatus(self.request_for("http://localhost/healthz", host=None, version="HTTP/1.0"), 200)

    def test_the_authority_of_an_absolute_uri_replaces_host(self):
        reply = self.request_for("http://evil.example/healthz")
        self.assertEqual(self.assertProblem(reply, 403, "FORBIDDEN")["attribute"], "Host")
        self.assertIn("evil.example", reply.json()["detail"])
        self.assertStatus(self.request_for("http://localhost/healthz", host="evil.example"), 200)
        self.assertStatus(self.request_for("http://localhost:1/healthz", "Origin: http://localhost:1", host="localhost:2"), 200)
        self.assertProblem(self.request_for("http://localhost:1/healthz", "Origin: http://localhost:2", host="localhost:2"), 403, "FORBIDDEN")

    def test_an_absolute_uri_still_requires_host(self):
        self.assertStatus(self.request_for("http://localhost/healthz", host=None), 400)
        self.assertStatus(self.request_for("http://localhost/healthz", "Host: localhost"), 400)

    def test_errors_have_the_format_of_the_path(self):
        reply = self.request_for("http://localhost/v2/nowhere")
        self.assertEqual((reply.status, reply.type), (404, JSON))
        reply = self.request_for("http://localhost/v2/health/live", "Content-Length: 1", "Content-Length: 2")
        self.assertEqual((reply.status, reply.type), (400, JSON))

    def test_options_of_the_server_lists_all_methods(self):
        for target in ("*", "http://localhost"):
            reply = self.request_for(target, method="OPTIONS")
            self.assertEqual((reply.status, reply.headers["Allow"], reply.body), (204, "GET, HEAD, POST, PUT, DELETE", b""))
        self.assertEqual(self.request_for("http://localhost/", method="OPTIONS").headers["Allow"], "GET, HEAD")

    def test_other_targets_are_malformed(self):
        for target in ("healthz", "*", "**", "ftp://localhost/healthz", "https://localhost/healthz", "http:/healthz", "http:///healthz",
                       "http://", "http://:80/healthz", "http://user@localhost/healthz", "http://localhost:x/healthz", "http://[::1/healthz",
                       "http://local%68ost/healthz", "http://localhost\\/healthz", "localhost:80", "?x", "#", "%2fhealthz", "httpx://localhost/",
                       "http://localhost#/healthz", "x" * 5000):
            for method in ("GET", "POST", "CONNECT"):
                with self.subTest(target=target[:40], method=method):
                    problem = self.assertProblem(self.request_for(target, "Content-Length: 0", method=method), 400, "MALFORMED_REQUEST")
                    self.assertIn("target", problem["detail"])
        self.assertProblem(self.request_for("*x", method="OPTIONS"), 400, "MALFORMED_REQUEST")
        reply = self.request_for("https://localhost/v2/health/live")
        self.assertEqual(reply.status, 400)

    def test_a_preflight_of_a_malformed_target_is_malformed(self):
        with Daemon("--allow-origin", "https://a.example") as daemon:
            more = ("Origin: https://a.example", "Access-Control-Request-Method: PUT")
            self.assertStatus(self.request_for("/x", *more, method="OPTIONS", daemon=daemon), 204)
            reply = self.request_for("x", *more, method="OPTIONS", daemon=daemon)
            self.assertProblem(reply, 400, "MALFORMED_REQUEST")
            self.assertEqual(reply.headers["Access-Control-Allow-Origin"], "https://a.example")
