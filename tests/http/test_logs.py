"""The log: its lines whatever clients send, its level, and a reader that does not read."""
import concurrent.futures, contextlib, json, os, re, signal, subprocess
from daemon import *
from gates import GatedDaemon

GATHER = {"params": [1, 2], "indices": [1]}


class Level(unittest.TestCase):
    def change(self, daemon, number):
        """the event of the change that this signal makes"""
        def changes():
            return [e for e in daemon.events() if e["event"] == "log_level"]
        before = len(changes())
        daemon.send_signal(number)
        new = eventually(lambda: changes()[before:], "a change of the level")
        self.assertEqual(len(new), 1)
        return new[0]["from"], new[0]["to"]

    def test_signals_change_the_level_within_its_bounds(self):
        more, less = signal.SIGUSR1, signal.SIGUSR2
        with Daemon() as daemon, Client(daemon) as client:
            client.post("/v1/gather", GATHER, {"X-Request-Id": "before"})
            client.request("GET", "/healthz")  # its line follows that of the request before, if there is one
            self.assertEqual(self.change(daemon, more), ("info", "debug"))
            self.assertEqual(self.change(daemon, more), ("debug", "debug"))
            client.post("/v1/gather", GATHER, {"X-Request-Id": "between"})
            daemon.wait_log(lambda e: e.get("request_id") == "between")
            for step in (("debug", "info"), ("info", "warn"), ("warn", "error"), ("error", "error")):
                self.assertEqual(self.change(daemon, less), step)
            client.post("/v1/gather", GATHER, {"X-Request-Id": "after"})
            client.request("GET", "/healthz")
            self.assertEqual(self.change(daemon, more), ("error", "warn"))
            seen = {e.get("request_id") for e in daemon.events()}
            self.assertFalse({"before", "after"} & seen)

    def test_a_signal_for_the_log_does_not_stop_a_drain(self):
        with GatedDaemon("--drain-delay-ms", "3600000") as daemon, Client(daemon) as client:
            daemon.send_signal(signal.SIGTERM)
            daemon.wait_log(lambda e: e["event"] == "draining")
            self.assertEqual(self.change(daemon, signal.SIGUSR1), ("info", "debug"))
            self.assertEqual(client.post("/v1/gather", GATHER).status, 200)
            daemon.clock.advance(3601)
            self.assertEqual(daemon.wait(), 0)


class FullPipe(unittest.TestCase):
    def start(self, stderr, *program):
        """a daemon whose log nobody reads yet; it inherits its socket, so that connections wait there until it has started"""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            command = passing(listener, [*program, "--log-format", "json", "--log-level", "debug"])
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=stderr, env=environment(), pass_fds=[listener.fileno()])
            process.host, process.port = listener.getsockname()
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def check(self, reading, writing, *program):
        process = self.start(writing, *(program or [BINARY]))
        os.close(writing)
        with Client(process) as client:
            for _ in range(3000):  # some 300 bytes each; a pipe holds 64 KiB, the socket less
                self.assertEqual(client.post("/v1/gather", GATHER).status, 200)
            dropped = self.dropped(client)
            self.assertGreater(dropped, 0)
            lines, stop = [], []
            def read():
                with os.fdopen(reading, "rb") as file:
                    lines.extend(file)
            reader = threading.Thread(target=read)
            reader.start()
            def is_reported():
                client.post("/v1/gather", GATHER)
                return any(b'"dropped":' in line for line in list(lines))
            eventually(is_reported, "a line with the number of dropped ones")
        process.terminate()
        self.assertEqual(process.wait(WAIT_LIMIT), 0)
        reader.join(WAIT_LIMIT)
        events = [json.loads(line) for line in lines]
        self.assertGreaterEqual(sum(event.get("dropped", 0) for event in events), dropped)
        self.assertEqual(events[-1]["event"], "stopped")

    def dropped(self, client):
        text = client.request("GET", "/metrics").body.decode()
        return int(next(line for line in text.splitlines() if line.startswith("tensord_log_lines_dropped_total ")).split()[1])

    def test_a_pipe_that_nobody_reads_does_not_stop_requests(self):
        self.check(*os.pipe())

    @unittest.skipUnless(os.getuid() == 0, "only root starts a daemon as another user")
    def test_nor_does_a_pipe_that_the_daemon_may_not_open_again(self):
        with tempfile.TemporaryDirectory() as folder:  # the folder of the build may be root's alone
            os.chmod(folder, 0o755)
            self.check(*os.pipe(), shutil.which("setpriv"), "--reuid", "65534", shutil.copy(BINARY, folder))

    def test_nor_does_a_socket(self):
        ends = socket.socketpair()
        ends[1].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32768)
        self.check(*(end.detach() for end in ends))


