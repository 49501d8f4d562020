"""Limits on connections, of all clients and of one, and on slow ones; health is answered whatever clients do."""
import contextlib, email.utils, subprocess
from daemon import *
from gates import GatedDaemon

BODY = b'{"params":[1,2],"indices":[1]}'
ANSWER = ("int32", [1], [2])
REQUEST = http_request("POST", "/v1/gather", BODY)
OPEN_PATHS = ("/healthz", "/readyz", "/v2/health/live", "/v2/health/ready")
OTHER = "127.0.0.2"  # another client on this machine


def once(daemon, request, source=None):
    """the reply on a connection of its own"""
    with Raw(daemon, source=source) as raw:
        raw.send(request)
        return raw.reply()


class Connections(contextlib.ExitStack):
    """Connections that stay open. A clock stands still meanwhile: one that has waited for seconds may be closed."""

    def __init__(self, daemon, n, source=None):
        super().__init__()
        if isinstance(daemon, GatedDaemon):
            self.enter_context(daemon.clock.stopped())
        self.all = [self.enter_context(Raw(daemon, source=source)) for _ in range(n)]
        for raw in self.all:  # one that has had a reply is known to the daemon
            raw.send(REQUEST)
            assert raw.reply().status == 200

    def still_open(self):
        return sum(raw.send(REQUEST) and raw.reply() is not None for raw in self.all)


