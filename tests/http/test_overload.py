"""Overload: full queues, passed deadlines, exhausted memory and too large requests; the daemon recovers."""
import contextlib
from daemon import *
from gates import GatedDaemon

BODY = b'{"params":[1,2],"indices":[1]}'
QUEUED = ("--workers", "1", "--inline-limit-us", "0")


class Queue(HttpTest):
    options = (*QUEUED, "--queue-limit", "1")
    gated = True

    @contextlib.contextmanager
    def full_queue(self):
        """the worker is busy and the only place of the queue is taken; yields the two connections"""
        with self.daemon.gates.closed("compute") as gate, Raw(self.daemon) as computed, Raw(self.daemon) as queued:
            computed.send(http_request("POST", "/v1/gather", BODY))
            gate.arrival()
            queued.send(http_request("POST", "/v1/gather", BODY))
            self.wait_until(lambda: metric(self.daemon, "tensord_queue_jobs") == 1)
            yield gate, computed, queued

    def test_a_full_queue_is_429_with_retry_after(self):
        with self.full_queue() as (gate, computed, queued):
            for _ in range(6):
                reply = self.request("POST", "/v1/gather", BODY)
                problem = self.assertProblem(reply, 429, "QUEUE_FULL", op="gather")
                self.assertEqual(problem["detail"], "the queue is full: at most 1 requests can wait (--queue-limit)")
                self.assertRegex(reply.headers["Retry-After"], r"^[1-9][0-9]*$")
            gate.open()
            for raw in computed, queued:
                self.assertStatus(raw.reply(), 200)
        self.assertServes()

    def test_health_answers_while_the_queue_is_full(self):
        with self.full_queue():
            for path in ("/healthz", "/readyz", "/v1/ops"):
                self.assertStatus(self.get(path), 200)