def lines_of(daemon):
    """all lines of requests, each checked to be an object, after the daemon has stopped"""
    daemon.stop()
    assert len(daemon.events()) == len(daemon.lines), daemon.tail(40)
    return [e for e in daemon.events() if e["event"] in ("request", "request_dropped")]


class AccessLog(unittest.TestCase):
    STAGES = ("receive_ms", "decode_ms", "queue_ms", "compute_ms", "encode_ms", "send_ms")

    def test_it_is_off_by_default(self):
        for options in ((), ("--access-log", "off"), ("--access-log", "0")):
            with Daemon(*options) as daemon, Client(daemon) as client:
                for _ in range(50):
                    client.post("/v1/gather", GATHER)
                self.assertEqual(lines_of(daemon), [])

    def test_a_line_has_all_of_a_request(self):
        for extra in ((), ("--inline-limit-us", "0")):
            with Daemon("--access-log", "on", *extra) as daemon:
                with Client(daemon) as client:
                    reply = client.post("/v1/gather?timing=1", GATHER, {"X-Request-Id": "one"})
                    self.assertEqual(reply.status, 200)
                event, = [e for e in lines_of(daemon) if e["request_id"] == "one"]
                known = {"level": "info", "event": "request", "why": "access", "client": "127.0.0.1", "op": "gather", "status": 200,
                         "transport": "json", "device": "cpu", "method": "POST", "path": "/v1/gather",
                         "body_bytes": len(json.dumps(GATHER)), "reply_bytes": len(reply.body), "inputs": "params[2] indices[1]"}
                self.assertEqual({name: event.get(name) for name in known}, known)
                self.assertFalse({"code", "detail", "forwarded_for", "trace_id", "parent_span_id", "reply", "suppressed"} & set(event))
                for stage in self.STAGES:
                    self.assertGreaterEqual(event[stage], 0)
                self.assertGreater(event["duration_ms"], 0)

    def test_a_line_has_the_time_that_each_stage_took(self):
        request = http_request("POST", "/v1/gather", json.dumps(GATHER).encode(), ["X-Request-Id: it"])
        took = {"decode_ms": 1000, "queue_ms": 2000, "compute_ms": 4000, "encode_ms": 8000}
        with GatedDaemon("--access-log", "on", "--default-timeout-ms", "0", "--workers", "1", "--inline-limit-us", "0") as daemon:
            with contextlib.ExitStack() as stack:
                decode, compute, encode = (stack.enter_context(daemon.gates.closed(name)) for name in ("decode", "compute", "encode"))
                stack.enter_context(daemon.clock.stopped())
                before, raw = (stack.enter_context(Raw(daemon)) for _ in range(2))
                before.send(http_request("POST", "/v1/gather", json.dumps(GATHER).encode()))
                decode.arrival().release()
                first = compute.arrival()
                raw.send(request)
                eventually(lambda: metric(daemon, "tensord_queue_jobs") == 1)
                daemon.clock.advance(2)
                first.release()
                encode.arrival().release()
                for gate, seconds in ((decode, 1), (compute, 4), (encode, 8)):
                    arrival = gate.arrival()
                    daemon.clock.advance(seconds)
                    arrival.release()
                self.assertEqual((before.reply().status, raw.reply().status), (200, 200))
                daemon.wait_log(lambda e: e.get("request_id") == "it")  # before the clock goes on
            event, = [e for e in lines_of(daemon) if e["request_id"] == "it"]
            self.assertEqual({stage: event[stage] for stage in self.STAGES}, {"receive_ms": 0, **took, "send_ms": 0})
            self.assertEqual(event["duration_ms"], sum(took.values()))

    def test_each_request_has_one_line_also_refused_ones(self):
        requests = (("POST", "/v1/gather", GATHER, 200, None), ("POST", "/v1/gather", {"params": [1], "indices": [7]}, 422, "INDEX_OUT_OF_BOUNDS"),
                    ("GET", "/nowhere", None, 404, "NOT_FOUND"), ("PUT", "/v1/gather", b"x", 405, "METHOD_NOT_ALLOWED"), ("GET", "/healthz", None, 200, None),
                    ("POST", "/v1/gather", {**GATHER, "device": "gpu"}, 503, "DEVICE_UNAVAILABLE"), ("HEAD", "/v1/tensors/none", None, 404, None),
                    ("PUT", "/v1/tensors/t", [1, 2], 201, None), ("POST", "/v1/gather", b"{" + b" " * 100000, 400, "MALFORMED_REQUEST"))
        with Daemon("--access-log", "on") as daemon:
            with Client(daemon) as client:
                for number, (method, path, body, status, _) in enumerate(requests):
                    self.assertEqual(client.request(method, path, body, {"X-Request-Id": str(number)}).status, status)
            by_id = {}
            for event in lines_of(daemon):
                by_id.setdefault(event["request_id"], []).append(event)
            for number, (method, path, _, status, code) in enumerate(requests):
                event, = by_id[str(number)]
                self.assertEqual((event["method"], event["path"], event["status"]), (method, path, status))
                self.assertEqual(event["why"], "failed" if status >= 500 else "access")
                if code:
                    self.assertEqual(event["code"], code)
            self.assertEqual(by_id["4"][0]["op"], "health")
            self.assertEqual(by_id["7"][0]["op"], "put_tensor")

    def test_a_fraction_of_the_requests_is_logged(self):
        with Daemon("--access-log", "0.25") as daemon, Client(daemon) as client:
            for _ in range(2000):
                client.post("/v1/gather", GATHER)
            count = len(lines_of(daemon))
        self.assertTrue(350 < count < 650, count)  # 500, and 7 times the standard deviation of 19

    def test_the_client_behind_a_trusted_proxy_is_logged(self):
        for proxy, forwarded, expected in (("127.0.0.1", "192.0.2.7", "192.0.2.7"), ("127.0.0.1", "2001:db8:1:2:3::4", "2001:db8:1:2:3::4"),
                                           ("127.0.0.1", '"},\x01', None), ("10.0.0.1", "192.0.2.7", None), ("127.0.0.1", "evil, 192.0.2.9", "192.0.2.9")):
            with self.subTest(forwarded=forwarded), Daemon("--access-log", "on", "--trusted-proxy", proxy) as daemon:
                with Raw(daemon) as raw:
                    raw.send(http_request("POST", "/v1/gather", json.dumps(GATHER).encode(), ["X-Request-Id: it", "X-Forwarded-For: " + forwarded]))
                    raw.reply()
                event, = [e for e in lines_of(daemon) if e["request_id"] == "it"]
                self.assertEqual((event["client"], event.get("forwarded_for")), ("127.0.0.1", expected))

    def test_a_client_that_leaves_before_the_end_of_its_reply_is_logged(self):
        with Daemon("--access-log", "on") as daemon:
            with Client(daemon) as client:
                table = npy("float32", (4 << 20,), bytes(16 << 20))
                self.assertEqual(client.request("PUT", "/v1/tensors/large", table, {"Content-Type": "application/x-npy"}).status, 201)
            with Raw(daemon) as raw:
                raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # holds a small part of the reply
                raw.send(http_request("GET", "/v1/tensors/large", b"", ["X-Request-Id: left", "Accept: application/x-npy"]))
                raw.more()
            event = daemon.wait_log(lambda e: e.get("request_id") == "left")
            self.assertEqual((event["status"], event["reply"], event["why"]), (200, "incomplete", "access"))

    def test_requests_to_the_address_for_metrics_are_logged(self):
        with Daemon("--access-log", "on", "--metrics-listen", "127.0.0.1:0") as daemon:
            host, port = daemon.wait_log(lambda e: e["event"] == "metrics_listening")["address"].split(":")
            other = type("Address", (), {"host": host, "port": int(port)})
            with Client(other) as client:
                self.assertEqual(client.request("GET", "/metrics", None, {"X-Request-Id": "scrape"}).status, 200)
            event = daemon.wait_log(lambda e: e.get("request_id") == "scrape")
            self.assertEqual((event["op"], event["path"], event["client"]), ("metrics", "/metrics", "127.0.0.1"))

    def test_requests_that_are_not_http_are_logged(self):
        with Daemon("--access-log", "on") as daemon:
            with Raw(daemon) as raw:
                raw.send(b"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n")
                self.assertEqual(raw.reply().status, 400)
            events = lines_of(daemon)
            self.assertIn(("access", "MALFORMED_REQUEST"), [(e["why"], e.get("code")) for e in events])

    def test_text_lines_have_the_same_fields(self):
        process = subprocess.Popen([BINARY, "--listen", "127.0.0.1:0", "--access-log", "on"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True, env=environment())
        try:
            process.host, process.port = re.search(r"address=([\d.]+):(\d+)", process.stderr.readline()).groups()
            with Client(process) as client:
                client.request("GET", "/no%0awhere%20x", None, {"X-Request-Id": "q=1"})
        finally:
            process.terminate()
            lines = process.stderr.read().splitlines()
            process.stderr.close()
            process.wait(WAIT_LIMIT)
        line, = [l for l in lines if 'request_id="q=1"' in l]
        self.assertRegex(line, r'^\S+Z info request why=access request_id="q=1" client=127\.0\.0\.1 status=404 code=NOT_FOUND transport=none '
                               r'body_bytes=0 .* send_ms=[\d.]+ method=GET path=/no%0awhere%20x detail=')


class Clients(unittest.TestCase):
    """the address that is connected, the client that a proxy names and the holder of a token are three things"""
    NAMED, PLAIN, UNKNOWN = "named-token-0123456789", "plain-token-0123456789", "other-token-0123456789"

    def setUp(self):
        file = tempfile.NamedTemporaryFile("w", prefix="tensord-tokens-")
        file.write(f"# tokens\nadmin {self.NAMED} name=shop@example.com\n\nwrite {self.PLAIN} team.\n")
        file.flush()
        self.addCleanup(file.close)
        self.options = ("--access-log", "on", "--token-file", file.name)

    def who(self, daemon, token, forwarded=None, path="/v1/gather"):
        headers = {"X-Request-Id": "it", **({"Authorization": "Bearer " + token} if token else {}),
                   **({"X-Forwarded-For": forwarded} if forwarded else {})}
        with Client(daemon) as client:
            status = client.post(path, GATHER, headers).status
        event, = [e for e in lines_of(daemon) if e["request_id"] == "it"]
        text = "\n".join(daemon.lines)
        self.assertFalse([secret for secret in (self.NAMED, self.PLAIN, self.UNKNOWN) if secret in text])
        return status, event["client"], event.get("forwarded_for"), event.get("token")

    def test_address_client_and_holder_of_a_token_are_logged_apart(self):
        proxy = ("--trusted-proxy", "127.0.0.1")
        for options, token, forwarded, path, expected in (
                ((), self.NAMED, None, "/v1/gather", (200, "127.0.0.1", None, "shop@example.com")),
                ((), self.PLAIN, None, "/v1/gather", (200, "127.0.0.1", None, "#4")),
                ((), self.PLAIN, None, "/v2/repository/models/gather/load", (403, "127.0.0.1", None, "#4")),  # refused
                (proxy, self.NAMED, "192.0.2.7", "/v1/gather", (200, "127.0.0.1", "192.0.2.7", "shop@example.com")),
                (proxy, self.NAMED, None, "/v1/gather", (200, "127.0.0.1", None, "shop@example.com")),
                (proxy, self.UNKNOWN, "192.0.2.7", "/v1/gather", (401, "127.0.0.1", "192.0.2.7", None)),
                (proxy, None, "192.0.2.7", "/v1/gather", (401, "127.0.0.1", "192.0.2.7", None))):
            with self.subTest(options=options, token=token, path=path), Daemon(*self.options, *options) as daemon:
                self.assertEqual(self.who(daemon, token, forwarded, path), expected)

    def test_two_requests_of_one_connection_have_their_own_tokens(self):
        with Daemon(*self.options) as daemon:
            with Client(daemon) as client:
                for token in (self.NAMED, self.PLAIN, self.UNKNOWN, self.NAMED):
                    client.post("/v1/gather", GATHER, {"Authorization": "Bearer " + token})
                client.request("GET", "/healthz")
            self.assertEqual([e.get("token") for e in lines_of(daemon)], ["shop@example.com", "#4", None, "shop@example.com", None])


class Audit(unittest.TestCase):
    TOKEN = "writer-token-0123456789"

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tensord-audit-")
        self.addCleanup(folder.cleanup)
        tokens = os.path.join(folder.name, "tokens")
        with open(tokens, "w", encoding="utf-8") as file:
            file.write(f"write {self.TOKEN} name=import\n")
        os.mkdir(os.path.join(folder.name, "tables"))
        self.options = ("--token-file", tokens, "--data-dir", os.path.join(folder.name, "tables"), "--trusted-proxy", "127.0.0.1")

    def start(self, kind=Daemon):
        daemon = kind(*self.options)
        daemon.at_start = None  # which would ask without a token
        return daemon

    def lines(self, daemon, request_id="it"):
        return [e for e in daemon.events() if e["event"] == "audit" and e["request_id"] == request_id]

    def ask(self, daemon, method, path, body=None, request_id="it"):
        with Client(daemon) as client:
            return client.request(method, path, body, {"X-Request-Id": request_id, "X-Forwarded-For": "192.0.2.7", "Authorization": "Bearer " + self.TOKEN})

    def test_each_change_has_a_line_with_who_and_what(self):
        changes = (
            ("PUT", "/v1/tensors/t@1?persist=1", [[1, 2], [3, 4]], [("put_tensor", "t@1", None, None, 1)]),
            ("PUT", "/v1/tensors/t", [[1, 2], [3, 4]], [("put_tensor", "t", None, None, None)]),
            ("POST", "/v1/tensors/t/scatter", {"indices": [[0]], "updates": [[9, 9]]}, [("scatter", "t", None, None, None)]),
            ("PUT", "/v1/tensors/t/keys", ["a", "b"], [("put_keys", "t", None, None, None)]),
            ("POST", "/v1/tensors/t/upsert", {"keys": ["c"], "rows": [[5, 6]]}, [("upsert", "t", None, None, None)]),
            ("POST", "/v1/tensors/t/remove", {"keys": ["c"]}, [("remove", "t", None, None, None)]),
            ("DELETE", "/v1/tensors/t/keys", None, [("delete_keys", "t", None, None, None)]),
            ("POST", "/v1/gather", {"params": [1, 2], "indices": [1], "store": "made"}, [("gather", "made", None, None, None)]),
            ("POST", "/v1/aliases", {"set": {"a": "t@1", "b": "t@1"}}, [("set_alias", None, "a", "t@1", 1), ("set_alias", None, "b", "t@1", 1)]),
            ("DELETE", "/v1/tensors/a", None, [("delete_alias", None, "a", None, 1)]),
            ("POST", "/v1/aliases?persist=1", {"set": {"b": None}}, [("delete_alias", None, "b", None, 1)]),
            ("DELETE", "/v1/tensors/t", None, [("delete_tensor", "t", None, None, None)]),
            ("DELETE", "/v1/tensors/t@1", None, [("delete_tensor", "t@1", None, None, 1)]))
        with self.start() as daemon:
            for n, (method, path, body, expected) in enumerate(changes):
                with self.subTest(method + " " + path):
                    reply = self.ask(daemon, method, path, body, f"it{n}")
                    self.assertLess(reply.status, 300, reply.body)
                    eventually(lambda: len(self.lines(daemon, f"it{n}")) >= len(expected), "the lines of the change")
                    events = self.lines(daemon, f"it{n}")
                    self.assertEqual([(e["operation"], e.get("table"), e.get("alias"), e.get("target"), e.get("persisted")) for e in events], expected)
                    for event in events:
                        self.assertEqual((event["level"], event["token"], event["client"], event["forwarded_for"]), ("info", "import", "127.0.0.1", "192.0.2.7"))
                        if event["operation"] in ("put_tensor", "scatter", "put_keys", "upsert", "remove"):
                            self.assertEqual(event["version"], reply.json()["version"])

    def test_each_file_that_a_change_removes_is_named(self):
        tables = self.options[3]
        def files(name, *others):
            for file in (name + ".npy", *others):
                with open(os.path.join(tables, file), "wb") as out:
                    out.write(npy("<i8", (1,), bytes(8)))
        def removed(daemon):
            return [(e["file"], e["tensor"]) for e in daemon.events() if e["event"] == "file_removed"]
        def read(daemon):
            """a scan reads the files, without which a change does not replace or remove them"""
            scans = sum(e["event"] == "data_dir_scanned" for e in daemon.events())
            daemon.send_signal(signal.SIGHUP)
            eventually(lambda: sum(e["event"] == "data_dir_scanned" for e in daemon.events()) > scans, "a scan")
        with self.start() as daemon:
            files("w", "w.keys.npy")
            self.assertEqual(self.ask(daemon, "PUT", "/v1/tensors/w?persist=1", [1]).status, 409)
            read(daemon)
            self.assertEqual(self.ask(daemon, "PUT", "/v1/tensors/w?persist=1", [1]).status, 200)
            eventually(lambda: removed(daemon) == [("w.npy", "w"), ("w.keys.npy", "w")], "the files that the new one replaces")
            files("w", "w.keys.npy")
            read(daemon)
            self.assertEqual(self.ask(daemon, "DELETE", "/v1/tensors/w", request_id="gone").status, 204)
            eventually(lambda: removed(daemon)[2:] == [("w.npy", "w"), ("w.keys.npy", "w"), ("w.tensord", "w")], "all files of the tensor")
            eventually(lambda: [e.get("persisted") for e in self.lines(daemon, "gone")] == [1], "the line of the deletion")
        self.assertEqual([f for f in os.listdir(tables) if not f.startswith(".")], [])

    def test_a_refused_change_and_a_read_have_none(self):
        with self.start() as daemon:
            for method, path, body, status in (("PUT", "/v1/tensors/t", {"x": 1}, 400), ("DELETE", "/v1/tensors/none", None, 404),
                                               ("POST", "/v1/aliases", {"set": {"a": "none@1"}}, 404), ("POST", "/v1/gather", GATHER, 200)):
                self.assertEqual(self.ask(daemon, method, path, body).status, status)
            daemon.stop()  # all lines have been read
            self.assertEqual(self.lines(daemon), [])

    def test_the_line_is_that_of_the_change_though_its_client_has_left(self):
        with self.start(GatedDaemon) as daemon:
            with daemon.gates.closed("encode") as gate:
                with Raw(daemon) as raw:
                    raw.send(http_request("PUT", "/v1/tensors/t", b"[1]", ["X-Request-Id: it", "Authorization: Bearer " + self.TOKEN]))
                    gate.arrival()
            event = daemon.wait_log(lambda e: e["event"] == "audit")
            self.assertEqual((event["table"], event["token"]), ("t", "import"))


class Hostile(unittest.TestCase):
    VALUES = (b'x","event":"forged', b"a\tb", b"\xff\xfe", b"\xc3\x28", b"y" * 9000, b"\\", b"\\u0000", b"\x1b[31m", b"'", b"%00%0a%22", b"\x80" * 3000,
              b"\xf0\x9f\x98\x80", b"{}", b"\x01\x02\x7f", b"a\x00b", b"a\rb", b"a\nb")

    def requests(self, value):
        body = json.dumps(GATHER).encode()
        end = b"\r\nHost: localhost\r\nContent-Length: %d\r\n" % len(body)
        yield b"POST /v1/gather" + value + b" HTTP/1.1" + end + b"\r\n" + body
        yield b"POST /v1/tensors/" + value + b"/scatter HTTP/1.1" + end + b"\r\n" + body
        yield value + b" /v1/gather HTTP/1.1" + end + b"\r\n" + body
        for header in (b"X-Request-Id", b"traceparent", b"X-Forwarded-For", b"Content-Type", b"Accept", value):
            yield b"POST /v1/gather HTTP/1.1" + end + header + b": " + value + b"\r\n\r\n" + body
        text = b'{"params": [1], "indices": [0], "' + value + b'": "' + value + b'"}'
        yield b"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(text) + text

    def send_all(self, daemon):
        """side by side, since a connection that the client has closed on its side takes up to a second to end"""
        def send(request):
            with Raw(daemon) as raw:
                raw.send(request)
                raw.socket.shutdown(socket.SHUT_WR)
                raw.rest()
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            list(pool.map(send, [request for value in self.VALUES for request in self.requests(value)]))

    def test_each_line_stays_one_object_whatever_clients_send(self):
        with Daemon("--access-log", "on", "--trusted-proxy", "127.0.0.1", "--connection-memory", "64K", "--slow-ms", "1") as daemon:
            self.send_all(daemon)
            with Client(daemon) as client:
                self.assertEqual(client.post("/v1/gather", GATHER).status, 200)
            events = lines_of(daemon)
            self.assertGreater(len(events), 5 * len(self.VALUES))
            self.assertFalse([e for e in daemon.events() if e["event"] == "forged"])
            for line in daemon.lines:
                self.assertRegex(line, r"^[ -~]*$")
            for event in events:  # a long path displaces nothing
                self.assertTrue("status" in event or "code" in event, event)

    def test_each_text_line_stays_one_line(self):
        process = subprocess.Popen([BINARY, "--listen", "127.0.0.1:0", "--access-log", "on"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   env=environment())
        lines = []
        try:
            process.host, process.port = re.search(rb"address=([\d.]+):(\d+)", process.stderr.readline()).groups()
            process.host = process.host.decode()
            reader = threading.Thread(target=lambda: lines.extend(process.stderr))
            reader.start()
            self.send_all(process)
        finally:
            process.terminate()
            process.wait(WAIT_LIMIT)
            reader.join(WAIT_LIMIT)
            process.stderr.close()
        for line in lines:
            self.assertRegex(line, rb"^\d{4}-\d\d-\d\dT\S+Z (warn|info) \S+[ -~]*\n$")


class Traces(unittest.TestCase):
    TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"

    def ids(self, *headers):
        with Daemon("--access-log", "on") as daemon:
            with Raw(daemon) as raw:
                raw.send(http_request("POST", "/v1/gather", json.dumps(GATHER).encode(), ["X-Request-Id: it", *headers]))
                self.assertEqual(raw.reply().status, 200)
            event, = [e for e in lines_of(daemon) if e["request_id"] == "it"]
            return event.get("trace_id"), event.get("parent_span_id")

    def test_one_valid_traceparent_is_logged_as_ids(self):
        one = f"traceparent: 00-{self.TRACE}-{self.SPAN}-01"
        for headers, ids in (([one], (self.TRACE, self.SPAN)), ([f"Traceparent:   cc-{self.TRACE}-{self.SPAN}-01-later  "], (self.TRACE, self.SPAN)),
                             (["traceparent: x"], (None, None)), ([one, one], (None, None)), ([one, one, one], (None, None))):
            with self.subTest(headers=headers):
                self.assertEqual(self.ids(*headers), ids)


class Slow(unittest.TestCase):
    WORKERS, LINES = 15, 10  # TD_SLOW_LINES
    OPTIONS = ("--slow-ms", "60000", "--default-timeout-ms", "0", "--workers", str(WORKERS), "--inline-limit-us", "0")

    @contextlib.contextmanager
    def slow(self, daemon, n):
        """so many requests that take 61 seconds; they end, in the same second, with the block"""
        with contextlib.ExitStack() as stack:
            raws = [stack.enter_context(Raw(daemon)) for _ in range(n)]
            with daemon.gates.closed("compute") as gate:
                for raw in raws:
                    raw.send(http_request("POST", "/v1/gather", json.dumps(GATHER).encode(), ["X-Request-Id: slow"]))
                    gate.arrival()
                daemon.clock.advance(61)
                yield
            for raw in raws:
                self.assertEqual(raw.reply().status, 200)

    def test_a_slow_request_that_fails_is_counted_too(self):
        with GatedDaemon("--slow-ms", "60000", "--workers", "1", "--inline-limit-us", "0") as daemon:
            with daemon.gates.closed("compute") as gate, Raw(daemon) as first, Raw(daemon) as late:
                body = json.dumps(GATHER).encode()
                first.send(http_request("POST", "/v1/gather", body))
                gate.arrival()
                late.send(http_request("POST", "/v1/gather", body, ["X-Request-Timeout-Ms: 70000"]))
                eventually(lambda: metric(daemon, "tensord_queue_jobs") == 1)
                daemon.clock.advance(71)
                self.assertEqual(late.reply().status, 504)
                eventually(lambda: metric(daemon, "tensord_slow_requests_total") == 1)

    def test_slow_requests_are_logged_at_warn_a_few_a_second(self):
        with GatedDaemon(*self.OPTIONS) as daemon, daemon.clock.stopped():
            with Client(daemon) as client:
                client.post("/v1/gather", GATHER, {"X-Request-Id": "fast"})
            with self.slow(daemon, self.WORKERS):
                pass
            eventually(lambda: metric(daemon, "tensord_slow_requests_total") == self.WORKERS)
            daemon.clock.advance(1)  # the next second has the report of those suppressed in this one
            report = daemon.wait_log(lambda e: e["event"] == "slow_requests")
            self.assertEqual((report["level"], report["suppressed"]), ("warn", self.WORKERS - self.LINES))
            with self.slow(daemon, 1):
                pass
            eventually(lambda: metric(daemon, "tensord_slow_requests_total") == self.WORKERS + 1)
            events = lines_of(daemon)
            slow = [e for e in events if e.get("why") == "slow"]
            self.assertFalse([e for e in events if e["request_id"] == "fast"])
            self.assertEqual(len(slow), self.LINES + 1)
            for event in slow:
                self.assertEqual((event["level"], event["event"], event["request_id"]), ("warn", "request", "slow"))
                self.assertEqual((event["compute_ms"], event["duration_ms"]), (61000, 61000))
                self.assertNotIn("suppressed", event)
            self.assertEqual(sum(e.get("suppressed", 0) for e in daemon.events()), self.WORKERS - self.LINES)

    def test_a_slow_client_is_not_a_slow_request(self):
        options = ("--header-timeout-ms", "86400000", "--min-rate", "0", "--idle-timeout-ms", "0")
        with GatedDaemon(*self.OPTIONS, *options) as daemon, Raw(daemon) as raw:
            request = http_request("POST", "/v1/gather", json.dumps(GATHER).encode(), ["X-Request-Id: it"])
            raw.send(request[:-5])
            eventually(lambda: metric(daemon, 'tensord_connections{phase="receiving"}') == 1)
            daemon.clock.advance(61)
            raw.send(request[-5:])
            self.assertEqual(raw.reply().status, 200)
            self.assertEqual(lines_of(daemon), [])


if __name__ == "__main__":
    unittest.main()