class Limits(HttpTest):
    def test_connections_above_the_limit_are_refused_until_one_is_closed(self):
        with GatedDaemon("--connection-limit", "8", "--client-connections", "8") as daemon:
            with Connections(daemon, 8):
                with Raw(daemon) as late:
                    late.send(REQUEST)
                    reply = late.reply()
                    self.assertProblem(reply, 503, "CONNECTION_LIMIT", op="gather", limit=8)
                    self.assertEqual(reply.headers["Retry-After"], "1")
                    self.assertEqual(reply.headers["Connection"], "close")
                    self.assertEqual(late.rest(), b"")
            self.wait_until(lambda: once(daemon, REQUEST).status == 200)

    def test_health_is_answered_above_the_limit(self):
        with GatedDaemon("--connection-limit", "8", "--client-connections", "8") as daemon, Connections(daemon, 8):
            for path in OPEN_PATHS:
                reply = once(daemon, http_request("GET", path))
                self.assertStatus(reply, 200)
                self.assertEqual(reply.headers["Connection"], "close")
            self.assertEqual(once(daemon, http_request("GET", "/v1/ops")).status, 503)

    def test_a_client_has_half_of_the_connections(self):
        with GatedDaemon("--connection-limit", "8") as daemon, Connections(daemon, 4):
            reply = once(daemon, REQUEST)
            self.assertProblem(reply, 429, "CLIENT_LIMIT", op="gather", resource="connections", limit=4)
            self.assertEqual(reply.headers["Retry-After"], "1")
            self.assertOutput(once(daemon, REQUEST, OTHER), *ANSWER)

    def test_client_connections_is_exact(self):
        with GatedDaemon("--connection-limit", "8", "--client-connections", "3") as daemon:
            with Connections(daemon, 2):
                self.assertOutput(once(daemon, REQUEST), *ANSWER)
            self.wait_until(lambda: json.loads(once(daemon, http_request("GET", "/readyz"), OTHER).body)["open"]["connections"] == 1)
            with Connections(daemon, 3):
                self.assertEqual(once(daemon, REQUEST).status, 429)

    def test_a_waiting_connection_of_a_greedy_client_makes_room_for_another_client(self):
        with GatedDaemon("--connection-limit", "8", "--client-connections", "8") as daemon, Connections(daemon, 8) as greedy:
            self.assertOutput(once(daemon, REQUEST, OTHER), *ANSWER)
            self.assertEqual(greedy.still_open(), 7)

    def test_a_connection_that_has_waited_for_seconds_makes_room_for_any_client(self):
        with GatedDaemon("--connection-limit", "8", "--client-connections", "8") as daemon, \
                Connections(daemon, 4) as own, Connections(daemon, 4, OTHER) as others:
            daemon.clock.advance(4.9)
            self.assertProblem(once(daemon, REQUEST), 503, "CONNECTION_LIMIT", op="gather", limit=8)
            daemon.clock.advance(0.2)
            self.assertOutput(once(daemon, REQUEST), *ANSWER)
            self.assertEqual(own.still_open() + others.still_open(), 7)

    def test_health_is_answered_whatever_restricted_connections_do(self):
        with GatedDaemon("--connection-limit", "8", "--client-connections", "8") as daemon, Connections(daemon, 8), \
                contextlib.ExitStack() as stack:
            storm = [stack.enter_context(Raw(daemon)) for _ in range(300)]  # more than there are restricted places
            for raw in storm:
                raw.send(b"POST /v1/gather HT")
            for raw in storm:
                raw.wait_until_read()
            for path in OPEN_PATHS:
                self.assertStatus(once(daemon, http_request("GET", path)), 200)
            counts = json.loads(once(daemon, http_request("GET", "/readyz")).body)["connections"]
            self.assertLessEqual(counts["restricted"], 128)

    def test_a_probe_is_answered_although_another_client_connects_before_its_request(self):
        for held, later in ((0, 1), (1, 300)):  # the probe has the only place; it has one of fewer beyond the limit
            with GatedDaemon("--connection-limit", "1") as daemon, Connections(daemon, held), contextlib.ExitStack() as stack:
                with Raw(daemon) as probe:
                    storm = [stack.enter_context(Raw(daemon, source=OTHER)) for _ in range(later)]
                    for raw in storm:
                        raw.send(b"POST /v1/gather HT")
                    for raw in storm:
                        raw.wait_until_read()
                    self.assertStatus(once(daemon, http_request("GET", "/healthz"), OTHER), 200)  # all are accepted
                    probe.send(http_request("GET", "/healthz"))
                    self.assertStatus(probe.reply() or Reply(0, {}, b"closed"), 200)

    def test_readyz_counts_connections_and_their_memory(self):
        with Daemon("--connection-limit", "100") as daemon:
            def ready():
                return json.loads(once(daemon, http_request("GET", "/readyz")).body)
            before = ready()
            self.assertEqual(before["connections"]["limit"], 100)
            self.assertEqual(before["connections"]["client_limit"], 50)

            def ready_with(waiting, connections):  # without those that have asked before
                now = ready()
                return now if (now["connections"]["waiting"], now["open"]["connections"]) == (waiting, connections) else None
            with Connections(daemon, 10):
                during = self.wait_until(lambda: ready_with(10, 11))
                self.assertGreaterEqual(during["memory"]["connections"], 11 * (32 << 10))
                self.assertEqual(during["memory"]["in_use"], 0)
            after = self.wait_until(lambda: ready_with(0, 1))
            self.assertLess(after["memory"]["connections"], 36 << 10)

    def test_connections_count_against_the_memory_limit(self):
        with Daemon("--memory-limit", "2M", "--tensor-quota", "2M", "--pool-limit", "0", "--client-memory", "2M") as daemon, \
                contextlib.ExitStack() as stack:
            with Client(daemon) as client:
                table, stored = safetensors({"t": ("uint8", (60000,), bytes(60000))}), 0
                while client.request("PUT", f"/v1/tensors/t{stored}", table, {"Content-Type": SAFETENSORS}).status == 201:
                    stored += 1
                refused = 0
                for i in range(12):  # beside the tables there is room for few
                    raw = stack.enter_context(Raw(daemon, source=f"127.0.0.{2 + i}"))
                    raw.send(http_request("GET", "/v1/ops"))
                    reply = raw.reply()
                    if reply.status != 200:
                        refused += 1
                        self.assertProblem(reply, 503, "MEMORY_EXHAUSTED")
                self.assertGreater(refused, 0)
                self.assertStatus(once(daemon, http_request("GET", "/healthz")), 200)
                for i in range(stored):
                    self.assertStatus(client.request("DELETE", f"/v1/tensors/t{i}"), 204)

    def test_connections_take_a_quarter_of_the_memory_limit(self):
        with Daemon("--memory-limit", "32M") as daemon:
            limit = json.loads(once(daemon, http_request("GET", "/readyz")).body)["connections"]["limit"]
            self.assertEqual(limit, (32 << 20) // 4 // (34 << 10))
            event = daemon.wait_log(lambda e: e["event"] == "connection_limit_lowered")
            self.assertEqual((event["limit"], event["reason"]), (limit, "a quarter of --memory-limit"))

    def test_too_few_files_refuse_the_start_and_say_how_many_are_needed(self):
        event = self.start_with_files(64)
        self.assertEqual(event["event"], "too_few_files")
        self.assertEqual(event["limit"], 64)
        self.assertIn("LimitNOFILE", event["raise"])
        needed = event["needed"]
        self.assertEqual(self.start_with_files(needed - 1)["event"], "too_few_files")
        self.assertEqual(self.start_with_files(needed)["event"], "ready")

    def start_with_files(self, files):
        """the event of a daemon that may open so many files: ready or too_few_files"""
        command = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", BINARY, "--listen", "127.0.0.1:0", "--log-format", "json"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment()) as process:
            events = (json.loads(line) for line in process.stderr)
            event = next(e for e in events if e["event"] in ("ready", "too_few_files"))
            process.terminate()
            process.stderr.read()
        self.assertEqual(process.returncode == 0, event["event"] == "ready")
        return event


class FirstThread(HttpTest):
    """the first I/O thread serves the first eight connections of a client, and then only clients with few connections"""

    def closes(self, raw):
        """True if the daemon closes the connection after the reply, which says so"""
        raw.send(REQUEST)
        reply = raw.reply()
        self.assertOutput(reply, *ANSWER)
        if reply.headers["Connection"] != "close":
            return False
        self.assertEqual(raw.rest(), b"")
        return True

    def test_a_client_with_many_connections_leaves_it_to_a_client_with_few(self):
        with GatedDaemon() as daemon, Connections(daemon, 20) as many:
            self.assertFalse(any(self.closes(raw) for raw in many.all))  # nobody else is there
            with Connections(daemon, 1, OTHER) as few:
                self.assertEqual([self.closes(raw) for raw in many.all], 8 * [True] + 12 * [False])
                self.assertFalse(self.closes(few.all[0]))
                with Raw(daemon) as again:
                    self.assertFalse(self.closes(again))

    def test_a_connection_with_a_pipelined_request_does_not_move(self):
        """closing it would reset the connection, and the client could lose the end of the reply"""
        with GatedDaemon("--inline-limit-us", "0", "--workers", "1") as daemon, Connections(daemon, 20) as many, \
                Connections(daemon, 1, OTHER):
            raw = many.all[0]
            with daemon.gates.closed("compute") as gate:
                raw.send(REQUEST)
                gate.arrival()
                raw.send(REQUEST)
            reply = raw.reply()
            self.assertOutput(reply, *ANSWER)
            self.assertNotEqual(reply.headers["Connection"], "close")
            reply = raw.reply()
            self.assertOutput(reply, *ANSWER)
            self.assertEqual(reply.headers["Connection"], "close")
            self.assertEqual(raw.rest(), b"")

    def test_a_request_that_arrives_during_the_last_reply_does_not_cut_the_reply_off(self):
        body = json.dumps({"params": [1], "indices": [0] * 1000000}).encode()
        with GatedDaemon() as daemon, Connections(daemon, 20) as many, Connections(daemon, 1, OTHER):
            raw = many.all[0]
            raw.send(http_request("POST", "/v1/gather", body))
            raw.wait_until_full()
            raw.send(REQUEST)
            reply = raw.reply()
            self.assertEqual(reply.headers["Connection"], "close")
            self.assertOutput(reply, "int32", [1000000], [1] * 1000000)
            self.assertEqual(raw.rest(), b"")

    def test_a_client_with_few_connections_counts_for_a_second_after_its_last_request(self):
        with GatedDaemon() as daemon, Connections(daemon, 20) as many, Connections(daemon, 1, OTHER) as few:
            daemon.clock.advance(1.5)
            daemon.sweep()
            self.assertFalse(any(self.closes(raw) for raw in many.all))
            self.assertFalse(self.closes(few.all[0]))
            self.assertEqual([self.closes(raw) for raw in many.all], 8 * [True] + 12 * [False])

    def test_a_client_that_has_left_it_does_not_return(self):
        with GatedDaemon() as daemon, Connections(daemon, 20) as many, Connections(daemon, 1, OTHER):
            remaining = [raw for raw in many.all if not self.closes(raw)]
            self.assertEqual(len(remaining), 12)
            for raw in remaining[4:]:
                raw.close()
            with Connections(daemon, 8) as more:
                self.assertFalse(any(self.closes(raw) for raw in [*remaining[:4], *more.all]))

    def test_nothing_moves_where_a_new_connection_could_exceed_a_limit(self):
        for options in (("--client-connections", "27"), ("--connection-limit", "28", "--client-connections", "28")):
            with GatedDaemon(*options) as daemon, Connections(daemon, 20) as many, Connections(daemon, 1, OTHER):
                self.assertFalse(any(self.closes(raw) for raw in many.all))


class TrustedProxies(HttpTest):
    """each client in X-Forwarded-For has its own share of the queue; the proxy itself has no limit"""

    def test_a_proxy_has_no_limit_on_its_connections(self):
        with GatedDaemon("--connection-limit", "8", "--trusted-proxy", "127.0.0.1") as daemon, Connections(daemon, 7):
            self.assertOutput(once(daemon, REQUEST), *ANSWER)

    def test_another_peer_is_limited(self):
        with GatedDaemon("--connection-limit", "8", "--trusted-proxy", "127.0.0.1") as daemon, Connections(daemon, 4, OTHER):
            self.assertEqual(once(daemon, REQUEST, OTHER).status, 429)

    def test_each_forwarded_client_has_limits_of_its_own(self):
        """without the header the proxy is the client"""
        with GatedDaemon("--trusted-proxy", "127.0.0.1", "--client-requests", "1", "--workers", "2", "--inline-limit-us", "0") as daemon:
            for own, other in ((["X-Forwarded-For: 192.0.2.1"], ["X-Forwarded-For: 192.0.2.2"]), ([], ["X-Forwarded-For: 192.0.2.1"])):
                with daemon.gates.closed("compute") as gate, Raw(daemon) as first:
                    first.send(http_request("POST", "/v1/gather", BODY, own))
                    gate.arrival()
                    gate.let_pass()
                    self.assertProblem(once(daemon, http_request("POST", "/v1/gather", BODY, own)), 429, "CLIENT_LIMIT", op="gather")
                    self.assertOutput(once(daemon, http_request("POST", "/v1/gather", BODY, other)), *ANSWER)
                    self.assertTrue(first.is_silent())
                    gate.open()
                    self.assertOutput(first.reply(), *ANSWER)

    def test_hostile_values_are_harmless(self):
        with Daemon("--trusted-proxy", "127.0.0.0/8") as daemon:
            for value in ("", ",", ",,,,", "[", "]", "[::1", "x" * 5000, "1." * 100, "::" * 100, "192.0.2.1," * 500,
                          "192.0.2.1\t,\t", "\u00ff\u00fe"):
                reply = once(daemon, http_request("POST", "/v1/gather", BODY, [f"X-Forwarded-For: {value}"]))
                self.assertOutput(reply, *ANSWER)

    def test_a_nul_hides_nothing(self):
        with Daemon("--trusted-proxy", "127.0.0.0/8") as daemon, Raw(daemon) as raw:
            raw.send(http_request("GET", "/healthz", b"", ["X-Forwarded-For: 192.0.2.1\0, 192.0.2.2"]))
            self.assertEqual(raw.reply().status, 400)

    def test_an_invalid_list_is_refused(self):
        # 10.0.0.1/8 may be meant as one host, and would trust a network.
        for value in "nginx", "10.0.0.1/8", "2001:db8::1/32", "0.0.0.1/0":
            command = [BINARY, "--check-config", "--listen", "127.0.0.1:0", "--trusted-proxy"]
            result = subprocess.run([*command, f"10.0.0.0/8,{value}"], capture_output=True, text=True, timeout=WAIT_LIMIT, env=environment())
            self.assertEqual(result.returncode, 2)
            self.assertIn(f"--trusted-proxy: '{value}' is not an address or prefix like 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32; the bits after a prefix must be 0", result.stderr)
        good = "10.0.0.0/8,10.1.2.3/32,0.0.0.0/0,2001:db8::/32,::1"
        self.assertEqual(subprocess.run([*command, good], capture_output=True, timeout=WAIT_LIMIT, env=environment()).returncode, 0)


class SlowTest(HttpTest):
    gated = True

    def later(self, seconds):
        """the daemon looks at the connections, and so many seconds later again"""
        self.daemon.sweep()
        self.daemon.clock.advance(seconds)
        self.daemon.sweep()

    def phase(self, name):
        return self.get("/readyz").json()["connections"][name]

    PARAMS, ROWS = bytes(range(256)) * 16, 4000  # a reply of 16 MB, more than the kernel's buffers

    def send_for_large_reply(self, raw):
        body = safetensors({"params": ("uint8", (1, 4096), self.PARAMS), "indices": ("int32", (self.ROWS,), bytes(4 * self.ROWS))})
        raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        raw.send(http_request("POST", "/v1/gather", body, [f"Content-Type: {SAFETENSORS}"]))
        raw.wait_until_full()
        self.wait_until(lambda: self.phase("sending") == 1)

    def assertBreaksOff(self, raw, seconds):
        """checks that the daemon ends a reply that the client has not read for so long"""
        self.later(seconds)
        self.wait_until(lambda: self.phase("sending") == 0, "that the daemon ends the connection")
        with self.assertRaises(AssertionError):
            raw.reply()


class Slow(SlowTest):
    """clients that drip: headers may take 50 seconds, a body or a reply may stand still for so long"""
    options = ("--header-timeout-ms", "50000", "--idle-timeout-ms", "0", "--min-rate", "100K", "--default-timeout-ms", "3600000",
               "--client-connections", "50", "--connection-limit", "50")

    def assertTimeout(self, raw, option):
        reply = raw.reply()
        self.assertIsNotNone(reply, "the connection was closed without a reply")
        problem = self.assertProblem(reply, 408, "REQUEST_TIMEOUT", error=reply.json()["detail"])
        self.assertIn(option, problem["detail"])
        self.assertIsNotNone(email.utils.parsedate_to_datetime(reply.headers["Date"]))
        self.assertEqual(reply.headers["Connection"], "close")
        self.assertEqual(raw.rest(), b"")

    def wait_for_bodies(self, n):
        """waits until n requests wait for their bodies; requests are counted while the clock stands, which phases are not"""
        self.wait_until(lambda: self.get("/readyz").json()["open"]["requests"] == n)

    def drip(self, raw, beginning, drop, bodies=0):
        """begins a request and sends a drop each 24 seconds: two are in time, the third comes too late"""
        with self.daemon.clock.stopped():
            raw.send(beginning)
            raw.wait_until_read()
            self.wait_for_bodies(bodies)
            for _ in range(2):
                self.later(24)
                self.assertTrue(raw.is_silent())
                raw.send(drop)
                raw.wait_until_read()
            self.later(24)

    def test_dripping_headers_end_with_408(self):
        with Raw(self.daemon) as raw:
            self.drip(raw, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", b"a")
            self.assertTimeout(raw, "--header-timeout-ms")
        self.assertServes()

    def test_dripping_headers_of_a_second_request_end_with_408(self):
        with Raw(self.daemon) as raw:
            raw.send(REQUEST)
            self.assertOutput(raw.reply(), *ANSWER)
            self.wait_until(lambda: self.phase("waiting") == 1)
            self.later(100)  # the time between two requests does not count
            self.drip(raw, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", b"a")
            self.assertTimeout(raw, "--header-timeout-ms")

    def test_a_dripping_body_ends_with_408(self):
        with Raw(self.daemon) as raw:
            self.drip(raw, b"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n", b"[" * 100, bodies=1)
            self.assertTimeout(raw, "--min-rate")

    def test_a_dripping_chunked_body_ends_with_408(self):
        with Raw(self.daemon) as raw:
            self.drip(raw, b"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
                      b"64\r\n" + b"[" * 100 + b"\r\n", bodies=1)
            self.assertTimeout(raw, "--min-rate")

    def test_a_body_of_the_minimum_rate_is_accepted(self):
        """each 100 KiB pay for a second"""
        with Raw(self.daemon) as raw:
            body = b" " * (10 << 20) + BODY
            raw.send(http_request("POST", "/v1/gather", body)[:-len(body)])
            self.wait_until(lambda: self.phase("receiving") == 1)
            for i in range(10):
                raw.send(body[i << 20:(i + 1) << 20])
                raw.wait_until_read()
                self.later(10)
                self.assertTrue(raw.is_silent())
            raw.send(BODY)
            self.assertOutput(raw.reply(), *ANSWER)

    def test_a_reply_that_is_not_read_ends(self):
        with Raw(self.daemon) as raw:
            self.send_for_large_reply(raw)
            self.assertBreaksOff(raw, 61)
        self.assertServes()

    def test_a_connection_may_wait_for_its_next_request(self):
        with Raw(self.daemon) as fresh, Raw(self.daemon) as used:
            used.send(REQUEST)
            self.assertOutput(used.reply(), *ANSWER)
            self.later(1000)
            for raw in (fresh, used):
                raw.send(REQUEST)
                self.assertOutput(raw.reply(), *ANSWER)

    def test_dripping_connections_of_one_client_lock_nobody_out(self):
        with contextlib.ExitStack() as stack:
            slow = [stack.enter_context(Raw(self.daemon))]

            def is_alone():  # a connection from before this test has the place of one of these until the daemon has closed it
                slow[0].send(http_request("GET", "/readyz"))
                return slow[0].reply().json()["open"]["connections"] == 1
            self.wait_until(is_alone)
            slow += [stack.enter_context(Raw(self.daemon)) for _ in range(49)]
            stack.enter_context(self.daemon.clock.stopped())
            for i, raw in enumerate(slow):
                raw.send(b"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\n" + (b"X" if i % 2 else b"Content-Length: 1000\r\n\r\n"))
            for raw in slow:
                raw.wait_until_read()
            self.wait_for_bodies(25)
            self.assertStatus(once(self.daemon, http_request("GET", "/healthz")), 200)
            self.assertProblem(once(self.daemon, REQUEST), 503, "CONNECTION_LIMIT", op="gather", limit=50)
            self.assertOutput(once(self.daemon, REQUEST, OTHER), *ANSWER)  # in the place of one of them
            self.later(61)
            self.wait_until(lambda: once(self.daemon, REQUEST).status == 200, "a place for another connection")
            self.assertEqual(sorted(reply.status if reply else 0 for reply in replies_of(slow)), [0] + [408] * 49)


class SlowReaders(SlowTest):
    """a reply is larger than the kernel's buffers, so the daemon writes the next part of it seldom"""
    options = ("--idle-timeout-ms", "300000", "--min-rate", "0")

    def test_a_reply_that_is_read_steadily_is_not_idle(self):
        with Raw(self.daemon) as raw:
            self.send_for_large_reply(raw)
            for i in range(1, 11):
                while len(raw.seen) < i << 20:  # more than the client's buffer: the daemon sees that the client reads
                    self.assertTrue(raw.more())
                self.later(200)
                self.assertEqual(self.phase("sending"), 1)
            self.assertBinary(raw.reply(), "uint8", (self.ROWS, 4096), self.PARAMS * self.ROWS)

    def test_a_reply_that_is_not_read_is_idle(self):
        with Raw(self.daemon) as raw:
            self.send_for_large_reply(raw)
            self.later(200)
            self.assertEqual(self.phase("sending"), 1)
            self.assertBreaksOff(raw, 301)
        self.assertServes()