class RetriesAtOnce(HttpTest):
    """refusals of a client that does not wait for Retry-After are delayed, by as long as it has done so"""
    options = (*QUEUED, "--queue-limit", "1")

    @contextlib.contextmanager
    def delayed_refusals(self, daemon):
        """A worker and the only place of the queue are occupied, and time stands still. Yields the gate, the two
        connections, and five that wait for a refusal."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(daemon.clock.stopped())
            gate = stack.enter_context(daemon.gates.closed("compute"))
            sockets = [stack.enter_context(Raw(daemon)) for _ in range(8)]
            sockets[0].send(http_request("POST", "/v1/gather", BODY))
            gate.arrival()
            sockets[1].send(http_request("POST", "/v1/gather", BODY))
            self.wait_until(lambda: metric(daemon, "tensord_queue_jobs") == 1)
            sockets[2].send(http_request("POST", "/v1/gather", BODY))
            self.assertProblem(sockets[2].reply(), 429, "QUEUE_FULL", op="gather")
            daemon.clock.advance(0.5)  # of the second that the client was told
            for raw in sockets[3:]:
                raw.send(http_request("POST", "/v1/gather", BODY))
            with Client(daemon) as client:
                self.wait_until(lambda: client.request("GET", "/readyz").json()["open"]["requests"] == 7)
            self.assertTrue(all(raw.is_silent() for raw in sockets[3:]))
            yield gate, sockets[:2], sockets[3:]

    def test_each_gets_its_refusal(self):
        with GatedDaemon(*self.options) as daemon:
            with self.delayed_refusals(daemon) as (gate, computed, refused):
                refused.pop().close()  # this client disconnects meanwhile
                daemon.clock.advance(0.5)
                for reply in replies_of(refused):
                    self.assertProblem(reply, 429, "QUEUE_FULL", op="gather")
                    self.assertRegex(reply.headers["Retry-After"], r"^[1-9][0-9]*$")
                gate.open()
                for reply in replies_of(computed):
                    self.assertStatus(reply, 200)
            with Client(daemon) as client:
                self.assertServes(client)

    def test_a_drain_ends_the_delays(self):
        with GatedDaemon(*self.options) as daemon:
            with self.delayed_refusals(daemon) as (gate, computed, refused):
                daemon.send_signal()
                for reply in replies_of(refused):
                    self.assertProblem(reply, 429, "QUEUE_FULL", op="gather")
                gate.open()
                for reply in replies_of(computed):
                    self.assertStatus(reply, 200)
            self.assertEqual(daemon.wait(), 0)


class DeviceQueue(HttpTest):
    options = ("--gpu", "reference", "--gpu-hang-ms", "3600000", "--batch-limit", "1", "--queue-limit", "3")
    gated = True

    def test_the_queue_limit_includes_requests_that_wait_for_a_device(self):
        request = http_request("POST", "/v1/gather", b'{"params":[1,2],"indices":[1],"device":"gpu"}')
        with self.daemon.gates.closed("device") as gate, contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(Raw(self.daemon)) for _ in range(12)]
            for raw in sockets[:3]:
                raw.send(request)
            phases = [f'tensord_device_queue_calls{{phase="{phase}"}}' for phase in ("waiting", "in_flight")]
            self.wait_until(lambda: sum(metric(self.daemon, phase) for phase in phases) == 3)
            for raw in sockets[3:]:
                raw.send(request)
            for reply in replies_of(sockets[3:]):
                self.assertProblem(reply, 429, "QUEUE_FULL", op="gather")
                self.assertRegex(reply.headers["Retry-After"], r"^[1-9][0-9]*$")
            gate.open()
            for reply in replies_of(sockets[:3]):
                self.assertStatus(reply, 200)
        self.assertServes()


class SmallAndLargeRequests(HttpTest):
    options = ("--workers", "1")
    gated = True

    def test_tiny_requests_are_answered_while_the_worker_is_busy(self):
        large = json.dumps({"params": list(range(100000)), "indices": [1]}).encode()
        with self.daemon.gates.closed("compute") as gate, Raw(self.daemon) as raw, Client(self.daemon) as client:
            raw.send(http_request("POST", "/v1/gather", large))
            gate.arrival()
            gate.let_pass()
            for _ in range(20):
                self.assertServes(client)
            self.assertTrue(raw.is_silent())
            gate.open()
            self.assertOutput(raw.reply(), "int32", [1], [1])

    def test_a_request_that_stores_its_result_waits_with_its_whole_cost(self):
        """what others are told about their wait depends on it"""
        def queued_work(**options):
            body = json.dumps({"equation": "ij,jk->ik", "inputs": [{"ref": "t"}] * 2, **options}).encode()
            with GatedDaemon("--workers", "1") as daemon, Client(daemon) as client:
                self.assertStatus(client.request("PUT", "/v1/tensors/t", table, {"Content-Type": SAFETENSORS}), 201)
                with daemon.gates.closed("compute") as gate, Raw(daemon) as first, Raw(daemon) as second:
                    first.send(http_request("POST", "/v1/einsum", body))
                    gate.arrival()
                    second.send(http_request("POST", "/v1/einsum", body))
                    self.wait_until(lambda: metric(daemon, "tensord_queue_jobs") == 1)
                    work = metric(daemon, "tensord_queue_work_seconds")
                    gate.open()
                    for raw in first, second:
                        self.assertStatus(raw.reply(), 200)
                    return work
        table = safetensors({"t": ("float32", (1000, 1000), bytes(4000000))})
        self.assertGreater(queued_work(store="out"), 0.5 * queued_work(response="base64"))

    def test_large_requests_are_not_starved_by_later_ones(self):
        """they are computed in the order in which they arrive, although their cost is known only when a worker has read
        them"""
        table = safetensors({"t": ("int64", (64, 64), bytes(8 * 64 * 64))})
        request = json.dumps(ring(16, {"ref": "t"})).encode()
        with GatedDaemon(*QUEUED) as daemon, Client(daemon) as client:
            self.assertStatus(client.request("PUT", "/v1/tensors/t", table, {"Content-Type": SAFETENSORS}), 201)
            with daemon.gates.closed("compute") as gate, contextlib.ExitStack() as stack:
                sockets = [stack.enter_context(Raw(daemon)) for _ in range(4)]
                for i, raw in enumerate(sockets):
                    raw.send(http_request("POST", "/v1/einsum", request, [f"X-Request-Id: request-{i}"]))
                    if i == 0:
                        arrival = gate.arrival()
                    self.wait_until(lambda i=i: metric(daemon, "tensord_queue_jobs") == i)
                for i, raw in enumerate(sockets):
                    self.assertEqual(arrival.what.split()[0], f"request-{i}")
                    arrival.release()
                    self.assertStatus(raw.reply(), 200)
                    if raw is not sockets[-1]:
                        arrival = gate.arrival()


class Deadlines(HttpTest):
    options = QUEUED
    gated = True

    def test_a_deadline_that_passes_in_the_queue_is_noticed_before_a_worker_is_free(self):
        with self.daemon.gates.closed("compute") as gate, Raw(self.daemon) as first, Raw(self.daemon) as second:
            first.send(http_request("POST", "/v1/gather", BODY, ["X-Request-Timeout-Ms: 3600000"]))
            gate.arrival()
            second.send(http_request("POST", "/v1/gather", BODY, ["X-Request-Timeout-Ms: 300000"]))
            self.wait_until(lambda: metric(self.daemon, "tensord_queue_jobs") == 1)
            self.daemon.clock.advance(301)
            problem = self.assertProblem(second.reply(), 504, "DEADLINE_EXCEEDED", op="gather")
            self.assertEqual(problem["detail"], "the deadline passed while the request waited for a worker (X-Request-Timeout-Ms is 300000)")
            gate.open()
            self.assertStatus(first.reply(), 200)

    def test_a_met_deadline_changes_nothing(self):
        for value in ("60000", "1000000", "86400000"):
            reply = self.request("POST", "/v1/gather", BODY, {"X-Request-Timeout-Ms": value})
            self.assertOutput(reply, "int32", [1], [2])

    def test_the_default_deadline_applies_to_requests_without_one(self):
        with GatedDaemon(*QUEUED, "--default-timeout-ms", "300000") as daemon:
            with daemon.gates.closed("compute") as gate, Raw(daemon) as first, Raw(daemon) as second:
                first.send(http_request("POST", "/v1/gather", BODY))
                gate.arrival()
                second.send(http_request("POST", "/v1/gather", BODY))
                self.wait_until(lambda: metric(daemon, "tensord_queue_jobs") == 1)
                daemon.clock.advance(301)
                problem = self.assertProblem(second.reply(), 504, "DEADLINE_EXCEEDED", op="gather")
                self.assertIn("(--default-timeout-ms is 300000; X-Request-Timeout-Ms sets another)", problem["detail"])

    def test_a_malformed_deadline_is_refused(self):
        for value in ("", "x", "-1", "1.5", "0", "1s", "99999999999999999999", "0x10", "1 2"):
            reply = self.request("POST", "/v1/gather", BODY, {"X-Request-Timeout-Ms": value})
            problem = self.assertProblem(reply, 400, "MALFORMED_REQUEST")
            self.assertEqual(problem["detail"], f"X-Request-Timeout-Ms is '{value}'; expected a whole number of milliseconds, from 1 to 86400000")


class Memory(HttpTest):
    options = ("--memory-limit", "16M", "--client-memory", "1G", "--client-connections", "100")

    def large(self, rows):
        return json.dumps({"params": tensor("uint8", (rows, 1), bytes(rows)), "axis": 1, "response": "base64",
                           "indices": tensor("int32", (10000,), bytes(40000))}).encode()

    def test_a_request_above_the_memory_limit_is_422(self):
        """422, not 503: a retry would not help"""
        for _ in range(30):
            reply = self.request("POST", "/v1/gather", self.large(2000))
            problem = self.assertProblem(reply, 422, "RESOURCE_LIMIT", op="gather", limit=16 << 20)
            self.assertGreater(problem["needed"], 16 << 20)
        for _ in range(30):
            self.assertStatus(self.request("POST", "/v1/gather", self.large(100)), 200)
        self.assertServes()

    def wait_until_free(self):
        """waits until no memory of the budget is in use"""
        self.wait_until(lambda: self.get("/readyz").json()["memory"]["in_use"] == 0, "that all memory is released")

    def test_a_request_above_the_free_memory_is_503_until_memory_is_released(self):
        """unread replies hold memory; other requests get 503 meanwhile"""
        for _ in range(3):
            self.wait_until_free()
            held = [Raw(self.daemon) for _ in range(8)]
            try:
                for raw in held:
                    raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                    raw.send(http_request("POST", "/v1/gather", self.large(400)))
                statuses = []
                for raw in held:
                    while b"\r\n" not in raw.seen and raw.more():
                        pass
                    statuses.append(int(raw.seen[9:12]))
                self.assertEqual(set(statuses), {200, 503})
                reply = held[statuses.index(503)].reply()
                self.assertProblem(reply, 503, "MEMORY_EXHAUSTED", op="gather")
                self.assertRegex(reply.headers["Retry-After"], r"^[1-9][0-9]*$")
                self.assertServes()
            finally:
                for raw in held:
                    raw.close()
            self.wait_until_free()
            self.assertStatus(self.request("POST", "/v1/gather", self.large(400)), 200)

    def test_a_body_above_the_memory_limit_is_refused(self):
        body = safetensors({"params": ("uint8", (1, 30 << 20), bytes(30 << 20)), "indices": ("int32", (0,), b"")})
        with Raw(self.daemon) as raw:
            raw.send(http_request("POST", "/v1/gather", body, [f"Content-Type: {SAFETENSORS}"]))
            reply = raw.reply()
            self.assertIn(reply.status, (413, 422, 503), str(reply))
            self.assertAnyProblem(reply)
        self.assertServes()

    def test_incomplete_bodies_count_against_the_memory_limit(self):
        """sixty-four clients that announce 1 MB each and send nearly all of it"""
        body = safetensors({"params": ("uint8", (1, 1 << 20), bytes(1 << 20)), "indices": ("int32", (1,), bytes(4))})
        request = http_request("POST", "/v1/gather", body, [f"Content-Type: {SAFETENSORS}"])
        sockets = [Raw(self.daemon) for _ in range(64)]
        try:
            for raw in sockets:
                raw.send(request[:-1])
            for raw in sockets:  # so that they are incomplete at the same time
                raw.wait_until_read()
            for raw in sockets:
                raw.send(request[-1:])
            statuses = []
            for raw in sockets:
                reply = raw.reply()
                statuses.append(reply.status)
                if reply.status != 200:
                    self.assertProblem(reply, 503, "MEMORY_EXHAUSTED")
            self.assertIn(503, statuses)
        finally:
            for raw in sockets:
                raw.close()
        for _ in range(20):
            self.assertServes()
        reply = self.post("/v1/gather", body, {"Content-Type": SAFETENSORS})
        self.assertBinary(reply, "uint8", (1, 1 << 20), bytes(1 << 20))


class ClientMemory(HttpTest):
    options = ("--client-memory", "1M")

    def body(self, n):
        return safetensors({"params": ("uint8", (1, n), bytes(n)), "indices": ("int32", (1,), bytes(4))})

    def test_bodies_of_one_client_have_a_limit(self):
        """the first one may exceed it; the second one may not exist beside it"""
        headers = [f"Content-Type: {SAFETENSORS}"]
        first = http_request("POST", "/v1/gather", self.body(3 << 20), headers)
        with Raw(self.daemon) as raw:
            raw.send(first[:-10])
            # Until it has arrived: beside another request it would be refused itself.
            self.wait_until(lambda: self.get("/readyz").json()["memory"]["in_use"] >= 3 << 20)
            reply = self.request("POST", "/v1/gather", self.body(100_000), {"Content-Type": SAFETENSORS})
            problem = self.assertProblem(reply, 429, "CLIENT_LIMIT", resource="memory_bytes", limit=1 << 20)
            self.assertIn("--client-memory", problem["detail"])
            self.assertRegex(reply.headers["Retry-After"], r"^[1-9][0-9]*$")
            raw.send(first[-10:])
            self.assertStatus(raw.reply(), 200)
        self.assertStatus(self.request("POST", "/v1/gather", self.body(100_000), {"Content-Type": SAFETENSORS}), 200)


class MemoryIsReleased(HttpTest):
    """/readyz reports the memory in use"""
    PRINTED = json.dumps({"params": tensor("float64", (20, 1), pack("float64", [0.1234567890123456 + i / 7 for i in range(20)])),
                          "axis": 1, "indices": tensor("int32", (10000,), bytes(40000))}).encode()  # 200000 numbers

    def in_use(self, daemon):
        with Client(daemon) as client:
            return client.request("GET", "/readyz").json()["memory"]["in_use"]

    def wait_until_free(self, daemon):
        self.wait_until(lambda: self.in_use(daemon) == 0, "that all memory is released")

    def test_after_disconnects(self):
        request = http_request("POST", "/v1/gather", self.PRINTED)
        for options in ((), QUEUED):
            with GatedDaemon(*with_default("--workers", "1", options)) as daemon:
                for stage in ("decode", "compute", "encode"):
                    with daemon.gates.closed(stage) as gate, Raw(daemon) as raw:
                        raw.send(request)
                        gate.arrival()
                        self.assertGreater(self.in_use(daemon), 0)
                        raw.socket.shutdown(socket.SHUT_RDWR)
                        raw.wait_until_end_arrives()
                    self.wait_until_free(daemon)
                with Raw(daemon) as raw:  # disconnects before the request is complete
                    raw.send(request[:-10])
                    self.wait_until(lambda daemon=daemon: self.in_use(daemon) > 0)
                self.wait_until_free(daemon)

    def test_after_passed_deadlines(self):
        request = http_request("POST", "/v1/gather", self.PRINTED, ["X-Request-Timeout-Ms: 300000"])
        for options in ((), QUEUED):
            with GatedDaemon(*with_default("--workers", "1", options)) as daemon:
                for stage in ("decode", "admit", "check"):
                    with daemon.gates.closed(stage) as gate, Raw(daemon) as raw:
                        raw.send(request)
                        gate.arrival()
                        daemon.clock.advance(301)
                        gate.open()
                        self.assertProblem(raw.reply(), 504, "DEADLINE_EXCEEDED", op="gather")
                    self.wait_until_free(daemon)

    def test_after_replies_and_errors(self):
        for options in ((), QUEUED):
            with Daemon(*options) as daemon, Client(daemon) as client:
                for body, headers, status in ((self.PRINTED, {}, 200), (self.PRINTED[:-5], {}, 400),
                                              (self.PRINTED, {"Content-Encoding": "gzip"}, 400), ({"params": [1], "indices": [5] * 30000}, {}, 422), (self.PRINTED, {"Accept": SAFETENSORS}, 200)):
                    self.assertStatus(client.post("/v1/gather", body, headers), status)
                    self.wait_until_free(daemon)

    def test_while_the_rest_of_a_refused_body_arrives(self):
        with Daemon("--max-body", "4M", "--pool-limit", "0") as daemon, Raw(daemon) as raw:
            raw.send(b"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(70):
                raw.send(b"10000\r\n" + b" " * 65536 + b"\r\n")
            raw.wait_until_read()
            self.wait_until_free(daemon)
            raw.send(b"0\r\n\r\n")
            self.assertProblem(raw.reply(), 413, "PAYLOAD_TOO_LARGE", limit=4 << 20)

    def test_an_announced_length_allocates_no_memory(self):
        with Daemon("--header-timeout-ms", "3600000") as daemon, contextlib.ExitStack() as stack:
            for _ in range(20):
                raw = stack.enter_context(Raw(daemon))
                raw.send(b"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000\r\n\r\n{")
            with Client(daemon) as client:
                self.wait_until(lambda: client.request("GET", "/readyz").json()["connections"]["receiving"] == 20)
            self.assertLess(self.in_use(daemon), 20 * (32 << 10))


class Sizes(HttpTest):
    options = ("--max-body", "100000", "--max-output", "1M")

    def test_a_length_above_the_limit_is_413_before_the_body_is_sent(self):
        for length in (100001, 10 ** 12, (1 << 63) - 1):
            with Raw(self.daemon) as raw:
                raw.send(b"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % length)
                self.assertProblem(raw.reply(), 413, "PAYLOAD_TOO_LARGE", limit=100000)
                self.assertEqual(raw.rest(), b"")

    def test_a_refused_body_above_a_small_limit_is_read(self):
        with Daemon("--max-body", "4K") as daemon, Client(daemon) as client:
            self.assertProblem(client.request("POST", "/v1/unknown", b" " * 60000), 404, "UNKNOWN_OP")
            self.assertServes(client)

    def test_a_body_of_exactly_the_limit_is_read(self):
        body = BODY + b" " * (100000 - len(BODY))
        self.assertOutput(self.request("POST", "/v1/gather", body), "int32", [1], [2])
        self.assertProblem(self.request("POST", "/v1/gather", body + b" "), 413, "PAYLOAD_TOO_LARGE", limit=100000)

    def test_chunks_above_the_limit_are_413(self):
        with Raw(self.daemon) as raw:
            raw.send(b"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(26):
                raw.send(b"fa0\r\n" + b" " * 4000 + b"\r\n")
            raw.send(b"0\r\n\r\n")
            self.assertProblem(raw.reply(), 413, "PAYLOAD_TOO_LARGE", limit=100000)

    def test_endless_chunks_are_stopped(self):
        """the error is sent, or the connection closed, long before all chunks are sent"""
        with Raw(self.daemon) as raw:
            raw.send(b"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
            sent, open_ = 0, True
            while open_ and sent < 200 << 20:
                open_ = raw.send(b"10000\r\n" + b" " * 65536 + b"\r\n")
                sent += 65536
            self.assertFalse(open_, f"{sent} bytes were accepted")
        self.assertServes()

    def test_an_output_above_the_limit_is_refused_from_its_shape(self):
        body = {"params": tensor("uint8", (300, 1), bytes(300)), "axis": 1, "indices": tensor("int32", (4000,), bytes(16000))}
        problem = self.assertProblem(self.post("/v1/gather", body), 422, "RESOURCE_LIMIT", resource="output_bytes", limit=1 << 20)
        self.assertEqual(problem["needed"], 300 * 4000)
        self.assertEqual(problem["op"], "gather")

    def test_an_output_of_exactly_the_limit_is_computed(self):
        body = {"params": tensor("uint8", (256, 1), bytes(256)), "axis": 1, "indices": tensor("int32", (4096,), bytes(16384)),
                "response": "base64"}
        self.assertStatus(self.post("/v1/gather", body), 200)
        body["params"] = tensor("uint8", (257, 1), bytes(257))
        self.assertProblem(self.post("/v1/gather", body), 422, "RESOURCE_LIMIT")

    def test_outputs_of_huge_shapes_are_refused(self):
        """a small body whose output would have at least 10^13 elements"""
        params = tensor("uint8", (10000, 1), bytes(10000))
        indices = tensor("int16", (20000, 1), bytes(40000))
        reply = self.post("/v1/gather", {"params": params, "indices": indices, "axis": 1})
        self.assertProblem(reply, 422, "RESOURCE_LIMIT", resource="output_bytes", needed=10000 * 20000)
        empty = {"dtype": "uint8", "shape": [1 << 40, 0, 1 << 40], "base64": ""}
        reply = self.post("/v1/gather", {"params": empty, "indices": tensor("int16", (20000,), bytes(40000)), "axis": 1, "bounds": "zero"})
        self.assertEqual(reply.status, 422, str(reply))
        self.assertAnyProblem(reply)
        self.assertServes()

    def test_a_long_text_of_an_empty_tensor_is_refused(self):
        """nested lists of empty lists: the tensor has no bytes, its JSON text gigabytes"""
        params = {"dtype": "int32", "shape": [3000000000, 0], "data": []}
        reply = self.post("/v1/gather", {"params": params, "indices": [], "axis": 1})
        self.assertProblem(reply, 422, "RESOURCE_LIMIT", resource="output_bytes")

    def test_strings_are_limited_by_their_bytes(self):
        body = {"params": ["x" * 2000], "indices": tensor("int16", (20000,), bytes(40000))}
        reply = self.post("/v1/gather", body)
        self.assertEqual(reply.status, 422, str(reply)[:300])
        self.assertProblem(reply, 422, "RESOURCE_LIMIT", resource="output_bytes", limit=1 << 20)
