"""Requests of web pages: refused from other sites, unless --allow-origin names them, and after DNS rebinding."""
from daemon import *

FORM = "application/x-www-form-urlencoded"
GATHER = b'{"params":[1,2],"indices":[1]}'
PAGE = "https://app.example"
EVIL = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}


def raw_request(method, path, *headers, host="localhost", body=b"", version="HTTP/1.1"):
    lines = [f"{method} {path} {version}", *([f"Host: {host}"] if host is not None else []), *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


class Browsers(HttpTest):
    def raw(self, *arguments, daemon=None, **options):
        with Raw(daemon or self.daemon) as raw:
            raw.send(raw_request(*arguments, **options))
            return raw.reply(head=arguments[0] == "HEAD")

    def assertForbidden(self, reply, header):
        problem = self.assertProblem(reply, 403, "FORBIDDEN")
        self.assertEqual(problem["attribute"], header)
        return problem


class OtherSites(Browsers):
    def test_a_form_of_another_site_stores_and_computes_nothing(self):
        self.assertStatus(self.request("PUT", "/v1/tensors/victim", [1, 2]), 201)
        for headers in (EVIL, {"Origin": "null"}, {"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"},
                        {"Sec-Fetch-Site": "same-site"}, {"Origin": "http://localhost:3000", "Sec-Fetch-Site": "same-site"}):
            for kind in ({}, {"Content-Type": FORM}, {"Content-Type": "text/plain"}, {"Content-Type": JSON}):
                for method, path, body in (("POST", "/v1/gather?store=loot", GATHER),
                                           ("POST", "/v1/tensors/victim/scatter", b'{"indices":[[0]],"updates":[9]}'),
                                           ("POST", "/v2/models/gather/infer", b"{}"), ("PUT", "/v1/tensors/loot", b"[1]"),
                                           ("DELETE", "/v1/tensors/victim", None), ("GET", "/v1/tensors/victim", None),
                                           ("GET", "/v1/tensors", None), ("OPTIONS", "/v1/gather", None), ("GET", "/nowhere", None)):
                    with self.subTest(headers=headers, kind=kind, path=path), Client(self.daemon) as client:
                        reply = client.request(method, path, body, {**headers, **kind})
                        self.assertStatus(reply, 403)
                        self.assertEqual(reply.json()["code"], "FORBIDDEN")
                        self.assertNotIn("Access-Control-Allow-Origin", reply.headers)
        self.assertStatus(self.get("/v1/tensors/loot"), 404)
        self.assertEqual(self.get("/v1/tensors/victim?response=nested").json()["data"], [1, 2])
        self.assertStatus(self.request("DELETE", "/v1/tensors/victim"), 204)

    def test_the_refusal_names_the_header_its_value_and_the_option(self):
        problem = self.assertForbidden(self.raw("POST", "/v1/gather", "Origin: https://evil.example", body=GATHER), "Origin")
        for part in ("https://evil.example", "localhost", "--allow-origin"):
            self.assertIn(part, problem["detail"])
        self.assertForbidden(self.raw("GET", "/v1/ops", "Sec-Fetch-Site: same-site"), "Sec-Fetch-Site")

    def test_a_page_opened_from_a_file_is_to_be_served_over_http_since_no_option_can_name_null(self):
        problem = self.assertForbidden(self.raw("POST", "/v1/gather", "Origin: null", body=GATHER), "Origin")
        self.assertIn("serve the page over HTTP", problem["detail"])

    def test_under_v2_the_refusal_has_the_form_of_v2(self):
        reply = self.raw("POST", "/v2/models/gather/infer", "Origin: null", body=b"{}")
        self.assertEqual((reply.status, reply.type), (403, JSON))
        self.assertIn("null", reply.json()["error"])

    def test_a_preflight_of_another_site_is_refused(self):
        reply = self.raw("OPTIONS", "/v1/gather", "Origin: https://evil.example", "Access-Control-Request-Method: PUT",
                          "Sec-Fetch-Mode: cors", "Sec-Fetch-Site: cross-site")
        self.assertStatus(reply, 403)
        self.assertFalse([name for name in reply.headers if name.lower().startswith("access-control")])

    def test_the_error_is_sent_before_the_body(self):
        for framing in ("Content-Length: 30", "Content-Length: 99999999", "Transfer-Encoding: chunked"):
            for expect in ((), ("Expect: 100-continue",)):
                with self.subTest(framing=framing, expect=expect), Raw(self.daemon) as raw:
                    raw.send(raw_request("POST", "/v1/gather", "Origin: null", framing, *expect))
                    self.assertForbidden(raw.reply(), "Origin")
                    self.assertEqual(raw.rest(), b"")

    def test_a_request_inside_a_refused_body_is_not_answered(self):
        with Raw(self.daemon) as raw:
            raw.send(raw_request("POST", "/v1/gather", "Origin: null", body=raw_request("GET", "/healthz") * 3))
            self.assertForbidden(raw.reply(), "Origin")
            self.assertEqual(raw.rest(), b"")

    def test_a_refusal_without_a_body_keeps_the_connection(self):
        with Raw(self.daemon) as raw:
            raw.send(raw_request("GET", "/v1/ops", "Origin: null") + raw_request("GET", "/healthz"))
            self.assertEqual([raw.reply().status for _ in range(2)], [403, 200])

    def test_a_link_from_another_site_leads_to_the_console_alone(self):
        link = ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document")
        for path in ("/v1/tensors", "/metrics", "//", "/v2", "/console/main.js"):
            self.assertStatus(self.raw("GET", path, *link), 403)
        for path in ("/", "/docs"):
            self.assertStatus(self.raw("GET", path, *link), 200)

    def test_requests_of_own_pages_and_other_clients_are_accepted(self):
        port = self.daemon.port
        for host, headers in ((f"127.0.0.1:{port}", ()), (f"localhost:{port}", ("Sec-Fetch-Mode: cors",)),
                              (f"localhost:{port}", (f"Origin: http://localhost:{port}", "Sec-Fetch-Site: same-origin")),
                              ("localhost", ("Origin: http://localhost:80",)), ("localhost:443", ("Origin: https://localhost",)),
                              ("LOCALHOST", ("Origin: http://localhost",)), ("localhost", ("Sec-Fetch-Site: none",))):
            with self.subTest(host=host, headers=headers):
                self.assertOutput(self.raw("POST", "/v1/gather", *headers, host=host, body=GATHER), "int32", [1], [2])

    def test_a_repeated_header_is_malformed(self):
        for name, first, second in (("Origin", "http://localhost", "null"), ("Sec-Fetch-Site", "none", "cross-site"),
                                    ("Host", "localhost", "localhost")):
            reply = self.raw("GET", "/healthz", f"{name}: {first}", f"{name}: {second}", host=None if name == "Host" else "localhost")
            self.assertStatus(reply, 400)
            self.assertEqual(reply.json()["code"], "MALFORMED_REQUEST")


class Hosts(Browsers):
    GOOD = ("localhost", "127.9.9.9:80", "[::1]:8080")
    BAD = ("evil.example", "192.168.0.1", "x" * 8000)  # others: tests/server/http/test_origin.c

    def test_a_loopback_listener_accepts_only_local_hosts(self):
        for listen in ("127.0.0.1:0", "localhost:0", "127.0.0.2:0"):
            with Daemon(listen=listen) as daemon:
                for host in self.GOOD:
                    with self.subTest(listen=listen, host=host):
                        self.assertStatus(self.raw("GET", "/v1/tensors", host=host, daemon=daemon), 200)
                for host in self.BAD:
                    for method, path in (("GET", "/v1/tensors"), ("PUT", "/v1/tensors/x"), ("DELETE", "/v1/tensors/x"), ("GET", "/")):
                        with self.subTest(listen=listen, host=host[:40], method=method):
                            reply = self.raw(method, path, "Sec-Fetch-Site: same-origin", host=host, daemon=daemon,
                                              body=b"[1]" if method == "PUT" else b"")
                            self.assertForbidden(reply, "Host")

    def test_an_ipv6_loopback_listener_accepts_only_local_hosts(self):
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError:
            self.skipTest("no IPv6 on this machine")
        with Daemon(listen="[::1]:0") as daemon:
            daemon.host = "::1"
            self.assertStatus(self.raw("GET", "/healthz", host="[::1]", daemon=daemon), 200)
            self.assertForbidden(self.raw("GET", "/healthz", host="evil.example", daemon=daemon), "Host")

    def test_a_nul_in_host_is_refused(self):
        for host in ("localhost\0", "localhost\0.evil.example", "\0"):
            self.assertIn(self.raw("GET", "/healthz", host=host).status, (400, 403))

    def test_http_1_0_needs_no_host_but_checks_one(self):
        self.assertStatus(self.raw("GET", "/healthz", host=None, version="HTTP/1.0"), 200)
        self.assertForbidden(self.raw("GET", "/healthz", host="evil.example", version="HTTP/1.0"), "Host")
        self.assertForbidden(self.raw("GET", "/healthz", "Origin: http://localhost", host=None, version="HTTP/1.0"), "Origin")

    def test_the_refusal_names_the_option(self):
        problem = self.assertForbidden(self.raw("GET", "/healthz", host="tensors.example:8080"), "Host")
        self.assertIn("tensors.example:8080", problem["detail"])
        self.assertIn("--allow-host", problem["detail"])

    def test_an_allowed_host_is_accepted(self):
        with Daemon("--allow-host", "tensors.example", "--allow-host=b.example,[2001:db8::1]") as daemon:
            for host in ("tensors.example", "TENSORS.example.:443", "b.example", "[2001:db8:0::1]:80", "localhost"):
                self.assertStatus(self.raw("GET", "/v1/tensors", host=host, daemon=daemon), 200)
            self.assertForbidden(self.raw("GET", "/v1/tensors", host="c.example", daemon=daemon), "Host")
            page = ("Origin: https://tensors.example", "Sec-Fetch-Site: same-origin")
            self.assertStatus(self.raw("GET", "/v1/tensors", *page, host="tensors.example", daemon=daemon), 200)
            self.assertForbidden(self.raw("GET", "/v1/tensors", *page, host="b.example", daemon=daemon), "Origin")

    def test_other_addresses_accept_any_host_without_allow_host(self):
        with Daemon(listen="0.0.0.0:0") as daemon:
            daemon.host = "127.0.0.1"
            self.assertStatus(self.raw("GET", "/healthz", host="tensors.example", daemon=daemon), 200)
            self.assertForbidden(self.raw("GET", "/healthz", "Origin: null", host="tensors.example", daemon=daemon), "Origin")
        with Daemon("--allow-host=tensors.example", listen="0.0.0.0:0") as daemon:
            daemon.host = "127.0.0.1"
            self.assertStatus(self.raw("GET", "/healthz", host="tensors.example", daemon=daemon), 200)
            self.assertForbidden(self.raw("GET", "/healthz", host="evil.example", daemon=daemon), "Host")


class AllowedOrigins(Browsers):
    OPTIONS = ("--allow-origin", PAGE + ",http://localhost:3000", "--allow-origin=http://b.example:8000")
    CORS = (f"Origin: {PAGE}", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors")

    def setUp(self):
        self.daemon = shared(*self.OPTIONS)

    def words(self, reply, name):
        return {word.strip().lower() for value in reply.headers.get_all(name) or () for word in value.split(",")}

    def assertReadable(self, reply, origin=PAGE):
        self.assertEqual(reply.headers.get_all("Access-Control-Allow-Origin"), [origin], str(reply))
        self.assertIn("origin", self.words(reply, "Vary"))
        self.assertLessEqual({"etag", "x-request-id", "retry-after", "content-range", "inference-header-content-length"},
                             self.words(reply, "Access-Control-Expose-Headers"))
        self.assertNotIn("Access-Control-Allow-Credentials", reply.headers)

    def test_an_allowed_page_may_read_replies_and_errors(self):
        for origin in (PAGE, "http://localhost:3000", "http://b.example:8000"):
            headers = (f"Origin: {origin}", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors")
            for method, path, body, status in (("PUT", "/v1/tensors/t", b"[1,2]", (200, 201)), ("GET", "/v1/tensors/t", b"", (200,)),
                                               ("POST", "/v1/gather", GATHER, (200,)), ("POST", "/v1/gather", b"{", (400,)),
                                               ("POST", "/v1/gathr", b"{}", (404,)), ("GET", "/nowhere", b"", (404,)),
                                               ("POST", "/v2/models/gather/infer", b"{", (400,)), ("PATCH", "/v1/tensors/t", b"", (405,)),
                                               ("OPTIONS", "/v1/tensors/t", b"", (204,)), ("HEAD", "/v1/tensors/t", b"", (200,)),
                                               ("GET", "/v1/tensors/none", b"", (404,))):
                with self.subTest(origin=origin, method=method, path=path):
                    reply = self.raw(method, path, *headers, body=body)
                    self.assertIn(reply.status, status, str(reply))
                    self.assertReadable(reply, origin)

    def test_an_allowed_page_may_read_errors_of_host_and_headers(self):
        reply = self.raw("GET", "/healthz", *self.CORS, host="evil.example")
        self.assertForbidden(reply, "Host")
        self.assertReadable(reply)
        reply = self.raw("POST", "/v1/gather", *self.CORS, "X-Request-Timeout-Ms: x", body=GATHER)
        self.assertProblem(reply, 400, "MALFORMED_REQUEST")
        self.assertReadable(reply)

    def test_an_allowed_page_may_read_replies_of_workers(self):
        with Daemon("--allow-origin", PAGE, "--inline-limit-us", "0") as daemon:
            reply = self.raw("POST", "/v1/gather", *self.CORS, body=GATHER, daemon=daemon)
            self.assertOutput(reply, "int32", [1], [2])
            self.assertReadable(reply)

    def test_a_preflight_is_answered_for_any_path(self):
        for path in ("/v1/gather", "/v1/tensors/t", "/v2/models/gather/infer", "/nowhere", "/v1/gathr"):
            with self.subTest(path=path):
                reply = self.raw("OPTIONS", path, *self.CORS, "Access-Control-Request-Method: PUT",
                                  "Access-Control-Request-Headers: content-type,if-match,x-request-id")
                self.assertEqual((reply.status, reply.body), (204, b""))
                self.assertEqual(reply.headers["Access-Control-Allow-Origin"], PAGE)
                self.assertLessEqual({"get", "put", "post", "delete"}, self.words(reply, "Access-Control-Allow-Methods"))
                self.assertLessEqual({"content-type", "if-match", "x-request-id", "x-request-timeout-ms", "range", "content-encoding",
                                      "inference-header-content-length"}, self.words(reply, "Access-Control-Allow-Headers"))
                self.assertGreater(int(reply.headers["Access-Control-Max-Age"]), 0)
                self.assertIn("origin", self.words(reply, "Vary"))

    def test_other_origins_are_refused_without_cors_headers(self):
        for origin in ("https://evil.example", "null", "http://app.example", "https://app.example:8443", "https://app.example.evil.example",
                       "https://x.app.example", "https://app.example/", f"{PAGE} {PAGE}", f"{PAGE},{PAGE}"):
            for method, *more in (("GET",), ("OPTIONS", "Access-Control-Request-Method: PUT")):
                with self.subTest(origin=origin, method=method):
                    reply = self.raw(method, "/v1/tensors", f"Origin: {origin}", "Sec-Fetch-Mode: cors", *more)
                    self.assertForbidden(reply, "Origin")
                    self.assertFalse([name for name in reply.headers if name.lower().startswith("access-control")])
                    self.assertIn("origin", self.words(reply, "Vary"))

    def test_requests_without_origin_have_no_cors_headers(self):
        reply = self.raw("GET", "/v1/tensors")
        self.assertStatus(reply, 200)
        self.assertNotIn("Access-Control-Allow-Origin", reply.headers)
        self.assertIn("origin", self.words(reply, "Vary"))  # a cache must not return this reply to a page
        self.assertForbidden(self.raw("GET", "/v1/tensors", "Sec-Fetch-Site: cross-site"), "Sec-Fetch-Site")

    def test_origins_may_come_from_every_source_of_options(self):
        for env, options in (({"TENSORD_ALLOW_ORIGIN": PAGE}, ()), ({}, ("--allow-origin=HTTPS://App.Example:443",))):
            with Daemon(*options, env=env) as daemon:
                self.assertReadable(self.raw("GET", "/healthz", *self.CORS, daemon=daemon))

    def test_invalid_origins_are_refused_at_start(self):
        for options, words in ((("--allow-origin=*",), ("allow-origin", "'*'", "any site")), (("--allow-origin=null",), ("'null'",)),
                               (("--allow-origin", PAGE + "/x"), ("without a path",)), (("--allow-origin=app.example",), ("an origin like",)),
                               (("--allow-host=a.example:80",), ("allow-host", "without a port"))):
            for check in ((), ("--check-config",)):
                with self.subTest(options=options, check=check):
                    done = subprocess.run([BINARY, "--listen", "127.0.0.1:0", *options, *check], env=environment(), capture_output=True,
                                          timeout=WAIT_LIMIT)
                    self.assertEqual(done.returncode, 2)
                    for word in words:
                        self.assertIn(word, done.stderr.decode())
